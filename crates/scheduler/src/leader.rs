//! Which of several schedulers leads: the one that holds a lease in etcd.
//!
//! ```text
//!   PREFIX/leader       the leader's name; goes with its lease
//!   PREFIX/generation   that of the last leader, which switches and agents know as well: it grows
//!
//!   each quarter of the lease:  keep the lease alive, or get one --> who leads? --nobody--> if nobody still does: it is us
//!                                                                        '-----> ElectionState
//! ```
//! A leader counts from when it *sent* what kept its lease alive, so it steps down before etcd may give the lease to another. What it sends too late
//! all the same, a switch or an agent refuses: the new leader has a higher generation there (OpenFlow 1.3.5, section 6.3.6).

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use etcd_client::{
    Certificate, Client, Compare, CompareOp, ConnectOptions, Error, Identity, KeyValue, PutOptions, TlsOptions, Txn, TxnOp,
    TxnOpResponse,
};
use tokio::sync::{mpsc, oneshot};
use weft_control::time;

/// Schedulers of which one leads.
#[derive(Clone, Debug)]
pub struct Election {
    /// The members of etcd.
    pub urls: Vec<String>,
    /// How to speak to them.
    pub credentials: Credentials,
    /// The name of this scheduler.
    pub name: String,
    /// After which the others may take over from a leader that is silent: whole seconds.
    pub lease: Duration,
    /// What the names of the keys begin with.
    pub prefix: String,
}

/// How to speak to etcd.
#[derive(Clone, Default)]
pub struct Credentials {
    /// PEM of the authority that signed the members' certificates.
    pub ca: Option<Vec<u8>>,
    /// PEM of this client's certificate and of its key.
    pub client: Option<(Vec<u8>, Vec<u8>)>,
    /// User and password.
    pub user: Option<(String, String)>,
}

// Passwords never reach a log.
impl std::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Credentials").field("tls", &self.ca.is_some()).finish_non_exhaustive()
    }
}

/// What the election says of this scheduler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Leadership {
    /// It leads, until then if nothing else is heard.
    Leads { generation: u64, until: Instant },
    /// Another one leads; `None`: nobody yet.
    Follows { leader: Option<String>, generation: u64 },
    /// etcd does not answer.
    Unknown(String),
}

/// What the election has said so far.
#[derive(Debug, Default)]
pub(crate) struct ElectionState {
    /// Until then it leads, if it does.
    until: Option<time::Instant>,
    /// The last leader's.
    pub generation: u64,
    /// Who leads, if it is another one.
    leader: Option<String>,
    /// Why it is not known who leads.
    problem: Option<String>,
}

/// What follows from what the election says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// It begins to lead, with this generation.
    Leads(u64),
    /// It is a standby from now on.
    Follows,
}

/// What is there in etcd.
struct Found {
    /// The leader's name and lease.
    leader: Option<(String, i64)>,
    generation: u64,
    /// Of the key `generation`: 0 if there is none.
    revision: i64,
}

/// A connection and a lease.
#[derive(Default)]
struct Session {
    client: Option<Client>,
    lease: Option<i64>,
}

impl ElectionState {
    /// Whether this scheduler leads.
    pub fn leads(&self) -> bool {
        self.until.is_some()
    }

    /// What is wrong with the election, for the status.
    pub fn problem(&self) -> Option<String> {
        self.problem.as_ref().map(|problem| format!("etcd does not answer, so no standby takes over: {problem}"))
    }

    /// Of a standby: who leads.
    pub fn leader(&self) -> Option<&str> {
        (!self.leads()).then(|| self.leader.as_deref().unwrap_or("nobody"))
    }

    /// When [`ElectionState::end_late_leadership`] is due.
    pub fn deadline(&self) -> Option<time::Instant> {
        self.until
    }

    /// The election has said something; `clock` makes its times those of the scheduler. A lease that is over by `now`, the one that it has held or the one
    /// that it hears of, is none: what is heard may be late.
    pub fn update(
        &mut self,
        now: time::Instant,
        leadership: Leadership,
        clock: impl Fn(Instant) -> time::Instant,
    ) -> Option<Change> {
        let before = self.end_late_leadership(now);
        let change = self.apply(leadership, clock);
        self.end_late_leadership(now).or(change).or(before)
    }

    fn apply(&mut self, leadership: Leadership, clock: impl Fn(Instant) -> time::Instant) -> Option<Change> {
        match leadership {
            Leadership::Leads { generation, until } => {
                let is_new = self.until.is_none() || self.generation != generation;
                *self = Self { until: Some(clock(until)), generation, ..Self::default() };
                is_new.then(|| {
                    tracing::info!(generation, "this scheduler leads");
                    Change::Leads(generation)
                })
            }
            Leadership::Follows { leader, generation } => {
                let is_new = self.until.is_some() || self.generation != generation;
                *self = Self { generation, leader, ..Self::default() };
                is_new.then(|| {
                    tracing::info!(leader = self.leader, generation, "this scheduler is a standby");
                    Change::Follows
                })
            }
            Leadership::Unknown(problem) => {
                if self.problem.is_none() {
                    tracing::warn!(problem, "etcd does not answer");
                }
                self.problem = Some(problem);
                None
            }
        }
    }

