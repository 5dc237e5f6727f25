//! Hosts of an inventory, and the racks that they are in.

use std::collections::BTreeMap;
use std::net::IpAddr;

use toml::Spanned;
use weft_control::prefix::Prefix;

use super::{Check, Once, is_interface, list};
use crate::cli::deploy::error::Result;
use crate::cli::deploy::inventory::{Host, LocatorMode, Placement};
use crate::cli::deploy::limits::{self, Amount, Unit};

impl Check<'_> {
    pub(super) fn hosts(&self) -> Result<()> {
        let mut addresses = Once::of("the address");
        let mut ports = Once::of("the port");
        let mut entropies: BTreeMap<IpAddr, (&Spanned<Prefix>, &str)> = BTreeMap::new();
        self.limits(&self.it.agent.limits, limits::VL2)?;
        self.placement()?;
        for host in &self.it.host {
            self.limits(&host.limits, limits::VL2)?;
            let name = host.name.get_ref();
            self.service(&host.service)?;
            if !is_interface(host.device.get_ref()) {
                return self.wrong(host.device.span(), "not a name of an interface", "up to 15 letters, as `ip link` has it");
            }
            for address in &host.addresses {
                if !self.is_application(*address.get_ref()) {
                    let message = format!("{} is in none of the prefixes", address.get_ref());
                    return self.wrong(address.span(), &message, "give an address in one of `prefixes` of [network]");
                }
                addresses.add(self, address, name)?;
            }
            self.entropy(host, &entropies)?;
            entropies.insert(host.entropy.get_ref().address(), (&host.entropy, name));
            if let Some(group) = &host.group
                && !(1..=self.it.anycast().len()).contains(&usize::from(*group.get_ref()))
            {
                let message = format!("there is no group {}", group.get_ref());
                return self.wrong(group.span(), &message, "groups are numbered from 1 in the order of `anycast` of [network]");
            }
            self.rack_of(host, &mut ports)?;
        }
        Ok(())
    }

    /// Large flows go over the intermediate switches that a scheduler chooses.
    fn placement(&self) -> Result<()> {
        let Some(Placement { scheduler, elephant }) = &self.it.agent.placement else { return Ok(()) };
        let schedulers = scheduler.get_ref();
        if !(1..=SCHEDULERS_MAX).contains(&schedulers.len()) || schedulers.iter().any(|it| it.port() == 0 || !it.is_ipv4()) {
            let help = "write scheduler = [\"10.9.9.2:5305\"], with their IPv4 addresses and ports";
            return self.wrong(scheduler.span(), &format!("not one to {SCHEDULERS_MAX} schedulers"), help);
        }
        if self.it.anycast().is_empty() {
            let help = "write `anycast` in [network], or leave `placement` out of [agent]";
            return self.wrong(scheduler.span(), "there are no intermediate switches to choose", help);
        }
        let Some(bytes) = elephant else { return Ok(()) };
        match Unit::Bytes.problem(&Amount::Text(bytes.get_ref().clone())) {
            Some((problem, help)) => self.wrong(bytes.span(), &format!("`elephant`: {problem}"), &help),
            None => Ok(()),
        }
    }

    fn entropy(&self, host: &Host, others: &BTreeMap<IpAddr, (&Spanned<Prefix>, &str)>) -> Result<()> {
        let (prefix, span) = (host.entropy.get_ref(), host.entropy.span());
        if !prefix.address().is_ipv4() || !(8..=30).contains(&prefix.length()) {
            return self.wrong(span, "not an IPv4 prefix from /8 to /30", "a /24 has room for 256 paths");
        }
        if self.it.network.prefixes.get_ref().iter().any(|it| it.overlaps(prefix)) {
            return self.wrong(span, "`entropy` overlaps `prefixes`", "outer sources are locator addresses");
        }
        // The others do not overlap each other: only neighbours can overlap this one.
        let (before, after) = (others.range(..=prefix.address()).next_back(), others.range(prefix.address()..).next());
        match before.into_iter().chain(after).map(|(_, it)| it).find(|(other, _)| other.get_ref().overlaps(prefix)) {
            None => Ok(()),
            Some((other, owner)) => {
                let message = format!("{prefix} overlaps that of {owner} (line {})", self.place.line(other.span()));
                self.wrong(span, &message, "give each host its own prefix, routed to it")
            }
        }
    }

    fn rack_of(&self, host: &Host, ports: &mut Once<String>) -> Result<()> {
        let needs_tor = self.it.network.locator == LocatorMode::Tor;
        let Some(rack) = &host.rack else {
            let message = format!("host {} has no rack", host.name.get_ref());
            let help = "add `rack`, which names its ToR; or write locator = \"host\" in [network]";
            return if needs_tor { self.wrong(host.name.span(), &message, help) } else { Ok(()) };
        };
        let Some(tor) = self.it.tor(host) else {
            let known = list(self.it.rack.iter().map(|it| it.name.get_ref()));
            let help = format!("add [[rack]] of that name, or name one of: {known}");
            return self.wrong(rack.span(), &format!("there is no rack `{}`", rack.get_ref()), &help);
        };
        if !needs_tor || !tor.agent {
            return Ok(());
        }
        let Some(port) = &host.port else {
            let message = format!("host {} has no port", host.name.get_ref());
            return self.wrong(host.name.span(), &message, &format!("add the port of {} that leads to it", tor.name.get_ref()));
        };
        if !tor.ports.contains(port.get_ref()) {
            let message = format!("{} has no port `{}`", tor.name.get_ref(), port.get_ref());
            return self.wrong(port.span(), &message, &format!("it has: {}", list(tor.ports.iter())));
        }
        let full = Spanned::new(port.span(), format!("{} of {}", port.get_ref(), tor.name.get_ref()));
        ports.add(self, &full, host.name.get_ref())
    }
}

/// Whom an agent reports to, at most.
const SCHEDULERS_MAX: usize = 4;
