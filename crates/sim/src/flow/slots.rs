//! Hash collisions counted in slots, without redistribution (Hedera section 2.2 and figure 3).
//!
//! Every host sends n flows, each at 1/n of its NIC, so a link of a NIC's speed has n slots. Flows come one after the other; a flow
//! takes a slot on every link between switches on its path, or is lost, and then takes none, if one of them has no slot left. NICs
//! do not count: nobody hashes onto them. No flow is stored, so tens of millions stream through.
//!
//! The paper gives two losses for k = 48 and not the rule. For flows to random hosts of other pods, by rule:
//!
//! | lost | n = 1 | n = 1,000 |
//! | --- | --- | --- |
//! | the paper | 60.8 % | 2.5 % |
//! | **on no link unless on all of the path** (this one) | 62.2 % | 2.5 % |
//! | in turn, with the slots before the full link used up; last stage left out | 61.7 % | 2.5 % |
//! | the same with all four stages | 67.9 % | 2.8 % |
//! | flows get the share of their worst link | 63.1 % | |

use weft_fabric::record::{ControlRecord, LinkRecord, Outcome, Sample, Traced};
use weft_fabric::routing::{FlowKey, Router};
use weft_fabric::topology::Fabric;
use weft_fabric::traffic::Workload;
use weft_fabric::{Bytes, Duration, Instant, LinkId};

/// What became of the flows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlotCount {
    /// Flows that had slots on their whole path.
    pub carried: u64,
    /// Flows lost, by the place of the first full link among the path's links between switches (0: the first after the edge
    /// switch); those without a path come last.
    pub lost: Vec<u64>,
    /// Slots in use, by link; NICs count their carried flows.
    pub used: Vec<u32>,
}

impl SlotCount {
    /// Fraction of the flows that was lost; 0 if there were none.
    pub fn loss(&self) -> f64 {
        let lost: u64 = self.lost.iter().sum();
        lost as f64 / (lost + self.carried).max(1) as f64
    }
}

/// Takes every flow of the workload, whatever its start and size, in the workload's order.
///
/// A link has as many slots as `flows_per_host` times its speed in units of the slowest NIC. Calls `progress` with the number of
/// flows so far, now and then.
pub fn count(
    fabric: &Fabric,
    router: &mut Router,
    workload: &mut dyn Workload,
    flows_per_host: u32,
    progress: &mut dyn FnMut(u64),
) -> SlotCount {
    let nic = slowest_nic(fabric);
    let slots: Vec<u32> = fabric.links().iter().map(|l| slots_of(l.capacity.0, nic, flows_per_host)).collect();
    let mut used = vec![0u32; slots.len()];
    let mut lost: Vec<u64> = vec![0];
    let (mut carried, mut number) = (0u64, 0u64);
    while let Some(flow) = workload.next_flow() {
        // Flow numbers may exceed 32 bits only in theory; keys then repeat.
        let key = FlowKey::of_flow(number as u32, flow.src, flow.dst);
        number += 1;
        if number.is_multiple_of(PROGRESS_EVERY) {
            progress(number);
        }
        let Some(path) = router.route(&key) else {
            *lost.last_mut().expect("it is never empty") += 1;
            continue;
        };
        let between = &path[1..path.len() - 1];
        if lost.len() <= between.len() {
            let without_path = lost.pop().expect("it is never empty");
            lost.resize(between.len(), 0);
            lost.push(without_path);
        }
        if let Some(stage) = between.iter().position(|l| used[l.index()] >= slots[l.index()]) {
            lost[stage] += 1;
            continue;
        }
        carried += 1;
        path.iter().for_each(|l| used[l.index()] += 1);
    }
    SlotCount { carried, lost, used }
}

