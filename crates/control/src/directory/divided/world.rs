//! Servers of three parts over model stores, agents and writers, and a network between them that takes 100 us.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use rand::{RngExt, SeedableRng};
use weft_fabric::rng::Pcg64;

use crate::directory::attempts::UpdateResult;
use crate::directory::auth::{Cookies, Secret};
use crate::directory::key::{Generation, GroupId, Key, Locator, Mapping, PrincipalId, Record, ServiceId, Value};
use crate::directory::policy::Policy;
use crate::directory::resolver::{self, Resolution, Resolver, ResolverConfig};
use crate::directory::server::{Event, Input, LoadEnd, Output, Server, ServerConfig};
use crate::directory::store::{CommitResult, StoreOp, Stored};
use crate::directory::updater::{self, Updater, UpdaterConfig};
use crate::time::{Duration, Instant};
use crate::wire::directory::Op;

pub const HOST: PrincipalId = PrincipalId(50);
pub const OTHER_HOST: PrincipalId = PrincipalId(51);
pub const WRITER: PrincipalId = PrincipalId(60);
/// Lives on [`HOST`], and is the default part's.
pub const ASKER: Key = Key::App4(std::net::Ipv4Addr::new(20, 0, 0, 200));

const LATENCY: Duration = Duration::from_us(100);

/// Of all three parts.
pub fn key(n: u8) -> Key {
    match n % 3 {
        0 => Key::App4([20, 0, 0, n].into()),
        1 => Key::App4([20, 128, 0, n].into()),
        _ => Key::App6((0xfd00 << 112 | u128::from(n)).into()),
    }
}

/// By [`OF_B`] and [`OF_C`].
pub fn part_of(key: &Key) -> usize {
    match key {
        Key::App4(address) if address.octets()[1] >= 128 => 1,
        Key::App6(_) => 2,
        _ => 0,
    }
}

pub fn mapping(n: u8, service: u32, owner: u32) -> Value {
    Value::Mapping(Mapping {
        locator: Locator::V4([10, 0, 0, n].into()),
        mac: None,
        group: GroupId(0),
        service: ServiceId(service),
        owner: PrincipalId(owner),
        lease_ms: 1000,
    })
}

/// What part b has, and part c.
pub const OF_B: &str = "prefixes = [\"20.128.0.0/9\"]";
pub const OF_C: &str = "prefixes = [\"fd00::/8\"]";

/// Services 1 and 2, which are apart, and three parts: a is the default, b and c have these lines.
pub fn policy(version: u32, of_b: &str, of_c: &str) -> Policy {
    let part = |n: usize, name: &str, lines: &str| {
        format!("[[part]]\nname = \"{name}\"\nservers = [\"{}\", \"{}\"]\n{lines}\n", address(n, 0), address(n, 1))
    };
    let parts = part(0, "a", "default = true") + &part(1, "b", of_b) + &part(2, "c", of_c);
    Policy::parse(&(rules(version) + &parts)).unwrap()
}

fn rules(version: u32) -> String {
    let mut text = format!("version = {version}\n[[service]]\nname = \"web\"\nid = 1\n[[service]]\nname = \"db\"\nid = 2\n");
    for n in 0..6 {
        text += &format!("[[principal]]\nid = {}\nrole = \"server\"\n", 1000 + n);
    }
    text + &format!("[[principal]]\nid = {}\nrole = \"provisioner\"\n", WRITER.0)
}

#[derive(Debug, Default)]
pub struct Store {
    pub records: BTreeMap<Key, (Generation, Record)>,
    revision: u64,
    lost: bool,
}

#[derive(Debug)]
struct Node {
    machine: Server,
    part: usize,
    at: SocketAddr,
    alive: bool,
}

#[derive(Debug)]
pub struct World {
    pub now: Instant,
    pub stores: Vec<Store>,
    pub loss_percent: u32,
    /// Datagrams from server to server.
    pub between_servers: usize,
    /// Servers that start have one of the next part among their peers.
    pub wrong_peer: bool,
    /// Policies that servers refused.
    pub refused: usize,
    nodes: Vec<Node>,
    agents: Vec<(SocketAddr, Resolver)>,
    writer: Updater,
    policy: Policy,
    datagrams: BTreeMap<(Instant, u64), (SocketAddr, SocketAddr, Vec<u8>)>,
    sent: u64,
    resolved: BTreeMap<u64, Resolution>,
    done: BTreeMap<u64, UpdateResult>,
    acknowledged: BTreeSet<(Key, Generation, usize)>,
    token: u64,
    lives: u8,
    rng: Pcg64,
}

fn secret() -> Secret {
    Secret::new([9; 32])
}

const WRITER_AT: ([u8; 4], u16) = ([10, 8, 0, 1], 4000);

