//! The store on etcd v3, 3.4 or newer: its consensus, for several servers at once.
//!
//! ```text
//!   /weft/<cluster>/meta        {"format": 1, "id": ".."}
//!   /weft/<cluster>/purged      a number of 20 digits: tombstones up to this generation may have been purged
//!   /weft/<cluster>/d/<key>     record bytes; the generation is the key's mod_revision
//!   /weft/<cluster>.texts/..    named documents
//!   /weft/<cluster>.tenants/..  tenants' records
//! ```
//! A commit is one transaction: every key's mod_revision must be what is expected, then all are put; else they are read afterwards. A request that
//! has no answer is tried at the next member; that is safe, for if the first copy was applied the second finds other revisions.

mod documents;
mod entries;
mod members;
mod observer;

use std::sync::Arc;
use std::time::Duration;

use etcd_client::{Compare, CompareOp, GetOptions, KeyValue, Txn, TxnOp, TxnOpResponse, TxnResponse};
use tokio::sync::mpsc;
use weft_control::directory::store::{CommitResult, MAX_COMMIT_OPS, StoreOp, Stored};
use weft_control::directory::{Generation, Key, Record};
use weft_control::netlord::tenants::records::{Entries, Plan, Reads};
use weft_control::wire::directory::{emit_key, emit_record, parse_key, parse_record};

use super::watching::{Watch, pair};
use super::{Committed, EntryWatch, FORMAT, Identity, Load, Reading, Replaced, Store, StoreError, StoreStatus, StoredDocument};
use members::Members;

pub use members::EtcdOptions;

/// etcd.
#[derive(Clone)]
pub struct Etcd {
    shared: Arc<Shared>,
}

struct Shared {
    members: Members,
    identity: Identity,
    names: Names,
    /// Whether the members report progress only after the events before it (3.4.25, 3.5.8).
    progress_is_sound: bool,
}

/// The names of a cluster's keys in etcd.
#[derive(Clone, Debug)]
struct Names {
    prefix: Vec<u8>,
    data: Vec<u8>,
    meta: Vec<u8>,
    purged: Vec<u8>,
}

/// Records of one page of a load: less than etcd's answers may have bytes (2 MB), whatever the records.
const PAGE: i64 = 4000;

/// Tombstones removed in one transaction.
const PURGE: usize = MAX_COMMIT_OPS;

impl Etcd {
    /// Connects to the members, and sets the cluster up if it is new.
    ///
    /// # Errors
    /// No member answers, or they have no leader; the user is refused; the format is newer. The options contradict each other.
    pub async fn connect(urls: &[String], cluster: &str, options: &EtcdOptions) -> Result<Self, StoreError> {
        let (members, names) = (Members::new(urls, options)?, Names::new(cluster));
        set_up(&members, &names).await?;
        Self::of(members, names, cluster).await
    }

    /// Connects to the members of a cluster that is set up. Nothing is written: etcd's user needs permission to read `/weft` and what begins so.
    ///
    /// # Errors
    /// As [`Etcd::connect`]; [`StoreError::Absent`] if the cluster is not set up.
    pub async fn follow(urls: &[String], cluster: &str, options: &EtcdOptions) -> Result<Self, StoreError> {
        let etcd = Self::of(Members::new(urls, options)?, Names::new(cluster), cluster).await?;
        // What is not permitted shows now, and not as a store that is lost.
        etcd.shared.members.probe().await?;
        Ok(etcd)
    }

    async fn of(members: Members, names: Names, cluster: &str) -> Result<Self, StoreError> {
        let id = id_of(&members, &names).await?.ok_or_else(|| StoreError::Absent(cluster.to_owned()))?;
        let version = members.version().await?;
        let identity = Identity { cluster: cluster.to_owned(), id };
        Ok(Self { shared: Arc::new(Shared { members, identity, names, progress_is_sound: progress_is_sound(&version)? }) })
    }

