mod silence;

use weft_fabric::MacAddr;

use crate::wire::versions::{VERSION, Versions};
use crate::wire::vl2::attach::{AttachKey, Unsupported};
use std::collections::BTreeMap;

use weft_fabric::rng;

use super::*;
use crate::directory::GroupId;
use crate::directory::auth::{Secret, Tagger};
use crate::vl2::agent::DIRECTORY_GROUP;
use crate::wire::directory::{
    Acknowledgement, AnswerWriter, Finding, Frame as DirectoryFrame, Header, Kind as DirectoryKind, Message, Misdelivered,
    Outcome, State, Vitals,
};

const ME: PrincipalId = PrincipalId(40);
const HOST: PrincipalId = PrincipalId(17);
const OTHER: PrincipalId = PrincipalId(18);
const HERE: &str = "10.1.1.1";
const THERE: &str = "10.1.2.1";

fn secret() -> Secret {
    Secret::new([3; 32])
}

fn server() -> SocketAddr {
    "10.5.0.1:5303".parse().unwrap()
}

fn aa(n: u8) -> IpAddr {
    IpAddr::from([20, 0, 0, n])
}

fn attach_key(host: PrincipalId) -> AttachKey {
    AttachKey::of(&secret().key_of(host))
}

fn hosts() -> Vec<Host> {
    let host =
        |principal, port, address: &str| Host { principal, key: attach_key(principal), port, address: address.parse().unwrap() };
    vec![host(HOST, 3, "10.1.1.2"), host(OTHER, 4, "10.1.1.3")]
}

/// A ToR, its clock, and a directory that answers as a server would: one table, generations that grow.
struct World {
    tor: Tor,
    now: Instant,
    table: BTreeMap<IpAddr, (Generation, Mapping)>,
    revision: u64,
    tagger: Tagger,
    /// Directory servers, as the directory has them.
    servers: Option<Vec<IpAddr>>,
    /// Whether the directory answers, and takes updates.
    answers: bool,
    takes: Outcome,
    /// Datagrams to the hosts, inserts and removes; reports.
    out: Vec<Output>,
    reports: Vec<Misdelivered>,
}

/// The directory's life: the first request of it is challenged.
const COOKIE: u64 = 77;

impl World {
    fn new() -> Self {
        Self::with(|_| {})
    }

    fn with(change: impl FnOnce(&mut TorConfig)) -> Self {
        let mut config =
            TorConfig { first_number: 1_000_000_000_000, addresses_per_host: 4, ..TorConfig::new(ME, HERE.parse().unwrap()) };
        change(&mut config);
        let mut tor = Tor::new(config, &secret().key_of(ME), rng::Pcg64::new(1, 1));
        tor.handle(Instant::ZERO, Input::SetServers(&[server()]));
        tor.handle(Instant::ZERO, Input::SetHosts(hosts()));
        let tagger = secret().key_of(ME).tagger();
        let table = BTreeMap::new();
        Self {
            tor,
            now: Instant::ZERO,
            table,
            revision: 1,
            tagger,
            servers: None,
            answers: true,
            takes: Outcome::Committed,
            out: vec![],
            reports: vec![],
        }
    }

    fn provision(&mut self, n: u8, locator: &str, owner: PrincipalId) {
        self.revision += 1;
        let mapping = Mapping {
            locator: locator.parse().unwrap(),
            mac: None,
            group: GroupId(1),
            service: ServiceId(5),
            owner,
            lease_ms: 60_000,
        };
        self.table.insert(aa(n), (Generation(self.revision), mapping));
    }

    fn locator(&self, n: u8) -> String {
        self.table[&aa(n)].1.locator.to_string()
    }

    fn message(kind: Kind, host: PrincipalId, n: u8, sequence: u64) -> Attach {
        let mac = MacAddr([2, 0, 0, 0, 0, n]);
        Attach {
            version: VERSION,
            kind,
            answer: None,
            principal: host,
            sequence: 1_000_000_000_000 + sequence,
            address: aa(n),
            mac,
            service: ServiceId(0),
        }
    }

    fn say(&mut self, message: &Attach) {
        let host = hosts().into_iter().find(|host| host.principal == message.principal).unwrap();
        let bytes = message.emit(&host.key);
        self.attach((host.address, 6000).into(), host.port, &bytes);
    }

