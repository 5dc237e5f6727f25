//! `overlay = "netlord"`: the agent of a server among tenants' VMs, and of the switches that know only switches (NetLord, section 3).
//!
//! ```text
//!   role = "host"   VIFs, interfaces to the fabric  --> host::run      control::netlord::agent decides, eBPF moves frames
//!   role = "edge"   bridge, last hop, LLDP, ARP     --> switch::run    eBPF alone decides; the daemon tells it what is static
//!   role = "core"   bridge                          -->
//! ```

mod config;
pub mod host;
mod measures;
pub mod switch;

pub use config::NetlordConfig;
