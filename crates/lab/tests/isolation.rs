//! Services on the same ToRs that may not talk, in a lab that really stands (VL2 section 4.3.3): lookups across them are refused, and packets that are forged to cross
//! nevertheless are dropped and counted by reason. As root, with `weft-agent` and `weft-directory` built; elsewhere it says that it is skipped.
#![cfg(target_os = "linux")]

mod support;

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpStream, UdpSocket};
use std::time::Duration;

use support::TestLab;
use support::overlay::{GO, ask, counter, host, plan_of, stand};
use weft_fabric::topology::shapes::Shape;
use weft_lab::agents;
use weft_lab::plan::vl2::{LocatorKind, ServiceSpec, Vl2Host, Vl2Spec};
use weft_lab::probe::isolation;

/// Two ToRs of two hosts: of each the first is of the one service, the second of the other.
const WEB: [usize; 2] = [0, 2];
const BATCH: [usize; 2] = [1, 3];
const PACKETS: u64 = 20;

fn name_of(lab: &TestLab, host: &Vl2Host) -> String {
    lab.plan().nodes[host.node].name.clone()
}

/// The sum of some drops of a host's agent.
fn drops(lab: &TestLab, host: &Vl2Host, reasons: &[&str]) -> u64 {
    let status = ask(lab, &name_of(lab, host));
    reasons.iter().map(|reason| counter(&status, reason)).sum()
}

/// What comes to a port of a host during a test.
fn heard(lab: &TestLab, host: &Vl2Host, send: impl FnOnce()) -> usize {
    let socket = lab.at(&name_of(lab, host), || UdpSocket::bind((host.aa4, PORT)).expect("a free port"));
    socket.set_read_timeout(Some(Duration::from_millis(1500))).expect("a setting");
    send();
    std::iter::from_fn(|| socket.recv_from(&mut [0; 64]).ok()).count()
}

const PORT: u16 = 7100;

/// A lab with a host of each of two services below each of two ToRs; neither service allows the other.
fn two_services(letter: char, locator: LocatorKind) -> Option<TestLab> {
    let shape = Shape::ClosExplicit { intermediates: 2, aggregations: 2, tors: 2, uplinks_per_tor: 2, hosts_per_tor: 2 };
    let service = |name: &str, hosts: [usize; 2]| ServiceSpec {
        name: name.to_owned(),
        hosts: hosts.map(|h| h as u32).to_vec(),
        allow: Vec::new(),
    };
    let services = vec![service("web", WEB), service("batch", BATCH)];
    stand(plan_of(shape, letter, Vl2Spec { locator, ecmp_width: 16, services, external: Vec::new() }))
}

#[test]
fn services_are_kept_apart_and_forgeries_are_counted() {
    let Some(lab) = two_services('g', LocatorKind::Tor) else { return };
    within_a_service_all_is_well(&lab);
    lookups_across_services_are_refused(&lab);
    a_source_that_is_not_ones_own_goes_nowhere(&lab);
    within_a_service_all_is_well(&lab);
    an_adversary_gets_nothing_through(&lab);
    an_operator_can_attack_from_a_host(&lab);
}

/// `weft test isolation --from` and `--listen`: the same from one host by its own addresses, while the victim listens.
fn an_operator_can_attack_from_a_host(lab: &TestLab) {
    let [attacker, victim, friend, peer] = [WEB[0], BATCH[1], BATCH[0], WEB[1]].map(|at| host(lab, at));
    let end = |host: &Vl2Host| isolation::End {
        aa4: host.aa4,
        aa6: host.aa6,
        locator: lab.plan().nodes[host.node].locator,
        tunnel: lab.plan().nodes[host.tor].locator,
        outer_source: Ipv4Addr::from(u32::from(host.entropy.address) | 9),
    };
    let scene = isolation::Scene {
        device: "eth0".to_owned(),
        next_hop: lab.plan().nodes[attacker.tor].locator,
        has_tor: true,
        anycast: None,
        attacker: end(attacker),
        victim: end(victim),
        friend: end(friend),
        peer: end(peer),
    };
    let name = name_of(lab, attacker);
    let socket = agents::socket(lab.plan(), lab.node(&name));
    let (cases, arrived) = std::thread::scope(|scope| {
        let listening = scope.spawn(|| {
            let listen = || isolation::listen_here(Duration::from_secs(12)).expect("a free port");
            lab.at(&name_of(lab, victim), listen)
        });
        (lab.at(&name, || isolation::attack(&scene, &socket).expect("it attacks")), listening.join().expect("it listens"))
    });
    assert_eq!(arrived, 0);
    let here: Vec<_> = cases.iter().filter(|case| case.ok.is_some()).map(|case| (case.name, case.ok, case.sent)).collect();
    let expected = [("inner_source", 20), ("inner_source_v6", 20), ("inner_source_disguised", 40)];
    assert_eq!(here, expected.map(|(name, sent)| (name, Some(true), sent)));
}

