//! ICMP for the senders of inner packets: "too big", and what the fabric said of a packet's outer headers, turned into the inner one.
//!
//! ```text
//!   from a router:  [IP router -> entropy][ICMP error][IP entropy -> anycast][IP entropy -> locator][inner header ..
//!   to the sender:  [IP router -> inner source][ICMP error][inner header ..
//! ```
//! An MTU that a router states loses the outer headers that its quotation still has.

use std::net::{IpAddr, Ipv4Addr};

use ipnet::Ipv4Net;
use weft_fabric::MacAddr;

use super::{Flow, OUTER_HEADER, VIRTUAL_MAC};
use crate::dataplane::bytes::array;
use crate::dataplane::offload::{fold, words};

const ICMP: u8 = 1;
const ICMPV6: u8 = 58;
const OUTER: usize = OUTER_HEADER as usize;
const IN_IPV4: u8 = 4;
const IN_IPV6: u8 = 41;

const UNREACHABLE: u8 = 3;
const HOST: u8 = 1;
const FRAGMENTATION_NEEDED: u8 = 4;
const UNREACHABLE6: u8 = 1;
const ADDRESS6: u8 = 3;
const TOO_BIG6: u8 = 2;

/// Bytes of the packet that an error quotes (RFC 1812, section 4.3.2.3; RFC 4443, section 2.4).
const QUOTED4: usize = 576 - 28;
const QUOTED6: usize = 1280 - 48;

/// What the sender of an inner packet is to learn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum IcmpProblem {
    /// Its packet does not fit; so much does.
    TooBig(u16),
    /// It does not get there (for now).
    Unreachable,
}

/// The frame with the ICMP error for the sender of `inner` (an IP packet, perhaps only its beginning). `from` is the router that reported it, if it has an
/// address of the same version. None if the packet is cut too short to be recognised, or must not be answered.
pub(super) fn icmp_error_to_sender(inner: &[u8], from: Option<Ipv4Addr>, problem: IcmpProblem, nic: MacAddr) -> Option<Vec<u8>> {
    let mut frame = [nic.0, VIRTUAL_MAC.0].concat();
    match inner.first()? >> 4 {
        4 => frame.extend(error4(inner, from, problem)?),
        6 => frame.extend(error6(inner, problem)?),
        _ => return None,
    }
    Some(frame)
}

fn error4(inner: &[u8], from: Option<Ipv4Addr>, problem: IcmpProblem) -> Option<Vec<u8>> {
    let header = header4(inner)?;
    // Eight bytes behind the header let the sender find its socket; and no errors about errors.
    let transport = inner.get(header..).filter(|t| t.len() >= 8)?;
    if inner[9] == ICMP && !matches!(transport[0], 0 | 8 | 13 | 14) {
        return None;
    }
    let (code, mtu) = match problem {
        IcmpProblem::TooBig(mtu) => (FRAGMENTATION_NEEDED, mtu),
        IcmpProblem::Unreachable => (HOST, 0),
    };
    let quoted = &inner[..inner.len().min(QUOTED4)];
    let mut message = vec![UNREACHABLE, code, 0, 0, 0, 0];
    message.extend(mtu.to_be_bytes());
    message.extend(quoted);
    let sum = !fold(words(&message));
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    let length = u16::try_from(20 + message.len()).ok()?;
    let mut ip = vec![0x45, 0xc0];
    ip.extend(length.to_be_bytes());
    ip.extend([0, 0, 0x40, 0, 64, ICMP, 0, 0]);
    ip.extend(from.map_or(array::<4>(inner, 16), |from| from.octets()));
    ip.extend(&inner[12..16]);
    let sum = !fold(words(&ip));
    ip[10..12].copy_from_slice(&sum.to_be_bytes());
    Some([&[0x08, 0x00], &ip[..], &message[..]].concat())
}

fn error6(inner: &[u8], problem: IcmpProblem) -> Option<Vec<u8>> {
    let transport = inner.get(40..).filter(|t| t.len() >= 8)?;
    if inner[6] == ICMPV6 && transport[0] < 128 {
        return None;
    }
    let (kind, code, mtu) = match problem {
        IcmpProblem::TooBig(mtu) => (TOO_BIG6, 0, mtu),
        IcmpProblem::Unreachable => (UNREACHABLE6, ADDRESS6, 0),
    };
    let mut message = vec![kind, code, 0, 0];
    message.extend(u32::from(mtu).to_be_bytes());
    message.extend(&inner[..inner.len().min(QUOTED6)]);
    let addresses = [&inner[24..40], &inner[8..24]].concat();
    let sum = !fold(words(&addresses) + message.len() as u64 + u64::from(ICMPV6) + words(&message));
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    let mut packet = vec![0x86, 0xdd, 0x60, 0, 0, 0];
    packet.extend(u16::try_from(message.len()).ok()?.to_be_bytes());
    packet.extend([ICMPV6, 64]);
    packet.extend(addresses);
    packet.extend(message);
    Some(packet)
}

/// An ICMP error of the fabric, understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FabricError<'a> {
    pub from: Ipv4Addr,
    pub kind: u8,
    pub code: u8,
    /// The largest inner packet, if that is what it says.
    pub mtu: Option<u16>,
    /// The outer source of the packet that it is about.
    pub outer_source: Ipv4Addr,
    /// The beginning of the inner packet, as far as it was quoted.
    pub inner: &'a [u8],
}

