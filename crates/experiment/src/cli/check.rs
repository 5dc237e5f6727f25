//! `weft check`.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use serde::Serialize;

use crate::bundle;
use crate::cli::estimate::Estimate;
use crate::cli::planner::{self, Evaluation};
use crate::cli::progress::Bar;
use crate::cli::run::{in_pool, thread_count};
use crate::cli::{ScenarioArgs, estimate, print_json, print_text, table};
use crate::error::{Error, Result};
use crate::expect::{Status, Verdict};
use crate::run;
use crate::scenario::Run;
use crate::scenario::expect::Kind;
use crate::scenario::source::{Form, Overrides, Source};
use crate::scenario::world::Kind as WorldKind;
use crate::study::Study;
use crate::summary::RunSummary;
use crate::wall::Stopwatch;
use crate::world;

/// Arguments of `weft check`.
#[derive(Debug, Args)]
pub struct CheckArgs {
    /// Scenario files, or folders of them; `@` stands for all bundled scenarios, `@hedera` for those of one folder
    #[arg(default_value = "@")]
    paths: Vec<PathBuf>,
    /// Run the paper's sizes instead of the quick forms
    #[arg(long, help_heading = "Scenario")]
    full: bool,
    #[command(flatten)]
    changes: ScenarioArgs,
    /// Also write results, one folder per scenario
    #[arg(long, value_name = "DIR", help_heading = "Results")]
    out: Option<PathBuf>,
    /// Print the names of runs in full, and tolerances, however wide
    #[arg(long, conflicts_with = "json", help_heading = "Results")]
    wide: bool,
    /// Print one JSON document and nothing else on stdout
    #[arg(long, help_heading = "Results")]
    json: bool,
    /// Runs of a sweep in parallel [default: one per core]
    #[arg(long, value_name = "N", help_heading = "Execution")]
    threads: Option<usize>,
}

/// Examples at the end of `weft check --help`.
pub const EXAMPLES: &str = "\
Examples:
  weft check @hedera                 quick forms of all bundled Hedera scenarios
  weft check @hedera/figure9 --full  the paper's size
  weft check @vl2/figure11 --wide    names of runs in full
  weft check --json > verdicts.json  all bundled scenarios, for a program

Exit code 0: no unexplained miss. 1: an expectation was missed. 2: an error.
Scenarios with kind = \"lab\" start network namespaces as root; without root they
are skipped.";

/// What `weft check --json` prints.
#[derive(Debug, Serialize)]
struct Report {
    #[serde(flatten)]
    tally: Tally,
    scenarios: Vec<Checked>,
}

/// Counts over all expectations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
struct Tally {
    ok: bool,
    passed: usize,
    known_misses: usize,
    misses: usize,
    /// Expectations of lab runs that are not trusted.
    untrusted: usize,
    /// Expectations of runs with other settings than theirs.
    not_comparable: usize,
    /// Lab runs where no lab can be built.
    skipped: usize,
    /// Of published values.
    published: KindTally,
    /// Of bounds that papers state.
    bound: KindTally,
    /// Of guards of our own.
    own: KindTally,
    /// Those of `untrusted` that were missed.
    #[serde(skip)]
    unmeasured: usize,
    /// Expectations of runs in the lab.
    #[serde(skip)]
    of_labs: usize,
}

/// Counts over the expectations of a kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
struct KindTally {
    met: usize,
    known: usize,
    missed: usize,
    untrusted: usize,
}

#[derive(Debug, Serialize)]
struct Checked {
    scenario: String,
    title: String,
    wall_s: f64,
    /// More than 1 where a lab missed an expectation: `runs` are those of the last attempt.
    attempts: u32,
    runs: Vec<RunSummary>,
}

impl CheckArgs {
    fn overrides(&self) -> Result<Overrides> {
        self.changes.overrides(if self.full { Form::Full } else { Form::Quick })
    }
}

