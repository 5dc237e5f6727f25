//! DHCP of hosts as a ToR switch carries it to a server and back (VL2 section 4.2.3; RFC 1542, RFC 3046).
//!
//! ```text
//!   host --> hops + 1, relay's address: the switch's locator, option 82 [1, length, port] [5, 4, address] ----------> server
//!   host <-- option 82 taken out <---------------------------------------------------------------------------------- server
//! ```
//! Option 82 has the port by which the message came (RFC 3046, section 2.1), and an address of the subnet that the host is to have one of (RFC 3527): the application
//! addresses, to which the switch's locator does not belong. All else goes through as it is. A host that speaks of relays itself is not believed, wherever in its message it does.

use std::net::Ipv4Addr;

use crate::wire::packet::PacketError;
use crate::wire::packet::dhcp::{BOOT_REPLY, BOOT_REQUEST, END, MESSAGE_LEAST, OPTIONS_AT, Options, option, split};

/// Why a message is not carried on: what is counted.
pub type Refusal = &'static str;

/// A host's message as the server is to have it: through which switch it came, by which port, whose name has at most 247 bytes, and of which subnet an address is wanted.
///
/// # Errors
/// The reason.
pub fn to_server(message: &[u8], locator: Ipv4Addr, subnet: Option<Ipv4Addr>, port: &str) -> Result<Vec<u8>, Refusal> {
    let (fixed, options) = split(message).map_err(malformed)?;
    let (operation, hardware_length, hops) = (fixed[0], fixed[2], fixed[3]);
    if usize::from(hardware_length) > HARDWARE.len() {
        return Err("malformed");
    }
    if operation != BOOT_REQUEST {
        return Err("not_a_request");
    }
    if fixed[RELAY] != [0; 4] || is_relayed(fixed, options).map_err(malformed)? {
        return Err("forged_relay");
    }
    if hops >= HOPS_MAX {
        return Err("too_many_hops");
    }
    let mut out = without_relay(fixed, options).map_err(malformed)?;
    out[3] = hops + 1;
    out[RELAY].copy_from_slice(&locator.octets());
    assert!(port.len() <= PORT_MAX, "a port has a short name");
    let length = port.len() as u8;
    let link = subnet.map_or(0, |_| 6);
    out.extend([RELAY_INFORMATION, length + 2 + link, CIRCUIT_ID, length].into_iter().chain(port.bytes()));
    out.extend(subnet.iter().flat_map(|it| [LINK_SELECTION, 4].into_iter().chain(it.octets())));
    Ok(ended(out))
}

