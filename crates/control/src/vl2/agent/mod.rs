//! The VL2 agent of a host (VL2, sections 4.2 and 4.3): what the data plane may do with which address. No I/O: what happened and when comes in,
//! what is to be done goes out.
//!
//! ```text
//!   data plane:  Asked (ARP, NDP), Missed (a packet, held under a token) --+
//!                                                                          v
//!                                    peers: known? --no--> Resolver --> directory servers
//!                                      | yes                  |
//!                                      v                      v Found          Forbidden, Unknown, nobody answers
//!   data plane:  SetPeer, SetGroup, Inject (an answer), Release (a packet)     RefusePeer, Drop
//!                RemovePeer <--- withdrawn, corrected (within a second), or unconfirmed for longer than is allowed
//!
//!   configuration, operator:  Attach, Detach --> own: confirmed by the directory --> SetLocal, Join; the ToR is notified until it answers
//! ```
//! Kept here, and checked by the tests:
//! 1. The data plane has a peer only while the resolver may use its mapping; none whose lookup was refused.
//! 2. Every packet that came in by a token goes out once: released or dropped, with a reason. What waits is bounded.
//! 3. Nobody is answered who asks for an address of this host, or who has no address himself (duplicate address detection).
//! 4. The same inputs give the same outputs.
//!
//! Addresses of one host may be of several services: each has its own peers, and what one may resolve another need not.

mod attachment;
mod held;
mod io;
mod limits;
mod own;
mod peers;
mod servers;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, SocketAddr};

use weft_fabric::MacAddr;
use weft_fabric::rng::Pcg64;

use crate::bucket::Bucket;
use crate::directory::auth::PrincipalKey;
use crate::directory::resolver::{self, Resolver, ResolverConfig, ResolverCounts};
use crate::directory::{Generation, Key, Mapping};
use crate::prefix::Prefix;
use crate::time::{Duration, Instant};
use crate::wire::packet::ip::Flow;
use crate::wire::vl2::attach::AttachKey;

pub use attachment::AttachState;
pub use held::HeldLimits;
pub use io::{AgentCounts, Input, Output, Peer, PeerKey, Reason};
pub use limits::{REHASH_INTERVAL, REHASH_RATE, Rehash};
pub use own::{OwnState, OwnView};
pub use peers::PeerView;
pub use servers::DIRECTORY_GROUP;

/// Answers ARP and NDP for peers whose mapping names no MAC.
pub const VIRTUAL_MAC: MacAddr = MacAddr([0x02, 0x57, 0x46, 0x54, 0x00, 0x01]);

/// Configuration of an agent.
#[derive(Clone, Debug)]
pub struct AgentConfig {
    /// How it speaks to the directory, and as whom.
    pub resolver: ResolverConfig,
    /// Who publishes the locations of this host's addresses.
    pub announce: Announce,
    /// Whether packets go through the intermediate switches of a mapping's group.
    pub through_groups: bool,
    /// Broadcasts of a service go to the address of this prefix that has the service's number; none: nowhere.
    pub multicast: Option<Prefix>,
    /// How much waits for the directory.
    pub held: HeldLimits,
    /// How long the data plane drops packets of a refused address by itself.
    pub refused: Duration,
    /// The most refused addresses that it is given.
    pub refused_max: usize,
    /// A flow is re-hashed at most once in this time.
    pub rehash_interval: Duration,
    /// The most flows re-hashed per second.
    pub rehash_rate: u32,
}

impl AgentConfig {
    /// The usual settings.
    pub fn new(resolver: ResolverConfig) -> Self {
        Self {
            resolver,
            announce: Announce::Nobody,
            through_groups: true,
            multicast: None,
            held: HeldLimits::default(),
            refused: Duration::from_ms(500),
            refused_max: 4096,
            rehash_interval: REHASH_INTERVAL,
            rehash_rate: REHASH_RATE,
        }
    }
}

/// Who publishes the locations of this host's addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Announce {
    /// The provisioning system.
    Nobody,
    /// The ToR, at this address.
    Tor {
        /// Where it listens.
        address: SocketAddr,
        /// It is notified again after this time.
        refresh: Duration,
    },
    /// The host itself: it puts its own locator address into the directory.
    Itself,
}

/// The agent's machine.
#[derive(Debug)]
pub struct Agent {
    config: AgentConfig,
    key: AttachKey,
    resolver: Resolver,
    rng: Pcg64,
    now: Instant,
    start: Instant,
    last_sequence: u64,
    /// Until when the ToR is sent the older version of the protocol.
    tor_is_older_until: Option<Instant>,
    own: BTreeMap<IpAddr, own::Own>,
    servers: servers::Servers,
    peers: peers::Peers,
    held: held::Held,
    rehash: Rehash<Flow>,
    notify: Bucket,
    out: VecDeque<Output>,
    counts: AgentCounts,
}

/// The purpose of a lookup.
const PEER: u64 = 0;
const OWN: u64 = 1;
const GROUP: u64 = 2;
const SERVERS: u64 = 3;

impl Agent {
    /// An agent that knows no server and has no address.
    pub fn new(config: AgentConfig, key: &PrincipalKey, mut rng: Pcg64) -> Self {
        use rand::RngExt;
        let inner = Pcg64::new(u128::from(rng.random::<u64>()), 1);
        Self {
            key: AttachKey::of(key),
            resolver: Resolver::new(config.resolver, key, inner),
            rng,
            now: Instant::ZERO,
            start: Instant::ZERO,
            last_sequence: config.resolver.first_request,
            tor_is_older_until: None,
            own: BTreeMap::new(),
            servers: servers::Servers::default(),
            peers: peers::Peers::default(),
            held: held::Held::new(config.held),
            rehash: Rehash::new(config.rehash_interval, config.rehash_rate),
            notify: Bucket::new(NOTIFIES_PER_S, NOTIFIES_PER_S),
            out: VecDeque::new(),
            counts: AgentCounts::default(),
            config,
        }
    }