/// Runs it.
pub fn run(args: &CheckArgs) -> Result<ExitCode> {
    let Asked { mut studies, planned } = asked(args)?;
    let without_lab = world::lab::unavailable();
    studies.iter_mut().for_each(|s| s.study.without_lab.clone_from(&without_lab));
    announce(&studies, args);
    announce_labs(&studies);
    let columns = if args.wide { table::Columns::All } else { table::Columns::Few };
    let show = |one: &Checked| match args.json {
        true => Ok(()),
        false => print_text(&table::of_check_in(columns, &one.scenario, &one.title, one.wall_s, &one.runs)),
    };
    let mut checked = check_all(&studies, args, &show)?;
    checked.sort_by_key(|(i, _)| *i);
    let mut checked: Vec<Checked> = checked.into_iter().map(|(_, one)| one).collect();
    for file in &planned {
        let clock = Stopwatch::start();
        let Evaluation { title, runs } = planner::evaluate(file, &args.overrides()?)?;
        let one = Checked { scenario: file.display().to_string(), title, wall_s: clock.seconds(), attempts: 1, runs };
        show(&one)?;
        checked.push(one);
    }
    let tally = Tally::of(checked.iter().map(|c| &c.runs[..]));
    if args.json {
        print_json(&Report { tally, scenarios: checked })?;
    } else {
        let Tally { passed, known_misses, misses, untrusted, not_comparable, skipped, .. } = tally;
        let untrusted = if untrusted == 0 { String::new() } else { format!(", {untrusted} UNTRUSTED") };
        let other =
            if not_comparable == 0 { String::new() } else { format!(", {not_comparable} not comparable (settings overridden)") };
        let skipped = if skipped == 0 { String::new() } else { format!(", {} skipped", counted(skipped, "lab run")) };
        let kinds = [("published values", tally.published), ("bounds of the papers", tally.bound), ("own guards", tally.own)];
        print_text(&kinds.map(|(what, kind)| kind.line(what)).concat())?;
        print_text(&format!("{passed} OK, {known_misses} known misses, {misses} missed{untrusted}{other}{skipped}\n"))?;
    }
    if tally.is_too_slow() {
        let Tally { unmeasured, of_labs, .. } = tally;
        tracing::warn!(
            "The machine had no time for labs: {unmeasured} of {of_labs} of their expectations reflect this machine, not the network. Stop other programs and \
             check again; on a slow machine lower `world.scale`, or check without root, which skips labs"
        );
    }
    Ok(if tally.ok { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

/// Checks all scenarios, each with its number. A lab that misses is run again after all others, when what disturbed it may have ended; the last
/// result counts. `on_result` receives what counts, as soon as it is known.
fn check_all(studies: &[World], args: &CheckArgs, on_result: &dyn Fn(&Checked) -> Result<()>) -> Result<Vec<(usize, Checked)>> {
    let mut checked = Vec::new();
    let mut queue: VecDeque<(usize, u32)> = (0..studies.len()).map(|i| (i, 1)).collect();
    while let Some((i, attempts)) = queue.pop_front() {
        let World { path, name, study, .. } = &studies[i];
        let clock = Stopwatch::start();
        let bar = Bar::new(study.runs.len());
        let out = args.out.as_ref().map(|out| out.join(name));
        let summary = in_pool(args.threads, || run::run(study, out.as_deref(), &|i, part| bar.update(i, part)))??;
        bar.finish();
        if let (Some(cause), true) = (cause_to_repeat(&summary.runs), attempts < ATTEMPTS) {
            tracing::warn!("{}: {cause}: it is run once more at the end; the last result counts", path.display());
            queue.push_back((i, attempts + 1));
            continue;
        }
        if args.json {
            summary.log_notes();
        }
        let (scenario, wall_s) = (path.display().to_string(), clock.seconds());
        let one = Checked { scenario, title: summary.title, wall_s, attempts, runs: summary.runs };
        on_result(&one)?;
        checked.push((i, one));
    }
    Ok(checked)
}

/// How often a lab may run until it meets its expectations.
const ATTEMPTS: u32 = 3;

impl Tally {
    /// Of all runs, those of a scenario together.
    fn of<'a>(scenarios: impl Iterator<Item = &'a [RunSummary]> + Clone) -> Self {
        let runs = || scenarios.clone().flatten();
        let verdicts = || runs().flat_map(|r| &r.expect);
        let count = |status| verdicts().filter(|v| v.verdict == status).count();
        let mut tally = Self {
            ok: true,
            passed: count(Status::Ok),
            known_misses: count(Status::KnownMiss),
            misses: count(Status::Miss),
            untrusted: count(Status::Untrusted),
            not_comparable: count(Status::NotComparable),
            unmeasured: scenarios.clone().map(unmeasured).sum(),
            skipped: runs().filter(|r| r.skipped.is_some()).count(),
            published: KindTally::of(verdicts(), Kind::Published),
            bound: KindTally::of(verdicts(), Kind::Bound),
            own: KindTally::of(verdicts(), Kind::Own),
            of_labs: runs().filter(|r| r.lab.is_some()).map(|r| r.expect.len()).sum(),
        };
        tally.ok = tally.misses == 0 && !tally.is_too_slow();
        tally
    }

    /// Whether most expectations of labs were missed for want of CPU: then none of them has been checked.
    const fn is_too_slow(&self) -> bool {
        2 * self.unmeasured > self.of_labs
    }
}

impl KindTally {
    fn of<'a>(verdicts: impl Iterator<Item = &'a Verdict>, kind: Kind) -> Self {
        verdicts.filter(|v| v.kind == kind).fold(Self::default(), |mut tally, v| {
            match v.verdict {
                Status::Ok => tally.met += 1,
                Status::KnownMiss => tally.known += 1,
                Status::Miss => tally.missed += 1,
                Status::Untrusted => tally.untrusted += 1,
                Status::NotComparable => {}
            }
            tally
        })
    }

    /// `published values: 10 met, 1 known miss, 2 missed`; nothing if there are none.
    fn line(self, what: &str) -> String {
        let Self { met, known, missed, untrusted } = self;
        if met + known + missed + untrusted == 0 {
            return String::new();
        }
        let untrusted = if untrusted == 0 { String::new() } else { format!(", {untrusted} UNTRUSTED") };
        let known = format!("{known} known miss{}", if known == 1 { "" } else { "es" });
        format!("{what}: {met} met, {known}, {missed} missed{untrusted}\n")
    }
}

/// Misses that reflect the machine instead of the network: of scenarios with a lab for which it had no time.
fn unmeasured(runs: &[RunSummary]) -> usize {
    if !runs.iter().filter_map(|r| r.lab.as_ref()).any(|lab| lab.distrust.iter().any(|why| why.is_of_machine())) {
        return 0;
    }
    runs.iter().flat_map(|r| &r.expect).filter(|v| v.verdict == Status::Untrusted && !v.ok && !v.known).count()
}

/// Why a scenario runs again: real time is measured in a lab, and other work on the machine may have been brief. Simulated runs would
/// only repeat themselves.
fn cause_to_repeat(runs: &[RunSummary]) -> Option<&'static str> {
    let missed = |run: &RunSummary| run.lab.is_some() && run.expect.iter().any(|v| v.verdict == Status::Miss);
    match () {
        () if unmeasured(runs) > 0 => Some("the machine had no time for the lab"),
        () if runs.iter().any(missed) => Some("an expectation was missed in the lab"),
        () => None,
    }
}

