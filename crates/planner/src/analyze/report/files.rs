//! The folder of a report.
//!
//! ```text
//!   DIR/traffic.json     all numbers            DIR/sizes.csv         flows and bytes by size of flow
//!   DIR/traffic.html     the same with plots    DIR/concurrency.csv   time by number of flows of a host
//!   DIR/matrix.csv       interval,from,to,bytes DIR/clusters.csv      fitting error by number of clusters
//!   DIR/classes.csv      cluster of each interval   DIR/hosts.csv     group and bytes of each host
//! ```

use std::fmt::Write as _;
use std::path::Path;

use super::{LogHistogram, TrafficReport, html};
use crate::error::{Error, Result};

/// Writes all files of a report into a folder, which is made if necessary.
///
/// # Errors
/// The folder or a file cannot be written.
pub fn write_folder(folder: &Path, report: &TrafficReport) -> Result<()> {
    std::fs::create_dir_all(folder).map_err(|e| Error::io("write to", folder, e))?;
    let write = |name: &str, text: &str| {
        let path = folder.join(name);
        std::fs::write(&path, text).map_err(|e| Error::io("write", &path, e))
    };
    write("sizes.csv", &histogram(&report.full.sizes))?;
    write("concurrency.csv", &histogram(&report.full.concurrency))?;
    write("matrix.csv", &matrices(report))?;
    write("clusters.csv", &clusters(report))?;
    write("classes.csv", &classes(report))?;
    write("hosts.csv", &hosts(report))?;
    write("traffic.html", &html::render(report))?;
    write("traffic.json", &(serde_json::to_string_pretty(report).expect("results are JSON") + "\n"))
}

/// A field that may have commas or quotes.
fn field(text: &str) -> String {
    if text.contains([',', '"', '\n']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text.to_owned() }
}

fn histogram(histogram: &LogHistogram) -> String {
    let mut out = "from,to,count,sum\n".to_owned();
    for bin in histogram.bins() {
        let _ = writeln!(out, "{},{},{},{}", bin.from, bin.to, bin.count, bin.sum);
    }
    out
}

fn matrices(report: &TrafficReport) -> String {
    let series = &report.full.series;
    let names: Vec<String> = report.matrix.groups.iter().map(|name| field(name)).collect();
    let mut out = "start_s,from,to,bytes\n".to_owned();
    for (at, cells) in series.matrices.iter().enumerate() {
        let start = (series.first + at as i64) as f64 * series.interval_ns as f64 / 1e9;
        for &((from, to), bytes) in cells {
            let _ = writeln!(out, "{start},{},{},{bytes:.0}", names[from as usize], names[to as usize]);
        }
    }
    out
}

fn clusters(report: &TrafficReport) -> String {
    let mut out = "clusters,fitting_error\n".to_owned();
    for (at, error) in report.clusters.fitting_error.iter().enumerate() {
        let _ = writeln!(out, "{},{error}", at + 1);
    }
    out
}

fn classes(report: &TrafficReport) -> String {
    let clusters = &report.full.clusters;
    let mut out = "interval,cluster\n".to_owned();
    for (at, class) in clusters.intervals.iter().zip(&clusters.class) {
        let _ = writeln!(out, "{at},{class}");
    }
    out
}

fn hosts(report: &TrafficReport) -> String {
    let mut out = "host,group,out_bytes,in_bytes\n".to_owned();
    for (name, group, sent, received) in &report.full.hosts {
        let group = field(&report.matrix.groups[*group as usize]);
        let _ = writeln!(out, "{},{group},{sent:.0},{received:.0}", field(name));
    }
    out
}
