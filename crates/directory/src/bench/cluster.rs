//! Servers that a benchmark starts for itself, in folders that are gone when it ends: this program, `serve`, on the loopback.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use weft_control::directory::auth::Secret;

use super::error::BenchError;
use super::truth;
use crate::server::affinity::{pin, unpin};

/// A folder with a secret and the benchmarks' policy. It is removed when dropped.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    /// The cluster's secret.
    pub secret: Secret,
}

/// A server in a process of its own. It is killed when dropped.
#[derive(Debug)]
pub struct Server {
    process: Child,
    /// Where it listens.
    pub address: SocketAddr,
}

impl Folder {
    /// A new one, where temporary files go.
    pub fn new() -> Result<Self, BenchError> {
        let random = u64::from_be_bytes(crate::client::random());
        let path = std::env::temp_dir().join(format!("weft-bench-{random:016x}"));
        let secret = Secret::new(crate::client::random());
        fs::create_dir(&path)
            .and_then(|()| fs::write(path.join("secret"), secret.to_hex()))
            .and_then(|()| {
                use std::os::unix::fs::PermissionsExt;
                fs::set_permissions(path.join("secret"), fs::Permissions::from_mode(0o600))
            })
            .and_then(|()| fs::write(path.join("policy.toml"), truth::policy()))
            .map_err(|e| BenchError::Io(format!("cannot write {}: {e}", path.display())))?;
        Ok(Self { path, secret })
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The embedded store of this folder.
    pub fn embedded(&self) -> String {
        format!("embedded:{}", self.path.join("store").display())
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}

impl Server {
    /// Starts server `principal` on a store and waits until it serves.
    pub fn start(
        folder: &Folder,
        principal: u32,
        store: &str,
        peers: &[SocketAddr],
        listen: SocketAddr,
        core: Option<usize>,
    ) -> Result<Self, BenchError> {
        let program = std::env::current_exe().map_err(|e| BenchError::Io(format!("where is this program? {e}")))?;
        let mut command = Command::new(program);
        command.args(["serve", "--auth", "mac", "--metrics", "off", "--json", "--dir"]).arg(folder.path());
        command.args(["--listen", &listen.to_string(), "--principal", &principal.to_string(), "--store", store]);
        for peer in peers {
            command.args(["--peer", &peer.to_string()]);
        }
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::inherit()).env("WEFT_LOG", "error");
        // SAFETY: between fork and exec only a system call is made.
        unsafe {
            command.pre_exec(move || {
                match core {
                    Some(core) => pin(core)?,
                    None => unpin(),
                }
                Ok(())
            });
        }
        let mut process = command.spawn().map_err(|e| BenchError::Io(format!("cannot start a server: {e}")))?;
        let mut line = String::new();
        let _ = BufReader::new(process.stdout.take().expect("it is piped")).read_line(&mut line);
        let said: serde_json::Value = serde_json::from_str(&line).unwrap_or_default();
        let address = said.get("listen").and_then(|it| it.as_str()).and_then(|it| it.parse().ok());
        let Some(address) = address else {
            let _ = process.kill();
            let _ = process.wait();
            return Err(BenchError::Server(format!("it said {line:?} where it should have said that it serves")));
        };
        Ok(Self { process, address })
    }

    /// CPU time that it has used, of threads that have ended as well, in ns; the system counts in steps of 10 ms.
    pub fn cpu_ns(&self) -> u64 {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.process.id())).unwrap_or_default();
        // The second field, the name in brackets, may hold anything; user and system time are the 14th and 15th.
        let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace().skip(11).take(2);
        fields.filter_map(|field| field.parse::<u64>().ok()).sum::<u64>() * 10_000_000
    }

    /// Bytes of memory that it has.
    pub fn rss_bytes(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.process.id())).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        line.and_then(|text| text.trim().trim_end_matches("kB").trim().parse::<u64>().ok()).unwrap_or(0) * 1024
    }

    /// Kills it at once, as a power cut would.
    pub fn kill(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }

    /// Asks it to stop, and waits.
    pub fn stop(mut self) {
        // A child that has not been waited for: its number is its own.
        let _ = kill(Pid::from_raw(self.process.id() as i32), Signal::SIGTERM);
        let _ = self.process.wait();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

/// An address of the loopback that was free a moment ago.
pub fn free_address() -> Result<SocketAddr, BenchError> {
    let socket = std::net::TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr());
    socket.map_err(|e| BenchError::Io(format!("no port is free: {e}")))
}