impl World {
    pub fn new(servers: usize) -> Self {
        Self::with(servers, policy(1, OF_B, OF_C))
    }

    /// All servers run; those of the first part have all keys.
    pub fn undivided(servers: usize) -> Self {
        Self::with(servers, Policy::parse(&rules(1)).unwrap())
    }

    fn with(servers: usize, policy: Policy) -> Self {
        let config = UpdaterConfig { give_up: Duration::from_secs(3), ..UpdaterConfig::new(WRITER) };
        let mut world = Self {
            now: Instant::ZERO + Duration::from_secs(1),
            stores: (0..3).map(|_| Store::default()).collect(),
            loss_percent: 0,
            between_servers: 0,
            wrong_peer: false,
            refused: 0,
            nodes: Vec::new(),
            agents: Vec::new(),
            writer: Updater::new(config, &secret().key_of(WRITER), Pcg64::seed_from_u64(77)),
            policy,
            datagrams: BTreeMap::new(),
            sent: 0,
            resolved: BTreeMap::new(),
            done: BTreeMap::new(),
            acknowledged: BTreeSet::new(),
            token: 0,
            lives: 0,
            rng: Pcg64::seed_from_u64(5),
        };
        for part in 0..3 {
            for n in 0..servers {
                let node = world.node(part, n);
                world.nodes.push(node);
                world.drain(world.nodes.len() - 1);
            }
        }
        let now = world.now;
        world.writer.handle(now, updater::Input::SetServers(&[address(0, 0), address(0, 1)]));
        world.put(ASKER, mapping(9, 1, HOST.0));
        world
    }

    fn node(&mut self, part: usize, n: usize) -> Node {
        self.lives += 1;
        let mut config = ServerConfig::new(PrincipalId(1000 + 2 * part as u32 + n as u32), vec![address(part, 1 - n)]);
        config.peers.extend(self.wrong_peer.then_some(address((part + 1) % 3, 0)));
        config.part = self.policy.parts().map(|parts| parts.parts()[part].name.clone());
        let rng = Pcg64::seed_from_u64(u64::from(self.lives));
        let machine = Server::new(config, secret(), Cookies::new([self.lives; 16]), self.policy.clone(), rng);
        Node { machine, part, at: address(part, n), alive: true }
    }

    pub fn restart(&mut self, part: usize, n: usize) {
        let node = self.node(part, n);
        let place = self.nodes.iter().position(|it| it.at == node.at).unwrap();
        self.nodes[place] = node;
        if self.stores[part].lost {
            self.input(place, Input::StoreLost);
        }
        self.drain(place);
    }

    /// Whether a server of a part has a key in memory.
    pub fn is_held_by(&self, part: usize, key: &Key) -> bool {
        self.nodes.iter().any(|node| node.part == part && node.machine.shared().table.held(key).is_some())
    }

    /// All servers of a part die.
    pub fn kill(&mut self, part: usize) {
        self.nodes.iter_mut().filter(|node| node.part == part).for_each(|node| node.alive = false);
    }

    pub fn lose_store(&mut self, part: usize) {
        self.stores[part].lost = true;
        self.input_of(part, &Input::StoreLost);
    }

    pub fn regain_store(&mut self, part: usize) {
        self.stores[part].lost = false;
        self.input_of(part, &Input::StoreBack);
        self.input_of(part, &Input::WatchLost);
    }

    fn input_of(&mut self, part: usize, input: &Input) {
        for place in (0..self.nodes.len()).filter(|&place| self.nodes[place].part == part).collect::<Vec<_>>() {
            self.input(place, input.clone());
        }
    }

    /// All servers get a policy; a directory that was not divided gets servers that know their parts.
    pub fn set_policy(&mut self, policy: Policy) {
        let was_divided = self.policy.parts().is_some();
        self.policy = policy;
        for place in 0..self.nodes.len() {
            if was_divided {
                self.input(place, Input::Policy(self.policy.clone()));
            } else {
                // Restarted with their parts, one after the other.
                let (part, n) = (self.nodes[place].part, usize::from(place % 2 == 1));
                self.restart(part, n);
                self.run(Duration::from_ms(50));
            }
        }
    }

    pub fn set_policy_of_unnamed(&mut self, policy: Policy) {
        self.input_of(0, &Input::Policy(policy));
    }

    /// What the first store has that others are to have.
    pub fn copy_to_parts(&mut self) {
        for (key, (_, record)) in self.stores[0].records.clone() {
            let part = part_of(&key);
            if part != 0 {
                self.stores[part].revision += 1;
                let generation = Generation(self.stores[part].revision);
                self.stores[part].records.insert(key, (generation, record));
            }
        }
    }

