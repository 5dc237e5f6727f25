//! Where everything stands (Subways section 7, figure 5).
//!
//! ```text
//!   arrangement "aisle", seen from above          arrangement "row": a loop along one row, out and back
//!
//!     rack 0   rack 1   rack 2 | agg racks          rack 0   rack 1   rack 2   | agg racks
//!     ------ cold aisle ------                      tor 0    tor 1    tor 2       out
//!     rack 5   rack 4   rack 3                      tor 5    tor 4    tor 3       and back
//!     ------ hot aisle -------
//!     the next cluster's racks ...
//! ```
//! A physical rack holds as many consecutive ToRs of a loop as a server has ports (`tors_per_rack`), and their racks' servers: one ToR
//! at the top, one at the bottom, further ones in between, as the upgrade of figure 5 leaves it. Servers stand where the cables that
//! leave the rack are short: those with a ToR at the bottom of a neighbour in the lower part.
//!
//! A cable to a server runs up or down the rack, and along the row; across an aisle it takes the overhead tray or the space beneath the
//! raised floor, whichever is nearer. A cable between switches takes the overhead tray.
//!
//! DEVIATION: the paper gives no place to the switches above the ToRs. Here each cluster has its aggregation switches at the end of its
//! row, and the cores stand beyond those of the middle cluster.

use serde::Serialize;

use super::cables::{Cable, Part};
use crate::topology::shapes::subways::{SubwaysWiring, Wiring};

/// How loops are laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Arrangement {
    /// Two parallel rows around a cold aisle (figure 5).
    #[default]
    Aisle,
    /// One row: out and back through neighbouring racks, crossing no aisle.
    Row,
}

/// Measures of the hall, in metres.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FloorPlan {
    /// How loops are laid out.
    pub arrangement: Arrangement,
    /// ToRs of a physical rack; `None`: as many as a server has ports.
    pub tors_per_rack: Option<u32>,
    /// From floor to tray: 2 m in section 7.
    pub rack_height: f64,
    /// Of a rack, side to side.
    pub rack_width: f64,
    /// Of a rack, front to back.
    pub rack_depth: f64,
    /// Between the fronts of facing racks: 1.2 m in section 7.
    pub cold_aisle: f64,
    /// Between the backs of racks.
    pub hot_aisle: f64,
    /// What a cable is longer than its way, both ends together.
    pub slack: f64,
}

/// What cables join and how they run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stretch {
    /// A server to a ToR in its own physical rack.
    ServerInRack,
    /// A server to a ToR in another rack of the row.
    ServerAlongRow,
    /// A server to a ToR in the row across the cold aisle.
    ServerAcrossAisle,
    /// A ToR to an aggregation switch.
    TorToAgg,
    /// An aggregation switch to a core.
    AggToCore,
}

/// A measure that no hall has.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{key} = {value}: {rule}")]
pub struct FloorError {
    /// The key of the plan.
    pub key: &'static str,
    /// What was asked for.
    pub value: f64,
    /// What it may be.
    pub rule: &'static str,
}

/// A fabric in its hall: all in millimetres.
#[derive(Clone, Debug)]
pub struct Floor {
    spots: Spots,
    /// By ToR.
    tors: Vec<Spot>,
    /// By (logical) rack: the physical rack's spot at the floor, and the lowest of its servers' slots among `slots`.
    racks: Vec<(Spot, u32)>,
    /// Slots of servers in a full physical rack.
    slots: u32,
    /// By aggregation switch and by core.
    aggs: Vec<Spot>,
    cores: Vec<Spot>,
    servers_per_rack: u32,
    physical: u32,
    tors_per_rack: u32,
}

/// The plan in millimetres.
#[derive(Clone, Copy, Debug)]
struct Spots {
    height: u32,
    width: u32,
    depth: u32,
    cold: u32,
    hot: u32,
    slack: u32,
}

/// A place: the front of a rack, and the height in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Spot {
    /// Number of the row.
    row: u32,
    /// Along the row.
    x: u32,
    /// Across the rows.
    y: u32,
    /// Above the floor.
    z: u32,
}

