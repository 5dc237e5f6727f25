//! One flow: its two sockets, the bytes sent and received, its outages, and the state of its TCP.

use std::io::{self, ErrorKind};
use std::mem::MaybeUninit;
use std::net::Ipv4Addr;
use std::time::Duration as StdDuration;

use nix::sys::epoll::{Epoll, EpollEvent, EpollFlags};
use socket2::Socket;
use weft_fabric::traffic::{FlowSpec, Size};
use weft_fabric::{Duration, Instant};

use super::mptcp;
use super::tcp_info::{TcpInfo, tcp_infos};
use crate::paths::Connection;

/// The buffer that all flows send from, and one to receive into, which stays unwritten (MSG_TRUNC).
pub(super) struct Buffers {
    zeros: Vec<u8>,
    discard: Vec<MaybeUninit<u8>>,
}

impl Buffers {
    pub(super) fn new() -> Self {
        Self { zeros: vec![0; CHUNK], discard: vec![MaybeUninit::uninit(); CHUNK] }
    }
}

/// The state of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// It has bytes left to transfer.
    Open,
    /// Its last byte was received at that time.
    Ended(Instant),
    /// Its connection ended before.
    Broken,
    /// Its receiver refused it.
    Refused,
}

/// A flow, from its start on.
pub(crate) struct Flow {
    pub spec: FlowSpec,
    pub state: State,
    /// Bytes received.
    pub received: u64,
    /// The last TCP_INFO.
    pub tcp: TcpInfo,
    /// The longest outage after each event; see [`Self::record_reception`].
    pub outages: Vec<Duration>,
    /// The times of the first and of the last reception.
    received_at: Option<(Instant, Instant)>,
    /// Whether its receiver has reset its connection, because it had enough flows.
    pub refused: bool,
    connection: Connection,
    is_mptcp: bool,
    /// Connections that it has tried to open.
    attempts: u32,
    sent: u64,
    established: bool,
    sender: Option<Socket>,
    receiver: Option<Socket>,
}