/// The scenarios that are to be checked.
#[derive(Default)]
struct Asked {
    /// Those that a world runs.
    studies: Vec<World>,
    /// Those that the planner evaluates.
    planned: Vec<PathBuf>,
}

/// A scenario that a world runs.
struct World {
    path: PathBuf,
    /// Its folder below `--out`: its place below the argument that named it.
    name: PathBuf,
    study: Study,
    estimate: Estimate,
}

/// All scenarios are read, and so checked for mistakes, before the first is run.
fn asked(args: &CheckArgs) -> Result<Asked> {
    let overrides = args.overrides()?;
    let Asked { mut studies, mut planned } = Asked::default();
    for path in &args.paths {
        let named = bundle::is_file(path);
        let files = if bundle::is_dir(path) {
            bundle::scenarios_below(path).map_err(|e| Error::io("read", path, e))?
        } else {
            vec![path.clone()]
        };
        for file in files {
            let source = Source::read(&file, &overrides)?;
            if source.is_for_planner() {
                match (source.has_expectations(), planner::is_installed()) {
                    (false, _) if named => return Err(nothing_expected(&file)),
                    (true, false) if named => return Err(planner::not_installed()),
                    (true, false) => tracing::warn!("{} is left out: `weft-planner` is not installed", file.display()),
                    (true, true) => planned.push(file),
                    (false, _) => {}
                }
                continue;
            }
            let (study, estimate) = estimate::read(source)?;
            let expects = study.is_expected();
            if !expects && named {
                return Err(nothing_expected(&file));
            }
            if !expects {
                continue;
            }
            let name = name_below(&file, path, named);
            if let (Some(other), true) = (studies.iter().find(|s| s.name == name), args.out.is_some()) {
                return Err(Error::usage(
                    format!("{} and {} would both be written to {}", other.path.display(), file.display(), name.display()),
                    "check one after the other, or name the folder above both",
                ));
            }
            studies.push(World { path: file, name, study, estimate });
        }
    }
    if studies.is_empty() && planned.is_empty() {
        return Err(Error::usage("there is no scenario with [[expect]] entries here", "name scenario files or folders"));
    }
    Ok(Asked { studies, planned })
}