impl Default for FloorPlan {
    /// Section 7's height and aisle; usual racks.
    fn default() -> Self {
        Self {
            arrangement: Arrangement::Aisle,
            tors_per_rack: None,
            rack_height: 2.0,
            rack_width: 0.6,
            rack_depth: 1.2,
            cold_aisle: 1.2,
            hot_aisle: 1.0,
            slack: 0.2,
        }
    }
}

impl Floor {
    /// Places every part.
    ///
    /// # Errors
    /// [`FloorError`] for a measure that is not positive or beyond 100 m, or a rack without a ToR.
    pub fn new(wiring: &SubwaysWiring, plan: &FloorPlan) -> Result<Self, FloorError> {
        let spots = Spots::new(plan)?;
        let tors_per_rack = plan.tors_per_rack.unwrap_or(wiring.ports);
        if tors_per_rack == 0 || tors_per_rack > MAX_TORS {
            return Err(FloorError { key: "tors_per_rack", value: f64::from(tors_per_rack), rule: "choose 1 to 64 ToRs" });
        }
        // Type 0 has no loops: its racks stand in the order of a loop over the whole cluster.
        let loop_length = if wiring.kind.wiring() == Wiring::Trunk { wiring.racks_per_cluster } else { wiring.loop_length };
        let in_loop = loop_length.div_ceil(tors_per_rack);
        let columns = if plan.arrangement == Arrangement::Aisle { in_loop.div_ceil(2) } else { in_loop };
        spots.check_hall(wiring, u64::from(wiring.racks_per_cluster / loop_length * columns))?;
        let mut floor = Self {
            spots,
            tors: Vec::with_capacity(wiring.tors() as usize),
            racks: Vec::with_capacity(wiring.tors() as usize),
            slots: tors_per_rack * wiring.servers_per_rack,
            aggs: Vec::new(),
            cores: Vec::new(),
            servers_per_rack: wiring.servers_per_rack,
            physical: wiring.tors() / loop_length * in_loop,
            tors_per_rack,
        };
        for first in (0..wiring.tors()).step_by(loop_length as usize) {
            let lane = first / wiring.racks_per_cluster;
            let begin = first % wiring.racks_per_cluster / loop_length * columns;
            floor.place_loop(plan.arrangement, lane, begin, (loop_length, in_loop));
        }
        for first in (0..wiring.tors()).step_by(loop_length as usize) {
            floor.order_servers(wiring, first..first + loop_length);
        }
        floor.place_switches(plan.arrangement, wiring, wiring.racks_per_cluster / loop_length * columns);
        Ok(floor)
    }

    /// Physical racks with servers.
    pub const fn racks(&self) -> u32 {
        self.physical
    }

    /// ToRs of a full physical rack.
    pub const fn tors_per_rack(&self) -> u32 {
        self.tors_per_rack
    }

    /// What a cable is longer than its way.
    pub const fn slack_mm(&self) -> u32 {
        self.spots.slack
    }

    /// How a cable runs, and how far in millimetres, without slack.
    pub fn run(&self, cable: &Cable) -> (Stretch, u32) {
        let (a, b) = (self.spot(cable.lower), self.spot(cable.upper));
        let along = a.x.abs_diff(b.x) + a.y.abs_diff(b.y);
        let overhead = (self.spots.height - a.z) + (self.spots.height - b.z) + along;
        match (cable.lower, a.row == b.row) {
            (Part::Host(_), true) => {
                (if a.x == b.x { Stretch::ServerInRack } else { Stretch::ServerAlongRow }, a.z.abs_diff(b.z) + along)
            }
            (Part::Host(_), false) => (Stretch::ServerAcrossAisle, overhead.min(a.z + b.z + along)),
            (Part::Tor(_), _) => (Stretch::TorToAgg, overhead),
            _ => (Stretch::AggToCore, overhead),
        }
    }

