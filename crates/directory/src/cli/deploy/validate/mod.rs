//! Whether an inventory can be deployed. Each error names its line, and of what is there twice the other line too.

mod hosts;
mod netlord;
mod servers;

use std::collections::BTreeMap;
use std::fmt::Display;
use std::net::{IpAddr, SocketAddr};
use std::ops::Range;

use toml::Spanned;
use weft_control::netlord::tenants::Tenants;
use weft_control::time::Duration;
use weft_control::vl2::groups::Groups;

use super::error::{DeployError, Result};
use super::inventory::{Inventory, Rack, SwitchRole};
use super::limits::{Limits, Unit};
use super::netlord::layout::Layout;
use super::yaml;
use crate::daemon::config::Place;

impl Inventory {
    /// Reads an inventory and checks all of it.
    ///
    /// # Errors
    /// [`DeployError`] with file, line and remedy.
    pub fn read(place: &Place<'_>) -> Result<Self> {
        let mut inventory: Self = if yaml::is_yaml(place.path) { yaml::parse(place) } else { place.parse() }?;
        inventory.find_tors();
        let of_netlord = Check { place, it: &inventory }.all()?;
        if let (Some(netlord), Some((layout, tenants))) = (inventory.netlord_mut(), of_netlord) {
            netlord.complete(layout, tenants);
        }
        Ok(inventory)
    }
}

/// An error at a part of an inventory, in the notation of its file.
pub(super) fn refused(place: &Place<'_>, span: Range<usize>, message: &str, help: &str) -> DeployError {
    if yaml::is_yaml(place.path) {
        return place.error(span, &yaml::in_its_notation(message), &yaml::in_its_notation(help));
    }
    place.error(span, message, help)
}

/// An inventory, and where its keys are.
struct Check<'a> {
    place: &'a Place<'a>,
    it: &'a Inventory,
}

/// Values that may be there once, with where they were.
struct Once<K> {
    what: &'static str,
    seen: BTreeMap<K, (String, Range<usize>)>,
}

impl<K: Ord + Clone + Display> Once<K> {
    const fn of(what: &'static str) -> Self {
        Self { what, seen: BTreeMap::new() }
    }

    fn add(&mut self, check: &Check<'_>, value: &Spanned<K>, owner: &str) -> Result<()> {
        let (key, span) = (value.get_ref(), value.span());
        match self.seen.insert(key.clone(), (owner.to_owned(), span.clone())) {
            None => Ok(()),
            Some((first, at)) => {
                let line = check.place.line(at);
                let message = format!("{} {key} of {owner} is that of {first} (line {line}) too", self.what);
                check.wrong(span, &message, "give each its own, or remove one")
            }
        }
    }
}

