//! Discovery against a network of which everything is known.

use std::collections::BTreeSet;
use std::sync::Arc;

use weft_fabric::{BitsPerSec, Fabric, HostId, LinkId};

use super::*;
use crate::hedera::testing::fat_tree;
use crate::openflow::network::{HostIdentity, Identities};
use crate::openflow::port::{EthernetPort, Text};

/// Switches that hand over LLDP and ARP once they have a rule for it.
struct World {
    discovery: Discovery,
    there: Identities,
    rules: BTreeMap<u64, usize>,
    /// Ports that are not up.
    down: BTreeSet<SwitchPort>,
    now: Instant,
}

impl World {
    fn new(fabric: Arc<Fabric>) -> Self {
        let of = |host: HostId| HostIdentity { address: Ipv4Addr::from(0x0a00_0001 + host.0), mac: mac(host) };
        let hosts = fabric.hosts().map(of).collect();
        // Neither datapaths nor ports are in the order of the fabric.
        let datapaths = fabric.switches().map(|s| 1000 - u64::from(s.0) * 7).collect();
        let ports = (0..fabric.links().len() as u32).map(|link| 500 - link).collect();
        let there = Identities::with(fabric, datapaths, ports, hosts).unwrap();
        let discovery = Discovery::new(Instant::ZERO, 1, [1, 2]);
        Self { discovery, there, rules: BTreeMap::new(), down: BTreeSet::new(), now: Instant::ZERO }
    }

    fn port(&self, link: LinkId) -> SwitchPort {
        let fabric = self.there.fabric();
        let switch = fabric.as_switch(fabric.link(link).from).unwrap();
        SwitchPort { datapath: self.there.datapath(switch), port: self.there.port(link) }
    }

    /// The links that leave switches, by port.
    fn links(&self) -> BTreeMap<SwitchPort, LinkId> {
        let fabric = self.there.fabric();
        let leaving = |id: &LinkId| fabric.as_switch(fabric.link(*id).from).is_some();
        let all = (0..fabric.links().len()).map(LinkId::from).filter(leaving);
        all.map(|link| (self.port(link), link)).collect()
    }

    fn step(&mut self, input: Input) {
        self.discovery.handle(self.now, input);
        while let Some(Output(datapath, message)) = self.discovery.poll() {
            match message.body {
                Body::FlowMod(flow) => {
                    let change = if flow.command == crate::openflow::FlowCommand::Add { 1 } else { -1 };
                    let count = self.rules.entry(datapath).or_default();
                    *count = count.checked_add_signed(change).expect("only what is there is removed");
                }
                Body::MultipartRequest(MultipartRequest::PortDescriptions(_)) => {
                    let ports = self.links().into_keys().filter(|at| at.datapath == datapath);
                    let ports: Vec<Port> = ports.map(|at| port(at.port, !self.down.contains(&at))).chain([local()]).collect();
                    let body = Body::MultipartReply(MultipartReply::whole(ReplyBody::PortDescriptions(ports)));
                    self.discovery.handle(self.now, Input::Received(datapath, Message { xid: message.xid, body }));
                }
                Body::PacketOut(out) => {
                    let [Action::Output { port, .. }] = out.actions[..] else { panic!("{out:?}") };
                    let link = self.links()[&SwitchPort { datapath, port }];
                    if self.there.fabric().as_host(self.there.fabric().link(link).to).is_none() {
                        self.arrive(self.port(link.reverse()), out.data);
                    }
                }
                Body::RoleRequest(_) => {}
                other => panic!("{other:?}"),
            }
        }
    }

    /// A frame comes in at a port.
    fn arrive(&mut self, at: SwitchPort, data: Vec<u8>) {
        if self.rules.get(&at.datapath).is_some_and(|&rules| rules > 0) {
            let fields = Match::of([Field::in_port(at.port)]);
            let packet = PacketIn { buffer: None, length: data.len() as u16, reason: 1, table: 0, cookie: 0, fields, data };
            let message = Message { xid: 0, body: Body::PacketIn(packet) };
            self.discovery.handle(self.now, Input::Received(at.datapath, message));
        }
    }

    fn all_come(&mut self) {
        for switch in self.there.fabric().switches() {
            self.step(Input::Up(self.there.datapath(switch), Version::V15));
        }
        self.tick();
    }

    fn tick(&mut self) {
        self.now = self.discovery.deadline().unwrap();
        self.step(Input::Timer);
    }

    /// A host asks for its gateway.
    fn ask(&mut self, host: HostId) {
        let identity = self.there.host(host);
        let nic = self.there.fabric().out(host.node())[0];
        let frame = Arp::question((identity.mac, identity.address), Ipv4Addr::new(10, 9, 9, 9)).frame();
        self.arrive(self.port(nic.reverse()), frame);
    }
}

fn mac(host: HostId) -> MacAddr {
    MacAddr([2, 0, 0, 0, 7, 100 - host.0 as u8])
}

fn port(number: u32, up: bool) -> Port {
    let ethernet = Some(EthernetPort { speed: 10_000_000, ..EthernetPort::default() });
    let state = if up { 0 } else { Port::STATE_LINK_DOWN };
    Port { number, mac: MacAddr::default(), name: Text::new("p"), config: 0, state, ethernet, other: Vec::new() }
}

fn local() -> Port {
    port(port::LOCAL, true)
}

