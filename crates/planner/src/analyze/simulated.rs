//! The traffic of a scenario as a log: the flows of each run, or its traffic matrices, a record for each cell.

use tempfile::TempDir;
use weft_experiment::metrics::Metrics;
use weft_experiment::scenario::source::Source;
use weft_experiment::scenario::traffic::Traffic;
use weft_experiment::study::Study as Runs;

use super::formats::{Endpoint, FlowRecord, Place, Sink as _};
use super::hosts::HostMap;
use super::report::TrafficReport;
use super::study::{Settings, Study};
use crate::error::{Error, Result};
use crate::export::{self, Flow};
use crate::fabric::{Case, cases_of};
use crate::routing::demand::Demand;

/// A studied run.
pub struct Studied {
    /// The study.
    pub report: TrafficReport,
    /// Whether its records are flows, and not cells of matrices.
    pub is_of_flows: bool,
}

impl Studied {
    /// Those that the records allow.
    pub fn metrics(&self) -> Metrics {
        self.report.metrics(self.is_of_flows)
    }
}

/// Studies each run of a scenario, in the order of its sweep. Without `interval_ns` intervals are those of the matrices, or of 100 s.
///
/// # Errors
/// What is wrong with the scenario; traffic without a flow.
pub fn study(source: Source, settings: &Settings, interval_ns: Option<i64>) -> Result<(Source, Vec<Studied>)> {
    let cases = cases_of(&source, true)?;
    let has_matrices = |case: &Case| case.run.as_ref().is_some_and(|run| matches!(run.scenario.traffic, Traffic::Matrices(_)));
    if cases.iter().all(has_matrices) {
        let studied = cases.iter().map(|case| of_matrices(case, settings, interval_ns)).collect::<Result<_>>()?;
        return Ok((source, studied));
    }
    let runs = Runs::new(source, &mut |_, _| {})?;
    let folder = TempDir::new().map_err(|e| Error::io("write to", &std::env::temp_dir(), e))?;
    weft_experiment::run::run(&runs, Some(&folder.path().join("run")), &|_, _| {})?.log_notes();
    let studied = cases.iter().enumerate().map(|(at, case)| {
        let run = folder.path().join("run");
        let flows = export::read(&if cases.len() == 1 { run } else { run.join(format!("{at:03}")) })?;
        of_flows(runs.source.name(), case, &flows, settings)
    });
    let studied = studied.collect::<Result<_>>()?;
    Ok((runs.source, studied))
}

fn of_flows(name: &str, case: &Case, flows: &[Flow], settings: &Settings) -> Result<Studied> {
    let map = export::hosts(&case.fabric, |host| host.to_string());
    let map = HostMap::parse(&map).expect("a map of host numbers");
    let mut study = Study::new(settings.clone(), Some(map), None);
    for (number, flow) in flows.iter().enumerate() {
        let host = |host: u32| Endpoint::Name(host.to_string().into());
        let record = record(host(flow.src), host(flow.dst), ns(flow.start_s), Some(ns(flow.end_s)), flow.bytes);
        add(&mut study, name, number, record)?;
    }
    Ok(Studied { report: study.finish()?.0, is_of_flows: true })
}

fn of_matrices(case: &Case, settings: &Settings, interval_ns: Option<i64>) -> Result<Studied> {
    let run = case.run.as_ref().expect("its traffic is matrices");
    let demand = Demand::of_run(run, &case.fabric, &case.network)?;
    let starts: Vec<i64> = demand.matrices.iter().map(|(start_s, _)| ns(*start_s)).collect();
    let step = starts.windows(2).map(|pair| pair[1] - pair[0]).filter(|step| *step > 0).min().unwrap_or(settings.interval_ns);
    let mut study = Study::new(Settings { interval_ns: interval_ns.unwrap_or(step), ..settings.clone() }, None, None);
    let racks = case.network.racks();
    let name = |rack: usize| Endpoint::Name(case.network.name(rack as u32).into());
    let mut number = 0;
    for ((_, matrix), start) in demand.matrices.iter().zip(starts) {
        for (src, dst) in (0..racks).flat_map(|src| (0..racks).map(move |dst| (src, dst))) {
            let bytes = matrix.rate(src, dst) * step as f64 / 8e9;
            if bytes >= 1.0 {
                add(&mut study, &demand.name, number, record(name(src), name(dst), start, None, bytes as u64))?;
                number += 1;
            }
        }
    }
    study.tally().note("a record is the bytes from a rack to another in an interval: sizes and arrivals are not those of flows");
    Ok(Studied { report: study.finish()?.0, is_of_flows: false })
}

fn record(src: Endpoint, dst: Endpoint, start: i64, end: Option<i64>, bytes: u64) -> FlowRecord {
    FlowRecord { src, dst, src_port: 0, dst_port: 0, protocol: 0, start, end, bytes, packets: 0, sampling: 1, exporter: None }
}

fn add(study: &mut Study, name: &str, number: usize, record: FlowRecord) -> Result<()> {
    let place = Place { file: name, unit: "record", number: number as u64 + 1 };
    let failed =
        |problem: super::formats::Problem| Error::usage(format!("{name}: {}: {}", problem.place, problem.message), problem.help);
    study.flow(record, place).map_err(failed)
}

fn ns(seconds: f64) -> i64 {
    (seconds * 1e9).round() as i64
}
