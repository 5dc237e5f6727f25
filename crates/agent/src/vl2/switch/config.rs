//! The configuration of a switch. `docs/running-on-hosts.md` has every key.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use ipnet::{IpNet, Ipv4Net};
use serde::Deserialize;
use toml::Spanned;
use weft_control::directory::PrincipalId;
use weft_control::directory::auth::PrincipalKey;
use weft_control::prefix::Prefix;
use weft_control::time::Duration;
use weft_control::vl2::groups::Groups;
use weft_control::wire::vl2::attach::AttachKey;

use crate::config::{
    At as _, ConfigFile, OnExit, Overlay, Place, Role, address_or_off, check_ports, default_metrics, from_text, read_key,
};
use crate::dataplane::find_interface;
use crate::error::{Error, Result};

/// The configuration of a switch's agent.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)] // The page has each of them.
pub struct SwitchConfig {
    #[serde(rename = "role")]
    _role: Role,
    pub principal: Spanned<u32>,
    key: Spanned<PathBuf>,
    pub directory: Spanned<Vec<SocketAddr>>,
    pub prefixes: Vec<Prefix>,
    pub la: Ipv4Addr,
    pub ports: Vec<Spanned<String>>,
    pub socket: PathBuf,
    #[serde(default = "default_metrics", deserialize_with = "address_or_off")]
    pub metrics: Option<SocketAddr>,
    pins: Option<PathBuf>,
    #[serde(default)]
    pub on_exit: OnExit,
    pub tor: Option<TorConfigPart>,
    pub intermediate: Option<IntermediatePart>,
}

/// `[tor]`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub struct TorConfigPart {
    #[serde(default = "forget_after", deserialize_with = "from_text")]
    pub forget_after: Duration,
    #[serde(default = "addresses_per_host")]
    pub addresses_per_host: usize,
    #[serde(default = "reports_per_s")]
    pub reports_per_s: u32,
    pub dhcp_server: Option<SocketAddrV4>,
    #[serde(default)]
    pub host: Vec<HostPart>,
}

/// `[[tor.host]]`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub struct HostPart {
    pub principal: Spanned<u32>,
    pub attach_key: Spanned<String>,
    pub port: Spanned<String>,
    pub address: IpAddr,
    pub sources: Option<Spanned<Vec<Prefix>>>,
}

/// `[intermediate]`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub struct IntermediatePart {
    pub switches: Spanned<Vec<Ipv4Addr>>,
    pub anycast: Spanned<Vec<Ipv4Addr>>,
    #[serde(default = "ecmp_width")]
    pub ecmp_width: NonZeroUsize,
}

impl SwitchConfig {
    /// Reads a configuration whose role is `switch`, and checks what its keys say together.
    ///
    /// # Errors
    /// [`Error`](crate::error::Error) with file, line and remedy.
    pub fn read(place: &Place<'_>) -> Result<Self> {
        let config: Self = place.parse()?;
        if *config.principal.get_ref() == 0 {
            return Err(place.error(
                config.principal.span(),
                "principals begin at 1",
                "give the switch's number, as in the policy",
            ));
        }
        if config.directory.get_ref().is_empty() {
            return Err(place.error(config.directory.span(), "no directory server", "name at least one, address:port"));
        }
        check_ports(&config.directory, place)?;
        if let Some(tor) = &config.tor {
            config.check_hosts(tor, place)?;
        }
        if let Some(part) = &config.intermediate {
            let help = "list all intermediate switches, and one address per group";
            part.groups().map_err(|error| place.error::<Error>(part.anycast.span(), &error.to_string(), help))?;
            if !part.switches.get_ref().contains(&config.la) {
                let message = format!("`la` {} is not among the intermediate switches", config.la);
                return Err(place.error(
                    part.switches.span(),
                    &message,
                    "list this one's `la` too, in the same order in all of them",
                ));
            }
        }
        Ok(config)
    }

    /// Reads the file again for the running agent, and checks that this machine has what it names.
    ///
    /// # Errors
    /// [`Error`](crate::error::Error) with file, line and remedy; another overlay or role.
    pub fn read_again(path: &Path) -> Result<Self> {
        let file = ConfigFile::read_again(path, Overlay::Vl2, Role::Switch)?;
        let config = Self::read(&file.place())?;
        config.check_here(&file.place())?;
        Ok(config)
    }

    /// Looks whether this machine has what it names.
    ///
    /// # Errors
    /// [`Error`](crate::error::Error) with file, line and remedy.
    pub fn check_here(&self, place: &Place<'_>) -> Result<()> {
        place.at(self.key.span(), self.principal_key())?;
        self.ports.iter().try_for_each(|port| place.at(port.span(), find_interface(port.get_ref())))
    }

    fn check_hosts(&self, tor: &TorConfigPart, place: &Place<'_>) -> Result<()> {
        for (at, host) in tor.host.iter().enumerate() {
            let (principal, port) = (*host.principal.get_ref(), host.port.get_ref());
            if principal == 0 || tor.host[..at].iter().any(|other| *other.principal.get_ref() == principal) {
                let message = format!("principal {principal} is 0 or there twice");
                return Err(place.error(host.principal.span(), &message, "give each host its own number, from 1"));
            }
            if !self.ports.iter().any(|it| it.get_ref() == port) {
                let message = format!("`{port}` is not among `ports`");
                return Err(place.error(host.port.span(), &message, "add it there, or name the port that leads to the host"));
            }
            if let Some(sources) = &host.sources {
                self.check_sources(sources, &tor.host[..at], place)?;
            }
            if host.key().is_none() {
                let help = "`weft directory key --principal N --attach` makes it";
                return Err(place.error(host.attach_key.span(), "an attach key is 64 hexadecimal digits", help));
            }
        }
        Ok(())
    }

