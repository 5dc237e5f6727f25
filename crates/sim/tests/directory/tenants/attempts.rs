//! Changes of records and what became of them, compared with what the store did.

use std::collections::BTreeMap;

use weft_control::netlord::tenants::records::{Amendment, Name, Op, Outcome, Step, StoreAnswer};
use weft_fabric::Instant;
use weft_sim::directory::cluster::Cluster;
use weft_sim::directory::records::Records;

use super::super::history::{Action, Operation, is_linearizable};
use super::Tenants;

/// A change that an editor sends to one server, once.
#[derive(Debug)]
pub(super) struct Attempt {
    pub ops: Vec<Op>,
    pub call: Instant,
    pub ended: Option<(Instant, Outcome)>,
}

/// A record that an editor was shown.
#[derive(Debug)]
pub(super) struct Browsed {
    pub name: String,
    pub generation: u64,
    pub body: String,
    pub call: Instant,
    pub returned: Instant,
}

impl Tenants {
    pub(super) fn check_attempts(&self, cluster: &Cluster) -> Result<(), String> {
        let records = cluster.store.records();
        self.attempts.iter().try_for_each(|it| it.check(records))?;
        let commits = self.commits_of_attempts(records)?;
        let mut names: Vec<&Name> = self.attempts.iter().flat_map(|it| it.ops.iter().map(|op| &op.name)).collect();
        names.sort_unstable();
        names.dedup();
        for name in names {
            let history = self.history_of(records, &commits, name);
            if !is_linearizable(&history) {
                return Err(format!("the changes of {name} have no order: {history:#?}"));
            }
        }
        Ok(())
    }

    /// By attempt: the revision that is its. Every commit is an attempt's, as a whole; and no attempt has two.
    fn commits_of_attempts(&self, records: &Records) -> Result<Vec<Option<u64>>, String> {
        let mut commits = vec![None; self.attempts.len()];
        for (at, commit) in records.log().iter().enumerate() {
            let revision = at as u64 + 1;
            let writes = commit.writes.iter().filter(|(name, _)| is_record(name));
            let written: BTreeMap<&str, Option<&str>> = writes.map(|(name, body)| (name.as_str(), body.as_deref())).collect();
            let is = |at: &usize| {
                commits[*at].is_none() && self.attempts[*at].may_have_written(records, revision, commit.at, &written)
            };
            match (0..self.attempts.len()).find(is) {
                Some(attempt) => commits[attempt] = Some(revision),
                None => return Err(format!("revision {revision} is of no attempt, or of one that was made twice: {written:?}")),
            }
        }
        Ok(commits)
    }

    /// What editors saw of a record.
    fn history_of(&self, records: &Records, commits: &[Option<u64>], name: &Name) -> Vec<Operation> {
        let mut history = Vec::new();
        for (attempt, commit) in self.attempts.iter().zip(commits) {
            let Some(at) = attempt.ops.iter().position(|op| op.name == *name) else { continue };
            history.extend(attempt.operation(records, *commit, at));
        }
        let text = name.to_string();
        history.extend(self.browsed.iter().filter(|it| it.name == text).map(|it| Operation {
            call: it.call,
            returned: Some(it.returned),
            action: Action::Read { value: value_of(records, &text, Some(&it.body)), generation: it.generation },
        }));
        history
    }
}

impl Attempt {
    /// Whether it ended as the store did.
    pub(super) fn check(&self, records: &Records) -> Result<(), String> {
        let Some((end, outcome)) = &self.ended else { return Ok(()) };
        let (first, last) = (records.revision_at(self.call), records.revision_at(*end));
        let generation = |name: &Name, revision| records.get_at(&name.to_string(), revision).map_or(0, |(it, _)| it);
        let fits = match outcome {
            Outcome::Committed(revision) => {
                let is_there = |op: &Op| {
                    let held = records.get_at(&op.name.to_string(), *revision);
                    is_body(held.map(|(_, body)| body), op.body.as_deref())
                };
                (first..=last).contains(revision) && self.ops.iter().all(is_there)
            }
            Outcome::Conflict(at, held) => {
                let op = self.ops.get(*at).ok_or("a conflict of an op that was not sent")?;
                op.expect.is_some_and(|expect| expect != *held)
                    && (first..=last).any(|revision| generation(&op.name, revision) == *held)
            }
            Outcome::Invalid(..) => {
                (first..=last).any(|revision| !matches!(outcome_at(&records.at(revision), &self.ops), Outcome::Committed(_)))
            }
            Outcome::Busy | Outcome::Unknown => true,
        };
        if fits { Ok(()) } else { Err(format!("between revisions {first} and {last}: {self:?}")) }
    }

