//! How much a server keeps for its streams: bytes that wait to be sent or are still being received, and streams themselves. The daemon counts by it, and
//! closes the streams that it names.
//!
//! ```text
//!   a stream       256 KiB      beyond it, the stream is closed: its other end does not read
//!   a principal    8 MiB        of all its streams; who is not authenticated yet counts as one principal
//!   all            128 MiB      the last 32 MiB are for principals that may list: an operator gets in when hosts have filled the rest
//!   streams        1,024 that are not authenticated (one more ends the oldest), 4,096 of hosts, 64 of one host, 512 more for principals that may list
//! ```

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use rustc_hash::FxHashMap;

use super::key::PrincipalId;

/// How many streams there may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamLimits {
    /// That are not authenticated.
    pub unauthenticated: usize,
    /// Of principals that may not list.
    pub hosts: usize,
    /// Of one principal that may not list.
    pub principal: usize,
    /// More, of those that may.
    pub reserved: usize,
}

/// How many bytes streams may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ByteLimits {
    /// Of a stream.
    pub stream: usize,
    /// Of all streams of a principal.
    pub principal: usize,
    /// Of all streams.
    pub all: usize,
    /// Of these, for principals that may list.
    pub reserved: usize,
}

impl ByteLimits {
    /// Those of a server.
    pub const DEFAULT: Self = Self { stream: 256 << 10, principal: 8 << 20, all: 128 << 20, reserved: 32 << 20 };
}

/// What is in use. Whatever is taken must be given back once.
#[derive(Debug)]
pub struct Usage {
    streams: StreamLimits,
    bytes: ByteLimits,
    /// Bytes in use.
    used: usize,
    /// Those that have something.
    principals: FxHashMap<PrincipalId, Used>,
    /// Streams of principals that may not list, and of those that may.
    hosts: usize,
    privileged: usize,
    /// Numbers of streams that are not authenticated, oldest first.
    unauthenticated: BTreeSet<u64>,
    last_number: u64,
}

#[derive(Debug, Default)]
struct Used {
    bytes: usize,
    streams: usize,
}

impl Usage {
    /// Nothing is in use.
    pub fn new(streams: StreamLimits, bytes: ByteLimits) -> Self {
        Self {
            streams,
            bytes,
            used: 0,
            principals: FxHashMap::default(),
            hosts: 0,
            privileged: 0,
            unauthenticated: BTreeSet::new(),
            last_number: 0,
        }
    }

    /// Bytes in use.
    pub const fn bytes(&self) -> usize {
        self.used
    }

    /// Whether nothing is in use.
    pub fn is_idle(&self) -> bool {
        self.used == 0 && self.principals.is_empty() && self.hosts + self.privileged == 0 && self.unauthenticated.is_empty()
    }

    /// A new connection: its number, and that of the one that is to be closed. If there are too many that are not authenticated it is the oldest: an
    /// operator's takes milliseconds to prove who it is.
    pub fn connect(&mut self) -> (u64, Option<u64>) {
        let is_full = self.unauthenticated.len() >= self.streams.unauthenticated;
        let oldest = if is_full { self.unauthenticated.pop_first() } else { None };
        self.last_number += 1;
        self.unauthenticated.insert(self.last_number);
        (self.last_number, oldest)
    }

    /// A connection is authenticated, or ended before.
    pub fn disconnect(&mut self, number: u64) {
        self.unauthenticated.remove(&number);
    }

    /// A stream of a principal; false if there are too many, and it is to be closed.
    pub fn open(&mut self, principal: PrincipalId, may_list: bool) -> bool {
        let own = self.principals.get(&principal).map_or(0, |it| it.streams);
        let has_room = if may_list {
            self.hosts + self.privileged < self.streams.hosts + self.streams.reserved
        } else {
            // Of those that may list, what the reserve does not hold takes the place of hosts.
            let beyond = self.privileged.saturating_sub(self.streams.reserved);
            self.hosts + beyond < self.streams.hosts && own < self.streams.principal
        };
        if has_room {
            self.principals.entry(principal).or_default().streams += 1;
            *self.count(may_list) += 1;
        }
        has_room
    }

    /// A stream of a principal ended.
    pub fn close(&mut self, principal: PrincipalId, may_list: bool) {
        *self.count(may_list) -= 1;
        self.give_back(principal, |used| used.streams -= 1);
    }

    /// Room for bytes of a stream that holds `of_stream`; false if there is none, and the stream is to be closed.
    pub fn charge(&mut self, of_stream: usize, principal: PrincipalId, may_list: bool, bytes: usize) -> bool {
        let limits = &self.bytes;
        let all = if may_list { limits.all } else { limits.all - limits.reserved };
        let own = self.principals.get(&principal).map_or(0, |it| it.bytes);
        let fits = of_stream + bytes <= limits.stream && own + bytes <= limits.principal && self.used + bytes <= all;
        if fits {
            self.principals.entry(principal).or_default().bytes += bytes;
            self.used += bytes;
        }
        fits
    }

    /// Bytes that were charged are not held any more.
    pub fn release(&mut self, principal: PrincipalId, bytes: usize) {
        self.used -= bytes;
        self.give_back(principal, |used| used.bytes -= bytes);
    }

    const fn count(&mut self, may_list: bool) -> &mut usize {
        if may_list { &mut self.privileged } else { &mut self.hosts }
    }

    /// Nothing is kept of who has nothing.
    fn give_back(&mut self, principal: PrincipalId, change: impl FnOnce(&mut Used)) {
        if let Some(used) = self.principals.get_mut(&principal) {
            change(used);
            if used.bytes == 0 && used.streams == 0 {
                self.principals.remove(&principal);
            }
        }
    }
}
