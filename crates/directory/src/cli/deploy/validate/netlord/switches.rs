//! Switches of NetLord, and the cables between them.

use weft_control::netlord::is_unicast;
use weft_fabric::MacAddr;

use super::Ports;
use crate::cli::deploy::error::Result;
use crate::cli::deploy::netlord::inventory::{Netlord, Role, Switch};
use crate::cli::deploy::validate::{Check, Once, is_interface};

impl Check<'_> {
    pub(super) fn bridges(&self, netlord: &Netlord, ports: &mut Ports) -> Result<()> {
        if !netlord.switch.iter().any(|it| it.role == Role::Edge) {
            let help = "add [[netlord.switch]] with role = \"edge\" for each switch that servers are connected to";
            return self.wrong(self.it.place_of_netlord(), "no edge switch", help);
        }
        let mut macs = Once::of("the MAC address");
        for switch in &netlord.switch {
            let name = switch.name.get_ref();
            self.mac_of_bridge(switch, &mut macs)?;
            if let Some(entries) = &switch.fib_entries
                && !(1..=65_536).contains(entries.get_ref())
            {
                let message = format!("{} is not 1 to 65536", entries.get_ref());
                return self.wrong(entries.span(), &message, "write how many addresses the switch holds, or leave it out");
            }
            for device in &switch.untagged {
                if !is_interface(device.get_ref()) {
                    return self.wrong(device.span(), "not a name of an interface", "up to 15 letters, as `ip link` has it");
                }
                let port = toml::Spanned::new(device.span(), format!("{name}:{}", device.get_ref()));
                ports.add(self, &port, &format!("`untagged` of {name}"))?;
            }
        }
        Ok(())
    }

    fn mac_of_bridge(&self, switch: &Switch, macs: &mut Once<String>) -> Result<()> {
        let name = switch.name.get_ref();
        match (&switch.mac, switch.role) {
            (None, Role::Core) => Ok(()),
            (None, Role::Edge) => {
                let help = "write `mac`, the address that agents send to, such as \"02:4e:4c:00:00:01\"; no other switch has it";
                self.wrong(switch.name.span(), &format!("edge switch {name} has no MAC address"), help)
            }
            (Some(mac), Role::Core) => {
                let help = "leave `mac` out; or write role = \"edge\", if servers are connected to it";
                self.wrong(mac.span(), &format!("core switch {name} is sent nothing to"), help)
            }
            (Some(mac), Role::Edge) => match mac.get_ref().parse::<MacAddr>() {
                Ok(address) if is_unicast(address) => {
                    macs.add(self, &toml::Spanned::new(mac.span(), address.to_string()), &format!("switch {name}"))
                }
                _ => {
                    let message = format!("`{}` is not the MAC address of one switch", mac.get_ref());
                    self.wrong(mac.span(), &message, "write such as \"02:4e:4c:00:00:01\"")
                }
            },
        }
    }

    pub(super) fn cables(&self, netlord: &Netlord, ports: &mut Ports) -> Result<()> {
        for cable in &netlord.cable {
            let [a, b] = cable.ends.get_ref().as_slice() else {
                let help = "write ends = [\"edge1:swp49\", \"core1:swp1\"]; of a server, write `uplinks` in its [[netlord.host]]";
                return self.wrong(cable.ends.span(), "a cable has two ends", help);
            };
            let owner = format!("the cable {} to {}", a.get_ref(), b.get_ref());
            let (from, to) = (self.plug(netlord, a, &owner, ports)?, self.plug(netlord, b, &owner, ports)?);
            if from.name.get_ref() == to.name.get_ref() {
                let message = format!("both ends are at {}", from.name.get_ref());
                return self.wrong(b.span(), &message, "name the switch at the other end");
            }
        }
        Ok(())
    }

    /// A switch that nothing is plugged into has nothing to configure.
    pub(super) fn plugged(&self, netlord: &Netlord) -> Result<()> {
        let ends = netlord.cable.iter().flat_map(|it| it.ends.get_ref()).map(|it| it.get_ref().as_str());
        let uplinks = netlord.host.iter().flat_map(|it| &it.uplinks).map(|it| it.port.get_ref().as_str());
        let plugged: std::collections::BTreeSet<&str> =
            ends.chain(uplinks).filter_map(|it| Some(it.split_once(':')?.0)).collect();
        match netlord.switch.iter().find(|it| !plugged.contains(it.name.get_ref().as_str())) {
            None => Ok(()),
            Some(switch) => {
                let message = format!("switch {} has no cable", switch.name.get_ref());
                self.wrong(switch.name.span(), &message, "add [[netlord.cable]] with its `ends`, or remove the switch")
            }
        }
    }
}
