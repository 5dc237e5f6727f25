//! Which VMs reach each other: by the routes of their kernels and the rules of their tenants' virtual routers.

use std::net::{IpAddr, Ipv4Addr};

use weft_control::netlord::tenants::Tenants;
use weft_control::netlord::{MacSpace, PUBLIC};
use weft_control::prefix::Prefix;
use weft_control::wire::netlord::{IpPacket, Ports};
use weft_fabric::TenantId;

use super::{Netlord, Vm, v4_of};

impl Netlord {
    /// Whether two VMs are in one MAC space, where they reach each other without a virtual router.
    pub fn is_joined(&self, a: &Vm, b: &Vm) -> bool {
        (a.id, a.space) == (b.id, b.space)
    }

    /// Whether two VMs belong to different tenants. All VIFs in the public space count as one tenant's.
    pub fn is_apart(&self, a: &Vm, b: &Vm) -> bool {
        a.id != b.id
    }
}

/// A request and its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exchange {
    /// ICMP echoes.
    Echo,
    /// TCP, from the first port to the second.
    Tcp(u16, u16),
    /// UDP, from the first port to the second.
    Udp(u16, u16),
}

/// Reachability of the VMs of a plan, over IPv4.
#[derive(Clone, Debug)]
pub struct Reach {
    tenants: Tenants,
}

impl Reach {
    /// Reads the tenants' file of the plan.
    pub fn of(netlord: &Netlord) -> Self {
        Self { tenants: Tenants::parse(&netlord.file).expect("it was checked when the plan was made") }
    }

    /// Whether a packet of the first VM reaches the second, and the answer the first.
    pub fn has(&self, a: &Vm, b: &Vm, exchange: Exchange) -> bool {
        let (Some(from), Some(to)) = (v4_of(a), v4_of(b)) else { return false };
        let (protocol, there, back) = match exchange {
            Exchange::Echo => (ICMP, Ports::None, Ports::None),
            Exchange::Tcp(src, dst) => (TCP, Ports::Known(src, dst), Ports::Known(dst, src)),
            Exchange::Udp(src, dst) => (UDP, Ports::Known(src, dst), Ports::Known(dst, src)),
        };
        self.arrives((a, from), (b, to), protocol, there) && self.arrives((b, to), (a, from), protocol, back)
    }

    fn arrives(&self, (a, src): (&Vm, Ipv4Addr), (b, dst): (&Vm, Ipv4Addr), protocol: u8, ports: Ports) -> bool {
        if a.id != b.id {
            return false;
        }
        let prefix = a.addresses.iter().find(|(ip, _)| *ip == IpAddr::V4(src)).and_then(|&(ip, len)| Prefix::of(ip, len));
        if prefix.is_some_and(|prefix| prefix.contains(dst.into())) {
            return a.space == b.space;
        }
        if a.id == PUBLIC.0 {
            return false;
        }
        let Some(tenant) = self.tenants.tenants.get(&TenantId(a.id)) else { return false };
        let space = MacSpace(a.space);
        let gateway = a.gateways.iter().find(|ip| ip.is_ipv4()).and_then(|&ip| tenant.gateway(space, ip));
        let Some(router) = gateway.and_then(|mac| tenant.router_at(space, mac)) else { return false };
        let packet = IpPacket { src: src.into(), dst: dst.into(), protocol, ports, fragment: None, ttl: 64, payload: &[] };
        tenant.route(router, &packet).is_ok_and(|hop| (hop.space.0, hop.to) == (b.space, IpAddr::V4(dst)))
    }
}

const ICMP: u8 = 1;
const TCP: u8 = 6;
const UDP: u8 = 17;
