//! An agent's part: it reports the elephants of its host to the scheduler, and has them placed as the scheduler answers.
//!
//! ```text
//!   a flow:   mouse --Elephant--> reported --Orders--> placed --Ended, idle--> gone
//!                                     ^                  |
//!                                     '--lost packets, intermediate switch does not answer: over anycast addresses again
//! ```
//! - A placed flow that loses a whole window has its intermediate switch probed. If there is no answer, all flows over it fall back and the next report
//!   names it; it is probed until it answers. If it answers and the flow loses another window, the path beyond is broken: this flow alone falls back,
//!   and refuses that switch for a while.
//! - Orders of an older scheduler, and of none that answers a report of this agent, are dropped and counted.

use std::collections::{BTreeMap, VecDeque};
use std::net::{Ipv4Addr, SocketAddr};

use super::Placement;
use crate::directory::key::PrincipalId;
use crate::time::{Duration, Instant};
use crate::wire::packet::ip::Flow;
use crate::wire::vl2::placement::{ADDRESSES_MAX, Frame, Message, Orders, PlacementKey, REPORTED_MAX, Report, Reported};

/// Settings of an agent.
#[derive(Clone, Debug)]
pub struct HostConfig {
    /// The host.
    pub principal: PrincipalId,
    /// Its key.
    pub key: PlacementKey,
    /// The schedulers; the one that started last is obeyed.
    pub schedulers: Vec<SocketAddr>,
    /// The first report has the next number: greater than those of the agent's earlier lives, such as nanoseconds since 1970.
    pub sequence: u64,
}

/// What a flow has sent, as the data plane counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SentBytes {
    /// Bytes.
    pub bytes: u64,
    /// Since the first of them.
    pub age: Duration,
    /// Since the last.
    pub idle: Duration,
}

/// What happens.
#[derive(Clone, Copy, Debug)]
pub enum HostInput<'a> {
    /// A datagram came to the socket of reports.
    Datagram(&'a [u8]),
    /// A flow is large.
    Elephant(Flow),
    /// A large flow has ended.
    Ended(Flow),
    /// An earlier agent has left a large flow, and its placement.
    Adopted(Flow, Option<Placement>),
    /// The answer to [`HostOutput::Read`]: what each of the flows has sent; a flow that is missing is not counted any longer.
    Counts(&'a [(Flow, SentBytes)]),
    /// A flow has lost a whole window.
    Congested(Flow),
    /// The fabric has answered packets of a flow with an error.
    Undeliverable(Flow),
    /// An intermediate switch has answered a probe.
    Answered(Ipv4Addr),
    /// The deadline has come.
    Timer,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostOutput {
    /// Read what [`PlacementHost::flows`] have sent; the answer is [`HostInput::Counts`].
    Read,
    /// Send a datagram to a scheduler.
    Send(SocketAddr, Vec<u8>),
    /// Send a flow over this intermediate switch.
    Place(Flow, Placement),
    /// Send a flow over anycast addresses again.
    Remove(Flow),
    /// A flow has ended: it is counted from nothing if it begins again.
    Forget(Flow),
    /// Send an echo request to an intermediate switch.
    Probe(Ipv4Addr),
}

/// What was counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostCounts {
    /// Reports, to all schedulers together.
    pub reports: u64,
    /// Changes of placements that were made as ordered.
    pub placed: u64,
    /// Flows that fell back to anycast addresses by themselves.
    pub fallen_back: u64,
    /// Elephants beyond the limit, which are not reported.
    pub over_limit: u64,
    /// Datagrams that are no orders, or not tagged rightly.
    pub refused: u64,
    /// Orders of a scheduler that another one, started later, has superseded.
    pub superseded: u64,
    /// Orders that came twice, too late, or for a report of an earlier life.
    pub stale: u64,
}

/// Lengths of the control loop (Hedera, section 6.4.5): from a report to the changed placement in the data plane, without the time that
/// the report waited for the scheduler's round.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LoopLengths {
    /// How many were measured.
    pub count: u64,
    /// Their sum.
    pub sum: Duration,
    /// The longest.
    pub max: Duration,
}

impl LoopLengths {
    pub(crate) fn add(&mut self, length: Duration) {
        self.count += 1;
        self.sum = self.sum + length;
        self.max = self.max.max(length);
    }

