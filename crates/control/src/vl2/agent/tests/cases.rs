//! One thing after the other.

use super::*;
use crate::wire::packet::arp::Arp;
use crate::wire::packet::ndp::Neighbor;

#[test]
fn a_missing_peer_is_looked_up_and_its_packets_go_on() {
    let mut world = World::ready(|_| {});
    world.is_silent = true;
    world.put(key_of(peer_address(1)), Value::Mapping(mapping(9, 0)));
    let tokens = [world.miss(peer_address(1)), world.miss(peer_address(1))];
    assert_eq!((world.waiting.len(), world.agent.held()), (2, (2, 2000)));
    world.is_silent = false;
    world.pass(Duration::from_ms(200));
    assert_eq!(world.released, tokens);
    let peer = Peer { locator: [10, 1, 2, 9].into(), group: GroupId(0), mac: None };
    assert_eq!(world.peers[&peer_address(1)], Ok(peer));
    assert_eq!(world.agent.held(), (0, 0));
}

#[test]
fn the_group_comes_before_its_peers() {
    let mut world = World::ready(|_| {});
    world.put(key_of(peer_address(1)), Value::Mapping(mapping(9, 3)));
    let token = world.miss(peer_address(1));
    assert_eq!(world.dropped, [(token, Reason::NoGroup)], "there is no such group");
    world.pass(Duration::from_secs(1));
    let anycast: Ipv4Addr = [10, 9, 0, 3].into();
    world.put(Key::Group(GroupId(3)), Value::Group([IpAddr::V4(anycast)].into_iter().collect()));
    let token = world.miss(peer_address(1));
    assert_eq!((world.released.as_slice(), &world.groups[&GroupId(3)]), (&[token][..], &vec![anycast]));
    // The group changes: members follow.
    let other: Ipv4Addr = [10, 9, 0, 4].into();
    world.delete(Key::Group(GroupId(3)));
    world.put(Key::Group(GroupId(3)), Value::Group([IpAddr::V4(other)].into_iter().collect()));
    world.pass(Duration::from_secs(1));
    let token = world.miss(peer_address(1));
    assert_eq!((world.released.last(), &world.groups[&GroupId(3)]), (Some(&token), &vec![other]));
}

#[test]
fn refused_and_unknown_addresses_are_dropped_with_their_reason_and_asked_for_again_later() {
    let mut world = World::ready(|_| {});
    world.forbid(key_of(peer_address(1)));
    let (a, b) = (world.miss(peer_address(1)), world.miss(peer_address(2)));
    assert_eq!(world.dropped, [(a, Reason::Forbidden), (b, Reason::Unknown)]);
    assert_eq!((world.peers[&peer_address(1)], world.peers[&peer_address(2)]), (Err(true), Err(false)));
    world.pass(Duration::from_ms(600));
    assert!(world.peers.is_empty(), "the data plane asks again");
    world.put(key_of(peer_address(1)), Value::Mapping(mapping(9, 0)));
    let token = world.miss(peer_address(1));
    assert_eq!(world.released, [token]);
}

#[test]
fn nobody_answers() {
    let mut world = World::ready(|config| config.held.time = Duration::from_secs(2));
    world.is_silent = true;
    let token = world.miss(peer_address(1));
    world.pass(Duration::from_ms(1999));
    assert_eq!(world.waiting.len(), 1);
    world.pass(Duration::from_ms(2));
    assert_eq!(world.dropped, [(token, Reason::Expired)]);
    let late = world.miss(peer_address(1));
    world.pass(Duration::from_ms(3100));
    assert!(world.dropped.iter().any(|(it, _)| *it == late));
    assert!(world.waiting.is_empty());
}

#[test]
fn what_waits_is_bounded() {
    let held = HeldLimits { packets: 10, bytes: 8_000, per_peer: 4, time: Duration::from_secs(2) };
    let mut world = World::ready(|config| config.held = held);
    world.is_silent = true;
    for n in 0..100u8 {
        world.miss(peer_address(n % 5));
        let (packets, bytes) = world.agent.held();
        assert!(packets <= 10 && bytes <= 8_000);
    }
    assert_eq!(world.waiting.len(), 8, "as many as there are bytes for");
    assert!(world.dropped.iter().all(|(_, reason)| *reason == Reason::Full));
}

