//! What the kernel's routes say of other switches.

use std::collections::BTreeSet;
use std::io;
use std::net::Ipv4Addr;
use std::process::{Command, Stdio};

use serde::Deserialize;

/// What says that they may have changed.
pub(super) const CHANGES: i32 = libc::RTMGRP_IPV4_ROUTE | libc::RTMGRP_LINK;

#[derive(Deserialize)]
struct Route {
    dst: String,
    #[serde(default)]
    flags: Vec<String>,
    #[serde(default)]
    nexthops: Vec<Hop>,
    #[serde(rename = "type")]
    kind: Option<String>,
}

#[derive(Deserialize)]
struct Hop {
    #[serde(default)]
    flags: Vec<String>,
}

#[derive(Deserialize)]
struct Device {
    #[serde(default)]
    addr_info: Vec<Address>,
}

#[derive(Deserialize)]
struct Address {
    local: Option<String>,
}

/// Those of the switches to which there is a route of their own that works.
pub(super) fn reachable(switches: &[Ipv4Addr]) -> io::Result<BTreeSet<Ipv4Addr>> {
    Ok(read_routes(&ip(&["-j", "-4", "route", "show"])?, switches))
}

fn read_routes(text: &str, switches: &[Ipv4Addr]) -> BTreeSet<Ipv4Addr> {
    let routes: Vec<Route> = serde_json::from_str(text).unwrap_or_default();
    let is_dead = |flags: &[String]| flags.iter().any(|flag| flag == "dead" || flag == "linkdown");
    let works = |route: &Route| {
        let hops_dead = !route.nexthops.is_empty() && route.nexthops.iter().all(|hop| is_dead(&hop.flags));
        route.kind.as_deref().is_none_or(|kind| kind == "unicast") && !is_dead(&route.flags) && !hops_dead
    };
    let to = |route: &Route| route.dst.trim_end_matches("/32").parse::<Ipv4Addr>().ok();
    routes.iter().filter(|route| works(route)).filter_map(to).filter(|address| switches.contains(address)).collect()
}

/// Those of the addresses that stand on `lo`.
pub(super) fn on_loopback(addresses: &[Ipv4Addr]) -> io::Result<BTreeSet<Ipv4Addr>> {
    let text = ip(&["-j", "-4", "addr", "show", "dev", "lo"])?;
    let devices: Vec<Device> = serde_json::from_str(&text).unwrap_or_default();
    let all = devices.iter().flat_map(|device| &device.addr_info).filter_map(|address| address.local.as_ref()?.parse().ok());
    Ok(all.filter(|address| addresses.contains(address)).collect())
}

/// Has an address on `lo`, or has it no more.
pub(super) fn set_loopback(address: Ipv4Addr, is_there: bool) -> io::Result<()> {
    let verb = if is_there { "replace" } else { "del" };
    ip(&["addr", verb, &format!("{address}/32"), "dev", "lo"]).map(|_| ())
}

fn ip(arguments: &[&str]) -> io::Result<String> {
    let output = Command::new("ip").args(arguments).stdin(Stdio::null()).output()?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let message = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(io::Error::other(format!("ip {}: {message}", arguments.join(" "))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routes_show_who_can_be_reached() {
        let text = r#"[{"dst":"10.0.0.1","gateway":"172.16.0.1","dev":"p0","flags":[]},
            {"dst":"10.0.0.2","protocol":"ospf","flags":[],"nexthops":[{"dev":"p0","flags":["dead","linkdown"]},{"dev":"p1","flags":[]}]},
            {"dst":"10.0.0.3","flags":["linkdown"],"dev":"p0"}, {"type":"unreachable","dst":"10.0.0.4","flags":[]},
            {"dst":"10.0.0.5","flags":[],"nexthops":[{"flags":["dead"]}]}, {"dst":"10.0.0.0/24","flags":[]}, {"dst":"default","flags":[]},
            {"dst":"10.0.0.9","flags":[]}]"#;
        let all: Vec<Ipv4Addr> = (0..6).map(|i| Ipv4Addr::new(10, 0, 0, i)).collect();
        let found: Vec<u8> = read_routes(text, &all).iter().map(|ip| ip.octets()[3]).collect();
        assert_eq!(found, [1, 2]);
        assert!(read_routes("", &all).is_empty());
    }
}
