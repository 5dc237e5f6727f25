//! One update, server by server until its fate is known (`docs/protocol-directory.md`, "Update").
//!
//! ```text
//!   datagram   server 1 --2 s--> server 2 --2 s--> server 1 ...     every attempt that was not answered may be taken yet
//!   stream     server 1 --broken or silent--> server 2 ...          so may one that went out before its stream broke
//! ```

#[cfg(test)]
mod tests;

use std::time::{Duration, Instant};

use weft_control::directory::Generation;
use weft_control::directory::attempts::{Attempts, UpdateResult, Verdict};
use weft_control::wire::directory::{Acknowledgement, Kind, Message, Op, Update};

use super::error::ClientError;
use super::stream::Stream;
use super::{Auth, Client, random};

/// An update that was sent before, and of which it is not known whether it was applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryToken {
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
    /// Its number, of the last try that restarted.
    pub number: u64,
    /// The revision known before it was first sent.
    pub known: Generation,
}

/// An attempt that went to a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// The server's place in the list.
    pub server: usize,
    /// The request's number.
    pub request: u64,
    /// Whether it had a cookie: without one no server takes a datagram.
    pub has_cookie: bool,
}

/// What one server made of the attempts that it was sent.
#[derive(Debug)]
pub enum Heard {
    /// It says this of an attempt.
    Said(Attempt, Acknowledgement),
    /// Nothing in time, or nothing more.
    Nothing(ClientError),
}

/// How servers are asked for an update.
#[derive(Clone)]
struct Course {
    /// Its number, and the revision known before; none: a new one.
    name: Option<RetryToken>,
    attempts: Attempts<Attempt>,
    deadline: Instant,
    /// Whether a server that says "elsewhere" is followed by the others; else it is believed, if no other can have taken the update.
    patient: bool,
}

/// An update under way.
struct PendingUpdate {
    ops: Vec<Op>,
    again: RetryToken,
    attempts: Attempts<Attempt>,
    deadline: Instant,
    /// Whether a server that says "elsewhere" is followed by the others.
    patient: bool,
}

impl Client {
    /// Changes keys, all or none, exactly once; returns when that is durable, or when it is certain why not.
    /// `again`: it was sent before, by a call that ended with [`ClientError::InDoubt`].
    ///
    /// # Errors
    /// [`ClientError::InDoubt`]: it may have been applied or not. After any other error it was not, and will not be.
    pub fn update(&mut self, ops: Vec<Op>, again: Option<RetryToken>) -> Result<Updated, ClientError> {
        if again.is_some() {
            // No server can say of one that is in doubt that it belongs elsewhere.
            self.parts()?;
        }
        let mut course = Course {
            name: again,
            attempts: if again.is_some() { Attempts::in_doubt() } else { Attempts::new() },
            deadline: Instant::now() + self.settings.timeout,
            patient: false,
        };
        let place = ops.first().map(|op| self.place(&op.key));
        let updated = self.update_in_part(&ops, course.clone())?;
        if updated.result != UpdateResult::NotApplied {
            return Ok(updated);
        }
        self.learn_parts()?;
        // The same update, unless another store is to have it.
        let same = place == ops.first().map(|op| self.place(&op.key));
        course.name = same.then_some(RetryToken { number: updated.number, known: updated.known });
        course.patient = true;
        self.update_in_part(&ops, course)
    }

    /// Asks the part of the keys.
    fn update_in_part(&mut self, ops: &[Op], course: Course) -> Result<Updated, ClientError> {
        self.check_one_part(ops.iter().map(|op| &op.key))?;
        let place = ops.first().map_or(0, |op| self.place(&op.key));
        self.at(place)?.update_here(ops.to_vec(), course)
    }

    fn update_here(&mut self, ops: Vec<Op>, course: Course) -> Result<Updated, ClientError> {
        let Course { name, attempts, deadline, patient } = course;
        let again = match name {
            Some(name) => name,
            None => self.new_name()?,
        };
        let mut pending = PendingUpdate { ops, again, attempts, deadline, patient };
        let ended = self.try_servers(&mut pending);
        let RetryToken { number, known } = pending.again;
        match ended {
            Ok((result, server)) => Ok(Updated { result, server, number, known }),
            Err(why) if pending.attempts.given_up() == UpdateResult::NotApplied => Err(why),
            Err(why) => Err(ClientError::InDoubt { number, known, why: Box::new(why) }),
        }
    }

    /// A number that nobody has used, and a revision that was heard of lately.
    fn new_name(&mut self) -> Result<RetryToken, ClientError> {
        let known = match self.known {
            Some((known, heard)) if heard.elapsed() < FRESH => known,
            _ => {
                let known = self.revision()?;
                self.known = Some((known, Instant::now()));
                known
            }
        };
        Ok(RetryToken { number: u64::from_be_bytes(random()), known })
    }

