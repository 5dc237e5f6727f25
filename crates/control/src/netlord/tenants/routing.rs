//! What a virtual router does with a packet (section 3.2): rules, the longest prefix, the next hop; over several routers of a tenant in one step.

use std::net::IpAddr;

use weft_fabric::MacAddr;

use super::{Action, Interface, Protocol, Router, Rule, Tenant, TenantsError};
use crate::netlord::MacSpace;
use crate::wire::netlord::{IpPacket, Ports};
use crate::wire::packet::ip::{ICMP, ICMPV6};

/// Where a packet goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NextHop {
    /// The MAC space of the last subnet.
    pub space: MacSpace,
    /// Whom it is sent to there: the destination, or a VM that routes on.
    pub to: IpAddr,
    /// The last router's MAC address there.
    pub from: MacAddr,
}

/// Why it goes nowhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RouteError {
    /// A rule says so.
    Denied,
    /// There is no route.
    NoRoute,
}

/// One router's step.
enum Step {
    Arrived(NextHop),
    /// Another virtual router is next.
    On(usize),
}

impl Tenant {
    /// The virtual router that has this MAC address in a MAC space.
    pub fn router_at(&self, space: MacSpace, mac: MacAddr) -> Option<usize> {
        let has = |interface: &Interface| interface.space == space && interface.mac == mac;
        self.routers.iter().position(|router| router.interfaces.iter().any(has))
    }

    /// The MAC address of the virtual router's interface with this address.
    pub fn gateway(&self, space: MacSpace, ip: IpAddr) -> Option<MacAddr> {
        let mut interfaces = self.routers.iter().flat_map(|router| &router.interfaces);
        interfaces.find(|interface| interface.space == space && interface.address == ip).map(|interface| interface.mac)
    }

    /// Whether some virtual router has this address.
    pub fn is_gateway(&self, ip: IpAddr) -> bool {
        self.routers.iter().flat_map(|router| &router.interfaces).any(|interface| interface.address == ip)
    }

    /// The interface, of any virtual router of the MAC space with the longest fitting subnet, in whose subnet `ip` lies: where a routed packet came from.
    pub fn subnet_of(&self, router: usize, ip: IpAddr) -> Option<&Interface> {
        self.routers[router].interfaces.iter().find(|interface| interface.subnet.contains(ip))
    }

    /// Where a packet goes that is sent to a virtual router.
    ///
    /// # Errors
    /// [`RouteError`].
    pub fn route(&self, mut router: usize, packet: &IpPacket<'_>) -> Result<NextHop, RouteError> {
        // Checked files have no loops; the bound is for those who build tenants otherwise.
        for _ in 0..=self.routers.len() {
            if self.routers[router].action(packet) == Action::Deny {
                return Err(RouteError::Denied);
            }
            match self.step(router, packet.dst).ok_or(RouteError::NoRoute)? {
                Step::Arrived(hop) => return Ok(hop),
                Step::On(next) => router = next,
            }
        }
        Err(RouteError::NoRoute)
    }

    fn step(&self, router: usize, dst: IpAddr) -> Option<Step> {
        let this = &self.routers[router];
        let on_link = this.interfaces.iter().filter(|interface| interface.subnet.contains(dst));
        let on_link = on_link.map(|interface| (interface.subnet.length(), true, dst, interface));
        let routes = this.routes.iter().filter(|route| route.to.contains(dst)).filter_map(|route| {
            let interface = this.interfaces.iter().find(|interface| interface.subnet.contains(route.via))?;
            Some((route.to.length(), false, route.via, interface))
        });
        let (_, is_on_link, to, interface) =
            on_link.chain(routes).max_by_key(|&(length, is_on_link, ..)| (length, is_on_link))?;
        let next = (0..self.routers.len()).find(|&other| {
            let has = |it: &Interface| it.space == interface.space && it.address == to;
            other != router && self.routers[other].interfaces.iter().any(has)
        });
        Some(match next {
            Some(next) if !is_on_link => Step::On(next),
            _ => Step::Arrived(NextHop { space: interface.space, to, from: interface.mac }),
        })
    }
}

impl Router {
    /// What the rules say of a packet.
    pub fn action(&self, packet: &IpPacket<'_>) -> Action {
        self.rules.iter().find(|rule| rule.fits(packet)).map_or(Action::Allow, |rule| rule.action)
    }
}

impl Rule {
    fn fits(&self, packet: &IpPacket<'_>) -> bool {
        let protocol = match self.protocol {
            None => true,
            Some(Protocol::Number(number)) => packet.protocol == number,
            Some(Protocol::Icmp) => packet.protocol == if packet.src.is_ipv4() { ICMP } else { ICMPV6 },
        };
        let port = match (self.ports, packet.ports) {
            (None, _) => true,
            (Some((low, high)), Ports::Known(_, port)) => (low..=high).contains(&port),
            // What cannot be seen is denied, and not allowed.
            (Some(_), Ports::Hidden) => self.action == Action::Deny,
            (Some(_), Ports::None) => false,
        };
        protocol
            && port
            && self.from.is_none_or(|from| from.contains(packet.src))
            && self.to.is_none_or(|to| to.contains(packet.dst))
    }
}

/// No packet may go round. Which path one goes changes only where a prefix begins or ends, so one address of each stretch between is looked at.
pub(super) fn check_loops(tenant: &Tenant) -> Result<(), TenantsError> {
    let of = |router: &Router| {
        let routes = router.routes.iter().map(|route| route.to);
        routes.chain(router.interfaces.iter().map(|interface| interface.subnet)).collect::<Vec<_>>()
    };
    let mut points: Vec<IpAddr> =
        tenant.routers.iter().flat_map(of).flat_map(|prefix| [Some(prefix.address()), prefix.behind()]).flatten().collect();
    points.sort_unstable();
    points.dedup();
    for address in points {
        for start in 0..tenant.routers.len() {
            let mut path = vec![start];
            while let Some(Step::On(next)) = tenant.step(path[path.len() - 1], address) {
                let again = path.contains(&next);
                path.push(next);
                if again {
                    let names: Vec<_> = path.iter().map(|&at| format!("`{}`", tenant.routers[at].name)).collect();
                    return Err(TenantsError::Loop { tenant: tenant.name.clone(), address, path: names.join(" -> ") });
                }
            }
        }
    }
    Ok(())
}