    fn attach(&mut self, from: SocketAddr, port: u32, bytes: &[u8]) {
        self.tor.handle(self.now, Input::Attach { from, port, bytes });
        self.settle();
    }

    /// All that follows without time passing.
    fn settle(&mut self) {
        while let Some(output) = self.tor.poll() {
            match output {
                Output::Send { channel, to, bytes } if self.answers => {
                    if let Some(answer) = self.directory(&bytes) {
                        self.tor.handle(self.now, Input::Directory { channel, from: to, bytes: &answer });
                    }
                }
                Output::Send { .. } => {}
                other => self.out.push(other),
            }
        }
    }

    fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        while let Some(at) = self.tor.deadline().filter(|&at| at <= end) {
            self.now = at.max(self.now);
            self.tor.handle(self.now, Input::Timer);
            self.settle();
        }
        self.now = end;
    }

    fn directory(&mut self, bytes: &[u8]) -> Option<Vec<u8>> {
        let frame = DirectoryFrame::parse_as(Versions::NEXT, bytes).unwrap();
        assert!(frame.header.principal == ME && self.tagger.verify(frame.covered, frame.tag));
        let (kind, body) = self.judge(&frame)?;
        let mut out = Vec::new();
        Header { kind, cookie: COOKIE, ..frame.header }.emit(&mut out);
        out.extend(body);
        self.tagger.seal(&mut out, 0);
        Some(out)
    }

    fn judge(&mut self, frame: &DirectoryFrame<'_>) -> Option<(DirectoryKind, Vec<u8>)> {
        let mut body = Vec::new();
        if frame.header.cookie != COOKIE {
            Message::Challenge.emit(&mut body);
            return Some((DirectoryKind::Challenge, body));
        }
        let revision = Generation(self.revision);
        Some(match Message::parse(frame.header.kind, frame.body).unwrap() {
            Message::Lookup(ask) => {
                let mut writer = AnswerWriter::new(&mut body, 1000, revision, 1);
                let ip = match ask.keys().next().unwrap() {
                    Key::App4(ip) => ip,
                    Key::Group(DIRECTORY_GROUP) => {
                        let servers = self.servers.as_ref().map(|all| Value::Group(all.iter().copied().collect()));
                        writer.push(revision, &servers.map_or(Finding::Unknown, Finding::Found));
                        return Some((DirectoryKind::Answer, body));
                    }
                    other => panic!("{other:?}"),
                };
                match self.table.get(&IpAddr::V4(ip)) {
                    Some((generation, mapping)) => writer.found(*generation, mapping),
                    None => writer.push(revision, &Finding::Unknown),
                };
                (DirectoryKind::Answer, body)
            }
            Message::Update(update) => {
                let (outcome, generation) = self.update(&update.ops[0]);
                Message::Acknowledgement(Acknowledgement { number: update.number, outcome, at: 0, generation }).emit(&mut body);
                (DirectoryKind::Acknowledgement, body)
            }
            Message::Health => {
                let vitals = Vitals { state: State::Serving, revision, policy: 1, entries: 0, hash: 0 };
                Message::Vitals(vitals).emit(&mut body);
                (DirectoryKind::Vitals, body)
            }
            Message::Misdelivered(report) => {
                self.reports.push(report);
                return None;
            }
            // As a server of before: it does not answer.
            Message::Parts(_) => return None,
            other => panic!("{other:?}"),
        })
    }

    fn update(&mut self, op: &Op) -> (Outcome, Generation) {
        let Key::App4(ip) = op.key else { panic!("an address") };
        let Some(Value::Mapping(new)) = op.value else { panic!("a mapping") };
        let (generation, old) = self.table[&IpAddr::V4(ip)];
        assert_eq!(Mapping { locator: old.locator, ..new }, old, "nothing but the locator");
        if op.expect != Some(generation) {
            return (Outcome::Conflict, generation);
        }
        if self.takes == Outcome::Committed {
            self.revision += 1;
            self.table.insert(IpAddr::V4(ip), (Generation(self.revision), new));
        }
        (self.takes, Generation(self.revision))
    }

    /// What has come out since: the codes of answers, and what became of the table.
    fn events(&mut self) -> Vec<String> {
        let show = |output: Output| match output {
            Output::Answer { to, bytes } => {
                let frame = Frame::parse(&bytes).unwrap();
                assert!(frame.is_of(&attach_key(frame.message.principal)) && to.port() == 6000);
                format!("{} {:?}", frame.message.sequence - 1_000_000_000_000, frame.message.answer.unwrap())
            }
            Output::Insert { address, port, .. } => format!("+{address} {port}"),
            Output::Remove { address } => format!("-{address}"),
            Output::Probe { address, port } => format!("?{address} {port}"),
            Output::Send { .. } => unreachable!("handled"),
        };
        std::mem::take(&mut self.out).into_iter().map(show).collect()
    }
}

