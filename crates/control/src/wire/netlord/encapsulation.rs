//! The encapsulation of a tenant's frame (section 3.5).
//!
//! ```text
//!   0               6               12              16      18                              38
//!   +---------------+---------------+---------------+-------+-------------------------------+---------------+
//!   | edge switch   | edge switch   | 8100 |  VLAN  | 0800  |          IPv4 header          | inner frame   |
//!   | of destination| of source     |      |        |       |                               |               |
//!   +---------------+---------------+---------------+-------+-------------------------------+---------------+
//!   IPv4: id = VLAN, Don't Fragment, protocol 143, source = MAC space id, destination = port (8), tenant (24)
//! ```
//! Between servers of one edge switch the source is the sender's own MAC, there is no tag, and the id is 0. To all of a MAC space the destination is 239.tenant and
//! its multicast MAC.

use weft_fabric::{MacAddr, TenantId};

use crate::netlord::{EdgePort, MacSpace, is_space};
use crate::wire::packet::PacketError;
use crate::wire::packet::checksum;
use crate::wire::packet::ethernet::{ETHERNET_HEADER, EtherType, Ethernet, MIN_FRAME, VlanId, VlanTag};

/// What the encapsulation takes of a link's MTU: the IPv4 header and the inner Ethernet header.
pub const OVERHEAD: usize = IPV4_HEADER + ETHERNET_HEADER;
/// IPv4's protocol number for Ethernet.
pub const PROTOCOL: u8 = 143;
/// Time to live of what an agent sends; the egress switch takes one off.
const TTL: u8 = 64;
const IPV4_HEADER: usize = 20;
const DONT_FRAGMENT: u16 = 0x4000;
/// The first byte of the address of all of a tenant.
const GROUP: u8 = 239;

/// To whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Recipient {
    /// The server at this port of the edge switch.
    Port(EdgePort),
    /// All servers.
    Group,
}

/// What the IPv4 header says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Overlay {
    /// To whom.
    pub to: Recipient,
    /// Whose frame it is.
    pub tenant: TenantId,
    /// In which of the tenant's MAC spaces.
    pub space: MacSpace,
    /// The copy of the VLAN; `None`: both servers are at one switch.
    pub vlan: Option<VlanId>,
}

/// An encapsulated frame taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Encapsulation<'a> {
    /// The outer destination: the egress edge switch; after its last hop, the agent.
    pub dst: MacAddr,
    /// The outer source.
    pub src: MacAddr,
    /// The outer tag's VLAN; a receiver mostly does not see it.
    pub tag: Option<VlanId>,
    /// What the IPv4 header says.
    pub overlay: Overlay,
    /// The tenant's frame.
    pub inner: &'a [u8],
}

impl<'a> Encapsulation<'a> {
    /// Takes a frame apart.
    ///
    /// # Errors
    /// [`PacketError::Kind`] if it is not IPv4 with protocol 143, else what is wrong with it.
    pub fn parse(frame: &'a [u8]) -> Result<Self, PacketError> {
        let outer = Ethernet::parse(frame)?;
        if outer.ethertype != EtherType::IPV4 {
            return Err(PacketError::Kind("an encapsulation"));
        }
        let (overlay, inner) = Overlay::parse(outer.payload)?;
        Ok(Self { dst: outer.dst, src: outer.src, tag: outer.tag.and_then(VlanTag::vlan), overlay, inner })
    }

    /// Appends the frame, padded to the least length.
    ///
    /// # Panics
    /// If the inner frame is longer than IPv4 can carry; agents check it against the MTU.
    pub fn emit(&self, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&self.dst.0);
        out.extend_from_slice(&self.src.0);
        if let Some(vlan) = self.tag {
            out.extend_from_slice(&EtherType::VLAN.0.to_be_bytes());
            out.extend_from_slice(&vlan.get().to_be_bytes());
        }
        out.extend_from_slice(&EtherType::IPV4.0.to_be_bytes());
        out.extend_from_slice(&self.overlay.header(self.inner.len()));
        out.extend_from_slice(self.inner);
        if out.len() - start < MIN_FRAME {
            out.resize(start + MIN_FRAME, 0);
        }
    }
}

impl Overlay {
    /// The header and what it carries, without padding.
    fn parse(packet: &[u8]) -> Result<(Self, &[u8]), PacketError> {
        let (header, _) = packet.split_first_chunk::<IPV4_HEADER>().ok_or(PacketError::Truncated)?;
        let u16_at = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
        if header[9] != PROTOCOL {
            return Err(PacketError::Kind("an encapsulation"));
        }
        if header[0] != 0x45 {
            return Err(PacketError::Field("IPv4 version or options"));
        }
        if checksum(0, header) != 0 {
            return Err(PacketError::Checksum);
        }
        if u16_at(6) != DONT_FRAGMENT {
            return Err(PacketError::Field("flags"));
        }
        if header[8] == 0 {
            return Err(PacketError::Field("time to live"));
        }
        let vlan = match u16_at(4) {
            0 => None,
            id => Some(VlanId::new(id).ok_or(PacketError::Field("VLAN copy"))?),
        };
        let inner = packet.get(IPV4_HEADER..usize::from(u16_at(2))).ok_or(PacketError::Field("length"))?;
        if inner.len() < ETHERNET_HEADER {
            return Err(PacketError::Field("length"));
        }
        let space = MacSpace(u32::from_be_bytes([header[12], header[13], header[14], header[15]]));
        if !is_space(space) {
            return Err(PacketError::Field("MAC space"));
        }
        let tenant = TenantId(u32::from_be_bytes([0, header[17], header[18], header[19]]));
        if tenant.0 == 0 {
            return Err(PacketError::Field("tenant"));
        }
        let to = match header[16] {
            GROUP => Recipient::Group,
            port => Recipient::Port(EdgePort::new(u16::from(port)).ok_or(PacketError::Field("port"))?),
        };
        Ok((Self { to, tenant, space, vlan }, inner))
    }

    /// The IPv4 header before an inner frame of this length.
    pub fn header(&self, inner: usize) -> [u8; IPV4_HEADER] {
        let total = u16::try_from(IPV4_HEADER + inner).expect("an MTU fits IPv4");
        let mut header = [0; IPV4_HEADER];
        header[0] = 0x45;
        header[2..4].copy_from_slice(&total.to_be_bytes());
        header[4..6].copy_from_slice(&self.vlan.map_or(0, VlanId::get).to_be_bytes());
        header[6..8].copy_from_slice(&DONT_FRAGMENT.to_be_bytes());
        header[8] = TTL;
        header[9] = PROTOCOL;
        header[12..16].copy_from_slice(&self.space.0.to_be_bytes());
        header[16..20].copy_from_slice(&self.destination());
        let sum = checksum(0, &header);
        header[10..12].copy_from_slice(&sum.to_be_bytes());
        header
    }

    /// The destination address: `p.t.t.t`, or `239.t.t.t`.
    pub const fn destination(&self) -> [u8; 4] {
        let [_, a, b, c] = self.tenant.0.to_be_bytes();
        let first = match self.to {
            Recipient::Port(port) => port.get(),
            Recipient::Group => GROUP,
        };
        [first, a, b, c]
    }
}

/// The outer destination of a tenant's broadcasts: its multicast group's address (RFC 1112, section 6.4).
pub const fn group_mac(tenant: TenantId) -> MacAddr {
    let [_, a, b, c] = tenant.0.to_be_bytes();
    MacAddr([0x01, 0x00, 0x5e, a & 0x7f, b, c])
}
