//! Whether this process may load eBPF programs and make network namespaces.

use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;
use std::thread;

/// Whether it may; bpffs is mounted if it is not. Says on stderr why not.
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
    let there = std::fs::read_to_string("/proc/mounts").unwrap().lines().any(|line| line.contains(" /sys/fs/bpf bpf "));
    let mounted =
        there || Command::new("mount").args(["-t", "bpf", "bpf", "/sys/fs/bpf"]).status().is_ok_and(|status| status.success());
    if !mounted || !Path::new("/sys/fs/bpf").is_dir() {
        eprintln!("left out: no bpffs at /sys/fs/bpf");
        return false;
    }
    true
}
