//! The runtime of `weft-directory serve`: sockets, threads and the store around [`weft_control`]'s machine, which decides everything.
//!
//! ```text
//!   UDP threads (a socket and a front each) --read--> RwLock<Server> <--write-- machine thread <-- inbox
//!        |  what they do not answer themselves                                   |                  ^
//!        +-------------------------------------> inbox                           v                  |
//!   TCP: streams (TLS, or keyed MACs) ---------> inbox      replies, datagrams, commits --> storage -+
//!        +--- named documents, tenants' records -----------------------------------------> store
//! ```
//! SIGTERM, SIGINT: no more updates, what was taken is committed, exit. SIGHUP: the policy and the certificate are read again.

pub(crate) mod affinity;
pub(crate) mod audit;
mod authentication;
mod budget;
mod certificate;
mod config;
mod core;
mod denied;
mod documents;
mod machine;
mod metrics;
mod notices;
pub(crate) mod packets;
mod rules;
mod secrets;
mod storage;
mod streams;
mod tenants;
mod tls;
mod udp;
mod watched;

use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tokio::runtime::Runtime;
use tokio::signal::unix::{SignalKind, signal};
use weft_control::directory::parts::PartMap;
use weft_control::directory::policy::Policy;
use weft_control::directory::server::{Input, ServerConfig};
use weft_control::directory::store::MAX_COMMIT_OPS;

use self::core::Core;
use crate::client::{TlsFiles, versions};
use crate::daemon::notify;
use crate::store::AnyStore;
use audit::Audit;
use budget::{Budget, raise_descriptors, stream_limits};
use certificate::Certificate;
use denied::DeniedList;
use documents::Documents;
use rules::Rules;
use secrets::Secrets;
use streams::Streams;
use tenants::Tenants;

pub use config::{PolicySource, ServeConfig, ServeError, StreamAuth};

/// Between two tries to open a store that does not answer.
const PAUSE: Duration = Duration::from_millis(200);
/// Commits under way with the embedded store, which writes all that wait in one transaction.
const EMBEDDED_COMMITS: usize = 32;

/// For streams to send what is in their queues when the server ends.
const FLUSH: Duration = Duration::from_millis(100);

/// Serves until it is stopped.
///
/// # Errors
/// Whatever keeps it from starting: then nothing was changed. The program ends with exit code 2.
pub fn serve(config: ServeConfig) -> Result<(), ServeError> {
    let secrets = Arc::new(Secrets::new(config.secret.clone(), config.old_secret.clone()));
    let secret = secrets.read()?;
    if secret.has_old() {
        tracing::warn!("keys of the old secret are good as well, until its file is gone (`weft directory rotate --finish`)");
    }
    let (rules, policy) = Rules::read(config.policy.clone(), config.part.clone())?;
    let certificate = match &config.auth {
        StreamAuth::Tls { certificate, key, ca } => {
            let (certificate, key, authority) = (certificate.clone(), key.clone(), ca.clone());
            Some(Certificate::read(TlsFiles { certificate, key, authority })?)
        }
        StreamAuth::Mac => None,
    };
    check_cores(&config.cores)?;
    let audit = config.audit.as_deref().map(|path| Audit::open(path, config.principal)).transpose()?;
    let (listener, sockets) = listen(config.listen, config.threads.max(1))?;
    let address = listener.local_addr().map_err(|error| ServeError::Listen { address: config.listen, error })?;
    let runtime = runtime()?;
    if let Some(address) = config.metrics {
        let _entered = runtime.enter();
        metrics::serve(address)?;
    }
    let store = runtime.block_on(open_store(&config))?;
    let peers = peers(&config, &policy, address)?;
    let mut machine = ServerConfig::new(config.principal, peers);
    machine.part = config.part.clone();
    machine.batch_ops = machine.batch_ops.min(MAX_COMMIT_OPS);
    if matches!(store, AnyStore::Embedded(_)) {
        machine.max_in_flight = EMBEDDED_COMMITS;
    }
    machine.max_clients = config.max_clients;
    machine.audit = config.audit.is_some();
    machine.replica = config.replica;
    machine.versions = versions();
    let (core, inbox) = Core::new(secret, machine, policy, config.auth == StreamAuth::Mac, audit);
    let mut denied = DeniedList::new(store.clone());
    if let Some(list) = runtime.block_on(denied.read())? {
        core.server.write().handle(core.now(), Input::Denied(list));
    }
    runtime.spawn(denied.follow(core.clone()));
    let threads = start_udp(&core, &sockets, &config.cores)?;
    let streams = start_streams(&runtime, &core, listener, certificate.clone(), &store)?;
    if let Some(retention) = config.retention.filter(|_| !config.replica) {
        runtime.spawn(storage::compact(store.clone(), retention));
    }
    if let Some(certificate) = &certificate {
        runtime.spawn(certificate.clone().follow(core.clone()));
    }
    runtime.spawn(secrets.clone().follow(core.clone()));
    runtime.spawn(obey(core.clone(), rules, certificate, secrets));
    let mut io = machine::IoHandles {
        socket: sockets[0].try_clone().map_err(|error| ServeError::System { what: "a socket", error })?,
        storage: storage::Storage::new(&core, store, runtime.handle().clone()),
        streams,
        ready: Box::new(move |core| say_ready(core, &config, address)),
    };
    let result = machine::run(&core, &inbox, &mut io);
    finish(&core, threads, runtime);
    result
}

