//! What ends `weft deploy` with exit code 2.

use std::io;
use std::path::{Path, PathBuf};

use weft_control::directory::policy::PolicyError;

use crate::atomic_file::WriteError;
use crate::daemon::command_line::file_remedy;
use crate::daemon::config::KeyError;

pub(super) type Result<T, E = DeployError> = std::result::Result<T, E>;

/// An error for the operator.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // The messages say what the fields are.
pub enum DeployError {
    /// A key of the inventory is wrong.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// A file could not be read or written.
    #[error("cannot {action} {}: {cause}", path.display())]
    File { action: &'static str, path: PathBuf, cause: io::Error },
    /// A file of the folder cannot be read as what it is.
    #[error("{}: {reason}", path.display())]
    Content { path: PathBuf, reason: String },
    /// A key file can be read by others.
    #[error("{} can be read by others (mode {mode:03o})", path.display())]
    KeyMode { path: PathBuf, mode: u32 },
    /// A certificate could not be made.
    #[error("cannot make a certificate: {0}")]
    Sign(rcgen::Error),
    /// The policy would be refused by the servers.
    #[error("{}: {cause}", inventory.display())]
    Policy { inventory: PathBuf, cause: PolicyError },
    /// The folder has other files.
    #[error("{} is not empty, and `weft deploy plan` did not make it", .0.display())]
    Foreign(PathBuf),
    /// There is no planned folder.
    #[error("{} has no manifest.json", .0.display())]
    NotPlanned(PathBuf),
    /// The folder is of another cluster.
    #[error("{} has the keys of cluster `{has}`; the inventory is of `{wanted}`", dir.display())]
    OtherCluster { dir: PathBuf, has: String, wanted: String },
    /// A key was replaced by another cluster's.
    #[error("{} is not the key that this folder was made with: it is of another cluster", .0.display())]
    OtherKey(PathBuf),
    /// The keys of a folder would be removed.
    #[error("{} has the keys of a directory, and the inventory has no directory server", .0.display())]
    KeysOfNoServer(PathBuf),
    /// A newer program made the folder.
    #[error("{} was written by version {has} of weft, and this is {own}", dir.display())]
    Newer { dir: PathBuf, has: String, own: &'static str },
    /// Files were changed by hand.
    #[error("changed by hand since the last plan: {}", .0.join(", "))]
    Edited(Vec<String>),
    /// The inventory has no such machine.
    #[error("the inventory has no machine `{name}` that runs a daemon")]
    NoMachine { name: String, known: String },
}

impl DeployError {
    pub fn file(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |cause| Self::File { action, path, cause }
    }

    pub fn write(path: &Path) -> impl FnOnce(WriteError) -> Self {
        let path = path.to_owned();
        move |error| match error {
            WriteError::Io(cause) => Self::File { action: "write", path, cause },
            WriteError::NotRegular(kind) => Self::Content { path, reason: format!("it is {kind}, which is not replaced") },
        }
    }

    /// The next step.
    pub fn remedy(&self) -> String {
        match self {
            Self::Key(error) => error.help.clone(),
            Self::File { cause, .. } => file_remedy(cause.kind()).to_owned(),
            Self::Content { .. } => "restore it from a backup; or plan into a new folder, and give all hosts new keys".to_owned(),
            Self::KeyMode { path, .. } => format!("chmod 600 {}; if others have read it, make a new one", path.display()),
            Self::Sign(_) => String::new(),
            Self::Policy { .. } => "correct [[service]] or [[directory.part]] in the inventory".to_owned(),
            Self::Foreign(_) => "name another folder with `--out DIR`".to_owned(),
            Self::NotPlanned(dir) => format!("make it: weft deploy plan INVENTORY --out {}", dir.display()),
            Self::OtherCluster { .. } => {
                "name this cluster's folder, or a new one; if the cluster was renamed, restore the old name".to_owned()
            }
            Self::OtherKey(_) => {
                "restore the file of this cluster from a backup. To replace the secret, see docs/directory.md#keys-and-certificates"
                    .to_owned()
            }
            Self::KeysOfNoServer(_) => {
                "add [[directory.server]]; or plan into a new folder, and keep this one until no machine has its keys".to_owned()
            }
            Self::Newer { has, .. } => format!("upgrade weft on this machine to {has}, then repeat the command"),
            Self::Edited(_) => {
                "bring the changes into the inventory, then `weft deploy plan --force` replaces these files".to_owned()
            }
            Self::NoMachine { known, .. } => format!("it has: {known}"),
        }
    }
}
