//! Which VLAN a frame takes: what an agent needs of SPAIN (section 3.4), and of any fabric that has several paths.
//!
//! ```text
//!   choose(uplink, place, flow) -> VLAN      heard, chirped <-- frames that came      poll -> Chirp --> 64 bytes over that VLAN to that place
//!   set_table <-- SPAIN's tables             sent <-- a data plane that chooses by itself; poll_usable --> the VLANs that it may choose
//! ```
//! A place is an edge switch and a port; paths lead from an interface of the server to switches, and the port says which agent there can answer a chirp.
//! Interfaces lead to different edge switches, so that neither the VLANs to a place nor what has become of them are the same for two.

use weft_fabric::MacAddr;

use super::{Location, UplinkId};
use crate::time::Instant;
use crate::wire::packet::ethernet::VlanId;

/// An edge switch, as an interface of this server reaches it.
pub type Reached = (UplinkId, MacAddr);

/// Chooses a VLAN for each flow to an edge switch, and hears which ones work.
pub trait ChooseVlan {
    /// The VLAN for a frame of `flow` that is sent by an interface to a place now; the same for one flow as long as it works, so that its frames keep their
    /// order. `None`: there is no path.
    fn choose(&mut self, now: Instant, by: UplinkId, to: Location, flow: FlowHash) -> Option<VlanId>;

    /// A frame from a place, or an answer to a chirp, has come to an interface by this VLAN: it works.
    fn heard(&mut self, now: Instant, by: UplinkId, from: Location, vlan: VlanId);

    /// A chirp from a place has come to an interface by this VLAN.
    fn chirped(&mut self, now: Instant, by: UplinkId, from: Location, vlan: VlanId) {
        self.heard(now, by, from, vlan);
    }

    /// An interface has no place any more, or another: what has become of its VLANs says nothing of those that it will have.
    fn lost(&mut self, _now: Instant, _uplink: UplinkId) {}

    /// The VLANs from an interface to an edge switch from now on, that of the shortest path first; none: there is no path.
    fn set_table(&mut self, _now: Instant, _to: Reached, _vlans: &[VlanId]) {}

    /// A data plane that chooses by itself has sent a frame from an interface to a place by this VLAN.
    fn sent(&mut self, _now: Instant, _by: UplinkId, _to: Location, _vlan: VlanId) {}

    /// The next edge switch whose usable VLANs have changed, and all that are usable: those that work, or if none does, all.
    fn poll_usable(&mut self) -> Option<(Reached, Vec<VlanId>)> {
        None
    }

    /// The next chirp, or answer to one, to be sent.
    fn poll(&mut self) -> Option<Chirp> {
        None
    }

    /// When [`timer`](Self::timer) is due.
    fn deadline(&self) -> Option<Instant> {
        None
    }

    /// The deadline has come.
    fn timer(&mut self, _now: Instant) {}
}

/// A sign of life that is asked for, or given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chirp {
    /// From which interface.
    pub by: UplinkId,
    /// To whom.
    pub to: Location,
    /// By which VLAN.
    pub vlan: VlanId,
    /// Given, to one that was asked for.
    pub is_answer: bool,
}

/// A hash of what makes a flow, the same in both directions: of TCP and UDP the five-tuple, else the addresses, always with the tenant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlowHash(pub u64);

/// One VLAN for everything: a plain fabric.
#[derive(Clone, Copy, Debug)]
pub struct OneVlan(pub VlanId);

impl ChooseVlan for OneVlan {
    fn choose(&mut self, _: Instant, _: UplinkId, _: Location, _: FlowHash) -> Option<VlanId> {
        Some(self.0)
    }

    fn heard(&mut self, _: Instant, _: UplinkId, _: Location, _: VlanId) {}
}
