//! Notices to the streams that subscribe to tenants' records, when the store says that these have changed.

use std::sync::Arc;
use std::time::Duration;

use super::core::Core;
use super::streams::Streams;
use super::tenants::Tenants;
use crate::store::EntryEvent;

/// Before a watch that ended begins again.
const PAUSE: Duration = Duration::from_millis(200);

/// Sends notices for ever.
pub async fn send(core: Arc<Core>, tenants: Arc<Tenants>, streams: Arc<Streams>) {
    let send = |event: &EntryEvent| {
        for (stream, principal, message) in tenants.notices(event) {
            streams.reply(&core, stream, principal, message);
        }
    };
    loop {
        match tenants.watch().await {
            Ok(mut watch) => {
                // What changed until now was not watched.
                send(&EntryEvent::Gap);
                while let Some(event) = watch.recv().await {
                    send(&event);
                }
            }
            Err(error) => tracing::debug!(%error, "tenants' records cannot be watched"),
        }
        tokio::time::sleep(PAUSE).await;
    }
}
