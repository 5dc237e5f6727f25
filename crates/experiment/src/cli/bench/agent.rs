//! `weft bench agent`: what an overlay costs (VL2 section 5.1: encapsulation is to cost little more than its headers). Scenarios in the lab take turns, and each
//! is compared with plain forwarding in its own round, so that other work on the machine affects both.
//!
//! ```text
//!   round 1   agent-vl2 --> agent-vl2-plain     goodput / goodput --+
//!   round 2   agent-vl2-plain --> agent-vl2     goodput / goodput --+--> median, minimum, maximum; CPU time likewise
//!   round 3   agent-vl2 --> agent-vl2-plain     goodput / goodput --+
//! ```

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde::Serialize;
use toml::Value;

use super::{BenchArgs, name_of};
use crate::cli::{print_json, print_text, table};
use crate::error::{Error, Result};
use crate::scenario::source::Overrides;
use crate::study::Study;
use crate::{run, world};

/// One scenario over all rounds.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct Case {
    name: String,
    hosts: usize,
    flows: u64,
    /// Of a run, its lab's start and removal included: the median.
    wall_s: f64,
    rss_bytes: u64,
    /// The median.
    goodput_bps: f64,
    /// Goodput divided by that of plain forwarding in the same round: the median,
    ratio_to_plain: f64,
    /// the minimum,
    ratio_min: f64,
    /// and the maximum.
    ratio_max: f64,
    /// The minimum of all rounds, as the machine leaves it alone.
    rtt_min_s: f64,
    /// Likewise.
    cpu_per_gbit_s: f64,
    /// CPU time per Gbit divided by that of plain forwarding in the same round: the median,
    cpu_ratio_to_plain: f64,
    /// the minimum,
    cpu_ratio_min: f64,
    /// and the maximum.
    cpu_ratio_max: f64,
}

/// One scenario in one round.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Measured {
    hosts: usize,
    flows: f64,
    wall_s: f64,
    rss_bytes: f64,
    goodput_bps: f64,
    rtt_min_s: f64,
    cpu_per_gbit_s: f64,
}

