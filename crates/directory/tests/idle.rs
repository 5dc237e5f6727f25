//! An agent that does nothing: real servers send it what is withdrawn, also when one of them has been killed.

#![allow(clippy::disallowed_methods)] // Processes live by the wall clock.

mod support;

use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use support::daemon::{Daemon, Home};
use support::etcd::Etcd;
use support::model::{key, value_of};
use support::shared::{WRITER, secret};
use weft_control::directory::Key;
use weft_control::directory::auth::Secret;
use weft_control::directory::resolver::{Input, Output, Resolver, ResolverConfig};
use weft_control::wire::directory::Op;
use weft_directory::client::{Auth, Client, Settings};
use weft_fabric::rng::Pcg64;

/// An agent on a socket.
struct Agent {
    socket: UdpSocket,
    resolver: Resolver,
    begun: Instant,
    /// Datagrams sent and received.
    datagrams: usize,
}

impl Agent {
    fn new(servers: &[Daemon]) -> Self {
        let servers: Vec<SocketAddr> = servers.iter().map(|it| it.address().parse().unwrap()).collect();
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(5))).unwrap();
        let mut resolver = Resolver::new(ResolverConfig::new(WRITER), &secret().key_of(WRITER), Pcg64::new(3, 1));
        resolver.handle(weft_control::time::Instant::ZERO, Input::SetServers(&servers));
        Self { socket, resolver, begun: Instant::now(), datagrams: 0 }
    }

    fn now(&self) -> weft_control::time::Instant {
        weft_control::time::Instant::from_ns(1).saturating_add(self.begun.elapsed().into())
    }

    /// Runs until a key is to be given up, or the time is over; after how long it was.
    fn run(&mut self, until: Option<Key>, limit: Duration) -> Option<Duration> {
        let begun = Instant::now();
        let mut buffer = [0; 2048];
        while begun.elapsed() < limit {
            let now = self.now();
            match self.socket.recv_from(&mut buffer) {
                Ok((length, from)) => {
                    self.datagrams += 1;
                    self.resolver.handle(now, Input::Datagram { from, bytes: &buffer[..length] });
                }
                Err(_) => self.resolver.handle(now, Input::Timer),
            }
            let mut gone = false;
            while let Some(output) = self.resolver.poll() {
                match output {
                    Output::Send { to, bytes } => {
                        self.datagrams += 1;
                        let _ = self.socket.send_to(&bytes, to);
                    }
                    Output::Invalidated { key, .. } => gone |= Some(key) == until,
                    Output::Resolved { .. } => {}
                }
            }
            if gone {
                return Some(begun.elapsed());
            }
        }
        None
    }
}

/// A client with a key of another secret.
fn client_of_secret(daemon: &Daemon, hex: &str) -> Client {
    let (servers, key) = (vec![daemon.address()], Some(Secret::parse(hex).unwrap().key_of(WRITER)));
    Client::new(Settings { servers, principal: WRITER, key, auth: Auth::Mac, timeout: Duration::from_secs(2), only: false })
        .unwrap()
}

fn delete(daemon: &Daemon, key: Key) {
    let op = Op { key, expect: None, value: None };
    daemon.client(WRITER).update(vec![op], None).unwrap();
}

#[test]
fn an_idle_agent_is_sent_what_is_withdrawn() {
    let Some(etcd) = Etcd::start(1) else { return };
    let home = Home::new();
    let store = format!("etcd:{}", etcd.urls().join(","));
    // The agent's key is of the present secret, later of the old one.
    let secrets = [Secret::new([8; 32]), secret(), Secret::new([10; 32])].map(|secret| secret.to_hex());
    let old = home.write_private("old", &secrets[0]);
    let start = |principal| home.start(&["--store", &store, "--principal", principal, "--old-secret", &old]);
    let mut servers = ["100", "101", "102"].map(start);
    (0..4).for_each(|n| assert!(servers[0].put(key(n), value_of(1)).is_some()));
    let mut agent = Agent::new(&servers);
    for n in 0..4 {
        let now = agent.now();
        agent.resolver.handle(now, Input::Resolve { key: key(n), asker: None, token: n.into() });
    }
    agent.run(None, Duration::from_secs(4));
    assert_eq!(agent.resolver.usable().count(), 4);
    let before = agent.datagrams;
    agent.run(None, Duration::from_secs(5));
    assert!(agent.datagrams - before <= 2, "{} datagrams in 5 s without an event", agent.datagrams - before);
    let subscribed: Vec<f64> = servers.iter().map(|it| it.scrape().of("subscribers")).collect();
    assert_eq!(subscribed.iter().sum::<f64>(), 2.0, "at two of {subscribed:?}");

    delete(&servers[0], key(0));
    let took = agent.run(Some(key(0)), Duration::from_secs(1)).expect("within a second");
    eprintln!("out of use {took:?} after the acknowledgement");
    agent.run(None, Duration::from_millis(500));
    assert!(servers.iter().any(|it| it.scrape().of("pushes_total") >= 1.0));

    // Another secret takes the place of the one of which the agent has a key, at all servers at once: it notices nothing.
    home.write_private("old", &secrets[1]);
    home.write_private("secret", &secrets[2]);
    let before = agent.datagrams;
    agent.run(None, Duration::from_secs(4));
    assert!(agent.datagrams - before <= 2, "{} datagrams for another secret", agent.datagrams - before);
    assert!(client_of_secret(&servers[0], &secrets[2]).health().is_ok(), "the new secret is in force");
    delete(&servers[1], key(2));
    let took = agent.run(Some(key(2)), Duration::from_secs(1)).expect("within a second");
    eprintln!("out of use {took:?} after the acknowledgement, under the old secret");

    // One of its two servers is killed, and nobody has noticed.
    let killed = subscribed.iter().position(|&count| count > 0.0).unwrap();
    servers[killed].signal(Signal::SIGKILL);
    servers[killed].wait_end();
    delete(&servers[(killed + 1) % 3], key(1));
    let took = agent.run(Some(key(1)), Duration::from_secs(1)).expect("within a second");
    eprintln!("out of use {took:?} after the acknowledgement, with one server killed");
    let left: std::collections::BTreeSet<Key> = agent.resolver.usable().map(|(key, ..)| key).collect();
    assert_eq!(left, [key(3)].into());
}
