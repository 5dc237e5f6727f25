//! Named texts in the store, such as the tenants' file: handed out in parts, and replaced as a whole.
//!
//! ```text
//!   Fetch   --> read not long ago? else the store; if that does not answer, what was read before  --> Text
//!   Publish --> may it? --> the stream's draft, part by part --> the store, if the version is still the expected one --> Published
//! ```
//! No machine is needed for them: a text is replaced seldom, by one who knows what was there, and agents take it whole or not at all.

use std::sync::Arc;
use std::time::{Duration, Instant};

use rustc_hash::FxHashMap;
use tokio::sync::Mutex;
use weft_control::directory::PrincipalId;
use weft_control::wire::directory::{Fetch, Message, Publish, PublishOutcome, Published, TEXT_PART, Text, TextOutcome};

use super::core::Core;
use crate::store::{AnyStore, Replaced, Store, StoredText};

/// How long the store is not asked again whether there is another version; and how long if it did not answer.
const FRESH: Duration = Duration::from_millis(500);
const AWAY: Duration = Duration::from_secs(5);

/// Names of which something is kept in memory.
const KEPT: usize = 16;

/// The store's texts.
pub struct Texts {
    store: AnyStore,
    /// Locked while the store is asked: of many agents that want the same, one asks.
    kept: Mutex<FxHashMap<String, Kept>>,
}

/// What the store said of a name.
#[derive(Clone)]
struct Kept {
    /// Its version and bytes; `None`: there is no text of this name.
    text: Option<(u32, Arc<[u8]>)>,
    /// Until then nobody asks the store again.
    until: Instant,
}

/// A text on its way into the store, of one stream.
pub struct Draft {
    name: String,
    expect: u32,
    version: u32,
    length: u64,
    bytes: Vec<u8>,
}

impl Texts {
    pub fn new(store: AnyStore) -> Self {
        Self { store, kept: Mutex::default() }
    }

    /// A part of a text, as the body of a message.
    pub async fn fetch(&self, asked: &Fetch<'_>) -> Vec<u8> {
        let mut body = Vec::new();
        let (version, all) = match self.current(asked.name).await {
            Some(Some(text)) => text,
            Some(None) => {
                Message::Text(Text::none(TextOutcome::Unknown)).emit(&mut body);
                return body;
            }
            None => {
                Message::Text(Text::none(TextOutcome::Elsewhere)).emit(&mut body);
                return body;
            }
        };
        let offset = asked.offset.min(all.len() as u64);
        let rest = if version == asked.known { &[] } else { &all[offset as usize..] };
        let (length, bytes) = (all.len() as u64, &rest[..rest.len().min(TEXT_PART)]);
        Message::Text(Text { outcome: TextOutcome::Found, version, length, offset, bytes }).emit(&mut body);
        body
    }

    /// What the store says of a name, or said before if it does not answer; `None`: nothing is known.
    async fn current(&self, name: &str) -> Option<Option<(u32, Arc<[u8]>)>> {
        let mut kept = self.kept.lock().await;
        let before = kept.get(name).cloned();
        if let Some(Kept { text, .. }) = before.as_ref().filter(|it| Instant::now() < it.until) {
            return Some(text.clone());
        }
        let before = before.and_then(|it| it.text);
        let read = self.store.text(name, before.as_ref().map_or(0, |(version, _)| *version)).await;
        let (text, fresh) = match read {
            Ok(None) => (None, FRESH),
            Ok(Some(StoredText { version, bytes: Some(bytes) })) => (Some((version, bytes)), FRESH),
            Ok(Some(StoredText { bytes: None, .. })) => (before, FRESH),
            // As look-ups are, it is answered from memory.
            Err(error) => {
                tracing::warn!(%error, name, "a text cannot be read");
                (Some(before?), AWAY)
            }
        };
        remember(&mut kept, name, text.clone(), fresh);
        Some(text)
    }

    /// Takes a part; with the last one the text is in the store.
    pub async fn publish(&self, core: &Core, principal: PrincipalId, part: &Publish<'_>, draft: &mut Option<Draft>) -> Published {
        let answer = |outcome, version| Published { outcome, version };
        if !core.server.read().shared().policy.may_publish(principal) {
            *draft = None;
            return answer(PublishOutcome::Refused, 0);
        }
        if part.offset == 0 {
            let (name, expect, version, length) = (part.name.to_owned(), part.expect, part.version, part.length);
            *draft = Some(Draft { name, expect, version, length, bytes: Vec::new() });
        }
        // What does not go on from the last part begins anew.
        let Some(mut taken) = draft.take().filter(|it| it.goes_on_with(part)) else {
            return answer(PublishOutcome::Malformed, 0);
        };
        taken.bytes.extend_from_slice(part.bytes);
        if (taken.bytes.len() as u64) < taken.length {
            // Nothing but the last part may be empty, or it would never end.
            if part.bytes.is_empty() {
                return answer(PublishOutcome::Malformed, 0);
            }
            *draft = Some(taken);
            return answer(PublishOutcome::More, 0);
        }
        let Draft { name, expect, version, bytes, .. } = taken;
        let bytes: Arc<[u8]> = bytes.into();
        match self.store.replace_text(&name, expect, version, bytes.clone()).await {
            Ok(Replaced::Done) => {
                tracing::info!(name, version, principal = principal.0, "a text was replaced");
                remember(&mut *self.kept.lock().await, &name, Some((version, bytes)), FRESH);
                answer(PublishOutcome::Committed, version)
            }
            Ok(Replaced::Conflict(held)) => answer(PublishOutcome::Conflict, held),
            Err(error) => {
                tracing::warn!(%error, name, version, "a text cannot be replaced");
                answer(PublishOutcome::Unknown, 0)
            }
        }
    }
}

fn remember(kept: &mut FxHashMap<String, Kept>, name: &str, text: Option<(u32, Arc<[u8]>)>, fresh: Duration) {
    if kept.len() >= KEPT && !kept.contains_key(name) {
        kept.clear();
    }
    kept.insert(name.to_owned(), Kept { text, until: Instant::now() + fresh });
}

impl Draft {
    fn goes_on_with(&self, part: &Publish<'_>) -> bool {
        let own = (self.name.as_str(), self.expect, self.version, self.length, self.bytes.len() as u64);
        own == (part.name, part.expect, part.version, part.length, part.offset) && part.version > part.expect
    }
}
