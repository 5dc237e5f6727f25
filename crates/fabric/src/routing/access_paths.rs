//! Access paths: how a host with several NICs leaves its rack and how it is reached (Subways sections 4.2, 4.3, 5.2 and 6).
//!
//! ```text
//!   src --NIC--> ToR X  ........ hashing, switch by switch ........  ToR Z --> dst           an access path is one link: a NIC
//!   src --NIC--> ToR X --> server S' --NIC--> ToR Y  ... hashing ...  ToR Z --> dst          or a detour through servers
//!   `------- leaving (Out) ----------------------´                    `arriving (In)´
//! ```
//! By default a host's access paths are its NICs, weighted by their capacity (WCMP, section 4.3: 10 and 25 GbE get 2/7 and 5/7 of the flows).
//! A controller gives a host other access paths, or other weights, with [`Router::set_access_paths`](super::Router::set_access_paths).

use smallvec::SmallVec;

use crate::ids::{HostId, LinkId, NodeId};
use crate::rng::mix;
use crate::routing::Path;
use crate::topology::{Fabric, Health};
use crate::units::BitsPerSec;

/// Which end of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Direction {
    /// The source's: its traffic leaves.
    Out,
    /// The destination's: its traffic arrives.
    In,
}

/// A path by which flows leave a host or reach it, and its weight.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessPath {
    /// Consecutive links: from the host to a ToR if it leaves, from a ToR to the host if it arrives.
    pub links: Path,
    /// Flows take it in proportion to this, in any unit common to the host's paths. If all weights are 0, they count as equal.
    pub weight: u64,
    /// Of a detour: the most that all flows of the host on this path may send together, wherever their weights put them. The first server on
    /// the path holds them to it: the source itself if it leaves, the first one that forwards if it arrives.
    pub limit: Option<BitsPerSec>,
}

impl AccessPath {
    /// The ToR at its far end.
    pub fn tor(&self, fabric: &Fabric, direction: Direction) -> NodeId {
        match direction {
            Direction::Out => fabric.link(self.links[self.links.len() - 1]).to,
            Direction::In => fabric.link(self.links[0]).from,
        }
    }
}

/// A host's NICs as access paths, weighted by capacity; those of them that are up.
pub fn nic_paths<'a>(
    fabric: &'a Fabric,
    health: &'a Health,
    host: HostId,
    direction: Direction,
) -> impl Iterator<Item = AccessPath> + use<'a> {
    let links = fabric.out(host.node()).iter().map(move |&nic| match direction {
        Direction::Out => nic,
        Direction::In => nic.reverse(),
    });
    let up = links.filter(|&l| health.is_up(l));
    up.map(|l| AccessPath { links: Path::from_slice(&[l]), weight: fabric.link(l).capacity.0, limit: None })
}

/// The NICs of a subflow of MPTCP, as indices into the links of its two hosts, of which these have so many: each combination in turn (Subways
/// section 5.1).
pub const fn subflow_nics(leaving: usize, arriving: usize, subflow: u32) -> (usize, usize) {
    let number = subflow as usize;
    (number % leaving, number / leaving % arriving)
}

/// Where a path from host to host is cut: `path[..a]` is its leaving access path, `path[a..b]` leads from ToR to ToR, `path[b..]` is its
/// arriving access path. Servers that forward in between belong to these, where they could belong to both to the leaving one.
/// The path is not empty.
pub fn cut(fabric: &Fabric, path: &[LinkId]) -> (usize, usize) {
    let is_host = |node| fabric.as_host(node).is_some();
    let mut a = 1;
    while a + 2 < path.len() && is_host(fabric.link(path[a]).to) {
        a += 2;
    }
    let mut b = path.len() - 1;
    while b >= a + 2 && is_host(fabric.link(path[b - 1]).from) {
        b -= 2;
    }
    (a, b)
}

/// Whether a path of these two access paths would pass a node of the one again in the other. Only detours can.
pub fn crosses_itself(fabric: &Fabric, leaving: &[LinkId], arriving: &[LinkId]) -> bool {
    if leaving.len() + arriving.len() == 2 {
        return false;
    }
    let (end, turn) = (fabric.link(leaving[leaving.len() - 1]).to, fabric.link(arriving[0]).from);
    let left = |node| leaving.iter().any(|&l| fabric.link(l).from == node);
    let passes_again = |node| left(node) || (node != turn && node == end);
    left(turn) || arriving.iter().any(|&l| passes_again(fabric.link(l).to))
}

/// Which of a flow's access paths go together, and the choice among them.
#[derive(Debug, Default)]
pub(super) struct Pairing {
    leaving: usize,
    arriving: usize,
    /// By leaving, then arriving path.
    fits: SmallVec<[bool; 16]>,
}

