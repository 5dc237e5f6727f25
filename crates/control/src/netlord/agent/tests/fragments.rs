//! Fragments over virtual routers with rules about ports, against a receiver that puts them together (RFC 791, RFC 8200 section 4.5).

use proptest::prelude::*;

use super::*;

/// `RULES` stands for the rules of the router.
const TENANT: &str = r#"
version = 2
[[tenant]]
id = 7
name = "a"
spaces = [1, 2]
[[router]]
tenant = "a"
name = "core"
interfaces = [
  { space = 1, mac = "02:00:00:00:00:fe", address = "10.0.0.254/24" },
  { space = 2, mac = "02:00:00:00:00:fd", address = "10.0.1.254/24" },
  { space = 1, mac = "02:00:00:00:00:fe", address = "fd00:1::fe/64" },
  { space = 2, mac = "02:00:00:00:00:fd", address = "fd00:2::fe/64" },
]
"#;

const DENY_53: &[&str] = &["action = \"deny\"\nprotocol = \"udp\"\nport = 53"];
const ALLOW_80: &[&str] = &["action = \"allow\"\nprotocol = \"udp\"\nport = 80", "action = \"deny\"\nprotocol = \"udp\""];

fn world(rules: &[&str]) -> World {
    let rules: String = rules.iter().map(|rule| format!("[[rule]]\ntenant = \"a\"\nrouter = \"core\"\n{rule}\n")).collect();
    let mut world = World::new(3, &format!("{TENANT}{rules}"));
    world.attach(0, 1, vif(7, 1, 1), &[ip(0, 1), "fd00:1::1".parse().unwrap()]);
    world.attach(0, 3, vif(7, 1, 3), &[ip(0, 3), "fd00:1::3".parse().unwrap()]);
    world.attach(2, 2, vif(7, 2, 1), &[ip(1, 1), "fd00:2::1".parse().unwrap()]);
    world
}

fn is_allowed(rules: &[&str], port: u16) -> bool {
    if rules == DENY_53 { port != 53 } else { port == 80 }
}

/// A part of a datagram.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Part {
    id: u16,
    offset: usize,
    more: bool,
    bytes: Vec<u8>,
}

impl Part {
    /// From VIF 1, or VIF 3.
    fn frame(&self, is_v6: bool, from: u8) -> Vec<u8> {
        let word = (self.offset as u16) | u16::from(self.more);
        if is_v6 {
            let mut packet = vec![0x60, 0, 0, 0, 0, 0, 44, 64];
            packet[4..6].copy_from_slice(&(self.bytes.len() as u16 + 8).to_be_bytes());
            for address in [format!("fd00:1::{from}"), "fd00:2::1".to_owned()] {
                packet.extend(address.parse::<std::net::Ipv6Addr>().unwrap().octets());
            }
            packet.extend([17, 0]);
            packet.extend(word.to_be_bytes());
            packet.extend(u32::from(self.id).to_be_bytes());
            packet.extend(&self.bytes);
            return plain(mac(from), mac(0xfe), 0x86dd, &packet);
        }
        let mut packet = vec![0x45, 0, 0, 0, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, from, 10, 0, 1, 1];
        packet[2..4].copy_from_slice(&(self.bytes.len() as u16 + 20).to_be_bytes());
        packet[4..6].copy_from_slice(&self.id.to_be_bytes());
        let word = (self.offset / 8) as u16 | if self.more { 0x2000 } else { 0 };
        packet[6..8].copy_from_slice(&word.to_be_bytes());
        let sum = checksum(0, &packet);
        packet[10..12].copy_from_slice(&sum.to_be_bytes());
        packet.extend(&self.bytes);
        plain(mac(from), mac(0xfe), 0x0800, &packet)
    }

    /// Of a frame that came.
    fn read(frame: &[u8]) -> Self {
        let be = |at: usize| u16::from_be_bytes([frame[at], frame[at + 1]]);
        if frame[12] == 0x86 {
            let (length, word) = (usize::from(be(18)) - 8, be(56));
            let bytes = frame[62..62 + length].to_vec();
            return Self { id: be(60), offset: usize::from(word & 0xfff8), more: word & 1 != 0, bytes };
        }
        let (length, word) = (usize::from(be(16)) - 20, be(20));
        let bytes = frame[34..34 + length].to_vec();
        Self { id: be(18), offset: usize::from(word & 0x1fff) * 8, more: word & 0x2000 != 0, bytes }
    }
}

