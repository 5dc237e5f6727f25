//! Rules as messages, and messages as rules.

use std::net::Ipv4Addr;

use ipnet::Ipv4Net;
use weft_fabric::rng::mix;
use weft_fabric::routing::FlowKey;

use crate::openflow::SWITCHES_MAC;
use crate::openflow::action::NO_BUFFER;
use crate::openflow::network::identities::Identities;
use crate::openflow::network::rules::{Action as Does, Matched};
use crate::openflow::{
    Action, Body, Bucket, Field, FieldId, FlowEntry, FlowFilter, FlowFlags, FlowMod, Group, GroupKind, GroupMod, Instruction,
    Learn, LearnSpec, Match, MultipartRequest, PacketOut, Selection, Version, port,
};
use crate::wire::packet::lldp::NEAREST_BRIDGE;

/// A rule of ours that a switch has.
#[derive(Clone, Debug)]
pub(super) struct Found {
    entry: FlowEntry,
    /// What it matches, if we have rules with such a match.
    pub matched: Option<Matched>,
    /// The port that it sends to, if that is all that it does.
    pub output: Option<u32>,
}

/// A rule, to be added or replaced.
pub(super) fn add(identities: &Identities, matched: Matched, does: Does, idle_timeout: u16) -> Body {
    let (table, priority, matching) = place(identities, matched);
    let mut flow = FlowMod::add(table, priority, matching, instructions(does, idle_timeout));
    flow.cookie = COOKIE_RULE;
    if matches!(matched, Matched::Flow(_)) {
        flow.cookie = COOKIE_PLACED;
        flow.idle_timeout = idle_timeout;
    }
    Body::FlowMod(flow)
}

/// Removes a rule.
pub(super) fn remove(identities: &Identities, matched: Matched) -> Body {
    let (table, priority, matching) = place(identities, matched);
    Body::FlowMod(FlowMod::delete_strict(table, priority, matching))
}

/// Removes a rule that a switch has and should not.
pub(super) fn delete(found: &Found) -> Body {
    let FlowEntry { table, priority, matching, .. } = &found.entry;
    Body::FlowMod(FlowMod::delete_strict(*table, *priority, matching.clone()))
}

/// A group of equal ports, hashed by the switch with its own basis. OpenFlow 1.3 cannot say how to hash.
pub(super) fn add_group(id: u32, ports: &[u32], version: Version, basis: u32) -> Body {
    let selection = (version == Version::V15).then_some(Selection::DpHash { basis, algorithm: 0 });
    let buckets = (0..).zip(ports).map(|(i, &port)| Bucket::to_port(i, port)).collect();
    Body::GroupMod(GroupMod::add(Group { selection, ..Group::new(id, GroupKind::Select, buckets) }))
}

/// Removes a group.
pub(super) fn delete_group(id: u32) -> Body {
    Body::GroupMod(GroupMod::delete(id))
}

/// The basis of a switch's hash.
pub(super) fn basis(seed: u64, datapath: u64) -> u32 {
    mix(seed ^ mix(datapath)) as u32
}

/// A frame that leaves by a port.
pub(super) fn out_of(port: u32, frame: Vec<u8>) -> PacketOut {
    PacketOut::new(port::CONTROLLER, vec![Action::output(port)], frame)
}

/// Asks for all rules with our cookies.
pub(super) fn all_rules() -> MultipartRequest {
    MultipartRequest::Flows(FlowFilter { cookie: COOKIE, cookie_mask: COOKIE_MASK, ..FlowFilter::default() })
}

/// Asks for the counters of all connections.
pub(super) fn all_counters() -> MultipartRequest {
    MultipartRequest::Flows(FlowFilter { table: TABLE_COUNTERS, ..FlowFilter::default() })
}

/// A rule that a switch has listed; `None` for a counted connection.
pub(super) fn found(identities: &Identities, entry: FlowEntry) -> Option<Found> {
    if entry.cookie == COOKIE_COUNTED {
        return None;
    }
    let matched = matched(identities, &entry);
    let output = match &entry.instructions[..] {
        [Instruction::ApplyActions(actions)] => match actions[..] {
            [Action::Output { port, .. }] => Some(port),
            _ => None,
        },
        _ => None,
    };
    Some(Found { entry, matched, output })
}

/// The connection that an entry matches, if both of its hosts are of the fabric.
pub(super) fn connection(identities: &Identities, matching: &Match) -> Option<FlowKey> {
    let host = |id| identities.host_of(matching.ipv4(id)?);
    let number = |id| u16::try_from(matching.number(id)?).ok();
    let (src, dst) = (host(FieldId::IPV4_SRC)?, host(FieldId::IPV4_DST)?);
    Some(FlowKey { src, dst, sport: number(FieldId::TCP_SRC)?, dport: number(FieldId::TCP_DST)? })
}

/// Whether an ended entry counted a connection, and not forwarded it.
pub(super) const fn is_counter(table: u8) -> bool {
    table == TABLE_COUNTERS
}

