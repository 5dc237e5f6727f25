//! `weft check`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use serde::Serialize;

use crate::cli::progress::Bar;
use crate::cli::run::in_pool;
use crate::cli::{ScenarioArgs, print_json, print_text, table};
use crate::error::{Error, Result};
use crate::run::{self, RunSummary};
use crate::scenario::Study;
use crate::scenario::source::Form;
use crate::wall::Stopwatch;
use crate::world;

/// Arguments of `weft check`.
#[derive(Debug, Args)]
pub struct CheckArgs {
    /// Scenario files, or folders of them
    #[arg(default_value = "scenarios")]
    paths: Vec<PathBuf>,
    /// The paper's sizes instead of the quick forms
    #[arg(long)]
    full: bool,
    #[command(flatten)]
    changes: ScenarioArgs,
    /// Also write results, a folder a scenario
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Runs of a sweep side by side [default: one a core]
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
    /// Print one JSON document and nothing else
    #[arg(long)]
    json: bool,
}

/// What `weft check --json` prints.
#[derive(Debug, Serialize)]
struct Report {
    #[serde(flatten)]
    tally: Tally,
    scenarios: Vec<Checked>,
}

/// What came of all expectations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
struct Tally {
    ok: bool,
    passed: usize,
    known_misses: usize,
    misses: usize,
    /// Misses of runs in the lab on a machine that had no time left, twice.
    untrusted: usize,
    /// Runs in the lab, where none can come up.
    skipped: usize,
    /// Expectations of runs in the lab.
    #[serde(skip)]
    of_labs: usize,
}

#[derive(Debug, Serialize)]
struct Checked {
    scenario: String,
    title: String,
    wall_s: f64,
    runs: Vec<RunSummary>,
}

