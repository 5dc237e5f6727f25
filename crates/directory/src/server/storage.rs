//! Between the machine and the store: commits, the load and the watch behind it, whether the store is there, and the removal of old tombstones.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use weft_control::directory::server::{Input, LoadEnd};
use weft_control::directory::store::{CommitResult, StoreOp};
use weft_control::directory::{Generation, Key};

use super::core::Core;
use crate::store::{AnyStore, Store, StoreError, Watch, WatchEvent};

/// How often the store is asked whether it is well.
const PING: Duration = Duration::from_millis(500);

/// Before a load that failed is tried again.
const PAUSE: Duration = Duration::from_millis(200);

/// The store, as the machine uses it.
pub struct Storage {
    store: AnyStore,
    tasks: Handle,
    health: Arc<Health>,
    loading: Option<JoinHandle<()>>,
}

/// Whether the store answers.
#[derive(Default)]
struct Health {
    /// Locked until the machine's inbox has what changed: it must hear of changes in their order.
    lost: Mutex<bool>,
    replaced: AtomicBool,
    full: AtomicBool,
    newest: AtomicU64,
}

impl Storage {
    /// Starts to maintain a store.
    pub fn new(core: &Arc<Core>, store: AnyStore, tasks: Handle) -> Self {
        let health = Arc::new(Health::default());
        tasks.spawn(ping(core.clone(), store.clone(), health.clone()));
        Self { store, tasks, health, loading: None }
    }

    /// The newest revision that the store is known to have.
    pub fn newest(&self) -> u64 {
        self.health.newest.load(Ordering::Relaxed)
    }

    /// Commits, and reports the result to the machine.
    pub fn commit(&self, core: &Arc<Core>, batch: u64, ops: Vec<StoreOp>, purged: Generation) {
        core.commits.fetch_add(1, Ordering::AcqRel);
        let (core, store, health) = (core.clone(), self.store.clone(), self.health.clone());
        self.tasks.spawn(async move {
            let begun = Instant::now();
            let committed = store.commit(ops, purged).await;
            core.metrics.commit_seconds.record(begun.elapsed());
            match committed.result {
                // What the store said is in the log already.
                CommitResult::Failed => health.failed(&core, None),
                CommitResult::Done(revision) => health.answered(&core, revision),
                CommitResult::Conflict(_) => health.answered(&core, Generation(0)),
            }
            core.post(Input::Committed { batch, result: committed.result, purged: committed.purged });
            core.commits.fetch_sub(1, Ordering::AcqRel);
        });
    }

    /// Removes old tombstones. Those that cannot be removed now come again with the next load.
    pub fn purge(&self, tombstones: Vec<(Key, Generation)>) {
        let store = self.store.clone();
        self.tasks.spawn(async move {
            match store.purge(tombstones).await {
                Ok(removed) => tracing::info!(removed, "old tombstones are purged"),
                Err(error) => tracing::warn!(%error, "old tombstones cannot be purged"),
            }
        });
    }

    /// Loads everything and watches from there; an earlier load or watch ends.
    pub fn load(&mut self, core: &Arc<Core>, load: u64) {
        if let Some(earlier) = self.loading.take() {
            earlier.abort();
        }
        let feed = Feed { core: core.clone(), store: self.store.clone(), health: self.health.clone() };
        self.loading = Some(self.tasks.spawn(async move { feed.run(load).await }));
    }
}

impl Drop for Storage {
    fn drop(&mut self) {
        if let Some(loading) = self.loading.take() {
            loading.abort();
        }
    }
}

impl Health {
    fn failed(&self, core: &Core, why: Option<&StoreError>) {
        core.metrics.store_errors.increment(1);
        if let Some(error @ StoreError::Replaced(_)) = why
            && !self.replaced.swap(true, Ordering::AcqRel)
        {
            tracing::error!(%error, "the store was replaced: no update is taken any more, lookups are answered from memory");
        }
        if let Some(error @ StoreError::Full(_)) = why
            && !self.full.swap(true, Ordering::AcqRel)
        {
            tracing::error!(%error, "no update is taken until there is room");
        }
        let mut lost = self.lost.lock();
        if !std::mem::replace(&mut *lost, true) {
            tracing::error!("the store does not answer; lookups are answered from memory");
            core.post(Input::StoreLost);
        }
    }

