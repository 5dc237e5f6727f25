//! Detours: figure 4, groups, limits, and the paper's text as a reference.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;
use crate::subways::testing::{Wiring, build};

fn ring(racks: usize, ports: usize) -> Ring {
    Ring::all(&build(Wiring { racks, ports, ..Wiring::default() })).remove(0)
}

/// The plan if these racks are hot; 40 Gbps a ToR, of which idle ones give 60 %, and `room` for each rack and ToR.
fn plan_for(ring: &Ring, hot_racks: &[usize], max_servers: usize, room: f64) -> Plan {
    let mut hot = vec![false; ring.tors.len()];
    hot_racks.iter().for_each(|&r| ring.racks[r].tors.iter().for_each(|&t| hot[t] = true));
    let room: Vec<Vec<f64>> = ring.racks.iter().map(|r| vec![room; r.tors.len()]).collect();
    let capacity = vec![40e9; hot.len()];
    let usable: Vec<f64> = capacity.iter().map(|c| 0.6 * c).collect();
    plan(&Situation { ring, hot: &hot, capacity: &capacity, usable: &usable, room: &room, max_servers, edge_rule: true })
}

/// (source, [ToR, rack, ToR, ..., egress]) of every path.
fn paths(plan: &Plan) -> BTreeSet<(usize, Vec<usize>)> {
    let one = |egress: usize, p: &RackPath| {
        let hops = p.hops.iter().flat_map(|&(tor, rack)| [tor, rack]).chain([egress]);
        (p.source, hops.collect())
    };
    plan.egresses.iter().flat_map(|e| e.paths.iter().map(move |p| one(e.tor, p))).collect()
}

/// Figure 4: one hot rack with p = 3, on ToRs 4, 5 and 6 (A, B, C); h = 1. To the left, R' is the rack of ToRs 3, 4, 5.
#[test]
fn a_single_rack_detours_to_both_sides() {
    let plan = plan_for(&ring(12, 3), &[4], 2, f64::INFINITY);
    let expected: BTreeSet<(usize, Vec<usize>)> = [
        vec![5, 3, 3],
        vec![4, 2, 2],
        vec![5, 3, 3, 1, 1],
        vec![4, 2, 2, 0, 0],
        vec![5, 5, 7],
        vec![6, 6, 8],
        vec![5, 5, 7, 7, 9],
        vec![6, 6, 8, 8, 10],
    ]
    .into_iter()
    .map(|p| (4, p))
    .collect();
    assert_eq!(paths(&plan), expected);
    assert!(plan.egresses.iter().all(|e| e.paths.iter().map(|p| p.usable).sum::<f64>() == 24e9));
    assert!(plan.leaves.iter().all(Vec::is_empty));
}

#[test]
fn two_ports_reach_as_far_as_servers_may_forward() {
    for max_servers in 1..4 {
        let plan = plan_for(&ring(12, 2), &[5], max_servers, f64::INFINITY);
        let order: Vec<usize> = plan.egresses.iter().map(|e| e.tor).collect();
        assert_eq!(order, [4, 7, 3, 8, 2, 9][..2 * max_servers]);
        assert!(plan.egresses.iter().all(|e| e.paths.len() == 1));
    }
    // Around a small loop, both sides meet; the whole loop hot leaves nothing.
    let around: Vec<usize> = plan_for(&ring(5, 2), &[0], 9, f64::INFINITY).egresses.iter().map(|e| e.tor).collect();
    assert_eq!(around, [4, 2, 3]);
    assert!(plan_for(&ring(3, 2), &[0, 1], 2, f64::INFINITY).egresses.is_empty());
}

#[test]
fn only_the_edges_of_a_group_detour_and_leave_what_others_need() {
    let ring = ring(12, 2);
    // ToRs 3 to 6: racks 3 and 5 are the edges, 4 depends on ToRs 4 and 5.
    let plan = plan_for(&ring, &[3, 4, 5], 2, f64::INFINITY);
    let by_source: BTreeSet<(usize, usize)> =
        plan.egresses.iter().flat_map(|e| e.paths.iter().map(move |p| (p.source, e.tor))).collect();
    assert_eq!(by_source, BTreeSet::from([(3, 2), (3, 1), (5, 7), (5, 8)]));
    assert_eq!((&plan.leaves[3][..], &plan.leaves[5][..]), (&[4][..], &[5][..]));
    // Two racks are both edges: neither leaves the ToR between them.
    let two = plan_for(&ring, &[3, 4], 2, f64::INFINITY);
    assert_eq!(two.egresses.len(), 4);
    assert!(two.leaves.iter().all(Vec::is_empty));
    // Detours that carry less than half a ToR do not make up for it.
    let little = plan_for(&ring, &[3, 4, 5], 2, 19e9);
    assert!(little.leaves.iter().all(Vec::is_empty));
}

#[test]
fn hotspots_keep_apart() {
    let ring = ring(12, 2);
    // Hot ToRs 0, 1 and 4, 5: ToRs 2 and 3 lie between them, one for each.
    let plan = plan_for(&ring, &[0, 4], 2, f64::INFINITY);
    let mut by_tor: Vec<(usize, usize)> = plan.egresses.iter().map(|e| (e.tor, e.paths[0].source)).collect();
    by_tor.sort_unstable();
    assert_eq!(by_tor, [(2, 0), (3, 4), (6, 4), (7, 4), (10, 0), (11, 0)]);
}

