//! What ends a command with exit code 2: the place, the problem and the remedy.

use std::io::ErrorKind;
use std::path::Path;

use miette::Diagnostic;
use weft_control::directory::KeyError;

use crate::client::ClientError;
use crate::dataplane::PlaneError;

/// The result of a command.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error for the user.
#[derive(Debug, thiserror::Error, Diagnostic)]
#[error("{message}")]
pub struct Error {
    message: String,
    #[help]
    help: Option<String>,
}

impl Error {
    /// A problem and its remedy.
    pub fn new(message: impl Into<String>, help: impl Into<String>) -> Self {
        Self { message: message.into(), help: Some(help.into()).filter(|help| !help.is_empty()) }
    }

    /// The same, of what stands at a place: a file and its line.
    #[must_use]
    pub fn at(self, place: impl std::fmt::Display) -> Self {
        Self { message: format!("{place}: {}", self.message), ..self }
    }

    /// A file could not be read or written.
    pub fn io(what: &str, path: &Path, cause: &std::io::Error) -> Self {
        let help = match cause.kind() {
            ErrorKind::NotFound => {
                "check the path; `weft directory init DIR` makes a folder with all that is needed, and `--dir DIR` or WEFT_DIRECTORY names it"
            }
            ErrorKind::PermissionDenied => "check whose file it is, and its mode",
            ErrorKind::ReadOnlyFilesystem => "choose a place that you may write to",
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => "make room there, or choose another place",
            ErrorKind::IsADirectory => "it is a folder: name a file",
            ErrorKind::NotADirectory => "a part of the path is a file: check it",
            ErrorKind::InvalidData => "it is no text in UTF-8: name another file, or write it anew",
            _ => "check what the path leads to, or name another one",
        };
        Self::new(format!("cannot {what} {}: {cause}", path.display()), help)
    }
}

impl From<ClientError> for Error {
    fn from(error: ClientError) -> Self {
        Self::new(error.to_string(), error.help())
    }
}

impl From<PlaneError> for Error {
    fn from(error: PlaneError) -> Self {
        let help = match error {
            PlaneError::NoInterface(_) | PlaneError::NotEthernet(_) | PlaneError::Setting(_) | PlaneError::Full { .. } => "",
            _ => "run it as root; `weft lab doctor` tells what this system lacks",
        };
        Self::new(error.to_string(), help)
    }
}

impl From<KeyError> for Error {
    fn from(error: KeyError) -> Self {
        Self { message: error.to_string(), help: None }
    }
}