/// The parts of an honest datagram: UDP to a port, cut into so many bytes each.
fn cut(id: u16, port: u16, length: usize, size: usize) -> Vec<Part> {
    let mut bytes = [4000u16.to_be_bytes(), port.to_be_bytes(), (length as u16).to_be_bytes(), [0, 0]].concat();
    bytes.resize(length, id as u8);
    let parts = bytes.chunks(size).enumerate();
    parts.map(|(n, part)| Part { id, offset: n * size, more: n * size + part.len() < length, bytes: part.to_vec() }).collect()
}

/// The receiver: a slow one, which puts together what it has by two rules for bytes that it has twice.
#[derive(Default)]
struct Receiver {
    parts: BTreeMap<u16, Vec<Part>>,
}

impl Receiver {
    /// Datagrams that are whole now: what the first that came says, and what the last says.
    fn take(&mut self, part: Part) -> Vec<Vec<u8>> {
        let id = part.id;
        let parts = self.parts.entry(id).or_default();
        parts.push(part);
        let in_order: Vec<&Part> = parts.iter().collect();
        let reversed: Vec<&Part> = parts.iter().rev().collect();
        [in_order, reversed].iter().filter_map(|parts| Self::whole(parts)).collect()
    }

    /// Later ones in the list write over earlier ones.
    fn whole(parts: &[&Part]) -> Option<Vec<u8>> {
        let end = parts.iter().filter(|part| !part.more).map(|part| part.offset + part.bytes.len()).max()?;
        let mut bytes: Vec<Option<u8>> = vec![None; end];
        for part in parts {
            for (at, &byte) in part.bytes.iter().enumerate() {
                if let Some(place) = bytes.get_mut(part.offset + at) {
                    *place = Some(byte);
                }
            }
        }
        bytes.into_iter().collect()
    }
}

fn come(world: &mut World) -> Vec<Part> {
    let frames = world.take();
    frames.iter().filter(|(agent, id, _)| (*agent, *id) == (2, 2)).map(|(.., frame)| Part::read(frame)).collect()
}

#[test]
fn all_fragments_of_a_datagram_have_the_fate_of_the_first() {
    for (rules, is_v6) in [(DENY_53, false), (DENY_53, true), (ALLOW_80, false), (ALLOW_80, true)] {
        let mut world = world(rules);
        for (id, port) in [(1, 80), (2, 53), (3, 80)] {
            let parts = cut(id, port, 1000, 400);
            parts.iter().for_each(|part| world.send(0, 1, &part.frame(is_v6, 1)));
            let expected = if port == 80 { parts } else { Vec::new() };
            assert_eq!(come(&mut world), expected, "{rules:?} {is_v6} {port}");
        }
        assert_eq!((world.dropped(0, Drop::Denied), world.dropped(0, Drop::Fragment)), (3, 0));
        assert_eq!(world.agents[0].counts().icmp_errors, 1, "about the first one");
        // The first one comes last.
        let mut parts = cut(4, 80, 1000, 400);
        parts.rotate_left(1);
        parts.iter().for_each(|part| world.send(0, 1, &part.frame(is_v6, 1)));
        let (mut got, mut all) = (come(&mut world), parts.clone());
        assert_eq!(got[0].offset, 0);
        got.sort_by_key(|part| part.offset);
        all.sort_by_key(|part| part.offset);
        assert_eq!(got, all);
        // It does not come.
        world.send(0, 1, &cut(5, 80, 1000, 400)[1].frame(is_v6, 1));
        world.advance(Duration::from_ms(101));
        assert_eq!((come(&mut world), world.dropped(0, Drop::Fragment)), (vec![], 1));
        // What is decided is forgotten in time, with the rules, and is nobody else's.
        for (id, wait) in [(6, Duration::ZERO), (7, Duration::from_secs(11))] {
            world.send(0, 1, &cut(id, 80, 1000, 400)[0].frame(is_v6, 1));
            world.advance(wait);
            come(&mut world);
            let from = if wait == Duration::ZERO { 3 } else { 1 };
            world.send(0, from.into(), &cut(id, 80, 1000, 400)[1].frame(is_v6, from));
            assert_eq!(come(&mut world), []);
        }
    }
}

