//! What switches of VL2 do besides forwarding (VL2 sections 4.2, 4.3.2). No I/O.
//!
//! ```text
//!   host --Attach--> tag, port, sequence --> lookup ---> its owner? --> local table --> put (locator: this switch) --> answer
//!                          | wrong: counted     | unknown, another's: refused        | conflict: look up again
//!   packet for an address that is not here --> sampled, limited --> Misdelivered to a directory server
//!   no Attach for a while --> Probe: do the host's programs have it? --no answer--> out of the table
//! ```
//! | part | question it answers |
//! | --- | --- |
//! | this | which addresses are here ([`Tor`]) |
//! | `answers` | what the directory's answers mean, and whether it answers |
//! | `presence` | whether the programs of a host run whose agent does not speak |
//! | `limits` | how many reports of undeliverable packets |
//! | `servers` | which directory servers there are |
//! | [`anycast_failover`] | which anycast addresses an intermediate switch has |

mod answers;
pub mod anycast_failover;
mod io;
mod limits;
mod presence;
mod servers;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::{IpAddr, SocketAddr};

use weft_fabric::rng::Pcg64;

use crate::directory::attempts::UpdateResult;
use crate::directory::auth::PrincipalKey;
use crate::directory::resolver::{self, Resolution, Resolver, ResolverConfig};
use crate::directory::steady::Steady;
use crate::directory::updater::{self, Updater, UpdaterConfig};
use crate::directory::{Generation, Key, Mapping, PrincipalId, ServiceId, Value};
use crate::time::{Duration, Instant};
use crate::wire::directory::{Misdelivered, Op};
use crate::wire::vl2::attach::{Attach, AttachError, Code, Foreign, Frame, Kind};

pub use io::{Channel, Counts, Host, Input, Local, Output, TorConfig};

use answers::{Contact, Verdict, judge};
use limits::Limits;
use servers::Servers;

/// The machine of a ToR.
#[derive(Debug)]
pub struct Tor {
    config: TorConfig,
    clock: Steady,
    now: Instant,
    hosts: BTreeMap<PrincipalId, HostState>,
    local: BTreeMap<IpAddr, Local>,
    /// Nothing is cached: what it decides is to be true now.
    resolver: Resolver,
    servers: Servers,
    updater: Updater,
    /// Lookups and updates under way, by token.
    lookups: BTreeMap<u64, Name>,
    updates: BTreeMap<u64, Name>,
    last_token: u64,
    contact: Contact,
    limits: Limits,
    timers: BTreeSet<(Instant, Timer)>,
    counts: Counts,
    out: VecDeque<Output>,
}

/// A host's word on an address.
type Name = (PrincipalId, IpAddr);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Timer {
    /// The next step of what is under way.
    Step(PrincipalId, IpAddr),
    /// A host may have fallen silent.
    Silence(PrincipalId, IpAddr),
}

#[derive(Debug)]
struct HostState {
    host: Host,
    /// Nothing of this sequence or below is looked at for addresses that are not in `heard`.
    floor: u64,
    /// What it said last of each address.
    heard: BTreeMap<IpAddr, Heard>,
}

#[derive(Clone, Debug)]
struct Heard {
    last: Attach,
    from: SocketAddr,
    at: Instant,
    progress: Progress,
    /// Questions to the host's programs since it spoke.
    probes: u32,
    /// Its programs have answered, and not the agent.
    is_agent_silent: bool,
}

/// How far a request is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Progress {
    /// The directory is asked.
    Asked {
        /// Answers so far that would refuse: a server may be behind.
        doubts: u32,
        token: u64,
    },
    /// After so many such answers it is to be asked, a little later.
    Doubted(u32),
    /// It is being written.
    Writing(u64),
    /// This was answered.
    Over(Code),
    /// The directory did not answer.
    Unanswered,
}

