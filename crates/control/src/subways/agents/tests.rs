//! Agents and Subways' controllers on an ideal network, and a data plane that is a table: flows send at a fixed rate.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use weft_fabric::routing::Direction;
use weft_fabric::{Fabric, HostId, NodeId, SwitchId};

use super::*;
use crate::directory::auth::Secret;
use crate::directory::key::PrincipalId;
use crate::subways::testing::{Wiring, build};
use crate::subways::{DetourConfig, Subways, SubwaysConfig};
use crate::time::{Duration, Instant};
use crate::wire::subways::{AccessRecord, FIRST_DETOUR, FlowId, NicPair, Permit, PortCounter};
use crate::wire::vl2::placement::PlacementKey;

const PERIOD: Duration = Duration::from_ms(200);
const STEP: Duration = Duration::from_ms(10);
const MBPS: u64 = 1_000_000;
/// Bytes that a flow sends in a step: 250 kbit/s.
const SENT: u64 = 312;

fn member(node: NodeId, key: u8) -> Member {
    let principal = PrincipalId(node.0 + 1);
    Member { principal, key: PlacementKey::of(&Secret::new([key; 32]).key_of(principal)) }
}

fn address(node: NodeId) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], node.0 as u16 + 1))
}

struct World {
    fabric: Arc<Fabric>,
    addresses: AccessAddresses,
    now: Instant,
    network: Option<AccessNetwork>,
    hosts: Vec<AccessHost>,
    tors: Vec<(SwitchId, TorReporter)>,
    slots: BTreeMap<(HostId, Ipv4Addr), Box<[NicPair; SLOTS]>>,
    flows: BTreeMap<(HostId, FlowId), (NicPair, u64)>,
    /// By link: bytes.
    sent: BTreeMap<u32, u64>,
    down: BTreeSet<(HostId, u8)>,
    moves: u64,
    /// By host, whose detour, and number.
    detours: BTreeMap<(HostId, Ipv4Addr, u8), AccessRecord>,
    permits: BTreeMap<HostId, Vec<Permit>>,
    /// Their agents are dead.
    dead: BTreeSet<HostId>,
    has_detours: bool,
}

impl World {
    fn new() -> Self {
        Self::with_detours(None)
    }

    /// With detours that all hosts take part in, but these.
    fn with_detours(but: Option<&[u32]>) -> Self {
        let fabric = build(Wiring { racks: 6, hosts_per_rack: 2, rate: 10 * MBPS, ..Wiring::default() });
        let addresses = AccessAddresses::new(Arc::clone(&fabric), None).unwrap();
        let scheduler = vec![address(NodeId(1000))];
        let host = |host: HostId| {
            let Member { principal, key } = member(host.node(), 5);
            let (addresses, schedulers) = (addresses.clone(), scheduler.clone());
            let config = HostConfig {
                addresses,
                host,
                principal,
                key,
                schedulers,
                sequence: 7,
                report_bytes: 1000,
                detours: but.is_some_and(|but| !but.contains(&host.0)),
            };
            AccessHost::new(config, Instant::ZERO)
        };
        let tor = |tor: SwitchId| {
            let Member { principal, key } = member(fabric.switch_node(tor), 5);
            let config = TorConfig { principal, key, schedulers: scheduler.clone(), sequence: 7 };
            (tor, TorReporter::new(config, Instant::ZERO))
        };
        let tors = fabric.switches_of_tier(1).map(tor).collect();
        let hosts = fabric.hosts().map(host).collect();
        let mut world = Self {
            network: None,
            fabric: Arc::clone(&fabric),
            addresses: addresses.clone(),
            now: Instant::ZERO,
            hosts,
            tors,
            slots: BTreeMap::new(),
            flows: BTreeMap::new(),
            sent: BTreeMap::new(),
            down: BTreeSet::new(),
            moves: 0,
            detours: BTreeMap::new(),
            permits: BTreeMap::new(),
            dead: BTreeSet::new(),
            has_detours: but.is_some(),
        };
        world.network = Some(world.scheduler(1));
        world
    }

    fn scheduler(&self, generation: u64) -> AccessNetwork {
        let detour = DetourConfig { detect: PERIOD, hot_duration: PERIOD * 10, ..DetourConfig::default() };
        let detour = self.has_detours.then_some(detour);
        let config = SubwaysConfig { period: PERIOD, detour, ..SubwaysConfig::default() };
        let controller = Box::new(Subways::new(Arc::clone(&self.fabric), config).unwrap());
        let tors = self.tors.iter().map(|&(tor, _)| (tor, member(self.fabric.switch_node(tor), 5))).collect();
        let hosts = self.fabric.hosts().map(|host| member(host.node(), 5)).collect();
        let settings =
            NetworkSettings { generation, period: PERIOD, idle_timeout: Duration::from_secs(10), detours: self.has_detours };
        AccessNetwork::new(self.addresses.clone(), hosts, tors, controller, settings)
    }

