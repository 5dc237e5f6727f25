//! Streams: messages with their lengths before them, over TLS with client certificates, or bare with keyed MACs.
//!
//! ```text
//!   accept --> TLS: the certificate says who it is    --+--> frames --> the machine's inbox
//!          --> bare: tag, cookie and number, as by UDP --+<-- queue <-- the machine's replies
//!                                                        +-- documents, tenants' records: one request after the other
//! ```
//! What a stream may cost is bounded ([`budget`](super::budget)), and for how long: 5 s to prove who it is, 5 s for a message that has begun and for one that is
//! sent, 60 s without a message unless it watches.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, mpsc};
use tokio_rustls::TlsAcceptor;
use weft_control::directory::PrincipalId;
use weft_control::directory::documents::Requester;
use weft_control::directory::request::{Ask, StreamId};
use weft_control::directory::server::Input;
use weft_control::wire::directory::{Frame, HEADER, Header, Kind, Message, TAG, set_version};

use super::authentication::{Admitted, Authentication, Taggers};
use super::budget::{Budget, Charge, Guest, Seat, prepare};
use super::certificate::Certificate;
use super::core::Core;
use super::documents::{Documents, Reply};
use super::tenants::Tenants;
use super::tls;
use crate::client::random;

/// Messages that wait for a slow reader; then its stream ends, and it must begin again.
const QUEUE: usize = 1024;

/// To prove who it is, for a message to arrive once it has begun, and for one to be taken by the other side.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Without a message from the other side, unless it watches. Clients open another stream after half of it.
const IDLE: Duration = Duration::from_secs(60);

/// While so much waits for the other side, nothing more is read from it.
const HIGH_WATER: usize = 64 << 10;

/// Bytes of a message that need no budget.
const SMALL: usize = 4096;

/// The open streams.
pub struct Streams {
    open: Mutex<FxHashMap<StreamId, Open>>,
    next: AtomicU64,
    budget: Arc<Budget>,
}

struct Open {
    queue: mpsc::Sender<Queued>,
    close: Arc<Notify>,
    /// Bytes of its budget that are in use.
    used: Arc<AtomicUsize>,
    may_list: bool,
    /// What makes the tags of replies; `None` over TLS, where they are zeros.
    taggers: Option<Taggers>,
    /// Of the protocol, which the other end speaks.
    version: u8,
}

/// A message on its way out, and its bytes' place in the budget.
struct Queued {
    message: Vec<u8>,
    _charge: Charge,
}

impl Streams {
    /// None yet.
    pub fn new(budget: Arc<Budget>) -> Self {
        Self { open: Mutex::default(), next: AtomicU64::new(0), budget }
    }

    /// Bytes of the budget that are in use.
    pub fn bytes(&self) -> usize {
        self.budget.bytes()
    }

    /// Appends the tag, and sends a reply; a stream whose queue is full is closed.
    pub fn reply(&self, core: &Core, stream: StreamId, principal: PrincipalId, mut message: Vec<u8>) {
        let open = self.open.lock();
        let Some(to) = open.get(&stream) else { return };
        set_version(&mut message, to.version);
        match &to.taggers {
            None => message.extend_from_slice(&[0; TAG]),
            Some(taggers) => {
                let Some(tagger) = taggers.lock().get(&principal).cloned() else { return };
                tagger.seal(&mut message, 0);
            }
        }
        let charge = self.budget.charge(&to.used, principal, to.may_list, message.len());
        let sent = charge.is_some_and(|charge| to.queue.try_send(Queued { message, _charge: charge }).is_ok());
        if !sent {
            to.close.notify_one();
            core.metrics.dropped("slow_stream", 1);
        }
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.open.lock().len()
    }

    fn add(&self, open: Open) -> StreamId {
        let id = StreamId(self.next.fetch_add(1, Ordering::Relaxed));
        self.open.lock().insert(id, open);
        id
    }
}

/// What a stream needs of the server.
struct All {
    core: Arc<Core>,
    streams: Arc<Streams>,
    documents: Arc<Documents>,
    tenants: Arc<Tenants>,
}

