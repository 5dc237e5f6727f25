//! The shell of [`weft_control::directory::documents`], which decides: reads and writes the store for it, and takes its replies to the streams.
//!
//! ```text
//!   stream --Fetch, Publish--> machine --Read, Replace--> a task with the store
//!          <-----Reply--------         <--ReadDone, ReplaceDone--'
//! ```

use std::sync::Arc;

use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use tokio::sync::oneshot;
use weft_control::directory::PrincipalId;
use weft_control::directory::documents::{
    Document, Documents as Machine, Input, Output, ReadResult, ReplaceId, ReplaceResult, Requester,
};
use weft_control::directory::policy::Policy;
use weft_control::directory::request::StreamId;
use weft_control::wire::directory::{Fetch, Kind, Message, Publish, PublishOutcome, Published};

use super::core::Core;
use crate::store::{AnyStore, Replaced, Store, StoredDocument};

/// The documents of a running server.
pub struct Documents {
    core: Arc<Core>,
    store: AnyStore,
    machine: Mutex<Machine>,
    /// The policy in force when somebody last published.
    policy: Mutex<Arc<Policy>>,
    /// Streams that wait for a reply. Each asks one thing at a time.
    waiting: Mutex<FxHashMap<StreamId, oneshot::Sender<Reply>>>,
}

/// A reply without its header.
pub struct Reply {
    pub kind: Kind,
    pub body: Vec<u8>,
}

/// The reply to a publication that this server's store does not take.
fn unknown() -> Reply {
    let published = Message::Published(Published { outcome: PublishOutcome::Unknown, version: 0 });
    let mut body = Vec::new();
    published.emit(&mut body);
    Reply { kind: published.kind(), body }
}

impl Documents {
    /// Over this store.
    pub fn new(core: Arc<Core>, store: AnyStore) -> Self {
        let policy = Mutex::new(Arc::new(core.server.read().shared().policy.clone()));
        Self { core, store, machine: Mutex::default(), policy, waiting: Mutex::default() }
    }

    /// Answers a request for a part of a document; `None` if the stream has ended.
    pub async fn fetch(self: &Arc<Self>, from: Requester, fetch: Fetch<'_>) -> Option<Reply> {
        let reply = self.wait_for(from.stream);
        self.handle(Input::Fetch { from, fetch });
        reply.await.ok()
    }

    /// Takes a part of a document; the reply to the last part comes when the store has answered. `None` if the stream has ended. A replica takes none:
    /// the client goes on to the next server.
    pub async fn publish(self: &Arc<Self>, from: Requester, part: Publish<'_>) -> Option<Reply> {
        if self.core.config.replica {
            return Some(unknown());
        }
        let reply = self.wait_for(from.stream);
        self.handle(Input::Publish { from, policy: &self.policy(), part });
        reply.await.ok()
    }

    /// A stream has ended.
    pub fn close(self: &Arc<Self>, stream: StreamId) {
        self.waiting.lock().remove(&stream);
        self.handle(Input::StreamClosed(stream));
    }

    fn wait_for(&self, stream: StreamId) -> oneshot::Receiver<Reply> {
        let (sender, reply) = oneshot::channel();
        self.waiting.lock().insert(stream, sender);
        reply
    }

    /// The policy in force, copied so that lookups do not wait while a large document is assembled. A version has one content.
    fn policy(&self) -> Arc<Policy> {
        let server = self.core.server.read();
        let in_force = &server.shared().policy;
        let mut copy = self.policy.lock();
        if copy.version() != in_force.version() {
            *copy = Arc::new(in_force.clone());
        }
        copy.clone()
    }

    fn handle(self: &Arc<Self>, input: Input<'_>) {
        let outputs: Vec<Output> = {
            let mut machine = self.machine.lock();
            machine.handle(self.core.now(), input);
            std::iter::from_fn(|| machine.poll()).collect()
        };
        for output in outputs {
            self.perform(output);
        }
    }

    fn perform(self: &Arc<Self>, output: Output) {
        match output {
            Output::Reply { to, kind, body } => {
                // A stream that has ended waits for nothing.
                if let Some(waiting) = self.waiting.lock().remove(&to.stream) {
                    let _ = waiting.send(Reply { kind, body });
                }
            }
            Output::Read { name, known } => {
                let documents = self.clone();
                tokio::spawn(async move { documents.read(&name, known).await });
            }
            Output::Replace { replace, principal, name, expect, document } => {
                let documents = self.clone();
                tokio::spawn(async move { documents.replace(replace, principal, &name, expect, document).await });
            }
        }
    }

    async fn read(self: &Arc<Self>, name: &str, known: u32) {
        let result = match self.store.document(name, known).await {
            Ok(None) => ReadResult::Missing,
            Ok(Some(StoredDocument { bytes: None, .. })) => ReadResult::Unchanged,
            Ok(Some(StoredDocument { version, bytes: Some(bytes) })) => ReadResult::Found(Document { version, bytes }),
            Err(error) => {
                tracing::warn!(%error, name, "a document cannot be read");
                ReadResult::Failed
            }
        };
        self.handle(Input::ReadDone { name, result });
    }

    async fn replace(self: &Arc<Self>, replace: ReplaceId, principal: PrincipalId, name: &str, expect: u32, document: Document) {
        let Document { version, bytes } = document;
        let record = |outcome: &str| {
            if let Some(audit) = &self.core.audit {
                audit.document(principal, name, version, outcome);
            }
        };
        let result = match self.store.replace_document(name, expect, version, bytes).await {
            Ok(Replaced::Done) => {
                tracing::info!(name, version, principal = principal.0, "a document was replaced");
                record("committed");
                ReplaceResult::Committed
            }
            Ok(Replaced::Conflict(held)) => ReplaceResult::Conflict(held),
            Err(error) => {
                record("unknown");
                tracing::warn!(%error, name, version, "a document cannot be replaced");
                ReplaceResult::Failed
            }
        };
        self.handle(Input::ReplaceDone { replace, result });
    }
}
