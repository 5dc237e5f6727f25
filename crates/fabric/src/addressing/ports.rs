//! A locator for each port of a server (Subways sections 4.3 and 5.1): the sender of a flow chooses by it at which of the destination's
//! ToRs the flow arrives.
//!
//! ```text
//!   10 . interconnect . pod . switch . port        each field as wide as the fabric needs; no bits for a single interconnect
//!
//!   interconnect   what hangs together by switches alone: one, but for parallel backbones
//!   pod            of the edge switch: a cluster's subnet
//!   switch         an edge switch of the pod, from 1
//!   port           a server's port at that switch, from 1
//! ```
//! So the p addresses of a server are of one subnet in Subways type 1, and of several clusters' or interconnects' in type 2; in either case
//! a core routes by the pod's prefix and an aggregation switch by the ToR's, as they do with one address a server.

use rustc_hash::FxHashMap;

use super::{AddressError, LOC_BASE, LocAddr, Prefix, bits_for};
use crate::ids::{HostId, LinkId, SwitchId};
use crate::topology::Fabric;
use crate::topology::switch_graph::SwitchGraph;

/// Locators of all ports of all servers.
#[derive(Clone, Debug)]
pub struct PortAddressing {
    /// By host: the first of its locators in `locators`.
    first: Vec<u32>,
    /// In the order of hosts and their ports.
    locators: Vec<LocAddr>,
    /// Host and port.
    by_locator: FxHashMap<LocAddr, (HostId, u32)>,
    /// By switch; `None` if it is no edge switch.
    switches: Vec<Option<Place>>,
    widths: Widths,
}

/// Where an edge switch is: the fields of its prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    network: u32,
    pod: u32,
    switch: u32,
}

/// Bits of the fields.
#[derive(Clone, Copy, Debug)]
struct Widths {
    pod: u32,
    switch: u32,
    port: u32,
}

impl PortAddressing {
    /// Numbers all ports of a fabric's servers.
    ///
    /// # Errors
    /// [`AddressError::PortsDoNotFit`] if they need more than 24 bits.
    pub fn new(fabric: &Fabric) -> Result<Self, AddressError> {
        let (places, [networks, pods, in_pod]) = places(fabric);
        let ports_of = |host: HostId| fabric.out(host.node()).iter().map(|&l| edge_switch(fabric, l));
        let mut used = vec![0u32; places.len()];
        fabric.hosts().flat_map(ports_of).for_each(|switch| used[switch.index()] += 1);
        let ports = used.iter().copied().max().unwrap_or(0) as usize;
        // The all-zeros and the all-ones port of a switch stay free, as a network has its first and last address.
        let widths = Widths { pod: bits_for(pods), switch: bits_for(in_pod + 1), port: bits_for(ports + 2) };
        let needed = bits_for(networks) + widths.pod + widths.switch + widths.port;
        if needed > 24 {
            return Err(AddressError::PortsDoNotFit { needed, networks, pods, switches: in_pod, ports });
        }
        let mut next = vec![1u32; places.len()];
        let (mut first, mut locators) = (Vec::with_capacity(fabric.host_count() + 1), Vec::new());
        let mut by_locator = FxHashMap::default();
        for host in fabric.hosts() {
            first.push(locators.len() as u32);
            for (port, switch) in (0u32..).zip(ports_of(host)) {
                let place = places[switch.index()].expect("a host attaches to edge switches");
                let locator = widths.switch(place, next[switch.index()]);
                next[switch.index()] += 1;
                by_locator.insert(locator, (host, port));
                locators.push(locator);
            }
        }
        first.push(locators.len() as u32);
        Ok(Self { first, locators, by_locator, switches: places, widths })
    }

    /// The locators of a server's ports, in the order of its links.
    pub fn of(&self, host: HostId) -> &[LocAddr] {
        &self.locators[self.first[host.index()] as usize..self.first[host.index() + 1] as usize]
    }

