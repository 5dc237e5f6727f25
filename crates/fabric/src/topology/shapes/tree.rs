//! The conventional tree (VL2 section 2, figure 1): few large switches at the top, and ever less capacity on the way there.
//!
//! ```text
//!   core          0     1             redundancy switches; each to every aggregation switch
//!                 | \ / |
//!   agg        0     1   2  3         redundancy switches to a pod (left out if tors_per_pod is None)
//!              | \ / |
//!   tor        0     1    ...         each to every aggregation switch of its pod (or to every core)
//!             /|\
//!   h        0 1 2        ...         hosts_per_tor to a ToR
//! ```
//! Capacities follow from the over-subscription, counted from the servers. With r = redundancy and a server's rate R:
//! a ToR's uplink carries hosts_per_tor * R / (tor_oversubscription * r); a link from aggregation switch to core carries
//! tors_per_pod * hosts_per_tor * R / (top_oversubscription * r * r), each to the nearest bit per second.
//!
//! DEVIATION: figure 1 has a fourth tier, access routers between aggregation and core. Here they are one with the cores: the
//! over-subscription at the top is the same, and paths of two switches less say nothing else of capacity.

use crate::topology::shapes::Cabling;
use crate::topology::shapes::limits::{at_least_one, check_size, refuse};
use crate::topology::{Fabric, FabricBuilder, FabricError};
use crate::units::BitsPerSec;

#[derive(Clone, Copy)]
pub(super) struct Counts {
    pub tors: u32,
    pub hosts_per_tor: u32,
    pub tors_per_pod: Option<u32>,
    pub redundancy: u32,
}

#[derive(Clone, Copy)]
pub(super) struct Ratios {
    pub tor: f64,
    pub top: f64,
}

pub(super) fn build(counts: Counts, ratios: Ratios, host_link: Cabling, fabric_link: Cabling) -> Result<Fabric, FabricError> {
    check(&counts, &ratios)?;
    let width = f64::from(counts.redundancy);
    let rack = f64::from(counts.hosts_per_tor) * host_link.rate.as_f64();
    let tor_rate = rate("tor_oversubscription", ratios.tor, rack / (ratios.tor * width))?;
    match counts.tors_per_pod {
        None => two_tiers(counts, ratios, host_link, Cabling { rate: tor_rate, ..fabric_link }),
        Some(per_pod) => {
            let pod = rack * f64::from(per_pod);
            let top_rate = rate("top_oversubscription", ratios.top, pod / (ratios.top * width * width))?;
            let links = [host_link, Cabling { rate: tor_rate, ..fabric_link }, Cabling { rate: top_rate, ..fabric_link }];
            three_tiers(counts, per_pod, ratios, links)
        }
    }
}

fn two_tiers(counts: Counts, ratios: Ratios, host_link: Cabling, uplink: Cabling) -> Result<Fabric, FabricError> {
    let Counts { tors, hosts_per_tor, redundancy, .. } = counts;
    let mut fabric = FabricBuilder::new(format!("tree, {tors} ToRs of {hosts_per_tor} hosts, 1:{} over-subscribed", ratios.tor));
    let tor_switches: Vec<_> = (0..tors).map(|t| fabric.switch(format!("tor{t}"), 1, Some(t))).collect();
    let cores: Vec<_> = (0..redundancy).map(|c| fabric.switch(format!("core{c}"), 2, None)).collect();
    for (t, &tor) in (0u32..).zip(&tor_switches) {
        for i in 0..hosts_per_tor {
            let host = fabric.host(format!("h{}", t * hosts_per_tor + i), Some(t));
            fabric.cable(host, tor, host_link.rate, host_link.delay);
        }
    }
    for &tor in &tor_switches {
        for &core in &cores {
            fabric.cable(tor, core, uplink.rate, uplink.delay);
        }
    }
    fabric.build()
}

