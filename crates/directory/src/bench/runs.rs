//! Which measurements a set has, with the papers' figures and the goals.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use weft_control::directory::PrincipalId;
use weft_control::directory::auth::Secret;
use weft_control::wire::directory::MAX_KEYS;

use super::agents;
use super::cluster::{Folder, Server};
use super::convergence;
use super::error::BenchError;
use super::etcd::Etcd;
use super::lookups::{self, Pace, Plan};
use super::report::{Case, Goal};
use super::truth::{FIRST_WRITER, Truth};
use super::writer::{self, Load, Written};
use crate::client::{Auth, Client, Settings};

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Set {
    /// Lookups: rate, latency, CPU, memory
    Lookups,
    /// Durable updates
    Updates,
    /// From an update to lookups at another server
    Convergence,
    /// Members of the store and servers killed, packets lost
    Failover,
}

/// The store of servers that the benchmark starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum StoreKind {
    /// One server
    Embedded,
    /// Three members of etcd, three servers
    Etcd,
}

/// How to measure.
#[derive(Clone, Debug)]
pub struct Options {
    /// These servers and the secret of their cluster; `None`: servers of its own.
    pub servers: Option<(Vec<SocketAddr>, Secret)>,
    /// Stores of its own servers.
    pub stores: Vec<StoreKind>,
    /// Mappings loaded; `None`: as many as the goals speak of.
    pub mappings: Option<usize>,
    /// Of each case.
    pub duration: Duration,
    /// Open loop at these rates only.
    pub rates: Vec<f64>,
    /// Lookups: keys a datagram.
    pub keys: Vec<usize>,
    /// Where servers and stores run.
    pub server_core: usize,
    /// Where the generator runs.
    pub generator_core: usize,
    /// Of the random choices.
    pub seed: u64,
}

/// Makes the measurements of a set, reporting each case when it is done.
pub fn run(set: Set, options: &Options, mut done: impl FnMut(&Case)) -> Result<Vec<Case>, BenchError> {
    // Where that core may not be used, the generator runs on any.
    let _ = crate::server::affinity::pin(options.generator_core);
    let mut cases = Vec::new();
    let mut emit = |case: Case| {
        done(&case);
        cases.push(case);
    };
    match set {
        Set::Lookups => lookups(options, &mut emit)?,
        Set::Updates => {
            for &store in &options.stores {
                updates(options, store, &mut emit)?;
            }
        }
        Set::Convergence => {
            for &store in &options.stores {
                convergence(options, store, &mut emit)?;
            }
        }
        Set::Failover => failover(options, &mut emit)?,
    }
    Ok(cases)
}

/// Servers that are measured, with all that keeps them alive.
struct Fleet {
    servers: Vec<Server>,
    etcd: Option<Etcd>,
    addresses: Vec<SocketAddr>,
    secret: Secret,
    /// Last, so that it is removed last.
    folder: Option<Folder>,
}

impl Fleet {
    fn new(options: &Options, store: StoreKind, quick: bool) -> Result<Self, BenchError> {
        if let Some((addresses, secret)) = &options.servers {
            return Ok(Self {
                servers: Vec::new(),
                etcd: None,
                addresses: addresses.clone(),
                secret: secret.clone(),
                folder: None,
            });
        }
        let folder = Folder::new()?;
        let core = Some(options.server_core);
        let mut fleet =
            Self { servers: Vec::new(), etcd: None, addresses: Vec::new(), secret: folder.secret.clone(), folder: None };
        match store {
            StoreKind::Embedded => {
                fleet.servers.push(Server::start(
                    &folder,
                    1,
                    &folder.embedded(),
                    &[],
                    "127.0.0.1:0".parse().expect("an address"),
                    core,
                )?);
            }
            StoreKind::Etcd => {
                let etcd = Etcd::start(folder.path(), quick)?;
                let addresses = (0..3).map(|_| super::cluster::free_address()).collect::<Result<Vec<_>, _>>()?;
                for (at, &listen) in addresses.iter().enumerate() {
                    let peers: Vec<SocketAddr> = addresses.iter().copied().filter(|&peer| peer != listen).collect();
                    fleet.servers.push(Server::start(&folder, [1, 11, 12][at], &etcd.store(), &peers, listen, None)?);
                }
                fleet.etcd = Some(etcd);
            }
        }
        fleet.addresses = fleet.servers.iter().map(|server| server.address).collect();
        fleet.folder = Some(folder);
        Ok(fleet)
    }

