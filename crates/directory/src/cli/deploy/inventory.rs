//! The inventory: TOML with the machines of a cluster, their addresses and services. `docs/deploying.md` has every key.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::num::NonZeroUsize;
use std::ops::Range;

use serde::Deserialize;
use toml::Spanned;
use weft_control::prefix::Prefix;

use super::limits::Limits;
use super::netlord::inventory::Netlord;
use super::parts::Part;
use crate::cli::connect::Auth;

/// The page that has every key.
pub(super) const PAGE: &str = "docs/deploying.md";

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Inventory {
    /// The cluster's name: a folder with the keys of another one is refused.
    pub cluster: Spanned<String>,
    /// Of the policy: greater with every change of it.
    pub version: Spanned<u32>,
    /// VL2's.
    #[serde(default)]
    pub network: Network,
    netlord: Option<Spanned<Netlord>>,
    #[serde(default)]
    pub directory: Servers,
    #[serde(default)]
    pub agent: Agents,
    #[serde(default)]
    pub service: Vec<Service>,
    #[serde(default)]
    pub switch: Vec<Switch>,
    #[serde(default)]
    pub rack: Vec<Rack>,
    #[serde(default)]
    pub host: Vec<Host>,
    #[serde(skip)]
    index: Index,
}

/// Who is where: inventories have many hosts.
#[derive(Debug, Default)]
struct Index {
    /// The switch of each rack.
    tor: BTreeMap<String, usize>,
    /// The hosts of each ToR, by its name.
    hosts: BTreeMap<String, Vec<usize>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Network {
    pub prefixes: Spanned<Vec<Prefix>>,
    pub locator: LocatorMode,
    pub anycast: Option<Spanned<Vec<Ipv4Addr>>>,
    #[serde(default = "ecmp_width")]
    pub ecmp_width: NonZeroUsize,
    pub multicast: Option<Spanned<Prefix>>,
}

/// Where packets for a host are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum LocatorMode {
    Tor,
    Host,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Servers {
    pub auth: Option<Spanned<Auth>>,
    pub etcd: Option<Spanned<Vec<String>>>,
    /// Files for TLS to etcd, on the servers.
    pub etcd_ca: Option<Spanned<String>>,
    pub etcd_cert: Option<Spanned<String>>,
    pub etcd_cert_key: Option<Spanned<String>>,
    /// A file with etcd's user and password, on the servers.
    pub etcd_user: Option<Spanned<String>>,
    #[serde(default)]
    pub etcd_plaintext: bool,
    #[serde(default = "port")]
    pub port: Spanned<u16>,
    #[serde(default = "admin")]
    pub admin: Spanned<u32>,
    #[serde(default = "server_metrics")]
    pub metrics: Spanned<String>,
    #[serde(default)]
    pub server: Vec<Server>,
    /// None: the directory is not divided.
    #[serde(default)]
    pub part: Vec<Part>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Server {
    pub name: Spanned<String>,
    pub address: Spanned<IpAddr>,
    pub principal: Spanned<u32>,
    pub part: Option<Spanned<String>>,
    /// Whether it follows the store and writes nothing.
    #[serde(default)]
    pub replica: bool,
    pub management: Option<String>,
}

/// What all agents have in common.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Agents {
    pub on_exit: OnExit,
    pub metrics: Spanned<String>,
    pub fail_static: Option<Spanned<String>>,
    /// Of VL2's hosts.
    pub limits: Limits,
    /// Who places large flows of VL2's hosts.
    pub placement: Option<Placement>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Placement {
    /// Up to four.
    pub scheduler: Spanned<Vec<SocketAddr>>,
    /// From how many bytes a flow is placed; none: the agent's default.
    pub elephant: Option<Spanned<String>>,
}

impl Default for Agents {
    fn default() -> Self {
        Self {
            on_exit: OnExit::Keep,
            metrics: Spanned::new(0..0, "127.0.0.1:9304".to_owned()),
            fail_static: None,
            limits: Limits::default(),
            placement: None,
        }
    }
}

/// What happens to eBPF programs and maps when an agent ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum OnExit {
    Keep,
    Remove,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Service {
    pub name: Spanned<String>,
    pub id: Spanned<u32>,
    #[serde(default)]
    pub allow: Vec<Spanned<String>>,
    #[serde(default)]
    pub deny: Vec<Spanned<String>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Switch {
    pub name: Spanned<String>,
    pub role: SwitchRole,
    /// Whether it runs an agent; else it has no principal and gets no files.
    #[serde(default = "yes")]
    pub agent: bool,
    pub principal: Option<Spanned<u32>>,
    pub la: Spanned<Ipv4Addr>,
    #[serde(default)]
    pub ports: Vec<String>,
    pub management: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum SwitchRole {
    Tor,
    Intermediate,
    Other,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Rack {
    pub name: Spanned<String>,
    pub tor: Spanned<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Host {
    pub name: Spanned<String>,
    pub principal: Spanned<u32>,
    pub device: Spanned<String>,
    pub la: Spanned<Ipv4Addr>,
    pub entropy: Spanned<Prefix>,
    pub service: Spanned<String>,
    pub addresses: Vec<Spanned<IpAddr>>,
    pub rack: Option<Spanned<String>>,
    /// At the ToR.
    pub port: Option<Spanned<String>>,
    /// Group of intermediate switches, from 1.
    pub group: Option<Spanned<u16>>,
    #[serde(default)]
    pub limits: Limits,
    pub management: Option<String>,
}

/// None: an inventory without VL2.
impl Default for Network {
    fn default() -> Self {
        let prefixes = Spanned::new(0..0, Vec::new());
        Self { prefixes, locator: LocatorMode::Host, anycast: None, ecmp_width: ecmp_width(), multicast: None }
    }
}

/// No servers.
impl Default for Servers {
    fn default() -> Self {
        Self {
            auth: None,
            etcd: None,
            etcd_ca: None,
            etcd_cert: None,
            etcd_cert_key: None,
            etcd_user: None,
            etcd_plaintext: false,
            port: port(),
            admin: admin(),
            metrics: server_metrics(),
            server: Vec::new(),
            part: Vec::new(),
        }
    }
}

impl OnExit {
    /// As agents' configurations have it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Keep => "keep",
            Self::Remove => "remove",
        }
    }
}

impl Servers {
    /// Options of `weft directory serve` with the files for etcd.
    pub fn etcd_files(&self) -> impl Iterator<Item = (&'static str, &Spanned<String>)> {
        let files = [
            ("etcd-ca", &self.etcd_ca),
            ("etcd-cert", &self.etcd_cert),
            ("etcd-cert-key", &self.etcd_cert_key),
            ("etcd-user", &self.etcd_user),
        ];
        files.into_iter().filter_map(|(option, file)| Some((option, file.as_ref()?)))
    }
}

impl Inventory {
    pub fn cluster(&self) -> &str {
        self.cluster.get_ref()
    }

    /// `[netlord]`.
    pub fn netlord(&self) -> Option<&Netlord> {
        self.netlord.as_ref().map(Spanned::get_ref)
    }

    /// The same, to be completed.
    pub fn netlord_mut(&mut self) -> Option<&mut Netlord> {
        self.netlord.as_mut().map(Spanned::get_mut)
    }

    /// Where `[netlord]` is.
    pub fn place_of_netlord(&self) -> Range<usize> {
        self.netlord.as_ref().map_or(0..0, Spanned::span)
    }

    /// Whether it has anything of VL2.
    pub fn has_vl2(&self) -> bool {
        let has_network = !self.network.prefixes.get_ref().is_empty();
        has_network || !self.host.is_empty() || !self.switch.is_empty() || !self.rack.is_empty()
    }

    /// Whether there are directory servers: NetLord can do without.
    pub const fn has_directory(&self) -> bool {
        !self.directory.server.is_empty()
    }

    /// How updates and streams are authenticated.
    pub fn auth(&self) -> Auth {
        let usual = if self.network.locator == LocatorMode::Tor { Auth::Mac } else { Auth::Tls };
        self.directory.auth.as_ref().map_or(usual, |it| *it.get_ref())
    }

    /// Anycast addresses of the groups of intermediate switches, the first of group 1.
    pub fn anycast(&self) -> &[Ipv4Addr] {
        self.network.anycast.as_ref().map_or(&[], |it| it.get_ref())
    }

    /// The part of a server; none in an undivided directory.
    pub fn part_of(&self, server: &Server) -> Option<&Part> {
        self.part(server.part.as_ref()?.get_ref())
    }

    /// The part of this name.
    pub fn part(&self, name: &str) -> Option<&Part> {
        self.directory.part.iter().find(|it| it.name.get_ref() == name)
    }

    /// The servers of a part, or all servers; replicas last, as clients with updates ask the others first, and replicas start after the others.
    pub fn servers_of(&self, part: Option<&Part>) -> Vec<&Server> {
        let name = part.map(|it| it.name.get_ref());
        let is_of = |it: &&Server| name.is_none_or(|name| it.part.as_ref().is_some_and(|part| part.get_ref() == name));
        let mut servers: Vec<&Server> = self.directory.server.iter().filter(is_of).collect();
        servers.sort_by_key(|it| it.replica);
        servers
    }

    pub fn addresses_of(&self, part: Option<&Part>) -> Vec<SocketAddr> {
        self.servers_of(part).into_iter().map(|it| self.address_of(it)).collect()
    }

    /// Where a server listens.
    pub fn address_of(&self, server: &Server) -> SocketAddr {
        SocketAddr::new(*server.address.get_ref(), *self.directory.port.get_ref())
    }

    /// The servers that clients and agents are given: those of the default part, which name the others.
    pub fn contact_addresses(&self) -> Vec<SocketAddr> {
        self.addresses_of(self.directory.part.iter().find(|it| it.default))
    }

    /// etcd's endpoints of a part, or of an undivided directory; none of an embedded store.
    pub fn etcd_of<'a>(&'a self, part: Option<&'a Part>) -> Option<&'a Spanned<Vec<String>>> {
        let etcd = part.map_or(&self.directory.etcd, |it| &it.etcd);
        etcd.as_ref().filter(|it| !it.get_ref().is_empty())
    }

    /// Finds the ToR of each rack and the hosts of each ToR; once, after reading.
    pub fn find_tors(&mut self) {
        let by_name: BTreeMap<&String, usize> = self.switch.iter().enumerate().map(|(at, it)| (it.name.get_ref(), at)).collect();
        let of_rack = |it: &Rack| Some((it.name.get_ref().clone(), *by_name.get(it.tor.get_ref())?));
        let tor: BTreeMap<String, usize> = self.rack.iter().filter_map(of_rack).collect();
        let mut hosts: BTreeMap<String, Vec<usize>> = BTreeMap::new();
        for (at, host) in self.host.iter().enumerate() {
            if let Some(&switch) = host.rack.as_ref().and_then(|rack| tor.get(rack.get_ref())) {
                hosts.entry(self.switch[switch].name.get_ref().clone()).or_default().push(at);
            }
        }
        self.index = Index { tor, hosts };
    }

    /// The ToR of a host's rack.
    pub fn tor(&self, host: &Host) -> Option<&Switch> {
        self.index.tor.get(host.rack.as_ref()?.get_ref()).map(|&at| &self.switch[at])
    }

    /// The hosts of a ToR.
    pub fn hosts_of(&self, switch: &Switch) -> impl Iterator<Item = &Host> {
        self.index.hosts.get(switch.name.get_ref()).into_iter().flatten().map(|&at| &self.host[at])
    }

    /// Switches that run an agent.
    pub fn agents_of_switches(&self) -> impl Iterator<Item = &Switch> {
        self.switch.iter().filter(|it| it.agent)
    }

    /// Locators of the intermediate switches, in the order of the inventory.
    pub fn intermediates(&self) -> Vec<Ipv4Addr> {
        self.agents_of_switches().filter(|it| it.role == SwitchRole::Intermediate).map(|it| *it.la.get_ref()).collect()
    }

    /// The number of a service.
    pub fn service_id(&self, name: &str) -> Option<u32> {
        self.service.iter().find(|it| it.name.get_ref() == name).map(|it| *it.id.get_ref())
    }

    /// The group of a host's mappings; 0 without groups.
    pub fn group(&self, host: &Host) -> u16 {
        let groups = u32::try_from(self.anycast().len()).unwrap_or(u32::MAX);
        let chosen = host.group.as_ref().map(|it| *it.get_ref());
        let spread = || host.principal.get_ref().checked_rem(groups).map_or(0, |it| it + 1) as u16;
        chosen.unwrap_or_else(spread)
    }
}

fn ecmp_width() -> NonZeroUsize {
    NonZeroUsize::new(16).unwrap_or(NonZeroUsize::MIN)
}

fn port() -> Spanned<u16> {
    Spanned::new(0..0, 5303)
}

/// As `weft directory init` numbers it.
fn admin() -> Spanned<u32> {
    Spanned::new(0..0, 2)
}

fn server_metrics() -> Spanned<String> {
    Spanned::new(0..0, "127.0.0.1:9303".to_owned())
}

const fn yes() -> bool {
    true
}
