//! Addresses of a fabric's parts (VL2 section 4.2.1, Hedera section 3.1).
//!
//! Locators (LA) say where something is; switches route on them, by prefix. They are 10.0.0.0/8:
//!
//! ```text
//!   10 . pod . rack . node        each field as wide as the fabric needs; 8 bits each wherever they suffice
//!
//!   pod  0                        switches without a pod (cores, intermediates): node counts them from 1, across rack and node
//!   pod  p + 1, rack 0            switches of pod p that lead no rack (aggregation): node counts them from 1
//!   pod  p + 1, rack r + 1        rack r of the pod: its switches from node 1, then its hosts
//! ```
//! So a core knows a pod by one prefix, an aggregation switch a rack by one, and an edge switch its hosts by their whole locator.
//! Where an overlay locates a server by its ToR (VL2), the host part goes unused.
//!
//! A server with several ports has a locator for each of them, below the switch that the port leads to, in [`PortAddressing`].
//!
//! Application addresses (AA) name servers and stay with them wherever they move: 20.0.0.0/8, host h is 20.0.0.1 + h.

mod ports;

use std::fmt;
use std::net::Ipv4Addr;
use std::str::FromStr;

use rustc_hash::FxHashMap;

use crate::ids::{HostId, NodeId, RackId, SwitchId};
use crate::topology::Fabric;

pub use ports::PortAddressing;

/// An application address: a server's, in 20.0.0.0/8, the same wherever it is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AppAddr(pub u32);

/// A locator: a switch's or an attachment's, in 10.0.0.0/8.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LocAddr(pub u32);

/// Locators that begin with the same bits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Prefix {
    /// The lowest of them.
    pub first: LocAddr,
    /// How many bits they share.
    pub len: u8,
}

/// Addresses of all parts of a fabric.
#[derive(Clone, Debug)]
pub struct Addressing {
    layout: Layout,
    /// By node: hosts, then switches.
    locators: Vec<LocAddr>,
    by_locator: FxHashMap<LocAddr, NodeId>,
    /// By rack.
    racks: Vec<Prefix>,
    /// By pod, as the fabric numbers it, ascending.
    pods: Vec<(u32, Prefix)>,
    hosts: u32,
}

/// A fabric is too large for its addresses, or a text is not an address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)]
pub enum AddressError {
    #[error(
        "locators need {needed} bits ({pods} pods, at most {racks} racks in one, at most {nodes} nodes in one of those) and 10.0.0.0/8 \
         has 24: use smaller racks, or pods of more even size"
    )]
    LocatorsDoNotFit { needed: u32, pods: usize, racks: usize, nodes: usize },
    #[error(
        "locators of ports need {needed} bits ({networks} interconnects, at most {pods} pods in one, {switches} switches in a pod and {ports} \
         ports at a switch) and 10.0.0.0/8 has 24: use smaller racks, or pods of more even size"
    )]
    PortsDoNotFit { needed: u32, networks: usize, pods: usize, switches: usize, ports: usize },
    #[error("{hosts} hosts need more application addresses than 20.0.0.0/8 has: use fewer hosts")]
    TooManyHosts { hosts: usize },
    #[error("rack {rack} has hosts in the pods {first} and {second}: give all hosts of a rack the same pod")]
    RackInTwoPods { rack: RackId, first: u32, second: u32 },
    #[error("`{0}` is not an address in {1}: write it as {2}")]
    Text(String, &'static str, &'static str),
}

impl Addressing {
    /// Numbers all parts of a fabric.
    ///
    /// # Errors
    /// [`AddressError`] if the fabric does not fit, or a rack is split between pods.
    pub fn new(fabric: &Fabric) -> Result<Self, AddressError> {
        let places = Places::of(fabric)?;
        let layout = places.layout()?;
        let mut racks = vec![Prefix { first: LocAddr(0), len: 0 }; fabric.racks().len()];
        let mut pods = Vec::with_capacity(places.pods.len());
        let mut locators = vec![LocAddr(0); fabric.nodes().len()];
        for (i, &switch) in places.roots.iter().enumerate() {
            locators[switch.index()] = layout.locator(0, 0, i as u32 + 1);
        }
        for (p, pod) in (1u32..).zip(&places.pods) {
            pods.push((pod.id, layout.pod(p)));
            for (i, &switch) in pod.switches.iter().enumerate() {
                locators[switch.index()] = layout.locator(p, 0, i as u32 + 1);
            }
            for (r, rack) in (1u32..).zip(&pod.racks) {
                racks[rack.id.index()] = layout.rack(p, r);
                for (i, &node) in rack.nodes.iter().enumerate() {
                    locators[node.index()] = layout.locator(p, r, i as u32 + 1);
                }
            }
        }
        let by_locator = locators.iter().enumerate().map(|(i, &l)| (l, NodeId::from(i))).collect();
        Ok(Self { layout, locators, by_locator, racks, pods, hosts: fabric.host_count() as u32 })
    }

