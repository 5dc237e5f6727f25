//! The controllers as a machine.
//!
//! ```text
//!   Timer ---------> ReadLinkCounters, ReadFlowCounters
//!   LinkCounters --> kept for the flows' counters, which come next
//!   FlowCounters --> every T_rebind: U and D; every T_detect: hot ToRs, detours; then SetAccessPaths, and Rebind of the flows that move
//!   FlowRemoved ---> its last bytes are booked
//!   Failed, Restored -> paths and capacities that work; the next reading acts on them
//! ```

use std::collections::VecDeque;
use std::sync::Arc;

use rand::RngExt;
use rustc_hash::FxHashMap;
use weft_fabric::record::ControlRecord;
use weft_fabric::rng::{Pcg64, Stream, stream};
use weft_fabric::routing::access_paths::{crosses_itself, cut, nic_paths};
use weft_fabric::routing::{AccessPath, Direction, FlowKey, NextHops, Path};
use weft_fabric::topology::{Health, Part};
use weft_fabric::{BitsPerSec, Bytes, Fabric, LinkId, RackId};

use crate::controller::{Controller, FlowCounter, Input, Output};
use crate::subways::config::{SubwaysConfig, SubwaysError};
use crate::subways::detour::{self, Plan, Situation};
use crate::subways::hosts::{DIRECTIONS, End, Ends, HostLane};
use crate::subways::hot::Heat;
use crate::subways::rebinding::{self, Lane, pick, split};
use crate::subways::returning::{Demand, keep_direct};
use crate::subways::ring::Ring;
use crate::subways::traffic::{DETECT, Detoured, REBIND, Traffic};
use crate::subways::weights::{Carried, Port, remaining};
use crate::time::{Duration, Instant};

/// The controllers of all loops of a fabric.
pub struct Subways {
    config: SubwaysConfig,
    fabric: Arc<Fabric>,
    health: Health,
    rings: Vec<Ring>,
    loads: Vec<Load>,
    ends: Ends,
    traffic: Traffic,
    pairs: Pairs,
    /// The ports' counters now, and at the last end of a reading of each kind.
    bytes: Vec<Bytes>,
    readings: [Reading; 2],
    outputs: VecDeque<Output>,
    record: ControlRecord,
    rng: Pcg64,
}

/// The state of one loop.
#[derive(Clone, Debug)]
struct Load {
    /// By position.
    ports: Vec<Port>,
    /// By direction.
    heat: [Heat; 2],
    plans: [Plan; 2],
    /// By direction and position: the moving average of what detours carry up there, bits per second.
    detoured: [Vec<f64>; 2],
}

/// A span between two readings.
#[derive(Clone, Debug)]
struct Reading {
    every: Duration,
    due: Instant,
    since: Instant,
    bytes: Vec<Bytes>,
}

impl Subways {
    /// Controllers for the loops of a fabric of which everything works. A fabric without loops is left alone.
    ///
    /// # Errors
    /// [`SubwaysError`] if a setting means nothing.
    pub fn new(fabric: Arc<Fabric>, config: SubwaysConfig) -> Result<Self, SubwaysError> {
        config.check()?;
        let rings = Ring::all(&fabric);
        let bytes = vec![Bytes(0); fabric.links().len()];
        let reading = |every| Reading { every, due: Instant::ZERO + every, since: Instant::ZERO, bytes: bytes.clone() };
        // Without detours the second reading never comes.
        let detect = config.detour.map_or(Reading { due: Instant::MAX, ..reading(config.period) }, |d| reading(d.detect));
        Ok(Self {
            health: Health::new(&fabric),
            loads: rings.iter().map(|ring| Load::new(&fabric, ring)).collect(),
            ends: Ends::new(&fabric, &rings),
            traffic: Traffic::new(&fabric),
            pairs: Pairs { next_hops: NextHops::new(Arc::clone(&fabric)), nearest: FxHashMap::default() },
            readings: [reading(config.period), detect],
            bytes,
            outputs: VecDeque::new(),
            record: ControlRecord::default(),
            rng: stream(config.seed, Stream::Scheduler),
            rings,
            config,
            fabric,
        })
    }

