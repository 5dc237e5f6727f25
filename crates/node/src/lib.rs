//! What runs on a host: the daemons, with their sockets, clocks and stores. What they decide is decided in `weft-control`.
#![allow(clippy::disallowed_methods)] // Daemons live by the wall clock.

pub mod agent;
pub mod bench;
pub mod bench_agent;
pub mod cli;
pub mod client;
pub mod dataplane;
mod interface;
pub mod server;
pub mod store;
mod whole;
