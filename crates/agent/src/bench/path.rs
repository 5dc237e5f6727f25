//! A path of five namespaces on this machine, with or without VL2 on it.
//!
//! ```text
//!   h1 eth0 -- rack t1 core -- left i right -- core t2 rack -- eth0 h2
//!   LA 10.1.1.2          10.255.1.1   10.254.0.1     10.255.2.1          LA 10.1.2.2      MTU 1600 everywhere
//!   fd10:1::2                                                            fd10:2::2        plain IPv6
//!   AA 20.0.0.1, fd20::1 (ToR)        (anycast)      (ToR)               AA 20.0.0.2, fd20::2
//! ```
//! An AA's route has the MTU that is left below two outer headers.

use std::fs::{self, File};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::{Path as FilePath, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};
use std::{io, thread};

use nix::sched::{CloneFlags, setns};
use weft_control::directory::key::{GroupId, ServiceId};
use weft_fabric::MacAddr;

use super::error::{BenchError, Result};
use crate::interface::index_of;
use crate::vl2::dataplane::{Attached, HostPlane, HostSettings, Local, Peer, StripRole, SwitchPlane, SwitchSettings};

/// Bytes of IP that every link carries.
pub const UNDERLAY_MTU: u16 = 1600;
/// Application addresses of the two hosts.
pub const AA: [Ipv4Addr; 2] = [Ipv4Addr::new(20, 0, 0, 1), Ipv4Addr::new(20, 0, 0, 2)];
/// The same, IPv6.
pub const AA6: [Ipv6Addr; 2] = [Ipv6Addr::new(0xfd20, 0, 0, 0, 0, 0, 0, 1), Ipv6Addr::new(0xfd20, 0, 0, 0, 0, 0, 0, 2)];

pub(super) const LA: [Ipv4Addr; 2] = [Ipv4Addr::new(10, 1, 1, 2), Ipv4Addr::new(10, 1, 2, 2)];
/// The second host's, where plain IPv6 is forwarded.
pub(super) const LA6: Ipv6Addr = Ipv6Addr::new(0xfd10, 2, 0, 0, 0, 0, 0, 2);
pub(super) const VXLAN: [Ipv4Addr; 2] = [Ipv4Addr::new(30, 0, 0, 1), Ipv4Addr::new(30, 0, 0, 2)];
const TOR: [Ipv4Addr; 2] = [Ipv4Addr::new(10, 255, 1, 1), Ipv4Addr::new(10, 255, 2, 1)];
const ANYCAST: Ipv4Addr = Ipv4Addr::new(10, 254, 0, 1);
const GROUP: GroupId = GroupId(1);
const SERVICE: ServiceId = ServiceId(1);
/// The multicast address of the one service; nothing forwards it here.
const MULTICAST: Ipv4Addr = Ipv4Addr::new(239, 1, 0, 1);

/// A namespace of the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Node {
    Host1,
    Tor1,
    Intermediate,
    Tor2,
    Host2,
    /// Of NetLord's path, whose hosts are VMs.
    Server1,
    Edge1,
    Edge2,
    Server2,
}

/// What a path consists of.
pub(super) struct Layout {
    pub nodes: &'static [Node],
    /// Links in order; the ends are left and right in the drawing.
    pub links: &'static [[(Node, &'static str); 2]],
    /// `ip` of each node, in order.
    pub configuration: &'static [(Node, &'static str)],
}

const VL2: Layout = Layout {
    nodes: &[Node::Host1, Node::Tor1, Node::Intermediate, Node::Tor2, Node::Host2],
    links: LINKS,
    configuration: CONFIGURATION,
};

impl Node {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Host1 => "h1",
            Self::Tor1 => "t1",
            Self::Intermediate => "i",
            Self::Tor2 => "t2",
            Self::Host2 => "h2",
            Self::Server1 => "s1",
            Self::Edge1 => "e1",
            Self::Edge2 => "e2",
            Self::Server2 => "s2",
        }
    }
}

/// The path. Its namespaces go with it.
#[derive(Debug)]
pub struct Path {
    name: String,
    nodes: &'static [Node],
}

impl Path {
    /// Makes one; `label` distinguishes several of one process.
    ///
    /// # Errors
    /// [`BenchError::Command`] without root.
    pub fn build(label: &str) -> Result<Self> {
        Self::build_as(label, &VL2)
    }

