//! NL-ARP's messages (section 3.9). Each frame takes 64 bytes on the wire.
//!
//! ```text
//!   to all agents: Ethernet (ff:ff:ff:ff:ff:ff, ingress switch, special VLAN, 88b5) and
//!    0        1      2      3         6       10      16      20        36         40   42
//!   +--------+------+------+---------+-------+-------+-------+---------+----------+----+
//!   |ver,kind| port | about| tenant  | space |  MAC  | IPv4  |  IPv6   | question | 0  |
//!   +--------+------+------+---------+-------+-------+-------+---------+----------+----+
//!
//!   to one agent: inside the encapsulation to tenant 1, whose IPv4 source is the VIF's MAC space
//!    0              6               12      14        15          18                 22
//!   +--------------+---------------+-------+---------+-----------+------------------+
//!   | VIF's MAC    | edge switch   | 88b5/6| q, port | tenant    | IPv4 or question |
//!   +--------------+---------------+-------+---------+-----------+------------------+
//! ```

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use weft_fabric::{MacAddr, TenantId};

use crate::netlord::{EdgePort, Location, MacSpace, PROVIDER, Vif, is_space, is_unicast};
use crate::wire::packet::PacketError;
use crate::wire::packet::ethernet::{BROADCAST, EtherType, Ethernet, VlanId, VlanTag};

/// Bytes of a message to all.
pub const MESSAGE: usize = 42;
/// Bytes of the inner frame of a message to one.
pub const UNICAST: usize = 22;

const VERSION: u8 = 0x10;
const HERE: u8 = 1;
const NOT_HERE: u8 = 2;
const WHERE: u8 = 3;
const ABOUT_V4: u8 = 1;
const ABOUT_V6: u8 = 2;
const ABOUT_MAC: u8 = 4;
const IS_QUESTION: u8 = 0x80;
const CHIRP: u32 = 1;
const ANSWER: u32 = 2;
const CHIRPS_SPACE: MacSpace = MacSpace(1);

/// What stands in a chirp in place of a VIF.
const fn chirps(from: Location) -> Vif {
    Vif { tenant: PROVIDER, space: CHIRPS_SPACE, mac: from.switch }
}

/// Names a question among its asker's, so that its answer can be identified.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QuestionId(pub u32);

/// What is asked for, in a tenant's MAC space.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Question {
    /// The VIF with this MAC address.
    Mac(MacAddr),
    /// The VIF with this address.
    Ip(IpAddr),
}

/// A VIF is at the sender's place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Here {
    /// Which.
    pub vif: Vif,
    /// One of its IPv4 addresses.
    pub ip4: Option<Ipv4Addr>,
    /// One of its IPv6 addresses.
    pub ip6: Option<Ipv6Addr>,
}

/// A VIF is not at the sender's place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct NotHere {
    /// Which.
    pub vif: Vif,
}

/// Who has it?
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Where {
    /// In whose,
    pub tenant: TenantId,
    /// and which MAC space.
    pub space: MacSpace,
    /// What.
    pub about: Question,
    /// Names it.
    pub id: QuestionId,
}

/// A message to all agents.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NlArp {
    /// Location.
    Here(Here),
    /// Correction.
    NotHere(NotHere),
    /// Request.
    Where(Where),
}

impl NlArp {
    /// Reads a frame: the message, and where its sender is.
    ///
    /// # Errors
    /// [`PacketError::Kind`] if it is not NL-ARP to all, else what is wrong with it.
    pub fn parse(frame: &[u8]) -> Result<(Location, Self), PacketError> {
        let frame = Ethernet::parse(frame)?;
        if frame.ethertype != EtherType::NL_ARP || frame.dst != BROADCAST {
            return Err(PacketError::Kind("NL-ARP"));
        }
        if !is_unicast(frame.src) {
            return Err(PacketError::Field("ingress switch"));
        }
        let (bytes, _) = frame.payload.split_first_chunk::<MESSAGE>().ok_or(PacketError::Truncated)?;
        let (port, message) = Self::parse_body(bytes)?;
        Ok((Location { switch: frame.src, port }, message))
    }

