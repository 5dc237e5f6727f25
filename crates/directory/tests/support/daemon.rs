//! One server as a real process, with all that it says: its line, its log, its metrics, its exit code.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use parking_lot::Mutex;
use weft_control::directory::attempts::UpdateResult;
use weft_control::directory::{Generation, Key, PrincipalId, Value};
use weft_control::wire::directory::{Finding, Op};
use weft_directory::client::Client;

use super::etcd::free_ports;
use super::shared::{WRITER, client_of, die_with_parent, write_secret};

/// How long anything may take before a test fails.
const TIMEOUT: Duration = Duration::from_secs(15);

/// A folder with the cluster's secret, from which servers are started.
pub struct Home {
    folder: tempfile::TempDir,
    secret: PathBuf,
}

/// A running server.
pub struct Daemon {
    child: Child,
    log: Arc<Mutex<String>>,
    log_reader: Option<JoinHandle<()>>,
    lines: Receiver<String>,
    metrics: SocketAddr,
    address: Option<String>,
}

impl Home {
    pub fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let secret = write_secret(folder.path());
        Self { folder, secret }
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Puts a file in place at once, as a reader must never see half of it.
    pub fn write(&self, name: &str, text: &str) -> String {
        let (path, new) = (self.path().join(name), self.path().join("new"));
        std::fs::write(&new, text).unwrap();
        std::fs::rename(&new, &path).unwrap();
        path.to_str().unwrap().to_owned()
    }

    /// The same, and nobody else can read it.
    pub fn write_private(&self, name: &str, text: &str) -> String {
        let (path, new) = (self.path().join(name), self.path().join("new"));
        std::fs::write(&new, text).unwrap();
        std::fs::set_permissions(&new, std::fs::Permissions::from_mode(0o600)).unwrap();
        std::fs::rename(&new, &path).unwrap();
        path.to_str().unwrap().to_owned()
    }

    /// Starts a server and waits until it serves.
    pub fn start(&self, more: &[&str]) -> Daemon {
        let mut daemon = self.begin(more, &[]);
        daemon.wait_ready();
        daemon
    }

    /// Starts a server. `more` are arguments; what they do not say is a free port, an open policy, keyed MACs.
    pub fn begin(&self, more: &[&str], environment: &[(&str, &str)]) -> Daemon {
        let metrics: SocketAddr = ([127, 0, 0, 1], free_ports(1)[0]).into();
        let mut command = Command::new(env!("CARGO_BIN_EXE_weft-directory"));
        command.args(["serve", "--json"]);
        if !more.contains(&"--auth") {
            command.args(["--auth", "mac"]);
        }
        if !more.contains(&"--secret") {
            command.arg("--secret").arg(&self.secret);
        }
        let metered = metrics.to_string();
        let usual = [("--listen", "127.0.0.1:0"), ("--principal", "100"), ("--store-timeout", "10s"), ("--metrics", &metered)];
        for (name, value) in usual.into_iter().filter(|(name, _)| !more.contains(name)) {
            command.args([name, value]);
        }
        if !more.contains(&"--policy") {
            command.args(["--policy", "open", "--provisioner", "7"]);
        }
        if !more.contains(&"--store") {
            command.arg("--store").arg(format!("embedded:{}/store", self.path().display()));
        }
        command.args(more).current_dir(self.path()).envs(environment.iter().copied()).env_remove("WEFT_LOG");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        die_with_parent(&mut command);
        let mut child = command.spawn().unwrap();
        let log = Arc::new(Mutex::new(String::new()));
        let (kept, errors) = (log.clone(), BufReader::new(child.stderr.take().unwrap()));
        let log_reader = std::thread::spawn(move || {
            for line in errors.lines().map_while(Result::ok) {
                *kept.lock() += &(line + "\n");
            }
        });
        let (sender, lines) = channel();
        let out = BufReader::new(child.stdout.take().unwrap());
        std::thread::spawn(move || out.lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
        Daemon { child, log, log_reader: Some(log_reader), lines, metrics, address: None }
    }

    /// A server that does not start: it ends with exit code 2; what it said.
    pub fn refused(&self, more: &[&str]) -> String {
        let mut daemon = self.begin(more, &[]);
        assert_eq!(daemon.wait_end(), Some(2), "{}", daemon.log());
        daemon.log()
    }
}

impl Daemon {
    /// Waits for the line that says that it serves.
    pub fn wait_ready(&mut self) {
        let line = self.lines.recv_timeout(TIMEOUT).unwrap_or_else(|_| panic!("it does not serve:\n{}", self.log()));
        let ready: serde_json::Value = serde_json::from_str(&line).unwrap();
        self.address = Some(ready["listen"].as_str().unwrap().to_owned());
    }

