//! The tenants of this server's VIFs as the directory's records have them: a thread that subscribes to them at one server, and writes the tenants' file.
//!
//! ```text
//!   VIFs that are wanted --> View <--Records, Notice-- a server
//!                              | differs
//!                              v
//!                       the tenants' file, with the VIFs of this server alone --wake--> the agent reads it
//! ```
//! So the file is what the agent goes by while it hears from no server, and after a restart. Where the store has no records, the document of all tenants is
//! what agents read ([`repository`](super::repository)).

use std::io::{Read as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token};
use parking_lot::Mutex;
use serde_json::{Value, json};
use weft_control::netlord::tenants::Tenants;
use weft_control::netlord::tenants::records::{Missing, View, Why};
use weft_control::wire::directory::RecordsState;
use weft_directory::atomic_file;
use weft_directory::client::{Settings, Subscription, home};

use crate::error::{Error, Result};

/// What the thread and the agent share.
#[derive(Debug)]
pub(super) struct Records {
    shared: Arc<Shared>,
    /// Readable when the file is new, or there is something to report.
    wake: UnixStream,
    /// Wakes the thread.
    poke: UnixStream,
    begun: Instant,
}

#[derive(Debug, Default)]
struct Shared {
    wanted: Mutex<Vec<(String, String)>>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    source: Source,
    /// The server that is subscribed at, and its store's revision.
    server: Option<(String, u64)>,
    heard: Option<Instant>,
    /// Why the last try gave nothing.
    silence: Option<String>,
    missing: Vec<Missing>,
    /// What is wrong with what the records say, or with the file.
    trouble: Option<String>,
}

/// Where the tenants are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Source {
    /// No server has said.
    #[default]
    Unknown,
    /// The store has a document of all tenants, or nothing yet.
    Document,
    /// It has records.
    Records,
}

impl Records {
    /// Begins to subscribe.
    ///
    /// # Errors
    /// [`Error`] if there is no thread to be had.
    pub fn begin(settings: Settings, period: Duration, file: PathBuf) -> Result<Self> {
        let failed = |cause| Error::system("start the thread of the tenants' records", "is the machine out of memory?")(cause);
        let ((wake, waker), (poke, poked)) = (UnixStream::pair().map_err(failed)?, UnixStream::pair().map_err(failed)?);
        for end in [&wake, &waker, &poke, &poked] {
            end.set_nonblocking(true).map_err(failed)?;
        }
        let shared = Arc::new(Shared::default());
        if is_ours(&file) {
            shared.state.lock().source = Source::Records;
        }
        let configured = settings.clone();
        let view = View::new();
        let follower =
            Follower { shared: Arc::clone(&shared), configured, settings, period, file, waker, poked, view, held: None };
        std::thread::Builder::new().name("records".to_owned()).spawn(move || follower.run()).map_err(failed)?;
        Ok(Self { shared, wake, poke, begun: Instant::now() })
    }

    /// Readable when there is something new.
    pub const fn descriptor(&self) -> &UnixStream {
        &self.wake
    }

    /// Whether there was something new since the last look.
    pub fn take_news(&self) -> bool {
        drain(&self.wake)
    }

    /// The VIFs of this server, as pairs of tenant and name.
    pub fn want(&self, mut vifs: Vec<(String, String)>) {
        vifs.sort_unstable();
        vifs.dedup();
        let mut wanted = self.shared.wanted.lock();
        if *wanted != vifs {
            *wanted = vifs;
            let _ = (&self.poke).write(&[1]);
        }
    }

    /// Whether the document of all tenants is to be read. Waits a moment for a server to say.
    pub fn document_checker(&self) -> impl Fn() -> bool + Send + use<> {
        let shared = Arc::clone(&self.shared);
        move || {
            let until = Instant::now() + FIRST_ANSWER;
            while shared.state.lock().source == Source::Unknown && Instant::now() < until {
                std::thread::sleep(Duration::from_millis(10));
            }
            shared.state.lock().source == Source::Document
        }
    }

