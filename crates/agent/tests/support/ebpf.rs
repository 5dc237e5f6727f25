//! Whether this process may load eBPF programs and make network namespaces, and the file system in which programs and maps are pinned.

use std::fs::File;
use std::os::fd::AsRawFd as _;
use std::process::Command;
use std::sync::OnceLock;
use std::thread;

/// Whether it may; bpffs is mounted if it is not. Says on stderr why not.
#[allow(dead_code, reason = "one test mounts alone")]
pub fn is_possible() -> bool {
    // One test mounts what all use.
    static ANSWER: OnceLock<bool> = OnceLock::new();
    *ANSWER.get_or_init(find_out)
}

fn find_out() -> bool {
    // SAFETY: the thread has a network of its own from here on, and ends; no memory is touched.
    let alone = thread::spawn(|| unsafe { libc::unshare(libc::CLONE_NEWNET) } == 0).join().unwrap();
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
    // SAFETY: it takes a descriptor that lives as long as the lock is needed.
    assert_eq!(unsafe { libc::flock(folder.as_raw_fd(), libc::LOCK_EX) }, 0, "/sys/fs is locked");
    let mounts = std::fs::read_to_string("/proc/mounts").unwrap();
    mounts.lines().any(|line| line.contains(" /sys/fs/bpf bpf "))
        || Command::new("mount").args(["-t", "bpf", "bpf", "/sys/fs/bpf"]).status().is_ok_and(|status| status.success())
}