    /// Stops to lead once another may: this comes before anything else is done, for this program may have been stopped for long.
    pub fn end_late_leadership(&mut self, now: time::Instant) -> Option<Change> {
        self.until.filter(|until| *until <= now)?;
        self.until = None;
        tracing::warn!("the lease may have expired: this scheduler no longer leads");
        Some(Change::Follows)
    }
}

/// Takes part in an election beside a scheduler.
pub(crate) struct Campaign {
    reports: mpsc::Receiver<Leadership>,
    end: oneshot::Sender<oneshot::Sender<()>>,
}

impl Campaign {
    /// Begins; without an election nothing is ever said.
    pub fn start(election: Option<&Election>) -> Self {
        let ((report, reports), (end, ended)) = (mpsc::channel(1), oneshot::channel());
        if let Some(election) = election.cloned() {
            tokio::spawn(campaign(election, report, ended));
        }
        Self { reports, end }
    }

    /// What it says next; `None` without an election.
    pub async fn next(&mut self) -> Option<Leadership> {
        self.reports.recv().await
    }

    /// Gives the lease back, for another to lead at once.
    pub async fn end(self) {
        let (done, given_back) = oneshot::channel();
        if self.end.send(done).is_ok() {
            // What it says from now on is not heard.
            drop(self.reports);
            let _ = tokio::time::timeout(GIVEN_BACK, given_back).await;
        }
    }
}

/// Takes part until `end`; then gives the lease back.
async fn campaign(election: Election, reports: mpsc::Sender<Leadership>, mut end: oneshot::Receiver<oneshot::Sender<()>>) {
    let mut session = Session::default();
    let interval = election.lease / 4;
    loop {
        let outcome = tokio::time::timeout(election.lease / 3, election.run_once(&mut session)).await;
        let leadership = outcome.unwrap_or_else(|_| Err(Error::EndpointError("no answer in time".to_owned())));
        let leadership = leadership.unwrap_or_else(|error| {
            // Whatever was wrong with this connection is not with the next one.
            session.client = None;
            Leadership::Unknown(error.to_string())
        });
        // At the end nobody listens.
        let _ = reports.send(leadership).await;
        tokio::select! {
            () = tokio::time::sleep(interval) => {}
            done = &mut end => {
                if let (Some(client), Some(lease)) = (&mut session.client, session.lease) {
                    let _ = tokio::time::timeout(END, client.lease_revoke(lease)).await;
                }
                let _ = done.map(|done| done.send(()));
                return;
            }
        }
    }
}

impl Election {
    /// Keeps the lease, and asks who leads.
    async fn run_once(&self, session: &mut Session) -> Result<Leadership, Error> {
        if session.client.is_none() {
            session.client = Some(Client::connect(&self.urls, Some(self.options())).await?);
        }
        let Some(client) = &mut session.client else { return Err(Error::EndpointError(String::new())) };
        let sent = Instant::now();
        let lease = match session.lease {
            Some(lease) => match client.lease_keep_alive(lease).await {
                Ok(_) => lease,
                Err(Error::LeaseKeepAliveError(_)) => {
                    // It has expired, as when this program was stopped.
                    session.lease = None;
                    self.grant(client).await?
                }
                Err(error) => return Err(error),
            },
            None => self.grant(client).await?,
        };
        session.lease = Some(lease);
        let found = self.read(client).await?;
        // etcd may grant more than was asked for, and never less.
        let until = sent + self.lease * 9 / 10;
        match found.leader {
            Some((_, of)) if of == lease => Ok(Leadership::Leads { generation: found.generation, until }),
            Some((name, _)) => Ok(Leadership::Follows { leader: Some(name), generation: found.generation }),
            None => {
                let generation = next_generation(found.generation, now_ms());
                let is_ours = self.lead(client, lease, found.revision, generation).await?;
                Ok(if is_ours {
                    Leadership::Leads { generation, until }
                } else {
                    Leadership::Follows { leader: None, generation: found.generation }
                })
            }
        }
    }

    async fn grant(&self, client: &mut Client) -> Result<i64, Error> {
        let seconds = i64::try_from(self.lease.as_secs()).unwrap_or(i64::MAX);
        Ok(client.lease_grant(seconds, None).await?.id())
    }