/// Accepts streams for ever.
pub async fn accept(
    core: Arc<Core>,
    streams: Arc<Streams>,
    listener: TcpListener,
    certificate: Option<Arc<Certificate>>,
    (documents, tenants): (Arc<Documents>, Arc<Tenants>),
) {
    let server = Arc::new(All { core, streams, documents, tenants });
    let All { core, streams, .. } = &*server;
    loop {
        let (tcp, from) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                // Out of descriptors: those that are open go on.
                tracing::warn!(%error, "a stream cannot be accepted");
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        prepare(&tcp);
        let close = Arc::new(Notify::new());
        let (guest, is_full) = streams.budget.connected(&close);
        if is_full {
            core.metrics.dropped("unauthenticated", 1);
        }
        let tls = certificate.as_ref().map(|it| it.acceptor());
        tokio::spawn(greet(server.clone(), tcp, from, tls, (guest, close)));
    }
}

async fn greet(
    server: Arc<All>,
    tcp: TcpStream,
    from: SocketAddr,
    tls: Option<TlsAcceptor>,
    (guest, close): (Guest, Arc<Notify>),
) {
    let core = &server.core;
    let Some(acceptor) = tls else {
        let cookie = u64::from_ne_bytes(random()).max(1);
        let authentication = Authentication::Tagged { cookie, taggers: Taggers::default(), windows: FxHashMap::default() };
        return converse(&server, tcp, authentication, Proof::Due(guest, Instant::now() + TIMEOUT), close).await;
    };
    let accepted = tokio::select! {
        accepted = tokio::time::timeout(TIMEOUT, acceptor.accept(tcp)) => accepted,
        () = close.notified() => return,
    };
    match accepted {
        Ok(Ok(stream)) => match tls::principal(stream.get_ref().1) {
            Some(principal) => {
                drop(guest);
                let Some(seat) = server.seat(principal) else { return };
                converse(&server, stream, Authentication::Certified(principal), Proof::Given(seat, principal), close).await;
            }
            None => {
                tracing::warn!(%from, "a certificate's common name is not principal-N");
                core.metrics.dropped("certificate", 1);
            }
        },
        Ok(Err(error)) => {
            tracing::debug!(%from, %error, "a TLS handshake failed");
            core.metrics.dropped("tls", 1);
        }
        Err(_) => core.metrics.dropped("tls", 1),
    }
}

/// Whether a stream is authenticated.
enum Proof {
    /// Not yet; until when it must.
    Due(#[allow(dead_code)] Guest, Instant), // what it holds is let go with it
    /// As this principal.
    Given(Seat, PrincipalId),
}

async fn converse(
    server: &All,
    wire: impl AsyncRead + AsyncWrite,
    authentication: Authentication,
    proof: Proof,
    close: Arc<Notify>,
) {
    let All { core, streams, .. } = server;
    let (queue, replies) = mpsc::channel(QUEUE);
    let taggers = match &authentication {
        Authentication::Certified(_) => None,
        Authentication::Tagged { taggers, .. } => Some(taggers.clone()),
    };
    let used = Arc::new(AtomicUsize::new(0));
    let version = core.config.versions.newest();
    let may_list = matches!(&proof, Proof::Given(seat, _) if seat.may_list());
    let id = streams.add(Open { queue, close: close.clone(), used: used.clone(), may_list, taggers, version });
    let (reader, writer) = tokio::io::split(wire);
    let mut conversation = Conversation { server, id, used, authentication, proof, watches: false, version };
    tokio::select! {
        () = conversation.read(reader) => {}
        () = write(writer, replies) => {}
        () = close.notified() => {}
    }
    streams.open.lock().remove(&id);
    server.documents.close(id);
    server.tenants.close(id);
    core.post(Input::StreamClosed(id));
}

/// The reading side of a stream.
struct Conversation<'a> {
    server: &'a All,
    id: StreamId,
    used: Arc<AtomicUsize>,
    authentication: Authentication,
    proof: Proof,
    watches: bool,
    version: u8,
}

