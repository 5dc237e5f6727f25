//! What an overlay costs switches, hosts and the directory: the terms in which VL2 and NetLord compare.

use std::collections::BTreeSet;

use weft_fabric::record::Outcome;
use weft_fabric::{Fabric, HostId, NodeId};

use super::Metrics;

/// Bytes on the wire that VL2 puts before a packet: two IPv4 headers (VL2 section 4.2.1).
const VL2_HEADER: f64 = 40.0;
/// Those of NetLord: an Ethernet header with a VLAN tag and an IPv4 header; the inner Ethernet header is the tenant's (NetLord section 3.5).
const NETLORD_HEADER: f64 = 38.0;

/// VL2: switches have one prefix per ToR and one address per group of intermediates, ToRs their hosts; a host looks up every peer, whichever side starts, and
/// caches it.
pub fn measure_vl2(fabric: &Fabric, outcome: &Outcome, ecmp_width: u16, metrics: &mut Metrics) {
    let hosts_at = |node: NodeId| fabric.out(node).iter().filter(|&&l| fabric.as_host(fabric.link(l).to).is_some()).count();
    let attached: Vec<usize> = fabric.switches().map(|s| hosts_at(fabric.switch_node(s))).collect();
    let tors = attached.iter().filter(|&&hosts| hosts > 0).count();
    let top = fabric.top_tier();
    let intermediates = if top <= 1 { 0 } else { fabric.switches_of_tier(top).count() };
    let groups = intermediates.div_ceil(usize::from(ecmp_width.max(1)));
    let entries = |hosts: usize| groups + if hosts > 0 { tors - 1 + hosts } else { tors };
    let pairs: BTreeSet<(HostId, HostId)> = outcome.flows.iter().flat_map(|f| [(f.src, f.dst), (f.dst, f.src)]).collect();
    let mut known = vec![0usize; fabric.hosts().len()];
    pairs.iter().for_each(|(own, _)| known[own.index()] += 1);
    if let Some(overlay) = &outcome.overlay {
        metrics.put("flows_refused", overlay.refused.len() as f64);
    }
    metrics.put("header_bytes", VL2_HEADER);
    metrics.put("switch_entries_max", attached.into_iter().map(entries).max().unwrap_or(0) as f64);
    metrics.put("host_entries_max", known.into_iter().max().unwrap_or(0) as f64);
    metrics.put("lookups", pairs.len() as f64);
}

/// NetLord: switches have learnt what they have seen, one entry per switch and VLAN; every host learns of every VM by NL-ARP, without lookups.
pub fn measure_netlord(fib_most: u64, vms: u64, metrics: &mut Metrics) {
    metrics.put("header_bytes", NETLORD_HEADER);
    metrics.put("switch_entries_max", fib_most as f64);
    metrics.put("host_entries_max", vms as f64);
    metrics.put("lookups", 0.0);
}

/// A lab's bridges, as its daemons count: tables at the end of the run, all else over it.
pub fn measure_bridges(outcome: &Outcome, metrics: &mut Metrics) {
    let Some(bridges) = outcome.lab.as_ref().and_then(|lab| lab.bridges) else { return };
    metrics.put("header_bytes", NETLORD_HEADER);
    metrics.put("switch_entries_max", bridges.fib_most as f64);
    metrics.put("host_entries_max", bridges.known_most as f64);
    metrics.put("lookups", bridges.lookups as f64);
    metrics.put("fib_entries_max", bridges.fib_most as f64);
    metrics.put("fib_evictions", bridges.evictions as f64);
    metrics.put("fib_misses", bridges.misses as f64);
    metrics.put("fib_unlearnt", bridges.unlearnt as f64);
    metrics.put("floods", bridges.for_others as f64 / bridges.hosts.max(1) as f64);
    metrics.put("vms", bridges.vms as f64);
    metrics.put("vlans", bridges.vlans as f64);
    // As in the packet world, what was refused had been begun.
    metrics.put("flows", outcome.flows.len() as f64 + bridges.refused as f64);
    metrics.put("flows_refused", bridges.refused as f64);
}
