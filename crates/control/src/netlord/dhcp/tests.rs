use std::collections::BTreeMap;

use proptest::prelude::*;
use weft_fabric::rng::{self, Stream};

use super::*;
use crate::wire::netlord::dhcp::{emit_reply, parse_request};
use crate::wire::packet::ethernet::VlanId;

const ME: MacAddr = MacAddr([2, 0, 0, 0, 0, 7]);
const OTHER: MacAddr = MacAddr([2, 0, 0, 0, 0, 8]);
const NEAR: Server = Server { mac: MacAddr([2, 0, 0, 0, 1, 1]), ip: Ipv4Addr::new(10, 1, 0, 1) };
const FAR: Server = Server { mac: MacAddr([2, 0, 0, 0, 1, 2]), ip: Ipv4Addr::new(10, 1, 0, 2) };
const ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 1, 0, 9);
const LEASE_S: u32 = 1000;

/// A server that leases one address to each client, and keeps to RFC 2131 section 4.3.
struct Model {
    at: Server,
    address: Ipv4Addr,
    /// Until when each address is whose.
    leased: BTreeMap<Ipv4Addr, (MacAddr, Instant)>,
    says_no: bool,
}

impl Model {
    fn new(at: Server, address: Ipv4Addr) -> Self {
        Self { at, address, leased: BTreeMap::new(), says_no: false }
    }

    fn answer(&mut self, now: Instant, request: &Request) -> Option<Reply> {
        if request.to.is_some_and(|(server, _)| server != self.at) {
            return None;
        }
        let answer = match request.question {
            Question::Discover => Answer::Offer(self.address),
            Question::Request(_, Some(server)) if server != self.at.ip => return None,
            Question::Request(address, _) if address != self.address || self.says_no => Answer::Nak,
            Question::Request(address, _) => {
                self.leased.insert(address, (request.client, now + Duration::from_secs(LEASE_S.into())));
                Answer::Ack(Terms { address, length: 16, lease_s: LEASE_S, again_s: (LEASE_S / 2, LEASE_S / 8 * 7) })
            }
        };
        Some(Reply { xid: request.xid, client: request.client, server: self.at, answer })
    }
}

/// A client and its servers; what is lost, a test says.
struct World {
    client: Client,
    servers: Vec<Model>,
    now: Instant,
    sent: Vec<(Instant, Request)>,
    /// The address that the caller is to use.
    used: Option<Ipv4Addr>,
}

impl World {
    fn new(servers: Vec<Model>) -> Self {
        let client = Client::new(ClientConfig::new(ME), rng::stream(1, Stream::Traffic));
        Self { client, servers, now: s(1), sent: Vec::new(), used: None }
    }

    fn input(&mut self, input: Input<'_>, lost: &mut impl FnMut() -> bool) {
        self.client.handle(self.now, input);
        while let Some(output) = self.client.poll() {
            match output {
                Output::Send(request) => {
                    let frame = request.emit(ME, VlanId::new(9).unwrap());
                    let request = parse_request(&frame).unwrap();
                    self.sent.push((self.now, request));
                    let now = self.now;
                    let heard =
                        self.servers.iter_mut().filter_map(|server| if lost() { None } else { server.answer(now, &request) });
                    let replies: Vec<Reply> = heard.collect();
                    for reply in replies {
                        if !lost() {
                            self.client.handle(self.now, Input::Frame(&emit_reply(&reply, ME)));
                        }
                    }
                }
                Output::Bound(lease) => self.used = Some(lease.address),
                Output::Lost(address) => {
                    assert!(self.used.is_none_or(|used| used == address));
                    self.used = None;
                }
            }
        }
    }

    /// Until then, each deadline in turn.
    fn run(&mut self, until: Instant, mut lost: impl FnMut() -> bool) {
        while let Some(at) = self.client.deadline().filter(|&at| at <= until) {
            assert!(at >= self.now, "the deadline is in the past");
            self.now = at;
            self.input(Input::Timer, &mut lost);
            assert!(self.client.deadline() > Some(at), "it spins");
        }
        self.now = until;
    }

    fn frame(&mut self, reply: Reply) {
        self.input(Input::Frame(&emit_reply(&reply, ME)), &mut || false);
    }

    fn state(&self) -> (&'static str, Option<Ipv4Addr>) {
        (self.client.state(), self.used)
    }
}

fn s(seconds: u64) -> Instant {
    Instant::ZERO + Duration::from_secs(seconds)
}

