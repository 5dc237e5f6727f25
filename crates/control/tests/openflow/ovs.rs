//! What Open vSwitch makes of the messages that Weft sends: `ovs-ofctl ofp-print`. Skipped where there is no ovs-ofctl, unless `CI` is set.

use std::process::Command;

use weft_control::openflow::multipart::FlowFilter;
use weft_control::openflow::{
    Action, Body, Bucket, ControllerRole, Field, FlowMod, Group, GroupKind, GroupMod, Hello, Instruction, Match, Message,
    MultipartRequest, PacketOut, Role, Selection, Version, port,
};

use crate::flows;

/// What ovs-ofctl prints of each message, without the first line's header; None: there is no ovs-ofctl.
fn printed(version: Version, bodies: &[Body]) -> Option<Vec<String>> {
    let print = |body: &Body| {
        let mut bytes = Vec::new();
        Message { xid: 5, body: body.clone() }.emit(version, &mut bytes).expect("it has bytes");
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let output = match Command::new("ovs-ofctl").args(["ofp-print", &hex]).output() {
            Ok(output) => output,
            Err(why) => {
                assert!(std::env::var_os("CI").is_none(), "ovs-ofctl is needed: {why}");
                eprintln!("skipped: no ovs-ofctl ({why})");
                return None;
            }
        };
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{}{text}", String::from_utf8_lossy(&output.stderr));
        let (head, rest) = text.split_once("(xid=0x5):").expect("a header");
        assert!(head.contains(if version == Version::V13 { "(OF1.3)" } else { "(OF1.5)" }), "{text}");
        Some(rest.trim().to_owned())
    };
    bodies.iter().map(print).collect()
}

fn check(version: Version, bodies: &[Body], expected: &[&str]) {
    let Some(printed) = printed(version, bodies) else { return };
    assert_eq!(printed.join("\n"), expected.join("\n"), "{version}");
}

#[test]
fn flows_are_understood() {
    let learn = "ADD priority=100,tcp,in_port=3 actions=learn(table=1,idle_timeout=10,priority=1,send_flow_rem,cookie=0x57454654000001,\
                 eth_type=0x800,nw_proto=6,NXM_OF_IP_SRC[],NXM_OF_IP_DST[],NXM_OF_TCP_SRC[],NXM_OF_TCP_DST[]),resubmit(,1),goto_table:2";
    let arp = "ADD priority=200,arp,arp_op=1 actions=move:NXM_OF_ETH_SRC[]->NXM_OF_ETH_DST[],set_field:02:00:00:00:00:fe->eth_src,\
               set_field:2->arp_op,move:NXM_NX_ARP_SHA[]->NXM_NX_ARP_THA[],set_field:02:00:00:00:00:fe->arp_sha,\
               move:NXM_OF_ARP_SPA[]->NXM_NX_REG0[],move:NXM_OF_ARP_TPA[]->NXM_OF_ARP_SPA[],move:NXM_NX_REG0[]->NXM_OF_ARP_TPA[],IN_PORT";
    let prefix = "ADD table:2 priority=24,ip,nw_dst=10.1.2.0/24 actions=group:7";
    let placed = "ADD table:2 priority=1000,tcp,nw_src=10.0.1.2,nw_dst=10.1.2.3,tp_src=40000,tp_dst=5001 \
                  cookie:0x57454654000001 idle:5 send_flow_rem actions=output:12";
    let host = "ADD table:2 priority=32,ip,nw_dst=10.1.2.3 actions=set_field:02:00:00:00:01:03->eth_dst,output:1";
    for version in Version::ALL {
        check(version, &flows::all(), &[learn, arp, prefix, placed, host]);
    }
}

