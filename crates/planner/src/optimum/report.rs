//! What `weft optimum` prints and writes.

use std::fmt::Write as _;
use std::path::Path;

use serde::Serialize;
use serde_json::{Map, Value};
use weft_experiment::expect::Verdict;
use weft_experiment::metrics::Metrics;

use super::compare::Comparison;
use crate::error::{Error, Result};
use crate::fabric::Case;
use crate::routing::demand::Demand;

/// Routings compared with the optimum.
#[derive(Debug, Serialize)]
pub struct Report {
    /// How near the bounds of the optimum come to each other.
    pub tolerance: f64,
    /// In the order of the sweep.
    pub runs: Vec<RunReport>,
}

/// One run of a sweep.
#[derive(Debug, Serialize)]
pub struct RunReport {
    /// The swept settings.
    pub set: Map<String, Value>,
    /// The fabric's title.
    pub fabric: String,
    /// Number of racks.
    pub racks: usize,
    /// What the traffic is.
    pub traffic: String,
    /// Whether groups of the file stand on the racks in order, as no name is a rack's.
    pub in_order: bool,
    /// Number of matrices.
    pub matrices: usize,
    /// Of these, how many were routed by placing flows: fewer where all would take long.
    pub placed_matrices: usize,
    /// Their starts in seconds.
    pub start_s: Vec<f64>,
    /// The utilisation of the busiest link between switches, by routing and matrix; `null` of matrices that were not routed.
    pub max_utilisation: Map<String, Value>,
    /// No routing needs less, by matrix.
    pub adaptive_at_least: Vec<f64>,
    /// No routing that is the same for all matrices needs less for the worst of them.
    pub oblivious_at_least: f64,
    /// By routing: percentiles over the links of each one's largest utilisation.
    pub link_utilisation: Map<String, Value>,
    /// The links that hold back every routing of the matrix that needs most, the largest part first: the dual solution.
    pub binding: Vec<Binding>,
    /// Traffic of the hose model: `vlb` is what VLB's busiest link needs at most, and no routing does with less than `at_least`.
    pub hose: Map<String, Value>,
    /// The same as metrics: the largest and the median link utilisation, each divided by the adaptive routing's.
    pub metrics: Metrics,
    /// The expectations that apply to it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub expect: Vec<Verdict>,
    /// By routing: utilisations for percentiles, not written.
    #[serde(skip)]
    pub comparison: Comparison,
}

/// A link that binds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Binding {
    /// The sending switch.
    pub from: String,
    /// The receiving switch.
    pub to: String,
    /// Its part; of all links the sum is 1.
    pub part: f64,
}

impl RunReport {
    /// Of a comparison.
    pub fn new(case: &Case, demand: Demand, mut comparison: Comparison) -> Self {
        let mut metrics = Metrics::default();
        comparison.links.iter_mut().for_each(|links| links.sort_by(f64::total_cmp));
        let complete = |(i, _): &(usize, _)| comparison.is_complete(*i);
        for (i, routing) in comparison.routings.iter().enumerate().filter(complete) {
            let links = &comparison.links[i];
            for (name, q) in [("link_utilisation_max", 1.0), ("link_utilisation_median", 0.5)] {
                metrics.put_of(name, routing, quantile(links, q) / quantile(&comparison.links[0], q));
            }
        }
        let by_routing = |of: &dyn Fn(usize) -> Value| {
            comparison.routings.iter().enumerate().map(|(i, name)| ((*name).to_owned(), of(i))).collect()
        };
        let quantiles = |i: usize| {
            let of = |(name, q): &(&str, f64)| ((*name).to_owned(), quantile(&comparison.links[i], *q).into());
            Value::Object(QUANTILES.iter().map(of).collect())
        };
        let [vlb, at_least] = comparison.hose;
        Self {
            set: case.set.clone(),
            fabric: case.fabric.title().to_owned(),
            racks: case.network.racks(),
            traffic: demand.name,
            in_order: demand.in_order,
            matrices: demand.matrices.len(),
            placed_matrices: (0..comparison.routings.len()).map(|i| comparison.routed(i)).min().unwrap_or(0),
            start_s: demand.matrices.iter().map(|(start, _)| *start).collect(),
            max_utilisation: by_routing(&|i| comparison.busiest[i].clone().into()),
            adaptive_at_least: comparison.adaptive_at_least.clone(),
            oblivious_at_least: comparison.oblivious_at_least,
            link_utilisation: by_routing(&quantiles),
            binding: comparison
                .binding
                .1
                .iter()
                .map(|(from, to, part)| Binding { from: from.clone(), to: to.clone(), part: *part })
                .collect(),
            hose: [("vlb".to_owned(), vlb.into()), ("at_least".to_owned(), at_least.into())].into_iter().collect(),
            metrics,
            expect: Vec::new(),
            comparison,
        }
    }
}

impl Report {
    /// Of the scenario, or of the fabric.
    pub fn title(&self, cases: &[Case]) -> String {
        cases[0].run.as_ref().map_or_else(|| self.runs[0].fabric.clone(), |run| run.scenario.title.clone())
    }

    /// Writes `optimum.json` and `optimum.csv`.
    ///
    /// # Errors
    /// A folder that cannot be written.
    pub fn write(&self, folder: &Path) -> Result<()> {
        std::fs::create_dir_all(folder).map_err(|e| Error::io("write to", folder, e))?;
        let json = serde_json::to_string_pretty(self).expect("results are JSON") + "\n";
        for (name, text) in [("optimum.csv", self.csv()), ("optimum.json", json)] {
            let path = folder.join(name);
            std::fs::write(&path, text).map_err(|e| Error::io("write", &path, e))?;
        }
        Ok(())
    }

    fn csv(&self) -> String {
        let mut out = "run,start_s,routing,max_utilisation\n".to_owned();
        for (number, run) in self.runs.iter().enumerate() {
            let routings = run.comparison.routings.iter().copied().zip(&run.comparison.busiest);
            for (routing, busiest) in routings.chain([("adaptive_at_least", &run.adaptive_at_least)]) {
                for (start_s, busiest) in run.start_s.iter().zip(busiest).filter(|(_, busiest)| !busiest.is_nan()) {
                    let _ = writeln!(out, "{number},{start_s},{routing},{busiest}");
                }
            }
        }
        out
    }
}

/// A quantile of sorted values.
pub fn quantile(sorted: &[f64], q: f64) -> f64 {
    sorted.get((sorted.len().saturating_sub(1) as f64 * q).round() as usize).copied().unwrap_or(0.0)
}

/// What percentiles are shown.
pub const QUANTILES: [(&str, f64); 5] = [("p10", 0.1), ("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("max", 1.0)];
