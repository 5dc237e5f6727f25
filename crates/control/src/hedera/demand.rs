//! Demand estimation: the rate that each flow would reach if only the NICs of its two ends limited it (Hedera section 4.2, figure 7).
//!
//! Figure 7 alternates two steps until nothing changes: every source shares what its converged flows leave among the others, and
//! every overloaded destination caps the flows that exceed its equal share, which converge. What it converges *to* can be had
//! directly. At its fixed point
//!
//! - a flow that has not converged gets its source's share: the source's NIC is full, and none of its flows is faster, because
//!   a source's share never falls and every converged flow was cut to at most the share of its time;
//! - a flow that has converged gets its destination's level: that NIC is full, and none of its flows is faster, because the
//!   level never rises and cuts all that exceed it.
//!
//! So every flow has a full NIC at which no flow is faster, and that is the definition of the max-min fair rates, of which there
//! is one set only. We fill NICs in the order of their shares (progressive filling):
//!
//! ```text
//!   take the NIC with the smallest  (capacity left) / (flows not fixed);  fix these flows at that rate;
//!   subtract it at their other ends, whose shares can only grow;  repeat
//! ```
//! Hosts with several NICs, or faster than the links above them, have flows that no single path can carry at their share. Such a flow is
//! fixed at its *cap* as soon as no share is below it; the others share what it leaves.
//! DEVIATION: figure 7 knows hosts of one NIC each, as fast as every link.
//!
//! DEVIATION: figure 7 repeats "while some demand changed", which in exact arithmetic need not end (shares and levels may feed back
//! into each other around a cycle of hosts and approach the limit geometrically). Progressive filling fixes one NIC a step:
//! it ends after at most two steps a host, at the limit itself.
//!
//! Cost: O(F + H) plus a bucket queue of the NICs, keyed by share; the queue's order is total (share, then NIC), so the same input
//! gives the same bytes. Scratch, kept between calls: 16 bytes a flow and at most 128 a host (7.5 MB for 250,000 flows of 27,648 hosts).

use crate::hedera::shares::{ShareQueue, Shared};

/// Why demands cannot be estimated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)]
pub enum DemandError {
    #[error("{src} sources and {dst} destinations: every flow needs one of each")]
    Lengths { src: usize, dst: usize },
    #[error("flow {flow} names host {host}, but there are only {hosts}, numbered from 0")]
    HostOutOfRange { flow: usize, host: u32, hosts: usize },
    #[error("flow {flow} goes from host {host} to itself: leave it out, it crosses no network")]
    SelfFlow { flow: usize, host: u32 },
}

/// The natural demand of each flow from `src[i]` to `dst[i]`, in the order of the input, as a fraction of the NIC; all NICs are alike.
///
/// ```
/// // Hedera, figure 4: all flows get 1/3, but the one from host 2 to host 3 gets 2/3.
/// let src = [0, 0, 0, 1, 1, 1, 2, 2, 3, 3];
/// let dst = [1, 2, 3, 0, 0, 2, 0, 3, 1, 1];
/// let demands = weft_control::hedera::estimate(&src, &dst, 4).unwrap();
/// for (i, demand) in demands.iter().enumerate() {
///     let expected = if (src[i], dst[i]) == (2, 3) { 2.0 / 3.0 } else { 1.0 / 3.0 };
///     assert!((demand - expected).abs() < 1e-12);
/// }
/// ```
///
/// # Errors
/// [`DemandError`], naming the first flow that is wrong.
pub fn estimate(src: &[u32], dst: &[u32], hosts: usize) -> Result<Vec<f64>, DemandError> {
    let mut demands = Vec::new();
    DemandEstimator::default().estimate(src, dst, &vec![1.0; hosts], &mut demands)?;
    Ok(demands)
}

/// The estimator with its scratch memory, for use round after round.
#[derive(Clone, Debug, Default)]
pub struct DemandEstimator {
    /// By NIC, its range in `ends`. Sending NICs are `0..hosts`, receiving ones `hosts..2 * hosts`.
    start: Vec<u32>,
    /// By NIC: its flows and the NIC at their other end.
    ends: Vec<End>,
    nics: Vec<Shared>,
    queue: ShareQueue,
    /// Flows by ascending cap.
    by_cap: Vec<u32>,
}

/// One flow, as one of its two NICs sees it.
#[derive(Clone, Copy, Debug, Default)]
struct End {
    flow: u32,
    other: u32,
}

