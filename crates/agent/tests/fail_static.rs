//! What agents survive: a clock that is set back, programs and entries that somebody removes from the kernel, a ToR's agent that starts while the directory is
//! away; and what a host survives whose agent does not. Real agents, in namespaces. Needs root.

#![allow(clippy::disallowed_methods)] // Processes live by the wall clock.

mod support;

use nix::sys::signal::Signal;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddrV4, TcpListener, TcpStream};
use std::process::Stdio;
use std::time::{Duration, Instant};

use libbpf_rs::{MapCore as _, MapHandle};
use serde_json::Value;
use support::fabric::{HOSTS, Host, Network, TIMEOUT};

const A: Host = HOSTS[0];
const B: Host = HOSTS[1];
const WITH_TOR: &str = "tor = \"10.1.1.1:5304\"\nattach_refresh = \"1s\"\non_exit = \"keep\"";

/// Two hosts with their agents, and the agent of the first one's ToR.
fn network(name: &str, forget_after: &str) -> Option<Network> {
    let mut network = Network::new(name)?;
    network.start_switches();
    network.start_directory(&["--policy", "open", "--provisioner", "7", "--provisioner", "41"]);
    network.provision([1, 1, 1], true, 1);
    network.start_tor("tor1", forget_after);
    network.start_agent(B, "on_exit = \"keep\"");
    network.wait_status(B, "its address is confirmed", is_attached);
    Some(network)
}

fn is_attached(status: &Value) -> bool {
    status["addresses"][0]["attached"] == true
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) -> Duration {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < TIMEOUT, "not within {TIMEOUT:?}: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
    begun.elapsed()
}

/// A connection from the first host to the second, whose bytes come back.
struct Echo(TcpStream);

impl Echo {
    fn open(network: &Network, port: u16) -> Self {
        let at = SocketAddrV4::new(B.aa(), port);
        let listener = network.within(B.name, || TcpListener::bind(at).unwrap());
        std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut byte = [0];
            while stream.read_exact(&mut byte).is_ok() && stream.write_all(&byte).is_ok() {}
        });
        let stream = network.within(A.name, || TcpStream::connect_timeout(&at.into(), TIMEOUT).unwrap());
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        Self(stream)
    }

    /// How long a byte takes there and back.
    fn round(&mut self) -> Duration {
        let begun = Instant::now();
        self.0.write_all(&[1]).unwrap();
        self.0.read_exact(&mut [0]).unwrap();
        begun.elapsed()
    }
}

/// The agent ran on a clock that was an hour ahead. With the right time it would be refused for an hour.
#[test]
fn a_host_whose_clock_is_set_back_is_not_refused() {
    let Some(mut network) = network("clock", "90s") else { return };
    network.set_clock(3600);
    network.start_agent(A, WITH_TOR);
    network.wait_status(A, "it is attached", is_attached);
    let mut echo = Echo::open(&network, 7100);
    echo.round();
    network.kill(A.name);
    network.set_clock(0);
    network.start_agent(A, WITH_TOR);
    let begun = Instant::now();
    network.wait_status(A, "it is attached again", |status| is_attached(status) && status["problems"] == serde_json::json!([]));
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    assert!(network.log(A.name).contains("the clock was set back"), "{}", network.log(A.name));
    // The clock steps while the agent runs, and its configuration is reloaded: another machine takes the place of the first one.
    for step in [-7200, 1800, -30] {
        network.set_clock(step);
        network.signal(A.name, Signal::SIGHUP);
        let attached = network.switch_status("tor1")["attach"]["attached"].as_u64().unwrap();
        until("it attaches on", || network.switch_status("tor1")["attach"]["attached"].as_u64().unwrap() > attached + 1);
        assert!(is_attached(&network.status(A)), "{step}");
        assert!(echo.round() < Duration::from_secs(1));
    }
    assert_eq!(network.switch_status("tor1")["local"].as_array().unwrap().len(), 1);
    assert!(!network.log(A.name).contains("refused"), "{}", network.log(A.name));
}