#[test]
fn groups_are_understood() {
    let dp_hash = Selection::DpHash { algorithm: 1, basis: 7 };
    let fields = vec![Field::ip_proto(0xff), Field::ipv4_src([0xff; 4].into())];
    let hash = Selection::Hash { basis: 9, fields };
    let failover = Group::new(8, GroupKind::FastFailover, vec![Bucket { weight: 0, ..Bucket::to_port(0, 11) }]);
    let selecting = [flows::uplinks(Some(dp_hash)), flows::uplinks(Some(hash))];
    let plain = [flows::uplinks(None), GroupMod::delete(7), GroupMod::modify(failover)].map(Body::GroupMod);
    let buckets =
        |name: [&str; 2]| format!("{}watch_port:11,actions=output:11,{}watch_port:12,actions=output:12", name[0], name[1]);
    let named = buckets(["bucket=bucket_id:0,", "bucket=bucket_id:1,"]);
    let expected = [
        // The algorithm is the upper half.
        &format!("ADD group_id=7,type=select,selection_method=dp_hash,selection_method_param={},{named}", (1u64 << 32) + 7),
        &format!("ADD group_id=7,type=select,selection_method=hash,selection_method_param=9,fields(ip_src,nw_proto),{named}"),
        &format!("ADD group_id=7,type=select,{named}"),
        "DEL group_id=7,type=all",
        "MOD group_id=8,type=ff,bucket=bucket_id:0,watch_port:11,actions=output:11",
    ];
    check(Version::V15, &[&selecting.map(Body::GroupMod)[..], &plain].concat(), &expected);
    let unnamed = format!("ADD group_id=7,type=select,{}", buckets(["bucket=", "bucket="]));
    let failover = "MOD group_id=8,type=ff,bucket=watch_port:11,actions=output:11";
    check(Version::V13, &plain, &[&unnamed, "DEL group_id=7,type=all", failover]);
}

#[test]
fn other_messages_are_understood() {
    let filter = FlowFilter { table: 1, out_port: Some(4), cookie: 1, cookie_mask: 3, ..FlowFilter::default() };
    let bodies = [
        Body::Hello(Hello::of(&Version::ALL)),
        Body::MultipartRequest(MultipartRequest::Description),
        Body::MultipartRequest(MultipartRequest::Flows(filter.clone())),
        Body::MultipartRequest(MultipartRequest::Aggregate(filter)),
        Body::MultipartRequest(MultipartRequest::Tables),
        Body::MultipartRequest(MultipartRequest::Ports(Some(3))),
        Body::MultipartRequest(MultipartRequest::PortDescriptions(None)),
        Body::MultipartRequest(MultipartRequest::Groups(Some(7))),
        Body::MultipartRequest(MultipartRequest::GroupDescriptions(None)),
        Body::PacketOut(PacketOut::new(port::CONTROLLER, vec![Action::output(3)], vec![0xff; 14])),
        Body::RoleRequest(Role { role: ControllerRole::Master, short_id: None, generation: 3 }),
        Body::SetConfig { flags: 0, miss_send_len: 128 },
        Body::BarrierRequest,
        Body::FeaturesRequest,
        Body::FlowMod(FlowMod::delete(0xff, Match::new())),
        Body::FlowMod(FlowMod::delete_strict(2, 7, Match::of([Field::vlan_vid(5), Field::metadata(0x10, 0xf0)]))),
        Body::FlowMod(FlowMod::add(3, 7, Match::of([Field::eth_type(0x0800)]), other_instructions())),
    ];
    let ethernet = "vlan_tci=0x0000,dl_src=ff:ff:ff:ff:ff:ff,dl_dst=ff:ff:ff:ff:ff:ff,dl_type=0xffff";
    let packet_out = format!("in_port=CONTROLLER actions=output:3 data_len=14\n{ethernet}");
    let expected = [
        "version bitmap: 0x04, 0x06",
        "",
        "table=1 out_port=4",
        "table=1 out_port=4",
        "",
        "port_no=3",
        "port=ANY",
        "group_id=7",
        "group_id=ALL",
        &packet_out,
        "role=primary generation_id=3",
        "frags=normal miss_send_len=128",
        "",
        "",
        "DEL table:255 priority=0 actions=drop",
        "DEL_STRICT table:2 priority=7,metadata=0x10/0xf0,dl_vlan=5 actions=drop",
        "ADD table:3 priority=7,ip actions=push_vlan:0x8100,pop_vlan,dec_ttl,mod_nw_ttl:9,set_queue:2,clear_actions,\
         write_actions(CONTROLLER:64),write_metadata:0x20/0xff,goto_table:4",
    ];
    for version in Version::ALL {
        check(version, &bodies, &expected);
    }
}

fn other_instructions() -> Vec<Instruction> {
    let actions = vec![Action::PushVlan(0x8100), Action::PopVlan, Action::DecTtl, Action::SetTtl(9), Action::SetQueue(2)];
    vec![
        Instruction::ApplyActions(actions),
        Instruction::ClearActions,
        Instruction::WriteActions(vec![Action::Output { port: port::CONTROLLER, max_len: 64 }]),
        Instruction::WriteMetadata { value: 0x20, mask: 0xff },
        Instruction::GotoTable(4),
    ]
}
