//! An etcd of one member on loopback, in a folder of its own.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use super::{TIMEOUT, free_port};

pub struct Etcd {
    folder: tempfile::TempDir,
    program: PathBuf,
    client: String,
    peer: String,
    child: Option<Child>,
}

impl Etcd {
    /// `None` where none is installed, except in CI.
    pub fn start() -> Option<Self> {
        let unpacked = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.tools/etcd/usr/bin/etcd");
        let on_path = std::env::split_paths(&std::env::var_os("PATH")?).map(|folder| folder.join("etcd")).find(|it| it.is_file());
        let Some(program) = Some(unpacked).filter(|it| it.is_file()).or(on_path) else {
            assert!(std::env::var_os("CI").is_none(), "no etcd: run scripts/setup-etcd.sh");
            eprintln!("SKIPPED: there is no etcd; scripts/setup-etcd.sh gets one");
            return None;
        };
        let url = || format!("http://127.0.0.1:{}", free_port());
        let mut etcd = Self { folder: tempfile::tempdir().unwrap(), program, client: url(), peer: url(), child: None };
        etcd.run();
        Some(etcd)
    }

    pub fn url(&self) -> &str {
        &self.client
    }

    /// Starts it, also after it was killed, and waits until it takes writes.
    pub fn run(&mut self) {
        let (data, client, peer) = (self.folder.path().display().to_string(), &self.client, &self.peer);
        let cluster = format!("m={peer}");
        let arguments = [
            ["--name", "m"],
            ["--data-dir", &data],
            ["--listen-client-urls", client],
            ["--advertise-client-urls", client],
            ["--listen-peer-urls", peer],
            ["--initial-advertise-peer-urls", peer],
            ["--initial-cluster", &cluster],
            ["--log-level", "error"],
        ];
        let mut command = Command::new(&self.program);
        command.args(arguments.concat()).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        self.child = Some(command.spawn().unwrap());
        let start = Instant::now();
        let put = || {
            let mut ctl = Command::new(self.program.with_file_name("etcdctl"));
            ctl.env("ETCDCTL_API", "3").args(["--endpoints", client, "--command-timeout", "1s", "put", "probe", "1"]);
            ctl.stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap().success()
        };
        while !put() {
            assert!(start.elapsed() < TIMEOUT, "etcd does not come up");
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
    }

    /// kill -9.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        self.kill();
    }
}
