//! The addresses of a fabric's NICs.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::Arc;

use weft_fabric::addressing::{AddressError, PortAddressing};
use weft_fabric::{Fabric, HostId, LinkId};

use crate::wire::subways::NICS_MAX;

/// The addresses of all NICs of a fabric.
#[derive(Clone, Debug)]
pub struct AccessAddresses {
    fabric: Arc<Fabric>,
    /// By host, in the order of its cables.
    nics: Vec<Vec<Ipv4Addr>>,
    by_nic: BTreeMap<Ipv4Addr, (HostId, u8)>,
}

/// Addresses that do not fit the fabric.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)]
pub enum AddressesError {
    #[error("the fabric has no host `{0}`")]
    Unknown(String),
    #[error("host `{0}` of the fabric has no addresses")]
    Missing(String),
    #[error("host `{host}` has {nics} cables and {addresses} addresses")]
    Count { host: String, nics: usize, addresses: usize },
    #[error("`{first}` and `{second}` have the same address {address}")]
    Same { address: Ipv4Addr, first: String, second: String },
    #[error("host `{host}` has {nics} NICs; agents choose among {NICS_MAX} at most")]
    TooMany { host: String, nics: usize },
    #[error("no host of the fabric has several NICs: there is nothing to choose")]
    OneNic,
    #[error("the fabric cannot be numbered: {0}")]
    Number(AddressError),
}

impl AccessAddresses {
    /// Those that are given by host, in the order of its cables in the fabric; or else those of the fabric's own numbering.
    ///
    /// # Errors
    /// [`AddressesError`].
    pub fn new(fabric: Arc<Fabric>, given: Option<&BTreeMap<String, Vec<Ipv4Addr>>>) -> Result<Self, AddressesError> {
        let name = |host: HostId| fabric.node(host.node()).name.to_string();
        let cables = |host: HostId| fabric.out(host.node()).len();
        if let Some(host) = fabric.hosts().find(|&host| cables(host) > NICS_MAX) {
            return Err(AddressesError::TooMany { host: name(host), nics: cables(host) });
        }
        if fabric.hosts().all(|host| cables(host) < 2) {
            return Err(AddressesError::OneNic);
        }
        let nics: Vec<Vec<Ipv4Addr>> = match given {
            None => {
                let numbers = PortAddressing::new(&fabric).map_err(AddressesError::Number)?;
                fabric.hosts().map(|host| numbers.of(host).iter().map(|it| Ipv4Addr::from(it.0)).collect()).collect()
            }
            Some(given) => {
                let is_host = |name: &String| fabric.node_by_name(name).is_some_and(|node| fabric.as_host(node).is_some());
                if let Some(unknown) = given.keys().find(|name| !is_host(name)) {
                    return Err(AddressesError::Unknown(unknown.clone()));
                }
                let of = |host| given.get(&name(host)).cloned().ok_or_else(|| AddressesError::Missing(name(host)));
                fabric.hosts().map(of).collect::<Result<_, _>>()?
            }
        };
        let mut by_nic = BTreeMap::new();
        for (host, addresses) in fabric.hosts().zip(&nics) {
            if addresses.len() != cables(host) {
                return Err(AddressesError::Count { host: name(host), nics: cables(host), addresses: addresses.len() });
            }
            for (nic, &address) in (0..).zip(addresses) {
                if let Some((first, _)) = by_nic.insert(address, (host, nic)) {
                    return Err(AddressesError::Same { address, first: name(first), second: name(host) });
                }
            }
        }
        Ok(Self { fabric, nics, by_nic })
    }

    /// The fabric.
    pub const fn fabric(&self) -> &Arc<Fabric> {
        &self.fabric
    }

    /// The addresses of a host's NICs; the first is that of the host.
    pub fn of(&self, host: HostId) -> &[Ipv4Addr] {
        &self.nics[host.index()]
    }

    /// The host with that first address.
    pub fn host_of(&self, address: Ipv4Addr) -> Option<HostId> {
        self.by_nic.get(&address).filter(|(_, nic)| *nic == 0).map(|(host, _)| *host)
    }

    /// The NIC with that address.
    pub fn nic_of(&self, address: Ipv4Addr) -> Option<(HostId, u8)> {
        self.by_nic.get(&address).copied()
    }

    /// The link by which a NIC sends; `None` if the host has no such NIC.
    pub fn link(&self, host: HostId, nic: u8) -> Option<LinkId> {
        self.fabric.out(host.node()).get(usize::from(nic)).copied()
    }

    /// The NIC that sends by a link of its host.
    pub fn nic(&self, host: HostId, link: LinkId) -> Option<u8> {
        self.fabric.out(host.node()).iter().position(|&it| it == link).and_then(|nic| u8::try_from(nic).ok())
    }
}
