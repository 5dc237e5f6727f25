use proptest::prelude::*;

use super::*;
use crate::time::Duration;
use crate::topology::shapes::subways::{Speeds, SubwaysSpec, SubwaysType};
use crate::topology::shapes::{Cabling, Shape};

const LINK: Cabling = Cabling { rate: BitsPerSec(10_000_000_000), delay: Duration::from_us(1) };
const FAST: BitsPerSec = BitsPerSec(25_000_000_000);

/// Copper to 3 m in steps of half a metre, fibre beyond.
fn prices() -> PriceList {
    let copper = (1..=6).map(|i| (Medium::Copper, i * 500, f64::from(i)));
    let fibre = [(Medium::Fibre, 20_000, 50.0), (Medium::Fibre, 1_000_000, 80.0)];
    let cables = copper.chain(fibre).map(|(medium, length_mm, price)| CablePrice { medium, rate: FAST, length_mm, price });
    PriceList {
        currency: "USD".to_owned(),
        note: String::new(),
        cables: cables.collect(),
        switches: [12, 36, 500].map(|ports| SwitchPrice { rate: FAST, ports, price: f64::from(ports) * 10.0 }).to_vec(),
        nics: vec![PortPrice { rate: FAST, price: 7.0 }],
    }
}

fn surveyed(spec: SubwaysSpec, plan: &FloorPlan) -> Survey {
    let wiring = spec.wiring(LINK, LINK).unwrap_or_else(|e| panic!("{spec:?}: {e}"));
    survey(&wiring, plan, &prices()).unwrap_or_else(|e| panic!("{spec:?}: {e}"))
}

fn class(survey: &Survey, stretch: Stretch) -> &CableClass {
    survey.classes.iter().find(|c| c.stretch == stretch).unwrap_or_else(|| panic!("no {stretch:?}"))
}

/// Section 7: 2 m in a row and 2.2 m across the aisle, copper throughout.
#[test]
fn lengths_of_section_7() {
    for kind in [SubwaysType::Type1, SubwaysType::Type2] {
        let survey = surveyed(SubwaysSpec::new(kind), &FloorPlan::default());
        let [rack, row, aisle] =
            [Stretch::ServerInRack, Stretch::ServerAlongRow, Stretch::ServerAcrossAisle].map(|s| class(&survey, s).run_max_m);
        assert!((1.9..=2.0).contains(&rack) && row <= rack, "in a rack {rack} m, along the row {row} m");
        assert!((2.1..=2.2).contains(&aisle), "across the aisle {aisle} m");
        assert!(survey.servers_on_copper && survey.longest_server_run_m == aisle);
        // Two loops of 6 physical racks; of each, two racks have a neighbour across the aisle, with 15 servers.
        assert_eq!((survey.racks, class(&survey, Stretch::ServerAcrossAisle).count), (12, 60));
        assert_eq!(class(&survey, Stretch::ServerAlongRow).count, 120);
        assert_eq!(class(&survey, Stretch::ServerInRack).count, 540);
    }
}

/// Section 7: along a single row, only between adjacent racks, crossing no aisle.
#[test]
fn a_loop_weaves_along_a_row() {
    for ports in [2, 4, 6] {
        let spec = SubwaysSpec { ports, ..SubwaysSpec::new(SubwaysType::Type1) };
        let plan = FloorPlan { arrangement: Arrangement::Row, slack: 0.0, ..FloorPlan::default() };
        let survey = surveyed(spec, &plan);
        assert!(survey.classes.iter().all(|c| c.stretch != Stretch::ServerAcrossAisle));
        // In p ToRs, (p + 1) / 2 of them out and the others back, a server reaches no further than its neighbours' racks.
        let furthest = if ports == 2 { 0.6 } else { 1.2 };
        assert!(class(&survey, Stretch::ServerAlongRow).run_max_m <= 2.0 + furthest, "{ports} ports");
    }
}

#[test]
fn a_trunk_is_as_many_cables_as_ports_and_stays_in_its_rack() {
    let survey = surveyed(SubwaysSpec::new(SubwaysType::Type0), &FloorPlan::default());
    assert_eq!(class(&survey, Stretch::ServerInRack).count, 720);
    assert!(survey.classes.iter().all(|c| !matches!(c.stretch, Stretch::ServerAlongRow | Stretch::ServerAcrossAisle)));
    let multihomed = surveyed(SubwaysSpec::new(SubwaysType::McLag), &FloorPlan::default());
    assert_eq!(class(&multihomed, Stretch::ServerInRack).count, 720, "both ToRs of a loop are in one rack");
}

