//! Connections of switches: bytes in, bytes out.
//!
//! What waits to be sent is counted in bytes: a switch that does not read loses its connection and nobody else's ([`QUEUE`]). What has come
//! waits in a channel of few places, so a switch that sends too much waits itself. A connection that is closed here has [`LAST_WORDS`] to
//! read why; then what waits for it is dropped.

use std::io::{self, ErrorKind};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UnixListener};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::config::Listen;
use crate::error::{Error, Result};

/// What happens on a connection.
#[derive(Debug)]
pub(crate) enum Event {
    /// A switch has connected.
    Opened(ConnectionId, Writer, String),
    /// It has sent this.
    Received(ConnectionId, Vec<u8>),
    /// It has gone.
    Closed(ConnectionId, String),
    /// Somebody at this address has not come to a connection.
    Refused(String, String),
}

/// Connections are numbered as they come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ConnectionId(u64);

/// Where bytes for a switch go; the connection is closed when it is dropped.
#[derive(Debug)]
pub(crate) struct Writer {
    sender: mpsc::UnboundedSender<Vec<u8>>,
    waiting: Arc<AtomicUsize>,
    /// Its drop is what ends the connection.
    _open: oneshot::Sender<()>,
}

impl Writer {
    /// Queues bytes; false if more than `limit` would wait, or the switch has gone.
    pub fn send(&self, bytes: Vec<u8>, limit: usize) -> bool {
        let length = bytes.len();
        if self.waiting.fetch_add(length, Ordering::Relaxed) + length > limit {
            return false;
        }
        self.sender.send(bytes).is_ok()
    }
}

/// The file of a Unix socket; it is removed with this.
#[derive(Debug)]
pub(crate) struct SocketFile(PathBuf);

impl Drop for SocketFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Listens for switches, for as long as the runtime lives; returns the files of the Unix sockets.
///
/// # Errors
/// [`Error::Listen`].
pub(crate) async fn listen(
    addresses: &[Listen],
    tls: Option<&TlsAcceptor>,
    events: &mpsc::Sender<Event>,
) -> Result<Vec<SocketFile>> {
    let handshakes = Arc::new(Semaphore::new(HANDSHAKES));
    let numbers = Arc::new(AtomicUsize::new(0));
    let mut files = Vec::new();
    for address in addresses {
        let (events, numbers) = (events.clone(), Arc::clone(&numbers));
        match address {
            Listen::Tcp(address) => {
                let refused = |cause| Error::Listen { address: address.to_string(), cause };
                let listener = TcpListener::bind(address).await.map_err(refused)?;
                tokio::spawn(async move {
                    loop {
                        match listener.accept().await {
                            Ok((stream, peer)) => {
                                let _ = stream.set_nodelay(true);
                                tokio::spawn(carry(stream, peer.to_string(), next(&numbers), events.clone()));
                            }
                            Err(cause) => wait(&cause).await,
                        }
                    }
                });
            }
            Listen::Tls(address) => {
                let refused = |cause| Error::Listen { address: address.to_string(), cause };
                let listener = TcpListener::bind(address).await.map_err(refused)?;
                let acceptor = tls.expect("certificates are read with the address").clone();
                let handshakes = Arc::clone(&handshakes);
                tokio::spawn(async move {
                    loop {
                        match listener.accept().await {
                            Ok((stream, peer)) => {
                                let _ = stream.set_nodelay(true);
                                let handshake = acceptor.accept(stream);
                                let turn = Arc::clone(&handshakes).try_acquire_owned();
                                let (events, numbers) = (events.clone(), Arc::clone(&numbers));
                                tokio::spawn(async move {
                                    match secure(handshake, turn.ok()).await {
                                        Ok(stream) => carry(stream, format!("{peer}, TLS"), next(&numbers), events).await,
                                        Err(reason) => drop(events.send(Event::Refused(peer.to_string(), reason)).await),
                                    }
                                });
                            }
                            Err(cause) => wait(&cause).await,
                        }
                    }
                });
            }
            Listen::Unix(path) => {
                let (listener, file) = unix_listener(path)?;
                files.push(file);
                tokio::spawn(async move {
                    loop {
                        match listener.accept().await {
                            Ok((stream, _)) => {
                                tokio::spawn(carry(stream, "a Unix socket".to_owned(), next(&numbers), events.clone()));
                            }
                            Err(cause) => wait(&cause).await,
                        }
                    }
                });
            }
        }
    }
    Ok(files)
}

