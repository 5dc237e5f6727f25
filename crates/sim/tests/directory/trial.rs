//! One seeded schedule: a cluster, a few keys, writers and askers at work, faults, then peace. [`Trial::run`] gives what was wrong.
//!
//! ```text
//!   0 ........... 0.4 s            6 s                  heal + 14 s            +2 s
//!   load    work and faults        heal; work goes on   quiet: all updates end  corrections; all is compared
//! ```

use std::net::Ipv4Addr;

use rand::RngExt;
use weft_control::directory::attempts::UpdateResult;
use weft_control::directory::policy::Policy;
use weft_control::directory::resolver::ResolverConfig;
use weft_control::directory::server::ServerConfig;
use weft_control::directory::{GroupId, Key, Locator, MacSpace, Mapping, PrincipalId, ServiceId, Value};
use weft_control::wire::directory::Op;
use weft_fabric::rng::{Pcg64, mix};
use weft_fabric::time::NsDuration;
use weft_fabric::{Duration, Instant, TenantId};
use weft_sim::directory::cluster::{
    Cluster, ClusterConfig, SWITCH_PRINCIPAL, Seen, Step, agent_principal, operator_principal, server_principal, writer_principal,
};
use weft_sim::directory::network::{Impairments, Node};
use weft_sim::directory::service::ServiceTimes;
use weft_sim::directory::store::StoreConfig;

use super::checks::Checks;
use super::operators::{FIRST_CALL, OPERATORS, Operators};
use super::tenants::{self, EDITORS, SUBSCRIBERS, Tenants};

/// Which services may resolve which, by version from 1 on: `allow[version - 1][target][asker]` of services 1 to 3.
pub type Matrices = Vec<[[bool; 3]; 3]>;

pub struct Trial {
    pub cluster: Cluster,
    pub rng: Pcg64,
    pub shape: Shape,
    pub matrices: Matrices,
    policies: Vec<Policy>,
    pub updates: Vec<Asked>,
    pub checks: Checks,
    /// On streams; `None`: nobody is.
    pub operators: Option<Operators>,
    /// Those who change tenants' records and those who subscribe to them.
    pub tenants: Option<Tenants>,
    last_value: u32,
    last_token: u64,
    /// Faults come until then.
    pub heal_at: Instant,
    healed: bool,
    seed: u64,
}

#[derive(Clone, Copy, Debug)]
pub struct Shape {
    pub servers: u16,
    pub members: u16,
    pub agents: u16,
    pub writers: u16,
    /// How rough it is, 0 to 3.
    pub rough: u32,
    /// Names that an agent holds.
    pub capacity: usize,
    /// While no server answers it uses them for so long, if that is more than their lease.
    pub fail_static: NsDuration,
    /// Whether half of the machines speak another version of the protocol.
    pub upgrade: bool,
}

/// An update that a writer asked for.
#[derive(Clone, Debug)]
pub struct Asked {
    pub writer: u16,
    pub life: u32,
    pub ops: Vec<Op>,
    pub call: Instant,
    pub ended: Option<(Instant, UpdateResult)>,
}

impl Trial {
    pub fn new(seed: u64) -> Self {
        let mut rng = Pcg64::new(u128::from(mix(seed)), 77);
        let embedded = rng.random_range(0..4) == 0;
        let shape = Shape {
            servers: if embedded { 1 } else { rng.random_range(1..=4) },
            members: if embedded { 1 } else { 3 },
            agents: 3,
            writers: rng.random_range(1..=3),
            rough: rng.random_range(0..=3),
            capacity: if rng.random_range(0..3) == 0 { 4 } else { 1000 },
            fail_static: NsDuration::ZERO,
            upgrade: false,
        };
        Self::with_shape(seed, rng, shape)
    }

