//! Which of the copies of a frame that was sent to all is the first.
//!
//! ```text
//!   sender:  one frame --> over each special VLAN          receiver:  the first that comes is taken; each other VLAN then owes one like it
//! ```
//! No signs of life are needed: what comes over any tree comes, and at once. A frame is known by its tenant, MAC space and bytes, so that a VM may send the same
//! one again: each copy that a VLAN owes is taken off once. What it still owes after [`OWED`] is lost, and forgotten.

use std::collections::{BTreeMap, VecDeque};

use siphasher::sip::SipHasher13;
use weft_fabric::{Duration, Instant, TenantId};

use crate::netlord::MacSpace;
use crate::wire::packet::ethernet::VlanId;

/// Frames that VLANs owe.
#[derive(Debug)]
pub(super) struct Copies {
    vlans: Vec<VlanId>,
    /// Until when, the earliest first.
    owed: BTreeMap<Owed, VecDeque<Instant>>,
    /// The same in order of time; what has come since is there too.
    order: VecDeque<(Instant, Owed)>,
}

/// Tenant, MAC space, hash of the bytes; and who owes it.
type Owed = (TenantId, MacSpace, u64, VlanId);

impl Copies {
    /// With these special VLANs.
    pub fn new(vlans: Vec<VlanId>) -> Self {
        Self { vlans, owed: BTreeMap::new(), order: VecDeque::new() }
    }

    /// Whether a frame that comes over a VLAN is not the copy of one that has come over another.
    pub fn is_first(&mut self, now: Instant, (tenant, space): (TenantId, MacSpace), vlan: Option<VlanId>, frame: &[u8]) -> bool {
        let Some(vlan) = vlan.filter(|vlan| self.vlans.len() > 1 && self.vlans.contains(vlan)) else { return true };
        while self.order.len() > MOST || self.order.front().is_some_and(|&(until, _)| until <= now) {
            let Some((until, owed)) = self.order.pop_front() else { break };
            if self.owed.get(&owed).is_some_and(|all| all.front() == Some(&until)) {
                self.take(&owed);
            }
        }
        let hash = SipHasher13::new().hash(frame);
        if self.take(&(tenant, space, hash, vlan)) {
            return false;
        }
        let until = now + OWED;
        for &other in self.vlans.iter().filter(|other| **other != vlan) {
            let owed = (tenant, space, hash, other);
            self.owed.entry(owed).or_default().push_back(until);
            self.order.push_back((until, owed));
        }
        true
    }

    /// Takes one off, if it is owed.
    fn take(&mut self, owed: &Owed) -> bool {
        let Some(all) = self.owed.get_mut(owed) else { return false };
        all.pop_front();
        if all.is_empty() {
            self.owed.remove(owed);
        }
        true
    }
}

/// Trees differ by what waits in the queues on the way: milliseconds.
const OWED: Duration = Duration::from_secs(1);
/// Copies that are owed at the most, about 5 MB; beyond, the earliest are forgotten.
const MOST: usize = 1 << 16;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SPACE: (TenantId, MacSpace) = (TenantId(17), MacSpace(1));

    fn vlan(id: u16) -> Option<VlanId> {
        VlanId::new(id)
    }

    fn copies() -> Copies {
        Copies::new([4094, 4093].into_iter().filter_map(VlanId::new).collect())
    }

    fn at(ms: u64) -> Instant {
        Instant::ZERO + Duration::from_ms(ms)
    }

    #[test]
    fn the_first_of_each_is_taken_whatever_tree_is_quicker() {
        let mut copies = copies();
        let mut come = |ms, id, tenant: (TenantId, MacSpace), frame: &[u8]| copies.is_first(at(ms), tenant, vlan(id), frame);
        assert!(come(0, 4094, SPACE, b"a") && come(0, 4093, SPACE, b"b"));
        assert!(!come(1, 4093, SPACE, b"a") && !come(1, 4094, SPACE, b"b"));
        // The same again, twice at once.
        assert!(come(2, 4093, SPACE, b"a") && come(2, 4093, SPACE, b"a"));
        assert!(!come(3, 4094, SPACE, b"a") && !come(3, 4094, SPACE, b"a"));
        assert!(come(3, 4094, SPACE, b"a"));
        // Another tenant's, another space's; another VLAN has no tree.
        assert!(come(4, 4093, (TenantId(18), MacSpace(1)), b"a") && come(4, 4093, (TenantId(17), MacSpace(2)), b"a"));
        assert!(come(4, 7, SPACE, b"c") && come(4, 7, SPACE, b"c"));
    }

    #[test]
    fn what_does_not_come_is_forgotten() {
        let mut copies = copies();
        // One tree is dead: all comes over the other, and nothing is left when it is back.
        for ms in (0..5_000).step_by(10) {
            assert!(copies.is_first(at(ms), SPACE, vlan(4094), b"hello"));
        }
        assert!(copies.order.len() <= 101);
        assert!(copies.is_first(at(7_000), SPACE, vlan(4093), b"hello"));
        assert_eq!((copies.order.len(), copies.owed.len()), (1, 1));
        for n in 0..2 * MOST as u64 {
            copies.is_first(at(8_000), SPACE, vlan(4094), &n.to_be_bytes());
        }
        assert!(copies.order.len() <= MOST + 1 && copies.owed.len() <= MOST + 1);
        // One tree alone owes nothing.
        let mut one = Copies::new(VlanId::new(4094).into_iter().collect());
        assert!(
            one.is_first(at(0), SPACE, vlan(4094), b"a") && one.is_first(at(0), SPACE, vlan(4094), b"a") && one.owed.is_empty()
        );
    }

    proptest! {
        /// Frames over two trees of different delays, one of which may lose all for a while: each is delivered once, and in order if nothing is lost.
        #[test]
        fn each_comes_once(
            frames in prop::collection::vec((0u64..30, 0u8..3), 1..60), delays in prop::array::uniform2(1u64..40),
            dead in (0u64..900, 0u64..900, 0usize..2),
        ) {
            let (from, length, which) = dead;
            let mut now = 0;
            let mut arrivals = Vec::new();
            for (n, &(gap, frame)) in frames.iter().enumerate() {
                now += gap;
                for (tree, delay) in delays.iter().enumerate() {
                    if tree != which || !(from..from + length).contains(&now) {
                        arrivals.push((now + delay, tree, n, frame));
                    }
                }
            }
            let arrivals_lost = arrivals.len() < 2 * frames.len();
            arrivals.sort_unstable();
            let mut copies = copies();
            let taken: Vec<u8> = arrivals
                .into_iter()
                .filter(|&(ms, tree, _, frame)| copies.is_first(at(ms), SPACE, vlan(4094 - tree as u16), &[frame]))
                .map(|(_, _, _, frame)| frame)
                .collect();
            let mut both = [taken, frames.iter().map(|(_, frame)| *frame).collect()];
            if arrivals_lost {
                both.iter_mut().for_each(|all| all.sort_unstable());
            }
            prop_assert_eq!(&both[0], &both[1]);
        }
    }
}