    /// Whether it has said that it serves.
    pub fn is_ready(&self) -> bool {
        self.lines.try_recv().is_ok()
    }

    pub fn address(&self) -> String {
        self.address.clone().expect("it serves")
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// A client that speaks for a principal.
    pub fn client(&self, principal: PrincipalId) -> Client {
        client_of(principal, &[self.address()], Duration::from_secs(3))
    }

    /// Writes a key; its generation if that was acknowledged.
    pub fn put(&self, key: Key, value: Value) -> Option<Generation> {
        let op = Op { key, expect: None, value: Some(value) };
        match self.client(WRITER).update(vec![op], None).ok()?.result {
            UpdateResult::Committed(generation) => Some(generation),
            _ => None,
        }
    }

    /// What the provisioner finds.
    pub fn find(&self, key: Key) -> Finding {
        self.client(WRITER).look_up(&[key], None, Generation(0)).unwrap().findings.remove(0).1
    }

    pub fn log(&self) -> String {
        self.log.lock().clone()
    }

    /// Waits until the log has a text.
    pub fn wait_log(&self, text: &str) {
        wait(&format!("the log says `{text}`"), || self.log().contains(text), || self.log());
    }

    /// What Prometheus would read.
    pub fn scrape(&self) -> Metrics {
        let mut stream = TcpStream::connect(self.metrics).unwrap();
        stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 200"), "{head}");
        let numbers = body.lines().filter(|line| !line.starts_with('#')).filter_map(|line| {
            let (name, value) = line.rsplit_once(' ')?;
            Some((name.to_owned(), value.parse().ok()?))
        });
        Metrics(numbers.collect())
    }

    /// Waits until a metric is as it should be.
    pub fn wait_metric(&self, name: &str, good: impl Fn(f64) -> bool) {
        wait(&format!("{name} is right"), || good(self.scrape().of(name)), || format!("{:#?}\n{}", self.scrape(), self.log()));
    }

    pub fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id().cast_signed()), signal).unwrap();
    }

    /// Waits until it has ended; its exit code.
    pub fn wait_end(&mut self) -> Option<i32> {
        let begun = Instant::now();
        // Its standard output is closed when it ends.
        while self.lines.recv_timeout(TIMEOUT.saturating_sub(begun.elapsed())) != Err(RecvTimeoutError::Disconnected) {
            assert!(begun.elapsed() < TIMEOUT, "it does not end:\n{}", self.log());
        }
        let code = self.child.wait().unwrap().code();
        self.log_reader.take().map(JoinHandle::join).transpose().unwrap();
        code
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Metrics by name, labels included.
#[derive(Debug)]
pub struct Metrics(BTreeMap<String, f64>);

impl Metrics {
    /// A metric without the common prefix; 0 if nothing was counted yet.
    pub fn of(&self, name: &str) -> f64 {
        self.0.get(&format!("weft_directory_{name}")).copied().unwrap_or(0.0)
    }
}

/// Waits until something holds.
pub fn wait(what: &str, holds: impl Fn() -> bool, otherwise: impl Fn() -> String) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < TIMEOUT, "not so: {what}\n{}", otherwise());
        std::thread::sleep(Duration::from_millis(20));
    }
}
