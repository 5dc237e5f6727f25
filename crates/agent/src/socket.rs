//! The agent's Unix socket: a client sends a [`Request`] as one line of JSON and gets one line back, `{"ok": ...}` or
//! `{"error": {"message": ..., "help": ...}}`.
//!
//! ```text
//!   client --line--> thread of its connection --PendingRequest--> channel --> event loop --answer--> the thread --line--> client
//!                                                 '-- a byte makes `descriptor` readable
//! ```

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::IpAddr;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use weft_directory::daemon::socket as daemon;

use crate::error::{Error, Result};

/// What a client asks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "command", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Request {
    /// How it is.
    Status,
    /// An address lives here from now on.
    Attach {
        /// The application address.
        address: IpAddr,
        /// Who has it below this host; none: the device.
        mac: Option<String>,
        /// How long to wait for the ToR, in milliseconds.
        timeout_ms: u64,
    },
    /// It does not any longer.
    Detach {
        /// The application address.
        address: IpAddr,
        /// How long to wait for the ToR, in milliseconds.
        timeout_ms: u64,
    },
    /// An interface is a tenant's VIF from now on.
    AttachVif {
        /// The interface.
        device: String,
        /// The tenant's name.
        tenant: String,
        /// The VIF's.
        name: String,
    },
    /// It is one no longer.
    DetachVif {
        /// The interface.
        device: String,
    },
    /// Which path a flow takes: what the agent would do to its packets. The client probes.
    Trace {
        /// From this address.
        source: IpAddr,
        /// To this address.
        destination: IpAddr,
        /// The protocol's number.
        protocol: u8,
        /// From this port.
        sport: u16,
        /// To this port.
        dport: u16,
    },
}

/// A request that waits for its answer.
#[derive(Debug)]
pub struct PendingRequest {
    /// What is asked.
    pub request: Request,
    reply: SyncSender<String>,
}

impl PendingRequest {
    /// Answers with a result.
    pub fn answer(self, value: &Value) {
        self.send(daemon::accepted(value));
    }

    /// Answers that it cannot be done, and what helps.
    pub fn refuse(self, message: &str, help: &str) {
        self.send(daemon::refused(message, help));
    }

    fn send(self, line: String) {
        // A client that has gone needs no answer.
        let _ = self.reply.try_send(line);
    }
}

/// The socket of a running agent; its file goes when it is dropped.
#[derive(Debug)]
pub struct ControlSocket {
    path: PathBuf,
    asked: Receiver<PendingRequest>,
    wake: UnixStream,
}

impl ControlSocket {
    /// Listens. A file that a dead agent left is taken over; a live agent's is not.
    ///
    /// # Errors
    /// [`Error`] if another agent listens there, or the system refuses.
    pub fn listen(path: &Path) -> Result<Self> {
        if UnixStream::connect(path).is_ok() {
            return Err(Error::Running(path.to_owned()));
        }
        let refused = |error| Error::file("listen on", path)(error);
        match std::fs::remove_file(path) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(refused(error)),
            _ => {}
        }
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).map_err(Error::file("create", folder))?;
        }
        let listener = UnixListener::bind(path).map_err(refused)?;
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).map_err(refused)?;
        let (wake, waker) = UnixStream::pair().map_err(refused)?;
        for end in [&wake, &waker] {
            end.set_nonblocking(true).map_err(refused)?;
        }
        let (sender, asked) = channel();
        let named = std::thread::Builder::new().name("socket".to_owned());
        named.spawn(move || accept(&listener, &sender, &Arc::new(waker))).map_err(refused)?;
        Ok(Self { path: path.to_owned(), asked, wake })
    }

    /// Readable when something is asked.
    pub const fn descriptor(&self) -> &UnixStream {
        &self.wake
    }

    /// The next request, if there is one.
    #[allow(clippy::should_implement_trait)] // After none there may be more.
    pub fn next(&mut self) -> Option<PendingRequest> {
        while self.wake.read(&mut [0; 64]).is_ok_and(|count| count > 0) {}
        self.asked.try_recv().ok()
    }

    /// Answers all requests of an agent that has a status and takes nothing else, which `otherwise` says.
    pub fn answer_status(&mut self, mut status: impl FnMut() -> Value, otherwise: &str) {
        while let Some(asked) = self.next() {
            if matches!(asked.request, Request::Status) {
                asked.answer(&status());
            } else {
                asked.refuse(otherwise, "it has a status");
            }
        }
    }
}

impl Drop for ControlSocket {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

fn accept(listener: &UnixListener, sender: &Sender<PendingRequest>, waker: &Arc<UnixStream>) {
    let open = Arc::new(AtomicUsize::new(0));
    for stream in listener.incoming() {
        let Ok(stream) = stream else {
            std::thread::sleep(Duration::from_millis(10));
            continue;
        };
        if open.fetch_add(1, Ordering::Relaxed) >= CLIENTS_MAX {
            open.fetch_sub(1, Ordering::Relaxed);
            continue;
        }
        let (sender, waker, count) = (sender.clone(), waker.clone(), open.clone());
        let started = std::thread::Builder::new().name("client".to_owned()).spawn(move || {
            let _ = serve(&stream, &sender, &waker);
            count.fetch_sub(1, Ordering::Relaxed);
        });
        if started.is_err() {
            open.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// Serves one client until it has gone.
fn serve(stream: &UnixStream, sender: &Sender<PendingRequest>, waker: &UnixStream) -> std::io::Result<()> {
    let mut lines = BufReader::new(stream.take(LONGEST_REQUEST));
    let mut line = String::new();
    stream.set_read_timeout(Some(TIMEOUT))?;
    lines.read_line(&mut line)?;
    let mut stream = stream;
    let request = match serde_json::from_str(&line) {
        Ok(request) => request,
        Err(error) => {
            let message = format!("not a request: {error}");
            return writeln!(stream, "{}", daemon::refused(&message, "are both programs of one version?"));
        }
    };
    let (reply, answer) = sync_channel(1);
    let gone = |_| std::io::Error::from(ErrorKind::BrokenPipe);
    sender.send(PendingRequest { request, reply }).map_err(|_| std::io::Error::from(ErrorKind::BrokenPipe))?;
    let _ = (&mut &*waker).write(&[1]);
    writeln!(stream, "{}", answer.recv().map_err(gone)?)
}

/// Asks a running agent.
///
/// # Errors
/// [`Error`] if there is none, or it says no.
pub fn ask(path: &Path, request: &Request, timeout: Duration) -> Result<Value> {
    Ok(daemon::ask(path, request, timeout)?)
}

/// Connections at a time.
const CLIENTS_MAX: usize = 32;
/// Bytes of a request.
const LONGEST_REQUEST: u64 = 4096;
/// For a client to send its request.
const TIMEOUT: Duration = Duration::from_secs(5);
