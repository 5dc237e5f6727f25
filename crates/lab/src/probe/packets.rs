//! The few packets that probes send and read: ICMP echoes (RFC 792), TCP segments that open a connection (RFC 9293), and what ICMP errors
//! quote.

use std::net::Ipv4Addr;

/// An echo reply's identifier and sequence number.
pub(super) struct EchoReply {
    pub(super) from: Ipv4Addr,
    pub(super) id: u16,
    pub(super) sequence: u16,
}

/// An ICMP error, and the flow of the packet that it quotes.
pub(super) struct IcmpError {
    pub(super) from: Ipv4Addr,
    pub(super) protocol: u8,
    pub(super) to: Ipv4Addr,
    pub(super) ports: [u16; 2],
}

/// An echo request with `payload` bytes of data.
pub(super) fn echo_request(id: u16, sequence: u16, payload: usize) -> Vec<u8> {
    let mut packet = vec![0u8; 8 + payload];
    packet[0] = ECHO_REQUEST;
    packet[4..6].copy_from_slice(&id.to_be_bytes());
    packet[6..8].copy_from_slice(&sequence.to_be_bytes());
    let sum = checksum(0, &packet);
    packet[2..4].copy_from_slice(&sum.to_be_bytes());
    packet
}

/// A segment with SYN and nothing else.
pub(super) fn syn(from: Ipv4Addr, to: Ipv4Addr, ports: [u16; 2]) -> Vec<u8> {
    let mut segment = vec![0u8; 20];
    segment[0..2].copy_from_slice(&ports[0].to_be_bytes());
    segment[2..4].copy_from_slice(&ports[1].to_be_bytes());
    segment[12] = 5 << 4;
    segment[13] = 0x02;
    segment[14..16].copy_from_slice(&u16::MAX.to_be_bytes());
    let pseudo: u32 = [from.octets(), to.octets()].concat().chunks(2).map(|w| u32::from(u16::from_be_bytes([w[0], w[1]]))).sum();
    let sum = checksum(pseudo + u32::from(TCP) + 20, &segment);
    segment[16..18].copy_from_slice(&sum.to_be_bytes());
    segment
}

/// An echo reply, with its IP header as raw sockets give it.
pub(super) fn read_echo_reply(packet: &[u8]) -> Option<EchoReply> {
    let (from, body) = read_ip(packet, ICMP)?;
    let &[ECHO_REPLY, 0, _, _, i, j, s, t, ..] = body else { return None };
    Some(EchoReply { from, id: u16::from_be_bytes([i, j]), sequence: u16::from_be_bytes([s, t]) })
}

/// "Time exceeded" or "destination unreachable", with its IP header.
pub(super) fn read_error(packet: &[u8]) -> Option<IcmpError> {
    let (from, body) = read_ip(packet, ICMP)?;
    if !matches!(body.first(), Some(&(TIME_EXCEEDED | UNREACHABLE))) {
        return None;
    }
    let quoted = body.get(8..)?;
    let protocol = *quoted.get(9)?;
    let to = Ipv4Addr::from(<[u8; 4]>::try_from(quoted.get(16..20)?).ok()?);
    let ports = read_ports(quoted.get(usize::from(quoted[0] & 15) * 4..)?)?;
    Some(IcmpError { from, protocol, to, ports })
}

/// Sender and ports of a TCP segment, with its IP header.
pub(super) fn read_segment(packet: &[u8]) -> Option<(Ipv4Addr, [u16; 2])> {
    let (from, body) = read_ip(packet, TCP)?;
    Some((from, read_ports(body)?))
}

fn read_ip(packet: &[u8], protocol: u8) -> Option<(Ipv4Addr, &[u8])> {
    let from = Ipv4Addr::from(<[u8; 4]>::try_from(packet.get(12..16)?).ok()?);
    let body = packet.get(usize::from(packet[0] & 15) * 4..)?;
    (packet[0] >> 4 == 4 && packet[9] == protocol).then_some((from, body))
}

fn read_ports(body: &[u8]) -> Option<[u16; 2]> {
    let &[a, b, c, d, ..] = body else { return None };
    Some([u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])])
}

/// The Internet checksum (RFC 1071) of bytes of even number, and of what was summed before.
fn checksum(before: u32, bytes: &[u8]) -> u16 {
    let words = bytes.chunks(2).map(|w| u32::from(u16::from_be_bytes([w[0], w.get(1).copied().unwrap_or(0)])));
    let mut sum = before + words.sum::<u32>();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

pub(super) const TCP: u8 = 6;
pub(super) const UDP: u8 = 17;
const ICMP: u8 = 1;
const ECHO_REPLY: u8 = 0;
const UNREACHABLE: u8 = 3;
const ECHO_REQUEST: u8 = 8;
const TIME_EXCEEDED: u8 = 11;

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(protocol: u8, from: [u8; 4], to: [u8; 4], body: &[u8]) -> Vec<u8> {
        let mut packet = vec![0x45, 0, 0, 0, 0, 0, 0, 0, 64, protocol, 0, 0];
        packet.extend(from);
        packet.extend(to);
        packet.extend(body);
        packet
    }

    #[test]
    fn checksums_are_those_of_the_rfc() {
        // RFC 1071, section 3: the sum of these words is ddf2.
        assert_eq!(checksum(0, &[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]), !0xddf2);
        let request = echo_request(7, 9, 56);
        assert_eq!(checksum(0, &request), 0, "a packet with its checksum sums up to nothing");
    }

    #[test]
    fn what_is_sent_is_read_back() {
        let mut reply = echo_request(7, 9, 0);
        reply[0] = ECHO_REPLY;
        let read = read_echo_reply(&ip(ICMP, [10, 0, 0, 1], [10, 0, 0, 2], &reply)).expect("a reply");
        assert_eq!((read.from, read.id, read.sequence), (Ipv4Addr::new(10, 0, 0, 1), 7, 9));
        let (a, b) = (Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2));
        let probe = ip(TCP, a.octets(), b.octets(), &syn(a, b, [1000, 80]));
        assert_eq!(read_segment(&probe), Some((a, [1000, 80])));
        let error = [&[TIME_EXCEEDED, 0, 0, 0, 0, 0, 0, 0][..], &probe].concat();
        let read = read_error(&ip(ICMP, [172, 16, 0, 1], a.octets(), &error)).expect("an error");
        assert_eq!((read.protocol, read.to, read.ports), (TCP, b, [1000, 80]));
    }

    #[test]
    fn what_is_cut_off_is_no_packet() {
        let (a, b) = (Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2));
        let probe = ip(UDP, a.octets(), b.octets(), &[0; 8]);
        let error = ip(ICMP, b.octets(), a.octets(), &[&[UNREACHABLE, 3, 0, 0, 0, 0, 0, 0][..], &probe].concat());
        for cut in 0..error.len() - 4 {
            assert!(read_error(&error[..cut]).is_none(), "{cut}");
            assert!(read_echo_reply(&error[..cut]).is_none() && read_segment(&error[..cut]).is_none());
        }
        assert!(read_error(&error).is_some());
    }
}