    /// Whether records say what VIFs are, as far as is known.
    pub fn are_followed(&self) -> bool {
        self.shared.state.lock().source != Source::Document
    }

    /// Why a VIF is not there, if a server has said.
    pub fn reason(&self, tenant: &str, vif: &str) -> Option<String> {
        let state = self.shared.state.lock();
        state.missing.iter().find(|it| (it.tenant.as_str(), it.vif.as_str()) == (tenant, vif)).map(reason)
    }

    pub fn status(&self) -> Value {
        let state = self.shared.state.lock();
        if state.source != Source::Records {
            return Value::Null;
        }
        let (server, revision) = state.server.clone().unzip();
        let heard_s = state.heard.map(|at| at.elapsed().as_secs_f64());
        json!({ "server": server, "revision": revision, "heard_s": heard_s, "error": state.trouble.as_ref().or(state.silence.as_ref()) })
    }

    /// What somebody must look at. Servers may be away for a while: the file holds.
    pub fn problem(&self) -> Option<String> {
        let state = self.shared.state.lock();
        if state.source != Source::Records {
            return None;
        }
        if let Some(trouble) = &state.trouble {
            return Some(format!("the tenants' records are not taken: {trouble}"));
        }
        if let Some(missing) = state.missing.first() {
            return Some(reason(missing));
        }
        let silent = state.heard.unwrap_or(self.begun).elapsed();
        let why = state.silence.as_ref().filter(|_| silent > AWAY)?;
        Some(format!("the directory has said nothing of the tenants' records for {} s: {why}", silent.as_secs()))
    }
}

fn reason(it: &Missing) -> String {
    let Missing { tenant, vif, why } = it;
    match why {
        Why::NoTenant => format!("the directory has no tenant `{tenant}`, of which a VIF is configured here"),
        Why::NoVif => format!("the directory has no VIF `{vif}` of `{tenant}`, which is configured here"),
        Why::Forbidden => format!(
            "this server may not read the records of `{tenant}`, of which a VIF is configured here: `weft tenant readers`"
        ),
    }
}

/// The thread.
struct Follower {
    shared: Arc<Shared>,
    /// Whom to ask first, and whom to ask for records.
    configured: Settings,
    settings: Settings,
    period: Duration,
    file: PathBuf,
    waker: UnixStream,
    poked: UnixStream,
    view: View,
    /// What the file says, once it is known.
    held: Option<Tenants>,
}

impl Follower {
    fn run(mut self) {
        // Agents of one rack do not all begin at the same server.
        let mut turn = usize::from(weft_directory::client::random::<1>()[0]);
        loop {
            // Of a divided directory, the default part has the records.
            self.settings.servers = home(&self.configured).servers;
            let server = self.settings.servers[turn % self.settings.servers.len()].clone();
            turn += 1;
            let error = self.converse(&server).err().unwrap_or_default();
            {
                let mut state = self.shared.state.lock();
                state.server = None;
                if state.source == Source::Unknown && turn > self.settings.servers.len() {
                    // A server that does not know of records closes the stream.
                    state.source = Source::Document;
                }
                if state.silence.replace(error.clone()).is_none() && state.source == Source::Records {
                    tracing::warn!(error, "no word of the tenants' records; the file holds");
                }
            }
            // Not all agents of a server that has ended come to the next one at once.
            let jitter = 0.5 + f64::from(weft_directory::client::random::<1>()[0]) / 256.0;
            std::thread::sleep(self.period.min(RETRY).mul_f64(jitter));
        }
    }

