//! Takes flow after flow and keeps what the report needs of them.

use std::path::Path;

use super::anonymize::Anonymizer;
use super::burst::{Decimated, Gaps};
use super::concurrency::Concurrency;
use super::duplicates::Duplicates;
use super::formats::{self, FlowRecord, Options, Place, Problem, Sink};
use super::hosts::{HostMap, Hosts};
use super::matrix::{Limit, MAX_CELLS, MAX_INTERVALS, Matrices};
use super::report::{ReadFile, TrafficReport};
use super::sketch::LogHistogram;
use super::tally::Tally;
use crate::error::{Error, Result};

/// How a log is studied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Length of an interval of the traffic matrices.
    pub interval_ns: i64,
    /// End of a flow in a packet capture.
    pub idle_ns: i64,
    /// One packet in so many was recorded, where the log does not state it.
    pub sampling: Option<u32>,
    /// Count what cannot be read, and go on.
    pub keep_going: bool,
}

impl Default for Settings {
    /// Intervals of 100 s, as in VL2 section 3.3.
    fn default() -> Self {
        Self { interval_ns: 100_000_000_000, idle_ns: 60_000_000_000, sampling: None, keep_going: false }
    }
}

/// Hosts that are distinguished: about 200 MB.
const MAX_HOSTS: usize = 2_000_000;

/// Nanoseconds from zero that a time may be away: the sum of two fits into 64 bits.
const MAX_TIME: i64 = 4_000_000_000_000_000_000;

/// Bytes that a host sent and received.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct HostBytes {
    /// Sent.
    pub out: f64,
    /// Received.
    pub into: f64,
}

/// A study under way.
#[derive(Debug)]
pub struct Study {
    pub(super) settings: Settings,
    pub(super) hosts: Hosts,
    pub(super) files: Vec<ReadFile>,
    pub(super) tally: Tally,
    duplicates: Duplicates,
    pub(super) sizes: LogHistogram,
    pub(super) durations: LogHistogram,
    pub(super) rates: LogHistogram,
    pub(super) starts: Decimated,
    pub(super) bytes_over_time: Decimated,
    pub(super) gaps: Gaps,
    pub(super) concurrency: Concurrency,
    pub(super) matrices: Matrices,
    pub(super) of_host: Vec<HostBytes>,
    pub(super) totals: Totals,
    last_start: Option<i64>,
}

/// Sums over all flows.
#[derive(Clone, Copy, Debug, Default)]
pub struct Totals {
    /// Flows that are used.
    pub flows: u64,
    /// Their packets, as far as known; sampling undone.
    pub packets: u64,
    /// Flows with an end.
    pub with_end: u64,
    /// Flows whose bytes were sampled.
    pub sampled: u64,
    /// Earliest start, latest end.
    pub span: Option<(i64, i64)>,
    /// Starts before that of the record before, and the largest such step.
    pub back: (u64, i64),
    /// Bytes inside a rack, inside a pod but not a rack, between pods, to or from outside.
    pub locality: [f64; 4],
    /// Flows of the same kinds.
    pub locality_flows: [u64; 4],
    /// Sampling rates seen: smallest and largest.
    pub sampling: Option<(u32, u32)>,
}

impl Study {
    /// Nothing studied yet.
    pub fn new(settings: Settings, map: Option<HostMap>, key: Option<Anonymizer>) -> Self {
        let interval = settings.interval_ns;
        Self {
            hosts: Hosts::new(map, key),
            files: Vec::new(),
            tally: Tally::default(),
            duplicates: Duplicates::default(),
            sizes: LogHistogram::default(),
            durations: LogHistogram::default(),
            rates: LogHistogram::default(),
            starts: Decimated::new(1_000_000),
            bytes_over_time: Decimated::new(1_000_000),
            gaps: Gaps::default(),
            concurrency: Concurrency::new(interval / 1_000),
            matrices: Matrices::new(interval),
            of_host: Vec::new(),
            totals: Totals::default(),
            last_start: None,
            settings,
        }
    }

    /// Adds all flows of a file.
    ///
    /// # Errors
    /// The file cannot be read, or does not follow its format.
    pub fn read(&mut self, path: &Path) -> Result<()> {
        let options = self.options();
        let before = self.totals.flows;
        self.last_start = None;
        let format = formats::read_file(path, &options, self)?;
        let (file, format) = (path.display().to_string(), format.name().to_owned());
        self.files.push(ReadFile { file, format, flows: self.totals.flows - before });
        Ok(())
    }

    /// How files are read.
    pub fn options(&self) -> Options {
        Options {
            file: String::new(),
            idle_ns: self.settings.idle_ns,
            sampling: self.settings.sampling,
            keep_going: self.settings.keep_going,
            key: self.hosts.key.clone(),
        }
    }

