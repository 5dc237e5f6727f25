//! What happens when: a timing wheel for the arrivals of packets, a calendar of far ones behind it.
//!
//! ```text
//!            now
//!   slots    | 0 | 1 | 2 | ...                      | n-1 |      one slot = 2^width ps, events unsorted in blocks of 14
//!              |                                                 sorted when its turn comes: time, link, packet
//!   far      rounds: [n slots later) [2n slots later) ...        events beyond the wheel wait for their round
//! ```
//! An event is one 64-bit word: the time within its slot, the link, the packet. So sorting words sorts by time and then link, and no
//! two arrivals share both: a link delivers one packet at a time. Order never depends on how packets are numbered.

use std::collections::BTreeMap;

use super::touch::touch;

/// An event taken from the wheel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Event {
    /// When, in picoseconds.
    pub at: u64,
    /// The link that delivers, or a number beyond the links: a timer.
    pub link: u32,
    /// The packet, or what the timer is for.
    pub item: u32,
}

/// Widths of the fields of an event's word, and of a slot.
#[derive(Clone, Copy, Debug)]
struct Layout {
    /// log2 of a slot's length in picoseconds; so many bits of the word hold the time.
    width: u32,
    /// Bits that hold the item.
    item_bits: u32,
    link_bits: u32,
}

/// The wheel.
#[derive(Debug)]
pub(super) struct Wheel {
    layout: Layout,
    slots: Vec<Slot>,
    /// One bit a slot that has events.
    occupied: Vec<u64>,
    blocks: Vec<Block>,
    free: u32,
    /// The last slot whose turn it is, counted from time 0.
    slot: u64,
    /// The events of the slots whose turn it is, sorted; those before `next` are done.
    current: Vec<Event>,
    next: usize,
    /// So many slots may have their turn together: what happens in them pushes events beyond them, as a rule.
    span: u64,
    scratch: Vec<u64>,
    sorted: Vec<u64>,
    /// Events of later rounds, by round.
    far: BTreeMap<u64, Vec<Event>>,
    far_count: usize,
    pending: usize,
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    block: u32,
    count: u32,
}

/// Two cache lines.
#[derive(Clone, Copy, Debug)]
#[repr(align(128))]
struct Block {
    words: [u64; BLOCK],
    /// The blocks that were filled before it in the same slot, the last one first; of a free block, the first is the next free one.
    before: [u32; AHEAD],
}

const BLOCK: usize = 14;
/// So many blocks are fetched at once when a slot is emptied.
const AHEAD: usize = 4;
const NONE: u32 = u32::MAX;
const EMPTY: Slot = Slot { block: NONE, count: 0 };

impl Wheel {
    /// A wheel at time 0 for links numbered below `links`. Slots are of 2^`width` ps; `width` is at most [`MAX_WIDTH`]. Most events are
    /// pushed at least `look_ahead` ps before their time.
    pub fn new(width: u32, slots: usize, links: u32, look_ahead: u64) -> Self {
        assert!(slots.is_power_of_two() && slots >= 64 && width <= MAX_WIDTH, "a wheel of 2^n slots");
        let link_bits = 32 - links.leading_zeros();
        let item_bits = (64 - width - link_bits).min(32);
        Self {
            layout: Layout { width, item_bits, link_bits },
            slots: vec![EMPTY; slots],
            occupied: vec![0; slots / 64],
            blocks: Vec::new(),
            free: NONE,
            slot: 0,
            current: Vec::new(),
            next: 0,
            span: (look_ahead >> width).clamp(1, slots as u64 / 2),
            scratch: Vec::new(),
            sorted: Vec::new(),
            far: BTreeMap::new(),
            far_count: 0,
            pending: 0,
        }
    }

    /// How many items a word can distinguish.
    pub fn max_items(&self) -> u64 {
        1 << self.layout.item_bits
    }

    /// Events that have not been taken.
    pub fn pending(&self) -> usize {
        self.pending
    }

    /// Enters an event, not before the last one taken.
    #[inline]
    pub fn push(&mut self, at: u64, link: u32, item: u32) {
        self.pending += 1;
        let slot = at >> self.layout.width;
        let ahead = slot.wrapping_sub(self.slot);
        if ahead.wrapping_sub(1) < self.slots.len() as u64 - 1 {
            self.put(slot, self.word(at, link, item));
        } else {
            self.push_aside(at, link, item);
        }
    }

