//! Run times of Hedera's algorithms at the paper's sizes (tables 4 and 5). Run: `cargo bench -p weft-control --bench hedera`.

use std::sync::Arc;

use criterion::{BatchSize, BenchmarkId, Criterion, criterion_group, criterion_main};
use rand::RngExt;
use weft_control::hedera::DemandEstimator;
use weft_control::hedera::annealing::per_flow::EnergyBy;
use weft_control::hedera::annealing::{Annealing, AnnealingPerFlow, Cooling};
use weft_control::hedera::edge_coloring::EdgeColoring;
use weft_control::hedera::first_fit::FirstFit;
use weft_control::hedera::network::{Candidate, NIC, Network, Occasion, Place, to_units};
use weft_fabric::Duration;
use weft_fabric::rng::{Stream, stream};
use weft_fabric::topology::shapes::{Cabling, fat_tree};
use weft_fabric::{BitsPerSec, HostId};

/// Random flows: sources in turn, any other host as destination.
fn random_flows(hosts: u32, flows: u32) -> (Vec<u32>, Vec<u32>) {
    let mut rng = stream(1, Stream::Traffic);
    (0..flows).map(|i| (i % hosts, (i % hosts + rng.random_range(1..hosts)) % hosts)).unzip()
}

/// Table 4: 1,024 to 27,648 hosts.
fn demand(c: &mut Criterion) {
    let mut group = c.benchmark_group("demand");
    for (hosts, flows) in [
        (1024, 1024),
        (1024, 5000),
        (8192, 8192),
        (8192, 25_000),
        (8192, 50_000),
        (27_648, 27_648),
        (27_648, 100_000),
        (27_648, 250_000),
    ] {
        let (src, dst) = random_flows(hosts, flows);
        let nic = vec![1.0; hosts as usize];
        let mut estimator = DemandEstimator::default();
        let mut demands = Vec::new();
        group.bench_function(BenchmarkId::from_parameter(format!("{hosts}x{flows}")), |b| {
            b.iter(|| estimator.estimate(&src, &dst, &nic, &mut demands));
        });
    }
    group.finish();
}

fn network(k: u32) -> Network {
    let link = Cabling { rate: BitsPerSec(1_000_000_000), delay: Duration::from_us(1) };
    Network::new(Arc::new(fat_tree(k, link).expect("k is even")))
}

/// Random flows between racks, with their demands.
fn candidates(network: &Network, flows: u32) -> Vec<Candidate> {
    let (src, dst) = random_flows(network.fabric().host_count() as u32, flows);
    let mut demands = Vec::new();
    DemandEstimator::default().estimate(&src, &dst, network.nic(), &mut demands).expect("the flows are good");
    let flow = |((&src, &dst), demand): ((&u32, &u32), f64)| Candidate {
        src: HostId(src),
        dst: HostId(dst),
        demand: to_units(demand),
        label: None,
        reserved: 0,
    };
    src.iter().zip(&dst).zip(demands).map(flow).filter(|f| network.has_choice(f.src, f.dst)).collect()
}

/// Table 5: a whole round (loading the flows, searching, handing out the labels) from an empty memory.
fn annealing(c: &mut Criterion) {
    let mut group = c.benchmark_group("annealing");
    for (k, cases) in [(16, [3215, 6250]), (32, [25_000, 50_000])] {
        let network = network(k);
        for flows in cases {
            let candidates = candidates(&network, flows);
            for iterations in [1000, 5000, 10_000] {
                let cooling = Cooling { iterations: Some(iterations), c: 1000.0 };
                let fresh = Annealing::new(&network, cooling, 1);
                let id = BenchmarkId::from_parameter(format!("k{k}x{flows}x{iterations}"));
                group.bench_function(id, |b| {
                    b.iter_batched_ref(
                        || (fresh.clone(), candidates.clone()),
                        |(search, flows)| search.place(&network, flows, Occasion::Round),
                        BatchSize::LargeInput,
                    );
                });
            }
        }
    }
    group.finish();
}

/// A core a flow against a core a destination: 8,192 hosts, 16,384 flows, 1,000 iterations.
fn per_flow(c: &mut Criterion) {
    let mut group = c.benchmark_group("core-per-flow");
    group.sample_size(10);
    let network = network(32);
    let candidates = candidates(&network, 16_384);
    let cooling = Cooling { iterations: Some(1000), c: 1000.0 };
    let mut run = |name: &str, fresh: &dyn Fn() -> Box<dyn Place>| {
        group.bench_function(name, |b| {
            b.iter_batched_ref(
                || (fresh(), candidates.clone()),
                |(search, flows)| search.place(&network, flows, Occasion::Round),
                BatchSize::LargeInput,
            );
        });
    };
    let annealing = Annealing::new(&network, cooling, 1);
    run("a core a destination", &|| Box::new(annealing.clone()));
    for (name, by) in [("recomputing", EnergyBy::Recomputing), ("increments", EnergyBy::Increments)] {
        run(name, &|| Box::new(AnnealingPerFlow::new(cooling, by, 1)));
    }
    group.finish();
}

/// All flows new, from an empty memory.
fn first_fit(c: &mut Criterion) {
    let mut group = c.benchmark_group("first-fit");
    group.sample_size(20);
    for (k, flows) in [(16, 1024), (32, 8192), (32, 50_000), (48, 27_648), (48, 250_000)] {
        let network = network(k);
        let candidates = candidates(&network, flows);
        let fresh = FirstFit::new(&network);
        group.bench_function(BenchmarkId::from_parameter(format!("k{k}x{flows}")), |b| {
            b.iter_batched_ref(
                || (fresh.clone(), candidates.clone()),
                |(search, flows)| search.place(&network, flows, Occasion::Round),
                BatchSize::LargeInput,
            );
        });
    }
    group.finish();
}

/// All flows new: a bijection (equal demands, every link full), then random flows.
fn edge_coloring(c: &mut Criterion) {
    let mut group = c.benchmark_group("edge-coloring");
    group.sample_size(10);
    for (k, per_host) in [(16, 0), (16, 3), (32, 0), (32, 3), (48, 0), (48, 3)] {
        let network = network(k);
        let hosts = network.fabric().host_count() as u32;
        let candidates = if per_host == 0 { bijection(&network) } else { candidates(&network, per_host * hosts) };
        let fresh = EdgeColoring::new(&network);
        let pattern = if per_host == 0 { "bijection" } else { "3 random" };
        group.bench_function(BenchmarkId::from_parameter(format!("{hosts} hosts, {pattern}")), |b| {
            b.iter_batched_ref(
                || (fresh.clone(), candidates.clone()),
                |(placer, flows)| placer.place(&network, flows, Occasion::Round),
                BatchSize::LargeInput,
            );
        });
    }
    group.finish();
}

/// A random cycle through all hosts.
fn bijection(network: &Network) -> Vec<Candidate> {
    let mut rng = stream(1, Stream::Traffic);
    let hosts = network.fabric().host_count();
    let mut order: Vec<HostId> = network.fabric().hosts().collect();
    (1..hosts).rev().for_each(|i| order.swap(i, rng.random_range(0..=i)));
    let flow = |i: usize| Candidate { src: order[i], dst: order[(i + 1) % hosts], demand: NIC, label: None, reserved: 0 };
    (0..hosts).map(flow).filter(|f| network.has_choice(f.src, f.dst)).collect()
}

criterion_group!(benches, demand, annealing, per_flow, first_fit, edge_coloring);
criterion_main!(benches);
