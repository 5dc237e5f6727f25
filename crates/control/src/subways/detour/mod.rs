//! Detours: which remote ToRs take traffic of hot racks, and over which racks it gets there (Subways section 6).
//!
//! ```text
//!    p = 2, hot racks R and S, and so hot ToRs a, b, c; left of them, with one and with two servers in between:
//!
//!      y2 ---- Q2 ---- y1 ---- Q1 ---- a ---- R ---- b ---- S ---- c ---- ...         ToRs lower case, racks upper case
//!
//!      R -> a -> Q1 -> y1                      (up into the network at y1)
//!      R -> a -> Q1 -> y1 -> Q2 -> y2          (at y2)
//! ```
//! A plan speaks of outbound detours; inbound ones are the same, every link turned round. Steps 1 to 6 of the paper: each group of hot
//! ToRs takes, round by round, the next ToR on either side; stops on a side where that ToR is hot or already serves a detour, or where no
//! path is short enough; traces the paths to the ToR back, over its nearest h = floor(p/2) racks and their nearest h ToRs on the side of
//! the group; and stops when the links of its servers are used up.
//!
//! Groups of more than p ToRs: only the h racks at an edge detour to that side, and these leave the ToRs of their own that other members
//! depend on. The text says "that other members of the group could use". We read: members that cannot detour, for else the one ToR
//! between two hot racks would be left by both and idle. And an edge leaves a ToR only if its detours carry at least its even part of
//! that ToR.

use crate::subways::ring::Ring;

/// What a plan is made from. Rates are in bits per second.
#[derive(Clone, Debug)]
pub struct Situation<'a> {
    /// The loop.
    pub ring: &'a Ring,
    /// By position: hot ToRs.
    pub hot: &'a [bool],
    /// By position: the capacity of the working uplinks.
    pub capacity: &'a [f64],
    /// By position: what detours may use of the uplinks.
    pub usable: &'a [f64],
    /// By rack, then by its ToRs: what its servers' links to that ToR have left for detours.
    pub room: &'a [Vec<f64>],
    /// A path passes at most so many servers.
    pub max_servers: usize,
    /// Whether the edges of a group leave ToRs to others.
    pub edge_rule: bool,
}

/// Detours of a loop in one direction.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// Remote ToRs, in the order in which they were taken.
    pub egresses: Vec<Egress>,
    /// By rack, positions of the ToRs that it leaves to others of its group.
    pub leaves: Vec<Vec<usize>>,
}

/// A remote ToR that takes detours.
#[derive(Clone, Debug, PartialEq)]
pub struct Egress {
    /// Its position.
    pub tor: usize,
    /// Its paths, which share its usable capacity equally.
    pub paths: Vec<RackPath>,
}

/// A detour from rack to rack.
#[derive(Clone, Debug, PartialEq)]
pub struct RackPath {
    /// The hot rack.
    pub source: usize,
    /// (ToR, rack that forwards from it), from the source on; then the egress.
    pub hops: Vec<(usize, usize)>,
    /// What the source may send this way, bits per second.
    pub usable: f64,
}

/// Which direction along the loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Left,
    Right,
}

/// A group of hot racks.
#[derive(Clone, Debug)]
struct Group {
    /// Its hot ToRs: the first position, and how many.
    first: usize,
    len: usize,
    /// Racks, left to right.
    racks: Vec<usize>,
    /// By side: racks that may detour there; the next ToR, as steps beyond the edge; `None` once that side is closed.
    sources: [Vec<usize>; 2],
    reach: [Option<usize>; 2],
}

/// Chooses egresses and paths.
pub fn plan(at: &Situation<'_>) -> Plan {
    let ring = at.ring;
    let mut groups = groups(ring, at.hot);
    let mut used = at.hot.to_vec();
    let mut room = at.room.to_vec();
    let mut plan = Plan { egresses: Vec::new(), leaves: vec![Vec::new(); ring.racks.len()] };
    while groups.iter().any(|g| g.reach != [None, None]) {
        for group in &mut groups {
            for side in [Side::Left, Side::Right] {
                let Some(steps) = group.reach[side as usize] else { continue };
                let tor = group.beyond(ring, side, steps);
                group.reach[side as usize] = match used[tor] {
                    true => None,
                    false => extend(at, group, side, tor, &mut room).map(|egress| {
                        used[tor] = true;
                        plan.egresses.push(egress);
                        steps + 1
                    }),
                };
            }
        }
    }
    for group in groups.iter().filter(|g| at.edge_rule && g.len > ring.ports) {
        leave_to_others(at, group, &mut plan);
    }
    plan
}

