//! Rounds: the controller reads the last reports, and what it wants is ordered.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use weft_fabric::routing::{FlowKey, Path};
use weft_fabric::topology::Part;
use weft_fabric::{Bytes, HostId, SwitchId};

use super::{AgentNetwork, NetworkOutput};
use crate::controller::{FlowCounter, Input as ControllerInput, Output as ControllerOutput};
use crate::time::{Duration, Instant};
use crate::vl2::placement::Placement;
use crate::wire::packet::ip::Flow;
use crate::wire::vl2::placement::{ORDERED_MAX, Orders};

impl AgentNetwork {
    pub(super) fn timer(&mut self, now: Instant) {
        if self.housekeeping <= now {
            self.housekeeping = now + HOUSEKEEPING;
            self.forget_idle(now);
        }
        if let Some(controller) = &mut self.controller
            && controller.deadline().is_some_and(|deadline| deadline <= now)
        {
            controller.handle(now, ControllerInput::Timer);
        }
    }

    /// Does what the controller wants.
    pub(super) fn run_controller(&mut self, now: Instant) {
        while let Some(output) = self.controller.as_mut().and_then(|controller| controller.poll()) {
            match output {
                ControllerOutput::ReadFlowCounters => self.round(now),
                ControllerOutput::SetPath { flow, path } => self.place(flow, Some(path)),
                ControllerOutput::ClearPath { flow } => self.place(flow, None),
                // Of Subways' scheduler, which steers hosts.
                ControllerOutput::ReadLinkCounters
                | ControllerOutput::SetAccessPaths { .. }
                | ControllerOutput::Rebind { .. } => {}
            }
        }
    }

    fn round(&mut self, now: Instant) {
        let asked = std::mem::replace(&mut self.asked, now);
        let has_flows = |host: &HostId| self.flows.keys().any(|key| key.src == *host);
        let is_late = |host: &HostId| self.agents[host.index()].complete.is_none_or(|(_, received)| received < asked);
        if self.fabric().hosts().any(|host| is_late(&host) && has_flows(&host)) {
            self.late_rounds += 1;
        }
        let Some(controller) = &mut self.controller else { return };
        let of = |(key, tracked): (&FlowKey, &'_ super::Tracked)| FlowCounter {
            flow: *key,
            bytes: Bytes(tracked.bytes.0 - tracked.before.0),
            read_at: tracked.read_at,
            // Where it is by its host's own word: not where it is only to be.
            path: &[],
        };
        let mut counters: Vec<FlowCounter<'_>> = self.flows.iter().map(of).collect();
        for (counter, tracked) in counters.iter_mut().zip(self.flows.values()) {
            if let Some((path, _)) = tracked.wanted.as_ref().filter(|(_, wanted)| tracked.there == Some(*wanted)) {
                counter.path = path;
            }
        }
        controller.handle(now, ControllerInput::FlowCounters(&counters));
    }

    fn place(&mut self, key: FlowKey, path: Option<Path>) {
        let wanted = path.and_then(|path| {
            let placement = self.placement_of(&path);
            self.refusals.unplaceable += u64::from(placement.is_none());
            placement.map(|placement| (path, placement))
        });
        if let Some(tracked) = self.flows.get_mut(&key) {
            tracked.wanted = wanted;
            self.changed.insert(key);
        }
    }

    /// Sends what has changed to the hosts.
    pub(super) fn send_orders(&mut self, now: Instant) {
        let mut of_hosts: BTreeMap<HostId, Vec<(Flow, Option<Placement>)>> = BTreeMap::new();
        for key in std::mem::take(&mut self.changed) {
            if let Some(tracked) = self.flows.get_mut(&key) {
                tracked.ordered = Some(now);
                let placement = tracked.placement();
                of_hosts.entry(key.src).or_default().push((tracked.flow, placement));
            }
        }
        for (host, flows) in of_hosts {
            let Some((sequence, received)) = self.agents[host.index()].complete else { continue };
            let held = now.saturating_since(received);
            flows.chunks(ORDERED_MAX).for_each(|flows| self.order(host, None, sequence, held, flows));
        }
    }

