//! A small VL2 network of network namespaces: two ToRs and an intermediate switch, whose tables are written here, three hosts, and a directory
//! server on the intermediate switch.
//!
//! ```text
//!   a 10.1.1.2, 20.0.0.1 --- tor1 --- mid 10.9.0.1 (anycast), 10.9.9.1 (directory) --- tor2 --- b 10.1.2.2, 20.0.0.2
//!                                                                                           '-- c 10.1.3.2, 20.0.0.3
//! ```
//! Everything goes with it, also when a test panics: programs, namespaces, pins.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::net::if_::if_nametoindex;
use nix::sched::{CloneFlags, setns};
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, geteuid};
use weft_agent::vl2::dataplane::{Attached, StripRole, SwitchPlane, SwitchSettings};
use weft_control::directory::attempts::UpdateResult;
use weft_control::directory::{GroupId, Key, Locator, Mapping, PrincipalId, ServiceId, Value};
use weft_control::wire::directory::Op;
use weft_control::wire::vl2::attach::AttachKey;
use weft_directory::client::Client;

use super::process::program;
use super::shared::{WRITER, client_of, die_with_parent, secret, write_secret};

pub const DIRECTORY: &str = "10.9.9.1:5303";
pub const ANYCAST: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 1);
const NODES: &[&str] = &["a", "b", "c", "tor1", "tor2", "mid"];

/// A host: its number, which is its principal's too, and its ToR's.
#[derive(Clone, Copy, Debug)]
pub struct Host {
    pub name: &'static str,
    pub number: u8,
    pub tor: &'static str,
    pub tor_la: Ipv4Addr,
    pub tor_port: &'static str,
}

pub const HOSTS: [Host; 3] = [
    Host { name: "a", number: 1, tor: "tor1", tor_la: Ipv4Addr::new(10, 1, 1, 1), tor_port: "p0" },
    Host { name: "b", number: 2, tor: "tor2", tor_la: Ipv4Addr::new(10, 1, 2, 1), tor_port: "p0" },
    Host { name: "c", number: 3, tor: "tor2", tor_la: Ipv4Addr::new(10, 1, 2, 1), tor_port: "p1" },
];

impl Host {
    pub fn la(self) -> Ipv4Addr {
        [10, 1, self.number, 2].into()
    }

    pub fn aa(self) -> Ipv4Addr {
        [20, 0, 0, self.number].into()
    }

    pub fn aa6(self) -> Ipv6Addr {
        [0xfd20, 0, 0, 0, 0, 0, 0, self.number.into()].into()
    }
}

/// The network, and the programs in it.
pub struct Network {
    folder: tempfile::TempDir,
    nodes: &'static [&'static str],
    prefix: String,
    pins: PathBuf,
    programs: Vec<(String, Program)>,
    /// Of the programs that are started from now on.
    environment: Vec<(&'static str, String)>,
}

/// A running program.
struct Program {
    child: Child,
    log: PathBuf,
}

impl Network {
    /// Makes the network. None, with a word, where that is not possible; in CI that is a failure.
    pub fn new(name: &str) -> Option<Self> {
        let network = Self::bare(name, NODES)?;
        network.wire();
        Some(network)
    }

