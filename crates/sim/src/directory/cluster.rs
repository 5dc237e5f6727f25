//! Agents, writers, directory servers and a store on one clock.
//!
//! ```text
//!   resolve, submit, misdeliver, crash, cut, step a clock        (the caller)
//!        |
//!   agents, writers, switch <--datagrams over [`Network`]--> servers <--commits, watch, loads--> [`Store`]
//!        |                                                   (queue and service time of each)
//!        v
//!   [`Seen`]: what each was told, for those who check or measure
//! ```
//! The machines are the real ones of [`weft_control::directory`], and so are the bytes between them. Equal times happen in the order in which they were
//! scheduled; the same calls with the same seed give the same run.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use weft_control::directory::auth::{Cookies, Secret};
use weft_control::directory::policy::Policy;
use weft_control::directory::resolver::{self, Resolution, Resolver, ResolverConfig};
use weft_control::directory::server::{self, Server, ServerConfig};
use weft_control::directory::store::{CommitResult, StoreOp, Stored};
use weft_control::directory::updater::{self, UpdateResult, Updater, UpdaterConfig};
use weft_control::directory::{Generation, Key, PrincipalId, Value};
use weft_control::wire::directory::{Finding, Op};
use weft_fabric::rng::{Pcg64, mix};
use weft_fabric::{Duration, Instant};

use super::network::{Network, Node, Weather};
use super::service::{Lanes, ServiceTimes};
use super::store::{Store, StoreConfig};
use super::switch::Switch;

/// What a cluster is made of.
#[derive(Clone, Debug)]
pub struct ClusterConfig {
    /// Directory servers.
    pub servers: u16,
    /// Agents.
    pub agents: u16,
    /// Provisioning systems.
    pub writers: u16,
    /// How agents ask.
    pub resolver: ResolverConfig,
    /// How servers batch; `me` and `peers` are filled in.
    pub server: ServerConfig,
    /// What a request costs a server.
    pub service: ServiceTimes,
    /// The store.
    pub store: StoreConfig,
    /// The network.
    pub weather: Weather,
    /// After so long a server takes a commit without an answer for failed.
    pub store_timeout: Duration,
    /// What the store holds at the start.
    pub contents: Vec<(Key, Value)>,
    /// Whether every answer of a server is to be seen.
    pub watch_answers: bool,
    /// Of all randomness.
    pub seed: u64,
}

/// The principal of a server.
pub const fn server_principal(server: u16) -> PrincipalId {
    PrincipalId(1 + server as u32)
}

/// The principal of a writer.
pub const fn writer_principal(writer: u16) -> PrincipalId {
    PrincipalId(1_000 + writer as u32)
}

/// The principal of an agent: of the host that it runs on.
pub const fn agent_principal(agent: u16) -> PrincipalId {
    PrincipalId(100_000 + agent as u32)
}

/// The principal of the switches.
pub const SWITCH_PRINCIPAL: PrincipalId = PrincipalId(900);

/// What somebody was told.
#[derive(Clone, Debug, PartialEq)]
pub enum Seen {
    /// An agent's look-up has ended.
    Resolved {
        /// The agent.
        agent: u16,
        /// As it was given.
        token: u64,
        /// The key.
        key: Key,
        /// On whose behalf.
        asker: Option<Key>,
        /// How.
        resolution: Resolution,
    },
    /// An agent must not use a mapping any longer.
    Invalidated {
        /// The agent.
        agent: u16,
        /// The key.
        key: Key,
        /// On whose behalf it was looked up.
        asker: Option<Key>,
    },
    /// A writer's update has ended.
    Done {
        /// The writer.
        writer: u16,
        /// As it was given.
        token: u64,
        /// How.
        result: UpdateResult,
    },
    /// A server answered a look-up (with `watch_answers`).
    Answered {
        /// The server.
        server: u16,
        /// Who asked.
        principal: PrincipalId,
        /// On whose behalf.
        asker: Option<Key>,
        /// How far the server knew everything.
        revision: Generation,
        /// The version of its policy.
        policy: u32,
        /// The keys and what was said of them.
        findings: Vec<(Key, Generation, Finding)>,
    },
    /// A server corrected an agent (with `watch_answers`).
    Corrected {
        /// The server.
        server: u16,
        /// Whose agent.
        principal: PrincipalId,
        /// The key.
        key: Key,
        /// Since when.
        generation: Generation,
        /// What it is.
        finding: Finding,
    },
}

