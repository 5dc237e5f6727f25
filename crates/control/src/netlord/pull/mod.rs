//! Where VIFs are, from the directory: the resolver's cache and lookups behind the interface that NL-ARP has. The bindings are written by the system that places VMs
//! (`weft tenant add-vm --at`).
//!
//! ```text
//!   (tenant, space, MAC) --key--> locator edge:switch/port            (tenant, space, IP) --key--> locator, and the VIF's MAC
//! ```
//! What the kernel has from an earlier agent is used until the directory has answered for each ([`adopted`]).
//!
//! Stale entries are withdrawn by the resolver's sync, twice a second, or by a NOTHERE, after which the same place is not believed for a while.

mod adopted;

use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;

use weft_fabric::TenantId;

use super::locations::{Binding, LocationInput, LocationOutput, Locations, Query};
use super::{EdgePort, Location, Vif};
use crate::directory::resolver::{Input, Output, Resolution, Resolver};
use crate::directory::{Key, Locator, Mapping, Value};
use crate::time::{Duration, Instant};
use crate::wire::netlord::{Question, Unicast};
use adopted::Adopted;

/// How long a place is not believed after its agent has said that the VIF is not there: the directory's withdrawal takes half a second.
const DISTRUST: Duration = Duration::from_secs(1);
/// The most places that are not believed.
const DISTRUSTED_MAX: usize = 4096;

/// The machine.
#[derive(Debug)]
pub struct Pull {
    resolver: Resolver,
    local: BTreeMap<Vif, (Location, Vec<IpAddr>)>,
    local_ips: BTreeMap<Query, Vif>,
    known: BTreeMap<(Query, Vif), Binding>,
    seeking: BTreeMap<u64, (Query, Vif)>,
    last_token: u64,
    distrusted: BTreeMap<(Vif, Location), Instant>,
    adopted: Adopted,
    now: Instant,
    out: VecDeque<LocationOutput>,
}

impl Pull {
    /// A machine that asks with this resolver.
    pub fn new(resolver: Resolver) -> Self {
        Self {
            resolver,
            local: BTreeMap::new(),
            local_ips: BTreeMap::new(),
            known: BTreeMap::new(),
            seeking: BTreeMap::new(),
            last_token: 0,
            distrusted: BTreeMap::new(),
            adopted: Adopted::default(),
            now: Instant::ZERO,
            out: VecDeque::new(),
        }
    }

    /// Its resolver.
    pub const fn resolver(&self) -> &Resolver {
        &self.resolver
    }

    fn here(&self, query: Query) -> Option<Binding> {
        let vif = match query.what {
            Question::Mac(mac) => Vif { tenant: query.tenant, space: query.space, mac },
            Question::Ip(_) => *self.local_ips.get(&query)?,
        };
        self.local.get(&vif).map(|&(at, _)| Binding { vif, at })
    }

    fn start(&mut self, vif: Vif, at: Location, addresses: &[IpAddr]) {
        self.stop(vif);
        for &ip in addresses {
            self.local_ips.insert(Query::ip(vif.tenant, vif.space, ip), vif);
        }
        self.local.insert(vif, (at, addresses.to_vec()));
        self.adopted.ask_at(self.now);
    }

    fn stop(&mut self, vif: Vif) {
        let Some((_, addresses)) = self.local.remove(&vif) else { return };
        for ip in addresses {
            let query = Query::ip(vif.tenant, vif.space, ip);
            if self.local_ips.get(&query) == Some(&vif) {
                self.local_ips.remove(&query);
            }
        }
        self.known.retain(|(_, asker), _| *asker != vif);
    }

    fn seek(&mut self, asker: Vif, query: Query) {
        if let Some(binding) = self.here(query) {
            return self.out.push_back(LocationOutput::Sought { query, found: Some(binding) });
        }
        self.last_token += 1;
        self.seeking.insert(self.last_token, (query, asker));
        let input = Input::Resolve { key: key(query), asker: Some(key(Query::vif(asker))), token: self.last_token };
        self.resolver.handle(self.now, input);
    }

    /// Takes what the resolver wants done.
    fn drain(&mut self) {
        while let Some(output) = self.resolver.poll() {
            match output {
                Output::Send { to, bytes } => self.out.push_back(LocationOutput::Datagram { to, bytes }),
                Output::Resolved { token, resolution, .. } => self.resolved(token, &resolution),
                Output::Invalidated { key, asker } => self.invalidated(&key, asker.as_ref()),
            }
        }
    }