    fn parse_body(bytes: &[u8; MESSAGE]) -> Result<(EdgePort, Self), PacketError> {
        if bytes[0] & 0xf0 != VERSION {
            return Err(PacketError::Version(bytes[0] >> 4));
        }
        let port = EdgePort::new(u16::from(bytes[1])).ok_or(PacketError::Field("port"))?;
        let tenant = TenantId(u32::from_be_bytes([0, bytes[3], bytes[4], bytes[5]]));
        let space = MacSpace(u32::from_be_bytes([bytes[6], bytes[7], bytes[8], bytes[9]]));
        if tenant.0 == 0 || !is_space(space) {
            return Err(PacketError::Field("tenant or MAC space"));
        }
        let present = |bit: u8, at: usize, length: usize| {
            let part = &bytes[at..at + length];
            match (bytes[2] & bit != 0, part.iter().all(|&byte| byte == 0)) {
                (false, false) => Err(PacketError::Field("part that is not there")),
                (is_there, _) => Ok(is_there.then_some(part)),
            }
        };
        let mac = present(ABOUT_MAC, 10, 6)?.map(|part| MacAddr(part.try_into().expect("6 bytes")));
        let ip4 = present(ABOUT_V4, 16, 4)?.map(|part| Ipv4Addr::new(part[0], part[1], part[2], part[3]));
        let ip6 = present(ABOUT_V6, 20, 16)?.map(|part| Ipv6Addr::from(<[u8; 16]>::try_from(part).expect("16 bytes")));
        let question = u32::from_be_bytes([bytes[36], bytes[37], bytes[38], bytes[39]]);
        if bytes[2] & !(ABOUT_MAC | ABOUT_V4 | ABOUT_V6) != 0 || bytes[40..42] != [0, 0] {
            return Err(PacketError::Field("reserved bits"));
        }
        if mac.is_some_and(|mac| !is_unicast(mac)) {
            return Err(PacketError::Field("MAC address"));
        }
        let vif = mac.map(|mac| Vif { tenant, space, mac });
        let message = match (bytes[0] & 0xf, vif, ip4, ip6, question) {
            (HERE, Some(vif), ip4, ip6, 0) => Self::Here(Here { vif, ip4, ip6 }),
            (NOT_HERE, Some(vif), None, None, 0) => Self::NotHere(NotHere { vif }),
            (WHERE, vif, ip4, ip6, id) => {
                let about = match (vif, ip4, ip6) {
                    (Some(vif), None, None) => Question::Mac(vif.mac),
                    (None, Some(ip), None) => Question::Ip(ip.into()),
                    (None, None, Some(ip)) => Question::Ip(ip.into()),
                    _ => return Err(PacketError::Field("question")),
                };
                Self::Where(Where { tenant, space, about, id: QuestionId(id) })
            }
            _ => return Err(PacketError::Field("message")),
        };
        Ok((port, message))
    }

    /// Appends the frame that says it to all, from an agent at `from`, on the VLAN that reaches all.
    pub fn emit(&self, from: Location, vlan: VlanId, out: &mut Vec<u8>) {
        let body = self.body(from.port);
        let tag = Some(VlanTag(vlan.get()));
        Ethernet { dst: BROADCAST, src: from.switch, tag, ethertype: EtherType::NL_ARP, payload: &body }.emit(out);
    }

    fn body(&self, port: EdgePort) -> [u8; MESSAGE] {
        let mut bytes = [0; MESSAGE];
        let (kind, tenant, space, mac, ip4, ip6, question) = match *self {
            Self::Here(Here { vif, ip4, ip6 }) => (HERE, vif.tenant, vif.space, Some(vif.mac), ip4, ip6, 0),
            Self::NotHere(NotHere { vif }) => (NOT_HERE, vif.tenant, vif.space, Some(vif.mac), None, None, 0),
            Self::Where(Where { tenant, space, about, id }) => match about {
                Question::Mac(mac) => (WHERE, tenant, space, Some(mac), None, None, id.0),
                Question::Ip(IpAddr::V4(ip)) => (WHERE, tenant, space, None, Some(ip), None, id.0),
                Question::Ip(IpAddr::V6(ip)) => (WHERE, tenant, space, None, None, Some(ip), id.0),
            },
        };
        bytes[0] = VERSION | kind;
        bytes[1] = port.get();
        bytes[3..6].copy_from_slice(&tenant.0.to_be_bytes()[1..]);
        bytes[6..10].copy_from_slice(&space.0.to_be_bytes());
        if let Some(mac) = mac {
            bytes[2] |= ABOUT_MAC;
            bytes[10..16].copy_from_slice(&mac.0);
        }
        if let Some(ip) = ip4 {
            bytes[2] |= ABOUT_V4;
            bytes[16..20].copy_from_slice(&ip.octets());
        }
        if let Some(ip) = ip6 {
            bytes[2] |= ABOUT_V6;
            bytes[20..36].copy_from_slice(&ip.octets());
        }
        bytes[36..40].copy_from_slice(&question.to_be_bytes());
        bytes
    }
}

