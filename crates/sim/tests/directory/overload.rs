//! A server that is offered more than it can answer: the answer path of the daemon's UDP threads (a queue, batches, [`AgeLimit`], [`Front`]), on one clock.
//!
//! ```text
//!   clients, open loop: lookups, 1 % Sync and Health --+--> queue --64 at a time--> stale? --> front --> answers
//!   agents: lookups and their retries -----------------+          100 us an answer, 5 us a drop
//! ```

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;

use rand::RngExt;
use weft_control::directory::auth::{Cookies, Secret, Tagger};
use weft_control::directory::front::{AgeLimit, Front, FrontConfig, Verdict};
use weft_control::directory::policy::{Policy, Role};
use weft_control::directory::resolver::{self, Resolution, Resolver, ResolverConfig};
use weft_control::directory::server::{self, LoadEnd, Server, ServerConfig};
use weft_control::directory::store::Stored;
use weft_control::directory::{Generation, GroupId, Key, Locator, Mapping, PrincipalId, Record, ServiceId, UpdateId, Value};
use weft_control::wire::directory::{Frame, Header, Kind, Lookup, Message, Sync, Versions};
use weft_fabric::rng::Pcg64;
use weft_fabric::time::{NsDuration, NsInstant};

/// Datagrams per second that the server can answer.
const CAPACITY: u64 = 10_000;
const ANSWER: NsDuration = NsDuration::from_ns(1_000_000_000 / CAPACITY);
const DROP: NsDuration = NsDuration::from_ns(ANSWER.as_ns() / 20);
const LATENCY: NsDuration = NsDuration::from_us(50);
/// Datagrams of one system call, and those that the kernel holds.
const BATCH: usize = 64;
const ROOM: usize = 10_000;
const KEYS: u32 = 1_000;
const CLIENTS: u16 = 50;
const ME: PrincipalId = PrincipalId(1);

/// A client that sends whatever becomes of its earlier requests.
struct Client {
    principal: PrincipalId,
    tagger: Tagger,
    cookie: u64,
    request: u64,
}

enum Event {
    /// A datagram reaches the server.
    Arrive(SocketAddr, Vec<u8>),
    /// The server takes the next batch.
    Take,
    /// A datagram reaches a client or an agent.
    Reply(SocketAddr, Vec<u8>),
    /// The next request is due.
    Offer,
    Timer(u16),
}

struct World {
    now: NsInstant,
    events: BTreeMap<(NsInstant, u64), Event>,
    last_event: u64,
    rng: Pcg64,
    /// With the time of arrival.
    queue: VecDeque<(NsInstant, SocketAddr, Vec<u8>)>,
    is_busy: bool,
    stalled_until: NsInstant,
    server: Server,
    front: Front,
    age: AgeLimit,
    /// Requests offered per second, by agents if there are any.
    rate: u64,
    clients: Vec<Client>,
    agents: Vec<Resolver>,
    timers: Vec<Option<NsInstant>>,
    /// Requests of clients without an answer yet.
    sent: BTreeMap<(u16, u64), (NsInstant, Kind)>,
    /// When each was answered, and how long after it was sent; lookups and others.
    lookups: Vec<(NsInstant, NsDuration)>,
    others: Vec<(NsInstant, NsDuration)>,
    /// Lookups of agents under way, and those that ended.
    asked: Vec<NsInstant>,
    resolved: Vec<(NsInstant, NsDuration)>,
    unanswered: Vec<NsInstant>,
    /// Datagrams that the server answered, dropped as stale, and for which there was no room.
    answered: u64,
    stale: u64,
    lost: u64,
}

fn at_server() -> SocketAddr {
    SocketAddr::from(([10, 0, 0, 1], 5303))
}

fn address(kind: u8, n: u16) -> SocketAddr {
    let [high, low] = n.to_be_bytes();
    SocketAddr::from(([10, kind, high, low], 7000))
}

fn key(n: u32) -> Key {
    Key::App4((0x1400_0000 + n).into())
}

fn stored(n: u32) -> Stored {
    let value = Value::Mapping(Mapping {
        locator: Locator::V4((0x0b00_0000 + n).into()),
        mac: None,
        group: GroupId(0),
        service: ServiceId(1),
        owner: PrincipalId(100),
        lease_ms: 60_000,
    });
    let update = UpdateId { writer: PrincipalId(99), number: 1 };
    Stored { key: key(n), generation: Generation(1), record: Some(Record::next(None, Generation(0), update, Some(value))) }
}

fn seconds(from: u64, to: u64) -> std::ops::Range<NsInstant> {
    START + NsDuration::from_secs(from)..START + NsDuration::from_secs(to)
}

