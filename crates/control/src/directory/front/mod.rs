//! What a UDP thread does by itself: verify, look up, answer. It needs no more than to read the [`Shared`] state.
//!
//! ```text
//!   datagram --parse--> frame --tag, cookie, window--> request --+-- lookup, Sync, Follow, Health: answered from memory
//!                         |           |                          +-- subscription, update, report, another server's: forwarded to the machine
//!                         v           v
//!                      dropped    Challenge
//! ```
//! A batch goes through these steps together, so that waiting for the memory of one lookup is the work on another.

mod age;
mod answer;
mod clients;
mod counters;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::net::SocketAddr;

pub use self::age::{AgeLimit, BatchRule};
pub(super) use self::answer::{Access, finding, look_up, sync};
use self::clients::Clients;
pub use self::counters::{Counters, Reason};
use super::auth::{Cookies, Secret, Slot, Tagger};
use super::key::{Key, PrincipalId};
use super::request::{Ask, Client, Request, StreamId};
use super::shared::Shared;
use super::table::Probe;
use crate::time::{Duration, Instant};
use crate::wire::directory::{
    Foreign, Frame, HEADER, Header, Kind, Lookup, MAX_DATAGRAM, MAX_FACTOR, Message, TAG, Versions, WireError,
};

/// What becomes of a datagram.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// The bytes appended to `out` go back to where it came from.
    Answer,
    /// The machine's to deal with: [`Input::Request`](super::server::Input::Request).
    Forward(Box<Request>),
    /// Nothing; it is counted.
    Drop(Reason),
}

/// How a front works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrontConfig {
    /// This server's own principal: answers of its peers carry it.
    pub me: PrincipalId,
    /// Clients (a principal at an address) that are remembered at most, about 400 bytes each.
    pub max_clients: usize,
    /// Of the protocol.
    pub versions: Versions,
}

/// Where a principal was seen: the machine is to know, so that it can send corrections there. Reported for a client's first request, and
/// again every minute while it goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sighting {
    /// Who.
    pub principal: PrincipalId,
    /// Where.
    pub at: SocketAddr,
    /// The cookie that it has.
    pub cookie: u64,
}

/// What a UDP thread does by itself.
#[derive(Debug)]
pub struct Front {
    secret: Secret,
    own: Tagger,
    config: FrontConfig,
    clients: Clients,
    sightings: VecDeque<Sighting>,
    /// Askers that other parts have, and that are not known here.
    wanted: VecDeque<(PrincipalId, Key)>,
    counters: Counters,
    /// The keys of a batch's lookups, askers included.
    probes: Vec<Probe>,
    out: Vec<u8>,
}

/// A datagram that was let in.
struct Admitted<'a> {
    version: u8,
    header: Header,
    body: &'a [u8],
    client: u32,
    cookie: u64,
    /// Bytes that its answer has at most.
    limit: usize,
}

/// A datagram of a batch between its steps.
enum Step<'a> {
    /// Done, or to be answered without the table.
    Other(Result<Admitted<'a>, Refusal>),
    /// To be looked up: its probes are those in the range, the asker's first if there is one.
    Lookup(Admitted<'a>, Lookup<'a>, std::ops::Range<usize>),
}

/// Why a datagram was not let in.
enum Refusal {
    Drop(Reason),
    /// The cookie that it should have, which says its version, and what makes the Challenge's tag.
    Challenge(Header, u64, Box<Tagger>),
    /// A known principal speaks another version: the header of the answer, and what makes its tag.
    Unsupported(Header, Box<Tagger>),
    /// An answer of another server to this one.
    OfPeer(Box<Request>),
}

impl Front {
    /// A front. If a server has several, each has cookies of its own.
    pub fn new(secret: Secret, cookies: Cookies, config: FrontConfig) -> Self {
        Self {
            own: secret.key_of(config.me).tagger(),
            secret,
            config,
            clients: Clients::new(cookies, config.max_clients),
            sightings: VecDeque::new(),
            wanted: VecDeque::new(),
            counters: Counters::default(),
            probes: Vec::new(),
            out: Vec::new(),
        }
    }

    /// Another secret ([`Secret::replaced_by`]): clients with keys that are still good notice nothing, and others are challenged under their new ones.
    pub fn set_secret(&mut self, secret: Secret) {
        self.own = secret.key_of(self.config.me).tagger();
        let voids = |client: &clients::Client| secret.voids(&self.secret, client.cookie);
        self.clients.change_keys(voids, |principal| secret.key_of(principal).tagger(), secret.slot());
        self.secret = secret;
    }

