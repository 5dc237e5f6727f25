//! Rate limits of access paths: a detour and all flows on it have one, and every model enforces it in its own manner.

use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use weft_fabric::routing::Path;
use weft_fabric::routing::access_paths::cut;
use weft_fabric::{Fabric, LinkId};

/// The access paths that have had a limit, numbered from 0. A path keeps its last limit: flows may still be on it when its host loses it.
#[derive(Debug, Default)]
pub(crate) struct Limits {
    numbers: FxHashMap<Path, u32>,
}

/// A limit on a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limited {
    /// Its number.
    pub number: u32,
    /// The position in the path of the link that the server which enforces it sends into.
    pub before: usize,
}

impl Limits {
    /// The number of an access path's limit.
    pub fn number(&mut self, links: &[LinkId]) -> u32 {
        let next = self.numbers.len() as u32;
        *self.numbers.entry(Path::from_slice(links)).or_insert(next)
    }

    /// The limits on a path from host to host, in its order.
    pub fn on(&self, fabric: &Fabric, path: &[LinkId]) -> SmallVec<[Limited; 2]> {
        if self.numbers.is_empty() || path.is_empty() {
            return SmallVec::new();
        }
        let (a, b) = cut(fabric, path);
        // What arrives comes to its first server over its first link.
        let ends = [(&path[..a], 0), (&path[b..], b + 1)];
        let limited = |(links, before)| self.numbers.get(links).map(|&number| Limited { number, before });
        ends.into_iter().filter_map(limited).collect()
    }
}
