//! The agent of a switch in network namespaces of its own: anycast addresses that come and go with routes, DHCP carried to a server and back, and nothing left at
//! the end. As root; elsewhere it says that it is skipped. Its name starts with `timing_`, since it compares times and needs the processors for itself.

#![allow(clippy::disallowed_methods)] // Processes live by the wall clock.
#![cfg(target_os = "linux")]

#[path = "support/ebpf.rs"]
mod ebpf;

use std::fs;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use dhcproto::v4::{DhcpOption, Message, MessageType, Opcode};
use dhcproto::{Decodable as _, Encodable as _};
use nix::sched::{CloneFlags, setns};
use serde_json::Value;

/// A switch with two ports, a host at one and a server at the other.
struct Place {
    folder: tempfile::TempDir,
    names: [String; 3],
}

impl Place {
    fn make() -> Option<Self> {
        let id = std::process::id();
        let names = ["s", "h", "d"].map(|letter| format!("swt{id}{letter}"));
        let mut place = Self { folder: tempfile::tempdir().expect("a folder"), names };
        let added = place.names.iter().all(|name| run("ip", &["netns", "add", name]));
        let has_bpf = added && ebpf::mount_bpffs();
        if !has_bpf {
            assert!(std::env::var_os("CI").is_none(), "it takes root, network namespaces and bpffs");
            eprintln!("SKIPPED: it takes root, network namespaces and bpffs");
            for name in &place.names {
                run("ip", &["netns", "del", name]);
            }
            place.names = Default::default();
            return None;
        }
        let [s, h, d] = &place.names;
        for (port, peer, at) in [("p0", "eth0", d), ("p1", "eth0", h)] {
            assert!(run("ip", &["link", "add", port, "netns", s, "type", "veth", "peer", "name", peer, "netns", at]));
        }
        place.shell(0, "ip link set lo up; ip addr add 10.0.0.1/32 dev lo; ip link set p0 up; ip link set p1 up; ip route add 10.1.1.9 dev p0");
        place.shell(1, "ip link set lo up; ip link set eth0 up");
        place
            .shell(2, "ip link set lo up; ip link set eth0 up; ip addr add 10.1.1.9/32 dev eth0; ip route add 10.0.0.1 dev eth0");
        Some(place)
    }

    fn command(&self, at: usize, program: &str) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net=/run/netns/{}", self.names[at])).arg(program);
        command
    }

    fn shell(&self, at: usize, text: &str) -> String {
        let output = self.command(at, "sh").args(["-ec", text]).output().expect("a shell");
        assert!(output.status.success(), "{text}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn pins(&self) -> String {
        format!("/sys/fs/bpf/{}", self.names[0])
    }

    /// The agent, once it is ready.
    fn agent(&self) -> Child {
        use std::os::unix::fs::PermissionsExt as _;
        let text = |name: &str| self.path(name).display().to_string();
        fs::write(self.path("key"), "01".repeat(32)).expect("written");
        fs::set_permissions(self.path("key"), fs::Permissions::from_mode(0o600)).expect("a mode");
        let configuration = format!(
            "role = \"switch\"\nprincipal = 40\nkey = \"{}\"\ndirectory = [\"10.1.1.9:5303\"]\nprefixes = [\"20.0.0.0/8\"]\nla = \"10.0.0.1\"\non_exit = \"remove\"\n\
             ports = [\"p0\", \"p1\"]\nsocket = \"{}\"\npins = \"{}\"\n[intermediate]\nswitches = [\"10.0.0.1\", \"10.0.0.2\", \"10.0.0.3\"]\n\
             anycast = [\"100.127.0.1\", \"100.127.0.2\"]\necmp_width = 2\n[tor]\ndhcp_server = \"10.1.1.9:67\"\n[[tor.host]]\nprincipal = 17\n\
             attach_key = \"{}\"\nport = \"p1\"\naddress = \"10.1.1.2\"\n",
            text("key"),
            text("socket"),
            self.pins(),
            "01".repeat(32),
        );
        fs::write(self.path("agent.toml"), configuration).expect("written");
        let log = fs::File::create(self.path("log")).expect("a file");
        let mut command = self.command(0, env!("CARGO_BIN_EXE_weft-agent"));
        command.args(["run", "--config", &text("agent.toml")]).stdout(log.try_clone().expect("a file")).stderr(log);
        let agent = command.stdin(Stdio::null()).spawn().expect("it runs");
        until("it is ready", || fs::read_to_string(self.path("log")).unwrap_or_default().contains("READY"));
        agent
    }

    fn status(&self) -> Value {
        let socket = self.path("socket").display().to_string();
        let output = Command::new(env!("CARGO_BIN_EXE_weft-agent")).args(["status", "--json", "--socket", &socket]).output();
        serde_json::from_slice(&output.expect("it runs").stdout).expect("JSON")
    }

    /// The anycast addresses on `lo`, by their last byte.
    fn held(&self) -> Vec<String> {
        let text = self.shell(0, "ip -br -4 addr show lo");
        text.split_ascii_whitespace().filter_map(|word| word.strip_prefix("100.127.0.")).map(str::to_owned).collect()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        for name in self.names.iter().filter(|name| !name.is_empty()) {
            run("ip", &["netns", "del", name]);
        }
    }
}

