//! Updates: many under way at once, each sent again until its fate is known, and every fate noted.
//!
//! ```text
//!   socket w (principal 100 + w)  --update i, i + WRITERS, ...-->  server   acknowledged: latency, truth
//!                                   same number again after 2 s, to the next server
//! ```

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use weft_control::directory::auth::Secret;
use weft_control::directory::{Generation, PrincipalId};
use weft_control::wire::directory::{Acknowledgement, Kind, Message, Outcome, Update};

use super::error::BenchError;
use super::lookups::new_histogram;
use super::socket::{BATCH, Lane};
use super::truth::{self, FIRST_WRITER, Truth, WRITERS};
use crate::client::Session;

/// Updates to make.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// Mappings an update.
    pub ops: usize,
    /// Updates under way at most.
    pub window: usize,
    /// So many a second; `None`: as fast as the window lets them.
    pub rate: Option<f64>,
    /// The first so many mappings are written.
    pub mappings: usize,
    /// For how long; `None`: until every mapping was written once.
    pub duration: Option<Duration>,
}

/// What became of them.
#[derive(Clone, Debug)]
pub struct Written {
    /// Mappings in acknowledged updates.
    pub committed: u64,
    /// Acknowledged updates.
    pub updates: u64,
    /// Copies sent because nothing was heard, or the server could not take it.
    pub again: u64,
    /// Refused, in conflict, or of unknown fate: there should be none.
    pub wrong: u64,
    /// From the first update to the last acknowledgement.
    pub elapsed: Duration,
    /// From when it was due to its acknowledgement, in ns.
    pub latency: Histogram<u64>,
    /// The longest time in which nothing was acknowledged.
    pub longest_gap: Duration,
}

/// An update under way.
struct Pending {
    first: usize,
    count: usize,
    locator: u32,
    known: Generation,
    due: u64,
    sent: u64,
}

struct Writer {
    /// What is received into.
    buffer: Vec<u8>,
    /// One a server.
    lanes: Vec<(Lane, Session)>,
    turn: usize,
    pending: BTreeMap<u64, Pending>,
    number: u64,
}

/// Makes updates of the truth's mappings, in order and again from the first, until it is enough.
pub fn run(servers: &[SocketAddr], secret: &Secret, truth: &mut Truth, load: Load) -> Result<Written, BenchError> {
    let mut run = Run::new(servers, secret, truth.newest(), load)?;
    let begin = Instant::now();
    loop {
        let now = begin.elapsed().as_nanos() as u64;
        let before = (run.submitted, run.under_way);
        run.receive(now, truth);
        run.repeat(now);
        if run.enough(now) {
            if run.under_way == 0 {
                break;
            }
        } else {
            run.submit(now);
        }
        if (run.submitted, run.under_way) == before {
            // Servers and their store may want this core.
            std::thread::sleep(IDLE);
        }
        if now > run.last_ack + GIVE_UP_NS {
            return Err(BenchError::Server(format!(
                "nothing was acknowledged for 20 s, {} updates are under way",
                run.under_way
            )));
        }
    }
    run.written.elapsed = Duration::from_nanos(run.last_ack.max(1));
    Ok(run.written)
}

struct Run {
    writers: Vec<Writer>,
    load: Load,
    /// The next mapping.
    next: usize,
    /// How often all were written before.
    round: u32,
    submitted: u64,
    under_way: usize,
    known: Generation,
    last_ack: u64,
    last_repeat: u64,
    written: Written,
}

impl Run {
    fn new(servers: &[SocketAddr], secret: &Secret, known: Generation, load: Load) -> Result<Self, BenchError> {
        let mut writers = Vec::new();
        for at in 0..WRITERS {
            let principal = PrincipalId(FIRST_WRITER + at);
            let key = secret.key_of(principal);
            let lane = |server: &SocketAddr| Ok((Lane::new(*server)?, Session::new(principal, Some(&key))));
            let lanes = servers.iter().map(lane).collect::<std::io::Result<Vec<_>>>();
            let lanes = lanes.map_err(|e| BenchError::Io(format!("no socket: {e}")))?;
            let number = u64::from_be_bytes(crate::client::random());
            writers.push(Writer {
                buffer: vec![0; BATCH * SLOT],
                lanes,
                turn: at as usize % servers.len(),
                pending: BTreeMap::new(),
                number,
            });
        }
        let written = Written {
            committed: 0,
            updates: 0,
            again: 0,
            wrong: 0,
            elapsed: Duration::ZERO,
            latency: new_histogram(),
            longest_gap: Duration::ZERO,
        };
        let (next, round, submitted, under_way) = (0, 0, 0, 0);
        Ok(Self { writers, load, next, round, submitted, under_way, known, last_ack: 0, last_repeat: 0, written })
    }

    fn enough(&self, now: u64) -> bool {
        match self.load.duration {
            Some(duration) => now >= duration.as_nanos() as u64,
            None => self.round > 0,
        }
    }

