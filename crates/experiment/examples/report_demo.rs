//! Writes two reports of synthetic runs: `cargo run -p weft-experiment --example report_demo -- FOLDER`.
//!
//! `sweep.html`: four schedulers on a 16-host fat-tree, with expectations. `large.html`: two on 8,192 hosts.

#[path = "../tests/support/synthetic.rs"]
mod synthetic;

use std::path::PathBuf;

use serde_json::json;
use synthetic::{Placement, carry, expectation, flows, gigabit_fat_tree, goodput, ideal, report, stride};
use weft_experiment::report::{RunReport, render};

fn main() -> std::io::Result<()> {
    let folder = PathBuf::from(std::env::args_os().nth(1).unwrap_or_else(|| "target/report-demo".into()));
    std::fs::create_dir_all(&folder)?;
    for (file, title, runs) in [
        ("sweep.html", "Random traffic on a 16-host fat-tree", sweep()),
        ("large.html", "Stride traffic on an 8,192-host fat-tree", large()),
        ("empty.html", "A sweep without runs", Vec::new()),
    ] {
        let html = render(title, &runs);
        println!("{}: {} bytes", folder.join(file).display(), html.len());
        std::fs::write(folder.join(file), html)?;
    }
    Ok(())
}

fn sweep() -> Vec<RunReport> {
    let fabric = gigabit_fat_tree(4);
    let flows = flows(&fabric, 30, 20.0, 60e6, 7);
    let best = ideal(&fabric, &flows, 0.05);
    let schedulers = [
        ("none", Placement::Hashed, 1),
        ("first-fit", Placement::FirstFit, 2),
        ("annealing", Placement::Hashed, 5),
        ("edge-coloring", Placement::LeastLoaded, 1),
    ];
    let runs = schedulers.iter().enumerate().map(|(i, &(name, placement, seed))| {
        let run = carry(&fabric, &flows, placement, 0.05, seed);
        let share = goodput(&run) / goodput(&best);
        let expect = match name {
            "none" => vec![expectation("Hedera, figure 9", "optimal_fraction", 0.61, share, 0.1, Some("the synthetic flows are short"))],
            "first-fit" => vec![expectation("Hedera, figure 9", "optimal_fraction", 0.95, share, 0.1, None)],
            "annealing" => vec![
                expectation("Hedera, abstract", "optimal_fraction", 0.96, share, 0.05, None),
                expectation("Hedera, table 2", "completion_s", 31.0, run.ended.as_secs_f64(), 0.1, None),
            ],
            _ => Vec::new(),
        };
        report(&format!("{i:03}"), &[("control.scheduler", json!(name))], &fabric, &run, &best, &expect)
    });
    runs.collect()
}

fn large() -> Vec<RunReport> {
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
