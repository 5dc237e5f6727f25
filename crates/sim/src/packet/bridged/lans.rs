//! The bridged network: which ports each VLAN has at each switch, and which VLANs lead from edge switch to edge switch.
//!
//! VLAN 0 is what carries untagged frames: a spanning tree, breadth first from the first switch of the highest tier. The others are SPAIN's.
//! Branches without hosts are left out: nothing ever comes from there, and what is flooded into them has no effect but on their own cables.

use weft_fabric::routing::spain::{Plan, VlanId};
use weft_fabric::routing::trees::{prune, spanning_tree};
use weft_fabric::topology::Health;
use weft_fabric::{CableId, Fabric, HostId, LinkId, SwitchId};

/// The network below the frames.
#[derive(Debug)]
pub(super) struct Lans {
    /// By switch and VLAN, and one more: its first port.
    first: Vec<u32>,
    /// Links that leave switches.
    ports: Vec<u32>,
    /// By host that takes part: its switch, the link to it, and the link from it; `u32::MAX` for the others.
    attached: Vec<Attached>,
    /// By VLAN: its cables.
    trees: Vec<Vec<CableId>>,
    /// By link: whether the spanning tree has it.
    in_tree: Vec<bool>,
    /// By place of the one edge switch and the other: the VLANs between them.
    between: Vec<Vec<VlanId>>,
    /// By switch: its place among the edge switches.
    place: Vec<u32>,
    edges: usize,
}

/// How a host hangs on the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Attached {
    /// Number of the switch.
    pub edge: u32,
    /// The host's link to it.
    pub up: u32,
    /// The switch's link to the host.
    pub down: u32,
}

const NOWHERE: Attached = Attached { edge: u32::MAX, up: u32::MAX, down: u32::MAX };

impl Lans {
    /// The network between these hosts; without a plan it has the spanning tree of what works alone.
    pub fn new(fabric: &Fabric, hosts: &[HostId], plan: Option<&Plan>, health: &Health) -> Self {
        let mut attached = vec![NOWHERE; fabric.host_count()];
        let mut hosts_of: Vec<Vec<u32>> = vec![Vec::new(); fabric.switch_count()];
        for &host in hosts {
            let up = fabric.out(host.node())[0];
            let edge = fabric.as_switch(fabric.link(up).to).expect("hosts touch only switches");
            attached[host.index()] = Attached { edge: edge.0, up: up.0, down: up.reverse().0 };
            hosts_of[edge.index()].push(up.reverse().0);
        }
        let mut trees = vec![spanning_tree(fabric, health)];
        trees.extend(plan.iter().flat_map(|plan| plan.vlans()).map(|(_, cables)| cables.to_vec()));
        for tree in &mut trees {
            prune(fabric, |s| !hosts_of[s.index()].is_empty(), tree);
        }
        let (first, ports) = port_lists(fabric, &hosts_of, &trees);
        let edges: Vec<SwitchId> = fabric.switches().filter(|s| !hosts_of[s.index()].is_empty()).collect();
        let mut place = vec![u32::MAX; fabric.switch_count()];
        for (i, edge) in edges.iter().enumerate() {
            place[edge.index()] = i as u32;
        }
        let mut in_tree = vec![false; fabric.links().len()];
        let of_hosts = hosts_of.iter().flatten().map(|&down| LinkId(down).cable());
        trees[0].iter().copied().chain(of_hosts).flat_map(|c| c.links()).for_each(|link| in_tree[link.index()] = true);
        let mut lans = Self { first, ports, attached, trees, in_tree, between: Vec::new(), place, edges: edges.len() };
        for &a in &edges {
            for &b in &edges {
                let vlans = match plan {
                    None => vec![VlanId(0)],
                    // One way is all there is.
                    Some(_) if a == b => vec![lans.first_of(a)],
                    Some(plan) => plan.vlans_between(a, b).collect(),
                };
                lans.between.push(vlans);
            }
        }
        lans
    }

    /// The ports of a VLAN at a switch: links that leave it.
    #[inline]
    pub fn ports(&self, switch: u32, vlan: u16) -> std::ops::Range<usize> {
        let at = switch as usize * self.trees.len() + usize::from(vlan);
        self.first[at] as usize..self.first[at + 1] as usize
    }

    /// A port by its place in such a range.
    #[inline]
    pub fn port(&self, at: usize) -> u32 {
        self.ports[at]
    }

    /// How a host is attached.
    #[inline]
    pub fn attached(&self, host: u32) -> Attached {
        self.attached[host as usize]
    }

    /// The VLANs between the switches of two hosts.
    pub fn between(&self, a: u32, b: u32) -> &[VlanId] {
        let [a, b] = [a, b].map(|h| self.place_of(h) as usize);
        &self.between[a * self.edges + b]
    }

    /// The place of a host's switch among the edge switches.
    #[inline]
    pub fn place_of(&self, host: u32) -> u32 {
        self.place[self.attached[host as usize].edge as usize]
    }

    /// By place: the VLANs from the switch of a host.
    pub fn from(&self, host: u32) -> &[Vec<VlanId>] {
        &self.between[self.place_of(host) as usize * self.edges..][..self.edges]
    }

    /// By VLAN: its cables between switches.
    pub fn trees(&self) -> &[Vec<CableId>] {
        &self.trees
    }

    /// Whether the spanning tree has a link.
    #[inline]
    pub fn is_in_tree(&self, link: u32) -> bool {
        self.in_tree[link as usize]
    }

    /// The lowest VLAN of SPAIN that has a port at a switch besides those of hosts; 0 if none has.
    fn first_of(&self, switch: SwitchId) -> VlanId {
        let found = (1..self.trees.len() as u16).find(|&v| !self.ports(switch.0, v).is_empty());
        VlanId(found.unwrap_or(0))
    }
}

/// The ports of each VLAN at each switch, those to switches first.
fn port_lists(fabric: &Fabric, hosts_of: &[Vec<u32>], trees: &[Vec<CableId>]) -> (Vec<u32>, Vec<u32>) {
    let mut lists: Vec<Vec<u32>> = vec![Vec::new(); fabric.switch_count() * trees.len()];
    for (vlan, cables) in trees.iter().enumerate() {
        for link in cables.iter().flat_map(|c| c.links()) {
            let from = fabric.as_switch(fabric.link(link).from).expect("a cable between switches");
            lists[from.index() * trees.len() + vlan].push(link.0);
        }
    }
    for (switch, hosts) in hosts_of.iter().enumerate() {
        for vlan in 0..trees.len() {
            let list = &mut lists[switch * trees.len() + vlan];
            if vlan == 0 || !list.is_empty() {
                list.extend_from_slice(hosts);
            }
        }
    }
    let mut first = vec![0];
    let mut ports = Vec::new();
    for list in lists {
        ports.extend_from_slice(&list);
        first.push(ports.len() as u32);
    }
    (first, ports)
}
