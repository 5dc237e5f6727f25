//! `overlay = "vl2"`: the agent of a server and of a switch, so that application addresses work (VL2, sections 4.2 and 4.3).
//!
//! ```text
//!   role = "host"     NIC: headers pushed and stripped      --> host::run     control::vl2::agent decides, eBPF moves packets
//!   role = "switch"   ToR, intermediate switch, DHCP relay  --> switch::run   control::vl2::switch decides, eBPF strips
//! ```

pub mod dataplane;
pub mod host;
pub mod switch;
