//! An agent's part: from which pairs of NICs new flows draw, and which flows move.
//!
//! ```text
//!   orders: weights of ToRs, NICs that are down --> Router --> for each peer: SLOTS pairs of NICs, each in proportion to its probability
//!   orders: moves ------------------------------> data plane, which waits for a pause of the flow
//!   lists of detours: paths, permits -----------> Router; data plane, which forwards for others ([`detours`])
//!   own NICs down, flows on pairs that are down -> moves at once
//! ```
//! Without a word from a scheduler for [`SILENCE`], new flows draw by the speed of NICs again (Subways section 4.3). Flows stay where they are.

mod detours;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use weft_fabric::routing::{AccessPath, Direction, Path, Router, Routing};
use weft_fabric::topology::{Health, Part};
use weft_fabric::{HostId, LinkId, SwitchId};

use super::addresses::AccessAddresses;
use super::{EVERY, EVERY_MAX, EVERY_MIN};
use crate::directory::key::PrincipalId;
use crate::time::{Duration, Instant};
use crate::vl2::placement::LoopLengths;
use crate::wire::subways::{
    AccessRecord, FLOWS_MAX, FlowId, ForwardReport, Forwarded, Frame, HostReport, Message, NicPair, Orders, Permit, ReportHead,
};
use crate::wire::vl2::placement::PlacementKey;
use detours::DetourLists;

/// Pairs of NICs among which the flows to a peer draw.
pub const SLOTS: usize = 64;

/// Settings of an agent.
#[derive(Clone, Debug)]
pub struct HostConfig {
    /// Of all hosts.
    pub addresses: AccessAddresses,
    /// This one.
    pub host: HostId,
    /// Its principal, and its key.
    pub principal: PrincipalId,
    /// See `principal`.
    pub key: PlacementKey,
    /// The schedulers; the one that started last is obeyed. There may be none.
    pub schedulers: Vec<SocketAddr>,
    /// The first report has the next number: greater than those of the agent's earlier lives, such as nanoseconds since 1970.
    pub sequence: u64,
    /// Flows that have sent so many bytes are reported.
    pub report_bytes: u64,
    /// Whether it takes part in detours: its flows take some, and it forwards for others.
    pub detours: bool,
}

/// A flow as the data plane has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowState {
    /// Which.
    pub flow: FlowId,
    /// Its NICs.
    pub nics: NicPair,
    /// Bytes of payload that it has sent.
    pub bytes: u64,
    /// Since the last packet.
    pub idle: Duration,
}

