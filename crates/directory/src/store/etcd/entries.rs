//! Tenants' records in etcd, beside the records of mappings, which are watched.
//!
//! ```text
//!   /weft/<cluster>.tenants/<name>      an entry: its generation is the key's mod_revision
//! ```

use etcd_client::{
    Compare, CompareOp, GetOptions, GetResponse, KeyValue, Txn, TxnOp, TxnOpResponse, WatchOptions, WatchResponse,
};
use tokio::sync::mpsc;
use weft_control::netlord::tenants::records::{Entries, Found, MAX_KEYS, Plan, Reads};

use super::members::sort;
use super::{Etcd, Shared, damaged, odd};
use crate::store::watching::QUEUE;
use crate::store::{EntryEvent, EntryWatch, StoreError, TIMEOUT};

/// Between two tries to begin a watch.
const PAUSE: std::time::Duration = std::time::Duration::from_millis(100);

impl Etcd {
    pub(super) async fn read_entries(&self, reads: &Reads) -> Result<Entries, StoreError> {
        let shared = &self.shared;
        let names = reads.names.iter().map(|name| (shared.entry(name), None));
        let prefixes = reads.prefixes.iter().map(|(prefix, limit)| (shared.entry(prefix), Some(*limit)));
        let all: Vec<(String, Option<usize>)> = names.chain(prefixes).collect();
        let mut entries = Entries::default();
        for some in all.chunks(MAX_KEYS) {
            let get = |(name, limit): &(String, Option<usize>)| {
                let mut options = GetOptions::new();
                if let Some(limit) = limit {
                    options = options.with_prefix().with_limit(i64::try_from(*limit).unwrap_or(0));
                }
                // The first transaction says at which revision all are read.
                if entries.revision > 0 {
                    options = options.with_revision(entries.revision as i64);
                }
                TxnOp::get(name.as_str(), Some(options))
            };
            let gets: Vec<TxnOp> = some.iter().map(get).collect();
            let (response, _) = shared.members.transact(Txn::new().and_then(gets)).await?;
            if entries.revision == 0 {
                entries.revision = response.header().map_or(0, |header| header.revision()) as u64;
            }
            for answer in response.op_responses() {
                let TxnOpResponse::Get(found) = answer else { return Err(odd()) };
                shared.found(&found, &mut entries.found)?;
            }
        }
        Ok(entries)
    }

    pub(super) async fn page_of_entries(&self, prefix: &str, after: &str, limit: usize) -> Result<Entries, StoreError> {
        let shared = &self.shared;
        let folder = shared.entry(prefix);
        let mut end = folder.clone().into_bytes();
        *end.last_mut().ok_or_else(odd)? += 1;
        let first = if after > prefix { format!("{}\0", shared.entry(after)) } else { folder };
        let options = GetOptions::new().with_range(end).with_limit(i64::try_from(limit).unwrap_or(0));
        let page = shared.members.get(first.into_bytes(), Some(options)).await?;
        let mut entries = Entries { revision: page.header().map_or(0, |header| header.revision()) as u64, found: Vec::new() };
        shared.found(&page, &mut entries.found)?;
        Ok(entries)
    }

    pub(super) async fn write_entries(&self, plan: Plan) -> Result<Option<u64>, StoreError> {
        let shared = &self.shared;
        let same = |(name, generation): (String, u64)| {
            Compare::mod_revision(shared.entry(&name), CompareOp::Equal, i64::try_from(generation).unwrap_or(i64::MAX))
        };
        let write = |(name, body): (String, Option<String>)| match body {
            Some(body) => TxnOp::put(shared.entry(&name), body, None),
            None => TxnOp::delete(shared.entry(&name), None),
        };
        let checks: Vec<Compare> = plan.checks.into_iter().map(same).collect();
        let writes: Vec<TxnOp> = plan.writes.into_iter().map(write).collect();
        let (response, is_repeated) = shared.members.transact(Txn::new().when(checks).and_then(writes)).await?;
        match response.succeeded() {
            true => Ok(Some(response.header().map_or(0, |header| header.revision()) as u64)),
            // What the second copy met may be the first.
            false if is_repeated => Err(StoreError::Unreachable("a change was sent twice, and may have been applied".into())),
            false => Ok(None),
        }
    }

