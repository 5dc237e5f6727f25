//! Agents under faults: resolvers of some hosts, whose packets are lost at random in both directions, while servers come and go.
//!
//! Loss is made here, of what agents send and of what comes back, so that nothing on this machine has to be configured.

use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use rand::RngExt;
use weft_control::directory::auth::Secret;
use weft_control::directory::resolver::{Input, Output, Resolution, Resolver, ResolverConfig};
use weft_control::wire::directory::Finding;
use weft_fabric::rng::Pcg64;

use super::error::BenchError;
use super::lookups::new_histogram;
use super::truth::{self, HOSTS, Truth};

/// What was measured.
#[derive(Clone, Debug)]
pub struct Resolved {
    /// Lookups that were asked for.
    pub asked: u64,
    /// Those that had an answer.
    pub answered: u64,
    /// Those that failed.
    pub failed: u64,
    /// Answers that were not the truth.
    pub wrong: u64,
    /// Datagrams that were lost on purpose.
    pub lost: u64,
    /// From when it was due, in ns.
    pub latency: Histogram<u64>,
}

/// What agents do.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Lookups a second, of all agents.
    pub rate: f64,
    /// For how long.
    pub duration: Duration,
    /// The fraction of datagrams that is lost, in each direction.
    pub loss: f64,
    /// The first mapping that is asked for: those before it may be changing.
    pub first: usize,
}

struct Agent {
    host: u32,
    socket: UdpSocket,
    resolver: Resolver,
    /// When each lookup was due, by token.
    due: Vec<(u64, usize)>,
    next: usize,
}

/// Looks up every mapping at most once an agent, at exponential intervals; `events` are called when their time has come.
pub fn run(
    servers: &[SocketAddr],
    secret: &Secret,
    truth: &Truth,
    plan: Plan,
    mut events: Vec<(Duration, Box<dyn FnOnce() + '_>)>,
    seed: u64,
) -> Result<Resolved, BenchError> {
    let mut rng = Pcg64::new(u128::from(seed), 0x12);
    let begin = Instant::now();
    let mut agents =
        (0..AGENTS).map(|at| Agent::new(at, servers, secret, truth.len(), &mut rng)).collect::<Result<Vec<_>, _>>()?;
    let mut result = Resolved { asked: 0, answered: 0, failed: 0, wrong: 0, lost: 0, latency: new_histogram() };
    let interval = |rng: &mut Pcg64| (-(1.0 - rng.random::<f64>()).ln() / plan.rate * 1e9) as u64;
    let mut due = 0;
    let mut under_way = 0u64;
    loop {
        let now = begin.elapsed();
        while events.first().is_some_and(|(at, _)| now >= *at) {
            (events.remove(0).1)();
        }
        let ending = now >= plan.duration;
        while !ending && due <= now.as_nanos() as u64 {
            let agent = &mut agents[result.asked as usize % AGENTS as usize];
            agent.resolve(due, begin, plan.first, truth.len());
            result.asked += 1;
            under_way += 1;
            due += interval(&mut rng);
        }
        for agent in &mut agents {
            under_way -= agent.step(begin, truth, plan.loss, &mut rng, &mut result);
        }
        if ending && under_way == 0 {
            return Ok(result);
        }
        std::thread::sleep(Duration::from_micros(20));
    }
}

impl Agent {
    fn new(at: u32, servers: &[SocketAddr], secret: &Secret, mappings: usize, rng: &mut Pcg64) -> Result<Self, BenchError> {
        let host = at * 5 % HOSTS;
        let socket = UdpSocket::bind("127.0.0.1:0").and_then(|socket| socket.set_nonblocking(true).map(|()| socket));
        let socket = socket.map_err(|e| BenchError::Io(format!("no socket: {e}")))?;
        let principal = truth::principal(host);
        let config = ResolverConfig { capacity: 1 << 20, ..ResolverConfig::new(principal) };
        let mut resolver = Resolver::new(config, &secret.key_of(principal), Pcg64::new(rng.random(), u128::from(at)));
        resolver.handle(at_time(Duration::ZERO), Input::SetServers(servers));
        Ok(Self { host, socket, resolver, due: Vec::new(), next: rng.random_range(0..mappings) })
    }

    /// Looks up the next mapping that this host may know.
    fn resolve(&mut self, due: u64, begin: Instant, first: usize, end: usize) {
        // A stride that has no factor in common with the services meets all of them.
        self.next = first + (self.next + 37) % (end - first);
        let token = self.due.len() as u64;
        self.due.push((due, self.next));
        self.resolver.handle(
            at_time(begin.elapsed()),
            Input::Resolve { key: truth::key(self.next), asker: Some(truth::asker(self.host)), token },
        );
    }

    /// Takes what came, sends what is to go; how many lookups ended.
    fn step(&mut self, begin: Instant, truth: &Truth, loss: f64, rng: &mut Pcg64, result: &mut Resolved) -> u64 {
        let mut buffer = [0; 2048];
        while let Ok((length, from)) = self.socket.recv_from(&mut buffer) {
            if rng.random_bool(loss) {
                result.lost += 1;
                continue;
            }
            self.resolver.handle(at_time(begin.elapsed()), Input::Datagram { from, bytes: &buffer[..length] });
        }
        let now = begin.elapsed();
        if self.resolver.deadline().is_some_and(|deadline| deadline <= at_time(now)) {
            self.resolver.handle(at_time(now), Input::Timer);
        }
        let mut ended = 0;
        while let Some(output) = self.resolver.poll() {
            match output {
                Output::Send { to, bytes } if rng.random_bool(loss) => {
                    let _ = (to, bytes);
                    result.lost += 1;
                }
                Output::Send { to, bytes } => drop(self.socket.send_to(&bytes, to)),
                Output::Resolved { token, resolution, .. } => {
                    ended += 1;
                    let (due, mapping) = self.due[token as usize];
                    let right = |generation, finding| truth.is_right(self.host, mapping, generation, finding);
                    let is_right = match resolution {
                        Resolution::Found(generation, value) => right(generation, &Finding::Found(value)),
                        Resolution::Unknown => right(Default::default(), &Finding::Unknown),
                        Resolution::Forbidden => right(Default::default(), &Finding::Forbidden),
                        Resolution::Unanswered => {
                            result.failed += 1;
                            continue;
                        }
                    };
                    result.answered += 1;
                    result.wrong += u64::from(!is_right);
                    result.latency.saturating_record((begin.elapsed().as_nanos() as u64).saturating_sub(due).max(1));
                }
                Output::Invalidated { .. } => {}
            }
        }
        ended
    }
}

/// The machine's time: this process's, and a little, for its clocks begin at 0.
fn at_time(since_begin: Duration) -> weft_control::time::Instant {
    weft_control::time::Instant::from_ns(1_000_000).saturating_add(since_begin.into())
}

/// Hosts whose agents ask.
const AGENTS: u32 = 8;