/// A server's message as the host is to have it, and the port that leads there.
///
/// # Errors
/// The reason.
pub fn to_host(message: &[u8], locator: Ipv4Addr) -> Result<(&str, Vec<u8>), Refusal> {
    let (fixed, options) = split(message).map_err(malformed)?;
    if fixed[0] != BOOT_REPLY || fixed[RELAY] != locator.octets() {
        return Err("not_an_answer");
    }
    let information = option(options, RELAY_INFORMATION).map_err(malformed)?.ok_or("no_port")?;
    let port = option(information, CIRCUIT_ID).ok().flatten().ok_or("no_port")?;
    let port = std::str::from_utf8(port).map_err(|_| "no_port")?;
    Ok((port, ended(without_relay(fixed, options).map_err(malformed)?)))
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

/// Where the relay's address, the hardware address and the fields of names are.
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
const PORT_MAX: usize = 247;
/// RFC 1542, section 4.1.1.
const HOPS_MAX: u8 = 16;

#[cfg(test)]
mod tests {
    use dhcproto::v4::relay::{RelayAgentInformation, RelayInfo};
    use dhcproto::v4::{DhcpOption, Message, MessageType, Opcode, OptionCode, UnknownOption};
    use dhcproto::{Decodable as _, Encodable as _};
    use proptest::prelude::*;

    use super::*;

    const LA: Ipv4Addr = Ipv4Addr::new(10, 1, 1, 1);
    const SUBNET: Option<Ipv4Addr> = Some(Ipv4Addr::new(20, 0, 0, 0));

    /// A host's message, by a library that others wrote.
    fn discover() -> Message {
        let zero = Ipv4Addr::UNSPECIFIED;
        let mut message = Message::new_with_id(77, zero, zero, zero, zero, &[2, 0, 0, 0, 0, 5]);
        message.opts_mut().insert(DhcpOption::MessageType(MessageType::Discover));
        message
    }

    fn information(port: &str) -> DhcpOption {
        let mut information = RelayAgentInformation::default();
        information.insert(RelayInfo::AgentCircuitId(port.as_bytes().to_vec()));
        information.insert(RelayInfo::LinkSelection(SUBNET.unwrap()));
        DhcpOption::RelayAgentInformation(information)
    }

    fn changed(change: impl FnOnce(&mut Message)) -> Vec<u8> {
        let mut message = discover();
        change(&mut message);
        message.to_vec().unwrap()
    }

    #[test]
    fn a_request_says_by_which_port_it_came_and_the_answer_goes_back_there() {
        let carried = to_server(&discover().to_vec().unwrap(), LA, SUBNET, "p3").unwrap();
        let mut at_server = Message::from_bytes(&carried).unwrap();
        assert_eq!((at_server.giaddr(), at_server.hops(), at_server.xid()), (LA, 1, 77));
        assert_eq!(at_server.opts().get(OptionCode::RelayAgentInformation), Some(&information("p3")));
        let without = to_server(&discover().to_vec().unwrap(), LA, None, "p3").unwrap();
        let without = Message::from_bytes(&without).unwrap();
        let Some(DhcpOption::RelayAgentInformation(without)) = without.opts().get(OptionCode::RelayAgentInformation) else {
            panic!("no option 82")
        };
        assert_eq!(without.iter().count(), 1, "the port alone");
        at_server.set_opcode(Opcode::BootReply).set_yiaddr([20, 0, 0, 5]);
        let reply = at_server.to_vec().unwrap();
        let (port, answer) = to_host(&reply, LA).unwrap();
        let answer = Message::from_bytes(&answer).unwrap();
        assert_eq!((port, answer.yiaddr(), answer.chaddr()), ("p3", Ipv4Addr::new(20, 0, 0, 5), &[2, 0, 0, 0, 0, 5][..]));
        assert!(answer.opts().get(OptionCode::RelayAgentInformation).is_none(), "the host does not see it");
    }

    #[test]
    fn what_is_odd_is_not_carried() {
        let refused = |change: &dyn Fn(&mut Message)| to_server(&changed(change), LA, SUBNET, "p3").unwrap_err();
        assert_eq!(refused(&|m| _ = m.set_giaddr([10, 9, 9, 9])), "forged_relay");
        assert_eq!(refused(&|m| _ = m.set_opcode(Opcode::BootReply)), "not_a_request");
        assert_eq!(refused(&|m| _ = m.set_hops(16)), "too_many_hops");
        assert_eq!(refused(&|m| _ = m.opts_mut().insert(information("p9"))), "forged_relay");
        assert_eq!(to_server(&[1; 20], LA, SUBNET, "p3"), Err("malformed"));
        let mut long = discover().to_vec().unwrap();
        long[2] = 17;
        assert_eq!(to_server(&long, LA, SUBNET, "p3"), Err("malformed"));
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
            assert!(to_server(&bytes, LA, SUBNET, "p3").is_ok());
            bytes[at..at + 6].copy_from_slice(&[82, 4, 1, 2, b'p', b'9']);
            assert_eq!(to_server(&bytes, LA, SUBNET, "p3"), Err("forged_relay"), "{which} {at}");
        }
        // Without option 52 they are names.
        let mut bytes = discover().to_vec().unwrap();
        bytes[44..48].copy_from_slice(b"\x52\x02ab");
        assert!(to_server(&bytes, LA, SUBNET, "p3").is_ok());
        let strange = changed(|m| _ = m.opts_mut().insert(DhcpOption::OptionOverload(4)));
        assert_eq!(to_server(&strange, LA, SUBNET, "p3"), Err("malformed"));
    }

    proptest! {
        /// Beside the library: what is carried differs in nothing but what a relay says.
        #[test]
        fn all_else_goes_through(
            xid in any::<u32>(), hops in 0..16u8, port in "[a-z][a-z0-9]{0,14}",
            // Codes that the library does not look into; without a value it drops them.
            options in proptest::collection::btree_map(224..255u8, proptest::collection::vec(any::<u8>(), 1..200), 0..4),
        ) {
            let mut asked = discover();
            asked.set_xid(xid).set_hops(hops);
            for (code, value) in options {
                asked.opts_mut().insert(DhcpOption::Unknown(UnknownOption::new(code.into(), value)));
            }
            let carried = to_server(&asked.to_vec().unwrap(), LA, SUBNET, &port).unwrap();
            let mut expected = asked.clone();
            expected.set_hops(hops + 1).set_giaddr(LA).opts_mut().insert(information(&port));
            let mut at_server = Message::from_bytes(&carried).unwrap();
            prop_assert_eq!(&at_server, &expected);
            at_server.set_opcode(Opcode::BootReply);
            let reply = at_server.to_vec().unwrap();
            let (to, answer) = to_host(&reply, LA).unwrap();
            at_server.opts_mut().remove(OptionCode::RelayAgentInformation);
            prop_assert_eq!((to, Message::from_bytes(&answer).unwrap()), (port.as_str(), at_server));
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
        let _ = to_host(bytes, LA);
        let Ok(mut carried) = to_server(bytes, LA, SUBNET, "p3") else { return };
        let asked: Vec<_> = Options::of(&bytes[OPTIONS_AT..]).map(|it| it.unwrap()).collect();
        carried[0] = BOOT_REPLY;
        let (port, answer) = to_host(&carried, LA).unwrap();
        assert_eq!((port, Options::of(&answer[OPTIONS_AT..]).map(|it| it.unwrap()).collect::<Vec<_>>()), ("p3", asked));
        assert!(answer.len() >= MESSAGE_LEAST);
    }
}
