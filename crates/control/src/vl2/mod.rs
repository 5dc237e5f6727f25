//! VL2: application addresses over a network of locator addresses (VL2, section 4).
//!
//! ```text
//!   agent    a host's: turns ARP into lookups, programs the data plane with routes to peers, and who may reach this host    (section 4.2.1)
//!   switch   a ToR's: which addresses are behind it, and what it publishes; an intermediate's: anycast failover       (4.2.2, 4.3.2)
//!   placement   a host's large flows over intermediate switches that a scheduler chooses                   (4.2.2; Hedera, section 3)
//!   groups   which intermediate switches have which anycast address                                                    (4.2.2)
//! ```

pub mod agent;
pub mod groups;
pub mod placement;
pub mod switch;
