//! Output ports: a FIFO queue before each directed link.
//!
//! A FIFO link knows when it will be free, and so when a packet that arrives now will have left: no event is needed for the queue.
//!
//! ```text
//!   arrives at t        backlog = free - t, as time to send it        leaves at max(t, free) + sending time, arrives after the delay
//! ```
//! A packet is dropped if the bytes that have not left yet and its own exceed the queue; it is marked if those before it exceed the
//! marking threshold. Both are compared as times, which is the same on one link.
//!
//! Packets of one length that come as fast as they leave find the queue of a port with the same room each time. If that is just too little
//! for one more, packets of other flows between them are dropped for as long as they come: a lock-out that no real switch has, whose buffers fill
//! by cells and whose clocks drift. So a queue that dithers lets in what does not fit whole, with the probability of the part that fits.
//!
//! A NIC applies back-pressure to its host, as Linux does (byte queue limits below a fair queue): while it holds its `room`, flows keep
//! their segments, and take turns as it drains. Nothing that a host itself sends is dropped there; what a server forwards may be.

use std::collections::VecDeque;

use rustc_hash::FxHashMap;
use weft_fabric::rng::mix;
use weft_fabric::{BitsPerSec, Bytes, Duration, Fabric, LinkId};

use super::buffers::{Buffers, share_of};
use super::tcp::NEVER;

/// What kinds of ports have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Class {
    /// Picoseconds a byte takes, times 2^20.
    byte_time: u64,
    /// From leaving here until the packet can leave again elsewhere.
    delay: u64,
    /// Time to send a full queue.
    limit: u64,
    /// Time to send a queue at the marking threshold.
    mark: u64,
    /// Back-pressure: with more than this waiting, in time, flows of the host wait; [`NEVER`] if they never do.
    full: u64,
    /// When so little is left, they go on.
    low: u64,
    /// The longest that a host takes to hand over a packet.
    jitter: u64,
    dithers: bool,
    /// The switch's ports share a buffer: `limit` is 0, so that no packet passes without asking there.
    shared: bool,
    /// The longest that a packet waits and is sent.
    longest: u64,
}

/// The changing state of a port.
#[derive(Clone, Copy, Debug)]
#[repr(align(32))]
struct Port {
    /// When all that was accepted has been sent, in picoseconds.
    free: u64,
    /// Bytes accepted.
    bytes: u64,
    /// Packets that were not accepted.
    drops: u32,
    /// Packets that were accepted and did not arrive. Where they would have, that is known: maybe in another part, whose copy of this port
    /// counts them. So nothing else may depend on it.
    lost: u32,
    class: u16,
    down: bool,
    /// Flows of the host wait for their turns.
    awaited: bool,
    /// The part of the fabric that its packets go to, if it is another one.
    far: u8,
}

/// What becomes of a packet at a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// It arrives at the other end at that time.
    Arrives {
        /// In picoseconds.
        at: u64,
        /// The queue was longer than the marking threshold.
        marked: bool,
        /// The part of the fabric where it arrives; [`NEAR`] if it stays in this one.
        far: u8,
    },
    /// The queue is full, or the link is down.
    Dropped,
}

/// Queue of a kind of port, and what empties it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Queue {
    pub rate: BitsPerSec,
    /// The most that it holds.
    pub size: Bytes,
    /// Whether what it holds depends on the buffer that the switch's ports share.
    pub shared: bool,
    pub mark: Option<Bytes>,
    /// Bytes beyond which the host's flows wait instead of sending into the queue; `None`: they send, and lose what does not fit.
    pub room: Option<Bytes>,
    /// The longest that the node takes to hand over a packet of its own.
    pub jitter: Duration,
    /// Whether a packet that fits in part is accepted by chance.
    pub dithers: bool,
}

/// How large the queues of switches and shapers are, by their rates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct QueueRule {
    pub size: QueueSize,
    /// Beyond so many waiting bytes packets are marked; `None`: as `marks` says.
    pub mark: Option<Bytes>,
    /// Whether packets are marked beyond a quarter of the queue, or half of what a port adds to a shared buffer.
    pub marks: bool,
}

/// The size of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum QueueSize {
    Fixed(Bytes),
    /// The rate times a round trip, at least so much.
    BandwidthDelay(Duration, Bytes),
    /// What a port of that rate adds to a shared buffer, with packets of that size.
    Share(Bytes),
}

impl QueueRule {
    /// The size and the marking threshold of a queue that is emptied at this rate.
    pub fn queue(&self, rate: BitsPerSec) -> (Bytes, Option<Bytes>) {
        let (size, part) = match self.size {
            QueueSize::Fixed(size) => (size, 4),
            QueueSize::BandwidthDelay(round_trip, least) => (bandwidth_delay(rate, round_trip).max(least), 4),
            QueueSize::Share(packet) => (share_of(rate, packet), 2),
        };
        (size, self.mark.or(self.marks.then_some(Bytes(size.0 / part))))
    }
}

