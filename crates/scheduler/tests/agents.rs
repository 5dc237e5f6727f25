//! The scheduler of VL2's agents: reports over UDP, status, placements, wrong keys, wrong configurations.

#![allow(clippy::disallowed_methods)] // Processes live by the wall clock.

mod support;

use std::fmt::Write as _;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};

use support::Scheduler;
use support::etcd::Etcd;
use weft_control::directory::PrincipalId;
use weft_control::directory::auth::Secret;
use weft_control::time::{Duration, Instant};
use weft_control::vl2::placement::{HostConfig, HostInput, HostOutput, Placement, PlacementHost, SentBytes};
use weft_control::wire::packet::ip::Flow;
use weft_control::wire::vl2::placement::PlacementKey;

const HOSTS: [&str; 4] = ["web-1", "web-2", "db-1", "db-2"];

fn key(host: u32) -> PlacementKey {
    PlacementKey::of(&Secret::new([3; 32]).key_of(PrincipalId(host + 1)))
}

fn aa(host: u32) -> Ipv4Addr {
    Ipv4Addr::new(20, 0, 0, host as u8 + 1)
}

fn config(port: u16) -> String {
    let mut text = format!(
        "fabric = \"fabric.weft\"\nsocket = \"scheduler.sock\"\nmetrics = \"off\"\n[scheduler]\nkind = \"first-fit\"\nperiod = \"100ms\"\n\
         [agents]\nlisten = \"127.0.0.1:{port}\"\n[agents.intermediates]\nagg0 = \"10.0.0.1\"\nagg1 = \"10.0.0.2\"\n"
    );
    for (host, name) in (0..).zip(HOSTS) {
        let _ = write!(
            text,
            "[[agents.host]]\nname = \"{name}\"\nprincipal = {}\nplacement_key = \"{}\"\naddresses = [\"{}\"]\n",
            host + 1,
            key(host).to_hex(),
            aa(host)
        );
    }
    text
}

/// An agent without a data plane.
struct Agent {
    machine: PlacementHost,
    socket: UdpSocket,
    start: std::time::Instant,
    placed: Vec<(Flow, Placement)>,
}

impl Agent {
    fn new(host: u32, key: PlacementKey, schedulers: &[SocketAddr]) -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_nonblocking(true).unwrap();
        let config = HostConfig { principal: PrincipalId(host + 1), key, schedulers: schedulers.to_vec(), sequence: 1 };
        Self { machine: PlacementHost::new(config, Instant::ZERO), socket, start: std::time::Instant::now(), placed: Vec::new() }
    }

    fn step(&mut self, input: Option<HostInput<'_>>) {
        let age = Duration::from_ns(self.start.elapsed().as_nanos() as u64);
        let now = Instant::ZERO + age;
        self.machine.handle(now, input.unwrap_or(HostInput::Timer));
        let mut buffer = [0; 2048];
        while let Ok((length, _)) = self.socket.recv_from(&mut buffer) {
            self.machine.handle(now, HostInput::Datagram(&buffer[..length]));
        }
        while let Some(output) = self.machine.poll() {
            match output {
                HostOutput::Read => {
                    let sent = SentBytes { bytes: 100_000 + age.as_ns() / 20, age, idle: Duration::ZERO };
                    let counts: Vec<(Flow, SentBytes)> = self.machine.flows().map(|(flow, _)| (flow, sent)).collect();
                    self.machine.handle(now, HostInput::Counts(&counts));
                }
                HostOutput::Send(to, bytes) => drop(self.socket.send_to(&bytes, to)),
                HostOutput::Place(flow, placement) => self.placed.push((flow, placement)),
                HostOutput::Remove(_) | HostOutput::Forget(_) | HostOutput::Probe(_) => {}
            }
        }
    }
}

fn flow(src: u32, dst: u32) -> Flow {
    Flow { source: aa(src).into(), destination: aa(dst).into(), protocol: 6, source_port: 5000, destination_port: 80 }
}

fn started() -> (Scheduler, SocketAddr) {
    started_with("")
}