    /// Puts every mapping once.
    fn load(&self, mappings: usize) -> Result<(Truth, Written), BenchError> {
        let mut truth = Truth::new(mappings);
        let load = Load { ops: MAX_KEYS, window: 128, rate: None, mappings, duration: None };
        let written = writer::run(&self.addresses, &self.secret, &mut truth, load)?;
        Ok((truth, written))
    }

    fn cpu_ns(&self) -> u64 {
        self.servers.iter().map(Server::cpu_ns).sum()
    }

    fn rss_bytes(&self) -> Option<u64> {
        self.servers.first().map(Server::rss_bytes)
    }

    /// How many mappings are not as the truth has them, at one server that knows everything it should.
    fn differing(&self, truth: &Truth) -> Result<u64, BenchError> {
        let principal = PrincipalId(FIRST_WRITER);
        let servers = self.addresses.iter().map(ToString::to_string).collect();
        let key = Some(self.secret.key_of(principal));
        let settings = Settings { servers, principal, key, auth: Auth::Mac, timeout: Duration::from_secs(10), only: false };
        let mut client = Client::new(settings)?;
        let newest = truth.newest();
        let mut differing = 0;
        for first in (0..truth.len()).step_by(MAX_KEYS) {
            let keys: Vec<_> = (first..truth.len().min(first + MAX_KEYS)).map(super::truth::key).collect();
            let found = client.look_up(&keys, None, newest)?;
            let wrong = found
                .findings
                .iter()
                .enumerate()
                .filter(|(at, (generation, finding))| !truth.is(first + at, *generation, finding));
            differing += wrong.count() as u64;
        }
        Ok(differing)
    }
}

fn lookups(options: &Options, emit: &mut impl FnMut(Case)) -> Result<(), BenchError> {
    let mappings = options.mappings.unwrap_or(1_000_000);
    let mut fleet = Fleet::new(options, StoreKind::Embedded, false)?;
    let (truth, written) = fleet.load(mappings)?;
    let loaded = Case { name: "load".into(), store: "embedded".into(), ..of_writes(&fleet, mappings, 32, &written) };
    emit(loaded.beside("", None));
    restart(options, &mut fleet, mappings, emit)?;
    for &keys in &options.keys {
        let measure = |name: String, pace: Pace, duration: Duration, requests: usize| {
            of_lookups(&fleet, &truth, name, Plan { keys, pace, duration, requests }, options.seed)
        };
        let window = if keys == 1 { 256 } else { 64 };
        // A first run warms up, and shows how many requests to sign.
        let warm = measure(String::new(), Pace::Closed(window), WARM_UP, 200_000)?;
        let requests = |rate: f64| (rate * options.duration.as_secs_f64() * 1.4) as usize + 10_000;
        let mut rates = options.rates.clone();
        if rates.is_empty() {
            let name = format!("lookups-{keys}-closed");
            let closed = measure(name, Pace::Closed(window), options.duration, requests(warm.rate_per_s))?;
            rates = [0.5, 0.8].map(|part| (closed.rate_per_s * part / 1000.0).round().max(1.0) * 1000.0).to_vec();
            emit(closed.beside(PAPER_LOOKUPS, Some(lookup_goal(keys))));
        }
        for rate in rates {
            let open = measure(format!("lookups-{keys}-open-{rate:.0}"), Pace::Open(rate), options.duration, requests(rate))?;
            emit(open.beside(PAPER_LOOKUPS, None));
        }
    }
    Ok(())
}

