//! What ends a command with exit code 2: the place, the problem and the remedy.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use miette::Diagnostic;

/// The result of a command.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error for the user.
#[derive(Debug, thiserror::Error, Diagnostic)]
pub enum Error {
    /// A part of a file that does not follow its format.
    #[error("{}: {place}: {message}", path.display())]
    Input {
        /// The file.
        path: PathBuf,
        /// Where in it: `line 7`, `packet 12 at byte 4711`.
        place: String,
        /// What is wrong with it.
        message: String,
        /// What to do.
        #[help]
        help: String,
    },
    /// A file or folder that cannot be read or written.
    #[error("cannot {what} {}: {cause}", path.display())]
    Io {
        /// `read` or `write`.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// Why not.
        cause: io::Error,
        /// What to do.
        #[help]
        help: &'static str,
    },
    /// What is wrong with a scenario.
    #[error(transparent)]
    #[diagnostic(transparent)]
    Scenario(#[from] weft_experiment::Error),
    /// Anything else that is wrong with a command's arguments, or with the data as a whole.
    #[error("{message}")]
    Usage {
        /// What is wrong.
        message: String,
        /// What to do.
        #[help]
        help: String,
    },
}

impl Error {
    /// An error of the arguments or of the data as a whole.
    pub fn usage(message: impl Into<String>, help: impl Into<String>) -> Self {
        Self::Usage { message: message.into(), help: help.into() }
    }

    /// A part of a file is wrong.
    pub fn input(path: &Path, place: impl Into<String>, message: impl Into<String>, help: impl Into<String>) -> Self {
        Self::Input { path: path.to_owned(), place: place.into(), message: message.into(), help: help.into() }
    }

    /// A file could not be read or written.
    pub fn io(what: &'static str, path: &Path, cause: io::Error) -> Self {
        let help = match cause.kind() {
            ErrorKind::NotFound => "check the path, relative to the current folder",
            ErrorKind::PermissionDenied if what == "read" => "check the file's owner and mode",
            ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => "choose a folder that can be written to",
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => "free some space, or choose another folder",
            ErrorKind::IsADirectory => "it is a folder: name a file",
            ErrorKind::NotADirectory => "a part of the path is a file: check it",
            ErrorKind::InvalidData => "the file is not UTF-8 text: name another one",
            _ => "check the path, or choose another one",
        };
        Self::Io { what, path: path.to_owned(), cause, help }
    }
}
