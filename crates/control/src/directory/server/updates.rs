//! Updates: what is to become of each, by what is known of its keys.
//!
//! A client that hears nothing sends the same update to another server, so two copies of it may be under way. A key's record names the updates that
//! wrote it last. An update is decided by these names, and what is then committed expects the very generations by which it was decided: if a
//! copy was quicker, the commit is a conflict, and the update is decided again by what the store holds now.

use rustc_hash::FxHashMap;
use smallvec::{SmallVec, smallvec};

use super::super::key::{Generation, Key, Record, UpdateId, Value};
use super::super::policy::Policy;
use super::super::request::Client;
use super::super::store::StoreOp;
use super::super::table::{Held, History, Table};
use super::super::validity::check;
use crate::time::Instant;
use crate::wire::directory::{Op, Outcome, Update};

/// An update that has no outcome yet.
#[derive(Clone, Debug)]
pub struct Pending {
    /// Its name.
    pub id: UpdateId,
    /// What it is to do.
    pub update: Update,
    /// Who waits for the outcome: those who sent the last copies.
    pub clients: SmallVec<[Client; 1]>,
    /// When it came.
    pub arrived: Instant,
    /// For each operation: up to this generation of its key, no copy of this update was applied.
    pub clear: SmallVec<[Generation; 2]>,
    /// Whether a commit of this server may have applied it: the store did not answer, and nothing has shown since that it was not.
    pub in_doubt: bool,
}

/// What is known of a key for judging an update.
#[derive(Clone, Debug)]
pub struct Basis {
    /// Of the key, or of its tombstone; 0: there is no record.
    pub generation: Generation,
    /// What it stands for.
    pub value: Option<Value>,
    /// Its last writes; `None`: there is no record, or they are not remembered.
    pub history: Option<History>,
    /// Whether the store said so just now; else it is from memory, and may be old.
    pub from_store: bool,
}

/// What is to become of an update.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// This is its outcome.
    Over(Outcome, u8, Generation),
    /// Commit this.
    Go(Vec<StoreOp>),
    /// Memory does not suffice: ask the store.
    Ask,
}

impl Pending {
    /// An update that came now.
    pub fn new(id: UpdateId, update: Update, client: Client, arrived: Instant) -> Self {
        let clear = update.ops.iter().map(|_| update.known).collect();
        Self { id, update, clients: smallvec![client], arrived, clear, in_doubt: false }
    }

    /// Looks for itself among its keys' last writes, so that later it need not look further back than to what they are now: an update that waits
    /// for a key which many others write would else have lost sight of it when its turn comes.
    pub fn look_around(&mut self, table: &Table) {
        for (op, clear) in self.update.ops.iter().zip(&mut self.clear) {
            let Some(held) = table.held(&op.key) else { continue };
            let floor = held.history.map_or(held.generation, |history| history.floor);
            let named = held.history.is_some_and(|history| history.writes.iter().any(|write| write.update == self.id));
            if !named && floor <= *clear {
                *clear = held.generation.max(*clear);
            }
        }
    }

    /// One more copy came.
    pub fn join(&mut self, client: Client) {
        if self.clients.len() >= MAX_WAITING {
            self.clients.remove(0);
        }
        self.clients.push(client);
    }

    /// Decides it by what is known of its keys, in the order of its operations.
    pub fn decide(&mut self, bases: &[Basis], purged: Generation, policy: &Policy) -> Decision {
        if let Some(at) = bases.iter().find_map(|basis| basis.applied(self.id)) {
            return Decision::Over(Outcome::Committed, 0, at);
        }
        // All of its keys or none were written: if one was certainly not, it was not applied.
        let mut certain = false;
        for (basis, clear) in bases.iter().zip(&mut self.clear) {
            if basis.floor(purged) <= *clear {
                certain = true;
                *clear = basis.generation.max(*clear);
            }
        }
        if !certain {
            if !bases.iter().all(|basis| basis.from_store) {
                return Decision::Ask;
            }
            let outcome = if self.in_doubt { Outcome::Unknown } else { Outcome::Stale };
            return Decision::Over(outcome, 0, Generation(0));
        }
        // Commits of it that were not answered have not been applied, and cannot be any more: what they expected has changed for good, or
        // tombstones were purged since, and the store looks at that too.
        self.in_doubt = false;
        for (at, (op, basis)) in self.update.ops.iter().zip(bases).enumerate() {
            if !policy.may_update(self.id.writer, &op.key, basis.value.as_ref(), op.value.as_ref()) {
                return Decision::Over(Outcome::Refused, at as u8, Generation(0));
            }
            let present = if basis.value.is_some() { basis.generation } else { Generation(0) };
            if op.expect.is_some_and(|expect| expect != present) {
                // Memory may be behind, and the conflict of the past.
                let over = Decision::Over(Outcome::Conflict, at as u8, present);
                return if basis.from_store { over } else { Decision::Ask };
            }
        }
        let ops = self.update.ops.iter().zip(bases);
        Decision::Go(ops.map(|(op, basis)| basis.next(op, self.id, purged)).collect())
    }
}

impl Basis {
    /// What the table holds of a key.
    pub fn of_table(table: &Table, key: &Key) -> Self {
        match table.held(key) {
            None => Self { generation: Generation(0), value: None, history: None, from_store: false },
            Some(Held { generation, value, history }) => {
                Self { generation, value: value.map(|value| value.to_value()), history: history.cloned(), from_store: false }
            }
        }
    }

    /// What the store said of a key.
    pub fn of_store(stored: Option<&(Generation, Record)>) -> Self {
        match stored {
            None => Self { generation: Generation(0), value: None, history: None, from_store: true },
            Some((generation, record)) => {
                let history = History { writes: record.writes.clone(), floor: record.floor };
                Self { generation: *generation, value: record.value.clone(), history: Some(history), from_store: true }
            }
        }
    }

    /// All updates of the key after this generation are known.
    fn floor(&self, purged: Generation) -> Generation {
        match &self.history {
            Some(history) => history.floor,
            None if self.generation == Generation(0) => purged,
            None => self.generation,
        }
    }

    fn record(&self) -> Record {
        let history = self.history.clone().unwrap_or(History { writes: SmallVec::new(), floor: self.generation });
        Record { value: self.value.clone(), writes: history.writes, floor: history.floor }
    }

    /// The generation to which an update brought the key, if it did.
    fn applied(&self, update: UpdateId) -> Option<Generation> {
        self.record().applied(self.generation, update)
    }

    fn next(&self, op: &Op, update: UpdateId, purged: Generation) -> StoreOp {
        let old = (self.generation != Generation(0)).then(|| self.record());
        let record = Record::next(old.as_ref().map(|old| (old, self.generation)), purged, update, op.value.clone());
        StoreOp { key: op.key, expect: self.generation, record }
    }
}

/// The operation that makes no sense, if one does not: a key twice, a value that does not fit its key, or addresses that no host can have.
pub fn malformed(update: &Update) -> Option<u8> {
    let bad = |op: &Op| op.value.as_ref().is_some_and(|value| check(&op.key, value).is_err());
    if let [only] = &update.ops[..] {
        return bad(only).then_some(0);
    }
    let mut seen: FxHashMap<Key, ()> = FxHashMap::default();
    update.ops.iter().position(|op| bad(op) || seen.insert(op.key, ()).is_some()).map(|at| at as u8)
}

/// Copies of an update that are answered at most.
const MAX_WAITING: usize = 4;
