//! The hot loop: one pass over all flows, in random order, a tick.
//!
//! A flow is 32 bytes: bytes left, rate, and the numbers of the links on its path. The pass shuffles as it goes (Fisher and Yates:
//! draw one of the flows not visited yet, swap it forward, visit it), so a visit costs one flow and the residuals of its links:
//!
//! ```text
//!   flows      [ visited ... | i | ... not yet ... j ... ]     swap i and j, visit i
//!   residuals  [ what is left of each link, in quanta ]        least on the path decides; all of them pay
//! ```
//! Rates are whole quanta, so that a link's residual is exactly its capacity less the rates of its flows, always.

use rand::Rng;
use smallvec::SmallVec;
use weft_fabric::rng::Pcg64;

/// Rates of a tick, in quanta.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    /// Additive increase.
    pub increase: u32,
    /// What slow start begins with.
    pub initial: u32,
}

/// A flow under way, outside the lanes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub slot: u32,
    /// Quanta x ticks until its last byte.
    pub left: i64,
    pub rate: u32,
    pub slow_start: bool,
    pub links: SmallVec<[u32; 8]>,
}

/// The flows in their present order.
pub(crate) trait Lanes: Send {
    fn len(&self) -> usize;

    /// Links that a path may have.
    fn width(&self) -> usize;

    /// Visits all flows once. Appends the places of those that have nothing left, ascending; returns the sum of the rates.
    fn pass(&mut self, residuals: &mut [u32], step: Step, random: &mut Draws, finished: &mut Vec<u32>) -> u64;

    fn push(&mut self, entry: &Entry);

    /// The flow at a place.
    fn get(&self, place: usize) -> Entry;

    /// Its slot.
    fn slot(&self, place: usize) -> u32;

    /// What it has left.
    fn left(&self, place: usize) -> i64;

    /// Takes a flow out; the last one takes its place.
    fn swap_remove(&mut self, place: usize);
}

/// Lanes for paths of up to so many links among so many.
pub(crate) fn lanes(path: usize, links: usize) -> Box<dyn Lanes> {
    // One number is taken by the link that nobody fills.
    if links < usize::from(u16::MAX) { of_width::<u16>(path, links) } else { of_width::<u32>(path, links) }
}

fn of_width<I: Index>(path: usize, links: usize) -> Box<dyn Lanes> {
    match path {
        0..=2 => Box::new(Packed::<I, 2>::new(links)),
        3..=4 => Box::new(Packed::<I, 4>::new(links)),
        5..=6 => Box::new(Packed::<I, 6>::new(links)),
        7..=8 => Box::new(Packed::<I, 8>::new(links)),
        9..=16 => Box::new(Packed::<I, 16>::new(links)),
        17..=64 => Box::new(Packed::<I, 64>::new(links)),
        65..=512 => Box::new(Packed::<I, 512>::new(links)),
        _ => panic!("a path of {path} links: no fabric is so long"),
    }
}

/// A link's number in few bits.
trait Index: Copy + Send + 'static {
    fn from_link(link: usize) -> Self;
    fn link(self) -> usize;
}

impl Index for u16 {
    fn from_link(link: usize) -> Self {
        Self::try_from(link).expect("the lanes are wide enough for the fabric")
    }
    #[inline(always)]
    fn link(self) -> usize {
        usize::from(self)
    }
}

impl Index for u32 {
    fn from_link(link: usize) -> Self {
        Self::try_from(link).expect("links have 32-bit numbers")
    }
    #[inline(always)]
    fn link(self) -> usize {
        self as usize
    }
}

#[derive(Clone, Copy)]
struct Flow<I, const L: usize> {
    left: i64,
    /// The rate, with [`SLOW_START`].
    rate: u32,
    slot: u32,
    /// Padded with the link that nobody fills.
    links: [I; L],
}

