//! The configuration: `docs/openflow.md` has every key.

mod access;
mod agents;
mod standby;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use serde::Deserialize;
use serde::de::IgnoredAny;
use tokio_rustls::TlsAcceptor;
use toml::Spanned;
use weft_control::controller::Controller;
use weft_control::hedera::{Hedera, HederaConfig, HederaError, Placer};
use weft_control::openflow::network::{HostIdentity, Identities, IdentityError, OpenFlowNetwork, Settings};
use weft_control::time::Duration;
use weft_directory::client::TlsFiles;
use weft_directory::daemon::config::{Place, address_or_off, from_text};
use weft_directory::daemon::tls::server_config;
use weft_fabric::formats::topology::read;
use weft_fabric::{Fabric, LinkId, MacAddr, NodeId};

use crate::error::{Error, Result};
use crate::leader::Election;
use standby::Standby;

pub use access::AccessConfig;
pub use agents::AgentsConfig;

/// A configuration that has been read.
pub enum Steered {
    /// Of a scheduler of OpenFlow switches.
    Switches(Box<Config>),
    /// Of a scheduler of VL2's agents.
    Agents(Box<AgentsConfig>),
    /// Of a scheduler of Subways' hosts.
    Access(Box<AccessConfig>),
}

/// The keys that select among them, and what all have.
#[derive(Debug, Deserialize)]
struct Head {
    agents: Option<IgnoredAny>,
    access: Option<IgnoredAny>,
    #[serde(default = "default_socket")]
    socket: PathBuf,
}

/// Everything that the daemon needs to steer OpenFlow switches, checked.
pub struct Config {
    /// The switches and hosts.
    pub identities: Identities,
    /// The scheduler; `None`: flows are hashed.
    pub hedera: Option<HederaConfig>,
    /// Of the switches' hashes.
    pub seed: u64,
    /// After which an idle flow's entries are dropped.
    pub idle_timeout: Duration,
    /// How it is decided which of several schedulers leads; `None`: the one that started last.
    pub election: Option<Election>,
    /// Where switches connect.
    pub listen: Vec<Listen>,
    /// What switches that connect over TLS are shown, and must show.
    pub tls: Option<TlsAcceptor>,
    /// The Unix socket for commands.
    pub socket: PathBuf,
    /// Where Prometheus metrics are served, if anywhere.
    pub metrics: Option<SocketAddr>,
}

/// The algorithm that places large flows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Algorithm {
    /// None: flows are hashed.
    None,
    /// Global First Fit.
    FirstFit,
    /// Simulated Annealing.
    #[default]
    Annealing,
    /// Annealing with a core a flow.
    AnnealingPerFlow,
    /// Colouring of edges.
    EdgeColoring,
}

/// An address where switches connect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Listen {
    /// TCP.
    Tcp(SocketAddr),
    /// TLS over TCP, with certificates on both sides.
    Tls(SocketAddr),
    /// A Unix socket.
    Unix(PathBuf),
}

/// The file, as it is written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Keys {
    fabric: Spanned<PathBuf>,
    #[serde(default = "default_listen")]
    listen: Spanned<Vec<ListenText>>,
    #[serde(default = "default_socket")]
    socket: PathBuf,
    #[serde(default = "default_metrics", deserialize_with = "address_or_off")]
    metrics: Option<SocketAddr>,
    tls: Option<Spanned<Tls>>,
    standby: Option<Spanned<Standby>>,
    #[serde(default)]
    scheduler: Scheduler,
    #[serde(default)]
    switch: Vec<SwitchKeys>,
    host: Spanned<Vec<HostKeys>>,
}

/// `[tls]`: PEM files.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Tls {
    cert: PathBuf,
    cert_key: PathBuf,
    ca: PathBuf,
}

/// `[scheduler]`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Scheduler {
    kind: Option<Spanned<Algorithm>>,
    period: Option<Spanned<Text<Duration>>>,
    threshold: Option<Spanned<f64>>,
    iterations: Option<u32>,
    c: Option<Spanned<f64>>,
    seed: Option<u64>,
    idle_timeout: Option<Spanned<Text<Duration>>>,
}

