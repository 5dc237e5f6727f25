//! `--emit scenario.toml`: a scenario whose traffic is that of the log, for `weft run`.
//!
//! ```text
//!   fitted   sizes by their distribution (NAME.cdf.txt), Poisson arrivals at the log's rate, racks chosen as near as in the log
//!   flows    the flows themselves (NAME.flows.csv), from a second reading of the log
//! ```
//! The fabric is the smallest that fits: an edge switch for each group, as many hosts on each as the largest group has, and as many core switches.

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
    /// Distributions.
    #[default]
    Fitted,
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
        Ok(Self { edges, hosts_per_edge: largest as usize, of_host })
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
    let beside = |ending: &str| job.path.with_file_name(format!("{stem}.{ending}"));
    let (path, traffic) = match job.form {
        Form::Fitted => {
            let path = beside("cdf.txt");
            std::fs::write(&path, sizes(report)).map_err(|e| Error::io("write", &path, e))?;
            let traffic = fitted(report, &fabric, &path);
            (path, traffic)
        }
        Form::Flows => {
            let path = beside("flows.csv");
            let written = flows(job, &path, &fabric, hosts, report.totals.start_s)?;
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            (path, format!("# {written} flows; their times begin at 0.\n[traffic]\nfile = {}\n", quoted(&name)))
        }
    };
    let text = scenario(report, &fabric, &traffic);
    std::fs::write(job.path, text).map_err(|e| Error::io("write", job.path, e))?;
    Ok(vec![job.path.to_owned(), path])
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
fn fitted(report: &TrafficReport, fabric: &Fabric, sizes: &Path) -> String {
    let t = &report.totals;
    let hosts = (fabric.edges * fabric.hosts_per_edge) as f64;
    let duration = t.duration_s.max(0.001);
    let l = &report.locality;
    let name = sizes.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let pattern = if fabric.hosts_per_edge > 1 {
        format!("pattern = \"staggered\"\nedge_p = {:.4}          # flows within a group\npod_p = 0.0", l.flows_same_rack)
    } else {
        "pattern = \"random\"".to_owned()
    };
    format!(
        "# Fitted: sizes and the rate of arrivals are the log's; arrivals are a Poisson process, destinations beyond the group are equally likely.\n\
# `--emit-as flows` keeps bursts and the traffic matrix.\n\
[traffic]\n\
{pattern}\n\
arrivals = \"poisson\"\n\
rate = {:.9}             # flows per second and host: {:.3} of all\n\
until = \"{duration:.6}s\"\n\
size = {}\n\
cdf_units = \"fraction\"\n",
        ratio(t.flows as f64, duration * hosts),
        ratio(t.flows as f64, duration),
        quoted(&format!("./{name}")),
    )
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
