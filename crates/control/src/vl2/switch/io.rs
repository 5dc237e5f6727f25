//! Configuration, outputs and counters of a ToR's machine.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use weft_fabric::MacAddr;

use crate::directory::{Locator, PrincipalId, ServiceId};
use crate::time::{Duration, Instant};
use crate::wire::directory::Versions;
use crate::wire::vl2::attach::AttachKey;

/// Configuration of a ToR.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TorConfig {
    /// Who it is to the directory.
    pub principal: PrincipalId,
    /// Its locator: where its addresses are.
    pub locator: Locator,
    /// An address is forgotten when its host has not repeated its attach for so long.
    pub forget_after: Duration,
    /// The most addresses of one host.
    pub addresses_per_host: usize,
    /// The most reports of undeliverable packets per second,
    pub reports_per_s: u32,
    /// and of the same source and destination not sooner than after this.
    pub report_again: Duration,
    /// The nanoseconds since 1970: greater than all numbers that this principal ever used.
    pub first_number: u64,
    /// Of the protocols.
    pub versions: Versions,
}

impl TorConfig {
    /// The usual settings.
    pub const fn new(principal: PrincipalId, locator: Locator) -> Self {
        Self {
            principal,
            locator,
            forget_after: Duration::from_secs(90),
            addresses_per_host: 256,
            reports_per_s: 200,
            report_again: Duration::from_ms(100),
            first_number: 0,
            versions: Versions::OURS,
        }
    }
}

/// A host behind a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    /// Who it is.
    pub principal: PrincipalId,
    /// How it proves that.
    pub key: AttachKey,
    /// The switch's port, as the world numbers ports.
    pub port: u32,
    /// The source address of its messages.
    pub address: IpAddr,
}

/// What happens to a ToR.
#[derive(Clone, Debug)]
pub enum Input<'a> {
    /// A datagram came to the attach port.
    Attach {
        /// From which address,
        from: SocketAddr,
        /// by which port.
        port: u32,
        /// Its bytes.
        bytes: &'a [u8],
    },
    /// A datagram of a directory server came.
    Directory {
        /// To which socket.
        channel: Channel,
        /// From which address.
        from: SocketAddr,
        /// Its bytes.
        bytes: &'a [u8],
    },
    /// A packet for an address that is not here.
    Undeliverable {
        /// Its inner source.
        source: IpAddr,
        /// Its inner destination.
        destination: IpAddr,
    },
    /// The programs of a host have answered [`Output::Probe`].
    Present {
        /// For this address,
        address: IpAddr,
        /// by this port.
        port: u32,
    },
    /// The directory servers, from now on.
    SetServers(&'a [SocketAddr]),
    /// The hosts, from now on.
    SetHosts(Vec<Host>),
    /// The deadline has come.
    Timer,
}

/// The sockets to the directory: each has a port of its own, since a server counts requests by address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Channel {
    /// Lookups and reports.
    Enquiries,
    /// Updates.
    Updates,
}

/// What a ToR wants done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Answer a host.
    Answer {
        /// Where it asked from.
        to: SocketAddr,
        /// The datagram.
        bytes: Vec<u8>,
    },
    /// Send a datagram to a directory server.
    Send {
        /// By which socket.
        channel: Channel,
        /// Which server.
        to: SocketAddr,
        /// The datagram.
        bytes: Vec<u8>,
    },
    /// Deliver what comes for this address to this port.
    Insert {
        /// The address.
        address: IpAddr,
        /// The port.
        port: u32,
        /// Who has it there.
        mac: MacAddr,
        /// Its service, as the directory has it.
        service: ServiceId,
    },
    /// Ask the programs of the host at a port, by ARP, whether they have this address: its agent does not speak.
    Probe {
        /// The address.
        address: Ipv4Addr,
        /// The port.
        port: u32,
    },
    /// The address is not here any more.
    Remove {
        /// The address.
        address: IpAddr,
    },
}

/// An address that is here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Local {
    /// Of which host.
    pub principal: PrincipalId,
    /// Behind which port.
    pub port: u32,
    /// Who has it there.
    pub mac: MacAddr,
    /// Its service.
    pub service: ServiceId,
    /// When the host said so last.
    pub refreshed: Instant,
}

/// What has been counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Counts {
    /// Messages that led to an answer, by what became of them.
    pub attached: u64,
    pub detached: u64,
    pub refused: u64,
    /// Messages that were not looked at: no messages; of no host of this switch or not from its port; with a wrong tag; too old.
    pub malformed: u64,
    /// Messages of a version that is not spoken here, answered so.
    pub unsupported: u64,
    pub strangers: u64,
    pub bad_tags: u64,
    pub replayed: u64,
    /// Addresses whose hosts have fallen silent, programs and all.
    pub expired: u64,
    /// Times that a host's programs have answered in the place of its agent.
    pub present: u64,
    /// Samples of undeliverable packets: reported, and those that the limits kept back.
    pub reported: u64,
    pub unreported: u64,
}
