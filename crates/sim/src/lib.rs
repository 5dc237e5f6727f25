//! Simulated worlds: they carry a workload over a fabric and return [`weft_fabric::record::Outcome`].
//!
//! | module | what it models |
//! | --- | --- |
//! | [`flow`] | flows with rates: max-min fair, or the AIMD ticks of Hedera section 5.5 |
//! | [`packet`] | packets in queues |
//! | [`directory`] | the directory: agents, servers and a store, with faults |
//! | [`netlord`] | VIF locations for NetLord: agents that notify each other, or that ask a directory |

pub mod directory;
pub mod flow;
pub mod netlord;
pub mod packet;
pub mod world;