const START: NsInstant = NsInstant::from_ns(1_000_000_000);

impl World {
    fn new(agents: u16, rate: u64) -> Self {
        let secret = Secret::new([7; 32]);
        let stream = |n: u128| Pcg64::new(n, 5);
        // With an open policy everybody resolves everything.
        let policy = Policy::open([(ME, Role::Server)]);
        let mut server = Server::new(ServerConfig::new(ME, Vec::new()), secret.clone(), Cookies::new([1; 16]), policy, stream(1));
        let end = Some(LoadEnd { revision: Generation(1), purged: Generation(0) });
        server.handle(START, server::Input::Loaded { load: 1, entries: (0..KEYS).map(stored).collect(), end });
        let config = FrontConfig { me: ME, max_clients: 10_000, versions: Versions::OURS };
        let front = Front::new(secret.clone(), Cookies::new([2; 16]), config);
        let client = |n: u16| {
            let principal = PrincipalId(1_000 + u32::from(n));
            Client { principal, tagger: secret.key_of(principal).tagger(), cookie: 0, request: 0 }
        };
        let agent = |n: u16| {
            let principal = PrincipalId(100_000 + u32::from(n));
            let config = ResolverConfig { capacity: 0, ..ResolverConfig::new(principal) };
            let mut agent = Resolver::new(config, &secret.key_of(principal), stream(100 + u128::from(n)));
            agent.handle(START, resolver::Input::SetServers(&[at_server()]));
            agent
        };
        let agents: Vec<Resolver> = (0..agents).map(agent).collect();
        let mut world = Self {
            now: START,
            events: BTreeMap::new(),
            last_event: 0,
            rng: stream(2),
            queue: VecDeque::new(),
            is_busy: false,
            stalled_until: NsInstant::ZERO,
            server,
            front,
            age: AgeLimit::new(START),
            rate,
            clients: (0..CLIENTS).map(client).collect(),
            timers: vec![None; agents.len()],
            agents,
            sent: BTreeMap::new(),
            lookups: Vec::new(),
            others: Vec::new(),
            asked: Vec::new(),
            resolved: Vec::new(),
            unanswered: Vec::new(),
            answered: 0,
            stale: 0,
            lost: 0,
        };
        world.schedule(START, Event::Offer);
        world
    }

    fn schedule(&mut self, at: NsInstant, event: Event) {
        self.last_event += 1;
        self.events.insert((at, self.last_event), event);
    }

    /// Runs until so many seconds after the start.
    fn run(&mut self, seconds: u64) {
        let end = START + NsDuration::from_secs(seconds);
        while let Some(entry) = self.events.first_entry().filter(|entry| entry.key().0 <= end) {
            let ((at, _), event) = entry.remove_entry();
            self.now = at;
            match event {
                Event::Arrive(from, bytes) => self.arrive(from, bytes),
                Event::Take => self.take(),
                Event::Reply(to, bytes) => self.reply(to, &bytes),
                Event::Offer => self.offer(),
                Event::Timer(n) if self.timers[usize::from(n)] == Some(at) => {
                    self.timers[usize::from(n)] = None;
                    self.agents[usize::from(n)].handle(at, resolver::Input::Timer);
                    self.drain(n);
                }
                Event::Timer(_) => {}
            }
        }
        self.now = end;
    }

    /// The server's thread does not run for so long.
    fn stall(&mut self, by: NsDuration) {
        self.stalled_until = self.now + by;
    }

    fn arrive(&mut self, from: SocketAddr, bytes: Vec<u8>) {
        if self.queue.len() >= ROOM {
            self.lost += 1;
            return;
        }
        self.queue.push_back((self.now, from, bytes));
        if !self.is_busy {
            self.is_busy = true;
            self.take();
        }
    }

