//! The aggregates of a run. The names are the same in every world; a metric that a world does not know is absent.
//!
//! Rates are means over the window `[warmup, min(duration, last end) - cooldown]`.

pub mod overlay;
pub mod recovery;
pub mod words;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use weft_fabric::record::{FaultRecord, FlowRecord, Outcome, Sample};
use weft_fabric::{Duration, Fabric, HostId, Instant, LinkId};

/// Every name that a metric can have, in the order in which they are shown.
pub const NAMES: &[&str] = &[
    "goodput_bps",
    "goodput_min_bps",
    "goodput_max_bps",
    "goodput_fraction",
    "bisection_fraction",
    "optimal_fraction",
    "nonblocking_fraction",
    "splittable_fraction",
    "loss_fraction",
    "completion_s",
    "host_completion_mean_s",
    "fct_mean_s",
    "fct_p50_s",
    "fct_p99_s",
    "latency_mean_s",
    "latency_p50_s",
    "latency_p99_s",
    "requests_per_s",
    "rtt_min_s",
    "lookups_per_s",
    "in_time_fraction",
    "answered_fraction",
    "updates_per_s",
    "update_p50_s",
    "update_p99_s",
    "convergence_p70_s",
    "convergence_p99_s",
    "frames_per_s",
    "nic_bps",
    "nic_fraction",
    "directory_bps",
    "table_bytes",
    "table_bytes_per_vm",
    "known_fraction",
    "stale_fraction",
    "unreached_fraction",
    "jain_flows",
    "split_jain_mean",
    "efficiency",
    "drops",
    "retransmits",
    "rehashes",
    "reordered",
    "reordered_fraction",
    "timeout_fraction",
    "floods",
    "reconverge_s",
    "restore_s",
    "outage_s",
    "move_outage_s",
    "gap_s",
    "move_gap_s",
    "header_bytes",
    "switch_entries_max",
    "host_entries_max",
    "lookups",
    "fib_entries_max",
    "fib_evictions",
    "fib_misses",
    "fib_unlearnt",
    "mac_limit",
    "vms",
    "vlans",
    "vlans_bound",
    "isolation_drops",
    "forged",
    "forged_carried",
    "forged_heard",
    "forged_uncounted",
    "flows",
    "flows_finished",
    "flows_refused",
    "flows_broken",
    "rounds",
    "large_flows_mean",
    "moves",
    "detours_mean",
    "control_loop_s",
    "demand_min_fraction",
    "demand_max_fraction",
    "demand_wall_s",
    "place_wall_s",
    "link_utilisation_max",
    "link_utilisation_median",
    "flows_below_100mb_fraction",
    "bytes_100mb_to_1gb_fraction",
    "concurrent_flows_p50",
    "concurrent_above_80_fraction",
    "concurrent_above_100_fraction",
    "fitting_error",
    "run_length_p60",
    "resolved_10min_fraction",
    "resolved_1h_fraction",
    "resolved_1d_fraction",
    "longer_10d_fraction",
    "groups_below_4_fraction",
    "groups_below_20_fraction",
    "group_size_max",
    "place_down_fraction",
    "hidden_fraction",
    "hops",
    "events",
    "wall_s",
    "rss_bytes",
    "cpu_idle_fraction",
    "cpu_per_gbit_s",
];

/// Metrics that differ from one run of the same scenario to the next. Only `summary.json` holds them.
pub const WALL_CLOCK: &[&str] = &["demand_wall_s", "place_wall_s", "wall_s", "rss_bytes", "cpu_idle_fraction", "cpu_per_gbit_s"];

/// Metrics that each of several services has too, as `goodput_bps.NAME`.
pub const OF_SERVICES: &[&str] =
    &["goodput_bps", "completion_s", "fct_mean_s", "fct_p50_s", "fct_p99_s", "jain_flows", "flows", "flows_finished"];

/// Metrics that each kind of what fails in a lab has too, as `outage_s.agent`.
pub const OF_FAULTS: &[&str] = &["outage_s", "gap_s"];

/// Metrics of `weft optimum` that each routing has, as `link_utilisation_max.vlb`.
pub const OF_ROUTINGS: &[&str] = &["link_utilisation_max", "link_utilisation_median"];