/// Reads an IPv4 packet with an ICMP error about a packet of ours; none if it is not.
pub(super) fn read(packet: &[u8], entropy: Ipv4Net) -> Option<FabricError<'_>> {
    let header = header4(packet)?;
    let message = packet.get(header..)?;
    let quoted = message.get(8..)?;
    if packet[9] != ICMP || header4(quoted)? != OUTER {
        return None;
    }
    let outer_source = Ipv4Addr::from(array::<4>(quoted, 12));
    if !entropy.contains(&outer_source) || !matches!(quoted[9], IN_IPV4 | IN_IPV6) {
        return None;
    }
    let (mut inner, mut headers) = (&quoted[OUTER..], OUTER_HEADER);
    let second = header4(inner) == Some(OUTER) && inner[12..16] == outer_source.octets() && matches!(inner[9], IN_IPV4 | IN_IPV6);
    if quoted[9] == IN_IPV4 && second {
        (inner, headers) = (&inner[OUTER..], 2 * OUTER_HEADER);
    }
    let stated = u16::from_be_bytes(array(message, 6));
    let small = message[0] == UNREACHABLE && message[1] == FRAGMENTATION_NEEDED;
    Some(FabricError {
        from: Ipv4Addr::from(array::<4>(packet, 12)),
        kind: message[0],
        code: message[1],
        mtu: small.then(|| stated.saturating_sub(headers)).filter(|&mtu| mtu >= 68),
        outer_source,
        inner,
    })
}

impl FabricError<'_> {
    /// The flow of the inner packet, if enough of it was quoted.
    pub fn flow(&self) -> Option<Flow> {
        flow_of(self.inner)
    }

    /// What its sender is to learn.
    pub fn problem(&self) -> IcmpProblem {
        self.mtu.map_or(IcmpProblem::Unreachable, IcmpProblem::TooBig)
    }
}

/// The five-tuple of a packet that may be cut short.
pub(super) fn flow_of(ip: &[u8]) -> Option<Flow> {
    let (source, destination, protocol, transport): (IpAddr, IpAddr, u8, usize) = match ip.first()? >> 4 {
        4 => {
            let header = header4(ip)?;
            (array::<4>(ip, 12).into(), array::<4>(ip, 16).into(), ip[9], header)
        }
        6 if ip.len() >= 40 => (array::<16>(ip, 8).into(), array::<16>(ip, 24).into(), ip[6], 40),
        _ => return None,
    };
    let mut flow = Flow { source, destination, protocol, source_port: 0, destination_port: 0 };
    if matches!(protocol, 6 | 17 | 33 | 132 | 136) {
        let ports = ip.get(transport..transport + 4)?;
        flow.source_port = u16::from_be_bytes(array(ports, 0));
        flow.destination_port = u16::from_be_bytes(array(ports, 2));
    }
    Some(flow)
}

/// Bytes of an IPv4 header, if it is whole.
fn header4(ip: &[u8]) -> Option<usize> {
    let length = usize::from(ip.first()? & 15) * 4;
    (ip[0] >> 4 == 4 && length >= 20 && ip.len() >= length).then_some(length)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ENTROPY: &str = "10.200.5.0/24";

    fn ip4(protocol: u8, source: [u8; 4], destination: [u8; 4], payload: &[u8]) -> Vec<u8> {
        let mut ip = vec![0x45, 0];
        ip.extend((20 + payload.len() as u16).to_be_bytes());
        ip.extend([0, 0, 0x40, 0, 64, protocol, 0, 0]);
        ip.extend(source);
        ip.extend(destination);
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
        ip4(1, [10, 9, 9, 9], [10, 200, 5, 77], &message)
    }

    #[test]
    fn a_report_about_the_outer_packet_becomes_one_about_the_inner() {
        for headers in [1, 2] {
            let packet = report(headers, 1500, 100);
            let error = read(&packet, ENTROPY.parse().unwrap()).unwrap();
            assert_eq!(error.mtu, Some(1500 - 20 * headers as u16));
            assert_eq!(error.flow().unwrap().to_string(), "20.0.0.1:4096 > 20.0.0.2:8192 protocol 6");
            let nic = MacAddr([2, 0, 0, 0, 0, 9]);
            let frame = icmp_error_to_sender(error.inner, Some(error.from), error.problem(), nic).unwrap();
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
        assert_eq!(icmp_error_to_sender(error.inner, None, error.problem(), MacAddr([0; 6])), None);
    }

    #[test]
    fn a_version_6_sender_learns_it_by_icmpv6() {
        let mut inner = vec![0x60, 0, 0, 0, 0, 8, 17, 64];
        inner.extend([0xfd; 16]);
        inner.extend([0xfe; 16]);
        inner.extend([1, 2, 3, 4, 0, 8, 0, 0]);
        let frame = icmp_error_to_sender(&inner, None, IcmpProblem::TooBig(1400), MacAddr([0; 6])).unwrap();
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
                let _ = (error.flow(), icmp_error_to_sender(error.inner, Some(error.from), error.problem(), MacAddr([0; 6])));
            }
            let _ = icmp_error_to_sender(&packet, None, IcmpProblem::Unreachable, MacAddr([0; 6]));
        }
    }
}
