//! Subways' controllers on an ideal network: max-min fair rates, exact counters, one uplink for each ToR.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use weft_control::controller::{Controller, FlowCounter, Input, LinkCounters, Output};
use weft_control::subways::{DetourConfig, Subways, SubwaysConfig};
use weft_control::time::{Duration, Instant};
use weft_fabric::routing::access_paths::nic_paths;
use weft_fabric::routing::{AccessPath, Direction, FlowKey, Path};
use weft_fabric::topology::FabricBuilder;
use weft_fabric::{BitsPerSec, Bytes, Fabric, Health, HostId, LinkId, NodeId, SwitchId};

const GBPS: u64 = 1_000_000_000;
const PERIOD: Duration = Duration::from_ms(10);
const RACKS: usize = 8;
const HOSTS: usize = 4;
/// The rack that becomes hot: on ToRs 3 and 4.
const HOT: usize = 3;

/// Two loops of 8 racks with 4 hosts, p = 2: 80 Gbps of NICs on each ToR, whose uplink has 20 Gbps in the first loop. The second does not limit.
fn fabric() -> Arc<Fabric> {
    let mut b = FabricBuilder::new("two loops");
    let tors: Vec<_> = (0..2 * RACKS).map(|i| b.switch(format!("tor{i}"), 1, None)).collect();
    let above = b.switch("above", 2, None);
    for rack in 0..2 * RACKS {
        for i in 0..HOSTS {
            let host = b.host(format!("h{}", rack * HOSTS + i), None);
            for tor in [rack, rack / RACKS * RACKS + (rack + 1) % RACKS] {
                b.cable(host, tors[tor], BitsPerSec(10 * GBPS), weft_fabric::Duration::ZERO);
            }
        }
    }
    for (i, &tor) in tors.iter().enumerate() {
        b.cable(tor, above, BitsPerSec(if i < RACKS { 20 * GBPS } else { 1000 * GBPS }), weft_fabric::Duration::ZERO);
    }
    Arc::new(b.build().unwrap())
}

#[derive(Clone, Debug)]
struct Flow {
    key: FlowKey,
    /// Leaving and arriving path.
    ends: [Path; 2],
    /// Gbps that it sends at most.
    demand: f64,
    bytes: f64,
}

struct World {
    fabric: Arc<Fabric>,
    machine: Subways,
    now: Instant,
    /// Ascending by key.
    flows: Vec<Flow>,
    link_bytes: Vec<f64>,
    /// By leaving path: Gbps.
    limits: BTreeMap<Vec<u32>, f64>,
    paths: BTreeMap<(HostId, Direction), Vec<AccessPath>>,
    /// To detours and from them.
    moves: usize,
}

impl World {
    /// Every host of the hot rack has so many connections without end to the second loop, each with a demand in Gbps.
    fn new(demands: &[Vec<f64>]) -> Self {
        let fabric = fabric();
        let config = SubwaysConfig { detour: Some(DetourConfig::default()), ..SubwaysConfig::default() };
        let machine = Subways::new(Arc::clone(&fabric), config).unwrap();
        let mut world = Self {
            link_bytes: vec![0.0; fabric.links().len()],
            machine,
            now: Instant::ZERO,
            flows: Vec::new(),
            limits: BTreeMap::new(),
            paths: BTreeMap::new(),
            moves: 0,
            fabric,
        };
        for (host, demands) in demands.iter().enumerate() {
            demands.iter().for_each(|&demand| world.begin(HOT * HOSTS + host, demand));
        }
        world
    }

    fn begin(&mut self, host: usize, demand: f64) {
        let number = self.flows.len();
        let far = RACKS * HOSTS + number % (RACKS * HOSTS);
        let nic = |host: usize, direction| {
            let nics: Vec<Path> =
                nic_paths(&self.fabric, &Health::new(&self.fabric), HostId::from(host), direction).map(|p| p.links).collect();
            nics[number % nics.len()].clone()
        };
        let ends = [nic(host, Direction::Out), nic(far, Direction::In)];
        let key = FlowKey::of_flow(number as u32, HostId::from(host), HostId::from(far));
        self.flows.push(Flow { key, ends, demand, bytes: 0.0 });
        self.flows.sort_by_key(|f| f.key);
    }

    fn path(&self, flow: &Flow) -> Vec<LinkId> {
        let [leaving, arriving] = &flow.ends;
        let uplink =
            |tor: NodeId| *self.fabric.out(tor).iter().find(|&&l| self.fabric.as_host(self.fabric.link(l).to).is_none()).unwrap();
        let (from, to) = (self.fabric.link(leaving[leaving.len() - 1]).to, self.fabric.link(arriving[0]).from);
        leaving.iter().copied().chain([uplink(from), uplink(to).reverse()]).chain(arriving.iter().copied()).collect()
    }

    /// Max-min fair rates in Gbps, by flow.
    fn rates(&self) -> Vec<f64> {
        // What is shared: links, limits of detours, and every flow's own demand.
        let mut shared: BTreeMap<(u8, Vec<u32>), (f64, Vec<usize>)> = BTreeMap::new();
        for (i, flow) in self.flows.iter().enumerate() {
            for link in self.path(flow) {
                let capacity = self.fabric.link(link).capacity.as_f64() / 1e9;
                shared.entry((0, vec![link.0])).or_insert((capacity, vec![])).1.push(i);
            }
            let leaving: Vec<u32> = flow.ends[0].iter().map(|l| l.0).collect();
            if let Some(&limit) = self.limits.get(&leaving) {
                shared.entry((1, leaving)).or_insert((limit, vec![])).1.push(i);
            }
            shared.entry((2, vec![i as u32])).or_insert((flow.demand, vec![])).1.push(i);
        }
        let mut rates: Vec<Option<f64>> = vec![None; self.flows.len()];
        while rates.iter().any(Option::is_none) {
            let fair = shared.values().filter_map(|(capacity, of)| {
                let open = of.iter().filter(|&&i| rates[i].is_none()).count();
                let left = capacity - of.iter().filter_map(|&i| rates[i]).sum::<f64>();
                (open > 0).then(|| (left.max(0.0) / open as f64, of))
            });
            let (rate, of) = fair.min_by(|a, b| a.0.total_cmp(&b.0)).unwrap();
            of.iter().for_each(|&i| rates[i] = rates[i].or(Some(rate)));
        }
        rates.into_iter().flatten().collect()
    }

