//! Which flows want to move, when, and how much.
//!
//! | module | what it holds |
//! | --- | --- |
//! | [`flow`] | a flow, and [`Workload`]: the contract with the world that carries it |
//! | [`spec`] | [`TrafficSpec`]: pattern, size and arrivals, and the workload that they make on a fabric |
//! | [`sizes`] | distributions of sizes and of concurrent flows |

mod arrivals;
mod destinations;
pub mod flow;
mod loops;
mod random;
mod shuffle;
pub mod sizes;
pub mod spec;

pub use flow::{FlowSpec, Size, StaticWorkload, Workload, flows_known_at_start};
pub use sizes::{Concurrency, EmpiricalCdf, SizeError, SizeSpec};
pub use spec::{ArrivalRate, Arrivals, Pattern, ShuffleMode, TrafficError, TrafficSpec};
