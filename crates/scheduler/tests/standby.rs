//! Two schedulers, one of which leads by a lease in etcd, over one real Open vSwitch. Skipped without etcd or Open vSwitch, unless `CI` is set.

#![allow(clippy::disallowed_methods)] // Processes live by the wall clock.

mod support;

use std::time::{Duration, Instant};

use serde_json::Value;
use support::etcd::Etcd;
use support::ovs::Vswitchd;
use support::{CONFIG, Scheduler, free_port};

/// `a` leads, `b` is its standby, and the switch has its rules.
struct World {
    a: Scheduler,
    b: Scheduler,
    switch: Vswitchd,
    etcd: Etcd,
}

fn start() -> Option<World> {
    let etcd = Etcd::start()?;
    let ports = [free_port(), free_port()];
    let scheduler = |name: &str, port: u16| {
        let standby = format!("[standby]\netcd = [\"{}\"]\nname = \"{name}\"\n[scheduler]", etcd.url());
        let listen = format!("\"tcp:127.0.0.1:{port}\"");
        let mut scheduler = Scheduler::with(&CONFIG.replace("\"unix:switches.sock\"", &listen).replace("[scheduler]", &standby));
        scheduler.run();
        scheduler
    };
    let a = scheduler("a", ports[0]);
    a.wait_for("a leads", leads);
    let b = scheduler("b", ports[1]);
    b.wait_for("b is a standby", |status| status["leader"] == "a");
    let controllers = ports.map(|port| format!("tcp:127.0.0.1:{port}")).join(" ");
    let switch = Vswitchd::start(&a.path("ovs"), "set bridge br0 other-config:disable-in-band=true", &controllers)?;
    a.wait_for("the switch has its rules", |status| status["installed"] == 1);
    b.wait_for("the switch is connected to the standby as well", |status| status["connected"] == 1);
    Some(World { a, b, switch, etcd })
}

fn leads(status: &Value) -> bool {
    status["verdict"] != "standby"
}

#[test]
fn a_standby_takes_over_from_a_leader_that_is_killed_or_ends() {
    let Some(World { mut a, mut b, switch, etcd: _etcd }) = start() else { return };
    let rules = switch.rules();
    assert!(rules.len() > 8, "{rules:#?}");
    let (status, code) = b.status();
    assert_eq!((status["verdict"].as_str(), status["problems"].as_array().map(Vec::len), code), (Some("standby"), Some(0), 0));
    a.signal("KILL");
    let killed = Instant::now();
    b.wait_for("b leads", |status| leads(status) && status["installed"] == 1);
    let took = killed.elapsed();
    assert!((Duration::from_secs(1)..Duration::from_secs(7)).contains(&took), "{took:?} with a lease of 3 s");
    assert_eq!(switch.rules(), rules, "it found them as they should be");
    a.run();
    a.wait_for("a is the standby", |status| status["leader"] == "b" && status["connected"] == 1);
    assert_eq!(b.signal("TERM"), Some(0));
    let ended = Instant::now();
    a.wait_for("a leads", |status| leads(status) && status["installed"] == 1);
    let gave = ended.elapsed();
    assert!(gave < Duration::from_secs(2), "{gave:?}: the lease was given back");
    assert_eq!(switch.rules(), rules);
    eprintln!("killed: {took:?}; ended: {gave:?}");
}

#[test]
fn a_leader_that_was_stopped_is_a_standby_when_it_goes_on() {
    let Some(World { a, b, switch, etcd: _etcd }) = start() else { return };
    let rules = switch.rules();
    a.send("STOP");
    b.wait_for("b leads", |status| leads(status) && status["installed"] == 1);
    a.send("CONT");
    a.wait_for("a is the standby", |status| status["leader"] == "b");
    std::thread::sleep(Duration::from_secs(4));
    let status = b.wait_for("b still leads", leads);
    assert_eq!(status["installed"], 1, "{status:#}");
    assert_eq!(a.status().0["leader"], "b");
    assert_eq!(switch.rules(), rules);
}

#[test]
fn without_etcd_nobody_leads_and_the_rules_stay() {
    let Some(World { a, b, switch, mut etcd }) = start() else { return };
    let rules = switch.rules();
    etcd.kill();
    let killed = Instant::now();
    a.wait_for("a steps down", |status| !leads(status));
    assert!(killed.elapsed() < Duration::from_secs(4), "{:?}", killed.elapsed());
    let status = b.wait_for("b knows", |status| status["problems"].as_array().is_some_and(|it| !it.is_empty()));
    let problem = status["problems"][0].as_str().unwrap_or_default();
    assert!(problem.starts_with("etcd does not answer"), "{problem}");
    assert_eq!((a.status().1, b.status().1), (1, 1));
    std::thread::sleep(Duration::from_secs(4));
    assert!(!leads(&a.status().0) && !leads(&b.status().0), "the lease may still be somebody's");
    assert_eq!(switch.rules(), rules);
    etcd.run();
    let start = Instant::now();
    while !leads(&a.status().0) && !leads(&b.status().0) {
        assert!(start.elapsed() < support::TIMEOUT, "nobody leads: {}", a.log());
        std::thread::sleep(Duration::from_millis(50));
    }
    let leader = if leads(&a.status().0) { &a } else { &b };
    leader.wait_for("it has its rules", |status| status["installed"] == 1);
    assert_eq!(switch.rules(), rules);
}