/// The count as a run of `duration` (a second if that is endless): every carried flow sends at 1/n of the NIC.
/// The NIC bound is what all flows would send. There are no flow records.
pub(crate) fn outcome(fabric: &Fabric, count: &SlotCount, flows_per_host: u32, duration: Duration) -> Outcome {
    let duration = if duration == Duration::MAX { Duration::from_secs(1) } else { duration };
    let ended = Instant::ZERO + duration;
    let slot_bps = slowest_nic(fabric) as f64 / f64::from(flows_per_host.max(1));
    let bytes = |slots: f64| slots * slot_bps / 8.0 * duration.as_secs_f64();
    let flows = count.carried + count.lost.iter().sum::<u64>();
    let sample = |at, delivered, active: u64, nic_bound_bps| Sample {
        at,
        delivered,
        active: u32::try_from(active).unwrap_or(u32::MAX),
        nic_bound_bps,
    };
    let links = count.used.iter().enumerate();
    Outcome {
        links: links
            .map(|(i, &n)| LinkRecord { id: LinkId::from(i), bytes: Bytes(bytes(f64::from(n)) as u64), drops: 0 })
            .collect(),
        samples: vec![
            sample(Instant::ZERO, 0.0, flows, flows as f64 * slot_bps),
            sample(ended, bytes(count.carried as f64), flows, flows as f64 * slot_bps),
        ],
        ended,
        events: flows,
        control: ControlRecord::default(),
        packets: None,
        traced: Traced::default(),
        ..Outcome::default()
    }
}

fn slowest_nic(fabric: &Fabric) -> u64 {
    fabric.hosts().map(|h| fabric.nic_capacity(h).0).min().expect("fabrics have hosts")
}

fn slots_of(capacity: u64, nic: u64, flows_per_host: u32) -> u32 {
    let slots = u128::from(capacity) * u128::from(flows_per_host) / u128::from(nic);
    u32::try_from(slots).unwrap_or(u32::MAX)
}

/// Flows between two calls of the progress bar.
const PROGRESS_EVERY: u64 = 1 << 16;

#[cfg(test)]
mod tests {
    use super::*;
    use rand::RngExt;
    use std::sync::Arc;
    use weft_fabric::rng::{Stream, stream};
    use weft_fabric::routing::Routing;
    use weft_fabric::topology::shapes::{Cabling, fat_tree};
    use weft_fabric::traffic::{FlowSpec, Size, StaticWorkload};
    use weft_fabric::{BitsPerSec, HostId};

    fn between_pods(k: u32, flows_per_host: u32) -> SlotCount {
        let link = Cabling { rate: BitsPerSec(1_000_000_000), delay: Duration::ZERO };
        let fabric = Arc::new(fat_tree(k, link).unwrap());
        let hosts = fabric.host_count() as u32;
        let pod = hosts / k;
        let mut rng = stream(1, Stream::Traffic);
        let mut flow = |src: u32| {
            let other_pod = (src / pod + 1 + rng.random_range(0..k - 1)) % k;
            let dst = HostId(other_pod * pod + rng.random_range(0..pod));
            FlowSpec { src: HostId(src), dst, start: Instant::ZERO, size: Size::Infinite }
        };
        let flows: Vec<_> = (0..flows_per_host).flat_map(|_| 0..hosts).map(&mut flow).collect();
        let mut workload = StaticWorkload::new(flows);
        let mut router = Router::new(Arc::clone(&fabric), Routing::default(), 1);
        count(&fabric, &mut router, &mut workload, flows_per_host, &mut |_| {})
    }

    #[test]
    fn one_flow_a_host_loses_most_and_many_lose_little() {
        // Not the paper's k = 48, but the same statistics: each stage of k = 16 has 1,024 links.
        let (one, many) = (between_pods(16, 1), between_pods(16, 200));
        assert!((0.55..0.65).contains(&one.loss()), "{}", one.loss());
        assert!((0.03..0.09).contains(&many.loss()), "{}", many.loss());
        assert_eq!(one.lost.len(), 5);
        assert_eq!(one.lost[4], 0);
    }

    #[test]
    fn no_link_has_more_flows_than_slots_and_the_outcome_adds_up() {
        let link = Cabling { rate: BitsPerSec(1_000_000_000), delay: Duration::ZERO };
        let fabric = fat_tree(4, link).unwrap();
        let slots = between_pods(4, 3);
        let between = |l: usize| [fabric.links()[l].from, fabric.links()[l].to].iter().all(|&n| fabric.as_switch(n).is_some());
        assert!((0..slots.used.len()).all(|l| !between(l) || slots.used[l] <= 3));
        let outcome = outcome(&fabric, &slots, 3, Duration::MAX);
        let delivered = outcome.samples[1].delivered * 8.0;
        assert!((delivered / outcome.samples[0].nic_bound_bps - (1.0 - slots.loss())).abs() < 1e-12);
    }
}
