//! The embedded store: redb in a folder, for one server. Nothing to install.
//!
//! ```text
//!   DIR/lock             held while the store is open
//!   DIR/directory.redb   table `records`: key bytes -> generation u64, record bytes
//!                        table `named`: name -> version u32, bytes of a text
//!                        table `tenant_entries`: an entry of tenants' records, binary
//!                        table `meta`: format, revision, purged (u64), cluster, id (text)
//!
//!   commit --+                             +-- one transaction, one fsync for all that wait --> directory.redb
//!   commit --+--> queue --> writer thread -+-- answers
//!   purge  --+                             +-- watches
//! ```

mod entries;
mod file;
mod packed;
mod writer;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::RwLock;
use redb::{Database, ReadableDatabase, ReadableTable, StorageBackend};
use tokio::sync::{mpsc, oneshot};
use weft_control::directory::store::{CommitResult, StoreOp, Stored};
use weft_control::directory::{Generation, Key};
use weft_control::netlord::tenants::records::{Entries, Plan, Reads};
use weft_control::wire::directory::{emit_key, parse_key};

use super::watching::Watch;
use super::{Committed, EntryWatch, Identity, Load, Reading, Replaced, Store, StoreError, StoreStatus, StoredDocument, TIMEOUT};
use file::{NAMED, RECORDS, failure, split};
use writer::{NewDocument, Request, Writer};

/// redb in a folder.
#[derive(Clone)]
pub struct Embedded {
    requests: mpsc::Sender<Request>,
    shared: Arc<Shared>,
}

/// What readers and the writer share. Dropping the last handle ends the writer, which lets go of the lock.
struct Shared {
    identity: Identity,
    /// The file, unless a test gave a backend.
    path: Option<PathBuf>,
    /// None while it is being reopened after an error.
    database: RwLock<Option<Database>>,
}

/// Records that a load hands over at once.
const CHUNK: usize = 1024;

/// Commits that may wait for the writer.
const WAITING: usize = 256;

impl Embedded {
    /// Opens the store of a folder, and makes it if there is none.
    ///
    /// # Errors
    /// The folder is in use, of another cluster, of a newer format, damaged, or cannot be used at all. Then nothing was changed.
    pub fn open(folder: &Path, cluster: &str) -> Result<Self, StoreError> {
        let lock = file::lock(folder)?;
        let path = folder.join(file::NAME);
        file::make_if_absent(&path, cluster)?;
        let file = path.clone();
        let opener = move || {
            let _held = &lock;
            file::open(&file)
        };
        Self::start(Box::new(opener), cluster, Some(path))
    }

    /// A store on memory, or on any other backend that each call of `backend` opens again, as it is after a crash: for tests.
    ///
    /// # Errors
    /// What is there is of another cluster, of a newer format, or damaged.
    pub fn on_backend<B: StorageBackend>(backend: impl Fn() -> B + Send + 'static, cluster: &str) -> Result<Self, StoreError> {
        let opener = move || {
            let database = file::builder().create_with_backend(backend());
            database.map_err(|error| file::open_failure(Path::new("(a test's backend)"), &error))
        };
        Self::start(Box::new(opener), cluster, None)
    }

    fn start(opener: writer::Opener, cluster: &str, path: Option<PathBuf>) -> Result<Self, StoreError> {
        let database = opener()?;
        let meta = file::check(&database, cluster)?;
        entries::pack_old(&database)?;
        let shared = Arc::new(Shared { identity: meta.identity.clone(), path, database: RwLock::new(Some(database)) });
        let (requests, queue) = mpsc::channel(WAITING);
        let writer = Writer::new(opener, shared.clone(), queue, &meta);
        let thread = std::thread::Builder::new().name("store".into()).spawn(move || writer.run());
        thread.map_err(|error| StoreError::Io { path: "(a thread)".into(), error: error.to_string() })?;
        Ok(Self { requests, shared })
    }

    async fn ask<T>(&self, request: impl FnOnce(oneshot::Sender<T>) -> Request) -> Result<T, StoreError> {
        let (reply, answer) = oneshot::channel();
        let asked = async {
            self.requests.send(request(reply)).await.ok()?;
            answer.await.ok()
        };
        let answer = tokio::time::timeout(TIMEOUT, asked).await;
        answer.ok().flatten().ok_or_else(|| StoreError::Unreachable(format!("no answer from the disk within {TIMEOUT:?}")))
    }
}

impl Shared {
    /// Begins to read a snapshot.
    fn read(&self) -> Result<redb::ReadTransaction, StoreError> {
        let database = self.database.read();
        let database =
            database.as_ref().ok_or_else(|| StoreError::Unreachable("it is being opened again after an error".into()))?;
        database.begin_read().map_err(failure)
    }
}

