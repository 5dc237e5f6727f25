//! The labs on disk: one folder per lab, made before everything else and removed after everything else.
//!
//! ```text
//!   /run/weft/labs/NAME/        locked (flock) by the process that builds or removes the lab: a folder without lock and
//!     lab.json                  without `built` is a lab that a crash left
//!     built                     exists once the lab is complete
//!     frr/NODE/                 configuration, sockets and logs of a switch's daemons
//! ```

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::fcntl::{Flock, FlockArg};
use serde::{Deserialize, Serialize};

use crate::error::{LabError, Result};
use crate::netns;
use crate::plan::{LabName, Plan};

/// The content of `lab.json`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Record {
    /// The scenario that it was made from.
    pub scenario: PathBuf,
    /// When, in seconds since 1970.
    pub since_unix_s: u64,
    /// The run that it belongs to; `None`: it stays until `weft lab down`.
    #[serde(default)]
    pub owner: Option<Process>,
    /// What it consists of.
    pub plan: Plan,
}

/// A process, distinguished from later ones with the same number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    /// Its number.
    pub pid: u32,
    /// When it started, in ticks since boot.
    pub started: u64,
}

impl Process {
    /// This one.
    pub fn own() -> Self {
        let pid = std::process::id();
        Self { pid, started: netns::started(pid).unwrap_or(0) }
    }

    /// Whether it has not ended.
    pub fn is_alive(self) -> bool {
        netns::started(self.pid) == Some(self.started)
    }
}

/// The phase of a lab.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    /// A process is building or removing it.
    Busy,
    /// It is complete.
    Up,
    /// It was left by a crash.
    Broken,
}

/// A lab's folder, locked against all others.
pub(crate) struct Folder {
    path: PathBuf,
    lock: Flock<File>,
}

impl Folder {
    /// Makes the folder of a new lab; `None` if there is one of that name.
    pub(crate) fn create(name: &LabName) -> Result<Option<Self>> {
        let path = path(name);
        // The folders above are removed with the last lab.
        for _ in 0..ATTEMPTS {
            fs::create_dir_all(LABS).map_err(|e| LabError::io("make", Path::new(LABS), e))?;
            match fs::create_dir(&path) {
                Ok(()) => return Self::lock(name).map(Some),
                Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => return Ok(None),
                Err(e) if e.kind() == std::io::ErrorKind::NotFound => {}
                Err(e) => return Err(LabError::io("make", &path, e)),
            }
        }
        Err(LabError::Busy(name.clone()))
    }

    /// Locks the folder of an existing lab.
    pub(crate) fn lock(name: &LabName) -> Result<Self> {
        let path = path(name);
        let file = File::open(&path).map_err(|e| match e.kind() {
            std::io::ErrorKind::NotFound => LabError::NoLab(name.clone()),
            _ => LabError::io("open", &path, e),
        })?;
        let mut file = file;
        // A process that reads the phase of a lab holds the lock for a moment.
        for _ in 0..ATTEMPTS {
            match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
                // Before this process had the lock, a second may have removed the folder and a third made a new one.
                Ok(lock) if is_at(&lock, &path) => return Ok(Self { path, lock }),
                Ok(_) => return Err(LabError::Busy(name.clone())),
                Err((unlocked, _)) => file = unlocked,
            }
            std::thread::sleep(POLL);
        }
        Err(LabError::Busy(name.clone()))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Records what is about to be made.
    pub(crate) fn record(&self, record: &Record) -> Result<()> {
        let path = self.path.join(RECORD);
        let text = serde_json::to_string(record).expect("a record is JSON");
        fs::write(&path, text).map_err(|e| LabError::io("write", &path, e))
    }

    /// Records that the lab is complete.
    pub(crate) fn built(&self) -> Result<()> {
        let path = self.path.join(BUILT);
        fs::write(&path, "").map_err(|e| LabError::io("write", &path, e))
    }

    pub(crate) fn is_built(&self) -> bool {
        self.path.join(BUILT).exists()
    }

    /// Removes the folder, and those above it with the last lab.
    pub(crate) fn remove(self) -> Result<()> {
        fs::remove_dir_all(&self.path).map_err(|e| LabError::io("remove", &self.path, e))?;
        drop(self.lock);
        let _ = fs::remove_dir(LABS).and_then(|()| fs::remove_dir(ROOT));
        Ok(())
    }
}

/// A lab's record.
pub(crate) fn read(name: &LabName) -> Result<Record> {
    if !path(name).exists() {
        return Err(LabError::NoLab(name.clone()));
    }
    let text = fs::read_to_string(path(name).join(RECORD)).map_err(|_| LabError::Broken(name.clone()))?;
    serde_json::from_str(&text).map_err(|_| LabError::Broken(name.clone()))
}

/// The phase of a lab.
pub(crate) fn phase(name: &LabName) -> Phase {
    let path = path(name);
    match File::open(&path).map(|folder| Flock::lock(folder, FlockArg::LockSharedNonblock)) {
        Ok(Err(_)) => Phase::Busy,
        Ok(Ok(_)) if path.join(BUILT).exists() => Phase::Up,
        _ => Phase::Broken,
    }
}

/// All labs that have a folder, by name.
pub(crate) fn names() -> Vec<LabName> {
    let Ok(entries) = fs::read_dir(LABS) else { return Vec::new() };
    let mut names: Vec<LabName> = entries.filter_map(|e| e.ok()?.file_name().to_str()?.parse().ok()).collect();
    names.sort_unstable();
    names
}

fn is_at(file: &File, path: &Path) -> bool {
    match (file.metadata(), fs::metadata(path)) {
        (Ok(a), Ok(b)) => a.ino() == b.ino(),
        _ => false,
    }
}

/// A lab's folder.
pub fn path(name: &LabName) -> PathBuf {
    Path::new(LABS).join(name.as_str())
}

/// The folder of the routing daemons.
pub(crate) fn daemons(lab: &Path) -> PathBuf {
    lab.join("frr")
}

const ROOT: &str = "/run/weft";
const LABS: &str = "/run/weft/labs";
const RECORD: &str = "lab.json";
const BUILT: &str = "built";
/// Attempts in a race with other processes.
const ATTEMPTS: u32 = 16;
const POLL: Duration = Duration::from_millis(5);
