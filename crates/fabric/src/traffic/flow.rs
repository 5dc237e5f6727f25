//! The one contract between a workload and the world that carries it.

use crate::ids::{FlowId, HostId};
use crate::time::Instant;
use crate::units::Bytes;

/// How much a flow wants to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Size {
    /// So many bytes, then it ends.
    Finite(Bytes),
    /// It sends until the run ends.
    Infinite,
}

/// A flow before it is carried. `src` and `dst` differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowSpec {
    /// Sending host.
    pub src: HostId,
    /// Receiving host.
    pub dst: HostId,
    /// When it begins.
    pub start: Instant,
    /// How much it sends.
    pub size: Size,
}

/// A source of flows. A world numbers flows from 0 in the order in which it takes them.
pub trait Workload: Send {
    /// When the next flow begins; `None` if there is none until some flow ends (or ever).
    fn next_start(&self) -> Option<Instant>;

    /// Takes that flow. Starts never decrease.
    fn next_flow(&mut self) -> Option<FlowSpec>;

    /// Whether the end of a flow changes what comes.
    fn reacts(&self) -> bool {
        true
    }

    /// A flow ended: workloads that wait for it (one destination at a time, closed loop) may now have more to start,
    /// at `now` or later.
    fn flow_ended(&mut self, id: FlowId, spec: &FlowSpec, now: Instant) {
        let _ = (id, spec, now);
    }

    /// A flow has come to its receiver. Whether that takes it; one that is not taken is given up.
    fn flow_arrived(&mut self, spec: &FlowSpec) -> bool {
        let _ = spec;
        true
    }

    /// A flow is no more, and was not carried: its receiver did not take it, or its connection ended before.
    fn flow_given_up(&mut self, spec: &FlowSpec, now: Instant) {
        let _ = (spec, now);
    }

    /// Of several services, the number of that to which each flow taken so far belongs; empty if there is only one.
    fn services(&self) -> &[u16] {
        &[]
    }
}

/// Flows that are all known beforehand.
#[derive(Clone, Debug)]
pub struct StaticWorkload {
    flows: Vec<FlowSpec>,
    next: usize,
}

impl StaticWorkload {
    /// The flows, sorted by start; equal starts keep their order.
    pub fn new(mut flows: Vec<FlowSpec>) -> Self {
        flows.sort_by_key(|f| f.start);
        Self { flows, next: 0 }
    }

    /// The place in the list of each flow, by the number that a world gives it: results of a file's flows are numbered by
    /// line, and files need not be sorted.
    pub fn places(flows: &[FlowSpec]) -> Vec<FlowId> {
        let mut places: Vec<FlowId> = (0..flows.len()).map(FlowId::from).collect();
        places.sort_by_key(|p| flows[p.index()].start);
        places
    }
}

/// The flows that a workload begins without waiting for one to end, at most `limit`: to write them to a file.
pub fn flows_known_at_start(workload: &mut dyn Workload, limit: usize) -> Vec<FlowSpec> {
    std::iter::from_fn(|| workload.next_flow()).take(limit).collect()
}

impl Workload for StaticWorkload {
    fn reacts(&self) -> bool {
        false
    }

    fn next_start(&self) -> Option<Instant> {
        self.flows.get(self.next).map(|f| f.start)
    }

    fn next_flow(&mut self) -> Option<FlowSpec> {
        let flow = self.flows.get(self.next).copied();
        self.next += usize::from(flow.is_some());
        flow
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_the_lines_of_the_flows_taken() {
        let flow = |dst, ps| FlowSpec { src: HostId(0), dst: HostId(dst), start: Instant::from_ps(ps), size: Size::Infinite };
        let flows = vec![flow(1, 30), flow(2, 10), flow(3, 30), flow(4, 10)];
        let places = StaticWorkload::places(&flows);
        let taken = flows_known_at_start(&mut StaticWorkload::new(flows.clone()), usize::MAX);
        assert_eq!(places, [1, 3, 0, 2].map(FlowId));
        assert!(taken.iter().zip(places).all(|(flow, place)| *flow == flows[place.index()]));
    }
}