    async fn commit_once(&self, ops: &[StoreOp], purged: Generation) -> Result<Committed, StoreError> {
        let names = &self.shared.names;
        let beyond = purged_text(Generation(purged.0.saturating_add(1)));
        let mut compares = vec![Compare::value(names.purged.clone(), CompareOp::Less, beyond)];
        let mut puts = Vec::with_capacity(ops.len());
        for op in ops {
            let name = names.of(&op.key);
            let mut value = Vec::with_capacity(96);
            emit_record(&op.record, &mut value);
            compares.push(Compare::mod_revision(name.clone(), CompareOp::Equal, op.expect.0 as i64));
            puts.push(TxnOp::put(name, value, None));
        }
        let transaction = Txn::new().when(compares).and_then(puts);
        let (response, is_repeated) = self.shared.members.transact(transaction).await?;
        if response.succeeded() {
            return Ok(Committed { result: CommitResult::Done(revision_of(&response)?), purged });
        }
        let met = self.what_it_met(ops).await?;
        if !is_repeated {
            return Ok(met);
        }
        // What it conflicts with may be itself, if the first copy was slow and not lost.
        let result = own_revision(ops, &met.result).map_or(CommitResult::Failed, CommitResult::Done);
        Ok(Committed { result, ..met })
    }

    /// After a conflict: what is there, at one revision. (As the transaction's other branch it would travel through the members' logs with every
    /// commit, and most commits are no conflict.)
    async fn what_it_met(&self, ops: &[StoreOp]) -> Result<Committed, StoreError> {
        let names = &self.shared.names;
        let keys = ops.iter().map(|op| names.of(&op.key));
        let gets: Vec<TxnOp> = std::iter::once(names.purged.clone()).chain(keys).map(|name| TxnOp::get(name, None)).collect();
        let (response, _) = self.shared.members.transact(Txn::new().and_then(gets)).await?;
        let mut found = response.op_responses().into_iter();
        let Some(TxnOpResponse::Get(mark)) = found.next() else { return Err(odd()) };
        let purged = mark.kvs().first().map_or(Ok(Generation(0)), parse_purged)?;
        Ok(Committed { result: CommitResult::Conflict(found_in(found)?), purged })
    }

    /// Removes up to [`PURGE`] tombstones. Those that have changed since they were listed are left out in a second try.
    async fn purge_some(&self, tombstones: &[(Key, Generation)]) -> Result<usize, StoreError> {
        let shared = &self.shared;
        let mut left = tombstones.to_vec();
        for _ in 0..3 {
            let Some(last) = left.iter().map(|&(_, generation)| generation).max() else { break };
            let (known, at) = shared.purged(None).await?;
            let mut compares = vec![Compare::mod_revision(shared.names.purged.clone(), CompareOp::Equal, at)];
            let mut deletes = vec![TxnOp::put(shared.names.purged.clone(), purged_text(last.max(known)), None)];
            let mut gets = Vec::new();
            for (key, generation) in &left {
                let name = shared.names.of(key);
                compares.push(Compare::mod_revision(name.clone(), CompareOp::Equal, generation.0 as i64));
                deletes.push(TxnOp::delete(name.clone(), None));
                gets.push(TxnOp::get(name, None));
            }
            let transaction = Txn::new().when(compares).and_then(deletes).or_else(gets);
            let (response, repeated) = shared.members.transact(transaction).await?;
            if response.succeeded() {
                return Ok(left.len());
            }
            let found = found_in(response.op_responses().into_iter())?;
            // The first attempt got no answer, and was applied.
            if repeated && found.iter().all(Option::is_none) {
                return Ok(left.len());
            }
            let mut found = found.into_iter();
            left.retain(|&(_, wanted)| matches!(found.next(), Some(Some((generation, _))) if generation == wanted));
        }
        Ok(0)
    }
}

impl Shared {
    /// The purged generation, and the mod_revision of its key; at a revision, or now.
    async fn purged(&self, at: Option<Generation>) -> Result<(Generation, i64), StoreError> {
        let options = at.map(|revision| GetOptions::new().with_revision(revision.0 as i64));
        let response = self.members.get(self.names.purged.clone(), options).await?;
        let Some(found) = response.kvs().first() else { return Ok((Generation(0), 0)) };
        Ok((parse_purged(found)?, found.mod_revision()))
    }

