//! What VL2's agents do to flows (VL2 section 4.2): the same in every simulated world.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;
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
    /// By host and peer whose location it has asked for: when it knows that.
    known: FxHashMap<(HostId, HostId), Instant>,
    /// By host.
    rehash: BTreeMap<HostId, Rehash<FlowId>>,
    pub record: OverlayRecord,
}

impl Agents {
    pub fn new(overlay: Overlay) -> Self {
        Self { overlay, known: FxHashMap::default(), rehash: BTreeMap::new(), record: OverlayRecord::default() }
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

    /// From the first packet of a refused flow until its source knows: a lookup. Not at once, so that a source with refused peers alone makes time pass.
    pub fn refusal_takes(&self) -> Duration {
        self.overlay.lookup.max(LEAST_REFUSAL)
    }

    /// Until when a flow waits for the lookup that comes next: its source's, then its destination's; `now` if it waits for none.
    pub fn look_up(&mut self, src: HostId, dst: HostId, now: Instant) -> Instant {
        if self.overlay.lookup == Duration::ZERO {
            return now;
        }
        let answered = now.saturating_add(self.overlay.lookup);
        let mut known_at = |pair| *self.known.entry(pair).or_insert(answered);
        let at = known_at((src, dst));
        if at > now { at } else { known_at((dst, src)).max(now) }
    }

    /// Whether a flow of a host that has lost a full window gets another hash; if so, that is recorded.
    pub fn rehash(&mut self, id: FlowId, src: HostId, now: Instant) -> bool {
        let host = self.rehash.entry(src).or_insert_with(|| Rehash::new(REHASH_INTERVAL, REHASH_RATE));
        let is_rehashed = host.congested(id, now.to_ns());
        self.record.rehashes += u64::from(is_rehashed);
        is_rehashed
    }
}

/// What a refusal takes where lookups take nothing.
const LEAST_REFUSAL: Duration = Duration::from_us(100);

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
        let at = |us| Instant::ZERO + Duration::from_us(us);
        let mut agents = Agents::new(Overlay { lookup: Duration::from_us(400), ..Overlay::default() });
        let mut look_up = |src, dst, us| agents.look_up(HostId(src), HostId(dst), at(us));
        assert_eq!(look_up(0, 1, 0), at(400));
        assert_eq!(look_up(0, 1, 100), at(400), "the same lookup");
        assert_eq!(look_up(0, 1, 400), at(800), "the answer waits too");
        assert_eq!(look_up(1, 0, 500), at(800), "and so does a flow back");
        assert_eq!((look_up(0, 1, 800), look_up(1, 0, 800)), (at(800), at(800)));
        // Both ends ask at once, and know at once.
        assert_eq!((look_up(2, 3, 0), look_up(3, 2, 0)), (at(400), at(400)));
        assert_eq!((look_up(2, 3, 400), look_up(3, 2, 400)), (at(400), at(400)));
    }
}