/// Metrics of `weft analyze traffic` (VL2, sections 3.2 and 3.3).
pub const OF_TRAFFIC: &[&str] = &[
    "flows_below_100mb_fraction",
    "bytes_100mb_to_1gb_fraction",
    "concurrent_flows_p50",
    "concurrent_above_80_fraction",
    "concurrent_above_100_fraction",
    "fitting_error",
    "run_length_p60",
];

/// Metrics of `weft analyze failures` (VL2, section 3.4).
pub const OF_FAILURES: &[&str] = &[
    "resolved_10min_fraction",
    "resolved_1h_fraction",
    "resolved_1d_fraction",
    "longer_10d_fraction",
    "groups_below_4_fraction",
    "groups_below_20_fraction",
    "group_size_max",
    "place_down_fraction",
    "hidden_fraction",
];

/// Metrics that each number of clusters of traffic matrices has, as `fitting_error.50`.
const OF_CLUSTERS: &[&str] = &["fitting_error"];

/// Metrics that exist for parts alone.
fn has_parts_alone(base: &str) -> bool {
    [OF_ROUTINGS, OF_CLUSTERS].iter().any(|names| names.contains(&base))
}

/// Whether metrics of this name belong to a part of the run.
fn has_parts(base: &str) -> bool {
    [OF_SERVICES, OF_FAULTS].iter().any(|names| names.contains(&base)) || has_parts_alone(base)
}

/// Whether a metric, or that of which it is a part, is one of these.
pub fn is_one_of(name: &str, names: &[&str]) -> bool {
    names.contains(&name.split('.').next().unwrap_or_default())
}

/// Whether the planner measures a metric, and no world does.
pub fn is_of_planner(name: &str) -> bool {
    [OF_ROUTINGS, OF_TRAFFIC, OF_FAILURES].iter().any(|names| is_one_of(name, names))
}

/// Whether a metric can have that name: one of [`NAMES`], or one of a service, a kind of faults, a routing or a number of clusters.
pub fn is_name(name: &str) -> bool {
    match name.split_once('.') {
        None => NAMES.contains(&name) && !has_parts_alone(name),
        Some((base, part)) => has_parts(base) && !part.is_empty(),
    }
}

/// Metrics by name, in the order of [`NAMES`]; those of services after that of all.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Metrics(Vec<(Cow<'static, str>, f64)>);

impl Metrics {
    /// The value of a metric, if the world knows it.
    pub fn get(&self, name: &str) -> Option<f64> {
        self.0.iter().find(|(n, _)| n == name).map(|&(_, v)| v)
    }

    /// Records a metric; what is not a finite number is left out.
    ///
    /// # Panics
    /// If the name is not one of [`NAMES`].
    pub fn put(&mut self, name: &'static str, value: f64) {
        self.insert(Cow::Borrowed(name), value);
    }

    /// Records a metric of one of several services, kinds of faults, routings or numbers of clusters, after those before it.
    ///
    /// # Panics
    /// If metrics of that name have no parts.
    pub fn put_of(&mut self, name: &'static str, part: &str, value: f64) {
        assert!(has_parts(name), "a metric of parts");
        self.insert(Cow::Owned(format!("{name}.{part}")), value);
    }

    /// Records a metric by the name that another record has given it.
    pub(crate) fn put_named(&mut self, name: &str, value: f64) {
        self.insert(Cow::Owned(name.to_owned()), value);
    }

    fn insert(&mut self, name: Cow<'static, str>, value: f64) {
        let base = |n: &str| n.split('.').next().unwrap_or_default().to_owned();
        let order = |n: &str| NAMES.iter().position(|m| *m == base(n)).expect("a metric of NAMES");
        if !value.is_finite() {
            return;
        }
        self.0.retain(|(n, _)| *n != name);
        let at = self.0.partition_point(|(n, _)| order(n) <= order(&name) && (name.contains('.') || order(n) < order(&name)));
        self.0.insert(at, (name, value));
    }

    /// Records a metric if it is known.
    pub fn put_some(&mut self, name: &'static str, value: Option<f64>) {
        if let Some(value) = value {
            self.put(name, value);
        }
    }

