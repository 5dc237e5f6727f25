//! The whole story of a run: built, carried, measured, compared with the paper, written.

use std::path::Path;
use std::sync::Arc;

use rayon::prelude::*;
use serde::Serialize;
use weft_fabric::record::{LabRecord, Outcome};
use weft_fabric::{Fabric, Instant};

use crate::error::{Error, Result};
use crate::expect::{self, Candidate, Verdict};
use crate::metrics::{Metrics, Window};
use crate::report::{self, Expectation, FaultSummary, RunInput, RunReport};
use crate::results::{Folder, write_tables};
use crate::scenario::overlay::Kind as Overlay;
use crate::scenario::world::{Kind, LabRouting};
use crate::scenario::{Run, Study};
use crate::search::{self, Finding};
use crate::wall::Stopwatch;
use crate::world::packet::payload_part;
use crate::{ideal::Ideals, metrics, wall, world};

/// What `--json` prints and `summary.json` holds.
#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    /// The scenario's title.
    pub title: String,
    /// The results folder; `None` if nothing was written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub out: Option<String>,
    /// In the order of the sweep.
    pub runs: Vec<RunSummary>,
}

/// One run of a summary.
#[derive(Clone, Debug, Serialize)]
pub struct RunSummary {
    /// The swept settings.
    pub set: serde_json::Map<String, serde_json::Value>,
    /// The seed.
    pub seed: u64,
    /// What was measured.
    pub metrics: Metrics,
    /// What the paper says of it.
    pub expect: Vec<Verdict>,
    /// What `[search]` found: `set` holds it too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub search: Option<Finding>,
    /// Of a run in the lab.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lab: Option<LabSummary>,
    /// Why it was not carried, if it was not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skipped: Option<String>,
}

/// What a run in the lab says of itself.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LabSummary {
    /// What the rates of links were multiplied with; `goodput_bps` and the like are those of the lab.
    pub scale: f64,
    /// Who found the routes.
    pub routing: &'static str,
    /// OSPF's timers, if it did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ospf: Option<String>,
    /// Whether the machine had time left: else the run measured the machine.
    pub trusted: bool,
    /// What failed, ended, moved and returned, in order of time.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub faults: Vec<FaultSummary>,
}

/// Receives the progress of runs, from several threads: the run's number and how much of it is done, from 0 to 1. It is told often, in
/// whatever a run does for long, and may unwind to end it: what was written is then removed.
pub type OnProgress<'a> = &'a (dyn Fn(usize, f64) + Sync);

/// A run that has been carried; its records are written and gone.
struct Carried {
    metrics: Metrics,
    report: Option<RunReport>,
    lab: Option<LabSummary>,
    skipped: Option<String>,
    /// Of a search: the run at the setting that was found, and what was found.
    found: Option<(Run, Finding)>,
    /// When it ended, in its own time.
    ended: Option<Instant>,
}

impl Carried {
    fn skipped(reason: &str) -> Self {
        Self { metrics: Metrics::default(), report: None, lab: None, skipped: Some(reason.to_owned()), found: None, ended: None }
    }

    /// The run that was carried.
    fn run<'a>(&'a self, asked: &'a Run) -> &'a Run {
        self.found.as_ref().map_or(asked, |(run, _)| run)
    }
}

/// What a run gave.
pub(crate) struct Observed {
    fabric: Arc<Fabric>,
    outcome: Outcome,
    ideal: Option<Arc<Outcome>>,
    /// What was measured.
    pub(crate) metrics: Metrics,
}