/// A server that restarts has no more memory than the mappings need: how long it takes, and what it has once that has settled.
fn restart(options: &Options, fleet: &mut Fleet, mappings: usize, emit: &mut impl FnMut(Case)) -> Result<(), BenchError> {
    let (Some(folder), Some(server)) = (&fleet.folder, fleet.servers.pop()) else { return Ok(()) };
    let address = server.address;
    server.stop();
    let begin = Instant::now();
    fleet.servers.push(Server::start(folder, 1, &folder.embedded(), &[], address, Some(options.server_core))?);
    let case = Case { servers: 1, mappings, ..Case::default() };
    let (duration_s, at_once) = (begin.elapsed().as_secs_f64(), fleet.rss_bytes());
    emit(Case { name: "restart".into(), duration_s, server_rss_bytes: at_once, ..case.clone() }.beside("", None));
    std::thread::sleep(SETTLE);
    let goal = (mappings == 1_000_000).then_some(Goal { server_rss_bytes: Some(150_000_000), ..Goal::default() });
    emit(Case { name: "memory".into(), server_rss_bytes: fleet.rss_bytes(), ..case }.beside("", goal));
    Ok(())
}

fn of_lookups(fleet: &Fleet, truth: &Truth, name: String, plan: Plan, seed: u64) -> Result<Case, BenchError> {
    let cpu = fleet.cpu_ns();
    let measured = lookups::run(fleet.addresses[0], &fleet.secret, truth, plan, seed)?;
    let cpu = fleet.cpu_ns().saturating_sub(cpu);
    let seconds = measured.elapsed.as_secs_f64();
    let rate = measured.answered as f64 / seconds;
    let mut case = Case {
        name,
        servers: 1,
        mappings: truth.len(),
        keys: plan.keys,
        offered_per_s: if let Pace::Open(rate) = plan.pace { rate } else { 0.0 },
        duration_s: seconds,
        sent: measured.sent as u64,
        answered: measured.answered as u64,
        lost: (measured.sent - measured.answered.min(measured.sent)) as u64,
        wrong: measured.wrong as u64,
        rate_per_s: rate,
        keys_per_s: rate * plan.keys as f64,
        server_cpu_us_per_request: (cpu > 0).then(|| cpu as f64 / 1000.0 / measured.answered.max(1) as f64),
        server_rss_bytes: fleet.rss_bytes(),
        ..Case::default()
    };
    case.latencies(&measured.latency);
    case.late_p99_us = (!measured.late.is_empty()).then(|| measured.late.value_at_quantile(0.99) as f64 / 1000.0);
    Ok(case)
}

fn lookup_goal(keys: usize) -> Goal {
    if keys == 1 {
        return Goal { keys_per_s: Some(400_000.0), p99_us: Some(1000.0), lost: Some(0), ..Goal::default() };
    }
    Goal { keys_per_s: Some(4_000_000.0), lost: Some(0), ..Goal::default() }
}