/// With another table in its configuration.
fn started_with(table: &str) -> (Scheduler, SocketAddr) {
    let port = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let mut scheduler = Scheduler::with(&config(port).replacen("[scheduler]", &format!("{table}[scheduler]"), 1));
    scheduler.run();
    (scheduler, SocketAddr::from(([127, 0, 0, 1], port)))
}

/// Steps the agents until a status is as it should be.
fn step_until(
    agents: &mut [Agent],
    scheduler: &Scheduler,
    what: &str,
    is: impl Fn(&serde_json::Value) -> bool,
) -> serde_json::Value {
    let start = std::time::Instant::now();
    loop {
        agents.iter_mut().for_each(|agent| agent.step(None));
        std::thread::sleep(std::time::Duration::from_millis(5));
        let (status, _) = scheduler.status();
        if is(&status) {
            return status;
        }
        assert!(start.elapsed() < support::TIMEOUT, "{what}: {status:#} {}", scheduler.log());
    }
}

#[test]
fn elephants_of_agents_are_placed_apart() {
    let (scheduler, address) = started();
    let (status, code) = scheduler.status();
    assert_eq!((status["verdict"].as_str(), code), (Some("waiting"), 1), "{status:#}");
    assert_eq!(status["problems"][0], "no reports of the agents of web-1, web-2, db-1, db-2");
    let mut agents: Vec<Agent> = (0..4).map(|host| Agent::new(host, key(host), &[address])).collect();
    agents[0].step(Some(HostInput::Elephant(flow(0, 2))));
    agents[1].step(Some(HostInput::Elephant(flow(1, 3))));
    let start = std::time::Instant::now();
    let status = loop {
        agents.iter_mut().for_each(|agent| agent.step(None));
        std::thread::sleep(std::time::Duration::from_millis(5));
        if agents[..2].iter().all(|agent| !agent.placed.is_empty()) {
            let (status, _) = scheduler.status();
            if status["in_force"] == 2 && status["loops"].as_u64() > Some(0) {
                break status;
            }
        }
        assert!(start.elapsed() < support::TIMEOUT, "{:#} {}", scheduler.status().0, scheduler.log());
    };
    assert_eq!((status["verdict"].as_str(), status["reporting"].as_u64()), (Some("ok"), Some(4)), "{status:#}");
    let over: Vec<Ipv4Addr> = agents[..2].iter().map(|agent| agent.placed.last().unwrap().1.intermediate).collect();
    assert_ne!(over[0], over[1]);
    let placements = scheduler.command_output(&["placements"]).stdout;
    assert!(placements.contains("web-1:5000-db-1:80  tor0 agg"), "{placements}");
    let explained = scheduler.command_output(&["explain", "web-1:5000-db-1:80"]).stdout;
    assert!(explained.starts_with("web-1:5000-db-1:80: placed\n"), "{explained}");
    let text = scheduler.command_output(&["status"]).stdout;
    assert!(text.contains("control loop: "), "{text}");
}

