//! Programs of an overlay: where they are installed, how they are started in a namespace, what they report.

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use nix::sys::signal::{self, Signal};
use nix::unistd::Pid;

use crate::clock::Deadline;
use crate::error::{LabError, Result};
use crate::netns;

/// The path of a program: in the folder of this one, or in one of the folders of `PATH`.
///
/// # Errors
/// [`LabError::NoProgram`].
pub fn find(program: &str) -> Result<PathBuf> {
    let here = std::env::current_exe().ok();
    let beside = here.iter().flat_map(|exe| exe.ancestors().skip(1).take(2)).map(Path::to_owned);
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let all = beside.chain(std::env::split_paths(&paths)).map(|folder| folder.join(program));
    let found = all.into_iter().find(|path| path.is_file());
    found.ok_or_else(|| LabError::NoProgram { program: program.to_owned() })
}

/// A program that was started.
pub(crate) struct StartedProgram {
    program: String,
    place: String,
    log: PathBuf,
    child: Arc<Mutex<Child>>,
}

impl StartedProgram {
    /// Whether it has reported that it is ready.
    pub fn is_ready(&self) -> Result<bool> {
        let text = fs::read_to_string(&self.log).unwrap_or_default();
        if text.lines().any(|line| line.starts_with("READY")) {
            return Ok(true);
        }
        match self.child.lock().expect("no thread panicked").try_wait() {
            Ok(Some(status)) => Err(self.failed(&format!("it ended with {status}"))),
            _ => Ok(false),
        }
    }

    /// An error of this program, with the end of its log.
    pub fn failed(&self, what: &str) -> LabError {
        let text = fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = text.lines().rev().take(LINES_SHOWN).collect();
        let logged: Vec<&str> = lines.into_iter().rev().collect();
        let message = format!("{what}; its log ends with: {}", logged.join(" | "));
        LabError::Program { program: self.program.clone(), place: self.place.clone(), message }
    }
}

/// Waits until every program has reported that it is ready.
pub(crate) fn wait_for(started: &[StartedProgram], stop: &AtomicBool) -> Result<()> {
    let deadline = Deadline::after(READY_WITHIN);
    let mut waiting: Vec<&StartedProgram> = started.iter().collect();
    loop {
        let mut left = Vec::new();
        for one in waiting {
            if !one.is_ready()? {
                left.push(one);
            }
        }
        waiting = left;
        let Some(slow) = waiting.first() else { return Ok(()) };
        if deadline.has_passed() {
            return Err(slow.failed(&format!("it is not ready after {} s", READY_WITHIN.as_secs())));
        }
        pause(stop)?;
    }
}

/// Starts a program in a namespace; it outlives this process, and inherits no files from it.
pub(crate) fn start(program: &Path, arguments: &[String], namespace: &str, log: &Path) -> Result<StartedProgram> {
    start_with(&[], program, arguments, namespace, log)
}

/// Variables of the environment of a program, besides those of this process.
pub type Environment<'a> = [(&'a str, &'a str)];

/// The same, with more variables in its environment.
pub(crate) fn start_with(
    environment: &Environment<'_>,
    program: &Path,
    arguments: &[String],
    namespace: &str,
    log: &Path,
) -> Result<StartedProgram> {
    let name = program.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let output = File::create(log).map_err(|e| LabError::io("write", log, e))?;
    let errors = output.try_clone().map_err(|e| LabError::io("write", log, e))?;
    let child = netns::within(namespace, || {
        let mut command = Command::new(program);
        command
            .args(arguments)
            .envs(environment.iter().copied())
            .stdin(Stdio::null())
            .stdout(output)
            .stderr(errors)
            .process_group(0);
        without_inherited_files(&mut command).spawn().map_err(|e| LabError::io("run", program, e))
    })?;
    Ok(StartedProgram { program: name, place: namespace.to_owned(), log: log.to_owned(), child: remember(child) })
}

/// The programs that this process has started and whose end it has not seen.
static STARTED: Mutex<Vec<Arc<Mutex<Child>>>> = Mutex::new(Vec::new());

