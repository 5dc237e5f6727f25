use proptest::prelude::*;
use weft_fabric::{MacAddr, TenantId};

use super::*;
use crate::directory::key::{Generation, GroupId, Locator, MacSpace, Mapping, ServiceId, Value};
use crate::directory::policy::Policy;
use crate::directory::testing::{any_key, any_value_of};
use crate::wire::directory::{Changes, Digest, Finding, Misdelivered, Op, State, Sync, Update, Versions};

const POLICY: &str = r#"
    version = 2
    [[service]]
    name = "web"
    id = 1
    [[service]]
    name = "db"
    id = 2
    allow = ["web"]
    [[principal]]
    id = 50
    role = "switch"
    [[principal]]
    id = 60
    role = "provisioner"
    [[principal]]
    id = 90
    role = "server"
    [[principal]]
    id = 91
    role = "server"
"#;

fn secret() -> Secret {
    Secret::new([3; 32])
}

fn front() -> Front {
    Front::new(secret(), Cookies::new([5; 16]), FrontConfig { me: PrincipalId(90), max_clients: 100, versions: Versions::OURS })
}

fn app(n: u8) -> Key {
    Key::App4([20, 0, 0, n].into())
}

fn vm(tenant: u32, n: u8) -> Key {
    Key::TenantMac(TenantId(tenant), MacSpace(0), MacAddr([2, 0, 0, 0, 0, n]))
}

/// `app(n)` and `vm(5, n)` live on principal n; 1 and 2 are of web, 3 of db, 4 of no service. Group 1.
fn shared() -> Shared {
    let mut shared = Shared::new(Policy::parse(POLICY).unwrap(), 1);
    let mut add = |key: Key, value: Value| shared.table.load(&key, Generation(7), Some(&value));
    for (n, service) in [(1, 1), (2, 1), (3, 2), (4, 0)] {
        let mapping = Mapping {
            locator: Locator::V4([10, 0, 0, n].into()),
            mac: None,
            group: GroupId(1),
            service: ServiceId(service),
            owner: PrincipalId(u32::from(n)),
            lease_ms: 1000,
        };
        add(app(n), Value::Mapping(mapping));
        add(vm(5, n), Value::Mapping(mapping));
        add(vm(6, n), Value::Mapping(mapping));
    }
    add(Key::Group(GroupId(1)), Value::Group(vec![[10, 1, 1, 1].into(); 16].into()));
    (shared.revision, shared.state) = (Generation(9), State::Serving);
    shared
}

struct Client {
    principal: PrincipalId,
    at: SocketAddr,
    cookie: u64,
    request: u64,
    secret: Secret,
}

impl Client {
    fn new(principal: u32) -> Self {
        let at = SocketAddr::from(([10, 9, 0, 1], principal as u16));
        Self { principal: PrincipalId(principal), at, cookie: 0, request: 0, secret: secret() }
    }

    fn seal(&mut self, kind: Kind, body: &[u8]) -> Vec<u8> {
        self.request += 1;
        let mut bytes = Vec::new();
        Header { kind, principal: self.principal, cookie: self.cookie, request: self.request }.emit(&mut bytes);
        bytes.extend_from_slice(body);
        self.secret.key_of(self.principal).tagger().seal(&mut bytes, 0);
        bytes
    }

    fn look_up(&mut self, asker: Option<Key>, keys: &[Key]) -> Vec<u8> {
        let mut body = Vec::new();
        Lookup::emit(Generation(0), asker.as_ref(), keys, &mut body);
        self.seal(Kind::Lookup, &body)
    }

    /// Sends, and answers a Challenge.
    fn send(&mut self, front: &mut Front, shared: &Shared, kind: Kind, body: &[u8]) -> (Verdict, Vec<u8>) {
        loop {
            let bytes = self.seal(kind, body);
            let mut out = Vec::new();
            let verdict = front.receive(Instant::ZERO, shared, self.at, &bytes, &mut out);
            if verdict != Verdict::Answer {
                return (verdict, out);
            }
            assert!(out.len() <= MAX_DATAGRAM && out.len() <= MAX_FACTOR * bytes.len());
            let frame = Frame::parse(&out).unwrap();
            assert!(self.secret.key_of(self.principal).tagger().verify(frame.covered, frame.tag));
            assert_eq!((frame.header.principal, frame.header.request), (self.principal, self.request));
            if frame.header.kind != Kind::Challenge {
                assert_eq!(frame.header.cookie, self.cookie);
                return (verdict, out);
            }
            assert!(out.len() <= bytes.len() && frame.header.cookie != self.cookie);
            self.cookie = frame.header.cookie;
        }
    }

