//! Two servers over a model store, one step at a time: requests, commits, results, watches and datagrams wait until a step delivers them.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use rand::SeedableRng;
use weft_fabric::rng::Pcg64;

use crate::directory::auth::{Cookies, Secret};
use crate::directory::key::{Generation, Key, PrincipalId, Record, UpdateId};
use crate::directory::policy::{Policy, Role};
use crate::directory::request::{Ask, Client, Request, StreamId};
use crate::directory::server::{Input, LoadEnd, Output, Server, ServerConfig};
use crate::directory::store::{CommitResult, StoreOp, Stored};
use crate::time::{Duration, Instant};
use crate::wire::directory::{Acknowledgement, HEADER, MAX_DATAGRAM, Message, Outcome, Update};

/// The store that the servers share.
#[derive(Debug, Default)]
pub struct Store {
    pub records: BTreeMap<Key, (Generation, Record)>,
    pub revision: u64,
    pub purged: Generation,
    /// What each revision changed.
    pub log: Vec<Vec<Stored>>,
}

impl Store {
    pub fn commit(&mut self, ops: &[StoreOp], purged: Generation) -> CommitResult {
        let held = |key: &Key| self.records.get(key).map_or(Generation(0), |held| held.0);
        if self.purged > purged || ops.iter().any(|op| held(&op.key) != op.expect) {
            return CommitResult::Conflict(ops.iter().map(|op| self.records.get(&op.key).cloned()).collect());
        }
        self.revision += 1;
        let generation = Generation(self.revision);
        let stored = |op: &StoreOp| Stored { key: op.key, generation, record: Some(op.record.clone()) };
        self.log.push(ops.iter().map(stored).collect());
        self.records.extend(ops.iter().map(|op| (op.key, (generation, op.record.clone()))));
        CommitResult::Done(generation)
    }

    pub fn purge(&mut self, tombstones: &[(Key, Generation)]) {
        let held =
            |key: &Key, generation| self.records.get(key).is_some_and(|held| held.0 == generation && held.1.value.is_none());
        let gone: Vec<_> = tombstones.iter().copied().filter(|&(key, generation)| held(&key, generation)).collect();
        if gone.is_empty() {
            return;
        }
        self.revision += 1;
        self.log.push(gone.iter().map(|&(key, generation)| Stored { key, generation, record: None }).collect());
        for (key, generation) in gone {
            self.purged = self.purged.max(generation);
            self.records.remove(&key);
        }
    }
}

/// A server and what is under way between it and the store.
#[derive(Debug)]
pub struct Node {
    pub server: Server,
    pub at: SocketAddr,
    /// Not yet at the store; these go on when the server dies.
    pub commits: Vec<(u64, Vec<StoreOp>, Generation)>,
    pub results: Vec<(u64, CommitResult, Generation)>,
    load: Option<u64>,
    watching: Option<u64>,
    /// The generations that it held, to see that none goes back.
    held: BTreeMap<Key, Generation>,
    revision: Generation,
    purges: Vec<Vec<(Key, Generation)>>,
}

#[derive(Debug)]
pub struct World {
    pub now: Instant,
    pub store: Store,
    pub nodes: Vec<Node>,
    pub datagrams: Vec<(SocketAddr, SocketAddr, Vec<u8>)>,
    /// Commits of servers that died.
    pub orphans: Vec<(Vec<StoreOp>, Generation)>,
    /// By update: what was answered, and how many copies were sent.
    pub answers: BTreeMap<UpdateId, (Vec<Acknowledgement>, usize)>,
    pub updates: BTreeMap<UpdateId, Update>,
    lives: u8,
}

pub fn secret() -> Secret {
    Secret::new([9; 32])
}

pub fn policy() -> Policy {
    let servers = (0..2).map(|n| (PrincipalId(1000 + n), Role::Server));
    Policy::open(servers.chain([(PrincipalId(1), Role::Provisioner), (PrincipalId(2), Role::Provisioner)]))
}

impl World {
    pub fn new() -> Self {
        let mut world = Self {
            now: Instant::ZERO,
            store: Store::default(),
            nodes: Vec::new(),
            datagrams: Vec::new(),
            orphans: Vec::new(),
            answers: BTreeMap::new(),
            updates: BTreeMap::new(),
            lives: 0,
        };
        for n in 0..2 {
            let node = world.node(n);
            world.nodes.push(node);
            world.drain(n);
        }
        world
    }

