//! A writer's machine (VL2, section 4.3.2): an update goes to a random server; one that is not acknowledged within 2 s goes to another, with
//! the same number, and is applied once all the same. No I/O.
//!
//! ```text
//!   Submit --> is `known` fresh? --no--> Health --> Vitals: `known` = its revision
//!                   | yes                                |
//!                   v                                    v
//!              Update to a random server <---------------+
//!                   | Acknowledgement: committed, refused, conflict, malformed --> Done
//!                   | elsewhere: this attempt is dead  --> another server, soon
//!                   | nothing for 2 s               --> another server, the same number
//!                   | stale: this attempt is dead; if all others are, too --> a new number, with a fresh `known`
//!                   v deadline
//!                 Done: not applied if every attempt is dead, else nobody knows
//! ```
//! What a server says of one attempt means for the update what [`attempts`](super::attempts) makes of it.
//!
//! A divided directory has a machine of this kind for each [part](super::parts); the writer learns of them from a server that says "elsewhere".

mod part;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::net::SocketAddr;

use weft_fabric::rng::Pcg64;

use self::part::{Misplaced, PartUpdater};
use super::attempts::UpdateResult;
use super::auth::PrincipalKey;
use super::key::{Key, PrincipalId};
use super::learning::Learned;
use super::parts::PartMap;
use crate::time::{Duration, Instant};
use crate::wire::directory::{Op, Versions};

/// The configuration of a writer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UpdaterConfig {
    /// Who writes.
    pub principal: PrincipalId,
    /// Without an acknowledgement the same goes to another server after so long: 2 s (VL2, section 4.3.2).
    pub timeout: Duration,
    /// After so long nobody waits for an update any longer.
    pub give_up: Duration,
    /// Updates under way at most.
    pub waiting_max: usize,
    /// Greater than every number that this principal ever gave to a request from this address or to an update, such as the nanoseconds since
    /// 1970.
    pub first_number: u64,
    /// Of the protocol.
    pub versions: Versions,
}

impl UpdaterConfig {
    /// The usual settings for a principal.
    pub const fn new(principal: PrincipalId) -> Self {
        Self {
            principal,
            timeout: Duration::from_secs(2),
            give_up: Duration::from_secs(10),
            waiting_max: 65_536,
            first_number: 0,
            versions: Versions::OURS,
        }
    }
}

/// What happens to an updater.
#[derive(Clone, Debug)]
pub enum Input<'a> {
    /// Change these keys, all or none.
    Submit {
        /// 1 to 32 operations, each of another key; all of one part of the directory: [`UpdateResult::Malformed`] names the first of another.
        ops: Vec<Op>,
        /// Comes back with the outcome.
        token: u64,
    },
    /// A datagram came.
    Datagram {
        /// From which address.
        from: SocketAddr,
        /// Its bytes.
        bytes: &'a [u8],
    },
    /// The deadline has come.
    Timer,
    /// The directory servers, from now on; of a divided directory, some of them.
    SetServers(&'a [SocketAddr]),
}

/// What an updater wants done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Send a datagram.
    Send {
        /// To this server.
        to: SocketAddr,
        /// These bytes.
        bytes: Vec<u8>,
    },
    /// An update has ended.
    Done {
        /// As it was given.
        token: u64,
        /// How it ended.
        result: UpdateResult,
    },
}

/// The writer's machine.
#[derive(Debug)]
pub struct Updater {
    config: UpdaterConfig,
    key: PrincipalKey,
    rng: Pcg64,
    servers: Vec<SocketAddr>,
    /// In the places of the map; one while the directory is not divided.
    parts: Vec<PartUpdater>,
    /// Of parts that are no more: what their servers may have taken.
    leaving: Vec<PartUpdater>,
    map: Option<PartMap>,
    version: u32,
    start: Option<Instant>,
    out: VecDeque<Output>,
}

impl Updater {
    /// A writer that knows no server yet.
    pub fn new(config: UpdaterConfig, key: &PrincipalKey, rng: Pcg64) -> Self {
        Self {
            servers: Vec::new(),
            parts: vec![PartUpdater::new(config, key, rng.clone())],
            leaving: Vec::new(),
            map: None,
            version: 0,
            start: None,
            out: VecDeque::new(),
            key: key.clone(),
            rng,
            config,
        }
    }

