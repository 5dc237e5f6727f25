//! Who is who between a fabric, the agents of its hosts, and its intermediate switches.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use weft_fabric::routing::FlowKey;
use weft_fabric::{Fabric, HostId, SwitchId};

use crate::directory::key::PrincipalId;
use crate::wire::packet::ip::Flow;
use crate::wire::vl2::placement::PlacementKey;

/// A host as its agent names it.
#[derive(Clone, Debug)]
pub struct AgentHost {
    /// Its principal.
    pub principal: PrincipalId,
    /// Its key.
    pub key: PlacementKey,
    /// Its application addresses.
    pub addresses: Vec<IpAddr>,
}

/// The fabric's parts as agents name them.
#[derive(Clone, Debug)]
pub struct AgentIdentities {
    fabric: Arc<Fabric>,
    hosts: Vec<AgentHost>,
    by_principal: BTreeMap<PrincipalId, HostId>,
    by_address: BTreeMap<IpAddr, HostId>,
    locators: BTreeMap<SwitchId, Ipv4Addr>,
    by_locator: BTreeMap<Ipv4Addr, SwitchId>,
}

/// Parts that have the same name, or that cannot be steered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)]
pub enum AgentIdentityError {
    #[error("the hosts `{first}` and `{second}` have the same principal {principal}")]
    SamePrincipal { principal: u32, first: String, second: String },
    #[error("the hosts `{first}` and `{second}` have the same address {address}")]
    SameAddress { address: IpAddr, first: String, second: String },
    #[error("the switches `{first}` and `{second}` have the same locator {locator}")]
    SameLocator { locator: Ipv4Addr, first: String, second: String },
    #[error("host `{host}` has {nics} NICs: agents steer flows of hosts with one")]
    SeveralNics { host: String, nics: usize },
}

impl AgentIdentities {
    /// Identities of a fabric: `hosts` in its order, and the locators of the switches over which flows can be placed.
    ///
    /// # Errors
    /// [`AgentIdentityError`].
    pub fn new(
        fabric: Arc<Fabric>,
        hosts: Vec<AgentHost>,
        locators: BTreeMap<SwitchId, Ipv4Addr>,
    ) -> Result<Self, AgentIdentityError> {
        let name = |host: HostId| fabric.node(host.node()).name.to_string();
        let (mut by_principal, mut by_address) = (BTreeMap::new(), BTreeMap::new());
        for (host, identity) in fabric.hosts().zip(&hosts) {
            let nics = fabric.out(host.node()).len();
            if nics > 1 {
                return Err(AgentIdentityError::SeveralNics { host: name(host), nics });
            }
            if let Some(first) = by_principal.insert(identity.principal, host) {
                let (first, second) = (name(first), name(host));
                return Err(AgentIdentityError::SamePrincipal { principal: identity.principal.0, first, second });
            }
            for &address in &identity.addresses {
                if let Some(first) = by_address.insert(address, host) {
                    return Err(AgentIdentityError::SameAddress { address, first: name(first), second: name(host) });
                }
            }
        }
        let name = |switch: SwitchId| fabric.node(fabric.switch_node(switch)).name.to_string();
        let mut by_locator = BTreeMap::new();
        for (&switch, &locator) in &locators {
            if let Some(first) = by_locator.insert(locator, switch) {
                return Err(AgentIdentityError::SameLocator { locator, first: name(first), second: name(switch) });
            }
        }
        Ok(Self { fabric, hosts, by_principal, by_address, locators, by_locator })
    }

    /// The fabric.
    pub const fn fabric(&self) -> &Arc<Fabric> {
        &self.fabric
    }

    /// A host.
    pub fn host(&self, host: HostId) -> &AgentHost {
        &self.hosts[host.index()]
    }

    /// The host of a principal.
    pub fn host_of(&self, principal: PrincipalId) -> Option<HostId> {
        self.by_principal.get(&principal).copied()
    }

    /// The locator of a switch, if flows can be placed over it.
    pub fn locator(&self, switch: SwitchId) -> Option<Ipv4Addr> {
        self.locators.get(&switch).copied()
    }

    /// The reverse.
    pub fn switch_of(&self, locator: Ipv4Addr) -> Option<SwitchId> {
        self.by_locator.get(&locator).copied()
    }

    /// A flow as schedulers name it, if both of its ends are hosts of the fabric.
    pub fn key_of(&self, flow: &Flow) -> Option<FlowKey> {
        let of = |address: &IpAddr| self.by_address.get(address).copied();
        let (src, dst) = (of(&flow.source)?, of(&flow.destination)?);
        (src != dst).then_some(FlowKey { src, dst, sport: flow.source_port, dport: flow.destination_port })
    }
}
