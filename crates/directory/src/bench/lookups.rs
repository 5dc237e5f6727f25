//! `lookups`: one thread, some sockets, requests that were signed before the clock starts and answers that are checked after it stops.
//!
//! ```text
//!   sign n requests a lane --> send/receive for the duration --> check every answer: tag, number, findings, generations
//!
//!   closed loop: `window` requests under way; an answer lets the next go.   latency from when it was sent
//!   open loop:   requests are due at random times, whatever comes back.     latency from when it was due
//! ```

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use rand::RngExt;
use weft_control::directory::auth::{Secret, Tagger};
use weft_control::directory::{Generation, Key};
use weft_control::wire::directory::{Frame, HEADER, Header, Kind, Lookup, Message, TAG};
use weft_fabric::rng::Pcg64;

use super::socket::{BATCH, Lane};
use super::truth::{self, HOSTS, Truth};
use crate::client::{ClientError, Session};
use crate::server::packets::{Incoming, Outgoing};

/// How requests are let go.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pace {
    /// So many under way at any time.
    Closed(usize),
    /// So many a second on average, at exponential intervals.
    Open(f64),
}

/// A measurement to make.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Keys a datagram.
    pub keys: usize,
    /// How requests are let go.
    pub pace: Pace,
    /// For how long.
    pub duration: Duration,
    /// Requests at most.
    pub requests: usize,
}

/// What was measured.
#[derive(Clone, Debug)]
pub struct Measured {
    /// Requests that were sent.
    pub sent: usize,
    /// Answers to them.
    pub answered: usize,
    /// Answers that were wrong: another tag, a request twice, anything but the truth.
    pub wrong: usize,
    /// From the first request to the last answer.
    pub elapsed: Duration,
    /// Nanoseconds.
    pub latency: Histogram<u64>,
    /// Open loop: how late the requests left this program, in nanoseconds. The latencies contain it.
    pub late: Histogram<u64>,
}

/// A socket of one host, its requests and the answers to them.
struct Flow {
    lane: Lane,
    server: SocketAddr,
    outgoing: Outgoing,
    host: u32,
    tagger: Tagger,
    /// The number of the first request; the others follow.
    base: u64,
    /// Requests, each of `size` bytes.
    requests: Vec<u8>,
    size: usize,
    /// The mappings that are asked for, `keys` a request.
    asked: Vec<u32>,
    next: usize,
    /// When each request was due or sent, in ns since the start.
    due: Vec<u64>,
    under_way: usize,
    /// Answers, each in a slot of so many bytes; their lengths and times.
    answers: Vec<u8>,
    slot: usize,
    received: Vec<(u16, u64)>,
    heard: u64,
}

/// Measures one server.
pub fn run(server: SocketAddr, secret: &Secret, truth: &Truth, plan: Plan, seed: u64) -> Result<Measured, ClientError> {
    let mut rng = Pcg64::new(u128::from(seed), 0x10);
    let each = plan.requests.div_ceil(FLOWS);
    let mut flows = Vec::with_capacity(FLOWS);
    for at in 0..FLOWS {
        let host = (at as u32 * 7 + 3) % HOSTS;
        flows.push(Flow::new(server, secret, host, truth, plan.keys, each, &mut rng)?);
    }
    let mut incoming = Incoming::new();
    let mut late = new_histogram();
    let begin = Instant::now();
    let end = match plan.pace {
        Pace::Closed(window) => closed(&mut flows, &mut incoming, plan.duration, (window / FLOWS).max(1), begin),
        Pace::Open(rate) => open(&mut flows, &mut incoming, plan.duration, rate, begin, (&mut rng, &mut late)),
    };
    let mut measured = Measured { sent: 0, answered: 0, wrong: 0, elapsed: end, latency: new_histogram(), late };
    for flow in &flows {
        flow.check(truth, plan.keys, &mut measured);
    }
    Ok(measured)
}

fn closed(flows: &mut [Flow], incoming: &mut Incoming, duration: Duration, window: usize, begin: Instant) -> Duration {
    let mut last = Duration::ZERO;
    let mut ending = false;
    loop {
        let mut under_way = 0;
        for flow in flows.iter_mut() {
            let now = begin.elapsed();
            ending |= now >= duration || flow.next == flow.due.len();
            if flow.receive(incoming, now.as_nanos() as u64) > 0 {
                last = now;
            }
            if !ending {
                flow.send((window - flow.under_way.min(window)).min(flow.due.len() - flow.next), |_| now.as_nanos() as u64);
            }
            under_way += flow.under_way;
        }
        if ending && (under_way == 0 || begin.elapsed() > duration + LINGER) {
            return last.max(Duration::from_nanos(1));
        }
    }
}

