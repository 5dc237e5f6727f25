//! A real network on one Linux machine: a network namespace per host and switch, veth links shaped to their rates, kernel TCP and kernel
//! forwarding, FRR between the switches.
//!
//! ```text
//!   Fabric --plan--> Plan --commands--> batches for ip and tc, sysctls --+
//!                      |                                                 +--lab (netns, state)--> a lab that is up --probe--> reachability, paths
//!                      +----frr, vl2, netlord--> configurations ---------+                               |
//!                                                                                                        +--run (traffic, events, counters)--> Outcome
//! ```
//! | module | what it does |
//! | --- | --- |
//! | [`plan`] | derives namespaces, ports, addresses, routes, rates and settings from a fabric; [`plan::vl2`] and [`plan::netlord`] are laid over it |
//! | [`commands`] | writes the plan as batches for `ip` and `tc` |
//! | `rtnl` | executes those batches by rtnetlink, without starting the programs |
//! | [`netns`] | creates, enters and removes namespaces |
//! | `sysctl` | writes settings of namespaces |
//! | [`frr`] | configures and starts the routing daemons, and waits until they have converged |
//! | [`openflow`] | starts Open vSwitch and its scheduler in place of routers |
//! | [`state`] | keeps the labs that are up, and those that a crash left |
//! | [`lab`] | brings a lab up, and takes it down to nothing |
//! | [`programs`] | finds, starts, queries and kills the programs of an overlay |
//! | [`agents`], [`directory`] | the agents and the directory servers of an overlay |
//! | `dhcp` | the DHCP server and clients of an overlay |
//! | `overlay` | [`vl2`] or [`netlord`], whichever is laid over the lab |
//! | [`vl2`], [`netlord`] | configure and start the overlay; move servers or VMs |
//! | [`run`] | executes a run: traffic ([`traffic`]), events ([`events`]), measurements ([`counters`]) |
//! | [`events`] | failures, repairs, programs that are killed, servers and VMs that move |
//! | [`switches`] | configurations of real switches from a plan: SONiC, and a generic command line |
//! | [`frames`] | sends and receives raw frames at an interface |
//! | [`probe`] | tests reachability and paths |
//! | [`doctor`] | checks whether this system can run labs |
//!
//! [`plan`] and [`commands`] are pure and build anywhere; everything else needs Linux and, except [`doctor`], root.

pub mod commands;
pub mod plan;

#[cfg(target_os = "linux")]
mod access;
#[cfg(target_os = "linux")]
pub mod agents;
#[cfg(target_os = "linux")]
mod batch;
#[cfg(target_os = "linux")]
mod clock;
#[cfg(target_os = "linux")]
mod congestion;
#[cfg(target_os = "linux")]
pub mod counters;
#[cfg(target_os = "linux")]
mod dhcp;
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
mod limits;
#[cfg(target_os = "linux")]
mod names;
#[cfg(target_os = "linux")]
mod neighbours;
#[cfg(target_os = "linux")]
mod netlink;
#[cfg(target_os = "linux")]
pub mod netlord;
#[cfg(target_os = "linux")]
pub mod netns;
#[cfg(target_os = "linux")]
pub mod openflow;
#[cfg(target_os = "linux")]
mod overlay;
#[cfg(target_os = "linux")]
mod ovs;
#[cfg(target_os = "linux")]
pub mod paths;
#[cfg(target_os = "linux")]
pub mod probe;
#[cfg(target_os = "linux")]
pub mod programs;
#[cfg(target_os = "linux")]
mod rtnl;
#[cfg(target_os = "linux")]
pub mod run;
#[cfg(target_os = "linux")]
pub mod state;
#[cfg(target_os = "linux")]
pub mod switches;
#[cfg(target_os = "linux")]
mod sysctl;
#[cfg(target_os = "linux")]
pub mod traffic;
#[cfg(target_os = "linux")]
pub mod vl2;
#[cfg(target_os = "linux")]
mod vlb;

#[cfg(target_os = "linux")]
pub use clock::Stopwatch;
#[cfg(target_os = "linux")]
pub use error::{LabError, Result};
#[cfg(target_os = "linux")]
pub use lab::{Lab, down, names, need_root, status};