    /// The mean; `None` if none was measured.
    pub fn mean(&self) -> Option<Duration> {
        self.sum.as_ns().checked_div(self.count).map(Duration::from_ns)
    }
}

/// An agent's part.
#[derive(Debug)]
pub struct PlacementHost {
    config: HostConfig,
    flows: BTreeMap<Flow, Tracked>,
    generation: u64,
    /// Of the last orders of this generation.
    number: u64,
    first_sequence: u64,
    sequence: u64,
    /// When the last reports were sent.
    sent: VecDeque<(u64, Instant)>,
    every: Duration,
    report_at: Instant,
    reported: Option<Instant>,
    heard: Option<Instant>,
    last_loop: Duration,
    probes: BTreeMap<Ipv4Addr, Probe>,
    loops: LoopLengths,
    counts: HostCounts,
    outputs: VecDeque<HostOutput>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Tracked {
    placement: Option<Placement>,
    /// When it last lost a whole window.
    congested: Option<Instant>,
    /// The placement that it gave up, and until when.
    refused: Option<(Placement, Instant)>,
}

/// An intermediate switch that may have failed.
#[derive(Clone, Copy, Debug)]
struct Probe {
    unanswered: u32,
    next: Instant,
}

impl PlacementHost {
    /// An agent that reports for the first time at once.
    pub fn new(config: HostConfig, now: Instant) -> Self {
        Self {
            flows: BTreeMap::new(),
            generation: 0,
            number: 0,
            first_sequence: config.sequence,
            sequence: config.sequence,
            sent: VecDeque::new(),
            every: EVERY,
            report_at: now,
            reported: None,
            heard: None,
            last_loop: Duration::ZERO,
            probes: BTreeMap::new(),
            loops: LoopLengths::default(),
            counts: HostCounts::default(),
            outputs: VecDeque::new(),
            config,
        }
    }

    /// Takes an input. Time never goes back.
    pub fn handle(&mut self, now: Instant, input: HostInput<'_>) {
        match input {
            HostInput::Datagram(bytes) => self.datagram(now, bytes),
            HostInput::Elephant(flow) => self.track(now, flow, None),
            HostInput::Adopted(flow, placement) => self.track(now, flow, placement),
            HostInput::Ended(flow) => self.end(now, flow),
            HostInput::Counts(counts) => self.report(now, counts),
            HostInput::Congested(flow) => self.congested(now, flow),
            HostInput::Undeliverable(flow) => self.undeliverable(now, flow),
            HostInput::Answered(address) => self.answered(now, address),
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
        self.probes.values().map(|probe| probe.next).min().map_or(self.report_at, |next| next.min(self.report_at))
    }

    /// The elephants, each with its placement.
    pub fn flows(&self) -> impl ExactSizeIterator<Item = (Flow, Option<Placement>)> + '_ {
        self.flows.iter().map(|(&flow, tracked)| (flow, tracked.placement))
    }

    /// Intermediate switches that do not answer.
    pub fn unreachable(&self) -> impl Iterator<Item = Ipv4Addr> + '_ {
        self.probes.iter().filter(|(_, probe)| probe.has_failed()).map(|(&address, _)| address)
    }

    /// The generation of the scheduler that is obeyed, and how long it has not been heard.
    pub fn scheduler(&self, now: Instant) -> Option<(u64, Duration)> {
        self.heard.map(|heard| (self.generation, now.saturating_since(heard)))
    }

    /// What was counted.
    pub const fn counts(&self) -> &HostCounts {
        &self.counts
    }

    /// Lengths of the control loop.
    pub const fn loops(&self) -> &LoopLengths {
        &self.loops
    }

    fn track(&mut self, now: Instant, flow: Flow, placement: Option<Placement>) {
        if self.flows.len() >= FLOWS_MAX && !self.flows.contains_key(&flow) {
            self.counts.over_limit += 1;
            if placement.is_some() {
                self.outputs.push_back(HostOutput::Remove(flow));
            }
            return;
        }
        let tracked = self.flows.entry(flow).or_default();
        tracked.placement = tracked.placement.or(placement);
        self.report_soon(now);
    }

    fn end(&mut self, now: Instant, flow: Flow) {
        if let Some(tracked) = self.flows.remove(&flow) {
            if tracked.placement.is_some() {
                self.outputs.push_back(HostOutput::Remove(flow));
            }
            self.outputs.push_back(HostOutput::Forget(flow));
            self.report_soon(now);
        }
    }

