//! Whether this process may load eBPF programs and make network namespaces, and the file system in which programs and maps are pinned.

use std::fs::File;
use std::process::Command;
use std::sync::OnceLock;
use std::thread;

use nix::fcntl::{Flock, FlockArg};
use nix::sched::{CloneFlags, unshare};

/// Whether it may; bpffs is mounted if it is not. Says on stderr why not.
#[allow(dead_code, reason = "one test mounts alone")]
pub fn is_possible() -> bool {
    // One test mounts what all use.
    static ANSWER: OnceLock<bool> = OnceLock::new();
    *ANSWER.get_or_init(find_out)
}

fn find_out() -> bool {
    let alone = thread::spawn(|| unshare(CloneFlags::CLONE_NEWNET).is_ok()).join().unwrap();
    if !alone {
        eprintln!("left out: no network namespace of its own; run the test as root");
        return false;
    }
    if !mount_bpffs() {
        eprintln!("left out: no bpffs at /sys/fs/bpf");
        return false;
    }
    true
}

/// Mounts bpffs if it is not mounted; whether it is there then. Tests are processes of their own: a second mount would hide what others have
/// pinned in the first, so one at a time looks and mounts.
pub fn mount_bpffs() -> bool {
    let folder = File::open("/sys/fs").unwrap();
    let _lock = Flock::lock(folder, FlockArg::LockExclusive).expect("/sys/fs is locked");
    let mounts = std::fs::read_to_string("/proc/mounts").unwrap();
    mounts.lines().any(|line| line.contains(" /sys/fs/bpf bpf "))
        || Command::new("mount").args(["-t", "bpf", "bpf", "/sys/fs/bpf"]).status().is_ok_and(|status| status.success())
}
