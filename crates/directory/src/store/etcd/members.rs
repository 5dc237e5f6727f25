//! The members of an etcd: one connection to each, requests to one of them at a time, the next one when it does not answer.
//!
//! A member that hangs (stopped, cut off, waiting for a leader who is gone) is left after a time that adapts to how quick answers were: a few times
//! the usual, at least [`TIMEOUT_MIN`]. So a leader's death costs an election and little more.

use std::future::Future;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use etcd_client::{Certificate, Identity as ClientIdentity, TlsOptions};
use etcd_client::{Client, ConnectOptions, Error, GetOptions, GetResponse, ResponseHeader, Txn, TxnResponse};
use parking_lot::Mutex;
use tonic::Code;
use tonic::transport::Endpoint;
use weft_control::directory::Generation;

use crate::store::{StoreError, StoreStatus, TIMEOUT};

/// How to speak to etcd.
#[derive(Clone, Default)]
pub struct EtcdOptions {
    /// PEM of the authority that signed the members' certificates; the URLs must be https.
    pub ca: Option<Vec<u8>>,
    /// PEM of this client's certificate and of its key.
    pub client: Option<(Vec<u8>, Vec<u8>)>,
    /// User and password.
    pub user: Option<(String, String)>,
}

/// The connections.
pub struct Members {
    members: Vec<Member>,
    options: ConnectOptions,
    /// The member that is asked first.
    current: AtomicUsize,
    /// The usual time of an answer in microseconds.
    usual_us: AtomicU64,
    seen: Mutex<Seen>,
}

struct Member {
    url: String,
    endpoint: Endpoint,
    client: Mutex<Option<Client>>,
}

/// What answers have said so far; it must not go back.
#[derive(Default)]
struct Seen {
    cluster: u64,
    revision: u64,
    replaced: Option<String>,
}

/// The shortest time that a member is given.
const TIMEOUT_MIN: Duration = Duration::from_millis(150);

/// How many times the usual time it is given.
const TIMEOUT_FACTOR: u32 = 5;

/// Between two tries after an immediate refusal, as while there is no leader.
const PAUSE: Duration = Duration::from_millis(15);

impl Members {
    /// Makes the connections; they are opened when they are needed.
    pub fn new(urls: &[String], options: &EtcdOptions) -> Result<Self, StoreError> {
        let mut members = Vec::with_capacity(urls.len());
        for url in urls {
            let refused = |error: tonic::transport::Error| StoreError::Refused(format!("{url}: {error}"));
            let mut endpoint = Endpoint::from_shared(url.clone()).map_err(refused)?;
            endpoint = endpoint.connect_timeout(Duration::from_millis(500)).tcp_nodelay(true);
            endpoint = endpoint.http2_keep_alive_interval(Duration::from_secs(1)).keep_alive_timeout(Duration::from_secs(1));
            if url.starts_with("https://") {
                endpoint = endpoint.tls_config(options.tls()).map_err(refused)?;
            } else if options.ca.is_some() || options.client.is_some() {
                return Err(StoreError::Refused(format!("{url} is not https, and there are certificates for etcd")));
            }
            members.push(Member { url: url.clone(), endpoint, client: Mutex::new(None) });
        }
        let mut connect = ConnectOptions::new().with_require_leader(true);
        if let Some((name, password)) = &options.user {
            connect = connect.with_user(name, password).with_auto_token_refresh(true);
        }
        let usual_us = AtomicU64::new(TIMEOUT.as_micros() as u64 / u64::from(TIMEOUT_FACTOR));
        // Several servers do not all begin at the same member.
        let first = usize::from(crate::client::random::<1>()[0]) % members.len().max(1);
        Ok(Self { members, options: connect, current: AtomicUsize::new(first), usual_us, seen: Mutex::default() })
    }

    /// A transaction, at whichever member answers; and whether it was sent before, without an answer, and may have been applied then.
    pub async fn transact(&self, transaction: Txn) -> Result<(TxnResponse, bool), StoreError> {
        let newest = self.newest();
        let tries = AtomicU32::new(0);
        let response = self.anywhere(|mut client| {
            tries.fetch_add(1, Ordering::Relaxed);
            let transaction = transaction.clone();
            async move { client.txn(transaction).await }
        });
        let response = response.await?;
        self.check(response.header())?;
        self.check_not_before(newest, response.header())?;
        Ok((response, tries.into_inner() > 1))
    }

