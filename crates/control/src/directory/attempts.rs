//! What the attempts of one update say together (`docs/protocol-directory.md`, "Update"). A server speaks of the attempt that it was sent; it speaks of
//! the update only if no other attempt can have been applied, or be applied yet. No I/O.
//!
//! ```text
//!            sent                          an outcome: over, or another server, or restart
//!   nothing ------> alive ---------------------------------------------------------------> dead
//!                     |  '---- elsewhere, stale, a challenge to no cookie, never left ------^
//!                     '------- a challenge to a cookie, a broken stream ---> lost: it stays in doubt for good
//! ```
//! An attempt is dead if it has not been and will not be applied. A server says so by *elsewhere* and *stale*. A challenge says so only of an attempt
//! without a cookie: one with the cookie of a server's earlier life may have been taken then, if the network delivered it twice.

use super::key::Generation;
use crate::wire::directory::{Acknowledgement, Outcome};

/// How an update ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpdateResult {
    /// It is durable, at this generation.
    Committed(Generation),
    /// The writer may not do that; the operation that was the cause.
    Refused(u8),
    /// The key of operation `at` has another generation than expected: this one.
    Conflict {
        /// The operation, from 0.
        at: u8,
        /// The key's generation.
        generation: Generation,
    },
    /// It makes no sense; the operation that was the cause.
    Malformed(u8),
    /// No server could take it: it has not been and will not be applied.
    NotApplied,
    /// Nobody knows whether it has been or will be applied.
    Unknown,
}

/// What an acknowledgement of one attempt means for the update.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It has ended.
    Over(UpdateResult),
    /// This attempt is dead: another server may take the next.
    Elsewhere,
    /// All attempts are dead, and what was known before is too old: restart with another number and a revision that is asked for now.
    Restart,
}

/// The attempts of one update, each with what distinguishes it from the others.
#[derive(Clone, Debug)]
pub struct Attempts<C> {
    /// Those that may have been applied, or may yet be, and of which something may still be heard.
    alive: Vec<C>,
    /// Whether there was one of which nothing will be heard any more, and which is not known to be dead.
    has_lost: bool,
}

impl<C: PartialEq> Attempts<C> {
    /// Of an update that was not sent before.
    pub const fn new() -> Self {
        Self { alive: Vec::new(), has_lost: false }
    }

    /// Of an update that was sent before by somebody who did not hear what became of it.
    pub const fn in_doubt() -> Self {
        Self { alive: Vec::new(), has_lost: true }
    }

    /// An attempt goes out.
    pub fn sent(&mut self, attempt: C) {
        self.alive.push(attempt);
    }

    /// Those of which something may still be heard.
    pub fn alive(&self) -> &[C] {
        &self.alive
    }

    /// An attempt has not been and will not be applied: it never left, or its server said so.
    pub fn dead(&mut self, attempt: &C) {
        self.alive.retain(|it| it != attempt);
    }

    /// Nothing more will be heard of an attempt, which may have been taken.
    pub fn lost(&mut self, attempt: &C) {
        self.dead(attempt);
        self.has_lost = true;
    }

    /// An attempt was answered by a challenge.
    pub fn challenged(&mut self, attempt: &C, had_cookie: bool) {
        if had_cookie { self.lost(attempt) } else { self.dead(attempt) }
    }

    /// A server says what became of an attempt.
    pub fn assess(&mut self, attempt: &C, said: &Acknowledgement) -> Verdict {
        self.dead(attempt);
        let result = match said.outcome {
            Outcome::Committed => UpdateResult::Committed(said.generation),
            Outcome::Elsewhere => return Verdict::Elsewhere,
            _ if !self.all_dead() => UpdateResult::Unknown,
            Outcome::Stale => return Verdict::Restart,
            Outcome::Conflict => UpdateResult::Conflict { at: said.at, generation: said.generation },
            Outcome::Refused => UpdateResult::Refused(said.at),
            Outcome::Malformed => UpdateResult::Malformed(said.at),
            // The store did not answer: this attempt itself may have been applied.
            Outcome::Unknown => UpdateResult::Unknown,
        };
        Verdict::Over(result)
    }

