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

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether a change is noticed within a time.
    async fn notices(watched: &mut Watched, within: Duration) -> bool {
        tokio::time::timeout(within, watched.changed()).await.is_ok()
    }

    #[tokio::test]
    async fn what_changes_before_anybody_waits_is_noticed_once() {
        let folder = tempfile::tempdir().unwrap();
        let [there, absent] = ["there", "absent"].map(|name| folder.path().join(name));
        std::fs::write(&there, "1").unwrap();
        let mut watched = Watched::new([there.clone(), absent.clone()]);
        std::fs::write(&absent, "new").unwrap();
        assert!(notices(&mut watched, 4 * LOOK).await, "a file appears");
        assert!(!notices(&mut watched, 3 * LOOK).await, "nothing changes");
        std::fs::remove_file(&there).unwrap();
        assert!(notices(&mut watched, 4 * LOOK).await, "a file goes");
    }

    #[tokio::test]
    async fn files_that_still_change_are_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        let mut watched = Watched::new([file.clone()]);
        let writing = tokio::spawn(async move {
            for length in 1..=8 {
                std::fs::write(&file, "x".repeat(length)).unwrap();
                tokio::time::sleep(LOOK / 2).await;
            }
        });
        assert!(!notices(&mut watched, 3 * LOOK).await, "it has changed since the last look");
        writing.await.unwrap();
        assert!(notices(&mut watched, 4 * LOOK).await, "it stays as it is");
    }
}