    fn find(&mut self, front: &mut Front, shared: &Shared, asker: Option<Key>, keys: &[Key]) -> Vec<(u64, Finding)> {
        let mut body = Vec::new();
        Lookup::emit(Generation(0), asker.as_ref(), keys, &mut body);
        let (verdict, out) = self.send(front, shared, Kind::Lookup, &body);
        assert_eq!(verdict, Verdict::Answer);
        let Ok(Message::Answer(answer)) = Message::parse(Kind::Answer, Frame::parse(&out).unwrap().body) else {
            panic!("an answer")
        };
        assert_eq!(answer.policy, 2);
        answer.results().map(|(generation, finding)| (generation.0, finding)).collect()
    }
}

fn is_found(finding: &(u64, Finding)) -> bool {
    matches!(finding, (7, Finding::Found(_)))
}

#[test]
fn a_host_sees_what_its_own_key_may_see() {
    let (mut front, shared) = (front(), shared());
    let forbidden = (9, Finding::Forbidden);
    let mut web = Client::new(1);
    let all = [app(1), app(2), app(3), app(4), app(77)];
    let findings = web.find(&mut front, &shared, Some(app(1)), &all);
    assert!(findings[..3].iter().all(is_found));
    assert_eq!(findings[3..], [forbidden.clone(), (9, Finding::Unknown)]);
    let mut db = Client::new(3);
    let findings = db.find(&mut front, &shared, Some(app(3)), &all);
    assert!(is_found(&findings[2]) && findings[0] == forbidden && findings[1] == forbidden, "web is not allowed to db");
    // Somebody else's key, none, one that does not exist, a group: nothing but groups, and not even whether a key exists.
    for asker in [Some(app(2)), None, Some(app(99)), Some(Key::Group(GroupId(1)))] {
        let findings = web.find(&mut front, &shared, asker, &[app(1), app(77), Key::Group(GroupId(1))]);
        assert!(findings[..2].iter().all(|finding| *finding == forbidden) && is_found(&findings[2]), "{asker:?}");
    }
    let mut none = Client::new(4);
    assert_eq!(none.find(&mut front, &shared, Some(app(4)), &[app(4)]), std::slice::from_ref(&forbidden), "no service");
    let mut switch = Client::new(50);
    assert_eq!(switch.find(&mut front, &shared, None, &[app(1)]), [forbidden]);
    let mut provisioner = Client::new(60);
    assert!(is_found(&provisioner.find(&mut front, &shared, None, &[app(4)])[0]));
}

#[test]
fn tenants_see_their_own() {
    let (mut front, shared) = (front(), shared());
    let mut host = Client::new(1);
    let findings = host.find(&mut front, &shared, Some(vm(5, 1)), &[vm(5, 2), vm(6, 2), app(2), vm(6, 77), vm(5, 77)]);
    assert!(is_found(&findings[0]));
    assert!(findings[1..4].iter().all(|finding| finding.1 == Finding::Forbidden));
    assert_eq!(findings[4].1, Finding::Unknown);
    assert_eq!(host.find(&mut front, &shared, Some(app(1)), &[vm(5, 1)])[0].1, Finding::Forbidden);
}

