//! From measurements to the records that every world returns.

use std::sync::atomic::AtomicBool;
use std::time::Duration as StdDuration;

use weft_fabric::record::{
    BridgeTotals, FaultRecord, FlowRecord, LabRecord, LinkRecord, LinkSample, Outcome, PacketRecord, PacketTotals, Sample,
    TcpRecord,
};
use weft_fabric::routing::Path;
use weft_fabric::{Bytes, Duration, Fabric, FlowId, HostId, Instant, LinkId};

use super::monitor::{Measurements, Reading};
use crate::error::Result;
use crate::events::Event;
use crate::overlay;
use crate::paths::Paths;
use crate::plan::{End, Overlay, Plan};
use crate::traffic::{Delivered, Flow, State, TrafficOutcome};

/// Assembles the outcome; queries the kernels of the lab, which is still up, for the flows' paths.
pub(super) fn outcome(
    plan: &Plan,
    fabric: &Fabric,
    traffic: TrafficOutcome,
    measured: Measurements,
    events: &[Event],
    (idle, own): (Option<f64>, StdDuration),
    stop: &AtomicBool,
) -> Result<Outcome> {
    let TrafficOutcome { flows, samples, windows, ended, services, refused, probes } = traffic;
    let broken = flows.iter().filter(|f| f.state == State::Broken).count();
    if broken > 0 {
        tracing::warn!("{broken} of {} flows lost their connection: they are in the results as unfinished", flows.len());
    }
    let ends = plan.ends();
    // Switches have no routes to an overlay's addresses, and those of OpenFlow have none at all.
    let mut paths = if plan.overlay.is_none() && plan.openflow.is_none() { Some(Paths::open(plan, fabric, stop)?) } else { None };
    let mut records = Vec::with_capacity(flows.len());
    for (i, flow) in flows.iter().enumerate() {
        // Routes may have changed since a flow ended: only paths of open flows are known.
        let is_current = events.iter().all(|e| e.at >= ended) || flow.state == State::Open;
        let path = match &mut paths {
            Some(paths) if is_current => paths.of(&flow.connection())?.unwrap_or_default(),
            _ => Path::new(),
        };
        records.push(flow_record(&ends, FlowId::from(i), flow, path));
    }
    let [first, .., last] = &measured.readings[..] else { unreachable!("there are readings at the start and at the end") };
    let delta = |of: fn(&crate::counters::LinkCounters) -> u64| {
        first.links.iter().zip(&last.links).map(move |(a, b)| of(b).saturating_sub(of(a)))
    };
    let drops: Vec<u64> = delta(|c| c.drops).collect();
    let links = delta(|c| c.bytes).zip(&drops).enumerate();
    Ok(Outcome {
        links: links.map(|(i, (bytes, &drops))| LinkRecord { id: LinkId::from(i), bytes: Bytes(bytes), drops }).collect(),
        link_series: series(fabric, &measured.readings, ended),
        samples: with_bounds(fabric, &ends, &flows, &samples),
        packets: Some(PacketTotals {
            hops: delta(|c| c.packets).sum(),
            drops: drops.iter().sum(),
            retransmits: flows.iter().map(|f| u64::from(f.tcp.retransmits)).sum(),
            lost: measured.lost,
            ..PacketTotals::default()
        }),
        lab: Some(LabRecord {
            scale: plan.scale,
            cpu_idle_fraction: idle,
            longest_wait: measured.longest_wait,
            cpu_s: own.as_secs_f64(),
            tcp: flows.iter().map(tcp_record).collect(),
            faults: faults(plan, fabric, events, &ends, &flows, &probes, ended),
            broken,
            isolation_drops: (!matches!(plan.overlay, Overlay::None | Overlay::Access(_)))
                .then(|| overlay::isolation_drops(plan)),
            forged: measured.forged,
            bridges: measured.bridges.map(|totals| BridgeTotals { refused: refused as u64, ..totals }),
        }),
        control: measured.control,
        traced: weft_fabric::record::Traced { windows, ..Default::default() },
        flows: records,
        ended,
        services,
        ..Outcome::default()
    })
}

