//! The flows of a workload as TCP connections between the hosts of a lab, thousands of them on one thread.
//!
//! ```text
//!   Workload --starts--> connect, in the sender's namespace      accept, in the receiver's
//!      ^                      |  send from one shared buffer         |  discard (MSG_TRUNC)
//!      |                      v                                      v
//!      +---- flow ended ---- epoll, at most once per millisecond: sample, TCP_INFO
//! ```
//! Only TCP paces a flow. A socket belongs to the namespace in which it was opened, regardless of the thread that uses it. A flow ends when its
//! last byte has been received; its connection is then reset, so that it does not linger. Requests and responses ([`requests`]) are datagrams, on a thread
//! of their own.

mod flow;
mod hosts;
mod joins;
pub(crate) mod mptcp;
mod nics;
mod probes;
mod requests;
mod tcp_info;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration as StdDuration;

use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use socket2::Socket;
use weft_fabric::record::WindowSample;
use weft_fabric::traffic::{FlowSpec, Workload};
use weft_fabric::{Duration, FlowId, HostId, Instant};

use crate::clock::RunClock;
use crate::error::{LabError, Result};
use crate::netns;
use crate::paths::Connection;
use crate::plan::Plan;

pub use hosts::{PORT, PORT_FIRST};
pub use requests::Requests;

use flow::{Buffers, Served};
pub(crate) use flow::{Flow, State};
use hosts::Hosts;
use joins::{Join, pairs};
pub(crate) use nics::NicSelection;
pub(crate) use probes::Probes;
pub(crate) use requests::RequestTraffic;

/// The transport protocol of flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Transport {
    /// One connection of TCP.
    #[default]
    Tcp,
    /// A connection of MPTCP.
    Mptcp {
        /// Its subflows, at most: one per connected pair of NICs.
        subflows: u32,
    },
}

/// Settings of the traffic of flows, besides its workload.
#[derive(Clone, Debug)]
pub(crate) struct TrafficSettings {
    /// The transport protocol.
    pub transport: Transport,
    /// The time limit.
    pub end: Instant,
    /// The interval at which delivered bytes are sampled.
    pub sample_every: Duration,
    /// Flows whose congestion windows are sampled.
    pub windows: Vec<FlowId>,
    /// The interval of these samples.
    pub window_every: Duration,
    /// Times of events, in order: after each one the outage of each flow is measured.
    pub events: Vec<Instant>,
}

/// Bytes delivered until a time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Delivered {
    pub at: Instant,
    pub bytes: u64,
    pub active: u32,
}

/// The outcome of traffic.
pub(crate) struct TrafficOutcome {
    pub flows: Vec<Flow>,
    pub samples: Vec<Delivered>,
    pub windows: Vec<WindowSample>,
    pub ended: Instant,
    /// The service of each flow, if there are several.
    pub services: Vec<u16>,
    /// Connections that receivers refused; `flows` does not contain them.
    pub refused: usize,
    /// The flows of [`Probes`].
    pub probes: Vec<Flow>,
}

/// The numbers of open and ended flows, for other threads to read.
#[derive(Debug, Default)]
pub(crate) struct ProgressCounters {
    pub active: AtomicUsize,
    pub ended: AtomicUsize,
}

/// Flows as TCP connections.
pub(crate) struct FlowTraffic<'a> {
    clock: RunClock,
    hosts: Hosts,
    /// Where hosts have several NICs.
    nics: Option<NicSelection<'a>>,
    listeners: Vec<(HostId, Socket)>,
    epoll: Epoll,
    buffers: Buffers,
    workload: Box<dyn Workload>,
    settings: TrafficSettings,
    progress: &'a ProgressCounters,
    flows: Vec<Flow>,
    /// By receiver too, since tenants may have the same addresses.
    by_connection: HashMap<(HostId, Connection), FlowId>,
    /// Flows whose connection could not be opened, and when to retry.
    retries: Vec<(Instant, FlowId)>,
    /// Subflows that are to be opened.
    joins: Vec<Join>,
    active: u32,
    delivered: u64,
    samples: Vec<Delivered>,
    windows: Vec<WindowSample>,
    next_sample: Instant,
    next_window: Instant,
}

