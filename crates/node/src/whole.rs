//! Files that are there whole or not at all.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

/// Writes a file beside its place, and then into it: whoever reads it sees what was there before, or all of this. Who may read it stays.
///
/// # Errors
/// What the system says; then nothing was changed.
pub(crate) fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    // What is no file, such as a pipe, is written to.
    if path.metadata().is_ok_and(|it| !it.is_file()) {
        return std::fs::write(path, bytes);
    }
    // A link stays: what it leads to is replaced.
    let path = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let mut beside = path.clone().into_os_string();
    beside.push(".part");
    let beside = PathBuf::from(beside);
    let written = File::create(&beside).and_then(|mut partial| {
        partial.write_all(bytes)?;
        if let Ok(old) = path.metadata() {
            partial.set_permissions(old.permissions())?;
        }
        partial.sync_all()?;
        std::fs::rename(&beside, &path)
    });
    if written.is_err() {
        let _ = std::fs::remove_file(&beside);
    }
    written
}
