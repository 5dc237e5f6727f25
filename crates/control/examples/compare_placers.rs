//! Compares the placement algorithms on fat-trees of 16 to 27,648 hosts: `cargo run --release -p weft-control --example compare_placers`.
//!
//! Two rounds each: all flows are new, then a tenth of them has been replaced. Printed for each round: capacity exceeded (energy, in
//! NICs), goodput of the max-min fair rates as a fraction of the same flows' on a non-blocking switch (flows without a label take their
//! ECMP path), milliseconds, and for the second round how many of the flows that went on were moved.
//! An argument limits the sizes: `-- 8192` stops there.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use rand::RngExt;
use weft_control::hedera::annealing::per_flow::EnergyBy;
use weft_control::hedera::annealing::{Annealing, AnnealingPerFlow, Cooling};
use weft_control::hedera::edge_coloring::EdgeColoring;
use weft_control::hedera::first_fit::FirstFit;
use weft_control::hedera::network::{Candidate, Network, Occasion, Place, from_units, to_units};
use weft_control::hedera::{DemandEstimator, estimate};
use weft_fabric::Duration;
use weft_fabric::rng::{Pcg64, Stream, stream};
use weft_fabric::routing::{FlowKey, Path, Router, Routing};
use weft_fabric::topology::shapes::{Cabling, fat_tree};
use weft_fabric::{BitsPerSec, Fabric, HostId};

fn main() {
    let most: usize = std::env::args().nth(1).and_then(|a| a.parse().ok()).unwrap_or(usize::MAX);
    println!(
        "{:>6} {:>7} {:<11} {:<17} | {:>9} {:>9} {:>9} | {:>9} {:>9} {:>9} {:>7}",
        "hosts", "flows", "pattern", "placer", "energy", "of ideal", "ms", "energy", "of ideal", "ms", "moved"
    );
    for k in [4, 16, 32, 48] {
        let link = Cabling { rate: BitsPerSec(1_000_000_000), delay: Duration::from_us(1) };
        let fabric = Arc::new(fat_tree(k, link).expect("k is even"));
        if fabric.host_count() > most {
            break;
        }
        let network = Network::new(Arc::clone(&fabric));
        for pattern in [Pattern::Bijection, Pattern::Random(1), Pattern::Random(3), Pattern::Random(9)] {
            compare(&fabric, &network, pattern);
        }
        if k == 32 {
            destination_against_flow(&fabric, &network);
        }
    }
}

#[derive(Clone, Copy)]
enum Pattern {
    /// Every host sends to one host and receives from one.
    Bijection,
    /// So many random destinations a host.
    Random(usize),
}

fn compare(fabric: &Arc<Fabric>, network: &Network, pattern: Pattern) {
    let (first, second) = rounds(fabric.host_count(), pattern, 1);
    let mut router = Router::new(Arc::clone(fabric), Routing::default(), 1);
    let iterations = |n| Cooling { iterations: Some(n), c: Cooling::c_for(fabric.host_count()) };
    let mut placers: Vec<(&str, Option<Box<dyn Place>>)> = vec![
        ("ECMP", None),
        ("first fit", Some(Box::new(FirstFit::new(network)))),
        ("annealing/flow 1k", Some(Box::new(AnnealingPerFlow::new(iterations(1000), EnergyBy::Increments, 1)))),
        ("annealing 1k", Some(Box::new(Annealing::new(network, iterations(1000), 1)))),
        ("annealing 10k", Some(Box::new(Annealing::new(network, iterations(10_000), 1)))),
        ("annealing 100k", Some(Box::new(Annealing::new(network, iterations(100_000), 1)))),
        ("annealing", Some(Box::new(Annealing::new(network, Cooling { iterations: None, ..iterations(1) }, 1)))),
        ("edge coloring", Some(Box::new(EdgeColoring::new(network)))),
    ];
    let ideal = [&first, &second].map(|flows| {
        let (src, dst): (Vec<u32>, Vec<u32>) = flows.iter().map(|f| (f.src.0, f.dst.0)).unzip();
        estimate(&src, &dst, fabric.host_count()).expect("the flows are good").iter().sum::<f64>()
    });
    for (name, placer) in &mut placers {
        let mut flows = candidates(network, &first, |_| None);
        let one = place(network, placer, &mut flows);
        let one_goodput = goodput(fabric, &mut router, network, &first, &flows) / ideal[0];
        let before = flows.clone();
        end_replaced(network, placer, &first, &second, &before);
        let mut flows = candidates(network, &second, |i| (first[i] == second[i]).then(|| before[i]));
        let two = place(network, placer, &mut flows);
        let two_goodput = goodput(fabric, &mut router, network, &second, &flows) / ideal[1];
        let moved = (0..flows.len())
            .filter(|&i| first[i] == second[i])
            .filter(|&i| path(network, &flows[i]) != path(network, &before[i]))
            .count();
        println!(
            "{:>6} {:>7} {:<11} {:<17} | {:>9.3} {:>9.4} {:>9.3} | {:>9.3} {:>9.4} {:>9.3} {:>7}",
            fabric.host_count(),
            first.len(),
            pattern.name(),
            name,
            one.0,
            one_goodput,
            one.1,
            two.0,
            two_goodput,
            two.1,
            moved
        );
    }
}

