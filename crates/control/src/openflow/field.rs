//! Fields of a packet: OXM entries (1.3.5, section 7.2.3; 1.5.1, section 7.2.3).
//!
//! ```text
//!   0               2            23 bits     24         32
//!   +---------------+------------+---+--------+-----------------+--------+------+
//!   | class         | field      | M | length | [experimenter]  | value  | mask |     length counts what follows; M: there is a mask
//!   +---------------+------------+---+--------+-----------------+--------+------+
//! ```

use std::fmt;
use std::net::Ipv4Addr;

use smallvec::SmallVec;
use weft_fabric::MacAddr;

use super::error::ParseError;
use super::reader::{Reader, put8, put16, put32};

/// Which field: OpenFlow's own, a register of Open vSwitch, or any other by its numbers.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct FieldId {
    class: u16,
    number: u8,
    width: u8,
    experimenter: u32,
}

/// A field with a value, and the mask of the bits that count if not all do.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Field {
    id: FieldId,
    value: Octets,
    mask: Option<Octets>,
}

/// Some bits of a field: what `move` and `learn` copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FieldBits {
    /// Of which field.
    pub field: FieldId,
    /// The lowest bit.
    pub offset: u16,
}

type Octets = SmallVec<[u8; 8]>;

const NXM_OF: u16 = 0;
const NXM_NX: u16 = 1;
const BASIC: u16 = 0x8000;
const EXPERIMENTER: u16 = 0xffff;

/// The bytes of the fields of class 0x8000, by number; 0: there is no such field.
const BASIC_WIDTHS: [u8; 45] = [
    4, 4, 8, 6, 6, 2, 2, 1, 1, 1, 1, 4, 4, 2, 2, 2, 2, 2, 2, 1, 1, 2, 4, 4, 6, 6, 16, 16, 4, 1, 1, 16, 6, 6, 4, 1, 1, 3, 8, 2, 0,
    1, 2, 4, 4,
];
/// Open vSwitch has 16 registers of 32 bits.
const REGISTERS: u8 = 16;

impl FieldId {
    /// The port on which the packet came.
    pub const IN_PORT: Self = Self::basic(0);
    /// 64 bits that one table leaves to the next.
    pub const METADATA: Self = Self::basic(2);
    /// The Ethernet destination.
    pub const ETH_DST: Self = Self::basic(3);
    /// The Ethernet source.
    pub const ETH_SRC: Self = Self::basic(4);
    /// The Ethernet type.
    pub const ETH_TYPE: Self = Self::basic(5);
    /// The VLAN, with bit 12 set if there is a tag.
    pub const VLAN_VID: Self = Self::basic(6);
    /// The priority of the VLAN's tag.
    pub const VLAN_PCP: Self = Self::basic(7);
    /// The DSCP.
    pub const IP_DSCP: Self = Self::basic(8);
    /// The protocol above IP.
    pub const IP_PROTO: Self = Self::basic(10);
    /// The IPv4 source.
    pub const IPV4_SRC: Self = Self::basic(11);
    /// The IPv4 destination.
    pub const IPV4_DST: Self = Self::basic(12);
    /// The TCP source port.
    pub const TCP_SRC: Self = Self::basic(13);
    /// The TCP destination port.
    pub const TCP_DST: Self = Self::basic(14);
    /// The UDP source port.
    pub const UDP_SRC: Self = Self::basic(15);
    /// The UDP destination port.
    pub const UDP_DST: Self = Self::basic(16);
    /// The operation of ARP: 1 a request, 2 a reply.
    pub const ARP_OP: Self = Self::basic(21);
    /// The sender's IPv4 address in ARP.
    pub const ARP_SPA: Self = Self::basic(22);
    /// The target's IPv4 address in ARP.
    pub const ARP_TPA: Self = Self::basic(23);
    /// The sender's Ethernet address in ARP.
    pub const ARP_SHA: Self = Self::basic(24);
    /// The target's Ethernet address in ARP.
    pub const ARP_THA: Self = Self::basic(25);

