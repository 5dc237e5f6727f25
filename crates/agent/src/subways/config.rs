//! What the configurations of hosts and ToRs have in common: `[access]`.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;

use serde::Deserialize;
use toml::Spanned;
use weft_control::directory::PrincipalId;
use weft_control::subways::agents::AccessAddresses;
use weft_control::wire::subways::NICS_MAX;
use weft_control::wire::vl2::placement::PlacementKey;
use weft_fabric::formats::topology::read;
use weft_fabric::{Bytes, Fabric, NodeId};

use crate::config::{OnExit, Place, address_or_off, default_metrics, default_socket, from_text, read_key};
use crate::dataplane::find_interface;
use crate::error::{Error, Result};

/// The configuration of a host or a ToR.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)] // The page has each of them.
pub struct AccessConfig {
    #[serde(rename = "overlay")]
    _overlay: String,
    #[serde(rename = "role")]
    _role: String,
    pub principal: Option<Spanned<u32>>,
    pub key: Option<Spanned<PathBuf>>,
    #[serde(default = "keep")]
    pub on_exit: OnExit,
    #[serde(default = "default_socket")]
    pub socket: PathBuf,
    #[serde(default = "default_metrics", deserialize_with = "address_or_off")]
    pub metrics: Option<SocketAddr>,
    pub pins: Option<PathBuf>,
    pub access: Spanned<AccessPart>,
}

/// `[access]`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub struct AccessPart {
    pub fabric: Spanned<PathBuf>,
    pub name: Spanned<String>,
    pub addresses: Option<Spanned<PathBuf>>,
    pub scheduler: Option<Spanned<Schedulers>>,
    #[serde(default = "report", deserialize_with = "from_text")]
    pub report: Bytes,
    pub mtu: Option<Spanned<u32>>,
    #[serde(default)]
    pub detours: bool,
    pub ports: Spanned<BTreeMap<Spanned<String>, Devices>>,
}

/// One address, or a list.
#[derive(Debug, Deserialize)]
#[serde(untagged, expecting = "an address with its port, or a list of them")]
pub enum Schedulers {
    /// One.
    One(SocketAddr),
    /// Several.
    Each(Vec<SocketAddr>),
}

/// The device of the cable to a neighbour; of several, in the order of the fabric.
#[derive(Debug, Deserialize)]
#[serde(untagged, expecting = "a device, or a list of them")]
pub enum Devices {
    /// One.
    One(String),
    /// Several.
    Each(Vec<String>),
}

/// A configuration that has been read, and what it names.
#[derive(Debug)]
pub struct Access {
    /// The keys.
    pub keys: AccessConfig,
    /// The fabric and the addresses of its NICs.
    pub addresses: AccessAddresses,
    /// This machine.
    pub node: NodeId,
    /// The devices of its cables, in the fabric's order; `None`: it is not named.
    pub devices: Vec<Option<String>>,
    /// The schedulers; there may be none.
    pub schedulers: Vec<SocketAddr>,
}

impl Access {
    /// Reads a configuration, and the fabric that it names.
    ///
    /// # Errors
    /// [`Error`] with file, line and remedy.
    pub fn read(place: &Place<'_>) -> Result<Self> {
        let keys: AccessConfig = place.parse()?;
        let part = keys.access.get_ref();
        let folder = place.path.parent().unwrap_or(std::path::Path::new(""));
        let fabric = Arc::new(read_fabric(place, folder, &part.fabric)?);
        let given = part.addresses.as_ref().map(|key| read_addresses(place, folder, key)).transpose()?;
        let addresses = AccessAddresses::new(Arc::clone(&fabric), given.as_ref()).map_err(|error| {
            let span = part.addresses.as_ref().map_or(part.fabric.span(), Spanned::span);
            let help = "`addresses` is a file with one line a host: its name, and its addresses in the order of its cables";
            place.error::<Error>(span, &error.to_string(), help)
        })?;
        let Some(node) = fabric.node_by_name(part.name.get_ref()) else {
            let message = format!("the fabric has no `{}`", part.name.get_ref());
            return Err(place.error(part.name.span(), &message, "names are those of the fabric's file"));
        };
        let devices = devices(place, &fabric, node, &part.ports)?;
        let schedulers = match part.scheduler.as_ref().map(Spanned::get_ref) {
            None => Vec::new(),
            Some(Schedulers::One(one)) => vec![*one],
            Some(Schedulers::Each(each)) => each.clone(),
        };
        let access = Self { addresses, node, devices, schedulers, keys };
        access.check(place)?;
        Ok(access)
    }

