//! The files of the cluster's secrets, which may be replaced while the server runs: hosts whose keys are still good notice nothing.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use weft_control::directory::auth::Secret;

use super::config::{ServeError, read_secret};
use super::core::Core;

/// How often the files are looked at.
const LOOK: Duration = Duration::from_secs(1);

/// The files.
pub struct Secrets {
    present: PathBuf,
    /// Keys of this one are good as well, while it is there.
    old: Option<PathBuf>,
}

impl Secrets {
    /// The files that a server is to follow.
    pub const fn new(present: PathBuf, old: Option<PathBuf>) -> Self {
        Self { present, old }
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

    /// Reloads when a file changes and stays so for a moment: two files are replaced one after the other.
    pub async fn follow(self: Arc<Self>, core: Arc<Core>) {
        let mut read = self.stamps();
        let mut seen = read;
        loop {
            tokio::time::sleep(LOOK).await;
            let now = self.stamps();
            if now != read && now == seen {
                self.reload(&core);
                read = now;
            }
            seen = now;
        }
    }

    fn stamps(&self) -> [Option<(SystemTime, u64)>; 2] {
        let stamp = |path: &Path| {
            let metadata = std::fs::metadata(path).ok()?;
            Some((metadata.modified().ok()?, metadata.len()))
        };
        [stamp(&self.present), self.old.as_deref().and_then(stamp)]
    }
}