#[test]
fn an_address_is_had_at_once() {
    let mut world = World::new(vec![Model::new(NEAR, ADDRESS), Model::new(FAR, Ipv4Addr::new(10, 1, 0, 10))]);
    world.input(Input::Start(None), &mut || false);
    assert_eq!(world.state(), ("bound", Some(ADDRESS)));
    let lease = world.client.lease().unwrap();
    assert_eq!((lease.length, lease.server, lease.renew, lease.until), (16, NEAR, s(501), s(1001)));
    let asked: Vec<Question> = world.sent.iter().map(|(_, request)| request.question).collect();
    assert_eq!(asked, [Question::Discover, Question::Request(ADDRESS, Some(NEAR.ip))]);
    // The other's offer came too late.
    assert_eq!(
        world.client.counts(),
        DhcpCounts { discovers: 1, requests: 1, offers: 1, acks: 1, foreign: 1, ..DhcpCounts::default() }
    );
}

#[test]
fn silence_is_asked_again_ever_more_seldom() {
    let mut world = World::new(Vec::new());
    world.input(Input::Start(None), &mut || false);
    world.run(s(601), || false);
    let gaps: Vec<f64> = world.sent.windows(2).map(|pair| (pair[1].0 - pair[0].0).as_secs_f64()).collect();
    for (gap, mean) in gaps.iter().zip([1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 64.0, 64.0]) {
        assert!((mean * 0.75..=mean * 1.25).contains(gap), "{gaps:?}");
    }
    assert!((10..=17).contains(&world.sent.len()));
    world.servers.push(Model::new(NEAR, ADDRESS));
    world.run(s(700), || false);
    assert_eq!(world.state(), ("bound", Some(ADDRESS)));
    assert!(world.client.lease().unwrap().until > s(1600), "the lease begins with what was asked last");
}

#[test]
fn a_lease_is_renewed_at_its_server_then_at_all_and_ends() {
    let mut world = World::new(vec![Model::new(NEAR, ADDRESS)]);
    world.input(Input::Start(None), &mut || false);
    world.sent.clear();
    world.run(s(502), || false);
    assert_eq!(world.sent.len(), 1);
    assert_eq!(world.sent[0].1.to, Some((NEAR, ADDRESS)), "to its server alone, from the address");
    assert_eq!(world.client.lease().unwrap().until, s(1501));
    // Nobody answers any longer.
    world.servers.clear();
    world.sent.clear();
    world.run(s(1500), || false);
    assert_eq!(world.state(), ("rebinding", Some(ADDRESS)));
    let (one, all): (Vec<_>, Vec<_>) = world.sent.iter().partition(|(_, request)| request.to.is_some());
    assert!(one.len() > 1 && one.iter().all(|(at, _)| (s(1001)..s(1376)).contains(at)), "{one:?}");
    assert!(all.len() > 1 && all.iter().all(|(at, _)| (s(1376)..s(1501)).contains(at)), "{all:?}");
    assert!(world.sent.iter().all(|(_, request)| request.question == Question::Request(ADDRESS, None)));
    world.run(s(1501), || false);
    assert_eq!(world.state(), ("selecting", None));
    assert_eq!(world.client.counts().ended, 1);
}

#[test]
fn another_server_takes_a_lease_over() {
    let mut world = World::new(vec![Model::new(NEAR, ADDRESS)]);
    world.input(Input::Start(None), &mut || false);
    world.servers = vec![Model::new(FAR, ADDRESS)];
    world.run(s(900), || false);
    assert_eq!(world.state(), ("bound", Some(ADDRESS)));
    assert_eq!(world.client.lease().unwrap().server, FAR);
}

#[test]
fn an_address_from_before_is_kept_or_refused() {
    let mut world = World::new(vec![Model::new(NEAR, ADDRESS)]);
    world.used = Some(ADDRESS);
    world.input(Input::Start(Some((ADDRESS, s(500)))), &mut || false);
    assert_eq!((world.state(), world.sent.len()), (("bound", Some(ADDRESS)), 1), "no DISCOVER");

    let mut world = World::new(vec![Model::new(NEAR, ADDRESS)]);
    let old = Ipv4Addr::new(10, 1, 0, 77);
    world.used = Some(old);
    world.input(Input::Start(Some((old, s(100)))), &mut || false);
    assert_eq!(world.state(), ("selecting", None));
    world.run(s(4), || false);
    assert_eq!(world.state(), ("bound", Some(ADDRESS)));

    // Nobody is there to ask: it stays, and an address is sought.
    let mut world = World::new(Vec::new());
    world.used = Some(old);
    world.input(Input::Start(Some((old, s(100)))), &mut || false);
    world.run(s(60), || false);
    assert_eq!(world.state(), ("selecting", Some(old)));
    world.run(s(101), || false);
    assert_eq!(world.state(), ("selecting", None), "to its end");
}