/// Runs it.
pub fn run(args: &CheckArgs) -> Result<ExitCode> {
    let mut studies = studies(args)?;
    let without_lab = world::lab::unavailable();
    studies.iter_mut().for_each(|s| s.study.without_lab.clone_from(&without_lab));
    announce(&studies, args);
    let mut checked = Vec::new();
    for Asked { path, name, study } in &studies {
        let clock = Stopwatch::start();
        let bar = Bar::new(study.runs.len());
        let out = args.out.as_ref().map(|out| out.join(name));
        let carry = || in_pool(args.threads, || run::run(study, out.as_deref(), &|i, part| bar.update(i, part)));
        let mut summary = carry()??;
        // A machine that was busy for a moment measured itself.
        if unmeasured(&summary.runs) > 0 {
            tracing::warn!("{}: the processors were busy with other things: it is carried once more", path.display());
            summary = carry()??;
        }
        bar.finish();
        let one =
            Checked { scenario: path.display().to_string(), title: summary.title, wall_s: clock.seconds(), runs: summary.runs };
        if !args.json {
            print_text(&table::of_check(&one.scenario, &one.title, one.wall_s, &one.runs))?;
        }
        checked.push(one);
    }
    let tally = Tally::of(checked.iter().map(|c| &c.runs[..]));
    if args.json {
        print_json(&Report { tally, scenarios: checked })?;
    } else {
        let Tally { passed, known_misses, misses, untrusted, skipped, .. } = tally;
        if untrusted > 0 {
            print_text(&format!("{untrusted} more of labs whose processors had no time left, and are not to be trusted\n"))?;
        }
        let rest = if skipped == 0 { String::new() } else { format!(", {skipped} runs in the lab skipped") };
        print_text(&format!("{passed} met, {known_misses} missed for a known cause, {misses} missed{rest}\n"))?;
    }
    if tally.is_too_slow() {
        let Tally { untrusted, of_labs, .. } = tally;
        tracing::warn!(
            "{untrusted} of {of_labs} expectations of labs were missed for want of processor time: nothing is known of them. End what else runs here \
             and check again; a machine that is always too slow needs a lower `world.scale`, or skips labs if it checks without root"
        );
    }
    Ok(if tally.ok { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

impl Tally {
    /// Of all runs, those of a scenario together.
    fn of<'a>(scenarios: impl Iterator<Item = &'a [RunSummary]> + Clone) -> Self {
        let runs = || scenarios.clone().flatten();
        let verdicts = || runs().flat_map(|r| &r.expect);
        let untrusted = scenarios.clone().map(unmeasured).sum::<usize>();
        let mut tally = Self {
            ok: true,
            passed: verdicts().filter(|v| v.ok).count(),
            known_misses: verdicts().filter(|v| v.known).count(),
            misses: verdicts().filter(|v| !v.ok && !v.known).count() - untrusted,
            untrusted,
            skipped: runs().filter(|r| r.skipped.is_some()).count(),
            of_labs: runs().filter(|r| r.lab.is_some()).map(|r| r.expect.len()).sum(),
        };
        tally.ok = tally.misses == 0 && !tally.is_too_slow();
        tally
    }

    /// A machine that lets most expectations of labs go by for want of time has checked none of them.
    const fn is_too_slow(&self) -> bool {
        2 * self.untrusted > self.of_labs
    }
}

/// Misses that say nothing of the network: those of runs in the lab, if one of the scenario's is not to be trusted.
fn unmeasured(runs: &[RunSummary]) -> usize {
    let labs = || runs.iter().filter(|r| r.lab.is_some());
    if labs().all(|r| r.lab.as_ref().is_none_or(|lab| lab.trusted)) {
        return 0;
    }
    labs().flat_map(|r| &r.expect).filter(|v| !v.ok && !v.known).count()
}

/// A scenario that is to be checked.
struct Asked {
    path: PathBuf,
    /// Its folder below `--out`: its place below the argument that named it.
    name: PathBuf,
    study: Study,
}

/// All scenarios are read, and so checked for mistakes, before the first is run.
fn studies(args: &CheckArgs) -> Result<Vec<Asked>> {
    let overrides = args.changes.overrides(if args.full { Form::Full } else { Form::Quick })?;
    let mut studies: Vec<Asked> = Vec::new();
    for path in &args.paths {
        let named = path.is_file();
        let files = if path.is_dir() { toml_files(path)? } else { vec![path.clone()] };
        for file in files {
            let study = Study::read(&file, &overrides)?;
            let expects = study.runs.iter().any(|r| r.is_expected());
            if !expects && named {
                return Err(Error::usage(
                    format!("{} has no [[expect]] that speaks of one of its runs: nothing would be checked", file.display()),
                    "add `[[expect]]` entries, or use `weft run`",
                ));
            }
            if !expects {
                continue;
            }
            let above = if named { path.parent().unwrap_or(Path::new("")) } else { path };
            let name = file.strip_prefix(above).unwrap_or(&file).with_extension("");
            if let (Some(other), true) = (studies.iter().find(|s| s.name == name), args.out.is_some()) {
                return Err(Error::usage(
                    format!("{} and {} would both be written to {}", other.path.display(), file.display(), name.display()),
                    "check them one after the other, or name the folder above both",
                ));
            }
            studies.push(Asked { path: file, name, study });
        }
    }
    if studies.is_empty() {
        return Err(Error::usage("there is no scenario with [[expect]] entries here", "name scenario files or folders"));
    }
    Ok(studies)
}

fn toml_files(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(|e| Error::io("read", folder, e))? {
        let path = entry.map_err(|e| Error::io("read", folder, e))?.path();
        if path.is_dir() {
            // What scenarios read, and no scenarios.
            if path.file_name().is_none_or(|name| name != "data") {
                files.extend(toml_files(&path)?);
            }
        } else if path.extension().is_some_and(|e| e == "toml") {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

fn announce(studies: &[Asked], args: &CheckArgs) {
    if !args.full {
        return;
    }
    for Asked { path, study, .. } in studies {
        let takes = study.source.takes.as_deref().unwrap_or("less than a minute");
        eprintln!("{}: {} runs, about {takes} on 2 cores", path.display(), study.runs.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::expect::Verdict;
    use crate::metrics::Metrics;
    use crate::run::LabSummary;

    /// A run with so many expectations met and missed; in a lab that is to be trusted or not, if in one.
    fn run(met: usize, missed: usize, lab: Option<bool>) -> RunSummary {
        let verdict = |ok| Verdict {
            source: "a paper".to_owned(),
            metric: "goodput_bps".to_owned(),
            paper: 1.0,
            measured: Some(1.0),
            within: "10%".to_owned(),
            ok,
            over: None,
            known: false,
            cause: None,
        };
        RunSummary {
            set: serde_json::Map::new(),
            seed: 1,
            metrics: Metrics::default(),
            expect: (0..met + missed).map(|i| verdict(i < met)).collect(),
            search: None,
            lab: lab.map(|trusted| LabSummary { scale: 1.0, routing: "static", ospf: None, trusted, faults: Vec::new() }),
            skipped: None,
        }
    }

    #[test]
    fn a_machine_that_is_too_slow_for_most_of_its_labs_fails() {
        let of = |scenarios: &[&RunSummary]| {
            let tally = Tally::of(scenarios.iter().copied().map(std::slice::from_ref));
            (tally.ok, tally.passed, tally.misses, tally.untrusted)
        };
        let simulated = run(9, 0, None);
        let (slow, good) = (run(1, 2, Some(false)), run(1, 0, Some(true)));
        assert_eq!(of(&[&simulated, &slow]), (false, 10, 0, 2), "two of three");
        assert_eq!(of(&[&simulated, &slow, &good]), (true, 11, 0, 2), "half of four is not most");
        assert_eq!(of(&[&simulated, &good]), (true, 10, 0, 0));
        assert_eq!(of(&[&simulated, &run(0, 1, Some(true))]), (false, 9, 1, 0), "a miss of a machine that had time");
        assert_eq!(of(&[]), (true, 0, 0, 0));
    }
}
