//! The directory under faults, in hundreds of seeded schedules: kept ones, the first 80, and some that nobody has run before. `WEFT_SEEDS=100000` runs
//! more, `WEFT_SEED=7` one; a failed test prints the command.

mod broken;
mod checks;
mod defects;
mod final_checks;
mod herd;
mod history;
mod operators;
mod overload;
mod revocation;
mod slow_readers;
mod tenants;
mod trial;

use std::panic::{AssertUnwindSafe, catch_unwind};

use trial::{Shape, Trial};

/// Seeds that once failed.
///
/// - A commit survived the store's failure and its answer did not; when it was tried again others had written the key too often to decide, and the
///   writer, who had sent one copy only, took that for "not applied" and started again.
const KEPT: &[u64] = &[560, 620, 685, 1730, 1836, 1981, 2093, 2214, 2428, 2828];

/// Seeds that every run has; `make test-deep` has more.
const QUICK: u64 = 80;

/// Seeds of this run alone.
const FRESH: u64 = 40;

fn run(trial: impl Fn(u64) -> Trial, seed: u64) -> Result<(), String> {
    catch_unwind(AssertUnwindSafe(|| trial(seed).run())).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned().or_else(|| panic.downcast_ref::<&str>().map(|s| (*s).to_owned()));
        Err(format!("a machine panicked: {}", text.unwrap_or_default()))
    })
}

/// Seeds that no run had before, by the time of day.
#[allow(clippy::disallowed_methods)] // It is the one thing here that differs from run to run, and it is printed.
fn fresh() -> std::ops::Range<u64> {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970");
    let first = since.as_millis() as u64 * FRESH;
    first..first + FRESH
}

fn run_all(test: &str, trial: fn(u64) -> Trial, kept: &[u64], quick: u64) {
    let seeds: Vec<u64> = match number("WEFT_SEED") {
        Some(seed) => vec![seed],
        None => kept.iter().copied().chain(0..number("WEFT_SEEDS").unwrap_or(quick)).chain(fresh()).collect(),
    };
    let failed: Vec<(u64, String)> = seeds.iter().filter_map(|&seed| run(trial, seed).err().map(|error| (seed, error))).collect();
    let shown: Vec<String> = failed
        .iter()
        .take(5)
        .map(|(seed, error)| format!("WEFT_SEED={seed} cargo test -p weft-sim --test directory {test}\n  {error}"))
        .collect();
    assert!(failed.is_empty(), "{} of {} seeds failed\n{}", failed.len(), seeds.len(), shown.join("\n"));
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name} is not a number: {text}")))
}

#[test]
fn no_fault_loses_an_update_or_discloses_a_mapping() {
    run_all("no_fault_loses", Trial::new, KEPT, QUICK);
}

/// The same with agents that keep what they hold while no server answers, so that servers send them what is withdrawn when they are idle.
#[test]
fn no_fault_leaves_a_withdrawn_mapping_with_an_agent_that_subscribed() {
    run_all("no_fault_leaves", Trial::subscribing, &[], QUICK);
}

/// The same with operators that list, watch, fetch and publish documents on streams.
#[test]
fn no_fault_hides_a_change_or_loses_a_document() {
    run_all("no_fault_hides", Trial::streaming, &[], QUICK / 2);
}

/// The same with operators that change tenants' records and agents that subscribe to them.
#[test]
fn no_fault_loses_a_tenants_record_or_shows_an_older_one() {
    run_all("no_fault_loses_a_tenants", Trial::with_tenants, &[], QUICK / 2);
}

/// The same while half of the machines speak the next version of the protocol, and each another one after a restart.
#[test]
fn no_fault_of_an_upgrade_loses_an_update_or_leaves_a_mapping() {
    run_all("no_fault_of_an_upgrade", Trial::upgrading, &[], QUICK / 8);
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let trace = |seed: u64| {
        let mut trial = Trial::new(seed);
        let result = trial.run();
        (result, trial.cluster.processed(), format!("{:?}", trial.updates), format!("{:?}", trial.checks.received))
    };
    for seed in 0..5 {
        assert_eq!(trace(seed), trace(seed));
    }
    assert_ne!(trace(1).1, trace(2).1);
}