#[test]
fn the_links_of_the_sources_are_a_limit() {
    let plan = plan_for(&ring(12, 2), &[5], 4, 30e9);
    let usable: Vec<f64> = plan.egresses.iter().map(|e| e.paths[0].usable).collect();
    assert_eq!(usable, [24e9, 24e9, 6e9, 6e9], "30 Gbps to either side");
}

/// All paths to `egress` as the paper's text traces them back, by the arithmetic of a regular loop in which rack r is on ToRs
/// r to r + p - 1. Left is `sign` = 1, for then sources lie in the positive direction.
fn reference(
    n: usize,
    p: usize,
    hot: &[bool],
    sources: &[usize],
    egress: usize,
    sign: i64,
    max: usize,
) -> BTreeSet<(usize, Vec<usize>)> {
    let at = |i: i64| i.rem_euclid(n as i64) as usize;
    let (h, p) = ((p / 2) as i64, p as i64);
    let mut open: Vec<Vec<usize>> = vec![vec![egress]];
    let mut found = BTreeSet::new();
    while let Some(path) = open.pop() {
        let tor = path[0] as i64;
        for i in 0..h {
            // The racks that begin at the ToR and before it, or those that end there and after it.
            let rack = if sign > 0 { at(tor - i) } else { at(tor - p + 1 + i) };
            if (0..p).all(|j| hot[at(rack as i64 + j)]) {
                continue;
            }
            for j in 0..h {
                let from = if sign > 0 { at(rack as i64 + p - 1 - j) } else { at(rack as i64 + j) };
                if from == path[0] {
                    continue;
                }
                let longer: Vec<usize> = [from, rack].into_iter().chain(path.iter().copied()).collect();
                if longer.len() / 2 > max {
                    continue;
                }
                let on = |s: usize| (0..p).any(|k| at(s as i64 + k) == from);
                let fed: Vec<usize> = sources.iter().copied().filter(|&s| on(s)).collect();
                found.extend(fed.iter().map(|&s| (s, longer.clone())));
                if fed.is_empty() && !hot[from] {
                    open.push(longer);
                }
            }
        }
    }
    found
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(ProptestConfig::default().cases * 96 / 256))]

    #[test]
    fn a_plan_keeps_all_limits(n in 6usize..14, p in 2usize..6, max in 1usize..4, racks in proptest::collection::vec(0usize..14, 1..6), room in 1u32..200) {
        prop_assume!(p < n);
        let ring = ring(n, p);
        let hot_racks: Vec<usize> = racks.iter().map(|r| r % n).collect();
        let room = f64::from(room) * 1e9;
        let plan = plan_for(&ring, &hot_racks, max, room);
        let mut hot = vec![false; n];
        hot_racks.iter().for_each(|&r| (0..p).for_each(|j| hot[(r + j) % n] = true));
        let is_hot_rack = |r: usize| (0..p).all(|j| hot[(r + j) % n]);
        let mut seen = BTreeSet::new();
        let mut spent = std::collections::BTreeMap::new();
        for egress in &plan.egresses {
            prop_assert!(!hot[egress.tor] && seen.insert(egress.tor), "one hotspot a ToR, and no hot one");
            prop_assert!(egress.paths.iter().map(|p| p.usable).sum::<f64>() <= 24e9 * (1.0 + 1e-12));
            for path in &egress.paths {
                prop_assert!(is_hot_rack(path.source));
                prop_assert!(path.hops.len() <= max && path.usable > 0.0);
                prop_assert!(path.hops.iter().all(|&(_, rack)| !is_hot_rack(rack)));
                let next = path.hops.iter().skip(1).map(|h| h.0).chain([egress.tor]);
                for (&(tor, rack), next) in path.hops.iter().zip(next) {
                    prop_assert!(ring.racks[rack].tors.contains(&tor) && ring.racks[rack].tors.contains(&next));
                }
                *spent.entry((path.source, path.hops[0].0)).or_insert(0.0) += path.usable;
            }
        }
        prop_assert!(spent.values().all(|&s| s <= room * (1.0 + 1e-12)));
        for (rack, left) in plan.leaves.iter().enumerate() {
            prop_assert!(left.len() < p && (left.is_empty() || is_hot_rack(rack)));
        }
    }

    #[test]
    fn paths_equal_the_reference(n in 6usize..16, p in 2usize..6, max in 1usize..4, rack in 0usize..16) {
        prop_assume!(p < n);
        let (ring, rack) = (ring(n, p), rack % n);
        let plan = plan_for(&ring, &[rack], max, f64::INFINITY);
        let mut hot = vec![false; n];
        (0..p).for_each(|j| hot[(rack + j) % n] = true);
        let mut expected = BTreeSet::new();
        let mut used = hot.clone();
        let mut open = [true; 2];
        for steps in 1..n {
            for (side, sign) in [(0, 1i64), (1, -1)] {
                let tor = if side == 0 { (rack + n * 2 - steps) % n } else { (rack + p - 1 + steps) % n };
                let traced = reference(n, p, &hot, &[rack], tor, sign, max);
                open[side] &= !used[tor] && !traced.is_empty();
                if open[side] {
                    used[tor] = true;
                    expected.extend(traced);
                }
            }
        }
        prop_assert_eq!(paths(&plan), expected);
    }
}
