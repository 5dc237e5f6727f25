//! An agent's part in detours (Subways section 6): the lists that a scheduler sends.
//!
//! ```text
//!   parts of a list --> whole --> paths of hosts with detours --> Router, data plane
//!                            `--> permits ----------------------> data plane
//!   nothing new for `valid`, or no scheduler: no detours, no permits
//! ```
//! An agent reports what it has forwarded to schedulers that have detours, and to no others: they know by it that it takes part.

use std::collections::BTreeMap;

use weft_fabric::routing::{AccessPath, Direction, Path};
use weft_fabric::{HostId, LinkId};

use super::{AccessHost, HostOutput};
use crate::time::{Duration, Instant};
use crate::wire::subways::{AccessRecord, DetourOrders, FIRST_DETOUR, Forwarded, Permit};

/// The lists of a scheduler.
#[derive(Debug, Default)]
pub(super) struct DetourLists {
    /// In force: access paths with their numbers.
    paths: BTreeMap<(HostId, Direction), Vec<(AccessPath, u8)>>,
    /// Until when.
    until: Option<Instant>,
    /// The list of which parts have come, its generation first.
    pending: (u64, u64),
    parts: BTreeMap<u8, (Vec<AccessRecord>, Vec<Permit>)>,
    asked: Option<Instant>,
    /// What the data plane has forwarded.
    pub forwarded: Forwarded,
}

impl DetourLists {
    /// When the list lapses.
    pub const fn lapses_at(&self) -> Option<Instant> {
        self.until
    }

    /// Whether a scheduler wants to know who takes part.
    pub fn are_asked_for(&self, now: Instant) -> bool {
        self.asked.is_some_and(|asked| now.saturating_since(asked) < ASKED)
    }

    /// The access paths of a host that has others than its NICs by the weights of ToRs.
    pub fn paths_of(&self, host: HostId, direction: Direction) -> Option<&[(AccessPath, u8)]> {
        self.paths.get(&(host, direction)).map(Vec::as_slice)
    }
}

impl AccessHost {
    /// Detours of this host's flows, and of flows that arrive at others, that it knows.
    pub fn detours(&self) -> usize {
        self.detours.paths.values().flatten().filter(|(path, _)| path.links.len() > 1).count()
    }

    pub(super) fn take_list(&mut self, now: Instant, orders: DetourOrders) {
        let lists = &mut self.detours;
        lists.asked = Some(now);
        if lists.pending != (orders.generation, orders.list) {
            lists.pending = (orders.generation, orders.list);
            lists.parts.clear();
        }
        lists.parts.insert(orders.part, (orders.paths, orders.permits));
        if lists.parts.len() < usize::from(orders.parts) {
            return;
        }
        let (paths, permits): (Vec<_>, Vec<_>) = std::mem::take(&mut lists.parts).into_values().unzip();
        let valid = orders.valid.min(VALID_MAX);
        lists.until = Some(now + valid);
        self.apply(paths.concat(), permits.concat(), valid);
    }

    /// No detours any more.
    pub(super) fn drop_detours(&mut self) {
        self.detours.until = None;
        self.apply(Vec::new(), Vec::new(), Duration::ZERO);
    }

    fn apply(&mut self, records: Vec<AccessRecord>, permits: Vec<Permit>, valid: Duration) {
        let mut paths: BTreeMap<(HostId, Direction), Vec<(AccessPath, u8)>> = BTreeMap::new();
        let mut used = Vec::new();
        for record in records {
            let Some(host) = self.config.addresses.host_of(record.host) else { continue };
            // Others' leaving paths are not for this host, nor its own arriving ones.
            let Some(links) =
                self.links(host, &record).filter(|_| (host == self.config.host) == (record.direction == Direction::Out))
            else {
                continue;
            };
            let path = AccessPath { links, weight: u64::from(record.weight) * 1000, limit: None };
            paths.entry((host, record.direction)).or_default().push((path, record.number));
            used.extend((!record.hops.is_empty()).then_some(record));
        }
        self.outputs.push_back(HostOutput::Detours(used, valid));
        self.outputs.push_back(HostOutput::Permits(permits, valid));
        if paths != self.detours.paths {
            self.detours.paths = paths;
            self.draw_slots();
        }
    }

    /// The links of a path; `None` if there is none such in the fabric.
    fn links(&self, host: HostId, record: &AccessRecord) -> Option<Path> {
        let addresses = &self.config.addresses;
        let nic = addresses.link(host, record.nic)?;
        let mut links = Path::new();
        for hop in &record.hops {
            let (server, into) = addresses.nic_of(hop.via)?;
            links.push(addresses.link(server, into)?.reverse());
            links.push(addresses.link(server, hop.out)?);
        }
        match record.direction {
            Direction::Out => links.insert(0, nic),
            Direction::In => links.push(nic.reverse()),
        }
        let fabric = addresses.fabric();
        let joins = |pair: &[LinkId]| fabric.link(pair[0]).to == fabric.link(pair[1]).from;
        links.windows(2).all(joins).then_some(links)
    }

    /// The number of an access path of a host.
    pub(super) fn number_of(&self, host: HostId, direction: Direction, links: &[LinkId]) -> Option<u8> {
        if let [link] = links {
            return self.config.addresses.nic(host, if direction == Direction::Out { *link } else { link.reverse() });
        }
        let listed = self.detours.paths_of(host, direction)?;
        listed.iter().find(|(path, _)| path.links[..] == *links).map(|(_, number)| *number)
    }

    /// The reverse.
    pub(super) fn links_of(&self, host: HostId, direction: Direction, number: u8) -> Option<Path> {
        if number >= FIRST_DETOUR {
            let listed = self.detours.paths_of(host, direction)?;
            return listed.iter().find(|(_, it)| *it == number).map(|(path, _)| path.links.clone());
        }
        let link = self.config.addresses.link(host, number)?;
        Some(Path::from_slice(&[if direction == Direction::Out { link } else { link.reverse() }]))
    }
}

/// A scheduler that has sent no list for so long is not interested.
const ASKED: Duration = Duration::from_secs(10);
/// A list holds no longer.
const VALID_MAX: Duration = Duration::from_secs(10);
