//! From VMs to VMs (section 3.8, "sending NLA operation"; figure 3).

use std::net::IpAddr;

use weft_fabric::TenantId;
use weft_fabric::rng::mix;

use super::super::locations::{Binding, LocationInput, Locations, Query};
use super::super::paths::{ChooseVlan, FlowHash};
use super::super::tenants::{NextHop, RouteError, Tenant};
use super::super::{Location, PUBLIC, UplinkId, Vif};
use super::fragments::{Datagram, Verdict};
use super::{Agent, Drop, MapChange, Output, RoutedFlow, VifId};
use crate::wire::netlord::{Encapsulation, IpPacket, Overlay, Ports, Recipient, Unicast, echo, group_mac, route_in_place};
use crate::wire::packet::arp::Arp;
use crate::wire::packet::ethernet::{EtherType, Ethernet};
use crate::wire::packet::ip::ICMPV6;

/// How a frame ended that has not gone on.
pub(super) enum Stop {
    /// Counted.
    Drop(Drop),
    /// Somebody is looked for; the frame waits.
    Seek(Query),
    /// The first fragment of the datagram is awaited.
    Hold(Datagram),
    /// Answered by the agent itself.
    Done,
}

impl From<Drop> for Stop {
    fn from(reason: Drop) -> Self {
        Self::Drop(reason)
    }
}

/// Frames between switches, or between agents: none of a VM's business.
pub(super) fn is_control(frame: &Ethernet<'_>) -> bool {
    let reserved = [EtherType::NL_ARP, EtherType::NL_ARP_NOT_HERE, EtherType::LLDP].contains(&frame.ethertype);
    let [a, b, c, d, e, f] = frame.dst.0;
    reserved || ([a, b, c, d, e] == [0x01, 0x80, 0xc2, 0, 0] && f < 0x10)
}

impl<L: Locations, C: ChooseVlan> Agent<L, C> {
    pub(super) fn transmit(&mut self, id: VifId, frame: &[u8]) {
        let Some(vif) = self.vifs.get(&id).map(|local| local.vif) else { return self.counts.drop(None, Drop::Malformed) };
        self.counts.sent(vif.tenant, frame.len());
        self.send(id, vif, frame);
        self.send_released();
    }

    /// Sends the fragments whose first has come.
    fn send_released(&mut self) {
        while let Some((id, frame)) = self.fragments.released() {
            if let Some(vif) = self.vifs.get(&id).map(|local| local.vif) {
                self.send(id, vif, &frame);
            }
        }
    }

    /// Sends a frame, or keeps it.
    fn send(&mut self, id: VifId, vif: Vif, frame: &[u8]) {
        match self.try_send(id, vif, frame) {
            Ok(()) | Err(Stop::Done) => {}
            Err(Stop::Drop(reason)) => {
                self.counts.drop(Some(vif.tenant), reason);
                self.report_drop(id, vif, frame, reason);
            }
            Err(Stop::Seek(query)) => self.keep(id, vif, query, frame),
            Err(Stop::Hold(datagram)) => {
                if !self.fragments.hold(self.now, id, datagram, frame) {
                    self.counts.drop(Some(vif.tenant), Drop::Fragment);
                }
            }
        }
    }

    fn try_send(&mut self, id: VifId, vif: Vif, frame: &[u8]) -> Result<(), Stop> {
        let parsed = Ethernet::parse(frame).map_err(|_| Drop::Malformed)?;
        if parsed.src != vif.mac {
            return Err(Drop::SpoofedMac.into());
        }
        if is_control(&parsed) {
            return Err(Drop::Control.into());
        }
        if vif.tenant == PUBLIC {
            self.check_public(id, &parsed)?;
        }
        // What is behind a tag of the tenant's own is not looked into.
        if parsed.tag.is_none() {
            self.answer_neighbours(id, vif, &parsed)?;
            if let Some(router) = self.tenants.tenants.get(&vif.tenant).and_then(|it| it.router_at(vif.space, parsed.dst)) {
                return self.route(id, vif, router, &parsed, frame);
            }
        }
        if parsed.dst.0[0] & 1 == 1 {
            return self.flood(id, vif, frame);
        }
        let to = Vif { mac: parsed.dst, ..vif };
        let query = Query::vif(to);
        let binding = self.locate(vif, query)?;
        self.forward(id, query, binding, frame)
    }

