//! Detours of agents (Subways section 6): who takes part, the numbers of detours, and the lists that agents get.
//!
//! ```text
//!   hosts' reports on detours ----> who takes part --Detours--> Controller
//!   Controller --SetAccessPaths---> paths of hosts with detours, each with a number --> lists: paths for sources, permits for servers that forward
//! ```
//! - A host that has not reported for a while takes no part: its flows have no detours, and none leads through it.
//! - A detour keeps its number while it lasts; the numbers of others are given again as late as possible, so that a report on the way means what it meant.

use std::collections::BTreeMap;

use weft_fabric::routing::{AccessPath, Direction, Path};
use weft_fabric::{BitsPerSec, HostId, LinkId, SwitchId};

use super::{AccessNetwork, Place};
use crate::controller::Input as ControllerInput;
use crate::time::{Duration, Instant};
use crate::wire::subways::{
    AccessRecord, DETOURS_MAX, DetourOrders, FIRST_DETOUR, ForwardReport, Forwarded, HOPS_MAX, Hop, PATHS_MAX, PERMITS_MAX,
    Permit,
};

/// Detours, as the agents know them.
#[derive(Debug, Default)]
pub(super) struct Detours {
    /// Hosts that take part: when their last report came, and what they have forwarded.
    participants: BTreeMap<HostId, (Instant, Forwarded)>,
    /// Access paths of hosts that have others than all their NICs by the weights of ToRs.
    paths: BTreeMap<(HostId, Direction), Vec<AccessPath>>,
    numbers: BTreeMap<(HostId, Direction), Numbers>,
    list: u64,
    offered: Option<Instant>,
}

/// The numbers of a host's detours in one direction.
#[derive(Clone, Debug, Default)]
struct Numbers {
    /// By number from [`FIRST_DETOUR`] on: the detour, and whether it is in use.
    taken: [Option<(Path, bool)>; PATHS_MAX - FIRST_DETOUR as usize],
    /// Where the next free one is looked for.
    next: usize,
}

/// How detours are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DetourStatus {
    /// Hosts that take part.
    pub participants: usize,
    /// Detours of hosts, in both directions.
    pub detours: usize,
    /// Flows that take one.
    pub flows: usize,
    /// What all hosts have forwarded.
    pub forwarded: Forwarded,
}

impl Numbers {
    /// Gives each detour a number, as far as there are any.
    fn assign<'a>(&mut self, detours: impl Iterator<Item = &'a Path> + Clone) {
        for entry in self.taken.iter_mut().flatten() {
            entry.1 = detours.clone().any(|path| *path == entry.0);
        }
        for path in detours {
            if self.number(path).is_some() {
                continue;
            }
            let count = self.taken.len();
            let is_free = |at: &usize| self.taken[*at].as_ref().is_none_or(|(_, is_used)| !is_used);
            let Some(at) = (0..count).map(|step| (self.next + step) % count).find(is_free) else { return };
            self.taken[at] = Some((path.clone(), true));
            self.next = (at + 1) % count;
        }
    }

    fn number(&self, links: &[LinkId]) -> Option<u8> {
        let at = self.taken.iter().position(|it| it.as_ref().is_some_and(|(path, _)| path[..] == *links))?;
        Some(FIRST_DETOUR + at as u8)
    }
}

impl AccessNetwork {
    /// Before the first report nobody takes part.
    pub(super) fn forget_participants(&mut self) {
        if self.settings.detours {
            for host in self.addresses.fabric().clone().hosts() {
                self.controller.handle(self.asked, ControllerInput::Detours(host, false));
            }
        }
    }

    /// A host reports on detours.
    pub(super) fn takes_part(&mut self, now: Instant, host: HostId, report: &ForwardReport) {
        let Some(agent) = self.agents.get_mut(&Place::Host(host)).filter(|_| self.superseded_by == 0) else { return };
        if report.head.generation != self.settings.generation || report.head.sequence <= agent.forward_sequence {
            return self.refusals.stale += 1;
        }
        agent.forward_sequence = report.head.sequence;
        if self.detours.participants.insert(host, (now, report.forwarded)).is_none() {
            self.controller.handle(self.asked, ControllerInput::Detours(host, true));
        }
    }

    pub(super) fn has_part(&self, host: HostId) -> bool {
        self.detours.participants.contains_key(&host)
    }

