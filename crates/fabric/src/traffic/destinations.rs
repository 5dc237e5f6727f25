//! Who sends to whom: the destination of the n-th flow of a host.
//!
//! ```text
//!   fabric  = all hosts, sorted by pod, rack, number
//!             |-------- pod --------|-------- pod --------|
//!             |-- rack --|-- rack --|-- rack --|-- rack --|      Staggered draws from a span without the one inside it
//! ```

use std::ops::Range;

use crate::ids::HostId;
use crate::topology::Fabric;
use crate::traffic::random::{Draw, below, generator, shuffle, unit};
use crate::traffic::spec::{Pattern, TrafficError, parameter};

/// The destinations of a pattern on a fabric.
#[derive(Clone, Debug)]
pub(super) struct Destinations {
    seed: u64,
    hosts: usize,
    sources: Vec<HostId>,
    kind: Kind,
}

#[derive(Clone, Debug)]
enum Kind {
    Stride { offset: usize },
    Staggered { edge: f64, pod: f64, places: Places },
    Random,
    Bijection { table: Vec<HostId> },
    Hotspot { hot: Vec<HostId>, fraction: f64 },
    Incast { receiver: HostId },
}

impl Destinations {
    /// # Errors
    /// A parameter of the pattern that makes no sense, or none on this fabric. The fabric has two hosts at the least.
    pub(super) fn new(pattern: &Pattern, fabric: &Fabric, seed: u64) -> Result<Self, TrafficError> {
        let hosts = fabric.host_count();
        let mut sources: Vec<HostId> = fabric.hosts().collect();
        let kind = match *pattern {
            Pattern::Stride { stride } => Kind::Stride { offset: stride_offset(stride, hosts)? },
            Pattern::Staggered { edge, pod } => staggered(edge, pod, fabric)?,
            Pattern::Random => Kind::Random,
            Pattern::Bijection => Kind::Bijection { table: derangement(hosts, seed, 0) },
            Pattern::Hotspot { hotspots, fraction } => hotspot(hotspots, fraction, hosts, seed)?,
            Pattern::Incast { fan_in, receiver } => {
                sources = senders(fan_in, receiver, hosts, seed)?;
                Kind::Incast { receiver }
            }
            Pattern::Shuffle { .. } => unreachable!("a shuffle draws no destinations"),
        };
        Ok(Self { seed, hosts, sources, kind })
    }

    /// The hosts that send, ascending.
    pub(super) fn sources(&self) -> &[HostId] {
        &self.sources
    }

    /// Prepares for the flows number `round` of all hosts: a bijection has a permutation for each round.
    pub(super) fn begin_round(&mut self, round: u64) {
        if let Kind::Bijection { table } = &mut self.kind {
            *table = derangement(self.hosts, self.seed, round);
        }
    }

    /// Where the flow number `nth` of `src` goes. Never `src`.
    pub(super) fn of(&self, src: HostId, nth: u64) -> HostId {
        let draw = || generator(self.seed, Draw::Destination, u64::from(src.0), nth);
        match &self.kind {
            Kind::Stride { offset } => HostId::from((src.index() + offset) % self.hosts),
            Kind::Staggered { edge, pod, places } => {
                let mut rng = draw();
                let fate = unit(&mut rng);
                let group = usize::from(fate >= *edge) + usize::from(fate >= edge + pod);
                places.draw(src, group, |n| below(&mut rng, n))
            }
            Kind::Random => other(src, below(&mut draw(), self.hosts - 1)),
            Kind::Bijection { table } => table[src.index()],
            Kind::Hotspot { hot, fraction } => {
                let mut rng = draw();
                let to_hot = unit(&mut rng) < *fraction;
                let own = hot.binary_search(&src);
                match (to_hot, own) {
                    (true, Err(_)) => hot[below(&mut rng, hot.len())],
                    (true, Ok(at)) if hot.len() > 1 => hot[skip(below(&mut rng, hot.len() - 1), at..at + 1)],
                    _ => other(src, below(&mut rng, self.hosts - 1)),
                }
            }
            Kind::Incast { receiver } => *receiver,
        }
    }
}

/// The `i`-th host that is not `src`.
pub(super) fn other(src: HostId, i: usize) -> HostId {
    HostId::from(i + usize::from(i >= src.index()))
}

fn skip(i: usize, hole: Range<usize>) -> usize {
    if i < hole.start { i } else { i + hole.len() }
}

fn stride_offset(stride: u64, hosts: usize) -> Result<usize, TrafficError> {
    match (stride % hosts as u64) as usize {
        0 => Err(parameter("stride", stride, format!("a multiple of the {hosts} hosts sends each flow to its own host"))),
        offset => Ok(offset),
    }
}

