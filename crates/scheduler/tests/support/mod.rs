//! A running `weft-scheduler` over a fabric of two racks, in a folder of its own.
//!
//! ```text
//!       agg0   agg1          datapaths: tor0 1, tor1 2, agg0 3, agg1 4
//!        | \   / |           ports: in the order of the cables, hosts first
//!       tor0   tor1
//!       /  \   /  \
//!   web-1 web-2 db-1 db-2    10.0.0.1 to 10.0.0.4
//! ```

#![allow(dead_code, unreachable_pub)] // Each test uses a part of it.

pub mod etcd;
pub mod ovs;
pub mod switch;

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

pub const FABRIC: &str = "weft-fabric 1
host web-1
host web-2
host db-1
host db-2
switch tor0 tier 1
switch tor1 tier 1
switch agg0 tier 2
switch agg1 tier 2
cable web-1 tor0 1Gbps 1us
cable web-2 tor0 1Gbps 1us
cable db-1 tor1 1Gbps 1us
cable db-2 tor1 1Gbps 1us
cable tor0 agg0 1Gbps 1us
cable tor0 agg1 1Gbps 1us
cable tor1 agg0 1Gbps 1us
cable tor1 agg1 1Gbps 1us
";

pub const CONFIG: &str = r#"fabric = "fabric.weft"
listen = ["unix:switches.sock"]
socket = "scheduler.sock"
metrics = "off"
[scheduler]
period = "100ms"
[[host]]
name = "web-1"
address = "10.0.0.1"
mac = "02:00:00:00:00:01"
[[host]]
name = "web-2"
address = "10.0.0.2"
mac = "02:00:00:00:00:02"
[[host]]
name = "db-1"
address = "10.0.0.3"
mac = "02:00:00:00:00:03"
[[host]]
name = "db-2"
address = "10.0.0.4"
mac = "02:00:00:00:00:04"
"#;

/// The datapath of each switch.
pub const DATAPATHS: [u64; 4] = [1, 2, 3, 4];
/// For what should not take a second.
pub const TIMEOUT: Duration = Duration::from_secs(20);

/// A folder with a configuration, and the program that is run on it.
pub struct Scheduler {
    pub folder: TempDir,
    pub process: Option<Child>,
}

/// What a command has printed.
#[derive(Debug)]
pub struct Answer {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Scheduler {
    /// With the usual configuration, running.
    pub fn start() -> Self {
        let mut scheduler = Self::with(CONFIG);
        scheduler.run();
        scheduler
    }

    /// With a configuration, not running.
    pub fn with(config: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("fabric.weft"), FABRIC).unwrap();
        std::fs::write(folder.path().join("scheduler.toml"), config).unwrap();
        Self { folder, process: None }
    }

    /// Starts the program, and waits until it listens.
    pub fn run(&mut self) {
        let log = File::options().create(true).append(true).open(self.path("log")).unwrap();
        let mut command = self.command(&["run"]);
        let mut process = command.stdout(Stdio::piped()).stderr(log).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert!(line.starts_with("READY "), "{line} {}", self.log());
        self.process = Some(process);
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn log(&self) -> String {
        std::fs::read_to_string(self.path("log")).unwrap_or_default()
    }

    /// The files in the folder that are sockets.
    pub fn sockets(&self) -> Vec<String> {
        let names = std::fs::read_dir(self.folder.path()).unwrap().map(|it| it.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> = names.filter(|name| name.ends_with(".sock")).collect();
        names.sort();
        names
    }

    /// Runs a command of the program to its end.
    pub fn command_output(&self, args: &[&str]) -> Answer {
        answer(&mut self.command(args))
    }

    /// The same without a configuration.
    pub fn bare_output(&self, args: &[&str]) -> Answer {
        answer(Command::new(env!("CARGO_BIN_EXE_weft-scheduler")).args(args).stdin(Stdio::null()))
    }

    /// The status, with its exit code.
    pub fn status(&self) -> (Value, i32) {
        let Answer { code, stdout, stderr } = self.command_output(&["status", "--json"]);
        let status = serde_json::from_str(&stdout).unwrap_or_else(|error| panic!("{error}: {stdout} {stderr} {}", self.log()));
        (status, code.unwrap())
    }

    /// Waits until a status is as it should be.
    pub fn wait_for(&self, what: &str, is: impl Fn(&Value) -> bool) -> Value {
        let start = Instant::now();
        loop {
            let (status, _) = self.status();
            if is(&status) {
                return status;
            }
            assert!(start.elapsed() < TIMEOUT, "{what}: {status:#} {}", self.log());
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Waits until the log has a text.
    pub fn wait_for_log(&self, text: &str) {
        let start = Instant::now();
        while !self.log().contains(text) {
            assert!(start.elapsed() < TIMEOUT, "`{text}` is not in {}", self.log());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Sends bytes to the socket for commands; returns all that comes back.
    pub fn ask(&self, bytes: &[u8]) -> String {
        let mut stream = UnixStream::connect(self.path("scheduler.sock")).unwrap();
        // It may refuse before it has read all.
        let _ = stream.write_all(bytes);
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let mut answer = String::new();
        let _ = stream.read_to_string(&mut answer);
        answer
    }

    /// A connection as switches make it.
    pub fn connect(&self) -> UnixStream {
        let stream = UnixStream::connect(self.path("switches.sock")).unwrap();
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        stream.set_write_timeout(Some(TIMEOUT)).unwrap();
        stream
    }

    /// Sends a signal, such as `TERM`; returns the exit code.
    pub fn signal(&mut self, name: &str) -> Option<i32> {
        self.send(name);
        self.process.take().unwrap().wait().unwrap().code()
    }

    /// Sends a signal.
    pub fn send(&self, name: &str) {
        let id = self.process.as_ref().unwrap().id().to_string();
        assert!(Command::new("kill").args([&format!("-{name}"), &id]).status().unwrap().success());
    }

    /// The most memory that the program has had, in MiB.
    pub fn peak_memory(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.process.as_ref().unwrap().id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() / 1024
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_weft-scheduler"));
        command.args(args).arg("--config").arg(self.path("scheduler.toml"));
        command.env_remove("WEFT_LOG").env_remove("NOTIFY_SOCKET").stdin(Stdio::null());
        command
    }
}

/// A port of TCP that nobody has now.
pub fn free_port() -> u16 {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port()
}

fn answer(command: &mut Command) -> Answer {
    let output = command.output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Answer { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
}

impl Drop for Scheduler {
    fn drop(&mut self) {
        if let Some(process) = &mut self.process {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}
