//! Routing between racks, the bounds of the optimum and the study of failures, compared with slow references and closed forms.

use std::collections::BTreeMap;

use good_lp::{Expression, ProblemVariables, Solution as _, SolverModel as _, Variable, microlp, variable};
use proptest::prelude::*;
use weft_fabric::ids::HostId;
use weft_fabric::routing::optimal::splittable_fraction;
use weft_fabric::topology::shapes::{Cabling, Shape};
use weft_fabric::topology::{FabricBuilder, Part};
use weft_fabric::{BitsPerSec, Duration, Fabric, Health};
use weft_planner::network::{Arc, Index, Network};
use weft_planner::optimum::compare;
use weft_planner::optimum::others::spain;
use weft_planner::routing::matrix::Matrix;
use weft_planner::routing::oblivious::oblivious;
use weft_planner::routing::optimum;
use weft_planner::routing::router::{Router, Scheme};
use weft_planner::whatif::parts::{self, Kind};
use weft_planner::whatif::rates::{Failures, Rate};
use weft_planner::whatif::study::{Question, Study, study};

const GBPS: u64 = 1_000_000_000;

fn cabling(gbps: u64) -> Cabling {
    Cabling { rate: BitsPerSec(gbps * GBPS), delay: Duration::ZERO }
}

fn fat_tree(k: u32) -> Fabric {
    Shape::FatTree { k }.build(cabling(1), cabling(1)).expect("a fabric")
}

fn network(fabric: &Fabric) -> Network {
    Network::new(fabric, &Health::new(fabric))
}

fn question(pairs: bool) -> Question {
    Question { pairs, states: 1_000, level: 0.9, seed: 1 }
}

/// A fabric at random: racks of one host, some switches above them, parallel cables here and there.
fn random_fabric() -> impl Strategy<Value = Fabric> {
    let edges = prop::collection::vec((0usize..4, 1u64..4), 4..12);
    (edges, prop::collection::vec((0usize..4, 0usize..4), 0..4)).prop_map(|(edges, across)| {
        let mut builder = FabricBuilder::new("random");
        let racks = 4;
        let hosts: Vec<HostId> = (0..racks).map(|i| builder.host(format!("h{i}"), None)).collect();
        let tors: Vec<_> = (0..racks).map(|i| builder.switch(format!("t{i}"), 1, None)).collect();
        let tops: Vec<_> = (0..4).map(|i| builder.switch(format!("s{i}"), 2, None)).collect();
        for (host, tor) in hosts.iter().zip(&tors) {
            builder.cable(*host, *tor, BitsPerSec(2 * GBPS), Duration::ZERO);
        }
        for (i, tor) in tors.iter().enumerate() {
            builder.cable(*tor, tops[0], BitsPerSec(GBPS), Duration::ZERO);
            builder.cable(*tor, tops[i], BitsPerSec(GBPS), Duration::ZERO);
        }
        for (i, (top, gbps)) in edges.iter().enumerate() {
            builder.cable(tors[i % racks], tops[*top], BitsPerSec(gbps * GBPS), Duration::ZERO);
        }
        for (a, b) in across.into_iter().filter(|(a, b)| a != b) {
            builder.cable(tops[a], tops[b], BitsPerSec(GBPS), Duration::ZERO);
        }
        builder.build().expect("every ToR reaches s0")
    })
}

fn random_matrix(racks: usize) -> impl Strategy<Value = Matrix> {
    prop::collection::vec(0u32..1_000, racks * racks).prop_map(move |rates| {
        let mut matrix = Matrix::zero(racks);
        for (i, rate) in rates.into_iter().enumerate().filter(|(i, _)| i / racks != i % racks) {
            *matrix.rate_mut(i / racks, i % racks) = f64::from(rate) * 1e6;
        }
        matrix
    })
}

