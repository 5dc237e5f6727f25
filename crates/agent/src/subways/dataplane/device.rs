//! The device to which TCP for peers is routed. It needs no NIC to be up, so that a flow does not lose its route with one.
//!
//! ```text
//!   ip rule 5306: iif lo ipproto tcp lookup 5306       table 5306: PEER/32 dev weft0 src HOST
//!   weft0 ---- weft0-end: a pair of veth; the program on the egress of weft0 sends everything elsewhere
//! ```

use std::fmt::Write as _;
use std::io::Write as _;
use std::net::Ipv4Addr;
use std::process::{Command, Stdio};

use crate::dataplane::{PlaneError, Result};
use crate::interface::index_of;

/// Its name.
pub const DEVICE: &str = "weft0";
const OTHER_END: &str = "weft0-end";
/// Number of the table of routes, and preference of the rule.
const TABLE: u32 = 5306;

/// The device.
#[derive(Clone, Copy, Debug)]
pub(super) struct Device {
    /// The host's address: the source of new connections.
    pub address: Ipv4Addr,
    /// Of the routes.
    pub mtu: u32,
}

impl Device {
    /// Makes it, unless it is there. Its index.
    pub fn make(&self) -> Result<i32> {
        if index_of(DEVICE).is_err() {
            ip(&["link", "add", DEVICE, "type", "veth", "peer", "name", OTHER_END])?;
        }
        let mtu = self.mtu.to_string();
        ip(&["link", "set", DEVICE, "arp", "off", "addrgenmode", "none", "mtu", &mtu, "up"])?;
        ip(&["link", "set", OTHER_END, "arp", "off", "addrgenmode", "none", "mtu", &mtu, "up"])?;
        let index = index_of(DEVICE).ok().and_then(|index| i32::try_from(index).ok());
        index.ok_or_else(|| PlaneError::NoInterface(DEVICE.to_owned()))
    }

    /// Whether device and rule are there.
    pub fn is_there(&self) -> bool {
        index_of(DEVICE).is_ok() && has_rule()
    }

    /// Routes TCP to these peers, and to no others, to it.
    pub fn route(&self, peers: impl Iterator<Item = Ipv4Addr>) -> Result<()> {
        let Self { address, mtu } = self;
        let mut batch = String::new();
        for peer in peers {
            let _ = writeln!(batch, "route replace {peer}/32 dev {DEVICE} src {address} mtu {mtu} table {TABLE}");
        }
        // Of peers of an earlier configuration; nothing is there the first time.
        let _ = ip(&["route", "flush", "table", &TABLE.to_string()]);
        run(&["-batch", "-"], &batch)?;
        if !has_rule() {
            let table = TABLE.to_string();
            ip(&["rule", "add", "pref", &table, "iif", "lo", "ipproto", "tcp", "lookup", &table])?;
        }
        Ok(())
    }

    /// Removes it, its routes and the rule.
    pub fn remove(&self) -> Result<()> {
        if has_rule() {
            ip(&["rule", "del", "pref", &TABLE.to_string()])?;
        }
        if index_of(DEVICE).is_ok() {
            ip(&["link", "del", DEVICE])?;
        }
        Ok(())
    }
}

/// Drops what waits for the Ethernet address of a neighbour of a NIC, and has the kernel ask again.
///
/// A NIC that loses its carrier loses its neighbours, too. A packet that is sent there before the programs know is kept for the 3 s that ARP needs to give up, and as
/// long as the kernel has it, its TCP sends it by no other NIC.
pub(super) fn forget_neighbours(nic: &str) -> Result<()> {
    ip(&["neigh", "flush", "dev", nic])
}

fn has_rule() -> bool {
    let shown = Command::new("ip").args(["rule", "show", "pref", &TABLE.to_string()]).stdin(Stdio::null()).output();
    shown.is_ok_and(|output| !output.stdout.is_empty())
}

fn ip(arguments: &[&str]) -> Result<()> {
    run(arguments, "")
}

fn run(arguments: &[&str], input: &str) -> Result<()> {
    let fail = || PlaneError::system("run", format!("ip {}", arguments.join(" ")));
    let mut command = Command::new("ip");
    let mut child =
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().map_err(fail())?;
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(input.as_bytes()).map_err(fail())?;
    }
    let output = child.wait_with_output().map_err(fail())?;
    if output.status.success() {
        return Ok(());
    }
    Err(fail()(std::io::Error::other(String::from_utf8_lossy(&output.stderr).trim().to_owned())))
}
