//! The graph: hosts and switches as nodes, cables as pairs of directed links.
//!
//! ```text
//!   tier 3   core0  core1  ...        roots: the highest tier
//!               \  /
//!   tier 2   pod0-agg0 ...
//!               |
//!   tier 1   pod0-edge0 ...           edge switches; hosts with the same ones form a rack
//!            /     \
//!   tier 0  h0     h1
//! ```
//! Properties that [`FabricBuilder::build`] checks and everything else relies on:
//! names are unique; every capacity is positive and no more than 1000 Tbps, and their sum over all cables holds in 63 bits; every host has a link and touches only switches;
//! every node can reach every other one.

use rustc_hash::FxHashMap;

use crate::ids::{CableId, HostId, LinkId, NodeId, RackId, SwitchId};
use crate::time::Duration;
use crate::units::BitsPerSec;

/// A host or a switch.
#[derive(Clone, Debug)]
pub struct Node {
    /// Unique name: `h0`, `pod0-edge1`, `core3`.
    pub name: Box<str>,
    /// 0 for hosts, 1 for edge switches, and so on upwards.
    pub tier: u8,
    /// The pod: a subgrouping below the roots (Hedera section 3.1); `None` for roots.
    pub pod: Option<u32>,
}

/// One direction of a cable.
#[derive(Clone, Copy, Debug)]
pub struct Link {
    /// The sending node.
    pub from: NodeId,
    /// The receiving node.
    pub to: NodeId,
    /// Bits per second in this direction.
    pub capacity: BitsPerSec,
    /// Propagation delay.
    pub delay: Duration,
}

/// Hosts that attach to the same switches.
#[derive(Clone, Debug)]
pub struct Rack {
    /// The switches, in the order of the hosts' NICs.
    pub switches: Vec<SwitchId>,
    /// The hosts, ascending.
    pub hosts: Vec<HostId>,
}

/// A network: immutable once built. What has failed is in [`super::Health`].
#[derive(Clone, Debug)]
pub struct Fabric {
    title: String,
    hosts: u32,
    nodes: Vec<Node>,
    links: Vec<Link>,
    out_start: Vec<u32>,
    out_links: Vec<LinkId>,
    racks: Vec<Rack>,
    rack_of: Vec<RackId>,
    by_name: FxHashMap<Box<str>, NodeId>,
}

/// What is wrong with a graph.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)]
pub enum FabricError {
    #[error("the fabric has no hosts")]
    NoHosts,
    #[error("two nodes are called `{0}`")]
    DuplicateName(String),
    #[error("host `{0}` has no link")]
    HostWithoutLink(String),
    #[error("host `{0}` is linked to host `{1}`: hosts attach to switches")]
    HostToHost(String, String),
    #[error("`{0}` is linked to itself")]
    SelfLink(String),
    #[error("the link `{0}-{1}` has no capacity")]
    NoCapacity(String, String),
    #[error("the link `{0}-{1}` has {2}: a link has at most {max}, choose a lower rate", max = BitsPerSec::MAX_READ)]
    TooFast(String, String, BitsPerSec),
    #[error("the cables carry {bps} bps together: a fabric has at most {MAX_TOTAL_BPS}, choose lower rates or fewer cables")]
    TooFastTogether { bps: u128 },
    #[error("the fabric is disconnected: `{from}` cannot reach `{to}`")]
    Disconnected { from: String, to: String },
    #[error("{parameter} = {value}: {rule}")]
    Parameter { parameter: &'static str, value: String, rule: String },
}

impl Fabric {
    /// What the fabric is, in a line: `fat-tree, k = 4`.
    pub fn title(&self) -> &str {
        &self.title
    }

    /// Number of hosts.
    pub fn host_count(&self) -> usize {
        self.hosts as usize
    }

    /// Number of switches.
    pub fn switch_count(&self) -> usize {
        self.nodes.len() - self.host_count()
    }

    /// All hosts, ascending.
    pub fn hosts(&self) -> impl ExactSizeIterator<Item = HostId> + use<> {
        (0..self.hosts).map(HostId)
    }

    /// All switches, ascending.
    pub fn switches(&self) -> impl ExactSizeIterator<Item = SwitchId> + use<> {
        (0..self.nodes.len() as u32 - self.hosts).map(SwitchId)
    }

    /// Hosts, then switches.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// All directed links, by id.
    pub fn links(&self) -> &[Link] {
        &self.links
    }

    /// All cables, ascending.
    pub fn cables(&self) -> impl ExactSizeIterator<Item = CableId> + use<> {
        (0..self.links.len() as u32 / 2).map(CableId)
    }