    fn node(&mut self, n: usize) -> Node {
        self.lives += 1;
        let at = |n: usize| SocketAddr::from(([10, 0, 0, n as u8 + 1], 5303));
        let mut config = ServerConfig::new(PrincipalId(1000 + n as u32), vec![at(1 - n)]);
        config.max_in_flight = 2;
        config.batch_ops = 6;
        config.keep_tombstones = Duration::from_ms(60);
        config.digest_every = Duration::from_ms(500);
        let rng = Pcg64::seed_from_u64(u64::from(self.lives));
        Node {
            server: Server::new(config, secret(), Cookies::new([self.lives; 16]), policy(), rng),
            at: at(n),
            commits: Vec::new(),
            results: Vec::new(),
            load: None,
            watching: None,
            held: BTreeMap::new(),
            revision: Generation(0),
            purges: Vec::new(),
        }
    }

    /// Kills a server and restarts it.
    pub fn restart(&mut self, n: usize) {
        let node = self.node(n);
        let old = std::mem::replace(&mut self.nodes[n], node);
        self.orphans.extend(old.commits.into_iter().map(|(_, ops, purged)| (ops, purged)));
        self.drain(n);
    }

    pub fn input(&mut self, n: usize, input: Input) {
        self.nodes[n].server.handle(self.now, input);
        self.drain(n);
    }

    fn drain(&mut self, n: usize) {
        while let Some(output) = self.nodes[n].server.poll() {
            let node = &mut self.nodes[n];
            match output {
                Output::Send { to, bytes } => {
                    assert!(bytes.len() <= MAX_DATAGRAM, "a datagram of {} bytes", bytes.len());
                    self.datagrams.push((node.at, to, bytes));
                }
                Output::Commit { batch, ops, purged } => node.commits.push((batch, ops, purged)),
                Output::Load { load } => (node.load, node.watching) = (Some(load), None),
                Output::Purge { tombstones } => node.purges.push(tombstones),
                Output::Event(_) => {}
                Output::Reply { principal, message, .. } => {
                    let kind = crate::wire::directory::Kind::Acknowledgement;
                    let Ok(Message::Acknowledgement(it)) = Message::parse(kind, &message[HEADER..]) else {
                        panic!("an acknowledgement")
                    };
                    let id = UpdateId { writer: principal, number: it.number };
                    self.answers.entry(id).or_default().0.push(it);
                }
            }
        }
    }

    /// Sends a copy of an update to a server.
    pub fn submit(&mut self, n: usize, id: UpdateId, update: Update) {
        self.updates.insert(id, update.clone());
        self.answers.entry(id).or_default().1 += 1;
        let client = Client::Stream { stream: StreamId(1), request: id.number };
        self.input(n, Input::Request(Request { client, principal: id.writer, ask: Ask::Update(update) }));
    }

    /// One of a server's commits comes to the store, and may be lost on the way there or on the way back.
    pub fn store_takes(&mut self, n: usize, which: usize, lost_there: bool, lost_back: bool) {
        if self.nodes[n].commits.is_empty() {
            return;
        }
        let which = which % self.nodes[n].commits.len();
        let (batch, ops, purged) = self.nodes[n].commits.swap_remove(which);
        let result = if lost_there { CommitResult::Failed } else { self.store.commit(&ops, purged) };
        let result = if lost_back { CommitResult::Failed } else { result };
        self.nodes[n].results.push((batch, result, self.store.purged));
    }

    pub fn server_hears(&mut self, n: usize, which: usize) {
        if self.nodes[n].results.is_empty() {
            return;
        }
        let which = which % self.nodes[n].results.len();
        let (batch, result, purged) = self.nodes[n].results.swap_remove(which);
        self.input(n, Input::Committed { batch, result, purged });
    }

    /// The next load or some of the watch.
    pub fn follow(&mut self, n: usize, commits: usize) {
        let revision = self.store.revision;
        if let Some(load) = self.nodes[n].load.take() {
            let stored = |(key, (generation, record)): (&Key, &(Generation, Record))| Stored {
                key: *key,
                generation: *generation,
                record: Some(record.clone()),
            };
            let entries: Vec<Stored> = self.store.records.iter().map(stored).collect();
            let (first, second) = entries.split_at(entries.len() / 2);
            let end = Some(LoadEnd { revision: Generation(revision), purged: self.store.purged });
            self.input(n, Input::Loaded { load, entries: second.to_vec(), end: None });
            self.input(n, Input::Loaded { load, entries: first.to_vec(), end });
            self.nodes[n].watching = Some(revision);
        } else if let Some(from) = self.nodes[n].watching {
            let to = revision.min(from + commits as u64);
            let changes = self.store.log[from as usize..to as usize].concat();
            self.nodes[n].watching = Some(to);
            self.input(n, Input::Watched { from: Generation(from), revision: Generation(to), changes });
        }
    }

