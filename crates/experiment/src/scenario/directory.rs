//! `[directory]` and `[traffic] pattern = "directory"`: directory servers, their store, and the lookups and updates that they serve.

use weft_control::directory::resolver::Retry;
use weft_fabric::Duration;
use weft_fabric::time::NsDuration;
use weft_sim::directory::load::Fault;

use crate::error::KeyError;
use crate::scenario::keys::Keys;
use crate::scenario::world::{Event, EventKind};

/// Limit of servers of a lab, each on a host of its own.
const SERVING_MAX: u16 = 100;
/// The pattern's name.
pub const DIRECTORY: &str = "directory";

/// `[directory]`.
#[derive(Clone, Debug, PartialEq)]
pub struct DirectorySpec {
    /// Directory servers.
    pub servers: u16,
    /// Machines of the store; 1: it is embedded in the only server.
    pub store_members: u16,
    /// Servers that a lookup is sent to.
    pub k: usize,
    /// When agents retry.
    pub retry: Retry,
    /// Fraction of the datagrams between clients and servers that is lost.
    pub loss: f64,
    /// The least one-way latency, and the most that is added to it.
    pub latency: Duration,
    /// The most that is added to the latency.
    pub jitter: Duration,
    /// Time that a lookup takes a server.
    pub lookup_time: Duration,
    /// Time that an update takes a server.
    pub update_time: Duration,
    /// Limit of datagrams that wait at a server's socket.
    pub queue: usize,
    /// A batch of updates is committed when its oldest has waited this long,
    pub batch: NsDuration,
    /// or when it has this many operations.
    pub batch_ops: usize,
    /// Commits of a server that are under way at a time.
    pub in_flight: usize,
    /// What a commit takes.
    pub commit_time: Duration,
    /// What each of its operations takes of the store's primary.
    pub op_time: Duration,
    /// From the loss of the store's primary until there is another.
    pub election: Duration,
}

/// `[directory]` of an overlay: servers that really run, in a lab.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Serving {
    /// Directory servers.
    pub servers: u16,
    /// Where they keep mappings.
    pub store: ServingStore,
}

/// The stores of servers that really run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServingStore {
    /// In the only server.
    Embedded,
    /// In an etcd that all share.
    Etcd,
}

impl Default for Serving {
    fn default() -> Self {
        Self { servers: 1, store: ServingStore::Embedded }
    }
}

/// Whether the traffic is a load of a directory.
pub fn is_pattern(root: &Keys<'_>) -> bool {
    root.table("traffic").is_ok_and(|t| t.raw().get("pattern").and_then(|p| p.as_str()) == Some(DIRECTORY))
}

impl Serving {
    /// Reads `[directory]`.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn read(keys: &Keys<'_>) -> Result<Self, KeyError> {
        let stores = [("embedded", ServingStore::Embedded), ("etcd", ServingStore::Etcd)];
        let store = keys.word("store", &stores, ServingStore::Embedded)?;
        let servers = keys.or("servers", if store == ServingStore::Etcd { 3 } else { 1 })?;
        keys.done()?;
        keys.check_range("servers", servers, 1..=SERVING_MAX, "write a number of directory servers, such as 3")?;
        if servers > 1 && store == ServingStore::Embedded {
            let help = "write store = \"etcd\", which several servers share, or servers = 1";
            return Err(keys.error("servers", "an embedded store has one server", help));
        }
        Ok(Self { servers, store })
    }
}

/// The traffic of the pattern.
#[derive(Clone, Debug, PartialEq)]
pub struct DirectoryLoad {
    /// Lookups per second.
    pub lookups_per_s: f64,
    /// Updates per second.
    pub updates_per_s: f64,
    /// Mappings.
    pub keys: u32,
    /// Mean size of a burst.
    pub burst: f64,
    /// From one request of a burst to the next.
    pub burst_gap: Duration,
    /// Machines that emulate agents; `None`: all hosts that are nothing else.
    pub agents: Option<u16>,
    /// Provisioning systems.
    pub writers: u16,
    /// Updates per second whose convergence is measured.
    pub probes_per_s: f64,
}