#[test]
fn rules_without_ports_need_no_first_fragment() {
    let mut world = world(&["action = \"deny\"\nprotocol = \"tcp\"\nport = 22", "action = \"deny\"\nprotocol = 50"]);
    let later = &cut(1, 80, 1000, 400)[1];
    world.send(0, 1, &later.frame(false, 1));
    assert_eq!(come(&mut world), std::slice::from_ref(later), "of UDP");
    let mut of_tcp = later.frame(false, 1);
    of_tcp[23] = 6;
    of_tcp[24..26].fill(0);
    let sum = checksum(0, &of_tcp[14..34]);
    of_tcp[24..26].copy_from_slice(&sum.to_be_bytes());
    world.send(0, 1, &of_tcp);
    world.advance(Duration::from_secs(1));
    assert_eq!((come(&mut world), world.dropped(0, Drop::Fragment)), (vec![], 1));
}

#[test]
fn who_floods_with_identifications_forgets_his_own() {
    let mut world = world(DENY_53);
    let victim = cut(7, 80, 1000, 400);
    world.send(0, 3, &victim[0].frame(false, 3));
    for id in 0..20_000 {
        world.send(0, 1, &cut(id, 80, 1000, 400)[id as usize % 2].frame(false, 1));
    }
    world.take();
    assert!(world.dropped(0, Drop::Fragment) > 9_000, "held ones are few");
    world.send(0, 3, &victim[1].frame(false, 3));
    let early = cut(8, 80, 1000, 400);
    world.send(0, 3, &early[1].frame(false, 3));
    world.send(0, 3, &early[0].frame(false, 3));
    assert_eq!(come(&mut world), [victim[1].clone(), early[0].clone(), early[1].clone()]);
}

/// Parts that no stack sends: of any length, anywhere, under few identifications.
fn wild() -> impl Strategy<Value = Part> {
    let port = prop::sample::select(vec![53u16, 80, 22]);
    (0u16..3, 0usize..4, any::<bool>(), prop::sample::select(vec![2usize, 4, 8, 16, 24]), port).prop_map(
        |(id, offset, more, length, port)| {
            let mut bytes = [4000u16.to_be_bytes(), port.to_be_bytes()].concat();
            bytes.resize(length.max(4), offset as u8);
            bytes.truncate(length);
            Part { id, offset: offset * 8, more, bytes }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever parts a VM sends in whatever order: nobody can put together of those that come what the rules deny.
    #[test]
    fn nothing_that_is_denied_can_be_put_together(
        parts in prop::collection::vec((wild(), 0u64..40), 1..60), is_v6: bool, first_rules: bool,
    ) {
        let rules = if first_rules { DENY_53 } else { ALLOW_80 };
        let mut world = world(rules);
        let mut receiver = Receiver::default();
        for (part, wait) in parts {
            world.send(0, 1, &part.frame(is_v6, 1));
            for part in come(&mut world) {
                for whole in receiver.take(part) {
                    prop_assert!(whole.len() >= 4 && is_allowed(rules, u16::from_be_bytes([whole[2], whole[3]])), "{:?}", whole);
                }
            }
            world.advance(Duration::from_ms(wait));
        }
    }

    /// Datagrams that a VM sends, their fragments in any order: those that the rules allow come whole, and nothing of the others.
    #[test]
    fn what_is_allowed_comes_whole(
        datagrams in prop::collection::vec((prop::sample::select(vec![53u16, 80]), 9usize..500, 2usize..20), 1..8), is_v6: bool, seed: u64,
        first_rules: bool,
    ) {
        let rules = if first_rules { DENY_53 } else { ALLOW_80 };
        let mut world = world(rules);
        let all = (0u16..).zip(&datagrams);
        let mut parts: Vec<Part> = all.clone().flat_map(|(id, &(port, length, size))| cut(id, port, length, size * 8)).collect();
        parts.retain(|part| part.more || part.offset > 0);
        let mut state = seed;
        parts.sort_by_cached_key(|_| { state = weft_fabric::rng::mix(state.wrapping_add(1)); state });
        let expected: usize = parts.iter().filter(|part| is_allowed(rules, datagrams[usize::from(part.id)].0)).count();
        let mut receiver = Receiver::default();
        let (mut count, mut whole) = (0, BTreeSet::new());
        for part in &parts {
            world.send(0, 1, &part.frame(is_v6, 1));
            for part in come(&mut world) {
                count += 1;
                let id = part.id;
                whole.extend((!receiver.take(part).is_empty()).then_some(id));
            }
        }
        prop_assert_eq!(count, expected);
        let cut_ones = |(id, &(port, length, size)): (u16, &(u16, usize, usize))| (length > size * 8 && is_allowed(rules, port)).then_some(id);
        prop_assert_eq!(whole, all.filter_map(cut_ones).collect::<BTreeSet<_>>());
    }
}
