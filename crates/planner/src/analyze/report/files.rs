//! The folder of a report.
//!
//! ```text
//!   DIR/traffic.json   all numbers                        DIR/traffic.html   the same with plots
//!
//!   each of these as NAME.csv and NAME.parquet:
//!   matrix     start_s,from,to,bytes                      sizes         flows and bytes by size of flow
//!   classes    cluster of each interval                   concurrency   time by number of flows of a host
//!   clusters   fitting error by number of clusters        hosts         group and bytes of each host
//! ```

use std::path::Path;

use weft_experiment::results::parquet::Table;

use super::{LogHistogram, TrafficReport, html};
use crate::analyze::sketch::Bin;
use crate::error::{Error, Result};

/// Writes all files of a report into a folder, which is made if necessary.
///
/// # Errors
/// The folder or a file cannot be written.
pub fn write_folder(folder: &Path, report: &TrafficReport) -> Result<()> {
    std::fs::create_dir_all(folder).map_err(|e| Error::io("write to", folder, e))?;
    histogram(folder, "sizes", &report.full.sizes)?;
    histogram(folder, "concurrency", &report.full.concurrency)?;
    matrices(folder, report)?;
    clusters(folder, report)?;
    classes(folder, report)?;
    hosts(folder, report)?;
    write(folder, "traffic.html", &html::render(report))?;
    write(folder, "traffic.json", &(serde_json::to_string_pretty(report).expect("results are JSON") + "\n"))
}

fn write(folder: &Path, name: &str, text: &str) -> Result<()> {
    let path = folder.join(name);
    std::fs::write(&path, text).map_err(|e| Error::io("write", &path, e))
}

/// Writes a table in both formats.
fn write_table<R>(folder: &Path, name: &str, table: &Table<'_, R>) -> Result<()> {
    write(folder, &format!("{name}.csv"), &table.csv())?;
    Ok(table.write(&folder.join(format!("{name}.parquet")))?)
}

fn histogram(folder: &Path, name: &str, histogram: &LogHistogram) -> Result<()> {
    let bins: Vec<Bin> = histogram.bins().collect();
    let table = Table::of(&bins)
        .u64("from", |bin| bin.from)
        .u64("to", |bin| bin.to)
        .u64("count", |bin| bin.count)
        .f64("sum", |bin| bin.sum);
    write_table(folder, name, &table)
}

fn matrices(folder: &Path, report: &TrafficReport) -> Result<()> {
    let series = &report.full.series;
    let start = |at: usize| (series.first + at as i64) as f64 * series.interval_ns as f64 / 1e9;
    let cells: Vec<(f64, u32, u32, u64)> = series
        .matrices
        .iter()
        .enumerate()
        .flat_map(|(at, cells)| cells.iter().map(move |&((from, to), bytes)| (start(at), from, to, rounded(bytes))))
        .collect();
    let name = |group: u32| &*report.matrix.groups[group as usize];
    let table = Table::of(&cells)
        .f64("start_s", |cell| cell.0)
        .text("from", |cell| name(cell.1))
        .text("to", |cell| name(cell.2))
        .u64("bytes", |cell| cell.3);
    write_table(folder, "matrix", &table)
}

fn clusters(folder: &Path, report: &TrafficReport) -> Result<()> {
    let errors: Vec<(u32, f64)> = (1..).zip(report.clusters.fitting_error.iter().copied()).collect();
    write_table(folder, "clusters", &Table::of(&errors).u32("clusters", |it| it.0).f64("fitting_error", |it| it.1))
}

fn classes(folder: &Path, report: &TrafficReport) -> Result<()> {
    let clusters = &report.full.clusters;
    let classes: Vec<_> = clusters.intervals.iter().zip(&clusters.class).collect();
    let table = Table::of(&classes).u64("interval", |it| *it.0 as u64).u64("cluster", |it| *it.1 as u64);
    write_table(folder, "classes", &table)
}

fn hosts(folder: &Path, report: &TrafficReport) -> Result<()> {
    let group = |number: u32| &*report.matrix.groups[number as usize];
    let rows: Vec<_> = report.full.hosts.iter().collect();
    let table = Table::of(&rows)
        .text("host", |it| &it.0)
        .text("group", |it| group(it.1))
        .u64("out_bytes", |it| rounded(it.2))
        .u64("in_bytes", |it| rounded(it.3));
    write_table(folder, "hosts", &table)
}

/// Whole bytes: a sampled log has fractions of them.
fn rounded(bytes: f64) -> u64 {
    bytes.round() as u64
}
