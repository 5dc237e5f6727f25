//! The cores on which a thread runs.

use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;

/// The calling thread.
const THIS_THREAD: Pid = Pid::from_raw(0);

/// Runs the calling thread on this core only.
pub fn pin(core: usize) -> nix::Result<()> {
    let mut set = CpuSet::new();
    set.set(core)?;
    sched_setaffinity(THIS_THREAD, &set)
}

/// Lets the calling thread run on every core, whatever its parent was pinned to.
pub fn unpin() {
    let mut set = CpuSet::new();
    for core in 0..CpuSet::count() {
        let _ = set.set(core);
    }
    // Without it the thread stays where it is, which costs speed only.
    let _ = sched_setaffinity(THIS_THREAD, &set);
}
