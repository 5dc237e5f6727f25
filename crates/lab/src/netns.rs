//! Network namespaces by name, as `ip netns` keeps them: a file of /run/netns holds each.
//!
//! A thread enters a namespace with its sockets, its children and its /proc/sys/net; mounts stay those of the process, so that objects pinned in
//! /sys/fs/bpf stay visible (`ip netns exec` hides them).

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, setns, unshare};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::clock::Deadline;
use crate::error::{LabError, Result};

/// Where a namespace's file is.
pub fn path(namespace: &str) -> PathBuf {
    Path::new(FOLDER).join(namespace)
}

/// Moves the calling thread into a namespace permanently: meant for threads that end with their work.
///
/// # Errors
/// [`LabError::Kernel`] if there is no such namespace, or without root.
pub fn enter(namespace: &str) -> Result<()> {
    let file = File::open(path(namespace)).map_err(|e| LabError::io("open", &path(namespace), e))?;
    setns(file, CloneFlags::CLONE_NEWNET).map_err(|e| kernel("enter the namespace", namespace, e))
}

/// Runs work in a namespace, on a thread of its own.
///
/// # Errors
/// As [`enter`], and those of the work.
pub fn within<T: Send>(namespace: &str, work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| enter(namespace).and_then(|()| work()));
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Runs work for each item on threads of its own, several at a time; results are in the order of the items. Ends early when `stop` is set.
///
/// # Errors
/// The first error, or [`LabError::Interrupted`].
pub(crate) fn each<I: Sync, T: Send>(items: &[I], stop: &AtomicBool, work: impl Fn(&I) -> Result<T> + Sync) -> Result<Vec<T>> {
    let threads = std::thread::available_parallelism().map_or(2, usize::from).clamp(2, 8);
    each_of(items, threads, stop, work)
}

/// As [`each`], with that many threads: more than there are processors for work that waits.
///
/// # Errors
/// As [`each`].
pub(crate) fn each_of<I: Sync, T: Send>(
    items: &[I],
    threads: usize,
    stop: &AtomicBool,
    work: impl Fn(&I) -> Result<T> + Sync,
) -> Result<Vec<T>> {
    let next = AtomicUsize::new(0);
    let results = Mutex::new(Vec::with_capacity(items.len()));
    let failure = Mutex::new(None);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some((i, item)) = Some(next.fetch_add(1, Ordering::Relaxed)).and_then(|i| Some((i, items.get(i)?))) {
                    let result = if stop.load(Ordering::Relaxed) { Err(LabError::Interrupted) } else { work(item) };
                    match result {
                        Ok(result) => results.lock().expect("no thread panicked").push((i, result)),
                        Err(e) => {
                            next.store(items.len(), Ordering::Relaxed);
                            failure.lock().expect("no thread panicked").get_or_insert(e);
                        }
                    }
                }
            });
        }
    });
    if let Some(e) = failure.into_inner().expect("no thread panicked") {
        return Err(e);
    }
    let mut results = results.into_inner().expect("no thread panicked");
    results.sort_by_key(|(i, _)| *i);
    Ok(results.into_iter().map(|(_, r)| r).collect())
}

/// The lock of the folder that all labs share: held while settings of the whole system are changed.
pub(crate) fn lock_system() -> Result<Flock<File>> {
    let folder = Path::new(FOLDER);
    let file = File::open(folder).map_err(|e| LabError::io("open", folder, e))?;
    Flock::lock(file, FlockArg::LockExclusive).map_err(|(_, e)| LabError::io("lock", folder, e.into()))
}

/// Makes the folder of namespaces a shared mount, as `ip netns` does, so that other mount namespaces see it.
pub(crate) fn prepare() -> Result<()> {
    let folder = Path::new(FOLDER);
    fs::create_dir_all(folder).map_err(|e| LabError::io("make", folder, e))?;
    let none = None::<&str>;
    let share = || mount(none, folder, none, MsFlags::MS_SHARED | MsFlags::MS_REC, none);
    if share().is_ok() {
        return Ok(());
    }
    let bound = mount(Some(folder), folder, none, MsFlags::MS_BIND | MsFlags::MS_REC, none).and_then(|()| share());
    bound.map_err(|e| kernel("share /run/netns", "the system", e))
}

/// Mounts bpffs on /sys/fs/bpf if it is not mounted; it stays mounted. A second mount would hide what was pinned in the first: one program at
/// a time looks and mounts.
pub(crate) fn mount_bpf() -> Result<()> {
    let folder = Path::new(BPF);
    let above = File::open("/sys/fs").map_err(|e| LabError::io("open", Path::new("/sys/fs"), e))?;
    let _lock =
        Flock::lock(above, FlockArg::LockExclusive).map_err(|(_, e)| LabError::io("lock", Path::new("/sys/fs"), e.into()))?;
    let of = |path: &Path| fs::metadata(path).map(|m| m.dev());
    let is_mounted = matches!((of(folder), of(Path::new("/sys/fs"))), (Ok(a), Ok(b)) if a != b);
    if is_mounted {
        return Ok(());
    }
    let mounted = mount(Some("bpf"), folder, Some("bpf"), MsFlags::empty(), None::<&str>);
    mounted.map_err(|e| kernel("mount bpffs on /sys/fs/bpf", "the system", e))
}

