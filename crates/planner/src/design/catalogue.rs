//! Fabrics to consider: each kind, in the sizes that the switches of a list allow. They are `[fabric]` tables, so that what is compared is what runs.
//!
//! | kind | varied |
//! | --- | --- |
//! | `switch`, `fat-tree`, `clique` | the smallest that is large enough |
//! | `fat-tree` of two levels, `clos` | edge switch, rate of uplinks, over-subscription of the edge; of the Clos also radix and over-subscription of aggregation switches |
//! | `tree` | pairs of switches; over-subscription of ToR and top; rates of links follow |
//! | `subways` | types 1 and 2 with two ports per server, over-subscription of ToR and aggregation |

use std::collections::BTreeSet;

use weft_fabric::BitsPerSec;

use crate::cost::{PriceList, Switch};

/// What is asked for.
#[derive(Clone, Copy, Debug)]
pub struct Ask {
    /// Servers; a fabric may have more.
    pub servers: u32,
    /// What a server sends and receives.
    pub speed: BitsPerSec,
}

/// An edge switch: servers, uplinks, their rate.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Edge {
    servers: u32,
    uplinks: u32,
    rate: BitsPerSec,
}

/// `[fabric]` tables as text, each once. Some may not be possible, or have a switch that is not sold.
pub fn candidates(ask: Ask, prices: &PriceList) -> Vec<String> {
    let mut all = BTreeSet::new();
    regular(ask, &mut all);
    for edge in edges(ask, prices) {
        two_level(ask, edge, &mut all);
        clos(ask, edge, prices, &mut all);
    }
    tree(ask, &mut all);
    subways(ask, &mut all);
    all.into_iter().collect()
}

fn links(ask: Ask, fabric: BitsPerSec) -> String {
    format!("host_link = \"{}\"\nfabric_link = \"{}\"\n", exact(ask.speed), exact(fabric))
}

/// A rate as scenarios read it, without rounding.
fn exact(rate: BitsPerSec) -> String {
    let text = rate.to_string();
    if text.parse() == Ok(rate) { text } else { format!("{}bps", rate.0) }
}

/// Those with one size for a number of servers.
fn regular(ask: Ask, all: &mut BTreeSet<String>) {
    let (servers, links) = (ask.servers, links(ask, ask.speed));
    all.insert(format!("kind = \"switch\"\nhosts = {servers}\nhost_link = \"{}\"\n", exact(ask.speed)));
    if let Some(k) = (4..=128).step_by(2).find(|&k: &u32| k.pow(3) / 4 >= servers) {
        all.insert(format!("kind = \"fat-tree\"\nk = {k}\n{links}"));
    }
    for switches in [2, 3, 4, 6, 8, 12, 16] {
        let each = servers.div_ceil(switches);
        if each <= PER_RACK {
            all.insert(format!("kind = \"clique\"\nswitches = {switches}\nhosts_per_switch = {each}\n{links}"));
        }
    }
}

/// Rates of uplinks: the servers' own, and the faster ones that the list has.
fn rates(ask: Ask, prices: &PriceList) -> BTreeSet<BitsPerSec> {
    let sold = prices.switches.iter().flat_map(|it| [Some(it.rate), it.uplinks.map(|(_, rate)| rate)]).flatten();
    sold.filter(|&rate| rate > ask.speed).chain([ask.speed]).collect()
}

fn edges(ask: Ask, prices: &PriceList) -> BTreeSet<Edge> {
    let mut all = BTreeSet::new();
    for rate in rates(ask, prices) {
        for ratio in [1, 2, 3, 4, 8] {
            for switch in prices.switches.iter().filter(|it| it.rate >= ask.speed) {
                all.extend(edge(ask, switch, rate, ratio));
            }
        }
    }
    all
}

/// The edge switch with most servers that has this over-subscription; servers are spread evenly over as many as that takes.
fn edge(ask: Ask, switch: &Switch, rate: BitsPerSec, ratio: u64) -> Option<Edge> {
    let uplinks_of = |servers: u32| (u64::from(servers) * ask.speed.0).div_ceil(ratio * rate.0).max(1);
    let fits = |servers: u32| {
        let uplinks = uplinks_of(servers);
        if rate > switch.rate {
            let (count, uplink_rate) = switch.uplinks.unwrap_or((0, switch.rate));
            servers <= switch.ports && uplink_rate >= rate && uplinks <= u64::from(count)
        } else {
            u64::from(servers) + uplinks <= u64::from(switch.ports)
        }
    };
    let most = (1..=PER_RACK.min(ask.servers)).rev().find(|&servers| fits(servers))?;
    let servers = ask.servers.div_ceil(ask.servers.div_ceil(most));
    Some(Edge { servers, uplinks: uplinks_of(servers) as u32, rate })
}

