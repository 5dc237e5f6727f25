//! Between an agent and directory servers: the socket, the resolver's settings, its metrics.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::time::{Instant, SystemTime};

use metrics::{counter, gauge};
use weft_control::directory::PrincipalId;
use weft_control::directory::resolver::{ResolverConfig, ResolverCounts};
use weft_control::time::Duration;

use crate::error::{Error, Result};

/// Bytes of the largest datagram that is received.
pub(crate) const DATAGRAM: usize = 2048;

/// A socket for datagrams from an address of this host.
///
/// # Errors
/// [`Error`] if the address is not this host's.
pub(crate) fn bind(la: Ipv4Addr) -> Result<UdpSocket> {
    let bound = UdpSocket::bind((la, 0)).and_then(|socket| socket.set_nonblocking(true).map(|()| socket));
    bound.map_err(|cause| Error::Locator { la, cause })
}

/// Sends a datagram to a directory server, or to a ToR. What is lost is retransmitted by the machine.
pub(crate) fn send(socket: &UdpSocket, to: SocketAddr, bytes: &[u8]) {
    if let Err(error) = socket.send_to(bytes, to) {
        tracing::debug!(%to, %error, "a datagram was not sent");
    }
}

/// The settings of a resolver for this principal, with room for `capacity` names. While no server answers, what is known is used for
/// `fail_static`.
pub(crate) fn resolver(principal: PrincipalId, capacity: usize, fail_static: Duration) -> ResolverConfig {
    let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |time| time.as_nanos() as u64);
    let versions = weft_directory::client::versions();
    ResolverConfig { first_request: since_1970, capacity, fail_static, versions, ..ResolverConfig::new(principal) }
}

/// Whether the directory confirms what is in use: logged when it changes.
#[derive(Debug)]
pub(crate) struct Confirmation {
    /// What stays in use.
    what: &'static str,
    unconfirmed: Option<Duration>,
}

impl Default for Confirmation {
    fn default() -> Self {
        Self::of("known mappings")
    }
}

impl Confirmation {
    /// Of what stays in use while the directory is away.
    pub(crate) const fn of(what: &'static str) -> Self {
        Self { what, unconfirmed: None }
    }

    /// `unconfirmed`: for how long it has confirmed nothing, if that is longer than usual.
    pub(crate) fn update(&mut self, unconfirmed: Option<Duration>) {
        match (self.unconfirmed, unconfirmed) {
            (None, Some(_)) => tracing::warn!("no directory server answers: {} stay in use, unconfirmed", self.what),
            (Some(before), None) => {
                tracing::info!(unconfirmed_s = before.as_secs_f64(), "the directory confirms {} again", self.what);
            }
            _ => {}
        }
        self.unconfirmed = unconfirmed;
        gauge!("weft_agent_unconfirmed_seconds").set(unconfirmed.map_or(0.0, Duration::as_secs_f64));
    }

    /// What status says of it.
    pub(crate) fn problem(&self) -> Option<String> {
        let seconds = self.unconfirmed?.as_secs_f64();
        Some(format!(
            "no directory server has answered for {seconds:.0} s: {} stay in use, others cannot be looked up",
            self.what
        ))
    }

    /// The same as a number: null if the directory answers.
    pub(crate) fn unconfirmed_s(&self) -> Option<f64> {
        self.unconfirmed.map(Duration::as_secs_f64)
    }
}

/// Whether the limit of peers is too small for the peers in use.
#[derive(Debug, Default)]
pub(crate) struct Evictions {
    total: u64,
    /// When the last one was seen, and how many there had been before the minute.
    seen: Option<(Instant, u64)>,
}

impl Evictions {
    /// `total`: peers evicted so far.
    pub(crate) fn update(&mut self, total: u64) {
        let recent = self.seen.filter(|(at, _)| at.elapsed() < EVICTIONS_SHOWN);
        if total > self.total {
            let before = recent.map_or(self.total, |(_, before)| before);
            if recent.is_none() {
                tracing::warn!("more peers are in use than `limits.peers`: known ones are evicted and looked up again");
            }
            self.seen = Some((Instant::now(), before));
        } else {
            self.seen = recent;
        }
        self.total = total;
    }

    /// Peers evicted so far.
    pub(crate) const fn total(&self) -> u64 {
        self.total
    }

    /// What status says of it.
    pub(crate) fn problem(&self, limit: u32) -> Option<String> {
        let (_, before) = self.seen?;
        let count = self.total - before;
        Some(format!(
            "peers: the limit of {limit} is too small, {count} known ones were evicted recently (raise `limits.peers`, and restart the agent)"
        ))
    }
}

/// An eviction is a problem for so long.
const EVICTIONS_SHOWN: std::time::Duration = std::time::Duration::from_secs(60);

/// Metrics of a resolver.
pub(crate) fn measure_lookups(counts: &ResolverCounts) {
    counter!("weft_agent_lookups_total", "by" => "cache").absolute(counts.hits);
    counter!("weft_agent_lookups_total", "by" => "directory").absolute(counts.misses);
    counter!("weft_agent_lookup_retries_total").absolute(counts.retries);
    counter!("weft_agent_peers_evicted_total").absolute(counts.evicted);
    counter!("weft_agent_version_refused_total").absolute(counts.unsupported);
}
