//! Packets, and what the programs should make of them, computed plainly.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use weft_control::directory::key::{GroupId, ServiceId};
use weft_control::wire::packet::ip::Packet;
use weft_fabric::MacAddr;

use super::super::hash::{anycast, hash_flow, outer_source};
use super::super::{Flow, HostSettings, Local, Peer, PeerKey, PeerState, Refusal, layout};
use crate::dataplane::bytes::be;
use crate::dataplane::load::Loaded;
use crate::dataplane::offload::{fold, words};

pub const NIC: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
pub const GATEWAY: MacAddr = MacAddr([2, 0, 0, 0, 0, 0xfe]);
pub const PEER_MAC: MacAddr = MacAddr([2, 0xaa, 0, 0, 0, 5]);
pub const LA: Ipv4Addr = Ipv4Addr::new(10, 1, 1, 5);
pub const TOR: Ipv4Addr = Ipv4Addr::new(10, 255, 1, 1);
pub const FAR_TOR: Ipv4Addr = Ipv4Addr::new(10, 255, 2, 1);
pub const ANYCAST: [Ipv4Addr; 3] = [Ipv4Addr::new(10, 254, 0, 1), Ipv4Addr::new(10, 254, 0, 2), Ipv4Addr::new(10, 254, 0, 3)];
pub const SERVICE_GROUP: Ipv4Addr = Ipv4Addr::new(239, 1, 0, 9);
/// Own AAs, a peer over intermediate switches, a peer behind the own ToR, a forbidden one, an unknown one, one never heard of.
pub const OWN: Ipv4Addr = Ipv4Addr::new(20, 0, 0, 1);
pub const FAR: Ipv4Addr = Ipv4Addr::new(20, 0, 0, 2);
pub const NEAR: Ipv4Addr = Ipv4Addr::new(20, 0, 0, 3);
pub const FORBIDDEN: Ipv4Addr = Ipv4Addr::new(20, 0, 0, 4);
pub const UNKNOWN: Ipv4Addr = Ipv4Addr::new(20, 0, 0, 5);
pub const STRANGER: Ipv4Addr = Ipv4Addr::new(20, 0, 0, 99);
pub const EXTERNAL: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);

/// The five-tuple of a packet.
pub fn flow_of(ip: &[u8]) -> Option<Flow> {
    Packet::cut(ip).ok().map(|packet| packet.flow())
}

/// The same, IPv6.
pub const fn v6(ip: Ipv4Addr) -> Ipv6Addr {
    let host = ip.octets()[3] as u16;
    Ipv6Addr::new(0xfd20, 0, 0, 0, 0, 0, 0, host)
}

pub fn settings() -> HostSettings {
    let mut settings = HostSettings::new(LA, "10.200.5.0/24".parse().unwrap());
    settings.tor = Some(TOR);
    settings.aa4 = Some("20.0.0.0/8".parse().unwrap());
    settings.aa6 = Some("fd20::/64".parse().unwrap());
    settings.gateway = GATEWAY;
    settings.limits.peers = 64;
    settings.limits.flows = 1024;
    settings.limits.event_bytes = 1 << 16;
    settings
}

/// Programs of a host that knows the addresses above.
pub fn host(pins: &super::PinDir, settings: &HostSettings) -> Loaded {
    let loaded = super::super::host::load(settings, &pins.0).unwrap();
    loaded.table(&layout::SETTINGS).set(&0, &layout::host_settings(settings, NIC, ServiceId(9)).unwrap()).unwrap();
    loaded.table(&layout::GROUPS).set(&1, &layout::group(GroupId(1), &ANYCAST).unwrap()).unwrap();
    loaded.table(&layout::MULTICASTS).set(&be(SERVICE_GROUP), &9).unwrap();
    let peer = |locator| PeerState::Known(Peer { locator, group: GroupId(1), mac: Some(PEER_MAC) });
    let peers = [
        (FAR, peer(FAR_TOR)),
        (NEAR, peer(TOR)),
        (FORBIDDEN, PeerState::Refused(Refusal::Forbidden)),
        (UNKNOWN, PeerState::Refused(Refusal::Unknown)),
    ];
    for (aa, state) in peers {
        for address in [aa.into(), v6(aa).into()] {
            let key = layout::peer_key(PeerKey { service: ServiceId(9), address });
            loaded.table(&layout::PEERS).set(&key, &layout::peer(&state, false)).unwrap();
        }
    }
    let local = layout::local(&Local { service: ServiceId(9), multicast: Some(SERVICE_GROUP) });
    for address in [OWN.into(), v6(OWN).into()] {
        loaded.table(&layout::LOCALS).set(&layout::key(address), &local).unwrap();
    }
    loaded
}