    /// As soon as the last report is old enough.
    fn report_soon(&mut self, now: Instant) {
        let soonest = self.reported.map_or(now, |reported| (reported + GAP_MIN).max(now));
        self.report_at = self.report_at.min(soonest);
    }

    fn run_due(&mut self, now: Instant) {
        let due: Vec<Ipv4Addr> = self.probes.iter().filter(|(_, probe)| probe.next <= now).map(|(&it, _)| it).collect();
        for address in due {
            self.probe(now, address);
        }
        if self.report_at <= now {
            self.report_at = now + self.every;
            self.outputs.push_back(HostOutput::Read);
        }
    }

    fn report(&mut self, now: Instant, counts: &[(Flow, SentBytes)]) {
        let known: BTreeMap<Flow, SentBytes> = counts.iter().copied().collect();
        let is_over = |flow: &Flow| known.get(flow).is_none_or(|sent| sent.idle >= IDLE);
        let over: Vec<Flow> = self.flows.keys().filter(|flow| is_over(flow)).copied().collect();
        over.into_iter().for_each(|flow| self.end(now, flow));
        let of = |(flow, tracked): (&Flow, &mut Tracked)| {
            let sent = known.get(flow)?;
            tracked.refused = tracked.refused.filter(|(_, until)| *until > now);
            let refused = tracked.refused.map(|(placement, _)| placement);
            let (placement, is_refused) = (tracked.placement.or(refused), tracked.placement.is_none() && refused.is_some());
            Some(Reported { flow: *flow, bytes: sent.bytes, age: sent.age, placement, is_refused })
        };
        let flows: Vec<Reported> = self.flows.iter_mut().filter_map(of).collect();
        let unreachable: Vec<Ipv4Addr> = self.unreachable().take(ADDRESSES_MAX).collect();
        let parts: Vec<&[Reported]> = if flows.is_empty() { vec![&[]] } else { flows.chunks(REPORTED_MAX).collect() };
        self.sequence += 1;
        for (part, flows) in (0..).zip(&parts) {
            let report = Report {
                principal: self.config.principal,
                sequence: self.sequence,
                time: now.saturating_since(Instant::ZERO),
                generation: self.generation,
                loop_length: self.last_loop,
                part,
                parts: parts.len() as u8,
                flows: flows.to_vec(),
                unreachable: if part == 0 { unreachable.clone() } else { Vec::new() },
            };
            let bytes = report.emit(&self.config.key);
            self.outputs.extend(self.config.schedulers.iter().map(|&to| HostOutput::Send(to, bytes.clone())));
        }
        self.counts.reports += self.config.schedulers.len() as u64;
        self.last_loop = Duration::ZERO;
        self.reported = Some(now);
        self.report_at = now + self.every;
        self.sent.push_back((self.sequence, now));
        if self.sent.len() > SENT_MAX {
            self.sent.pop_front();
        }
    }

    fn datagram(&mut self, now: Instant, bytes: &[u8]) {
        let orders = match Frame::parse(bytes) {
            Ok(frame) if frame.principal() == self.config.principal && frame.is_of(&self.config.key) => match frame.message {
                Message::Orders(orders) => orders,
                Message::Report(_) => return self.counts.refused += 1,
            },
            _ => return self.counts.refused += 1,
        };
        if orders.generation < self.generation {
            return self.counts.superseded += 1;
        }
        let is_new = orders.generation > self.generation;
        let answers = orders.sequence > self.first_sequence && orders.sequence <= self.sequence;
        if !answers || (!is_new && orders.number <= self.number) {
            return self.counts.stale += 1;
        }
        self.heard = Some(now);
        (self.generation, self.number) = (orders.generation, orders.number);
        self.every = orders.every.clamp(GAP_MIN, EVERY_MAX);
        self.report_at = self.report_at.min(now + self.every);
        if is_new {
            // It has read nothing yet: it knows now that this agent obeys it.
            self.report_soon(now);
        }
        self.obey(now, &orders);
    }

