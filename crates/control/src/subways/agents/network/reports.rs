//! What agents report.

use std::net::SocketAddr;

use weft_fabric::routing::{Direction, FlowKey};
use weft_fabric::topology::Part;
use weft_fabric::{CableId, HostId, SwitchId};

use super::{AccessNetwork, Meter, NetworkOutput, Place, Tracked};
use crate::controller::Input as ControllerInput;
use crate::time::{Duration, Instant};
use crate::wire::subways::{FlowId, Frame, HostReport, Message, NicPair, PortCounter, ReportHead};

impl AccessNetwork {
    pub(super) fn received(&mut self, now: Instant, from: SocketAddr, bytes: &[u8]) {
        let Ok(frame) = Frame::parse(bytes) else { return self.refusals.malformed += 1 };
        let Some(&place) = self.by_principal.get(&frame.principal()) else { return self.refusals.unknown += 1 };
        if !frame.is_of(&self.agents[&place].member.key) {
            return self.refusals.untagged += 1;
        }
        match (place, frame.message) {
            (Place::Host(host), Message::Host(report)) => {
                if self.accepts(now, place, from, &report.head) {
                    self.host(now, host, &report);
                }
            }
            (Place::Tor(tor), Message::Tor(report)) => {
                if self.accepts(now, place, from, &report.head) {
                    let at = self.agents.get_mut(&place).map_or(now, |agent| agent.local_time(now, report.head.time));
                    report.ports.iter().for_each(|port| self.port(at, tor, port));
                    self.review();
                    self.complete(now, place, report.head.parts);
                }
            }
            (Place::Host(host), Message::Forward(report)) if self.settings.detours => self.takes_part(now, host, &report),
            _ => self.refusals.malformed += 1,
        }
    }

    /// Whether a report is to be read: it is newer than the last, and its agent obeys this scheduler. Others learn whom they are to obey.
    fn accepts(&mut self, now: Instant, place: Place, from: SocketAddr, head: &ReportHead) -> bool {
        let own = self.settings.generation;
        if head.generation > own {
            self.superseded_by = self.superseded_by.max(head.generation);
        }
        let Some(agent) = self.agents.get_mut(&place).filter(|_| self.superseded_by == 0) else { return false };
        if head.sequence < agent.sequence || (head.sequence == agent.sequence && agent.parts.contains(&head.part)) {
            self.refusals.stale += 1;
            return false;
        }
        if head.generation < own {
            // It may have been recorded before this scheduler started: nothing is read from it.
            if head.part == 0 {
                self.order(place, Some(from), head.sequence, Duration::ZERO, |_| ());
            }
            return false;
        }
        if head.sequence > agent.sequence {
            (agent.sequence, agent.received) = (head.sequence, now);
            agent.parts.clear();
            agent.listed.clear();
        }
        agent.parts.insert(head.part);
        (agent.address, agent.heard) = (Some(from), Some(now));
        true
    }

    fn host(&mut self, now: Instant, host: HostId, report: &HostReport) {
        let place = Place::Host(host);
        let read_at = self.agents.get_mut(&place).map_or(now, |agent| agent.local_time(now, report.head.time));
        if report.head.part == 0 {
            let cables: Vec<CableId> = self.fabric().out(host.node()).iter().map(|link| link.cable()).collect();
            for (nic, cable) in cables.into_iter().enumerate() {
                self.vote(place, cable, report.down >> nic & 1 == 1);
            }
            self.review();
            if report.loop_length > Duration::ZERO {
                self.loops.add(report.loop_length);
            }
        }
        for &(id, nics, bytes) in &report.flows {
            self.flow(read_at, host, id, nics, bytes);
        }
        self.complete(now, place, report.head.parts);
    }

