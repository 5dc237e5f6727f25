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
    /// Additive increase, at most [`MOST`].
    pub increase: i32,
    /// What slow start begins with, at most [`MOST`].
    pub initial: i32,
}

/// A flow under way, outside the lanes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub slot: u32,
    /// Quanta x ticks until its last byte.
    pub left: i64,
    pub rate: i32,
    pub slow_start: bool,
    pub links: SmallVec<[u32; 8]>,
}

/// The flows in their present order.
pub(crate) trait Lanes: Send {
    fn len(&self) -> usize;

    /// Links that a path may have.
    fn width(&self) -> usize;

    /// Visits all flows once. Appends the places of those that have nothing left, ascending; returns the sum of the rates.
    fn pass(&mut self, residuals: &mut [i32], step: Step, random: &mut Draws, finished: &mut Vec<u32>) -> u64;

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

/// Lanes for paths of up to so many links among so many, and limits after them.
pub(crate) fn lanes(path: usize, links: usize, limits: usize) -> Box<dyn Lanes> {
    // One number is taken by the link that nobody fills.
    if links + limits < usize::from(u16::MAX) { of_width::<u16>(path, links) } else { of_width::<u32>(path, links) }
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
    /// Residuals by link. Where a number cannot be too large, nobody needs to check it.
    type Table<'a>: Table<Self>;
    fn table(residuals: &mut [i32]) -> Self::Table<'_>;
    fn from_link(link: usize) -> Self;
    fn link(self) -> usize;
}

trait Table<I> {
    fn get(&self, link: I) -> i32;
    fn add(&mut self, link: I, quanta: i32);
    fn set(&mut self, link: I, residual: i32);
}

impl Index for u16 {
    type Table<'a> = &'a mut [i32; TABLE_LEAST];

    fn table(residuals: &mut [i32]) -> Self::Table<'_> {
        (&mut residuals[..TABLE_LEAST]).try_into().expect("tables are not shorter")
    }

    fn from_link(link: usize) -> Self {
        Self::try_from(link).expect("the lanes are wide enough for the fabric")
    }

    fn link(self) -> usize {
        usize::from(self)
    }
}

impl Index for u32 {
    type Table<'a> = &'a mut [i32];

    fn table(residuals: &mut [i32]) -> Self::Table<'_> {
        residuals
    }

    fn from_link(link: usize) -> Self {
        Self::try_from(link).expect("links have 32-bit numbers")
    }

    fn link(self) -> usize {
        self as usize
    }
}

impl Table<u16> for &mut [i32; TABLE_LEAST] {
    #[inline(always)]
    fn get(&self, link: u16) -> i32 {
        self[usize::from(link)]
    }

    #[inline(always)]
    fn add(&mut self, link: u16, quanta: i32) {
        self[usize::from(link)] += quanta;
    }

    #[inline(always)]
    fn set(&mut self, link: u16, residual: i32) {
        self[usize::from(link)] = residual;
    }
}

impl Table<u32> for &mut [i32] {
    #[inline(always)]
    fn get(&self, link: u32) -> i32 {
        self[link as usize]
    }

    #[inline(always)]
    fn add(&mut self, link: u32, quanta: i32) {
        self[link as usize] += quanta;
    }

    #[inline(always)]
    fn set(&mut self, link: u32, residual: i32) {
        self[link as usize] = residual;
    }
}

#[derive(Clone, Copy)]
struct Flow<I, const L: usize> {
    left: i64,
    /// The rate, with [`SLOW_START`].
    rate: i32,
    slot: u32,
    /// Padded with the link that nobody fills.
    links: [I; L],
}

impl<I: Index, const L: usize> Flow<I, L> {
    /// One flow's tick; returns its new rate. Which flows find a full link, and which of their links is the fullest, nobody can
    /// predict, so there is no branch.
    #[inline(always)]
    fn visit(&mut self, table: &mut I::Table<'_>, step: Step) -> i32 {
        let links = self.links;
        let free = least(links.map(|link| table.get(link)));
        let (rate, slow) = (self.rate & !SLOW_START, self.rate & SLOW_START);
        let wanted = if slow != 0 { rate.max(step.initial) } else { step.increase };
        let full = (free - 1) >> 31;
        let grown = rate + lesser(wanted, free);
        let next = grown + ((rate / 2 - grown) & full);
        self.rate = next | (slow & !full);
        self.left -= i64::from(next);
        for link in links {
            table.add(link, rate - next);
        }
        next
    }
}

/// The lesser of two numbers that are not negative, without a branch: compilers turn `min` into one here.
#[inline(always)]
fn lesser(a: i32, b: i32) -> i32 {
    let difference = a.wrapping_sub(b);
    b + (difference & (difference >> 31))
}

/// The least of an even number of values, in two chains that run side by side.
#[inline(always)]
fn least<const L: usize>(values: [i32; L]) -> i32 {
    let (mut even, mut odd) = (values[0], values[1]);
    for i in 1..L / 2 {
        even = lesser(even, values[2 * i]);
        odd = lesser(odd, values[2 * i + 1]);
    }
    lesser(even, odd)
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

    fn pass(&mut self, residuals: &mut [i32], step: Step, random: &mut Draws, finished: &mut Vec<u32>) -> u64 {
        let mut table = I::table(residuals);
        let spare = I::from_link(self.spare);
        let mut sum = 0u64;
        let count = self.flows.len();
        for begin in (0..count).step_by(BLOCK) {
            let end = count.min(begin + BLOCK);
            // Shuffling a block ahead lets the loads of its flows and links overlap.
            for i in begin..end {
                let j = i + random.below((count - i) as u32) as usize;
                self.flows.swap(i, j);
            }
            for (i, flow) in (begin..).zip(&mut self.flows[begin..end]) {
                sum += flow.visit(&mut table, step) as u64;
                table.set(spare, SPARE);
                if flow.left <= 0 {
                    finished.push(i as u32);
                }
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

/// Capacities, and so rates and residuals, are at most this: twice a rate does not reach the sign.
pub(crate) const MOST: i32 = 1 << 29;
/// The residual of the link that nobody fills.
pub(crate) const SPARE: i32 = 1 << 30;
/// The flow is in slow start. Rates stay below.
const SLOW_START: i32 = 1 << 30;
/// Flows that are shuffled, and then visited, at once.
const BLOCK: usize = 64;
/// Minimum number of entries of a table of residuals: all that 16 bits can name.
pub(crate) const TABLE_LEAST: usize = 1 << 16;
