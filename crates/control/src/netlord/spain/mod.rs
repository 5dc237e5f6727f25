//! The agent's part of SPAIN (NetLord sections 3.4 and 6): which VLAN a flow takes to a destination, and which ones it must avoid.
//!
//! ```text
//!             Sent, Heard, Chirped, timer                    Chirp, Answer, Failed, Restored
//!   shell  ----------------------------> SpainAgent  ------------------------------------------>  shell
//!             choose(destination, flow) -> VLAN        deadline()
//!
//!   a path in use     heard ... silent for a period      chirp, period, chirp, answer time, still silent -> failed
//!   a failed path     a chirp a period, as long as its destination is in use        anything heard on it -> restored
//! ```
//! A *path* is a (VLAN, destination) pair; a destination is whatever the tables name: with NetLord an edge switch as an interface of the server
//! reaches it, and its peer is the agent that was last heard of or sent to there. Anything that comes from a destination over a VLAN, a tenant's packet or an answer to a chirp, is a sign of life of the
//! path, because flows keep one VLAN in both directions. A path that nobody uses is not watched and costs nothing.
//!
//! The VLAN of a flow is the healthy one with the highest hash of flow and VLAN: when a path fails only its flows move, and they come back with
//! it. Both ends find the same one without a word, as long as they know the same failures and number a flow alike.

mod chooser;
mod tables;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::time::{Duration, Instant};
use weft_fabric::rng::mix;
use weft_fabric::routing::spain::VlanId;

pub use chooser::SpainPaths;
pub use tables::{DOCUMENT, SpainTables, TablesError};

/// A destination: the number of an interface and an edge switch in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Destination(pub u32);

/// A path: a VLAN to a destination.
pub type VlanPath = (Destination, VlanId);

/// Settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpainConfig {
    /// A path in use that is silent for so long gets a chirp, and one more each period.
    pub period: Duration,
    /// So many chirps without an answer, one after the other: it has failed.
    pub misses: u32,
    /// How long the last of them is waited for.
    pub answer: Duration,
    /// A path is in use for so long after something was sent over it.
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
    #[error("a path fails after 1 missed chirp or more, not 0")]
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

    /// The longest time from the last sign of life to the failure of a VLAN path: two and a half periods with the default settings.
    pub fn failover(&self) -> Duration {
        Duration::from_ns(self.period.as_ns().saturating_mul(u64::from(self.misses)).saturating_add(self.answer.as_ns()))
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
        /// Over this path,
        path: VlanPath,
        /// to this agent behind the destination.
        peer: u32,
    },
    /// A packet has come, or the answer to a chirp.
    Heard {
        /// Over this path,
        path: VlanPath,
        /// from this agent behind the destination.
        peer: u32,
    },
    /// A chirp has come.
    Chirped {
        /// Over this path,
        path: VlanPath,
        /// from this agent behind the destination.
        peer: u32,
    },
    /// The deadline has come.
    Timer,
}

/// What the agent wants done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// Send a chirp over a path to this agent.
    Chirp(VlanPath, u32),
    /// Answer this agent's chirp over the same path.
    Answer(VlanPath, u32),
    /// Flows avoid this path from now on.
    Failed(VlanPath),
    /// Flows use it again.
    Restored(VlanPath),
}

/// What was counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpainCounters {
    /// Chirps sent.
    pub chirps: u64,
    /// Chirps answered.
    pub answers: u64,
    /// VLAN paths that have failed.
    pub failures: u64,
    /// VLAN paths that work again.
    pub restorations: u64,
    /// Packets and chirps over paths that the table does not have.
    pub strangers: u64,
}

/// The machine.
#[derive(Debug)]
pub struct SpainAgent {
    config: SpainConfig,
    tables: BTreeMap<Destination, Vec<VlanPathState>>,
    /// When to look at which path.
    timers: BTreeSet<(Instant, VlanPath)>,
    outputs: VecDeque<Output>,
    counters: SpainCounters,
}

