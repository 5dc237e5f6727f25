//! Operators' streams to servers: messages arrive whole and in order, until the server crashes, the link fails or the operator closes the stream.
//! Its end overtakes what is under way, as a reset connection's does.

use weft_control::directory::PrincipalId;
use weft_control::directory::budget::StreamLimits;
use weft_control::directory::documents;
use weft_control::directory::documents::Requester;
use weft_control::directory::request::{Ask, Client, Request, StreamId};
use weft_control::directory::server;
use weft_control::wire::directory::{Frame, HEADER, Header, Kind, Message, TAG};
use weft_fabric::Instant;

use super::super::network::Node;
use super::outbox::Outbox;
use super::{Cluster, Event, Seen, operator_principal};

/// How many streams a server has at most: the daemon's limits.
pub(super) const LIMITS: StreamLimits = StreamLimits { unauthenticated: 1024, hosts: 4096, principal: 64, reserved: 512 };

/// An open stream.
#[derive(Debug)]
pub(super) struct Stream {
    operator: u16,
    pub(super) server: u16,
    pub(super) principal: PrincipalId,
    pub(super) may_list: bool,
    /// When the last message to the server, and the last to the operator, arrives.
    pub(super) last: [Instant; 2],
    pub(super) outbox: Outbox,
}

impl Cluster {
    /// An operator opens a stream; `None` if the server does not run, cannot be reached or has too many.
    pub fn open_stream(&mut self, operator: u16, server: u16) -> Option<StreamId> {
        if self.server(server).is_none() || !self.is_linked(operator, server) {
            return None;
        }
        let principal = operator_principal(operator);
        let node = &mut self.servers[usize::from(server)];
        let may_list = node.policy.may_list(principal);
        if !node.usage.open(principal, may_list) {
            return None;
        }
        self.last_stream += 1;
        let stream = StreamId(self.last_stream);
        let open = Stream { operator, server, principal, may_list, last: [self.now; 2], outbox: Outbox::default() };
        self.streams.insert(stream, open);
        Some(stream)
    }

    /// The operator sends a request; nothing happens if the stream has ended.
    pub fn send_request(&mut self, stream: StreamId, request: u64, message: &Message<'_>) {
        let Some(open) = self.streams.get_mut(&stream) else { return };
        let mut bytes = Vec::new();
        Header { kind: message.kind(), principal: open.principal, cookie: 0, request }.emit(&mut bytes);
        message.emit(&mut bytes);
        let at = (self.now + self.network.latency()).max(open.last[0]);
        open.last[0] = at;
        self.schedule(at, Event::StreamRequest { stream, message: bytes });
    }

    /// The operator closes a stream.
    pub fn close_stream(&mut self, stream: StreamId) {
        let Some(Stream { operator, server, principal, may_list, mut outbox, .. }) = self.streams.remove(&stream) else { return };
        let after = self.network.latency();
        let node = &mut self.servers[usize::from(server)];
        outbox.end(&mut node.usage, principal);
        node.usage.close(principal, may_list);
        let life = node.life;
        self.schedule(self.now + after, Event::StreamEnded { server, life, operator, stream });
    }

    /// Whose a stream is.
    pub(super) fn principal_of(&self, stream: StreamId) -> Option<PrincipalId> {
        self.streams.get(&stream).map(|open| open.principal)
    }

    /// A server answers a request about documents or tenants' records.
    pub(super) fn answer(&mut self, to: Requester, kind: Kind, bodies: Vec<Vec<u8>>) {
        let message = |body: Vec<u8>| {
            let mut message = Vec::with_capacity(HEADER + body.len());
            Header { kind, principal: to.principal, cookie: 0, request: to.request }.emit(&mut message);
            message.extend_from_slice(&body);
            message
        };
        self.reply_stored(to.stream, bodies.into_iter().map(message).collect());
    }

    /// A server takes a request, which it verifies as the daemon does. It reads no other before it has answered one about documents or
    /// tenants' records.
    pub(super) fn take_request(&mut self, stream: StreamId, message: &[u8]) {
        let Some(&Stream { server, .. }) = self.streams.get(&stream) else { return };
        let sealed = [message, &[0; TAG]].concat();
        let Ok(Frame { header, body, .. }) = Frame::parse(&sealed) else { return };
        let Header { kind, principal, request, .. } = header;
        let from = Requester { stream, principal, request };
        match Message::parse(kind, body) {
            Ok(Message::Fetch(fetch)) => {
                self.set_busy(stream);
                self.input_documents(server, documents::Input::Fetch { from, fetch });
            }
            Ok(Message::Publish(part)) => {
                self.set_busy(stream);
                let policy = self.servers[usize::from(server)].policy.clone();
                self.input_documents(server, documents::Input::Publish { from, policy: &policy, part });
            }
            Ok(message @ (Message::Subscribe(_) | Message::Browse(_) | Message::Amend(_))) => {
                self.set_busy(stream);
                self.receive_tenants(server, from, &message);
            }
            _ => {
                let Ok(ask) = Ask::parse(kind, body) else { return };
                if ask.permitted(&self.servers[usize::from(server)].policy, principal) {
                    let client = Client::Stream { stream, request };
                    self.input_server(server, server::Input::Request(Request { client, principal, ask }));
                }
            }
        }
    }

    /// The operator has read a reply.
    pub(super) fn receive_reply(&mut self, stream: StreamId, message: &[u8]) {
        let Some(&Stream { operator, .. }) = self.streams.get(&stream) else { return };
        let sealed = [message, &[0; TAG]].concat();
        let Ok(Frame { header: Header { kind, request, .. }, body, .. }) = Frame::parse(&sealed) else { return };
        self.seen.push((self.now, Seen::StreamMessage { operator, stream, request, kind, body: body.to_vec() }));
    }

    /// A server notices that a stream has ended.
    pub(super) fn end_stream(&mut self, server: u16, life: u32, operator: u16, stream: StreamId) {
        let node = &self.servers[usize::from(server)];
        if node.life == life && node.machine.is_some() {
            self.input_server(server, server::Input::StreamClosed(stream));
            self.input_documents(server, documents::Input::StreamClosed(stream));
            self.close_tenants(server, operator, stream);
        }
    }

    /// Streams end whose link has failed.
    pub(super) fn check_streams(&mut self) {
        let failed: Vec<(u16, u16)> = self
            .streams
            .values()
            .map(|stream| (stream.operator, stream.server))
            .filter(|&(operator, server)| !self.is_linked(operator, server))
            .collect();
        if !failed.is_empty() {
            self.break_streams(|operator, server| failed.contains(&(operator, server)));
        }
    }

    /// Breaks the streams between operators and servers that `which` names; both sides notice.
    pub(super) fn break_streams(&mut self, which: impl Fn(u16, u16) -> bool) {
        let broken: Vec<StreamId> =
            self.streams.iter().filter(|(_, it)| which(it.operator, it.server)).map(|(&stream, _)| stream).collect();
        broken.into_iter().for_each(|stream| self.break_stream(stream));
    }

    /// A stream ends, and both sides notice.
    pub(super) fn break_stream(&mut self, stream: StreamId) {
        let Some(&Stream { operator, .. }) = self.streams.get(&stream) else { return };
        self.close_stream(stream);
        let after = self.network.latency();
        self.schedule(self.now + after, Event::StreamBroken { operator, stream });
    }

    fn is_linked(&self, operator: u16, server: u16) -> bool {
        let (operator, server) = (Node::Operator(operator), Node::Server(server));
        self.network.is_open(operator, server) && self.network.is_open(server, operator)
    }
}