    /// Subscribes at a server until that fails.
    fn converse(&mut self, server: &str) -> std::result::Result<(), String> {
        let said = |error: weft_directory::client::ClientError| error.to_string();
        let mut subscription = Subscription::open(server, &self.settings).map_err(said)?;
        let failed = |error: std::io::Error| error.to_string();
        let mut poll = Poll::new().map_err(failed)?;
        for (token, descriptor) in [subscription.descriptor(), self.poked.as_raw_fd()].iter().enumerate() {
            poll.registry().register(&mut SourceFd(descriptor), Token(token), Interest::READABLE).map_err(failed)?;
        }
        let mut events = Events::with_capacity(4);
        self.view.connected();
        let mut asked: Option<Instant> = None;
        loop {
            self.view.want(self.shared.wanted.lock().clone());
            if self.view.is_due() || asked.is_none_or(|at| at.elapsed() >= HEARTBEAT) {
                asked = Some(Instant::now());
                self.ask(&mut subscription)?;
            }
            // What came with the answer.
            let mut names = subscription.notices(Instant::now()).map_err(said)?;
            if names.is_empty() && !self.view.is_due() {
                let left = asked.map_or(Duration::ZERO, |at| HEARTBEAT.saturating_sub(at.elapsed()));
                match poll.poll(&mut events, Some(left)) {
                    Err(error) if error.kind() != std::io::ErrorKind::Interrupted => return Err(error.to_string()),
                    _ => {}
                }
                drain(&self.poked);
                if events.iter().any(|event| event.token() == Token(0)) {
                    names = subscription.notices(Instant::now() + READ).map_err(said)?;
                }
            }
            self.view.notified(names.iter().map(String::as_str));
        }
    }

    fn ask(&mut self, subscription: &mut Subscription) -> std::result::Result<(), String> {
        let question = self.view.question();
        self.view.asked(&question);
        let answered = subscription.ask(&question).map_err(|error| error.to_string())?;
        let server = subscription.server();
        let source = match answered.state {
            RecordsState::None => Source::Document,
            RecordsState::Found => Source::Records,
            RecordsState::Elsewhere => return Err(format!("{server}: its store does not answer")),
            RecordsState::Refused => return Err(format!("{server} does not take so many VIFs of this principal")),
        };
        let differs = source == Source::Records && (self.view.answered(&question, answered.listed) || self.held.is_none());
        let trouble = if differs { self.write().err() } else { None };
        let mut state = self.shared.state.lock();
        state.missing = if source == Source::Records { self.view.missing() } else { Vec::new() };
        let is_news = source == Source::Records && (differs || !question.tenants.is_empty());
        (state.source, state.heard, state.silence) = (source, Some(Instant::now()), None);
        state.server = Some((server.to_owned(), answered.revision));
        if differs {
            if let Some(trouble) = &trouble {
                tracing::error!(trouble, "the tenants' records are not taken");
            }
            state.trouble = trouble;
        }
        drop(state);
        if is_news {
            let _ = (&self.waker).write(&[1]);
        }
        Ok(())
    }

    /// Writes the file, if it says something else.
    fn write(&mut self) -> std::result::Result<(), String> {
        let held = match self.held.take() {
            Some(held) => held,
            None => std::fs::read_to_string(&self.file).ok().and_then(|text| Tenants::parse(&text).ok()).unwrap_or_default(),
        };
        let next = held.version.checked_add(1).ok_or("the file's version is the last one that there is")?;
        let new = self.view.tenants(next).map_err(|error| error.to_string())?;
        if is_ours(&self.file) && (&new.tenants, new.service) == (&held.tenants, held.service) {
            self.held = Some(held);
            return Ok(());
        }
        let text = format!("{HEADING}\n{}", new.to_text());
        atomic_file::write(&self.file, text.as_bytes())
            .map_err(|error| format!("{} cannot be written: {error}", self.file.display()))?;
        tracing::info!(
            version = new.version,
            tenants = new.tenants.len(),
            "the directory's records of this server's tenants have changed"
        );
        self.held = Some(new);
        Ok(())
    }
}

/// Whether a file was written from records.
fn is_ours(file: &Path) -> bool {
    let mut start = [0; HEADING.len()];
    std::fs::File::open(file).and_then(|mut it| it.read_exact(&mut start)).is_ok() && start == *HEADING.as_bytes()
}

fn drain(stream: &UnixStream) -> bool {
    let mut some = false;
    while (&mut &*stream).read(&mut [0; 64]).is_ok_and(|count| count > 0) {
        some = true;
    }
    some
}