    /// Takes a datagram; an answer is appended to `out`.
    pub fn receive(&mut self, now: Instant, shared: &Shared, from: SocketAddr, bytes: &[u8], out: &mut Vec<u8>) -> Verdict {
        let mut probes = std::mem::take(&mut self.probes);
        probes.clear();
        let step = self.begin(now, shared, from, bytes, &mut probes);
        let verdict = self.finish(shared, from, step, &probes, out);
        self.probes = probes;
        verdict
    }

    /// Takes several datagrams at once, so that their lookups in memory overlap. Calls `reply(index, verdict, answer)` for each, in order.
    pub fn receive_batch(
        &mut self,
        now: Instant,
        shared: &Shared,
        datagrams: &[(SocketAddr, &[u8])],
        mut reply: impl FnMut(usize, Verdict, &[u8]),
    ) {
        let (mut probes, mut out) = (std::mem::take(&mut self.probes), std::mem::take(&mut self.out));
        for (at, group) in datagrams.chunks(GROUP).enumerate() {
            probes.clear();
            let mut steps: [Option<Step<'_>>; GROUP] = [const { None }; GROUP];
            for (step, (from, bytes)) in steps.iter_mut().zip(group) {
                *step = Some(self.begin(now, shared, *from, bytes, &mut probes));
            }
            for probe in &probes {
                shared.table.prefetch_entry(probe);
            }
            for (place, (step, (from, _))) in steps.into_iter().flatten().zip(group).enumerate() {
                out.clear();
                let verdict = self.finish(shared, *from, step, &probes, &mut out);
                reply(at * GROUP + place, verdict, &out);
            }
        }
        (self.probes, self.out) = (probes, out);
    }

    /// Takes a frame (without its length) of a stream whose messages have tags: the rules are those of datagrams, but that everything that is let in
    /// is forwarded. `from` is the stream's other end.
    pub fn receive_frame(
        &mut self,
        now: Instant,
        (from, stream): (SocketAddr, StreamId),
        bytes: &[u8],
        out: &mut Vec<u8>,
    ) -> Verdict {
        let request = |front: &mut Self, admitted: Admitted<'_>| {
            front.count_drop(Ask::parse(admitted.header.kind, admitted.body), |ask| {
                let client = Client::Stream { stream, request: admitted.header.request };
                Verdict::Forward(Box::new(Request { client, principal: admitted.header.principal, ask }))
            })
        };
        match Frame::parse_as(self.config.versions, bytes) {
            Err(error) => self.drop(Reason::of(error)),
            Ok(frame) if frame.header.kind.is_answer() => self.drop(Reason::Unexpected),
            Ok(frame) => match self.admit(now, from, frame, bytes.len()) {
                Ok(admitted) => request(self, admitted),
                Err(refusal) => self.refuse(refusal, out),
            },
        }
    }

    /// The next client that was seen.
    pub fn next_sighting(&mut self) -> Option<Sighting> {
        self.sightings.pop_front()
    }

    /// The next asker that another part has, and that is not known here: [`Input::Wanted`](super::server::Input::Wanted).
    pub fn next_wanted(&mut self) -> Option<(PrincipalId, Key)> {
        self.wanted.pop_front()
    }

    /// What was counted so far.
    pub const fn counters(&self) -> &Counters {
        &self.counters
    }

    /// How many clients are remembered.
    pub const fn clients(&self) -> usize {
        self.clients.len()
    }