/// Bytes that a rate sends in a span.
fn bandwidth_delay(rate: BitsPerSec, span: Duration) -> Bytes {
    let bits = u128::from(rate.0) * u128::from(span.as_ps()) / 1_000_000_000_000;
    Bytes(u64::try_from(bits / 8).unwrap_or(u64::MAX))
}

/// All ports.
#[derive(Clone, Debug)]
pub(super) struct Ports {
    ports: Vec<Port>,
    classes: Vec<Class>,
    /// Of the classes that share them.
    buffers: Option<Box<Buffers>>,
    /// By NIC: who waits for a turn there.
    waiting: FxHashMap<u32, VecDeque<u32>>,
}

impl Ports {
    /// The ports of a fabric. `queue` says what the queue before a link is; every forwarding switch adds `hop_delay`.
    pub fn new(fabric: &Fabric, hop_delay: Duration, buffers: Option<Buffers>, queue: impl Fn(LinkId) -> Queue) -> Self {
        let mut classes: Vec<Class> = Vec::new();
        let ports = fabric.links().iter().enumerate().map(|(i, link)| {
            let Queue { rate, size, shared, mark, room, jitter, dithers } = queue(LinkId::from(i));
            // A packet that is handed over late must not find the queue empty.
            let low = room.map_or(0, |r| time_of(rate, r) / 2 + jitter.as_ps());
            let into_switch = fabric.as_switch(link.to).is_some();
            let class = Class {
                byte_time: byte_time(rate),
                delay: link.delay.as_ps() + if into_switch { hop_delay.as_ps() } else { 0 },
                limit: if shared { 0 } else { time_of(rate, size) },
                shared,
                longest: time_of(rate, size),
                mark: mark.map_or(u64::MAX, |m| time_of(rate, m)),
                full: room.map_or(NEVER, |r| low + time_of(rate, r) / 2),
                low,
                jitter: jitter.as_ps(),
                dithers,
            };
            let known = classes.iter().position(|c| *c == class);
            let class = known.unwrap_or_else(|| {
                classes.push(class);
                classes.len() - 1
            });
            let class = u16::try_from(class).expect("fewer than 65,536 kinds of ports");
            Port { free: 0, bytes: 0, drops: 0, lost: 0, class, down: false, awaited: false, far: NEAR }
        });
        Self { ports: ports.collect(), classes, buffers: buffers.map(Box::new), waiting: FxHashMap::default() }
    }

    /// A packet of `len` bytes wants to leave over `link` at `now`. Where a host waits for its NIC, its own packets are never dropped.
    #[inline]
    pub fn send(&mut self, link: u32, len: u16, now: u64, own: bool) -> Fate {
        let port = &mut self.ports[link as usize];
        let class = &self.classes[port.class as usize];
        let backlog = port.free.saturating_sub(now);
        let after = backlog + sending_time(class, len);
        let fits = after <= class.limit || (own && class.full != NEVER) || {
            match self.buffers.as_mut().filter(|_| class.shared && !port.down) {
                Some(buffers) => fits_in_buffer(buffers, link, port, class, [now, backlog, after]),
                None => squeezes_in(port, class, after - backlog, class.limit.saturating_sub(backlog)),
            }
        };
        if !fits || port.down {
            port.drops += 1;
            return Fate::Dropped;
        }
        port.free = now + after;
        port.bytes += u64::from(len);
        Fate::Arrives { at: port.free + class.delay, marked: backlog > class.mark, far: port.far }
    }

    /// When a host that wants to send at `now` has handed the packet over: up to its jitter later, by `draw`.
    #[inline]
    pub fn handed_over(&self, link: u32, now: u64, draw: u32) -> u64 {
        let class = &self.classes[self.ports[link as usize].class as usize];
        now + ((u128::from(draw) * u128::from(class.jitter)) >> 32) as u64
    }

    /// Whether a flow must wait for its turn at a NIC.
    #[inline]
    pub fn is_full(&self, link: u32, now: u64) -> bool {
        let port = &self.ports[link as usize];
        port.awaited || port.free.saturating_sub(now) > self.classes[port.class as usize].full
    }

    /// `who` waits for a turn at a NIC. Returns when the next turns are, if nobody waited before.
    #[cold]
    pub fn wait(&mut self, link: u32, who: u32) -> Option<u64> {
        self.waiting.entry(link).or_default().push_back(who);
        let first = !std::mem::replace(&mut self.ports[link as usize].awaited, true);
        first.then(|| self.next_turns(link))
    }

