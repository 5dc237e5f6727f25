//! `weft directory bench`: how fast the directory is, and what faults cost. Authentication and policy are on, and every answer is compared with
//! the truth.
//!
//! ```text
//!   cluster   servers of its own (this program, `serve`), pinned to one core        the generator is pinned to another
//!   truth     what was put, and so what every answer must be
//!   lookups   signed before, checked after; open and closed loop                    socket: sendmmsg, recvmmsg
//!   writer    updates under way, each until its fate is known
//!   agents    resolvers that lose packets
//! ```

mod agents;
mod cluster;
mod convergence;
mod error;
mod etcd;
mod lookups;
mod report;
mod runs;
mod socket;
mod truth;
mod writer;

pub use error::BenchError;
pub use report::{Case, Goal, table};
pub use runs::{Options, Set, StoreKind, run};
pub use truth::policy;
