//! The counters of TCP connections, by the edge switch of their source.

use std::collections::BTreeMap;

use weft_fabric::routing::{FlowKey, Path};
use weft_fabric::{Bytes, SwitchId};

use crate::controller::FlowCounter;
use crate::time::{Duration, Instant};

/// The last counter of each connection.
#[derive(Clone, Debug, Default)]
pub(super) struct Counters {
    flows: BTreeMap<FlowKey, Counter>,
    /// When the last reading and the one before were asked for.
    asked: [Instant; 2],
    /// Rounds that went on without the counters of some switch.
    pub late_rounds: u64,
}

/// A connection's counter.
#[derive(Clone, Copy, Debug)]
struct Counter {
    edge: SwitchId,
    bytes: Bytes,
    /// Bytes before our first reading of a connection that is older than the reading before: a scheduler that has just started does not
    /// take what a connection sent in its life for what it sends now.
    before: Bytes,
    /// When the entry was made, by our clock: the earliest that its durations allow.
    created: Instant,
    read_at: Instant,
}

impl Counters {
    /// All counters are asked for.
    pub fn ask(&mut self, now: Instant) {
        self.asked = [now, self.asked[0]];
    }

    /// Takes all counters of an edge switch; connections that are no longer among them have ended.
    pub fn replace(&mut self, now: Instant, edge: SwitchId, counters: impl Iterator<Item = (FlowKey, Bytes, Duration)>) {
        // A controller takes a connection that it sees for the first time for one that began since the reading before.
        let unseen = now.saturating_since(self.asked[1]);
        let listed: BTreeMap<FlowKey, (Bytes, Duration)> = counters.map(|(key, bytes, age)| (key, (bytes, age))).collect();
        self.flows.retain(|key, counter| counter.edge != edge || listed.contains_key(key));
        for (key, (bytes, age)) in listed {
            let made = Instant::from_ns(now.as_ns().saturating_sub(age.as_ns()));
            let old = self.flows.get(&key).filter(|old| old.edge == edge && old.bytes <= bytes);
            // An answer that took longer makes the entry look younger. A much younger one is another entry of the same connection.
            let created = old.map_or(made, |old| if made > old.created + ANOTHER { made } else { old.created.min(made) });
            let is_older = age > unseen + SLACK;
            let before = old.map_or(if is_older { bytes } else { Bytes(0) }, |old| old.before);
            let read_at = (created + age).min(now);
            self.flows.insert(key, Counter { edge, bytes, before, created, read_at });
        }
    }

    /// A connection has ended, or is idle.
    pub fn remove(&mut self, key: &FlowKey) {
        self.flows.remove(key);
    }

    /// What a connection has sent so far, and its mean rate in bits a second.
    pub fn get(&self, key: &FlowKey) -> Option<(Bytes, f64)> {
        let counter = self.flows.get(key)?;
        let seconds = counter.read_at.saturating_since(counter.created).as_secs_f64();
        Some((counter.bytes, if seconds > 0.0 { counter.bytes.bits() as f64 / seconds } else { 0.0 }))
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.flows.len()
    }

    /// All of them, ascending by key, with the paths of those that are placed.
    pub fn all<'a>(&'a self, placed: &'a BTreeMap<FlowKey, Path>) -> Vec<FlowCounter<'a>> {
        let of = |(key, counter): (&FlowKey, &Counter)| FlowCounter {
            flow: *key,
            bytes: Bytes(counter.bytes.0 - counter.before.0),
            read_at: counter.read_at,
            path: placed.get(key).map_or(&[][..], |path| &path[..]),
        };
        self.flows.iter().map(of).collect()
    }
}

/// How much later than it was asked for an answer may come.
const SLACK: Duration = Duration::from_ms(100);
/// An entry that seems to be younger by so much is another.
const ANOTHER: Duration = Duration::from_secs(1);