impl Store for Embedded {
    fn identity(&self) -> Identity {
        self.shared.identity.clone()
    }

    async fn load(&self) -> Result<Load, StoreError> {
        let snapshot = self.shared.read()?;
        let (revision, purged) = file::revisions(&snapshot)?;
        let (sender, chunks) = mpsc::channel(2);
        tokio::task::spawn_blocking(move || {
            if let Err(error) = send_all(&snapshot, &sender) {
                let _ = sender.blocking_send(Err(error));
            }
        });
        Ok(Load { revision, purged, chunks })
    }

    async fn commit(&self, ops: Vec<StoreOp>, purged: Generation) -> Committed {
        let asked = self.ask(|reply| Request::Commit { ops, purged, reply }).await;
        asked.unwrap_or(Committed { result: CommitResult::Failed, purged })
    }

    async fn watch(&self, after: Generation) -> Result<Watch, StoreError> {
        self.ask(|reply| Request::Watch(after, reply)).await
    }

    async fn read(&self, key: Key) -> Result<Reading, StoreError> {
        let snapshot = self.shared.read()?;
        let (revision, _) = file::revisions(&snapshot)?;
        let mut name = Vec::new();
        emit_key(&key, &mut name);
        let table = snapshot.open_table(RECORDS).map_err(failure)?;
        let record = match table.get(name.as_slice()).map_err(failure)? {
            Some(bytes) => Some(split(bytes.value())?),
            None => None,
        };
        Ok(Reading { revision, record })
    }

    async fn purge(&self, tombstones: Vec<(Key, Generation)>) -> Result<usize, StoreError> {
        self.ask(|reply| Request::Purge(tombstones, reply)).await?
    }

    async fn document(&self, name: &str, known: u32) -> Result<Option<StoredDocument>, StoreError> {
        let snapshot = self.shared.read()?;
        let table = match snapshot.open_table(NAMED) {
            Ok(table) => table,
            Err(redb::TableError::TableDoesNotExist(_)) => return Ok(None),
            Err(error) => return Err(failure(error)),
        };
        let Some(bytes) = table.get(name).map_err(failure)? else { return Ok(None) };
        let (version, bytes) = file::split_document(bytes.value())?;
        Ok(Some(StoredDocument { version, bytes: (version != known).then(|| bytes.into()) }))
    }

    async fn replace_document(&self, name: &str, expect: u32, version: u32, bytes: Arc<[u8]>) -> Result<Replaced, StoreError> {
        let document = NewDocument { name: name.to_owned(), expect, version, bytes };
        self.ask(|reply| Request::Document(document, reply)).await
    }

    async fn entries(&self, reads: &Reads) -> Result<Entries, StoreError> {
        entries::read(&self.shared.read()?, reads)
    }

    async fn entries_after(&self, prefix: &str, after: &str, limit: usize) -> Result<Entries, StoreError> {
        entries::page(&self.shared.read()?, prefix, after, limit)
    }

    async fn amend(&self, plan: Plan) -> Result<Option<u64>, StoreError> {
        self.ask(|reply| Request::Amend(plan, reply)).await
    }

    async fn watch_entries(&self) -> Result<EntryWatch, StoreError> {
        self.ask(Request::WatchEntries).await
    }

    async fn compact(&self, _before: Generation) -> Result<(), StoreError> {
        Ok(())
    }

    async fn status(&self) -> Result<StoreStatus, StoreError> {
        self.ask(Request::Status).await?
    }
}

fn send_all(snapshot: &redb::ReadTransaction, sender: &mpsc::Sender<Result<Vec<Stored>, StoreError>>) -> Result<(), StoreError> {
    let table = snapshot.open_table(RECORDS).map_err(failure)?;
    let mut chunk = Vec::with_capacity(CHUNK);
    for entry in table.iter().map_err(failure)? {
        let (name, bytes) = entry.map_err(failure)?;
        let key = parse_key(name.value()).map_err(|error| file::damaged(format!("a key: {error}")))?;
        let (generation, record) = split(bytes.value())?;
        chunk.push(Stored { key, generation, record: Some(record) });
        if chunk.len() == CHUNK && sender.blocking_send(Ok(std::mem::replace(&mut chunk, Vec::with_capacity(CHUNK)))).is_err() {
            return Ok(());
        }
    }
    let _ = sender.blocking_send(Ok(chunk));
    Ok(())
}

impl std::fmt::Debug for Embedded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Embedded").field("identity", &self.shared.identity).finish_non_exhaustive()
    }
}
