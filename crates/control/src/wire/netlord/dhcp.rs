//! DHCP (RFC 2131, RFC 2132) as an agent speaks it for its address in tenant 1 (section 3.7): over the plain fabric, by the VLAN that reaches all agents.
//!
//! ```text
//!   0               6               12              16      18                   38            46
//!   +---------------+---------------+---------------+-------+--------------------+-------------+---------+
//!   | all, or the   | hardware      | 8100 | special| 0800  | IPv4, protocol 17  | UDP         | message |
//!   | server        | address       |      | VLAN   |       |                    | 68 --> 67   |         |
//!   +---------------+---------------+---------------+-------+--------------------+-------------+---------+
//! ```
//! The message: operation, hardware type and address length 1 each, hops 1; exchange 4; seconds 2, flags 2; addresses 4 each (client's, yours, next server's, relay's);
//! hardware address 16; names 64 and 128; cookie 4; options: code 1, length 1, value.
//!
//! Answers may come without the tag. Their UDP checksum is not looked at: a server on the same machine leaves it to its network card, which a veth pair is not.

use std::net::Ipv4Addr;

#[cfg(test)]
use dhcproto::v4::{DhcpOption, Message, MessageType, Opcode, OptionCode};
#[cfg(test)]
use dhcproto::{Decodable as _, Encodable as _};
use weft_fabric::MacAddr;

use super::inner::{IpPacket, Ports};
use crate::wire::packet::PacketError;
#[cfg(test)]
use crate::wire::packet::checksum;
use crate::wire::packet::dhcp::{
    BOOT_REPLY, BOOT_REQUEST, CLIENT_PORT, COOKIE, COOKIE_AT, END, MESSAGE_LEAST, OPTIONS_AT, SERVER_PORT, option, split,
};
use crate::wire::packet::ethernet::{BROADCAST, EtherType, Ethernet, VlanId, VlanTag};
use crate::wire::packet::ip::{UDP, udp_packet};

/// What a client asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Question {
    /// Who has an address?
    Discover,
    /// May I have this one, which this server has offered? `None`: which I had before.
    Request(Ipv4Addr, Option<Ipv4Addr>),
}

/// A server, where it is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Server {
    /// Its MAC address, or that of a relay.
    pub mac: MacAddr,
    /// Its address.
    pub ip: Ipv4Addr,
}

/// A client's message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Names the exchange.
    pub xid: u32,
    /// Whose address it is about.
    pub client: MacAddr,
    /// Seconds since the client began to ask.
    pub secs: u16,
    /// What it asks.
    pub question: Question,
    /// The one server that it asks, and from which address; `None`: all of them.
    pub to: Option<(Server, Ipv4Addr)>,
}

/// What a server grants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// The address.
    pub address: Ipv4Addr,
    /// Bits of its subnet's prefix.
    pub length: u8,
    /// For how long, in seconds; `u32::MAX`: for ever.
    pub lease_s: u32,
    /// When to ask its server again, and when all, in seconds.
    pub again_s: (u32, u32),
}

/// What a server answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// This address could be had.
    Offer(Ipv4Addr),
    /// It is the client's.
    Ack(Terms),
    /// The client cannot have what it asked for.
    Nak,
}

/// A server's message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reply {
    /// Names the exchange.
    pub xid: u32,
    /// Whose address it is about.
    pub client: MacAddr,
    /// Who answers.
    pub server: Server,
    /// What.
    pub answer: Answer,
}

impl Request {
    /// The frame, from an interface with this MAC address. If it is not the client's own, the server is asked to answer to all.
    pub fn emit(&self, src: MacAddr, vlan: VlanId) -> Vec<u8> {
        let mut message = vec![0; OPTIONS_AT];
        message[..4].copy_from_slice(&[BOOT_REQUEST, ETHERNET, 6, 0]);
        message[4..8].copy_from_slice(&self.xid.to_be_bytes());
        message[8..10].copy_from_slice(&self.secs.to_be_bytes());
        if src != self.client {
            message[10] = BROADCAST_FLAG;
        }
        message[28..34].copy_from_slice(&self.client.0);
        message[COOKIE_AT..].copy_from_slice(&COOKIE);
        match self.question {
            Question::Discover => message.extend([MESSAGE_TYPE, 1, DISCOVER]),
            Question::Request(address, server) => {
                message.extend([MESSAGE_TYPE, 1, REQUEST]);
                let addresses = [(REQUESTED_ADDRESS, Some(address)), (SERVER_IDENTIFIER, server)];
                for (code, ip) in addresses.into_iter().filter_map(|(code, ip)| Some((code, ip?))) {
                    message.extend([code, 4].into_iter().chain(ip.octets()));
                }
            }
        }
        message.extend([PARAMETERS, 4, SUBNET_MASK, LEASE_TIME, RENEWAL_TIME, REBINDING_TIME, END]);
        message.resize(message.len().max(MESSAGE_LEAST), 0);
        let (dst, to, from) = match self.to {
            Some((server, from)) => (server.mac, server.ip, from),
            None => (BROADCAST, Ipv4Addr::BROADCAST, Ipv4Addr::UNSPECIFIED),
        };
        let packet = udp_packet((from, CLIENT_PORT), (to, SERVER_PORT), &message);
        let mut frame = Vec::with_capacity(18 + packet.len());
        let tag = Some(VlanTag(vlan.get()));
        Ethernet { dst, src, tag, ethertype: EtherType::IPV4, payload: &packet }.emit(&mut frame);
        frame
    }
}