impl Pairing {
    /// Tries all pairs.
    pub fn new(leaving: &[AccessPath], arriving: &[AccessPath], mut fits: impl FnMut(&AccessPath, &AccessPath) -> bool) -> Self {
        let pairs = leaving.iter().flat_map(|l| arriving.iter().map(move |a| (l, a)));
        Self { leaving: leaving.len(), arriving: arriving.len(), fits: pairs.map(|(l, a)| fits(l, a)).collect() }
    }

    /// The first pair that fits.
    pub fn first(&self) -> Option<(usize, usize)> {
        let pair = self.fits.iter().position(|&f| f)?;
        Some((pair / self.arriving, pair % self.arriving))
    }

    /// Draws both by weight. Where all pairs fit, that is two independent draws. Where they do not (clusters of unequal distance,
    /// networks side by side), one end draws first and the other among what fits; a third draw selects which.
    pub fn draw(&self, leaving: &[AccessPath], arriving: &[AccessPath], entropy: u64) -> Option<(usize, usize)> {
        let fits = |l: usize, a: usize| self.fits[l * self.arriving + a];
        let [coin, out, into] = DRAWS.map(|salt| mix(entropy ^ salt));
        if coin & 1 == 0 {
            let some = |l: usize| (0..self.arriving).any(|a| fits(l, a));
            let l = draw((0..self.leaving).filter(|&l| some(l)).map(|l| (l, leaving[l].weight)), out)?;
            Some((l, draw((0..self.arriving).filter(|&a| fits(l, a)).map(|a| (a, arriving[a].weight)), into)?))
        } else {
            let some = |a: usize| (0..self.leaving).any(|l| fits(l, a));
            let a = draw((0..self.arriving).filter(|&a| some(a)).map(|a| (a, arriving[a].weight)), into)?;
            Some((draw((0..self.leaving).filter(|&l| fits(l, a)).map(|l| (l, leaving[l].weight)), out)?, a))
        }
    }

    /// With which probability [`Pairing::draw`] draws each pair, by leaving, then arriving path.
    pub fn probabilities(&self, leaving: &[AccessPath], arriving: &[AccessPath]) -> Vec<f64> {
        let fits = |l: usize, a: usize| self.fits[l * self.arriving + a];
        let mut all = vec![0.0; self.fits.len()];
        let some = |l: usize| (0..self.arriving).any(|a| fits(l, a));
        for (l, first) in shares((0..self.leaving).filter(|&l| some(l)).map(|l| (l, leaving[l].weight))) {
            for (a, second) in shares((0..self.arriving).filter(|&a| fits(l, a)).map(|a| (a, arriving[a].weight))) {
                all[l * self.arriving + a] += first * second / 2.0;
            }
        }
        let some = |a: usize| (0..self.leaving).any(|l| fits(l, a));
        for (a, first) in shares((0..self.arriving).filter(|&a| some(a)).map(|a| (a, arriving[a].weight))) {
            for (l, second) in shares((0..self.leaving).filter(|&l| fits(l, a)).map(|l| (l, leaving[l].weight))) {
                all[l * self.arriving + a] += first * second / 2.0;
            }
        }
        all
    }
}

/// The probability of each candidate by weight; equal if all weights are 0.
fn shares(candidates: impl Iterator<Item = (usize, u64)> + Clone) -> impl Iterator<Item = (usize, f64)> {
    let sum: u128 = candidates.clone().map(|c| u128::from(c.1)).sum();
    let weight = move |w: u64| if sum == 0 { 1.0 } else { w as f64 };
    let total: f64 = candidates.clone().map(|c| weight(c.1)).sum();
    candidates.map(move |(i, w)| (i, weight(w) / total))
}

/// One of the candidates by weight.
fn draw(candidates: impl Iterator<Item = (usize, u64)> + Clone, hash: u64) -> Option<usize> {
    let sum: u128 = candidates.clone().map(|c| u128::from(c.1)).sum();
    let weight = |w: u64| if sum == 0 { 1 } else { u128::from(w) };
    let total: u128 = candidates.clone().map(|c| weight(c.1)).sum();
    // Below the total, and in 128 bits for up to 2^32 candidates of any weight.
    let mut point = (u128::from(hash >> 32) * total) >> 32;
    for (i, w) in candidates {
        match point.checked_sub(weight(w)) {
            Some(rest) => point = rest,
            None => return Some(i),
        }
    }
    None
}

/// Makes the draws of one flow independent of each other and of the switches'.
const DRAWS: [u64; 3] = [0x2545_f491_4f6c_dd1d, 0x9e6c_63d0_876a_9a47, 0xd1b5_4a32_d192_ed03];