    /// The server and the port of a locator.
    pub fn port_of(&self, locator: LocAddr) -> Option<(HostId, u32)> {
        self.by_locator.get(&locator).copied()
    }

    /// The prefix of all ports at an edge switch; `None` if hosts do not attach to it.
    pub fn switch(&self, switch: SwitchId) -> Option<Prefix> {
        let place = self.switches[switch.index()]?;
        Some(Prefix { first: self.widths.switch(place, 0), len: (32 - self.widths.port) as u8 })
    }

    /// The subnet of the pod of an edge switch, in its interconnect; `None` if hosts do not attach to it.
    pub fn pod_of(&self, switch: SwitchId) -> Option<Prefix> {
        let place = Place { switch: 0, ..self.switches[switch.index()]? };
        Some(Prefix { first: self.widths.switch(place, 0), len: (32 - self.widths.port - self.widths.switch) as u8 })
    }

    /// The address space of the interconnect of an edge switch; `None` if hosts do not attach to it.
    pub fn network_of(&self, switch: SwitchId) -> Option<Prefix> {
        let place = Place { switch: 0, pod: 0, ..self.switches[switch.index()]? };
        let bits = self.widths.port + self.widths.switch + self.widths.pod;
        Some(Prefix { first: self.widths.switch(place, 0), len: (32 - bits) as u8 })
    }
}

impl Widths {
    fn switch(self, place: Place, port: u32) -> LocAddr {
        let pod = place.network << self.pod | place.pod;
        LocAddr(LOC_BASE | (pod << self.switch | place.switch) << self.port | port)
    }
}

fn edge_switch(fabric: &Fabric, link: LinkId) -> SwitchId {
    fabric.as_switch(fabric.link(link).to).expect("hosts touch only switches")
}

/// The place of each edge switch, and the largest numbers of interconnects, of pods per interconnect, and of edge switches per pod.
fn places(fabric: &Fabric) -> (Vec<Option<Place>>, [usize; 3]) {
    let mut is_edge = vec![false; fabric.switch_count()];
    for host in fabric.hosts() {
        fabric.out(host.node()).iter().for_each(|&l| is_edge[edge_switch(fabric, l).index()] = true);
    }
    let network = networks(fabric);
    let pod = |s: SwitchId| fabric.node(fabric.switch_node(s)).pod.unwrap_or(0);
    let mut order: Vec<(u32, u32, SwitchId)> =
        fabric.switches().filter(|s| is_edge[s.index()]).map(|s| (network[s.index()], pod(s), s)).collect();
    order.sort_unstable();
    let mut places = vec![None; fabric.switch_count()];
    let (mut pods, mut in_pod) = (0, 0);
    let networks: Vec<_> = order.chunk_by(|a, b| a.0 == b.0).collect();
    for (n, of_network) in (0u32..).zip(&networks) {
        let of_pods: Vec<_> = of_network.chunk_by(|a, b| a.1 == b.1).collect();
        pods = pods.max(of_pods.len());
        for (p, of_pod) in (0u32..).zip(&of_pods) {
            in_pod = in_pod.max(of_pod.len());
            for (s, &(_, _, switch)) in (1u32..).zip(of_pod.iter()) {
                places[switch.index()] = Some(Place { network: n, pod: p, switch: s });
            }
        }
    }
    (places, [networks.len(), pods, in_pod])
}

