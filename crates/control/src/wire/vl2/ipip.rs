//! The two headers that carry a packet between application addresses (VL2, section 4.2.1, figure 6), as plain values: what eBPF does to
//! packets, for probes, tests and readers of what routers quote.
//!
//! ```text
//!   [IPv4 entropy -> A, protocol 4][IPv4 entropy -> T, protocol 4 or 41][inner]
//!    stripped by an intermediate    stripped by the ToR (or the host)
//! ```

use std::net::{IpAddr, Ipv4Addr};

use crate::wire::packet::PacketError;
use crate::wire::packet::ip::{HEADER_V4, IPIP, IPV6, Ipv4, Packet};

/// How a packet is carried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tunnel {
    /// Says which flow it is, by bits that only the sender understands.
    pub source: Ipv4Addr,
    /// The anycast address of intermediate switches; none: straight to the locator.
    pub via: Option<Ipv4Addr>,
    /// The locator: of a ToR or of a host.
    pub locator: Ipv4Addr,
}

/// Both headers' fields that are not of the tunnel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Marks {
    /// Hops of the first header, and of the second one.
    pub ttls: (u8, u8),
    /// Identification of both.
    pub identification: u16,
}

impl Default for Marks {
    fn default() -> Self {
        Self { ttls: (64, 64), identification: 0 }
    }
}

impl Tunnel {
    /// Bytes that are put in front.
    pub const fn overhead(&self) -> usize {
        if self.via.is_some() { 2 * HEADER_V4 } else { HEADER_V4 }
    }

    /// The packet with its outer headers.
    ///
    /// # Errors
    /// [`PacketError`] if it is not an IP packet, or too long.
    pub fn push(&self, inner: &[u8], marks: Marks) -> Result<Vec<u8>, PacketError> {
        let packet = Packet::new(inner)?;
        let too_long = PacketError::Field("length of an IP packet");
        let length = u16::try_from(inner.len()).map_err(|_| too_long)?;
        length.checked_add(self.overhead() as u16).ok_or(too_long)?;
        let tos = if packet.is_v6() { inner[0] << 4 | inner[1] >> 4 } else { inner[1] };
        let mut out = Vec::with_capacity(self.overhead() + inner.len());
        let second = Ipv4 {
            tos,
            payload: length,
            identification: marks.identification,
            is_unfragmentable: true,
            ttl: marks.ttls.1,
            protocol: if packet.is_v6() { IPV6 } else { IPIP },
            source: self.source,
            destination: self.locator,
        };
        if let Some(via) = self.via {
            let payload = length + HEADER_V4 as u16;
            Ipv4 { payload, ttl: marks.ttls.0, protocol: IPIP, destination: via, ..second }.emit(&mut out);
        } else {
            return Ok(Self::whole(&Ipv4 { ttl: marks.ttls.0, ..second }, out, inner));
        }
        Ok(Self::whole(&second, out, inner))
    }

    fn whole(last: &Ipv4, mut out: Vec<u8>, inner: &[u8]) -> Vec<u8> {
        last.emit(&mut out);
        out.extend_from_slice(inner);
        out
    }

    /// Takes the outer headers off: of a whole packet, or of one that a router quoted and cut. Two headers are taken off only where both come
    /// from one source, as the agent makes them.
    ///
    /// # Errors
    /// [`PacketError`] if it is not carried like this, or cut before the inner packet begins.
    pub fn strip(bytes: &[u8]) -> Result<(Self, &[u8]), PacketError> {
        let (source, first, protocol, rest) = outer(bytes)?;
        if protocol == IPIP
            && let Ok((second_source, second, second_protocol, inner)) = outer(rest)
            && second_source == source
            && matches!(second_protocol, IPIP | IPV6)
        {
            return Ok((Self { source, via: Some(first), locator: second }, inner));
        }
        match protocol {
            IPIP | IPV6 => Ok((Self { source, via: None, locator: first }, rest)),
            _ => Err(PacketError::Kind("a packet in a packet")),
        }
    }
}

fn outer(bytes: &[u8]) -> Result<(Ipv4Addr, Ipv4Addr, u8, &[u8]), PacketError> {
    let packet = Packet::cut(bytes)?;
    match (packet.source(), packet.destination()) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => Ok((source, destination, packet.protocol(), packet.payload())),
        _ => Err(PacketError::Kind("IPv4")),
    }
}
