//! `[overlay]` and `[[service]]`: the overlay, and which services may communicate.

use std::collections::BTreeMap;

use weft_fabric::{Bytes, Duration, Fabric};
use weft_sim::world::{self, Overlay};

use crate::error::{KeyError, Problem};
use crate::scenario::directory::{self, Serving};
use crate::scenario::keys::{Keys, Numbers};

/// `[overlay]`, with the services.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OverlaySpec {
    /// What it is.
    pub kind: Kind,
    /// The services, in the order of the file.
    pub services: Vec<Service>,
    /// Hosts that are to be reached from outside, by index.
    pub external: Vec<u32>,
    /// Its directory, as a lab has it.
    pub directory: Serving,
    /// Whether agents give a flow that has lost a full window another hash, in simulated worlds.
    pub rehash: bool,
    /// What a lookup takes there.
    pub lookup: Duration,
}

/// The overlays.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    /// No overlay: hosts use the addresses of their locations.
    #[default]
    None,
    /// VL2 section 4.
    Vl2 {
        /// Where packets for a host are sent.
        locator: Locator,
        /// Next hops that switches can spread over: with more intermediates there are groups of them (VL2 section 4.2.2).
        ecmp_width: u16,
        /// Whether hosts of a lab lease their application addresses by DHCP (VL2 section 4.2.3).
        dhcp: bool,
    },
}

/// Which device removes the last header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Locator {
    /// The destination's ToR, as in the paper.
    #[default]
    Tor,
    /// The destination itself.
    Host,
}

/// `[[service]]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Service {
    /// Its name.
    pub name: String,
    /// Its hosts, by index.
    pub hosts: Vec<u32>,
    /// Services whose hosts may talk to these, besides its own; `*`: all.
    pub allow: Vec<String>,
    /// Where it stands, for errors.
    key: String,
}

impl OverlaySpec {
    /// Reads `[overlay]` and `[[service]]`.
    ///
    /// # Errors
    /// What is wrong with them.
    pub fn read(root: &Keys<'_>) -> Result<Self, KeyError> {
        let keys = root.table("overlay")?;
        let name = keys.or("kind", "none".to_owned())?;
        if !KINDS.contains(&name.as_str()) {
            return Err(keys.problem("kind", Problem::no_such("overlay", name, &KINDS)));
        }
        let locator = keys.word("locator", &[("tor", Locator::Tor), ("host", Locator::Host)], Locator::Tor)?;
        let ecmp_width: Option<u16> = keys.opt("ecmp_width")?;
        let dhcp = keys.word("addresses", &[("static", false), ("dhcp", true)], false)?;
        let external = keys.opt::<Numbers>("external")?.map_or_else(Vec::new, |n| n.0);
        let rehash = keys.or("rehash", true)?;
        let lookup = keys.or("lookup", LOOKUP)?;
        keys.done()?;
        let kind = match name.as_str() {
            "none" => Kind::None,
            "vl2" => Kind::Vl2 { locator, ecmp_width: ecmp_width.unwrap_or(ECMP_WIDTH), dhcp },
            _ => {
                let help = "write pattern = \"tenants\" in [traffic]; or `weft lab up` brings up a lab of it, without traffic";
                return Err(keys.error("kind", "NetLord's overlay needs tenants", help));
            }
        };
        if let Some(width) = ecmp_width {
            let why = "switches would spread over no next hop";
            keys.check_not_zero("ecmp_width", width, why, "write 1 or more, as `ecmp_width = 16`")?;
        }
        if dhcp && locator == Locator::Host {
            let help = "write locator = \"tor\", or leave `addresses` out";
            return Err(keys.error(
                "addresses",
                "the agents of ToRs relay DHCP, and with locator = \"host\" there are none",
                help,
            ));
        }
        for key in ["locator", "ecmp_width", "addresses", "external", "rehash", "lookup"] {
            if kind == Kind::None && keys.has(key) {
                let (owner, write) = ("the VL2 overlay", "write kind = \"vl2\"");
                return Err(keys.problem(key, Problem::BelongsTo { key: key.to_owned(), owner, write }));
            }
        }
        let services = root.tables("service")?.iter().map(Service::read).collect::<Result<Vec<_>, _>>()?;
        if kind == Kind::None && !services.is_empty() {
            let help = "add `[overlay]` with kind = \"vl2\", or leave the services out";
            return Err(KeyError::new("service[0]", "services need an overlay that keeps them apart", help));
        }
        let is_serving = kind != Kind::None && !directory::is_pattern(root);
        let directory = if is_serving { Serving::read(&root.table("directory")?)? } else { Serving::default() };
        let spec = Self { kind, services, external, directory, rehash, lookup };
        spec.check_names()?;
        Ok(spec)
    }

