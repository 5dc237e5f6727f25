//! Many agents that hold much, a few servers, and a store whose commits reach all of them: real machines and bytes, on one clock.
//!
//! ```text
//!   moves --> store --1 to 4 ms--> servers <--50 to 150 us, 0.5 % lost--> agents      each host has 10 addresses, each agent holds 100 of others
//! ```

use std::collections::BTreeMap;
use std::net::SocketAddr;

use rand::RngExt;
use weft_control::directory::auth::{Cookies, Secret};
use weft_control::directory::policy::Policy;
use weft_control::directory::resolver::{self, Resolver, ResolverConfig};
use weft_control::directory::server::{self, LoadEnd, Server, ServerConfig};
use weft_control::directory::store::Stored;
use weft_control::directory::{Generation, GroupId, Key, Locator, Mapping, PrincipalId, Record, ServiceId, UpdateId, Value};
use weft_fabric::rng::{Pcg64, mix};
use weft_fabric::time::{NsDuration, NsInstant};

pub const HELD: u32 = 100;
pub const ADDRESSES: u32 = 10;
/// One address in so many is of the service that the second policy does not allow any more.
const OTHERS: u32 = 10;

pub struct World {
    pub now: NsInstant,
    pub agents: Vec<Resolver>,
    pub servers: Vec<Server>,
    /// By key: the agents that hold it.
    pub holders: Vec<Vec<u32>>,
    /// By server: the datagrams that it received in each tenth of a second, by type.
    pub received: Vec<BTreeMap<(u64, u8), u64>>,
    /// Datagrams that servers sent.
    pub sent: u64,
    pub rng: Pcg64,
    events: BTreeMap<(NsInstant, u64), Event>,
    last_event: u64,
    timers: BTreeMap<Node, NsInstant>,
    revision: u64,
    /// Whether agents look up again what is taken from them.
    pub are_busy: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Node {
    Server(u32),
    Agent(u32),
}

enum Event {
    Datagram { from: Node, to: Node, bytes: Vec<u8> },
    Timer(Node),
    Watched { server: u32, generation: u64, key: u32, owner: u32 },
}

impl Node {
    fn address(self) -> SocketAddr {
        match self {
            Self::Server(n) => SocketAddr::from(([10, 0, 0, n as u8 + 1], 5303)),
            Self::Agent(n) => SocketAddr::from(((0x0b00_0000 + n).to_be_bytes(), 7000)),
        }
    }

    fn at(address: SocketAddr) -> Self {
        let SocketAddr::V4(address) = address else { panic!("IPv4") };
        let bits = address.ip().to_bits();
        if bits >> 24 == 10 { Self::Server((bits & 255) - 1) } else { Self::Agent(bits - 0x0b00_0000) }
    }
}

/// An address; that of host `n` with the lowest number is the one on whose behalf its agent asks.
pub fn key(n: u32) -> Key {
    Key::App4((0x1400_0000 + n).into())
}

pub fn home(agent: u32) -> Key {
    key(agent * ADDRESSES)
}

/// Whether the second policy allows nobody of another service to know an address.
pub fn is_of_other_service(key: &Key) -> bool {
    matches!(key, Key::App4(ip) if (ip.to_bits() - 0x1400_0000) % OTHERS == 7)
}

fn principal(agent: u32) -> PrincipalId {
    PrincipalId(100_000 + agent)
}

fn stored(generation: u64, n: u32, owner: u32) -> Stored {
    let value = Value::Mapping(Mapping {
        locator: Locator::V4((0x0b00_0000 + owner).into()),
        mac: None,
        group: GroupId(0),
        service: ServiceId(if is_of_other_service(&key(n)) { 2 } else { 1 }),
        owner: principal(owner),
        lease_ms: 60_000,
    });
    let record = Record::next(None, Generation(0), UpdateId { writer: PrincipalId(99), number: generation }, Some(value));
    Stored { key: key(n), generation: Generation(generation), record: Some(record) }
}

pub fn policy(version: u32, servers: u32) -> Policy {
    let allow = if version == 1 { "\"one\"" } else { "" };
    let mut text = format!(
        "version = {version}\n[[service]]\nname = \"one\"\nid = 1\n[[service]]\nname = \"two\"\nid = 2\nallow = [{allow}]\n"
    );
    (0..servers).for_each(|n| text += &format!("[[principal]]\nid = {}\nrole = \"server\"\n", n + 1));
    Policy::parse(&text).expect("a good policy")
}

impl World {
    /// Servers that have everything, and agents that hold nothing yet.
    pub fn new(agents: u32, servers: u32, seed: u64) -> Self {
        let secret = Secret::new([7; 32]);
        let stream = |n: u64| Pcg64::new(u128::from(mix(seed ^ n)), 11);
        let addresses: Vec<SocketAddr> = (0..servers).map(|n| Node::Server(n).address()).collect();
        let mut world = Self {
            now: NsInstant::from_ns(1_000_000_000),
            agents: Vec::new(),
            servers: Vec::new(),
            holders: vec![Vec::new(); (agents * ADDRESSES) as usize],
            received: vec![BTreeMap::new(); servers as usize],
            sent: 0,
            rng: stream(1),
            events: BTreeMap::new(),
            last_event: 0,
            timers: BTreeMap::new(),
            revision: 1,
            are_busy: true,
        };
        for n in 0..servers {
            let peers = addresses.iter().copied().filter(|&at| at != Node::Server(n).address()).collect();
            let config = ServerConfig::new(PrincipalId(n + 1), peers);
            let cookies = Cookies::new([n as u8; 16]);
            let mut server = Server::new(config, secret.clone(), cookies, policy(1, servers), stream(100 + u64::from(n)));
            for part in 0..agents {
                let entries = (0..ADDRESSES).map(|at| stored(1, part * ADDRESSES + at, part)).collect();
                server.handle(world.now, server::Input::Loaded { load: 1, entries, end: None });
            }
            let end = Some(LoadEnd { revision: Generation(1), purged: Generation(0) });
            server.handle(world.now, server::Input::Loaded { load: 1, entries: Vec::new(), end });
            world.servers.push(server);
            world.drain(Node::Server(n));
        }
        for n in 0..agents {
            let config = ResolverConfig::new(principal(n));
            let mut agent = Resolver::new(config, &secret.key_of(principal(n)), stream(1_000 + u64::from(n)));
            agent.handle(world.now, resolver::Input::SetServers(&addresses));
            world.agents.push(agent);
        }
        world
    }