/// Whether a frame goes to a DHCP client.
pub fn is_reply(frame: &[u8]) -> bool {
    Ethernet::parse(frame).is_ok_and(|ethernet| udp_payload(&ethernet).is_ok())
}

impl Reply {
    /// Reads a frame from a server.
    ///
    /// # Errors
    /// [`PacketError::Kind`] if it is not DHCP to a client, else what is wrong with it.
    pub fn parse(frame: &[u8]) -> Result<Self, PacketError> {
        let ethernet = Ethernet::parse(frame)?;
        let bytes = udp_payload(&ethernet)?;
        let (fixed, options) = split(bytes)?;
        if fixed[..3] != [BOOT_REPLY, ETHERNET, 6] {
            return Err(PacketError::Field("DHCP operation or hardware address"));
        }
        let u32_at = |at: usize| u32::from_be_bytes([fixed[at], fixed[at + 1], fixed[at + 2], fixed[at + 3]]);
        let client = MacAddr(fixed[28..34].try_into().map_err(|_| PacketError::Truncated)?);
        let server = number(options, SERVER_IDENTIFIER)?.ok_or(PacketError::Field("server identifier"))?;
        let address = || host(Ipv4Addr::from_bits(u32_at(16)));
        let answer = match option(options, MESSAGE_TYPE)? {
            Some([OFFER]) => Answer::Offer(address()?),
            Some([ACK]) => Answer::Ack(terms(address()?, options)?),
            Some([NAK]) => Answer::Nak,
            _ => return Err(PacketError::Field("DHCP message type")),
        };
        let server = Server { mac: ethernet.src, ip: host(Ipv4Addr::from_bits(server))? };
        Ok(Self { xid: u32_at(4), client, server, answer })
    }
}

/// An option of four bytes.
fn number(options: &[u8], wanted: u8) -> Result<Option<u32>, PacketError> {
    let Some(value) = option(options, wanted)? else { return Ok(None) };
    value.try_into().map(|bytes| Some(u32::from_be_bytes(bytes))).map_err(|_| PacketError::Field("length of an option"))
}

/// What a UDP packet to a DHCP client carries.
fn udp_payload<'a>(ethernet: &Ethernet<'a>) -> Result<&'a [u8], PacketError> {
    if ethernet.ethertype != EtherType::IPV4 {
        return Err(PacketError::Kind("DHCP to a client"));
    }
    let packet = IpPacket::parse(ethernet)?;
    if packet.protocol != UDP || !matches!(packet.ports, Ports::Known(SERVER_PORT, CLIENT_PORT)) {
        return Err(PacketError::Kind("DHCP to a client"));
    }
    let &[_, _, _, _, high, low, _, _, ..] = packet.payload else { return Err(PacketError::Truncated) };
    packet.payload.get(8..usize::from(u16::from_be_bytes([high, low]))).ok_or(PacketError::Field("length"))
}

fn terms(address: Ipv4Addr, options: &[u8]) -> Result<Terms, PacketError> {
    let lease_s = number(options, LEASE_TIME)?.filter(|&seconds| seconds > 0).ok_or(PacketError::Field("lease time"))?;
    let mask = number(options, SUBNET_MASK)?.ok_or(PacketError::Field("subnet mask"))?;
    let length = mask.leading_ones();
    if length == 0 || mask.count_ones() != length {
        return Err(PacketError::Field("subnet mask"));
    }
    // RFC 2131, section 4.4.5.
    let usual = (lease_s / 2, (u64::from(lease_s) * 7 / 8) as u32);
    let said = number(options, RENEWAL_TIME)?.zip(number(options, REBINDING_TIME)?);
    let again_s = said.filter(|&(first, second)| first < second && second < lease_s).unwrap_or(usual);
    Ok(Terms { address, length: length as u8, lease_s, again_s })
}