    /// A 32-bit register of Open vSwitch: NXM_NX_REG0 and so on.
    ///
    /// # Panics
    /// If there is no such register: 0 to 15.
    pub const fn register(number: u8) -> Self {
        assert!(number < REGISTERS, "Open vSwitch has the registers 0 to 15");
        Self { class: NXM_NX, number, width: 4, experimenter: 0 }
    }

    /// Any field by its numbers, which an experimenter field has four of; None if it is a known one with another width, or one that cannot be.
    pub fn other(class: u16, number: u8, width: u8, experimenter: u32) -> Option<Self> {
        let id = Self { class, number, width, experimenter };
        let largest = if class == EXPERIMENTER { 0xff - 4 } else { 0xff };
        let right = id.known_width().is_none_or(|known| known == width) && (class == EXPERIMENTER || experimenter == 0);
        (right && number < 0x80 && width > 0 && width <= largest).then_some(id)
    }

    /// The bytes of a value.
    pub const fn width(self) -> u8 {
        self.width
    }

    /// The bits of a value that mean something.
    pub const fn bits(self) -> u16 {
        match (self.class, self.number) {
            (BASIC, 6) => 13,
            (BASIC, 7) => 3,
            (BASIC, 8) => 6,
            (BASIC, 9) => 2,
            (BASIC, 28 | 34) => 20,
            (BASIC, 36 | 41) => 1,
            (BASIC, 35) => 3,
            (BASIC, 39) => 9,
            (BASIC, 42) => 12,
            _ => self.width as u16 * 8,
        }
    }

    /// All bits from the lowest.
    pub const fn all_bits(self) -> FieldBits {
        FieldBits { field: self, offset: 0 }
    }

    const fn basic(number: u8) -> Self {
        Self { class: BASIC, number, width: BASIC_WIDTHS[number as usize], experimenter: 0 }
    }

    /// The width that the field must have; None: not a field known here.
    fn known_width(self) -> Option<u8> {
        match self.class {
            BASIC => BASIC_WIDTHS.get(usize::from(self.number)).copied().filter(|&width| width > 0),
            NXM_NX if self.number < REGISTERS => Some(4),
            _ => None,
        }
    }

    /// The order in a match. Within a class, numbers ascend from the prerequisites to what needs them.
    pub(super) const fn rank(self) -> (u8, u16, u8, u32, u8) {
        let first = match self.class {
            NXM_OF => 0,
            BASIC => 1,
            NXM_NX => 2,
            _ => 3,
        };
        (first, self.class, self.number, self.experimenter, self.width)
    }

    /// Appends the header, with the experimenter's number: what actions use as a name.
    pub(super) fn emit(self, masked: bool, out: &mut Vec<u8>) {
        put16(out, self.class);
        put8(out, self.number << 1 | u8::from(masked));
        let value = if masked { self.width * 2 } else { self.width };
        if self.class == EXPERIMENTER {
            put8(out, value + 4);
            put32(out, self.experimenter);
        } else {
            put8(out, value);
        }
    }

    /// Reads a header, and whether a mask follows.
    pub(super) fn parse(reader: &mut Reader<'_>) -> Result<(Self, bool), ParseError> {
        let class = reader.u16()?;
        let byte = reader.u8()?;
        let given = reader.u8()?;
        let (number, masked) = (byte >> 1, byte & 1 != 0);
        let wrong = ParseError::Length { part: "a field", given: given.into() };
        let (experimenter, length) =
            if class == EXPERIMENTER { (reader.u32()?, given.checked_sub(4).ok_or(wrong)?) } else { (0, given) };
        if masked && length % 2 != 0 {
            return Err(wrong);
        }
        let width = if masked { length / 2 } else { length };
        Self::other(class, number, width, experimenter).map(|id| (id, masked)).ok_or(wrong)
    }

    /// Reads the name of a field in an action, which has no mask.
    pub(super) fn parse_name(reader: &mut Reader<'_>) -> Result<Self, ParseError> {
        match Self::parse(reader)? {
            (id, false) => Ok(id),
            (id, true) => Err(ParseError::Value { part: "the mask bit of an action's field", given: id.number.into() }),
        }
    }
}