/// Hedera section 4.4: a core a destination against a core a flow, 16K flows of 8,192 hosts, 1,000 iterations a round.
fn destination_against_flow(fabric: &Arc<Fabric>, network: &Network) {
    let (random, _) = rounds(fabric.host_count(), Pattern::Random(2), 1);
    let bijection = |seed| rounds(fabric.host_count(), Pattern::Bijection, seed).0;
    let two: Vec<FlowKey> = [1, 2].into_iter().flat_map(bijection).collect();
    for (name, keys) in [("2 random", random), ("2 bijections", two)] {
        compare_annealing(fabric, network, name, &keys);
    }
}

fn compare_annealing(fabric: &Arc<Fabric>, network: &Network, pattern: &str, keys: &[FlowKey]) {
    let mut router = Router::new(Arc::clone(fabric), Routing::default(), 1);
    let cooling = Cooling { iterations: Some(1000), c: Cooling::c_for(fabric.host_count()) };
    let mut goodputs = Vec::new();
    let per_flow = AnnealingPerFlow::new(cooling, EnergyBy::Recomputing, 1);
    for placer in [Box::new(Annealing::new(network, cooling, 1)) as Box<dyn Place>, Box::new(per_flow)] {
        let mut placer = Some(placer);
        let mut flows = candidates(network, keys, |_| None);
        for round in 1..=12 {
            let (energy, ms) = place(network, &mut placer, &mut flows);
            if [1, 12].contains(&round) {
                goodputs.push((round, energy, goodput(fabric, &mut router, network, keys, &flows), ms));
            }
        }
    }
    for (destination, flow) in goodputs[..2].iter().zip(&goodputs[2..]) {
        println!(
            "core a destination / core a flow, {pattern}, {} flows, round {}: energy {:.0} / {:.0}, goodput x {:.3}, run time x 1/{:.0}",
            keys.len(),
            destination.0,
            destination.1,
            flow.1,
            destination.2 / flow.2,
            flow.3 / destination.3
        );
    }
}

impl Pattern {
    fn name(self) -> String {
        match self {
            Self::Bijection => "bijection".to_owned(),
            Self::Random(flows) => format!("{flows} random"),
        }
    }
}

/// The flows of both rounds, position by position; a tenth of the positions holds a new flow in the second.
fn rounds(hosts: usize, pattern: Pattern, seed: u64) -> (Vec<FlowKey>, Vec<FlowKey>) {
    let mut rng = stream(seed, Stream::Traffic);
    let key = |number: usize, src: usize, dst: usize| FlowKey::of_flow(number as u32, HostId::from(src), HostId::from(dst));
    match pattern {
        Pattern::Bijection => {
            let mut order: Vec<usize> = (0..hosts).collect();
            shuffle(&mut order, &mut rng);
            // A cycle through all hosts; reversing a stretch of it gives its hosts other destinations.
            let cycle = |order: &[usize], base: usize| -> Vec<FlowKey> {
                let mut next = vec![0; hosts];
                (0..hosts).for_each(|i| next[order[i]] = order[(i + 1) % hosts]);
                (0..hosts).map(|src| key(base + src, src, next[src])).collect()
            };
            let first = cycle(&order, 0);
            order[..hosts.div_ceil(10)].reverse();
            let second = cycle(&order, hosts);
            let kept = |(a, b): (&FlowKey, FlowKey)| if a.dst == b.dst { *a } else { b };
            let second = first.iter().zip(second).map(kept).collect();
            (first, second)
        }
        Pattern::Random(per_host) => {
            let flows = hosts * per_host;
            let mut draw = |number: usize| {
                let src = number % hosts;
                key(number, src, (src + rng.random_range(1..hosts)) % hosts)
            };
            let first: Vec<FlowKey> = (0..flows).map(&mut draw).collect();
            let second = (0..flows).map(|i| if i % 10 == 7 { draw(flows + i) } else { first[i] }).collect();
            (first, second)
        }
    }
}