#[test]
fn a_loading_or_late_server_sends_elsewhere_and_renews_no_leases() {
    let (mut front, mut shared) = (front(), shared());
    let mut host = Client::new(1);
    let mut body = Vec::new();
    Lookup::emit(Generation(10), Some(&app(1)), &[app(1)], &mut body);
    let (_, out) = host.send(&mut front, &shared, Kind::Lookup, &body);
    let Ok(Message::Answer(answer)) = Message::parse(Kind::Answer, Frame::parse(&out).unwrap().body) else { panic!("an answer") };
    assert_eq!(answer.results().next().unwrap(), (Generation(0), Finding::Elsewhere));
    let sync = |revision: u64, policy| {
        let mut body = Vec::new();
        Message::Sync(Sync { revision: Generation(revision), policy, padding: 40 }).emit(&mut body);
        body
    };
    for (revision, policy) in [(10, 2), (9, 3)] {
        assert_eq!(host.send(&mut front, &shared, Kind::Sync, &sync(revision, policy)).0, Verdict::Drop(Reason::Behind));
    }
    for state in [State::Loading, State::StoreLost] {
        shared.state = state;
        assert_eq!(host.send(&mut front, &shared, Kind::Sync, &sync(9, 2)).0, Verdict::Drop(Reason::Behind));
    }
    assert!(is_found(&host.find(&mut front, &shared, Some(app(1)), &[app(1)])[0]), "from memory while the store is lost");
    shared.state = State::Loading;
    assert_eq!(host.find(&mut front, &shared, Some(app(1)), &[app(1)])[0].1, Finding::Elsewhere);
    assert_eq!(front.counters().dropped(Reason::Behind), 4);
}

#[test]
fn sync_lists_withdrawals_if_there_is_room() {
    let (mut front, mut shared) = (front(), shared());
    shared.withdrawals.restart(Generation(2), Vec::new());
    for n in 3..9 {
        shared.withdrawals.push(Generation(n), app(n as u8));
    }
    let mut ask = |revision, policy, padding| {
        let mut body = Vec::new();
        Message::Sync(Sync { revision: Generation(revision), policy, padding }).emit(&mut body);
        let (verdict, out) = Client::new(1).send(&mut front, &shared, Kind::Sync, &body);
        assert_eq!(verdict, Verdict::Answer);
        let Ok(Message::Changes(Changes { reconfirm, withdrawn, .. })) =
            Message::parse(Kind::Changes, Frame::parse(&out).unwrap().body)
        else {
            panic!("changes")
        };
        (reconfirm, withdrawn.len())
    };
    assert_eq!(ask(9, 2, 0), (false, 0));
    assert_eq!(ask(4, 2, 0), (false, 4));
    assert_eq!(ask(1, 2, 0), (true, 0), "forgotten");
    assert_eq!(ask(9, 1, 0), (true, 0), "another policy");
    for n in 0..100 {
        shared.withdrawals.push(Generation(9), app(n));
    }
    let mut body = Vec::new();
    Message::Sync(Sync { revision: Generation(8), policy: 2, padding: 0 }).emit(&mut body);
    let (_, out) = Client::new(2).send(&mut front, &shared, Kind::Sync, &body);
    let Ok(Message::Changes(changes)) = Message::parse(Kind::Changes, Frame::parse(&out).unwrap().body) else {
        panic!("changes")
    };
    assert!(changes.reconfirm, "no room");
}

#[test]
fn forged_replayed_and_foreign_datagrams_are_dropped() {
    let (mut front, shared) = (front(), shared());
    let mut host = Client::new(1);
    host.find(&mut front, &shared, Some(app(1)), &[app(1)]);
    let mut receive = |from, bytes: &[u8]| front.receive(Instant::ZERO, &shared, from, bytes, &mut Vec::new());
    let good = host.look_up(Some(app(1)), &[app(1)]);
    let mut forged = good.clone();
    forged[30] ^= 1;
    assert_eq!(receive(host.at, &forged), Verdict::Drop(Reason::Tag));
    assert_eq!(receive(host.at, &good), Verdict::Answer);
    assert_eq!(receive(host.at, &good), Verdict::Drop(Reason::Replayed));
    let mut other = good.clone();
    other[2] = 9;
    assert_eq!(receive(host.at, &other), Verdict::Drop(Reason::Version));
    assert_eq!(receive(host.at, &[0; 1500]), Verdict::Drop(Reason::Oversized));
    assert_eq!(receive(host.at, b"WD"), Verdict::Drop(Reason::Malformed));
    assert_eq!(receive(host.at, &host.seal(Kind::Lookup, &[1])), Verdict::Drop(Reason::Malformed));
    assert_eq!(receive(host.at, &host.seal(Kind::Answer, &[1])), Verdict::Drop(Reason::Unexpected));
    assert_eq!(receive(host.at, &host.seal(Kind::Status, &[])), Verdict::Drop(Reason::Unexpected));
    let mut nobody = Client { principal: PrincipalId(0), ..Client::new(1) };
    assert_eq!(receive(host.at, &nobody.seal(Kind::Health, &[])), Verdict::Drop(Reason::Principal));
    // From another address it is a stranger's.
    let elsewhere = SocketAddr::from(([10, 9, 0, 2], 1));
    let mut out = Vec::new();
    assert_eq!(front.receive(Instant::ZERO, &shared, elsewhere, &good, &mut out), Verdict::Answer);
    assert_eq!(Frame::parse(&out).unwrap().header.kind, Kind::Challenge);
}