/// The leader is killed: the standby learns what is placed from the agents, changes none of it, and places what is new.
#[test]
fn a_standby_takes_over_what_agents_have_placed() {
    let Some(etcd) = Etcd::start() else { return };
    let standby = |name: &str| format!("[standby]\netcd = [\"{}\"]\nname = \"{name}\"\n", etcd.url());
    let (mut a, first) = started_with(&standby("a"));
    a.wait_for("a leads", |status| status["verdict"] == "waiting");
    let (b, second) = started_with(&standby("b"));
    b.wait_for("b is a standby", |status| status["leader"] == "a" && status["verdict"] == "standby");
    let mut agents: Vec<Agent> = (0..4).map(|host| Agent::new(host, key(host), &[first, second])).collect();
    agents[0].step(Some(HostInput::Elephant(flow(0, 2))));
    step_until(&mut agents, &a, "a places it", |status| status["in_force"] == 1 && status["verdict"] == "ok");
    let placed = agents[0].placed.clone();
    let (status, code) = b.status();
    assert_eq!((status["reporting"].as_u64(), status["placements"].as_u64(), code), (Some(0), Some(0), 0), "{status:#}");
    a.signal("KILL");
    let killed = std::time::Instant::now();
    let status = step_until(&mut agents, &b, "b learns it", |status| status["in_force"] == 1);
    let took = killed.elapsed();
    assert!((1.0..7.0).contains(&took.as_secs_f64()), "{took:?} with a lease of 3 s");
    assert_eq!((&status["verdict"], &status["leader"]), (&"ok".into(), &serde_json::Value::Null), "{status:#}");
    assert_eq!(agents[0].placed, placed, "it stays where it is");
    agents[1].step(Some(HostInput::Elephant(flow(1, 3))));
    step_until(&mut agents, &b, "b places another", |status| status["in_force"] == 2);
    // The old leader is a standby from then on, and disturbs nobody.
    a.run();
    step_until(&mut agents, &a, "a is the standby", |status| status["leader"] == "b");
    let status = step_until(&mut agents, &b, "b leads on", |status| status["in_force"] == 2);
    assert_eq!(status["verdict"], "ok", "{status:#}");
    assert_eq!(agents[0].placed, placed);
}

#[test]
fn reports_with_another_key_are_counted_and_named() {
    let (scheduler, address) = started();
    let mut agent = Agent::new(0, key(7), &[address]);
    agent.step(Some(HostInput::Elephant(flow(0, 2))));
    UdpSocket::bind("127.0.0.1:0").unwrap().send_to(b"WP?", address).unwrap();
    let status = scheduler.wait_for("they are counted", |status| {
        status["dropped"]["wrong_tag"].as_u64() > Some(0) && status["dropped"]["malformed"] == 1
    });
    let named = |problem: &serde_json::Value| problem.as_str().is_some_and(|it| it.contains("is `placement_key` right?"));
    assert!(status["problems"].as_array().unwrap().iter().any(named), "{status:#}");
    assert_eq!(status["counted_flows"], 0);
}

#[test]
fn wrong_configurations_are_named_with_their_line() {
    let right = config(5305);
    let hex = key(0).to_hex();
    for (from, to, reason) in [
        ("metrics = \"off\"", "metrics = \"off\"\nlisten = [\"tcp:127.0.0.1:1\"]", "`listen` is of OpenFlow switches"),
        ("metrics = \"off\"", "metrics = \"off\"\nhost = []", "`host` is of OpenFlow switches"),
        (hex.as_str(), "00", "a placement key is 64 hexadecimal digits"),
        ("principal = 2", "principal = 1", "the hosts `web-1` and `web-2` have the same principal 1"),
        ("principal = 2", "principal = 0", "principals begin at 1"),
        ("20.0.0.2", "20.0.0.1", "have the same address 20.0.0.1"),
        ("agg1 = \"10.0.0.2\"", "agg1 = \"10.0.0.1\"", "have the same locator 10.0.0.1"),
        ("agg1 =", "agg9 =", "the fabric has no `agg9`"),
        ("agg1 =", "web-1 =", "this is a host of the fabric"),
        ("name = \"db-2\"", "name = \"agg1\"", "this is a switch of the fabric"),
        ("name = \"db-2\"", "name = \"db-1\"", "the host is there twice"),
        ("listen = \"127.0.0.1:5305\"", "listen = \"127.0.0.1:0\"", "no port"),
        ("period = \"100ms\"", "period = \"0s\"", "period"),
    ] {
        assert!(right.contains(from), "{from}");
        let scheduler = Scheduler::with(&right.replacen(from, to, 1));
        let answer = scheduler.command_output(&["run", "--check"]);
        assert_eq!(answer.code, Some(2), "{to}: {answer:?}");
        // Long lines are broken.
        let text = answer.stderr.replace("  │ ", "").split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(text.contains(reason) && text.contains("help:"), "{to}: {answer:?}");
    }
    assert_eq!(Scheduler::with(&right).command_output(&["run", "--check"]).code, Some(0));
}
