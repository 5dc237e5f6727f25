//! A change on its way into the store.
//!
//! ```text
//!   Step::Read --> StoreAnswer::Entries --> (until all is known) --> Step::Commit --> Done, or Conflict: all is read again --> Step::Done
//! ```
//! The machine has no time: the store ends each of its operations within a time of its own.

use super::plan::{Entries, Halt, Known, Op, Outcome, Plan, Reads, plan};

/// What is to be done next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Read entries, all at one revision.
    Read(Reads),
    /// Write entries, all or none.
    Commit(Plan),
    /// It is decided.
    Done(Outcome),
}

/// What the store answers to a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreAnswer {
    /// To [`Step::Read`].
    Entries(Entries),
    /// To [`Step::Commit`]: it is durable at this revision.
    Committed(u64),
    /// To [`Step::Commit`]: something is not as it was checked to be. Nothing was changed.
    Conflict,
    /// It does not answer.
    Failed,
}

/// A change of records, all or none of them.
#[derive(Debug)]
pub struct Amendment {
    ops: Vec<Op>,
    known: Known,
    reads: Reads,
    tries: usize,
}

impl Amendment {
    /// Nothing is known yet.
    pub fn new(ops: Vec<Op>) -> Self {
        Self { ops, known: Known::default(), reads: Reads::default(), tries: 0 }
    }

    /// The first step.
    pub fn begin(&mut self) -> Step {
        match plan(&self.ops, &self.known) {
            Ok(plan) if plan.writes.is_empty() => Step::Done(Outcome::Committed(self.known.revision)),
            Ok(plan) => Step::Commit(plan),
            // What was read is of two revisions, and may contradict itself: no commit would find that out.
            Err(Halt::Done(Outcome::Invalid(..))) if self.known.is_mixed => self.read_again(),
            Err(Halt::Done(outcome)) => Step::Done(outcome),
            Err(Halt::Need(reads)) => {
                self.reads = reads.clone();
                Step::Read(reads)
            }
        }
    }

    /// Reads all that is known at one revision.
    fn read_again(&mut self) -> Step {
        if self.tries + 1 >= TRIES {
            return Step::Done(Outcome::Busy);
        }
        self.tries += 1;
        self.reads = std::mem::take(&mut self.known).reads();
        Step::Read(self.reads.clone())
    }

    /// The step after the store's answer to the last one.
    pub fn next(&mut self, answer: StoreAnswer) -> Step {
        match answer {
            StoreAnswer::Entries(entries) => {
                // What was read at another revision may not belong to this one; the checks of the commit find out.
                self.known.learn(std::mem::take(&mut self.reads), entries);
                self.begin()
            }
            StoreAnswer::Committed(revision) => Step::Done(Outcome::Committed(revision)),
            StoreAnswer::Conflict if self.tries + 1 < TRIES => {
                self.tries += 1;
                self.known = Known::default();
                self.begin()
            }
            StoreAnswer::Conflict => Step::Done(Outcome::Busy),
            StoreAnswer::Failed => Step::Done(Outcome::Unknown),
        }
    }
}

/// Attempts of a change against others of the same records.
const TRIES: usize = 16;
