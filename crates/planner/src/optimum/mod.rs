//! `weft optimum`: how much of what is possible a routing reaches, over a series of traffic matrices (VL2 section 5.2, figure 15).
//!
//! ```text
//!   scenario --> Network (links between switches)
//!                   |
//!   matrices --> Router: busiest link by ECMP, VLB, single paths     --> Report: each over time, and its distance to the optimum
//!           `--> optimum: certified bounds of the smallest possible one
//! ```

mod table;

use std::fmt::Write as _;
use std::path::PathBuf;

use clap::Args;
use rayon::prelude::*;
use serde::Serialize;

use crate::cli::{print_json, print_text};
use crate::error::{Error, Result};
use crate::fabric::ScenarioArgs;
use crate::network::Network;
use crate::routing::matrix::{Matrix, Pattern};
use crate::routing::optimum;
use crate::routing::router::{Router, Scheme};
use crate::routing::series::Series;

/// Arguments of `weft optimum`.
#[derive(Debug, Args)]
pub struct OptimumArgs {
    #[command(flatten)]
    scenario: ScenarioArgs,
    /// Traffic matrices: those of `weft analyze traffic --out DIR`
    #[arg(long, value_name = "DIR/matrix.csv")]
    matrices: Option<PathBuf>,
    /// A pattern instead, hosts at the rate of their NICs
    #[arg(long, value_enum, default_value = "uniform", conflicts_with = "matrices")]
    traffic: Pattern,
    /// How near the bounds of the optimum come to each other
    #[arg(long, value_name = "FRACTION", default_value_t = 0.02, value_parser = tolerance)]
    tolerance: f64,
    /// Write optimum.json and optimum.csv into this folder
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Routings compared with the optimum.
#[derive(Debug, Serialize)]
pub struct Report {
    /// The fabric's title.
    pub fabric: String,
    /// Number of racks.
    pub racks: usize,
    /// The pattern, or the file of the matrices.
    pub traffic: String,
    /// Whether groups of the file stand on the racks in order, as no name is a rack's.
    pub in_order: bool,
    /// How near the bounds of the optimum come to each other.
    pub tolerance: f64,
    /// Percentiles of the busiest link's utilisation, by routing; the optimum's is that which a found routing has.
    pub utilisation: Vec<Percentiles>,
    /// Percentiles of the utilisation divided by the optimum's: how much more a routing needs.
    pub distance: Vec<Percentiles>,
    /// Each matrix.
    pub matrices: Vec<Row>,
}

/// Percentiles over all matrices.
#[derive(Clone, Debug, Serialize)]
pub struct Percentiles {
    /// `optimum`, or a routing.
    pub routing: &'static str,
    /// 10 %, 50 %, 90 %, 99 % and the largest.
    pub values: [f64; 5],
}

/// The utilisation of the busiest link between switches, for a matrix.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// Start of the interval in seconds.
    pub start_s: f64,
    /// A routing has been found that needs no more than this.
    pub optimum: f64,
    /// No routing needs less.
    pub optimum_at_least: f64,
    /// Equal-cost multipath.
    pub ecmp: f64,
    /// Valiant load balancing.
    pub vlb: f64,
    /// One shortest path per pair of racks.
    pub single: f64,
}

/// Runs it.
///
/// # Errors
/// What is wrong with the scenario or the matrices; a folder that cannot be written.
pub fn run(args: &OptimumArgs) -> Result<()> {
    let (fabric, network) = args.scenario.network()?;
    let (matrices, in_order) = match &args.matrices {
        Some(path) => {
            let series = Series::read(path, &network)?;
            (series.matrices, series.in_order)
        }
        None => (vec![(0.0, args.traffic.of(&network))], false),
    };
    let matrices: Vec<(f64, Matrix)> = matrices.into_iter().filter(|(_, matrix)| matrix.total() > 0.0).collect();
    if matrices.is_empty() {
        return Err(Error::usage("no traffic leaves its rack", "name a file with traffic between racks"));
    }
    let traffic = args.matrices.as_ref().map_or_else(|| args.traffic.name().to_owned(), |path| path.display().to_string());
    let rows = rows(&network.with_fast_nics(), &matrices, args.tolerance);
    let report = Report::new(fabric.title(), traffic, in_order, args.tolerance, rows, fabric.racks().len());
    if let Some(folder) = &args.out {
        std::fs::create_dir_all(folder).map_err(|e| Error::io("write to", folder, e))?;
        for (name, text) in [
            ("optimum.csv", csv(&report)),
            ("optimum.json", serde_json::to_string_pretty(&report).expect("results are JSON") + "\n"),
        ] {
            let path = folder.join(name);
            std::fs::write(&path, text).map_err(|e| Error::io("write", &path, e))?;
        }
    }
    if args.json { print_json(&report) } else { print_text(&table::render(&report)) }
}

/// Compares routings with the optimum, for each matrix.
pub fn rows(network: &Network, matrices: &[(f64, Matrix)], tolerance: f64) -> Vec<Row> {
    let row = |router: &mut Router, (start_s, matrix): &(f64, Matrix)| {
        let [ecmp, vlb, single] =
            [Scheme::Ecmp, Scheme::Vlb, Scheme::Single].map(|scheme| router.busiest(network, matrix, scheme));
        let bounds = optimum::bounds(network, matrix, 1.0 / ecmp, tolerance, PHASES).expect("there is traffic");
        let found = (1.0 / bounds.at_least).min(ecmp).min(vlb).min(single);
        Row { start_s: *start_s, optimum: found, optimum_at_least: (1.0 / bounds.at_most).min(found), ecmp, vlb, single }
    };
    matrices.par_iter().map_init(Router::default, row).collect()
}

/// A value of a row.
type OfRow = fn(&Row) -> f64;

impl Report {
    fn new(fabric: &str, traffic: String, in_order: bool, tolerance: f64, rows: Vec<Row>, racks: usize) -> Self {
        let all: [(&'static str, OfRow); 4] =
            [("optimum", |r| r.optimum), ("ecmp", |r| r.ecmp), ("vlb", |r| r.vlb), ("single", |r| r.single)];
        let percentiles = |of: &dyn Fn(&Row) -> f64| {
            let mut values: Vec<f64> = rows.iter().map(of).collect();
            values.sort_by(f64::total_cmp);
            [0.1, 0.5, 0.9, 0.99, 1.0].map(|q| values[((values.len() - 1) as f64 * q).round() as usize])
        };
        let utilisation = all.iter().map(|&(routing, of)| Percentiles { routing, values: percentiles(&of) }).collect();
        let distance =
            all[1..].iter().map(|&(routing, of)| Percentiles { routing, values: percentiles(&|r| of(r) / r.optimum) }).collect();
        Self { fabric: fabric.to_owned(), racks, traffic, in_order, tolerance, utilisation, distance, matrices: rows }
    }
}

fn csv(report: &Report) -> String {
    let mut out = "start_s,optimum,optimum_at_least,ecmp,vlb,single\n".to_owned();
    for Row { start_s, optimum, optimum_at_least, ecmp, vlb, single } in &report.matrices {
        let _ = writeln!(out, "{start_s},{optimum},{optimum_at_least},{ecmp},{vlb},{single}");
    }
    out
}

fn tolerance(text: &str) -> std::result::Result<f64, String> {
    text.parse().ok().filter(|it| *it >= 0.001 && *it < 1.0).ok_or_else(|| "a fraction from 0.001 to below 1".to_owned())
}

/// After so many phases the bounds stay as wide as they are.
const PHASES: usize = 2_000;
