//! NL-ARP (section 3.9): every agent announces its VIFs to all others; tables never expire; what is lost or stale is repaired when somebody sends.
//!
//! ```text
//!   Start ------> HERE to all ------------------------------------------> table
//!   Seek -------> WHERE to all, again until answered --> its owner --HERE to the asker--> table --> Sought
//!   Misdelivered -> NOTHERE to the sender's agent ----------------------> entry deleted, WHERE to all
//! ```
//! Two things are not the paper's: what tenants repeat in vain is asked for again ([`LocationInput::Confirm`]), which repairs entries that name a server that
//! died; and all that others can cause is limited.

mod index;
mod table;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use rand::RngExt;
use weft_fabric::TenantId;
use weft_fabric::rng::Pcg64;

pub use table::{Change, MAX_ADDRESSES, Table};

use super::locations::{Binding, LocationInput, LocationOutput, Locations, Query};
use super::{Location, Vif};
use crate::bucket::Bucket;
use crate::time::{Duration, Instant};
use crate::wire::netlord::{Here, NlArp as Message, NotHere, Question, QuestionId, Unicast, Where};

/// Configuration of an NL-ARP machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NlArpConfig {
    /// The most entries of the table.
    pub capacity: usize,
    /// From the first WHERE to the second; twice as long each time.
    pub retry: Duration,
    /// How often WHERE is sent.
    pub tries: u32,
    /// How long nobody is asked for again whom nobody had.
    pub negative: Duration,
    /// The most searches under way, and the most remembered as failed.
    pub searches_max: usize,
    /// The most NOTHERE and unsolicited WHERE per second.
    pub repairs_per_s: u32,
}

impl Default for NlArpConfig {
    fn default() -> Self {
        Self {
            capacity: 4 << 20,
            retry: Duration::from_ms(20),
            tries: 6,
            negative: Duration::from_ms(500),
            searches_max: 4096,
            repairs_per_s: 1000,
        }
    }
}

/// What an NL-ARP machine has seen, counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NlArpCounts {
    /// HERE to all that were sent.
    pub heres_sent: u64,
    /// WHERE that were sent.
    pub wheres_sent: u64,
    /// Answers to others' WHERE.
    pub answers_sent: u64,
    /// NOTHERE that were sent.
    pub not_heres_sent: u64,
    /// HERE that came.
    pub heres: u64,
    /// WHERE that came.
    pub wheres: u64,
    /// NOTHERE that came.
    pub not_heres: u64,
    /// Entries deleted by them.
    pub stale: u64,
    /// Searches that nobody has answered.
    pub vain: u64,
    /// HERE for which there was no room.
    pub full: u64,
    /// Searches and corrections not begun, because there were too many.
    pub limited: u64,
}

/// The machine.
#[derive(Debug)]
pub struct NlArp {
    config: NlArpConfig,
    table: Table,
    local: BTreeMap<Vif, Local>,
    local_ips: BTreeMap<Query, Vif>,
    searches: BTreeMap<Query, Search>,
    questions: BTreeMap<QuestionId, Query>,
    /// Whom nobody had, and until when that is believed.
    vain: BTreeMap<Query, Instant>,
    /// Whose agent is to hear, once it is found, that a VIF is not here.
    owed: BTreeMap<Query, (Vif, Location)>,
    /// Senders notified that a VIF is not here, and when: if that has not helped, the sender is searched for, for it may have moved itself.
    notified: BTreeMap<(Query, Vif), Instant>,
    timers: BTreeSet<(Instant, Query)>,
    repairs: Bucket,
    out: VecDeque<LocationOutput>,
    counts: NlArpCounts,
    rng: Pcg64,
}

#[derive(Clone, Debug)]
struct Local {
    at: Location,
    addresses: Vec<IpAddr>,
}

#[derive(Clone, Copy, Debug)]
struct Search {
    id: QuestionId,
    sent: u32,
    again: Instant,
    wait: Duration,
    /// Its end is reported, also if it failed.
    report: bool,
}

impl NlArp {
    /// A machine that knows nobody.
    pub fn new(config: NlArpConfig, mut rng: Pcg64) -> Self {
        let key = [rng.random::<u64>().to_be_bytes(), rng.random::<u64>().to_be_bytes()].concat();
        Self {
            table: Table::new(config.capacity, key.try_into().expect("16 bytes")),
            repairs: Bucket::new(config.repairs_per_s, config.repairs_per_s / 4),
            local: BTreeMap::new(),
            local_ips: BTreeMap::new(),
            searches: BTreeMap::new(),
            questions: BTreeMap::new(),
            vain: BTreeMap::new(),
            owed: BTreeMap::new(),
            notified: BTreeMap::new(),
            timers: BTreeSet::new(),
            out: VecDeque::new(),
            counts: NlArpCounts::default(),
            config,
            rng,
        }
    }

