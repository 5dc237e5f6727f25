//! Datagrams on their way: through the network, and through a server's queue.

use weft_control::directory::{resolver, server, updater};
use weft_fabric::Duration;

use super::super::answers;
use super::super::network::Node;
use super::{Cluster, Event};

impl Cluster {
    pub(super) fn transmit(&mut self, from: Node, to: Node, bytes: Vec<u8>) {
        let copies = self.network.transmit(from, to);
        let (last, rest) = match copies.split_last() {
            None => return,
            Some(parts) => parts,
        };
        for after in rest {
            self.schedule(self.now + *after, Event::Datagram { from, to, bytes: bytes.clone() });
        }
        self.schedule(self.now + *last, Event::Datagram { from, to, bytes });
    }

    pub(super) fn arrive(&mut self, from: Node, to: Node, bytes: Vec<u8>) {
        let address = from.address();
        match to {
            Node::Server(n) => {
                let node = &mut self.servers[usize::from(n)];
                if node.machine.is_none() {
                    return;
                }
                if let Some((lane, work)) = node.lanes.arrive(address, bytes) {
                    self.begin_service(n, lane, work);
                }
            }
            Node::Agent(n) => {
                let agent = &mut self.agents[usize::from(n)];
                let now = agent.clock.read(self.now);
                if let Some(machine) = &mut agent.machine {
                    machine.handle(now, resolver::Input::Datagram { from: address, bytes: &bytes });
                }
                self.drain(to);
            }
            Node::Writer(n) => {
                let writer = &mut self.writers[usize::from(n)];
                let now = writer.clock.read(self.now);
                if let Some(machine) = &mut writer.machine {
                    machine.handle(now, updater::Input::Datagram { from: address, bytes: &bytes });
                }
                self.drain(to);
            }
            Node::Switch => {
                if let Some(again) = self.switch.receive(address, &bytes) {
                    self.transmit(Node::Switch, from, again);
                }
            }
            Node::Operator(_) | Node::Store => {}
        }
    }

    /// What takes no time is done at once, so that it costs no event.
    pub(super) fn begin_service(&mut self, server: u16, lane: usize, work: Duration) {
        if work == Duration::ZERO {
            return self.served(server, lane);
        }
        let life = self.servers[usize::from(server)].life;
        self.schedule(self.now + work, Event::Served { server, life, lane });
    }

    pub(super) fn served(&mut self, server: u16, lane: usize) {
        let Some((from, bytes)) = self.servers[usize::from(server)].lanes.take(lane) else { return };
        let asked = if self.config.watch_answers { answers::asked(&bytes) } else { None };
        let before = self.seen.len();
        self.input_server(server, server::Input::Datagram { from, bytes });
        debug_assert!(before <= self.seen.len());
        if let Some(asked) = asked {
            for (_, seen) in &mut self.seen[before..] {
                answers::complete(seen, &asked);
            }
        }
        if let Some(work) = self.servers[usize::from(server)].lanes.next(lane) {
            self.begin_service(server, lane, work);
        }
    }
}