    /// Several servers, and agents whose mappings live until a server says otherwise.
    pub fn subscribing(seed: u64) -> Self {
        let mut rng = Pcg64::new(u128::from(mix(seed)), 78);
        let shape = Shape {
            servers: rng.random_range(2..=4),
            members: 3,
            agents: 3,
            writers: rng.random_range(1..=2),
            rough: rng.random_range(0..=3),
            capacity: 1000,
            fail_static: NsDuration::MAX,
            upgrade: false,
        };
        Self::with_shape(seed, rng, shape)
    }

    /// As [`Trial::subscribing`], with nodes of two versions of the protocol.
    pub fn upgrading(seed: u64) -> Self {
        let rng = Pcg64::new(u128::from(mix(seed)), 79);
        let shape = Shape { upgrade: true, ..Self::subscribing(seed).shape };
        Self::with_shape(seed, rng, shape)
    }

    /// As [`Trial::new`], with operators on streams.
    pub fn streaming(seed: u64) -> Self {
        let mut trial = Self::new(seed);
        let Shape { servers, rough, .. } = trial.shape;
        trial.operators = Some(Operators::new(seed, servers, rough, trial.heal_at));
        trial
    }

    /// As [`Trial::new`], with tenants' records.
    pub fn with_tenants(seed: u64) -> Self {
        let mut trial = Self::new(seed);
        trial.tenants = Some(Tenants::new(seed, trial.shape.servers, trial.heal_at));
        trial
    }

    pub fn with_shape(seed: u64, mut rng: Pcg64, shape: Shape) -> Self {
        let matrices: Matrices =
            (0..4).map(|_| std::array::from_fn(|_| std::array::from_fn(|_| rng.random_range(0..2) == 0))).collect();
        let policies: Vec<Policy> = (0..matrices.len()).map(|v| policy(v, &matrices[v], &shape)).collect();
        // Longer than an update and its copies can live: 10 s and the network's delays. The record of a purged key remembers no update.
        let keep_tombstones = NsDuration::from_ms(if rng.random_range(0..2) == 0 { rng.random_range(500..8000) } else { 60_000 });
        let config = ClusterConfig {
            servers: shape.servers,
            agents: shape.agents,
            writers: shape.writers,
            resolver: ResolverConfig {
                capacity: shape.capacity,
                fail_static: shape.fail_static,
                ..ResolverConfig::new(PrincipalId(0))
            },
            server: ServerConfig {
                digest_every: NsDuration::from_secs(2),
                keep_tombstones,
                ..ServerConfig::new(PrincipalId(0), Vec::new())
            },
            service: ServiceTimes::FREE,
            store: StoreConfig {
                members: shape.members,
                commit_time: Duration::from_us(rng.random_range(200..20_000)),
                op_time: Duration::from_us(5),
                election: Duration::from_ms(rng.random_range(50..1500)),
                history: if rng.random_range(0..3) == 0 { 5 } else { 10_000 },
            },
            impairments: Impairments::NONE,
            store_timeout: Duration::from_ms(rng.random_range(100..1500)),
            contents: Vec::new(),
            watch_answers: true,
            upgrade: shape.upgrade,
            seed: mix(seed ^ 0x5eed),
        };
        let cluster = Cluster::new(config, &policies[0]);
        let heal_at = Instant::ZERO + Duration::from_secs(6);
        let checks = Checks::new(shape, matrices.clone());
        Self {
            cluster,
            rng,
            shape,
            matrices,
            policies,
            updates: Vec::new(),
            checks,
            operators: None,
            tenants: None,
            last_value: 0,
            last_token: 0,
            heal_at,
            healed: false,
            seed,
        }
    }

    /// Runs it all.
    pub fn run(&mut self) -> Result<(), String> {
        self.begin();
        self.work(self.heal_at)?;
        self.heal();
        self.work(self.heal_at + Duration::from_secs(2))?;
        self.healed = true;
        self.work(self.heal_at + Duration::from_secs(14))?;
        super::final_checks::check(self)
    }

