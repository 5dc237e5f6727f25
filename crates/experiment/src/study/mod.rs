//! A study: the runs of a scenario file. All are prepared, and so checked, before the first of them starts.

mod fabrics;
mod warnings;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use toml::Table;
use weft_fabric::Instant;

use crate::error::{Error, KeyError, Result};
use crate::expect::matches;
use crate::scenario::Run;
use crate::scenario::search::Search;
use crate::scenario::source::{Overrides, Source, Variant};
use crate::wall::Stopwatch;
use crate::world::{self, Prepared};
use fabrics::Fabrics;
use warnings::Loops;

/// All runs of a scenario file.
pub struct Study {
    /// Where its keys stand.
    pub source: Source,
    /// In the order of the sweep; at least one. A run whose setting is searched for has the first setting.
    pub runs: Vec<Run>,
    /// By the number of the run: the setting that is searched for.
    pub searches: BTreeMap<usize, Search>,
    /// Cores that one run may use, if it can.
    pub cores: usize,
    /// Why runs in the lab are skipped; `None`: they are not.
    pub without_lab: Option<String>,
    /// Runs that were prepared when the study was checked, until they start.
    prepared: Mutex<BTreeMap<usize, Prepared>>,
    fabrics: Fabrics,
}

impl Study {
    /// Reads a scenario file and everything that it names.
    ///
    /// # Errors
    /// The first thing that is wrong with it, with its line.
    pub fn read(path: &Path, overrides: &Overrides) -> Result<Self> {
        Self::new(Source::read(path, overrides)?, &mut |_, _| {})
    }

    /// The same for a text; `name` stands for it in errors, and relative paths start at `folder`.
    ///
    /// # Errors
    /// The first thing that is wrong with it, with its line.
    pub fn from_text(name: &str, text: String, folder: PathBuf, overrides: &Overrides) -> Result<Self> {
        Self::new(Source::from_text(name, text, folder, overrides)?, &mut |_, _| {})
    }

    /// The same for a table, as from Python; relative paths start at `folder`.
    ///
    /// # Errors
    /// The first thing that is wrong with it, with its key.
    pub fn from_table(table: Table, folder: PathBuf, overrides: &Overrides) -> Result<Self> {
        Self::new(Source::from_table(table, folder, overrides)?, &mut |_, _| {})
    }

    /// The same for a scenario that is read; `on_prepared` receives every run when it is checked, in order. Not all of them are held.
    ///
    /// # Errors
    /// The first thing that is wrong with it, with its line.
    pub fn new(source: Source, on_prepared: &mut dyn FnMut(&Run, &Prepared)) -> Result<Self> {
        let mut searches = BTreeMap::new();
        let mut runs = Vec::new();
        for (i, mut variant) in source.variants()?.into_iter().enumerate() {
            if let Some(search) = read_search(&mut variant).map_err(|e| source.at(e))? {
                searches.insert(i, search);
            }
            runs.push(Run::read(variant, &source)?);
        }
        let study =
            Self { source, runs, searches, cores: 1, without_lab: None, prepared: Mutex::default(), fabrics: Fabrics::default() };
        study.check(on_prepared)?;
        Ok(study)
    }

    /// Prepares every run, so that no sweep stops half-way for a mistake in its last run. What fits in [`HELD_MAX`] is held until the run
    /// starts; the rest is prepared a second time then.
    fn check(&self, on_prepared: &mut dyn FnMut(&Run, &Prepared)) -> Result<()> {
        let (mut loads, mut loops, mut held) = (Vec::new(), Vec::new(), 0);
        // Neighbours in a sweep often have the same fabric.
        let mut last = None;
        for (i, run) in self.runs.iter().enumerate() {
            let (prepared, is_new) = self.build(run)?;
            on_prepared(run, &prepared);
            let seed = run.scenario.world.seed;
            loads.extend(run.scenario.traffic.offered_load(&prepared.fabric, seed).map_err(|e| self.source.at(e))?);
            let scheduler = run.scenario.control.scheduler;
            if scheduler.is_subways() {
                loops.push((scheduler, Loops::of(&prepared.fabric)));
            }
            if let Some(search) = self.searches.get(&i) {
                self.build(&self.trial(i, search.to)?)?;
            }
            last = Some(std::sync::Arc::clone(&prepared.fabric));
            held += prepared.held() + if is_new { prepared.fabric.links().len() } else { 0 };
            if held <= HELD_MAX {
                self.prepared.lock().unwrap_or_else(PoisonError::into_inner).insert(i, prepared);
            }
        }
        drop(last);
        warnings::warn_overload(self.runs.len(), &loads);
        // What the other runs of its sweep read is no mistake in the resolved scenario of one run.
        if !self.source.is_resolved() {
            warnings::warn_idle_expectations(&self.source, &self.runs);
            warnings::warn_idle_settings(&self.source, &self.runs);
            warnings::warn_idle_places(&self.source, &self.runs);
            warnings::warn_idle_scheduler(&self.source, &self.runs);
            warnings::warn_failure_log(&self.source, &self.runs);
        }
        warnings::warn_no_loops(&self.source, &loops);
        warnings::warn_late_events(&self.source, &self.runs, |run, _| self.end_at_most(run));
        Ok(())
    }