impl DirectorySpec {
    /// Reads `[directory]`.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn read(keys: &Keys<'_>) -> Result<Self, KeyError> {
        let embedded = keys.word("store", &[("replicated", false), ("embedded", true)], false)?;
        let members: Option<u16> = keys.opt("store_members")?;
        if embedded && members.is_some_and(|m| m != 1) {
            return Err(keys.error(
                "store_members",
                "an embedded store has one member",
                "leave it out, or write store = \"replicated\"",
            ));
        }
        let spec = Self {
            servers: keys.or("servers", if embedded { 1 } else { 3 })?,
            store_members: members.unwrap_or(if embedded { 1 } else { 3 }),
            k: keys.or("k", 2)?,
            retry: keys.word("retry", &[("adaptive", Retry::Adaptive), ("paper", Retry::Paper)], Retry::Adaptive)?,
            loss: keys.or("loss", 0.0)?,
            latency: keys.or("latency", Duration::from_us(50))?,
            jitter: keys.or("jitter", Duration::from_us(50))?,
            lookup_time: keys.or("lookup_time", Duration::from_us(2))?,
            update_time: keys.or("update_time", Duration::from_us(20))?,
            queue: keys.or("queue", 256)?,
            batch: keys.or("batch", NsDuration::from_ms(10))?,
            batch_ops: keys.or("batch_ops", 128)?,
            in_flight: keys.or("in_flight", 4)?,
            commit_time: keys.or("commit_time", Duration::from_ms(2))?,
            op_time: keys.or("op_time", Duration::from_us(10))?,
            election: keys.or("election", Duration::from_secs(1))?,
        };
        keys.done()?;
        spec.check(keys, embedded)?;
        Ok(spec)
    }

    fn check(&self, keys: &Keys<'_>, embedded: bool) -> Result<(), KeyError> {
        keys.check_range("servers", self.servers, 1..=100, "write a number of directory servers, such as 3")?;
        if embedded && self.servers != 1 {
            let help = "write servers = 1, or store = \"replicated\"";
            return Err(keys.error("servers", "an embedded store has one server", help));
        }
        let least = if embedded { 1 } else { 2 };
        let help = "write 3 or 5, or store = \"embedded\" for one";
        keys.check_range("store_members", self.store_members, least..=99, help)?;
        keys.check_range("k", self.k, 1..=16, "write k = 2, as VL2")?;
        keys.check_range("loss", self.loss, 0.0..=1.0, "write 0.1 for 10 %")?;
        let counts = [("queue", self.queue, 1 << 20), ("batch_ops", self.batch_ops, 128), ("in_flight", self.in_flight, 1 << 10)];
        for (key, value, most) in counts {
            keys.check_range(key, value, 1..=most, "leave it out for the usual value")?;
        }
        Ok(())
    }
}

impl DirectoryLoad {
    /// Reads `[traffic]` of this pattern.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn read(keys: &Keys<'_>) -> Result<Self, KeyError> {
        let load = Self {
            lookups_per_s: keys.or("lookups_per_s", 0.0)?,
            updates_per_s: keys.or("updates_per_s", 0.0)?,
            keys: keys.or("keys", 100_000)?,
            burst: keys.or("burst", 1.0)?,
            burst_gap: keys.or("burst_gap", Duration::from_us(10))?,
            agents: keys.opt("agents")?,
            writers: keys.or("writers", 4)?,
            probes_per_s: keys.or("probes_per_s", 0.0)?,
        };
        keys.done()?;
        for (key, rate) in
            [("lookups_per_s", load.lookups_per_s), ("updates_per_s", load.updates_per_s), ("probes_per_s", load.probes_per_s)]
        {
            keys.check_range(key, rate, 0.0..=1e7, "write a number such as 32_000")?;
        }
        if load.lookups_per_s + load.updates_per_s <= 0.0 {
            return Err(keys.error(
                "lookups_per_s",
                "there are neither lookups nor updates",
                "add `lookups_per_s` or `updates_per_s`",
            ));
        }
        keys.check_range("burst", load.burst, 1.0..=1e6, "write burst = 1 for a Poisson process")?;
        keys.check_range("keys", load.keys, 1..=10_000_000, "write keys = 100_000, as VL2")?;
        keys.check_not_zero("writers", load.writers, "nobody would write", "leave it out")?;
        keys.check_not_zero("agents", load.agents.unwrap_or(1), "nobody would ask", "leave it out")?;
        Ok(load)
    }
}

/// The part of `[[event]]`: `server 1`, `store primary`, `store other`, `store 2`, and `store` to restore all members.
///
/// # Errors
/// A part that the directory does not have.
pub fn fault(event: &Event, spec: &DirectorySpec) -> Result<Fault, KeyError> {
    let wrong = |message: String| {
        let help =
            "write \"server 0\", \"store primary\", \"store other\" or \"store 0\"; restore = \"store\" restores all members";
        Err(KeyError::new(event.key.clone(), message, help))
    };
    let fails = match event.kind {
        EventKind::Fail | EventKind::FailSilent => true,
        EventKind::Restore => false,
        EventKind::Kill | EventKind::Restart | EventKind::Move | EventKind::Forge => {
            return wrong(format!("a simulated directory knows no `{}`: its servers fail and are restored", event.kind.key()));
        }
    };
    let mut words = event.part.split_whitespace();
    let (what, which) = (words.next().unwrap_or_default(), words.next());
    let number = which.and_then(|w| w.parse::<u16>().ok());
    Ok(match (what, which, number, fails) {
        ("server", _, Some(n), true) if n < spec.servers => Fault::StopServer(n),
        ("server", _, Some(n), false) if n < spec.servers => Fault::StartServer(n),
        ("store", Some("primary"), _, true) => Fault::StopPrimary,
        ("store", Some("other"), _, true) if spec.store_members > 1 => Fault::StopOther,
        ("store", _, Some(n), true) if n < spec.store_members => Fault::StopMember(n),
        ("store", _, Some(n), false) if n < spec.store_members => Fault::StartMember(Some(n)),
        ("store", None, _, false) => Fault::StartMember(None),
        _ => return wrong(format!("the directory has no `{}` to {}", event.part, if fails { "fail" } else { "restore" })),
    })
}
