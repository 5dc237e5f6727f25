//! No scheduler of large flows does harm: once it has settled, the max-min goodput is that of the routing it began with, or more.
//! Fabrics on which Hedera's own model of hosts (one NIC, as fast as every link) does not hold, one by one and at random.

use std::sync::Arc;

use proptest::prelude::*;
use rand::RngExt;
use weft_control::controller::Controller;
use weft_control::hedera::{Hedera, HederaConfig, Placer};
use weft_control::time;
use weft_fabric::record::Outcome;
use weft_fabric::rng::{Pcg64, Stream, stream};
use weft_fabric::routing::{Router, Routing};
use weft_fabric::topology::shapes::subways::{RackSize, SubwaysType, Trunk, Uplinks};
use weft_fabric::topology::shapes::{Cabling, Shape, SubwaysSpec};
use weft_fabric::topology::{FabricBuilder, Health, Part};
use weft_fabric::traffic::{FlowSpec, Size, StaticWorkload};
use weft_fabric::{BitsPerSec, CableId, Duration, Fabric, HostId, Instant};
use weft_sim::flow::{FlowConfig, FlowWorld, Rates, max_min};
use weft_sim::world::{Change, TimedEvent};

const PLACERS: [Placer; 4] = [Placer::FirstFit, Placer::Annealing, Placer::AnnealingPerFlow, Placer::EdgeColoring];
const GBPS: u64 = 1_000_000_000;

fn cabling(bps: u64) -> Cabling {
    Cabling { rate: BitsPerSec(bps), delay: Duration::ZERO }
}

/// Endless flows between these hosts, from the start.
type Pairs = Vec<(u32, u32)>;

/// The goodput in Gbps at the end of a run of ten rounds: the max-min fair rates of the paths that the flows have then.
fn goodput(fabric: &Arc<Fabric>, pairs: &Pairs, placer: Option<Placer>, failed: &[Part], seed: u64) -> f64 {
    goodput_of(fabric, pairs, placer.map(|placer| HederaConfig { placer, ..HederaConfig::default() }), failed, seed)
}

/// The same with a scheduler of these settings, but for its period and seed.
fn goodput_of(fabric: &Arc<Fabric>, pairs: &Pairs, scheduler: Option<HederaConfig>, failed: &[Part], seed: u64) -> f64 {
    let outcome = run(fabric, pairs, scheduler, failed, seed);
    let mut health = Health::new(fabric);
    failed.iter().for_each(|&part| drop(health.fail(fabric, part)));
    let (mut offsets, mut links) = (vec![0], vec![]);
    for flow in outcome.flows.iter().filter(|f| !f.path.is_empty() && health.path_is_up(&f.path)) {
        links.extend(flow.path.iter().map(|l| l.0));
        offsets.push(links.len());
    }
    let capacities: Vec<f64> = fabric.links().iter().map(|l| l.capacity.as_f64()).collect();
    max_min(&offsets, &links, &capacities).unwrap().iter().sum::<f64>() / GBPS as f64
}

fn run(fabric: &Arc<Fabric>, pairs: &Pairs, scheduler: Option<HederaConfig>, failed: &[Part], seed: u64) -> Outcome {
    let flow = |&(src, dst)| FlowSpec { src: HostId(src), dst: HostId(dst), start: Instant::ZERO, size: Size::Infinite };
    let controller = scheduler.map(|scheduler| {
        let config = HederaConfig { seed, period: time::Duration::from_secs(1), ..scheduler };
        Box::new(Hedera::new(Arc::clone(fabric), config).unwrap()) as Box<dyn Controller>
    });
    let world = FlowWorld {
        fabric: Arc::clone(fabric),
        router: Router::new(Arc::clone(fabric), Routing::default(), seed),
        controller,
        workload: Box::new(StaticWorkload::new(pairs.iter().map(flow).collect())),
        events: failed.iter().map(|&part| TimedEvent { at: Instant::ZERO, change: Change::Fail(part) }).collect(),
        config: FlowConfig {
            duration: Duration::from_ms(10_500),
            reconverge: Duration::ZERO,
            link_samples: 0,
            ..FlowConfig::new(Rates::MaxMin, seed)
        },
    };
    world.run(&mut |_| {})
}

/// Goodput under ECMP, then under each placer.
fn compare(fabric: &Arc<Fabric>, pairs: &Pairs, seed: u64) -> (f64, [f64; 4]) {
    (goodput(fabric, pairs, None, &[], seed), PLACERS.map(|p| goodput(fabric, pairs, Some(p), &[], seed)))
}

