//! The configuration of a host. `docs/running-on-hosts.md` has every key.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use serde::Deserialize;
use toml::Spanned;
use weft_control::directory::PrincipalId;
use weft_control::directory::auth::PrincipalKey;
use weft_control::prefix::Prefix;
use weft_control::time::Duration;
use weft_control::vl2::agent::HeldLimits;
use weft_fabric::{Bytes, MacAddr};

use super::link::Link;
use super::locators::LocatorTraffic;
use crate::config::{
    At as _, ConfigFile, OnExit, Overlay, Place, Role, UpdateAuth, address_or_off, check_ports, default_metrics, default_socket,
    from_text, optional_from_text, read_key, time_or_unlimited, unlimited,
};
use crate::directory::bind;
use crate::error::{Error, Result};

/// The configuration of a host's agent.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)] // The page has each of them.
pub struct HostConfig {
    #[serde(rename = "role")]
    pub _role: Role,
    pub device: Spanned<String>,
    pub principal: Spanned<u32>,
    pub key: Spanned<PathBuf>,
    pub directory: Spanned<Vec<SocketAddr>>,
    pub prefixes: Spanned<Vec<Prefix>>,
    pub la: Option<Spanned<Ipv4Addr>>,
    #[serde(default)]
    pub locator: LocatorMode,
    #[serde(default)]
    pub intermediate: Intermediate,
    pub entropy: Spanned<Prefix>,
    mtu: Option<Spanned<u32>>,
    pub tor: Option<Spanned<SocketAddr>>,
    #[serde(default = "refresh", deserialize_with = "from_text")]
    pub attach_refresh: Duration,
    #[serde(default)]
    pub auth: UpdateAuth,
    pub cert: Option<PathBuf>,
    pub cert_key: Option<PathBuf>,
    pub ca: Option<PathBuf>,
    #[serde(default, deserialize_with = "optional_from_text")]
    pub gateway_mac: Option<MacAddr>,
    #[serde(default = "unlimited", deserialize_with = "time_or_unlimited")]
    pub fail_static: Duration,
    pub multicast: Option<Spanned<Prefix>>,
    #[serde(default)]
    pub on_exit: OnExit,
    #[serde(default = "default_socket")]
    pub socket: PathBuf,
    #[serde(default = "default_metrics", deserialize_with = "address_or_off")]
    pub metrics: Option<SocketAddr>,
    pub pins: Option<PathBuf>,
    #[serde(default)]
    pub address: Vec<OwnAddress>,
    #[serde(default)]
    pub follow_device: bool,
    #[serde(default)]
    pub limits: Limits,
    #[serde(default)]
    pub rehash: Rehash,
    pub placement: Option<Spanned<PlacementPart>>,
    #[serde(default)]
    pub locator_traffic: LocatorTraffic,
}

/// Where packets for this host are to be sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LocatorMode {
    /// To its ToR, which strips the last header.
    #[default]
    Tor,
    /// To the host itself.
    Host,
}

/// Whether packets bounce off an intermediate switch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Intermediate {
    /// One of the mapping's group.
    #[default]
    Group,
    /// No.
    None,
}

/// An application address of this host.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub struct OwnAddress {
    pub address: Spanned<IpAddr>,
    #[serde(default, deserialize_with = "optional_from_text")]
    pub mac: Option<MacAddr>,
}

/// How much of everything.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[allow(missing_docs)]
pub struct Limits {
    pub peers: u32,
    pub flows: u32,
    pub held_packets: usize,
    #[serde(deserialize_with = "from_text")]
    pub held_bytes: Bytes,
    pub held_per_peer: usize,
    #[serde(deserialize_with = "from_text")]
    pub held_time: Duration,
    pub broadcast_rate: u32,
}

impl Default for Limits {
    fn default() -> Self {
        let held = HeldLimits::default();
        Self {
            peers: 65_536,
            flows: 65_536,
            held_packets: held.packets,
            held_bytes: Bytes(held.bytes as u64),
            held_per_peer: held.per_peer,
            held_time: held.time,
            broadcast_rate: 100,
        }
    }
}

/// When flows take another path.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[allow(missing_docs)]
pub struct Rehash {
    #[serde(deserialize_with = "from_text")]
    pub interval: Duration,
    pub rate: u32,
}

impl Default for Rehash {
    fn default() -> Self {
        Self { interval: Duration::from_secs(1), rate: 100 }
    }
}

