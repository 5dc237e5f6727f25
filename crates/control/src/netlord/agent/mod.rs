//! The agent of a server (sections 3.7, 3.8): between the VIFs of its VMs and the fabric. No I/O: frames and time come in, frames and changes of a data plane's
//! maps go out.
//!
//! ```text
//!   FromVif ----> sending: source, control, ARP (neighbours), virtual router ----> local VIF | known place | kept, Seek
//!                                                                                     |           |
//!                                                                                  ToVif     encapsulate -> ToFabric
//!   FromFabric -> receiving: LLDP, switch's ARP (uplinks) | NL-ARP -> Locations | decapsulate -> VIF of that tenant, space, MAC -> ToVif
//! ```
//! What always holds: a frame of a tenant's VIF is handed to VIFs of that tenant and MAC space alone (or, over its own virtual router, of that tenant), and every frame
//! that is not handed on or kept is counted by its reason.

mod claims;
mod copies;
mod counts;
mod fragments;
mod icmp;
mod io;
mod kept;
mod maps;
mod neighbours;
mod receiving;
mod report;
mod sending;
mod uplinks;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;

use weft_fabric::TenantId;

pub use counts::{Counts, Drop, TenantCounts};
pub use io::{Input, MapChange, Output, RoutedFlow};
pub use kept::Room;
pub use report::{LookupReport, Report};
pub use sending::flow;

use super::locations::{LocationInput, LocationOutput, Locations};
use super::paths::{Chirp, ChooseVlan, Reached};
use super::tenants::Tenants;
use super::{Location, PROVIDER, UplinkId, Vif};
use crate::bucket::Bucket;
use crate::time::{Duration, Instant};
use crate::wire::netlord::{NlArp, Overlay, Recipient, Unicast};
use crate::wire::packet::ethernet::VlanId;
use claims::Elsewhere;
use copies::Copies;
use fragments::Fragments;
use kept::Kept;
use uplinks::Uplink;

/// A VIF as the server numbers it: its interface's index, say.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VifId(pub u32);

/// The settings of an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentConfig {
    /// The VLANs that reach all agents: what is sent to all goes over each of them.
    // DEVIATION: one in NetLord's section 3.9, where a lost cable of its tree keeps broadcasts from some until it is back.
    pub special_vlans: Vec<VlanId>,
    /// Broadcasts and multicasts of a VIF a second, in the mean and at once.
    pub storm: (u32, u32),
    /// Searches that a VIF may cause a second, in the mean and at once.
    pub searches: (u32, u32),
    /// ICMP errors that virtual routers send to a VIF: per second, and at once.
    pub icmp_errors: (u32, u32),
    /// Corrections of senders whose frames for a tenant come to the wrong server, a second, in the mean and at once.
    pub corrections: (u32, u32),
    /// The room for frames whose destinations are looked for.
    pub room: Room,
    /// What is asked for by ARP twice within this time is looked for again.
    pub doubt: Duration,
}

impl AgentConfig {
    /// The usual settings.
    pub const fn new(special_vlans: Vec<VlanId>) -> Self {
        Self {
            special_vlans,
            storm: (1000, 100),
            searches: (100, 100),
            icmp_errors: (100, 50),
            corrections: (200, 100),
            room: Room { each: 8, bytes: 4 << 20, searches: 2048 },
            doubt: Duration::from_secs(5),
        }
    }
}

/// The machine. `L` says where VIFs are, `C` which VLAN a flow takes.
#[derive(Debug)]
pub struct Agent<L, C> {
    config: AgentConfig,
    locations: L,
    chooser: C,
    tenants: Arc<Tenants>,
    vifs: BTreeMap<VifId, LocalVif>,
    by_vif: BTreeMap<Vif, VifId>,
    uplinks: BTreeMap<UplinkId, Uplink>,
    /// VIFs at each interface to the fabric; those that are at none too.
    homes: BTreeMap<Option<UplinkId>, BTreeSet<VifId>>,
    kept: Kept,
    fragments: Fragments,
    /// Of corrections, by tenant; those that are full are removed now and then.
    corrections: BTreeMap<TenantId, Bucket>,
    /// Tenants' broadcasts and multicasts that have come, and are to come again.
    copies: Copies,
    /// VIFs of this server that others have announced, too.
    elsewhere: BTreeMap<Vif, Elsewhere>,
    /// Remote VIFs that the data plane's maps have.
    mapped: BTreeSet<Vif>,
    /// Tenants whose routers and rules they have.
    configured: BTreeSet<TenantId>,
    now: Instant,
    out: VecDeque<Output>,
    counts: Counts,
}