    /// What has been counted.
    pub const fn counts(&self) -> NlArpCounts {
        self.counts
    }

    /// What it knows of others.
    pub const fn table(&self) -> &Table {
        &self.table
    }

    fn start(&mut self, vif: Vif, at: Location, addresses: &[IpAddr]) {
        self.stop(vif);
        let addresses = addresses[..addresses.len().min(MAX_ADDRESSES)].to_vec();
        for &ip in &addresses {
            self.local_ips.insert(Query::ip(vif.tenant, vif.space, ip), vif);
        }
        let v4: Vec<Ipv4Addr> = addresses.iter().filter_map(v4).collect();
        let v6: Vec<Ipv6Addr> = addresses.iter().filter_map(v6).collect();
        for n in 0..v4.len().max(v6.len()).max(1) {
            self.counts.heres_sent += 1;
            let here = Here { vif, ip4: v4.get(n).copied(), ip6: v6.get(n).copied() };
            self.out.push_back(LocationOutput::Broadcast(Message::Here(here)));
        }
        self.local.insert(vif, Local { at, addresses });
        self.found(vif, at, Query::vif(vif));
    }

    fn stop(&mut self, vif: Vif) {
        let Some(local) = self.local.remove(&vif) else { return };
        for ip in local.addresses {
            self.unname(vif, ip);
        }
    }

    fn release(&mut self, vif: Vif, ip: IpAddr) {
        if let Some(local) = self.local.get_mut(&vif) {
            local.addresses.retain(|&it| it != ip);
        }
        self.unname(vif, ip);
    }

    /// An address is not a VIF's any more, unless another of this server has it by now.
    fn unname(&mut self, vif: Vif, ip: IpAddr) {
        let query = Query::ip(vif.tenant, vif.space, ip);
        if self.local_ips.get(&query) == Some(&vif) {
            self.local_ips.remove(&query);
        }
    }

    /// What an agent says of its VIFs concerns those of this server: it has one of them too, or an address of theirs.
    fn compare_with_own(&mut self, vif: Vif, at: Location, ips: [Option<IpAddr>; 2]) {
        if self.local.contains_key(&vif) {
            self.out.push_back(LocationOutput::Elsewhere { vif, at });
        }
        for ip in ips.into_iter().flatten() {
            if let Some(&own) = self.local_ips.get(&Query::ip(vif.tenant, vif.space, ip)).filter(|own| **own != vif) {
                self.out.push_back(LocationOutput::Claimed { vif: own, ip, by: vif });
            }
        }
    }

    /// Which VIF of this server is meant.
    fn here(&self, query: Query) -> Option<Binding> {
        let vif = match query.what {
            Question::Mac(mac) => Vif { tenant: query.tenant, space: query.space, mac },
            Question::Ip(_) => *self.local_ips.get(&query)?,
        };
        self.local.get(&vif).map(|local| Binding { vif, at: local.at })
    }

    fn known(&self, query: Query) -> Option<Binding> {
        if let Some(binding) = self.here(query) {
            return Some(binding);
        }
        let vif = match query.what {
            Question::Mac(mac) => Vif { tenant: query.tenant, space: query.space, mac },
            Question::Ip(ip) => self.table.owner(query.tenant, query.space, ip)?,
        };
        let at = self.local.get(&vif).map(|local| local.at).or_else(|| self.table.find(vif))?;
        Some(Binding { vif, at })
    }

    fn seek(&mut self, now: Instant, query: Query) {
        if let Some(binding) = self.known(query) {
            return self.out.push_back(LocationOutput::Sought { query, found: Some(binding) });
        }
        if self.vain.get(&query).is_some_and(|&until| until > now) {
            return self.out.push_back(LocationOutput::Sought { query, found: None });
        }
        if !self.search(now, query, self.config.tries, true) {
            self.out.push_back(LocationOutput::Sought { query, found: None });
        }
    }

