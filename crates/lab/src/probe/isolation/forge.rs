//! The packets of an adversary: IP and UDP as plainly as can be, with whatever addresses.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use weft_control::wire::packet::ip::{IPIP, IPV6, UDP};

/// The port that all hosts listen at, and the first bytes of what is sent there.
pub(super) const PORT: u16 = 7101;
pub(super) const MARK: &[u8; 16] = b"not for you :-) ";
/// Packets of each kind, and the interval between them.
pub(super) const PACKETS: u64 = 20;
pub(super) const BETWEEN: Duration = Duration::from_millis(2);

/// A marked datagram between two addresses of one family.
pub(super) fn datagram(source: IpAddr, destination: IpAddr) -> Vec<u8> {
    let udp = udp(SocketAddr::new(source, 5000), SocketAddr::new(destination, PORT));
    match (source, destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => ip4(source, destination, UDP, 0, &udp),
        (IpAddr::V6(source), IpAddr::V6(destination)) => ip6(source, destination, UDP, &udp),
        _ => unreachable!("the callers give two addresses of one family"),
    }
}

/// A packet within an IPv4 header.
pub(super) fn tunnelled(source: Ipv4Addr, destination: Ipv4Addr, inner: &[u8]) -> Vec<u8> {
    ip4(source, destination, if inner[0] >> 4 == 4 { IPIP } else { IPV6 }, 0x4000, inner)
}

/// An IPv4 packet with flags and fragment offset as given.
pub(super) fn ip4(source: Ipv4Addr, destination: Ipv4Addr, protocol: u8, fragment: u16, payload: &[u8]) -> Vec<u8> {
    let length = (20 + payload.len()) as u16;
    let mut packet = vec![0x45, 0];
    packet.extend(length.to_be_bytes());
    packet.extend([0x57, 0x46]);
    packet.extend(fragment.to_be_bytes());
    packet.extend([64, protocol, 0, 0]);
    packet.extend(source.octets());
    packet.extend(destination.octets());
    let sum = checksum(&[&packet]);
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
    packet.extend(payload);
    packet
}

fn ip6(source: Ipv6Addr, destination: Ipv6Addr, protocol: u8, payload: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x60, 0, 0, 0];
    packet.extend((payload.len() as u16).to_be_bytes());
    packet.extend([protocol, 64]);
    packet.extend(source.octets());
    packet.extend(destination.octets());
    packet.extend(payload);
    packet
}

fn udp(source: SocketAddr, destination: SocketAddr) -> Vec<u8> {
    let length = (8 + MARK.len()) as u16;
    let mut datagram = Vec::new();
    for field in [source.port(), destination.port(), length, 0] {
        datagram.extend(field.to_be_bytes());
    }
    datagram.extend(MARK);
    let octets = |ip: IpAddr| match ip {
        IpAddr::V4(it) => it.octets().to_vec(),
        IpAddr::V6(it) => it.octets().to_vec(),
    };
    let pseudo = [octets(source.ip()), octets(destination.ip()), vec![0, UDP], length.to_be_bytes().to_vec()].concat();
    // Zero means that there is none.
    let sum = match checksum(&[&pseudo, &datagram]) {
        0 => 0xffff,
        sum => sum,
    };
    datagram[6..8].copy_from_slice(&sum.to_be_bytes());
    datagram
}

/// The Internet checksum (RFC 1071) of parts of even length.
fn checksum(parts: &[&[u8]]) -> u16 {
    let words = parts.iter().flat_map(|part| part.chunks(2)).map(|word| u32::from(u16::from_be_bytes([word[0], word[1]])));
    let mut sum: u32 = words.sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}
