//! Reading and changing the tenants' file.

use std::fs::File;
use std::path::{Path, PathBuf};

use clap::Args;
use nix::fcntl::{Flock, FlockArg};
use weft_control::netlord::tenants::{Tenant, Tenants};

use crate::cli::connect::Dir;
use crate::cli::error::{Error, Result};

/// Which file.
#[derive(Debug, Args)]
pub(super) struct FileArg {
    /// File of the tenants [default: DIR/tenants.toml]
    #[arg(long, value_name = "FILE", env = "WEFT_TENANTS")]
    file: Option<PathBuf>,
}

impl FileArg {
    pub fn path(&self, dir: &Dir) -> PathBuf {
        self.file.clone().unwrap_or_else(|| dir.file("tenants.toml"))
    }
}

/// The file's tenants.
pub(super) fn read(path: &Path) -> Result<Tenants> {
    let text = std::fs::read_to_string(path).map_err(|e| match e.kind() {
        std::io::ErrorKind::NotFound => Error::NoTenants(path.to_owned()),
        _ => Error::io("read", path, e),
    })?;
    parse(path, &text)
}

pub(super) fn parse(path: &Path, text: &str) -> Result<Tenants> {
    Tenants::parse(text).map_err(|e| Error::Content {
        place: path.display().to_string(),
        reason: e.to_string(),
        help: "docs/tenants.md has the file's schema",
    })
}

/// The tenant of this name.
pub(super) fn tenant<'a>(all: &'a Tenants, path: &Path, name: &str) -> Result<&'a Tenant> {
    all.by_name(name).ok_or_else(|| {
        let names: Vec<_> = all.tenants.values().map(|tenant| tenant.name.as_str()).collect();
        Error::NoTenant { tenant: name.to_owned(), path: path.to_owned(), known: names.join(", ") }
    })
}

/// Changes the file, if the result is right; concurrent changes by this function wait for each other. A file appears whole or not at all. `start`: the file
/// may be absent.
pub(super) fn change(path: &Path, start: bool, change: impl Fn(&str) -> Result<String>) -> Result<Tenants> {
    // A link stays: what it leads to is replaced.
    let path = &std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    // The folder is what is locked: the file itself is replaced.
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or_else(|| Path::new("."));
    let lock = File::open(folder).map_err(|e| Error::io("open the folder", folder, e))?;
    let lock = Flock::lock(lock, FlockArg::LockExclusive);
    let _lock = lock.map_err(|(_, e)| Error::io("lock the folder", folder, std::io::Error::from(e)))?;
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(e) if start && e.kind() == std::io::ErrorKind::NotFound => String::new(),
        Err(_) => return read(path),
    };
    if !text.trim().is_empty() {
        parse(path, &text)?;
    }
    let text = change(&text)?;
    let all = Tenants::parse(&text).map_err(|e| Error::Tenants(e.to_string()))?;
    crate::cli::documents::put(path, text.as_bytes())?;
    Ok(all)
}
