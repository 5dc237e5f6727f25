//! Whether a fabric is one that htsim's `.topo` can describe, and that description.
//!
//! It must be a leaf-spine, or a fat-tree in which the pods reach the cores in the same groups. Which cores form a group may differ
//! from htsim's numbering: the fabrics are then the same but for the names of the cores.

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::formats::topology::htsim::{Tier, Topo};
use crate::formats::topology::{ExportError, one_line};
use crate::ids::{LinkId, NodeId};
use crate::topology::Fabric;

pub(super) fn write(fabric: &Fabric) -> Result<String, ExportError> {
    let topo = describe(fabric).map_err(|reason| ExportError {
        format: "htsim's .topo",
        reason,
        help: "it describes fat-trees and leaf-spines with one speed a tier; export a list of links instead (hpcc, or a weft-fabric file)",
    })?;
    let mut text =
        format!("# {}\nNodes {}\nTiers {}\nPodsize {}\n", one_line(fabric.title()), topo.hosts, topo.tiers.len(), topo.pod_size);
    for (t, tier) in topo.tiers.iter().enumerate() {
        write!(text, "\nTier {t}\nDownlink_speed_Gbps {}\nRadix_Down {}\n", tier.speed_gbps, tier.radix_down)
            .expect("writing to a string");
        if t + 1 < topo.tiers.len() {
            write!(text, "Radix_Up {}\nOversubscribed {}\n", tier.radix_up, tier.oversubscribed).expect("writing to a string");
        }
        if t > 0 {
            writeln!(text, "Bundle {}", tier.bundle).expect("writing to a string");
        }
        writeln!(text, "Downlink_Latency_ns {}", tier.latency_ns).expect("writing to a string");
    }
    Ok(text)
}

/// The parameters, or what stands against them.
fn describe(fabric: &Fabric) -> Result<Topo, String> {
    let top = fabric.top_tier();
    if !(2..=3).contains(&top) {
        return Err(format!("it has {top} tiers of switches, not 2 or 3"));
    }
    let mut tiers = vec![Tier { oversubscribed: 1, bundle: 1, ..Tier::default() }; top as usize];
    cables(fabric, &mut tiers)?;
    let hosts_per_tor = fabric.racks()[0].hosts.len();
    for (i, host) in fabric.hosts().enumerate() {
        if fabric.out(host.node()).len() != 1 || fabric.rack_of(host).index() != i / hosts_per_tor {
            return Err(format!("the hosts do not attach to the switches in order, {hosts_per_tor} by one cable to each"));
        }
    }
    if fabric.host_count() != fabric.racks().len() * hosts_per_tor || fabric.switches_of_tier(1).count() != fabric.racks().len() {
        return Err("the edge switches have different numbers of hosts".to_owned());
    }
    let ups: Vec<Vec<NodeId>> =
        fabric.racks().iter().map(|r| up(fabric, fabric.switch_node(r.switches[0]), &mut tiers, 1)).collect::<Result<_, _>>()?;
    let tors_per_pod = ups.iter().take_while(|&u| *u == ups[0]).count();
    let pods: Vec<&Vec<NodeId>> = ups.iter().step_by(tors_per_pod).collect();
    let mut all: Vec<NodeId> = pods.iter().flat_map(|p| p.iter().copied()).collect();
    all.sort_unstable();
    let blocks = ups.chunks(tors_per_pod).all(|pod| pod.len() == tors_per_pod && pod.iter().all(|u| *u == pod[0]));
    if !blocks || all.windows(2).any(|w| w[0] == w[1]) || all.len() != fabric.switches_of_tier(2).count() {
        return Err("the edge switches are not linked to all aggregation switches of their pod, and to no others".to_owned());
    }
    let mut topo = Topo { hosts: fabric.host_count() as u32, pod_size: (tors_per_pod * hosts_per_tor) as u32, tiers };
    topo.tiers[0].radix_down = hosts_per_tor as u32;
    topo.tiers[1].radix_down = tors_per_pod as u32 * topo.tiers[1].bundle;
    if top == 3 {
        cores(fabric, &pods, &mut topo.tiers)?;
        topo.tiers[2].radix_down = pods.len() as u32 * topo.tiers[2].bundle;
    }
    for t in 0..topo.tiers.len() - 1 {
        let down = u64::from(topo.tiers[t].radix_down) * u64::from(topo.tiers[t].speed_gbps);
        let up = u64::from(topo.tiers[t].radix_up) * u64::from(topo.tiers[t + 1].speed_gbps);
        topo.tiers[t].oversubscribed = (down / up.max(1)) as u32;
    }
    topo.check().map_err(|(_, message, _)| message)?;
    Ok(topo)
}