#[test]
fn a_restarted_client_is_challenged_and_its_old_datagrams_are_refused() {
    let (mut front, shared) = (front(), shared());
    let mut host = Client::new(1);
    for _ in 0..5 {
        host.find(&mut front, &shared, Some(app(1)), &[app(1)]);
    }
    let old = host.look_up(Some(app(1)), &[app(1)]);
    let mut again = Client::new(1);
    assert!(is_found(&again.find(&mut front, &shared, Some(app(1)), &[app(1)])[0]));
    let mut out = Vec::new();
    front.receive(Instant::ZERO, &shared, host.at, &old, &mut out);
    assert_eq!(Frame::parse(&out).unwrap().header.kind, Kind::Challenge);
    assert!(is_found(&again.find(&mut front, &shared, Some(app(1)), &[app(1)])[0]), "and nothing has changed for it");
}

#[test]
fn only_what_a_role_may_send_is_forwarded() {
    let (mut front, shared) = (front(), shared());
    let body = |message: Message<'_>| {
        let mut body = Vec::new();
        message.emit(&mut body);
        (message.kind(), body)
    };
    let report =
        body(Message::Misdelivered(Misdelivered { asker: app(1), key: app(2), stale: Locator::V4([1, 1, 1, 1].into()) }));
    let digest = body(Message::Digest(Digest { revision: Generation(1), entries: 1, hash: 1 }));
    let ops = vec![Op { key: app(1), expect: None, value: None }];
    let update = body(Message::Update(Update { number: 1, known: Generation(1), ops }));
    for (who, (kind, body), forwarded) in
        [(1, &report, false), (50, &report, true), (1, &digest, false), (91, &digest, true), (1, &update, true)]
    {
        let (verdict, _) = Client::new(who).send(&mut front, &shared, *kind, body);
        assert_eq!(matches!(verdict, Verdict::Forward(_)), forwarded, "{who} {kind:?}");
        assert!(forwarded || verdict == Verdict::Drop(Reason::Refused));
    }
    // Another server's answer has this server's principal.
    let answer = Client::new(90).seal(Kind::DigestAnswer, &digest.1);
    assert!(matches!(front.receive(Instant::ZERO, &shared, Client::new(91).at, &answer, &mut Vec::new()), Verdict::Forward(_)));
    let answer = Client::new(91).seal(Kind::DigestAnswer, &digest.1);
    assert_eq!(
        front.receive(Instant::ZERO, &shared, Client::new(91).at, &answer, &mut Vec::new()),
        Verdict::Drop(Reason::Unexpected)
    );
}

#[test]
fn clients_are_sighted_once_a_minute() {
    let (mut front, shared) = (front(), shared());
    let mut host = Client::new(1);
    host.find(&mut front, &shared, Some(app(1)), &[app(1)]);
    host.find(&mut front, &shared, Some(app(1)), &[app(1)]);
    let sighting = Sighting { principal: PrincipalId(1), at: host.at, cookie: host.cookie };
    assert_eq!((front.next_sighting(), front.next_sighting()), (Some(sighting), None));
    let later = Instant::ZERO.saturating_add(Duration::from_secs(61));
    let bytes = host.seal(Kind::Health, &[]);
    front.receive(later, &shared, host.at, &bytes, &mut Vec::new());
    assert_eq!(front.next_sighting(), Some(sighting));
}

