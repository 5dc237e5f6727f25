//! `weft-planner`: the study of traffic and failures from an operator's own logs, and the cost of networks (VL2 sections 3 and 6). Commands of
//! `weft` start this program, so that its parsers do not slow the build of `weft`.
//!
//! ```text
//!   logs --formats--> flow records --analyze--> study --report--> table, JSON, CSV, HTML
//!                                                  `----emit----> a scenario that `weft run` simulates
//!   scenario --network--> racks and switches --routing--> whatif, optimum, throughput
//!   scenario --cost--> bill of materials; with throughput: designs compared, and searched for by design
//!   run --export--> a log again
//!   scenario --evaluate--> metrics of analyze, failures and optimum --judge--> verdicts, for `weft check`
//! ```
//! Log files are read as streams: memory depends on the numbers of hosts, pairs of groups and intervals, not on the number of flows.

pub mod analyze;
mod cli;
pub mod cost;
pub mod cuts;
pub mod design;
mod error;
mod evaluate;
pub mod export;
pub mod fabric;
pub mod failures;
mod judge;
pub mod network;
pub mod optimum;
mod output;
pub mod routing;
pub mod throughput;
pub mod whatif;

pub use cli::main;
pub use error::{Error, Result};
