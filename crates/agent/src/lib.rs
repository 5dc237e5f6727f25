//! `weft-agent`: what runs on a host or a switch so that application addresses work (VL2, section 4.2), or tenants' networks (NetLord),
//! and on hosts with several NICs and their ToRs without either (Subways).
//! Decisions are those of [`weft_control`]; packets are moved by eBPF (`dataplane`).
//!
//! ```text
//!   weft-agent --config FILE --- overlay = "vl2"     --> vl2::host::run, vl2::switch::run
//!                            |-- overlay = "netlord" --> netlord::host::run, netlord::switch::run
//!                            '-- overlay = "none"    --> subways::host::run, subways::tor::run
//!   weft-agent status, attach, detach, trace --- Unix socket, one JSON object per line ---> the running agent
//! ```
#![allow(clippy::disallowed_methods)] // Daemons live by the wall clock.

mod cli;
pub mod config;
mod daemon;
pub mod dataplane;
mod directory;
mod error;
mod exporter;
mod interface;
mod iproute;
pub mod netlord;
mod netns;
mod problems;
mod reconcile;
mod signals;
pub mod socket;
pub mod subways;
pub mod vl2;
mod watch;

pub use cli::main;