/// Of a host and of a ToR.
#[test]
fn what_is_removed_from_the_kernel_is_put_back() {
    let Some(mut network) = network("put", "90s") else { return };
    network.start_agent(A, &format!("{WITH_TOR}\nmetrics = \"127.0.0.1:9304\""));
    network.wait_status(A, "it is attached", is_attached);
    let mut echo = Echo::open(&network, 7110);
    echo.round();
    assert_eq!(network.status(A)["restored"]["total"], 0);
    let remove = |network: &Network, node: &str, device: &str| {
        let done = network.command(node, "tc").args(["qdisc", "del", "dev", device, "clsact"]).stdin(Stdio::null()).status();
        assert!(done.unwrap().success());
    };
    remove(&network, A.name, "eth0");
    eprintln!("qdisc of the host removed: {:?}", echo.round());
    let status = network.wait_status(A, "both programs are back", |status| status["restored"]["total"] == 2);
    assert!(status["problems"][0].as_str().unwrap().contains("put back") && status["verdict"] == "not ok", "{status:#}");
    assert!(network.log(A.name).contains("put back into the kernel: the program vl2_in on ingress of eth0"));
    // Entries and pins.
    for (count, table) in [(3, "locals"), (4, "peers"), (5, "groups")] {
        let map = MapHandle::from_pinned_path(network.pins(A.name).join(table)).unwrap();
        let keys: Vec<Vec<u8>> = map.keys().collect();
        assert!(!keys.is_empty(), "{table}");
        keys.iter().for_each(|key| map.delete(key).unwrap());
        let took = until(table, || network.status(A)["restored"]["total"].as_u64().unwrap() >= count);
        eprintln!("{table} emptied: put back after {took:?}, an answer after {:?}", echo.round());
    }
    let pins: Vec<_> = ["peers", "vl2_in"].map(|name| network.pins(A.name).join(name)).into();
    pins.iter().for_each(|pin| std::fs::remove_file(pin).unwrap());
    until("the pins are back", || pins.iter().all(|pin| pin.exists()));
    let metrics = network.within(A.name, || {
        let mut stream = TcpStream::connect("127.0.0.1:9304").unwrap();
        stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text
    });
    assert!(metrics.contains("weft_agent_restored_total{what=\"program\"} 2"), "{metrics}");
    // What is pinned is what is in use: the next agent adopts it.
    network.kill(A.name);
    network.start_agent(A, WITH_TOR);
    assert_eq!(network.status(A)["adopted"], true);
    assert!(echo.round() < Duration::from_secs(1));
    // The ToR.
    remove(&network, "tor1", "p0");
    until("it is back on the ToR's port", || network.switch_status("tor1")["restored"]["total"] == 1);
    assert!(echo.round() < Duration::from_secs(8));
    assert!(network.log("tor1").contains("put back into the kernel: the program vl2_port on ingress of p0"));
}

/// Hosts speak to the ToR, and nobody can confirm that their addresses are theirs: those that were here stay.
#[test]
fn a_tor_that_starts_while_the_directory_is_away_forgets_nobody() {
    let Some(mut network) = network("away", "2s") else { return };
    network.start_agent(A, WITH_TOR);
    network.wait_status(A, "it is attached", is_attached);
    let mut echo = Echo::open(&network, 7120);
    echo.round();
    network.kill("directory");
    network.kill("tor1");
    network.start_tor("tor1", "2s");
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(7) {
        assert!(echo.round() < Duration::from_secs(1));
        std::thread::sleep(Duration::from_millis(50));
    }
    network.start_directory(&["--policy", "open", "--provisioner", "7", "--provisioner", "41"]);
    until("the address is attached", || network.switch_status("tor1")["local"].as_array().is_some_and(|all| all.len() == 1));
    assert!(echo.round() < Duration::from_secs(1));
}

/// The ToR asks the host's programs, as long as these run.
#[test]
fn a_host_whose_agent_is_dead_stays_attached() {
    let Some(mut network) = network("dead", "2s") else { return };
    network.start_agent(A, WITH_TOR);
    network.wait_status(A, "it is attached", is_attached);
    let mut echo = Echo::open(&network, 7130);
    echo.round();
    network.kill(A.name);
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(10) {
        assert!(echo.round() < Duration::from_secs(1));
        std::thread::sleep(Duration::from_millis(50));
    }
    let status = network.switch_status("tor1");
    assert!(status["attach"]["present"].as_u64().unwrap() >= 2 && status["attach"]["expired"] == 0, "{status:#}");
    assert!(status["problems"][0].as_str().unwrap().starts_with("the agent of host 1 does not speak"), "{status:#}");
    assert!(network.log("tor1").contains("WARN the agent of host 1 does not speak"), "{}", network.log("tor1"));
    network.start_agent(A, WITH_TOR);
    until("it speaks again", || network.switch_status("tor1")["problems"] == serde_json::json!([]));
    // Without its programs the host is forgotten, though its kernel would answer.
    network.kill(A.name);
    let done = network.command(A.name, "tc").args(["qdisc", "del", "dev", "eth0", "clsact"]).stdin(Stdio::null()).status();
    assert!(done.unwrap().success());
    until("it is forgotten", || network.switch_status("tor1")["local"] == serde_json::json!([]));
    network.start_agent(A, WITH_TOR);
    network.wait_status(A, "it is attached again", is_attached);
    assert!(echo.round() < Duration::from_secs(10));
}