/// ECMP by recursion over all paths: the slow reference. Every cable is one choice.
fn loads_by_paths(network: &Network, matrix: &Matrix) -> Vec<f64> {
    let n = network.len();
    let is_end = |node: Index, dst: usize| network.is_rack(node) && node as usize != dst;
    let mut load = vec![0.0; network.arcs().len()];
    for dst in 0..network.racks() {
        // Bellman-Ford from all nodes; racks are no transit.
        let mut hops = vec![usize::MAX; n];
        hops[dst] = 0;
        for _ in 0..n {
            for (_, arc) in network.arcs().iter().enumerate().filter(|(i, _)| network.carries(*i)) {
                let next = hops[arc.to as usize];
                if next != usize::MAX && !is_end(arc.to, dst) {
                    hops[arc.from as usize] = hops[arc.from as usize].min(next + 1);
                }
            }
        }
        for src in 0..network.racks() {
            walk(network, &hops, dst, src as Index, matrix.rate(src, dst), &mut load);
        }
    }
    load
}

fn walk(network: &Network, hops: &[usize], dst: usize, node: Index, amount: f64, load: &mut [f64]) {
    if node as usize == dst || amount == 0.0 || hops[node as usize] == usize::MAX {
        return;
    }
    let nearer = |arc: &usize| {
        let to = network.arcs()[*arc].to;
        network.carries(*arc) && hops[to as usize] == hops[node as usize] - 1 && (!network.is_rack(to) || to as usize == dst)
    };
    let next: Vec<usize> = network.out(node).filter(nearer).collect();
    let cables: u32 = next.iter().map(|&arc| network.arcs()[arc].cables).sum();
    for arc in next {
        let share = amount * f64::from(network.arcs()[arc].cables) / f64::from(cables);
        load[arc] += share;
        walk(network, hops, dst, network.arcs()[arc].to, share, load);
    }
}

/// The smallest largest utilisation of any routing that is the same for all matrices: exact, slow.
fn oblivious_by_program(network: &Network, matrices: &[&Matrix]) -> f64 {
    let arcs: Vec<usize> = (0..network.arcs().len()).filter(|&arc| network.carries(arc)).collect();
    let mut variables = ProblemVariables::new();
    let largest = variables.add(variable().min(0.0));
    let racks = network.racks();
    let pairs: Vec<(usize, usize)> = (0..racks * racks).map(|i| (i / racks, i % racks)).filter(|(a, b)| a != b).collect();
    // Nothing passes through another rack.
    let admits = |(src, dst): (usize, usize), arc: usize| {
        let Arc { from, to, .. } = network.arcs()[arc];
        (!network.is_rack(from) || from as usize == src) && (!network.is_rack(to) || to as usize == dst)
    };
    let share: Vec<BTreeMap<usize, Variable>> = pairs
        .iter()
        .map(|&pair| {
            arcs.iter().filter(|&&arc| admits(pair, arc)).map(|&arc| (arc, variables.add(variable().min(0.0)))).collect()
        })
        .collect();
    let mut problem = variables.minimise(largest).using(microlp);
    for (&(src, dst), share) in pairs.iter().zip(&share) {
        for node in 0..network.len() {
            let balance: Expression = share
                .iter()
                .map(|(&arc, &it)| {
                    let Arc { from, to, .. } = network.arcs()[arc];
                    (f64::from(u8::from(from as usize == node)) - f64::from(u8::from(to as usize == node))) * it
                })
                .sum();
            let leaves = if node == src {
                1.0
            } else if node == dst {
                -1.0
            } else {
                0.0
            };
            problem.add_constraint(balance.eq(leaves));
        }
    }
    for matrix in matrices {
        for &arc in arcs.iter().filter(|&&arc| network.arcs()[arc].capacity.is_finite()) {
            let load: Expression = pairs
                .iter()
                .zip(&share)
                .filter_map(|(&(src, dst), share)| {
                    share.get(&arc).map(|&it| matrix.rate(src, dst) / network.arcs()[arc].capacity * it)
                })
                .sum();
            problem.add_constraint((load - largest).leq(0.0));
        }
    }
    problem.solve().expect("every pair is connected").value(largest)
}