    #[inline]
    fn round(&self, slot: u64) -> u64 {
        slot >> self.slots.len().trailing_zeros()
    }

    #[inline]
    fn word(&self, at: u64, link: u32, item: u32) -> u64 {
        let Layout { width, item_bits, link_bits } = self.layout;
        let offset = at & ((1 << width) - 1);
        ((offset << link_bits) | u64::from(link)) << item_bits | u64::from(item)
    }

    #[inline]
    fn put(&mut self, slot: u64, word: u64) {
        let i = slot as usize & (self.slots.len() - 1);
        let Slot { block, count } = self.slots[i];
        if (count as usize) < BLOCK && block != NONE {
            self.blocks[block as usize].words[count as usize] = word;
            self.slots[i].count = count + 1;
        } else {
            self.put_in_new_block(i, word);
        }
    }

    #[cold]
    #[inline(never)]
    fn put_in_new_block(&mut self, slot: usize, word: u64) {
        let last = self.slots[slot].block;
        let before = match self.blocks.get(last as usize) {
            Some(&Block { before: [first, second, third, _], .. }) => [last, first, second, third],
            None => [NONE; AHEAD],
        };
        let mut block = self.free;
        if block == NONE {
            block = self.blocks.len() as u32;
            self.blocks.push(Block { words: [0; BLOCK], before });
        } else {
            self.free = std::mem::replace(&mut self.blocks[block as usize].before, before)[0];
        }
        self.blocks[block as usize].words[0] = word;
        self.slots[slot] = Slot { block, count: 1 };
        self.occupied[slot / 64] |= 1 << (slot % 64);
    }

    /// An event of the current slot, or of a later round.
    #[cold]
    #[inline(never)]
    fn push_aside(&mut self, at: u64, link: u32, item: u32) {
        let slot = at >> self.layout.width;
        if slot <= self.slot {
            if slot == self.slot && self.slots[slot as usize & (self.slots.len() - 1)].block != NONE {
                return self.put(slot, self.word(at, link, item)); // its turn has not come
            }
            let event = Event { at, link, item };
            let place = self.next + self.current[self.next..].partition_point(|e| *e < event);
            self.current.insert(place, event);
        } else {
            self.far_count += 1;
            self.far.entry(self.round(slot)).or_default().push(Event { at, link, item });
        }
    }

    /// The next event before `until`, with the words that follow it in [`Wheel::ahead`].
    #[inline]
    pub fn pop(&mut self, until: u64) -> Option<Event> {
        loop {
            if let Some(&event) = self.current.get(self.next) {
                if event.at >= until {
                    return None;
                }
                self.next += 1;
                self.pending -= 1;
                return Some(event);
            }
            if !self.turn(until) {
                return None;
            }
        }
    }

    /// The event that will be taken after `n` others, if it is at hand and nothing comes between: to touch what it needs.
    #[inline]
    pub fn ahead(&self, n: usize) -> Option<Event> {
        self.current.get(self.next + n).copied()
    }

    /// No event comes before this; `u64::MAX` if there is none. Exact once a slot's turn has come.
    pub fn next_at(&self) -> u64 {
        if let Some(event) = self.current.get(self.next) {
            return event.at;
        }
        let bits = self.slots.len().trailing_zeros();
        let i = self.slot as usize & (self.slots.len() - 1);
        let slot = match (self.next_occupied(i), self.pending > self.far_count) {
            (Some(found), _) => self.slot + (found - i) as u64,
            (None, true) => (self.round(self.slot) + 1) << bits,
            (None, false) => match self.far.first_key_value() {
                Some((&round, _)) => round << bits,
                None => return u64::MAX,
            },
        };
        slot << self.layout.width
    }

