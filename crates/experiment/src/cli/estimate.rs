//! How long a study will take, roughly, before it starts: from hosts, flows, duration and the cost of a step of each world.
//!
//! The costs are those of `docs/performance.md` on one core. Estimates are within a factor of two or three on such a machine; once a
//! run is under way, [`super::progress`] corrects them by its progress.

use std::collections::BTreeMap;

use weft_fabric::traffic::Size;

use crate::error::Result;
use crate::scenario::Run;
use crate::scenario::control::Scheduler;
use crate::scenario::source::{Form, Source};
use crate::scenario::world::{Kind, Rates};
use crate::study::Study;
use crate::world::Prepared;

/// What the runs of a study take, estimated while they are checked: nothing is built for it.
#[derive(Debug, Default)]
pub struct Estimate {
    /// Seconds of each run, in the order of the study; `None` if its workload has no estimate.
    runs: Vec<Option<f64>>,
    /// Hosts of the first run.
    hosts: usize,
    /// Runs with equal fabric and traffic share their load.
    loads: BTreeMap<String, Load>,
}

/// What a run has to move, and over what.
#[derive(Clone, Copy, Debug)]
struct Load {
    hosts: usize,
    nodes: usize,
    /// Capacity of all NICs.
    nics_bps: f64,
    /// Tiers of switches.
    tiers: u8,
    /// Flows and their bytes; `None` if the workload is something else.
    flows: Option<(usize, f64)>,
}

/// Reads a scenario, and estimates what its runs take.
///
/// # Errors
/// The first thing that is wrong with it, with its line.
pub fn read(source: Source) -> Result<(Study, Estimate)> {
    let mut estimate = Estimate::default();
    let study = Study::new(source, &mut |run, prepared| estimate.add(run, prepared))?;
    Ok((study, estimate))
}

impl Estimate {
    /// Adds the next run of a study.
    pub fn add(&mut self, run: &Run, prepared: &Prepared) {
        let table = &run.variant.table;
        let key = format!("{:?} {:?} {}", table.get("fabric"), table.get("traffic"), run.scenario.world.seed);
        let load = *self.loads.entry(key).or_insert_with(|| Load::of(prepared));
        if self.runs.is_empty() {
            self.hosts = load.hosts;
        }
        let seeds = 1.0 + run.scenario.world.other_seeds.len() as f64;
        self.runs.push(load.seconds(run).map(|seconds| seconds * seeds));
    }

    /// Seconds that all runs of the study take on that many threads; `None` if a run's workload has no estimate.
    pub fn seconds(&self, study: &Study, threads: usize) -> Option<f64> {
        if let Some(stated) = study.source.takes.as_deref().and_then(stated_seconds) {
            return Some(stated);
        }
        let (mut simulated, mut longest, mut labs) = (0.0, 0.0f64, 0.0);
        for (i, (run, one)) in study.runs.iter().zip(&self.runs).enumerate() {
            let one = (*one)? * if study.searches.contains_key(&i) { TRIALS } else { 1.0 };
            if run.scenario.world.kind == Kind::Lab {
                labs += one;
            } else {
                simulated += one;
                longest = longest.max(one);
            }
        }
        Some(f64::max(simulated / threads as f64, longest) + labs)
    }
}

/// Flows that an estimate looks at.
const MAX_FLOWS: usize = 1_000_000;

impl Load {
    fn of(prepared: &Prepared) -> Self {
        let fabric = &prepared.fabric;
        let flows = prepared.flows().map(|flows| {
            let mut workload = flows.begin();
            let sizes = std::iter::from_fn(|| workload.next_flow()).take(MAX_FLOWS).map(|flow| match flow.size {
                Size::Finite(bytes) => bytes.0 as f64,
                Size::Infinite => f64::INFINITY,
            });
            sizes.fold((0, 0.0), |(count, bytes), size| (count + 1, bytes + size))
        });
        Self {
            hosts: fabric.host_count(),
            nodes: fabric.nodes().len(),
            nics_bps: fabric.hosts().map(|h| fabric.nic_capacity(h).as_f64()).sum(),
            tiers: fabric.top_tier(),
            flows,
        }
    }

