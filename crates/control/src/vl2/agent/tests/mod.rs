//! A directory whose answers are scripted, and a data plane whose state is checked.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};

mod any_order;
mod cases;

use super::*;
use crate::directory::auth::{Secret, Tagger};
use crate::directory::interest::{key_hash, key_name};
use crate::directory::{GroupId, Locator, PrincipalId, ServiceId, Value};
use crate::wire::directory::{
    AnswerWriter, Changes, Correction, Finding, Frame, Header, Kind, Message, Withdrawal, WithdrawnPage,
};
use crate::wire::versions::Versions;
use crate::wire::vl2::attach::{Attach, Code, Frame as AttachFrame, Unsupported};

const ME: PrincipalId = PrincipalId(17);
const SERVER: ([u8; 4], u16) = ([10, 0, 0, 1], 5303);
const MOVED: ([u8; 4], u16) = ([10, 0, 0, 2], 5303);
const TOR: ([u8; 4], u16) = ([10, 1, 1, 1], 5304);
const MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 5]);
const OWN_ADDRESS: IpAddr = IpAddr::V4(Ipv4Addr::new(20, 0, 0, 5));

/// What the directory says of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Word {
    Found(Value),
    Forbidden,
}

/// An agent, a directory, and a data plane.
struct World {
    agent: Agent,
    key: PrincipalKey,
    tagger: Tagger,
    now: Instant,
    /// What the directory knows; what is not there is unknown.
    words: BTreeMap<Key, (u64, Word)>,
    revision: u64,
    withdrawn: Vec<(u64, Key)>,
    is_silent: bool,
    /// Servers that answer.
    alive: Vec<SocketAddr>,
    /// The data plane.
    /// By address, of whichever service.
    peers: BTreeMap<IpAddr, Result<Peer, bool>>,
    by_service: BTreeMap<PeerKey, Result<Peer, bool>>,
    /// Targets that the directory refuses to one address of this host.
    forbidden_to: BTreeSet<(Key, Key)>,
    groups: BTreeMap<GroupId, Vec<Ipv4Addr>>,
    /// Peers of an earlier agent, of which nothing was said yet.
    adopted: BTreeSet<IpAddr>,
    locals: BTreeMap<IpAddr, (ServiceId, Option<Ipv4Addr>)>,
    joined: BTreeSet<Ipv4Addr>,
    injected: Vec<Vec<u8>>,
    /// Tokens that are out, and what became of the others.
    waiting: BTreeSet<u64>,
    released: Vec<u64>,
    dropped: Vec<(u64, Reason)>,
    tor_heard: Vec<Attach>,
    rest: Vec<Output>,
    trail: Vec<Output>,
    last_token: u64,
}

fn peer_address(n: u8) -> IpAddr {
    [20, 0, 1, n].into()
}

fn mapping(locator: u8, group: u16) -> Mapping {
    Mapping {
        locator: Locator::V4([10, 1, 2, locator].into()),
        mac: None,
        group: GroupId(group),
        service: ServiceId(1),
        owner: PrincipalId(99),
        lease_ms: 2_000,
    }
}

impl World {
    fn new(change: impl FnOnce(&mut AgentConfig)) -> Self {
        let key = Secret::new([3; 32]).key_of(ME);
        let mut config = AgentConfig::new(ResolverConfig { first_request: 1 << 60, ..ResolverConfig::new(ME) });
        config.multicast = Some("239.1.0.0/16".parse().unwrap());
        change(&mut config);
        let mut world = Self {
            agent: Agent::new(config, &key, Pcg64::new(1, 1)),
            tagger: key.tagger(),
            key,
            now: Instant::ZERO + Duration::from_secs(1),
            words: BTreeMap::new(),
            revision: 1,
            withdrawn: Vec::new(),
            is_silent: false,
            alive: vec![SERVER.into()],
            peers: BTreeMap::new(),
            by_service: BTreeMap::new(),
            forbidden_to: BTreeSet::new(),
            groups: BTreeMap::new(),
            adopted: BTreeSet::new(),
            locals: BTreeMap::new(),
            joined: BTreeSet::new(),
            injected: Vec::new(),
            waiting: BTreeSet::new(),
            released: Vec::new(),
            dropped: Vec::new(),
            tor_heard: Vec::new(),
            rest: Vec::new(),
            trail: Vec::new(),
            last_token: 0,
        };
        world.input(Input::SetServers(&[SERVER.into()]));
        world
    }