/// `[[switch]]`: only what differs from the rule.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct SwitchKeys {
    name: Spanned<String>,
    datapath: Option<Spanned<String>>,
    #[serde(default)]
    ports: BTreeMap<Spanned<String>, Ports>,
}

/// The port of the cable to a neighbour; of several, in the order of the fabric.
#[derive(Debug, Deserialize)]
#[serde(untagged, expecting = "a port number, or a list of them")]
enum Ports {
    One(u32),
    Each(Vec<u32>),
}

/// `[[host]]`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct HostKeys {
    name: Spanned<String>,
    address: Ipv4Addr,
    #[serde(deserialize_with = "from_text")]
    mac: MacAddr,
}

/// A value that is written as text.
#[derive(Clone, Copy, Debug)]
struct Text<T>(pub T);

/// `unix:PATH`, `tls:ADDRESS:PORT`, `tcp:ADDRESS:PORT`, or `ADDRESS:PORT`.
#[derive(Clone, Debug)]
struct ListenText(Listen);

impl Config {
    /// Reads a configuration and the fabric that it names.
    ///
    /// # Errors
    /// [`Error`] that names file and line.
    pub fn read(path: &Path) -> Result<Steered> {
        let text = read_file(path)?;
        let place = Place { path, text: &text, page: PAGE };
        let folder = path.parent().unwrap_or(Path::new(""));
        let head: Head = place.parse()?;
        match (head.access, head.agents) {
            (Some(_), _) => AccessConfig::read(&place, folder).map(|it| Steered::Access(Box::new(it))),
            (None, Some(_)) => AgentsConfig::read(&place, folder).map(|it| Steered::Agents(Box::new(it))),
            (None, None) => Self::read_switches(&place, folder).map(|it| Steered::Switches(Box::new(it))),
        }
    }

    fn read_switches(place: &Place<'_>, folder: &Path) -> Result<Self> {
        let keys: Keys = place.parse()?;
        let fabric = Arc::new(read_fabric(place, folder, &keys.fabric)?);
        let identities = keys.identities(place, &fabric)?;
        let hedera = keys.scheduler.hedera();
        let idle_timeout = keys.scheduler.idle_timeout(place, hedera.period)?;
        keys.scheduler.check(place, &fabric, hedera, keys.fabric.span())?;
        let is_hashed = keys.scheduler.algorithm() == Algorithm::None;
        let election = keys.standby.as_ref().map(|standby| standby.get_ref().election(place, folder)).transpose()?;
        let at = |path: PathBuf| folder.join(path);
        let listen = keys.listen.get_ref().iter().map(|ListenText(listen)| match listen {
            Listen::Unix(path) => Listen::Unix(at(path.clone())),
            Listen::Tcp(_) | Listen::Tls(_) => listen.clone(),
        });
        let listen: Vec<Listen> = listen.collect();
        if listen.is_empty() {
            return Err(place.error(keys.listen.span(), "no address for switches", "write such as [\"tcp:0.0.0.0:6653\"]"));
        }
        let tls = keys.tls(place, folder, &listen)?;
        let (seed, socket) = (hedera.seed, at(keys.socket));
        if listen.contains(&Listen::Unix(socket.clone())) {
            return Err(place.error(keys.listen.span(), "this is the `socket` for commands", "write another path"));
        }
        let hedera = (!is_hashed).then_some(hedera);
        Ok(Self { identities, hedera, seed, idle_timeout, election, listen, tls, socket, metrics: keys.metrics })
    }

    /// The network of which no switch has come yet.
    pub(crate) fn network(&self, generation: u64, secret: [u64; 2]) -> OpenFlowNetwork {
        let fabric = Arc::clone(self.identities.fabric());
        let controller = self.hedera.and_then(|hedera| Hedera::new(fabric, hedera).ok());
        let controller = controller.map(|controller| Box::new(controller) as Box<dyn Controller>);
        let settings = Settings { idle_timeout: self.idle_timeout, seed: self.seed, generation, secret };
        OpenFlowNetwork::new(self.identities.clone(), controller, settings)
    }

