//! What an agent reads of its edge switch's LLDP (section 3.7; IEEE 802.1AB, section 8).

use weft_fabric::MacAddr;

use crate::netlord::{EdgePort, Location};
use crate::wire::packet::PacketError;
use crate::wire::packet::ethernet::{EtherType, Ethernet};
use crate::wire::packet::lldp::{CHASSIS, END, NEAREST_BRIDGE, PORT, TTL, put, take};

/// An edge switch's announcement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lldp {
    /// The switch's MAC address, and its port to this server.
    pub location: Location,
    /// How long it holds, seconds; 0: the switch goes down.
    pub ttl_s: u16,
}

/// Why an announcement says nothing that an agent can use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum LldpError {
    /// It is malformed.
    #[error(transparent)]
    Frame(#[from] PacketError),
    /// The chassis id is not a MAC address.
    #[error("the switch's chassis id is not its MAC address: set its LLDP chassis subtype to MAC address (4)")]
    Chassis,
    /// The port id names no port.
    #[error("the switch's port id ends in no number: set its LLDP port subtype to interface name or local (5, 7)")]
    Port,
    /// The port has a number that cannot be encoded.
    #[error("the switch's port {0} is not 1 to 126: use other ports for servers")]
    PortNumber(u32),
}

impl Lldp {
    /// Reads a frame.
    ///
    /// # Errors
    /// [`LldpError`]; [`PacketError::Kind`] if it is not LLDP.
    pub fn parse(frame: &[u8]) -> Result<Self, LldpError> {
        let frame = Ethernet::parse(frame)?;
        if frame.ethertype != EtherType::LLDP {
            return Err(PacketError::Kind("LLDP").into());
        }
        let mut rest = frame.payload;
        let chassis = part(&mut rest, CHASSIS)?;
        let port = part(&mut rest, PORT)?;
        let ttl = part(&mut rest, TTL)?;
        let switch = match chassis {
            [4, mac @ ..] => MacAddr(mac.try_into().map_err(|_| LldpError::Chassis)?),
            _ => return Err(LldpError::Chassis),
        };
        if !crate::netlord::is_unicast(switch) {
            return Err(LldpError::Chassis);
        }
        let port = match port {
            [5 | 7, name @ ..] => port_number(name)?,
            _ => return Err(LldpError::Port),
        };
        let &[a, b, ..] = ttl else { return Err(PacketError::Truncated.into()) };
        Ok(Self { location: Location { switch, port }, ttl_s: u16::from_be_bytes([a, b]) })
    }

    /// Appends the frame that a switch would send, with the port's name, 1 to 255 bytes, from `src`.
    pub fn emit(&self, src: MacAddr, name: &str, out: &mut Vec<u8>) {
        Ethernet { dst: NEAREST_BRIDGE, src, tag: None, ethertype: EtherType::LLDP, payload: &[] }.emit(out);
        put(out, CHASSIS, &[&[4], &self.location.switch.0[..]].concat());
        put(out, PORT, &[&[5], name.as_bytes()].concat());
        put(out, TTL, &self.ttl_s.to_be_bytes());
        put(out, END, &[]);
    }
}

/// The value of the next part, which must be of this type.
fn part<'a>(rest: &mut &'a [u8], kind: u8) -> Result<&'a [u8], PacketError> {
    let (given, value) = take(rest)?;
    if given == kind { Ok(value) } else { Err(PacketError::Field("order of LLDP's parts")) }
}

/// The digits at a name's end.
fn port_number(name: &[u8]) -> Result<EdgePort, LldpError> {
    let digits = name.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
    let digits = std::str::from_utf8(&name[name.len() - digits..]).map_err(|_| LldpError::Port)?;
    if digits.is_empty() {
        return Err(LldpError::Port);
    }
    let number: u32 = digits.parse().map_err(|_| LldpError::PortNumber(u32::MAX))?;
    u16::try_from(number).ok().and_then(EdgePort::new).ok_or(LldpError::PortNumber(number))
}
