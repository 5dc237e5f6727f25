//! Requests and responses at a constant rate, as web servers ask memcache servers (Subways section 8.7): no flows, so only a world
//! of packets can carry them.
//!
//! ```text
//!   client c   |--phase(c)--|--interval--|--interval--|       request of 50 B   -->  any server, each equally likely
//!              start       n=0          n=1          n=2      response of 1500 B <--
//! ```

use crate::ids::HostId;
use crate::time::{Duration, Instant, PS_PER_S};
use crate::topology::Fabric;
use crate::traffic::error::{TrafficError, parameter};
use crate::traffic::flow::{FlowSpec, Size};
use crate::traffic::hosts::HostList;
use crate::traffic::random::{Draw, below, generator, key};
use crate::units::Bytes;

/// A description of requests: who asks whom, how much and how often.
#[derive(Clone, Debug, PartialEq)]
pub struct RequestSpec {
    /// The hosts that answer: `server_racks` or `servers`.
    pub servers: HostList,
    /// The hosts that ask: `client_racks` or `clients`. `None`: all other hosts of the servers' pods.
    pub clients: Option<HostList>,
    /// Bytes of a request's packet: `request_size`; 50 B in the paper.
    pub request: Bytes,
    /// Bytes of a response's packet: `response_size`; 1500 B in the paper.
    pub response: Bytes,
    /// Requests that each client sends a second: `requests_per_s`.
    pub requests_per_s: f64,
    /// When the first interval begins: `start`.
    pub start: Instant,
}

/// The requests of a run. Clients send at a constant rate, each shifted by a phase of its own, whatever became of earlier requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestLoad {
    /// The hosts that ask, ascending. Never a server.
    pub clients: Vec<HostId>,
    /// The hosts that answer, ascending.
    pub servers: Vec<HostId>,
    /// Bytes of a request's packet.
    pub request: Bytes,
    /// Bytes of a response's packet.
    pub response: Bytes,
    /// From one request of a client to its next.
    pub interval: Duration,
    /// When the first interval begins.
    pub start: Instant,
    /// Of phases and keys.
    pub seed: u64,
}

impl RequestSpec {
    /// The requests on a fabric. The same arguments give the same requests.
    ///
    /// # Errors
    /// [`TrafficError`], naming the key at fault and what it may be.
    pub fn load(&self, fabric: &Fabric, seed: u64) -> Result<RequestLoad, TrafficError> {
        let mut servers = self.servers.pick(fabric, "server_racks", "servers")?;
        servers.sort_unstable();
        let is_server = |h: HostId| servers.binary_search(&h).is_ok();
        let mut clients = match &self.clients {
            Some(list) => {
                let clients = list.pick(fabric, "client_racks", "clients")?;
                if let Some(both) = clients.iter().find(|&&h| is_server(h)) {
                    return Err(parameter(list.key(), both, "it is a server too: a host asks or answers"));
                }
                clients
            }
            None => {
                let mut pods: Vec<u32> = servers.iter().map(|&h| fabric.pod_of(h)).collect();
                pods.sort_unstable();
                pods.dedup();
                fabric.hosts().filter(|&h| !is_server(h) && pods.binary_search(&fabric.pod_of(h)).is_ok()).collect()
            }
        };
        clients.sort_unstable();
        if clients.is_empty() {
            return Err(parameter("servers", servers.len(), "all hosts of their pods are servers: nobody is left to ask"));
        }
        for (key, size) in [("request_size", self.request), ("response_size", self.response)] {
            if size.0 == 0 || size > MAX_MESSAGE {
                return Err(parameter(key, size, format!("a packet has from 1B to {MAX_MESSAGE}")));
            }
        }
        if !(self.requests_per_s > 0.0 && self.requests_per_s <= MAX_RATE) {
            let rule = format!("requests a second of each client: above 0, at most {MAX_RATE}");
            return Err(parameter("requests_per_s", self.requests_per_s, rule));
        }
        let interval = PS_PER_S as f64 / self.requests_per_s;
        if interval >= LONGEST.as_ps() as f64 {
            return Err(parameter("requests_per_s", self.requests_per_s, "that is less than a request a day"));
        }
        Ok(RequestLoad {
            clients,
            servers,
            request: self.request,
            response: self.response,
            interval: Duration::from_ps(libm::round(interval) as u64),
            start: self.start,
            seed,
        })
    }
}

impl HostList {
    const fn key(&self) -> &'static str {
        match self {
            Self::Racks(_) => "client_racks",
            Self::Hosts(_) => "clients",
        }
    }
}

impl RequestLoad {
    /// When a client, given by its position, sends its request number `nth`: `start + phase + nth x interval`, the phase uniform in
    /// an interval. [`Instant::MAX`] beyond the end of time.
    pub fn sent_at(&self, client: usize, nth: u64) -> Instant {
        let hash = key(self.seed, Draw::Phase, u64::from(self.clients[client].0), 0);
        let phase = (u128::from(hash) * u128::from(self.interval.as_ps())) >> 64;
        let offset = phase + u128::from(nth) * u128::from(self.interval.as_ps());
        let at = u128::from(self.start.saturating_since(Instant::ZERO).as_ps()) + offset;
        u64::try_from(at).map_or(Instant::MAX, Instant::from_ps)
    }