    /// Whether a commit can be this attempt's.
    fn may_have_written(&self, records: &Records, revision: u64, at: Instant, written: &BTreeMap<&str, Option<&str>>) -> bool {
        let may_be = match &self.ended {
            Some((end, Outcome::Committed(own))) => *own == revision && at <= *end,
            Some((_, Outcome::Unknown)) | None => true,
            Some(_) => false,
        };
        let held = |name: &Name| records.get_at(&name.to_string(), revision - 1);
        let wrote = |op: &Op| match (written.get(op.name.to_string().as_str()), &op.body) {
            (Some(body), wanted) => is_body(*body, wanted.as_deref()),
            // It was not there, so nothing was to be removed.
            (None, None) => held(&op.name).is_none(),
            (None, Some(_)) => false,
        };
        let expected = |op: &Op| op.expect.is_none_or(|expect| held(&op.name).map_or(0, |(it, _)| it) == expect);
        let names = self.ops.iter().filter(|op| written.contains_key(op.name.to_string().as_str())).count();
        may_be && self.call <= at && names == written.len() && self.ops.iter().all(|op| wrote(op) && expected(op))
    }

    /// What its op `at` did to the record, as far as is known.
    fn operation(&self, records: &Records, commit: Option<u64>, at: usize) -> Option<Operation> {
        let op = &self.ops[at];
        let name = op.name.to_string();
        let wrote = |revision: u64| {
            let is_written = records.log()[revision as usize - 1].writes.iter().any(|(written, _)| *written == name);
            let value = op.body.as_ref().map(|_| revision);
            let wrote = Action::Wrote { value, expect: op.expect, generation: revision };
            // What was not there was not removed.
            if is_written { wrote } else { Action::Read { value: None, generation: revision } }
        };
        let (returned, action) = match (&self.ended, commit) {
            (Some((end, Outcome::Committed(_))), Some(revision)) => (Some(*end), wrote(revision)),
            (Some((end, Outcome::Committed(revision))), None) => {
                (Some(*end), Action::Read { value: None, generation: *revision })
            }
            (Some((end, Outcome::Conflict(cause, generation))), _) if *cause == at => {
                (Some(*end), Action::Conflicted { expect: op.expect.unwrap_or(u64::MAX), generation: *generation })
            }
            (Some((_, Outcome::Unknown)) | None, Some(revision)) => (None, wrote(revision)),
            // The store has no commit of it.
            _ => return None,
        };
        Some(Operation { call: self.call, returned, action })
    }
}

/// What stands for a body, which is like no other: the revision that wrote it. `None`: it was never written.
fn value_of(records: &Records, name: &str, body: Option<&str>) -> Option<u64> {
    let body = body?;
    let is = |(written, text): &(String, Option<String>)| written == name && is_body(text.as_deref(), Some(body));
    let at = records.log().iter().position(|commit| commit.writes.iter().any(is))?;
    Some(at as u64 + 1)
}

/// Whether the store has what was asked for. A tenant that is being removed stays so.
fn is_body(held: Option<&str>, wanted: Option<&str>) -> bool {
    held == wanted || held.zip(wanted).is_some_and(|(held, wanted)| held.strip_suffix("closing = true\n") == Some(wanted))
}

/// Whether an entry is a record, and not of the store alone.
fn is_record(name: &str) -> bool {
    name.parse::<Name>().is_ok()
}

/// What a change would come to if nothing else happened.
fn outcome_at(records: &Records, ops: &[Op]) -> Outcome {
    let mut records = records.clone();
    let mut amendment = Amendment::new(ops.to_vec());
    let mut step = amendment.begin();
    loop {
        step = match step {
            Step::Read(reads) => amendment.next(StoreAnswer::Entries(records.read(&reads))),
            Step::Commit(plan) => {
                let revision = records.commit(Instant::ZERO, &plan);
                amendment.next(revision.map_or(StoreAnswer::Conflict, StoreAnswer::Committed))
            }
            Step::Done(outcome) => return outcome,
        };
    }
}
