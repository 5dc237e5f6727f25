//! What the machine writes and every thread that answers lookups reads.

use rustc_hash::FxHashSet;

use super::key::{Generation, PrincipalId};
use super::policy::Policy;
use super::table::Table;
use super::withdrawals::Withdrawals;
use crate::wire::directory::{State, Vitals};

/// What the machine writes and every thread that answers lookups reads. A program with several threads keeps its
/// [`Server`](super::server::Server) behind a read-write lock, and reads this.
#[derive(Clone, Debug)]
pub struct Shared {
    /// All mappings.
    pub table: Table,
    /// Who may do what.
    pub policy: Policy,
    /// Principals whose keys and certificates are worth nothing, whatever the policy says.
    pub denied: FxHashSet<PrincipalId>,
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
        Self {
            table,
            policy,
            denied: FxHashSet::default(),
            confirmed_since,
            revision: Generation(0),
            state: State::Loading,
            withdrawals,
        }
    }

    /// The answer to a question for health.
    pub const fn vitals(&self) -> Vitals {
        let (entries, hash) = (self.table.len() as u64, self.table.hash());
        Vitals { state: self.state, revision: self.revision, policy: self.policy.version(), entries, hash }
    }
}
