//! Between an agent and directory servers: the socket, the resolver's settings, its metrics.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::time::SystemTime;

use metrics::counter;
use weft_control::directory::PrincipalId;
use weft_control::directory::resolver::{ResolverConfig, ResolverCounts};

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

/// The settings of a resolver for this principal, with room for `capacity` names.
pub(crate) fn resolver(principal: PrincipalId, capacity: usize) -> ResolverConfig {
    let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |time| time.as_nanos() as u64);
    ResolverConfig { first_request: since_1970, capacity, ..ResolverConfig::new(principal) }
}

/// Metrics of a resolver.
pub(crate) fn measure_lookups(counts: &ResolverCounts) {
    counter!("weft_agent_lookups_total", "by" => "cache").absolute(counts.hits);
    counter!("weft_agent_lookups_total", "by" => "directory").absolute(counts.misses);
    counter!("weft_agent_lookup_retries_total").absolute(counts.retries);
}
