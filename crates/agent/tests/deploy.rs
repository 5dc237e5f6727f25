//! What `weft deploy plan` writes, read and run by the real programs: each configuration by the reader of its daemon, and the example inventory as a network of
//! namespaces in which every machine has its planned files at their places (in a mount namespace of its own).
//!
//! ```text
//!   web1 10.1.1.2, 20.0.0.1 --- tor1 --- mid 10.9.0.254 (anycast 10.9.0.1) --- tor2 --- web2 10.1.2.2, 20.0.0.2
//!                                         '-- dir1 10.9.9.1                       '---- db1 10.1.3.2, 20.0.0.3
//! ```
#![allow(clippy::disallowed_methods)] // Processes live by the wall clock.
#![cfg(target_os = "linux")]

mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use support::fabric::Network;
use support::process::program;
use support::shared::die_with_parent;
use weft_agent::config::Place;
use weft_agent::vl2::{host::HostConfig, switch::SwitchConfig};

const EXAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/inventory.toml");

/// Plans an inventory into a folder below `folder`.
fn plan(folder: &Path, inventory: &str) -> PathBuf {
    let (file, out) = (folder.join("inventory.toml"), folder.join("plan"));
    fs::write(&file, inventory).unwrap();
    let mut command = Command::new(program("weft-directory"));
    let output = command.args(["deploy", "plan"]).arg(&file).arg("--out").arg(&out).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    out
}

/// Reads the agents' configurations of a plan; the machines' names.
fn read_all(out: &Path) -> Vec<String> {
    let mut names = Vec::new();
    for machine in fs::read_dir(out.join("hosts")).unwrap() {
        let path = machine.unwrap().path().join("etc/weft/agent.toml");
        let Ok(text) = fs::read_to_string(&path) else { continue };
        let place = Place { path: &path, text: &text, page: "docs/running-on-hosts.md" };
        if text.contains("role = \"host\"") {
            HostConfig::read(&place).unwrap_or_else(|error| panic!("{error}"));
        } else {
            SwitchConfig::read(&place).unwrap_or_else(|error| panic!("{error}"));
        }
        names.push(path.iter().rev().nth(3).unwrap().to_str().unwrap().to_owned());
    }
    names.sort();
    names
}

#[test]
fn agents_read_every_planned_configuration() {
    let example = fs::read_to_string(EXAMPLE).unwrap();
    let of_host = example.replace("locator = \"tor\"", "locator = \"host\"");
    let without_groups =
        of_host.replace("anycast = [\"10.9.0.1\"]", "multicast = \"239.1.0.0/16\"").replace("\"intermediate\"", "\"other\"");
    let more = example.replace(
        "[[directory.server]]",
        "[agent]\nfail_static = \"10min\"\non_exit = \"remove\"\nmetrics = \"off\"\n\n[[directory.server]]",
    );
    let two_families = example
        .replace("\"20.0.0.0/8\"", "\"20.0.0.0/8\", \"fd20::/64\"")
        .replace("[\"20.0.0.1\"]", "[\"20.0.0.1\", \"fd20::1\"]");
    let parts = "[[directory.part]]\nname = \"rest\"\ndefault = true\n\n[[directory.part]]\nname = \"b\"\nprefixes = [\"20.128.0.0/9\"]\n\n\
                 [[directory.server]]\nname = \"dir2\"\naddress = \"10.9.9.2\"\nprincipal = 2001\npart = \"b\"\n\n[[directory.server]]\npart = \"rest\"";
    let divided = example.replace("[[directory.server]]", parts);
    for inventory in [&example, &of_host, &without_groups, &more, &two_families, &divided] {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(read_all(&plan(folder.path(), inventory)), ["db1", "mid", "tor1", "tor2", "web1", "web2"]);
    }
}

/// Machines with their planned files, and the programs that run on them.
struct Site {
    network: Network,
    folder: tempfile::TempDir,
    running: BTreeMap<String, Running>,
}

/// What runs on a machine: the process that was started, and the first one in its namespaces.
struct Running {
    child: Child,
    pid: u32,
}

impl Drop for Site {
    fn drop(&mut self) {
        for (name, Running { child, .. }) in &mut self.running {
            let _ = child.kill();
            let _ = child.wait();
            if std::thread::panicking() {
                let log = fs::read_to_string(self.folder.path().join(format!("{name}.log"))).unwrap_or_default();
                eprintln!("--- {name}\n{}", log.get(log.len().saturating_sub(2000)..).unwrap_or(&log));
            }
        }
    }
}

const MACHINES: &[&str] = &["web1", "web2", "db1", "tor1", "tor2", "mid", "dir1"];

