//! The packed pass beside a plain one.

use proptest::prelude::*;
use weft_fabric::rng::{Stream, stream};

use super::lanes::{Draws, Entry, SPARE, Step, TABLE_LEAST, lanes};

/// A tick as section 5.5 words it: shuffle, then visit.
fn reference(flows: &mut [Entry], capacities: &[i32], step: Step, random: &mut Draws) {
    for i in 0..flows.len() {
        let j = i + random.below((flows.len() - i) as u32) as usize;
        flows.swap(i, j);
    }
    for i in 0..flows.len() {
        let used = |link: u32| flows.iter().filter(|f| f.links.contains(&link)).map(|f| f.rate).sum::<i32>();
        let free = flows[i].links.iter().map(|&l| capacities[l as usize] - used(l)).min().unwrap();
        let flow = &mut flows[i];
        if free == 0 {
            flow.rate /= 2;
            flow.slow_start = false;
        } else if flow.slow_start {
            flow.rate += flow.rate.max(step.initial).min(free);
        } else {
            flow.rate += step.increase.min(free);
        }
        flow.left -= i64::from(flow.rate);
    }
}

proptest! {
    #[test]
    fn packed_is_plain(
        paths in proptest::collection::vec(proptest::sample::subsequence((0..14u32).collect::<Vec<_>>(), 1..=8), 1..25),
        capacities in proptest::collection::vec(1i32..2_000, 14),
        increase in 1i32..50,
        initial in 1i32..50,
        seed: u64,
        wide: bool,
    ) {
        let step = Step { increase, initial };
        let mut random = Draws::new(stream(seed, Stream::Aimd));
        let mut plain_random = random.clone();
        let widest = paths.iter().map(Vec::len).max().unwrap();
        let links = if wide { 70_000 } else { 14 };
        let mut packed = lanes(widest, links, 0);
        let mut residuals = vec![0; links];
        residuals[..14].copy_from_slice(&capacities);
        residuals.push(SPARE);
        residuals.resize(residuals.len().max(TABLE_LEAST), 0);
        let mut plain: Vec<Entry> = (0..).zip(&paths).map(|(slot, path)| Entry {
            slot, left: 10_000 + i64::from(slot), rate: 0, slow_start: true, links: path.iter().copied().collect(),
        }).collect();
        plain.iter().for_each(|e| packed.push(e));
        for _ in 0..60 {
            let mut finished = Vec::new();
            let sum = packed.pass(&mut residuals, step, &mut random, &mut finished);
            reference(&mut plain, &capacities, step, &mut plain_random);
            for (place, flow) in plain.iter().enumerate() {
                prop_assert_eq!(&packed.get(place), flow);
                prop_assert_eq!(flow.left <= 0, finished.contains(&(place as u32)));
            }
            prop_assert_eq!(sum, plain.iter().map(|f| f.rate as u64).sum::<u64>());
            for (link, &capacity) in capacities.iter().enumerate() {
                let used: i32 = plain.iter().filter(|f| f.links.contains(&(link as u32))).map(|f| f.rate).sum();
                prop_assert_eq!(residuals[link], capacity - used);
            }
        }
    }

    #[test]
    fn draws_are_below(seed: u64, n in 1u32..) {
        let mut random = Draws::new(stream(seed, Stream::Aimd));
        for _ in 0..50 {
            prop_assert!(random.below(n) < n);
        }
    }
}
