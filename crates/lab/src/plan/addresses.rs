//! Addresses of the underlay.

use std::net::Ipv4Addr;

use weft_fabric::addressing::{Addressing, LocAddr, PortAddressing};
use weft_fabric::{Fabric, LinkId, NodeId, SwitchId};

use super::error::PlanError;
use super::net::Net;

/// All addresses of a fabric.
pub(super) struct Addresses {
    /// By node.
    locators: Vec<Ipv4Addr>,
    /// By switch; `None` for those without hosts.
    prefixes: Vec<Option<Net>>,
    /// By link, of the port that it leaves from.
    ports: Vec<Option<Net>>,
}

impl Addresses {
    pub(super) fn new(fabric: &Fabric) -> Result<Self, PlanError> {
        let several = fabric.hosts().any(|h| fabric.out(h.node()).len() > 1);
        let mut all = if several { Self::of_ports(fabric)? } else { Self::of_nodes(fabric)? };
        let between_switches =
            |l: LinkId| [fabric.link(l).from, fabric.link(l).to].iter().all(|&n| fabric.as_switch(n).is_some());
        let cables: Vec<_> = fabric.cables().filter(|c| between_switches(c.links()[0])).collect();
        if cables.len() > 1 << 18 {
            return Err(PlanError::TooManyCables { cables: cables.len() });
        }
        for (i, cable) in (0u32..).zip(cables) {
            for (end, link) in (0u32..).zip(cable.links()) {
                all.ports[link.index()] = Some(Net { address: Ipv4Addr::from(LINK_BASE + 2 * i + end), len: 31 });
            }
        }
        Ok(all)
    }

    pub(super) fn locator(&self, node: NodeId) -> Ipv4Addr {
        self.locators[node.index()]
    }

    pub(super) fn prefix(&self, switch: SwitchId) -> Option<Net> {
        self.prefixes[switch.index()]
    }

    /// The address of the port that a link leaves from.
    pub(super) fn port(&self, link: LinkId) -> Option<Net> {
        self.ports[link.index()]
    }

    /// One locator per node.
    fn of_nodes(fabric: &Fabric) -> Result<Self, PlanError> {
        let addressing = Addressing::new(fabric)?;
        let address = |l: LocAddr| Ipv4Addr::from(l.0);
        let hosts = fabric.hosts().map(|h| address(addressing.host(h)));
        let locators = hosts.chain(fabric.switches().map(|s| address(addressing.switch(s)))).collect();
        let mut all = Self::without_ports(fabric, locators);
        for host in fabric.hosts() {
            let link = fabric.out(host.node())[0];
            let switch = fabric.as_switch(fabric.link(link).to).expect("hosts touch only switches");
            all.prefixes[switch.index()] = Some(addressing.rack(fabric.rack_of(host)).into());
            all.ports[link.index()] = Some(Net::host(address(addressing.host(host))));
        }
        Ok(all)
    }

    /// One locator per port of a host; those of switches are in a range of their own.
    fn of_ports(fabric: &Fabric) -> Result<Self, PlanError> {
        let addressing = PortAddressing::new(fabric)?;
        let address = |l: LocAddr| Ipv4Addr::from(l.0);
        let hosts = fabric.hosts().map(|h| address(addressing.of(h)[0]));
        let locators = hosts.chain(fabric.switches().map(|s| Ipv4Addr::from(SWITCH_BASE + 1 + s.0))).collect();
        let mut all = Self::without_ports(fabric, locators);
        for host in fabric.hosts() {
            for (&link, &locator) in fabric.out(host.node()).iter().zip(addressing.of(host)) {
                all.ports[link.index()] = Some(Net::host(address(locator)));
            }
        }
        for switch in fabric.switches() {
            all.prefixes[switch.index()] = addressing.switch(switch).map(Net::from);
        }
        Ok(all)
    }

    fn without_ports(fabric: &Fabric, locators: Vec<Ipv4Addr>) -> Self {
        Self { locators, prefixes: vec![None; fabric.switch_count()], ports: vec![None; fabric.links().len()] }
    }
}

/// 172.16.0.0/13: links between switches.
const LINK_BASE: u32 = 172 << 24 | 16 << 16;
/// 172.24.0.0/13: switches of fabrics in which locators belong to ports.
const SWITCH_BASE: u32 = 172 << 24 | 24 << 16;
