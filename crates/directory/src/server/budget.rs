//! How much a server keeps for its streams: bytes that wait to be sent or are still being received, and streams themselves.
//!
//! ```text
//!   a stream       256 KiB      beyond it, the stream is closed: its other end does not read
//!   a principal    8 MiB        of all its streams; who is not authenticated yet counts as one principal
//!   all            128 MiB      the last 32 MiB are for principals that may list: an operator gets in when hosts have filled the rest
//!   streams        1,024 that are not authenticated (one more ends the oldest), 4,096 of hosts, 64 of one host, 512 more for principals that may list
//! ```

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use tokio::net::TcpStream;
use tokio::sync::Notify;
use weft_control::directory::PrincipalId;

const STREAM_BYTES: usize = 256 << 10;
const PRINCIPAL_BYTES: usize = 8 << 20;
const ALL_BYTES: usize = 128 << 20;
const RESERVED_BYTES: usize = 32 << 20;

/// Streams of one principal that may not list.
const PRINCIPAL_STREAMS: usize = 64;

/// Descriptors for everything but streams: the store, metrics, the UDP sockets, files.
const OTHER_DESCRIPTORS: usize = 256;

/// How many streams there may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamLimits {
    /// That are not authenticated.
    pub unauthenticated: usize,
    /// Of principals that may not list.
    pub hosts: usize,
    /// More, of those that may.
    pub reserved: usize,
}

impl StreamLimits {
    /// With so many descriptors: less of each if they do not suffice.
    pub fn within(descriptors: usize) -> Self {
        let room = descriptors.saturating_sub(OTHER_DESCRIPTORS).max(8);
        let (unauthenticated, reserved) = ((room / 4).min(1024), (room / 8).min(512));
        Self { unauthenticated, hosts: (room - unauthenticated - reserved).min(4096), reserved }
    }
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
    limits: StreamLimits,
    bytes: AtomicUsize,
    principals: Mutex<FxHashMap<PrincipalId, Used>>,
    hosts: AtomicUsize,
    privileged: AtomicUsize,
    unauthenticated: Mutex<Unauthenticated>,
}

#[derive(Debug, Default)]
struct Used {
    bytes: usize,
    streams: usize,
}

/// Streams that are not authenticated, oldest first.
#[derive(Debug, Default)]
struct Unauthenticated {
    next: u64,
    open: BTreeMap<u64, Arc<Notify>>,
}

impl Budget {
    /// Nothing is used.
    pub fn new(limits: StreamLimits) -> Arc<Self> {
        Arc::new(Self {
            limits,
            bytes: AtomicUsize::new(0),
            principals: Mutex::default(),
            hosts: AtomicUsize::new(0),
            privileged: AtomicUsize::new(0),
            unauthenticated: Mutex::default(),
        })
    }

    /// Bytes in use.
    pub fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// A new connection. If there are too many that are not authenticated, the oldest ends: an operator's takes milliseconds to prove it.
    pub fn connected(self: &Arc<Self>, close: &Arc<Notify>) -> (Guest, bool) {
        let mut unauthenticated = self.unauthenticated.lock();
        let is_full = unauthenticated.open.len() >= self.limits.unauthenticated;
        if is_full && let Some((_, oldest)) = unauthenticated.open.pop_first() {
            oldest.notify_one();
        }
        unauthenticated.next += 1;
        let number = unauthenticated.next;
        unauthenticated.open.insert(number, close.clone());
        (Guest { budget: self.clone(), number }, is_full)
    }

    /// A connection is authenticated; `None` if there are too many such streams.
    pub fn authenticated(self: &Arc<Self>, principal: PrincipalId, may_list: bool) -> Option<Seat> {
        let mut principals = self.principals.lock();
        let used = principals.entry(principal).or_default();
        let (hosts, privileged) = (self.hosts.load(Ordering::Relaxed), self.privileged.load(Ordering::Relaxed));
        let has_room = if may_list {
            hosts + privileged < self.limits.hosts + self.limits.reserved
        } else {
            hosts < self.limits.hosts && used.streams < PRINCIPAL_STREAMS
        };
        if !has_room {
            forget_idle(&mut principals, principal);
            return None;
        }
        used.streams += 1;
        if may_list { &self.privileged } else { &self.hosts }.fetch_add(1, Ordering::Relaxed);
        Some(Seat { budget: self.clone(), principal, may_list })
    }

