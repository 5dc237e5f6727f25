//! What can go wrong between user space and the kernel's part of the data plane.

use std::io;
use std::path::PathBuf;

/// A result of the data plane.
pub type Result<T> = std::result::Result<T, PlaneError>;

/// Something that the kernel refused, or that its state does not allow.
#[derive(Debug, thiserror::Error)]
pub enum PlaneError {
    /// There is no such interface in this network namespace.
    #[error("no interface `{0}` in this network namespace; `ip link` lists them")]
    NoInterface(String),
    /// The interface is not Ethernet.
    #[error("interface `{0}` is not Ethernet: ARP and MAC addresses are needed")]
    NotEthernet(String),
    /// The folder for pins is not on bpffs.
    #[error("{} is not on bpffs; mount it: mount -t bpf bpf /sys/fs/bpf", .0.display())]
    NoBpffs(PathBuf),
    /// libbpf or the kernel refused a step.
    #[error("cannot {step} {object}: {source}{}", remedy(source))]
    Bpf {
        /// What was tried.
        step: &'static str,
        /// The program or map.
        object: String,
        /// Why not.
        source: libbpf_rs::Error,
    },
    /// A call of the system failed.
    #[error("cannot {step} {object}: {source}")]
    System {
        /// What was tried.
        step: &'static str,
        /// What it was tried on.
        object: String,
        /// Why not.
        source: io::Error,
    },
    /// A setting makes no sense.
    #[error("{0}")]
    Setting(String),
    /// A table has no room left.
    #[error("table `{table}` is full: {limit} entries; raise its limit in the settings and attach again")]
    Full {
        /// The table.
        table: &'static str,
        /// Entries that it holds, at most.
        limit: u32,
    },
}

fn remedy(error: &libbpf_rs::Error) -> &'static str {
    match error.kind() {
        libbpf_rs::ErrorKind::PermissionDenied => " (run as root, or with CAP_BPF, CAP_NET_ADMIN and CAP_NET_RAW)",
        _ => "",
    }
}

impl PlaneError {
    pub(crate) fn bpf(step: &'static str, object: impl Into<String>) -> impl FnOnce(libbpf_rs::Error) -> Self {
        let object = object.into();
        move |source| Self::Bpf { step, object, source }
    }

    pub(crate) fn system(step: &'static str, object: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let object = object.into();
        move |source| Self::System { step, object, source }
    }
}