    /// The AA of a host.
    pub const fn app(&self, host: HostId) -> AppAddr {
        AppAddr(APP_BASE + 1 + host.0)
    }

    /// The host of an AA; `None` for an address that no host has.
    pub fn host_of(&self, app: AppAddr) -> Option<HostId> {
        app.0.checked_sub(APP_BASE + 1).filter(|&h| h < self.hosts).map(HostId)
    }

    /// The LA of a switch.
    pub fn switch(&self, switch: SwitchId) -> LocAddr {
        self.locators[self.hosts as usize + switch.index()]
    }

    /// The locator of a host's place: within the prefixes of its rack and pod.
    pub fn host(&self, host: HostId) -> LocAddr {
        self.locators[host.index()]
    }

    /// What a locator locates.
    pub fn node_of(&self, locator: LocAddr) -> Option<NodeId> {
        self.by_locator.get(&locator).copied()
    }

    /// The prefix of a rack: what an aggregation switch is initialised with.
    pub fn rack(&self, rack: RackId) -> Prefix {
        self.racks[rack.index()]
    }

    /// The prefix of a pod: what a core switch is initialised with. `None` if nothing is in that pod.
    pub fn pod(&self, pod: u32) -> Option<Prefix> {
        let i = self.pods.binary_search_by_key(&pod, |p| p.0).ok()?;
        Some(self.pods[i].1)
    }

    /// The prefix of the switches without a pod.
    pub fn roots(&self) -> Prefix {
        self.layout.pod(0)
    }
}

impl Prefix {
    /// Whether the locator is one of the prefix.
    pub const fn contains(self, locator: LocAddr) -> bool {
        let host_bits = 32 - self.len as u32;
        (locator.0 ^ self.first.0) as u64 >> host_bits == 0
    }
}

/// Widths of the fields, in bits. They make 24.
#[derive(Clone, Copy, Debug)]
struct Layout {
    rack_bits: u32,
    node_bits: u32,
}

impl Layout {
    fn locator(self, pod: u32, rack: u32, node: u32) -> LocAddr {
        LocAddr(LOC_BASE | pod << (self.rack_bits + self.node_bits) | rack << self.node_bits | node)
    }

    fn pod(self, pod: u32) -> Prefix {
        Prefix { first: self.locator(pod, 0, 0), len: (32 - self.rack_bits - self.node_bits) as u8 }
    }

    fn rack(self, pod: u32, rack: u32) -> Prefix {
        Prefix { first: self.locator(pod, rack, 0), len: (32 - self.node_bits) as u8 }
    }
}

/// Who is where, before anything has a number.
struct Places {
    roots: Vec<NodeId>,
    pods: Vec<PodPlaces>,
}

#[derive(Default)]
struct PodPlaces {
    id: u32,
    /// Those that lead no rack.
    switches: Vec<NodeId>,
    racks: Vec<RackPlaces>,
}

struct RackPlaces {
    id: RackId,
    /// Its switches, then its hosts. A switch of several racks is in the first of them.
    nodes: Vec<NodeId>,
}

impl Places {
    fn of(fabric: &Fabric) -> Result<Self, AddressError> {
        let mut ids: Vec<u32> = fabric.hosts().map(|h| fabric.pod_of(h)).collect();
        ids.extend(fabric.nodes().iter().filter_map(|n| n.pod));
        ids.sort_unstable();
        ids.dedup();
        let mut pods: Vec<PodPlaces> = ids.iter().map(|&id| PodPlaces { id, ..PodPlaces::default() }).collect();
        let place = |pod: u32| ids.binary_search(&pod).expect("listed above");
        let mut placed = vec![false; fabric.nodes().len()];
        for (r, rack) in fabric.racks().iter().enumerate() {
            let id = RackId::from(r);
            let pod = fabric.pod_of(rack.hosts[0]);
            if let Some(&other) = rack.hosts.iter().find(|&&h| fabric.pod_of(h) != pod) {
                return Err(AddressError::RackInTwoPods { rack: id, first: pod, second: fabric.pod_of(other) });
            }
            // A switch of another pod (Subways type 2) is with the racks of its own.
            let here = |n: &NodeId| fabric.node(*n).pod.is_none_or(|p| p == pod);
            let switches = rack.switches.iter().map(|&s| fabric.switch_node(s)).filter(here);
            let mut nodes: Vec<NodeId> = switches.filter(|n| !std::mem::replace(&mut placed[n.index()], true)).collect();
            nodes.extend(rack.hosts.iter().map(|h| h.node()));
            pods[place(pod)].racks.push(RackPlaces { id, nodes });
        }
        let mut roots = Vec::new();
        for switch in fabric.switches().map(|s| fabric.switch_node(s)).filter(|n| !placed[n.index()]) {
            match fabric.node(switch).pod {
                None => roots.push(switch),
                Some(pod) => pods[place(pod)].switches.push(switch),
            }
        }
        Ok(Self { roots, pods })
    }

