//! What an adversary sends in a network with VL2.
//!
//! | attack | packet | by |
//! | --- | --- | --- |
//! | `inner_source`, `inner_source_v6` | friend to victim, in a header to the victim's locator | raw socket |
//! | `inner_source_disguised` | the same, as a frame of which the socket says that it is no IP | packet socket |
//! | `inner_source_past_hooks` | the same | packet socket past the hooks |
//! | `inner_source_bounced` | the same, over an intermediate switch | past the hooks |
//! | `forbidden_pair` | attacker to victim, by its own addresses | past the hooks |
//! | `outer_source` | attacker to its peer, with outer sources of the victim | past the hooks |
//! | `plain` | friend to victim, and attacker to victim, without an outer header | past the hooks |
//! | `arp` | "the victim's addresses are here" | past the hooks |
//! | `fragments` | friend to victim in fragments of the outer packet, and in such of the inner | past the hooks |
//! | `locator_udp` | a datagram to the victim's locator | stack |
//! | `locator_source` | the same, from the victim's ToR and from its friend | past the hooks |
//! | `locator_tunnel` | friend to victim, in a header to the victim's own locator | past the hooks |
//! | `locator_fragments` | a datagram to the victim's locator, in fragments too short for its ports | stack |
//! | `flood` | 20,000 packets from as many application addresses | past the hooks |

use std::net::{IpAddr, Ipv4Addr};

use weft_control::wire::packet::arp::Arp;
use weft_control::wire::packet::ip::{IPIP, UDP};
use weft_fabric::MacAddr;

use super::forge::{self, datagram, ip4, tunnelled};
use super::scene::Scene;

impl Attack {
    /// Whether the attacker's own agent refuses it.
    pub(super) fn is_refused_here(&self) -> bool {
        self.name.starts_with("inner_source") && !matches!(self.via, Via::Frames { is_past_hooks: true, .. })
    }
}

/// Packets that an attacker sends in one way.
#[derive(Clone, Debug)]
pub(super) struct Attack {
    pub name: &'static str,
    pub via: Via,
    /// IP or ARP packets, each sent in every round.
    pub packets: Vec<Vec<u8>>,
    pub rounds: u64,
    /// The Ethernet destination of frames.
    pub next_hop: MacAddr,
}

/// How packets are sent.
#[derive(Clone, Copy, Debug)]
pub(super) enum Via {
    /// A raw socket: by the stack, with its routes.
    Stack,
    /// A packet socket of an EtherType, which need not be that of its frames.
    Frames { ethertype: u16, is_past_hooks: bool },
}

const PAST_HOOKS: Via = Via::Frames { ethertype: libc::ETH_P_ALL as u16, is_past_hooks: true };
/// The EtherType for local experiments (IEEE 802, 9.2.3).
const DISGUISE: Via = Via::Frames { ethertype: 0x88b7, is_past_hooks: false };

/// All attacks, in the order of the table. `next_hop` is the MAC address of the next hop.
pub(super) fn all(scene: &Scene, next_hop: MacAddr) -> Vec<Attack> {
    let new = |(name, via, packets): Kind| {
        let rounds = if name == "flood" { 1 } else { forge::PACKETS };
        Attack { name, via, packets, rounds, next_hop }
    };
    // Where no ToR looks at what hosts send, only the hook of the host's own agent does.
    let is_possible = |via: Via| scene.has_tor || !matches!(via, Via::Frames { is_past_hooks: true, .. });
    let kinds = sources(scene).into_iter().chain(headers(scene)).chain(locators(scene));
    kinds.filter(|(_, via, _)| is_possible(*via)).map(new).collect()
}