    /// With an address of this host that the directory confirms.
    fn ready(change: impl FnOnce(&mut AgentConfig)) -> Self {
        let mut world = Self::new(change);
        world.put(key_of(OWN_ADDRESS), Value::Mapping(Mapping { owner: ME, ..mapping(1, 0) }));
        world.input(Input::Attach { address: OWN_ADDRESS, mac: MAC });
        assert_eq!(world.locals.get(&OWN_ADDRESS), Some(&(ServiceId(1), Some(Ipv4Addr::new(239, 1, 0, 1)))));
        world
    }

    fn put(&mut self, key: Key, value: Value) {
        self.revision += 1;
        self.words.insert(key, (self.revision, Word::Found(value)));
    }

    /// The data plane has a peer from an earlier agent.
    fn adopt(&mut self, address: IpAddr) {
        self.adopted.insert(address);
        self.peers.insert(address, Ok(Peer { locator: [10, 1, 2, 200].into(), group: GroupId(0), mac: None }));
        self.input(Input::Adopted(PeerKey { service: ServiceId(1), address }));
    }

    fn forbid(&mut self, key: Key) {
        self.revision += 1;
        self.words.insert(key, (self.revision, Word::Forbidden));
        self.withdrawn.push((self.revision, key));
    }

    fn delete(&mut self, key: Key) {
        self.revision += 1;
        self.words.remove(&key);
        self.withdrawn.push((self.revision, key));
    }

    fn finding_for(&self, asker: Option<Key>, key: Key) -> (u64, Finding) {
        match asker {
            Some(asker) if self.forbidden_to.contains(&(asker, key)) => (self.revision, Finding::Forbidden),
            _ => self.finding(key),
        }
    }

    fn finding(&self, key: Key) -> (u64, Finding) {
        match self.words.get(&key) {
            Some((generation, Word::Found(value))) => (*generation, Finding::Found(value.clone())),
            Some((_, Word::Forbidden)) => (self.revision, Finding::Forbidden),
            None => (self.revision, Finding::Unknown),
        }
    }

    fn input(&mut self, input: Input<'_>) {
        self.agent.handle(self.now, input);
        self.drain();
    }

    fn miss(&mut self, peer: IpAddr) -> u64 {
        self.miss_from(OWN_ADDRESS, peer)
    }

    fn miss_from(&mut self, local: IpAddr, peer: IpAddr) -> u64 {
        self.last_token += 1;
        let token = self.last_token;
        self.waiting.insert(token);
        self.input(Input::Missed { local, peer, bytes: 1000, token });
        token
    }

