//! The other ends: what the data plane may use, and what waits for the directory.
//!
//! ```text
//!            Asked, Missed: look up                 Found                     invalidated: RemovePeer
//!   (none) ------------------------> asking --------------------> known: SetPeer -------------------> (none)
//!      ^                               |                          (its group first: SetGroup)   or, if another mapping is here: SetPeer
//!      |                               v Forbidden, Unknown
//!      +------- RemovePeer ------- refused: RefusePeer, for half a second
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};
use std::ops::Bound;

use smallvec::SmallVec;
use weft_fabric::MacAddr;

use super::held::Waiting;
use super::io::PeerKey;
use super::servers::DIRECTORY_GROUP;
use super::{Agent, GROUP, Known, Output, PEER, Peer, Reason, VIRTUAL_MAC, address_of, key_of};
use crate::directory::resolver::Resolution;
use crate::directory::{Generation, GroupId, Key, Locator, Mapping, Value};
use crate::time::{Duration, Instant};
use crate::wire::packet::arp::Arp;
use crate::wire::packet::ndp::Neighbor;

/// A peer that the data plane uses, for the operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerView {
    /// Its address, and for which service of this host.
    pub key: PeerKey,
    /// On behalf of which address of this host it was asked for.
    pub asker: IpAddr,
    /// Since when it is so.
    pub generation: Generation,
    /// How it is reached.
    pub peer: Peer,
}

/// What is known of an address.
#[derive(Clone, Copy, Debug)]
enum Slot {
    /// A lookup is under way.
    Asking { asker: IpAddr },
    /// The data plane may use it, or could if it had the group. `is_set`: it has an entry.
    Known { asker: IpAddr, known: Known, is_set: bool },
    /// The data plane drops its packets.
    Refused { until: Instant, reason: Reason },
    /// An earlier agent's; not confirmed yet.
    Adopted { until: Instant, due: Instant },
}

/// A group of intermediate switches.
#[derive(Clone, Debug)]
enum Group {
    Asking,
    Known(SmallVec<[Ipv4Addr; 4]>),
}

/// All peers and groups.
#[derive(Debug, Default)]
pub(super) struct Peers {
    slots: BTreeMap<PeerKey, Slot>,
    groups: BTreeMap<GroupId, Group>,
    /// Refused and adopted addresses, by when something is due.
    timers: BTreeSet<(Instant, PeerKey)>,
    refused: usize,
}

impl Peers {
    pub fn deadline(&self) -> Instant {
        self.timers.first().map_or(Instant::MAX, |&(at, _)| at)
    }

    fn put(&mut self, address: PeerKey, slot: Slot) {
        self.take(address);
        match slot {
            Slot::Refused { until, .. } => {
                self.timers.insert((until, address));
                self.refused += 1;
            }
            Slot::Adopted { due, .. } => drop(self.timers.insert((due, address))),
            Slot::Asking { .. } | Slot::Known { .. } => {}
        }
        self.slots.insert(address, slot);
    }

    fn take(&mut self, address: PeerKey) -> Option<Slot> {
        let slot = self.slots.remove(&address)?;
        match slot {
            Slot::Refused { until, .. } => {
                self.timers.remove(&(until, address));
                self.refused -= 1;
            }
            Slot::Adopted { due, .. } => drop(self.timers.remove(&(due, address))),
            Slot::Asking { .. } | Slot::Known { .. } => {}
        }
        Some(slot)
    }
}