/// Table, priority and match.
fn place(identities: &Identities, matched: Matched) -> (u8, u16, Match) {
    match matched {
        Matched::Lldp(port) => {
            let fields = [Field::in_port(port), Field::eth_type(LLDP), Field::eth_dst(NEAREST_BRIDGE)];
            (TABLE_INGRESS, 40, Match::of(fields))
        }
        Matched::Arp(port) => {
            let fields = [Field::in_port(port), Field::eth_type(ARP), Field::arp_op(REQUEST)];
            (TABLE_INGRESS, 30, Match::of(fields))
        }
        Matched::FromHost(port) => {
            (TABLE_INGRESS, 20, Match::of([Field::in_port(port), Field::eth_type(IPV4), Field::ip_proto(TCP)]))
        }
        Matched::Ingress => (TABLE_INGRESS, 0, Match::new()),
        Matched::To(address, len) => {
            let prefix = Ipv4Net::new_assert(address, len);
            (TABLE_FORWARD, u16::from(len), Match::of([Field::eth_type(IPV4), Field::ipv4_dst_prefix(prefix)]))
        }
        Matched::Flow(key) => {
            let address = |host| identities.host(host).address;
            let fields = [
                Field::eth_type(IPV4),
                Field::ip_proto(TCP),
                Field::ipv4_src(address(key.src)),
                Field::ipv4_dst(address(key.dst)),
                Field::tcp_src(key.sport),
                Field::tcp_dst(key.dport),
            ];
            (TABLE_FORWARD, 100, Match::of(fields))
        }
        Matched::Forward => (TABLE_FORWARD, 0, Match::new()),
    }
}

/// The reverse of [`place`].
fn matched(identities: &Identities, entry: &FlowEntry) -> Option<Matched> {
    let matching = &entry.matching;
    let candidate = match (entry.table, entry.priority) {
        (TABLE_INGRESS, 40) => Matched::Lldp(matching.in_port()?),
        (TABLE_INGRESS, 30) => Matched::Arp(matching.in_port()?),
        (TABLE_INGRESS, 20) => Matched::FromHost(matching.in_port()?),
        (TABLE_INGRESS, 0) => Matched::Ingress,
        (TABLE_FORWARD, 0) => Matched::Forward,
        (TABLE_FORWARD, 100) => Matched::Flow(connection(identities, matching)?),
        (TABLE_FORWARD, len @ 1..=32) => {
            let field = matching.get(FieldId::IPV4_DST)?;
            let octets = <[u8; 4]>::try_from(field.value()).ok()?;
            Matched::To(Ipv4Addr::from(octets), len as u8)
        }
        _ => return None,
    };
    (place(identities, candidate).2 == *matching).then_some(candidate)
}

fn instructions(does: Does, idle_timeout: u16) -> Vec<Instruction> {
    let apply = |actions: Vec<Action>| vec![Instruction::ApplyActions(actions)];
    match does {
        Does::HandOver => apply(vec![Action::Output { port: port::CONTROLLER, max_len: NO_BUFFER }]),
        Does::AnswerArp => apply(answer_arp()),
        Does::Count => vec![
            Instruction::ApplyActions(vec![
                Action::Learn(count(idle_timeout)),
                Action::Resubmit { in_port: None, table: TABLE_COUNTERS },
            ]),
            Instruction::GotoTable(TABLE_FORWARD),
        ],
        Does::Continue => vec![Instruction::GotoTable(TABLE_FORWARD)],
        Does::Deliver(mac, port) => apply(vec![Action::SetField(Field::eth_dst(mac)), Action::output(port)]),
        Does::Output(port) => apply(vec![Action::output(port)]),
        Does::Group(group) => apply(vec![Action::Group(group)]),
        Does::Drop => Vec::new(),
    }
}

/// The entry that counts a connection. It forwards nothing: packets go on to the forwarding table.
fn count(idle_timeout: u16) -> Learn {
    Learn {
        idle_timeout,
        fin_idle_timeout: FIN_TIMEOUT,
        priority: 1,
        cookie: COOKIE_COUNTED,
        flags: FlowFlags::SEND_FLOW_REM,
        table: TABLE_COUNTERS,
        specs: vec![
            LearnSpec::constant(&Field::eth_type(IPV4)),
            LearnSpec::constant(&Field::ip_proto(TCP)),
            LearnSpec::same(FieldId::IPV4_SRC),
            LearnSpec::same(FieldId::IPV4_DST),
            LearnSpec::same(FieldId::TCP_SRC),
            LearnSpec::same(FieldId::TCP_DST),
        ],
        ..Learn::default()
    }
}

/// Makes a reply of an ARP request: whatever address is asked for, it is behind the switch.
pub fn answer_arp() -> Vec<Action> {
    let spare = FieldId::register(0);
    vec![
        Action::copy(FieldId::ETH_SRC, FieldId::ETH_DST),
        Action::SetField(Field::eth_src(SWITCHES_MAC)),
        Action::SetField(Field::arp_op(REPLY)),
        Action::copy(FieldId::ARP_SHA, FieldId::ARP_THA),
        Action::SetField(Field::arp_sha(SWITCHES_MAC)),
        Action::copy(FieldId::ARP_SPA, spare),
        Action::copy(FieldId::ARP_TPA, FieldId::ARP_SPA),
        Action::copy(spare, FieldId::ARP_TPA),
        Action::output(port::IN_PORT),
    ]
}

/// Our cookies: "WEFT", and what the entry is.
const COOKIE: u64 = 0x5745_4654 << 32;
const COOKIE_MASK: u64 = 0xffff_ffff << 32;
const COOKIE_RULE: u64 = COOKIE | 1;
const COOKIE_COUNTED: u64 = COOKIE | 2;
const COOKIE_PLACED: u64 = COOKIE | 3;

const TABLE_INGRESS: u8 = 0;
const TABLE_COUNTERS: u8 = 1;
const TABLE_FORWARD: u8 = 2;

const IPV4: u16 = 0x0800;
const ARP: u16 = 0x0806;
const LLDP: u16 = 0x88cc;
const TCP: u8 = 6;
const REQUEST: u16 = 1;
const REPLY: u16 = 2;
/// Seconds that an entry lives on after a FIN or RST.
const FIN_TIMEOUT: u16 = 1;