    /// Room for bytes of a stream; `None` if there is none, and the stream is to be closed.
    pub fn charge(
        self: &Arc<Self>,
        stream: &Arc<AtomicUsize>,
        principal: PrincipalId,
        may_list: bool,
        bytes: usize,
    ) -> Option<Charge> {
        let all = if may_list { ALL_BYTES } else { ALL_BYTES - RESERVED_BYTES };
        let mut principals = self.principals.lock();
        let used = principals.entry(principal).or_default();
        let fits = stream.load(Ordering::Relaxed) + bytes <= STREAM_BYTES
            && used.bytes + bytes <= PRINCIPAL_BYTES
            && self.bytes.load(Ordering::Relaxed) + bytes <= all;
        if !fits {
            forget_idle(&mut principals, principal);
            return None;
        }
        used.bytes += bytes;
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        stream.fetch_add(bytes, Ordering::Relaxed);
        Some(Charge { budget: self.clone(), stream: stream.clone(), principal, bytes })
    }
}

fn forget_idle(principals: &mut FxHashMap<PrincipalId, Used>, principal: PrincipalId) {
    if principals.get(&principal).is_some_and(|used| used.bytes == 0 && used.streams == 0) {
        principals.remove(&principal);
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
        self.budget.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
        let mut principals = self.budget.principals.lock();
        if let Some(used) = principals.get_mut(&self.principal) {
            used.bytes -= self.bytes;
        }
        forget_idle(&mut principals, self.principal);
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
        self.budget.unauthenticated.lock().open.remove(&self.number);
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
        if self.may_list { &self.budget.privileged } else { &self.budget.hosts }.fetch_sub(1, Ordering::Relaxed);
        let mut principals = self.budget.principals.lock();
        if let Some(used) = principals.get_mut(&self.principal) {
            used.streams -= 1;
        }
        forget_idle(&mut principals, self.principal);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOST: PrincipalId = PrincipalId(40);
    const ADMIN: PrincipalId = PrincipalId(2);

    fn budget(hosts: usize) -> Arc<Budget> {
        Budget::new(StreamLimits { unauthenticated: 3, hosts, reserved: 2 })
    }

    #[test]
    fn bytes_are_bounded_by_stream_by_principal_and_in_all_and_come_back() {
        let budget = budget(9);
        let stream = || Arc::new(AtomicUsize::new(0));
        let one = stream();
        let held = budget.charge(&one, HOST, false, STREAM_BYTES).expect("room");
        assert!(budget.charge(&one, HOST, false, 1).is_none(), "the stream is full");
        drop(held);
        assert_eq!((one.load(Ordering::Relaxed), budget.bytes()), (0, 0));
        let fill = |principal: u32, may_list: bool| -> Vec<Charge> {
            std::iter::from_fn(|| budget.charge(&stream(), PrincipalId(principal), may_list, STREAM_BYTES)).collect()
        };
        let first = fill(40, false);
        assert_eq!(first.len() * STREAM_BYTES, PRINCIPAL_BYTES);
        let hosts: Vec<Vec<Charge>> = (100..200).map(|host| fill(host, false)).collect();
        assert_eq!(budget.bytes(), ALL_BYTES - RESERVED_BYTES, "{}", hosts.len());
        assert!(!fill(2, true).is_empty(), "an operator has room left");
        drop((first, hosts));
        assert_eq!(budget.bytes(), 0);
        assert!(budget.principals.lock().is_empty(), "nothing is kept of who has nothing");
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
        assert_eq!(budget.unauthenticated.lock().open.keys().copied().collect::<Vec<_>>(), [3, 4, 5]);
        drop(guests);
        assert!(budget.unauthenticated.lock().open.is_empty());
    }

    #[test]
    fn limits_follow_the_descriptors() {
        assert_eq!(StreamLimits::within(16_384), StreamLimits { unauthenticated: 1024, hosts: 4096, reserved: 512 });
        let few = StreamLimits::within(1024);
        assert!(few.unauthenticated + few.hosts + few.reserved <= 1024 - OTHER_DESCRIPTORS && few.reserved > 50, "{few:?}");
        assert!(StreamLimits::within(0).reserved > 0);
    }
}
