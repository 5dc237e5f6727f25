//! Clients that read their streams slowly or not at all, while changes come: they are ended as docs/directory.md says, the server holds no more for them than
//! its budget, and nobody else waits for them.
//!
//! ```text
//!   watcher 0: reads all at once        watcher 1: slowly, but fast enough        watcher 2: too slowly        watcher 3: nothing
//!   hosts: ask for a document again and again on many streams, and read nothing
//!   writer: changes of 1.2 kB each      agent: lookups
//! ```

use std::collections::BTreeMap;
use std::net::Ipv6Addr;

use weft_control::directory::attempts::UpdateResult;
use weft_control::directory::budget::ByteLimits;
use weft_control::directory::policy::{Policy, Role};
use weft_control::directory::request::StreamId;
use weft_control::directory::resolver::{Resolution, ResolverConfig};
use weft_control::directory::server::ServerConfig;
use weft_control::directory::{Generation, GroupId, Key, PrincipalId, Value};
use weft_control::wire::directory::{DOCUMENT_PART, Fetch, Kind, Message, Op, Publish, Watch};
use weft_fabric::rng::mix;
use weft_fabric::{Duration, Instant};
use weft_sim::directory::cluster::{
    Cluster, ClusterConfig, Defect, Reading, Seen, Step, operator_principal, server_principal, writer_principal,
};
use weft_sim::directory::network::Impairments;
use weft_sim::directory::service::ServiceTimes;
use weft_sim::directory::store::StoreConfig;

/// Groups of 16 addresses in one update, which changes all of them.
const GROUPS: u16 = 4;
/// Watchers, by how they read.
const PROMPT: u16 = 0;
const SLOW: u16 = 1;
const TOO_SLOW: u16 = 2;
const STOPPED: u16 = 3;
/// Hosts that read nothing, and the streams and requests of each.
const HOSTS: std::ops::Range<u16> = 10..13;
const STREAMS: u64 = 60;
const REQUESTS: u64 = 30;
/// A change is with a watcher that reads, a lookup answered and an update acknowledged within this.
const SOON: Duration = Duration::from_ms(50);
/// A stream whose other end takes too little ends within 5 s for each of two batches, once the kernels hold all they can.
const TIMEOUT: Duration = Duration::from_secs(10);

struct World {
    cluster: Cluster,
    update_every: Duration,
    updates: BTreeMap<u64, Instant>,
    lookups: BTreeMap<u64, Instant>,
    watchers: BTreeMap<StreamId, u16>,
    hosts: Vec<StreamId>,
    /// The revision up to which the prompt watcher has everything.
    position: Generation,
    ended: BTreeMap<StreamId, Instant>,
    /// Since when bytes wait on a stream.
    waiting: BTreeMap<StreamId, Instant>,
    /// The most that a server held, for a stream and for all.
    most_of_stream: usize,
    most: usize,
    last_token: u64,
}

/// Calls: an update, a lookup, a look at what servers hold.
const UPDATE: u64 = 0;
const LOOKUP: u64 = 1;
const LOOK: u64 = 2;

fn group(n: u16, number: u32) -> Value {
    Value::Group((0..16).map(|it| Ipv6Addr::from(u128::from(number) << 32 | u128::from(n) << 8 | it | 1 << 120).into()).collect())
}

fn config(seed: u64) -> ClusterConfig {
    ClusterConfig {
        servers: 2,
        agents: 1,
        writers: 1,
        resolver: ResolverConfig::new(PrincipalId(0)),
        server: ServerConfig::new(PrincipalId(0), Vec::new()),
        service: ServiceTimes::FREE,
        store: StoreConfig {
            members: 3,
            commit_time: Duration::from_ms(2),
            op_time: Duration::from_us(5),
            election: Duration::from_ms(500),
            history: 10_000,
        },
        impairments: Impairments::NONE,
        store_timeout: Duration::from_secs(1),
        contents: (0..GROUPS).map(|n| (Key::Group(GroupId(n + 1)), group(n, 0))).collect(),
        watch_answers: false,
        upgrade: false,
        seed: mix(seed),
    }
}

