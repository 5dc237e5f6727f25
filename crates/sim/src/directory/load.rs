//! The load of VL2, section 5.5: storms of lookups and updates on a cluster, and their outcome.
//!
//! Bursts begin at random (a Poisson process), each at one agent, and have a geometric number of lookups that follow one another at a constant gap.
//! Updates come alike, each of one key. Some keys that are updated are looked up again and again until an answer has the update: the time of
//! convergence, counted from the moment at which the writer asked for the update.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use rand::RngExt;
use weft_control::directory::attempts::UpdateResult;
use weft_control::directory::policy::{Policy, Role};
use weft_control::directory::resolver::Resolution;
use weft_control::directory::{GroupId, Key, Locator, Mapping, PrincipalId, ServiceId, Value};
use weft_control::wire::directory::Op;
use weft_fabric::rng::{Pcg64, mix};
use weft_fabric::{Duration, Instant};

use super::cluster::{self, Cluster, ClusterConfig, Seen, Step};
use super::network::Node;

/// What is asked of a cluster.
#[derive(Clone, Debug)]
pub struct LoadConfig {
    /// The cluster; its `contents` are filled in.
    pub cluster: ClusterConfig,
    /// Mappings that it holds.
    pub keys: u32,
    /// Lookups per second.
    pub lookups_per_s: f64,
    /// Updates per second.
    pub updates_per_s: f64,
    /// Mean size of a burst, 1 or more.
    pub burst: f64,
    /// From one request of a burst to the next.
    pub burst_gap: Duration,
    /// At most so many updates per second have their convergence measured.
    pub probes_per_s: f64,
    /// How often their keys are looked up.
    pub probe_every: Duration,
    /// Requests count from then on,
    pub from: Instant,
    /// up to then.
    pub to: Instant,
    /// What fails and returns, in order of time.
    pub faults: Vec<(Instant, Fault)>,
}

/// What fails or returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A directory server stops.
    StopServer(u16),
    /// It starts again.
    StartServer(u16),
    /// A member of the store stops.
    StopMember(u16),
    /// The store's primary stops.
    StopPrimary,
    /// Some member that is not the primary stops.
    StopOther,
    /// A member of the store starts again; `None`: all that are down.
    StartMember(Option<u16>),
}

/// What became of a load. Times are in picoseconds, ascending.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LoadTotals {
    /// Lookups requested.
    pub lookups: u64,
    /// From the question to the answer, of those that were answered.
    pub lookup_times: Vec<u64>,
    /// Updates requested.
    pub updates: u64,
    /// From the question to the acknowledgement, of those that were committed.
    pub update_times: Vec<u64>,
    /// From the question for an update to the first answer that has it.
    pub convergence_times: Vec<u64>,
    /// From the first fault to the first commit of an update that was asked for after it.
    pub recovery: Option<u64>,
    /// Events of the simulation.
    pub events: u64,
}

/// Requests that are answered later than this are too late for an ARP request (VL2, section 5.5).
pub const IN_TIME: Duration = Duration::from_ms(10);

/// Runs a load to its end, and then until nothing is under way, at most 12 s. `on_progress` receives the time.
pub fn simulate(mut config: LoadConfig, on_progress: &mut dyn FnMut(Instant)) -> LoadTotals {
    config.cluster.contents = (0..config.keys).map(|n| (key(n), value(n))).collect();
    let provisioners = (0..config.cluster.writers).map(|n| (cluster::writer_principal(n), Role::Provisioner));
    let servers = (0..config.cluster.servers).map(|n| (cluster::server_principal(n), Role::Server));
    let policy = Policy::open(provisioners.chain(servers));
    let cluster = Cluster::new(config.cluster.clone(), &policy);
    let rng = |stream: u128| Pcg64::new(u128::from(mix(config.cluster.seed)), 1_000 + stream);
    let mut load = Load {
        cluster,
        lookups: rng(1),
        updates: rng(2),
        calls: BTreeMap::new(),
        last_call: 0,
        asked: BTreeMap::new(),
        written: BTreeMap::new(),
        probes: BTreeMap::new(),
        next_probe: Instant::ZERO,
        last_token: 0,
        fault_at: None,
        totals: LoadTotals::default(),
        config,
    };
    load.run(on_progress);
    load.totals
}

