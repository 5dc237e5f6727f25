//! The life of a daemon whose agents report by UDP; one task handles everything.
//!
//! ```text
//!   weft-agent --reports, UDP--> Reporting: a network of control, its Controller --orders--> weft-agent
//!   weft-scheduler status, placements, explain --Unix socket--'
//! ```

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::net::UdpSocket;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;
use weft_control::time::Instant;
use weft_directory::daemon::notify;
use weft_directory::daemon::socket::{accepted, refused};

use crate::connections::unix_listener;
use crate::error::{Error, Result};
use crate::requests::{Request, serve};

/// Agents that report.
pub(crate) trait Reporting {
    /// When [`Reporting::timer`] is to be called.
    fn deadline(&self) -> Instant;
    /// A datagram has come.
    fn received(&mut self, now: Instant, from: SocketAddr, bytes: &[u8]);
    /// The deadline has come.
    fn timer(&mut self, now: Instant);
    /// The next datagram to send. Logs what else there is.
    fn poll(&mut self) -> Option<(SocketAddr, Vec<u8>)>;
    /// Answers a client, or says what is wrong and what helps.
    fn answer(&self, now: Instant, request: &Request) -> std::result::Result<Value, (String, String)>;
    /// Brings metrics up to date.
    fn measure(&self, now: Instant);
}

/// Where it listens.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Places<'a> {
    /// For agents: one address, or one in each of several networks side by side. An agent is answered from the one that it reported to.
    pub listen: &'a [SocketAddr],
    /// For commands.
    pub socket: &'a Path,
    /// For Prometheus, if anywhere.
    pub metrics: Option<SocketAddr>,
}

/// Runs until a signal comes.
///
/// # Errors
/// What keeps it from starting.
pub(crate) fn run(places: Places<'_>, json_ready: bool, network: &mut dyn Reporting) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|cause| Error::System { action: "start", cause })?;
    runtime.block_on(until_signal(places, json_ready, network))
}

async fn until_signal(places: Places<'_>, json_ready: bool, network: &mut dyn Reporting) -> Result<()> {
    let take = |kind| signal(kind).map_err(|cause| Error::System { action: "handle signals", cause });
    let (mut terminate, mut interrupt) = (take(SignalKind::terminate())?, take(SignalKind::interrupt())?);
    let (asks, mut asked) = mpsc::channel(ASKS);
    // The socket for commands first: its error says that another scheduler runs.
    let (commands, _file) = unix_listener(places.socket)?;
    tokio::spawn(serve(commands, asks));
    let (heard, mut hears) = mpsc::channel(DATAGRAMS);
    let mut sockets = Vec::new();
    for address in places.listen {
        let bound = UdpSocket::bind(address).await;
        let socket = Arc::new(bound.map_err(|cause| Error::Listen { address: address.to_string(), cause })?);
        tokio::spawn(receive(Arc::clone(&socket), sockets.len(), heard.clone()));
        sockets.push(socket);
    }
    let mut by_agent = BTreeMap::new();
    crate::metrics::serve(places.metrics)?;
    let listen: Vec<String> = places.listen.iter().map(ToString::to_string).collect();
    let listen = listen.join(", ");
    let line = json!({ "ready": true, "agents": listen }).to_string();
    notify::print(&if json_ready { line } else { format!("READY agents report to {listen}") });
    notify::systemd("READY=1");
    let start = std::time::Instant::now();
    let now = || Instant::from_ns(u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX));
    let mut every = tokio::time::interval(METRICS);
    loop {
        let due = network.deadline().saturating_since(now()).to_std();
        tokio::select! {
            Some((socket, from, bytes)) = hears.recv() => {
                if sockets.len() > 1 {
                    if by_agent.len() >= AGENTS {
                        by_agent.clear();
                    }
                    by_agent.insert(from, socket);
                }
                network.received(now(), from, &bytes);
            }
            Some((request, reply)) = asked.recv() => {
                let answer = match network.answer(now(), &request) {
                    Ok(value) => accepted(&value),
                    Err((message, help)) => refused(&message, &help),
                };
                // A client that has gone needs no answer.
                let _ = reply.send(answer);
            }
            () = tokio::time::sleep(due) => network.timer(now()),
            _ = every.tick() => network.measure(now()),
            _ = terminate.recv() => break,
            _ = interrupt.recv() => break,
        }
        while let Some((to, bytes)) = network.poll() {
            // What is lost is decided again by the next round.
            let socket: usize = by_agent.get(&to).copied().unwrap_or(0);
            if let Err(error) = sockets[socket].try_send_to(&bytes, to) {
                tracing::debug!(%to, %error, "orders were not sent");
            }
        }
    }
    notify::systemd("STOPPING=1");
    tracing::info!("stopping: flows keep their paths");
    Ok(())
}

/// Passes what comes to a socket on.
async fn receive(socket: Arc<UdpSocket>, number: usize, heard: mpsc::Sender<(usize, SocketAddr, Vec<u8>)>) {
    let mut buffer = vec![0; DATAGRAM];
    loop {
        match socket.recv_from(&mut buffer).await {
            Ok((length, from)) if heard.send((number, from, buffer[..length].to_vec())).await.is_err() => return,
            // An error is that of an earlier datagram to an agent that has gone.
            _ => {}
        }
    }
}

/// Datagrams that wait for the core.
const DATAGRAMS: usize = 1024;
/// Agents whose socket is remembered, at most.
const AGENTS: usize = 65_536;
/// Requests that wait for the core.
const ASKS: usize = 64;
/// Between updates of the metrics.
const METRICS: Duration = Duration::from_secs(1);
/// Bytes of the largest datagram that is received.
const DATAGRAM: usize = 2048;