    /// A linearizable read.
    pub async fn get(&self, name: Vec<u8>, options: Option<GetOptions>) -> Result<GetResponse, StoreError> {
        let newest = self.newest();
        let response = self.anywhere(|mut client| {
            let (name, options) = (name.clone(), options.clone());
            async move { client.get(name, options).await }
        });
        let response = response.await?;
        self.check(response.header())?;
        self.check_not_before(newest, response.header())?;
        Ok(response)
    }

    /// The version of the member that answers.
    pub async fn version(&self) -> Result<String, StoreError> {
        let status = self.anywhere(|mut client| async move { client.status().await }).await?;
        Ok(status.version().to_owned())
    }

    /// Reads through the quorum, so that an answer means that commits are possible too; the revision.
    pub async fn probe(&self) -> Result<Generation, StoreError> {
        let quorum = self.get(b"/weft".to_vec(), None).await?;
        Ok(Generation(quorum.header().map_or(0, ResponseHeader::revision) as u64))
    }

    /// Probes, and asks a member how it is.
    pub async fn status(&self) -> Result<StoreStatus, StoreError> {
        let revision = self.probe().await?;
        let status = self.anywhere(|mut client| async move { client.status().await }).await?;
        if let Some(problem) = status.errors().first() {
            let is_full = status.errors().iter().any(|it| it.contains("NOSPACE"));
            return Err(if is_full { StoreError::Full(problem.clone()) } else { StoreError::Refused(problem.clone()) });
        }
        let description = format!("etcd {}, {} members", status.version(), self.members.len());
        Ok(StoreStatus { revision, bytes: status.db_size() as u64, description })
    }