    /// Hosts that have not reported for a while take no part any more.
    pub(super) fn review_participants(&mut self, now: Instant) {
        let silent = self.every() * 3 + AWAY;
        let is_gone = |(_, (heard, _)): &(&HostId, &(Instant, Forwarded))| now.saturating_since(*heard) > silent;
        let gone: Vec<HostId> = self.detours.participants.iter().filter(is_gone).map(|(&host, _)| host).collect();
        for host in gone {
            self.detours.participants.remove(&host);
            self.controller.handle(self.asked, ControllerInput::Detours(host, false));
        }
        if self.settings.detours && self.detours.offered.is_none_or(|offered| now.saturating_since(offered) >= OFFER) {
            self.detours.offered = Some(now);
            let others: Vec<HostId> = self.addresses.fabric().hosts().filter(|&host| !self.has_part(host)).collect();
            others.into_iter().for_each(|host| self.send_list(host, &[], &[]));
        }
    }

    /// The access paths of a host: weights of ToRs if they are its NICs, else a list of its own.
    pub(super) fn set_paths(&mut self, host: HostId, direction: Direction, mut paths: Vec<AccessPath>) {
        let nics = self.addresses.of(host).len();
        let are_nics = paths.len() == nics && paths.iter().all(|path| path.links.len() == 1);
        if are_nics || !self.settings.detours {
            self.weigh(direction, &paths);
            if let Some(numbers) = self.detours.numbers.get_mut(&(host, direction)) {
                numbers.assign([].into_iter());
            }
            self.detours.paths.remove(&(host, direction));
            return;
        }
        paths.retain(|path| path.links.len() / 2 <= HOPS_MAX);
        let numbers = self.detours.numbers.entry((host, direction)).or_default();
        numbers.assign(paths.iter().filter(|path| path.links.len() > 1).map(|path| &path.links));
        paths.retain(|path| path.links.len() == 1 || numbers.number(&path.links).is_some());
        self.detours.paths.insert((host, direction), paths);
    }

    /// The number of an access path of a host: its NIC, or a detour.
    pub(super) fn number_of(&self, host: HostId, direction: Direction, links: &[LinkId]) -> Option<u8> {
        if let [link] = links {
            return self.addresses.nic(host, if direction == Direction::Out { *link } else { link.reverse() });
        }
        self.detours.numbers.get(&(host, direction))?.number(links)
    }

    /// The reverse.
    pub(super) fn links_of(&self, host: HostId, direction: Direction, number: u8) -> Option<Path> {
        if let Some(at) = number.checked_sub(FIRST_DETOUR) {
            let numbers = self.detours.numbers.get(&(host, direction))?;
            return numbers.taken.get(usize::from(at))?.as_ref().map(|(path, _)| path.clone());
        }
        let link = self.addresses.link(host, number)?;
        Some(Path::from_slice(&[if direction == Direction::Out { link } else { link.reverse() }]))
    }

    /// The ToR at the far end of a host's access path.
    pub fn remote_tor(&self, host: HostId, direction: Direction, number: u8) -> Option<SwitchId> {
        let (links, fabric) = (self.links_of(host, direction, number)?, self.addresses.fabric());
        fabric.as_switch(match direction {
            Direction::Out => fabric.link(*links.last()?).to,
            Direction::In => fabric.link(*links.first()?).from,
        })
    }

    pub(super) fn detour_status(&self) -> DetourStatus {
        let mut forwarded = Forwarded::default();
        for (_, it) in self.detours.participants.values() {
            forwarded.packets += it.packets;
            forwarded.bytes += it.bytes;
            forwarded.refused += it.refused;
            forwarded.over_rate += it.over_rate;
        }
        DetourStatus {
            participants: self.detours.participants.len(),
            detours: self.detours.paths.values().flatten().filter(|path| path.links.len() > 1).count(),
            flows: self.flows.values().filter(|it| it.nics.out.max(it.nics.into) >= FIRST_DETOUR).count(),
            forwarded,
        }
    }

