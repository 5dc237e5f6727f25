//! The daemon's life, and the commands that talk to it.

#![allow(clippy::disallowed_methods)] // Processes live by the wall clock.

mod support;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

use support::switch::{Counters, Kind, Switch};
use support::{CONFIG, DATAPATHS, Scheduler};
use weft_control::openflow::{FlowMod, Version};

#[test]
fn it_waits_for_the_switches_and_is_ok_with_all_of_them() {
    let scheduler = Scheduler::start();
    let (status, code) = scheduler.status();
    assert_eq!((status["verdict"].as_str(), status["ready"].as_bool(), code), (Some("waiting"), Some(false), 1), "{status:#}");
    assert_eq!(status["problems"][0], "not connected: tor0, tor1, agg0, agg1");
    let mut switches = Switch::all(&scheduler);
    let status = scheduler.wait_for("all are ready", |status| status["verdict"] == "ok");
    assert_eq!((status["ready"].as_bool(), status["installed"].as_u64()), (Some(true), Some(4)), "{status:#}");
    assert_eq!(status["sessions"][3]["datapath"], "0000000000000004");
    let text = scheduler.command_output(&["status"]);
    assert_eq!(text.code, Some(0), "{text:?}");
    assert!(text.stdout.starts_with("ok: 4 of 4 switches connected, 4 have their rules; 0 flows placed"), "{text:?}");
    assert!(switches.iter().all(|switch| !switch.rules().is_empty()));

    drop(switches.pop());
    let status = scheduler.wait_for("one has gone", |status| status["connected"] == 3);
    assert_eq!((status["verdict"].as_str(), status["problems"][0].as_str()), (Some("waiting"), Some("not connected: agg1")));
    assert_eq!(scheduler.command_output(&["status"]).code, Some(1));
}

#[test]
fn a_large_flow_is_placed_and_explained() {
    let scheduler = Scheduler::start();
    let counted = Kind { counters: Counters::Large, ..Kind::of(1) };
    let tor0 = Switch::connect(&scheduler, counted);
    let others: Vec<Switch> = DATAPATHS[1..].iter().map(|&datapath| Switch::connect(&scheduler, Kind::of(datapath))).collect();
    scheduler.wait_for("the flow is placed", |status| status["verdict"] == "ok" && status["placements"] == 1);
    let placements = scheduler.command_output(&["placements"]);
    assert_eq!(placements.code, Some(0), "{placements:?}");
    let aggregation = ["agg0", "agg1"].into_iter().find(|agg| placements.stdout.contains(agg)).unwrap();
    assert_eq!(placements.stdout, format!("web-1:5000-db-1:80  tor0 {aggregation} tor1\n"));
    let is_placed = |rule: &FlowMod| rule.priority > 32 && rule.idle_timeout > 0;
    assert!(tor0.rules().iter().any(is_placed), "{:?}", tor0.rules());
    assert!(others.iter().all(|switch| !switch.rules().iter().any(is_placed)));

    let placed = scheduler.command_output(&["explain", "web-1:5000-db-1:80"]);
    assert_eq!(placed.code, Some(0), "{placed:?}");
    assert!(placed.stdout.starts_with("web-1:5000-db-1:80: placed\n"), "{placed:?}");
    assert!(placed.stdout.contains(" Mbit/s on average, "), "{placed:?}");
    let hashed = scheduler.command_output(&["explain", "web-1:5001-db-2:80"]);
    assert_eq!(hashed.stdout, "web-1:5001-db-2:80: hashed\n  tor0 chooses by hash among ports [3,4]\n");
    for (flow, reason) in [
        ("web-1", "`web-1` is no flow"),
        ("", "`` is no flow"),
        ("web-1:5000-db-1", "`web-1:5000-db-1` is no flow"),
        ("web-1:5000-db-9:80", "the fabric has no host `db-9`"),
        ("web-9:5000-db-1:80", "the fabric has no host `web-9`"),
        ("web-1:5000-tor0:80", "the fabric has no host `tor0`"),
        ("web-1:65536-db-1:80", "`web-1:65536-db-1:80` is no flow"),
        ("web-1:5000-db-1:", "`web-1:5000-db-1:` is no flow"),
    ] {
        let answer = scheduler.command_output(&["explain", flow]);
        assert_eq!(answer.code, Some(2), "{answer:?}");
        assert!(answer.stderr.contains(reason) && answer.stderr.contains("help: "), "{reason}: {answer:?}");
    }
}

#[test]
fn a_flow_that_was_placed_before_it_started_keeps_its_path() {
    let scheduler = Scheduler::start();
    // By agg1: with an empty memory it would be by agg0, which comes first.
    let tor0 = Switch::connect(&scheduler, Kind { counters: Counters::Large, placed: Some(4), ..Kind::of(1) });
    let _others: Vec<Switch> = DATAPATHS[1..].iter().map(|&datapath| Switch::connect(&scheduler, Kind::of(datapath))).collect();
    let status = scheduler.wait_for("rounds go on", |status| status["rounds"].as_u64() > Some(20) && status["verdict"] == "ok");
    assert_eq!((status["placements"].as_u64(), status["moves"].as_u64()), (Some(1), Some(0)), "{status:#}");
    assert_eq!(scheduler.command_output(&["placements"]).stdout, "web-1:5000-db-1:80  tor0 agg1 tor1\n");
    assert!(!tor0.rules().iter().any(|rule| rule.priority == 100), "no rule of a placed flow is sent");
}

