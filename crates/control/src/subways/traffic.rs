//! Who sent how much over which path since the last reading.

use weft_fabric::routing::access_paths::cut;
use weft_fabric::routing::{Direction, FlowKey};
use weft_fabric::{Bytes, Fabric, LinkId, SwitchId};

use crate::controller::FlowCounter;
use crate::subways::hosts::{DIRECTIONS, Ends};

/// The last counter of every flow under way, and what detours carried.
#[derive(Clone, Debug, Default)]
pub struct Traffic {
    /// Ascending by key.
    seen: Vec<(FlowKey, Bytes)>,
    /// By direction, then by switch: detoured bytes.
    pub detoured: [Vec<Detoured>; 2],
    /// By link between a ToR and the switches above: detoured bytes since the last detection of hot ToRs.
    pub on_link: Vec<u64>,
}

/// Detoured bytes of a ToR since its two readings began: for rebinding, and for detecting hot ToRs.
#[derive(Clone, Copy, Debug, Default)]
pub struct Detoured {
    /// That went up here, of other racks.
    pub egress: [u64; 2],
    /// That left their own rack over this ToR to go up elsewhere.
    pub origin: [u64; 2],
}

/// The readings' numbers.
pub const REBIND: usize = 0;
/// See [`REBIND`].
pub const DETECT: usize = 1;

impl Traffic {
    pub fn new(fabric: &Fabric) -> Self {
        let none = vec![Detoured::default(); fabric.switch_count()];
        Self { seen: Vec::new(), detoured: [none.clone(), none], on_link: vec![0; fabric.links().len()] }
    }

    /// Takes the counters of all flows under way, ascending by key.
    pub fn read(&mut self, fabric: &Fabric, ends: &mut Ends, counters: &[FlowCounter<'_>]) {
        let old = std::mem::take(&mut self.seen);
        let mut known = old.iter().peekable();
        for counter in counters {
            while known.next_if(|s| s.0 < counter.flow).is_some() {}
            let before = known.next_if(|s| s.0 == counter.flow).map_or(Bytes(0), |s| s.1);
            self.book(fabric, ends, counter, before);
        }
        self.seen = counters.iter().map(|c| (c.flow, c.bytes)).collect();
    }

    /// Takes the last counter of a flow.
    pub fn removed(&mut self, fabric: &Fabric, ends: &mut Ends, counter: &FlowCounter<'_>) {
        let before = self.seen.binary_search_by_key(&counter.flow, |s| s.0).map(|i| self.seen[i].1);
        self.book(fabric, ends, counter, before.unwrap_or(Bytes(0)));
    }

    /// Begins a new reading.
    pub fn begin(&mut self, reading: usize) {
        for of in self.detoured.iter_mut().flatten() {
            of.egress[reading] = 0;
            of.origin[reading] = 0;
        }
        if reading == DETECT {
            self.on_link.fill(0);
        }
    }

    /// Books what a flow has moved since its counter stood at `before`. Flows through a shared ToR are nobody's load.
    fn book(&mut self, fabric: &Fabric, ends: &mut Ends, counter: &FlowCounter<'_>, before: Bytes) {
        let moved = counter.bytes.0.saturating_sub(before.0);
        if moved == 0 || counter.path.len() <= 2 {
            return;
        }
        let (a, b) = cut(fabric, counter.path);
        for direction in DIRECTIONS {
            let (host, links) = match direction {
                Direction::Out => (counter.flow.src, &counter.path[..a]),
                Direction::In => (counter.flow.dst, &counter.path[b..]),
            };
            let Some(place) = ends.place(host) else { continue };
            let lanes = &mut ends.of_mut(direction)[place].lanes;
            if let Some(lane) = lanes.iter_mut().find(|l| l.links[..] == *links) {
                lane.bytes += moved;
            }
            if links.len() > 1 {
                let (origin, egress) = tors(fabric, links, direction);
                let of = &mut self.detoured[direction as usize];
                of[origin.index()].origin.iter_mut().for_each(|n| *n += moved);
                of[egress.index()].egress.iter_mut().for_each(|n| *n += moved);
                if a < b {
                    let link = if direction == Direction::Out { counter.path[a] } else { counter.path[b - 1] };
                    self.on_link[link.index()] += moved;
                }
            }
        }
    }
}

/// The ToR beside the host, and the one at the far end.
fn tors(fabric: &Fabric, links: &[LinkId], direction: Direction) -> (SwitchId, SwitchId) {
    let (first, last) = (fabric.link(links[0]), fabric.link(links[links.len() - 1]));
    let (origin, egress) = match direction {
        Direction::Out => (first.to, last.to),
        Direction::In => (last.from, first.from),
    };
    let switch = |node| fabric.as_switch(node).expect("paths begin and end at ToRs");
    (switch(origin), switch(egress))
}
