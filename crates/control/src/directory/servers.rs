//! The directory servers as a client sees them: what each last gave it (cookie), how long it takes (RFC 6298), whether it answers at all.
//!
//! ```text
//!   choose k at random --> seal: header with that server's cookie and next number, body, tag
//!   datagram --> open: of a known server, tag right --> answered: cookie, round-trip time, it lives
//! ```

use std::collections::BTreeMap;
use std::net::SocketAddr;

use rand::RngExt;
use smallvec::SmallVec;
use weft_fabric::rng::Pcg64;

use super::OLDER_VERSION;
use super::auth::{PrincipalKey, Tagger};
use super::key::PrincipalId;
use crate::time::{Duration, Instant};
use crate::wire::directory::{Frame, Header, Kind, Versions, WireError};

/// Addresses of servers that one request goes to.
pub(crate) type Chosen = SmallVec<[SocketAddr; 4]>;

/// All servers that a client knows of, and its own name and key.
#[derive(Debug)]
pub(crate) struct Servers {
    known: BTreeMap<SocketAddr, Server>,
    principal: PrincipalId,
    tagger: Tagger,
    first_request: u64,
    versions: Versions,
}

#[derive(Clone, Copy, Debug)]
struct Server {
    cookie: u64,
    /// The number of the last request.
    request: u64,
    /// Smoothed round-trip time and its deviation; `None` before the first measurement.
    round_trip: Option<(Duration, Duration)>,
    /// Requests in a row that it did not answer.
    missed: u32,
    /// It does not speak the newest version of the protocol.
    older: Option<Older>,
}

/// The older version of the protocol is spoken with a server.
#[derive(Clone, Copy, Debug)]
struct Older {
    until: Instant,
    /// The last request of the newest version.
    after: u64,
}

/// The cookie in the header of a sealed request.
pub(crate) fn cookie_of(request: &[u8]) -> u64 {
    request[8..16].try_into().map_or(0, u64::from_be_bytes)
}

/// Why a datagram was not looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    Stranger,
    Malformed,
    BadTag,
    /// It speaks another version of the protocol.
    Version,
}

impl Servers {
    pub fn new(principal: PrincipalId, key: &PrincipalKey, first_request: u64, versions: Versions) -> Self {
        Self { known: BTreeMap::new(), principal, tagger: key.tagger(), first_request, versions }
    }

    /// Another key of the same principal.
    pub fn set_key(&mut self, key: &PrincipalKey) {
        self.tagger = key.tagger();
    }

    /// Replaces the list; what is known of those that stay is kept.
    pub fn set(&mut self, addresses: &[SocketAddr]) {
        self.known.retain(|address, _| addresses.contains(address));
        let new = Server { cookie: 0, request: self.first_request, round_trip: None, missed: 0, older: None };
        for &address in addresses {
            self.known.entry(address).or_insert(new);
        }
    }

    pub fn contains(&self, server: SocketAddr) -> bool {
        self.known.contains_key(&server)
    }

    pub fn len(&self) -> usize {
        self.known.len()
    }

    /// `k` servers at random, or all if there are fewer. Those of `avoid`, and those that do not answer, only where nobody else is left; but
    /// one choice in [`PROBE`] has one of the silent, to see whether it is back.
    pub fn choose(&self, k: usize, avoid: &[SocketAddr], rng: &mut Pcg64) -> Chosen {
        let mut ranks: SmallVec<[(u8, u64, SocketAddr); 8]> = SmallVec::new();
        for (&address, server) in &self.known {
            let rank = 2 * u8::from(server.missed >= SILENT) + u8::from(avoid.contains(&address));
            ranks.push((rank, rng.random(), address));
        }
        ranks.sort_unstable();
        let mut chosen: Chosen = ranks.iter().take(k).map(|&(.., address)| address).collect();
        let silent = ranks.iter().skip(k).find(|(rank, ..)| *rank >= 2);
        if let (Some(&(.., address)), Some(last)) = (silent, chosen.last_mut())
            && rng.random_range(0..PROBE) == 0
        {
            *last = address;
        }
        chosen
    }

    /// A request to a server, and its number.
    ///
    /// # Panics
    /// If the server is not known.
    pub fn seal(&mut self, now: Instant, to: SocketAddr, kind: Kind, body: impl FnOnce(&mut Vec<u8>)) -> (u64, Vec<u8>) {
        let server = self.known.get_mut(&to).expect("a known server");
        server.request += 1;
        server.older = server.older.filter(|older| now < older.until);
        let version = if server.older.is_some() { self.versions.oldest() } else { self.versions.newest() };
        let header = Header { kind, principal: self.principal, cookie: server.cookie, request: server.request };
        let mut bytes = Vec::with_capacity(128);
        header.emit_as(version, &mut bytes);
        body(&mut bytes);
        self.tagger.seal(&mut bytes, 0);
        (server.request, bytes)
    }

