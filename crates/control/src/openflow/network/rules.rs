//! What a switch is to have: rules by which it forwards without a controller, and those of placed flows.
//!
//! ```text
//!   table 0, ingress      from a switch: LLDP goes to the controller;
//!                         from a host: ARP is answered; TCP is counted: learn(table 1), look there; then table 2
//!   table 1, counters     an entry for each TCP connection of an attached host, which the switch makes itself and drops when it is idle
//!   table 2, forwarding   a placed flow -> its port;  an attached host -> its port;  a rack -> port or group of equal shortest paths
//! ```
//! A first packet never waits for the controller, and everything works on without it (Hedera section 4.6).
//!
//! Equal paths are a group of kind `select`, hashed by each switch with a basis of its own: with the same one at all of them traffic would polarise.
//! A group is named by its ports, so its content never changes: other ports are another group.
//!
//! A placed flow has a rule at each switch that has a choice, edge and aggregation in a fat-tree (two entries a flow, section 6.4.5).

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use weft_fabric::rng::mix;
use weft_fabric::routing::FlowKey;
use weft_fabric::routing::next_hops::{NextHops, Target};
use weft_fabric::topology::Health;
use weft_fabric::{MacAddr, RackId, SwitchId};

use crate::openflow::network::identities::Identities;

/// What is matched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Matched {
    /// LLDP of the switch at a port.
    Lldp(u32),
    /// ARP requests of the host at a port.
    Arp(u32),
    /// TCP of the host at a port.
    FromHost(u32),
    /// What no other rule of table 0 takes.
    Ingress,
    /// Packets to addresses that begin with these bits.
    To(Ipv4Addr, u8),
    /// A TCP connection, one direction.
    Flow(FlowKey),
    /// What no other rule of table 2 takes.
    Forward,
}

/// What is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// The controller gets it.
    HandOver,
    /// The switch answers with its own MAC address.
    AnswerArp,
    /// Counts the connection, and forwards.
    Count,
    /// Forwards: table 2.
    Continue,
    /// To the attached host.
    Deliver(MacAddr, u32),
    /// Out of a port.
    Output(u32),
    /// Out of one of the ports of a group.
    Group(u32),
    /// Nothing: it is dropped.
    Drop,
}

/// Rules of a switch, and the groups that they refer to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    /// What is done with what is matched.
    pub flows: BTreeMap<Matched, Action>,
    /// The ports of each group, ascending.
    pub groups: BTreeMap<u32, Vec<u32>>,
}

impl Rules {
    /// The rules of a switch, without those of placed flows.
    pub fn of(identities: &Identities, health: &Health, next_hops: &mut NextHops, switch: SwitchId) -> Self {
        let fabric = identities.fabric();
        let node = fabric.switch_node(switch);
        let mut rules = Self::default();
        rules.flows.extend([(Matched::Ingress, Action::Continue), (Matched::Forward, Action::Drop)]);
        for &link in fabric.out(node) {
            let port = identities.port(link);
            let Some(host) = fabric.as_host(fabric.link(link).to) else {
                rules.flows.insert(Matched::Lldp(port), Action::HandOver);
                continue;
            };
            let identity = identities.host(host);
            rules.flows.insert(Matched::Arp(port), Action::AnswerArp);
            rules.flows.insert(Matched::FromHost(port), Action::Count);
            rules.flows.insert(Matched::To(identity.address, 32), Action::Deliver(identity.mac, port));
        }
        for (rack, of_rack) in (0..).map(RackId).zip(fabric.racks()) {
            let links = next_hops.toward(health, Target::Rack(rack), node);
            let mut ports: Vec<u32> = links.iter().map(|&l| identities.port(l)).collect();
            ports.sort_unstable();
            let action = match ports[..] {
                // The rack's own switch, or no way there.
                [] => continue,
                [port] => Action::Output(port),
                _ => Action::Group(rules.group(ports)),
            };
            match identities.rack(rack) {
                Some(prefix) => rules.to(prefix.first.0.into(), prefix.len, action),
                None => of_rack.hosts.iter().for_each(|&h| rules.to(identities.host(h).address, 32, action)),
            }
        }
        rules
    }

    fn to(&mut self, address: Ipv4Addr, len: u8, action: Action) {
        self.flows.insert(Matched::To(address, len), action);
    }

    /// The number of the group with these ports, which is added if there is none.
    fn group(&mut self, ports: Vec<u32>) -> u32 {
        let mut id = ports.iter().fold(0, |hash, &port| mix(hash ^ u64::from(port))) as u32 % GROUPS;
        while self.groups.get(&id).is_some_and(|there| *there != ports) {
            id = (id + 1) % GROUPS;
        }
        self.groups.insert(id, ports);
        id
    }
}

/// Groups are numbered below this (`OFPG_MAX` is 0xffffff00).
const GROUPS: u32 = 0xffff_ff00;