impl Tor {
    /// A ToR without hosts, that knows no directory server.
    pub fn new(config: TorConfig, key: &PrincipalKey, rng: Pcg64) -> Self {
        let updates = UpdaterConfig {
            first_number: config.first_number,
            versions: config.versions,
            ..UpdaterConfig::new(config.principal)
        };
        let own = ResolverConfig::new(config.principal);
        let uncached = ResolverConfig {
            capacity: 0,
            give_up: GIVE_UP,
            first_request: config.first_number,
            versions: config.versions,
            ..own
        };
        Self {
            clock: Steady::default(),
            now: Instant::ZERO,
            hosts: BTreeMap::new(),
            local: BTreeMap::new(),
            resolver: Resolver::new(uncached, key, rng.clone()),
            servers: Servers::default(),
            updater: Updater::new(updates, key, rng),
            lookups: BTreeMap::new(),
            updates: BTreeMap::new(),
            last_token: 0,
            contact: Contact::default(),
            limits: Limits::new(config.reports_per_s, config.report_again),
            timers: BTreeSet::new(),
            counts: Counts::default(),
            out: VecDeque::new(),
            config,
        }
    }

    /// Something happened.
    pub fn handle(&mut self, now: Instant, input: Input<'_>) {
        self.now = self.clock.at(now);
        match input {
            Input::Attach { from, port, bytes } => self.attach(from, port, bytes),
            Input::Directory { channel: Channel::Enquiries, from, bytes } => {
                self.resolver.handle(self.now, resolver::Input::Datagram { from, bytes });
            }
            Input::Directory { channel: Channel::Updates, from, bytes } => {
                self.updater.handle(self.now, updater::Input::Datagram { from, bytes });
            }
            Input::Undeliverable { source, destination } => self.undeliverable(source, destination),
            Input::Present { address, port } => self.present(address, port),
            Input::SetServers(servers) => self.set_servers(servers),
            Input::SetHosts(hosts) => self.set_hosts(hosts),
            Input::Timer => {
                self.updater.handle(self.now, updater::Input::Timer);
                self.resolver.handle(self.now, resolver::Input::Timer);
            }
        }
        self.run_timers();
        self.servers_timer();
        self.run_machines();
    }

    /// What is to be done next; `None`: nothing until the next input.
    pub fn poll(&mut self) -> Option<Output> {
        self.out.pop_front()
    }

    /// When [`Input::Timer`] is due; `None`: nothing is under way, and no server is known.
    pub fn deadline(&self) -> Option<Instant> {
        let own = self.timers.first().map(|&(at, _)| at);
        let machines = self.updater.deadline().into_iter().chain(self.resolver.deadline());
        own.into_iter().chain(machines).chain(self.servers.due).min().map(|at| self.clock.to_host(at))
    }

    /// The addresses that are here, in their order.
    pub fn local(&self) -> impl Iterator<Item = (IpAddr, &Local)> {
        self.local.iter().map(|(&address, local)| (address, local))
    }

    /// The port behind which the host with this address is.
    pub fn port_of(&self, host: IpAddr) -> Option<u32> {
        self.hosts.values().find(|state| state.host.address == host).map(|state| state.host.port)
    }

    /// What has been counted.
    pub const fn counts(&self) -> Counts {
        self.counts
    }

    fn attach(&mut self, from: SocketAddr, port: u32, bytes: &[u8]) {
        let frame = match Frame::parse_as(self.config.versions, bytes) {
            Ok(frame) => frame,
            Err(AttachError::Version(_)) => return self.unsupported(from, port, bytes),
            Err(_) => return self.counts.malformed += 1,
        };
        let message = frame.message;
        let Some(state) = self.hosts.get_mut(&message.principal) else { return self.counts.strangers += 1 };
        if state.host.port != port || state.host.address != from.ip() {
            return self.counts.strangers += 1;
        }
        if !frame.is_of(&state.host.key) {
            return self.counts.bad_tags += 1;
        }
        if message.answer.is_some() {
            return self.counts.malformed += 1;
        }
        let (last, progress) = match state.heard.get_mut(&message.address) {
            None => (state.floor, None),
            // Said again, perhaps with more of what the host has learnt since, such as the service.
            Some(heard) if (heard.last.sequence, heard.last.kind) == (message.sequence, message.kind) => {
                heard.from = from;
                if !matches!(heard.progress, Progress::Over(_)) {
                    // The host waits for this switch, and is not silent.
                    heard.at = self.now;
                    let silence = Timer::Silence(message.principal, message.address);
                    self.timers.insert((self.now + self.config.forget_after, silence));
                }
                (0, Some(heard.progress))
            }
            Some(heard) => (heard.last.sequence, None),
        };
        match progress {
            Some(Progress::Over(code)) => self.send_answer(from, &message, code),
            Some(Progress::Unanswered) => self.begin(from, message),
            Some(Progress::Asked { .. } | Progress::Doubted(_) | Progress::Writing(_)) => {}
            // A replay, or a host whose clock was set back: one with its key learns how to continue.
            None if message.sequence <= last => {
                self.counts.replayed += 1;
                self.send(from, message.principal, &message.too_old(last));
            }
            None if !self.make_room(&message) => self.send_answer(from, &message, Code::Full),
            None => self.begin(from, message),
        }
    }

