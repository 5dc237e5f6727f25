//! `[access]`: a scheduler of Subways' hosts and ToRs, in place of OpenFlow switches.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Deserialize;
use serde::de::IgnoredAny;
use toml::Spanned;
use weft_control::directory::PrincipalId;
use weft_control::subways::agents::{AccessAddresses, AccessNetwork, Member, NetworkSettings};
use weft_control::subways::{DetourConfig, Rebind, Subways, SubwaysConfig};
use weft_control::time::Duration;
use weft_control::wire::subways::HOPS_MAX;
use weft_control::wire::vl2::placement::PlacementKey;
use weft_directory::daemon::config::{Place, address_or_off};
use weft_fabric::{Fabric, NodeId, SwitchId};

use super::standby::Standby;
use super::{Text, default_metrics, default_socket, find, read_fabric, read_file};
use crate::error::{Error, Result};
use crate::leader::Election;

/// Everything that the daemon needs to steer hosts, checked.
pub struct AccessConfig {
    addresses: AccessAddresses,
    hosts: Vec<Member>,
    tors: BTreeMap<SwitchId, Member>,
    subways: SubwaysConfig,
    idle_timeout: Duration,
    /// Where agents report: an address in each network.
    pub listen: Vec<SocketAddr>,
    /// The Unix socket for commands.
    pub socket: PathBuf,
    /// Where Prometheus metrics are served, if anywhere.
    pub metrics: Option<SocketAddr>,
    /// How it is decided which of several schedulers leads; `None`: the one that started last.
    pub election: Option<Election>,
}

/// The file, as it is written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Keys {
    fabric: Spanned<PathBuf>,
    #[serde(default = "default_socket")]
    socket: PathBuf,
    #[serde(default = "default_metrics", deserialize_with = "address_or_off")]
    metrics: Option<SocketAddr>,
    #[serde(default = "usual")]
    scheduler: Spanned<Adaptive>,
    access: Part,
    agents: Option<Spanned<IgnoredAny>>,
    listen: Option<Spanned<IgnoredAny>>,
    tls: Option<Spanned<IgnoredAny>>,
    standby: Option<Spanned<Standby>>,
    switch: Option<Spanned<IgnoredAny>>,
    host: Option<Spanned<IgnoredAny>>,
}

/// `[scheduler]` with `[access]`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Adaptive {
    #[serde(default)]
    kind: Kind,
    period: Option<Text<Duration>>,
    ewma_gain: Option<f64>,
    aggressiveness: Option<f64>,
    utilisation_floor: Option<f64>,
    #[serde(default)]
    rebind: RebindKey,
    flowlet_gap: Option<Text<Duration>>,
    seed: Option<u64>,
    idle_timeout: Option<Text<Duration>>,
    detect: Option<Text<Duration>>,
    hot_duration: Option<Text<Duration>>,
    hot_threshold: Option<f64>,
    detour_usable: Option<f64>,
    max_detour_servers: Option<usize>,
    edge_rule: Option<bool>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Kind {
    #[default]
    Adaptive,
    Detour,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum RebindKey {
    #[default]
    Surplus,
    All,
}

/// `[access]`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Part {
    listen: Spanned<Addresses>,
    addresses: Option<Spanned<PathBuf>>,
    host: Spanned<Vec<AgentKeys>>,
    tor: Spanned<Vec<AgentKeys>>,
}

/// One address, or a list.
#[derive(Debug, Deserialize)]
#[serde(untagged, expecting = "an address with its port, or a list of them")]
enum Addresses {
    One(SocketAddr),
    Each(Vec<SocketAddr>),
}

/// `[[access.host]]`, `[[access.tor]]`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct AgentKeys {
    name: Spanned<String>,
    principal: Spanned<u32>,
    placement_key: Spanned<String>,
}