    pub fn purge(&mut self, n: usize) {
        for tombstones in std::mem::take(&mut self.nodes[n].purges) {
            self.store.purge(&tombstones);
        }
    }

    /// A datagram comes to its server.
    pub fn deliver(&mut self, which: usize, again: bool) {
        if self.datagrams.is_empty() {
            return;
        }
        let which = which % self.datagrams.len();
        let (from, to, bytes) = if again { self.datagrams[which].clone() } else { self.datagrams.swap_remove(which) };
        if let Some(n) = self.nodes.iter().position(|node| node.at == to) {
            self.input(n, Input::Datagram { from, bytes });
        }
    }

    pub fn wait(&mut self, span: Duration) {
        self.now = self.now.saturating_add(span);
        for n in 0..self.nodes.len() {
            if self.nodes[n].server.deadline().is_some_and(|at| at <= self.now) {
                self.input(n, Input::Timer);
            }
        }
    }

    /// Delivers everything until nothing is left to do.
    pub fn heal(&mut self) {
        for n in 0..2 {
            self.input(n, Input::StoreBack);
        }
        for _ in 0..200 {
            for (ops, purged) in std::mem::take(&mut self.orphans) {
                self.store.commit(&ops, purged);
            }
            for n in 0..2 {
                self.store_takes(n, 0, false, false);
                self.server_hears(n, 0);
                self.purge(n);
                self.follow(n, 1000);
            }
            self.deliver(0, false);
            self.wait(Duration::from_ms(20));
        }
    }

    /// What holds at every moment.
    pub fn check_steps(&mut self) {
        for node in &mut self.nodes {
            let shared = node.server.shared();
            assert!(shared.revision >= node.revision, "a server's revision goes back");
            node.revision = shared.revision;
            for key in self.store.records.keys() {
                let generation = shared.table.held(key).map_or(Generation(0), |held| held.generation);
                let before = node.held.insert(*key, generation).unwrap_or_default();
                assert!(generation >= before || generation == Generation(0), "{key} goes back from {before:?} to {generation:?}");
            }
        }
    }

    /// What holds of the store's log and the answers.
    pub fn check_history(&self) {
        let mut applied: BTreeMap<UpdateId, Vec<(Generation, Key)>> = BTreeMap::new();
        for stored in self.store.log.iter().flatten() {
            if let Some(record) = &stored.record {
                applied.entry(record.writes[0].update).or_default().push((stored.generation, stored.key));
            }
        }
        for (id, writes) in &applied {
            let update = &self.updates[id];
            assert_eq!(writes.len(), update.ops.len(), "{id:?} is applied once, to all of its keys: {writes:?}");
            assert!(writes.iter().all(|write| write.0 == writes[0].0), "at one generation");
        }
        for (id, (answers, copies)) in &self.answers {
            let at = applied.get(id).map(|writes| writes[0].0);
            for answer in answers.iter().filter(|answer| answer.outcome == Outcome::Committed) {
                assert_eq!(Some(answer.generation), at, "{id:?} is acknowledged at the generation at which it is in the store");
            }
            let refused = |answer: &Acknowledgement| !matches!(answer.outcome, Outcome::Committed | Outcome::Unknown);
            if answers.len() == *copies && answers.iter().all(refused) {
                assert_eq!(at, None, "{id:?} was not taken by any server: {answers:?}");
            }
        }
    }

    /// What holds when all is healed.
    pub fn check_healed(&self) {
        for node in &self.nodes {
            let shared = node.server.shared();
            assert_eq!(shared.revision.0, self.store.revision, "it knows everything");
            assert_eq!(node.server.load(), (0, 0), "nothing waits");
            let live = self.store.records.iter().filter(|(_, held)| held.1.value.is_some());
            let mut count = 0;
            for (key, (generation, record)) in live {
                let found = shared.table.get(key).expect("it is in memory");
                assert_eq!((found.generation, Some(found.value.to_value())), (*generation, record.value.clone()));
                count += 1;
            }
            assert_eq!(shared.table.len(), count);
        }
        let [first, second] = &self.nodes[..] else { panic!("two servers") };
        assert_eq!(first.server.shared().table.hash(), second.server.shared().table.hash());
    }
}
