//! The tenants' file and SPAIN's tables as the directory's store has them (section 3.3): a thread that asks now and then, and writes a file when there is a
//! newer one.
//!
//! ```text
//!   store --> directory servers --(version, text)--> checked --> a file, whole --> the agent reads it as if somebody had edited it
//! ```
//! So the files are what the agent goes by while it hears from no server, and after a restart. Where the store has records of tenants, their file is the business
//! of [`records`](super::records).

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use parking_lot::Mutex;
use serde_json::{Value, json};
use weft_control::netlord::spain::{self, SpainTables};
use weft_control::netlord::tenants::{self, Tenants};

use super::config::HostConfig;
use super::records::Records;
use super::watched::changed_at;
use crate::error::{Error, Result};
use weft_directory::atomic_file;
use weft_directory::client::{Client, Fetched, Settings};

/// What is known of the store's documents.
#[derive(Debug)]
pub(super) struct Repository {
    state: Arc<Mutex<State>>,
    begun: Instant,
}

#[derive(Debug, Default)]
struct State {
    /// By document: the version that a server reported last.
    versions: BTreeMap<&'static str, u32>,
    /// When.
    heard: Option<Instant>,
    /// Why the last try gave nothing.
    silence: Option<String>,
    /// By text: what is wrong with what the store has.
    troubles: BTreeMap<&'static str, String>,
}

/// A text, and the file that is kept like it.
struct Kept {
    name: &'static str,
    file: PathBuf,
    /// The version that a right text says it has.
    version: fn(&str) -> std::result::Result<u32, String>,
    /// That of the file, and when it was changed.
    own: Option<(SystemTime, u32)>,
}

impl Repository {
    /// Begins to ask, if the configuration wants it.
    ///
    /// # Errors
    /// [`Error`] if keys or certificates cannot be read, or there is no thread to be had.
    pub fn begin(config: &HostConfig) -> Result<Option<(Self, Records)>> {
        let Some((settings, period)) = config.repository()? else { return Ok(None) };
        let records = Records::begin(settings.clone(), period, config.tenants.get_ref().clone())?;
        let is_document = records.document_checker();
        let mut all = vec![Kept {
            name: tenants::DOCUMENT,
            file: config.tenants.get_ref().clone(),
            version: version_of_tenants,
            own: None,
        }];
        let paths = config.paths.iter().map(|it| it.get_ref().clone());
        all.extend(paths.map(|file| Kept { name: spain::DOCUMENT, file, version: version_of_tables, own: None }));
        let state = Arc::new(Mutex::new(State::default()));
        let work = {
            let state = Arc::clone(&state);
            move || keep(&settings, period, all, &state, &is_document)
        };
        let begun = std::thread::Builder::new().name("repository".to_owned()).spawn(work);
        begun.map_err(Error::system("start the repository's thread", "is the machine out of memory?"))?;
        Ok(Some((Self { state, begun: Instant::now() }, records)))
    }

    pub fn status(&self) -> Value {
        let state = self.state.lock();
        let heard_s = state.heard.map(|at| at.elapsed().as_secs_f64());
        let error = state.troubles.values().next().or(state.silence.as_ref());
        json!({ "documents": state.versions, "heard_s": heard_s, "error": error })
    }

    /// What somebody must look at. Servers may be away for a while: the files hold.
    pub fn problem(&self) -> Option<String> {
        let state = self.state.lock();
        if let Some((name, trouble)) = state.troubles.iter().next() {
            return Some(format!("the store's `{name}` is not taken: {trouble}"));
        }
        let outage = state.heard.unwrap_or(self.begun).elapsed();
        let why = state.silence.as_ref().filter(|_| outage > AWAY)?;
        Some(format!("the repository has not answered for {} s: {why}", outage.as_secs()))
    }
}

fn version_of_tenants(text: &str) -> std::result::Result<u32, String> {
    Tenants::parse(text).map(|it| it.version).map_err(|error| error.to_string())
}

fn version_of_tables(text: &str) -> std::result::Result<u32, String> {
    SpainTables::parse(text).map(|it| it.version).map_err(|error| error.to_string())
}

