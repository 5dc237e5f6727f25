//! Agents, writers, directory servers and a store on one clock.
//!
//! ```text
//!   resolve, submit, misdeliver, crash, cut, step a clock        (the caller)
//!        |
//!   agents, writers, switch <--datagrams over [`Network`]--> servers <--commits, watch, loads--> [`Store`]
//!   operators               <--streams-------------------->    |    <--documents, records----->
//!        |                                                   (queue and service time of each)
//!        v
//!   [`Seen`]: the results that each received, for checks and measurements
//! ```
//! The machines are the real ones of [`weft_control::directory`], and so are the bytes between them. Equal times happen in the order in which they were
//! scheduled; the same calls with the same seed give the same run.

mod documents;
mod lives;
mod machines;
mod outbox;
pub(super) mod seen;
mod storing;
mod streams;
mod tenants;
mod transmit;

use std::collections::BTreeMap;

use weft_control::directory::auth::Secret;
use weft_control::directory::budget::{ByteLimits, Usage};
use weft_control::directory::documents::Documents;
use weft_control::directory::policy::Policy;
use weft_control::directory::request::StreamId;
use weft_control::directory::resolver::{self, Resolver, ResolverConfig};
use weft_control::directory::server::{self, Server, ServerConfig};
use weft_control::directory::store::{CommitResult, StoreOp, Stored};
use weft_control::directory::updater::{self, Updater};
use weft_control::directory::{Generation, Key, PrincipalId, Value};
use weft_control::wire::directory::Op;
use weft_fabric::rng::{Pcg64, mix};
use weft_fabric::{Duration, Instant};

use self::documents::{Awaited, Operation, OperationResult};
use self::machines::Clock;
pub use self::outbox::Reading;
pub use self::seen::Seen;
use self::streams::Stream;
use self::tenants::Tenants;
use super::network::{Impairments, Network, Node};
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
    pub impairments: Impairments,
    /// After so long a server takes a commit without an answer for failed.
    pub store_timeout: Duration,
    /// What the store holds at the start.
    pub contents: Vec<(Key, Value)>,
    /// Whether every answer of a server is to be seen.
    pub watch_answers: bool,
    /// Whether an upgrade goes on, forth and back: half of the nodes speak the next version of the protocol, and each changes when it starts again.
    pub upgrade: bool,
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

/// The principal of an operator.
pub const fn operator_principal(operator: u16) -> PrincipalId {
    PrincipalId(2_000 + operator as u32)
}

/// The principal of the switches.
pub const SWITCH_PRINCIPAL: PrincipalId = PrincipalId(900);

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
    /// Operations on documents and records that a server waits for: the server, its life, and which.
    awaited: BTreeMap<u64, (u16, u32, Awaited)>,
    last_ticket: u64,
    /// The open streams.
    streams: BTreeMap<StreamId, Stream>,
    last_stream: u64,
    slow_streams: u64,
    /// What is wrong with it, deliberately.
    pub defect: Option<Defect>,
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
    documents: Documents,
    /// When a read of one failed last.
    failed_read: Option<Instant>,
    tenants: Tenants,
    /// What its streams use.
    usage: Usage,
}

