//! The configuration of a server. `docs/running-on-hosts.md` has every key.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use ipnet::Ipv4Net;
use serde::Deserialize;
use toml::Spanned;
use weft_control::directory::PrincipalId;
use weft_control::directory::auth::PrincipalKey;
use weft_control::netlord::agent::AgentConfig;
use weft_control::netlord::nl_arp::NlArpConfig;
use weft_control::netlord::paths::Reached;
use weft_control::netlord::spain::SpainConfig;
use weft_control::netlord::vlans::Vlans;
use weft_control::netlord::{EdgePort, Location, UplinkId, is_unicast};
use weft_control::time::Duration;
use weft_control::wire::netlord::dhcp::is_host;
use weft_control::wire::packet::ethernet::VlanId;
use weft_directory::client::{Auth, Settings, TlsFiles, client_config};
use weft_fabric::MacAddr;

use super::paths::read_tables;
use super::tenants::first_tenants;
use crate::config::{
    At as _, OnExit, Place, Role, UpdateAuth, address_or_off, check_ports, default_metrics, default_socket, from_text,
    optional_from_text, read_key, time_or_unlimited, unlimited,
};
use crate::dataplane::{Rate, find_interface};
use crate::error::Result;
use crate::netlord::dataplane::HostSettings;
use crate::netlord::special::SpecialVlans;

/// The configuration of a server's agent.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)] // The page has each of them.
pub struct HostConfig {
    #[serde(rename = "overlay")]
    _overlay: String,
    #[serde(rename = "role")]
    _role: Role,
    pub tenants: Spanned<PathBuf>,
    special_vlan: Spanned<SpecialVlans>,
    #[serde(default = "default_socket")]
    pub socket: PathBuf,
    #[serde(default = "default_metrics", deserialize_with = "address_or_off")]
    pub metrics: Option<SocketAddr>,
    pub pins: Option<PathBuf>,
    #[serde(default)]
    pub on_exit: OnExit,
    pub uplink: Spanned<Vec<UplinkPart>>,
    #[serde(default)]
    pub vif: Vec<VifPart>,
    #[serde(default)]
    pub path: Vec<Spanned<PathPart>>,
    /// A file with those of all edge switches.
    pub paths: Option<Spanned<PathBuf>>,
    pub provider: Option<ProviderPart>,
    locations: Option<Spanned<LocationSource>>,
    pub directory: Option<DirectoryPart>,
    repository: Option<Spanned<RepositoryPart>>,
    #[serde(default)]
    spain: SpainPart,
    #[serde(default)]
    limits: Limits,
}

/// `[provider]`: this server's own address in tenant 1.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub struct ProviderPart {
    #[serde(default = "provider_device")]
    pub device: Spanned<String>,
    #[serde(default, deserialize_with = "from_text")]
    pub address: ProviderAddress,
}

/// Who says where tenants' VIFs are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum LocationSource {
    /// Agents announce them to each other: push.
    NlArp,
    /// The directory, when asked: pull.
    Directory,
}

/// `[directory]`: whom the agent asks.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub struct DirectoryPart {
    pub servers: Spanned<Vec<SocketAddr>>,
    #[serde(default = "unlimited", deserialize_with = "time_or_unlimited")]
    pub fail_static: Duration,
    principal: Spanned<u32>,
    key: Spanned<PathBuf>,
}

/// `[repository]`: the tenants' file is kept as the directory's store has it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RepositoryPart {
    #[serde(default = "repository_period", deserialize_with = "from_text")]
    period: Duration,
    auth: Option<Spanned<UpdateAuth>>,
    cert: Option<PathBuf>,
    cert_key: Option<PathBuf>,
    ca: Option<PathBuf>,
}

const fn repository_period() -> Duration {
    Duration::from_secs(5)
}

impl RepositoryPart {
    fn auth(&self) -> UpdateAuth {
        self.auth.as_ref().map_or(UpdateAuth::Tls, |it| *it.get_ref())
    }

    fn certificates(&self) -> Option<TlsFiles> {
        Some(TlsFiles { certificate: self.cert.clone()?, key: self.cert_key.clone()?, authority: self.ca.clone()? })
    }
}

/// Where that address comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ProviderAddress {
    /// A DHCP server on the fabric leases it.
    #[default]
    Dhcp,
    /// It is written.
    Static(Ipv4Net),
}

