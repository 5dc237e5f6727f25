//! Subways (CoNEXT 2015): controllers that balance the ToRs of servers with several links, and send traffic over detours.
//!
//! ```text
//!   ports' counters --> weights (U, D) ---------> SetAccessPaths: where new flows leave and arrive
//!          |               |
//!          |               v
//!   flows' counters --> rebinding (P) ----------> Rebind: which flows under way move
//!          |               ^
//!          v               |
//!        hot ToRs --> detour plan --> paths through servers, as further paths of their hosts
//! ```
//! There is a controller for each [loop](Ring) of servers and ToRs, and none needs to know of another; [`Subways`] holds them all.
//! `docs/subways.md` says what is modelled.

pub mod agents;
pub mod config;
pub mod detour;
mod hosts;
pub mod hot;
pub mod rebinding;
pub mod returning;
pub mod ring;
mod scheduler;
#[cfg(test)]
mod testing;
mod traffic;
pub mod weights;

pub use config::{DetourConfig, Rebind, SubwaysConfig, SubwaysError};
pub use ring::Ring;
pub use scheduler::Subways;
