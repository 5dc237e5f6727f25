//! What keeps the benchmark from measuring.

use std::io;
use std::net::IpAddr;
use std::time::Duration;

use crate::dataplane::PlaneError;

/// A result of the benchmark.
pub type Result<T> = std::result::Result<T, BenchError>;

/// What keeps the benchmark from measuring.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// A command of the system failed.
    #[error("`{command}` failed: {message}")]
    Command {
        /// The command.
        command: String,
        /// What it said.
        message: String,
    },
    /// A call of the system failed.
    #[error("cannot {step}: {source}")]
    System {
        /// What was tried.
        step: &'static str,
        /// Why not.
        source: io::Error,
    },
    /// An address of the path is still tentative: duplicate address detection has not ended.
    #[error("IPv6 addresses are still tentative after {after:?}: {addresses}")]
    Tentative {
        /// Which.
        addresses: String,
        /// How long they were waited for.
        after: Duration,
    },
    /// Nobody answers ICMP echoes.
    #[error("no answer to an ICMP echo from {to} within {after:?}")]
    NoAnswer {
        /// Who should.
        to: IpAddr,
        /// How long was waited.
        after: Duration,
    },
    /// The data plane could not be put in place.
    #[error(transparent)]
    Plane(#[from] PlaneError),
}

impl BenchError {
    /// What to do about it.
    pub fn help(&self) -> &'static str {
        match self {
            Self::System { source, .. } if source.kind() == io::ErrorKind::PermissionDenied => "run as root on Linux",
            Self::System { .. } => "see the system's message; nothing of the benchmark is left",
            Self::Tentative { .. } | Self::NoAnswer { .. } => {
                "is the machine overloaded? Run it again when it is idle; if it persists, the path does not carry these packets"
            }
            Self::Command { .. } => {
                "run as root on Linux with iproute2, network namespaces and veth; VXLAN needs the kernel's module"
            }
            Self::Plane(_) => "run as root on Linux 6.3 or newer with bpffs mounted: mount -t bpf bpf /sys/fs/bpf",
        }
    }

    pub(super) fn system(step: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::System { step, source }
    }
}