impl fmt::Debug for FieldId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const NAMES: [&str; 45] = [
            "in_port",
            "in_phy_port",
            "metadata",
            "eth_dst",
            "eth_src",
            "eth_type",
            "vlan_vid",
            "vlan_pcp",
            "ip_dscp",
            "ip_ecn",
            "ip_proto",
            "ipv4_src",
            "ipv4_dst",
            "tcp_src",
            "tcp_dst",
            "udp_src",
            "udp_dst",
            "sctp_src",
            "sctp_dst",
            "icmpv4_type",
            "icmpv4_code",
            "arp_op",
            "arp_spa",
            "arp_tpa",
            "arp_sha",
            "arp_tha",
            "ipv6_src",
            "ipv6_dst",
            "ipv6_flabel",
            "icmpv6_type",
            "icmpv6_code",
            "ipv6_nd_target",
            "ipv6_nd_sll",
            "ipv6_nd_tll",
            "mpls_label",
            "mpls_tc",
            "mpls_bos",
            "pbb_isid",
            "tunnel_id",
            "ipv6_exthdr",
            "field 40",
            "pbb_uca",
            "tcp_flags",
            "actset_output",
            "packet_type",
        ];
        match (self.class, NAMES.get(usize::from(self.number))) {
            (BASIC, Some(name)) => f.write_str(name),
            (NXM_NX, _) if self.number < REGISTERS => write!(f, "reg{}", self.number),
            _ => write!(f, "field {} of class {:#06x}", self.number, self.class),
        }
    }
}

impl Field {
    /// Any field; None if the value, or the mask, has not the field's width. Bits outside the mask are cleared.
    pub fn new(id: FieldId, value: &[u8], mask: Option<&[u8]>) -> Option<Self> {
        let width = usize::from(id.width);
        let fits = value.len() == width && mask.is_none_or(|mask| mask.len() == width && width * 2 + 4 <= 0xff);
        fits.then(|| {
            let mut value = Octets::from_slice(value);
            for (byte, mask) in value.iter_mut().zip(mask.unwrap_or_default()) {
                *byte &= mask;
            }
            Self { id, value, mask: mask.map(Octets::from_slice) }
        })
    }

    /// The port on which the packet came.
    pub fn in_port(port: u32) -> Self {
        Self::of(FieldId::IN_PORT, &port.to_be_bytes())
    }

    /// What earlier tables wrote.
    pub fn metadata(value: u64, mask: u64) -> Self {
        Self::masked(FieldId::METADATA, &(value & mask).to_be_bytes(), &mask.to_be_bytes())
    }

    /// The Ethernet destination.
    pub fn eth_dst(mac: MacAddr) -> Self {
        Self::of(FieldId::ETH_DST, &mac.0)
    }

    /// The Ethernet source.
    pub fn eth_src(mac: MacAddr) -> Self {
        Self::of(FieldId::ETH_SRC, &mac.0)
    }

    /// The Ethernet type.
    pub fn eth_type(ethertype: u16) -> Self {
        Self::of(FieldId::ETH_TYPE, &ethertype.to_be_bytes())
    }

    /// The VLAN of a tagged packet.
    pub fn vlan_vid(vlan: u16) -> Self {
        Self::of(FieldId::VLAN_VID, &(0x1000 | vlan & 0xfff).to_be_bytes())
    }

    /// The protocol above IP.
    pub fn ip_proto(protocol: u8) -> Self {
        Self::of(FieldId::IP_PROTO, &[protocol])
    }

    /// The IPv4 source.
    pub fn ipv4_src(address: Ipv4Addr) -> Self {
        Self::of(FieldId::IPV4_SRC, &address.octets())
    }

    /// The IPv4 destination.
    pub fn ipv4_dst(address: Ipv4Addr) -> Self {
        Self::of(FieldId::IPV4_DST, &address.octets())
    }

