use std::collections::BTreeSet;

use weft_fabric::topology::shapes::subways::{SubwaysSpec, SubwaysType};
use weft_fabric::topology::shapes::{Cabling, Shape};
use weft_fabric::{BitsPerSec, Duration};

use super::*;
use crate::commands;
use crate::plan::{Plan, PlanError, Role, RouteTarget, Routing, Settings};

fn laid(shape: Shape, ecmp_width: u16, services: Vec<ServiceSpec>) -> Result<Plan, PlanError> {
    let link = Cabling { rate: BitsPerSec(1_000_000_000), delay: Duration::ZERO };
    let fabric = shape.build(link, link).expect("a fabric");
    let settings = Settings::for_tests(Routing::Static);
    Plan::new(&fabric, &settings)?
        .with_vl2(&fabric, &Vl2Spec { locator: LocatorKind::Tor, ecmp_width, services, external: Vec::new() })
}

fn clos(intermediates: u32, hosts_per_tor: u32) -> Shape {
    Shape::ClosExplicit { intermediates, aggregations: 3, tors: 4, uplinks_per_tor: 2, hosts_per_tor }
}

/// Where packets for an address end, by every choice of next hops, from a switch on.
fn ends(plan: &Plan, from: usize, to: Ipv4Addr) -> BTreeSet<usize> {
    let node = &plan.nodes[from];
    if node.locator == to || node.anycast.contains(&to) {
        return BTreeSet::from([from]);
    }
    let matching = node.local.iter().chain(&node.fabric).filter(|r| r.to.contains(to));
    match matching.max_by_key(|r| r.to.len).map(|r| &r.target) {
        Some(RouteTarget::Via(hops)) => hops.iter().flat_map(|h| ends(plan, node.ports[h.port].peer.node, to)).collect(),
        Some(RouteTarget::Behind(hop)) => BTreeSet::from([node.ports[hop.port].peer.node]),
        Some(RouteTarget::Direct(port)) => BTreeSet::from([node.ports[*port].peer.node]),
        _ => BTreeSet::new(),
    }
}

#[test]
fn outer_sources_lead_back_to_their_hosts_and_are_no_address_of_a_switch() {
    let plan = laid(clos(3, 5), 16, Vec::new()).expect("a plan");
    let vl2 = plan.overlay.vl2().expect("VL2");
    let own: BTreeSet<Ipv4Addr> = plan.nodes.iter().flat_map(|n| n.blocks.iter().map(|b| b.address).chain([n.locator])).collect();
    let mut seen = BTreeSet::new();
    for host in &vl2.hosts {
        assert!(seen.insert(host.entropy.address), "two hosts have {}", host.entropy);
        for bits in [0, 77, 255] {
            let source = Ipv4Addr::from(u32::from(host.entropy.address) + bits);
            assert!(!own.contains(&source), "{source} is a switch's own");
            for switch in (0..plan.nodes.len()).filter(|&i| plan.nodes[i].role == Role::Switch) {
                assert_eq!(ends(&plan, switch, source), BTreeSet::from([host.node]), "{source} from {}", plan.nodes[switch].name);
            }
        }
    }
}

#[test]
fn every_member_of_a_group_is_reached_and_nobody_else() {
    let plan = laid(clos(5, 2), 2, Vec::new()).expect("a plan");
    let vl2 = plan.overlay.vl2().expect("VL2");
    assert_eq!((vl2.intermediates.len(), vl2.groups.len()), (5, 3));
    for group in &vl2.groups {
        let members: BTreeSet<usize> =
            vl2.intermediates.iter().copied().filter(|&i| plan.nodes[i].anycast.contains(group)).collect();
        assert!((1..=2).contains(&members.len()));
        for tor in (0..plan.nodes.len()).filter(|&i| vl2.is_tor(i)) {
            assert_eq!(ends(&plan, tor, *group), members, "{group} from {}", plan.nodes[tor].name);
        }
    }
    let groups: Vec<u16> = vl2.hosts.iter().map(|h| h.group).collect();
    assert_eq!(groups, [1, 2, 3, 1, 2, 3, 1, 2], "hosts are spread over the groups");
}

#[test]
fn hosts_of_no_service_have_one() {
    let spec = |name: &str, hosts: &[u32], allow: &[&str]| ServiceSpec {
        name: name.to_owned(),
        hosts: hosts.to_vec(),
        allow: allow.iter().map(ToString::to_string).collect(),
    };
    let services = vec![spec("a", &[0, 1], &["b"]), spec("b", &[2], &["*"])];
    let plan = laid(clos(1, 1), 16, services).expect("a plan");
    let vl2 = plan.overlay.vl2().expect("VL2");
    assert_eq!(vl2.hosts.iter().map(|h| h.service).collect::<Vec<_>>(), [1, 1, 2, 3]);
    assert_eq!(vl2.services[2].name, OTHERS);
    assert!(vl2.may_talk(1, 2) && !vl2.may_talk(2, 3) && vl2.may_resolve(3, 2) && !vl2.may_resolve(2, 3));
    assert!(laid(clos(1, 1), 16, Vec::new()).expect("a plan").overlay.vl2().expect("VL2").services.len() == 1);
}

#[test]
fn fabrics_without_intermediates_and_with_several_nics() {
    let one = laid(Shape::Switch { hosts: 3 }, 16, Vec::new()).expect("a plan");
    let one = one.overlay.vl2().expect("VL2");
    assert!(one.groups.is_empty() && one.hosts.iter().all(|h| h.group == 0));
    let two = laid(Shape::Subways(SubwaysSpec::testbed(SubwaysType::Type1)), 16, Vec::new());
    assert!(matches!(two, Err(PlanError::SeveralNics { .. })), "{two:?}");
}

#[test]
fn what_is_run_for_an_overlay() {
    let plan = laid(clos(3, 1), 2, Vec::new()).expect("a plan");
    let vl2 = plan.overlay.vl2().expect("VL2");
    let node = |name: &str| plan.node(name).expect("a node");
    let of = |name: &str| {
        format!(
            "== {name}\n{}{}",
            commands::devices(node(name), true),
            commands::routes(node(name), Routing::Static, plan.ecmp_width())
        )
    };
    let host = commands::vl2::host(&vl2.hosts[0], false);
    let leasing = commands::vl2::host(&vl2.hosts[0], true);
    let text = format!("{}{}== h0, its application addresses\n{host}== h0 with DHCP\n{leasing}", of("tor0"), of("int0"));
    insta::assert_snapshot!(text);
}
