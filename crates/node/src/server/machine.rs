//! The thread that owns the machine: takes what waits, lets the machine decide, does what it wants.

use std::net::UdpSocket;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use weft_control::directory::server::{Event, Input, Output, ReloadReason};
use weft_control::wire::directory::State;
use weft_fabric::Instant as MachineInstant;

use super::config::ServeError;
use super::core::{Core, ERA, Posted};
use super::packets::Outgoing;
use super::storage::Storage;
use super::streams::Streams;

/// Inputs that the machine takes under one lock.
const TURN: usize = 256;

/// The longest sleep: gauges are written, and the end is noticed.
const PULSE: Duration = Duration::from_millis(100);

/// A server that leaves waits so long at the most for commits under way, and at least until every batch has begun.
const LEAVING_MAX: Duration = Duration::from_secs(5);
const LEAVING_MIN: Duration = Duration::from_millis(150);

/// What the machine's wishes are done with.
pub struct Hands {
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
pub fn run(core: &Arc<Core>, inbox: &Receiver<Posted>, hands: &mut Hands) -> Result<(), ServeError> {
    let mut outgoing = Outgoing::new(true);
    let mut outputs = Vec::new();
    let mut gauges_at = Instant::now();
    let mut leaving: Option<Instant> = None;
    let mut is_ready = false;
    loop {
        let inputs = collect(core, inbox);
        for posted in &inputs {
            if matches!(posted.input, Input::Leave) {
                leaving.get_or_insert_with(Instant::now);
            }
        }
        let now = turn(core, inputs, &mut outputs);
        for output in outputs.drain(..) {
            perform(core, hands, output, &mut outgoing);
        }
        outgoing.flush(hands.socket.as_raw_fd());
        if !is_ready && core.server.read().shared().state == State::Serving {
            is_ready = true;
            (hands.ready)(core);
        }
        if gauges_at.elapsed() >= PULSE {
            gauges_at = Instant::now();
            measure(core, hands);
        }
        if now >= MachineInstant::ZERO + ERA {
            tracing::info!("the clock of the machine ends: it is made anew");
            core.renew()?;
            hands.streams.close_all();
        }
        if leaving.is_some_and(|since| has_left(core, since)) {
            return Ok(());
        }
    }
}

/// Waits for an input until the machine's deadline, and takes what else is there.
fn collect(core: &Core, inbox: &Receiver<Posted>) -> Vec<Posted> {
    let patience = {
        let server = core.server.read();
        let now = core.now();
        server.deadline().map_or(PULSE, |at| Duration::from_nanos(at.saturating_since(now).as_ps().div_ceil(1000)))
    };
    let mut inputs = match inbox.recv_timeout(patience.min(PULSE)) {
        Ok(first) => vec![first],
        Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return Vec::new(),
    };
    // Part of a load is work enough for one turn.
    while inputs.len() < TURN && !matches!(inputs.last(), Some(Posted { input: Input::Loaded { .. }, .. })) {
        match inbox.try_recv() {
            Ok(posted) => inputs.push(posted),
            Err(_) => break,
        }
    }
    core.taken(inputs.len());
    inputs
}

/// Lets the machine take its inputs; its time.
fn turn(core: &Core, inputs: Vec<Posted>, outputs: &mut Vec<Output>) -> MachineInstant {
    let mut server = core.server.write();
    let now = core.now();
    let era = core.era();
    for posted in inputs {
        if posted.era == era {
            server.handle(now, posted.input);
        }
    }
    if server.deadline().is_some_and(|at| at <= now) {
        server.handle(now, Input::Timer);
    }
    while let Some(output) = server.poll() {
        outputs.push(output);
    }
    now
}

fn perform(core: &Arc<Core>, hands: &mut Hands, output: Output, outgoing: &mut Outgoing) {
    match output {
        Output::Send { to, bytes } => {
            core.measures.outgoing(&bytes);
            core.measures.sent.increment(1);
            outgoing.push(to, &bytes);
        }
        Output::Reply { stream, principal, message } => {
            core.measures.outgoing(&message);
            hands.streams.reply(core, stream, principal, message);
        }
        Output::Commit { batch, ops, purged } => hands.storage.commit(core, batch, ops, purged),
        Output::Load { load } => hands.storage.load(core, load),
        Output::Purge { tombstones } => hands.storage.purge(tombstones),
        Output::Event(event) => tell(core, &event),
    }
}

fn tell(core: &Core, event: &Event) {
    let measures = &core.measures;
    match event {
        Event::Loaded { revision, entries } => tracing::info!(revision = revision.0, entries, "everything is loaded"),
        Event::Reload(reason) => {
            tracing::warn!(?reason, "everything is loaded anew");
            let reason = match reason {
                ReloadReason::WatchLost => "watch_lost",
                ReloadReason::Gap => "gap",
                ReloadReason::Diverged => "diverged",
            };
            metrics::counter!("weft_directory_reloads_total", "reason" => reason).increment(1);
        }
        Event::PolicyChanged { version, withdraws } => tracing::info!(version, withdraws, "a new policy is in force"),
        Event::PolicyRefused(error) => {
            measures.policy_errors.increment(1);
            tracing::error!(%error, "the new policy is refused, and the old one kept");
        }
        Event::CommitConflict => metrics::counter!("weft_directory_commit_conflicts_total").increment(1),
        // What the store said is in the log already.
        Event::CommitFailed => metrics::counter!("weft_directory_commit_failures_total").increment(1),
        Event::Dropped(reason) => measures.dropped(reason.label(), 1),
    }
}

fn measure(core: &Core, hands: &Hands) {
    let server = core.server.read();
    let shared = server.shared();
    let measures = &core.measures;
    measures.state.set(f64::from(shared.state as u8));
    measures.revision.set(shared.revision.0 as f64);
    measures.lag.set(hands.storage.newest().saturating_sub(shared.revision.0) as f64);
    measures.entries.set(shared.table.len() as f64);
    measures.table_bytes.set(shared.table.bytes() as f64);
    measures.policy_version.set(f64::from(shared.policy.version()));
    measures.waiting.set(core.waiting() as f64);
    measures.streams.set(hands.streams.count() as f64);
}

/// Whether everything that was taken has been committed and answered.
fn has_left(core: &Core, since: Instant) -> bool {
    let quiet = core.waiting() == 0 && core.commits.load(Ordering::Acquire) == 0;
    since.elapsed() >= LEAVING_MAX || (quiet && since.elapsed() >= LEAVING_MIN)
}