fn harmless((ecmp, scheduled): (f64, [f64; 4])) {
    assert!(scheduled.iter().all(|&s| s >= 0.99 * ecmp), "{scheduled:?}, with ECMP {ecmp}");
}

fn stride(hosts: u32, step: u32, flows: u32) -> Pairs {
    (0..hosts * flows).map(|i| (i % hosts, (i % hosts + step) % hosts)).collect()
}

/// `flows` random cycles through all hosts.
fn bijection(hosts: u32, flows: u32, seed: u64) -> Pairs {
    let mut rng = stream(seed, Stream::Traffic);
    let mut pairs = Pairs::new();
    for _ in 0..flows {
        let mut order: Vec<u32> = (0..hosts).collect();
        for i in (1..hosts as usize).rev() {
            order.swap(i, rng.random_range(0..=i));
        }
        pairs.extend((0..hosts as usize).map(|i| (order[i], order[(i + 1) % hosts as usize])));
    }
    pairs
}

fn random(hosts: u32, flows: u32, rng: &mut Pcg64) -> Pairs {
    let pair = |i: u32| (i % hosts, (i % hosts + rng.random_range(1..hosts)) % hosts);
    (0..flows).map(pair).collect()
}

/// Racks of four servers with two 1 Gbps NICs below aggregation switches.
fn subways(kind: SubwaysType, trunk: Trunk, racks: u32, aggregations: u32) -> Arc<Fabric> {
    let spec = SubwaysSpec {
        rack: RackSize::Servers(4),
        racks_per_cluster: racks,
        clusters: Some(1),
        tor_uplinks: Uplinks::Count(aggregations),
        levels: 2,
        trunk,
        ..SubwaysSpec::new(kind)
    };
    Arc::new(Shape::Subways(spec).build(cabling(GBPS), cabling(GBPS)).unwrap())
}

/// Two NICs on the ToRs of two racks. Annealing gave each destination one NIC: 17.5 of ECMP's 23 Gbps with two flows a host.
#[test]
fn neighbours_that_share_a_tor() {
    let fabric = subways(SubwaysType::Type1, Trunk::Packet, 4, 8);
    for seed in 1..=3 {
        for flows in 1..=2 {
            harmless(compare(&fabric, &bijection(16, flows, seed), seed));
        }
        let (ecmp, scheduled) = compare(&fabric, &stride(16, 8, 2), seed);
        harmless((ecmp, scheduled));
    }
}

/// Of two racks both share both ToRs: nothing is left to choose, and all keep what hashing gives.
#[test]
fn two_racks_with_the_same_tors() {
    let fabric = subways(SubwaysType::Type1, Trunk::Packet, 2, 4);
    for seed in 1..=3 {
        for pairs in [stride(8, 4, 1), stride(8, 4, 2), bijection(8, 2, seed)] {
            let (ecmp, scheduled) = compare(&fabric, &pairs, seed);
            assert_eq!(scheduled, [ecmp; 4]);
        }
    }
}

/// Two NICs on one ToR, as one link of twice the rate or as two: a flow is one path's, 1 Gbps. First Fit placed none of 2 Gbps,
/// annealing put all flows of a host on one NIC (8 of 16 Gbps).
#[test]
fn two_racks_of_four_with_two_nics_on_one_tor() {
    for trunk in [Trunk::Packet, Trunk::Flow] {
        let fabric = subways(SubwaysType::Type0, trunk, 2, 8);
        for seed in 1..=3 {
            let (ecmp, scheduled) = compare(&fabric, &stride(8, 4, 1), seed);
            harmless((ecmp, scheduled));
            assert!(scheduled.iter().all(|&s| s > 7.999), "{trunk:?}: {scheduled:?}, with ECMP {ecmp}");
            let (ecmp, scheduled) = compare(&fabric, &stride(8, 4, 2), seed);
            harmless((ecmp, scheduled));
            let [first_fit, annealing, _, coloring] = scheduled;
            assert!(first_fit > 15.999 && coloring > 15.999, "{trunk:?}: {scheduled:?}, with ECMP {ecmp}");
            assert!(annealing >= ecmp, "{trunk:?}: {scheduled:?}, with ECMP {ecmp}");
        }
    }
}