    /// First step: lets a datagram in, and asks the memory for the slots of its keys.
    #[inline]
    fn begin<'a>(
        &mut self,
        now: Instant,
        shared: &Shared,
        from: SocketAddr,
        bytes: &'a [u8],
        probes: &mut Vec<Probe>,
    ) -> Step<'a> {
        self.counters.datagrams += 1;
        let admitted = match Self::of_part(shared, from) {
            true => self.let_in_of_part(now, from, bytes),
            false => self.let_in(now, from, bytes),
        };
        let principal = match &admitted {
            Ok(Admitted { header, .. }) | Err(Refusal::Challenge(header, ..) | Refusal::Unsupported(header, _)) => {
                header.principal
            }
            Err(_) => PrincipalId(0),
        };
        if shared.denied.contains(&principal) {
            return Step::Other(Err(Refusal::Drop(Reason::Denied)));
        }
        let admitted = match admitted {
            Ok(admitted) => admitted,
            Err(refusal) => return Step::Other(Err(refusal)),
        };
        if admitted.header.kind != Kind::Lookup {
            return Step::Other(Ok(admitted));
        }
        let ask = match Message::parse(Kind::Lookup, admitted.body) {
            Ok(Message::Lookup(ask)) => ask,
            Ok(_) => return Step::Other(Err(Refusal::Drop(Reason::Unexpected))),
            Err(error) => return Step::Other(Err(Refusal::Drop(Reason::of(error)))),
        };
        let first = probes.len();
        let mut add = |key: &Key| {
            let probe = shared.table.probe(key);
            shared.table.prefetch(&probe);
            probes.push(probe);
        };
        ask.asker.iter().for_each(&mut add);
        ask.keys().for_each(|key| add(&key));
        Step::Lookup(admitted, ask, first..probes.len())
    }

    /// Last step: answers, forwards or drops.
    #[inline]
    fn finish(&mut self, shared: &Shared, from: SocketAddr, step: Step<'_>, probes: &[Probe], out: &mut Vec<u8>) -> Verdict {
        match step {
            Step::Other(Err(refusal)) => self.refuse(refusal, out),
            Step::Other(Ok(admitted)) => self.answer_other(shared, from, &admitted, out),
            Step::Lookup(admitted, ask, range) => {
                let (asker, keys) = probes[range].split_at(usize::from(ask.asker.is_some()));
                let access = Access::of(shared, admitted.header.principal, ask.asker.as_ref().zip(asker.first()));
                if access == Access::Pending && self.wanted.len() < MAX_WANTED {
                    self.wanted.extend(ask.asker.map(|asker| (admitted.header.principal, asker)));
                }
                let start = admitted.begin_answer(Kind::Answer, out);
                let tally = look_up(shared, access, &ask, keys, start + admitted.limit - TAG, out);
                self.counters.count_look_up(&tally);
                self.seal(&admitted, start, out)
            }
        }
    }

    /// Whether this is the address of a server of another part.
    #[inline]
    fn of_part(shared: &Shared, from: SocketAddr) -> bool {
        let Some(own) = shared.part else { return false };
        shared.policy.parts().and_then(|parts| parts.part_of_server(from)).is_some_and(|part| part != own)
    }

    /// A datagram of another part's server: an answer to this one, or a question.
    #[cold]
    fn let_in_of_part<'a>(&mut self, now: Instant, from: SocketAddr, bytes: &'a [u8]) -> Result<Admitted<'a>, Refusal> {
        match Frame::parse_as(self.config.versions, bytes) {
            Ok(frame) if frame.header.kind.is_answer() && frame.header.principal == self.config.me => {
                if !self.own.verify(frame.covered, frame.tag) {
                    return Err(Refusal::Drop(Reason::Tag));
                }
                let client = Client::Datagram { at: from, cookie: frame.header.cookie, request: frame.header.request };
                let ask = Ask::OfPart(bytes.to_vec());
                Err(Refusal::OfPeer(Box::new(Request { client, principal: self.config.me, ask })))
            }
            _ => self.let_in(now, from, bytes),
        }
    }

    /// Splits a datagram and checks who sent it.
    #[inline]
    fn let_in<'a>(&mut self, now: Instant, from: SocketAddr, bytes: &'a [u8]) -> Result<Admitted<'a>, Refusal> {
        if bytes.len() > MAX_DATAGRAM {
            return Err(Refusal::Drop(Reason::Oversized));
        }
        let frame = match Frame::parse_as(self.config.versions, bytes) {
            Ok(frame) => frame,
            Err(WireError::Version(_)) => return Err(self.foreign(from, bytes)),
            Err(error) => return Err(Refusal::Drop(Reason::of(error))),
        };
        match frame.header.kind {
            Kind::Challenge | Kind::DigestAnswer | Kind::Unsupported if frame.header.principal == self.config.me => {
                Err(self.of_peer(from, &frame))
            }
            Kind::List | Kind::Watch | Kind::Status => Err(Refusal::Drop(Reason::Unexpected)),
            kind if kind.is_answer() => Err(Refusal::Drop(Reason::Unexpected)),
            _ => self.admit(now, from, frame, bytes.len()),
        }
    }

    /// Tag, cookie, window.
    #[inline]
    fn admit<'a>(&mut self, now: Instant, from: SocketAddr, frame: Frame<'a>, length: usize) -> Result<Admitted<'a>, Refusal> {
        let Frame { version, header, covered, body, tag } = frame;
        let versions = self.config.versions;
        // 0 is "nobody": it owns nothing, and mappings without an owner are not its.
        if header.principal == PrincipalId(0) {
            return Err(Refusal::Drop(Reason::Principal));
        }
        let client = match self.clients.find(header.principal, from) {
            Some(client) => {
                let known = self.clients.at(client);
                let slot = Slot::of(known.cookie);
                if !known.tagger.verify(covered, tag) {
                    self.change_key(client, from, &frame)?;
                } else if known.cookie != header.cookie || versions.of_cookie(known.cookie) != version {
                    let next = versions.mark(slot.mark(self.clients.next_cookie(client, header.principal, from)), version);
                    if next != header.cookie {
                        let tagger = Box::new(self.clients.at(client).tagger.clone());
                        return Err(Refusal::Challenge(header, next, tagger));
                    }
                    self.clients.begin_life(client, next);
                    self.clients.at(client).reported = Instant::MAX;
                }
                client
            }
            None => {
                let maker = self.secret.maker_of(header.principal, covered, tag);
                let (tagger, slot) = maker.ok_or(Refusal::Drop(Reason::Tag))?;
                let cookie = versions.mark(slot.mark(self.clients.cookie(header.principal, from)), version);
                if cookie != header.cookie {
                    return Err(Refusal::Challenge(header, cookie, Box::new(tagger)));
                }
                let client = self.clients.insert(header.principal, from, tagger);
                self.clients.at(client).cookie = cookie;
                client
            }
        };
        let known = self.clients.at(client);
        if !known.window.accept(header.request) {
            return Err(Refusal::Drop(Reason::Replayed));
        }
        let cookie = known.cookie;
        if known.reported == Instant::MAX || now.saturating_since(known.reported) >= REPORT_INTERVAL {
            known.reported = now;
            self.sightings.push_back(Sighting { principal: header.principal, at: from, cookie });
            if self.sightings.len() > MAX_SIGHTINGS {
                self.sightings.pop_front();
            }
        }
        self.clients.touch(client);
        let limit = MAX_DATAGRAM.min(MAX_FACTOR * length);
        Ok(Admitted { version, header, body, client, cookie, limit })
    }

    /// A tag is not of the key that the client had: while there are two secrets it may have got its new key. It then begins another life.
    #[cold]
    fn change_key(&mut self, client: u32, from: SocketAddr, frame: &Frame<'_>) -> Result<(), Refusal> {
        let header = frame.header;
        let maker = Some(&self.secret).filter(|secret| secret.has_old());
        let maker = maker.and_then(|secret| secret.maker_of(header.principal, frame.covered, frame.tag));
        let (tagger, slot) = maker.ok_or(Refusal::Drop(Reason::Tag))?;
        let next = slot.mark(self.clients.next_cookie(client, header.principal, from));
        let next = self.config.versions.mark(next, frame.version);
        if next != header.cookie {
            return Err(Refusal::Challenge(header, next, Box::new(tagger)));
        }
        self.clients.begin_life(client, next);
        let known = self.clients.at(client);
        (known.tagger, known.reported) = (tagger, Instant::MAX);
        Ok(())
    }

    /// A datagram of another version of the protocol: who proves that he has a key is answered so.
    #[cold]
    fn foreign(&mut self, from: SocketAddr, bytes: &[u8]) -> Refusal {
        let Some(Foreign { answer, covered, tag, .. }) =
            Foreign::parse(self.config.versions, bytes).filter(|it| it.answer.principal != PrincipalId(0))
        else {
            return Refusal::Drop(Reason::Version);
        };
        let known = self.clients.find(answer.principal, from).map(|client| self.clients.at(client).tagger.clone());
        let known = known.filter(|tagger| tagger.verify(covered, tag));
        match known.or_else(|| Some(self.secret.maker_of(answer.principal, covered, tag)?.0)) {
            Some(tagger) => Refusal::Unsupported(answer, Box::new(tagger)),
            None => Refusal::Drop(Reason::Version),
        }
    }

    /// Another server's answer to this one.
    fn of_peer(&self, from: SocketAddr, frame: &Frame<'_>) -> Refusal {
        if !self.own.verify(frame.covered, frame.tag) {
            return Refusal::Drop(Reason::Tag);
        }
        let Header { kind, principal, cookie, request } = frame.header;
        match Ask::parse(kind, frame.body) {
            Ok(ask) => {
                let client = Client::Datagram { at: from, cookie, request };
                Refusal::OfPeer(Box::new(Request { client, principal, ask }))
            }
            Err(error) => Refusal::Drop(Reason::of(error)),
        }
    }

    fn refuse(&mut self, refusal: Refusal, out: &mut Vec<u8>) -> Verdict {
        match refusal {
            Refusal::Drop(reason) => self.drop(reason),
            Refusal::OfPeer(request) => {
                self.counters.forwarded += 1;
                Verdict::Forward(request)
            }
            Refusal::Unsupported(header, tagger) => {
                self.counters.drop(Reason::Version);
                let start = out.len();
                header.emit_as(self.config.versions.newest(), out);
                tagger.seal(out, start);
                Verdict::Answer
            }
            Refusal::Challenge(header, cookie, tagger) => {
                self.counters.challenges += 1;
                let start = out.len();
                let version = self.config.versions.of_cookie(cookie);
                Header { kind: Kind::Challenge, cookie, ..header }.emit_as(version, out);
                tagger.seal(out, start);
                Verdict::Answer
            }
        }
    }

    /// Sync, Follow without push, and Health are answered, the rest is the machine's.
    fn answer_other(&mut self, shared: &Shared, from: SocketAddr, admitted: &Admitted<'_>, out: &mut Vec<u8>) -> Verdict {
        let Admitted { header, body, limit, .. } = *admitted;
        let ask = match Ask::parse(header.kind, body) {
            Ok(ask) => ask,
            Err(error) => return self.drop(Reason::of(error)),
        };
        match ask {
            Ask::Sync(ask) => {
                self.counters.syncs += 1;
                let start = admitted.begin_answer(Kind::Changes, out);
                if sync(shared, &ask, limit - HEADER - TAG, out) {
                    return self.seal(admitted, start, out);
                }
                out.truncate(start);
                self.drop(Reason::Behind)
            }
            Ask::Follow(ask) if !ask.push => {
                self.counters.syncs += 1;
                match shared.follow(&ask, limit - HEADER - TAG) {
                    Some(page) => {
                        let start = admitted.begin_answer(Kind::Withdrawn, out);
                        Message::Withdrawn(page).emit(out);
                        self.seal(admitted, start, out)
                    }
                    None => self.drop(Reason::Behind),
                }
            }
            Ask::Parts(ask) => {
                let start = admitted.begin_answer(Kind::PartsPage, out);
                Message::PartsPage(shared.parts_page(ask, limit - HEADER - TAG)).emit(out);
                self.seal(admitted, start, out)
            }
            Ask::Health => {
                self.counters.healths += 1;
                let start = admitted.begin_answer(Kind::Vitals, out);
                Message::Vitals(shared.vitals()).emit(out);
                self.seal(admitted, start, out)
            }
            ask if !ask.permitted(&shared.policy, header.principal) => self.drop(Reason::Refused),
            ask => {
                self.counters.forwarded += 1;
                let client = Client::Datagram { at: from, cookie: admitted.cookie, request: header.request };
                Verdict::Forward(Box::new(Request { client, principal: header.principal, ask }))
            }
        }
    }

    #[inline]
    fn seal(&mut self, admitted: &Admitted<'_>, start: usize, out: &mut Vec<u8>) -> Verdict {
        self.clients.at(admitted.client).tagger.seal(out, start);
        debug_assert!(out.len() - start <= admitted.limit, "an answer keeps within its limit");
        self.counters.answers += 1;
        Verdict::Answer
    }

    fn drop(&mut self, reason: Reason) -> Verdict {
        self.counters.drop(reason);
        Verdict::Drop(reason)
    }

    fn count_drop<T>(
        &mut self,
        parsed: Result<T, crate::wire::directory::WireError>,
        then: impl FnOnce(T) -> Verdict,
    ) -> Verdict {
        match parsed {
            Ok(parsed) => {
                self.counters.forwarded += 1;
                then(parsed)
            }
            Err(error) => self.drop(Reason::of(error)),
        }
    }
}

impl Admitted<'_> {
    /// Appends the header of the answer; says where it begins.
    #[inline]
    fn begin_answer(&self, kind: Kind, out: &mut Vec<u8>) -> usize {
        let start = out.len();
        Header { kind, cookie: self.cookie, ..self.header }.emit_as(self.version, out);
        start
    }
}

/// Datagrams whose lookups overlap.
const GROUP: usize = 16;

/// Askers kept until somebody asks for them.
const MAX_WANTED: usize = 1 << 12;

/// Sightings kept until somebody asks for them.
const MAX_SIGHTINGS: usize = 1 << 16;

/// How often an active client is reported to the machine.
const REPORT_INTERVAL: Duration = Duration::from_secs(60);