proptest! {
    #[test]
    fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), kind: u8, sealed: bool, with_cookie: bool) {
        let (mut front, shared) = (front(), shared());
        let mut host = Client::new(90);
        if with_cookie {
            host.send(&mut front, &shared, Kind::Health, &[]);
        }
        let mut datagram = bytes.clone();
        if sealed {
            datagram = host.seal(Kind::Health, &bytes);
            datagram.truncate(datagram.len() - TAG);
            datagram[3] = kind;
            secret().key_of(host.principal).tagger().seal(&mut datagram, 0);
        }
        let mut out = Vec::new();
        let verdict = front.receive(Instant::ZERO, &shared, host.at, &datagram, &mut out);
        prop_assert_eq!(verdict == Verdict::Answer, !out.is_empty());
        prop_assert!(out.len() <= MAX_DATAGRAM && out.len() <= MAX_FACTOR * datagram.len());
        front.receive_frame(Instant::ZERO, (host.at, StreamId(1)), &datagram, &mut out);
    }

    /// Whatever is asked of whatever is held, no answer is too long, and each finds as many keys as fit; a batch answers as single datagrams do.
    #[test]
    fn answers_keep_within_their_size(
        held in prop::collection::vec(any_key().prop_flat_map(|key| (Just(key), any_value_of(key))), 1..40),
        picks in prop::collection::vec(prop::collection::vec(0usize..60, 1..32), 1..40),
    ) {
        let mut shared = Shared::new(Policy::open([]), 3);
        (shared.revision, shared.state) = (Generation(9), State::Serving);
        for (key, value) in &held {
            shared.table.load(key, Generation(1), Some(value));
        }
        let (mut single, mut batched) = (front(), front());
        let mut host = Client::new(1);
        host.send(&mut single, &shared, Kind::Health, &[]);
        let health = Client { request: 100, ..Client::new(1) }.seal(Kind::Health, &[]);
        batched.receive(Instant::ZERO, &shared, host.at, &health, &mut Vec::new());
        let (mut batch, mut expected) = (Vec::new(), Vec::new());
        let health = host.seal(Kind::Health, &[]);
        batched.receive(Instant::ZERO, &shared, host.at, &health, &mut Vec::new());
        for pick in picks {
            let keys: Vec<Key> = pick.iter().map(|&at| held.get(at).map_or(app(at as u8), |held| held.0)).collect();
            let bytes = host.look_up(None, &keys);
            let mut out = Vec::new();
            prop_assert_eq!(single.receive(Instant::ZERO, &shared, host.at, &bytes, &mut out), Verdict::Answer);
            prop_assert!(out.len() <= MAX_DATAGRAM && out.len() <= MAX_FACTOR * bytes.len());
            let Ok(Message::Answer(answer)) = Message::parse(Kind::Answer, Frame::parse(&out).unwrap().body) else { panic!("an answer") };
            prop_assert!(answer.count > 0);
            for ((_, finding), key) in answer.results().zip(&keys) {
                let expected = held.iter().find(|held| held.0 == *key).map_or(Finding::Unknown, |held| Finding::Found(held.1.clone()));
                prop_assert_eq!(finding, expected);
            }
            batch.push(bytes);
            expected.push(out);
        }
        let slices: Vec<(SocketAddr, &[u8])> = batch.iter().map(|bytes| (host.at, bytes.as_slice())).collect();
        let mut answers = Vec::new();
        batched.receive_batch(Instant::ZERO, &shared, &slices, |at, verdict, bytes| answers.push((at, verdict, bytes.to_vec())));
        for (at, (place, verdict, bytes)) in answers.iter().enumerate() {
            prop_assert_eq!((*place, verdict, bytes), (at, &Verdict::Answer, &expected[at]));
        }
        prop_assert_eq!(answers.len(), expected.len());
    }
}

