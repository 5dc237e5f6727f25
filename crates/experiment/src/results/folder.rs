//! The results folder: written next to its final place and moved there as a whole, so that it is never incomplete.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use tempfile::TempDir;

use crate::error::{Error, Result};

/// An unfinished results folder. Dropped before [`Folder::publish`], it leaves nothing behind.
#[derive(Debug)]
pub struct Folder {
    target: PathBuf,
    partial: TempDir,
    /// Runs of the study: several have a folder each.
    runs: usize,
    /// Parents of the target that were made for it, the innermost first.
    made: Vec<PathBuf>,
    /// Held as long as the writer is running.
    _lock: Lock,
}

/// Unfinished folders, for [`remove_unfinished`].
static UNFINISHED: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// Removes every unfinished folder: for a signal handler that ends the process.
pub fn remove_unfinished() {
    for path in UNFINISHED.lock().unwrap_or_else(std::sync::PoisonError::into_inner).drain(..) {
        let _ = fs::remove_dir_all(path);
    }
}

impl Folder {
    /// Prepares to write the results of so many runs to `target`, which may exist only as an earlier results folder or an empty one.
    ///
    /// # Errors
    /// A folder that is not ours, or cannot be written.
    pub fn prepare(target: &Path, runs: usize) -> Result<Self> {
        // Through a symbolic link, the folder that it leads to is replaced and the link stays.
        let target = fs::canonicalize(target).unwrap_or_else(|_| target.to_owned());
        if target.symlink_metadata().is_ok() && !may_replace(&target)? {
            return Err(Error::usage(
                format!("{} already exists and holds files that are not results of weft", target.display()),
                "choose another folder with `--out DIR`",
            ));
        }
        let name = target.file_name().ok_or_else(|| {
            Error::usage(format!("{} cannot be a results folder", target.display()), "name a folder with `--out DIR`")
        })?;
        let parent = match target.parent() {
            Some(p) if !p.as_os_str().is_empty() => p,
            _ => Path::new("."),
        };
        let made: Vec<PathBuf> =
            parent.ancestors().take_while(|p| !p.as_os_str().is_empty() && !p.exists()).map(Path::to_owned).collect();
        fs::create_dir_all(parent).map_err(|e| Error::io("make", parent, e))?;
        let prefix = format!(".{}.partial-", name.to_string_lossy());
        remove_stale(parent, &prefix, &target);
        let partial =
            tempfile::Builder::new().prefix(&prefix).tempdir_in(parent).map_err(|e| Error::io("write in", parent, e))?;
        let lock = Lock::take(partial.path()).map_err(|e| Error::io("write in", partial.path(), e))?;
        // A temporary folder is for its owner alone; results follow the user's umask.
        let inner = partial.path().join("results");
        fs::create_dir(&inner).map_err(|e| Error::io("write in", parent, e))?;
        UNFINISHED.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push(partial.path().to_owned());
        Ok(Self { target, partial, runs, made, _lock: lock })
    }

    /// Where files are written until then.
    pub fn path(&self) -> PathBuf {
        self.partial.path().join("results")
    }

    /// The name of a run's folder: `003`; empty if the study has one run.
    pub fn name_of_run(&self, run: usize) -> String {
        if self.runs == 1 { String::new() } else { format!("{run:03}") }
    }

    /// The folder of a run, which is made if it does not exist.
    ///
    /// # Errors
    /// A folder that cannot be made.
    pub fn of_run(&self, run: usize) -> Result<PathBuf> {
        let place = self.path().join(self.name_of_run(run));
        fs::create_dir_all(&place).map_err(|e| Error::io("write", &place, e))?;
        Ok(place)
    }

    /// Writes one file.
    pub fn write(&self, name: &str, content: &str) -> Result<()> {
        let path = self.path().join(name);
        // The folder of a run that was skipped is not there yet.
        let made = path.parent().map_or(Ok(()), fs::create_dir_all);
        made.and_then(|()| fs::write(&path, content)).map_err(|e| Error::io("write", &path, e))
    }