    /// Forgets history before a revision. Another server may have done it, or may be ahead.
    pub async fn compact(&self, before: Generation) -> Result<(), StoreError> {
        let revision = i64::try_from(before.0).unwrap_or(i64::MAX);
        match self.anywhere(|mut client| async move { client.compact(revision, None).await }).await {
            Ok(_) | Err(StoreError::Compacted(_)) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// A client of the current member, and the member's number for [`Members::leave`].
    pub async fn client(&self) -> Result<(Client, usize), StoreError> {
        let at = self.current.load(Ordering::Relaxed) % self.members.len();
        let member = &self.members[at];
        if let Some(client) = member.client.lock().clone() {
            return Ok((client, at));
        }
        let opened = tokio::time::timeout(TIMEOUT / 2, Client::from_channel_of(&member.endpoint, self.options.clone())).await;
        let client = opened.map_err(|_| Error::EndpointError("no answer".into())).and_then(|client| client);
        match client {
            Ok(client) => {
                *member.client.lock() = Some(client.clone());
                Ok((client, at))
            }
            Err(error) => {
                self.leave(at);
                Err(sort(&error, &member.url))
            }
        }
    }

    /// The member did not answer: the next one is asked from now on, unless another caller has left it already.
    pub fn leave(&self, at: usize) {
        let next = (at + 1) % self.members.len();
        let _ = self.current.compare_exchange(at, next, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Compares a header with all that was seen before: a store that went back in time is another one.
    pub fn check(&self, header: Option<&ResponseHeader>) -> Result<(), StoreError> {
        let Some(header) = header else { return Ok(()) };
        let (cluster, revision) = (header.cluster_id(), header.revision() as u64);
        let mut seen = self.seen.lock();
        if seen.cluster != 0 && seen.cluster != cluster {
            seen.replaced = Some(format!("etcd's cluster id was {:x} and is {cluster:x}", seen.cluster));
        }
        seen.cluster = cluster;
        seen.revision = seen.revision.max(revision);
        seen.replaced.clone().map_or(Ok(()), |why| Err(StoreError::Replaced(why)))
    }

    /// What is linearizable has reached every revision that was seen before it was asked for.
    fn check_not_before(&self, newest: u64, header: Option<&ResponseHeader>) -> Result<(), StoreError> {
        match header {
            Some(header) if (header.revision() as u64) < newest => {
                Err(self.replaced(format!("etcd was at revision {newest} and is at {}", header.revision())))
            }
            _ => Ok(()),
        }
    }

    /// The greatest revision seen.
    fn newest(&self) -> u64 {
        self.seen.lock().revision
    }

    /// The store has gone back: nothing is done with it any more.
    pub fn replaced(&self, why: String) -> StoreError {
        let mut seen = self.seen.lock();
        StoreError::Replaced(seen.replaced.get_or_insert(why).clone())
    }

    /// Asks the current member, and then the others, until one answers or the time is up.
    async fn anywhere<T, F>(&self, ask: impl Fn(Client) -> F) -> Result<T, StoreError>
    where
        F: Future<Output = Result<T, Error>>,
    {
        let begun = Instant::now();
        let mut last = StoreError::Unreachable("no answer".into());
        let mut doubling = 1;
        loop {
            let left = TIMEOUT.saturating_sub(begun.elapsed());
            if left.is_zero() {
                return Err(last);
            }
            let (client, at) = match self.client().await {
                Ok(found) => found,
                Err(error) if error.is_temporary() => {
                    last = error;
                    tokio::time::sleep(PAUSE.min(left)).await;
                    continue;
                }
                Err(error) => return Err(error),
            };
            let url = &self.members[at].url;
            let asked = Instant::now();
            match tokio::time::timeout(left.min(self.attempt_timeout() * doubling), ask(client)).await {
                Ok(Ok(answer)) => {
                    self.learn(asked.elapsed());
                    return Ok(answer);
                }
                Ok(Err(error)) => {
                    last = sort(&error, url);
                    if !last.is_temporary() || matches!(last, StoreError::Compacted(_)) {
                        return Err(last);
                    }
                    self.leave(at);
                    tokio::time::sleep(PAUSE.min(left)).await;
                }
                Err(_) => {
                    last = StoreError::Unreachable(format!("{url}: no answer within {:?}", asked.elapsed()));
                    self.leave(at);
                    doubling *= 2;
                }
            }
        }
    }

    fn attempt_timeout(&self) -> Duration {
        let usual = Duration::from_micros(self.usual_us.load(Ordering::Relaxed));
        (usual * TIMEOUT_FACTOR).clamp(TIMEOUT_MIN, TIMEOUT)
    }

    fn learn(&self, took: Duration) {
        let usual = self.usual_us.load(Ordering::Relaxed);
        let took = took.as_micros() as u64;
        // Quickly up, slowly down.
        let next = if took > usual { (usual + took) / 2 } else { (usual * 7 + took) / 8 };
        self.usual_us.store(next, Ordering::Relaxed);
    }
}

impl EtcdOptions {
    fn tls(&self) -> TlsOptions {
        let mut tls = TlsOptions::new();
        if let Some(ca) = &self.ca {
            tls = tls.ca_certificate(Certificate::from_pem(ca));
        }
        if let Some((certificate, key)) = &self.client {
            tls = tls.identity(ClientIdentity::from_pem(certificate, key));
        }
        tls
    }
}

/// Opens a client on one endpoint alone.
trait FromEndpoint: Sized {
    async fn from_channel_of(endpoint: &Endpoint, options: ConnectOptions) -> Result<Self, Error>;
}

impl FromEndpoint for Client {
    async fn from_channel_of(endpoint: &Endpoint, options: ConnectOptions) -> Result<Self, Error> {
        Self::from_channel(etcd_client::Channel::Tonic(endpoint.connect_lazy()), Some(options)).await
    }
}

/// What an error of the client means here.
pub fn sort(error: &Error, url: &str) -> StoreError {
    let Error::GRpcStatus(status) = error else {
        return StoreError::Unreachable(format!("{url}: {error}"));
    };
    let text = format!("{url}: {}", status.message());
    match status.code() {
        Code::OutOfRange if status.message().contains("compacted") => StoreError::Compacted(0),
        Code::PermissionDenied | Code::InvalidArgument | Code::Unauthenticated | Code::Unimplemented => StoreError::Refused(text),
        Code::ResourceExhausted if status.message().contains("space exceeded") => StoreError::Full(text),
        _ => StoreError::Unreachable(text),
    }
}

// Passwords never reach a log.
impl std::fmt::Debug for EtcdOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EtcdOptions")
            .field("tls", &self.ca.is_some())
            .field("user", &self.user.as_ref().map(|user| &user.0))
            .finish()
    }
}
