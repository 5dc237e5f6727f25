//! A checked Subways fabric: its counts, and who is wired to whom, by formulas. The graph, the cabling and the upgrades follow from it.

use smallvec::SmallVec;

use super::spec::{RackSize, SubwaysSpec, SubwaysType, Trunk, Uplinks, Wiring};
use crate::topology::FabricError;
use crate::topology::shapes::Cabling;
use crate::topology::shapes::limits::{at_least_one, check_size, refuse};
use crate::units::BitsPerSec;

/// Counts and formulas of a Subways fabric that can be built. Parts are numbered as in [`super`].
#[derive(Clone, Debug, PartialEq)]
pub struct SubwaysWiring {
    /// Wiring and balancing.
    pub kind: SubwaysType,
    /// p, ports of a server.
    pub ports: u32,
    /// r, servers of a rack.
    pub servers_per_rack: u32,
    /// ToRs of a cluster.
    pub racks_per_cluster: u32,
    /// Clusters of all interconnects.
    pub clusters: u32,
    /// l, racks of a loop. 1 in type 0: no two ToRs hang together through a server.
    pub loop_length: u32,
    /// c, clusters that a loop spans: 1 but in type 2.
    pub loop_clusters: u32,
    /// Aggregation switches of a cluster: the uplinks of a ToR.
    pub aggregations: u32,
    /// Uplinks of an aggregation switch; 0 without cores.
    pub agg_uplinks: u32,
    /// 3 with cores, 2 without.
    pub levels: u32,
    /// Of type 0.
    pub trunk: Trunk,
    /// By interconnect: a server's port, and a link between switches.
    links: Vec<(Cabling, Cabling)>,
}

impl SubwaysSpec {
    /// Checks the parameters and derives the counts. `speeds` take the place of the rates of both links.
    ///
    /// # Errors
    /// [`FabricError::Parameter`], named as the scenario's key, with what it may be.
    pub fn wiring(&self, host_link: Cabling, fabric_link: Cabling) -> Result<SubwaysWiring, FabricError> {
        let links = links(self, host_link, fabric_link)?;
        let networks = links.len() as u32;
        at_least_one("ports", self.ports, "ports of a server")?;
        at_least_one("racks_per_cluster", self.racks_per_cluster, "racks of a cluster")?;
        let servers_per_rack = servers_per_rack(self)?;
        let (clusters, loop_clusters) = clusters(self, networks)?;
        let loop_length = loop_length(self, networks)?;
        check_before_uplinks(self, clusters, servers_per_rack)?;
        let (host, between) = links[0];
        let down = f64::from(servers_per_rack) * f64::from(self.ports) * host.rate.as_f64() / between.rate.as_f64();
        let aggregations = uplinks(self.tor_uplinks, down, "tor_oversubscription", "aggregations")?;
        let agg_uplinks = if self.levels == 2 {
            0
        } else {
            uplinks(self.agg_uplinks, f64::from(self.racks_per_cluster), "agg_oversubscription", "agg_uplinks")?
        };
        let wiring = SubwaysWiring {
            kind: self.kind,
            ports: self.ports,
            servers_per_rack,
            racks_per_cluster: self.racks_per_cluster,
            clusters,
            loop_length,
            loop_clusters,
            aggregations,
            agg_uplinks,
            levels: self.levels,
            trunk: self.trunk,
            links,
        };
        wiring.check_size()?;
        Ok(wiring)
    }
}