impl World {
    fn new(seed: u64, update_every: Duration) -> Self {
        let listed = (0..4).map(|n| (operator_principal(n), Role::Admin));
        let listed = listed.chain([(writer_principal(0), Role::Provisioner)]);
        let policy = Policy::open(listed.chain((0..2).map(|n| (server_principal(n), Role::Server))));
        let cluster = Cluster::new(config(seed), &policy);
        Self {
            cluster,
            update_every,
            updates: BTreeMap::new(),
            lookups: BTreeMap::new(),
            watchers: BTreeMap::new(),
            hosts: Vec::new(),
            position: Generation(0),
            ended: BTreeMap::new(),
            waiting: BTreeMap::new(),
            most_of_stream: 0,
            most: 0,
            last_token: 0,
        }
    }

    /// All watch at server 0, and hosts ask it for a document.
    fn begin(&mut self) -> Result<(), String> {
        self.pass(500)?;
        let readings = [
            (PROMPT, Reading::Prompt),
            (SLOW, Reading::Slow(400_000)),
            (TOO_SLOW, Reading::Slow(2_000)),
            (STOPPED, Reading::Stopped),
        ];
        for (operator, reading) in readings {
            let stream = self.cluster.open_stream(operator, 0).ok_or("no stream")?;
            self.cluster.set_reading(stream, reading);
            self.cluster.send_request(stream, 1, &Message::Watch(Watch { from: Generation(0) }));
            self.watchers.insert(stream, operator);
        }
        let stream = self.cluster.open_stream(PROMPT, 0).ok_or("no stream")?;
        let (bytes, name) = (vec![7; DOCUMENT_PART], "document");
        let part = Publish { name, expect: 0, version: 1, length: bytes.len() as u64, offset: 0, bytes: &bytes };
        self.cluster.send_request(stream, 1, &Message::Publish(part));
        self.pass(100)?;
        self.cluster.close_stream(stream);
        for host in HOSTS {
            for _ in 0..STREAMS {
                let stream = self.cluster.open_stream(host, 0).ok_or("no stream of a host")?;
                self.cluster.set_reading(stream, Reading::Stopped);
                for request in 1..=REQUESTS {
                    self.cluster.send_request(stream, request, &Message::Fetch(Fetch { name: "document", known: 0, offset: 0 }));
                }
                self.hosts.push(stream);
            }
        }
        [UPDATE, LOOKUP, LOOK].into_iter().for_each(|kind| self.cluster.call_at(self.cluster.now(), kind));
        Ok(())
    }

    /// Lets things happen for so many milliseconds, and looks at all of them.
    fn pass(&mut self, ms: u64) -> Result<(), String> {
        let end = self.cluster.now() + Duration::from_ms(ms);
        loop {
            match self.cluster.step(end) {
                Step::End => return Ok(()),
                Step::Event => {}
                Step::Call(kind) => self.call(kind)?,
            }
            for (at, seen) in self.cluster.take_seen() {
                self.see(at, seen).map_err(|e| format!("at {at}: {e}"))?;
            }
        }
    }

    fn call(&mut self, kind: u64) -> Result<(), String> {
        let now = self.cluster.now();
        self.last_token += 1;
        let token = self.last_token;
        let pause = match kind {
            UPDATE => {
                let op = |n| Op { key: Key::Group(GroupId(n + 1)), expect: None, value: Some(group(n, token as u32)) };
                self.updates.insert(token, now);
                self.cluster.submit(0, (0..GROUPS).map(op).collect(), token);
                self.update_every
            }
            LOOKUP => {
                self.lookups.insert(token, now);
                // Groups change, so that most are not answered from the agent's own memory.
                self.cluster.resolve(0, &[(Key::Group(GroupId(1 + token as u16 % GROUPS)), None, token)]);
                Duration::from_ms(7)
            }
            _ => {
                self.look()?;
                Duration::from_ms(10)
            }
        };
        self.cluster.call_at(now + pause, kind);
        Ok(())
    }