    /// Sends orders to a host, at the address of its last report or at another.
    pub(super) fn order(
        &mut self,
        host: HostId,
        to: Option<SocketAddr>,
        sequence: u64,
        held: Duration,
        flows: &[(Flow, Option<Placement>)],
    ) {
        let every = self.every();
        let agent = &mut self.agents[host.index()];
        let Some(to) = to.or(agent.address).filter(|_| self.superseded_by == 0) else { return };
        agent.number += 1;
        let identity = self.identities.host(host);
        let (principal, generation, number) = (identity.principal, self.settings.generation, agent.number);
        let orders = Orders { principal, sequence, generation, number, every, held, flows: flows.to_vec() };
        self.outputs.push_back(NetworkOutput::Send(to, orders.emit(&identity.key)));
    }

    /// Which intermediate switches have failed, by what agents report.
    pub(super) fn review(&mut self, now: Instant) {
        let suspects = self.agents.iter().flat_map(|agent| &agent.unreachable).filter_map(|&it| self.identities.switch_of(it));
        let suspects: std::collections::BTreeSet<SwitchId> = suspects.chain(self.failed.iter().copied()).collect();
        for switch in suspects {
            let has_failed = self.has_failed(now, switch);
            if has_failed == self.failed.contains(&switch) {
                continue;
            }
            let part = Part::Node(self.fabric().switch_node(switch));
            let fabric = std::sync::Arc::clone(self.identities.fabric());
            self.next_hops.invalidate();
            self.outputs.push_back(NetworkOutput::Intermediate(switch, has_failed));
            let input = if has_failed {
                self.failed.insert(switch);
                self.health.fail(&fabric, part);
                self.leave(switch);
                ControllerInput::Failed(part)
            } else {
                self.failed.remove(&switch);
                self.health.restore(&fabric, part);
                ControllerInput::Restored(part)
            };
            if let Some(controller) = &mut self.controller {
                controller.handle(now, input);
            }
        }
    }

    /// More agents report it than have flows over it.
    fn has_failed(&self, now: Instant, switch: SwitchId) -> bool {
        let Some(locator) = self.identities.locator(switch) else { return false };
        let hosts = || self.fabric().hosts().filter(|host| !self.is_away(now, *host));
        let is_against = |host: &HostId| self.agents[host.index()].unreachable.contains(&locator);
        let is_there = |tracked: &super::Tracked| tracked.there.is_some_and(|it| it.intermediate == locator);
        let uses = |host: &HostId| {
            let of_host = FlowKey { src: *host, dst: HostId(0), sport: 0, dport: 0 }..;
            self.flows.range(of_host).take_while(|(key, _)| key.src == *host).any(|(_, tracked)| is_there(tracked))
        };
        let against = hosts().filter(is_against).count();
        against > hosts().filter(|host| !is_against(host) && uses(host)).count()
    }

    /// No flow is to go over this switch any longer.
    fn leave(&mut self, switch: SwitchId) {
        let locator = self.identities.locator(switch);
        for (key, tracked) in &mut self.flows {
            if tracked.placement().map(|it| it.intermediate) == locator {
                tracked.wanted = None;
                self.changed.insert(*key);
            }
        }
    }

    fn forget_idle(&mut self, now: Instant) {
        let timeout = self.settings.idle_timeout;
        let is_idle = |tracked: &super::Tracked| now.saturating_since(tracked.read_at) > timeout;
        let idle: Vec<FlowKey> = self.flows.iter().filter(|(_, tracked)| is_idle(tracked)).map(|(&key, _)| key).collect();
        idle.into_iter().for_each(|key| self.ended(now, key));
        self.review(now);
    }
}

/// From one look at what is old to the next.
const HOUSEKEEPING: Duration = Duration::from_secs(1);