    /// The first mappings, and the first of everybody's work.
    pub fn begin(&mut self) {
        for agent in 0..self.shape.agents {
            let value = self.mapping(Some(agent));
            self.submit(0, vec![Op { key: home(agent), expect: None, value: Some(value) }]);
        }
        if let Some(operators) = &self.operators {
            operators.begin(&mut self.cluster);
        }
        if let Some(tenants) = &self.tenants {
            tenants.begin(&mut self.cluster);
        }
        for kind in 0..WORK {
            self.cluster.call_at(Instant::ZERO + Duration::from_ms(400), kind);
        }
    }

    /// Lets things happen until `end`, and looks at all of them.
    pub fn work(&mut self, end: Instant) -> Result<(), String> {
        loop {
            match self.cluster.step(end) {
                Step::End => return Ok(()),
                Step::Call(token) if token >= tenants::FIRST_CALL => {
                    if let Some(tenants) = &mut self.tenants {
                        let at = self.cluster.now();
                        tenants.call(&mut self.cluster, token).map_err(|e| format!("at {at}: {e}"))?;
                    }
                }
                Step::Call(token) if token >= FIRST_CALL => {
                    if let Some(operators) = &mut self.operators {
                        let at = self.cluster.now();
                        operators.call(&mut self.cluster, token).map_err(|e| format!("at {at}: {e}"))?;
                    }
                }
                Step::Call(kind) => self.take(kind),
                Step::Event => {}
            }
            for (at, seen) in self.cluster.take_seen() {
                self.look_at(at, seen).map_err(|e| format!("at {at}: {e}"))?;
            }
        }
    }

    fn look_at(&mut self, at: Instant, seen: Seen) -> Result<(), String> {
        match seen {
            Seen::Done { token, result, .. } => {
                self.updates[token as usize].ended = Some((at, result));
                Ok(())
            }
            Seen::StreamMessage { operator, .. } | Seen::StreamBroken { operator, .. } => {
                let cluster = &mut self.cluster;
                let operators = self.operators.as_mut().filter(|_| operator < OPERATORS);
                let tenants = self.tenants.as_mut().filter(|_| operator >= OPERATORS);
                operators.map_or(Ok(()), |it| it.see(cluster, &seen))?;
                tenants.map_or(Ok(()), |it| it.see(cluster, &seen))
            }
            _ => self.checks.see(&self.cluster, at, &seen),
        }
    }

    fn take(&mut self, kind: u64) {
        let now = self.cluster.now();
        let mean_ms = match kind {
            0 => {
                self.update();
                40
            }
            1 => {
                self.resolve();
                10
            }
            _ => {
                self.fault();
                150
            }
        };
        let stop = if kind == 2 { self.heal_at } else { self.heal_at + Duration::from_secs(2) };
        let next = now + Duration::from_us(self.rng.random_range(1..=2_000 * mean_ms));
        if next < stop {
            self.cluster.call_at(next, kind);
        }
    }

    /// A unique mapping, of a service that is sometimes none and sometimes unlisted.
    pub fn mapping(&mut self, owner: Option<u16>) -> Value {
        self.last_value += 1;
        let service = match self.rng.random_range(0..12) {
            0 => 0,
            1 => 4,
            n => 1 + n % 3,
        };
        let owner = owner.unwrap_or_else(|| self.rng.random_range(0..self.shape.agents));
        Value::Mapping(Mapping {
            locator: Locator::V4(Ipv4Addr::from(self.last_value)),
            mac: None,
            group: GroupId(0),
            service: ServiceId(service),
            owner: agent_principal(owner),
            lease_ms: self.rng.random_range(600..3000),
        })
    }

    fn value_for(&mut self, key: &Key) -> Option<Value> {
        if self.rng.random_range(0..5) == 0 {
            return None;
        }
        Some(match key {
            Key::Group(_) => {
                self.last_value += 1;
                Value::Group([Ipv4Addr::from(self.last_value).into()].into_iter().collect())
            }
            _ => {
                let owner = (0..self.shape.agents).find(|&a| home(a) == *key && self.rng.random_range(0..3) > 0);
                self.mapping(owner)
            }
        })
    }