fn close(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-6 * a.abs().max(b.abs()).max(1.0)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(ProptestConfig::default().cases / 4))]

    #[test]
    fn ecmp_is_what_a_walk_over_all_paths_finds(fabric in random_fabric(), matrix in random_matrix(4), away in prop::collection::vec(0usize..16, 0..3)) {
        let mut health = Health::new(&fabric);
        for cable in away.into_iter().filter_map(|i| fabric.cables().nth(4 + i)) {
            health.fail(&fabric, Part::Cable(cable));
        }
        let network = Network::new(&fabric, &health);
        let mut router = Router::default();
        for (fast, slow) in router.route(&network, &matrix, Scheme::Ecmp).iter().zip(loads_by_paths(&network, &matrix)) {
            prop_assert!(close(*fast, slow), "{fast} {slow}");
        }
    }

    /// The linear program of `weft-fabric` is exact; it routes hosts, of which a rack here has one.
    #[test]
    fn the_optimum_lies_between_its_bounds(fabric in random_fabric(), matrix in random_matrix(4)) {
        let network = network(&fabric);
        let flows: Vec<(HostId, HostId, f64)> = (0..16).map(|i| (i / 4, i % 4)).filter(|(a, b)| matrix.rate(*a, *b) > 0.0)
            .map(|(a, b)| (HostId(a as u32), HostId(b as u32), matrix.rate(a, b))).collect();
        prop_assume!(!flows.is_empty());
        // Rates so high that the fraction is below 1, where the reference ends.
        let scaled: Vec<(HostId, HostId, f64)> = flows.iter().map(|&(a, b, rate)| (a, b, 100.0 * rate)).collect();
        let Some(exact) = splittable_fraction(&fabric, &Health::new(&fabric), &scaled) else { return Ok(()) };
        prop_assume!(exact < 1.0);
        let mut router = Router::default();
        let ecmp = router.evaluate(&network, &matrix).throughput;
        let bounds = optimum::bounds(&network, &matrix, ecmp, 0.02, 2_000).expect("traffic");
        let exact = 100.0 * exact;
        prop_assert!(bounds.at_least <= exact * (1.0 + 1e-6) && exact <= bounds.at_most * (1.0 + 1e-6), "{bounds:?} {exact}");
        // They meet within the tolerance, or stay somewhat wider after the last phase.
        prop_assert!(bounds.at_least >= 0.95 * bounds.at_most, "{bounds:?}");
        prop_assert!(ecmp <= bounds.at_most * (1.0 + 1e-6), "no routing is better than the optimum: {ecmp} {bounds:?}");
    }

    /// Weights by capacity deliver what ECMP delivers.
    #[test]
    fn weights_conserve_what_is_sent(fabric in random_fabric(), matrix in random_matrix(4)) {
        let network = network(&fabric);
        let mut router = Router::default();
        let delivered = |loads: &[f64]| -> Vec<f64> {
            (0..4).map(|rack| network.out(rack as Index).map(|arc| loads[network.reverse(arc)]).sum()).collect()
        };
        let [ecmp, wcmp] = [Scheme::Ecmp, Scheme::Wcmp].map(|scheme| delivered(router.route(&network, &matrix, scheme)));
        prop_assert!(ecmp.iter().zip(&wcmp).all(|(a, b)| close(*a, *b)), "{ecmp:?} {wcmp:?}");
    }

    /// A network that parts left and returned to is what it was.
    #[test]
    fn parts_return(seed in 0usize..1_000) {
        let fabric = fat_tree(4);
        let mut network = network(&fabric);
        let parts = parts::all(&fabric, &network, &[Kind::Cable, Kind::Switch]);
        let matrix = Matrix::uniform(&network);
        let before = Router::default().evaluate(&network, &matrix);
        let (a, b) = (&parts[seed % parts.len()], &parts[(7 * seed + 1) % parts.len()]);
        let named: Vec<&parts::Part> = if a.name == b.name { vec![a] } else { vec![a, b] };
        let during = parts::without(&mut network, &named, |network| Router::default().evaluate(network, &matrix));
        prop_assert!(during.carried < before.carried);
        prop_assert_eq!(Router::default().evaluate(&network, &matrix), before);
    }
}

