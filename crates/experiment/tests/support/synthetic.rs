//! Outcomes to draw reports from: a small fluid model of its own, so that the report is tried without any world.
//!
//! Rates are max-min fair and recomputed at most every `step`; it is slow and plain on purpose.

#![allow(dead_code)] // each of its users takes a part

#[path = "sets.rs"]
pub mod sets;

use std::sync::Arc;

use serde_json::{Map, Value};
use weft_experiment::report::{Expectation, RunInput, RunReport, collect};
use weft_experiment::scenario::expect::Kind;
use weft_fabric::record::{FlowRecord, LinkRecord, LinkSample, Outcome, Sample};
use weft_fabric::rng::{mix, reduce};
use weft_fabric::routing::{FlowKey, Path, RootLabel, RootPaths, Router, Routing};
use weft_fabric::topology::shapes::{Cabling, fat_tree, ideal_of};
use weft_fabric::{BitsPerSec, Bytes, Duration, Fabric, FlowId, HostId, Instant, LinkId};

/// One flow: source, destination, start in seconds, bytes.
#[derive(Clone, Copy)]
pub struct Flow {
    src: HostId,
    dst: HostId,
    start: f64,
    bytes: f64,
}

/// How a synthetic scheduler places flows.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Placement {
    /// As switches hash them.
    Hashed,
    /// The first label whose links have room for one more of `limit` flows; hashed if there is none.
    FirstFit,
    /// The label whose fullest link has the fewest flows.
    LeastLoaded,
}

/// The fat-tree of `k` ports with 1 Gbps links.
pub fn gigabit_fat_tree(k: u32) -> Arc<Fabric> {
    Arc::new(fat_tree(k, Cabling { rate: BitsPerSec(1_000_000_000), delay: Duration::from_us(1) }).expect("k is even"))
}

/// `per_host` flows of heavy-tailed sizes a host, to other hosts, with starts spread over `spread_s`.
pub fn flows(fabric: &Fabric, per_host: u32, spread_s: f64, mean_bytes: f64, seed: u64) -> Vec<Flow> {
    let hosts = fabric.host_count();
    let mut flows = Vec::new();
    for src in fabric.hosts() {
        for i in 0..per_host {
            let draw = |what: u64| mix(mix(seed ^ what << 56) ^ u64::from(src.0) << 20 ^ u64::from(i));
            let dst = HostId::from((src.index() + 1 + reduce(draw(1), hosts - 1)) % hosts);
            let unit = |what: u64| (draw(what) >> 11) as f64 / (1u64 << 53) as f64;
            let bytes = mean_bytes * 0.3 / (1.0 - 0.999 * unit(3)).sqrt();
            flows.push(Flow { src, dst, start: unit(2) * spread_s, bytes });
        }
    }
    flows.sort_by(|a, b| a.start.total_cmp(&b.start));
    flows
}

/// Every host sends one flow to the host `stride` further.
pub fn stride(fabric: &Fabric, stride: usize, bytes: f64, seed: u64) -> Vec<Flow> {
    let hosts = fabric.host_count();
    let size = |src: HostId| bytes * (0.7 + 0.6 * (mix(seed ^ u64::from(src.0)) >> 11) as f64 / (1u64 << 53) as f64);
    let to = |src: HostId| HostId::from((src.index() + stride) % hosts);
    fabric.hosts().map(|src| Flow { src, dst: to(src), start: 0.0, bytes: size(src) }).collect()
}

/// Carries the flows; rates change at most every `step` seconds.
pub fn carry(fabric: &Arc<Fabric>, flows: &[Flow], placement: Placement, step: f64, seed: u64) -> Outcome {
    let mut model = Fluid::new(fabric, flows, place(fabric, flows, placement, seed));
    while model.advance(step) {}
    model.finish()
}

/// The run as a report, with the metrics that the engine would give.
pub fn report(
    name: &str,
    set: &[(&str, Value)],
    fabric: &Arc<Fabric>,
    run: &Outcome,
    ideal: &Outcome,
    expect: &[Expectation],
) -> RunReport {
    let metrics = metrics(run, ideal, fabric.host_count());
    let set: Map<String, Value> = set.iter().map(|(k, v)| ((*k).to_owned(), v.clone())).collect();
    let optimum_bps = Some(goodput(ideal));
    let (ideal, outcome) = (Some(ideal), run);
    collect(RunInput {
        name: name.to_owned(),
        set,
        seed: 1,
        other_seeds: Vec::new(),
        metrics: &metrics,
        expect,
        fabric,
        outcome,
        ideal,
        optimum_bps,
        distrust: Vec::new(),
        overrides: Vec::new(),
        events: Vec::new(),
    })
}

/// The same flows on a non-blocking switch.
pub fn ideal(fabric: &Fabric, flows: &[Flow], step: f64) -> Outcome {
    carry(&Arc::new(ideal_of(fabric)), flows, Placement::Hashed, step, 0)
}