/// The other servers: those that are given, or those of its part.
fn peers(config: &ServeConfig, policy: &Policy, own: SocketAddr) -> Result<Vec<SocketAddr>, ServeError> {
    let parts = policy.parts().map(PartMap::parts).unwrap_or_default();
    let part = parts.iter().find(|part| Some(&part.name) == config.part.as_ref());
    if let Some(part) = part.filter(|part| !part.servers.contains(&own)) {
        tracing::warn!(%own, "this address is not among the servers of part `{}` in the policy: clients do not find it there", part.name);
    }
    for &peer in &config.peers {
        let other = parts.iter().find(|it| it.servers.contains(&peer) && Some(&it.name) != config.part.as_ref());
        if let Some(other) = other {
            return Err(ServeError::PeerOfOtherPart { peer, part: other.name.clone() });
        }
    }
    let others = if config.peers.is_empty() { part.map(|part| &part.servers) } else { Some(&config.peers) };
    Ok(others.into_iter().flatten().copied().filter(|peer| *peer != own).collect())
}

/// One TCP listener and the UDP sockets, all on one port.
fn listen(address: SocketAddr, threads: usize) -> Result<(TcpListener, Vec<UdpSocket>), ServeError> {
    let mut tries = if address.port() == 0 { 16 } else { 1 };
    loop {
        tries -= 1;
        let listener = TcpListener::bind(address).map_err(|error| match error.kind() {
            std::io::ErrorKind::AddrInUse => ServeError::InUse(address),
            _ => ServeError::Listen { address, error },
        })?;
        let chosen = listener.local_addr().map_err(|error| ServeError::Listen { address, error })?;
        match udp::bind(chosen, threads) {
            // The port that is free for TCP may be taken for UDP: another one.
            Err(ServeError::InUse(_)) if tries > 0 => {}
            sockets => return Ok((listener, sockets?)),
        }
    }
}

fn runtime() -> Result<Runtime, ServeError> {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let built = builder.worker_threads(2).max_blocking_threads(4).thread_name("io").enable_all().build();
    built.map_err(|error| ServeError::System { what: "threads", error })
}

/// Opens the store; waits for one that does not answer yet, and says so.
async fn open_store(config: &ServeConfig) -> Result<AnyStore, ServeError> {
    let begun = Instant::now();
    let mut said = false;
    loop {
        let opened = if config.replica {
            AnyStore::follow(&config.store, &config.cluster, &config.etcd).await
        } else {
            AnyStore::open(&config.store, &config.cluster, &config.etcd).await
        };
        let error = match opened {
            Ok(store) => return Ok(store),
            Err(error) if error.is_temporary() => error,
            Err(error) => return Err(error.into()),
        };
        let waited = begun.elapsed();
        if waited >= config.store_timeout {
            return Err(ServeError::StoreNotReady { store: config.store.clone(), waited: config.store_timeout, error });
        }
        if !said {
            tracing::warn!(%error, store = %config.store, "waiting for the store, up to {:?}", config.store_timeout);
            said = true;
        }
        tokio::time::sleep(PAUSE).await;
    }
}