    /// The socket of the daemon with this configuration; nothing else of it is checked.
    ///
    /// # Errors
    /// [`Error`] that names file and line.
    pub fn socket_of(path: &Path) -> Result<PathBuf> {
        let text = read_file(path)?;
        let head: Head = Place { path, text: &text, page: PAGE }.parse()?;
        Ok(path.parent().unwrap_or(Path::new("")).join(head.socket))
    }
}

impl Keys {
    /// Reads the certificates, which those who connect over TLS need and nobody else.
    fn tls(&self, place: &Place<'_>, folder: &Path, listen: &[Listen]) -> Result<Option<TlsAcceptor>> {
        let is_needed = listen.iter().any(|listen| matches!(listen, Listen::Tls(_)));
        match &self.tls {
            None if is_needed => {
                let help = "add `[tls]` with `cert`, `cert_key` and `ca`, PEM files";
                Err(place.error(self.listen.span(), "an address with `tls:` needs certificates", help))
            }
            Some(tls) if !is_needed => {
                Err(place.error(tls.span(), "no address has TLS", "write such as `listen = [\"tls:0.0.0.0:6653\"]`"))
            }
            None => Ok(None),
            Some(tls) => {
                let at = |path: &PathBuf| folder.join(path);
                let Tls { cert, cert_key, ca } = tls.get_ref();
                let files = TlsFiles { certificate: at(cert), key: at(cert_key), authority: at(ca) };
                let help = "`cert` and `cert_key` belong together; `ca` has signed the certificates of the switches";
                let config = server_config(&files).map_err(|error| place.error::<Error>(tls.span(), &error.to_string(), help))?;
                Ok(Some(TlsAcceptor::from(config)))
            }
        }
    }

    fn identities(&self, place: &Place<'_>, fabric: &Arc<Fabric>) -> Result<Identities> {
        let hosts = self.hosts(place, fabric)?;
        let mut datapaths: Vec<u64> = fabric.switches().map(|s| u64::from(s.0) + 1).collect();
        let mut ports = vec![0; fabric.links().len()];
        for switch in fabric.switches() {
            for (port, &link) in (1..).zip(fabric.out(fabric.switch_node(switch))) {
                ports[link.index()] = port;
            }
        }
        let mut seen = BTreeSet::new();
        for keys in &self.switch {
            let node = find(place, fabric, &keys.name)?;
            if !seen.insert(node) {
                return Err(place.error(keys.name.span(), "the switch is there twice", "write it as one `[[switch]]`"));
            }
            let Some(switch) = fabric.as_switch(node) else {
                return Err(place.error(keys.name.span(), "this is a host of the fabric", "write it as `[[host]]`"));
            };
            if let Some(datapath) = &keys.datapath {
                datapaths[switch.index()] = parse_datapath(datapath.get_ref()).ok_or_else(|| {
                    let help = "write 16 hexadecimal digits, as `ovs-vsctl get bridge br0 datapath_id` prints them";
                    place.error::<Error>(datapath.span(), "not a datapath", help)
                })?;
            }
            for (peer, given) in &keys.ports {
                let to = find(place, fabric, peer)?;
                let links: Vec<LinkId> = fabric.out(node).iter().copied().filter(|&l| fabric.link(l).to == to).collect();
                let given = match given {
                    Ports::One(port) => std::slice::from_ref(port),
                    Ports::Each(ports) => ports,
                };
                if links.len() != given.len() {
                    let cables = match links.len() {
                        0 => "no cable".to_owned(),
                        1 => "one cable".to_owned(),
                        several => format!("{several} cables"),
                    };
                    let message = format!("`{}` has {cables} to `{}`", keys.name.get_ref(), peer.get_ref());
                    let help = "the fabric's file lists the cables; for several, write a list of ports";
                    return Err(place.error(peer.span(), &message, help));
                }
                links.iter().zip(given).for_each(|(link, &port)| ports[link.index()] = port);
            }
        }
        let identities = Identities::with(Arc::clone(fabric), datapaths, ports, hosts);
        identities.map_err(|error| {
            let (names, help) = concerned(&error);
            let span = names.into_iter().find_map(|name| self.span_of(name)).unwrap_or_else(|| self.fabric.span());
            place.error(span, &error.to_string(), help)
        })
    }

