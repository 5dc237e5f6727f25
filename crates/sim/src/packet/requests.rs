//! Requests and responses in single datagrams, at a constant rate a client, to servers at random (Subways section 8.7).
//!
//! A pair of client and server is a flow from the server to the client: responses follow its path, requests the path back. Nothing is
//! sent twice: a request whose datagram or whose response is lost has no response.

use hdrhistogram::Histogram;
use rustc_hash::FxHashMap;
use weft_fabric::record::RequestTotals;
use weft_fabric::traffic::RequestLoad;
use weft_fabric::{HostId, Instant};

/// A load of requests; its flows are the run's workload.
#[derive(Clone, Debug, PartialEq)]
pub struct Requests {
    /// Who asks whom, and when. Its sizes are those of packets on the wire.
    pub load: RequestLoad,
    /// Requests sent from then on count,
    pub from: Instant,
    /// up to then.
    pub to: Instant,
}

/// The state of a load.
#[derive(Debug)]
pub(super) struct Load {
    spec: Requests,
    /// By client: when it sends its first request, in picoseconds, and how many it has sent.
    clients: Vec<(u64, u32)>,
    interval: u64,
    /// By server: its position.
    place: FxHashMap<HostId, u32>,
    /// Responses that each flow has delivered.
    pub delivered: Vec<u64>,
    counted: u64,
    /// Latencies in picoseconds, within 0.1 %.
    latency: Histogram<u64>,
    latency_sum: u128,
}

impl Load {
    pub fn new(spec: Requests) -> Self {
        let load = &spec.load;
        let clients = (0..load.clients.len()).map(|c| (load.sent_at(c, 0).as_ps(), 0)).collect();
        let place = (0..).zip(&load.servers).map(|(i, &s)| (s, i)).collect();
        let delivered = vec![0; load.clients.len() * load.servers.len()];
        let latency = Histogram::new(LATENCY_DIGITS).expect("the number of digits is valid");
        Self { clients, interval: load.interval.as_ps(), place, delivered, counted: 0, latency, latency_sum: 0, spec }
    }

    /// Bytes of a request on the wire.
    pub fn request_len(&self) -> u16 {
        self.spec.load.request.0 as u16
    }

    /// Bytes of a response on the wire.
    pub fn response_len(&self) -> u16 {
        self.spec.load.response.0 as u16
    }

    pub fn clients(&self) -> u32 {
        self.clients.len() as u32
    }

    /// When a client sends its `n`th request, in picoseconds.
    #[inline]
    pub fn sent_at(&self, client: u32, n: u32) -> u64 {
        self.clients[client as usize].0.saturating_add(u64::from(n) * self.interval)
    }

    /// A client sends its next request: the flow, the request's number, and when the next one is due.
    pub fn next(&mut self, client: u32) -> (u32, u32, u64) {
        let n = self.clients[client as usize].1;
        self.clients[client as usize].1 += 1;
        let server = self.place[&self.spec.load.server(client as usize, u64::from(n))];
        self.counted += u64::from(self.counts(self.sent_at(client, n)));
        (client * self.place.len() as u32 + server, n, self.sent_at(client, n + 1))
    }

    /// A response has arrived.
    #[inline]
    pub fn answered(&mut self, flow: u32, n: u32, now: u64) {
        self.delivered[flow as usize] += 1;
        let sent = self.sent_at(flow / self.place.len() as u32, n);
        if self.counts(sent) {
            self.latency.record(now - sent).expect("the histogram grows");
            self.latency_sum += u128::from(now - sent);
        }
    }

    pub fn totals(&self, ended: Instant) -> RequestTotals {
        let seconds = self.spec.to.min(ended).saturating_since(self.spec.from).as_secs_f64();
        let answered = self.latency.len();
        // The middle of the bucket that holds the value of that rank; NaN without values, as is the mean.
        let quantile = |fraction: f64| match answered {
            0 => f64::NAN,
            _ => self.latency.median_equivalent(self.latency.value_at_quantile(fraction)) as f64 / 1e12,
        };
        RequestTotals {
            answered,
            sent: self.counted,
            seconds,
            mean_s: self.latency_sum as f64 / answered as f64 / 1e12,
            p50_s: quantile(0.5),
            p99_s: quantile(0.99),
        }
    }

    #[inline]
    fn counts(&self, at: u64) -> bool {
        at >= self.spec.from.as_ps() && at < self.spec.to.as_ps()
    }
}

/// Significant decimal digits of a latency.
const LATENCY_DIGITS: u8 = 3;