    /// Sends each host that takes part the paths that its flows may take, and what it forwards.
    pub(super) fn send_lists(&mut self) {
        if self.detours.participants.is_empty() {
            return;
        }
        self.detours.list += 1;
        let mut arriving = Vec::new();
        let mut leaving: BTreeMap<HostId, Vec<AccessRecord>> = BTreeMap::new();
        let mut permits: BTreeMap<HostId, BTreeMap<Permit, u64>> = BTreeMap::new();
        for (&(host, direction), paths) in &self.detours.paths {
            for path in paths {
                let Some(record) = self.record(host, direction, path) else { continue };
                self.permit(host, &record, path.limit, &mut permits);
                match direction {
                    Direction::Out => leaving.entry(host).or_default().push(record),
                    Direction::In => arriving.push((host, record)),
                }
            }
        }
        for host in self.detours.participants.keys().copied().collect::<Vec<_>>() {
            let mut records = leaving.remove(&host).unwrap_or_default();
            records.extend(arriving.iter().filter(|(to, _)| *to != host).map(|(_, record)| record.clone()));
            let rated = |(permit, kbits): (Permit, u64)| Permit { rate: u32::try_from(kbits).unwrap_or(u32::MAX), ..permit };
            let permits: Vec<Permit> = permits.remove(&host).unwrap_or_default().into_iter().map(rated).collect();
            self.send_list(host, &records, &permits);
        }
    }

    /// A path as agents get it.
    fn record(&self, host: HostId, direction: Direction, path: &AccessPath) -> Option<AccessRecord> {
        let (addresses, links) = (&self.addresses, &path.links);
        let (nic, between) = match direction {
            Direction::Out => (links[0], &links[1..]),
            Direction::In => (links[links.len() - 1].reverse(), &links[..links.len() - 1]),
        };
        let hop = |pair: &[LinkId]| {
            let server = addresses.fabric().as_host(addresses.fabric().link(pair[0]).to)?;
            let into = addresses.nic(server, pair[0].reverse())?;
            Some(Hop { via: addresses.of(server)[usize::from(into)], out: addresses.nic(server, pair[1])? })
        };
        Some(AccessRecord {
            host: addresses.of(host)[0],
            weight: u32::try_from(path.weight / 1000).unwrap_or(u32::MAX),
            direction,
            number: self.number_of(host, direction, links)?,
            nic: addresses.nic(host, nic)?,
            hops: between.chunks(2).map(hop).collect::<Option<_>>()?,
        })
    }

    /// Adds what the servers on a path are to forward: packets of the host that sends, or those that go next to where they go.
    fn permit(
        &self,
        host: HostId,
        record: &AccessRecord,
        limit: Option<BitsPerSec>,
        permits: &mut BTreeMap<HostId, BTreeMap<Permit, u64>>,
    ) {
        let servers: Vec<HostId> = record.hops.iter().filter_map(|hop| Some(self.addresses.nic_of(hop.via)?.0)).collect();
        for (at, hop) in record.hops.iter().enumerate() {
            let Some((server, into)) = self.addresses.nic_of(hop.via) else { continue };
            let next = match record.direction {
                Direction::Out => host,
                Direction::In => servers.get(at + 1).copied().unwrap_or(host),
            };
            let (host, direction) = (self.addresses.of(next)[0], record.direction);
            let key = Permit { host, direction, into, out: hop.out, rate: 0 };
            *permits.entry(server).or_default().entry(key).or_default() += limit.map_or(0, |limit| limit.0 / 1000);
        }
    }

    /// Sends a list in as many messages as it needs; an empty one asks the agent whether it takes part.
    fn send_list(&mut self, host: HostId, records: &[AccessRecord], permits: &[Permit]) {
        let place = Place::Host(host);
        let Some((sequence, _)) = self.agents.get(&place).and_then(|agent| agent.complete) else { return };
        let parts = records.len().div_ceil(DETOURS_MAX).max(permits.len().div_ceil(PERMITS_MAX)).max(1);
        let (generation, list) = (self.settings.generation, self.detours.list);
        let (mut records, mut permits) = (records.chunks(DETOURS_MAX), permits.chunks(PERMITS_MAX));
        for part in 0..parts.min(PARTS_MAX) {
            let paths = records.next().unwrap_or_default().to_vec();
            let permits = permits.next().unwrap_or_default().to_vec();
            self.send_to(place, None, |member, number| {
                let orders = DetourOrders {
                    principal: member.principal,
                    sequence,
                    generation,
                    number,
                    valid: VALID,
                    list,
                    part: part as u8,
                    parts: parts.min(PARTS_MAX) as u8,
                    paths,
                    permits,
                };
                orders.emit(&member.key)
            });
        }
    }
}

/// A host that has not reported for three reports and this time takes no part.
const AWAY: Duration = Duration::from_ms(500);
/// A list holds for so long.
const VALID: Duration = Duration::from_secs(3);
/// From one question whether others take part to the next.
const OFFER: Duration = Duration::from_secs(1);
/// Messages of a list, at most.
const PARTS_MAX: usize = 255;
