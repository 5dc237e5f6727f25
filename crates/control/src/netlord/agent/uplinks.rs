//! The interfaces to the fabric: their places, by LLDP, and the edge switch's ARP requests (section 3.7).
//!
//! ```text
//!   VIF 1, VIF 3 ---- eth0 --LLDP--> edge switch 1, port 4       each VIF is at one place, and sends by that interface alone;
//!   VIF 2 ----------- eth1 --LLDP--> edge switch 2, port 4       whose interface is lost takes another, and says so to all
//! ```

use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use weft_fabric::MacAddr;

use super::super::locations::{LocationInput, Locations};
use super::super::paths::ChooseVlan;
use super::super::{Location, UplinkId};
use super::{Agent, Drop, Output, VifId};
use crate::time::{Duration, Instant};
use crate::wire::netlord::Lldp;
use crate::wire::packet::arp::Arp;

/// An interface that is up.
#[derive(Clone, Copy, Debug)]
pub(super) struct Uplink {
    pub mac: MacAddr,
    pub mtu: u16,
    /// Its place, and how long that holds.
    place: Option<(Location, Instant)>,
}

impl Uplink {
    pub fn location(&self) -> Option<Location> {
        self.place.map(|(at, _)| at)
    }

    pub fn expires(&self) -> Option<Instant> {
        self.place.map(|(_, until)| until)
    }
}

impl<L: Locations, C: ChooseVlan> Agent<L, C> {
    pub(super) fn set_uplink(&mut self, id: UplinkId, up: Option<(MacAddr, u16)>) {
        match up {
            Some((mac, mtu)) => {
                let place = self.uplinks.get(&id).and_then(|uplink| uplink.place);
                self.uplinks.insert(id, Uplink { mac, mtu, place });
            }
            None => {
                if self.uplinks.remove(&id).is_some_and(|uplink| uplink.place.is_some()) {
                    self.lost(id);
                }
            }
        }
    }

    /// The edge switch has spoken.
    pub(super) fn lldp(&mut self, id: UplinkId, frame: &[u8]) {
        let Ok(Lldp { location, ttl_s }) = Lldp::parse(frame) else { return self.counts.drop(None, Drop::BadControl) };
        let until = self.now.saturating_add(Duration::from_secs(u64::from(ttl_s)));
        let Some(uplink) = self.uplinks.get_mut(&id) else { return };
        if ttl_s == 0 {
            if uplink.place.take().is_some() {
                self.lost(id);
            }
            return;
        }
        let was = uplink.location();
        uplink.place = Some((location, until));
        if was == Some(location) {
            return;
        }
        if was.is_some() {
            self.chooser.lost(self.now, id);
        }
        self.out.push_back(Output::Located { uplink: id, at: Some(location) });
        for vif in self.vifs_of(Some(id)) {
            self.announce(vif);
        }
        for vif in self.vifs_of(None) {
            self.home(vif);
        }
        self.spread();
    }

    pub(super) fn expire_uplinks(&mut self) {
        let over = |uplink: &Uplink| uplink.expires().is_some_and(|until| until <= self.now);
        let gone: Vec<UplinkId> = self.uplinks.iter().filter(|(_, uplink)| over(uplink)).map(|(&id, _)| id).collect();
        for id in gone {
            if let Some(uplink) = self.uplinks.get_mut(&id) {
                uplink.place = None;
            }
            self.lost(id);
        }
    }

    /// An interface has no place any more: its VIFs take another.
    fn lost(&mut self, id: UplinkId) {
        self.out.push_back(Output::Located { uplink: id, at: None });
        self.chooser.lost(self.now, id);
        let affected = self.vifs_of(Some(id));
        // None of them counts until it has another.
        for vif in &affected {
            self.set_home(*vif, None);
        }
        for vif in affected {
            self.home(vif);
        }
    }

    /// Gives a VIF the interface that has a place and the fewest VIFs, and says to all that it is there.
    pub(super) fn home(&mut self, id: VifId) {
        self.set_home(id, None);
        if let Some(&(_, uplink)) = self.loads().first() {
            self.set_home(id, Some(uplink));
            self.announce(id);
        }
    }

    /// Says to all where a VIF is, and which addresses it has.
    pub(super) fn announce(&mut self, id: VifId) {
        let Some(local) = self.vifs.get(&id) else { return };
        let Some(at) = local.uplink.and_then(|uplink| self.location(uplink)) else { return };
        let (vif, addresses) = (local.vif, local.addresses.clone());
        self.input_locations(LocationInput::Start { vif, at, addresses: &addresses });
    }

    /// An interface has got a place: VIFs come to it, as few as make the interfaces even.
    fn spread(&mut self) {
        loop {
            let loads = self.loads();
            let (Some(&(least, to)), Some(&(most, from))) = (loads.first(), loads.last()) else { return };
            let last = self.homes.get(&Some(from)).and_then(BTreeSet::last);
            let Some(&vif) = last.filter(|_| most > least + 1) else { return };
            self.set_home(vif, Some(to));
            self.announce(vif);
        }
    }

    /// The interfaces that have a place, with the numbers of their VIFs; the fewest first.
    fn loads(&self) -> Vec<(usize, UplinkId)> {
        let count = |id| self.homes.get(&Some(id)).map_or(0, BTreeSet::len);
        let mut loads: Vec<_> = self.placed().map(|(id, _)| (count(id), id)).collect();
        loads.sort_unstable();
        loads
    }

    fn vifs_of(&self, uplink: Option<UplinkId>) -> Vec<VifId> {
        self.homes.get(&uplink).into_iter().flatten().copied().collect()
    }

    fn set_home(&mut self, id: VifId, uplink: Option<UplinkId>) {
        let Some(local) = self.vifs.get_mut(&id) else { return };
        let before = std::mem::replace(&mut local.uplink, uplink);
        if let Some(home) = self.homes.get_mut(&before) {
            home.remove(&id);
        }
        self.homes.entry(uplink).or_default().insert(id);
    }

    /// The interfaces that have a place.
    pub(super) fn placed(&self) -> impl Iterator<Item = (UplinkId, Location)> {
        self.uplinks.iter().filter_map(|(&id, uplink)| Some((id, uplink.location()?)))
    }

    /// Whether a place is one of this server's.
    pub(super) fn is_own(&self, place: Location) -> bool {
        self.placed().any(|(_, own)| own == place)
    }

    /// The edge switch asks who has p.0.0.1.
    pub(super) fn switch_arp(&mut self, id: UplinkId, payload: &[u8]) {
        let Some(uplink) = self.uplinks.get(&id).copied() else { return };
        let Ok(arp) = Arp::parse(payload) else { return self.counts.drop(None, Drop::BadControl) };
        let own = uplink.location().map(|at| Ipv4Addr::new(at.port.get(), 0, 0, 1));
        if arp.is_request && Some(arp.target.1) == own {
            self.counts.answered += 1;
            self.out.push_back(Output::ToFabric { uplink: id, frame: arp.reply(uplink.mac).frame() });
        } else {
            self.counts.drop(None, Drop::NotMine);
        }
    }
}
