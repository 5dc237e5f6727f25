//! The agent's part of SPAIN (NetLord sections 3.4 and 6): which VLAN a flow takes to a destination, and which ones it must avoid.
//!
//! ```text
//!             Sent, Heard, Chirped, timer                    Chirp, Answer, Failed, Restored
//!   shell  ----------------------------> SpainAgent  ------------------------------------------>  shell
//!             choose(destination, flow) -> VLAN        deadline()
//!
//!   a way in use     heard ... silent for a period      chirp, period, chirp, answer time, still silent -> failed
//!   a failed way     a chirp a period, as long as its destination is in use        anything heard on it -> restored
//! ```
//! A *way* is a (VLAN, destination) pair; a destination is whatever the tables name: with NetLord an edge switch as an interface of the server
//! reaches it, and its peer is the agent that was last heard of or sent to there. Anything that comes from a destination over a VLAN, a tenant's packet or an answer to a chirp, is a sign of life of the
//! way, because flows keep one VLAN in both directions. A way that nobody uses is not watched and costs nothing.
//!
//! The VLAN of a flow is the healthy one with the highest hash of flow and VLAN: when a way fails only its flows move, and they come back with
//! it. Both ends find the same one without a word, as long as they know the same failures and number a flow alike.

mod chooser;
mod tables;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use weft_fabric::rng::mix;
use weft_fabric::routing::spain::VlanId;
use weft_fabric::{Duration, Instant};

pub use chooser::SpainPaths;
pub use tables::{SpainTables, TEXT, TablesError};

/// A destination: the number of an interface and an edge switch in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Destination(pub u32);

/// A way: a VLAN to a destination.
pub type Way = (Destination, VlanId);

/// Settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpainConfig {
    /// A way in use that is silent for so long gets a chirp, and one more each period.
    pub period: Duration,
    /// So many chirps without an answer, one after the other: it has failed.
    pub misses: u32,
    /// How long the last of them is waited for.
    pub answer: Duration,
    /// A way is in use for so long after something was sent over it.
    pub in_use: Duration,
}

impl Default for SpainConfig {
    fn default() -> Self {
        let period = Duration::from_ms(100);
        Self { period, misses: 2, answer: Duration::from_ms(50), in_use: Duration::from_secs(10) }
    }
}

/// Settings that mean nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)]
pub enum SpainError {
    #[error("the chirp period is 0: write a time such as 100 ms")]
    NoPeriod,
    #[error("a way fails after 1 missed chirp or more, not 0")]
    NoMisses,
    #[error("an answer may take from 1 ps to a period of {period}, not {answer}")]
    Answer { period: Duration, answer: Duration },
}

impl SpainConfig {
    /// Checks the settings.
    ///
    /// # Errors
    /// The first that means nothing.
    pub fn check(&self) -> Result<(), SpainError> {
        let Self { period, misses, answer, .. } = *self;
        if period == Duration::ZERO {
            return Err(SpainError::NoPeriod);
        }
        if misses == 0 {
            return Err(SpainError::NoMisses);
        }
        if answer == Duration::ZERO || answer > period {
            return Err(SpainError::Answer { period, answer });
        }
        Ok(())
    }

    /// From the last sign of life to the failure of a way, at the most: two and a half periods with the usual settings.
    pub fn failover(&self) -> Duration {
        Duration::from_ps(self.period.as_ps().saturating_mul(u64::from(self.misses)).saturating_add(self.answer.as_ps()))
    }
}

/// What happens to the agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input<'a> {
    /// The table of a destination, from now on: its VLANs, that of the shortest path first; none: it is gone.
    Table {
        /// The destination.
        to: Destination,
        /// Its VLANs.
        vlans: &'a [VlanId],
    },
    /// A packet was sent.
    Sent {
        /// Over this way,
        way: Way,
        /// to this agent behind the destination.
        peer: u32,
    },
    /// A packet has come, or the answer to a chirp.
    Heard {
        /// Over this way,
        way: Way,
        /// from this agent behind the destination.
        peer: u32,
    },
    /// A chirp has come.
    Chirped {
        /// Over this way,
        way: Way,
        /// from this agent behind the destination.
        peer: u32,
    },
    /// The deadline has come.
    Timer,
}