impl SubwaysWiring {
    /// What it is, in a line.
    pub fn title(&self) -> String {
        let Self { kind, ports, servers_per_rack, clusters, racks_per_cluster, loop_length, .. } = self;
        let loops = match kind.wiring() {
            Wiring::Trunk => String::new(),
            Wiring::SharedTors | Wiring::Multihomed => format!(", loops of {loop_length}"),
            Wiring::SharedClusters => format!(
                ", loops of {loop_length} over {} cluster{}",
                self.loop_clusters,
                if self.loop_clusters == 1 { "" } else { "s" }
            ),
        };
        let speeds = if self.networks() > 1 {
            let rates: Vec<String> = self.links.iter().map(|(host, _)| host.rate.to_string()).collect();
            format!(", interconnects of {}", rates.join(" + "))
        } else {
            String::new()
        };
        let s = |n: u32| if n == 1 { "" } else { "s" };
        let name = if *kind == SubwaysType::McLag { "MC-LAG".to_owned() } else { format!("type {kind}") };
        format!(
            "Subways {name}, {ports} port{}, {servers_per_rack} server{} a rack, {clusters} cluster{} of {racks_per_cluster} \
             racks{loops}{speeds}",
            s(*ports),
            s(*servers_per_rack),
            s(*clusters),
        )
    }

    /// ToRs, which are as many as racks.
    pub const fn tors(&self) -> u32 {
        self.clusters * self.racks_per_cluster
    }

    /// Servers.
    pub const fn hosts(&self) -> u32 {
        self.tors() * self.servers_per_rack
    }

    /// Core switches of all interconnects.
    pub fn cores(&self) -> u32 {
        self.networks() * self.aggregations * self.agg_uplinks
    }

    /// n, parallel interconnects.
    pub fn networks(&self) -> u32 {
        self.links.len() as u32
    }

    /// q, the ports of a ToR that lead to servers.
    pub const fn server_ports(&self) -> u32 {
        self.servers_per_rack * self.ports
    }

    /// The rack of a server.
    pub const fn rack_of(&self, host: u32) -> u32 {
        host / self.servers_per_rack
    }

    /// The loop of a rack or of its ToR.
    pub const fn loop_of(&self, tor: u32) -> u32 {
        tor / self.loop_length
    }

    /// The ToR of each port of the rack's servers, in the order of the ports; in type 0 p times the same.
    pub fn ports_of_rack(&self, rack: u32) -> SmallVec<[u32; 8]> {
        if self.kind.wiring() == Wiring::Trunk {
            return (0..self.ports).map(|_| rack).collect();
        }
        let (first, at) = (rack - rack % self.loop_length, rack % self.loop_length);
        self.offsets().map(|offset| first + (at + offset) % self.loop_length).collect()
    }

    /// The ToR of each link of the rack's servers in the graph: as [`Self::ports_of_rack`], but a trunk that spreads packets is one link.
    pub fn nics_of_rack(&self, rack: u32) -> SmallVec<[u32; 8]> {
        let mut tors = self.ports_of_rack(rack);
        if self.is_virtual_link() {
            tors.truncate(1);
        }
        tors
    }

    /// The racks whose servers a ToR serves, ascending.
    pub fn racks_of_tor(&self, tor: u32) -> SmallVec<[u32; 8]> {
        if self.kind.wiring() == Wiring::Trunk {
            return std::iter::once(tor).collect();
        }
        let (first, at) = (tor - tor % self.loop_length, tor % self.loop_length);
        let mut racks: SmallVec<[u32; 8]> =
            self.offsets().map(|offset| first + (at + self.loop_length - offset) % self.loop_length).collect();
        racks.sort_unstable();
        racks
    }

    /// The cluster of a ToR.
    pub const fn cluster_of(&self, tor: u32) -> u32 {
        let block = self.loop_clusters * self.racks_per_cluster;
        tor / block * self.loop_clusters + tor % block % self.loop_clusters
    }

    /// The interconnect of a cluster.
    pub fn network_of(&self, cluster: u32) -> u32 {
        cluster % self.networks()
    }

    /// The number of aggregation switch `i` of a cluster.
    pub const fn agg(&self, cluster: u32, i: u32) -> u32 {
        cluster * self.aggregations + i
    }

    /// The number of core `j` of those that the aggregation switches `i` of an interconnect attach to.
    pub const fn core(&self, network: u32, i: u32, j: u32) -> u32 {
        (network * self.aggregations + i) * self.agg_uplinks + j
    }

