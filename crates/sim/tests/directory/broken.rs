//! The checks can fail: schedules whose end is tampered with as a broken store or a broken machine would leave it.

use weft_control::directory::attempts::UpdateResult;
use weft_control::directory::{Generation, Key};

use super::checks::Checks;
use super::final_checks;
use super::trial::{Trial, all_keys};

/// A seed whose schedule passes, run to its end.
fn good() -> Trial {
    let mut trial = Trial::new(1);
    trial.run().expect("a good schedule");
    trial
}

fn committed(trial: &Trial) -> usize {
    let is_put = |key: &Key, ops: &[weft_control::wire::directory::Op]| ops.iter().any(|op| op.key == *key && op.value.is_some());
    let keys = all_keys(&trial.shape);
    let ended = |at: &usize| matches!(trial.updates[*at].ended, Some((_, UpdateResult::Committed(_))));
    (0..trial.updates.len())
        .rev()
        .find(|at| ended(at) && keys.iter().any(|key| is_put(key, &trial.updates[*at].ops)))
        .expect("one")
}

#[test]
fn a_lost_update_is_found() {
    let mut trial = good();
    let at = committed(&trial);
    // Acknowledged at a generation at which the store has something else.
    let (end, _) = trial.updates[at].ended.unwrap();
    trial.updates[at].ended = Some((end, UpdateResult::Committed(Generation(1_000_000))));
    assert!(final_checks::check(&mut trial).is_err());
}

#[test]
fn an_update_that_was_applied_twice_is_found() {
    let mut trial = good();
    let log = trial.cluster.store.log_mut();
    let mut again = log[0].clone();
    again.revision = Generation(1_000_001);
    log.push(again);
    let error = final_checks::check(&mut trial).unwrap_err();
    assert!(error.contains("twice"), "{error}");
}

#[test]
fn an_update_without_an_order_is_found() {
    let mut trial = good();
    let at = committed(&trial);
    // It says that it ended before others began that the store put before it.
    let earliest = trial.updates[0].call;
    trial.updates[at].call = earliest;
    trial.updates[at].ended = trial.updates[at].ended.map(|(_, result)| (earliest, result));
    let error = final_checks::check(&mut trial).unwrap_err();
    assert!(error.contains("no order"), "{error}");
}

/// With rules that allow nothing, answers that were right become leaks.
#[test]
fn access_that_fails_open_is_found() {
    let mut trial = Trial::new(1);
    let nothing = vec![[[false; 3]; 3]; 4];
    trial.checks = Checks::new(trial.shape, nothing);
    let error = trial.run().unwrap_err();
    assert!(error.contains("on behalf of") || error.contains("nobody may know"), "{error}");
}