    /// Where a switch or host is written, if it is.
    fn span_of(&self, name: &str) -> Option<Range<usize>> {
        let mut names = self.switch.iter().map(|s| &s.name).chain(self.host.get_ref().iter().map(|h| &h.name));
        names.find(|written| written.get_ref() == name).map(Spanned::span)
    }

    fn hosts(&self, place: &Place<'_>, fabric: &Fabric) -> Result<Vec<HostIdentity>> {
        let mut hosts = vec![None; fabric.host_count()];
        for keys in self.host.get_ref() {
            let node = find(place, fabric, &keys.name)?;
            let Some(host) = fabric.as_host(node) else {
                return Err(place.error(keys.name.span(), "this is a switch of the fabric", "write it as `[[switch]]`"));
            };
            let identity = HostIdentity { address: keys.address, mac: keys.mac };
            if hosts[host.index()].replace(identity).is_some() {
                return Err(place.error(keys.name.span(), "the host is there twice", "remove one"));
            }
        }
        let missing = fabric.hosts().find(|h| hosts[h.index()].is_none());
        if let Some(host) = missing {
            let message = format!("host `{}` of the fabric has no `[[host]]`", fabric.node(host.node()).name);
            return Err(place.error(self.host.span(), &message, "add it, with `name`, `address` and `mac`"));
        }
        Ok(hosts.into_iter().flatten().collect())
    }
}

/// The switches and hosts that an error is about, and its remedy.
fn concerned(error: &IdentityError) -> (Vec<&str>, &'static str) {
    match error {
        IdentityError::SameDatapath { first, second, .. } => (vec![second, first], "give one of them another `datapath`"),
        IdentityError::SamePort { switch, .. } => (vec![switch], "write `ports` as the switch numbers them"),
        IdentityError::PortNumber { switch, .. } => (vec![switch], "write `ports` as the switch numbers them"),
        IdentityError::SameAddress { first, second, .. } => (vec![second, first], "give one of them another `address`"),
        IdentityError::SwitchMac(host) => (vec![host], "give its NIC another MAC address"),
        IdentityError::SeveralNics { .. } => (Vec::new(), "write a fabric where each host has one cable"),
        IdentityError::Addresses(_) => (Vec::new(), "docs/formats-topology.md describes racks and pods"),
    }
}

/// At most 16 hexadecimal digits, with colons or without.
fn parse_datapath(text: &str) -> Option<u64> {
    let digits = text.strip_prefix("0x").unwrap_or(text).replace(':', "");
    let is_hex = digits.len() <= 16 && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    u64::from_str_radix(&digits, 16).ok().filter(|_| is_hex)
}

fn read_fabric(place: &Place<'_>, folder: &Path, key: &Spanned<PathBuf>) -> Result<Fabric> {
    let path = folder.join(key.get_ref());
    let bytes = std::fs::read(&path).map_err(|cause| {
        let help = "`weft topo SCENARIO --export native --out FILE` writes one";
        place.error::<Error>(key.span(), &format!("cannot read the fabric {}: {cause}", path.display()), help)
    })?;
    let imported = read(&bytes);
    let imported =
        imported.map_err(|e| place.error::<Error>(key.span(), &format!("the fabric {}: {e}", path.display()), &e.help))?;
    Ok(imported.fabric)
}

fn find(place: &Place<'_>, fabric: &Fabric, name: &Spanned<String>) -> Result<NodeId> {
    fabric.node_by_name(name.get_ref()).ok_or_else(|| {
        let message = format!("the fabric has no `{}`", name.get_ref());
        place.error(name.span(), &message, "names are those of the fabric's file")
    })
}

impl Scheduler {
    fn algorithm(&self) -> Algorithm {
        self.kind.as_ref().map_or_else(Algorithm::default, |kind| *kind.get_ref())
    }

