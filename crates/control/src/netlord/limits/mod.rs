//! A tenant's rate, divided over the edge switches at which its packets leave the fabric, so that all of them together hold it.
//!
//! ```text
//!   edge switch A: counts what it passed and whether it dropped --claim of 3 MB/s-----+
//!   edge switch B: counts                                       --claim of all it gets-+--> all edge switches, each 100 ms, over the special VLANs
//!        ^                                                                             |
//!        +-- share: what B may pass <-- max-min fair shares of the rate by all claims <+
//! ```
//! This is distributed rate limiting (Raghavan et al., SIGCOMM 2007, with max-min fair shares by switch): no central allocator, and soft state alone. A switch that is
//! not heard any more has no share. Each switch keeps a small part of the rate without a claim, so that a first packet passes; a share falls as soon as another switch
//! claims, and rises a period later, when the others have heard of it.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};

use weft_fabric::{MacAddr, TenantId};

use crate::time::{Duration, Instant};
use crate::wire::netlord::Claim;

/// How often traffic is counted and claims are reported.
pub const PERIOD: Duration = Duration::from_ms(100);
/// A switch without claims says that it is there.
const HELLO: Duration = Duration::from_secs(1);
/// A switch that has not been heard for so long has no share: three reports may be lost.
const PEER_TIMEOUT: Duration = Duration::from_ms(3500);
/// So long a claim holds.
const CLAIM_TIMEOUT: Duration = Duration::from_secs(1);
/// Periods over which a claim is the greatest of what was counted.
const WINDOW: usize = 10;
/// What all switches keep without a claim, as a part of the rate.
const RESERVED: u64 = 32;

/// What a switch has counted of a tenant since it started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// Bytes that it passed.
    pub bytes: u64,
    /// Packets that it dropped since the tenant had sent too much.
    pub limited: u64,
}

/// The shares of one edge switch.
#[derive(Debug)]
pub struct SharedLimits {
    tenants: BTreeMap<TenantId, Tenant>,
    peers: BTreeMap<MacAddr, Instant>,
    own: MacAddr,
    /// Until then shares do not rise: the other switches have not all been heard.
    listening_until: Instant,
    counted_at: Instant,
    hello_due: Instant,
}

#[derive(Debug)]
struct Tenant {
    /// Bytes per second at all switches together.
    rate: u64,
    /// Of those, here.
    share: u64,
    /// What the claims of a period ago gave.
    before: u64,
    counted: Option<Counted>,
    /// Of the last periods: bytes per second, and whether packets were dropped.
    recent: VecDeque<(u64, bool)>,
    others: BTreeMap<MacAddr, (Claim, Instant)>,
}

impl SharedLimits {
    /// Of the edge switch with this address: each tenant's bytes per second at all switches, and its share here if an earlier process left one.
    pub fn new(own: MacAddr, now: Instant, rates: impl IntoIterator<Item = (TenantId, u64, Option<u64>)>) -> Self {
        let tenant = |rate: u64, share: Option<u64>| {
            let share = share.unwrap_or(rate / RESERVED).min(rate);
            Tenant { rate, share, before: share, counted: None, recent: VecDeque::new(), others: BTreeMap::new() }
        };
        let tenants = rates.into_iter().map(|(id, rate, share)| (id, tenant(rate, share))).collect();
        let listening_until = now + HELLO + PERIOD + PERIOD;
        Self { tenants, peers: BTreeMap::new(), own, listening_until, counted_at: now, hello_due: now }
    }