    /// Something happened. Time must not go back.
    pub fn handle(&mut self, now: Instant, input: Input<'_>) {
        if self.start == Instant::ZERO {
            self.start = now;
        }
        self.now = self.now.max(now);
        match input {
            Input::Datagram { from, bytes } => self.resolver.handle(self.now, resolver::Input::Datagram { from, bytes }),
            Input::SetServers(servers) => self.set_servers(servers),
            Input::AttachDatagram { from, bytes } => self.attach_datagram(from, bytes),
            Input::Asked { target, asker, asker_mac } => self.asked(target, asker, asker_mac),
            Input::Missed { local, peer, bytes, token } => self.missed(local, peer, bytes, token),
            Input::Congested(flow) => self.congested(flow),
            Input::Attach { address, mac } => self.attach(address, mac),
            Input::Detach(address) => self.detach(address),
            Input::Adopted(key) => self.adopted(key),
            Input::Announced { address, result } => self.announced(address, result),
            Input::Timer => self.resolver.handle(self.now, resolver::Input::Timer),
        }
        self.run_timers();
        self.drain();
    }

    /// What is to be done next; `None`: nothing until the next input.
    pub fn poll(&mut self) -> Option<Output> {
        self.out.pop_front()
    }

    /// When [`Input::Timer`] is due; `None`: nothing is under way.
    pub fn deadline(&self) -> Option<Instant> {
        let resolver = self.resolver.deadline().unwrap_or(Instant::MAX);
        let at =
            resolver.min(self.held.deadline()).min(self.peers.deadline()).min(self.own_deadline()).min(self.servers_deadline());
        (at != Instant::MAX).then_some(at)
    }

    /// What has been counted.
    pub const fn counts(&self) -> &AgentCounts {
        &self.counts
    }

    /// What the resolver has counted.
    pub fn resolver_counts(&self) -> ResolverCounts {
        self.resolver.counts()
    }

    /// Since when the directory has confirmed nothing, if that is longer than it takes while a server answers.
    pub fn unconfirmed_since(&self) -> Option<Instant> {
        self.resolver.unconfirmed_since()
    }

    /// Packets and questions that wait for the directory, and their bytes.
    pub const fn held(&self) -> (usize, usize) {
        self.held.size()
    }

    fn resolve(&mut self, key: Key, asker: Option<Key>, token: u64) {
        self.resolver.handle(self.now, resolver::Input::Resolve { key, asker, token });
    }

    /// Does what the resolver wants done, which may make it want more.
    fn drain(&mut self) {
        while let Some(output) = self.resolver.poll() {
            match output {
                resolver::Output::Send { to, bytes } => self.out.push_back(Output::Send { to, bytes }),
                resolver::Output::Resolved { token, key, asker, resolution } => match (token, key) {
                    (SERVERS, _) => self.servers_resolved(&resolution),
                    (GROUP, Key::Group(group)) => self.group_resolved(group, &resolution),
                    (OWN, key) => self.own_resolved(key, resolution),
                    (_, key) => self.peer_resolved(key, asker, resolution),
                },
                resolver::Output::Invalidated { key, asker } => self.invalidated(key, asker),
            }
        }
    }

    fn invalidated(&mut self, key: Key, asker: Option<Key>) {
        self.counts.invalidated += 1;
        match key {
            Key::Group(DIRECTORY_GROUP) => self.ask_for_servers(),
            Key::Group(group) => self.group_invalidated(group),
            _ if asker == Some(key) => self.own_invalidated(key),
            _ => self.peer_invalidated(key, asker),
        }
    }

    fn congested(&mut self, flow: Flow) {
        use rand::RngExt;
        if !self.own.contains_key(&flow.source) || !self.rehash.congested(flow, self.now) {
            return self.counts.rehash_limited += 1;
        }
        self.counts.rehashed += 1;
        self.out.push_back(Output::Salt { flow, salt: self.rng.random() });
    }

    fn run_timers(&mut self) {
        for waiting in self.held.expire(self.now) {
            self.drop_waiting(&waiting, Reason::Expired);
        }
        self.expire_peers();
        self.own_timers();
        self.servers_timers();
        self.resolver.handle(self.now, resolver::Input::Timer);
    }

    /// The greatest number of a message so far: another machine in the place of this one begins after it.
    pub const fn last_sequence(&self) -> u64 {
        self.last_sequence
    }

    /// A number that no message had before, nanoseconds since 1970 if [`ResolverConfig::first_request`] was.
    fn fresh_sequence(&mut self) -> u64 {
        let elapsed = self.now.saturating_since(self.start).as_ns();
        self.last_sequence = self.config.resolver.first_request.saturating_add(elapsed).max(self.last_sequence + 1);
        self.last_sequence
    }
}

/// The key of an application address.
const fn key_of(address: IpAddr) -> Key {
    match address {
        IpAddr::V4(address) => Key::App4(address),
        IpAddr::V6(address) => Key::App6(address),
    }
}

/// The application address of a key.
const fn address_of(key: Key) -> Option<IpAddr> {
    match key {
        Key::App4(address) => Some(IpAddr::V4(address)),
        Key::App6(address) => Some(IpAddr::V6(address)),
        _ => None,
    }
}

/// What the directory said of an address, as the agent keeps it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Known {
    generation: Generation,
    mapping: Mapping,
}

/// ICMP errors to this host's own senders, a second.
const NOTIFIES_PER_S: u32 = 100;
