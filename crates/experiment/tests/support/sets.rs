//! Sets of runs to draw reports from.

use std::sync::Arc;

use serde_json::json;
use weft_experiment::report::RunReport;
use weft_fabric::record::{PacketTotals, QueueSample, WindowSample};
use weft_fabric::topology::FabricBuilder;
use weft_fabric::{BitsPerSec, Bytes, Duration, Fabric, FlowId, Instant, LinkId};

use super::{Placement, carry, expectation, flows, gigabit_fat_tree, goodput, ideal, report, stride};

/// Four schedulers on a 16-host fat-tree, beside values of the paper: met, missed, and missed with a known cause.
pub fn sweep() -> Vec<RunReport> {
    let fabric = gigabit_fat_tree(4);
    let flows = flows(&fabric, 30, 20.0, 105e6, 7);
    let best = ideal(&fabric, &flows, 0.05);
    let schedulers = [
        ("none", Placement::Hashed, 3),
        ("first-fit", Placement::FirstFit, 2),
        ("annealing", Placement::Hashed, 5),
        ("edge-coloring", Placement::LeastLoaded, 1),
    ];
    let runs = schedulers.iter().enumerate().map(|(i, &(name, placement, seed))| {
        let run = carry(&fabric, &flows, placement, 0.05, seed);
        let share = goodput(&run) / goodput(&best);
        let expect = match name {
            "none" => {
                vec![expectation("Hedera, figure 9", "optimal_fraction", 0.61, share, 0.1, Some("the synthetic flows are short"))]
            }
            "first-fit" => vec![expectation("Hedera, figure 9", "optimal_fraction", 0.8, share, 0.1, None)],
            "annealing" => vec![
                expectation("Hedera, abstract", "optimal_fraction", 0.96, share, 0.05, None),
                expectation("Hedera, table 2", "completion_s", 60.0, run.ended.as_secs_f64(), 0.1, None),
            ],
            _ => Vec::new(),
        };
        report(&format!("{i:03}"), &[("control.scheduler", json!(name))], &fabric, &run, &best, &expect)
    });
    runs.collect()
}

/// Two schedulers on 8,192 hosts.
pub fn large() -> Vec<RunReport> {
    let fabric = gigabit_fat_tree(32);
    let flows = stride(&fabric, 512, 1e9, 3);
    let best = ideal(&fabric, &flows, 0.5);
    let schedulers = [("none", Placement::Hashed), ("first-fit", Placement::FirstFit)];
    let runs = schedulers.iter().enumerate().map(|(i, &(name, placement))| {
        let run = carry(&fabric, &flows, placement, 0.5, 1);
        let set = [("control.scheduler", json!(name)), ("fabric.k", json!(32))];
        report(&format!("{i:03}"), &set, &fabric, &run, &best, &[])
    });
    runs.collect()
}

/// Three sizes of fabric, two schedulers, four seeds.
pub fn many() -> Vec<RunReport> {
    let mut runs = Vec::new();
    for k in [4, 8, 12] {
        let fabric = gigabit_fat_tree(k);
        for seed in 1..=4 {
            let flows = flows(&fabric, 4, 4.0, 60e6, seed);
            let best = ideal(&fabric, &flows, 0.1);
            for (name, placement) in [("none", Placement::Hashed), ("first-fit", Placement::FirstFit)] {
                let run = carry(&fabric, &flows, placement, 0.1, seed);
                let set = [("fabric.k", json!(k)), ("control.scheduler", json!(name)), ("seed", json!(seed))];
                runs.push(report(&format!("{:03}", runs.len()), &set, &fabric, &run, &best, &[]));
            }
        }
    }
    runs
}

/// One run on six switches, each linked to each; their cables lie inside one tier.
pub fn clique() -> Vec<RunReport> {
    let fabric = clique_fabric();
    let flows = flows(&fabric, 12, 5.0, 120e6, 4);
    let run = carry(&fabric, &flows, Placement::Hashed, 0.05, 1);
    vec![report("", &[], &fabric, &run, &ideal(&fabric, &flows, 0.05), &[])]
}

/// Two runs in packets: one dropped some and was traced, the other dropped none.
pub fn packets() -> Vec<RunReport> {
    let fabric = gigabit_fat_tree(4);
    let flows = flows(&fabric, 10, 5.0, 105e6, 7);
    let best = ideal(&fabric, &flows, 0.05);
    let mut run = carry(&fabric, &flows, Placement::Hashed, 0.05, 1);
    run.packets = Some(PacketTotals { drops: 0, ..PacketTotals::default() });
    let quiet = report("001", &[("world.switch_queue", json!("1MB"))], &fabric, &run, &best, &[]);
    for link in run.links.iter_mut().step_by(5) {
        link.drops = 40;
    }
    let drops = run.links.iter().map(|l| l.drops).sum::<u64>() + 3;
    run.packets = Some(PacketTotals { drops, ..PacketTotals::default() });
    for i in 0..2_000u64 {
        let at = Instant::ZERO + Duration::from_ms(i);
        run.traced.queues.extend([0, 9].map(|l| QueueSample { at, link: LinkId(l), bytes: Bytes(i * 75 % 150_000), drops: 0 }));
        run.traced.windows.push(WindowSample { at, flow: FlowId(3), subflow: 0, segments: 10 + i as u32 % 70, srtt_ps: 0 });
    }
    vec![report("000", &[("world.switch_queue", json!("150kB"))], &fabric, &run, &best, &[]), quiet]
}

fn clique_fabric() -> Arc<Fabric> {
    let mut builder = FabricBuilder::new("clique of 6 edge switches, 4 hosts each");
    let (rate, delay) = (BitsPerSec(1_000_000_000), Duration::from_us(1));
    let switches: Vec<_> = (0..6).map(|i| builder.switch(format!("edge{i}"), 1, None)).collect();
    for (s, &switch) in switches.iter().enumerate() {
        for i in 0..4 {
            let host = builder.host(format!("h{}", s * 4 + i), None);
            builder.cable(host, switch, rate, delay);
        }
        for &other in &switches[..s] {
            builder.cable(other, switch, rate, delay);
        }
    }
    Arc::new(builder.build().expect("connected"))
}