    /// Begins flows to a host's first address, over the NICs of their slots.
    fn begin(&mut self, src: u32, dst: u32, count: u16) {
        let peer = self.addresses.of(HostId(dst))[0];
        for n in 0..count {
            let nics = self.slots[&(HostId(src), peer)][usize::from(n) * 37 % SLOTS];
            self.flows.insert((HostId(src), FlowId { peer, sport: 1000 + n, dport: 80 }), (nics, 0));
        }
    }

    fn run(&mut self, time: Duration) {
        let end = self.now + time;
        while self.now < end {
            self.now += STEP;
            self.send();
            for at in 0..self.hosts.len() {
                self.host(at, None);
            }
            for at in 0..self.tors.len() {
                self.tor(at);
            }
            if self.network.as_ref().is_some_and(|it| it.deadline() <= self.now) {
                self.network.as_mut().unwrap().handle(self.now, NetworkInput::Timer);
                self.deliver();
            }
        }
    }

    /// The NIC of a path of a host, and the ToR at its far end.
    fn path(&self, at: HostId, owner: HostId, direction: Direction, number: u8) -> Option<(u8, NodeId)> {
        let addresses = &self.addresses;
        let tor = |(host, nic): (HostId, u8)| self.fabric.link(addresses.link(host, nic).unwrap()).to;
        if number < FIRST_DETOUR {
            return Some((number, tor((owner, number))));
        }
        let record = self.detours.get(&(at, addresses.of(owner)[0], number))?;
        let far = match direction {
            Direction::Out => record.hops.last().map(|hop| (addresses.nic_of(hop.via).unwrap().0, hop.out)),
            Direction::In => record.hops.first().map(|hop| addresses.nic_of(hop.via).unwrap()),
        };
        Some((record.nic, tor(far.unwrap())))
    }

    fn send(&mut self) {
        for ((src, id), (nics, bytes)) in &mut self.flows.clone() {
            let dst = self.addresses.host_of(id.peer).unwrap();
            let ends = (self.path(*src, *src, Direction::Out, nics.out), self.path(*src, dst, Direction::In, nics.into));
            let (Some((out, from)), Some((into, to))) = ends else {
                // The program takes it off a detour that is gone.
                let slots = &self.slots[&(*src, id.peer)];
                let direct = slots.iter().find(|nics| nics.out.max(nics.into) < FIRST_DETOUR).unwrap();
                self.flows.insert((*src, *id), (*direct, *bytes));
                continue;
            };
            if self.down.contains(&(*src, out)) || self.down.contains(&(dst, into)) {
                continue;
            }
            self.flows.get_mut(&(*src, *id)).unwrap().1 += SENT;
            if from == to {
                continue;
            }
            let uplink = |tor: NodeId| {
                *self.fabric.out(tor).iter().find(|&&l| self.fabric.as_host(self.fabric.link(l).to).is_none()).unwrap()
            };
            *self.sent.entry(uplink(from).0).or_default() += SENT;
            *self.sent.entry(uplink(to).reverse().0).or_default() += SENT;
        }
    }

    fn host(&mut self, at: usize, datagram: Option<&[u8]>) {
        let own = HostId::from(at);
        if self.dead.contains(&own) {
            return;
        }
        let mask = self.down.iter().filter(|(host, _)| *host == own).fold(0, |mask, (_, nic)| mask | 1 << nic);
        let now = self.now;
        self.hosts[at].handle(now, HostInput::Nics(mask));
        match datagram {
            Some(bytes) => self.hosts[at].handle(now, HostInput::Datagram(bytes)),
            None => self.hosts[at].handle(now, HostInput::Timer),
        }
        while let Some(output) = self.hosts[at].poll() {
            match output {
                HostOutput::Read => {
                    let of = self.flows.iter().filter(|((src, _), _)| *src == own);
                    let flows: Vec<FlowState> = of
                        .map(|((_, flow), &(nics, bytes))| FlowState { flow: *flow, nics, bytes, idle: Duration::ZERO })
                        .collect();
                    self.hosts[at].handle(now, HostInput::Flows(&flows));
                }
                HostOutput::Send(_, bytes) => self.hand_to_network(own.node(), &bytes),
                HostOutput::Slots(peer, slots) => drop(self.slots.insert((own, peer), slots)),
                HostOutput::Detours(all, _) => {
                    self.detours.retain(|(host, ..), _| *host != own);
                    self.detours.extend(all.into_iter().map(|record| ((own, record.host, record.number), record)));
                }
                HostOutput::Permits(permits, _) => drop(self.permits.insert(own, permits)),
                HostOutput::Move(flow, nics, _) => {
                    self.moves += 1;
                    self.flows.get_mut(&(own, flow)).unwrap().0 = nics;
                }
            }
        }
    }

