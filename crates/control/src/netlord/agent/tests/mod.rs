//! Agents joined by an ideal fabric: edge switches that do what section 3.6 says, under one clock.
//!
//! ```text
//!   agent 0: switch 1, port 1     agent 1: switch 1, port 2     agent 2: switch 2, port 1     agent 3: switch 2, port 2 ...
//! ```
//! With two interfaces each, the second ones are at switches 129, 130, ..., at ports of the same numbers.

mod adversary;
mod cases;
mod claims;
mod fragments;
mod several;

use std::collections::BTreeMap;
use weft_fabric::MacAddr;

use weft_fabric::rng::{self, Stream};

use super::super::locations::Query;
use super::super::nl_arp::{NlArp as Push, NlArpConfig};
use super::super::paths::FlowHash;
use super::super::{EdgePort, MacSpace};
use super::*;
use crate::wire::netlord::{Encapsulation, Lldp};
use crate::wire::packet::arp::Arp;
use crate::wire::packet::checksum;
use crate::wire::packet::ethernet::{BROADCAST, EtherType, Ethernet};
use crate::wire::packet::ndp::{self, Neighbor};

/// Spreads flows over four VLANs, and remembers which were heard.
#[derive(Debug, Default)]
struct Spread {
    heard: BTreeMap<(Location, VlanId), u64>,
    /// By which interface something was heard last, and what was lost.
    by: Option<UplinkId>,
    lost: Vec<UplinkId>,
    chirps: VecDeque<Chirp>,
    broken: bool,
}

impl ChooseVlan for Spread {
    fn choose(&mut self, _: Instant, _: UplinkId, _: Location, flow: FlowHash) -> Option<VlanId> {
        if self.broken { None } else { VlanId::new(1 + (flow.0 % 4) as u16) }
    }

    fn heard(&mut self, _: Instant, by: UplinkId, from: Location, vlan: VlanId) {
        self.by = Some(by);
        *self.heard.entry((from, vlan)).or_default() += 1;
    }

    fn chirped(&mut self, now: Instant, by: UplinkId, from: Location, vlan: VlanId) {
        self.heard(now, by, from, vlan);
        self.chirps.push_back(Chirp { by, to: from, vlan, is_answer: true });
    }

    fn lost(&mut self, _: Instant, uplink: UplinkId) {
        self.lost.push(uplink);
    }

    fn poll(&mut self) -> Option<Chirp> {
        self.chirps.pop_front()
    }
}

type Nla = Agent<Push, Spread>;

const UPLINK: UplinkId = UplinkId(0);
/// The special VLANs, each a tree of its own.
const SPECIAL: u16 = 4094;
const SECOND: u16 = 4093;

struct World {
    agents: Vec<Nla>,
    /// The interfaces of each.
    nics: u8,
    now: Instant,
    /// What VMs were handed: agent, VIF, frame.
    delivered: Vec<(usize, VifId, Vec<u8>)>,
    /// Changes of the data planes' maps.
    maps: Vec<(usize, MapChange)>,
    /// What was on the wire.
    wire: Vec<Vec<u8>>,
    /// Agents that hear no broadcasts.
    deaf: BTreeSet<usize>,
    /// The special VLAN whose tree is cut.
    cut: Option<u16>,
    /// Interfaces whose cables are cut: agent, interface.
    unplugged: BTreeSet<(usize, u8)>,
    /// Frames for which a switch has no server.
    lost: usize,
}

fn mac(n: u8) -> MacAddr {
    MacAddr([2, 0, 0, 0, 0, n])
}

fn ip(a: u8, b: u8) -> IpAddr {
    IpAddr::from([10, 0, a, b])
}

fn vif(tenant: u32, space: u32, n: u8) -> Vif {
    Vif { tenant: TenantId(tenant), space: MacSpace(space), mac: mac(n) }
}

fn switch_of(agent: usize) -> MacAddr {
    MacAddr([0x0a, 0xed, 6, 0, 0, 1 + (agent / 2) as u8])
}

fn place(agent: usize) -> Location {
    Location { switch: switch_of(agent), port: EdgePort::new(1 + (agent % 2) as u16).unwrap() }
}

fn hardware(agent: usize) -> MacAddr {
    hardware_of(agent, 0)
}

/// Of an agent's further interfaces.
fn place_of(agent: usize, nic: u8) -> Location {
    let Location { switch: MacAddr([a, b, c, d, e, f]), port } = place(agent);
    Location { switch: MacAddr([a, b, c, d, e, f + 128 * nic]), port }
}

fn hardware_of(agent: usize, nic: u8) -> MacAddr {
    MacAddr([0x0a, 0x51, 0, 0, nic, agent as u8])
}

