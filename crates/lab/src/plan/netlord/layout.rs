//! Lays NetLord over a plan.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};

use weft_control::netlord::PUBLIC;
use weft_control::netlord::tenants::{Tenant, Tenants, VifSpec};
use weft_fabric::Fabric;
use weft_fabric::routing::spain::Plan as Spain;

use super::{Netlord, NetlordSpec, Placement, Vm, bridges};
use crate::plan::overlay::Overlay;
use crate::plan::{Node, Plan, PlanError, Port, PortId, Role, Routing};

impl Plan {
    /// The plan with NetLord laid over it: bridges in place of routers, and VMs.
    ///
    /// # Errors
    /// [`PlanError`] if the fabric does not allow it, or the tenants' file is invalid.
    pub fn with_netlord(mut self, fabric: &Fabric, spec: &NetlordSpec) -> Result<Self, PlanError> {
        self.check_underlay()?;
        let tenants = Tenants::parse(&spec.file)?;
        let spain = Spain::new(fabric, &spec.spain)?;
        self.unroute();
        let switches = bridges::of(&self, fabric, &spain)?;
        let vms = self.place(&tenants, &spec.placements)?;
        self.routing = Routing::Static;
        self.overlay = Overlay::Netlord(Box::new(Netlord {
            file: spec.file.clone(),
            switches,
            vms,
            fib: spec.fib.clone(),
            limits: spec.limits.clone(),
            vlans: spain.vlans().len(),
            special: spain.trees().map(|(vlan, _)| vlan.0).collect(),
            core: spec.core,
            provider: None,
            chirp_us: spec.chirp_us,
        }));
        match &spec.provider {
            Some(provider) => self.with_provider(provider),
            None => Ok(self),
        }
    }

    /// Removes all routes and addresses: switches are bridges.
    fn unroute(&mut self) {
        for node in &mut self.nodes {
            node.prefix = None;
            node.local.clear();
            node.fabric.clear();
            for port in &mut node.ports {
                port.address = None;
            }
        }
    }

    /// Makes the VMs' nodes.
    fn place(&mut self, tenants: &Tenants, placements: &[Placement]) -> Result<Vec<Vm>, PlanError> {
        let hosts: Vec<usize> = (0..self.nodes.len()).filter(|&i| self.nodes[i].role == Role::Host).collect();
        let mut vms = Vec::new();
        for placement in placements {
            let missing = || PlanError::NoTenant { tenant: placement.tenant.clone() };
            let tenant = tenants.by_name(&placement.tenant).ok_or_else(missing)?;
            for (i, spec) in tenant.vifs.iter().enumerate() {
                let host = placement.hosts.get(i % placement.hosts.len().max(1));
                let missing = || PlanError::NoHost { tenant: tenant.name.clone(), last: hosts.len().saturating_sub(1) };
                let host = host.and_then(|&h| hosts.get(h as usize)).ok_or_else(missing)?;
                vms.push(self.add_vm(*host, tenant, spec)?);
            }
        }
        Ok(vms)
    }

    fn add_vm(&mut self, host: usize, tenant: &Tenant, spec: &VifSpec) -> Result<Vm, PlanError> {
        let (name, node) = (format!("{}-{}", tenant.name, spec.name), self.nodes.len());
        if self.node(&name).is_some() {
            return Err(PlanError::SameName { name });
        }
        let port = self.nodes[host].ports.len();
        let end = |name: String, peer: PortId| Port { name, address: None, peer, rate_bps: 0, burst_bytes: 0, queue_bytes: 0 };
        self.nodes[host].ports.push(end(format!("vif{port}"), PortId { node, port: 0 }));
        let v4 = spec.addresses.iter().find_map(|ip| if let IpAddr::V4(ip) = ip { Some(*ip) } else { None });
        let namespace = format!("{}{}", self.name.namespace_prefix(), name.replace('.', "_"));
        let hash_seed = self.nodes[host].hash_seed;
        self.nodes.push(Node {
            name,
            namespace,
            role: Role::Vm,
            locator: v4.unwrap_or(Ipv4Addr::UNSPECIFIED),
            prefix: None,
            hash_seed,
            ports: vec![end("eth0".to_owned(), PortId { node: host, port })],
            local: Vec::new(),
            fabric: Vec::new(),
            blocks: Vec::new(),
            anycast: Vec::new(),
        });
        let (addresses, gateways) = subnets(tenant, spec);
        Ok(Vm {
            node,
            host,
            port,
            tenant: tenant.name.clone(),
            vif: spec.name.clone(),
            id: spec.vif.tenant.0,
            space: spec.vif.space.0,
            mac: spec.vif.mac.to_string(),
            addresses,
            gateways,
        })
    }
}

/// A VIF's addresses with the prefix lengths of its virtual router's subnets, and the router's addresses there.
fn subnets(tenant: &Tenant, spec: &VifSpec) -> (Vec<(IpAddr, u8)>, Vec<IpAddr>) {
    let interfaces = || tenant.routers.iter().flat_map(|router| &router.interfaces);
    let here = |ip: IpAddr| interfaces().find(|it| it.space == spec.vif.space && it.subnet.contains(ip));
    let is_public = spec.vif.tenant == PUBLIC;
    let length = |ip: IpAddr| here(ip).filter(|_| !is_public).map_or(if ip.is_ipv4() { 24 } else { 64 }, |it| it.subnet.length());
    let gateways: BTreeSet<IpAddr> =
        spec.addresses.iter().filter(|_| !is_public).filter_map(|&ip| here(ip).map(|it| it.address)).collect();
    (spec.addresses.iter().map(|&ip| (ip, length(ip))).collect(), gateways.into_iter().collect())
}
