//! Rebinding: how a host's connections should be split over its paths, and which of them move (Subways section 5.2).
//!
//! For path i of a host, with the ToR's capacity B_i and utilisation U_i, the part u_i of the host's traffic that takes it now, and the
//! rate b_i of the host's own link to the ToR:
//!
//! ```text
//!   U_target = sum B_i U_i / sum B_i          t_i = c u_i U_target / U_i + (1 - c) u_i          P[i] = t_i / sum t_j
//!   P[i] T > b_i, with T the host's traffic:  P[i] = b_i / T, and what is over is spread evenly over the other ways
//! ```
//! DEVIATION: U_i is at least `floor` in t_i, and so is u_i where U_i is no more than U_target: an idle ToR has U = 0 and u = 0, which is 0/0,
//! and a share of 0 would stay 0. A host that keeps off a ToR fuller than its others goes on doing so.
//!
//! DEVIATION: a path that would get less than half a connection by the cap, and has none, gets none. Few connections of high rates would
//! otherwise move one by one to where each has a fraction of its rate.
//!
//! DEVIATION: the paper prints the host's traffic as sum u_j b_j (and once as sum over i of u_i b_j) while it defines u_j as fractions of
//! that traffic; with fractions the sum is no rate. We take what the text says: T is the measured rate of the host's traffic.

use rand::RngExt;
use weft_fabric::rng::Pcg64;

use crate::subways::config::Rebind;
use crate::subways::weights::remaining;

/// A path of a host as rebinding sees it. Rates are in bits per second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Lane {
    /// B: what the ToR's uplinks can carry, or what a detour may use of them; 0 if the path is out of use.
    pub capacity: f64,
    /// U: the part of it that is used.
    pub utilisation: f64,
    /// The rate of the host's traffic that takes the path: u_i T.
    pub rate: f64,
    /// b: the most that the host can or may send on this path.
    pub limit: f64,
    /// Connections of the host that take it now.
    pub connections: u32,
    /// Whether it is a detour.
    pub is_detour: bool,
}

/// P: which part of the host's connections should take each way. Sums to 1.
pub fn split(lanes: &[Lane], c: f64, floor: f64) -> Vec<f64> {
    let capacity: f64 = lanes.iter().map(|l| l.capacity).sum();
    if capacity <= 0.0 {
        return vec![1.0 / lanes.len() as f64; lanes.len()];
    }
    let traffic: f64 = lanes.iter().map(|l| l.rate).sum();
    let used = |l: &Lane| l.utilisation.max(floor);
    let left = |l: &Lane| remaining(l.capacity, l.utilisation);
    let all_left: f64 = lanes.iter().map(left).sum();
    let target = lanes.iter().map(|l| l.capacity * used(l)).sum::<f64>() / capacity;
    let wanted = lanes.iter().map(|l| {
        // Connections of which nothing was measured yet count as new ones.
        let share = if traffic > 0.0 { l.rate / traffic } else { left(l) / all_left };
        let has_room = used(l) <= target * (1.0 + 1e-9);
        let share = if has_room { share.max(floor) } else { share };
        if l.capacity > 0.0 { c * share * target / used(l) + (1.0 - c) * share } else { 0.0 }
    });
    let mut parts: Vec<f64> = wanted.collect();
    let sum: f64 = parts.iter().sum();
    parts.iter_mut().for_each(|p| *p /= sum);
    if traffic > 0.0 {
        cap(lanes, traffic, &mut parts);
    }
    parts
}

