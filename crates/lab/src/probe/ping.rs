//! Every host asks every other one for an echo.

use std::io::{ErrorKind, Read as _};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use serde::Serialize;
use socket2::{Domain, Protocol, SockAddr, Socket, Type};

use super::packets::{echo_request, read_echo_reply};
use crate::clock::{Deadline, Stopwatch};
use crate::error::{LabError, Result};
use crate::netns;
use crate::plan::{Node, Plan};

/// Who reached whom.
#[derive(Clone, Debug, Serialize)]
pub struct PingAll {
    /// Hosts that asked.
    pub hosts: usize,
    /// Pairs of a host and another one's address.
    pub pairs: usize,
    /// Those that were answered.
    pub answered: usize,
    /// Bytes of a request, its IP header included.
    pub packet_bytes: usize,
    /// Round trips, in milliseconds.
    pub rtt_ms: Option<RoundTrips>,
    /// Those that were not: at most 1,000.
    pub lost: Vec<Lost>,
}

/// The least, the middle and the longest.
#[derive(Clone, Copy, Debug, Serialize)]
#[allow(missing_docs)]
pub struct RoundTrips {
    pub min: f64,
    pub median: f64,
    pub max: f64,
}

/// A pair without an answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Lost {
    /// Who asked.
    pub from: String,
    /// Whom.
    pub to: String,
    /// At which of its addresses.
    pub address: Ipv4Addr,
}

/// An address of a host.
struct Target<'a> {
    host: &'a Node,
    address: Ipv4Addr,
}

/// Asks all, with packets of so many bytes that must not be fragmented.
///
/// # Errors
/// [`LabError::Kernel`] if a socket cannot be had; a missing answer is none.
pub fn all(plan: &Plan, packet_bytes: usize, stop: &AtomicBool) -> Result<PingAll> {
    let hosts: Vec<&Node> = plan.hosts().collect();
    let addresses = |host| move |p: &crate::plan::Port| p.address.map(|a| Target { host, address: a.address });
    let targets: Vec<Target<'_>> = hosts.iter().flat_map(|&host| host.ports.iter().filter_map(addresses(host))).collect();
    let payload = packet_bytes.saturating_sub(HEADERS);
    let of_hosts = netns::each(&hosts, stop, |host| {
        netns::enter(&host.namespace)?;
        let others: Vec<&Target<'_>> = targets.iter().filter(|t| t.host.name != host.name).collect();
        let times = one(&others, payload).map_err(|cause| LabError::Kernel {
            what: "send and receive ICMP echoes",
            place: host.namespace.clone(),
            cause,
        })?;
        Ok(others.into_iter().map(|t| (t.host.name.clone(), t.address)).zip(times).collect::<Vec<_>>())
    })?;
    let (mut lost, mut times, mut pairs) = (Vec::new(), Vec::new(), 0);
    for (host, answers) in hosts.iter().zip(of_hosts) {
        for ((to, address), time) in answers {
            pairs += 1;
            match time {
                Some(time) => times.push(time.as_secs_f64() * 1e3),
                None if lost.len() < LOST_SHOWN => lost.push(Lost { from: host.name.clone(), to, address }),
                None => {}
            }
        }
    }
    times.sort_unstable_by(f64::total_cmp);
    let answered = times.len();
    let rtt_ms = (answered > 0).then(|| RoundTrips { min: times[0], median: times[answered / 2], max: times[answered - 1] });
    Ok(PingAll { hosts: hosts.len(), pairs, answered, packet_bytes: payload + HEADERS, rtt_ms, lost })
}

/// The round trip to each target, from the namespace that the thread is in.
fn one(targets: &[&Target<'_>], payload: usize) -> std::io::Result<Vec<Option<Duration>>> {
    let mut socket = Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::ICMPV4))?;
    let mut times = vec![None; targets.len()];
    for _ in 0..ATTEMPTS {
        let missing: Vec<usize> = (0..targets.len()).filter(|&i| times[i].is_none()).collect();
        for some in missing.chunks(AT_ONCE) {
            ask(&mut socket, targets, some, payload, &mut times)?;
        }
    }
    Ok(times)
}

fn ask(
    socket: &mut Socket,
    targets: &[&Target<'_>],
    some: &[usize],
    payload: usize,
    times: &mut [Option<Duration>],
) -> std::io::Result<()> {
    let watch = Stopwatch::new();
    let mut sent = vec![Duration::ZERO; some.len()];
    for (&i, sent) in some.iter().zip(&mut sent) {
        *sent = watch.elapsed();
        let to = SockAddr::from(SocketAddrV4::new(targets[i].address, 0));
        // No route is an answer too: none.
        let _ = socket.send_to(&echo_request(IDENTIFIER, i as u16, payload), &to);
    }
    let deadline = Deadline::after(PATIENCE);
    let mut buffer = [0u8; 2048];
    while some.iter().any(|&i| times[i].is_none()) && !deadline.has_passed() {
        socket.set_read_timeout(Some(deadline.remaining().max(Duration::from_millis(1))))?;
        let len = match socket.read(&mut buffer) {
            Ok(len) => len,
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted) => continue,
            Err(e) => return Err(e),
        };
        let Some(reply) = read_echo_reply(&buffer[..len]).filter(|r| r.id == IDENTIFIER) else { continue };
        let asked = some.iter().position(|&i| i == usize::from(reply.sequence) && targets[i].address == reply.from);
        if let Some(at) = asked {
            times[some[at]].get_or_insert(watch.elapsed().saturating_sub(sent[at]));
        }
    }
    Ok(())
}

/// Of IP and of ICMP.
const HEADERS: usize = 28;
const IDENTIFIER: u16 = 0x5EF7;
const ATTEMPTS: usize = 3;
/// What waits at the asking host's own port at the most.
const AT_ONCE: usize = 32;
const PATIENCE: Duration = Duration::from_secs(1);
const LOST_SHOWN: usize = 1000;