    /// How it ends if nobody waits for it any longer.
    pub fn given_up(&self) -> UpdateResult {
        if self.all_dead() { UpdateResult::NotApplied } else { UpdateResult::Unknown }
    }

    fn all_dead(&self) -> bool {
        self.alive.is_empty() && !self.has_lost
    }
}

impl<C: PartialEq> Default for Attempts<C> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(outcome: Outcome) -> Acknowledgement {
        Acknowledgement { number: 1, outcome, at: 2, generation: Generation(7) }
    }

    fn sent(attempts: &[u8]) -> Attempts<u8> {
        let mut all = Attempts::new();
        attempts.iter().for_each(|&attempt| all.sent(attempt));
        all
    }

    const OF_ONE_ATTEMPT: [(Outcome, Verdict); 5] = [
        (Outcome::Refused, Verdict::Over(UpdateResult::Refused(2))),
        (Outcome::Conflict, Verdict::Over(UpdateResult::Conflict { at: 2, generation: Generation(7) })),
        (Outcome::Elsewhere, Verdict::Elsewhere),
        (Outcome::Malformed, Verdict::Over(UpdateResult::Malformed(2))),
        (Outcome::Stale, Verdict::Restart),
    ];

    #[test]
    fn of_the_only_attempt_every_outcome_holds() {
        for (outcome, verdict) in OF_ONE_ATTEMPT {
            assert_eq!(sent(&[1]).assess(&1, &said(outcome)), verdict);
        }
    }

    #[test]
    fn with_another_alive_or_lost_nobody_knows() {
        let mut lost = sent(&[1, 2]);
        lost.lost(&1);
        let mut challenged = sent(&[1, 2]);
        challenged.challenged(&1, true);
        let mut earlier = Attempts::in_doubt();
        earlier.sent(2);
        for attempts in [sent(&[1, 2]), lost, challenged, earlier] {
            for (outcome, verdict) in OF_ONE_ATTEMPT {
                let expected = if verdict == Verdict::Elsewhere { verdict } else { Verdict::Over(UpdateResult::Unknown) };
                let mut attempts = attempts.clone();
                assert_eq!(attempts.assess(&2, &said(outcome)), expected);
                assert_eq!(attempts.given_up(), UpdateResult::Unknown);
            }
        }
    }

    #[test]
    fn with_all_others_dead_every_outcome_holds() {
        let mut unsent = sent(&[1, 2]);
        unsent.dead(&1);
        let mut challenged = sent(&[1, 2]);
        challenged.challenged(&1, false);
        let mut elsewhere = sent(&[1, 2]);
        assert_eq!(elsewhere.assess(&1, &said(Outcome::Elsewhere)), Verdict::Elsewhere);
        for attempts in [unsent, challenged, elsewhere] {
            for (outcome, verdict) in OF_ONE_ATTEMPT {
                assert_eq!(attempts.clone().assess(&2, &said(outcome)), verdict);
            }
        }
    }

    #[test]
    fn committed_and_unknown_are_final_whichever_attempt_they_answer() {
        for attempts in [sent(&[1]), sent(&[1, 2]), Attempts::in_doubt()] {
            let committed = attempts.clone().assess(&1, &said(Outcome::Committed));
            assert_eq!(committed, Verdict::Over(UpdateResult::Committed(Generation(7))));
            assert_eq!(attempts.clone().assess(&1, &said(Outcome::Unknown)), Verdict::Over(UpdateResult::Unknown));
        }
    }

    #[test]
    fn given_up_it_was_not_applied_only_if_every_attempt_is_dead() {
        assert_eq!(Attempts::<u8>::new().given_up(), UpdateResult::NotApplied);
        assert_eq!(Attempts::<u8>::in_doubt().given_up(), UpdateResult::Unknown);
        let mut attempts = sent(&[1, 2]);
        attempts.assess(&1, &said(Outcome::Elsewhere));
        assert_eq!(attempts.given_up(), UpdateResult::Unknown);
        attempts.assess(&2, &said(Outcome::Elsewhere));
        assert_eq!(attempts.given_up(), UpdateResult::NotApplied);
    }
}