    fn tor(&mut self, at: usize) {
        let now = self.now;
        let (switch, reporter) = &mut self.tors[at];
        let node = self.fabric.switch_node(*switch);
        if reporter.deadline() <= now {
            let sent = |link: u32| self.sent.get(&link).copied().unwrap_or(0);
            let is_up = |link: weft_fabric::LinkId| {
                let host = self.fabric.as_host(self.fabric.link(link).to);
                host.is_none_or(|host| !self.down.contains(&(host, self.addresses.nic(host, link.reverse()).unwrap())))
            };
            let links = self.fabric.out(node);
            let port = |(port, &link): (u16, &weft_fabric::LinkId)| PortCounter {
                port,
                is_up: is_up(link),
                sent: sent(link.0),
                received: sent(link.reverse().0),
            };
            let ports: Vec<PortCounter> = (0..).zip(links).map(port).collect();
            reporter.ports(now, &ports);
        }
        while let Some((_, bytes)) = self.tors[at].1.poll() {
            self.hand_to_network(node, &bytes);
        }
    }

    fn hand_to_network(&mut self, from: NodeId, bytes: &[u8]) {
        if let Some(network) = &mut self.network {
            network.handle(self.now, NetworkInput::Received(address(from), bytes));
            self.deliver();
        }
    }

    fn deliver(&mut self) {
        while let Some(output) = self.network.as_mut().and_then(AccessNetwork::poll) {
            let NetworkOutput::Send(to, bytes) = output else { continue };
            let node = usize::from(to.port()) - 1;
            if node < self.hosts.len() {
                self.host(node, Some(&bytes));
            } else if let Some((_, tor)) = self.tors.iter_mut().find(|(tor, _)| self.fabric.switch_node(*tor).index() == node) {
                tor.datagram(self.now, &bytes);
            }
        }
    }

    /// How many of the slots of a host's flows to a peer leave by its first NIC.
    fn first(&self, src: u32, dst: u32) -> usize {
        self.slots[&(HostId(src), self.addresses.of(HostId(dst))[0])].iter().filter(|nics| nics.out == 0).count()
    }

    /// Flows that leave by each ToR.
    fn by_tor(&self) -> BTreeMap<String, usize> {
        let mut all = BTreeMap::new();
        for ((src, _), (nics, _)) in &self.flows {
            let (_, tor) = self.path(*src, *src, Direction::Out, nics.out).unwrap();
            *all.entry(self.fabric.node(tor).name.to_string()).or_default() += 1;
        }
        all
    }

    /// The servers that forward flows now, each with the host whose detour it is.
    fn forwarders(&self) -> BTreeSet<(HostId, Ipv4Addr)> {
        let mut all = BTreeSet::new();
        for ((src, id), (nics, _)) in &self.flows {
            for (owner, number) in [(self.addresses.of(*src)[0], nics.out), (id.peer, nics.into)] {
                let record = self.detours.get(&(*src, owner, number));
                let hops = record.iter().flat_map(|it| &it.hops);
                all.extend(hops.map(|hop| (self.addresses.nic_of(hop.via).unwrap().0, owner)));
            }
        }
        all
    }

    /// Rack 0 sends more to far racks than its two ToRs have for it.
    fn heat(&mut self) {
        self.run(Duration::from_secs(2));
        self.begin(0, 6, 70);
        self.begin(1, 7, 70);
        self.run(Duration::from_secs(8));
    }
}