    fn layout(&self) -> Result<Layout, AddressError> {
        let racks = self.pods.iter().map(|p| p.racks.len()).max().unwrap_or(0);
        let groups = self.pods.iter().flat_map(|p| p.racks.iter().map(|r| r.nodes.len()).chain([p.switches.len()]));
        let nodes = groups.max().unwrap_or(0);
        let hosts = self.pods.iter().flat_map(|p| &p.racks).map(|r| r.nodes.len()).sum::<usize>();
        if hosts >= (1 << 24) - 1 {
            return Err(AddressError::TooManyHosts { hosts });
        }
        let pod_bits = bits_for(self.pods.len() + 1);
        // The all-zeros and the all-ones node stay free, for networks that give them a meaning.
        let mut node_bits = bits_for(nodes + 2);
        let mut rack_bits = bits_for(racks + 1);
        if pod_bits.max(rack_bits).max(node_bits) <= 8 {
            (rack_bits, node_bits) = (8, 8);
        }
        // Roots count through both fields.
        rack_bits += bits_for(self.roots.len() + 2).saturating_sub(rack_bits + node_bits);
        let needed = pod_bits + rack_bits + node_bits;
        if needed > 24 {
            return Err(AddressError::LocatorsDoNotFit { needed, pods: self.pods.len(), racks, nodes });
        }
        Ok(Layout { rack_bits, node_bits })
    }
}

/// Bits that count `values` values from 0.
const fn bits_for(values: usize) -> u32 {
    usize::BITS - (values - 1).leading_zeros()
}

const LOC_BASE: u32 = 10 << 24;
const APP_BASE: u32 = 20 << 24;

impl fmt::Display for AppAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Ipv4Addr::from(self.0).fmt(f)
    }
}

impl fmt::Display for LocAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Ipv4Addr::from(self.0).fmt(f)
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.first, self.len)
    }
}

impl fmt::Debug for AppAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Debug for LocAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Debug for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for AppAddr {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        parse_in(text, APP_BASE).map(Self).ok_or_else(|| AddressError::Text(text.to_owned(), "20.0.0.0/8", "`20.0.0.1`"))
    }
}

impl FromStr for LocAddr {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        parse_in(text, LOC_BASE).map(Self).ok_or_else(|| AddressError::Text(text.to_owned(), "10.0.0.0/8", "`10.1.2.3`"))
    }
}

