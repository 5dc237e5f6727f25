use std::net::Ipv4Addr;

use weft_fabric::rng;

use super::*;
use crate::directory::auth::{Secret, Tagger};
use crate::directory::interest::{key_hash, key_name};
use crate::directory::key::{GroupId, Locator, Mapping, ServiceId};
use crate::wire::directory::{AnswerWriter, Changes, Correction, Finding, Frame, Header, Kind, Message, WithdrawnPage};

mod cache;
mod follow;
mod lookups;
mod sync;

/// An agent, and servers that a test speaks for.
struct Bench {
    agent: Resolver,
    tagger: Tagger,
    now: Instant,
}

/// A datagram that the agent sent.
#[derive(Clone, Debug)]
struct Sent {
    to: SocketAddr,
    header: Header,
    keys: Vec<Key>,
}

const ME: PrincipalId = PrincipalId(9);

fn server(n: u8) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, n], 5303))
}

fn key(n: u8) -> Key {
    Key::App4(Ipv4Addr::new(20, 0, 0, n))
}

fn name_of(key: Key) -> u32 {
    key_name(key_hash(&key))
}

fn mapping(n: u8, service: u32) -> Value {
    Value::Mapping(Mapping {
        locator: Locator::V4(Ipv4Addr::new(30, 0, 0, n)),
        mac: None,
        group: GroupId(0),
        service: ServiceId(service),
        owner: PrincipalId(1),
        lease_ms: 2_000,
    })
}

impl Bench {
    fn new(servers: u8, config: ResolverConfig) -> Self {
        let secret = Secret::new([3; 32]);
        let mut agent = Resolver::new(config, &secret.key_of(ME), rng::stream(1, rng::Stream::Traffic));
        let list: Vec<SocketAddr> = (1..=servers).map(server).collect();
        agent.handle(Instant::ZERO, Input::SetServers(&list));
        Self { agent, tagger: secret.key_of(ME).tagger(), now: Instant::ZERO }
    }

    fn plain(servers: u8) -> Self {
        Self::new(servers, ResolverConfig::new(ME))
    }

    /// Of a resolver that keeps nothing for longer than its lease.
    fn bounded() -> Self {
        Self::new(1, ResolverConfig { fail_static: Duration::ZERO, ..ResolverConfig::new(ME) })
    }

    fn ask(&mut self, names: &[(Key, Option<Key>, u64)]) {
        for &(key, asker, token) in names {
            self.agent.handle(self.now, Input::Resolve { key, asker, token });
        }
    }

    /// What the agent sent, and all else that it put out.
    fn drain(&mut self) -> (Vec<Sent>, Vec<Output>) {
        let (mut sent, mut rest) = (Vec::new(), Vec::new());
        while let Some(output) = self.agent.poll() {
            let Output::Send { to, bytes } = output else {
                rest.push(output);
                continue;
            };
            let frame = Frame::parse(&bytes).unwrap();
            assert!(self.tagger.verify(frame.covered, frame.tag));
            let keys = match Message::parse(frame.header.kind, frame.body).unwrap() {
                Message::Lookup(it) => it.keys().collect(),
                // As servers of before: they do not answer.
                Message::Parts(_) => continue,
                _ => Vec::new(),
            };
            sent.push(Sent { to, header: frame.header, keys });
        }
        (sent, rest)
    }

    fn reply(&mut self, sent: &Sent, kind: Kind, body: impl FnOnce(&mut Vec<u8>)) {
        let header = Header { kind, principal: ME, cookie: 77, request: sent.header.request };
        let mut bytes = Vec::new();
        header.emit(&mut bytes);
        body(&mut bytes);
        self.tagger.seal(&mut bytes, 0);
        self.agent.handle(self.now, Input::Datagram { from: sent.to, bytes: &bytes });
    }

    fn answer(&mut self, sent: &Sent, revision: u64, policy: u32, findings: &[(u64, Finding)]) {
        self.reply(sent, Kind::Answer, |out| {
            let mut writer = AnswerWriter::new(out, 1400, Generation(revision), policy);
            for (generation, finding) in findings {
                assert!(writer.push(Generation(*generation), finding));
            }
        });
    }

    fn pass(&mut self, time: Duration) {
        self.now += time;
        self.agent.handle(self.now, Input::Timer);
    }

    /// Looks a key up and has it answered by the first server asked.
    fn learn(&mut self, n: u8, revision: u64, finding: (u64, Finding)) -> Vec<Output> {
        self.ask(&[(key(n), None, u64::from(n))]);
        let (sent, rest) = self.drain();
        if let Some(first) = sent.iter().find(|s| !s.keys.is_empty()) {
            self.answer(&first.clone(), revision, 1, &[finding]);
            return self.drain().1;
        }
        rest
    }
}

fn resolutions(outputs: &[Output]) -> Vec<Resolution> {
    let resolution = |output: &Output| match output {
        Output::Resolved { resolution, .. } => Some(resolution.clone()),
        _ => None,
    };
    outputs.iter().filter_map(resolution).collect()
}

fn found(n: u8) -> Finding {
    Finding::Found(mapping(n, 1))
}