impl DemandEstimator {
    /// As [`estimate`], for NICs of unlike capacities: `nic[h]` is that of host `h` in any unit, in each direction, and the demands
    /// come in the same unit. `demands` is overwritten.
    ///
    /// # Errors
    /// [`DemandError`], naming the first flow that is wrong.
    ///
    /// # Panics
    /// If a capacity is not positive and finite.
    pub fn estimate(&mut self, src: &[u32], dst: &[u32], nic: &[f64], demands: &mut Vec<f64>) -> Result<(), DemandError> {
        assert!(nic.iter().all(|&c| c > 0.0 && c.is_finite()), "capacities are positive");
        self.estimate_capped(src, dst, nic, &[], demands)
    }

    /// As [`DemandEstimator::estimate`]; the demand of flow `i` is at most `caps[i]`, what one path carries. Without caps, `caps` is empty.
    ///
    /// # Errors
    /// [`DemandError`], naming the first flow that is wrong.
    ///
    /// # Panics
    /// If there are caps, but not one for each flow.
    pub fn estimate_capped(
        &mut self,
        src: &[u32],
        dst: &[u32],
        nic: &[f64],
        caps: &[f64],
        demands: &mut Vec<f64>,
    ) -> Result<(), DemandError> {
        assert!(caps.is_empty() || caps.len() == src.len(), "every flow has a cap, or none has");
        self.index(src, dst, nic)?;
        self.by_cap.clear();
        self.by_cap.extend(0..caps.len() as u32);
        self.by_cap.sort_by(|&a, &b| caps[a as usize].total_cmp(&caps[b as usize]));
        let mut capped = 0;
        demands.clear();
        demands.resize(src.len(), UNFIXED);
        self.queue.fill(&self.nics);
        while let Some((key, n)) = self.queue.pop() {
            let nic = self.nics[n as usize];
            if nic.flows == 0 {
                continue;
            }
            // Flows that were fixed elsewhere have raised the share since the NIC was queued.
            if nic.share() > key {
                self.queue.push(nic.share(), n);
                continue;
            }
            // The smallest share of all: flows whose cap is below it get their cap, and leave the others more.
            let before = capped;
            while let Some(&flow) = self.by_cap.get(capped)
                && caps[flow as usize] < nic.share()
            {
                self.fix_capped(src, dst, flow as usize, caps[flow as usize], demands);
                capped += 1;
            }
            if capped > before {
                if self.nics[n as usize].flows > 0 {
                    self.queue.push(self.nics[n as usize].share().max(key), n);
                }
                continue;
            }
            self.fix(n as usize, demands);
        }
        Ok(())
    }

    fn fix_capped(&mut self, src: &[u32], dst: &[u32], flow: usize, cap: f64, demands: &mut [f64]) {
        if demands[flow] == UNFIXED {
            demands[flow] = cap;
            let hosts = self.nics.len() / 2;
            self.nics[src[flow] as usize].fix(cap);
            self.nics[hosts + dst[flow] as usize].fix(cap);
        }
    }

    /// Checks the flows and lists them by NIC, by counting sort.
    fn index(&mut self, src: &[u32], dst: &[u32], nic: &[f64]) -> Result<(), DemandError> {
        let hosts = nic.len();
        if src.len() != dst.len() {
            return Err(DemandError::Lengths { src: src.len(), dst: dst.len() });
        }
        self.start.clear();
        self.start.resize(2 * hosts + 1, 0);
        for (flow, (&s, &d)) in src.iter().zip(dst).enumerate() {
            if let Some(&host) = [s, d].iter().find(|&&h| h as usize >= hosts) {
                return Err(DemandError::HostOutOfRange { flow, host, hosts });
            }
            if s == d {
                return Err(DemandError::SelfFlow { flow, host: s });
            }
            self.start[s as usize] += 1;
            self.start[hosts + d as usize] += 1;
        }
        self.nics.clear();
        self.nics.extend((0..2 * hosts).map(|n| Shared { left: nic[n % hosts], flows: self.start[n] }));
        // Counts become ends; filling from the back turns ends into starts and keeps the order of the flows.
        let mut sum = 0;
        for slot in &mut self.start {
            sum += *slot;
            *slot = sum;
        }
        self.ends.clear();
        self.ends.resize(2 * src.len(), End::default());
        for (flow, (&s, &d)) in src.iter().zip(dst).enumerate().rev() {
            let (from, to) = (s as usize, hosts + d as usize);
            for (here, there) in [(from, to), (to, from)] {
                self.start[here] -= 1;
                self.ends[self.start[here] as usize] = End { flow: flow as u32, other: there as u32 };
            }
        }
        Ok(())
    }

    /// Gives all flows of a NIC that are not fixed yet an equal part of what is left of it.
    fn fix(&mut self, n: usize, demands: &mut [f64]) {
        let share = self.nics[n].share();
        for end in &self.ends[self.start[n] as usize..self.start[n + 1] as usize] {
            let demand = &mut demands[end.flow as usize];
            if *demand == UNFIXED {
                *demand = share;
                self.nics[end.other as usize].fix(share);
            }
        }
        self.nics[n].flows = 0;
    }
}

