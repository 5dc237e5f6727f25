//! The two-level fat-tree, also called leaf-spine (NetLord section 5.2: 16 edge and 16 core switches).
//!
//! ```text
//!   core    0     1     2   ...      every edge switch to every core switch
//!           | \ / | \ / |
//!   edge    0     1     2   ...
//!          /|\   /|\
//!   h     0 1 2 3 4 5       ...      hosts_per_edge to an edge switch
//! ```

use crate::topology::shapes::Cabling;
use crate::topology::shapes::limits::{at_least_one, check_size, refuse};
use crate::topology::{Fabric, FabricBuilder, FabricError};

pub(super) fn from_ports(k: u32, host_link: Cabling, fabric_link: Cabling) -> Result<Fabric, FabricError> {
    if k == 0 || !k.is_multiple_of(2) {
        return Err(refuse("k", k, "a fat-tree needs an even number of ports per switch: choose one from 2 upwards"));
    }
    check_size("k", k, u64::from(k) * u64::from(k / 2), 0, 0)?;
    build(k, k / 2, k / 2, host_link, fabric_link)
}

pub(super) fn build(
    edges: u32,
    cores: u32,
    hosts_per_edge: u32,
    host_link: Cabling,
    fabric_link: Cabling,
) -> Result<Fabric, FabricError> {
    at_least_one("edges", edges, "edge switches")?;
    at_least_one("cores", cores, "core switches")?;
    at_least_one("hosts_per_edge", hosts_per_edge, "hosts at an edge switch")?;
    let [e, c, h] = [edges, cores, hosts_per_edge].map(u64::from);
    check_size("edges", edges, e * h, e + c, e.saturating_mul(h + c))?;
    let mut fabric = FabricBuilder::new(format!(
        "two-level fat-tree, {edges} edge and {cores} core switches, {hosts_per_edge} hosts per edge"
    ));
    let edge_switches: Vec<_> = (0..edges).map(|e| fabric.switch(format!("edge{e}"), 1, Some(e))).collect();
    let core_switches: Vec<_> = (0..cores).map(|c| fabric.switch(format!("core{c}"), 2, None)).collect();
    for (e, &edge) in (0u32..).zip(&edge_switches) {
        for i in 0..hosts_per_edge {
            let host = fabric.host(format!("h{}", e * hosts_per_edge + i), Some(e));
            fabric.cable(host, edge, host_link.rate, host_link.delay);
        }
    }
    for &edge in &edge_switches {
        for &core in &core_switches {
            fabric.cable(edge, core, fabric_link.rate, fabric_link.delay);
        }
    }
    fabric.build()
}
