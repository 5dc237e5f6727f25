//! A network of datagrams between a few nodes: latency, loss, duplication, reordering (by unequal latency), and links cut in one direction
//! or both. Everything is drawn from one seeded generator.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use rand::RngExt;
use smallvec::SmallVec;
use weft_fabric::Duration;
use weft_fabric::rng::Pcg64;

/// Somebody who sends and receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Node {
    /// A directory server.
    Server(u16),
    /// A host's agent.
    Agent(u16),
    /// A provisioning system.
    Writer(u16),
    /// The switches that report misdelivered packets.
    Switch,
    /// An operator's program, which uses streams.
    Operator(u16),
    /// The store behind the servers.
    Store,
}

impl Node {
    /// Where it listens.
    pub fn address(self) -> SocketAddr {
        let (kind, number) = match self {
            Self::Server(n) => (1, n),
            Self::Agent(n) => (2, n),
            Self::Writer(n) => (3, n),
            Self::Switch => (4, 0),
            Self::Store => (5, 0),
            Self::Operator(n) => (6, n),
        };
        let [high, low] = number.to_be_bytes();
        SocketAddr::from(([10, kind, high, low], 5303))
    }

    /// Who listens there.
    pub fn at(address: SocketAddr) -> Option<Self> {
        let std::net::IpAddr::V4(ip) = address.ip() else { return None };
        let [_, kind, high, low] = ip.octets();
        let number = u16::from_be_bytes([high, low]);
        Some(match kind {
            1 => Self::Server(number),
            2 => Self::Agent(number),
            3 => Self::Writer(number),
            4 => Self::Switch,
            5 => Self::Store,
            6 => Self::Operator(number),
            _ => return None,
        })
    }
}

/// What the network does to a datagram.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Impairments {
    /// The least one-way latency.
    pub latency: Duration,
    /// The most that is added to it, uniform.
    pub jitter: Duration,
    /// Fraction of the datagrams between clients and servers that is lost.
    pub loss: f64,
    /// The same between servers.
    pub peer_loss: f64,
    /// Fraction of the datagrams that is duplicated.
    pub duplicate: f64,
    /// Fraction of the datagrams that is delayed,
    pub delayed: f64,
    /// by at most this.
    pub delay: Duration,
}

impl Impairments {
    /// No impairments: the latency of a lightly loaded data centre.
    pub const NONE: Self = Self {
        latency: Duration::from_us(50),
        jitter: Duration::from_us(50),
        loss: 0.0,
        peer_loss: 0.0,
        duplicate: 0.0,
        delayed: 0.0,
        delay: Duration::ZERO,
    };
}

/// The network.
#[derive(Debug)]
pub struct Network {
    /// What it does to datagrams now.
    pub impairments: Impairments,
    cut: BTreeSet<(Node, Node)>,
    rng: Pcg64,
}

impl Network {
    /// A network in which every node reaches every other.
    pub const fn new(impairments: Impairments, rng: Pcg64) -> Self {
        Self { impairments, cut: BTreeSet::new(), rng }
    }

    /// Nothing passes from one node to the other any more; the other direction is not touched.
    pub fn cut(&mut self, from: Node, to: Node) {
        self.cut.insert((from, to));
    }

    /// All cuts are mended.
    pub fn mend(&mut self) {
        self.cut.clear();
    }

    /// Whether anything passes from one to the other.
    pub fn is_open(&self, from: Node, to: Node) -> bool {
        !self.cut.contains(&(from, to))
    }

    /// After how long each copy of a datagram arrives; none if it is lost.
    pub fn transmit(&mut self, from: Node, to: Node) -> SmallVec<[Duration; 2]> {
        let mut copies = SmallVec::new();
        if !self.is_open(from, to) {
            return copies;
        }
        let impairments = self.impairments;
        let is_peer = matches!((from, to), (Node::Server(_), Node::Server(_)));
        let loss = if is_peer { impairments.peer_loss } else { impairments.loss };
        let sent = 1 + usize::from(self.chance(impairments.duplicate));
        for _ in 0..sent {
            if !self.chance(loss) {
                copies.push(self.latency());
            }
        }
        copies
    }

    /// One draw of the latency.
    pub fn latency(&mut self) -> Duration {
        let impairments = self.impairments;
        let mut after = impairments.latency + self.up_to(impairments.jitter);
        if self.chance(impairments.delayed) {
            after = after + self.up_to(impairments.delay);
        }
        after
    }

    fn chance(&mut self, part: f64) -> bool {
        part > 0.0 && self.rng.random::<f64>() < part
    }

    fn up_to(&mut self, most: Duration) -> Duration {
        Duration::from_ps(self.rng.random_range(0..=most.as_ps()))
    }
}
