//! `weft-scheduler`: steers the flows of a real fabric (Hedera, sections 3 and 4.6). Decisions are those of [`weft_control`]; here are
//! sockets, clocks and the configuration.
//!
//! ```text
//!   switches --TCP, Unix sockets--> connections --bytes--> core: a Session each, one OpenFlowNetwork, its Controller
//!                                        ^------bytes--------'  ^
//!   weft-scheduler status, placements, explain --Unix socket----'
//! ```
//! With `[agents]` it steers VL2's agents in place of switches, with `[access]` Subways' hosts: `agents`, `access`; `reporting` is the life of both.
#![allow(clippy::disallowed_methods)] // Daemons live by the wall clock.

mod access;
mod agents;
mod cli;
pub mod config;
mod connections;
mod core;
mod daemon;
mod discover;
mod error;
mod explain;
pub mod leader;
mod metrics;
mod reporting;
mod requests;
mod status;

pub use cli::main;
