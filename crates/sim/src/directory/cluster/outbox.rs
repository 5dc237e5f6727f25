//! What a server holds of a stream, as the daemon does: replies that wait for the other end, within the budget of
//! [`weft_control::directory::budget`]; and requests that are not read yet.
//!
//! ```text
//!   requests --> unread --(less than HIGH_WATER held, the one before answered)--> the machines
//!                                                                                     |
//!   operator <--reads-- buffers of both kernels <--batch, within 5 s-- held <--later <--'
//! ```

use std::collections::VecDeque;

use weft_control::directory::PrincipalId;
use weft_control::directory::budget::Usage;
use weft_control::directory::request::StreamId;
use weft_control::wire::directory::TAG;
use weft_fabric::{Duration, Instant};

use super::{Cluster, Defect, Event};

/// How an operator reads a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reading {
    /// At once.
    #[default]
    Prompt,
    /// So many bytes per second.
    Slow(u64),
    /// Not at all.
    Stopped,
}

/// The server's side of a stream.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    /// Messages that have their place in the budget, oldest first.
    held: VecDeque<Vec<u8>>,
    /// Bytes of these.
    bytes: usize,
    /// Those of them that are being written: how many, and which batch it is.
    batch: usize,
    batches: u64,
    /// The last batch that has a timer.
    timed: u64,
    /// Parts of an answer that have no place in the budget until less is held.
    later: VecDeque<Vec<u8>>,
    /// Requests that were not read yet.
    unread: VecDeque<Vec<u8>>,
    /// Whether the answer to one about documents or tenants' records is due.
    is_busy: bool,
    /// Whether the server is reading requests at this moment.
    is_reading: bool,
    /// Bytes that both kernels hold.
    buffered: usize,
    pub(super) reading: Reading,
    /// Messages that have arrived and that the operator has not read.
    arrived: VecDeque<Vec<u8>>,
    /// When the operator has read the last one.
    read_until: Instant,
}

impl Outbox {
    /// Bytes of all messages that the server has in memory, counted by themselves.
    pub(super) fn in_memory(&self) -> usize {
        self.held.iter().map(|message| message.len() + TAG).sum()
    }

    /// Gives back its place in the budget.
    pub(super) fn end(&mut self, usage: &mut Usage, principal: PrincipalId) {
        usage.release(principal, std::mem::take(&mut self.bytes));
        self.held.clear();
    }
}

impl Cluster {
    /// How the operator reads a stream from now on.
    pub fn set_reading(&mut self, stream: StreamId, reading: Reading) {
        let Some(open) = self.streams.get_mut(&stream) else { return };
        open.outbox.reading = reading;
        if reading == Reading::Prompt {
            self.read_next(stream);
        }
    }

    /// Bytes that a server's streams have of its budget, and bytes of the messages that it holds for them.
    pub fn stream_bytes(&self, server: u16) -> (usize, usize) {
        let of_server = self.streams.values().filter(|open| open.server == server);
        (self.servers[usize::from(server)].usage.bytes(), of_server.map(|open| open.outbox.in_memory()).sum())
    }

    /// Bytes that a server holds for a stream; `None`: it has ended.
    pub fn bytes_of_stream(&self, stream: StreamId) -> Option<usize> {
        self.streams.get(&stream).map(|open| open.outbox.in_memory())
    }

    /// Whether a server has nothing of its streams, as if there had been none.
    pub fn is_budget_idle(&self, server: u16) -> bool {
        self.servers[usize::from(server)].usage.is_idle()
    }

    /// Streams that servers ended since their other end did not read.
    pub const fn slow_streams(&self) -> u64 {
        self.slow_streams
    }

    /// A server sends a message; a stream without room for it is ended.
    pub(super) fn reply(&mut self, stream: StreamId, message: Vec<u8>) {
        let has_no_limit = self.defect == Some(Defect::NoLimit);
        let Some(open) = self.streams.get_mut(&stream) else { return };
        let usage = &mut self.servers[usize::from(open.server)].usage;
        let bytes = message.len() + TAG;
        let is_charged = usage.charge(open.outbox.bytes, open.principal, open.may_list, bytes);
        if (!is_charged || open.outbox.held.len() >= QUEUE) && !has_no_limit {
            if is_charged {
                usage.release(open.principal, bytes);
            }
            self.slow_streams += 1;
            return self.break_stream(stream);
        }
        open.outbox.bytes += if is_charged { bytes } else { 0 };
        open.outbox.held.push_back(message);
        self.write(stream);
    }

    /// A server answers a request about documents or tenants' records in one or more messages, and reads the next.
    pub(super) fn reply_stored(&mut self, stream: StreamId, messages: Vec<Vec<u8>>) {
        let Some(open) = self.streams.get_mut(&stream) else { return };
        open.outbox.later.extend(messages);
        open.outbox.is_busy = false;
        self.read_requests(stream);
    }

    /// A request has arrived.
    pub(super) fn receive_request(&mut self, stream: StreamId, message: Vec<u8>) {
        let Some(open) = self.streams.get_mut(&stream) else { return };
        open.outbox.unread.push_back(message);
        self.read_requests(stream);
    }