fn run(program: &str, arguments: &[&str]) -> bool {
    Command::new(program).args(arguments).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) -> Duration {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(20), "not within 20 s: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
    begun.elapsed()
}

#[test]
fn timing_addresses_follow_routes_and_dhcp_is_carried() {
    let Some(place) = Place::make() else { return };
    place.shell(0, "ip route add 10.0.0.2/32 dev p0; ip route add 10.0.0.3/32 dev p0");
    let mut agent = place.agent();
    assert_eq!(place.held(), ["1/32"], "its home group: the first of 1, 2, 3 and 1 again");
    dhcp(&place);
    // What a switch may borrow it borrows only once it has looked around for a while.
    std::thread::sleep(Duration::from_millis(5500));
    assert_eq!(place.held(), ["1/32"]);
    // The third switch takes the place of the second; without it this one serves both groups.
    place.shell(0, "ip route del 10.0.0.2/32");
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(place.held(), ["1/32"]);
    place.shell(0, "ip route del 10.0.0.3/32");
    let took = until("it serves the group that has lost its last", || place.held() == ["1/32", "2/32"]);
    eprintln!("a group was taken over {took:?} after the route was gone");
    assert!(took < Duration::from_secs(1), "{took:?}");
    let status = place.status();
    assert_eq!((&status["verdict"], &status["groups"][1]["served"]), (&Value::from("ok"), &Value::from(true)), "{status}");
    until("its metrics say so", || metrics(&place).lines().any(|line| line == "weft_agent_groups_served 2"));
    let scraped = metrics(&place);
    for line in [
        "weft_agent_groups 2",
        "weft_agent_groups_dead 0",
        "weft_agent_addresses 0",
        "weft_agent_packets_total{reason=\"stripped_tor\"} 0",
    ] {
        assert!(scraped.lines().any(|it| it == line), "{line}: {scraped}");
    }
    assert!(
        scraped.contains("weft_agent_dhcp_total{kind=")
            && scraped.contains("weft_agent_attach_messages_total{outcome=\"attached\"} 0"),
        "{scraped}"
    );
    reload(&place, &agent);
    place.shell(0, "ip route add 10.0.0.2/32 dev p0");
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(place.held(), ["1/32", "2/32"], "until the other one announces it");
    until("it gives the group back", || place.held() == ["1/32"]);
    // The child is nsenter, which has become the agent.
    assert!(run("kill", &["-TERM", &agent.id().to_string()]));
    assert!(agent.wait().expect("it ends").success());
    assert!(place.held().is_empty() && !Path::new(&place.pins()).exists(), "nothing is left");
}