impl Conversation<'_> {
    /// Until the stream ends, says something that makes no sense, or is silent for too long.
    async fn read(&mut self, reader: impl AsyncRead) {
        // Larger reads go past the buffer.
        let mut reader = std::pin::pin!(tokio::io::BufReader::with_capacity(SMALL, reader));
        let core = &self.server.core;
        loop {
            // Who does not read is not read from.
            while self.used.load(Ordering::Relaxed) > HIGH_WATER {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            match tokio::time::timeout(self.timeout(), reader.fill_buf()).await {
                Ok(Ok([])) | Ok(Err(_)) => return,
                Ok(Ok(_)) => {}
                Err(_) => {
                    return core
                        .metrics
                        .dropped(if matches!(self.proof, Proof::Due(..)) { "unauthenticated" } else { "idle" }, 1);
                }
            }
            let frame = tokio::time::timeout(TIMEOUT, self.frame(&mut reader)).await;
            let taken = match frame {
                Ok(Ok((bytes, _charge))) => self.take(&bytes).await,
                Ok(Err(reason)) => Err(reason),
                Err(_) => Err(Some("stalled")),
            };
            if let Err(reason) = taken {
                reason.into_iter().for_each(|reason| core.metrics.dropped(reason, 1));
                return;
            }
        }
    }

    /// How long the next message may take to begin.
    fn timeout(&self) -> Duration {
        match &self.proof {
            Proof::Due(_, until) => until.saturating_duration_since(Instant::now()),
            Proof::Given(..) if self.watches => Duration::from_secs(u64::from(u32::MAX)),
            Proof::Given(..) => IDLE,
        }
    }

    /// A message. One that is large has its place in the budget while it is in memory.
    async fn frame(&self, reader: &mut (impl AsyncRead + Unpin)) -> Result<(Vec<u8>, Option<Charge>), Option<&'static str>> {
        let length = usize::from(reader.read_u16().await.map_err(|_| None)?);
        let (principal, may_list) = match &self.proof {
            Proof::Due(..) => (PrincipalId(0), false),
            Proof::Given(seat, principal) => (*principal, seat.may_list()),
        };
        let budget = &self.server.streams.budget;
        let charge = if length > SMALL {
            Some(budget.charge(&self.used, principal, may_list, length).ok_or(Some("stream_bytes"))?)
        } else {
            None
        };
        let mut bytes = vec![0; length];
        reader.read_exact(&mut bytes).await.map_err(|_| None)?;
        Ok((bytes, charge))
    }

    /// Does what a message asks for; or the reason for which the stream is to end.
    async fn take(&mut self, bytes: &[u8]) -> Result<(), Option<&'static str>> {
        let All { core, streams, .. } = self.server;
        let admitted = self.authentication.admit(core, self.id, bytes);
        if let Ok(frame) = Frame::parse_as(core.config.versions, bytes)
            && frame.version != self.version
        {
            self.version = frame.version;
            if let Some(open) = streams.open.lock().get_mut(&self.id) {
                open.version = frame.version;
            }
        }
        match admitted {
            Ok(Admitted::Request(request)) => {
                self.authenticate(request.principal)?;
                core.metrics.request("stream");
                self.watches |= matches!(request.ask, Ask::Watch(_)) && self.server.may_list(request.principal);
                // A client on a stream waits rather than being dropped: the next message is read when there is room.
                while !core.ask(Input::Request((*request).clone())) {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
                Ok(())
            }
            Ok(Admitted::Stored(principal)) => {
                self.authenticate(principal)?;
                core.metrics.request("stream");
                let (replies, request) = self.server.stored(self.id, bytes).await.map_err(Some)?;
                for Reply { kind, body } in replies {
                    // Of a long answer only what the other side takes is on its way.
                    while self.used.load(Ordering::Relaxed) > HIGH_WATER {
                        tokio::time::sleep(Duration::from_millis(5)).await;
                    }
                    let mut message = Vec::with_capacity(HEADER + body.len() + TAG);
                    Header { kind, principal, cookie: 0, request }.emit(&mut message);
                    message.extend_from_slice(&body);
                    streams.reply(core, self.id, principal, message);
                }
                Ok(())
            }
            Ok(Admitted::Answer(principal, message)) => {
                streams.reply(core, self.id, principal, message);
                Ok(())
            }
            Ok(Admitted::Ignored) => Ok(()),
            Ok(Admitted::Unsupported(principal, message)) => {
                streams.reply(core, self.id, principal, message);
                // Time for the answer to leave.
                tokio::time::sleep(Duration::from_millis(50)).await;
                Err(Some("version"))
            }
            Err(reason) => Err(Some(reason)),
        }
    }

    /// A stream takes a seat when it is authenticated.
    fn authenticate(&mut self, principal: PrincipalId) -> Result<(), Option<&'static str>> {
        if self.server.is_denied(principal) {
            return Err(Some("denied"));
        }
        if matches!(self.proof, Proof::Due(..)) {
            let seat = self.server.seat(principal).ok_or(None)?;
            if let Some(open) = self.server.streams.open.lock().get_mut(&self.id) {
                open.may_list = seat.may_list();
            }
            self.proof = Proof::Given(seat, principal);
        }
        Ok(())
    }
}