/// The cluster.
#[derive(Debug)]
pub struct Cluster {
    pub(super) config: ClusterConfig,
    now: Instant,
    events: BTreeMap<(Instant, u64), Event>,
    last_event: u64,
    /// The network between all nodes.
    pub network: Network,
    /// The store.
    pub store: Store,
    secret: Secret,
    servers: Vec<ServerNode>,
    agents: Vec<Client<Resolver>>,
    writers: Vec<Client<Updater>>,
    switch: Switch,
    tickets: BTreeMap<u64, (u16, u32, u64)>,
    last_ticket: u64,
    seen: Vec<(Instant, Seen)>,
    processed: u64,
}

#[derive(Debug)]
struct ServerNode {
    machine: Option<Server>,
    /// How often it was started.
    life: u32,
    policy: Policy,
    clock: Clock,
    lanes: Lanes,
    watch: Watch,
}

#[derive(Debug, Default)]
struct Watch {
    /// The load that the server waits for.
    load: Option<u64>,
    /// Up to where changes have been sent; `None`: it does not watch.
    position: Option<Generation>,
    /// What is sent arrives in order.
    last: Instant,
    /// Since when the store has not answered.
    silent_since: Option<Instant>,
    is_lost: bool,
}

#[derive(Debug)]
struct Client<M> {
    machine: Option<M>,
    life: u32,
    clock: Clock,
}

/// A node's own clock, and the timer that runs by it.
#[derive(Clone, Copy, Debug)]
struct Clock {
    /// What it says beyond the true time, in picoseconds.
    offset: i64,
    /// When its timer rings, in true time, and which timer that is.
    timer: Option<(Instant, u64)>,
}

#[derive(Debug)]
enum Event {
    Datagram {
        from: Node,
        to: Node,
        bytes: Vec<u8>,
    },
    /// A server has worked on a datagram.
    Served {
        server: u16,
        life: u32,
        lane: usize,
    },
    Timer(Node),
    Commit {
        ticket: u64,
        ops: Vec<StoreOp>,
        purged: Generation,
    },
    StoreRuns,
    Purge(Vec<(Key, Generation)>),
    Committed {
        ticket: u64,
        result: CommitResult,
        purged: Generation,
    },
    Loaded {
        server: u16,
        life: u32,
        load: u64,
        entries: Vec<Stored>,
        end: Option<server::LoadEnd>,
    },
    Watched {
        server: u16,
        life: u32,
        from: Generation,
        revision: Generation,
        changes: Vec<Stored>,
    },
    WatchLost {
        server: u16,
        life: u32,
    },
    /// Servers look after their connections to the store.
    Look,
    /// The caller wants to be called.
    Call(u64),
}

/// Why [`Cluster::step`] came back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Something happened.
    Event,
    /// The time that [`Cluster::call_at`] named has come.
    Call(u64),
    /// Nothing is left before the given end.
    End,
}

impl Cluster {
    /// A cluster whose servers start now.
    pub fn new(config: ClusterConfig, policy: &Policy) -> Self {
        let stream = |n: u64| Pcg64::new(u128::from(mix(config.seed.wrapping_add(n) ^ 0x9e37_79b9_7f4a_7c15)), 6 + u128::from(n));
        let secret = Secret::new([7; 32]);
        let mut cluster = Self {
            now: Instant::ZERO,
            events: BTreeMap::new(),
            last_event: 0,
            network: Network::new(config.weather, stream(1)),
            store: Store::new(config.store, stream(2)),
            switch: Switch::new(&secret, SWITCH_PRINCIPAL),
            secret,
            servers: Vec::new(),
            agents: Vec::new(),
            writers: Vec::new(),
            tickets: BTreeMap::new(),
            last_ticket: 0,
            seen: Vec::new(),
            processed: 0,
            config,
        };
        let clock = Clock { offset: CLOCK_START, timer: None };
        for _ in 0..cluster.config.servers {
            let lanes = Lanes::new(cluster.config.service);
            cluster.servers.push(ServerNode {
                machine: None,
                life: 0,
                policy: policy.clone(),
                clock,
                lanes,
                watch: Watch::default(),
            });
        }
        cluster.agents.extend((0..cluster.config.agents).map(|_| Client { machine: None, life: 0, clock }));
        cluster.writers.extend((0..cluster.config.writers).map(|_| Client { machine: None, life: 0, clock }));
        let contents = std::mem::take(&mut cluster.config.contents);
        if !contents.is_empty() {
            cluster.store.fill(contents);
        }
        cluster.schedule(Instant::ZERO + LOOK_EVERY, Event::Look);
        (0..cluster.config.servers).for_each(|n| cluster.start(Node::Server(n)));
        (0..cluster.config.agents).for_each(|n| cluster.start(Node::Agent(n)));
        (0..cluster.config.writers).for_each(|n| cluster.start(Node::Writer(n)));
        cluster
    }

