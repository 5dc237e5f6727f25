//! A clique of edge switches (NetLord section 5.2: 16 of them).
//!
//! ```text
//!          edge0 ---- edge1        every pair of switches has a cable; there is no higher tier,
//!            |  \   /  |           so every switch is a root and all hosts are in one pod
//!            |   / \   |
//!          edge2 ---- edge3
//!          / | \
//! ```

use crate::topology::shapes::Cabling;
use crate::topology::shapes::limits::{at_least_one, check_size};
use crate::topology::{Fabric, FabricBuilder, FabricError};

pub(super) fn build(
    switches: u32,
    hosts_per_switch: u32,
    host_link: Cabling,
    fabric_link: Cabling,
) -> Result<Fabric, FabricError> {
    at_least_one("switches", switches, "switches")?;
    at_least_one("hosts_per_switch", hosts_per_switch, "hosts at a switch")?;
    let [s, h] = [switches, hosts_per_switch].map(u64::from);
    check_size("switches", switches, s * h, s, (s * h).saturating_add(s * (s - 1) / 2))?;
    let mut fabric = FabricBuilder::new(format!("clique of {switches} switches, {hosts_per_switch} hosts per switch"));
    let edges: Vec<_> = (0..switches).map(|e| fabric.switch(format!("edge{e}"), 1, None)).collect();
    for (e, &edge) in (0u32..).zip(&edges) {
        for i in 0..hosts_per_switch {
            let host = fabric.host(format!("h{}", e * hosts_per_switch + i), Some(0));
            fabric.cable(host, edge, host_link.rate, host_link.delay);
        }
    }
    for (e, &edge) in edges.iter().enumerate() {
        for &other in &edges[e + 1..] {
            fabric.cable(edge, other, fabric_link.rate, fabric_link.delay);
        }
    }
    fabric.build()
}
