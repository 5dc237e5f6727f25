//! What waits for an answer of the directory: packets, and questions for MAC addresses. Bounded in number, in bytes, for each address and in time.

use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;

use weft_fabric::MacAddr;

use super::{PeerKey, Reason};
use crate::time::{Duration, Instant};

/// How much may wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeldLimits {
    /// Packets and questions in all.
    pub packets: usize,
    /// Bytes in all.
    pub bytes: usize,
    /// Packets and questions for one address.
    pub per_peer: usize,
    /// How long each waits.
    pub time: Duration,
}

impl Default for HeldLimits {
    fn default() -> Self {
        Self { packets: 4096, bytes: 4_000_000, per_peer: 64, time: Duration::from_secs(2) }
    }
}

/// Something that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Waiting {
    /// A packet that the caller keeps under this token.
    Packet { token: u64, bytes: usize, local: IpAddr },
    /// Somebody on this host asks for the MAC address.
    Question { asker: IpAddr, asker_mac: MacAddr },
}

impl Waiting {
    /// On behalf of which of this host's addresses.
    pub const fn local(&self) -> IpAddr {
        match *self {
            Self::Packet { local, .. } => local,
            Self::Question { asker, .. } => asker,
        }
    }

    const fn bytes(&self) -> usize {
        match *self {
            Self::Packet { bytes, .. } => bytes,
            Self::Question { .. } => QUESTION,
        }
    }
}

/// All that waits, by the peer that is asked for, in the order of arrival.
#[derive(Debug)]
pub(super) struct Held {
    limits: HeldLimits,
    peers: BTreeMap<PeerKey, VecDeque<(Instant, Waiting)>>,
    count: usize,
    bytes: usize,
}

impl Held {
    pub const fn new(limits: HeldLimits) -> Self {
        Self { limits, peers: BTreeMap::new(), count: 0, bytes: 0 }
    }

    /// Packets and questions that wait, and their bytes.
    pub const fn size(&self) -> (usize, usize) {
        (self.count, self.bytes)
    }

    /// Lets something wait, if there is room.
    pub fn put(&mut self, peer: PeerKey, waiting: Waiting, now: Instant) -> Result<(), Reason> {
        let queue = self.peers.get(&peer);
        let is_full = self.count >= self.limits.packets || self.bytes + waiting.bytes() > self.limits.bytes;
        if is_full || queue.is_some_and(|queue| queue.len() >= self.limits.per_peer) {
            return Err(Reason::Full);
        }
        // A question that is repeated needs one answer.
        if matches!(waiting, Waiting::Question { .. }) && queue.is_some_and(|queue| queue.iter().any(|(_, it)| *it == waiting)) {
            return Ok(());
        }
        self.count += 1;
        self.bytes += waiting.bytes();
        self.peers.entry(peer).or_default().push_back((now.saturating_add(self.limits.time), waiting));
        Ok(())
    }

    /// Whether anything waits for an address, and on whose behalf first.
    pub fn first(&self, peer: PeerKey) -> Option<&Waiting> {
        self.peers.get(&peer)?.front().map(|(_, waiting)| waiting)
    }

    /// Addresses that something waits for, in order.
    pub fn peers(&self) -> impl Iterator<Item = PeerKey> + '_ {
        self.peers.keys().copied()
    }

    /// All that waits for an address.
    pub fn take(&mut self, peer: PeerKey) -> impl Iterator<Item = Waiting> + use<> {
        let queue = self.peers.remove(&peer).unwrap_or_default();
        self.count -= queue.len();
        self.bytes -= queue.iter().map(|(_, waiting)| waiting.bytes()).sum::<usize>();
        queue.into_iter().map(|(_, waiting)| waiting)
    }

    /// When the first has waited for too long.
    pub fn deadline(&self) -> Instant {
        self.peers.values().filter_map(|queue| queue.front()).map(|(at, _)| *at).min().unwrap_or(Instant::MAX)
    }

    /// What has waited for too long.
    pub fn expire(&mut self, now: Instant) -> Vec<Waiting> {
        let mut gone = Vec::new();
        if self.deadline() > now {
            return gone;
        }
        self.peers.retain(|_, queue| {
            while queue.front().is_some_and(|(at, _)| *at <= now) {
                gone.extend(queue.pop_front().map(|(_, waiting)| waiting));
            }
            !queue.is_empty()
        });
        self.count -= gone.len();
        self.bytes -= gone.iter().map(Waiting::bytes).sum::<usize>();
        gone
    }
}

/// What a question counts for.
const QUESTION: usize = 64;
