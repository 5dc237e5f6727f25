//! What VL2's agents do to flows (VL2 section 4.2): the same in every simulated world.

use std::collections::BTreeMap;

use rustc_hash::FxHashSet;
use weft_control::vl2::agent::{REHASH_INTERVAL, REHASH_RATE, Rehash};
use weft_fabric::record::OverlayRecord;
use weft_fabric::{Duration, FlowId, HostId, Instant};

/// The overlay of a run; the default is none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Overlay {
    /// Whether agents give a flow another hash once its sender has run into a timeout. Rates know no timeouts.
    pub rehash: bool,
    /// Which hosts may communicate; `None`: all.
    pub services: Option<Services>,
    /// What a lookup in the directory takes: a flow's first packet waits for it at its source, and the answer to it at its destination, unless
    /// these have looked up each other before. Agents renew their leases as long as a directory server answers, so mappings stay.
    pub lookup: Duration,
}

/// The services of hosts, and which of them may resolve which others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Services {
    /// By host: its service.
    pub of_host: Vec<u16>,
    /// Pairs of an asking and another service that it may resolve, besides itself.
    pub may_resolve: Vec<(u16, u16)>,
}

impl Services {
    /// Whether two hosts may communicate: each must be allowed to resolve the other.
    pub fn permits(&self, a: HostId, b: HostId) -> bool {
        let [a, b] = [a, b].map(|host| self.of_host[host.index()]);
        a == b || self.may_resolve.contains(&(a, b)) && self.may_resolve.contains(&(b, a))
    }
}

/// The agents of all hosts in a run.
#[derive(Debug)]
pub(super) struct Agents {
    overlay: Overlay,
    /// Pairs of a host and a peer whose location it knows.
    known: FxHashSet<(HostId, HostId)>,
    /// By host.
    rehash: BTreeMap<HostId, Rehash<FlowId>>,
    pub record: OverlayRecord,
}

impl Agents {
    pub fn new(overlay: Overlay) -> Self {
        Self { overlay, known: FxHashSet::default(), rehash: BTreeMap::new(), record: OverlayRecord::default() }
    }

    /// Whether there is an overlay.
    pub fn are_there(&self) -> bool {
        self.overlay != Overlay::default()
    }

    /// Whether a flow may start; if not, that is recorded.
    pub fn admit(&mut self, id: FlowId, src: HostId, dst: HostId) -> bool {
        let is_admitted = self.overlay.services.as_ref().is_none_or(|s| s.permits(src, dst));
        if !is_admitted {
            self.record.refused.push(id);
        }
        is_admitted
    }

    /// How long a flow's first segment waits for lookups.
    pub fn look_up(&mut self, src: HostId, dst: HostId) -> Duration {
        if self.overlay.lookup == Duration::ZERO {
            return Duration::ZERO;
        }
        let misses = [(src, dst), (dst, src)].into_iter().filter(|&pair| self.known.insert(pair)).count();
        self.overlay.lookup * misses as u64
    }

    /// Whether a flow of a host that has lost a full window gets another hash; if so, that is recorded.
    pub fn rehash(&mut self, id: FlowId, src: HostId, now: Instant) -> bool {
        let host = self.rehash.entry(src).or_insert_with(|| Rehash::new(REHASH_INTERVAL, REHASH_RATE));
        let is_rehashed = host.congested(id, now.to_ns());
        self.record.rehashes += u64::from(is_rehashed);
        is_rehashed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_communicate_if_each_may_resolve_the_other() {
        let services = Services { of_host: vec![0, 0, 1, 2], may_resolve: vec![(0, 1), (1, 0), (1, 2)] };
        let permits = |a, b| services.permits(HostId(a), HostId(b));
        assert!(permits(0, 1) && permits(0, 2) && permits(2, 1) && permits(3, 3));
        assert!(!permits(2, 3) && !permits(3, 2) && !permits(0, 3));
    }

    #[test]
    fn a_pair_is_looked_up_once_from_each_side() {
        let us = Duration::from_us;
        let mut agents = Agents::new(Overlay { lookup: us(400), ..Overlay::default() });
        assert_eq!(agents.look_up(HostId(0), HostId(1)), us(800));
        assert_eq!(agents.look_up(HostId(0), HostId(1)), us(0));
        assert_eq!(agents.look_up(HostId(1), HostId(0)), us(0));
        assert_eq!(agents.look_up(HostId(0), HostId(2)), us(800));
    }
}