    /// Begins a search, or joins one that is under way; false if there are too many.
    fn search(&mut self, now: Instant, query: Query, tries: u32, report: bool) -> bool {
        if let Some(search) = self.searches.get_mut(&query) {
            search.report |= report;
            return true;
        }
        if self.searches.len() >= self.config.searches_max {
            self.counts.limited += 1;
            return false;
        }
        let mut id = QuestionId(self.rng.random());
        while self.questions.contains_key(&id) {
            id = QuestionId(self.rng.random());
        }
        let sent = self.config.tries.saturating_sub(tries);
        self.questions.insert(id, query);
        let search = Search { id, sent, again: now, wait: self.config.retry, report };
        self.searches.insert(query, search);
        self.ask(now, query);
        true
    }

    /// Sends WHERE, the first time or again.
    fn ask(&mut self, now: Instant, query: Query) {
        let Some(search) = self.searches.get_mut(&query) else { return };
        self.timers.remove(&(search.again, query));
        if search.sent >= self.config.tries {
            return self.give_up(now, query);
        }
        search.sent += 1;
        search.again = now.saturating_add(search.wait);
        search.wait = search.wait * 2;
        self.timers.insert((search.again, query));
        self.counts.wheres_sent += 1;
        let question = Where { tenant: query.tenant, space: query.space, about: query.what, id: search.id };
        self.out.push_back(LocationOutput::Broadcast(Message::Where(question)));
    }

    fn give_up(&mut self, now: Instant, query: Query) {
        let Some(search) = self.end(query) else { return };
        self.owed.remove(&query);
        self.counts.vain += 1;
        if search.report {
            self.vain.retain(|_, until| *until > now);
            if self.vain.len() < self.config.searches_max {
                self.vain.insert(query, now.saturating_add(self.config.negative));
            }
            self.out.push_back(LocationOutput::Sought { query, found: None });
        }
    }

    fn end(&mut self, query: Query) -> Option<Search> {
        let search = self.searches.remove(&query)?;
        self.questions.remove(&search.id);
        self.timers.remove(&(search.again, query));
        Some(search)
    }

    /// A VIF is known now, by this name: reports it to those that wait for it.
    fn found(&mut self, vif: Vif, at: Location, query: Query) {
        self.vain.remove(&query);
        if let Some(search) = self.end(query)
            && search.report
        {
            self.out.push_back(LocationOutput::Sought { query, found: Some(Binding { vif, at }) });
        }
        if let Some((missing, here)) = self.owed.remove(&query) {
            self.correct(missing, here, at);
        }
    }

    fn heard(&mut self, vif: Vif, at: Location, ips: [Option<IpAddr>; 2], answers: Option<Query>) {
        self.counts.heres += 1;
        let named = ips.into_iter().flatten().map(|ip| Query::ip(vif.tenant, vif.space, ip));
        let names = [Some(Query::vif(vif)), answers].into_iter().flatten().chain(named);
        let wanted = names.clone().any(|name| self.searches.contains_key(&name));
        match self.table.put(vif, at, ips, wanted) {
            Change::Full => return self.counts.full += 1,
            Change::Moved => self.out.push_back(LocationOutput::Moved { vif, at: Some(at) }),
            Change::New | Change::Same => {}
        }
        if !self.searches.is_empty() || !self.vain.is_empty() {
            let at = self.local.get(&vif).map_or(at, |local| local.at);
            for name in names {
                self.found(vif, at, name);
            }
        }
    }

    fn broadcast(&mut self, from: Location, message: Message) {
        match message {
            Message::Here(Here { vif, ip4, ip6 }) => {
                let ips = [ip4.map(Into::into), ip6.map(Into::into)];
                self.compare_with_own(vif, from, ips);
                self.heard(vif, from, ips, None);
            }
            Message::NotHere(NotHere { vif }) => self.not_here(vif, from),
            Message::Where(question) => self.answer(from, question),
        }
    }

    fn answer(&mut self, asker: Location, question: Where) {
        self.counts.wheres += 1;
        let query = Query { tenant: question.tenant, space: question.space, what: question.about };
        let Some(Binding { vif, at }) = self.here(query) else { return };
        let addresses = self.local.get(&vif).map_or(&[][..], |local| &local.addresses);
        let message = match question.about {
            Question::Mac(_) => Unicast::Here { vif, at, ip4: addresses.iter().find_map(v4), answers: None },
            Question::Ip(_) => Unicast::Here { vif, at, ip4: None, answers: Some(question.id) },
        };
        self.counts.answers_sent += 1;
        self.out.push_back(LocationOutput::Unicast { to: asker, message });
    }