#[derive(Debug)]
struct LocalVif {
    vif: Vif,
    /// Those that it is configured with, then those that it has used.
    addresses: Vec<IpAddr>,
    /// How many it is configured with.
    configured: usize,
    uplink: Option<UplinkId>,
    /// Addresses that it takes from other VIFs.
    takeovers: Bucket,
    /// Those that it has announced lately.
    fresh: Vec<claims::Fresh>,
    storm: Bucket,
    searches: Bucket,
    icmp_errors: Bucket,
    /// What it asked for by ARP lately, and when.
    asked: VecDeque<(IpAddr, Instant)>,
}

impl<L: Locations, C: ChooseVlan> Agent<L, C> {
    /// An agent without interfaces.
    pub fn new(config: AgentConfig, locations: L, chooser: C) -> Self {
        Self {
            copies: Copies::new(config.special_vlans.clone()),
            config,
            locations,
            chooser,
            tenants: Arc::default(),
            vifs: BTreeMap::new(),
            by_vif: BTreeMap::new(),
            uplinks: BTreeMap::new(),
            homes: BTreeMap::new(),
            kept: Kept::default(),
            fragments: Fragments::default(),
            corrections: BTreeMap::new(),
            elsewhere: BTreeMap::new(),
            mapped: BTreeSet::new(),
            configured: BTreeSet::new(),
            now: Instant::ZERO,
            out: VecDeque::new(),
            counts: Counts::default(),
        }
    }

    /// Something happened.
    pub fn handle(&mut self, now: Instant, input: Input<'_>) {
        self.now = self.now.max(now);
        match input {
            Input::Configure(tenants) => self.configure(tenants),
            Input::Uplink { uplink, up } => self.set_uplink(uplink, up),
            Input::Attach { id, vif, addresses } => self.attach(id, vif, addresses),
            Input::Detach(id) => self.detach(id),
            Input::FromVif { id, frame } => self.transmit(id, frame),
            Input::FromFabric { uplink, frame } => self.receive(uplink, frame),
            Input::Adopt { vif, at } => self.adopt(vif, at),
            Input::Servers(servers) => self.input_locations(LocationInput::Servers(servers)),
            Input::Paths { to, vlans } => self.chooser.set_table(self.now, to, vlans),
            Input::PathUsed { uplink, to, vlan } => self.chooser.sent(self.now, uplink, to, vlan),
            Input::PathHeard { uplink, from, vlan } => self.chooser.heard(self.now, uplink, from, vlan),
            Input::Datagram { from, bytes } => self.input_locations(LocationInput::Datagram { from, bytes }),
            Input::Timer => {
                self.input_locations(LocationInput::Timer);
                self.chooser.timer(self.now);
            }
        }
        self.expire_uplinks();
        self.expire_fragments();
        self.drain();
    }

    /// What is to be done next; `None`: nothing until the next input.
    pub fn poll(&mut self) -> Option<Output> {
        self.out.pop_front()
    }

    /// When [`Input::Timer`] is due.
    pub fn deadline(&self) -> Option<Instant> {
        let expiry = self.uplinks.values().filter_map(Uplink::expires).min();
        let others = [self.locations.deadline(), self.chooser.deadline(), self.fragments.deadline()];
        others.into_iter().flatten().chain(expiry).min()
    }

    /// What has been counted.
    pub const fn counts(&self) -> &Counts {
        &self.counts
    }

    /// What says where VIFs are.
    pub const fn locations(&self) -> &L {
        &self.locations
    }

    /// Where an interface is, if its switch has said.
    pub fn location(&self, uplink: UplinkId) -> Option<Location> {
        self.uplinks.get(&uplink)?.location()
    }

    /// The VIFs of this server: number, what it is, addresses, interface to the fabric.
    pub fn vifs(&self) -> impl Iterator<Item = (VifId, Vif, &[IpAddr], Option<UplinkId>)> {
        self.vifs.iter().map(|(&id, local)| (id, local.vif, local.addresses.as_slice(), local.uplink))
    }

    /// The number of a VIF of this server, and the interface by which it sends.
    pub fn vif(&self, vif: Vif) -> Option<(VifId, Option<UplinkId>)> {
        let id = *self.by_vif.get(&vif)?;
        self.vifs.get(&id).map(|local| (id, local.uplink))
    }

    /// Remote VIFs that the data plane's maps have.
    pub fn mapped(&self) -> usize {
        self.mapped.len()
    }

    /// Frames that wait for their destination to be found.
    pub const fn kept(&self) -> usize {
        self.kept.len()
    }

    fn input_locations(&mut self, input: LocationInput<'_>) {
        self.locations.handle(self.now, input);
    }