    /// The server of that request: the one that holds a random key, each equally likely.
    pub fn server(&self, client: usize, nth: u64) -> HostId {
        let rng = &mut generator(self.seed, Draw::Key, u64::from(self.clients[client].0), nth);
        self.servers[below(rng, self.servers.len())]
    }

    /// Each pair as a flow without end from the server to the client, whose path the responses follow: number
    /// `client x servers + server`, by position.
    pub fn flows(&self) -> Vec<FlowSpec> {
        let (start, size) = (self.start, Size::Infinite);
        self.clients.iter().flat_map(|&dst| self.servers.iter().map(move |&src| FlowSpec { src, dst, start, size })).collect()
    }

    /// Requests that all clients send a second.
    pub fn requests_per_s(&self) -> f64 {
        self.clients.len() as f64 * (PS_PER_S as f64 / self.interval.as_ps() as f64)
    }
}

/// The largest packet of IPv4, with room for the headers of detours.
const MAX_MESSAGE: Bytes = Bytes(65_000);
/// Requests a second of a client: one a nanosecond, so that time moves on.
const MAX_RATE: f64 = 1e9;
const LONGEST: Duration = Duration::from_secs(86_400);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::shapes::{Cabling, fat_tree};
    use crate::units::BitsPerSec;

    /// 128 hosts in 8 pods of 4 racks of 4.
    fn fabric() -> Fabric {
        fat_tree(8, Cabling { rate: BitsPerSec(1_000_000_000), delay: Duration::ZERO }).unwrap()
    }

    fn spec() -> RequestSpec {
        RequestSpec {
            servers: HostList::Racks(vec![0, 1]),
            clients: None,
            request: Bytes(50),
            response: Bytes(1500),
            requests_per_s: 1_000.0,
            start: Instant::ZERO + Duration::from_ms(3),
        }
    }

    #[test]
    fn the_other_hosts_of_the_pod_ask() {
        let load = spec().load(&fabric(), 1).unwrap();
        assert_eq!(load.servers, (0..8).map(HostId).collect::<Vec<_>>());
        assert_eq!(load.clients, (8..16).map(HostId).collect::<Vec<_>>());
        let flows = load.flows();
        assert_eq!(flows.len(), 64);
        assert_eq!((flows[11].src, flows[11].dst), (HostId(3), HostId(9)), "client 1, server 3");
        let named = RequestSpec { clients: Some(HostList::Racks(vec![31])), ..spec() };
        assert_eq!(named.load(&fabric(), 1).unwrap().clients, (124..128).map(HostId).collect::<Vec<_>>());
    }

    #[test]
    fn rates_are_constant_and_phases_differ() {
        let load = spec().load(&fabric(), 1).unwrap();
        assert_eq!(load.interval, Duration::from_ms(1));
        assert_eq!(load.requests_per_s(), 8_000.0);
        let start = Instant::ZERO + Duration::from_ms(3);
        let mut phases: Vec<Duration> = (0..8).map(|c| load.sent_at(c, 0) - start).collect();
        assert!(phases.iter().all(|&p| p < load.interval));
        for c in 0..8 {
            assert!((0..50).all(|n| load.sent_at(c, n + 1) - load.sent_at(c, n) == load.interval));
        }
        phases.sort_unstable();
        phases.dedup();
        assert_eq!(phases.len(), 8);
        assert_eq!(load.sent_at(0, u64::MAX), Instant::MAX);
        assert_eq!(load, spec().load(&fabric(), 1).unwrap());
        assert_ne!(load.sent_at(0, 0), spec().load(&fabric(), 2).unwrap().sent_at(0, 0));
    }

    #[test]
    fn keys_are_spread_evenly_over_the_servers() {
        let load = spec().load(&fabric(), 7).unwrap();
        let mut counts = [0f64; 8];
        for nth in 0..10_000 {
            for client in 0..8 {
                counts[load.server(client, nth).index()] += 1.0;
            }
        }
        let chi2: f64 = counts.iter().map(|c| (c - 10_000.0).powi(2) / 10_000.0).sum();
        assert!(chi2 < 30.0, "{chi2}");
    }

    #[test]
    fn what_makes_no_sense_names_its_key() {
        let key = |spec: RequestSpec| match spec.load(&fabric(), 1) {
            Err(TrafficError::Parameter { key, .. }) => key,
            other => panic!("{other:?}"),
        };
        assert_eq!(key(RequestSpec { servers: HostList::Racks(vec![32]), ..spec() }), "server_racks");
        assert_eq!(key(RequestSpec { servers: HostList::Racks(vec![0, 1, 2, 3]), ..spec() }), "servers");
        assert_eq!(key(RequestSpec { clients: Some(HostList::Hosts(vec![7, 9])), ..spec() }), "clients");
        assert_eq!(key(RequestSpec { request: Bytes(0), ..spec() }), "request_size");
        assert_eq!(key(RequestSpec { response: Bytes(70_000), ..spec() }), "response_size");
        for rate in [0.0, -1.0, f64::NAN, 2e9, 1e-9] {
            assert_eq!(key(RequestSpec { requests_per_s: rate, ..spec() }), "requests_per_s");
        }
    }
}
