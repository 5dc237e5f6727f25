//! `summary.json`: what all runs of a study measured, compared with what is expected of them.

use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use weft_fabric::Instant;

use crate::expect::{self, Candidate, Verdict};
use crate::metrics::Metrics;
use crate::repeats::{OfSeed, Repeats};
use crate::report::{FaultSummary, RunReport};
use crate::scenario::Run;
use crate::scenario::expect::Expect;
use crate::scenario::source::{Source, Variant};
use crate::scenario::world::LabRouting;
use crate::search::Finding;
use crate::study::Study;
use crate::trials::Found;
use crate::trust::{Distrust, LongestWait, Regime, TRUSTED_IDLE, TRUSTED_WAIT};
use crate::world::Executed;

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

/// One run of a summary. What the planner evaluates has no search, no lab and one seed.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RunSummary {
    /// The swept settings.
    pub set: Map<String, Value>,
    /// The seed.
    pub seed: u64,
    /// What was measured; with several seeds the mean.
    pub metrics: Metrics,
    /// With several seeds: half the width of each mean's 95 % confidence interval.
    #[serde(skip_serializing_if = "Metrics::is_empty", skip_deserializing)]
    pub ci95: Metrics,
    /// What each of several seeds measured.
    #[serde(skip_serializing_if = "Vec::is_empty", skip_deserializing)]
    pub per_seed: Vec<OfSeed>,
    /// False if settings were overridden beyond those that the scenario varies: its expectations are then neither met nor missed.
    pub comparable: bool,
    /// Those settings: `traffic.stride=2`.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub overrides: Vec<String>,
    /// The expectations that apply to it.
    pub expect: Vec<Verdict>,
    /// What a reader of its figures has to know: with several seeds of the first one that has any.
    #[serde(skip_serializing_if = "Vec::is_empty", skip_deserializing)]
    pub notes: Vec<String>,
    /// What `[search]` found: `set` holds it too.
    #[serde(skip_serializing_if = "Option::is_none", skip_deserializing)]
    pub search: Option<Finding>,
    /// Of a run in the lab.
    #[serde(skip_serializing_if = "Option::is_none", skip_deserializing)]
    pub lab: Option<LabSummary>,
    /// Why it was not executed, if it was not.
    #[serde(skip_serializing_if = "Option::is_none", skip_deserializing)]
    pub skipped: Option<String>,
}

/// What is particular to a run in the lab.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LabSummary {
    /// Factor of the links' rates; `goodput_bps` and the like are those of the lab.
    pub scale: f64,
    /// What computes the routes.
    pub routing: &'static str,
    /// OSPF's timers, if it does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ospf: Option<String>,
    /// Whether nothing is the matter with it.
    pub trusted: bool,
    /// What is.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub distrust: Vec<Distrust>,
    /// Which of its programs waited longest for a processor.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub longest_wait: Option<LongestWait>,
    /// How full queues appear to TCP.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub regime: Option<Regime>,
    /// What failed, was stopped, moved and was restored, in order of time.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub faults: Vec<FaultSummary>,
}

/// A run that has been executed and measured; its records are written and gone.
#[derive(Default)]
pub struct Completed {
    /// What was measured.
    pub repeats: Repeats,
    /// Its part of the page, if results are written.
    pub report: Option<RunReport>,
    /// If it was a run in the lab.
    pub lab: Option<LabSummary>,
    /// Why it was not executed, if it was not.
    pub skipped: Option<String>,
    /// What its search found, if it has one.
    pub found: Option<Found>,
    /// When it ended, in its own time.
    pub ended: Option<Instant>,
    /// What a reader of its figures has to know.
    pub notes: Vec<String>,
    /// Why its scheduler moved nothing, if it was idle.
    pub idle_scheduler: Option<String>,
}

impl Summary {
    /// Compares the runs of a study, in its order.
    pub fn compare(study: &Study, out: Option<&Path>, completed: &[Completed]) -> Self {
        let variants =
            || study.runs.iter().zip(completed).map(|(asked, c)| &c.found.as_ref().map_or(asked, |found| &found.run).variant);
        let candidates: Vec<Candidate<'_>> = variants()
            .zip(completed)
            .map(|(variant, c)| Candidate {
                table: &variant.table,
                position: &variant.position,
                repeats: &c.repeats,
                distrust: c.lab.as_ref().map(|lab| &lab.distrust[..]),
                idle_scheduler: c.idle_scheduler.as_deref(),
            })
            .collect();
        let overrides = study.source.incomparable_settings();
        let (comparable, is_planned) = (overrides.is_empty(), study.source.is_for_planner());
        let runs = variants().zip(completed).enumerate().map(|(i, (variant, c))| RunSummary {
            set: variant.set.clone(),
            seed: study.runs[i].scenario.world.seed,
            metrics: c.repeats.mean.clone(),
            ci95: c.repeats.ci95.clone(),
            per_seed: c.repeats.per_seed.clone(),
            comparable,
            overrides: overrides.clone(),
            expect: match c.skipped {
                None if !is_planned => expect::judge(&study.runs[i].scenario.expect, &candidates, i, comparable),
                _ => Vec::new(),
            },
            notes: c.notes.clone(),
            search: c.found.as_ref().map(|found| found.finding.clone()),
            lab: c.lab.clone(),
            skipped: c.skipped.clone(),
        });
        Self { title: study.title().to_owned(), out: out.map(|out| out.display().to_string()), runs: runs.collect() }
    }

