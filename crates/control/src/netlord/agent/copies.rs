//! Which of the copies of a frame that was sent to all is the first.
//!
//! ```text
//!   sender:  one frame --> over each special VLAN          receiver:  the first that comes is taken; each other VLAN, and each VLAN by each
//!                                                                     other interface to the fabric, then owes one like it
//! ```
//! No signs of life are needed: what comes over any tree, by any interface, comes, and at once. A frame is known by its tenant, MAC space and bytes, so that a VM
//! may send the same one again: each copy that is owed is taken off once. What is still owed after [`OWED`] is lost, and forgotten.

use std::collections::{BTreeMap, VecDeque};

use siphasher::sip::SipHasher13;
use weft_fabric::TenantId;

use crate::netlord::{MacSpace, UplinkId};
use crate::time::{Duration, Instant};
use crate::wire::packet::ethernet::VlanId;

/// Frames that are owed.
#[derive(Debug)]
pub(super) struct Copies {
    vlans: Vec<VlanId>,
    /// Until when, the earliest first.
    owed: BTreeMap<Owed, VecDeque<Instant>>,
    /// The same in order of time; what has come since is there too.
    order: VecDeque<(Instant, Owed)>,
}

/// By which interface and over which VLAN a frame comes.
type Arrival = (UplinkId, Option<VlanId>);

/// Tenant, MAC space, hash of the bytes; and who owes it.
type Owed = (TenantId, MacSpace, u64, Arrival);

impl Copies {
    /// With these special VLANs.
    pub fn new(vlans: Vec<VlanId>) -> Self {
        Self { vlans, owed: BTreeMap::new(), order: VecDeque::new() }
    }

    /// Whether a frame is not the copy of one that has come over another VLAN, or by another of the interfaces.
    pub fn is_first(
        &mut self,
        now: Instant,
        (tenant, space): (TenantId, MacSpace),
        by: Arrival,
        uplinks: &[UplinkId],
        frame: &[u8],
    ) -> bool {
        let others = self.others(by, uplinks);
        if others.is_empty() {
            return true;
        }
        while self.order.len() > MOST || self.order.front().is_some_and(|&(until, _)| until <= now) {
            let Some((until, owed)) = self.order.pop_front() else { break };
            if self.owed.get(&owed).is_some_and(|all| all.front() == Some(&until)) {
                self.take(&owed);
            }
        }
        let hash = SipHasher13::new().hash(frame);
        if self.take(&(tenant, space, hash, by)) {
            return false;
        }
        let until = now + OWED;
        for other in others {
            let owed = (tenant, space, hash, other);
            self.owed.entry(owed).or_default().push_back(until);
            self.order.push_back((until, owed));
        }
        true
    }

    /// How else a frame comes that has come so: over a VLAN that is not special, only by other interfaces.
    fn others(&self, by: Arrival, uplinks: &[UplinkId]) -> Vec<Arrival> {
        let own = [by.1];
        let special: Vec<Option<VlanId>> = self.vlans.iter().copied().map(Some).collect();
        let vlans = if special.contains(&by.1) { &special[..] } else { &own };
        let all = uplinks.iter().flat_map(|&uplink| vlans.iter().map(move |&vlan| (uplink, vlan)));
        all.filter(|other| *other != by).collect()
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
/// The most copies that are owed, about 5 MB; beyond, the earliest are forgotten.
const MOST: usize = 1 << 16;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SPACE: (TenantId, MacSpace) = (TenantId(17), MacSpace(1));

    const BOTH: [UplinkId; 2] = [UplinkId(0), UplinkId(1)];
    const ONE: [UplinkId; 1] = [UplinkId(0)];

    fn by(uplink: u8, id: u16) -> Arrival {
        (UplinkId(uplink), VlanId::new(id))
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
        let mut come =
            |ms, id, tenant: (TenantId, MacSpace), frame: &[u8]| copies.is_first(at(ms), tenant, by(0, id), &ONE, frame);
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
    fn each_interface_has_a_copy_of_each_tree() {
        let mut copies = copies();
        let mut come = |ms, (uplink, id), uplinks: &[UplinkId]| copies.is_first(at(ms), SPACE, by(uplink, id), uplinks, b"a");
        assert!(come(0, (1, 4093), &BOTH));
        assert!(!come(1, (0, 4093), &BOTH) && !come(1, (0, 4094), &BOTH) && !come(1, (1, 4094), &BOTH));
        assert!(come(2, (0, 4094), &BOTH), "the same again");
        // The other interface is lost: the copies that it still owed will not come.
        assert!(!come(3, (0, 4093), &ONE) && come(4, (0, 4093), &ONE) && !come(5, (0, 4094), &ONE));
        // Over a VLAN that is no tree, by both.
        assert!(come(6, (0, 7), &BOTH) && !come(7, (1, 7), &BOTH) && come(8, (1, 7), &BOTH));
    }

    #[test]
    fn what_does_not_come_is_forgotten() {
        let mut copies = copies();
        // One tree is dead: all comes over the other, and nothing is left when it is back.
        for ms in (0..5_000).step_by(10) {
            assert!(copies.is_first(at(ms), SPACE, by(0, 4094), &ONE, b"hello"));
        }
        assert!(copies.order.len() <= 101);
        assert!(copies.is_first(at(7_000), SPACE, by(0, 4093), &ONE, b"hello"));
        assert_eq!((copies.order.len(), copies.owed.len()), (1, 1));
        for n in 0..2 * MOST as u64 {
            copies.is_first(at(8_000), SPACE, by(0, 4094), &ONE, &n.to_be_bytes());
        }
        assert!(copies.order.len() <= MOST + 1 && copies.owed.len() <= MOST + 1);
        // One tree alone owes nothing.
        let mut one = Copies::new(VlanId::new(4094).into_iter().collect());
        assert!(
            one.is_first(at(0), SPACE, by(0, 4094), &ONE, b"a")
                && one.is_first(at(0), SPACE, by(0, 4094), &ONE, b"a")
                && one.owed.is_empty()
        );
    }

    proptest! {
        /// Frames over two trees to two interfaces with different delays, one of which loses all for a while: each is delivered once, and in order if
        /// nothing is lost.
        #[test]
        fn each_comes_once(
            frames in prop::collection::vec((0u64..30, 0u8..3), 1..60), delays in prop::array::uniform4(1u64..40),
            dead in (0u64..900, 0u64..900, 0usize..4),
        ) {
            let (from, length, which) = dead;
            let mut now = 0;
            let mut arrivals = Vec::new();
            for (n, &(gap, frame)) in frames.iter().enumerate() {
                now += gap;
                for (path, delay) in delays.iter().enumerate() {
                    if path != which || !(from..from + length).contains(&now) {
                        arrivals.push((now + delay, path, n, frame));
                    }
                }
            }
            let arrivals_lost = arrivals.len() < 4 * frames.len();
            arrivals.sort_unstable();
            let mut copies = copies();
            let by = |path: usize| by((path / 2) as u8, 4094 - (path % 2) as u16);
            let taken: Vec<u8> = arrivals
                .into_iter()
                .filter(|&(ms, path, _, frame)| copies.is_first(at(ms), SPACE, by(path), &BOTH, &[frame]))
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
