//! Arbitrary messages, of which a version has all. What two values stand for the same bytes is one of them here.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use weft_control::openflow::entries::{Description, GroupStats, TableStats};
use weft_control::openflow::group::Property;
use weft_control::openflow::multipart::FlowFilter;
use weft_control::openflow::port::{EthernetPort, PortReason, Text};
use weft_control::openflow::statistics::OtherStatistic;
use weft_control::openflow::{
    Action, Body, Bucket, CommandBucket, ControllerRole, ErrorMessage, Features, Field, FieldBits, FieldId, FlowCommand,
    FlowEntry, FlowFlags, FlowMod, FlowRemoved, FlowRemovedReason, Group, GroupCommand, GroupKind, GroupMod, Hello, Instruction,
    Learn, LearnDestination, LearnSource, LearnSpec, Match, Message, MultipartReply, MultipartRequest, PacketIn, PacketOut, Port,
    PortStats, PortStatus, ReplyBody, Role, Selection, Statistics, Version,
};
use weft_control::time::Duration;
use weft_fabric::MacAddr;

/// None stands for the largest value.
fn some32() -> impl Strategy<Value = Option<u32>> {
    option::of(0..u32::MAX)
}

fn some64() -> impl Strategy<Value = Option<u64>> {
    option::of(0..u64::MAX)
}

fn bytes(most: usize) -> impl Strategy<Value = Vec<u8>> {
    vec(any::<u8>(), 0..=most)
}

/// As many bytes as make the part with its length a multiple of 8.
fn padded() -> impl Strategy<Value = Vec<u8>> {
    (0..4usize).prop_flat_map(|n| vec(any::<u8>(), n * 8 + 4))
}

fn time() -> impl Strategy<Value = Duration> {
    (0..4_294_967_295_000_000_000u64).prop_map(Duration::from_ns)
}

fn mac() -> impl Strategy<Value = MacAddr> {
    any::<[u8; 6]>().prop_map(MacAddr)
}

fn id() -> impl Strategy<Value = FieldId> {
    let known = [
        FieldId::IN_PORT,
        FieldId::METADATA,
        FieldId::ETH_DST,
        FieldId::ETH_SRC,
        FieldId::ETH_TYPE,
        FieldId::VLAN_VID,
        FieldId::IP_PROTO,
        FieldId::IPV4_SRC,
        FieldId::IPV4_DST,
        FieldId::TCP_SRC,
        FieldId::UDP_DST,
        FieldId::ARP_OP,
        FieldId::ARP_SPA,
        FieldId::ARP_THA,
    ];
    prop_oneof![
        4 => proptest::sample::select(known.to_vec()),
        1 => (0..16u8).prop_map(FieldId::register),
        1 => (2..0x8000u16, 0..0x80u8, 1..=255u8).prop_map(|(class, number, width)| {
            FieldId::other(class, number, width, 0).expect("not a known one")
        }),
        1 => (0..0x80u8, 1..=251u8, any::<u32>()).prop_map(|(number, width, experimenter)| {
            FieldId::other(0xffff, number, width, experimenter).expect("not a known one")
        }),
    ]
}

fn field(masks: bool) -> impl Strategy<Value = Field> {
    id().prop_flat_map(move |id| {
        let width = usize::from(id.width());
        let mask = if masks && width < 120 { option::of(vec(any::<u8>(), width)).boxed() } else { Just(None).boxed() };
        (vec(any::<u8>(), width), mask).prop_map(move |(value, mask)| Field::new(id, &value, mask.as_deref()).expect("its width"))
    })
}

fn matching() -> impl Strategy<Value = Match> {
    vec(field(true), 0..5).prop_map(Match::of)
}

fn bits() -> impl Strategy<Value = FieldBits> {
    (id(), any::<u16>()).prop_map(|(field, offset)| FieldBits { field, offset })
}

