//! VIF locations for NetLord (sections 3.9 and 4.2): servers with very many VMs that notify each other (push), or ask a directory (pull).
//!
//! ```text
//!   VMs boot, move, send first packets          Poisson
//!        |
//!        v
//!   the machines of `control`: NlArp or Pull ---- broadcasts, each lost for each server with some probability ---> machines
//!                                            ---- unicasts, datagrams ------------------------------------------> machine, directory
//! ```
//! The machines are those that run on hosts, and the directory's answers are made by the code that real servers run. The fabric is a latency. Loads are in
//! bit-times of the wire as section 4.2 counts them: a frame of 64 bytes takes 608.

mod directory;
mod load;

pub use load::{ArpConfig, ArpTotals, Means, simulate};
