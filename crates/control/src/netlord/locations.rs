//! Where VIFs are: the interface between an agent and its source, NL-ARP ([`nl_arp`](super::nl_arp), push) or the directory ([`pull`](super::pull)).

use std::net::{IpAddr, SocketAddr};

use weft_fabric::{MacAddr, TenantId};

use super::{Location, MacSpace, Vif};
use crate::time::Instant;
use crate::wire::netlord::{NlArp, Question, Unicast};

/// What is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Query {
    /// In whose,
    pub tenant: TenantId,
    /// and which MAC space.
    pub space: MacSpace,
    /// What.
    pub what: Question,
}

impl Query {
    /// For a VIF by its MAC address.
    pub const fn vif(vif: Vif) -> Self {
        Self { tenant: vif.tenant, space: vif.space, what: Question::Mac(vif.mac) }
    }

    /// For the VIF with a MAC address.
    pub const fn mac(tenant: TenantId, space: MacSpace, mac: MacAddr) -> Self {
        Self { tenant, space, what: Question::Mac(mac) }
    }

    /// For the VIF with an address.
    pub const fn ip(tenant: TenantId, space: MacSpace, ip: IpAddr) -> Self {
        Self { tenant, space, what: Question::Ip(ip) }
    }
}

/// A VIF, and where it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Binding {
    /// Which.
    pub vif: Vif,
    /// Where.
    pub at: Location,
}

/// What happens to a location service.
#[derive(Clone, Copy, Debug)]
pub enum LocationInput<'a> {
    /// A VIF lives here from now on.
    Start {
        /// Which.
        vif: Vif,
        /// This server's place.
        at: Location,
        /// Its addresses.
        addresses: &'a [IpAddr],
    },
    /// It does not any more.
    Stop(Vif),
    /// It has lost an address to another.
    Release {
        /// Which.
        vif: Vif,
        /// Its address until now.
        ip: IpAddr,
    },
    /// Somebody is looked for who is not known; the end is [`LocationOutput::Sought`].
    Seek {
        /// The VIF of this server on whose behalf.
        asker: Vif,
        /// Whom.
        query: Query,
    },
    /// What is known may be stale: ask, and use it until the answer comes.
    Confirm(Query),
    /// A frame came for a VIF that is not here.
    Misdelivered {
        /// For whom.
        vif: Vif,
        /// This server's place.
        here: Location,
        /// Who sent it.
        sender: Query,
    },
    /// A message to all agents came.
    Broadcast {
        /// Where its sender is.
        from: Location,
        /// The message.
        message: NlArp,
    },
    /// A data plane that outlived the agent before sends frames for a VIF to a place.
    Adopt {
        /// Which.
        vif: Vif,
        /// Where.
        at: Location,
    },
    /// A message to this agent came.
    Unicast(Unicast),
    /// The directory servers, from now on.
    Servers(&'a [SocketAddr]),
    /// A datagram of a directory server came.
    Datagram {
        /// Of which.
        from: SocketAddr,
        /// Its bytes.
        bytes: &'a [u8],
    },
    /// The deadline has come.
    Timer,
}

/// What a location service wants done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LocationOutput {
    /// Broadcast to all agents.
    Broadcast(NlArp),
    /// Send to one.
    Unicast {
        /// Where it is.
        to: Location,
        /// What.
        message: Unicast,
    },
    /// Send a datagram to a directory server.
    Datagram {
        /// Which.
        to: SocketAddr,
        /// Its bytes.
        bytes: Vec<u8>,
    },
    /// A search has ended.
    Sought {
        /// For whom.
        query: Query,
        /// Found, or nobody has said.
        found: Option<Binding>,
    },
    /// Another server has announced an address of a VIF that lives here as that of another VIF.
    Claimed {
        /// Which lives here.
        vif: Vif,
        /// Its address.
        ip: IpAddr,
        /// The other VIF.
        by: Vif,
    },
    /// Another server has announced a VIF that lives here.
    Elsewhere {
        /// Which.
        vif: Vif,
        /// Where it is said to be.
        at: Location,
    },
    /// What was known of a VIF has changed: frames to it go elsewhere, or are to be held until it is found again.
    Moved {
        /// Which.
        vif: Vif,
        /// Where it is now, if that is known.
        at: Option<Location>,
    },
}

/// A location service. The caller drains [`poll`](Self::poll) after each [`handle`](Self::handle), and hands in [`LocationInput::Timer`] when
/// [`deadline`](Self::deadline) has come.
pub trait Locations {
    /// What is known now. `asker` is a VIF of this server, on whose behalf it is asked.
    fn find(&self, asker: Vif, query: Query) -> Option<Binding>;
    /// Whether others learn what is announced of a tenant's VIFs: if not, somebody else says which addresses they have.
    fn announces(&self, tenant: TenantId) -> bool;
    /// Something happened.
    fn handle(&mut self, now: Instant, input: LocationInput<'_>);
    /// What is to be done next.
    fn poll(&mut self) -> Option<LocationOutput>;
    /// When something is due.
    fn deadline(&self) -> Option<Instant>;
    /// Bytes that what is known takes, of remote VIFs.
    fn table_bytes(&self) -> usize;
}