/// A deliberate fault of the servers or the store, for those who check their checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Defect {
    /// Some changes of tenants' records are acknowledged and not made.
    LostChanges,
    /// Tenants' records are changed though they are not as they were when the change was planned.
    IgnoredVersions,
    /// Tenants' records are read as they were a while ago.
    OldRecords,
    /// Documents are read as they were a while ago.
    OldDocuments,
    /// Every principal may read all tenants' records.
    OpenTenants,
    /// Servers do not notice that tenants' records change.
    NoNotices,
    /// Streams whose other end does not read go on, whatever a server must hold for them.
    NoLimit,
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
    /// A server learns which tenants' records have changed; without names: any may have.
    RecordsChanged {
        server: u16,
        life: u32,
        names: Option<Vec<String>>,
    },
    /// A server's operation on a document or on records reaches the store.
    Document {
        ticket: u64,
        operation: Operation,
    },
    DocumentDone {
        ticket: u64,
        result: OperationResult,
    },
    /// A message of an operator reaches the server.
    StreamRequest {
        stream: StreamId,
        message: Vec<u8>,
    },
    /// The time for a server to write a batch of messages has ended.
    WriteTimeout {
        stream: StreamId,
        batch: u64,
    },
    /// A slow operator has time for the next message.
    StreamRead(StreamId),
    /// A message of a server reaches the operator.
    StreamReply {
        stream: StreamId,
        message: Vec<u8>,
    },
    /// The server notices that a stream has ended.
    StreamEnded {
        server: u16,
        life: u32,
        operator: u16,
        stream: StreamId,
    },
    /// The operator notices that a stream has ended.
    StreamBroken {
        operator: u16,
        stream: StreamId,
    },
    /// Servers check their connections to the store.
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
            network: Network::new(config.impairments, stream(1)),
            store: Store::new(config.store, stream(2)),
            switch: Switch::new(&secret, SWITCH_PRINCIPAL),
            secret,
            servers: Vec::new(),
            agents: Vec::new(),
            writers: Vec::new(),
            tickets: BTreeMap::new(),
            awaited: BTreeMap::new(),
            last_ticket: 0,
            streams: BTreeMap::new(),
            last_stream: 0,
            slow_streams: 0,
            defect: None,
            seen: Vec::new(),
            processed: 0,
            config,
        };
        let clock = Clock { offset_ns: CLOCK_START_NS, timer: None };
        for _ in 0..cluster.config.servers {
            let lanes = Lanes::new(cluster.config.service);
            cluster.servers.push(ServerNode {
                machine: None,
                life: 0,
                policy: policy.clone(),
                clock,
                lanes,
                watch: Watch::default(),
                documents: Documents::new(),
                failed_read: None,
                tenants: Tenants::default(),
                usage: Usage::new(streams::LIMITS, ByteLimits::DEFAULT),
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

    /// Lets everything up to `end` happen; calls of [`Cluster::call_at`] are ignored.
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

    /// A switch got a packet from `asker` to `key`, which is not where `stale` says, and reports it to a server.
    pub fn misdeliver(&mut self, server: u16, asker: Key, key: Key, stale: weft_control::directory::Locator) {
        let to = Node::Server(server);
        let bytes = self.switch.report(to.address(), asker, key, stale);
        self.transmit(Node::Switch, to, bytes);
    }

    /// An agent, if it runs.
    pub fn agent(&self, agent: u16) -> Option<&Resolver> {
        self.agents[usize::from(agent)].machine.as_ref()
    }

    /// A server, if it runs.
    pub fn server(&self, server: u16) -> Option<&Server> {
        self.servers[usize::from(server)].machine.as_ref()
    }

    /// A server reads another policy; later starts read it too.
    pub fn set_policy(&mut self, server: u16, policy: &Policy) {
        self.servers[usize::from(server)].policy = policy.clone();
        self.input_server(server, server::Input::Policy(policy.clone()));
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
                    self.input_life(server, life, server::Input::Committed { batch, result, purged });
                }
            }
            Event::Loaded { server, life, load, entries, end } => {
                self.input_life(server, life, server::Input::Loaded { load, entries, end });
            }
            Event::Watched { server, life, from, revision, changes } => {
                self.input_life(server, life, server::Input::Watched { from, revision, changes });
            }
            Event::WatchLost { server, life } => self.input_life(server, life, server::Input::WatchLost),
            Event::Document { ticket, operation } => self.begin_operation(ticket, operation),
            Event::DocumentDone { ticket, result } => self.operation_done(ticket, result),
            Event::RecordsChanged { server, life, names } => self.records_changed(server, life, names.as_deref()),
            Event::StreamRequest { stream, message } => self.receive_request(stream, message),
            Event::WriteTimeout { stream, batch } => self.write_timeout(stream, batch),
            Event::StreamRead(stream) => self.read_next(stream),
            Event::StreamReply { stream, message } => self.message_arrived(stream, message),
            Event::StreamEnded { server, life, operator, stream } => self.end_stream(server, life, operator, stream),
            Event::StreamBroken { operator, stream } => self.seen.push((self.now, Seen::StreamBroken { operator, stream })),
            Event::Look => {
                self.check_streams();
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
}

/// Clocks begin a thousand seconds after 0, so that they can step back.
const CLOCK_START_NS: u64 = 1_000_000_000_000;
const LOOK_EVERY: Duration = Duration::from_ms(20);
