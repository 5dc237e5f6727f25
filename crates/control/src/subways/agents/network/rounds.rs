//! Rounds: the controller reads the last reports, and what it wants is ordered.

use std::net::SocketAddr;

use weft_fabric::routing::{AccessPath, Direction, FlowKey, Path};
use weft_fabric::{Bytes, HostId, SwitchId};

use super::{AccessNetwork, Member, NetworkOutput, Place, Tracked};
use crate::controller::{FlowCounter, Input as ControllerInput, LinkCounters, Output as ControllerOutput};
use crate::time::{Duration, Instant};
use crate::wire::subways::{DOWN_MAX, FIRST_DETOUR, MOVES_MAX, NicPair, Orders, TORS_MAX, TorWeight};

impl AccessNetwork {
    pub(super) fn timer(&mut self, now: Instant) {
        if self.housekeeping <= now {
            self.housekeeping = now + HOUSEKEEPING;
            self.forget_idle(now);
        }
        if self.controller.deadline().is_some_and(|deadline| deadline <= now) {
            self.review_participants(now);
            self.controller.handle(now, ControllerInput::Timer);
            self.run_controller(now);
            // A move may name a detour of the new list.
            self.send_lists();
            self.send_orders(now);
        }
    }

    /// Does what the controller wants.
    fn run_controller(&mut self, now: Instant) {
        while let Some(output) = self.controller.poll() {
            match output {
                ControllerOutput::ReadLinkCounters => self.links(now),
                ControllerOutput::ReadFlowCounters => self.round(now),
                ControllerOutput::SetAccessPaths { host, direction, paths } => {
                    self.set_paths(host, direction, paths.unwrap_or_default());
                }
                ControllerOutput::Rebind { flow, leaving, arriving, gap } => self.rebind(flow, &leaving, &arriving, gap),
                // Of schedulers that steer switches.
                ControllerOutput::SetPath { .. } | ControllerOutput::ClearPath { .. } => {}
            }
        }
    }

    fn links(&mut self, now: Instant) {
        let mut bytes = vec![Bytes(0); self.fabric().links().len()];
        let longest = self.every() * 3;
        for (&link, meter) in &mut self.meters {
            bytes[link as usize] = Bytes(meter.at(now, longest));
        }
        self.controller.handle(now, ControllerInput::LinkCounters(LinkCounters { bytes: &bytes, read_at: now }));
    }

    fn round(&mut self, now: Instant) {
        let asked = std::mem::replace(&mut self.asked, now);
        let is_late = |host: HostId| {
            let complete = self.agents.get(&Place::Host(host)).and_then(|agent| agent.complete);
            complete.is_none_or(|(_, received)| received < asked)
        };
        if self.fabric().hosts().any(|host| is_late(host) && self.flows_of(host).next().is_some()) {
            self.late_rounds += 1;
        }
        let flows: Vec<(FlowKey, Tracked)> = self.flows.iter().map(|(&key, &it)| (key, it)).collect();
        let paths: Vec<Path> = flows.iter().map(|(key, it)| self.path(key, it.nics).unwrap_or_default()).collect();
        let mut counters = Vec::with_capacity(flows.len());
        for ((flow, it), path) in flows.iter().zip(&paths) {
            counters.push(FlowCounter { flow: *flow, bytes: Bytes(it.bytes), read_at: it.read_at, path });
        }
        self.controller.handle(now, ControllerInput::FlowCounters(&counters));
    }

    /// The path of a flow over its NICs; what lies between its ToRs the switches decide, and is taken to be any shortest path.
    fn path(&mut self, key: &FlowKey, nics: NicPair) -> Option<Path> {
        let leaving = self.links_of(key.src, Direction::Out, nics.out)?;
        let arriving = self.links_of(key.dst, Direction::In, nics.into)?;
        self.router.route_through(key, &leaving, &arriving)
    }

    /// A NIC's weight is that of its ToR.
    pub(super) fn weigh(&mut self, direction: Direction, paths: &[AccessPath]) {
        for path in paths {
            let fabric = self.addresses.fabric();
            let Some(tor) = fabric.as_switch(path.tor(fabric, direction)) else { continue };
            self.weights.entry(tor).or_default()[direction as usize] = path.weight;
        }
    }

    fn rebind(&mut self, key: FlowKey, leaving: &Path, arriving: &Path, gap: Duration) {
        let Some(it) = self.flows.get(&key) else { return };
        let out = self.number_of(key.src, Direction::Out, leaving);
        let into = self.number_of(key.dst, Direction::In, arriving);
        // A detour without a number, or of a source that takes no part, is none.
        let is_possible = |nics: &NicPair| nics.out.max(nics.into) < FIRST_DETOUR || self.has_part(key.src);
        let nics = out.zip(into).map(|(out, into)| NicPair { out, into }).filter(is_possible);
        if let Some(nics) = nics {
            self.gap = gap;
            self.moves.entry(key.src).or_default().push((it.id, nics));
        }
    }