    /// Goes on to the next slot with events that begins before `until`; false if there is none.
    fn turn(&mut self, until: u64) -> bool {
        self.current.clear();
        self.next = 0;
        let last = until.saturating_sub(1) >> self.layout.width;
        loop {
            let i = self.slot as usize & (self.slots.len() - 1);
            if let Some(found) = self.next_occupied(i) {
                let slot = self.slot + (found - i) as u64;
                if slot > last {
                    // Not beyond `until`: what happens there may push events between.
                    self.slot = self.slot.max(last);
                    return false;
                }
                self.slot = slot;
                self.gather(found);
                self.gather_more(slot + self.span);
                return true;
            }
            // The rest of the round is empty. Near events may be in the next one; else only far ones are left.
            let round = if self.pending > self.far_count {
                Some(self.round(self.slot) + 1)
            } else {
                self.far.first_key_value().map(|(&round, _)| round)
            };
            let begin = round.map(|r| r << self.slots.len().trailing_zeros());
            match begin {
                Some(begin) if begin <= last => self.enter(begin),
                _ => {
                    if last < u64::MAX >> self.layout.width {
                        self.enter(last.max(self.slot));
                    }
                    return false;
                }
            }
        }
    }

    /// Moves to a slot before which nothing is left; the far events of its round come near.
    fn enter(&mut self, slot: u64) {
        self.slot = slot;
        for event in self.far.remove(&self.round(slot)).unwrap_or_default() {
            self.far_count -= 1;
            self.put(event.at >> self.layout.width, self.word(event.at, event.link, event.item));
        }
    }

    /// The first slot at or after `i`, before the end of the round, that has events.
    #[inline]
    fn next_occupied(&self, i: usize) -> Option<usize> {
        let mut word = self.occupied[i / 64] & (u64::MAX << (i % 64));
        let mut at = i / 64;
        while word == 0 {
            at += 1;
            word = *self.occupied.get(at)?;
        }
        Some(at * 64 + word.trailing_zeros() as usize)
    }

    /// Takes further slots of this round, before `end`, until there are enough events to look ahead in.
    fn gather_more(&mut self, end: u64) {
        let mask = self.slots.len() - 1;
        while self.current.len() < AT_HAND && (self.slot + 1) & mask as u64 != 0 {
            let i = (self.slot + 1) as usize & mask;
            match self.next_occupied(i) {
                Some(found) if self.slot + 1 + ((found - i) as u64) < end => {
                    self.slot += 1 + (found - i) as u64;
                    self.gather(found);
                }
                _ => return,
            }
        }
    }

    /// Takes the events of the slot whose turn it is now, and sorts them.
    fn gather(&mut self, slot: usize) {
        let Slot { mut block, mut count } = std::mem::replace(&mut self.slots[slot], EMPTY);
        self.occupied[slot / 64] &= !(1 << (slot % 64));
        self.scratch.clear();
        while block != NONE {
            let Block { words, before } = &mut self.blocks[block as usize];
            self.scratch.extend_from_slice(&words[..count as usize]);
            count = BLOCK as u32;
            let [after, .., far] = *before;
            before[0] = self.free;
            self.free = block;
            block = after;
            let far = self.blocks.as_ptr().wrapping_add(far as usize);
            touch(far);
            touch(far.cast::<u8>().wrapping_add(64));
        }
        let Layout { width, item_bits, link_bits } = self.layout;
        sort(&mut self.scratch, &mut self.sorted, width + link_bits + item_bits);
        let begin = self.slot << width;
        self.current.extend(self.scratch.iter().map(|&word| {
            let (item, rest) = (word & ((1 << item_bits) - 1), word >> item_bits);
            Event { at: begin | rest >> link_bits, link: (rest & ((1 << link_bits) - 1)) as u32, item: item as u32 }
        }));
    }
}

/// Sorts words of so many bits. Their times are spread over the slot, as a rule: so first into as many buckets as there are words, by their
/// highest bits, which leaves little to sort.
fn sort(words: &mut Vec<u64>, sorted: &mut Vec<u64>, bits: u32) {
    if words.len() < FEW {
        return words.sort_unstable();
    }
    let buckets = words.len().ilog2().min(BUCKETS.ilog2());
    let shift = bits - buckets;
    let mut ends = [0u32; BUCKETS];
    let ends = &mut ends[..1 << buckets];
    for &word in words.iter() {
        ends[(word >> shift) as usize] += 1;
    }
    if ends.iter().any(|&count| count > CROWD) {
        return words.sort_unstable();
    }
    let mut sum = 0;
    for end in ends.iter_mut() {
        sum += std::mem::replace(end, sum);
    }
    sorted.clear();
    sorted.resize(words.len(), 0);
    for &word in words.iter() {
        let end = &mut ends[(word >> shift) as usize];
        sorted[*end as usize] = word;
        *end += 1;
    }
    // What is left is sorted by insertion: a word moves only within its bucket.
    for i in 1..sorted.len() {
        let word = sorted[i];
        let mut at = i;
        while at > 0 && sorted[at - 1] > word {
            sorted[at] = sorted[at - 1];
            at -= 1;
        }
        sorted[at] = word;
    }
    std::mem::swap(words, sorted);
}

