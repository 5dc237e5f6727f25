//! `weft-scheduler discover`: finds switches, cables and hosts, and writes the files with which a scheduler starts.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::path::{Path, PathBuf};

use serde::Serialize;
use tokio::sync::mpsc;
use tokio_rustls::TlsAcceptor;
use weft_control::openflow::Session;
use weft_control::openflow::discovery::{DiscoveredFabric, Discovery, Found, Input, Output};
use weft_control::openflow::lldp::SwitchPort;
use weft_control::openflow::session::{Input as SessionInput, Output as SessionOutput};
use weft_control::time::{Duration, Instant};
use weft_directory::atomic_file;
use weft_directory::client::TlsFiles;
use weft_fabric::formats::topology::{Export, write};
use weft_fabric::{BitsPerSec, NodeId};

use crate::config::Listen;
use crate::connections::{ConnectionId, Event, QUEUE, Writer, listen};
use crate::error::{Error, Result};
use crate::leader::now_ms;

/// Where and how to look.
pub(crate) struct Job {
    /// Where switches connect.
    pub listen: Vec<Listen>,
    /// The certificates of switches that connect over TLS.
    pub tls: Option<(TlsFiles, TlsAcceptor)>,
    /// The folder for the files.
    pub folder: PathBuf,
    /// Of all cables; `None`: what the switches say.
    pub rate: Option<BitsPerSec>,
}

/// Looks, and writes the files. Returns what to print.
///
/// # Errors
/// [`Error`]; nothing is written then.
pub(crate) fn run(job: &Job) -> Result<String> {
    let files = [FABRIC, CONFIG].map(|name| job.folder.join(name));
    if let Some(path) = files.iter().find(|path| path.exists()) {
        return Err(Error::Exists(path.clone()));
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|cause| Error::System { action: "start", cause })?;
    let discovery = runtime.block_on(look(job))?;
    let result = discovery.fabric(job.rate)?;
    let fabric = write(result.identities.fabric(), Export::Native).map_err(|error| Error::Discovered(error.to_string()))?;
    let config = config(&result, job)?;
    std::fs::create_dir_all(&job.folder).map_err(|cause| Error::Write { path: job.folder.clone(), cause })?;
    for (path, text) in files.iter().zip([fabric, config]) {
        atomic_file::write(path, text.as_bytes()).map_err(|cause| Error::Write { path: path.clone(), cause })?;
    }
    Ok(report(&discovery.found(), &result, &files[1]))
}

/// Looks until nothing new is found, or SIGINT comes.
async fn look(job: &Job) -> Result<Discovery> {
    let (events, mut connected) = mpsc::channel(64);
    let _files = listen(&job.listen, job.tls.as_ref().map(|tls| &tls.1), &events).await?;
    let start = std::time::Instant::now();
    let now = || Instant::from_ns(u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX));
    let secret = [(); 2].map(|()| RandomState::new().build_hasher().finish());
    let discovery = Discovery::new(now(), now_ms(), secret);
    let mut sessions = Sessions { discovery, connections: BTreeMap::new(), by_datapath: BTreeMap::new() };
    let listening: Vec<String> = job.listen.iter().map(ToString::to_string).collect();
    eprintln!("switches connect to {}; Ctrl-C ends the search", listening.join(", "));
    let mut shown = None;
    loop {
        let found = sessions.discovery.found();
        if shown != Some((found.switches, found.cables, found.hosts)) && found.switches > 0 {
            shown = Some((found.switches, found.cables, found.hosts));
            eprintln!("{}", counts(&found));
        }
        let (limit, since) = if found.switches == 0 { (FIRST, Instant::ZERO) } else { (QUIET, found.changed) };
        if now().saturating_since(since) >= limit {
            break;
        }
        let due = sessions.deadline().into_iter().chain([since + limit]).min().unwrap_or(Instant::ZERO);
        tokio::select! {
            Some(event) = connected.recv() => sessions.event(now(), event),
            () = tokio::time::sleep(due.saturating_since(now()).to_std()) => sessions.timer(now()),
            _ = tokio::signal::ctrl_c() => break,
        }
    }
    sessions.discovery.end();
    sessions.run(now());
    // For the switches to read that rules go.
    tokio::time::sleep(std::time::Duration::from_millis(300)).await;
    Ok(sessions.discovery)
}

