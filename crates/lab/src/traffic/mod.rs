//! The flows of a workload as TCP connections between the hosts of a lab, thousands of them on one thread.
//!
//! ```text
//!   Workload --starts--> connect, in the sender's namespace      accept, in the receiver's
//!      ^                      |  send from a buffer that all share   |  receive into nothing (MSG_TRUNC)
//!      |                      v                                      v
//!      +---- flow ended ---- epoll, not more often than each millisecond: sample, TCP_INFO
//! ```
//! Nothing but TCP paces a flow. A socket belongs to the namespace in which it was opened, whatever thread uses it. A flow ends when its
//! last byte has been received; its connection is then reset, so that nothing of it lingers. [`requests`] are datagrams, on a thread of
//! another kind.

mod beats;
mod flow;
mod hosts;
pub(crate) mod requests;
mod tcp_info;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration as StdDuration;

use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use socket2::Socket;
use weft_fabric::record::WindowSample;
use weft_fabric::traffic::Workload;
use weft_fabric::{Duration, FlowId, HostId, Instant};

use crate::clock::RunClock;
use crate::error::{LabError, Result};
use crate::netns;
use crate::paths::Connection;
use crate::plan::Plan;

pub use hosts::{PORT, PORT_FIRST};
pub use requests::Requests;

pub(crate) use beats::Beats;
use flow::{Buffers, Served};
pub(crate) use flow::{Flow, State};
use hosts::Hosts;

/// What a thread of traffic is to do, besides its workload.
#[derive(Clone, Debug)]
pub(crate) struct Orders {
    /// It ends then, or with the last flow.
    pub end: Instant,
    /// How often delivered bytes are noted.
    pub sample_every: Duration,
    /// Flows whose windows are noted, and how often.
    pub windows: Vec<FlowId>,
    /// How often.
    pub window_every: Duration,
    /// When something happens to the lab, in order: how long each flow then received nothing is noted.
    pub events: Vec<Instant>,
}

/// What was delivered until an instant.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Delivered {
    pub at: Instant,
    pub bytes: u64,
    pub active: u32,
}

/// What became of the flows.
pub(crate) struct Carried {
    pub flows: Vec<Flow>,
    pub samples: Vec<Delivered>,
    pub windows: Vec<WindowSample>,
    pub ended: Instant,
    /// Of several services, that of each flow.
    pub services: Vec<u16>,
    /// Connections that their receivers did not take; they are none of the flows.
    pub refused: usize,
    /// What was heard of [`Beats`].
    pub beats: Vec<Flow>,
}

/// How far the thread is, for others to read.
#[derive(Debug, Default)]
pub(crate) struct Board {
    pub active: AtomicUsize,
    pub ended: AtomicUsize,
}

/// A thread of traffic.
pub(crate) struct Traffic<'a> {
    clock: RunClock,
    hosts: Hosts,
    listeners: Vec<(HostId, Socket)>,
    epoll: Epoll,
    buffers: Buffers,
    workload: Box<dyn Workload>,
    orders: Orders,
    board: &'a Board,
    flows: Vec<Flow>,
    /// Tenants have the same addresses: a connection belongs to the one who takes it.
    by_connection: HashMap<(HostId, Connection), FlowId>,
    /// Flows whose connection failed before it was made, and when to try again.
    retries: Vec<(Instant, FlowId)>,
    active: u32,
    delivered: u64,
    samples: Vec<Delivered>,
    windows: Vec<WindowSample>,
    next_sample: Instant,
    next_window: Instant,
}

