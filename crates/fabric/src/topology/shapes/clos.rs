//! VL2's folded Clos (section 4.1, figure 5).
//!
//! ```text
//!   int     0      1      2   ...        D_A/2; every one to every aggregation switch
//!           | \  / | \  / |
//!   agg     0   1     2   3   ...        D_I; D_A/2 ports up, D_A/2 down
//!           | X |     | X |
//!   tor     0 1 ..    k k+1   ...        D_A * D_I / 4; each to the two switches of its pod: D_A/2 ToRs to a pair
//!          /|\
//!   h     0 1 2 ...                      20 to a ToR in the paper
//! ```
//! From explicit counts: if a ToR's uplinks divide the aggregation switches, these form blocks as above, and the ToRs spread over
//! the blocks in order. Else (the testbed: 3 switches, 2 uplinks) ToR t takes the consecutive switches that begin at
//! floor(t * aggregations / tors), around the end: every switch gets the same number of ToRs but for one.
//!
//! A pod is a set of aggregation switches that hang together through common ToRs: a pair in figure 5, everything in the testbed.

use crate::topology::shapes::Cabling;
use crate::topology::shapes::limits::{at_least_one, check_size, refuse};
use crate::topology::{Fabric, FabricBuilder, FabricError};

/// The parameters of the explicit form.
#[derive(Clone, Copy)]
pub(super) struct Counts {
    pub intermediates: u32,
    pub aggregations: u32,
    pub tors: u32,
    pub uplinks_per_tor: u32,
    pub hosts_per_tor: u32,
}

pub(super) fn from_ports(
    agg_ports: u32,
    int_ports: u32,
    hosts_per_tor: u32,
    host_link: Cabling,
    fabric_link: Cabling,
) -> Result<Fabric, FabricError> {
    for (parameter, ports) in [("agg_ports", agg_ports), ("int_ports", int_ports)] {
        if ports == 0 || !ports.is_multiple_of(2) || ports > MAX_PORTS {
            return Err(refuse(
                parameter,
                ports,
                format!("a folded Clos needs an even number of ports per switch: choose one from 2 to {MAX_PORTS}"),
            ));
        }
    }
    let counts = Counts {
        intermediates: agg_ports / 2,
        aggregations: int_ports,
        tors: (agg_ports / 2) * (int_ports / 2),
        uplinks_per_tor: 2,
        hosts_per_tor,
    };
    let title = format!("VL2 Clos, D_A = {agg_ports}, D_I = {int_ports}, {hosts_per_tor} hosts per ToR");
    build(title, counts, host_link, fabric_link)
}

pub(super) fn from_counts(counts: Counts, host_link: Cabling, fabric_link: Cabling) -> Result<Fabric, FabricError> {
    let Counts { intermediates, aggregations, tors, uplinks_per_tor, hosts_per_tor } = counts;
    let title = format!(
        "VL2 Clos, {intermediates} intermediate and {aggregations} aggregation switches, {tors} ToRs with {uplinks_per_tor} uplinks \
         and {hosts_per_tor} hosts each"
    );
    build(title, counts, host_link, fabric_link)
}

fn build(title: String, counts: Counts, host_link: Cabling, fabric_link: Cabling) -> Result<Fabric, FabricError> {
    check(&counts)?;
    let Counts { intermediates, aggregations, tors, uplinks_per_tor, hosts_per_tor } = counts;
    let wiring = Wiring::new(&counts);
    let mut fabric = FabricBuilder::new(title);
    let tor_switches: Vec<_> = (0..tors).map(|t| fabric.switch(format!("tor{t}"), 1, Some(wiring.pod_of_tor(t)))).collect();
    let aggs: Vec<_> = (0..aggregations).map(|a| fabric.switch(format!("agg{a}"), 2, Some(wiring.pod_of_agg(a)))).collect();
    let ints: Vec<_> = (0..intermediates).map(|i| fabric.switch(format!("int{i}"), 3, None)).collect();
    for (t, &tor) in (0u32..).zip(&tor_switches) {
        for i in 0..hosts_per_tor {
            let host = fabric.host(format!("h{}", t * hosts_per_tor + i), Some(wiring.pod_of_tor(t)));
            fabric.cable(host, tor, host_link.rate, host_link.delay);
        }
    }
    for (t, &tor) in (0u32..).zip(&tor_switches) {
        for j in 0..uplinks_per_tor {
            let agg = (wiring.first[t as usize] + j) % aggregations;
            fabric.cable(tor, aggs[agg as usize], fabric_link.rate, fabric_link.delay);
        }
    }
    for &agg in &aggs {
        for &int in &ints {
            fabric.cable(agg, int, fabric_link.rate, fabric_link.delay);
        }
    }
    fabric.build()
}