/// An expectation whose verdict follows from its tolerance.
pub fn expectation(source: &str, metric: &str, paper: f64, measured: f64, tolerance: f64, known: Option<&str>) -> Expectation {
    Expectation {
        source: source.to_owned(),
        metric: metric.to_owned(),
        kind: Kind::Published,
        paper: Some(paper),
        at_least: None,
        at_most: None,
        measured: Some(measured),
        ci95: None,
        within: format!("{}%", tolerance * 100.0),
        ok: (measured / paper - 1.0).abs() <= tolerance,
        known: known.map(str::to_owned),
    }
}

/// Mean goodput of a whole run in bits per second.
pub fn goodput(run: &Outcome) -> f64 {
    run.samples.last().map_or(0.0, |s| s.delivered * 8.0 / s.at.as_secs_f64())
}

fn metrics(run: &Outcome, ideal: &Outcome, hosts: usize) -> Vec<(String, f64)> {
    let mut fct: Vec<f64> = run.flows.iter().filter_map(|f| Some((f.end? - f.start).as_secs_f64())).collect();
    fct.sort_by(f64::total_cmp);
    let rates: Vec<f64> = run.flows.iter().filter_map(|f| Some(f.bytes.0 as f64 / (f.end? - f.start).as_secs_f64())).collect();
    let sum: f64 = rates.iter().sum();
    let squares: f64 = rates.iter().map(|r| r * r).sum();
    let nic: f64 = run.samples.windows(2).map(|w| w[0].nic_bound_bps * (w[1].at - w[0].at).as_secs_f64()).sum();
    let seconds = run.ended.as_secs_f64();
    let named = |name: &str, value: f64| (name.to_owned(), value);
    vec![
        named("goodput_bps", goodput(run)),
        named("goodput_fraction", goodput(run) / (nic / seconds)),
        named("bisection_fraction", goodput(run) / (hosts as f64 * 1e9)),
        named("optimal_fraction", goodput(run) / goodput(ideal)),
        named("completion_s", seconds),
        named("fct_mean_s", fct.iter().sum::<f64>() / fct.len() as f64),
        named("fct_p50_s", fct[fct.len() / 2]),
        named("fct_p99_s", fct[fct.len() * 99 / 100]),
        named("jain_flows", sum * sum / (squares * rates.len() as f64)),
        named("events", run.events as f64),
        named("rss_bytes", 48.0 * 1024.0 * 1024.0),
    ]
}

fn place(fabric: &Arc<Fabric>, flows: &[Flow], placement: Placement, seed: u64) -> Vec<Path> {
    let mut router = Router::new(Arc::clone(fabric), Routing::default(), seed);
    let roots = RootPaths::new(Arc::clone(fabric));
    let mut load = vec![0u32; fabric.links().len()];
    let limit = flows.len().div_ceil(fabric.host_count()) as u32;
    let mut paths = Vec::with_capacity(flows.len());
    for (i, flow) in flows.iter().enumerate() {
        let hashed = router.route(&FlowKey::of_flow(i as u32, flow.src, flow.dst)).expect("a connected fabric");
        let fullest = |path: &Path| path[1..path.len() - 1].iter().map(|l| load[l.index()]).max().unwrap_or(0);
        let labels = (0..roots.label_count()).map(|l| roots.path(flow.src, flow.dst, RootLabel(l as u32)));
        let path = match placement {
            Placement::Hashed => hashed,
            Placement::FirstFit => labels.into_iter().find(|p| fullest(p) < limit).unwrap_or(hashed),
            Placement::LeastLoaded => labels.min_by_key(|p| fullest(p)).unwrap_or(hashed),
        };
        path.iter().for_each(|l| load[l.index()] += 1);
        paths.push(path);
    }
    paths
}

/// The fluid model.
struct Fluid<'a> {
    fabric: &'a Fabric,
    flows: &'a [Flow],
    paths: Vec<Path>,
    left: Vec<f64>,
    ends: Vec<Option<f64>>,
    next: usize,
    active: Vec<usize>,
    now: f64,
    delivered: f64,
    link_bytes: Vec<f64>,
    span_bytes: Vec<f64>,
    outcome: Outcome,
}

impl<'a> Fluid<'a> {
    fn new(fabric: &'a Fabric, flows: &'a [Flow], paths: Vec<Path>) -> Self {
        let links = fabric.links().len();
        Self {
            fabric,
            flows,
            paths,
            left: flows.iter().map(|f| f.bytes).collect(),
            ends: vec![None; flows.len()],
            next: 0,
            active: Vec::new(),
            now: 0.0,
            delivered: 0.0,
            link_bytes: vec![0.0; links],
            span_bytes: vec![0.0; links],
            outcome: Outcome::default(),
        }
    }