    /// Takes over the metrics of another record.
    pub fn extend(&mut self, other: &Self) {
        other.iter().for_each(|(name, value)| self.put_named(name, value));
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All of them, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, f64)> + '_ {
        self.0.iter().map(|(name, value)| (&**name, *value))
    }
}

impl<'de> Deserialize<'de> for Metrics {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut metrics = Self::default();
        for (name, value) in BTreeMap::<String, f64>::deserialize(deserializer)? {
            if !is_name(&name) {
                return Err(D::Error::custom(format!("`{name}` is no metric")));
            }
            metrics.put_named(&name, value);
        }
        Ok(metrics)
    }
}

impl Serialize for Metrics {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter().map(|(name, value)| (name, whole(value))))
    }
}

/// Counts are written as whole numbers.
pub(crate) fn whole(value: f64) -> serde_json::Value {
    if value.fract() == 0.0 && value.abs() < 9e15 { (value as i64).into() } else { value.into() }
}

/// The span over which aggregates are taken.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Window {
    /// First instant.
    pub from: Instant,
    /// Last instant.
    pub to: Instant,
}

impl Window {
    /// What warm-up and cool-down leave of a run; `None` if that is nothing.
    pub fn of(outcome: &Outcome, warmup: Duration, cooldown: Duration) -> Option<Self> {
        let from = Instant::ZERO + warmup;
        let to = Instant::from_ps(outcome.ended.as_ps().saturating_sub(cooldown.as_ps()));
        (to > from).then_some(Self { from, to })
    }

    fn seconds(&self) -> f64 {
        (self.to - self.from).as_secs_f64()
    }
}

/// Mean goodput over a window, in bits per second.
pub fn goodput_bps(samples: &[Sample], window: Window) -> f64 {
    (delivered_at(samples, window.to) - delivered_at(samples, window.from)) * 8.0 / window.seconds()
}

/// Aggregates of a run that need nothing but its records.
pub fn measure(fabric: &Fabric, outcome: &Outcome, window: Option<Window>) -> Metrics {
    let mut metrics = Metrics::default();
    if let Some(window) = window {
        let goodput = goodput_bps(&outcome.samples, window);
        metrics.put("goodput_bps", goodput);
        metrics.put("goodput_fraction", goodput / mean_nic_bound(&outcome.samples, window));
        metrics.put("bisection_fraction", goodput / nic_total(fabric));
    }
    metrics.put("flows", outcome.flows.len() as f64);
    let times = completion_times(outcome.flows.iter());
    metrics.put("flows_finished", times.len() as f64);
    if !times.is_empty() {
        metrics.put("fct_mean_s", times.iter().sum::<f64>() / times.len() as f64);
        metrics.put("fct_p50_s", percentile(&times, 0.50));
        metrics.put("fct_p99_s", percentile(&times, 0.99));
    }
    let refused = outcome.overlay.as_ref().map_or(0, |overlay| overlay.refused.len());
    if times.len() + refused == outcome.flows.len() && !times.is_empty() {
        metrics.put_some("completion_s", outcome.flows.iter().filter_map(|f| f.end).max().map(|e| e.as_secs_f64()));
        metrics.put("host_completion_mean_s", host_completion_mean(fabric, &outcome.flows));
    }
    let started = outcome.flows.iter().filter(|f| !is_refused(outcome, f));
    metrics.put_some("jain_flows", jain(started.map(|f| flow_goodput_bps(f, outcome.ended))));
    metrics.put_some("split_jain_mean", split_jain(fabric, outcome));
    metrics.put("events", outcome.events as f64);
    metrics
}

/// Whether a flow did not start because its hosts may not communicate.
fn is_refused(outcome: &Outcome, flow: &FlowRecord) -> bool {
    outcome.overlay.as_ref().is_some_and(|overlay| overlay.refused.binary_search(&flow.id).is_ok())
}