    /// A run of the study, ready to be executed.
    ///
    /// # Errors
    /// None that [`Study::read`] has not found.
    pub fn prepare(&self, run: usize) -> Result<Prepared> {
        let held = self.prepared.lock().unwrap_or_else(PoisonError::into_inner).remove(&run);
        held.map_or_else(|| self.prepare_run(&self.runs[run]), Ok)
    }

    /// The same for a trial of a search.
    ///
    /// # Errors
    /// Settings that the run cannot have.
    pub fn prepare_run(&self, run: &Run) -> Result<Prepared> {
        self.build(run).map(|(prepared, _)| prepared)
    }

    fn build(&self, run: &Run) -> Result<(Prepared, bool)> {
        let clock = Stopwatch::start();
        let (fabric, is_new) = self.fabrics.get(&run.scenario.fabric).map_err(|e| self.source.at(e))?;
        let mut prepared = world::prepare(fabric, &run.scenario).map_err(|e| self.source.at(e))?;
        prepared.seconds = clock.seconds();
        Ok((prepared, is_new))
    }

    /// A run with another value of the setting that is searched for.
    ///
    /// # Errors
    /// A value that the scenario cannot have.
    ///
    /// # Panics
    /// If the run has no search.
    pub fn trial(&self, run: usize, value: f64) -> Result<Run> {
        let search = &self.searches[&run];
        let mut variant = self.runs[run].variant.clone();
        search.set(&mut variant.table, value).map_err(|e| self.source.at(e))?;
        let shown = serde_json::to_value(search.value(value)).unwrap_or(serde_json::Value::Null);
        variant.set.insert(search.key.clone(), shown);
        Run::read(variant, &self.source)
    }

    /// Warns of events at or after the end of a run that had no fixed length; `ended` is when each run ended.
    pub fn warn_late_events(&self, ended: impl Fn(usize) -> Option<Instant>) {
        // What comes after a fixed length was reported before the runs started.
        let is_news = |run: usize, at: Instant| self.end_at_most(run).is_none_or(|end| at < end);
        warnings::warn_late_events(&self.source, &self.runs, |run, event| ended(run).filter(|_| is_news(run, event.at)));
    }

    /// Warns that all seeds of every run have measured the same.
    pub fn warn_equal_seeds(&self) {
        let (place, _) = self.source.place_of("world.seeds");
        tracing::warn!("{place}: all seeds measured the same: nothing here is random. Leave `seeds` out, which takes less time");
    }

    /// Whether some expectation applies to some run.
    pub fn is_expected(&self) -> bool {
        let applies = |run: &Run| run.scenario.expect.iter().any(|e| matches(&run.variant.table, &e.conditions));
        self.runs.iter().any(applies)
    }

    /// The end of a run at the latest, if its length is given.
    fn end_at_most(&self, run: usize) -> Option<Instant> {
        self.runs[run].scenario.world.duration.map(|duration| Instant::ZERO + duration)
    }

    /// Cores for each run, if as many as there are threads run side by side.
    pub fn cores_per_run(&self) -> usize {
        let executed: usize = self.runs.iter().map(|run| 1 + run.scenario.world.other_seeds.len()).sum();
        (self.cores / executed).max(1)
    }

    /// The scenario's title.
    pub fn title(&self) -> &str {
        &self.runs[0].scenario.title
    }
}

/// Links of fabrics, and flows of files, that a study holds between its check and the start of its runs. A fat-tree of 8,192 hosts has 49,152
/// links and takes 3 ms to build and 3 MB: two of them are held, as many as two threads need at a time. A sweep over more fabrics builds the
/// others a second time when their turn comes, so that its check does not hold them all in memory.
const HELD_MAX: usize = 100_000;

/// `[search]` of a run, whose setting is put at its first value.
fn read_search(variant: &mut Variant) -> Result<Option<Search>, Error> {
    let Some(search) = Search::of(&variant.table)? else { return Ok(None) };
    if variant.set.contains_key(&search.key) {
        let message = format!("`{}` is swept and searched for", search.key);
        return Err(KeyError::new("search.key", message, "leave it out of the sweep or of the search").into());
    }
    search.set(&mut variant.table, search.from)?;
    Ok(Some(search))
}