    fn timer(&mut self, now: Instant) {
        if now >= self.readings[REBIND].due.min(self.readings[DETECT].due) {
            self.outputs.extend([Output::ReadLinkCounters, Output::ReadFlowCounters]);
        }
    }

    fn round(&mut self, now: Instant, counters: &[FlowCounter<'_>]) {
        self.traffic.read(&self.fabric, &mut self.ends, counters);
        let due = self.readings.each_ref().map(|r| r.due <= now && r.since < now);
        if due[REBIND] {
            self.measure(now);
        }
        if due[DETECT] {
            self.detect(now);
        }
        self.weigh();
        if due[REBIND] {
            self.rebind(counters, now);
            self.record.rounds += 1;
            let paths = self.loads.iter().flat_map(|l| &l.plans).flat_map(|p| &p.egresses).map(|e| e.paths.len() as u64);
            self.record.detours += paths.sum::<u64>();
        }
        for (number, reading) in self.readings.iter_mut().enumerate().filter(|(i, _)| due[*i]) {
            reading.bytes.clone_from(&self.bytes);
            reading.since = now;
            while reading.due <= now {
                reading.due += reading.every;
            }
            self.traffic.begin(number);
        }
    }

    /// Utilisations since the last rebinding.
    fn measure(&mut self, now: Instant) {
        let Reading { since, bytes, .. } = &self.readings[REBIND];
        let seconds = (now - *since).as_secs_f64();
        let gain = self.config.ewma_gain;
        for (ring, load) in self.rings.iter().zip(&mut self.loads) {
            for (tor, port) in load.ports.iter_mut().enumerate() {
                let detours = [0, 1].map(|d| {
                    let Detoured { egress, origin } = self.traffic.detoured[d][ring.tors[tor].index()];
                    Carried { egress: egress[REBIND], origin: origin[REBIND] }
                });
                port.read(&self.bytes, bytes, detours, seconds, gain);
                for (direction, Carried { egress: carried, .. }) in detours.into_iter().enumerate() {
                    let average = &mut load.detoured[direction][tor];
                    *average = gain * carried as f64 * 8.0 / seconds + (1.0 - gain) * *average;
                }
            }
        }
    }

    /// Finds hot ToRs and plans detours.
    fn detect(&mut self, now: Instant) {
        let Some(config) = self.config.detour else { return };
        let Reading { since, bytes: last, .. } = &self.readings[DETECT];
        let seconds = (now - *since).as_secs_f64();
        // Hosts' bytes are counted from the last rebinding on.
        let straight = (now - self.readings[REBIND].since).as_secs_f64();
        let bps = |bytes: u64| bytes as f64 * 8.0 / seconds;
        let moved = |l: LinkId| self.bytes[l.index()].0 - last[l.index()].0;
        for (ring, load) in self.rings.iter().zip(&mut self.loads) {
            let capacity: Vec<f64> = load.ports.iter().map(|p| p.capacity).collect();
            for direction in DIRECTIONS {
                let d = direction as usize;
                let mut usable = Vec::with_capacity(capacity.len());
                for (tor, port) in load.ports.iter().enumerate() {
                    let detoured = self.traffic.detoured[d][ring.tors[tor].index()];
                    let all = bps(port.links[d].iter().map(|&l| moved(l)).sum());
                    let before_detours = all - bps(detoured.egress[DETECT]) + bps(detoured.origin[DETECT]);
                    let used = if port.capacity > 0.0 { before_detours / port.capacity } else { 1.0 };
                    load.heat[d].judge(tor, used, config.hot_threshold, now, config.hot_duration);
                    let room = (port.capacity - before_detours).max(0.0);
                    let even = evenly(&self.fabric, &port.links[d], &self.traffic.on_link, |l| bps(moved(l)), bps);
                    usable.push(config.usable * room.min(even));
                }
                let room = room(ring, &self.ends, direction, straight);
                let hot = load.heat[d].hot(now);
                let situation = Situation {
                    ring,
                    hot: &hot,
                    capacity: &capacity,
                    usable: &usable,
                    room: &room,
                    max_servers: config.max_servers,
                    edge_rule: config.edge_rule,
                };
                load.plans[d] = detour::plan(&situation);
            }
        }
        self.deliver();
    }

    fn deliver(&mut self) {
        for (ring, load) in self.rings.iter().zip(&self.loads) {
            for direction in DIRECTIONS {
                self.ends.deliver(&self.fabric, &self.health, ring, direction, &load.plans[direction as usize]);
            }
        }
    }

    /// Sends the access paths of new flows to the world, where they changed.
    fn weigh(&mut self) {
        for direction in DIRECTIONS {
            for end in self.ends.of_mut(direction) {
                let load = &self.loads[end.ring];
                let weight = |lane: &HostLane| {
                    let (capacity, utilisation) = load.state(end, lane, direction);
                    remaining(capacity, utilisation) as u64
                };
                let limit = |lane: &HostLane| lane.detour.map(|share| BitsPerSec(share.host as u64));
                let path = |lane: &HostLane| AccessPath { links: lane.links.clone(), weight: weight(lane), limit: limit(lane) };
                let paths: Vec<AccessPath> = end.lanes.iter().map(path).collect();
                if end.sent.as_ref() != Some(&paths) {
                    self.outputs.push_back(Output::SetAccessPaths { host: end.host, direction, paths: Some(paths.clone()) });
                    end.sent = Some(paths);
                }
            }
        }
    }

    /// Redraws the flows under way.
    fn rebind(&mut self, counters: &[FlowCounter<'_>], now: Instant) {
        let seconds = (now - self.readings[REBIND].since).as_secs_f64();
        let bound: Vec<Bound<'_>> = counters.iter().filter_map(|c| Bound::of(&self.fabric, &self.ends, c)).collect();
        let plans = DIRECTIONS.map(|direction| self.plans(&bound, direction, seconds));
        for flow in &bound {
            let drawn = DIRECTIONS.map(|direction| {
                let place = flow.place[direction as usize]?;
                let plan = plans[direction as usize][place].as_ref()?;
                Some(plan.draw(flow.lane[direction as usize], &mut self.rng))
            });
            if drawn == flow.lane {
                continue;
            }
            if let Some([leaving, arriving]) = self.fitting(flow, drawn, &plans)
                && (leaving[..] != *flow.links[0] || arriving[..] != *flow.links[1])
            {
                self.record.moves += 1;
                self.outputs.push_back(Output::Rebind { flow: flow.key, leaving, arriving, gap: self.config.flowlet_gap });
            }
        }
        DIRECTIONS
            .iter()
            .for_each(|&d| self.ends.of_mut(d).iter_mut().for_each(|e| e.lanes.iter_mut().for_each(|l| l.bytes = 0)));
    }

    /// By place of a host: how its flows should be split; `None` if it has none, or one way only.
    fn plans(&self, bound: &[Bound<'_>], direction: Direction, seconds: f64) -> Vec<Option<rebinding::Plan>> {
        let d = direction as usize;
        let ends = self.ends.of(direction);
        let mut count: Vec<Vec<u32>> = ends.iter().map(|e| vec![0; e.lanes.len() + 1]).collect();
        for flow in bound {
            if let Some(place) = flow.place[d] {
                let elsewhere = ends[place].lanes.len();
                count[place][flow.lane[d].unwrap_or(elsewhere)] += 1;
            }
        }
        let returning = self.returning(&count, direction, seconds);
        let plan = |(end, count): (&End, &Vec<u32>)| {
            let (elsewhere, there) = count.split_last()?;
            if count.iter().all(|&n| n == 0) || (there.len() == 1 && *elsewhere == 0) {
                return None;
            }
            let load = &self.loads[end.ring];
            let lanes = end.lanes.iter().zip(there).map(|(lane, &n)| load.lane(end, lane, direction, seconds, n));
            let lanes: Vec<Lane> = lanes.collect();
            let mut parts = split(&lanes, self.config.aggressiveness, self.config.utilisation_floor);
            if let Some(config) = self.config.detour {
                let ports = || end.direct().map(|nic| &load.ports[nic.tor]);
                let threshold = config.hot_threshold * ports().map(|p| p.capacity).sum::<f64>();
                let kept = (threshold / ports().map(|p| p.used(direction as usize)).sum::<f64>()).min(1.0);
                let back = end.direct().map(|nic| returning[end.ring][nic.tor]).sum::<f64>() / ports().count().max(1) as f64;
                keep_direct(&lanes, kept, back, &mut parts);
            }
            Some(rebinding::Plan::new(parts, there, *elsewhere, self.config.rebind))
        };
        ends.iter().zip(&count).map(plan).collect()
    }

    /// By loop and position of a ToR: the fraction of the connections on detours of its racks that fit in what it has left up to
    /// `hot_threshold`, at the rate of those that go straight up there; those of a host are divided among its ToRs.
    fn returning(&self, count: &[Vec<u32>], direction: Direction, seconds: f64) -> Vec<Vec<f64>> {
        let Some(config) = self.config.detour else { return Vec::new() };
        let mut demands: Vec<Vec<Demand>> = self.rings.iter().map(|r| vec![Demand::default(); r.tors.len()]).collect();
        for (end, count) in self.ends.of(direction).iter().zip(count) {
            let detours = || end.lanes.iter().zip(count).filter(|(lane, _)| lane.detour.is_some());
            let away = f64::from(detours().map(|(_, n)| n).sum::<u32>());
            let rate = detours().map(|(lane, _)| lane.bytes).sum::<u64>() as f64 * 8.0 / seconds;
            let nics = end.direct().count() as f64;
            for (lane, &n) in end.lanes.iter().zip(count).filter(|(lane, _)| lane.detour.is_none()) {
                let demand = &mut demands[end.ring][lane.tor];
                demand.direct += f64::from(n);
                demand.away += away / nics;
                demand.away_rate += rate / nics;
                demand.nic = demand.nic.max(lane.nic);
            }
        }
        let fraction = |(port, demand): (&Port, &Demand)| {
            let d = direction as usize;
            demand.returning(port.room(d, config.hot_threshold), port.rate[d])
        };
        self.loads.iter().zip(&demands).map(|(load, of)| load.ports.iter().zip(of).map(fraction).collect()).collect()
    }

    /// The paths that were drawn, if they go together; else one end keeps its draw and the other takes what goes with it. `None` if the
    /// flow had better stay.
    fn fitting(
        &mut self,
        flow: &Bound<'_>,
        drawn: [Option<usize>; 2],
        plans: &[Vec<Option<rebinding::Plan>>; 2],
    ) -> Option<[Path; 2]> {
        let links = |ends: &Ends, end: usize, lane: Option<usize>| match (flow.place[end], lane) {
            (Some(place), Some(lane)) => ends.of(DIRECTIONS[end])[place].lanes[lane].links.clone(),
            _ => Path::from_slice(flow.links[end]),
        };
        let wanted: [Path; 2] = std::array::from_fn(|end| links(&self.ends, end, drawn[end]));
        if self.pairs.fit(&self.fabric, &self.health, flow.key, &wanted) {
            return Some(wanted);
        }
        let first = usize::from(self.rng.random::<bool>());
        for leader in [first, 1 - first] {
            let other = 1 - leader;
            let Some(place) = flow.place[other] else { continue };
            let Some(plan) = plans[other][place].as_ref() else { continue };
            let mut pair = wanted.clone();
            let mut weights = plan.parts().to_vec();
            for (lane, weight) in weights.iter_mut().enumerate() {
                pair[other] = links(&self.ends, other, Some(lane));
                if !self.pairs.fit(&self.fabric, &self.health, flow.key, &pair) {
                    *weight = 0.0;
                }
            }
            let stays = flow.lane[other].filter(|&lane| weights[lane] > 0.0);
            if let Some(lane) = stays.or_else(|| pick(&weights, &mut self.rng)) {
                pair[other] = links(&self.ends, other, Some(lane));
                return Some(pair);
            }
        }
        None
    }

    fn part_changed(&mut self) {
        self.pairs.next_hops.invalidate();
        self.pairs.nearest.clear();
        for load in &mut self.loads {
            load.ports.iter_mut().for_each(|p| p.repair(&self.fabric, &self.health));
        }
        self.deliver();
    }

    fn failed(&mut self, part: Part) {
        self.health.fail(&self.fabric, part);
        self.part_changed();
    }

    fn restored(&mut self, part: Part) {
        self.health.restore(&self.fabric, part);
        self.part_changed();
    }
}

impl Controller for Subways {
    fn handle(&mut self, now: Instant, input: Input<'_>) {
        match input {
            Input::Timer => self.timer(now),
            Input::LinkCounters(counters) => self.bytes.copy_from_slice(counters.bytes),
            Input::FlowCounters(counters) => self.round(now, counters),
            // Counters have the path of each flow, and hosts keep those of flows under way.
            Input::Placed(..) => {}
            Input::FlowRemoved(counter) => self.traffic.removed(&self.fabric, &mut self.ends, &counter),
            Input::Failed(part) => self.failed(part),
            Input::Restored(part) => self.restored(part),
            Input::Detours(host, takes_part) => {
                if self.ends.set_detours(host, takes_part) {
                    self.deliver();
                }
            }
        }
    }

    fn poll(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    fn deadline(&self) -> Option<Instant> {
        (!self.rings.is_empty()).then(|| self.readings[REBIND].due.min(self.readings[DETECT].due))
    }

    fn record(&self) -> ControlRecord {
        self.record
    }
}

impl Load {
    fn new(fabric: &Fabric, ring: &Ring) -> Self {
        let n = ring.tors.len();
        Self {
            ports: ring.tors.iter().map(|&t| Port::new(fabric, t)).collect(),
            heat: [Heat::new(n), Heat::new(n)],
            plans: Default::default(),
            detoured: [vec![0.0; n], vec![0.0; n]],
        }
    }

    /// A host's path as the formulas see it. A detour counts with what it may use of its egress, and with how much of that is used; its
    /// limit is the host's equal share. Hosts that do not detour see their ToRs as without detours.
    fn lane(&self, end: &End, lane: &HostLane, direction: Direction, seconds: f64, connections: u32) -> Lane {
        let (capacity, utilisation) = self.state(end, lane, direction);
        let (rate, limit) = (lane.bytes as f64 * 8.0 / seconds, lane.detour.map_or(lane.nic, |share| share.host));
        Lane { capacity, utilisation, rate, limit, connections, is_detour: lane.detour.is_some() }
    }

    /// The capacity of a host's lane at its ToR, in bits per second, and how much of it is used.
    fn state(&self, end: &End, lane: &HostLane, direction: Direction) -> (f64, f64) {
        let d = direction as usize;
        if let Some(share) = lane.detour {
            let egress = self.plans[d].egresses.iter().find(|e| e.tor == lane.tor);
            let usable: f64 = egress.iter().flat_map(|e| &e.paths).map(|p| p.usable).sum();
            return (share.rack, if usable > 0.0 { self.detoured[d][lane.tor] / usable } else { 1.0 });
        }
        let port = &self.ports[lane.tor];
        let detours = end.lanes.iter().any(|l| l.detour.is_some());
        (port.capacity, if detours { port.utilisation[d] } else { port.before_detours[d] })
    }
}

/// The most that all detours to a ToR can have so that none of its links to the switches above has more of them than it has left
/// beside them, as they are spread over these links now. Switches hash whole connections: of a few, one link may have most.
fn evenly(fabric: &Fabric, links: &[LinkId], detoured: &[u64], rate: impl Fn(LinkId) -> f64, bps: impl Fn(u64) -> f64) -> f64 {
    let all: u64 = links.iter().map(|l| detoured[l.index()]).sum();
    let busy = links.iter().filter(|l| detoured[l.index()] > 0);
    let most = busy.map(|&l| {
        let own = detoured[l.index()];
        let left = fabric.link(l).capacity.as_f64() - (rate(l) - bps(own)).max(0.0);
        left.max(0.0) * all as f64 / own as f64
    });
    most.fold(f64::INFINITY, f64::min)
}

/// What the links between a rack's servers and its ToRs have left beside what goes straight up from there. As elsewhere, flows through
/// shared ToRs are left out: they would fill any link.
fn room(ring: &Ring, ends: &Ends, direction: Direction, seconds: f64) -> Vec<Vec<f64>> {
    let mut rooms: Vec<Vec<f64>> = ring.racks.iter().map(|r| vec![0.0; r.tors.len()]).collect();
    for (rack, room) in ring.racks.iter().zip(&mut rooms) {
        for &host in &rack.hosts {
            let end = &ends.of(direction)[ends.place(host).expect("it is in the loop")];
            for nic in &end.nics {
                let at = rack.tors.iter().position(|&t| t == nic.tor).expect("the hosts of a rack are on its ToRs");
                let carried = end.lanes.iter().filter(|l| l.links == nic.links).map(|l| l.bytes).sum::<u64>();
                room[at] += (nic.nic - carried as f64 * 8.0 / seconds).max(0.0);
            }
        }
    }
    rooms
}

/// A flow under way that does not go through a shared ToR.
struct Bound<'a> {
    key: FlowKey,
    /// By direction: its path there, where its host stands (if that has a choice), and the number of the path (if it still is one).
    links: [&'a [LinkId]; 2],
    place: [Option<usize>; 2],
    lane: [Option<usize>; 2],
}

impl<'a> Bound<'a> {
    fn of(fabric: &Fabric, ends: &Ends, counter: &FlowCounter<'a>) -> Option<Self> {
        if counter.path.len() <= 2 {
            return None;
        }
        let (a, b) = cut(fabric, counter.path);
        let links = [&counter.path[..a], &counter.path[b..]];
        let place = [counter.flow.src, counter.flow.dst].map(|host| ends.place(host));
        let lane = DIRECTIONS.map(|direction| {
            let lanes = &ends.of(direction)[place[direction as usize]?].lanes;
            lanes.iter().position(|l| l.links[..] == *links[direction as usize])
        });
        Some(Self { key: counter.flow, links, place, lane })
    }
}

/// Which leaving and arriving paths go together, as [`Router`](weft_fabric::routing::Router) sees it.
struct Pairs {
    next_hops: NextHops,
    /// By racks of source and destination: links between the nearest of their ToRs.
    nearest: FxHashMap<(RackId, RackId), Option<usize>>,
}

impl Pairs {
    fn fit(&mut self, fabric: &Fabric, health: &Health, key: FlowKey, [leaving, arriving]: &[Path; 2]) -> bool {
        if crosses_itself(fabric, leaving, arriving) {
            return false;
        }
        let racks = (fabric.rack_of(key.src), fabric.rack_of(key.dst));
        let next_hops = &mut self.next_hops;
        let mut distance = |from, to| next_hops.distance(health, from, fabric.as_switch(to)?);
        let nearest = *self.nearest.entry(racks).or_insert_with(|| {
            let mut nearest = None;
            for l in nic_paths(fabric, health, key.src, Direction::Out) {
                for a in nic_paths(fabric, health, key.dst, Direction::In) {
                    let apart = distance(l.tor(fabric, Direction::Out), a.tor(fabric, Direction::In));
                    nearest = [nearest, apart].into_iter().flatten().min();
                }
            }
            nearest
        });
        let apart = distance(fabric.link(leaving[leaving.len() - 1]).to, fabric.link(arriving[0]).from);
        nearest.is_some_and(|nearest| apart.is_some_and(|apart| apart <= nearest))
    }
}