fn updates(options: &Options, store: StoreKind, emit: &mut impl FnMut(Case)) -> Result<(), BenchError> {
    let mappings = options.mappings.unwrap_or(100_000);
    let fleet = Fleet::new(options, store, false)?;
    let (mut truth, _) = fleet.load(mappings)?;
    let store_name = name(store);
    let mut measure =
        |name: String, window: usize, rate: Option<f64>, ops: usize, goal: Option<Goal>| -> Result<(), BenchError> {
            let cpu = fleet.cpu_ns();
            let load = Load { ops, window, rate, mappings, duration: Some(options.duration) };
            let written = writer::run(&fleet.addresses, &fleet.secret, &mut truth, load)?;
            let cpu = fleet.cpu_ns().saturating_sub(cpu);
            let mut case = of_writes(&fleet, mappings, ops, &written);
            case.name = name;
            case.store = store_name.to_owned();
            case.offered_per_s = rate.unwrap_or(0.0);
            case.server_cpu_us_per_request = (cpu > 0).then(|| cpu as f64 / 1000.0 / written.updates.max(1) as f64);
            case.wrong += fleet.differing(&truth)?;
            emit(case.beside("12K/s, p99 600 ms; 17K/s within 1 s", goal));
            Ok(())
        };
    if !options.rates.is_empty() {
        for &rate in &options.rates {
            measure(format!("updates-{store_name}-open-{rate:.0}"), 16_384, Some(rate), 1, None)?;
        }
        return Ok(());
    }
    let goal = Goal { keys_per_s: Some(30_000.0), p99_us: Some(50_000.0), ..Goal::default() };
    for window in [256, 1024, 2048] {
        measure(format!("updates-{store_name}-closed-{window}"), window, None, 1, Some(goal))?;
    }
    measure(format!("updates-{store_name}-closed-64-of-32"), 64, None, 32, Some(goal))?;
    measure(
        format!("updates-{store_name}-open-12000"),
        16_384,
        Some(12_000.0),
        1,
        Some(Goal { keys_per_s: Some(11_900.0), ..goal }),
    )
}

fn convergence(options: &Options, store: StoreKind, emit: &mut impl FnMut(Case)) -> Result<(), BenchError> {
    let mappings = options.mappings.unwrap_or(100_000);
    let fleet = Fleet::new(options, store, false)?;
    let (mut truth, _) = fleet.load(mappings)?;
    let converged = convergence::run(&fleet.addresses, &fleet.secret, &mut truth, options.duration, options.seed)?;
    let case = |what: &str| Case {
        name: format!("convergence-{}-since-{what}", name(store)),
        servers: fleet.addresses.len(),
        mappings,
        store: name(store).to_owned(),
        keys: 1,
        duration_s: options.duration.as_secs_f64(),
        sent: converged.updates,
        answered: converged.updates,
        wrong: converged.wrong,
        ..Case::default()
    };
    let (mut sent, mut acknowledged) = (case("sent"), case("acknowledged"));
    sent.latencies(&converged.since_sent);
    acknowledged.latencies(&converged.since_acknowledged);
    let goal = Some(Goal { p99_us: Some(50_000.0), ..Goal::default() });
    let paper = "70 % < 100 ms, 99 % < 530 ms";
    emit(sent.beside(paper, goal));
    emit(acknowledged.beside(paper, goal));
    Ok(())
}

fn failover(options: &Options, emit: &mut impl FnMut(Case)) -> Result<(), BenchError> {
    let duration = options.duration.max(Duration::from_secs(4));
    let none_lost = Goal { lost: Some(0), ..Goal::default() };
    store_member_killed(options, duration, ("follower", Etcd::kill_follower, "nothing changes", none_lost), emit)?;
    let leader = Goal { longest_gap_s: Some(0.5), ..none_lost };
    store_member_killed(options, duration, ("leader", Etcd::kill_leader, "updates wait 4 s", leader), emit)?;

    let mappings = options.mappings.unwrap_or(100_000);
    let mut fleet = Fleet::new(options, StoreKind::Etcd, true)?;
    let (truth, _) = fleet.load(mappings)?;
    let mut victim = fleet.servers.remove(1);
    let plan = agents::Plan { rate: 5000.0, duration, loss: 0.1, first: 0 };
    let kill: Box<dyn FnOnce()> = Box::new(|| victim.kill());
    let resolved = agents::run(&fleet.addresses, &fleet.secret, &truth, plan, vec![(duration / 2, kill)], options.seed)?;
    let goal = Goal { p99_us: Some(10_000.0), ..none_lost };
    emit(
        of_agents("failover-server-killed-loss-10", &plan, &fleet, mappings, &resolved).beside("works at 10 % loss", Some(goal)),
    );
    Ok(())
}

/// Who is killed, how, what the paper has, and the goal of updates.
type Killing = (&'static str, fn(&mut Etcd) -> Result<(), BenchError>, &'static str, Goal);

