//! The directory (VL2, section 4.3): the daemon `weft-directory` with its stores and command line (feature `server`), and its client library
//! for agents and schedulers, which builds without them. Decisions are those of [`weft_control`].
#![allow(clippy::disallowed_methods)] // Daemons live by the wall clock.

pub mod atomic_file;
#[cfg(feature = "server")]
pub mod bench;
#[cfg(feature = "server")]
pub mod cli;
pub mod client;
pub mod daemon;
#[cfg(feature = "server")]
mod entry;
#[cfg(feature = "server")]
pub mod server;
#[cfg(feature = "server")]
pub mod store;
#[cfg(feature = "server")]
mod table;