/// Measures the cases of these files.
pub(super) fn run(args: &BenchArgs, files: &[PathBuf]) -> Result<ExitCode> {
    world::lab::need()?;
    let names: Vec<String> = files.iter().map(|file| name_of(file)).collect();
    let baselines = baselines(&names)?;
    let duration = args.seconds.map(|seconds| ("world.duration".to_owned(), Value::String(format!("{seconds}s"))));
    let overrides = Overrides { set: duration.into_iter().collect(), ..Overrides::default() };
    let mut measured = vec![Vec::new(); files.len()];
    for round in 0..args.runs {
        for turn in 0..files.len() {
            // A case and its baseline are neighbours; each is first in every other round.
            let at = if round % 2 == 0 { turn } else { files.len() - 1 - turn };
            eprintln!("round {} of {}: {}", round + 1, args.runs, names[at]);
            measured[at].push(measure(&files[at], &overrides)?);
        }
    }
    let compared = names.iter().zip(&measured).zip(baselines);
    let cases: Vec<Case> = compared.map(|((name, own), plain)| compare(name, own, &measured[plain])).collect();
    if args.json {
        print_json(&serde_json::json!({ "cases": cases, "runs": args.runs }))?;
    } else {
        print_text(&of_cases(&cases))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// For each case the number of the one that it is compared with: `agent-vl2-plain` of both `agent-vl2` and itself.
fn baselines(names: &[String]) -> Result<Vec<usize>> {
    let of = |name: &String| {
        let plain = format!("{}{PLAIN}", name.strip_suffix(PLAIN).unwrap_or(name));
        let missing = || Error::usage(format!("no case {plain} to compare {name} with"), "check `--case` and `--scenarios`");
        names.iter().position(|other| *other == plain).ok_or_else(missing)
    };
    names.iter().map(of).collect()
}

/// The end of the name of a case without an overlay.
const PLAIN: &str = "-plain";

fn measure(file: &Path, overrides: &Overrides) -> Result<Measured> {
    let study = Study::read(file, overrides)?;
    let hosts = study.prepare(0)?.fabric.host_count();
    let summary = run::run(&study, None, &|_, _| {})?;
    let metrics = &summary.runs[0].metrics;
    let get = |name| {
        let missing = || Error::usage(format!("{} has no {name}", name_of(file)), "a case needs kind = \"lab\", and TCP flows");
        metrics.get(name).ok_or_else(missing)
    };
    Ok(Measured {
        hosts,
        flows: get("flows")?,
        wall_s: get("wall_s")?,
        rss_bytes: get("rss_bytes")?,
        goodput_bps: get("goodput_bps")?,
        rtt_min_s: get("rtt_min_s")?,
        cpu_per_gbit_s: get("cpu_per_gbit_s")?,
    })
}

/// A case and plain forwarding, round by round.
fn compare(name: &str, own: &[Measured], plain: &[Measured]) -> Case {
    let of = |value: fn(&Measured) -> f64| sorted(own.iter().map(value));
    let ratios = |value: fn(&Measured) -> f64| sorted(own.iter().zip(plain).map(|(own, plain)| value(own) / value(plain)));
    let (goodput, cpu) = (ratios(|m| m.goodput_bps), ratios(|m| m.cpu_per_gbit_s));
    Case {
        name: name.to_owned(),
        hosts: own[0].hosts,
        flows: own[0].flows as u64,
        wall_s: median(&of(|m| m.wall_s)),
        rss_bytes: of(|m| m.rss_bytes)[0] as u64,
        goodput_bps: median(&of(|m| m.goodput_bps)),
        ratio_to_plain: median(&goodput),
        ratio_min: goodput[0],
        ratio_max: goodput[goodput.len() - 1],
        rtt_min_s: of(|m| m.rtt_min_s)[0],
        cpu_per_gbit_s: of(|m| m.cpu_per_gbit_s)[0],
        cpu_ratio_to_plain: median(&cpu),
        cpu_ratio_min: cpu[0],
        cpu_ratio_max: cpu[cpu.len() - 1],
    }
}

fn sorted(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_unstable_by(f64::total_cmp);
    values
}

/// Of sorted values; of an even number the mean of both in the middle.
fn median(sorted: &[f64]) -> f64 {
    f64::midpoint(sorted[(sorted.len() - 1) / 2], sorted[sorted.len() / 2])
}

fn of_cases(cases: &[Case]) -> String {
    let mut table = table::new_table();
    table.set_header(["case", "goodput", "of plain (range)", "RTT min", "CPU/Gbit", "of plain"]);
    for case in cases {
        table.add_row([
            case.name.trim_start_matches("agent-").to_owned(),
            table::show("goodput_bps", case.goodput_bps),
            format!("{:.2} ({:.2}, {:.2})", case.ratio_to_plain, case.ratio_min, case.ratio_max),
            table::show("rtt_min_s", case.rtt_min_s),
            table::show("cpu_per_gbit_s", case.cpu_per_gbit_s),
            format!("{:.2}", case.cpu_ratio_to_plain),
        ]);
    }
    table::align(&mut table, 1);
    format!("{table}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rounds<const N: usize>(gbps: [f64; N]) -> Vec<Measured> {
        let of = |goodput| Measured {
            hosts: 2,
            flows: 16.0,
            wall_s: 1.0,
            rss_bytes: 1e6,
            goodput_bps: goodput * 1e9,
            rtt_min_s: 1e-3 / goodput,
            cpu_per_gbit_s: 1.0 / goodput,
        };
        gbps.map(of).to_vec()
    }

    #[test]
    fn ratios_are_of_one_round_each() {
        // The machine's speed changes between rounds.
        let (own, plain) = (rounds([12.0, 4.0, 2.0]), rounds([16.0, 4.0, 4.0]));
        let case = compare("agent-vl2", &own, &plain);
        assert_eq!((case.ratio_min, case.ratio_to_plain, case.ratio_max), (0.5, 0.75, 1.0), "the ratio of the medians is 1");
        assert_eq!((case.cpu_ratio_min, case.cpu_ratio_max), (1.0, 2.0));
        assert_eq!((case.goodput_bps, case.rtt_min_s, case.cpu_per_gbit_s), (4e9, 1e-3 / 12.0, 1.0 / 12.0));
        let case = compare("agent-vl2-plain", &plain, &plain);
        assert_eq!((case.ratio_min, case.ratio_to_plain, case.ratio_max), (1.0, 1.0, 1.0));
        let case = compare("agent-vl2", &rounds([8.0, 4.0]), &rounds([16.0, 16.0]));
        assert_eq!((case.ratio_to_plain, case.goodput_bps), (0.375, 6e9), "between two rounds");
    }

    #[test]
    fn each_case_has_its_baseline() {
        let names = |all: &[&str]| all.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
        let all = names(&["agent-netlord", "agent-netlord-plain", "agent-vl2", "agent-vl2-plain"]);
        assert_eq!(baselines(&all).unwrap(), [1, 1, 3, 3]);
        assert!(baselines(&all[..1]).is_err());
    }
}
