//! Sends encapsulated packets of a flow and hears what comes back, before the data plane does.

use std::io;
use std::mem::MaybeUninit;
use std::net::{IpAddr, SocketAddrV4};
use std::time::{Duration, Instant};

use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use weft_control::wire::packet::checksum;
use weft_control::wire::packet::ip::{Flow as Tuple, ICMP, ICMPV6, IPIP, IPV6, Ipv4, Ipv6, Packet, TCP};
use weft_control::wire::vl2::icmp::{Packet as IcmpPacket, Problem};
use weft_control::wire::vl2::ipip::{Marks, Tunnel};

use crate::interface::{index_of, packet_socket};
use crate::vl2::dataplane::MARK_PROBE;

/// The flow that is followed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flow {
    pub source: IpAddr,
    pub destination: IpAddr,
    pub protocol: u8,
    pub sport: u16,
    pub dport: u16,
}

/// What came back of a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reply {
    /// The TTL of a header ended.
    Expired,
    /// The other end answered the inner packet.
    Delivered,
    /// A router cannot send it on.
    Failed(&'static str),
}

/// Sends probes and hears their answers.
#[derive(Debug)]
pub(super) struct Prober {
    sender: Socket,
    listener: Socket,
    tunnel: Tunnel,
    flow: Flow,
    timeout: Duration,
    tag: u16,
}

impl Prober {
    pub fn new(device: &str, tunnel: Tunnel, flow: Flow, timeout: Duration) -> io::Result<Self> {
        let sender = Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::from(libc::IPPROTO_RAW)))?;
        sender.set_header_included_v4(true)?;
        sender.set_mark(MARK_PROBE)?;
        let listener = packet_socket(index_of(device)?, Type::DGRAM, libc::ETH_P_ALL as u16)?;
        // Tags of two traces at a time should differ.
        let tag = std::process::id() as u16;
        Ok(Self { sender, listener, tunnel, flow, timeout, tag })
    }

    /// Sends a probe; what came back, from whom, and how soon.
    pub fn probe(&mut self, ttls: (u8, u8)) -> io::Result<Option<(Reply, IpAddr, Duration)>> {
        self.tag = self.tag.wrapping_add(1).max(1);
        let inner = self.inner();
        let packet = self.tunnel.push(&inner, Marks { ttls, identification: self.tag }).map_err(io::Error::other)?;
        let to = SocketAddrV4::new(self.tunnel.via.unwrap_or(self.tunnel.locator), 0);
        let sent = Instant::now();
        self.sender.send_to(&packet, &SockAddr::from(to))?;
        let mut buffer = [MaybeUninit::<u8>::uninit(); LONGEST];
        while let Some(left) = self.timeout.checked_sub(sent.elapsed()).filter(|left| !left.is_zero()) {
            self.listener.set_read_timeout(Some(left))?;
            let length = match self.listener.recv(&mut buffer) {
                Ok(length) => length,
                Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => return Ok(None),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            // SAFETY: recv has written so many bytes.
            let bytes = unsafe { std::slice::from_raw_parts(buffer.as_ptr().cast::<u8>(), length) };
            if let Some((reply, from)) = self.understand(bytes) {
                return Ok(Some((reply, from, sent.elapsed())));
            }
        }
        Ok(None)
    }

    /// A packet of the flow: UDP with the tag in it, or a TCP SYN with the tag as its sequence.
    fn inner(&self) -> Vec<u8> {
        let Flow { sport, dport, protocol, .. } = self.flow;
        let mut message = Vec::with_capacity(24);
        message.extend_from_slice(&sport.to_be_bytes());
        message.extend_from_slice(&dport.to_be_bytes());
        let sum_at = if protocol == TCP {
            message.extend_from_slice(&u32::from(self.tag).to_be_bytes());
            message.extend_from_slice(&[0, 0, 0, 0, 0x50, 0x02, 0x04, 0, 0, 0, 0, 0]);
            16
        } else {
            message.extend_from_slice(&[0, 10, 0, 0]);
            message.extend_from_slice(&self.tag.to_be_bytes());
            6
        };
        let payload = message.len() as u16;
        let mut out = Vec::with_capacity(64);
        let sum = match (self.flow.source, self.flow.destination) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                let (tos, ttl, identification) = (0, 64, self.tag);
                Ipv4 { tos, payload, identification, is_unfragmentable: true, ttl, protocol, source, destination }.emit(&mut out);
                [source, destination].iter().fold(u32::from(protocol) + u32::from(payload), |sum, it| {
                    let bits = it.to_bits();
                    sum + (bits >> 16) + (bits & 0xffff)
                })
            }
            (IpAddr::V6(source), IpAddr::V6(destination)) => {
                let header = Ipv6 { payload, next: protocol, hops: 64, source, destination };
                header.emit(&mut out);
                header.pseudo_sum()
            }
            _ => 0,
        };
        let sum = checksum(sum, &message);
        message[sum_at..sum_at + 2].copy_from_slice(&if sum == 0 { 0xffff } else { sum }.to_be_bytes());
        out.extend_from_slice(&message);
        out
    }

    fn understand(&self, bytes: &[u8]) -> Option<(Reply, IpAddr)> {
        let packet = Packet::new(bytes).ok()?;
        // Where this host strips the last header itself, the answer comes with it.
        if matches!(packet.protocol(), IPIP | IPV6) && !packet.is_v6() {
            return self.understand(packet.payload());
        }
        if packet.protocol() == ICMP && !packet.is_v6() {
            return self.icmp(bytes);
        }
        if packet.source() != self.flow.destination || packet.destination() != self.flow.source {
            return None;
        }
        if packet.protocol() == ICMPV6 {
            // Type, code, checksum, unused: then what it is about.
            let about = Packet::cut(packet.payload().get(8..)?).ok()?;
            return (packet.payload()[0] == 1 && packet.source() == self.flow.destination && self.is_ours(&about))
                .then_some((Reply::Delivered, packet.source()));
        }
        let Tuple { protocol, source_port, destination_port, .. } = packet.flow();
        let is_back = (protocol, source_port, destination_port) == (self.flow.protocol, self.flow.dport, self.flow.sport);
        is_back.then_some((Reply::Delivered, packet.source()))
    }

    fn icmp(&self, bytes: &[u8]) -> Option<(Reply, IpAddr)> {
        let error = IcmpPacket::new(bytes).ok()?;
        let from = IpAddr::V4(error.teller());
        let quoted = Packet::cut(error.quoted()).ok()?;
        if error.receiver() != self.tunnel.source {
            // About the inner packet, from the other end; what this host's data plane makes of a router's error is not.
            let is_of_it =
                IpAddr::V4(error.receiver()) == self.flow.source && from == self.flow.destination && self.is_ours(&quoted);
            return is_of_it.then_some((Reply::Delivered, from));
        }
        if quoted.identification() != self.tag {
            return None;
        }
        let reply = match error.problem() {
            Problem::TimeExceeded => Reply::Expired,
            Problem::TooBig { .. } => Reply::Failed("too big"),
            Problem::NetUnreachable | Problem::HostUnreachable => Reply::Failed("unreachable"),
            Problem::Prohibited => Reply::Failed("prohibited"),
            Problem::ProtocolUnreachable => Reply::Failed("nobody strips the header there"),
        };
        Some((reply, from))
    }

    fn is_ours(&self, about: &Packet<'_>) -> bool {
        let flow = about.flow();
        let ports = (flow.source_port, flow.destination_port) == (self.flow.sport, self.flow.dport);
        let is_this_probe = about.is_v6() || about.identification() == self.tag;
        ports && is_this_probe && flow.source == self.flow.source && flow.destination == self.flow.destination
    }
}