/// Keeps a program for [`reap`].
fn remember(child: Child) -> Arc<Mutex<Child>> {
    reap();
    let child = Arc::new(Mutex::new(child));
    STARTED.lock().expect("no thread panicked").push(Arc::clone(&child));
    child
}

/// Takes note of the programs that have ended: each would be a zombie until this process ends, which may run hundreds of labs.
fn reap() {
    let runs = |child: &Arc<Mutex<Child>>| matches!(child.lock().expect("no thread panicked").try_wait(), Ok(None));
    STARTED.lock().expect("no thread panicked").retain(runs);
}

/// Has a command inherit no files of this process but its standard streams: a daemon that kept, say, a pipe of the caller open would keep the caller waiting.
pub(crate) fn without_inherited_files(command: &mut Command) -> &mut Command {
    // SAFETY: between fork and exec only async-signal-safe functions may be called, and close_range is a plain system call.
    unsafe {
        command.pre_exec(|| {
            let marked = libc::syscall(libc::SYS_close_range, FIRST_INHERITED, libc::c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC);
            nix::errno::Errno::result(marked).map(drop).map_err(std::io::Error::from)
        })
    }
}

/// Runs a program in a namespace, and waits for its end.
pub(crate) fn run(program: &Path, arguments: &[&str], namespace: &str) -> Result<()> {
    let output = netns::within(namespace, || {
        let output = Command::new(program).args(arguments).stdin(Stdio::null()).output();
        output.map_err(|e| LabError::io("run", program, e))
    })?;
    if output.status.success() {
        return Ok(());
    }
    let message = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    let name = program.file_name().unwrap_or_default().to_string_lossy().into_owned();
    Err(LabError::Program { program: format!("{name} {}", arguments[0]), place: namespace.to_owned(), message })
}

/// The status of an agent, by its socket; `None` if it does not answer.
pub fn ask(socket: &Path) -> Option<serde_json::Value> {
    request(socket, &serde_json::json!({"command": "status"}), ANSWER_TIMEOUT)
}

/// The answer of an agent to a request; `None` if there is none within the timeout.
pub(crate) fn request(socket: &Path, request: &serde_json::Value, timeout: Duration) -> Option<serde_json::Value> {
    let mut stream = UnixStream::connect(socket).ok()?;
    stream.set_read_timeout(Some(timeout)).ok()?;
    stream.write_all(format!("{request}\n").as_bytes()).ok()?;
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).ok()?;
    serde_json::from_str(&line).ok()
}

/// A process in a namespace.
#[derive(Clone, Debug)]
pub struct Running {
    /// Its number.
    pub pid: i32,
    /// The file name of its program.
    pub program: String,
    /// The namespace's name.
    pub namespace: String,
    /// Resident memory that no other process shares, in bytes.
    pub rss_bytes: u64,
}

/// All processes in the namespaces.
pub fn running(namespaces: &[String]) -> Vec<Running> {
    let running = |(pid, program, at): (i32, String, usize)| Running {
        pid,
        program,
        namespace: namespaces[at].clone(),
        rss_bytes: memory(pid),
    };
    named(namespaces).into_iter().map(running).collect()
}

/// All processes in the namespaces, each with its program and the number of its namespace.
pub(crate) fn named(namespaces: &[String]) -> Vec<(i32, String, usize)> {
    let inode = |namespace: &String| fs::metadata(netns::path(namespace)).ok().map(|m| m.ino());
    let inodes: Vec<Option<u64>> = namespaces.iter().map(inode).collect();
    let of = |pid: i32| {
        let inode = fs::metadata(format!("/proc/{pid}/ns/net")).ok()?.ino();
        let at = inodes.iter().position(|&i| i == Some(inode))?;
        let program = fs::read_link(format!("/proc/{pid}/exe")).ok()?;
        let program = program.file_name()?.to_string_lossy().trim_end_matches(" (deleted)").to_owned();
        Some((pid, program, at))
    };
    netns::processes(namespaces).into_iter().filter_map(|pid| of(pid.as_raw())).collect()
}

