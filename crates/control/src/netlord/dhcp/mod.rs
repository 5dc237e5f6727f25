//! An agent's lease of an address in tenant 1 (section 3.7): a DHCP client (RFC 2131) without I/O.
//!
//! ```text
//!              +--> Selecting --OFFER--> Requesting --ACK--> Bound --T1--> Renewing --T2--> Rebinding --end--> Lost
//!   Start -----|        ^---- NAK, silence ---'                ^------ACK-----'------ACK--------'                |
//!              +--> Rebooting (an address from before) --ACK---'   a NAK anywhere: Lost, Selecting <-------------+
//! ```
//! DEVIATION: renewals say the address in the option for it and not in `ciaddr`, as after a reboot: a server answers `ciaddr` at that address, which is of tenant 1,
//! while server and client talk over the plain fabric, by hardware addresses.

use std::collections::VecDeque;
use std::net::Ipv4Addr;

use rand::RngExt;
use weft_fabric::MacAddr;
use weft_fabric::rng::Pcg64;

use crate::time::{Duration, Instant};
use crate::wire::netlord::dhcp::{Answer, Question, Reply, Request, Server, Terms};
use crate::wire::packet::PacketError;

/// Configuration of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientConfig {
    /// The hardware address that names it.
    pub mac: MacAddr,
    /// From the first request to the second, in the mean; twice as long each time.
    pub retry: Duration,
    /// The longest that it becomes.
    pub retry_max: Duration,
    /// How often a server is asked for what it has offered, and for an address from before.
    pub tries: u32,
}

impl ClientConfig {
    /// The usual settings. RFC 2131 section 4.1 begins with 4 s, for slower networks.
    pub const fn new(mac: MacAddr) -> Self {
        Self { mac, retry: Duration::from_secs(1), retry_max: Duration::from_secs(64), tries: 4 }
    }
}

/// What happens to a client.
#[derive(Clone, Copy, Debug)]
pub enum Input<'a> {
    /// The fabric can be reached; with the address that an earlier agent had, if its interface still has it, and its end. Ignored after the first time.
    Start(Option<(Ipv4Addr, Instant)>),
    /// A frame to a DHCP client came.
    Frame(&'a [u8]),
    /// The deadline has come.
    Timer,
}

/// What a client wants done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// Send this.
    Send(Request),
    /// The address is had, or had for longer.
    Bound(Lease),
    /// This address is to be used no longer.
    Lost(Ipv4Addr),
}

/// An address, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lease {
    /// The address.
    pub address: Ipv4Addr,
    /// Bits of its subnet's prefix.
    pub length: u8,
    /// Who leases it.
    pub server: Server,
    /// When its server is asked again,
    pub renew: Instant,
    /// and when all are.
    pub rebind: Instant,
    /// When it ends.
    pub until: Instant,
}

/// What a client has seen, counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DhcpCounts {
    /// DISCOVER that were sent.
    pub discovers: u64,
    /// REQUEST that were sent.
    pub requests: u64,
    /// OFFER that were taken.
    pub offers: u64,
    /// ACK that were taken.
    pub acks: u64,
    /// NAK that were heeded.
    pub naks: u64,
    /// Leases that ended.
    pub ended: u64,
    /// Answers to others, to what was not asked, or from servers that were not asked.
    pub foreign: u64,
    /// Frames that are no answers.
    pub malformed: u64,
}

/// How far it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Idle,
    Selecting,
    Requesting(Server, Ipv4Addr),
    Rebooting(Ipv4Addr),
    Bound,
    Renewing,
    Rebinding,
}

/// The machine. The caller drains [`poll`](Self::poll) after each [`handle`](Self::handle), and hands in [`Input::Timer`] when [`deadline`](Self::deadline) has come.
#[derive(Debug)]
pub struct Client {
    config: ClientConfig,
    state: State,
    lease: Option<Lease>,
    /// What an earlier agent leased, until this one has asked.
    earlier: Option<(Ipv4Addr, Instant)>,
    xid: u32,
    /// When the address was asked for, how often in this state, and when to ask again.
    since: Instant,
    asked: u32,
    again: Option<Instant>,
    wait: Duration,
    out: VecDeque<Output>,
    counts: DhcpCounts,
    rng: Pcg64,
}