/// Holds every path at its limit and spreads what is over evenly over the paths that are not at theirs.
fn cap(lanes: &[Lane], traffic: f64, parts: &mut [f64]) {
    let mut full = vec![false; lanes.len()];
    let connections = f64::from(lanes.iter().map(|l| l.connections).sum::<u32>());
    let limits = lanes.iter().map(|l| {
        let part = l.limit / traffic;
        if l.connections == 0 && part * connections < 0.5 { 0.0 } else { part }
    });
    let limits: Vec<f64> = limits.collect();
    loop {
        let mut over = 0.0;
        for i in 0..lanes.len() {
            let limit = limits[i];
            if !full[i] && parts[i] > limit {
                full[i] = true;
                over += parts[i] - limit;
                parts[i] = limit;
            }
        }
        let open = |i: &usize| !full[*i] && lanes[*i].capacity > 0.0;
        let others: Vec<usize> = (0..lanes.len()).filter(open).collect();
        if over <= 0.0 {
            return;
        }
        if others.is_empty() {
            // More than all paths together: each gets its part of that.
            let sum: f64 = parts.iter().sum::<f64>();
            match sum > 0.0 {
                true => parts.iter_mut().for_each(|p| *p /= sum),
                false => parts.fill(1.0 / lanes.len() as f64),
            }
            return;
        }
        others.iter().for_each(|&i| parts[i] += over / others.len() as f64);
    }
}

/// Where one host's connections go.
#[derive(Clone, Debug)]
pub struct Plan {
    /// P.
    parts: Vec<f64>,
    /// By path: the part of the connections that is there now.
    present: Vec<f64>,
    rebind: Rebind,
}

impl Plan {
    /// `count` connections on each path, and `elsewhere` on paths that are no longer the host's.
    pub fn new(parts: Vec<f64>, count: &[u32], elsewhere: u32, rebind: Rebind) -> Self {
        let total = f64::from((count.iter().sum::<u32>() + elsewhere).max(1));
        let present = count.iter().map(|&n| f64::from(n) / total).collect();
        Self { parts, present, rebind }
    }

    /// The path of a connection that is on the path `now`, or on none of the host's. Over all of a host's connections the paths come out in
    /// the wanted parts, whichever of them move.
    pub fn draw(&self, now: Option<usize>, rng: &mut Pcg64) -> usize {
        if self.rebind == Rebind::All {
            return pick(&self.parts, rng).or(now).unwrap_or(0);
        }
        if let Some(now) = now
            && (self.parts[now] >= self.present[now] || rng.random::<f64>() * self.present[now] < self.parts[now])
        {
            return now;
        }
        let missing: Vec<f64> = self.parts.iter().zip(&self.present).map(|(p, n)| (p - n).max(0.0)).collect();
        pick(&missing, rng).or(now).unwrap_or(0)
    }

    /// P.
    pub fn parts(&self) -> &[f64] {
        &self.parts
    }
}

