//! What the data planes of both overlays have in common: loading and pinning of eBPF programs, their maps and events, interfaces, and what
//! offloading leaves undone. No policy.

mod btf;
pub(crate) mod bytes;
mod carry;
pub(crate) mod clock;
mod error;
pub(crate) mod generated;
pub(crate) mod load;
pub(crate) mod maps;
pub(crate) mod nic;
pub(crate) mod offload;
pub(crate) mod ring;
#[cfg(test)]
pub(crate) mod testing;

pub use error::{PlaneError, Result};
pub use load::Restored;

/// A token bucket of packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// Packets per second in the long run.
    pub per_second: u32,
    /// Packets at once.
    pub burst: u32,
}

/// Checks that the calling thread's network namespace has an Ethernet interface of this name.
///
/// # Errors
/// [`PlaneError::NoInterface`], [`PlaneError::NotEthernet`].
pub fn find_interface(name: &str) -> Result<()> {
    nic::Nic::find(name).map(|_| ())
}
