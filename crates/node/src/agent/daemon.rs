//! A daemon's life, the same for hosts and switches of every overlay: it takes its place, says that it is ready, serves what wakes it, reads its configuration
//! anew when told so, and goes; its eBPF programs go too, or stay.

use std::os::fd::{AsRawFd, RawFd};
use std::path::Path;
use std::time::Duration;

use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token};
use serde_json::Value;

use super::cli::RunOptions;
use super::config::OnExit;
use super::signals::Signals;
use super::socket::ControlSocket;
use crate::cli::{Error, Result};
use crate::server::notify;

/// What differs.
pub(super) trait Daemon {
    /// What wakes it, besides signals and the control socket.
    fn descriptors(&self) -> Vec<RawFd>;

    /// How long it can sleep.
    fn patience(&self) -> Duration;

    /// Takes everything that has come, whatever it was that woke the loop.
    ///
    /// # Errors
    /// What ends the daemon.
    fn turn(&mut self, control: &mut ControlSocket) -> Result<()>;

    /// Reads its configuration anew; on error nothing has changed.
    ///
    /// # Errors
    /// What is wrong with it.
    fn reload(&mut self, file: &Path) -> Result<()>;

    /// What it says when it is ready: for people, and for programs.
    fn ready(&self) -> (String, Value);

    /// Goes, with its programs.
    ///
    /// # Errors
    /// What the kernel does not let go.
    fn end(self) -> Result<()>;
}

/// How one is run.
pub(super) struct Run<'a> {
    /// Its control socket.
    pub socket: &'a Path,
    /// What its configuration says of the programs at its end.
    pub on_exit: OnExit,
    /// The configuration's file.
    pub file: &'a Path,
    /// The command line.
    pub options: RunOptions,
}

impl Run<'_> {
    /// Runs what `start` gives until it is told to stop.
    ///
    /// # Errors
    /// As those of `start`, and what ends the daemon.
    pub fn until_told<D: Daemon>(&self, start: impl FnOnce() -> Result<D>) -> Result<bool> {
        let mut signals = Signals::take().map_err(|error| system("signals", &error))?;
        let mut control = ControlSocket::listen(self.socket)?;
        let mut daemon = start()?;
        let mut poll = watch(&daemon, &signals, &control)?;
        let (line, json) = daemon.ready();
        notify::print(&if self.options.json { json.to_string() } else { format!("READY {line}") });
        notify::systemd("READY=1");
        let mut events = Events::with_capacity(256);
        loop {
            match poll.poll(&mut events, Some(daemon.patience())) {
                Err(error) if error.kind() != std::io::ErrorKind::Interrupted => return Err(system("waiting", &error)),
                _ => {}
            }
            if signals.has_come() {
                break;
            }
            if signals.wants_reload() {
                match daemon.reload(self.file) {
                    Ok(()) => tracing::info!("the configuration has been read anew"),
                    Err(error) => tracing::error!(%error, "the configuration stays as it was"),
                }
                poll = watch(&daemon, &signals, &control)?;
            }
            daemon.turn(&mut control)?;
        }
        notify::systemd("STOPPING=1");
        let keep = self.options.keep || self.on_exit == OnExit::Keep;
        tracing::info!(keep, "told to stop");
        if !keep {
            daemon.end()?;
        }
        Ok(true)
    }
}

fn watch(daemon: &impl Daemon, signals: &Signals, control: &ControlSocket) -> Result<Poll> {
    let poll = Poll::new().map_err(|error| system("waiting", &error))?;
    let mut all = daemon.descriptors();
    all.push(control.descriptor().as_raw_fd());
    all.extend(signals.descriptors());
    for (token, descriptor) in all.iter().enumerate() {
        let watched = poll.registry().register(&mut SourceFd(descriptor), Token(token), Interest::READABLE);
        watched.map_err(|error| system("waiting", &error))?;
    }
    Ok(poll)
}

fn system(what: &str, error: &std::io::Error) -> Error {
    Error::new(format!("the system refuses {what}: {error}"), "")
}
