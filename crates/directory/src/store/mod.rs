//! Where mappings are kept: one contract ([`weft_control::directory::store`]), two stores.
//!
//! ```text
//!   embedded:DIR          redb in a folder, one server                 durable when commit returns
//!   etcd:URL,URL,...      etcd v3, three or five members, many servers  durable at a majority
//! ```
//! All methods end within [`TIMEOUT`] (a load takes longer, but no single request of it). Cloning a store gives another handle of it.

mod embedded;
mod etcd;
mod watching;

use std::fmt;
use std::future::Future;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use weft_control::directory::store::{CommitResult, StoreOp, Stored};
use weft_control::directory::{Generation, Key, Record};
use weft_control::netlord::tenants::records::{Entries, Plan, Reads};

pub use embedded::Embedded;
pub use etcd::{Etcd, EtcdOptions};
pub use watching::Watch;

/// No single request to a store takes longer.
pub const TIMEOUT: Duration = Duration::from_secs(2);

/// The form of keys and records in a store that this program reads and writes. An embedded store with tenants' records has a newer one.
pub const FORMAT: u64 = 1;

/// A store of records.
pub trait Store: Clone + Send + Sync + 'static {
    /// Which store it is.
    fn identity(&self) -> Identity;

    /// Everything there is at one revision, tombstones included, in chunks and in no particular order.
    fn load(&self) -> impl Future<Output = Result<Load, StoreError>> + Send;

    /// Applies all operations at one new revision, or none: none as well if tombstones of generations beyond `purged` may have been purged.
    fn commit(&self, ops: Vec<StoreOp>, purged: Generation) -> impl Future<Output = Committed> + Send;

    /// All that is committed after a revision, commit by commit, until there is a gap.
    fn watch(&self, after: Generation) -> impl Future<Output = Result<Watch, StoreError>> + Send;

    /// What the store holds of one key, as new as any commit that ended before.
    fn read(&self, key: Key) -> impl Future<Output = Result<Reading, StoreError>> + Send;

    /// Removes tombstones that still have the given generations; says how many. [`Load::purged`] grows before any is gone.
    fn purge(&self, tombstones: Vec<(Key, Generation)>) -> impl Future<Output = Result<usize, StoreError>> + Send;

    /// A named document, without its bytes if its version is `known`; `None`: there is none of this name.
    fn document(&self, name: &str, known: u32) -> impl Future<Output = Result<Option<StoredDocument>, StoreError>> + Send;

    /// Replaces version `expect` of a document (0: there is none). After an error it is there, or it is not.
    fn replace_document(
        &self,
        name: &str,
        expect: u32,
        version: u32,
        bytes: Arc<[u8]>,
    ) -> impl Future<Output = Result<Replaced, StoreError>> + Send;

    /// Entries of tenants' records, all at one revision. Prefixes are of records: entries of addresses (`m/`, `a/`) are read by their names.
    fn entries(&self, reads: &Reads) -> impl Future<Output = Result<Entries, StoreError>> + Send;

    /// Entries of tenants' records whose names begin with `prefix` and come after `after`, in order of names, `limit` at most.
    fn entries_after(&self, prefix: &str, after: &str, limit: usize) -> impl Future<Output = Result<Entries, StoreError>> + Send;

    /// Writes entries of tenants' records if all that the plan checks still is so: the revision; `None`: it is not, and nothing was changed. After an error
    /// they are written, or not.
    fn amend(&self, plan: Plan) -> impl Future<Output = Result<Option<u64>, StoreError>> + Send;

    /// Which entries of tenants' records change from now on.
    fn watch_entries(&self) -> impl Future<Output = Result<EntryWatch, StoreError>> + Send;

    /// Asks whether it is well: it could take a commit now.
    fn status(&self) -> impl Future<Output = Result<StoreStatus, StoreError>> + Send;

    /// Forgets what was before a revision, of keys that have changed since. A store without history does nothing.
    fn compact(&self, before: Generation) -> impl Future<Output = Result<(), StoreError>> + Send;
}