fn two_level(ask: Ask, edge: Edge, all: &mut BTreeSet<String>) {
    let (edges, links) = (ask.servers.div_ceil(edge.servers), links(ask, edge.rate));
    let (cores, servers) = (edge.uplinks, edge.servers);
    if edges > 1 {
        all.insert(format!(
            "kind = \"fat-tree\"\nlevels = 2\nedges = {edges}\ncores = {cores}\nhosts_per_edge = {servers}\n{links}"
        ));
    }
}

fn clos(ask: Ask, edge: Edge, prices: &PriceList, all: &mut BTreeSet<String>) {
    let (tors, uplinks) = (ask.servers.div_ceil(edge.servers), edge.uplinks);
    let sold = prices.switches.iter().filter(|it| it.rate >= edge.rate).map(|it| it.ports.min(MAX_RADIX));
    for radix in sold.collect::<BTreeSet<u32>>().into_iter().rev().take(2) {
        for ratio in [1, 2, 4] {
            let down = (radix * ratio / (1 + ratio)).max(1);
            let aggregations = (tors * uplinks).div_ceil(down).next_multiple_of(uplinks);
            let intermediates = (tors * uplinks).div_ceil(aggregations).div_ceil(ratio);
            // With no more aggregation switches than a ToR has uplinks, two levels are enough.
            if aggregations > uplinks && aggregations <= MAX_RADIX {
                all.insert(format!(
                    "kind = \"clos\"\nintermediates = {intermediates}\naggregations = {aggregations}\ntors = {tors}\n\
                     uplinks_per_tor = {uplinks}\nhosts_per_tor = {}\n{}",
                    edge.servers,
                    links(ask, edge.rate)
                ));
            }
        }
    }
}

fn tree(ask: Ask, all: &mut BTreeSet<String>) {
    let link = exact(ask.speed);
    for (most, per_pod) in [(20, 8), (40, 4), (40, 16)] {
        let tors = ask.servers.div_ceil(most);
        let (pods, servers) = (tors.div_ceil(per_pod), ask.servers.div_ceil(tors));
        for (edge, top) in [(1, 1), (1, 4), (2, 8), (5, 20), (5, 80)] {
            let head = format!(
                "kind = \"tree\"\nhosts_per_tor = {servers}\nredundancy = 2\nlink = \"{link}\"\ntor_oversubscription = {edge}\n"
            );
            if pods > 1 {
                let tors = tors.next_multiple_of(pods);
                all.insert(format!("{head}tors = {tors}\ntors_per_pod = {}\ntop_oversubscription = {top}\n", tors / pods));
            } else if tors > 1 {
                all.insert(format!("{head}tors = {tors}\n"));
            }
        }
    }
}

fn subways(ask: Ask, all: &mut BTreeSet<String>) {
    for (most, per_cluster) in [(15, 12), (24, 8), (24, 4)] {
        let racks = ask.servers.div_ceil(most);
        // Two clusters are the fewest, and in type 2 loops span two.
        let clusters = racks.div_ceil(per_cluster).max(2).next_multiple_of(2);
        let per_cluster = racks.div_ceil(clusters).max(2);
        let servers = ask.servers.div_ceil(clusters * per_cluster);
        for (tor, agg) in [(1, 1), (2, 1), (5, 4)] {
            for kind in [1, 2] {
                all.insert(format!(
                    "kind = \"subways\"\ntype = {kind}\nports = 2\nservers_per_rack = {servers}\nracks_per_cluster = {per_cluster}\n\
                     clusters = {clusters}\ntor_oversubscription = {tor}\nagg_oversubscription = {agg}\n{}",
                    links(ask, ask.speed)
                ));
            }
        }
    }
}

/// Servers of a rack at most.
const PER_RACK: u32 = 48;
/// Ports of a modular switch that are considered at most.
const MAX_RADIX: u32 = 512;
