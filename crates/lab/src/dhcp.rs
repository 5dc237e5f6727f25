//! DHCP of a lab: dnsmasq as the server, busybox's udhcpc as the client, each in the namespace of a node.

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

use crate::agents::OverlayFiles;
use crate::error::{LabError, Result};
use crate::plan::{Net, Node};
use crate::programs::{self, StartedProgram};

/// A server of DHCP, and what it leases. It need not have an address of the subnet itself.
pub(crate) struct Server<'a> {
    /// Where it runs; it listens on `eth0`.
    pub node: &'a Node,
    /// The subnet of the leases.
    pub subnet: Net,
    /// MAC addresses, and the address that each is leased.
    pub leases: Vec<(String, Ipv4Addr)>,
}

impl Server<'_> {
    /// Checks that the server is installed, before anything is made.
    ///
    /// # Errors
    /// [`LabError::Missing`].
    pub(crate) fn check() -> Result<()> {
        find(DNSMASQ, "dnsmasq-base").map(drop)
    }

    /// Starts the server. It answers shortly after; clients ask until it does.
    pub(crate) fn start(&self, files: &OverlayFiles) -> Result<StartedProgram> {
        let mut arguments: Vec<String> = ["--keep-in-foreground", "--conf-file=/dev/null", "--port=0", "--interface=eth0"]
            .into_iter()
            .chain(["--bind-interfaces", "--dhcp-authoritative", "--no-ping", "--user=root", "--pid-file", "--log-facility=-"])
            .map(str::to_owned)
            .collect();
        let (subnet, mask) = (self.subnet.address, self.subnet.mask());
        arguments.push(format!("--dhcp-range={subnet},static,{mask},{LEASE}"));
        arguments.push(format!("--dhcp-leasefile={}", files.text("dhcp.leases")));
        arguments.extend(self.leases.iter().map(|(mac, address)| format!("--dhcp-host={mac},{address}")));
        programs::start(&find(DNSMASQ, "dnsmasq-base")?, &arguments, &self.node.namespace, &files.path("dhcp.log"))
    }
}

/// Checks that the client is installed.
///
/// # Errors
/// [`LabError::Missing`].
pub(crate) fn check_client() -> Result<()> {
    find(UDHCPC, UDHCPC).map(drop)
}

/// Starts a client on `eth0` of a node, which keeps asking until it has a lease, and renews it. `script` configures the interface; the log is `name.dhcp.log`.
pub(crate) fn start_client(node: &Node, name: &str, script: &str, files: &OverlayFiles) -> Result<()> {
    let arguments = ["-f", "-i", "eth0", "-s", script, "-t", "5", "-T", "1", "-A", "1"].map(str::to_owned);
    let log = files.path(&format!("{name}.dhcp.log"));
    programs::start(&find(UDHCPC, UDHCPC)?, &arguments, &node.namespace, &log).map(drop)
}

/// A program, where the system keeps it or where this process looks for programs.
pub(crate) fn find(program: &str, package: &'static str) -> Result<PathBuf> {
    let missing = || LabError::Missing { program: program.to_owned(), package };
    let usual = Path::new("/usr/sbin").join(program);
    if usual.is_file() { Ok(usual) } else { programs::find(program).map_err(|_| missing()) }
}

pub(crate) const DNSMASQ: &str = "dnsmasq";
pub(crate) const UDHCPC: &str = "udhcpc";
const LEASE: &str = "1h";
