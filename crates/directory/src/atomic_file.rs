//! Files that are replaced as a whole.

use std::fs::Permissions;
use std::io::{self, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

/// Writes a temporary file beside `path`, syncs it to the disk and renames it: a reader sees the old file or the new one, and nothing between. The
/// permissions of an existing file are kept.
///
/// # Errors
/// What the system reports; then nothing was changed.
pub fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    // What is no file, such as a pipe, is written to.
    if path.metadata().is_ok_and(|it| !it.is_file()) {
        return std::fs::write(path, bytes);
    }
    // A link stays: what it leads to is replaced.
    let path = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let folder = path.parent().filter(|it| !it.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // The umask applies to a new file, as to any other.
    let created = tempfile::Builder::new().permissions(Permissions::from_mode(0o666)).tempfile_in(folder);
    // The temporary file's name in an error would say nothing to the user.
    let mut temporary = created.map_err(|error| io::Error::from(error.kind()))?;
    temporary.write_all(bytes).map_err(|error| io::Error::from(error.kind()))?;
    if let Ok(old) = path.metadata() {
        temporary.as_file().set_permissions(old.permissions())?;
    }
    temporary.as_file().sync_all()?;
    temporary.persist(&path).map_err(|error| error.error)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        path.metadata().unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn a_file_is_replaced_and_its_permissions_and_links_stay() {
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("file"), folder.path().join("link"));
        std::fs::write(folder.path().join("other"), "").unwrap();
        write(&file, b"one").unwrap();
        assert_eq!(mode(&file), mode(&folder.path().join("other")), "as other new files");
        std::fs::set_permissions(&file, Permissions::from_mode(0o640)).unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        write(&link, b"two").unwrap();
        assert_eq!((std::fs::read(&file).unwrap().as_slice(), mode(&file)), (&b"two"[..], 0o640));
        assert!(link.symlink_metadata().unwrap().is_symlink());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 3, "nothing temporary is left");
        assert_eq!(write(&folder.path().join("no/file"), b"").unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