/// The aggregates of each of several services. Its goodput is over its own time: from its first flow's start to its last flow's end, or the run's.
pub fn measure_services(outcome: &Outcome, names: &[String], metrics: &mut Metrics) {
    for (service, name) in (0..).zip(names) {
        let owned = outcome.flows.iter().zip(&outcome.services).filter(|(_, s)| **s == service);
        let all: Vec<&FlowRecord> = owned.map(|(flow, _)| flow).collect();
        metrics.put_of("flows", name, all.len() as f64);
        let flows: Vec<&FlowRecord> = all.into_iter().filter(|flow| !is_refused(outcome, flow)).collect();
        let times = completion_times(flows.iter().copied());
        metrics.put_of("flows_finished", name, times.len() as f64);
        if !times.is_empty() {
            metrics.put_of("fct_mean_s", name, times.iter().sum::<f64>() / times.len() as f64);
            metrics.put_of("fct_p50_s", name, percentile(&times, 0.50));
            metrics.put_of("fct_p99_s", name, percentile(&times, 0.99));
        }
        let ends = || flows.iter().map(|f| f.end.unwrap_or(outcome.ended));
        let (Some(first), Some(last)) = (flows.iter().map(|f| f.start).min(), ends().max()) else { continue };
        if times.len() == flows.len() {
            metrics.put_of("completion_s", name, last.as_secs_f64());
        }
        let bits = flows.iter().map(|f| f.bytes.0 as f64 * 8.0).sum::<f64>();
        metrics.put_of("goodput_bps", name, bits / last.saturating_since(first).as_secs_f64());
        if let Some(index) = jain(flows.iter().map(|f| flow_goodput_bps(f, outcome.ended))) {
            metrics.put_of("jain_flows", name, index);
        }
    }
}

/// How long each of the flows that finished took, in seconds, ascending.
fn completion_times<'a>(flows: impl Iterator<Item = &'a FlowRecord>) -> Vec<f64> {
    let mut times: Vec<f64> = flows.filter_map(|f| f.end.map(|end| (end - f.start).as_secs_f64())).collect();
    times.sort_by(f64::total_cmp);
    times
}

/// Metrics of worlds with packets. `useful` is the fraction of the NICs' bits that can be payload.
pub fn measure_packets(fabric: &Fabric, outcome: &Outcome, metrics: &mut Metrics, useful: f64) {
    let Some(packets) = &outcome.packets else { return };
    metrics.put("drops", packets.drops as f64);
    metrics.put("hops", packets.hops as f64);
    if let Some(requests) = packets.requests {
        metrics.put("latency_mean_s", requests.mean_s);
        metrics.put("latency_p50_s", requests.p50_s);
        metrics.put("latency_p99_s", requests.p99_s);
        metrics.put("requests_per_s", requests.answered as f64 / requests.seconds);
        return;
    }
    metrics.put("retransmits", packets.retransmits as f64);
    metrics.put_some("rehashes", outcome.overlay.as_ref().map(|overlay| overlay.rehashes as f64));
    if packets.segments > 0 {
        metrics.put("reordered", packets.reordered as f64);
        metrics.put("reordered_fraction", packets.reordered as f64 / packets.segments as f64);
    }
    metrics.put_some("timeout_fraction", timeout_fraction(outcome));
    let mut senders: Vec<HostId> = outcome.flows.iter().map(|f| f.src).collect();
    senders.sort_unstable();
    senders.dedup();
    let nics: f64 = senders.iter().map(|&h| fabric.nic_capacity(h).as_f64()).sum();
    metrics.put_some("efficiency", metrics.get("goodput_bps").map(|goodput| goodput / (nics * useful)));
}

/// The fraction of the flows' time that they waited for a retransmission timeout; `None` if none did. Flows that were refused have no time.
pub fn timeout_fraction(outcome: &Outcome) -> Option<f64> {
    let waited = outcome.packets.as_ref()?.timed_out.as_secs_f64();
    let span = |f: &FlowRecord| f.end.unwrap_or(outcome.ended).saturating_since(f.start).as_secs_f64();
    let all: f64 = outcome.flows.iter().filter(|f| !is_refused(outcome, f)).map(span).sum();
    (waited > 0.0 && all > 0.0).then(|| (waited / all).min(1.0))
}