    fn check(&self, place: &Place<'_>) -> Result<()> {
        let part = self.keys.access.get_ref();
        if let Some(scheduler) = &part.scheduler {
            if self.schedulers.iter().any(|it| it.port() == 0) || self.schedulers.len() > 4 || self.schedulers.is_empty() {
                let help = "write such as \"10.1.1.9:5306\", or a list of up to four";
                return Err(place.error(scheduler.span(), "a scheduler is an address with its port", help));
            }
            let help = "add `principal` and `key`: `weft directory key --principal N` prints the key";
            match (&self.keys.principal, &self.keys.key) {
                (Some(principal), Some(_)) if *principal.get_ref() > 0 => {}
                (Some(principal), Some(_)) => return Err(place.error(principal.span(), "principals begin at 1", help)),
                _ => return Err(place.error(scheduler.span(), "reports to a scheduler are tagged with a key", help)),
            }
        }
        if let Some(mtu) = part.mtu.as_ref().filter(|it| !(576..=65_535).contains(it.get_ref())) {
            return Err(place.error(mtu.span(), "no MTU of IPv4", "write bytes of the largest packet, such as 1500"));
        }
        Ok(())
    }

    /// Whether this machine is a host of the fabric.
    pub fn is_host(&self) -> bool {
        self.addresses.fabric().as_host(self.node).is_some()
    }

    /// Checks that this machine has the devices and the key.
    ///
    /// # Errors
    /// [`Error`] with file and line.
    pub fn check_here(&self, place: &Place<'_>) -> Result<()> {
        use crate::config::At as _;
        let ports = &self.keys.access.get_ref().ports;
        for device in self.devices.iter().flatten() {
            place.at(ports.span(), find_interface(device))?;
        }
        if let (Some(key), true) = (&self.keys.key, !self.schedulers.is_empty()) {
            place.at(key.span(), read_key(key.get_ref()))?;
        }
        Ok(())
    }

    /// Principal and placement key; `None` without a scheduler.
    ///
    /// # Errors
    /// The key cannot be read.
    pub fn identity(&self) -> Result<Option<(PrincipalId, PlacementKey)>> {
        let (Some(principal), Some(key)) = (&self.keys.principal, &self.keys.key) else { return Ok(None) };
        let key = PlacementKey::of(&read_key(key.get_ref())?);
        Ok(Some((PrincipalId(*principal.get_ref()), key)))
    }

    /// Where programs and maps are pinned.
    pub fn pins(&self) -> PathBuf {
        self.keys.pins.clone().unwrap_or_else(|| PathBuf::from("/sys/fs/bpf/weft"))
    }

    /// Its name in the fabric.
    pub fn name(&self) -> &str {
        self.keys.access.get_ref().name.get_ref()
    }
}