/// Which store it is: the cluster's name as the operator chose it, and a number drawn when the store was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The cluster's name.
    pub cluster: String,
    /// 128 random bits, in hexadecimal.
    pub id: String,
}

/// How a commit ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Committed {
    /// What became of it.
    pub result: CommitResult,
    /// After a conflict: all tombstones up to this generation may have been purged.
    pub purged: Generation,
}

/// A load on its way.
#[derive(Debug)]
pub struct Load {
    /// What comes is the state at this revision.
    pub revision: Generation,
    /// All tombstones up to this generation may have been purged.
    pub purged: Generation,
    /// The records. A load that fails midway ends with the error.
    pub chunks: mpsc::Receiver<Result<Vec<Stored>, StoreError>>,
}

/// One key, as the store has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reading {
    /// The store's revision.
    pub revision: Generation,
    /// The key's generation and record.
    pub record: Option<(Generation, Record)>,
}

/// A named document, as the store has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredDocument {
    /// Its version.
    pub version: u32,
    /// All of it; `None` if the version is the one that was known.
    pub bytes: Option<Arc<[u8]>>,
}

/// The result of replacing a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replaced {
    /// It is durable.
    Done,
    /// Nothing was changed: the document has this version; 0: there is none.
    Conflict(u32),
}

/// What happens to the entries of tenants' records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EntryEvent {
    /// These have changed, all at once.
    Changed(Vec<String>),
    /// Any of them may have changed. The watch goes on.
    Gap,
}

/// The events of entries, in order. It ends with the store.
pub type EntryWatch = mpsc::Receiver<EntryEvent>;

/// An event of a watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WatchEvent {
    /// All that the commits up to `revision` changed since the last event, in order of generations.
    Changes {
        /// Everything up to this revision has been reported.
        revision: Generation,
        /// A purged tombstone has no record, and the generation that the tombstone had or a greater one.
        changes: Vec<Stored>,
        /// If tombstones were purged: up to this generation.
        purged: Option<Generation>,
    },
    /// Nothing happened up to this revision.
    Progress(Generation),
    /// What follows cannot be reported (history was compacted, the reader is too slow): reload. It is the last event.
    Gap(String),
}

/// How a store is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreStatus {
    /// Its revision.
    pub revision: Generation,
    /// Bytes on disk.
    pub bytes: u64,
    /// For a person: `redb 4`, `etcd 3.4.23, member 1 of 3`.
    pub description: String,
}

/// Why a store cannot be used.
#[derive(Clone, Debug, thiserror::Error)]
pub enum StoreError {
    /// The text names no store.
    #[error("`{0}` is not a store: write embedded:DIR, or etcd:URL,URL,... with http:// or https://")]
    Address(String),
    /// The folder is in use.
    #[error("the store `{0}` is in use by another server; an embedded store has one server: stop it, or use etcd for several")]
    InUse(PathBuf),
    /// A replica of it is not possible.
    #[error(
        "the store `{0}` is embedded and has one server, so it can have no replica: give --store etcd:URL,..., or leave --replica out"
    )]
    OneServer(PathBuf),
    /// It cannot be read or written.
    #[error("the store `{path}` cannot be used: {error}")]
    Io {
        /// The folder or file.
        path: PathBuf,
        /// What the system says.
        error: String,
    },
    /// It is not a store, or is damaged.
    #[error(
        "`{path}` is not a whole directory store ({why}); nothing was changed: restore it from a backup, or choose another folder"
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// It belongs to another cluster.
    #[error("the store belongs to cluster `{found}`, and this server to `{wanted}`: check --store and --cluster")]
    OtherCluster {
        /// Whose it is.
        found: String,
        /// Whose it should be.
        wanted: String,
    },
    /// No server has set it up yet.
    #[error(
        "the store has no cluster `{0}`: start a server without --replica first, which sets it up; or check --store and --cluster"
    )]
    Absent(String),
    /// A newer program wrote it.
    #[error("the store has format {found}, and this program knows formats up to {known}: use the newer program")]
    Format {
        /// Its format.
        found: u64,
        /// The newest that this program knows.
        known: u64,
    },
    /// It went back in time, or was replaced. There is no way on.
    #[error("the store is not the one that this server began with ({0}); restart all servers and agents if that is meant")]
    Replaced(String),
    /// It does not answer.
    #[error("the store does not answer: {0}")]
    Unreachable(String),
    /// It answers that it does not want.
    #[error("the store refuses: {0}")]
    Refused(String),
    /// Its quota is used up: it takes no commits until an operator has made room.
    #[error("the store is full: {0}; make room: {FULL_REMEDY}")]
    Full(String),
    /// What was to be read has been compacted.
    #[error("revision {0} has been compacted")]
    Compacted(u64),
}

