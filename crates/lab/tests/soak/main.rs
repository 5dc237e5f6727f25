//! A soak: a VL2 network of 40 hosts in which random parts fail, move and are replaced for as long as is wanted, while streams go on. No stream that has both ends alive
//! may pause for more than 2 s, nothing may cross from one service to the other, and no daemon's memory may grow.
//!
//! `WEFT_SOAK_S` (20) is how long faults are made, in seconds; `WEFT_SOAK_SEED` chooses the same ones again (`make soak`). As root, with `weft-agent`,
//! `weft-directory` and etcd; elsewhere it says that it is skipped.
#![cfg(target_os = "linux")]

mod faults;
mod memory;
#[path = "../support/mod.rs"]
mod support;
mod traffic;

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher as _, Hasher as _};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use faults::Faults;
use memory::Memory;
use support::streams::{AtEnd, wait_until};
use support::{TestLab, overlay};
use traffic::Traffic;
use weft_fabric::topology::shapes::Shape;
use weft_lab::Stopwatch;
use weft_lab::plan::Store;
use weft_lab::plan::vl2::{LocatorKind, ServiceSpec, Vl2Spec};
use weft_lab::probe::isolation;

/// What a stream may pause.
const PAUSE: Duration = Duration::from_secs(2);
/// How long an address may be without an answer while it moves: until the directory, which may have lost its servers just before, has its new place.
const MOVE: Duration = Duration::from_secs(10);
/// All attacks of an adversary are made so often, between faults.
const ATTACKS_EVERY: Duration = Duration::from_secs(300);

const HOSTS_PER_TOR: usize = 8;
const TORS: u32 = 5;
const SHAPE: Shape = Shape::ClosExplicit {
    intermediates: 3,
    aggregations: 3,
    tors: TORS,
    uplinks_per_tor: 2,
    hosts_per_tor: HOSTS_PER_TOR as u32,
};

/// Every second host is of the one service, the others of the other, which may not talk.
fn stand() -> Option<TestLab> {
    let service = |name: &str, first: u32| ServiceSpec {
        name: name.to_owned(),
        hosts: (first..TORS * HOSTS_PER_TOR as u32).step_by(2).collect(),
        allow: Vec::new(),
    };
    let services = vec![service("web", 0), service("batch", 1)];
    let plan =
        overlay::plan_of(SHAPE, 'o', Vl2Spec { locator: LocatorKind::Tor, ecmp_width: 16, services, external: Vec::new() });
    overlay::stand(plan.with_directory(3, Store::Etcd).expect("three servers"))
}

fn of_environment(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|value| value.parse().expect("a number"))
}

#[test]
fn faults_of_forty_hosts_stop_no_stream() {
    let seconds = of_environment("WEFT_SOAK_S").unwrap_or(20);
    // Else a new one in each process.
    let seed = of_environment("WEFT_SOAK_SEED").unwrap_or_else(|| RandomState::new().build_hasher().finish());
    let Some(lab) = stand() else { return };
    eprintln!("WEFT_SOAK_SEED={seed} WEFT_SOAK_S={seconds}");
    let (traffic, mut memory) = (Traffic::begin(&lab), Memory::default());
    let fabric = overlay::fabric_of(SHAPE);
    let mut faults = Faults::new(&lab, &fabric, &traffic, seed);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _end = AtEnd(&done);
        scope.spawn(|| traffic.run(&done));
        wait_until("all streams flow", || traffic.all_flow());
        let (watch, mut attacks, mut rounds) = (Stopwatch::new(), ATTACKS_EVERY, 0);
        while watch.elapsed() < Duration::from_secs(seconds) && !traffic.has_failed() {
            faults.step();
            memory.look(&lab, watch.elapsed());
            if watch.elapsed() >= attacks {
                attacks += ATTACKS_EVERY;
                rounds += 1;
                let result = isolation::test(lab.plan(), &overlay::GO).expect("it runs");
                assert!(result.ok, "{:?}", result.cases.iter().filter(|case| case.ok == Some(false)).collect::<Vec<_>>());
            }
        }
        wait_until("all streams flow again", || traffic.all_flow());
        println!("seed {seed}: {:.0?}, {} faults, all attacks {rounds} times", watch.elapsed(), faults.count());
    });
    let outcome = traffic.outcome();
    println!("{faults}{outcome}{memory}");
    assert!(outcome.failed.is_empty(), "streams that ended: {:?}", outcome.failed);
    assert!(outcome.within > 0, "datagrams within a service arrive");
    assert_eq!(outcome.crossed, 0, "datagrams of the other service that arrived");
    assert!(outcome.longest.length <= PAUSE, "a stream paused for {}", outcome.longest);
    assert!(outcome.unanswered.length <= MOVE, "the address that moves did not answer for {}", outcome.unanswered);
    memory.assert_steady();
}
