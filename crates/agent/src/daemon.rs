//! The life of a daemon, the same for hosts and switches of every overlay: it starts, reports that it is ready, handles events, reloads its configuration on
//! SIGHUP, and ends on SIGTERM or SIGINT; its eBPF programs are removed then, or stay.

use std::os::fd::{AsRawFd, RawFd};
use std::path::Path;
use std::time::Duration;

use clap::Args;
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token};
use serde_json::Value;

use weft_directory::daemon::command_line::LogForm;
use weft_directory::daemon::notify;

use crate::config::OnExit;
use crate::error::{Error, Result};
use crate::signals::Signals;
use crate::socket::ControlSocket;

/// What the command line adds to the configuration.
#[derive(Clone, Copy, Debug, Args)]
pub struct RunOptions {
    /// Leave the eBPF programs and maps in place at the end
    #[arg(long)]
    pub keep: bool,
    /// Form of the log on stderr
    #[arg(long, value_enum, default_value_t)]
    pub log: LogForm,
    /// Print the line READY as JSON
    #[arg(long)]
    pub json: bool,
}

/// What differs.
pub(super) trait Daemon {
    /// What wakes it, besides signals and the control socket.
    fn descriptors(&self) -> Vec<RawFd>;

    /// How long it can sleep.
    fn timeout(&self) -> Duration;

    /// Takes everything that has come, whatever it was that woke the loop.
    ///
    /// # Errors
    /// What ends the daemon.
    fn run_once(&mut self, control: &mut ControlSocket) -> Result<()>;

    /// Reloads its configuration; on error nothing has changed.
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
    /// Runs the daemon that `start` makes until SIGTERM or SIGINT.
    ///
    /// # Errors
    /// As those of `start`, and what ends the daemon.
    pub fn run_until_signal<D: Daemon>(&self, start: impl FnOnce() -> Result<D>) -> Result<bool> {
        let mut signals = Signals::take().map_err(Error::system("handle signals", ""))?;
        let mut control = ControlSocket::listen(self.socket)?;
        let mut daemon = start()?;
        let mut poll = watch(&daemon, &signals, &control)?;
        let (line, json) = daemon.ready();
        notify::print(&if self.options.json { json.to_string() } else { format!("READY {line}") });
        notify::systemd("READY=1");
        let mut events = Events::with_capacity(256);
        loop {
            match poll.poll(&mut events, Some(daemon.timeout())) {
                Err(error) if error.kind() != std::io::ErrorKind::Interrupted => {
                    return Err(Error::system("wait for events", "")(error));
                }
                _ => {}
            }
            if signals.has_come() {
                break;
            }
            if signals.wants_reload() {
                match daemon.reload(self.file) {
                    Ok(()) => tracing::info!("configuration reloaded"),
                    Err(error) => tracing::error!(%error, "configuration not reloaded, the old one stays in force"),
                }
                poll = watch(&daemon, &signals, &control)?;
            }
            daemon.run_once(&mut control)?;
        }
        notify::systemd("STOPPING=1");
        let keep = self.options.keep || self.on_exit == OnExit::Keep;
        tracing::info!(keep, "stopping");
        if !keep {
            daemon.end()?;
        }
        Ok(true)
    }
}

fn watch(daemon: &impl Daemon, signals: &Signals, control: &ControlSocket) -> Result<Poll> {
    let poll = Poll::new().map_err(Error::system("wait for events", ""))?;
    let mut all = daemon.descriptors();
    all.push(control.descriptor().as_raw_fd());
    all.extend(signals.descriptors());
    for (token, descriptor) in all.iter().enumerate() {
        let watched = poll.registry().register(&mut SourceFd(descriptor), Token(token), Interest::READABLE);
        watched.map_err(Error::system("wait for events", ""))?;
    }
    Ok(poll)
}