    /// Asks one server after the other until the update is over. An error says what was heard last.
    fn try_servers(&mut self, pending: &mut PendingUpdate) -> Result<(UpdateResult, String), ClientError> {
        let mut turn = self.first_server();
        let mut declined = None;
        loop {
            let at = turn % self.settings.servers.len();
            let server = self.settings.servers[at].clone();
            let heard = match self.settings.auth {
                Auth::Mac => self.by_datagram(at, pending)?,
                Auth::Tls(_) => self.by_stream(at, pending)?,
            };
            let why = match heard {
                Heard::Nothing(why) => why,
                Heard::Said(attempt, said) => match pending.attempts.assess(&attempt, &said) {
                    Verdict::Over(result) => {
                        if let UpdateResult::Committed(generation) = result {
                            self.known = Some((generation, Instant::now()));
                        }
                        self.prefer(at);
                        return Ok((result, server));
                    }
                    Verdict::Restart => {
                        self.known = None;
                        (pending.again, pending.attempts) = (self.new_name()?, Attempts::new());
                        continue;
                    }
                    Verdict::Elsewhere if !pending.patient && pending.attempts.given_up() == UpdateResult::NotApplied => {
                        return Ok((UpdateResult::NotApplied, server));
                    }
                    Verdict::Elsewhere => {
                        declined = Some(server.clone());
                        ClientError::Stream { server, why: "it cannot take updates now".into() }
                    }
                },
            };
            turn += 1;
            // An attempt without an answer may have been applied: none is begun that is unlikely to be answered, as long as it is certain that none was applied.
            let refused = declined.as_ref().filter(|_| pending.attempts.given_up() == UpdateResult::NotApplied);
            let needed = if refused.is_some() { PAUSE + LAST_ATTEMPT } else { PAUSE };
            if Instant::now() + needed >= pending.deadline {
                return match refused {
                    Some(server) => Ok((UpdateResult::NotApplied, server.clone())),
                    None => Err(why),
                };
            }
            std::thread::sleep(PAUSE);
        }
    }

    fn by_datagram(&mut self, at: usize, pending: &mut PendingUpdate) -> Result<Heard, ClientError> {
        let until = pending.deadline.min(Instant::now() + TIMEOUT);
        let message = pending.message();
        self.datagrams()?.update(at, &message, pending.again.number, &mut pending.attempts, until)
    }

    /// The stream that is open, if it is to this server, or a new one. An attempt was sent once a byte of it may have left.
    fn by_stream(&mut self, at: usize, pending: &mut PendingUpdate) -> Result<Heard, ClientError> {
        let until = pending.deadline.min(Instant::now() + TIMEOUT);
        let server = &self.settings.servers[at];
        let open = self.stream.take().filter(|stream| stream.server() == server && stream.is_fresh());
        let opened = match open {
            Some(stream) => Ok(stream),
            None => Stream::open(server, &self.settings, until),
        };
        let mut stream = match opened {
            Ok(stream) => stream,
            Err(error) if error.is_final() => return Err(error),
            Err(error) => return Ok(Heard::Nothing(error)),
        };
        let (message, number) = (pending.message(), pending.again.number);
        let attempt = Attempt { server: at, request: stream.next_request(), has_cookie: true };
        pending.attempts.sent(attempt);
        let accept = |message: &Message<'_>| match message {
            Message::Acknowledgement(said) if said.number == number => Some(*said),
            _ => None,
        };
        match stream.ask_until(until, Kind::Update, |out| message.emit(out), accept) {
            Ok(said) => {
                self.stream = Some(stream);
                Ok(Heard::Said(attempt, said))
            }
            Err(error) => {
                if error.is_final() {
                    pending.attempts.dead(&attempt)
                } else {
                    pending.attempts.lost(&attempt)
                }
                if error.is_final() { Err(error) } else { Ok(Heard::Nothing(error)) }
            }
        }
    }

    /// Whom to ask first: who answered last.
    fn first_server(&self) -> usize {
        match (&self.settings.auth, &self.datagrams) {
            (Auth::Tls(_), _) => self.server_of_stream().unwrap_or(0),
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

impl PendingUpdate {
    fn message(&self) -> Message<'static> {
        Message::Update(Update { number: self.again.number, known: self.again.known, ops: self.ops.clone() })
    }
}

/// How long a revision is good as `known`: in so short a time few keys are written more often than their records remember.
const FRESH: Duration = Duration::from_secs(1);
/// How long one server has for an update.
const TIMEOUT: Duration = Duration::from_secs(2);
/// Before the next server is asked.
const PAUSE: Duration = Duration::from_millis(10);
/// How much time the last attempt must have at least.
const LAST_ATTEMPT: Duration = Duration::from_millis(100);