const S: Duration = Duration::from_secs(1);

#[test]
fn an_address_is_attached_when_the_directory_has_it_here() {
    let mut world = World::new();
    world.provision(1, THERE, HOST);
    world.say(&World::message(Kind::Attach, HOST, 1, 1));
    assert_eq!(world.events(), ["+20.0.0.1 3", "1 Done"]);
    assert_eq!(world.locator(1), HERE);
    // A repetition is answered again, a refresh as well, and both change nothing.
    let generation = world.table[&aa(1)].0;
    world.say(&World::message(Kind::Attach, HOST, 1, 1));
    world.say(&Attach { service: ServiceId(5), ..World::message(Kind::Attach, HOST, 1, 1) });
    world.say(&World::message(Kind::Attach, HOST, 1, 2));
    assert_eq!(world.events(), ["1 Done", "1 Done", "2 Done"]);
    assert_eq!(world.table[&aa(1)].0, generation);
    world.say(&World::message(Kind::Detach, HOST, 1, 3));
    assert_eq!(world.events(), ["-20.0.0.1", "3 Done"]);
    assert_eq!(world.locator(1), HERE, "the next host to attach changes it");
    assert_eq!(world.tor.local().count(), 0);
}

#[test]
fn the_answer_waits_for_the_commit_and_the_table_does_not() {
    let mut world = World::new();
    world.provision(1, THERE, HOST);
    world.takes = Outcome::Elsewhere;
    world.say(&World::message(Kind::Attach, HOST, 1, 1));
    world.pass(S);
    assert_eq!(world.events(), ["+20.0.0.1 3"]);
    world.takes = Outcome::Committed;
    world.pass(S * 5);
    assert_eq!(world.events(), ["1 Done"]);
}

#[test]
fn whose_address_it_is_the_directory_says() {
    let mut world = World::new();
    world.provision(1, THERE, OTHER);
    world.say(&World::message(Kind::Attach, HOST, 1, 1));
    assert_eq!(world.events(), [""; 0], "a server may be behind");
    world.pass(S);
    assert_eq!(world.events(), ["1 NotOwner"]);
    world.say(&World::message(Kind::Attach, HOST, 9, 2));
    world.pass(S);
    assert_eq!(world.events(), ["2 Unknown"]);
    let wrong_service = Attach { service: ServiceId(6), ..World::message(Kind::Attach, OTHER, 1, 3) };
    world.say(&wrong_service);
    world.pass(S);
    assert_eq!(world.events(), ["3 OtherService"]);
    world.takes = Outcome::Refused;
    world.say(&World::message(Kind::Attach, OTHER, 1, 4));
    assert_eq!(world.events(), ["+20.0.0.1 4", "-20.0.0.1", "4 Forbidden"]);
    assert_eq!((world.locator(1).as_str(), world.tor.counts().refused), (THERE, 4));
}

#[test]
fn a_new_owner_is_believed_once_the_servers_have_heard_of_it() {
    let mut world = World::new();
    world.provision(1, THERE, OTHER);
    world.say(&World::message(Kind::Attach, HOST, 1, 1));
    world.provision(1, THERE, HOST);
    world.pass(S);
    assert_eq!(world.events(), ["+20.0.0.1 3", "1 Done"]);
}

#[test]
fn an_address_moves_from_one_port_to_another() {
    let mut world = World::new();
    world.provision(1, THERE, HOST);
    world.say(&World::message(Kind::Attach, HOST, 1, 1));
    world.provision(1, HERE, OTHER);
    world.say(&World::message(Kind::Attach, OTHER, 1, 2));
    assert_eq!(world.events(), ["+20.0.0.1 3", "1 Done", "+20.0.0.1 4", "2 Done"]);
    // The old host still believes that it has it.
    world.say(&World::message(Kind::Attach, HOST, 1, 3));
    world.pass(S);
    world.say(&World::message(Kind::Detach, HOST, 1, 4));
    assert_eq!(world.events(), ["3 NotOwner", "4 Done"]);
    assert_eq!(world.tor.local().next().unwrap().1.port, 4, "and cannot take it from the new one");
}

