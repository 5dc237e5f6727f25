//! Max-min fair rates from scratch: progressive filling.
//!
//! All flows grow together; the link with the smallest fair share (what is left of its capacity over its flows that still grow, each with
//! the part of its rate that crosses the link) fills first and stops its flows, which leaves other links more for the rest. A fair share never falls while this goes on, so a
//! heap with outdated keys serves: a link taken out too early goes back in. O((F + L) log L) for F flow-link pairs and L links.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Which flow crosses which link.
pub(crate) trait Incidence {
    /// Number of flows.
    fn flow_count(&self) -> usize;
    /// Links of a flow, and the part of its rate that crosses each.
    fn links(&self, flow: u32) -> impl Iterator<Item = (u32, f64)>;
    /// Flows of a link.
    fn members(&self, link: u32) -> &[u32];
    /// The sum of their parts: of flows with one path, their number.
    fn weight(&self, link: u32) -> f64 {
        self.members(link).len() as f64
    }
}

/// What is known of a link while rates grow.
#[derive(Clone, Copy)]
struct Link {
    left: f64,
    /// Of the flows that still grow.
    weight: f64,
    growing: u32,
}

impl Link {
    /// The bits of the rate at which the flows that still grow fill the link. Positive floats order like their bits.
    fn level(&self) -> u64 {
        (self.left.max(0.0) / self.weight).to_bits()
    }
}

/// What filling gives.
#[derive(Debug)]
pub(crate) struct Filled {
    /// By flow: its rate; infinite if it crosses no link.
    pub rates: Vec<f64>,
    /// By link: the rate at which it stopped flows; infinite if it stopped none.
    pub levels: Vec<f64>,
}

/// Fills the network. Capacities are positive or zero, rates have their unit.
pub(crate) fn fill(net: &impl Incidence, capacities: &[f64]) -> Filled {
    let mut levels = vec![f64::INFINITY; capacities.len()];
    let mut rates = vec![f64::INFINITY; net.flow_count()];
    let of = |(number, &left): (u32, &f64)| Link { left, weight: net.weight(number), growing: net.members(number).len() as u32 };
    let mut links: Vec<Link> = (0..).zip(capacities).map(of).collect();
    let first = (0..).zip(&links).filter(|(_, link)| link.growing > 0).map(|(number, link)| Reverse((link.level(), number)));
    let mut heap: BinaryHeap<Reverse<(u64, u32)>> = first.collect::<Vec<_>>().into();
    while let Some(Reverse((key, number))) = heap.pop() {
        let link = links[number as usize];
        if link.growing == 0 {
            continue;
        }
        let now = link.level();
        if now > key && heap.peek().is_some_and(|&Reverse((next, _))| now > next) {
            heap.push(Reverse((now, number)));
            continue;
        }
        let level = f64::from_bits(now);
        levels[number as usize] = level;
        for &flow in net.members(number) {
            if rates[flow as usize] < f64::INFINITY {
                continue;
            }
            rates[flow as usize] = level;
            for (other, part) in net.links(flow) {
                let link = &mut links[other as usize];
                link.left -= level * part;
                link.weight -= part;
                link.growing -= 1;
            }
        }
    }
    Filled { rates, levels }
}

/// What [`max_min`] cannot work with.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[allow(missing_docs)]
pub enum MaxMinError {
    #[error("flow {flow} crosses link {link}, but there are only {links} links: number them from 0")]
    NoSuchLink { flow: usize, link: u32, links: usize },
    #[error("flow {flow} crosses link {link} twice: a path visits a link once")]
    LinkTwice { flow: usize, link: u32 },
    #[error("link {link} has the capacity {capacity}: give a finite number that is not negative")]
    Capacity { link: usize, capacity: f64 },
    #[error("path {path} ends before it begins ({start}..{end} of {len} entries): offsets rise from 0 to the number of entries")]
    Offsets { path: usize, start: usize, end: usize, len: usize },
}

/// Max-min fair rates of flows on fixed paths.
///
/// Paths are given in compressed rows: flow `f` crosses `links[offsets[f]..offsets[f + 1]]`, so `offsets` has one entry more than
/// there are flows. Rates are in the unit of the capacities. A flow without links is limited by nothing: its rate is infinite.
///
/// ```
/// // Two flows share link 0; the second alone also crosses link 1, which is narrower.
/// let rates = weft_sim::flow::max_min(&[0, 1, 3], &[0, 0, 1], &[10.0, 4.0]).unwrap();
/// assert_eq!(rates, [6.0, 4.0]);
/// ```
///
/// # Errors
/// [`MaxMinError`], naming the flow or link.
pub fn max_min(offsets: &[usize], links: &[u32], capacities: &[f64]) -> Result<Vec<f64>, MaxMinError> {
    check(offsets, links, capacities)?;
    Ok(fill(&Rows::new(offsets, links, capacities.len()), capacities).rates)
}

fn check(offsets: &[usize], links: &[u32], capacities: &[f64]) -> Result<(), MaxMinError> {
    if let Some((link, &capacity)) = capacities.iter().enumerate().find(|(_, c)| !(c.is_finite() && **c >= 0.0)) {
        return Err(MaxMinError::Capacity { link, capacity });
    }
    let len = links.len();
    let (first, last) = (offsets.first().copied().unwrap_or(0), offsets.last().copied().unwrap_or(0));
    if first != 0 || last != len {
        return Err(MaxMinError::Offsets { path: 0, start: first, end: last, len });
    }
    let mut seen_by = vec![usize::MAX; capacities.len()];
    for (flow, bounds) in offsets.windows(2).enumerate() {
        let &[start, end] = bounds else { unreachable!("windows of two") };
        let path = links.get(start..end).ok_or(MaxMinError::Offsets { path: flow, start, end, len })?;
        for &link in path {
            let seen = seen_by.get_mut(link as usize).ok_or(MaxMinError::NoSuchLink { flow, link, links: capacities.len() })?;
            if std::mem::replace(seen, flow) == flow {
                return Err(MaxMinError::LinkTwice { flow, link });
            }
        }
    }
    Ok(())
}

/// Paths in compressed rows, and their transpose.
struct Rows<'a> {
    offsets: &'a [usize],
    links: &'a [u32],
    member_offsets: Vec<usize>,
    members: Vec<u32>,
}

impl<'a> Rows<'a> {
    fn new(offsets: &'a [usize], links: &'a [u32], link_count: usize) -> Self {
        let mut member_offsets = vec![0; link_count + 1];
        for &link in links {
            member_offsets[link as usize + 1] += 1;
        }
        for l in 0..link_count {
            member_offsets[l + 1] += member_offsets[l];
        }
        let mut next = member_offsets.clone();
        let mut members = vec![0; links.len()];
        for flow in 0..offsets.len().saturating_sub(1) {
            for &link in &links[offsets[flow]..offsets[flow + 1]] {
                members[next[link as usize]] = flow as u32;
                next[link as usize] += 1;
            }
        }
        Self { offsets, links, member_offsets, members }
    }
}

impl Incidence for Rows<'_> {
    fn flow_count(&self) -> usize {
        self.offsets.len().saturating_sub(1)
    }

    fn links(&self, flow: u32) -> impl Iterator<Item = (u32, f64)> {
        self.links[self.offsets[flow as usize]..self.offsets[flow as usize + 1]].iter().map(|&link| (link, 1.0))
    }

    fn members(&self, link: u32) -> &[u32] {
        &self.members[self.member_offsets[link as usize]..self.member_offsets[link as usize + 1]]
    }
}