    /// Something happened.
    pub fn handle(&mut self, now: Instant, input: Input<'_>) {
        self.start.get_or_insert(now);
        match input {
            Input::Submit { ops, token } => self.submit(now, ops, token),
            Input::Datagram { from, bytes } => {
                let mut all = self.parts.iter_mut().chain(&mut self.leaving);
                let Some(part) = all.find(|part| part.expects(from, bytes)) else { return };
                part.handle(now, input);
                if let Some(learned) = part.learned() {
                    self.learn(now, learned);
                }
                self.sort(now);
            }
            Input::Timer => {
                self.parts.iter_mut().chain(&mut self.leaving).for_each(|part| part.handle(now, Input::Timer));
                self.sort(now);
            }
            Input::SetServers(list) => {
                self.servers = list.to_vec();
                if self.map.is_none() {
                    self.parts[0].handle(now, input);
                }
            }
        }
    }

    /// What is to be done next; `None`: nothing until the next input.
    pub fn poll(&mut self) -> Option<Output> {
        self.out.pop_front().or_else(|| self.parts.iter_mut().chain(&mut self.leaving).find_map(PartUpdater::poll))
    }

    /// When [`Input::Timer`] is due; `None`: nothing is under way.
    pub fn deadline(&self) -> Option<Instant> {
        self.parts.iter().chain(&self.leaving).filter_map(PartUpdater::deadline).min()
    }

    /// Updates under way.
    pub fn waiting(&self) -> usize {
        self.parts.iter().chain(&self.leaving).map(PartUpdater::waiting).sum()
    }

    fn submit(&mut self, now: Instant, ops: Vec<Op>, token: u64) {
        let place = ops.first().map_or(0, |op| self.place(&op.key));
        if let Some(at) = ops.iter().position(|op| self.place(&op.key) != place) {
            return self.out.push_back(Output::Done { token, result: UpdateResult::Malformed(at as u8) });
        }
        self.parts[place].handle(now, Input::Submit { ops, token });
    }

    fn place(&self, key: &Key) -> usize {
        self.map.as_ref().map_or(0, |map| map.part_of(key))
    }

    fn learn(&mut self, now: Instant, Learned { version, map, .. }: Learned) {
        if version > self.version {
            self.version = version;
            if map.is_some() || self.map.is_some() {
                self.divide(now, map);
            }
        }
        let known = self.map.as_ref().map(|_| self.version);
        self.parts.iter_mut().for_each(|part| part.set_parts_version(known));
    }

    /// The directory has other parts. Updates that a server may have taken stay with those that are no more.
    fn divide(&mut self, now: Instant, map: Option<PartMap>) {
        use rand::RngExt;
        let old_map = std::mem::replace(&mut self.map, map);
        let mut old: Vec<Option<PartUpdater>> = std::mem::take(&mut self.parts).into_iter().map(Some).collect();
        let places = self.map.as_ref().map_or(1, |map| map.parts().len());
        for place in 0..places {
            let name = self.map.as_ref().map(|map| &map.parts()[place].name);
            let kept = old_map.as_ref().zip(name).and_then(|(old, name)| old.place_of(name));
            let mut part = kept.and_then(|place| old[place].take()).unwrap_or_else(|| {
                let mut rng = self.rng.clone();
                let seed = u128::from(rng.random::<u64>());
                let rng = Pcg64::new(seed, u128::from(self.version) << 16 | place as u128);
                // As if the writer began now: no store had these numbers from an earlier machine.
                let elapsed = now.saturating_since(self.start.unwrap_or(now)).as_ns();
                let first_number = self.config.first_number.saturating_add(elapsed);
                PartUpdater::new(UpdaterConfig { first_number, ..self.config }, &self.key, rng)
            });
            let list = self.map.as_ref().map_or(&self.servers, |map| &map.parts()[place].servers);
            part.handle(now, Input::SetServers(list));
            self.parts.push(part);
        }
        self.leaving.extend(old.into_iter().flatten());
    }

    /// Brings updates that no server took to the parts that have their keys.
    fn sort(&mut self, now: Instant) {
        let Some(map) = &self.map else { return };
        let of_parts = self.parts.iter_mut().enumerate();
        let mut misplaced: Vec<Misplaced> =
            of_parts.flat_map(|(place, part)| part.misplaced(|key| map.part_of(key) == place)).collect();
        misplaced.extend(self.leaving.iter_mut().flat_map(|part| part.misplaced(|_| false)));
        for mut part in self.leaving.extract_if(.., |part| part.waiting() == 0) {
            self.out.extend(std::iter::from_fn(|| part.poll()));
        }
        self.place_all(now, misplaced);
    }

    fn place_all(&mut self, now: Instant, misplaced: Vec<Misplaced>) {
        for update in misplaced {
            let places = |op: &Op| self.place(&op.key);
            let place = update.ops.first().map_or(0, places);
            match update.ops.iter().position(|op| places(op) != place) {
                None => self.parts[place].adopt(now, update),
                Some(at) => {
                    self.out.push_back(Output::Done { token: update.token, result: UpdateResult::Malformed(at as u8) });
                }
            }
        }
    }
}