/// A member of the store is killed under updates and lookups: updates change the first half of the mappings, agents look up the second.
fn store_member_killed(
    options: &Options,
    duration: Duration,
    (who, kill, paper, goal): Killing,
    emit: &mut impl FnMut(Case),
) -> Result<(), BenchError> {
    let mappings = options.mappings.unwrap_or(100_000);
    let mut fleet = Fleet::new(options, StoreKind::Etcd, true)?;
    let (truth, _) = fleet.load(mappings)?;
    let mut etcd = fleet.etcd.take().expect("it was started");
    let load = Load { ops: 1, window: 8192, rate: Some(2000.0), mappings: mappings / 2, duration: Some(duration) };
    let plan = agents::Plan { rate: 2000.0, duration, loss: 0.0, first: mappings / 2 };
    let mut changed = truth.clone();
    let (written, resolved, killed) = std::thread::scope(|scope| {
        let writing = scope.spawn(|| writer::run(&fleet.addresses, &fleet.secret, &mut changed, load));
        let killing = scope.spawn(|| {
            std::thread::sleep(duration / 2);
            kill(&mut etcd)
        });
        let resolved = agents::run(&fleet.addresses, &fleet.secret, &truth, plan, Vec::new(), options.seed);
        (writing.join().expect("no panic"), resolved, killing.join().expect("no panic"))
    });
    killed?;
    let (written, resolved) = (written?, resolved?);
    let mut case = of_writes(&fleet, mappings, 1, &written);
    case.name = format!("failover-store-{who}-killed-updates");
    case.store = "etcd".into();
    case.offered_per_s = 2000.0;
    case.longest_gap_s = Some(written.longest_gap.as_secs_f64());
    case.wrong += fleet.differing(&changed)?;
    emit(case.beside(paper, Some(goal)));
    let goal = Goal { lost: Some(0), p99_us: Some(10_000.0), ..Goal::default() };
    emit(
        of_agents(&format!("failover-store-{who}-killed-lookups"), &plan, &fleet, mappings, &resolved).beside(paper, Some(goal)),
    );
    Ok(())
}

fn of_agents(name: &str, plan: &agents::Plan, fleet: &Fleet, mappings: usize, resolved: &agents::Resolved) -> Case {
    let seconds = plan.duration.as_secs_f64();
    let mut case = Case {
        name: name.to_owned(),
        servers: fleet.addresses.len(),
        mappings,
        store: "etcd".into(),
        keys: 1,
        offered_per_s: plan.rate,
        duration_s: seconds,
        sent: resolved.asked,
        answered: resolved.answered,
        lost: resolved.failed,
        wrong: resolved.wrong,
        rate_per_s: resolved.answered as f64 / seconds,
        keys_per_s: resolved.answered as f64 / seconds,
        ..Case::default()
    };
    case.latencies(&resolved.latency);
    case
}

fn of_writes(fleet: &Fleet, mappings: usize, ops: usize, written: &Written) -> Case {
    let seconds = written.elapsed.as_secs_f64();
    let mut case = Case {
        servers: fleet.addresses.len(),
        mappings,
        keys: ops,
        duration_s: seconds,
        sent: written.updates + written.wrong,
        answered: written.updates,
        wrong: written.wrong,
        rate_per_s: written.updates as f64 / seconds,
        keys_per_s: written.committed as f64 / seconds,
        server_rss_bytes: fleet.rss_bytes(),
        ..Case::default()
    };
    case.latencies(&written.latency);
    case
}

const fn name(store: StoreKind) -> &'static str {
    match store {
        StoreKind::Embedded => "embedded",
        StoreKind::Etcd => "etcd",
    }
}

const PAPER_LOOKUPS: &str = "17K/s a server, p99 < 10 ms";
/// A while in which a server gives back what it needed for loading.
const SETTLE: Duration = Duration::from_secs(2);
const WARM_UP: Duration = Duration::from_millis(300);