/// What happens.
#[derive(Clone, Copy, Debug)]
pub enum HostInput<'a> {
    /// A datagram came to the socket of reports.
    Datagram(&'a [u8]),
    /// Which of the host's NICs are down: bit i, NIC i.
    Nics(u32),
    /// The answer to [`HostOutput::Read`]: all flows.
    Flows(&'a [FlowState]),
    /// The other answer to it, of a host that takes part in detours, before the flows: what it has forwarded.
    Forwarded(Forwarded),
    /// The deadline has come.
    Timer,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostOutput {
    /// Read the flows.
    Read,
    /// Send a datagram to a scheduler.
    Send(SocketAddr, Vec<u8>),
    /// Flows to a peer that begin from now on draw among these pairs.
    Slots(Ipv4Addr, Box<[NicPair; SLOTS]>),
    /// The flow takes these NICs once it has sent nothing for so long.
    Move(FlowId, NicPair, Duration),
    /// These detours, and no others, may be used for so long: those of the host's own flows that leave, and of flows that arrive at peers.
    Detours(Vec<AccessRecord>, Duration),
    /// The host forwards this, and nothing else, for so long.
    Permits(Vec<Permit>, Duration),
}

/// What was counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostCounts {
    /// Reports, to all schedulers together.
    pub reports: u64,
    /// Moves that were ordered.
    pub ordered: u64,
    /// Moves away from a pair of NICs that is down.
    pub evaded: u64,
    /// Flows beyond the limit, which are not reported.
    pub over_limit: u64,
    /// Datagrams that are no orders, or not tagged rightly.
    pub refused: u64,
    /// Orders of a scheduler that another one, started later, has superseded.
    pub superseded: u64,
    /// Orders that came twice, too late, or for a report of an earlier life.
    pub stale: u64,
}

/// An agent's part.
#[derive(Debug)]
pub struct AccessHost {
    config: HostConfig,
    router: Router,
    health: Health,
    detours: DetourLists,
    /// By peer, as it was passed on last.
    slots: BTreeMap<Ipv4Addr, Box<[NicPair; SLOTS]>>,
    own_down: u32,
    /// NICs of others.
    down: BTreeSet<Ipv4Addr>,
    /// By switch: what is left of it, out and in, in bits per second.
    weights: BTreeMap<SwitchId, [u64; 2]>,
    generation: u64,
    number: u64,
    sequence: u64,
    sent: VecDeque<(u64, Instant)>,
    every: Duration,
    report_at: Instant,
    reported: Option<Instant>,
    heard: Option<Instant>,
    last_loop: Duration,
    loops: LoopLengths,
    flows: usize,
    counts: HostCounts,
    outputs: VecDeque<HostOutput>,
}

impl AccessHost {
    /// An agent that passes the slots of all peers on at once.
    pub fn new(config: HostConfig, now: Instant) -> Self {
        let fabric = Arc::clone(config.addresses.fabric());
        let mut host = Self {
            health: Health::new(&fabric),
            router: Router::new(fabric, Routing::default(), 0),
            detours: DetourLists::default(),
            slots: BTreeMap::new(),
            own_down: 0,
            down: BTreeSet::new(),
            weights: BTreeMap::new(),
            generation: 0,
            number: 0,
            sequence: config.sequence,
            sent: VecDeque::new(),
            every: EVERY,
            report_at: now,
            reported: None,
            heard: None,
            last_loop: Duration::ZERO,
            loops: LoopLengths::default(),
            flows: 0,
            counts: HostCounts::default(),
            outputs: VecDeque::new(),
            config,
        };
        host.draw_slots();
        host
    }

    /// Takes an input. Time never goes back.
    pub fn handle(&mut self, now: Instant, input: HostInput<'_>) {
        match input {
            HostInput::Datagram(bytes) => self.datagram(now, bytes),
            HostInput::Nics(down) if down != self.own_down => {
                self.own_down = down;
                self.health_changed(now);
            }
            HostInput::Nics(_) => {}
            HostInput::Flows(flows) => self.report(now, flows),
            HostInput::Forwarded(forwarded) => self.detours.forwarded = forwarded,
            HostInput::Timer => {}
        }
        self.run_due(now);
    }

    /// The next thing to do; call until `None` after each `handle`.
    pub fn poll(&mut self) -> Option<HostOutput> {
        self.outputs.pop_front()
    }

    /// When to call `handle` with [`HostInput::Timer`].
    pub fn deadline(&self) -> Instant {
        [self.silent_at(), self.detours.lapses_at()].into_iter().flatten().fold(self.report_at, Instant::min)
    }

    /// The generation of the scheduler that is obeyed, and how long it has not been heard.
    pub fn scheduler(&self, now: Instant) -> Option<(u64, Duration)> {
        self.heard.map(|heard| (self.generation, now.saturating_since(heard)))
    }

    /// Whether new flows draw by a scheduler's weights.
    pub fn is_weighted(&self) -> bool {
        !self.weights.is_empty()
    }

    /// NICs of other hosts that are down.
    pub const fn down(&self) -> &BTreeSet<Ipv4Addr> {
        &self.down
    }

    /// The pairs of NICs among which flows to a peer draw.
    pub fn slots(&self, peer: Ipv4Addr) -> Option<&[NicPair; SLOTS]> {
        self.slots.get(&peer).map(|slots| &**slots)
    }

    /// Flows that the last report had.
    pub const fn reported_flows(&self) -> usize {
        self.flows
    }

    /// What was counted.
    pub const fn counts(&self) -> &HostCounts {
        &self.counts
    }

    /// Lengths of the control loop, from a report to the moves that answer it.
    pub const fn loops(&self) -> &LoopLengths {
        &self.loops
    }

    /// When the scheduler will have been silent for too long.
    fn silent_at(&self) -> Option<Instant> {
        let has_said = !self.weights.is_empty() || !self.down.is_empty();
        self.heard.filter(|_| has_said).map(|heard| heard + SILENCE)
    }

    fn run_due(&mut self, now: Instant) {
        if self.silent_at().is_some_and(|silent| silent <= now) {
            self.weights.clear();
            self.down.clear();
            self.health_changed(now);
        }
        if self.detours.lapses_at().is_some_and(|at| at <= now) {
            self.drop_detours();
        }
        if self.report_at <= now {
            self.report_at = now + self.every;
            self.outputs.push_back(HostOutput::Read);
        }
    }

    fn report(&mut self, now: Instant, flows: &[FlowState]) {
        self.evade(flows);
        if self.config.schedulers.is_empty() {
            return;
        }
        let is_reported = |it: &&FlowState| it.bytes >= self.config.report_bytes && it.idle < IDLE;
        let all: Vec<_> = flows.iter().filter(is_reported).map(|it| (it.flow, it.nics, it.bytes)).collect();
        let reported = &all[..all.len().min(REPORTED_MAX)];
        self.counts.over_limit += (all.len() - reported.len()) as u64;
        self.flows = reported.len();
        self.sequence += 1;
        let parts: Vec<&[_]> = if reported.is_empty() { vec![&[]] } else { reported.chunks(FLOWS_MAX).collect() };
        for (part, flows) in (0..).zip(&parts) {
            let head = self.head(now, part, parts.len() as u8);
            let report = HostReport { head, loop_length: self.last_loop, down: self.own_down, flows: flows.to_vec() };
            self.send(report.emit(&self.config.key));
        }
        if self.detours.are_asked_for(now) {
            let report = ForwardReport { head: self.head(now, 0, 1), forwarded: self.detours.forwarded };
            self.send(report.emit(&self.config.key));
        }
        self.counts.reports += self.config.schedulers.len() as u64;
        self.last_loop = Duration::ZERO;
        self.reported = Some(now);
        self.sent.push_back((self.sequence, now));
        if self.sent.len() > SENT_MAX {
            self.sent.pop_front();
        }
    }

    fn head(&self, now: Instant, part: u8, parts: u8) -> ReportHead {
        ReportHead {
            principal: self.config.principal,
            sequence: self.sequence,
            time: now.saturating_since(Instant::ZERO),
            generation: self.generation,
            part,
            parts,
        }
    }

    /// To all schedulers.
    fn send(&mut self, bytes: Vec<u8>) {
        self.outputs.extend(self.config.schedulers.iter().map(|&to| HostOutput::Send(to, bytes.clone())));
    }

    /// Moves flows from pairs of which a NIC is down, or that of a server on a detour, to others.
    fn evade(&mut self, flows: &[FlowState]) {
        if self.own_down == 0 && self.down.is_empty() {
            return;
        }
        for FlowState { flow, nics, .. } in flows {
            let peer = self.config.addresses.host_of(flow.peer);
            let paths = [
                self.links_of(self.config.host, Direction::Out, nics.out),
                peer.and_then(|peer| self.links_of(peer, Direction::In, nics.into)),
            ];
            let is_down = paths.iter().flatten().any(|links| !self.health.path_is_up(links));
            let Some(slots) = self.slots.get(&flow.peer).filter(|_| is_down) else { continue };
            let other = slots[usize::from(flow.sport ^ flow.dport) % SLOTS];
            if other != *nics {
                self.counts.evaded += 1;
                self.outputs.push_back(HostOutput::Move(*flow, other, Duration::ZERO));
            }
        }
    }

    fn datagram(&mut self, now: Instant, bytes: &[u8]) {
        let message = match Frame::parse(bytes) {
            Ok(frame) if frame.principal() == self.config.principal && frame.is_of(&self.config.key) => frame.message,
            _ => return self.counts.refused += 1,
        };
        match message {
            Message::Orders(orders) => {
                if self.accepts(now, orders.generation, orders.number, orders.sequence) {
                    self.every = orders.every.clamp(EVERY_MIN, EVERY_MAX);
                    self.report_at = self.report_at.min(now + self.every);
                    self.obey(now, &orders);
                }
            }
            Message::Detours(orders) if self.config.detours => {
                if self.accepts(now, orders.generation, orders.number, orders.sequence) {
                    self.take_list(now, orders);
                }
            }
            Message::Host(_) | Message::Tor(_) | Message::Forward(_) | Message::Detours(_) => self.counts.refused += 1,
        }
    }

    /// Whether an order is to be obeyed: it is newer than the last of a scheduler that none has superseded, and answers a report of this life.
    fn accepts(&mut self, now: Instant, generation: u64, number: u64, sequence: u64) -> bool {
        if generation < self.generation {
            self.counts.superseded += 1;
            return false;
        }
        let is_new = generation > self.generation;
        let answers = sequence > self.config.sequence && sequence <= self.sequence;
        if !answers || (!is_new && number <= self.number) {
            self.counts.stale += 1;
            return false;
        }
        self.heard = Some(now);
        (self.generation, self.number) = (generation, number);
        if is_new {
            // It has read nothing yet: it knows now that this agent obeys it.
            self.report_soon(now);
        }
        true
    }

    fn obey(&mut self, now: Instant, orders: &Orders) {
        let sent = self.sent.iter().find(|(sequence, _)| *sequence == orders.sequence).map(|(_, at)| *at);
        if let Some(at) = sent.filter(|_| !orders.moves.is_empty()) {
            let held = Duration::from_ns(orders.held.as_ns().min(now.saturating_since(at).as_ns()));
            self.last_loop = Duration::from_ns((now.saturating_since(at).as_ns() - held.as_ns()).max(1));
            self.loops.add(self.last_loop);
        }
        let own = self.config.addresses.of(self.config.host);
        let down: BTreeSet<Ipv4Addr> = orders.down.iter().copied().filter(|address| !own.contains(address)).collect();
        if orders.is_first && down != self.down {
            self.down = down;
            self.health_changed(now);
        }
        if !orders.tors.is_empty() {
            let switches = self.config.addresses.fabric().switch_count();
            let known = orders.tors.iter().filter(|tor| (tor.switch as usize) < switches);
            let kbits = |it: u32| u64::from(it) * 1000;
            self.weights.extend(known.map(|tor| (SwitchId(tor.switch), [kbits(tor.out), kbits(tor.into)])));
            self.draw_slots();
        }
        for &(flow, nics) in &orders.moves {
            self.counts.ordered += 1;
            self.outputs.push_back(HostOutput::Move(flow, nics, orders.gap));
        }
    }

    /// As soon as the last report is old enough.
    fn report_soon(&mut self, now: Instant) {
        let soonest = self.reported.map_or(now, |reported| (reported + EVERY_MIN).max(now));
        self.report_at = self.report_at.min(soonest);
    }

    fn health_changed(&mut self, now: Instant) {
        let addresses = &self.config.addresses;
        let mut health = Health::new(addresses.fabric());
        let own = (0..addresses.of(self.config.host).len() as u8).filter(|nic| self.own_down >> nic & 1 == 1);
        let others = self.down.iter().filter_map(|&address| addresses.nic_of(address));
        let links: Vec<LinkId> =
            own.map(|nic| (self.config.host, nic)).chain(others).filter_map(|(host, nic)| addresses.link(host, nic)).collect();
        for link in links {
            health.fail(addresses.fabric(), Part::Cable(link.cable()));
        }
        self.router.health_changed(&health);
        self.health = health;
        self.draw_slots();
        self.report_soon(now);
    }

    /// Passes on what has changed of where new flows go.
    fn draw_slots(&mut self) {
        let addresses = self.config.addresses.clone();
        let (fabric, own) = (addresses.fabric(), self.config.host);
        self.router.set_access_paths(own, Direction::Out, self.weighted(own, Direction::Out));
        for peer in fabric.hosts().filter(|&peer| peer != own) {
            self.router.set_access_paths(peer, Direction::In, self.weighted(peer, Direction::In));
            let pairs = self.router.access_pairs(own, peer);
            let nics = pairs.iter().filter_map(|(leaving, arriving, probability)| {
                let out = self.number_of(own, Direction::Out, &leaving.links)?;
                let into = self.number_of(peer, Direction::In, &arriving.links)?;
                Some((NicPair { out, into }, *probability))
            });
            let nics: Vec<(NicPair, f64)> = nics.collect();
            // To a peer that cannot be reached flows go as before.
            let Some(slots) = apportion(&nics) else { continue };
            let address = addresses.of(peer)[0];
            if self.slots.get(&address) != Some(&slots) {
                self.slots.insert(address, slots.clone());
                self.outputs.push_back(HostOutput::Slots(address, slots));
            }
        }
    }

    /// The NICs of a host, by what is left of their ToRs, or the paths that the scheduler has listed; `None` without a scheduler's word on all of them: by their speed.
    fn weighted(&self, host: HostId, direction: Direction) -> Option<Vec<AccessPath>> {
        if let Some(listed) = self.detours.paths_of(host, direction) {
            return Some(listed.iter().map(|(path, _)| path.clone()).collect());
        }
        let fabric = self.config.addresses.fabric();
        let path = |&nic: &LinkId| {
            let weight = self.weights.get(&fabric.as_switch(fabric.link(nic).to)?)?[direction as usize];
            let link = if direction == Direction::Out { nic } else { nic.reverse() };
            Some(AccessPath { links: Path::from_slice(&[link]), weight, limit: None })
        };
        fabric.out(host.node()).iter().map(path).collect()
    }
}

/// Each pair as often as its probability says, by largest remainders; `None` if there is none.
fn apportion(pairs: &[(NicPair, f64)]) -> Option<Box<[NicPair; SLOTS]>> {
    let mut shares: Vec<(NicPair, usize, f64)> = pairs
        .iter()
        .map(|&(nics, probability)| {
            let exact = probability * SLOTS as f64;
            (nics, exact as usize, exact.fract())
        })
        .collect();
    let given: usize = shares.iter().map(|(_, count, _)| count).sum();
    let mut order: Vec<usize> = (0..shares.len()).collect();
    order.sort_by(|&a, &b| shares[b].2.total_cmp(&shares[a].2));
    for &at in order.iter().cycle().take(if shares.is_empty() { 0 } else { SLOTS.saturating_sub(given) }) {
        shares[at].1 += 1;
    }
    let all: Vec<NicPair> = shares.iter().flat_map(|&(nics, count, _)| std::iter::repeat_n(nics, count)).take(SLOTS).collect();
    all.try_into().ok()
}

/// A scheduler that says nothing for so long says nothing.
const SILENCE: Duration = Duration::from_secs(3);
/// Flows that have sent nothing for so long are not reported.
const IDLE: Duration = Duration::from_secs(10);
/// Flows of a host that are reported, at most.
const REPORTED_MAX: usize = 1024;
/// Reports whose orders are waited for, to measure the control loop.
const SENT_MAX: usize = 64;
