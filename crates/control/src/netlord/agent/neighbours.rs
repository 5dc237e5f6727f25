//! ARP and neighbour discovery of the VMs: agents answer, so that little is broadcast (section 3.9).

use std::net::{IpAddr, Ipv6Addr};

use weft_fabric::MacAddr;

use super::super::Vif;
use super::super::locations::{Locations, Query};
use super::super::paths::ChooseVlan;
use super::sending::Stop;
use super::{Agent, Drop, VifId};
use crate::wire::netlord::IpPacket;
use crate::wire::packet::arp::Arp;
use crate::wire::packet::ethernet::{EtherType, Ethernet};
use crate::wire::packet::ndp::{Neighbor, group_mac};

/// Addresses that a VIF asked for lately and that are remembered.
const ASKED_MAX: usize = 16;

impl<L: Locations, C: ChooseVlan> Agent<L, C> {
    /// Answers what is a question for an address. `Ok`: it is none, or the frame is to be forwarded.
    pub(super) fn answer_neighbours(&mut self, id: VifId, vif: Vif, frame: &Ethernet<'_>) -> Result<(), Stop> {
        match frame.ethertype {
            EtherType::ARP => self.answer_arp(id, vif, frame),
            EtherType::IPV6 => self.answer_solicitation(id, vif, frame),
            _ => Ok(()),
        }
    }

    fn answer_arp(&mut self, id: VifId, vif: Vif, frame: &Ethernet<'_>) -> Result<(), Stop> {
        let arp = Arp::parse(frame.payload).map_err(|_| Drop::Malformed)?;
        let ((_, sender), (_, target)) = (arp.sender, arp.target);
        self.check_claim(vif, sender.into())?;
        // A VM says to all that it has an address: as a request for itself (RFC 5227), or as an answer that nobody has asked for.
        let is_announced = if arp.is_request { target == sender } else { frame.dst.0[0] & 1 == 1 };
        self.learn(id, vif, sender.into(), is_announced);
        // A reply says something of its sender, and so does a request for one's own address.
        if !arp.is_request || target == sender || !self.is_to_all_or_gateway(vif, frame.dst) {
            return Ok(());
        }
        if let Some(mac) = self.answer_of(id, vif, target.into(), sender.is_unspecified())? {
            self.deliver(id, &arp.reply(mac).frame());
            return Err(Stop::Done);
        }
        Ok(())
    }

    fn answer_solicitation(&mut self, id: VifId, vif: Vif, frame: &Ethernet<'_>) -> Result<(), Stop> {
        let Ok(packet) = IpPacket::parse(frame) else { return Ok(()) };
        let Some(message) = packet.neighbor().map_err(|_| Drop::Malformed)? else { return Ok(()) };
        let (from, target) = (message.source, message.target);
        if !message.is_solicitation {
            self.check_claim(vif, target.into())?;
            self.learn(id, vif, target.into(), frame.dst.0[0] & 1 == 1);
            return Ok(());
        }
        if !self.is_to_all_or_gateway(vif, frame.dst) {
            return Ok(());
        }
        let is_probe = from.is_unspecified();
        self.check_claim(vif, from.into())?;
        self.learn(id, vif, from.into(), false);
        let Some(mac) = self.answer_of(id, vif, target.into(), is_probe)? else { return Ok(()) };
        let is_router = self.gateway(vif, target.into()).is_some();
        let (to, to_mac) = if is_probe { (ALL_NODES, group_mac(ALL_NODES)) } else { (from, vif.mac) };
        let answer = Neighbor { is_router, ..Neighbor::advertisement(target, mac, to) };
        self.deliver(id, &answer.frame(to_mac, mac));
        Err(Stop::Done)
    }

    /// The MAC address that a question for `ip` is answered with; none if it is to be forwarded. `is_probe`: the asker wants the address for itself.
    fn answer_of(&mut self, id: VifId, vif: Vif, ip: IpAddr, is_probe: bool) -> Result<Option<MacAddr>, Stop> {
        if let Some(mac) = self.gateway(vif, ip) {
            self.counts.answered += 1;
            return Ok(Some(mac));
        }
        let own = self.vifs.get(&id).is_some_and(|local| local.addresses.contains(&ip));
        if own {
            return Ok(None);
        }
        let query = Query::ip(vif.tenant, vif.space, ip);
        let binding = match self.locations.find(vif, query) {
            Some(binding) => binding,
            // A test whether an address is free must not wait: the owner hears it.
            None if is_probe => return Ok(None),
            None => return Err(Stop::Seek(query)),
        };
        if binding.vif == vif {
            return Ok(None);
        }
        if self.asks_again(id, ip) && self.may_search(id) {
            self.doubt(query);
        }
        self.counts.answered += 1;
        Ok(Some(binding.vif.mac))
    }

    /// A question to one VM (a check that it is still there) is answered by that one.
    fn is_to_all_or_gateway(&self, vif: Vif, dst: MacAddr) -> bool {
        let is_gateway = || self.tenants.tenants.get(&vif.tenant).is_some_and(|it| it.router_at(vif.space, dst).is_some());
        dst.0[0] & 1 == 1 || is_gateway()
    }

    fn gateway(&self, vif: Vif, ip: IpAddr) -> Option<MacAddr> {
        self.tenants.tenants.get(&vif.tenant)?.gateway(vif.space, ip)
    }

    /// Nobody but the agent speaks for a virtual router.
    fn check_claim(&self, vif: Vif, ip: IpAddr) -> Result<(), Stop> {
        if self.gateway(vif, ip).is_some() { Err(Drop::SpoofedGateway.into()) } else { Ok(()) }
    }

    /// Whether a VIF has asked for the address a short while ago.
    fn asks_again(&mut self, id: VifId, ip: IpAddr) -> bool {
        let (now, doubt) = (self.now, self.config.doubt);
        let Some(local) = self.vifs.get_mut(&id) else { return false };
        local.asked.retain(|&(_, when)| now.saturating_since(when) < doubt);
        let again = local.asked.iter().any(|&(asked, _)| asked == ip);
        local.asked.retain(|&(asked, _)| asked != ip);
        if local.asked.len() == ASKED_MAX {
            local.asked.pop_front();
        }
        local.asked.push_back((ip, now));
        again
    }
}

const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
