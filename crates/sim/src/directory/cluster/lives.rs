//! Nodes that start, crash and start again, and clocks that step.

use std::net::SocketAddr;

use weft_control::directory::auth::Cookies;
use weft_control::directory::budget::{ByteLimits, Usage};
use weft_control::directory::documents::Documents;
use weft_control::directory::resolver::{self, Resolver, ResolverConfig};
use weft_control::directory::server::{Server, ServerConfig};
use weft_control::directory::updater::{self, Updater, UpdaterConfig};
use weft_control::wire::directory::Versions;
use weft_fabric::rng::{Pcg64, mix};

use super::super::network::Node;
use super::tenants::Tenants;
use super::{Cluster, ClusterConfig, Watch, agent_principal, server_principal, streams, writer_principal};

impl Cluster {
    /// How often a node was started.
    pub fn life(&self, node: Node) -> u32 {
        match node {
            Node::Server(n) => self.servers[usize::from(n)].life,
            Node::Agent(n) => self.agents[usize::from(n)].life,
            Node::Writer(n) => self.writers[usize::from(n)].life,
            Node::Switch | Node::Operator(_) | Node::Store => 1,
        }
    }

    /// A node stops at once and forgets everything that is not in the store. An embedded store dies with server 0.
    pub fn crash(&mut self, node: Node) {
        match node {
            Node::Server(n) => {
                let server = &mut self.servers[usize::from(n)];
                server.machine = None;
                server.lanes.clear();
                server.watch = Watch::default();
                server.clock.timer = None;
                server.documents = Documents::new();
                server.tenants = Tenants::default();
                self.break_streams(|_, server| server == n);
                self.servers[usize::from(n)].usage = Usage::new(streams::LIMITS, ByteLimits::DEFAULT);
                if self.config.store.members == 1 && n == 0 {
                    self.fail_member(0);
                }
            }
            Node::Agent(n) => {
                self.agents[usize::from(n)].machine = None;
                self.agents[usize::from(n)].clock.timer = None;
            }
            Node::Writer(n) => {
                self.writers[usize::from(n)].machine = None;
                self.writers[usize::from(n)].clock.timer = None;
            }
            Node::Switch | Node::Operator(_) | Node::Store => {}
        }
    }

    /// A node starts, if it does not run.
    pub fn start(&mut self, node: Node) {
        match node {
            Node::Server(n) if self.servers[usize::from(n)].machine.is_none() => self.start_server(n),
            Node::Agent(n) if self.agents[usize::from(n)].machine.is_none() => self.start_agent(n),
            Node::Writer(n) if self.writers[usize::from(n)].machine.is_none() => self.start_writer(n),
            _ => {}
        }
    }

    /// A member of the store dies.
    pub fn fail_member(&mut self, member: u16) {
        for ticket in self.store.fail(self.now, member) {
            // Nobody answers: the server finds out by its time-out.
            let _ = ticket;
        }
        self.schedule_store();
        self.pump_watches();
    }

    /// A member of the store is back.
    pub fn restore_member(&mut self, member: u16) {
        self.store.restore(self.now, member);
        self.schedule_store();
    }

    /// A node's clock steps.
    pub fn step_clock(&mut self, node: Node, by_ns: i64) {
        if let Some(clock) = self.clock_mut(node) {
            clock.offset_ns = clock.offset_ns.saturating_add_signed(by_ns);
        }
        self.rearm(node);
    }

    fn start_server(&mut self, n: u16) {
        if self.config.store.members == 1 && n == 0 {
            self.restore_member(0);
        }
        let rng = self.rng_of(Node::Server(n));
        let peers = (0..self.config.servers).filter(|&peer| peer != n).map(|peer| Node::Server(peer).address()).collect();
        let server = &mut self.servers[usize::from(n)];
        server.life += 1;
        let versions = versions(&self.config, n, u64::from(server.life));
        let config = ServerConfig { me: server_principal(n), peers, versions, ..self.config.server.clone() };
        let mut seed = [0; 16];
        seed[..8].copy_from_slice(&mix(self.config.seed ^ u64::from(n) << 32 ^ u64::from(server.life)).to_be_bytes());
        server.machine = Some(Server::new(config, self.secret.clone(), Cookies::new(seed), server.policy.clone(), rng));
        self.drain(Node::Server(n));
    }

    fn start_agent(&mut self, n: u16) {
        let rng = self.rng_of(Node::Agent(n));
        let agent = &mut self.agents[usize::from(n)];
        agent.life += 1;
        let principal = agent_principal(n);
        let (versions, first_request) = (versions(&self.config, n, u64::from(agent.life)), u64::from(agent.life) << 32);
        let config = ResolverConfig { principal, first_request, versions, ..self.config.resolver };
        let mut machine = Resolver::new(config, &self.secret.key_of(principal), rng);
        let list = server_addresses(self.config.servers);
        machine.handle(agent.clock.read(self.now), resolver::Input::SetServers(&list));
        agent.machine = Some(machine);
        self.drain(Node::Agent(n));
    }

    fn start_writer(&mut self, n: u16) {
        let rng = self.rng_of(Node::Writer(n));
        let writer = &mut self.writers[usize::from(n)];
        writer.life += 1;
        let principal = writer_principal(n);
        let (versions, first_number) = (versions(&self.config, n, u64::from(writer.life)), u64::from(writer.life) << 32);
        let config = UpdaterConfig { first_number, versions, ..UpdaterConfig::new(principal) };
        let mut machine = Updater::new(config, &self.secret.key_of(principal), rng);
        let list = server_addresses(self.config.servers);
        machine.handle(writer.clock.read(self.now), updater::Input::SetServers(&list));
        writer.machine = Some(machine);
        self.drain(Node::Writer(n));
    }

    /// Every life of every node draws from a generator of its own.
    fn rng_of(&self, node: Node) -> Pcg64 {
        let (kind, n) = match node {
            Node::Server(n) => (1, n),
            Node::Agent(n) => (2, n),
            Node::Writer(n) => (3, n),
            Node::Switch | Node::Operator(_) | Node::Store => (4, 0),
        };
        let id = kind << 48 | u64::from(n) << 32 | u64::from(self.life(node));
        Pcg64::new(u128::from(mix(self.config.seed)) << 64 | u128::from(mix(id)), u128::from(id))
    }
}

fn server_addresses(servers: u16) -> Vec<SocketAddr> {
    (0..servers).map(|n| Node::Server(n).address()).collect()
}

/// Of the protocol, that the `n`th node speaks in a life.
const fn versions(config: &ClusterConfig, n: u16, life: u64) -> Versions {
    if config.upgrade && (n as u64 + life).is_multiple_of(2) { Versions::NEXT } else { Versions::OURS }
}