/// The outages that flows had after each event before the end.
fn faults(
    plan: &Plan,
    fabric: &Fabric,
    events: &[Event],
    ends: &[End],
    flows: &[Flow],
    probes: &[Flow],
    ended: Instant,
) -> Vec<FaultRecord> {
    let of = |(i, event): (usize, &Event)| {
        let nodes = event.change.nodes(plan, fabric);
        let touched = |flow: &&Flow| {
            let ends = || [flow.spec.src, flow.spec.dst].map(|end| &ends[end.index()]);
            nodes.as_ref().is_none_or(|nodes| ends().iter().any(|end| nodes.contains(&end.node) || nodes.contains(&end.host)))
        };
        let outages = |flows: &[Flow]| {
            let outages = flows.iter().filter(touched).filter_map(|flow| flow.outages.get(i).copied());
            outages.filter(|outage| *outage > Duration::ZERO).collect::<Vec<_>>()
        };
        let (of_flows, of_probes) = (outages(flows), outages(probes));
        let (verb, object) = event.change.text(plan, fabric);
        FaultRecord {
            at: event.at,
            verb,
            object,
            flows: of_flows.len(),
            silent: of_flows.into_iter().max(),
            gap: of_probes.into_iter().max(),
        }
    };
    events.iter().enumerate().filter(|(_, event)| event.at < ended).map(of).collect()
}

fn flow_record(ends: &[End], id: FlowId, flow: &Flow, path: Path) -> FlowRecord {
    FlowRecord {
        id,
        src: host_of(ends, flow.spec.src),
        dst: host_of(ends, flow.spec.dst),
        start: flow.spec.start,
        end: flow.end(),
        bytes: Bytes(flow.received),
        path,
        packets: Some(PacketRecord { retransmits: flow.tcp.retransmits, reordered: flow.tcp.reorderings }),
    }
}

/// The host of an end: where a VM was at the start.
fn host_of(ends: &[End], end: HostId) -> HostId {
    HostId::from(ends[end.index()].host)
}

fn tcp_record(flow: &Flow) -> TcpRecord {
    let us = |us: u32| f64::from(us) * 1e-6;
    TcpRecord { cwnd_segments: flow.tcp.cwnd_segments, srtt_s: us(flow.tcp.srtt_us), min_rtt_s: us(flow.tcp.min_rtt_us) }
}

/// Mean utilisation between readings.
fn series(fabric: &Fabric, readings: &[Reading], ended: Instant) -> Vec<LinkSample> {
    let mut series = Vec::new();
    for pair in readings.windows(2) {
        let (a, b) = (&pair[0], &pair[1]);
        let seconds = (b.at - a.at).as_secs_f64();
        for (i, (before, after)) in a.links.iter().zip(&b.links).enumerate() {
            let link = LinkId::from(i);
            let bytes = after.bytes.saturating_sub(before.bytes);
            if bytes > 0 && seconds > 0.0 {
                let utilisation = bytes as f64 * 8.0 / (fabric.link(link).capacity.as_f64() * seconds);
                series.push(LinkSample { at: b.at.min(ended), link, utilisation });
            }
        }
    }
    series
}

/// Adds to each sample the NIC-limited bound of the active flows.
fn with_bounds(fabric: &Fabric, ends: &[End], flows: &[Flow], delivered: &[Delivered]) -> Vec<Sample> {
    let mut changes: Vec<(Instant, bool, HostId, HostId)> = Vec::new();
    for flow in flows {
        let [src, dst] = [flow.spec.src, flow.spec.dst].map(|end| host_of(ends, end));
        changes.push((flow.spec.start, true, src, dst));
        changes.extend(flow.end().map(|end| (end, false, src, dst)));
    }
    changes.sort_unstable();
    let mut changes = changes.into_iter().peekable();
    let mut nics = Nics { fabric, flows: [vec![0; fabric.host_count()], vec![0; fabric.host_count()]], bps: [0, 0] };
    let mut samples = Vec::with_capacity(delivered.len());
    for (i, d) in delivered.iter().enumerate() {
        // Flows that begin within the interval belong to it: at the first sample no flow has begun.
        let until = delivered.get(i + 1).map_or(d.at, |next| next.at);
        while let Some((_, begins, src, dst)) = changes.next_if(|c| c.0 < until) {
            nics.count(src, dst, begins);
        }
        let bound = nics.bps[0].min(nics.bps[1]) as f64;
        samples.push(Sample { at: d.at, delivered: d.bytes as f64, active: d.active, nic_bound_bps: bound });
    }
    samples
}

/// The capacities of the NICs of active senders, and of active receivers.
struct Nics<'a> {
    fabric: &'a Fabric,
    flows: [Vec<u32>; 2],
    bps: [u64; 2],
}

impl Nics<'_> {
    fn count(&mut self, src: HostId, dst: HostId, begins: bool) {
        for (side, host) in [src, dst].into_iter().enumerate() {
            let capacity = self.fabric.nic_capacity(host).0;
            let flows = &mut self.flows[side][host.index()];
            if begins {
                *flows += 1;
                self.bps[side] += if *flows == 1 { capacity } else { 0 };
            } else {
                *flows -= 1;
                self.bps[side] -= if *flows == 0 { capacity } else { 0 };
            }
        }
    }
}