    /// The true time.
    pub const fn now(&self) -> Instant {
        self.now
    }

    /// Events so far.
    pub const fn processed(&self) -> u64 {
        self.processed
    }

    /// What was seen since the last call.
    pub fn take_seen(&mut self) -> Vec<(Instant, Seen)> {
        std::mem::take(&mut self.seen)
    }

    /// Lets the next thing happen, if it does so before `end`; else it becomes `end`.
    pub fn step(&mut self, end: Instant) -> Step {
        match self.events.first_key_value() {
            Some((&(at, _), _)) if at <= end => {}
            _ => {
                self.now = self.now.max(end);
                return Step::End;
            }
        }
        let ((at, _), event) = self.events.pop_first().expect("just seen");
        self.now = at;
        self.processed += 1;
        if let Event::Call(token) = event {
            return Step::Call(token);
        }
        self.happen(event);
        Step::Event
    }

    /// Lets everything up to `end` happen; calls of [`Cluster::call_at`] are passed over.
    pub fn run_until(&mut self, end: Instant) {
        while self.step(end) != Step::End {}
    }

    /// [`Cluster::step`] returns [`Step::Call`] then.
    pub fn call_at(&mut self, at: Instant, token: u64) {
        self.schedule(at, Event::Call(token));
    }

    /// An agent looks up several keys at one instant.
    pub fn resolve(&mut self, agent: u16, names: &[(Key, Option<Key>, u64)]) {
        let now = self.agents[usize::from(agent)].clock.read(self.now);
        let Some(machine) = &mut self.agents[usize::from(agent)].machine else { return };
        for &(key, asker, token) in names {
            machine.handle(now, resolver::Input::Resolve { key, asker, token });
        }
        self.drain(Node::Agent(agent));
    }

    /// A writer asks for an update.
    pub fn submit(&mut self, writer: u16, ops: Vec<Op>, token: u64) {
        let now = self.writers[usize::from(writer)].clock.read(self.now);
        let Some(machine) = &mut self.writers[usize::from(writer)].machine else { return };
        machine.handle(now, updater::Input::Submit { ops, token });
        self.drain(Node::Writer(writer));
    }

    /// A switch got a packet from `asker` to `key`, which is not where `stale` says, and tells a server.
    pub fn misdeliver(&mut self, server: u16, asker: Key, key: Key, stale: weft_control::directory::Locator) {
        let to = Node::Server(server);
        let bytes = self.switch.report(to.address(), asker, key, stale);
        self.carry(Node::Switch, to, bytes);
    }

    /// An agent, if it runs.
    pub fn agent(&self, agent: u16) -> Option<&Resolver> {
        self.agents[usize::from(agent)].machine.as_ref()
    }

    /// A server, if it runs.
    pub fn server(&self, server: u16) -> Option<&Server> {
        self.servers[usize::from(server)].machine.as_ref()
    }

    /// How often a node was started.
    pub fn life(&self, node: Node) -> u32 {
        match node {
            Node::Server(n) => self.servers[usize::from(n)].life,
            Node::Agent(n) => self.agents[usize::from(n)].life,
            Node::Writer(n) => self.writers[usize::from(n)].life,
            Node::Switch | Node::Store => 1,
        }
    }