type Kind = (&'static str, Via, Vec<Vec<u8>>);

/// Inner sources that are another host's.
fn sources(scene: &Scene) -> Vec<Kind> {
    let Scene { attacker, victim, friend, .. } = scene;
    let ends: [(IpAddr, IpAddr); 2] = [(friend.aa4.into(), victim.aa4.into()), (friend.aa6.into(), victim.aa6.into())];
    let [v4, v6] = ends.map(|(from, to)| tunnelled(attacker.outer_source, victim.tunnel, &datagram(from, to)));
    let mut kinds = vec![
        ("inner_source", Via::Stack, vec![v4.clone()]),
        ("inner_source_v6", Via::Stack, vec![v6.clone()]),
        ("inner_source_disguised", DISGUISE, vec![v4.clone(), v6.clone()]),
        ("inner_source_past_hooks", PAST_HOOKS, vec![v4.clone(), v6.clone()]),
    ];
    if let Some(anycast) = scene.anycast {
        let bounced = [v4, v6].iter().map(|one| tunnelled(attacker.outer_source, anycast, one)).collect();
        kinds.push(("inner_source_bounced", PAST_HOOKS, bounced));
    }
    kinds
}

/// Other headers that are not what they should be.
fn headers(scene: &Scene) -> Vec<Kind> {
    let Scene { attacker, victim, friend, peer, .. } = scene;
    let (own, outer, tunnel) = (attacker.aa4.into(), attacker.outer_source, victim.tunnel);
    let forged = datagram(friend.aa4.into(), victim.aa4.into());
    let pair = datagram(own, victim.aa4.into());
    let (first, later) = forged.split_at(24);
    let inner_fragments = [ip4(friend.aa4, victim.aa4, UDP, 0x2000, &first[20..24]), ip4(friend.aa4, victim.aa4, UDP, 1, later)];
    let mut fragments: Vec<_> = inner_fragments.iter().map(|one| tunnelled(outer, tunnel, one)).collect();
    fragments.push(ip4(outer, tunnel, IPIP, 0x2000, first));
    fragments.push(ip4(outer, tunnel, IPIP, 3, later));
    let allowed = datagram(own, peer.aa4.into());
    let others = [victim.outer_source, victim.locator, victim.tunnel];
    let here = |ip: Ipv4Addr, is_request: bool| {
        let mut packet = Vec::new();
        Arp { is_request, sender: (OWN, ip), target: (MacAddr([0xff; 6]), ip) }.emit(&mut packet);
        packet
    };
    let claims = [victim.aa4, friend.aa4, victim.locator];
    vec![
        ("forbidden_pair", PAST_HOOKS, vec![tunnelled(outer, tunnel, &pair)]),
        ("outer_source", PAST_HOOKS, others.map(|source| tunnelled(source, peer.tunnel, &allowed)).to_vec()),
        ("plain", PAST_HOOKS, vec![forged, pair, datagram(friend.aa6.into(), victim.aa6.into())]),
        ("arp", PAST_HOOKS, claims.iter().flat_map(|ip| [here(*ip, true), here(*ip, false)]).collect()),
        ("fragments", PAST_HOOKS, fragments),
        ("flood", PAST_HOOKS, flood(outer, tunnel, victim.aa4)),
    ]
}

/// Past the application addresses, to locators.
fn locators(scene: &Scene) -> Vec<Kind> {
    let Scene { attacker, victim, friend, .. } = scene;
    let (own, to) = (attacker.locator, victim.locator);
    let plain = datagram(own.into(), to.into());
    let (first, later) = plain[20..].split_at(8);
    let sources = [friend.locator, victim.tunnel];
    vec![
        ("locator_udp", Via::Stack, vec![plain.clone()]),
        ("locator_source", PAST_HOOKS, sources.map(|source| datagram(source.into(), to.into())).to_vec()),
        ("locator_tunnel", PAST_HOOKS, vec![tunnelled(own, to, &datagram(friend.aa4.into(), victim.aa4.into()))]),
        ("locator_fragments", Via::Stack, vec![ip4(own, to, UDP, 0x2000, first), ip4(own, to, UDP, 1, later)]),
    ]
}

/// Packets from as many addresses, most of which nobody has: each is a lookup, should it arrive.
fn flood(outer: Ipv4Addr, tunnel: Ipv4Addr, victim: Ipv4Addr) -> Vec<Vec<u8>> {
    let base = u32::from(victim) & 0xff00_0000 | 0x0010_0000;
    let source = |at: u32| IpAddr::from(Ipv4Addr::from(base + at));
    (0..FLOOD).map(|at| tunnelled(outer, tunnel, &datagram(source(at), victim.into()))).collect()
}

const FLOOD: u32 = 20_000;

/// A source MAC address that is nobody's.
pub(super) const OWN: MacAddr = MacAddr([2, 0x57, 0x46, 0, 0, 0x66]);
