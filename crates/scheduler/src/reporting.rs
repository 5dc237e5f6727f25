//! The life of a daemon whose agents report by UDP; one task handles everything.
//!
//! ```text
//!   weft-agent --reports, UDP--> Reporting: a network of control, its Controller --orders--> weft-agent
//!   weft-scheduler status, placements, explain --Unix socket--'
//! ```
//! With `[standby]` a lease in etcd decides which of several schedulers leads ([`crate::leader`]). Agents report to all; one that does not lead drops what they report, and
//! sends nothing. One that begins to lead knows nothing and has a higher generation: agents obey it, and their first reports to it list what is placed.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use metrics::gauge;
use serde_json::{Value, json};
use tokio::net::UdpSocket;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;
use weft_control::time::Instant;
use weft_directory::daemon::notify;
use weft_directory::daemon::socket::{accepted, refused};

use crate::connections::unix_listener;
use crate::error::{Error, Result};
use crate::leader::{Campaign, Change, Election, ElectionState, Leadership, now_ms};
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
    /// How it is decided which of several schedulers leads; `None`: the one that started last.
    pub election: Option<&'a Election>,
}

/// Runs until a signal comes. `make_network` makes a network of which no agent has reported, for a generation.
///
/// # Errors
/// What keeps it from starting.
pub(crate) fn run<N: Reporting>(places: Places<'_>, json_ready: bool, make_network: impl Fn(u64) -> Result<N>) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|cause| Error::System { action: "start", cause })?;
    runtime.block_on(until_signal(places, json_ready, Elected::new(make_network, places.election.is_some())?))
}

async fn until_signal<N: Reporting>(
    places: Places<'_>,
    json_ready: bool,
    mut network: Elected<N, impl Fn(u64) -> Result<N>>,
) -> Result<()> {
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
    let since_start = |at: std::time::Instant| {
        Instant::from_ns(u64::try_from(at.saturating_duration_since(start).as_nanos()).unwrap_or(u64::MAX))
    };
    let now = || since_start(std::time::Instant::now());
    let mut campaign = Campaign::start(places.election);
    let mut every = tokio::time::interval(METRICS);
    loop {
        let due = network.deadline().map_or(IDLE, |deadline| deadline.saturating_since(now()).to_std());
        tokio::select! {
            Some((socket, from, bytes)) = hears.recv() => {
                if sockets.len() > 1 {
                    if by_agent.len() >= AGENTS {
                        by_agent.clear();
                    }
                    by_agent.insert(from, socket);
                }
                network.received(now(), from, &bytes)?;
            }
            Some(new) = campaign.next() => network.update_leadership(now(), new, since_start)?,
            Some((request, reply)) = asked.recv() => {
                let answer = match network.answer(now(), &request) {
                    Ok(value) => accepted(&value),
                    Err((message, help)) => refused(&message, &help),
                };
                // A client that has gone needs no answer.
                let _ = reply.send(answer);
            }
            () = tokio::time::sleep(due) => network.timer(now())?,
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
    campaign.end().await;
    tracing::info!("stopping: flows keep their paths");
    Ok(())
}

/// A network, and whether this scheduler leads it.
struct Elected<N, F> {
    /// Of a standby: one of which no agent has reported.
    network: N,
    make_network: F,
    /// Whether this scheduler leads, if that is decided by an election.
    election: Option<ElectionState>,
}

impl<N: Reporting, F: Fn(u64) -> Result<N>> Elected<N, F> {
    /// Without an election it leads from now on.
    fn new(make_network: F, has_election: bool) -> Result<Self> {
        let generation = if has_election { 0 } else { now_ms() };
        Ok(Self { network: make_network(generation)?, make_network, election: has_election.then(ElectionState::default) })
    }

    fn leads(&self) -> bool {
        self.election.as_ref().is_none_or(ElectionState::leads)
    }

    fn deadline(&self) -> Option<Instant> {
        let network = self.leads().then(|| self.network.deadline());
        network.into_iter().chain(self.election.as_ref().and_then(ElectionState::deadline)).min()
    }

    fn received(&mut self, now: Instant, from: SocketAddr, bytes: &[u8]) -> Result<()> {
        self.end_late_leadership(now)?;
        if self.leads() {
            self.network.received(now, from, bytes);
        }
        Ok(())
    }

    fn timer(&mut self, now: Instant) -> Result<()> {
        self.end_late_leadership(now)?;
        if self.leads() && self.network.deadline() <= now {
            self.network.timer(now);
        }
        Ok(())
    }

    /// The network of a standby has nothing to send.
    fn poll(&mut self) -> Option<(SocketAddr, Vec<u8>)> {
        self.network.poll()
    }

    fn update_leadership(&mut self, now: Instant, new: Leadership, clock: impl Fn(std::time::Instant) -> Instant) -> Result<()> {
        let change = self.election.as_mut().and_then(|election| election.update(now, new, clock));
        self.change_leadership(change)
    }

    fn end_late_leadership(&mut self, now: Instant) -> Result<()> {
        let change = self.election.as_mut().and_then(|election| election.end_late_leadership(now));
        self.change_leadership(change)
    }

    /// Begins with what agents report: state is soft.
    fn change_leadership(&mut self, change: Option<Change>) -> Result<()> {
        let generation = match change {
            None => return Ok(()),
            Some(Change::Leads(generation)) => generation,
            Some(Change::Follows) => 0,
        };
        self.network = (self.make_network)(generation)?;
        Ok(())
    }

    fn answer(&self, now: Instant, request: &Request) -> std::result::Result<Value, (String, String)> {
        let mut answer = self.network.answer(now, request)?;
        if let (Request::Status, Some(election)) = (request, &self.election) {
            add_election(&mut answer, election);
        }
        Ok(answer)
    }

    fn measure(&self, now: Instant) {
        gauge!("weft_scheduler_leader").set(f64::from(u8::from(self.leads())));
        self.network.measure(now);
    }
}

/// Adds to a status which scheduler leads; of a standby nothing else is of interest.
fn add_election(status: &mut Value, election: &ElectionState) {
    let (leader, problem) = (election.leader(), election.problem());
    status["leader"] = json!(leader);
    if let Some(leader) = leader {
        status["verdict"] = json!("standby");
        status["summary"] = json!(format!("{leader} leads"));
        status["problems"] = json!(problem.into_iter().collect::<Vec<_>>());
    } else if let (Some(problem), Some(problems)) = (problem, status["problems"].as_array_mut()) {
        problems.insert(0, json!(problem));
        if status["verdict"] == "ok" {
            status["verdict"] = json!("degraded");
        }
    }
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
/// With nothing to wait for.
const IDLE: Duration = Duration::from_secs(3600);
/// Bytes of the largest datagram that is received.
const DATAGRAM: usize = 2048;
