//! Which VMs reach each other: as their kernels send, and as their tenant's virtual routers let pass.

use std::net::{IpAddr, Ipv4Addr};

use weft_control::netlord::tenants::Tenants;
use weft_control::netlord::{MacSpace, PUBLIC};
use weft_control::prefix::Prefix;
use weft_control::wire::netlord::{IpPacket, Ports};
use weft_fabric::TenantId;

use super::{Netlord, Vm, v4_of};

/// What is sent, and answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// Echoes of ICMP.
    Echo,
    /// TCP from a port to a port.
    Tcp(u16, u16),
    /// The same of UDP.
    Udp(u16, u16),
}

/// Answers for the VMs of a plan, over IPv4.
#[derive(Clone, Debug)]
pub struct Reach {
    tenants: Tenants,
}

impl Reach {
    /// Of these tenants.
    pub fn of(netlord: &Netlord) -> Self {
        Self { tenants: Tenants::parse(&netlord.file).expect("it was checked as the plan was made") }
    }

    /// Whether what one VM sends another gets, and its answer the first.
    pub fn has(&self, a: &Vm, b: &Vm, what: Sent) -> bool {
        let (Some(from), Some(to)) = (v4_of(a), v4_of(b)) else { return false };
        let (protocol, there, back) = match what {
            Sent::Echo => (ICMP, Ports::None, Ports::None),
            Sent::Tcp(src, dst) => (TCP, Ports::Known(src, dst), Ports::Known(dst, src)),
            Sent::Udp(src, dst) => (UDP, Ports::Known(src, dst), Ports::Known(dst, src)),
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
        let packet = IpPacket { src: src.into(), dst: dst.into(), protocol, ports, ttl: 64, payload: &[] };
        tenant.route(router, &packet).is_ok_and(|hop| (hop.space.0, hop.to) == (b.space, IpAddr::V4(dst)))
    }
}

const ICMP: u8 = 1;
const TCP: u8 = 6;
const UDP: u8 = 17;