    pub(super) fn observe_entries(&self) -> EntryWatch {
        let (sender, watch) = mpsc::channel(QUEUE);
        let shared = self.shared.clone();
        tokio::spawn(async move { observe(&shared, &sender).await });
        watch
    }
}

impl Shared {
    fn entry(&self, name: &str) -> String {
        format!("/weft/{}.tenants/{name}", self.identity.cluster)
    }

    fn found(&self, response: &GetResponse, found: &mut Vec<Found>) -> Result<(), StoreError> {
        let of = |kv: &KeyValue| {
            let body = std::str::from_utf8(kv.value()).map_err(|_| damaged(kv.key(), "not text"))?;
            Ok(Found { name: self.name_of(kv)?, generation: kv.mod_revision() as u64, body: body.to_owned() })
        };
        response.kvs().iter().try_for_each(|kv| {
            found.push(of(kv)?);
            Ok(())
        })
    }

    fn name_of(&self, kv: &KeyValue) -> Result<String, StoreError> {
        let name = std::str::from_utf8(kv.key()).ok().and_then(|key| key.strip_prefix(&self.entry("")));
        name.map(str::to_owned).ok_or_else(|| damaged(kv.key(), "not the name of an entry"))
    }
}

/// Reports which entries change, for as long as somebody listens. After an interruption the watch begins where it ended, or with a gap.
async fn observe(shared: &Shared, sender: &mpsc::Sender<EntryEvent>) {
    let mut reported = 0;
    loop {
        let ended = tokio::select! {
            ended = follow(shared, &mut reported, sender) => ended,
            () = sender.closed() => return,
        };
        if let Err(error) = ended {
            tracing::debug!(%error, revision = reported, "the watch of tenants' records begins again");
            if matches!(error, StoreError::Compacted(_)) {
                reported = 0;
            }
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// One stream, from its beginning to its end.
async fn follow(shared: &Shared, reported: &mut u64, sender: &mpsc::Sender<EntryEvent>) -> Result<(), StoreError> {
    if *reported == 0 {
        let now = shared.members.get(shared.entry("site").into_bytes(), None).await?;
        *reported = now.header().map_or(0, |header| header.revision()) as u64;
        let _ = sender.send(EntryEvent::Gap).await;
    }
    let (mut client, at) = shared.members.client().await?;
    let lost = |why: String| {
        shared.members.leave(at);
        StoreError::Unreachable(why)
    };
    let options = WatchOptions::new().with_prefix().with_start_revision(*reported as i64 + 1);
    let begun = tokio::time::timeout(TIMEOUT / 2, client.watch(shared.entry(""), Some(options))).await;
    let mut stream = match begun {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => return Err(lost(sort(&error, "watch").to_string())),
        Err(_) => return Err(lost("a watch could not begin".into())),
    };
    let mut is_asked = false;
    loop {
        let response = match tokio::time::timeout(TIMEOUT / 4, stream.message()).await {
            Err(_) if is_asked => return Err(lost("a watch is silent".into())),
            Err(_) => {
                is_asked = true;
                let asked = tokio::time::timeout(TIMEOUT / 4, stream.request_progress()).await;
                if !matches!(asked, Ok(Ok(()))) {
                    return Err(lost("a watch cannot be asked".into()));
                }
                continue;
            }
            Ok(Ok(Some(response))) => response,
            Ok(Ok(None)) => return Err(lost("a watch ended".into())),
            Ok(Err(error)) => return Err(lost(sort(&error, "watch").to_string())),
        };
        is_asked = false;
        report(shared, reported, &response, sender).await?;
    }
}

async fn report(
    shared: &Shared,
    reported: &mut u64,
    response: &WatchResponse,
    sender: &mpsc::Sender<EntryEvent>,
) -> Result<(), StoreError> {
    shared.members.check(response.header())?;
    if response.canceled() {
        let compacted = response.compact_revision() as u64;
        let why = response.cancel_reason().to_owned();
        return Err(if compacted > 0 { StoreError::Compacted(compacted) } else { StoreError::Unreachable(why) });
    }
    let mut names = Vec::with_capacity(response.events().len());
    for kv in response.events().iter().filter_map(|event| event.kv()) {
        *reported = (*reported).max(kv.mod_revision() as u64);
        names.push(shared.name_of(kv)?);
    }
    if !names.is_empty() {
        let _ = sender.send(EntryEvent::Changed(names)).await;
    }
    Ok(())
}
