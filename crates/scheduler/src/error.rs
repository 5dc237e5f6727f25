//! What ends a command with exit code 2: the place, the problem and the remedy.

use std::fmt::Display;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use miette::Diagnostic;
use weft_directory::daemon::command_line::{OutputError, file_remedy};
use weft_directory::daemon::config::KeyError;
use weft_directory::daemon::socket::AskError;

/// The result of a command.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error for the operator.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A key of the configuration is wrong.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The configuration cannot be read.
    #[error("cannot read the configuration {}: {cause}", path.display())]
    Input {
        /// The file.
        path: PathBuf,
        /// Why not.
        cause: io::Error,
    },
    /// Switches cannot connect here.
    #[error("cannot listen on {address}: {cause}")]
    Listen {
        /// Where.
        address: String,
        /// Why not.
        cause: io::Error,
    },
    /// Another scheduler has the socket.
    #[error("a scheduler is running already: it listens on {}", .0.display())]
    Running(PathBuf),
    /// Metrics cannot be served.
    #[error("the metrics' address {address} cannot be used: {reason}")]
    Metrics {
        /// Where.
        address: SocketAddr,
        /// Why not.
        reason: String,
    },
    /// The system refused something.
    #[error("cannot {action}: {cause}")]
    System {
        /// What was tried.
        action: &'static str,
        /// Why not.
        cause: io::Error,
    },
    /// No answer of a running scheduler.
    #[error(transparent)]
    Ask(#[from] AskError),
    /// Standard output cannot be written to.
    #[error(transparent)]
    Output(#[from] OutputError),
    /// The folder for manual pages cannot be written to.
    #[error("cannot write to {}: {cause}", path.display())]
    Manual {
        /// The folder.
        path: PathBuf,
        /// Why not.
        cause: io::Error,
    },
}

impl Error {
    fn remedy(&self) -> String {
        match self {
            Self::Key(KeyError { help, .. }) | Self::Ask(AskError::Refused { help, .. }) => help.clone(),
            Self::Input { .. } => "docs/openflow.md has an example; `--config FILE` names another file".to_owned(),
            Self::Listen { cause, .. } if cause.kind() == io::ErrorKind::AddrInUse => {
                "another controller has it: stop that, or write another address in `listen`".to_owned()
            }
            Self::Listen { .. } => "write an address of this machine in `listen`".to_owned(),
            Self::Running(_) => "stop it first, or give this one another `socket`".to_owned(),
            Self::Metrics { .. } => "choose another with `metrics`, or \"off\"".to_owned(),
            Self::System { .. } => String::new(),
            Self::Ask(AskError::NoDaemon { .. }) => {
                "is it running? `systemctl status weft-scheduler`; `--config FILE` names its configuration".to_owned()
            }
            Self::Ask(AskError::Ended) => "look at its log: `journalctl -u weft-scheduler`".to_owned(),
            Self::Output(OutputError(cause)) | Self::Manual { cause, .. } => file_remedy(cause.kind()).to_owned(),
        }
    }
}

impl Diagnostic for Error {
    fn help<'a>(&'a self) -> Option<Box<dyn Display + 'a>> {
        Some(self.remedy()).filter(|it| !it.is_empty()).map(|it| Box::new(it) as Box<dyn Display>)
    }
}
