//! Packs paths into VLANs: each VLAN a forest, so that no frame goes round in it.
//!
//! First a path goes to a VLAN that has all its cables; else to the one that has most of them and stays without a loop when it gets the
//! others; else to a new one. So paths of different pairs that fit together merge into trees. Which path comes first decides how well that
//! goes: several orders are tried, and the best is kept.

use super::paths::Cables;

/// VLANs under construction.
pub(super) struct Packing {
    switches: usize,
    /// By cable, `words` words each: the VLANs that have it.
    on: Vec<u64>,
    words: usize,
    forests: Vec<Forest>,
    /// Joins made while a path is tried.
    joined: Vec<(u32, u32)>,
}

/// A VLAN: which switches its cables join.
struct Forest {
    parent: Vec<u32>,
    cables: usize,
}

/// The two switches of each cable.
pub(super) type Ends = [(u32, u32)];

impl Packing {
    pub fn new(switches: usize, cables: usize) -> Self {
        Self { switches, on: vec![0; cables], words: 1, forests: Vec::new(), joined: Vec::new() }
    }

    /// VLANs so far.
    pub fn len(&self) -> usize {
        self.forests.len()
    }

    /// Puts a path somewhere and returns where.
    pub fn place(&mut self, path: &[u32], ends: &Ends) -> u32 {
        if let Some(vlan) = self.with_all(path) {
            return vlan;
        }
        let vlan = self.best(path, ends).unwrap_or_else(|| self.open());
        let forest = &mut self.forests[vlan as usize];
        for &cable in path {
            let word = &mut self.on[cable as usize * self.words + vlan as usize / 64];
            if *word >> (vlan % 64) & 1 == 0 {
                *word |= 1 << (vlan % 64);
                let (a, b) = ends[cable as usize];
                let (a, b) = (forest.find(a), forest.find(b));
                debug_assert_ne!(a, b, "a cable that closes a loop");
                forest.parent[a.max(b) as usize] = a.min(b);
                forest.cables += 1;
            }
        }
        vlan
    }

    /// The first VLAN that has all cables of a path.
    fn with_all(&self, path: &[u32]) -> Option<u32> {
        (0..self.words).find_map(|w| {
            let all = path.iter().fold(u64::MAX, |all, &c| all & self.on[c as usize * self.words + w]);
            (all != 0).then(|| w as u32 * 64 + all.trailing_zeros())
        })
    }

    /// The VLAN with most cables of the path among those that it closes no loop in.
    fn best(&mut self, path: &[u32], ends: &Ends) -> Option<u32> {
        let mut best: Option<(usize, u32)> = None;
        for vlan in 0..self.forests.len() {
            // A tree over all switches takes nothing more.
            if self.forests[vlan].cables + 1 >= self.switches {
                continue;
            }
            let shared = path.iter().filter(|&&c| self.has(c, vlan)).count();
            if best.is_none_or(|(most, _)| shared > most) && self.fits(path, vlan, ends) {
                best = Some((shared, vlan as u32));
            }
        }
        best.map(|(_, vlan)| vlan)
    }

    fn has(&self, cable: u32, vlan: usize) -> bool {
        self.on[cable as usize * self.words + vlan / 64] >> (vlan % 64) & 1 == 1
    }

    /// Whether a VLAN stays without a loop when it gets a path.
    fn fits(&mut self, path: &[u32], vlan: usize, ends: &Ends) -> bool {
        self.joined.clear();
        for &cable in path {
            if self.has(cable, vlan) {
                continue;
            }
            let (a, b) = ends[cable as usize];
            let forest = &mut self.forests[vlan];
            let [mut a, mut b] = [forest.find(a), forest.find(b)];
            // Each join renames one part to another that is itself not renamed before.
            for &(from, to) in &self.joined {
                a = if a == from { to } else { a };
                b = if b == from { to } else { b };
            }
            if a == b {
                return false;
            }
            self.joined.push((a, b));
        }
        true
    }

    fn open(&mut self) -> u32 {
        if self.forests.len() == self.words * 64 {
            let wider = self.words * 2;
            let mut on = vec![0; self.on.len() * 2];
            for (to, from) in on.chunks_mut(wider).zip(self.on.chunks(self.words)) {
                to[..from.len()].copy_from_slice(from);
            }
            (self.on, self.words) = (on, wider);
        }
        self.forests.push(Forest { parent: (0..self.switches as u32).collect(), cables: 0 });
        self.forests.len() as u32 - 1
    }

    /// The cables of each VLAN, ascending.
    pub fn into_cables(self) -> Vec<Cables> {
        let mut vlans = vec![Cables::new(); self.forests.len()];
        for (cable, words) in self.on.chunks(self.words).enumerate() {
            for (w, &word) in words.iter().enumerate() {
                let mut rest = word;
                while rest != 0 {
                    vlans[w * 64 + rest.trailing_zeros() as usize].push(cable as u32);
                    rest &= rest - 1;
                }
            }
        }
        vlans
    }
}

impl Forest {
    /// The least switch that stands for the part of `at`, halving the way there.
    fn find(&mut self, mut at: u32) -> u32 {
        while self.parent[at as usize] != at {
            let above = self.parent[self.parent[at as usize] as usize];
            self.parent[at as usize] = above;
            at = above;
        }
        at
    }
}