    /// A message of a version that is not spoken here: a host of this switch is answered so.
    fn unsupported(&mut self, from: SocketAddr, port: u32, bytes: &[u8]) {
        let Some(foreign) = Foreign::parse(self.config.versions, bytes) else { return self.counts.malformed += 1 };
        let host = self.hosts.get(&foreign.principal).map(|state| &state.host);
        let Some(host) = host.filter(|host| host.port == port && host.address == from.ip()) else {
            return self.counts.strangers += 1;
        };
        if !foreign.is_of(&host.key) {
            return self.counts.bad_tags += 1;
        }
        self.counts.unsupported += 1;
        let bytes = foreign.answer(self.config.versions).emit(&host.key);
        self.out.push_back(Output::Answer { to: from, bytes });
    }

    /// Whether this host may speak of one address more. What it said of others that are not here is forgotten, but for its sequence.
    fn make_room(&mut self, message: &Attach) -> bool {
        let Some(state) = self.hosts.get_mut(&message.principal) else { return false };
        if state.heard.contains_key(&message.address) || state.heard.len() < self.config.addresses_per_host {
            return true;
        }
        let idle = |heard: &Heard| matches!(heard.progress, Progress::Over(_) | Progress::Unanswered);
        let here = |address: &IpAddr| self.local.get(address).is_some_and(|local| local.principal == message.principal);
        let oldest =
            state.heard.iter().filter(|(address, heard)| idle(heard) && !here(address)).min_by_key(|(_, heard)| heard.at);
        let Some((&address, heard)) = oldest else { return false };
        state.floor = state.floor.max(heard.last.sequence);
        state.heard.remove(&address);
        true
    }

    /// A new request, or an old one that nobody could answer.
    fn begin(&mut self, from: SocketAddr, message: Attach) {
        let name = (message.principal, message.address);
        let Some(state) = self.hosts.get_mut(&message.principal) else { return };
        state.heard.insert(message.address, Heard::new(message, from, self.now));
        self.timers.insert((self.now + self.config.forget_after, Timer::Silence(name.0, name.1)));
        match message.kind {
            Kind::Attach => self.ask(name, 0),
            Kind::Detach => {
                self.remove(name);
                self.over(name, Code::Done);
            }
        }
    }

    /// Asks the directory where the address is, and whose.
    fn ask(&mut self, name: Name, doubts: u32) {
        if self.lookups.values().any(|other| other.1 == name.1) {
            // Its answer may be older than this request.
            return self.ask_later(name, doubts);
        }
        let token = self.next_token();
        self.lookups.insert(token, name);
        self.set_progress(name, Progress::Asked { doubts, token });
        self.resolver.handle(self.now, resolver::Input::Resolve { key: Key::from(name.1), asker: None, token });
    }

    fn ask_later(&mut self, name: Name, doubts: u32) {
        self.set_progress(name, Progress::Doubted(doubts));
        self.timers.insert((self.now + DOUBT_TIME, Timer::Step(name.0, name.1)));
    }

    const fn next_token(&mut self) -> u64 {
        self.last_token += 1;
        self.last_token
    }

