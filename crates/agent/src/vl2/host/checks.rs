//! Whether the system is as the agent needs it: what `weft agent status` lists as checks.

use serde::Serialize;
use weft_control::prefix::Prefix;

use super::config::{HostConfig, Intermediate};
use super::link::{self, Link, Route};

/// How well something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum State {
    Ok,
    /// It works, and not as it could.
    Warn,
    /// Packets are lost.
    Bad,
}

/// Something that was looked at.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Check {
    pub name: &'static str,
    pub state: State,
    pub detail: String,
    pub remedy: Option<String>,
}

impl Check {
    fn new(name: &'static str, state: State, detail: impl Into<String>, remedy: &str) -> Self {
        let remedy = Some(remedy.to_owned()).filter(|_| state != State::Ok);
        Self { name, state, detail: detail.into(), remedy }
    }
}

/// Bytes that are left of a packet of the fabric.
pub(super) const fn inner_mtu(config: &HostConfig, fabric: u32) -> u32 {
    let headers = if matches!(config.intermediate, Intermediate::Group) { 2 } else { 1 };
    fabric.saturating_sub(headers * 20)
}

/// Looks at everything.
pub(super) fn all(config: &HostConfig, link: &Link, routes: &[Route], has_gateway: bool) -> Vec<Check> {
    let mut checks =
        vec![carrier(link), mtu(config, link, routes), rp_filter(&link.device), segmentation(&link.device), neighbours(config)];
    checks.push(match has_gateway {
        true => Check::new("gateway", State::Ok, "its MAC address is known", ""),
        false => Check::new(
            "gateway",
            State::Bad,
            "the next hop's MAC address is not known",
            "is there a route? `ip route`, `ip neigh`; or set `gateway_mac`",
        ),
    });
    checks
}

fn carrier(link: &Link) -> Check {
    let remedy = format!("ip link set {} up; look at the cable", link.device);
    match link.is_up {
        true => Check::new("carrier", State::Ok, "up", ""),
        false => Check::new("carrier", State::Bad, "down", &remedy),
    }
}

fn mtu(config: &HostConfig, link: &Link, routes: &[Route]) -> Check {
    let fabric = config.fabric_mtu(link);
    let inner = inner_mtu(config, fabric);
    let wide: Vec<&str> = routes.iter().filter(|(_, mtu)| mtu.unwrap_or(link.mtu) > inner).map(|(it, _)| it.as_str()).collect();
    if routes.is_empty() {
        let remedy = "put the application address on the device, with the whole prefix: ip addr add 20.0.0.5/8 dev eth0";
        return Check::new("mtu", State::Bad, "no route of application addresses leads to the device", remedy);
    }
    if wide.is_empty() {
        return Check::new("mtu", State::Ok, format!("fabric {fabric}, application addresses {inner}"), "");
    }
    let remedy = format!("ip route change {} dev {} mtu {inner}", wide[0], link.device);
    Check::new("mtu", State::Warn, format!("routes wider than {inner}: {}", wide.join(", ")), &remedy)
}

fn rp_filter(device: &str) -> Check {
    let read = |name: &str| {
        let path = format!("/proc/sys/net/ipv4/conf/{name}/rp_filter");
        std::fs::read_to_string(path).ok().and_then(|text| text.trim().parse::<u8>().ok()).unwrap_or(0)
    };
    match read("all").max(read(device)) {
        0 => Check::new("rp_filter", State::Ok, "off", ""),
        2 => Check::new("rp_filter", State::Ok, "loose", ""),
        _ => {
            let remedy = format!("sysctl net.ipv4.conf.{device}.rp_filter=2, if the host has other NICs");
            Check::new("rp_filter", State::Warn, "strict: what would be answered by another NIC is dropped", &remedy)
        }
    }
}

/// The kernel has an entry for each address of a network that it talks to, and by default room for 1,024.
fn neighbours(config: &HostConfig) -> Check {
    let of = |prefix: &Prefix| if prefix.address().is_ipv4() { "ipv4" } else { "ipv6" };
    let place = |family| format!("/proc/sys/net/{family}/neigh/default/gc_thresh3");
    let room = |family| std::fs::read_to_string(place(family)).ok().and_then(|text| text.trim().parse::<u32>().ok());
    // Only the first namespace of a system knows; the table is the same for all.
    let least = config.prefixes.get_ref().iter().map(of).filter_map(|family| Some((room(family)?, family))).min();
    match least {
        None => Check::new("neighbours", State::Ok, "their limit is not to be seen from here", ""),
        Some((room, _)) if room >= config.limits.peers => Check::new("neighbours", State::Ok, format!("room for {room}"), ""),
        Some((room, family)) => {
            let peers = config.limits.peers;
            let remedy = format!("sysctl net.{family}.neigh.default.gc_thresh3={peers}, if the host talks to more");
            Check::new("neighbours", State::Warn, format!("room for {room} of {peers} peers"), &remedy)
        }
    }
}

fn segmentation(device: &str) -> Check {
    let on = |command| match link::offload(device, command) {
        Some(true) => "on",
        Some(false) => "off",
        None => "unknown",
    };
    let detail = format!("TSO {}, GSO {}, GRO {}", on(link::TSO), on(link::GSO), on(link::GRO));
    let is_well = link::offload(device, link::GSO) != Some(false) && link::offload(device, link::GRO) != Some(false);
    let remedy = format!("ethtool -K {device} tso on gso on gro on");
    Check::new("offloads", if is_well { State::Ok } else { State::Warn }, detail, &remedy)
}
