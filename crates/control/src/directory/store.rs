//! What the server machine and a store say to each other. The store itself (embedded, etcd, or a model in a simulation) is elsewhere; it owes:
//!
//! - A commit is atomic: if every operation's key has the expected generation then all are applied, at one new revision, and are durable.
//! - Revisions only grow, and a key's generation is the revision of the commit that wrote it last.
//! - A watch gives all commits after a revision, in order, or says that it cannot (a gap, a compaction): then the server reloads.

use super::key::{Generation, Key, Record};

/// Operations of one commit at most: etcd's default limit for a transaction is 128, and one of them looks at what was purged.
pub const MAX_COMMIT_OPS: usize = 127;

/// One key's change in a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreOp {
    /// The key, at most once in a commit.
    pub key: Key,
    /// The generation that it must have; 0: there must be no record of it, not even a tombstone.
    pub expect: Generation,
    /// What is to be written.
    pub record: Record,
}

/// How a commit ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommitResult {
    /// All is durable at this revision.
    Done(Generation),
    /// Nothing was applied, nor at an earlier try of the store's own. For every operation, in order, what the store holds of its key now.
    Conflict(Vec<Option<(Generation, Record)>>),
    /// It is not known whether it was applied: the store did not answer. The same commit may be tried again, for if it was applied the keys have
    /// other generations now.
    Failed,
}

/// A record as a load or a watch gives it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    /// The key.
    pub key: Key,
    /// Its generation.
    pub generation: Generation,
    /// The record; `None`: a tombstone was purged.
    pub record: Option<Record>,
}
