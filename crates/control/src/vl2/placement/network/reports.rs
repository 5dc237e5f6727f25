//! What agents report.

use std::net::SocketAddr;

use weft_fabric::routing::FlowKey;
use weft_fabric::{Bytes, HostId};

use super::{AgentNetwork, Tracked};
use crate::controller::{FlowCounter, Input as ControllerInput};
use crate::time::{Duration, Instant};
use crate::wire::vl2::placement::{Frame, Message, Report, Reported};

impl AgentNetwork {
    pub(super) fn received(&mut self, now: Instant, from: SocketAddr, bytes: &[u8]) {
        let Ok(frame) = Frame::parse(bytes) else { return self.refusals.malformed += 1 };
        let Some(host) = self.identities.host_of(frame.principal()) else { return self.refusals.unknown += 1 };
        if !frame.is_of(&self.identities.host(host).key) {
            return self.refusals.untagged += 1;
        }
        let Message::Report(report) = frame.message else { return self.refusals.malformed += 1 };
        let own = self.settings.generation;
        if report.generation > own {
            self.superseded_by = self.superseded_by.max(report.generation);
            return;
        }
        let agent = &mut self.agents[host.index()];
        if report.sequence < agent.sequence || (report.sequence == agent.sequence && agent.parts.contains(&report.part)) {
            return self.refusals.stale += 1;
        }
        if self.superseded_by > 0 {
            return;
        }
        if report.generation < own {
            // It may have been recorded before this scheduler started: nothing is read from it, and the agent learns whom it is to obey.
            if report.part == 0 {
                self.order(host, Some(from), report.sequence, Duration::ZERO, &[]);
            }
            return;
        }
        self.read(now, host, from, &report);
    }

    fn read(&mut self, now: Instant, host: HostId, from: SocketAddr, report: &Report) {
        let agent = &mut self.agents[host.index()];
        if report.sequence > agent.sequence {
            (agent.sequence, agent.received) = (report.sequence, now);
            agent.parts.clear();
            agent.listed.clear();
        }
        agent.parts.insert(report.part);
        (agent.address, agent.heard) = (Some(from), Some(now));
        let ahead = i128::from(now.as_ns()) - i128::from(report.time.as_ns());
        let ahead = *agent.ahead.insert(agent.ahead.map_or(ahead, |before| before.min(ahead)));
        let read_at = u64::try_from(i128::from(report.time.as_ns()) + ahead).map_or(now, Instant::from_ns).min(now);
        if report.part == 0 {
            agent.unreachable = report.unreachable.iter().copied().collect();
            if report.loop_length > Duration::ZERO {
                self.loops.add(report.loop_length);
            }
        }
        for reported in &report.flows {
            self.flow(now, host, read_at, reported);
        }
        let agent = &self.agents[host.index()];
        if agent.parts.len() == usize::from(report.parts) {
            self.complete(now, host);
        }
        self.review(now);
    }

    fn flow(&mut self, now: Instant, host: HostId, read_at: Instant, reported: &Reported) {
        let Some(key) = self.identities.key_of(&reported.flow).filter(|key| key.src == host) else {
            return self.refusals.foreign_flows += 1;
        };
        let listed = &mut self.agents[host.index()].listed;
        if listed.len() >= FLOWS_MAX {
            return self.refusals.over_limit += 1;
        }
        listed.insert(key);
        let bytes = Bytes(reported.bytes);
        let there = reported.placement.filter(|_| !reported.is_refused);
        let refused = reported.placement.filter(|_| reported.is_refused);
        let known = self.flows.get(&key).filter(|known| known.flow == reported.flow && known.bytes <= bytes);
        let tracked = match known {
            Some(known) => {
                Tracked { bytes, read_at: read_at.max(known.read_at), age: reported.age, there, refused, ..known.clone() }
            }
            None => {
                let wanted = there.and_then(|placement| Some((self.path_over(key, placement)?, placement)));
                if let (Some((path, _)), Some(controller)) = (&wanted, &mut self.controller) {
                    controller.handle(now, ControllerInput::Placed(key, path));
                }
                let before = bytes_before(bytes, reported.age, read_at.saturating_since(self.asked));
                let (flow, age) = (reported.flow, reported.age);
                Tracked { flow, bytes, before, read_at, age, there, refused, wanted, ordered: None }
            }
        };
        self.flows.insert(key, tracked);
    }

    /// A report is whole: what it does not list has ended, and what is not as it should be is ordered again.
    fn complete(&mut self, now: Instant, host: HostId) {
        let agent = &mut self.agents[host.index()];
        agent.complete = Some((agent.sequence, agent.received));
        let of_host = |key: &&FlowKey| key.src == host;
        let gone: Vec<FlowKey> = self.flows.keys().filter(of_host).filter(|key| !agent.listed.contains(key)).copied().collect();
        gone.into_iter().for_each(|key| self.ended(now, key));
        let differs = |tracked: &Tracked| {
            let is_refused = tracked.refused.is_some() && tracked.refused == tracked.placement();
            let has_waited = tracked.ordered.is_none_or(|ordered| now.saturating_since(ordered) >= RESEND);
            tracked.there != tracked.placement() && !is_refused && has_waited
        };
        let late = self.flows.iter().filter(|(key, tracked)| key.src == host && differs(tracked)).map(|(&key, _)| key);
        self.changed.extend(late);
        if !self.changed.iter().any(|key| key.src == host) {
            // So that the agent knows that it is heard.
            let sequence = self.agents[host.index()].sequence;
            self.order(host, None, sequence, Duration::ZERO, &[]);
        }
    }

    pub(super) fn ended(&mut self, now: Instant, key: FlowKey) {
        self.flows.remove(&key);
        self.changed.remove(&key);
        if let Some(controller) = &mut self.controller {
            let counter = FlowCounter { flow: key, bytes: Bytes(0), read_at: now, path: &[] };
            controller.handle(now, ControllerInput::FlowRemoved(counter));
        }
    }
}

/// Bytes of a flow that is seen for the first time which it sent before the last reading, at its mean rate: a scheduler that has just started does
/// not take what a flow sent in its life for what it sends now.
fn bytes_before(bytes: Bytes, age: Duration, since: Duration) -> Bytes {
    let earlier = u128::from(age.as_ns().saturating_sub(since.as_ns()));
    let before = (u128::from(bytes.0) * earlier).checked_div(u128::from(age.as_ns())).unwrap_or(0);
    Bytes(u64::try_from(before).unwrap_or(bytes.0))
}

/// Flows of a host that are remembered, at most.
const FLOWS_MAX: usize = 1024;
/// Orders that have shown no effect after so long are sent again.
const RESEND: Duration = Duration::from_ms(100);
