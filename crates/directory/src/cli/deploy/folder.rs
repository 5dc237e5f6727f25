//! The planned folder: its manifest, and how it is brought up to date.
//!
//! A new folder appears with all files or not at all. In an existing one, changed files are written to `.staging` first, and then renamed into place, the
//! manifest last: what fails before changes nothing, and what is interrupted in between is seen by `.staging` and completed by the next plan.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::error::{DeployError, Result};
use super::files::{File, Files};

/// What a folder was planned with, and what it then had.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Manifest {
    /// The form of this file.
    pub weft_deploy: u32,
    /// The version of the program.
    pub weft: String,
    pub cluster: String,
    pub policy_version: u32,
    /// Whom certificates are of, by path.
    pub issued: BTreeMap<String, String>,
    /// By path.
    pub files: BTreeMap<String, Entry>,
}

/// A file in the manifest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Entry {
    /// BLAKE2b of its content, 32 bytes in hexadecimal digits.
    pub digest: String,
    /// Octal.
    pub mode: String,
}

/// The part of a manifest that every version has.
#[derive(Deserialize)]
struct Form {
    weft: String,
}

impl Manifest {
    pub fn new(cluster: &str, policy_version: u32, issued: BTreeMap<String, String>, files: &Files) -> Self {
        let entry = |file: &File| Entry { digest: digest(&file.content), mode: format!("{:04o}", file.mode()) };
        let files = files.iter().map(|(path, file)| (path.clone(), entry(file))).collect();
        Self { weft_deploy: FORM, weft: OWN.to_owned(), cluster: cluster.to_owned(), policy_version, issued, files }
    }

    /// That of a folder; None if the folder does not exist or is empty.
    ///
    /// # Errors
    /// [`DeployError`] if the folder is something else, or of a newer version.
    pub fn read(dir: &Path) -> Result<Option<Self>> {
        let path = dir.join(MANIFEST);
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let is_empty = |mut list: fs::ReadDir| list.next().is_none();
                return match fs::read_dir(dir).map(is_empty) {
                    Ok(false) => Err(DeployError::Foreign(dir.to_owned())),
                    Ok(true) => Ok(None),
                    Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
                    Err(error) => Err(DeployError::file("read", dir)(error)),
                };
            }
            Err(error) => return Err(DeployError::file("read", &path)(error)),
        };
        let content = |error: serde_json::Error| DeployError::Content { path: path.clone(), reason: error.to_string() };
        let Form { weft } = serde_json::from_str(&text).map_err(content)?;
        if numbers(&weft) > numbers(OWN) {
            return Err(DeployError::Newer { dir: dir.to_owned(), has: weft, own: OWN });
        }
        serde_json::from_str(&text).map(Some).map_err(content)
    }

    pub fn digest_of(&self, path: &str) -> Option<&str> {
        self.files.get(path).map(|it| it.digest.as_str())
    }

    /// Whether this program wrote it.
    pub fn is_own_version(&self) -> bool {
        self.weft == OWN
    }

    fn text(&self) -> String {
        serde_json::to_string_pretty(self).expect("a manifest is JSON") + "\n"
    }
}

/// What [`update`] did.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Changes {
    pub written: Vec<String>,
    pub removed: Vec<String>,
    pub unchanged: usize,
}

/// Makes a new folder.
///
/// # Errors
/// [`DeployError`]; then there is none.
pub(super) fn create(dir: &Path, files: &Files, manifest: &Manifest) -> Result<Changes> {
    let failed = || DeployError::file("write", dir);
    let parent = dir.parent().filter(|it| !it.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // It has the secret of the cluster.
    let mut builder = tempfile::Builder::new();
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o700));
    let unfinished = builder.prefix(".weft-deploy-").tempdir_in(parent).map_err(failed())?;
    for (path, file) in files {
        write(&unfinished.path().join(path), file.content.as_bytes(), file.mode()).map_err(failed())?;
    }
    write(&unfinished.path().join(MANIFEST), manifest.text().as_bytes(), 0o644).map_err(failed())?;
    sync(unfinished.path()).map_err(failed())?;
    fs::rename(unfinished.path(), dir).map_err(failed())?;
    Ok(Changes { written: files.keys().cloned().collect(), ..Changes::default() })
}