/// While there are two secrets each host is answered under the key that it used, and may change to the new one at any time.
#[test]
fn keys_of_an_old_secret_are_good_while_it_is_there() {
    let (old, shared) = (Secret::new([4; 32]), shared());
    let config = FrontConfig { me: PrincipalId(90), max_clients: 100, versions: Versions::OURS };
    let mut front = Front::new(secret().and_old(&old), Cookies::new([5; 16]), config);
    let mut host = Client { secret: old.clone(), ..Client::new(1) };
    let mut other = Client::new(2);
    for _ in 0..2 {
        assert!(is_found(&host.find(&mut front, &shared, Some(app(1)), &[app(2)])[0]));
        assert!(is_found(&other.find(&mut front, &shared, Some(app(2)), &[app(1)])[0]));
    }
    // The machine makes its answers by the cookie.
    for client in [&host, &other] {
        assert!(secret().and_old(&old).key_by_cookie(client.principal, client.cookie) == client.secret.key_of(client.principal));
    }
    // It gets its new key, goes back, and changes again: one challenge each.
    let challenges = front.counters().challenges;
    let replayed = host.look_up(Some(app(1)), &[app(2)]);
    for secret in [secret(), old.clone(), secret()] {
        host.secret = secret;
        assert!(is_found(&host.find(&mut front, &shared, Some(app(1)), &[app(2)])[0]));
    }
    assert_eq!(front.counters().challenges - challenges, 3);
    let mut out = Vec::new();
    assert_eq!(front.receive(Instant::ZERO, &shared, host.at, &replayed, &mut out), Verdict::Answer);
    assert_eq!(Frame::parse(&out).unwrap().header.kind, Kind::Challenge, "what was recorded before gets no answer");
    assert!(is_found(&host.find(&mut front, &shared, Some(app(1)), &[app(2)])[0]), "and changes nothing");
    // A third secret's, and the old one's when its time is over, are not.
    host.secret = Secret::new([5; 32]);
    let forged = host.look_up(Some(app(1)), &[app(2)]);
    assert_eq!(front.receive(Instant::ZERO, &shared, host.at, &forged, &mut out), Verdict::Drop(Reason::Tag));
    let mut front = Front::new(secret(), Cookies::new([6; 16]), config);
    host.secret = old;
    let late = host.look_up(Some(app(1)), &[app(2)]);
    assert_eq!(front.receive(Instant::ZERO, &shared, host.at, &late, &mut out), Verdict::Drop(Reason::Tag));
}

/// A secret that is replaced while the front runs costs a host a challenge when its own key changes, and nothing else.
#[test]
fn a_secret_is_replaced_while_hosts_go_on() {
    let (shared, config) = (shared(), FrontConfig { me: PrincipalId(90), max_clients: 100, versions: Versions::OURS });
    let secrets = [1, 2, 3].map(|byte| Secret::new([byte; 32]));
    let mut secret = secrets[0].clone();
    let mut front = Front::new(secret.clone(), Cookies::new([5; 16]), config);
    let at = |port: u16| SocketAddr::from(([10, 9, 0, 1], port));
    let mut hosts = [1, 2, 3].map(|port| Client { at: at(port), secret: secret.clone(), ..Client::new(1) });
    let ask = |front: &mut Front, host: &mut Client| is_found(&host.find(front, &shared, Some(app(1)), &[app(2)])[0]);
    assert!(hosts.iter_mut().all(|host| ask(&mut front, host)));
    let mut expected = front.counters().challenges;
    for pair in secrets.windows(2) {
        secret = secret.replaced_by(&pair[1].clone().and_old(&pair[0]));
        front.set_secret(secret.clone());
        assert!(hosts.iter_mut().all(|host| ask(&mut front, host)));
        assert_eq!(front.counters().challenges, expected, "no host notices that there is another secret");
        for host in &mut hosts[..2] {
            host.secret = pair[1].clone();
            assert!(ask(&mut front, host));
        }
        expected += 2;
        assert_eq!(front.counters().challenges, expected, "one for each changed key");
        for host in &hosts {
            assert!(secret.key_by_cookie(host.principal, host.cookie) == host.secret.key_of(host.principal));
        }
        // The old one's time is over; the third host has not changed its key.
        secret = secret.replaced_by(&pair[1]);
        front.set_secret(secret.clone());
        assert!(hosts[..2].iter_mut().all(|host| ask(&mut front, host)));
        assert_eq!(front.counters().challenges, expected, "no host notices that the old one is gone");
        let mut out = Vec::new();
        let late = hosts[2].look_up(Some(app(1)), &[app(2)]);
        assert_eq!(front.receive(Instant::ZERO, &shared, hosts[2].at, &late, &mut out), Verdict::Drop(Reason::Tag));
        hosts[2].secret = pair[1].clone();
        assert!(ask(&mut front, &mut hosts[2]), "now it has");
        expected += 1;
        assert_eq!(front.counters().challenges, expected);
    }
}

