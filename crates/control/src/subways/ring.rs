//! Loops: what one controller looks after (Subways section 4.2: a connected component of servers and ToRs).
//!
//! ```text
//!   ring positions     0       1       2       3   ...  l-1, then 0 again
//!   ToRs              T0      T1      T2      T3
//!   racks (p = 2)      [-r0--] [-r1--] [-r2--] ...      a rack is on p neighbouring ToRs, left to right
//! ```
//! All is found in the wiring, so that imported fabrics have loops too. A loop's order begins at its lowest ToR and goes on to the ToR
//! that shares the most racks with the last one, the lowest of several: ascending where ToRs are numbered along the loop.

use std::collections::BTreeMap;

use weft_fabric::{Fabric, HostId, RackId, SwitchId};

/// A loop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ring {
    /// In ring order.
    pub tors: Vec<SwitchId>,
    /// The racks with hosts on several of them, by the position of their leftmost ToR.
    pub racks: Vec<RingRack>,
    /// p: the most ToRs that a rack is on.
    pub ports: usize,
    /// By position: racks on that ToR, left to right.
    racks_at: Vec<Vec<usize>>,
}

/// A rack of a loop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RingRack {
    /// Its number in the fabric.
    pub id: RackId,
    /// Positions of its ToRs, left to right.
    pub tors: Vec<usize>,
    /// Its hosts, ascending.
    pub hosts: Vec<HostId>,
}

impl Ring {
    /// The loops of a fabric, by their lowest ToR. Hosts on a single switch are in none.
    pub fn all(fabric: &Fabric) -> Vec<Self> {
        let mut loops: Vec<(Vec<SwitchId>, Vec<RackId>)> = Vec::new();
        for (i, rack) in fabric.racks().iter().enumerate() {
            let mut tors = rack.switches.clone();
            tors.sort_unstable();
            tors.dedup();
            if tors.len() < 2 {
                continue;
            }
            let (touched, apart): (Vec<_>, Vec<_>) = loops.into_iter().partition(|(l, _)| l.iter().any(|s| tors.contains(s)));
            let mut racks = vec![RackId::from(i)];
            for (more_tors, more_racks) in touched {
                tors.extend(more_tors);
                racks.extend(more_racks);
            }
            tors.sort_unstable();
            tors.dedup();
            racks.sort_unstable();
            loops = apart;
            loops.push((tors, racks));
        }
        loops.sort_unstable();
        loops.into_iter().map(|(tors, racks)| Self::of(fabric, &tors, &racks)).collect()
    }

    /// The position that comes `steps` after `position`, around the loop.
    pub fn step(&self, position: usize, steps: isize) -> usize {
        (position as isize + steps).rem_euclid(self.tors.len() as isize) as usize
    }

    /// Racks on a ToR, left to right.
    pub fn racks_at(&self, position: usize) -> &[usize] {
        &self.racks_at[position]
    }

    fn of(fabric: &Fabric, tors: &[SwitchId], racks: &[RackId]) -> Self {
        let tors = in_order(fabric, tors, racks);
        let position: BTreeMap<SwitchId, usize> = tors.iter().enumerate().map(|(i, &t)| (t, i)).collect();
        let mut racks: Vec<RingRack> = racks
            .iter()
            .map(|&id| {
                let rack = &fabric.racks()[id.index()];
                let mut at: Vec<usize> = rack.switches.iter().map(|s| position[s]).collect();
                at.sort_unstable();
                at.dedup();
                RingRack { id, tors: left_to_right(at, tors.len()), hosts: rack.hosts.clone() }
            })
            .collect();
        racks.sort_by_key(|r| (r.tors[0], r.id));
        let ports = racks.iter().map(|r| r.tors.len()).max().unwrap_or(0);
        let mut racks_at: Vec<Vec<usize>> = vec![Vec::new(); tors.len()];
        for (i, rack) in racks.iter().enumerate() {
            rack.tors.iter().for_each(|&t| racks_at[t].push(i));
        }
        for (t, at) in racks_at.iter_mut().enumerate() {
            // The rack that has most of its ToRs to the left of this one is the leftmost.
            let to_the_left = |r: usize| racks[r].tors.iter().position(|&x| x == t);
            at.sort_by_key(|&r| (std::cmp::Reverse(to_the_left(r)), r));
        }
        Self { tors, racks, ports, racks_at }
    }
}

