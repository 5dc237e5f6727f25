//! Leave for namespaces to choose their congestion control.
//!
//! A namespace may make only such a one its default as the whole system allows to everybody. So the lab allows it while it builds, and
//! takes the leave back: what the namespaces have chosen stays chosen.

use std::fs::{self, File};
use std::path::Path;

use nix::fcntl::{Flock, FlockArg};

use crate::error::{LabError, Result};

/// While it lives, all namespaces may choose.
pub(crate) struct Leave {
    /// What was allowed before; `None` if nothing had to change.
    before: Option<String>,
    /// Two labs that come up at once take turns.
    _turn: Flock<File>,
}

impl Leave {
    /// Allows it. `folder` is one that all labs share: its lock is the turn.
    pub(crate) fn give(congestion_control: &str, folder: &Path) -> Result<Self> {
        let file = File::open(folder).map_err(|e| LabError::io("open", folder, e))?;
        let turn = Flock::lock(file, FlockArg::LockExclusive).map_err(|(_, e)| LabError::io("lock", folder, e.into()))?;
        let allowed = fs::read_to_string(ALLOWED).map_err(|e| LabError::io("read", Path::new(ALLOWED), e))?;
        let allowed = allowed.trim();
        if allowed.split_ascii_whitespace().any(|c| c == congestion_control) {
            return Ok(Self { before: None, _turn: turn });
        }
        let more = format!("{allowed} {congestion_control}");
        fs::write(ALLOWED, more).map_err(|e| LabError::io("allow cubic in", Path::new(ALLOWED), e))?;
        Ok(Self { before: Some(allowed.to_owned()), _turn: turn })
    }
}

impl Drop for Leave {
    fn drop(&mut self) {
        if let Some(before) = &self.before
            && let Err(e) = fs::write(ALLOWED, before)
        {
            tracing::warn!("cannot restore {ALLOWED} to `{before}`: {e}");
        }
    }
}

const ALLOWED: &str = "/proc/sys/net/ipv4/tcp_allowed_congestion_control";
