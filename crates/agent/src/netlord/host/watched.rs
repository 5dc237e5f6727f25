//! Files with a version that are reloaded when they change: errors in a new file are reported, and the old content stays in force.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::error::Result;

/// A file, the time of the change that was read last, and what is wrong with the file now.
#[derive(Debug)]
pub(super) struct Watched {
    file: PathBuf,
    changed: Option<SystemTime>,
    pub problem: Option<String>,
}

impl Watched {
    /// What is there has not been read.
    pub const fn new(file: PathBuf) -> Self {
        Self { file, changed: None, problem: None }
    }

    /// What is there has been read.
    pub fn read(file: PathBuf) -> Self {
        Self { changed: changed_at(&file), file, problem: None }
    }

    /// What is there is to be read, though the system's clock may not say that it has changed.
    pub const fn mark(&mut self) {
        self.changed = None;
    }

    /// What the file says, if it has changed since the last look, is right, and is no older than version `held`. `comes`: if it is not there, it will be.
    pub fn newer<T>(&mut self, held: u32, comes: bool, read: fn(&Path) -> Result<T>, version: fn(&T) -> u32) -> Option<T> {
        let at = changed_at(&self.file);
        if at == self.changed {
            return None;
        }
        self.changed = at;
        self.problem = match read(&self.file) {
            Ok(new) if version(&new) >= held => {
                self.problem = None;
                return Some(new);
            }
            Ok(new) => Some(format!("{} has version {}, older than the {held} that holds", self.file.display(), version(&new))),
            Err(_) if at.is_none() && comes => None,
            Err(error) => Some(error.to_string()),
        };
        if let Some(problem) = &self.problem {
            tracing::warn!(problem, "a file is not taken");
        }
        None
    }
}

/// When a file was changed; none if it is not there.
pub(super) fn changed_at(path: &Path) -> Option<SystemTime> {
    fs::metadata(path).and_then(|it| it.modified()).ok()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::error::Error;

    fn number(path: &Path) -> Result<u32> {
        let text = fs::read_to_string(path).map_err(Error::file("read", path))?;
        text.parse().map_err(|_| {
            let reason = format!("`{text}` is no number");
            Error::Content { path: path.to_owned(), reason, help: "" }
        })
    }

    #[test]
    fn what_is_right_and_not_older_is_taken_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let mut seconds = 0;
        let mut write = |text: &str| {
            fs::write(&path, text).unwrap();
            // Writes may come within one tick of the system's clock.
            seconds += 1;
            let at = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
            fs::File::options().write(true).open(&path).unwrap().set_modified(at).unwrap();
        };
        let mut file = Watched::new(path.clone());
        let look = |file: &mut Watched, held, comes| file.newer(held, comes, number, |it| *it);
        assert_eq!((look(&mut file, 0, false), file.problem.is_none()), (None, true), "nothing has changed");
        write("3");
        assert_eq!([look(&mut file, 0, false), look(&mut file, 3, false)], [Some(3), None]);
        for (text, said) in [("2", "older than the 3"), ("x", "no number")] {
            write(text);
            assert_eq!(look(&mut file, 3, false), None);
            assert!(file.problem.as_ref().is_some_and(|it| it.contains(said)), "{:?}", file.problem);
        }
        write("3");
        assert_eq!((look(&mut file, 3, false), &file.problem), (Some(3), &None));
        for comes in [true, false] {
            write("3");
            assert_eq!(look(&mut file, 3, comes), Some(3));
            fs::remove_file(&path).unwrap();
            assert_eq!((look(&mut file, 3, comes), file.problem.is_none()), (None, comes));
        }
        write("4");
        assert_eq!(Watched::read(path.clone()).newer(0, false, number, |it| *it), None, "it is known");
    }
}