fn learn() -> impl Strategy<Value = Learn> {
    let spec = (1..0x800u16).prop_flat_map(|count| {
        let words = usize::from(count.div_ceil(16)) * 2;
        let source = prop_oneof![bits().prop_map(LearnSource::Field), vec(any::<u8>(), words).prop_map(LearnSource::Immediate)];
        let destination = prop_oneof![
            bits().prop_map(LearnDestination::Match),
            bits().prop_map(LearnDestination::Load),
            Just(LearnDestination::Output),
        ];
        (source, destination).prop_map(move |(source, destination)| LearnSpec { bits: count, source, destination })
    });
    (any::<[u16; 3]>(), any::<u64>(), any::<u16>(), any::<u8>(), any::<[u16; 2]>(), vec(spec, 0..5)).prop_map(
        |([idle_timeout, hard_timeout, priority], cookie, flags, table, [fin_idle_timeout, fin_hard_timeout], specs)| Learn {
            idle_timeout,
            hard_timeout,
            priority,
            cookie,
            flags: FlowFlags(flags),
            table,
            fin_idle_timeout,
            fin_hard_timeout,
            specs,
        },
    )
}

fn action(version: Version) -> impl Strategy<Value = Action> {
    prop_oneof![
        (any::<u32>(), any::<u16>()).prop_map(|(port, max_len)| Action::Output { port, max_len }),
        any::<u32>().prop_map(Action::Group),
        any::<u32>().prop_map(Action::SetQueue),
        any::<u16>().prop_map(Action::PushVlan),
        Just(Action::PopVlan),
        any::<u8>().prop_map(Action::SetTtl),
        Just(Action::DecTtl),
        field(version == Version::V15).prop_map(Action::SetField),
        (any::<u16>(), bits(), bits()).prop_map(|(bits, from, to)| Action::CopyField { bits, from, to }),
        (option::of(0..0xfff8u16), any::<u8>()).prop_map(|(in_port, table)| Action::Resubmit { in_port, table }),
        learn().prop_map(Action::Learn),
        (30..0xffffu16, padded()).prop_map(|(kind, body)| Action::Other { kind, body }),
    ]
}

fn actions(version: Version) -> impl Strategy<Value = Vec<Action>> {
    vec(action(version), 0..4)
}

fn instructions(version: Version) -> impl Strategy<Value = Vec<Instruction>> {
    let one = prop_oneof![
        any::<u8>().prop_map(Instruction::GotoTable),
        any::<(u64, u64)>().prop_map(|(value, mask)| Instruction::WriteMetadata { value, mask }),
        actions(version).prop_map(Instruction::ApplyActions),
        actions(version).prop_map(Instruction::WriteActions),
        Just(Instruction::ClearActions),
        (6..0xffffu16, bytes(20)).prop_map(|(kind, body)| Instruction::Other { kind, body }),
    ];
    vec(one, 0..4)
}

/// A number that only 1.5 has.
fn only_15(version: Version) -> impl Strategy<Value = u16> {
    if version == Version::V15 { any::<u16>().boxed() } else { Just(0).boxed() }
}

fn flow_mod(version: Version) -> impl Strategy<Value = FlowMod> {
    use FlowCommand::{Add, Delete, DeleteStrict, Modify, ModifyStrict};
    let command = proptest::sample::select(vec![Add, Modify, ModifyStrict, Delete, DeleteStrict]);
    let head = (any::<[u64; 2]>(), any::<u8>(), command, any::<[u16; 4]>(), only_15(version));
    (head, [some32(), some32(), some32()], matching(), instructions(version)).prop_map(
        |((cookies, table, command, numbers, importance), [buffer, out_port, out_group], matching, instructions)| FlowMod {
            cookie: cookies[0],
            cookie_mask: cookies[1],
            table,
            command,
            idle_timeout: numbers[0],
            hard_timeout: numbers[1],
            priority: numbers[2],
            buffer,
            out_port,
            out_group,
            flags: FlowFlags(numbers[3]),
            importance,
            matching,
            instructions,
        },
    )
}