impl Check<'_> {
    fn wrong<T>(&self, span: Range<usize>, message: &str, help: &str) -> Result<T> {
        Err(refused(self.place, span, message, help))
    }

    /// All of it; of NetLord its VLANs and tenants.
    fn all(&self) -> Result<Option<(Layout, Tenants)>> {
        self.name(&self.it.cluster, "the cluster")?;
        if *self.it.version.get_ref() == 0 {
            return self.wrong(self.it.version.span(), "versions begin at 1", "write version = 1");
        }
        if self.it.has_vl2() || self.it.netlord().is_none() {
            self.network()?;
        }
        self.daemons()?;
        self.servers()?;
        self.services()?;
        self.principals()?;
        self.machines()?;
        self.switches()?;
        self.racks()?;
        self.hosts()?;
        self.netlord()
    }

    /// A name that is part of paths, configurations and units.
    fn name(&self, name: &Spanned<String>, what: &str) -> Result<()> {
        let text = name.get_ref();
        let is_good = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        if !text.is_empty() && text.len() <= 64 && text.bytes().all(is_good) && !text.starts_with(['.', '-']) {
            return Ok(());
        }
        let message = format!("`{text}` is no name of {what}");
        self.wrong(name.span(), &message, "use up to 64 letters, digits, `-`, `_` and `.`, a letter or digit first")
    }

    fn network(&self) -> Result<()> {
        let (network, prefixes) = (&self.it.network, self.it.network.prefixes.get_ref());
        if prefixes.is_empty() && network.prefixes.span().is_empty() {
            let help = "add it with `prefixes` and `locator`; or [netlord], for tenants over switches that bridge";
            return self.wrong(0..0, "no [network]", help);
        }
        let of = |is_v4: bool| prefixes.iter().filter(|it| it.address().is_ipv4() == is_v4).count();
        if prefixes.is_empty() || of(true) > 1 || of(false) > 1 {
            let help = "write the whole space of application addresses as one prefix a family";
            return self.wrong(network.prefixes.span(), "one prefix of IPv4, one of IPv6, or both", help);
        }
        if let Some(multicast) = &network.multicast
            && !(multicast.get_ref().address().is_multicast() && multicast.get_ref().address().is_ipv4())
        {
            return self.wrong(multicast.span(), "not a prefix of multicast addresses", "write one inside 239.0.0.0/8");
        }
        let Some(anycast) = &network.anycast else { return Ok(()) };
        if let Some(inside) = anycast.get_ref().iter().find(|it| self.is_application((**it).into())) {
            let message = format!("{inside} is an application address");
            return self.wrong(anycast.span(), &message, "anycast addresses are outside of `prefixes`");
        }
        let intermediates = self.it.intermediates().into_iter().map(IpAddr::V4).collect::<Vec<_>>();
        if intermediates.is_empty() {
            return Ok(());
        }
        let groups = Groups::new(intermediates, network.ecmp_width, Some(anycast.get_ref().len()));
        let help = "list one address a group, each of at most `ecmp_width` intermediate switches";
        groups.map(drop).or_else(|error| self.wrong(anycast.span(), &error.to_string(), help))
    }

    /// What is passed on to daemons as it is.
    fn daemons(&self) -> Result<()> {
        for metrics in [&self.it.agent.metrics, &self.it.directory.metrics] {
            if metrics.get_ref() != "off" && metrics.get_ref().parse::<SocketAddr>().is_err() {
                let message = format!("`{}` is not address:port, and not `off`", metrics.get_ref());
                return self.wrong(metrics.span(), &message, "write such as \"10.0.0.1:9304\"");
            }
        }
        if *self.it.directory.port.get_ref() == 0 {
            return self.wrong(self.it.directory.port.span(), "ports begin at 1", "leave `port` out: servers have 5303");
        }
        if let Some(time) = &self.it.agent.fail_static
            && time.get_ref() != "unlimited"
            && let Err(error) = time.get_ref().parse::<Duration>()
        {
            return self.wrong(time.span(), &error.to_string(), "write such as \"10min\", or \"unlimited\"");
        }
        Ok(())
    }

    /// Limits that the agent knows, and that let something pass.
    fn limits(&self, limits: &Limits, known: &[(&str, Unit)]) -> Result<()> {
        for (name, value) in &limits.0 {
            let Some((_, unit)) = known.iter().find(|(it, _)| it == name) else {
                let names: Vec<&str> = known.iter().map(|it| it.0).collect();
                let help = format!("remove it, or write one of: {}", names.join(", "));
                return self.wrong(value.span(), &format!("there is no limit `{name}`"), &help);
            };
            if let Some((problem, help)) = unit.problem(value.get_ref()) {
                return self.wrong(value.span(), &format!("`{name}`: {problem}"), &help);
            }
        }
        Ok(())
    }

    fn services(&self) -> Result<()> {
        let (mut names, mut ids) = (Once::of("the name"), Once::of("id"));
        for service in &self.it.service {
            let name = service.name.get_ref();
            self.name(&service.name, "a service")?;
            names.add(self, &service.name, &format!("service `{name}`"))?;
            ids.add(self, &service.id, &format!("service `{name}`"))?;
            for other in service.allow.iter().chain(&service.deny) {
                if other.get_ref() != "*" {
                    self.service(other)?;
                }
            }
        }
        Ok(())
    }

    fn service(&self, name: &Spanned<String>) -> Result<()> {
        match self.it.service_id(name.get_ref()) {
            Some(_) => Ok(()),
            None => {
                let known = list(self.it.service.iter().map(|it| it.name.get_ref()));
                self.wrong(
                    name.span(),
                    &format!("there is no service `{}`", name.get_ref()),
                    &format!("add [[service]] of that name, or name one of: {known}"),
                )
            }
        }
    }

    fn principals(&self) -> Result<()> {
        let mut once = Once::of("principal");
        once.add(self, &self.it.directory.admin, "the administrator")?;
        let servers =
            self.it.directory.server.iter().map(|it| (&it.principal, format!("directory server {}", it.name.get_ref())));
        let switches = self.it.switch.iter().filter_map(|it| Some((it.principal.as_ref()?, it.name.get_ref().clone())));
        let hosts = self.it.host.iter().map(|it| (&it.principal, it.name.get_ref().clone()));
        let of_netlord = self.it.netlord().into_iter().flat_map(|it| &it.host);
        let of_netlord = of_netlord.filter_map(|it| Some((it.principal.as_ref()?, it.name.get_ref().clone())));
        for (principal, owner) in servers.chain(switches).chain(hosts).chain(of_netlord) {
            if *principal.get_ref() == 0 {
                return self.wrong(principal.span(), "principals begin at 1", "give each machine its own number");
            }
            once.add(self, principal, &owner)?;
        }
        Ok(())
    }

    /// Names and locator addresses. A directory server may share a machine with a host or a switch: then they have one name.
    fn machines(&self) -> Result<()> {
        let [mut names, mut bridged, mut servers] = std::array::from_fn(|_| Once::of("the name"));
        let mut addresses: Once<IpAddr> = Once::of("the address");
        let mut machines: BTreeMap<&str, IpAddr> = BTreeMap::new();
        let switches = self.it.switch.iter().map(|it| (&it.name, &it.la));
        for (name, la) in switches.chain(self.it.host.iter().map(|it| (&it.name, &it.la))) {
            self.name(name, "a machine")?;
            names.add(self, name, name.get_ref())?;
            let la = Spanned::new(la.span(), IpAddr::V4(*la.get_ref()));
            self.is_locator(&la)?;
            addresses.add(self, &la, name.get_ref())?;
            machines.insert(name.get_ref(), *la.get_ref());
        }
        let netlord = self.it.netlord();
        let switches = netlord.into_iter().flat_map(|it| it.switch.iter().map(|it| &it.name));
        for name in switches.chain(netlord.into_iter().flat_map(|it| it.host.iter().map(|it| &it.name))) {
            self.name(name, "a machine")?;
            bridged.add(self, name, name.get_ref())?;
        }
        for server in &self.it.directory.server {
            self.name(&server.name, "a machine")?;
            servers.add(self, &server.name, server.name.get_ref())?;
            self.is_locator(&server.address)?;
            if machines.get(server.name.get_ref().as_str()) != Some(server.address.get_ref()) {
                addresses.add(self, &server.address, &format!("directory server {}", server.name.get_ref()))?;
            }
        }
        Ok(())
    }

    fn is_application(&self, address: IpAddr) -> bool {
        self.it.network.prefixes.get_ref().iter().any(|it| it.contains(address))
    }

    fn is_locator(&self, address: &Spanned<IpAddr>) -> Result<()> {
        if self.is_application(*address.get_ref()) {
            let message = format!("{} is an application address", address.get_ref());
            return self.wrong(address.span(), &message, "locator addresses are outside of `prefixes`");
        }
        Ok(())
    }

    fn switches(&self) -> Result<()> {
        for switch in self.it.agents_of_switches() {
            let name = switch.name.get_ref();
            if switch.principal.is_none() {
                let help = "add `principal`; or agent = false, if the switch runs no weft-agent";
                return self.wrong(switch.name.span(), &format!("switch {name} has no principal"), help);
            }
            if switch.ports.is_empty() {
                let help = "list the interfaces to hosts and switches: ports = [\"swp1\", ...]";
                return self.wrong(switch.name.span(), &format!("switch {name} has no ports"), help);
            }
            let bad = switch.ports.iter().find(|it| !is_interface(it));
            if let Some(port) = bad {
                return self.wrong(switch.name.span(), &format!("`{port}` is no name of an interface"), "up to 15 letters");
            }
            let has_groups = !self.it.anycast().is_empty();
            if switch.role == SwitchRole::Intermediate && !has_groups {
                let help = "write `anycast` in [network], an address a group; or role = \"other\"";
                return self.wrong(switch.name.span(), &format!("intermediate switch {name} serves no group"), help);
            }
        }
        Ok(())
    }

    fn racks(&self) -> Result<()> {
        let mut names = Once::of("the name");
        for Rack { name, tor } in &self.it.rack {
            names.add(self, name, &format!("rack {}", name.get_ref()))?;
            let found = self.it.switch.iter().find(|it| it.name.get_ref() == tor.get_ref());
            match found.map(|it| it.role) {
                Some(SwitchRole::Tor) => {}
                Some(_) => {
                    return self.wrong(tor.span(), &format!("switch {} is no ToR", tor.get_ref()), "write role = \"tor\" there");
                }
                None => {
                    let message = format!("there is no switch `{}`", tor.get_ref());
                    return self.wrong(tor.span(), &message, "add [[switch]] of that name with role = \"tor\"");
                }
            }
        }
        Ok(())
    }
}

fn is_interface(name: &str) -> bool {
    let is_good = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.@:".contains(&byte);
    (1..=15).contains(&name.len()) && name.bytes().all(is_good) && !name.starts_with(['.', '-'])
}

/// `a, b, c`; "none" if there are none.
fn list<'a>(names: impl Iterator<Item = &'a String>) -> String {
    let names: Vec<&str> = names.map(String::as_str).collect();
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}
