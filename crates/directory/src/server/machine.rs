//! The thread that owns the machine: takes what waits, lets the machine decide, applies its outputs.

use std::net::UdpSocket;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use weft_control::directory::server::{Event, Input, Output, ReloadReason};
use weft_control::wire::directory::State;

use super::config::ServeError;
use super::core::Core;
use super::packets::Outgoing;
use super::storage::Storage;
use super::streams::Streams;

/// Inputs that the machine takes under one lock.
const INPUTS_MAX: usize = 256;

/// The longest sleep: gauges are written, and the end is noticed.
const GAUGE_INTERVAL: Duration = Duration::from_millis(100);

/// A server that leaves waits at most this long for commits under way, and at least until every batch has begun.
const LEAVING_MAX: Duration = Duration::from_secs(5);
const LEAVING_MIN: Duration = Duration::from_millis(150);

/// The sockets and the store that the machine's outputs are applied to.
pub struct IoHandles {
    /// A socket of the server's port.
    pub socket: UdpSocket,
    /// The store.
    pub storage: Storage,
    /// The streams.
    pub streams: Arc<Streams>,
    /// Called once, when everything has been loaded.
    pub ready: Box<dyn FnMut(&Core) + Send>,
}

/// Until the server has left.
pub fn run(core: &Arc<Core>, inbox: &Receiver<Input>, io: &mut IoHandles) -> Result<(), ServeError> {
    let mut outgoing = Outgoing::new(true);
    let mut outputs = Vec::new();
    let mut gauges_at = Instant::now();
    let mut leaving: Option<Instant> = None;
    let mut is_ready = false;
    loop {
        let inputs = collect(core, inbox);
        if inputs.iter().any(|input| matches!(input, Input::Leave)) {
            leaving.get_or_insert_with(Instant::now);
        }
        run_once(core, inputs, &mut outputs);
        for output in outputs.drain(..) {
            perform(core, io, output, &mut outgoing);
        }
        outgoing.flush(io.socket.as_raw_fd());
        if !is_ready && core.server.read().shared().state == State::Serving {
            is_ready = true;
            (io.ready)(core);
        }
        if gauges_at.elapsed() >= GAUGE_INTERVAL {
            gauges_at = Instant::now();
            update_gauges(core, io);
        }
        if leaving.is_some_and(|since| has_left(core, since)) {
            return Ok(());
        }
    }
}

/// Waits for an input until the machine's deadline, and takes what else is there.
fn collect(core: &Core, inbox: &Receiver<Input>) -> Vec<Input> {
    let timeout = {
        let server = core.server.read();
        let now = core.now();
        server.deadline().map_or(GAUGE_INTERVAL, |at| at.saturating_since(now).to_std())
    };
    let mut inputs = match inbox.recv_timeout(timeout.min(GAUGE_INTERVAL)) {
        Ok(first) => vec![first],
        Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return Vec::new(),
    };
    // Part of a load is work enough for one batch.
    while inputs.len() < INPUTS_MAX && !matches!(inputs.last(), Some(Input::Loaded { .. })) {
        match inbox.try_recv() {
            Ok(input) => inputs.push(input),
            Err(_) => break,
        }
    }
    core.taken(inputs.len());
    inputs
}

/// Lets the machine take its inputs.
fn run_once(core: &Core, inputs: Vec<Input>, outputs: &mut Vec<Output>) {
    let mut server = core.server.write();
    let now = core.now();
    for input in inputs {
        server.handle(now, input);
    }
    if server.deadline().is_some_and(|at| at <= now) {
        server.handle(now, Input::Timer);
    }
    while let Some(output) = server.poll() {
        outputs.push(output);
    }
}

fn perform(core: &Arc<Core>, io: &mut IoHandles, output: Output, outgoing: &mut Outgoing) {
    match output {
        Output::Send { to, bytes } => {
            core.metrics.outgoing(&bytes);
            core.metrics.sent.increment(1);
            outgoing.push(to, &bytes);
        }
        Output::Reply { stream, principal, message } => {
            core.metrics.outgoing(&message);
            io.streams.reply(core, stream, principal, message);
        }
        Output::Commit { batch, ops, purged } => io.storage.commit(core, batch, ops, purged),
        Output::Load { load } => io.storage.load(core, load),
        Output::Purge { tombstones } => io.storage.purge(tombstones),
        Output::Event(Event::Updated(update)) => {
            if let Some(audit) = &core.audit {
                audit.update(&update);
            }
        }
        Output::Event(event) => log_event(core, &event),
    }
}

fn log_event(core: &Core, event: &Event) {
    let counters = &core.metrics;
    match event {
        Event::Loaded { revision, entries } => tracing::info!(revision = revision.0, entries, "everything is loaded"),
        Event::Reload(reason) => {
            tracing::warn!(?reason, "everything is reloaded");
            let reason = match reason {
                ReloadReason::WatchLost => "watch_lost",
                ReloadReason::Gap => "gap",
                ReloadReason::Diverged => "diverged",
            };
            metrics::counter!("weft_directory_reloads_total", "reason" => reason).increment(1);
        }
        Event::PolicyChanged { version, withdraws } => {
            tracing::info!(version, withdraws, "a new policy is in force");
            if let Some(audit) = &core.audit {
                audit.in_force("policy", &serde_json::json!({ "version": version, "withdraws": withdraws }));
            }
        }
        Event::PolicyRefused(error) => {
            counters.policy_errors.increment(1);
            tracing::error!(%error, "the new policy is refused, and the old one kept");
        }
        Event::CommitConflict => metrics::counter!("weft_directory_commit_conflicts_total").increment(1),
        // What the store said is in the log already.
        Event::CommitFailed => metrics::counter!("weft_directory_commit_failures_total").increment(1),
        Event::Dropped(reason) => counters.dropped(reason.label(), 1),
        // Recorded elsewhere.
        Event::Updated(_) => {}
    }
}

fn update_gauges(core: &Core, io: &IoHandles) {
    let server = core.server.read();
    let shared = server.shared();
    let gauges = &core.metrics;
    gauges.state.set(f64::from(shared.state as u8));
    gauges.revision.set(shared.revision.0 as f64);
    gauges.lag.set(io.storage.newest().saturating_sub(shared.revision.0) as f64);
    gauges.entries.set(shared.table.len() as f64);
    gauges.table_bytes.set(shared.table.bytes() as f64);
    gauges.policy_version.set(f64::from(shared.policy.version()));
    gauges.waiting.set(core.waiting() as f64);
    gauges.streams.set(io.streams.count() as f64);
    gauges.stream_bytes.set(io.streams.bytes() as f64);
    gauges.subscribers.set(server.subscribers() as f64);
    gauges.askers.set(shared.askers.len() as f64);
    gauges.pushes.absolute(server.counters().pushes);
}

/// Whether everything that was taken has been committed and answered.
fn has_left(core: &Core, since: Instant) -> bool {
    let quiet = core.waiting() == 0 && core.commits.load(Ordering::Acquire) == 0;
    since.elapsed() >= LEAVING_MAX || (quiet && since.elapsed() >= LEAVING_MIN)
}
