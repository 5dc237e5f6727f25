//! The shell of [`weft_control::directory::budget`], which decides: what is in use is given back when it is dropped.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use parking_lot::Mutex;
use tokio::net::TcpStream;
use tokio::sync::Notify;
use weft_control::directory::PrincipalId;
use weft_control::directory::budget::{ByteLimits, StreamLimits, Usage};

/// Descriptors for everything but streams: the store, metrics, the UDP sockets, files.
const OTHER_DESCRIPTORS: usize = 256;

/// Streams of one principal that may not list.
const PRINCIPAL_STREAMS: usize = 64;

/// How many streams there may be with so many descriptors: less of each if they do not suffice.
pub fn stream_limits(descriptors: usize) -> StreamLimits {
    let room = descriptors.saturating_sub(OTHER_DESCRIPTORS).max(8);
    let (unauthenticated, reserved) = ((room / 4).min(1024), (room / 8).min(512));
    let hosts = (room - unauthenticated - reserved).min(4096);
    StreamLimits { unauthenticated, hosts, principal: PRINCIPAL_STREAMS, reserved }
}

/// Bytes that the kernel holds for a stream's other side: what it does not read is not to be kept there instead.
const SEND_BUFFER: usize = 128 << 10;

/// Bounds what the kernel keeps for a stream, and for how long it keeps one whose other side is gone.
pub fn prepare(tcp: &TcpStream) {
    let _ = tcp.set_nodelay(true);
    let alive = socket2::TcpKeepalive::new().with_time(Duration::from_secs(30)).with_interval(Duration::from_secs(10));
    let socket = socket2::SockRef::from(tcp);
    let _ = socket.set_tcp_keepalive(&alive);
    let _ = socket.set_send_buffer_size(SEND_BUFFER);
}

/// Raises the limit of this process's descriptors as far as the system lets it; how many it is.
pub fn raise_descriptors() -> usize {
    let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else { return 1024 };
    let wanted = hard.max(DESCRIPTORS);
    // Root may raise the hard limit too.
    let raised =
        [(wanted, wanted), (hard, hard)].into_iter().find(|&(soft, hard)| setrlimit(Resource::RLIMIT_NOFILE, soft, hard).is_ok());
    usize::try_from(raised.map_or(soft, |(soft, _)| soft)).unwrap_or(usize::MAX)
}

/// Enough for all streams.
const DESCRIPTORS: u64 = 16_384;

/// What all streams have used of their budgets.
#[derive(Debug)]
pub struct Budget {
    usage: Mutex<Usage>,
    /// What ends each stream that is not authenticated, by its number. Locked after `usage`.
    unauthenticated: Mutex<BTreeMap<u64, Arc<Notify>>>,
}

impl Budget {
    /// Nothing is used.
    pub fn new(limits: StreamLimits) -> Arc<Self> {
        Arc::new(Self { usage: Mutex::new(Usage::new(limits, ByteLimits::DEFAULT)), unauthenticated: Mutex::default() })
    }

    /// Bytes in use.
    pub fn bytes(&self) -> usize {
        self.usage.lock().bytes()
    }

    /// A new connection, and whether the oldest that is not authenticated was ended for it.
    pub fn connected(self: &Arc<Self>, close: &Arc<Notify>) -> (Guest, bool) {
        let mut usage = self.usage.lock();
        let mut unauthenticated = self.unauthenticated.lock();
        let (number, oldest) = usage.connect();
        unauthenticated.insert(number, close.clone());
        if let Some(oldest) = oldest.and_then(|oldest| unauthenticated.remove(&oldest)) {
            oldest.notify_one();
        }
        (Guest { budget: self.clone(), number }, oldest.is_some())
    }

    /// A connection is authenticated; `None` if there are too many such streams.
    pub fn authenticated(self: &Arc<Self>, principal: PrincipalId, may_list: bool) -> Option<Seat> {
        let is_open = self.usage.lock().open(principal, may_list);
        is_open.then(|| Seat { budget: self.clone(), principal, may_list })
    }

    /// Room for bytes of a stream; `None` if there is none, and the stream is to be closed.
    pub fn charge(
        self: &Arc<Self>,
        stream: &Arc<AtomicUsize>,
        principal: PrincipalId,
        may_list: bool,
        bytes: usize,
    ) -> Option<Charge> {
        let mut usage = self.usage.lock();
        if !usage.charge(stream.load(Ordering::Relaxed), principal, may_list, bytes) {
            return None;
        }
        stream.fetch_add(bytes, Ordering::Relaxed);
        Some(Charge { budget: self.clone(), stream: stream.clone(), principal, bytes })
    }
}

