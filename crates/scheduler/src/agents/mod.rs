//! The scheduler of VL2's agents: the life of its daemon. Agents report by UDP to one socket; one task handles everything.
//!
//! ```text
//!   weft-agent --Report, UDP--> AgentNetwork, its Controller --Orders--> weft-agent
//!   weft-scheduler status, placements, explain --Unix socket--'
//! ```

mod explain;
mod metrics;
mod status;

use std::time::Duration;

use serde_json::{Value, json};
use tokio::net::UdpSocket;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;
use weft_control::time::Instant;
use weft_control::vl2::placement::{AgentNetwork, NetworkInput, NetworkOutput};
use weft_directory::daemon::notify;
use weft_directory::daemon::socket::{accepted, refused};

use crate::config::AgentsConfig;
use crate::connections::unix_listener;
use crate::error::{Error, Result};
use crate::leader::now_ms;
use crate::requests::{Request, serve};

/// Runs until a signal comes.
///
/// # Errors
/// What keeps it from starting.
pub(crate) fn run(config: &AgentsConfig, json_ready: bool) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|cause| Error::System { action: "start", cause })?;
    runtime.block_on(until_signal(config, json_ready))
}

async fn until_signal(config: &AgentsConfig, json_ready: bool) -> Result<()> {
    let take = |kind| signal(kind).map_err(|cause| Error::System { action: "handle signals", cause });
    let (mut terminate, mut interrupt) = (take(SignalKind::terminate())?, take(SignalKind::interrupt())?);
    let (asks, mut asked) = mpsc::channel(ASKS);
    // The socket for commands first: its error says that another scheduler runs.
    let (commands, _file) = unix_listener(&config.socket)?;
    tokio::spawn(serve(commands, asks));
    let bound = UdpSocket::bind(config.listen).await;
    let socket = bound.map_err(|cause| Error::Listen { address: config.listen.to_string(), cause })?;
    crate::metrics::serve(config.metrics)?;
    let listen = config.listen.to_string();
    let line = json!({ "ready": true, "agents": listen }).to_string();
    notify::print(&if json_ready { line } else { format!("READY agents report to {listen}") });
    notify::systemd("READY=1");
    let start = std::time::Instant::now();
    let now = || Instant::from_ns(u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX));
    let mut network = config.network(now_ms());
    let mut every = tokio::time::interval(METRICS);
    let mut buffer = vec![0; DATAGRAM];
    loop {
        let due = network.deadline().saturating_since(now()).to_std();
        tokio::select! {
            received = socket.recv_from(&mut buffer) => {
                // An error is that of an earlier datagram to an agent that has gone.
                if let Ok((length, from)) = received {
                    network.handle(now(), NetworkInput::Received(from, &buffer[..length]));
                }
            }
            Some((request, reply)) = asked.recv() => {
                let answer = match answer(&network, now(), &request) {
                    Ok(value) => accepted(&value),
                    Err((message, help)) => refused(&message, &help),
                };
                // A client that has gone needs no answer.
                let _ = reply.send(answer);
            }
            () = tokio::time::sleep(due) => network.handle(now(), NetworkInput::Timer),
            _ = every.tick() => metrics::update(&network, now()),
            _ = terminate.recv() => break,
            _ = interrupt.recv() => break,
        }
        drain(&mut network, &socket);
    }
    notify::systemd("STOPPING=1");
    tracing::info!("stopping: placed flows keep their paths");
    Ok(())
}

fn drain(network: &mut AgentNetwork, socket: &UdpSocket) {
    while let Some(output) = network.poll() {
        match output {
            NetworkOutput::Send(to, bytes) => {
                // What is lost is ordered again after the agent's next report.
                if let Err(error) = socket.try_send_to(&bytes, to) {
                    tracing::debug!(%to, %error, "orders were not sent");
                }
            }
            NetworkOutput::Intermediate(switch, has_failed) => {
                let name = status::name(network, switch);
                if has_failed {
                    tracing::warn!(switch = name, "the intermediate switch does not answer agents: no flow is placed over it");
                } else {
                    tracing::info!(switch = name, "the intermediate switch answers again");
                }
            }
        }
    }
}

fn answer(network: &AgentNetwork, now: Instant, request: &Request) -> std::result::Result<Value, (String, String)> {
    match request {
        Request::Status => Ok(status::status(network, now)),
        Request::Placements => Ok(status::placements(network)),
        Request::Explain { flow } => explain::explain(network, flow),
    }
}

/// Requests that wait for the core.
const ASKS: usize = 64;
/// Between updates of the metrics.
const METRICS: Duration = Duration::from_secs(1);
/// Bytes of the largest datagram that is received.
const DATAGRAM: usize = 2048;
