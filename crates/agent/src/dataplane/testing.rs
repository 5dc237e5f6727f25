//! Running programs by BPF_PROG_RUN in tests. Without root, or in a container that may not, there is no [`PinDir`].

#[path = "../../tests/support/ebpf.rs"]
mod ebpf;

use std::os::fd::{AsFd, AsRawFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use libbpf_rs::ProgramInput;

use super::load::Loaded;

/// What a hook may answer.
pub(crate) const OK: i32 = 0;
pub(crate) const DROPPED: i32 = 2;
pub(crate) const CONSUMED: i32 = 4;
pub(crate) const REDIRECTED: i32 = 7;

/// A folder of bpffs for one test; it goes with it.
pub(crate) struct PinDir(pub PathBuf);

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
pub(crate) fn run(loaded: &Loaded, program: &str, frame: &[u8], mark: u32) -> (i32, Vec<u8>) {
    run_segments(loaded, program, frame, mark, 0)
}

/// The same on a packet of several segments.
pub(crate) fn run_segments(loaded: &Loaded, program: &str, frame: &[u8], mark: u32, segment: u32) -> (i32, Vec<u8>) {
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

/// The median time of a program on a frame that it lets pass, in nanoseconds: what is dropped ends early, so its time says nothing. Few runs, enough to
/// show that the frame passes; `WEFT_COST_RUNS=20001` to measure.
pub(crate) fn cost(loaded: &Loaded, program: &str, frame: &[u8], passes: impl Fn(i32) -> bool) -> u64 {
    let program = loaded.program(program);
    let runs = std::env::var("WEFT_COST_RUNS").map_or(11, |text| text.parse().expect("a number of runs"));
    let mut times: Vec<u64> = (0..runs)
        .map(|_| {
            let mut out = vec![0; frame.len() + 256];
            let input = ProgramInput { data_in: Some(frame), data_out: Some(&mut out), ..Default::default() };
            let run = program.test_run(input).unwrap();
            assert!(passes(run.return_value as i32), "answer {}: the frame does not pass", run.return_value);
            run.duration.as_nanos() as u64
        })
        .collect();
    times.sort_unstable();
    times[times.len() / 2]
}

/// The kernel verifies programs each time an agent starts: some 1.5 ms for a thousand instructions that it goes through.
pub(crate) fn is_soon_verified(loaded: &Loaded, programs: &[&str]) {
    for name in programs {
        let fd = loaded.program(name).as_fd().as_raw_fd();
        let info = std::fs::read_to_string(format!("/proc/self/fdinfo/{fd}")).unwrap();
        let verified = info.lines().find_map(|line| line.strip_prefix("verified_insns:")).expect("Linux 5.16");
        eprintln!("{name}: {} instructions verified", verified.trim());
        assert!(verified.trim().parse::<u32>().unwrap() < 65_536, "{name}: {verified}; can a part be `verified_alone`?");
    }
}
