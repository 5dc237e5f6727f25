//! Batches of updates on their way to the store.
//!
//! ```text
//!   queue --10 ms or 128 operations--> commits, so many under way, no key in two of them
//!             ^                           |
//!             +-- waits: a key is         +-- done: acknowledge, apply, notify the peers
//!                 under way               +-- conflict: decide again; who was not the cause goes again apart from who was
//!                                         +-- failed: the same again, later and later, for what it expects makes that safe
//! ```

use std::collections::{BTreeMap, VecDeque};

use rustc_hash::FxHashSet;
use smallvec::smallvec;

use super::super::key::{Generation, Key, PrincipalId, Record, UpdateId, Write};
use super::super::policy::Policy;
use super::super::store::StoreOp;
use super::super::table::Table;
use super::updates::{Basis, Decision, Pending};
use crate::time::{Duration, Instant};
use crate::wire::directory::Outcome;

/// Updates that wait, and those under way.
#[derive(Clone, Debug, Default)]
pub struct Commits {
    queue: VecDeque<Pending>,
    /// Operations that came since the queue was last gone through.
    fresh_ops: usize,
    under_way: BTreeMap<u64, Batch>,
    /// The keys under way.
    busy: FxHashSet<Key>,
    /// All updates that are here.
    ids: FxHashSet<UpdateId>,
    next: u64,
    /// When the queue is gone through.
    pub due: Option<Instant>,
    /// When those who wait for a free commit look around again.
    look_at: Instant,
}

/// One commit.
#[derive(Clone, Debug)]
struct Batch {
    /// Each with its number of operations.
    updates: Vec<(Pending, usize)>,
    ops: Vec<StoreOp>,
    /// What had been purged when its updates were decided: if more has by now, they are to be decided again.
    purged: Generation,
    retry_at: Option<Instant>,
    /// How often it failed.
    failures: u32,
}

/// A commit for the store: its number, its operations, and what had been purged when they were made.
pub type Ready = (u64, Vec<StoreOp>, Generation);

/// What came of going through the queue, or of a commit's end.
#[derive(Debug, Default)]
pub struct Steps {
    /// To be given to the store.
    pub commits: Vec<Ready>,
    /// To be answered.
    pub over: Vec<(Pending, Outcome, u8, Generation)>,
    /// Durable now.
    pub done: Vec<StoreOp>,
}

/// By what updates are decided.
#[derive(Clone, Copy, Debug)]
pub struct Grounds<'a> {
    /// What is in memory.
    pub table: &'a Table,
    /// Who may do what.
    pub policy: &'a Policy,
    /// Tombstones up to this generation may be gone.
    pub purged: Generation,
}

/// Limits of batches.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Operations of a commit.
    pub ops: usize,
    /// Commits under way.
    pub under_way: usize,
    /// How long an update waits for others.
    pub delay: Duration,
    /// How long a failed commit waits.
    pub retry_after: Duration,
}

impl Commits {
    /// A pending update, if it is here.
    pub fn find(&mut self, id: UpdateId) -> Option<&mut Pending> {
        if !self.ids.contains(&id) {
            return None;
        }
        let queued = self.queue.iter_mut().find(|pending| pending.id == id);
        let under_way = self.under_way.values_mut().flat_map(|batch| &mut batch.updates).map(|(pending, _)| pending);
        queued.or_else(|| under_way.into_iter().find(|pending| pending.id == id))
    }

    /// Updates that wait.
    pub fn queued(&self) -> usize {
        self.queue.len()
    }

    /// Commits under way.
    pub fn under_way(&self) -> usize {
        self.under_way.len()
    }

    /// Adds an update; true if the queue is to be gone through at once.
    pub fn push(&mut self, pending: Pending, limits: &Limits) -> bool {
        self.fresh_ops += pending.update.ops.len();
        self.due = Some(self.due.unwrap_or(pending.arrived.saturating_add(limits.delay)));
        self.ids.insert(pending.id);
        self.queue.push_back(pending);
        self.fresh_ops >= limits.ops
    }

    /// Takes all updates that wait out of the queue.
    pub fn give_up_queue(&mut self) -> Vec<Pending> {
        (self.due, self.fresh_ops) = (None, 0);
        for pending in &self.queue {
            self.ids.remove(&pending.id);
        }
        self.queue.drain(..).collect()
    }

