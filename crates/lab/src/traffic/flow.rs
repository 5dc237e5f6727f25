//! One flow: its two sockets, what was sent and received, and what TCP says of it.

use std::io::{self, ErrorKind};
use std::mem::MaybeUninit;
use std::net::Ipv4Addr;
use std::time::Duration;

use nix::sys::epoll::{Epoll, EpollEvent, EpollFlags};
use socket2::Socket;
use weft_fabric::Instant;
use weft_fabric::traffic::{FlowSpec, Size};

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
}

/// A flow, from its start on.
pub(crate) struct Flow {
    pub spec: FlowSpec,
    pub state: State,
    /// Bytes received.
    pub received: u64,
    /// What TCP said last.
    pub tcp: TcpInfo,
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
            let _ = socket.set_linger(Some(Duration::ZERO));
        }
    }
}

fn is_momentary(e: &io::Error) -> bool {
    matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

/// What is sent or received by one call at the most.
const CHUNK: usize = 256 * 1024;