    pub(super) fn build_as(label: &str, layout: &Layout) -> Result<Self> {
        let path = Self { name: format!("weft-{label}-{}", std::process::id()), nodes: layout.nodes };
        for &node in layout.nodes {
            command(&format!("ip netns add {}", path.namespace(node)))?;
            path.within(node, || settle(node))??;
        }
        for (link, [left, right]) in layout.links.iter().enumerate() {
            let end = |(node, name): (Node, &str), side| {
                format!("name {name} netns {} address {}", path.namespace(node), mac(link, side))
            };
            let mtu = format!("mtu {UNDERLAY_MTU}");
            command(&format!("ip link add {} {mtu} type veth peer {} {mtu}", end(*left, 0), end(*right, 1)))?;
        }
        for (node, line) in layout.configuration {
            path.ip(*node, line)?;
        }
        path.wait_until_unique()?;
        Ok(path)
    }

    /// Waits for the end of duplicate address detection, also of the addresses that the kernel makes by itself.
    fn wait_until_unique(&self) -> Result<()> {
        const LONGEST: Duration = Duration::from_secs(10);
        let begun = Instant::now();
        loop {
            let mut tentative = String::new();
            for &node in self.nodes {
                tentative += &output(&format!("ip -n {} -o -6 addr show tentative", self.namespace(node)))?;
            }
            if tentative.trim().is_empty() {
                return Ok(());
            }
            if begun.elapsed() > LONGEST {
                return Err(BenchError::Tentative { addresses: tentative.trim().replace('\n', "; "), after: LONGEST });
            }
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// What its namespaces begin with.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Where the programs' tables are pinned; the folder goes with the path.
    pub fn pins(&self) -> PathBuf {
        FilePath::new("/sys/fs/bpf").join(&self.name)
    }

    /// The namespace of a node, as `ip netns` names it.
    pub fn namespace(&self, node: Node) -> String {
        format!("{}-{}", self.name, node.name())
    }

    /// Does work in a namespace, on a thread of its own.
    ///
    /// # Errors
    /// [`BenchError::System`] if the namespace cannot be entered.
    pub fn within<T: Send>(&self, node: Node, work: impl FnOnce() -> T + Send) -> Result<T> {
        let file = format!("/run/netns/{}", self.namespace(node));
        let enter = || {
            let namespace = File::open(&file)?;
            // This thread alone, which ends with the work.
            setns(namespace, CloneFlags::CLONE_NEWNET)?;
            Ok::<_, io::Error>(work())
        };
        let done = thread::scope(|scope| scope.spawn(enter).join());
        done.unwrap_or_else(|panic| std::panic::resume_unwind(panic)).map_err(BenchError::system("enter a network namespace"))
    }

    /// Runs `ip` in a namespace.
    ///
    /// # Errors
    /// [`BenchError::Command`].
    pub fn ip(&self, node: Node, arguments: &str) -> Result<()> {
        command(&format!("ip -n {} {arguments}", self.namespace(node)))
    }

    /// A VXLAN between the hosts, over their LAs.
    pub(super) fn add_vxlan(&self) -> Result<()> {
        for (node, own, other) in [(Node::Host1, 0, 1), (Node::Host2, 1, 0)] {
            let ends = format!("local {} remote {}", LA[own], LA[other]);
            self.ip(node, &format!("link add vx type vxlan id 7 {ends} dstport 4789 dev eth0"))?;
            self.ip(node, &format!("link set vx mtu {} up", UNDERLAY_MTU - 50))?;
            self.ip(node, &format!("addr add {}/24 dev vx", VXLAN[own]))?;
        }
        Ok(())
    }

    /// Puts VL2 on the path: the hosts know each other, the switches what they strip.
    ///
    /// # Errors
    /// [`BenchError`] if the data plane cannot be put in place.
    pub fn attach(&self) -> Result<Overlay> {
        let pins = self.pins();
        let switch = |node: Node, ports: &[&str]| {
            let settings = SwitchSettings { aa4: Some(aa4()), aa6: Some(aa6()), ..SwitchSettings::default() };
            self.within(node, || SwitchPlane::attach(ports, &settings, &pins.join(node.name())))
        };
        let mut tors = [switch(Node::Tor1, &["rack", "core"])??, switch(Node::Tor2, &["rack", "core"])??];
        let mut intermediate = switch(Node::Intermediate, &["left", "right"])??;
        intermediate.set_strip(ANYCAST, StripRole::Intermediate)?;
        for (own, (tor, node)) in tors.iter_mut().zip([Node::Tor1, Node::Tor2]).enumerate() {
            tor.set_strip(TOR[own], StripRole::Tor)?;
            let port = self.within(node, || index_of("rack"))?.map_err(BenchError::system("find an interface"))?;
            let attached = Attached { port, mac: mac(own * 3, own), service: SERVICE };
            tor.set_local(AA[own].into(), &attached)?;
            tor.set_local(AA6[own].into(), &attached)?;
        }
        let host = |node: Node, own: usize| self.within(node, || host(own, &pins.join(node.name())));
        let hosts = [host(Node::Host1, 0)??, host(Node::Host2, 1)??];
        Ok(Overlay { hosts, tors, intermediate })
    }
}

impl Drop for Path {
    fn drop(&mut self) {
        for &node in self.nodes {
            let _ = command(&format!("ip netns del {}", self.namespace(node)));
        }
        let _ = fs::remove_dir_all(self.pins());
    }
}

/// The programs on the path.
#[derive(Debug)]
pub struct Overlay {
    /// Those of the hosts.
    pub hosts: [HostPlane; 2],
    /// Those of the ToRs.
    pub tors: [SwitchPlane; 2],
    /// That of the intermediate switch.
    pub intermediate: SwitchPlane,
}

impl Overlay {
    /// Takes them off.
    ///
    /// # Errors
    /// [`BenchError`] if the kernel refuses.
    pub fn detach(self, path: &Path) -> Result<()> {
        let [host1, host2] = self.hosts;
        let [tor1, tor2] = self.tors;
        path.within(Node::Host1, || host1.detach())??;
        path.within(Node::Host2, || host2.detach())??;
        path.within(Node::Tor1, || tor1.detach())??;
        path.within(Node::Tor2, || tor2.detach())??;
        path.within(Node::Intermediate, || self.intermediate.detach())??;
        Ok(())
    }
}

/// A host that knows itself and the other.
fn host(own: usize, pins: &FilePath) -> Result<HostPlane> {
    let entropy = if own == 0 { "10.200.1.0/24" } else { "10.200.2.0/24" };
    let mut settings = HostSettings::new(LA[own], entropy.parse().expect("it is a prefix"));
    settings.tor = Some(TOR[own]);
    settings.aa4 = Some(aa4());
    settings.aa6 = Some(aa6());
    settings.gateway = mac(own * 3, 1 - own);
    settings.underlay_mtu = UNDERLAY_MTU;
    let mut plane = HostPlane::attach("eth0", &settings, pins)?;
    plane.set_group(GROUP, &[ANYCAST])?;
    let (local, other) = (Local { service: SERVICE, multicast: Some(MULTICAST) }, 1 - own);
    let peer = Peer { locator: TOR[other], group: GROUP, mac: None };
    for (mine, theirs) in [(IpAddr::from(AA[own]), IpAddr::from(AA[other])), (AA6[own].into(), AA6[other].into())] {
        plane.set_local(mine, &local)?;
        plane.set_peer(theirs, &peer)?;
    }
    Ok(plane)
}

fn aa4() -> ipnet::Ipv4Net {
    "20.0.0.0/8".parse().expect("it is a prefix")
}

fn aa6() -> ipnet::Ipv6Net {
    "fd20::/64".parse().expect("it is a prefix")
}

const LINKS: &[[(Node, &str); 2]] = &[
    [(Node::Host1, "eth0"), (Node::Tor1, "rack")],
    [(Node::Tor1, "core"), (Node::Intermediate, "left")],
    [(Node::Intermediate, "right"), (Node::Tor2, "core")],
    [(Node::Tor2, "rack"), (Node::Host2, "eth0")],
];

/// The MAC address of a link's end, 0 for the left one.
pub(super) const fn mac(link: usize, side: usize) -> MacAddr {
    MacAddr([0x02, 0, 0, 0, link as u8, side as u8 + 1])
}

const CONFIGURATION: &[(Node, &str)] = &[
    (Node::Host1, "link set eth0 up"),
    (Node::Tor1, "link set rack up"),
    (Node::Tor1, "link set core up"),
    (Node::Intermediate, "link set left up"),
    (Node::Intermediate, "link set right up"),
    (Node::Tor2, "link set core up"),
    (Node::Tor2, "link set rack up"),
    (Node::Host2, "link set eth0 up"),
    (Node::Host1, "addr add 10.1.1.2/24 dev eth0"),
    (Node::Host1, "route add default via 10.1.1.1"),
    (Node::Host1, "addr add 20.0.0.1/8 dev eth0"),
    (Node::Host1, "route replace 20.0.0.0/8 dev eth0 src 20.0.0.1 mtu 1560"),
    (Node::Host1, "addr add fd20::1/64 dev eth0 nodad"),
    (Node::Host1, "route replace fd20::/64 dev eth0 proto kernel metric 256 mtu 1560"),
    (Node::Tor1, "addr add 10.1.1.1/24 dev rack"),
    (Node::Tor1, "addr add 10.0.1.1/30 dev core"),
    (Node::Tor1, "addr add 10.255.1.1/32 dev lo"),
    (Node::Tor1, "route add default via 10.0.1.2"),
    (Node::Tor1, "route add 10.200.1.0/24 via 10.1.1.2"),
    (Node::Intermediate, "addr add 10.0.1.2/30 dev left"),
    (Node::Intermediate, "addr add 10.0.2.2/30 dev right"),
    (Node::Intermediate, "addr add 10.254.0.1/32 dev lo"),
    (Node::Intermediate, "route add 10.1.1.0/24 via 10.0.1.1"),
    (Node::Intermediate, "route add 10.255.1.1 via 10.0.1.1"),
    (Node::Intermediate, "route add 10.200.1.0/24 via 10.0.1.1"),
    (Node::Intermediate, "route add 10.1.2.0/24 via 10.0.2.1"),
    (Node::Intermediate, "route add 10.255.2.1 via 10.0.2.1"),
    (Node::Intermediate, "route add 10.200.2.0/24 via 10.0.2.1"),
    (Node::Tor2, "addr add 10.0.2.1/30 dev core"),
    (Node::Tor2, "addr add 10.1.2.1/24 dev rack"),
    (Node::Tor2, "addr add 10.255.2.1/32 dev lo"),
    (Node::Tor2, "route add default via 10.0.2.2"),
    (Node::Tor2, "route add 10.200.2.0/24 via 10.1.2.2"),
    // Plain IPv6.
    (Node::Host1, "addr add fd10:1::2/64 dev eth0 nodad"),
    (Node::Host1, "route add default via fd10:1::1"),
    (Node::Tor1, "addr add fd10:1::1/64 dev rack nodad"),
    (Node::Tor1, "addr add fd10:3::1/64 dev core nodad"),
    (Node::Tor1, "route add default via fd10:3::2"),
    (Node::Intermediate, "addr add fd10:3::2/64 dev left nodad"),
    (Node::Intermediate, "addr add fd10:4::2/64 dev right nodad"),
    (Node::Intermediate, "route add fd10:1::/64 via fd10:3::1"),
    (Node::Intermediate, "route add fd10:2::/64 via fd10:4::1"),
    (Node::Tor2, "addr add fd10:4::1/64 dev core nodad"),
    (Node::Tor2, "addr add fd10:2::1/64 dev rack nodad"),
    (Node::Tor2, "route add default via fd10:4::2"),
    (Node::Host2, "addr add fd10:2::2/64 dev eth0 nodad"),
    (Node::Host2, "route add default via fd10:2::1"),
    (Node::Host2, "addr add 10.1.2.2/24 dev eth0"),
    (Node::Host2, "route add default via 10.1.2.1"),
    (Node::Host2, "addr add 20.0.0.2/8 dev eth0"),
    (Node::Host2, "route replace 20.0.0.0/8 dev eth0 src 20.0.0.2 mtu 1560"),
    (Node::Host2, "addr add fd20::2/64 dev eth0 nodad"),
    (Node::Host2, "route replace fd20::/64 dev eth0 proto kernel metric 256 mtu 1560"),
];

/// Settings of a namespace: `lo` up, switches forward, no reverse path filter (outer sources are in no table of neighbours).
fn settle(node: Node) -> Result<()> {
    command("ip link set lo up")?;
    let forwards = if matches!(node, Node::Host1 | Node::Host2) { "0" } else { "1" };
    let keys = [
        // No other host has these addresses: nothing waits for duplicate address detection.
        ("ipv6/conf/all/accept_dad", "0"),
        ("ipv6/conf/default/accept_dad", "0"),
        ("ipv4/ip_forward", forwards),
        ("ipv6/conf/all/forwarding", forwards),
        ("ipv4/conf/all/rp_filter", "0"),
        ("ipv4/conf/default/rp_filter", "0"),
    ];
    for (key, value) in keys {
        fs::write(format!("/proc/sys/net/{key}"), value).map_err(BenchError::system("set up a namespace"))?;
    }
    Ok(())
}

fn command(line: &str) -> Result<()> {
    output(line).map(drop)
}

fn output(line: &str) -> Result<String> {
    let mut words = line.split_whitespace();
    let program = words.next().expect("a command has a program");
    let failed = |message: String| BenchError::Command { command: line.to_owned(), message };
    let out = Command::new(program).args(words).output().map_err(|e| failed(e.to_string()))?;
    if !out.status.success() {
        return Err(failed(String::from_utf8_lossy(&out.stderr).trim().to_owned()));
    }
    Ok(String::from_utf8_lossy(&out.stdout).into_owned())
}