    /// Goes through the queue and makes commits of it, as many as may be under way. An update waits if one of its keys is under way, or is
    /// another's that waits before it.
    pub fn flush(&mut self, now: Instant, grounds: Grounds<'_>, limits: &Limits) -> Steps {
        let mut steps = Steps::default();
        (self.due, self.fresh_ops) = (None, 0);
        let mut blocked: FxHashSet<Key> = FxHashSet::default();
        let mut waiting = Vec::new();
        let (mut batch, mut reads) = (Batch::new(grounds.purged), Batch::new(grounds.purged));
        while self.under_way.len() < limits.under_way
            && let Some(mut pending) = self.queue.pop_front()
        {
            if pending.update.ops.iter().any(|op| self.busy.contains(&op.key) || blocked.contains(&op.key)) {
                blocked.extend(pending.update.ops.iter().map(|op| op.key));
                pending.look_around(grounds.table);
                waiting.push(pending);
                continue;
            }
            let bases: Vec<Basis> = pending.update.ops.iter().map(|op| Basis::of_table(grounds.table, &op.key)).collect();
            match pending.decide(&bases, grounds.purged, grounds.policy) {
                Decision::Over(outcome, at, generation) => steps.over.push((pending, outcome, at, generation)),
                Decision::Go(ops) => self.add(&mut batch, pending, ops, limits, &mut steps),
                Decision::Ask => {
                    let ops = pending.update.ops.iter().map(|op| read(op.key)).collect();
                    self.add(&mut reads, pending, ops, limits, &mut steps);
                }
            }
        }
        self.start(batch, &mut steps);
        self.start(reads, &mut steps);
        self.look_around(now, grounds.table, limits);
        for pending in waiting.into_iter().rev() {
            self.queue.push_front(pending);
        }
        self.forget(steps)
    }

    /// Those that were not gone through look around now and then: each time would cost more than all the rest when many wait.
    fn look_around(&mut self, now: Instant, table: &Table, limits: &Limits) {
        if self.look_at <= now && !self.queue.is_empty() {
            self.look_at = now.saturating_add(limits.delay * LOOK_AROUND);
            self.queue.iter_mut().for_each(|pending| pending.look_around(table));
        }
    }

    /// When to go through the queue after a commit ended: at once if somebody has waited long enough, or as many operations wait as a commit has.
    pub fn look_again(&mut self, limits: &Limits) {
        let mut ops = self.queue.iter().scan(0, |ops, pending| {
            *ops += pending.update.ops.len();
            Some(*ops)
        });
        let wait = if ops.any(|ops| ops >= limits.ops) { Duration::ZERO } else { limits.delay };
        self.due = self.queue.front().map(|pending| pending.arrived.saturating_add(wait));
    }

    /// A commit is durable.
    pub fn done(&mut self, batch: u64, revision: Generation) -> Steps {
        let mut steps = Steps::default();
        if let Some(batch) = self.finish(batch) {
            steps.over.extend(batch.updates.into_iter().map(|(pending, _)| (pending, Outcome::Committed, 0, revision)));
            steps.done = batch.ops;
        }
        self.forget(steps)
    }

    /// A commit is a conflict: `held` is what the store holds of its keys, in order.
    pub fn conflict(
        &mut self,
        now: Instant,
        batch: u64,
        held: &[Option<(Generation, Record)>],
        grounds: Grounds<'_>,
        limits: &Limits,
    ) -> Steps {
        let mut steps = Steps::default();
        let Some(batch) = self.finish(batch) else { return steps };
        if held.len() != batch.ops.len() {
            // Not an answer to this commit: the same again.
            let batch = Batch { retry_at: Some(now.saturating_add(limits.retry_after)), ..batch };
            self.put(batch);
            return steps;
        }
        let (mut clean, mut dirty) = (Batch::new(grounds.purged), Batch::new(grounds.purged));
        let mut from = 0;
        for (mut pending, count) in batch.updates {
            let range = from..from + count;
            from = range.end;
            let as_expected = batch.ops[range.clone()].iter().zip(&held[range.clone()]).all(|(op, held)| {
                // Where there is no record, what may have been purged is part of the basis: decide again.
                held.as_ref().is_some_and(|(generation, _)| *generation == op.expect)
            });
            if as_expected {
                pending.in_doubt = false;
                self.add(&mut clean, pending, batch.ops[range].to_vec(), limits, &mut steps);
                continue;
            }
            let bases: Vec<Basis> = held[range].iter().map(|held| Basis::of_store(held.as_ref())).collect();
            match pending.decide(&bases, grounds.purged, grounds.policy) {
                Decision::Over(outcome, at, generation) => steps.over.push((pending, outcome, at, generation)),
                Decision::Go(ops) => self.add(&mut dirty, pending, ops, limits, &mut steps),
                Decision::Ask => unreachable!("what the store says suffices"),
            }
        }
        self.start(clean, &mut steps);
        self.start(dirty, &mut steps);
        self.forget(steps)
    }

