//! `convergence`: an update goes to one server, and another is asked until it says so (VL2, figure 14c).
//!
//! ```text
//!   update --> server A: sent ........... acknowledged
//!   lookup --> server B: again and again ........... the new generation
//!                         |<-- since it was sent --->|
//!                                        |<- since -->|  0 if B knew before the writer
//! ```

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use rand::RngExt;
use weft_control::directory::PrincipalId;
use weft_control::directory::auth::Secret;
use weft_control::wire::directory::{Finding, Kind, Lookup, Message, Outcome, Update};
use weft_fabric::rng::Pcg64;

use super::error::BenchError;
use super::lookups::new_histogram;
use super::socket::{BATCH, Lane};
use super::truth::{self, FIRST_WRITER, Truth};
use crate::client::Session;

/// What was measured.
#[derive(Clone, Debug)]
pub struct Converged {
    /// Updates that were followed.
    pub updates: u64,
    /// Answers that were neither the old nor the new state.
    pub wrong: u64,
    /// From the update's sending to the first lookup that returned it, in ns.
    pub since_sent: Histogram<u64>,
    /// The same from its acknowledgement.
    pub since_acknowledged: Histogram<u64>,
}

/// A conversation with one server.
struct Talk {
    lane: Lane,
    session: Session,
    /// The request whose answer counts.
    asked: u64,
}

/// Follows updates for a while, each at a pair of servers in turn.
pub fn run(
    servers: &[SocketAddr],
    secret: &Secret,
    truth: &mut Truth,
    duration: Duration,
    seed: u64,
) -> Result<Converged, BenchError> {
    let principal = PrincipalId(FIRST_WRITER);
    let key = secret.key_of(principal);
    let talk =
        |server: &SocketAddr| Ok(Talk { lane: Lane::new(*server)?, session: Session::new(principal, Some(&key)), asked: 0 });
    let talks = servers.iter().map(talk).collect::<std::io::Result<Vec<_>>>();
    let mut talks = talks.map_err(|e| BenchError::Io(format!("no socket: {e}")))?;
    let mut rng = Pcg64::new(u128::from(seed), 0x11);
    let mut result = Converged { updates: 0, wrong: 0, since_sent: new_histogram(), since_acknowledged: new_histogram() };
    let mut known = truth.newest();
    let mut number = u64::from_be_bytes(crate::client::random());
    let begin = Instant::now();
    while begin.elapsed() < duration {
        let at = rng.random_range(0..truth.len());
        let locator = rng.random_range(1000..1_000_000);
        let writer = result.updates as usize % talks.len();
        let reader = (writer + 1) % talks.len();
        number = number.wrapping_add(1);
        known = follow(
            &mut talks,
            writer,
            reader,
            Update { number, known, ops: vec![truth::put(at, locator)] },
            truth,
            (at, locator),
            &mut result,
        )?
        .max(known);
        result.updates += 1;
        // Not in step with the servers' own timers.
        std::thread::sleep(Duration::from_micros(rng.random_range(0..5000)));
    }
    Ok(result)
}

fn follow(
    talks: &mut [Talk],
    writer: usize,
    reader: usize,
    update: Update,
    truth: &mut Truth,
    (at, locator): (usize, u32),
    result: &mut Converged,
) -> Result<weft_control::directory::Generation, BenchError> {
    let before = truth.generation(at);
    let message = Message::Update(update);
    let begin = Instant::now();
    talks[writer].send(&message);
    let (mut acknowledged, mut visible) = (None, None);
    let (mut asked, mut repeated) = (begin, begin);
    talks[reader].ask(at);
    while acknowledged.is_none() || visible.is_none() {
        let now = Instant::now();
        if now - begin > Duration::from_secs(10) {
            return Err(BenchError::Server("an update was not seen for 10 s".into()));
        }
        if acknowledged.is_none() && now - repeated > Duration::from_millis(500) {
            talks[writer].send(&message);
            repeated = now;
        }
        let mut answered = now - asked > Duration::from_millis(20);
        for (which, talk) in talks.iter_mut().enumerate() {
            talk.receive(|message| match message {
                Message::Challenge if which == writer && acknowledged.is_none() => repeated = begin, // it goes again at once
                Message::Challenge => answered = true,
                Message::Acknowledgement(ack) if ack.outcome == Outcome::Committed => {
                    acknowledged = acknowledged.or(Some((Instant::now(), ack.generation)));
                }
                Message::Answer(answer) => {
                    answered = true;
                    for (generation, finding) in answer.results() {
                        if generation > before && Finding::Found(truth::put(at, locator).value.expect("a put")) == finding {
                            visible = visible.or(Some((Instant::now(), generation)));
                        } else if !truth.is(at, generation, &finding) {
                            result.wrong += 1;
                        }
                    }
                }
                _ => {}
            });
        }
        if visible.is_none() && answered {
            talks[reader].ask(at);
            asked = Instant::now();
        }
    }
    let ((acknowledged, generation), (visible, seen)) = (acknowledged.expect("both are there"), visible.expect("both are there"));
    result.wrong += u64::from(seen != generation);
    truth.committed(at, locator, generation);
    result.since_sent.saturating_record((visible - begin).as_nanos() as u64);
    result.since_acknowledged.saturating_record((visible.saturating_duration_since(acknowledged).as_nanos() as u64).max(1));
    Ok(generation)
}

impl Talk {
    fn send(&mut self, message: &Message<'_>) {
        let mut out = Vec::with_capacity(256);
        self.session.seal(message.kind(), |out| message.emit(out), &mut out);
        self.lane.send(std::iter::once(out.as_slice()));
    }

    fn ask(&mut self, at: usize) {
        let mut out = Vec::with_capacity(128);
        let body = |out: &mut Vec<u8>| Lookup::emit(weft_control::directory::Generation(0), None, &[truth::key(at)], out);
        self.session.seal(Kind::Lookup, body, &mut out);
        self.asked = self.session.request();
        self.lane.send(std::iter::once(out.as_slice()));
    }

    fn receive(&mut self, mut take: impl FnMut(&Message<'_>)) {
        let (mut buffer, mut lengths) = ([0; 8 * 256], [0; BATCH]);
        let count = self.lane.receive(&mut buffer, 256, &mut lengths);
        for (slot, &length) in buffer.chunks_exact(256).zip(&lengths[..count]) {
            let Some(frame) = self.session.open(&slot[..usize::from(length)]) else { continue };
            let late = frame.header.kind == Kind::Answer && frame.header.request != self.asked;
            if let Some(message) = Message::parse(frame.header.kind, frame.body).ok().filter(|_| !late) {
                take(&message);
            }
        }
    }
}
