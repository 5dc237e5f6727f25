//! Subways (section 5.2) on hosts with several NICs, without an overlay: `overlay = "none"`.
//!
//! ```text
//!   role = "host":    eBPF: which NIC a flow leaves by, and reaches its peer by <-- slots, moves -- AccessHost <-- orders -- scheduler
//!   role = "switch":  what the ports of a ToR count -------------------------------------------- TorReporter -- reports -->
//! ```

mod config;
pub mod dataplane;
pub mod host;
pub mod tor;