/// Step 4: the paths to one more ToR; `None` if there are none that could carry anything.
fn extend(at: &Situation<'_>, group: &Group, side: Side, tor: usize, room: &mut [Vec<f64>]) -> Option<Egress> {
    let ring = at.ring;
    let mut paths = Vec::new();
    trace_back(at, &group.sources[side as usize], side, tor, &mut Vec::new(), &mut paths);
    if paths.is_empty() {
        return None;
    }
    let each = at.usable[tor] / paths.len() as f64;
    for path in &mut paths {
        let first = path.hops[0].0;
        let link = ring.racks[path.source].tors.iter().position(|&t| t == first).expect("a path leaves by a ToR of its source");
        let left = &mut room[path.source][link];
        path.usable = each.min(*left).max(0.0);
        *left -= path.usable;
    }
    paths.retain(|p| p.usable > 0.0);
    (!paths.is_empty()).then_some(Egress { tor, paths })
}

/// All paths back from `tor` to a source, nearest first; `behind` are the hops from there to the egress, the last one first.
fn trace_back(
    at: &Situation<'_>,
    sources: &[usize],
    side: Side,
    tor: usize,
    behind: &mut Vec<(usize, usize)>,
    paths: &mut Vec<RackPath>,
) {
    if behind.len() == at.max_servers {
        return;
    }
    let h = at.ring.ports / 2;
    for &rack in toward_group(at.ring.racks_at(tor), h, side) {
        let tors = &at.ring.racks[rack].tors;
        if tors.iter().all(|&t| at.hot[t]) {
            continue;
        }
        for &from in toward_group(tors, h, side).iter().filter(|&&t| t != tor) {
            behind.push((from, rack));
            let fed: Vec<usize> = sources.iter().copied().filter(|&s| at.ring.racks[s].tors.contains(&from)).collect();
            for &source in &fed {
                let hops = behind.iter().rev().copied().collect();
                paths.push(RackPath { source, hops, usable: 0.0 });
            }
            if fed.is_empty() && !at.hot[from] {
                trace_back(at, sources, side, from, behind, paths);
            }
            behind.pop();
        }
    }
}

/// Those `h` on the side of the group: for detours to the left, the rightmost.
fn toward_group(left_to_right: &[usize], h: usize, side: Side) -> &[usize] {
    let n = left_to_right.len();
    match side {
        Side::Left => &left_to_right[n.saturating_sub(h)..],
        Side::Right => &left_to_right[..h.min(n)],
    }
}

/// Groups of adjacent hot racks, left to right. None if the whole loop is hot: there is nowhere to go.
fn groups(ring: &Ring, hot: &[bool]) -> Vec<Group> {
    let n = ring.tors.len();
    let Some(start) = (0..n).find(|&i| !hot[i]) else { return Vec::new() };
    let mut groups = Vec::new();
    let mut steps = 1;
    while steps <= n {
        let first = ring.step(start, steps as isize);
        let len = (0..n).take_while(|&i| hot[ring.step(first, i as isize)]).count();
        steps += len + 1;
        let within = |t: usize| (t + n - first) % n < len;
        let mut racks: Vec<usize> = (0..ring.racks.len()).filter(|&r| ring.racks[r].tors.iter().all(|&t| within(t))).collect();
        racks.sort_by_key(|&r| ((ring.racks[r].tors[0] + n - first) % n, r));
        if racks.is_empty() {
            continue;
        }
        let h = (ring.ports / 2).min(racks.len());
        let sources = if len > ring.ports {
            [racks[..h].to_vec(), racks[racks.len() - h..].to_vec()]
        } else {
            [racks.clone(), racks.clone()]
        };
        groups.push(Group { first, len, racks, sources, reach: [Some(1), Some(1)] });
    }
    groups
}

/// The edge rule.
fn leave_to_others(at: &Situation<'_>, group: &Group, plan: &mut Plan) {
    let ring = at.ring;
    let detours =
        |rack: usize| -> f64 { plan.egresses.iter().flat_map(|e| &e.paths).filter(|p| p.source == rack).map(|p| p.usable).sum() };
    let stay: Vec<usize> = group.racks.iter().copied().filter(|&r| detours(r) <= 0.0).collect();
    let mut leaves = Vec::new();
    for &rack in group.racks.iter().filter(|r| !stay.contains(r)) {
        let shared: Vec<usize> =
            ring.racks[rack].tors.iter().copied().filter(|t| stay.iter().any(|&s| ring.racks[s].tors.contains(t))).collect();
        let members = |t: usize| group.racks.iter().filter(|&&r| ring.racks[r].tors.contains(&t)).count() as f64;
        let given_up: f64 = shared.iter().map(|&t| at.capacity[t] / members(t)).sum();
        if shared.len() < ring.racks[rack].tors.len() && detours(rack) >= given_up {
            leaves.push((rack, shared));
        }
    }
    for (rack, shared) in leaves {
        plan.leaves[rack] = shared;
    }
}

impl Group {
    fn beyond(&self, ring: &Ring, side: Side, steps: usize) -> usize {
        match side {
            Side::Left => ring.step(self.first, -(steps as isize)),
            Side::Right => ring.step(self.first, (self.len - 1 + steps) as isize),
        }
    }
}

#[cfg(test)]
mod tests;