    /// A link from a server to a ToR in the graph: p ports together if that is a virtual link.
    pub fn host_link(&self, network: u32) -> Cabling {
        let port = self.port_link(network);
        let rate = if self.is_virtual_link() { port.rate.0.saturating_mul(u64::from(self.ports)) } else { port.rate.0 };
        Cabling { rate: BitsPerSec(rate), ..port }
    }

    /// A cable at one port of a server.
    pub fn port_link(&self, network: u32) -> Cabling {
        self.links[network as usize].0
    }

    /// A link between switches.
    pub fn fabric_link(&self, network: u32) -> Cabling {
        self.links[network as usize].1
    }

    /// How far clockwise of its rack each port of a server leads, modulo the loop.
    fn offsets(&self) -> impl Iterator<Item = u32> + use<> {
        let (ports, length) = (self.ports, self.loop_length);
        let clockwise = (ports - 1) / 2;
        (0..=clockwise).chain((1..ports - clockwise).map(move |i| length - i))
    }

    fn is_virtual_link(&self) -> bool {
        self.kind.wiring() == Wiring::Trunk && self.trunk == Trunk::Packet
    }

    fn check_size(&self) -> Result<(), FabricError> {
        let [c, r, p, a, u] =
            [self.clusters, self.racks_per_cluster, self.ports, self.aggregations, self.agg_uplinks].map(u64::from);
        let hosts = c * r * u64::from(self.servers_per_rack);
        let switches = c * r + c * a + u64::from(self.networks()) * a * u;
        check_size("clusters", self.clusters, hosts, switches, hosts * p + c * r * a + c * a * u)
    }
}

/// The links of each interconnect.
fn links(spec: &SubwaysSpec, host_link: Cabling, fabric_link: Cabling) -> Result<Vec<(Cabling, Cabling)>, FabricError> {
    let rates = spec.speeds.rates();
    for (key, rate) in [("host_link", host_link.rate), ("fabric_link", fabric_link.rate)] {
        if rates.is_empty() && rate.0 == 0 {
            return Err(refuse(key, rate, "a link has a capacity: set it to a rate such as 10Gbps"));
        }
    }
    if rates.contains(&BitsPerSec(0)) {
        return Err(refuse("speeds", show(rates), "a link has a capacity: set every speed to a rate such as 10Gbps"));
    }
    if rates.len() > 1 && spec.kind.wiring() != Wiring::SharedClusters {
        let rule = "parallel interconnects are clusters of type 2 (section 4.3): set type to 2, 2LB or 2D, or give one speed";
        return Err(refuse("speeds", show(rates), rule));
    }
    if rates.len() as u64 > u64::from(spec.ports) {
        let rule = format!(
            "a server of {} ports does not reach {} interconnects: raise `ports`, or choose fewer speeds",
            spec.ports,
            rates.len()
        );
        return Err(refuse("speeds", show(rates), rule));
    }
    if rates.is_empty() {
        return Ok(vec![(host_link, fabric_link)]);
    }
    Ok(rates.iter().map(|&rate| (Cabling { rate, ..host_link }, Cabling { rate, ..fabric_link })).collect())
}

fn show(rates: &[BitsPerSec]) -> String {
    let quoted: Vec<String> = rates.iter().map(|r| format!("\"{r}\"")).collect();
    format!("[{}]", quoted.join(", "))
}

fn servers_per_rack(spec: &SubwaysSpec) -> Result<u32, FabricError> {
    match spec.rack {
        RackSize::Servers(servers) => at_least_one("servers_per_rack", servers, "servers in a rack").map(|()| servers),
        RackSize::ServerPorts(ports) => {
            at_least_one("server_ports", ports, "ports of a ToR for servers")?;
            if ports.is_multiple_of(spec.ports) {
                return Ok(ports / spec.ports);
            }
            let p = spec.ports;
            let (below, above) = (ports / p * p, (u64::from(ports / p) + 1) * u64::from(p));
            let near = if below == 0 { above.to_string() } else { format!("{below} or {above}") };
            let rule = format!("the {p} ports of each server must divide the server ports of a ToR: choose {near}");
            Err(refuse("server_ports", ports, rule))
        }
    }
}