/// The agent reloads its file: what cannot change is refused, what can is applied, and all goes on.
fn reload(place: &Place, agent: &Child) {
    let file = fs::read_to_string(place.path("agent.toml")).expect("its configuration");
    let reload = |text: &str, what: &str| {
        fs::write(place.path("agent.toml"), text).expect("written");
        assert!(run("kill", &["-HUP", &agent.id().to_string()]));
        until(what, || fs::read_to_string(place.path("log")).unwrap_or_default().contains(what));
    };
    reload(&file.replace("la = \"10.0.0.1\"", "la = \"10.0.0.2\""), "`la` cannot change while the agent runs");
    reload("role = \"host\"", "configuration not reloaded");
    reload(
        &file.replace("principal = 17", "principal = 18").replace("\"p1\"\naddress", "\"p0\"\naddress"),
        "configuration reloaded",
    );
    assert_eq!((place.held(), &place.status()["verdict"]), (vec!["1/32".to_owned(), "2/32".to_owned()], &Value::from("ok")));
}

/// What the agent serves at its address for metrics.
fn metrics(place: &Place) -> String {
    within(&place.names[0], || {
        let mut stream = std::net::TcpStream::connect("127.0.0.1:9304").expect("the usual address");
        stream.write_all(b"GET /metrics HTTP/1.0\r\nHost: localhost\r\n\r\n").expect("asked");
        let mut text = String::new();
        stream.read_to_string(&mut text).expect("an answer");
        text
    })
}

/// A host without an address asks for one.
fn dhcp(place: &Place) {
    let zero = std::net::Ipv4Addr::UNSPECIFIED;
    let mut ask = Message::new_with_id(77, zero, zero, zero, zero, &[2, 0, 0, 0, 0, 5]);
    ask.opts_mut().insert(DhcpOption::MessageType(MessageType::Discover));
    let asked = ask.to_vec().expect("a message");
    let [_, host, server] = &place.names;
    std::thread::scope(|scope| {
        let at_server = within(server, || std::net::UdpSocket::bind("10.1.1.9:67").expect("a port"));
        let at_host = within(host, || {
            // The kernel takes no broadcast without an address for its source; any will do.
            assert!(
                run("ip", &["addr", "add", "192.0.2.1/32", "dev", "eth0"])
                    && run("ip", &["route", "add", "default", "dev", "eth0"])
            );
            let socket = std::net::UdpSocket::bind("0.0.0.0:68").expect("a port");
            socket.set_broadcast(true).expect("a setting");
            socket
        });
        for socket in [&at_server, &at_host] {
            socket.set_read_timeout(Some(Duration::from_secs(5))).expect("a timeout");
        }
        scope.spawn(move || {
            let mut buffer = [0; 2000];
            let (length, relay) = at_server.recv_from(&mut buffer).expect("the request");
            let mut message = Message::from_bytes(&buffer[..length]).expect("DHCP");
            assert_eq!((message.giaddr().octets(), message.hops()), ([10, 0, 0, 1], 1));
            message.set_opcode(Opcode::BootReply).set_yiaddr([20, 0, 0, 5]);
            at_server.send_to(&message.to_vec().expect("a message"), relay).expect("sent");
        });
        at_host.send_to(&asked, "255.255.255.255:67").expect("sent");
        let mut buffer = [0; 2000];
        let length = at_host.recv(&mut buffer).expect("the answer");
        let answer = Message::from_bytes(&buffer[..length]).expect("DHCP");
        assert_eq!((answer.xid(), answer.yiaddr().octets()), (77, [20, 0, 0, 5]));
    });
}

/// Does something in a namespace, on a thread of its own.
fn within<T: Send>(namespace: &str, work: impl FnOnce() -> T + Send) -> T {
    let file = fs::File::open(format!("/run/netns/{namespace}")).expect("a namespace");
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            setns(&file, CloneFlags::CLONE_NEWNET).unwrap();
            work()
        });
        thread.join().expect("it ends")
    })
}
