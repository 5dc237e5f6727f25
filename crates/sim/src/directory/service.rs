//! What a request costs a directory server: one thread answers lookups, another takes updates; each has a queue with an end.

use std::collections::VecDeque;
use std::net::SocketAddr;

use weft_fabric::Duration;

/// The cost of requests. Everything else costs nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServiceTimes {
    /// Of a lookup.
    pub lookup: Duration,
    /// Of an update.
    pub update: Duration,
    /// At most so many datagrams wait for each of the two threads; more are lost.
    pub queue: usize,
}

impl ServiceTimes {
    /// Nothing costs anything.
    pub const FREE: Self = Self { lookup: Duration::ZERO, update: Duration::ZERO, queue: usize::MAX };
}

/// A server's two threads.
#[derive(Debug)]
pub(super) struct Lanes {
    times: ServiceTimes,
    lanes: [Lane; 2],
}

#[derive(Debug, Default)]
struct Lane {
    /// The first is being worked on.
    queue: VecDeque<(SocketAddr, Vec<u8>)>,
}

impl Lanes {
    pub fn new(times: ServiceTimes) -> Self {
        Self { times, lanes: Default::default() }
    }

    /// A datagram comes: if its thread is idle, which one it is and what the work takes.
    pub fn arrive(&mut self, from: SocketAddr, bytes: Vec<u8>) -> Option<(usize, Duration)> {
        let lane = usize::from(bytes.get(3) == Some(&UPDATE));
        let queue = &mut self.lanes[lane].queue;
        if queue.len() > self.times.queue {
            return None;
        }
        queue.push_back((from, bytes));
        (queue.len() == 1).then(|| (lane, self.work(lane)))
    }

    /// The work on the first datagram is done: here it is.
    pub fn take(&mut self, lane: usize) -> Option<(SocketAddr, Vec<u8>)> {
        self.lanes[lane].queue.pop_front()
    }

    /// What the work on the next one takes.
    pub fn next(&self, lane: usize) -> Option<Duration> {
        (!self.lanes[lane].queue.is_empty()).then(|| self.work(lane))
    }

    pub fn clear(&mut self) {
        self.lanes = Default::default();
    }

    fn work(&self, lane: usize) -> Duration {
        match self.lanes[lane].queue.front().and_then(|(_, bytes)| bytes.get(3)) {
            Some(&LOOK_UP) => self.times.lookup,
            Some(&UPDATE) => self.times.update,
            _ => Duration::ZERO,
        }
    }
}

const LOOK_UP: u8 = 0x01;
const UPDATE: u8 = 0x02;
