//! Probes of a lab: reachability ([`ping`]), paths ([`trace`]), and suites of tests ([`connectivity`], [`isolation`]).

pub mod connectivity;
pub mod isolation;
pub mod ping;
pub mod sample;
pub mod trace;

mod packets;
