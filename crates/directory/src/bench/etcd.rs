//! Three members of etcd on the loopback, for as long as a benchmark runs.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::cluster::free_address;
use super::error::BenchError;
use crate::server::affinity::unpin;

/// The members. They are killed when dropped.
#[derive(Debug)]
pub struct Etcd {
    members: Vec<Member>,
}

#[derive(Debug)]
struct Member {
    process: Option<Child>,
    client: SocketAddr,
}

impl Etcd {
    /// Starts three members with their data below `folder`, on all cores: three members, three servers and a generator do not fit on one. With
    /// `quick` timers, those that docs/directory.md advises within one room, which want members that are never kept waiting; else etcd's own.
    pub fn start(folder: &Path, quick: bool) -> Result<Self, BenchError> {
        let program = program()?;
        let addresses = (0..6).map(|_| free_address()).collect::<Result<Vec<_>, _>>()?;
        let cluster: Vec<String> = (0..3).map(|at| format!("m{at}=http://{}", addresses[at])).collect();
        let mut etcd = Self { members: Vec::new() };
        for at in 0..3 {
            let (peer, client) = (format!("http://{}", addresses[at]), format!("http://{}", addresses[at + 3]));
            let mut command = Command::new(&program);
            command.args(["--name", &format!("m{at}"), "--data-dir"]).arg(folder.join(format!("etcd{at}")));
            command.args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer]);
            command.args(["--listen-client-urls", &client, "--advertise-client-urls", &client]);
            command.args(["--initial-cluster", &cluster.join(","), "--initial-cluster-state", "new"]);
            if quick {
                command.args(["--heartbeat-interval", "20", "--election-timeout", "200"]);
            }
            command.args(["--logger", "zap", "--log-level", "error"]);
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            // SAFETY: between fork and exec only a system call is made.
            unsafe {
                command.pre_exec(move || {
                    unpin();
                    Ok(())
                });
            }
            let process = command.spawn().map_err(|e| BenchError::Etcd(format!("cannot start {}: {e}", program.display())))?;
            etcd.members.push(Member { process: Some(process), client: addresses[at + 3] });
        }
        let begin = Instant::now();
        while etcd.leader().is_none() {
            if begin.elapsed() > Duration::from_secs(20) {
                return Err(BenchError::Etcd("three members did not find a leader in 20 s".into()));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(etcd)
    }

    /// As `--store` has it.
    pub fn store(&self) -> String {
        let urls: Vec<String> = self.members.iter().map(|member| format!("http://{}", member.client)).collect();
        format!("etcd:{}", urls.join(","))
    }

    /// Kills the leader at once.
    pub fn kill_leader(&mut self) -> Result<(), BenchError> {
        let leader = self.leader().ok_or_else(|| BenchError::Etcd("there is no leader".into()))?;
        self.members[leader].kill();
        Ok(())
    }

    /// Kills a member that does not lead.
    pub fn kill_follower(&mut self) -> Result<(), BenchError> {
        let leader = self.leader().ok_or_else(|| BenchError::Etcd("there is no leader".into()))?;
        self.members[(leader + 1) % 3].kill();
        Ok(())
    }

    fn leader(&self) -> Option<usize> {
        self.members.iter().position(|member| member.metrics().is_some_and(|text| text.contains("\netcd_server_is_leader 1")))
    }
}

impl Member {
    fn metrics(&self) -> Option<String> {
        self.process.as_ref()?;
        let mut stream = TcpStream::connect_timeout(&self.client, Duration::from_millis(200)).ok()?;
        stream.set_read_timeout(Some(Duration::from_secs(1))).ok()?;
        stream.write_all(b"GET /metrics HTTP/1.0\r\nHost: localhost\r\n\r\n").ok()?;
        let mut text = String::new();
        stream.read_to_string(&mut text).ok()?;
        Some(text)
    }

    fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        self.members.iter_mut().for_each(Member::kill);
    }
}

/// etcd beside the project's other tools, or on the PATH.
fn program() -> Result<PathBuf, BenchError> {
    let tools = [".tools/etcd/usr/bin", ".tools/bin"].map(PathBuf::from);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = tools.into_iter().chain(std::env::split_paths(&path));
    folders
        .map(|folder| folder.join("etcd"))
        .find(|file| file.is_file())
        .ok_or_else(|| BenchError::Etcd("it is not installed".into()))
}
