//! The tenants' ARP (RFC 826), Ethernet and IPv4 alone: agents answer it (section 3.9).
//!
//! ```text
//!   0     2     4   5   6     8                14        18               24        28
//!   +-----+-----+---+---+-----+----------------+---------+----------------+---------+
//!   |  1  | 0800| 6 | 4 | op  | sender MAC     | sender IP| target MAC    | target IP|
//!   +-----+-----+---+---+-----+----------------+---------+----------------+---------+
//! ```

use std::net::Ipv4Addr;

use weft_fabric::MacAddr;

use super::ethernet::{EtherType, Ethernet, FrameError, MIN_FRAME};

/// What is asked or said.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// Who has the target's address?
    Request,
    /// The sender has the sender's address.
    Reply,
}

/// An ARP packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Arp {
    /// Request or reply.
    pub operation: Operation,
    /// Who sends it.
    pub sender_mac: MacAddr,
    /// Its address; 0.0.0.0 in a probe.
    pub sender_ip: Ipv4Addr,
    /// Whom it is to; zeros in a request.
    pub target_mac: MacAddr,
    /// Whose address is asked for.
    pub target_ip: Ipv4Addr,
}

const HEAD: [u8; 6] = [0, 1, 8, 0, 6, 4];

impl Arp {
    /// Reads a frame's payload.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(payload: &[u8]) -> Result<Self, FrameError> {
        let (bytes, _) = payload.split_first_chunk::<28>().ok_or(FrameError::Truncated)?;
        if bytes[..6] != HEAD {
            return Err(FrameError::Protocol);
        }
        let operation = match [bytes[6], bytes[7]] {
            [0, 1] => Operation::Request,
            [0, 2] => Operation::Reply,
            _ => return Err(FrameError::Field("ARP operation")),
        };
        let mac = |at: usize| MacAddr(bytes[at..at + 6].try_into().expect("6 bytes"));
        let ip = |at: usize| Ipv4Addr::new(bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]);
        Ok(Self { operation, sender_mac: mac(8), sender_ip: ip(14), target_mac: mac(18), target_ip: ip(24) })
    }

    /// Appends the packet.
    pub fn emit(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&HEAD);
        out.extend_from_slice(&[0, if self.operation == Operation::Request { 1 } else { 2 }]);
        out.extend_from_slice(&self.sender_mac.0);
        out.extend_from_slice(&self.sender_ip.octets());
        out.extend_from_slice(&self.target_mac.0);
        out.extend_from_slice(&self.target_ip.octets());
    }

    /// The frame that answers this request: `mac` has the address asked for. `ethernet_src` is the answer's Ethernet source.
    pub fn answer(&self, mac: MacAddr, ethernet_src: MacAddr) -> Vec<u8> {
        let reply = Self {
            operation: Operation::Reply,
            sender_mac: mac,
            sender_ip: self.target_ip,
            target_mac: self.sender_mac,
            target_ip: self.sender_ip,
        };
        let mut frame = Vec::with_capacity(MIN_FRAME);
        let header = Ethernet { dst: self.sender_mac, src: ethernet_src, tag: None, ethertype: EtherType::ARP, payload: &[] };
        header.emit(&mut frame);
        reply.emit(&mut frame);
        frame.resize(MIN_FRAME, 0);
        frame
    }
}
