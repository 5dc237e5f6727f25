//! Switches, and what is none, that misbehave: each costs itself alone.

#![allow(clippy::disallowed_methods)] // Processes live by the wall clock.

mod support;

use std::io::{Read, Write};
use std::time::{Duration, Instant};

use support::switch::{Counters, Kind, Switch, bytes, handshake, malformed_reply};
use support::{DATAPATHS, Scheduler};
use weft_control::openflow::{Body, Framer, Message, Version};

/// All are ready, with such a `tor0`.
fn with_tor0(kind: Kind) -> (Scheduler, Vec<Switch>) {
    let scheduler = Scheduler::start();
    let switches = DATAPATHS.iter().map(|&datapath| if datapath == 1 { kind } else { Kind::of(datapath) });
    let switches = switches.map(|kind| Switch::connect(&scheduler, kind)).collect();
    scheduler.wait_for("all are ready", |status| status["ready"] == true);
    (scheduler, switches)
}

/// Sends bytes on a connection of its own; returns what comes until the scheduler closes it.
fn exchange(scheduler: &Scheduler, bytes: &[u8]) -> Vec<u8> {
    let mut stream = scheduler.connect();
    let _ = stream.write_all(bytes);
    let mut answer = Vec::new();
    // It may be reset if it has more to say.
    if let Err(error) = stream.read_to_end(&mut answer) {
        assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
    }
    answer
}

#[test]
fn an_unknown_datapath_is_refused_and_reported() {
    let (scheduler, switches) = with_tor0(Kind::of(1));
    for times in 1..=2 {
        Switch::connect(&scheduler, Kind::of(0xbad)).wait_until_closed();
        let (status, code) = scheduler.status();
        let problem = format!("datapath 0000000000000bad is no switch of the fabric, and has connected {times} times");
        assert_eq!((status["verdict"].as_str(), code), (Some("degraded"), 1));
        assert_eq!(status["problems"], serde_json::json!([problem]));
    }
    // Any number of them.
    for datapath in 0x1000..0x1400 {
        exchange(&scheduler, &handshake(Kind::of(datapath)));
    }
    assert_eq!(scheduler.status().0["problems"].as_array().unwrap().len(), 8);
    assert!(switches.iter().all(|switch| !switch.is_closed()));
}

#[test]
fn openflow_1_0_is_refused_in_its_own_words() {
    let (scheduler, _switches) = with_tor0(Kind::of(1));
    let answer = exchange(&scheduler, &[1, 0, 0, 8, 0, 0, 0, 7]);
    let mut framer = Framer::new();
    framer.push(&answer);
    assert_eq!(framer.pop().unwrap().map(|hello| hello[1]), Some(0));
    let error = framer.pop().unwrap().unwrap();
    assert_eq!(error[..2], [1, 1], "an error in its version");
    let text = "the switch speaks OpenFlow 1.0 (wire version 1); Weft speaks 1.3 and 1.5";
    assert!(String::from_utf8_lossy(error).ends_with(text));
    scheduler.wait_for_log("OpenFlow 1.0");
    assert_eq!(scheduler.status().1, 0);
}

#[test]
fn what_is_not_openflow_is_closed() {
    let (scheduler, _switches) = with_tor0(Kind::of(1));
    exchange(&scheduler, &[4, 0, 0, 7, 0, 0, 0, 1]);
    scheduler.wait_for_log("bytes are not OpenFlow");
    // A features reply, and no hello.
    exchange(&scheduler, &handshake(Kind::of(1))[16..]);
    scheduler.wait_for_log("not a hello");
    // A hello, and features that are too short.
    exchange(&scheduler, &[&handshake(Kind::of(1))[..16], &[6, 6, 0, 9, 0, 0, 0, 2, 0]].concat());
    scheduler.wait_for_log("handshake cannot be read");
    // Zeros and ones.
    exchange(&scheduler, &vec![0; 1 << 20]);
    exchange(&scheduler, &vec![255; 1 << 20]);
    assert_eq!(scheduler.status().1, 0);
}

#[test]
fn one_that_says_nothing_or_too_little_is_closed_after_5_s() {
    let (scheduler, _switches) = with_tor0(Kind::of(1));
    let start = Instant::now();
    // `GET ` is the header of a message of 21,536 bytes.
    let parts = [&b""[..], b"GET / HTTP/1.1\r\n\r\n", &handshake(Kind::of(1))[..16]];
    std::thread::scope(|scope| {
        for part in parts {
            scope.spawn(|| exchange(&scheduler, part));
        }
    });
    let elapsed = start.elapsed();
    assert!(elapsed > Duration::from_millis(4900) && elapsed < Duration::from_secs(9), "{elapsed:?}");
    scheduler.wait_for_log("did not complete the handshake in 5 s");
    assert_eq!(scheduler.status().1, 0);
}