/// The flow's rates are fixed: what counts is where they go.
#[test]
fn a_hot_rack_takes_detours_within_their_rates() {
    let mut world = World::with_detours(Some(&[]));
    world.heat();
    let forwarders = world.forwarders();
    assert!(forwarders.len() >= 2, "{forwarders:?} {:?}", world.by_tor());
    // Rack 5 is left of rack 0, rack 1 right of it: the hosts with the same positions.
    let racks: BTreeSet<u32> = forwarders.iter().map(|(host, _)| host.0 / 2).collect();
    assert!(racks.iter().all(|rack| [1, 2, 4, 5].contains(rack)), "{forwarders:?}");
    assert!(forwarders.iter().any(|(_, owner)| *owner == world.addresses.of(HostId(0))[0]));
    for (host, owner) in &forwarders {
        let permits = &world.permits[host];
        assert!(permits.iter().any(|permit| permit.rate > 0), "{host:?} forwards for {owner}: {permits:?}");
    }
    let by_tor = world.by_tor();
    let remote: usize = by_tor.iter().filter(|(tor, _)| !["tor0", "tor1"].contains(&tor.as_str())).map(|(_, count)| count).sum();
    // A remote ToR is idle: 60 % of its 20 Mbps are 48 flows.
    assert!((10..=2 * 55).contains(&remote), "{by_tor:?}");
    let status = world.network.as_ref().unwrap().status(world.now);
    let detours = status.detours.unwrap();
    assert_eq!((detours.participants, status.refusals), (12, AccessRefusals::default()));
    assert!(detours.detours >= 4 && detours.flows >= 10, "{detours:?}");
}

#[test]
fn no_detour_leads_through_a_host_that_takes_no_part_or_has_died() {
    // The hosts of rack 1 are older, and one of rack 5.
    let mut world = World::with_detours(Some(&[2, 3, 10]));
    world.heat();
    let used: BTreeSet<HostId> = world.forwarders().into_iter().map(|(host, _)| host).collect();
    assert!(used.contains(&HostId(11)) && used.is_disjoint(&[HostId(2), HostId(3), HostId(10)].into()), "{used:?}");
    assert!(world.hosts[2].counts().refused > 0 && world.hosts[2].is_weighted(), "it goes on with what it knows");
    world.dead.insert(HostId(11));
    world.run(Duration::from_secs(2));
    assert!(world.forwarders().iter().all(|(host, _)| *host != HostId(11)), "{:?}", world.forwarders());
    assert!(world.permits[&HostId(11)].iter().any(|permit| permit.rate > 0), "its last orders; they lapse");
}

#[test]
fn detours_lapse_without_a_scheduler() {
    let mut world = World::with_detours(Some(&[]));
    world.heat();
    assert!(!world.forwarders().is_empty());
    world.network = None;
    world.run(Duration::from_ms(3500));
    assert!(world.forwarders().is_empty() && world.detours.is_empty());
    assert!(world.permits.values().all(Vec::is_empty));
    let slots = &world.slots[&(HostId(0), world.addresses.of(HostId(6))[0])];
    assert!(slots.iter().all(|nics| nics.out.max(nics.into) < FIRST_DETOUR));
}

#[test]
fn without_a_scheduler_a_shared_tor_comes_first_and_speeds_weigh() {
    let mut world = World::new();
    world.network = None;
    world.run(Duration::from_ms(20));
    // Host 2 is on ToRs 1 and 2, host 0 on 0 and 1.
    assert_eq!(world.first(0, 2), 0, "only the second NIC leads to the shared ToR");
    let far = &world.slots[&(HostId(0), world.addresses.of(HostId(6))[0])];
    let pairs: BTreeMap<NicPair, usize> = far.iter().fold(BTreeMap::new(), |mut all, &nics| {
        *all.entry(nics).or_default() += 1;
        all
    });
    assert_eq!(pairs.values().copied().collect::<Vec<_>>(), [16; 4]);
}

/// Section 5's example: the ToR between two hot racks has twice the load of the others; balanced, they have the same.
#[test]
fn the_tor_between_two_hot_racks_is_relieved() {
    let mut world = World::new();
    world.run(Duration::from_secs(1));
    for src in 0..4 {
        world.begin(src, 6 + src, 24);
    }
    let before = world.by_tor();
    assert_eq!((before["tor0"], before["tor1"], before["tor2"]), (24, 48, 24));
    world.run(Duration::from_secs(1));
    let (first, second) = (world.first(0, 6), world.first(2, 6));
    assert!(first > 33 && second < 31, "new flows prefer the outer ToRs: {first} and {second} of 64 by the first NIC");
    world.run(Duration::from_secs(5));
    let after = world.by_tor();
    assert!(after.values().all(|n| (27..=37).contains(n)), "{after:?}");
    let status = world.network.as_ref().unwrap().status(world.now);
    assert_eq!((status.away.len(), status.flows, status.is_superseded), (0, 96, false));
    assert_eq!(status.refusals, AccessRefusals::default());
    assert!(world.moves >= 8 && world.moves < 60 && status.loops.count > 0, "{} moves", world.moves);
}

