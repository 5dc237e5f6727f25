//! The configuration of a server, and its errors.

use std::net::SocketAddr;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use weft_control::directory::PrincipalId;
use weft_control::directory::auth::Secret;

use crate::store::{EtcdOptions, StoreAddress, StoreError};

/// The configuration of `weft-directory serve`.
#[derive(Clone, Debug)]
pub struct ServeConfig {
    /// UDP and TCP; port 0 takes a free one.
    pub listen: SocketAddr,
    /// Where mappings are kept.
    pub store: StoreAddress,
    /// Whether it only follows the store, in which it writes nothing. Not with an embedded store.
    pub replica: bool,
    /// How to speak to etcd.
    pub etcd: EtcdOptions,
    /// How much of etcd's history is kept; `None`: nothing is compacted.
    pub retention: Option<Duration>,
    /// The cluster's name: a store belongs to one.
    pub cluster: String,
    /// How long to wait at the start for a store that does not answer.
    pub store_timeout: Duration,
    /// Who may do what.
    pub policy: PolicySource,
    /// The part of a divided directory that it has, by its name in the policy.
    pub part: Option<String>,
    /// This server's own principal.
    pub principal: PrincipalId,
    /// The file of the cluster's secret; nobody else may read it.
    pub secret: PathBuf,
    /// The file of the one before: keys made of it are good as well.
    pub old_secret: Option<PathBuf>,
    /// The other servers; none: those of its part.
    pub peers: Vec<SocketAddr>,
    /// How streams and updates prove who sends them.
    pub auth: StreamAuth,
    /// Where Prometheus metrics are served.
    pub metrics: Option<SocketAddr>,
    /// Threads that answer lookups, each with a socket; at least 1.
    pub threads: usize,
    /// The cores that these threads are pinned to in turn; none: not pinned.
    pub cores: Vec<usize>,
    /// Clients that each of these threads remembers at most.
    pub max_clients: usize,
    /// The file to which it is appended who changed what.
    pub audit: Option<PathBuf>,
    /// Whether the line that says "it serves" is JSON.
    pub json: bool,
}

/// Where the policy comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PolicySource {
    /// A file, read again on SIGHUP and when it changes.
    File(PathBuf),
    /// No policy: everybody authenticated may resolve everything, and these may change everything.
    Open {
        /// Principals that may change mappings.
        provisioners: Vec<PrincipalId>,
    },
}

/// How streams and updates prove who sends them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StreamAuth {
    /// TLS with client certificates whose common name is `principal-N`. Updates come over streams only.
    Tls {
        /// PEM: the server's certificate and those between it and the authority.
        certificate: PathBuf,
        /// PEM: its key.
        key: PathBuf,
        /// PEM: who signs clients' certificates.
        ca: PathBuf,
    },
    /// Keyed MACs over bare TCP, and updates over UDP as well.
    Mac,
}

/// Why a server does not start, or ended. The program ends with exit code 2.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// Somebody has the port.
    #[error("{0} is in use; choose another address with --listen, or stop the other program")]
    InUse(SocketAddr),
    /// Somebody has the port of the metrics.
    #[error("the metrics' address {address} cannot be used ({error}); choose another with --metrics, or --metrics off")]
    Metrics {
        /// The address.
        address: SocketAddr,
        /// What the system says.
        error: String,
    },
    /// The address cannot be used.
    #[error("cannot listen on {address}: {error}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// What the system says.
        error: std::io::Error,
    },
    /// The store cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The store did not come up in time.
    #[error("the store {store} is not ready after {waited:?}: {error}; start it, or give it longer with --store-timeout")]
    StoreNotReady {
        /// The store.
        store: StoreAddress,
        /// How long.
        waited: Duration,
        /// What it said last.
        error: StoreError,
    },
    /// The policy is refused.
    #[error("{path}: {error}")]
    Policy {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        error: String,
    },
    /// A peer has another store.
    #[error(
        "--peer {peer} is a server of part `{part}`, which has another store: leave --peer out, and the servers of this server's part are its peers"
    )]
    PeerOfOtherPart {
        /// The peer.
        peer: SocketAddr,
        /// Its part.
        part: String,
    },
    /// Without a policy there are no parts.
    #[error("--part with --policy open: parts are listed in a policy file, as [[part]]; leave --part out, or write a policy")]
    PartOfOpen,
    /// The file of the secret cannot be used.
    #[error("the secret `{path}` {why}")]
    Secret {
        /// The file.
        path: PathBuf,
        /// What is wrong and what helps.
        why: String,
    },
    /// A certificate or key cannot be used.
    #[error("`{path}` cannot be used for TLS: {why}")]
    Certificate {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// The audit log cannot be written.
    #[error("the audit log `{path}` cannot be opened ({error}): choose another file with --audit")]
    Audit {
        /// The file.
        path: PathBuf,
        /// What the system says.
        error: std::io::Error,
    },
    /// The threads cannot be pinned.
    #[error("--cores: core {0} cannot be used on this machine")]
    Core(usize),
    /// The system refuses something else.
    #[error("the system refuses {what}: {error}")]
    System {
        /// What.
        what: &'static str,
        /// What it says.
        error: std::io::Error,
    },
}

/// Reads the cluster's secret from a file that nobody else can read.
pub fn read_secret(path: &Path) -> Result<Secret, ServeError> {
    let refused = |why: String| ServeError::Secret { path: path.to_owned(), why };
    let metadata =
        std::fs::metadata(path).map_err(|error| refused(format!("cannot be read: {error}; `weft directory init` makes one")))?;
    let mode = metadata.mode() & 0o777;
    if mode & 0o077 != 0 {
        return Err(refused(format!("can be read by others (mode {mode:03o}): chmod 600 {}", path.display())));
    }
    let text = std::fs::read_to_string(path).map_err(|error| refused(format!("cannot be read: {error}")))?;
    Secret::parse(&text).map_err(|error| refused(format!("is not one: {error}")))
}