    /// The tenants that have a rate, and how many bytes per second of each may pass here.
    pub fn shares(&self) -> impl Iterator<Item = (TenantId, u64)> + '_ {
        self.tenants.iter().map(|(&id, tenant)| (id, tenant.share))
    }

    /// The other edge switches that take part.
    pub fn peers(&self) -> impl Iterator<Item = MacAddr> + '_ {
        self.peers.keys().copied()
    }

    /// When the next [`count`](Self::count) is due.
    pub fn deadline(&self) -> Instant {
        self.counted_at + PERIOD
    }

    /// Takes what was counted, and gives what to report to all other edge switches: claims, none if the switch only says that it is there; `None` if nothing is due.
    pub fn count(&mut self, now: Instant, counted: impl Fn(TenantId) -> Counted) -> Option<Vec<Claim>> {
        let passed = now.saturating_since(self.counted_at).as_ns().max(1);
        self.counted_at = now;
        self.peers.retain(|_, heard| now.saturating_since(*heard) < PEER_TIMEOUT);
        let mut claims = Vec::new();
        let is_listening = now < self.listening_until;
        for (&id, tenant) in &mut self.tenants {
            tenant.count(counted(id), passed);
            tenant.others.retain(|_, (_, heard)| now.saturating_since(*heard) < CLAIM_TIMEOUT);
            let claim = tenant.claim(id);
            if claim.wants_more || claim.bytes_per_second > 0 {
                claims.push(claim);
            }
            let computed = tenant.compute(claim, self.peers.len());
            tenant.share = if is_listening { tenant.share.min(computed) } else { tenant.before.min(computed) };
            tenant.before = computed;
        }
        if claims.is_empty() && now < self.hello_due {
            return None;
        }
        self.hello_due = now + HELLO;
        Some(claims)
    }

    /// Takes another switch's report. Shares fall at once.
    pub fn heard(&mut self, now: Instant, from: MacAddr, claims: &[Claim]) {
        if from == self.own {
            return;
        }
        self.peers.insert(from, now);
        for &claim in claims {
            let Some(tenant) = self.tenants.get_mut(&claim.tenant) else { continue };
            tenant.others.insert(from, (claim, now));
            tenant.share = tenant.share.min(tenant.compute(tenant.claim(claim.tenant), self.peers.len()));
        }
    }
}

impl Tenant {
    fn count(&mut self, counted: Counted, passed_ns: u64) {
        let before = self.counted.replace(counted).unwrap_or(counted);
        let bytes = u128::from(counted.bytes.saturating_sub(before.bytes)) * 1_000_000_000 / u128::from(passed_ns);
        if self.recent.len() == WINDOW {
            self.recent.pop_front();
        }
        self.recent.push_back((u64::try_from(bytes).unwrap_or(u64::MAX), counted.limited > before.limited));
    }

    /// What the tenant sends here, by the last periods.
    fn claim(&self, tenant: TenantId) -> Claim {
        let bytes_per_second = self.recent.iter().map(|&(bytes, _)| bytes).max().unwrap_or(0);
        Claim { tenant, bytes_per_second, wants_more: self.recent.iter().any(|&(_, dropped)| dropped) }
    }

    /// What all claims give this switch.
    fn compute(&self, own: Claim, peers: usize) -> u64 {
        let switches = peers.max(self.others.len()) as u64 + 1;
        let own = self.wanted(own, switches);
        let others = self.others.values().map(|&(claim, _)| self.wanted(claim, switches));
        let silent = switches - 1 - self.others.len() as u64;
        let mut wanted: Vec<u64> = others.chain([own]).chain((0..silent).map(|_| self.reserved(switches))).collect();
        wanted.sort_unstable();
        fair_share(self.rate, &wanted, own)
    }

    /// Of a claim: an eighth more than was sent, so that it can grow, and never less than what is reserved.
    fn wanted(&self, claim: Claim, switches: u64) -> u64 {
        let grown = claim.bytes_per_second.saturating_add(claim.bytes_per_second / 8).min(self.rate);
        if claim.wants_more { self.rate } else { grown.max(self.reserved(switches)) }
    }

    const fn reserved(&self, switches: u64) -> u64 {
        self.rate / (RESERVED * switches)
    }
}

/// The max-min fair share of one who wants `own`, and an equal part of what nobody wants. `wanted` is in ascending order.
fn fair_share(rate: u64, wanted: &[u64], own: u64) -> u64 {
    let mut left = rate;
    let mut share = 0;
    for (at, &one) in wanted.iter().enumerate() {
        let given = one.min(left / (wanted.len() - at) as u64);
        left -= given;
        if one <= own {
            share = given;
        }
    }
    share + left / wanted.len() as u64
}