/// A message to one agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Unicast {
    /// The VIF is at this place.
    Here {
        /// Which.
        vif: Vif,
        /// Where it is.
        at: Location,
        /// One of its addresses, if it has one and no question is answered by its number.
        ip4: Option<Ipv4Addr>,
        /// The question that is answered.
        answers: Option<QuestionId>,
    },
    /// The VIF is not at this place.
    NotHere {
        /// Which.
        vif: Vif,
        /// Where it is not.
        at: Location,
    },
    /// A sign of life of the path that it came by (section 6: SPAIN's chirps).
    Chirp {
        /// Where its sender is.
        from: Location,
        /// It was asked for.
        is_answer: bool,
    },
}

impl Unicast {
    /// Reads an inner frame of tenant 1, whose encapsulation has this MAC space.
    ///
    /// # Errors
    /// [`PacketError::Kind`] if it is not NL-ARP, else what is wrong with it.
    pub fn parse(space: MacSpace, inner: &[u8]) -> Result<Self, PacketError> {
        let frame = Ethernet::parse(inner)?;
        let is_here = match frame.ethertype {
            EtherType::NL_ARP => true,
            EtherType::NL_ARP_NOT_HERE => false,
            _ => return Err(PacketError::Kind("NL-ARP")),
        };
        if frame.tag.is_some() {
            return Err(PacketError::Field("tag"));
        }
        let (body, _) = frame.payload.split_first_chunk::<8>().ok_or(PacketError::Truncated)?;
        let port = EdgePort::new(u16::from(body[0] & !IS_QUESTION)).ok_or(PacketError::Field("port"))?;
        let tenant = TenantId(u32::from_be_bytes([0, body[1], body[2], body[3]]));
        let last = u32::from_be_bytes([body[4], body[5], body[6], body[7]]);
        if tenant.0 == 0 || !is_space(space) {
            return Err(PacketError::Field("tenant or MAC space"));
        }
        if !is_unicast(frame.dst) || !is_unicast(frame.src) {
            return Err(PacketError::Field("MAC address"));
        }
        let vif = Vif { tenant, space, mac: frame.dst };
        let at = Location { switch: frame.src, port };
        Ok(match (is_here, body[0] & IS_QUESTION != 0, last) {
            (true, true, id) => Self::Here { vif, at, ip4: None, answers: Some(QuestionId(id)) },
            (true, false, 0) => Self::Here { vif, at, ip4: None, answers: None },
            (true, false, ip) => Self::Here { vif, at, ip4: Some(ip.into()), answers: None },
            (false, false, 0) => Self::NotHere { vif, at },
            (false, true, CHIRP | ANSWER) if vif == chirps(at) => Self::Chirp { from: at, is_answer: last == ANSWER },
            _ => return Err(PacketError::Field("message")),
        })
    }

    /// The MAC space that its encapsulation bears.
    pub const fn space(&self) -> MacSpace {
        match self {
            Self::Here { vif, .. } | Self::NotHere { vif, .. } => vif.space,
            Self::Chirp { .. } => CHIRPS_SPACE,
        }
    }

    /// The inner frame.
    pub fn emit(&self) -> [u8; UNICAST] {
        let (vif, at, ethertype, question, last) = match *self {
            Self::Here { vif, at, answers: Some(id), .. } => (vif, at, EtherType::NL_ARP, IS_QUESTION, id.0),
            Self::Here { vif, at, ip4, .. } => (vif, at, EtherType::NL_ARP, 0, ip4.map_or(0, u32::from)),
            Self::NotHere { vif, at } => (vif, at, EtherType::NL_ARP_NOT_HERE, 0, 0),
            Self::Chirp { from, is_answer } => {
                let last = if is_answer { ANSWER } else { CHIRP };
                (chirps(from), from, EtherType::NL_ARP_NOT_HERE, IS_QUESTION, last)
            }
        };
        let mut bytes = [0; UNICAST];
        bytes[..6].copy_from_slice(&vif.mac.0);
        bytes[6..12].copy_from_slice(&at.switch.0);
        bytes[12..14].copy_from_slice(&ethertype.0.to_be_bytes());
        bytes[14] = question | at.port.get();
        bytes[15..18].copy_from_slice(&vif.tenant.0.to_be_bytes()[1..]);
        bytes[18..22].copy_from_slice(&last.to_be_bytes());
        bytes
    }
}
