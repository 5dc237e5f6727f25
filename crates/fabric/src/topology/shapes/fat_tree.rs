//! The k-ary fat-tree (Hedera section 5.1): k pods of k/2 edge and k/2 aggregation switches, (k/2)^2 cores, k^3/4 hosts.
//!
//! ```text
//!   core  0 .. k/2-1   k/2 ..  k-1   ...     core c hangs off the aggregation switch c / (k/2) of every pod
//!            \ | /        \ | /
//!   agg        0            1        ...     of pod 0: numbered pod * k/2 + position
//!              |  \      /  |
//!   edge       0            1        ...     every edge switch to every aggregation switch of its pod
//!            / | \
//!   h       0  1 ..                          k/2 to an edge switch
//! ```

use crate::topology::shapes::Cabling;
use crate::topology::shapes::limits::refuse;
use crate::topology::{Fabric, FabricBuilder, FabricError};

/// Builds the fat-tree of `k`-port switches, all links alike.
///
/// # Errors
/// [`FabricError::Parameter`] if `k` is odd, zero, or above 128 (524,288 hosts).
pub fn fat_tree(k: u32, link: Cabling) -> Result<Fabric, FabricError> {
    build(k, link, link)
}

pub(super) fn build(k: u32, host_link: Cabling, fabric_link: Cabling) -> Result<Fabric, FabricError> {
    if k == 0 || !k.is_multiple_of(2) || k > 128 {
        return Err(refuse("k", k, "a fat-tree needs an even number of ports per switch: choose one from 2 to 128"));
    }
    let half = k / 2;
    let mut fabric = FabricBuilder::new(format!("fat-tree, k = {k}"));
    let mut edges = Vec::new();
    let mut aggs = Vec::new();
    for pod in 0..k {
        for i in 0..half {
            edges.push(fabric.switch(format!("edge{}", pod * half + i), 1, Some(pod)));
        }
    }
    for pod in 0..k {
        for i in 0..half {
            aggs.push(fabric.switch(format!("agg{}", pod * half + i), 2, Some(pod)));
        }
    }
    let cores: Vec<_> = (0..half * half).map(|i| fabric.switch(format!("core{i}"), 3, None)).collect();
    for (e, &edge) in edges.iter().enumerate() {
        let pod = e as u32 / half;
        for i in 0..half {
            let host = fabric.host(format!("h{}", e as u32 * half + i), Some(pod));
            fabric.cable(host, edge, host_link.rate, host_link.delay);
        }
    }
    for (e, &edge) in edges.iter().enumerate() {
        let pod = e as u32 / half;
        for i in 0..half {
            fabric.cable(edge, aggs[(pod * half + i) as usize], fabric_link.rate, fabric_link.delay);
        }
    }
    for (a, &agg) in aggs.iter().enumerate() {
        let position = a as u32 % half;
        for i in 0..half {
            fabric.cable(agg, cores[(position * half + i) as usize], fabric_link.rate, fabric_link.delay);
        }
    }
    fabric.build()
}
