//! VIFs of this server: those that it has, and those that it is to have.

use std::net::IpAddr;
use std::time::Instant;

use weft_control::netlord::Vif;

use crate::socket::PendingRequest;

/// A VIF that is to be attached whenever its interface is there: a VM that is started again has a new one of the same name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Wanted {
    pub device: String,
    pub tenant: String,
    pub name: String,
}

/// A command that waits for the directory's records of a VIF.
#[derive(Debug)]
pub(super) struct Attaching {
    pub asked: PendingRequest,
    pub wanted: Wanted,
    pub until: Instant,
}

/// A VIF of this server.
#[derive(Clone, Debug)]
pub(super) struct OwnVif {
    pub device: String,
    pub tenant: String,
    pub name: String,
    pub vif: Vif,
    /// As the file has them; the machine may have learnt more.
    pub addresses: Vec<IpAddr>,
    /// What the table of VIFs says: what it is, and the interface by which it sends.
    pub written: Option<(Vif, Option<u32>)>,
}

impl OwnVif {
    pub fn is(&self, wanted: &Wanted) -> bool {
        (&self.device, &self.tenant, &self.name) == (&wanted.device, &wanted.tenant, &wanted.name)
    }
}
