//! The list of denied principals, as the store has it: read before the server answers anybody, and four times a second from then on.

use std::sync::Arc;
use std::time::Duration;

use rustc_hash::FxHashSet;
use weft_control::directory::PrincipalId;
use weft_control::directory::denied::{self, DOCUMENT};
use weft_control::directory::server::Input;

use super::core::Core;
use crate::store::{AnyStore, Store, StoreError, StoredDocument};

/// How often the store is asked; all it answers is the version, unless that is another.
const LOOK: Duration = Duration::from_millis(250);

/// The list in force.
#[derive(Debug)]
pub struct DeniedList {
    store: AnyStore,
    version: u32,
}

impl DeniedList {
    /// None is known yet.
    pub const fn new(store: AnyStore) -> Self {
        Self { store, version: 0 }
    }

    /// The list, if it is another one; the version is then known. A list that cannot be read as one is as none: the one before stays.
    pub async fn read(&mut self) -> Result<Option<FxHashSet<PrincipalId>>, StoreError> {
        let Some(StoredDocument { version, bytes: Some(bytes) }) = self.store.document(DOCUMENT, self.version).await? else {
            return Ok(None);
        };
        self.version = version;
        let list = std::str::from_utf8(&bytes).map_err(|_| denied::DeniedError::Line(1)).and_then(denied::parse);
        Ok(list
            .inspect_err(|error| tracing::error!(%error, version, "the list of denied principals is ignored, and the one before stays in force"))
            .ok())
    }

    /// Follows the list for ever. While the store does not answer, the last one stays in force.
    pub async fn follow(mut self, core: Arc<Core>) {
        loop {
            tokio::time::sleep(LOOK).await;
            match self.read().await {
                Ok(Some(denied)) => {
                    tracing::info!(
                        version = self.version,
                        principals = denied.len(),
                        "another list of denied principals is in force"
                    );
                    if let Some(audit) = &core.audit {
                        audit.in_force("deny", &serde_json::json!({ "version": self.version, "principals": denied.len() }));
                    }
                    core.post(Input::Denied(denied));
                }
                Ok(None) => {}
                Err(error) => tracing::debug!(%error, "the list of denied principals cannot be read"),
            }
        }
    }
}
