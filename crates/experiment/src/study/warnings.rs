//! Likely mistakes in a scenario, reported before its runs start. None of them is an error.

use std::collections::BTreeMap;

use weft_fabric::{Duration, Instant};

use crate::expect::matches;
use crate::scenario::Run;
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
