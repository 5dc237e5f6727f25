//! What a plane is given once, when it is loaded.

use std::time::Duration;

use weft_fabric::MacAddr;

use crate::dataplane::Rate;

/// What a server's plane knows besides its tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostSettings {
    /// Between two signs of one path ([`Event::Sent`](super::Event::Sent), [`Event::Heard`](super::Event::Heard)): a fraction of the chirps' period.
    pub report_interval: Duration,
    /// Misdelivered frames that become events.
    pub misdelivered: Rate,
    /// Frames that a VIF may hand to the agent, and as many from the fabric for a tenant's MAC space.
    pub agent: Rate,
}

impl Default for HostSettings {
    fn default() -> Self {
        Self {
            report_interval: Duration::from_millis(25),
            misdelivered: Rate { per_second: 1000, burst: 100 },
            agent: Rate { per_second: 10_000, burst: 1000 },
        }
    }
}

/// What a switch's plane knows besides its tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SwitchSettings {
    /// The switch's own address: packets to it take their last hop by IP here. None: a core switch.
    pub mac: Option<MacAddr>,
    /// Addresses that the switch can learn, in all VLANs together.
    pub fib_entries: u32,
    /// A learned address is forgotten when it was silent for so long.
    pub ageing: Duration,
    /// Addresses that are learned a second; none: as many as come.
    pub learn: Option<Rate>,
}