/// What such a file begins with.
const HEADING: &str = "# Of the directory's records: the tenants of this server's VIFs. The agent writes it.";
/// A server that has said nothing for so long is asked whether it is there.
const HEARTBEAT: Duration = Duration::from_secs(20);
/// For what has begun to come to be there as a whole.
const READ: Duration = Duration::from_millis(40);
/// Before the next server is tried, in the mean, unless the configuration says less.
const RETRY: Duration = Duration::from_secs(1);
/// For a server to say whether the store has records, before the document is looked at.
const FIRST_ANSWER: Duration = Duration::from_secs(2);
/// How long servers may be away before somebody should look.
const AWAY: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt as _;

    use weft_control::netlord::tenants::records::{Listed, ListedState};

    use super::*;

    fn follower(file: PathBuf) -> Follower {
        let settings = Settings {
            servers: vec!["127.0.0.1:1".to_owned()],
            principal: weft_control::directory::PrincipalId(40),
            key: None,
            auth: weft_directory::client::Auth::Mac,
            timeout: Duration::from_secs(1),
            only: false,
        };
        let (waker, poked) = UnixStream::pair().unwrap();
        let (shared, period) = (Arc::default(), Duration::from_secs(1));
        Follower { shared, configured: settings.clone(), settings, period, file, waker, poked, view: View::new(), held: None }
    }

    fn answer(follower: &mut Follower, records: &[(&str, &str)]) {
        follower.view.want([("acme".to_owned(), "web1".to_owned())]);
        follower.view.connected();
        let question = follower.view.question();
        follower.view.asked(&question);
        let listed = |(name, body): &(&str, &str)| {
            let (name, state) = ((*name).to_owned(), ListedState::Present(1, (*body).to_owned()));
            Listed { name, state }
        };
        follower.view.answered(&question, records.iter().map(listed));
    }

    const ACME: [(&str, &str); 3] = [
        ("site", "service = 1"),
        ("t/acme", "id = 17\nspaces = [1]"),
        ("v/acme/web1", "space = 1\nmac = \"02:00:00:00:00:01\"\naddresses = [\"10.0.0.1\"]"),
    ];

    #[test]
    fn the_file_is_written_when_it_says_something_else_and_never_by_halves() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("tenants.toml");
        std::fs::write(&file, "version = 6\n[[tenant]]\nid = 17\nname = \"acme\"\n[[tenant]]\nid = 18\nname = \"other\"\n")
            .unwrap();
        assert!(!is_ours(&file));
        let mut first = follower(file.clone());
        answer(&mut first, &ACME);
        first.write().unwrap();
        let held = || Tenants::parse(&std::fs::read_to_string(&file).unwrap()).unwrap();
        assert!(is_ours(&file));
        assert_eq!((held().version, held().tenants.len(), held().vifs().count()), (7, 1, 1), "newer than what was there");
        let inode = || std::fs::metadata(&file).unwrap().ino();
        let before = inode();
        first.write().unwrap();
        // Another agent, after a restart, knows the file.
        let mut second = follower(file.clone());
        answer(&mut second, &ACME);
        second.write().unwrap();
        assert_eq!((inode(), held().version), (before, 7), "nothing to be written");
        answer(&mut second, &ACME[..2]);
        second.write().unwrap();
        assert_eq!((held().version, held().vifs().count()), (8, 0));
        answer(&mut second, &[ACME[0], ("t/acme", "id = 1\nspaces = [1]")]);
        assert!(second.write().unwrap_err().contains("reserved"));
        assert_eq!(held().version, 8, "the file holds");
    }

    #[test]
    fn what_is_missing_is_named() {
        let missing = |why| reason(&Missing { tenant: "acme".to_owned(), vif: "web1".to_owned(), why });
        assert!(missing(Why::NoVif).contains("`web1` of `acme`"));
        assert!(missing(Why::NoTenant).contains("no tenant `acme`"));
        assert!(missing(Why::Forbidden).contains("weft tenant readers"));
    }
}
