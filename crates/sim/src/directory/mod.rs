//! The directory in simulation: the machines of [`weft_control::directory`] on one seeded clock, with faults.
//!
//! | module | |
//! | --- | --- |
//! | [`cluster`] | agents, writers, servers and a store, event by event |
//! | [`network`] | datagrams that are lost, late, doubled, cut off |
//! | [`store`] | a replicated or embedded store with its failures |
//! | [`records`] | tenants' records in that store |
//! | [`service`] | what a request costs a server |
//! | [`load`] | storms of lookups and updates, and their outcome |

mod answers;
pub mod cluster;
pub mod load;
pub mod network;
pub mod records;
pub mod service;
pub mod store;
mod switch;

pub use cluster::{Cluster, ClusterConfig, Seen, Step};
