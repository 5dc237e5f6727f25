//! Streams of those who mean no good: they read nothing, say nothing, stop in the midst of a message, or speak another version. The server stays small and answers an operator.
#![allow(clippy::disallowed_methods)] // a real server is measured by the wall clock

mod support;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use nix::sys::resource::{Resource, setrlimit};
use support::daemon::{Daemon, Home};
use support::shared::{client_of, secret};
use weft_control::directory::PrincipalId;
use weft_control::wire::directory::{Fetch, Kind, Message};
use weft_directory::client::Session;

const ADMIN: PrincipalId = PrincipalId(7);
const POLICY: &str = "version = 1\n[[principal]]\nid = 7\nrole = \"admin\"\n[[principal]]\nid = 100\nrole = \"server\"\n";

fn start(home: &Home) -> Daemon {
    // As on a system that gives a process few descriptors.
    raise_descriptors();
    let policy = home.write("policy.toml", POLICY);
    home.start(&["--policy", &policy])
}

/// Of this process, which has many connections at once.
fn raise_descriptors() {
    setrlimit(Resource::RLIMIT_NOFILE, 8192, 8192).expect("root may");
}

/// A stream whose other end is tampered with.
struct Raw {
    tcp: TcpStream,
    session: Session,
}

impl Raw {
    fn open(daemon: &Daemon, principal: u32) -> Self {
        let tcp = TcpStream::connect(daemon.address()).unwrap();
        tcp.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let principal = PrincipalId(principal);
        Self { tcp, session: Session::new(principal, Some(&secret().key_of(principal))) }
    }

    /// A message with its length before it.
    fn seal(&mut self, kind: Kind, body: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
        let mut frame = vec![0; 2];
        self.session.seal(kind, body, &mut frame);
        let length = u16::try_from(frame.len() - 2).unwrap();
        frame[..2].copy_from_slice(&length.to_be_bytes());
        frame
    }

    fn receive(&mut self) -> std::io::Result<Vec<u8>> {
        let mut length = [0; 2];
        self.tcp.read_exact(&mut length)?;
        let mut bytes = vec![0; usize::from(u16::from_be_bytes(length))];
        self.tcp.read_exact(&mut bytes)?;
        Ok(bytes)
    }

    /// Gets its cookie.
    fn greet(&mut self) {
        let hello = self.seal(Kind::Health, |_| {});
        self.tcp.write_all(&hello).unwrap();
        let challenge = self.receive().unwrap();
        assert_eq!(self.session.open(&challenge).unwrap().header.kind, Kind::Challenge);
    }

    /// How long it takes until the server closes it.
    fn wait_closed(&mut self) -> Duration {
        let begun = Instant::now();
        let mut rest = [0; 4096];
        while self.tcp.read(&mut rest).is_ok_and(|count| count > 0) {}
        begun.elapsed()
    }
}

fn resident(daemon: &Daemon) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", daemon.id())).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
}

/// How long an operator waits for a listing.
fn list(daemon: &Daemon) -> Duration {
    let begun = Instant::now();
    let mut client = client_of(ADMIN, &[daemon.address()], Duration::from_secs(5));
    client.page(None, 100).expect("an operator is answered");
    begun.elapsed()
}

#[test]
fn silent_connections_lock_no_operator_out() {
    let home = Home::new();
    let daemon = start(&home);
    // More than the usual 1,024 descriptors of a process, and than the server lets wait.
    let silent: Vec<TcpStream> = (0..2_000).map(|_| TcpStream::connect(daemon.address()).unwrap()).collect();
    let took = list(&daemon);
    assert!(took < Duration::from_secs(2), "{took:?}");
    daemon.wait_metric("dropped_total{reason=\"unauthenticated\"}", |count| count >= 900.0);
    drop(silent);
}