/// By switch: the first switch that it reaches without crossing a host.
fn networks(fabric: &Fabric) -> Vec<u32> {
    let graph = SwitchGraph::new(fabric);
    let mut network = vec![u32::MAX; graph.len()];
    for first in 0..graph.len() as u32 {
        let mut stack = vec![first];
        while let Some(switch) = stack.pop() {
            if network[switch as usize] == u32::MAX {
                network[switch as usize] = first;
                stack.extend(graph.arcs(switch).iter().map(|a| a.to));
            }
        }
    }
    network
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::BitsPerSec;
    use crate::addressing::Addressing;
    use crate::time::Duration;
    use crate::topology::FabricBuilder;
    use crate::topology::shapes::subways::{Speeds, SubwaysSpec, SubwaysType};
    use crate::topology::shapes::{Cabling, Shape};

    const LINK: Cabling = Cabling { rate: BitsPerSec(10_000_000_000), delay: Duration::from_us(1) };

    fn check(spec: SubwaysSpec) -> (Fabric, PortAddressing) {
        let fabric = Shape::Subways(spec).build(LINK, LINK).expect("a fabric");
        let ports = PortAddressing::new(&fabric).expect("addresses");
        let mut seen = BTreeSet::new();
        for host in fabric.hosts() {
            for (port, (&locator, &link)) in (0u32..).zip(ports.of(host).iter().zip(fabric.out(host.node()))) {
                let tor = edge_switch(&fabric, link);
                assert!(seen.insert(locator), "{locator} twice");
                assert_eq!(ports.port_of(locator), Some((host, port)));
                for prefix in [ports.switch(tor), ports.pod_of(tor), ports.network_of(tor)] {
                    assert!(prefix.expect("an edge switch").contains(locator));
                }
                let others =
                    fabric.switches_of_tier(1).filter(|&s| s != tor && ports.switch(s).expect("a ToR").contains(locator));
                assert_eq!(others.count(), 0, "one ToR's prefix");
            }
        }
        assert_eq!(ports.switch(SwitchId(fabric.switch_count() as u32 - 1)), None);
        Addressing::new(&fabric).expect("addresses of nodes");
        (fabric, ports)
    }

    #[test]
    fn type_1_has_p_addresses_of_one_subnet_and_type_2_of_several() {
        let (fabric, ports) = check(SubwaysSpec::new(SubwaysType::Type1));
        assert_eq!(ports.of(HostId(0)).iter().map(LocAddr::to_string).collect::<Vec<_>>(), ["10.0.0.33", "10.0.1.129"]);
        let subnets = |fabric: &Fabric, ports: &PortAddressing, host: HostId| -> BTreeSet<String> {
            let tors = fabric.out(host.node()).iter().map(|&l| edge_switch(fabric, l));
            tors.map(|t| ports.pod_of(t).expect("a ToR").to_string()).collect()
        };
        assert!(fabric.hosts().all(|h| ports.of(h).len() == 2 && subnets(&fabric, &ports, h).len() == 1));
        let (fabric, ports) = check(SubwaysSpec::new(SubwaysType::Type2));
        assert!(fabric.hosts().all(|h| ports.of(h).len() == 2 && subnets(&fabric, &ports, h).len() == 2));
    }

    #[test]
    fn parallel_interconnects_have_address_spaces_of_their_own() {
        let speeds = Speeds::new(&[LINK.rate, BitsPerSec(25_000_000_000)]).expect("two");
        let (fabric, ports) = check(SubwaysSpec { speeds, ..SubwaysSpec::new(SubwaysType::Type2) });
        let spaces: BTreeSet<String> =
            fabric.switches_of_tier(1).map(|t| ports.network_of(t).expect("a ToR").to_string()).collect();
        assert_eq!(spaces.into_iter().collect::<Vec<_>>(), ["10.0.0.0/23", "10.0.2.0/23"]);
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let mut uneven = FabricBuilder::new("one large pod and many small ones");
        let root = uneven.switch("root", 2, None);
        for pod in 0..1_100 {
            let edge = uneven.switch(format!("edge{pod}"), 1, Some(pod));
            uneven.cable(edge, root, LINK.rate, LINK.delay);
            for i in 0..if pod == 0 { 4_096 } else { 1 } {
                let host = uneven.host(format!("h{pod}-{i}"), Some(pod));
                uneven.cable(host, edge, LINK.rate, LINK.delay);
            }
        }
        let error =
            PortAddressing::new(&uneven.build().expect("a fabric")).expect_err("13 bits of ports, 1 of switches, 11 of pods");
        assert!(error.to_string().contains("24"), "{error}");
    }
}