    /// Puts the folder in its place, instead of an earlier one.
    pub fn publish(mut self) -> Result<()> {
        let error = |e| Error::io("write", &self.target, e);
        self.made.clear();
        let old = self.partial.path().join("old");
        let replaces = self.target.exists();
        if replaces {
            fs::rename(&self.target, &old).map_err(error)?;
        }
        fs::rename(self.path(), &self.target).map_err(|e| {
            if replaces {
                let _ = fs::rename(&old, &self.target);
            }
            error(e)
        })
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        UNFINISHED.lock().unwrap_or_else(std::sync::PoisonError::into_inner).retain(|p| p != self.partial.path());
        let _ = fs::remove_dir_all(self.partial.path());
        for parent in &self.made {
            // Only if empty: another run may have put its results there.
            let _ = fs::remove_dir(parent);
        }
    }
}

/// Removes what killed writers of the same results left.
fn remove_stale(parent: &Path, prefix: &str, target: &Path) {
    let Ok(entries) = fs::read_dir(parent) else { return };
    let is_of_target = |name: &str| name.strip_prefix(prefix).is_some_and(|rest| !rest.contains('.'));
    let begun = entries.flatten().filter(|e| is_of_target(&e.file_name().to_string_lossy())).map(|e| e.path());
    for partial in begun.filter(|path| Lock::is_left(path)) {
        // It was killed while it put its results in the place of earlier ones.
        if !target.exists() {
            let _ = fs::rename(partial.join("old"), target);
        }
        match fs::remove_dir_all(&partial) {
            Ok(()) => tracing::warn!("removed {}, which a run that was killed left", partial.display()),
            Err(e) => tracing::warn!("{} is left of a run that was killed: {e}", partial.display()),
        }
    }
}

/// The lock of an unfinished folder. The system releases it when the process ends, for whatever reason.
#[derive(Debug)]
struct Lock {
    #[cfg(unix)]
    _file: nix::fcntl::Flock<fs::File>,
}

#[cfg(unix)]
impl Lock {
    fn take(folder: &Path) -> std::io::Result<Self> {
        // It has its name only once it is locked, so that nobody finds it free before.
        let unnamed = tempfile::NamedTempFile::new_in(folder)?;
        let (file, path) = unnamed.into_parts();
        let lock = nix::fcntl::Flock::lock(file, nix::fcntl::FlockArg::LockExclusiveNonblock).map_err(|(_, e)| e)?;
        path.persist(folder.join(LOCK)).map_err(|e| e.error)?;
        Ok(Self { _file: lock })
    }

    /// Whether the writer of a folder has gone.
    fn is_left(folder: &Path) -> bool {
        let Ok(file) = fs::File::open(folder.join(LOCK)) else { return false };
        nix::fcntl::Flock::lock(file, nix::fcntl::FlockArg::LockSharedNonblock).is_ok()
    }
}

#[cfg(not(unix))]
impl Lock {
    #[allow(clippy::unnecessary_wraps)] // Elsewhere it can fail.
    const fn take(_: &Path) -> std::io::Result<Self> {
        Ok(Self {})
    }

    const fn is_left(_: &Path) -> bool {
        false
    }
}

/// The lock's name in an unfinished folder.
#[cfg(unix)]
const LOCK: &str = "lock";

/// Whether the target is an empty folder, or holds nothing but results of weft.
fn may_replace(target: &Path) -> Result<bool> {
    if !target.is_dir() {
        return Ok(false);
    }
    let entries =
        fs::read_dir(target).and_then(Iterator::collect::<std::io::Result<Vec<_>>>).map_err(|e| Error::io("read", target, e))?;
    let ours = |name: &str| {
        let run = name.len() >= 3 && name.bytes().all(|b| b.is_ascii_digit());
        run || name.ends_with(".parquet") || OURS.contains(&name)
    };
    let all_ours = entries.iter().all(|e| ours(&e.file_name().to_string_lossy()));
    Ok(entries.is_empty() || all_ours && is_summary(&target.join("summary.json")))
}

/// The folder of the files that the scenario read.
pub const INPUTS: &str = "inputs";
/// Files of a results folder besides tables and the folders of runs.
const OURS: &[&str] = &["port.pcap", "report.html", "summary.json", "scenario.toml", "run.json", INPUTS];

fn is_summary(path: &Path) -> bool {
    let text = fs::read_to_string(path).unwrap_or_default();
    serde_json::from_str::<serde_json::Value>(&text).is_ok_and(|v| v["title"].is_string() && v["runs"].is_array())
}
