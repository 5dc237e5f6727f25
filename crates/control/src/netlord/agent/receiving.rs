//! From the fabric to VMs (section 3.8, "receiving NLA operation").

use weft_fabric::{MacAddr, TenantId};

use super::super::locations::{LocationInput, Locations, Query};
use super::super::paths::ChooseVlan;
use super::super::{Location, PROVIDER, PUBLIC, UplinkId, Vif, is_unicast};
use super::sending::is_control;
use super::{Agent, Drop, Output, VifId};
use crate::bucket::Bucket;
use crate::wire::netlord::{Encapsulation, IpPacket, NlArp, Overlay, Recipient, Unicast, group_mac};
use crate::wire::packet::PacketError;
use crate::wire::packet::ethernet::{BROADCAST, EtherType, Ethernet, VlanId};

impl<L: Locations, C: ChooseVlan> Agent<L, C> {
    pub(super) fn receive(&mut self, uplink: UplinkId, frame: &[u8]) {
        let Some(mac) = self.uplinks.get(&uplink).map(|it| it.mac) else { return self.counts.drop(None, Drop::NoUplink) };
        let Ok(outer) = Ethernet::parse(frame) else { return self.counts.drop(None, Drop::Foreign) };
        match outer.ethertype {
            EtherType::LLDP => self.lldp(uplink, frame),
            EtherType::ARP if outer.dst == mac || outer.dst == BROADCAST => self.switch_arp(uplink, outer.payload),
            EtherType::NL_ARP => match NlArp::parse(frame) {
                // What this server has said by one interface comes back by another.
                Ok((from, _)) if self.is_own(from) => self.counts.copies += 1,
                Ok((from, message)) => self.input_locations(LocationInput::Broadcast { from, message }),
                Err(PacketError::Version(_)) => self.counts.drop(None, Drop::OtherVersion),
                Err(_) => self.counts.drop(None, Drop::BadControl),
            },
            EtherType::IPV4 => self.decapsulate(uplink, mac, frame),
            _ => self.counts.drop(None, Drop::Foreign),
        }
    }

    fn decapsulate(&mut self, uplink: UplinkId, mac: MacAddr, frame: &[u8]) {
        let it = match Encapsulation::parse(frame) {
            Ok(it) => it,
            Err(PacketError::Kind(_)) => return self.counts.drop(None, Drop::Foreign),
            Err(_) => return self.counts.drop(None, Drop::BadEncapsulation),
        };
        let Some(here) = self.location(uplink) else { return self.counts.drop(None, Drop::NoUplink) };
        match it.overlay.to {
            Recipient::Group if it.dst == group_mac(it.overlay.tenant) => self.receive_group(uplink, &it),
            Recipient::Port(port) if it.dst == mac && port == here.port => self.receive_one(uplink, here, &it),
            _ => self.counts.drop(None, Drop::NotMine),
        }
    }

    fn receive_one(&mut self, uplink: UplinkId, here: Location, it: &Encapsulation<'_>) {
        let Overlay { tenant, space, vlan, .. } = it.overlay;
        let Ok(inner) = Ethernet::parse(it.inner) else { return self.counts.drop(None, Drop::Forged) };
        if tenant == PROVIDER && [EtherType::NL_ARP, EtherType::NL_ARP_NOT_HERE].contains(&inner.ethertype) {
            return match Unicast::parse(space, it.inner) {
                Ok(message) => self.hear_agent(uplink, message, vlan),
                Err(_) => self.counts.drop(None, Drop::BadControl),
            };
        }
        if is_control(&inner) || !is_unicast(inner.dst) {
            return self.counts.drop(None, Drop::Forged);
        }
        let vif = Vif { tenant, space, mac: inner.dst };
        let sender = self.sender(vif, &inner);
        match self.by_vif.get(&vif).copied() {
            Some(id) => {
                self.deliver(id, it.inner);
                self.hear(uplink, vif, sender, vlan);
            }
            None => {
                self.counts.drop(None, Drop::Misdelivered);
                if self.may_correct(tenant) {
                    self.input_locations(LocationInput::Misdelivered { vif, here, sender });
                }
            }
        }
    }

