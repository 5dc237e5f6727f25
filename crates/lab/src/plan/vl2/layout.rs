//! Lays VL2 over a plan.

use weft_fabric::Fabric;

use super::addresses::{application_addresses, groups, place_anycast, place_entropy};
use super::{LocatorKind, MTU_OVERLAY, OTHERS, Service, Vl2, Vl2Host, Vl2Spec};
use crate::plan::directory::{DirectoryServers, Store};
use crate::plan::overlay::Overlay;
use crate::plan::{Net, Plan, PlanError, Role};

impl Plan {
    /// The plan with VL2 laid over it.
    ///
    /// # Errors
    /// [`PlanError`] if the fabric or the addresses do not allow it.
    pub fn with_vl2(mut self, fabric: &Fabric, spec: &Vl2Spec) -> Result<Self, PlanError> {
        self.check_underlay()?;
        if let Some(host) = self.hosts().find(|h| h.ports.len() != 1) {
            return Err(PlanError::SeveralNics { host: host.name.clone() });
        }
        let intermediates = intermediates(&self, fabric);
        let groups = groups(&self, &intermediates, spec.ecmp_width)?;
        let (services, service_of) = services(&self, spec);
        let mut hosts = Vec::new();
        for (node, host) in self.nodes.iter_mut().enumerate().filter(|(_, n)| n.role == Role::Host) {
            let peer = host.ports[0].peer;
            host.ports[0].rate_bps = before_headers(host.ports[0].rate_bps, !groups.is_empty());
            let (aa4, aa6) = application_addresses(node);
            hosts.push(Vl2Host {
                node,
                tor: peer.node,
                port: peer.port,
                aa4,
                aa6,
                entropy: Net::DEFAULT,
                service: service_of[node],
                group: if groups.is_empty() { 0 } else { (hosts.len() % groups.len()) as u16 + 1 },
            });
        }
        // The last host is the least likely to have traffic of its own: patterns begin with the first.
        let directory = DirectoryServers { hosts: hosts.last().map(|h| h.node).into_iter().collect(), store: Store::Embedded };
        let anycast = groups.iter().map(|(address, _)| *address).collect();
        let mut vl2 = Vl2 {
            locator: spec.locator,
            ecmp_width: spec.ecmp_width,
            services,
            groups: anycast,
            intermediates,
            hosts,
            directory,
            dhcp: false,
            moves: Vec::new(),
            scheduler: None,
        };
        place_entropy(&mut self, &mut vl2)?;
        place_anycast(&mut self, &groups);
        let intermediates = vl2.intermediates.clone();
        self.overlay = Overlay::Vl2(Box::new(vl2));
        if spec.external.is_empty() { Ok(self) } else { self.with_outside(&intermediates, &spec.external) }
    }

    /// The plan with application addresses of IPv4 that hosts lease by DHCP, over the relays of their ToRs; unchanged without VL2.
    ///
    /// # Panics
    /// If hosts are their own locators: their ToRs have no relay then.
    pub fn with_dhcp(mut self) -> Self {
        if let Some(vl2) = self.overlay.vl2_mut() {
            assert_eq!(vl2.locator, LocatorKind::Tor, "the agents of ToRs relay");
            vl2.dhcp = true;
        }
        self
    }

    /// The plan with that many directory servers for VL2, each on a host of its own; unchanged without VL2.
    ///
    /// # Errors
    /// [`PlanError::DirectoryServers`] for 0 servers, fewer hosts than servers, or several servers without a store that they can share.
    pub fn with_directory(mut self, servers: u16, store: Store) -> Result<Self, PlanError> {
        let Some(vl2) = self.overlay.vl2_mut() else { return Ok(self) };
        let hosts: Vec<(usize, usize)> = vl2.hosts.iter().map(|host| (host.node, host.tor)).collect();
        vl2.directory = DirectoryServers::place(&hosts, servers, store)?;
        Ok(self)
    }
}

/// The rate of a host's queue, which counts packets before its agent adds outer headers: full packets with these headers fill the link.
const fn before_headers(rate_bps: u64, has_two: bool) -> u64 {
    let packet = (MTU_OVERLAY + ETHERNET) as u64;
    rate_bps * packet / (packet + if has_two { 2 * OUTER } else { OUTER } as u64)
}

/// The intermediate switches: those of the highest tier, if there are any above the ToRs.
fn intermediates(plan: &Plan, fabric: &Fabric) -> Vec<usize> {
    let top = fabric.top_tier();
    let all = fabric.switches_of_tier(top).map(|s| fabric.switch_node(s).index());
    if top <= 1 { Vec::new() } else { all.filter(|&i| plan.nodes[i].prefix.is_none()).collect() }
}

/// The services, and that of each node.
fn services(plan: &Plan, spec: &Vl2Spec) -> (Vec<Service>, Vec<u32>) {
    let mut of_node = vec![0; plan.nodes.len()];
    let mut services = Vec::new();
    for (id, service) in (1u32..).zip(&spec.services) {
        services.push(Service { name: service.name.clone(), id, allow: service.allow.clone() });
        for &host in service.hosts.iter().filter(|&&h| (h as usize) < plan.hosts().count()) {
            of_node[host as usize] = id;
        }
    }
    let id = services.len() as u32 + 1;
    let left: Vec<usize> = (0..plan.hosts().count()).filter(|&h| of_node[h] == 0).collect();
    if !left.is_empty() {
        services.push(Service { name: OTHERS.to_owned(), id, allow: Vec::new() });
        left.into_iter().for_each(|h| of_node[h] = id);
    }
    (services, of_node)
}

/// Bytes of one outer header.
const OUTER: u32 = 20;
/// Bytes of Ethernet's header.
const ETHERNET: u32 = 14;
