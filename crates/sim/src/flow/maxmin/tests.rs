//! The fast solvers beside a slow obvious one.

use std::sync::Arc;

use proptest::prelude::*;
use rand::RngExt;
use weft_fabric::rng::{Stream, stream};
use weft_fabric::routing::{FlowKey, Router, Routing};
use weft_fabric::topology::shapes::{Cabling, fat_tree};
use weft_fabric::{BitsPerSec, Duration, HostId};

use super::Sharing;
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
    assert!(max_min(&[0, 2, 1, 3], &[0, 0, 0], &[1.0; 3]).is_err());
    assert!(matches!(max_min(&[1, 2], &[0, 0], &[1.0]), Err(MaxMinError::Offsets { .. })));
    assert!(matches!(max_min(&[], &[0], &[1.0]), Err(MaxMinError::Offsets { .. })));
    assert_eq!(max_min(&[], &[], &[]), Ok(vec![]));
    assert_eq!(max_min(&[0, 0], &[], &[]), Ok(vec![f64::INFINITY]));
}

/// Coupled as in a data centre: several flows a host, hashed paths, one change at a time. Returns how far the rates are from the
/// exact ones, relatively, in ascending order: of every flow after every fourth change.
fn errors_of_repairs(tolerance: f64) -> Vec<f64> {
    let link = Cabling { rate: BitsPerSec(1_000_000_000), delay: Duration::ZERO };
    let fabric = Arc::new(fat_tree(8, link).unwrap());
    let mut router = Router::new(Arc::clone(&fabric), Routing::default(), 1);
    let mut rng = stream(1, Stream::Traffic);
    let capacities: Vec<f64> = fabric.links().iter().map(|l| l.capacity.as_f64()).collect();
    let mut levels = Levels::new(capacities.iter().copied(), tolerance);
    let mut paths: Vec<Vec<u32>> = vec![Vec::new(); 700];
    let mut errors = Vec::new();
    for change in 0..4_000u32 {
        let slot = rng.random_range(0..700usize);
        if !paths[slot].is_empty() {
            levels.leave(slot as u32);
        }
        let src = HostId(rng.random_range(0..128));
        // A tenth goes to one host: an incast that holds many flows.
        let dst = if rng.random_range(0..10) == 0 { HostId(0) } else { HostId(rng.random_range(0..128)) };
        let path = router.route(&FlowKey::of_flow(change, src, dst)).unwrap();
        if src == dst || rng.random_range(0..3) == 0 {
            paths[slot].clear();
        } else {
            levels.join(slot as u32, path.iter().map(|l| (l.0, 1.0)));
            paths[slot] = path.iter().map(|l| l.0).collect();
        }
        let touched = levels.settle();
        levels.recycle(touched);
        if change % 4 == 0 {
            let (offsets, links) = rows(&paths);
            let exact = max_min(&offsets, &links, &capacities).unwrap();
            for (slot, exact) in exact.into_iter().enumerate().filter(|(s, _)| !paths[*s].is_empty()) {
                errors.push((levels.rate(slot as u32) / exact - 1.0).abs());
            }
        }
    }
    errors.sort_unstable_by(f64::total_cmp);
    errors
}

/// The error must not grow.
#[test]
fn thousands_of_repairs_do_not_drift() {
    let worst = *errors_of_repairs(0.0).last().unwrap();
    assert!(worst < 1e-10, "{worst}");
}

/// A tolerance of 1 % bounds a link's own error; what several links do to one flow adds up, seldom to more.
#[test]
fn most_rates_are_within_the_tolerance() {
    let errors = errors_of_repairs(0.01);
    let quantile = |q: f64| errors[((errors.len() - 1) as f64 * q) as usize];
    eprintln!("median {}, p95 {}, p99 {}, max {}", quantile(0.5), quantile(0.95), quantile(0.99), quantile(1.0));
    assert!(quantile(0.5) < 0.006 && quantile(0.95) < 0.01 && quantile(1.0) < 0.1);
}

