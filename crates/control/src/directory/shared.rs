//! What the machine writes and every thread that answers look-ups reads.

use super::key::Generation;
use super::policy::Policy;
use super::table::Table;
use crate::wire::directory::State;

/// What the machine writes and every thread that answers look-ups reads. A program with several threads keeps its
/// [`Server`](super::server::Server) behind a read-write lock, and reads this.
#[derive(Clone, Debug)]
pub struct Shared {
    /// All mappings.
    pub table: Table,
    /// Who may do what.
    pub policy: Policy,
    /// Everything up to this revision is known.
    pub revision: Generation,
    /// How the server is.
    pub state: State,
}
