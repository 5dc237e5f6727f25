//! The addresses of an attack: of a lab's hosts, or of an operator's own.

use std::net::{Ipv4Addr, Ipv6Addr};

use serde::Deserialize;

use super::Cast;
use crate::plan::Plan;
use crate::plan::vl2::{LocatorKind, Vl2Host};

/// Who attacks whom, and by which addresses.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scene {
    /// The attacker's NIC.
    pub device: String,
    /// Its next hop, which answers ARP: the ToR.
    pub next_hop: Ipv4Addr,
    /// Whether ToRs check what hosts send: if not, nothing is sent past the hooks of the attacker's agent.
    #[serde(default = "yes")]
    pub has_tor: bool,
    /// An anycast address of intermediate switches, if there are any.
    pub anycast: Option<Ipv4Addr>,
    /// This host.
    pub attacker: End,
    /// A host with which it may not communicate.
    pub victim: End,
    /// A host that may communicate with the victim.
    pub friend: End,
    /// A host that may communicate with this one.
    pub peer: End,
}

/// The addresses of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct End {
    /// Its application address of IPv4.
    pub aa4: Ipv4Addr,
    /// The same of IPv6.
    pub aa6: Ipv6Addr,
    /// Its own locator.
    pub locator: Ipv4Addr,
    /// Where packets for it are sent: the locator of its ToR, or its own.
    pub tunnel: Ipv4Addr,
    /// One of its outer sources.
    pub outer_source: Ipv4Addr,
}

const fn yes() -> bool {
    true
}

impl Scene {
    /// That of a lab.
    pub(super) fn of(plan: &Plan, cast: &Cast<'_>) -> Self {
        let has_tor = cast.vl2.locator == LocatorKind::Tor;
        let end = |host: &Vl2Host| End {
            aa4: host.aa4,
            aa6: host.aa6,
            locator: plan.nodes[host.node].locator,
            tunnel: plan.nodes[if has_tor { host.tor } else { host.node }].locator,
            outer_source: Ipv4Addr::from(u32::from(host.entropy.address) | 77),
        };
        Self {
            device: plan.nodes[cast.attacker.node].ports[0].name.clone(),
            next_hop: plan.nodes[cast.attacker.tor].locator,
            has_tor,
            anycast: cast.vl2.groups.first().copied(),
            attacker: end(cast.attacker),
            victim: end(cast.victim),
            friend: end(cast.friend),
            peer: end(cast.peer),
        }
    }
}
