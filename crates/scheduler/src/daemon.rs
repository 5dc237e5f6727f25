//! The life of the daemon: it listens, reports that it is ready to be connected to, handles events in one task, and ends on SIGTERM or SIGINT. Switches keep
//! their rules.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;
use weft_control::time::Instant;
use weft_directory::daemon::notify;
use weft_directory::daemon::socket::{accepted, refused};

use crate::config::Config;
use crate::connections::{listen, unix_listener};
use crate::core::Core;
use crate::error::{Error, Result};
use crate::leader::{Campaign, now_ms};
use crate::requests::{Request, serve};
use crate::{explain, metrics, status};

/// Runs until a signal comes.
///
/// # Errors
/// What keeps it from starting.
pub(crate) fn run(config: Config, json_ready: bool) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|cause| Error::System { action: "start", cause })?;
    runtime.block_on(until_signal(config, json_ready))
}

async fn until_signal(config: Config, json_ready: bool) -> Result<()> {
    let take = |kind| signal(kind).map_err(|cause| Error::System { action: "handle signals", cause });
    let (mut terminate, mut interrupt) = (take(SignalKind::terminate())?, take(SignalKind::interrupt())?);
    let (events, mut connected) = mpsc::channel(EVENTS);
    let (asks, mut asked) = mpsc::channel(EVENTS);
    // The socket first: its error says that another scheduler runs.
    let (socket, _file) = unix_listener(&config.socket)?;
    tokio::spawn(serve(socket, asks));
    let _files = listen(&config.listen, config.tls.as_ref(), &events).await?;
    metrics::serve(config.metrics)?;
    let listening: Vec<String> = config.listen.iter().map(ToString::to_string).collect();
    let ready = format!("switches connect to {}", listening.join(", "));
    notify::print(&if json_ready { json!({ "ready": true, "listen": listening }).to_string() } else { format!("READY {ready}") });
    notify::systemd("READY=1");
    let start = std::time::Instant::now();
    let since_start = |at: std::time::Instant| {
        Instant::from_ns(u64::try_from(at.saturating_duration_since(start).as_nanos()).unwrap_or(u64::MAX))
    };
    let now = || since_start(std::time::Instant::now());
    let generation = config.election.is_none().then(now_ms);
    let mut campaign = Campaign::start(config.election.as_ref());
    let secret = [(); 2].map(|()| RandomState::new().build_hasher().finish());
    let make_network = move |generation| config.network(generation, secret);
    let mut core = Core::new(Box::new(make_network), generation);
    let mut every = tokio::time::interval(METRICS);
    loop {
        let due = core.deadline().map_or(IDLE, |deadline| deadline.saturating_since(now()).to_std());
        tokio::select! {
            Some(event) = connected.recv() => core.event(now(), event),
            Some(new) = campaign.next() => core.update_leadership(now(), new, since_start),
            Some((request, reply)) = asked.recv() => {
                let answer = match answer(&mut core, now(), &request) {
                    Ok(value) => accepted(&value),
                    Err((message, help)) => refused(&message, &help),
                };
                // A client that has gone needs no answer.
                let _ = reply.send(answer);
            }
            () = tokio::time::sleep(due) => core.timer(now()),
            _ = every.tick() => metrics::update(&core),
            _ = terminate.recv() => break,
            _ = interrupt.recv() => break,
        }
    }
    notify::systemd("STOPPING=1");
    campaign.end().await;
    tracing::info!("stopping: the switches keep their rules");
    Ok(())
}

fn answer(core: &mut Core, now: Instant, request: &Request) -> std::result::Result<Value, (String, String)> {
    match request {
        Request::Status => Ok(status::status(core, now)),
        Request::Placements => Ok(status::placements(core)),
        Request::Explain { flow } => explain::explain(core, flow),
    }
}

/// Events that wait for the core.
const EVENTS: usize = 64;
/// Between updates of the metrics.
const METRICS: Duration = Duration::from_secs(1);
/// With nothing to wait for.
const IDLE: Duration = Duration::from_secs(3600);
