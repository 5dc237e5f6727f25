//! The Unix socket of a daemon, as its clients see it: a request is one line of JSON, and so is the answer, `{"ok": ...}` or
//! `{"error": {"message": ..., "help": ...}}`.

use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Serialize;
use serde_json::{Value, json};

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// No daemon answers.
    #[error("no daemon at {}: {cause}", path.display())]
    NoDaemon {
        /// The socket.
        path: PathBuf,
        /// Why not.
        cause: io::Error,
    },
    /// The daemon ended before it answered.
    #[error("the daemon ended before it answered")]
    Ended,
    /// The daemon refused the request.
    #[error("{message}")]
    Refused {
        /// What it says.
        message: String,
        /// The remedy that it names.
        help: String,
    },
}

/// Asks a running daemon.
///
/// # Errors
/// [`AskError`] if there is none, or it says no.
pub fn ask(path: &Path, request: &impl Serialize, timeout: Duration) -> Result<Value, AskError> {
    let none = |cause| AskError::NoDaemon { path: path.to_owned(), cause };
    let mut stream = UnixStream::connect(path).map_err(none)?;
    stream.set_read_timeout(Some(timeout)).map_err(none)?;
    let line = serde_json::to_string(request).expect("a request is JSON");
    writeln!(stream, "{line}").map_err(none)?;
    let mut answer = String::new();
    BufReader::new(stream).read_line(&mut answer).map_err(|cause| match cause.kind() {
        io::ErrorKind::WouldBlock => none(io::Error::new(io::ErrorKind::TimedOut, format!("no answer in {timeout:?}"))),
        _ => none(cause),
    })?;
    let mut answer: Value = serde_json::from_str(&answer).map_err(|_| AskError::Ended)?;
    if let Some(value) = answer.get_mut("ok") {
        return Ok(value.take());
    }
    let text = |name: &str| answer["error"][name].as_str().unwrap_or_default().to_owned();
    Err(AskError::Refused { message: text("message"), help: text("help") })
}

/// An answer that says yes.
pub fn accepted(value: &Value) -> String {
    json!({ "ok": value }).to_string()
}

/// An answer that says no, and what helps.
pub fn refused(message: &str, help: &str) -> String {
    json!({ "error": { "message": message, "help": help } }).to_string()
}