    fn take(&mut self) {
        let now = self.now;
        if now < self.stalled_until {
            return self.schedule(self.stalled_until, Event::Take);
        }
        let batch: Vec<_> = self.queue.drain(..self.queue.len().min(BATCH)).collect();
        if batch.is_empty() {
            self.is_busy = false;
            return;
        }
        let rule = self.age.batch(now, batch.len() < BATCH);
        let is_fresh = |(at, _, bytes): &&(NsInstant, SocketAddr, Vec<u8>)| !rule.drops(now.saturating_since(*at), bytes);
        let mut datagrams: Vec<(SocketAddr, &[u8])> =
            batch.iter().filter(is_fresh).map(|(_, from, bytes)| (*from, &bytes[..])).collect();
        rule.sort(&mut datagrams);
        let stale = (batch.len() - datagrams.len()) as u64;
        let (mut replies, mut forwarded) = (Vec::new(), Vec::new());
        self.front.receive_batch(now, self.server.shared(), &datagrams, |at, verdict, bytes| match verdict {
            Verdict::Answer => replies.push((datagrams[at].0, bytes.to_vec())),
            Verdict::Forward(request) => forwarded.push(*request),
            Verdict::Drop(reason) => panic!("{reason:?}"),
        });
        let done = now + ANSWER * datagrams.len() as u64 + DROP * stale;
        self.stale += stale;
        self.answered += replies.len() as u64;
        for (to, bytes) in replies {
            self.schedule(done + LATENCY, Event::Reply(to, bytes));
        }
        for request in forwarded {
            self.server.handle(now, server::Input::Request(request));
        }
        while let Some(output) = self.server.poll() {
            if let server::Output::Send { to, bytes } = output {
                self.schedule(done + LATENCY, Event::Reply(to, bytes));
            }
        }
        self.schedule(done, Event::Take);
    }

    /// One request, and when the next is due: arrivals at random.
    fn offer(&mut self) {
        if !self.agents.is_empty() {
            let n = self.rng.random_range(0..self.agents.len()) as u16;
            let token = self.asked.len() as u64;
            self.asked.push(self.now);
            let key = key(self.rng.random_range(0..KEYS));
            self.agents[usize::from(n)].handle(self.now, resolver::Input::Resolve { key, asker: None, token });
            self.drain(n);
        } else {
            let n = self.rng.random_range(0..CLIENTS);
            let kind = match self.rng.random_range(0..200) {
                0 => Kind::Health,
                1 => Kind::Sync,
                _ => Kind::Lookup,
            };
            self.send(n, kind);
        }
        let gap = -self.rng.random::<f64>().max(1e-9).ln() * 1e9 / self.rate as f64;
        self.schedule(self.now + NsDuration::from_ns(gap as u64 + 1), Event::Offer);
    }

    fn send(&mut self, n: u16, kind: Kind) {
        let key = key(self.rng.random_range(0..KEYS));
        let client = &mut self.clients[usize::from(n)];
        client.request += 1;
        let mut bytes = Vec::new();
        Header { kind, principal: client.principal, cookie: client.cookie, request: client.request }.emit(&mut bytes);
        match kind {
            Kind::Lookup => Lookup::emit(Generation(0), None, &[key], &mut bytes),
            Kind::Sync => Message::Sync(Sync { revision: Generation(1), policy: 1, padding: 64 }).emit(&mut bytes),
            _ => {}
        }
        client.tagger.seal(&mut bytes, 0);
        self.sent.insert((n, client.request), (self.now, kind));
        self.schedule(self.now + LATENCY, Event::Arrive(address(9, n), bytes));
    }

    fn reply(&mut self, to: SocketAddr, bytes: &[u8]) {
        let std::net::IpAddr::V4(ip) = to.ip() else { return };
        let [_, kind, high, low] = ip.octets();
        let n = u16::from_be_bytes([high, low]);
        if kind == 8 {
            self.agents[usize::from(n)].handle(self.now, resolver::Input::Datagram { from: at_server(), bytes });
            return self.drain(n);
        }
        let Header { kind, cookie, request, .. } = Frame::parse(bytes).expect("a message").header;
        let Some((at, asked)) = self.sent.remove(&(n, request)) else { return };
        if kind == Kind::Challenge {
            self.clients[usize::from(n)].cookie = cookie;
            return self.send(n, asked);
        }
        let times = if asked == Kind::Lookup { &mut self.lookups } else { &mut self.others };
        times.push((self.now, self.now.saturating_since(at)));
    }

    fn drain(&mut self, n: u16) {
        while let Some(output) = self.agents[usize::from(n)].poll() {
            match output {
                resolver::Output::Send { bytes, .. } => self.schedule(self.now + LATENCY, Event::Arrive(address(8, n), bytes)),
                resolver::Output::Resolved { token, resolution, .. } => {
                    let asked = self.asked[token as usize];
                    match resolution {
                        Resolution::Found(..) => self.resolved.push((self.now, self.now.saturating_since(asked))),
                        _ => self.unanswered.push(self.now),
                    }
                }
                resolver::Output::Invalidated { .. } => {}
            }
        }
        let deadline = self.agents[usize::from(n)].deadline();
        let Some(at) = deadline.map(|at| at.max(self.now + NsDuration::from_ns(1))) else { return };
        if self.timers[usize::from(n)].is_none_or(|set| at < set) {
            self.timers[usize::from(n)] = Some(at);
            self.schedule(at, Event::Timer(n));
        }
    }
}

