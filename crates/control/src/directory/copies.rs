//! What the copies of one update say together (`docs/protocol-directory.md`, "Update"). A server speaks of the copy that it was sent; it speaks of
//! the update only if no other copy can have been applied, or be applied yet. No I/O.
//!
//! ```text
//!            sent                          an outcome: over, or another server, or anew
//!   nothing ------> alive ---------------------------------------------------------------> dead
//!                     |  '---- elsewhere, stale, a challenge to no cookie, never left ------^
//!                     '------- a challenge to a cookie, a broken stream ---> lost: it stays in doubt for good
//! ```
//! A copy is dead if it has not been and will not be applied. A server says so by *elsewhere* and *stale*. A challenge says so only of a copy
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

/// What an acknowledgement of one copy means for the update.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It has ended.
    Over(UpdateResult),
    /// This copy is dead: another server may take the next.
    Elsewhere,
    /// All copies are dead, and what was known before is too old: begin anew with another number and a revision that is asked for now.
    Anew,
}

/// The copies of one update, each with what tells it from the others.
#[derive(Clone, Debug)]
pub struct Copies<C> {
    /// Those that may have been applied, or may yet be, and of which something may still be heard.
    alive: Vec<C>,
    /// Whether there was one of which nothing will be heard any more, and which is not known to be dead.
    has_lost: bool,
}

impl<C: PartialEq> Copies<C> {
    /// Of an update that was not sent before.
    pub const fn new() -> Self {
        Self { alive: Vec::new(), has_lost: false }
    }

    /// Of an update that was sent before by somebody who did not hear what became of it.
    pub const fn in_doubt() -> Self {
        Self { alive: Vec::new(), has_lost: true }
    }

    /// A copy goes out.
    pub fn sent(&mut self, copy: C) {
        self.alive.push(copy);
    }

    /// Those of which something may still be heard.
    pub fn alive(&self) -> &[C] {
        &self.alive
    }

    /// A copy has not been and will not be applied: it never left, or its server said so.
    pub fn dead(&mut self, copy: &C) {
        self.alive.retain(|it| it != copy);
    }

    /// Nothing more will be heard of a copy, which may have been taken.
    pub fn lost(&mut self, copy: &C) {
        self.dead(copy);
        self.has_lost = true;
    }

    /// A copy was answered by a challenge.
    pub fn challenged(&mut self, copy: &C, had_cookie: bool) {
        if had_cookie { self.lost(copy) } else { self.dead(copy) }
    }

    /// A server says what became of a copy.
    pub fn judge(&mut self, copy: &C, said: &Acknowledgement) -> Verdict {
        self.dead(copy);
        let result = match said.outcome {
            Outcome::Committed => UpdateResult::Committed(said.generation),
            Outcome::Elsewhere => return Verdict::Elsewhere,
            _ if !self.all_dead() => UpdateResult::Unknown,
            Outcome::Stale => return Verdict::Anew,
            Outcome::Conflict => UpdateResult::Conflict { at: said.at, generation: said.generation },
            Outcome::Refused => UpdateResult::Refused(said.at),
            Outcome::Malformed => UpdateResult::Malformed(said.at),
            // The store did not answer: this copy itself may have been applied.
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

impl<C: PartialEq> Default for Copies<C> {
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

    fn sent(copies: &[u8]) -> Copies<u8> {
        let mut all = Copies::new();
        copies.iter().for_each(|&copy| all.sent(copy));
        all
    }

    const OF_ONE_COPY: [(Outcome, Verdict); 5] = [
        (Outcome::Refused, Verdict::Over(UpdateResult::Refused(2))),
        (Outcome::Conflict, Verdict::Over(UpdateResult::Conflict { at: 2, generation: Generation(7) })),
        (Outcome::Elsewhere, Verdict::Elsewhere),
        (Outcome::Malformed, Verdict::Over(UpdateResult::Malformed(2))),
        (Outcome::Stale, Verdict::Anew),
    ];

    #[test]
    fn of_the_only_copy_every_outcome_holds() {
        for (outcome, verdict) in OF_ONE_COPY {
            assert_eq!(sent(&[1]).judge(&1, &said(outcome)), verdict);
        }
    }

    #[test]
    fn with_another_alive_or_lost_nobody_knows() {
        let mut lost = sent(&[1, 2]);
        lost.lost(&1);
        let mut challenged = sent(&[1, 2]);
        challenged.challenged(&1, true);
        let mut earlier = Copies::in_doubt();
        earlier.sent(2);
        for copies in [sent(&[1, 2]), lost, challenged, earlier] {
            for (outcome, verdict) in OF_ONE_COPY {
                let expected = if verdict == Verdict::Elsewhere { verdict } else { Verdict::Over(UpdateResult::Unknown) };
                let mut copies = copies.clone();
                assert_eq!(copies.judge(&2, &said(outcome)), expected);
                assert_eq!(copies.given_up(), UpdateResult::Unknown);
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
        assert_eq!(elsewhere.judge(&1, &said(Outcome::Elsewhere)), Verdict::Elsewhere);
        for copies in [unsent, challenged, elsewhere] {
            for (outcome, verdict) in OF_ONE_COPY {
                assert_eq!(copies.clone().judge(&2, &said(outcome)), verdict);
            }
        }
    }

    #[test]
    fn committed_and_unknown_are_final_whichever_copy_they_answer() {
        for copies in [sent(&[1]), sent(&[1, 2]), Copies::in_doubt()] {
            let committed = copies.clone().judge(&1, &said(Outcome::Committed));
            assert_eq!(committed, Verdict::Over(UpdateResult::Committed(Generation(7))));
            assert_eq!(copies.clone().judge(&1, &said(Outcome::Unknown)), Verdict::Over(UpdateResult::Unknown));
        }
    }

    #[test]
    fn given_up_it_was_not_applied_only_if_every_copy_is_dead() {
        assert_eq!(Copies::<u8>::new().given_up(), UpdateResult::NotApplied);
        assert_eq!(Copies::<u8>::in_doubt().given_up(), UpdateResult::Unknown);
        let mut copies = sent(&[1, 2]);
        copies.judge(&1, &said(Outcome::Elsewhere));
        assert_eq!(copies.given_up(), UpdateResult::Unknown);
        copies.judge(&2, &said(Outcome::Elsewhere));
        assert_eq!(copies.given_up(), UpdateResult::NotApplied);
    }
}