/// The machines' clock: 64 bits of picoseconds would end after 213 days; nanoseconds last 584 years.
#[test]
fn machines_run_past_213_days_and_500_years() {
    use weft_sim::directory::network::Node;
    let starts_s: [i64; 2] = [(u64::MAX / 1_000_000_000_000) as i64 - 1003, 500 * 365 * 86_400];
    for (seed, start_s) in (0..4).flat_map(|seed| starts_s.map(|start_s| (seed, start_s))) {
        let mut trial = Trial::new(seed);
        let Shape { servers, agents, writers, .. } = trial.shape;
        let nodes = (0..servers).map(Node::Server).chain((0..agents).map(Node::Agent)).chain((0..writers).map(Node::Writer));
        for node in nodes {
            // A step is a signed 64-bit number of nanoseconds, 292 years at most.
            trial.cluster.step_clock(node, start_s / 2 * 1_000_000_000);
            trial.cluster.step_clock(node, start_s / 2 * 1_000_000_000);
        }
        trial.run().unwrap_or_else(|e| panic!("seed {seed} from second {start_s}: {e}"));
    }
}

/// Streams break, changes are forgotten, and publications end in every way.
#[test]
fn operators_see_something_of_everything() {
    let mut all = [0; 9];
    for seed in 0..20 {
        let mut trial = Trial::streaming(seed);
        trial.run().unwrap_or_else(|e| panic!("WEFT_SEED={seed}: {e}"));
        let it = trial.operators.expect("operators").counts;
        let counts =
            [it.lists, it.forgotten, it.changes, it.broken, it.fetched, it.unavailable, it.committed, it.conflicts, it.unknown];
        all.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
    }
    println!("lists, forgotten, changes, broken, fetched, unavailable, committed, conflicts, unknown: {all:?}");
    assert!(all.iter().all(|&count| count > 0), "{all:?}");
}

/// Subscribers are refused and cut off, notified and answered, and changes end in every way.
#[test]
fn tenants_records_have_something_of_everything() {
    let mut all = [0; 11];
    for seed in 0..20 {
        let mut trial = Trial::with_tenants(seed);
        trial.run().unwrap_or_else(|e| panic!("WEFT_SEED={seed}: {e}"));
        let counts = trial.tenants.expect("tenants").counts.all();
        all.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
    }
    println!(
        "questions, answers, notices, forbidden, elsewhere, broken, browsed, committed, conflicts, invalid, unknown: {all:?}"
    );
    assert!(all.iter().all(|&count| count > 0), "{all:?}");
}

/// The schedules do something: most lookups are answered, updates end in every way, and faults are felt.
#[test]
fn the_schedules_have_something_of_everything() {
    use std::collections::BTreeMap;
    use weft_control::directory::attempts::UpdateResult;
    let (mut outcomes, mut found, mut resolved, mut revisions) = (BTreeMap::new(), 0, 0, 0);
    for seed in 0..60 {
        let mut trial = Trial::new(seed);
        trial.run().unwrap_or_else(|e| panic!("WEFT_SEED={}: {e}", trial.seed()));
        for asked in &trial.updates {
            let name = match asked.ended {
                None => "no answer",
                Some((_, UpdateResult::Committed(_))) => "committed",
                Some((_, UpdateResult::Conflict { .. })) => "conflict",
                Some((_, UpdateResult::Unknown)) => "unknown",
                Some((_, UpdateResult::NotApplied)) => "not applied",
                Some((_, other)) => panic!("{other:?}"),
            };
            *outcomes.entry(name).or_insert(0) += 1;
        }
        found += trial.checks.found;
        resolved += trial.checks.resolved;
        revisions += trial.cluster.store.revision().0;
    }
    println!("{outcomes:?}, {found} found of {resolved} resolved, {revisions} commits");
    for name in ["committed", "conflict", "unknown", "no answer"] {
        assert!(outcomes.get(name).is_some_and(|&n| n > 10), "{outcomes:?}");
    }
    assert!(found > 1000 && resolved > 2 * found / 3 && revisions > 1000, "{found} {resolved} {revisions}");
}