fn shuffle(order: &mut [usize], rng: &mut Pcg64) {
    for i in (1..order.len()).rev() {
        order.swap(i, rng.random_range(0..=i));
    }
}

/// The flows with their demands; those that go on keep what they have.
fn candidates(network: &Network, flows: &[FlowKey], old: impl Fn(usize) -> Option<Candidate>) -> Vec<Candidate> {
    let (src, dst): (Vec<u32>, Vec<u32>) = flows.iter().map(|f| (f.src.0, f.dst.0)).unzip();
    let mut demands = Vec::new();
    DemandEstimator::default().estimate(&src, &dst, network.nic(), &mut demands).expect("the flows are good");
    flows
        .iter()
        .zip(demands)
        .enumerate()
        .map(|(i, (f, demand))| {
            let fresh = Candidate { src: f.src, dst: f.dst, demand: 0, label: None, reserved: 0 };
            Candidate { demand: to_units(demand), ..old(i).unwrap_or(fresh) }
        })
        .collect()
}

/// Runs a round on the flows between racks: energy in NICs, and milliseconds.
fn place(network: &Network, placer: &mut Option<Box<dyn Place>>, flows: &mut [Candidate]) -> (f64, f64) {
    let Some(placer) = placer else { return (f64::NAN, 0.0) };
    let numbers: Vec<usize> = (0..flows.len()).filter(|&i| network.has_choice(flows[i].src, flows[i].dst)).collect();
    let mut chosen: Vec<Candidate> = numbers.iter().map(|&i| flows[i]).collect();
    let start = clock();
    placer.place(network, &mut chosen, Occasion::Round);
    let ms = start.elapsed().as_secs_f64() * 1e3;
    numbers.iter().zip(&chosen).for_each(|(&i, &flow)| flows[i] = flow);
    (from_units(network.energy(&chosen)), ms)
}

#[expect(clippy::disallowed_methods, reason = "this program measures run times")]
fn clock() -> std::time::Instant {
    std::time::Instant::now()
}

fn end_replaced(
    network: &Network,
    placer: &mut Option<Box<dyn Place>>,
    first: &[FlowKey],
    second: &[FlowKey],
    placed: &[Candidate],
) {
    let Some(placer) = placer else { return };
    for i in (0..first.len()).filter(|&i| first[i] != second[i] && network.has_choice(first[i].src, first[i].dst)) {
        placer.ended(network, &placed[i]);
    }
}

fn path(network: &Network, flow: &Candidate) -> Option<Path> {
    flow.label.map(|label| network.path(flow.src, flow.dst, label))
}

/// The sum of the max-min fair rates over the flows' paths, in NICs, by progressive filling of the links.
fn goodput(fabric: &Fabric, router: &mut Router, network: &Network, keys: &[FlowKey], flows: &[Candidate]) -> f64 {
    let paths: Vec<Path> = keys
        .iter()
        .zip(flows)
        .map(|(key, flow)| path(network, flow).unwrap_or_else(|| router.route(key).expect("the fabric is connected")))
        .collect();
    let mut on_link: Vec<Vec<u32>> = vec![Vec::new(); fabric.links().len()];
    paths.iter().enumerate().for_each(|(f, path)| path.iter().for_each(|l| on_link[l.index()].push(f as u32)));
    let mut left = vec![1.0f64; on_link.len()];
    let mut count: Vec<u32> = on_link.iter().map(|f| f.len() as u32).collect();
    let share = |left: &[f64], count: &[u32], l: usize| (left[l] / f64::from(count[l])).max(0.0).to_bits();
    let mut heap: BinaryHeap<Reverse<(u64, usize)>> =
        (0..left.len()).filter(|&l| count[l] > 0).map(|l| Reverse((share(&left, &count, l), l))).collect();
    let mut rate: Vec<Option<f64>> = vec![None; paths.len()];
    while let Some(Reverse((bits, l))) = heap.pop() {
        if count[l] == 0 {
            continue;
        }
        let now = share(&left, &count, l);
        if now > bits {
            heap.push(Reverse((now, l)));
            continue;
        }
        for &f in &on_link[l] {
            if rate[f as usize].is_none() {
                rate[f as usize] = Some(f64::from_bits(now));
                for crossed in &paths[f as usize] {
                    left[crossed.index()] -= f64::from_bits(now);
                    count[crossed.index()] -= 1;
                }
            }
        }
    }
    rate.into_iter().flatten().sum()
}