fn nothing_expected(file: &Path) -> Error {
    Error::usage(
        format!("{} has no [[expect]] that matches one of its runs: nothing would be checked", file.display()),
        "add `[[expect]]` entries, or use `weft run`",
    )
}

/// A scenario's folder below `--out`: its place below the argument that named it, or below the bundle.
fn name_below(file: &Path, argument: &Path, named: bool) -> PathBuf {
    if let Some(bundled) = file.to_str().and_then(|file| file.strip_prefix('@')) {
        return Path::new(bundled).with_extension("");
    }
    let above = if named { argument.parent().unwrap_or(Path::new("")) } else { argument };
    file.strip_prefix(above).unwrap_or(file).with_extension("")
}

/// How long it will take: with `--full` each scenario, else all together if that is long.
fn announce(studies: &[World], args: &CheckArgs) {
    if args.full {
        for World { path, study, .. } in studies {
            let takes = study.source.takes.as_deref().unwrap_or("less than a minute");
            eprintln!("{}: {} runs, about {takes} on 2 cores", path.display(), study.runs.len());
        }
        return;
    }
    let threads = thread_count(args.threads);
    let is_skipped = |study: &Study| study.without_lab.is_some() && study.runs.iter().all(is_lab);
    let asked = studies.iter().filter(|asked| !is_skipped(&asked.study));
    let seconds: f64 = asked.filter_map(|asked| asked.estimate.seconds(&asked.study, threads)).sum();
    if seconds > estimate::WORTH_SAYING_S {
        eprintln!("{} on {threads} threads: {}", estimate::about(seconds), counted(studies.len(), "scenario"));
    }
}

fn is_lab(run: &Run) -> bool {
    run.scenario.world.kind == WorldKind::Lab
}

/// Labs change this machine's network namespaces as root: they are named before the first one starts.
fn announce_labs(studies: &[World]) {
    let with_lab = studies.iter().filter(|asked| asked.study.without_lab.is_none());
    let labs: Vec<(&Path, usize)> =
        with_lab.map(|asked| (&*asked.path, asked.study.runs.iter().filter(|run| is_lab(run)).count())).collect();
    eprint!("{}", lab_notice(&labs));
}

/// The notice about labs: the scenarios and how many of their runs are labs.
fn lab_notice(labs: &[(&Path, usize)]) -> String {
    let labs = labs.iter().filter(|(_, runs)| *runs > 0);
    let runs: usize = labs.clone().map(|(_, runs)| runs).sum();
    if runs == 0 {
        return String::new();
    }
    let head = format!(
        "will start {} as root, one at a time: network namespaces and daemons, removed afterwards\n",
        counted(runs, "lab")
    );
    labs.fold(head, |text, (path, runs)| text + &format!("  {} ({})\n", path.display(), counted(*runs, "run")))
}

