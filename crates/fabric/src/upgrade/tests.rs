use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;
use crate::BitsPerSec;
use crate::cabling::cables;
use crate::time::Duration;
use crate::topology::shapes::Cabling;
use crate::topology::shapes::subways::{RackSize, Speeds, SubwaysSpec, SubwaysType, Uplinks, Wiring};

const LINK: Cabling = Cabling { rate: BitsPerSec(10_000_000_000), delay: Duration::from_us(1) };

fn wiring(spec: SubwaysSpec) -> SubwaysWiring {
    spec.wiring(LINK, LINK).unwrap_or_else(|e| panic!("{spec:?}: {e}"))
}

fn planned(from: SubwaysSpec, to: SubwaysSpec) -> Plan {
    let (from, to) = (wiring(from), wiring(to));
    let plan = plan(&from, &to).expect("the same servers");
    check(&plan, &from, &to);
    plan
}

/// Every fabric here: 12 ToRs of 12 server ports for each port of a server, 144 servers.
fn spec(kind: SubwaysType, ports: u32) -> SubwaysSpec {
    SubwaysSpec {
        ports,
        rack: RackSize::Servers(12 / ports),
        racks_per_cluster: 6 * ports,
        clusters: Some(2),
        tor_uplinks: Uplinks::Count(3),
        agg_uplinks: Uplinks::Count(2),
        loop_length: matches!(kind.wiring(), Wiring::SharedTors | Wiring::SharedClusters).then_some(6 * ports),
        ..SubwaysSpec::new(kind)
    }
}

/// The reference: carries the plan out on a list of cables, and looks at what is there in the end.
fn check(plan: &Plan, from: &SubwaysWiring, to: &SubwaysWiring) {
    let renamed: BTreeMap<Part, Part> = plan.renamed.iter().map(|r| (r.from, r.to)).collect();
    let name = |part: Part| renamed.get(&part).copied().unwrap_or(part);
    let mut live: Vec<Cable> = cables(from).map(|c| Cable { lower: name(c.lower), upper: name(c.upper), ..c }).collect();
    for step in &plan.steps {
        assert_eq!(step.count, step.changes.len());
        for change in &step.changes {
            let (gone, new) = match *change {
                Change::Add(cable) => (None, Some(cable)),
                Change::Move { end, from, to, rate_bps } => {
                    let cable = |upper| Cable { lower: end, upper, rate: BitsPerSec(rate_bps) };
                    (Some(cable(from)), Some(cable(to)))
                }
                Change::Replace { end, from, to, from_bps, to_bps } => {
                    let cable = |upper, bps| Cable { lower: end, upper, rate: BitsPerSec(bps) };
                    (Some(cable(from, from_bps)), Some(cable(to, to_bps)))
                }
                Change::Remove(cable) => (Some(cable), None),
            };
            if let Some(gone) = gone {
                let at = live.iter().position(|c| *c == gone).unwrap_or_else(|| panic!("{change:?}: it is not plugged"));
                live.swap_remove(at);
            }
            live.extend(new);
        }
    }
    let (servers, above): (Vec<Cable>, Vec<Cable>) = live.into_iter().partition(Cable::is_server);
    let sorted = |mut cables: Vec<Cable>| {
        cables.sort_unstable();
        cables
    };
    assert_eq!(sorted(above), sorted(cables(to).filter(|c| !c.is_server()).collect()), "the layers above are the new fabric's");
    let mut ports = vec![0; to.tors() as usize];
    let racks: BTreeSet<Vec<Part>> =
        (0..to.tors()).map(|r| sorted_parts(to.ports_of_rack(r).iter().map(|&t| Part::Tor(t)).collect())).collect();
    let mut of_host: BTreeMap<Part, Vec<Part>> = BTreeMap::new();
    for cable in servers {
        of_host.entry(cable.lower).or_default().push(cable.upper);
        let Part::Tor(tor) = cable.upper else { panic!("{cable:?}") };
        ports[tor as usize] += 1;
    }
    assert!(ports.iter().all(|&q| q == to.server_ports()), "every ToR has q server ports: {ports:?}");
    assert_eq!(of_host.len() as u32, to.hosts());
    assert!(
        of_host.into_values().all(|tors| racks.contains(&sorted_parts(tors))),
        "every server is wired as a rack of the new fabric"
    );
}

fn sorted_parts(mut parts: Vec<Part>) -> Vec<Part> {
    parts.sort_unstable();
    parts
}

fn never_less_than_before(plan: &Plan) -> bool {
    plan.steps.iter().all(|s| s.in_service.servers_cut_off == 0 && s.in_service.server_capacity > 0.999)
}

/// Section 4.1: N_s new server links, N_s / 2 of the old ones rewired, twice the switches.
#[test]
fn type_0_rewires_half_of_the_server_links() {
    let plan = planned(spec(SubwaysType::Type0, 1), spec(SubwaysType::Type0, 2));
    assert_eq!((plan.server_cables.added, plan.server_cables.moved, plan.server_cables.kept), (144, 72, 72));
    assert_eq!((plan.new_switches.tors, plan.retired_switches), (12, Switches::default()));
    assert_eq!(plan.rack_sizes, [6, 6]);
    // The new link to the new ToR carries while the old one is moved.
    assert!(plan.steps.iter().all(|s| s.in_service.servers_cut_off == 0 && s.in_service.server_links_min >= 1));
}