/// Twelve flows fill link 0 and link 1 at once: of the latter, filling says nothing. When a thirteenth, which link 2 has held back, grows there, link 1 notices.
#[test]
fn what_filling_leaves_full_is_known_to_be_full() {
    let capacities = [12.0, 12.5, 1.0, 1e3];
    let mut levels = Levels::new(capacities.into_iter(), 0.1);
    let mut paths = vec![vec![0, 1]; 12];
    paths.extend([vec![1, 2], vec![2]]);
    // Enough beginnings at once for filling from scratch.
    paths.extend(vec![vec![3]; 40]);
    for (slot, path) in (0..).zip(&paths) {
        levels.join(slot, path.iter().map(|&l| (l, 1.0)));
    }
    let touched = levels.settle();
    levels.recycle(touched);
    levels.leave(13);
    paths[13].clear();
    let touched = levels.settle();
    levels.recycle(touched);
    is_fair_within(0.1, &paths, &capacities, |slot| levels.rate(slot as u32)).unwrap();
}

/// What a tolerance promises: no link carries more than it can, and each flow has a link on which none is faster, and which
/// would give the fastest at most the tolerance more.
fn is_fair_within(tolerance: f64, paths: &[Vec<u32>], capacities: &[f64], rate: impl Fn(usize) -> f64) -> Result<(), String> {
    let on = |link: u32| (0..paths.len()).filter(move |&f| paths[f].contains(&link));
    for (link, capacity) in (0..).zip(capacities) {
        let load: f64 = on(link).map(&rate).sum();
        if load > capacity * (1.0 + 1e-9) {
            return Err(format!("link {link} carries {load} of {capacity}"));
        }
    }
    for flow in (0..paths.len()).filter(|&f| !paths[f].is_empty()) {
        let own = rate(flow);
        let holds = |&link: &u32| {
            let slower: f64 = on(link).map(&rate).filter(|r| *r < own).sum();
            let fastest = on(link).filter(|&f| rate(f) == own).count();
            let share = (capacities[link as usize] - slower) / fastest as f64;
            on(link).all(|f| rate(f) <= own) && own >= share * (1.0 - tolerance) * (1.0 - 1e-9)
        };
        if !paths[flow].iter().any(holds) {
            return Err(format!("nothing holds flow {flow} at {own}"));
        }
    }
    Ok(())
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

    /// Flows come, go and move, and links change; after each change the repaired rates are those from scratch, or fair within the
    /// tolerance.
    #[test]
    fn repairs_give_what_filling_gives(
        tolerance in prop_oneof![Just(0.0), Just(0.0), Just(0.01), Just(0.1)],
        link_count in 2u32..40,
        capacity_kind in 0..3,
        changes in proptest::collection::vec((0usize..60, path_strategy(40), 0..4), 1..300),
    ) {
        let mut capacities: Vec<f64> = (0..link_count).map(|l| match capacity_kind {
            0 => 1e9,
            1 => if l % 3 == 0 { 1e10 } else { 1e9 },
            _ => 1e8 * (1.0 + f64::from(l * 7919 % 101)),
        }).collect();
        let mut levels = Levels::new(capacities.iter().copied(), tolerance);
        let mut paths: Vec<Vec<u32>> = vec![Vec::new(); 60];
        for (slot, path, several) in changes {
            let mut path: Vec<u32> = path.into_iter().map(|l| l % link_count).collect();
            path.sort_unstable();
            path.dedup();
            if !paths[slot].is_empty() {
                levels.leave(slot as u32);
                paths[slot].clear();
            } else {
                levels.join(slot as u32, path.iter().map(|&l| (l, 1.0)));
                paths[slot] = path;
            }
            if several == 0 {
                continue;
            }
            if several == 3 {
                let link = slot as u32 % link_count;
                capacities[link as usize] *= if slot % 2 == 0 { 0.3 } else { 2.0 };
                levels.set_capacity(link, capacities[link as usize]);
            }
            let touched = levels.settle();
            levels.recycle(touched);
            levels.audit();
            if tolerance > 0.0 {
                let fair = is_fair_within(tolerance, &paths, &capacities, |slot| levels.rate(slot as u32));
                prop_assert!(fair.is_ok(), "{:?}", fair);
                continue;
            }
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
