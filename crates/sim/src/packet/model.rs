//! The engine as a model of the event loop: flows by id, links by id, instants.

use weft_fabric::record::{Outcome, PacketRecord, PacketTotals};
use weft_fabric::traffic::{FlowSpec, Size};
use weft_fabric::{Duration, Fabric, FlowId, Instant, LinkId};

use std::sync::Arc;

use super::net::Net;
use crate::world::{Ended, Model};

/// Carries flows as packets.
pub(super) struct PacketModel {
    fabric: Arc<Fabric>,
    net: Net,
    /// Bytes of each flow; `u64::MAX` if it never ends.
    sizes: Vec<u64>,
    /// Flows whose connection opens when this instant's changes are in.
    opening: Vec<u32>,
    /// Flows under way that end some time.
    ending: usize,
    /// What flows lack of a whole number of segments, over all that have ended.
    short: u64,
    ended: Vec<u32>,
    /// How long a flow must have been silent before it takes the next path that it is given.
    gap: (Option<FlowId>, Duration),
}

impl PacketModel {
    pub fn new(fabric: Arc<Fabric>, net: Net) -> Self {
        Self {
            fabric,
            net,
            sizes: Vec::new(),
            opening: Vec::new(),
            ending: 0,
            short: 0,
            ended: Vec::new(),
            gap: (None, Duration::ZERO),
        }
    }
}

impl Model for PacketModel {
    const ANSWERS: bool = true;
    const BLIND: bool = true;
    const COUNTS_LINKS: bool = true;

    fn subflows(&self) -> u32 {
        self.net.subflows
    }

    fn start(&mut self, id: FlowId, spec: &FlowSpec) {
        while self.sizes.len() < id.index() {
            // An empty flow has ended as it began, and has a number.
            self.net.add([0, 0], Some(0));
            self.sizes.push(0);
        }
        let bytes = match spec.size {
            Size::Finite(bytes) => Some(bytes.0),
            Size::Infinite => None,
        };
        self.net.add([spec.src.0, spec.dst.0], bytes);
        self.sizes.push(bytes.unwrap_or(u64::MAX));
        self.opening.push(id.0);
        self.ending += usize::from(bytes.is_some());
    }

    fn set_path(&mut self, id: FlowId, subflow: u32, path: &[LinkId]) {
        let end = id.0 * self.net.subflows + subflow;
        let route = self.net.paths.intern(&self.fabric, path);
        match std::mem::take(&mut self.gap) {
            (waiting, gap) if waiting == Some(id) && gap > Duration::ZERO => self.net.move_at_gap(end, route, gap.as_ps()),
            _ => self.net.move_now(end, route),
        }
    }

    fn wait_for_gap(&mut self, id: FlowId, gap: Duration) {
        self.gap = (Some(id), gap);
    }

    fn set_path_back(&mut self, id: FlowId, subflow: u32, path: &[LinkId]) {
        let end = id.0 * self.net.subflows + subflow;
        self.net.rx[end as usize].route = self.net.paths.intern(&self.fabric, path);
    }

    fn set_link(&mut self, link: LinkId, up: bool) {
        self.net.set_up(link.0, up);
    }

    fn link_bytes(&self, bytes: &mut [u64]) {
        // Without what still waits. A packet that its host has not handed over counts as more than its bytes: never less than before.
        for (link, bytes) in (0..).zip(bytes) {
            let left = self.net.ports.bytes(link).saturating_sub(self.net.ports.backlog(link, self.net.now));
            *bytes = left.max(*bytes);
        }
    }

    fn settle(&mut self) {
        for i in 0..self.opening.len() {
            self.net.open(self.opening[i]);
        }
        self.opening.clear();
    }

    fn advance(&mut self, until: Instant, ended: &mut Vec<Ended>) -> Instant {
        let now = Instant::from_ps(self.net.run(until.as_ps(), &mut self.ended));
        for flow in self.ended.drain(..) {
            let bytes = self.sizes[flow as usize];
            self.short += bytes.next_multiple_of(self.net.unit()) - bytes;
            self.ending -= 1;
            ended.push(Ended { id: FlowId(flow), at: now });
        }
        now
    }

    fn will_end(&self) -> bool {
        self.ending > 0 && self.net.is_busy()
    }

    fn delivered(&mut self, id: FlowId) -> u64 {
        (self.net.delivered(id.0) * self.net.unit()).min(self.sizes[id.index()])
    }

    fn delivered_total(&self) -> f64 {
        (self.net.totals.delivered * self.net.unit() - self.short) as f64
    }

    fn work(&self) -> u64 {
        self.net.totals.events
    }

    fn finish(&mut self, outcome: &mut Outcome) {
        let net = &mut self.net;
        let mut all = 0;
        for flow in &mut outcome.flows {
            let ends = (flow.id.0 * net.subflows) as usize..((flow.id.0 + 1) * net.subflows) as usize;
            if ends.end > net.tx.len() {
                flow.packets = Some(PacketRecord::default()); // empty, and the last
                continue;
            }
            let retransmits = net.tx[ends.clone()].iter().map(|t| t.tcp.repeats).sum();
            let reordered = net.rx[ends].iter().map(|r| r.tcp.reordered).sum();
            flow.packets = Some(PacketRecord { retransmits, reordered });
            all += u64::from(retransmits);
        }
        for link in &mut outcome.links {
            link.drops = u64::from(net.ports.drops(link.id.0));
        }
        let requests = net.load.as_ref().map(|l| l.totals(outcome.ended));
        let (hops, drops) = (net.totals.hops, net.totals.drops);
        let lost = net.lost.iter().map(|(&link, &at)| (LinkId(link), Instant::from_ps(at))).collect();
        outcome.packets = Some(PacketTotals { hops, drops, retransmits: all, requests, lost });
        outcome.traced = net.take_traced();
    }
}