/// Waits for a handshake, if it has its turn.
async fn secure(
    handshake: tokio_rustls::Accept<TcpStream>,
    turn: Option<OwnedSemaphorePermit>,
) -> std::result::Result<TlsStream<TcpStream>, String> {
    let _turn = turn.ok_or_else(|| format!("{HANDSHAKES} TLS handshakes are going on already"))?;
    match tokio::time::timeout(HANDSHAKE, handshake).await {
        Ok(done) => done.map_err(|cause| format!("TLS: {cause}")),
        Err(_) => Err(format!("TLS: the handshake has taken {} s", HANDSHAKE.as_secs())),
    }
}

/// Listens on a Unix socket. A socket that a dead program left is replaced; a live one's, and any other file, is not.
///
/// # Errors
/// [`Error`].
pub(crate) fn unix_listener(path: &Path) -> Result<(UnixListener, SocketFile)> {
    let refused = |cause| Error::Listen { address: path.display().to_string(), cause };
    match std::os::unix::net::UnixStream::connect(path).map_err(|cause| cause.kind()) {
        Err(ErrorKind::NotFound) => {}
        Err(ErrorKind::ConnectionRefused) => {
            let kind = std::fs::symlink_metadata(path).map_err(refused)?.file_type();
            if !kind.is_socket() {
                return Err(refused(io::Error::new(ErrorKind::AlreadyExists, "the file exists and is no socket")));
            }
            std::fs::remove_file(path).map_err(refused)?;
        }
        Err(kind) => return Err(refused(kind.into())),
        Ok(_) => return Err(Error::Running(path.to_owned())),
    }
    if let Some(folder) = path.parent().filter(|f| !f.as_os_str().is_empty()) {
        std::fs::create_dir_all(folder).map_err(refused)?;
    }
    let listener = UnixListener::bind(path).map_err(refused)?;
    let file = SocketFile(path.to_owned());
    let private = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    std::fs::set_permissions(path, private).map_err(refused)?;
    Ok((listener, file))
}

fn next(numbers: &AtomicUsize) -> ConnectionId {
    ConnectionId(numbers.fetch_add(1, Ordering::Relaxed) as u64)
}

/// Out of descriptors, most likely: others may free some.
async fn wait(cause: &io::Error) {
    tracing::warn!(%cause, "a switch could not connect");
    tokio::time::sleep(std::time::Duration::from_millis(100)).await;
}

/// Carries bytes both ways until one side ends.
async fn carry(stream: impl AsyncRead + AsyncWrite, peer: String, id: ConnectionId, events: mpsc::Sender<Event>) {
    let (mut reader, mut writer) = tokio::io::split(stream);
    let (sender, mut queue) = mpsc::unbounded_channel::<Vec<u8>>();
    let waiting = Arc::new(AtomicUsize::new(0));
    let (open, closed) = oneshot::channel::<()>();
    let opened = Event::Opened(id, Writer { sender, waiting: Arc::clone(&waiting), _open: open }, peer);
    if events.send(opened).await.is_err() {
        return;
    }
    let read = async {
        loop {
            let mut buffer = Vec::with_capacity(BUFFER);
            match reader.read_buf(&mut buffer).await {
                Ok(0) => break "it closed the connection".to_owned(),
                Ok(_) => {
                    if events.send(Event::Received(id, buffer)).await.is_err() {
                        break String::new();
                    }
                }
                Err(cause) => break cause.to_string(),
            }
        }
    };
    let write = async {
        while let Some(bytes) = queue.recv().await {
            if let Err(cause) = writer.write_all(&bytes).await {
                return cause.to_string();
            }
            waiting.fetch_sub(bytes.len(), Ordering::Relaxed);
        }
        // The last words, such as why a version is refused.
        let _ = writer.shutdown().await;
        "closed here".to_owned()
    };
    // A switch that does not read does not keep what waits for it in memory.
    let given_up = async {
        let _ = closed.await;
        tokio::time::sleep(LAST_WORDS).await;
        "closed here".to_owned()
    };
    let reason = tokio::select! { reason = read => reason, reason = write => reason, reason = given_up => reason };
    let _ = events.send(Event::Closed(id, reason)).await;
}

/// Bytes that wait for a switch, at most: some 100,000 rules.
pub(crate) const QUEUE: usize = 16 << 20;
/// The same before a switch has said which it is: anybody can connect.
pub(crate) const QUEUE_UNKNOWN: usize = 256 << 10;
/// For a TLS handshake.
const HANDSHAKE: std::time::Duration = std::time::Duration::from_secs(10);
/// TLS handshakes at a time: anybody can begin one.
const HANDSHAKES: usize = 1024;
/// For a connection that is closed here to read what was sent last.
const LAST_WORDS: std::time::Duration = std::time::Duration::from_secs(1);
/// Bytes that are read at a time.
const BUFFER: usize = 64 << 10;
