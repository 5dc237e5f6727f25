//! `overlay = "netlord"`: the agent of a server among tenants' VMs, and of the switches that know only switches (NetLord, section 3).
//!
//! ```text
//!   role = "host"   VIFs, uplinks                   --> host::run      control::netlord::agent decides, eBPF moves frames
//!   role = "edge"   bridge, last hop, LLDP, ARP     --> switch::run    eBPF alone decides; the daemon writes its static tables
//!   role = "core"   bridge                          -->
//! ```

pub mod dataplane;
pub mod host;
mod metrics;
mod special;
pub mod switch;