proptest! {
    // The program takes a second.
    #![proptest_config(ProptestConfig::with_cases(ProptestConfig::default().cases / 8))]

    /// Against the linear program over all splits of all pairs.
    #[test]
    fn the_oblivious_optimum_lies_between_its_bounds(fabric in random_fabric(), matrices in prop::collection::vec(random_matrix(4), 1..5)) {
        let network = network(&fabric).with_fast_nics();
        let matrices: Vec<&Matrix> = matrices.iter().filter(|m| m.total() > 0.0).collect();
        prop_assume!(!matrices.is_empty());
        let each: Vec<f64> = matrices.iter().map(|m| m.busiest_cut(&network).0).collect();
        prop_assume!(each.iter().all(|it| *it > 0.0));
        let exact = oblivious_by_program(&network, &matrices);
        let found = oblivious(&network, &matrices, &each, 0.02, 2_000);
        prop_assert!(found.at_least <= exact * (1.0 + 1e-6) && exact <= found.utilisation * (1.0 + 1e-6), "{} {exact} {}", found.at_least, found.utilisation);
        // The phases end before the tolerance is reached where few paths differ little; the bounds then say how far apart they are.
        prop_assert!(found.at_least >= 0.9 * found.utilisation, "{} {exact} {}", found.at_least, found.utilisation);
        for matrix in matrices {
            let used = network.busiest(&found.fractions.loads(&network, matrix));
            prop_assert!(used <= found.utilisation * (1.0 + 1e-9), "{used} {}", found.utilisation);
        }
    }
}

/// A part that is away in the graph is the same as one that the fabric's health has failed.
#[test]
fn failures_of_the_graph_are_those_of_the_fabric() {
    let fabric = fat_tree(4);
    let matrix = Matrix::uniform(&network(&fabric));
    let mut graph = network(&fabric);
    for part in &parts::all(&fabric, &graph, &[Kind::Cable, Kind::Switch]) {
        let name = part.name.clone();
        let mut health = Health::new(&fabric);
        health.fail(&fabric, Part::parse(&fabric, &name).expect("its name names it"));
        let expected = Router::default().evaluate(&Network::new(&fabric, &health), &matrix);
        let got = parts::without(&mut graph, &[part], |network| Router::default().evaluate(network, &matrix));
        assert!(close(got.carried, expected.carried) && close(got.throughput, expected.throughput), "{name}");
        assert_eq!(got.disconnected, expected.disconnected, "{name}");
    }
}

fn study_of(fabric: &Fabric, kinds: &[Kind], matrix: fn(&Network) -> Matrix) -> Study {
    let network = network(fabric);
    let parts = parts::all(fabric, &network, kinds);
    study(&network, &parts, &matrix(&network), None, question(false))
}

/// k = 4: an edge switch has two uplinks and two hosts at full rate, so a lost uplink halves its racks, and the fabric while all slow down alike.
#[test]
fn a_lost_uplink_halves_its_rack() {
    let study = study_of(&fat_tree(4), &[Kind::Cable], Matrix::stride);
    assert_eq!(study.healthy.throughput, 1.0);
    let row = &study.kinds[0];
    assert_eq!((row.parts, row.tier), (16, 2));
    assert_eq!(row.throughput, [0.5, 0.5]);
    // One rack of eight sends at half, one receives at half, and ECMP sends half of what comes to it by the lost one's switch.
    assert!(study.single.iter().all(|state| state.worst_pair == 0.5 && state.disconnected == 0));
}

/// VL2 section 4.1: with n intermediate switches, one that fails takes a n-th of what leaves racks; VLB degrades as it should.
#[test]
fn an_intermediate_switch_takes_its_share() {
    let clos = Shape::Clos { agg_ports: 8, int_ports: 8, hosts_per_tor: 20 }.build(cabling(1), cabling(10)).expect("a fabric");
    let study = study_of(&clos, &[Kind::Switch], Matrix::stride);
    let top = study.kinds.iter().find(|row| row.tier == 3).expect("intermediates");
    assert_eq!(top.parts, 4);
    assert!(top.throughput.iter().all(|it| close(*it, 0.75)), "{top:?}");
}

/// ECMP shares evenly what the fabric does not have evenly; the best routing does not.
#[test]
fn the_best_routing_passes_what_ecmp_does_not() {
    let fabric = fat_tree(8);
    let network = network(&fabric);
    let parts = parts::all(&fabric, &network, &[Kind::Switch]);
    let study =
        study(&network, &parts, &Matrix::stride(&network), None, Question { pairs: true, states: 5_000, ..question(true) });
    let worst = &study.worst[0];
    // Two cores of one plane: the other two get half of what the plane has, and could give the rest to the other planes: 14 of 16 cores are left.
    assert_eq!((worst.state.throughput, worst.state.worst_pair), (0.5, 0.5), "{worst:?}");
    let bounds = worst.optimum.expect("bounds");
    assert!(bounds.at_least > 0.85 && bounds.at_least <= 0.875 + 1e-9 && bounds.at_most >= 0.875 - 1e-9, "{bounds:?}");
}