    /// Takes what the locations want done.
    fn drain(&mut self) {
        while let Some(output) = self.locations.poll() {
            match output {
                LocationOutput::Broadcast(message) => self.broadcast(&message),
                LocationOutput::Unicast { to, message } => self.unicast(to, message),
                LocationOutput::Datagram { to, bytes } => self.out.push_back(Output::Datagram { to, bytes }),
                LocationOutput::Sought { query, found } => self.sought(query, found.is_some()),
                LocationOutput::Moved { vif, at } => self.moved(vif, at),
                LocationOutput::Claimed { vif, ip, by } => self.claimed(vif, ip, by),
                LocationOutput::Elsewhere { vif, at } => self.announced_elsewhere(vif, at),
            }
        }
        while let Some(Chirp { by, to, vlan, is_answer }) = self.chooser.poll() {
            if let Some(from) = self.location(by)
                && let Err(reason) = self.message(by, to, Unicast::Chirp { from, is_answer }, Some(vlan))
            {
                self.counts.drop(None, reason);
            }
        }
        while let Some((to, vlans)) = self.chooser.poll_usable() {
            self.out.push_back(Output::Paths { to, vlans });
        }
    }

    /// A message to another agent, by the interface whose place it names, since it is a sign of life of that one's path; or by one from which there is a path.
    fn unicast(&mut self, to: Location, message: Unicast) {
        if self.is_own(to) {
            return self.input_locations(LocationInput::Unicast(message));
        }
        let (Unicast::Here { at, .. } | Unicast::NotHere { at, .. } | Unicast::Chirp { from: at, .. }) = message;
        let mut uplinks: Vec<(UplinkId, Location)> = self.placed().collect();
        uplinks.sort_by_key(|(_, place)| *place != at);
        let mut reason = Drop::NoUplink;
        for (uplink, _) in uplinks {
            match self.message(uplink, to, message, None) {
                Ok(()) => return,
                Err(why) => reason = why,
            }
        }
        self.counts.drop(None, reason);
    }

    /// A message to another agent, by this interface, and this VLAN or one that is chosen.
    fn message(&mut self, uplink: UplinkId, to: Location, message: Unicast, vlan: Option<VlanId>) -> Result<(), Drop> {
        let overlay = Overlay { to: Recipient::Port(to.port), tenant: PROVIDER, space: message.space(), vlan };
        self.encapsulate(Some(uplink), to, overlay, &message.emit())
    }

    fn broadcast(&mut self, message: &NlArp) {
        let uplink = match message {
            NlArp::Here(here) => self.by_vif.get(&here.vif).and_then(|id| self.vifs.get(id)?.uplink),
            NlArp::NotHere(_) | NlArp::Where(_) => self.placed().map(|(id, _)| id).next(),
        };
        let Some((uplink, at)) = uplink.and_then(|id| Some((id, self.location(id)?))) else {
            return self.counts.drop(None, Drop::NoUplink);
        };
        for &vlan in &self.config.special_vlans {
            let mut frame = Vec::with_capacity(60);
            message.emit(at, vlan, &mut frame);
            self.out.push_back(Output::ToFabric { uplink, frame });
        }
    }

    fn attach(&mut self, id: VifId, vif: Vif, addresses: Vec<IpAddr>) {
        self.detach(id);
        if let Some(&other) = self.by_vif.get(&vif) {
            self.detach(other);
        }
        let bucket = |(rate, burst)| Bucket::new(rate, burst);
        let local = LocalVif {
            vif,
            configured: addresses.len(),
            addresses,
            uplink: None,
            takeovers: bucket(claims::TAKEOVERS),
            fresh: Vec::new(),
            storm: bucket(self.config.storm),
            searches: bucket(self.config.searches),
            icmp_errors: bucket(self.config.icmp_errors),
            asked: VecDeque::new(),
        };
        self.vifs.insert(id, local);
        self.by_vif.insert(vif, id);
        self.homes.entry(None).or_default().insert(id);
        self.unmap(vif);
        self.out.push_back(Output::Map(MapChange::Local { vif, id: Some(id) }));
        self.map_tenant(vif.tenant);
        self.home(id);
    }

    fn detach(&mut self, id: VifId) {
        let Some(local) = self.vifs.remove(&id) else { return };
        self.by_vif.remove(&local.vif);
        self.elsewhere.remove(&local.vif);
        if let Some(home) = self.homes.get_mut(&local.uplink) {
            home.remove(&id);
        }
        self.out.push_back(Output::Map(MapChange::Local { vif: local.vif, id: None }));
        self.unmap_tenant(local.vif.tenant);
        self.input_locations(LocationInput::Stop(local.vif));
        for _ in 0..self.kept.forget(id) {
            self.counts.drop(Some(local.vif.tenant), Drop::NoLocation);
        }
        for _ in 0..self.fragments.forget(id) {
            self.counts.drop(Some(local.vif.tenant), Drop::Fragment);
        }
    }
}

#[cfg(test)]
mod tests;