/// Carries all runs of a study, as many at a time as the thread pool has threads, and writes the results folder if one is named.
///
/// # Errors
/// Whatever is wrong with the scenario, or with the folder. Then nothing is written.
pub fn run(study: &Study, out: Option<&Path>, on_progress: OnProgress<'_>) -> Result<Summary> {
    let is_lab = |i: &usize| study.runs[*i].scenario.world.kind == Kind::Lab;
    let (labs, simulated): (Vec<usize>, Vec<usize>) = (0..study.runs.len()).partition(is_lab);
    // Where no lab can come up, what can be carried is; labs alone cannot.
    let without_lab = study.without_lab.clone().or_else(|| if simulated.is_empty() { None } else { world::lab::unavailable() });
    if !labs.is_empty() && without_lab.is_none() {
        world::lab::need()?;
    }
    let folder = out.map(Folder::prepare).transpose()?;
    let ideals = Ideals::default();
    let one = |i: usize| Ok((i, carry(study, i, folder.as_ref(), &ideals, on_progress)?));
    let mut carried = simulated.into_par_iter().map(one).collect::<Result<Vec<(usize, Carried)>>>()?;
    // A lab has the machine for itself.
    for i in labs {
        carried.push(match &without_lab {
            Some(reason) => (i, Carried::skipped(reason)),
            None => one(i)?,
        });
    }
    carried.sort_by_key(|(i, _)| *i);
    let carried: Vec<Carried> = carried.into_iter().map(|(_, c)| c).collect();
    // What comes after the length that a run was given has been told before.
    study.tell_late_events(|i, event| carried[i].ended.filter(|_| study.end_at_most(i).is_none_or(|end| event.at < end)));
    let runs = compare(study, &carried);
    let summary = Summary { title: study.title().to_owned(), out: out.map(|o| o.display().to_string()), runs };
    if let Some(folder) = folder {
        write_summary(&folder, study, &summary, carried)?;
        folder.publish()?;
    }
    Ok(summary)
}

fn carry(study: &Study, index: usize, folder: Option<&Folder>, ideals: &Ideals, on_progress: OnProgress<'_>) -> Result<Carried> {
    let asked = &study.runs[index];
    let clock = Stopwatch::start();
    let mut progress = |part| on_progress(index, part);
    let found = asked.search.as_ref().map(|s| search::find(study, asked, s, &mut progress)).transpose()?;
    let run = found.as_ref().map_or(asked, |(run, _)| run);
    // A search has told of its own progress.
    let mut last = |part: f64| on_progress(index, if found.is_none() { part } else { NEARLY });
    let Observed { fabric, outcome, ideal, mut metrics } = observe(study, run, ideals, &mut last)?;
    let report = match folder {
        None => None,
        Some(folder) => {
            let place = if study.runs.len() == 1 { folder.path() } else { folder.path().join(format!("{index:03}")) };
            std::fs::create_dir_all(&place).map_err(|e| Error::io("write", &place, e))?;
            last(NEARLY);
            write_tables(&place, &fabric, &outcome, run.scenario.traffic.services())?;
            last(NEARLY);
            Some(report::collect(RunInput {
                name: if study.runs.len() == 1 { String::new() } else { format!("{index:03}") },
                set: run.variant.set.clone(),
                seed: run.scenario.world.seed,
                metrics: &[],
                expect: &[],
                fabric: &fabric,
                outcome: &outcome,
                ideal: ideal.as_deref(),
                optimum_bps: None,
            }))
        }
    };
    metrics.put("wall_s", clock.seconds());
    metrics.put_some("rss_bytes", wall::peak_rss_bytes().map(|b| b as f64));
    on_progress(index, 1.0);
    let lab = outcome.lab.as_ref().map(|lab| LabSummary::of(lab, run));
    Ok(Carried { metrics, report, lab, skipped: None, found, ended: Some(outcome.ended) })
}

impl LabSummary {
    fn of(lab: &LabRecord, run: &Run) -> Self {
        let settings = run.scenario.world.lab;
        let trusted = lab.cpu_idle_fraction.is_some_and(|idle| idle >= TRUSTED_IDLE);
        if !trusted {
            let name = run.name();
            tracing::warn!(
                "the processors had less than {:.0} % of their time left{}{name}: the lab measured the machine. Lower `world.scale`, or let it idle",
                TRUSTED_IDLE * 100.0,
                if name.is_empty() { "" } else { " during " },
            );
        }
        let (routing, ospf) = match settings.routing {
            _ if lab.bridges.is_some() => ("spain", None),
            LabRouting::Static => ("static", None),
            LabRouting::Frr => ("frr", Some(settings.ospf.to_string())),
        };
        let faults = lab.faults.iter().map(FaultSummary::from).collect();
        Self { scale: lab.scale, routing, ospf, trusted, faults }
    }
}

