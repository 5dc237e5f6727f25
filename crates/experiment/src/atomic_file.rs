//! Files that are replaced as a whole.

use std::io::Write as _;
use std::path::Path;

/// Writes a file so that its old content stays if that fails. What is no regular file, such as a pipe, is written to directly.
///
/// # Errors
/// What the system reports.
pub fn write(path: &Path, content: impl AsRef<[u8]>) -> std::io::Result<()> {
    if path.metadata().is_ok_and(|it| !it.is_file()) {
        return std::fs::write(path, content);
    }
    // A link stays: what it leads to is replaced.
    let path = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut file = builder().tempfile_in(folder)?;
    file.write_all(content.as_ref())?;
    file.persist(&path).map(drop).map_err(|e| e.error)
}

/// Temporary files are private by default; these have the mode that the user's umask leaves.
fn builder() -> tempfile::Builder<'static, 'static> {
    let mut builder = tempfile::Builder::new();
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    builder
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(unix)]
    #[test]
    fn a_file_is_replaced_and_a_link_stays() {
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("file"), folder.path().join("link"));
        std::fs::write(&file, "old").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        write(&link, "new").unwrap();
        assert!(link.is_symlink());
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "new");
        let mode = |path: &Path| std::os::unix::fs::PermissionsExt::mode(&path.metadata().unwrap().permissions());
        let plain = folder.path().join("plain");
        std::fs::write(&plain, "").unwrap();
        assert_eq!(mode(&file), mode(&plain), "not a private file");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 3, "nothing is left over");
    }
}
