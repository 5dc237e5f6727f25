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

/// Examples at the end of `weft directory serve --help`.
const EXAMPLES: &str = "\
Examples:
  weft directory serve
  weft directory serve --listen 10.0.0.1:5303 --audit audit.jsonl
  weft directory serve --store etcd:https://10.0.0.1:2379 --principal 1
  weft directory serve --policy open --provisioner 3 --auth mac";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct ServeArgs {
    #[command(flatten)]
    dir: Dir,
    /// Address to listen at, UDP and TCP; port 0 takes a free port [default: `listen` of DIR/client.toml, or 127.0.0.1:5303]
    #[arg(long, value_name = "ADDR", help_heading = "Network")]
    listen: Option<SocketAddr>,
    /// Store of the mappings [default: embedded:DIR/store]
    #[arg(long, value_name = "embedded:DIR|etcd:URL,...", help_heading = "Store")]
    store: Option<StoreAddress>,
    /// Follow a store on etcd and never write to it: answer lookups, and leave updates to other servers
    #[arg(long, help_heading = "Store")]
    replica: bool,
    #[command(flatten)]
    etcd: EtcdArgs,
    /// History of etcd to keep; older revisions are compacted. `off`: leave compaction to the operator
    #[arg(long, value_name = "TIME|off", default_value = "10min", value_parser = retention, help_heading = "Store")]
    etcd_retention: Retention,
    /// How long to wait at the start for the store to answer
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = time, help_heading = "Store")]
    store_timeout: Duration,
    /// Policy file; `open`: any authenticated principal may resolve everything [default: DIR/policy.toml]
    #[arg(long, value_name = "FILE|open", help_heading = "Access")]
    policy: Option<PathBuf>,
    /// Part of a divided directory that this server serves: a [[part]] of the policy
    #[arg(long, value_name = "NAME", help_heading = "Network")]
    part: Option<String>,
    /// With `--policy open`: principal that may change mappings; repeatable
    #[arg(long, value_name = "N", help_heading = "Access")]
    provisioner: Vec<u32>,
    /// Principal of this server
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    #[arg(help_heading = "Access")]
    principal: u32,
    /// File with the cluster's secret [default: DIR/secret]
    #[arg(long, value_name = "FILE", help_heading = "Access")]
    secret: Option<PathBuf>,
    /// File with the previous secret, whose keys stay valid while the file exists [default: DIR/secret.old]
    #[arg(long, value_name = "FILE", help_heading = "Access")]
    old_secret: Option<PathBuf>,
    /// Another server of this cluster; repeatable [default: those of the part]
    #[arg(long, value_name = "ADDR", help_heading = "Network")]
    peer: Vec<SocketAddr>,
    /// Authentication of updates and streams: TLS with client certificates, or keyed MACs over UDP and bare TCP
    #[arg(long, default_value = "tls", help_heading = "Access")]
    auth: Auth,
    /// Certificate of the server [default: DIR/server.pem]
    #[arg(long, value_name = "FILE", help_heading = "Access")]
    cert: Option<PathBuf>,
    /// Key of that certificate [default: DIR/server.key]
    #[arg(long, value_name = "FILE", help_heading = "Access")]
    cert_key: Option<PathBuf>,
    /// Certificate authority of the clients [default: DIR/ca.pem]
    #[arg(long, value_name = "FILE", help_heading = "Access")]
    ca: Option<PathBuf>,
    /// Address of the Prometheus metrics, at /metrics over HTTP without authentication; `off`: none
    #[arg(long, value_name = "ADDR|off", default_value = "127.0.0.1:9303", value_parser = metrics, help_heading = "Monitoring")]
    metrics: Metrics,
    /// Threads that answer lookups, each with a socket of its own
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=256))]
    #[arg(help_heading = "Threads")]
    threads: u16,
    /// Cores to pin these threads to, in turn
    #[arg(long, value_name = "N,...", value_delimiter = ',', help_heading = "Threads")]
    cores: Vec<usize>,
    /// Clients that each thread remembers, 400 bytes each; others have to repeat the cookie exchange
    #[arg(long, value_name = "N", default_value_t = 262_144, value_parser = clap::value_parser!(u32).range(1024..))]
    #[arg(help_heading = "Threads")]
    max_clients: u32,
    /// Append one line of JSON per change to this file: who, when, what
    #[arg(long, value_name = "FILE", help_heading = "Monitoring")]
    audit: Option<PathBuf>,
    /// Format of the log on stderr
    #[arg(long, default_value = "text", help_heading = "Monitoring")]
    log: LogForm,
    /// Print one line of JSON when the server is ready
    #[arg(long, help_heading = "Monitoring")]
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
