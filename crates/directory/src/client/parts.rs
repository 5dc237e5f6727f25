//! A divided directory, as a client sees it: a client for each part, and who has which keys.
//!
//! The map is asked for when a server says "elsewhere", and before what only the default part has. A server that does not know the question is one of a directory that is not
//! divided.

use std::time::{Duration, Instant};

use weft_control::directory::Key;
use weft_control::directory::parts::PartMap;
use weft_control::wire::directory::{Kind, Message, Parts as Ask, PartsPage, PartsRead, PartsReader};

use super::error::ClientError;
use super::{Client, Settings};

/// What is known of the parts.
#[derive(Debug, Default)]
pub(super) enum Parts {
    /// Nothing.
    #[default]
    Unknown,
    /// There are none, or this client asks one of them.
    None,
    /// These.
    Several(Box<Several>),
}

#[derive(Debug)]
pub(super) struct Several {
    version: u32,
    map: PartMap,
    /// In their places; those that were asked already.
    clients: Vec<Option<Client>>,
}

/// Finds the servers that have documents and tenants' records: those of the default part, or the ones that are given.
pub fn home(settings: &Settings) -> Settings {
    let home = Client::new(settings.clone()).ok().and_then(|mut client| Some(client.home().ok()?.settings.clone()));
    home.unwrap_or_else(|| settings.clone())
}

/// A part of the directory, or one that is not divided.
#[derive(Clone, Debug)]
pub struct OnePart {
    /// Its name; `None`: the directory is not divided, or only these servers are asked.
    pub name: Option<String>,
    /// Its servers.
    pub settings: Settings,
    map: Option<PartMap>,
    place: usize,
}

impl OnePart {
    /// Whether it has a key. Its servers may hold more: what is to move to it, or has moved away.
    pub fn has(&self, key: &Key) -> bool {
        self.map.as_ref().is_none_or(|map| map.part_of(key) == self.place)
    }
}

/// All parts of the directory, or the servers that are given if it is not divided.
///
/// # Errors
/// As [`Client::parts`].
pub fn split(settings: &Settings) -> Result<Vec<OnePart>, ClientError> {
    let whole = || vec![OnePart { name: None, settings: settings.clone(), map: None, place: 0 }];
    if settings.only {
        return Ok(whole());
    }
    let mut client = Client::new(settings.clone())?;
    let Some(map) = client.parts()? else { return Ok(whole()) };
    let part = |place: usize| OnePart {
        name: Some(map.parts()[place].name.clone()),
        settings: Settings { servers: servers(map, place), only: true, ..settings.clone() },
        map: Some(map.clone()),
        place,
    };
    Ok((0..map.parts().len()).map(part).collect())
}

impl Client {
    /// The parts of the directory; `None`: it is not divided.
    ///
    /// # Errors
    /// [`ClientError`] if no server can be asked.
    pub fn parts(&mut self) -> Result<Option<&PartMap>, ClientError> {
        self.know_parts()?;
        Ok(match &self.parts {
            Parts::Several(several) => Some(&several.map),
            Parts::Unknown | Parts::None => None,
        })
    }

    /// A client of one part alone, by its name.
    ///
    /// # Errors
    /// [`ClientError::NoPart`], and as [`Client::parts`].
    pub fn into_part(mut self, name: &str) -> Result<Self, ClientError> {
        let map = self.parts()?;
        let names = || map.map(PartMap::parts).unwrap_or_default().iter().map(|part| part.name.as_str()).collect::<Vec<_>>();
        let Some(place) = map.and_then(|map| map.place_of(name)) else {
            return Err(ClientError::NoPart { name: name.to_owned(), parts: names().join(", ") });
        };
        let servers = map.map(|map| servers(map, place)).unwrap_or_default();
        Self::new(Settings { servers, only: true, ..self.settings })
    }

    /// Whom it asks.
    pub fn into_settings(self) -> Settings {
        self.settings
    }

    /// The client that has documents and tenants' records.
    pub(super) fn home(&mut self) -> Result<&mut Self, ClientError> {
        self.know_parts()?;
        let place = match &self.parts {
            Parts::Several(several) => several.map.default_part(),
            Parts::Unknown | Parts::None => return Ok(self),
        };
        self.at(place)
    }

    /// The place of a key's part; 0 if the directory is not divided, as far as is known.
    pub(super) fn place(&self, key: &Key) -> usize {
        match &self.parts {
            Parts::Several(several) => several.map.part_of(key),
            Parts::Unknown | Parts::None => 0,
        }
    }

