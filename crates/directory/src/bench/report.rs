//! Cases as they are printed: JSON, or a table with the papers' figures and the goals beside.

use hdrhistogram::Histogram;
use serde::Serialize;

use crate::table;

/// One measurement. What a case does not know is absent.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(default)]
pub struct Case {
    /// What was measured.
    pub name: String,
    /// Directory servers.
    pub servers: usize,
    /// Mappings that they hold.
    pub mappings: usize,
    /// `embedded` or `etcd`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub store: String,
    /// Keys a datagram, or mappings an update.
    pub keys: usize,
    /// The rate at which requests were due; 0: closed loop.
    pub offered_per_s: f64,
    /// How long it took.
    pub duration_s: f64,
    /// Requests.
    pub sent: u64,
    /// Those with a right answer.
    pub answered: u64,
    /// Those without one.
    pub lost: u64,
    /// Wrong answers.
    pub wrong: u64,
    /// Right answers a second.
    pub rate_per_s: f64,
    /// The same times `keys`.
    pub keys_per_s: f64,
    /// Percentiles of latency in microseconds.
    pub p50_us: f64,
    #[allow(missing_docs)]
    pub p70_us: f64,
    #[allow(missing_docs)]
    pub p99_us: f64,
    #[allow(missing_docs)]
    pub p999_us: f64,
    #[allow(missing_docs)]
    pub max_us: f64,
    /// Open loop of lookups: the 99th percentile of how late the generator sent, in microseconds. Latencies contain it: they count from when a request was due.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub late_p99_us: Option<f64>,
    /// CPU time of the server, all threads, for each answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_cpu_us_per_request: Option<f64>,
    /// Memory of the server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_rss_bytes: Option<u64>,
    /// The longest time without an acknowledgement, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub longest_gap_s: Option<f64>,
    /// What the paper has.
    pub paper: &'static str,
    /// What Weft is to reach.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub goal: Option<Goal>,
    /// Whether it does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub met: Option<bool>,
}

/// A goal: a least rate, and greatest values of the rest.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Goal {
    /// Keys, or mappings, a second at least.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keys_per_s: Option<f64>,
    /// At most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p99_us: Option<f64>,
    /// At most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_rss_bytes: Option<u64>,
    /// At most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub longest_gap_s: Option<f64>,
    /// At most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lost: Option<u64>,
}

impl Case {
    /// Takes the percentiles of a histogram in ns.
    pub fn latencies(&mut self, ns: &Histogram<u64>) {
        let us = |quantile: f64| ns.value_at_quantile(quantile) as f64 / 1000.0;
        (self.p50_us, self.p70_us, self.p99_us, self.p999_us) = (us(0.5), us(0.7), us(0.99), us(0.999));
        self.max_us = ns.max() as f64 / 1000.0;
    }

    /// Takes the paper's figures and the goal, and says whether it is met.
    pub fn beside(mut self, paper: &'static str, goal: Option<Goal>) -> Self {
        self.paper = paper;
        self.goal = goal;
        self.met = goal.map(|goal| {
            goal.keys_per_s.is_none_or(|least| self.keys_per_s >= least)
                && goal.p99_us.is_none_or(|most| self.p99_us <= most)
                && goal.server_rss_bytes.is_none_or(|most| self.server_rss_bytes.is_some_and(|it| it <= most))
                && goal.longest_gap_s.is_none_or(|most| self.longest_gap_s.is_some_and(|it| it <= most))
                && goal.lost.is_none_or(|most| self.lost <= most)
                && self.wrong == 0
        });
        self
    }
}

impl Goal {
    fn text(&self) -> String {
        let mut parts = Vec::new();
        parts.extend(self.keys_per_s.map(|least| format!("{}/s", count(least))));
        parts.extend(self.p99_us.map(|most| format!("p99 < {}", time(most))));
        parts.extend(self.server_rss_bytes.map(|most| format!("< {} MB", most / 1_000_000)));
        parts.extend(self.longest_gap_s.map(|most| format!("gap < {most} s")));
        parts.extend(self.lost.map(|_| "none fails".to_owned()));
        parts.join(", ")
    }
}

/// The cases as a table.
pub fn table(cases: &[Case]) -> String {
    let mut table = table::new(&[
        "case",
        "rate",
        "p50",
        "p99",
        "p99.9",
        "sent late",
        "lost",
        "wrong",
        "CPU",
        "memory",
        "gap",
        "the paper",
        "goal",
        "",
    ]);
    for case in cases {
        let dash = || "-".to_owned();
        table.add_row([
            case.name.clone(),
            if case.keys_per_s == 0.0 { dash() } else { format!("{}/s", count(case.keys_per_s)) },
            time(case.p50_us),
            time(case.p99_us),
            time(case.p999_us),
            case.late_p99_us.map_or_else(dash, time),
            case.lost.to_string(),
            case.wrong.to_string(),
            case.server_cpu_us_per_request.map_or_else(dash, |us| format!("{us:.2} us")),
            case.server_rss_bytes.map_or_else(dash, |bytes| format!("{} MB", bytes / 1_000_000)),
            case.longest_gap_s.map_or_else(dash, |gap| format!("{gap:.2} s")),
            case.paper.to_owned(),
            case.goal.map_or_else(dash, |goal| goal.text()),
            case.met.map_or("", |met| if met { "met" } else { "MISSED" }).to_owned(),
        ]);
    }
    table.to_string()
}

fn count(number: f64) -> String {
    match number {
        n if n >= 1e6 => format!("{:.2} M", n / 1e6),
        n if n >= 1e4 => format!("{:.0} K", n / 1e3),
        n if n >= 1e3 => format!("{:.1} K", n / 1e3),
        n => format!("{n:.0}"),
    }
}

fn time(us: f64) -> String {
    match us {
        us if us >= 1e6 => format!("{:.2} s", us / 1e6),
        us if us >= 1e3 => format!("{:.1} ms", us / 1e3),
        us => format!("{us:.0} us"),
    }
}
