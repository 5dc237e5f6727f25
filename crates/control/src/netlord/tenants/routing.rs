//! What a virtual router does with a packet (section 3.2): rules, the longest prefix, the next hop; over several routers of a tenant in one step.

use std::net::IpAddr;

use weft_fabric::MacAddr;

use super::{Action, Interface, Protocol, Router, Rule, Tenant, TenantsError};
use crate::netlord::MacSpace;
use crate::wire::netlord::{IpPacket, Ports, is_extension};
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
    /// It depends on its ports, which a fragment other than the first does not have.
    NoPorts,
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
    pub fn route(&self, router: usize, packet: &IpPacket<'_>) -> Result<NextHop, RouteError> {
        self.follow(router, packet.dst, |router| Some(router.action(packet)))
    }

    /// Where a fragment other than the first goes.
    ///
    /// # Errors
    /// [`RouteError`]; [`RouteError::NoPorts`] if that depends on the first one.
    pub fn route_fragment(&self, router: usize, packet: &IpPacket<'_>) -> Result<NextHop, RouteError> {
        self.follow(router, packet.dst, |router| router.action_without_ports(packet))
    }

    /// Where a packet to this address goes that all rules allow.
    ///
    /// # Errors
    /// [`RouteError::NoRoute`].
    pub fn route_allowed(&self, router: usize, dst: IpAddr) -> Result<NextHop, RouteError> {
        self.follow(router, dst, |_| Some(Action::Allow))
    }

    fn follow(&self, mut router: usize, dst: IpAddr, action: impl Fn(&Router) -> Option<Action>) -> Result<NextHop, RouteError> {
        // Checked files have no loops; the bound is for those who build tenants otherwise.
        for _ in 0..=self.routers.len() {
            match action(&self.routers[router]) {
                Some(Action::Allow) => {}
                Some(Action::Deny) => return Err(RouteError::Denied),
                None => return Err(RouteError::NoPorts),
            }
            match self.step(router, dst).ok_or(RouteError::NoRoute)? {
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
    /// What the rules say of a packet. What cannot be seen is denied, and not allowed: ports that are cut off.
    pub fn action(&self, packet: &IpPacket<'_>) -> Action {
        let fits = |rule: &&Rule| rule.fits(packet).unwrap_or(rule.action == Action::Deny);
        self.rules.iter().find(fits).map_or(Action::Allow, |rule| rule.action)
    }

    /// What the rules say of a packet whatever its ports are; `None`: it depends on them.
    fn action_without_ports(&self, packet: &IpPacket<'_>) -> Option<Action> {
        let decisive = self.rules.iter().map(|rule| (rule.fits(packet), rule.action)).find(|(fits, _)| *fits != Some(false));
        decisive.map_or(Some(Action::Allow), |(fits, action)| fits.map(|_| action))
    }
}

impl Rule {
    /// Whether it is about a packet; `None`: that depends on what cannot be seen of the packet.
    fn fits(&self, packet: &IpPacket<'_>) -> Option<bool> {
        let is_near = self.from.is_none_or(|from| from.contains(packet.src)) && self.to.is_none_or(|to| to.contains(packet.dst));
        if !is_near {
            return Some(false);
        }
        let is_hidden = packet.ports == Ports::Hidden;
        let number = match self.protocol {
            None => return Some(true),
            Some(Protocol::Number(number)) => number,
            Some(Protocol::Icmp) if packet.src.is_ipv4() => ICMP,
            Some(Protocol::Icmp) => ICMPV6,
        };
        // The protocol of a fragment other than the first may be behind a header that only the first has.
        if is_hidden && packet.src.is_ipv6() && is_extension(packet.protocol) {
            return None;
        }
        match (self.ports, packet.ports) {
            _ if packet.protocol != number => Some(false),
            (None, _) => Some(true),
            (Some((low, high)), Ports::Known(_, port)) => Some((low..=high).contains(&port)),
            (Some(_), Ports::Hidden) => None,
            (Some(_), Ports::None) => Some(false),
        }
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
