//! The interfaces to the fabric: their places, by LLDP, and the edge switch's ARP requests (section 3.7).

use std::net::Ipv4Addr;

use weft_fabric::{Duration, Instant, MacAddr};

use super::super::Location;
use super::super::locations::{LocationInput, Locations};
use super::super::paths::ChooseVlan;
use super::{Agent, Drop, Output, UplinkId, VifId};
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
        if was != Some(location) {
            self.out.push_back(Output::Located { uplink: id, at: Some(location) });
            let affected: Vec<VifId> =
                self.vifs.iter().filter(|(_, vif)| vif.uplink.is_none_or(|home| home == id)).map(|(&id, _)| id).collect();
            for vif in affected {
                self.home(vif);
            }
        }
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
        let affected: Vec<VifId> = self.vifs.iter().filter(|(_, vif)| vif.uplink == Some(id)).map(|(&id, _)| id).collect();
        for vif in affected {
            self.home(vif);
        }
    }

    /// Gives a VIF an interface that has a place, and says to all that it is there.
    pub(super) fn home(&mut self, id: VifId) {
        let ready: Vec<(UplinkId, Location)> =
            self.uplinks.iter().filter_map(|(&id, uplink)| Some((id, uplink.location()?))).collect();
        let Some(local) = self.vifs.get_mut(&id) else { return };
        local.uplink = None;
        if ready.is_empty() {
            return;
        }
        let (uplink, at) = ready[id.0 as usize % ready.len()];
        local.uplink = Some(uplink);
        let (vif, addresses) = (local.vif, local.addresses.clone());
        self.tell(LocationInput::Start { vif, at, addresses: &addresses });
    }

    /// An interface that has a place.
    pub(super) fn first_uplink(&self) -> Option<UplinkId> {
        self.uplinks.iter().find(|(_, uplink)| uplink.place.is_some()).map(|(&id, _)| id)
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
