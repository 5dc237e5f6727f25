//! What is there: switches, cables and hosts, found by asking and listening. No I/O.
//!
//! ```text
//!   a switch:  Up --> its ports are asked for; LLDP and ARP of all ports are to be handed over
//!   a cable:   each port announces itself once a second; where an announcement comes in, the cable ends
//!   a host:    sends ARP at a port at which no switch is
//! ```
//! The rules that this needs are above those of [`network`](super::network) and go with [`Discovery::end`]; all others stay. ARP is answered
//! until then, as the scheduler's rules do.

mod result;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};
use std::net::Ipv4Addr;

use weft_fabric::MacAddr;

pub use result::{DiscoveredFabric, DiscoveryError};

use super::SWITCHES_MAC;
use super::action::NO_BUFFER;
use super::lldp::{Announcer, SwitchPort};
use super::port::{self, PortReason};
use super::{
    Action, Body, ControllerRole, Field, FlowMod, Instruction, Match, Message, MultipartReply, MultipartRequest, PacketIn,
    PacketOut, Port, PortStatus, ReplyBody, Role, Version,
};
use crate::time::{Duration, Instant};
use crate::wire::packet::arp::Arp;
use crate::wire::packet::ethernet::{EtherType, Ethernet};
use crate::wire::packet::lldp::NEAREST_BRIDGE;

/// What happens.
#[derive(Clone, Debug)]
pub enum Input {
    /// The session of this datapath is up.
    Up(u64, Version),
    /// It has sent this.
    Received(u64, Message),
    /// Its session has ended.
    Down(u64),
    /// The deadline has come.
    Timer,
}

/// Send this to a datapath.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Output(pub u64, pub Message);

/// What was found so far.
#[derive(Debug)]
pub struct Discovery {
    announcer: Announcer,
    generation: u64,
    switches: BTreeMap<u64, Switch>,
    /// Where the cable of a port ends, both ways.
    cables: BTreeMap<SwitchPort, SwitchPort>,
    /// By MAC address.
    hosts: BTreeMap<MacAddr, Host>,
    next: Option<Instant>,
    /// When something new was found last.
    changed: Instant,
    outputs: VecDeque<Output>,
    xid: u32,
}

/// A switch.
#[derive(Debug, Default)]
struct Switch {
    /// By number; none of those that are reserved.
    ports: BTreeMap<u32, Port>,
    is_up: bool,
    /// What it has refused.
    refused: u64,
}

/// A host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Host {
    address: Ipv4Addr,
    at: SwitchPort,
}

/// How much was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// Switches.
    pub switches: usize,
    /// Cables between switches.
    pub cables: usize,
    /// Hosts.
    pub hosts: usize,
    /// When something new was found last.
    pub changed: Instant,
}

impl Discovery {
    /// Nothing so far. The last one that started is master of the switches: `generation` grows. The secret is of its announcements.
    pub const fn new(now: Instant, generation: u64, secret: [u64; 2]) -> Self {
        Self {
            announcer: Announcer::new(secret),
            generation,
            switches: BTreeMap::new(),
            cables: BTreeMap::new(),
            hosts: BTreeMap::new(),
            next: None,
            changed: now,
            outputs: VecDeque::new(),
            xid: 0,
        }
    }

    /// Takes an input. Time never goes back.
    pub fn handle(&mut self, now: Instant, input: Input) {
        match input {
            Input::Up(datapath, _) => self.up(now, datapath),
            Input::Received(datapath, message) => self.received(now, datapath, message),
            Input::Down(datapath) => {
                if let Some(switch) = self.switches.get_mut(&datapath) {
                    switch.is_up = false;
                }
            }
            Input::Timer => self.announce(now),
        }
    }