impl AccessConfig {
    /// Reads a configuration with `[access]`, and the fabric that it names.
    pub(super) fn read(place: &Place<'_>, folder: &Path) -> Result<Self> {
        let keys: Keys = place.parse()?;
        keys.check_alone(place)?;
        let fabric = Arc::new(read_fabric(place, folder, &keys.fabric)?);
        let addresses = keys.addresses(place, folder, &fabric)?;
        let (hosts, tors) = keys.members(place, &fabric)?;
        let subways = keys.scheduler.get_ref().subways();
        keys.check_detours(place)?;
        subways.check().map_err(|error| {
            place.error::<Error>(keys.scheduler.span(), &error.to_string(), "write another value in [scheduler]")
        })?;
        let listen = match keys.access.listen.get_ref() {
            Addresses::One(one) => vec![*one],
            Addresses::Each(each) => each.clone(),
        };
        if listen.is_empty() || listen.iter().any(|it| it.port() == 0) {
            return Err(place.error(keys.access.listen.span(), "no port", "write such as \"10.1.1.2:5306\""));
        }
        let election = keys.standby.as_ref().map(|standby| standby.get_ref().election(place, folder)).transpose()?;
        let idle_timeout = keys.scheduler.get_ref().idle_timeout.map_or(Duration::from_secs(10), |Text(it)| it);
        Ok(Self {
            addresses,
            hosts,
            tors,
            subways,
            idle_timeout,
            listen,
            socket: folder.join(&keys.socket),
            metrics: keys.metrics,
            election,
        })
    }

    /// The network of which no agent has reported.
    pub(crate) fn network(&self, generation: u64) -> Result<AccessNetwork> {
        let fabric = Arc::clone(self.addresses.fabric());
        let controller = Subways::new(fabric, self.subways);
        let controller = controller.map_err(|error| Error::System { action: "start", cause: std::io::Error::other(error) })?;
        let settings = NetworkSettings {
            generation,
            period: self.subways.period,
            idle_timeout: self.idle_timeout,
            detours: self.subways.detour.is_some(),
        };
        let (hosts, tors) = (self.hosts.clone(), self.tors.clone());
        Ok(AccessNetwork::new(self.addresses.clone(), hosts, tors, Box::new(controller), settings))
    }
}

impl Adaptive {
    fn subways(&self) -> SubwaysConfig {
        let usual = SubwaysConfig { period: PERIOD, flowlet_gap: GAP, ..SubwaysConfig::default() };
        SubwaysConfig {
            period: self.period.map_or(usual.period, |Text(it)| it),
            ewma_gain: self.ewma_gain.unwrap_or(usual.ewma_gain),
            aggressiveness: self.aggressiveness.unwrap_or(usual.aggressiveness),
            utilisation_floor: self.utilisation_floor.unwrap_or(usual.utilisation_floor),
            rebind: match self.rebind {
                RebindKey::Surplus => Rebind::Surplus,
                RebindKey::All => Rebind::All,
            },
            flowlet_gap: self.flowlet_gap.map_or(usual.flowlet_gap, |Text(it)| it),
            detour: (self.kind == Kind::Detour).then(|| self.detours()),
            seed: self.seed.unwrap_or(usual.seed),
        }
    }

    /// Counters are no newer than the last reports: `detect` is a period, and as in the paper a tenth of `hot_duration`.
    fn detours(&self) -> DetourConfig {
        let usual = DetourConfig::default();
        let detect = self.detect.or(self.period).map_or(PERIOD, |Text(it)| it);
        DetourConfig {
            detect,
            hot_duration: self.hot_duration.map_or(detect * 10, |Text(it)| it),
            hot_threshold: self.hot_threshold.unwrap_or(usual.hot_threshold),
            usable: self.detour_usable.unwrap_or(usual.usable),
            max_servers: self.max_detour_servers.unwrap_or(usual.max_servers),
            edge_rule: self.edge_rule.unwrap_or(usual.edge_rule),
        }
    }

    /// The first key of detours that is given.
    fn detour_key(&self) -> Option<&'static str> {
        let given = [
            ("detect", self.detect.is_some()),
            ("hot_duration", self.hot_duration.is_some()),
            ("hot_threshold", self.hot_threshold.is_some()),
            ("detour_usable", self.detour_usable.is_some()),
            ("max_detour_servers", self.max_detour_servers.is_some()),
            ("edge_rule", self.edge_rule.is_some()),
        ];
        given.into_iter().find(|(_, is_given)| *is_given).map(|(name, _)| name)
    }
}

impl Keys {
    /// One scheduler steers hosts, or VL2's agents, or switches.
    fn check_alone(&self, place: &Place<'_>) -> Result<()> {
        let others = [
            ("agents", &self.agents),
            ("listen", &self.listen),
            ("tls", &self.tls),
            ("switch", &self.switch),
            ("host", &self.host),
        ];
        match others.into_iter().find_map(|(name, key)| Some((name, key.as_ref()?))) {
            None => Ok(()),
            Some((name, key)) => {
                let help = "remove it, or `[access]`: a scheduler steers OpenFlow switches, VL2's agents or Subways' hosts";
                Err(place.error(key.span(), &format!("`{name}` beside `[access]`"), help))
            }
        }
    }

