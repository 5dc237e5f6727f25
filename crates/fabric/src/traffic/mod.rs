//! Which flows want to move, when, and how much.
//!
//! | module | what it holds |
//! | --- | --- |
//! | [`flow`] | a flow, and [`Workload`]: the contract with the world that carries it |
//! | [`hosts`] | which hosts take part: racks, contiguous or spread |
//! | [`requests`] | requests and responses at a constant rate, for worlds of packets |
//! | [`spec`] | [`TrafficSpec`]: pattern, size and arrivals, and the workload that they make on a fabric |
//! | [`sizes`] | distributions of sizes and of concurrent flows |
//! | [`tenants`] | the shuffles of many tenants' VMs |

mod arrivals;
mod destinations;
mod error;
pub mod flow;
pub mod hosts;
mod loops;
mod many_to_many;
mod pattern;
mod random;
pub mod requests;
pub mod several;
mod shuffle;
pub mod sizes;
pub mod spec;
mod starts;
pub mod tenants;
mod weights;

pub use error::TrafficError;
pub use flow::{FlowSpec, Size, StaticWorkload, Workload, flows_known_at_start};
pub use hosts::{HostList, Participants, Place};
pub use pattern::{Pattern, ShuffleMode};
pub use requests::{RequestLoad, RequestSpec};
pub use several::SeveralWorkloads;
pub use sizes::{Concurrency, EmpiricalCdf, SizeError, SizeSpec};
pub use spec::{ArrivalRate, Arrivals, TrafficSpec};
pub use weights::RackWeights;
