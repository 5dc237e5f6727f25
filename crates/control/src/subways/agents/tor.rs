//! A ToR's part: it reports what its ports count, and which of them are up.

use std::collections::VecDeque;
use std::net::SocketAddr;

use super::{EVERY, EVERY_MAX, EVERY_MIN};
use crate::directory::key::PrincipalId;
use crate::time::{Duration, Instant};
use crate::wire::subways::{Frame, Message, PORTS_MAX, PortCounter, ReportHead, TorReport};
use crate::wire::vl2::placement::PlacementKey;

/// Settings of a reporter.
#[derive(Clone, Debug)]
pub struct TorConfig {
    /// The ToR.
    pub principal: PrincipalId,
    /// Its key.
    pub key: PlacementKey,
    /// The schedulers; each gets all reports, and the one that started last says how often.
    pub schedulers: Vec<SocketAddr>,
    /// The first report has the next number: greater than those of the agent's earlier lives, such as nanoseconds since 1970.
    pub sequence: u64,
}

/// A ToR's part: when [`TorReporter::deadline`] has come, the caller reads its ports and passes them on.
#[derive(Debug)]
pub struct TorReporter {
    config: TorConfig,
    sequence: u64,
    generation: u64,
    number: u64,
    every: Duration,
    due: Instant,
    heard: Option<Instant>,
    refused: u64,
    outputs: VecDeque<(SocketAddr, Vec<u8>)>,
}

impl TorReporter {
    /// One that reports for the first time at once.
    pub fn new(config: TorConfig, now: Instant) -> Self {
        let sequence = config.sequence;
        Self {
            config,
            sequence,
            generation: 0,
            number: 0,
            every: EVERY,
            due: now,
            heard: None,
            refused: 0,
            outputs: VecDeque::new(),
        }
    }

    /// When to read the ports.
    pub const fn deadline(&self) -> Instant {
        self.due
    }

    /// Has the ports read soon: one has failed, or works again.
    pub fn hurry(&mut self, now: Instant) {
        self.due = self.due.min(now);
    }

    /// What the ports count now.
    pub fn ports(&mut self, now: Instant, ports: &[PortCounter]) {
        self.sequence += 1;
        self.due = now + self.every;
        let parts = ports.len().div_ceil(PORTS_MAX).max(1) as u8;
        for part in 0..parts {
            let from = usize::from(part) * PORTS_MAX;
            let head = ReportHead {
                principal: self.config.principal,
                sequence: self.sequence,
                time: now.saturating_since(Instant::ZERO),
                generation: self.generation,
                part,
                parts,
            };
            let report = TorReport { head, ports: ports[from..(from + PORTS_MAX).min(ports.len())].to_vec() };
            let bytes = report.emit(&self.config.key);
            self.outputs.extend(self.config.schedulers.iter().map(|&to| (to, bytes.clone())));
        }
    }

    /// A datagram has come.
    pub fn datagram(&mut self, now: Instant, bytes: &[u8]) {
        let orders = match Frame::parse(bytes) {
            Ok(frame) if frame.principal() == self.config.principal && frame.is_of(&self.config.key) => match frame.message {
                Message::Orders(orders) => orders,
                _ => return self.refused += 1,
            },
            _ => return self.refused += 1,
        };
        let answers = orders.sequence > self.config.sequence && orders.sequence <= self.sequence;
        let is_older = orders.generation < self.generation;
        let is_again = orders.generation == self.generation && orders.number <= self.number;
        if !answers || is_older || is_again {
            return self.refused += 1;
        }
        (self.generation, self.number, self.heard) = (orders.generation, orders.number, Some(now));
        self.every = orders.every.clamp(EVERY_MIN, EVERY_MAX);
        self.due = self.due.min(now + self.every);
    }

    /// The next datagram to send; call until `None` after each input.
    pub fn poll(&mut self) -> Option<(SocketAddr, Vec<u8>)> {
        self.outputs.pop_front()
    }

    /// The generation of the scheduler that answers, and how long it has not been heard.
    pub fn scheduler(&self, now: Instant) -> Option<(u64, Duration)> {
        self.heard.map(|heard| (self.generation, now.saturating_since(heard)))
    }

    /// Reports so far.
    pub const fn reports(&self) -> u64 {
        self.sequence - self.config.sequence
    }

    /// Datagrams that are no orders, not tagged rightly, or too old.
    pub const fn refused(&self) -> u64 {
        self.refused
    }
}