impl FromStr for ProviderAddress {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        if text == "dhcp" {
            return Ok(Self::Dhcp);
        }
        let wrong =
            || format!("`{text}` is not an IPv4 address of a host with its prefix, and not `dhcp`: write \"10.1.0.7/16\"");
        let net: Ipv4Net = text.parse().map_err(|_| wrong())?;
        let inside = net.prefix_len() >= 31 || ![net.network(), net.broadcast()].contains(&net.addr());
        if net.prefix_len() > 0 && inside && is_host(net.addr()) { Ok(Self::Static(net)) } else { Err(wrong()) }
    }
}

/// `[[uplink]]`: an interface to the fabric.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub struct UplinkPart {
    pub device: Spanned<String>,
    #[serde(default, deserialize_with = "optional_from_text")]
    switch: Option<MacAddr>,
    port: Option<Spanned<u16>>,
}

/// `[[vif]]`: a VM's interface.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub struct VifPart {
    pub device: Spanned<String>,
    pub tenant: String,
    pub name: String,
}

/// `[[path]]`: the VLANs from an interface to an edge switch.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub struct PathPart {
    /// Its device; not needed where there is one.
    uplink: Option<Spanned<String>>,
    #[serde(deserialize_with = "from_text")]
    pub switch: MacAddr,
    #[serde(deserialize_with = "from_text")]
    vlans: Vlans,
}

/// `[spain]`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct SpainPart {
    #[serde(deserialize_with = "from_text")]
    period: Duration,
    misses: u32,
    #[serde(deserialize_with = "from_text")]
    answer: Duration,
    #[serde(deserialize_with = "from_text")]
    in_use: Duration,
}

impl Default for SpainPart {
    fn default() -> Self {
        let SpainConfig { period, misses, answer, in_use } = SpainConfig::default();
        Self { period, misses, answer, in_use }
    }
}

/// `[limits]`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Limits {
    broadcast_rate: u32,
    broadcast_burst: u32,
    search_rate: u32,
    search_burst: u32,
    icmp_rate: u32,
    icmp_burst: u32,
    agent_rate: u32,
    agent_burst: u32,
    nl_arp_entries: usize,
}

impl Default for Limits {
    fn default() -> Self {
        let Rate { per_second: agent_rate, burst: agent_burst } = HostSettings::default().agent;
        Self {
            broadcast_rate: 1000,
            broadcast_burst: 100,
            search_rate: 100,
            search_burst: 100,
            icmp_rate: 100,
            icmp_burst: 50,
            agent_rate,
            agent_burst,
            nl_arp_entries: NlArpConfig::default().capacity,
        }
    }
}

impl HostConfig {
    /// Reads a configuration whose role is `host`, and checks what its keys say together.
    ///
    /// # Errors
    /// [`Error`](crate::error::Error) with file, line and remedy.
    pub fn read(place: &Place<'_>) -> Result<Self> {
        let config: Self = place.parse()?;
        config.check(place)?;
        Ok(config)
    }

    fn check(&self, place: &Place<'_>) -> Result<()> {
        if self.special_vlan.get_ref().read().is_none() {
            let help = "write the one that reaches all agents, or a list of several that are different";
            return Err(place.error(self.special_vlan.span(), "VLANs are 1 to 4094", help));
        }
        let uplinks = self.uplink.get_ref();
        if uplinks.is_empty() {
            return Err(place.error(self.uplink.span(), "no interface to the fabric", "add `[[uplink]]` with `device`"));
        }
        if uplinks.len() > UPLINKS_MOST {
            let message = format!("more than {UPLINKS_MOST} interfaces to the fabric");
            return Err(place.error(self.uplink.span(), &message, "remove some `[[uplink]]`"));
        }
        for (at, uplink) in uplinks.iter().enumerate() {
            let device = &uplink.device;
            if uplinks[..at].iter().any(|before| before.device.get_ref() == device.get_ref()) {
                return Err(place.error(device.span(), "the interface is there twice", "remove one"));
            }
            uplink.check(place)?;
        }
        let mut devices = BTreeSet::new();
        for vif in &self.vif {
            let device = &vif.device;
            if uplinks.iter().any(|uplink| uplink.device.get_ref() == device.get_ref()) {
                let help = "write the interface that leads to the VM";
                return Err(place.error(device.span(), "a VM's interface cannot lead to the fabric", help));
            }
            if !devices.insert(device.get_ref()) {
                return Err(place.error(device.span(), "the interface is there twice", "each VM has one of its own"));
            }
        }
        self.check_paths(place)?;
        self.check_provider(place)?;
        self.check_directory(place)?;
        if self.limits.nl_arp_entries == 0 || self.limits.nl_arp_entries > NL_ARP_ENTRIES {
            let message = format!("`nl_arp_entries` is 1 to {NL_ARP_ENTRIES}");
            return Err(place.error(0..0, &message, "write as many as there are VMs, with some to spare"));
        }
        if self.limits.agent_burst < AGENT_BURST_LEAST || self.limits.agent_rate == 0 {
            let message = format!("`agent_rate` is 1 or more, and `agent_burst` {AGENT_BURST_LEAST} or more");
            let help = "a packet of many segments counts as that many frames; leave both out for the usual values";
            return Err(place.error(0..0, &message, help));
        }
        if let Err(error) = self.spain().check() {
            return Err(place.error(0..0, &format!("[spain]: {error}"), "docs/spain.md has what each means"));
        }
        Ok(())
    }

