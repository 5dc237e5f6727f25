//! Paths as packets follow them: each stored once, hop after hop, in one array. A packet knows its place in it, so that the next hop
//! is the next word, and packets under way keep to their path when their flow takes another one.

use rustc_hash::FxHashMap;
use weft_fabric::{Fabric, LinkId};

use crate::world::Limits;

/// The end of a path; larger than any word of a hop.
pub(super) const END: u32 = u32::MAX;
/// Set in the word of a hop by which a server forwards a detoured packet: there it loses a header.
pub(super) const FORWARDED: u32 = 1 << 31;
/// Set in a word that is no hop, but the number of a shaper before one.
pub(super) const SHAPED: u32 = 3 << 30;

/// All paths in use.
#[derive(Debug, Default)]
pub(super) struct Paths {
    words: Vec<u32>,
    known: FxHashMap<Box<[u32]>, u32>,
    /// Numbered as the shapers.
    pub limits: Limits,
}

/// A path: where it begins, and how often servers forward along it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Route {
    /// Place of the first hop; [`END`] if there is no path.
    pub begin: u32,
    /// Servers that forward: so many headers a packet begins with.
    pub forwards: u16,
}

/// No path.
pub(super) const NOWHERE: Route = Route { begin: END, forwards: 0 };

impl Paths {
    /// The route along these links and through the shapers of their limits, stored if it is new.
    pub fn intern(&mut self, fabric: &Fabric, links: &[LinkId]) -> Route {
        if links.is_empty() {
            return NOWHERE;
        }
        let hop = |(i, &l): (usize, &LinkId)| {
            let by_server = i > 0 && fabric.as_host(fabric.link(l).from).is_some();
            if by_server { l.0 | FORWARDED } else { l.0 }
        };
        let mut words: Vec<u32> = links.iter().enumerate().map(hop).collect();
        let forwards = words.iter().filter(|&&w| w & FORWARDED != 0).count() as u16;
        // From the last one on, so that positions stay what they are.
        for limit in self.limits.on(fabric, links).iter().rev() {
            words.insert(limit.before, limit.number | SHAPED);
        }
        let begin = match self.known.get(&words[..]) {
            Some(&begin) => begin,
            None => {
                let begin = u32::try_from(self.words.len()).expect("fewer than 2^32 hops in all paths together");
                self.words.extend_from_slice(&words);
                self.words.push(END);
                self.known.insert(words.into(), begin);
                begin
            }
        };
        Route { begin, forwards }
    }

    /// The first link of a route: its sender's NIC.
    #[inline]
    pub fn nic(&self, route: Route) -> Option<u32> {
        if route.begin == END {
            return None;
        }
        // Shapers may stand before it.
        self.words[route.begin as usize..].iter().copied().find(|word| word & SHAPED != SHAPED)
    }

    /// Where the hop at a place is stored.
    #[inline]
    pub fn as_ptr(&self, place: u32) -> *const u32 {
        self.words.as_ptr().wrapping_add(place as usize)
    }

    /// The hop at a place.
    #[inline]
    pub fn at(&self, place: u32) -> u32 {
        self.words[place as usize]
    }
}