/// Stages of the fabric with all of VL2's testbed: ECMP prefers the shorter way between ToRs that share a switch, VLB spreads over all.
#[test]
fn vlb_spreads_what_ecmp_does_not() {
    let testbed = Shape::ClosExplicit { intermediates: 3, aggregations: 3, tors: 4, uplinks_per_tor: 2, hosts_per_tor: 20 };
    let network = network(&testbed.build(cabling(1), cabling(10)).expect("a fabric")).with_fast_nics();
    let matrix = Matrix::uniform(&network);
    let mut router = Router::default();
    let [ecmp, vlb] = [Scheme::Ecmp, Scheme::Vlb].map(|scheme| router.busiest(&network, &matrix, scheme));
    assert!(close(vlb, 1.0) && ecmp > 1.3, "{vlb} {ecmp}");
}

/// Of two matrices that want opposite splits, the best routing for both is a compromise; each alone fits better (an example by hand: two ways of 1, one
/// sender has 1.5 to the one side in the first matrix, and in the second to the other).
#[test]
fn one_routing_for_all_needs_more_than_one_for_each() {
    let mut builder = FabricBuilder::new("crossing");
    let hosts: Vec<HostId> = (0..3).map(|i| builder.host(format!("h{i}"), None)).collect();
    let tors: Vec<_> = (0..3).map(|i| builder.switch(format!("t{i}"), 1, None)).collect();
    for (host, tor) in hosts.iter().zip(&tors) {
        builder.cable(*host, *tor, BitsPerSec(8 * GBPS), Duration::ZERO);
    }
    // A triangle: each pair has a way of one cable and a way over the third.
    for (a, b) in [(0, 1), (1, 2), (0, 2)] {
        builder.cable(tors[a], tors[b], BitsPerSec(GBPS), Duration::ZERO);
    }
    let fabric = builder.build().expect("connected");
    let network = network(&fabric).with_fast_nics();
    let matrix = |src, dst| {
        let mut matrix = Matrix::zero(3);
        *matrix.rate_mut(src, dst) = 1e9;
        *matrix.rate_mut(2, dst) = 0.6e9;
        matrix
    };
    let series = [(0.0, matrix(0, 1)), (1.0, matrix(1, 0))];
    let all = compare(&network, &series, &[], 0.01);
    let exact = oblivious_by_program(&network, &[&series[0].1, &series[1].1]);
    let worst = |values: &[f64]| values.iter().copied().fold(0.0, f64::max);
    assert!(worst(&all.busiest[0]) <= worst(&all.busiest[1]) + 1e-9, "adaptive is no worse");
    assert!((worst(&all.busiest[1]) / exact - 1.0).abs() < 0.02 && all.oblivious_at_least <= exact * (1.0 + 1e-6), "{exact}");
}

/// Links that bind: two racks at full rate, of which one has lost an uplink. Its other one alone holds the traffic back, in the direction that is used; and of a
/// core that all traffic needs, the links of the core, which no rack's cut shows.
#[test]
fn binding_links_are_those_of_the_dual_solution() {
    let fabric = fat_tree(4);
    let mut health = Health::new(&fabric);
    let cable = Part::parse(&fabric, "link edge0-agg0").expect("a cable");
    health.fail(&fabric, cable);
    let network = Network::new(&fabric, &health).with_fast_nics();
    let mut matrix = Matrix::zero(8);
    *matrix.rate_mut(0, 4) = 1e9;
    let all = compare(&network, &[(7.0, matrix)], &[], 0.02);
    assert_eq!(all.binding, (0, vec![("edge0".to_owned(), "agg1".to_owned(), 1.0)]));

    let mut builder = FabricBuilder::new("one core link");
    let hosts: Vec<HostId> = (0..4).map(|i| builder.host(format!("h{i}"), None)).collect();
    let tors: Vec<_> = (0..4).map(|i| builder.switch(format!("t{i}"), 1, None)).collect();
    let tops: Vec<_> = (0..2).map(|i| builder.switch(format!("s{i}"), 2, None)).collect();
    for i in 0..4 {
        builder.cable(hosts[i], tors[i], BitsPerSec(8 * GBPS), Duration::ZERO);
        builder.cable(tors[i], tops[i / 2], BitsPerSec(8 * GBPS), Duration::ZERO);
    }
    builder.cable(tops[0], tops[1], BitsPerSec(GBPS), Duration::ZERO);
    let fabric = builder.build().expect("connected");
    let network = Network::new(&fabric, &Health::new(&fabric)).with_fast_nics();
    let mut matrix = Matrix::zero(4);
    (*matrix.rate_mut(0, 2), *matrix.rate_mut(1, 3)) = (1e9, 1e9);
    let all = compare(&network, &[(0.0, matrix)], &[], 0.02);
    let (from, to, part) = &all.binding.1[0];
    assert!((&**from, &**to) == ("s0", "s1") && *part > 0.9, "{:?}", all.binding);
    assert!(close(all.busiest[0][0], 2.0));
}