    /// Looks whether this machine has what it names.
    ///
    /// # Errors
    /// [`Error`](crate::error::Error) with file, line and remedy.
    pub fn check_here(&self, place: &Place<'_>) -> Result<()> {
        place.at(self.tenants.span(), first_tenants(self.tenants.get_ref(), self.has_repository()))?;
        if let Some(paths) = self.paths.as_ref().filter(|it| it.get_ref().exists() || !self.has_repository()) {
            place.at(paths.span(), read_tables(paths.get_ref()))?;
        }
        let mut devices = self.uplink.get_ref().iter().map(|uplink| &uplink.device);
        devices.try_for_each(|device| place.at(device.span(), find_interface(device.get_ref())))?;
        if let Some(directory) = &self.directory {
            place.at(directory.key.span(), directory.principal_key())?;
        }
        match &self.repository {
            Some(repository) => place.at(repository.span(), self.repository()).map(|_| ()),
            None => Ok(()),
        }
    }

    fn check_paths(&self, place: &Place<'_>) -> Result<()> {
        let devices: Vec<&str> = self.uplink.get_ref().iter().map(|it| it.device.get_ref().as_str()).collect();
        let mut seen = BTreeSet::new();
        if let (Some(paths), false) = (&self.paths, self.path.is_empty()) {
            let help = "write `paths` or `[[path]]`: the file has those of all edge switches";
            return Err(place.error(paths.span(), "paths are said twice", help));
        }
        for path in &self.path {
            let PathPart { uplink, switch, .. } = path.get_ref();
            match uplink {
                Some(uplink) if !devices.contains(&uplink.get_ref().as_str()) => {
                    let help = format!("write one of them: {}", devices.join(", "));
                    return Err(place.error(uplink.span(), "no `[[uplink]]` has this device", &help));
                }
                None if devices.len() > 1 => {
                    let message = format!("from which interface do these VLANs lead to {switch}?");
                    let help = format!("write `uplink`, one of {}: each leads to an edge switch of its own", devices.join(", "));
                    return Err(place.error(path.span(), &message, &help));
                }
                _ => {}
            }
            if !seen.insert((self.uplink_of(path.get_ref()), *switch)) {
                let by = if devices.len() > 1 { " from one interface" } else { "" };
                return Err(place.error(
                    path.span(),
                    &format!("two `[[path]]`{by} to {switch}"),
                    "write all VLANs to a switch in one",
                ));
            }
        }
        Ok(())
    }

    /// The interface from which a path leads.
    pub fn uplink_of(&self, path: &PathPart) -> UplinkId {
        let device = path.uplink.as_ref().map(Spanned::get_ref);
        let at = device.and_then(|device| self.uplink.get_ref().iter().position(|it| it.device.get_ref() == device));
        UplinkId(at.unwrap_or(0) as u8)
    }

    fn check_provider(&self, place: &Place<'_>) -> Result<()> {
        let Some(ProviderPart { device, .. }) = &self.provider else { return Ok(()) };
        let name = device.get_ref().as_str();
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        if name.is_empty() || name.len() > PROVIDER_DEVICE_MAX || !name.chars().all(is_plain) || name.starts_with(['-', '.']) {
            let message = format!("`{name}` is no name for it");
            let help = format!(
                "write {PROVIDER_DEVICE_MAX} letters and digits at most, as \"weft1\": the other end is called so with `-vif`"
            );
            return Err(place.error(device.span(), &message, &help));
        }
        let others = self.uplink.get_ref().iter().map(|it| &it.device).chain(self.vif.iter().map(|it| &it.device));
        if others.map(Spanned::get_ref).any(|other| *other == name || *other == format!("{name}-vif")) {
            let help = "the agent makes it: write a name of its own";
            return Err(place.error(device.span(), "the interface is another's", help));
        }
        Ok(())
    }

