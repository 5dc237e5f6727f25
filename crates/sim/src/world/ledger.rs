//! The books: flows, the bytes that each link carried, and who is active.
//!
//! A link's bytes are booked when a flow that crosses it changes its path, ends, or a span of the series closes: always as whole
//! bytes that the flow delivered since it was last booked. So the bytes of a link are exactly those of the flows on it, and to the byte
//! the shares of flows that are spread over several paths.

use weft_fabric::record::{ControlRecord, FlowRecord, LinkRecord, Outcome, Sample, Traced};
use weft_fabric::routing::{FlowKey, Path};
use weft_fabric::topology::Fabric;
use weft_fabric::traffic::{FlowSpec, Size};
use weft_fabric::{Bytes, Duration, FlowId, HostId, Instant, LinkId};

use std::collections::BTreeMap;

use crate::world::model::Model;
use crate::world::series::{LinkSeries, Samples};

/// A flow's entry.
#[derive(Clone, Debug)]
pub(crate) struct Flow {
    pub record: FlowRecord,
    size: Size,
    /// The path of its answers, where they travel.
    pub back: Path,
    /// Whether routing or the scheduler gives it a path; the record keeps the last one.
    pub routed: bool,
    /// Whether it has a path that works.
    pub moving: bool,
    /// Whether a scheduler chose the path.
    pub scheduled: bool,
    /// Whether it waits for a lookup.
    pub waits: bool,
    /// How often it has got another hash.
    pub salt: u32,
    /// Where it stands in the list of active flows.
    place: u32,
}

/// All entries of a run.
#[derive(Debug)]
pub(crate) struct Ledger {
    flows: Vec<Flow>,
    /// By flow, where flows have several paths: the share of its bytes that each link carries. Empty where they have one.
    shares: Vec<Box<[(LinkId, f64)]>>,
    active: Vec<FlowId>,
    ended: usize,
    last_end: Instant,
    link_bytes: Vec<u64>,
    /// Whether links' bytes follow from the flows' paths; else the model counts them.
    by_path: bool,
    nics: Nics,
    samples: Samples,
    series: LinkSeries,
}

impl Ledger {
    pub fn new(fabric: &Fabric, by_path: bool) -> Self {
        Self {
            by_path,
            flows: Vec::new(),
            shares: Vec::new(),
            active: Vec::new(),
            ended: 0,
            last_end: Instant::ZERO,
            link_bytes: vec![0; fabric.links().len()],
            nics: Nics::new(fabric),
            samples: Samples::default(),
            series: LinkSeries::new(0, 0, Instant::MAX, Duration::ZERO, Duration::ZERO),
        }
    }

    /// Begins the link series, when the flows that start at 0 are in: their bytes over what the NICs can carry is the least that
    /// the run will take.
    pub fn open_series(&mut self, samples: usize, end: Instant, unit: Duration) {
        let mut seconds = 0.0;
        for flow in &self.flows {
            seconds += match flow.size {
                Size::Finite(bytes) => bytes.0 as f64 * 8.0 / self.nics.bound_bps(),
                Size::Infinite => f64::INFINITY,
            };
        }
        let expected = Duration::from_secs_f64(if seconds.is_nan() { 0.0 } else { seconds });
        self.series = LinkSeries::new(self.link_bytes.len(), samples, end, expected, unit);
    }

    /// Flows under way, in no meaningful order.
    pub fn active(&self) -> &[FlowId] {
        &self.active
    }

    /// How many flows have ended.
    pub fn ended(&self) -> usize {
        self.ended
    }

    /// When the last flow to end so far did.
    pub fn last_end(&self) -> Instant {
        self.last_end
    }

    pub fn flow(&self, id: FlowId) -> &Flow {
        &self.flows[id.index()]
    }

    pub fn flow_mut(&mut self, id: FlowId) -> &mut Flow {
        &mut self.flows[id.index()]
    }

