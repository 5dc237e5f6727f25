//! What the machine writes and every thread that answers lookups reads.

use std::collections::VecDeque;

use super::key::{Generation, Key};
use super::policy::Policy;
use super::table::Table;
use crate::wire::directory::{State, Vitals, Withdrawal};

/// What the machine writes and every thread that answers lookups reads. A program with several threads keeps its
/// [`Server`](super::server::Server) behind a read-write lock, and reads this.
#[derive(Clone, Debug)]
pub struct Shared {
    /// All mappings.
    pub table: Table,
    /// Who may do what.
    pub policy: Policy,
    /// What agents got under a policy of an older version than this they must look up again.
    pub confirmed_since: u32,
    /// Everything up to this revision is known.
    pub revision: Generation,
    /// How the server is.
    pub state: State,
    /// What was withdrawn lately.
    pub withdrawals: Withdrawals,
}

impl Shared {
    /// Before anything is loaded.
    pub fn new(policy: Policy, seed: u64) -> Self {
        let confirmed_since = policy.version();
        let (table, withdrawals) = (Table::new(seed), Withdrawals::default());
        Self { table, policy, confirmed_since, revision: Generation(0), state: State::Loading, withdrawals }
    }

    /// The answer to a question for health.
    pub const fn vitals(&self) -> Vitals {
        let (entries, hash) = (self.table.len() as u64, self.table.hash());
        Vitals { state: self.state, revision: self.revision, policy: self.policy.version(), entries, hash }
    }
}

/// The keys that were withdrawn lately (deleted, or given another owner or service), in order of generations.
#[derive(Clone, Debug, Default)]
pub struct Withdrawals {
    list: VecDeque<(Generation, Key)>,
    /// All that was withdrawn after this revision is in the list.
    since: Generation,
}

impl Withdrawals {
    /// Forgets everything: what was withdrawn up to `revision` is not known.
    pub fn restart(&mut self, revision: Generation) {
        self.list.clear();
        self.since = revision;
    }

    /// Adds a key; the oldest beyond [`MAX_WITHDRAWALS`] are forgotten.
    pub fn push(&mut self, generation: Generation, key: Key) {
        let place = self.list.partition_point(|&(other, _)| other <= generation);
        self.list.insert(place, (generation, key));
        if self.list.len() > MAX_WITHDRAWALS
            && let Some((oldest, _)) = self.list.pop_front()
        {
            self.since = self.since.max(oldest);
        }
    }

    /// What was withdrawn after `revision`; `None`: that is not known any more.
    pub fn after(&self, revision: Generation) -> Option<impl ExactSizeIterator<Item = Withdrawal> + '_> {
        let first = self.list.partition_point(|&(generation, _)| generation <= revision);
        let known = revision >= self.since;
        known.then(|| self.list.range(first..).map(|&(generation, key)| Withdrawal { generation, key }))
    }
}

/// Withdrawals remembered at most.
pub const MAX_WITHDRAWALS: usize = 1 << 15;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn withdrawals_are_known_back_to_the_forgotten_ones() {
        let mut withdrawals = Withdrawals::default();
        withdrawals.restart(Generation(5));
        let key = |n: u64| Key::App4((n as u32).into());
        for generation in [9, 7, 8] {
            withdrawals.push(Generation(generation), key(generation));
        }
        let list = |withdrawals: &Withdrawals, after| {
            withdrawals.after(Generation(after)).map(|list| list.map(|it| it.generation.0).collect::<Vec<_>>())
        };
        assert_eq!(list(&withdrawals, 4), None);
        assert_eq!(list(&withdrawals, 5), Some(vec![7, 8, 9]));
        assert_eq!(list(&withdrawals, 8), Some(vec![9]));
        assert_eq!(list(&withdrawals, 100), Some(vec![]));
        for generation in 10..10 + MAX_WITHDRAWALS as u64 {
            withdrawals.push(Generation(generation), key(generation));
        }
        assert_eq!(list(&withdrawals, 8), None);
        assert_eq!(list(&withdrawals, 9).map(|list| list.len()), Some(MAX_WITHDRAWALS));
    }
}
