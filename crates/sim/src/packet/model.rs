//! The engine as a model of the event loop: flows by id, links by id, instants.

use weft_fabric::record::{Outcome, PacketRecord, PacketTotals};
use weft_fabric::routing::Spread;
use weft_fabric::traffic::{FlowSpec, Size};
use weft_fabric::{BitsPerSec, Duration, Fabric, FlowId, Instant, LinkId};

use std::collections::BTreeMap;
use std::sync::Arc;

use super::net::{Ended, NO_LINK, Net};
use super::team::Team;
use crate::world::{self, Look, Model};

/// Carries flows as packets.
pub(super) struct PacketModel {
    fabric: Arc<Fabric>,
    engine: Engine,
    subflows: u32,
    /// Bytes that the engine counts in.
    unit: u64,
    /// Source, destination and bytes of each flow; `u64::MAX` bytes if it never ends.
    flows: Vec<Flow>,
    /// Flows whose connection opens when this instant's changes are in.
    opening: Vec<u32>,
    /// Flows under way that end some time.
    ending: usize,
    /// What flows lack of a whole number of segments, over all that have ended.
    short: u64,
    ended: Vec<Ended>,
    /// Flows that have lost a full window.
    congested: Vec<FlowId>,
    /// How long a flow must have been silent before it takes the next path that it is given.
    gap: (Option<FlowId>, Duration),
}

#[derive(Clone, Copy, Debug)]
struct Flow {
    src: u32,
    dst: u32,
    bytes: u64,
}

/// One engine that stops as a flow ends, or several in step that stop soon after.
pub(super) enum Engine {
    /// For workloads and controllers that react to a flow's end.
    One(Box<Net>),
    /// The parts' engines, and the part of each node.
    Team(Team, Vec<u8>),
}

impl Engine {
    /// Does the same in every part.
    fn each(&mut self, mut act: impl FnMut(&mut Net)) {
        match self {
            Self::One(net) => act(net),
            Self::Team(team, _) => team.each().for_each(|mut net| act(&mut net)),
        }
    }

    /// Looks into the part of a host.
    fn at<R>(&mut self, host: u32, act: impl FnOnce(&mut Net) -> R) -> R {
        match self {
            Self::One(net) => act(net),
            Self::Team(team, part) => act(&mut team.part(part[host as usize] as usize)),
        }
    }

    /// A sum over the parts.
    fn sum(&self, of: impl Fn(&Net) -> u64) -> u64 {
        match self {
            Self::One(net) => of(net),
            Self::Team(team, _) => team.each().map(|net| of(&net)).sum(),
        }
    }
}

impl PacketModel {
    pub fn new(fabric: Arc<Fabric>, mut engine: Engine) -> Self {
        let (mut subflows, mut unit) = (1, 1);
        engine.each(|net| (subflows, unit) = (net.subflows, net.unit()));
        Self {
            fabric,
            engine,
            subflows,
            unit,
            flows: Vec::new(),
            opening: Vec::new(),
            ending: 0,
            short: 0,
            ended: Vec::new(),
            congested: Vec::new(),
            gap: (None, Duration::ZERO),
        }
    }

    fn enter(&mut self, flow: Flow) {
        let bytes = Some(flow.bytes).filter(|&b| b != u64::MAX);
        self.engine.each(|net| net.add([flow.src, flow.dst], bytes));
        self.flows.push(flow);
    }
}

impl Model for PacketModel {
    const ANSWERS: bool = true;
    const BLIND: bool = true;
    const COUNTS_LINKS: bool = true;

    fn subflows(&self) -> u32 {
        self.subflows
    }

    fn start(&mut self, id: FlowId, spec: &FlowSpec) {
        while self.flows.len() < id.index() {
            // An empty flow has ended as it began, and has a number.
            self.enter(Flow { src: 0, dst: 0, bytes: 0 });
        }
        let bytes = match spec.size {
            Size::Finite(bytes) => bytes.0,
            Size::Infinite => u64::MAX,
        };
        self.enter(Flow { src: spec.src.0, dst: spec.dst.0, bytes });
        self.ending += usize::from(bytes != u64::MAX);
    }

    fn open(&mut self, id: FlowId) {
        self.opening.push(id.0);
    }

    fn take_congested(&mut self) -> Vec<FlowId> {
        std::mem::take(&mut self.congested)
    }

    fn set_path(&mut self, id: FlowId, subflow: u32, path: &[LinkId]) {
        let end = id.0 * self.subflows + subflow;
        let (waiting, gap) = std::mem::take(&mut self.gap);
        let waits = waiting == Some(id) && gap > Duration::ZERO;
        self.engine.each(|net| {
            let route = net.paths.intern(&self.fabric, path);
            if waits { net.move_at_gap(end, route, gap.as_ps()) } else { net.move_now(end, route) }
        });
    }

    fn wait_for_gap(&mut self, id: FlowId, gap: Duration) {
        self.gap = (Some(id), gap);
    }

    fn set_path_back(&mut self, id: FlowId, subflow: u32, path: &[LinkId]) {
        let end = id.0 * self.subflows + subflow;
        self.engine.each(|net| {
            let route = net.paths.intern(&self.fabric, path);
            net.move_back(end, route);
        });
    }