    /// In the public space everybody has the addresses that he was given.
    fn check_public(&self, id: VifId, frame: &Ethernet<'_>) -> Result<(), Stop> {
        let owns = |ip: IpAddr| self.vifs.get(&id).is_some_and(|local| local.addresses.contains(&ip));
        if frame.tag.is_some() {
            return Err(Drop::SpoofedIp.into());
        }
        if frame.ethertype == EtherType::ARP {
            let arp = Arp::parse(frame.payload).map_err(|_| Drop::Malformed)?;
            let (mac, ip) = arp.sender;
            let honest = mac == frame.src && (ip.is_unspecified() || owns(ip.into()));
            return if honest { Ok(()) } else { Err(Drop::SpoofedIp.into()) };
        }
        let packet = IpPacket::parse(frame).map_err(|_| Drop::SpoofedIp)?;
        let of_link = match packet.src {
            IpAddr::V6(ip) => packet.protocol == ICMPV6 && (ip.is_unspecified() || ip.is_unicast_link_local()),
            IpAddr::V4(_) => false,
        };
        let claims = match packet.neighbor().map_err(|_| Drop::Malformed)? {
            Some(it) if !it.is_solicitation => owns(it.target.into()) || it.target.is_unicast_link_local(),
            _ => true,
        };
        if claims && (of_link || owns(packet.src)) { Ok(()) } else { Err(Drop::SpoofedIp.into()) }
    }

    /// Over a virtual router (section 3.2): what the router would do is done here.
    fn route(&mut self, id: VifId, vif: Vif, router: usize, parsed: &Ethernet<'_>, frame: &[u8]) -> Result<(), Stop> {
        let packet = IpPacket::parse(parsed).map_err(|_| Drop::NoRoute)?;
        let tenants = std::sync::Arc::clone(&self.tenants);
        let Some(tenant) = tenants.tenants.get(&vif.tenant) else { return Err(Drop::NoRoute.into()) };
        if tenant.is_gateway(packet.dst) {
            let answer = echo(parsed, &packet).ok_or(Drop::NoRoute)?;
            self.counts.answered += 1;
            self.deliver(id, &answer);
            return Err(Stop::Done);
        }
        let hop = self.next_hop(id, tenant, router, parsed, &packet)?;
        if packet.ttl <= 1 {
            return Err(Drop::TimeToLive.into());
        }
        let query = Query::ip(vif.tenant, hop.space, hop.to);
        let binding = self.locate(vif, query)?;
        let mut routed = frame.to_vec();
        if !route_in_place(&mut routed, binding.vif.mac, hop.from) {
            return Err(Drop::NoRoute.into());
        }
        self.counts.routed += 1;
        let port = if let Ports::Known(_, port) = packet.ports { port } else { 0 };
        if packet.ports != Ports::Hidden {
            let IpPacket { src: source, dst: destination, protocol, .. } = packet;
            let flow =
                RoutedFlow { id, router: parsed.dst, source, destination, protocol, port, to: binding.vif, from: hop.from };
            self.out.push_back(Output::Map(MapChange::Routed(flow)));
        }
        self.forward(id, query, binding, &routed)
    }

    /// Where routers send a packet. Fragments of a datagram go where its first one did.
    fn next_hop(
        &mut self,
        id: VifId,
        tenant: &Tenant,
        router: usize,
        parsed: &Ethernet<'_>,
        packet: &IpPacket<'_>,
    ) -> Result<NextHop, Stop> {
        let now = self.now;
        let Some(part) = packet.fragment else { return tenant.route(router, packet).map_err(refused) };
        if part.is_nested {
            return Err(Drop::Fragment.into());
        }
        let by_any = tenant.route_fragment(router, &IpPacket { ports: hidden(packet.ports), ..*packet });
        let is_open = by_any == Err(RouteError::NoPorts);
        let datagram = Datagram::new(parsed.dst, packet, part);
        if part.offset == 0 {
            let hop = tenant.route(router, packet);
            // The protocol of IPv6's later fragments may not be seen either.
            if is_open || packet.src.is_ipv6() {
                let is_allowed = hop != Err(RouteError::Denied);
                self.fragments.decide(now, id, datagram, Verdict { is_allowed, length: part.length });
            }
            return hop.map_err(refused);
        }
        if !is_open {
            return by_any.map_err(refused);
        }
        match self.fragments.verdict(now, id, datagram) {
            None => Err(Stop::Hold(datagram)),
            Some(Verdict { is_allowed: false, .. }) => Err(Drop::Denied.into()),
            Some(first) if part.offset < first.length => Err(Drop::Fragment.into()),
            Some(_) => tenant.route_allowed(router, packet.dst).map_err(refused),
        }
    }

