//! What was found as a fabric.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use weft_fabric::topology::{FabricBuilder, FabricError};
use weft_fabric::{BitsPerSec, Duration, HostId, MacAddr, SwitchId};

use super::{Discovery, Host};
use crate::openflow::lldp::SwitchPort;
use crate::openflow::network::{HostIdentity, Identities, IdentityError};

/// What was found, as the scheduler needs it.
#[derive(Debug)]
pub struct DiscoveredFabric {
    /// The fabric, its datapaths, ports and addresses. Switches are named by their tier, hosts by the order of their addresses.
    pub identities: Identities,
    /// Ports with a link at which nobody was heard.
    pub unheard: Vec<SwitchPort>,
    /// Datapaths that have refused something, such as the rules by which discovery listens.
    pub refusing: Vec<u64>,
}

/// Why what was found is no fabric that the scheduler can steer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DiscoveryError {
    /// No switch has connected.
    #[error("no switch has connected")]
    NoSwitches,
    /// No host was heard.
    #[error("no host has sent ARP")]
    NoHosts,
    /// Several hosts at one port.
    #[error("two hosts at port {} of datapath {:016x}: {first} and {second}", at.port, at.datapath)]
    SharedPort {
        /// Where.
        at: SwitchPort,
        /// One of them.
        first: MacAddr,
        /// The other.
        second: MacAddr,
    },
    /// How fast a cable is cannot be known.
    #[error("datapath {:016x} does not say how fast its port {} is", .0.datapath, .0.port)]
    NoSpeed(SwitchPort),
    /// The parts are no fabric.
    #[error(transparent)]
    Fabric(#[from] FabricError),
    /// Two parts have the same name.
    #[error(transparent)]
    Identity(#[from] IdentityError),
}

impl Discovery {
    /// The fabric that was found. Cables have `rate`; if it is not given, that of the slower of their ports.
    ///
    /// # Errors
    /// [`DiscoveryError`].
    pub fn fabric(&self, rate: Option<BitsPerSec>) -> Result<DiscoveredFabric, DiscoveryError> {
        if self.switches.is_empty() {
            return Err(DiscoveryError::NoSwitches);
        }
        let hosts = self.hosts_by_address()?;
        let tiers = self.tiers(hosts.iter().map(|(_, host)| host.at.datapath));
        let mut builder = FabricBuilder::new("A fabric that was discovered");
        let ids: Vec<HostId> = (0..hosts.len()).map(|i| builder.host(format!("h{i}"), None)).collect();
        let switches = self.add_switches(&mut builder, &tiers);
        let mut ports = Vec::new();
        for (&id, (_, host)) in ids.iter().zip(&hosts) {
            builder.cable(id, switches[&host.at.datapath], self.speed(host.at, rate)?, DELAY);
            ports.extend([0, host.at.port]);
        }
        for (&a, &b) in self.cables.iter().filter(|(a, b)| a < b) {
            let speed = self.speed(a, rate)?.min(self.speed(b, rate)?);
            builder.cable(switches[&a.datapath], switches[&b.datapath], speed, DELAY);
            ports.extend([a.port, b.port]);
        }
        let mut datapaths: Vec<(SwitchId, u64)> = switches.into_iter().map(|(datapath, switch)| (switch, datapath)).collect();
        datapaths.sort_unstable();
        let datapaths = datapaths.into_iter().map(|(_, datapath)| datapath).collect();
        let identity = |&(mac, host): &(MacAddr, Host)| HostIdentity { address: host.address, mac };
        let identities = Identities::with(Arc::new(builder.build()?), datapaths, ports, hosts.iter().map(identity).collect())?;
        let refusing = self.switches.iter().filter(|(_, switch)| switch.refused > 0).map(|(&datapath, _)| datapath).collect();
        Ok(DiscoveredFabric { identities, unheard: self.unheard(), refusing })
    }

    fn hosts_by_address(&self) -> Result<Vec<(MacAddr, Host)>, DiscoveryError> {
        let mut at: BTreeMap<SwitchPort, MacAddr> = BTreeMap::new();
        for (&second, host) in &self.hosts {
            if let Some(first) = at.insert(host.at, second) {
                return Err(DiscoveryError::SharedPort { at: host.at, first, second });
            }
        }
        let mut hosts: Vec<(MacAddr, Host)> = self.hosts.iter().map(|(&mac, &host)| (mac, host)).collect();
        hosts.sort_by_key(|(mac, host)| (host.address, *mac));
        if hosts.is_empty() { Err(DiscoveryError::NoHosts) } else { Ok(hosts) }
    }

    /// The tier of each switch: those of hosts 1, and one more for each cable away from those. What no cable leads to is 1 as well.
    fn tiers(&self, edges: impl Iterator<Item = u64>) -> BTreeMap<u64, u8> {
        let mut tiers: BTreeMap<u64, u8> = edges.map(|datapath| (datapath, 1)).collect();
        let mut next: VecDeque<u64> = tiers.keys().copied().collect();
        while let Some(from) = next.pop_front() {
            let tier = tiers[&from].saturating_add(1);
            let port = |port| SwitchPort { datapath: from, port };
            for to in self.cables.range(port(0)..=port(u32::MAX)).map(|(_, to)| to) {
                if let std::collections::btree_map::Entry::Vacant(entry) = tiers.entry(to.datapath) {
                    entry.insert(tier);
                    next.push_back(to.datapath);
                }
            }
        }
        self.switches.keys().map(|datapath| (*datapath, tiers.get(datapath).copied().unwrap_or(1))).collect()
    }

    /// Adds all switches, each named by its tier and its place in it by datapath.
    fn add_switches(&self, builder: &mut FabricBuilder, tiers: &BTreeMap<u64, u8>) -> BTreeMap<u64, SwitchId> {
        let top = tiers.values().copied().max().unwrap_or(1);
        let mut order: Vec<(u8, u64)> = tiers.iter().map(|(&datapath, &tier)| (tier, datapath)).collect();
        order.sort_unstable();
        let mut of_tier = BTreeMap::<u8, usize>::new();
        let mut add = |(tier, datapath): (u8, u64)| {
            let number = of_tier.entry(tier).or_default();
            let name = match tier {
                1 => format!("edge{number}"),
                _ if tier == top => format!("core{number}"),
                2 => format!("agg{number}"),
                _ => format!("tier{tier}-{number}"),
            };
            *number += 1;
            (datapath, builder.switch(name, tier, None))
        };
        order.into_iter().map(&mut add).collect()
    }

    fn speed(&self, at: SwitchPort, rate: Option<BitsPerSec>) -> Result<BitsPerSec, DiscoveryError> {
        let port = || self.switches.get(&at.datapath)?.ports.get(&at.port)?.ethernet;
        let speed = || port().map(|ethernet| u64::from(ethernet.speed) * 1000).filter(|&speed| speed > 0);
        rate.or_else(|| speed().map(BitsPerSec)).ok_or(DiscoveryError::NoSpeed(at))
    }

    fn unheard(&self) -> Vec<SwitchPort> {
        let hosts: BTreeSet<SwitchPort> = self.hosts.values().map(|host| host.at).collect();
        let of = |(&datapath, switch): (&u64, &super::Switch)| {
            let ports = switch.ports.values().filter(|port| port.is_up());
            ports.map(|port| SwitchPort { datapath, port: port.number }).collect::<Vec<_>>()
        };
        let all = self.switches.iter().flat_map(of);
        all.filter(|at| !hosts.contains(at) && !self.cables.contains_key(at)).collect()
    }
}

/// Nothing measures it.
const DELAY: Duration = Duration::from_us(1);
