//! Tenants' records: operators who change them and agents who subscribe, and what must hold for them whatever breaks.
//!
//! ```text
//!   editor:      open --> Browse, page by page --> Amend over the generations that it saw --> pause ...
//!   subscriber:  open --> Subscribe to all that it wants --> Records --> Notice --> Subscribe to those tenants --> ...
//!                ^----------------------- broken, or the store does not answer: the next server -----------------------'
//! ```
//! - A change that was acknowledged is in the store, at the revision of the answer; each commit is of one attempt, which is there once; the changes and
//!   reads of a record are linearizable.
//! - An answer to a subscriber is the state of one revision, never older than its question or than an answer before: of the tenants that it asked for
//!   alone, and of those that it may read.
//! - Once nothing fails, every subscriber has what the store has within [`LEARNT`] of each change.

mod attempts;
mod bodies;
mod editors;
mod subscribers;

use std::collections::BTreeMap;
use std::ops::Range;

use rand::RngExt;
use weft_control::directory::request::StreamId;
use weft_control::wire::directory::Message;
use weft_fabric::rng::{Pcg64, mix};
use weft_fabric::{Duration, Instant};
use weft_sim::directory::cluster::{Cluster, Seen};

use self::attempts::{Attempt, Browsed};
use self::editors::Editor;
use self::subscribers::Subscriber;
use super::operators::OPERATORS;

/// Operators that change records.
pub const EDITORS: Range<u16> = OPERATORS..OPERATORS + 2;
/// Agents that subscribe. They are operators for the cluster, and hosts for the policy.
pub const SUBSCRIBERS: Range<u16> = EDITORS.end..EDITORS.end + 3;
/// Token of the first one's call.
pub const FIRST_CALL: u64 = 2_000;

/// How soon a subscriber has a change once nothing fails.
pub const LEARNT: Duration = Duration::from_ms(300);
/// After the faults, until the store has a primary and every subscriber a stream.
const SETTLED: Duration = Duration::from_secs(6);

#[derive(Debug)]
pub struct Tenants {
    rng: Pcg64,
    servers: u16,
    heal_at: Instant,
    links: BTreeMap<u16, Link>,
    editors: BTreeMap<u16, Editor>,
    subscribers: BTreeMap<u16, Subscriber>,
    attempts: Vec<Attempt>,
    browsed: Vec<Browsed>,
    last_number: u32,
    pub counts: Counts,
}

/// How often something happened.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    pub questions: u64,
    pub answers: u64,
    pub notices: u64,
    pub forbidden: u64,
    pub elsewhere: u64,
    pub broken: u64,
    pub browsed: u64,
    pub committed: u64,
    pub conflicts: u64,
    pub invalid: u64,
    pub unknown: u64,
}

impl Counts {
    pub const fn all(&self) -> [u64; 11] {
        let Self { questions, answers, notices, forbidden, elsewhere, broken, .. } = *self;
        let Self { browsed, committed, conflicts, invalid, unknown, .. } = *self;
        [questions, answers, notices, forbidden, elsewhere, broken, browsed, committed, conflicts, invalid, unknown]
    }
}

/// A stream to a server.
#[derive(Debug, Default)]
struct Link {
    stream: Option<(StreamId, u16)>,
    /// The number of the last request.
    request: u64,
}

impl Tenants {
    pub fn new(seed: u64, servers: u16, heal_at: Instant) -> Self {
        Self {
            rng: Pcg64::new(u128::from(mix(seed)), 83),
            servers,
            heal_at,
            links: (EDITORS.start..SUBSCRIBERS.end).map(|n| (n, Link::default())).collect(),
            editors: EDITORS.map(|n| (n, Editor::default())).collect(),
            subscribers: SUBSCRIBERS.map(|n| (n, Subscriber::new(n))).collect(),
            attempts: Vec::new(),
            browsed: Vec::new(),
            last_number: 0,
            counts: Counts::default(),
        }
    }

    pub fn begin(&self, cluster: &mut Cluster) {
        for n in EDITORS.start..SUBSCRIBERS.end {
            cluster.call_at(Instant::ZERO + Duration::from_ms(u64::from(n)), FIRST_CALL + u64::from(n));
        }
    }

    /// It is an operator's turn.
    pub fn call(&mut self, cluster: &mut Cluster, token: u64) -> Result<(), String> {
        let operator = (token - FIRST_CALL) as u16;
        if !self.is_quiet(cluster) && self.rng.random_range(0..40) == 0 {
            self.leave(cluster, operator);
        }
        let pause_us = if EDITORS.contains(&operator) {
            self.edit(cluster, operator)
        } else {
            self.follow(cluster, operator).map_err(|e| format!("subscriber {operator}: {e}"))?;
            40_000
        };
        let after = Duration::from_us(self.rng.random_range(1_000..=pause_us));
        cluster.call_at(cluster.now() + after, token);
        Ok(())
    }

    /// An operator received something.
    pub fn see(&mut self, cluster: &mut Cluster, seen: &Seen) -> Result<(), String> {
        match seen {
            Seen::StreamBroken { operator, stream } => {
                if self.links[operator].stream.is_some_and(|(it, _)| it == *stream) {
                    self.counts.broken += 1;
                    self.lost(cluster, *operator);
                }
                Ok(())
            }
            Seen::StreamMessage { operator, stream, request, kind, body } => {
                let link = &self.links[operator];
                let is_notice = *request == 0;
                if link.stream.is_none_or(|(it, _)| it != *stream) || (!is_notice && link.request != *request) {
                    return Ok(());
                }
                let message = Message::parse(*kind, body).map_err(|e| format!("operator {operator} received {kind:?}: {e}"))?;
                let seen = if EDITORS.contains(operator) {
                    self.edited(cluster, *operator, &message)
                } else {
                    self.followed(cluster, *operator, &message)
                };
                seen.map_err(|e| format!("operator {operator}: {e}"))
            }
            _ => Ok(()),
        }
    }

    /// What must hold once all is quiet.
    pub fn check(&self, cluster: &Cluster) -> Result<(), String> {
        self.check_attempts(cluster)?;
        self.subscribers.iter().try_for_each(|(n, it)| it.has_all(cluster).map_err(|e| format!("subscriber {n}: {e}")))
    }

    fn is_quiet(&self, cluster: &Cluster) -> bool {
        cluster.now() >= self.heal_at + Duration::from_secs(2)
    }

    /// Goes to another server later.
    fn leave(&mut self, cluster: &mut Cluster, operator: u16) {
        let Some((stream, _)) = self.links[&operator].stream else { return };
        cluster.close_stream(stream);
        self.lost(cluster, operator);
    }

    /// Nothing more comes on a stream.
    fn lost(&mut self, cluster: &Cluster, operator: u16) {
        self.link(operator).stream = None;
        if let Some(editor) = self.editors.get_mut(&operator) {
            editor.lost();
        }
        // Not all agents of a server that has ended come to the next one at once.
        let after = Duration::from_us(self.rng.random_range(500_000..1_500_000));
        if let Some(subscriber) = self.subscribers.get_mut(&operator) {
            subscriber.lost(cluster.now() + after);
        }
    }

    fn link(&mut self, operator: u16) -> &mut Link {
        self.links.get_mut(&operator).expect("every operator has one")
    }

    /// Its number.
    fn send(&mut self, cluster: &mut Cluster, operator: u16, message: &Message<'_>) {
        let link = self.link(operator);
        let Some((stream, _)) = link.stream else { return };
        link.request += 1;
        cluster.send_request(stream, link.request, message);
    }
}