fn three_tiers(counts: Counts, per_pod: u32, ratios: Ratios, links: [Cabling; 3]) -> Result<Fabric, FabricError> {
    let Counts { tors, hosts_per_tor, redundancy, .. } = counts;
    let [host_link, tor_link, top_link] = links;
    let mut fabric = FabricBuilder::new(format!(
        "tree, {tors} ToRs of {hosts_per_tor} hosts, {per_pod} to a pod, 1:{} over-subscribed at the ToR, 1:{} at the top",
        ratios.tor, ratios.top
    ));
    let tor_switches: Vec<_> = (0..tors).map(|t| fabric.switch(format!("tor{t}"), 1, Some(t / per_pod))).collect();
    let aggs: Vec<_> =
        (0..tors / per_pod * redundancy).map(|a| fabric.switch(format!("agg{a}"), 2, Some(a / redundancy))).collect();
    let cores: Vec<_> = (0..redundancy).map(|c| fabric.switch(format!("core{c}"), 3, None)).collect();
    for (t, &tor) in (0u32..).zip(&tor_switches) {
        for i in 0..hosts_per_tor {
            let host = fabric.host(format!("h{}", t * hosts_per_tor + i), Some(t / per_pod));
            fabric.cable(host, tor, host_link.rate, host_link.delay);
        }
    }
    for (t, &tor) in tor_switches.iter().enumerate() {
        let first = t / per_pod as usize * redundancy as usize;
        for &agg in &aggs[first..first + redundancy as usize] {
            fabric.cable(tor, agg, tor_link.rate, tor_link.delay);
        }
    }
    for &agg in &aggs {
        for &core in &cores {
            fabric.cable(agg, core, top_link.rate, top_link.delay);
        }
    }
    fabric.build()
}

fn check(counts: &Counts, ratios: &Ratios) -> Result<(), FabricError> {
    let Counts { tors, hosts_per_tor, tors_per_pod, redundancy } = *counts;
    at_least_one("tors", tors, "ToRs")?;
    at_least_one("hosts_per_tor", hosts_per_tor, "servers at a ToR")?;
    if !(1..=8).contains(&redundancy) {
        return Err(refuse("redundancy", redundancy, "1 for a single root, 2 for pairs, at most 8"));
    }
    if let Some(per_pod) = tors_per_pod {
        at_least_one("tors_per_pod", per_pod, "ToRs in a pod")?;
        if !tors.is_multiple_of(per_pod) {
            return Err(refuse(
                "tors_per_pod",
                per_pod,
                format!("the {tors} ToRs must make whole pods: choose a divisor of {tors}"),
            ));
        }
    }
    for (parameter, ratio, least) in
        [("tor_oversubscription", ratios.tor, 0.01), ("top_oversubscription", ratios.top, ratios.tor)]
    {
        let applies = parameter == "tor_oversubscription" || tors_per_pod.is_some();
        if applies && !(ratio.is_finite() && ratio >= least && ratio <= 1e6) {
            let rule = format!("a ratio counted from the servers, such as 5 for 1:5: choose one from {least} to 1000000");
            return Err(refuse(parameter, ratio, rule));
        }
    }
    let [t, h, r] = [tors, hosts_per_tor, redundancy].map(u64::from);
    let aggs = tors_per_pod.map_or(0, |p| t / u64::from(p) * r);
    check_size("tors", tors, t * h, t + aggs + r, t.saturating_mul(h + r).saturating_add(aggs * r))
}

/// The capacity of an uplink, to the nearest bit per second.
fn rate(parameter: &'static str, ratio: f64, bps: f64) -> Result<BitsPerSec, FabricError> {
    if (1.0..=BitsPerSec::MAX_READ.as_f64()).contains(&bps) {
        Ok(BitsPerSec(libm::round(bps) as u64))
    } else {
        Err(refuse(
            parameter,
            ratio,
            format!("an uplink would carry {bps} bps: choose a ratio and a `host_link` that give 1 bps to 1000Tbps"),
        ))
    }
}