#[test]
fn malformed_messages_are_dropped_and_the_session_goes_on() {
    let (scheduler, switches) = with_tor0(Kind::of(1));
    let before = scheduler.log().len();
    for xid in 0..1024 {
        switches[0].send(&malformed_reply(Version::V15, xid, 13)).unwrap();
    }
    // A flow-removed, a port status and an error that are too short; one of 1.3; types that there are not.
    for kind in [11, 12, 1, 30, 255] {
        switches[0].send(&[6, kind, 0, 9, 0, 0, 0, 1, 0]).unwrap();
    }
    switches[0].send(&[4, 21, 0, 8, 0, 0, 0, 1]).unwrap();
    // The longest message there is.
    switches[0].send(&[&[6, 99, 255, 255, 0, 0, 0, 1], &vec![0; 65_527][..]].concat()).unwrap();
    switches[0].send(&bytes(Version::V15, 1, Body::BarrierReply)).unwrap();
    scheduler.wait_for_log("number=1024 ");
    std::thread::sleep(Duration::from_millis(300));
    assert!(!switches[0].is_closed());
    let lines = scheduler.log()[before..].lines().count();
    assert!(lines < 30, "{lines} lines in the log");
    assert_eq!(scheduler.status().0["connected"], 4);
}

#[test]
fn an_answer_that_cannot_be_read_is_none() {
    let (scheduler, _switches) = with_tor0(Kind { malformed_groups: true, counters: Counters::Malformed, ..Kind::of(1) });
    let status = scheduler.wait_for("rounds go on", |status| status["rounds"].as_u64() > Some(10));
    assert_eq!((status["verdict"].as_str(), status["late_rounds"].as_u64()), (Some("ok"), Some(0)), "{status:#}");
}

#[test]
fn one_that_never_answers_counters_delays_rounds_and_ends_none() {
    let (scheduler, switches) = with_tor0(Kind { counters: Counters::None, ..Kind::of(1) });
    let status = scheduler.wait_for("rounds go on", |status| status["rounds"].as_u64() > Some(2));
    assert!(status["late_rounds"].as_u64() > Some(1), "{status:#}");
    assert_eq!(status["verdict"], "ok", "{status:#}");
    assert!(!switches[0].is_closed());
}

#[test]
fn of_two_connections_of_a_switch_the_newer_wins() {
    let (scheduler, mut switches) = with_tor0(Kind::of(1));
    let newer = Switch::connect(&scheduler, Kind::of(1));
    switches[0].wait_until_closed();
    let status = scheduler.wait_for("it has its rules", |status| status["ready"] == true);
    assert_eq!((status["verdict"].as_str(), status["connected"].as_u64()), (Some("ok"), Some(4)), "{status:#}");
    // The end of the older one is not the end of the newer.
    drop(switches.remove(0));
    std::thread::sleep(Duration::from_millis(200));
    assert!(!newer.is_closed() && !newer.rules().is_empty());
    assert_eq!(scheduler.status().0["verdict"], "ok");
    // An auxiliary connection is none of a switch that connects again.
    Switch::connect(&scheduler, Kind { auxiliary: 1, ..Kind::of(1) }).wait_until_closed();
    assert!(!newer.is_closed());
    assert_eq!(scheduler.status().0["verdict"], "ok");
}

/// Sends echo requests and never reads the answers; returns how many bytes it could send until it was closed.
fn flood(scheduler: &Scheduler, first: &[u8]) -> usize {
    let mut stream = scheduler.connect();
    stream.write_all(first).unwrap();
    let echo = bytes(Version::V15, 9, Body::EchoRequest(vec![7; 60_000]));
    let start = Instant::now();
    let mut sent = 0;
    while stream.write_all(&echo).is_ok() {
        sent += echo.len();
        assert!(start.elapsed() < support::TIMEOUT, "it is never closed");
    }
    sent
}

#[test]
fn one_that_never_reads_is_closed_and_the_memory_freed() {
    let (scheduler, switches) = with_tor0(Kind::of(1));
    let before = scheduler.peak_memory();
    for _ in 0..8 {
        assert!(flood(&scheduler, &handshake(Kind::of(1))) > 16 << 20);
    }
    scheduler.wait_for_log("it does not read what it is sent");
    assert!(switches[0].is_closed(), "another one came in its place");
    assert!(switches[1..].iter().all(|switch| !switch.is_closed()));
    let more = scheduler.peak_memory() - before;
    assert!(more < 100, "{more} MiB more for eight connections of 16 MiB, one after the other");
    let _again = Switch::connect(&scheduler, Kind::of(1));
    scheduler.wait_for("all are ready", |status| status["verdict"] == "ok");
}

#[test]
fn who_has_not_said_which_switch_it_is_has_a_smaller_queue() {
    let (scheduler, switches) = with_tor0(Kind::of(1));
    let before = scheduler.peak_memory();
    // A hello alone: features are asked for, and echo requests answered.
    let hello = &handshake(Kind::of(1))[..16];
    std::thread::scope(|scope| {
        for _ in 0..20 {
            scope.spawn(|| flood(&scheduler, hello));
        }
    });
    let more = scheduler.peak_memory() - before;
    assert!(more < 50, "{more} MiB more for 20 connections");
    assert!(switches.iter().all(|switch| !switch.is_closed()));
    assert_eq!(scheduler.status().0["verdict"], "ok");
}

#[test]
fn a_message_in_many_parts_is_one() {
    let scheduler = Scheduler::start();
    let mut stream = scheduler.connect();
    for byte in handshake(Kind::of(1)) {
        stream.write_all(&[byte]).unwrap();
    }
    scheduler.wait_for("it is connected", |status| status["connected"] == 1);
    let mut buffer = vec![0; 64 << 10];
    let length = stream.read(&mut buffer).unwrap();
    let mut framer = Framer::new();
    framer.push(&buffer[..length]);
    let hello = Message::parse(Version::V15, framer.pop().unwrap().unwrap()).unwrap();
    assert!(matches!(hello.body, Body::Hello(_)));
}