/// The result of an event of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Served {
    Nothing,
    Received(u64),
    /// The connection could not be opened.
    Refused,
    /// The connection ended.
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
            outages: Vec::new(),
            received_at: None,
            refused: false,
            connection: Connection { from: nowhere, to: nowhere },
            is_mptcp: false,
            attempts: 0,
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

    /// The number of the attempt to connect that begins, from 0.
    pub(super) const fn next_attempt(&mut self) -> u32 {
        self.attempts += 1;
        self.attempts - 1
    }

    /// A connection is being opened; returns the one of an earlier attempt, if any.
    pub(super) fn connecting(&mut self, socket: Socket, connection: Connection, is_mptcp: bool) -> Option<Connection> {
        self.is_mptcp = is_mptcp;
        let is_retry = self.sender.replace(socket).is_some();
        let old = std::mem::replace(&mut self.connection, connection);
        is_retry.then_some(old)
    }

    pub(super) fn accepted(&mut self, socket: Socket) {
        self.receiver = Some(socket);
    }

    /// The receiver has enough flows: the connection is reset, which the sender notices.
    pub(super) fn refuse(&mut self, socket: &Socket) {
        self.refused = true;
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
                return self.reset_sender(epoll);
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
            // The receiver's kernel gave up the handshake after too many losses: no data has been delivered.
            Err(_) if self.receiver.is_none() => return self.reset_sender(epoll),
            Err(_) => return Served::Broken,
        }
        if self.spec.size == Size::Finite(weft_fabric::Bytes(self.sent)) {
            // Everything has been sent: only errors are of interest from now on.
            let _ = epoll.modify(socket, &mut EpollEvent::new(EpollFlags::empty(), token));
        }
        Served::Nothing
    }

    /// The connection has to be opened again: until then epoll must not report the old socket.
    fn reset_sender(&mut self, epoll: &Epoll) -> Served {
        if let Some(socket) = &self.sender {
            let _ = epoll.delete(socket);
        }
        (self.sent, self.established) = (0, false);
        Served::Refused
    }

    /// The receiver has data, or has failed.
    pub(super) fn receive(&mut self, buffers: &mut Buffers) -> Served {
        let Some(socket) = &self.receiver else { return Served::Nothing };
        match socket.recv_with_flags(&mut buffers.discard, libc::MSG_TRUNC) {
            Ok(0) => Served::Broken,
            Ok(bytes) => {
                self.received += bytes as u64;
                Served::Received(bytes as u64)
            }
            Err(e) if is_momentary(&e) => Served::Nothing,
            Err(_) => Served::Broken,
        }
    }

    /// Records a reception. Of the time since the previous one, the part after an event counts as an outage after that event, if the flow had received
    /// something before the event. `events` are in order.
    pub(super) fn record_reception(&mut self, now: Instant, events: &[Instant]) {
        let Some((begun, since)) = self.received_at else {
            self.received_at = Some((now, now));
            return;
        };
        self.received_at = Some((begun, now));
        let past = events.partition_point(|at| *at < now);
        // The last event before the outage began, and those of the same time; none before the first reception.
        let latest = events.partition_point(|at| *at <= since).checked_sub(1).map(|i| events[i]);
        let first = latest.map_or(0, |latest| events.partition_point(|at| *at < latest));
        let first = first.max(events.partition_point(|at| *at < begun));
        if past > self.outages.len() {
            self.outages.resize(past, Duration::ZERO);
        }
        for (outage, at) in self.outages[..past].iter_mut().zip(events).skip(first) {
            *outage = (*outage).max(now.saturating_since(since.max(*at)));
        }
    }

    /// Records the end of the run: for a flow that has begun and not ended, the time since its last reception is an outage.
    pub(super) fn record_end(&mut self, now: Instant, events: &[Instant]) {
        if self.received_at.is_some() && self.end().is_none() {
            self.record_reception(now, events);
        }
    }

    /// TCP_INFO of an established connection, of each subflow.
    pub(super) fn live_infos(&self) -> Vec<TcpInfo> {
        let sender = self.sender.as_ref().filter(|_| self.established);
        sender.map(|sender| tcp_infos(sender, self.is_mptcp)).unwrap_or_default()
    }

    /// The token by which subflows are added to its connection of MPTCP, as soon as they can be.
    pub(super) fn token(&self) -> Option<u32> {
        self.sender.as_ref().filter(|_| self.established).and_then(mptcp::token)
    }

    /// Records TCP_INFO and closes the sockets; the state of a flow that has ended stays.
    pub(super) fn close(&mut self, state: State) {
        if self.sender.is_some() {
            self.state = state;
            self.tcp = TcpInfo::total(&self.live_infos()).unwrap_or(self.tcp);
        }
        for socket in [self.receiver.take(), self.sender.take()].into_iter().flatten() {
            let _ = socket.set_linger(Some(StdDuration::ZERO));
        }
    }
}

fn is_momentary(e: &io::Error) -> bool {
    matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

/// Bytes sent or received by one call, at most.
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
    fn outages_count_from_the_event_on() {
        let events = [ms(100), ms(200), ms(200), ms(900)];
        let mut flow = flow();
        // 50 ms before any event; 30 ms across the first; 150 across both of the second; 700 across the last.
        for at in [0, 50, 90, 120, 130, 280, 290, 990] {
            flow.record_reception(ms(at), &events);
        }
        let outages = |flow: &Flow| flow.outages.iter().map(|d| d.as_ps() / 1_000_000_000).collect::<Vec<_>>();
        assert_eq!(outages(&flow), [150, 700, 700, 90]);
        flow.record_end(ms(1500), &events);
        assert_eq!(outages(&flow), [150, 700, 700, 510], "to the end of the run");
    }

    #[test]
    fn a_flow_has_no_outage_before_its_first_byte() {
        let events = [ms(100), ms(200), ms(300)];
        let mut late = flow();
        late.record_reception(ms(150), &events);
        late.record_reception(ms(260), &events);
        assert_eq!(late.outages, [Duration::ZERO, Duration::from_ms(60)]);
        let mut never = flow();
        never.record_end(ms(500), &events);
        assert!(never.outages.is_empty());
        let mut ended = flow();
        ended.record_reception(ms(50), &events);
        ended.state = State::Ended(ms(50));
        ended.record_end(ms(500), &events);
        assert!(ended.outages.is_empty());
    }
}