    fn spot(&self, part: Part) -> Spot {
        match part {
            Part::Host(host) => {
                let (rack, lowest) = self.racks[(host / self.servers_per_rack) as usize];
                let slot = lowest + host % self.servers_per_rack;
                let z = u64::from(self.spots.height) * u64::from(2 * slot + 1) / u64::from(2 * self.slots);
                Spot { z: z as u32, ..rack }
            }
            Part::Tor(tor) => self.tors[tor as usize],
            Part::Agg(agg) => self.aggs[agg as usize],
            Part::Core(core) => self.cores[core as usize],
        }
    }

    /// Places the ToRs of a loop, in order, into its physical racks, which begin at a column of a cluster's rows.
    fn place_loop(&mut self, arrangement: Arrangement, lane: u32, begin: u32, (length, racks): (u32, u32)) {
        let order: Vec<u32> = (0..length).map(|tor| rack_in_loop(arrangement, tor, length, racks, self.tors_per_rack)).collect();
        for (i, &rack) in order.iter().enumerate() {
            let before = order[..i].iter().filter(|&&r| r == rack).count() as u32;
            let all = order.iter().filter(|&&r| r == rack).count() as u32;
            let (side, column) = match arrangement {
                Arrangement::Row => (0, rack),
                Arrangement::Aisle if rack < racks.div_ceil(2) => (0, rack),
                Arrangement::Aisle => (1, racks - 1 - rack),
            };
            let foot = self.spots.front(arrangement, lane, side, begin + column);
            let z = if all == 1 { self.spots.height } else { self.spots.height * (all - 1 - before) / (all - 1) };
            self.tors.push(Spot { z, ..foot });
            self.racks.push((foot, 0));
        }
    }

    /// Gives the servers of each physical rack their slots: those whose cables leave the rack low get the lower ones.
    fn order_servers(&mut self, wiring: &SubwaysWiring, tors: std::ops::Range<u32>) {
        let mut wishes: Vec<(u32, u32, u64, u32)> = tors
            .map(|rack| {
                let foot = self.racks[rack as usize].0;
                let reached: Vec<Spot> = wiring.ports_of_rack(rack).iter().map(|&t| self.tors[t as usize]).collect();
                let mean = |spots: &[Spot]| spots.iter().map(|s| u64::from(s.z)).sum::<u64>() * 1_000 / spots.len() as u64;
                let leaving: Vec<Spot> = reached.iter().copied().filter(|s| (s.row, s.x) != (foot.row, foot.x)).collect();
                (foot.row, foot.x, mean(if leaving.is_empty() { &reached } else { &leaving }), rack)
            })
            .collect();
        wishes.sort_unstable();
        for of_rack in wishes.chunk_by(|a, b| (a.0, a.1) == (b.0, b.1)) {
            for (i, &(_, _, _, rack)) in (0u32..).zip(of_rack) {
                self.racks[rack as usize].1 = i * wiring.servers_per_rack;
            }
        }
    }

    /// Aggregation switches at the end of their cluster's row, cores beyond those of the middle cluster.
    fn place_switches(&mut self, arrangement: Arrangement, wiring: &SubwaysWiring, columns: u32) {
        let spots = self.spots;
        let stack = |lane: u32, begin: u32, count: u32| {
            (0..count).map(move |i| {
                let here = (count - i / SWITCHES_A_RACK * SWITCHES_A_RACK).min(SWITCHES_A_RACK);
                let z = spots.height * (2 * (i % SWITCHES_A_RACK) + 1) / (2 * here);
                Spot { z, ..spots.front(arrangement, lane, 0, begin + i / SWITCHES_A_RACK) }
            })
        };
        self.aggs = (0..wiring.clusters).flat_map(|cluster| stack(cluster, columns, wiring.aggregations)).collect();
        let beyond = columns + wiring.aggregations.div_ceil(SWITCHES_A_RACK);
        self.cores = stack(wiring.clusters / 2, beyond, wiring.cores()).collect();
    }
}