    fn answered(&self, core: &Core, revision: Generation) {
        self.newest.fetch_max(revision.0, Ordering::Relaxed);
        let mut lost = self.lost.lock();
        if std::mem::replace(&mut *lost, false) {
            self.full.store(false, Ordering::Release);
            tracing::info!("the store answers again");
            core.post(Input::StoreBack);
        }
    }
}

/// One load with the watch behind it.
struct Feed {
    core: Arc<Core>,
    store: AnyStore,
    health: Arc<Health>,
}

impl Feed {
    async fn run(&self, load: u64) {
        let mut wait = PAUSE;
        let end = loop {
            match self.everything(load).await {
                Ok(end) => break end,
                Err(error) => {
                    tracing::warn!(%error, "a load failed; it is tried again");
                    self.health.failed(&self.core, Some(&error));
                    tokio::time::sleep(wait).await;
                    wait = (wait * 2).min(Duration::from_secs(2));
                }
            }
        };
        match self.store.watch(end.revision).await {
            Ok(watch) => self.follow(watch, end.revision).await,
            Err(error) => tracing::warn!(%error, "the store cannot be watched"),
        }
        self.post(Input::WatchLost);
    }

    /// The whole store, in one piece of input after another. A load that breaks midway has given the machine nothing wrong: what it had is at
    /// least as old as what the next try brings.
    async fn everything(&self, load: u64) -> Result<LoadEnd, StoreError> {
        let mut loading = self.store.load().await?;
        let end = LoadEnd { revision: loading.revision, purged: loading.purged };
        while let Some(entries) = loading.chunks.recv().await {
            self.post(Input::Loaded { load, entries: entries?, end: None });
        }
        self.health.answered(&self.core, end.revision);
        self.post(Input::Loaded { load, entries: Vec::new(), end: Some(end) });
        Ok(end)
    }

    async fn follow(&self, mut watch: Watch, after: Generation) {
        let mut from = after;
        while let Some(event) = watch.next().await {
            let (revision, changes) = match event {
                WatchEvent::Changes { revision, changes, .. } => (revision, changes),
                WatchEvent::Progress(revision) => (revision, Vec::new()),
                WatchEvent::Gap(why) => {
                    tracing::warn!(why, "the watch has a gap; everything is reloaded");
                    return;
                }
            };
            self.health.newest.fetch_max(revision.0, Ordering::Relaxed);
            self.post(Input::Watched { from, revision, changes });
            from = revision;
        }
    }

    fn post(&self, input: Input) {
        self.core.post(input);
    }
}

async fn ping(core: Arc<Core>, store: AnyStore, health: Arc<Health>) {
    loop {
        tokio::time::sleep(PING).await;
        match store.status().await {
            Ok(status) => health.answered(&core, status.revision),
            Err(error) => {
                tracing::debug!(%error, "the store is not well");
                health.failed(&core, Some(&error));
            }
        }
    }
}

/// Keeps as much history in the store as a server needs to go on after its watch was interrupted: that of the last `retention`. Several servers may do so.
pub async fn compact(store: AnyStore, retention: Duration) {
    // When the store was at which revision, oldest first.
    let mut seen: VecDeque<(Instant, Generation)> = VecDeque::new();
    let every = (retention / COMPACTIONS).max(Duration::from_secs(1));
    loop {
        tokio::time::sleep(every).await;
        let mut before = None;
        match store.status().await {
            Ok(status) => seen.push_back((Instant::now(), status.revision)),
            // Room is worth more than history.
            Err(StoreError::Full(_)) => {
                before = seen.back().map(|&(_, revision)| revision);
                seen.clear();
            }
            Err(_) => {}
        }
        while let Some((_, revision)) = seen.front().copied().filter(|(at, _)| at.elapsed() >= retention) {
            before = Some(revision);
            seen.pop_front();
        }
        let Some(before) = before else { continue };
        match store.compact(before).await {
            Ok(()) => tracing::debug!(before = before.0, "history is compacted"),
            Err(error) => tracing::warn!(%error, before = before.0, "history cannot be compacted"),
        }
    }
}

/// Compactions in the time that is kept.
const COMPACTIONS: u32 = 10;