    fn flow(&mut self, read_at: Instant, host: HostId, id: FlowId, nics: NicPair, bytes: u64) {
        let to = self.addresses.host_of(id.peer).filter(|&to| to != host);
        let is_there = |to: HostId| {
            self.links_of(host, Direction::Out, nics.out).is_some() && self.links_of(to, Direction::In, nics.into).is_some()
        };
        let Some(dst) = to.filter(|&to| is_there(to)) else { return self.refusals.foreign_flows += 1 };
        let key = FlowKey { src: host, dst, sport: id.sport, dport: id.dport };
        let Some(agent) = self.agents.get_mut(&Place::Host(host)) else { return };
        if agent.listed.len() >= FLOWS_MAX {
            return self.refusals.over_limit += 1;
        }
        agent.listed.insert(key);
        self.flows.insert(key, Tracked { id, nics, bytes, read_at });
    }

    fn port(&mut self, at: Instant, tor: SwitchId, port: &PortCounter) {
        let fabric = self.fabric();
        let Some(&link) = fabric.out(fabric.switch_node(tor)).get(usize::from(port.port)) else {
            return self.refusals.foreign_ports += 1;
        };
        self.vote(Place::Tor(tor), link.cable(), !port.is_up);
        for (link, raw) in [(link, port.sent), (link.reverse(), port.received)] {
            self.meters.entry(link.0).or_insert_with(|| Meter::new(raw, at)).read(raw, at);
        }
    }

    fn vote(&mut self, place: Place, cable: CableId, is_down: bool) {
        if is_down {
            self.down.entry(cable).or_default().insert(place);
        } else if let Some(votes) = self.down.get_mut(&cable) {
            votes.remove(&place);
        }
    }

    /// Reports to the scheduler which cables have failed, or work again.
    fn review(&mut self) {
        self.down.retain(|_, votes| !votes.is_empty());
        let fabric = self.addresses.fabric().clone();
        let failed: Vec<CableId> = self.down.keys().filter(|cable| !self.failed.contains(cable)).copied().collect();
        let restored: Vec<CableId> = self.failed.iter().filter(|cable| !self.down.contains_key(cable)).copied().collect();
        if failed.is_empty() && restored.is_empty() {
            return;
        }
        for cable in failed {
            self.failed.insert(cable);
            self.health.fail(&fabric, Part::Cable(cable));
            self.controller.handle(self.asked, ControllerInput::Failed(Part::Cable(cable)));
            self.outputs.push_back(NetworkOutput::Cable(cable, true));
        }
        for cable in restored {
            self.failed.remove(&cable);
            self.health.restore(&fabric, Part::Cable(cable));
            self.controller.handle(self.asked, ControllerInput::Restored(Part::Cable(cable)));
            self.outputs.push_back(NetworkOutput::Cable(cable, false));
        }
        self.router.health_changed(&self.health);
        self.send_down();
    }

    /// A report is whole: what it does not list has ended.
    fn complete(&mut self, now: Instant, place: Place, parts: u8) {
        let Some(agent) = self.agents.get_mut(&place).filter(|agent| agent.parts.len() == usize::from(parts)) else { return };
        agent.complete = Some((agent.sequence, agent.received));
        let (sequence, listed) = (agent.sequence, std::mem::take(&mut agent.listed));
        if let Place::Host(host) = place {
            let gone = self.flows_of(host).filter(|key| !listed.contains(key));
            let gone: Vec<FlowKey> = gone.collect();
            gone.into_iter().for_each(|key| self.ended(now, key));
        }
        // So that the agent knows that it is heard.
        self.order(place, None, sequence, Duration::ZERO, |_| ());
    }

    /// The flows that a host sends.
    pub(super) fn flows_of(&self, host: HostId) -> impl Iterator<Item = FlowKey> + '_ {
        let first = FlowKey { src: host, dst: HostId(0), sport: 0, dport: 0 };
        self.flows.range(first..).map(|(&key, _)| key).take_while(move |key| key.src == host)
    }
}

/// Flows of a host that are remembered, at most.
const FLOWS_MAX: usize = 1024;