    /// Sends all pages after the first.
    async fn send_pages(
        &self,
        revision: Generation,
        mut last: Option<Vec<u8>>,
        sender: &mpsc::Sender<Result<Vec<Stored>, StoreError>>,
    ) -> Result<(), StoreError> {
        while let Some(after) = last {
            let page = self.members.get(next_name(after), Some(self.names.page(Some(revision)))).await?;
            last = more(&page);
            if sender.send(Ok(self.names.stored(page.kvs())?)).await.is_err() {
                break;
            }
        }
        Ok(())
    }
}

impl Store for Etcd {
    fn identity(&self) -> Identity {
        self.shared.identity.clone()
    }

    async fn load(&self) -> Result<Load, StoreError> {
        let shared = self.shared.clone();
        let first = shared.members.get(shared.names.data.clone(), Some(shared.names.page(None))).await?;
        let revision = Generation(first.header().map_or(0, |header| header.revision()) as u64);
        let (purged, _) = shared.purged(Some(revision)).await?;
        let (sender, chunks) = mpsc::channel(2);
        let records = shared.names.stored(first.kvs())?;
        tokio::spawn(async move {
            if sender.send(Ok(records)).await.is_ok()
                && let Err(error) = shared.send_pages(revision, more(&first), &sender).await
            {
                let _ = sender.send(Err(error)).await;
            }
        });
        Ok(Load { revision, purged, chunks })
    }

    async fn commit(&self, ops: Vec<StoreOp>, purged: Generation) -> Committed {
        match self.commit_once(&ops, purged).await {
            Ok(committed) => committed,
            Err(error) => {
                tracing::warn!(%error, ops = ops.len(), "a commit has no answer");
                Committed { result: CommitResult::Failed, purged }
            }
        }
    }

    async fn watch(&self, after: Generation) -> Result<Watch, StoreError> {
        let (sender, watch) = pair();
        let shared = self.shared.clone();
        tokio::spawn(async move { observer::observe(&shared, after, &sender).await });
        Ok(watch)
    }

    async fn read(&self, key: Key) -> Result<Reading, StoreError> {
        let response = self.shared.members.get(self.shared.names.of(&key), None).await?;
        let revision = Generation(response.header().map_or(0, |header| header.revision()) as u64);
        let record = response.kvs().first().map(record_of).transpose()?;
        Ok(Reading { revision, record })
    }

    async fn purge(&self, tombstones: Vec<(Key, Generation)>) -> Result<usize, StoreError> {
        let mut removed = 0;
        for some in tombstones.chunks(PURGE) {
            removed += self.purge_some(some).await?;
        }
        Ok(removed)
    }

    async fn document(&self, name: &str, known: u32) -> Result<Option<StoredDocument>, StoreError> {
        self.read_document(name, known).await
    }

    async fn replace_document(&self, name: &str, expect: u32, version: u32, bytes: Arc<[u8]>) -> Result<Replaced, StoreError> {
        self.write_document(name, expect, version, &bytes).await
    }

    async fn entries(&self, reads: &Reads) -> Result<Entries, StoreError> {
        self.read_entries(reads).await
    }

    async fn entries_after(&self, prefix: &str, after: &str, limit: usize) -> Result<Entries, StoreError> {
        self.page_of_entries(prefix, after, limit).await
    }

    async fn amend(&self, plan: Plan) -> Result<Option<u64>, StoreError> {
        self.write_entries(plan).await
    }

    async fn watch_entries(&self) -> Result<EntryWatch, StoreError> {
        Ok(self.observe_entries())
    }

    async fn compact(&self, before: Generation) -> Result<(), StoreError> {
        self.shared.members.compact(before).await
    }

    async fn status(&self) -> Result<StoreStatus, StoreError> {
        self.shared.members.status().await
    }
}

