//! The outside of the data centre (VL2 section 4.2.3): a router with a link to every intermediate switch, and the hosts that it reaches.
//!
//! ```text
//!   outside  AS 65001   lo 198.51.100.1   announces a default route
//!     | x0 192.0.2.0/31        | x1 192.0.2.2/31
//!     | pN 192.0.2.1/31        | pN 192.0.2.3/31
//!   int0                     int1         AS 65000   announce the pool, 203.0.113.0/24, and hand the default route to OSPF
//!     ...
//!   tor0   203.0.113.1 via 10.1.1.2       announced within the fabric, as locators are
//!     |
//!   h0     eth0 10.1.1.2, 20.0.0.1; lo 203.0.113.1
//! ```
//! No gateway rewrites headers: a host that is reachable from outside has a locator of the pool besides its AA. Packets from and to it cross any of the
//! intermediate switches, chosen by ECMP.

use std::net::Ipv4Addr;

use serde::{Deserialize, Serialize};

use super::routes::add_routes;
use super::{Hop, Net, Node, Plan, PlanError, Port, PortId, Role, Route, RouteTarget};

/// The outside of a plan.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outside {
    /// The router, as an index into [`Plan::nodes`].
    pub router: usize,
    /// The intermediate switches that have a link to it, likewise.
    pub borders: Vec<usize>,
    /// The hosts that it reaches, likewise, with the locators by which it reaches them.
    pub hosts: Vec<(usize, Ipv4Addr)>,
}

/// The router's name.
pub const ROUTER: &str = "outside";
/// The router's address, which represents all addresses outside.
pub const ADDRESS: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 1);
/// What is announced to the outside.
pub const POOL: Net = Net { address: Ipv4Addr::new(203, 0, 113, 0), len: 24 };

impl Plan {
    /// The plan with a router outside that reaches the hosts of these indices, by links of the rate that the intermediate switches' other ones have.
    ///
    /// # Errors
    /// [`PlanError`] if there are no intermediate switches, or the pool is too small.
    pub fn with_outside(mut self, intermediates: &[usize], hosts: &[u32]) -> Result<Self, PlanError> {
        if intermediates.is_empty() {
            return Err(PlanError::NoBorder);
        }
        if hosts.len() > HOSTS_MAX {
            return Err(PlanError::PoolTooSmall { hosts: hosts.len(), max: HOSTS_MAX });
        }
        let router = self.nodes.len();
        let mut ports = Vec::with_capacity(intermediates.len());
        for (i, &border) in (0u32..).zip(intermediates) {
            ports.push(self.join(border, router, i));
        }
        self.nodes.push(Node {
            name: ROUTER.to_owned(),
            namespace: format!("{}{ROUTER}", self.name.namespace_prefix()),
            role: Role::Outside,
            locator: ADDRESS,
            prefix: None,
            // Those of the others differ by odd multiples of one constant.
            hash_seed: self.nodes[intermediates[0]].hash_seed ^ 1,
            ports,
            local: Vec::new(),
            fabric: Vec::new(),
            blocks: Vec::new(),
            anycast: Vec::new(),
        });
        let hosts = (1u32..).zip(hosts).map(|(i, &h)| (h as usize, Ipv4Addr::from(u32::from(POOL.address) + i))).collect();
        self.outside = Some(Outside { router, borders: intermediates.to_vec(), hosts });
        self.lead_outside();
        Ok(self)
    }

    /// A port of the router, and its other end at an intermediate switch.
    fn join(&mut self, border: usize, router: usize, index: u32) -> Port {
        let there = PortId { node: border, port: self.nodes[border].ports.len() };
        let here = PortId { node: router, port: index as usize };
        let address = |end: u32| Some(Net { address: Ipv4Addr::from(LINK_BASE + 2 * index + end), len: 31 });
        let like = self.nodes[border].ports[0].clone();
        let name = format!("p{}", there.port);
        self.nodes[border].ports.push(Port { name, address: address(1), peer: here, ..like.clone() });
        Port { name: format!("x{index}"), address: address(0), peer: there, ..like }
    }

    /// Routes to the outside, and back.
    fn lead_outside(&mut self) {
        let Some(Outside { router, borders, hosts }) = self.outside.clone() else { return };
        let gateway = |plan: &Self, from: PortId| {
            let peer = plan.port(from).peer;
            plan.port(peer).address.map(|a| Hop { gateway: a.address, port: from.port })
        };
        let hops: Vec<Hop> = (0..borders.len()).filter_map(|port| gateway(self, PortId { node: router, port })).collect();
        self.nodes[router].fabric.push(Route { to: POOL, target: RouteTarget::Via(hops) });
        for (index, &border) in borders.iter().enumerate() {
            let port = self.nodes[router].ports[index].peer;
            if let Some(hop) = gateway(self, port) {
                self.nodes[border].fabric.push(Route { to: Net::DEFAULT, target: RouteTarget::Via(vec![hop]) });
            }
        }
        add_routes(&mut self.nodes, &borders, Net::DEFAULT);
        for (host, address) in hosts {
            let PortId { node: tor, port } = self.nodes[host].ports[0].peer;
            self.nodes[host].anycast.push(address);
            let to = Net::host(address);
            let hop = Hop { gateway: self.nodes[host].locator, port };
            self.nodes[tor].local.push(Route { to, target: RouteTarget::Behind(hop) });
            add_routes(&mut self.nodes, &[tor], to);
        }
    }
}

impl Outside {
    /// The address by which the outside reaches a host.
    pub fn address_of(&self, host: usize) -> Option<Ipv4Addr> {
        self.hosts.iter().find(|(h, _)| *h == host).map(|(_, address)| *address)
    }
}

/// 192.0.2.0/24: links to the outside.
const LINK_BASE: u32 = 192 << 24 | 2 << 8;
/// All but the first and the last address of the pool.
const HOSTS_MAX: usize = 254;