fn wired(network: &Network) {
    let ip = |node: &str, arguments: &str| network.ip(node, arguments);
    for (host, n, tor, port) in [("web1", 1, "tor1", "p0"), ("web2", 2, "tor2", "p0"), ("db1", 3, "tor2", "p1")] {
        network.cable((host, "eth0"), (tor, port));
        ip(tor, &format!("addr add 10.1.{n}.1/24 dev {port}"));
        ip(host, &format!("addr add 10.1.{n}.2/24 dev eth0"));
        ip(host, &format!("route add default via 10.1.{n}.1"));
        ip(tor, &format!("route add 10.201.{n}.0/24 via 10.1.{n}.2"));
    }
    for (tor, n, hosts) in [("tor1", 1, [1].as_slice()), ("tor2", 2, &[2, 3])] {
        network.cable((tor, "u0"), ("mid", &format!("p{n}")));
        ip(tor, &format!("addr add 172.16.{n}.0/31 dev u0"));
        ip("mid", &format!("addr add 172.16.{n}.1/31 dev p{n}"));
        ip(tor, &format!("route add default via 172.16.{n}.1"));
        for host in hosts {
            ip("mid", &format!("route add 10.1.{host}.0/24 via 172.16.{n}.0"));
            ip("mid", &format!("route add 10.201.{host}.0/24 via 172.16.{n}.0"));
        }
    }
    network.cable(("dir1", "eth0"), ("mid", "d0"));
    ip("dir1", "addr add 10.9.9.1/24 dev eth0");
    ip("dir1", "route add default via 10.9.9.254");
    ip("mid", "addr add 10.9.9.254/24 dev d0");
    ip("mid", "addr add 10.9.0.254/32 dev lo");
    for switch in ["tor1", "tor2", "mid"] {
        network.set(switch, "ipv4/ip_forward", "1");
        network.set(switch, "ipv4/conf/all/rp_filter", "0");
    }
}

impl Site {
    fn new(name: &str) -> Option<Self> {
        let network = Network::bare(name, MACHINES)?;
        wired(&network);
        Some(Self { network, folder: tempfile::tempdir().unwrap(), running: BTreeMap::new() })
    }

    fn plan(&self) -> PathBuf {
        self.folder.path().join("plan")
    }

    fn inventory(&self) -> PathBuf {
        self.folder.path().join("inventory.toml")
    }

    /// Starts a machine's daemon, with the planned files at their places, after `before`.
    fn start(&mut self, name: &str, before: &str, command: &str) {
        let files = self.plan().join("hosts").join(name);
        let files = files.display();
        let script = format!(
            "mount --bind {files}/etc /etc\n[ ! -d {files}/var/lib ] || mount --bind {files}/var/lib /var/lib\n\
             mount -t tmpfs tmpfs /run\nmkdir /run/weft\nmount -t bpf bpf /sys/fs/bpf\n{before}\nexec {command}\n"
        );
        let child = self.spawn(name, &["--mount", "--propagation", "private", "sh", "-ec", &script]);
        let pid = child.id();
        self.running.insert(name.to_owned(), Running { child, pid });
    }

    /// Boots a machine with its planned files, and the units that they are for.
    fn boot(&mut self, name: &str) {
        self.boot_with(name, &self.plan().join("hosts").join(name));
    }

    /// Boots a machine: systemd, with these files on a copy of this machine's root.
    fn boot_with(&mut self, name: &str, files: &Path) {
        let folder = self.folder.path().to_owned();
        fs::create_dir(folder.join(format!("{name}.root"))).unwrap();
        let (crates, programs) = (concat!(env!("CARGO_MANIFEST_DIR"), "/.."), program("weft-agent"));
        let programs = programs.parent().unwrap();
        let paths = [folder.to_str().unwrap(), name, files.to_str().unwrap(), crates, programs.to_str().unwrap()];
        let script = [include_str!("support/boot.sh"), "boot"].into_iter().chain(paths);
        let namespaces = ["--pid", "--fork", "--kill-child", "--mount", "--uts", "--ipc", "--cgroup", "bash", "-c"];
        let child = self.spawn(name, &namespaces.into_iter().chain(script).collect::<Vec<_>>());
        let children = format!("/proc/{0}/task/{0}/children", child.id());
        let pid = child.id();
        let running = self.running.entry(name.to_owned()).or_insert(Running { child, pid });
        wait("systemd", || {
            let text = fs::read_to_string(&children).map_err(|error| error.to_string())?;
            running.pid = text.trim().parse().map_err(|_| text)?;
            // Before that it is the script, in the root of this machine.
            let program = fs::read_link(format!("/proc/{}/exe", running.pid)).map_err(|error| error.to_string())?;
            if program.ends_with("systemd") { Ok(()) } else { Err(program.display().to_string()) }
        });
    }

