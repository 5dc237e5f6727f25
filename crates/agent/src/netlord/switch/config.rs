//! The configuration of a switch. `docs/running-on-hosts.md` has every key.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use toml::Spanned;
use weft_control::netlord::vlans::Vlans;
use weft_control::netlord::{EdgePort, is_unicast};
use weft_control::time::Duration;
use weft_control::wire::packet::ethernet::VlanId;
use weft_fabric::{BitsPerSec, Bytes, MacAddr, TenantId};

use crate::config::{
    At as _, OnExit, Place, Role, address_or_off, default_metrics, default_socket, from_text, optional_from_text,
};
use crate::dataplane::{Rate, find_interface};
use crate::error::Result;
use crate::netlord::dataplane::{Limit, Port, SwitchSettings};
use crate::netlord::special::SpecialVlans;

/// The configuration of a switch's daemon.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)] // The page has each of them.
pub struct SwitchConfig {
    #[serde(rename = "overlay")]
    _overlay: String,
    pub role: Spanned<Role>,
    #[serde(default, deserialize_with = "optional_from_text")]
    pub mac: Option<MacAddr>,
    special_vlan: Option<Spanned<SpecialVlans>>,
    #[serde(default = "default_socket")]
    pub socket: PathBuf,
    #[serde(default = "default_metrics", deserialize_with = "address_or_off")]
    pub metrics: Option<SocketAddr>,
    pub pins: Option<PathBuf>,
    #[serde(default)]
    pub on_exit: OnExit,
    #[serde(default = "fib_entries")]
    pub fib_entries: Spanned<u32>,
    #[serde(default = "ageing", deserialize_with = "from_text")]
    pub ageing: Duration,
    #[serde(default)]
    pub learn_per_second: u32,
    #[serde(default = "lldp", deserialize_with = "from_text")]
    pub lldp: Duration,
    port: Spanned<Vec<PortPart>>,
    #[serde(default)]
    pub limit: Vec<LimitPart>,
}

/// `[[port]]`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PortPart {
    device: Spanned<String>,
    #[serde(default, deserialize_with = "from_text")]
    vlans: Vlans,
    native: Option<Spanned<u16>>,
    number: Option<Spanned<u16>>,
    #[serde(default, deserialize_with = "optional_from_text")]
    server: Option<MacAddr>,
}

/// `[[limit]]`: what a tenant may send over the last hop here.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub struct LimitPart {
    pub tenant: Spanned<u32>,
    #[serde(default)]
    deny: bool,
    rate: Option<String>,
    burst: Option<String>,
}

impl SwitchConfig {
    /// Reads a configuration whose role is `edge` or `core`, and checks what its keys say together.
    ///
    /// # Errors
    /// [`Error`](crate::error::Error) with file, line and remedy.
    pub fn read(place: &Place<'_>) -> Result<Self> {
        let config: Self = place.parse()?;
        config.check(place)?;
        config.limits(place)?;
        Ok(config)
    }

    fn check(&self, place: &Place<'_>) -> Result<()> {
        let is_edge = *self.role.get_ref() == Role::Edge;
        if is_edge && !self.mac.is_some_and(is_unicast) {
            let help = "write `mac`, the address that its servers' agents send to; no other switch has it";
            return Err(place.error(self.role.span(), "an edge switch has a MAC address", help));
        }
        if !is_edge && self.mac.is_some() {
            return Err(place.error(self.role.span(), "a core switch is sent nothing to", "leave `mac` out"));
        }
        if !(1..=65_536).contains(self.fib_entries.get_ref()) {
            let help = "write as many as the switch holds, 1 to 65536";
            return Err(place.error(self.fib_entries.span(), "a table of no size that this switch can have", help));
        }
        if self.lldp < LLDP_LEAST {
            return Err(place.error(self.role.span(), "`lldp` is less than 100 ms", "write such as \"1s\""));
        }
        let ports = self.port.get_ref();
        if ports.is_empty() {
            return Err(place.error(self.port.span(), "a switch without ports", "add `[[port]]` with `device` and `vlans`"));
        }
        self.check_special(place, is_edge)?;
        let mut numbers = BTreeSet::new();
        for (at, port) in ports.iter().enumerate() {
            if ports[..at].iter().any(|before| before.device.get_ref() == port.device.get_ref()) {
                return Err(place.error(port.device.span(), "the port is there twice", "remove one"));
            }
            if let Some(native) = port.native.as_ref().filter(|it| VlanId::new(*it.get_ref()).is_none()) {
                return Err(place.error(
                    native.span(),
                    "VLANs are 1 to 4094",
                    "leave `native` out for a port of tagged frames alone",
                ));
            }
            let Some(number) = &port.number else { continue };
            if !is_edge {
                return Err(place.error(number.span(), "servers hang on edge switches", "write role = \"edge\""));
            }
            if EdgePort::new(*number.get_ref()).is_none() {
                let help = "a server's port is encoded in an address: 127.0.0.0/8 and beyond are not to be had";
                return Err(place.error(number.span(), "ports to servers are 1 to 126", help));
            }
            if !numbers.insert(*number.get_ref()) {
                return Err(place.error(number.span(), "two ports have this number", "give each server's port its own"));
            }
        }
        Ok(())
    }