    fn spread(&mut self, id: FlowId, back: bool, spread: &Spread) {
        self.engine.each(|net| net.spread(&self.fabric, id.0, back, spread));
    }

    fn set_limit(&mut self, links: &[LinkId], rate: BitsPerSec) {
        self.engine.each(|net| {
            let number = net.paths.limits.number(links);
            net.shapers.set(number, rate);
        });
    }

    fn set_link(&mut self, link: LinkId, up: bool) {
        self.engine.each(|net| net.set_up(link.0, up));
    }

    fn link_bytes(&mut self, bytes: &mut [u64]) {
        // Without what still waits. A packet that its host has not handed over counts as more than its bytes: never less than before.
        // A port belongs to one part, in the others it has carried nothing.
        self.engine.each(|net| {
            for (link, bytes) in (0..).zip(&mut *bytes) {
                let left = net.ports.bytes(link).saturating_sub(net.ports.backlog(link, net.now));
                *bytes = left.max(*bytes);
            }
        });
    }

    fn settle(&mut self) {
        for flow in std::mem::take(&mut self.opening) {
            self.engine.at(self.flows[flow as usize].src, |net| net.open(flow));
        }
    }

    fn advance(&mut self, until: Instant, ended: &mut Vec<world::Ended>, look: Look<'_>) -> Instant {
        let look = &mut |now, events| look(Instant::from_ps(now), events);
        let now = match &mut self.engine {
            Engine::One(net) => net.run(until.as_ps(), &mut self.ended, look),
            Engine::Team(team, _) => team.run(until.as_ps(), &mut self.ended, look),
        };
        for Ended { at, link, flow } in self.ended.drain(..) {
            if link == NO_LINK {
                self.congested.push(FlowId(flow));
                continue;
            }
            let bytes = self.flows[flow as usize].bytes;
            self.short += bytes.next_multiple_of(self.unit) - bytes;
            self.ending -= 1;
            ended.push(world::Ended { id: FlowId(flow), at: Instant::from_ps(at) });
        }
        Instant::from_ps(now)
    }

    fn will_end(&self) -> bool {
        self.ending > 0 && self.engine.sum(|net| u64::from(net.is_busy())) > 0
    }

    fn delivered(&mut self, id: FlowId) -> u64 {
        let Flow { dst, bytes, .. } = self.flows[id.index()];
        (self.engine.at(dst, |net| net.delivered(id.0)) * self.unit).min(bytes)
    }

    fn delivered_total(&self) -> f64 {
        (self.engine.sum(|net| net.totals.delivered) * self.unit - self.short) as f64
    }

    fn work(&self) -> u64 {
        self.engine.sum(|net| net.totals.events)
    }

    fn finish(&mut self, outcome: &mut Outcome) {
        let subflows = self.subflows;
        let mut totals = PacketTotals::default();
        let (mut timed_out, mut lost) = (0u64, BTreeMap::new());
        let at_end = outcome.ended.as_ps();
        self.engine.each(|net| {
            for link in &mut outcome.links {
                link.drops += u64::from(net.ports.drops(link.id.0));
            }
            for flow in &mut outcome.flows {
                let ends = (flow.id.0 * subflows) as usize..((flow.id.0 + 1) * subflows) as usize;
                let record = flow.packets.get_or_insert(PacketRecord::default());
                // Empty flows after all others have no ends, and the ends that are not in this part have done nothing.
                let (Some(tx), Some(rx)) = (net.tx.get(ends.clone()), net.rx.get(ends)) else { continue };
                record.retransmits += tx.iter().map(|t| t.tcp.repeats).sum::<u32>();
                record.reordered += rx.iter().map(|r| r.tcp.reordered).sum::<u32>();
                if flow.end.is_none() {
                    timed_out = tx.iter().fold(timed_out, |sum, t| sum.saturating_add(t.tcp.overdue(at_end)));
                }
            }
            totals.hops += net.totals.hops;
            totals.drops += net.totals.drops;
            totals.segments += net.totals.delivered;
            totals.timeouts += net.totals.timeouts;
            timed_out = timed_out.saturating_add(net.totals.timed_out);
            totals.requests = totals.requests.or(net.load.as_ref().map(|l| l.totals(outcome.ended)));
            outcome.traced = net.take_traced();
            for (&link, &(at, packets)) in &net.lost {
                // Both ends of a link may stand in parts of their own: the later loss counts, and the packets of both.
                let (last, all) = lost.entry(LinkId(link)).or_insert((Instant::ZERO, 0u64));
                *last = (*last).max(Instant::from_ps(at));
                *all += packets;
            }
        });
        // Subflows wait side by side.
        totals.timed_out = Duration::from_ps(timed_out / u64::from(subflows));
        totals.lost_packets = lost.values().map(|&(_, packets)| packets).collect();
        totals.lost = lost.into_iter().map(|(link, (last, _))| (link, last)).collect();
        for record in outcome.flows.iter().filter_map(|f| f.packets) {
            totals.retransmits += u64::from(record.retransmits);
            totals.reordered += u64::from(record.reordered);
        }
        outcome.packets = Some(totals);
    }
}
