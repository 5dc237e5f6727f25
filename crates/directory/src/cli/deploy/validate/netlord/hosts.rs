//! Servers of NetLord: where they are, who they are.

use std::collections::{BTreeMap, BTreeSet};

use ipnet::Ipv4Net;
use toml::Spanned;
use weft_control::netlord::EdgePort;
use weft_control::wire::netlord::dhcp::is_host;

use super::Ports;
use crate::cli::deploy::error::Result;
use crate::cli::deploy::limits;
use crate::cli::deploy::netlord::inventory::{Host, Netlord, Role, Uplink};
use crate::cli::deploy::validate::{Check, Once, is_interface};

impl Check<'_> {
    pub(super) fn netlord_hosts(&self, netlord: &Netlord, ports: &mut Ports) -> Result<()> {
        self.limits(&netlord.limits, limits::NETLORD)?;
        if netlord.host.is_empty() {
            let help = "add [[netlord.host]] with `name` and `uplinks`";
            return self.wrong(self.it.place_of_netlord(), "no servers", help);
        }
        let (mut numbers, mut addresses) = (Once::of("the number"), Once::of("the address"));
        for host in &netlord.host {
            let name = host.name.get_ref();
            self.limits(&host.limits, limits::NETLORD)?;
            if host.uplinks.is_empty() {
                let help = "add uplinks = [{ device = \"eth0\", port = \"edge1:swp1\", number = 1 }]";
                return self.wrong(host.name.span(), &format!("host {name} is connected to no switch"), help);
            }
            if host.uplinks.len() > UPLINKS_MAX {
                let message = format!("host {name} has {} uplinks, more than {UPLINKS_MAX}", host.uplinks.len());
                return self.wrong(host.name.span(), &message, "remove some");
            }
            let mut devices = Once::of("the interface");
            for uplink in &host.uplinks {
                self.uplink(netlord, uplink, name, ports, &mut numbers)?;
                devices.add(self, &uplink.device, name)?;
            }
            self.provider(host, &mut addresses)?;
            if self.it.has_directory() && host.principal.is_none() {
                let message = format!("host {name} has no principal");
                return self.wrong(
                    host.name.span(),
                    &message,
                    "add `principal`: the directory has servers, which its agent asks",
                );
            }
        }
        Ok(())
    }

    fn uplink(
        &self,
        netlord: &Netlord,
        uplink: &Uplink,
        name: &str,
        ports: &mut Ports,
        numbers: &mut Once<String>,
    ) -> Result<()> {
        if !is_interface(uplink.device.get_ref()) {
            return self.wrong(uplink.device.span(), "not a name of an interface", "up to 15 letters, as `ip link` has it");
        }
        let switch = self.plug(netlord, &uplink.port, &format!("{} of {name}", uplink.device.get_ref()), ports)?;
        let at = switch.name.get_ref();
        if switch.role != Role::Edge {
            let message = format!("{at} is a core switch: {name} cannot be connected to it");
            return self.wrong(uplink.port.span(), &message, "name an edge switch, or write role = \"edge\" and `mac` there");
        }
        let number = uplink.number.get_ref();
        if EdgePort::new(*number).is_none() {
            let message = format!("port number {number} is not 1 to {}", EdgePort::LAST);
            return self.wrong(uplink.number.span(), &message, "the number is in the server's outer address: choose another one");
        }
        numbers.add(self, &Spanned::new(uplink.number.span(), format!("{number} at {at}")), name)
    }

    /// As the agent reads it.
    fn provider(&self, host: &Host, addresses: &mut Once<String>) -> Result<()> {
        let Some(address) = host.provider.as_ref().filter(|it| it.get_ref() != "dhcp") else { return Ok(()) };
        let is_inside = |net: &Ipv4Net| net.prefix_len() >= 31 || ![net.network(), net.broadcast()].contains(&net.addr());
        let is_good = |net: &Ipv4Net| net.prefix_len() > 0 && is_inside(net) && is_host(net.addr());
        match address.get_ref().parse::<Ipv4Net>().ok().filter(is_good) {
            None => {
                let message = format!("`{}` is not an IPv4 address of a host with its prefix, and not `dhcp`", address.get_ref());
                self.wrong(address.span(), &message, "write \"10.1.0.7/16\", or \"dhcp\"")
            }
            Some(net) => addresses.add(self, &Spanned::new(address.span(), net.addr().to_string()), host.name.get_ref()),
        }
    }

    /// Who knows where VIFs are, and what it needs.
    pub(super) fn locations(&self, netlord: &Netlord) -> Result<()> {
        if let Some(service) = &netlord.service {
            self.service(service)?;
        }
        let Some(locations) = netlord.locations.as_ref().filter(|_| netlord.is_pull()) else { return Ok(()) };
        if !self.it.has_directory() {
            let help = "add [[directory.server]]; or leave `locations` out: agents announce their VIFs";
            return self.wrong(locations.span(), "there is no directory to ask", help);
        }
        if netlord.service.is_none() {
            let help = "add [[service]], and its name as `service` in [netlord]";
            return self.wrong(locations.span(), "agents may not look up bindings of no service", help);
        }
        match netlord.host.iter().find(|it| it.uplinks.len() > 1) {
            None => Ok(()),
            Some(host) => {
                let message = format!(
                    "host {} has several uplinks, between which its VIFs move, and the directory has one place of a VIF",
                    host.name.get_ref()
                );
                let help = "leave one uplink; or leave `locations` out of [netlord]: agents announce their VIFs";
                self.wrong(host.uplinks[1].device.span(), &message, help)
            }
        }
    }

    /// VIFs on their servers.
    pub(super) fn vifs(&self, netlord: &Netlord) -> Result<()> {
        let mut devices = Once::of("the interface");
        let hosts: BTreeMap<&str, &Host> = netlord.host.iter().map(|it| (it.name.get_ref().as_str(), it)).collect();
        let readers = netlord.tenant.iter().filter_map(|it| Some((it.name.get_ref().as_str(), it.readers.as_ref()?)));
        let readers: BTreeMap<&str, &Vec<Spanned<String>>> = readers.collect();
        for vif in &netlord.vif {
            let (name, tenant) = (vif.name.get_ref(), vif.tenant.get_ref());
            let owner = format!("VIF {name} of {tenant}");
            let Some(at) = &vif.host else {
                let Some(device) = &vif.device else { continue };
                return self.wrong(
                    device.span(),
                    &format!("{owner} has an interface and no host"),
                    "add `host`, or remove `device`",
                );
            };
            let host = hosts.get(at.get_ref().as_str()).map_or_else(|| self.host_of(netlord, at), |it| Ok(*it))?;
            if readers.get(tenant.as_str()).is_some_and(|it| !it.iter().any(|reader| reader.get_ref() == at.get_ref())) {
                let message = format!("{owner} is on {}, which may not read its tenant", at.get_ref());
                return self.wrong(at.span(), &message, &format!("add it to `readers` of {tenant}, or name one of these"));
            }
            let Some(device) = &vif.device else { continue };
            if !is_interface(device.get_ref()) {
                return self.wrong(device.span(), "not a name of an interface", "up to 15 letters, as `ip link` has it");
            }
            if self.taken(host).contains(device.get_ref().as_str()) {
                let message = format!("{} of {} is no interface of a VM", device.get_ref(), at.get_ref());
                return self.wrong(device.span(), &message, "name the interface that leads to the VM");
            }
            devices.add(self, &Spanned::new(device.span(), format!("{} of {}", device.get_ref(), at.get_ref())), &owner)?;
        }
        Ok(())
    }

    /// A server by its name.
    pub(super) fn host_of<'a>(&self, netlord: &'a Netlord, name: &Spanned<String>) -> Result<&'a Host> {
        if let Some(host) = netlord.host.iter().find(|it| it.name.get_ref() == name.get_ref()) {
            return Ok(host);
        }
        if self.it.host.iter().any(|it| it.name.get_ref() == name.get_ref()) {
            let message = format!("host {} is VL2's, which has no tenants", name.get_ref());
            return self.wrong(name.span(), &message, "name a server of [[netlord.host]]");
        }
        let help = "add [[netlord.host]] of that name, or name one that there is";
        self.wrong(name.span(), &format!("there is no host `{}`", name.get_ref()), help)
    }

    /// Interfaces that lead to the fabric, and those that the agent makes.
    fn taken<'a>(&self, host: &'a Host) -> BTreeSet<&'a str> {
        let own = ["weft1", "weft1-vif"].into_iter().filter(|_| host.provider.is_some());
        host.uplinks.iter().map(|it| it.device.get_ref().as_str()).chain(own).collect()
    }
}

/// Of one server.
const UPLINKS_MAX: usize = 64;