    /// One span of constant rates; `false` at the end.
    fn advance(&mut self, step: f64) -> bool {
        while self.flows.get(self.next).is_some_and(|f| f.start <= self.now) {
            self.active.push(self.next);
            self.next += 1;
        }
        let rates = max_min(self.fabric, &self.paths, &self.active);
        self.sample();
        if self.active.is_empty() && self.next == self.flows.len() {
            return false;
        }
        let first_end = std::iter::zip(&self.active, &rates).map(|(&f, r)| self.left[f] / r).fold(f64::INFINITY, f64::min);
        let start = self.flows.get(self.next).map_or(f64::INFINITY, |f| f.start - self.now);
        let mut span = first_end.max(step).min(start.max(step));
        if start.is_infinite() {
            let last_end = std::iter::zip(&self.active, &rates).map(|(&f, r)| self.left[f] / r).fold(0.0, f64::max);
            span = span.min(last_end);
        }
        for (&f, rate) in std::iter::zip(&self.active, &rates) {
            let bytes = (rate * span).min(self.left[f]);
            self.left[f] -= bytes;
            self.delivered += bytes;
            self.paths[f].iter().for_each(|l| self.span_bytes[l.index()] += bytes);
            if self.left[f] <= 1e-6 {
                self.ends[f] = Some(self.now + bytes / rate);
            }
        }
        self.active.retain(|&f| self.ends[f].is_none());
        self.outcome.events += 1;
        self.record_links(span);
        self.now += span;
        true
    }

    fn sample(&mut self) {
        let mut hosts: Vec<HostId> = self.active.iter().map(|&f| self.flows[f].src).collect();
        hosts.sort_unstable();
        hosts.dedup();
        let nic_bound_bps = hosts.iter().map(|&h| self.fabric.nic_capacity(h).as_f64()).sum();
        let active = self.active.len() as u32;
        self.outcome.samples.push(Sample { at: at(self.now), delivered: self.delivered, active, nic_bound_bps });
    }

    fn record_links(&mut self, span: f64) {
        for (i, bytes) in self.span_bytes.iter_mut().enumerate() {
            let capacity = self.fabric.link(LinkId::from(i)).capacity.as_f64();
            if *bytes > 0.0 && self.fabric.cables().len() <= 100 {
                let utilisation = *bytes * 8.0 / (capacity * span);
                self.outcome.link_series.push(LinkSample { at: at(self.now + span), link: LinkId::from(i), utilisation });
            }
            self.link_bytes[i] += std::mem::take(bytes);
        }
    }

    fn finish(mut self) -> Outcome {
        let record = |(i, flow): (usize, &Flow)| FlowRecord {
            id: FlowId::from(i),
            src: flow.src,
            dst: flow.dst,
            start: at(flow.start),
            end: self.ends[i].map(at),
            bytes: Bytes(flow.bytes as u64),
            path: self.paths[i].clone(),
            packets: None,
        };
        self.outcome.flows = self.flows.iter().enumerate().map(record).collect();
        let carried = self.link_bytes.iter().enumerate();
        self.outcome.links =
            carried.map(|(i, b)| LinkRecord { id: LinkId::from(i), bytes: Bytes(*b as u64), drops: 0 }).collect();
        self.outcome.ended = at(self.now);
        self.outcome
    }
}

/// Progressive filling: bytes a second of each active flow.
fn max_min(fabric: &Fabric, paths: &[Path], active: &[usize]) -> Vec<f64> {
    let mut room: Vec<f64> = fabric.links().iter().map(|l| l.capacity.as_f64() / 8.0).collect();
    let mut crossing = vec![0u32; room.len()];
    active.iter().flat_map(|&f| &paths[f]).for_each(|l| crossing[l.index()] += 1);
    let mut rates = vec![0.0; active.len()];
    let mut open: Vec<usize> = (0..active.len()).collect();
    while !open.is_empty() {
        let share = |l: usize, room: &[f64], crossing: &[u32]| room[l] / f64::from(crossing[l]);
        let used = (0..room.len()).filter(|&l| crossing[l] > 0);
        let least = used.map(|l| share(l, &room, &crossing)).fold(f64::INFINITY, f64::min);
        let bound = |i: usize| paths[active[i]].iter().any(|l| share(l.index(), &room, &crossing) <= least * 1.000_001);
        let (fixed, rest): (Vec<usize>, Vec<usize>) = open.into_iter().partition(|&i| bound(i));
        for i in fixed {
            rates[i] = least;
            for l in &paths[active[i]] {
                room[l.index()] = (room[l.index()] - least).max(0.0);
                crossing[l.index()] -= 1;
            }
        }
        open = rest;
    }
    rates
}

fn at(seconds: f64) -> Instant {
    Instant::ZERO + Duration::from_secs_f64(seconds)
}
