//! Requests and responses in single datagrams, at a constant rate a client, to servers at random (Subways section 8.7).
//!
//! A pair of client and server is a flow from the server to the client: responses follow its path, requests the path back. Nothing is
//! sent twice: a request whose datagram or whose response is lost has no response.

use weft_fabric::record::RequestTotals;
use weft_fabric::rng::mix;
use weft_fabric::{Duration, Instant};

use super::histogram::Histogram;

/// A load of requests. Flow `c * servers + s` of the run's workload goes from server `s` to client `c`.
#[derive(Clone, Debug, PartialEq)]
pub struct Requests {
    /// When each client sends its first request.
    pub first: Vec<Instant>,
    /// How many servers there are.
    pub servers: u32,
    /// From one request of a client to its next.
    pub interval: Duration,
    /// Bytes of a request on the wire.
    pub request_len: u16,
    /// Bytes of a response on the wire.
    pub response_len: u16,
    /// Chooses the servers.
    pub seed: u64,
    /// Requests sent from then on count,
    pub from: Instant,
    /// up to then.
    pub to: Instant,
}

/// The state of a load.
#[derive(Debug)]
pub(super) struct Load {
    spec: Requests,
    /// Requests of each client.
    sent: Vec<u32>,
    /// Responses that each flow has delivered.
    pub delivered: Vec<u64>,
    counted: u64,
    latency: Histogram,
}

impl Load {
    pub fn new(spec: Requests) -> Self {
        let clients = spec.first.len();
        let flows = clients * spec.servers as usize;
        Self { sent: vec![0; clients], delivered: vec![0; flows], counted: 0, latency: Histogram::default(), spec }
    }

    pub fn spec(&self) -> &Requests {
        &self.spec
    }

    pub fn clients(&self) -> u32 {
        self.sent.len() as u32
    }

    /// When a client sends its `n`th request, in picoseconds.
    #[inline]
    pub fn sent_at(&self, client: u32, n: u32) -> u64 {
        self.spec.first[client as usize].as_ps() + u64::from(n) * self.spec.interval.as_ps()
    }

    /// A client sends its next request: the flow, the request's number, and when the next one is due.
    pub fn next(&mut self, client: u32) -> (u32, u32, u64) {
        let n = self.sent[client as usize];
        self.sent[client as usize] += 1;
        let draw = mix(self.spec.seed ^ mix(u64::from(client) << 32 | u64::from(n)));
        let server = weft_fabric::rng::reduce(draw, self.spec.servers as usize) as u32;
        self.counted += u64::from(self.counts(self.sent_at(client, n)));
        (client * self.spec.servers + server, n, self.sent_at(client, n + 1))
    }

    /// A response has arrived.
    #[inline]
    pub fn answered(&mut self, flow: u32, n: u32, now: u64) {
        self.delivered[flow as usize] += 1;
        let sent = self.sent_at(flow / self.spec.servers, n);
        if self.counts(sent) {
            self.latency.add(now - sent);
        }
    }

    pub fn totals(&self, ended: Instant) -> RequestTotals {
        let seconds = self.spec.to.min(ended).saturating_since(self.spec.from).as_secs_f64();
        let s = |ps: f64| ps / 1e12;
        RequestTotals {
            answered: self.latency.count(),
            sent: self.counted,
            seconds,
            mean_s: s(self.latency.mean()),
            p50_s: s(self.latency.quantile(0.5)),
            p99_s: s(self.latency.quantile(0.99)),
        }
    }

    #[inline]
    fn counts(&self, at: u64) -> bool {
        at >= self.spec.from.as_ps() && at < self.spec.to.as_ps()
    }
}
