//! One update, server by server until its fate is known (`docs/protocol-directory.md`, "Update").
//!
//! ```text
//!   datagram   server 1 --2 s--> server 2 --2 s--> server 1 ...     every copy that was not answered may be taken yet
//!   stream     server 1 --broken or silent--> server 2 ...          so may one that went out before its stream broke
//! ```

#[cfg(test)]
mod tests;

use std::time::{Duration, Instant};

use weft_control::directory::Generation;
use weft_control::directory::copies::{Copies, UpdateResult, Verdict};
use weft_control::wire::directory::{Acknowledgement, Kind, Message, Op, Update};

use super::error::ClientError;
use super::stream::Stream;
use super::{Auth, Client, random};

/// An update that was sent before, and of which it is not known whether it was applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Again {
    /// Its number.
    pub number: u64,
    /// The revision known before it was first sent.
    pub known: Generation,
}

/// What became of an update.
#[derive(Clone, Debug)]
pub struct Updated {
    /// How it ended.
    pub result: UpdateResult,
    /// Who said so, or was asked last.
    pub server: String,
    /// Its number, of the last try that began anew.
    pub number: u64,
    /// The revision known before it was first sent.
    pub known: Generation,
}

/// A copy that went to a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Copy {
    /// The server's place in the list.
    pub server: usize,
    /// The request's number.
    pub request: u64,
    /// Whether it had a cookie: without one no server takes a datagram.
    pub has_cookie: bool,
}

/// What one server made of the copies that it was sent.
#[derive(Debug)]
pub enum Heard {
    /// It says this of a copy.
    Said(Copy, Acknowledgement),
    /// Nothing in time, or nothing more.
    Nothing(ClientError),
}

/// An update under way.
struct Trial {
    ops: Vec<Op>,
    again: Again,
    copies: Copies<Copy>,
    deadline: Instant,
}

impl Client {
    /// Changes keys, all or none, exactly once; returns when that is durable, or when it is certain why not.
    /// `again`: it was sent before, by a call that ended with [`ClientError::InDoubt`].
    ///
    /// # Errors
    /// [`ClientError::InDoubt`]: it may have been applied or not. After any other error it was not, and will not be.
    pub fn update(&mut self, ops: Vec<Op>, again: Option<Again>) -> Result<Updated, ClientError> {
        let copies = if again.is_some() { Copies::in_doubt() } else { Copies::new() };
        let again = match again {
            Some(again) => again,
            None => self.new_name()?,
        };
        let mut trial = Trial { ops, again, copies, deadline: Instant::now() + self.settings.timeout };
        let ended = self.try_servers(&mut trial);
        let Again { number, known } = trial.again;
        match ended {
            Ok((result, server)) => Ok(Updated { result, server, number, known }),
            Err(why) if trial.copies.given_up() == UpdateResult::NotApplied => Err(why),
            Err(why) => Err(ClientError::InDoubt { number, known, why: Box::new(why) }),
        }
    }

    /// A number that nobody has used, and a revision that was heard of lately.
    fn new_name(&mut self) -> Result<Again, ClientError> {
        let known = match self.known {
            Some((known, heard)) if heard.elapsed() < FRESH => known,
            _ => {
                let known = self.revision()?;
                self.known = Some((known, Instant::now()));
                known
            }
        };
        Ok(Again { number: u64::from_be_bytes(random()), known })
    }