/// No demand is negative.
const UNFIXED: f64 = -1.0;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Figure 7, line by line, on a dense matrix: per pair the number of flows, their demand, and the flag.
    #[derive(Clone, Copy, Default)]
    struct Entry {
        flows: u32,
        demand: f64,
        converged: bool,
        receiver_limited: bool,
    }

    fn figure_7(src: &[u32], dst: &[u32], hosts: usize) -> Vec<f64> {
        let mut m = vec![vec![Entry::default(); hosts]; hosts];
        for (&s, &d) in src.iter().zip(dst) {
            m[s as usize][d as usize].flows += 1;
        }
        loop {
            let before: Vec<f64> = m.iter().flatten().map(|e| e.demand).collect();
            for row in &mut m {
                est_src(row);
            }
            for h in 0..hosts {
                est_dst(&mut m, h);
            }
            // Floats never stop changing in the last digits; 1e-15 is their resolution here.
            if m.iter().flatten().zip(before).all(|(e, old)| (e.demand - old).abs() < 1e-15) {
                break;
            }
        }
        src.iter().zip(dst).map(|(&s, &d)| m[s as usize][d as usize].demand).collect()
    }

    fn est_src(row: &mut [Entry]) {
        let converged: f64 = row.iter().filter(|e| e.converged).map(|e| f64::from(e.flows) * e.demand).sum();
        let unconverged: u32 = row.iter().filter(|e| !e.converged).map(|e| e.flows).sum();
        for entry in row.iter_mut().filter(|e| !e.converged && e.flows > 0) {
            entry.demand = (1.0 - converged) / f64::from(unconverged);
        }
    }

    fn est_dst(m: &mut [Vec<Entry>], dst: usize) {
        let total: f64 = m.iter().map(|row| f64::from(row[dst].flows) * row[dst].demand).sum();
        if total <= 1.0 {
            return;
        }
        m.iter_mut().for_each(|row| row[dst].receiver_limited = row[dst].flows > 0);
        let mut share = 1.0 / f64::from(m.iter().map(|row| row[dst].flows).sum::<u32>());
        let mut sender_limited = 0.0;
        loop {
            let mut limited = 0;
            let mut some_set_false = false;
            for row in m.iter_mut().filter(|row| row[dst].receiver_limited) {
                let entry = &mut row[dst];
                if entry.demand < share {
                    sender_limited += f64::from(entry.flows) * entry.demand;
                    entry.receiver_limited = false;
                    some_set_false = true;
                } else {
                    limited += entry.flows;
                }
            }
            if limited == 0 {
                // All within rounding of the share: exactly full already.
                return;
            }
            share = (1.0 - sender_limited) / f64::from(limited);
            if !some_set_false {
                break;
            }
        }
        for row in m.iter_mut().filter(|row| row[dst].receiver_limited) {
            row[dst].demand = share;
            row[dst].converged = true;
        }
    }

    #[test]
    fn what_is_not_a_flow_is_refused() {
        assert_eq!(estimate(&[0], &[], 2), Err(DemandError::Lengths { src: 1, dst: 0 }));
        assert_eq!(estimate(&[0, 2], &[1, 0], 2), Err(DemandError::HostOutOfRange { flow: 1, host: 2, hosts: 2 }));
        assert_eq!(estimate(&[0, 1], &[1, 1], 2), Err(DemandError::SelfFlow { flow: 1, host: 1 }));
        assert_eq!(estimate(&[], &[], 0), Ok(vec![]));
        assert_eq!(estimate(&[], &[], 3), Ok(vec![]));
    }

    #[test]
    fn incast_shares_the_receiver_and_leaves_the_rest_to_others() {
        // Hosts 0..3 all send to 4; host 0 also sends to 5.
        let demands = estimate(&[0, 1, 2, 3, 0], &[4, 4, 4, 4, 5], 6).unwrap();
        assert_eq!(demands, [0.25, 0.25, 0.25, 0.25, 0.75]);
    }

    #[test]
    fn unlike_nics_limit_each_end_by_its_own() {
        let mut demands = Vec::new();
        // A 10G host sends to two 1G hosts and one 10G host.
        DemandEstimator::default().estimate(&[0, 0, 0], &[1, 2, 3], &[10.0, 1.0, 1.0, 10.0], &mut demands).unwrap();
        assert_eq!(demands, [1.0, 1.0, 8.0]);
    }

    #[test]
    fn a_cap_leaves_more_to_the_others() {
        let mut demands = Vec::new();
        // Two flows leave a host of two NICs, each as fast as a path; the third comes to one of their destinations from a host of one.
        DemandEstimator::default()
            .estimate_capped(&[0, 0, 1], &[2, 3, 2], &[2.0, 1.0, 1.5, 2.0], &[1.0; 3], &mut demands)
            .unwrap();
        assert_eq!(demands, [0.75, 1.0, 0.75]);
        DemandEstimator::default().estimate_capped(&[0, 0], &[1, 2], &[2.0, 2.0, 2.0], &[0.5, 9.0], &mut demands).unwrap();
        assert_eq!(demands, [0.5, 1.5]);
    }

    fn flows(hosts: u32, most: usize) -> impl Strategy<Value = Vec<(u32, u32)>> {
        let pair = (0..hosts, 1..hosts).prop_map(move |(s, offset)| (s, (s + offset) % hosts));
        prop::collection::vec(pair, 0..most)
    }

    proptest! {
        #[test]
        fn agrees_with_figure_7((hosts, flows) in (2u32..12).prop_flat_map(|h| (Just(h), flows(h, 60)))) {
            let (src, dst): (Vec<u32>, Vec<u32>) = flows.into_iter().unzip();
            let expected = figure_7(&src, &dst, hosts as usize);
            for (got, want) in estimate(&src, &dst, hosts as usize).unwrap().iter().zip(expected) {
                prop_assert!((got - want).abs() < 1e-9, "{got} instead of {want}");
            }
        }

        /// A cap is a NIC that only this flow crosses: a flow has its cap, or a full NIC where none is faster.
        #[test]
        fn caps_are_limits_of_their_flows_alone(flows in flows(12, 60), seed: u64) {
            use rand::RngExt;
            let mut rng = crate::hedera::testing::rng(seed);
            let (src, dst): (Vec<u32>, Vec<u32>) = flows.into_iter().unzip();
            let caps: Vec<f64> = src.iter().map(|_| rng.random::<f64>() + 0.01).collect();
            let mut demands = Vec::new();
            DemandEstimator::default().estimate_capped(&src, &dst, &[1.0; 12], &caps, &mut demands).unwrap();
            let sum = |host: u32, ends: &[u32]| ends.iter().zip(&demands).filter(|(h, _)| **h == host).map(|(_, d)| d).sum::<f64>();
            let top = |host: u32, ends: &[u32]| ends.iter().zip(&demands).filter(|(h, _)| **h == host).fold(0.0, |m: f64, (_, d)| m.max(*d));
            for i in 0..src.len() {
                prop_assert!(demands[i] >= 0.0 && demands[i] <= caps[i]);
                let full = |host: u32, ends: &[u32]| sum(host, ends) > 1.0 - 1e-9 && demands[i] >= top(host, ends) - 1e-9;
                prop_assert!(demands[i] == caps[i] || full(src[i], &src) || full(dst[i], &dst));
                prop_assert!(sum(src[i], &src) < 1.0 + 1e-9 && sum(dst[i], &dst) < 1.0 + 1e-9);
            }
        }

        #[test]
        fn every_flow_has_a_full_nic_where_none_is_faster(flows in flows(40, 400)) {
            let (src, dst): (Vec<u32>, Vec<u32>) = flows.into_iter().unzip();
            let demands = estimate(&src, &dst, 40).unwrap();
            let mut used = vec![[0.0f64; 2]; 40];
            let mut fastest = vec![[0.0f64; 2]; 40];
            for (i, &d) in demands.iter().enumerate() {
                for (host, side) in [(src[i], 0), (dst[i], 1)] {
                    used[host as usize][side] += d;
                    fastest[host as usize][side] = fastest[host as usize][side].max(d);
                }
            }
            for (i, &d) in demands.iter().enumerate() {
                let is_bottleneck =
                    |h: u32, side: usize| used[h as usize][side] > 1.0 - 1e-9 && d >= fastest[h as usize][side] - 1e-9;
                prop_assert!(is_bottleneck(src[i], 0) || is_bottleneck(dst[i], 1));
            }
            prop_assert!(used.iter().flatten().all(|&u| u < 1.0 + 1e-9));
        }
    }

    #[test]
    fn agrees_with_figure_7_on_a_larger_case() {
        let hosts = 200u32;
        let mut x = 1u64;
        let (src, dst): (Vec<u32>, Vec<u32>) = (0..1500u32)
            .map(|i| {
                x = weft_fabric::rng::mix(x + 1);
                let s = i % hosts;
                (s, (s + 1 + (x % u64::from(hosts - 1)) as u32) % hosts)
            })
            .unzip();
        let expected = figure_7(&src, &dst, hosts as usize);
        for (got, want) in estimate(&src, &dst, hosts as usize).unwrap().iter().zip(expected) {
            assert!((got - want).abs() < 1e-9, "{got} instead of {want}");
        }
    }
}