/// Hosts twice as fast as the links above them: a flow wants what one of these carries. First Fit placed none.
#[test]
fn fast_hosts_on_a_fat_tree() {
    let fabric = Arc::new(Shape::FatTree { k: 4 }.build(cabling(2 * GBPS), cabling(GBPS)).unwrap());
    for seed in 1..=3 {
        let pairs = stride(16, 4, 1);
        let (ecmp, scheduled) = compare(&fabric, &pairs, seed);
        harmless((ecmp, scheduled));
        assert!(scheduled.iter().all(|&s| s > 13.999), "{scheduled:?}, with ECMP {ecmp}");
        harmless(compare(&fabric, &bijection(16, 1, seed), seed));
        harmless(compare(&fabric, &bijection(16, 2, seed), seed));
    }
}

/// Where all uplinks are too full whatever is done, energy says nothing. Edge colouring was below ECMP with two seeds of three.
#[test]
fn over_subscribed_trees() {
    for (tors_per_pod, top) in [(Some(2), 4.0), (None, 4.0), (Some(4), 8.0)] {
        let shape = Shape::Tree {
            tors: 8,
            hosts_per_tor: 8,
            tors_per_pod,
            redundancy: 2,
            tor_oversubscription: 4.0,
            top_oversubscription: top,
        };
        let fabric = Arc::new(shape.build(cabling(GBPS), cabling(GBPS)).unwrap());
        for seed in 1..=3 {
            let mut rng = stream(seed, Stream::Traffic);
            harmless(compare(&fabric, &random(64, 64, &mut rng), seed));
            harmless(compare(&fabric, &bijection(64, 1, seed), seed));
        }
    }
}

/// Goodput of First Fit and of annealing by default, for both of which every flow is large from the first round on.
fn first_fit_and_annealing(fabric: &Arc<Fabric>, pairs: &Pairs, failed: &[Part], seed: u64) -> [f64; 2] {
    [Placer::FirstFit, Placer::Annealing].map(|placer| {
        let config = HederaConfig { placer, threshold: 1e-6, ..HederaConfig::default() };
        goodput_of(fabric, pairs, Some(config), failed, seed)
    })
}

/// With 27,648 hosts the default iterations alone were below First Fit: 0.84 and 0.88 of the ideal switch. The same bijection of fewer hosts.
#[test]
fn annealing_by_default_is_not_below_first_fit_with_many_hosts() {
    let fabric = Arc::new(Shape::FatTree { k: 16 }.build(cabling(GBPS), cabling(GBPS)).unwrap());
    let [first_fit, annealing] = first_fit_and_annealing(&fabric, &bijection(1024, 1, 1), &[], 1);
    assert!(annealing >= first_fit * (1.0 - 1e-6), "{annealing} and {first_fit} Gbps");
}

/// A fabric of a few dozen hosts.
fn any_fabric(kind: u8, rng: &mut Pcg64) -> Arc<Fabric> {
    let mut rate = |rates: &[u64]| cabling(rates[rng.random_range(0..rates.len())] * GBPS / 2);
    let (host, link) = (rate(&[1, 2, 2, 4, 5]), rate(&[1, 2, 2, 4, 20]));
    let shape = match kind {
        0 => Shape::FatTree { k: 4 },
        1 => Shape::TwoLevel { edges: 5, cores: 3, hosts_per_edge: 4 },
        2 => Shape::ClosExplicit { intermediates: 3, aggregations: 4, tors: 6, uplinks_per_tor: 2, hosts_per_tor: 4 },
        3 => {
            let (tor, top) = (rng.random_range(1..6), rng.random_range(0..4));
            Shape::Tree {
                tors: 6,
                hosts_per_tor: 5,
                tors_per_pod: rng.random::<bool>().then_some(2),
                redundancy: rng.random_range(1..4),
                tor_oversubscription: f64::from(tor),
                top_oversubscription: f64::from(tor + top),
            }
        }
        4 => Shape::Clique { switches: 5, hosts_per_switch: 4 },
        _ => return any_subways(rng, host, link),
    };
    Arc::new(shape.build(host, link).unwrap())
}

fn any_subways(rng: &mut Pcg64, host: Cabling, link: Cabling) -> Arc<Fabric> {
    let kinds = [SubwaysType::Type0, SubwaysType::Type1, SubwaysType::Type2];
    let kind = kinds[rng.random_range(0..3)];
    let spec = SubwaysSpec {
        ports: rng.random_range(2..4),
        rack: RackSize::Servers(3),
        racks_per_cluster: 4,
        clusters: Some(2),
        tor_uplinks: Uplinks::Count(rng.random_range(1..4)),
        agg_uplinks: Uplinks::Count(rng.random_range(1..3)),
        levels: if kind == SubwaysType::Type2 || rng.random() { 3 } else { 2 },
        trunk: if rng.random() { Trunk::Packet } else { Trunk::Flow },
        ..SubwaysSpec::new(kind)
    };
    let two_levels = SubwaysSpec { clusters: Some(1), racks_per_cluster: 6, ..spec };
    let spec = if spec.levels == 2 { two_levels } else { spec };
    Arc::new(Shape::Subways(spec).build(host, link).unwrap())
}

