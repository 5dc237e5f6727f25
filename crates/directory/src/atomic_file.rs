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

/// Writes a file that is for its owner alone (mode 0600), whole or not at all. What is there is replaced only if it is a regular file: not a pipe, a device or a
/// link, for the operator may be root.
///
/// # Errors
/// [`WriteError`]; then nothing was changed.
pub fn write_private(path: &Path, write: impl FnOnce(&mut dyn io::Write) -> io::Result<()>) -> Result<(), WriteError> {
    use std::os::unix::fs::FileTypeExt as _;
    match path.symlink_metadata().map(|it| it.file_type()) {
        Ok(it) if it.is_file() => {}
        Ok(it) if it.is_symlink() => return Err(WriteError::NotRegular("a symbolic link")),
        Ok(it) if it.is_dir() => return Err(WriteError::NotRegular("a folder")),
        Ok(it) if it.is_fifo() => return Err(WriteError::NotRegular("a pipe")),
        Ok(it) if it.is_socket() => return Err(WriteError::NotRegular("a socket")),
        Ok(_) => return Err(WriteError::NotRegular("a device")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error.into()),
    }
    let folder = path.parent().filter(|it| !it.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let created = tempfile::Builder::new().permissions(Permissions::from_mode(0o600)).tempfile_in(folder);
    let mut temporary = io::BufWriter::new(created.map_err(|error| io::Error::from(error.kind()))?);
    write(&mut temporary)?;
    let temporary = temporary.into_inner().map_err(io::IntoInnerError::into_error)?;
    temporary.as_file().sync_all()?;
    temporary.persist(path).map_err(|error| error.error)?;
    Ok(())
}

/// Why [`write_private`] has written nothing.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// What is there is no regular file.
    #[error("it is {0}")]
    NotRegular(&'static str),
    /// The system refuses it.
    #[error(transparent)]
    Io(#[from] io::Error),
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

    #[test]
    fn what_is_no_regular_file_is_not_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let fill = |path: &Path| write_private(path, |out| out.write_all(b"new"));
        std::fs::write(at("target"), "old").unwrap();
        std::os::unix::fs::symlink(at("target"), at("link")).unwrap();
        std::os::unix::fs::symlink(at("nowhere"), at("dangling")).unwrap();
        std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
        for (path, kind) in [
            (at("link"), "a symbolic link"),
            (at("dangling"), "a symbolic link"),
            (at("socket"), "a socket"),
            (folder.path().to_owned(), "a folder"),
            ("/dev/null".into(), "a device"),
        ] {
            assert!(matches!(fill(&path), Err(WriteError::NotRegular(it)) if it == kind), "{}", path.display());
        }
        std::fs::set_permissions(at("target"), Permissions::from_mode(0o644)).unwrap();
        fill(&at("target")).unwrap();
        fill(&at("new")).unwrap();
        assert_eq!(
            (std::fs::read(at("target")).unwrap().as_slice(), mode(&at("target")), mode(&at("new"))),
            (&b"new"[..], 0o600, 0o600)
        );
        let failed = write_private(&at("new"), |_| Err(io::ErrorKind::Other.into()));
        assert!(matches!(failed, Err(WriteError::Io(_))));
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 5, "nothing temporary is left");
    }
}
