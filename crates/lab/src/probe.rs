//! What a lab does: who reaches whom ([`ping`]), and by which path ([`trace`]), asked by packets of our own; and tests of what it owes
//! ([`connectivity`]).

pub mod connectivity;
pub mod ping;
pub mod trace;

mod packets;