    fn check_special(&self, place: &Place<'_>, is_edge: bool) -> Result<()> {
        let Some(special) = &self.special_vlan else { return Ok(()) };
        let wrong = |message: &str, help: &str| Err(place.error(special.span(), message, help));
        if !is_edge {
            return wrong("core switches have no limits to share", "leave `special_vlan` out");
        }
        let Some(vlans) = special.get_ref().read() else {
            return wrong("VLANs are 1 to 4094", "write those of the agents' `special_vlan`");
        };
        let ports = self.ports();
        if let Some(none) = vlans.iter().find(|&&vlan| !ports.iter().any(|port| port.number.is_none() && port.is_in(vlan))) {
            let message = format!("no port to the fabric is in VLAN {}", none.get());
            return wrong(&message, "write those of the agents' `special_vlan`, which reach all edge switches");
        }
        Ok(())
    }

    /// The VLANs over which edge switches report to each other; none if this one limits alone.
    pub fn special_vlans(&self) -> Vec<VlanId> {
        self.special_vlan.as_ref().and_then(|it| it.get_ref().read()).unwrap_or_default()
    }

    /// Looks whether this machine has what it names.
    ///
    /// # Errors
    /// [`Error`](crate::error::Error) with file, line and remedy.
    pub fn check_here(&self, place: &Place<'_>) -> Result<()> {
        let mut devices = self.port.get_ref().iter().map(|port| &port.device);
        devices.try_for_each(|device| place.at(device.span(), find_interface(device.get_ref())))
    }

    /// Where programs and maps are pinned.
    pub fn pins(&self) -> PathBuf {
        self.pins.clone().unwrap_or_else(|| Path::new("/sys/fs/bpf/weft").join("netlord-switch"))
    }

    /// What the data plane is to know.
    pub fn settings(&self) -> SwitchSettings {
        let learn = Rate { per_second: self.learn_per_second, burst: self.learn_per_second.div_ceil(10) };
        SwitchSettings {
            mac: self.mac,
            fib_entries: *self.fib_entries.get_ref(),
            ageing: self.ageing.to_std(),
            learn: (learn.per_second > 0).then_some(learn),
        }
    }

    /// The ports.
    pub fn ports(&self) -> Vec<Port> {
        let of = |it: &PortPart| Port {
            device: it.device.get_ref().clone(),
            number: it.number.as_ref().and_then(|n| EdgePort::new(*n.get_ref())),
            vlans: it.vlans.0.clone(),
            native: it.native.as_ref().and_then(|n| VlanId::new(*n.get_ref())),
            server: it.server,
        };
        self.port.get_ref().iter().map(of).collect()
    }

    /// What tenants may send.
    ///
    /// # Errors
    /// [`Error`](crate::error::Error) with file, line and remedy.
    pub fn limits(&self, place: &Place<'_>) -> Result<Vec<(TenantId, Limit)>> {
        let mut seen = BTreeSet::new();
        if let Some(twice) = self.limit.iter().find(|part| !seen.insert(*part.tenant.get_ref())) {
            return Err(place.error(twice.tenant.span(), "the tenant has two limits", "remove one"));
        }
        self.limit.iter().map(|part| part.read(place)).collect()
    }
}

impl LimitPart {
    fn read(&self, place: &Place<'_>) -> Result<(TenantId, Limit)> {
        let wrong = |message: &str, help: &str| place.error(self.tenant.span(), message, help);
        let tenant = *self.tenant.get_ref();
        if tenant == 0 || tenant > 0xff_ffff {
            return Err(wrong("tenants have 24 bits: 1 to 16777215", "write the tenant's id"));
        }
        let none = "write deny = true for a tenant that may send nothing";
        let limit = match (self.deny, &self.rate) {
            (true, None) => Limit::Deny,
            (false, Some(rate)) => {
                let rate: BitsPerSec = rate.parse().map_err(|e| wrong(&format!("`rate`: {e}"), "write such as \"100Mbps\""))?;
                if rate.0 < 8 {
                    return Err(wrong("`rate`: less than a byte a second", none));
                }
                let bytes_per_second = (rate.0 / 8).max(1);
                let burst_bytes = match &self.burst {
                    Some(burst) => {
                        let burst: Bytes =
                            burst.parse().map_err(|e| wrong(&format!("`burst`: {e}"), "write such as \"100kB\""))?;
                        burst.0.max(2048)
                    }
                    None => (bytes_per_second / BURST_PART).max(BURST_LEAST),
                };
                Limit::Rate { bytes_per_second, burst_bytes }
            }
            _ => return Err(wrong("a limit denies, or has a rate", "write `deny = true`, or `rate = \"100Mbps\"`")),
        };
        Ok((TenantId(tenant), limit))
    }
}

/// By default a burst is what a rate gives in a quarter of a second, at least 100 kB: TCP that has lost a whole window waits for 200 ms, and uses then what it has missed.
const BURST_PART: u64 = 4;
const BURST_LEAST: u64 = 100_000;
const LLDP_LEAST: Duration = Duration::from_ms(100);

fn fib_entries() -> Spanned<u32> {
    Spanned::new(0..0, 16_384)
}

fn ageing() -> Duration {
    Duration::from_secs(300)
}

fn lldp() -> Duration {
    Duration::from_secs(30)
}
