//! Files that are there whole or not at all.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

/// Writes a file beside its place, and then into it: whoever reads it sees what was there before, or all of this. Who may read it stays.
///
/// # Errors
/// What the system says; then nothing was changed.
pub(crate) fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(".part");
    let beside = PathBuf::from(beside);
    let written = File::create(&beside).and_then(|mut partial| {
        partial.write_all(bytes)?;
        if let Ok(old) = path.metadata() {
            partial.set_permissions(old.permissions())?;
        }
        partial.sync_all()?;
        std::fs::rename(&beside, path)
    });
    if written.is_err() {
        let _ = std::fs::remove_file(&beside);
    }
    written
}
