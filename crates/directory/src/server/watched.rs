//! Files that are read again when they change.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// How often the files are looked at.
pub const LOOK: Duration = Duration::from_secs(1);

/// By which a changed file is noticed; `None`: there is none.
pub type Stamp = Option<(SystemTime, u64)>;

/// A file's stamp.
pub fn stamp(path: &Path) -> Stamp {
    let metadata = std::fs::metadata(path).ok()?;
    Some((metadata.modified().ok()?, metadata.len()))
}

/// Files that belong together.
#[derive(Clone, Debug)]
pub struct Watched {
    files: Vec<PathBuf>,
    read: Vec<Stamp>,
}

impl Watched {
    /// Files that are about to be read: what changes from now on is a change.
    pub fn new(files: impl IntoIterator<Item = PathBuf>) -> Self {
        let mut watched = Self { files: files.into_iter().collect(), read: Vec::new() };
        watched.read = watched.stamps();
        watched
    }

    /// Waits until a file has changed and stayed so for a moment: they are replaced one after the other.
    pub async fn changed(&mut self) {
        let mut seen = self.read.clone();
        loop {
            tokio::time::sleep(LOOK).await;
            let now = self.stamps();
            if now != self.read && now == seen {
                self.read = now;
                return;
            }
            seen = now;
        }
    }

    fn stamps(&self) -> Vec<Stamp> {
        self.files.iter().map(|file| stamp(file)).collect()
    }
}
