//! Corrections: a packet came to where its destination is not, so its sender's agent is sent its present place (VL2, section 4.3.2, "Updating caches
//! reactively").

use std::collections::VecDeque;
use std::net::SocketAddr;

use rustc_hash::FxHashMap;

use super::super::front::{Access, Sighting, finding};
use super::super::key::PrincipalId;
use super::super::shared::Asker;
use super::super::table::FoundValue;
use super::{Output, Server};
use crate::time::{Duration, Instant};
use crate::wire::directory::{Correction, Finding, Header, Kind, Message, Misdelivered};

/// Where agents were seen last.
#[derive(Debug)]
pub struct Agents {
    agents: FxHashMap<PrincipalId, Agent>,
    /// In the order in which they came; those that went are forgotten first.
    order: VecDeque<PrincipalId>,
    max: usize,
}

#[derive(Debug)]
struct Agent {
    at: SocketAddr,
    cookie: u64,
    /// Corrections that may be sent now, and since when.
    tokens: u64,
    since: Instant,
}

impl Agents {
    /// None yet.
    pub fn new(max: usize) -> Self {
        Self { agents: FxHashMap::default(), order: VecDeque::new(), max: max.max(1) }
    }

    /// An agent was seen.
    pub fn see(&mut self, now: Instant, sighting: Sighting) {
        let Sighting { principal, at, cookie } = sighting;
        if let Some(agent) = self.agents.get_mut(&principal) {
            (agent.at, agent.cookie) = (at, cookie);
            return;
        }
        if self.order.len() >= self.max
            && let Some(oldest) = self.order.pop_front()
        {
            self.agents.remove(&oldest);
        }
        self.order.push_back(principal);
        self.agents.insert(principal, Agent { at, cookie, tokens: BURST, since: now });
    }
}

impl Agent {
    /// Whether one more correction may be sent.
    fn allow(&mut self, now: Instant) -> bool {
        let earned = now.saturating_since(self.since).as_ns() / EVERY.as_ns();
        if earned > 0 {
            self.tokens = BURST.min(self.tokens + earned);
            self.since = now;
        }
        let allowed = self.tokens > 0;
        self.tokens = self.tokens.saturating_sub(1);
        allowed
    }
}

impl Server {
    /// A report of a misdelivered packet. If this server cannot help the sender it passes the report on, but not what was passed to it.
    pub(super) fn misdelivered(&mut self, now: Instant, reporter: PrincipalId, report: Misdelivered) {
        let table = &self.shared.table;
        let asker = match table.get(&report.asker).map(|found| found.value) {
            _ if !self.shared.holds(&report.asker) => self.shared.askers.get(&report.asker).copied(),
            Some(FoundValue::Mapping(mapping)) => Some(Asker::Known(mapping.owner, mapping.service)),
            _ => None,
        };
        let Some(Asker::Known(owner, _)) = asker else { return self.pass_on(now, reporter, report) };
        let access = Access::of(&self.shared, owner, Some((&report.asker, &table.probe(&report.asker))));
        let (generation, finding) = finding(&self.shared, access, &report.key);
        let knows_better =
            !matches!(&finding, Finding::Found(value) if value.mapping().is_some_and(|it| it.locator == report.stale));
        let Some(agent) = self.agents.agents.get_mut(&owner).filter(|_| knows_better && self.following.loaded) else {
            return self.pass_on(now, reporter, report);
        };
        if !agent.allow(now) {
            self.counters.corrections_limited += 1;
            return;
        }
        let (to, cookie) = (agent.at, agent.cookie);
        let (revision, policy) = (self.shared.revision, self.shared.policy.version());
        let mut bytes = Vec::new();
        Header { kind: Kind::Correction, principal: owner, cookie, request: 0 }
            .emit_as(self.config.versions.of_cookie(cookie), &mut bytes);
        Message::Correction(Correction { revision, policy, key: report.key, generation, finding }).emit(&mut bytes);
        self.secret.key_by_cookie(owner, cookie).tagger().seal(&mut bytes, 0);
        self.counters.corrections += 1;
        self.outputs.push_back(Output::Send { to, bytes });
    }

    fn pass_on(&mut self, now: Instant, reporter: PrincipalId, report: Misdelivered) {
        if !self.shared.policy.is_server(reporter) {
            self.notify_peers(now, &Message::Misdelivered(report));
        }
    }
}

/// Corrections that an agent gets at once...
const BURST: u64 = 16;
/// ...and then one in this time.
const EVERY: Duration = Duration::from_ms(10);
