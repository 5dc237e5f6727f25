//! A real world on one Linux machine: a network namespace a host and a switch, veth links shaped to their rates, kernel TCP and kernel
//! forwarding, FRR between the switches.
//!
//! ```text
//!   Fabric --plan--> Plan --commands--> text for ip and tc, sysctls --+
//!                      |                                              +--lab (netns, state)--> what stands --probe--> what it does
//!                      +----frr--> configuration of the daemons ------+
//! ```
//! | module | question it answers |
//! | --- | --- |
//! | [`plan`] | what a lab consists of: namespaces, ports, addresses, routes, rates, settings |
//! | [`commands`] | how `ip` and `tc` are told so |
//! | [`netns`] | how a namespace is made, entered and removed |
//! | [`frr`] | how the routing daemons are configured, started, and known to have converged |
//! | [`state`] | which labs stand, and what a crash left |
//! | [`lab`] | how a lab comes up, and goes down to nothing |
//! | [`programs`] | how the programs of an overlay are found, started, asked and ended |
//! | [`vl2`] | how an overlay's directory and agents are configured and started |
//! | [`netlord`] | how bridges, agents and tenants' VMs are configured and started |
//! | [`carry`] | how a run comes up, carries its flows ([`traffic`]), is counted ([`counters`]) and goes down |
//! | [`events`] | how parts fail and return meanwhile |
//! | [`frames`] | how whole frames are sent and heard at an interface |
//! | [`probe`] | whether hosts reach each other, and by which path |
//! | [`doctor`] | what this system lacks |
//!
//! [`plan`] and [`commands`] are pure and build anywhere; the rest is of Linux and, but for [`doctor`], of root.

pub mod commands;
pub mod plan;

#[cfg(target_os = "linux")]
pub mod carry;
#[cfg(target_os = "linux")]
mod clock;
#[cfg(target_os = "linux")]
mod congestion;
#[cfg(target_os = "linux")]
pub mod counters;
#[cfg(target_os = "linux")]
pub mod directory;
#[cfg(target_os = "linux")]
pub mod doctor;
#[cfg(target_os = "linux")]
mod ebpf;
#[cfg(target_os = "linux")]
mod error;
#[cfg(target_os = "linux")]
pub mod events;
#[cfg(target_os = "linux")]
pub mod frames;
#[cfg(target_os = "linux")]
pub mod frr;
#[cfg(target_os = "linux")]
pub mod lab;
#[cfg(target_os = "linux")]
mod neighbours;
#[cfg(target_os = "linux")]
mod netlink;
#[cfg(target_os = "linux")]
pub mod netlord;
#[cfg(target_os = "linux")]
pub mod netns;
#[cfg(target_os = "linux")]
pub mod paths;
#[cfg(target_os = "linux")]
pub mod probe;
#[cfg(target_os = "linux")]
pub mod programs;
#[cfg(target_os = "linux")]
pub mod state;
#[cfg(target_os = "linux")]
pub mod traffic;
#[cfg(target_os = "linux")]
mod valiant;
#[cfg(target_os = "linux")]
pub mod vl2;

#[cfg(target_os = "linux")]
pub use clock::Stopwatch;
#[cfg(target_os = "linux")]
pub use error::{LabError, Result};
#[cfg(target_os = "linux")]
pub use lab::{Lab, down, names, need_root, status};