/// A lab of a machine that has less of its time left is not to be trusted.
const TRUSTED_IDLE: f64 = 0.1;

/// The progress of a run that has been carried, but not yet measured and written.
const NEARLY: f64 = 0.99;

/// Builds, carries and measures a run.
pub(crate) fn observe(study: &Study, run: &Run, ideals: &Ideals, on_progress: &mut dyn FnMut(f64)) -> Result<Observed> {
    let locate = |e: Error| study.source.at(e);
    let fabric = Arc::new(run.scenario.network().map_err(|e| study.source.at(e))?);
    on_progress(0.0);
    if let Some((outcome, metrics)) =
        world::directory::carry(&fabric, run, &mut |part| on_progress(part.min(NEARLY))).map_err(locate)?
    {
        return Ok(Observed { fabric, outcome, ideal: None, metrics });
    }
    if let Some((outcome, metrics)) =
        world::nl_arp::carry(&fabric, run, &mut |part| on_progress(part.min(NEARLY))).map_err(locate)?
    {
        return Ok(Observed { fabric, outcome, ideal: None, metrics });
    }
    if let Some((outcome, metrics)) =
        world::tenants::carry(&fabric, run, &mut |part| on_progress(part.min(NEARLY))).map_err(locate)?
    {
        return Ok(Observed { fabric, outcome, ideal: None, metrics });
    }
    let outcome = world::carry(&fabric, run, study.cores_a_run(), &mut |part| on_progress(part.min(NEARLY))).map_err(locate)?;
    let ideal = ideals.of(&fabric, run, &mut || on_progress(NEARLY)).map_err(locate)?;
    on_progress(NEARLY);
    let metrics = measure(&fabric, run, &outcome, ideal.as_deref()).map_err(locate)?;
    Ok(Observed { fabric, outcome, ideal, metrics })
}

fn measure(fabric: &Arc<Fabric>, run: &Run, outcome: &Outcome, ideal: Option<&Outcome>) -> Result<Metrics> {
    let world = &run.scenario.world;
    let window = |o: &Outcome| Window::of(o, world.warmup, world.cooldown);
    let mut metrics = metrics::measure(fabric, outcome, window(outcome));
    metrics::measure_services(outcome, run.scenario.traffic.services(), &mut metrics);
    if window(outcome).is_none() {
        tell_empty_window(run, outcome);
    }
    if world.is_slots() {
        // All flows offer what the NICs can carry; what is not delivered is lost.
        metrics.put_some("loss_fraction", metrics.get("goodput_fraction").map(|carried| 1.0 - carried));
        metrics.put("flows", outcome.events as f64);
    }
    match world.kind {
        Kind::Flow => {}
        Kind::Packet => {
            let useful = world.queues.nic_duplex * payload_part(&run.scenario.transport.transport);
            metrics::measure_packets(fabric, outcome, &mut metrics, useful);
        }
        Kind::Lab => metrics::measure_packets(fabric, outcome, &mut metrics, world::lab::payload_part(run)),
    }
    if let Overlay::Vl2 { ecmp_width, .. } = run.scenario.overlay.kind {
        metrics::overlay::measure_vl2(fabric, outcome, ecmp_width, &mut metrics);
    }
    metrics::measure_lab(outcome, &mut metrics);
    metrics::overlay::measure_bridges(outcome, &mut metrics);
    let best = ideal.and_then(|o| window(o).map(|w| metrics::goodput_bps(&o.samples, w)));
    if let (Some(own), Some(best)) = (metrics.get("goodput_bps"), best) {
        metrics.put("optimal_fraction", own / best);
    }
    metrics.put_some("nonblocking_fraction", best.map(|b| b / metrics::nic_total(fabric)));
    if run.scenario.wants_ideal() {
        metrics.put_some("splittable_fraction", world::splittable_optimum(fabric, run)?);
    }
    let events = world::timed_events(fabric, run)?;
    metrics.put_some("reconverge_s", metrics::recovery::reconverge_s(fabric, outcome, &events));
    metrics.put_some("restore_s", metrics::recovery::restore_s(fabric, outcome, &events));
    world::measure_control(fabric, run, outcome, &mut metrics)?;
    Ok(metrics)
}