/// `1 run`, `2 runs`.
fn counted(n: usize, noun: &str) -> String {
    format!("{n} {noun}{}", if n == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::expect::{Status, Verdict};
    use crate::metrics::Metrics;
    use crate::summary::LabSummary;
    use crate::trust::Distrust;

    /// A run with so many expectations met and missed; in a lab that is to be trusted or not, if in one.
    fn run(met: usize, missed: usize, lab: Option<bool>) -> RunSummary {
        let status = |ok| match (lab, ok) {
            (Some(false), _) => Status::Untrusted,
            (_, true) => Status::Ok,
            (_, false) => Status::Miss,
        };
        let verdict = |ok| Verdict {
            source: "a paper".to_owned(),
            metric: "goodput_bps".to_owned(),
            unit: "bps".to_owned(),
            kind: Kind::Published,
            paper: Some(1.0),
            at_least: None,
            at_most: None,
            measured: Some(1.0),
            ci95: None,
            uncertain: false,
            within: "10%".to_owned(),
            ok,
            verdict: status(ok),
            over: None,
            known: false,
            cause: None,
        };
        RunSummary {
            set: serde_json::Map::new(),
            seed: 1,
            metrics: Metrics::default(),
            ci95: Metrics::default(),
            per_seed: Vec::new(),
            comparable: true,
            overrides: Vec::new(),
            expect: (0..met + missed).map(|i| verdict(i < met)).collect(),
            notes: Vec::new(),
            search: None,
            lab: lab.map(|trusted| LabSummary {
                scale: 1.0,
                routing: "static",
                ospf: None,
                trusted,
                distrust: if trusted { Vec::new() } else { vec![Distrust::Cpu] },
                longest_wait: None,
                regime: None,
                faults: Vec::new(),
            }),
            skipped: None,
        }
    }

    /// Another run of it would change nothing.
    #[test]
    fn a_lab_unlike_the_network_described_is_not_the_machines_fault() {
        let mut unlike = run(0, 2, Some(false));
        unlike.lab.as_mut().unwrap().distrust = vec![Distrust::Queue];
        let tally = Tally::of([&unlike].into_iter().map(std::slice::from_ref));
        assert_eq!((tally.ok, tally.unmeasured, tally.untrusted), (true, 0, 2));
    }

    #[test]
    fn only_labs_run_a_second_time_after_a_miss() {
        assert_eq!(cause_to_repeat(&[run(1, 1, None)]), None, "a simulation");
        assert_eq!(cause_to_repeat(&[run(2, 0, Some(true))]), None, "a lab that met all");
        assert_eq!(cause_to_repeat(&[run(2, 0, None), run(1, 1, Some(true))]), Some("an expectation was missed in the lab"));
        assert_eq!(cause_to_repeat(&[run(1, 1, Some(false))]), Some("the machine had no time for the lab"));
    }

    #[test]
    fn labs_are_named_before_they_start() {
        let [a, b] = ["hedera/table3.toml", "vl2/lab-figure9.toml"].map(Path::new);
        assert_eq!(lab_notice(&[(a, 0)]), "");
        let text = lab_notice(&[(a, 0), (b, 2)]);
        assert!(text.starts_with("will start 2 labs as root") && text.ends_with("\n  vl2/lab-figure9.toml (2 runs)\n"), "{text}");
    }

    #[test]
    fn a_machine_that_is_too_slow_for_most_of_its_labs_fails() {
        let of = |scenarios: &[&RunSummary]| {
            let tally = Tally::of(scenarios.iter().copied().map(std::slice::from_ref));
            (tally.ok, tally.passed, tally.misses, tally.untrusted)
        };
        let simulated = run(9, 0, None);
        let (slow, good) = (run(1, 2, Some(false)), run(1, 0, Some(true)));
        assert_eq!(of(&[&simulated, &slow]), (false, 9, 0, 3), "two of three are missed");
        assert_eq!(of(&[&simulated, &slow, &good]), (true, 10, 0, 3), "half of four is not most");
        assert_eq!(of(&[&simulated, &good]), (true, 10, 0, 0));
        assert_eq!(of(&[&simulated, &run(0, 1, Some(true))]), (false, 9, 1, 0), "a miss of a machine that had time");
        assert_eq!(of(&[]), (true, 0, 0, 0));
    }
}