/// With a duration and counters, as 1.3 always has them; or any of 1.5.
fn statistics(version: Version) -> impl Strategy<Value = Statistics> {
    if version == Version::V13 {
        let all = (time(), some64(), some64());
        return all
            .prop_map(|(duration, packets, bytes)| Statistics {
                duration: Some(duration),
                packets,
                bytes,
                ..Statistics::default()
            })
            .boxed();
    }
    let other = (0..0x8002u16, any::<u8>(), bytes(20)).prop_map(|(class, field, value)| OtherStatistic { class, field, value });
    (option::of(time()), option::of(time()), any::<Option<u32>>(), any::<[Option<u64>; 2]>(), vec(other, 0..3))
        .prop_map(|(duration, idle, flows, [packets, bytes], other)| Statistics { duration, idle, flows, packets, bytes, other })
        .boxed()
}

fn flow_removed(version: Version) -> impl Strategy<Value = FlowRemoved> {
    (any::<u64>(), any::<[u16; 3]>(), any::<[u8; 2]>(), statistics(version), matching()).prop_map(
        |(cookie, [priority, idle_timeout, hard_timeout], [reason, table], statistics, matching)| FlowRemoved {
            cookie,
            priority,
            reason: FlowRemovedReason::of(reason),
            table,
            idle_timeout,
            hard_timeout,
            statistics,
            matching,
        },
    )
}

/// Properties of types that are not known.
fn properties(version: Version) -> impl Strategy<Value = Vec<Property>> {
    let one = (20..0xffffu16, bytes(20)).prop_map(|(kind, body)| Property { kind, body });
    vec(one, 0..if version == Version::V15 { 3 } else { 1 })
}

fn group(version: Version) -> impl Strategy<Value = Group> {
    use GroupKind::{All, FastFailover, Indirect, Select};
    let kind = proptest::sample::select(vec![All, Select, Indirect, FastFailover]);
    let bucket = (any::<u32>(), any::<u16>(), some32(), some32(), actions(version), properties(version)).prop_map(
        |(id, weight, watch_port, watch_group, actions, other)| Bucket { id, weight, watch_port, watch_group, actions, other },
    );
    let selection = prop_oneof![
        any::<(u32, u32)>().prop_map(|(algorithm, basis)| Selection::DpHash { algorithm, basis }),
        (any::<u64>(), vec(field(true), 0..3)).prop_map(|(basis, fields)| Selection::Hash { basis, fields }),
    ];
    let selection = if version == Version::V15 { option::of(selection).boxed() } else { Just(None).boxed() };
    (any::<u32>(), kind, vec(bucket, 0..4), selection, properties(version)).prop_map(
        move |(id, kind, mut buckets, selection, other)| {
            if version == Version::V13 {
                buckets.iter_mut().enumerate().for_each(|(position, bucket)| bucket.id = position as u32);
            }
            Group { id, kind, buckets, selection, other }
        },
    )
}

fn group_mod(version: Version) -> impl Strategy<Value = GroupMod> {
    use CommandBucket::{All, First, Id, Last};
    let bucket = prop_oneof![(0..0xffff_ff00u32).prop_map(Id), Just(First), Just(Last), Just(All)];
    let plain = proptest::sample::select(vec![GroupCommand::Add, GroupCommand::Modify, GroupCommand::Delete]);
    let command = match version {
        Version::V13 => plain.boxed(),
        Version::V15 => {
            let insert = bucket.clone().prop_map(GroupCommand::InsertBucket);
            prop_oneof![plain, insert, bucket.prop_map(GroupCommand::RemoveBucket)].boxed()
        }
    };
    (command, group(version)).prop_map(|(command, group)| GroupMod { command, group })
}

fn port(version: Version) -> impl Strategy<Value = Port> {
    let ethernet = any::<[u32; 6]>().prop_filter("zeros are none", |it| *it != [0; 6]).prop_map(
        |[current, advertised, supported, peer, speed, max_speed]| EthernetPort {
            current,
            advertised,
            supported,
            peer,
            speed,
            max_speed,
        },
    );
    (any::<u32>(), mac(), any::<[u8; 16]>(), any::<[u32; 2]>(), option::of(ethernet), properties(version)).prop_map(
        |(number, mac, name, [config, state], ethernet, other)| Port {
            number,
            mac,
            name: Text(name),
            config,
            state,
            ethernet,
            other,
        },
    )
}

