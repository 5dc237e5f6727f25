//! ICMP errors of virtual routers (RFC 792, RFC 1812 section 4.3, RFC 4443): to the VM whose packet goes no further.

use std::net::IpAddr;

use super::super::locations::Locations;
use super::super::paths::ChooseVlan;
use super::super::{UplinkId, Vif};
use super::{Agent, Drop, VifId};
use crate::wire::netlord::IpPacket;
use crate::wire::packet::ethernet::{EtherType, Ethernet};
use crate::wire::packet::ip::Packet;
use crate::wire::vl2::icmp::{IcmpError, Problem};

/// Bytes of an encapsulation and of the inner Ethernet header, which the fabric's MTU has to hold besides an IP packet.
const OVERHEAD: u16 = 34;

impl<L: Locations, C: ChooseVlan> Agent<L, C> {
    /// Reports to a VM why a router dropped its packet, at a limited rate. Nothing is reported if the frame is not to a router, if the reason is none of a router's, or
    /// if there must be no error about the packet.
    pub(super) fn report_drop(&mut self, id: VifId, vif: Vif, frame: &[u8], reason: Drop) {
        let Ok(parsed) = Ethernet::parse(frame) else { return };
        let Some(problem) = self.problem(id, &parsed, reason) else { return };
        let Some(teller) = self.router_address(vif, &parsed) else { return };
        if IpPacket::parse(&parsed).is_ok_and(|packet| packet.fragment.is_some_and(|it| it.offset > 0)) {
            return;
        }
        let Ok(about) = Packet::new(parsed.payload) else { return };
        let mut packet = Vec::new();
        if (IcmpError { teller, problem, about: about.bytes() }).emit(&mut packet).is_err() {
            return;
        }
        let now = self.now;
        if !self.vifs.get_mut(&id).is_some_and(|local| local.icmp_errors.take(now)) {
            self.counts.icmp_limited += 1;
            return;
        }
        let mut answer = Vec::with_capacity(packet.len() + 14);
        let ethertype = if teller.is_ipv4() { EtherType::IPV4 } else { EtherType::IPV6 };
        Ethernet { dst: parsed.src, src: parsed.dst, tag: None, ethertype, payload: &packet }.emit(&mut answer);
        self.counts.icmp_errors += 1;
        self.deliver(id, &answer);
    }

    fn problem(&self, id: VifId, frame: &Ethernet<'_>, reason: Drop) -> Option<Problem> {
        match reason {
            Drop::NoRoute => Some(Problem::NetUnreachable),
            Drop::NoLocation => Some(Problem::HostUnreachable),
            Drop::Denied => Some(Problem::Prohibited),
            Drop::TimeToLive => Some(Problem::TimeExceeded),
            // A router that could cut the packet is not one that reports it.
            Drop::TooLong if Packet::new(frame.payload).is_ok_and(|packet| packet.is_unfragmentable()) => {
                let mtu = self.vifs.get(&id)?.uplink.and_then(|uplink: UplinkId| self.uplinks.get(&uplink))?.mtu;
                Some(Problem::TooBig { mtu: mtu.saturating_sub(OVERHEAD) })
            }
            _ => None,
        }
    }

    /// The address of the router that a frame is to, on the VM's side and of the packet's version.
    fn router_address(&self, vif: Vif, frame: &Ethernet<'_>) -> Option<IpAddr> {
        let packet = IpPacket::parse(frame).ok()?;
        let tenant = self.tenants.tenants.get(&vif.tenant)?;
        let router = &tenant.routers[tenant.router_at(vif.space, frame.dst)?];
        let fits = router.interfaces.iter().filter(|it| it.space == vif.space && it.address.is_ipv4() == packet.src.is_ipv4());
        let near = fits.clone().find(|it| it.subnet.contains(packet.src));
        near.or_else(|| fits.clone().next()).map(|it| it.address)
    }
}