    /// A prefix of the IPv4 source.
    pub fn ipv4_src_prefix(prefix: ipnet::Ipv4Net) -> Self {
        Self::masked(FieldId::IPV4_SRC, &prefix.network().octets(), &prefix.netmask().octets())
    }

    /// A prefix of the IPv4 destination.
    pub fn ipv4_dst_prefix(prefix: ipnet::Ipv4Net) -> Self {
        Self::masked(FieldId::IPV4_DST, &prefix.network().octets(), &prefix.netmask().octets())
    }

    /// The TCP source port.
    pub fn tcp_src(port: u16) -> Self {
        Self::of(FieldId::TCP_SRC, &port.to_be_bytes())
    }

    /// The TCP destination port.
    pub fn tcp_dst(port: u16) -> Self {
        Self::of(FieldId::TCP_DST, &port.to_be_bytes())
    }

    /// The UDP source port.
    pub fn udp_src(port: u16) -> Self {
        Self::of(FieldId::UDP_SRC, &port.to_be_bytes())
    }

    /// The UDP destination port.
    pub fn udp_dst(port: u16) -> Self {
        Self::of(FieldId::UDP_DST, &port.to_be_bytes())
    }

    /// The operation of ARP.
    pub fn arp_op(operation: u16) -> Self {
        Self::of(FieldId::ARP_OP, &operation.to_be_bytes())
    }

    /// The sender's IPv4 address in ARP.
    pub fn arp_spa(address: Ipv4Addr) -> Self {
        Self::of(FieldId::ARP_SPA, &address.octets())
    }

    /// The target's IPv4 address in ARP.
    pub fn arp_tpa(address: Ipv4Addr) -> Self {
        Self::of(FieldId::ARP_TPA, &address.octets())
    }

    /// The sender's Ethernet address in ARP.
    pub fn arp_sha(mac: MacAddr) -> Self {
        Self::of(FieldId::ARP_SHA, &mac.0)
    }

    /// The target's Ethernet address in ARP.
    pub fn arp_tha(mac: MacAddr) -> Self {
        Self::of(FieldId::ARP_THA, &mac.0)
    }

    /// A register.
    ///
    /// # Panics
    /// If there is no such register: 0 to 15.
    pub fn register(number: u8, value: u32) -> Self {
        Self::of(FieldId::register(number), &value.to_be_bytes())
    }

    /// Which field.
    pub const fn id(&self) -> FieldId {
        self.id
    }

    /// The value, big-endian; as many bytes as the field has.
    pub fn value(&self) -> &[u8] {
        &self.value
    }

    /// The mask, as long as the value; None: all bits count.
    pub fn mask(&self) -> Option<&[u8]> {
        self.mask.as_deref()
    }

    /// The value as a number; None if it is wider than 64 bits.
    pub fn number(&self) -> Option<u64> {
        (self.value.len() <= 8).then(|| self.value.iter().fold(0, |sum, &byte| sum << 8 | u64::from(byte)))
    }

    fn of(id: FieldId, value: &[u8]) -> Self {
        Self::new(id, value, None).expect("a value of the field's width")
    }

    /// With a mask, unless it is of all bits.
    fn masked(id: FieldId, value: &[u8], mask: &[u8]) -> Self {
        let all = mask.iter().all(|&byte| byte == 0xff);
        Self::new(id, value, (!all).then_some(mask)).expect("a value and a mask of the field's width")
    }

    /// Appends the entry.
    pub(super) fn emit(&self, out: &mut Vec<u8>) {
        self.id.emit(self.mask.is_some(), out);
        out.extend_from_slice(&self.value);
        out.extend_from_slice(self.mask.as_deref().unwrap_or_default());
    }

    /// Reads an entry.
    pub(super) fn parse(reader: &mut Reader<'_>) -> Result<Self, ParseError> {
        let (id, masked) = FieldId::parse(reader)?;
        let width = usize::from(id.width);
        let value = reader.take(width)?;
        let mask = if masked { Some(reader.take(width)?) } else { None };
        Self::new(id, value, mask).ok_or(ParseError::Length { part: "a field", given: width })
    }
}
