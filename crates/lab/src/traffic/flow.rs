//! One flow: its two sockets, what was sent and received, and what TCP says of it.

use std::io::{self, ErrorKind};
use std::mem::MaybeUninit;
use std::net::Ipv4Addr;
use std::time::Duration as StdDuration;

use nix::sys::epoll::{Epoll, EpollEvent, EpollFlags};
use socket2::Socket;
use weft_fabric::traffic::{FlowSpec, Size};
use weft_fabric::{Duration, Instant};

use super::tcp_info::{TcpInfo, tcp_info};
use crate::paths::Connection;

/// What all flows send from, and what they would receive into if they looked at what they receive.
pub(super) struct Buffers {
    zeros: Vec<u8>,
    nothing: Vec<MaybeUninit<u8>>,
}

impl Buffers {
    pub(super) fn new() -> Self {
        Self { zeros: vec![0; CHUNK], nothing: vec![MaybeUninit::uninit(); CHUNK] }
    }
}

/// How far a flow is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// It wants to move, or does.
    Open,
    /// Its last byte was received then.
    Ended(Instant),
    /// Its connection ended before it.
    Broken,
    /// Its receiver did not take it.
    Refused,
}

/// A flow, from its start on.
pub(crate) struct Flow {
    pub spec: FlowSpec,
    pub state: State,
    /// Bytes received.
    pub received: u64,
    /// What TCP said last.
    pub tcp: TcpInfo,
    /// The longest time that it received nothing after each event; see [`Self::hear`].
    pub silent: Vec<Duration>,
    /// When it received something first, and last.
    heard: Option<(Instant, Instant)>,
    /// Whether its receiver has reset its connection, having enough to do.
    pub turned_away: bool,
    connection: Connection,
    sent: u64,
    established: bool,
    sender: Option<Socket>,
    receiver: Option<Socket>,
}

/// What came of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Served {
    Nothing,
    Received(u64),
    /// There is no connection yet.
    Refused,
    /// There is none any more.
    Broken,
}

impl Flow {
    pub(super) fn new(spec: FlowSpec) -> Self {
        let nowhere = (Ipv4Addr::UNSPECIFIED, 0);
        Self {
            spec,
            state: State::Open,
            received: 0,
            tcp: TcpInfo::default(),
            silent: Vec::new(),
            heard: None,
            turned_away: false,
            connection: Connection { from: nowhere, to: nowhere },
            sent: 0,
            established: false,
            sender: None,
            receiver: None,
        }
    }

    pub(crate) fn connection(&self) -> Connection {
        self.connection
    }

    /// When it ended.
    pub(crate) fn end(&self) -> Option<Instant> {
        if let State::Ended(at) = self.state { Some(at) } else { None }
    }

    /// A connection is being made; the one that was tried before, if any.
    pub(super) fn connecting(&mut self, socket: Socket, connection: Connection) -> Option<Connection> {
        let again = self.sender.replace(socket).is_some();
        let old = std::mem::replace(&mut self.connection, connection);
        again.then_some(old)
    }

    pub(super) fn accepted(&mut self, socket: Socket) {
        self.receiver = Some(socket);
    }

    /// The receiver has enough to do: the connection is reset, which the sender will hear.
    pub(super) fn turn_away(&mut self, socket: &Socket) {
        self.turned_away = true;
        let _ = socket.set_linger(Some(StdDuration::ZERO));
    }

    pub(super) fn is_complete(&self) -> bool {
        self.spec.size == Size::Finite(weft_fabric::Bytes(self.received))
    }

    /// The sender can send, or has failed.
    pub(super) fn send(&mut self, buffers: &Buffers, epoll: &Epoll, token: u64) -> Served {
        let Some(socket) = &self.sender else { return Served::Nothing };
        if !self.established {
            if !matches!(socket.take_error(), Ok(None)) {
                return self.refused(epoll);
            }
            self.established = true;
        }
        let left = match self.spec.size {
            Size::Finite(size) => size.0 - self.sent,
            Size::Infinite => u64::MAX,
        };
        let len = left.min(buffers.zeros.len() as u64) as usize;
        match socket.send(&buffers.zeros[..len]) {
            Ok(sent) => self.sent += sent as u64,
            Err(e) if is_momentary(&e) => {}
            // The receiver's kernel gave up an opening of which too many packets were lost: nobody has got anything yet.
            Err(_) if self.receiver.is_none() => return self.refused(epoll),
            Err(_) => return Served::Broken,
        }
        if self.spec.size == Size::Finite(weft_fabric::Bytes(self.sent)) {
            // There is nothing left to send: errors alone are told from now on.
            let _ = epoll.modify(socket, &mut EpollEvent::new(EpollFlags::empty(), token));
        }
        Served::Nothing
    }