    /// Nothing more is read of a stream until what was asked is answered.
    pub(super) fn set_busy(&mut self, stream: StreamId) {
        if let Some(open) = self.streams.get_mut(&stream) {
            open.outbox.is_busy = true;
        }
    }

    /// Sends what is left of answers and reads requests, while the other end takes what it asked for.
    fn read_requests(&mut self, stream: StreamId) {
        let Some(open) = self.streams.get_mut(&stream) else { return };
        // What is sent may make room for more: the outer call goes on.
        if std::mem::replace(&mut open.outbox.is_reading, true) {
            return;
        }
        while let Some(open) = self.streams.get_mut(&stream) {
            let outbox = &mut open.outbox;
            let has_room = outbox.bytes <= HIGH_WATER;
            if has_room && let Some(message) = outbox.later.pop_front() {
                self.reply(stream, message);
            } else if has_room
                && !outbox.is_busy
                && let Some(request) = outbox.unread.pop_front()
            {
                self.take_request(stream, &request);
            } else {
                outbox.is_reading = false;
                return;
            }
        }
    }

    /// Writes what the kernels have room for, batch by batch.
    fn write(&mut self, stream: StreamId) {
        while let Some(open) = self.streams.get_mut(&stream) {
            let outbox = &mut open.outbox;
            if outbox.batch == 0 && !outbox.begin_batch() {
                break;
            }
            let next = outbox.held.front().map_or(0, |message| message.len() + TAG);
            if outbox.buffered > 0 && outbox.buffered + next > BUFFERS {
                break;
            }
            let Some(message) = outbox.held.pop_front() else { break };
            outbox.batch -= 1;
            outbox.buffered += next;
            let charged = next.min(outbox.bytes);
            outbox.bytes -= charged;
            self.servers[usize::from(open.server)].usage.release(open.principal, charged);
            let at = (self.now + self.network.latency()).max(open.last[1]);
            open.last[1] = at;
            self.schedule(at, Event::StreamReply { stream, message });
        }
        let Some(open) = self.streams.get_mut(&stream) else { return };
        let outbox = &mut open.outbox;
        if outbox.batch > 0 && outbox.timed < outbox.batches {
            outbox.timed = outbox.batches;
            let batch = outbox.batches;
            self.schedule(self.now + WRITE_TIMEOUT, Event::WriteTimeout { stream, batch });
        }
        self.read_requests(stream);
    }

    /// The time for a batch has ended: a stream whose other end has not taken it is ended.
    pub(super) fn write_timeout(&mut self, stream: StreamId, batch: u64) {
        let Some(open) = self.streams.get(&stream) else { return };
        if open.outbox.batch > 0 && open.outbox.batches == batch && self.defect != Some(Defect::NoLimit) {
            self.slow_streams += 1;
            self.break_stream(stream);
        }
    }

    /// A message has arrived at the operator.
    pub(super) fn message_arrived(&mut self, stream: StreamId, message: Vec<u8>) {
        let Some(open) = self.streams.get_mut(&stream) else { return };
        open.outbox.arrived.push_back(message);
        self.read_next(stream);
    }

    /// The operator reads what it has time for.
    pub(super) fn read_next(&mut self, stream: StreamId) {
        let now = self.now;
        while let Some(open) = self.streams.get_mut(&stream) {
            let outbox = &mut open.outbox;
            let Some(next) = outbox.arrived.front().map(|message| message.len() + TAG) else { return };
            match outbox.reading {
                Reading::Stopped => return,
                Reading::Slow(_) if outbox.read_until > now => return,
                Reading::Slow(rate) => {
                    outbox.read_until = now + Duration::from_ns(next as u64 * 1_000_000_000 / rate.max(1));
                    let at = outbox.read_until;
                    self.schedule(at, Event::StreamRead(stream));
                }
                Reading::Prompt => {}
            }
            let Some(open) = self.streams.get_mut(&stream) else { return };
            let Some(message) = open.outbox.arrived.pop_front() else { return };
            open.outbox.buffered -= next;
            self.receive_reply(stream, &message);
            self.write(stream);
        }
    }
}

impl Outbox {
    /// Takes as many messages as a batch has; false if there are none.
    fn begin_batch(&mut self) -> bool {
        let mut bytes = 0;
        for message in &self.held {
            self.batch += 1;
            bytes += message.len() + TAG;
            if bytes >= HIGH_WATER {
                break;
            }
        }
        self.batches += u64::from(self.batch > 0);
        self.batch > 0
    }
}

/// The daemon's (`crates/directory/src/server/streams.rs`): messages that wait, bytes of them while it reads nothing more and in a batch, and the time for one.
const QUEUE: usize = 1024;
const HIGH_WATER: usize = 64 << 10;
const WRITE_TIMEOUT: Duration = Duration::from_secs(5);
/// Bytes that the kernels of both ends hold of a stream.
const BUFFERS: usize = 192 << 10;
