//! Leave for namespaces to choose their congestion control.
//!
//! A namespace may make only such a one its default as the whole system allows to everybody. So the lab allows it while it builds, and
//! takes the leave back: what the namespaces have chosen stays chosen.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use nix::fcntl::Flock;

use crate::error::{LabError, Result};
use crate::netns;

/// While it lives, all namespaces may choose.
pub(crate) struct Leave {
    /// Holds what was allowed before; `None` if nothing had to change.
    note: Option<PathBuf>,
    /// Labs that come up at once take turns.
    _turn: Flock<File>,
}

impl Leave {
    /// Allows it, after a note in the lab's folder: whoever removes the lab after a crash takes the leave back.
    pub(crate) fn give(congestion_control: &str, lab: &Path) -> Result<Self> {
        let turn = netns::turn()?;
        let allowed = fs::read_to_string(ALLOWED).map_err(|e| LabError::io("read", Path::new(ALLOWED), e))?;
        let allowed = allowed.trim();
        if allowed.split_ascii_whitespace().any(|c| c == congestion_control) {
            return Ok(Self { note: None, _turn: turn });
        }
        let note = lab.join(NOTE);
        fs::write(&note, allowed).map_err(|e| LabError::io("write", &note, e))?;
        let more = format!("{allowed} {congestion_control}");
        fs::write(ALLOWED, more).map_err(|e| LabError::io("allow cubic in", Path::new(ALLOWED), e))?;
        Ok(Self { note: Some(note), _turn: turn })
    }
}

impl Drop for Leave {
    fn drop(&mut self) {
        if let Some(note) = &self.note {
            restore(note);
        }
    }
}

/// Takes back the leave that a crash has left, if it has.
pub(crate) fn take_back(lab: &Path) -> Result<()> {
    let note = lab.join(NOTE);
    if note.exists() {
        let _turn = netns::turn()?;
        restore(&note);
    }
    Ok(())
}

fn restore(note: &Path) {
    let restored = fs::read_to_string(note).and_then(|before| fs::write(ALLOWED, before)).and_then(|()| fs::remove_file(note));
    if let Err(e) = restored {
        tracing::warn!("cannot restore {ALLOWED} to what {} says: {e}", note.display());
    }
}

const ALLOWED: &str = "/proc/sys/net/ipv4/tcp_allowed_congestion_control";
/// In the lab's folder: what was allowed before.
const NOTE: &str = "congestion-controls";
