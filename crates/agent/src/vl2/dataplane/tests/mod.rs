//! The programs run by BPF_PROG_RUN on packets made here, their output compared byte by byte with a plain reference.
//!
//! Without root, or in a container that may not, each test says so and passes.

mod cost;
mod fuzz;
mod host;
mod packets;
mod switch;
mod upgrade;

use weft_control::directory::key::ServiceId;

use super::{Counter, Counters, PeerKey, PeerState, Refusal, layout};
use crate::dataplane::load::Loaded;
use crate::dataplane::testing::PinDir;

/// What was counted while `work` ran, of counters that are not zero.
fn counted<T>(loaded: &Loaded, work: impl FnOnce() -> T) -> (T, Vec<(Counter, u64)>) {
    let read = || Counters::read(loaded).unwrap();
    let before: Counters = read();
    let result = work();
    (result, read().since(&before).iter().filter(|(_, value)| *value > 0).collect())
}

#[test]
fn counters_have_the_names_and_the_order_of_the_programs() {
    let header = include_str!("../../../../bpf/vl2/layout.h");
    let list = header.split("enum vl2_counter {").nth(1).unwrap().split('}').next().unwrap();
    let names: Vec<String> = list.split(',').map(|name| name.trim().to_lowercase()).filter(|name| !name.is_empty()).collect();
    let mut ours: Vec<String> = Counter::ALL.iter().map(|counter| format!("vl2_{}", counter.name())).collect();
    ours.push("vl2_counters".to_owned());
    assert_eq!(names, ours);
    assert!(Counter::ALL.iter().enumerate().all(|(i, &counter)| counter as usize == i));
}

#[test]
fn the_next_process_adopts_the_tables() {
    let Some(pins) = PinDir::new() else { return };
    let settings = packets::settings();
    let first = super::host::load(&settings, &pins.0).unwrap();
    assert!(!first.adopted);
    let (key, peer) = (
        layout::peer_key(PeerKey { service: ServiceId(1), address: [7, 7, 7, 7].into() }),
        layout::peer(&PeerState::Refused(Refusal::Unknown), false),
    );
    first.table(&layout::PEERS).set(&key, &peer).unwrap();
    drop(first);
    let second = super::host::load(&settings, &pins.0).unwrap();
    assert!(second.adopted);
    assert!(second.table(&layout::PEERS).get(&key).unwrap().is_some());
    drop(second);
    std::fs::remove_file(pins.0.join("groups")).unwrap();
    let mut third = super::host::load(&settings, &pins.0).unwrap();
    assert!(third.adopted, "one that is missing is made, and the others stay");
    assert!(third.table(&layout::PEERS).get(&key).unwrap().is_some());
    third.detach().unwrap();
    assert!(!pins.0.exists());
}