impl Names {
    fn new(cluster: &str) -> Self {
        let at = |name: &str| format!("/weft/{cluster}/{name}").into_bytes();
        Self { prefix: at(""), data: at("d/"), meta: at("meta"), purged: at("purged") }
    }

    fn of(&self, key: &Key) -> Vec<u8> {
        let mut name = self.data.clone();
        emit_key(key, &mut name);
        name
    }

    /// How a page of records is asked for.
    fn page(&self, revision: Option<Generation>) -> GetOptions {
        let mut end = self.data.clone();
        *end.last_mut().expect("it ends with a slash") += 1;
        let options = GetOptions::new().with_range(end).with_limit(PAGE);
        if let Some(revision) = revision { options.with_revision(revision.0 as i64) } else { options }
    }

    fn stored(&self, kvs: &[KeyValue]) -> Result<Vec<Stored>, StoreError> {
        let stored = |kv: &KeyValue| {
            let key = self.key(kv.key())?;
            let (generation, record) = record_of(kv)?;
            Ok(Stored { key, generation, record: Some(record) })
        };
        kvs.iter().map(stored).collect()
    }

    fn key(&self, name: &[u8]) -> Result<Key, StoreError> {
        let bytes = name.strip_prefix(self.data.as_slice()).unwrap_or_default();
        parse_key(bytes).map_err(|error| damaged(name, &error.to_string()))
    }
}

fn more(page: &etcd_client::GetResponse) -> Option<Vec<u8>> {
    if page.more() { page.kvs().last().map(|kv| kv.key().to_vec()) } else { None }
}

fn next_name(mut name: Vec<u8>) -> Vec<u8> {
    name.push(0);
    name
}

fn record_of(kv: &KeyValue) -> Result<(Generation, Record), StoreError> {
    let record = parse_record(kv.value()).map_err(|error| damaged(kv.key(), &error.to_string()))?;
    Ok((Generation(kv.mod_revision() as u64), record))
}

fn parse_purged(kv: &KeyValue) -> Result<Generation, StoreError> {
    let number = std::str::from_utf8(kv.value()).ok().and_then(|text| text.parse().ok());
    number.map(Generation).ok_or_else(|| damaged(kv.key(), "not a number"))
}

/// What the gets of a failed transaction found, in their order.
fn found_in(responses: impl Iterator<Item = TxnOpResponse>) -> Result<Vec<Option<(Generation, Record)>>, StoreError> {
    let found = |op: TxnOpResponse| match op {
        TxnOpResponse::Get(found) => found.kvs().first().map(record_of).transpose(),
        _ => Err(odd()),
    };
    responses.map(found).collect()
}

/// The revision at which a commit was applied, if what is there now is just what it wrote. Its records name their updates, so nothing else
/// is like them; only if others have written since is it unknown.
fn own_revision(ops: &[StoreOp], met: &CommitResult) -> Option<Generation> {
    let CommitResult::Conflict(held) = met else { return None };
    let &(revision, _) = held.first()?.as_ref()?;
    let is_own = |(op, held): (&StoreOp, &Option<(Generation, Record)>)| {
        held.as_ref().is_some_and(|(generation, record)| *generation == revision && *record == op.record)
    };
    (held.len() == ops.len() && revision > Generation(0) && ops.iter().zip(held).all(is_own)).then_some(revision)
}

fn odd() -> StoreError {
    StoreError::Refused("etcd answered something else than was asked".into())
}

/// How a generation is written in the key `purged`: the order of the strings is that of the numbers.
fn purged_text(generation: Generation) -> String {
    format!("{:020}", generation.0)
}

fn revision_of(response: &TxnResponse) -> Result<Generation, StoreError> {
    let header = response.header().ok_or_else(|| StoreError::Refused("etcd's answer has no header".into()))?;
    Ok(Generation(header.revision() as u64))
}

fn damaged(name: &[u8], why: &str) -> StoreError {
    StoreError::Damaged { path: format!("etcd:{}", name.escape_ascii()).into(), why: why.into() }
}

