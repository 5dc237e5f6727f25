//! What a lab does: who reaches whom ([`ping`]), and by which path ([`trace`]), asked by packets of our own.

pub mod ping;
pub mod trace;

mod packets;