/// What the agent wants done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// Send a chirp over a way to this agent.
    Chirp(Way, u32),
    /// Answer this agent's chirp over the same way.
    Answer(Way, u32),
    /// Flows avoid this way from now on.
    Failed(Way),
    /// Flows use it again.
    Restored(Way),
}

/// What was counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpainCounters {
    /// Chirps sent.
    pub chirps: u64,
    /// Chirps answered.
    pub answers: u64,
    /// Ways that have failed.
    pub failures: u64,
    /// Ways that work again.
    pub restorations: u64,
    /// Packets and chirps over ways that the table does not have.
    pub strangers: u64,
}

/// The machine.
#[derive(Debug)]
pub struct SpainAgent {
    config: SpainConfig,
    tables: BTreeMap<Destination, Vec<WayState>>,
    /// When to look at which way.
    timers: BTreeSet<(Instant, Way)>,
    outputs: VecDeque<Output>,
    counters: SpainCounters,
}

/// What is known of a way.
#[derive(Clone, Copy, Debug)]
struct WayState {
    vlan: VlanId,
    /// It is in use until then.
    used_until: Option<Instant>,
    /// Chirps since the last sign of life.
    chirps: u32,
    failed: bool,
    /// The last agent there.
    peer: u32,
    /// Its timer, if it has one.
    timer: Option<Instant>,
    /// The last sign of life, or when it came into use.
    heard: Instant,
}

impl SpainAgent {
    /// An agent without tables.
    ///
    /// # Errors
    /// Settings that mean nothing.
    pub fn new(config: SpainConfig) -> Result<Self, SpainError> {
        config.check()?;
        Ok(Self {
            config,
            tables: BTreeMap::new(),
            timers: BTreeSet::new(),
            outputs: VecDeque::new(),
            counters: SpainCounters::default(),
        })
    }

    /// The VLAN of a flow to a destination: a healthy one; if all have failed, one of those; `None` if the table has none. `flow` is a hash of
    /// the flow that is the same in both directions.
    pub fn choose(&self, to: Destination, flow: u64) -> Option<VlanId> {
        let ways = self.tables.get(&to)?;
        let healthy = ways.iter().filter(|w| !w.failed).map(|w| w.vlan);
        choose(healthy, flow).or_else(|| choose(ways.iter().map(|w| w.vlan), flow))
    }

    /// Whether flows avoid a way.
    pub fn is_failed(&self, (to, vlan): Way) -> bool {
        self.tables.get(&to).is_some_and(|ways| ways.iter().any(|w| w.vlan == vlan && w.failed))
    }

    /// What was counted.
    pub fn counters(&self) -> SpainCounters {
        self.counters
    }

    /// Tells the agent what happened at `now`.
    pub fn handle(&mut self, now: Instant, input: Input<'_>) {
        match input {
            Input::Table { to, vlans } => self.set_table(now, to, vlans),
            Input::Sent { way, peer } => self.sent(now, way, peer),
            Input::Heard { way, peer } => {
                self.heard(now, way, peer);
            }
            Input::Chirped { way, peer } => {
                if self.heard(now, way, peer) {
                    self.counters.answers += 1;
                    self.outputs.push_back(Output::Answer(way, peer));
                }
            }
            Input::Timer => self.timer(now),
        }
    }