/// Says why rates are missing.
fn tell_empty_window(run: &Run, outcome: &Outcome) {
    let world = &run.scenario.world;
    let (name, ended) = (run.name(), outcome.ended.saturating_since(weft_fabric::Instant::ZERO));
    let which = if name.is_empty() { "the run".to_owned() } else { format!("the run {name}") };
    let spans = [("warm-up", world.warmup), ("cool-down", world.cooldown)];
    let left_out: Vec<String> =
        spans.iter().filter(|(_, span)| span.as_ps() > 0).map(|(what, span)| format!("a {what} of {span}")).collect();
    if left_out.is_empty() {
        tracing::warn!("{which} ended at {ended}, before anything moved: rates are absent");
    } else {
        tracing::warn!(
            "{which} ended at {ended}: without {} nothing of it is left, and rates are absent",
            left_out.join(" and ")
        );
    }
}

fn compare(study: &Study, carried: &[Carried]) -> Vec<RunSummary> {
    let candidates: Vec<Candidate<'_>> = study
        .runs
        .iter()
        .zip(carried)
        .map(|(asked, c)| {
            let variant = &c.run(asked).variant;
            Candidate { table: &variant.table, position: &variant.position, metrics: &c.metrics }
        })
        .collect();
    (0..candidates.len())
        .map(|i| RunSummary {
            set: carried[i].run(&study.runs[i]).variant.set.clone(),
            seed: study.runs[i].scenario.world.seed,
            metrics: carried[i].metrics.clone(),
            expect: match carried[i].skipped {
                None => expect::judge(&study.runs[i].scenario.expect, &candidates, i),
                Some(_) => Vec::new(),
            },
            search: carried[i].found.as_ref().map(|(_, finding)| finding.clone()),
            lab: carried[i].lab.clone(),
            skipped: carried[i].skipped.clone(),
        })
        .collect()
}

fn write_summary(folder: &Folder, study: &Study, summary: &Summary, carried: Vec<Carried>) -> Result<()> {
    let json = |s: &Summary| serde_json::to_string_pretty(s).expect("a summary is JSON") + "\n";
    if study.runs.len() > 1 {
        for (i, run) in summary.runs.iter().enumerate() {
            let one = Summary { runs: vec![run.clone()], ..summary.clone() };
            folder.write(&format!("{i:03}/summary.json"), &json(&one))?;
        }
    }
    folder.write("summary.json", &json(summary))?;
    let reports: Vec<RunReport> = carried
        .into_iter()
        .zip(&summary.runs)
        .filter_map(|(carried, run)| {
            let mut report = carried.report?;
            let repeats = |name: &str| !metrics::WALL_CLOCK.contains(&name);
            let metrics: Vec<(String, f64)> =
                run.metrics.iter().filter(|(name, _)| repeats(name)).map(|(name, value)| (name.to_owned(), value)).collect();
            let expect: Vec<Expectation> = run.expect.iter().filter(|v| repeats(&v.metric)).map(Expectation::from).collect();
            report.judge(&metrics, &expect);
            Some(report)
        })
        .collect();
    folder.write("report.html", &report::render(&summary.title, &reports))
}

impl From<&Verdict> for Expectation {
    fn from(v: &Verdict) -> Self {
        Self {
            source: v.source.clone(),
            metric: v.metric.clone(),
            paper: v.paper,
            measured: v.measured,
            within: v.within.clone(),
            ok: v.ok,
            known: v.cause.clone(),
        }
    }
}