    fn unicast(&mut self, now: Instant, message: Unicast) {
        match message {
            Unicast::Chirp { .. } => {}
            Unicast::Here { vif, at, ip4, answers } => {
                let asked = answers.and_then(|id| self.questions.get(&id).copied());
                let asked = asked.filter(|query| query.tenant == vif.tenant && query.space == vif.space);
                let ip = match asked {
                    Some(Query { what: Question::Ip(ip), .. }) => Some(ip),
                    _ => None,
                };
                self.heard(vif, at, [ip4.map(Into::into), ip], asked);
            }
            Unicast::NotHere { vif, at } => {
                let was = self.table.len();
                self.not_here(vif, at);
                if self.table.len() < was && self.repairs.take(now) {
                    self.search(now, Query::vif(vif), self.config.tries, true);
                }
            }
        }
    }

    fn not_here(&mut self, vif: Vif, at: Location) {
        self.counts.not_heres += 1;
        if self.table.find(vif) == Some(at) {
            self.table.remove(vif);
            self.counts.stale += 1;
            self.out.push_back(LocationOutput::Moved { vif, at: None });
        }
    }

    fn misdelivered(&mut self, now: Instant, vif: Vif, here: Location, sender: Query) {
        if !self.repairs.take(now) {
            return self.counts.limited += 1;
        }
        self.notified.retain(|_, when| now.saturating_since(*when) < NOTIFIED);
        let again = self.notified.contains_key(&(sender, vif));
        if let Some(Binding { at, .. }) = self.known(sender).filter(|_| !again) {
            if self.notified.len() < self.config.searches_max {
                self.notified.insert((sender, vif), now);
            }
            return self.correct(vif, here, at);
        }
        if self.vain.get(&sender).is_none_or(|&until| until <= now) && self.search(now, sender, self.config.tries, false) {
            self.owed.insert(sender, (vif, here));
        }
    }

    fn correct(&mut self, vif: Vif, here: Location, sender: Location) {
        if sender != here && !self.local.contains_key(&vif) {
            self.counts.not_heres_sent += 1;
            self.out.push_back(LocationOutput::Unicast { to: sender, message: Unicast::NotHere { vif, at: here } });
        }
    }

    fn confirm(&mut self, now: Instant, query: Query) {
        if self.here(query).is_none() && self.repairs.take(now) {
            self.search(now, query, 1, false);
        }
    }
}

impl Locations for NlArp {
    fn find(&self, _: Vif, query: Query) -> Option<Binding> {
        self.known(query)
    }

    fn announces(&self, _: TenantId) -> bool {
        true
    }

    fn handle(&mut self, now: Instant, input: LocationInput<'_>) {
        match input {
            LocationInput::Start { vif, at, addresses } => self.start(vif, at, addresses),
            LocationInput::Stop(vif) => self.stop(vif),
            LocationInput::Release { vif, ip } => self.release(vif, ip),
            LocationInput::Seek { query, .. } => self.seek(now, query),
            LocationInput::Confirm(query) => self.confirm(now, query),
            LocationInput::Misdelivered { vif, here, sender } => self.misdelivered(now, vif, here, sender),
            LocationInput::Broadcast { from, message } => self.broadcast(from, message),
            LocationInput::Adopt { vif, at } => self.broadcast(at, Message::Here(Here { vif, ip4: None, ip6: None })),
            LocationInput::Unicast(message) => self.unicast(now, message),
            LocationInput::Servers(_) | LocationInput::Datagram { .. } | LocationInput::Timer => {}
        }
        while let Some(&(at, query)) = self.timers.first()
            && at <= now
        {
            self.ask(now, query);
        }
    }

    fn poll(&mut self) -> Option<LocationOutput> {
        self.out.pop_front()
    }

    fn deadline(&self) -> Option<Instant> {
        self.timers.first().map(|&(at, _)| at)
    }

    fn table_bytes(&self) -> usize {
        self.table.bytes() + self.table.address_bytes()
    }
}

/// A correction that has not helped within this time is sent again.
const NOTIFIED: Duration = Duration::from_secs(10);

fn v4(ip: &IpAddr) -> Option<Ipv4Addr> {
    match ip {
        IpAddr::V4(ip) => Some(*ip),
        IpAddr::V6(_) => None,
    }
}

fn v6(ip: &IpAddr) -> Option<Ipv6Addr> {
    match ip {
        IpAddr::V6(ip) => Some(*ip),
        IpAddr::V4(_) => None,
    }
}

#[cfg(test)]
mod tests;