#[test]
fn a_host_of_another_version_is_answered_so() {
    let mut world = World::new();
    world.provision(1, THERE, HOST);
    let message = Attach { version: VERSION + 1, ..World::message(Kind::Attach, HOST, 1, 10) };
    let (key, from) = (attach_key(HOST), SocketAddr::from(([10, 1, 1, 2], 6000)));
    world.attach(from, 3, &message.emit(&key));
    let Some(Output::Answer { to, bytes }) = world.out.pop() else { panic!("an answer") };
    let answer = Unsupported { version: VERSION, principal: HOST, sequence: message.sequence };
    assert_eq!((to, Unsupported::parse(&bytes, &key)), (from, Some(answer)));
    // Not to who has no key, is elsewhere, or is unknown; the host may say the same in this version.
    world.attach(from, 3, &message.emit(&attach_key(OTHER)));
    world.attach(from, 4, &message.emit(&key));
    world.attach(from, 3, &Attach { principal: PrincipalId(99), ..message }.emit(&key));
    let counts = world.tor.counts();
    assert_eq!((counts.unsupported, counts.bad_tags, counts.strangers), (1, 1, 2));
    world.say(&Attach { version: VERSION, ..message });
    assert_eq!(world.events(), ["+20.0.0.1 3", "10 Done"]);
}

#[test]
fn a_newer_tor_answers_in_the_version_of_the_host() {
    for version in [VERSION, VERSION + 1] {
        let mut world = World::with(|config| config.versions = Versions::NEXT);
        world.provision(1, HERE, HOST);
        let message = Attach { version, ..World::message(Kind::Attach, HOST, 1, 10) };
        world.say(&message);
        let answered =
            world.out.iter().find_map(|output| if let Output::Answer { bytes, .. } = output { Some(bytes) } else { None });
        assert_eq!(Frame::parse_as(Versions::NEXT, answered.unwrap()).unwrap().message, message.answered(Code::Done));
    }
}

#[test]
fn strangers_forgers_and_replays_are_counted_and_change_nothing() {
    let mut world = World::new();
    world.provision(1, THERE, HOST);
    let message = World::message(Kind::Attach, HOST, 1, 10);
    let good = message.emit(&attach_key(HOST));
    let (address, port) = (SocketAddr::from(([10, 1, 1, 2], 6000)), 3);
    world.attach(address, 4, &good);
    world.attach(SocketAddr::from(([10, 1, 1, 3], 6000)), port, &good);
    world.attach(address, port, &Attach { principal: PrincipalId(99), ..message }.emit(&attach_key(PrincipalId(99))));
    world.attach(address, port, &message.emit(&attach_key(OTHER)));
    world.attach(address, port, &good[..40]);
    world.attach(address, port, &message.answered(Code::Done).emit(&attach_key(HOST)));
    assert_eq!(world.events(), [""; 0]);
    let counts = world.tor.counts();
    assert_eq!((counts.strangers, counts.bad_tags, counts.malformed, counts.attached), (3, 1, 2, 0));
    // Attached, detached; then somebody who has listened says the first again.
    world.say(&message);
    world.say(&World::message(Kind::Detach, HOST, 1, 11));
    world.events();
    world.say(&message);
    world.say(&World::message(Kind::Attach, HOST, 1, 11));
    assert_eq!(world.events(), ["10 Old", "11 Old"]);
    world.pass(S * 100);
    world.say(&message);
    assert_eq!(world.events(), ["10 Old"], "also when the address itself is forgotten");
    // A restarted switch takes nothing from long before.
    let old = Attach { sequence: 1_000_000_000_000 - CLOCKS_APART_NS, ..message };
    let mut world = World::new();
    world.attach(address, port, &old.emit(&attach_key(HOST)));
    assert_eq!((world.out.len(), world.tor.counts().replayed), (1, 1));
}

#[test]
fn without_a_directory_nobody_is_answered_and_later_all_are() {
    let mut world = World::new();
    world.provision(1, THERE, HOST);
    world.answers = false;
    let message = World::message(Kind::Attach, HOST, 1, 1);
    world.say(&message);
    world.pass(S * 15);
    assert_eq!(world.events(), [""; 0]);
    world.answers = true;
    world.say(&message);
    world.pass(S);
    assert_eq!(world.events(), ["+20.0.0.1 3", "1 Done"]);
}