#[test]
fn a_refusal_ends_the_lease_and_is_no_reason_to_hurry() {
    let mut world = World::new(vec![Model::new(NEAR, ADDRESS)]);
    world.input(Input::Start(None), &mut || false);
    world.servers[0].says_no = true;
    world.run(s(501), || false);
    assert_eq!(world.state(), ("selecting", None));
    world.sent.clear();
    world.run(s(561), || false);
    assert!(world.sent.len() < 180, "{}", world.sent.len());
    assert!(world.client.counts().naks > 10);
}

#[test]
fn answers_to_others_and_of_others_do_nothing() {
    let mut world = World::new(Vec::new());
    world.input(Input::Start(None), &mut || false);
    let xid = world.sent[0].1.xid;
    let terms = Terms { address: ADDRESS, length: 16, lease_s: LEASE_S, again_s: (1, 2) };
    let mine = |answer| Reply { xid, client: ME, server: NEAR, answer };
    // Not asked for yet.
    world.frame(mine(Answer::Ack(terms)));
    world.frame(mine(Answer::Nak));
    world.frame(Reply { xid: xid ^ 1, ..mine(Answer::Offer(ADDRESS)) });
    world.frame(Reply { client: OTHER, ..mine(Answer::Offer(ADDRESS)) });
    assert_eq!((world.state(), world.client.counts().foreign), (("selecting", None), 4));
    world.frame(mine(Answer::Offer(ADDRESS)));
    // Of a server that was not asked, or of another address.
    world.frame(Reply { server: FAR, ..mine(Answer::Ack(terms)) });
    world.frame(Reply { server: FAR, ..mine(Answer::Nak) });
    world.frame(mine(Answer::Ack(Terms { address: Ipv4Addr::new(10, 1, 0, 10), ..terms })));
    assert_eq!((world.state(), world.client.counts().foreign), (("requesting", None), 7));
    let mut frame = emit_reply(&mine(Answer::Ack(terms)), ME);
    frame[14 + 28 + 236] ^= 1;
    world.input(Input::Frame(&frame), &mut || false);
    assert_eq!((world.state(), world.client.counts().malformed), (("requesting", None), 1));
    world.frame(mine(Answer::Ack(terms)));
    assert_eq!(world.state(), ("bound", Some(ADDRESS)));
}

#[test]
fn a_lease_of_a_second_and_one_for_ever() {
    for (lease_s, until) in [(1, s(2)), (u32::MAX, s(1) + Duration::from_secs(u64::from(u32::MAX)))] {
        let mut world = World::new(Vec::new());
        world.input(Input::Start(None), &mut || false);
        let reply = |answer| Reply { xid: world.sent[0].1.xid, client: ME, server: NEAR, answer };
        let terms = Terms { address: ADDRESS, length: 16, lease_s, again_s: (0, 0) };
        let (offer, ack) = (reply(Answer::Offer(ADDRESS)), reply(Answer::Ack(terms)));
        world.frame(offer);
        world.frame(ack);
        assert_eq!(world.client.lease().map(|lease| lease.until), Some(until));
        world.run(s(120), || false);
    }
}

proptest! {
    /// Whatever is lost, forged or refused: what is used is leased, and after a time without losses there is an address.
    #[test]
    fn what_is_used_is_leased(losses in proptest::collection::vec(any::<u8>(), 1..200), part in 0..200u8, refuses in any::<bool>(), seed in any::<u64>()) {
        let mut world = World::new(vec![Model::new(NEAR, ADDRESS), Model::new(FAR, ADDRESS)]);
        world.client.rng = rng::stream(seed, Stream::Traffic);
        let mut next = 0;
        let mut lost = || {
            next += 1;
            losses[next % losses.len()] < part
        };
        world.input(Input::Start(None), &mut lost);
        for second in 1..400u64 {
            world.run(s(1 + second * 20), &mut lost);
            world.servers[0].says_no = refuses && second % 50 < 10;
            if let Some(address) = world.used {
                let is_leased = world.servers.iter().any(|it| it.leased.get(&address).is_some_and(|(who, until)| *who == ME && *until >= world.now));
                prop_assert!(is_leased, "at {:?}", world.now);
            }
        }
        world.servers[0].says_no = false;
        world.run(s(10_000), || false);
        prop_assert_eq!(world.state().1, Some(ADDRESS));
    }
}
