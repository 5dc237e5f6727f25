//! Ethernet headers, with at most one 802.1Q tag.
//!
//! ```text
//!   0      6      12                    14                     n
//!   +------+------+---------------------+----------------------+
//!   | dst  | src  | [8100, tag 2] type 2|       payload        |
//!   +------+------+---------------------+----------------------+
//!   tag: priority 3, drop eligible 1, VLAN 12
//! ```

use weft_fabric::MacAddr;

use super::PacketError;

/// Bytes of a header without a tag.
pub const ETHERNET_HEADER: usize = 14;
/// The least length of a frame, without the check sequence.
pub const MIN_FRAME: usize = 60;
/// To everybody.
pub const BROADCAST: MacAddr = MacAddr([0xff; 6]);

/// What a frame carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EtherType(pub u16);

impl EtherType {
    /// IPv4.
    pub const IPV4: Self = Self(0x0800);
    /// ARP.
    pub const ARP: Self = Self(0x0806);
    /// An 802.1Q tag.
    pub const VLAN: Self = Self(0x8100);
    /// IPv6.
    pub const IPV6: Self = Self(0x86dd);
    /// NL-ARP; in a unicast, HERE. The first of IEEE 802's local experimental types.
    pub const NL_ARP: Self = Self(0x88b5);
    /// In a unicast, NOTHERE. The second of them.
    pub const NL_ARP_NOT_HERE: Self = Self(0x88b6);
    /// LLDP.
    pub const LLDP: Self = Self(0x88cc);
}

/// A VLAN: 1 to 4094.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VlanId(u16);

impl VlanId {
    /// The VLAN of this number, if it is one.
    pub const fn new(id: u16) -> Option<Self> {
        if id >= 1 && id <= 4094 { Some(Self(id)) } else { None }
    }

    /// Its number.
    pub const fn get(self) -> u16 {
        self.0
    }
}

/// The two bytes after 8100.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct VlanTag(pub u16);

impl VlanTag {
    /// The VLAN, unless it is 0 (priority only) or 4095.
    pub const fn vlan(self) -> Option<VlanId> {
        VlanId::new(self.0 & 0xfff)
    }
}

/// A frame taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ethernet<'a> {
    /// To.
    pub dst: MacAddr,
    /// From.
    pub src: MacAddr,
    /// The outermost tag, if there is one.
    pub tag: Option<VlanTag>,
    /// What is carried. A second tag counts as a payload of type 8100.
    pub ethertype: EtherType,
    /// All after the header, padding included.
    pub payload: &'a [u8],
}

impl<'a> Ethernet<'a> {
    /// Splits a frame.
    ///
    /// # Errors
    /// [`PacketError::Truncated`].
    pub fn parse(frame: &'a [u8]) -> Result<Self, PacketError> {
        let (dst, rest) = frame.split_first_chunk::<6>().ok_or(PacketError::Truncated)?;
        let (src, rest) = rest.split_first_chunk::<6>().ok_or(PacketError::Truncated)?;
        let (ethertype, mut payload) = rest.split_first_chunk::<2>().ok_or(PacketError::Truncated)?;
        let mut ethertype = EtherType(u16::from_be_bytes(*ethertype));
        let mut tag = None;
        if ethertype == EtherType::VLAN {
            let (&[a, b, c, d], rest) = payload.split_first_chunk::<4>().ok_or(PacketError::Truncated)?;
            tag = Some(VlanTag(u16::from_be_bytes([a, b])));
            ethertype = EtherType(u16::from_be_bytes([c, d]));
            payload = rest;
        }
        Ok(Self { dst: MacAddr(*dst), src: MacAddr(*src), tag, ethertype, payload })
    }

    /// Appends the frame, without padding.
    pub fn emit(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.dst.0);
        out.extend_from_slice(&self.src.0);
        if let Some(tag) = self.tag {
            out.extend_from_slice(&EtherType::VLAN.0.to_be_bytes());
            out.extend_from_slice(&tag.0.to_be_bytes());
        }
        out.extend_from_slice(&self.ethertype.0.to_be_bytes());
        out.extend_from_slice(self.payload);
    }
}