    /// Lets time pass, a timer at a time.
    fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        while let Some(at) = self.agent.deadline().filter(|at| *at <= end) {
            self.now = self.now.max(at);
            self.input(Input::Timer);
        }
        self.now = end;
        self.input(Input::Timer);
    }

    fn drain(&mut self) {
        while let Some(output) = self.agent.poll() {
            self.trail.push(output.clone());
            match output {
                Output::Send { to, bytes } => self.directory(to, &bytes),
                Output::SendAttach { to, bytes } => {
                    assert_eq!(to, TOR.into());
                    let frame = AttachFrame::parse_as(Versions::NEXT, &bytes).unwrap();
                    assert!(frame.is_of(&AttachKey::of(&self.key)));
                    self.tor_heard.push(frame.message);
                }
                output => self.apply(output),
            }
        }
        // What the data plane has, the resolver may use.
        let usable: BTreeSet<IpAddr> = self.agent.resolver.usable().filter_map(|(key, ..)| address_of(key)).collect();
        for (address, _) in self.peers.iter().filter(|(address, peer)| peer.is_ok() && !self.adopted.contains(address)) {
            assert!(usable.contains(address), "{address} is used and not held");
        }
    }

    fn apply(&mut self, output: Output) {
        if let Output::SetPeer { key, .. } | Output::RefusePeer { key, .. } | Output::RemovePeer(key) = output {
            self.adopted.remove(&key.address);
        }
        match output {
            Output::SetPeer { key, peer } => {
                assert!(peer.group == GroupId(0) || self.groups.contains_key(&peer.group), "a peer before its group");
                self.peers.insert(key.address, Ok(peer));
                self.by_service.insert(key, Ok(peer));
            }
            Output::RefusePeer { key, is_forbidden } => {
                self.peers.insert(key.address, Err(is_forbidden));
                self.by_service.insert(key, Err(is_forbidden));
            }
            Output::RemovePeer(key) => {
                self.peers.remove(&key.address);
                self.by_service.remove(&key);
            }
            Output::SetGroup { group, addresses } => drop(self.groups.insert(group, addresses.to_vec())),
            Output::RemoveGroup(group) => drop(self.groups.remove(&group)),
            Output::SetLocal { address, service, multicast } => drop(self.locals.insert(address, (service, multicast))),
            Output::RemoveLocal(address) => assert!(self.locals.remove(&address).is_some()),
            Output::Join(group) => assert!(self.joined.insert(group)),
            Output::Leave(group) => assert!(self.joined.remove(&group)),
            Output::Inject(frame) => self.injected.push(frame),
            Output::Release(token) => {
                assert!(self.waiting.remove(&token), "released twice, or never held");
                self.released.push(token);
            }
            Output::Drop { token, reason, .. } => {
                assert!(self.waiting.remove(&token), "dropped twice, or never held");
                self.dropped.push((token, reason));
            }
            other => self.rest.push(other),
        }
    }

    fn directory(&mut self, to: SocketAddr, bytes: &[u8]) {
        if self.is_silent || !self.alive.contains(&to) {
            return;
        }
        let frame = Frame::parse_as(Versions::NEXT, bytes).unwrap();
        assert!(self.tagger.verify(frame.covered, frame.tag));
        let request = frame.header.request;
        match Message::parse(frame.header.kind, frame.body).unwrap() {
            Message::Lookup(it) => {
                let findings: Vec<_> = it.keys().map(|key| self.finding_for(it.asker, key)).collect();
                let revision = Generation(self.revision);
                self.reply(to, Kind::Answer, request, |out| {
                    let mut writer = AnswerWriter::new(out, 1400, revision, 1);
                    for (generation, finding) in &findings {
                        assert!(writer.push(Generation(*generation), finding));
                    }
                });
            }
            Message::Follow(ask) => {
                let gone = self.withdrawn.iter().filter(|(at, _)| *at > ask.revision.0);
                let groups = gone.map(|(at, key)| (Generation(*at), vec![key_name(key_hash(key))])).collect();
                let revision = Generation(self.revision);
                let page = WithdrawnPage { revision, policy: 1, groups, ..WithdrawnPage::default() };
                self.reply(to, Kind::Withdrawn, request, |out| Message::Withdrawn(page).emit(out));
            }
            // What servers of before Follow understand: asked when nobody has answered for a while.
            Message::Sync(sync) => {
                let since = |(at, _): &&(u64, Key)| *at > sync.revision.0;
                let gone = self.withdrawn.iter().filter(since);
                let withdrawn = gone.map(|&(at, key)| Withdrawal { generation: Generation(at), key }).collect();
                let body = Changes { revision: Generation(self.revision), policy: 1, reconfirm: false, withdrawn };
                self.reply(to, Kind::Changes, request, |out| Message::Changes(body).emit(out));
            }
            other => panic!("{other:?}"),
        }
    }

    fn reply(&mut self, from: SocketAddr, kind: Kind, request: u64, body: impl FnOnce(&mut Vec<u8>)) {
        let header = Header { kind, principal: ME, cookie: 7, request };
        let mut bytes = Vec::new();
        header.emit(&mut bytes);
        body(&mut bytes);
        self.tagger.seal(&mut bytes, 0);
        self.agent.handle(self.now, Input::Datagram { from, bytes: &bytes });
    }

    fn correct(&mut self, key: Key) {
        let (generation, finding) = self.finding(key);
        let body =
            Correction { revision: Generation(self.revision), policy: 1, key, generation: Generation(generation), finding };
        self.reply(SERVER.into(), Kind::Correction, 0, |out| Message::Correction(body).emit(out));
        self.drain();
    }

    fn tor_answers(&mut self, code: Code) {
        let request = *self.tor_heard.last().unwrap();
        let bytes = request.answered(code).emit(&AttachKey::of(&self.key));
        self.input(Input::AttachDatagram { from: TOR.into(), bytes: &bytes });
    }

    /// The ToR answers that it has accepted this sequence.
    fn tor_is_at(&mut self, newest: u64) {
        let bytes = self.tor_heard.last().unwrap().too_old(newest).emit(&AttachKey::of(&self.key));
        self.input(Input::AttachDatagram { from: TOR.into(), bytes: &bytes });
    }

    fn attachments(&mut self) -> Vec<AttachState> {
        let states =
            self.rest.iter().filter_map(|it| if let Output::Attachment { state, .. } = it { Some(*state) } else { None });
        let states = states.collect();
        self.rest.clear();
        states
    }
}

fn tor() -> Announce {
    Announce::Tor { address: TOR.into(), refresh: Duration::from_secs(20) }
}
