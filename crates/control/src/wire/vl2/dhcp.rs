//! DHCP of hosts as a ToR switch relays it to a server and back (VL2 section 4.2.3; RFC 1542, RFC 3046, RFC 5107).
//!
//! ```text
//!   host --> hops + 1, relay's address: the switch's locator, option 82 [1, length, port] [5, 4, address] [10, 1, flags] [11, 4, locator] --> server
//!   host <-- option 82 taken out <------------------------------------------------------------------------------------------------------- server
//! ```
//! Option 82 has the port by which the message came (RFC 3046, section 2.1), an address of the subnet that the host is to have one of (RFC 3527): the application
//! addresses, to which the switch's locator does not belong; whether the host sent it by unicast (RFC 5010), and the switch's locator as the server's identifier
//! (RFC 5107). A server that knows the last one gives it to hosts as its own address, so that they renew at the switch. Servers return option 82 as it is, and with
//! it whether the answer is for a host that has its address.
//! All else goes through as it is. A host that speaks of relays itself is not believed, wherever in its message it does.

use std::net::{IpAddr, Ipv4Addr};

use weft_fabric::MacAddr;

use crate::wire::packet::PacketError;
use crate::wire::packet::dhcp::{
    BOOT_REPLY, BOOT_REQUEST, CLIENT_PORT, END, MESSAGE_LEAST, OPTIONS_AT, Options, SERVER_PORT, option, split,
};
use crate::wire::packet::ethernet::{EtherType, Ethernet};
use crate::wire::packet::ip::{Packet, UDP, udp_packet};

/// Why a message is not relayed: what is counted.
pub type Refusal = &'static str;

/// The relay by which a host's message comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Relay<'a> {
    /// The switch's locator.
    pub locator: Ipv4Addr,
    /// An address of the subnet in which the host is to have one.
    pub subnet: Option<Ipv4Addr>,
    /// The name of the port that leads to the host, at most 238 bytes.
    pub port: &'a str,
}

/// A server's message for a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer<'a> {
    /// The port that leads there.
    pub port: &'a str,
    /// The host's address, if it asked by unicast and has one; `None`: the answer is to be broadcast.
    pub client: Option<Ipv4Addr>,
    /// As the host is to have it.
    pub message: Vec<u8>,
}

/// A host's message as the server is to have it. `from`: the host's address, if it sent the message to the relay by unicast.
///
/// # Errors
/// The reason.
///
/// # Panics
/// If the name of the port is too long.
pub fn to_server(message: &[u8], relay: &Relay<'_>, from: Option<Ipv4Addr>) -> Result<Vec<u8>, Refusal> {
    let (fixed, options) = split(message).map_err(malformed)?;
    let (operation, hardware_length, hops) = (fixed[0], fixed[2], fixed[3]);
    if usize::from(hardware_length) > HARDWARE.len() {
        return Err("malformed");
    }
    if operation != BOOT_REQUEST {
        return Err("not_a_request");
    }
    if from.is_some_and(|from| fixed[CLIENT] != from.octets()) {
        return Err("forged_address");
    }
    if fixed[RELAY] != [0; 4] || is_relayed(fixed, options).map_err(malformed)? {
        return Err("forged_relay");
    }
    if hops >= HOPS_MAX {
        return Err("too_many_hops");
    }
    let mut out = without_relay(fixed, options).map_err(malformed)?;
    out[3] = hops + 1;
    out[RELAY].copy_from_slice(&relay.locator.octets());
    let information = information(relay, from.is_some());
    out.extend([RELAY_INFORMATION, information.len() as u8]);
    out.extend(information);
    Ok(ended(out))
}

fn information(relay: &Relay<'_>, is_unicast: bool) -> Vec<u8> {
    assert!(relay.port.len() <= PORT_MAX, "a port has a short name");
    let mut out = Vec::with_capacity(relay.port.len() + 17);
    let mut add = |code: u8, value: &[u8]| {
        out.extend([code, value.len() as u8]);
        out.extend_from_slice(value);
    };
    add(CIRCUIT_ID, relay.port.as_bytes());
    relay.subnet.iter().for_each(|subnet| add(LINK_SELECTION, &subnet.octets()));
    add(FLAGS, &[if is_unicast { UNICAST } else { 0 }]);
    add(SERVER_OVERRIDE, &relay.locator.octets());
    out
}

