//! What ends a command with exit code 2: the place, the problem and the remedy.

use std::fmt::Display;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use miette::Diagnostic;
use weft_control::openflow::discovery::DiscoveryError;
use weft_directory::daemon::command_line::{OutputError, file_remedy};
use weft_directory::daemon::config::KeyError;
use weft_directory::daemon::socket::AskError;
use weft_directory::daemon::tls::TlsError;

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
    /// A certificate or key cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// Certificates without an address for TLS, or such an address without certificates.
    #[error("{}", if *needs { "an address with `tls:` needs certificates" } else { "there are certificates, and no address with `tls:`" })]
    Certificates {
        /// Whether they are missing.
        needs: bool,
    },
    /// What was found is no fabric.
    #[error("no fabric was found: {0}")]
    Discovery(#[from] DiscoveryError),
    /// What was found cannot be written.
    #[error("what was found cannot be written: {0}")]
    Discovered(String),
    /// A file that would be written is there.
    #[error("{} exists", .0.display())]
    Exists(PathBuf),
    /// A file cannot be written.
    #[error("cannot write {}: {cause}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Why not.
        cause: io::Error,
    },
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
            Self::Discovery(error) => remedy_of_discovery(error).to_owned(),
            Self::Tls(_) => {
                "`--cert` and `--cert-key` belong together; `--ca` has signed the certificates of the switches".to_owned()
            }
            Self::Certificates { .. } => "write `--listen tls:ADDRESS:PORT --cert FILE --cert-key FILE --ca FILE`".to_owned(),
            Self::Discovered(_) => String::new(),
            Self::Exists(_) => "write another folder: `--out FOLDER`".to_owned(),
            Self::Output(OutputError(cause)) | Self::Manual { cause, .. } | Self::Write { cause, .. } => {
                file_remedy(cause.kind()).to_owned()
            }
        }
    }
}

const fn remedy_of_discovery(error: &DiscoveryError) -> &'static str {
    match error {
        DiscoveryError::NoSwitches => "on each switch: `ovs-vsctl set-controller br0 tcp:ADDRESS-OF-THIS-MACHINE:6653`",
        DiscoveryError::NoHosts => "let each host send something, such as a ping of its gateway",
        DiscoveryError::SharedPort { .. } => "give each host a port of its own: hosts behind another switch cannot be steered",
        DiscoveryError::NoSpeed(_) => "give the rate of the cables: `--rate 10Gbps`",
        DiscoveryError::Fabric(_) => "are all switches connected, and all their ports up?",
        DiscoveryError::Identity(_) => "change it at the switch or the host, and search again",
    }
}

impl Diagnostic for Error {
    fn help<'a>(&'a self) -> Option<Box<dyn Display + 'a>> {
        Some(self.remedy()).filter(|it| !it.is_empty()).map(|it| Box::new(it) as Box<dyn Display>)
    }
}
