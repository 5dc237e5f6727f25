//! Fragments that pass virtual routers with rules about ports: what was decided about a datagram's first fragment holds for the others, which have no ports.
//!
//! ```text
//!   first fragment --rules--> allowed | denied, remembered with its length --> later ones follow; what overlaps the first is dropped
//!   a later one before it --> held for a moment --> the first comes: goes on | it does not: dropped
//! ```
//! A datagram is known by its VIF, the router, addresses, protocol (IPv4) and identification (RFC 791, RFC 8200 section 4.5). A receiver can put together only what has a first
//! fragment that the rules allow: a later one never has ports, and none may overlap the first (RFC 1858, RFC 3128, RFC 5722). All VIFs share the room as in [`kept`](super::kept):
//! who floods with identifications forgets his own.

use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;

use weft_fabric::MacAddr;

use super::VifId;
use crate::time::{Duration, Instant};
use crate::wire::netlord::{Fragment, IpPacket};

/// Which datagram of a VIF a fragment is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Datagram {
    router: MacAddr,
    source: IpAddr,
    destination: IpAddr,
    /// 0 of IPv6, where the fragments' may differ.
    protocol: u8,
    id: u32,
}

impl Datagram {
    pub const fn new(router: MacAddr, packet: &IpPacket<'_>, fragment: Fragment) -> Self {
        let protocol = if packet.src.is_ipv4() { packet.protocol } else { 0 };
        Self { router, source: packet.src, destination: packet.dst, protocol, id: fragment.id }
    }
}

/// What was decided about a first fragment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Verdict {
    pub is_allowed: bool,
    /// Bytes of the datagram that it has.
    pub length: usize,
}

/// All that is remembered and held.
#[derive(Debug, Default)]
pub(super) struct Fragments {
    vifs: BTreeMap<VifId, OfVif>,
    decided: usize,
    held: usize,
    /// When held fragments are dropped, in order.
    timers: VecDeque<(Instant, VifId, Datagram)>,
    /// Held ones whose first has come.
    released: VecDeque<(VifId, Vec<u8>)>,
}

#[derive(Debug, Default)]
struct OfVif {
    decided: BTreeMap<Datagram, (Verdict, Instant)>,
    /// In the order of their times; those decided again are there twice.
    order: VecDeque<(Instant, Datagram)>,
    held: BTreeMap<Datagram, Vec<Vec<u8>>>,
    held_count: usize,
}

impl Fragments {
    /// What was decided about a datagram.
    pub fn verdict(&self, now: Instant, id: VifId, datagram: Datagram) -> Option<Verdict> {
        let &(verdict, until) = self.vifs.get(&id)?.decided.get(&datagram)?;
        (until > now).then_some(verdict)
    }

    /// A first fragment was decided about: held ones of its datagram go on. The last decision holds.
    pub fn decide(&mut self, now: Instant, id: VifId, datagram: Datagram, verdict: Verdict) {
        let vif = self.vifs.entry(id).or_default();
        let until = now.saturating_add(REMEMBERED);
        if vif.decided.insert(datagram, (verdict, until)).is_none() {
            self.decided += 1;
        }
        vif.order.push_back((until, datagram));
        while let Some(&(end, oldest)) = vif.order.front()
            && (end <= now || !has_room(vif.decided.len() - 1, self.decided - 1, DECIDED_MAX) || vif.order.len() > DECIDED_MAX)
        {
            vif.order.pop_front();
            if vif.decided.get(&oldest).is_some_and(|&(_, its)| its == end) {
                vif.decided.remove(&oldest);
                self.decided -= 1;
            }
        }
        if let Some(frames) = vif.held.remove(&datagram) {
            vif.held_count -= frames.len();
            self.held -= frames.len();
            self.released.extend(frames.into_iter().map(|frame| (id, frame)));
        }
    }

    /// Holds a fragment whose first has not come; false if there is no room.
    pub fn hold(&mut self, now: Instant, id: VifId, datagram: Datagram, frame: &[u8]) -> bool {
        let vif = self.vifs.entry(id).or_default();
        if !has_room(vif.held_count, self.held, HELD_MAX) {
            return false;
        }
        vif.held_count += 1;
        self.held += 1;
        let frames = vif.held.entry(datagram).or_default();
        if frames.is_empty() {
            self.timers.push_back((now.saturating_add(HELD), id, datagram));
        }
        frames.push(frame.to_vec());
        true
    }

    /// The next of the held ones whose first has come.
    pub fn released(&mut self) -> Option<(VifId, Vec<u8>)> {
        self.released.pop_front()
    }

    /// Drops what was held for too long: of which VIF, and how many.
    pub fn expire(&mut self, now: Instant) -> Option<(VifId, usize)> {
        while let Some(&(at, id, datagram)) = self.timers.front()
            && at <= now
        {
            self.timers.pop_front();
            let Some(vif) = self.vifs.get_mut(&id) else { continue };
            // Released since; those that are held again have a somewhat shorter time.
            let Some(frames) = vif.held.remove(&datagram) else { continue };
            vif.held_count -= frames.len();
            self.held -= frames.len();
            return Some((id, frames.len()));
        }
        None
    }

    /// When [`expire`](Self::expire) is due.
    pub fn deadline(&self) -> Option<Instant> {
        self.timers.front().map(|&(at, ..)| at)
    }

    /// A VIF is gone: how many of its fragments were held.
    pub fn forget(&mut self, id: VifId) -> usize {
        let Some(vif) = self.vifs.remove(&id) else { return 0 };
        self.decided -= vif.decided.len();
        self.held -= vif.held_count;
        vif.held_count
    }

    /// Rules have changed: nothing is decided.
    pub fn forget_verdicts(&mut self) {
        for vif in self.vifs.values_mut() {
            vif.decided.clear();
            vif.order.clear();
        }
        self.decided = 0;
    }
}

/// Whether somebody with `own` of `all` may have one more of `most`: an eighth of what is free.
const fn has_room(own: usize, all: usize, most: usize) -> bool {
    (own + 1) * 8 <= most.saturating_sub(all)
}

/// How long a decision holds: a datagram's fragments follow each other, and Linux gives up putting one together after 30 s.
const REMEMBERED: Duration = Duration::from_secs(10);
/// Decisions in all, about 10 MB.
const DECIDED_MAX: usize = 1 << 16;
/// How long a fragment waits for the first one. VMs send them in order; what is turned round on the way to the agent differs by less.
const HELD: Duration = Duration::from_ms(100);
/// Fragments that wait, in all.
const HELD_MAX: usize = 2048;