    fn update(&mut self) {
        let keys = all_keys(&self.shape);
        let mut ops: Vec<Op> = Vec::new();
        let wanted = if self.rng.random_range(0..4) == 0 { self.rng.random_range(2..=3) } else { 1 };
        while ops.len() < wanted {
            let key = keys[self.rng.random_range(0..keys.len())];
            if ops.iter().any(|op| op.key == key) {
                continue;
            }
            let value = self.value_for(&key);
            let expect = match self.rng.random_range(0..5) {
                0 | 1 => self.cluster.store.get(&key).map(
                    |(generation, record)| {
                        if record.value.is_some() { *generation } else { Default::default() }
                    },
                ),
                2 => Some(Default::default()),
                _ => None,
            };
            ops.push(Op { key, expect, value });
        }
        let writer = self.rng.random_range(0..self.shape.writers);
        self.submit(writer, ops);
    }

    pub fn submit(&mut self, writer: u16, ops: Vec<Op>) {
        let life = self.cluster.life(Node::Writer(writer));
        self.updates.push(Asked { writer, life, ops: ops.clone(), call: self.cluster.now(), ended: None });
        self.cluster.submit(writer, ops, self.updates.len() as u64 - 1);
    }

    fn resolve(&mut self) {
        let keys = all_keys(&self.shape);
        let agent = self.rng.random_range(0..self.shape.agents);
        let mut names = Vec::new();
        for _ in 0..self.rng.random_range(1..=3) {
            let asker = match self.rng.random_range(0..8) {
                0 => None,
                1 => Some(home(self.rng.random_range(0..self.shape.agents))),
                _ => Some(home(agent)),
            };
            self.last_token += 1;
            names.push((keys[self.rng.random_range(0..keys.len())], asker, self.last_token));
        }
        self.cluster.resolve(agent, &names);
    }

    fn any_node(&mut self) -> Node {
        let Shape { servers, agents, writers, .. } = self.shape;
        if self.operators.is_some() && self.rng.random_range(0..4) == 0 {
            return Node::Operator(self.rng.random_range(0..OPERATORS));
        }
        if self.tenants.is_some() && self.rng.random_range(0..4) == 0 {
            return Node::Operator(self.rng.random_range(EDITORS.start..SUBSCRIBERS.end));
        }
        match self.rng.random_range(0..5) {
            0 => Node::Agent(self.rng.random_range(0..agents)),
            1 => Node::Writer(self.rng.random_range(0..writers)),
            2 => Node::Store,
            _ => Node::Server(self.rng.random_range(0..servers)),
        }
    }

    fn fault(&mut self) {
        if self.shape.rough == 0 {
            return;
        }
        let (a, b) = (self.any_node(), self.any_node());
        match self.rng.random_range(0..12) {
            0 => self.cluster.network.cut(a, b),
            1 => {
                self.cluster.network.cut(a, b);
                self.cluster.network.cut(b, a);
            }
            2 => self.cluster.network.mend(),
            3 if self.shape.rough > 1 => self.cluster.crash(a),
            4 | 5 => self.cluster.start(a),
            6 if self.shape.members > 1 => self.cluster.fail_member(self.rng.random_range(0..self.shape.members)),
            7 => self.restore_members(),
            8 if self.shape.rough > 2 => {
                let by = self.rng.random_range(-5_000i64..5_000) * 1_000_000;
                self.cluster.step_clock(a, by);
            }
            9 => self.cluster.network.impairments = self.impairments(),
            10 => self.change_policy(),
            _ => self.misdeliver(),
        }
    }