    /// The client of the part at this place.
    pub(super) fn at(&mut self, place: usize) -> Result<&mut Self, ClientError> {
        if !matches!(self.parts, Parts::Several(_)) {
            return Ok(self);
        }
        let Parts::Several(several) = &mut self.parts else { unreachable!("just seen") };
        let Several { map, clients, .. } = &mut **several;
        let client = &mut clients[place];
        match client {
            Some(client) => Ok(client),
            None => {
                let settings = Settings { servers: servers(map, place), only: true, ..self.settings.clone() };
                Ok(client.insert(Self::new(settings)?))
            }
        }
    }

    /// All keys are of one part.
    pub(super) fn check_one_part<'a>(&self, mut keys: impl Iterator<Item = &'a Key>) -> Result<(), ClientError> {
        let Parts::Several(several) = &self.parts else { return Ok(()) };
        let name = |key: &Key| several.map.parts()[several.map.part_of(key)].name.clone();
        let Some(first) = keys.next() else { return Ok(()) };
        match keys.find(|key| several.map.part_of(key) != several.map.part_of(first)) {
            Some(other) => Err(ClientError::TwoParts { first: (*first, name(first)), other: (*other, name(other)) }),
            None => Ok(()),
        }
    }

    fn know_parts(&mut self) -> Result<(), ClientError> {
        if matches!(self.parts, Parts::Unknown) { self.learn_parts() } else { Ok(()) }
    }

    /// A server has said "elsewhere": asks for the map, unless it was asked for lately.
    pub(super) fn learn_parts(&mut self) -> Result<(), ClientError> {
        let again = if matches!(self.parts, Parts::Several(_)) { MOVED_AGAIN } else { AGAIN };
        if self.settings.only || self.asked_parts.is_some_and(|at| at.elapsed() < again) {
            return Ok(());
        }
        self.asked_parts = Some(Instant::now());
        let was_unknown = matches!(self.parts, Parts::Unknown);
        let learned = match self.ask_parts() {
            Ok(learned) => learned,
            Err(error) if error.is_final() => return Err(error),
            // Of before; or nobody is there, which what is asked next will say.
            Err(_) => None,
        };
        let is_news = match (&self.parts, &learned) {
            (Parts::Several(known), Some((version, _))) => known.version < *version,
            (_, learned) => learned.is_some(),
        };
        if let Some((version, map)) = learned.filter(|_| is_news) {
            let clients = map.parts().iter().map(|_| None).collect();
            self.parts = Parts::Several(Box::new(Several { version, map, clients }));
        } else if was_unknown {
            self.parts = Parts::None;
        }
        Ok(())
    }

    /// Over UDP, or without a key on a stream.
    fn ask_parts(&mut self) -> Result<Option<(u32, PartMap)>, ClientError> {
        let deadline = Instant::now() + self.settings.timeout.min(TIMEOUT);
        let (mut reader, mut at) = (PartsReader::default(), 0);
        loop {
            let body = |out: &mut Vec<u8>| Message::Parts(Ask { at, padding: Ask::PADDING }).emit(out);
            let accept = |message: &Message<'_>| match message {
                Message::PartsPage(page) if page.at == at => Some(Page::of(page)),
                _ => None,
            };
            let left = deadline.saturating_duration_since(Instant::now());
            let page = match &mut self.datagrams {
                Some(datagrams) => datagrams.ask(Kind::Parts, body, |message| Some((accept(message)?, true)), left)?.value,
                None => {
                    let server = self.settings.servers[0].clone();
                    let mut stream = super::stream::Stream::open(&server, &self.settings, deadline)?;
                    stream.ask_until(deadline, Kind::Parts, body, accept)?
                }
            };
            let read = reader.take(&PartsPage { version: page.version, length: page.length, at, bytes: &page.bytes });
            match read {
                Ok(PartsRead::More(next)) => at = next,
                Ok(PartsRead::All(version, map)) => return Ok(map.map(|map| (version, map))),
                Err(_) => return Ok(None),
            }
        }
    }
}

/// A page, owned.
struct Page {
    version: u32,
    length: u32,
    bytes: Vec<u8>,
}

impl Page {
    fn of(page: &PartsPage<'_>) -> Self {
        Self { version: page.version, length: page.length, bytes: page.bytes.to_vec() }
    }
}

fn servers(map: &PartMap, place: usize) -> Vec<String> {
    map.parts()[place].servers.iter().map(ToString::to_string).collect()
}

/// How long servers have to say which parts there are.
const TIMEOUT: Duration = Duration::from_millis(200);
/// As long as a server goes on to say "elsewhere", it is asked again after this.
const AGAIN: Duration = Duration::from_secs(5);
/// The same where parts are known: keys may be about to move.
const MOVED_AGAIN: Duration = Duration::from_millis(100);