    pub fn agent(&mut self, principal: PrincipalId, parts: &[usize]) -> usize {
        let config = ResolverConfig { give_up: Duration::from_secs(2), ..ResolverConfig::new(principal) };
        let mut agent = Resolver::new(config, &secret().key_of(principal), Pcg64::seed_from_u64(u64::from(principal.0)));
        let servers: Vec<SocketAddr> = parts.iter().map(|&part| address(part, 0)).collect();
        agent.handle(self.now, resolver::Input::SetServers(&servers));
        let at = SocketAddr::from(([10, 7, 0, self.agents.len() as u8], 4000));
        self.agents.push((at, agent));
        self.agents.len() - 1
    }

    /// Asks, and does not wait.
    pub fn ask(&mut self, agent: usize, key: Key, asker: Option<Key>) -> u64 {
        self.token += 1;
        let token = self.token;
        self.agents[agent].1.handle(self.now, resolver::Input::Resolve { key, asker, token });
        token
    }

    pub fn look_up(&mut self, agent: usize, key: Key, asker: Option<Key>) -> Resolution {
        let token = self.ask(agent, key, asker);
        for _ in 0..40_000 {
            self.drain_agents();
            if let Some(resolution) = self.resolved.remove(&token) {
                return resolution;
            }
            self.step(Instant::MAX);
        }
        panic!("a lookup ends");
    }

    pub fn usable(&self, agent: usize) -> BTreeSet<(Key, Option<Key>)> {
        self.agents[agent].1.usable().map(|(key, asker, ..)| (key, asker)).collect()
    }

    pub fn generation(&self, agent: usize, key: Key) -> Option<Generation> {
        self.agents[agent].1.cached(key, Some(ASKER)).map(|(generation, _)| generation)
    }

    pub fn put(&mut self, key: Key, value: Value) -> UpdateResult {
        self.put_all(&[(key, value)])
    }

    pub fn put_all(&mut self, values: &[(Key, Value)]) -> UpdateResult {
        self.token += 1;
        let token = self.token;
        let op = |(key, value): &(Key, Value)| Op { key: *key, expect: None, value: Some(value.clone()) };
        self.writer.handle(self.now, updater::Input::Submit { ops: values.iter().map(op).collect(), token });
        for _ in 0..80_000 {
            self.drain_writer();
            if let Some(result) = self.done.remove(&token) {
                if let UpdateResult::Committed(generation) = result {
                    self.acknowledged.insert((values[0].0, generation, self.part(&values[0].0)));
                }
                return result;
            }
            self.step(Instant::MAX);
        }
        panic!("an update ends");
    }

    fn part(&self, key: &Key) -> usize {
        self.policy.parts().map_or(0, |parts| parts.part_of(key))
    }

    /// As a command that speaks to the servers of one part alone; `None`: they do not take it.
    pub fn write_to(&mut self, part: usize, key: Key, value: Value) -> Option<Generation> {
        use crate::directory::request::{Ask, Client, Request, StreamId};
        let before = self.stores[part].revision;
        self.token += 1;
        let known = Generation(before);
        let update = crate::wire::directory::Update {
            number: 1 << 60 | self.token,
            known,
            ops: vec![Op { key, expect: None, value: Some(value) }],
        };
        let client = Client::Stream { stream: StreamId(1), request: self.token };
        let place = self.nodes.iter().position(|node| node.part == part).unwrap();
        self.input(place, Input::Request(Request { client, principal: WRITER, ask: Ask::Update(update) }));
        self.run(Duration::from_ms(50));
        let store = &self.stores[part];
        (store.revision > before).then(|| store.records[&key].0)
    }

    /// No update that was acknowledged is missing.
    pub fn acknowledged_is_stored(&self) -> bool {
        self.acknowledged
            .iter()
            .all(|(key, generation, part)| self.stores[*part].records.get(key).is_some_and(|held| held.0 >= *generation))
    }

    pub fn run(&mut self, span: Duration) {
        let end = self.now + span;
        while self.now < end {
            self.step(end);
        }
    }

    /// The next thing that happens, if it does by then.
    fn step(&mut self, end: Instant) {
        self.drain_agents();
        self.drain_writer();
        let arrival = self.datagrams.first_key_value().map(|(&(at, _), _)| at);
        let servers = self.nodes.iter().filter(|node| node.alive).filter_map(|node| node.machine.deadline());
        let agents = self.agents.iter().filter_map(|(_, agent)| agent.deadline());
        let next = servers.chain(agents).chain(self.writer.deadline()).chain(arrival).min().unwrap_or(end);
        self.now = next.max(self.now + Duration::from_us(1)).min(end);
        while let Some(entry) = self.datagrams.first_entry() {
            if entry.key().0 > self.now {
                break;
            }
            let (from, to, bytes) = entry.remove();
            self.deliver(from, to, bytes);
        }
        for place in 0..self.nodes.len() {
            if self.nodes[place].machine.deadline().is_some_and(|at| at <= self.now) {
                self.input(place, Input::Timer);
            }
        }
        for (_, agent) in &mut self.agents {
            if agent.deadline().is_some_and(|at| at <= self.now) {
                agent.handle(self.now, resolver::Input::Timer);
            }
        }
        if self.writer.deadline().is_some_and(|at| at <= self.now) {
            self.writer.handle(self.now, updater::Input::Timer);
        }
    }