#[test]
fn a_signal_ends_it_and_removes_its_sockets() {
    for signal in ["TERM", "INT"] {
        let mut scheduler = Scheduler::start();
        let switches = Switch::all(&scheduler);
        scheduler.wait_for("all are ready", |status| status["ready"] == true);
        assert_eq!(scheduler.sockets(), ["scheduler.sock", "switches.sock"]);
        assert_eq!(scheduler.signal(signal), Some(0));
        assert_eq!(scheduler.sockets(), [""; 0]);
        switches.iter().for_each(Switch::wait_until_closed);
        let answer = scheduler.command_output(&["status"]);
        assert_eq!(answer.code, Some(2));
        assert!(answer.stderr.contains("no daemon at") && answer.stderr.contains("is it running?"), "{answer:?}");
    }
}

#[test]
fn a_killed_ones_sockets_are_taken_over() {
    let mut scheduler = Scheduler::start();
    assert_eq!(scheduler.signal("KILL"), None);
    assert_eq!(scheduler.sockets(), ["scheduler.sock", "switches.sock"]);
    scheduler.run();
    let _switches = Switch::all(&scheduler);
    scheduler.wait_for("all are ready", |status| status["verdict"] == "ok");
}

#[test]
fn a_second_one_is_refused_and_the_first_goes_on() {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let mut scheduler = Scheduler::with(&CONFIG.replace("\"off\"", &format!("\"127.0.0.1:{port}\"")));
    scheduler.run();
    let _switches = Switch::all(&scheduler);
    let refused = |scheduler: &Scheduler, reason: &str| {
        let answer = scheduler.command_output(&["run"]);
        assert_eq!(answer.code, Some(2), "{answer:?}");
        let text = answer.stderr.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(text.contains(reason) && text.contains("help: "), "{reason}: {answer:?}");
    };
    refused(&scheduler, "a scheduler is running already");
    scheduler.wait_for("the first goes on", |status| status["verdict"] == "ok");
    // With another socket, the metrics' address is in the way; it leaves no socket behind.
    let other = Scheduler::with(&CONFIG.replace("\"off\"", &format!("\"127.0.0.1:{port}\"")));
    refused(&other, "the metrics' address");
    assert_eq!(other.sockets(), [""; 0]);

    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
    let mut metrics = String::new();
    stream.read_to_string(&mut metrics).unwrap();
    assert!(metrics.contains("weft_scheduler_switches_connected"), "{metrics}");
}

#[test]
fn a_file_that_is_no_socket_is_left_alone() {
    let scheduler = Scheduler::with(CONFIG);
    for name in ["switches.sock", "scheduler.sock"] {
        std::fs::write(scheduler.path(name), "precious").unwrap();
        let answer = scheduler.command_output(&["run"]);
        assert_eq!(answer.code, Some(2), "{answer:?}");
        assert!(answer.stderr.contains("is no socket"), "{answer:?}");
        assert_eq!(std::fs::read_to_string(scheduler.path(name)).unwrap(), "precious");
        assert_eq!(scheduler.sockets(), [name], "the other one is removed");
        std::fs::remove_file(scheduler.path(name)).unwrap();
    }
}

#[test]
fn what_is_no_request_is_answered_and_harms_nobody() {
    let scheduler = Scheduler::start();
    for (bytes, reason) in [
        (&b"what?\n"[..], "not a request: "),
        (b"", "not a request: "),
        (b"\xff\xfe\n", "not a request: "),
        (b"{\"command\":\"destroy\"}\n", "unknown variant `destroy`"),
        (b"{\"command\":\"explain\"}\n", "missing field `flow`"),
        (b"{\"command\":\"explain\",\"flow\":7}\n", "not a request: "),
        (&[b'['; 4000][..], "not a request: "),
        (&[b' '; 1 << 20][..], "a request has at most 4096 bytes"),
    ] {
        let answer = scheduler.ask(bytes);
        assert!(answer.contains(reason) && answer.contains("\"help\""), "{reason}: {answer}");
        assert_eq!(answer.matches('\n').count(), 1, "{answer}");
    }
    assert!(scheduler.ask(b"{\"command\":\"status\"}").starts_with("{\"ok\":{"));
    // One that does nothing is in nobody's way.
    let _quiet = std::os::unix::net::UnixStream::connect(scheduler.path("scheduler.sock")).unwrap();
    assert_eq!(scheduler.status().1, 1);
}

#[test]
fn openflow_1_3_is_spoken_and_polarisation_reported() {
    let scheduler = Scheduler::start();
    let old = |datapath| Switch::connect(&scheduler, Kind { version: Version::V13, ..Kind::of(datapath) });
    let _switches: Vec<Switch> = DATAPATHS.into_iter().map(old).collect();
    let status = scheduler.wait_for("all are ready", |status| status["ready"] == true);
    assert_eq!(status["verdict"], "degraded", "{status:#}");
    let problem = "OpenFlow 1.3 cannot set the hash of groups, so traffic may polarise: tor0, tor1";
    assert_eq!(status["problems"], serde_json::json!([problem]));
}