pub fn ethernet(to: MacAddr, from: MacAddr, kind: u16, payload: &[u8]) -> Vec<u8> {
    [&to.0[..], &from.0, &kind.to_be_bytes(), payload].concat()
}

/// An IPv4 packet with options, flags and fragment offset as given.
pub fn ip4_with(from: Ipv4Addr, to: Ipv4Addr, protocol: u8, ttl: u8, options: &[u8], fragment: u16, payload: &[u8]) -> Vec<u8> {
    let header = 20 + options.len();
    let mut ip = vec![0x40 | (header / 4) as u8, 0x02];
    ip.extend(((header + payload.len()) as u16).to_be_bytes());
    ip.extend([0x12, 0x34]);
    ip.extend(fragment.to_be_bytes());
    ip.extend([ttl, protocol, 0, 0]);
    ip.extend(from.octets());
    ip.extend(to.octets());
    ip.extend(options);
    let sum = !fold(words(&ip));
    ip[10..12].copy_from_slice(&sum.to_be_bytes());
    ip.extend(payload);
    ip
}

pub fn ip4(from: Ipv4Addr, to: Ipv4Addr, protocol: u8, payload: &[u8]) -> Vec<u8> {
    ip4_with(from, to, protocol, 64, &[], 0x4000, payload)
}

pub fn ip6(from: Ipv6Addr, to: Ipv6Addr, protocol: u8, payload: &[u8]) -> Vec<u8> {
    let mut ip = vec![0x60, 0x20, 0, 0];
    ip.extend((payload.len() as u16).to_be_bytes());
    ip.extend([protocol, 64]);
    ip.extend(from.octets());
    ip.extend(to.octets());
    ip.extend(payload);
    ip
}

/// A TCP header between ports 4660 and 80, and so many bytes.
pub fn tcp(bytes: usize) -> Vec<u8> {
    let mut segment = vec![0x12, 0x34, 0, 80, 0, 0, 0, 1, 0, 0, 0, 1, 0x50, 0x10, 0xff, 0xff, 0, 0, 0, 0];
    segment.extend((0..bytes).map(|i| i as u8));
    segment
}

/// A datagram of DHCP between two ports.
pub fn dhcp(from: u16, to: u16) -> Vec<u8> {
    let header = [from, to, 308, 0].into_iter().flat_map(|word| word.to_be_bytes());
    header.chain((0..300).map(|i| i as u8)).collect()
}

/// What an address sends that is nearly DHCP for the relay of its ToR: other ports and protocols, what is cut up, other locators.
pub fn not_for_the_relay() -> Vec<Vec<u8>> {
    let mapped: Ipv6Addr = format!("2001:db8::{TOR}").parse().unwrap();
    vec![
        ip4(OWN, TOR, 17, &dhcp(68, 68)),
        ip4(OWN, TOR, 17, &dhcp(1068, 67)),
        ip4(OWN, TOR, 17, &dhcp(68, 5304)),
        ip4(OWN, TOR, 6, &dhcp(68, 67)),
        ip4_with(OWN, TOR, 17, 9, &[], 0x2000, &dhcp(68, 67)),
        ip4_with(OWN, TOR, 17, 9, &[], 7, &dhcp(68, 67)),
        ip4(OWN, FAR_TOR, 17, &dhcp(68, 67)),
        ip4(OWN, LA, 17, &dhcp(68, 67)),
        ip6(v6(OWN), mapped, 17, &dhcp(68, 67)),
    ]
}