    /// A flow and the shares of its bytes by link, none if it keeps to its path.
    pub fn flow_and_shares(&mut self, id: FlowId) -> (&mut Flow, &[(LinkId, f64)]) {
        (&mut self.flows[id.index()], self.shares.get(id.index()).map_or(&[], |s| s))
    }

    /// The flow spreads its bytes over several paths from now on, by their probabilities.
    pub fn set_shares(&mut self, id: FlowId, paths: &[(Path, f64)]) {
        let mut shares = BTreeMap::new();
        for (path, probability) in paths {
            path.iter().for_each(|&link| *shares.entry(link).or_insert(0.0) += probability);
        }
        if self.shares.len() <= id.index() {
            self.shares.resize(id.index() + 1, Box::default());
        }
        self.shares[id.index()] = shares.into_iter().collect();
    }

    /// How switches see a flow.
    pub fn key(&self, id: FlowId) -> FlowKey {
        let record = &self.flows[id.index()].record;
        FlowKey::of_flow(id.0, record.src, record.dst)
    }

    /// The flow under way that switches see so.
    pub fn find(&self, key: &FlowKey) -> Option<FlowId> {
        let id = FlowId(u32::from(key.sport) << 16 | u32::from(key.dport));
        let flow = self.flows.get(id.index())?;
        (flow.place != GONE && self.key(id) == *key).then_some(id)
    }

    /// Enters a new flow.
    pub fn begin(&mut self, spec: FlowSpec) -> FlowId {
        let id = FlowId::from(self.flows.len());
        let record = FlowRecord {
            id,
            src: spec.src,
            dst: spec.dst,
            start: spec.start,
            end: None,
            bytes: Bytes(0),
            path: Path::new(),
            packets: None,
        };
        let place = self.active.len() as u32;
        self.flows.push(Flow {
            record,
            size: spec.size,
            back: Path::new(),
            routed: false,
            moving: false,
            scheduled: false,
            waits: false,
            salt: 0,
            place,
        });
        self.active.push(id);
        self.nics.begin(spec.src, spec.dst);
        id
    }

    /// Books a flow that has delivered all its bytes.
    pub fn end(&mut self, id: FlowId, at: Instant) -> FlowSpec {
        let Size::Finite(size) = self.flow(id).size else { unreachable!("an infinite flow has ended") };
        self.credit(id, size.0);
        let flow = &mut self.flows[id.index()];
        flow.record.end = Some(at);
        flow.moving = false;
        let spec = FlowSpec { src: flow.record.src, dst: flow.record.dst, start: flow.record.start, size: flow.size };
        self.remove(id);
        self.ended += 1;
        self.last_end = self.last_end.max(at);
        spec
    }

    /// A flow is not under way any more.
    fn remove(&mut self, id: FlowId) {
        let flow = &mut self.flows[id.index()];
        let (src, dst) = (flow.record.src, flow.record.dst);
        let place = std::mem::replace(&mut flow.place, GONE) as usize;
        self.active.swap_remove(place);
        if let Some(&moved) = self.active.get(place) {
            self.flows[moved.index()].place = place as u32;
        }
        self.nics.end(src, dst);
    }

    /// A new flow does not start.
    pub fn refuse(&mut self, id: FlowId) {
        self.remove(id);
    }

    /// Whether a flow is under way.
    pub fn is_active(&self, id: FlowId) -> bool {
        self.flows[id.index()].place != GONE
    }

    /// Books what a flow has delivered in all so far on the links of its path.
    pub fn credit(&mut self, id: FlowId, delivered: u64) {
        let record = &mut self.flows[id.index()].record;
        let more = delivered - record.bytes.0;
        if more > 0 {
            let before = std::mem::replace(&mut record.bytes, Bytes(delivered)).0;
            match self.shares.get(id.index()).map_or(&[][..], |s| s) {
                [] => {
                    for link in record.path.iter().filter(|_| self.by_path) {
                        self.link_bytes[link.index()] += more;
                    }
                }
                shares => {
                    let part = |bytes: u64, share: f64| (bytes as f64 * share) as u64;
                    for &(link, share) in shares {
                        self.link_bytes[link.index()] += part(delivered, share) - part(before, share);
                    }
                }
            }
        }
    }