    /// Lets go what is due and has room.
    fn submit(&mut self, now: u64) {
        // The first acknowledgement shows which revision is known: until then only one update is under way.
        let window = if self.known.0 == 0 { 1 } else { self.load.window };
        while self.under_way < window && !self.enough(now) {
            let due = match self.load.rate {
                Some(rate) => (self.submitted as f64 / rate * 1e9) as u64,
                None => now,
            };
            if due > now {
                return;
            }
            let count = self.load.ops.min(self.load.mappings - self.next);
            let pending = Pending {
                first: self.next,
                count,
                locator: self.round * 7 + self.next as u32 % 997,
                known: self.known,
                due,
                sent: now,
            };
            self.next += count;
            if self.next == self.load.mappings {
                (self.next, self.round) = (0, self.round + 1);
            }
            let writer = &mut self.writers[self.submitted as usize % WRITERS as usize];
            self.submitted += 1;
            self.under_way += 1;
            writer.number = writer.number.wrapping_add(1);
            let number = writer.number;
            writer.send(number, &pending);
            writer.pending.insert(number, pending);
        }
    }

    fn receive(&mut self, now: u64, truth: &mut Truth) {
        for writer in 0..self.writers.len() {
            for lane in 0..self.writers[writer].lanes.len() {
                for ack in self.writers[writer].hear(lane, now) {
                    self.acknowledged(writer, &ack, now, truth);
                }
            }
        }
    }

    fn acknowledged(&mut self, writer: usize, ack: &Acknowledgement, now: u64, truth: &mut Truth) {
        // A server that cannot take it now: the next copy goes out after a pause.
        if ack.outcome == Outcome::Elsewhere {
            return;
        }
        let Some(pending) = self.writers[writer].pending.remove(&ack.number) else { return };
        self.under_way -= 1;
        let written = &mut self.written;
        if ack.outcome != Outcome::Committed {
            written.wrong += 1;
            return;
        }
        for mapping in pending.first..pending.first + pending.count {
            truth.committed(mapping, pending.locator, ack.generation);
        }
        self.known = self.known.max(ack.generation);
        written.committed += pending.count as u64;
        written.updates += 1;
        written.latency.saturating_record(now.saturating_sub(pending.due).max(1));
        written.longest_gap = written.longest_gap.max(Duration::from_nanos(now - self.last_ack));
        self.last_ack = now;
    }

    /// Sends again what has waited for long, to the next server.
    fn repeat(&mut self, now: u64) {
        if now < self.last_repeat + REPEAT_NS / 8 {
            return;
        }
        self.last_repeat = now;
        for writer in &mut self.writers {
            let late: Vec<u64> =
                writer.pending.iter().filter(|(_, it)| now > it.sent + REPEAT_NS).map(|(&number, _)| number).collect();
            if !late.is_empty() {
                writer.turn += 1;
            }
            self.written.again += late.len() as u64;
            late.into_iter().for_each(|number| writer.resend(number, now));
        }
    }
}

impl Writer {
    /// What came from one server. A challenge lets all that is under way go again.
    fn hear(&mut self, at: usize, now: u64) -> Vec<Acknowledgement> {
        let mut lengths = [0; BATCH];
        let (lane, session) = &mut self.lanes[at];
        let count = lane.receive(&mut self.buffer, SLOT, &mut lengths);
        let (mut challenged, mut acks) = (false, Vec::with_capacity(count));
        for (slot, &length) in self.buffer.chunks_exact(SLOT).zip(&lengths[..count]) {
            let Some(frame) = session.open(&slot[..usize::from(length)]) else { continue };
            challenged |= frame.header.kind == Kind::Challenge;
            if let Ok(Message::Acknowledgement(ack)) = Message::parse(frame.header.kind, frame.body) {
                acks.push(ack);
            }
        }
        if challenged {
            self.turn = at;
            let numbers: Vec<u64> = self.pending.keys().copied().collect();
            numbers.into_iter().for_each(|number| self.resend(number, now));
        }
        acks
    }

    fn resend(&mut self, number: u64, now: u64) {
        if let Some(mut pending) = self.pending.remove(&number) {
            pending.sent = now;
            self.send(number, &pending);
            self.pending.insert(number, pending);
        }
    }

    fn send(&mut self, number: u64, pending: &Pending) {
        let ops = (pending.first..pending.first + pending.count).map(|at| truth::put(at, pending.locator)).collect();
        let message = Message::Update(Update { number, known: pending.known, ops });
        let at = self.turn % self.lanes.len();
        let (lane, session) = &mut self.lanes[at];
        let mut out = Vec::with_capacity(1400);
        session.seal(Kind::Update, |out| message.emit(out), &mut out);
        lane.send(std::iter::once(out.as_slice()));
    }
}

/// Bytes of an acknowledgement, and more.
const SLOT: usize = 128;
/// How long an update waits for its acknowledgement before it is sent again: the protocol's 2 s, less so that a dead server shows sooner.
const REPEAT_NS: u64 = 500_000_000;
/// Between two looks at what came, when nothing had come.
const IDLE: Duration = Duration::from_micros(100);
/// A run in which nothing is acknowledged for so long has failed.
const GIVE_UP_NS: u64 = 20_000_000_000;