/// How many ended within a time, and the 99th percentile of their times.
fn within(times: &[(NsInstant, NsDuration)], range: &std::ops::Range<NsInstant>) -> (u64, NsDuration) {
    let mut found: Vec<NsDuration> = times.iter().filter(|(at, _)| range.contains(at)).map(|&(_, time)| time).collect();
    found.sort_unstable();
    (found.len() as u64, found.get(found.len() * 99 / 100).copied().unwrap_or_default())
}

const GOAL: NsDuration = NsDuration::from_ms(20);

#[test]
fn at_twice_the_capacity_answers_are_fresh_and_as_many() {
    let mut world = World::new(0, 2 * CAPACITY);
    world.run(4);
    let (lookups, p99) = within(&world.lookups, &seconds(1, 4));
    let (others, others_p99) = within(&world.others, &seconds(1, 4));
    println!(
        "{lookups} lookups in 3 s, p99 {p99}; {others} others, p99 {others_p99}; {} stale, {} lost",
        world.stale, world.lost
    );
    assert!((lookups + others) * 10 >= 3 * CAPACITY * 9, "{lookups} and {others} in 3 s");
    assert!(p99 < GOAL && others_p99 < GOAL, "{p99} {others_p99}");
    // Syncs and Health are all answered but those that are under way.
    let old = |(at, kind): &&(NsInstant, Kind)| *kind != Kind::Lookup && *at + GOAL < world.now;
    assert_eq!((world.sent.values().filter(old).count(), world.lost), (0, 0));
}

#[test]
fn at_half_the_capacity_nothing_is_dropped() {
    let mut world = World::new(0, CAPACITY / 2);
    world.run(3);
    let (lookups, p99) = within(&world.lookups, &seconds(1, 3));
    assert!(p99 < NsDuration::from_ms(5) && lookups * 10 > 2 * CAPACITY * 4, "{lookups} in 2 s, p99 {p99}");
    // Nor if the thread does not run for a moment: the queue is empty again within 100 ms.
    world.stall(NsDuration::from_ms(40));
    world.run(4);
    assert_eq!((world.stale, world.lost), (0, 0));
}

#[test]
fn after_a_stall_of_a_second_answers_are_fresh_within_50_ms() {
    let mut world = World::new(0, CAPACITY / 2);
    world.run(2);
    world.stall(NsDuration::from_secs(1));
    world.run(5);
    let back = START + NsDuration::from_secs(3);
    let (lookups, p99) = within(&world.lookups, &(back + NsDuration::from_ms(50)..world.now));
    println!("{lookups} lookups after the stall, p99 {p99}; {} stale", world.stale);
    assert!(lookups * 10 > 2 * CAPACITY * 4, "{lookups}");
    assert!(world.stale > CAPACITY * 2 / 5, "what waited for a second is not answered: {}", world.stale);
    let late = |(at, time): &&(NsInstant, NsDuration)| *at > back + NsDuration::from_ms(50) && *time > NsDuration::from_ms(10);
    assert_eq!(world.lookups.iter().filter(late).count(), 0, "all is as before the stall");
    let unanswered = |(at, _): &&(NsInstant, Kind)| *at > back + NsDuration::from_ms(50) && *at + GOAL < world.now;
    assert_eq!(world.sent.values().filter(unanswered).count(), 0);
}

/// Agents ask again while they are not answered, which is load too. Once about every second request is answered they ask no oftener: keys wait, and several
/// go in a request. When agents want less the overload ends.
#[test]
fn retries_of_agents_do_not_multiply_an_overload() {
    for (agents, percent) in [(500, 150), (500, 400), (5_000, 150)] {
        let mut world = World::new(agents, CAPACITY * percent / 100);
        world.run(3);
        let (answers, drops) = (world.answered, world.stale);
        world.run(5);
        let (answers, drops) = (world.answered - answers, world.stale - drops);
        let (resolved, _) = within(&world.resolved, &seconds(3, 5));
        world.rate = CAPACITY / 2;
        world.run(12);
        let (after, p99) = within(&world.resolved, &seconds(11, 12));
        println!(
            "{agents} agents that want {percent} %: in 2 s {answers} answers, {drops} drops, {resolved} keys; later {after} in 1 s, p99 {p99}"
        );
        assert!(answers * 10 > 2 * CAPACITY * 9, "{answers} answers in 2 s");
        assert!(resolved * 100 > 2 * CAPACITY * percent * 9 / 10, "{resolved} keys in 2 s");
        assert!(after * 10 > CAPACITY * 4 && p99 < GOAL, "{after} in 1 s, p99 {p99}");
        assert!(world.unanswered.iter().all(|&at| at < seconds(10, 11).start) && world.lost == 0, "all are answered again");
    }
}
