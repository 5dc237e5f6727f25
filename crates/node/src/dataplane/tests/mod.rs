//! The programs run by BPF_PROG_RUN on packets made here, their output compared byte by byte with a plain reference.
//!
//! Without root, or in a container that may not, each test says so and passes.

#[path = "../../../tests/support/ebpf.rs"]
mod ebpf;
mod fuzz;
mod host;
mod packets;
mod switch;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use libbpf_rs::{MapCore as _, ProgramInput};

use super::load::Loaded;
use super::maps;
use super::{Counter, Counters, layout};

/// What a hook may answer.
pub(super) const OK: i32 = 0;
pub(super) const DROPPED: i32 = 2;
pub(super) const CONSUMED: i32 = 4;
pub(super) const REDIRECTED: i32 = 7;

/// A folder of bpffs for one test; it goes with it.
pub(super) struct PinDir(pub PathBuf);

impl PinDir {
    /// None where there can be no such folder.
    pub fn new() -> Option<Self> {
        if !ebpf::is_possible() {
            return None;
        }
        static NEXT: AtomicU32 = AtomicU32::new(0);
        Some(Self(Path::new("/sys/fs/bpf").join(format!(
            "weft-test-{}-{}",
            std::process::id(),
            NEXT.fetch_add(1, Ordering::Relaxed)
        ))))
    }
}

impl Drop for PinDir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Runs a program on a frame with a mark: its answer and the frame as it left it.
pub(super) fn run(loaded: &Loaded, program: &str, frame: &[u8], mark: u32) -> (i32, Vec<u8>) {
    run_segments(loaded, program, frame, mark, 0)
}

/// The same on a packet of several segments.
fn run_segments(loaded: &Loaded, program: &str, frame: &[u8], mark: u32, segment: u32) -> (i32, Vec<u8>) {
    // struct __sk_buff: the mark at byte 8, gso_size at 176.
    let mut context = [0u8; 192];
    context[8..12].copy_from_slice(&mark.to_ne_bytes());
    context[176..180].copy_from_slice(&segment.to_ne_bytes());
    let mut out = vec![0; frame.len() + 256];
    let input =
        ProgramInput { context_in: Some(&mut context), data_in: Some(frame), data_out: Some(&mut out), ..Default::default() };
    let result = loaded.program(program).test_run(input).unwrap();
    let answer = result.return_value as i32;
    let length = result.data.map_or(0, |data| data.len());
    out.truncate(length);
    (answer, out)
}

/// What was counted while `work` ran, of counters that are not zero.
fn counted<T>(loaded: &Loaded, work: impl FnOnce() -> T) -> (T, Vec<(Counter, u64)>) {
    let read = || maps::counters(loaded.map("counters")).unwrap();
    let before: Counters = read();
    let result = work();
    (result, read().since(&before).iter().filter(|(_, value)| *value > 0).collect())
}

#[test]
fn counters_have_the_names_and_the_order_of_the_programs() {
    let header = include_str!("../../../bpf/vl2.h");
    let list = header.split("enum vl2_counter {").nth(1).unwrap().split('}').next().unwrap();
    let names: Vec<String> = list.split(',').map(|name| name.trim().to_lowercase()).filter(|name| !name.is_empty()).collect();
    let mut ours: Vec<String> = Counter::ALL.iter().map(|counter| format!("vl2_{}", counter.name())).collect();
    ours.push("vl2_counters".to_owned());
    assert_eq!(names, ours);
    assert!(Counter::ALL.iter().enumerate().all(|(i, &counter)| counter as usize == i));
}

#[test]
fn values_have_the_sizes_that_the_programs_give_them() {
    let Some(pins) = PinDir::new() else { return };
    let loaded = super::host::load(&packets::settings(), &pins.0).unwrap();
    let sizes = [("settings", layout::SETTINGS), ("peers", layout::PEER), ("locals", layout::LOCAL), ("groups", layout::GROUP)];
    for (name, size) in sizes.into_iter().chain([("flows", layout::FLOW_STATE), ("paths", 4 + layout::FLOW)]) {
        assert_eq!(loaded.map(name).value_size() as usize, size, "{name}");
    }
    assert_eq!(loaded.map("flows").key_size() as usize, layout::FLOW);
}

#[test]
fn the_next_process_adopts_the_tables_and_another_shape_does_not() {
    let Some(pins) = PinDir::new() else { return };
    let settings = packets::settings();
    let first = super::host::load(&settings, &pins.0).unwrap();
    assert!(!first.adopted);
    let key = [7u8; 16];
    first.map("peers").update(&key, &[1; layout::PEER], libbpf_rs::MapFlags::ANY).unwrap();
    drop(first);
    let second = super::host::load(&settings, &pins.0).unwrap();
    assert!(second.adopted);
    assert!(second.map("peers").lookup(&key, libbpf_rs::MapFlags::ANY).unwrap().is_some());
    drop(second);
    std::fs::remove_file(pins.0.join("groups")).unwrap();
    let mut third = super::host::load(&settings, &pins.0).unwrap();
    assert!(!third.adopted, "a part of the tables is none");
    assert!(third.map("peers").lookup(&key, libbpf_rs::MapFlags::ANY).unwrap().is_none());
    third.detach().unwrap();
    assert!(!pins.0.exists());
}