/// Switches that have connected.
struct Sessions {
    discovery: Discovery,
    connections: BTreeMap<ConnectionId, Connection>,
    by_datapath: BTreeMap<u64, ConnectionId>,
}

struct Connection {
    session: Session,
    writer: Writer,
    datapath: Option<u64>,
}

impl Sessions {
    fn deadline(&self) -> Option<Instant> {
        let sessions = self.connections.values().filter_map(|connection| connection.session.deadline());
        sessions.chain(self.discovery.deadline()).min()
    }

    fn event(&mut self, now: Instant, event: Event) {
        match event {
            Event::Opened(id, writer, _) => {
                self.connections.insert(id, Connection { session: Session::new(now), writer, datapath: None });
                self.run_session(now, id);
            }
            Event::Received(id, bytes) => {
                if let Some(connection) = self.connections.get_mut(&id) {
                    connection.session.handle(now, SessionInput::Received(&bytes));
                    self.run_session(now, id);
                }
            }
            Event::Closed(id, _) => self.close(now, id),
            Event::Refused(peer, reason) => eprintln!("{peer} was refused: {reason}"),
        }
        self.run(now);
    }

    fn timer(&mut self, now: Instant) {
        let due = |c: &Connection| c.session.deadline().is_some_and(|deadline| deadline <= now);
        let due: Vec<ConnectionId> = self.connections.iter().filter(|(_, c)| due(c)).map(|(&id, _)| id).collect();
        for id in due {
            if let Some(connection) = self.connections.get_mut(&id) {
                connection.session.handle(now, SessionInput::Timer);
                self.run_session(now, id);
            }
        }
        if self.discovery.deadline().is_some_and(|deadline| deadline <= now) {
            self.discovery.handle(now, Input::Timer);
        }
        self.run(now);
    }

    fn run_session(&mut self, now: Instant, id: ConnectionId) {
        while let Some(connection) = self.connections.get_mut(&id) {
            let Some(output) = connection.session.poll() else { return };
            match output {
                SessionOutput::Send(bytes) => {
                    if !connection.writer.send(bytes, QUEUE) {
                        self.close(now, id);
                    }
                }
                SessionOutput::Up { version, features } => {
                    connection.datapath = Some(features.datapath);
                    if let Some(old) = self.by_datapath.insert(features.datapath, id) {
                        self.connections.remove(&old);
                    }
                    self.discovery.handle(now, Input::Up(features.datapath, version));
                }
                SessionOutput::Message(message) => {
                    if let Some(datapath) = connection.datapath {
                        self.discovery.handle(now, Input::Received(datapath, message));
                    }
                }
                SessionOutput::Malformed { error, .. } => eprintln!("a message that cannot be read was dropped: {error}"),
                SessionOutput::Unsent { error, .. } => eprintln!("a message was not sent: {error}"),
                SessionOutput::Closed(reason) => {
                    eprintln!("a switch was refused: {reason}");
                    self.close(now, id);
                }
            }
        }
    }

    fn close(&mut self, now: Instant, id: ConnectionId) {
        let datapath = self.connections.remove(&id).and_then(|connection| connection.datapath);
        if let Some(datapath) = datapath.filter(|datapath| self.by_datapath.get(datapath) == Some(&id)) {
            self.by_datapath.remove(&datapath);
            self.discovery.handle(now, Input::Down(datapath));
        }
    }

    /// Does what the discovery wants.
    fn run(&mut self, now: Instant) {
        while let Some(Output(datapath, message)) = self.discovery.poll() {
            let Some(&id) = self.by_datapath.get(&datapath) else { continue };
            if let Some(connection) = self.connections.get_mut(&id) {
                connection.session.handle(now, SessionInput::Send(message));
                self.run_session(now, id);
            }
        }
    }
}