/// Threads of the kernel whose name begins so.
pub(crate) fn of_kernel(prefix: &str) -> Vec<(i32, String)> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let pids = entries.filter_map(|e| e.ok()?.file_name().to_str()?.parse::<i32>().ok());
    let of = |pid: i32| {
        let name = fs::read_to_string(format!("/proc/{pid}/comm")).ok()?.trim_end().to_owned();
        // A program of the system may have any name, but is no file.
        let is_kernel = name.starts_with(prefix) && fs::read_link(format!("/proc/{pid}/exe")).is_err();
        is_kernel.then_some((pid, name))
    };
    pids.filter_map(of).collect()
}

/// The threads of a process.
pub(crate) fn threads(pid: i32) -> Vec<i32> {
    let Ok(entries) = fs::read_dir(format!("/proc/{pid}/task")) else { return Vec::new() };
    entries.filter_map(|e| e.ok()?.file_name().to_str()?.parse().ok()).collect()
}

/// Kills the programs of these names in a namespace, and waits until they are gone. Returns their number.
pub(crate) fn kill(namespace: &str, names: &[&str]) -> usize {
    let running = running(&[namespace.to_owned()]);
    let ended: Vec<i32> = running.iter().filter(|p| names.contains(&p.program.as_str())).map(|p| p.pid).collect();
    for &pid in &ended {
        let _ = signal::kill(Pid::from_raw(pid), Signal::SIGKILL);
    }
    let deadline = Deadline::after(KILL_TIMEOUT);
    while ended.iter().any(|&pid| netns::is_running(pid)) && !deadline.has_passed() {
        std::thread::sleep(KILL_POLL);
    }
    ended.len()
}

/// Has the programs of a name in a namespace reload their files (SIGHUP). Returns their number.
pub(crate) fn reload(namespace: &str, name: &str) -> usize {
    let running = running(&[namespace.to_owned()]);
    let named = running.iter().filter(|p| p.program == name);
    named.filter(|p| signal::kill(Pid::from_raw(p.pid), Signal::SIGHUP).is_ok()).count()
}

/// Resident memory of a process that no other process shares, in bytes.
pub fn memory(pid: i32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default();
    let of = |key: &str| {
        let line = text.lines().find_map(|l| l.strip_prefix(key));
        line.and_then(|l| l.split_ascii_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0)
    };
    (of("Private_Clean:") + of("Private_Dirty:")) * 1024
}

/// Waits a short time before the next poll; an error when `stop` is set.
pub(crate) fn pause(stop: &AtomicBool) -> Result<()> {
    if stop.load(Ordering::Relaxed) {
        return Err(LabError::Interrupted);
    }
    std::thread::sleep(POLL);
    Ok(())
}

/// How long to wait for programs to become ready.
pub(crate) const READY_WITHIN: Duration = Duration::from_secs(60);
/// The first descriptor after standard input, output and error.
const FIRST_INHERITED: libc::c_uint = 3;
const POLL: Duration = Duration::from_millis(20);
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);
const KILL_TIMEOUT: Duration = Duration::from_secs(5);
const KILL_POLL: Duration = Duration::from_millis(1);
const LINES_SHOWN: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_ended_leaves_no_zombie() {
        let [short, long] = ["0", "60"].map(|seconds| Command::new("sleep").arg(seconds).spawn().unwrap());
        let pid = short.id();
        remember(short);
        let long = remember(long);
        let deadline = Deadline::after(KILL_TIMEOUT);
        while Path::new(&format!("/proc/{pid}")).exists() && !deadline.has_passed() {
            reap();
            std::thread::sleep(KILL_POLL);
        }
        assert!(!Path::new(&format!("/proc/{pid}")).exists());
        let mut long = long.lock().unwrap();
        assert!(matches!(long.try_wait(), Ok(None)), "what runs is not ended");
        long.kill().unwrap();
        long.wait().unwrap();
    }
}
