//! `weft-agent`: what runs on a host or a switch so that application addresses work (VL2, section 4.2). Decisions are
//! [`weft_control::vl2`]'s; packets are moved by eBPF (`dataplane`).
//!
//! ```text
//!   weft-agent --config FILE --- role = "host"   --> host::run
//!                            '-- role = "switch" --> switch::run
//!                            '-- overlay = "netlord" --> netlord::host::run, netlord::switch::run
//!   weft-agent status, attach, detach, trace --- Unix socket, a JSON object a line ---> the running one
//! ```

mod cli;
pub mod config;
mod daemon;
mod exporter;
pub mod host;
mod iproute;
pub mod netlord;
mod signals;
pub mod socket;
pub mod switch;
mod watch;

pub use cli::main;
