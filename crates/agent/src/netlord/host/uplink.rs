//! An interface to the fabric.

use weft_control::netlord::Location;
use weft_fabric::MacAddr;

/// An interface to the fabric.
#[derive(Debug)]
pub(super) struct Uplink {
    pub device: String,
    pub ifindex: u32,
    pub mac: MacAddr,
    /// Its MTU in bytes, if it is up.
    pub mtu: Option<u32>,
    /// Its place, as the edge switch announces it, or as configured.
    pub at: Option<Location>,
}
