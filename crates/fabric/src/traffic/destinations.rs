//! Who sends to whom: the destination of the n-th flow of a host.
//!
//! ```text
//!   members = the hosts that take part, sorted by pod, rack, number
//!             |-------- pod --------|-------- pod --------|
//!             |-- rack --|-- rack --|-- rack --|-- rack --|      Staggered draws from a span without the one inside it
//! ```

use std::ops::Range;

use crate::ids::HostId;
use crate::topology::Fabric;
use crate::traffic::error::{TrafficError, parameter};
use crate::traffic::pattern::Pattern;
use crate::traffic::random::{Draw, below, generator, shuffle, unit};
use crate::traffic::weights::Rows;

/// The destinations of a pattern on a fabric.
#[derive(Clone, Debug)]
pub(super) struct Destinations {
    seed: u64,
    /// The hosts that take part, ascending.
    members: Vec<HostId>,
    /// By host: its position among the members.
    position: Vec<u32>,
    sources: Vec<HostId>,
    kind: Kind,
}

#[derive(Clone, Debug)]
enum Kind {
    Stride {
        offset: usize,
    },
    Staggered {
        edge: f64,
        pod: f64,
        places: Places,
    },
    Random,
    /// By position: the position of the destination.
    Bijection {
        table: Vec<u32>,
    },
    Hotspot {
        hot: Vec<HostId>,
        fraction: f64,
    },
    Incast {
        receiver: HostId,
    },
    Matrix {
        rows: Rows,
    },
}

impl Destinations {
    /// `members` are the hosts that take part, ascending.
    ///
    /// # Errors
    /// A parameter of the pattern that makes no sense, or none for these hosts.
    pub(super) fn new(pattern: &Pattern, fabric: &Fabric, members: Vec<HostId>, seed: u64) -> Result<Self, TrafficError> {
        let count = members.len();
        if count < 2 && !matches!(pattern, Pattern::Incast { .. }) {
            return Err(parameter("hosts", count, "a pattern needs at least two hosts"));
        }
        let mut position = vec![0; fabric.host_count()];
        for (i, host) in members.iter().enumerate() {
            position[host.index()] = i as u32;
        }
        let mut sources = members.clone();
        let kind = match *pattern {
            Pattern::Stride { stride } => Kind::Stride { offset: stride_offset(stride, count)? },
            Pattern::Staggered { edge, pod } => staggered(edge, pod, fabric, &members)?,
            Pattern::Random => Kind::Random,
            Pattern::Bijection => Kind::Bijection { table: derangement(count, seed, 0) },
            Pattern::Hotspot { hotspots, fraction } => hotspot(hotspots, fraction, &members, seed)?,
            Pattern::Incast { fan_in, receiver } => {
                sources = senders(fan_in, receiver, &members, fabric, seed)?;
                Kind::Incast { receiver }
            }
            Pattern::Matrix { ref weights } => {
                let rows = Rows::new(weights, fabric, &members)?;
                sources = rows.sources(&members);
                Kind::Matrix { rows }
            }
            Pattern::Shuffle { .. } | Pattern::ManyToMany { .. } => unreachable!("these patterns draw no destinations"),
        };
        Ok(Self { seed, members, position, sources, kind })
    }

    /// The hosts that send, ascending.
    pub(super) fn sources(&self) -> &[HostId] {
        &self.sources
    }

    /// Prepares for the flows number `round` of all hosts: a bijection has a permutation for each round.
    pub(super) fn begin_round(&mut self, round: u64) {
        if let Kind::Bijection { table } = &mut self.kind {
            *table = derangement(self.members.len(), self.seed, round);
        }
    }

    /// Where the flow number `nth` of `src`, a source, goes. Never `src`.
    pub(super) fn of(&self, src: HostId, nth: u64) -> HostId {
        let draw = || generator(self.seed, Draw::Destination, u64::from(src.0), nth);
        let own = self.position[src.index()] as usize;
        let other = |i: usize| self.members[skip(i, own..own + 1)];
        match &self.kind {
            Kind::Stride { offset } => self.members[(own + offset) % self.members.len()],
            Kind::Staggered { edge, pod, places } => {
                let mut rng = draw();
                let fate = unit(&mut rng);
                let group = usize::from(fate >= *edge) + usize::from(fate >= edge + pod);
                places.draw(own, group, |n| below(&mut rng, n))
            }
            Kind::Random => other(below(&mut draw(), self.members.len() - 1)),
            Kind::Bijection { table } => self.members[table[own] as usize],
            Kind::Hotspot { hot, fraction } => {
                let mut rng = draw();
                let to_hot = unit(&mut rng) < *fraction;
                let hot_self = hot.binary_search(&src);
                match (to_hot, hot_self) {
                    (true, Err(_)) => hot[below(&mut rng, hot.len())],
                    (true, Ok(at)) if hot.len() > 1 => hot[skip(below(&mut rng, hot.len() - 1), at..at + 1)],
                    _ => other(below(&mut rng, self.members.len() - 1)),
                }
            }
            Kind::Incast { receiver } => *receiver,
            Kind::Matrix { rows } => rows.draw(src, &mut draw()),
        }
    }

    /// What a source sends, over the mean of all hosts that take part; where the pattern says nothing, 1.
    pub(super) fn share(&self, src: HostId) -> f64 {
        match &self.kind {
            Kind::Matrix { rows } => rows.share(src),
            _ => 1.0,
        }
    }

    /// A host that receives more than its share, and the part of all flows that go to it.
    pub(super) fn favourite(&self) -> Option<(HostId, f64)> {
        match &self.kind {
            Kind::Incast { receiver } => Some((*receiver, 1.0)),
            Kind::Hotspot { hot, fraction } => Some((hot[0], fraction / hot.len() as f64)),
            Kind::Matrix { rows } => Some(rows.favourite()),
            _ => None,
        }
    }
}