    /// Seconds that a run takes with this load.
    fn seconds(&self, run: &Run) -> Option<f64> {
        let scenario = &run.scenario;
        let duration_s = scenario.world.duration.map(|d| d.as_secs_f64());
        if scenario.world.kind == Kind::Lab {
            return duration_s.map(|d| d + LAB_NODE_S * self.nodes as f64);
        }
        if scenario.traffic.is_requests() {
            return None;
        }
        let (count, offered) = self.flows?;
        let (hosts, count) = (self.hosts as f64, count as f64);
        match (scenario.world.kind, scenario.world.rates) {
            (Kind::Packet, _) => {
                let capacity = duration_s.map_or(f64::INFINITY, |d| self.nics_bps * d / 8.0);
                // A data packet and its acknowledgement cross as many links each.
                let hops = capacity.min(offered) / SEGMENT * 2.0 * f64::from(2 * self.tiers);
                hops.is_finite().then_some(hops / HOPS_PER_S)
            }
            (_, Rates::Aimd { tick, .. }) => duration_s.map(|d| d / tick.as_secs_f64() * count * AIMD_STEP_S),
            (_, Rates::Slots) => Some(count * FLOW_S),
            (_, Rates::MaxMin { .. }) => {
                let spread = (count / hosts).max(1.0).sqrt() * (hosts / 8192.0).max(1.0).powi(3);
                let rounds = match (scenario.control.scheduler, duration_s) {
                    (Scheduler::None, _) | (_, None) => 0.0,
                    (_, Some(d)) => d / scenario.control.period.as_secs_f64() * count * ROUND_FLOW_S,
                };
                // The ideal switch carries the same flows, faster.
                Some(1.5 * count * FLOW_S * spread + rounds)
            }
        }
    }
}

/// `40min`, `15s`, `1h` of `takes` in `[quick]` and `[full]`.
fn stated_seconds(text: &str) -> Option<f64> {
    let units = [("min", 60.0), ("s", 1.0), ("h", 3600.0)];
    units.iter().find_map(|(unit, scale)| Some(text.strip_suffix(unit)?.trim().parse::<f64>().ok()? * scale))
}

/// `about 2 min`, `about 40 s`.
pub fn about(seconds: f64) -> String {
    let (value, unit) = match seconds {
        s if s < 90.0 => (s, "s"),
        s if s < 5400.0 => (s / 60.0, "min"),
        s => (s / 3600.0, "h"),
    };
    // One digit, or two from 10 on: nobody believes more of an estimate.
    let rounded = if value < 10.0 { value.round().max(1.0) } else { (value / 5.0).round() * 5.0 };
    format!("about {rounded} {unit}")
}

/// What to print before a study of more than [`WORTH_SAYING_S`]: how long, of what, and what is shorter. `reread` reads the scenario in
/// another form or world.
pub fn notice(
    study: &Study,
    estimate: &Estimate,
    threads: usize,
    reread: impl Fn(Form, Option<&str>) -> Result<(Study, Estimate)>,
) -> Option<String> {
    let seconds = estimate.seconds(study, threads).filter(|s| *s > WORTH_SAYING_S)?;
    let (first, hosts) = (&study.runs[0].scenario, estimate.hosts);
    let world = match first.world.kind {
        Kind::Flow => "flow",
        Kind::Packet => "packet",
        Kind::Lab => "lab",
    };
    let simulated = first.world.duration.map_or_else(String::new, |d| format!(", {d} of network time"));
    let runs = if study.runs.len() == 1 { "1 run".to_owned() } else { format!("{} runs", study.runs.len()) };
    let mut text = format!("{} on {threads} threads: {runs}, {hosts} hosts{simulated}, {world} world\n", about(seconds));
    let shorter = |form, kind: Option<&str>| {
        let (other, estimate) = reread(form, kind).ok()?;
        estimate.seconds(&other, threads).filter(|s| *s < seconds / 2.0)
    };
    let quick = study.source.has_quick_form().then(|| shorter(Form::Quick, None)).flatten();
    let flow = (first.world.kind == Kind::Packet).then(|| shorter(Form::Plain, Some("flow"))).flatten();
    let options = [quick.map(|s| format!("--quick ({})", about(s))), flow.map(|s| format!("--world flow ({})", about(s)))];
    let mut options: Vec<String> = options.into_iter().flatten().collect();
    if options.is_empty() && first.world.duration.is_some() {
        options.push("--set world.duration=TIME".to_owned());
    }
    if !options.is_empty() {
        text += &format!("shorter: {}\n", options.join(", or "));
    }
    Some(text)
}