    fn check_directory(&self, place: &Place<'_>) -> Result<()> {
        let wanted = self.locations.as_ref().filter(|it| *it.get_ref() == LocationSource::Directory);
        let directory = match (wanted, &self.directory) {
            (None, None) if self.repository.is_none() => return Ok(()),
            (None, None) => {
                let help = "add `[directory]` with `servers`, `principal` and `key`";
                let at = self.repository.as_ref().map_or(0..0, Spanned::span);
                return Err(place.error(at, "`[repository]` without a directory to ask", help));
            }
            (Some(_), Some(directory)) => directory,
            (None, Some(directory)) if self.repository.is_some() => directory,
            (Some(wanted), None) => {
                let help = "add `[directory]` with `servers`, `principal` and `key`";
                return Err(place.error(wanted.span(), "no directory to ask", help));
            }
            (None, Some(directory)) => {
                let help = "write locations = \"directory\" above the tables, or `[repository]`; or leave `[directory]` out";
                return Err(place.error(directory.servers.span(), "nobody would ask it", help));
            }
        };
        if let (Some(wanted), true) = (wanted, self.uplink.get_ref().len() > 1) {
            let help = "write locations = \"nl-arp\", by which agents say so themselves, or leave one `[[uplink]]`";
            let message = "the directory has one place for a VIF, which here may be at several interfaces and move between them";
            return Err(place.error(wanted.span(), message, help));
        }
        if directory.servers.get_ref().is_empty() {
            return Err(place.error(directory.servers.span(), "no directory server", "name at least one, address:port"));
        }
        check_ports(&directory.servers, place)?;
        if *directory.principal.get_ref() == 0 {
            let help = "give the server's number, as in the directory: the owner of its VIFs' bindings";
            return Err(place.error(directory.principal.span(), "principals begin at 1", help));
        }
        self.check_repository(place)
    }

    fn check_repository(&self, place: &Place<'_>) -> Result<()> {
        let Some(it) = &self.repository else { return Ok(()) };
        let repository = it.get_ref();
        let at = repository.auth.as_ref().map_or_else(|| it.span(), Spanned::span);
        if repository.period < REPOSITORY_PERIOD_LEAST {
            let message = format!("`period` is less than {REPOSITORY_PERIOD_LEAST}");
            return Err(place.error(it.span(), &message, "all agents ask that often"));
        }
        let given = [&repository.cert, &repository.cert_key, &repository.ca];
        let (is_tls, files) = (repository.auth() == UpdateAuth::Tls, given.iter().filter(|it| it.is_some()).count());
        if is_tls && files < given.len() {
            let help = "write `cert`, `cert_key` and `ca`, or auth = \"mac\" where the servers have it";
            return Err(place.error(at, "`[repository]` over TLS needs certificates", help));
        }
        if !is_tls && files > 0 {
            let help = "leave the files out, or write auth = \"tls\"";
            return Err(place.error(at, "keyed MACs need no certificates", help));
        }
        Ok(())
    }

    /// The VLANs of `[[path]]`, from each interface to each edge switch.
    pub fn known_paths(&self) -> BTreeMap<Reached, Vec<VlanId>> {
        let of = |path: &PathPart| ((self.uplink_of(path), path.switch), path.vlans());
        self.path.iter().map(|path| of(path.get_ref())).collect()
    }

    /// Whether the tenants' file comes from the directory's store.
    pub const fn has_repository(&self) -> bool {
        self.repository.is_some()
    }

    /// The directory that says where tenants' VIFs are; none if agents announce them.
    pub fn pull(&self) -> Option<&DirectoryPart> {
        let is_pull = self.locations.as_ref().is_some_and(|it| *it.get_ref() == LocationSource::Directory);
        self.directory.as_ref().filter(|_| is_pull)
    }

    /// Whom the repository's thread asks, and how often.
    ///
    /// # Errors
    /// [`Error`](crate::error::Error) if keys or certificates cannot be read.
    pub fn repository(&self) -> Result<Option<(Settings, std::time::Duration)>> {
        let (Some(repository), Some(directory)) = (&self.repository, &self.directory) else { return Ok(None) };
        let repository = repository.get_ref();
        let auth = match repository.certificates().filter(|_| repository.auth() == UpdateAuth::Tls) {
            Some(files) => Auth::Tls(client_config(&files)?),
            None => Auth::Mac,
        };
        let settings = Settings {
            servers: directory.servers.get_ref().iter().map(ToString::to_string).collect(),
            principal: directory.principal(),
            key: Some(directory.principal_key()?),
            auth,
            timeout: REPOSITORY_TIMEOUT,
            only: false,
        };
        Ok(Some((settings, repository.period.to_std())))
    }