    fn check_sources(&self, sources: &Spanned<Vec<Prefix>>, others: &[HostPart], place: &Place<'_>) -> Result<()> {
        for prefix in sources.get_ref() {
            if !prefix.address().is_ipv4() || self.prefixes.iter().any(|it| it.overlaps(prefix)) {
                let help = "list the host's `entropy`, and its further locators";
                return Err(place.error(sources.span(), &format!("{prefix} is not a prefix of IPv4 locators"), help));
            }
            let is_theirs = |other: &&HostPart| other.sources.iter().flat_map(|it| it.get_ref()).any(|it| it.overlaps(prefix));
            if let Some(other) = others.iter().find(is_theirs) {
                let message = format!("{prefix} is among the sources of principal {} too", other.principal.get_ref());
                return Err(place.error(sources.span(), &message, "give each host its own"));
            }
        }
        Ok(())
    }

    /// Who the switch is.
    pub fn principal(&self) -> PrincipalId {
        PrincipalId(*self.principal.get_ref())
    }

    /// Its key, from a file that nobody else can read.
    ///
    /// # Errors
    /// [`Error`](crate::error::Error).
    pub fn principal_key(&self) -> Result<PrincipalKey> {
        read_key(self.key.get_ref())
    }

    /// Where programs and maps are pinned.
    pub fn pins(&self) -> PathBuf {
        self.pins.clone().unwrap_or_else(|| PathBuf::from("/sys/fs/bpf/weft/switch"))
    }
}

impl HostPart {
    /// The attach key, if the text is one.
    pub fn key(&self) -> Option<AttachKey> {
        AttachKey::parse(self.attach_key.get_ref()).ok()
    }

    /// Its locator, and its further sources.
    pub fn sources_v4(&self) -> impl Iterator<Item = Ipv4Net> + '_ {
        let listed = self.sources.iter().flat_map(|it| it.get_ref()).map(Prefix::net);
        let all = std::iter::once(IpNet::from(self.address)).chain(listed);
        all.filter_map(|net| if let IpNet::V4(net) = net { Some(net) } else { None })
    }
}

impl IntermediatePart {
    /// The groups.
    ///
    /// # Errors
    /// [`GroupsError`](weft_control::vl2::groups::GroupsError).
    pub fn groups(&self) -> std::result::Result<Groups, weft_control::vl2::groups::GroupsError> {
        let switches = self.switches.get_ref().iter().copied().map(IpAddr::V4).collect();
        Groups::new(switches, self.ecmp_width, Some(self.anycast.get_ref().len()))
    }
}

fn forget_after() -> Duration {
    Duration::from_secs(90)
}

const fn addresses_per_host() -> usize {
    256
}

const fn reports_per_s() -> u32 {
    200
}

fn ecmp_width() -> NonZeroUsize {
    NonZeroUsize::new(16).unwrap_or(NonZeroUsize::MIN)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    const RIGHT: &str = r#"
role = "switch"
principal = 40
key = "/etc/weft/switch40.key"
directory = ["10.1.1.9:5303"]
prefixes = ["20.0.0.0/8", "fd20::/64"]
la = "10.0.0.1"
ports = ["p0", "p1"]
socket = "/run/weft/agent.sock"

[intermediate]
switches = ["10.0.0.1", "10.0.0.2", "10.0.0.3"]
anycast = ["100.127.0.1", "100.127.0.2"]
ecmp_width = 2

[tor]
forget_after = "60s"

[[tor.host]]
principal = 17
attach_key = "0101010101010101010101010101010101010101010101010101010101010101"
port = "p1"
address = "10.1.1.2"
"#;

    fn read(text: &str) -> Result<SwitchConfig> {
        SwitchConfig::read(&Place { path: Path::new("switch.toml"), text, page: crate::config::PAGE })
    }

    #[test]
    fn a_configuration_is_read() {
        let config = read(RIGHT).unwrap();
        assert_eq!(config.tor.as_ref().unwrap().forget_after, Duration::from_secs(60));
        assert_eq!(config.intermediate.as_ref().unwrap().groups().unwrap().ids().count(), 2);
        assert_eq!(config.principal(), PrincipalId(40));
    }

    #[test]
    fn errors_name_the_line() {
        for (from, to, line, what) in [
            ("principal = 40", "principal = 0", 3, "begin at 1"),
            ("\"10.1.1.9:5303\"", "", 5, "no directory server"),
            ("la = \"10.0.0.1\"", "la = \"10.0.0.9\"", 12, "not among the intermediate"),
            ("\"10.0.0.3\"]", "\"10.0.0.3\", \"10.0.0.4\", \"10.0.0.5\", \"10.0.0.6\", \"10.0.0.7\"]", 13, "have no room"),
            ("port = \"p1\"", "port = \"p7\"", 22, "not among `ports`"),
            ("\"0101", "\"01", 21, "64 hexadecimal"),
            ("principal = 17", "principal = 0", 20, "0 or there twice"),
            ("forget_after", "forget_afer", 17, "unknown field"),
            ("\"60s\"", "\"60\"", 17, "60"),
        ] {
            let error = read(&RIGHT.replace(from, to)).unwrap_err().to_string();
            assert!(error.contains(&format!("switch.toml:{line}:")) && error.contains(what), "{to}: {error}");
        }
    }
}
