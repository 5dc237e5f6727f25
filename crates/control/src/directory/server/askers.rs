//! Askers whose keys other parts of a divided directory have: this server looks them up there, as an agent would, and follows what becomes of them.
//!
//! ```text
//!   Lookup of an own key for an asker of another part --> Elsewhere, and the asker is looked up --> from then on answers by what that part says
//! ```
//! While the other part's servers do not answer, what they said last counts.

use std::collections::VecDeque;
use std::net::SocketAddr;

use rustc_hash::FxHashMap;
use weft_fabric::rng::Pcg64;

use super::super::auth::Secret;
use super::super::key::{Key, PrincipalId, Value};
use super::super::resolver::{Input, Output as ResolverOutput, Resolution, Resolver, ResolverConfig};
use super::super::shared::Asker;
use super::{Output, Server, ServerConfig};
use crate::time::{Duration, Instant};

/// The askers of other parts.
#[derive(Debug)]
pub struct Askers {
    resolver: Resolver,
    /// Those that are nowhere, and until when that is believed.
    unknown: VecDeque<(Instant, Key)>,
    /// How many each principal has named since then: nobody makes other parts' servers look up addresses that he invents.
    named: FxHashMap<PrincipalId, u32>,
    since: Instant,
}

impl Askers {
    /// None yet.
    pub fn new(config: &ServerConfig, secret: &Secret, rng: Pcg64) -> Self {
        let resolver = ResolverConfig {
            capacity: config.max_askers,
            negative: UNKNOWN,
            versions: config.versions,
            ..ResolverConfig::new(config.me)
        };
        let resolver = Resolver::new(resolver, &secret.key_of(config.me), rng);
        Self { resolver, unknown: VecDeque::new(), named: FxHashMap::default(), since: Instant::ZERO }
    }

    /// Another secret: the server's own key is of the new one.
    pub fn set_key(&mut self, secret: &Secret, me: PrincipalId) {
        self.resolver.set_key(&secret.key_of(me));
    }

    /// Whether a principal may name one more.
    fn may_name(&mut self, now: Instant, principal: PrincipalId) -> bool {
        if now.saturating_since(self.since) >= Duration::from_secs(1) {
            self.named.clear();
            self.since = now;
        }
        let named = self.named.entry(principal).or_default();
        *named += 1;
        *named <= NAMED_PER_S
    }

    /// When a timer is due.
    pub fn deadline(&self) -> Option<Instant> {
        self.unknown.front().map(|&(until, _)| until).into_iter().chain(self.resolver.deadline()).min()
    }
}

impl Server {
    /// Another part has an asker that a principal names: who is it?
    pub(super) fn want_asker(&mut self, now: Instant, principal: PrincipalId, key: Key) {
        let is_known = self.shared.holds(&key) || self.shared.askers.contains_key(&key);
        if is_known || !self.askers.may_name(now, principal) {
            return;
        }
        self.askers.resolver.handle(now, Input::Resolve { key, asker: None, token: 0 });
        self.drain_askers(now);
    }

    /// What a server of another part sent.
    pub(super) fn of_other_part(&mut self, now: Instant, from: SocketAddr, bytes: &[u8]) {
        self.askers.resolver.handle(now, Input::Datagram { from, bytes });
        self.drain_askers(now);
    }

    pub(super) fn asker_timers(&mut self, now: Instant) {
        if self.askers.deadline().is_none_or(|at| now < at) {
            return;
        }
        while let Some(&(until, key)) = self.askers.unknown.front()
            && until <= now
        {
            self.askers.unknown.pop_front();
            if self.shared.askers.get(&key) == Some(&Asker::Unknown) {
                self.shared.askers.remove(&key);
            }
        }
        self.askers.resolver.handle(now, Input::Timer);
        self.drain_askers(now);
    }

    /// The policy may have other parts.
    pub(super) fn divide(&mut self, now: Instant) {
        let policy = &self.shared.policy;
        let place = policy.place_of_part(self.config.part.as_deref());
        self.shared.part = place.unwrap_or_default();
        self.askers.resolver.set_parts(now, policy.version(), policy.parts().cloned());
        self.drain_askers(now);
    }

    fn drain_askers(&mut self, now: Instant) {
        while let Some(output) = self.askers.resolver.poll() {
            match output {
                ResolverOutput::Send { to, bytes } => self.outputs.push_back(Output::Send { to, bytes }),
                ResolverOutput::Invalidated { key, .. } => {
                    self.shared.askers.remove(&key);
                }
                ResolverOutput::Resolved { key, resolution, .. } => {
                    let asker = match resolution {
                        Resolution::Found(_, Value::Mapping(mapping)) => Asker::Known(mapping.owner, mapping.service),
                        // It is asked again by the next lookup.
                        Resolution::Unanswered => continue,
                        _ => {
                            self.askers.unknown.push_back((now.saturating_add(UNKNOWN), key));
                            Asker::Unknown
                        }
                    };
                    self.shared.askers.insert(key, asker);
                }
            }
        }
    }
}

/// Askers that a principal may name in a second: a host has a few addresses, and names each again until it is known.
const NAMED_PER_S: u32 = 256;
/// How long it is believed that an asker is nowhere.
const UNKNOWN: Duration = Duration::from_ms(500);
