//! What VIFs and MAC spaces may hand to the agent.

use weft_control::netlord::agent::{RoutedFlow, VifId};
use weft_control::wire::netlord::{Encapsulation, Overlay, Recipient, group_mac};

use super::*;
use crate::dataplane::Rate;
use crate::dataplane::testing::{CONSUMED, DROPPED, REDIRECTED, run};
use crate::netlord::dataplane::layout::VIF_BUDGETS;
use crate::netlord::dataplane::{Event, Handed};

/// As of the programs' settings; the rate is so low that nothing is filled up during a test.
const RATE: Rate = Rate { per_second: 1, burst: 600 };

/// As [`server`], with these budgets.
fn limited() -> Option<(PinDir, HostPlane)> {
    let (pins, plane) = server()?;
    drop(plane);
    // The next process has other settings.
    let plane = HostPlane::load(&HostSettings { agent: RATE, ..HostSettings::default() }, &pins.0).unwrap();
    assert!(plane.adopted());
    Some((pins, plane))
}

fn verdicts(plane: &HostPlane, program: &str, frame: &[u8], times: usize) -> (usize, usize) {
    let all: Vec<i32> = (0..times).map(|_| run(plane.loaded(), program, frame, 0).0).collect();
    let count = |verdict| all.iter().filter(|it| **it == verdict).count();
    assert_eq!(count(CONSUMED) + count(DROPPED), times);
    (count(CONSUMED), count(DROPPED))
}

fn frames_of(events: &[Event]) -> usize {
    events.iter().filter(|it| matches!(it, Event::FromVif { .. } | Event::FromFabric { .. })).count()
}

fn drain(plane: &mut HostPlane) -> usize {
    std::iter::from_fn(|| Some(frames_of(&plane.events().unwrap())).filter(|count| *count > 0)).sum()
}

/// A group's frame from another server, to a tenant's MAC space.
fn group(vif: Vif) -> Vec<u8> {
    let inner = ethernet(MacAddr([0xff; 6]), vm(2), 0x88b7, &[1; 60]);
    let overlay = Overlay { to: Recipient::Group, tenant: vif.tenant, space: vif.space, vlan: Some(vlan(4094)) };
    let mut out = Vec::new();
    Encapsulation { dst: group_mac(vif.tenant), src: FAR_SWITCH, tag: None, overlay, inner: &inner }.emit(&mut out);
    out
}

#[test]
fn a_vif_hands_the_agent_what_its_budget_allows_and_others_theirs() {
    let Some((_pins, mut plane)) = limited() else { return };
    let unknown = ethernet(vm(77), vm(1), 0x88b7, &[1; 46]);
    assert_eq!(verdicts(&plane, "netlord_vif", &unknown, 1000), (600, 400));
    assert_eq!(plane.counters().unwrap().get("agent_limit"), 400);
    assert_eq!(plane.handed_by_vifs().unwrap(), [(HERE, Handed { handed: 600, refused: 400 })]);
    // What the kernel forwards by itself goes on.
    let known = ethernet(vm(2), vm(1), 0x88b7, &[1; 46]);
    assert_eq!(run(plane.loaded(), "netlord_vif", &known, 0).0, REDIRECTED);
    // What comes from the fabric has budgets of its own.
    assert_eq!(verdicts(&plane, "netlord_uplink", &group(vif(1)), 10), (10, 0));
    assert_eq!(drain(&mut plane), 610);
    // A large packet takes as many as it takes of the ring.
    plane.remove_vif(HERE).unwrap();
    plane.set_vif(HERE, vif(1), Some(HERE)).unwrap();
    let large = ethernet(vm(77), vm(1), 0x88b7, &[1; 3000]);
    assert_eq!(verdicts(&plane, "netlord_vif", &large, 30), (600 / 32, 30 - 600 / 32));
}

#[test]
fn a_budget_is_not_filled_twice_for_the_same_time() {
    let Some((_pins, plane)) = limited() else { return };
    let unknown = ethernet(vm(77), vm(1), 0x88b7, &[1; 46]);
    assert_eq!(verdicts(&plane, "netlord_vif", &unknown, 1), (1, 0));
    // Another processor has filled it since the clock was read.
    let budgets = plane.table(&VIF_BUDGETS);
    let mut budget = budgets.get(&HERE).unwrap().unwrap();
    (budget.tokens, budget.filled_ns) = (0, budget.filled_ns + 1_000_000_000);
    budgets.set(&HERE, &budget).unwrap();
    assert_eq!(verdicts(&plane, "netlord_vif", &unknown, 1), (0, 1));
    assert_eq!(budgets.get(&HERE).unwrap().unwrap().filled_ns, budget.filled_ns);
}