    pub(super) fn ended(&mut self, now: Instant, key: FlowKey) {
        let Some(it) = self.flows.remove(&key) else { return };
        let path = self.path(&key, it.nics).unwrap_or_default();
        let counter = FlowCounter { flow: key, bytes: Bytes(it.bytes), read_at: now, path: &path };
        self.controller.handle(now, ControllerInput::FlowRemoved(counter));
    }

    /// Sends every host the weights of all ToRs, the NICs that are down, and its moves.
    fn send_orders(&mut self, now: Instant) {
        let tors = self.tor_weights();
        let mut moves = std::mem::take(&mut self.moves);
        for host in self.fabric().hosts().collect::<Vec<_>>() {
            let moves = moves.remove(&host).unwrap_or_default();
            let Some((sequence, received)) = self.agents.get(&Place::Host(host)).and_then(|agent| agent.complete) else {
                continue;
            };
            let held = now.saturating_since(received);
            let (mut tors, mut moves) = (tors.chunks(TORS_MAX), moves.chunks(MOVES_MAX));
            let mut next = (tors.next(), moves.next());
            let mut is_first = true;
            while is_first || next.0.is_some() || next.1.is_some() {
                let down = if is_first { self.down_now() } else { Vec::new() };
                self.order(Place::Host(host), None, sequence, held, |orders| {
                    orders.tors = next.0.unwrap_or_default().to_vec();
                    orders.moves = next.1.unwrap_or_default().to_vec();
                    (orders.is_first, orders.down) = (is_first, down);
                });
                is_first = false;
                next = (tors.next(), moves.next());
            }
        }
    }

    /// Sends all hosts at once the NICs that are down.
    pub(super) fn send_down(&mut self) {
        for host in self.fabric().hosts().collect::<Vec<_>>() {
            let Some((sequence, _)) = self.agents.get(&Place::Host(host)).and_then(|agent| agent.complete) else { continue };
            let down = self.down_now();
            self.order(Place::Host(host), None, sequence, Duration::ZERO, |orders| (orders.is_first, orders.down) = (true, down));
        }
    }

    /// The NICs that are down, as many as one message has.
    fn down_now(&self) -> Vec<std::net::Ipv4Addr> {
        let mut down = self.down_nics();
        down.truncate(DOWN_MAX);
        down
    }

    fn tor_weights(&self) -> Vec<TorWeight> {
        let kbits = |it: u64| u32::try_from(it / 1000).unwrap_or(u32::MAX);
        let of =
            |(switch, [out, into]): (&SwitchId, &[u64; 2])| TorWeight { switch: switch.0, out: kbits(*out), into: kbits(*into) };
        self.weights.iter().map(of).collect()
    }

    /// Sends orders to an agent, at the address of its last report or at another.
    pub(super) fn order(
        &mut self,
        place: Place,
        to: Option<SocketAddr>,
        sequence: u64,
        held: Duration,
        fill: impl FnOnce(&mut Orders),
    ) {
        let (every, generation, gap) = (self.every(), self.settings.generation, self.gap);
        self.send_to(place, to, |member, number| {
            let (principal, (tors, down, moves)) = (member.principal, Default::default());
            let mut orders =
                Orders { principal, sequence, generation, number, every, held, gap, tors, is_first: false, down, moves };
            fill(&mut orders);
            orders.emit(&member.key)
        });
    }

    /// Sends an agent its next message, unless another scheduler has taken over.
    pub(super) fn send_to(&mut self, place: Place, to: Option<SocketAddr>, emit: impl FnOnce(&Member, u64) -> Vec<u8>) {
        let Some(agent) = self.agents.get_mut(&place) else { return };
        let Some(to) = to.or(agent.address).filter(|_| self.superseded_by == 0) else { return };
        agent.number += 1;
        let bytes = emit(&agent.member, agent.number);
        self.outputs.push_back(NetworkOutput::Send(to, bytes));
    }

    fn forget_idle(&mut self, now: Instant) {
        let is_old =
            |agent: &super::Agent| agent.heard.is_some_and(|heard| now.saturating_since(heard) > self.settings.idle_timeout);
        let old = self.agents.iter().filter(|(_, agent)| is_old(agent)).filter_map(|(&place, _)| match place {
            Place::Host(host) => Some(host),
            Place::Tor(_) => None,
        });
        for host in old.collect::<Vec<_>>() {
            for key in self.flows_of(host).collect::<Vec<_>>() {
                self.ended(now, key);
            }
        }
    }
}

const HOUSEKEEPING: Duration = Duration::from_secs(1);
