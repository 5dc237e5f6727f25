//! What a run can be asked to show: queues and windows over time, and the packets of one port as a pcap file.
//!
//! pcap: `24 bytes of file header, then for each packet 16 bytes (seconds, nanoseconds, captured, on the wire) and its first bytes`, here
//! those of Ethernet, IPv4 and TCP or UDP. Hosts are 10.x.y.z and 02:00:0a:x:y:z by number.

use weft_fabric::routing::FlowKey;
use weft_fabric::{FlowId, Instant, LinkId};

use super::packets::{CE, ECT, Kind, Packet};

/// What to record.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trace {
    /// In picoseconds, from one look to the next.
    pub every: weft_fabric::Duration,
    /// Queues to look at.
    pub queues: Vec<LinkId>,
    /// Flows whose congestion window to look at.
    pub windows: Vec<FlowId>,
    /// A port whose packets are captured.
    pub port: Option<LinkId>,
    /// The most packets to capture.
    pub packets: usize,
}

impl Trace {
    /// Whether queues or windows are to be looked at.
    pub(super) fn is_periodic(&self) -> bool {
        self.every > weft_fabric::Duration::ZERO && !(self.queues.is_empty() && self.windows.is_empty())
    }
}

/// A connection as its packets show it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shown {
    pub key: FlowKey,
    pub mss: u16,
    /// What it sends in all; `u64::MAX` if that never ends, or if it is a part of what a flow sends.
    pub bytes: u64,
}

impl Shown {
    /// Bytes before a segment.
    fn before(&self, number: u32) -> u64 {
        (u64::from(number) * u64::from(self.mss)).min(self.bytes)
    }

    /// The sequence number of its first byte: the SYN has the first one.
    fn sequence(&self, number: u32) -> u32 {
        self.before(number).wrapping_add(1) as u32
    }
}

/// Writes a pcap file.
#[derive(Debug)]
pub(super) struct Capture {
    pub bytes: Vec<u8>,
    left: usize,
}

impl Capture {
    pub fn new(packets: usize) -> Self {
        let mut bytes = Vec::new();
        for word in [MAGIC_NANOSECONDS, 4 << 16 | 2, 0, 0, SNAP, LINK_ETHERNET] {
            bytes.extend_from_slice(&word.to_le_bytes());
        }
        Self { bytes, left: packets }
    }

    /// A packet has left the port.
    pub fn packet(&mut self, at: Instant, packet: &Packet, flow: &Shown) {
        if self.left == 0 {
            return;
        }
        self.left -= 1;
        let (frame, datagram) = frame(packet, flow);
        let ns = at.as_ps() / 1000;
        // Headers beyond those shown, as of a detour, are so many bytes after the packet.
        let on_wire = u32::from(packet.len.max(datagram)) + ETHERNET as u32;
        for word in [(ns / 1_000_000_000) as u32, (ns % 1_000_000_000) as u32, frame.len() as u32, on_wire] {
            self.bytes.extend_from_slice(&word.to_le_bytes());
        }
        self.bytes.extend_from_slice(&frame);
    }
}

/// The first bytes of a packet: Ethernet, IPv4 without options, TCP without options or UDP. And the length that IPv4 states.
fn frame(packet: &Packet, flow: &Shown) -> (Vec<u8>, u16) {
    let forward = matches!(packet.kind, Kind::Data | Kind::Syn | Kind::Response);
    let key = if forward { flow.key } else { flow.key.reverse() };
    let (from, to) = (key.src.0, key.dst.0);
    let datagram = match packet.kind {
        Kind::Request | Kind::Response => packet.len.max(IPV4 + UDP),
        Kind::Data => IPV4 + TCP + (flow.before(packet.number + 1) - flow.before(packet.number)) as u16,
        _ => IPV4 + TCP,
    };
    let udp = matches!(packet.kind, Kind::Request | Kind::Response);
    let mut f = Vec::with_capacity(54);
    for host in [to, from] {
        f.extend_from_slice(&[2, 0, 10]);
        f.extend_from_slice(&host.to_be_bytes()[1..]);
    }
    f.extend_from_slice(&[0x08, 0x00]);
    let ecn = match packet.flags & (ECT | CE) {
        0 => 0,
        ECT => 2,
        _ if packet.flags & ECT != 0 => 3,
        _ => 0,
    };
    let mut ip = vec![0x45, ecn];
    ip.extend_from_slice(&datagram.to_be_bytes());
    ip.extend_from_slice(&[0, 0, 0x40, 0, 64, if udp { 17 } else { 6 }, 0, 0]);
    for host in [from, to] {
        ip.push(10);
        ip.extend_from_slice(&host.to_be_bytes()[1..]);
    }
    let sum = checksum(&ip);
    ip[10..12].copy_from_slice(&sum.to_be_bytes());
    f.extend_from_slice(&ip);
    for port in [key.sport, key.dport] {
        f.extend_from_slice(&port.to_be_bytes());
    }
    if udp {
        f.extend_from_slice(&(datagram - IPV4).to_be_bytes());
        f.extend_from_slice(&[0, 0]);
        return (f, datagram);
    }
    let number = flow.sequence(packet.number);
    let (seq, ack, flags) = match packet.kind {
        Kind::Syn => (0, 0, 0x02),
        Kind::SynAck => (0, 1, 0x12),
        Kind::Data => (number, 1, 0x10),
        _ => (1, number, if packet.flags & CE != 0 { 0x50 } else { 0x10 }),
    };
    f.extend_from_slice(&u32::to_be_bytes(seq));
    f.extend_from_slice(&u32::to_be_bytes(ack));
    f.extend_from_slice(&[0x50, flags, 0xff, 0xff, 0, 0, 0, 0]);
    (f, datagram)
}

/// The Internet checksum (RFC 1071).
fn checksum(bytes: &[u8]) -> u16 {
    let mut sum: u32 = bytes.chunks(2).map(|c| u32::from(c[0]) << 8 | u32::from(*c.get(1).unwrap_or(&0))).sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

const MAGIC_NANOSECONDS: u32 = 0xa1b2_3c4d;
const LINK_ETHERNET: u32 = 1;
const SNAP: u32 = 65_535;
const ETHERNET: usize = 14;
/// Lengths of headers without options.
const IPV4: u16 = 20;
const TCP: u16 = 20;
const UDP: u16 = 8;