/// Makes a namespace and moves the calling thread into it.
pub(crate) fn create(namespace: &str) -> Result<()> {
    let path = path(namespace);
    File::create_new(&path).map_err(|e| LabError::io("make the namespace", &path, e))?;
    unshare(CloneFlags::CLONE_NEWNET).map_err(|e| kernel("make a network namespace", namespace, e))?;
    let none = None::<&str>;
    let bound = mount(Some("/proc/thread-self/ns/net"), &path, none, MsFlags::MS_BIND, none);
    bound.map_err(|e| kernel("name a network namespace", namespace, e))
}

/// Names of all namespaces with a prefix.
pub(crate) fn names(prefix: &str) -> Vec<String> {
    let Ok(entries) = fs::read_dir(FOLDER) else { return Vec::new() };
    let names = entries.filter_map(|e| e.ok()?.file_name().into_string().ok());
    let mut names: Vec<String> = names.filter(|n| n.starts_with(prefix)).collect();
    names.sort_unstable();
    names
}

/// Removes a namespace's name; the kernel removes the namespace and its links when nothing refers to them.
pub(crate) fn remove(namespace: &str) -> Result<()> {
    let path = path(namespace);
    // It may be a file that is not yet a namespace.
    match umount2(&path, MntFlags::MNT_DETACH) {
        Ok(()) | Err(Errno::EINVAL | Errno::ENOENT) => {}
        Err(e) => return Err(kernel("remove the namespace", namespace, e)),
    }
    match fs::remove_file(&path) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(LabError::io("remove", &path, e)),
        _ => Ok(()),
    }
}

/// Processes in any of the namespaces.
pub(crate) fn processes(namespaces: &[String]) -> Vec<Pid> {
    let inodes: BTreeSet<u64> = namespaces.iter().filter_map(|n| Some(fs::metadata(path(n)).ok()?.ino())).collect();
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let pids = entries.filter_map(|e| e.ok()?.file_name().to_str()?.parse::<i32>().ok());
    let inside = |pid: &i32| fs::metadata(format!("/proc/{pid}/ns/net")).is_ok_and(|m| inodes.contains(&m.ino()));
    pids.filter(inside).map(Pid::from_raw).collect()
}

/// Kills the processes in the namespaces, and waits until they are gone.
pub(crate) fn end_processes(namespaces: &[String]) {
    let mut ended = BTreeSet::new();
    let deadline = Deadline::after(END_TIMEOUT);
    while !deadline.has_passed() {
        let running = processes(namespaces);
        // One signal to each: processes that they have started since the last round are found in the next round.
        for pid in running.iter().filter(|pid| ended.insert(pid.as_raw())) {
            let _ = kill(*pid, Signal::SIGKILL);
        }
        // A process leaves its namespaces before it is gone.
        ended.retain(|&pid| is_running(pid));
        if running.is_empty() && ended.is_empty() {
            return;
        }
        std::thread::sleep(POLL);
    }
    tracing::warn!("{} processes of the lab do not end", ended.len());
}

/// Whether a process or one of its threads still holds resources: a zombie does not.
pub fn is_running(pid: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let Some((_, rest)) = stat.rsplit_once(") ") else { return false };
    let mut fields = rest.split_ascii_whitespace();
    let has_ended = matches!(fields.next(), Some("Z" | "X"));
    // Its first thread may have ended before the others, which still hold its resources.
    let threads = fields.nth(16).and_then(|count| count.parse::<u32>().ok()).unwrap_or(0);
    !has_ended || threads > 1
}

/// When a process started, in ticks since boot; `None` if there is none, or it has ended.
pub(crate) fn started(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, rest) = stat.rsplit_once(") ")?;
    let mut fields = rest.split_ascii_whitespace();
    let has_ended = matches!(fields.next(), Some("Z" | "X"));
    let started = fields.nth(18)?.parse().ok()?;
    (!has_ended).then_some(started)
}

/// The output of a program of the system, run in the namespace that the thread is in.
pub(crate) fn output(program: &'static str, arguments: &[&str], place: &str) -> Result<String> {
    let output = Command::new(program).args(arguments).stdin(Stdio::null()).output();
    let output = output.map_err(|e| not_run(program, "iproute2", e))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let message = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(LabError::Command { program, place: place.to_owned(), command: arguments.join(" "), message })
}

/// The error of a program that could not be run.
pub(crate) fn not_run(program: &str, package: &'static str, cause: std::io::Error) -> LabError {
    match cause.kind() {
        std::io::ErrorKind::NotFound => LabError::Missing { program: program.to_owned(), package },
        _ => LabError::Io { what: "run", path: PathBuf::from(program), cause },
    }
}

pub(crate) fn kernel(what: &'static str, place: &str, cause: Errno) -> LabError {
    LabError::Kernel { what, place: place.to_owned(), cause: cause.into() }
}

pub(crate) const FOLDER: &str = "/run/netns";
const BPF: &str = "/sys/fs/bpf";
/// How long to wait for processes to end.
const END_TIMEOUT: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(10);