    fn impairments(&mut self) -> Impairments {
        let mut part = |most: f64| self.rng.random::<f64>() * most;
        Impairments {
            loss: part(0.3),
            peer_loss: part(0.5),
            duplicate: part(0.2),
            delayed: part(0.2),
            delay: Duration::from_secs_f64(part(1.5)),
            ..Impairments::NONE
        }
    }

    /// A server at random reads the next policy; which one that is never goes back at a server.
    pub fn change_policy(&mut self) {
        let server = self.rng.random_range(0..self.shape.servers);
        let next = (self.checks.policy_of[usize::from(server)] + 1).min(self.policies.len() - 1);
        self.set_policy(server, next);
    }

    pub fn set_policy(&mut self, server: u16, index: usize) {
        self.checks.policy_of[usize::from(server)] = index;
        self.cluster.set_policy(server, &self.policies[index].clone());
    }

    fn misdeliver(&mut self) {
        let keys = all_keys(&self.shape);
        let key = keys[self.rng.random_range(0..keys.len())];
        let asker = home(self.rng.random_range(0..self.shape.agents));
        let server = self.rng.random_range(0..self.shape.servers);
        self.cluster.misdeliver(server, asker, key, Locator::V4(Ipv4Addr::from(self.rng.random::<u32>())));
    }

    fn restore_members(&mut self) {
        if self.shape.members > 1 {
            (0..self.shape.members).for_each(|m| self.cluster.restore_member(m));
        }
    }

    /// Everything works again, and every server has the newest policy.
    pub fn heal(&mut self) {
        self.cluster.network.mend();
        self.cluster.network.impairments = Impairments::NONE;
        self.restore_members();
        (0..self.shape.servers).for_each(|n| self.cluster.start(Node::Server(n)));
        (0..self.shape.agents).for_each(|n| self.cluster.start(Node::Agent(n)));
        (0..self.shape.writers).for_each(|n| self.cluster.start(Node::Writer(n)));
        let newest = self.checks.policy_of.iter().copied().max().unwrap_or(0);
        (0..self.shape.servers).for_each(|n| self.set_policy(n, newest));
    }

    pub const fn seed(&self) -> u64 {
        self.seed
    }
}

/// Kinds of calls: an update, a lookup, a fault.
const WORK: u64 = 3;

/// The key that lives on an agent's host.
pub fn home(agent: u16) -> Key {
    Key::App4(Ipv4Addr::new(10, 9, 0, agent as u8))
}

pub fn all_keys(shape: &Shape) -> Vec<Key> {
    let mut keys: Vec<Key> = (0..shape.agents).map(home).collect();
    keys.extend((0..4).map(|n| Key::App4(Ipv4Addr::new(10, 8, 0, n))));
    keys.push(Key::TenantIp4(TenantId(5), MacSpace(0), Ipv4Addr::new(10, 7, 0, 1)));
    keys.push(Key::Group(GroupId(1)));
    keys
}

fn policy(index: usize, allow: &[[bool; 3]; 3], shape: &Shape) -> Policy {
    let mut text = format!("version = {}\n", index + 1);
    for (target, row) in allow.iter().enumerate() {
        let names: Vec<String> =
            (0..3).filter(|&asker| asker != target && row[asker]).map(|asker| format!("\"s{}\"", asker + 1)).collect();
        text += &format!("[[service]]\nname = \"s{}\"\nid = {}\nallow = [{}]\n", target + 1, target + 1, names.join(", "));
    }
    let mut principal = |id: PrincipalId, role: &str| text += &format!("[[principal]]\nid = {}\nrole = \"{role}\"\n", id.0);
    (0..shape.servers).for_each(|n| principal(server_principal(n), "server"));
    (0..shape.writers).for_each(|n| principal(writer_principal(n), "provisioner"));
    principal(SWITCH_PRINCIPAL, "switch");
    (0..OPERATORS).for_each(|n| principal(operator_principal(n), "admin"));
    EDITORS.for_each(|n| principal(operator_principal(n), "provisioner"));
    Policy::parse(&text).expect("a good policy")
}