    /// Takes a datagram apart if it is from a server and for this client.
    pub fn open<'a>(&self, from: SocketAddr, bytes: &'a [u8]) -> Result<Frame<'a>, Refusal> {
        if !self.known.contains_key(&from) {
            return Err(Refusal::Stranger);
        }
        let frame = Frame::parse_as(self.versions, bytes).map_err(|error| match error {
            WireError::Version(_) => Refusal::Version,
            _ => Refusal::Malformed,
        })?;
        if frame.header.principal != self.principal || !frame.header.kind.is_answer() {
            return Err(Refusal::Malformed);
        }
        if !self.tagger.verify(frame.covered, frame.tag) {
            return Err(Refusal::BadTag);
        }
        Ok(frame)
    }

    /// A server answered a request, after so long.
    pub fn answered(&mut self, from: SocketAddr, cookie: u64, took: Duration) {
        let Some(server) = self.known.get_mut(&from) else { return };
        server.cookie = cookie;
        server.missed = 0;
        // A clock that stepped forward is not a slow network.
        let took = took.min(RTO_MAX);
        server.round_trip = Some(match server.round_trip {
            None => (took, took / 2),
            Some((mean, deviation)) => {
                let off = if took > mean { took - mean } else { mean - took };
                ((mean * 7 + took) / 8, (deviation * 3 + off) / 4)
            }
        });
    }

    /// A server does not speak the version of a request; its own is this one. Whether the request can be sent again: the older version is spoken with that server
    /// for some time.
    pub fn unsupported(&mut self, now: Instant, from: SocketAddr, request: u64, version: u8) -> bool {
        let Some(server) = self.known.get_mut(&from).filter(|_| version < self.versions.newest()) else { return false };
        let after = server.request;
        let older = server.older.get_or_insert(Older { until: now.saturating_add(OLDER_VERSION), after });
        request <= older.after
    }

    /// A server did not answer in time.
    pub fn missed(&mut self, server: SocketAddr) {
        if let Some(server) = self.known.get_mut(&server) {
            server.missed = server.missed.saturating_add(1);
        }
    }

    /// How long to wait for the first of these servers (RFC 6298, with a floor that data centres need).
    pub fn timeout(&self, of: &[SocketAddr]) -> Duration {
        let timeouts = of.iter().filter_map(|address| self.known.get(address)).map(|server| match server.round_trip {
            None => RTO_MIN,
            Some((mean, deviation)) => (mean + deviation * 4).max(RTO_MIN).min(RTO_MAX),
        });
        timeouts.min().unwrap_or(RTO_MIN)
    }
}

/// The least time-out, and the one before the first measurement.
const RTO_MIN: Duration = Duration::from_ms(3);
/// The longest, as VL2's prototype waits (section 5.5).
const RTO_MAX: Duration = Duration::from_secs(2);
/// From so many unanswered requests in a row a server counts as silent.
const SILENT: u32 = 3;
const PROBE: u32 = 16;

#[cfg(test)]
mod tests {
    use weft_fabric::rng;

    use super::*;
    use crate::directory::auth::Secret;

    fn servers(n: u8) -> (Servers, Vec<SocketAddr>) {
        let addresses: Vec<SocketAddr> = (1..=n).map(|i| SocketAddr::from(([10, 0, 0, i], 5303))).collect();
        let mut servers = Servers::new(PrincipalId(1), &Secret::new([1; 32]).key_of(PrincipalId(1)), 0, Versions::OURS);
        servers.set(&addresses);
        (servers, addresses)
    }

    #[test]
    fn every_pair_is_chosen_about_as_often() {
        let (servers, addresses) = servers(4);
        let mut rng = rng::stream(1, rng::Stream::Traffic);
        let mut counts = BTreeMap::new();
        for _ in 0..6000 {
            let mut pair = servers.choose(2, &[], &mut rng);
            pair.sort_unstable();
            *counts.entry(pair).or_insert(0) += 1;
        }
        assert_eq!(counts.len(), 6);
        assert!(counts.values().all(|&n| (850..1150).contains(&n)), "{counts:?}");
        assert_eq!(servers.choose(9, &[], &mut rng).len(), addresses.len());
    }

    #[test]
    fn silent_servers_are_tried_less_and_come_back() {
        let (mut servers, addresses) = servers(3);
        let mut rng = rng::stream(1, rng::Stream::Traffic);
        for _ in 0..SILENT {
            servers.missed(addresses[0]);
        }
        let mut tries =
            |servers: &Servers| (0..1600).filter(|_| servers.choose(2, &[], &mut rng).contains(&addresses[0])).count();
        let silent = tries(&servers);
        assert!((60..150).contains(&silent), "{silent}");
        servers.answered(addresses[0], 5, Duration::from_us(100));
        assert!(tries(&servers) > 900);
    }

    #[test]
    fn the_timeout_follows_the_round_trip() {
        let (mut servers, addresses) = servers(1);
        assert_eq!(servers.timeout(&addresses), RTO_MIN);
        for _ in 0..100 {
            servers.answered(addresses[0], 1, Duration::from_us(200));
        }
        assert_eq!(servers.timeout(&addresses), RTO_MIN);
        for _ in 0..100 {
            servers.answered(addresses[0], 1, Duration::from_ms(20));
        }
        let slow = servers.timeout(&addresses);
        assert!(slow >= Duration::from_ms(19) && slow < Duration::from_ms(25), "{slow}");
    }
}
