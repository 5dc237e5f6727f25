//! `--emit scenario.toml`: a scenario whose traffic is that of the log, for `weft run`.
//!
//! ```text
//!   fitted        sizes by their distribution (NAME.cdf.txt), ends by the mean traffic matrix (NAME.matrix.csv), Poisson arrivals at the log's rate
//!   closed-loop   the same, and each host keeps as many flows under way as the distribution of concurrent flows says (NAME.concurrency.txt)
//!   flows         the flows themselves (NAME.flows.csv), from a second reading of the log
//! ```
//! The fabric is the smallest that fits: an edge switch for each group, as many hosts on each as the largest group has, and as many core switches.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};

use super::duplicates::Duplicates;
use super::formats::{FlowRecord, Options, Place, Problem, Sink, read_file};
use super::hosts::Hosts;
use super::report::TrafficReport;
use super::sketch::ratio;
use super::tally::Tally;
use crate::error::{Error, Result};

/// The form of the traffic.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Form {
    /// Distributions, and arrivals at the log's rate.
    #[default]
    Fitted,
    /// Distributions, and as many flows at a time as in the log.
    ClosedLoop,
    /// The flows themselves.
    Flows,
}

/// Hosts of a fabric: `weft run` allows more, but no edge switch has so many ports.
const MAX_HOSTS_PER_EDGE: u64 = 1_024;

/// A host of the fabric for each host of the log.
struct Fabric {
    edges: usize,
    hosts_per_edge: usize,
    of_host: Vec<u32>,
    /// By group.
    edge_of: Vec<usize>,
}

impl Fabric {
    fn of(hosts: &Hosts) -> Result<Self> {
        // Hosts outside share the hosts of one edge switch.
        let inside = hosts.groups.iter().filter(|group| !group.is_outside).map(|group| group.hosts);
        let largest = inside.max().unwrap_or(1).max(1);
        if largest > MAX_HOSTS_PER_EDGE {
            let message = format!("a group has {largest} hosts: no edge switch has as many ports");
            return Err(Error::usage(message, "place hosts in racks with --hosts MAP"));
        }
        let edges = hosts.groups.len().max(2);
        let mut order: Vec<usize> = (0..hosts.names.len()).collect();
        // By name, which a key makes a hash: numbers then reveal nothing about addresses.
        order.sort_by_key(|&host| hosts.shown(host));
        let mut groups: Vec<usize> = (0..hosts.groups.len()).collect();
        groups.sort_by_key(|&group| hosts.shown_group(group));
        let mut edge_of = vec![0; hosts.groups.len()];
        groups.iter().enumerate().for_each(|(edge, &group)| edge_of[group] = edge);
        let mut next = vec![0u64; hosts.groups.len()];
        let mut of_host = vec![0; hosts.names.len()];
        for host in order {
            let group = hosts.group_of[host] as usize;
            of_host[host] = (edge_of[group] as u64 * largest + next[group] % largest) as u32;
            next[group] += 1;
        }
        Ok(Self { edges, hosts_per_edge: largest as usize, of_host, edge_of })
    }
}

/// What is written.
pub struct Job<'a> {
    /// The scenario.
    pub path: &'a Path,
    /// Its form.
    pub form: Form,
    /// The log.
    pub files: &'a [PathBuf],
    /// How it is read.
    pub options: Options,
}

/// Writes the scenario and the file beside it; gives their names.
///
/// # Errors
/// A file cannot be written, or the log does not fit a fabric.
pub fn write(job: &Job<'_>, report: &TrafficReport, hosts: &mut Hosts) -> Result<Vec<PathBuf>> {
    let fabric = Fabric::of(hosts)?;
    let stem = job.path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let name = |ending: &str| format!("{stem}.{ending}");
    let beside = |ending: &str| job.path.with_file_name(name(ending));
    let mut paths = vec![job.path.to_owned()];
    let traffic = if job.form == Form::Flows {
        paths.push(beside("flows.csv"));
        let written = flows(job, &paths[1], &fabric, hosts, report.totals.start_s)?;
        format!("# {written} flows; their times begin at 0.\n[traffic]\nfile = {}\n", quoted(&name("flows.csv")))
    } else {
        let mut write = |ending: &str, text: String| {
            paths.push(beside(ending));
            std::fs::write(beside(ending), text).map_err(|e| Error::io("write", &beside(ending), e))
        };
        write("cdf.txt", sizes(report))?;
        write("matrix.csv", matrix(report, &fabric))?;
        let arrivals = if job.form == Form::ClosedLoop {
            write("concurrency.txt", concurrency(report)?)?;
            closed_loop(&name("concurrency.txt"))
        } else {
            poisson(report, &fabric)
        };
        fitted(&name("matrix.csv"), &arrivals, &name("cdf.txt"))
    };
    let text = scenario(report, &fabric, &traffic);
    std::fs::write(job.path, text).map_err(|e| Error::io("write", job.path, e))?;
    Ok(paths)
}

fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}

fn scenario(report: &TrafficReport, fabric: &Fabric, traffic: &str) -> String {
    let t = &report.totals;
    let title = format!("Traffic of a log: {} flows of {} hosts", t.flows, t.hosts);
    // With flows as fast as a NIC, the NIC was the limit: the next rate that is sold.
    let fastest = report.rates_bps.as_ref().map_or(10e9, |rates| rates.p999);
    let rate = [1u64, 10, 25, 40, 100, 200, 400].into_iter().find(|&g| g as f64 * 1e9 >= fastest).unwrap_or(800);
    let duration = t.duration_s.max(0.001) * 1.5;
    format!(
        "# Written by `weft analyze traffic --emit`. The fabric is a placeholder in which only NICs limit: put in the one to study.\n\
title = {}\n\n\
[fabric]                       # an edge switch for each group of the log\n\
kind = \"fat-tree\"\n\
levels = 2\n\
edges = {}\n\
cores = {}\n\
hosts_per_edge = {}\n\
link = \"{rate}Gbps\"\n\n\
{traffic}\n\
[control]\n\
routing = \"ecmp\"\n\n\
[world]\n\
kind = \"flow\"\n\
duration = \"{duration:.6}s\"\n",
        quoted(&title),
        fabric.edges,
        fabric.hosts_per_edge.max(2),
        fabric.hosts_per_edge,
    )
}

/// `[traffic]` by distributions.
fn fitted(matrix: &str, arrivals: &str, sizes: &str) -> String {
    format!(
        "# Fitted: sizes and the mean traffic matrix are the log's, independent of each other and of time. `--emit-as flows` keeps bursts.\n\
[traffic]\n\
pattern = \"matrix\"\n\
matrices = {}\n\
{arrivals}\
size = {}\n\
cdf_units = \"fraction\"\n",
        quoted(&format!("./{matrix}")),
        quoted(&format!("./{sizes}")),
    )
}

fn poisson(report: &TrafficReport, fabric: &Fabric) -> String {
    let t = &report.totals;
    let (hosts, duration) = ((fabric.edges * fabric.hosts_per_edge) as f64, t.duration_s.max(0.001));
    let (rate, all) = (ratio(t.flows as f64, duration * hosts), ratio(t.flows as f64, duration));
    let rate = format!("rate = {rate:.9}             # flows per second and host, on average: {all:.3} of all");
    format!("arrivals = \"poisson\"\n{rate}\nuntil = \"{duration:.6}s\"\n")
}

fn closed_loop(concurrency: &str) -> String {
    format!("arrivals = \"closed-loop\"\nconcurrency = {}    # each host draws once\n", quoted(&format!("./{concurrency}")))
}

/// The distribution of the sizes, as the scenario's reader takes it.
fn sizes(report: &TrafficReport) -> String {
    let sizes = &report.full.sizes;
    let mut out = "# size in bytes, cumulative fraction of the flows\n".to_owned();
    let all = sizes.count() as f64;
    let mut below = 0;
    for bin in sizes.bins() {
        if below == 0 {
            let _ = writeln!(out, "{} 0", bin.from);
        }
        below += bin.count;
        let cumulative = if below == sizes.count() { 1.0 } else { below as f64 / all };
        let _ = writeln!(out, "{} {cumulative}", bin.to);
    }
    out
}