    async fn read(&self, client: &mut Client) -> Result<Found, Error> {
        let gets = [self.key("leader"), self.key("generation")].map(|key| TxnOp::get(key, None));
        let answer = client.txn(Txn::new().and_then(gets)).await?;
        let first = |answer: TxnOpResponse| match answer {
            TxnOpResponse::Get(get) => get.kvs().first().cloned(),
            _ => None,
        };
        let mut answers = answer.op_responses().into_iter().map(first);
        let (leader, generation) = (answers.next().flatten(), answers.next().flatten());
        let name = |kv: &KeyValue| (String::from_utf8_lossy(kv.value()).into_owned(), kv.lease());
        let number = |kv: &KeyValue| std::str::from_utf8(kv.value()).ok()?.parse().ok();
        Ok(Found {
            leader: leader.as_ref().map(name),
            generation: generation.as_ref().and_then(number).unwrap_or(0),
            revision: generation.map_or(0, |kv| kv.mod_revision()),
        })
    }

    /// Leads if nobody does by now.
    async fn lead(&self, client: &mut Client, lease: i64, revision: i64, generation: u64) -> Result<bool, Error> {
        let (leader, key) = (self.key("leader"), self.key("generation"));
        let nobody = [
            Compare::create_revision(leader.clone(), CompareOp::Equal, 0),
            Compare::mod_revision(key.clone(), CompareOp::Equal, revision),
        ];
        let with_lease = Some(PutOptions::new().with_lease(lease));
        let puts = [TxnOp::put(leader, self.name.clone(), with_lease), TxnOp::put(key, generation.to_string(), None)];
        Ok(client.txn(Txn::new().when(nobody).and_then(puts)).await?.succeeded())
    }

    fn key(&self, name: &str) -> String {
        format!("{}/{name}", self.prefix)
    }

    fn options(&self) -> ConnectOptions {
        let Credentials { ca, client, user } = &self.credentials;
        let mut options = ConnectOptions::new().with_require_leader(true).with_connect_timeout(self.lease / 4);
        if let Some((name, password)) = user {
            options = options.with_user(name, password).with_auto_token_refresh(true);
        }
        if ca.is_none() && client.is_none() {
            return options;
        }
        let mut tls = TlsOptions::new();
        if let Some(ca) = ca {
            tls = tls.ca_certificate(Certificate::from_pem(ca));
        }
        if let Some((certificate, key)) = client {
            tls = tls.identity(Identity::from_pem(certificate, key));
        }
        options.with_tls(tls)
    }
}

/// Grows from one leader to the next, whatever their clocks say, and is that of a scheduler without an election if they are right.
fn next_generation(last: u64, now_ms: u64) -> u64 {
    now_ms.max(last.saturating_add(1))
}

/// Since 1970.
pub(crate) fn now_ms() -> u64 {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since_1970.as_millis()).unwrap_or(u64::MAX)
}

/// For etcd to take a lease back.
const END: Duration = Duration::from_secs(1);
/// For the campaign to end.
const GIVEN_BACK: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests {
    use super::*;

    fn leads(generation: u64, until: Instant) -> Leadership {
        Leadership::Leads { generation, until }
    }

    #[test]
    fn a_lease_that_has_ended_is_none_whenever_that_is_heard() {
        let start = Instant::now();
        let at = |ms: u64| time::Instant::from_ns(ms * 1_000_000);
        let clock = |time: Instant| time::Instant::from_ns(time.saturating_duration_since(start).as_nanos() as u64);
        let until = |ms: u64| start + Duration::from_millis(ms);
        let mut election = ElectionState::default();
        let mut update = |now: u64, leadership: Leadership| (election.update(at(now), leadership, clock), election.leads());
        let follows = |generation| Leadership::Follows { leader: None, generation };
        assert_eq!(update(0, leads(5, until(100))), (Some(Change::Leads(5)), true));
        assert_eq!(update(50, leads(5, until(150))), (None, true), "the lease goes on");
        // This program was stopped: what comes is as late as it.
        assert_eq!(update(900, leads(5, until(200))), (Some(Change::Follows), false));
        assert_eq!(update(901, Leadership::Unknown(String::new())), (None, false));
        assert_eq!(update(902, leads(6, until(1000))), (Some(Change::Leads(6)), true));
        // The lease has ended, and is there again: it begins again.
        assert_eq!(update(1100, leads(7, until(1200))), (Some(Change::Leads(7)), true));
        assert_eq!(update(1300, follows(7)), (Some(Change::Follows), false));
        assert_eq!(update(1301, follows(7)), (None, false));
    }

    #[test]
    fn generations_grow_whatever_the_clock_says() {
        assert_eq!(next_generation(0, 1_700_000_000_000), 1_700_000_000_000);
        assert_eq!(next_generation(1_700_000_000_000, 1_600_000_000_000), 1_700_000_000_001);
        assert_eq!(next_generation(u64::MAX, 0), u64::MAX);
    }
}
