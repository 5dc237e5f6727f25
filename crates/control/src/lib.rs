//! What the network decides: sans-I/O state machines and pure algorithms.
//!
//! Every machine has one contract: `handle(now, input)` passes what happened, `poll()` returns what to do, and `deadline()` when to call
//! again. It never reads a clock, a socket or a file. See [`controller`] for the contract between schedulers and worlds.

pub(crate) mod bucket;
pub mod controller;
pub mod directory;
pub mod hedera;
pub mod netlord;
pub mod openflow;
pub mod prefix;
pub mod subways;
pub mod time;
pub mod vl2;
pub mod wire;
