//! Requests and responses as datagrams (UDP), each request at its time regardless of earlier ones (open loop).
//!
//! ```text
//!   client socket --request: client, number, padding--> server socket
//!        ^                                                  |
//!        +--------------- response: the same, padding ------+
//! ```
//! Sizes are those of packets, with 28 bytes of IP and UDP headers; lost requests have no response. Latency is from the sending of a request, which may be
//! slightly after its scheduled time, until its response is read.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::mem::MaybeUninit;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::atomic::{AtomicBool, Ordering};

use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use socket2::{SockAddr, Socket};
use weft_fabric::record::RequestTotals;
use weft_fabric::traffic::RequestLoad;
use weft_fabric::{Duration, Instant};

use super::flow::Flow;
use super::hosts::{self, Hosts};
use super::{Delivered, EVENTS, PS_PER_MS, ProgressCounters, TrafficOutcome, WAIT_MAX_MS, raise_file_limit, watch};
use crate::clock::RunClock;
use crate::error::{LabError, Result};
use crate::netns;
use crate::plan::Plan;

/// A load of requests, and which of them count.
#[derive(Clone, Debug)]
pub struct Requests {
    /// Clients, servers, times and sizes.
    pub load: RequestLoad,
    /// The start of the measured interval: requests sent before do not count.
    pub from: Instant,
    /// The end of the measured interval.
    pub to: Instant,
}

/// Clients and servers.
pub(crate) struct RequestTraffic<'a> {
    spec: Requests,
    end: Instant,
    sample_every: Duration,
    epoll: Epoll,
    /// Clients, then servers.
    sockets: Vec<Socket>,
    servers: Vec<SockAddr>,
    /// The next request of each client: its time, client and number.
    due: BinaryHeap<Reverse<(Instant, u32, u64)>>,
    /// The send times of requests without a response, by client and number.
    open: HashMap<(u32, u64), Instant>,
    /// The flows of the pairs: client x servers + server.
    flows: Vec<Flow>,
    delivered: u64,
    samples: Vec<Delivered>,
    latencies_s: Vec<f64>,
    sent: u64,
    progress: &'a ProgressCounters,
}