    /// Refuses settings that mean nothing on the fabric.
    fn check(&self, place: &Place<'_>, fabric: &Arc<Fabric>, hedera: HederaConfig, otherwise: Range<usize>) -> Result<()> {
        let scheduler = Hedera::new(Arc::clone(fabric), hedera);
        scheduler.map(drop).map_err(|error| {
            let span = self.span(&error).unwrap_or(otherwise);
            place.error(span, &error.to_string(), "write another value in [scheduler]")
        })
    }

    /// The key that an error is about, if it is there.
    fn span(&self, error: &HederaError) -> Option<Range<usize>> {
        match error {
            HederaError::Period => self.period.as_ref().map(Spanned::span),
            HederaError::Threshold(_) => self.threshold.as_ref().map(Spanned::span),
            HederaError::C(_) => self.c.as_ref().map(Spanned::span),
            HederaError::Flows(_) => None,
        }
    }

    fn hedera(&self) -> HederaConfig {
        let default = HederaConfig::default();
        HederaConfig {
            period: self.period.as_ref().map_or(default.period, |period| period.get_ref().0),
            threshold: self.threshold.as_ref().map_or(default.threshold, |threshold| *threshold.get_ref()),
            placer: match self.algorithm() {
                Algorithm::FirstFit => Placer::FirstFit,
                Algorithm::None | Algorithm::Annealing => Placer::Annealing,
                Algorithm::AnnealingPerFlow => Placer::AnnealingPerFlow,
                Algorithm::EdgeColoring => Placer::EdgeColoring,
            },
            iterations: self.iterations,
            c: self.c.as_ref().map(|c| *c.get_ref()),
            seed: self.seed.unwrap_or(default.seed),
        }
    }

    /// Twice the period, at least 10 s: a flow that only pauses is not forgotten between two readings.
    fn idle_timeout(&self, place: &Place<'_>, period: Duration) -> Result<Duration> {
        let longest = Duration::from_secs(u64::from(u16::MAX));
        let Some(given) = &self.idle_timeout else { return Ok((period.min(longest / 2) * 2).max(Duration::from_secs(10))) };
        let Text(timeout) = *given.get_ref();
        if timeout < Duration::from_secs(1) || timeout > longest {
            return Err(place.error(
                given.span(),
                "switches count idle time in seconds, from 1 to 65,535",
                "write such as \"10s\"",
            ));
        }
        Ok(timeout)
    }
}

impl<'de, T: FromStr> Deserialize<'de> for Text<T>
where
    T::Err: fmt::Display,
{
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> std::result::Result<Self, D::Error> {
        from_text(from).map(Self)
    }
}

impl<'de> Deserialize<'de> for ListenText {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> std::result::Result<Self, D::Error> {
        from_text(from).map(Self)
    }
}

impl FromStr for Listen {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        if let Some(path) = text.strip_prefix("unix:").filter(|path| !path.is_empty()) {
            return Ok(Self::Unix(path.into()));
        }
        let wrong = |_| format!("`{text}` is none of `tcp:ADDRESS:PORT`, `tls:ADDRESS:PORT` and `unix:PATH`");
        match text.strip_prefix("tls:") {
            Some(address) => address.parse().map(Self::Tls).map_err(wrong),
            None => text.strip_prefix("tcp:").unwrap_or(text).parse().map(Self::Tcp).map_err(wrong),
        }
    }
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => write!(f, "tcp:{address}"),
            Self::Tls(address) => write!(f, "tls:{address}"),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

fn read_file(path: &Path) -> Result<String> {
    std::fs::read_to_string(path).map_err(|cause| Error::Input { path: path.to_owned(), cause })
}

fn default_listen() -> Spanned<Vec<ListenText>> {
    Spanned::new(0..0, vec![ListenText(Listen::Tcp(SocketAddr::from(([0, 0, 0, 0], OPENFLOW))))])
}

fn default_socket() -> PathBuf {
    PathBuf::from("/run/weft-scheduler/scheduler.sock")
}

#[allow(clippy::unnecessary_wraps)] // The form that serde requires.
fn default_metrics() -> Option<SocketAddr> {
    Some(SocketAddr::from(([127, 0, 0, 1], 9305)))
}

/// The port of OpenFlow.
const OPENFLOW: u16 = 6653;
/// The page that has every key.
const PAGE: &str = "docs/openflow.md";