impl Agent {
    /// The peers that the data plane uses, in order.
    pub fn peers(&self) -> impl Iterator<Item = PeerView> + '_ {
        self.peers_after(None)
    }

    /// The same, from the one after this on.
    pub fn peers_after(&self, after: Option<PeerKey>) -> impl Iterator<Item = PeerView> + '_ {
        let after = after.map_or(Bound::Unbounded, Bound::Excluded);
        self.peers.slots.range((after, Bound::Unbounded)).filter_map(|(&key, slot)| match slot {
            Slot::Known { asker, known, is_set: true } if self.is_ready(&known.mapping) => {
                let peer = self.peer_of(&known.mapping)?;
                Some(PeerView { key, asker: *asker, generation: known.generation, peer })
            }
            _ => None,
        })
    }

    /// The groups that the data plane uses, in order, with their anycast addresses.
    pub fn groups(&self) -> impl Iterator<Item = (GroupId, &[Ipv4Addr])> + '_ {
        self.peers.groups.iter().filter_map(|(&group, known)| match known {
            Group::Known(addresses) => Some((group, addresses.as_slice())),
            Group::Asking => None,
        })
    }

    /// The anycast addresses of a group, if they are known.
    pub fn group(&self, group: GroupId) -> Option<&[Ipv4Addr]> {
        match self.peers.groups.get(&group)? {
            Group::Known(addresses) => Some(addresses),
            Group::Asking => None,
        }
    }

    pub(super) fn asked(&mut self, target: IpAddr, asker: IpAddr, asker_mac: MacAddr) {
        self.counts.asked += 1;
        let waiting = Waiting::Question { asker, asker_mac };
        let is_foreign = asker != target && asker.is_ipv4() == target.is_ipv4() && !self.own.contains_key(&target);
        let Some(service) = self.service_of(asker).filter(|_| is_foreign) else {
            return self.drop_waiting(&waiting, Reason::NotOwn);
        };
        self.wanted(PeerKey { service, address: target }, waiting);
    }

    pub(super) fn missed(&mut self, local: IpAddr, peer: IpAddr, bytes: usize, token: u64) {
        self.counts.missed += 1;
        let waiting = Waiting::Packet { token, bytes, local };
        let Some(service) = self.service_of(local).filter(|_| !self.own.contains_key(&peer)) else {
            return self.drop_waiting(&waiting, Reason::NotOwn);
        };
        self.wanted(PeerKey { service, address: peer }, waiting);
    }

    /// Something wants a peer: it is there, refused, or waited for.
    fn wanted(&mut self, key: PeerKey, waiting: Waiting) {
        match self.peers.slots.get(&key) {
            Some(&Slot::Known { known, .. }) if self.is_ready(&known.mapping) => {
                // The data plane says that it has it not: its table may have been full.
                self.set_peer(key, &known.mapping);
                self.send_on(key, &known.mapping, &waiting);
            }
            Some(&Slot::Refused { reason, .. }) => self.drop_waiting(&waiting, reason),
            slot => {
                let is_asked_for = matches!(slot, Some(Slot::Asking { .. } | Slot::Known { .. }));
                let asker = waiting.local();
                if let Err(reason) = self.held.put(key, waiting, self.now) {
                    return self.drop_waiting(&waiting, reason);
                }
                if !is_asked_for {
                    self.ask(key, asker);
                }
            }
        }
    }

    fn ask(&mut self, key: PeerKey, asker: IpAddr) {
        self.forget(key);
        self.peers.put(key, Slot::Asking { asker });
        self.resolve(key_of(key.address), Some(key_of(asker)), PEER);
    }

    /// Nothing is known of an address any longer.
    fn forget(&mut self, key: PeerKey) {
        if let Some(Slot::Known { is_set: true, .. } | Slot::Adopted { .. } | Slot::Refused { .. }) = self.peers.take(key) {
            self.out.push_back(Output::RemovePeer(key));
        }
    }

    pub(super) fn peer_resolved(&mut self, key: Key, asker: Option<Key>, resolution: Resolution) {
        let (Some(address), Some(asker)) = (address_of(key), asker.and_then(address_of)) else { return };
        let Some(service) = self.service_of(asker) else { return };
        let peer = PeerKey { service, address };
        let (is_awaited, is_adopted) = match self.peers.slots.get(&peer) {
            Some(Slot::Asking { asker: by }) => (*by == asker, false),
            Some(Slot::Adopted { .. }) => (true, true),
            _ => (false, false),
        };
        if !is_awaited {
            return;
        }
        match resolution {
            Resolution::Found(generation, Value::Mapping(mapping)) => self.learn(peer, asker, Known { generation, mapping }),
            Resolution::Forbidden => self.refuse(peer, Reason::Forbidden),
            Resolution::Unknown | Resolution::Found(..) => self.refuse(peer, Reason::Unknown),
            Resolution::Unanswered if is_adopted => {}
            Resolution::Unanswered => {
                self.peers.take(peer);
                self.drop_all(peer, Reason::Unanswered);
            }
        }
    }

    /// The directory says where an address is.
    fn learn(&mut self, key: PeerKey, asker: IpAddr, known: Known) {
        let Some(peer) = self.peer_of(&known.mapping) else { return self.refuse(key, Reason::Locator) };
        let is_ready = self.is_ready(&known.mapping);
        let was_set = matches!(self.peers.slots.get(&key), Some(Slot::Known { is_set: true, .. } | Slot::Adopted { .. }));
        self.peers.put(key, Slot::Known { asker, known, is_set: is_ready || was_set });
        if is_ready {
            self.set_peer(key, &known.mapping);
            return self.send_all(key, &known.mapping);
        }
        if !self.peers.groups.contains_key(&peer.group) {
            self.ask_for_group(peer.group);
        }
    }

    fn refuse(&mut self, key: PeerKey, reason: Reason) {
        self.drop_all(key, reason);
        if self.peers.refused >= self.config.refused_max {
            return self.forget(key);
        }
        self.peers.put(key, Slot::Refused { until: self.now.saturating_add(self.config.refused), reason });
        self.out.push_back(Output::RefusePeer { key, is_forbidden: reason == Reason::Forbidden });
    }

    pub(super) fn peer_invalidated(&mut self, key: Key, asker: Option<Key>) {
        let (Some(address), Some(asker)) = (address_of(key), asker.and_then(address_of)) else { return };
        let Some(service) = self.service_of(asker) else { return };
        let peer = PeerKey { service, address };
        match self.peers.slots.get(&peer) {
            Some(&Slot::Known { asker: by, .. }) if by == asker => {
                let cached = self.resolver.cached(key, Some(key_of(asker)));
                let cached = cached.and_then(|(generation, value)| Some(Known { generation, mapping: *value.mapping()? }));
                self.forget(peer);
                match cached {
                    Some(known) => self.learn(peer, asker, known),
                    None => self.ask_for_waiting(peer),
                }
            }
            _ => {}
        }
    }

    /// What still waits for an address that is known no longer is looked up again.
    fn ask_for_waiting(&mut self, key: PeerKey) {
        let Some(asker) = self.held.first(key).map(Waiting::local) else { return };
        if self.is_confirmed(asker) { self.ask(key, asker) } else { self.drop_all(key, Reason::NotOwn) }
    }

    /// An address of this host is one no longer: what was resolved on its behalf is not used.
    pub(super) fn forget_asker(&mut self, gone: IpAddr) {
        let of_it = |slot: &Slot| matches!(slot, Slot::Asking { asker } | Slot::Known { asker, .. } if *asker == gone);
        let peers: Vec<PeerKey> = self.peers.slots.iter().filter(|(_, slot)| of_it(slot)).map(|(&it, _)| it).collect();
        for key in peers {
            self.forget(key);
        }
        let waiting: Vec<PeerKey> = self.held.peers().filter(|it| !self.peers.slots.contains_key(it)).collect();
        for key in waiting {
            self.ask_for_waiting(key);
        }
    }

    fn ask_for_group(&mut self, group: GroupId) {
        self.peers.groups.insert(group, Group::Asking);
        self.resolve(Key::Group(group), None, GROUP);
    }

    pub(super) fn group_resolved(&mut self, group: GroupId, resolution: &Resolution) {
        if !matches!(self.peers.groups.get(&group), Some(Group::Asking)) {
            return;
        }
        let addresses = match resolution {
            Resolution::Found(_, Value::Group(addresses)) => v4_of(addresses),
            _ => SmallVec::new(),
        };
        if addresses.is_empty() {
            self.peers.groups.remove(&group);
            return self.forget_group_members(group, Some(Reason::NoGroup));
        }
        self.set_group(group, addresses);
    }

    fn set_group(&mut self, group: GroupId, addresses: SmallVec<[Ipv4Addr; 4]>) {
        self.peers.groups.insert(group, Group::Known(addresses.clone()));
        self.out.push_back(Output::SetGroup { group, addresses });
        for (key, asker, known) in self.members(group) {
            self.learn(key, asker, known);
        }
    }

    pub(super) fn group_invalidated(&mut self, group: GroupId) {
        if !matches!(self.peers.groups.get(&group), Some(Group::Known(_))) {
            return;
        }
        let cached = self.resolver.cached(Key::Group(group), None).map(|(_, value)| match value {
            Value::Group(addresses) => v4_of(addresses),
            Value::Mapping(_) => SmallVec::new(),
        });
        if let Some(addresses) = cached.filter(|addresses| !addresses.is_empty()) {
            return self.set_group(group, addresses);
        }
        self.out.push_back(Output::RemoveGroup(group));
        self.peers.groups.remove(&group);
        self.forget_group_members(group, None);
    }

    /// Peers behind a group that is not known: the next packet asks again. What waits for them is dropped, if there is a reason, or asks now.
    fn forget_group_members(&mut self, group: GroupId, reason: Option<Reason>) {
        for (key, asker, _) in self.members(group) {
            self.forget(key);
            match reason {
                Some(reason) => {
                    self.drop_all(key, reason);
                    // Who deletes a group has given its members another one before, which is not reported to those who hold the old mapping.
                    self.resolver.refresh(key_of(key.address), Some(key_of(asker)));
                }
                None => self.ask_for_waiting(key),
            }
        }
    }

    fn members(&self, group: GroupId) -> Vec<(PeerKey, IpAddr, Known)> {
        let member = |(&key, slot): (&PeerKey, &Slot)| match slot {
            Slot::Known { asker, known, .. } if self.group_of(&known.mapping) == group => Some((key, *asker, *known)),
            _ => None,
        };
        self.peers.slots.iter().filter_map(member).collect()
    }

    /// The data plane has a peer that an earlier agent gave it.
    pub(super) fn adopted(&mut self, key: PeerKey) {
        if self.peers.slots.contains_key(&key) {
            return;
        }
        let until = self.now.saturating_add(self.config.resolver.fail_static.max(ADOPTED));
        self.peers.put(key, Slot::Adopted { until, due: self.now });
    }

    /// There is an address now on whose behalf adopted peers can be asked for.
    pub(super) fn adopt_waiting(&mut self) {
        let adopted = |slot: &Slot| if let Slot::Adopted { until, .. } = slot { Some(*until) } else { None };
        let all: Vec<_> = self.peers.slots.iter().filter_map(|(&key, slot)| Some((key, adopted(slot)?))).collect();
        for (key, until) in all {
            self.peers.put(key, Slot::Adopted { until, due: self.now });
        }
    }

    pub(super) fn expire_peers(&mut self) {
        while let Some(&(at, key)) = self.peers.timers.first()
            && at <= self.now
        {
            match self.peers.slots.get(&key) {
                Some(&Slot::Adopted { until, .. }) if self.now < until => {
                    let due = self.now.saturating_add(AGAIN).min(until);
                    self.peers.put(key, Slot::Adopted { until, due });
                    if let Some(asker) = self.any_of_service(key) {
                        self.resolve(key_of(key.address), Some(key_of(asker)), PEER);
                    }
                }
                _ => {
                    self.forget(key);
                    self.ask_for_waiting(key);
                }
            }
        }
    }

    /// Whether the data plane has, or needs not, the group of a mapping.
    fn is_ready(&self, mapping: &Mapping) -> bool {
        let group = self.group_of(mapping);
        group == GroupId(0) || matches!(self.peers.groups.get(&group), Some(Group::Known(_)))
    }

    fn group_of(&self, mapping: &Mapping) -> GroupId {
        // The servers' group is no way to anywhere.
        if self.config.through_groups && mapping.group != DIRECTORY_GROUP { mapping.group } else { GroupId(0) }
    }

    fn peer_of(&self, mapping: &Mapping) -> Option<Peer> {
        match mapping.locator {
            Locator::V4(locator) if !locator.is_unspecified() && !locator.is_multicast() && !locator.is_broadcast() => {
                Some(Peer { locator, group: self.group_of(mapping), mac: mapping.mac })
            }
            _ => None,
        }
    }

    fn set_peer(&mut self, key: PeerKey, mapping: &Mapping) {
        if let Some(peer) = self.peer_of(mapping) {
            self.out.push_back(Output::SetPeer { key, peer });
        }
    }

    fn send_all(&mut self, key: PeerKey, mapping: &Mapping) {
        for waiting in self.held.take(key) {
            self.send_on(key, mapping, &waiting);
        }
    }

    fn send_on(&mut self, key: PeerKey, mapping: &Mapping, waiting: &Waiting) {
        if !self.is_confirmed(waiting.local()) {
            return self.drop_waiting(waiting, Reason::NotOwn);
        }
        match *waiting {
            Waiting::Packet { token, .. } => {
                self.counts.released += 1;
                self.out.push_back(Output::Release(token));
            }
            Waiting::Question { asker, asker_mac } => {
                self.counts.answered += 1;
                let mac = mapping.mac.unwrap_or(VIRTUAL_MAC);
                self.out.extend(answer(key.address, mac, asker, asker_mac).map(Output::Inject));
            }
        }
    }

    fn drop_all(&mut self, key: PeerKey, reason: Reason) {
        for waiting in self.held.take(key) {
            self.drop_waiting(&waiting, reason);
        }
    }

    pub(super) fn drop_waiting(&mut self, waiting: &Waiting, reason: Reason) {
        *self.counts.dropped.entry(reason).or_default() += 1;
        if let Waiting::Packet { token, .. } = *waiting {
            let is_final =
                matches!(reason, Reason::Forbidden | Reason::Unknown | Reason::Unanswered | Reason::NoGroup | Reason::Locator);
            let by_icmp = is_final && self.notify.take(self.now);
            self.out.push_back(Output::Drop { token, reason, by_icmp });
        }
    }
}

/// The frame that says which MAC an address has.
fn answer(address: IpAddr, mac: MacAddr, asker: IpAddr, asker_mac: MacAddr) -> Option<Vec<u8>> {
    match (address, asker) {
        (IpAddr::V4(address), IpAddr::V4(asker)) => {
            Some(Arp { is_request: false, sender: (mac, address), target: (asker_mac, asker) }.frame())
        }
        (IpAddr::V6(target), IpAddr::V6(asker)) => Some(Neighbor::advertisement(target, mac, asker).frame(asker_mac, mac)),
        _ => None,
    }
}

fn v4_of(addresses: &[IpAddr]) -> SmallVec<[Ipv4Addr; 4]> {
    let v4 = |address: &IpAddr| if let IpAddr::V4(it) = address { Some(*it) } else { None };
    addresses.iter().filter_map(v4).collect()
}

/// Peers that an earlier agent left are used at least so long while no directory server confirms them.
const ADOPTED: Duration = Duration::from_secs(60);
/// An adopted peer is asked for again after so long.
const AGAIN: Duration = Duration::from_secs(1);