struct Packed<I, const L: usize> {
    flows: Vec<Flow<I, L>>,
    /// The number of the link that nobody fills: the one after the last.
    spare: usize,
}

impl<I: Index, const L: usize> Packed<I, L> {
    fn new(links: usize) -> Self {
        Self { flows: Vec::new(), spare: links }
    }
}

impl<I: Index, const L: usize> Lanes for Packed<I, L> {
    fn len(&self) -> usize {
        self.flows.len()
    }

    fn width(&self) -> usize {
        L
    }

    fn pass(&mut self, residuals: &mut [u32], step: Step, random: &mut Draws, finished: &mut Vec<u32>) -> u64 {
        let count = self.flows.len();
        let residuals = &mut residuals[..=self.spare];
        let mut sum = 0u64;
        for i in 0..count {
            let j = i + random.below((count - i) as u32) as usize;
            self.flows.swap(i, j);
            let flow = &mut self.flows[i];
            let mut free = u32::MAX;
            for link in flow.links {
                free = free.min(residuals[link.link()]);
            }
            let rate = flow.rate & !SLOW_START;
            let slow = flow.rate & SLOW_START;
            let wanted = if slow != 0 { rate.max(step.initial) } else { step.increase };
            let grown = rate + wanted.min(free);
            let next = if free == 0 { rate / 2 } else { grown };
            flow.rate = if free == 0 { next } else { next | slow };
            for link in flow.links {
                let residual = &mut residuals[link.link()];
                *residual = residual.wrapping_add(rate).wrapping_sub(next);
            }
            residuals[self.spare] = u32::MAX;
            flow.left -= i64::from(next);
            sum += u64::from(next);
            if flow.left <= 0 {
                finished.push(i as u32);
            }
        }
        sum
    }

    fn push(&mut self, entry: &Entry) {
        let mut links = [I::from_link(self.spare); L];
        for (to, &from) in links.iter_mut().zip(&entry.links) {
            *to = I::from_link(from as usize);
        }
        let rate = entry.rate | if entry.slow_start { SLOW_START } else { 0 };
        self.flows.push(Flow { left: entry.left, rate, slot: entry.slot, links });
    }

    fn get(&self, place: usize) -> Entry {
        let flow = &self.flows[place];
        Entry {
            slot: flow.slot,
            left: flow.left,
            rate: flow.rate & !SLOW_START,
            slow_start: flow.rate & SLOW_START != 0,
            links: flow.links.iter().map(|l| l.link() as u32).filter(|&l| l as usize != self.spare).collect(),
        }
    }

    fn slot(&self, place: usize) -> u32 {
        self.flows[place].slot
    }

    fn left(&self, place: usize) -> i64 {
        self.flows[place].left
    }

    fn swap_remove(&mut self, place: usize) {
        self.flows.swap_remove(place);
    }
}

/// Uniform integers, two from each 64 random bits.
#[derive(Clone, Debug)]
pub(crate) struct Draws {
    rng: Pcg64,
    /// The half not used yet.
    spare: Option<u32>,
}

impl Draws {
    pub fn new(rng: Pcg64) -> Self {
        Self { rng, spare: None }
    }

    /// Uniform in `0..n`, without bias (Lemire 2019): the product's upper half, drawn again if its lower half is among the few
    /// that would favour some results.
    #[inline(always)]
    pub fn below(&mut self, n: u32) -> u32 {
        loop {
            let product = u64::from(self.next()) * u64::from(n);
            let low = product as u32;
            if low >= n || low >= n.wrapping_neg() % n {
                return (product >> 32) as u32;
            }
        }
    }

    #[inline(always)]
    fn next(&mut self) -> u32 {
        if let Some(half) = self.spare.take() {
            return half;
        }
        let bits = self.rng.next_u64();
        self.spare = Some((bits >> 32) as u32);
        bits as u32
    }
}

/// The flow is in slow start. Rates stay below.
const SLOW_START: u32 = 1 << 31;