#[test]
fn a_withdrawn_mapping_stops_within_a_second() {
    let mut world = World::ready(|_| {});
    world.put(key_of(peer_address(1)), Value::Mapping(mapping(9, 0)));
    world.miss(peer_address(1));
    world.pass(Duration::from_secs(30));
    assert!(world.peers[&peer_address(1)].is_ok(), "its lease of 2 s is renewed");
    world.delete(key_of(peer_address(1)));
    world.pass(Duration::from_secs(1));
    assert!(!world.peers.contains_key(&peer_address(1)));
    let token = world.miss(peer_address(1));
    assert_eq!(world.dropped.last(), Some(&(token, Reason::Unknown)));
}

#[test]
fn without_a_server_mappings_stay_in_use() {
    let mut world = World::ready(|_| {});
    world.put(key_of(peer_address(1)), Value::Mapping(mapping(9, 0)));
    world.miss(peer_address(1));
    assert_eq!(world.agent.unconfirmed_since(), None);
    world.is_silent = true;
    world.pass(Duration::from_secs(3600));
    assert!(world.peers[&peer_address(1)].is_ok(), "its lease is 2 s");
    assert!(world.agent.own().all(|own| matches!(own.state, OwnState::Confirmed(_))));
    assert!(world.agent.unconfirmed_since().is_some_and(|at| world.now.saturating_since(at) > Duration::from_secs(3590)));
    world.delete(key_of(peer_address(1)));
    world.is_silent = false;
    world.pass(Duration::from_secs(2));
    assert!(!world.peers.contains_key(&peer_address(1)), "revoked while nobody answered");
    assert_eq!(world.agent.unconfirmed_since(), None);
}

#[test]
fn without_a_server_mappings_are_used_for_their_lease_if_no_longer_time_is_allowed() {
    let mut world = World::ready(|config| config.resolver.fail_static = Duration::ZERO);
    world.put(key_of(peer_address(1)), Value::Mapping(mapping(9, 0)));
    world.miss(peer_address(1));
    world.is_silent = true;
    world.pass(Duration::from_ms(1900));
    assert!(world.peers.contains_key(&peer_address(1)));
    world.pass(Duration::from_ms(200));
    assert!(!world.peers.contains_key(&peer_address(1)));
}

#[test]
fn a_correction_moves_a_peer_at_once() {
    let mut world = World::ready(|_| {});
    world.put(key_of(peer_address(1)), Value::Mapping(mapping(9, 0)));
    world.miss(peer_address(1));
    world.put(key_of(peer_address(1)), Value::Mapping(mapping(10, 0)));
    world.correct(key_of(peer_address(1)));
    assert_eq!(world.peers[&peer_address(1)].unwrap().locator, Ipv4Addr::new(10, 1, 2, 10));
}

#[test]
fn questions_for_mac_addresses_are_answered_but_for_those_that_must_not_be() {
    let mut world = World::ready(|_| {});
    world.put(key_of(peer_address(1)), Value::Mapping(Mapping { mac: Some(MacAddr([2, 9, 9, 9, 9, 9])), ..mapping(9, 0) }));
    world.put(key_of(peer_address(2)), Value::Mapping(mapping(9, 0)));
    let ask = |world: &mut World, target, asker| world.input(Input::Asked { target, asker, asker_mac: MAC });
    ask(&mut world, peer_address(1), OWN_ADDRESS);
    ask(&mut world, peer_address(2), OWN_ADDRESS);
    let replies: Vec<Arp> = world.injected.iter().map(|frame| Arp::parse(&frame[14..]).unwrap()).collect();
    assert_eq!((replies[0].sender.0, replies[1].sender.0), (MacAddr([2, 9, 9, 9, 9, 9]), VIRTUAL_MAC));
    assert!(replies.iter().all(|it| !it.is_request && it.target == (MAC, [20, 0, 0, 5].into())));
    world.injected.clear();
    ask(&mut world, OWN_ADDRESS, OWN_ADDRESS);
    ask(&mut world, OWN_ADDRESS, Ipv4Addr::UNSPECIFIED.into());
    ask(&mut world, peer_address(1), Ipv4Addr::UNSPECIFIED.into());
    ask(&mut world, peer_address(1), peer_address(1));
    ask(&mut world, peer_address(3), OWN_ADDRESS);
    assert!(world.injected.is_empty());
}

