//! `serve`: the server's arguments.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use weft_control::directory::PrincipalId;

use super::connect::{Auth, DEFAULT_LISTEN, Dir};
use super::error::{Error, Result};
use super::etcd::EtcdArgs;
use super::rotate::OLD;
use crate::daemon::command_line::{LogForm, time};
use crate::daemon::start_log;
use crate::server::{PolicySource, ServeConfig, StreamAuth, serve};
use crate::store::StoreAddress;

#[derive(Debug, Args)]
pub struct ServeArgs {
    #[command(flatten)]
    dir: Dir,
    /// UDP and TCP; port 0 takes a free one [default: `listen` of DIR/client.toml, or 127.0.0.1:5303]
    #[arg(long, value_name = "ADDR")]
    listen: Option<SocketAddr>,
    /// Where mappings are kept [default: embedded:DIR/store]
    #[arg(long, value_name = "embedded:DIR|etcd:URL,...")]
    store: Option<StoreAddress>,
    /// Follow the store and write nothing: lookups are answered, and updates are left to the other servers. The store is etcd
    #[arg(long)]
    replica: bool,
    #[command(flatten)]
    etcd: EtcdArgs,
    /// How much of etcd's history is kept; what is older is compacted. `off`: an operator does it
    #[arg(long, value_name = "TIME|off", default_value = "10min", value_parser = retention)]
    etcd_retention: Retention,
    /// How long to wait at the start for a store that does not answer
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = time)]
    store_timeout: Duration,
    /// Who may do what; `open`: everybody authenticated may resolve everything [default: DIR/policy.toml]
    #[arg(long, value_name = "FILE|open")]
    policy: Option<PathBuf>,
    /// The part of a divided directory that this server has: one of the policy's [[part]]
    #[arg(long, value_name = "NAME")]
    part: Option<String>,
    /// With `--policy open`: a principal that may change mappings; repeatable
    #[arg(long, value_name = "N")]
    provisioner: Vec<u32>,
    /// The server's own principal
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    principal: u32,
    /// The cluster's secret [default: DIR/secret]
    #[arg(long, value_name = "FILE")]
    secret: Option<PathBuf>,
    /// The secret before: keys made of it are good as well, as long as the file is there [default: DIR/secret.old]
    #[arg(long, value_name = "FILE")]
    old_secret: Option<PathBuf>,
    /// Another server of this cluster; repeatable [default: those of its part]
    #[arg(long, value_name = "ADDR")]
    peer: Vec<SocketAddr>,
    /// tls: updates and streams over TLS with client certificates only; mac: by keyed MAC over UDP and bare TCP
    #[arg(long, default_value = "tls")]
    auth: Auth,
    /// The server's certificate [default: DIR/server.pem]
    #[arg(long, value_name = "FILE")]
    cert: Option<PathBuf>,
    /// Its key [default: DIR/server.key]
    #[arg(long, value_name = "FILE")]
    cert_key: Option<PathBuf>,
    /// The authority of clients' certificates [default: DIR/ca.pem]
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// Prometheus metrics, by HTTP at /metrics without authentication; `off`: none
    #[arg(long, value_name = "ADDR|off", default_value = "127.0.0.1:9303", value_parser = metrics)]
    metrics: Metrics,
    /// Threads that answer lookups, each with a socket
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=256))]
    threads: u16,
    /// Cores that these threads are pinned to in turn
    #[arg(long, value_name = "N,...", value_delimiter = ',')]
    cores: Vec<usize>,
    /// Clients that each of these threads remembers at most, 400 bytes each; more are asked for a cookie again and again
    #[arg(long, value_name = "N", default_value_t = 262_144, value_parser = clap::value_parser!(u32).range(1024..))]
    max_clients: u32,
    /// File to which a line of JSON is appended for each change: who, when, what
    #[arg(long, value_name = "FILE")]
    audit: Option<PathBuf>,
    /// Form of the log on stderr
    #[arg(long, default_value = "text")]
    log: LogForm,
    /// Print a line of JSON once it serves
    #[arg(long)]
    json: bool,
}

/// Where metrics are served, if anywhere.
#[derive(Clone, Copy, Debug)]
struct Metrics(Option<SocketAddr>);

/// How much history is kept, if it is compacted.
#[derive(Clone, Copy, Debug)]
struct Retention(Option<Duration>);

/// Serves until it is stopped.
pub fn run(args: &ServeArgs) -> Result<bool> {
    let of_dir = |given: &Option<PathBuf>, name: &str| given.clone().unwrap_or_else(|| args.dir.file(name));
    let policy = match &args.policy {
        Some(policy) if policy.as_os_str() == "open" => {
            PolicySource::Open { provisioners: args.provisioner.iter().copied().map(PrincipalId).collect() }
        }
        _ if !args.provisioner.is_empty() => {
            return Err(Error::ProvisionerWithPolicy);
        }
        _ => PolicySource::File(of_dir(&args.policy, "policy.toml")),
    };
    let auth = match args.auth {
        Auth::Mac => StreamAuth::Mac,
        Auth::Tls => StreamAuth::Tls {
            certificate: of_dir(&args.cert, "server.pem"),
            key: of_dir(&args.cert_key, "server.key"),
            ca: of_dir(&args.ca, "ca.pem"),
        },
    };
    let listen = match args.listen {
        Some(listen) => listen,
        None => args.dir.listen()?.unwrap_or_else(|| DEFAULT_LISTEN.parse().expect("it is an address")),
    };
    if let Some(old) = &args.old_secret {
        std::fs::metadata(old).map_err(|e| Error::io("read", old, e))?;
    }
    start_log(args.log == LogForm::Json);
    let store = args.store.clone().unwrap_or_else(|| StoreAddress::Embedded(args.dir.file("store")));
    let config = ServeConfig {
        listen,
        etcd: args.etcd.options(&store)?,
        store,
        replica: args.replica,
        retention: args.etcd_retention.0,
        cluster: args.etcd.cluster.clone(),
        store_timeout: args.store_timeout,
        policy,
        part: args.part.clone(),
        principal: PrincipalId(args.principal),
        secret: of_dir(&args.secret, "secret"),
        old_secret: args.old_secret.clone().or_else(|| Some(args.dir.file(OLD)).filter(|_| args.secret.is_none())),
        peers: args.peer.clone(),
        auth,
        metrics: args.metrics.0,
        threads: args.threads.into(),
        cores: args.cores.clone(),
        max_clients: args.max_clients as usize,
        audit: args.audit.clone(),
        json: args.json,
    };
    serve(config)?;
    Ok(true)
}

fn metrics(text: &str) -> Result<Metrics, String> {
    if text == "off" {
        return Ok(Metrics(None));
    }
    text.parse().map(|address| Metrics(Some(address))).map_err(|_| "write an address and a port, or off".to_owned())
}

fn retention(text: &str) -> Result<Retention, String> {
    if text == "off" {
        return Ok(Retention(None));
    }
    let kept = time(text)?;
    if kept < RETENTION_LEAST {
        return Err(format!("{text} is too short: servers that were away for longer reload everything; at least 10s, or off"));
    }
    Ok(Retention(Some(kept)))
}

/// History that is kept at least.
const RETENTION_LEAST: Duration = Duration::from_secs(10);