fn open(
    flows: &mut [Flow],
    incoming: &mut Incoming,
    duration: Duration,
    rate: f64,
    begin: Instant,
    (rng, late): (&mut Pcg64, &mut Histogram<u64>),
) -> Duration {
    let mut last = Duration::ZERO;
    let (mut at, mut ending) = (0, false);
    let interval = |rng: &mut Pcg64| (-(1.0 - rng.random::<f64>()).ln() / rate * 1e9) as u64;
    let mut next_due = interval(rng);
    loop {
        let now = begin.elapsed();
        ending |= now >= duration;
        // All that is due goes out, a batch to each flow in turn.
        while !ending && next_due <= now.as_nanos() as u64 {
            let flow = &mut flows[at % FLOWS];
            at += 1;
            let room = BATCH_DUE.min(flow.due.len() - flow.next);
            if room == 0 {
                ending = true;
                break;
            }
            let mut times = [0; BATCH_DUE];
            let mut count = 0;
            while count < room && next_due <= now.as_nanos() as u64 {
                times[count] = next_due;
                count += 1;
                next_due += interval(rng);
            }
            flow.send(count, |at| times[at]);
            late.saturating_record_n((begin.elapsed().as_nanos() as u64).saturating_sub(times[0]).max(1), count as u64);
        }
        let mut under_way = 0;
        for flow in flows.iter_mut() {
            let now = begin.elapsed();
            if flow.receive(incoming, now.as_nanos() as u64) > 0 {
                last = now;
            }
            under_way += flow.under_way;
        }
        if ending && (under_way == 0 || begin.elapsed() > duration + LINGER) {
            return last.max(Duration::from_nanos(1));
        }
    }
}

impl Flow {
    fn new(
        server: SocketAddr,
        secret: &Secret,
        host: u32,
        truth: &Truth,
        keys: usize,
        requests: usize,
        rng: &mut Pcg64,
    ) -> Result<Self, ClientError> {
        let principal = truth::principal(host);
        let key = secret.key_of(principal);
        let mut session = Session::new(principal, Some(&key));
        let lane = Lane::with_rows(server)?;
        let cookie = cookie(&lane, &mut session)?;
        let (base, tagger) = (session.request() + 1, key.tagger());
        let asker = truth::asker(host);
        let mut flow = Self {
            lane,
            server,
            outgoing: Outgoing::new(true),
            host,
            base,
            requests: Vec::new(),
            size: 0,
            asked: Vec::with_capacity(requests * keys),
            next: 0,
            due: vec![0; requests],
            under_way: 0,
            answers: vec![1; (requests + SPARE) * slot(keys)],
            slot: slot(keys),
            received: Vec::with_capacity(requests + SPARE),
            heard: 0,
            tagger,
        };
        let mut asked: Vec<Key> = Vec::with_capacity(keys);
        for at in 0..requests {
            asked.clear();
            for _ in 0..keys {
                let mapping = pick(host, truth.len(), rng);
                flow.asked.push(mapping as u32);
                asked.push(truth::key(mapping));
            }
            let start = flow.requests.len();
            Header { kind: Kind::Lookup, principal, cookie, request: base + at as u64 }.emit(&mut flow.requests);
            Lookup::emit(Generation(0), Some(&asker), &asked, &mut flow.requests);
            flow.tagger.seal(&mut flow.requests, start);
            flow.size = flow.requests.len() - start;
        }
        Ok(flow)
    }

    /// Sends the next `count` requests, of one host and one size, as rows (UDP_SEGMENT); `due` gives the time of each. What the kernel does not
    /// take is lost, as it would be on a wire.
    fn send(&mut self, count: usize, due: impl Fn(usize) -> u64) {
        let from = self.next * self.size;
        for request in self.requests[from..from + count * self.size].chunks_exact(self.size) {
            self.outgoing.push(self.server, request);
        }
        self.outgoing.flush(self.lane.fd());
        for at in 0..count {
            self.due[self.next + at] = due(at);
        }
        self.under_way += count;
        self.next += count;
    }