fn port_stats(version: Version) -> impl Strategy<Value = PortStats> {
    let counters = (vec(some64(), 8), option::of([0..u64::MAX, 0..u64::MAX, 0..u64::MAX, 0..u64::MAX]));
    (any::<u32>(), time(), counters, properties(version)).prop_map(|(number, duration, (all, ethernet), other)| PortStats {
        number,
        duration,
        rx_packets: all[0],
        tx_packets: all[1],
        rx_bytes: all[2],
        tx_bytes: all[3],
        rx_dropped: all[4],
        tx_dropped: all[5],
        rx_errors: all[6],
        tx_errors: all[7],
        ethernet,
        other,
    })
}

fn request(version: Version) -> impl Strategy<Value = MultipartRequest> {
    let filter = || {
        (any::<u8>(), some32(), some32(), any::<[u64; 2]>(), matching()).prop_map(
            |(table, out_port, out_group, [cookie, cookie_mask], matching)| FlowFilter {
                table,
                out_port,
                out_group,
                cookie,
                cookie_mask,
                matching,
            },
        )
    };
    let one = || option::of(0..0xffff_ff00u32);
    let only_15 = || if version == Version::V15 { one().boxed() } else { Just(None).boxed() };
    prop_oneof![
        Just(MultipartRequest::Description),
        filter().prop_map(MultipartRequest::Flows),
        filter().prop_map(MultipartRequest::Aggregate),
        Just(MultipartRequest::Tables),
        one().prop_map(MultipartRequest::Ports),
        only_15().prop_map(MultipartRequest::PortDescriptions),
        one().prop_map(MultipartRequest::Groups),
        only_15().prop_map(MultipartRequest::GroupDescriptions),
        (20..=u16::MAX, any::<u16>(), bytes(20)).prop_map(|(kind, flags, body)| MultipartRequest::Other { kind, flags, body }),
    ]
}

fn reply(version: Version) -> impl Strategy<Value = MultipartReply> {
    let flow =
        (any::<u8>(), any::<[u16; 4]>(), only_15(version), any::<u64>(), statistics(version), matching(), instructions(version))
            .prop_map(|(table, numbers, importance, cookie, statistics, matching, instructions)| FlowEntry {
                table,
                priority: numbers[0],
                idle_timeout: numbers[1],
                hard_timeout: numbers[2],
                flags: FlowFlags(numbers[3]),
                importance,
                cookie,
                statistics,
                matching,
                instructions,
            });
    let sums = (statistics(version), any::<u32>()).prop_map(move |(it, flows)| match version {
        Version::V13 => Statistics { flows: Some(flows), duration: None, ..it },
        Version::V15 => it,
    });
    let table = (any::<u8>(), any::<u32>(), some64(), some64()).prop_map(|(table, flows, lookups, matches)| TableStats {
        table,
        flows,
        lookups,
        matches,
    });
    let counts = (any::<[u32; 2]>(), some64(), some64(), time(), vec((some64(), some64()), 0..4)).prop_map(
        |([id, references], packets, bytes, duration, buckets)| GroupStats { id, references, packets, bytes, duration, buckets },
    );
    let names = any::<u8>().prop_map(|n| {
        let name = |what: &str| format!("{what} {n}");
        ReplyBody::Description(Box::new(Description {
            manufacturer: Text::new(&name("manufacturer")),
            hardware: Text::new(&name("hardware")),
            software: Text::new(&name("software")),
            serial: Text::new(&name("serial")),
            datapath: Text::new(&name("datapath").repeat(40)),
        }))
    });
    let body = prop_oneof![
        names,
        vec(flow, 0..3).prop_map(ReplyBody::Flows),
        sums.prop_map(ReplyBody::Aggregate),
        vec(table, 0..3).prop_map(ReplyBody::Tables),
        vec(port_stats(version), 0..3).prop_map(ReplyBody::Ports),
        vec(port(version), 0..3).prop_map(ReplyBody::PortDescriptions),
        vec(counts, 0..3).prop_map(ReplyBody::Groups),
        vec(group(version), 0..3).prop_map(ReplyBody::GroupDescriptions),
        (20..=u16::MAX, bytes(20)).prop_map(|(kind, body)| ReplyBody::Other { kind, body }),
    ];
    (any::<bool>(), body).prop_map(|(more, body)| MultipartReply { more, body })
}