impl Client {
    /// A client that has not begun.
    pub fn new(config: ClientConfig, rng: Pcg64) -> Self {
        Self {
            config,
            state: State::Idle,
            lease: None,
            earlier: None,
            xid: 0,
            since: Instant::ZERO,
            asked: 0,
            again: None,
            wait: config.retry,
            out: VecDeque::new(),
            counts: DhcpCounts::default(),
            rng,
        }
    }

    /// Something happened.
    pub fn handle(&mut self, now: Instant, input: Input<'_>) {
        match input {
            Input::Start(earlier) if self.state == State::Idle => {
                self.earlier = earlier;
                self.begin(now, earlier.map_or(State::Selecting, |(address, _)| State::Rebooting(address)));
            }
            Input::Start(_) | Input::Timer => {}
            Input::Frame(frame) => match Reply::parse(frame) {
                Ok(reply) => self.answered(now, reply),
                Err(PacketError::Kind(_)) => {}
                Err(_) => self.counts.malformed += 1,
            },
        }
        self.expire(now);
    }

    /// What is to be done next; `None`: nothing until the next input.
    pub fn poll(&mut self) -> Option<Output> {
        self.out.pop_front()
    }

    /// When [`Input::Timer`] is due.
    pub fn deadline(&self) -> Option<Instant> {
        let of_lease = self.lease.map(|lease| match self.state {
            State::Bound => lease.renew.min(lease.until),
            State::Renewing => lease.rebind,
            _ => lease.until,
        });
        of_lease.into_iter().chain(self.earlier.map(|(_, until)| until)).chain(self.again).min()
    }

    /// What it has, if anything.
    pub const fn lease(&self) -> Option<Lease> {
        self.lease
    }