/// An index by weight; `None` if no weight is positive.
pub fn pick(weights: &[f64], rng: &mut Pcg64) -> Option<usize> {
    let sum: f64 = weights.iter().sum();
    if sum <= 0.0 {
        return None;
    }
    let mut point = rng.random::<f64>() * sum;
    let last = weights.iter().rposition(|&w| w > 0.0);
    for (i, &w) in weights.iter().enumerate() {
        if point < w {
            return Some(i);
        }
        point -= w;
    }
    last
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use weft_fabric::rng::{Stream, stream};

    const C: f64 = 0.5;
    const FLOOR: f64 = 0.01;

    fn lane(utilisation: f64, rate: f64) -> Lane {
        Lane { capacity: 40e9, utilisation, rate, limit: 10e9, connections: 1, is_detour: false }
    }

    fn close(a: &[f64], b: &[f64]) {
        assert!(a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-12), "{a:?} {b:?}");
    }

    #[test]
    fn closed_forms() {
        // Equal utilisations: connections follow the traffic.
        close(&split(&[lane(1.0, 2e9), lane(1.0, 1e9)], C, FLOOR), &[2.0 / 3.0, 1.0 / 3.0]);
        // U = 0.8 and 0.4, target 0.6, even traffic: t = (0.25 * 0.75 + 0.25, 0.25 * 1.5 + 0.25).
        close(&split(&[lane(0.8, 1e9), lane(0.4, 1e9)], C, FLOOR), &[0.4375 / 1.0625, 0.625 / 1.0625]);
        // c = 0 stays, and c = 1 goes all the way.
        close(&split(&[lane(0.8, 3e9), lane(0.4, 1e9)], 0.0, FLOOR), &[0.75, 0.25]);
        close(&split(&[lane(0.8, 1e9), lane(0.4, 1e9)], 1.0, FLOOR), &[1.0 / 3.0, 2.0 / 3.0]);
        // An idle path starts from the floor: target 0.505, t = (0.5 * 0.505 + 0.5, 0.005 * 50.5 + 0.005).
        close(&split(&[lane(1.0, 1e9), lane(0.0, 0.0)], C, FLOOR), &[0.7525 / 1.01, 0.2575 / 1.01]);
    }

    #[test]
    fn a_full_nic_passes_the_excess_on_evenly() {
        let lanes =
            [Lane { limit: 1e9, ..lane(0.5, 8e9) }, Lane { limit: 9e9, ..lane(0.5, 1e9) }, Lane { limit: 9e9, ..lane(0.5, 1e9) }];
        // P T = (8, 1, 1): 7 are over.
        close(&split(&lanes, C, FLOOR), &[0.1, 0.45, 0.45]);
        // A second one is full by what it is handed.
        let tight = [lanes[0], Lane { limit: 2e9, ..lanes[1] }, lanes[2]];
        close(&split(&tight, C, FLOOR), &[0.1, 0.2, 0.7]);
        let all = [lanes[0], Lane { limit: 2e9, ..lanes[1] }, Lane { limit: 2e9, ..lanes[2] }];
        close(&split(&all, C, FLOOR), &[0.2, 0.4, 0.4]);
    }

    #[test]
    fn a_host_keeps_off_a_full_path_and_tries_one_with_room() {
        close(&split(&[lane(0.3, 2e9), lane(1.0, 0.0)], C, FLOOR), &[1.0, 0.0]);
        assert!(split(&[lane(1.0, 2e9), lane(0.3, 0.0)], C, FLOOR)[1] > 0.01);
        // Nothing was measured of its connections yet.
        assert!(split(&[lane(0.3, 0.0), lane(1.0, 0.0)], C, FLOOR)[1] < 1e-5);
    }

    #[test]
    fn a_path_for_less_than_half_a_connection_gets_none() {
        let detour = |limit, connections| Lane { limit, connections, is_detour: true, ..lane(0.0, 0.0) };
        // Two connections of 5 Gbps: 2.4 Gbps would hold 0.48 of one.
        let full = Lane { connections: 2, ..lane(1.0, 10e9) };
        close(&split(&[full, detour(2.4e9, 0)], C, FLOOR), &[1.0, 0.0]);
        assert!(split(&[full, detour(2.6e9, 0)], C, FLOOR)[1] > 0.25);
        // One that is there may stay.
        assert!(split(&[full, detour(2.4e9, 1)], C, FLOOR)[1] > 0.2);
    }

    #[test]
    fn a_way_out_of_use_gets_nothing() {
        let dead = Lane { capacity: 0.0, ..lane(1.0, 5e9) };
        close(&split(&[dead, lane(0.9, 1e9)], C, FLOOR), &[0.0, 1.0]);
        close(&split(&[dead, dead], C, FLOOR), &[0.5, 0.5]);
    }

    fn lanes() -> impl Strategy<Value = Vec<Lane>> {
        let one = (1u32..5, 0.0..1.2f64, 0.0..10.0f64, 1u32..26).prop_map(|(capacity, utilisation, gbps, limit)| Lane {
            capacity: f64::from(capacity) * 10e9,
            utilisation,
            rate: gbps * 1e9,
            limit: f64::from(limit) * 1e9,
            connections: 100,
            is_detour: false,
        });
        proptest::collection::vec(one, 1..7)
    }

    /// The text of the section, step by step; the excess is handed on in a million small spoonfuls.
    fn reference(lanes: &[Lane]) -> Vec<f64> {
        let n = lanes.len();
        let big_u: Vec<f64> = lanes.iter().map(|l| if l.utilisation < FLOOR { FLOOR } else { l.utilisation }).collect();
        let all: f64 = lanes.iter().map(|l| l.rate).sum();
        let (mut above, mut below, mut free) = (0.0, 0.0, 0.0);
        for i in 0..n {
            above += lanes[i].capacity * big_u[i];
            below += lanes[i].capacity;
            free += lanes[i].capacity * (1.0 - lanes[i].utilisation).max(1e-6);
        }
        let mut t = Vec::new();
        for i in 0..n {
            let weight = lanes[i].capacity * (1.0 - lanes[i].utilisation).max(1e-6);
            let u = if all > 0.0 { lanes[i].rate / all } else { weight / free };
            let u = if u < FLOOR && big_u[i] <= above / below * (1.0 + 1e-9) { FLOOR } else { u };
            t.push(C * u * (above / below) / big_u[i] + (1.0 - C) * u);
        }
        let sum: f64 = t.iter().sum();
        let mut p: Vec<f64> = t.iter().map(|t| t / sum).collect();
        let limits: Vec<f64> = lanes.iter().map(|l| l.limit / all).collect();
        if all == 0.0 {
            return p;
        }
        for _ in 0..100 {
            let over: f64 = (0..n).map(|i| (p[i] - limits[i]).max(0.0)).sum();
            let open: Vec<usize> = (0..n).filter(|&i| p[i] < limits[i]).collect();
            if over < 1e-15 || open.is_empty() {
                break;
            }
            (0..n).for_each(|i| p[i] = p[i].min(limits[i]));
            open.iter().for_each(|&i| p[i] += over / open.len() as f64);
        }
        if limits.iter().sum::<f64>() <= 1.0 {
            let sum: f64 = limits.iter().sum();
            return limits.iter().map(|l| l / sum).collect();
        }
        p
    }

    proptest! {
        #[test]
        fn split_equals_the_reference(lanes in lanes()) {
            let parts = split(&lanes, C, FLOOR);
            let expected = reference(&lanes);
            prop_assert!((parts.iter().sum::<f64>() - 1.0).abs() < 1e-9);
            for (i, (a, b)) in parts.iter().zip(&expected).enumerate() {
                prop_assert!((a - b).abs() < 1e-9, "{} of {:?} {:?}", i, parts, expected);
            }
        }

        /// Drawn again and again, the connections come out in the wanted parts; with `Surplus` none moves that need not.
        #[test]
        fn connections_come_out_as_planned(seed: u64, weights in proptest::collection::vec(1u32..10, 2..5), all: bool) {
            let sum: u32 = weights.iter().sum();
            let parts: Vec<f64> = weights.iter().map(|&w| f64::from(w) / f64::from(sum)).collect();
            let mut rng = stream(seed, Stream::Scheduler);
            let count: Vec<u32> = (0..parts.len()).map(|i| 500 * (i as u32 + 1)).collect();
            let elsewhere = 300;
            let rebind = if all { Rebind::All } else { Rebind::Surplus };
            let plan = Plan::new(parts.clone(), &count, elsewhere, rebind);
            let total = count.iter().sum::<u32>() + elsewhere;
            let mut after = vec![0u32; parts.len()];
            let mut moved = elsewhere;
            for now in (0..parts.len()).flat_map(|i| std::iter::repeat_n(Some(i), count[i] as usize)) {
                let to = plan.draw(now, &mut rng);
                after[to] += 1;
                moved += u32::from(Some(to) != now);
            }
            (0..elsewhere).for_each(|_| after[plan.draw(None, &mut rng)] += 1);
            for (n, p) in after.iter().zip(&parts) {
                let mean = p * f64::from(total);
                prop_assert!((f64::from(*n) - mean).abs() < 6.0 * mean.sqrt() + 1.0, "{:?} {:?}", after, parts);
            }
            if !all {
                let surplus: f64 = (0..parts.len()).map(|i| (f64::from(count[i]) - parts[i] * f64::from(total)).max(0.0)).sum();
                prop_assert!(f64::from(moved - elsewhere) < surplus + 6.0 * surplus.sqrt() + 1.0);
            }
        }
    }
}