    /// A server reads another policy; later starts read it too.
    pub fn set_policy(&mut self, server: u16, policy: &Policy) {
        self.servers[usize::from(server)].policy = policy.clone();
        self.tell_server(server, server::Input::Policy(policy.clone()));
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
            Node::Switch | Node::Store => {}
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
    pub fn step_clock(&mut self, node: Node, by_ps: i64) {
        if let Some(clock) = self.clock_mut(node) {
            clock.offset = (clock.offset + by_ps).max(0);
        }
        self.rearm(node);
    }

    fn start_server(&mut self, n: u16) {
        if self.config.store.members == 1 && n == 0 {
            self.restore_member(0);
        }
        let rng = self.rng_of(Node::Server(n));
        let peers = (0..self.config.servers).filter(|&peer| peer != n).map(|peer| Node::Server(peer).address()).collect();
        let config = ServerConfig { me: server_principal(n), peers, ..self.config.server.clone() };
        let server = &mut self.servers[usize::from(n)];
        server.life += 1;
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
        let config = ResolverConfig { principal, first_request: u64::from(agent.life) << 32, ..self.config.resolver };
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
        let config = UpdaterConfig { first_number: u64::from(writer.life) << 32, ..UpdaterConfig::new(principal) };
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
            Node::Switch | Node::Store => (4, 0),
        };
        let id = kind << 48 | u64::from(n) << 32 | u64::from(self.life(node));
        Pcg64::new(u128::from(mix(self.config.seed)) << 64 | u128::from(mix(id)), u128::from(id))
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Datagram { from, to, bytes } => self.arrive(from, to, bytes),
            Event::Served { server, life, lane } => {
                if self.servers[usize::from(server)].life == life {
                    self.served(server, lane);
                }
            }
            Event::Timer(node) => self.ring(node),
            Event::Commit { ticket, ops, purged } => self.store_begins(ticket, ops, purged),
            Event::StoreRuns => self.store_runs(),
            Event::Purge(tombstones) => {
                self.store.purge(self.now, &tombstones);
                self.pump_watches();
            }
            Event::Committed { ticket, result, purged } => {
                if let Some((server, life, batch)) = self.tickets.remove(&ticket) {
                    self.tell_life(server, life, server::Input::Committed { batch, result, purged });
                }
            }
            Event::Loaded { server, life, load, entries, end } => {
                self.tell_life(server, life, server::Input::Loaded { load, entries, end });
            }
            Event::Watched { server, life, from, revision, changes } => {
                self.tell_life(server, life, server::Input::Watched { from, revision, changes });
            }
            Event::WatchLost { server, life } => self.tell_life(server, life, server::Input::WatchLost),
            Event::Look => {
                self.look_after_store();
                self.schedule(self.now + LOOK_EVERY, Event::Look);
            }
            Event::Call(_) => {}
        }
    }

    fn schedule(&mut self, at: Instant, event: Event) {
        self.last_event += 1;
        self.events.insert((at.max(self.now), self.last_event), event);
    }

    fn carry(&mut self, from: Node, to: Node, bytes: Vec<u8>) {
        let copies = self.network.carry(from, to);
        let (last, rest) = match copies.split_last() {
            None => return,
            Some(parts) => parts,
        };
        for after in rest {
            self.schedule(self.now + *after, Event::Datagram { from, to, bytes: bytes.clone() });
        }
        self.schedule(self.now + *last, Event::Datagram { from, to, bytes });
    }

    fn arrive(&mut self, from: Node, to: Node, bytes: Vec<u8>) {
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
                    self.carry(Node::Switch, from, again);
                }
            }
            Node::Store => {}
        }
    }

    /// What takes no time is done at once, so that it costs no event.
    fn begin_service(&mut self, server: u16, lane: usize, work: Duration) {
        if work == Duration::ZERO {
            return self.served(server, lane);
        }
        let life = self.servers[usize::from(server)].life;
        self.schedule(self.now + work, Event::Served { server, life, lane });
    }

    fn served(&mut self, server: u16, lane: usize) {
        let Some((from, bytes)) = self.servers[usize::from(server)].lanes.take(lane) else { return };
        let asked = if self.config.watch_answers { super::answers::asked(&bytes) } else { None };
        let before = self.seen.len();
        self.tell_server(server, server::Input::Datagram { from, bytes });
        debug_assert!(before <= self.seen.len());
        if let Some(asked) = asked {
            for (_, seen) in &mut self.seen[before..] {
                super::answers::complete(seen, &asked);
            }
        }
        if let Some(work) = self.servers[usize::from(server)].lanes.next(lane) {
            self.begin_service(server, lane, work);
        }
    }

    fn ring(&mut self, node: Node) {
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
            Node::Switch | Node::Store => {}
        }
        self.drain(node);
    }

    fn tell_life(&mut self, server: u16, life: u32, input: server::Input) {
        if self.servers[usize::from(server)].life == life {
            self.tell_server(server, input);
        }
    }

    fn tell_server(&mut self, server: u16, input: server::Input) {
        let node = &mut self.servers[usize::from(server)];
        let now = node.clock.read(self.now);
        if let Some(machine) = &mut node.machine {
            machine.handle(now, input);
        }
        self.drain(Node::Server(server));
    }

    fn drain(&mut self, node: Node) {
        match node {
            Node::Server(n) => self.drain_server(n),
            Node::Agent(n) => self.drain_agent(n),
            Node::Writer(n) => self.drain_writer(n),
            Node::Switch | Node::Store => {}
        }
        self.rearm(node);
    }

    fn drain_agent(&mut self, agent: u16) {
        while let Some(output) = self.agents[usize::from(agent)].machine.as_mut().and_then(Resolver::poll) {
            let seen = match output {
                resolver::Output::Send { to, bytes } => {
                    if let Some(to) = Node::at(to) {
                        self.carry(Node::Agent(agent), to, bytes);
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

    fn drain_writer(&mut self, writer: u16) {
        while let Some(output) = self.writers[usize::from(writer)].machine.as_mut().and_then(Updater::poll) {
            match output {
                updater::Output::Send { to, bytes } => {
                    if let Some(to) = Node::at(to) {
                        self.carry(Node::Writer(writer), to, bytes);
                    }
                }
                updater::Output::Done { token, result } => self.seen.push((self.now, Seen::Done { writer, token, result })),
            }
        }
    }

    fn drain_server(&mut self, server: u16) {
        while let Some(output) = self.servers[usize::from(server)].machine.as_mut().and_then(Server::poll) {
            match output {
                server::Output::Send { to, bytes } => {
                    if self.config.watch_answers
                        && let Some(seen) = super::answers::answered(server, &bytes)
                    {
                        self.seen.push((self.now, seen));
                    }
                    if let Some(to) = Node::at(to) {
                        self.carry(Node::Server(server), to, bytes);
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
                server::Output::Reply { .. } | server::Output::Event(_) => {}
            }
        }
    }

    fn clock_mut(&mut self, node: Node) -> Option<&mut Clock> {
        match node {
            Node::Server(n) => Some(&mut self.servers[usize::from(n)].clock),
            Node::Agent(n) => Some(&mut self.agents[usize::from(n)].clock),
            Node::Writer(n) => Some(&mut self.writers[usize::from(n)].clock),
            Node::Switch | Node::Store => None,
        }
    }

    /// Sets a node's timer to its machine's deadline, by the node's clock.
    fn rearm(&mut self, node: Node) {
        let deadline = match node {
            Node::Server(n) => self.servers[usize::from(n)].machine.as_ref().and_then(Server::deadline),
            Node::Agent(n) => self.agents[usize::from(n)].machine.as_ref().and_then(Resolver::deadline),
            Node::Writer(n) => self.writers[usize::from(n)].machine.as_ref().and_then(Updater::deadline),
            Node::Switch | Node::Store => None,
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
    fn read(&self, now: Instant) -> Instant {
        Instant::from_ps(now.as_ps().saturating_add_signed(self.offset))
    }

    fn to_true(self, local: Instant) -> Instant {
        Instant::from_ps(local.as_ps().saturating_add_signed(-self.offset))
    }
}

fn server_addresses(servers: u16) -> Vec<SocketAddr> {
    (0..servers).map(|n| Node::Server(n).address()).collect()
}

/// Clocks begin a thousand seconds after 0, so that they can step back.
const CLOCK_START: i64 = 1_000_000_000_000_000;
const LOOK_EVERY: Duration = Duration::from_ms(20);

mod storing;
