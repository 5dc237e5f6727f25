//! The cluster and its machines: passes inputs with the time of the node's own clock, performs outputs, and keeps timers.

use weft_control::directory::resolver::{self, Resolver};
use weft_control::directory::server::{self, Server};
use weft_control::directory::updater::{self, Updater};
use weft_fabric::time::NsInstant;
use weft_fabric::{Duration, Instant};

use super::super::answers;
use super::super::network::Node;
use super::{Cluster, Event, Seen};

/// A node's own clock, and the timer that runs by it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    /// What it reads beyond the true time, in nanoseconds.
    pub(super) offset_ns: u64,
    /// When its timer rings, in true time, and which timer that is.
    pub(super) timer: Option<(Instant, u64)>,
}

impl Cluster {
    pub(super) fn ring(&mut self, node: Node) {
        let now = self.now;
        let Some(clock) = self.clock_mut(node) else { return };
        if clock.timer.is_none_or(|(at, _)| at > now) {
            return;
        }
        clock.timer = None;
        let local = clock.read(now);
        match node {
            Node::Server(n) => {
                if let Some(machine) = &mut self.servers[usize::from(n)].machine {
                    machine.handle(local, server::Input::Timer);
                }
            }
            Node::Agent(n) => {
                if let Some(machine) = &mut self.agents[usize::from(n)].machine {
                    machine.handle(local, resolver::Input::Timer);
                }
            }
            Node::Writer(n) => {
                if let Some(machine) = &mut self.writers[usize::from(n)].machine {
                    machine.handle(local, updater::Input::Timer);
                }
            }
            Node::Switch | Node::Operator(_) | Node::Store => {}
        }
        self.drain(node);
    }

    pub(super) fn input_life(&mut self, server: u16, life: u32, input: server::Input) {
        if self.servers[usize::from(server)].life == life {
            self.input_server(server, input);
        }
    }

    pub(super) fn input_server(&mut self, server: u16, input: server::Input) {
        let node = &mut self.servers[usize::from(server)];
        let now = node.clock.read(self.now);
        if let Some(machine) = &mut node.machine {
            machine.handle(now, input);
        }
        self.drain(Node::Server(server));
    }

    pub(super) fn drain(&mut self, node: Node) {
        match node {
            Node::Server(n) => self.drain_server(n),
            Node::Agent(n) => self.drain_agent(n),
            Node::Writer(n) => self.drain_writer(n),
            Node::Switch | Node::Operator(_) | Node::Store => {}
        }
        self.rearm(node);
    }

    pub(super) fn drain_agent(&mut self, agent: u16) {
        while let Some(output) = self.agents[usize::from(agent)].machine.as_mut().and_then(Resolver::poll) {
            let seen = match output {
                resolver::Output::Send { to, bytes } => {
                    if let Some(to) = Node::at(to) {
                        self.transmit(Node::Agent(agent), to, bytes);
                    }
                    continue;
                }
                resolver::Output::Resolved { token, key, asker, resolution } => {
                    Seen::Resolved { agent, token, key, asker, resolution }
                }
                resolver::Output::Invalidated { key, asker } => Seen::Invalidated { agent, key, asker },
            };
            self.seen.push((self.now, seen));
        }
    }

    pub(super) fn drain_writer(&mut self, writer: u16) {
        while let Some(output) = self.writers[usize::from(writer)].machine.as_mut().and_then(Updater::poll) {
            match output {
                updater::Output::Send { to, bytes } => {
                    if let Some(to) = Node::at(to) {
                        self.transmit(Node::Writer(writer), to, bytes);
                    }
                }
                updater::Output::Done { token, result } => self.seen.push((self.now, Seen::Done { writer, token, result })),
            }
        }
    }

    pub(super) fn drain_server(&mut self, server: u16) {
        while let Some(output) = self.servers[usize::from(server)].machine.as_mut().and_then(Server::poll) {
            match output {
                server::Output::Send { to, bytes } => {
                    if self.config.watch_answers
                        && let Some(seen) = answers::answered(server, &bytes)
                    {
                        self.seen.push((self.now, seen));
                    }
                    if let Some(to) = Node::at(to) {
                        self.transmit(Node::Server(server), to, bytes);
                    }
                }
                server::Output::Commit { batch, ops, purged } => self.commit(server, batch, ops, purged),
                server::Output::Purge { tombstones } => {
                    if self.network.is_open(Node::Server(server), Node::Store) {
                        let after = self.network.latency();
                        self.schedule(self.now + after, Event::Purge(tombstones));
                    }
                }
                server::Output::Load { load } => {
                    let watch = &mut self.servers[usize::from(server)].watch;
                    watch.load = Some(load);
                    watch.position = None;
                    self.give_load(server);
                }
                server::Output::Reply { stream, message, .. } => self.reply(stream, message),
                server::Output::Event(_) => {}
            }
        }
    }

    pub(super) fn clock_mut(&mut self, node: Node) -> Option<&mut Clock> {
        match node {
            Node::Server(n) => Some(&mut self.servers[usize::from(n)].clock),
            Node::Agent(n) => Some(&mut self.agents[usize::from(n)].clock),
            Node::Writer(n) => Some(&mut self.writers[usize::from(n)].clock),
            Node::Switch | Node::Operator(_) | Node::Store => None,
        }
    }

    /// Sets a node's timer to its machine's deadline, by the node's clock.
    pub(super) fn rearm(&mut self, node: Node) {
        let deadline = match node {
            Node::Server(n) => self.servers[usize::from(n)].machine.as_ref().and_then(Server::deadline),
            Node::Agent(n) => self.agents[usize::from(n)].machine.as_ref().and_then(Resolver::deadline),
            Node::Writer(n) => self.writers[usize::from(n)].machine.as_ref().and_then(Updater::deadline),
            Node::Switch | Node::Operator(_) | Node::Store => None,
        };
        let now = self.now;
        let Some(clock) = self.clock_mut(node) else { return };
        let Some(deadline) = deadline else {
            if let Some(old) = clock.timer.take() {
                self.events.remove(&old);
            }
            return;
        };
        // A timer that is due rings a moment later, so that a machine that wants to be called again does not stop the clock.
        let at = clock.to_true(deadline).max(now + Duration::from_ns(1));
        if clock.timer.is_some_and(|(set, _)| set == at) {
            return;
        }
        let old = clock.timer.take();
        self.last_event += 1;
        let id = (at, self.last_event);
        if let Some(clock) = self.clock_mut(node) {
            clock.timer = Some(id);
        }
        if let Some(old) = old {
            self.events.remove(&old);
        }
        self.events.insert(id, Event::Timer(node));
    }
}

impl Clock {
    /// What the clock reads at a true time.
    pub(super) const fn read(&self, now: Instant) -> NsInstant {
        NsInstant::from_ns(now.to_ns().as_ns().saturating_add(self.offset_ns))
    }

    /// The earliest true time at which the clock reads `local`.
    pub(super) const fn to_true(self, local: NsInstant) -> Instant {
        NsInstant::from_ns(local.as_ns().saturating_sub(self.offset_ns)).to_ps()
    }
}
