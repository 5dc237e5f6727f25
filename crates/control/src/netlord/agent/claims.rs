//! Who has an address: VMs use addresses of their own choice, take them over from each other, and two servers may have one VIF.
//!
//! ```text
//!   a VM uses an address that nobody has ----------------------------> it is learnt, HERE to all
//!   a VM announces one that another VIF has learnt -----takeovers----> it is learnt, HERE to all --> the other's agent releases it
//!   a VM announces one that another VIF is configured with ----------> HERE to all --> the other's agent says HERE again --> released
//!   VMs of two servers announce one at the same time -----------------> each HERE comes after the other's: the greater MAC address keeps it and says HERE again
//! ```
//! So the last to announce an address has it, as VRRP and other schemes of takeover expect, and configured addresses stay where they are. All this within a tenant and
//! MAC space: names of others are other names.

use std::net::IpAddr;

use super::super::locations::{LocationInput, Locations, Query};
use super::super::nl_arp::MAX_ADDRESSES;
use super::super::paths::ChooseVlan;
use super::super::{Location, PUBLIC, Vif};
use super::{Agent, VifId};
use crate::time::{Duration, Instant};

/// Addresses that a VIF takes from others per second, and at once.
pub(super) const TAKEOVERS: (u32, u32) = (1, 5);

/// An address that a VIF has just announced. Another's announcement that comes now may have been sent before it was heard.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fresh {
    ip: IpAddr,
    until: Instant,
    /// How often it is defended yet: the other may be configured with it.
    defences: u8,
}

/// A VIF of this server that another has announced.
#[derive(Clone, Copy, Debug)]
pub(super) struct Elsewhere {
    at: Location,
    since: Instant,
    last: Instant,
}

impl<L: Locations, C: ChooseVlan> Agent<L, C> {
    /// VIFs of this server that another server has, too, and where: not those that have just moved, whose old place may go a little later.
    pub fn twice(&self, now: Instant) -> impl Iterator<Item = (Vif, Location)> {
        let is_both =
            move |it: &Elsewhere| now.saturating_since(it.since) >= MOVING && now.saturating_since(it.last) < REMEMBERED;
        self.elsewhere.iter().filter(move |(_, it)| is_both(it)).map(|(&vif, it)| (vif, it.at))
    }

    /// A VM uses an address, or announces to all that it has it.
    pub(super) fn learn(&mut self, id: VifId, vif: Vif, ip: IpAddr, is_announced: bool) {
        let is_one = !ip.is_unspecified() && !ip.is_multicast() && vif.tenant != PUBLIC;
        let has_room = self.vifs.get(&id).is_some_and(|local| local.addresses.len() < MAX_ADDRESSES);
        if !is_one || !has_room {
            return;
        }
        if let Some(holder) = self.locations.find(vif, Query::ip(vif.tenant, vif.space, ip)).map(|binding| binding.vif)
            && (holder == vif || !is_announced || !self.take_from(id, holder, ip))
        {
            return;
        }
        let Some(local) = self.vifs.get_mut(&id) else { return };
        if !local.addresses.contains(&ip) {
            local.addresses.push(ip);
            local.fresh.retain(|it| it.until > self.now && it.ip != ip);
            local.fresh.push(Fresh { ip, until: self.now.saturating_add(CROSSING), defences: DEFENCES });
            self.announce(id);
        }
    }

    /// Whether a VIF may have the address of another.
    fn take_from(&mut self, id: VifId, holder: Vif, ip: IpAddr) -> bool {
        let now = self.now;
        if !self.locations.announces(holder.tenant) {
            return false;
        }
        if !self.vifs.get_mut(&id).is_some_and(|local| local.takeovers.take(now)) {
            self.counts.takeovers_limited += 1;
            return false;
        }
        if self.by_vif.contains_key(&holder) && !self.release(holder, ip) {
            self.counts.addresses_defended += 1;
            return false;
        }
        self.counts.addresses_taken += 1;
        true
    }

    /// A VIF of this server loses an address, unless it is configured with it.
    fn release(&mut self, vif: Vif, ip: IpAddr) -> bool {
        let Some(local) = self.by_vif.get(&vif).and_then(|id| self.vifs.get_mut(id)) else { return false };
        let Some(at) = local.addresses.iter().position(|&it| it == ip).filter(|&at| at >= local.configured) else { return false };
        local.addresses.remove(at);
        self.input_locations(LocationInput::Release { vif, ip });
        self.counts.addresses_lost += 1;
        true
    }

    /// Another server has announced an address of a VIF that is here.
    pub(super) fn claimed(&mut self, vif: Vif, ip: IpAddr, by: Vif) {
        if !self.prevails(vif, ip, by) && self.release(vif, ip) {
            return;
        }
        // Claims are limited where they are made; one that is not answered would hold.
        if let Some(&id) = self.by_vif.get(&vif) {
            self.counts.addresses_defended += 1;
            self.announce(id);
        }
    }

    /// Whether a VIF keeps an address that another has announced at the same time. Both agents find the same: were both to release it, nobody would have it.
    fn prevails(&mut self, vif: Vif, ip: IpAddr, by: Vif) -> bool {
        let now = self.now;
        let Some(local) = self.by_vif.get(&vif).and_then(|id| self.vifs.get_mut(id)) else { return false };
        let Some(fresh) = local.fresh.iter_mut().find(|it| it.ip == ip && it.until > now && it.defences > 0) else {
            return false;
        };
        if vif.mac < by.mac {
            return false;
        }
        fresh.defences -= 1;
        true
    }

    /// Another server has announced a VIF that is here, unless it was this one's other interface.
    pub(super) fn announced_elsewhere(&mut self, vif: Vif, at: Location) {
        if self.is_own(at) || !self.by_vif.contains_key(&vif) {
            return;
        }
        let now = self.now;
        let entry = self.elsewhere.entry(vif).or_insert(Elsewhere { at, since: now, last: now });
        if entry.at != at || now.saturating_since(entry.last) >= REMEMBERED {
            entry.since = now;
        }
        (entry.at, entry.last) = (at, now);
        self.counts.elsewhere += 1;
    }
}

/// Announcements that are so near each other may have crossed.
const CROSSING: Duration = Duration::from_ms(100);
/// Each announcement comes once by each special VLAN.
const DEFENCES: u8 = 4;
/// A VIF that moves may be on both servers for so long.
const MOVING: Duration = Duration::from_secs(10);
/// What was announced so long ago may have ended without a word.
const REMEMBERED: Duration = Duration::from_secs(600);
