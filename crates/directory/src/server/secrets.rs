//! The files of the cluster's secrets, which may be replaced while the server runs: hosts whose keys are still good notice nothing.

use std::path::PathBuf;
use std::sync::Arc;

use weft_control::directory::auth::Secret;

use super::config::{ServeError, read_secret};
use super::core::Core;
use super::watched::Watched;

/// The files.
pub struct Secrets {
    present: PathBuf,
    /// Keys of this one are good as well, while it is there.
    old: Option<PathBuf>,
    watched: Watched,
}

impl Secrets {
    /// The files that a server is to follow.
    pub fn new(present: PathBuf, old: Option<PathBuf>) -> Self {
        let watched = Watched::new([Some(present.clone()), old.clone()].into_iter().flatten());
        Self { present, old, watched }
    }

    /// Reads what is there.
    pub fn read(&self) -> Result<Secret, ServeError> {
        let present = read_secret(&self.present)?;
        match &self.old {
            Some(old) if old.exists() => Ok(present.and_old(&read_secret(old)?)),
            _ => Ok(present),
        }
    }

    /// Reads the files again; if they cannot be used, what was read before stays in force.
    pub fn reload(&self, core: &Core) {
        match self.read() {
            Ok(secret) if core.set_secret(&secret) => {
                tracing::info!(keys = 1 + u32::from(secret.has_old()), "another secret is in force");
            }
            Ok(_) => {}
            Err(error) => {
                core.metrics.certificate_errors.increment(1);
                tracing::error!(%error, "the secret cannot be read again, and the one before stays in force");
            }
        }
    }

    /// Reloads whenever a file has changed.
    pub async fn follow(self: Arc<Self>, core: Arc<Core>) {
        let mut watched = self.watched.clone();
        loop {
            watched.changed().await;
            self.reload(&core);
        }
    }
}