    fn resolved(&mut self, token: u64, resolution: &Resolution) {
        if self.adopted_resolved(token, resolution) {
            return;
        }
        let Some((query, asker)) = self.seeking.remove(&token) else { return };
        let found = match resolution {
            Resolution::Found(_, Value::Mapping(mapping)) => binding(query, mapping),
            _ => None,
        };
        let found = found.filter(|it| self.distrusted.get(&(it.vif, it.at)).is_none_or(|&until| until <= self.now));
        if let Some(binding) = found {
            self.known.insert((query, asker), binding);
        }
        self.out.push_back(LocationOutput::Sought { query, found });
    }

    fn invalidated(&mut self, key: &Key, asker: Option<&Key>) {
        let (Some(query), Some(Query { tenant, space, what: Question::Mac(mac) })) = (query(key), asker.and_then(query)) else {
            return;
        };
        if let Some(binding) = self.known.remove(&(query, Vif { tenant, space, mac })) {
            self.out.push_back(LocationOutput::Moved { vif: binding.vif, at: None });
        }
    }

    fn unicast(&mut self, message: Unicast) {
        let Unicast::NotHere { vif, at } = message else { return };
        let known = self.known.len();
        self.known.retain(|_, binding| *binding != Binding { vif, at });
        let was_adopted = self.adopted.remove_at(vif, at);
        if self.known.len() == known && !was_adopted {
            return;
        }
        self.distrusted.retain(|_, until| *until > self.now);
        if self.distrusted.len() < DISTRUSTED_MAX {
            self.distrusted.insert((vif, at), self.now.saturating_add(DISTRUST));
        }
        self.out.push_back(LocationOutput::Moved { vif, at: None });
    }
}

impl Locations for Pull {
    fn find(&self, asker: Vif, query: Query) -> Option<Binding> {
        self.here(query).or_else(|| self.known.get(&(query, asker)).copied()).or_else(|| self.adopted.find(query))
    }

    fn announces(&self, _: TenantId) -> bool {
        false
    }

    fn handle(&mut self, now: Instant, input: LocationInput<'_>) {
        self.now = now;
        match input {
            LocationInput::Start { vif, at, addresses } => self.start(vif, at, addresses),
            LocationInput::Stop(vif) => self.stop(vif),
            LocationInput::Seek { asker, query } => self.seek(asker, query),
            LocationInput::Unicast(message) => self.unicast(message),
            LocationInput::Servers(servers) => self.resolver.handle(now, Input::SetServers(servers)),
            LocationInput::Datagram { from, bytes } => self.resolver.handle(now, Input::Datagram { from, bytes }),
            LocationInput::Timer => self.resolver.handle(now, Input::Timer),
            LocationInput::Adopt { vif, at } => self.adopt(vif, at),
            // The directory corrects; it is not asked on a guess, and says itself who has an address.
            LocationInput::Release { .. }
            | LocationInput::Confirm(_)
            | LocationInput::Misdelivered { .. }
            | LocationInput::Broadcast { .. } => {}
        }
        self.adopted_timer();
    }

    fn poll(&mut self) -> Option<LocationOutput> {
        self.drain();
        self.out.pop_front()
    }

    fn deadline(&self) -> Option<Instant> {
        self.resolver.deadline().into_iter().chain(self.adopted.deadline()).min()
    }

    /// As the entries are: what the maps and the resolver's cache take besides is about as much again.
    fn table_bytes(&self) -> usize {
        self.known.len() * (size_of::<(Query, Vif)>() + size_of::<Binding>())
    }
}

/// The directory's key for what is looked for.
const fn key(query: Query) -> Key {
    let Query { tenant, space, what } = query;
    match what {
        Question::Mac(mac) => Key::TenantMac(tenant, space, mac),
        Question::Ip(IpAddr::V4(ip)) => Key::TenantIp4(tenant, space, ip),
        Question::Ip(IpAddr::V6(ip)) => Key::TenantIp6(tenant, space, ip),
    }
}

const fn query(key: &Key) -> Option<Query> {
    Some(match *key {
        Key::TenantMac(tenant, space, mac) => Query::mac(tenant, space, mac),
        Key::TenantIp4(tenant, space, ip) => Query::ip(tenant, space, IpAddr::V4(ip)),
        Key::TenantIp6(tenant, space, ip) => Query::ip(tenant, space, IpAddr::V6(ip)),
        Key::App4(_) | Key::App6(_) | Key::Group(_) => return None,
    })
}

/// What a mapping says of it; `None` if it is no edge switch's, or an address without a MAC.
fn binding(query: Query, mapping: &Mapping) -> Option<Binding> {
    let Locator::Edge { switch, port } = mapping.locator else { return None };
    let mac = match query.what {
        Question::Mac(mac) => mac,
        Question::Ip(_) => mapping.mac?,
    };
    let at = Location { switch, port: EdgePort::new(port)? };
    Some(Binding { vif: Vif { tenant: query.tenant, space: query.space, mac }, at })
}

#[cfg(test)]
mod tests;
