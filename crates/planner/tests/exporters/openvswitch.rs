//! Open vSwitch with simulated ports, which reports every packet that it forwards.

use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use crate::{packet, record, socket, study, write_capture};

const SWITCH: &str = "/usr/sbin/ovs-vswitchd";
const SERVER: &str = "/usr/sbin/ovsdb-server";
const SCHEMA: &str = "/usr/share/openvswitch/vswitch.ovsschema";

/// A bridge with ports p1 and p2, until it is dropped.
struct Switch {
    folder: PathBuf,
    daemons: Vec<Child>,
}

impl Switch {
    fn start(folder: &Path, exporters: &str) -> Self {
        let mut it = Self { folder: folder.to_owned(), daemons: Vec::new() };
        let at = |name: &str| folder.join(name).display().to_string();
        let (db, server) = (at("conf.db"), at("db.sock"));
        it.run("ovsdb-tool", &["create", &db, SCHEMA]);
        it.spawn(SERVER, &[&db, &format!("--remote=punix:{server}"), &format!("--unixctl={}", at("db.ctl"))], "db.sock");
        it.run("ovs-vsctl", &[&format!("--db=unix:{server}"), "--no-wait", "init"]);
        let control = format!("--unixctl={}", at("switch.ctl"));
        it.spawn(SWITCH, &[&format!("unix:{server}"), "--enable-dummy", "--disable-system", &control], "switch.ctl");
        let bridge = "add-br br0 -- set bridge br0 datapath_type=dummy fail-mode=standalone -- add-port br0 p1 \
                      -- set interface p1 type=dummy -- add-port br0 p2 -- set interface p2 type=dummy";
        let all = format!("--timeout=20 --db=unix:{server} {bridge} {exporters}");
        it.run("ovs-vsctl", &all.split_whitespace().collect::<Vec<_>>());
        it
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
        let output = self.command(program, arguments).output().expect("it runs");
        assert!(output.status.success(), "{program} {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    }

    fn spawn(&mut self, program: &str, arguments: &[&str], socket: &str) {
        let child = self.command(program, arguments).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        self.daemons.push(child.expect("it starts"));
        for _ in 0..500 {
            if self.folder.join(socket).exists() {
                return;
            }
            sleep(Duration::from_millis(20));
        }
        panic!("{program} does not start");
    }

    /// A packet arrives at p1.
    fn receive(&self, bytes: &[u8]) {
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        self.run(
            "ovs-appctl",
            &["-t", &self.folder.join("switch.ctl").display().to_string(), "netdev-dummy/receive", "p1", &hex],
        );
    }
}

impl Drop for Switch {
    fn drop(&mut self) {
        for daemon in &mut self.daemons {
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
    }
}

/// 20 datagrams of 500 bytes: each protocol reports all of their packets and bytes, IPFIX where they enter and where they leave. NetFlow's bytes are those of Ethernet frames.
#[test]
fn flows_of_a_switch_are_those_of_its_packets() {
    if !Path::new(SWITCH).exists() {
        assert!(std::env::var_os("CI").is_none(), "Open vSwitch is needed: scripts/setup-lab.sh installs it");
        eprintln!("skipped: no Open vSwitch: scripts/setup-lab.sh installs it");
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let sockets: [(UdpSocket, u16, f64); 3] = [(socket(), 6343, 500.0), (socket(), 2055, 514.0), (socket(), 4739, 500.0)];
    let [sflow, netflow, ipfix] = [0, 1, 2].map(|at| sockets[at].0.local_addr().expect("bound"));
    let exporters = format!(
        "-- --id=@s create sflow agent=lo target=\"{sflow}\" sampling=1 polling=0 header=128 -- set bridge br0 sflow=@s \
         -- --id=@n create netflow targets=\"{netflow}\" active-timeout=1 -- set bridge br0 netflow=@n \
         -- --id=@i create ipfix targets=\"{ipfix}\" sampling=1 cache_active_timeout=1 \
         -- set bridge br0 ipfix=@i"
    );
    let switch = Switch::start(folder.path(), &exporters);
    for _ in 0..20 {
        switch.receive(&packet([10, 0, 0, 1], [10, 0, 1, 2], [1000, 80], 17, 500));
    }
    // NetFlow and IPFIX are sent after a second, sFlow within one.
    sleep(Duration::from_secs(4));
    for (socket, port, bytes) in &sockets {
        write_capture(&folder.path().join("export.pcap"), &record(socket, *port));
        let found = study(&["export.pcap"], folder.path());
        let number = |key: &str| found["totals"][key].as_f64();
        let expected = (Some(20.0), Some(20.0 * bytes), Some(2.0));
        assert_eq!((number("packets"), number("bytes"), number("hosts")), expected, "port {port}: {found}");
        assert!(!found["notes"].to_string().contains("missing"), "port {port}: {}", found["notes"]);
    }
}
