//! The checks of streams can fail: servers and stores with deliberate faults, which a third of the seeds must find.

use weft_sim::directory::cluster::Defect;

use super::trial::Trial;
use super::{number, run};

/// Seeds of each; `WEFT_DEFECT_SEEDS=80` tries more.
const SEEDS: u64 = 12;

/// Runs trials with a fault; by what each seed found it must be one of these. How many found it.
fn found(trial: fn(u64) -> Trial, defect: Defect, words: &[&str]) {
    let seeds = number("WEFT_DEFECT_SEEDS").unwrap_or(SEEDS);
    let broken = |seed| {
        let mut trial = trial(seed);
        trial.cluster.defect = Some(defect);
        trial
    };
    let mut found = 0;
    for seed in 0..seeds {
        let Err(error) = run(broken, seed) else { continue };
        assert!(words.iter().any(|word| error.contains(word)), "seed {seed} finds something else: {error}");
        found += 1;
    }
    println!("{defect:?}: found by {found} of {seeds} seeds");
    assert!(3 * found >= seeds, "{defect:?}: found by {found} of {seeds} seeds only");
}

#[test]
fn a_lost_change_of_tenants_records_is_found() {
    found(Trial::with_tenants, Defect::LostChanges, &["Committed("]);
}

#[test]
fn a_change_over_another_version_of_a_record_is_found() {
    let words = ["between revisions", "is of no attempt", "the changes of", "the store: ", "contradicts itself"];
    found(Trial::with_tenants, Defect::IgnoredVersions, &words);
}

#[test]
fn an_older_state_of_tenants_records_is_found() {
    found(
        Trial::with_tenants,
        Defect::OldRecords,
        &["an answer of revision", "it went back", "a page of", "between revisions", "no records"],
    );
}

#[test]
fn another_tenants_record_is_found() {
    found(Trial::with_tenants, Defect::OpenTenants, &["is not to be read"]);
}

#[test]
fn a_change_that_no_subscriber_learns_of_is_found() {
    found(Trial::with_tenants, Defect::NoNotices, &["after revision"]);
}

#[test]
fn a_stale_document_is_found() {
    found(Trial::streaming, Defect::OldDocuments, &["served version", "older than 0.5 s"]);
}
