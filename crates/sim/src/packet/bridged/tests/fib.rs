//! The learning table against a list that is searched from end to end.

use super::super::fib::{Fib, FibCounters, Key, Rules};
use proptest::prelude::*;
use weft_fabric::rng::mix;

/// Entries in the order of their last refresh: key, port, refreshed, valid.
struct Slow {
    rules: Rules,
    entries: Vec<(Key, u32, u64, u64)>,
    busy: u64,
    counters: FibCounters,
}

impl Slow {
    fn learn(&mut self, key: Key, port: u32, now: u64) {
        self.entries.retain(|e| now < e.2 + self.rules.ageing);
        let known = self.entries.iter().position(|e| e.0 == key);
        if let Some(i) = known.filter(|&i| self.entries[i].1 == port) {
            let (_, _, _, valid) = self.entries.remove(i);
            return self.entries.push((key, port, now, valid));
        }
        if self.rules.entries == 0 {
            return;
        }
        let mut valid = now;
        if self.rules.learn > 0 {
            if self.busy.max(now) > now + self.rules.learn_wait {
                self.counters.unlearnt += 1;
                return;
            }
            self.busy = self.busy.max(now) + self.rules.learn;
            valid = self.busy;
        }
        match known {
            Some(i) => drop(self.entries.remove(i)),
            None => {
                // The table is one bucket, or each bucket is a table.
                let Rules { entries, ways, .. } = self.rules;
                let bucket = |key: Key| entries.checked_div(ways).map_or(0, |buckets| mix(key.0) % buckets as u64);
                let mine = |e: &&(Key, u32, u64, u64)| bucket(e.0) == bucket(key);
                if self.entries.iter().filter(mine).count() == if ways == 0 { entries } else { ways } {
                    self.counters.evicted += 1;
                    let oldest = self.entries.iter().position(|e| mine(&e)).expect("a full bucket");
                    self.entries.remove(oldest);
                }
            }
        }
        self.entries.push((key, port, now, valid));
        self.counters.most = self.counters.most.max(self.entries.len());
    }

    fn find(&mut self, key: Key, now: u64) -> Option<u32> {
        self.entries.retain(|e| now < e.2 + self.rules.ageing);
        self.entries.iter().find(|e| e.0 == key && e.3 <= now).map(|e| e.1)
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(ProptestConfig::default().cases * 500 / 256))]
    #[test]
    fn does_what_a_list_does(
        buckets in 0usize..12, ways in 0usize..4, ageing in 1u64..200, learn in 0u64..6, learn_wait in 0u64..30,
        frames in prop::collection::vec((0u16..3, 0u32..8, 0u32..3, 0u64..20), 1..300),
    ) {
        let entries = buckets * ways.max(1);
        let rules = Rules { entries, ways, ageing, learn, learn_wait };
        let mut fast = Fib::new(rules);
        let mut slow = Slow { rules, entries: Vec::new(), busy: 0, counters: FibCounters::default() };
        let mut now = 0;
        for (vlan, address, port, later) in frames {
            // Which of two that were refreshed at one instant makes room, buckets and lists settle in different ways.
            now += later / 4 * later + u64::from(ways > 0);
            let key = Key::new(vlan, address);
            fast.learn(key, port, now);
            slow.learn(key, port, now);
            if later == 19 {
                fast.forget(port);
                slow.entries.retain(|e| e.1 != port);
            }
            for other in 0..8 {
                let key = Key::new(vlan, other);
                prop_assert_eq!(fast.find(key, now), slow.find(key, now));
            }
            prop_assert_eq!(fast.keys(), slow.entries.iter().map(|e| e.0).collect::<Vec<_>>());
            prop_assert_eq!(fast.counters, slow.counters);
            prop_assert!(fast.len() <= entries);
        }
    }
}

#[test]
fn the_least_recently_refreshed_makes_room() {
    let mut fib = Fib::new(Rules { entries: 2, ways: 0, ageing: 1_000, learn: 0, learn_wait: 0 });
    let [a, b, c] = [1, 2, 3].map(|address| Key::new(1, address));
    fib.learn(a, 10, 0);
    fib.learn(b, 11, 1);
    fib.learn(a, 10, 2);
    fib.learn(c, 12, 3);
    assert_eq!([a, b, c].map(|k| fib.find(k, 3)), [Some(10), None, Some(12)]);
    // What is looked up grows old all the same.
    assert_eq!(fib.find(a, 1_001), Some(10));
    assert_eq!([a, c].map(|k| fib.find(k, 1_002)), [None, Some(12)]);
    assert_eq!(fib.counters, FibCounters { evicted: 1, unlearnt: 0, most: 2 });
}

#[test]
fn new_addresses_wait_for_the_processor() {
    let mut fib = Fib::new(Rules { entries: 9, ways: 0, ageing: 10_000, learn: 100, learn_wait: 150 });
    let keys: Vec<Key> = (0..4).map(|address| Key::new(1, address)).collect();
    for &key in &keys {
        fib.learn(key, 5, 0);
    }
    let found = |fib: &mut Fib, now| keys.iter().map(|&k| fib.find(k, now).is_some()).collect::<Vec<_>>();
    assert_eq!(found(&mut fib, 99), [false, false, false, false]);
    assert_eq!(found(&mut fib, 100), [true, false, false, false]);
    assert_eq!(found(&mut fib, 200), [true, true, false, false]);
    assert_eq!(fib.counters.unlearnt, 2);
}
