//! Run times of Hedera's algorithms at the paper's sizes (tables 4 and 5). Run: `cargo bench -p weft-control --bench hedera`.

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use rand::RngExt;
use weft_control::hedera::DemandEstimator;
use weft_fabric::rng::{Stream, stream};

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

criterion_group!(benches, demand);
criterion_main!(benches);