/// The distribution of the flows that a host sends at a time: half of those at a host that has any, at least one.
fn concurrency(report: &TrafficReport) -> Result<String> {
    let mut counts: BTreeMap<u64, u64> = BTreeMap::new();
    for bin in report.full.concurrency.bins().filter(|bin| bin.to > 0) {
        *counts.entry(bin.from.midpoint(bin.to).div_ceil(2)).or_default() += bin.count;
    }
    let all: u64 = counts.values().sum();
    if all == 0 {
        let message = "the log does not say when flows end, so not how many there are at a time";
        return Err(Error::usage(message, "use --emit-as fitted"));
    }
    let mut out =
        "# flows that a host sends at a time, rounded to the nearest whole number; cumulative fraction of hosts\n".to_owned();
    let (mut below, mut last) = (0, f64::NEG_INFINITY);
    for (flows, count) in counts {
        let fraction = |below: u64| below as f64 / all as f64;
        for (value, cumulative) in [(flows as f64 - 0.5, fraction(below)), (flows as f64 + 0.5, fraction(below + count))] {
            if value > last {
                let _ = writeln!(out, "{value} {cumulative}");
                last = value;
            }
        }
        below += count;
    }
    Ok(out)
}

/// The mean rate of each pair of racks.
fn matrix(report: &TrafficReport, fabric: &Fabric) -> String {
    let mut out = "t,src,dst,bps\n".to_owned();
    let mut cells: Vec<_> = report
        .full
        .series
        .total()
        .into_iter()
        .map(|((from, to), bytes)| ((fabric.edge_of[from as usize], fabric.edge_of[to as usize]), bytes))
        .collect();
    cells.sort_unstable_by_key(|cell| cell.0);
    for ((from, to), bytes) in cells {
        let _ = writeln!(out, "0,{from},{to},{}", bytes * 8.0 / report.totals.duration_s.max(0.001));
    }
    out
}
/// Writes the flows.
fn flows(job: &Job<'_>, path: &Path, fabric: &Fabric, hosts: &mut Hosts, start_s: f64) -> Result<u64> {
    let failed = |e| Error::io("write", path, e);
    let mut out = BufWriter::new(File::create(path).map_err(failed)?);
    out.write_all(b"src,dst,start,size\n").map_err(failed)?;
    let mut writer = Writer {
        out,
        fabric,
        hosts,
        duplicates: Duplicates::default(),
        tally: Tally::default(),
        zero: (start_s * 1e9).round() as i64,
        written: 0,
        failed: None,
    };
    for file in job.files {
        read_file(file, &job.options, &mut writer)?;
    }
    if let Some(cause) = writer.failed {
        return Err(failed(cause));
    }
    writer.out.flush().map_err(failed)?;
    Ok(writer.written)
}

struct Writer<'a> {
    out: BufWriter<File>,
    fabric: &'a Fabric,
    hosts: &'a mut Hosts,
    duplicates: Duplicates,
    tally: Tally,
    zero: i64,
    written: u64,
    failed: Option<std::io::Error>,
}

impl Sink for Writer<'_> {
    fn flow(&mut self, flow: FlowRecord, _: Place<'_>) -> Result<(), Problem> {
        // What the study left out is left out here too.
        let is_used = flow.end.unwrap_or(flow.start) >= flow.start && flow.src != flow.dst && flow.bytes > 0;
        if !is_used || self.duplicates.is_duplicate(&flow) {
            return Ok(());
        }
        let of = |host: u32| self.fabric.of_host.get(host as usize).copied().unwrap_or(0);
        let (src, dst) = (of(self.hosts.locate(&flow.src).host), of(self.hosts.locate(&flow.dst).host));
        if src == dst {
            return Ok(());
        }
        let start = (flow.start - self.zero).max(0);
        let bytes = flow.bytes.saturating_mul(u64::from(flow.sampling));
        let (seconds, ns) = (start / 1_000_000_000, start % 1_000_000_000);
        match writeln!(self.out, "{src},{dst},{seconds}.{ns:09},{bytes}") {
            Ok(()) => self.written += 1,
            Err(cause) => self.failed = Some(cause),
        }
        Ok(())
    }

    fn tally(&mut self) -> &mut Tally {
        &mut self.tally
    }
}
