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

pub mod demand;

pub use demand::{DemandError, DemandEstimator, estimate};
