//! Which VLAN a frame takes: what an agent needs of SPAIN (section 3.4), and of any fabric that has several paths.
//!
//! ```text
//!   choose(place, flow) -> VLAN      heard, chirped <-- frames that came      poll -> Chirp --> 64 bytes over that VLAN to that place
//! ```
//! A place is an edge switch and a port; paths lead to switches, and the port says which agent there can answer a chirp.

use weft_fabric::Instant;

use super::Location;
use crate::wire::packet::ethernet::VlanId;

/// Chooses a VLAN for each flow to an edge switch, and hears which ones work.
pub trait ChooseVlan {
    /// The VLAN for a frame of `flow` that is sent to a place now; the same for one flow as long as it works, so that its frames keep their order. `None`:
    /// there is no path.
    fn choose(&mut self, now: Instant, to: Location, flow: FlowHash) -> Option<VlanId>;

    /// A frame from a place, or an answer to a chirp, has come by this VLAN: it works.
    fn heard(&mut self, now: Instant, from: Location, vlan: VlanId);

    /// A chirp from a place has come by this VLAN.
    fn chirped(&mut self, now: Instant, from: Location, vlan: VlanId) {
        self.heard(now, from, vlan);
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
    fn choose(&mut self, _: Instant, _: Location, _: FlowHash) -> Option<VlanId> {
        Some(self.0)
    }

    fn heard(&mut self, _: Instant, _: Location, _: VlanId) {}
}