    /// The next thing to do; call until `None` after each [`SpainAgent::handle`].
    pub fn poll(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// When to hand in [`Input::Timer`].
    pub fn deadline(&self) -> Option<Instant> {
        self.timers.first().map(|&(at, _)| at)
    }

    /// Ways that were there before keep their state.
    fn set_table(&mut self, now: Instant, to: Destination, vlans: &[VlanId]) {
        let mut before = self.tables.remove(&to).unwrap_or_default();
        let fresh = |vlan| WayState { vlan, used_until: None, chirps: 0, failed: false, peer: 0, timer: None, heard: now };
        let mut ways: Vec<WayState> = Vec::with_capacity(vlans.len());
        for &vlan in vlans {
            if ways.iter().all(|w| w.vlan != vlan) {
                let known = before.iter().position(|w| w.vlan == vlan).map(|i| before.swap_remove(i));
                ways.push(known.unwrap_or_else(|| fresh(vlan)));
            }
        }
        for gone in before {
            self.timers.retain(|&(_, way)| way != (to, gone.vlan));
        }
        if !ways.is_empty() {
            self.tables.insert(to, ways);
        }
    }

    fn sent(&mut self, now: Instant, way: Way, peer: u32) {
        let SpainConfig { period, in_use, .. } = self.config;
        let Some(state) = find(&mut self.tables, way) else { return self.counters.strangers += 1 };
        if state.used_until.is_none_or(|until| until <= now) && state.timer.is_none() {
            // It comes into use: silence counts from here.
            (state.heard, state.chirps) = (now, 0);
            set_timer(&mut self.timers, way, state, Some(now + period));
        }
        let wakes = state.used_until.is_none_or(|until| until <= now);
        state.used_until = Some(now + in_use);
        state.peer = peer;
        if wakes {
            self.wake_failed(now + period, way.0);
        }
    }

    /// Failed ways to a destination that is in use again are tried again.
    fn wake_failed(&mut self, at: Instant, to: Destination) {
        for state in self.tables.get_mut(&to).into_iter().flatten().filter(|w| w.failed && w.timer.is_none()) {
            set_timer(&mut self.timers, (to, state.vlan), state, Some(at));
        }
    }

    /// Whether the table has the way.
    fn heard(&mut self, now: Instant, way: Way, peer: u32) -> bool {
        let Some(state) = find(&mut self.tables, way) else {
            self.counters.strangers += 1;
            return false;
        };
        (state.heard, state.chirps, state.peer) = (now, 0, peer);
        if std::mem::take(&mut state.failed) {
            self.counters.restorations += 1;
            self.outputs.push_back(Output::Restored(way));
        }
        true
    }

    fn timer(&mut self, now: Instant) {
        while let Some(&(at, way)) = self.timers.first()
            && at <= now
        {
            self.look(now, way);
        }
    }

    /// A way's timer has come.
    fn look(&mut self, now: Instant, way: Way) {
        let SpainConfig { period, misses, answer, .. } = self.config;
        let active = self.is_active(now, way.0);
        let state = find(&mut self.tables, way).expect("a timer of a way in the table");
        let silent = now.saturating_since(state.heard);
        let is_wanted = if state.failed { active } else { state.used_until.is_some_and(|until| until > now) };
        let next = if !is_wanted {
            None
        } else if state.chirps == 0 && silent < period {
            Some(state.heard + period)
        } else if !state.failed && state.chirps >= misses {
            state.failed = true;
            self.counters.failures += 1;
            self.outputs.push_back(Output::Failed(way));
            Some(now + period)
        } else {
            state.chirps = state.chirps.saturating_add(1);
            self.counters.chirps += 1;
            self.outputs.push_back(Output::Chirp(way, state.peer));
            let last = !state.failed && state.chirps == misses;
            Some(now + if last { answer } else { period })
        };
        set_timer(&mut self.timers, way, state, next);
    }

    /// Whether any way to a destination is in use: its failed ones are then tried again.
    fn is_active(&self, now: Instant, to: Destination) -> bool {
        self.tables.get(&to).is_some_and(|ways| ways.iter().any(|w| w.used_until.is_some_and(|until| until > now)))
    }
}

/// The VLAN with the highest hash of flow and VLAN.
pub fn choose(vlans: impl IntoIterator<Item = VlanId>, flow: u64) -> Option<VlanId> {
    vlans.into_iter().max_by_key(|v| (mix(flow ^ mix(u64::from(v.0) + 1)), *v))
}

fn find(tables: &mut BTreeMap<Destination, Vec<WayState>>, (to, vlan): Way) -> Option<&mut WayState> {
    tables.get_mut(&to)?.iter_mut().find(|w| w.vlan == vlan)
}

fn set_timer(timers: &mut BTreeSet<(Instant, Way)>, way: Way, state: &mut WayState, at: Option<Instant>) {
    if let Some(before) = state.timer {
        timers.remove(&(before, way));
    }
    state.timer = at;
    if let Some(at) = at {
        timers.insert((at, way));
    }
}

#[cfg(test)]
mod tests;