#[test]
fn another_version_is_answered_so_if_its_sender_has_a_key() {
    let (mut front, shared, mut client) = (front(), shared(), Client::new(1));
    let of_version = |client: &mut Client, version: u8, kind: u8| {
        let mut bytes = client.look_up(None, &[app(1)]);
        bytes.truncate(bytes.len() - TAG);
        (bytes[2], bytes[3]) = (version, kind);
        client.secret.key_of(client.principal).tagger().seal(&mut bytes, 0);
        bytes
    };
    for (version, kind) in [(2, 0x01), (2, 0x7e), (0, 0x01), (255, 0x03)] {
        let bytes = of_version(&mut client, version, kind);
        let mut out = Vec::new();
        assert_eq!(front.receive(Instant::ZERO, &shared, client.at, &bytes, &mut out), Verdict::Answer);
        let frame = Frame::parse(&out).expect("in this server's own version");
        assert_eq!((frame.header.kind, frame.header.request), (Kind::Unsupported, client.request));
        assert!(client.secret.key_of(client.principal).tagger().verify(frame.covered, frame.tag));
        assert!(out.len() <= bytes.len(), "nothing is gained by reflecting");
    }
    assert_eq!(front.counters().dropped(Reason::Version), 4);
    // An answer is never answered, nor is a message without a right tag.
    let mut forged = of_version(&mut client, 2, 0x01);
    *forged.last_mut().unwrap() ^= 1;
    for bytes in [of_version(&mut client, 2, 0x81), forged, b"WD\x02\x01".to_vec()] {
        let mut out = Vec::new();
        assert_eq!(front.receive(Instant::ZERO, &shared, client.at, &bytes, &mut out), Verdict::Drop(Reason::Version));
        assert!(out.is_empty());
    }
}

#[test]
fn a_denied_principal_is_not_answered_not_even_by_a_challenge() {
    let (mut front, mut shared) = (front(), shared());
    let (mut host, mut other) = (Client::new(1), Client::new(2));
    host.find(&mut front, &shared, Some(app(1)), &[app(1)]);
    shared.denied.insert(PrincipalId(1));
    assert_eq!(host.send(&mut front, &shared, Kind::Health, &[]).0, Verdict::Drop(Reason::Denied));
    let again = Client::new(1).seal(Kind::Health, &[]);
    let elsewhere = SocketAddr::from(([10, 9, 0, 9], 1));
    assert_eq!(front.receive(Instant::ZERO, &shared, elsewhere, &again, &mut Vec::new()), Verdict::Drop(Reason::Denied));
    assert_eq!(other.send(&mut front, &shared, Kind::Health, &[]).0, Verdict::Answer, "others are");
    shared.denied.clear();
    assert_eq!(host.send(&mut front, &shared, Kind::Health, &[]).0, Verdict::Answer);
}

/// Agents that ask in turn, as many as a large data centre has: none is forgotten between two of its requests.
#[test]
fn a_hundred_thousand_clients_are_challenged_once() {
    let max_clients = crate::directory::server::ServerConfig::new(PrincipalId(9), Vec::new()).max_clients;
    let mut clients = super::clients::Clients::new(Cookies::new([1; 16]), max_clients);
    let tagger = Secret::new([1; 32]).key_of(PrincipalId(1)).tagger();
    let at = |n: u32| (PrincipalId(n), SocketAddr::from((n.to_be_bytes(), 7)));
    for round in 0..2 {
        for n in 1..=100_000 {
            let (principal, from) = at(n);
            let known = clients.find(principal, from);
            assert_eq!(known.is_some(), round > 0, "client {n} in round {round}");
            let client = known.unwrap_or_else(|| clients.insert(principal, from, tagger.clone()));
            clients.touch(client);
        }
    }
    let bytes = size_of::<super::clients::Client>() + 2 * (size_of::<(u128, u64, u32)>() + 1);
    println!("{bytes} bytes a client, {} MB for {max_clients}", (bytes * max_clients) >> 20);
    assert!(bytes <= 420, "docs/directory.md says 400: {bytes}");
}
