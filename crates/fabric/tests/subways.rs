//! Routing on Subways wirings (sections 4.2 and 4.3): a shared ToR first, else ECMP over the source's and the destination's ToRs.

use std::collections::BTreeMap;
use std::sync::Arc;

use weft_fabric::addressing::Addressing;
use weft_fabric::routing::{FlowKey, Router, Routing};
use weft_fabric::topology::Shape;
use weft_fabric::topology::shapes::Cabling;
use weft_fabric::topology::shapes::subways::{Speeds, SubwaysSpec, SubwaysType, Trunk};
use weft_fabric::{BitsPerSec, Duration, Fabric, HostId, NodeId, SwitchId};

const LINK: Cabling = Cabling { rate: BitsPerSec(10_000_000_000), delay: Duration::from_us(1) };

fn built(spec: SubwaysSpec) -> Arc<Fabric> {
    Arc::new(Shape::Subways(spec).build(LINK, LINK).unwrap_or_else(|e| panic!("{spec:?}: {e}")))
}

/// How many of 6,000 flows from `src` to `dst` leave by each ToR and arrive by each ToR, and the links of their paths.
fn paths(fabric: &Arc<Fabric>, src: u32, dst: u32) -> (BTreeMap<(u32, u32), u32>, usize) {
    let mut router = Router::new(Arc::clone(fabric), Routing::default(), 1);
    let mut counts = BTreeMap::new();
    let mut length = None;
    for flow in 0..FLOWS {
        let path = router.route(&FlowKey::of_flow(flow, HostId(src), HostId(dst))).expect("a path");
        let tor = |node: NodeId| fabric.as_switch(node).expect("a ToR").0;
        let ends = (tor(fabric.link(path[0]).to), tor(fabric.link(path[path.len() - 1]).from));
        *counts.entry(ends).or_insert(0) += 1;
        assert_eq!(*length.get_or_insert(path.len()), path.len(), "all are shortest");
    }
    (counts, length.expect("flows"))
}

const FLOWS: u32 = 6_000;

/// Each expected pair of ToRs gets its share, within five standard deviations.
fn assert_even(counts: &BTreeMap<(u32, u32), u32>, expected: &[(u32, u32)]) {
    assert_eq!(counts.keys().copied().collect::<Vec<_>>(), expected);
    let share = f64::from(FLOWS) / expected.len() as f64;
    let deviation = 5.0 * (share * (1.0 - 1.0 / expected.len() as f64)).sqrt();
    assert!(counts.values().all(|&n| (f64::from(n) - share).abs() <= deviation), "{counts:?}");
}

#[test]
fn a_shared_tor_comes_first() {
    let fabric = built(SubwaysSpec::new(SubwaysType::Type1));
    // Racks 0 (ToRs 0 and 11) and 1 (ToRs 1 and 0) share ToR 0; the servers of rack 5 share both of its ToRs.
    assert_even(&paths(&fabric, 0, 15).0, &[(0, 0)]);
    let (counts, links) = paths(&fabric, 75, 76);
    assert_even(&counts, &[(4, 4), (5, 5)]);
    assert_eq!(links, 2);
    let four = built(SubwaysSpec { ports: 4, ..SubwaysSpec::new(SubwaysType::Type1) });
    // Racks 4 (ToRs 2 to 5) and 6 (4 to 7).
    assert_even(&paths(&four, 60, 90).0, &[(4, 4), (5, 5)]);
}

#[test]
fn other_flows_spread_over_source_and_destination_tors() {
    let fabric = built(SubwaysSpec::new(SubwaysType::Type1));
    let (counts, links) = paths(&fabric, 0, 90);
    assert_even(&counts, &[(0, 5), (0, 6), (11, 5), (11, 6)]);
    assert_eq!(links, 4, "below the cores");
    let (counts, links) = paths(&fabric, 0, 270);
    assert_even(&counts, &[(0, 17), (0, 18), (11, 17), (11, 18)]);
    assert_eq!(links, 6, "another cluster");
}

#[test]
fn type_2_stays_in_the_cluster_that_both_ends_reach() {
    let fabric = built(SubwaysSpec::new(SubwaysType::Type2));
    // Rack 0 (ToRs 0 and 11) and rack 6 (6 and 5) are in both clusters; so are the racks of the other loop.
    assert_even(&paths(&fabric, 0, 90).0, &[(0, 6), (11, 5)]);
    let (counts, links) = paths(&fabric, 0, 270);
    assert_even(&counts, &[(0, 18), (11, 17)]);
    assert_eq!(links, 4, "another loop, and no core");
    let apart = built(SubwaysSpec { clusters: Some(4), ..SubwaysSpec::new(SubwaysType::Type2) });
    let (counts, links) = paths(&apart, 0, 450);
    assert_even(&counts, &[(0, 29), (0, 30), (11, 29), (11, 30)]);
    assert_eq!(links, 6, "other clusters");
}

#[test]
fn parallel_interconnects_never_mix() {
    let speeds = Speeds::new(&[LINK.rate, BitsPerSec(25_000_000_000)]).expect("two");
    let fabric = built(SubwaysSpec { speeds, clusters: Some(4), ..SubwaysSpec::new(SubwaysType::Type2) });
    let (counts, links) = paths(&fabric, 0, 450);
    assert_eq!(counts.keys().copied().collect::<Vec<_>>(), [(0, 30), (11, 29)]);
    assert_eq!(links, 6);
}

#[test]
fn switches_keep_the_locators_of_their_own_cluster() {
    let fabric = built(SubwaysSpec::new(SubwaysType::Type2));
    let addressing = Addressing::new(&fabric).expect("addresses");
    for switch in fabric.switches() {
        if let Some(pod) = fabric.node(fabric.switch_node(switch)).pod {
            let prefix = addressing.pod(pod).expect("its pod");
            assert!(prefix.contains(addressing.switch(switch)), "{switch}: {}", addressing.switch(switch));
        }
    }
    assert_ne!(addressing.switch(SwitchId(0)), addressing.switch(SwitchId(1)));
}

#[test]
fn a_trunk_by_flow_uses_all_of_its_cables_at_both_ends() {
    let fabric = built(SubwaysSpec { trunk: Trunk::Flow, ports: 3, ..SubwaysSpec::new(SubwaysType::Type0) });
    let mut router = Router::new(Arc::clone(&fabric), Routing::default(), 1);
    let mut counts = BTreeMap::new();
    for flow in 0..FLOWS {
        let path = router.route(&FlowKey::of_flow(flow, HostId(0), HostId(90))).expect("a path");
        *counts.entry((path[0].0, path[path.len() - 1].0)).or_insert(0) += 1;
    }
    let [from, to] = [0, 90].map(|h| fabric.out(HostId(h).node()).to_vec());
    let expected: Vec<(u32, u32)> = from.iter().flat_map(|a| to.iter().map(move |b| (a.0, b.reverse().0))).collect();
    assert_even(&counts, &expected);
}