    /// Who sent a frame that came: the VIF of its source, or, if a virtual router's is there, of its IP source.
    fn sender(&self, to: Vif, inner: &Ethernet<'_>) -> Query {
        let by_mac = Query::mac(to.tenant, to.space, inner.src);
        if to.tenant == PUBLIC {
            return by_mac;
        }
        let routed = || {
            let tenant = self.tenants.tenants.get(&to.tenant)?;
            let router = tenant.router_at(to.space, inner.src)?;
            let src = IpPacket::parse(inner).ok()?.src;
            // The sender's subnet is this router's, or one behind another of the tenant's.
            let own = tenant.subnet_of(router, src);
            let others = (0..tenant.routers.len()).find_map(|other| tenant.subnet_of(other, src));
            own.or(others).map(|interface| Query::ip(to.tenant, interface.space, src))
        };
        routed().unwrap_or(by_mac)
    }

    /// The path of a frame works. The sender's place determines the ingress switch.
    fn hear(&mut self, uplink: UplinkId, to: Vif, sender: Query, vlan: Option<VlanId>) {
        let Some(vlan) = vlan else { return };
        match self.locations.find(to, sender) {
            Some(binding) => self.chooser.heard(self.now, uplink, binding.at, vlan),
            None => {
                if let Some(&id) = self.by_vif.get(&to)
                    && self.may_search(id)
                {
                    self.input_locations(LocationInput::Seek { asker: to, query: sender });
                }
            }
        }
    }

    /// A message of another agent: its path works as well.
    fn hear_agent(&mut self, uplink: UplinkId, message: Unicast, vlan: Option<VlanId>) {
        let (Unicast::Here { at, .. } | Unicast::NotHere { at, .. } | Unicast::Chirp { from: at, .. }) = message;
        match (message, vlan) {
            (Unicast::Chirp { is_answer: false, .. }, Some(vlan)) => self.chooser.chirped(self.now, uplink, at, vlan),
            (_, Some(vlan)) => self.chooser.heard(self.now, uplink, at, vlan),
            (_, None) => {}
        }
        if !matches!(message, Unicast::Chirp { .. }) {
            self.input_locations(LocationInput::Unicast(message));
        }
    }

    /// Whether a sender may be corrected: one tenant's do not use up what others need.
    fn may_correct(&mut self, tenant: TenantId) -> bool {
        let now = self.now;
        if self.corrections.len() >= CORRECTED_MAX {
            self.corrections.retain(|_, bucket| !bucket.is_full(now));
        }
        let (rate, burst) = self.config.corrections;
        let is_new = !self.corrections.contains_key(&tenant);
        if is_new && self.corrections.len() >= CORRECTED_MAX {
            return false;
        }
        self.corrections.entry(tenant).or_insert_with(|| Bucket::new(rate, burst)).take(now)
    }

    fn receive_group(&mut self, uplink: UplinkId, it: &Encapsulation<'_>) {
        let Overlay { tenant, space, vlan, .. } = it.overlay;
        match Ethernet::parse(it.inner) {
            Ok(inner) if inner.dst.0[0] & 1 == 1 && !is_control(&inner) => {
                let sender = Vif { tenant, space, mac: inner.src };
                let uplinks: Vec<UplinkId> = self.placed().map(|(id, _)| id).collect();
                // What a VM of this server has sent by one interface comes back by another: all here had it then.
                if !self.by_vif.contains_key(&sender)
                    && self.copies.is_first(self.now, (tenant, space), (uplink, vlan), &uplinks, it.inner)
                {
                    self.flood_here(sender, it.inner);
                } else {
                    self.counts.copies += 1;
                }
            }
            _ => self.counts.drop(None, Drop::Forged),
        }
    }

    /// Hands a frame to all VIFs here of the sender's MAC space, but to the sender.
    pub(super) fn flood_here(&mut self, sender: Vif, frame: &[u8]) {
        let first = Vif { mac: MacAddr([0; 6]), ..sender };
        let last = Vif { mac: MacAddr([0xff; 6]), ..sender };
        let here: Vec<VifId> = self.by_vif.range(first..=last).filter(|(vif, _)| **vif != sender).map(|(_, &id)| id).collect();
        for id in here {
            self.deliver(id, frame);
        }
    }

    pub(super) fn deliver(&mut self, id: VifId, frame: &[u8]) {
        let Some(local) = self.vifs.get(&id) else { return };
        self.counts.delivered(local.vif.tenant, frame.len());
        self.out.push_back(Output::ToVif { id, frame: frame.to_vec() });
    }
}

/// Tenants whose senders are corrected at the same time.
const CORRECTED_MAX: usize = 4096;