/// Metrics of labs: outages of flows after what failed, ended or moved, and packets dropped for isolation.
pub fn measure_lab(outcome: &Outcome, metrics: &mut Metrics) {
    let Some(lab) = &outcome.lab else { return };
    metrics.put_some("cpu_idle_fraction", lab.cpu_idle_fraction);
    let gbits = outcome.flows.iter().map(|f| f.bytes.0 as f64).sum::<f64>() * 8e-9;
    // Nothing delivered: an infinite one, which is left out.
    metrics.put("cpu_per_gbit_s", lab.cpu_s / gbits);
    metrics.put("flows_broken", lab.broken as f64);
    metrics.put_some("rtt_min_s", lab.tcp.iter().map(|tcp| tcp.min_rtt_s).filter(|&rtt| rtt > 0.0).reduce(f64::min));
    metrics.put_some("isolation_drops", lab.isolation_drops.map(|drops| drops as f64));
    if let Some(forged) = lab.forged {
        metrics.put("forged", forged.sent as f64);
        metrics.put("forged_carried", forged.carried as f64);
        metrics.put("forged_heard", forged.heard as f64);
        metrics.put("forged_uncounted", forged.uncounted as f64);
    }
    let is_fault = |fault: &FaultRecord| !matches!(fault.verb, "move" | "restore");
    let kinds: BTreeSet<&str> = lab.faults.iter().filter(|fault| is_fault(fault)).map(FaultRecord::kind).collect();
    for (name, of_moves, is_tcp) in [("outage_s", "move_outage_s", true), ("gap_s", "move_gap_s", false)] {
        let longest = |of: &dyn Fn(&FaultRecord) -> bool| {
            let faults = lab.faults.iter().filter(|fault| of(fault));
            faults.filter_map(|fault| if is_tcp { fault.silent } else { fault.gap }).max().map(|time| time.as_secs_f64())
        };
        metrics.put_some(name, longest(&is_fault));
        metrics.put_some(of_moves, longest(&|fault| fault.verb == "move"));
        for &kind in &kinds {
            if let Some(longest) = longest(&|fault| is_fault(fault) && fault.kind() == kind) {
                metrics.put_of(name, kind, longest);
            }
        }
    }
}

/// Delivered bits over the time that a flow had.
pub fn flow_goodput_bps(flow: &FlowRecord, ended: Instant) -> f64 {
    let time = flow.end.unwrap_or(ended).saturating_since(flow.start).as_secs_f64();
    if time > 0.0 { flow.bytes.0 as f64 * 8.0 / time } else { 0.0 }
}

/// What all NICs can send together, in bits per second.
pub fn nic_total(fabric: &Fabric) -> f64 {
    fabric.hosts().map(|h| fabric.nic_capacity(h).as_f64()).sum()
}

/// Jain's fairness index, `(sum x)^2 / (n sum x^2)`; `None` without any traffic.
pub fn jain(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (mut n, mut sum, mut squares) = (0.0, 0.0, 0.0);
    for x in values {
        n += 1.0;
        sum += x;
        squares += x * x;
    }
    (squares > 0.0).then(|| sum * sum / (n * squares))
}

/// The value below which a fraction of the sorted values lies: the nearest rank.
fn percentile(sorted: &[f64], fraction: f64) -> f64 {
    let rank = libm::ceil(fraction * sorted.len() as f64) as usize;
    sorted[rank.clamp(1, sorted.len()) - 1]
}

/// Bytes delivered by an instant, linear between samples.
fn delivered_at(samples: &[Sample], at: Instant) -> f64 {
    let after = samples.partition_point(|s| s.at <= at);
    match (after.checked_sub(1).map(|i| samples[i]), samples.get(after)) {
        (None, _) => 0.0,
        (Some(last), None) => last.delivered,
        (Some(a), Some(b)) => a.delivered + (b.delivered - a.delivered) * ratio(at - a.at, b.at - a.at),
    }
}

/// Time-weighted mean of the NIC bound.
fn mean_nic_bound(samples: &[Sample], window: Window) -> f64 {
    let mut sum = 0.0;
    for (i, sample) in samples.iter().enumerate() {
        let from = sample.at.max(window.from);
        let to = samples.get(i + 1).map_or(window.to, |next| next.at.min(window.to));
        sum += sample.nic_bound_bps * to.saturating_since(from).as_secs_f64();
    }
    sum / window.seconds()
}