    /// A node.
    pub fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id.index()]
    }

    /// A link.
    #[inline]
    pub fn link(&self, id: LinkId) -> &Link {
        &self.links[id.index()]
    }

    /// The links that leave a node, in the order in which its cables were added.
    #[inline]
    pub fn out(&self, id: NodeId) -> &[LinkId] {
        let i = id.index();
        &self.out_links[self.out_start[i] as usize..self.out_start[i + 1] as usize]
    }

    /// The switch as a node of the graph.
    #[inline]
    pub const fn switch_node(&self, id: SwitchId) -> NodeId {
        NodeId(self.hosts + id.0)
    }

    /// The node as a host, if it is one.
    #[inline]
    pub const fn as_host(&self, id: NodeId) -> Option<HostId> {
        if id.0 < self.hosts { Some(HostId(id.0)) } else { None }
    }

    /// The node as a switch, if it is one.
    #[inline]
    pub const fn as_switch(&self, id: NodeId) -> Option<SwitchId> {
        if id.0 < self.hosts { None } else { Some(SwitchId(id.0 - self.hosts)) }
    }

    /// Groups of hosts with the same switches, in the order of their first host.
    pub fn racks(&self) -> &[Rack] {
        &self.racks
    }

    /// The rack of a host.
    #[inline]
    pub fn rack_of(&self, host: HostId) -> RackId {
        self.rack_of[host.index()]
    }

    /// The pod of a host; hosts of a fabric without pods are all in pod 0.
    pub fn pod_of(&self, host: HostId) -> u32 {
        self.nodes[host.index()].pod.unwrap_or(0)
    }

    /// The highest tier: 1 where all switches are edge switches.
    pub fn top_tier(&self) -> u8 {
        self.nodes.iter().map(|n| n.tier).max().unwrap_or(0)
    }

    /// The switches of a tier, ascending.
    pub fn switches_of_tier(&self, tier: u8) -> impl Iterator<Item = SwitchId> + '_ {
        self.switches().filter(move |&s| self.node(self.switch_node(s)).tier == tier)
    }

    /// What a host's NICs can send, together.
    pub fn nic_capacity(&self, host: HostId) -> BitsPerSec {
        BitsPerSec(self.out(host.node()).iter().map(|&l| self.link(l).capacity.0).sum())
    }

    /// The same network with the rates of its links times `scale`, rounded to whole bits a second.
    #[must_use]
    pub fn scaled(mut self, scale: f64) -> Self {
        for link in &mut self.links {
            link.capacity = BitsPerSec((link.capacity.as_f64() * scale).round() as u64);
        }
        self
    }

    /// The node of that name.
    pub fn node_by_name(&self, name: &str) -> Option<NodeId> {
        self.by_name.get(name).copied()
    }

    /// The first cable between two nodes, in either direction.
    pub fn cable_between(&self, a: NodeId, b: NodeId) -> Option<CableId> {
        self.out(a).iter().find(|&&l| self.link(l).to == b).map(|l| l.cable())
    }

    /// `from-to`, by name.
    pub fn link_name(&self, id: LinkId) -> String {
        let link = self.link(id);
        format!("{}-{}", self.node(link.from).name, self.node(link.to).name)
    }
}

/// Collects nodes and cables; [`FabricBuilder::build`] checks them.
#[derive(Debug, Default)]
pub struct FabricBuilder {
    title: String,
    hosts: Vec<Node>,
    switches: Vec<Node>,
    cables: Vec<Cable>,
}

/// A node while the graph is being built: hosts and switches are still counted apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum End {
    Host(HostId),
    Switch(SwitchId),
}

#[derive(Debug)]
struct Cable {
    ends: [End; 2],
    capacity: BitsPerSec,
    delay: Duration,
}

impl From<HostId> for End {
    fn from(id: HostId) -> Self {
        Self::Host(id)
    }
}

impl From<SwitchId> for End {
    fn from(id: SwitchId) -> Self {
        Self::Switch(id)
    }
}

impl FabricBuilder {
    /// An empty graph; the title says what it is in a line.
    pub fn new(title: impl Into<String>) -> Self {
        Self { title: title.into(), ..Self::default() }
    }

    /// Adds the next host.
    pub fn host(&mut self, name: impl Into<Box<str>>, pod: Option<u32>) -> HostId {
        self.hosts.push(Node { name: name.into(), tier: 0, pod });
        HostId::from(self.hosts.len() - 1)
    }

    /// Adds the next switch.
    pub fn switch(&mut self, name: impl Into<Box<str>>, tier: u8, pod: Option<u32>) -> SwitchId {
        self.switches.push(Node { name: name.into(), tier, pod });
        SwitchId::from(self.switches.len() - 1)
    }

    /// Adds a cable: link `2c` runs from `a` to `b`, link `2c + 1` back.
    pub fn cable(&mut self, a: impl Into<End>, b: impl Into<End>, capacity: BitsPerSec, delay: Duration) {
        self.cables.push(Cable { ends: [a.into(), b.into()], capacity, delay });
    }