    /// Logs the notes of all runs, for those to whom no table shows them.
    pub fn log_notes(&self) {
        self.runs.iter().flat_map(|run| &run.notes).for_each(|note| tracing::warn!("{note}"));
    }
}

/// A run that no world has measured, but the planner.
#[derive(Debug)]
pub struct Evaluated<'a> {
    /// Its settings.
    pub variant: &'a Variant,
    /// Its seed.
    pub seed: u64,
    /// What is expected of it.
    pub expect: Vec<Expect>,
    /// What was found.
    pub metrics: Metrics,
}

impl RunSummary {
    /// Compares runs that the planner has evaluated, in the scenario's order.
    pub fn of_evaluated(source: &Source, runs: &[Evaluated<'_>]) -> Vec<Self> {
        let repeats: Vec<Repeats> = runs.iter().map(|run| Repeats { mean: run.metrics.clone(), ..Repeats::default() }).collect();
        let candidate = |(run, repeats)| {
            let Evaluated { variant, .. }: &Evaluated<'_> = run;
            Candidate { table: &variant.table, position: &variant.position, repeats, distrust: None, idle_scheduler: None }
        };
        let candidates: Vec<Candidate<'_>> = runs.iter().zip(&repeats).map(candidate).collect();
        let overrides = source.incomparable_settings();
        let comparable = overrides.is_empty();
        let summary = |(i, run): (usize, &Evaluated<'_>)| Self {
            set: run.variant.set.clone(),
            seed: run.seed,
            metrics: run.metrics.clone(),
            ci95: Metrics::default(),
            per_seed: Vec::new(),
            comparable,
            overrides: overrides.clone(),
            expect: expect::judge(&run.expect, &candidates, i, comparable),
            notes: Vec::new(),
            search: None,
            lab: None,
            skipped: None,
        };
        runs.iter().enumerate().map(summary).collect()
    }
}

impl LabSummary {
    /// From a lab's own records, if it is a lab. Warns if the machine had no time for it; of its regime it has warned before.
    pub fn of(executed: &Executed, run: &Run) -> Option<Self> {
        let lab = executed.outcome.lab.as_ref()?;
        let settings = run.scenario.world.lab;
        let regime = executed.regime(&run.scenario);
        let saturated = lab.cpu_idle_fraction.is_none_or(|idle| idle < TRUSTED_IDLE);
        if saturated {
            let name = run.name();
            tracing::warn!(
                "CPU was saturated{}{name} (less than {:.0} % idle): these results reflect this machine, not the network. Lower \
                 `world.scale`, or stop other programs",
                if name.is_empty() { "" } else { " during " },
                TRUSTED_IDLE * 100.0,
            );
        }
        let longest_wait = lab.longest_wait.as_ref();
        let starved = longest_wait.is_some_and(|wait| wait.length > TRUSTED_WAIT);
        let longest_wait = longest_wait.map(LongestWait::from);
        if let Some(wait) = longest_wait.as_ref().filter(|_| starved) {
            let name = run.name();
            let run = if name.is_empty() { String::new() } else { format!(", during {name}") };
            tracing::warn!(
                "{}{run}: these results reflect this machine, not the network. Stop other programs, or lower `world.scale`",
                wait.text()
            );
        }
        let (routing, ospf) = match run.scenario.lab_routing() {
            _ if lab.bridges.is_some() => ("spain", None),
            LabRouting::Frr => ("frr", Some(settings.ospf.to_string())),
            routing => (routing.name(), None),
        };
        let faults = lab.faults.iter().map(FaultSummary::from).collect();
        let is_kept = regime.is_none_or(|regime| regime.is_kept());
        let distrust: Vec<Distrust> = [(Distrust::Cpu, saturated), (Distrust::Wait, starved), (Distrust::Queue, !is_kept)]
            .into_iter()
            .filter_map(|(why, is)| is.then_some(why))
            .collect();
        Some(Self { scale: lab.scale, routing, ospf, trusted: distrust.is_empty(), distrust, longest_wait, regime, faults })
    }

    /// Why it is not trusted, a sentence each; empty if it is.
    pub fn reasons(&self) -> Vec<String> {
        self.distrust.iter().map(|why| why.text(self.longest_wait.as_ref())).collect()
    }

    /// A mean over seeds is trusted if each of its labs is.
    pub fn merge(&mut self, other: &Self) {
        self.distrust.extend(other.distrust.iter().filter(|why| !self.distrust.contains(why)).copied().collect::<Vec<_>>());
        let seconds = |wait: &Option<LongestWait>| wait.as_ref().map_or(0.0, |it| it.seconds);
        if seconds(&other.longest_wait) > seconds(&self.longest_wait) {
            self.longest_wait.clone_from(&other.longest_wait);
        }
        self.trusted &= other.trusted;
    }
}
