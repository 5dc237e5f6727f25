//! The NICs of a flow, where hosts have several: those that the simulated worlds' [`Router`] gives it (Subways sections 4.2 and 4.3).
//!
//! ```text
//!   number of the flow, hosts --> Router: a shared ToR, else by weight over pairs of ToRs --> first and last link --> source and destination address
//!   `fail`, `restore` --> Health --´
//! ```
//! So a flow has the same NICs in every world. What lies between its two ToRs the lab's switches decide.

use std::collections::VecDeque;

use weft_fabric::routing::{FlowKey, Router, subflow_nics};
use weft_fabric::topology::Health;
use weft_fabric::traffic::FlowSpec;
use weft_fabric::{Fabric, FlowId, Instant, LinkId, NodeId};

use crate::events::{Change, Event};

/// The NICs of a connection, as indices into the addresses of its hosts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct NicPair {
    /// Of the sender.
    pub from: usize,
    /// Of the receiver.
    pub to: usize,
}

/// Selects the NICs of flows.
pub(crate) struct NicSelection<'a> {
    fabric: &'a Fabric,
    router: Router,
    health: Health,
    /// Events that are still to come, the next one first.
    events: VecDeque<Event>,
}

impl<'a> NicSelection<'a> {
    /// On a fabric on which nothing has failed; `events` are in order.
    pub(crate) fn new(fabric: &'a Fabric, router: Router, events: &[Event]) -> Self {
        Self { fabric, router, health: Health::new(fabric), events: events.iter().copied().collect() }
    }

    /// The NICs of a flow that begins now; `None` while no pair of them is connected. A flow whose connection could not be opened hashes again.
    pub(crate) fn of(&mut self, id: FlowId, spec: &FlowSpec, attempt: u32, now: Instant) -> Option<NicPair> {
        self.follow_events(now);
        let path = self.router.route(&FlowKey::of_flow(id.0, spec.src, spec.dst).salted(attempt))?;
        let (first, last) = (path[0], path[path.len() - 1]);
        Some(NicPair { from: self.nic(spec.src.node(), first), to: self.nic(spec.dst.node(), last.reverse()) })
    }

    /// The NICs of a flow's subflows, at most `count`: each connected pair in turn.
    pub(crate) fn of_subflows(
        &mut self,
        id: FlowId,
        spec: &FlowSpec,
        attempt: u32,
        now: Instant,
        count: u32,
    ) -> Option<Vec<NicPair>> {
        let any = self.of(id, spec, attempt, now)?;
        let (leaving, arriving) = (self.fabric.out(spec.src.node()), self.fabric.out(spec.dst.node()));
        let key = FlowKey::of_flow(id.0, spec.src, spec.dst);
        let pairs = (0..count).map(|subflow| subflow_nics(leaving.len(), arriving.len(), subflow));
        let mut is_connected =
            |&(from, to): &(usize, usize)| self.router.route_through(&key, &[leaving[from]], &[arriving[to].reverse()]).is_some();
        let pairs: Vec<NicPair> = pairs.filter(&mut is_connected).map(|(from, to)| NicPair { from, to }).collect();
        Some(if pairs.is_empty() { vec![any] } else { pairs })
    }

    /// Parts that fail lose their carrier, which hosts notice; silent failures are not known to them.
    fn follow_events(&mut self, now: Instant) {
        let mut has_changed = false;
        while let Some(event) = self.events.front().copied().filter(|e| e.at <= now) {
            self.events.pop_front();
            let changed = match event.change {
                Change::Fail(part) => self.health.fail(self.fabric, part),
                Change::Restore(part) => self.health.restore(self.fabric, part),
                _ => continue,
            };
            has_changed |= !changed.is_empty();
        }
        if has_changed {
            self.router.health_changed(&self.health);
        }
    }

    fn nic(&self, host: NodeId, link: LinkId) -> usize {
        self.fabric.out(host).iter().position(|&l| l == link).expect("a path leaves and arrives by links of its hosts")
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use weft_fabric::routing::Routing;
    use weft_fabric::topology::Part;
    use weft_fabric::topology::shapes::subways::{SubwaysSpec, SubwaysType};
    use weft_fabric::topology::shapes::{Cabling, Shape};
    use weft_fabric::traffic::Size;
    use weft_fabric::{BitsPerSec, Duration, HostId};

    use super::*;

    #[test]
    fn flows_avoid_a_nic_that_has_failed() {
        let link = Cabling { rate: BitsPerSec(20_000_000), delay: Duration::ZERO };
        let fabric = Shape::Subways(SubwaysSpec::testbed(SubwaysType::Type1)).build(link, link).expect("a fabric");
        let router = Router::new(Arc::new(fabric.clone()), Routing::default(), 1);
        let at = |ms, verb: fn(Part) -> Change, text| Event {
            at: Instant::ZERO + Duration::from_ms(ms),
            change: verb(Part::parse(&fabric, text).expect("a part")),
        };
        let events = [at(10, Change::Fail, "link h0-tor0"), at(20, Change::Restore, "link h0-tor0")];
        let mut nics = NicSelection::new(&fabric, router, &events);
        let mut of = |ms, dst, attempt| {
            let spec = FlowSpec { src: HostId(0), dst: HostId(dst), start: Instant::ZERO, size: Size::Infinite };
            let flows = (0..64).map(|id| nics.of(FlowId(id), &spec, attempt, Instant::ZERO + Duration::from_ms(ms)));
            let pairs: Vec<NicPair> = flows.map(|pair| pair.expect("they are connected")).collect();
            [0, 1].map(|nic| pairs.iter().filter(|p| p.from == nic).count())
        };
        // Rack 1 shares ToR 0 with rack 0; rack 2 shares none.
        assert_eq!(of(0, 4, 0), [64, 0]);
        let [a, b] = of(0, 8, 0);
        assert!(a > 20 && b > 20, "{a} and {b}");
        assert_eq!(of(15, 4, 0), [0, 64], "the shared ToR cannot be reached");
        assert_eq!(of(15, 8, 3), [0, 64]);
        assert_eq!(of(25, 8, 0), [a, b], "the same as before");
    }
}