#[test]
fn streams_that_read_nothing_are_kept_small() {
    let home = Home::new();
    let daemon = start(&home);
    let document = vec![7; 4 << 20];
    client_of(ADMIN, &[daemon.address()], Duration::from_secs(10)).publish("large", 0, 1, &document).expect("published");
    let before = resident(&daemon);
    // Each asks for 6 MB, in all 1.2 GB, and reads none of it.
    let hostile: Vec<Raw> = (0..200)
        .map(|at| {
            let mut stream = Raw::open(&daemon, 1000 + at / 4);
            stream.greet();
            let fetch = |at: u64| Message::Fetch(Fetch { name: "large", known: 0, offset: at * 4096 });
            let all: Vec<u8> = (0..200).flat_map(|at| stream.seal(Kind::Fetch, |out| fetch(at).emit(out))).collect();
            stream.tcp.write_all(&all).unwrap();
            stream
        })
        .collect();
    let mut most = 0;
    for _ in 0..20 {
        std::thread::sleep(Duration::from_millis(50));
        most = most.max(resident(&daemon));
        let took = list(&daemon);
        assert!(took < Duration::from_secs(2), "{took:?}");
    }
    assert!(most - before < 60 << 20, "{} MB more for {} streams", (most - before) >> 20, hostile.len());
    // Who takes nothing for 5 s is closed, and what waited for him is gone.
    daemon.wait_metric("stream_bytes", |bytes| bytes < 1.0);
    daemon.wait_metric("streams", |count| count < 1.0);
}

#[test]
fn one_host_has_few_streams_and_hosts_may_not_list() {
    let home = Home::new();
    let daemon = start(&home);
    let mut streams: Vec<Raw> = (0..100).map(|_| Raw::open(&daemon, 1000)).collect();
    for stream in &mut streams {
        stream.greet();
        let again = stream.seal(Kind::Fetch, |out| Message::Fetch(Fetch { name: "none", known: 0, offset: 0 }).emit(out));
        stream.tcp.write_all(&again).unwrap();
    }
    let answered = streams.iter_mut().filter_map(|stream| stream.receive().ok()).count();
    assert_eq!(answered, 64, "one host's");
    let took = list(&daemon);
    assert!(took < Duration::from_secs(2), "{took:?}");
}

#[test]
fn what_is_not_authenticated_or_stalls_ends_in_5_s() {
    let home = Home::new();
    let daemon = start(&home);
    let mut silent = Raw::open(&daemon, 1000);
    let mut half = Raw::open(&daemon, 1000);
    half.tcp.write_all(&[0]).unwrap();
    let mut stalled = Raw::open(&daemon, 1000);
    stalled.greet();
    stalled.tcp.write_all(&[255, 255, 1]).unwrap();
    let begun = Instant::now();
    for stream in [&mut silent, &mut half, &mut stalled] {
        stream.wait_closed();
        assert!(begun.elapsed() < Duration::from_secs(9), "{:?}", begun.elapsed());
    }
    assert!(begun.elapsed() > Duration::from_secs(4));
    let mut forged = Raw::open(&daemon, 1000);
    let mut message = forged.seal(Kind::Health, |_| {});
    *message.last_mut().unwrap() ^= 1;
    forged.tcp.write_all(&message).unwrap();
    assert!(forged.wait_closed() < Duration::from_secs(2));
}

#[test]
fn a_stream_of_another_version_is_answered_so() {
    let home = Home::new();
    let daemon = start(&home);
    let mut stream = Raw::open(&daemon, 1000);
    let mut message = stream.seal(Kind::Health, |_| {});
    // Version 2, with the tag that it has in all versions.
    message[4] = 2;
    let length = message.len() - 16;
    message.truncate(length);
    let mut sealed = message[2..].to_vec();
    secret().key_of(PrincipalId(1000)).tagger().seal(&mut sealed, 0);
    message.truncate(2);
    message.extend_from_slice(&sealed);
    stream.tcp.write_all(&message).unwrap();
    let answer = stream.receive().unwrap();
    assert_eq!(stream.session.open(&answer).unwrap().header.kind, Kind::Unsupported);
    assert!(stream.wait_closed() < Duration::from_secs(2));
}