    fn receive(&mut self, incoming: &mut Incoming, now: u64) -> usize {
        if self.under_way == 0 {
            return 0;
        }
        let mut datagrams = Vec::with_capacity(BATCH);
        if incoming.receive(self.lane.fd()).is_ok() {
            incoming.datagrams(&mut datagrams);
        }
        let count = datagrams.len();
        for (_, bytes) in datagrams {
            let from = self.received.len() * self.slot;
            // One that is longer than any answer should be, or more than were asked for, is kept as an empty one: it is wrong.
            match self.answers.get_mut(from..from + bytes.len()).filter(|_| bytes.len() <= self.slot) {
                Some(room) => {
                    room.copy_from_slice(bytes);
                    self.received.push((bytes.len() as u16, now));
                }
                None => self.received.push((0, now)),
            }
        }
        self.under_way = self.under_way.saturating_sub(count);
        if count > 0 {
            self.heard = now;
        } else if now.saturating_sub(self.heard.max(self.due[self.next - 1])) > LOST_NS {
            self.under_way = 0; // they are lost; the answers are counted, not what is under way
        }
        count
    }

    fn check(&self, truth: &Truth, keys: usize, measured: &mut Measured) {
        measured.sent += self.next;
        let slot = self.slot;
        let mut seen = vec![false; self.next];
        for (at, &(length, when)) in self.received.iter().enumerate() {
            let bytes = self.answers.get(at * slot..at * slot + usize::from(length)).unwrap_or_default();
            match self.check_one(bytes, truth, keys, &seen) {
                Some(request) => {
                    seen[request] = true;
                    measured.answered += 1;
                    measured.latency.saturating_record(when.saturating_sub(self.due[request]).max(1));
                }
                None => measured.wrong += 1,
            }
        }
    }

    /// The request that this answers, if all of it is right.
    fn check_one(&self, bytes: &[u8], truth: &Truth, keys: usize, seen: &[bool]) -> Option<usize> {
        let frame = Frame::parse(bytes).ok()?;
        if !self.tagger.verify(frame.covered, frame.tag) || frame.header.principal != truth::principal(self.host) {
            return None;
        }
        let request = usize::try_from(frame.header.request.checked_sub(self.base)?).ok()?;
        let Ok(Message::Answer(answer)) = Message::parse(frame.header.kind, frame.body) else { return None };
        let asked = self.asked.get(request * keys..(request + 1) * keys)?;
        let right = answer
            .results()
            .zip(asked)
            .all(|((generation, finding), &mapping)| truth.is_right(self.host, mapping as usize, generation, &finding));
        (right && answer.count == keys && seen.get(request) == Some(&false)).then_some(request)
    }
}

/// A random mapping: 98 % that the host may resolve, 1 % that it may not (by chance somewhat more), 1 % that do not exist.
fn pick(host: u32, mappings: usize, rng: &mut Pcg64) -> usize {
    let kind = rng.random_range(0..100);
    if kind == 0 {
        return mappings + rng.random_range(0..1000);
    }
    loop {
        let at = rng.random_range(0..mappings);
        let service = |at: usize| weft_control::directory::ServiceId(1 + at as u32 % truth::SERVICES);
        if kind == 1 || truth::may_resolve(service(host as usize), service(at)) {
            return at;
        }
    }
}

/// Asks for the server's health until it has given a cookie.
fn cookie(lane: &Lane, session: &mut Session) -> Result<u64, ClientError> {
    let (mut buffer, mut lengths) = (vec![0; 2048], [0; BATCH]);
    for _ in 0..50 {
        let mut out = Vec::new();
        session.seal(Kind::Health, |_| {}, &mut out);
        lane.send(std::iter::once(out.as_slice()));
        let begin = Instant::now();
        while begin.elapsed() < Duration::from_millis(100) {
            if lane.receive(&mut buffer, 2048, &mut lengths) == 0 {
                continue;
            }
            if session.open(&buffer[..usize::from(lengths[0])]).is_some() {
                return Ok(session.cookie());
            }
        }
    }
    Err(ClientError::NoAnswer {
        servers: "the benchmark's server".into(),
        after: Duration::from_secs(5),
        why: "nothing came back",
    })
}

/// A histogram of latencies up to 100 s in nanoseconds.
pub fn new_histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 100_000_000_000, 3).expect("the bounds are right")
}

/// Bytes of an answer to so many keys, all found, all of IPv4; and a little, so that a longer one is seen to be.
const fn slot(keys: usize) -> usize {
    HEADER + 13 + keys * (9 + 19) + TAG + 8
}

/// Sockets, each of another host.
const FLOWS: usize = 8;
/// Answers beyond one a request that there is room for.
const SPARE: usize = BATCH;
/// Requests that are due and go to one flow at once.
const BATCH_DUE: usize = 16;
/// How long late answers are waited for.
const LINGER: Duration = Duration::from_millis(500);
/// A flow that hears nothing for so long has lost what was under way.
const LOST_NS: u64 = 200_000_000;
