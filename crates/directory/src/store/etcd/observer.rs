//! The watch of an etcd: one stream at one member, begun again at another after the last revision reported, until there is a gap.
//!
//! The stream is a hint, and is checked: revisions only grow, the cluster is the same, and a stream on which nothing comes although progress was
//! asked for is given up.

use std::time::Duration;

use etcd_client::{EventType, WatchOptions, WatchResponse};
use weft_control::directory::Generation;
use weft_control::directory::store::Stored;

use super::members::sort;
use super::{PROGRESS, Shared, parse_purged, record_of};
use crate::store::watching::WatchSender;
use crate::store::{StoreError, TIMEOUT, WatchEvent};

/// Progress requests that may stay without an answer.
const SILENT: u32 = 3;

/// Between two tries to begin a stream.
const PAUSE: Duration = Duration::from_millis(50);

/// Reports all changes after a revision, until there is a gap or nobody listens.
pub async fn observe(shared: &Shared, after: Generation, sender: &WatchSender) {
    let mut reported = after;
    loop {
        let ended = tokio::select! {
            ended = follow(shared, &mut reported, sender) => ended,
            () = sender.abandoned() => return,
        };
        match ended {
            Err(error) if matches!(error, StoreError::Unreachable(_)) => {
                tracing::debug!(%error, revision = reported.0, "the watch begins again");
                tokio::time::sleep(PAUSE).await;
            }
            Err(error) => {
                sender.send_or_wait(WatchEvent::Gap(error.to_string())).await;
                return;
            }
            Ok(()) => return,
        }
    }
}

/// One stream, from its beginning to its end. `reported` moves on with it.
async fn follow(shared: &Shared, reported: &mut Generation, sender: &WatchSender) -> Result<(), StoreError> {
    let (mut client, at) = shared.members.client().await?;
    let lost = |why: String| {
        shared.members.leave(at);
        StoreError::Unreachable(why)
    };
    let options = WatchOptions::new().with_prefix().with_start_revision(reported.0 as i64 + 1);
    let begun = tokio::time::timeout(TIMEOUT / 2, client.watch(shared.names.prefix.clone(), Some(options))).await;
    let mut stream = match begun {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => return Err(lost(sort(&error, "watch").to_string())),
        Err(_) => return Err(lost("a watch could not begin".into())),
    };
    let mut silent = 0;
    loop {
        let response = match tokio::time::timeout(PROGRESS, stream.message()).await {
            Err(_) if silent == SILENT => return Err(lost("a watch is silent".into())),
            Err(_) => {
                silent += 1;
                let asked = tokio::time::timeout(PROGRESS, stream.request_progress()).await;
                if !matches!(asked, Ok(Ok(()))) {
                    return Err(lost("a watch cannot be asked".into()));
                }
                continue;
            }
            Ok(Ok(Some(response))) => response,
            Ok(Ok(None)) => return Err(lost("a watch ended".into())),
            Ok(Err(error)) => return Err(lost(sort(&error, "watch").to_string())),
        };
        silent = 0;
        if response.canceled() {
            let compacted = response.compact_revision() as u64;
            let why = response.cancel_reason().to_owned();
            return Err(if compacted > 0 { StoreError::Compacted(compacted) } else { lost(why) });
        }
        if let Some(event) = event_of(shared, reported, &response)?
            && !sender.send_or_wait(event).await
        {
            return Ok(());
        }
    }
}

/// What a response says that was not reported yet.
fn event_of(shared: &Shared, reported: &mut Generation, response: &WatchResponse) -> Result<Option<WatchEvent>, StoreError> {
    let header = response.header();
    shared.members.check(header)?;
    let now = header.map_or(0, |header| header.revision() as u64);
    if response.created() {
        // A member may be behind for a while, but all of them together never are: `Members::check` of the next read would show it.
        return Ok(None);
    }
    if response.events().is_empty() {
        if !shared.progress_is_sound || now <= reported.0 {
            return Ok(None);
        }
        *reported = Generation(now);
        return Ok(Some(WatchEvent::Progress(*reported)));
    }
    let mut changes = Vec::with_capacity(response.events().len());
    let mut purged = None;
    let mut revision = *reported;
    for event in response.events() {
        let Some(kv) = event.kv() else { continue };
        let generation = Generation(kv.mod_revision() as u64);
        if generation <= *reported {
            return Err(shared.members.replaced(format!("an event of revision {} came after {}", generation.0, reported.0)));
        }
        revision = revision.max(generation);
        if kv.key() == shared.names.purged {
            purged = Some(parse_purged(kv)?);
        } else if kv.key().starts_with(&shared.names.data) {
            let key = shared.names.key(kv.key())?;
            changes.push(match event.event_type() {
                EventType::Put => Stored { key, generation, record: Some(record_of(kv)?.1) },
                // The transaction that removes tombstones puts first how far they go. (The tombstone's own generation can be had with the event, but
                // then etcd reads an old revision for every event of the watch, which costs it more than all the rest.)
                EventType::Delete => Stored { key, generation: purged.unwrap_or(generation), record: None },
            });
        }
    }
    *reported = revision;
    Ok(Some(WatchEvent::Changes { revision, changes, purged }))
}