    /// What the servers hold, and who waits for what.
    fn look(&mut self) -> Result<(), String> {
        let now = self.cluster.now();
        let limits = ByteLimits::DEFAULT;
        let (charged, held) = self.cluster.stream_bytes(0);
        self.most = self.most.max(held);
        if held > charged {
            return Err(format!("{held} bytes are held, of which the budget has {charged}"));
        }
        for &stream in self.watchers.keys().chain(&self.hosts) {
            let of_stream = self.cluster.bytes_of_stream(stream).unwrap_or(0);
            self.most_of_stream = self.most_of_stream.max(of_stream);
            let since = *self.waiting.entry(stream).and_modify(|it| *it = if of_stream == 0 { now } else { *it }).or_insert(now);
            if of_stream > limits.stream || now.saturating_since(since) > TIMEOUT + SOON {
                return Err(format!("{of_stream} bytes of a stream wait since {since} and it goes on"));
            }
        }
        let late = self.updates.values().chain(self.lookups.values()).find(|&&at| now.saturating_since(at) > SOON);
        late.map_or(Ok(()), |at| Err(format!("what was asked at {at} is not answered")))?;
        // The prompt watcher has every commit within a moment.
        let log = self.cluster.store.log();
        let first = log.partition_point(|it| it.revision <= self.position);
        match log.get(first).filter(|it| now.saturating_since(it.at) > SOON && !self.watchers.is_empty()) {
            None => Ok(()),
            Some(commit) => Err(format!("a watcher waits for {:?} of {}", commit.revision, commit.at)),
        }
    }

    fn see(&mut self, at: Instant, seen: Seen) -> Result<(), String> {
        match seen {
            Seen::Done { token, result, .. } => {
                self.updates.remove(&token);
                if !matches!(result, UpdateResult::Committed(_)) {
                    return Err(format!("an update ended as {result:?}"));
                }
            }
            Seen::Resolved { token, resolution, .. } => {
                self.lookups.remove(&token);
                if !matches!(resolution, Resolution::Found(..)) {
                    return Err(format!("a lookup ended as {resolution:?}"));
                }
            }
            Seen::StreamMessage { operator: PROMPT, kind: Kind::Events, body, .. } => {
                let Ok(Message::Events(change)) = Message::parse(Kind::Events, &body) else { return Err("no events".to_owned()) };
                if change.from > self.position && self.position > Generation(0) {
                    return Err(format!("events from {:?} after {:?}", change.from, self.position));
                }
                self.position = change.revision;
            }
            Seen::StreamBroken { stream, operator } => {
                if [PROMPT, SLOW].contains(&operator) {
                    return Err(format!("watcher {operator} was ended, and reads"));
                }
                self.ended.insert(stream, at);
            }
            _ => {}
        }
        Ok(())
    }

    /// Runs it; what was wrong.
    fn run(&mut self) -> Result<(), String> {
        self.begin()?;
        self.pass(20_000)?;
        let slow = self.watchers.iter().filter(|(_, operator)| [TOO_SLOW, STOPPED].contains(*operator)).map(|(stream, _)| stream);
        let left = slow.chain(&self.hosts).filter(|stream| !self.ended.contains_key(*stream)).count();
        if left > 0 {
            return Err(format!("{left} streams whose other end does not read go on"));
        }
        for stream in std::mem::take(&mut self.watchers).into_keys() {
            self.cluster.close_stream(stream);
        }
        self.pass(100)?;
        if self.cluster.is_budget_idle(0) && self.cluster.is_budget_idle(1) { Ok(()) } else { Err("bytes leak".to_owned()) }
    }
}

/// Changes of 120 kB per second: what is held for a reader reaches 256 KiB first. Of 20 kB per second: 5 s pass first.
const UPDATE_EVERY: [Duration; 2] = [Duration::from_ms(10), Duration::from_ms(60)];

#[test]
fn a_slow_reader_is_ended_and_delays_nobody() {
    for (seed, update_every) in (0..).zip(UPDATE_EVERY) {
        let mut world = World::new(seed, update_every);
        world.run().unwrap_or_else(|e| panic!("seed {seed}, an update every {update_every}: {e}"));
        println!(
            "an update every {update_every}: at most {} bytes of a stream, {} of all {}; {} streams ended",
            world.most_of_stream,
            world.most,
            world.hosts.len() + 4,
            world.cluster.slow_streams()
        );
        assert_eq!(world.cluster.slow_streams(), world.ended.len() as u64);
    }
}

#[test]
fn a_server_without_limits_for_slow_readers_is_found() {
    for (seed, update_every) in (0..).zip(UPDATE_EVERY) {
        let mut world = World::new(seed, update_every);
        world.cluster.defect = Some(Defect::NoLimit);
        let error = world.run().expect_err("it must be found");
        assert!(error.contains("of a stream wait") || error.contains("the budget has"), "{error}");
    }
}