struct Load {
    config: LoadConfig,
    cluster: Cluster,
    lookups: Pcg64,
    updates: Pcg64,
    calls: BTreeMap<u64, Call>,
    last_call: u64,
    /// Lookups under way: when they were sent.
    asked: BTreeMap<u64, Instant>,
    /// Updates under way.
    written: BTreeMap<u64, Instant>,
    /// Probes, by key: the value that is waited for, and since when.
    probes: BTreeMap<Key, (Value, Instant)>,
    next_probe: Instant,
    last_token: u64,
    fault_at: Option<Instant>,
    totals: LoadTotals,
}

#[derive(Clone, Copy, Debug)]
enum Call {
    /// The next burst begins.
    Lookups,
    Updates,
    /// Requests of a burst that are left.
    Lookup {
        agent: u16,
        left: u32,
    },
    Update {
        writer: u16,
        left: u32,
    },
    /// Look the key up again.
    Probe(Key),
    Fault(usize),
    /// Nothing more is asked for.
    End,
}

impl Load {
    fn run(&mut self, on_progress: &mut dyn FnMut(Instant)) {
        for (at, (when, _)) in self.config.faults.clone().into_iter().enumerate() {
            self.call(when, Call::Fault(at));
        }
        let start = Instant::ZERO + START;
        self.call(start, Call::Lookups);
        self.call(start, Call::Updates);
        self.call(self.config.to, Call::End);
        let end = self.config.to + DRAIN;
        loop {
            match self.cluster.step(end) {
                Step::End => break,
                Step::Event => {}
                Step::Call(token) => {
                    let Some(call) = self.calls.remove(&token) else { continue };
                    if matches!(call, Call::Lookups) {
                        on_progress(self.cluster.now());
                    }
                    self.take(call);
                }
            }
            for (at, seen) in self.cluster.take_seen() {
                self.see(at, &seen);
            }
            if self.cluster.now() > self.config.to && self.asked.is_empty() && self.written.is_empty() && self.probes.is_empty() {
                break;
            }
        }
        self.totals.events = self.cluster.processed();
        self.totals.lookup_times.sort_unstable();
        self.totals.update_times.sort_unstable();
        self.totals.convergence_times.sort_unstable();
    }

    fn call(&mut self, at: Instant, call: Call) {
        self.last_call += 1;
        self.calls.insert(self.last_call, call);
        self.cluster.call_at(at, self.last_call);
    }

    fn take(&mut self, call: Call) {
        let now = self.cluster.now();
        let is_over = now >= self.config.to;
        match call {
            Call::Lookups if !is_over && self.config.lookups_per_s > 0.0 => {
                let agent = self.lookups.random_range(0..self.config.cluster.agents);
                let left = geometric(&mut self.lookups, self.config.burst);
                let next = now + exponential(&mut self.lookups, self.config.burst / self.config.lookups_per_s);
                self.call(next, Call::Lookups);
                self.take(Call::Lookup { agent, left });
            }
            Call::Updates if !is_over && self.config.updates_per_s > 0.0 => {
                let writer = self.updates.random_range(0..self.config.cluster.writers);
                let left = geometric(&mut self.updates, self.config.burst);
                let next = now + exponential(&mut self.updates, self.config.burst / self.config.updates_per_s);
                self.call(next, Call::Updates);
                self.take(Call::Update { writer, left });
            }
            Call::Lookup { agent, left } if !is_over => {
                self.look_up(agent);
                if left > 1 {
                    self.call(now + self.config.burst_gap, Call::Lookup { agent, left: left - 1 });
                }
            }
            Call::Update { writer, left } if !is_over => {
                self.update(writer);
                if left > 1 {
                    self.call(now + self.config.burst_gap, Call::Update { writer, left: left - 1 });
                }
            }
            Call::Probe(key) => self.probe(key),
            Call::Fault(at) => self.fault(self.config.faults[at].1),
            Call::Lookups | Call::Updates | Call::Lookup { .. } | Call::Update { .. } | Call::End => {}
        }
    }

    fn counts(&self, at: Instant) -> bool {
        at >= self.config.from && at < self.config.to
    }

    fn look_up(&mut self, agent: u16) {
        let now = self.cluster.now();
        self.last_token += 1;
        if self.counts(now) {
            self.totals.lookups += 1;
            self.asked.insert(self.last_token, now);
        }
        let key = key(self.lookups.random_range(0..self.config.keys));
        self.cluster.resolve(agent, &[(key, None, self.last_token)]);
    }