    /// Computes the report.
    ///
    /// # Errors
    /// No flow was left.
    pub fn finish(mut self) -> Result<(TrafficReport, Hosts)> {
        if self.totals.flows == 0 {
            let reasons: Vec<String> =
                self.tally.left_out().iter().map(|it| format!("{}: {} ({})", it.reason, it.count, it.first)).collect();
            let message = if reasons.is_empty() {
                "the files hold no flow".to_owned()
            } else {
                format!("the files hold no flow that can be used: {}", reasons.join("; "))
            };
            return Err(Error::usage(message, "give files with at least one flow between two hosts"));
        }
        self.gaps.finish();
        Ok(TrafficReport::of(self))
    }

    fn note_order(&mut self, start: i64) {
        if let Some(last) = self.last_start.replace(start)
            && start < last
        {
            self.totals.back.0 += 1;
            self.totals.back.1 = self.totals.back.1.max(last - start);
        }
    }

    fn note_locality(&mut self, from: u32, to: u32, bytes: f64) {
        let (a, b) = (&self.hosts.groups[from as usize], &self.hosts.groups[to as usize]);
        let place = if a.is_outside || b.is_outside {
            3
        } else if from == to {
            0
        } else if a.pod.is_some() && a.pod == b.pod {
            1
        } else {
            2
        };
        self.totals.locality[place] += bytes;
        self.totals.locality_flows[place] += 1;
    }
}

impl Sink for Study {
    fn flow(&mut self, flow: FlowRecord, place: Place<'_>) -> Result<(), Problem> {
        let end = flow.end.unwrap_or(flow.start);
        let scaled = flow.bytes.saturating_mul(u64::from(flow.sampling));
        if [flow.start, end].iter().any(|at| !(-MAX_TIME..=MAX_TIME).contains(at)) {
            let help = "times are seconds since 1970 or since the log's own zero: is the unit another one?";
            return Err(Problem::at(place, "its time is more than 126 years from 1970", help));
        }
        if end < flow.start {
            self.tally.leave_out("flows that end before they start", scaled, || place.in_file());
            return Ok(());
        }
        if flow.src == flow.dst {
            self.tally.leave_out("flows from a host to itself", scaled, || place.in_file());
            return Ok(());
        }
        if flow.bytes == 0 {
            self.tally.leave_out("flows without a byte", 0, || place.in_file());
            return Ok(());
        }
        if self.duplicates.is_duplicate(&flow) {
            self.tally.leave_out("duplicates that another exporter reported", scaled, || place.in_file());
            return Ok(());
        }
        self.note_order(flow.start);
        let (src, dst) = (self.hosts.locate(&flow.src), self.hosts.locate(&flow.dst));
        if self.hosts.names.len() > MAX_HOSTS {
            let message = format!("more than {MAX_HOSTS} hosts");
            return Err(Problem::at(place, message, "give a part of the log, or anonymise hosts outside into one"));
        }
        self.of_host.resize(self.hosts.names.len(), HostBytes::default());
        let bytes = scaled as f64;
        self.of_host[src.host as usize].out += bytes;
        self.of_host[dst.host as usize].into += bytes;
        self.note_locality(src.group, dst.group, bytes);
        let added = self.matrices.add((src.group, dst.group), flow.start, end, bytes);
        added.map_err(|limit| over(limit, place, &self.hosts))?;
        self.sizes.add(scaled);
        self.starts.add(flow.start, 1.0);
        self.bytes_over_time.add(flow.start, bytes);
        self.gaps.add(flow.start);
        if flow.end.is_some() {
            let inside = |host: u32| self.hosts.is_inside(host as usize).then_some(host);
            self.concurrency.add([inside(src.host), inside(dst.host)], flow.start, end);
            self.durations.add((end - flow.start) as u64);
            if end > flow.start {
                self.rates.add((bytes * 8e9 / (end - flow.start) as f64) as u64);
            }
            self.totals.with_end += 1;
        }
        self.totals.add(&flow, end);
        Ok(())
    }

    fn tally(&mut self) -> &mut Tally {
        &mut self.tally
    }
}

impl Totals {
    fn add(&mut self, flow: &FlowRecord, end: i64) {
        self.flows += 1;
        self.packets = self.packets.saturating_add(flow.packets.saturating_mul(u64::from(flow.sampling)));
        self.sampled += u64::from(flow.sampling > 1);
        let (first, last) = self.span.unwrap_or((flow.start, end));
        self.span = Some((first.min(flow.start), last.max(end)));
        let (low, high) = self.sampling.unwrap_or((flow.sampling, flow.sampling));
        self.sampling = Some((low.min(flow.sampling), high.max(flow.sampling)));
    }
}

fn over(limit: Limit, place: Place<'_>, hosts: &Hosts) -> Problem {
    match limit {
        Limit::Cells => Problem::at(
            place,
            format!("the traffic matrices of {} groups need more than {MAX_CELLS} cells", hosts.groups.len()),
            "place hosts in racks with --hosts MAP, or choose longer intervals with --interval",
        ),
        Limit::Intervals => Problem::at(
            place,
            format!("this flow is more than {MAX_INTERVALS} intervals away from another one"),
            "is a clock wrong, or are files with times of different kinds mixed? Choose longer intervals with --interval if not",
        ),
    }
}
