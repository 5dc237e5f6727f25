//! What every daemon has in common: its command line, its log, and how it reports its state.

#[cfg(feature = "command-line")]
pub mod command_line;
mod log;
pub mod notify;

pub use log::start_log;