    fn update(&mut self, writer: u16) {
        let now = self.cluster.now();
        self.last_token += 1;
        let token = self.last_token;
        let key = key(self.updates.random_range(0..self.config.keys));
        let value = value(self.updates.random());
        if self.counts(now) {
            self.totals.updates += 1;
            self.written.insert(token, now);
            if now >= self.next_probe && self.config.probes_per_s > 0.0 && !self.probes.contains_key(&key) {
                self.next_probe = now + Duration::from_secs_f64(1.0 / self.config.probes_per_s);
                self.probes.insert(key, (value.clone(), now));
                self.call(now + self.config.probe_every, Call::Probe(key));
            }
        }
        self.cluster.submit(writer, vec![Op { key, expect: None, value: Some(value) }], token);
    }

    /// Looks a probed key up, at any agent; its token is not one of those that are measured.
    fn probe(&mut self, key: Key) {
        if !self.probes.contains_key(&key) {
            return;
        }
        let agent = self.updates.random_range(0..self.config.cluster.agents);
        self.last_token += 1;
        self.cluster.resolve(agent, &[(key, None, self.last_token)]);
        self.call(self.cluster.now() + self.config.probe_every, Call::Probe(key));
    }

    fn see(&mut self, at: Instant, seen: &Seen) {
        match seen {
            Seen::Resolved { token, key, resolution, .. } => {
                if let Some(asked) = self.asked.remove(token)
                    && *resolution != Resolution::Unanswered
                {
                    self.totals.lookup_times.push((at - asked).as_ps());
                }
                if let (Some((value, since)), Resolution::Found(_, found)) = (self.probes.get(key), resolution)
                    && value == found
                {
                    self.totals.convergence_times.push((at - *since).as_ps());
                    self.probes.remove(key);
                }
            }
            Seen::Done { token, result, .. } => {
                let Some(asked) = self.written.remove(token) else { return };
                if !matches!(result, UpdateResult::Committed(_)) {
                    return;
                }
                self.totals.update_times.push((at - asked).as_ps());
                if let Some(fault) = self.fault_at
                    && asked >= fault
                    && self.totals.recovery.is_none()
                {
                    self.totals.recovery = Some((at - fault).as_ps());
                }
            }
            Seen::Invalidated { .. }
            | Seen::Answered { .. }
            | Seen::Corrected { .. }
            | Seen::StreamMessage { .. }
            | Seen::StreamBroken { .. } => {}
        }
    }

    fn fault(&mut self, fault: Fault) {
        let now = self.cluster.now();
        self.fault_at.get_or_insert(now);
        let members = self.config.cluster.store.members;
        match fault {
            Fault::StopServer(n) => self.cluster.crash(Node::Server(n)),
            Fault::StartServer(n) => self.cluster.start(Node::Server(n)),
            Fault::StopMember(n) => self.cluster.fail_member(n),
            Fault::StopPrimary => {
                if let Some(primary) = self.cluster.store.primary() {
                    self.cluster.fail_member(primary);
                }
            }
            Fault::StopOther => {
                let primary = self.cluster.store.primary();
                if let Some(other) = (0..members).find(|&n| Some(n) != primary) {
                    self.cluster.fail_member(other);
                }
            }
            Fault::StartMember(Some(n)) => self.cluster.restore_member(n),
            Fault::StartMember(None) => (0..members).for_each(|n| self.cluster.restore_member(n)),
        }
    }
}

fn key(n: u32) -> Key {
    Key::App4(Ipv4Addr::from(0x1400_0000 + n))
}

fn value(n: u32) -> Value {
    Value::Mapping(Mapping {
        locator: Locator::V4(Ipv4Addr::from(0x0a00_0000 | (n & 0x00ff_ffff))),
        mac: None,
        group: GroupId(0),
        service: ServiceId(1),
        owner: PrincipalId(0),
        lease_ms: 60_000,
    })
}

/// 1, 2, ... with this mean.
fn geometric(rng: &mut Pcg64, mean: f64) -> u32 {
    if mean <= 1.0 {
        return 1;
    }
    let u: f64 = 1.0 - rng.random::<f64>();
    (libm::ceil(libm::log(u) / libm::log(1.0 - 1.0 / mean)) as u32).clamp(1, 1_000_000)
}

fn exponential(rng: &mut Pcg64, mean_s: f64) -> Duration {
    let u: f64 = 1.0 - rng.random::<f64>();
    Duration::from_secs_f64(-libm::log(u) * mean_s)
}

/// Servers load first.
const START: Duration = Duration::from_ms(200);
/// For so long after the load has ended answers are waited for.
const DRAIN: Duration = Duration::from_secs(12);