async fn write(writer: impl AsyncWrite, mut replies: mpsc::Receiver<Queued>) {
    let mut writer = std::pin::pin!(writer);
    let (mut out, mut leaving) = (Vec::new(), Vec::new());
    while let Some(first) = replies.recv().await {
        let mut next = Some(first);
        while let Some(queued) = next.take() {
            out.extend_from_slice(&(queued.message.len() as u16).to_be_bytes());
            out.extend_from_slice(&queued.message);
            leaving.push(queued);
            if out.len() < HIGH_WATER {
                next = replies.try_recv().ok();
            }
        }
        let written = async {
            writer.write_all(&out).await?;
            writer.flush().await
        };
        if !matches!(tokio::time::timeout(TIMEOUT, written).await, Ok(Ok(()))) {
            return;
        }
        leaving.clear();
        // Not kept for a stream that is idle.
        out = Vec::new();
    }
}

impl All {
    fn may_list(&self, principal: PrincipalId) -> bool {
        self.core.server.read().shared().policy.may_list(principal)
    }

    fn is_denied(&self, principal: PrincipalId) -> bool {
        self.core.server.read().shared().denied.contains(&principal)
    }

    /// A place for a stream of this principal, if there is one.
    fn seat(&self, principal: PrincipalId) -> Option<Seat> {
        if self.is_denied(principal) {
            self.core.metrics.dropped("denied", 1);
            return None;
        }
        let seat = self.streams.budget.authenticated(principal, self.may_list(principal));
        if seat.is_none() {
            self.core.metrics.dropped("streams", 1);
        }
        seat
    }

    /// Answers what concerns a document or tenants' records; and the request's number.
    async fn stored(&self, stream: StreamId, message: &[u8]) -> Result<(Vec<Reply>, u64), &'static str> {
        let frame = Frame::parse_as(self.core.config.versions, message).map_err(|_| "malformed")?;
        let Header { principal, request, .. } = frame.header;
        let from = Requester { stream, principal, request };
        let of = |kind| move |body| Reply { kind, body };
        let replies = match Message::parse(frame.header.kind, frame.body) {
            Ok(Message::Fetch(fetch)) => self.documents.fetch(from, fetch).await.into_iter().collect(),
            Ok(Message::Publish(part)) => self.documents.publish(from, part).await.into_iter().collect(),
            Ok(Message::Subscribe(asked)) => {
                self.tenants.subscribe(from, &asked).await?.into_iter().map(of(Kind::Records)).collect()
            }
            Ok(Message::Browse(asked)) => self.tenants.browse(from, &asked).await.into_iter().map(of(Kind::Records)).collect(),
            Ok(Message::Amend(asked)) => vec![of(Kind::Amended)(self.tenants.amend(from, &asked).await?)],
            _ => return Err("malformed"),
        };
        Ok((replies, request))
    }
}