    fn deliver(&mut self, from: SocketAddr, to: SocketAddr, bytes: Vec<u8>) {
        if let Some(place) = self.nodes.iter().position(|node| node.at == to) {
            self.input(place, Input::Datagram { from, bytes });
        } else if let Some((_, agent)) = self.agents.iter_mut().find(|(at, _)| *at == to) {
            agent.handle(self.now, resolver::Input::Datagram { from, bytes: &bytes });
        } else {
            self.writer.handle(self.now, updater::Input::Datagram { from, bytes: &bytes });
        }
    }

    fn send(&mut self, from: SocketAddr, to: SocketAddr, bytes: Vec<u8>) {
        self.sent += 1;
        if self.rng.random_range(0..100) >= self.loss_percent {
            self.datagrams.insert((self.now + LATENCY, self.sent), (from, to, bytes));
        }
    }

    fn drain_agents(&mut self) {
        for n in 0..self.agents.len() {
            while let Some(output) = self.agents[n].1.poll() {
                match output {
                    resolver::Output::Send { to, bytes } => self.send(self.agents[n].0, to, bytes),
                    resolver::Output::Resolved { token, resolution, .. } => {
                        self.resolved.insert(token, resolution);
                    }
                    resolver::Output::Invalidated { .. } => {}
                }
            }
        }
    }

    fn drain_writer(&mut self) {
        while let Some(output) = self.writer.poll() {
            match output {
                updater::Output::Send { to, bytes } => self.send(WRITER_AT.into(), to, bytes),
                updater::Output::Done { token, result } => {
                    self.done.insert(token, result);
                }
            }
        }
    }

    fn input(&mut self, place: usize, input: Input) {
        if self.nodes[place].alive {
            self.nodes[place].machine.handle(self.now, input);
            self.drain(place);
        }
    }

    fn drain(&mut self, place: usize) {
        while let Some(output) = self.nodes[place].machine.poll() {
            let Node { part, at, .. } = self.nodes[place];
            match output {
                Output::Send { to, bytes } => {
                    self.between_servers += usize::from(self.nodes.iter().any(|node| node.at == to));
                    self.send(at, to, bytes);
                }
                Output::Commit { batch, ops, purged } => {
                    let result = self.commit(part, &ops);
                    self.input(place, Input::Committed { batch, result, purged });
                }
                Output::Load { load } if !self.stores[part].lost => {
                    let store = &self.stores[part];
                    let stored = |(key, (generation, record)): (&Key, &(Generation, Record))| Stored {
                        key: *key,
                        generation: *generation,
                        record: Some(record.clone()),
                    };
                    let entries = store.records.iter().map(stored).collect();
                    let end = Some(LoadEnd { revision: Generation(store.revision), purged: Generation(0) });
                    self.input(place, Input::Loaded { load, entries, end });
                }
                Output::Event(Event::PolicyRefused(_)) => self.refused += 1,
                _ => {}
            }
        }
    }

    fn commit(&mut self, part: usize, ops: &[StoreOp]) -> CommitResult {
        let store = &mut self.stores[part];
        if store.lost {
            return CommitResult::Failed;
        }
        let held = |key: &Key| store.records.get(key).map_or(Generation(0), |held| held.0);
        if ops.iter().any(|op| held(&op.key) != op.expect) {
            return CommitResult::Conflict(ops.iter().map(|op| store.records.get(&op.key).cloned()).collect());
        }
        let from = Generation(store.revision);
        store.revision += 1;
        let generation = Generation(store.revision);
        let changes: Vec<Stored> =
            ops.iter().map(|op| Stored { key: op.key, generation, record: Some(op.record.clone()) }).collect();
        store.records.extend(ops.iter().map(|op| (op.key, (generation, op.record.clone()))));
        // Its peers see it in their watch a little later: here at once, after the commit's own answer.
        let others: Vec<usize> = (0..self.nodes.len()).filter(|&n| self.nodes[n].part == part).collect();
        for other in others {
            let watched = Input::Watched { from, revision: generation, changes: changes.clone() };
            self.nodes[other].machine.handle(self.now, watched);
        }
        CommitResult::Done(generation)
    }
}

fn address(part: usize, n: usize) -> SocketAddr {
    SocketAddr::from(([10, 0, part as u8, n as u8 + 1], 5303))
}