impl<'a> RequestTraffic<'a> {
    /// Opens all sockets. The calling thread changes namespaces.
    pub(crate) fn new(
        plan: &Plan,
        spec: Requests,
        end: Instant,
        sample_every: Duration,
        progress: &'a ProgressCounters,
    ) -> Result<Self> {
        raise_file_limit();
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC).map_err(|e| netns::kernel("make an epoll", "the kernel", e))?;
        let mut hosts = Hosts::open(plan)?;
        let RequestLoad { clients, servers, .. } = &spec.load;
        let (mut sockets, mut addresses) = (Vec::new(), Vec::new());
        for (hosts_of, port) in [(clients, CLIENT_PORT), (servers, SERVER_PORT)] {
            for &host in hosts_of {
                let (socket, address) = hosts.datagrams(host, port)?;
                watch(&epoll, &socket, EpollFlags::EPOLLIN, sockets.len() as u64)?;
                sockets.push(socket);
                addresses.push(address);
            }
        }
        let socket_of = |a: &Ipv4Addr| SockAddr::from(SocketAddrV4::new(*a, SERVER_PORT));
        let servers = addresses[clients.len()..].iter().map(socket_of).collect();
        let due = (0..clients.len()).map(|c| Reverse((spec.load.sent_at(c, 0), c as u32, 0))).collect();
        let flows = spec.load.flows().into_iter().map(Flow::new).collect();
        Ok(Self {
            spec,
            end,
            sample_every,
            epoll,
            sockets,
            servers,
            due,
            open: HashMap::new(),
            flows,
            delivered: 0,
            samples: Vec::new(),
            latencies_s: Vec::new(),
            sent: 0,
            progress,
        })
    }

    /// Sends requests and responses until the run ends.
    pub(crate) fn run(mut self, clock: RunClock, stop: &AtomicBool) -> Result<(TrafficOutcome, RequestTotals)> {
        let mut events = vec![EpollEvent::empty(); EVENTS];
        let mut next_sample = Instant::ZERO;
        let mut buffer = Buffer::new(&self.spec.load);
        self.progress.active.store(self.flows.len(), Ordering::Relaxed);
        loop {
            let now = clock.now();
            if stop.load(Ordering::Relaxed) {
                return Err(LabError::Interrupted);
            }
            if now >= next_sample {
                self.samples.push(Delivered { at: now, bytes: self.delivered, active: self.flows.len() as u32 });
                next_sample = now + self.sample_every;
            }
            if now >= self.end {
                return Ok(self.finish());
            }
            self.send_due(clock, &buffer);
            let next = self.due.peek().map_or(self.end, |Reverse((at, ..))| (*at).min(self.end)).min(next_sample);
            let ms = next.saturating_since(clock.now()).as_ps().div_ceil(PS_PER_MS).min(WAIT_MAX_MS);
            let timeout = EpollTimeout::try_from(ms as i32).unwrap_or(EpollTimeout::ZERO);
            let count = match self.epoll.wait(&mut events, timeout) {
                Ok(count) => count,
                Err(nix::errno::Errno::EINTR) => 0,
                Err(e) => return Err(netns::kernel("wait for sockets", "the kernel", e)),
            };
            for event in &events[..count] {
                self.serve(event.data() as usize, clock, &mut buffer);
            }
        }
    }

    fn send_due(&mut self, clock: RunClock, buffer: &Buffer) {
        while let Some(&Reverse((at, client, nth))) = self.due.peek() {
            let now = clock.now();
            if at > now || at >= self.end {
                return;
            }
            self.due.pop();
            self.due.push(Reverse((self.spec.load.sent_at(client as usize, nth + 1), client, nth + 1)));
            let server = self.position_of_server(client, nth);
            let mut request = [0; HEADER];
            request[..4].copy_from_slice(&client.to_be_bytes());
            request[4..].copy_from_slice(&nth.to_be_bytes());
            self.sent += u64::from(self.counts(at));
            self.open.insert((client, nth), now);
            // A packet that finds a full queue or no route is lost, as on any other link.
            let _ = buffer.send(&self.sockets[client as usize], request, buffer.request, &self.servers[server]);
        }
    }

    fn serve(&mut self, socket: usize, clock: RunClock, buffer: &mut Buffer) {
        let clients = self.spec.load.clients.len();
        while let Some((header, peer)) = buffer.receive(&self.sockets[socket]) {
            if socket >= clients {
                let _ = buffer.send(&self.sockets[socket], header, buffer.response, &peer);
                continue;
            }
            let client = u32::from_be_bytes([header[0], header[1], header[2], header[3]]);
            let mut number = [0; 8];
            number.copy_from_slice(&header[4..]);
            let nth = u64::from_be_bytes(number);
            let Some(asked) = self.open.remove(&(client, nth)) else { continue };
            let bytes = self.spec.load.response.0;
            self.delivered += bytes;
            let server = self.position_of_server(client, nth);
            self.flows[client as usize * self.servers.len() + server].received += bytes;
            if self.counts(self.spec.load.sent_at(client as usize, nth)) {
                self.latencies_s.push((clock.now() - asked).as_secs_f64());
            }
        }
    }

    fn position_of_server(&self, client: u32, nth: u64) -> usize {
        let host = self.spec.load.server(client as usize, nth);
        self.spec.load.servers.binary_search(&host).expect("a server of the load")
    }

    fn counts(&self, at: Instant) -> bool {
        at >= self.spec.from && at < self.spec.to
    }

    fn finish(mut self) -> (TrafficOutcome, RequestTotals) {
        self.latencies_s.sort_unstable_by(f64::total_cmp);
        let all = &self.latencies_s;
        let at = |quantile: f64| {
            all.get(((all.len() as f64 * quantile).ceil() as usize).saturating_sub(1)).copied().unwrap_or(f64::NAN)
        };
        let totals = RequestTotals {
            answered: all.len() as u64,
            sent: self.sent,
            seconds: self.spec.to.min(self.end).saturating_since(self.spec.from).as_secs_f64(),
            mean_s: all.iter().sum::<f64>() / all.len() as f64,
            p50_s: at(0.5),
            p99_s: at(0.99),
        };
        let outcome = TrafficOutcome {
            flows: self.flows,
            samples: self.samples,
            windows: Vec::new(),
            ended: self.end,
            services: Vec::new(),
            refused: 0,
            probes: Vec::new(),
        };
        (outcome, totals)
    }
}

/// Buffers for padding and for received datagrams.
struct Buffer {
    zeros: Vec<u8>,
    received: Vec<MaybeUninit<u8>>,
    /// Payload of each, in bytes.
    request: usize,
    response: usize,
}

impl Buffer {
    fn new(load: &RequestLoad) -> Self {
        let payload = |packet: u64| (packet.saturating_sub(IP_AND_UDP) as usize).max(HEADER);
        let (request, response) = (payload(load.request.0), payload(load.response.0));
        let len = request.max(response);
        Self { zeros: vec![0; len], received: vec![MaybeUninit::uninit(); len], request, response }
    }

    fn send(&self, socket: &Socket, header: [u8; HEADER], len: usize, to: &SockAddr) -> std::io::Result<usize> {
        let padding = &self.zeros[HEADER..len];
        socket.send_to_vectored(&[std::io::IoSlice::new(&header), std::io::IoSlice::new(padding)], to)
    }

    /// The header and the sender of the next datagram, if there is one.
    fn receive(&mut self, socket: &Socket) -> Option<([u8; HEADER], SockAddr)> {
        loop {
            match socket.recv_from(&mut self.received) {
                Ok((len, peer)) if len >= HEADER => {
                    let mut header = [0; HEADER];
                    for (to, from) in header.iter_mut().zip(&self.received) {
                        // SAFETY: the kernel has written the first `len` bytes, and these are among them.
                        *to = unsafe { from.assume_init() };
                    }
                    return Some((header, peer));
                }
                // A datagram of another program, or the ICMP error of an earlier one.
                Ok(_) => {}
                Err(e) if e.kind() == std::io::ErrorKind::ConnectionRefused => {}
                Err(_) => return None,
            }
        }
    }
}

const HEADER: usize = 12;
const IP_AND_UDP: u64 = 28;
const CLIENT_PORT: u16 = 10_000;
const SERVER_PORT: u16 = hosts::PORT;