/// Shorter work starts without a notice.
pub const WORTH_SAYING_S: f64 = 10.0;
/// Payload of a segment, in bytes.
const SEGMENT: f64 = 1460.0;
/// Packets sent over links per second in the packet world.
const HOPS_PER_S: f64 = 25e6;
/// One flow in one tick of the AIMD model.
const AIMD_STEP_S: f64 = 1e-8;
/// One flow of the max-min model, from start to end, among as many flows as hosts.
const FLOW_S: f64 = 1.1e-5;
/// One flow in one round of a scheduler.
const ROUND_FLOW_S: f64 = 2e-6;
/// Bringing up and removing one node of a lab.
const LAB_NODE_S: f64 = 0.1;
/// Trials of a search: a bisection.
const TRIALS: f64 = 8.0;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::source::Overrides;

    fn study(world: &str, duration: &str) -> (Study, Estimate) {
        let text = format!(
            "[fabric]\nkind = \"fat-tree\"\nk = 8\n[traffic]\npattern = \"stride\"\nstride = 16\nsize = \"inf\"\n[world]\nkind = \"{world}\"\nduration = \"{duration}\"\n"
        );
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("s.toml");
        std::fs::write(&path, text).expect("written");
        read(Source::read(&path, &Overrides::default()).expect("a scenario")).expect("a study")
    }

    #[test]
    fn packets_take_longer_than_flows_and_more_of_them_longer() {
        let [flow, packet, longer] = [("flow", "60s"), ("packet", "60s"), ("packet", "600s")]
            .map(|(world, duration)| study(world, duration))
            .map(|(study, estimate)| estimate.seconds(&study, 2).expect("an estimate"));
        assert!(flow < 1.0 && packet > 60.0 && (longer / packet - 10.0).abs() < 0.1, "{flow} {packet} {longer}");
    }

    #[test]
    fn long_work_is_announced_with_what_is_shorter() {
        let reread = |_: Form, kind: Option<&str>| Ok(study(kind.unwrap_or("packet"), "60s"));
        let notice_of = |(study, estimate): (Study, Estimate)| notice(&study, &estimate, 2, reread);
        assert_eq!(notice_of(study("flow", "60s")), None);
        let text = notice_of(study("packet", "60s")).expect("it takes long");
        assert!(text.starts_with("about ") && text.contains("128 hosts, 60s of network time, packet world"), "{text}");
        assert!(text.contains("shorter: --world flow (about 1 s)"), "{text}");
    }

    #[test]
    fn times_are_rounded_as_estimates_are() {
        assert_eq!(
            [0.2, 12.0, 44.0, 100.0, 480.0, 1260.0, 7200.0].map(about),
            ["about 1 s", "about 10 s", "about 45 s", "about 2 min", "about 8 min", "about 20 min", "about 2 h"]
        );
        assert_eq!(["40min", "15s", "1h", "soon"].map(stated_seconds), [Some(2400.0), Some(15.0), Some(3600.0), None]);
    }
}