/// The configuration that is written.
#[derive(Serialize)]
struct Written {
    fabric: &'static str,
    listen: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tls: Option<WrittenTls>,
    switch: Vec<WrittenSwitch>,
    host: Vec<WrittenHost>,
}

#[derive(Serialize)]
struct WrittenTls {
    cert: PathBuf,
    cert_key: PathBuf,
    ca: PathBuf,
}

impl WrittenTls {
    /// As they are found from any folder.
    fn of(files: &TlsFiles) -> Self {
        let [cert, cert_key, ca] =
            [&files.certificate, &files.key, &files.authority].map(|path| path.canonicalize().unwrap_or_else(|_| path.clone()));
        Self { cert, cert_key, ca }
    }
}

#[derive(Serialize)]
struct WrittenSwitch {
    name: String,
    datapath: String,
    /// By neighbour; several cables in the order of the fabric.
    ports: BTreeMap<String, Vec<u32>>,
}

#[derive(Serialize)]
struct WrittenHost {
    name: String,
    address: String,
    mac: String,
}

fn config(found: &DiscoveredFabric, job: &Job) -> Result<String> {
    let identities = &found.identities;
    let fabric = identities.fabric();
    let name = |node: NodeId| fabric.node(node).name.to_string();
    let switch = |switch| {
        let node = fabric.switch_node(switch);
        let mut ports = BTreeMap::<String, Vec<u32>>::new();
        for &link in fabric.out(node) {
            ports.entry(name(fabric.link(link).to)).or_default().push(identities.port(link));
        }
        WrittenSwitch { name: name(node), datapath: format!("{:016x}", identities.datapath(switch)), ports }
    };
    let host = |host: weft_fabric::HostId| {
        let identity = identities.host(host);
        WrittenHost { name: name(host.node()), address: identity.address.to_string(), mac: identity.mac.to_string() }
    };
    let written = Written {
        fabric: FABRIC,
        listen: job.listen.iter().map(ToString::to_string).collect(),
        tls: job.tls.as_ref().map(|(files, _)| WrittenTls::of(files)),
        switch: fabric.switches().map(switch).collect(),
        host: fabric.hosts().map(host).collect(),
    };
    toml::to_string(&written).map_err(|error| Error::Discovered(error.to_string()))
}

fn report(found: &Found, result: &DiscoveredFabric, config: &Path) -> String {
    let mut text = format!("{}\n", counts(found));
    let ports = |ports: &[SwitchPort]| {
        let shown: Vec<String> = ports.iter().take(SHOWN).map(|it| format!("{:016x} port {}", it.datapath, it.port)).collect();
        let more = ports.len().saturating_sub(SHOWN);
        if more > 0 { format!("{} and {more} more", shown.join(", ")) } else { shown.join(", ") }
    };
    if !result.unheard.is_empty() {
        text +=
            &format!("  a link and nobody heard: {}; a host is found once it sends, such as a ping\n", ports(&result.unheard));
    }
    for datapath in result.refusing.iter().take(SHOWN) {
        text += &format!("  datapath {datapath:016x} has refused rules, so what is at its ports may be missing\n");
    }
    text + &format!("{} is written: check it, then `weft scheduler run --config {0}`\n", config.display())
}

fn counts(found: &Found) -> String {
    format!("{} switches, {} cables between them, {} hosts", found.switches, found.cables, found.hosts)
}

/// The names of the files.
const FABRIC: &str = "fabric.weft";
const CONFIG: &str = "scheduler.toml";
/// How long a first switch is waited for: switches try again after some seconds.
const FIRST: Duration = Duration::from_secs(60);
/// After so long without anything new, all was found.
const QUIET: Duration = Duration::from_secs(10);
/// Ports that a line names.
const SHOWN: usize = 8;
