//! What every daemon has in common: its command line, its configuration, its log, its Unix socket, and how it reports its state.

#[cfg(feature = "command-line")]
pub mod command_line;
#[cfg(feature = "command-line")]
pub mod config;
mod log;
pub mod notify;
#[cfg(feature = "command-line")]
pub mod socket;
pub mod tls;

pub use log::start_log;
