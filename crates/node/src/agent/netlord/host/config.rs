//! The configuration of a server. `docs/running-on-hosts.md` has every key.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Deserializer};
use toml::Spanned;
use weft_control::netlord::agent::AgentConfig;
use weft_control::netlord::nl_arp::NlArpConfig;
use weft_control::netlord::spain::SpainConfig;
use weft_control::netlord::{EdgePort, Location, is_unicast};
use weft_control::wire::netlord::VlanId;
use weft_fabric::{Duration, MacAddr};

use super::super::config::Role;
use super::super::vlans::Vlans;
use crate::agent::config::{OnExit, Place};
use crate::agent::exporter::default_address;
use crate::agent::host::{address_or_off, from_text};
use crate::cli::Result;

/// Everything that the agent of a server is told.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)] // The page has each of them.
pub struct HostConfig {
    #[serde(rename = "overlay")]
    _overlay: String,
    #[serde(rename = "role")]
    _role: Role,
    pub tenants: PathBuf,
    special_vlan: Spanned<SpecialVlans>,
    #[serde(default = "socket")]
    pub socket: PathBuf,
    #[serde(default = "default_address", deserialize_with = "address_or_off")]
    pub metrics: Option<SocketAddr>,
    pub pins: Option<PathBuf>,
    #[serde(default)]
    pub on_exit: OnExit,
    pub uplink: Spanned<Vec<UplinkPart>>,
    #[serde(default)]
    pub vif: Vec<VifPart>,
    #[serde(default)]
    pub path: Vec<PathPart>,
    #[serde(default)]
    spain: SpainPart,
    #[serde(default)]
    limits: Limits,
}

/// The VLANs that reach all agents: one, or a list.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum SpecialVlans {
    One(u16),
    Several(Vec<u16>),
}

impl SpecialVlans {
    /// `None` if they are none, not different, or no VLANs.
    fn read(&self) -> Option<Vec<VlanId>> {
        let numbers = match self {
            Self::One(one) => std::slice::from_ref(one),
            Self::Several(all) => all,
        };
        let vlans: BTreeSet<VlanId> = numbers.iter().copied().map(VlanId::new).collect::<Option<_>>()?;
        (!vlans.is_empty() && vlans.len() == numbers.len()).then(|| vlans.into_iter().rev().collect())
    }
}

/// `[[uplink]]`: an interface to the fabric.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub struct UplinkPart {
    pub device: Spanned<String>,
    #[serde(default, deserialize_with = "maybe_from_text")]
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

/// `[[path]]`: the VLANs to an edge switch.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub struct PathPart {
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
    nl_arp_entries: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            broadcast_rate: 1000,
            broadcast_burst: 100,
            search_rate: 100,
            search_burst: 100,
            nl_arp_entries: NlArpConfig::default().capacity,
        }
    }
}

impl HostConfig {
    /// Reads a configuration whose role is `host`, and checks what its keys say together.
    ///
    /// # Errors
    /// [`Error`](crate::cli::Error) with file, line and remedy.
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
        for (at, uplink) in uplinks.iter().enumerate() {
            let device = &uplink.device;
            if uplinks[..at].iter().any(|before| before.device.get_ref() == device.get_ref()) {
                return Err(place.error(device.span(), "the interface is there twice", "remove one"));
            }
            uplink.check(place)?;
        }
        for (at, vif) in self.vif.iter().enumerate() {
            let device = &vif.device;
            if uplinks.iter().any(|uplink| uplink.device.get_ref() == device.get_ref()) {
                let help = "write the interface that leads to the VM";
                return Err(place.error(device.span(), "a VM's interface cannot lead to the fabric", help));
            }
            if self.vif[..at].iter().any(|before| before.device.get_ref() == device.get_ref()) {
                return Err(place.error(device.span(), "the interface is there twice", "each VM has one of its own"));
            }
        }
        if self.limits.nl_arp_entries == 0 || self.limits.nl_arp_entries > NL_ARP_ENTRIES {
            let message = format!("`nl_arp_entries` is 1 to {NL_ARP_ENTRIES}");
            return Err(place.error(0..0, &message, "write as many as there are VMs, with some to spare"));
        }
        if let Err(error) = self.spain().check() {
            return Err(place.error(0..0, &format!("[spain]: {error}"), "docs/spain.md has what each means"));
        }
        Ok(())
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

    /// The machine's settings.
    pub fn agent(&self) -> AgentConfig {
        let vlans = self.special_vlan.get_ref().read().expect("it was checked");
        AgentConfig {
            storm: (self.limits.broadcast_rate, self.limits.broadcast_burst),
            searches: (self.limits.search_rate, self.limits.search_burst),
            ..AgentConfig::new(vlans)
        }
    }

    /// NL-ARP's settings.
    pub fn nl_arp(&self) -> NlArpConfig {
        NlArpConfig { capacity: self.limits.nl_arp_entries, ..NlArpConfig::default() }
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

/// 6.4 GB of table.
const NL_ARP_ENTRIES: usize = 100_000_000;

pub(in crate::agent::netlord) fn socket() -> PathBuf {
    PathBuf::from("/run/weft/agent.sock")
}

pub(in crate::agent::netlord) fn maybe_from_text<'de, D: Deserializer<'de>>(
    from: D,
) -> std::result::Result<Option<MacAddr>, D::Error> {
    from_text(from).map(Some)
}