/// `[placement]`: who places large flows.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub struct PlacementPart {
    scheduler: Schedulers,
    #[serde(default = "elephant", deserialize_with = "from_text")]
    pub elephant: Bytes,
}

/// The addresses of schedulers.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged, expecting = "`ADDRESS:PORT`, or a list of them")]
enum Schedulers {
    One(SocketAddr),
    Several(Vec<SocketAddr>),
}

impl PlacementPart {
    /// The addresses of the schedulers.
    pub fn schedulers(&self) -> Vec<SocketAddr> {
        match &self.scheduler {
            Schedulers::One(address) => vec![*address],
            Schedulers::Several(addresses) => addresses.clone(),
        }
    }

    /// Whether it is as before: it cannot change while the agent runs.
    pub fn is(&self, other: &Self) -> bool {
        (&self.scheduler, self.elephant) == (&other.scheduler, other.elephant)
    }
}

impl HostConfig {
    /// Reads a configuration whose role is `host`, and checks what its keys say together.
    ///
    /// # Errors
    /// [`Error`] with file, line and remedy.
    pub fn read(place: &Place<'_>) -> Result<Self> {
        let config: Self = place.parse()?;
        config.check(place)?;
        Ok(config)
    }

    /// Reads the file again for the running agent, and checks that this machine has what it names.
    ///
    /// # Errors
    /// [`Error`] with file, line and remedy; another overlay or role.
    pub fn read_again(path: &Path) -> Result<Self> {
        let file = ConfigFile::read_again(path, Overlay::Vl2, Role::Host)?;
        let config = Self::read(&file.place())?;
        config.check_here(&file.place())?;
        Ok(config)
    }

    fn check(&self, place: &Place<'_>) -> Result<()> {
        if *self.principal.get_ref() == 0 {
            return Err(place.error(
                self.principal.span(),
                "principals begin at 1",
                "give the host's number, as in the directory",
            ));
        }
        if self.directory.get_ref().is_empty() {
            return Err(place.error(self.directory.span(), "no directory server", "name at least one, address:port"));
        }
        check_ports(&self.directory, place)?;
        self.check_prefixes(place)?;
        self.check_placement(place)?;
        self.locator_traffic.check(place)?;
        for own in &self.address {
            let address = *own.address.get_ref();
            if !self.is_application(address) {
                let help = "give an address in one of `prefixes`, or add its prefix there";
                return Err(place.error(own.address.span(), &format!("{address} is in none of the prefixes"), help));
            }
        }
        for (at, own) in self.address.iter().enumerate() {
            if self.address[..at].iter().any(|before| before.address.get_ref() == own.address.get_ref()) {
                return Err(place.error(own.address.span(), "the address is there twice", "remove one"));
            }
        }
        if let Some(multicast) = &self.multicast
            && !is_multicast(multicast.get_ref())
        {
            return Err(place.error(multicast.span(), "not a prefix of multicast addresses", "write one inside 239.0.0.0/8"));
        }
        if self.locator == LocatorMode::Host
            && let Some(tor) = &self.tor
        {
            let help = "remove `tor`, or `locator = \"host\"`: a host that is its own locator attaches to no ToR";
            return Err(place.error(tor.span(), "`tor` with `locator = \"host\"`", help));
        }
        if self.auth == UpdateAuth::Tls && (self.cert.is_none() || self.cert_key.is_none() || self.ca.is_none()) {
            return Err(place.error(
                0..0,
                "`auth = \"tls\"` needs `cert`, `cert_key` and `ca`",
                "`weft directory key --certificate` makes them",
            ));
        }
        Ok(())
    }

    fn check_placement(&self, place: &Place<'_>) -> Result<()> {
        let Some(part) = &self.placement else { return Ok(()) };
        let wrong = |message: &str, help: &str| Err(place.error(part.span(), message, help));
        let schedulers = part.get_ref().schedulers();
        if !(1..=SCHEDULERS_MAX).contains(&schedulers.len()) {
            return wrong("one to four schedulers are possible", "write scheduler = \"ADDRESS:5305\"");
        }
        if schedulers.iter().any(|it| it.port() == 0 || !it.is_ipv4()) {
            return wrong("a scheduler has an IPv4 address and a port", "schedulers have port 5305");
        }
        if self.intermediate == Intermediate::None {
            let help = "write intermediate = \"group\", or leave `[placement]` out";
            return wrong("`[placement]` chooses among intermediate switches, and packets cross none", help);
        }
        if part.get_ref().elephant.0 == 0 {
            return wrong("`elephant` is 0", "write such as \"100kB\"");
        }
        Ok(())
    }