/// What is known of a path.
#[derive(Clone, Copy, Debug)]
struct VlanPathState {
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
        let paths = self.tables.get(&to)?;
        let healthy = paths.iter().filter(|w| !w.failed).map(|w| w.vlan);
        choose(healthy, flow).or_else(|| choose(paths.iter().map(|w| w.vlan), flow))
    }

    /// Whether flows avoid a path.
    pub fn is_failed(&self, (to, vlan): VlanPath) -> bool {
        self.tables.get(&to).is_some_and(|paths| paths.iter().any(|w| w.vlan == vlan && w.failed))
    }

    /// What was counted.
    pub fn counters(&self) -> SpainCounters {
        self.counters
    }

    /// Passes an input that happened at `now`.
    pub fn handle(&mut self, now: Instant, input: Input<'_>) {
        match input {
            Input::Table { to, vlans } => self.set_table(now, to, vlans),
            Input::Sent { path, peer } => self.sent(now, path, peer),
            Input::Heard { path, peer } => {
                self.heard(now, path, peer);
            }
            Input::Chirped { path, peer } => {
                if self.heard(now, path, peer) {
                    self.counters.answers += 1;
                    self.outputs.push_back(Output::Answer(path, peer));
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

    /// VLAN paths that were there before keep their state.
    fn set_table(&mut self, now: Instant, to: Destination, vlans: &[VlanId]) {
        let mut before = self.tables.remove(&to).unwrap_or_default();
        let fresh = |vlan| VlanPathState { vlan, used_until: None, chirps: 0, failed: false, peer: 0, timer: None, heard: now };
        let mut paths: Vec<VlanPathState> = Vec::with_capacity(vlans.len());
        for &vlan in vlans {
            if paths.iter().all(|w| w.vlan != vlan) {
                let known = before.iter().position(|w| w.vlan == vlan).map(|i| before.swap_remove(i));
                paths.push(known.unwrap_or_else(|| fresh(vlan)));
            }
        }
        for gone in before {
            self.timers.retain(|&(_, path)| path != (to, gone.vlan));
        }
        if !paths.is_empty() {
            self.tables.insert(to, paths);
        }
    }

    fn sent(&mut self, now: Instant, path: VlanPath, peer: u32) {
        let SpainConfig { period, in_use, .. } = self.config;
        let Some(state) = find(&mut self.tables, path) else { return self.counters.strangers += 1 };
        if state.used_until.is_none_or(|until| until <= now) && state.timer.is_none() {
            // It comes into use: silence counts from here.
            (state.heard, state.chirps) = (now, 0);
            set_timer(&mut self.timers, path, state, Some(now + period));
        }
        let wakes = state.used_until.is_none_or(|until| until <= now);
        state.used_until = Some(now + in_use);
        state.peer = peer;
        if wakes {
            self.wake_failed(now + period, path.0);
        }
    }

    /// Failed paths to a destination that is in use again are tried again.
    fn wake_failed(&mut self, at: Instant, to: Destination) {
        for state in self.tables.get_mut(&to).into_iter().flatten().filter(|w| w.failed && w.timer.is_none()) {
            set_timer(&mut self.timers, (to, state.vlan), state, Some(at));
        }
    }

    /// Whether the table has the path.
    fn heard(&mut self, now: Instant, path: VlanPath, peer: u32) -> bool {
        let Some(state) = find(&mut self.tables, path) else {
            self.counters.strangers += 1;
            return false;
        };
        (state.heard, state.chirps, state.peer) = (now, 0, peer);
        if std::mem::take(&mut state.failed) {
            self.counters.restorations += 1;
            self.outputs.push_back(Output::Restored(path));
        }
        true
    }

    fn timer(&mut self, now: Instant) {
        while let Some(&(at, path)) = self.timers.first()
            && at <= now
        {
            self.look(now, path);
        }
    }

    /// A path's timer has come.
    fn look(&mut self, now: Instant, path: VlanPath) {
        let SpainConfig { period, misses, answer, .. } = self.config;
        let active = self.is_active(now, path.0);
        let state = find(&mut self.tables, path).expect("a timer of a path in the table");
        let silent = now.saturating_since(state.heard);
        let is_wanted = if state.failed { active } else { state.used_until.is_some_and(|until| until > now) };
        let next = if !is_wanted {
            None
        } else if state.chirps == 0 && silent < period {
            Some(state.heard + period)
        } else if !state.failed && state.chirps >= misses {
            state.failed = true;
            self.counters.failures += 1;
            self.outputs.push_back(Output::Failed(path));
            Some(now + period)
        } else {
            state.chirps = state.chirps.saturating_add(1);
            self.counters.chirps += 1;
            self.outputs.push_back(Output::Chirp(path, state.peer));
            let last = !state.failed && state.chirps == misses;
            Some(now + if last { answer } else { period })
        };
        set_timer(&mut self.timers, path, state, next);
    }

    /// Whether any path to a destination is in use: its failed ones are then tried again.
    fn is_active(&self, now: Instant, to: Destination) -> bool {
        self.tables.get(&to).is_some_and(|paths| paths.iter().any(|w| w.used_until.is_some_and(|until| until > now)))
    }
}

/// The VLAN with the highest hash of flow and VLAN.
pub fn choose(vlans: impl IntoIterator<Item = VlanId>, flow: u64) -> Option<VlanId> {
    vlans.into_iter().max_by_key(|v| (mix(flow ^ mix(u64::from(v.0) + 1)), *v))
}

fn find(tables: &mut BTreeMap<Destination, Vec<VlanPathState>>, (to, vlan): VlanPath) -> Option<&mut VlanPathState> {
    tables.get_mut(&to)?.iter_mut().find(|w| w.vlan == vlan)
}

fn set_timer(timers: &mut BTreeSet<(Instant, VlanPath)>, path: VlanPath, state: &mut VlanPathState, at: Option<Instant>) {
    if let Some(before) = state.timer {
        timers.remove(&(before, path));
    }
    state.timer = at;
    if let Some(at) = at {
        timers.insert((at, path));
    }
}

#[cfg(test)]
mod tests;
