//! What switches of VL2 do besides forwarding (VL2 sections 4.2, 4.3.2). No I/O.
//!
//! ```text
//!   host --Attach--> tag, port, sequence --> lookup ---> its owner? --> local table --> put (locator: this switch) --> answer
//!                          | wrong: counted     | unknown, another's: refused        | conflict: look up again
//!   packet for an address that is not here --> sampled, limited --> Misdelivered to a directory server
//!   no Attach for a while --> out of the table
//! ```
//! | part | question it answers |
//! | --- | --- |
//! | this | which addresses are here ([`Tor`]) |
//! | `lookups` | lookups in the directory, and reports of undeliverable packets |
//! | `limits` | how many of these |
//! | `servers` | which directory servers there are |
//! | [`anycast_failover`] | which anycast addresses an intermediate switch has |

pub mod anycast_failover;
mod io;
mod limits;
mod lookups;
mod servers;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::{IpAddr, SocketAddr};

use weft_fabric::rng::Pcg64;

use crate::directory::attempts::UpdateResult;
use crate::directory::auth::PrincipalKey;
use crate::directory::steady::Steady;
use crate::directory::updater::{self, Updater, UpdaterConfig};
use crate::directory::{Generation, Key, Locator, Mapping, PrincipalId, ServiceId, Value};
use crate::time::{Duration, Instant};
use crate::wire::directory::{Finding, Op};
use crate::wire::vl2::attach::{Attach, Code, Frame, Kind};

pub use io::{Channel, Counts, Host, Input, Local, Output, TorConfig};

use limits::Limits;
use lookups::LookupClient;
use servers::Servers;

/// The machine of a ToR.
#[derive(Debug)]
pub struct Tor {
    config: TorConfig,
    clock: Steady,
    now: Instant,
    hosts: BTreeMap<PrincipalId, HostState>,
    local: BTreeMap<IpAddr, Local>,
    lookups: LookupClient,
    servers: Servers,
    updater: Updater,
    /// Updates under way, by token.
    updates: BTreeMap<u64, Name>,
    last_token: u64,
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
}

