//! How a client learns that the directory is divided, and how: it asks a server that says "elsewhere", and again when the policy has changed.
//!
//! There is no timer: as long as somebody waits for a key, servers go on to say so.

use std::net::SocketAddr;

use super::parts::PartMap;
use crate::time::{Duration, Instant};
use crate::wire::directory::{Message, Parts, PartsPage, PartsRead, PartsReader};

/// What is known, and when to ask again.
#[derive(Debug)]
pub(crate) struct Learning {
    /// The version of the policy whose map is known, if the directory is divided.
    known: Option<u32>,
    /// Not asked before.
    next: Instant,
    pause: Duration,
    reader: PartsReader,
    learned: Option<Learned>,
}

/// What a server said.
#[derive(Debug)]
pub(crate) struct Learned {
    pub from: SocketAddr,
    pub version: u32,
    pub map: Option<PartMap>,
}

impl Default for Learning {
    fn default() -> Self {
        Self { known: None, next: Instant::ZERO, pause: PAUSE, reader: PartsReader::default(), learned: None }
    }
}

impl Learning {
    /// The map of this version is in force; `None`: the directory is not divided.
    pub fn set(&mut self, version: Option<u32>) {
        if version != self.known {
            (self.known, self.next, self.pause) = (version, Instant::ZERO, PAUSE);
        }
    }

    /// Whether there may be a newer map than the one that is known, if any is.
    pub fn is_older_than(&self, policy: u32) -> bool {
        self.known.is_some_and(|known| known < policy)
    }

    /// Whether to ask now: it was not asked lately.
    pub fn is_due(&mut self, now: Instant) -> bool {
        let is_due = self.next <= now;
        if is_due {
            self.next = now + self.pause;
            self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        }
        is_due
    }

    /// The question for the page that begins with this byte.
    pub const fn question(at: u32) -> Message<'static> {
        Message::Parts(Parts { at, padding: Parts::PADDING })
    }

    /// Takes a page; where the next one begins, if there is one. An error if it is none.
    pub fn take(&mut self, from: SocketAddr, page: &PartsPage<'_>) -> Result<Option<u32>, ()> {
        match self.reader.take(page).map_err(|_| ())? {
            PartsRead::More(at) => return Ok(Some(at)),
            PartsRead::All(version, map) => self.learned = Some(Learned { from, version, map }),
        }
        Ok(None)
    }

    /// What a server said since this was asked last.
    pub fn learned(&mut self) -> Option<Learned> {
        self.learned.take()
    }
}

/// Between two questions, doubled each time.
const PAUSE: Duration = Duration::from_ms(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