fn staggered(edge: f64, pod: f64, fabric: &Fabric) -> Result<Kind, TrafficError> {
    for (key, p) in [("edge_p", edge), ("pod_p", pod)] {
        if !(0.0..=1.0).contains(&p) {
            return Err(parameter(key, p, "a probability lies from 0 to 1"));
        }
    }
    if edge + pod > 1.0 + 1e-9 {
        return Err(parameter("pod_p", pod, format!("`edge_p` = {edge} and `pod_p` add up to more than 1")));
    }
    Ok(Kind::Staggered { edge, pod, places: Places::of(fabric) })
}

fn hotspot(hotspots: Option<u32>, fraction: f64, hosts: usize, seed: u64) -> Result<Kind, TrafficError> {
    let count = hotspots.map_or((hosts / 16).max(1), |n| n as usize);
    if count == 0 || count > hosts {
        return Err(parameter("hotspots", count, format!("from 1 to the {hosts} hosts")));
    }
    if !(0.0..=1.0).contains(&fraction) {
        return Err(parameter("fraction", fraction, "a part of the flows lies from 0 to 1"));
    }
    Ok(Kind::Hotspot { hot: some_of((0..hosts).map(HostId::from).collect(), count, Draw::Hotspots, seed), fraction })
}

fn senders(fan_in: Option<u32>, receiver: HostId, hosts: usize, seed: u64) -> Result<Vec<HostId>, TrafficError> {
    if receiver.index() >= hosts {
        return Err(parameter("receiver", receiver, format!("the fabric has hosts 0 to {}", hosts - 1)));
    }
    let count = fan_in.map_or(hosts - 1, |n| n as usize);
    if count == 0 || count >= hosts {
        return Err(parameter("fan_in", count, format!("from 1 to the {} other hosts", hosts - 1)));
    }
    Ok(some_of((0..hosts - 1).map(|i| other(receiver, i)).collect(), count, Draw::Senders, seed))
}

/// A random subset, ascending.
fn some_of(mut all: Vec<HostId>, count: usize, draw: Draw, seed: u64) -> Vec<HostId> {
    shuffle(&mut generator(seed, draw, 0, 0), &mut all);
    all.truncate(count);
    all.sort_unstable();
    all
}

/// A permutation without fixed points, uniform among them: shuffles until one has none (e = 2.7 on average).
fn derangement(hosts: usize, seed: u64, round: u64) -> Vec<HostId> {
    let mut rng = generator(seed, Draw::Bijection, 0, round);
    let mut table: Vec<HostId> = (0..hosts).map(HostId::from).collect();
    loop {
        shuffle(&mut rng, &mut table);
        if table.iter().enumerate().all(|(i, dst)| dst.index() != i) {
            return table;
        }
    }
}

/// The hosts by pod and rack.
#[derive(Clone, Debug)]
struct Places {
    order: Vec<HostId>,
    /// By host: its own place in `order`, that of the hosts of its rack, of its pod, and of all.
    spans: Vec<[Range<u32>; 4]>,
}

impl Places {
    fn of(fabric: &Fabric) -> Self {
        let mut order: Vec<HostId> = fabric.hosts().collect();
        order.sort_by_key(|&h| (fabric.pod_of(h), fabric.rack_of(h), h));
        let n = order.len();
        let mut spans = vec![[0..0, 0..0, 0..0, 0..n as u32]; n];
        let mark = |spans: &mut Vec<[Range<u32>; 4]>, level: usize, same: &dyn Fn(HostId, HostId) -> bool| {
            let mut start = 0;
            for group in order.chunk_by(|&a, &b| same(a, b)) {
                for host in group {
                    spans[host.index()][level] = start..start + group.len() as u32;
                }
                start += group.len() as u32;
            }
        };
        mark(&mut spans, 0, &|_, _| false);
        mark(&mut spans, 1, &|a, b| fabric.pod_of(a) == fabric.pod_of(b) && fabric.rack_of(a) == fabric.rack_of(b));
        mark(&mut spans, 2, &|a, b| fabric.pod_of(a) == fabric.pod_of(b));
        Self { order, spans }
    }

    /// A host of the group (0 rack, 1 pod, 2 rest) of `src`, or of the nearest one that is not empty: wider ones first.
    fn draw(&self, src: HostId, group: usize, below: impl FnOnce(usize) -> usize) -> HostId {
        let spans = &self.spans[src.index()];
        let count = |g: usize| spans[g + 1].len() - spans[g].len();
        let group = (group..3).chain((0..group).rev()).find(|&g| count(g) > 0).expect("a fabric of two hosts or more");
        let [inner, outer] = [&spans[group], &spans[group + 1]];
        let hole = (inner.start - outer.start) as usize..(inner.end - outer.start) as usize;
        self.order[outer.start as usize + skip(below(count(group)), hole)]
    }
}