fn parse_in(text: &str, base: u32) -> Option<u32> {
    let bits = u32::from(text.trim().parse::<Ipv4Addr>().ok()?);
    (bits >> 24 == base >> 24).then_some(bits)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Duration;
    use crate::topology::FabricBuilder;
    use crate::topology::shapes::{Cabling, Shape};
    use crate::units::BitsPerSec;

    const LINK: Cabling = Cabling { rate: BitsPerSec(1_000_000_000), delay: Duration::from_us(1) };

    fn addressed(shape: Shape) -> (Fabric, Addressing) {
        let fabric = shape.build(LINK, LINK).expect("a fabric");
        let addressing = Addressing::new(&fabric).unwrap_or_else(|e| panic!("{shape:?}: {e}"));
        (fabric, addressing)
    }

    fn check(fabric: &Fabric, addressing: &Addressing) {
        for i in 0..fabric.nodes().len() {
            let node = NodeId::from(i);
            assert_eq!(addressing.node_of(addressing.locators[i]), Some(node), "locators are unique");
            let locator = addressing.locators[i];
            match (fabric.as_host(node), fabric.node(node).pod) {
                (Some(host), _) => {
                    assert!(addressing.rack(fabric.rack_of(host)).contains(locator));
                    assert!(addressing.pod(fabric.pod_of(host)).expect("its pod").contains(locator));
                    assert_eq!(addressing.host_of(addressing.app(host)), Some(host));
                }
                (None, Some(pod)) => assert!(addressing.pod(pod).expect("its pod").contains(locator)),
                (None, None) => assert!(fabric.top_tier() == 1 || addressing.roots().contains(locator)),
            }
        }
        // Prefixes exclude everybody else: longest-prefix routing has one answer.
        for (r, rack) in fabric.racks().iter().enumerate() {
            let prefix = addressing.rack(RackId::from(r));
            let inside = fabric.hosts().filter(|&h| prefix.contains(addressing.host(h))).count();
            assert_eq!(inside, rack.hosts.len());
        }
        assert_eq!(addressing.host_of(AppAddr(APP_BASE)), None);
        assert_eq!(addressing.host_of(AppAddr(APP_BASE + 1 + fabric.host_count() as u32)), None);
    }

    #[test]
    fn addresses_of_a_small_fat_tree_read_by_octet() {
        let (fabric, a) = addressed(Shape::FatTree { k: 4 });
        let at = |name: &str| a.locators[fabric.node_by_name(name).expect(name).index()].to_string();
        assert_eq!(
            ["core0", "core3", "agg0", "agg1", "edge0", "h0", "h1", "edge1", "h2", "h15"].map(at),
            [
                "10.0.0.1", "10.0.0.4", "10.1.0.1", "10.1.0.2", "10.1.1.1", "10.1.1.2", "10.1.1.3", "10.1.2.1", "10.1.2.2",
                "10.4.2.3"
            ]
        );
        assert_eq!(a.pod(0).unwrap().to_string(), "10.1.0.0/16");
        assert_eq!(a.rack(RackId(7)).to_string(), "10.4.2.0/24");
        assert_eq!(a.roots().to_string(), "10.0.0.0/16");
        assert_eq!(a.app(HostId(15)).to_string(), "20.0.0.16");
        assert_eq!(a.pod(4), None);
        check(&fabric, &a);
    }

    #[test]
    fn every_shape_has_addresses() {
        let tree = Shape::Tree {
            tors: 12,
            hosts_per_tor: 20,
            tors_per_pod: Some(4),
            redundancy: 2,
            tor_oversubscription: 5.0,
            top_oversubscription: 20.0,
        };
        for shape in [
            Shape::FatTree { k: 8 },
            Shape::two_level_of_ports(16),
            Shape::VL2_TESTBED,
            Shape::Clos { agg_ports: 8, int_ports: 6, hosts_per_tor: 20 },
            tree,
            Shape::Clique { switches: 300, hosts_per_switch: 3 },
            Shape::Switch { hosts: 5_000 },
        ] {
            let (fabric, addressing) = addressed(shape);
            check(&fabric, &addressing);
        }
    }

    #[test]
    fn the_largest_fabrics_fit() {
        let (_, fat_tree) = addressed(Shape::FatTree { k: 48 });
        assert_eq!(fat_tree.pod(47).unwrap().to_string(), "10.48.0.0/16");
        let (vl2, a) = addressed(Shape::Clos { agg_ports: 144, int_ports: 144, hosts_per_tor: 20 });
        assert_eq!(a.host(HostId(103_679)).to_string(), "10.72.72.21");
        assert_eq!(vl2.host_count(), a.by_locator.len() - vl2.switch_count());
        let (_, one) = addressed(Shape::Switch { hosts: 1 << 18 });
        assert_eq!(one.rack(RackId(0)).len, 13);
    }

    #[test]
    fn a_switch_of_two_racks_has_one_locator() {
        let mut b = FabricBuilder::new("two NICs");
        let [s0, s1] = [0, 1].map(|i| b.switch(format!("s{i}"), 1, None));
        for (i, switches) in [vec![s0, s1], vec![s1], vec![s0, s1]].into_iter().enumerate() {
            let host = b.host(format!("h{i}"), None);
            switches.into_iter().for_each(|s| b.cable(host, s, LINK.rate, LINK.delay));
        }
        let fabric = b.build().unwrap();
        check(&fabric, &Addressing::new(&fabric).unwrap());
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        // 70 pods, one with many racks, one with a large rack: each field must be as wide as its largest.
        let mut b = FabricBuilder::new("uneven");
        let core = b.switch("core", 2, None);
        let racks = (0..70).map(|p| (p, 1)).chain((0..600).map(|_| (70, 1))).chain([(71, 2_000)]);
        for (r, (pod, hosts)) in racks.enumerate() {
            let edge = b.switch(format!("e{r}"), 1, Some(pod));
            b.cable(edge, core, LINK.rate, LINK.delay);
            for i in 0..hosts {
                let host = b.host(format!("h{r}-{i}"), Some(pod));
                b.cable(host, edge, LINK.rate, LINK.delay);
            }
        }
        let error = Addressing::new(&b.build().unwrap()).unwrap_err();
        assert_eq!(error, AddressError::LocatorsDoNotFit { needed: 28, pods: 72, racks: 600, nodes: 2_001 });
    }

    #[test]
    fn addresses_parse_back() {
        assert_eq!("20.0.0.16".parse(), Ok(AppAddr(APP_BASE + 16)));
        assert_eq!(LocAddr(LOC_BASE | 0x01_02_03).to_string().parse(), Ok(LocAddr(LOC_BASE | 0x01_02_03)));
        for text in ["", "10.0.0.1", "20.0.0", "20.0.0.256", "twenty"] {
            assert!(text.parse::<AppAddr>().is_err(), "{text}");
        }
    }
}