fn keep(settings: &Settings, period: Duration, mut all: Vec<Kept>, state: &Mutex<State>, is_document: &impl Fn() -> bool) {
    let mut client = None;
    loop {
        let is_document = is_document();
        if !is_document {
            let mut state = state.lock();
            state.versions.remove(tenants::DOCUMENT);
            state.troubles.remove(tenants::DOCUMENT);
        }
        let mut asked = all.iter_mut().filter(|kept| is_document || kept.name != tenants::DOCUMENT);
        let asked = asked.try_for_each(|kept| ask(&mut client, settings, kept, state));
        {
            let mut state = state.lock();
            match asked {
                Ok(()) => (state.heard, state.silence) = (Some(Instant::now()), None),
                Err(error) => {
                    client = None;
                    if state.silence.replace(error.clone()).is_none() {
                        tracing::warn!(error, "the repository does not answer; files hold");
                    }
                }
            }
        }
        std::thread::sleep(period);
    }
}

fn ask(
    client: &mut Option<Client>,
    settings: &Settings,
    kept: &mut Kept,
    state: &Mutex<State>,
) -> std::result::Result<(), String> {
    let own = kept.own_version();
    let client = match client {
        Some(client) => client,
        None => client.insert(Client::new(settings.clone()).map_err(|e| e.to_string())?),
    };
    let (fetched, server) = client.document(kept.name, own).map_err(|e| e.to_string())?;
    let (version, bytes) = match fetched {
        Fetched::None => return Err(format!("{server} has no `{0}`: `weft directory publish {0} FILE` makes it", kept.name)),
        Fetched::Known => (own, None),
        Fetched::Document { version, bytes } => (version, Some(bytes)),
    };
    let taken = bytes.map_or(Ok(()), |bytes| kept.take(own, version, &bytes));
    let mut state = state.lock();
    state.versions.insert(kept.name, version);
    match taken {
        Ok(()) => state.troubles.remove(kept.name),
        Err(trouble) => state.troubles.insert(kept.name, trouble),
    };
    Ok(())
}

impl Kept {
    /// The version of the file; 0 if it is not there, or not right. It is read when it has changed.
    fn own_version(&mut self) -> u32 {
        let Some(changed) = changed_at(&self.file) else { return 0 };
        if let Some((_, version)) = self.own.filter(|(at, _)| *at == changed) {
            return version;
        }
        let read = std::fs::read_to_string(&self.file).ok();
        let version = read.and_then(|text| (self.version)(&text).ok()).unwrap_or(0);
        self.own = Some((changed, version));
        version
    }

    /// Writes a newer file.
    fn take(&self, own: u32, version: u32, bytes: &[u8]) -> std::result::Result<(), String> {
        let Self { name, file, .. } = self;
        let text = std::str::from_utf8(bytes).map_err(|_| format!("version {version} is not text"))?;
        let said = (self.version)(text).map_err(|error| format!("version {version}: {error}"))?;
        if said != version {
            return Err(format!("version {version} says that it is version {said}"));
        }
        if version < own {
            return Err(format!("it has version {version}, and {} has {own}, which holds", file.display()));
        }
        atomic_file::write(file, bytes).map_err(|error| format!("{} cannot be written: {error}", file.display()))?;
        tracing::info!(name, version, "the store has a newer document");
        Ok(())
    }
}

/// How long servers may be away before somebody should look.
const AWAY: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn text(version: u32) -> String {
        format!("version = {version}\nservice = 1\n[[tenant]]\nid = 17\nname = \"acme\"\n")
    }

    #[test]
    fn only_a_right_and_newer_file_is_taken() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("tenants.toml");
        let kept = |file: &Path| Kept { name: tenants::DOCUMENT, file: file.to_owned(), version: version_of_tenants, own: None };
        let take = |file: &Path, own, version, bytes: &[u8]| kept(file).take(own, version, bytes);
        take(&file, 0, 3, text(3).as_bytes()).unwrap();
        let held = || std::fs::read_to_string(&file).unwrap();
        assert_eq!(held(), text(3));
        for (version, bytes, said) in [
            (2, text(2).into_bytes(), "has 3, which holds"),
            (5, text(4).into_bytes(), "says that it is version 4"),
            (4, b"version = 4\nservice = 1\n[[tenant]]\nid = 1\nname = \"x\"\n".to_vec(), "version 4: "),
            (4, vec![0xff], "not text"),
        ] {
            let error = take(&file, 3, version, &bytes).unwrap_err();
            assert!(error.contains(said), "{error}");
            assert_eq!(held(), text(3), "nothing was changed");
        }
        assert!(take(Path::new("/nowhere/tenants.toml"), 0, 4, text(4).as_bytes()).unwrap_err().contains("cannot be written"));
        take(&file, 3, 4, text(4).as_bytes()).unwrap();
        assert_eq!(held(), text(4));
    }
}