    /// The same, of nodes without cables.
    pub fn bare(name: &str, nodes: &'static [&'static str]) -> Option<Self> {
        if !geteuid().is_root() {
            assert!(std::env::var_os("CI").is_none(), "namespaces and eBPF need root");
            eprintln!("skipped: namespaces and eBPF need root");
            return None;
        }
        let id = std::process::id();
        assert!(super::ebpf::mount_bpffs(), "bpffs is mounted");
        let pins = PathBuf::from(format!("/sys/fs/bpf/agent-{name}-{id}"));
        let (folder, prefix) = (tempfile::tempdir().unwrap(), format!("agent-{name}-{id}-"));
        let network = Self { folder, nodes, prefix, pins, programs: Vec::new(), environment: Vec::new() };
        for node in nodes {
            run(&format!("ip netns add {}", network.namespace(node)));
            network.ip(node, "link set lo up");
            // No address is used twice: nothing waits for duplicate address detection.
            network.set(node, "ipv6/conf/all/accept_dad", "0");
            network.set(node, "ipv6/conf/default/accept_dad", "0");
        }
        Some(network)
    }

    fn wire(&self) {
        for host in HOSTS {
            self.cable((host.name, "eth0"), (host.tor, host.tor_port));
            let n = host.number;
            self.ip(host.tor, &format!("addr add 10.1.{n}.1/24 dev {}", host.tor_port));
            self.ip(host.name, &format!("addr add {}/24 dev eth0", host.la()));
            self.ip(host.name, &format!("route add default via 10.1.{n}.1"));
            self.ip(host.name, &format!("addr add {}/8 dev eth0", host.aa()));
            // Outer sources come back to their host.
            self.ip(host.tor, &format!("route add 10.201.{n}.0/24 via {}", host.la()));
        }
        self.cable(("tor1", "u0"), ("mid", "p1"));
        self.cable(("tor2", "u0"), ("mid", "p2"));
        for (tor, n, hosts) in [("tor1", 1, [1].as_slice()), ("tor2", 2, &[2, 3])] {
            self.ip(tor, &format!("addr add 172.16.{n}.0/31 dev u0"));
            self.ip("mid", &format!("addr add 172.16.{n}.1/31 dev p{n}"));
            self.ip(tor, &format!("route add default via 172.16.{n}.1"));
            for host in hosts {
                self.ip("mid", &format!("route add 10.1.{host}.0/24 via 172.16.{n}.0"));
                self.ip("mid", &format!("route add 10.201.{host}.0/24 via 172.16.{n}.0"));
            }
        }
        self.ip("mid", &format!("addr add {ANYCAST}/32 dev lo"));
        self.ip("mid", "addr add 10.9.9.1/32 dev lo");
        self.ip("mid", "addr add 10.9.9.2/32 dev lo");
        for switch in ["tor1", "tor2", "mid"] {
            for (name, value) in [("ip_forward", "1"), ("conf/all/rp_filter", "0"), ("icmp_ratemask", "0")] {
                self.set(switch, &format!("ipv4/{name}"), value);
            }
        }
    }

    /// Writes a setting of a node's network.
    pub fn set(&self, node: &str, key: &str, value: &str) {
        self.within(node, || std::fs::write(Path::new("/proc/sys/net").join(key), value).unwrap());
    }

    pub fn cable(&self, (a, port_a): (&str, &str), (b, port_b): (&str, &str)) {
        let p = &self.prefix;
        run(&format!("ip link add {port_a} netns {p}{a} mtu 1600 type veth peer name {port_b} netns {p}{b} mtu 1600"));
        self.ip(a, &format!("link set {port_a} mtu 1600 up"));
        self.ip(b, &format!("link set {port_b} mtu 1600 up"));
    }

    /// Puts the programs on the switches, and writes their tables: those of both ToRs and of the intermediate switch.
    pub fn start_switches(&self) -> [SwitchPlane; 3] {
        let (aa4, aa6) = ("20.0.0.0/8".parse().unwrap(), "fd20::/64".parse().unwrap());
        let settings = SwitchSettings { aa4: Some(aa4), aa6: Some(aa6), ..SwitchSettings::default() };
        let strips = [
            ("tor1", Ipv4Addr::new(10, 1, 1, 1), StripRole::Tor, ["p0", "u0"].as_slice()),
            ("tor2", Ipv4Addr::new(10, 1, 2, 1), StripRole::Tor, &["p0", "p1", "u0"]),
            ("mid", ANYCAST, StripRole::Intermediate, &["p1", "p2"]),
        ];
        strips.map(|(switch, la, role, ports)| {
            let pins = self.pins(switch);
            // Programs and tables stay when it is dropped.
            self.within(switch, || {
                let mut plane = SwitchPlane::attach(ports, &settings, &pins).unwrap();
                plane.set_strip(la, role).unwrap();
                for host in HOSTS.iter().filter(|host| host.tor == switch) {
                    let port = index_of(host.tor_port);
                    let mac = self.mac(host.name, "eth0");
                    for address in [IpAddr::from(host.aa()), host.aa6().into()] {
                        plane.set_local(address, &Attached { port, mac, service: ServiceId(1) }).unwrap();
                    }
                }
                plane
            })
        })
    }

    pub fn mac(&self, node: &str, device: &str) -> weft_fabric::MacAddr {
        let shown = self.output(node, &["ip", "-j", "link", "show", "dev", device]);
        let shown: serde_json::Value = serde_json::from_str(&shown).unwrap();
        shown[0]["address"].as_str().unwrap().parse().unwrap()
    }

    /// Starts the directory server with this policy.
    pub fn start_directory(&mut self, policy: &[&str]) {
        self.start_directory_at("directory", DIRECTORY, policy);
    }

    /// Starts a server with a store of its own, by the name of its program.
    pub fn start_directory_at(&mut self, name: &str, address: &str, policy: &[&str]) {
        let secret = self.folder.path().join("secret");
        if !secret.exists() {
            write_secret(self.folder.path());
        }
        let store = format!("embedded:{}/store-{name}", self.folder.path().display());
        let mut arguments =
            vec!["serve", "--auth", "mac", "--json", "--metrics", "off", "--principal", "100", "--listen", address];
        arguments.extend(["--store", &store, "--secret", secret.to_str().unwrap()]);
        arguments.extend(policy);
        self.start(name, "mid", program("weft-directory").to_str().unwrap(), &arguments);
    }

    /// Starts the agent of a host. `more` goes to the front of its configuration.
    pub fn start_agent(&mut self, host: Host, more: &str) {
        let config = self.path(&format!("{}.toml", host.name));
        std::fs::write(&config, self.config(host, more)).unwrap();
        self.start(host.name, host.name, env!("CARGO_BIN_EXE_weft-agent"), &["--config", config.to_str().unwrap(), "--json"]);
    }

    fn config(&self, host: Host, more: &str) -> String {
        let key = self.path(&format!("{}.key", host.name));
        let _ = std::fs::remove_file(&key);
        let mut file = File::options().write(true).create_new(true).mode(0o600).open(&key).unwrap();
        std::io::Write::write_all(&mut file, secret().key_of(PrincipalId(host.number.into())).to_hex().as_bytes()).unwrap();
        let (key, socket, pins) = (key.display(), self.socket(host), self.pins(host.name));
        let (number, aa) = (host.number, host.aa());
        let metrics = if more.contains("metrics") { "" } else { "metrics = \"off\"\n" };
        format!(
            "role = \"host\"\ndevice = \"eth0\"\nprincipal = {number}\nkey = \"{key}\"\ndirectory = [\"{DIRECTORY}\"]\n\
             prefixes = [\"20.0.0.0/8\"]\nentropy = \"10.201.{number}.0/24\"\nsocket = \"{}\"\npins = \"{}\"\n{metrics}{more}\n\
             [[address]]\naddress = \"{aa}\"\n",
            socket.display(),
            pins.display()
        )
    }

    /// The socket of a host's agent.
    pub fn socket(&self, host: Host) -> PathBuf {
        self.path(&format!("{}.sock", host.name))
    }

    /// Writes a file that goes with the network.
    pub fn write(&self, name: &str, text: &str) -> String {
        std::fs::write(self.path(name), text).unwrap();
        self.path(name).to_str().unwrap().to_owned()
    }

    /// Where a node's programs and tables are pinned.
    pub fn pins(&self, node: &str) -> PathBuf {
        self.pins.join(node)
    }

    /// A node's namespace, as `ip netns` names it.
    pub fn namespace(&self, node: &str) -> String {
        format!("{}{node}", self.prefix)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn start(&mut self, name: &str, node: &str, program: &str, arguments: &[&str]) {
        let log = self.path(&format!("{name}.log"));
        let file = File::options().append(true).create(true).open(&log).unwrap();
        let mut command = self.command(node, program);
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(file).env("WEFT_LOG", "debug");
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        die_with_parent(&mut command);
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        let _ = BufReader::new(child.stdout.take().unwrap()).read_line(&mut line);
        let program = Program { child, log };
        assert!(line.starts_with('{'), "{name} does not start:\n{}", program.said());
        self.programs.push((name.to_owned(), program));
    }

    /// A program in a node's network.
    pub fn command(&self, node: &str, program: &str) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net=/run/netns/{}", self.namespace(node))).arg(program);
        command
    }

    /// Programs that are started from now on see another time of day, by so many seconds; those that run already, if they were started after the first call. None
    /// of the machine's clocks changes.
    pub fn set_clock(&mut self, ahead_s: i64) {
        let (source, library, offset) = (self.path("clock.c"), self.path("clock.so"), self.path("clock"));
        std::fs::write(&offset, ahead_s.to_string()).unwrap();
        if !library.exists() {
            std::fs::write(&source, include_str!("clock.c")).unwrap();
            let (source, library) = (source.to_str().unwrap(), library.to_str().unwrap());
            run(&format!("cc -shared -fPIC -O1 -o {library} {source} -ldl"));
            self.environment.push(("LD_PRELOAD", library.to_owned()));
            self.environment.push(("WEFT_TEST_CLOCK", offset.to_str().unwrap().to_owned()));
        }
    }

    /// The agent of a ToR, in the place of the tables that were written at first.
    pub fn start_tor(&mut self, tor: &str, forget_after: &str) {
        let (principal, key) = (PrincipalId(41), self.path(&format!("{tor}.key")));
        if !key.exists() {
            let mut file = File::options().write(true).create_new(true).mode(0o600).open(&key).unwrap();
            std::io::Write::write_all(&mut file, secret().key_of(principal).to_hex().as_bytes()).unwrap();
        }
        let hosts: Vec<Host> = HOSTS.into_iter().filter(|host| host.tor == tor).collect();
        let ports: Vec<String> = hosts.iter().map(|host| format!("\"{}\"", host.tor_port)).collect();
        let mut config = format!(
            "role = \"switch\"\nprincipal = 41\nkey = \"{}\"\ndirectory = [\"{DIRECTORY}\"]\nprefixes = [\"20.0.0.0/8\"]\nla = \"{}\"\n\
             ports = [{}, \"u0\"]\nsocket = \"{}\"\npins = \"{}\"\nmetrics = \"off\"\non_exit = \"keep\"\n[tor]\nforget_after = \"{forget_after}\"\n",
            key.display(),
            hosts[0].tor_la,
            ports.join(", "),
            self.path(&format!("{tor}.sock")).display(),
            self.pins(tor).display()
        );
        for host in hosts {
            let key = AttachKey::of(&secret().key_of(PrincipalId(host.number.into()))).to_hex();
            let (number, port, la) = (host.number, host.tor_port, host.la());
            config +=
                &format!("[[tor.host]]\nprincipal = {number}\nattach_key = \"{key}\"\nport = \"{port}\"\naddress = \"{la}\"\n");
        }
        let path = self.path(&format!("{tor}.toml"));
        std::fs::write(&path, config).unwrap();
        self.start(tor, tor, env!("CARGO_BIN_EXE_weft-agent"), &["--config", path.to_str().unwrap(), "--json"]);
    }

    /// The status of a switch's agent.
    pub fn switch_status(&self, switch: &str) -> serde_json::Value {
        let mut command = self.command(switch, env!("CARGO_BIN_EXE_weft-agent"));
        let output = command.args(["status", "--json", "--socket"]).arg(self.path(&format!("{switch}.sock"))).output().unwrap();
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// Sends a program a signal.
    pub fn signal(&self, name: &str, signal: Signal) {
        let (_, program) = self.programs.iter().find(|(it, _)| it == name).expect("it runs");
        kill(Pid::from_raw(program.child.id() as i32), signal).unwrap();
    }

    /// kill -9.
    pub fn kill(&mut self, name: &str) {
        self.end(name, Signal::SIGKILL);
    }

    /// SIGTERM; its exit code.
    pub fn terminate(&mut self, name: &str) -> Option<i32> {
        self.end(name, Signal::SIGTERM)
    }

    fn end(&mut self, name: &str, signal: Signal) -> Option<i32> {
        let at = self.programs.iter().position(|(it, _)| it == name).expect("it runs");
        let (_, mut program) = self.programs.remove(at);
        kill(Pid::from_raw(program.child.id() as i32), signal).unwrap();
        program.child.wait().unwrap().code()
    }

    /// `weft-agent` with these arguments, on a host: exit code and output.
    /// A command of the agent, outside of the host's network namespace.
    pub fn agent_from_outside(&self, host: Host, arguments: &[&str]) -> (i32, String) {
        self.ask_agent(Command::new(env!("CARGO_BIN_EXE_weft-agent")), host, arguments)
    }

    pub fn agent(&self, host: Host, arguments: &[&str]) -> (i32, String) {
        self.ask_agent(self.command(host.name, env!("CARGO_BIN_EXE_weft-agent")), host, arguments)
    }

    fn ask_agent(&self, mut command: Command, host: Host, arguments: &[&str]) -> (i32, String) {
        let output = command.args(arguments).arg("--socket").arg(self.socket(host)).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        (output.status.code().unwrap_or(-1), text)
    }

    pub fn status(&self, host: Host) -> serde_json::Value {
        let (_, text) = self.agent(host, &["status", "--json"]);
        serde_json::from_str(&text).unwrap_or_else(|_| panic!("{text}"))
    }

    /// Waits until a status is as it should be.
    pub fn wait_status(&self, host: Host, what: &str, good: impl Fn(&serde_json::Value) -> bool) -> serde_json::Value {
        let begun = Instant::now();
        loop {
            let status = self.status(host);
            if good(&status) {
                return status;
            }
            assert!(begun.elapsed() < TIMEOUT, "{}: not so: {what}\n{status:#}\n{}", host.name, self.log(host.name));
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    pub fn log(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(&format!("{name}.log"))).unwrap_or_default()
    }

    /// Writes mappings of all hosts: at their ToRs, or at a place that none of them is at.
    pub fn provision(&self, services: [u32; 3], at_tor: bool, group: u16) {
        self.provision_for(services, at_tor, group, 60_000);
    }

    /// The same with a lease.
    pub fn provision_for(&self, services: [u32; 3], at_tor: bool, group: u16, lease_ms: u32) {
        let client = || client_of(WRITER, &[DIRECTORY.to_owned()], Duration::from_secs(5));
        self.within("mid", || {
            let mut client = client();
            let anycast = Value::Group([ANYCAST.into()].into_iter().collect());
            put(&mut client, Key::Group(GroupId(1)), anycast);
            for (host, service) in HOSTS.iter().zip(services) {
                let mapping = Mapping {
                    locator: Locator::V4(if at_tor { host.tor_la } else { Ipv4Addr::new(10, 66, 66, 66) }),
                    mac: None,
                    group: GroupId(group),
                    service: ServiceId(service),
                    owner: PrincipalId(host.number.into()),
                    lease_ms,
                };
                put(&mut client, Key::App4(host.aa()), Value::Mapping(mapping));
            }
        });
    }

    /// Deletes the mapping of a host.
    pub fn revoke(&self, host: Host) {
        self.within("mid", || {
            let mut client = client_of(WRITER, &[DIRECTORY.to_owned()], Duration::from_secs(5));
            let op = Op { key: Key::App4(host.aa()), expect: None, value: None };
            let answer = client.update(vec![op], None).unwrap();
            assert!(matches!(answer.result, UpdateResult::Committed(_)), "{:?}", answer.result);
        });
    }

    /// Writes the mapping of one more address of a host.
    pub fn provision_address(&self, address: Ipv4Addr, host: Host, service: u32) {
        self.provision_at(host.tor_la, 1, address, host, service);
    }

    /// The same with a locator and a group.
    pub fn provision_at(&self, locator: Ipv4Addr, group: u16, address: Ipv4Addr, host: Host, service: u32) {
        let (locator, owner) = (Locator::V4(locator), PrincipalId(host.number.into()));
        let (group, service) = (GroupId(group), ServiceId(service));
        let mapping = Mapping { locator, mac: None, group, service, owner, lease_ms: 60_000 };
        self.within("mid", || {
            let mut client = client_of(WRITER, &[DIRECTORY.to_owned()], Duration::from_secs(5));
            put(&mut client, Key::App4(address), Value::Mapping(mapping));
        });
    }

    /// Does something on a thread in a node's network.
    pub fn within<T: Send>(&self, node: &str, work: impl FnOnce() -> T + Send) -> T {
        let file = File::open(format!("/run/netns/{}", self.namespace(node))).unwrap();
        let enter = move || {
            setns(file, CloneFlags::CLONE_NEWNET).unwrap();
            work()
        };
        let done = std::thread::scope(|scope| scope.spawn(enter).join());
        done.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }

    pub fn ip(&self, node: &str, arguments: &str) {
        run(&format!("ip -n {} {arguments}", self.namespace(node)));
    }

    pub fn output(&self, node: &str, words: &[&str]) -> String {
        let output = self.command(node, words[0]).args(&words[1..]).output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
    }
}

impl Program {
    fn said(&self) -> String {
        let mut text = String::new();
        let _ = File::open(&self.log).and_then(|mut file| file.read_to_string(&mut text));
        text
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        for (name, program) in &mut self.programs {
            let _ = program.child.kill();
            let _ = program.child.wait();
            if std::thread::panicking() {
                let said = program.said();
                let from = said.len().saturating_sub(3000);
                eprintln!("--- {name}\n{}", said.get(from..).unwrap_or(&said));
            }
        }
        let _ = std::fs::remove_dir_all(&self.pins);
        for node in self.nodes {
            let _ = Command::new("ip").args(["netns", "del", &self.namespace(node)]).stderr(Stdio::null()).status();
        }
        let _ = std::fs::remove_dir_all(&self.pins);
    }
}

fn put(client: &mut Client, key: Key, value: Value) {
    let answer = client.update(vec![Op { key, expect: None, value: Some(value) }], None).unwrap();
    assert!(matches!(answer.result, UpdateResult::Committed(_)), "{:?}", answer.result);
}

fn index_of(port: &str) -> u32 {
    if_nametoindex(port).unwrap()
}

fn run(command: &str) {
    let mut words = command.split_whitespace();
    let output = Command::new(words.next().unwrap()).args(words).output().unwrap();
    assert!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
}

pub const TIMEOUT: Duration = Duration::from_secs(20);