/// Clusters, and how many of them a loop spans.
fn clusters(spec: &SubwaysSpec, networks: u32) -> Result<(u32, u32), FabricError> {
    if !(2..=3).contains(&spec.levels) {
        return Err(refuse("levels", spec.levels, "set it to 3, or to 2 for a fabric without cores"));
    }
    let type_2 = spec.kind.wiring() == Wiring::SharedClusters;
    if let (Some(c), false) = (spec.loop_clusters, type_2) {
        let rule = format!("all ToRs of a server of type {} are in one cluster: leave it out, or choose type 2", spec.kind);
        return Err(refuse("loop_clusters", c, rule));
    }
    let usual = if spec.levels == 2 { networks } else { networks.max(2) };
    let loop_clusters = if type_2 { spec.loop_clusters.unwrap_or(usual) } else { 1 };
    at_least_one("loop_clusters", loop_clusters, "clusters that a loop spans")?;
    if !loop_clusters.is_multiple_of(networks) {
        let rule = format!(
            "a loop spans equally many clusters of each of the {networks} interconnects: choose a multiple of {networks}"
        );
        return Err(refuse("loop_clusters", loop_clusters, rule));
    }
    let clusters = spec.clusters.unwrap_or(if spec.levels == 2 { networks } else { loop_clusters.max(2) });
    at_least_one("clusters", clusters, "clusters")?;
    if clusters < loop_clusters {
        let rule = format!("a loop spans {loop_clusters} clusters: raise it to {loop_clusters}, or lower `loop_clusters`");
        return Err(refuse("clusters", clusters, rule));
    }
    if !clusters.is_multiple_of(loop_clusters) {
        let below = clusters / loop_clusters * loop_clusters;
        let rule = format!(
            "loops span {loop_clusters} clusters each and must fill them: choose {below} or {}",
            u64::from(below) + u64::from(loop_clusters)
        );
        return Err(refuse("clusters", clusters, rule));
    }
    if spec.levels == 2 && clusters != networks {
        let rule =
            format!("without cores the clusters of an interconnect cannot reach each other: choose {networks}, or levels = 3");
        return Err(refuse("clusters", clusters, rule));
    }
    Ok((clusters, loop_clusters))
}

fn loop_length(spec: &SubwaysSpec, networks: u32) -> Result<u32, FabricError> {
    let SubwaysSpec { ports, racks_per_cluster, loop_length, .. } = *spec;
    if spec.kind.wiring() == Wiring::Multihomed && !racks_per_cluster.is_multiple_of(ports) {
        let choices: Vec<String> = (1..=racks_per_cluster.min(MOST_LISTED))
            .filter(|&p| racks_per_cluster.is_multiple_of(p))
            .map(|p| p.to_string())
            .collect();
        let rule = format!(
            "MC-LAG has loops of as many racks as a server has ports, which must fill a cluster of {racks_per_cluster}: choose one of {}",
            choices.join(", ")
        );
        return Err(refuse("ports", ports, rule));
    }
    let length = match (spec.kind.wiring(), loop_length) {
        (Wiring::Trunk, None) => return Ok(1),
        (Wiring::Trunk, Some(l)) => return Err(refuse("loop", l, "type 0 has no loops: leave it out, or choose type 1 or 2")),
        (Wiring::Multihomed, None) => ports,
        (Wiring::Multihomed, Some(l)) if l != ports => {
            return Err(refuse(
                "loop",
                l,
                format!("servers of MC-LAG have a loop of their {ports} ToRs: leave it out, or choose type 1"),
            ));
        }
        (_, given) => given.unwrap_or(racks_per_cluster),
    };
    at_least_one("loop", length, "racks in a loop")?;
    if length < ports {
        let rule = format!(
            "the {ports} ports of a server lead to {ports} ToRs of its loop: raise it to {ports} or more, or lower `ports`"
        );
        return Err(refuse("loop", length, rule));
    }
    if length > racks_per_cluster {
        let rule = format!(
            "a cluster has {racks_per_cluster} racks: lower it to that or to one of its divisors, or raise `racks_per_cluster`"
        );
        return Err(refuse("loop", length, rule));
    }
    let fits = |l: u32| racks_per_cluster.is_multiple_of(l) && l.is_multiple_of(networks);
    if !fits(length) {
        let choices: Vec<String> =
            (ports..=racks_per_cluster.min(MOST_LISTED)).filter(|&l| fits(l)).map(|l| l.to_string()).collect();
        let whole = if networks > 1 { format!(", in whole rounds of {networks} interconnects") } else { String::new() };
        let remedy = if choices.is_empty() {
            "change `racks_per_cluster`".to_owned()
        } else {
            format!("choose one of {}", choices.join(", "))
        };
        return Err(refuse("loop", length, format!("loops must fill a cluster of {racks_per_cluster} racks{whole}: {remedy}")));
    }
    Ok(length)
}