    /// The next message to send; call until `None` after each `handle`.
    pub fn poll(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// When to call `handle` with [`Input::Timer`].
    pub const fn deadline(&self) -> Option<Instant> {
        self.next
    }

    /// How much was found.
    pub fn found(&self) -> Found {
        Found { switches: self.switches.len(), cables: self.cables.len() / 2, hosts: self.hosts.len(), changed: self.changed }
    }

    /// Removes what the switches were given.
    pub fn end(&mut self) {
        let up: Vec<u64> = self.switches.iter().filter(|(_, switch)| switch.is_up).map(|(&datapath, _)| datapath).collect();
        for datapath in up {
            for (priority, matching, _) in rules() {
                self.send(datapath, Body::FlowMod(FlowMod::delete_strict(0, priority, matching)));
            }
        }
        self.next = None;
    }

    fn up(&mut self, now: Instant, datapath: u64) {
        let is_new = !self.switches.contains_key(&datapath);
        self.switches.entry(datapath).or_default().is_up = true;
        if is_new {
            self.changed = now;
        }
        let role = Role { role: ControllerRole::Master, short_id: None, generation: self.generation };
        self.send(datapath, Body::RoleRequest(role));
        for (priority, matching, actions) in rules() {
            let mut rule = FlowMod::add(0, priority, matching, vec![Instruction::ApplyActions(actions)]);
            rule.cookie = COOKIE;
            self.send(datapath, Body::FlowMod(rule));
        }
        self.send(datapath, Body::MultipartRequest(MultipartRequest::PortDescriptions(None)));
    }

    fn received(&mut self, now: Instant, datapath: u64, message: Message) {
        match message.body {
            Body::MultipartReply(MultipartReply { body: ReplyBody::PortDescriptions(ports), .. }) => {
                let switch = self.switches.entry(datapath).or_default();
                let physical = ports.into_iter().filter(|port| port.number < RESERVED);
                switch.ports = physical.map(|port| (port.number, port)).collect();
                self.announce(now);
            }
            Body::PortStatus(PortStatus { port, reason }) if port.number < RESERVED => {
                let at = SwitchPort { datapath, port: port.number };
                let ports = &mut self.switches.entry(datapath).or_default().ports;
                if reason == PortReason::Delete {
                    ports.remove(&at.port);
                } else {
                    ports.insert(at.port, port.clone());
                }
                if reason == PortReason::Delete || !port.is_up() {
                    self.forget(at);
                }
            }
            Body::PacketIn(packet) => self.packet_in(now, datapath, &packet),
            Body::Error(_) => self.switches.entry(datapath).or_default().refused += 1,
            _ => {}
        }
    }

    fn packet_in(&mut self, now: Instant, datapath: u64, packet: &PacketIn) {
        let Some(port) = packet.in_port().filter(|&port| port < RESERVED) else { return };
        let at = SwitchPort { datapath, port };
        if let Ok(Some(from)) = self.announcer.sender(&packet.data) {
            if from != at && self.cables.get(&at) != Some(&from) {
                self.forget(at);
                self.forget(from);
                self.cables.extend([(at, from), (from, at)]);
                // What was taken for a host is behind the other switch.
                self.hosts.retain(|_, host| host.at != at && host.at != from);
                self.changed = now;
            }
            return;
        }
        let Some((mac, address)) = host_of(&packet.data) else { return };
        let host = Host { address, at };
        if !self.cables.contains_key(&at) && self.hosts.len() < HOSTS && self.hosts.insert(mac, host) != Some(host) {
            self.changed = now;
        }
    }

    fn forget(&mut self, at: SwitchPort) {
        if let Some(other) = self.cables.remove(&at) {
            self.cables.remove(&other);
        }
    }

    /// All ports announce themselves.
    fn announce(&mut self, now: Instant) {
        let is_up = |port: &&Port| port.is_up();
        let of = |(&datapath, switch): (&u64, &Switch)| {
            let ports = switch.ports.values().filter(is_up).map(|port| SwitchPort { datapath, port: port.number });
            if switch.is_up { ports.collect() } else { Vec::new() }
        };
        let ports: Vec<SwitchPort> = self.switches.iter().flat_map(of).collect();
        for at in ports {
            let frame = self.announcer.frame(at, TTL_S);
            let packet = PacketOut::new(port::CONTROLLER, vec![Action::output(at.port)], frame);
            self.send(at.datapath, Body::PacketOut(packet));
        }
        self.next = Some(now + INTERVAL);
    }

    fn send(&mut self, datapath: u64, body: Body) {
        self.xid = self.xid % 0x7fff_ffff + 1;
        self.outputs.push_back(Output(datapath, Message { xid: self.xid, body }));
    }
}

/// The host that has sent ARP: its addresses.
fn host_of(frame: &[u8]) -> Option<(MacAddr, Ipv4Addr)> {
    let frame = Ethernet::parse(frame).ok().filter(|it| it.ethertype == EtherType::ARP)?;
    let Arp { sender: (mac, ip), .. } = Arp::parse(frame.payload).ok()?;
    let is_host = mac.0[0] & 1 == 0 && mac != SWITCHES_MAC && !ip.is_unspecified() && !ip.is_multicast() && !ip.is_broadcast();
    is_host.then_some((mac, ip))
}

/// Priority, match and actions of the rules: above those of the scheduler.
fn rules() -> [(u16, Match, Vec<Action>); 3] {
    let hand_over = || Action::Output { port: port::CONTROLLER, max_len: NO_BUFFER };
    let answered = [vec![hand_over()], super::network::answer_arp()].concat();
    let arp = |operation| Match::of([Field::eth_type(0x0806), Field::arp_op(operation)]);
    [
        (62, Match::of([Field::eth_type(0x88cc), Field::eth_dst(NEAREST_BRIDGE)]), vec![hand_over()]),
        (61, arp(1), answered),
        (60, arp(2), vec![hand_over()]),
    ]
}

/// Between two announcements of a port.
const INTERVAL: Duration = Duration::from_secs(1);
/// How long an announcement holds.
const TTL_S: u16 = 3;
/// Ports from this on are no cables (`OFPP_MAX`).
const RESERVED: u32 = 0xffff_ff00;
/// Hosts are remembered up to this number: more are no fabric of ours.
const HOSTS: usize = 1 << 20;
/// That of the scheduler's rules, so that it removes what stays behind.
const COOKIE: u64 = 0x5745_4654 << 32 | 4;