/// `weft test isolation`: each of its attacks is refused and counted.
fn an_adversary_gets_nothing_through(lab: &TestLab) {
    let result = isolation::test(lab.plan(), &GO).expect("it runs");
    for case in &result.cases {
        eprintln!(
            "{:<24} {:?} sent {} arrived {} refused {:?}: {}",
            case.name, case.ok, case.sent, case.arrived, case.refused, case.detail
        );
    }
    assert!(result.cases.len() > 10, "the lab has what the attacks need");
    let failed: Vec<_> = result.cases.iter().filter(|case| case.ok != Some(true)).collect();
    assert!(failed.is_empty(), "{failed:?}");
}

/// Where no ToR looks at what hosts send: what a host's own programs and the receiver's refuse.
#[test]
fn hosts_that_are_their_own_locators_are_kept_apart() {
    let Some(lab) = two_services('k', LocatorKind::Host) else { return };
    let result = isolation::test(lab.plan(), &GO).expect("it runs");
    let names: Vec<_> = result.cases.iter().map(|case| case.name).collect();
    assert!(result.ok, "{result:?}");
    assert!(["inner_source", "locator_udp", "locator_tcp"].iter().all(|name| names.contains(name)), "{names:?}");
}

fn within_a_service_all_is_well(lab: &TestLab) {
    for [a, b] in [WEB, BATCH] {
        let (from, to) = (host(lab, a), host(lab, b));
        let got = heard(lab, to, || send(lab, from, from.aa4, to.aa4));
        assert_eq!(got as u64, PACKETS, "{} to {}", name_of(lab, from), name_of(lab, to));
    }
}

/// Packets from an address of a host, by its stack.
fn send(lab: &TestLab, from: &Vl2Host, source: Ipv4Addr, to: Ipv4Addr) {
    lab.at(&name_of(lab, from), || {
        let socket = UdpSocket::bind((source, 0)).expect("an address of this host");
        for _ in 0..PACKETS {
            // The "unreachable" of an earlier packet may be reported here.
            let _ = socket.send_to(&[7; 32], (to, PORT)).or_else(|_| socket.send_to(&[7; 32], (to, PORT)));
            std::thread::sleep(Duration::from_millis(10));
        }
    });
}

fn lookups_across_services_are_refused(lab: &TestLab) {
    let (from, neighbour, far) = (host(lab, WEB[0]), host(lab, BATCH[0]), host(lab, BATCH[1]));
    for to in [neighbour, far] {
        let before = drops(lab, from, &["held_forbidden", "out_forbidden"]);
        assert_eq!(heard(lab, to, || send(lab, from, from.aa4, to.aa4)), 0, "to {}", name_of(lab, to));
        let address = SocketAddr::from(SocketAddrV4::new(to.aa4, PORT));
        let connected = lab.at(&name_of(lab, from), || TcpStream::connect_timeout(&address, Duration::from_secs(2)));
        assert!(connected.is_err(), "nobody of another service is found");
        let refused = drops(lab, from, &["held_forbidden", "out_forbidden"]) - before;
        eprintln!("{} lookups and packets to {} refused", refused, name_of(lab, to));
        assert!(refused > 0);
    }
}

/// A program takes an address of the other service, so that it may talk to that.
fn a_source_that_is_not_ones_own_goes_nowhere(lab: &TestLab) {
    let (from, claimed, to) = (host(lab, WEB[0]), host(lab, BATCH[0]), host(lab, BATCH[1]));
    let before = drops(lab, from, &["forged_source"]);
    let name = name_of(lab, from);
    lab.shell(&name, &format!("ip addr add {}/32 dev lo", claimed.aa4));
    // The address of its neighbour is known by hand: nobody is asked who has it.
    lab.shell(&name, &format!("ip neigh replace {} lladdr 02:57:46:54:00:01 dev eth0", to.aa4));
    let got = heard(lab, to, || send(lab, from, claimed.aa4, to.aa4));
    lab.shell(&name, &format!("ip addr del {}/32 dev lo; ip neigh del {} dev eth0", claimed.aa4, to.aa4));
    let dropped = drops(lab, from, &["forged_source"]) - before;
    assert_eq!((got, dropped), (0, PACKETS), "each is dropped where it was forged");
}