const FEW: usize = 48;
const BUCKETS: usize = 1 << 10;
/// So many words in a bucket are better sorted in general.
const CROWD: u32 = 24;

/// Enough events at once to fetch ahead what they need.
const AT_HAND: usize = 128;

/// log2 of the longest slot: 1 us. Leaves 44 bits for link and packet.
pub(super) const MAX_WIDTH: u32 = 20;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::cmp::Reverse;
    use std::collections::BinaryHeap;

    /// Pushes while popping, as an engine does, and compares with a heap.
    fn compare(width: u32, slots: usize, look_ahead: u64, start: &[(u64, u32)], delays: &[(u64, u32)], stops: &[u64]) {
        let mut wheel = Wheel::new(width, slots, 1000, look_ahead);
        let mut heap = BinaryHeap::new();
        let mut item = 0;
        for &(at, link) in start {
            wheel.push(at, link, item);
            heap.push(Reverse((at, link, item)));
            item += 1;
        }
        let mut delays = delays.iter();
        let mut stops = stops.to_vec();
        stops.sort_unstable();
        stops.push(u64::MAX);
        for until in stops {
            loop {
                let expected = heap.peek().copied().filter(|e| e.0.0 < until);
                let bound = wheel.next_at();
                assert!(heap.peek().is_none_or(|e| bound <= e.0.0), "{bound} is no bound");
                let got = wheel.pop(until);
                assert_eq!(got.map(|e| (e.at, e.link, e.item)), expected.map(|e| e.0));
                assert_eq!(wheel.pending() + usize::from(got.is_some()), heap.len());
                let Some(got) = got else { break };
                heap.pop();
                if let Some(&(delay, link)) = delays.next() {
                    let link = if delay == 0 { link.max(got.link) } else { link };
                    wheel.push(got.at + delay, link, item);
                    heap.push(Reverse((got.at + delay, link, item)));
                    item += 1;
                }
            }
            for later in [0, 1000, 64 * 300] {
                let Some(at) = until.checked_add(later).filter(|_| until < u64::MAX) else { break };
                wheel.push(at, 7 + item % 3, item);
                heap.push(Reverse((at, 7 + item % 3, item)));
                item += 1;
            }
        }
    }

    proptest! {
        #[test]
        fn takes_what_a_heap_takes(
            width in 0u32..12,
            look_ahead in 0u64..20_000,
            start in prop::collection::vec((0u64..5000, 0u32..1000), 0..40),
            delays in prop::collection::vec((prop_oneof![0u64..50, 0u64..3000, 0u64..5_000_000], 0u32..1000), 0..300),
            stops in prop::collection::vec(0u64..60_000, 0..12),
        ) {
            compare(width, 64, look_ahead, &start, &delays, &stops);
        }

        #[test]
        fn words_are_sorted(
            bits in 12u32..=64,
            percent_at_once in prop_oneof![Just(0u64), Just(1), Just(40)],
            words in prop::collection::vec(any::<u64>(), 0..3_000),
        ) {
            let highest = u64::MAX >> (64 - bits);
            let word = |w: u64| if w % 100 < percent_at_once { highest / 3 } else { w & highest };
            let words: Vec<u64> = words.into_iter().map(word).collect();
            let mut expected = words.clone();
            expected.sort_unstable();
            let (mut sorted, mut scratch) = (words, vec![7]);
            sort(&mut sorted, &mut scratch, bits);
            prop_assert_eq!(sorted, expected);
        }
    }

    #[test]
    fn many_events_of_one_slot_and_far_ones() {
        let start: Vec<(u64, u32)> = (0..200).map(|i| (1000 + i % 7, (i % 999) as u32)).collect();
        compare(10, 64, 0, &start, &[(u64::from(u32::MAX) * 16, 3), (1, 4), (1 << 40, 5)], &[1, 1003, 1 << 30]);
    }
}