    /// A period of the controller.
    fn round(&mut self) {
        let rates = self.rates();
        let seconds = PERIOD.as_secs_f64();
        for (i, rate) in rates.into_iter().enumerate() {
            let bytes = rate * 1e9 / 8.0 * seconds;
            self.path(&self.flows[i]).into_iter().for_each(|link| self.link_bytes[link.index()] += bytes);
            self.flows[i].bytes += bytes;
        }
        self.now += PERIOD;
        self.machine.handle(self.now, Input::Timer);
        let bytes: Vec<Bytes> = self.link_bytes.iter().map(|&b| Bytes(b as u64)).collect();
        self.machine.handle(self.now, Input::LinkCounters(LinkCounters { bytes: &bytes, read_at: self.now }));
        let paths: Vec<Vec<LinkId>> = self.flows.iter().map(|f| self.path(f)).collect();
        let counters: Vec<_> = self.flows.iter().zip(&paths).map(|(flow, path)| counter(flow, path, self.now)).collect();
        self.machine.handle(self.now, Input::FlowCounters(&counters));
        let mut moves = Vec::new();
        while let Some(output) = self.machine.poll() {
            match output {
                Output::SetAccessPaths { host, direction, paths } => {
                    let paths = paths.unwrap();
                    for path in paths.iter().filter(|_| direction == Direction::Out) {
                        if let Some(limit) = path.limit {
                            self.limits.insert(path.links.iter().map(|l| l.0).collect(), limit.as_f64() / 1e9);
                        }
                    }
                    self.paths.insert((host, direction), paths);
                }
                Output::Rebind { flow, leaving, arriving, .. } => moves.push((flow, [leaving, arriving])),
                _ => {}
            }
        }
        self.moves += moves.iter().filter(|(key, ends)| ends[0].len().max(self.flow(*key).ends[0].len()) > 1).count();
        moves.into_iter().for_each(|(key, ends)| self.flow(key).ends = ends);
    }

    fn flow(&mut self, key: FlowKey) -> &mut Flow {
        self.flows.iter_mut().find(|f| f.key == key).unwrap()
    }

    fn on_detours(&self) -> usize {
        self.flows.iter().filter(|f| f.ends[0].len() > 1).count()
    }

    /// Flows end but for the first `stay` of each host.
    fn end_all_but(&mut self, stay: usize) {
        let mut seen: BTreeMap<HostId, usize> = BTreeMap::new();
        let mut ended = BTreeSet::new();
        for flow in &self.flows {
            let count = seen.entry(flow.key.src).or_default();
            *count += 1;
            if *count > stay {
                ended.insert(flow.key);
            }
        }
        for flow in self.flows.iter().filter(|f| ended.contains(&f.key)) {
            let path = self.path(flow);
            self.machine.handle(self.now, Input::FlowRemoved(counter(flow, &path, self.now)));
        }
        self.flows.retain(|f| !ended.contains(&f.key));
    }
}

fn counter<'a>(flow: &Flow, path: &'a [LinkId], now: Instant) -> FlowCounter<'a> {
    FlowCounter { flow: flow.key, bytes: Bytes(flow.bytes as u64), read_at: now, path }
}

/// So many connections of each host, without a limit of their own.
fn elastic(connections: usize) -> Vec<Vec<f64>> {
    vec![vec![f64::INFINITY; connections]; HOSTS]
}

/// Of the new flows of rack 2, on ToRs 2 and 3, none goes to ToR 3, which the hot rack fills; so is it on both sides.
#[test]
fn new_flows_keep_off_full_tors() {
    let mut world = World::new(&elastic(10));
    for _ in 0..30 {
        world.round();
    }
    assert!(world.on_detours() > 0);
    for (rack, full) in [(HOT - 1, 3), (HOT + 1, 4)] {
        let paths = &world.paths[&(HostId::from(rack * HOSTS), Direction::Out)];
        let weight = |tor| {
            let of = paths.iter().find(|p| p.tor(&world.fabric, Direction::Out) == world.fabric.switch_node(SwitchId(tor)));
            of.unwrap().weight as f64
        };
        let share = weight(full) / paths.iter().map(|p| p.weight as f64).sum::<f64>();
        assert!(share < 1e-5, "ToR {full} is full and gets {share} of the new flows of rack {rack}");
    }
}

/// A hot rack's connections end but for two of each host, which the ToRs have room for: within eight periods none is on a detour, and none goes there again.
#[test]
fn connections_return_when_their_tors_have_room() {
    let mut world = World::new(&vec![vec![2.5; 16]; HOSTS]);
    for _ in 0..30 {
        world.round();
    }
    assert!(world.on_detours() > 10, "{}", world.on_detours());
    world.end_all_but(2);
    assert!(world.on_detours() > 0);
    for _ in 0..8 {
        world.round();
    }
    assert_eq!(world.on_detours(), 0);
    let moves = world.moves;
    for _ in 0..20 {
        world.round();
    }
    assert_eq!(world.moves, moves);
}