impl<'a> Traffic<'a> {
    /// Opens the listeners of all hosts. The calling thread is moved between namespaces from then on, and must be one of its own.
    pub(crate) fn new(plan: &Plan, workload: Box<dyn Workload>, orders: Orders, board: &'a Board) -> Result<Self> {
        raise_limit_of_files();
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC).map_err(|e| netns::kernel("make an epoll", "the kernel", e))?;
        let mut hosts = Hosts::open(plan)?;
        let mut listeners = Vec::new();
        for host in 0..hosts.len() {
            let host = HostId::from(host);
            for listener in hosts.listen(host)? {
                let token = Token::Listener(listeners.len()).encode();
                watch(&epoll, &listener, EpollFlags::EPOLLIN, token)?;
                listeners.push((host, listener));
            }
        }
        let next_window = if orders.windows.is_empty() { Instant::MAX } else { Instant::ZERO };
        Ok(Self {
            clock: RunClock::start(),
            hosts,
            listeners,
            epoll,
            buffers: Buffers::new(),
            workload,
            orders,
            board,
            flows: Vec::new(),
            by_connection: HashMap::new(),
            retries: Vec::new(),
            active: 0,
            delivered: 0,
            samples: Vec::new(),
            windows: Vec::new(),
            next_sample: Instant::ZERO,
            next_window,
        })
    }

    /// Carries the workload by a clock that others share.
    pub(crate) fn run(mut self, clock: RunClock, stop: &AtomicBool) -> Result<Carried> {
        self.clock = clock;
        let mut events = vec![EpollEvent::empty(); EVENTS];
        loop {
            let now = self.clock.now();
            if stop.load(Ordering::Relaxed) {
                return Err(LabError::Interrupted);
            }
            self.begin_due(now)?;
            self.look(now);
            if now >= self.orders.end || (self.active == 0 && self.workload.next_start().is_none()) {
                return Ok(self.finish());
            }
            let count = self.wait(&mut events)?;
            for event in &events[..count] {
                self.serve(Token::decode(event.data()))?;
            }
            // What arrives meanwhile is served together.
            self.clock.sleep_until(now + TICK, StdDuration::from_millis(1));
        }
    }

    /// Begins the flows whose time has come, and those to be tried again.
    fn begin_due(&mut self, now: Instant) -> Result<()> {
        while self.workload.next_start().is_some_and(|start| start <= now && start < self.orders.end) {
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
        self.board.active.store(self.active as usize, Ordering::Relaxed);
        Ok(())
    }

    fn connect(&mut self, id: FlowId) -> Result<()> {
        let flow = &mut self.flows[id.index()];
        let Some((socket, connection)) = self.hosts.connect(flow.spec.src, flow.spec.dst)? else {
            self.retries.push((self.clock.now() + RETRY, id));
            return Ok(());
        };
        watch(&self.epoll, &socket, EpollFlags::EPOLLOUT, Token::Sender(id).encode())?;
        let dst = flow.spec.dst;
        if let Some(old) = flow.connecting(socket, connection) {
            self.by_connection.remove(&(dst, old));
        }
        self.by_connection.insert((dst, connection), id);
        Ok(())
    }

    fn wait(&self, events: &mut [EpollEvent]) -> Result<usize> {
        let due = [self.workload.next_start(), Some(self.next_sample), Some(self.next_window), Some(self.orders.end)];
        let due = due.into_iter().flatten().chain(self.retries.iter().map(|r| r.0)).min().unwrap_or(Instant::MAX);
        let ms = due.saturating_since(self.clock.now()).as_ps().div_ceil(PS_PER_MS).min(PATIENCE_MS);
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
                    self.flows[id.index()].hear(self.clock.now(), &self.orders.events);
                }
                (id, served)
            }
        };
        match served {
            Served::Received(_) if self.flows[id.index()].is_complete() => self.end(id),
            Served::Refused if self.flows[id.index()].turned_away => self.give_up(id, State::Refused),
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
                // A peer that has gone meanwhile.
                Err(e) if e.kind() == std::io::ErrorKind::ConnectionAborted => continue,
                Err(cause) => return Err(hosts::failed("accept a connection", cause)),
            };
            let local = socket.local_addr().ok().and_then(|a| a.as_socket_ipv4());
            let connection = peer
                .as_socket_ipv4()
                .zip(local)
                .map(|(from, to)| Connection { from: (*from.ip(), from.port()), to: (*to.ip(), to.port()) });
            // One that its sender has given up has no flow any more.
            let Some(&id) = connection.and_then(|c| self.by_connection.get(&(*host, c))) else { continue };
            let flow = &mut self.flows[id.index()];
            if !self.workload.flow_arrived(&flow.spec) {
                flow.turn_away(&socket);
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
        self.board.ended.fetch_add(1, Ordering::Relaxed);
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

    /// Notes what is due to be noted.
    fn look(&mut self, now: Instant) {
        if now >= self.next_sample {
            self.samples.push(Delivered { at: now, bytes: self.delivered, active: self.active });
            self.next_sample = now + self.orders.sample_every;
        }
        if now >= self.next_window {
            for &flow in &self.orders.windows {
                let info = self.flows.get(flow.index()).and_then(Flow::live_info);
                self.windows.extend(info.map(|info| WindowSample {
                    at: now,
                    flow,
                    subflow: 0,
                    segments: info.cwnd_segments,
                    srtt_ps: u64::from(info.srtt_us) * 1_000_000,
                }));
            }
            self.next_window = now + self.orders.window_every;
        }
    }

    fn finish(mut self) -> Carried {
        let now = self.clock.now();
        for flow in &mut self.flows {
            flow.hear_no_more(now, &self.orders.events);
            flow.close(if flow.turned_away { State::Refused } else { State::Open });
        }
        let last = self.flows.iter().filter_map(Flow::end).max();
        let ended = if self.active == 0 { last.unwrap_or(now) } else { now }.min(self.orders.end.max(Instant::from_ps(1)));
        self.samples.retain(|s| s.at < ended);
        self.samples.push(Delivered { at: ended, bytes: self.delivered, active: self.active });
        let services = self.workload.services().to_vec();
        // What a receiver did not take was an attempt, and no flow.
        let attempts = self.flows.len();
        self.flows.retain(|f| f.state != State::Refused);
        let refused = attempts - self.flows.len();
        Carried { flows: self.flows, samples: self.samples, windows: self.windows, ended, services, refused, beats: Vec::new() }
    }
}

/// Whom an event of epoll is for.
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

/// Two sockets a flow are more than a process has by default.
fn raise_limit_of_files() {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap_or((0, 0));
    if soft < FILES && setrlimit(Resource::RLIMIT_NOFILE, FILES, hard.max(FILES)).is_err() {
        let _ = setrlimit(Resource::RLIMIT_NOFILE, hard, hard);
    }
}

/// Sockets are served at most once in this time.
const TICK: Duration = Duration::from_ms(1);
/// A connection that was refused, because a failed link was in its way, is tried again after so long.
const RETRY: Duration = Duration::from_ms(200);
/// Nobody waits for longer.
const PATIENCE_MS: u64 = 50;
const PS_PER_MS: u64 = 1_000_000_000;
const EVENTS: usize = 4096;
const FILES: u64 = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_lead_back() {
        for token in [Token::Listener(3), Token::Sender(FlowId(u32::MAX)), Token::Receiver(FlowId(0))] {
            assert_eq!(Token::decode(token.encode()), token);
        }
    }
}
