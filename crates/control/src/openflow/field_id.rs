//! Which field of a packet: the numbers by which OXM entries name it (1.3.5, section 7.2.3).

use std::fmt;

/// Which field: OpenFlow's own, a register of Open vSwitch, or any other by its numbers.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct FieldId {
    pub(super) class: u16,
    pub(super) number: u8,
    pub(super) width: u8,
    pub(super) experimenter: u32,
}

/// Some bits of a field: what `move` and `learn` copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FieldBits {
    /// Of which field.
    pub field: FieldId,
    /// The lowest bit.
    pub offset: u16,
}

const NXM_OF: u16 = 0;
const NXM_NX: u16 = 1;
const BASIC: u16 = 0x8000;
pub(super) const EXPERIMENTER: u16 = 0xffff;

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
