//! Fields of a packet: OXM entries (1.3.5, section 7.2.3; 1.5.1, section 7.2.3).
//!
//! ```text
//!   0               2            23 bits     24         32
//!   +---------------+------------+---+--------+-----------------+--------+------+
//!   | class         | field      | M | length | [experimenter]  | value  | mask |     length counts what follows; M: there is a mask
//!   +---------------+------------+---+--------+-----------------+--------+------+
//! ```

use std::net::Ipv4Addr;

use smallvec::SmallVec;
use weft_fabric::MacAddr;

use super::error::ParseError;
use super::field_id::EXPERIMENTER;
pub use super::field_id::{FieldBits, FieldId};
use super::reader::{Reader, put8, put16, put32};

/// A field with a value, and the mask of the bits that count if not all do.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Field {
    id: FieldId,
    value: Octets,
    mask: Option<Octets>,
}

type Octets = SmallVec<[u8; 8]>;

impl FieldId {
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