#[test]
fn neighbours_of_ipv6_are_answered() {
    let mut world = World::new(|_| {});
    let (own, peer): (IpAddr, IpAddr) = ("fd20::5".parse().unwrap(), "fd20::9".parse().unwrap());
    world.put(key_of(own), Value::Mapping(Mapping { owner: ME, ..mapping(1, 0) }));
    world.put(key_of(peer), Value::Mapping(mapping(9, 0)));
    world.input(Input::Attach { address: own, mac: MAC });
    world.input(Input::Asked { target: peer, asker: own, asker_mac: MAC });
    let reply = Neighbor::parse(&world.injected[0][14..]).unwrap();
    assert_eq!((IpAddr::V6(reply.target), IpAddr::V6(reply.destination), reply.mac), (peer, own, Some(VIRTUAL_MAC)));
    assert!(reply.is_solicited && !reply.is_solicitation);
}

#[test]
fn an_address_must_be_confirmed_before_it_sends() {
    let mut world = World::new(|_| {});
    world.put(key_of(OWN_ADDRESS), Value::Mapping(mapping(1, 0)));
    world.input(Input::Attach { address: OWN_ADDRESS, mac: MAC });
    assert!(world.locals.is_empty(), "it is another host's");
    let token = world.miss(peer_address(1));
    assert_eq!(world.dropped, [(token, Reason::NotOwn)]);
    assert_eq!(world.agent.own().next().unwrap().state, OwnState::NotOurs);
    // It becomes this host's, and later another's again.
    world.put(key_of(OWN_ADDRESS), Value::Mapping(Mapping { owner: ME, ..mapping(1, 0) }));
    world.withdrawn.push((world.revision, key_of(OWN_ADDRESS)));
    world.pass(Duration::from_secs(2));
    assert!(world.locals.contains_key(&OWN_ADDRESS));
    world.put(key_of(peer_address(1)), Value::Mapping(mapping(9, 0)));
    world.miss(peer_address(1));
    assert!(world.peers.contains_key(&peer_address(1)));
    world.forbid(key_of(OWN_ADDRESS));
    world.pass(Duration::from_secs(1));
    assert!(world.locals.is_empty() && world.peers.is_empty() && world.joined.is_empty());
}

/// A peer as the service 1 of this host sees it.
const fn of_one(address: IpAddr) -> PeerKey {
    PeerKey { service: ServiceId(1), address }
}

#[test]
fn each_service_of_a_host_has_its_own_peers() {
    let mut world = World::ready(|_| {});
    let (other, first, both): (IpAddr, _, _) = ([20, 0, 0, 6].into(), peer_address(1), peer_address(2));
    let of_two = |address| PeerKey { service: ServiceId(2), address };
    world.put(key_of(other), Value::Mapping(Mapping { owner: ME, service: ServiceId(2), ..mapping(1, 0) }));
    world.input(Input::Attach { address: other, mac: MAC });
    assert_eq!(world.locals.get(&other), Some(&(ServiceId(2), Some(Ipv4Addr::new(239, 1, 0, 2)))));
    assert_eq!(world.joined.len(), 2);
    for peer in [first, both] {
        world.put(key_of(peer), Value::Mapping(mapping(9, 0)));
    }
    world.forbidden_to.insert((key_of(other), key_of(first)));
    // What one service may resolve, the other need not.
    let tokens =
        [(OWN_ADDRESS, first), (OWN_ADDRESS, both), (other, both), (other, first)].map(|(from, to)| world.miss_from(from, to));
    assert_eq!((world.released.as_slice(), world.dropped.as_slice()), (&tokens[..3], &[(tokens[3], Reason::Forbidden)][..]));
    let known: Vec<PeerKey> = world.agent.peers().map(|view| view.key).collect();
    assert_eq!(known, [of_one(first), of_one(both), of_two(both)]);
    assert_eq!(world.by_service.get(&of_two(first)), Some(&Err(true)));
    // An address that goes to the other service takes nothing along, and what is withdrawn from one stays with the other.
    world.forbidden_to.insert((key_of(other), key_of(both)));
    world.revision += 1;
    world.withdrawn.push((world.revision, key_of(both)));
    world.pass(Duration::from_secs(3));
    let known: Vec<PeerKey> = world.agent.peers().map(|view| view.key).collect();
    assert_eq!(known, [of_one(first)], "withdrawn: each is looked up again when it is wanted");
    world.miss_from(OWN_ADDRESS, both);
    world.miss_from(other, both);
    assert_eq!(world.by_service.get(&of_two(both)), Some(&Err(true)));
    assert!(world.by_service.get(&of_one(both)).is_some_and(Result::is_ok));
    world.input(Input::Detach(other));
    assert!(world.agent.peers().all(|view| view.key.service == ServiceId(1)));
    assert_eq!(world.joined.len(), 1);
}

