//! The congestion controls that namespaces may choose (`tcp_allowed_congestion_control`).
//!
//! A namespace can use only a default that the system allows to all users. So the lab allows cubic while it builds, and restores the setting after: the
//! namespaces keep their choice.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use nix::fcntl::Flock;

use crate::error::{LabError, Result};
use crate::netns;

/// Allows a congestion control to all namespaces until it is dropped.
pub(crate) struct SysctlGuard {
    /// The file with the setting before; `None` if nothing had to change.
    note: Option<PathBuf>,
    /// Labs that come up at the same time change the setting one after another.
    _lock: Flock<File>,
}

impl SysctlGuard {
    /// Allows it, after a note in the lab's folder, by which the setting is restored after a crash.
    pub(crate) fn allow(congestion_control: &str, lab: &Path) -> Result<Self> {
        let lock = netns::lock_system()?;
        let allowed = fs::read_to_string(ALLOWED).map_err(|e| LabError::io("read", Path::new(ALLOWED), e))?;
        let allowed = allowed.trim();
        if allowed.split_ascii_whitespace().any(|c| c == congestion_control) {
            return Ok(Self { note: None, _lock: lock });
        }
        let note = lab.join(NOTE);
        fs::write(&note, allowed).map_err(|e| LabError::io("write", &note, e))?;
        let more = format!("{allowed} {congestion_control}");
        fs::write(ALLOWED, more).map_err(|e| LabError::io("allow cubic in", Path::new(ALLOWED), e))?;
        Ok(Self { note: Some(note), _lock: lock })
    }
}

impl Drop for SysctlGuard {
    fn drop(&mut self) {
        if let Some(note) = &self.note {
            restore_from(note);
        }
    }
}

/// Restores the setting if a crash has left it changed.
pub(crate) fn restore(lab: &Path) -> Result<()> {
    let note = lab.join(NOTE);
    if note.exists() {
        let _lock = netns::lock_system()?;
        restore_from(&note);
    }
    Ok(())
}

fn restore_from(note: &Path) {
    let restored = fs::read_to_string(note).and_then(|before| fs::write(ALLOWED, before)).and_then(|()| fs::remove_file(note));
    if let Err(e) = restored {
        tracing::warn!("cannot restore {ALLOWED} from {}: {e}", note.display());
    }
}

const ALLOWED: &str = "/proc/sys/net/ipv4/tcp_allowed_congestion_control";
/// In the lab's folder: the setting before.
const NOTE: &str = "congestion-controls";