fn read_fabric(place: &Place<'_>, folder: &std::path::Path, key: &Spanned<PathBuf>) -> Result<Fabric> {
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

fn read_addresses(
    place: &Place<'_>,
    folder: &std::path::Path,
    key: &Spanned<PathBuf>,
) -> Result<BTreeMap<String, Vec<Ipv4Addr>>> {
    let path = folder.join(key.get_ref());
    let text = std::fs::read_to_string(&path).map_err(|cause| {
        let help = "it has one line a host: h0 = [\"10.0.0.2\", \"10.0.1.2\"]";
        place.error::<Error>(key.span(), &format!("cannot read the addresses {}: {cause}", path.display()), help)
    })?;
    Ok(Place { path: &path, text: &text, page: place.page }.parse()?)
}

/// The device of each cable. A host names all of its cables, a ToR at least those to switches.
fn devices(
    place: &Place<'_>,
    fabric: &Fabric,
    node: NodeId,
    ports: &Spanned<BTreeMap<Spanned<String>, Devices>>,
) -> Result<Vec<Option<String>>> {
    let links = fabric.out(node);
    let mut devices: Vec<Option<String>> = vec![None; links.len()];
    for (peer, given) in ports.get_ref() {
        let given = match given {
            Devices::One(device) => std::slice::from_ref(device),
            Devices::Each(each) => each,
        };
        let to = fabric.node_by_name(peer.get_ref());
        let cables: Vec<usize> = (0..links.len()).filter(|&at| Some(fabric.link(links[at]).to) == to).collect();
        if cables.len() != given.len() {
            let message = format!(
                "the fabric has {} cables from here to `{}`, and {} devices are named",
                cables.len(),
                peer.get_ref(),
                given.len()
            );
            return Err(place.error(peer.span(), &message, "write one device a cable; for several, a list"));
        }
        for (at, device) in cables.into_iter().zip(given) {
            if devices.iter().flatten().any(|other| other == device) {
                return Err(place.error(peer.span(), &format!("`{device}` is there twice"), "write one device a cable"));
            }
            devices[at] = Some(device.clone());
        }
    }
    let is_host = fabric.as_host(node).is_some();
    let is_needed = |at: &usize| is_host || fabric.as_host(fabric.link(links[*at]).to).is_none();
    if let Some(at) = (0..links.len()).filter(is_needed).find(|&at| devices[at].is_none()) {
        let peer = &fabric.node(fabric.link(links[at]).to).name;
        let message = format!("no device for the cable to `{peer}`");
        return Err(place.error(ports.span(), &message, "add it to `[access.ports]`, by the name of the neighbour"));
    }
    debug_assert!(!is_host || links.len() <= NICS_MAX);
    Ok(devices)
}

const fn keep() -> OnExit {
    OnExit::Keep
}

const fn report() -> Bytes {
    Bytes(100_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FABRIC: &str = "weft-fabric 1\nhost a\nhost b\nswitch s tier 1\nswitch t tier 1\nswitch u tier 2\ncable a s 1Gbps 1us\ncable a t 1Gbps 1us\n\
                          cable b s 1Gbps 1us\ncable b t 1Gbps 1us\ncable s u 1Gbps 1us\ncable t u 1Gbps 1us\n";
    const RIGHT: &str = r#"overlay = "none"
role = "host"
principal = 17
key = "host.key"

[access]
fabric = "fabric.weft"
name = "a"
addresses = "addresses.toml"
scheduler = "10.1.1.9:5306"

[access.ports]
s = "eth0"
t = "eth1"
"#;

    fn read(text: &str) -> Result<Access> {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::write(at("fabric.weft"), FABRIC).unwrap();
        std::fs::write(at("addresses.toml"), "a = [\"10.0.0.1\", \"10.0.1.1\"]\nb = [\"10.0.0.2\", \"10.0.1.2\"]\n").unwrap();
        Access::read(&Place { path: &at("agent.toml"), text, page: crate::config::PAGE })
    }

    #[test]
    fn a_configuration_is_read() {
        let access = read(RIGHT).unwrap();
        assert!(access.is_host() && access.keys.on_exit == OnExit::Keep);
        assert_eq!(access.devices, [Some("eth0".to_owned()), Some("eth1".to_owned())]);
        assert_eq!(access.schedulers, ["10.1.1.9:5306".parse().unwrap()]);
        // A ToR names its uplinks at least.
        let tor = RIGHT.replace("name = \"a\"", "name = \"s\"").replace("s = \"eth0\"\nt = \"eth1\"", "u = \"p9\"");
        assert_eq!(read(&tor).unwrap().devices, [None, None, Some("p9".to_owned())]);
        let alone = RIGHT.replace("scheduler = \"10.1.1.9:5306\"\n", "").replace("principal = 17\nkey = \"host.key\"\n", "");
        assert!(read(&alone).unwrap().schedulers.is_empty());
    }

    #[test]
    fn errors_name_the_line() {
        for (from, to, line, what) in [
            ("fabric.weft", "nothing.weft", 7, "cannot read the fabric"),
            ("\"a\"", "\"z\"", 8, "has no `z`"),
            ("addresses.toml", "nothing.toml", 9, "cannot read the addresses"),
            ("addresses.toml", "fabric.weft", 1, "fabric.weft"),
            (":5306", ":0", 10, "an address with its port"),
            ("principal = 17", "principal = 0", 3, "begin at 1"),
            ("principal = 17\n", "", 9, "tagged with a key"),
            ("t = \"eth1\"", "t = [\"eth1\", \"eth2\"]", 14, "has 1 cables"),
            ("t = \"eth1\"", "u = \"eth1\"", 14, "has 0 cables"),
            ("t = \"eth1\"", "t = \"eth0\"", 14, "`eth0` is there twice"),
            ("t = \"eth1\"\n", "", 12, "no device for the cable to `t`"),
            ("name = \"a\"", "name = \"a\"\nmtu = 60", 9, "no MTU"),
            ("name = \"a\"", "nam = \"a\"", 8, "unknown field"),
        ] {
            assert!(RIGHT.contains(from), "{from}");
            let error = read(&RIGHT.replacen(from, to, 1)).unwrap_err().to_string();
            assert!(error.contains(&format!(":{line}:")) && error.contains(what), "{to}: {error}");
        }
    }
}