    fn resolved(&mut self, token: u64, resolution: Resolution) {
        self.contact.note(self.now, &resolution);
        if token == servers::TOKEN {
            return self.servers_resolved(&resolution);
        }
        let Some(name) = self.lookups.remove(&token) else { return };
        let Some(Heard { last, progress: Progress::Asked { doubts, token: of }, is_agent_silent, .. }) =
            self.heard(name).cloned()
        else {
            return;
        };
        if of != token {
            return;
        }
        if is_agent_silent {
            return self.confirmed_in_silence(name, judge(&last, resolution, self.config.locator));
        }
        match judge(&last, resolution, self.config.locator) {
            Verdict::Here(service) => {
                self.insert(name, service);
                self.over(name, Code::Done);
            }
            Verdict::Elsewhere(generation, mapping) => self.bring(name, generation, mapping),
            // A server may be behind: one more answer, a little later.
            Verdict::Refuse(_) if doubts < DOUBTS => self.ask_later(name, doubts + 1),
            Verdict::Refuse(code) => self.refuse(name, code),
            Verdict::Unanswered => self.set_progress(name, Progress::Unanswered),
        }
    }

    /// The address is this host's: packets may come before all have heard.
    fn bring(&mut self, name: Name, generation: Generation, mapping: Mapping) {
        self.insert(name, mapping.service);
        let token = self.next_token();
        let value = Value::Mapping(Mapping { locator: self.config.locator, ..mapping });
        let op = Op { key: Key::from(name.1), expect: Some(generation), value: Some(value) };
        self.set_progress(name, Progress::Writing(token));
        self.updates.insert(token, name);
        self.updater.handle(self.now, updater::Input::Submit { ops: vec![op], token });
    }

    /// Either's outcome may be work for the other.
    fn run_machines(&mut self) {
        loop {
            if let Some(output) = self.resolver.poll() {
                match output {
                    resolver::Output::Send { to, bytes } => {
                        self.out.push_back(Output::Send { channel: Channel::Enquiries, to, bytes });
                    }
                    resolver::Output::Resolved { token, resolution, .. } => self.resolved(token, resolution),
                    resolver::Output::Invalidated { .. } => {}
                }
            } else if let Some(output) = self.updater.poll() {
                match output {
                    updater::Output::Send { to, bytes } => {
                        self.out.push_back(Output::Send { channel: Channel::Updates, to, bytes });
                    }
                    updater::Output::Done { token, result } => self.updated(token, result),
                }
            } else {
                return;
            }
        }
    }

    fn updated(&mut self, token: u64, result: UpdateResult) {
        let Some(name) = self.updates.remove(&token) else { return };
        if self.heard(name).is_none_or(|heard| heard.progress != Progress::Writing(token)) {
            return;
        }
        match result {
            UpdateResult::Committed(_) => self.over(name, Code::Done),
            UpdateResult::Refused(_) | UpdateResult::Malformed(_) => self.refuse(name, Code::Forbidden),
            // Somebody was quicker: what is it now?
            UpdateResult::Conflict { generation, .. } => {
                self.resolver.at_least(&Key::from(name.1), generation);
                self.ask(name, 0);
            }
            UpdateResult::NotApplied | UpdateResult::Unknown => self.set_progress(name, Progress::Unanswered),
        }
    }

    fn refuse(&mut self, name: Name, code: Code) {
        self.remove(name);
        self.over(name, code);
    }

    /// The end of a request.
    fn over(&mut self, name: Name, code: Code) {
        self.set_progress(name, Progress::Over(code));
        let Some(heard) = self.heard(name).cloned() else { return };
        match (code, heard.last.kind) {
            (Code::Done, Kind::Attach) => self.counts.attached += 1,
            (Code::Done, Kind::Detach) => self.counts.detached += 1,
            _ => self.counts.refused += 1,
        }
        self.send_answer(heard.from, &heard.last, code);
    }

    fn send_answer(&mut self, to: SocketAddr, request: &Attach, code: Code) {
        self.send(to, request.principal, &request.answered(code));
    }