/// The same network with each cable at a rate of its own.
fn uneven(fabric: &Fabric, rng: &mut Pcg64) -> Arc<Fabric> {
    let mut b = FabricBuilder::new("uneven");
    let mut ends = Vec::new();
    for node in (0..fabric.nodes().len()).map(weft_fabric::NodeId::from) {
        let of = fabric.node(node);
        ends.push(match fabric.as_host(node) {
            Some(_) => weft_fabric::topology::End::from(b.host(of.name.clone(), of.pod)),
            None => b.switch(of.name.clone(), of.tier, of.pod).into(),
        });
    }
    for cable in fabric.cables() {
        let link = fabric.link(cable.links()[0]);
        let rate = link.capacity.0 / 4 * rng.random_range(1..9);
        b.cable(ends[link.from.index()], ends[link.to.index()], BitsPerSec(rate), Duration::ZERO);
    }
    Arc::new(b.build().unwrap())
}

/// A load of so many flows: spread over all hosts, a permutation, or with a few destinations.
fn any_load(hosts: u32, rng: &mut Pcg64) -> Pairs {
    let count = rng.random_range(1..3 * hosts);
    match rng.random_range(0..4) {
        0 => bijection(hosts, rng.random_range(1..4), rng.random()),
        1 => stride(hosts, rng.random_range(1..hosts), rng.random_range(1..3)),
        2 => random(hosts, count, rng),
        _ => {
            let hot: Vec<u32> = (0..3).map(|_| rng.random_range(0..hosts)).collect();
            let pair = |(s, d)| if rng.random::<f64>() < 0.5 { (s, hot[rng.random_range(0..3)]) } else { (s, d) };
            let flows: Pairs =
                random(hosts, count, &mut stream(u64::from(count), Stream::Traffic)).into_iter().map(pair).collect();
            flows.into_iter().filter(|(s, d)| s != d).collect()
        }
    }
}

/// A random fabric, perhaps with links of unequal speeds, a load, and cables that have failed.
fn any_case(kind: u8, seed: u64, speeds: bool, failures: usize) -> (Arc<Fabric>, Pairs, Vec<Part>) {
    let mut rng = stream(seed, Stream::Traffic);
    let fabric = any_fabric(kind, &mut rng);
    let fabric = if speeds { uneven(&fabric, &mut rng) } else { fabric };
    let pairs = any_load(fabric.host_count() as u32, &mut rng);
    let cables = fabric.cables().len() as u32;
    let failed = (0..failures).map(|_| Part::Cable(CableId(rng.random_range(0..cables)))).collect();
    (fabric, pairs, failed)
}

/// The placer left a flow to the hash whose path worked, and the hash had a worse one: 2.625 of 2.75 Gbps.
#[test]
fn flows_without_a_better_path_keep_theirs() {
    let seed = 8_890_801_960_698_745_012;
    let (fabric, pairs, failed) = any_case(5, seed, true, 2);
    let ecmp = goodput(&fabric, &pairs, None, &failed, seed);
    let scheduled = goodput(&fabric, &pairs, Some(Placer::AnnealingPerFlow), &failed, seed);
    assert!(scheduled >= ecmp, "{scheduled} of {ecmp} Gbps");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases * 160 / 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_scheduler_lowers_the_goodput_of_ecmp(kind in 0u8..8, seed: u64, speeds: bool, failures in 0usize..3) {
        let (fabric, pairs, failed) = any_case(kind, seed, speeds, failures);
        let ecmp = goodput(&fabric, &pairs, None, &failed, seed);
        for placer in PLACERS {
            let scheduled = goodput(&fabric, &pairs, Some(placer), &failed, seed);
            prop_assert!(scheduled >= 0.99 * ecmp, "{placer:?} on {}: {scheduled} of {ecmp} Gbps", fabric.title());
        }
    }

    #[test]
    fn annealing_by_default_is_not_below_first_fit(kind in 0u8..8, seed: u64, speeds: bool, failures in 0usize..3) {
        let (fabric, pairs, failed) = any_case(kind, seed, speeds, failures);
        let [first_fit, annealing] = first_fit_and_annealing(&fabric, &pairs, &failed, seed);
        prop_assert!(annealing >= first_fit * (1.0 - 1e-6), "on {}: {annealing} and {first_fit} Gbps", fabric.title());
    }
}