    pub fn sample(&mut self, at: Instant, delivered: f64) {
        let active = self.active.len() as u32;
        self.samples.push(Sample { at, delivered, active, nic_bound_bps: self.nics.bound_bps() });
    }

    pub fn series_due(&self) -> Option<Instant> {
        self.series.due()
    }

    /// Bytes that each link has carried, those of flows under way included.
    pub fn link_bytes(&mut self, model: &mut impl Model) -> Vec<Bytes> {
        self.count_links(model);
        self.link_bytes.iter().map(|&b| Bytes(b)).collect()
    }

    /// Closes a span of the link series.
    pub fn close_span(&mut self, now: Instant, model: &mut impl Model) {
        self.count_links(model);
        self.series.close(now, &self.link_bytes);
    }

    /// Everything, at the end of the run.
    pub fn finish(mut self, fabric: &Fabric, ended: Instant, model: &mut impl Model, control: ControlRecord) -> Outcome {
        self.credit_all(model);
        self.count_links(model);
        let delivered: u64 = self.flows.iter().map(|f| f.record.bytes.0).sum();
        self.sample(ended, delivered as f64);
        let bytes = self.link_bytes.iter().enumerate();
        let mut outcome = Outcome {
            links: bytes.map(|(i, &b)| LinkRecord { id: LinkId::from(i), bytes: Bytes(b), drops: 0 }).collect(),
            link_series: self.series.finish(fabric, ended, &self.link_bytes),
            samples: self.samples.finish(),
            flows: self.flows.into_iter().map(|f| f.record).collect(),
            ended,
            events: model.work(),
            control,
            packets: None,
            traced: Traced::default(),
            services: Vec::new(),
            overlay: None,
            lab: None,
        };
        model.finish(&mut outcome);
        outcome
    }

    /// Brings the links' bytes up to date.
    pub fn count_links(&mut self, model: &mut impl Model) {
        if self.by_path {
            self.credit_all(model);
        } else {
            model.link_bytes(&mut self.link_bytes);
        }
    }

    fn credit_all(&mut self, model: &mut impl Model) {
        for i in 0..self.active.len() {
            let id = self.active[i];
            self.credit(id, model.delivered(id));
        }
    }
}

/// What the NICs of active senders, and of active receivers, can carry.
#[derive(Debug)]
struct Nics {
    capacity: Vec<u64>,
    sending: Vec<u32>,
    receiving: Vec<u32>,
    send_bps: u64,
    receive_bps: u64,
}

impl Nics {
    fn new(fabric: &Fabric) -> Self {
        let capacity: Vec<u64> = fabric.hosts().map(|h| fabric.nic_capacity(h).0).collect();
        let idle = vec![0; capacity.len()];
        Self { capacity, sending: idle.clone(), receiving: idle, send_bps: 0, receive_bps: 0 }
    }

    fn begin(&mut self, src: HostId, dst: HostId) {
        let (s, d) = (src.index(), dst.index());
        self.sending[s] += 1;
        self.receiving[d] += 1;
        self.send_bps += if self.sending[s] == 1 { self.capacity[s] } else { 0 };
        self.receive_bps += if self.receiving[d] == 1 { self.capacity[d] } else { 0 };
    }

    fn end(&mut self, src: HostId, dst: HostId) {
        let (s, d) = (src.index(), dst.index());
        self.sending[s] -= 1;
        self.receiving[d] -= 1;
        self.send_bps -= if self.sending[s] == 0 { self.capacity[s] } else { 0 };
        self.receive_bps -= if self.receiving[d] == 0 { self.capacity[d] } else { 0 };
    }

    fn bound_bps(&self) -> f64 {
        self.send_bps.min(self.receive_bps) as f64
    }
}

/// The place of a flow that has ended.
const GONE: u32 = u32::MAX;