/// The `i`-th number that is not in the hole.
fn skip(i: usize, hole: Range<usize>) -> usize {
    if i < hole.start { i } else { i + hole.len() }
}

fn stride_offset(stride: u64, hosts: usize) -> Result<usize, TrafficError> {
    match (stride % hosts as u64) as usize {
        0 => Err(parameter("stride", stride, format!("a multiple of the {hosts} hosts sends each flow to its own host"))),
        offset => Ok(offset),
    }
}

fn staggered(edge: f64, pod: f64, fabric: &Fabric, members: &[HostId]) -> Result<Kind, TrafficError> {
    for (key, p) in [("edge_p", edge), ("pod_p", pod)] {
        if !(0.0..=1.0).contains(&p) {
            return Err(parameter(key, p, "a probability lies from 0 to 1"));
        }
    }
    if edge + pod > 1.0 + 1e-9 {
        return Err(parameter("pod_p", pod, format!("`edge_p` = {edge} and `pod_p` add up to more than 1")));
    }
    Ok(Kind::Staggered { edge, pod, places: Places::of(fabric, members) })
}

fn hotspot(hotspots: Option<u32>, fraction: f64, members: &[HostId], seed: u64) -> Result<Kind, TrafficError> {
    let count = hotspots.map_or((members.len() / 16).max(1), |n| n as usize);
    if count == 0 || count > members.len() {
        return Err(parameter("hotspots", count, format!("from 1 to the {} hosts that take part", members.len())));
    }
    if !(0.0..=1.0).contains(&fraction) {
        return Err(parameter("fraction", fraction, "a part of the flows lies from 0 to 1"));
    }
    Ok(Kind::Hotspot { hot: some_of(members.to_vec(), count, Draw::Hotspots, seed), fraction })
}

fn senders(
    fan_in: Option<u32>,
    receiver: HostId,
    members: &[HostId],
    fabric: &Fabric,
    seed: u64,
) -> Result<Vec<HostId>, TrafficError> {
    if receiver.index() >= fabric.host_count() {
        return Err(parameter("receiver", receiver, format!("the fabric has hosts 0 to {}", fabric.host_count() - 1)));
    }
    let others: Vec<HostId> = members.iter().copied().filter(|&h| h != receiver).collect();
    let count = fan_in.map_or(others.len(), |n| n as usize);
    if count == 0 || count > others.len() {
        return Err(parameter("fan_in", count, format!("from 1 to the {} other hosts that take part", others.len())));
    }
    Ok(some_of(others, count, Draw::Senders, seed))
}

/// A random subset, ascending.
fn some_of(mut all: Vec<HostId>, count: usize, draw: Draw, seed: u64) -> Vec<HostId> {
    shuffle(&mut generator(seed, draw, 0, 0), &mut all);
    all.truncate(count);
    all.sort_unstable();
    all
}

/// A permutation without fixed points, uniform among them: shuffles until one has none (e = 2.7 on average).
fn derangement(count: usize, seed: u64, round: u64) -> Vec<u32> {
    let mut rng = generator(seed, Draw::Bijection, 0, round);
    let mut table: Vec<u32> = (0..count as u32).collect();
    loop {
        shuffle(&mut rng, &mut table);
        if table.iter().enumerate().all(|(i, &dst)| dst as usize != i) {
            return table;
        }
    }
}

/// The members by pod and rack.
#[derive(Clone, Debug)]
struct Places {
    order: Vec<HostId>,
    /// By position: the member's own place in `order`, that of the members of its rack, of its pod, and of all.
    spans: Vec<[Range<u32>; 4]>,
}

impl Places {
    fn of(fabric: &Fabric, members: &[HostId]) -> Self {
        let mut order: Vec<usize> = (0..members.len()).collect();
        order.sort_by_key(|&i| (fabric.pod_of(members[i]), fabric.rack_of(members[i]), i));
        let n = order.len();
        let mut spans = vec![[0..0, 0..0, 0..0, 0..n as u32]; n];
        let mark = |spans: &mut Vec<[Range<u32>; 4]>, level: usize, same: &dyn Fn(HostId, HostId) -> bool| {
            let mut start = 0;
            for group in order.chunk_by(|&a, &b| same(members[a], members[b])) {
                for &member in group {
                    spans[member][level] = start..start + group.len() as u32;
                }
                start += group.len() as u32;
            }
        };
        mark(&mut spans, 0, &|_, _| false);
        mark(&mut spans, 1, &|a, b| fabric.pod_of(a) == fabric.pod_of(b) && fabric.rack_of(a) == fabric.rack_of(b));
        mark(&mut spans, 2, &|a, b| fabric.pod_of(a) == fabric.pod_of(b));
        Self { order: order.into_iter().map(|i| members[i]).collect(), spans }
    }

    /// A member of the group (0 rack, 1 pod, 2 rest) of the member at `own`, or of the nearest one that is not empty: wider ones first.
    fn draw(&self, own: usize, group: usize, below: impl FnOnce(usize) -> usize) -> HostId {
        let spans = &self.spans[own];
        let count = |g: usize| spans[g + 1].len() - spans[g].len();
        let group = (group..3).chain((0..group).rev()).find(|&g| count(g) > 0).expect("two members or more");
        let [inner, outer] = [&spans[group], &spans[group + 1]];
        let hole = (inner.start - outer.start) as usize..(inner.end - outer.start) as usize;
        self.order[outer.start as usize + skip(below(count(group)), hole)]
    }
}
