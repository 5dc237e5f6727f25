//! Which flows want to move, when, and how much.

pub mod flow;

pub use flow::{FlowSpec, Size, StaticWorkload, Workload};