/// What clears etcd's alarm. History is compacted by the servers; its room is free after a defragmentation.
pub const FULL_REMEDY: &str = "`etcdctl defrag --cluster`, then `etcdctl alarm disarm`; or raise etcd's --quota-backend-bytes";

impl StoreError {
    /// Whether waiting may help.
    pub const fn is_temporary(&self) -> bool {
        matches!(self, Self::Unreachable(_) | Self::Compacted(_) | Self::Full(_))
    }
}

/// Which store to use: `embedded:DIR` or `etcd:URL[,URL...]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreAddress {
    /// redb in this folder.
    Embedded(PathBuf),
    /// etcd at these members.
    Etcd(Vec<String>),
}

impl FromStr for StoreAddress {
    type Err = StoreError;

    fn from_str(text: &str) -> Result<Self, StoreError> {
        let wrong = || StoreError::Address(text.to_owned());
        match text.split_once(':').ok_or_else(wrong)? {
            ("embedded", folder) if !folder.is_empty() => Ok(Self::Embedded(folder.into())),
            ("etcd", urls) => {
                let urls: Vec<String> = urls.split(',').map(|url| url.trim().to_owned()).collect();
                let good = |url: &String| {
                    let rest = url.strip_prefix("http://").or_else(|| url.strip_prefix("https://"));
                    rest.is_some_and(|rest| !rest.is_empty())
                };
                if urls.iter().all(good) { Ok(Self::Etcd(urls)) } else { Err(wrong()) }
            }
            _ => Err(wrong()),
        }
    }
}

impl StoreAddress {
    /// A member of etcd on another machine that is spoken to without TLS.
    pub fn plaintext(&self) -> Option<&str> {
        match self {
            Self::Embedded(_) => None,
            Self::Etcd(urls) => crate::daemon::tls::plaintext(urls),
        }
    }
}

impl fmt::Display for StoreAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Embedded(folder) => write!(f, "embedded:{}", folder.display()),
            Self::Etcd(urls) => write!(f, "etcd:{}", urls.join(",")),
        }
    }
}

/// Either store.
#[derive(Clone, Debug)]
pub enum AnyStore {
    /// redb.
    Embedded(Embedded),
    /// etcd.
    Etcd(Etcd),
}

impl AnyStore {
    /// Opens a store, and makes it if it is new.
    ///
    /// # Errors
    /// [`StoreError`]; those that are temporary may be tried again.
    pub async fn open(address: &StoreAddress, cluster: &str, options: &EtcdOptions) -> Result<Self, StoreError> {
        Ok(match address {
            StoreAddress::Embedded(folder) => Self::Embedded(Embedded::open(folder, cluster)?),
            StoreAddress::Etcd(urls) => Self::Etcd(Etcd::connect(urls, cluster, options).await?),
        })
    }

    /// Opens a store for a replica: it must be there, and nothing is written to it; permission to read suffices.
    ///
    /// # Errors
    /// As [`AnyStore::open`]; [`StoreError::Absent`] if no server has set the cluster up; [`StoreError::OneServer`] of an embedded store.
    pub async fn follow(address: &StoreAddress, cluster: &str, options: &EtcdOptions) -> Result<Self, StoreError> {
        match address {
            StoreAddress::Embedded(folder) => Err(StoreError::OneServer(folder.clone())),
            StoreAddress::Etcd(urls) => Ok(Self::Etcd(Etcd::follow(urls, cluster, options).await?)),
        }
    }
}

