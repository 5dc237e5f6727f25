//! The record of who changed what: a file to which each server appends a line of JSON for every change that it took part in.
//!
//! ```text
//!   {"time":"2026-11-25T18:00:00.123Z","server":1,"principal":2,"operation":"put","outcome":"committed","key":"10.0.0.7","generation":12,"locator":...}
//! ```
//! A line is written before the next input is taken, and reaches the disk when the system writes it. The file is opened again for every line that follows a
//! rename, so that it can be rotated.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;
use serde_json::{Value as Json, json};
use weft_control::directory::PrincipalId;
use weft_control::directory::server::Audited;
use weft_control::wire::directory::{Entry, Outcome};

use super::config::ServeError;
use crate::entry::EntryLine;

/// The file and what it is open as.
pub struct Audit {
    path: PathBuf,
    server: PrincipalId,
    file: Mutex<File>,
}

impl Audit {
    /// Opens the file, or makes it; others may not read it.
    pub fn open(path: &Path, server: PrincipalId) -> Result<Self, ServeError> {
        let file = open(path).map_err(|error| ServeError::Audit { path: path.to_owned(), error })?;
        Ok(Self { path: path.to_owned(), server, file: Mutex::new(file) })
    }

    /// An update that has ended: a line for each key.
    pub fn update(&self, update: &Audited) {
        let outcome = match update.outcome {
            Outcome::Committed => "committed",
            Outcome::Refused => "refused",
            _ => "unknown",
        };
        for op in &update.ops {
            let operation = if op.value.is_some() { "put" } else { "delete" };
            let entry = Entry { generation: update.generation, key: op.key, value: op.value.clone() };
            let mut more = json!(EntryLine::from(&entry));
            more["number"] = json!(update.id.number);
            self.write(update.id.writer, operation, outcome, &more);
        }
    }

    /// A document that was replaced, or not.
    pub fn records(&self, principal: PrincipalId, names: &[String], outcome: &str) {
        self.write(principal, "amend", outcome, &json!({ "records": names }));
    }

    /// A document was replaced, or may have been.
    pub fn document(&self, principal: PrincipalId, name: &str, version: u32, outcome: &str) {
        self.write(principal, "publish", outcome, &json!({ "document": name, "version": version }));
    }

    /// A policy, or the list of denied principals, that is in force.
    pub fn in_force(&self, operation: &str, more: &Json) {
        self.write(self.server, operation, "in force", more);
    }

    fn write(&self, principal: PrincipalId, operation: &str, outcome: &str, more: &Json) {
        let time = utc(SystemTime::now());
        let mut line = json!({
            "time": time, "server": self.server.0, "principal": principal.0, "operation": operation, "outcome": outcome,
        });
        if let (Some(line), Some(more)) = (line.as_object_mut(), more.as_object()) {
            line.extend(more.clone());
        }
        let mut file = self.file.lock();
        if let Err(error) = self.append(&mut file, &format!("{line}\n")) {
            metrics::counter!("weft_directory_audit_errors_total").increment(1);
            tracing::error!(%error, path = %self.path.display(), %line, "the audit log cannot be written");
        }
    }

    fn append(&self, file: &mut File, line: &str) -> std::io::Result<()> {
        let there = std::fs::metadata(&self.path).ok();
        let own = file.metadata()?;
        if there.is_none_or(|there| (there.dev(), there.ino()) != (own.dev(), own.ino())) {
            *file = open(&self.path)?;
        }
        file.write_all(line.as_bytes())
    }
}

fn open(path: &Path) -> std::io::Result<File> {
    OpenOptions::new().create(true).append(true).mode(0o600).open(path)
}

/// A time as RFC 3339 has it, in UTC with milliseconds.
pub fn utc(time: SystemTime) -> String {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    let (seconds, of_day) = (since.as_secs(), since.as_secs() % 86_400);
    let (year, month, day) = date(seconds / 86_400);
    let (hour, minute, second) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{:03}Z", since.subsec_millis())
}

/// The Gregorian date of a day since 1970-01-01. Years are counted from March, so that a leap day is the last of its year.
pub const fn date(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (era * 400 + year + (month <= 2) as u64, month, day)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn times_are_those_of_date() {
        // date -u -d @N +%FT%T
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_399, "2000-02-28T23:59:59.000Z"),
            (951_782_400, "2000-02-29T00:00:00.000Z"),
            (1_798_761_600, "2027-01-01T00:00:00.000Z"),
            (4_107_542_400, "2100-03-01T00:00:00.000Z"),
        ] {
            assert_eq!(utc(UNIX_EPOCH + Duration::from_secs(seconds)), text);
        }
        assert!(utc(UNIX_EPOCH + Duration::from_millis(1_234)).ends_with(":01.234Z"));
    }
}
