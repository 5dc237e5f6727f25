//! The host's NIC and its routes, as the kernel has them: asked by `ip` and /proc, changed by `ip`.

use std::net::{IpAddr, Ipv4Addr, UdpSocket};

use weft_control::prefix::Prefix;
use weft_fabric::MacAddr;

use crate::dataplane::nic;
use crate::error::{Error, Result};
use crate::iproute::{command, ip, run};

/// What the kernel says of the NIC.
#[derive(Clone, Debug)]
pub(super) struct Link {
    pub device: String,
    pub index: u32,
    pub mac: MacAddr,
    /// Bytes of IP in a frame.
    pub mtu: u32,
    pub is_up: bool,
}

/// Destination and MTU of a route.
pub(super) type Route = (String, Option<u32>);

impl Link {
    /// Looks at a device of the thread's network namespace.
    pub fn find(device: &str) -> Result<Self> {
        let wrong = || Error::NoDevice(device.to_owned());
        let found = ip(&["-j", "link", "show", "dev", device]).map_err(|_| wrong())?;
        let link = &found[0];
        Ok(Self {
            device: device.to_owned(),
            index: link["ifindex"].as_u64().and_then(|it| u32::try_from(it).ok()).ok_or_else(wrong)?,
            mac: link["address"].as_str().and_then(|it| it.parse().ok()).ok_or_else(wrong)?,
            mtu: link["mtu"].as_u64().and_then(|it| u32::try_from(it).ok()).ok_or_else(wrong)?,
            is_up: link["flags"].as_array().is_some_and(|flags| flags.iter().any(|it| it == "LOWER_UP")),
        })
    }

    /// Its addresses.
    pub fn addresses(&self) -> Result<Vec<IpAddr>> {
        let found = ip(&["-j", "addr", "show", "dev", &self.device])?;
        let all = found[0]["addr_info"].as_array().cloned().unwrap_or_default();
        Ok(all.iter().filter_map(|it| it["local"].as_str()?.parse().ok()).collect())
    }

    /// The next hop of what is encapsulated: of the default route, or else of the route to `towards`.
    pub fn gateway(&self, towards: IpAddr) -> Option<Ipv4Addr> {
        let routes = ip(&["-j", "-4", "route", "show", "default", "dev", &self.device]).ok()?;
        let of_default = routes[0]["gateway"].as_str().and_then(|it| it.parse().ok());
        of_default.or_else(|| {
            let route = ip(&["-j", "route", "get", &towards.to_string()]).ok()?;
            let by =
                route[0]["gateway"].as_str().or(route[0]["dst"].as_str()).filter(|_| route[0]["dev"] == self.device.as_str());
            by?.parse().ok()
        })
    }

    /// Whether a program is on a hook (`ingress`, `egress`) of the device.
    pub fn has_program(&self, hook: &str, program: &str) -> bool {
        let shown = command("tc", &["filter", "show", "dev", &self.device, hook]);
        shown.is_ok_and(|text| text.split_whitespace().any(|word| word == program || word.starts_with(&format!("{program}:"))))
    }

    /// Routes of application addresses on this device: destination, MTU.
    pub fn application_routes(&self, prefixes: &[Prefix]) -> Vec<Route> {
        let mut all = Vec::new();
        for family in ["-4", "-6"] {
            let Ok(routes) = ip(&["-j", family, "route", "show", "dev", &self.device]) else { continue };
            for route in routes.as_array().into_iter().flatten() {
                let Some(destination) = route["dst"].as_str() else { continue };
                let Ok(prefix) = destination.parse::<Prefix>() else { continue };
                if prefixes.iter().any(|it| it.overlaps(&prefix)) && prefix.length() > 0 {
                    let mtu = route["metrics"].as_array().into_iter().flatten().find_map(|it| it["mtu"].as_u64());
                    all.push((destination.to_owned(), mtu.and_then(|it| u32::try_from(it).ok())));
                }
            }
        }
        all
    }

    /// Makes routes of application addresses so narrow that outer headers have room. Which were changed.
    pub fn narrow_routes(&self, routes: &mut [Route], mtu: u32) -> Vec<String> {
        let mut changed = Vec::new();
        for (destination, old) in routes {
            if *old == Some(mtu) {
                continue;
            }
            match self.narrow(destination, mtu) {
                Ok(()) => {
                    *old = Some(mtu);
                    changed.push(destination.clone());
                }
                Err(error) => tracing::warn!(%error, destination, mtu, "the route's MTU cannot be set"),
            }
        }
        changed
    }

    /// The same route once more, as `ip` itself shows it, with an MTU.
    fn narrow(&self, destination: &str, mtu: u32) -> Result<()> {
        let family = if destination.contains(':') { "-6" } else { "-4" };
        let shown = run(&[family, "route", "show", destination, "dev", &self.device])?;
        let mtu = mtu.to_string();
        let mut words: Vec<&str> = shown.lines().next().unwrap_or_default().split_whitespace().collect();
        // States are not arguments; an MTU that is there is replaced.
        words.retain(|word| !matches!(*word, "linkdown" | "dead" | "onlink"));
        if let Some(at) = words.iter().position(|word| *word == "mtu") {
            words.drain(at..(at + 2).min(words.len()));
        }
        if let Some(at) = words.iter().position(|word| *word == "pref") {
            words.drain(at..(at + 2).min(words.len()));
        }
        let mut arguments = vec![family, "route", "change"];
        arguments.extend(words);
        arguments.extend(["dev", &self.device, "mtu", &mtu]);
        run(&arguments).map(drop)
    }
}

/// The MAC address of a neighbour on a device, from the kernel's table.
pub(super) fn neighbour(address: Ipv4Addr, device: &str) -> Option<MacAddr> {
    // The thread's own namespace; /proc/net is the process's.
    let table = std::fs::read_to_string("/proc/thread-self/net/arp").ok()?;
    let address = address.to_string();
    table.lines().skip(1).find_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [ip, _, flags, mac, _, dev] = words[..] else { return None };
        let is_complete = u32::from_str_radix(flags.trim_start_matches("0x"), 16).is_ok_and(|it| it & COMPLETE != 0);
        (ip == address && dev == device && is_complete).then(|| mac.parse().ok())?
    })
}

/// Makes the kernel resolve a neighbour's MAC address.
pub(super) fn trigger_arp(address: Ipv4Addr) {
    const DISCARD: u16 = 9;
    if let Ok(socket) = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)) {
        let _ = socket.send_to(&[], (address, DISCARD));
    }
}

/// Whether an offload is on.
pub(super) fn offload(device: &str, command: u32) -> Option<bool> {
    nic::ethtool_value(device, command).ok().map(|value| value != 0)
}

/// `ETHTOOL_GTSO`, `ETHTOOL_GGSO`, `ETHTOOL_GGRO`.
pub(super) const TSO: u32 = 0x1e;
pub(super) const GSO: u32 = 0x23;
pub(super) const GRO: u32 = 0x2b;
/// Of a neighbour: it has a MAC address.
const COMPLETE: u32 = 2;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_found_and_has_no_gateway() {
        let link = Link::find("lo").unwrap();
        assert!(link.index > 0 && link.mtu > 1500);
        assert!(Link::find("nosuchdevice").is_err());
        assert!(neighbour([192, 0, 2, 1].into(), "lo").is_none());
        assert!(offload("nosuchdevice", GSO).is_none());
    }
}