    /// `unshare` on a machine.
    fn spawn(&self, name: &str, arguments: &[&str]) -> Child {
        let log = fs::File::create(self.folder.path().join(format!("{name}.log"))).unwrap();
        let mut command = self.network.command(name, "unshare");
        command.args(arguments).stdin(Stdio::null()).env_remove("NOTIFY_SOCKET");
        command.stdout(log.try_clone().unwrap()).stderr(log);
        die_with_parent(&mut command);
        command.spawn().unwrap()
    }

    /// The unit's command, with its environment, on a directory server.
    fn start_directory(&mut self, name: &str) {
        let unit = include_str!("../../directory/systemd/weft-directory.service");
        let command = unit.lines().find_map(|line| line.strip_prefix("ExecStart=")).unwrap();
        let command = command.replace("$$", "$").replace("/usr/bin/weft-directory", program("weft-directory").to_str().unwrap());
        let environment = fs::read_to_string(self.plan().join("hosts").join(name).join("etc/weft/directory.env")).unwrap();
        let values =
            environment.lines().filter_map(|line| line.split_once('=')).map(|(key, value)| format!("export {key}='{value}'\n"));
        let before = values.collect::<String>() + "export WEFT_DIRECTORY=/var/lib/weft-directory";
        self.start(name, &before, &command);
    }

    /// The agent, after what its unit's drop-in runs before.
    fn start_agent(&mut self, name: &str) {
        let drop_in = self.plan().join("hosts").join(name).join("etc/systemd/system/weft-agent.service.d/50-deploy.conf");
        let drop_in = fs::read_to_string(drop_in).unwrap_or_default();
        let before: Vec<&str> = drop_in.lines().filter_map(|line| line.strip_prefix("ExecStartPre=")).collect();
        self.start(name, &before.join("\n"), &format!("{} --config /etc/weft/agent.toml", env!("CARGO_BIN_EXE_weft-agent")));
    }

    /// Imports the mappings.
    fn import(&self, from: &str) {
        let (mappings, dir) = (self.plan().join("directory/mappings.jsonl"), self.plan().join("directory"));
        let import = ["import", "--timeout", "20s", "--dir", dir.to_str().unwrap(), mappings.to_str().unwrap()];
        wait("mappings are imported", || {
            let output = self.network.command(from, program("weft-directory").to_str().unwrap()).args(import).output().unwrap();
            output.status.success().then_some(()).ok_or_else(|| String::from_utf8_lossy(&output.stderr).into_owned())
        });
    }

    /// Waits until no machine differs from the plan, and pings between applications.
    fn reaches_all(&self, machines: &[&str], counter: &str) {
        for name in machines {
            wait(name, || match self.check(name) {
                (Some(0), _) => Ok(()),
                (_, lines) => Err(lines),
            });
        }
        for (from, to) in [("web1", "20.0.0.2"), ("db1", "20.0.0.1"), ("web2", "20.0.0.3")] {
            let output = self.on(from, Path::new("ping"), &["-c", "3", "-i", "0.2", "-W", "2", to]);
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            assert!(text.contains(" 0% packet loss"), "{from} to {to}: {text}{}", String::from_utf8_lossy(&output.stderr));
        }
        // Through the overlay, not beside it.
        let status = self.on("web1", Path::new(env!("CARGO_BIN_EXE_weft-agent")), &["status", "--json"]);
        let status: serde_json::Value = serde_json::from_slice(&status.stdout).unwrap();
        assert!(status["counters"][counter].as_u64() >= Some(3), "{status:#}");
    }

    /// A command on a machine, in the namespaces of its daemon.
    fn on(&self, name: &str, program: &Path, arguments: &[&str]) -> Output {
        let pid = self.running[name].pid.to_string();
        let mut command = Command::new("nsenter");
        command
            .args(["--target", &pid, "--mount", "--net", "--pid", "--root", "--wd"])
            .arg(program)
            .args(arguments)
            .output()
            .unwrap()
    }

    /// Names of the metrics that a machine serves.
    fn metrics(&self, name: &str, port: u16) -> Vec<String> {
        let read = || -> std::io::Result<String> {
            let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
            stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n")?;
            let mut text = String::new();
            stream.read_to_string(&mut text).map(|_| text)
        };
        let text = self.network.within(name, || read().unwrap());
        let lines = text.lines().filter(|line| line.starts_with("weft_"));
        lines.map(|line| line.split(['{', ' ']).next().unwrap().to_owned()).collect()
    }

