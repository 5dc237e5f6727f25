//! What ends a command with exit code 2: the place, the problem and the remedy.

use std::fmt::Display;
use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use miette::Diagnostic;
use weft_control::netlord::spain::SpainError;
use weft_control::vl2::groups::GroupsError;
use weft_directory::client::ClientError;
use weft_directory::daemon::command_line::{OutputError, file_remedy};
use weft_directory::daemon::config::KeyError;
use weft_directory::daemon::socket::AskError;

use crate::dataplane::PlaneError;

/// The result of a command.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error for the operator.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A key of a configuration is wrong.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// This machine lacks what a key of a configuration names.
    #[error("{}:{line}: {cause}", file.display())]
    Named {
        /// The configuration.
        file: PathBuf,
        /// The key's line, from 1.
        line: usize,
        /// What is wrong.
        cause: Box<Error>,
    },
    /// A key of the configuration cannot change while the agent runs.
    #[error("`{0}` cannot change while the agent runs")]
    Fixed(&'static str),
    /// The daemon cannot reload its configuration.
    #[error("{0} cannot reload its configuration")]
    NoReload(&'static str),
    /// A file could not be read or written.
    #[error("cannot {action} {}: {cause}", path.display())]
    File {
        /// What was tried.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// Why not.
        cause: io::Error,
    },
    /// A file that the configuration or the command line names could not be read.
    #[error("cannot read {what} {}: {cause}", path.display())]
    Input {
        /// What it holds.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// Why not.
        cause: io::Error,
        /// Where it comes from.
        help: &'static str,
    },
    /// The content of a file is wrong.
    #[error("{}: {reason}", path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
        /// Where its form is described.
        help: &'static str,
    },
    /// A key file can be read by others.
    #[error("{} can be read by others (mode {mode:03o})", path.display())]
    KeyMode {
        /// The file.
        path: PathBuf,
        /// Its permissions.
        mode: u32,
    },
    /// The system refused something.
    #[error("cannot {action}: {cause}")]
    System {
        /// What was tried.
        action: String,
        /// Why not.
        cause: io::Error,
        /// The remedy; empty if there is none.
        help: &'static str,
    },
    /// A command of the system failed.
    #[error("`{command}`: {reason}")]
    Command {
        /// The command and its arguments.
        command: String,
        /// What it printed on stderr.
        reason: String,
    },
    /// The agent's packets do not leave from here.
    #[error("the agent runs in another network namespace: probes from here would take another path")]
    OtherNamespace {
        /// The agent's process.
        pid: u64,
    },
    /// There is no such network interface.
    #[error("there is no Ethernet device `{0}`")]
    NoDevice(String),
    /// An interface has no locator address.
    #[error("{0} has no IPv4 address that is not an application address")]
    NoLocator(String),
    /// There is no socket to be had at a locator address.
    #[error("cannot send from the locator address {la}: {cause}")]
    Locator {
        /// The address.
        la: Ipv4Addr,
        /// Why not.
        cause: io::Error,
    },
    /// An interface of the agent's name is another's.
    #[error("there is an interface `{device}` or `{port}` that is not the agent's")]
    ForeignDevice {
        /// The interface with the address.
        device: String,
        /// Its peer.
        port: String,
    },
    /// Metrics cannot be served.
    #[error("the metrics' address {address} cannot be used: {reason}")]
    Metrics {
        /// Where.
        address: SocketAddr,
        /// Why not.
        reason: String,
    },
    /// The tenants' file lacks a tenant.
    #[error("the tenants' file has no tenant `{tenant}`")]
    NoTenant {
        /// Its name.
        tenant: String,
        /// Those that there are.
        known: String,
    },
    /// A tenant lacks a VIF.
    #[error("tenant `{tenant}` has no VIF `{vif}`")]
    NoVif {
        /// The tenant's name.
        tenant: String,
        /// The VIF's name.
        vif: String,
        /// Those that there are.
        known: String,
    },
    /// Another agent has the control socket.
    #[error("an agent is running already: it listens on {}", .0.display())]
    Running(PathBuf),
    /// No agent answers at the control socket.
    #[error("no agent at {}: {cause}", path.display())]
    NoAgent {
        /// The socket.
        path: PathBuf,
        /// Why not.
        cause: io::Error,
    },
    /// The agent ended before it answered.
    #[error("the agent ended before it answered")]
    Ended,
    /// The agent refused a request.
    #[error("{message}")]
    Refused {
        /// What it says.
        message: String,
        /// The remedy that it names.
        help: String,
    },
    /// The agent's answer has another form than this program expects.
    #[error("the agent's answer is not understood")]
    Answer,
    /// The settings of SPAIN contradict each other.
    #[error(transparent)]
    Spain(#[from] SpainError),
    /// The groups of intermediate switches cannot be formed.
    #[error(transparent)]
    Groups(#[from] GroupsError),
    /// The directory's client failed.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The data plane failed.
    #[error(transparent)]
    Plane(#[from] PlaneError),
}

impl Error {
    /// A file could not be read or written.
    pub fn file(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |cause| Self::File { action, path, cause }
    }

    /// The system refused something.
    pub fn system(action: impl Into<String>, help: &'static str) -> impl FnOnce(io::Error) -> Self {
        let action = action.into();
        move |cause| Self::System { action, cause, help }
    }

    /// The remedy; empty if there is none.
    pub fn remedy(&self) -> String {
        match self {
            Self::Key(KeyError { help, .. }) | Self::Refused { help, .. } => help.clone(),
            Self::Named { cause, .. } => cause.remedy(),
            Self::Fixed(_) | Self::NoReload(_) => "restart the agent; with on_exit = \"keep\" known flows go on".to_owned(),
            Self::File { cause, .. } => file_remedy(cause.kind()).to_owned(),
            Self::Input { help, .. } | Self::Content { help, .. } | Self::System { help, .. } => (*help).to_owned(),
            Self::KeyMode { path, .. } => format!("chmod 600 {}", path.display()),
            Self::OtherNamespace { pid } => format!("nsenter --net=/proc/{pid}/ns/net weft agent trace ..."),
            Self::NoDevice(_) => "`device` names the NIC that carries the locator address; `ip link` lists them".to_owned(),
            Self::NoLocator(device) => format!("give the device one (`ip addr add ... dev {device}`), or write `la`"),
            Self::Locator { .. } => "`la` must be an address of this machine".to_owned(),
            Self::ForeignDevice { .. } => "remove it, or write another `device` in [provider]".to_owned(),
            Self::Metrics { .. } => "choose another with `metrics`, or \"off\"".to_owned(),
            Self::NoTenant { known, .. } | Self::NoVif { known, .. } => format!("it has: {known}"),
            Self::Running(_) => "stop it first, or give this one another `socket`".to_owned(),
            Self::NoAgent { cause, .. } => match cause.kind() {
                ErrorKind::PermissionDenied => "run it as root",
                ErrorKind::WouldBlock | ErrorKind::TimedOut => "the agent does not answer: look at its log",
                _ => "is it running? `systemctl status weft-agent`; `--socket` or WEFT_AGENT_SOCKET names another socket",
            }
            .to_owned(),
            Self::Ended => "look at its log: `journalctl -u weft-agent`".to_owned(),
            Self::Answer => "are both programs of one version?".to_owned(),
            Self::Spain(_) => "docs/spain.md".to_owned(),
            Self::Client(error) => error.help().to_owned(),
            Self::Plane(
                PlaneError::NoInterface(_) | PlaneError::NotEthernet(_) | PlaneError::Setting(_) | PlaneError::Full { .. },
            )
            | Self::Command { .. }
            | Self::Groups(_) => String::new(),
            Self::Plane(_) => "run it as root; `weft lab doctor` lists what this system lacks".to_owned(),
        }
    }
}

impl From<AskError> for Error {
    fn from(error: AskError) -> Self {
        match error {
            AskError::NoDaemon { path, cause } => Self::NoAgent { path, cause },
            AskError::Ended => Self::Ended,
            AskError::Refused { message, help } => Self::Refused { message, help },
        }
    }
}

impl From<OutputError> for Error {
    fn from(error: OutputError) -> Self {
        Self::file("write to", Path::new("standard output"))(error.0)
    }
}

impl Diagnostic for Error {
    fn help<'a>(&'a self) -> Option<Box<dyn Display + 'a>> {
        Some(self.remedy()).filter(|it| !it.is_empty()).map(|it| Box::new(it) as Box<dyn Display>)
    }
}
