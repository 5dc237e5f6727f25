//! What the network decides: sans-I/O state machines and pure algorithms.
//!
//! Every machine has one contract: it is told what happened and when, it is asked for what it wants done, and it says when it
//! wants to be woken. It never reads a clock, a socket or a file. See [`controller`] for the contract between schedulers and worlds.

pub(crate) mod bucket;
pub mod controller;
pub mod directory;
pub mod hedera;
pub mod netlord;
pub mod prefix;
pub mod subways;
pub mod vl2;
pub mod wire;