    /// Whose turn it is at a NIC, as long as it has room.
    pub fn turn(&mut self, link: u32, now: u64) -> Option<u32> {
        let port = &self.ports[link as usize];
        let has_room = port.free.saturating_sub(now) <= self.classes[port.class as usize].full;
        self.waiting.get_mut(&link).filter(|_| has_room).and_then(VecDeque::pop_front)
    }

    /// The turns have been taken. Returns when the next ones are, if somebody waits.
    pub fn end_turns(&mut self, link: u32) -> Option<u64> {
        let awaited = self.waiting.get(&link).is_some_and(|w| !w.is_empty());
        self.ports[link as usize].awaited = awaited;
        awaited.then(|| self.next_turns(link))
    }

    fn next_turns(&self, link: u32) -> u64 {
        let port = &self.ports[link as usize];
        port.free - self.classes[port.class as usize].low
    }

    pub fn set_up(&mut self, link: u32, up: bool) {
        self.ports[link as usize].down = !up;
    }

    /// Packets of this link go to another part of the fabric.
    pub fn set_far(&mut self, link: u32, part: u8) {
        self.ports[link as usize].far = part;
    }

    pub fn is_up(&self, link: u32) -> bool {
        !self.ports[link as usize].down
    }

    /// Bytes that have not left yet.
    pub fn backlog(&self, link: u32, now: u64) -> u64 {
        let port = &self.ports[link as usize];
        let ps = u128::from(port.free.saturating_sub(now));
        ((ps << FRACTION) / u128::from(self.classes[port.class as usize].byte_time)) as u64
    }

    /// When all that was accepted has left.
    pub fn free_at(&self, link: u32) -> u64 {
        self.ports[link as usize].free
    }

    pub fn bytes(&self, link: u32) -> u64 {
        self.ports[link as usize].bytes
    }

    /// A packet was lost on a link that failed.
    pub fn lose(&mut self, link: u32) {
        self.ports[link as usize].lost += 1;
    }

    /// Packets that were not accepted, or were lost on the way.
    pub fn drops(&self, link: u32) -> u32 {
        let port = &self.ports[link as usize];
        port.drops + port.lost
    }

    /// The least time from a packet's arrival at a switch to its arrival at the next node.
    pub fn look_ahead(&self, least_len: u16) -> u64 {
        self.classes.iter().map(|c| c.delay + sending_time(c, least_len)).min().unwrap_or(0)
    }

    /// The longest time from a packet's arrival to its arrival at the next node.
    pub fn longest_stay(&self) -> u64 {
        self.classes.iter().map(|c| c.longest + c.delay).max().unwrap_or(0)
    }

    #[inline]
    pub fn as_ptr(&self, link: u32) -> *const u8 {
        self.ports.as_ptr().wrapping_add(link as usize).cast()
    }
}

/// The part that a port itself belongs to.
pub(super) const NEAR: u8 = u8::MAX;
/// Fractional bits of a byte's time.
pub(super) const FRACTION: u32 = 20;

/// Whether a packet that does not fit whole is accepted: by a draw from what came before, so that a run repeats.
#[cold]
fn squeezes_in(port: &Port, class: &Class, own: impl Into<u128>, room: impl Into<u128>) -> bool {
    let draw = mix(port.free ^ mix(port.bytes ^ u64::from(port.drops) << 40)) >> 32;
    class.dithers && (u128::from(draw) * own.into()) >> 32 < room.into()
}

/// Whether a packet that has been sent `after` picoseconds from `now` finds room in the buffer of its switch, which then has it.
#[inline(never)]
fn fits_in_buffer(buffers: &mut Buffers, link: u32, port: &Port, class: &Class, [now, backlog, after]: [u64; 3]) -> bool {
    let (own, room) = (buffers.need(link, after - backlog), buffers.room(link, now, backlog));
    let fits = own <= room || squeezes_in(port, class, own, room);
    if fits {
        buffers.accept(link, now + after);
    }
    fits
}

#[inline]
fn sending_time(class: &Class, len: u16) -> u64 {
    ((u64::from(len) * class.byte_time) >> FRACTION).max(1)
}

/// 8 bits at 1 bps are 8e12 ps, 63 bits with the fraction: it holds, and 65,535 times that of 1 kbps and faster holds too.
pub(super) fn byte_time(rate: BitsPerSec) -> u64 {
    let ps = ((8_000_000_000_000u128 << FRACTION) + u128::from(rate.0) / 2) / u128::from(rate.0);
    u64::try_from(ps).unwrap_or(u64::MAX).clamp(1, u64::MAX >> 16)
}

pub(super) fn time_of(rate: BitsPerSec, bytes: Bytes) -> u64 {
    let ps = (u128::from(bytes.0) * u128::from(byte_time(rate))) >> FRACTION;
    u64::try_from(ps).unwrap_or(u64::MAX).min(u64::MAX >> 8)
}