/// Whether it is an address that an interface can have alone: 0/8 and 127/8 are not, nor what is from 224 on.
pub const fn is_host(ip: Ipv4Addr) -> bool {
    !matches!(ip.octets()[0], 0 | 127 | 224..)
}

fn host(ip: Ipv4Addr) -> Result<Ipv4Addr, PacketError> {
    if is_host(ip) { Ok(ip) } else { Err(PacketError::Field("address")) }
}

/// A hardware type.
const ETHERNET: u8 = 1;
/// In the first byte of the flags.
const BROADCAST_FLAG: u8 = 0x80;
/// Options (RFC 2132).
const SUBNET_MASK: u8 = 1;
const REQUESTED_ADDRESS: u8 = 50;
const LEASE_TIME: u8 = 51;
const MESSAGE_TYPE: u8 = 53;
const SERVER_IDENTIFIER: u8 = 54;
const PARAMETERS: u8 = 55;
const RENEWAL_TIME: u8 = 58;
const REBINDING_TIME: u8 = 59;
/// Types of messages.
const DISCOVER: u8 = 1;
const OFFER: u8 = 2;
const REQUEST: u8 = 3;
const ACK: u8 = 5;
const NAK: u8 = 6;

/// A server's frame, for tests, by a library that others wrote: without a tag, as an edge switch may hand it over.
#[cfg(test)]
pub fn emit_reply(reply: &Reply, to: MacAddr) -> Vec<u8> {
    let mut message = Message::default();
    message.set_opcode(Opcode::BootReply).set_xid(reply.xid).set_chaddr(&reply.client.0);
    let kind = match reply.answer {
        Answer::Offer(address) => {
            message.set_yiaddr(address);
            MessageType::Offer
        }
        Answer::Ack(terms) => {
            message.set_yiaddr(terms.address);
            let mask = Ipv4Addr::from_bits(u32::MAX.checked_shl(32 - u32::from(terms.length)).unwrap_or(0));
            let options = message.opts_mut();
            options.insert(DhcpOption::SubnetMask(mask));
            options.insert(DhcpOption::AddressLeaseTime(terms.lease_s));
            options.insert(DhcpOption::Renewal(terms.again_s.0));
            options.insert(DhcpOption::Rebinding(terms.again_s.1));
            MessageType::Ack
        }
        Answer::Nak => MessageType::Nak,
    };
    message.opts_mut().insert(DhcpOption::MessageType(kind));
    message.opts_mut().insert(DhcpOption::ServerIdentifier(reply.server.ip));
    let message = message.to_vec().expect("a message");
    let packet = udp_packet((reply.server.ip, SERVER_PORT), (Ipv4Addr::BROADCAST, CLIENT_PORT), &message);
    let mut frame = Vec::new();
    Ethernet { dst: to, src: reply.server.mac, tag: None, ethertype: EtherType::IPV4, payload: &packet }.emit(&mut frame);
    frame
}