fn check(counts: &Counts) -> Result<(), FabricError> {
    let Counts { intermediates, aggregations, tors, uplinks_per_tor, hosts_per_tor } = *counts;
    at_least_one("intermediates", intermediates, "intermediate switches")?;
    at_least_one("aggregations", aggregations, "aggregation switches")?;
    at_least_one("tors", tors, "ToRs")?;
    at_least_one("uplinks_per_tor", uplinks_per_tor, "uplinks at a ToR")?;
    at_least_one("hosts_per_tor", hosts_per_tor, "servers at a ToR")?;
    if uplinks_per_tor > aggregations {
        let rule = format!(
            "a ToR has one link to an aggregation switch, and there are {aggregations}: lower it, or raise `aggregations`"
        );
        return Err(refuse("uplinks_per_tor", uplinks_per_tor, rule));
    }
    let [i, a, t, u, h] = [intermediates, aggregations, tors, uplinks_per_tor, hosts_per_tor].map(u64::from);
    if t * u < a {
        let rule = format!("{tors} ToRs with {uplinks_per_tor} uplinks reach only {} of them: lower it, or raise `tors`", t * u);
        return Err(refuse("aggregations", aggregations, rule));
    }
    check_size("tors", tors, t.saturating_mul(h), t + a + i, t.saturating_mul(h + u).saturating_add(a * i))
}

/// Which aggregation switches each ToR attaches to, and the pods that result.
struct Wiring {
    /// By ToR: its first aggregation switch; the others follow it.
    first: Vec<u32>,
    /// By ToR, ascending.
    pods: Vec<u32>,
    /// By aggregation switch.
    agg_pods: Vec<u32>,
}

impl Wiring {
    fn new(counts: &Counts) -> Self {
        let [a, t, u] = [counts.aggregations, counts.tors, counts.uplinks_per_tor].map(u64::from);
        let first: Vec<u32> = if a.is_multiple_of(u) {
            let blocks = a / u;
            (0..t).map(|tor| (tor * blocks / t * u) as u32).collect()
        } else {
            (0..t).map(|tor| (tor * a / t) as u32).collect()
        };
        let mut pods = Vec::with_capacity(first.len());
        let mut agg_pods = vec![0; a as usize];
        // The firsts ascend, so the ToRs of a pod are consecutive: a new pod begins where a ToR shares nothing with the one before.
        // (Around the end a ToR can share with the first ToR only if all of them overlap, and then there is one pod.)
        let mut pod = 0;
        for (tor, &begin) in first.iter().enumerate() {
            if tor > 0 && begin >= first[tor - 1] + counts.uplinks_per_tor {
                pod += 1;
            }
            pods.push(pod);
            for j in 0..counts.uplinks_per_tor {
                agg_pods[((begin + j) % counts.aggregations) as usize] = pod;
            }
        }
        Self { first, pods, agg_pods }
    }

    fn pod_of_tor(&self, tor: u32) -> u32 {
        self.pods[tor as usize]
    }

    fn pod_of_agg(&self, agg: u32) -> u32 {
        self.agg_pods[agg as usize]
    }
}

/// Ports of the largest switch: with it, a fabric of 1,048,576 ToRs would be too large, and is refused for that.
const MAX_PORTS: u32 = 2048;
