//! What the engine does when something fails or returns: it takes links away, recomputes the spanning tree, and runs SPAIN's agents.

use weft_control::netlord::spain::{Destination, Input, Output, VlanPath};
use weft_fabric::Instant;
use weft_fabric::time::NsInstant;
use weft_fabric::topology::Part;

use super::{Agent, Faults};
use crate::packet::bridged::engine::{AGENT, Engine, TREE};
use crate::packet::bridged::fib::Fib;
use crate::packet::bridged::frames::{Frame, Kind};
use crate::packet::bridged::lans::Lans;
use crate::packet::tcp::NEVER;
use crate::world::Change;

impl Engine {
    /// The time on the agents' clock.
    const fn agents_now(&self) -> NsInstant {
        Instant::from_ps(self.now).to_ns()
    }

    /// The time of an event has come.
    pub(in crate::packet::bridged) fn on_fault(&mut self, number: u32) {
        let Some(mut faults) = self.faults.take() else { return };
        let (part, works, is_noticed) = match faults.config.events[number as usize].change {
            Change::Fail(part) => (part, false, true),
            Change::FailSilent(part) => (part, false, false),
            Change::Restore(part) => (part, true, true),
        };
        let Faults { fabric, health, .. } = &mut *faults;
        let links = if works { health.restore(fabric, part) } else { health.fail(fabric, part) };
        for link in &links {
            self.ports.set_up(link.0, works);
            // A switch sees that its own port is down, and forgets what it learnt by it.
            if let Some(switch) = fabric.as_switch(fabric.link(*link).from).filter(|_| !works && is_noticed) {
                self.fibs[switch.index()].forget(link.0);
            }
        }
        if let Part::Node(node) = part
            && let Some(switch) = fabric.as_switch(node)
        {
            self.fibs[switch.index()].clear();
        }
        faults.idle.retain(|(_, idle)| links.iter().all(|link| !idle.contains(link)));
        if !works {
            faults.reconverge = faults.reconverge.max(Some(0));
        } else if !links.is_empty() {
            faults.idle.push((self.now, links));
        }
        faults.in_vain.clear();
        faults.divide(&self.lans);
        let is_tree = faults.agents.iter().all(Option::is_none);
        if is_tree && is_noticed {
            let delay = if works { faults.config.restore_delay } else { faults.config.reconverge };
            self.wheel.push(self.now.saturating_add(delay.as_ps()), self.timers + TREE, number);
        }
        self.faults = Some(faults);
    }

    /// The bridges have agreed on a tree without what an event took, or with what it brought.
    pub(in crate::packet::bridged) fn on_tree(&mut self, number: u32) {
        let Some(mut faults) = self.faults.take() else { return };
        let Faults { fabric, believed, hosts, config, .. } = &mut *faults;
        match config.events[number as usize].change {
            Change::Fail(part) | Change::FailSilent(part) => believed.fail(fabric, part),
            Change::Restore(part) => believed.restore(fabric, part),
        };
        let lans = Lans::new(fabric, hosts, None, believed);
        if lans.trees() != self.lans.trees() {
            self.lans = lans;
            self.fibs.iter_mut().for_each(Fib::clear);
            faults.has_tree(self.now);
            faults.divide(&self.lans);
        }
        self.faults = Some(faults);
    }

    /// A host sends a frame: its agent chooses the VLAN.
    pub(in crate::packet::bridged) fn outgoing(&mut self, frame: &mut Frame) {
        let ends = self.hosts_of(frame);
        let [from, to] = [ends.0, ends.1].map(|host| self.lans.place_of(host));
        if from == to || !frame.is_of_flow() {
            return;
        }
        let Some(mut faults) = self.faults.take() else { return };
        if let Some(agent) = &mut faults.agents[ends.0 as usize]
            && let Some(vlan) = agent.spain.choose(Destination(to), self.flow_of(frame))
        {
            frame.vlan = vlan.0;
            self.keep_vlan(frame);
            agent.spain.handle(self.agents_now(), Input::Sent { path: (Destination(to), vlan), peer: ends.1 });
            let failed = self.run_agent(ends.0, agent);
            faults.avoided(ends.0, &failed, self.now);
        }
        faults.sent(&self.lans, ends, frame.vlan, self.now);
        self.faults = Some(faults);
    }

    /// An end goes on by another VLAN.
    fn keep_vlan(&mut self, frame: &Frame) {
        match (frame.kind, &mut self.rx[frame.vm as usize]) {
            (Kind::Syn | Kind::Data, _) => self.tx[frame.vm as usize].vlan = frame.vlan,
            (_, rx) if rx.transfer == frame.transfer => rx.vlan = frame.vlan,
            _ => {}
        }
    }

    /// A host gets a frame: a sign of life of its path.
    pub(in crate::packet::bridged) fn incoming(&mut self, frame: &Frame) {
        let (peer, host) = self.hosts_of(frame);
        let [from, here] = [peer, host].map(|host| self.lans.place_of(host));
        let Some(mut faults) = self.faults.take() else { return };
        if let Some(agent) = faults.agents[host as usize].as_mut().filter(|_| from != here) {
            let path = (Destination(from), weft_fabric::routing::spain::VlanId(frame.vlan));
            let is_asked = frame.kind == Kind::Hello;
            let input = if is_asked { Input::Chirped { path, peer } } else { Input::Heard { path, peer } };
            agent.spain.handle(self.agents_now(), input);
            let failed = self.run_agent(host, agent);
            faults.avoided(host, &failed, self.now);
        }
        self.faults = Some(faults);
    }

    /// The timer of a host's agent has come.
    pub(in crate::packet::bridged) fn on_agent(&mut self, host: u32) {
        let Some(mut faults) = self.faults.take() else { return };
        if let Some(agent) = faults.agents[host as usize].as_mut().filter(|agent| agent.armed == self.now) {
            agent.armed = NEVER;
            agent.spain.handle(self.agents_now(), Input::Timer);
            let failed = self.run_agent(host, agent);
            faults.avoided(host, &failed, self.now);
        }
        self.faults = Some(faults);
    }

    /// Does what an agent asks for, and returns the paths that it avoids from now on.
    fn run_agent(&mut self, host: u32, agent: &mut Agent) -> Vec<VlanPath> {
        let mut failed = Vec::new();
        while let Some(output) = agent.spain.poll() {
            let (kind, (_, vlan), peer) = match output {
                Output::Chirp(path, peer) => (Kind::Hello, path, peer),
                Output::Answer(path, peer) => (Kind::HelloBack, path, peer),
                Output::Failed(path) => {
                    failed.push(path);
                    continue;
                }
                Output::Restored(_) => continue,
            };
            let len = self.header;
            self.emit(Frame { vm: host, peer, number: 0, transfer: 0, len, vlan: vlan.0, kind, flags: 0 });
        }
        let deadline = agent.spain.deadline().map_or(NEVER, |at| at.to_ps().as_ps());
        if deadline < agent.armed {
            agent.armed = deadline;
            self.wheel.push(deadline.max(self.now), self.timers + AGENT, host);
        }
        failed
    }
}
