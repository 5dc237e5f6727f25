//! ICMP for the senders of inner packets: "too big", and what the fabric said of a packet's outer headers, turned into the inner one.
//!
//! ```text
//!   from a router:  [IP router -> entropy][ICMP error][IP entropy -> anycast][IP entropy -> locator][inner header ..
//!   to the sender:  [IP router -> inner source][ICMP error][inner header ..
//! ```
//! An MTU that a router states loses the outer headers that its quotation still has.

use std::net::{IpAddr, Ipv4Addr};

use ipnet::Ipv4Net;
use weft_control::wire::packet::ethernet::{EtherType, Ethernet};
use weft_control::wire::packet::ip::Packet;
use weft_control::wire::vl2::icmp::{IcmpError, Packet as IcmpPacket, Problem};
use weft_control::wire::vl2::ipip::Tunnel;
use weft_fabric::MacAddr;

use super::{Flow, VIRTUAL_MAC};

/// The frame with the ICMP error for the sender of `inner` (an IP packet, perhaps only its beginning), which has that MAC address. `teller` says so, if the
/// packet is of its version: else its receiver does. None if the packet is cut too short to be recognised, or must not be answered.
pub fn icmp_error_to_sender(inner: &[u8], teller: Option<Ipv4Addr>, problem: Problem, sender: MacAddr) -> Option<Vec<u8>> {
    let packet = Packet::cut(inner).ok()?;
    let teller = teller.filter(|_| !packet.is_v6()).map_or(packet.destination(), IpAddr::V4);
    let ethertype = EtherType(if packet.is_v6() { 0x86dd } else { 0x0800 });
    let mut frame = Vec::with_capacity(600);
    Ethernet { dst: sender, src: VIRTUAL_MAC, tag: None, ethertype, payload: &[] }.emit(&mut frame);
    IcmpError { teller, problem, about: inner }.emit(&mut frame).ok()?;
    Some(frame)
}

/// An ICMP error of the fabric, understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FabricError<'a> {
    pub from: Ipv4Addr,
    /// What went wrong with the outer packet; the MTU is that of the inner one.
    pub problem: Problem,
    /// The outer source of the packet that it is about.
    pub outer_source: Ipv4Addr,
    /// The beginning of the inner packet, as far as it was quoted.
    pub inner: &'a [u8],
}

/// Reads an IPv4 packet with an ICMP error about a packet of ours; none if it is not.
pub(super) fn read(packet: &[u8], entropy: Ipv4Net) -> Option<FabricError<'_>> {
    let error = IcmpPacket::new(packet).ok()?;
    let (tunnel, inner) = Tunnel::strip(error.quoted()).ok().filter(|(tunnel, _)| entropy.contains(&tunnel.source))?;
    let problem = match error.problem() {
        // A router that states none, or nonsense, did not learn RFC 1191.
        Problem::TooBig { mtu } => match mtu.saturating_sub(tunnel.overhead() as u16) {
            mtu @ 68.. => Problem::TooBig { mtu },
            _ => Problem::HostUnreachable,
        },
        other => other,
    };
    Some(FabricError { from: error.teller(), problem, outer_source: tunnel.source, inner })
}

