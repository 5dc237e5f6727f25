//! Frames that wait until their destination is found. All VIFs share the room, and none can take it from the others.
//!
//! ```text
//!   room:   |#### VIF 1 ####|## VIF 2 ##|          free          |      a VIF may have an eighth of what is free (Choudhury and Hahne, "Dynamic queue length
//!                                                                       thresholds", 1998): one alone a ninth of all, and a new one always something
//! ```

use std::collections::BTreeMap;

use super::super::locations::Query;
use super::VifId;

/// The frames.
#[derive(Debug, Default)]
pub(super) struct Kept {
    waiting: BTreeMap<Query, Waiting>,
    shares: BTreeMap<VifId, Share>,
    all: Share,
    frames: usize,
}

#[derive(Debug)]
struct Waiting {
    /// Who made the agent look for it.
    asker: VifId,
    frames: Vec<(VifId, Vec<u8>)>,
}

/// What a VIF, or all together, have of the room.
#[derive(Clone, Copy, Debug, Default)]
struct Share {
    bytes: usize,
    searches: usize,
}

/// The room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// Frames for one destination.
    pub each: usize,
    /// Bytes of frames in all.
    pub bytes: usize,
    /// Destinations that are looked for, in all.
    pub searches: usize,
}

/// A VIF may have the free room divided by this.
const FRACTION: usize = 8;

impl Kept {
    /// Whether there is room for a frame of a VIF of so many bytes: `Some(true)` if it is the first for that destination.
    pub fn admits(&self, room: Room, id: VifId, query: Query, bytes: usize) -> Option<bool> {
        let own = self.shares.get(&id).copied().unwrap_or_default();
        let waiting = self.waiting.get(&query).map_or(0, |it| it.frames.len());
        let may = |own: usize, more: usize, most: usize, all: usize| (own + more) * FRACTION <= most.saturating_sub(all);
        let fits = waiting < room.each && may(own.bytes, bytes, room.bytes, self.all.bytes);
        let is_first = !self.waiting.contains_key(&query);
        (fits && (!is_first || may(own.searches, 1, room.searches, self.all.searches))).then_some(is_first)
    }

    /// Keeps a frame that [`admits`](Self::admits) has room for.
    pub fn push(&mut self, id: VifId, query: Query, frame: &[u8]) {
        let share = self.shares.entry(id).or_default();
        let waiting = self.waiting.entry(query).or_insert_with(|| {
            share.searches += 1;
            self.all.searches += 1;
            Waiting { asker: id, frames: Vec::new() }
        });
        waiting.frames.push((id, frame.to_vec()));
        share.bytes += frame.len();
        self.all.bytes += frame.len();
        self.frames += 1;
    }

    /// Takes what waits for a destination, in order.
    pub fn take(&mut self, query: Query) -> Vec<(VifId, Vec<u8>)> {
        let Some(Waiting { asker, frames }) = self.waiting.remove(&query) else { return Vec::new() };
        self.all.searches -= 1;
        self.give_back(asker, 0, 1);
        for (id, frame) in &frames {
            self.all.bytes -= frame.len();
            self.give_back(*id, frame.len(), 0);
        }
        self.frames -= frames.len();
        frames
    }

    /// Drops the frames of a VIF that is gone: how many.
    pub fn forget(&mut self, id: VifId) -> usize {
        let before = self.frames;
        for waiting in self.waiting.values_mut() {
            waiting.frames.retain(|(owner, frame)| {
                let stays = *owner != id;
                if !stays {
                    self.frames -= 1;
                    self.all.bytes -= frame.len();
                }
                stays
            });
        }
        self.shares.remove(&id);
        before - self.frames
    }

    /// Frames that wait.
    pub const fn len(&self) -> usize {
        self.frames
    }

    /// A VIF that was forgotten since has no share.
    fn give_back(&mut self, id: VifId, bytes: usize, searches: usize) {
        let Some(share) = self.shares.get_mut(&id) else { return };
        share.bytes = share.bytes.saturating_sub(bytes);
        share.searches = share.searches.saturating_sub(searches);
        if share.bytes == 0 && share.searches == 0 {
            self.shares.remove(&id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netlord::MacSpace;
    use proptest::prelude::*;
    use weft_fabric::{MacAddr, TenantId};

    const ROOM: Room = Room { each: 8, bytes: 90_000, searches: 90 };

    fn query(n: u16) -> Query {
        let [high, low] = n.to_be_bytes();
        Query::mac(TenantId(7), MacSpace(1), MacAddr([2, 0, 0, 0, high, low]))
    }

    fn put(kept: &mut Kept, id: u32, n: u16, bytes: usize) -> bool {
        let admitted = kept.admits(ROOM, VifId(id), query(n), bytes).is_some();
        if admitted {
            kept.push(VifId(id), query(n), &vec![0; bytes]);
        }
        admitted
    }

    #[test]
    fn one_has_a_ninth_and_others_have_room_however_many_flood() {
        let mut kept = Kept::default();
        let alone = (0..1000u16).filter(|&n| put(&mut kept, 1, n, 1000)).count();
        assert_eq!(alone, 10, "of bytes and of searches alike");
        for id in 2..20 {
            (0..1000u16).for_each(|n| _ = put(&mut kept, id, 1000 * id as u16 + n, 100));
        }
        assert!(put(&mut kept, 99, 60_000, 1000), "somebody new");
        assert_eq!(kept.forget(VifId(1)), alone);
        assert!(kept.take(query(0)).is_empty(), "it was VIF 1's");
    }

    proptest! {
        /// Whatever is pushed, taken and forgotten: what is counted is what is there, and no more than there is room for.
        #[test]
        fn the_books_balance(steps in prop::collection::vec((0u8..4, 0u32..5, 0u16..12, 1usize..3000), 1..200)) {
            let mut kept = Kept::default();
            for (step, id, n, bytes) in steps {
                match step {
                    0 => _ = kept.take(query(n)),
                    1 if n == 0 => _ = kept.forget(VifId(id)),
                    _ => _ = put(&mut kept, id, n, bytes),
                }
                let frames: Vec<_> = kept.waiting.values().flat_map(|it| &it.frames).collect();
                prop_assert_eq!(frames.len(), kept.frames);
                prop_assert_eq!(frames.iter().map(|(_, frame)| frame.len()).sum::<usize>(), kept.all.bytes);
                prop_assert_eq!(kept.waiting.len(), kept.all.searches);
                prop_assert!(kept.all.bytes <= ROOM.bytes && kept.all.searches <= ROOM.searches);
                prop_assert!(kept.waiting.values().all(|it| it.frames.len() <= ROOM.each));
                for (id, share) in &kept.shares {
                    let own: usize = frames.iter().filter(|(owner, _)| owner == id).map(|(_, frame)| frame.len()).sum();
                    prop_assert_eq!(own, share.bytes);
                }
            }
        }
    }
}
