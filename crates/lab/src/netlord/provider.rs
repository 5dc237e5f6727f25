//! The DHCP server of a lab: dnsmasq, in a namespace of its own on the VLAN that reaches all agents.

use std::path::{Path, PathBuf};

use crate::agents::OverlayFiles;
use crate::error::{LabError, Result};
use crate::plan::Plan;
use crate::plan::netlord::Provider;
use crate::programs::{self, StartedProgram};

/// Checks that the server is installed, before anything is made.
///
/// # Errors
/// [`LabError::Missing`].
pub(super) fn check() -> Result<()> {
    find().map(drop)
}

fn find() -> Result<PathBuf> {
    let usual = Path::new("/usr/sbin").join(DNSMASQ);
    let missing = || LabError::Missing { program: DNSMASQ.to_owned(), package: "dnsmasq-base" };
    if usual.is_file() { Ok(usual) } else { programs::find(DNSMASQ).map_err(|_| missing()) }
}

/// Starts the server. It answers shortly after; agents ask until it does.
pub(super) fn start(plan: &Plan, provider: &Provider, files: &OverlayFiles) -> Result<StartedProgram> {
    let mask = u32::MAX << (32 - provider.subnet.len);
    let mut arguments: Vec<String> = ["--keep-in-foreground", "--conf-file=/dev/null", "--port=0", "--interface=eth0"]
        .into_iter()
        .chain(["--bind-interfaces", "--dhcp-authoritative", "--no-ping", "--user=root", "--pid-file", "--log-facility=-"])
        .map(str::to_owned)
        .collect();
    let (subnet, mask) = (provider.subnet.address, std::net::Ipv4Addr::from_bits(mask));
    arguments.push(format!("--dhcp-range={subnet},static,{mask},{LEASE}"));
    arguments.push(format!("--dhcp-leasefile={}", files.text("dhcp.leases")));
    arguments.extend(provider.leases.iter().map(|lease| format!("--dhcp-host={},{}", lease.mac, lease.address)));
    programs::start(&find()?, &arguments, &plan.nodes[provider.server].namespace, &files.path("dhcp.log"))
}

const DNSMASQ: &str = "dnsmasq";
const LEASE: &str = "1h";
