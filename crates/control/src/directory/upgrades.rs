//! An agent's resolver and a server's front of one or neighbouring versions of the protocol.

use std::net::SocketAddr;

use weft_fabric::rng::Pcg64;

use super::auth::{Cookies, Secret};
use super::front::{Front, FrontConfig, Verdict};
use super::key::{Generation, GroupId, Key, Locator, Mapping, PrincipalId, ServiceId, Value};
use super::policy::Policy;
use super::resolver::{Input, Output, Resolver, ResolverConfig};
use super::shared::Shared;
use super::{OLDER_VERSION, key};
use crate::time::{Duration, Instant};
use crate::wire::directory::{Frame, Kind, State, Versions};

const ME: PrincipalId = PrincipalId(1);
const AT: ([u8; 4], u16) = ([10, 9, 0, 1], 4000);
const SERVER: ([u8; 4], u16) = ([10, 9, 0, 2], 5303);

struct Pair {
    now: Instant,
    resolver: Resolver,
    front: Front,
    shared: Shared,
    token: u64,
}

fn app(n: u8) -> Key {
    Key::App4([20, 0, 0, n].into())
}

fn front(versions: Versions, seed: u8) -> Front {
    let config = FrontConfig { me: PrincipalId(90), max_clients: 16, versions };
    Front::new(Secret::new([3; 32]), Cookies::new([seed; 16]), config)
}

impl Pair {
    fn new(client: Versions, server: Versions) -> Self {
        let mut shared = Shared::new(Policy::parse("version = 1\n").unwrap(), 1);
        for n in 0..100 {
            let (locator, group) = (Locator::V4([10, 0, 0, n].into()), GroupId(0));
            let mapping = Mapping { locator, mac: None, group, service: ServiceId(0), owner: ME, lease_ms: 1000 };
            shared.table.load(&app(n), Generation(7), Some(&Value::Mapping(mapping)));
        }
        (shared.revision, shared.state) = (key::Generation(9), State::Serving);
        let config = ResolverConfig { versions: client, ..ResolverConfig::new(ME) };
        let mut resolver = Resolver::new(config, &Secret::new([3; 32]).key_of(ME), Pcg64::new(1, 1));
        let now = Instant::ZERO + Duration::from_secs(1);
        resolver.handle(now, Input::SetServers(&[SERVER.into()]));
        Self { now, resolver, front: front(server, 1), shared, token: 0 }
    }

    /// Looks a key up, in no time: the versions of the lookups that it took.
    fn look_up(&mut self, n: u8) -> Vec<u8> {
        self.token += 1;
        self.now += Duration::from_us(10);
        self.resolver.handle(self.now, Input::Resolve { key: app(n), asker: None, token: self.token });
        let mut lookups = Vec::new();
        let mut is_found = false;
        while let Some(output) = self.resolver.poll() {
            match output {
                Output::Send { to, bytes } => {
                    assert_eq!(to, SERVER.into());
                    let request = Frame::parse_as(Versions::NEXT, &bytes).unwrap();
                    if request.header.kind == Kind::Lookup {
                        lookups.push(request.version);
                    }
                    let mut out = Vec::new();
                    let verdict = self.front.receive(self.now, &self.shared, AT.into(), &bytes, &mut out);
                    if verdict == Verdict::Answer {
                        let answer = Frame::parse_as(Versions::NEXT, &out).unwrap();
                        assert!(answer.version == request.version || answer.header.kind == Kind::Unsupported);
                        self.resolver.handle(self.now, Input::Datagram { from: SocketAddr::from(SERVER), bytes: &out });
                    }
                }
                Output::Resolved { token, .. } => is_found |= token == self.token,
                _ => {}
            }
        }
        assert!(is_found, "lookups of versions {lookups:?}");
        lookups
    }

    fn pass(&mut self, time: Duration) {
        self.now += time;
    }
}

#[test]
fn neighbouring_versions_find_a_common_one_at_once() {
    let (old, new) = (Versions::OURS, Versions::NEXT);
    let (n, next) = (old.newest(), new.newest());
    // The first is challenged; a newer agent has asked in its own version before that.
    for (client, server, first, later) in [
        (old, old, vec![n, n], vec![n]),
        (old, new, vec![n, n], vec![n]),
        (new, new, vec![next, next], vec![next]),
        (new, old, vec![next, n, n], vec![n]),
    ] {
        let mut pair = Pair::new(client, server);
        assert_eq!(pair.look_up(1), first, "{client:?} {server:?}");
        assert_eq!(pair.look_up(2), later, "{client:?} {server:?}");
        assert_eq!(pair.resolver.counts().unsupported, 0);
    }
}

#[test]
fn the_newer_version_is_spoken_soon_after_the_server_is_upgraded_and_the_older_after_a_downgrade() {
    let (n, next) = (Versions::OURS.newest(), Versions::NEXT.newest());
    let mut pair = Pair::new(Versions::NEXT, Versions::OURS);
    assert_eq!(pair.look_up(1), [next, n, n]);
    pair.front = front(Versions::NEXT, 2);
    assert_eq!(pair.look_up(2), [n, n], "challenged by the restarted server, in the version of before");
    pair.pass(OLDER_VERSION);
    assert_eq!(pair.look_up(3), [next, next], "a client that changes its version is challenged");
    assert_eq!(pair.look_up(4), [next]);
    pair.front = front(Versions::OURS, 3);
    assert_eq!(pair.look_up(5), [next, n, n]);
    // A server that stays old is asked again now and then.
    pair.pass(OLDER_VERSION);
    assert_eq!(pair.look_up(6), [next, n]);
    assert_eq!(pair.look_up(7), [n]);
}
