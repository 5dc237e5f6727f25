//! What a data-centre network is and what it carries: no I/O, no clock, no protocol.
//!
//! | module | question it answers |
//! | --- | --- |
//! | [`units`], [`time`], [`ids`] | how quantities and parts are named |
//! | [`topology`] | which hosts, switches and links there are, and which of them work |
//! | [`addressing`] | which LA and AA each has (VL2 section 4.2.1) |
//! | [`cabling`] | how long the cables are and what all costs (Subways section 7) |
//! | [`upgrade`] | how to get from one Subways fabric to another (Subways section 4) |
//! | [`routing`] | which path a flow takes |
//! | [`traffic`] | which flows want to move |
//! | [`formats`] | how other tools write these things down |
//! | [`record`] | what every world reports of a run |

pub mod addressing;
pub mod cabling;
pub mod formats;
pub mod ids;
pub mod mac;
mod quantity;
pub mod record;
pub mod rng;
pub mod routing;
pub mod time;
pub mod topology;
pub mod traffic;
pub mod units;
pub mod upgrade;

pub use ids::{CableId, FlowId, HostId, LinkId, NodeId, RackId, SwitchId, TenantId};
pub use mac::MacAddr;
pub use time::{Duration, Instant};
pub use topology::{Fabric, Health};
pub use units::{BitsPerSec, Bytes};