#[test]
fn a_full_ring_has_room_for_those_that_were_quiet() {
    let Some((_pins, mut plane)) = limited() else { return };
    plane.rate = Rate { per_second: 1, burst: 100_000 };
    plane.set_vif(HERE, vif(1), Some(HERE)).unwrap();
    // 1,985 frames would fill it.
    let unknown = ethernet(vm(77), vm(1), 0x88b7, &[1; 46]);
    let (handed, refused) = verdicts(&plane, "netlord_vif", &unknown, 6000);
    assert!((1600..1800).contains(&handed), "a quiet one has seven eighths at once: {handed}, {refused}");
    let group = group(vif(1));
    let (more, refused) = verdicts(&plane, "netlord_uplink", &group, 100);
    assert!((5..60).contains(&more) && refused >= 40, "the last eighth is for the agent's own: {more}, {refused}");
    let here = {
        let mut frame = ethernet(MacAddr([0xff; 6]), FAR_SWITCH, 0x88b5, &[0; 46]);
        frame[14] = 0x11;
        frame
    };
    assert_eq!(verdicts(&plane, "netlord_uplink", &here, 100), (100, 0), "NL-ARP");
    // The agent takes a third of it. Who has sent much waits, and pays for each try; who has not finds room.
    let taken = frames_of(&plane.events().unwrap());
    assert!(taken >= 600, "{taken}");
    drain(&mut plane);
    plane.rate = Rate { per_second: 1, burst: 1200 };
    plane.set_vif(HERE, vif(1), Some(HERE)).unwrap();
    let (first, _) = verdicts(&plane, "netlord_vif", &unknown, 3000);
    assert!((1000..=1200).contains(&first), "{first}: its budget, or as the ring fills less");
    assert_eq!(verdicts(&plane, "netlord_vif", &unknown, 50), (0, 50));
    assert_eq!(verdicts(&plane, "netlord_uplink", &group, 50), (50, 0), "a quiet one, beside a flood in the ring");
    assert_eq!(plane.counters().unwrap().get("events_full"), 0);
}

#[test]
fn groups_of_mac_spaces_that_have_no_vif_here_end_in_the_kernel() {
    let Some((_pins, mut plane)) = server() else { return };
    let of = |tenant| group(Vif { tenant: TenantId(tenant), ..vif(1) });
    assert_eq!(verdicts(&plane, "netlord_uplink", &of(99), 3), (0, 3));
    assert_eq!(plane.counters().unwrap().get("other_spaces"), 3);
    assert_eq!(drain(&mut plane), 0);
    // While one of two is here.
    for (gone, expected) in [(vif(3), (1, 0)), (vif(1), (0, 1))] {
        plane.set_local(gone, None).unwrap();
        assert_eq!(verdicts(&plane, "netlord_uplink", &group(vif(1)), 1), expected);
    }
    plane.set_local(vif(1), Some(HERE)).unwrap();
    assert_eq!(verdicts(&plane, "netlord_uplink", &group(vif(1)), 1), (1, 0));
    // One space's flood leaves another's budget as it is.
    plane.rate = RATE;
    plane.set_local(Vif { tenant: TenantId(99), ..vif(5) }, Some(THERE)).unwrap();
    plane.set_local(vif(1), Some(HERE)).unwrap();
    assert_eq!(verdicts(&plane, "netlord_uplink", &group(vif(1)), 700), (600, 100));
    assert_eq!(verdicts(&plane, "netlord_uplink", &of(99), 10), (10, 0));
    assert_eq!(plane.counters().unwrap().get("space_limit"), 100);
    let of_99 = plane.handed_to_spaces().unwrap().into_iter().find(|((tenant, _), _)| tenant.0 == 99).unwrap();
    assert_eq!(of_99.1, Handed { handed: 10, refused: 0 });
}

#[test]
fn fragments_to_a_router_go_to_the_agent_whatever_it_did_with_others() {
    let Some((_pins, mut plane)) = server() else { return };
    let router = vm(0xfe);
    let [source, destination] = [[10, 0, 0, 1], [10, 0, 0, 2]].map(std::net::IpAddr::from);
    let flow = RoutedFlow { id: VifId(HERE), router, source, destination, protocol: 17, port: 53, to: vif(2), from: vm(0xfd) };
    plane.set_route(&flow, std::time::Duration::from_secs(60)).unwrap();
    let to_router = |fragment| ethernet(router, vm(1), 0x0800, &ip4(17, &[], fragment, &udp(7, 53, 10)));
    assert_eq!(run(plane.loaded(), "netlord_vif", &to_router(0x4000), 0).0, REDIRECTED, "no fragment");
    for fragment in [0x2000, 0x2001, 0x0001] {
        assert_eq!(verdicts(&plane, "netlord_vif", &to_router(fragment), 1), (1, 0), "{fragment:04x}");
    }
}