const LONGEST: usize = 2048;

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;
    use weft_control::wire::vl2::icmp::IcmpError;

    fn prober(source: IpAddr, destination: IpAddr, protocol: u8) -> Option<Prober> {
        let tunnel = Tunnel { source: [10, 200, 5, 7].into(), via: Some([10, 9, 0, 1].into()), locator: [10, 1, 2, 1].into() };
        let flow = Flow { source, destination, protocol, sport: 4000, dport: 80 };
        // Without root there are no such sockets.
        Prober::new("lo", tunnel, flow, Duration::from_millis(10)).ok()
    }

    #[test]
    fn probes_are_packets_with_right_checksums_and_their_errors_are_known() {
        let Some(mut prober) = prober([20, 0, 0, 5].into(), [20, 0, 0, 9].into(), TCP) else {
            assert!(std::env::var_os("CI").is_none(), "run the test as root");
            return;
        };
        prober.tag = 77;
        let inner = prober.inner();
        let packet = Packet::new(&inner).unwrap();
        assert!(packet.is_checksum_right());
        assert_eq!((packet.flow().source_port, packet.flow().destination_port), (4000, 80));
        let pseudo = u32::from(TCP) + 20 + 0x1400 + 5 + 0x1400 + 9;
        assert_eq!(checksum(pseudo, packet.payload()), 0);
        let outer = prober.tunnel.push(&inner, Marks { ttls: (1, 64), identification: 77 }).unwrap();
        let mut error = Vec::new();
        let router: Ipv4Addr = [10, 5, 5, 5].into();
        IcmpError { teller: router.into(), problem: Problem::TimeExceeded, about: &outer }.emit(&mut error).unwrap();
        assert_eq!(prober.understand(&error), Some((Reply::Expired, router.into())));
        prober.tag = 78;
        assert_eq!(prober.understand(&error), None, "another probe's");
    }

    #[test]
    fn probes_of_ipv6_have_right_checksums() {
        let Some(prober) = prober("fd20::5".parse().unwrap(), "fd20::9".parse().unwrap(), 17) else { return };
        let inner = prober.inner();
        let (source, destination) = ("fd20::5".parse().unwrap(), "fd20::9".parse().unwrap());
        let header = Ipv6 { payload: 10, next: 17, hops: 64, source, destination };
        assert_eq!(checksum(header.pseudo_sum(), &inner[40..]), 0);
    }
}