impl<'a> FlowTraffic<'a> {
    /// Opens the listeners of all hosts. The calling thread changes namespaces from then on, and must be used for nothing else.
    pub(crate) fn new(
        plan: &Plan,
        nics: Option<NicSelection<'a>>,
        workload: Box<dyn Workload>,
        settings: TrafficSettings,
        progress: &'a ProgressCounters,
    ) -> Result<Self> {
        raise_file_limit();
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC).map_err(|e| netns::kernel("make an epoll", "the kernel", e))?;
        let mut hosts = Hosts::open(plan)?;
        if settings.transport != Transport::Tcp {
            hosts.use_mptcp()?;
        }
        let mut listeners = Vec::new();
        for host in 0..hosts.len() {
            let host = HostId::from(host);
            for listener in hosts.listen(host)? {
                let token = Token::Listener(listeners.len()).encode();
                watch(&epoll, &listener, EpollFlags::EPOLLIN, token)?;
                listeners.push((host, listener));
            }
        }
        let next_window = if settings.windows.is_empty() { Instant::MAX } else { Instant::ZERO };
        Ok(Self {
            clock: RunClock::start(),
            hosts,
            nics,
            listeners,
            epoll,
            buffers: Buffers::new(),
            workload,
            settings,
            progress,
            flows: Vec::new(),
            by_connection: HashMap::new(),
            retries: Vec::new(),
            joins: Vec::new(),
            active: 0,
            delivered: 0,
            samples: Vec::new(),
            windows: Vec::new(),
            next_sample: Instant::ZERO,
            next_window,
        })
    }

    /// Runs the workload, by a clock shared with other threads.
    pub(crate) fn run(mut self, clock: RunClock, stop: &AtomicBool) -> Result<TrafficOutcome> {
        self.clock = clock;
        let mut events = vec![EpollEvent::empty(); EVENTS];
        loop {
            let now = self.clock.now();
            if stop.load(Ordering::Relaxed) {
                return Err(LabError::Interrupted);
            }
            self.begin_due(now)?;
            self.sample(now);
            if now >= self.settings.end || (self.active == 0 && self.workload.next_start().is_none()) {
                return Ok(self.finish());
            }
            let count = self.wait(&mut events)?;
            for event in &events[..count] {
                self.serve(Token::decode(event.data()))?;
            }
            // Packets that arrive while one is served are served together.
            self.clock.sleep_until(now + TICK, StdDuration::from_millis(1));
        }
    }

    /// Begins the flows that are due, and retries connections.
    fn begin_due(&mut self, now: Instant) -> Result<()> {
        while self.workload.next_start().is_some_and(|start| start <= now && start < self.settings.end) {
            let Some(spec) = self.workload.next_flow() else { break };
            let id = FlowId::from(self.flows.len());
            self.flows.push(Flow::new(spec));
            self.active += 1;
            self.connect(id)?;
        }
        while let Some(i) = self.retries.iter().position(|(at, _)| *at <= now) {
            let (_, id) = self.retries.swap_remove(i);
            self.connect(id)?;
        }
        self.join_due(now);
        self.progress.active.store(self.active as usize, Ordering::Relaxed);
        Ok(())
    }

    fn connect(&mut self, id: FlowId) -> Result<()> {
        let now = self.clock.now();
        let flow = &mut self.flows[id.index()];
        let (spec, attempt) = (flow.spec, flow.next_attempt());
        let FlowSpec { src, dst, .. } = spec;
        let pairs = pairs(self.nics.as_mut(), self.settings.transport, id, &spec, attempt, now);
        let opened = pairs.first().map_or(Ok(None), |nics| self.hosts.connect(src, dst, *nics))?;
        let Some((socket, connection)) = opened else {
            self.retries.push((now + RETRY, id));
            return Ok(());
        };
        watch(&self.epoll, &socket, EpollFlags::EPOLLOUT, Token::Sender(id).encode())?;
        if let Some(old) = flow.connecting(socket, connection, self.settings.transport != Transport::Tcp) {
            self.by_connection.remove(&(dst, old));
        }
        self.by_connection.insert((dst, connection), id);
        self.joins.retain(|join| join.flow != id);
        self.joins.extend(Join::of(id, &pairs, now));
        Ok(())
    }

    fn wait(&self, events: &mut [EpollEvent]) -> Result<usize> {
        let due = [self.workload.next_start(), Some(self.next_sample), Some(self.next_window), Some(self.settings.end)];
        let due = due
            .into_iter()
            .flatten()
            .chain(self.retries.iter().map(|r| r.0))
            .chain(self.joins.iter().map(|j| j.at))
            .min()
            .unwrap_or(Instant::MAX);
        let ms = due.saturating_since(self.clock.now()).as_ps().div_ceil(PS_PER_MS).min(WAIT_MAX_MS);
        let timeout = EpollTimeout::try_from(ms as i32).unwrap_or(EpollTimeout::ZERO);
        match self.epoll.wait(events, timeout) {
            Ok(count) => Ok(count),
            Err(nix::errno::Errno::EINTR) => Ok(0),
            Err(e) => Err(netns::kernel("wait for sockets", "the kernel", e)),
        }
    }

    fn serve(&mut self, token: Token) -> Result<()> {
        let (id, served) = match token {
            Token::Listener(i) => return self.accept(i),
            Token::Sender(id) => (id, self.flows[id.index()].send(&self.buffers, &self.epoll, token.encode())),
            Token::Receiver(id) => {
                let served = self.flows[id.index()].receive(&mut self.buffers);
                if let Served::Received(bytes) = served {
                    self.delivered += bytes;
                    self.flows[id.index()].record_reception(self.clock.now(), &self.settings.events);
                }
                (id, served)
            }
        };
        match served {
            Served::Received(_) if self.flows[id.index()].is_complete() => self.end(id),
            Served::Refused if self.flows[id.index()].refused => self.give_up(id, State::Refused),
            Served::Refused => self.retries.push((self.clock.now() + RETRY, id)),
            Served::Broken => self.give_up(id, State::Broken),
            Served::Received(_) | Served::Nothing => {}
        }
        Ok(())
    }

    fn accept(&mut self, listener: usize) -> Result<()> {
        loop {
            let (host, listener) = &self.listeners[listener];
            let (socket, peer) = match listener.accept() {
                Ok(accepted) => accepted,
                Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => return Ok(()),
                // The peer has closed the connection.
                Err(e) if e.kind() == std::io::ErrorKind::ConnectionAborted => continue,
                Err(cause) => return Err(hosts::failed("accept a connection", cause)),
            };
            let local = socket.local_addr().ok().and_then(|a| a.as_socket_ipv4());
            let connection = peer
                .as_socket_ipv4()
                .zip(local)
                .map(|(from, to)| Connection { from: (*from.ip(), from.port()), to: (*to.ip(), to.port()) });
            // A connection that its sender has given up has no flow.
            let Some(&id) = connection.and_then(|c| self.by_connection.get(&(*host, c))) else { continue };
            let flow = &mut self.flows[id.index()];
            if !self.workload.flow_arrived(&flow.spec) {
                flow.refuse(&socket);
                continue;
            }
            socket.set_nonblocking(true).map_err(|e| hosts::failed("set up a connection", e))?;
            watch(&self.epoll, &socket, EpollFlags::EPOLLIN, Token::Receiver(id).encode())?;
            flow.accepted(socket);
        }
    }

    fn end(&mut self, id: FlowId) {
        let now = self.clock.now();
        let flow = &mut self.flows[id.index()];
        flow.close(State::Ended(now));
        self.by_connection.remove(&(flow.spec.dst, flow.connection()));
        self.active -= 1;
        self.progress.ended.fetch_add(1, Ordering::Relaxed);
        let spec = flow.spec;
        self.workload.flow_ended(id, &spec, now);
    }

    fn give_up(&mut self, id: FlowId, state: State) {
        let now = self.clock.now();
        let flow = &mut self.flows[id.index()];
        flow.close(state);
        self.by_connection.remove(&(flow.spec.dst, flow.connection()));
        self.active -= 1;
        let spec = flow.spec;
        self.workload.flow_given_up(&spec, now);
    }

    /// Takes the samples that are due.
    fn sample(&mut self, now: Instant) {
        if now >= self.next_sample {
            self.samples.push(Delivered { at: now, bytes: self.delivered, active: self.active });
            self.next_sample = now + self.settings.sample_every;
        }
        if now >= self.next_window {
            for &flow in &self.settings.windows {
                let infos = self.flows.get(flow.index()).map(Flow::live_infos).unwrap_or_default();
                self.windows.extend((0..).zip(infos).map(|(subflow, info)| WindowSample {
                    at: now,
                    flow,
                    subflow,
                    segments: info.cwnd_segments,
                    srtt_ps: u64::from(info.srtt_us) * 1_000_000,
                }));
            }
            self.next_window = now + self.settings.window_every;
        }
    }

    fn finish(mut self) -> TrafficOutcome {
        let now = self.clock.now();
        for flow in &mut self.flows {
            flow.record_end(now, &self.settings.events);
            flow.close(if flow.refused { State::Refused } else { State::Open });
        }
        let last = self.flows.iter().filter_map(Flow::end).max();
        let ended = if self.active == 0 { last.unwrap_or(now) } else { now }.min(self.settings.end.max(Instant::from_ps(1)));
        self.samples.retain(|s| s.at < ended);
        self.samples.push(Delivered { at: ended, bytes: self.delivered, active: self.active });
        let services = self.workload.services().to_vec();
        // Refused connections are attempts, and not flows.
        let attempts = self.flows.len();
        self.flows.retain(|f| f.state != State::Refused);
        let refused = attempts - self.flows.len();
        TrafficOutcome {
            flows: self.flows,
            samples: self.samples,
            windows: self.windows,
            ended,
            services,
            refused,
            probes: Vec::new(),
        }
    }
}

