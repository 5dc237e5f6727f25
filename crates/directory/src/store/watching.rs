//! A watch in progress: a bounded queue of events from the store to the server.

use tokio::sync::mpsc;

use super::WatchEvent;

/// Events of a watch. A reader who falls this many events behind gets a gap.
pub const QUEUE: usize = 4096;

/// What happens in a store, from a revision on.
#[derive(Debug)]
pub struct Watch {
    events: mpsc::Receiver<WatchEvent>,
    ended: bool,
}

/// The store's end of a watch.
#[derive(Debug)]
pub(super) struct WatchSender(mpsc::Sender<WatchEvent>);

pub(super) fn pair() -> (WatchSender, Watch) {
    let (sender, events) = mpsc::channel(QUEUE);
    (WatchSender(sender), Watch { events, ended: false })
}

impl Watch {
    /// The next event. A watch whose store dropped it (its reader was too slow, or the store is gone) ends with a gap; `None` after a gap.
    pub async fn next(&mut self) -> Option<WatchEvent> {
        if self.ended {
            return None;
        }
        let event = self.events.recv().await.unwrap_or_else(|| WatchEvent::Gap("the watch fell behind".into()));
        self.ended = matches!(event, WatchEvent::Gap(_));
        Some(event)
    }
}

impl WatchSender {
    /// Sends without waiting; false if the watch must be dropped.
    pub fn send(&self, event: WatchEvent) -> bool {
        self.0.try_send(event).is_ok()
    }

    /// Waits until there is room; false if nobody listens.
    pub async fn send_or_wait(&self, event: WatchEvent) -> bool {
        self.0.send(event).await.is_ok()
    }

    /// Ends when nobody listens any more.
    pub async fn abandoned(&self) {
        self.0.closed().await;
    }
}
