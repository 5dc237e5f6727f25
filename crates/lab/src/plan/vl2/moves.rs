//! Servers that move (VL2 section 4.2.4: the AA stays, the LA changes). The place that each will have is planned before the lab comes up, so that
//! the daemons that announce prefixes know them from the start.
//!
//! ```text
//!   before                                         after
//!   h1 eth0 10.1.1.3/32, 20.0.0.2 --- p1 tor0      h1 eth0 10.1.3.4/32, 20.0.0.2 --- p4 tor2
//!                                                  tor2: 10.1.3.4 dev p4, 100.64.17.0/24 via 10.1.3.4 dev p4
//! ```

use std::net::Ipv4Addr;

use serde::{Deserialize, Serialize};

use super::addresses::{ENTROPY_BASE, ENTROPY_END};
use crate::plan::routes::add_routes;
use crate::plan::{Hop, Net, Plan, PlanError, Port, PortId, Role, Route, RouteTarget};

/// A server's place at another ToR.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Move {
    /// The host, as an index into [`Plan::nodes`].
    pub host: usize,
    /// The ToR that it moves to, likewise.
    pub tor: usize,
    /// The ToR's port to it there.
    pub port: String,
    /// Its locator there.
    pub locator: Ipv4Addr,
    /// Its outer sources there.
    pub entropy: Net,
}

impl Plan {
    /// The plan with places for hosts that move to ToRs, both as indices into [`Plan::nodes`], in the order in which they do.
    ///
    /// # Errors
    /// [`PlanError`] if addresses do not suffice.
    ///
    /// # Panics
    /// Without VL2, or if a node is no host or no ToR.
    pub fn with_moves(mut self, moves: &[(usize, usize)]) -> Result<Self, PlanError> {
        for &(host, tor) in moves {
            assert!(self.nodes[host].role == Role::Host && self.overlay.vl2().is_some_and(|vl2| vl2.is_tor(tor)), "a move");
            let (locator, entropy) = (self.free_locator(tor)?, self.free_sources(tor)?);
            let vl2 = self.overlay.vl2_mut().expect("VL2");
            let earlier = vl2.moves.iter().filter(|m| m.tor == tor).count();
            let port = format!("p{}", self.nodes[tor].ports.len() + earlier);
            vl2.moves.push(Move { host, tor, port, locator, entropy });
        }
        Ok(self)
    }

    /// The plan as it is once a move has been made: the host hangs on its new ToR. The old ToR's port keeps its number and is unplugged.
    pub(crate) fn make_move(&mut self, which: usize) {
        let Some(vl2) = self.overlay.vl2_mut() else { return };
        let Move { host, tor, port: name, locator, entropy } = vl2.moves[which].clone();
        let old = self.nodes[host].ports[0].peer;
        let here = PortId { node: host, port: 0 };
        let there = PortId { node: tor, port: self.nodes[tor].ports.len() };
        let cable = self.nodes[old.node].ports[old.port].clone();
        self.nodes[tor].ports.push(Port { name, peer: here, ..cable });
        self.nodes[tor].local.push(Route { to: Net::host(locator), target: RouteTarget::Direct(there.port) });
        self.nodes[tor]
            .local
            .push(Route { to: entropy, target: RouteTarget::Behind(Hop { gateway: locator, port: there.port }) });
        let gone = |target: &RouteTarget| matches!(target, RouteTarget::Direct(p) | RouteTarget::Behind(Hop { port: p, .. }) if *p == old.port);
        self.nodes[old.node].local.retain(|route| !gone(&route.target));
        let gateway = self.nodes[tor].locator;
        let node = &mut self.nodes[host];
        node.locator = locator;
        node.ports[0].address = Some(Net::host(locator));
        node.ports[0].peer = there;
        node.local = vec![Route { to: Net::DEFAULT, target: RouteTarget::Gateway(Hop { gateway, port: 0 }) }];
        if let Some(overlaid) = vl2.hosts.iter_mut().find(|h| h.node == host) {
            (overlaid.tor, overlaid.port, overlaid.entropy) = (tor, there.port, entropy);
        }
    }

    /// Whether a cable is plugged into a port; not where a server has moved away.
    pub fn is_plugged(&self, port: PortId) -> bool {
        self.port(self.port(port).peer).peer == port
    }

    /// An unused locator of a ToR's prefix.
    fn free_locator(&self, tor: usize) -> Result<Ipv4Addr, PlanError> {
        let no_room = || PlanError::NoRoom { tor: self.nodes[tor].name.clone() };
        let prefix = self.nodes[tor].prefix.ok_or_else(no_room)?;
        let moves = self.overlay.vl2().into_iter().flat_map(|vl2| vl2.moves.iter().map(|m| m.locator));
        let taken: Vec<Ipv4Addr> = self.nodes.iter().map(|n| n.locator).chain(moves).collect();
        let (first, size) = (u32::from(prefix.address), 1u64 << (32 - u32::from(prefix.len)));
        // Without the first and the last address, which are those of the subnet and of its broadcasts.
        let all = (1..size.saturating_sub(1)).map(|i| Ipv4Addr::from(first + i as u32));
        all.into_iter().find(|address| !taken.contains(address)).ok_or_else(no_room)
    }

    /// A /24 of outer sources in a block of its own, which the ToR announces: of the block's first /24 the ToR has an address.
    fn free_sources(&mut self, tor: usize) -> Result<Net, PlanError> {
        let end = |block: &Net| u64::from(u32::from(block.address)) + (1u64 << (32 - u32::from(block.len)));
        let next = self.nodes.iter().flat_map(|n| &n.blocks).map(end).max().unwrap_or(ENTROPY_BASE.into());
        let first = next.next_multiple_of(BLOCK);
        if first + BLOCK > ENTROPY_END.into() {
            return Err(PlanError::TooManySources { hosts: self.hosts().count() });
        }
        let block = Net { address: Ipv4Addr::from(first as u32), len: 32 - BLOCK.trailing_zeros() as u8 };
        self.nodes[tor].local.push(Route { to: block, target: RouteTarget::Unreachable });
        self.nodes[tor].blocks.push(block);
        add_routes(&mut self.nodes, &[tor], block);
        Ok(Net { address: Ipv4Addr::from(first as u32 + 256), len: 24 })
    }
}

const BLOCK: u64 = 512;