/// A client's frame, as a server reads it, for tests, by the same library.
///
/// # Errors
/// What is wrong with it.
#[cfg(test)]
pub fn parse_request(frame: &[u8]) -> Result<Request, PacketError> {
    let ethernet = Ethernet::parse(frame)?;
    let packet = IpPacket::parse(&ethernet)?;
    assert_eq!(packet.ports, Ports::Known(CLIENT_PORT, SERVER_PORT));

    let (std::net::IpAddr::V4(src), std::net::IpAddr::V4(dst)) = (packet.src, packet.dst) else {
        return Err(PacketError::Kind("DHCP to a client"));
    };
    let mut pseudo = [&src.octets()[..], &dst.octets(), &[0, UDP]].concat();
    pseudo.extend_from_slice(&(packet.payload.len() as u16).to_be_bytes());
    assert_eq!(checksum(0, &[&pseudo, packet.payload].concat()), 0, "its checksum is right");
    let message = Message::from_bytes(&packet.payload[8..]).map_err(|_| PacketError::Field("DHCP message"))?;
    let options = message.opts();
    let question = match (options.msg_type(), options.get(OptionCode::RequestedIpAddress)) {
        (Some(MessageType::Discover), None) => Question::Discover,
        (Some(MessageType::Request), Some(&DhcpOption::RequestedIpAddress(address))) => {
            let server = match options.get(OptionCode::ServerIdentifier) {
                Some(&DhcpOption::ServerIdentifier(ip)) => Some(ip),
                _ => None,
            };
            Question::Request(address, server)
        }
        other => panic!("{other:?}"),
    };
    let client = MacAddr(message.chaddr().try_into().expect("6 bytes"));
    assert_eq!(message.flags().broadcast(), client != ethernet.src);
    let to = (ethernet.dst != BROADCAST).then_some((Server { mac: ethernet.dst, ip: dst }, src));
    Ok(Request { xid: message.xid(), client, secs: message.secs(), question, to })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ME: MacAddr = MacAddr([2, 0, 0, 0, 0, 7]);
    const SERVER: Server = Server { mac: MacAddr([2, 0, 0, 0, 0, 1]), ip: Ipv4Addr::new(10, 1, 0, 1) };
    const ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 1, 0, 9);

    fn reply(answer: Answer) -> Reply {
        Reply { xid: 5, client: ME, server: SERVER, answer }
    }

    #[test]
    fn requests_are_as_a_server_reads_them() {
        let vlan = VlanId::new(4094).unwrap();
        let questions = [Question::Discover, Question::Request(ADDRESS, Some(SERVER.ip)), Question::Request(ADDRESS, None)];
        for (question, to) in questions.into_iter().flat_map(|q| [(q, None), (q, Some((SERVER, ADDRESS)))]) {
            let request = Request { xid: 0xdead_beef, client: ME, secs: 3, question, to };
            for src in [ME, MacAddr([2, 0, 0, 0, 0, 8])] {
                let frame = request.emit(src, vlan);
                let ethernet = Ethernet::parse(&frame).unwrap();
                assert_eq!((ethernet.src, ethernet.tag.and_then(VlanTag::vlan)), (src, Some(vlan)));
                assert_eq!(parse_request(&frame), Ok(request));
                assert!(!is_reply(&frame));
            }
        }
    }

    #[test]
    fn answers_are_read() {
        let terms = Terms { address: ADDRESS, length: 16, lease_s: 3600, again_s: (1000, 2000) };
        for answer in [Answer::Offer(ADDRESS), Answer::Ack(terms), Answer::Nak] {
            let frame = emit_reply(&reply(answer), ME);
            assert!(is_reply(&frame));
            assert_eq!(Reply::parse(&frame), Ok(reply(answer)));
        }
        // Times that make no sense are those of the RFC.
        let odd = emit_reply(&reply(Answer::Ack(Terms { again_s: (2000, 1000), ..terms })), ME);
        assert_eq!(Reply::parse(&odd).map(|it| it.answer), Ok(Answer::Ack(Terms { again_s: (1800, 3150), ..terms })));
    }

    #[test]
    fn what_no_host_can_have_is_refused() {
        let terms = Terms { address: ADDRESS, length: 16, lease_s: 3600, again_s: (1000, 2000) };
        let of = |answer: Answer| Reply::parse(&emit_reply(&reply(answer), ME));
        for address in [Ipv4Addr::UNSPECIFIED, Ipv4Addr::LOCALHOST, Ipv4Addr::BROADCAST, Ipv4Addr::new(239, 1, 1, 1)] {
            assert_eq!(of(Answer::Offer(address)), Err(PacketError::Field("address")));
            assert_eq!(of(Answer::Ack(Terms { address, ..terms })), Err(PacketError::Field("address")));
        }
        assert_eq!(of(Answer::Ack(Terms { lease_s: 0, ..terms })), Err(PacketError::Field("lease time")));
        assert_eq!(of(Answer::Ack(Terms { length: 0, ..terms })), Err(PacketError::Field("subnet mask")));
    }

    #[test]
    fn numbers_have_four_bytes() {
        assert_eq!(number(&[51, 3, 0, 0, 1], LEASE_TIME), Err(PacketError::Field("length of an option")));
    }

    proptest! {
        #[test]
        fn any_bytes_are_an_error_or_an_answer(bytes in proptest::collection::vec(any::<u8>(), 0..400), at in 0..400usize, cut in 0..400usize) {
            let _ = Reply::parse(&bytes);
            // Damaged ones reach further.
            let terms = Terms { address: ADDRESS, length: 16, lease_s: 3600, again_s: (1000, 2000) };
            let mut frame = emit_reply(&reply(Answer::Ack(terms)), ME);
            let at = at % frame.len();
            for (to, from) in frame[at..].iter_mut().zip(bytes.iter().take(4)) {
                *to = *from;
            }
            let _ = Reply::parse(&frame);
            frame.truncate(cut);
            let _ = Reply::parse(&frame);
            // The hardware address's length.
            let mut frame = emit_reply(&reply(Answer::Nak), ME);
            frame[14 + 28 + 2] = bytes.first().copied().unwrap_or(255);
            let _ = Reply::parse(&frame);
            // Any options.
            let _ = (option(&bytes, MESSAGE_TYPE), number(&bytes, LEASE_TIME));
        }
    }
}