/// The socket of an event of epoll.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token {
    Listener(usize),
    Sender(FlowId),
    Receiver(FlowId),
}

impl Token {
    const fn encode(self) -> u64 {
        match self {
            Self::Listener(i) => (i as u64) << 2,
            Self::Sender(id) => (id.0 as u64) << 2 | 1,
            Self::Receiver(id) => (id.0 as u64) << 2 | 2,
        }
    }

    const fn decode(bits: u64) -> Self {
        let number = bits >> 2;
        match bits & 3 {
            0 => Self::Listener(number as usize),
            1 => Self::Sender(FlowId(number as u32)),
            _ => Self::Receiver(FlowId(number as u32)),
        }
    }
}

fn watch(epoll: &Epoll, socket: &Socket, what: EpollFlags, token: u64) -> Result<()> {
    let added = epoll.add(socket, EpollEvent::new(what, token));
    added.map_err(|e| netns::kernel("watch a socket", "the kernel", e))
}

/// Raises the limit of open files: each flow has two sockets.
fn raise_file_limit() {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap_or((0, 0));
    if soft < FILES && setrlimit(Resource::RLIMIT_NOFILE, FILES, hard.max(FILES)).is_err() {
        let _ = setrlimit(Resource::RLIMIT_NOFILE, hard, hard);
    }
}

/// Sockets are served at most once in this interval.
const TICK: Duration = Duration::from_ms(1);
/// The interval after which a connection is retried that could not be opened, as across a failed link.
const RETRY: Duration = Duration::from_ms(200);
/// The longest wait of the event loop.
const WAIT_MAX_MS: u64 = 50;
const PS_PER_MS: u64 = 1_000_000_000;
const EVENTS: usize = 4096;
const FILES: u64 = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_decoded() {
        for token in [Token::Listener(3), Token::Sender(FlowId(u32::MAX)), Token::Receiver(FlowId(0))] {
            assert_eq!(Token::decode(token.encode()), token);
        }
    }
}