    /// Checks the graph and indexes it.
    ///
    /// # Errors
    /// [`FabricError`], naming the first part that breaks a property listed at the head of the module.
    pub fn build(self) -> Result<Fabric, FabricError> {
        let hosts = self.hosts.len() as u32;
        if hosts == 0 {
            return Err(FabricError::NoHosts);
        }
        let node_of = |end: End| match end {
            End::Host(h) => NodeId(h.0),
            End::Switch(s) => NodeId(hosts + s.0),
        };
        let mut links = Vec::with_capacity(self.cables.len() * 2);
        for cable in &self.cables {
            let [from, to] = cable.ends.map(node_of);
            links.push(Link { from, to, capacity: cable.capacity, delay: cable.delay });
            links.push(Link { from: to, to: from, capacity: cable.capacity, delay: cable.delay });
        }
        let mut nodes = self.hosts;
        nodes.extend(self.switches);
        let by_name = index_names(&nodes)?;
        check_links(&nodes, &links)?;
        let (out_start, out_links) = index_out_links(nodes.len(), &links);
        let mut fabric = Fabric {
            title: self.title,
            hosts,
            nodes,
            links,
            out_start,
            out_links,
            racks: Vec::new(),
            rack_of: Vec::new(),
            by_name,
        };
        check_connected(&fabric)?;
        group_racks(&mut fabric)?;
        Ok(fabric)
    }
}

fn index_names(nodes: &[Node]) -> Result<FxHashMap<Box<str>, NodeId>, FabricError> {
    let mut by_name = FxHashMap::with_capacity_and_hasher(nodes.len(), rustc_hash::FxBuildHasher);
    for (i, node) in nodes.iter().enumerate() {
        if by_name.insert(node.name.clone(), NodeId::from(i)).is_some() {
            return Err(FabricError::DuplicateName(node.name.to_string()));
        }
    }
    Ok(by_name)
}

/// All cables of a fabric together, in one direction: sums over any of its links, each direction once, hold in 64 bits. It is 1.1 Tbps
/// for each cable of the largest fabric, and 92 Tbps for each of 100,000.
pub(crate) const MAX_TOTAL_BPS: u64 = u64::MAX / 2;

fn check_links(nodes: &[Node], links: &[Link]) -> Result<(), FabricError> {
    let name = |n: NodeId| nodes[n.index()].name.to_string();
    for link in links.iter().step_by(2) {
        if link.from == link.to {
            return Err(FabricError::SelfLink(name(link.from)));
        }
        if link.capacity.0 == 0 {
            return Err(FabricError::NoCapacity(name(link.from), name(link.to)));
        }
        if link.capacity > BitsPerSec::MAX_READ {
            return Err(FabricError::TooFast(name(link.from), name(link.to), link.capacity));
        }
        if nodes[link.from.index()].tier == 0 && nodes[link.to.index()].tier == 0 {
            return Err(FabricError::HostToHost(name(link.from), name(link.to)));
        }
    }
    let bps: u128 = links.iter().step_by(2).map(|l| u128::from(l.capacity.0)).sum();
    if bps > u128::from(MAX_TOTAL_BPS) { Err(FabricError::TooFastTogether { bps }) } else { Ok(()) }
}

/// Compressed adjacency by counting sort, which keeps the order of the cables.
fn index_out_links(nodes: usize, links: &[Link]) -> (Vec<u32>, Vec<LinkId>) {
    let mut start = vec![0u32; nodes + 1];
    for link in links {
        start[link.from.index() + 1] += 1;
    }
    for i in 0..nodes {
        start[i + 1] += start[i];
    }
    let mut next = start.clone();
    let mut out = vec![LinkId(0); links.len()];
    for (i, link) in links.iter().enumerate() {
        let slot = &mut next[link.from.index()];
        out[*slot as usize] = LinkId::from(i);
        *slot += 1;
    }
    (start, out)
}

fn check_connected(fabric: &Fabric) -> Result<(), FabricError> {
    let mut seen = vec![false; fabric.nodes.len()];
    let mut stack = vec![NodeId(0)];
    seen[0] = true;
    while let Some(node) = stack.pop() {
        for &link in fabric.out(node) {
            let to = fabric.link(link).to;
            if !std::mem::replace(&mut seen[to.index()], true) {
                stack.push(to);
            }
        }
    }
    match seen.iter().position(|&s| !s) {
        None => Ok(()),
        Some(i) if i < fabric.host_count() && fabric.out(NodeId::from(i)).is_empty() => {
            Err(FabricError::HostWithoutLink(fabric.nodes[i].name.to_string()))
        }
        Some(i) => {
            Err(FabricError::Disconnected { from: fabric.nodes[0].name.to_string(), to: fabric.nodes[i].name.to_string() })
        }
    }
}

fn group_racks(fabric: &mut Fabric) -> Result<(), FabricError> {
    let mut by_switches: FxHashMap<Vec<SwitchId>, RackId> = FxHashMap::default();
    for host in fabric.hosts() {
        let out = fabric.out(host.node());
        if out.is_empty() {
            return Err(FabricError::HostWithoutLink(fabric.node(host.node()).name.to_string()));
        }
        let switches: Vec<SwitchId> =
            out.iter().map(|&l| fabric.as_switch(fabric.link(l).to).expect("hosts touch only switches: checked")).collect();
        let next = RackId::from(fabric.racks.len());
        let rack = *by_switches.entry(switches.clone()).or_insert(next);
        if rack == next {
            fabric.racks.push(Rack { switches, hosts: Vec::new() });
        }
        fabric.racks[rack.index()].hosts.push(host);
        fabric.rack_of.push(rack);
    }
    Ok(())
}
