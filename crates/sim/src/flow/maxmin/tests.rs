//! The fast solvers beside a slow obvious one.

use proptest::prelude::*;
use weft_fabric::LinkId;

use super::levels::Levels;
use super::solver::{MaxMinError, max_min};

/// Progressive filling as the textbook has it: raise all growing flows until some link is full, stop the flows on it, repeat.
fn reference(paths: &[Vec<u32>], capacities: &[f64]) -> Vec<f64> {
    let mut rates = vec![f64::INFINITY; paths.len()];
    let mut growing: Vec<usize> = (0..paths.len()).filter(|&f| !paths[f].is_empty()).collect();
    while !growing.is_empty() {
        let mut tightest = (f64::INFINITY, 0);
        for link in 0..capacities.len() as u32 {
            let of_link = |f: &&usize| paths[**f].contains(&link);
            let count = growing.iter().filter(of_link).count();
            let stopped = (0..paths.len()).filter(|f| !growing.contains(f) && paths[*f].contains(&link));
            let share = (capacities[link as usize] - stopped.map(|f| rates[f]).sum::<f64>()).max(0.0) / count as f64;
            if count > 0 && share < tightest.0 {
                tightest = (share, link);
            }
        }
        growing.retain(|&f| {
            let stops = paths[f].contains(&tightest.1);
            rates[f] = if stops { tightest.0 } else { rates[f] };
            !stops
        });
    }
    rates
}

fn rows(paths: &[Vec<u32>]) -> (Vec<usize>, Vec<u32>) {
    let mut offsets = vec![0];
    let mut links = Vec::new();
    for path in paths {
        links.extend_from_slice(path);
        offsets.push(links.len());
    }
    (offsets, links)
}

fn path_strategy(links: u32) -> impl Strategy<Value = Vec<u32>> {
    proptest::sample::subsequence((0..links).collect::<Vec<_>>(), 1..=6.min(links as usize))
}

fn close(a: f64, b: f64) -> bool {
    a == b || (a - b).abs() <= 1e-9 * a.abs().max(b.abs())
}

#[test]
fn parking_lot() {
    // A long flow over three links, and one short flow on each.
    let paths = vec![vec![0, 1, 2], vec![0], vec![1], vec![2]];
    let (offsets, links) = rows(&paths);
    assert_eq!(max_min(&offsets, &links, &[10.0, 10.0, 4.0]).unwrap(), [2.0, 8.0, 8.0, 2.0]);
}

#[test]
fn bad_input_is_named() {
    assert_eq!(max_min(&[0, 1], &[3], &[1.0]), Err(MaxMinError::NoSuchLink { flow: 0, link: 3, links: 1 }));
    assert_eq!(max_min(&[0, 2], &[0, 0], &[1.0]), Err(MaxMinError::LinkTwice { flow: 0, link: 0 }));
    assert_eq!(max_min(&[0, 1], &[0], &[-1.0]), Err(MaxMinError::Capacity { link: 0, capacity: -1.0 }));
    assert!(matches!(max_min(&[0, 1], &[0], &[f64::NAN]), Err(MaxMinError::Capacity { link: 0, .. })));
    assert_eq!(max_min(&[0, 2, 1, 3], &[0, 0, 0], &[1.0; 3]).is_err(), true);
    assert!(matches!(max_min(&[1, 2], &[0, 0], &[1.0]), Err(MaxMinError::Offsets { .. })));
    assert!(matches!(max_min(&[], &[0], &[1.0]), Err(MaxMinError::Offsets { .. })));
    assert_eq!(max_min(&[], &[], &[]), Ok(vec![]));
    assert_eq!(max_min(&[0, 0], &[], &[]), Ok(vec![f64::INFINITY]));
}

proptest! {
    #[test]
    fn filling_is_the_reference(
        paths in proptest::collection::vec(path_strategy(12), 0..30),
        capacities in proptest::collection::vec(prop_oneof![Just(0.0), Just(1e9), Just(1e10), 1.0..1e9f64], 12),
    ) {
        let (offsets, links) = rows(&paths);
        let fast = max_min(&offsets, &links, &capacities).unwrap();
        for (f, r) in fast.iter().zip(reference(&paths, &capacities)) {
            prop_assert!(close(*f, r), "{} {}", f, r);
        }
    }

    /// Flows come, go and move; after each change the repaired rates are those from scratch.
    #[test]
    fn repairs_give_what_filling_gives(
        link_count in 2u32..40,
        capacity_kind in 0..3,
        changes in proptest::collection::vec((0usize..60, path_strategy(40), 0..4), 1..300),
    ) {
        let capacities: Vec<f64> = (0..link_count).map(|l| match capacity_kind {
            0 => 1e9,
            1 => if l % 3 == 0 { 1e10 } else { 1e9 },
            _ => 1e8 * (1.0 + f64::from(l * 7919 % 101)),
        }).collect();
        let mut levels = Levels::new(capacities.clone());
        let mut paths: Vec<Vec<u32>> = vec![Vec::new(); 60];
        for (slot, path, several) in changes {
            let mut path: Vec<u32> = path.into_iter().map(|l| l % link_count).collect();
            path.sort_unstable();
            path.dedup();
            if !paths[slot].is_empty() {
                levels.leave(slot as u32);
                paths[slot].clear();
            } else {
                let links: Vec<LinkId> = path.iter().map(|&l| LinkId(l)).collect();
                levels.join(slot as u32, &links);
                paths[slot] = path;
            }
            if several == 0 {
                continue;
            }
            let touched = levels.settle();
            levels.recycle(touched);
            let (offsets, links) = rows(&paths);
            let exact = max_min(&offsets, &links, &capacities).unwrap();
            for (slot, exact) in exact.into_iter().enumerate() {
                if !paths[slot].is_empty() {
                    prop_assert!(close(levels.rate(slot as u32), exact), "{} {}", levels.rate(slot as u32), exact);
                }
            }
        }
    }
}