    /// The connection is to be made anew. Its place is kept until then; epoll must not tell of it again.
    fn refused(&mut self, epoll: &Epoll) -> Served {
        if let Some(socket) = &self.sender {
            let _ = epoll.delete(socket);
        }
        (self.sent, self.established) = (0, false);
        Served::Refused
    }

    /// The receiver has something, or has failed.
    pub(super) fn receive(&mut self, buffers: &mut Buffers) -> Served {
        let Some(socket) = &self.receiver else { return Served::Nothing };
        match socket.recv_with_flags(&mut buffers.nothing, libc::MSG_TRUNC) {
            Ok(0) => Served::Broken,
            Ok(bytes) => {
                self.received += bytes as u64;
                Served::Received(bytes as u64)
            }
            Err(e) if is_momentary(&e) => Served::Nothing,
            Err(_) => Served::Broken,
        }
    }

    /// Notes that something has been received now. Of the time since it last was, what comes after an event counts as silence after that event, if the
    /// flow moved before it. `events` are in order.
    pub(super) fn hear(&mut self, now: Instant, events: &[Instant]) {
        let Some((begun, since)) = self.heard else {
            self.heard = Some((now, now));
            return;
        };
        self.heard = Some((begun, now));
        let past = events.partition_point(|at| *at < now);
        // The event in whose time the silence began, and those of the same instant; none before the flow moved.
        let latest = events.partition_point(|at| *at <= since).checked_sub(1).map(|i| events[i]);
        let first = latest.map_or(0, |latest| events.partition_point(|at| *at < latest));
        let first = first.max(events.partition_point(|at| *at < begun));
        if past > self.silent.len() {
            self.silent.resize(past, Duration::ZERO);
        }
        for (silent, at) in self.silent[..past].iter_mut().zip(events).skip(first) {
            *silent = (*silent).max(now.saturating_since(since.max(*at)));
        }
    }

    /// The run ends: what has moved, and has not ended, was silent since.
    pub(super) fn hear_no_more(&mut self, now: Instant, events: &[Instant]) {
        if self.heard.is_some() && self.end().is_none() {
            self.hear(now, events);
        }
    }

    /// What TCP says of a flow that moves.
    pub(super) fn live_info(&self) -> Option<TcpInfo> {
        self.sender.as_ref().filter(|_| self.established).and_then(tcp_info)
    }

    /// Notes what TCP says and lets go of the sockets, the sooner the better for whoever shares the machine; an ended flow stays so.
    pub(super) fn close(&mut self, state: State) {
        if self.sender.is_some() {
            self.state = state;
            self.tcp = self.live_info().unwrap_or(self.tcp);
        }
        for socket in [self.receiver.take(), self.sender.take()].into_iter().flatten() {
            let _ = socket.set_linger(Some(StdDuration::ZERO));
        }
    }
}

fn is_momentary(e: &io::Error) -> bool {
    matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

/// What is sent or received by one call at the most.
const CHUNK: usize = 256 * 1024;

#[cfg(test)]
mod tests {
    use weft_fabric::{HostId, traffic::Size};

    use super::*;

    fn ms(at: u64) -> Instant {
        Instant::ZERO + Duration::from_ms(at)
    }

    fn flow() -> Flow {
        Flow::new(FlowSpec { src: HostId(0), dst: HostId(1), start: ms(0), size: Size::Infinite })
    }

    #[test]
    fn silence_counts_from_the_event_on() {
        let events = [ms(100), ms(200), ms(200), ms(900)];
        let mut flow = flow();
        // 50 ms before any event; 30 ms across the first; 150 across both of the second; 700 across the last.
        for at in [0, 50, 90, 120, 130, 280, 290, 990] {
            flow.hear(ms(at), &events);
        }
        let silent = |flow: &Flow| flow.silent.iter().map(|d| d.as_ps() / 1_000_000_000).collect::<Vec<_>>();
        assert_eq!(silent(&flow), [150, 700, 700, 90]);
        flow.hear_no_more(ms(1500), &events);
        assert_eq!(silent(&flow), [150, 700, 700, 510], "to the end of the run");
    }

    #[test]
    fn a_flow_that_did_not_move_yet_is_not_silent() {
        let events = [ms(100), ms(200), ms(300)];
        let mut late = flow();
        late.hear(ms(150), &events);
        late.hear(ms(260), &events);
        assert_eq!(late.silent, [Duration::ZERO, Duration::from_ms(60)]);
        let mut never = flow();
        never.hear_no_more(ms(500), &events);
        assert!(never.silent.is_empty());
        let mut ended = flow();
        ended.hear(ms(50), &events);
        ended.state = State::Ended(ms(50));
        ended.hear_no_more(ms(500), &events);
        assert!(ended.silent.is_empty());
    }
}