/// How far a request is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Progress {
    /// The directory is asked.
    Asked {
        /// Answers so far that would refuse: a server may be behind.
        doubts: u32,
        /// When nobody waits any longer.
        give_up: Instant,
    },
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
        let updates = UpdaterConfig { first_number: config.first_number, ..UpdaterConfig::new(config.principal) };
        Self {
            clock: Steady::default(),
            now: Instant::ZERO,
            hosts: BTreeMap::new(),
            local: BTreeMap::new(),
            lookups: LookupClient::new(config.principal, key, config.first_number, rng.clone()),
            servers: Servers::default(),
            updater: Updater::new(updates, key, rng),
            updates: BTreeMap::new(),
            last_token: 0,
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
            Input::Directory { channel: Channel::Enquiries, from, bytes } => self.answered(from, bytes),
            Input::Directory { channel: Channel::Updates, from, bytes } => {
                self.updater.handle(self.now, updater::Input::Datagram { from, bytes });
            }
            Input::Undeliverable { source, destination } => self.undeliverable(source, destination),
            Input::SetServers(servers) => self.set_servers(servers),
            Input::SetHosts(hosts) => self.set_hosts(hosts),
            Input::Timer => self.updater.handle(self.now, updater::Input::Timer),
        }
        self.run_timers();
        self.servers_timer();
        self.run_updater();
        while let Some((to, bytes)) = self.lookups.poll() {
            self.out.push_back(Output::Send { channel: Channel::Enquiries, to, bytes });
        }
    }

    /// What is to be done next; `None`: nothing until the next input.
    pub fn poll(&mut self) -> Option<Output> {
        self.out.pop_front()
    }

    /// When [`Input::Timer`] is due; `None`: nothing is under way, and no server is known.
    pub fn deadline(&self) -> Option<Instant> {
        let own = self.timers.first().map(|&(at, _)| at);
        own.into_iter().chain(self.updater.deadline()).chain(self.servers.due).min().map(|at| self.clock.to_host(at))
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
        let Ok(frame) = Frame::parse(bytes) else { return self.counts.malformed += 1 };
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
                (0, Some(heard.progress))
            }
            Some(heard) => (heard.last.sequence, None),
        };
        match progress {
            Some(Progress::Over(code)) => self.send_answer(from, &message, code),
            Some(Progress::Unanswered) => self.begin(from, message),
            Some(Progress::Asked { .. } | Progress::Writing(_)) => {}
            None if message.sequence <= last => {
                self.counts.replayed += 1;
                self.send_answer(from, &message, Code::Old);
            }
            None if !self.make_room(&message) => self.send_answer(from, &message, Code::Full),
            None => self.begin(from, message),
        }
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
        let give_up = self.now + GIVE_UP;
        let progress = Progress::Asked { doubts: 0, give_up };
        let Some(state) = self.hosts.get_mut(&message.principal) else { return };
        state.heard.insert(message.address, Heard { last: message, from, at: self.now, progress });
        self.timers.insert((self.now + self.config.forget_after, Timer::Silence(name.0, name.1)));
        match message.kind {
            Kind::Attach => self.ask(name),
            Kind::Detach => {
                self.remove(name);
                self.over(name, Code::Done);
            }
        }
    }

    /// Asks the directory where the address is, and whose.
    fn ask(&mut self, name: Name) {
        let Some(heard) = self.heard(name) else { return };
        let sequence = heard.last.sequence;
        let again = self.lookups.look_up(self.now, Key::from(name.1), name.0, sequence);
        self.timers.insert((again, Timer::Step(name.0, name.1)));
    }

    fn answered(&mut self, from: SocketAddr, bytes: &[u8]) {
        let Some(answer) = self.lookups.datagram(self.now, from, bytes) else { return };
        let address = match answer.key {
            Key::Group(_) => return self.servers_answered(&answer),
            Key::App4(ip) => IpAddr::V4(ip),
            Key::App6(ip) => IpAddr::V6(ip),
            _ => return,
        };
        let name = (answer.principal, address);
        let Some(Heard { last, progress: Progress::Asked { doubts, give_up }, .. }) = self.heard(name).cloned() else { return };
        if last.sequence != answer.sequence {
            return;
        }
        match judge(&last, answer.finding, self.config.locator) {
            Verdict::Here(service) => {
                self.insert(name, service);
                self.over(name, Code::Done);
            }
            Verdict::Elsewhere(mapping) => self.bring(name, answer.generation, mapping),
            // A server may be behind: one more answer, a little later.
            Verdict::Refuse(_) if doubts < DOUBTS => {
                self.set_progress(name, Progress::Asked { doubts: doubts + 1, give_up });
                self.lookups.forget(answer.key, name.0);
                self.timers.insert((self.now + DOUBT_TIME, Timer::Step(name.0, name.1)));
            }
            Verdict::Refuse(code) => self.refuse(name, code),
            // Another server, when the time of this one is over.
            Verdict::AskAnother => {}
        }
    }

    /// The address is this host's: packets may come before all have heard.
    fn bring(&mut self, name: Name, generation: Generation, mapping: Mapping) {
        self.insert(name, mapping.service);
        self.last_token += 1;
        let token = self.last_token;
        let value = Value::Mapping(Mapping { locator: self.config.locator, ..mapping });
        let op = Op { key: Key::from(name.1), expect: Some(generation), value: Some(value) };
        self.set_progress(name, Progress::Writing(token));
        self.updates.insert(token, name);
        self.updater.handle(self.now, updater::Input::Submit { ops: vec![op], token });
    }

    fn run_updater(&mut self) {
        while let Some(output) = self.updater.poll() {
            match output {
                updater::Output::Send { to, bytes } => {
                    self.out.push_back(Output::Send { channel: Channel::Updates, to, bytes });
                }
                updater::Output::Done { token, result } => self.updated(token, result),
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
                self.lookups.at_least(generation);
                self.set_progress(name, Progress::Asked { doubts: 0, give_up: self.now + GIVE_UP });
                self.ask(name);
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
        let Some(state) = self.hosts.get(&request.principal) else { return };
        let bytes = request.answered(code).emit(&state.host.key).to_vec();
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
            state
                .heard
                .get(&destination)
                .is_some_and(|heard| matches!(heard.progress, Progress::Asked { .. } | Progress::Writing(_)))
        });
        if self.local.contains_key(&destination) || is_coming {
            return;
        }
        if !self.limits.allow(self.now, source, destination) {
            return self.counts.unreported += 1;
        }
        if self.lookups.report(self.now, Key::from(source), Key::from(destination), self.config.locator) {
            self.counts.reported += 1;
        } else {
            self.counts.unreported += 1;
        }
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

    /// A lookup was not answered in time, or is to be repeated.
    fn step(&mut self, name: Name) {
        let Some(Heard { progress: Progress::Asked { give_up, .. }, .. }) = self.heard(name) else { return };
        if *give_up <= self.now {
            return self.set_progress(name, Progress::Unanswered);
        }
        if self.lookups.is_due(self.now, Key::from(name.1), name.0) {
            self.ask(name);
        }
    }

    fn silence(&mut self, name: Name) {
        let Some(heard) = self.heard(name) else { return };
        if self.now.saturating_since(heard.at) < self.config.forget_after {
            return;
        }
        let sequence = heard.last.sequence;
        let was_here = self.local.get(&name.1).is_some_and(|local| local.principal == name.0);
        self.counts.expired += u64::from(was_here);
        self.remove(name);
        if let Some(state) = self.hosts.get_mut(&name.0) {
            state.heard.remove(&name.1);
            state.floor = state.floor.max(sequence);
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

/// What the directory's word means for a request.
enum Verdict {
    /// The address is this host's, and here; its service.
    Here(ServiceId),
    /// It is this host's, and is to be brought here.
    Elsewhere(Mapping),
    /// It is not this host's.
    Refuse(Code),
    /// The server cannot say.
    AskAnother,
}

fn judge(request: &Attach, finding: Finding, here: Locator) -> Verdict {
    match finding {
        Finding::Found(Value::Mapping(it)) if it.owner != request.principal => Verdict::Refuse(Code::NotOwner),
        Finding::Found(Value::Mapping(it)) if request.service != ServiceId(0) && it.service != request.service => {
            Verdict::Refuse(Code::OtherService)
        }
        Finding::Found(Value::Mapping(it)) if it.locator == here => Verdict::Here(it.service),
        Finding::Found(Value::Mapping(it)) => Verdict::Elsewhere(it),
        Finding::Found(Value::Group(_)) | Finding::Unknown => Verdict::Refuse(Code::Unknown),
        Finding::Forbidden => Verdict::Refuse(Code::Forbidden),
        Finding::Elsewhere => Verdict::AskAnother,
    }
}

/// How long a request waits for the directory.
const GIVE_UP: Duration = Duration::from_secs(10);
/// Answers that would refuse and are doubted, and for how long.
const DOUBTS: u32 = 2;
const DOUBT_TIME: Duration = Duration::from_ms(50);
/// What clocks of a host and a switch that has just begun may differ: 5 minutes.
const CLOCKS_APART_NS: u64 = 300_000_000_000;