#[test]
fn the_tor_is_notified_until_it_answers_and_again_later() {
    let mut world = World::ready(|config| config.announce = tor());
    assert_eq!(world.tor_heard.len(), 1);
    world.pass(Duration::from_secs(1));
    assert_eq!(world.tor_heard.len(), 3, "after 0.2 and 0.6 s");
    assert!(world.tor_heard.iter().all(|it| it.sequence == world.tor_heard[0].sequence), "a repetition is the same message");
    world.tor_answers(Code::Done);
    assert_eq!(world.attachments(), [AttachState::Attached]);
    world.pass(Duration::from_secs(19));
    assert_eq!(world.tor_heard.len(), 3);
    world.pass(Duration::from_ms(1050));
    assert_eq!(world.tor_heard.len(), 4);
    assert!(world.tor_heard[3].sequence > world.tor_heard[0].sequence);
    world.tor_answers(Code::NotOwner);
    assert_eq!(world.attachments(), [AttachState::Refused(Code::NotOwner)]);
    world.pass(Duration::from_ms(1100));
    world.tor_answers(Code::Done);
    world.input(Input::Detach(OWN_ADDRESS));
    assert!(world.locals.is_empty());
    assert_eq!(world.tor_heard.last().unwrap().kind, crate::wire::vl2::attach::Kind::Detach);
    world.tor_answers(Code::Done);
    assert_eq!(world.attachments().last(), Some(&AttachState::Detached));
    assert_eq!(world.agent.own().count(), 0);
}

/// An hour ago its clock was an hour ahead, and the ToR remembers that.
#[test]
fn a_host_whose_clock_was_set_back_attaches_at_once() {
    let mut world = World::ready(|config| config.announce = tor());
    let ahead = world.tor_heard[0].sequence + 3_600_000_000_000;
    world.tor_is_at(ahead);
    assert_eq!(world.tor_heard.len(), 2, "at once");
    assert!(world.tor_heard[1].sequence > ahead);
    assert_eq!(world.rest.len(), 1);
    assert!(
        matches!(world.rest[0], Output::SequenceAdvanced(by) if by >= Duration::from_secs(3600) && by < Duration::from_ms(3_600_001))
    );
    world.tor_answers(Code::Done);
    assert_eq!((world.attachments(), world.agent.counts().sequence_advances), (vec![AttachState::Attached], 1));
    world.pass(Duration::from_secs(21));
    assert!(world.tor_heard[2].sequence > world.tor_heard[1].sequence);
    // A ToR that is never content is asked once a second.
    let heard = world.tor_heard.len();
    world.tor_is_at(ahead + 7_200_000_000_000);
    world.tor_is_at(ahead + 9_200_000_000_000);
    assert_eq!((world.tor_heard.len(), world.attachments()), (heard + 1, vec![AttachState::Refused(Code::Old)]));
    // An older ToR says no more than that it is too old.
    world.pass(Duration::from_ms(1100));
    world.tor_answers(Code::Old);
    assert_eq!(world.attachments(), [AttachState::Refused(Code::Old)]);
    // What is detached leaves in the same way.
    world.input(Input::Detach(OWN_ADDRESS));
    world.tor_is_at(ahead + 19_200_000_000_000);
    assert_eq!(world.tor_heard.last().unwrap().kind, crate::wire::vl2::attach::Kind::Detach);
    world.tor_answers(Code::Done);
    assert_eq!(world.agent.own().count(), 0);
}

