//! Likely mistakes in a scenario, reported before its runs start. None of them is an error.

use std::collections::BTreeMap;

use weft_control::subways::Ring;
use weft_fabric::{Duration, Fabric, Instant};

use crate::expect::matches;
use crate::scenario::Run;
use crate::scenario::control::{READERS, Reader, Scheduler};
use crate::scenario::dotted::get;
use crate::scenario::source::Source;
use crate::scenario::world::Event;

/// Warns of arrivals beyond what a NIC can carry: queues that can only grow are rarely intended. `loads` holds the offered loads of
/// the runs that have one.
pub fn warn_overload(runs: usize, loads: &[f64]) {
    let beyond: Vec<f64> = loads.iter().copied().filter(|&load| load > 1.0 + 1e-9).collect();
    if let Some(worst) = beyond.iter().copied().reduce(f64::max) {
        let which = if runs > 1 { format!(" in {} of {runs} runs", beyond.len()) } else { String::new() };
        tracing::warn!(
            "the arrivals ask a NIC for {:.0} % of what it can carry{which}: flows pile up as long as they arrive; lower `load` or `rate`",
            worst * 100.0
        );
    }
}

/// Warns of expectations that nothing is compared with: a slip in `where` or `over`.
pub fn warn_idle_expectations(source: &Source, runs: &[Run]) {
    let any = |settings: &[(String, toml::Value)]| runs.iter().any(|run| matches(&run.variant.table, settings));
    for (i, expect) in runs[0].scenario.expect.iter().enumerate() {
        let (number, name) = (i + 1, &expect.source);
        let applies = any(&expect.conditions);
        if source.is_plain() && !applies {
            tracing::warn!("[[expect]] number {number} ({name}) matches no run: check its `where`");
        }
        if applies && expect.over.as_ref().is_some_and(|over| !any(over)) {
            tracing::warn!(
                "[[expect]] number {number} ({name}): no run has the settings of its `over`, so there is nothing to divide by"
            );
        }
    }
}

/// Warns of settings that no run reads.
pub fn warn_idle_settings(source: &Source, runs: &[Run]) {
    for Reader { key, needs, reads } in READERS {
        let mut given = runs.iter().filter(|run| get(&run.variant.table, key).is_some()).peekable();
        if given.peek().is_some() && !given.any(|run| reads(&run.scenario)) {
            tracing::warn!(
                "{}: `{}` has no effect: it needs {needs}",
                source.place_of(key).0,
                key.rsplit('.').next().unwrap_or(key)
            );
        }
    }
}

/// Warns of keys that need another one in their table, which may be one of several: `place` of hosts that are not chosen.
pub fn warn_idle_places(source: &Source, runs: &[Run]) {
    let most = runs.iter().filter_map(|run| run.variant.table.get("traffic")?.as_array()).map(Vec::len).max();
    let tables = std::iter::once("traffic".to_owned()).chain((0..most.unwrap_or(0)).map(|i| format!("traffic[{i}]")));
    for table in tables {
        let key = format!("{table}.place");
        let has = |run: &Run, key: &str| get(&run.variant.table, key).is_some();
        let mut given = runs.iter().filter(|run| has(run, &key)).peekable();
        if given.peek().is_some() && !given.any(|run| has(run, &format!("{table}.hosts"))) {
            tracing::warn!("{}: `place` has no effect: it needs `hosts`, a number of them", source.place_of(&key).0);
        }
    }
}

/// Warns of a scheduler on a fabric with a single path between any two hosts, unless the sweep compares it with another fabric.
pub fn warn_idle_scheduler(source: &Source, runs: &[Run]) {
    let mut scheduled = runs.iter().filter(|run| run.scenario.control.scheduler != Scheduler::None).peekable();
    if scheduled.peek().is_some() && scheduled.all(|run| run.scenario.fabric.is_switch()) {
        tracing::warn!(
            "{}: `scheduler` has no effect: on one switch there is a single path between any two hosts; choose another `kind` in [fabric]",
            source.place_of("control.scheduler").0
        );
    }
}