#[test]
fn flows_leave_a_nic_that_fails_at_either_end_and_new_ones_avoid_it() {
    let mut world = World::new();
    world.run(Duration::from_secs(1));
    world.begin(0, 6, 16);
    world.run(Duration::from_secs(1));
    for nic in [(HostId(0), 0), (HostId(6), 1)] {
        world.down.insert(nic);
        world.run(Duration::from_ms(400));
        let stays = |(nics, _): &(NicPair, u64)| if nic.0 == HostId(0) { nics.out == nic.1 } else { nics.into == nic.1 };
        assert!(!world.flows.values().any(stays), "{nic:?}");
        let to = world.addresses.of(HostId(6))[0];
        assert!(!world.slots[&(HostId(0), to)].iter().any(|nics| stays(&(*nics, 0))), "{nic:?}");
        let cable = world.addresses.link(nic.0, nic.1).unwrap().cable();
        assert_eq!(world.network.as_ref().unwrap().status(world.now).down, [cable]);
        world.down.clear();
        world.run(Duration::from_secs(1));
        assert!(world.slots[&(HostId(0), to)].iter().any(|nics| stays(&(*nics, 0))), "{nic:?} is used again");
    }
}

#[test]
fn state_is_soft() {
    let mut world = World::new();
    world.run(Duration::from_secs(1));
    for src in 0..4 {
        world.begin(src, 6 + src, 24);
    }
    world.run(Duration::from_secs(4));
    assert!(world.first(0, 6) > 33 || world.hosts[0].is_weighted());
    let (placed, moves) = (world.by_tor(), world.moves);
    let old = world.network.take();
    world.run(Duration::from_secs(4));
    assert_eq!((world.by_tor(), world.moves), (placed, moves), "flows stay");
    assert_eq!((world.first(0, 6), world.hosts[0].is_weighted()), (32, false), "new ones draw by speed again");
    world.network = Some(world.scheduler(2));
    world.run(Duration::from_secs(2));
    let status = world.network.as_ref().unwrap().status(world.now);
    assert_eq!((status.away.len(), status.flows), (0, 96));
    assert!(world.hosts[0].is_weighted());
    // The one that started first is not obeyed any more, and says so.
    let new = std::mem::replace(&mut world.network, old);
    world.run(Duration::from_secs(2));
    assert!(world.network.as_ref().unwrap().status(world.now).is_superseded);
    world.network = new;
    world.run(Duration::from_secs(2));
    assert!(!world.network.as_ref().unwrap().status(world.now).is_superseded);
}

#[test]
fn who_has_no_key_is_not_heard() {
    let mut world = World::new();
    let Member { principal, key } = member(NodeId(0), 6);
    let config = TorConfig { principal, key, schedulers: vec![address(NodeId(1000))], sequence: 100 };
    let mut forger = TorReporter::new(config, Instant::ZERO);
    forger.ports(Instant::ZERO, &[PortCounter { port: 0, is_up: false, sent: 0, received: 0 }]);
    let (_, bytes) = forger.poll().unwrap();
    world.hand_to_network(NodeId(0), &bytes);
    let status = world.network.as_ref().unwrap().status(world.now);
    assert_eq!((status.refusals.untagged, status.down.len()), (1, 0));
    world.run(Duration::from_secs(1));
    let orders_to_others = world.hosts[0].counts().refused;
    assert_eq!(orders_to_others, 0);
}

#[test]
fn addresses_that_do_not_fit_the_fabric_are_refused() {
    type Addresses = BTreeMap<String, Vec<Ipv4Addr>>;
    let fabric = build(Wiring { racks: 3, hosts_per_rack: 1, ..Wiring::default() });
    let good: Addresses = (0..3).map(|i| (format!("h{i}"), vec![[10, 0, i, 1].into(), [10, 1, i, 1].into()])).collect();
    let of = |change: &dyn Fn(&mut Addresses)| {
        let mut given = good.clone();
        change(&mut given);
        AccessAddresses::new(Arc::clone(&fabric), Some(&given)).err().map(|error| error.to_string())
    };
    assert_eq!(of(&|_| ()), None);
    let bad = [
        of(&|it| drop(it.insert("tor0".to_owned(), Vec::new()))),
        of(&|it| drop(it.remove("h1"))),
        of(&|it| it.get_mut("h1").unwrap().truncate(1)),
        of(&|it| it.get_mut("h1").unwrap()[1] = [10, 0, 2, 1].into()),
    ];
    let wanted = [
        "the fabric has no host `tor0`",
        "host `h1` of the fabric has no addresses",
        "host `h1` has 2 cables and 1 addresses",
        "`h1` and `h2` have the same address 10.0.2.1",
    ];
    assert_eq!(bad.map(Option::unwrap), wanted);
}
