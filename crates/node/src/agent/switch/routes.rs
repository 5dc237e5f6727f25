//! What the kernel's routes say of other switches, and word of their changes.

use std::collections::BTreeSet;
use std::io::{self, Read as _};
use std::net::Ipv4Addr;
use std::os::fd::{AsRawFd as _, RawFd};
use std::process::{Command, Stdio};

use serde::Deserialize;
use socket2::{Domain, Protocol, SockAddr, Socket, Type};

/// Becomes readable when routes or links change.
#[derive(Debug)]
pub(super) struct RouteWatch(Socket);

impl RouteWatch {
    /// Listens to the kernel, in the network namespace of the calling thread.
    pub fn open() -> io::Result<Self> {
        let socket = Socket::new(Domain::from(libc::AF_NETLINK), Type::RAW, Some(Protocol::from(libc::NETLINK_ROUTE)))?;
        socket.set_nonblocking(true)?;
        // SAFETY: the storage that `try_init` hands out is zeroed and larger than a sockaddr_nl, whose fields are plain numbers.
        let ((), address) = unsafe {
            SockAddr::try_init(|storage, length| {
                let address = storage.cast::<libc::sockaddr_nl>();
                (*address).nl_family = libc::AF_NETLINK as libc::sa_family_t;
                (*address).nl_groups = (libc::RTMGRP_IPV4_ROUTE | libc::RTMGRP_LINK) as u32;
                *length = size_of::<libc::sockaddr_nl>() as libc::socklen_t;
                Ok(())
            })
        }?;
        socket.bind(&address)?;
        Ok(Self(socket))
    }

    pub fn descriptor(&self) -> RawFd {
        self.0.as_raw_fd()
    }

    /// Whether anything has changed since; what, is to be read from the kernel. More than there was room for is a change too.
    pub fn has_changed(&self) -> bool {
        let mut changed = false;
        let mut buffer = [0; 8192];
        loop {
            match (&self.0).read(&mut buffer) {
                Ok(_) => changed = true,
                Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => changed = true,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return changed,
            }
        }
    }
}

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
    fn routes_tell_who_can_be_reached() {
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

    #[test]
    fn the_kernel_can_be_listened_to() {
        let watch = RouteWatch::open().unwrap();
        assert!(!watch.has_changed() && watch.descriptor() > 0);
    }
}