/// A server's message as the host is to have it, and how it gets there.
///
/// # Errors
/// The reason.
pub fn to_host(message: &[u8], locator: Ipv4Addr) -> Result<Answer<'_>, Refusal> {
    let (fixed, options) = split(message).map_err(malformed)?;
    if fixed[0] != BOOT_REPLY || fixed[RELAY] != locator.octets() {
        return Err("not_an_answer");
    }
    let information = option(options, RELAY_INFORMATION).map_err(malformed)?.ok_or("no_port")?;
    let part = |code| option(information, code).ok().flatten();
    let port = std::str::from_utf8(part(CIRCUIT_ID).ok_or("no_port")?).map_err(|_| "no_port")?;
    let is_unicast = matches!(part(FLAGS), Some([flags]) if flags & UNICAST > 0) && fixed[BROADCAST_AT] & BROADCAST == 0;
    // RFC 2131, section 4.1: to the address that the client has, or else to the one that it is given.
    let address =
        |at: std::ops::Range<usize>| fixed[at].first_chunk().copied().map(Ipv4Addr::from).filter(|it| !it.is_unspecified());
    let client = address(CLIENT).or_else(|| address(YOURS)).filter(|_| is_unicast);
    Ok(Answer { port, client, message: ended(without_relay(fixed, options).map_err(malformed)?) })
}

/// A frame that a host has sent to the relay's address: the host's address and the message. The checksum of UDP is not looked at, as the sender may leave it to a
/// network card.
///
/// # Errors
/// The reason.
pub fn from_frame(frame: &[u8]) -> Result<(Ipv4Addr, &[u8]), Refusal> {
    let ethernet = Ethernet::parse(frame).map_err(malformed)?;
    let packet = Packet::new(ethernet.payload).map_err(malformed)?;
    let flow = packet.flow();
    let IpAddr::V4(source) = flow.source else { return Err("malformed") };
    let ports = (flow.source_port, flow.destination_port);
    if flow.protocol != UDP || ports != (CLIENT_PORT, SERVER_PORT) || packet.has_more_fragments() {
        return Err("malformed");
    }
    let &[_, _, _, _, high, low, ..] = packet.payload() else { return Err("malformed") };
    packet.payload().get(8..usize::from(u16::from_be_bytes([high, low]))).map(|message| (source, message)).ok_or("malformed")
}

/// The frame that brings an answer to a host, from the MAC address of the relay's port and its locator.
///
/// # Panics
/// If the message is longer than a datagram can be.
pub fn to_frame(message: &[u8], from: (MacAddr, Ipv4Addr), to: (MacAddr, Ipv4Addr)) -> Vec<u8> {
    let packet = udp_packet((from.1, SERVER_PORT), (to.1, CLIENT_PORT), message);
    let mut frame = Vec::with_capacity(14 + packet.len());
    Ethernet { dst: to.0, src: from.0, tag: None, ethertype: EtherType::IPV4, payload: &packet }.emit(&mut frame);
    frame
}