impl Spots {
    fn new(plan: &FloorPlan) -> Result<Self, FloorError> {
        let mm = |key, value: f64, least: f64| {
            if value.is_finite() && value >= least && value <= 100.0 {
                Ok(libm::round(value * 1_000.0) as u32)
            } else {
                let rule = if least > 0.0 { "choose metres from 0.01 to 100" } else { "choose metres from 0 to 100" };
                Err(FloorError { key, value, rule })
            }
        };
        Ok(Self {
            height: mm("rack_height", plan.rack_height, 0.01)?,
            width: mm("rack_width", plan.rack_width, 0.01)?,
            depth: mm("rack_depth", plan.rack_depth, 0.0)?,
            cold: mm("cold_aisle", plan.cold_aisle, 0.0)?,
            hot: mm("hot_aisle", plan.hot_aisle, 0.0)?,
            slack: mm("slack", plan.slack, 0.0)?,
        })
    }

    /// Places must be within reach of 32 bits.
    fn check_hall(self, wiring: &SubwaysWiring, columns: u64) -> Result<(), FloorError> {
        let aggs = u64::from(wiring.aggregations.div_ceil(SWITCHES_A_RACK));
        let columns = columns + aggs + u64::from(wiring.cores().div_ceil(SWITCHES_A_RACK));
        let pitch = 2 * self.depth + self.cold + self.hot;
        for (key, mm) in
            [("rack_width", columns * u64::from(self.width)), ("cold_aisle", u64::from(wiring.clusters) * u64::from(pitch))]
        {
            if mm > MAX_HALL_MM {
                return Err(FloorError {
                    key,
                    value: mm as f64 / 1_000.0,
                    rule: "the hall is at most 100 km: place fewer clusters, or narrower racks and aisles",
                });
            }
        }
        Ok(())
    }

    /// The front of a rack, at the floor. A lane is the row or the pair of rows of a cluster.
    fn front(self, arrangement: Arrangement, lane: u32, side: u32, column: u32) -> Spot {
        let (row, y) = match arrangement {
            Arrangement::Aisle => {
                (2 * lane + side, lane * (2 * self.depth + self.cold + self.hot) + self.depth + side * self.cold)
            }
            // Rows face each other over cold aisles and stand back to back over hot ones.
            Arrangement::Row => {
                let pair = lane / 2 * (2 * self.depth + self.cold + self.hot);
                (lane, pair + self.depth + lane % 2 * self.cold)
            }
        };
        Spot { row, x: column * self.width, y, z: 0 }
    }
}

/// The physical rack, of `racks`, in which a ToR of a loop of `length` stands.
fn rack_in_loop(arrangement: Arrangement, tor: u32, length: u32, racks: u32, tors_per_rack: u32) -> u32 {
    match arrangement {
        Arrangement::Aisle => tor / tors_per_rack,
        // One ToR a rack: every second rack on the way out, the others on the way back.
        Arrangement::Row if tors_per_rack == 1 => {
            if 2 * tor < length {
                2 * tor
            } else {
                2 * (length - 1 - tor) + 1
            }
        }
        Arrangement::Row => {
            let back = length * (tors_per_rack / 2) / tors_per_rack;
            let out = length - back;
            if tor < out { tor * racks / out } else { racks - 1 - (tor - out) * racks / back }
        }
    }
}

/// A side of the hall.
const MAX_HALL_MM: u64 = 100_000_000;
/// ToRs of a physical rack.
const MAX_TORS: u32 = 64;
/// Switches above the ToRs that share a rack.
const SWITCHES_A_RACK: u32 = 40;

/// How many racks further each ToR of a loop stands than the one before it, around the loop; and the number of racks.
#[cfg(test)]
pub(super) fn steps_between_racks(arrangement: Arrangement, length: u32, tors_per_rack: u32) -> (Vec<u32>, u32) {
    let racks = length.div_ceil(tors_per_rack);
    let at = |tor: u32| rack_in_loop(arrangement, tor % length, length, racks, tors_per_rack);
    let step = |tor| {
        let direct = at(tor).abs_diff(at(tor + 1));
        if arrangement == Arrangement::Aisle { direct.min(racks - direct) } else { direct }
    };
    ((0..length).map(step).collect(), racks)
}
