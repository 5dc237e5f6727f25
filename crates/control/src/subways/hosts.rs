//! Every host's paths in both directions: its NICs, and the detours that were given to it.

use weft_fabric::routing::{AccessPath, Direction, Path};
use weft_fabric::topology::Health;
use weft_fabric::{Fabric, HostId, LinkId, NodeId};

use crate::subways::detour::{Plan, RackPath};
use crate::subways::ring::Ring;

/// Both directions, in the order of their numbers.
pub const DIRECTIONS: [Direction; 2] = [Direction::Out, Direction::In];

/// A host in a loop, as a source or as a destination.
#[derive(Clone, Debug)]
pub struct End {
    pub host: HostId,
    /// Number of the loop.
    pub ring: usize,
    /// Its NICs.
    pub nics: Vec<HostLane>,
    /// What it may use now.
    pub lanes: Vec<HostLane>,
    /// The paths that were sent to the world last.
    pub sent: Option<Vec<AccessPath>>,
}

impl End {
    /// The NICs that it may use now.
    pub fn direct(&self) -> impl Iterator<Item = &HostLane> {
        self.lanes.iter().filter(|lane| lane.detour.is_none())
    }
}

/// One of a host's paths.
#[derive(Clone, Debug, PartialEq)]
pub struct HostLane {
    pub links: Path,
    /// Position of the ToR at its far end.
    pub tor: usize,
    /// What its rack may send over the detour, and this host, in bits per second; `None` for a NIC.
    pub detour: Option<Share>,
    /// The rate of the host's own link, bits per second.
    pub nic: f64,
    /// Bytes of the host's flows that took it since the last rebinding.
    pub bytes: u64,
}

/// What a detour may carry, in bits per second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Share {
    pub rack: f64,
    pub host: f64,
}

/// The ends of all hosts.
#[derive(Clone, Debug)]
pub struct Ends {
    /// By direction.
    ends: [Vec<End>; 2],
    /// By host: where it stands in both lists.
    place: Vec<Option<u32>>,
    /// By host: whether it takes detours and forwards for others.
    detours: Vec<bool>,
}

impl Ends {
    /// Every host of the loops has its NICs.
    pub fn new(fabric: &Fabric, rings: &[Ring]) -> Self {
        let mut place = vec![None; fabric.host_count()];
        let mut ends = [Vec::new(), Vec::new()];
        for (number, ring) in rings.iter().enumerate() {
            for rack in &ring.racks {
                for &host in &rack.hosts {
                    place[host.index()] = Some(ends[0].len() as u32);
                    for direction in DIRECTIONS {
                        let nics = nics(fabric, ring, host, direction);
                        ends[direction as usize].push(End { host, ring: number, lanes: nics.clone(), nics, sent: None });
                    }
                }
            }
        }
        Self { ends, place, detours: vec![true; fabric.host_count()] }
    }

    /// Where a host stands; `None` if it has no choice.
    pub fn place(&self, host: HostId) -> Option<usize> {
        self.place[host.index()].map(|p| p as usize)
    }

    pub fn of(&self, direction: Direction) -> &[End] {
        &self.ends[direction as usize]
    }

    pub fn of_mut(&mut self, direction: Direction) -> &mut [End] {
        &mut self.ends[direction as usize]
    }

    /// From the next delivery on, a host takes part in detours or does not; whether that is new.
    pub fn set_detours(&mut self, host: HostId, takes_part: bool) -> bool {
        std::mem::replace(&mut self.detours[host.index()], takes_part) != takes_part
    }