    fn obey(&mut self, now: Instant, orders: &Orders) {
        let mut has_changed = false;
        for &(flow, placement) in &orders.flows {
            let is_dead = placement.is_some_and(|it| self.probes.get(&it.intermediate).is_some_and(Probe::has_failed));
            let Some(tracked) = self.flows.get_mut(&flow) else { continue };
            let is_refused = tracked.refused.is_some_and(|(refused, until)| Some(refused) == placement && until > now);
            if is_dead || is_refused || tracked.placement == placement {
                continue;
            }
            tracked.placement = placement;
            tracked.congested = None;
            self.outputs.push_back(placement.map_or(HostOutput::Remove(flow), |placement| HostOutput::Place(flow, placement)));
            self.counts.placed += 1;
            has_changed = true;
        }
        let sent = self.sent.iter().find(|(sequence, _)| *sequence == orders.sequence);
        if let Some(&(_, sent)) = sent.filter(|_| has_changed) {
            let length = Duration::from_ns(now.saturating_since(sent).as_ns().saturating_sub(orders.held.as_ns()));
            self.last_loop = length;
            self.loops.add(length);
        }
    }

    fn congested(&mut self, now: Instant, flow: Flow) {
        let Some(tracked) = self.flows.get_mut(&flow) else { return };
        let Some(placement) = tracked.placement else { return };
        let again = tracked.congested.replace(now).is_some_and(|before| now.saturating_since(before) < REPEATED);
        if again {
            self.fall_back(now, flow, true);
        }
        self.suspect(now, placement.intermediate);
    }

    fn undeliverable(&mut self, now: Instant, flow: Flow) {
        if let Some(placement) = self.flows.get(&flow).and_then(|tracked| tracked.placement) {
            self.fall_back(now, flow, true);
            self.suspect(now, placement.intermediate);
        }
    }

    fn fall_back(&mut self, now: Instant, flow: Flow, refuses: bool) {
        let Some(tracked) = self.flows.get_mut(&flow) else { return };
        if let Some(placement) = tracked.placement.take() {
            tracked.refused = refuses.then_some((placement, now + REFUSED));
            self.outputs.push_back(HostOutput::Remove(flow));
            self.counts.fallen_back += 1;
            self.report_soon(now);
        }
    }

    fn suspect(&mut self, now: Instant, address: Ipv4Addr) {
        if self.probes.len() < PROBES_MAX || self.probes.contains_key(&address) {
            self.probes.entry(address).or_insert(Probe { unanswered: 0, next: now });
        }
    }

    fn probe(&mut self, now: Instant, address: Ipv4Addr) {
        let Some(probe) = self.probes.get_mut(&address) else { return };
        probe.unanswered += 1;
        let has_just_failed = probe.unanswered == PROBES_LOST + 1;
        probe.next = now + if probe.has_failed() { PROBE_AGAIN } else { PROBE };
        self.outputs.push_back(HostOutput::Probe(address));
        if has_just_failed {
            let over = |(_, tracked): &(&Flow, &Tracked)| tracked.placement.is_some_and(|it| it.intermediate == address);
            let flows: Vec<Flow> = self.flows.iter().filter(over).map(|(&flow, _)| flow).collect();
            flows.into_iter().for_each(|flow| self.fall_back(now, flow, false));
            self.report_soon(now);
        }
    }

    fn answered(&mut self, now: Instant, address: Ipv4Addr) {
        if self.probes.remove(&address).is_some_and(|probe| probe.has_failed()) {
            self.report_soon(now);
        }
    }
}

impl Probe {
    const fn has_failed(&self) -> bool {
        self.unanswered > PROBES_LOST
    }
}

/// Elephants that are reported, at most.
const FLOWS_MAX: usize = 1024;
/// From one report to the next, unless the scheduler says otherwise.
const EVERY: Duration = Duration::from_secs(1);
/// What it can say, at most.
const EVERY_MAX: Duration = Duration::from_secs(60);
/// From one report to the next, at least.
const GAP_MIN: Duration = Duration::from_ms(20);
/// A flow that has sent nothing for so long has ended.
const IDLE: Duration = Duration::from_secs(10);
/// Reports whose time is remembered.
const SENT_MAX: usize = 64;
/// Two lost windows within this are of one cause.
const REPEATED: Duration = Duration::from_secs(5);
/// How long a flow refuses a placement on which it has lost packets.
const REFUSED: Duration = Duration::from_secs(5);
/// From one probe to the next, until an intermediate switch has failed.
const PROBE: Duration = Duration::from_ms(250);
/// From then on.
const PROBE_AGAIN: Duration = Duration::from_secs(1);
/// It has failed once so many probes have not been answered.
const PROBES_LOST: u32 = 3;
/// Intermediate switches that are probed at a time.
const PROBES_MAX: usize = 64;