/// Bytes that are in use until this is dropped.
#[derive(Debug)]
pub struct Charge {
    budget: Arc<Budget>,
    stream: Arc<AtomicUsize>,
    principal: PrincipalId,
    bytes: usize,
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.stream.fetch_sub(self.bytes, Ordering::Relaxed);
        self.budget.usage.lock().release(self.principal, self.bytes);
    }
}

/// A stream that is not authenticated, until this is dropped.
#[derive(Debug)]
pub struct Guest {
    budget: Arc<Budget>,
    number: u64,
}

impl Drop for Guest {
    fn drop(&mut self) {
        self.budget.usage.lock().disconnect(self.number);
        self.budget.unauthenticated.lock().remove(&self.number);
    }
}

/// A stream of a known principal, until this is dropped.
#[derive(Debug)]
pub struct Seat {
    budget: Arc<Budget>,
    principal: PrincipalId,
    may_list: bool,
}

impl Seat {
    /// Whether the principal might list when it proved who it is.
    pub const fn may_list(&self) -> bool {
        self.may_list
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.budget.usage.lock().close(self.principal, self.may_list);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: ByteLimits = ByteLimits::DEFAULT;

    const HOST: PrincipalId = PrincipalId(40);
    const ADMIN: PrincipalId = PrincipalId(2);

    fn budget(hosts: usize) -> Arc<Budget> {
        Budget::new(StreamLimits { unauthenticated: 3, hosts, principal: PRINCIPAL_STREAMS, reserved: 2 })
    }

    #[test]
    fn bytes_are_bounded_by_stream_by_principal_and_in_all_and_come_back() {
        let budget = budget(9);
        let stream = || Arc::new(AtomicUsize::new(0));
        let one = stream();
        let held = budget.charge(&one, HOST, false, LIMITS.stream).expect("room");
        assert!(budget.charge(&one, HOST, false, 1).is_none(), "the stream is full");
        drop(held);
        assert_eq!((one.load(Ordering::Relaxed), budget.bytes()), (0, 0));
        let fill = |principal: u32, may_list: bool| -> Vec<Charge> {
            std::iter::from_fn(|| budget.charge(&stream(), PrincipalId(principal), may_list, LIMITS.stream)).collect()
        };
        let first = fill(40, false);
        assert_eq!(first.len() * LIMITS.stream, LIMITS.principal);
        let hosts: Vec<Vec<Charge>> = (100..200).map(|host| fill(host, false)).collect();
        assert_eq!(budget.bytes(), LIMITS.all - LIMITS.reserved, "{}", hosts.len());
        assert!(!fill(2, true).is_empty(), "an operator has room left");
        drop((first, hosts));
        assert_eq!(budget.bytes(), 0);
        assert!(budget.usage.lock().is_idle(), "nothing is kept of who has nothing");
    }

    #[test]
    fn hosts_leave_room_for_operators_and_for_each_other() {
        let many = budget(5);
        let hosts: Vec<Seat> = (100..200).filter_map(|host| many.authenticated(PrincipalId(host), false)).collect();
        assert_eq!(hosts.len(), 5);
        let operators: Vec<Seat> = (0..9).filter_map(|_| many.authenticated(ADMIN, true)).collect();
        assert_eq!(operators.len(), 2, "the reserve");
        drop(hosts);
        assert!(many.authenticated(HOST, false).is_some());
        let large = budget(500);
        assert_eq!((0..100).map_while(|_| large.authenticated(HOST, false)).collect::<Vec<_>>().len(), PRINCIPAL_STREAMS);
    }

    #[test]
    fn of_those_that_are_not_authenticated_the_oldest_goes() {
        let budget = budget(5);
        let signals: Vec<Arc<Notify>> = (0..5).map(|_| Arc::default()).collect();
        let guests: Vec<(Guest, bool)> = signals.iter().map(|signal| budget.connected(signal)).collect();
        assert_eq!(guests.iter().map(|it| it.1).collect::<Vec<_>>(), [false, false, false, true, true]);
        assert_eq!(budget.unauthenticated.lock().keys().copied().collect::<Vec<_>>(), [3, 4, 5]);
        drop(guests);
        assert!(budget.unauthenticated.lock().is_empty());
    }

    #[test]
    fn limits_follow_the_descriptors() {
        assert_eq!(stream_limits(16_384), StreamLimits { unauthenticated: 1024, hosts: 4096, principal: 64, reserved: 512 });
        let few = stream_limits(1024);
        assert!(few.unauthenticated + few.hosts + few.reserved <= 1024 - OTHER_DESCRIPTORS && few.reserved > 50, "{few:?}");
        assert!(stream_limits(0).reserved > 0);
    }
}
