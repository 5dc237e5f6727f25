//! The programs run by BPF_PROG_RUN on frames made here, compared byte by byte with the parsers and emitters of `control::wire::netlord`.
//!
//! A frame that is run so has come by interface 1, and its tag, unlike that of a real one, is still in line: what tags do is tested in the lab.

mod budgets;
mod cost;
mod fuzz;
mod host;
mod switch;

use weft_control::netlord::{EdgePort, Location, MacSpace, Vif};
use weft_control::wire::packet::checksum;
use weft_control::wire::packet::ethernet::{EtherType, Ethernet, VlanId};
use weft_fabric::{MacAddr, TenantId};

use super::counters::{HOST_COUNTERS, Name, Named, SWITCH_COUNTERS};
use super::{HostPlane, HostSettings, SwitchPlane, SwitchSettings};
use crate::dataplane::testing::PinDir;

/// The interface that frames come by.
const HERE: u32 = 1;
/// One that nothing is sent by really: a redirection is only noted.
const THERE: u32 = 9;

const HARDWARE: MacAddr = MacAddr([0x0a, 0x51, 0, 0, 0, 1]);
const OWN_SWITCH: MacAddr = MacAddr([0x02, 0x4e, 0x4c, 0, 0, 1]);
const FAR_SWITCH: MacAddr = MacAddr([0x02, 0x4e, 0x4c, 0, 0, 2]);

fn vm(n: u8) -> MacAddr {
    MacAddr([2, 0, 0, 0, 0, n])
}

fn vif(n: u8) -> Vif {
    Vif { tenant: TenantId(0x12_3456), space: MacSpace(7), mac: vm(n) }
}

fn port(n: u16) -> EdgePort {
    EdgePort::new(n).unwrap()
}

fn place(switch: MacAddr, n: u16) -> Location {
    Location { switch, port: port(n) }
}

fn vlan(id: u16) -> VlanId {
    VlanId::new(id).unwrap()
}

fn ethernet(dst: MacAddr, src: MacAddr, ethertype: u16, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    Ethernet { dst, src, tag: None, ethertype: EtherType(ethertype), payload }.emit(&mut out);
    out
}

/// An IPv4 packet; `options` in whole words.
fn ip4(protocol: u8, options: &[u8], fragment: u16, payload: &[u8]) -> Vec<u8> {
    let header = 20 + options.len();
    let mut packet = vec![0x40 | (header / 4) as u8, 0, 0, 0, 0x12, 0x34, 0, 0, 64, protocol, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
    packet[6..8].copy_from_slice(&fragment.to_be_bytes());
    packet.extend_from_slice(options);
    let total = (header + payload.len()) as u16;
    packet[2..4].copy_from_slice(&total.to_be_bytes());
    let sum = checksum(0, &packet);
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
    packet.extend_from_slice(payload);
    packet
}

fn ip6(next: u8, payload: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x60, 0, 0, 0, 0, 0, next, 64];
    packet[4..6].copy_from_slice(&(payload.len() as u16).to_be_bytes());
    packet.extend(std::net::Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1).octets());
    packet.extend(std::net::Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 2).octets());
    packet.extend_from_slice(payload);
    packet
}

/// What of UDP is read, and so many bytes more.
fn udp(from: u16, to: u16, more: usize) -> Vec<u8> {
    let mut bytes = [from.to_be_bytes(), to.to_be_bytes()].concat();
    bytes.extend(((8 + more) as u16).to_be_bytes());
    bytes.extend(vec![0xab; 2 + more]);
    bytes
}

/// A server with VIF 1 at interface 1, VIF 3 at another, and VIF 2 at a far edge switch.
fn server() -> Option<(PinDir, HostPlane)> {
    let pins = PinDir::new()?;
    let mut plane = HostPlane::load(&HostSettings::default(), &pins.0).unwrap();
    plane.set_uplink(HERE, HARDWARE, 1600, Some(place(OWN_SWITCH, 4))).unwrap();
    plane.set_vif(HERE, vif(1), Some(HERE)).unwrap();
    plane.set_local(vif(1), Some(HERE)).unwrap();
    plane.set_local(vif(3), Some(THERE)).unwrap();
    plane.set_remote(vif(2), Some(place(FAR_SWITCH, 9))).unwrap();
    plane.set_paths(HERE, FAR_SWITCH, &VLANS.map(vlan)).unwrap();
    Some((pins, plane))
}

const VLANS: [u16; 5] = [1, 2, 3, 5, 4000];

/// Names and amounts of counters that changed.
type Counted = Vec<(&'static str, u64)>;

/// Verdict and frame afterwards, and what was counted.
type Ran = ((i32, Vec<u8>), Counted);

/// What was counted between two readings.
fn counted<T>(before: &Named, after: &Named, result: T) -> (T, Counted) {
    let changed = before.iter().zip(after.iter()).filter(|(b, a)| a.2 > b.2).map(|(b, a)| (a.0, a.2 - b.2));
    (result, changed.collect())
}

fn names_in(header: &str, list: &str) -> Vec<String> {
    let list = header.split(&format!("enum {list} {{")).nth(1).unwrap().split('}').next().unwrap();
    list.split(',').map(|name| name.trim().to_lowercase()).filter(|name| !name.is_empty()).collect()
}

#[test]
fn counters_have_the_names_and_the_order_of_the_programs() {
    let header = include_str!("../../../../bpf/netlord/layout.h");
    let check = |list: &str, ours: &[Name]| {
        let mut names: Vec<String> = ours.iter().map(|(name, _)| format!("netlord_{name}")).collect();
        names.push(format!("{list}s"));
        assert_eq!(names_in(header, list), names);
    };
    check("netlord_host_counter", HOST_COUNTERS);
    check("netlord_switch_counter", SWITCH_COUNTERS);
}

#[test]
fn the_table_of_learned_addresses_has_the_size_of_the_settings() {
    let Some(pins) = PinDir::new() else { return };
    let settings = SwitchSettings { mac: None, fib_entries: 77, ageing: std::time::Duration::from_secs(1), learn: None };
    let switch = SwitchPlane::attach(&settings, &[], &pins.0).unwrap();
    assert_eq!(switch.fib().unwrap().1, 77);
}