    /// Keys of detours are for a scheduler that has them, and agents write headers for so many servers.
    fn check_detours(&self, place: &Place<'_>) -> Result<()> {
        let scheduler = self.scheduler.get_ref();
        let refuse = |message: &str, help: &str| Err(place.error(self.scheduler.span(), message, help));
        if let Some(key) = scheduler.detour_key().filter(|_| scheduler.kind != Kind::Detour) {
            return refuse(&format!("`{key}` without detours"), "write kind = \"detour\", or remove it");
        }
        if scheduler.max_detour_servers.is_some_and(|servers| servers > HOPS_MAX) {
            let message = format!("agents pass {HOPS_MAX} servers at most at each end of a flow");
            return refuse(&message, "lower `max_detour_servers`");
        }
        Ok(())
    }

    fn addresses(&self, place: &Place<'_>, folder: &Path, fabric: &Arc<Fabric>) -> Result<AccessAddresses> {
        let given = match &self.access.addresses {
            None => None,
            Some(key) => {
                let path = folder.join(key.get_ref());
                let text = read_file(&path)?;
                let read: BTreeMap<String, Vec<Ipv4Addr>> = Place { path: &path, text: &text, page: place.page }.parse()?;
                Some(read)
            }
        };
        AccessAddresses::new(Arc::clone(fabric), given.as_ref()).map_err(|error| {
            let span = self.access.addresses.as_ref().map_or_else(|| self.fabric.span(), Spanned::span);
            let help = "`addresses` is a file with one line a host: its name, and its addresses in the order of its cables";
            place.error(span, &error.to_string(), help)
        })
    }

    /// The agents of all hosts, and of the ToRs.
    fn members(&self, place: &Place<'_>, fabric: &Fabric) -> Result<(Vec<Member>, BTreeMap<SwitchId, Member>)> {
        let mut named: BTreeMap<NodeId, Member> = BTreeMap::new();
        let (hosts, tors) = (self.access.host.get_ref(), self.access.tor.get_ref());
        for (keys, is_host) in hosts.iter().map(|it| (it, true)).chain(tors.iter().map(|it| (it, false))) {
            let node = find(place, fabric, &keys.name)?;
            if fabric.as_host(node).is_some() != is_host {
                let (what, help) = if is_host { ("switch", "`[[access.tor]]`") } else { ("host", "`[[access.host]]`") };
                return Err(place.error(
                    keys.name.span(),
                    &format!("this is a {what} of the fabric"),
                    &format!("write it as {help}"),
                ));
            }
            let member = keys.member(place)?;
            if named.values().any(|other| other.principal == member.principal) {
                return Err(place.error(
                    keys.principal.span(),
                    "two agents have this principal",
                    "each agent has one of its own",
                ));
            }
            if named.insert(node, member).is_some() {
                return Err(place.error(keys.name.span(), "it is there twice", "remove one"));
            }
        }
        let tor_nodes = fabric.hosts().flat_map(|host| fabric.out(host.node())).map(|&nic| fabric.link(nic).to);
        let needed = fabric.hosts().map(|host| (host.node(), self.access.host.span()));
        let mut needed = needed.chain(tor_nodes.map(|node| (node, self.access.tor.span())));
        if let Some((node, span)) = needed.find(|(node, _)| !named.contains_key(node)) {
            let message = format!("`{}` of the fabric has no agent here", fabric.node(node).name);
            return Err(place.error(span, &message, "add it, with `name`, `principal` and `placement_key`"));
        }
        let members = fabric.hosts().filter_map(|host| named.remove(&host.node())).collect();
        Ok((members, named.into_iter().filter_map(|(node, member)| Some((fabric.as_switch(node)?, member))).collect()))
    }
}

impl AgentKeys {
    fn member(&self, place: &Place<'_>) -> Result<Member> {
        if *self.principal.get_ref() == 0 {
            return Err(place.error(self.principal.span(), "principals begin at 1", "give the number that its agent has"));
        }
        let key = PlacementKey::parse(self.placement_key.get_ref()).map_err(|_| {
            let help = "`weft directory key --principal N --placement` prints it, where the directory's secret is";
            place.error::<Error>(self.placement_key.span(), "a placement key is 64 hexadecimal digits", help)
        })?;
        Ok(Member { principal: PrincipalId(*self.principal.get_ref()), key })
    }
}

fn usual() -> Spanned<Adaptive> {
    Spanned::new(0..0, Adaptive::default())
}

