//! Streams: messages with their lengths before them, over TLS with client certificates, or bare with keyed MACs.
//!
//! ```text
//!   accept --> TLS: the certificate says who it is    --+--> frames --> the machine's inbox
//!          --> bare: tag, cookie and number, as by UDP --+<-- queue <-- the machine's replies
//!                                                        +-- documents: one request after the other
//! ```

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, mpsc};
use tokio_rustls::TlsAcceptor;
use weft_control::directory::PrincipalId;
use weft_control::directory::auth::{ReplayWindow, Tagger};
use weft_control::directory::documents::Requester;
use weft_control::directory::request::{Ask, Client, Request, StreamId};
use weft_control::directory::server::Input;
use weft_control::wire::directory::{Frame, HEADER, Header, Kind, Message, TAG};

use super::core::Core;
use super::documents::{Documents, Reply};
use super::tls;
use crate::client::random;

/// Streams at once; more are closed at once.
const STREAMS: usize = 4096;

/// Messages that wait for a slow reader; then its stream ends, and it must begin again.
const QUEUE: usize = 1024;

/// For a TLS handshake, and for a message to be taken by the other side.
const TIMEOUT: Duration = Duration::from_secs(5);

/// The open streams.
#[derive(Default)]
pub struct Streams {
    open: Mutex<FxHashMap<StreamId, Open>>,
    next: AtomicU64,
}

struct Open {
    queue: mpsc::Sender<Vec<u8>>,
    close: Arc<Notify>,
    /// What makes the tags of replies; `None` over TLS, where they are zeros.
    taggers: Option<Taggers>,
}

/// Of the principals that a bare stream speaks for.
type Taggers = Arc<Mutex<FxHashMap<PrincipalId, Tagger>>>;

/// How the other end proves who it is.
enum Authentication {
    /// A certificate named it.
    Certified(PrincipalId),
    /// The principal whose tag each message has.
    Tagged { cookie: u64, taggers: Taggers, windows: FxHashMap<PrincipalId, ReplayWindow> },
}

/// Principals that one bare stream may speak for: a program on behalf of some, not a way to make the server keep ever more.
const PRINCIPALS: usize = 64;