    /// Where programs and maps are pinned.
    pub fn pins(&self) -> PathBuf {
        self.pins.clone().unwrap_or_else(|| Path::new("/sys/fs/bpf/weft").join("netlord"))
    }

    /// SPAIN's settings.
    pub const fn spain(&self) -> SpainConfig {
        let SpainPart { period, misses, answer, in_use } = self.spain;
        SpainConfig { period, misses, answer, in_use }
    }

    /// The VLANs that reach all agents, the first first.
    fn special_vlans(&self) -> Vec<VlanId> {
        self.special_vlan.get_ref().read().expect("it was checked")
    }

    /// That which servers of the fabric without a tag are in: DHCP's.
    pub fn special_vlan(&self) -> VlanId {
        self.special_vlans()[0]
    }

    /// The machine's settings.
    pub fn agent(&self) -> AgentConfig {
        let vlans = self.special_vlans();
        AgentConfig {
            storm: (self.limits.broadcast_rate, self.limits.broadcast_burst),
            searches: (self.limits.search_rate, self.limits.search_burst),
            icmp_errors: (self.limits.icmp_rate, self.limits.icmp_burst),
            ..AgentConfig::new(vlans)
        }
    }

    /// The programs' settings.
    pub fn plane(&self) -> HostSettings {
        let agent = Rate { per_second: self.limits.agent_rate, burst: self.limits.agent_burst };
        HostSettings { report_interval: self.spain.period.to_std() / 4, agent, ..HostSettings::default() }
    }

    /// NL-ARP's settings.
    pub fn nl_arp(&self) -> NlArpConfig {
        NlArpConfig { capacity: self.limits.nl_arp_entries, ..NlArpConfig::default() }
    }
}

impl DirectoryPart {
    /// Who the agent is.
    pub fn principal(&self) -> PrincipalId {
        PrincipalId(*self.principal.get_ref())
    }

    /// The principal's key, from a file that nobody else can read.
    ///
    /// # Errors
    /// [`Error`](crate::error::Error).
    pub fn principal_key(&self) -> Result<PrincipalKey> {
        read_key(self.key.get_ref())
    }
}

impl UplinkPart {
    fn check(&self, place: &Place<'_>) -> Result<()> {
        if self.switch.is_some() != self.port.is_some() {
            let help = "write both, or neither: then the edge switch's LLDP says where the server is";
            return Err(place.error(self.device.span(), "`switch` and `port` belong together", help));
        }
        if let Some(port) = self.port.as_ref().filter(|port| EdgePort::new(*port.get_ref()).is_none()) {
            return Err(place.error(port.span(), "ports of edge switches are 1 to 126", "use another port for the server"));
        }
        if self.switch.is_some_and(|mac| !is_unicast(mac)) {
            return Err(place.error(self.device.span(), "`switch` is a group's address", "write the edge switch's own"));
        }
        Ok(())
    }

    /// Where the server is, if the configuration says so.
    pub fn place(&self) -> Option<Location> {
        Some(Location { switch: self.switch?, port: EdgePort::new(*self.port.as_ref()?.get_ref())? })
    }
}

impl PathPart {
    /// The VLANs, ascending.
    pub fn vlans(&self) -> Vec<VlanId> {
        self.vlans.0.iter().copied().collect()
    }
}

fn provider_device() -> Spanned<String> {
    Spanned::new(0..0, "weft1".to_owned())
}

/// Of the table that the programs have of them.
const UPLINKS_MOST: usize = 64;
/// A packet of 64 KiB takes as much of the ring buffer as 32 frames.
const AGENT_BURST_LEAST: u32 = 32;
/// All agents ask the servers that often.
const REPOSITORY_PERIOD_LEAST: Duration = Duration::from_ms(100);
/// For one try at all servers.
const REPOSITORY_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(5);
/// Of 15 letters, the other end's `-vif` takes four.
const PROVIDER_DEVICE_MAX: usize = 11;
/// 6.4 GB of table.
const NL_ARP_ENTRIES: usize = 100_000_000;