    /// Every agent looks up what it is to hold, over five seconds; only of the addresses that may be held.
    pub fn fill(&mut self, may: impl Fn(u32) -> bool) {
        let agents = self.agents.len() as u32;
        let start = self.now;
        for n in 0..agents {
            self.run_until(start + NsDuration::from_us(5_000_000 * u64::from(n) / u64::from(agents)));
            let mut held: Vec<u32> = (0..HELD).map(|_| self.rng.random_range(0..agents * ADDRESSES)).collect();
            held.retain(|&key| may(key));
            held.sort_unstable();
            held.dedup();
            for key in held {
                self.holders[key as usize].push(n);
                self.resolve(n, self::key(key));
            }
            self.drain(Node::Agent(n));
        }
    }

    fn resolve(&mut self, agent: u32, key: Key) {
        let input = resolver::Input::Resolve { key, asker: Some(home(agent)), token: 0 };
        self.agents[agent as usize].handle(self.now, input);
    }

    /// An address moves to another host. Gives the generation.
    pub fn move_key(&mut self, key: u32, owner: u32) -> Generation {
        self.revision += 1;
        let generation = self.revision;
        for server in 0..self.servers.len() as u32 {
            let at = self.now + NsDuration::from_ms(1 + u64::from(server) % 4);
            self.schedule(at, Event::Watched { server, generation, key, owner });
        }
        Generation(generation)
    }

    pub fn set_policy(&mut self, version: u32) {
        let servers = self.servers.len() as u32;
        for n in 0..servers {
            self.input_server(n, server::Input::Policy(policy(version, servers)));
        }
    }

    pub fn run_until(&mut self, end: NsInstant) {
        while let Some(entry) = self.events.first_entry().filter(|entry| entry.key().0 <= end) {
            let ((at, _), event) = entry.remove_entry();
            self.now = at;
            match event {
                Event::Datagram { from, to, bytes } => self.arrive(from, to, bytes),
                Event::Timer(node) if self.timers.get(&node) == Some(&at) => {
                    self.timers.remove(&node);
                    match node {
                        Node::Server(n) => self.input_server(n, server::Input::Timer),
                        Node::Agent(n) => {
                            self.agents[n as usize].handle(at, resolver::Input::Timer);
                            self.drain(node);
                        }
                    }
                }
                Event::Timer(_) => {}
                Event::Watched { server, generation, key, owner } => {
                    let changes = vec![stored(generation, key, owner)];
                    let (from, revision) = (Generation(generation - 1), Generation(generation));
                    self.input_server(server, server::Input::Watched { from, revision, changes });
                }
            }
        }
        self.now = self.now.max(end);
    }

    pub fn pass(&mut self, ms: u64) {
        self.run_until(self.now + NsDuration::from_ms(ms));
    }

    fn arrive(&mut self, from: Node, to: Node, bytes: Vec<u8>) {
        match to {
            Node::Server(n) => {
                let tenth = self.now.as_ns() / 100_000_000;
                *self.received[n as usize].entry((tenth, bytes[3])).or_default() += 1;
                self.input_server(n, server::Input::Datagram { from: from.address(), bytes });
            }
            Node::Agent(n) => {
                let input = resolver::Input::Datagram { from: from.address(), bytes: &bytes };
                self.agents[n as usize].handle(self.now, input);
                self.drain(to);
            }
        }
    }

    fn input_server(&mut self, n: u32, input: server::Input) {
        self.servers[n as usize].handle(self.now, input);
        self.drain(Node::Server(n));
    }

    fn drain(&mut self, node: Node) {
        let deadline = match node {
            Node::Server(n) => {
                while let Some(output) = self.servers[n as usize].poll() {
                    if let server::Output::Send { to, bytes } = output {
                        self.sent += 1;
                        self.transmit(node, Node::at(to), bytes);
                    }
                }
                self.servers[n as usize].deadline()
            }
            Node::Agent(n) => {
                while let Some(output) = self.agents[n as usize].poll() {
                    match output {
                        resolver::Output::Send { to, bytes } => self.transmit(node, Node::at(to), bytes),
                        resolver::Output::Invalidated { key, .. } if self.are_busy => self.resolve(n, key),
                        _ => {}
                    }
                }
                self.agents[n as usize].deadline()
            }
        };
        let Some(at) = deadline.map(|at| at.max(self.now + NsDuration::from_ns(1))) else { return };
        if self.timers.get(&node).is_none_or(|&set| at < set) {
            self.timers.insert(node, at);
            self.schedule(at, Event::Timer(node));
        }
    }

    fn transmit(&mut self, from: Node, to: Node, bytes: Vec<u8>) {
        if self.rng.random_range(0..200) > 0 {
            let after = NsDuration::from_us(self.rng.random_range(50..150));
            self.schedule(self.now + after, Event::Datagram { from, to, bytes });
        }
    }

    fn schedule(&mut self, at: NsInstant, event: Event) {
        self.last_event += 1;
        self.events.insert((at, self.last_event), event);
    }
}