    /// `weft deploy check` on a machine: its exit code and lines.
    fn check(&self, name: &str) -> (Option<i32>, String) {
        let (inventory, dir) = (self.inventory().display().to_string(), self.plan().display().to_string());
        let arguments = ["deploy", "check", &inventory, "--dir", &dir, "--host", name];
        let output = self.on(name, &program("weft-directory"), &arguments);
        (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr))
    }
}

/// Repeats until it is true.
fn wait(what: &str, mut is_so: impl FnMut() -> Result<(), String>) {
    let begun = Instant::now();
    while let Err(why) = is_so() {
        assert!(begun.elapsed() < Duration::from_secs(30), "{what}: {why}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// Alerts read metrics that programs serve from their start, or that come with what they count.
fn exports_what_alerts_read(site: &Site) {
    let rules = include_str!("../../../packaging/monitoring/weft-alerts.yml");
    let words = rules.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
    let read: BTreeSet<&str> = words.filter(|it| it.starts_with("weft_agent_") || it.starts_with("weft_directory_")).collect();
    let later = [
        // With the first of what they count.
        "weft_agent_restored_total",
        "weft_directory_commit_failures_total",
        "weft_directory_dropped_total",
        "weft_directory_reloads_total",
        // Of NetLord, and of hosts with a scheduler.
        "weft_agent_intermediates_unreachable",
        "weft_agent_paths_failed_total",
        "weft_agent_paths_restored_total",
        "weft_agent_table",
        "weft_agent_table_max",
        "weft_agent_vifs_twice",
    ];
    wait("metrics", || {
        let agents = ["web1", "tor1", "mid"].iter().flat_map(|name| site.metrics(name, 9304));
        let served: BTreeSet<String> = agents.chain(site.metrics("dir1", 9303)).collect();
        let absent: Vec<&&str> = read.iter().filter(|it| !served.contains(**it) && !later.contains(it)).collect();
        if absent.is_empty() { Ok(()) } else { Err(format!("{absent:?}")) }
    });
}

/// The servers' mappings are those of the plan; one that was changed and one that was added are found.
fn mappings_are_compared(site: &Site) {
    let (inventory, dir) = (site.inventory(), site.plan());
    let directory = |arguments: &[&str]| {
        let mut command = site.network.command("dir1", program("weft-directory").to_str().unwrap());
        let output = command.args(arguments).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        (output.status.code(), text)
    };
    let check = || directory(&["deploy", "check", inventory.to_str().unwrap(), "--mappings", "--dir", dir.to_str().unwrap()]);
    assert_eq!(check(), (Some(0), "no difference\n".to_owned()));
    let administration = dir.join("directory");
    let put = |key: &str, more: &[&str]| {
        let (code, text) = directory(&[&["put", key, "10.1.2.1", "--dir", administration.to_str().unwrap()], more].concat());
        assert_eq!(code, Some(0), "{text}");
    };
    put("20.0.0.3", &["--owner", "104"]);
    put("20.0.0.77", &["--owner", "103", "--service", "db"]);
    let (code, text) = check();
    assert_eq!((code, text.lines().count()), (Some(1), 2), "{text}");
    assert!(text.contains("mapping 20.0.0.3: is {\"locator\":\"10.1.2.1\",") && text.contains("\"owner\":104"), "{text}");
    assert!(text.contains("mapping 20.0.0.77: not in the inventory"), "{text}");
}

const AGENTS: &[&str] = &["mid", "tor1", "tor2", "web1", "web2", "db1"];

#[test]
fn machines_with_their_planned_files_reach_each_other() {
    let Some(mut site) = Site::new("deploy") else { return };
    plan(site.folder.path(), &fs::read_to_string(EXAMPLE).unwrap());
    site.start_directory("dir1");
    site.import("dir1");
    AGENTS.iter().for_each(|name| site.start_agent(name));
    site.reaches_all(AGENTS, "pushed_two");
    exports_what_alerts_read(&site);
    mappings_are_compared(&site);
    // A file that was changed on a machine is found.
    let config = site.plan().join("hosts/web1/etc/weft/agent.toml");
    let changed = fs::read_to_string(&config).unwrap().replace("20.0.0.1", "20.0.0.9");
    fs::write(&config, changed).unwrap();
    let (code, lines) = site.check("web1");
    assert!(code == Some(1) && lines.contains("is `address = \"20.0.0.9\"`, not `address = \"20.0.0.1\"`"), "{lines}");
}

fn has_systemd() -> bool {
    let has = Path::new("/lib/systemd/systemd").exists();
    assert!(has || std::env::var_os("CI").is_none(), "no systemd: scripts/setup-lab.sh");
    if !has {
        eprintln!("SKIPPED: it takes systemd: scripts/setup-lab.sh");
    }
    has
}

#[test]
fn systemd_starts_the_units_with_their_planned_files() {
    let Some(mut site) = Site::new("units").filter(|_| has_systemd()) else { return };
    plan(site.folder.path(), &fs::read_to_string(EXAMPLE).unwrap());
    site.boot("dir1");
    AGENTS.iter().for_each(|name| site.boot(name));
    site.import("dir1");
    site.reaches_all(MACHINES, "pushed_two");
    // A unit that was stopped is found; started again, the machine is as planned.
    let systemctl = |verb: &str| site.on("web1", Path::new("systemctl"), &[verb, "weft-agent"]);
    assert!(systemctl("stop").status.success());
    let (code, lines) = site.check("web1");
    assert!(code == Some(1) && lines.contains("weft-agent.service: inactive, not active: systemctl start weft-agent"), "{lines}");
    assert!(systemctl("start").status.success());
    site.reaches_all(&["web1"], "pushed_two");
}

/// Hosts as locators over switches without agents, updates by TLS, and a directory server on one of the hosts.
#[test]
fn systemd_starts_a_server_and_an_agent_on_one_machine() {
    let Some(mut site) = Site::new("shared").filter(|_| has_systemd()) else { return };
    let mut inventory = fs::read_to_string(EXAMPLE).unwrap();
    for (from, to) in [
        ("locator = \"tor\"", "locator = \"host\""),
        ("anycast = [\"10.9.0.1\"]", ""),
        ("name = \"dir1\"\naddress = \"10.9.9.1\"", "name = \"db1\"\naddress = \"10.1.3.2\""),
        ("principal = 41", "agent = false"),
        ("principal = 42", "agent = false"),
        ("principal = 43", "agent = false"),
    ] {
        assert!(inventory.contains(from), "{from}");
        inventory = inventory.replace(from, to);
    }
    plan(site.folder.path(), &inventory);
    let hosts = ["db1", "web1", "web2"];
    hosts.iter().for_each(|name| site.boot(name));
    site.import("web2");
    site.reaches_all(&hosts, "pushed_one");
}

/// Where Ansible is installed, its role brings machines with nothing of Weft's files to what is planned, and changes nothing when it runs again.
#[test]
fn the_role_installs_and_starts_what_is_planned() {
    let path = std::env::var_os("PATH").unwrap_or_default();
    if !std::env::split_paths(&path).any(|it| it.join("ansible-playbook").is_file()) {
        eprintln!("SKIPPED: it takes ansible-playbook");
        return;
    }
    let Some(mut site) = Site::new("role").filter(|_| has_systemd()) else { return };
    plan(site.folder.path(), &fs::read_to_string(EXAMPLE).unwrap());
    let bare = site.folder.path().join("bare");
    fs::create_dir(&bare).unwrap();
    MACHINES.iter().for_each(|name| site.boot_with(name, &bare));
    let play = |site: &Site, name: &str| {
        let (inventory, playbook) = (site.plan().join("inventory.yml"), site.plan().join("site.yml"));
        let paths = [inventory.to_str().unwrap(), playbook.to_str().unwrap()];
        let python = "ansible_python_interpreter={{ ansible_playbook_python }}";
        let arguments = ["-i", paths[0], "--connection", "local", "--limit", name, "--extra-vars", python, paths[1]];
        let output = site.on(name, Path::new("ansible-playbook"), &arguments);
        let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{name}: {text}");
        text
    };
    play(&site, "dir1");
    site.import("dir1");
    AGENTS.iter().for_each(|name| drop(play(&site, name)));
    site.reaches_all(MACHINES, "pushed_two");
    for name in ["dir1", "web1"] {
        let text = play(&site, name);
        assert!(text.contains("changed=0 "), "{text}");
    }
    // An address more: only what differs is written, and the agent has it.
    let more = fs::read_to_string(EXAMPLE).unwrap().replace("[\"20.0.0.1\"]", "[\"20.0.0.1\", \"20.0.0.11\"]");
    plan(site.folder.path(), &more);
    site.import("dir1");
    play(&site, "web1");
    site.reaches_all(&["web1"], "pushed_two");
    let output = site.on("web2", Path::new("ping"), &["-c", "2", "-W", "2", "20.0.0.11"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}