#[test]
fn no_answer_is_older_than_the_request_that_it_decides() {
    let mut world = World::new();
    world.provision(1, HERE, HOST);
    world.settle();
    let (from, bytes) = ("10.1.1.3:6000".parse().unwrap(), World::message(Kind::Attach, OTHER, 1, 1).emit(&attach_key(OTHER)));
    world.tor.handle(world.now, Input::Attach { from, port: 4, bytes: &bytes });
    let Some(Output::Send { channel, to, bytes }) = world.tor.poll() else { panic!("a lookup") };
    let late = world.directory(&bytes).unwrap();
    world.provision(1, THERE, HOST);
    world.say(&World::message(Kind::Attach, HOST, 1, 2));
    world.tor.handle(world.now, Input::Directory { channel, from: to, bytes: &late });
    world.pass(S);
    let mut events = world.events();
    events.sort_unstable();
    assert_eq!(events, ["+20.0.0.1 3", "1 NotOwner", "2 Done"]);
    assert_eq!(world.locator(1), HERE, "the late answer said so, and it was not so any more");
}

#[test]
fn one_host_does_not_fill_the_switch() {
    let mut world = World::new();
    for n in 1..=4 {
        world.provision(n, THERE, HOST);
        world.say(&World::message(Kind::Attach, HOST, n, u64::from(n)));
    }
    world.provision(5, THERE, HOST);
    world.say(&World::message(Kind::Attach, HOST, 5, 5));
    assert_eq!(world.events().last().unwrap(), "5 Full");
    // What it has detached makes room, and cannot be said again.
    world.say(&World::message(Kind::Detach, HOST, 1, 6));
    world.say(&World::message(Kind::Attach, HOST, 5, 7));
    world.say(&World::message(Kind::Attach, HOST, 1, 6));
    assert_eq!(world.events(), ["-20.0.0.1", "6 Done", "+20.0.0.5 3", "7 Done", "6 Old"]);
}

#[test]
fn a_host_that_is_no_more_loses_its_addresses() {
    let mut world = World::new();
    world.provision(1, THERE, HOST);
    world.say(&World::message(Kind::Attach, HOST, 1, 1));
    world.events();
    world.tor.handle(world.now, Input::SetHosts(hosts()));
    world.settle();
    assert_eq!(world.events(), [""; 0]);
    world.tor.handle(world.now, Input::SetHosts(vec![hosts().remove(1)]));
    world.settle();
    assert_eq!(world.events(), ["-20.0.0.1"]);
}

#[test]
fn undeliverable_packets_are_reported_and_not_too_often() {
    let mut world = World::new();
    world.provision(1, THERE, HOST);
    let sample = |world: &mut World, destination: IpAddr| {
        world.tor.handle(world.now, Input::Undeliverable { source: aa(7), destination });
        world.settle();
    };
    (0..50).for_each(|_| sample(&mut world, aa(1)));
    assert_eq!(world.reports.len(), 1, "challenged, and sent again");
    let report = world.reports[0];
    assert_eq!((report.asker, report.key, report.stale.to_string()), (Key::from(aa(7)), Key::from(aa(1)), HERE.to_owned()));
    world.pass(S);
    sample(&mut world, aa(1));
    assert_eq!((world.reports.len(), world.tor.counts().unreported), (2, 49));
    world.say(&World::message(Kind::Attach, HOST, 1, 1));
    world.pass(S);
    sample(&mut world, aa(1));
    assert_eq!(world.reports.len(), 2, "it is here now");
}

#[test]
fn directory_servers_that_move_are_followed() {
    let mut world = World::new();
    world.settle();
    assert_eq!(world.tor.servers(), [server()]);
    world.servers = Some(vec![IpAddr::from([10, 6, 0, 1])]);
    world.pass(S * 21);
    let moved: SocketAddr = "10.6.0.1:5303".parse().unwrap();
    assert_eq!(world.tor.servers(), [server(), moved]);
    // Nobody answers for a while: what is known stays, and is asked for again.
    world.answers = false;
    world.servers = None;
    world.pass(S * 65);
    assert_eq!(world.tor.servers(), [server(), moved]);
    world.answers = true;
    world.pass(S * 25);
    assert_eq!(world.tor.servers(), [server()]);
}
