//! What keeps the benchmark from measuring.

use std::io;

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
    /// The data plane could not be put in place.
    #[error(transparent)]
    Plane(#[from] PlaneError),
}

impl BenchError {
    /// What to do about it.
    pub const fn help(&self) -> &'static str {
        match self {
            Self::Command { .. } => {
                "run as root on Linux with iproute2, network namespaces and veth; VXLAN needs the kernel's module"
            }
            Self::System { .. } => "run as root on Linux",
            Self::Plane(_) => "run as root on Linux 6.3 or newer with bpffs mounted: mount -t bpf bpf /sys/fs/bpf",
        }
    }

    pub(super) fn system(step: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::System { step, source }
    }
}