#[test]
fn a_tor_of_the_version_before_gets_the_same_in_its_version() {
    let mut world = World::ready(|config| {
        config.announce = tor();
        config.resolver.versions = Versions::NEXT;
    });
    let (first, next) = (world.tor_heard[0], Versions::NEXT.newest());
    assert_eq!((world.tor_heard.len(), first.version), (1, next));
    let key = AttachKey::of(&world.key);
    let said = |version, sequence| Unsupported { version, principal: ME, sequence }.emit(&key);
    // Of another message, of a version that we do not speak, from somebody else: of no account.
    for (from, bytes) in
        [(TOR, said(next - 1, 1)), (TOR, said(next + 5, first.sequence)), (SERVER, said(next - 1, first.sequence))]
    {
        world.input(Input::AttachDatagram { from: from.into(), bytes: &bytes });
    }
    assert_eq!((world.tor_heard.len(), world.agent.counts().attach_refused), (1, 3));
    world.input(Input::AttachDatagram { from: TOR.into(), bytes: &said(next - 1, first.sequence) });
    world.input(Input::Timer);
    // With the service, which it has learnt since.
    assert_eq!(world.tor_heard[1..], [Attach { version: next - 1, service: ServiceId(1), ..first }]);
    let done = world.tor_heard[1].answered(Code::Done).emit(&key);
    world.input(Input::AttachDatagram { from: TOR.into(), bytes: &done });
    assert_eq!(world.attachments(), [AttachState::Attached]);
}

#[test]
fn a_forged_or_foreign_answer_of_a_tor_does_not_count() {
    let mut world = World::ready(|config| config.announce = tor());
    let request = world.tor_heard[0];
    let right = request.answered(Code::Done).emit(&AttachKey::of(&world.key));
    let wrong = request.answered(Code::Done).emit(&AttachKey::of(&Secret::new([4; 32]).key_of(ME)));
    world.input(Input::AttachDatagram { from: TOR.into(), bytes: &wrong });
    world.input(Input::AttachDatagram { from: SERVER.into(), bytes: &right });
    world.input(Input::AttachDatagram { from: TOR.into(), bytes: b"nonsense" });
    let old = Attach { sequence: request.sequence - 1, ..request }.answered(Code::Done).emit(&AttachKey::of(&world.key));
    world.input(Input::AttachDatagram { from: TOR.into(), bytes: &old });
    assert_eq!((world.attachments(), world.agent.counts().attach_refused), (vec![], 4));
    world.input(Input::AttachDatagram { from: TOR.into(), bytes: &right });
    assert_eq!(world.attachments(), [AttachState::Attached]);
}

#[test]
fn a_host_that_is_its_own_locator_puts_it_when_it_is_confirmed() {
    let mut world = World::ready(|config| config.announce = Announce::Itself);
    world.pass(Duration::from_ms(60));
    assert_eq!(world.rest, [Output::Announce(OWN_ADDRESS)]);
    world.rest.clear();
    world.input(Input::Announced { address: OWN_ADDRESS, result: Err(Code::Forbidden) });
    world.pass(Duration::from_ms(1100));
    assert_eq!(world.rest.len(), 2, "it is refused, and tried again");
    world.input(Input::Announced { address: OWN_ADDRESS, result: Ok(()) });
    assert_eq!(world.agent.own().next().unwrap().attachment, Some(AttachState::Attached));
}

#[test]
fn peers_of_an_earlier_agent_are_confirmed_or_removed() {
    let mut world = World::new(|_| {});
    world.put(key_of(OWN_ADDRESS), Value::Mapping(Mapping { owner: ME, ..mapping(1, 0) }));
    world.put(key_of(peer_address(1)), Value::Mapping(mapping(9, 0)));
    world.forbid(key_of(peer_address(2)));
    for n in 1..=3 {
        world.adopt(peer_address(n));
    }
    world.input(Input::Attach { address: OWN_ADDRESS, mac: MAC });
    world.pass(Duration::from_ms(100));
    assert!(world.peers[&peer_address(1)].is_ok());
    assert_eq!((world.peers[&peer_address(2)], world.peers[&peer_address(3)]), (Err(true), Err(false)));
}