/// The paper's 10 ms are those of counters that switches have in hardware; agents report twice in a round.
const PERIOD: Duration = Duration::from_ms(200);
/// A pause after which packets on another path overtake none on the old one, in a fabric whose queues take less.
const GAP: Duration = Duration::from_ms(1);

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use weft_control::directory::auth::Secret;

    use super::*;
    use crate::config::{Config, Steered};

    fn key(principal: u32) -> String {
        PlacementKey::of(&Secret::new([3; 32]).key_of(PrincipalId(principal))).to_hex()
    }

    const FABRIC: &str = "weft-fabric 1\nhost a\nhost b\nswitch s tier 1\nswitch t tier 1\nswitch u tier 2\ncable a s 1Gbps 1us\ncable a t 1Gbps 1us\n\
                          cable b s 1Gbps 1us\ncable b t 1Gbps 1us\ncable s u 1Gbps 1us\ncable t u 1Gbps 1us\n";

    fn right() -> String {
        let mut text =
            "fabric = \"fabric.weft\"\nmetrics = \"off\"\n[scheduler]\nkind = \"adaptive\"\nperiod = \"100ms\"\n[access]\n\
                        listen = \"127.0.0.1:5306\"\naddresses = \"addresses.toml\"\n"
                .to_owned();
        for (principal, (kind, name)) in (1..).zip([("host", "a"), ("host", "b"), ("tor", "s"), ("tor", "t")]) {
            let key = key(principal);
            let _ = write!(text, "[[access.{kind}]]\nname = \"{name}\"\nprincipal = {principal}\nplacement_key = \"{key}\"\n");
        }
        text
    }

    fn read(text: &str) -> Result<Steered> {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::write(at("fabric.weft"), FABRIC).unwrap();
        std::fs::write(at("addresses.toml"), "a = [\"10.0.0.1\", \"10.0.1.1\"]\nb = [\"10.0.0.2\", \"10.0.1.2\"]\n").unwrap();
        std::fs::write(at("scheduler.toml"), text).unwrap();
        Config::read(&at("scheduler.toml"))
    }

    #[test]
    fn a_configuration_is_read_and_errors_name_the_line() {
        let Ok(Steered::Access(config)) = read(&right()) else { panic!("it is of Subways' hosts") };
        assert_eq!((config.hosts.len(), config.tors.len()), (2, 2));
        assert_eq!(config.network(1).unwrap().agents(), 4);
        let Ok(Steered::Access(config)) = read(&right().replacen("adaptive", "detour", 1)) else { panic!("it has detours") };
        let detour = config.subways.detour.unwrap();
        assert_eq!((detour.detect, detour.hot_duration), (Duration::from_ms(100), Duration::from_secs(1)));
        let hex = key(2);
        for (from, to, line, reason) in [
            ("metrics = \"off\"", "tls = {}", 2, "`tls` beside `[access]`"),
            ("[access]", "[standby]\netcd = []\n[access]", 7, "not the URLs of etcd"),
            ("kind = \"adaptive\"", "kind = \"first-fit\"", 4, "first-fit"),
            ("\"100ms\"", "\"0s\"", 3, "`period` is 0"),
            ("period = \"100ms\"", "hot_threshold = 0.5", 3, "without detours"),
            ("\"adaptive\"\nperiod = \"100ms\"", "\"detour\"\nmax_detour_servers = 3", 3, "2 servers at most"),
            ("\"adaptive\"\nperiod = \"100ms\"", "\"detour\"\nmax_detour_servers = 0", 3, "through no server"),
            ("\"adaptive\"\nperiod = \"100ms\"", "\"detour\"\nhot_threshold = 2.0", 3, "hot_threshold"),
            (":5306", ":0", 7, "no port"),
            ("addresses.toml", "fabric.weft", 1, "fabric.weft"),
            (hex.as_str(), "00", 16, "64 hexadecimal digits"),
            ("principal = 2", "principal = 0", 15, "begin at 1"),
            ("principal = 2", "principal = 1", 15, "two agents have this principal"),
            ("name = \"b\"", "name = \"c\"", 14, "has no `c`"),
            ("name = \"b\"", "name = \"u\"", 14, "this is a switch"),
            ("name = \"t\"", "name = \"s\"", 22, "it is there twice"),
            ("[[access.tor]]\nname = \"t\"", "[[access.tor]]\nname = \"u\"", 17, "`t` of the fabric has no agent"),
        ] {
            assert!(right().contains(from), "{from}");
            let Err(error) = read(&right().replacen(from, to, 1)) else { panic!("{to}") };
            let text = error.to_string();
            assert!(text.contains(&format!(":{line}:")) && text.contains(reason), "{to}: {text}");
        }
    }
}