    fn send(&mut self, to: SocketAddr, principal: PrincipalId, answer: &Attach) {
        let Some(state) = self.hosts.get(&principal) else { return };
        let bytes = answer.emit(&state.host.key).to_vec();
        self.out.push_back(Output::Answer { to, bytes });
    }

    /// Enters an address in the table.
    fn insert(&mut self, name: Name, service: ServiceId) {
        let Some(state) = self.hosts.get(&name.0) else { return };
        let Some(heard) = state.heard.get(&name.1) else { return };
        let new = Local { principal: name.0, port: state.host.port, mac: heard.last.mac, service, refreshed: heard.at };
        let old = self.local.insert(name.1, new);
        if old.is_none_or(|old| (old.port, old.mac, old.service) != (new.port, new.mac, service)) {
            self.out.push_back(Output::Insert { address: name.1, port: new.port, mac: new.mac, service });
        }
    }

    /// Takes an address out of the table, if it is this host's there.
    fn remove(&mut self, (principal, address): Name) {
        if self.local.get(&address).is_some_and(|local| local.principal == principal) {
            self.local.remove(&address);
            self.out.push_back(Output::Remove { address });
        }
    }

    fn set_hosts(&mut self, hosts: Vec<Host>) {
        // What was sent long before this switch began may be a replay: of that it remembers nothing.
        let floor = self.config.first_number.saturating_sub(CLOCKS_APART_NS);
        let mut old = std::mem::take(&mut self.hosts);
        for host in hosts {
            let principal = host.principal;
            let kept = old.remove(&principal).filter(|state| state.host == host);
            self.hosts.insert(principal, kept.unwrap_or(HostState { host, floor, heard: BTreeMap::new() }));
        }
        let known = &self.hosts;
        let is_here =
            |address: &IpAddr, local: &Local| known.get(&local.principal).is_some_and(|state| state.heard.contains_key(address));
        let gone: Vec<Name> =
            self.local.iter().filter(|(a, local)| !is_here(a, local)).map(|(&a, local)| (local.principal, a)).collect();
        gone.into_iter().for_each(|name| self.remove(name));
    }

    fn undeliverable(&mut self, source: IpAddr, destination: IpAddr) {
        let is_coming = self.hosts.values().any(|state| {
            state.heard.get(&destination).is_some_and(|heard| !matches!(heard.progress, Progress::Over(_) | Progress::Unanswered))
        });
        if self.local.contains_key(&destination) || is_coming {
            return;
        }
        if !self.limits.allow(self.now, source, destination) || self.servers().is_empty() {
            return self.counts.unreported += 1;
        }
        self.counts.reported += 1;
        let (asker, key) = (Key::from(source), Key::from(destination));
        let report = Misdelivered { asker, key, stale: self.config.locator };
        self.resolver.handle(self.now, resolver::Input::Misdelivered(report));
    }

    fn run_timers(&mut self) {
        while let Some(&(at, timer)) = self.timers.first()
            && at <= self.now
        {
            self.timers.pop_first();
            match timer {
                Timer::Step(principal, address) => self.step((principal, address)),
                Timer::Silence(principal, address) => self.silence((principal, address)),
            }
        }
    }

    /// A lookup is due.
    fn step(&mut self, name: Name) {
        if let Some(&Heard { progress: Progress::Doubted(doubts), .. }) = self.heard(name) {
            self.ask(name, doubts);
        }
    }

    fn heard(&self, (principal, address): Name) -> Option<&Heard> {
        self.hosts.get(&principal)?.heard.get(&address)
    }

    fn set_progress(&mut self, (principal, address): Name, progress: Progress) {
        if let Some(heard) = self.hosts.get_mut(&principal).and_then(|state| state.heard.get_mut(&address)) {
            heard.progress = progress;
        }
    }
}

/// How long a request waits for the directory.
const GIVE_UP: Duration = Duration::from_secs(10);
/// Answers that would refuse and are doubted, and for how long.
const DOUBTS: u32 = 2;
const DOUBT_TIME: Duration = Duration::from_ms(50);
/// What clocks of a host and a switch that has just begun may differ: 5 minutes.
const CLOCKS_APART_NS: u64 = 300_000_000_000;