    /// It is not known how a commit ended: it will be tried again, after a time that grows with each failure; `jitter`, of 0 to 255, shortens
    /// it by up to a half, so that servers do not come back all at once.
    pub fn failed(&mut self, now: Instant, batch: u64, jitter: u8, limits: &Limits) {
        if let Some(batch) = self.under_way.get_mut(&batch) {
            let wait = limits.retry_after.as_ns() << batch.failures.min(MAX_DOUBLINGS);
            batch.failures += 1;
            batch.retry_at = Some(now.saturating_add(Duration::from_ns(wait - wait.saturating_mul(u64::from(jitter)) / 512)));
            let writes = batch.writes();
            batch.updates.iter_mut().for_each(|(pending, _)| pending.in_doubt |= writes);
        }
    }

    /// The commits to be tried again now.
    pub fn retries(&mut self, now: Instant) -> Vec<Ready> {
        let due = self.under_way.iter_mut().filter(|(_, batch)| batch.retry_at.is_some_and(|at| at <= now));
        due.map(|(&number, batch)| {
            batch.retry_at = None;
            (number, batch.ops.clone(), batch.purged)
        })
        .collect()
    }

    /// When a commit is to be tried again.
    pub fn next_retry(&self) -> Option<Instant> {
        self.under_way.values().filter_map(|batch| batch.retry_at).min()
    }

    /// What is over is not here any more.
    fn forget(&mut self, steps: Steps) -> Steps {
        for (pending, ..) in &steps.over {
            self.ids.remove(&pending.id);
        }
        steps
    }

    /// Adds to a batch, starting it first if it would have too many operations, and afterwards if it is full.
    fn add(&mut self, batch: &mut Batch, pending: Pending, ops: Vec<StoreOp>, limits: &Limits, steps: &mut Steps) {
        if batch.ops.len() + ops.len() > limits.ops && !batch.ops.is_empty() {
            let full = std::mem::replace(batch, Batch::new(batch.purged));
            self.start(full, steps);
        }
        self.busy.extend(ops.iter().map(|op| op.key));
        batch.updates.push((pending, ops.len()));
        batch.ops.extend(ops);
        if batch.ops.len() >= limits.ops {
            let full = std::mem::replace(batch, Batch::new(batch.purged));
            self.start(full, steps);
        }
    }

    fn start(&mut self, batch: Batch, steps: &mut Steps) {
        if !batch.ops.is_empty() {
            let (ops, purged) = (batch.ops.clone(), batch.purged);
            steps.commits.push((self.put(batch), ops, purged));
        }
    }

    fn put(&mut self, batch: Batch) -> u64 {
        self.busy.extend(batch.ops.iter().map(|op| op.key));
        self.next += 1;
        self.under_way.insert(self.next, batch);
        self.next
    }

    fn finish(&mut self, batch: u64) -> Option<Batch> {
        let batch = self.under_way.remove(&batch)?;
        for op in &batch.ops {
            self.busy.remove(&op.key);
        }
        Some(batch)
    }
}

impl Batch {
    const fn new(purged: Generation) -> Self {
        Self { updates: Vec::new(), ops: Vec::new(), purged, retry_at: None, failures: 0 }
    }

    /// Whether it can be applied; else it only asks what the store holds.
    fn writes(&self) -> bool {
        self.ops.iter().any(|op| op.expect != NEVER)
    }
}

/// An operation that asks what the store holds: it expects a generation that no key ever has, so its commit is a conflict.
fn read(key: Key) -> StoreOp {
    let nobody = Write { update: UpdateId { writer: PrincipalId(0), number: 0 }, before: Generation(0) };
    StoreOp { key, expect: NEVER, record: Record { value: None, writes: smallvec![nobody], floor: Generation(0) } }
}

/// Those who wait look around after so many times as an update waits for others.
const LOOK_AROUND: u64 = 4;

/// How often the time before a failed commit is tried again doubles.
const MAX_DOUBLINGS: u32 = 3;

/// A generation beyond all revisions that a store has, and that it can still compare (etcd's are signed).
const NEVER: Generation = Generation(i64::MAX as u64);