    fn check_prefixes(&self, place: &Place<'_>) -> Result<()> {
        let prefixes = self.prefixes.get_ref();
        let wrong = |message: &str, help: &str| Err(place.error(self.prefixes.span(), message, help));
        let of = |is_v4: bool| prefixes.iter().filter(|prefix| prefix.address().is_ipv4() == is_v4).count();
        if prefixes.is_empty() || of(true) > 1 || of(false) > 1 {
            return wrong(
                "one prefix of IPv4, one of IPv6, or both",
                "write the whole space of application addresses as one prefix a family",
            );
        }
        if let Some(la) = &self.la
            && self.is_application(IpAddr::V4(*la.get_ref()))
        {
            return Err(place.error(la.span(), "the locator address is an application address", "they must be apart"));
        }
        let (prefix, entropy) = (self.entropy.get_ref(), &self.entropy);
        if !prefix.address().is_ipv4() || !(8..=30).contains(&prefix.length()) {
            return Err(place.error(entropy.span(), "not an IPv4 prefix from /8 to /30", "a /24 has room for 256 paths"));
        }
        if prefixes.iter().any(|it| it.overlaps(prefix)) {
            return Err(place.error(entropy.span(), "`entropy` overlaps `prefixes`", "outer sources are locator addresses"));
        }
        Ok(())
    }

    /// Looks whether this machine has what it names.
    ///
    /// # Errors
    /// [`Error`] with file, line and remedy.
    pub fn check_here(&self, place: &Place<'_>) -> Result<()> {
        place.at(self.key.span(), self.principal_key())?;
        let link = place.at(self.device.span(), Link::find(self.device.get_ref()))?;
        if let Some(mtu) = self.mtu.as_ref().filter(|mtu| *mtu.get_ref() > link.mtu) {
            let message = format!("{} carries packets of {} bytes", link.device, link.mtu);
            return Err(place.error(mtu.span(), &message, "leave `mtu` out, or set the device's"));
        }
        let la = place.at(self.device.span(), self.locator(&link))?;
        let span = self.la.as_ref().map_or(self.device.span(), Spanned::span);
        place.at(span, bind(la))?;
        Ok(())
    }

    /// The host's locator address: `la`, or the device's first IPv4 address that is not an application address.
    ///
    /// # Errors
    /// [`Error`] if there is none.
    pub(super) fn locator(&self, link: &Link) -> Result<Ipv4Addr> {
        if let Some(la) = &self.la {
            return Ok(*la.get_ref());
        }
        let v4 = |address: IpAddr| if let IpAddr::V4(it) = address { Some(it) } else { None };
        let found = link.addresses()?.into_iter().filter(|it| !self.is_application(*it)).find_map(v4);
        found.ok_or_else(|| Error::NoLocator(link.device.clone()))
    }

    /// An address behind the next hop.
    pub(super) fn towards(&self) -> IpAddr {
        self.tor.as_ref().map_or_else(|| self.directory.get_ref()[0].ip(), |tor| tor.get_ref().ip())
    }

    /// Bytes of the largest packet that the fabric carries.
    pub(super) fn fabric_mtu(&self, link: &Link) -> u32 {
        self.mtu.as_ref().map_or(link.mtu, |mtu| *mtu.get_ref())
    }

    /// Whether an address is an application address.
    pub fn is_application(&self, address: IpAddr) -> bool {
        self.prefixes.get_ref().iter().any(|prefix| prefix.contains(address))
    }

    /// Who the agent is.
    pub fn principal(&self) -> PrincipalId {
        PrincipalId(*self.principal.get_ref())
    }

    /// Where programs and maps are pinned.
    pub fn pins(&self) -> PathBuf {
        self.pins.clone().unwrap_or_else(|| Path::new("/sys/fs/bpf/weft").join(self.device.get_ref()))
    }

    /// The principal's key, from a file that nobody else can read.
    ///
    /// # Errors
    /// [`Error`].
    pub fn principal_key(&self) -> Result<PrincipalKey> {
        read_key(self.key.get_ref())
    }
}

fn is_multicast(prefix: &Prefix) -> bool {
    matches!(prefix.address(), IpAddr::V4(it) if it.is_multicast()) && prefix.length() >= 4
}

/// As Mahout's hosts find them.
fn elephant() -> Bytes {
    Bytes(100_000)
}

/// Schedulers that reports are sent to.
const SCHEDULERS_MAX: usize = 4;

fn refresh() -> Duration {
    Duration::from_secs(20)
}
