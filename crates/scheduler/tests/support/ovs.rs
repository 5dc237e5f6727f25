//! A real Open vSwitch with simulated ports, in a folder of its own.

use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use super::TIMEOUT;

/// An Open vSwitch of datapath 1 with simulated ports 1 to 4, until it is dropped.
pub struct Vswitchd {
    folder: PathBuf,
    daemons: Vec<Child>,
}

impl Vswitchd {
    /// With its files in a new folder, further settings and its controllers as words of `ovs-vsctl`. `None` if it is not installed.
    pub fn start(folder: &Path, settings: &str, controllers: &str) -> Option<Self> {
        if !Path::new(SWITCH).exists() {
            assert!(std::env::var_os("CI").is_none(), "Open vSwitch is needed: scripts/setup-lab.sh installs it");
            eprintln!("SKIPPED: no Open vSwitch: scripts/setup-lab.sh installs it");
            return None;
        }
        std::fs::create_dir(folder).unwrap();
        let mut it = Self { folder: folder.to_owned(), daemons: Vec::new() };
        let place = it.folder.clone();
        let at = |name: &str| place.join(name).display().to_string();
        let (db, server) = (at("conf.db"), at("db.sock"));
        it.run("ovsdb-tool", &["create", &db, SCHEMA]);
        let remote = format!("--remote=punix:{server}");
        it.spawn(SERVER, &[&db, &remote, &format!("--unixctl={}", at("db.ctl"))], "db.sock");
        it.run("ovs-vsctl", &[&format!("--db=unix:{server}"), "--no-wait", "init"]);
        let control = format!("--unixctl={}", at("switch.ctl"));
        it.spawn(SWITCH, &[&format!("unix:{server}"), "--enable-dummy", "--disable-system", &control], "switch.ctl");
        let bridge = "add-br br0 -- set bridge br0 datapath_type=dummy fail-mode=secure protocols=OpenFlow15 \
                      other-config:datapath-id=0000000000000001";
        let ports: Vec<String> =
            (1..=4).map(|n| format!("-- add-port br0 p{n} -- set interface p{n} type=dummy ofport_request={n}")).collect();
        let all = format!(
            "--timeout=20 --db=unix:{server} {bridge} {} -- {settings} -- set-controller br0 {controllers}",
            ports.join(" ")
        );
        it.run("ovs-vsctl", &all.split_whitespace().collect::<Vec<_>>());
        Some(it)
    }

    /// Its rules without their counters, and its groups.
    pub fn rules(&self) -> Vec<String> {
        let bridge = format!("unix:{}", self.folder.join("br0.mgmt").display());
        let dump = |what: &str| {
            let output = self.command("ovs-ofctl", &["-OOpenFlow15", "--no-stats", what, &bridge]).output().unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            String::from_utf8(output.stdout).unwrap()
        };
        let lines = dump("dump-flows") + &dump("dump-groups");
        let mut lines: Vec<String> = lines.lines().filter(|line| !line.contains("(xid=")).map(str::to_owned).collect();
        lines.sort();
        lines
    }

    fn command(&self, program: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new(program);
        command.args(arguments).current_dir(&self.folder);
        for key in ["OVS_RUNDIR", "OVS_LOGDIR", "OVS_DBDIR"] {
            command.env(key, &self.folder);
        }
        command
    }

    fn run(&self, program: &str, arguments: &[&str]) {
        let output = self.command(program, arguments).output().unwrap();
        assert!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
    }

    fn spawn(&mut self, program: &str, arguments: &[&str], socket: &str) {
        let log = std::fs::File::create(self.folder.join("log")).unwrap();
        let child = self.command(program, arguments).stderr(log).spawn().unwrap();
        self.daemons.push(child);
        let start = Instant::now();
        while !self.folder.join(socket).exists() {
            assert!(start.elapsed() < TIMEOUT, "{program} does not start");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Vswitchd {
    fn drop(&mut self) {
        for daemon in &mut self.daemons {
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
    }
}

const SWITCH: &str = "/usr/sbin/ovs-vswitchd";
const SERVER: &str = "/usr/sbin/ovsdb-server";
const SCHEMA: &str = "/usr/share/openvswitch/vswitch.ovsschema";