fn lldp(at: Location, ttl_s: u16) -> Vec<u8> {
    let mut frame = Vec::new();
    Lldp { location: at, ttl_s }.emit(at.switch, &format!("port {}", at.port), &mut frame);
    frame
}

impl World {
    fn new(agents: usize, tenants: &str) -> Self {
        Self::with_nics(1, agents, tenants)
    }

    fn with_nics(nics: u8, agents: usize, tenants: &str) -> Self {
        let tenants = Arc::new(Tenants::parse(tenants).unwrap());
        let config = AgentConfig::new([SPECIAL, SECOND].into_iter().filter_map(VlanId::new).collect());
        let agents = (0..agents).map(|n| {
            let locations = Push::new(NlArpConfig::default(), rng::stream(n as u64, Stream::Traffic));
            let mut agent = Agent::new(config.clone(), locations, Spread::default());
            agent.handle(Instant::ZERO, Input::Configure(Arc::clone(&tenants)));
            for nic in 0..nics {
                let (uplink, frame) = (UplinkId(nic), lldp(place_of(n, nic), 60_000));
                agent.handle(Instant::ZERO, Input::Uplink { uplink, up: Some((hardware_of(n, nic), 1600)) });
                agent.handle(Instant::ZERO, Input::FromFabric { uplink, frame: &frame });
            }
            agent
        });
        let mut world = Self {
            agents: agents.collect(),
            nics,
            now: Instant::ZERO,
            delivered: Vec::new(),
            maps: Vec::new(),
            wire: Vec::new(),
            deaf: BTreeSet::new(),
            cut: None,
            unplugged: BTreeSet::new(),
            lost: 0,
        };
        world.settle();
        world
    }

    fn attach(&mut self, agent: usize, id: u32, vif: Vif, addresses: &[IpAddr]) {
        self.input(agent, Input::Attach { id: VifId(id), vif, addresses: addresses.to_vec() });
    }

    fn input(&mut self, agent: usize, input: Input<'_>) {
        self.agents[agent].handle(self.now, input);
        self.settle();
    }

    fn send(&mut self, agent: usize, id: u32, frame: &[u8]) {
        self.input(agent, Input::FromVif { id: VifId(id), frame });
    }

    fn settle(&mut self) {
        while let Some((n, output)) = (0..self.agents.len()).find_map(|n| Some((n, self.agents[n].poll()?))) {
            match output {
                Output::ToVif { id, frame } => self.delivered.push((n, id, frame)),
                Output::ToFabric { uplink, frame } => {
                    assert!(uplink.0 < self.nics);
                    if !self.unplugged.contains(&(n, uplink.0)) {
                        self.carry(n, uplink.0, &frame);
                    }
                }
                Output::Map(change) => self.maps.push((n, change)),
                Output::Located { .. } | Output::Paths { .. } => {}
                Output::Datagram { .. } => panic!("NL-ARP asks no directory"),
            }
        }
    }

    /// What the fabric does with a frame, and what must hold of every frame on it.
    fn carry(&mut self, from: usize, nic: u8, frame: &[u8]) {
        let (switch, own) = (place_of(from, nic).switch, hardware_of(from, nic));
        self.wire.push(frame.to_vec());
        assert!(frame.len() >= 60 && frame.len() <= 1600 + 18);
        let outer = Ethernet::parse(frame).unwrap();
        assert!(outer.src == switch || outer.src == own, "switches learn no other address: {}", outer.src);
        if outer.dst.0[0] & 1 == 1 {
            let vlan = outer.tag.and_then(|tag| tag.vlan()).map(VlanId::get);
            assert!(outer.src == switch && matches!(vlan, Some(SPECIAL | SECOND)), "{} {vlan:?}", outer.src);
            if vlan == self.cut {
                return;
            }
            // All interfaces but that which it came from: a server with several hears itself.
            let all = (0..self.agents.len()).flat_map(|to| (0..self.nics).map(move |by| (to, by)));
            let hear = |end: &(usize, u8)| *end != (from, nic) && !self.deaf.contains(&end.0) && !self.unplugged.contains(end);
            for (to, by) in all.filter(hear).collect::<Vec<_>>() {
                self.agents[to].handle(self.now, Input::FromFabric { uplink: UplinkId(by), frame });
            }
            return;
        }
        let it = Encapsulation::parse(frame).expect("agents send encapsulations");
        assert_eq!(it.tag, it.overlay.vlan, "the id is the tag's copy");
        assert_eq!(it.tag.is_none(), it.dst == switch, "no tag on the same switch alone");
        assert_eq!(it.src == own, it.tag.is_none());
        let Recipient::Port(port) = it.overlay.to else { panic!("a group has a group's address") };
        let mut all = (0..self.agents.len()).flat_map(|to| (0..self.nics).map(move |by| (to, by)));
        let is_there = |end: &(usize, u8)| place_of(end.0, end.1) == Location { switch: it.dst, port };
        let Some((to, by)) = all.find(is_there).filter(|end| !self.unplugged.contains(end)) else {
            self.lost += 1;
            return;
        };
        assert_ne!((to, by), (from, nic), "no switch sends a frame back");
        let last = last_hop(frame, hardware_of(to, by), it.dst);
        self.agents[to].handle(self.now, Input::FromFabric { uplink: UplinkId(by), frame: &last });
    }