/// Warns of a table that only `weft analyze` reads.
pub fn warn_failure_log(source: &Source, runs: &[Run]) {
    if runs.iter().any(|run| run.variant.table.contains_key("failures")) {
        tracing::warn!(
            "{}: [failures] has no effect: `weft analyze failures` reads it; write [[event]] for what fails in a run",
            source.place_of("failures").0
        );
    }
}

/// What there is for Subways' controllers on the fabric of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Loops {
    /// No server is on several ToRs.
    None,
    /// No loop has a ToR that is not its racks' own.
    Short,
    /// Some ToR is remote for some rack.
    Long,
}

impl Loops {
    /// The loops of a fabric.
    pub fn of(fabric: &Fabric) -> Self {
        let rings = Ring::all(fabric);
        let long = |ring: &Ring| ring.tors.len() > ring.ports;
        if rings.is_empty() {
            Self::None
        } else if rings.iter().any(long) {
            Self::Long
        } else {
            Self::Short
        }
    }
}

/// Warns of controllers of Subways that have nothing to control; `loops` holds what the fabrics of their runs have, by scheduler.
pub fn warn_no_loops(source: &Source, loops: &[(Scheduler, Loops)]) {
    let count = |of: &dyn Fn(&(Scheduler, Loops)) -> bool| loops.iter().filter(|it| of(it)).count();
    let place = || source.place_of("control.scheduler").0;
    let none = count(&|it| it.1 == Loops::None);
    if none > 0 {
        let which =
            if loops.len() > 1 { format!(" in {none} of the {} runs with such a scheduler", loops.len()) } else { String::new() };
        tracing::warn!(
            "{}: `scheduler = \"adaptive\"` and `\"detour\"` have no effect{which}: the fabric has no loops, for no server is on several ToRs; \
             choose kind = \"subways\" with type 1 or 2, or another scheduler",
            place()
        );
    }
    let detours = count(&|it| it.0 == Scheduler::Detour);
    if detours > 0 && none == 0 && count(&|it| *it == (Scheduler::Detour, Loops::Long)) == 0 {
        tracing::warn!(
            "{}: `scheduler = \"detour\"` has the effect of `\"adaptive\"`: a loop that is no longer than its servers have ports has no remote \
             ToR; choose a longer `loop`",
            place()
        );
    }
}

/// Warns of events at or after the end of their run. `end_of` is the end of a run, if it is known and concerns the event.
pub fn warn_late_events(source: &Source, runs: &[Run], end_of: impl Fn(usize, &Event) -> Option<Instant>) {
    let mut late: BTreeMap<(Instant, &str, String), Vec<Instant>> = BTreeMap::new();
    for (i, run) in runs.iter().enumerate() {
        for event in &run.scenario.events {
            if let Some(end) = end_of(i, event).filter(|&end| end <= event.at) {
                let what = format!("`{} = \"{}\"`", event.kind.key(), event.part);
                late.entry((event.at, &event.key, what)).or_default().push(end);
            }
        }
    }
    // Picoseconds of a last flow's end are of no interest.
    let span = |at: Instant| match at.saturating_since(Instant::ZERO) {
        long if long >= Duration::from_secs(1) => Duration::from_ms(long.as_ps() / PS_PER_MS),
        short => short,
    };
    for ((at, key, what), ends) in late {
        let (place, at, last) =
            (source.place_of(key).0, span(at), ends.iter().copied().max().map_or_else(String::new, |it| span(it).to_string()));
        let when = match runs.len() {
            1 => format!("does not happen: the run ends at {last}"),
            all => format!("does not happen in {} of {all} runs, which end at {last} at the latest", ends.len()),
        };
        tracing::warn!("{place}: {what} at {at} {when}; let it be earlier, or the run longer");
    }
}

const PS_PER_MS: u64 = 1_000_000_000;