    /// Bytes that the overlay adds to a packet on the wire: two IPv4 headers.
    pub const fn header(&self) -> Bytes {
        match self.kind {
            Kind::None => Bytes(0),
            Kind::Vl2 { .. } => Bytes(40),
        }
    }

    /// What its agents do in a simulated world with so many hosts.
    pub fn agents(&self, hosts: usize) -> Overlay {
        if self.kind == Kind::None {
            return Overlay::default();
        }
        Overlay { rehash: self.rehash, lookup: self.lookup, services: self.rules(hosts) }
    }

    /// The services as simulated worlds take them; the last one is that of all other hosts.
    fn rules(&self, hosts: usize) -> Option<world::Services> {
        let others = self.services.len() as u16;
        let mut of_host = vec![others; hosts];
        let mut may_resolve = Vec::new();
        for (target, service) in (0..).zip(&self.services) {
            service.hosts.iter().for_each(|&host| of_host[host as usize] = target);
            for name in &service.allow {
                let is_allowed =
                    |asker: &u16| name == "*" || self.services.get(usize::from(*asker)).is_some_and(|s| s.name == *name);
                may_resolve.extend((0..=others).filter(is_allowed).map(|asker| (asker, target)));
            }
        }
        (!self.services.is_empty()).then_some(world::Services { of_host, may_resolve })
    }

    /// Whether the services fit the fabric.
    ///
    /// # Errors
    /// A host that it does not have, or that is in two services.
    pub fn check(&self, fabric: &Fabric) -> Result<(), KeyError> {
        let hosts = fabric.host_count();
        if let Some(&host) = self.external.iter().find(|&&h| h as usize >= hosts) {
            return Err(KeyError::at("overlay.external", Problem::NoHost { host, hosts }));
        }
        let servers = usize::from(self.directory.servers);
        if self.kind != Kind::None && servers > hosts {
            let message = format!("{servers} directory servers are more than there are hosts, {hosts}");
            return Err(KeyError::new("directory.servers", message, "each has a host of its own: write fewer"));
        }
        let mut taken: BTreeMap<u32, &str> = BTreeMap::new();
        for service in &self.services {
            let key = format!("{}.hosts", service.key);
            for &host in &service.hosts {
                if host as usize >= hosts {
                    return Err(KeyError::at(key, Problem::NoHost { host, hosts }));
                }
                if let Some(other) = taken.insert(host, &service.name) {
                    let message = format!("host {host} is in `{other}` and in `{}`", service.name);
                    return Err(KeyError::new(key, message, "a host is of one service: leave it out of one of them"));
                }
            }
        }
        Ok(())
    }

    fn check_names(&self) -> Result<(), KeyError> {
        for (i, service) in self.services.iter().enumerate() {
            if self.services[..i].iter().any(|other| other.name == service.name) {
                let message = format!("two services are called `{}`", service.name);
                return Err(KeyError::new(format!("{}.name", service.key), message, "give each a name of its own"));
            }
            let known = |name: &String| name == "*" || self.services.iter().any(|other| other.name == *name);
            if let Some(unknown) = service.allow.iter().find(|name| !known(name)) {
                let names: Vec<&str> = self.services.iter().map(|s| s.name.as_str()).collect();
                return Err(KeyError::at(format!("{}.allow", service.key), Problem::no_such("service", unknown, &names)));
            }
        }
        Ok(())
    }
}

impl Service {
    fn read(keys: &Keys<'_>) -> Result<Self, KeyError> {
        let service = Self {
            name: keys.need("name")?,
            hosts: keys.need::<Numbers>("hosts")?.0,
            allow: keys.or("allow", Vec::new())?,
            key: keys.path_of("").trim_end_matches('.').to_owned(),
        };
        keys.done()?;
        if service.name.is_empty() || service.name == "*" || service.name == OTHERS {
            let message = format!("a service cannot be called `{}`", service.name);
            return Err(keys.error("name", message, "use a name such as \"web\""));
        }
        if service.hosts.is_empty() {
            return Err(keys.error("hosts", "a service without hosts", "write such as hosts = \"0-4\""));
        }
        Ok(service)
    }
}

/// The median of three directory servers at 40,000 lookups per second (VL2 figure 14a, `scenarios/vl2/figure14a.toml`).
const LOOKUP: Duration = Duration::from_us(400);
/// The service of hosts that are in none.
pub const OTHERS: &str = "others";
/// What switches of the paper's time could (VL2 section 4.2.2).
const ECMP_WIDTH: u16 = 16;
const KINDS: [&str; 3] = ["none", "vl2", "netlord"];