/// Section 4.2 and figure 2: from p to p + 1 ports no server link is touched.
#[test]
fn type_1_leaves_server_links_alone() {
    for (before, after) in [(1, 2), (1, 3), (2, 3), (2, 4), (3, 4), (3, 6), (1, 6)] {
        let plan = planned(spec(SubwaysType::Type1, before), spec(SubwaysType::Type1, after));
        let counts = Counts { kept: 144 * u64::from(before), added: 144 * u64::from(after - before), ..Counts::default() };
        assert_eq!(plan.server_cables, counts, "{before} to {after} ports");
        assert!(never_less_than_before(&plan));
    }
    // With clusters of the same size the loop no longer fits into one: the upper layers are rewired.
    let to = SubwaysSpec { racks_per_cluster: 6, clusters: Some(4), loop_length: Some(6), ..spec(SubwaysType::Type1, 2) };
    let plan = planned(spec(SubwaysType::Type1, 1), to);
    assert_eq!(plan.server_cables.moved, 0);
    assert!(plan.tor_cables.moved > 0, "{:?}", plan.tor_cables);
    assert!(plan.steps.iter().all(|s| s.in_service.tor_uplinks_min >= 2), "one uplink of three at a time");
}

/// Section 8.4: an augmentation with 25 Gbps beside 10 Gbps, and a replacement of everything.
#[test]
fn heterogeneous_upgrades() {
    let one = SubwaysSpec { clusters: Some(1), racks_per_cluster: 12, loop_length: Some(12), ..spec(SubwaysType::Type1, 1) };
    let speeds = Speeds::new(&[LINK.rate, BitsPerSec(25_000_000_000)]).expect("two");
    let to = SubwaysSpec { speeds, racks_per_cluster: 12, loop_length: Some(12), ..spec(SubwaysType::Type2D, 2) };
    let plan = planned(one, to);
    assert_eq!(plan.server_cables, Counts { kept: 144, added: 144, ..Counts::default() });
    assert_eq!((plan.tor_cables.kept, plan.tor_cables.added), (36, 36));
    assert_eq!((plan.agg_cables.kept, plan.agg_cables.added), (6, 6), "the core of the old network is not touched");
    let fast = Speeds::new(&[BitsPerSec(25_000_000_000)]).expect("one");
    let two = SubwaysSpec { loop_clusters: Some(1), ..spec(SubwaysType::Type2, 1) };
    let plan = planned(two, SubwaysSpec { speeds: fast, ..two });
    assert_eq!(plan.server_cables, Counts { replaced: 144, ..Counts::default() });
    assert!(plan.steps.iter().any(|s| s.in_service.servers_cut_off == 144), "a single link is out while it is replaced");
}

#[test]
fn the_same_fabric_needs_nothing_and_other_servers_are_refused() {
    for (_, kind) in SubwaysType::ALL {
        assert_eq!(planned(spec(kind, 2), spec(kind, 2)).steps, []);
    }
    let error =
        plan(&wiring(spec(SubwaysType::Type1, 1)), &wiring(SubwaysSpec::new(SubwaysType::Type1))).expect_err("360 servers");
    assert!(error.to_string().contains("whose product is 144"), "{error}");
}

prop_compose! {
    /// A type 2 fabric (or one of single links) and its augmentation by further clusters: section 4.3.
    fn augmentation()(
        before in 1u32..4, more in 1u32..4, servers in 1u32..4, racks in 1u32..4, blocks in 1u32..3, up in 1u32..4, agg_up in 1u32..3,
        separate: bool, spread in 1u32..3,
    ) -> (SubwaysSpec, SubwaysSpec) {
        let after = before * (more + 1);
        // Loops of whole clusters, so that the old and the new ones match.
        let racks_per_cluster = racks * after;
        let of = |ports: u32| {
            let across = spread * ports;
            SubwaysSpec {
                ports,
                rack: RackSize::Servers(servers * after / ports),
                racks_per_cluster,
                clusters: Some(blocks * across),
                loop_clusters: Some(across),
                tor_uplinks: Uplinks::Count(up),
                agg_uplinks: Uplinks::Count(agg_up),
                loop_length: Some(ports * racks),
                speeds: if separate && after <= 8 { Speeds::new(&vec![LINK.rate; ports as usize]).expect("few") } else { Speeds::default() },
                ..SubwaysSpec::new(SubwaysType::Type2)
            }
        };
        (of(before), of(after))
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(ProptestConfig::default().cases * 64 / 256))]

    /// Section 4.3: nothing is rewired, and nothing that carried goes out of service.
    #[test]
    fn type_2_rewires_nothing((from, to) in augmentation()) {
        let plan = planned(from, to);
        for counts in [plan.server_cables, plan.tor_cables, plan.agg_cables] {
            prop_assert_eq!((counts.moved, counts.replaced, counts.removed), (0, 0, 0));
        }
        prop_assert_eq!(plan.retired_switches, Switches::default());
        prop_assert!(plan.steps.iter().all(|s| s.changes.iter().all(|c| matches!(c, Change::Add(_)))));
        prop_assert!(never_less_than_before(&plan));
    }

    /// Between any two fabrics with as many servers, the plan leads from the one to the other.
    #[test]
    fn every_plan_arrives(
        a in 0usize..8, b in 0usize..8, before in prop::sample::select(vec![1u32, 2, 3, 4, 6]), after in prop::sample::select(vec![1u32, 2, 3, 4, 6]),
        trimmed: bool,
    ) {
        let (a, mut b) = (spec(SubwaysType::ALL[a].1, before), spec(SubwaysType::ALL[b].1, after));
        if trimmed {
            b = SubwaysSpec { tor_uplinks: Uplinks::Count(2), agg_uplinks: Uplinks::Count(1), ..b };
        }
        planned(a, b);
    }
}