#[test]
fn peers_of_an_earlier_agent_go_on_while_no_server_answers() {
    let mut world = World::new(|_| {});
    world.is_silent = true;
    world.adopt(peer_address(1));
    world.input(Input::Attach { address: OWN_ADDRESS, mac: MAC });
    world.pass(Duration::from_secs(3600));
    assert!(!world.trail.contains(&Output::RemovePeer(of_one(peer_address(1)))));
}

#[test]
fn peers_of_an_earlier_agent_go_on_for_a_minute_if_no_longer_time_is_allowed() {
    let mut world = World::new(|config| config.resolver.fail_static = Duration::ZERO);
    world.is_silent = true;
    world.adopt(peer_address(1));
    world.input(Input::Attach { address: OWN_ADDRESS, mac: MAC });
    world.pass(Duration::from_secs(59));
    assert!(!world.trail.contains(&Output::RemovePeer(of_one(peer_address(1)))));
    world.pass(Duration::from_secs(2));
    assert!(world.trail.contains(&Output::RemovePeer(of_one(peer_address(1)))));
}

#[test]
fn a_directory_server_that_moves_is_followed() {
    let mut world = World::ready(|_| {});
    let key = Key::Group(DIRECTORY_GROUP);
    world.put(key, Value::Group([IpAddr::from(MOVED.0)].into_iter().collect()));
    world.pass(Duration::from_secs(61));
    assert_eq!(world.agent.servers(), [SERVER.into(), MOVED.into()]);
    // The old one is gone, the new one is there.
    world.alive = vec![MOVED.into()];
    world.put(key_of(peer_address(1)), Value::Mapping(mapping(9, 0)));
    let token = world.miss(peer_address(1));
    world.pass(Duration::from_secs(1));
    assert_eq!(world.released, [token]);
    // And it moves on: it says so itself, which is heard at once.
    world.alive.push(SocketAddr::from(([10, 0, 0, 3], 5303)));
    world.delete(key);
    world.put(key, Value::Group([IpAddr::from([10, 0, 0, 3])].into_iter().collect()));
    world.pass(Duration::from_secs(2));
    assert_eq!(world.agent.servers(), [SERVER.into(), SocketAddr::from(([10, 0, 0, 3], 5303))]);
}

#[test]
fn congested_flows_are_rehashed_within_limits() {
    let mut world = World::ready(|config| config.rehash_rate = 3);
    let flow =
        |port| Flow { source: OWN_ADDRESS, destination: peer_address(1), protocol: 6, source_port: port, destination_port: 80 };
    for port in [1, 1, 2, 3, 4] {
        world.input(Input::Congested(flow(port)));
    }
    world.input(Input::Congested(Flow { source: peer_address(9), ..flow(7) }));
    let salted: Vec<_> =
        world.rest.iter().map(|it| if let Output::Salt { flow, .. } = it { flow.source_port } else { 0 }).collect();
    assert_eq!((salted, world.agent.counts().rehash_limited), (vec![1, 2, 3], 3));
}

/// 64 bits of picoseconds would end after 213 days; nanoseconds last 584 years.
#[test]
fn an_agent_runs_past_213_days_and_500_years() {
    for start in [Duration::from_secs(u64::MAX / 1_000_000_000_000 - 10), Duration::from_secs(500 * 365 * 86_400)] {
        let mut world = World::ready(|_| {});
        world.pass(Duration::from_secs(10));
        world.now = Instant::ZERO + start;
        world.input(Input::Timer);
        world.put(key_of(peer_address(1)), Value::Mapping(mapping(9, 0)));
        world.miss(peer_address(1));
        world.pass(Duration::from_secs(30));
        assert!(world.peers[&peer_address(1)].is_ok(), "its lease of 2 s is renewed");
        world.delete(key_of(peer_address(1)));
        world.pass(Duration::from_secs(1));
        assert!(!world.peers.contains_key(&peer_address(1)), "withdrawn within a second");
    }
}
