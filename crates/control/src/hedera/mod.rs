//! Hedera: a central scheduler that finds large flows and gives them paths that do not collide (Hedera sections 3 and 4).
//!
//! ```text
//!   counters of the edge switches
//!        |  every period
//!        v
//!   detector ----> demand ----> first_fit | annealing | edge_coloring ----> SetPath, ClearPath
//!   which flows    how much     which core each of them                     only what changed
//!   are large      each wants   crosses
//! ```
//! A core is a [`RootLabel`](weft_fabric::routing::RootLabel): a way across the roots of any multi-rooted tree.

pub mod access;
pub mod annealing;
pub mod caps;
pub mod climbs;
pub mod config;
pub mod control_loop;
pub mod demand;
pub mod detector;
pub mod edge_coloring;
pub mod first_fit;
pub mod goodput;
pub mod guard;
pub mod network;
pub mod planner;
pub mod scheduler;
mod shares;
#[cfg(test)]
pub(crate) mod testing;
pub mod units;

pub use config::{HederaConfig, HederaError, Placer};
pub use control_loop::control_loop_length;
pub use demand::{DemandError, DemandEstimator, estimate};
pub use planner::{Assignment, Placement, Planner, place_once};
pub use scheduler::Hedera;
