//! Probes of a lab: reachability ([`ping`]), paths ([`trace`]), and a suite of tests ([`connectivity`]).

pub mod connectivity;
pub mod ping;
pub mod sample;
pub mod trace;

mod packets;