/// SPAIN's paths carry all that racks send, on no more than sixteen paths of each pair.
#[test]
fn spain_carries_what_is_sent() {
    let fabric = fat_tree(4);
    let network = network(&fabric).with_fast_nics();
    let mut matrix = Matrix::zero(8);
    (*matrix.rate_mut(0, 1), *matrix.rate_mut(0, 7), *matrix.rate_mut(5, 0)) = (3e8, 5e8, 7e8);
    let spain = spain(&fabric, &network, &[(0.0, matrix.clone())]).expect("one switch a rack");
    let loads = spain.loads[0].as_ref().expect("routed");
    for rack in 0..8 {
        let over = |arc: usize| [loads[arc], loads[network.reverse(arc)]];
        let sums = network.rack_arcs(rack).map(over).fold([0.0, 0.0], |sum, it| [sum[0] + it[0], sum[1] + it[1]]);
        assert!(close(sums[0], matrix.sent(rack)) && close(sums[1], matrix.received(rack)), "rack {rack}: {sums:?}");
    }
}

/// Parts that fail independently: the days without one are those of the product, and draws have the frequencies of the parts.
#[test]
fn days_of_a_year_follow_from_rates() {
    let fabric = fat_tree(4);
    let network = network(&fabric);
    let parts = parts::all(&fabric, &network, &[Kind::Switch]);
    let rates = [Rate { kind: Kind::Switch, tier: Some(1), mtbf_h: 900.0, mttr_h: 100.0 }];
    let failures = Failures::new(&parts, &rates);
    assert!(close(failures.healthy(), 0.9f64.powi(8)), "eight edge switches, each away for a tenth of the time");
    let asked = Question { states: 20_000, ..question(false) };
    let it = study(&network, &parts, &Matrix::uniform(&network), Some(&failures), asked).availability.expect("rates");
    // An edge switch that is away cuts its rack off: some pair is disconnected whenever something has failed.
    assert!(close(it.days_disconnected[0], 365.0 * (1.0 - 0.9f64.powi(8))), "{it:?}");
    // One away of eight leaves 42 of 56 pairs, 75 %; at a level of 0.7 it takes two: 1 - P(0) - P(1).
    let two = 1.0 - 0.9f64.powi(8) - 8.0 * 0.1 * 0.9f64.powi(7);
    let it = study(&network, &parts, &Matrix::uniform(&network), Some(&failures), Question { level: 0.7, ..asked })
        .availability
        .expect("rates");
    assert!((it.days_below[0] - 365.0 * two).abs() < 2.0 * it.days_below[1] && it.days_below[1] < 5.0, "{it:?} {two}");
}

#[test]
fn the_same_seed_gives_the_same_study() {
    let fabric = fat_tree(4);
    let network = network(&fabric);
    let parts = parts::all(&fabric, &network, &[Kind::Cable, Kind::Switch]);
    let run = |seed| {
        let asked = Question { states: 50, seed, ..question(true) };
        serde_json::to_string(&study(&network, &parts, &Matrix::uniform(&network), None, asked)).expect("JSON")
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2), "50 of 861 pairs are drawn");
}

/// Planes and pods are sets of switches.
#[test]
fn sets_of_a_fat_tree() {
    let fabric = fat_tree(8);
    let parts = parts::all(&fabric, &network(&fabric), &[Kind::Pod, Kind::Plane]);
    let of = |kind| parts.iter().filter(|part| part.kind == kind).count();
    assert_eq!((of(Kind::Pod), of(Kind::Plane)), (8, 4));
}
