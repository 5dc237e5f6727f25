//! Errors of the user's input, each with the place and the next step.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use miette::{Diagnostic, NamedSource, SourceSpan};
use weft_fabric::formats::FormatError;
#[cfg(all(feature = "lab", target_os = "linux"))]
use weft_lab::LabError;

use crate::bundle;
use crate::suggest::{nearest_path, one_of};

pub use crate::scenario::error::{KeyError, Problem};

/// The result of everything in this crate that a user's input can break.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error for the user. All of them end a command with exit code 2.
#[derive(Debug, thiserror::Error, Diagnostic)]
#[allow(missing_docs)]
pub enum Error {
    /// A key of a scenario file.
    #[error("{place}: {problem}")]
    Scenario {
        place: String,
        problem: Problem,
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
    /// There is no such file; `near` may be meant.
    #[error("there is no file {}", path.display())]
    NoFile {
        path: PathBuf,
        near: Option<PathBuf>,
        #[help]
        help: String,
    },
    /// A name that is none of the valid ones.
    #[error("there is no {what} `{name}`")]
    NoSuch {
        what: &'static str,
        name: String,
        #[help]
        help: String,
    },
    /// A value that TOML cannot hold.
    #[error(transparent)]
    #[diagnostic(help("use only TOML's types"))]
    Toml(#[from] toml::ser::Error),
    /// A program that was built without labs.
    #[error("this `weft` has no lab")]
    #[diagnostic(help("a lab is made of Linux namespaces: build weft on Linux, with its feature `lab`"))]
    NoLab,
    /// A lab.
    #[cfg(all(feature = "lab", target_os = "linux"))]
    #[error("{cause}")]
    Lab {
        cause: LabError,
        #[help]
        help: Option<String>,
    },
    /// The user interrupted it.
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
            ErrorKind::NotFound if path.to_string_lossy().starts_with('@') => "`weft examples` lists the bundled scenarios",
            ErrorKind::NotFound => "check the path; relative paths start at the scenario's folder",
            ErrorKind::PermissionDenied if what == "read" => "check the file's owner and mode",
            ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => "choose a writable folder with `--out DIR`",
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => "free some space, or choose another folder",
            ErrorKind::IsADirectory => "it is a folder: name a file",
            ErrorKind::NotADirectory => "a part of the path is a file: check it",
            ErrorKind::InvalidData => "the file is not UTF-8 text: name another one",
            _ if what == "read" => "check the path, or name another file",
            _ => "check the path, or choose another folder",
        };
        Self::Io { what, path: path.to_owned(), cause, help: Some(help.to_owned()) }
    }

    /// A file that the command line names could not be read: if there is none, the one whose name is nearest is proposed.
    pub fn named_file(path: &Path, cause: std::io::Error) -> Self {
        // A bundled name that does not exist has its own proposal.
        if cause.kind() != ErrorKind::NotFound || cause.get_ref().is_some() {
            return Self::io("read", path, cause);
        }
        let near = nearest_path(path).or_else(|| bundle::namesake(path));
        let help = match &near {
            Some(near) => format!("did you mean `{}`?", near.display()),
            None => "check the path, relative to the current folder".to_owned(),
        };
        Self::NoFile { path: path.to_owned(), near, help }
    }

    /// The same for a scenario.
    pub fn scenario_file(path: &Path, cause: std::io::Error) -> Self {
        match Self::named_file(path, cause) {
            Self::NoFile { path, near: None, help } => {
                Self::NoFile { path, near: None, help: format!("{help}; `weft new` writes a scenario to start from") }
            }
            error => error,
        }
    }

    /// A name that is none of the valid ones.
    pub fn no_such(what: &'static str, name: impl Into<String>, valid: &[&str]) -> Self {
        let name = name.into();
        Self::NoSuch { what, help: one_of(valid, &name), name }
    }

    /// A line of a file that another tool or the user wrote.
    pub fn format(path: &Path, cause: FormatError) -> Self {
        Self::Format { path: path.to_owned(), help: cause.help.clone(), cause }
    }
}

#[cfg(all(feature = "lab", target_os = "linux"))]
impl From<LabError> for Error {
    fn from(error: LabError) -> Self {
        match error {
            LabError::Interrupted => Self::Interrupted,
            cause => Self::Lab { help: cause.help(), cause },
        }
    }
}
