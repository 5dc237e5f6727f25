//! One non-blocking switch: the best that any fabric can do for the same hosts.

use crate::topology::shapes::Cabling;
use crate::topology::shapes::limits::{at_least_one, check_size};
use crate::topology::{Fabric, FabricBuilder, FabricError};

/// Builds `hosts` hosts on one switch.
///
/// # Errors
/// [`FabricError::Parameter`] if there are none, or more than a fabric may have.
pub fn single_switch(hosts: u32, link: Cabling) -> Result<Fabric, FabricError> {
    at_least_one("hosts", hosts, "hosts")?;
    check_size("hosts", hosts, u64::from(hosts), 1, u64::from(hosts))?;
    let mut fabric = FabricBuilder::new(format!("non-blocking switch, {hosts} hosts"));
    let switch = fabric.switch("switch0", 1, None);
    for i in 0..hosts {
        let host = fabric.host(format!("h{i}"), Some(0));
        fabric.cable(host, switch, link.rate, link.delay);
    }
    fabric.build()
}

/// The non-blocking switch beside a fabric: the same hosts, with the same NICs and pods, on one switch.
pub fn ideal_of(fabric: &Fabric) -> Fabric {
    let mut ideal = FabricBuilder::new(format!("non-blocking switch, {} hosts", fabric.host_count()));
    let switch = ideal.switch("switch0", 1, None);
    for host in fabric.hosts() {
        let node = fabric.node(host.node());
        let delay = fabric.link(fabric.out(host.node())[0]).delay;
        let id = ideal.host(node.name.clone(), node.pod);
        ideal.cable(id, switch, fabric.nic_capacity(host), delay);
    }
    ideal.build().expect("the hosts of a checked fabric on one switch")
}