    /// Asks one server after the other until the update is over. An error says what was heard last.
    fn try_servers(&mut self, trial: &mut Trial) -> Result<(UpdateResult, String), ClientError> {
        let mut turn = self.first_server();
        let mut declined = None;
        loop {
            let at = turn % self.settings.servers.len();
            let server = self.settings.servers[at].clone();
            let heard = match self.settings.auth {
                Auth::Mac => self.by_datagram(at, trial)?,
                Auth::Tls(_) => self.by_stream(at, trial)?,
            };
            let why = match heard {
                Heard::Nothing(why) => why,
                Heard::Said(copy, said) => match trial.copies.judge(&copy, &said) {
                    Verdict::Over(result) => {
                        if let UpdateResult::Committed(generation) = result {
                            self.known = Some((generation, Instant::now()));
                        }
                        self.prefer(at);
                        return Ok((result, server));
                    }
                    Verdict::Anew => {
                        self.known = None;
                        (trial.again, trial.copies) = (self.new_name()?, Copies::new());
                        continue;
                    }
                    Verdict::Elsewhere => {
                        declined = Some(server.clone());
                        ClientError::Stream { server, why: "it cannot take updates now".into() }
                    }
                },
            };
            turn += 1;
            if Instant::now() + PAUSE >= trial.deadline {
                return match declined.filter(|_| trial.copies.given_up() == UpdateResult::NotApplied) {
                    Some(server) => Ok((UpdateResult::NotApplied, server)),
                    None => Err(why),
                };
            }
            std::thread::sleep(PAUSE);
        }
    }

    fn by_datagram(&mut self, at: usize, trial: &mut Trial) -> Result<Heard, ClientError> {
        let until = trial.deadline.min(Instant::now() + PATIENCE);
        let message = trial.message();
        self.datagrams()?.update(at, &message, trial.again.number, &mut trial.copies, until)
    }

    /// The stream that is open, if it is to this server, or a new one. A copy was sent once a byte of it may have left.
    fn by_stream(&mut self, at: usize, trial: &mut Trial) -> Result<Heard, ClientError> {
        let until = trial.deadline.min(Instant::now() + PATIENCE);
        let server = &self.settings.servers[at];
        let open = self.stream.take().filter(|stream| stream.server() == server);
        let opened = match open {
            Some(stream) => Ok(stream),
            None => Stream::open(server, &self.settings, until),
        };
        let mut stream = match opened {
            Ok(stream) => stream,
            Err(error) if error.is_final() => return Err(error),
            Err(error) => return Ok(Heard::Nothing(error)),
        };
        let (message, number) = (trial.message(), trial.again.number);
        let copy = Copy { server: at, request: stream.next_request(), has_cookie: true };
        trial.copies.sent(copy);
        let accept = |message: &Message<'_>| match message {
            Message::Acknowledgement(said) if said.number == number => Some(*said),
            _ => None,
        };
        match stream.ask_until(until, Kind::Update, |out| message.emit(out), accept) {
            Ok(said) => {
                self.stream = Some(stream);
                Ok(Heard::Said(copy, said))
            }
            Err(error) => {
                if error.is_final() {
                    trial.copies.dead(&copy)
                } else {
                    trial.copies.lost(&copy)
                }
                if error.is_final() { Err(error) } else { Ok(Heard::Nothing(error)) }
            }
        }
    }

    /// Whom to ask first: who answered last.
    fn first_server(&self) -> usize {
        let of_stream = self.stream.as_ref().and_then(|stream| {
            let server = stream.server();
            self.settings.servers.iter().position(|it| it == server)
        });
        match (&self.settings.auth, &self.datagrams) {
            (Auth::Tls(_), _) => of_stream.unwrap_or(0),
            (Auth::Mac, Some(datagrams)) => datagrams.first(),
            (Auth::Mac, None) => 0,
        }
    }

    fn prefer(&mut self, at: usize) {
        if let (Auth::Mac, Some(datagrams)) = (&self.settings.auth, &mut self.datagrams) {
            datagrams.prefer(at);
        }
    }
}

impl Trial {
    fn message(&self) -> Message<'static> {
        Message::Update(Update { number: self.again.number, known: self.again.known, ops: self.ops.clone() })
    }
}

/// How long a revision is good as `known`: in so short a time few keys are written more often than their records remember.
const FRESH: Duration = Duration::from_secs(1);
/// How long one server has for an update.
const PATIENCE: Duration = Duration::from_secs(2);
/// Before the next server is asked.
const PAUSE: Duration = Duration::from_millis(10);
