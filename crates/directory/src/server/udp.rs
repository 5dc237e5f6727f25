//! The threads that answer lookups: each has a socket of its own on the one port (SO_REUSEPORT: a client always comes to the same one), and a front.
//!
//! ```text
//!   recvmmsg --> lookups not too old --> front, under one read lock of the machine --> sendmmsg
//!                                          |
//!                                          +-- updates, peers' messages --> the machine's inbox
//! ```
//! The kernel says when each datagram arrived; under overload old lookups are dropped ([`AgeLimit`]), and what is no lookup goes first.

use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use nix::sys::socket::{setsockopt, sockopt};
use socket2::{Domain, Protocol, Socket, Type};
use weft_control::directory::auth::Cookies;
use weft_control::directory::front::{AgeLimit, Front, FrontConfig, Verdict};
use weft_control::directory::request::Ask;
use weft_control::directory::server::Input;

use super::affinity;
use super::config::ServeError;
use super::core::Core;
use super::packets::{Incoming, Outgoing, enable_gro, enable_timestamps};
use crate::client::random;

/// Bytes that the kernel may hold for a socket in each direction, as far as it lets us.
const SOCKET_BUFFER: usize = 8 << 20;

/// How often an idle thread looks whether it is to end.
const IDLE: Duration = Duration::from_millis(100);

/// Binds one socket for each thread. Nobody else may have the port, although the sockets share it.
pub fn bind(address: SocketAddr, threads: usize) -> Result<Vec<UdpSocket>, ServeError> {
    let refused = |error: std::io::Error| match error.kind() {
        std::io::ErrorKind::AddrInUse => ServeError::InUse(address),
        _ => ServeError::Listen { address, error },
    };
    drop(UdpSocket::bind(address).map_err(refused)?);
    let one = || -> std::io::Result<UdpSocket> {
        let socket = Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
        socket.set_reuse_port(true)?;
        if address.is_ipv6() {
            socket.set_only_v6(address.ip() != std::net::Ipv6Addr::UNSPECIFIED)?;
        }
        enlarge(&socket);
        socket.bind(&address.into())?;
        socket.set_read_timeout(Some(IDLE))?;
        enable_gro(&socket);
        enable_timestamps(&socket);
        Ok(socket.into())
    };
    (0..threads).map(|_| one().map_err(refused)).collect()
}

/// Root may have more than the limit of the system; others get what they get.
fn enlarge(socket: &Socket) {
    if setsockopt(socket, sockopt::RcvBufForce, &SOCKET_BUFFER).is_err() {
        let _ = socket.set_recv_buffer_size(SOCKET_BUFFER);
    }
    if setsockopt(socket, sockopt::SndBufForce, &SOCKET_BUFFER).is_err() {
        let _ = socket.set_send_buffer_size(SOCKET_BUFFER);
    }
}

/// Pins this thread to a core.
pub fn pin(core: usize) -> Result<(), ServeError> {
    affinity::pin(core).map_err(|_| ServeError::Core(core))
}

/// Answers until the server stops.
pub fn run(core: &Arc<Core>, socket: &UdpSocket) {
    let mut incoming = Incoming::new();
    let mut outgoing = Outgoing::new(true);
    let mut secrets = core.secrets();
    let mut front = new_front(core);
    let mut age = AgeLimit::new(core.now());
    while !core.stop.load(Ordering::Relaxed) {
        match incoming.receive(socket.as_raw_fd()) {
            Ok(()) => {}
            // Nothing came for a while, or an earlier answer could not be delivered.
            Err(_) => {
                age.took(core.now(), true);
                continue;
            }
        }
        if core.secrets() != secrets {
            secrets = core.secrets();
            front.set_secret(core.secret());
        }
        let arrived = Instant::now();
        let mut datagrams = Vec::with_capacity(256);
        let now = core.now();
        let rule = age.batch(now, incoming.has_emptied());
        let stale = incoming.datagrams_unless(|age, datagram| rule.drops(age.into(), datagram), &mut datagrams);
        if stale > 0 {
            core.metrics.dropped("stale", stale);
        }
        rule.sort(&mut datagrams);
        answer(core, &mut front, &datagrams, &mut outgoing);
        outgoing.flush(socket.as_raw_fd());
        core.metrics.received.increment(datagrams.len() as u64 + stale);
        core.metrics.answer_seconds.record(arrived.elapsed());
        if outgoing.failed > 0 {
            core.metrics.dropped("send", std::mem::take(&mut outgoing.failed));
        }
    }
}

fn new_front(core: &Core) -> Front {
    let config = FrontConfig { me: core.config.me, max_clients: core.config.max_clients, versions: core.config.versions };
    Front::new(core.secret(), Cookies::new(random()), config)
}

/// Takes a batch through the front. What the machine must do is posted after the lock is let go.
fn answer(core: &Core, front: &mut Front, datagrams: &[(SocketAddr, &[u8])], outgoing: &mut Outgoing) {
    let mut forwarded = Vec::new();
    let before = *front.counters();
    let mut sent = 0;
    {
        let server = core.server.read();
        let now = core.now();
        front.receive_batch(now, server.shared(), datagrams, |at, verdict, bytes| match verdict {
            Verdict::Answer => {
                sent += 1;
                outgoing.push(datagrams[at].0, bytes);
            }
            Verdict::Forward(request) => forwarded.push(request),
            Verdict::Drop(_) => {}
        });
    }
    core.metrics.sent.increment(sent);
    core.metrics.front(&before, front.counters());
    while let Some(sighting) = front.next_sighting() {
        core.ask(Input::Seen(sighting));
    }
    while let Some((principal, asker)) = front.next_wanted() {
        core.ask(Input::Wanted(principal, asker));
    }
    for request in forwarded {
        core.metrics.request(kind_of(&request.ask));
        if matches!(request.ask, Ask::Update(_)) && !core.datagram_updates {
            core.metrics.dropped("update_by_udp", 1);
        } else if !core.ask(Input::Request(*request)) {
            core.metrics.dropped("overload", 1);
        }
    }
}

const fn kind_of(ask: &Ask) -> &'static str {
    match ask {
        Ask::Update(_) => "update",
        Ask::Misdelivered(_) => "misdelivered",
        Ask::Commits(_) => "commits",
        Ask::Digest(_) | Ask::DigestAnswer(_) => "digest",
        Ask::Follow(_) => "subscribe",
        _ => "other",
    }
}