impl FabricError<'_> {
    /// The flow of the inner packet, if enough of it was quoted.
    pub fn flow(&self) -> Option<Flow> {
        let packet = Packet::cut(self.inner).ok()?;
        (packet.payload().len() >= 4).then(|| packet.flow())
    }

    /// What its sender is to learn (RFC 2003, section 4): whether it fits, or that it does not get there.
    pub const fn problem_of_inner(&self) -> Problem {
        match self.problem {
            Problem::TooBig { .. } => self.problem,
            _ => Problem::HostUnreachable,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::dataplane::offload::{fold, words};

    const ENTROPY: &str = "10.200.5.0/24";

    fn ip4(protocol: u8, source: [u8; 4], destination: [u8; 4], payload: &[u8]) -> Vec<u8> {
        let mut ip = vec![0x45, 0];
        ip.extend((20 + payload.len() as u16).to_be_bytes());
        ip.extend([0, 0, 0x40, 0, 64, protocol, 0, 0]);
        ip.extend(source);
        ip.extend(destination);
        let sum = !fold(words(&ip));
        ip[10..12].copy_from_slice(&sum.to_be_bytes());
        ip.extend(payload);
        ip
    }

    /// Frag-needed of 10.9.9.9, for a packet with so many outer headers, quoted up to `quote` bytes.
    fn report(headers: usize, mtu: u16, quote: usize) -> Vec<u8> {
        let mut packet = ip4(6, [20, 0, 0, 1], [20, 0, 0, 2], &[0x10, 0, 0x20, 0, 0, 0, 0, 1, 0, 0]);
        for _ in 0..headers {
            packet = ip4(4, [10, 200, 5, 77], [10, 1, 1, 1], &packet);
        }
        packet.truncate(quote);
        let mut message = vec![3, 4, 0, 0, 0, 0];
        message.extend(mtu.to_be_bytes());
        message.extend(packet);
        let sum = !fold(words(&message));
        message[2..4].copy_from_slice(&sum.to_be_bytes());
        ip4(1, [10, 9, 9, 9], [10, 200, 5, 77], &message)
    }

    #[test]
    fn a_report_about_the_outer_packet_becomes_one_about_the_inner() {
        for headers in [1, 2] {
            let packet = report(headers, 1500, 100);
            let error = read(&packet, ENTROPY.parse().unwrap()).unwrap();
            assert_eq!(error.problem, Problem::TooBig { mtu: 1500 - 20 * headers as u16 });
            assert_eq!(error.flow().unwrap().to_string(), "20.0.0.1:4096 > 20.0.0.2:8192 protocol 6");
            let nic = MacAddr([2, 0, 0, 0, 0, 9]);
            let frame = icmp_error_to_sender(error.inner, Some(error.from), error.problem_of_inner(), nic).unwrap();
            assert_eq!(frame[..6], nic.0);
            let ip = &frame[14..];
            assert_eq!((ip[9], &ip[12..16], &ip[16..20]), (1, &[10, 9, 9, 9][..], &[20, 0, 0, 1][..]));
            assert_eq!(fold(words(&ip[..20])), 0xffff);
            assert_eq!(fold(words(&ip[20..])), 0xffff);
            assert_eq!(ip[20..22], [3, 4]);
            assert_eq!(ip[26..28], (1500 - 20 * headers as u16).to_be_bytes());
        }
    }

    #[test]
    fn a_short_quotation_names_the_outer_source_only() {
        let packet = report(2, 1500, 28);
        let error = read(&packet, ENTROPY.parse().unwrap()).unwrap();
        assert_eq!(error.outer_source, Ipv4Addr::new(10, 200, 5, 77));
        assert_eq!(error.flow(), None);
        assert_eq!(icmp_error_to_sender(error.inner, None, error.problem_of_inner(), MacAddr([0; 6])), None);
    }

    #[test]
    fn a_version_6_sender_learns_it_by_icmpv6() {
        let mut inner = vec![0x60, 0, 0, 0, 0, 8, 17, 64];
        inner.extend([0xfd; 16]);
        inner.extend([0xfe; 16]);
        inner.extend([1, 2, 3, 4, 0, 8, 0, 0]);
        let frame = icmp_error_to_sender(&inner, None, Problem::TooBig { mtu: 1400 }, MacAddr([0; 6])).unwrap();
        let ip = &frame[14..];
        assert_eq!((ip[6], ip[40], ip[44..48].to_vec()), (58, 2, vec![0, 0, 5, 120]));
        assert_eq!((&ip[8..24], &ip[24..40]), (&[0xfe; 16][..], &[0xfd; 16][..]));
        assert_eq!(fold(words(&ip[8..40]) + (ip.len() - 40) as u64 + 58 + words(&ip[40..])), 0xffff);
    }

    proptest! {
        #[test]
        fn no_bytes_upset_it(mut packet in proptest::collection::vec(any::<u8>(), 0..200), like in any::<bool>(), cut in 0usize..120) {
            if like {
                packet = report(2, 1400, cut);
            }
            if let Some(error) = read(&packet, ENTROPY.parse().unwrap()) {
                let _ = (error.flow(), icmp_error_to_sender(error.inner, Some(error.from), error.problem_of_inner(), MacAddr([0; 6])));
            }
            let _ = icmp_error_to_sender(&packet, None, Problem::HostUnreachable, MacAddr([0; 6]));
        }
    }
}