fn check_cores(cores: &[usize]) -> Result<(), ServeError> {
    let check = |core: usize| std::thread::spawn(move || udp::pin(core)).join();
    cores.iter().try_for_each(|&core| check(core).unwrap_or(Err(ServeError::Core(core))))
}

fn start_udp(core: &Arc<Core>, sockets: &[UdpSocket], cores: &[usize]) -> Result<Vec<JoinHandle<()>>, ServeError> {
    let mut threads = Vec::with_capacity(sockets.len());
    for (at, socket) in sockets.iter().enumerate() {
        let refused = |error| ServeError::System { what: "a thread", error };
        let (core, socket) = (core.clone(), socket.try_clone().map_err(refused)?);
        let pinned = (!cores.is_empty()).then(|| cores[at % cores.len()]);
        let body = move || match pinned.map_or(Ok(()), udp::pin) {
            Ok(()) => udp::run(&core, &socket),
            Err(error) => tracing::error!(%error, "a thread that answers lookups ended"),
        };
        threads.push(std::thread::Builder::new().name(format!("udp-{at}")).spawn(body).map_err(refused)?);
    }
    Ok(threads)
}

fn start_streams(
    runtime: &Runtime,
    core: &Arc<Core>,
    listener: TcpListener,
    certificate: Option<Arc<Certificate>>,
    store: &AnyStore,
) -> Result<Arc<Streams>, ServeError> {
    let refused = |error| ServeError::System { what: "a listening socket", error };
    listener.set_nonblocking(true).map_err(refused)?;
    let _entered = runtime.enter();
    let listener = tokio::net::TcpListener::from_std(listener).map_err(refused)?;
    let limits = stream_limits(raise_descriptors());
    tracing::info!(?limits, "streams");
    let budget = Budget::new(limits);
    let streams = Arc::new(Streams::new(budget.clone()));
    let documents = Arc::new(Documents::new(core.clone(), store.clone()));
    let tenants = Tenants::new(core.clone(), store.clone(), budget);
    runtime.spawn(notices::send(core.clone(), tenants.clone(), streams.clone()));
    runtime.spawn(streams::accept(core.clone(), streams.clone(), listener, certificate, (documents, tenants)));
    Ok(streams)
}

/// Does what signals, and changes of the policy file, ask for.
async fn obey(core: Arc<Core>, mut rules: Rules, certificate: Option<Arc<Certificate>>, secrets: Arc<Secrets>) {
    let (Ok(mut term), Ok(mut int), Ok(mut hup)) =
        (signal(SignalKind::terminate()), signal(SignalKind::interrupt()), signal(SignalKind::hangup()))
    else {
        tracing::error!("signals cannot be taken");
        return;
    };
    loop {
        tokio::select! {
            _ = term.recv() => core.post(Input::Leave),
            _ = int.recv() => core.post(Input::Leave),
            _ = hup.recv() => {
                rules.reload(&core);
                secrets.reload(&core);
                if let Some(certificate) = &certificate {
                    certificate.reload(&core);
                }
            }
            () = rules.changed() => rules.reload(&core),
        }
    }
}

fn say_ready(core: &Core, config: &ServeConfig, address: SocketAddr) {
    let server = core.server.read();
    let shared = server.shared();
    let (revision, entries, policy) = (shared.revision.0, shared.table.len(), shared.policy.version());
    tracing::info!(%address, store = %config.store, revision, entries, policy, "serving");
    let metrics = config.metrics.map(|address| address.to_string());
    let line = serde_json::json!({
        "listen": address.to_string(), "metrics": metrics, "principal": config.principal.0, "store": config.store.to_string(),
        "revision": revision, "entries": entries, "policy": policy,
    });
    if config.json {
        notify::print(&line.to_string());
    } else {
        notify::print(&format!("READY {address}: {entries} entries at revision {revision}, policy {policy}"));
    }
    notify::systemd("READY=1");
}

fn finish(core: &Core, threads: Vec<JoinHandle<()>>, runtime: Runtime) {
    notify::systemd("STOPPING=1");
    std::thread::sleep(FLUSH);
    core.stop.store(true, Ordering::Relaxed);
    for thread in threads {
        let _ = thread.join();
    }
    runtime.shutdown_timeout(Duration::from_secs(1));
    tracing::info!("the server has ended");
}
