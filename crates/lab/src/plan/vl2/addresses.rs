//! VL2's addresses besides locators: application addresses, outer sources, and the anycast addresses of groups.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::num::NonZeroUsize;

use weft_control::vl2::groups::{Groups, GroupsError};

use super::Vl2;
use crate::plan::routes::add_routes;
use crate::plan::{Hop, Net, Plan, PlanError, Route, RouteTarget};

/// The application addresses of a host, by its node.
pub(super) fn application_addresses(node: usize) -> (Ipv4Addr, Ipv6Addr) {
    (Ipv4Addr::from(AA4_BASE + 1 + node as u32), Ipv6Addr::from(AA6_BASE + 1 + node as u128))
}

/// The address of each group, and its members while no intermediate switch has failed.
pub(super) fn groups(plan: &Plan, intermediates: &[usize], width: u16) -> Result<Vec<(Ipv4Addr, Vec<usize>)>, PlanError> {
    if intermediates.is_empty() {
        return Ok(Vec::new());
    }
    let width = NonZeroUsize::new(width.into()).ok_or(PlanError::Groups(GroupsError::NoIntermediates))?;
    let locators: Vec<IpAddr> = intermediates.iter().map(|&i| IpAddr::V4(plan.nodes[i].locator)).collect();
    let groups = Groups::new(locators.clone(), width, None)?;
    let index = |ip: &IpAddr| locators.iter().position(|l| l == ip).map(|at| intermediates[at]);
    let of = |group| groups.members(group, |_| true).iter().filter_map(index).collect();
    Ok(groups.ids().map(|group| (Ipv4Addr::from(ANYCAST_BASE + u32::from(group.0)), of(group))).collect())
}

/// Assigns a block of /24s to each ToR, one /24 to each of its hosts, and adds the routes to them.
pub(super) fn place_entropy(plan: &mut Plan, vl2: &mut Vl2) -> Result<(), PlanError> {
    let mut next: u64 = ENTROPY_BASE.into();
    let tors: Vec<usize> = (0..plan.nodes.len()).filter(|&i| vl2.is_tor(i)).collect();
    for &tor in &tors {
        let count = vl2.hosts.iter().filter(|h| h.tor == tor).count() as u64;
        let size = (count + 1).next_power_of_two() * 256;
        let first = next.next_multiple_of(size);
        next = first + size;
        if next > ENTROPY_END.into() {
            return Err(PlanError::TooManySources { hosts: vl2.hosts.len() });
        }
        let block = Net { address: Ipv4Addr::from(first as u32), len: 32 - size.trailing_zeros() as u8 };
        for (i, host) in (1u32..).zip(vl2.hosts.iter_mut().filter(|h| h.tor == tor)) {
            host.entropy = Net { address: Ipv4Addr::from(first as u32 + 256 * i), len: 24 };
            let hop = Hop { gateway: plan.nodes[host.node].locator, port: host.port };
            plan.nodes[tor].local.push(Route { to: host.entropy, target: RouteTarget::Behind(hop) });
        }
        plan.nodes[tor].local.push(Route { to: block, target: RouteTarget::Unreachable });
        plan.nodes[tor].blocks.push(block);
        add_routes(&mut plan.nodes, &[tor], block);
    }
    Ok(())
}

/// Adds each group's address to its members, and the routes to the nearest of them.
pub(super) fn place_anycast(plan: &mut Plan, groups: &[(Ipv4Addr, Vec<usize>)]) {
    for (address, members) in groups {
        for &member in members {
            plan.nodes[member].anycast.push(*address);
        }
        add_routes(&mut plan.nodes, members, Net::host(*address));
    }
}

const AA4_BASE: u32 = 20 << 24;
const AA6_BASE: u128 = 0xfd20 << 112;
/// 100.64.0.0 to 100.126.255.255: outer sources.
pub(super) const ENTROPY_BASE: u32 = 100 << 24 | 64 << 16;
pub(super) const ENTROPY_END: u32 = ANYCAST_BASE;
/// 100.127.0.0/16: groups, from the second address on.
pub(super) const ANYCAST_BASE: u32 = 100 << 24 | 127 << 16;