/// Bounds what follows before it is multiplied.
fn check_before_uplinks(spec: &SubwaysSpec, clusters: u32, servers_per_rack: u32) -> Result<(), FabricError> {
    if spec.ports > MAX_PORTS {
        return Err(refuse("ports", spec.ports, format!("lower it to {MAX_PORTS}, the most ports of a server here")));
    }
    let tors = u64::from(clusters).saturating_mul(u64::from(spec.racks_per_cluster));
    let (parameter, value) =
        if clusters > spec.racks_per_cluster { ("clusters", clusters) } else { ("racks_per_cluster", spec.racks_per_cluster) };
    check_size(parameter, value, tors.saturating_mul(u64::from(servers_per_rack)), tors, 0)
}

/// A layer's uplinks, each as fast as those of the layer; `down` is the capacity of a switch downwards in such links.
fn uplinks(asked: Uplinks, down: f64, ratio_key: &'static str, count_key: &'static str) -> Result<u32, FabricError> {
    let ratio = match asked {
        Uplinks::Count(count) => {
            at_least_one(count_key, count, "a way up")?;
            return if count <= MAX_UPLINKS {
                Ok(count)
            } else {
                Err(refuse(count_key, count, format!("lower it to {MAX_UPLINKS}, the most uplinks of a switch here")))
            };
        }
        Uplinks::Oversubscription(ratio) => ratio,
    };
    if !(ratio.is_finite() && ratio > 0.0) {
        return Err(refuse(
            ratio_key,
            ratio,
            "a ratio of the capacity down to the capacity up: choose a number above 0, such as 5",
        ));
    }
    let links = down / ratio;
    let whole = libm::round(links);
    if whole >= 1.0 && whole <= f64::from(MAX_UPLINKS) && (links - whole).abs() <= 1e-9 * whole {
        return Ok(whole as u32);
    }
    let nearest = |links: f64| {
        let links = links.clamp(1.0, f64::from(MAX_UPLINKS));
        let ratio = format!("{:.4}", down / links);
        format!("{} ({links} links)", ratio.trim_end_matches('0').trim_end_matches('.'))
    };
    let (less, more) = (nearest(libm::ceil(links)), nearest(libm::floor(links)));
    let choice = if less == more { less } else { format!("{less} or {more}") };
    let rule = format!(
        "a switch would have {links:.3} links up, not a whole number from 1 to {MAX_UPLINKS}: choose {choice}, or set `{count_key}`"
    );
    Err(refuse(ratio_key, ratio, rule))
}

/// Ports of a server: the paper goes to 6.
const MAX_PORTS: u32 = 64;
/// Uplinks of a switch.
const MAX_UPLINKS: u32 = 4096;
/// Divisors of a cluster that an error lists.
const MOST_LISTED: u32 = 10_000;