/// From the stack to an AA: the Ethernet destination is what ARP said.
pub fn from_stack(ip: &[u8]) -> Vec<u8> {
    ethernet(PEER_MAC, NIC, if ip[0] >> 4 == 4 { 0x0800 } else { 0x86dd }, ip)
}

/// From the wire.
pub fn from_wire(ip: &[u8]) -> Vec<u8> {
    ethernet(NIC, GATEWAY, if ip[0] >> 4 == 4 { 0x0800 } else { 0x86dd }, ip)
}

/// An outer header as the host writes it: DF, id 0, TTL 64, the inner's traffic class.
pub fn outer(from: Ipv4Addr, to: Ipv4Addr, payload: &[u8]) -> Vec<u8> {
    let (class, protocol) = match payload[0] >> 4 {
        4 => (payload[1], 4),
        _ => (payload[0] << 4 | payload[1] >> 4, 41),
    };
    let mut ip = vec![0x45, class];
    ip.extend(((20 + payload.len()) as u16).to_be_bytes());
    ip.extend([0, 0, 0x40, 0, 64, protocol, 0, 0]);
    ip.extend(from.octets());
    ip.extend(to.octets());
    let sum = !fold(words(&ip));
    ip[10..12].copy_from_slice(&sum.to_be_bytes());
    ip.extend(payload);
    ip
}

/// What a frame of the stack to a known peer leaves as, if the agent salted its flow so.
pub fn pushed(inner: &[u8], salt: u32) -> Vec<u8> {
    let flow = flow_of(inner).unwrap();
    pushed_as(inner, hash_flow(&flow, salt), flow.destination)
}

/// The same with the hash given, which for later fragments is that of the first.
pub fn pushed_as(inner: &[u8], hash: u32, destination: IpAddr) -> Vec<u8> {
    let source = outer_source("10.200.5.0/24".parse().unwrap(), hash);
    let near = [IpAddr::from(NEAR), IpAddr::from(v6(NEAR))].contains(&destination);
    let packet = if near {
        outer(source, TOR, inner)
    } else {
        outer(source, ANYCAST[anycast(hash, ANYCAST.len())], &outer(source, FAR_TOR, inner))
    };
    ethernet(GATEWAY, NIC, 0x0800, &packet)
}

/// An ARP packet for Ethernet and IPv4.
pub fn arp(operation: u16, sender: (MacAddr, Ipv4Addr), target: (MacAddr, Ipv4Addr)) -> Vec<u8> {
    let mut arp = vec![0, 1, 8, 0, 6, 4];
    arp.extend(operation.to_be_bytes());
    for (mac, ip) in [sender, target] {
        arp.extend(mac.0);
        arp.extend(ip.octets());
    }
    let to = if operation == 1 { MacAddr([0xff; 6]) } else { target.0 };
    ethernet(to, sender.0, 0x0806, &arp)
}

/// A neighbour solicitation, or the advertisement that answers it.
pub fn ndp(kind: u8, from: Ipv6Addr, to: Ipv6Addr, target: Ipv6Addr, mac: MacAddr, ethernet_to: MacAddr) -> Vec<u8> {
    let advertises = kind == 136;
    let mut message = vec![kind, 0, 0, 0, if advertises { 0x60 } else { 0 }, 0, 0, 0];
    message.extend(target.octets());
    message.extend([if advertises { 2 } else { 1 }, 1]);
    message.extend(mac.0);
    let addresses = [from.octets(), to.octets()].concat();
    let sum = !fold(words(&addresses) + message.len() as u64 + 58 + words(&message));
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    let mut packet = ip6(from, to, 58, &message);
    packet[0..2].copy_from_slice(&[0x60, 0]);
    packet[7] = 255;
    ethernet(ethernet_to, mac, 0x86dd, &packet)
}