/// Ends of cables by datapath and port, and addresses by port.
fn parts(identities: &Identities) -> (BTreeSet<[SwitchPort; 2]>, BTreeMap<SwitchPort, HostIdentity>) {
    let fabric = identities.fabric();
    let (mut cables, mut hosts) = (BTreeSet::new(), BTreeMap::new());
    let port = |id: LinkId| {
        let switch = fabric.as_switch(fabric.link(id).from)?;
        Some(SwitchPort { datapath: identities.datapath(switch), port: identities.port(id) })
    };
    for link in (0..fabric.links().len()).map(LinkId::from) {
        match (port(link), port(link.reverse()), fabric.as_host(fabric.link(link).to)) {
            (Some(a), Some(b), _) => drop(cables.insert([a.min(b), a.max(b)])),
            (Some(at), _, Some(host)) => drop(hosts.insert(at, identities.host(host))),
            _ => {}
        }
    }
    (cables, hosts)
}

#[test]
fn a_fat_tree_is_found_as_it_is() {
    let mut world = World::new(fat_tree(4));
    world.all_come();
    assert_eq!(world.discovery.fabric(None).unwrap_err(), DiscoveryError::NoHosts);
    let hosts: Vec<HostId> = world.there.fabric().hosts().collect();
    hosts.into_iter().for_each(|host| world.ask(host));
    let found = world.discovery.found();
    assert_eq!((found.switches, found.cables, found.hosts), (20, 32, 16));
    let result = world.discovery.fabric(None).unwrap();
    assert_eq!(parts(&result.identities), parts(&world.there));
    assert_eq!((result.unheard, result.refusing), (vec![], vec![]));
    let fabric = result.identities.fabric();
    let tiers: Vec<usize> = (1..=3).map(|tier| fabric.switches_of_tier(tier).count()).collect();
    assert_eq!((tiers, fabric.links()[40].capacity), (vec![8, 8, 4], BitsPerSec(10_000_000_000)));
    let names: Vec<&str> = ["edge0", "agg7", "core3", "h15"].into_iter().filter(|n| fabric.node_by_name(n).is_some()).collect();
    assert_eq!(names.len(), 4);
    world.discovery.end();
    world.step(Input::Down(0));
    assert!(world.rules.values().all(|&rules| rules == 0), "nothing stays behind");
}

#[test]
fn what_is_down_or_silent_is_said() {
    let mut world = World::new(fat_tree(4));
    let (link, silent) = (LinkId(40), HostId(3));
    world.down.extend([world.port(link), world.port(link.reverse())]);
    world.all_come();
    let hosts: Vec<HostId> = world.there.fabric().hosts().filter(|&host| host != silent).collect();
    hosts.into_iter().for_each(|host| world.ask(host));
    let nic = world.there.fabric().out(silent.node())[0];
    let result = world.discovery.fabric(Some(BitsPerSec(1_000_000_000))).unwrap();
    assert_eq!(result.unheard, [world.port(nic.reverse())]);
    assert_eq!((world.discovery.found().cables, result.identities.fabric().links()[0].capacity), (31, BitsPerSec(1_000_000_000)));
}

#[test]
fn a_cable_that_moves_is_where_it_is_now() {
    let mut world = World::new(fat_tree(4));
    world.all_come();
    let [a, b] = [LinkId(40), LinkId(42)].map(|link| [world.port(link), world.port(link.reverse())]);
    let announcer = Announcer::new([1, 2]);
    world.arrive(b[1], announcer.frame(a[0], 3));
    assert_eq!(world.discovery.found().cables, 31, "two ends lead nowhere now");
    assert_eq!(world.discovery.cables.get(&a[0]), Some(&b[1]));
    world.tick();
    assert_eq!(world.discovery.found().cables, 32);
}

#[test]
fn two_hosts_at_a_port_are_an_error() {
    let mut world = World::new(fat_tree(4));
    world.all_come();
    world.ask(HostId(0));
    let at = world.port(world.there.fabric().out(HostId(0).node())[0].reverse());
    let other = MacAddr([2, 0, 0, 0, 8, 1]);
    world.arrive(at, Arp::question((other, Ipv4Addr::new(10, 0, 0, 99)), Ipv4Addr::new(10, 9, 9, 9)).frame());
    assert!(matches!(world.discovery.fabric(None), Err(DiscoveryError::SharedPort { at: there, .. }) if there == at));
}

#[test]
fn what_is_no_host_is_not_taken_for_one() {
    let mut world = World::new(fat_tree(4));
    world.all_come();
    let at = world.port(world.there.fabric().out(HostId(0).node())[0].reverse());
    for (mac, ip) in [
        (MacAddr([1, 0, 0, 0, 0, 1]), Ipv4Addr::new(10, 0, 0, 1)),
        (SWITCHES_MAC, Ipv4Addr::new(10, 0, 0, 1)),
        (mac(HostId(1)), Ipv4Addr::UNSPECIFIED),
        (mac(HostId(1)), Ipv4Addr::BROADCAST),
    ] {
        world.arrive(at, Arp::question((mac, ip), Ipv4Addr::new(10, 9, 9, 9)).frame());
    }
    let cable = world.port(LinkId(40));
    world.arrive(cable, Arp::question((mac(HostId(1)), Ipv4Addr::new(10, 0, 0, 1)), Ipv4Addr::new(10, 9, 9, 9)).frame());
    world.arrive(at, vec![0; 10]);
    assert_eq!(world.discovery.found().hosts, 0);
}
