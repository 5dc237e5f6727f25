//! The results folder: written beside its final place and moved there as a whole, so that it is never half there.

use std::fs;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};

/// A results folder in the making. Dropped before [`Folder::publish`], it leaves nothing behind.
#[derive(Debug)]
pub struct Folder {
    target: PathBuf,
    partial: PathBuf,
}

impl Folder {
    /// Prepares to write `target`, which may exist only as an earlier results folder or an empty one.
    pub fn prepare(target: &Path) -> Result<Self> {
        let occupied = target.is_dir() && fs::read_dir(target).map_err(|e| Error::io("read", target, e))?.next().is_some();
        if target.exists() && !target.is_dir() || occupied && !target.join("summary.json").is_file() {
            return Err(Error::usage(
                format!("{} is there already and is not a results folder", target.display()),
                "choose another folder with `--out DIR`",
            ));
        }
        let name = target.file_name().ok_or_else(|| {
            Error::usage(format!("{} cannot be a results folder", target.display()), "name a folder with `--out DIR`")
        })?;
        let parent = match target.parent() {
            Some(p) if !p.as_os_str().is_empty() => p,
            _ => Path::new("."),
        };
        fs::create_dir_all(parent).map_err(|e| Error::io("make", parent, e))?;
        let partial = parent.join(format!(".{}.partial-{}", name.to_string_lossy(), std::process::id()));
        fs::create_dir(&partial).map_err(|e| Error::io("write in", parent, e))?;
        Ok(Self { target: target.to_owned(), partial })
    }

    /// Where files are written meanwhile.
    pub fn path(&self) -> &Path {
        &self.partial
    }

    /// Writes one file.
    pub fn write(&self, name: &str, content: &str) -> Result<()> {
        let path = self.partial.join(name);
        fs::write(&path, content).map_err(|e| Error::io("write", &path, e))
    }

    /// Puts the folder in its place, instead of an earlier one.
    pub fn publish(self) -> Result<()> {
        let error = |e| Error::io("write", &self.target, e);
        if self.target.exists() {
            let old = self.partial.with_extension("old");
            fs::rename(&self.target, &old).map_err(error)?;
            if let Err(e) = fs::rename(&self.partial, &self.target) {
                let _ = fs::rename(&old, &self.target);
                return Err(error(e));
            }
            fs::remove_dir_all(&old).map_err(error)
        } else {
            fs::rename(&self.partial, &self.target).map_err(error)
        }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.partial);
    }
}