/// Makes the cluster's meta key, unless there is one.
async fn set_up(members: &Members, names: &Names) -> Result<(), StoreError> {
    let meta = serde_json::json!({ "format": FORMAT, "id": super::random_id() }).to_string();
    let absent = Compare::create_revision(names.meta.clone(), CompareOp::Equal, 0);
    let transaction = Txn::new()
        .when([absent])
        .and_then([
            TxnOp::put(names.meta.clone(), meta, None),
            TxnOp::put(names.purged.clone(), purged_text(Generation(0)), None),
        ])
        .or_else([]);
    members.transact(transaction).await?;
    Ok(())
}

/// The id in the cluster's meta key, whose format must be known; `None`: there is no such key.
async fn id_of(members: &Members, names: &Names) -> Result<Option<String>, StoreError> {
    let response = members.get(names.meta.clone(), None).await?;
    let Some(found) = response.kvs().first() else { return Ok(None) };
    let meta: serde_json::Value =
        serde_json::from_slice(found.value()).map_err(|error| damaged(&names.meta, &error.to_string()))?;
    match meta["format"].as_u64() {
        Some(..=FORMAT) => {}
        Some(found) => return Err(StoreError::Format { found, known: FORMAT }),
        None => return Err(damaged(&names.meta, "it names no format")),
    }
    meta["id"].as_str().map(|id| Some(id.to_owned())).ok_or_else(|| damaged(&names.meta, "it names no id"))
}

/// Whether a version of etcd sends progress only behind the events that it covers; an error if it is too old for everything.
fn progress_is_sound(version: &str) -> Result<bool, StoreError> {
    let mut parts = version.split(['.', '-', '+']).map_while(|part| part.parse::<u32>().ok());
    let version_of = (parts.next().unwrap_or(0), parts.next().unwrap_or(0), parts.next().unwrap_or(0));
    if version_of < (3, 4, 0) {
        return Err(StoreError::Refused(format!("etcd {version} is too old: 3.4 or newer is needed")));
    }
    Ok(match version_of {
        (3, 4, patch) => patch >= 25,
        (3, 5, patch) => patch >= 8,
        _ => true,
    })
}

impl std::fmt::Debug for Etcd {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Etcd").field("identity", &self.shared.identity).finish_non_exhaustive()
    }
}

/// How long a watch waits before it asks again whether the member is there.
const PROGRESS: Duration = Duration::from_millis(300);

#[cfg(test)]
mod tests {
    use weft_control::directory::{PrincipalId, UpdateId};

    use super::*;

    #[test]
    fn a_commit_knows_itself_only_where_nothing_else_was_written_since() {
        let update = |number| UpdateId { writer: PrincipalId(1), number };
        let op = |n: u8| {
            let record = Record::next(None, Generation(0), update(u64::from(n)), None);
            StoreOp { key: Key::App4([10, 0, 0, n].into()), expect: Generation(0), record }
        };
        let ops = [op(1), op(2)];
        let own = |generation| Some((Generation(generation), ops[0].record.clone()));
        let other = |generation, number| Some((Generation(generation), op(number).record));
        let met = |held: &[Option<(Generation, Record)>]| own_revision(&ops, &CommitResult::Conflict(held.to_vec()));
        assert_eq!(met(&[own(7), other(7, 2)]), Some(Generation(7)));
        assert_eq!(met(&[own(7), other(8, 2)]), None, "another commit wrote the same: it is the machine's to find out");
        assert_eq!(met(&[own(7), other(7, 3)]), None);
        assert_eq!(met(&[own(7), None]), None);
        assert_eq!(met(&[None, None]), None);
        assert_eq!(met(&[own(7)]), None);
        assert_eq!(own_revision(&ops, &CommitResult::Failed), None);
    }

    #[test]
    fn versions_of_etcd() {
        for (version, sound) in [("3.4.23", false), ("3.4.25", true), ("3.5.7", false), ("3.5.16", true), ("3.6.0-rc.1", true)] {
            assert_eq!(progress_is_sound(version).unwrap(), sound, "{version}");
        }
        assert!(progress_is_sound("3.3.27").is_err());
    }
}