macro_rules! either {
    ($self:ident, $store:ident => $call:expr) => {
        match $self {
            AnyStore::Embedded($store) => $call,
            AnyStore::Etcd($store) => $call,
        }
    };
}

impl Store for AnyStore {
    fn identity(&self) -> Identity {
        either!(self, store => store.identity())
    }

    async fn load(&self) -> Result<Load, StoreError> {
        either!(self, store => store.load().await)
    }

    async fn commit(&self, ops: Vec<StoreOp>, purged: Generation) -> Committed {
        either!(self, store => store.commit(ops, purged).await)
    }

    async fn watch(&self, after: Generation) -> Result<Watch, StoreError> {
        either!(self, store => store.watch(after).await)
    }

    async fn read(&self, key: Key) -> Result<Reading, StoreError> {
        either!(self, store => store.read(key).await)
    }

    async fn purge(&self, tombstones: Vec<(Key, Generation)>) -> Result<usize, StoreError> {
        either!(self, store => store.purge(tombstones).await)
    }

    async fn document(&self, name: &str, known: u32) -> Result<Option<StoredDocument>, StoreError> {
        either!(self, store => store.document(name, known).await)
    }

    async fn replace_document(&self, name: &str, expect: u32, version: u32, bytes: Arc<[u8]>) -> Result<Replaced, StoreError> {
        either!(self, store => store.replace_document(name, expect, version, bytes).await)
    }

    async fn entries(&self, reads: &Reads) -> Result<Entries, StoreError> {
        either!(self, store => store.entries(reads).await)
    }

    async fn entries_after(&self, prefix: &str, after: &str, limit: usize) -> Result<Entries, StoreError> {
        either!(self, store => store.entries_after(prefix, after, limit).await)
    }

    async fn amend(&self, plan: Plan) -> Result<Option<u64>, StoreError> {
        either!(self, store => store.amend(plan).await)
    }

    async fn watch_entries(&self) -> Result<EntryWatch, StoreError> {
        either!(self, store => store.watch_entries().await)
    }

    async fn status(&self) -> Result<StoreStatus, StoreError> {
        either!(self, store => store.status().await)
    }

    async fn compact(&self, before: Generation) -> Result<(), StoreError> {
        either!(self, store => store.compact(before).await)
    }
}

/// 128 random bits, in hexadecimal.
fn random_id() -> String {
    format!("{:032x}", u128::from_be_bytes(crate::client::random()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_loopback_is_spoken_to_without_tls() {
        let open = |text: &str| text.parse::<StoreAddress>().unwrap().plaintext().map(str::to_owned);
        for text in
            ["embedded:x", "etcd:http://127.0.0.1:2379,http://[::1]:2379/,http://localhost:1", "etcd:https://10.0.0.1:2379"]
        {
            assert_eq!(open(text), None, "{text}");
        }
        for url in [
            "http://10.0.0.1:2379",
            "http://etcd1:2379",
            "http://[2001:db8::1]:2379",
            "http://127.example.net",
            "http://0.0.0.0:2379",
        ] {
            assert_eq!(open(&format!("etcd:https://a:1,{url}")).as_deref(), Some(url));
        }
    }

    #[test]
    fn addresses_read_back_or_are_refused() {
        for text in ["embedded:/var/lib/weft", "etcd:http://10.0.0.1:2379", "etcd:http://a:1,https://b:2"] {
            assert_eq!(text.parse::<StoreAddress>().unwrap().to_string(), text);
        }
        for text in ["", "embedded:", "redis:x", "etcd:", "etcd:a:1", "etcd:http://a,,http://b", "etcd:http://"] {
            assert!(matches!(text.parse::<StoreAddress>(), Err(StoreError::Address(_))), "{text}");
        }
    }
}