/// Speed and latency of each tier's cables down: the same for all, whole Gbps, whole nanoseconds.
fn cables(fabric: &Fabric, tiers: &mut [Tier]) -> Result<(), String> {
    for (i, link) in fabric.links().iter().enumerate().step_by(2) {
        let [a, b] = [link.from, link.to].map(|n| fabric.node(n).tier);
        let name = || fabric.link_name(LinkId::from(i));
        if a.abs_diff(b) != 1 {
            return Err(format!("the cable `{}` does not join neighbouring tiers", name()));
        }
        let whole = |value: u64, unit: u64| u32::try_from(value / unit).ok().filter(|&w| w > 0 && value.is_multiple_of(unit));
        let speed = whole(link.capacity.0, 1_000_000_000)
            .ok_or_else(|| format!("`{}` carries {}, no whole Gbps", name(), link.capacity))?;
        let latency = whole(link.delay.as_ps(), 1_000)
            .ok_or_else(|| format!("`{}` has a delay of {}, no whole ns above 0", name(), link.delay))?;
        let tier = &mut tiers[a.min(b) as usize];
        if tier.speed_gbps == 0 {
            (tier.speed_gbps, tier.latency_ns) = (speed, latency);
        } else if (tier.speed_gbps, tier.latency_ns) != (speed, latency) {
            return Err(format!("`{}` differs from other cables between the same tiers", name()));
        }
    }
    Ok(())
}

/// The switches above one of tier `t`, ascending; sets `radix_up` and the bundle, which must be the same for all.
fn up(fabric: &Fabric, switch: NodeId, tiers: &mut [Tier], t: usize) -> Result<Vec<NodeId>, String> {
    let mut cables: BTreeMap<NodeId, u32> = BTreeMap::new();
    for to in fabric.out(switch).iter().map(|&l| fabric.link(l).to).filter(|&n| usize::from(fabric.node(n).tier) == t + 1) {
        *cables.entry(to).or_default() += 1;
    }
    let total: u32 = cables.values().sum();
    let bundle = *cables.values().next().ok_or_else(|| format!("`{}` has no cables up", fabric.node(switch).name))?;
    let first = tiers[t - 1].radix_up == 0;
    if first {
        (tiers[t - 1].radix_up, tiers[t].bundle) = (total, bundle);
    }
    if cables.values().any(|&n| n != tiers[t].bundle) || tiers[t - 1].radix_up != total {
        return Err(format!("`{}` has other cables up than the switches beside it", fabric.node(switch).name));
    }
    Ok(cables.into_keys().collect())
}

/// Every pod's aggregation switches must part the cores into the same groups.
fn cores(fabric: &Fabric, pods: &[&Vec<NodeId>], tiers: &mut [Tier]) -> Result<(), String> {
    let mut groups: Option<Vec<Vec<NodeId>>> = None;
    for pod in pods {
        let mut of_pod: Vec<Vec<NodeId>> = pod.iter().map(|&agg| up(fabric, agg, tiers, 2)).collect::<Result<_, _>>()?;
        of_pod.sort_unstable();
        match &groups {
            None => {
                let mut all: Vec<NodeId> = of_pod.iter().flatten().copied().collect();
                all.sort_unstable();
                if all.windows(2).any(|w| w[0] == w[1]) || all.len() != fabric.switches_of_tier(3).count() {
                    return Err("a core is not linked to exactly one aggregation switch of each pod".to_owned());
                }
                groups = Some(of_pod);
            }
            Some(groups) if *groups != of_pod => return Err("the pods reach the cores in different groups".to_owned()),
            Some(_) => {}
        }
    }
    Ok(())
}
