//! Times of the flow world: `cargo bench -p weft-sim`. The cases are those of `weft bench flow`, with a tick of AIMD beside them.

use std::hint::black_box;
use std::sync::Arc;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use rand::RngExt;
use weft_fabric::rng::{Stream, stream};
use weft_fabric::routing::{Router, Routing};
use weft_fabric::topology::Fabric;
use weft_fabric::topology::shapes::{Cabling, fat_tree};
use weft_fabric::traffic::{FlowSpec, Size, StaticWorkload};
use weft_fabric::{BitsPerSec, Bytes, Duration, HostId, Instant};
use weft_sim::flow::{AimdParams, FlowConfig, FlowWorld, Rates, max_min};

/// `flows` flows of 1 to 101 MB, in turn from all hosts; to a permutation if there is one a host, else to random hosts.
fn flows(hosts: u32, flows: u32) -> Vec<FlowSpec> {
    let mut rng = stream(1, Stream::Traffic);
    let mut permutation: Vec<u32> = (0..hosts).collect();
    for i in 0..hosts as usize {
        let j = rng.random_range(i..hosts as usize);
        permutation.swap(i, j);
    }
    let mut flow = |i: u32| {
        let src = i % hosts;
        let mut dst = if flows == hosts { permutation[src as usize] } else { rng.random_range(0..hosts) };
        if dst == src {
            dst = (src + 1) % hosts;
        }
        let bytes = Bytes(rng.random_range(1_000_000..101_000_000));
        FlowSpec { src: HostId(src), dst: HostId(dst), start: Instant::ZERO, size: Size::Finite(bytes) }
    };
    (0..flows).map(&mut flow).collect()
}

fn fabric(k: u32) -> Arc<Fabric> {
    let link = Cabling { rate: BitsPerSec(1_000_000_000), delay: Duration::from_us(1) };
    Arc::new(fat_tree(k, link).expect("k is even"))
}

fn world(fabric: &Arc<Fabric>, flows: Vec<FlowSpec>, config: FlowConfig) -> FlowWorld {
    FlowWorld {
        fabric: Arc::clone(fabric),
        router: Router::new(Arc::clone(fabric), Routing::default(), 1),
        controller: None,
        workload: Box::new(StaticWorkload::new(flows)),
        events: Vec::new(),
        config,
    }
}

fn max_min_runs(c: &mut Criterion) {
    let mut group = c.benchmark_group("max-min");
    group.sample_size(10);
    for (k, count) in [(32, 8_192), (16, 8_192), (32, 50_000)] {
        let fabric = fabric(k);
        let flows = flows(fabric.host_count() as u32, count);
        group.bench_function(format!("{} hosts, {count} flows", fabric.host_count()), |b| {
            b.iter(|| world(&fabric, flows.clone(), FlowConfig::new(Rates::MaxMin, 1)).run(&mut |_| {}).events);
        });
    }
    group.finish();
}

fn max_min_from_scratch(c: &mut Criterion) {
    let fabric = fabric(32);
    let mut router = Router::new(Arc::clone(&fabric), Routing::default(), 1);
    let capacities: Vec<f64> = fabric.links().iter().map(|l| l.capacity.as_f64()).collect();
    let (mut offsets, mut links) = (vec![0], Vec::new());
    for (i, flow) in (0..).zip(flows(fabric.host_count() as u32, 50_000)) {
        let key = weft_fabric::routing::FlowKey::of_flow(i, flow.src, flow.dst);
        links.extend(router.route(&key).expect("all is up").iter().map(|l| l.0));
        offsets.push(links.len());
    }
    c.bench_function("max-min from scratch, 8192 hosts, 50000 flows", |b| {
        b.iter(|| max_min(black_box(&offsets), black_box(&links), black_box(&capacities)).expect("valid"));
    });
}

fn aimd_updates(c: &mut Criterion) {
    let mut group = c.benchmark_group("aimd");
    group.sample_size(10);
    for k in [16, 32] {
        let fabric = fabric(k);
        let hosts = fabric.host_count() as u32;
        let endless: Vec<_> = flows(hosts, 3 * hosts).into_iter().map(|f| FlowSpec { size: Size::Infinite, ..f }).collect();
        let mut config = FlowConfig::new(Rates::Aimd(AimdParams::default()), 1);
        config.duration = Duration::from_ms(100);
        config.link_samples = 0;
        group.throughput(Throughput::Elements(u64::from(3 * hosts) * 1_000));
        group.bench_function(format!("{hosts} hosts, {} flows, 1000 ticks", 3 * hosts), |b| {
            b.iter(|| world(&fabric, endless.clone(), config.clone()).run(&mut |_| {}).events);
        });
    }
    group.finish();
}

criterion_group!(benches, max_min_runs, max_min_from_scratch, aimd_updates);
criterion_main!(benches);