    /// Gives the hosts of a loop their NICs that work, but those left to others, and the detours of a plan. Bytes stay with paths that stay.
    pub fn deliver(&mut self, fabric: &Fabric, health: &Health, ring: &Ring, direction: Direction, plan: &Plan) {
        for (r, rack) in ring.racks.iter().enumerate() {
            for (turn, &host) in rack.hosts.iter().enumerate() {
                let place = self.place[host.index()].expect("it is in the loop") as usize;
                let end = &mut self.ends[direction as usize][place];
                let leaves = plan.leaves.get(r).map_or(&[][..], |l| l);
                let mut lanes: Vec<HostLane> = end.nics.iter().filter(|n| !leaves.contains(&n.tor)).cloned().collect();
                let takes_part = direction == Direction::In || self.detours[host.index()];
                for egress in plan.egresses.iter().filter(|_| takes_part) {
                    for path in egress.paths.iter().filter(|p| p.source == r) {
                        let to = Detour { host, turn, path, egress: egress.tor, direction };
                        let Some(links) = concrete(fabric, ring, &self.detours, &to) else { continue };
                        let share = Share { rack: path.usable, host: path.usable / rack.hosts.len() as f64 };
                        let nic = fabric.link(links[0]).capacity.as_f64();
                        lanes.push(HostLane { links, tor: egress.tor, detour: Some(share), nic, bytes: 0 });
                    }
                }
                if lanes.iter().any(|l| health.path_is_up(&l.links)) {
                    lanes.retain(|l| health.path_is_up(&l.links));
                }
                for lane in &mut lanes {
                    lane.bytes = end.lanes.iter().find(|old| old.links == lane.links).map_or(0, |old| old.bytes);
                }
                end.lanes = lanes;
            }
        }
    }
}

fn nics(fabric: &Fabric, ring: &Ring, host: HostId, direction: Direction) -> Vec<HostLane> {
    let lanes = fabric.out(host.node()).iter().map(|&nic| {
        let tor = position(fabric, ring, fabric.link(nic).to);
        let links = Path::from_slice(&[if direction == Direction::Out { nic } else { nic.reverse() }]);
        HostLane { links, tor, detour: None, nic: fabric.link(nic).capacity.as_f64(), bytes: 0 }
    });
    lanes.collect()
}

/// A rack's detour as one of its hosts has it.
struct Detour<'a> {
    host: HostId,
    /// The number of the host in its rack.
    turn: usize,
    path: &'a RackPath,
    egress: usize,
    direction: Direction,
}

/// A detour with servers for racks: the `turn`-th server of the source's rack goes through the `turn`-th of each rack on the way that forwards, so
/// that they forward equally much. `None` if a rack has none that does.
fn concrete(fabric: &Fabric, ring: &Ring, forwards: &[bool], detour: &Detour<'_>) -> Option<Path> {
    let &Detour { host, turn, path, egress, direction } = detour;
    let tor = |position: usize| fabric.switch_node(ring.tors[position]);
    let mut links = Path::from_slice(&[nic_to(fabric, host, tor(path.hops[0].0))]);
    for (i, &(from, rack)) in path.hops.iter().enumerate() {
        let server = server(&ring.racks[rack].hosts, forwards, turn)?;
        let to = path.hops.get(i + 1).map_or(egress, |h| h.0);
        links.push(nic_to(fabric, server, tor(from)).reverse());
        links.push(nic_to(fabric, server, tor(to)));
    }
    if direction == Direction::In {
        links.reverse();
        links.iter_mut().for_each(|l| *l = l.reverse());
    }
    Some(links)
}

/// The `turn`-th of a rack's servers, or of those that forward if that one does not.
fn server(rack: &[HostId], forwards: &[bool], turn: usize) -> Option<HostId> {
    let own = rack[turn % rack.len()];
    if forwards[own.index()] {
        return Some(own);
    }
    let others: Vec<HostId> = rack.iter().copied().filter(|host| forwards[host.index()]).collect();
    (!others.is_empty()).then(|| others[turn % others.len()])
}

fn nic_to(fabric: &Fabric, host: HostId, tor: NodeId) -> LinkId {
    let nics = fabric.out(host.node());
    *nics.iter().find(|&&l| fabric.link(l).to == tor).expect("the hosts of a rack are on its ToRs")
}

fn position(fabric: &Fabric, ring: &Ring, tor: NodeId) -> usize {
    let switch = fabric.as_switch(tor).expect("hosts touch only switches");
    ring.tors.iter().position(|&t| t == switch).expect("all ToRs of its hosts are in the loop")
}
