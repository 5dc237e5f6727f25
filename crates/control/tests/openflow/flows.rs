//! The flows and groups that Hedera's switches have, as values.

use std::net::Ipv4Addr;

use weft_control::openflow::{
    Action, Body, Bucket, Field, FieldId, FlowFlags, FlowMod, Group, GroupKind, GroupMod, Instruction, Learn, LearnSpec, Match,
    Selection, Version, port,
};
use weft_fabric::MacAddr;

pub const COOKIE: u64 = 0x0057_4546_5400_0001;

fn ip() -> Match {
    Match::of([Field::eth_type(0x0800)])
}

/// Edge, table 0: a TCP flow of a host is counted in table 1, and forwarded by table 2.
pub fn learn() -> FlowMod {
    let mut specs = vec![LearnSpec::constant(&Field::eth_type(0x0800)), LearnSpec::constant(&Field::ip_proto(6))];
    specs.extend([FieldId::IPV4_SRC, FieldId::IPV4_DST, FieldId::TCP_SRC, FieldId::TCP_DST].map(LearnSpec::same));
    let learn = Learn {
        idle_timeout: 10,
        priority: 1,
        cookie: COOKIE,
        flags: FlowFlags::SEND_FLOW_REM,
        table: 1,
        specs,
        ..Learn::default()
    };
    let actions = vec![Action::Learn(learn), Action::Resubmit { in_port: None, table: 1 }];
    let instructions = vec![Instruction::ApplyActions(actions), Instruction::GotoTable(2)];
    FlowMod::add(0, 100, ip().with(Field::ip_proto(6)).with(Field::in_port(3)), instructions)
}

/// A switch that answers ARP for every address with one MAC address.
pub fn arp_responder() -> FlowMod {
    let mac = MacAddr([2, 0, 0, 0, 0, 0xfe]);
    let actions = vec![
        Action::copy(FieldId::ETH_SRC, FieldId::ETH_DST),
        Action::SetField(Field::eth_src(mac)),
        Action::SetField(Field::arp_op(2)),
        Action::copy(FieldId::ARP_SHA, FieldId::ARP_THA),
        Action::SetField(Field::arp_sha(mac)),
        Action::copy(FieldId::ARP_SPA, FieldId::register(0)),
        Action::copy(FieldId::ARP_TPA, FieldId::ARP_SPA),
        Action::copy(FieldId::register(0), FieldId::ARP_TPA),
        Action::output(port::IN_PORT),
    ];
    FlowMod::add(0, 200, Match::of([Field::arp_op(1), Field::eth_type(0x0806)]), vec![Instruction::ApplyActions(actions)])
}

/// A pod's or rack's prefix to a group.
pub fn prefix() -> FlowMod {
    let matching = ip().with(Field::ipv4_dst_prefix("10.1.2.0/24".parse().expect("a prefix")));
    FlowMod::add(2, 24, matching, vec![Instruction::ApplyActions(vec![Action::Group(7)])])
}

/// A placed flow.
pub fn placed() -> FlowMod {
    let matching = ip()
        .with(Field::ip_proto(6))
        .with(Field::ipv4_src(Ipv4Addr::new(10, 0, 1, 2)))
        .with(Field::ipv4_dst(Ipv4Addr::new(10, 1, 2, 3)))
        .with(Field::tcp_src(40_000))
        .with(Field::tcp_dst(5001));
    let flow = FlowMod::add(2, 1000, matching, vec![Instruction::ApplyActions(vec![Action::output(12)])]);
    FlowMod { idle_timeout: 5, cookie: COOKIE, flags: FlowFlags::SEND_FLOW_REM, ..flow }
}

/// A host of the switch.
pub fn host() -> FlowMod {
    let actions = vec![Action::SetField(Field::eth_dst(MacAddr([2, 0, 0, 0, 1, 3]))), Action::output(1)];
    FlowMod::add(2, 32, ip().with(Field::ipv4_dst(Ipv4Addr::new(10, 1, 2, 3))), vec![Instruction::ApplyActions(actions)])
}

/// The uplinks of a switch.
pub fn uplinks(selection: Option<Selection>) -> GroupMod {
    let buckets = vec![Bucket::to_port(0, 11), Bucket::to_port(1, 12)];
    GroupMod::add(Group { selection, ..Group::new(7, GroupKind::Select, buckets) })
}

/// All flow-mods.
pub fn all() -> Vec<Body> {
    [learn(), arp_responder(), prefix(), placed(), host()].map(Body::FlowMod).to_vec()
}

/// All of them in each version, with names.
pub fn named() -> Vec<(Version, &'static str, Body)> {
    let names = ["learn", "arp_responder", "prefix", "placed", "host"];
    let mut all: Vec<_> = Version::ALL
        .into_iter()
        .flat_map(|version| names.into_iter().zip(self::all()).map(move |(name, body)| (version, name, body)))
        .collect();
    all.push((Version::V13, "uplinks", Body::GroupMod(uplinks(None))));
    all.push((Version::V15, "uplinks_dp_hash", Body::GroupMod(uplinks(Some(Selection::DpHash { algorithm: 0, basis: 7 })))));
    all
}