fn packet_out(version: Version) -> impl Strategy<Value = PacketOut> {
    let others = if version == Version::V15 { matching().boxed() } else { Just(Match::new()).boxed() };
    (some32(), any::<u32>(), others, actions(version), bytes(60)).prop_map(|(buffer, port, fields, actions, data)| PacketOut {
        buffer,
        fields: fields.with(Field::in_port(port)),
        actions,
        data,
    })
}

fn role(version: Version) -> impl Strategy<Value = Role> {
    use ControllerRole::{Equal, Master, NoChange, Slave};
    let short_id = if version == Version::V15 { option::of(0..u16::MAX).boxed() } else { Just(None).boxed() };
    (proptest::sample::select(vec![NoChange, Equal, Master, Slave]), short_id, any::<u64>())
        .prop_map(|(role, short_id, generation)| Role { role, short_id, generation })
}

fn from_switch(version: Version) -> impl Strategy<Value = Body> {
    use PortReason::{Add, Delete, Modify};
    let packet_in = (some32(), any::<u16>(), any::<[u8; 2]>(), any::<u64>(), matching(), bytes(60)).prop_map(
        |(buffer, length, [reason, table], cookie, fields, data)| PacketIn {
            buffer,
            length,
            reason,
            table,
            cookie,
            fields,
            data,
        },
    );
    let status = (proptest::sample::select(vec![Add, Delete, Modify]), port(version));
    prop_oneof![
        (any::<[u16; 2]>(), bytes(80)).prop_map(|([kind, code], data)| Body::Error(ErrorMessage { kind, code, data })),
        bytes(20).prop_map(Body::EchoReply),
        any::<(u64, [u32; 2], [u8; 2])>().prop_map(|(datapath, [buffers, capabilities], [tables, auxiliary])| {
            Body::FeaturesReply(Features { datapath, buffers, tables, auxiliary, capabilities })
        }),
        packet_in.prop_map(Body::PacketIn),
        flow_removed(version).prop_map(Body::FlowRemoved),
        status.prop_map(|(reason, port)| Body::PortStatus(PortStatus { reason, port })),
        reply(version).prop_map(Body::MultipartReply),
        Just(Body::BarrierReply),
        role(version).prop_map(Body::RoleReply),
    ]
}

fn from_controller(version: Version) -> impl Strategy<Value = Body> {
    prop_oneof![
        option::of(vec(any::<u32>(), 0..3)).prop_map(|versions| Body::Hello(Hello { versions })),
        bytes(20).prop_map(Body::EchoRequest),
        (any::<[u32; 2]>(), bytes(20)).prop_map(|([experimenter, kind], data)| Body::Experimenter { experimenter, kind, data }),
        Just(Body::FeaturesRequest),
        any::<[u16; 2]>().prop_map(|[flags, miss_send_len]| Body::SetConfig { flags, miss_send_len }),
        packet_out(version).prop_map(Body::PacketOut),
        flow_mod(version).prop_map(Body::FlowMod),
        group_mod(version).prop_map(Body::GroupMod),
        request(version).prop_map(Body::MultipartRequest),
        Just(Body::BarrierRequest),
        role(version).prop_map(Body::RoleRequest),
        (26..=29u8, bytes(20)).prop_map(|(kind, bytes)| Body::Other { kind, bytes }),
    ]
}

/// Any message of a version.
pub fn message(version: Version) -> impl Strategy<Value = Message> {
    let body = prop_oneof![from_switch(version), from_controller(version)];
    (any::<u32>(), body).prop_map(|(xid, body)| Message { xid, body })
}

/// Any message of any version.
pub fn any_message() -> impl Strategy<Value = (Version, Message)> {
    prop_oneof![
        message(Version::V13).prop_map(|message| (Version::V13, message)),
        message(Version::V15).prop_map(|message| (Version::V15, message)),
    ]
}