#[test]
fn the_bill_lists_switches_and_ports_by_interconnect() {
    let speeds = Speeds::new(&[LINK.rate, FAST]).expect("two");
    let survey = surveyed(SubwaysSpec { speeds, ..SubwaysSpec::new(SubwaysType::Type2) }, &FloorPlan::default());
    let line =
        |item: &str| survey.bill.lines.iter().find(|l| l.item == item).map(|l| (l.size.as_str(), l.count)).expect("a line");
    assert_eq!(line("ToR"), ("36 of 36 ports of 25Gbps", 24));
    assert_eq!(line("aggregation switch"), ("15 of 36 ports of 25Gbps", 12));
    assert_eq!(line("core switch"), ("1 of 12 ports of 25Gbps", 36));
    assert_eq!(line("server port"), ("25Gbps", 720));
    let total: f64 = survey.bill.lines.iter().map(|l| l.count as f64 * l.price).sum();
    assert_eq!(survey.bill.total, total);
}

#[test]
fn what_the_list_does_not_sell_is_named() {
    let wiring = SubwaysSpec::new(SubwaysType::Type1).wiring(LINK, LINK).expect("a wiring");
    let error = |prices: &PriceList| survey(&wiring, &FloorPlan::default(), prices).expect_err("missing").to_string();
    let mut none = prices();
    none.cables.retain(|c| c.medium == Medium::Copper);
    assert!(error(&none).contains("no cable of 10Gbps that reaches"));
    let mut none = prices();
    none.switches.retain(|s| s.ports < 36);
    assert!(error(&none).contains("no switch with 36 ports"));
    let none = PriceList { nics: Vec::new(), ..prices() };
    assert!(error(&none).contains("no server port of 10Gbps"));
}

#[test]
fn impossible_measures_are_refused() {
    let wiring = SubwaysSpec::new(SubwaysType::Type1).wiring(LINK, LINK).expect("a wiring");
    for (plan, key) in [
        (FloorPlan { rack_height: 0.0, ..FloorPlan::default() }, "rack_height"),
        (FloorPlan { cold_aisle: f64::NAN, ..FloorPlan::default() }, "cold_aisle"),
        (FloorPlan { slack: -0.1, ..FloorPlan::default() }, "slack"),
        (FloorPlan { tors_per_rack: Some(0), ..FloorPlan::default() }, "tors_per_rack"),
    ] {
        assert_eq!(Floor::new(&wiring, &plan).expect_err(key).key, key);
    }
}

proptest! {
    /// The list of cables is the graph, and consecutive ToRs of a loop stand in the same rack or in neighbouring ones.
    #[test]
    fn cables_are_those_of_the_fabric(kind in 0usize..8, ports in 1u32..5, divisor in 1u32..7, per_rack in 1u32..6, row: bool) {
        let kind = SubwaysType::ALL[kind].1;
        let looped = !matches!(kind, SubwaysType::Type0 | SubwaysType::McLag);
        let spec = SubwaysSpec { ports, loop_length: (looped && 12 % divisor == 0).then_some(12 / divisor), trunk: crate::topology::shapes::subways::Trunk::Flow, ..SubwaysSpec::new(kind) };
        let Ok(wiring) = spec.wiring(LINK, LINK) else { return Ok(()) };
        let fabric = Shape::Subways(spec).build(LINK, LINK).expect("it has a wiring");
        let listed: Vec<String> = cables(&wiring).map(|c| format!("{}-{}", c.lower, c.upper)).collect();
        let built: Vec<String> = fabric.cables().map(|c| fabric.link_name(c.links()[0])).collect();
        prop_assert_eq!(listed, built);
        let arrangement = if row { Arrangement::Row } else { Arrangement::Aisle };
        let plan = FloorPlan { arrangement, tors_per_rack: Some(per_rack), ..FloorPlan::default() };
        let survey = survey(&wiring, &plan, &prices()).expect("a survey");
        prop_assert_eq!(survey.classes.iter().map(|c| c.count).sum::<u64>(), fabric.cables().len() as u64);
        prop_assert_eq!(survey.classes.iter().flat_map(|c| &c.lengths).map(|l| l.count).sum::<u64>(), fabric.cables().len() as u64);
    }

    #[test]
    fn rings_close_between_neighbours(loop_length in 1u32..40, per_rack in 1u32..6, row: bool) {
        let arrangement = if row { Arrangement::Row } else { Arrangement::Aisle };
        let (steps, racks) = super::floor::steps_between_racks(arrangement, loop_length, per_rack);
        let furthest = if row { if per_rack == 1 { 2 } else { 1 + u32::from(loop_length % per_rack != 0) } } else { 1 };
        prop_assert!(steps.iter().all(|&s| s <= furthest), "{:?} of {} racks", steps, racks);
    }
}
