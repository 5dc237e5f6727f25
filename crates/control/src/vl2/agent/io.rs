//! What comes into the agent's machine and what goes out, and what it counts.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use smallvec::SmallVec;
use weft_fabric::MacAddr;

use super::AttachState;
use crate::directory::{GroupId, ServiceId};
use crate::time::Duration;
use crate::wire::packet::ip::Flow;
use crate::wire::vl2::attach::Code;

/// A peer as the addresses of one service of this host see it: what the directory lets them resolve differs from service to service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PeerKey {
    /// The service of this host's addresses.
    pub service: ServiceId,
    /// The peer's address.
    pub address: IpAddr,
}

/// What happens to an agent.
#[derive(Clone, Copy, Debug)]
pub enum Input<'a> {
    /// A datagram of a directory server came.
    Datagram {
        /// From which address.
        from: SocketAddr,
        /// Its bytes.
        bytes: &'a [u8],
    },
    /// A datagram of a ToR came.
    AttachDatagram {
        /// From which address.
        from: SocketAddr,
        /// Its bytes.
        bytes: &'a [u8],
    },
    /// An application wants the MAC address of `target`, by ARP or NDP.
    Asked {
        /// Whose MAC address.
        target: IpAddr,
        /// Who asks: an address of this host.
        asker: IpAddr,
        /// Where the answer goes.
        asker_mac: MacAddr,
    },
    /// The data plane has a packet and no peer for it. It stays with the caller under `token`.
    Missed {
        /// The address of this host that it is from or to.
        local: IpAddr,
        /// The other end.
        peer: IpAddr,
        /// Its length.
        bytes: usize,
        /// Comes back once, with [`Output::Release`] or [`Output::Drop`].
        token: u64,
    },
    /// A flow has lost a whole window.
    Congested(Flow),
    /// An address lives here from now on.
    Attach {
        /// The application address.
        address: IpAddr,
        /// Who has it below this host.
        mac: MacAddr,
    },
    /// It does not any longer.
    Detach(IpAddr),
    /// The data plane has this peer from an earlier agent.
    Adopted(PeerKey),
    /// How an [`Output::Announce`] went: the directory has this host's locator, or why not.
    Announced {
        /// The application address.
        address: IpAddr,
        /// Whether it is there.
        result: Result<(), Code>,
    },
    /// The directory servers to begin with; more are in [`DIRECTORY_GROUP`](super::DIRECTORY_GROUP).
    SetServers(&'a [SocketAddr]),
    /// The deadline has come.
    Timer,
}

/// What an agent wants done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Send a datagram to a directory server.
    Send {
        /// To this server.
        to: SocketAddr,
        /// These bytes.
        bytes: Vec<u8>,
    },
    /// Send a datagram to the ToR.
    SendAttach {
        /// To this ToR.
        to: SocketAddr,
        /// These bytes.
        bytes: Vec<u8>,
    },
    /// Packets may go to an address and come from it.
    SetPeer {
        /// The address, and for which service of this host.
        key: PeerKey,
        /// How.
        peer: Peer,
    },
    /// Packets to and from an address are to be dropped, without asking.
    RefusePeer {
        /// The address, and for which service of this host.
        key: PeerKey,
        /// Whether the directory forbids it; if not, it knows no such address.
        is_forbidden: bool,
    },
    /// Nothing is known of an address any longer.
    RemovePeer(PeerKey),
    /// The anycast addresses of a group, at least one.
    SetGroup {
        /// The group.
        group: GroupId,
        /// Its addresses.
        addresses: SmallVec<[Ipv4Addr; 4]>,
    },
    /// Nothing is known of a group any longer.
    RemoveGroup(GroupId),
    /// Packets from and to an address of this host may pass.
    SetLocal {
        /// The address.
        address: IpAddr,
        /// Its service.
        service: ServiceId,
        /// What carries the broadcasts of the service.
        multicast: Option<Ipv4Addr>,
    },
    /// They may not.
    RemoveLocal(IpAddr),
    /// Receive what is sent to a multicast address.
    Join(Ipv4Addr),
    /// Do not any longer.
    Leave(Ipv4Addr),
    /// Put a frame into the host's stack, as if the network had sent it.
    Inject(Vec<u8>),
    /// Send a packet on its way.
    Release(u64),
    /// Drop a packet.
    Drop {
        /// The packet.
        token: u64,
        /// Why.
        reason: Reason,
        /// Whether its sender, if it is on this host, is sent an ICMP error.
        by_icmp: bool,
    },
    /// Give a flow another path.
    Salt {
        /// The flow.
        flow: Flow,
        /// What is mixed into its hash.
        salt: u32,
    },
    /// Put this host's locator into the directory, for this address. The answer is [`Input::Announced`].
    Announce(IpAddr),
    /// What the ToR or the directory says of an address of this host has changed.
    Attachment {
        /// The address.
        address: IpAddr,
        /// What it says.
        state: AttachState,
    },
    /// The ToR has accepted sequences of this host that were ahead of its clock by this much: the clock was set back. Messages continue after them.
    SequenceAdvanced(Duration),
}

/// How packets reach an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// The last outer destination.
    pub locator: Ipv4Addr,
    /// The group whose anycast addresses come first; 0: none.
    pub group: GroupId,
    /// What answers ARP and NDP for it; none: the virtual MAC.
    pub mac: Option<MacAddr>,
}

macro_rules! reasons {
    ($($(#[doc = $doc:literal])+ $variant:ident = $name:literal,)+) => {
        /// Why a packet that waited was dropped, or a question not answered.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Reason {
            $($(#[doc = $doc])+ $variant,)+
        }

        impl Reason {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// Its name in status and metrics.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)+
                }
            }
        }
    };
}

reasons! {
    /// The directory does not let this host know the address.
    Forbidden = "held_forbidden",
    /// The directory knows no such address.
    Unknown = "held_unknown",
    /// No directory server answered.
    Unanswered = "held_unanswered",
    /// It waited for too long.
    Expired = "held_expired",
    /// Too much waits already.
    Full = "held_full",
    /// The mapping's group has no anycast addresses.
    NoGroup = "held_no_group",
    /// The locator is none that packets can be sent to over IPv4.
    Locator = "held_locator",
    /// From or to an address that is not one of this host's, or not yet.
    NotOwn = "held_not_own",
    /// Not an address in the prefixes of application addresses.
    NotApplication = "held_not_application",
}

/// What an agent has seen, counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AgentCounts {
    /// Packets that had no peer.
    pub missed: u64,
    /// Packets sent on.
    pub released: u64,
    /// Questions for MAC addresses.
    pub asked: u64,
    /// Questions answered.
    pub answered: u64,
    /// Packets dropped and questions not answered, by reason.
    pub dropped: BTreeMap<Reason, u64>,
    /// Mappings that the data plane had to stop using.
    pub invalidated: u64,
    /// Flows given another path.
    pub rehashed: u64,
    /// Congestion events that were over the limits.
    pub rehash_limited: u64,
    /// Times that the ToR had accepted a greater sequence than this host's clock gave: the clock was set back.
    pub sequence_advances: u64,
    /// Attach messages that were not a ToR's answer, or not tagged rightly.
    pub attach_refused: u64,
}