impl Streams {
    /// Appends the tag, and sends a reply; a stream whose queue is full is closed.
    pub fn reply(&self, core: &Core, stream: StreamId, principal: PrincipalId, mut message: Vec<u8>) {
        let open = self.open.lock();
        let Some(to) = open.get(&stream) else { return };
        match &to.taggers {
            None => message.extend_from_slice(&[0; TAG]),
            Some(taggers) => {
                let Some(tagger) = taggers.lock().get(&principal).cloned() else { return };
                tagger.seal(&mut message, 0);
            }
        }
        if to.queue.try_send(message).is_err() {
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
}

/// Accepts streams for ever.
pub async fn accept(
    core: Arc<Core>,
    streams: Arc<Streams>,
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    documents: Arc<Documents>,
) {
    let server = Arc::new(All { core, streams, documents });
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
        if streams.count() >= STREAMS {
            core.metrics.dropped("streams", 1);
            continue;
        }
        prepare(&tcp);
        tokio::spawn(greet(server.clone(), tcp, from, tls.clone()));
    }
}

fn prepare(tcp: &TcpStream) {
    let _ = tcp.set_nodelay(true);
    let alive = socket2::TcpKeepalive::new().with_time(Duration::from_secs(30)).with_interval(Duration::from_secs(10));
    let _ = socket2::SockRef::from(tcp).set_tcp_keepalive(&alive);
}

async fn greet(server: Arc<All>, tcp: TcpStream, from: SocketAddr, tls: Option<TlsAcceptor>) {
    let core = &server.core;
    let Some(acceptor) = tls else {
        let cookie = u64::from_ne_bytes(random()).max(1);
        let authentication = Authentication::Tagged { cookie, taggers: Taggers::default(), windows: FxHashMap::default() };
        return converse(&server, tcp, authentication).await;
    };
    match tokio::time::timeout(TIMEOUT, acceptor.accept(tcp)).await {
        Ok(Ok(stream)) => match tls::principal(stream.get_ref().1) {
            Some(principal) => converse(&server, stream, Authentication::Certified(principal)).await,
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

async fn converse(server: &All, wire: impl AsyncRead + AsyncWrite, mut authentication: Authentication) {
    let All { core, streams, .. } = server;
    let (queue, replies) = mpsc::channel(QUEUE);
    let close = Arc::new(Notify::new());
    let taggers = match &authentication {
        Authentication::Certified(_) => None,
        Authentication::Tagged { taggers, .. } => Some(taggers.clone()),
    };
    let id = streams.add(Open { queue: queue.clone(), close: close.clone(), taggers });
    let (reader, writer) = tokio::io::split(wire);
    tokio::select! {
        () = read(server, id, reader, &mut authentication, &queue) => {}
        () = write(writer, replies) => {}
        () = close.notified() => {}
    }
    streams.open.lock().remove(&id);
    server.documents.close(id);
    core.post(Input::StreamClosed(id));
}

/// Until the stream ends or says something that makes no sense.
async fn read(
    server: &All,
    id: StreamId,
    reader: impl AsyncRead,
    authentication: &mut Authentication,
    queue: &mpsc::Sender<Vec<u8>>,
) {
    let core = &server.core;
    let mut reader = std::pin::pin!(tokio::io::BufReader::new(reader));
    let mut bytes = Vec::new();
    while let Ok(length) = reader.read_u16().await {
        bytes.resize(usize::from(length), 0);
        if reader.read_exact(&mut bytes).await.is_err() {
            return;
        }
        match authentication.admit(core, id, &bytes) {
            Ok(Admitted::Request(request)) => {
                core.metrics.request("stream");
                // A client on a stream waits rather than being dropped: the next message is read when there is room.
                while !core.ask(Input::Request((*request).clone())) {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
            }
            Ok(Admitted::Document) => {
                core.metrics.request("stream");
                if let Err(reason) = server.document(id, &bytes).await {
                    core.metrics.dropped(reason, 1);
                    return;
                }
            }
            Ok(Admitted::Challenge(message)) => {
                if queue.send(message).await.is_err() {
                    return;
                }
            }
            Ok(Admitted::Ignored) => {}
            Err(reason) => {
                core.metrics.dropped(reason, 1);
                return;
            }
        }
    }
}

async fn write(writer: impl AsyncWrite, mut replies: mpsc::Receiver<Vec<u8>>) {
    let mut writer = std::pin::pin!(writer);
    let mut out = Vec::new();
    while let Some(first) = replies.recv().await {
        let mut next = Some(first);
        while let Some(message) = next.take() {
            out.extend_from_slice(&(message.len() as u16).to_be_bytes());
            out.extend_from_slice(&message);
            if out.len() < 1 << 16 {
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
        out.clear();
    }
}

impl All {
    /// Answers what concerns a document.
    async fn document(&self, stream: StreamId, message: &[u8]) -> Result<(), &'static str> {
        let frame = Frame::parse(message).map_err(|_| "malformed")?;
        let Header { principal, request, .. } = frame.header;
        let from = Requester { stream, principal, request };
        let reply = match Message::parse(frame.header.kind, frame.body) {
            Ok(Message::Fetch(fetch)) => self.documents.fetch(from, fetch).await,
            Ok(Message::Publish(part)) => self.documents.publish(from, part).await,
            _ => return Err("malformed"),
        };
        let Some(Reply { kind, body }) = reply else { return Ok(()) };
        let mut message = Vec::with_capacity(HEADER + body.len() + TAG);
        Header { kind, principal, cookie: 0, request }.emit(&mut message);
        message.extend_from_slice(&body);
        self.streams.reply(&self.core, stream, principal, message);
        Ok(())
    }
}

/// What became of a message.
enum Admitted {
    Request(Box<Request>),
    /// It concerns a document.
    Document,
    Challenge(Vec<u8>),
    Ignored,
}

impl Authentication {
    /// Checks who sent a message and reads it; the reason for which the stream is to end.
    fn admit(&mut self, core: &Core, stream: StreamId, bytes: &[u8]) -> Result<Admitted, &'static str> {
        let frame = Frame::parse(bytes).map_err(|_| "malformed")?;
        let Header { kind, principal, cookie, request } = frame.header;
        match self {
            Self::Certified(certified) if *certified == principal => {}
            Self::Certified(_) => return Err("principal"),
            Self::Tagged { cookie: mine, taggers, windows } => {
                let known = taggers.lock().get(&principal).cloned();
                let tagger = match known {
                    Some(tagger) if tagger.verify(frame.covered, frame.tag) => tagger,
                    Some(_) => return Err("tag"),
                    None if windows.len() == PRINCIPALS => return Err("principals"),
                    None => {
                        let maker = core.secret.maker_of(principal, frame.covered, frame.tag);
                        let (tagger, _) = maker.ok_or("tag")?;
                        taggers.lock().insert(principal, tagger.clone());
                        windows.insert(principal, ReplayWindow::default());
                        tagger
                    }
                };
                let window = windows.entry(principal).or_default();
                if cookie != *mine {
                    let mut message = Vec::new();
                    Header { kind: Kind::Challenge, principal, cookie: *mine, request }.emit(&mut message);
                    tagger.seal(&mut message, 0);
                    return Ok(Admitted::Challenge(message));
                }
                if !window.accept(request) {
                    core.metrics.dropped("replayed", 1);
                    return Ok(Admitted::Ignored);
                }
            }
        }
        if matches!(kind, Kind::Fetch | Kind::Publish) {
            return Ok(Admitted::Document);
        }
        let ask = Ask::parse(kind, frame.body).map_err(|_| "malformed")?;
        if matches!(ask, Ask::Challenge | Ask::DigestAnswer(_)) {
            return Err("malformed");
        }
        Ok(Admitted::Request(Box::new(Request { client: Client::Stream { stream, request }, principal, ask })))
    }
}