    /// What it does, in the words of RFC 2131.
    pub const fn state(&self) -> &'static str {
        match self.state {
            State::Idle => "init",
            State::Selecting => "selecting",
            State::Requesting(..) => "requesting",
            State::Rebooting(_) => "rebooting",
            State::Bound => "bound",
            State::Renewing => "renewing",
            State::Rebinding => "rebinding",
        }
    }

    /// What has been counted.
    pub const fn counts(&self) -> DhcpCounts {
        self.counts
    }

    /// A new exchange.
    fn begin(&mut self, now: Instant, state: State) {
        self.xid = self.rng.random();
        self.since = now;
        self.enter(now, state);
    }

    fn enter(&mut self, now: Instant, state: State) {
        (self.state, self.asked, self.wait) = (state, 0, self.config.retry);
        self.ask(now);
    }

    /// Sends what the state asks for, the first time or again.
    fn ask(&mut self, now: Instant) {
        let renewed = self.lease.map(|lease| Question::Request(lease.address, None));
        let (question, to) = match (self.state, renewed) {
            (State::Selecting, _) => (Question::Discover, None),
            (State::Requesting(server, address), _) => (Question::Request(address, Some(server.ip)), None),
            (State::Rebooting(address), _) => (Question::Request(address, None), None),
            (State::Renewing, Some(question)) => (question, self.lease.map(|lease| (lease.server, lease.address))),
            (State::Rebinding, Some(question)) => (question, None),
            _ => return self.again = None,
        };
        match question {
            Question::Discover => self.counts.discovers += 1,
            Question::Request(..) => self.counts.requests += 1,
        }
        self.asked += 1;
        self.again = Some(now.saturating_add(self.pause(now)));
        let secs = now.saturating_since(self.since).as_secs_f64() as u16;
        self.out.push_back(Output::Send(Request { xid: self.xid, client: self.config.mac, secs, question, to }));
    }

    /// How long to wait for an answer (RFC 2131, sections 4.1 and 4.4.5).
    fn pause(&mut self, now: Instant) -> Duration {
        if let (State::Renewing | State::Rebinding, Some(lease)) = (self.state, self.lease) {
            let end = if self.state == State::Renewing { lease.rebind } else { lease.until };
            return (end.saturating_since(now) / 2).max(RENEWAL_LEAST);
        }
        let wait = self.wait;
        self.wait = (wait * 2).min(self.config.retry_max);
        // A quarter more or less, lest all servers of a rack ask at once.
        Duration::from_ns(wait.as_ns() / 4 * 3 + self.rng.random_range(0..=wait.as_ns() / 2))
    }

    /// Whatever time has brought.
    fn expire(&mut self, now: Instant) {
        if let Some(lease) = self.lease {
            if lease.until <= now {
                self.counts.ended += 1;
                self.lose(lease.address);
                return self.begin(now, State::Selecting);
            }
            match self.state {
                State::Bound if lease.renew <= now => return self.begin(now, State::Renewing),
                State::Renewing if lease.rebind <= now => return self.enter(now, State::Rebinding),
                _ => {}
            }
        }
        if let Some((address, _)) = self.earlier.filter(|&(_, until)| until <= now) {
            self.counts.ended += 1;
            self.lose(address);
        }
        if self.again.is_none_or(|again| again > now) {
            return;
        }
        match self.state {
            // The address from before stays to its end, or until somebody says otherwise.
            State::Requesting(..) | State::Rebooting(_) if self.asked >= self.config.tries => self.begin(now, State::Selecting),
            _ => self.ask(now),
        }
    }

    fn answered(&mut self, now: Instant, reply: Reply) {
        let is_mine = (reply.xid, reply.client) == (self.xid, self.config.mac);
        match (self.state, reply.answer) {
            (State::Selecting, Answer::Offer(address)) if is_mine => {
                self.counts.offers += 1;
                self.since = now;
                self.enter(now, State::Requesting(reply.server, address));
            }
            (State::Requesting(server, address), Answer::Ack(terms))
                if is_mine && server.ip == reply.server.ip && terms.address == address =>
            {
                self.bind(reply.server, terms);
            }
            (State::Requesting(server, _), Answer::Nak) if is_mine && server.ip == reply.server.ip => self.refused(now),
            (State::Rebooting(address), Answer::Ack(terms)) if is_mine && terms.address == address => {
                self.bind(reply.server, terms);
            }
            (State::Renewing | State::Rebinding, Answer::Ack(terms))
                if is_mine && self.lease.is_some_and(|lease| lease.address == terms.address) =>
            {
                self.bind(reply.server, terms);
            }
            (State::Rebooting(address), Answer::Nak) if is_mine => {
                self.lose(address);
                self.refused(now);
            }
            (State::Renewing | State::Rebinding, Answer::Nak) if is_mine => {
                if let Some(lease) = self.lease {
                    self.lose(lease.address);
                }
                self.refused(now);
            }
            _ => self.counts.foreign += 1,
        }
    }

    /// The lease begins when it was asked for first, not when the answer came (RFC 2131, section 4.4.1).
    fn bind(&mut self, server: Server, terms: Terms) {
        self.counts.acks += 1;
        let at = |seconds: u32| self.since.saturating_add(Duration::from_secs(u64::from(seconds)));
        let Terms { address, length, lease_s, again_s: (renew, rebind) } = terms;
        let lease =
            Lease { address, length, server, renew: at(renew.max(RENEW_LEAST_S)), rebind: at(rebind), until: at(lease_s) };
        (self.state, self.again, self.lease, self.earlier) = (State::Bound, None, Some(lease), None);
        self.out.push_back(Output::Bound(lease));
    }

    /// From the beginning, but not at once: the server may refuse the next time too.
    fn refused(&mut self, now: Instant) {
        self.counts.naks += 1;
        (self.state, self.asked, self.wait) = (State::Selecting, 0, self.config.retry);
        (self.xid, self.since) = (self.rng.random(), now);
        self.again = Some(now.saturating_add(self.pause(now)));
    }

    fn lose(&mut self, address: Ipv4Addr) {
        (self.lease, self.earlier) = (None, None);
        self.out.push_back(Output::Lost(address));
    }
}

/// No lease is so short that its server is asked without a pause.
const RENEW_LEAST_S: u32 = 5;
/// RFC 2131, section 4.4.5.
const RENEWAL_LEAST: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests;