    /// Drops fragments whose first has not come.
    pub(super) fn expire_fragments(&mut self) {
        while let Some((id, count)) = self.fragments.expire(self.now) {
            let tenant = self.vifs.get(&id).map(|local| local.vif.tenant);
            (0..count).for_each(|_| self.counts.drop(tenant, Drop::Fragment));
        }
    }

    /// Where somebody of the asker's tenant is.
    pub(super) fn locate(&mut self, asker: Vif, query: Query) -> Result<Binding, Stop> {
        debug_assert_eq!(asker.tenant, query.tenant);
        self.locations.find(asker, query).ok_or(Stop::Seek(query))
    }

    /// To one VIF, here or elsewhere.
    fn forward(&mut self, id: VifId, query: Query, to: Binding, frame: &[u8]) -> Result<(), Stop> {
        if let Some(&there) = self.by_vif.get(&to.vif) {
            self.deliver(there, frame);
            return Ok(());
        }
        if self.is_own(to.at) {
            // This server itself, where it is not: what is known is stale.
            self.input_locations(LocationInput::Unicast(Unicast::NotHere { vif: to.vif, at: to.at }));
            return Err(Stop::Seek(query));
        }
        let uplink = self.vifs.get(&id).and_then(|local| local.uplink);
        let Vif { tenant, space, .. } = to.vif;
        let overlay = Overlay { to: Recipient::Port(to.at.port), tenant, space, vlan: None };
        self.encapsulate(uplink, to.at, overlay, frame)?;
        self.map(query, to.vif, to.at);
        Ok(())
    }

    /// To a server (section 3.5). The VLAN is chosen here, unless it is given; to a server of the same switch there is none.
    pub(super) fn encapsulate(
        &mut self,
        uplink: Option<UplinkId>,
        to: Location,
        mut overlay: Overlay,
        inner: &[u8],
    ) -> Result<(), Drop> {
        let uplink = uplink.ok_or(Drop::NoUplink)?;
        let (Some(link), Some(here)) = (self.uplinks.get(&uplink).copied(), self.location(uplink)) else {
            return Err(Drop::NoUplink);
        };
        if inner.len() + 20 > usize::from(link.mtu) {
            return Err(Drop::TooLong);
        }
        let src = if here.switch == to.switch {
            overlay.vlan = None;
            link.mac
        } else {
            let chosen = overlay.vlan.or_else(|| self.chooser.choose(self.now, uplink, to, flow(overlay.tenant, inner)));
            overlay.vlan = Some(chosen.ok_or(Drop::NoPath)?);
            here.switch
        };
        self.counts.encapsulated += 1;
        let mut frame = Vec::with_capacity(inner.len() + 38);
        Encapsulation { dst: to.switch, src, tag: overlay.vlan, overlay, inner }.emit(&mut frame);
        self.out.push_back(Output::ToFabric { uplink, frame });
        Ok(())
    }

    /// To all of the MAC space.
    pub(super) fn flood(&mut self, id: VifId, vif: Vif, frame: &[u8]) -> Result<(), Stop> {
        let now = self.now;
        let Some(local) = self.vifs.get_mut(&id) else { return Err(Drop::NoUplink.into()) };
        if !local.storm.take(now) {
            return Err(Drop::Storm.into());
        }
        let uplink = local.uplink;
        self.flood_here(vif, frame);
        let Some((uplink, here)) = uplink.and_then(|id| Some((id, self.location(id)?))) else {
            return Err(Drop::NoUplink.into());
        };
        if frame.len() + 20 > self.uplinks.get(&uplink).map_or(0, |link| usize::from(link.mtu)) {
            return Err(Drop::TooLong.into());
        }
        let dst = group_mac(vif.tenant);
        for vlan in self.config.special_vlans.iter().copied().map(Some) {
            let overlay = Overlay { to: Recipient::Group, tenant: vif.tenant, space: vif.space, vlan };
            let mut out = Vec::with_capacity(frame.len() + 38);
            Encapsulation { dst, src: here.switch, tag: vlan, overlay, inner: frame }.emit(&mut out);
            self.counts.encapsulated += 1;
            self.out.push_back(Output::ToFabric { uplink, frame: out });
        }
        Ok(())
    }

