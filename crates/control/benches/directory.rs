//! How many lookups a directory server's front answers, over a million mappings, with tags, cookies, windows and a policy.
//! Run: `cargo bench -p weft-control --bench directory`. The rates are of one core, without the system calls of a socket.

use std::net::SocketAddr;

use criterion::{BatchSize, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use weft_control::directory::auth::{Cookies, Secret, Tagger};
use weft_control::directory::front::{Front, FrontConfig, Verdict};
use weft_control::directory::policy::Policy;
use weft_control::directory::shared::Shared;
use weft_control::directory::{Generation, GroupId, Key, Locator, Mapping, PrincipalId, ServiceId, Value};
use weft_control::time::Instant;
use weft_control::wire::directory::{Frame, Header, Kind, Lookup, State, Versions};
use weft_fabric::rng::mix;

const MAPPINGS: u32 = 1_000_000;
const PER_HOST: u32 = 10;
const BATCH: u64 = 2048;
const RECEIVED_AT_ONCE: usize = 32;

fn key(n: u32) -> Key {
    Key::App4(n.wrapping_mul(2_654_435_761).into())
}

fn shared() -> Shared {
    let mut text = "version = 1\n".to_owned();
    for id in 1..=100 {
        text += &format!("[[service]]\nname = \"s{id}\"\nid = {id}\nallow = [\"*\"]\n");
    }
    let mut shared = Shared::new(Policy::parse(&text).expect("a policy"), 7);
    for n in 0..MAPPINGS {
        let mapping = Mapping {
            locator: Locator::V4((n / 200).into()),
            mac: None,
            group: GroupId(1),
            service: ServiceId(n % 100 + 1),
            owner: PrincipalId(n / PER_HOST + 1),
            lease_ms: 60_000,
        };
        shared.table.load(&key(n), Generation(1), Some(&Value::Mapping(mapping)));
    }
    shared.revision = Generation(2);
    shared.state = State::Serving;
    shared
}

struct Agent {
    principal: u32,
    at: SocketAddr,
    tagger: Tagger,
    cookie: u64,
    request: u64,
}

impl Agent {
    fn new(secret: &Secret, principal: u32) -> Self {
        let tagger = secret.key_of(PrincipalId(principal)).tagger();
        Self { principal, at: SocketAddr::from(([10, 0, 0, 1], principal as u16)), tagger, cookie: 0, request: 0 }
    }

    fn ask(&mut self, keys: &[Key]) -> Vec<u8> {
        self.request += 1;
        let mut bytes = Vec::new();
        let principal = PrincipalId(self.principal);
        Header { kind: Kind::Lookup, principal, cookie: self.cookie, request: self.request }.emit(&mut bytes);
        Lookup::emit(Generation(0), Some(&key((self.principal - 1) * PER_HOST)), keys, &mut bytes);
        self.tagger.seal(&mut bytes, 0);
        bytes
    }
}

fn lookups(c: &mut Criterion) {
    let shared = shared();
    let secret = Secret::new([1; 32]);
    let mut draw = 0u64;
    for agents in [100, 20_000] {
        let mut front = Front::new(
            secret.clone(),
            Cookies::new([2; 16]),
            FrontConfig { me: PrincipalId(1 << 30), max_clients: 65_536, versions: Versions::OURS },
        );
        let mut clients: Vec<Agent> = (1..=agents).map(|principal| Agent::new(&secret, principal)).collect();
        for client in &mut clients {
            let mut out = Vec::new();
            front.receive(Instant::ZERO, &shared, client.at, &client.ask(&[key(0)]), &mut out);
            client.cookie = Frame::parse(&out).expect("a challenge").header.cookie;
        }
        let mut group = c.benchmark_group(format!("lookups of {agents} agents, elements are keys"));
        for keys in [1u64, 32] {
            group.throughput(Throughput::Elements(BATCH * keys));
            group.bench_function(BenchmarkId::from_parameter(format!("{keys} keys")), |b| {
                let setup = || {
                    let mut batch = Vec::new();
                    for _ in 0..BATCH {
                        draw += 1;
                        let client = &mut clients[(mix(draw) % u64::from(agents)) as usize];
                        let wanted: Vec<Key> =
                            (0..keys).map(|n| key((mix(draw << 8 | n) % u64::from(MAPPINGS)) as u32)).collect();
                        batch.push((client.at, client.ask(&wanted)));
                    }
                    batch
                };
                let run = |batch: Vec<(SocketAddr, Vec<u8>)>| {
                    let slices: Vec<(SocketAddr, &[u8])> = batch.iter().map(|(at, bytes)| (*at, bytes.as_slice())).collect();
                    let mut answered = 0;
                    for some in slices.chunks(RECEIVED_AT_ONCE) {
                        front.receive_batch(Instant::ZERO, &shared, some, |_, verdict, bytes| {
                            answered += u64::from(verdict == Verdict::Answer && bytes.len() > 64);
                        });
                    }
                    assert_eq!(answered, BATCH, "all are answered");
                };
                b.iter_batched(setup, run, BatchSize::LargeInput);
            });
        }
        assert_eq!(front.counters().forbidden + front.counters().unknown, 0, "all are found");
    }
}

criterion_group!(benches, lookups);
criterion_main!(benches);
