//! The engine as a model of the event loop: flows by id, links by id, instants.

use weft_fabric::record::Outcome;
use weft_fabric::traffic::Size;
use weft_fabric::{Fabric, FlowId, Instant, LinkId};

use std::sync::Arc;

use super::net::Net;
use crate::world::{Ended, Model};

/// Carries flows as packets.
pub(super) struct PacketModel {
    pub fabric: Arc<Fabric>,
    pub net: Net,
    /// Bytes of each flow; `u64::MAX` if it never ends.
    pub sizes: Vec<u64>,
    /// Flows whose connection opens when this instant's changes are in.
    pub opening: Vec<u32>,
    /// Flows that end some time.
    pub ending: usize,
    /// What flows lack of a whole number of segments, over all that have ended.
    pub short: u64,
    pub ended: Vec<u32>,
}

impl Model for PacketModel {
    const ANSWERS: bool = true;
    const BLIND: bool = true;

    fn start(&mut self, id: FlowId, size: Size) {
        debug_assert_eq!(id.index(), self.sizes.len(), "flows are numbered as they begin");
        let bytes = match size {
            Size::Finite(bytes) => Some(bytes.0),
            Size::Infinite => None,
        };
        self.net.add(bytes);
        self.sizes.push(bytes.unwrap_or(u64::MAX));
        self.opening.push(id.0);
        self.ending += usize::from(bytes.is_some());
    }

    fn set_path(&mut self, id: FlowId, path: &[LinkId]) {
        self.net.tx[id.index()].route = self.net.paths.intern(&self.fabric, path);
    }

    fn set_path_back(&mut self, id: FlowId, path: &[LinkId]) {
        self.net.rx[id.index()].route = self.net.paths.intern(&self.fabric, path);
    }

    fn set_link(&mut self, link: LinkId, up: bool) {
        self.net.set_up(link.0, up);
    }

    fn link_bytes(&self, bytes: &mut [u64]) -> bool {
        for (link, bytes) in (0..).zip(bytes) {
            *bytes = self.net.ports.bytes(link);
        }
        true
    }

    fn settle(&mut self) {
        for i in 0..self.opening.len() {
            self.net.open(self.opening[i]);
        }
        self.opening.clear();
    }

    fn advance(&mut self, until: Instant, ended: &mut Vec<Ended>) -> Instant {
        let now = self.net.run(until.as_ps(), &mut self.ended);
        for flow in self.ended.drain(..) {
            let bytes = self.sizes[flow as usize];
            self.short += u64::from(self.net.rx[flow as usize].end) * u64::from(self.net.sizes.mss) - bytes;
            self.ending -= 1;
            ended.push(Ended { id: FlowId(flow), at: Instant::from_ps(now) });
        }
        Instant::from_ps(now)
    }

    fn will_end(&self) -> bool {
        self.ending > 0 && self.net.is_busy()
    }

    fn delivered(&mut self, id: FlowId) -> u64 {
        let segments = self.net.rx[id.index()].tcp.next();
        (u64::from(segments) * u64::from(self.net.sizes.mss)).min(self.sizes[id.index()])
    }

    fn delivered_total(&self) -> f64 {
        (self.net.totals.delivered * u64::from(self.net.sizes.mss) - self.short) as f64
    }

    fn work(&self) -> u64 {
        self.net.totals.events
    }

    fn finish(&mut self, outcome: &mut Outcome) {
        outcome.hops = Some(self.net.totals.hops);
    }
}