/// ToRs in ring order.
fn in_order(fabric: &Fabric, tors: &[SwitchId], racks: &[RackId]) -> Vec<SwitchId> {
    let mut shared: BTreeMap<(SwitchId, SwitchId), usize> = BTreeMap::new();
    for &rack in racks {
        let on = &fabric.racks()[rack.index()].switches;
        for &a in on {
            on.iter().filter(|&&b| b != a).for_each(|&b| *shared.entry((a, b)).or_default() += 1);
        }
    }
    let mut left: Vec<SwitchId> = tors.to_vec();
    let mut order = vec![left.remove(0)];
    while !left.is_empty() {
        let last = order[order.len() - 1];
        let by = |t: &SwitchId| (shared.get(&(last, *t)).copied().unwrap_or(0), std::cmp::Reverse(*t));
        let next = (0..left.len()).max_by_key(|&i| by(&left[i])).expect("some are left");
        order.push(left.remove(next));
    }
    order
}

/// Ascending positions, turned so that they begin after their widest gap: `[0, 1, 11]` of 12 is `[11, 0, 1]`.
fn left_to_right(mut at: Vec<usize>, len: usize) -> Vec<usize> {
    let gap = |i: usize| (at[(i + 1) % at.len()] + len - at[i] - 1) % len;
    // Of equal gaps the last one: the order then begins at the lowest position.
    let widest = (0..at.len()).max_by_key(|&i| (gap(i), i)).expect("a rack is on some ToR");
    let turn = (widest + 1) % at.len();
    at.rotate_left(turn);
    at
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::subways::testing::{Wiring, build};

    #[test]
    fn a_regular_loop_is_in_the_order_of_its_tors() {
        for (racks, ports) in [(12, 2), (9, 3), (12, 6), (5, 4)] {
            let fabric = build(Wiring { racks, ports, ..Wiring::default() });
            let rings = Ring::all(&fabric);
            assert_eq!(rings.len(), 1);
            let ring = &rings[0];
            assert!(ring.tors.is_sorted());
            assert_eq!((ring.tors.len(), ring.racks.len(), ring.ports), (racks, racks, ports));
            for (i, rack) in ring.racks.iter().enumerate() {
                assert_eq!(rack.tors, (0..ports).map(|j| (i + j) % racks).collect::<Vec<_>>());
            }
            for t in 0..racks {
                let expected: Vec<usize> = (0..ports).map(|j| (t + racks + 1 + j - ports) % racks).collect();
                assert_eq!(ring.racks_at(t), expected, "{racks} racks of {ports} ports, ToR {t}");
            }
        }
    }

    #[test]
    fn loops_are_found_apart_and_multihoming_is_a_loop_too() {
        let fabric = build(Wiring { racks: 3, ports: 2, loops: 4, ..Wiring::default() });
        let rings = Ring::all(&fabric);
        assert_eq!(rings.iter().map(|r| r.tors[0].0).collect::<Vec<_>>(), [0, 3, 6, 9]);
        let multihomed = &Ring::all(&build(Wiring { racks: 2, ports: 2, ..Wiring::default() }))[0];
        assert_eq!((multihomed.tors.len(), multihomed.racks.len()), (2, 2), "a rack for each order of NICs");
        assert!(Ring::all(&build(Wiring { racks: 4, ports: 1, ..Wiring::default() })).is_empty());
    }

    #[test]
    fn the_order_is_that_of_the_wiring_not_of_the_numbers() {
        let fabric = build(Wiring { racks: 8, ports: 2, shuffled: true, ..Wiring::default() });
        let ring = &Ring::all(&fabric)[0];
        assert!(!ring.tors.is_sorted());
        for rack in &ring.racks {
            assert_eq!(rack.tors[1], ring.step(rack.tors[0], 1), "neighbours");
        }
    }
}