/// Whether a message has option 82, among its options or in the fields of names where option 52 says that these hold more of them (RFC 2132, section 9.3).
fn is_relayed(fixed: &[u8; OPTIONS_AT], options: &[u8]) -> Result<bool, PacketError> {
    let more = match option(options, OVERLOAD)? {
        Some([which @ 1..=3]) => *which,
        Some(_) => return Err(PacketError::Field("option overload")),
        None => 0,
    };
    let fields = [Some(options), (more & 1 > 0).then_some(&fixed[FILE]), (more & 2 > 0).then_some(&fixed[SNAME])];
    for field in fields.into_iter().flatten() {
        if option(field, RELAY_INFORMATION)?.is_some() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// A message that more options may follow, without what relays said.
fn without_relay(fixed: &[u8; OPTIONS_AT], options: &[u8]) -> Result<Vec<u8>, PacketError> {
    let mut out = Vec::with_capacity(OPTIONS_AT + options.len() + 32);
    out.extend_from_slice(fixed);
    for it in Options::of(options) {
        let (code, value) = it?;
        if code != RELAY_INFORMATION {
            out.extend_from_slice(&[code, value.len() as u8]);
            out.extend_from_slice(value);
        }
    }
    Ok(out)
}

const fn malformed(_: PacketError) -> Refusal {
    "malformed"
}

fn ended(mut message: Vec<u8>) -> Vec<u8> {
    message.push(END);
    message.resize(message.len().max(MESSAGE_LEAST), 0);
    message
}

/// Where the first byte of the flags is; the client's address, the one that it is given, the relay's, the hardware address and the fields of names.
const BROADCAST_AT: usize = 10;
const CLIENT: std::ops::Range<usize> = 12..16;
const YOURS: std::ops::Range<usize> = 16..20;
const RELAY: std::ops::Range<usize> = 24..28;
const HARDWARE: std::ops::Range<usize> = 28..44;
const SNAME: std::ops::Range<usize> = 44..108;
const FILE: std::ops::Range<usize> = 108..236;
/// Options.
const OVERLOAD: u8 = 52;
const RELAY_INFORMATION: u8 = 82;
/// Parts of it.
const CIRCUIT_ID: u8 = 1;
const LINK_SELECTION: u8 = 5;
const FLAGS: u8 = 10;
const SERVER_OVERRIDE: u8 = 11;
/// What is left of 255 bytes by the others.
const PORT_MAX: usize = 238;
/// In the flags of a relay: the host sent the message by unicast.
const UNICAST: u8 = 0x80;
/// In those of a message: the client cannot be reached by unicast.
const BROADCAST: u8 = 0x80;
/// RFC 1542, section 4.1.1.
const HOPS_MAX: u8 = 16;

#[cfg(test)]
mod tests {
    use dhcproto::v4::relay::{RelayAgentInformation, RelayFlags, RelayInfo};
    use dhcproto::v4::{DhcpOption, Flags, Message, MessageType, Opcode, OptionCode, UnknownOption};
    use dhcproto::{Decodable as _, Encodable as _};
    use proptest::prelude::*;

    use super::*;

    const LA: Ipv4Addr = Ipv4Addr::new(10, 1, 1, 1);
    const SUBNET: Option<Ipv4Addr> = Some(Ipv4Addr::new(20, 0, 0, 0));
    const OWN: Ipv4Addr = Ipv4Addr::new(20, 0, 0, 5);
    const RELAY: Relay<'static> = Relay { locator: LA, subnet: SUBNET, port: "p3" };

    /// A host's message, by a library that others wrote.
    fn discover() -> Message {
        let zero = Ipv4Addr::UNSPECIFIED;
        let mut message = Message::new_with_id(77, zero, zero, zero, zero, &[2, 0, 0, 0, 0, 5]);
        message.opts_mut().insert(DhcpOption::MessageType(MessageType::Discover));
        message
    }

    /// A message of a host that has its address: a renewal, unless it is of another type.
    fn renewal(kind: MessageType) -> Message {
        let mut message = discover();
        message.set_ciaddr(OWN);
        message.opts_mut().insert(DhcpOption::MessageType(kind));
        if kind == MessageType::Release {
            message.opts_mut().insert(DhcpOption::ServerIdentifier(LA));
        }
        message
    }

    fn information(port: &str, is_unicast: bool) -> DhcpOption {
        let mut information = RelayAgentInformation::default();
        information.insert(RelayInfo::AgentCircuitId(port.as_bytes().to_vec()));
        information.insert(RelayInfo::LinkSelection(SUBNET.unwrap()));
        let flags = RelayFlags::default();
        information.insert(RelayInfo::RelayAgentFlags(if is_unicast { flags.set_unicast() } else { flags }));
        information.insert(RelayInfo::ServerIdentifierOverride(LA));
        DhcpOption::RelayAgentInformation(information)
    }

    fn changed(change: impl FnOnce(&mut Message)) -> Vec<u8> {
        let mut message = discover();
        change(&mut message);
        message.to_vec().unwrap()
    }

    #[test]
    fn a_request_says_by_which_port_it_came_and_the_answer_goes_back_there() {
        let carried = to_server(&discover().to_vec().unwrap(), &RELAY, None).unwrap();
        let mut at_server = Message::from_bytes(&carried).unwrap();
        assert_eq!((at_server.giaddr(), at_server.hops(), at_server.xid()), (LA, 1, 77));
        assert_eq!(at_server.opts().get(OptionCode::RelayAgentInformation), Some(&information("p3", false)));
        let without = to_server(&discover().to_vec().unwrap(), &Relay { subnet: None, ..RELAY }, None).unwrap();
        let without = Message::from_bytes(&without).unwrap();
        let Some(DhcpOption::RelayAgentInformation(without)) = without.opts().get(OptionCode::RelayAgentInformation) else {
            panic!("no option 82")
        };
        assert_eq!(without.iter().count(), 3, "no subnet");
        assert!(!without.iter().any(|(_, it)| matches!(it, RelayInfo::LinkSelection(_))));
        at_server.set_opcode(Opcode::BootReply).set_yiaddr([20, 0, 0, 5]);
        let reply = at_server.to_vec().unwrap();
        let answer = to_host(&reply, LA).unwrap();
        assert_eq!((answer.port, answer.client), ("p3", None), "it has no address yet");
        let answer = Message::from_bytes(&answer.message).unwrap();
        assert_eq!((answer.yiaddr(), answer.chaddr()), (OWN, &[2, 0, 0, 0, 0, 5][..]));
        assert!(answer.opts().get(OptionCode::RelayAgentInformation).is_none(), "the host does not see it");
    }

    /// Renewal, release and inform by unicast reach the server as such, and the answer goes to the host's address; the same by broadcast is answered by broadcast.
    #[test]
    fn an_answer_goes_to_the_address_that_asked_by_unicast() {
        for kind in [MessageType::Request, MessageType::Release, MessageType::Inform] {
            for from in [Some(OWN), None] {
                let asked = renewal(kind);
                let carried = to_server(&asked.to_vec().unwrap(), &RELAY, from).unwrap();
                let mut at_server = Message::from_bytes(&carried).unwrap();
                let mut expected = asked.clone();
                expected.set_hops(1).set_giaddr(LA).opts_mut().insert(information("p3", from.is_some()));
                assert_eq!(at_server, expected, "{kind:?}");
                at_server.set_opcode(Opcode::BootReply).opts_mut().insert(DhcpOption::MessageType(MessageType::Ack));
                let answer = |message: &Message| to_host(&message.to_vec().unwrap(), LA).unwrap().client;
                assert_eq!(answer(&at_server), from);
                // Servers need not repeat the client's address.
                at_server.set_ciaddr(Ipv4Addr::UNSPECIFIED).set_yiaddr(OWN);
                assert_eq!(answer(&at_server), from);
                // A refusal has no address, or the flag that says that the client may have none any more.
                at_server.set_yiaddr(Ipv4Addr::UNSPECIFIED).opts_mut().insert(DhcpOption::MessageType(MessageType::Nak));
                assert_eq!(answer(&at_server), None);
                at_server.set_ciaddr(OWN).set_flags(Flags::default().set_broadcast());
                assert_eq!(answer(&at_server), None);
            }
        }
    }

    #[test]
    fn a_host_renews_its_own_address_alone() {
        let refused = |message: Message, from| to_server(&message.to_vec().unwrap(), &RELAY, Some(from)).unwrap_err();
        assert_eq!(refused(renewal(MessageType::Request), Ipv4Addr::new(20, 0, 0, 6)), "forged_address");
        assert_eq!(refused(renewal(MessageType::Release), Ipv4Addr::new(20, 0, 0, 6)), "forged_address");
        assert_eq!(refused(discover(), OWN), "forged_address");
        let mut relayed = renewal(MessageType::Request);
        relayed.set_giaddr(LA);
        assert_eq!(refused(relayed, OWN), "forged_relay");
    }

    const MACS: [MacAddr; 2] = [MacAddr([2, 0, 0, 0, 0, 1]), MacAddr([2, 0, 0, 0, 0, 2])];

    fn asking(ports: (u16, u16), message: &[u8]) -> Vec<u8> {
        let packet = udp_packet((OWN, ports.0), (LA, ports.1), message);
        let mut frame = Vec::new();
        Ethernet { dst: MACS[0], src: MACS[1], tag: None, ethertype: EtherType::IPV4, payload: &packet }.emit(&mut frame);
        frame
    }

    #[test]
    fn a_frame_of_another_kind_is_no_message() {
        let right = asking((68, 67), b"a message");
        assert_eq!(from_frame(&right), Ok((OWN, &b"a message"[..])));
        assert_eq!(from_frame(&[&right[..], &[0; 9]].concat()), Ok((OWN, &b"a message"[..])), "padding is none of it");
        for ports in [(68, 68), (67, 67), (1068, 67), (68, 53)] {
            assert_eq!(from_frame(&asking(ports, b"a message")), Err("malformed"), "{ports:?}");
        }
        // The protocol, a fragment, a length of UDP beyond the packet's, and one below its header's.
        for (at, byte) in [(14 + 9, 6), (14 + 6, 0x20), (14 + 20 + 5, 255), (14 + 20 + 5, 7)] {
            let mut wrong = right.clone();
            wrong[at] = byte;
            assert_eq!(from_frame(&wrong), Err("malformed"), "{at}");
        }
        (0..right.len()).for_each(|cut| assert_eq!(from_frame(&right[..cut]), Err("malformed"), "{cut}"));
    }

    #[test]
    fn an_answers_frame_is_read_by_another_parser() {
        let frame = to_frame(b"odd", (MACS[0], LA), (MACS[1], OWN));
        let ethernet = Ethernet::parse(&frame).unwrap();
        assert_eq!((ethernet.dst, ethernet.src, ethernet.ethertype), (MACS[1], MACS[0], EtherType::IPV4));
        let header = crate::wire::packet::ip::Ipv4::parse(ethernet.payload).unwrap();
        assert_eq!((header.source, header.destination, header.protocol), (LA, OWN, UDP));
        let datagram = &ethernet.payload[20..];
        assert_eq!(crate::wire::packet::checksum(header.pseudo_sum(), datagram), 0);
        assert_eq!(datagram, [&[0, 67, 0, 68, 0, 11], &datagram[6..8], b"odd"].concat());
    }

    #[test]
    fn what_is_odd_is_not_carried() {
        let refused = |change: &dyn Fn(&mut Message)| to_server(&changed(change), &RELAY, None).unwrap_err();
        assert_eq!(refused(&|m| _ = m.set_giaddr([10, 9, 9, 9])), "forged_relay");
        assert_eq!(refused(&|m| _ = m.set_opcode(Opcode::BootReply)), "not_a_request");
        assert_eq!(refused(&|m| _ = m.set_hops(16)), "too_many_hops");
        assert_eq!(refused(&|m| _ = m.opts_mut().insert(information("p9", false))), "forged_relay");
        assert_eq!(to_server(&[1; 20], &RELAY, None), Err("malformed"));
        let mut long = discover().to_vec().unwrap();
        long[2] = 17;
        assert_eq!(to_server(&long, &RELAY, None), Err("malformed"));
        assert_eq!(to_host(&discover().to_vec().unwrap(), LA), Err("not_an_answer"));
        let reply = |change: &dyn Fn(&mut Message)| {
            changed(|m| {
                m.set_opcode(Opcode::BootReply).set_giaddr(LA);
                change(m);
            })
        };
        assert_eq!(to_host(&reply(&|_| ()), LA), Err("no_port"));
        let empty = DhcpOption::RelayAgentInformation(RelayAgentInformation::default());
        assert_eq!(to_host(&reply(&|m| _ = m.opts_mut().insert(empty.clone())), LA), Err("no_port"));
    }

    #[test]
    fn a_host_hides_no_relay_in_the_fields_of_names() {
        for (which, at) in [(1, 108), (2, 44), (3, 108), (3, 44)] {
            let mut bytes = changed(|m| _ = m.opts_mut().insert(DhcpOption::OptionOverload(which)));
            assert!(to_server(&bytes, &RELAY, None).is_ok());
            bytes[at..at + 6].copy_from_slice(&[82, 4, 1, 2, b'p', b'9']);
            assert_eq!(to_server(&bytes, &RELAY, None), Err("forged_relay"), "{which} {at}");
        }
        // Without option 52 they are names.
        let mut bytes = discover().to_vec().unwrap();
        bytes[44..48].copy_from_slice(b"\x52\x02ab");
        assert!(to_server(&bytes, &RELAY, None).is_ok());
        let strange = changed(|m| _ = m.opts_mut().insert(DhcpOption::OptionOverload(4)));
        assert_eq!(to_server(&strange, &RELAY, None), Err("malformed"));
    }

    proptest! {
        /// Beside the library: what is carried differs in nothing but what a relay says.
        #[test]
        fn all_else_goes_through(
            xid in any::<u32>(), hops in 0..16u8, is_unicast: bool, port in "[a-z][a-z0-9]{0,14}",
            // Codes that the library does not look into; without a value it drops them.
            options in proptest::collection::btree_map(224..255u8, proptest::collection::vec(any::<u8>(), 1..200), 0..4),
        ) {
            let mut asked = discover();
            asked.set_xid(xid).set_hops(hops);
            for (code, value) in options {
                asked.opts_mut().insert(DhcpOption::Unknown(UnknownOption::new(code.into(), value)));
            }
            let from = is_unicast.then_some(OWN);
            asked.set_ciaddr(from.unwrap_or(Ipv4Addr::UNSPECIFIED));
            let carried = to_server(&asked.to_vec().unwrap(), &Relay { port: &port, ..RELAY }, from).unwrap();
            let mut expected = asked.clone();
            expected.set_hops(hops + 1).set_giaddr(LA).opts_mut().insert(information(&port, is_unicast));
            let mut at_server = Message::from_bytes(&carried).unwrap();
            prop_assert_eq!(&at_server, &expected);
            at_server.set_opcode(Opcode::BootReply);
            let reply = at_server.to_vec().unwrap();
            let answer = to_host(&reply, LA).unwrap();
            at_server.opts_mut().remove(OptionCode::RelayAgentInformation);
            prop_assert_eq!((answer.port, answer.client), (port.as_str(), from));
            prop_assert_eq!(Message::from_bytes(&answer.message).unwrap(), at_server);
        }

        #[test]
        fn any_bytes_are_refused_or_carried_and_come_back(
            bytes in proptest::collection::vec(any::<u8>(), 0..400), at in 0..400usize, cut in 0..400usize,
        ) {
            carried_and_back(&bytes);
            // Damaged ones reach further.
            let mut message = changed(|m| _ = m.opts_mut().insert(DhcpOption::Hostname("a host".to_owned())));
            message.resize(message.len() + 40, 0);
            let at = at % message.len();
            for (to, from) in message[at..].iter_mut().zip(bytes.iter().take(4)) {
                *to = *from;
            }
            carried_and_back(&message);
            message.truncate(cut);
            carried_and_back(&message);
            // Any options.
            carried_and_back(&[&discover().to_vec().unwrap()[..OPTIONS_AT], &bytes].concat());
        }
    }

    fn carried_and_back(bytes: &[u8]) {
        let _ = (to_host(bytes, LA), from_frame(bytes));
        let at =
            |place: std::ops::Range<usize>| bytes.get(place).and_then(|it| it.first_chunk::<4>()).map(|it| Ipv4Addr::from(*it));
        // By unicast from the address that it says.
        let from = at(CLIENT).filter(|it| !it.is_unspecified());
        let Ok(mut carried) = to_server(bytes, &RELAY, from) else { return };
        let asked: Vec<_> = Options::of(&bytes[OPTIONS_AT..]).map(|it| it.unwrap()).collect();
        carried[0] = BOOT_REPLY;
        let answer = to_host(&carried, LA).unwrap();
        assert_eq!((answer.port, answer.client), ("p3", from.filter(|_| bytes[BROADCAST_AT] & BROADCAST == 0)));
        assert_eq!(Options::of(&answer.message[OPTIONS_AT..]).map(|it| it.unwrap()).collect::<Vec<_>>(), asked);
        assert!(answer.message.len() >= MESSAGE_LEAST);
        let frame = asking((CLIENT_PORT, SERVER_PORT), bytes);
        assert_eq!(from_frame(&frame), Ok((OWN, bytes)));
    }
}
