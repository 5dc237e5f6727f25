//! Several services on one fabric, each with a workload of its own.

use crate::ids::FlowId;
use crate::time::Instant;
use crate::traffic::flow::{FlowSpec, Workload};

/// Merges workloads in order of their starts; at equal times the earlier in the list goes first.
pub struct SeveralWorkloads {
    parts: Vec<Part>,
    /// By flow.
    services: Vec<u16>,
    /// By flow: its workload, and its number there.
    origins: Vec<(u16, u32)>,
}

struct Part {
    service: u16,
    workload: Box<dyn Workload>,
    taken: u32,
}

impl SeveralWorkloads {
    /// Workloads, each with the number of its service; several may belong to one service.
    pub fn new(parts: impl IntoIterator<Item = (u16, Box<dyn Workload>)>) -> Self {
        let parts = parts.into_iter().map(|(service, workload)| Part { service, workload, taken: 0 }).collect();
        Self { parts, services: Vec::new(), origins: Vec::new() }
    }

    fn next_part(&self) -> Option<(Instant, usize)> {
        self.parts.iter().enumerate().filter_map(|(i, p)| p.workload.next_start().map(|at| (at, i))).min()
    }
}

impl Workload for SeveralWorkloads {
    fn next_start(&self) -> Option<Instant> {
        self.next_part().map(|(at, _)| at)
    }

    fn next_flow(&mut self) -> Option<FlowSpec> {
        let (_, i) = self.next_part()?;
        let part = &mut self.parts[i];
        let flow = part.workload.next_flow()?;
        self.services.push(part.service);
        self.origins.push((i as u16, part.taken));
        part.taken += 1;
        Some(flow)
    }

    fn flow_ended(&mut self, id: FlowId, spec: &FlowSpec, now: Instant) {
        let (part, number) = self.origins[id.index()];
        self.parts[usize::from(part)].workload.flow_ended(FlowId(number), spec, now);
    }

    fn services(&self) -> &[u16] {
        &self.services
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::HostId;
    use crate::traffic::flow::{Size, StaticWorkload};
    use crate::units::Bytes;

    /// Begins a flow to the same host as one ends, and remembers whose end it heard of.
    struct Echo(Option<Instant>, Vec<FlowId>);

    fn flow(dst: u32, start: Instant) -> FlowSpec {
        FlowSpec { src: HostId(0), dst: HostId(dst), start, size: Size::Finite(Bytes(1)) }
    }

    impl Workload for Echo {
        fn next_start(&self) -> Option<Instant> {
            self.0
        }

        fn next_flow(&mut self) -> Option<FlowSpec> {
            self.0.take().map(|at| flow(9, at))
        }

        fn flow_ended(&mut self, id: FlowId, spec: &FlowSpec, now: Instant) {
            assert_eq!((spec.dst, id), (HostId(9), FlowId(self.1.len() as u32)), "an end of its own");
            self.1.push(id);
            self.0 = Some(now);
        }
    }

    #[test]
    fn starts_are_merged_and_ends_go_home() {
        let at = Instant::from_ps;
        let fixed = StaticWorkload::new(vec![flow(1, at(5)), flow(2, at(5)), flow(3, at(20))]);
        let mut all =
            SeveralWorkloads::new([(1, Box::new(fixed) as Box<dyn Workload>), (0, Box::new(Echo(Some(at(5)), Vec::new())))]);
        let mut taken: Vec<(u32, Instant)> = Vec::new();
        for _ in 0..3 {
            let flow = all.next_flow().expect("three begin at 5");
            taken.push((flow.dst.0, flow.start));
        }
        assert_eq!(taken, [(1, at(5)), (2, at(5)), (9, at(5))]);
        all.flow_ended(FlowId(0), &flow(1, at(5)), at(7));
        assert_eq!(all.next_start(), Some(at(20)));
        all.flow_ended(FlowId(2), &flow(9, at(5)), at(8));
        assert_eq!(all.next_flow().map(|f| f.start), Some(at(8)));
        all.flow_ended(FlowId(3), &flow(9, at(8)), at(30));
        assert_eq!(all.next_flow().map(|f| f.dst), Some(HostId(3)));
        assert_eq!(all.services(), [1, 1, 0, 0, 1]);
    }
}
