//! OpenFlow: emit and parse against each other and against Open vSwitch; the flows that Weft's scheduler programs.

mod arbitrary;
#[allow(dead_code)]
mod flows;
mod ovs;
mod properties;
mod vswitchd;