/// Brings a folder from one manifest to the next.
///
/// # Errors
/// [`DeployError`], if files were changed by hand, unless `force`; if the system refuses something.
pub(super) fn update(dir: &Path, files: &Files, before: &Manifest, manifest: &Manifest, force: bool) -> Result<Changes> {
    let staging = dir.join(STAGING);
    let is_interrupted = staging.exists();
    let edited: Vec<String> =
        before.files.keys().filter(|path| is_edited(dir, path, before, files.get(*path))).cloned().collect();
    if !edited.is_empty() && !force && !is_interrupted {
        return Err(DeployError::Edited(edited));
    }
    let changed: Vec<(&String, &File)> = files.iter().filter(|(path, file)| !is_as(&dir.join(path), file)).collect();
    let removed: Vec<String> = before.files.keys().filter(|path| !files.contains_key(*path)).cloned().collect();
    let unchanged = files.len() - changed.len();
    if changed.is_empty() && removed.is_empty() && before == manifest && !is_interrupted {
        return Ok(Changes { unchanged, ..Changes::default() });
    }
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |cause| DeployError::File { action: "write", path, cause }
    };
    if is_interrupted {
        fs::remove_dir_all(&staging).map_err(failed(&staging))?;
    }
    let staged = stage(&staging, &changed, manifest);
    if let Err(error) = staged {
        let _ = fs::remove_dir_all(&staging);
        return Err(failed(&staging)(error));
    }
    let place = |path: &str| -> io::Result<()> {
        let target = dir.join(path);
        folder_of(&target)?;
        fs::rename(staging.join(path), target)
    };
    for (path, _) in &changed {
        place(path).map_err(failed(&dir.join(path)))?;
    }
    for path in &removed {
        remove(dir, path).map_err(failed(&dir.join(path)))?;
    }
    place(MANIFEST).map_err(failed(&dir.join(MANIFEST)))?;
    fs::remove_dir_all(&staging).map_err(failed(&staging))?;
    Ok(Changes { written: changed.into_iter().map(|(path, _)| path.clone()).collect(), removed, unchanged })
}

/// Whether an update of the folder was interrupted.
pub(super) fn is_interrupted(dir: &Path) -> bool {
    dir.join(STAGING).exists()
}

/// Whether a file is neither as the manifest has it nor as planned. A missing one is not edited.
fn is_edited(dir: &Path, path: &str, before: &Manifest, planned: Option<&File>) -> bool {
    let file = dir.join(path);
    let is_changed = match fs::read(&file) {
        Ok(bytes) => Some(digest(&bytes).as_str()) != before.digest_of(path),
        Err(error) => error.kind() != io::ErrorKind::NotFound,
    };
    is_changed && planned.is_none_or(|planned| !is_as(&file, planned))
}

/// Whether a file has this content and mode.
fn is_as(path: &Path, file: &File) -> bool {
    let is_regular = path.symlink_metadata().is_ok_and(|it| it.is_file() && it.mode() & 0o7777 == file.mode());
    is_regular && fs::read(path).is_ok_and(|bytes| bytes == file.content.as_bytes())
}

fn stage(staging: &Path, changed: &[(&String, &File)], manifest: &Manifest) -> io::Result<()> {
    DirBuilder::new().mode(0o700).create(staging)?;
    for (path, file) in changed {
        write(&staging.join(path), file.content.as_bytes(), file.mode())?;
    }
    write(&staging.join(MANIFEST), manifest.text().as_bytes(), 0o644)?;
    sync(staging)
}

/// Writes a new file, with the folders above it.
fn write(path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    folder_of(path)?;
    let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(path)?;
    // The umask does not take part: the modes of a plan are the same on every machine.
    file.set_permissions(std::os::unix::fs::PermissionsExt::from_mode(mode))?;
    file.write_all(content)
}

/// Brings what was written below a folder to the disk: once, as there may be many files.
fn sync(folder: &Path) -> io::Result<()> {
    nix::unistd::syncfs(fs::File::open(folder)?).map_err(io::Error::from)
}

fn folder_of(path: &Path) -> io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

/// Removes a file, and the folders that are empty without it.
fn remove(dir: &Path, path: &str) -> io::Result<()> {
    let file = dir.join(path);
    match fs::remove_file(&file) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    for folder in file.ancestors().skip(1).take_while(|it| *it != dir) {
        if fs::remove_dir(folder).is_err() {
            break;
        }
    }
    Ok(())
}

/// BLAKE2b of a file's content, 32 bytes in hexadecimal digits.
pub(super) fn digest(content: impl AsRef<[u8]>) -> String {
    blake2b_simd::Params::new().hash_length(32).hash(content.as_ref()).to_hex().to_string()
}

/// `0.1.0` as numbers.
fn numbers(version: &str) -> Vec<u64> {
    version.split(['.', '-', '+']).map_while(|it| it.parse().ok()).collect()
}

const FORM: u32 = 1;
const OWN: &str = env!("CARGO_PKG_VERSION");
const MANIFEST: &str = "manifest.json";
const STAGING: &str = ".staging";