    /// The cable of an interface is cut, or there again: its agent sees that, and then hears its switch.
    fn plug(&mut self, agent: usize, nic: u8, plugged: bool) {
        let up = plugged.then(|| (hardware_of(agent, nic), 1600));
        let changed = if plugged { self.unplugged.remove(&(agent, nic)) } else { self.unplugged.insert((agent, nic)) };
        assert!(changed);
        self.input(agent, Input::Uplink { uplink: UplinkId(nic), up });
        if plugged {
            let frame = lldp(place_of(agent, nic), 60_000);
            self.input(agent, Input::FromFabric { uplink: UplinkId(nic), frame: &frame });
        }
    }

    fn advance(&mut self, by: Duration) {
        let to = self.now + by;
        while let Some((at, n)) = (0..self.agents.len()).filter_map(|n| Some((self.agents[n].deadline()?, n))).min()
            && at <= to
        {
            self.now = at;
            self.input(n, Input::Timer);
        }
        self.now = to;
    }

    fn take(&mut self) -> Vec<(usize, u32, Vec<u8>)> {
        std::mem::take(&mut self.delivered).into_iter().map(|(agent, id, frame)| (agent, id.0, frame)).collect()
    }

    fn dropped(&self, agent: usize, reason: Drop) -> u64 {
        self.agents[agent].counts().dropped(reason)
    }
}

/// The egress switch's last hop: new Ethernet header without a tag, one off the time to live.
fn last_hop(frame: &[u8], dst: MacAddr, src: MacAddr) -> Vec<u8> {
    let outer = Ethernet::parse(frame).unwrap();
    let mut packet = outer.payload.to_vec();
    packet[8] -= 1;
    packet[10..12].fill(0);
    let sum = checksum(0, &packet[..20]);
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
    let mut out = Vec::new();
    Ethernet { dst, src, tag: None, ethertype: outer.ethertype, payload: &packet }.emit(&mut out);
    out
}

fn plain(from: MacAddr, to: MacAddr, ethertype: u16, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    Ethernet { dst: to, src: from, tag: None, ethertype: EtherType(ethertype), payload }.emit(&mut out);
    out
}

fn udp(from: MacAddr, to: MacAddr, src: IpAddr, dst: IpAddr, port: u16, payload: &[u8]) -> Vec<u8> {
    let (IpAddr::V4(src), IpAddr::V4(dst)) = (src, dst) else { panic!("IPv4") };
    let mut packet = vec![0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, 17, 0, 0];
    packet.extend_from_slice(&src.octets());
    packet.extend_from_slice(&dst.octets());
    let total = (28 + payload.len()) as u16;
    packet[2..4].copy_from_slice(&total.to_be_bytes());
    let sum = checksum(0, &packet);
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
    packet.extend_from_slice(&[0x12, 0x34]);
    packet.extend_from_slice(&port.to_be_bytes());
    packet.extend_from_slice(&(8 + payload.len() as u16).to_be_bytes());
    packet.extend_from_slice(&[0, 0]);
    packet.extend_from_slice(payload);
    plain(from, to, 0x0800, &packet)
}

fn arp_request(from: MacAddr, sender: IpAddr, target: IpAddr) -> Vec<u8> {
    let (IpAddr::V4(sender_ip), IpAddr::V4(target_ip)) = (sender, target) else { panic!("IPv4") };
    Arp::question((from, sender_ip), target_ip).frame()
}

/// What a VM's kernel asks.
fn solicit(from: std::net::Ipv6Addr, mac: MacAddr, target: std::net::Ipv6Addr) -> Vec<u8> {
    let question = Neighbor::question(from, mac, target);
    question.frame(ndp::group_mac(question.destination), mac)
}

/// What an ARP reply says.
fn replied(frame: &[u8]) -> Option<(IpAddr, MacAddr)> {
    let parsed = Ethernet::parse(frame).ok().filter(|frame| frame.ethertype == EtherType::ARP)?;
    let arp = Arp::parse(parsed.payload).ok().filter(|arp| !arp.is_request)?;
    Some((arp.sender.1.into(), arp.sender.0))
}