fn ratio(part: Duration, whole: Duration) -> f64 {
    if whole == Duration::ZERO { 1.0 } else { part.as_ps() as f64 / whole.as_ps() as f64 }
}

/// Mean over the sending hosts of the end of their last flow (Hedera table 2: host completion).
fn host_completion_mean(fabric: &Fabric, flows: &[FlowRecord]) -> f64 {
    let mut last = vec![None; fabric.host_count()];
    for flow in flows {
        let slot = &mut last[flow.src.index()];
        *slot = (*slot).max(flow.end);
    }
    let ends: Vec<f64> = last.iter().flatten().map(|e: &Instant| e.as_secs_f64()).collect();
    ends.iter().sum::<f64>() / ends.len() as f64
}

/// VL2 figure 10: Jain's index of the bytes on the upward links of each switch below the roots and above the edge; of edge switches where
/// there is no such layer. The mean over such switches and over counters read every 10 s, of those that counted anything; a run, or
/// a rest of one, of less than 10 s is one reading with what came before.
fn split_jain(fabric: &Fabric, outcome: &Outcome) -> Option<f64> {
    let top = fabric.top_tier();
    if top < 2 || outcome.links.is_empty() {
        return None;
    }
    let uplinks: Vec<Vec<LinkId>> = fabric
        .switches_of_tier(top - 1)
        .map(|s| {
            let out = fabric.out(fabric.switch_node(s)).iter().copied();
            out.filter(|&l| fabric.node(fabric.link(l).to).tier == top).collect()
        })
        .collect();
    let mut indices = Vec::new();
    for counters in readings(fabric, outcome) {
        indices.extend(uplinks.iter().filter_map(|up| jain(up.iter().map(|l| counters[l.index()]))));
    }
    (!indices.is_empty()).then(|| indices.iter().sum::<f64>() / indices.len() as f64)
}

/// Bytes of each link in each 10 s; the last reading has the rest of the run too.
fn readings(fabric: &Fabric, outcome: &Outcome) -> Vec<Vec<f64>> {
    let count = ((outcome.ended.as_ps() / READING.as_ps()) as usize).max(1);
    if count == 1 || outcome.link_series.is_empty() {
        return vec![outcome.links.iter().map(|l| l.bytes.0 as f64).collect()];
    }
    let mut readings = vec![vec![0.0; fabric.links().len()]; count];
    let span = recovery::span_of(&outcome.link_series).expect("it has samples");
    for sample in &outcome.link_series {
        // A span belongs to the reading that holds its middle.
        let middle = sample.at.as_ps().saturating_sub(span.as_ps() / 2);
        let reading = ((middle / READING.as_ps()) as usize).min(count - 1);
        readings[reading][sample.link.index()] += sample.utilisation * fabric.link(sample.link).capacity.as_f64();
    }
    readings
}

/// How often VL2 section 5.2 reads counters.
const READING: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;
    use weft_fabric::record::{OverlayRecord, PacketTotals};
    use weft_fabric::routing::Path;
    use weft_fabric::{Bytes, FlowId};

    /// A flow that was refused has not waited, and not run either.
    #[test]
    fn refused_flows_have_no_time_to_wait_in() {
        let second = Instant::ZERO + Duration::from_secs(1);
        let flow = |id: u32, end| FlowRecord {
            id: FlowId(id),
            src: HostId(0),
            dst: HostId(1),
            start: Instant::ZERO,
            end,
            bytes: Bytes(0),
            path: Path::new(),
            packets: None,
        };
        let packets = |timed_out| Some(PacketTotals { timed_out, ..PacketTotals::default() });
        let overlay = Some(OverlayRecord { refused: vec![FlowId(1), FlowId(2)], rehashes: 0 });
        let flows = vec![flow(0, Some(second)), flow(1, None), flow(2, None)];
        let run = |timed_out| Outcome {
            flows: flows.clone(),
            ended: second,
            packets: packets(timed_out),
            overlay: overlay.clone(),
            ..Outcome::default()
        };
        assert_eq!(timeout_fraction(&run(Duration::from_ms(500))), Some(0.5));
        assert_eq!(timeout_fraction(&run(Duration::ZERO)), None);
    }
}