    /// Keeps a frame until its destination is found, or nobody says that he has it.
    fn keep(&mut self, id: VifId, vif: Vif, query: Query, frame: &[u8]) {
        let Some(is_first) = self.kept.admits(self.config.room, id, query, frame.len()) else {
            return self.counts.drop(Some(vif.tenant), Drop::Kept);
        };
        if is_first && !self.may_search(id) {
            return self.counts.drop(Some(vif.tenant), Drop::WhereLimit);
        }
        self.kept.push(id, query, frame);
        if is_first {
            self.input_locations(LocationInput::Seek { asker: vif, query });
        }
    }

    /// Whether a VIF may cause a search now.
    pub(super) fn may_search(&mut self, id: VifId) -> bool {
        let now = self.now;
        self.vifs.get_mut(&id).is_some_and(|local| local.searches.take(now))
    }

    /// A search has ended: what was kept goes on, or is dropped.
    pub(super) fn sought(&mut self, query: Query, found: bool) {
        for (id, frame) in self.kept.take(query) {
            let Some(vif) = self.vifs.get(&id).map(|local| local.vif) else { continue };
            if found {
                self.send(id, vif, &frame);
            } else if is_neighbour_question(&frame) {
                // Nobody's agent knows the address; its VM may answer for itself.
                if let Err(Stop::Drop(reason)) = self.flood(id, vif, &frame) {
                    self.counts.drop(Some(vif.tenant), reason);
                }
            } else {
                self.counts.drop(Some(vif.tenant), Drop::NoLocation);
                self.report_drop(id, vif, &frame, Drop::NoLocation);
            }
        }
        self.send_released();
    }
}

fn refused(error: RouteError) -> Stop {
    Stop::Drop(match error {
        RouteError::Denied => Drop::Denied,
        RouteError::NoRoute => Drop::NoRoute,
        RouteError::NoPorts => Drop::Fragment,
    })
}

/// The ports of a fragment as the later ones have them.
const fn hidden(ports: Ports) -> Ports {
    if matches!(ports, Ports::Known(..)) { Ports::Hidden } else { ports }
}

/// A frame that was kept is to a group only if it is an ARP request or a neighbour solicitation.
fn is_neighbour_question(frame: &[u8]) -> bool {
    frame.first().is_some_and(|first| first & 1 == 1)
}

/// What keeps its order, the same in both directions: the five-tuple of TCP and UDP, else the addresses. A data plane in the kernel computes the same.
pub fn flow(tenant: TenantId, inner: &[u8]) -> FlowHash {
    let end = |bytes: &[u8], port: u16| {
        let mut hash = mix(u64::from(port) + 1);
        for part in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..part.len()].copy_from_slice(part);
            hash = mix(hash ^ u64::from_be_bytes(word)).wrapping_add(part.len() as u64);
        }
        hash
    };
    let ip = |ip: IpAddr, port: u16| match ip {
        IpAddr::V4(ip) => end(&ip.octets(), port),
        IpAddr::V6(ip) => end(&ip.octets(), port),
    };
    let Ok(frame) = Ethernet::parse(inner) else { return FlowHash(0) };
    let (from, to, protocol) = match IpPacket::parse(&frame) {
        Ok(packet) => {
            // The fragments of a packet have no ports that could be seen: they take a path of their own.
            let (from, to) = if let Ports::Known(from, to) = packet.ports { (from, to) } else { (0, 0) };
            (ip(packet.src, from), ip(packet.dst, to), packet.protocol)
        }
        Err(_) => (end(&frame.src.0, 0), end(&frame.dst.0, 0), 0),
    };
    // A sum of mixed values does not know an order.
    let both = mix(from).wrapping_add(mix(to));
    FlowHash(mix(both ^ (u64::from(tenant.0) << 8 | u64::from(protocol))))
}
