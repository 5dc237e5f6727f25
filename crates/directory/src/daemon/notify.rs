//! Reports the state of the server: a line on stdout, and systemd by its socket.

use std::io::Write;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// Sends a state (`READY=1`, `STOPPING=1`) to systemd, if it started the server.
pub fn systemd(state: &str) {
    let Some(path) = std::env::var_os("NOTIFY_SOCKET") else { return };
    let path = path.as_encoded_bytes();
    let address = match path.strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name),
        None => SocketAddr::from_pathname(std::path::Path::new(std::ffi::OsStr::new(&*String::from_utf8_lossy(path)))),
    };
    let sent = address.and_then(|address| UnixDatagram::unbound()?.send_to_addr(state.as_bytes(), &address));
    if let Err(error) = sent {
        tracing::warn!(%error, "systemd cannot be notified");
    }
}

/// Prints a line at once.
pub fn print(line: &str) {
    let mut out = std::io::stdout().lock();
    // Nobody has to listen.
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}
