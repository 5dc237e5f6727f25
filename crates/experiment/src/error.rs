//! What can go wrong for a user, each with the place and the next step.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use miette::{Diagnostic, NamedSource, SourceSpan};
use weft_fabric::formats::FormatError;

/// The result of everything in this crate that a user's input can break.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error for the user. All of them end a command with exit code 2.
#[derive(Debug, thiserror::Error, Diagnostic)]
#[allow(missing_docs)]
pub enum Error {
    /// A key of a scenario file.
    #[error("{place}: {message}")]
    Scenario {
        place: String,
        message: String,
        #[help]
        help: Option<String>,
        #[source_code]
        source_code: Option<NamedSource<String>>,
        #[label("here")]
        span: Option<SourceSpan>,
    },
    /// The same, before it is known which line that is.
    #[error(transparent)]
    #[diagnostic(transparent)]
    Key(#[from] KeyError),
    /// A line of another file that a scenario or a command reads.
    #[error("{}:{}: {}", path.display(), cause.line, cause.message)]
    Format {
        path: PathBuf,
        cause: FormatError,
        #[help]
        help: String,
    },
    /// A file or folder that cannot be read or written.
    #[error("cannot {what} {}: {cause}", path.display())]
    Io {
        what: &'static str,
        path: PathBuf,
        cause: std::io::Error,
        #[help]
        help: Option<String>,
    },
    /// The user wanted it to end.
    #[error("interrupted")]
    Interrupted,
    /// Anything else that is wrong with a command's arguments or their combination.
    #[error("{message}")]
    Usage {
        message: String,
        #[help]
        help: Option<String>,
    },
}

impl Error {
    /// An argument error with a remedy.
    pub fn usage(message: impl Into<String>, help: impl Into<String>) -> Self {
        Self::Usage { message: message.into(), help: Some(help.into()) }
    }

    /// A file could not be read or written.
    pub fn io(what: &'static str, path: &Path, cause: std::io::Error) -> Self {
        let help = match cause.kind() {
            ErrorKind::NotFound => "check the path; relative paths start at the scenario's folder",
            ErrorKind::PermissionDenied if what == "read" => "check whose file it is, and its mode",
            ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => {
                "choose a place that you may write to, with `--out DIR`"
            }
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => "make room there, or choose another place",
            ErrorKind::IsADirectory => "it is a folder: name a file",
            ErrorKind::NotADirectory => "a part of the path is a file: check it",
            ErrorKind::InvalidData => "it is no text in UTF-8: name another file, or write it anew",
            _ if what == "read" => "check what the path leads to, or name another file",
            _ => "check what the path leads to, or choose another place",
        };
        Self::Io { what, path: path.to_owned(), cause, help: Some(help.to_owned()) }
    }

    /// A line of a file that another tool or the user wrote.
    pub fn format(path: &Path, cause: FormatError) -> Self {
        Self::Format { path: path.to_owned(), help: cause.help.clone(), cause }
    }
}

/// A problem at a key of the scenario, before it is known which line that is.
#[derive(Debug, thiserror::Error, Diagnostic)]
#[error("{key}: {message}")]
pub struct KeyError {
    /// Dotted path of the key: `fabric.k`, `event[0].fail`.
    pub key: String,
    /// What is wrong.
    pub message: String,
    /// What to do.
    #[help]
    pub help: Option<String>,
}

impl KeyError {
    /// A problem at a key, with a remedy.
    pub fn new(key: impl Into<String>, message: impl Into<String>, help: impl Into<String>) -> Self {
        Self { key: key.into(), message: message.into(), help: Some(help.into()) }
    }
}
