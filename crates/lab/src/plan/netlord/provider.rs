//! The provider's own addresses in a plan (NetLord section 3.7): a DHCP server at the first edge switch, and what it leases to the hosts' agents.
//!
//! ```text
//!   dhcp                       edge0                         h0
//!   eth0 10.1.0.1/16 --------- p4, untagged: the VLAN of     eth0  02:4e:48:00:00:01       the plain fabric: DHCP
//!                              all agents                    weft1 10.1.0.2/16             tenant 1, through the encapsulation
//! ```

use std::net::Ipv4Addr;

use serde::{Deserialize, Serialize};
use weft_control::wire::netlord::dhcp::is_host;

use super::BridgePort;
use crate::plan::{DirectoryServers, Net, Node, Plan, PlanError, Port, PortId, Role, Store};

/// The provider's addresses.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Provider {
    /// All of them.
    pub subnet: Net,
    /// The node of the DHCP server, which has the first one.
    pub server: usize,
    /// By host, in the order of the plan.
    pub leases: Vec<Lease>,
    /// The directory servers that know where VMs are; `None`: agents ask each other (NL-ARP).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub directory: Option<DirectoryServers>,
}

/// The provider's addresses as a scenario asks for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProviderSpec {
    /// All addresses.
    pub subnet: Net,
    /// The number of directory servers, and their store; `None`: agents ask each other where VMs are (NL-ARP).
    pub directory: Option<(u16, Store)>,
}

/// The lease of a host's agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Lease {
    /// The host's node.
    pub node: usize,
    /// The MAC address of its first NIC.
    pub mac: String,
    /// The address.
    pub address: Ipv4Addr,
}

impl ProviderSpec {
    /// Checks that there are addresses for that many hosts.
    ///
    /// # Errors
    /// [`PlanError::NoSubnet`], [`PlanError::SubnetTooSmall`].
    pub fn check(&self, hosts: usize) -> Result<(), PlanError> {
        let subnet = self.subnet;
        let Net { address, len } = self.subnet;
        if !(8..=30).contains(&len) || !is_host(address) {
            return Err(PlanError::NoSubnet { subnet });
        }
        // Without the subnet's address, the broadcast address and the server's.
        let room = (1usize << (32 - len)) - 3;
        if hosts > room {
            return Err(PlanError::SubnetTooSmall { subnet, room, hosts });
        }
        Ok(())
    }
}

/// The server's name.
pub const DHCP: &str = "dhcp";

impl Provider {
    /// The lease of a host.
    pub fn lease(&self, node: usize) -> Option<&Lease> {
        self.leases.iter().find(|lease| lease.node == node)
    }
}

impl Plan {
    /// Gives the agents of hosts addresses in tenant 1.
    ///
    /// # Errors
    /// [`PlanError`] if there are fewer addresses than hosts.
    pub(super) fn with_provider(mut self, spec: &ProviderSpec) -> Result<Self, PlanError> {
        let subnet = spec.subnet;
        let hosts: Vec<usize> = (0..self.nodes.len()).filter(|&i| self.nodes[i].role == Role::Host).collect();
        spec.check(hosts.len())?;
        let first = subnet.address.to_bits() & subnet.mask().to_bits();
        let numbered = |i: u32| Ipv4Addr::from_bits(first + i);
        let leases: Vec<Lease> =
            (2u32..).zip(&hosts).map(|(i, &node)| Lease { node, mac: mac(i - 1), address: numbered(i) }).collect();
        for lease in &leases {
            self.nodes[lease.node].locator = lease.address;
        }
        let racks: Vec<(usize, usize)> = hosts.iter().map(|&node| (node, self.nodes[node].ports[0].peer.node)).collect();
        let place = |(servers, store)| DirectoryServers::place(&racks, servers, store);
        if let Some(&host) = hosts.iter().find(|&&host| spec.directory.is_some() && self.nics(host).count() > 1) {
            return Err(PlanError::SeveralPlaces { host: self.nodes[host].name.clone() });
        }
        let directory = spec.directory.map(place).transpose()?;
        let subnet = Net { address: numbered(0), len: subnet.len };
        let server = self.add_server(numbered(1), subnet.len)?;
        if let Some(netlord) = self.overlay.netlord_mut() {
            netlord.provider = Some(Provider { subnet, server, leases, directory });
        }
        Ok(self)
    }

    /// The node of the DHCP server, on a port of its own of the first edge switch.
    fn add_server(&mut self, address: Ipv4Addr, len: u8) -> Result<usize, PlanError> {
        if self.node(DHCP).is_some() {
            return Err(PlanError::SameName { name: DHCP.to_owned() });
        }
        let node = self.nodes.len();
        let netlord = self.overlay.netlord_mut().expect("NetLord is laid over this plan");
        let native = netlord.special.first().copied();
        let edge = netlord.switches.iter_mut().find(|switch| switch.mac.is_some()).ok_or(PlanError::NoEdge)?;
        let (switch, port) = (edge.node, edge.ports.len());
        edge.ports.push(BridgePort { vlans: Vec::new(), number: None, native });
        let end = |name: String, peer: PortId, address: Option<Net>| Port {
            name,
            address,
            peer,
            rate_bps: 0,
            burst_bytes: 0,
            queue_bytes: 0,
        };
        self.nodes[switch].ports.push(end(format!("p{port}"), PortId { node, port: 0 }, None));
        let own = end("eth0".to_owned(), PortId { node: switch, port }, Some(Net { address, len }));
        self.nodes.push(Node {
            name: DHCP.to_owned(),
            namespace: format!("{}{DHCP}", self.name.namespace_prefix()),
            role: Role::Outside,
            locator: address,
            prefix: None,
            hash_seed: self.nodes[switch].hash_seed,
            ports: vec![own],
            local: Vec::new(),
            fabric: Vec::new(),
            blocks: Vec::new(),
            anycast: Vec::new(),
        });
        Ok(node)
    }
}

/// The MAC address of a host's first NIC: locally administered, its number at the end.
fn mac(number: u32) -> String {
    let [_, a, b, c] = number.to_be_bytes();
    format!("02:4e:48:{a:02x}:{b:02x}:{c:02x}")
}
