//! FRR in each switch: zebra, ospfd and bfdd, configured from the plan; pimd where there is multicast, bgpd at the border and outside.
//!
//! One OSPF area; every link is point-to-point and costs 1, so that OSPF's paths are those of fewest links. A switch with hosts announces
//! their prefixes, which are on its device `rack`, and every switch the addresses of its `lo`. BFD monitors every adjacency. (The prefixes are no
//! external routes redistributed from the kernel, which ospfd processes a second after everything else.)

pub(crate) mod border;
pub(crate) mod multicast;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::Ipv4Addr;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use nix::unistd::{User, chown};

use crate::clock::Deadline;
use crate::commands::RACK_DEVICE;
use crate::commands::vl2::RENDEZVOUS_DEVICE;
use crate::error::{LabError, Result};
use crate::netns;
use crate::plan::{Net, Node, Plan, Port, Role, RouteTarget, Timers};
use crate::programs::{pause, without_inherited_files};

/// All daemons that a lab may use.
pub const ALL: [&str; 5] = ["zebra", "ospfd", "bfdd", "pimd", "bgpd"];

/// The daemons of a node, in the order in which they start.
pub fn daemons(plan: &Plan, node: &Node) -> Vec<&'static str> {
    let wants = |daemon: &&str| match *daemon {
        "zebra" => node.role != Role::Host,
        "ospfd" | "bfdd" => node.role == Role::Switch,
        "pimd" => node.role == Role::Switch && plan.has_multicast(),
        _ => border::peers(plan, node).next().is_some(),
    };
    ALL.into_iter().filter(wants).collect()
}

/// How many daemons a lab has in all.
pub(crate) fn daemons_of(plan: &Plan) -> usize {
    plan.nodes.iter().map(|n| daemons(plan, n).len()).sum()
}

/// The program of a daemon; `None` if it is not installed.
pub fn program(daemon: &str) -> Option<PathBuf> {
    FOLDERS.iter().map(|f| Path::new(f).join(daemon)).find(|p| p.is_file())
}

/// The configuration of a daemon of a switch.
pub fn configuration(daemon: &str, plan: &Plan, switch: &Node) -> String {
    let body = match daemon {
        "ospfd" => {
            let border = border::default_route(plan, switch) + &border::pool(plan, switch);
            ospf(plan, switch, &Interfaces::LAB) + &multicast::ospf(plan, switch) + &border
        }
        "pimd" => multicast::pim(plan, switch, &Interfaces::LAB),
        "bgpd" => border::bgp(plan, switch),
        "bfdd" => bfd(),
        // With nexthop objects the kernel removes a failed link from its groups unnoticed by zebra, and the link stays unused after it has been repaired.
        _ => "no zebra nexthop kernel enable\n".to_owned(),
    };
    format!("hostname {}\nlog file {daemon}.log warnings\n{body}", switch.name)
}

/// Starts all daemons, in folders below `folder`.
pub(crate) fn start(plan: &Plan, folder: &Path, stop: &AtomicBool) -> Result<()> {
    let user = User::from_name(USER).ok().flatten();
    let user = user.ok_or_else(|| LabError::Missing { program: format!("the user {USER}"), package: "frr" })?;
    let routers: Vec<&Node> = plan.nodes.iter().filter(|n| n.role != Role::Host).collect();
    netns::each(&routers, stop, |switch| {
        let own = folder_of(plan, switch, folder);
        fs::create_dir_all(&own).map_err(|e| LabError::io("make", &own, e))?;
        chown(&own, Some(user.uid), Some(user.gid)).map_err(|e| LabError::io("hand over", &own, e.into()))?;
        netns::enter(&switch.namespace)?;
        start_all(plan, switch, folder)
    })?;
    Ok(())
}

/// Starts all daemons of a switch, in whose namespace the thread is, below the folder of all.
pub(crate) fn start_all(plan: &Plan, switch: &Node, folder: &Path) -> Result<()> {
    let folder = folder_of(plan, switch, folder);
    for daemon in daemons(plan, switch) {
        let program = program(daemon).ok_or_else(|| LabError::Missing { program: daemon.to_owned(), package: "frr" })?;
        let started = start_one(daemon, &program, &folder, &configuration(daemon, plan, switch));
        started.map_err(|message| LabError::Daemon { daemon, node: switch.name.clone(), message })?;
    }
    Ok(())
}

/// Waits until every switch's kernel has the routes of the plan, each with all its next hops, and BFD monitors all its neighbours: before that
/// only OSPF detects failures, which takes seconds.
pub(crate) fn converge(plan: &Plan, folder: &Path, stop: &AtomicBool) -> Result<()> {
    let timeout = CONVERGE_TIMEOUT + 2 * Duration::from_secs(plan.timers.dead_s.into());
    let deadline = Deadline::after(timeout);
    let mut waiting: Vec<&Node> = plan.nodes.iter().filter(|n| n.role != Role::Host).collect();
    loop {
        let missing = netns::each(&waiting, stop, |switch| {
            netns::enter(&switch.namespace)?;
            let mut missing: Vec<String> = missing_routes(switch, plan.ecmp_width())?.iter().map(Net::to_string).collect();
            let neighbours = if plan.timers.bfd && switch.role == Role::Switch { neighbours(plan, switch).count() } else { 0 };
            let watched = if neighbours > 0 { bfd_sessions_up(&folder_of(plan, switch, folder)) } else { 0 };
            missing.extend((watched < neighbours).then(|| format!("BFD of {} neighbours", neighbours - watched)));
            Ok(missing)
        })?;
        let still: Vec<(&Node, Vec<String>)> = waiting.into_iter().zip(missing).filter(|(_, m)| !m.is_empty()).collect();
        if still.is_empty() {
            return Ok(());
        }
        if deadline.has_passed() {
            let example = format!("{} at {}", still[0].1[0], still[0].0.name);
            let missing = still.iter().map(|(_, m)| m.len()).sum();
            return Err(LabError::NotConverged { seconds: timeout.as_secs(), missing, example });
        }
        waiting = still.into_iter().map(|(switch, _)| switch).collect();
        pause(stop)?;
    }
}

/// Starts staticd beside the other daemons of a switch, in whose namespace the thread is.
pub(crate) fn start_staticd(plan: &Plan, switch: &Node, folder: &Path, routes: &str) -> Result<()> {
    let program = program("staticd").ok_or_else(|| LabError::Missing { program: "staticd".to_owned(), package: "frr" })?;
    start_one("staticd", &program, &folder_of(plan, switch, folder), routes).map_err(|message| LabError::Daemon {
        daemon: "staticd",
        node: switch.name.clone(),
        message,
    })
}

/// Makes a switch announce one more network, which is on one of its devices.
pub(crate) fn announce(plan: &Plan, switch: &Node, folder: &Path, network: Net) -> Result<()> {
    let socket = folder_of(plan, switch, folder).join("ospfd.vty");
    let answer = run_commands(&socket, &["enable", "configure terminal", "router ospf", &format!("network {network} area 0")]);
    answer.map(drop).map_err(|e| LabError::io("configure ospfd at", &socket, e))
}

/// Ports that lead to other switches.
fn neighbours<'a>(plan: &'a Plan, switch: &'a Node) -> impl Iterator<Item = &'a Port> {
    switch.ports.iter().filter(|p| plan.nodes[p.peer.node].role == Role::Switch)
}

/// The folder of a switch's daemons.
fn folder_of(plan: &Plan, switch: &Node, folder: &Path) -> PathBuf {
    folder.join(switch.namespace.trim_start_matches(&plan.name.namespace_prefix()))
}

/// The number of BFD sessions of a switch that are up; 0 if its daemon does not answer.
fn bfd_sessions_up(folder: &Path) -> usize {
    let Ok(text) = run_commands(&folder.join("bfdd.vty"), &["enable", "show bfd peers json"]) else { return 0 };
    let sessions: Vec<serde_json::Value> = serde_json::from_str(&text).unwrap_or_default();
    sessions.iter().filter(|s| s.get("status").is_some_and(|s| s == "up")).count()
}

/// Runs commands of a daemon over its VTY socket, as `vtysh` does, and returns the answer to the last one. A command ends with a zero byte, an answer with three
/// and the result code.
fn run_commands(socket: &Path, commands: &[&str]) -> std::io::Result<String> {
    let mut daemon = UnixStream::connect(socket)?;
    daemon.set_read_timeout(Some(Duration::from_secs(1)))?;
    let mut answer = Vec::new();
    for command in commands {
        daemon.write_all(format!("{command}\0").as_bytes())?;
        answer.clear();
        while !matches!(answer.last_chunk(), Some([0, 0, 0, _])) {
            let mut part = [0; 4096];
            match daemon.read(&mut part)? {
                0 => return Err(std::io::ErrorKind::UnexpectedEof.into()),
                len => answer.extend_from_slice(&part[..len]),
            }
        }
    }
    answer.truncate(answer.len() - 4);
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

/// Destinations to which a switch lacks next hops of the plan, or does not have as many as it can use, in the namespace that the thread is in.
fn missing_routes(switch: &Node, width: usize) -> Result<Vec<Net>> {
    let text = netns::output("ip", &["-j", "route", "show"], &switch.namespace)?;
    let installed = read_routes(&text);
    let lacks = |to: &Net, target: &RouteTarget| {
        let RouteTarget::Via(hops) = target else { return false };
        let is_of_plan = |gateway: &Ipv4Addr| hops.iter().any(|h| h.gateway == *gateway);
        !installed.get(to).is_some_and(|found| found.len() == hops.len().min(width) && found.iter().all(is_of_plan))
    };
    Ok(switch.fabric.iter().filter(|r| lacks(&r.to, &r.target)).map(|r| r.to).collect())
}

/// Sorted gateways by destination, from `ip -j route`.
fn read_routes(text: &str) -> BTreeMap<Net, Vec<Ipv4Addr>> {
    let routes: Vec<serde_json::Value> = serde_json::from_str(text).unwrap_or_default();
    let gateway = |v: &serde_json::Value| v.get("gateway")?.as_str()?.parse::<Ipv4Addr>().ok();
    let one = |route: &serde_json::Value| {
        let to = match route.get("dst")?.as_str()? {
            "default" => Net::DEFAULT,
            to => Net::try_from(to.to_owned()).ok()?,
        };
        let mut hops: Vec<Ipv4Addr> = match route.get("nexthops").and_then(|n| n.as_array()) {
            Some(hops) => hops.iter().filter_map(gateway).collect(),
            None => gateway(route).into_iter().collect(),
        };
        hops.sort_unstable();
        Some((to, hops))
    };
    routes.iter().filter_map(one).collect()
}

/// The names of a switch's interfaces in FRR's configuration.
pub(crate) struct Interfaces<'a> {
    /// That with the locator; `None`: the locator is on `rack`.
    pub(crate) loopback: Option<&'a str>,
    /// That with the prefix of the switch's hosts.
    pub(crate) rack: &'a str,
    /// Whether ports to hosts belong to `rack`, a VLAN; otherwise each is an interface of its own.
    pub(crate) has_vlan: bool,
    /// That with the address of the multicast rendezvous point.
    pub(crate) point: &'a str,
    /// That of a port of the plan.
    pub(crate) port: &'a dyn Fn(&Port) -> String,
}

impl Interfaces<'static> {
    /// Those of a lab.
    const LAB: Self = Self {
        loopback: Some("lo"),
        rack: RACK_DEVICE,
        has_vlan: false,
        point: RENDEZVOUS_DEVICE,
        port: &|port| port.name.clone(),
    };
}

/// The configuration of BFD.
pub(crate) fn bfd() -> String {
    format!(
        "bfd\n profile fabric\n  detect-multiplier {BFD_MULTIPLIER}\n  transmit-interval {BFD_INTERVAL_MS}\n  receive-interval {BFD_INTERVAL_MS}\n exit\nexit\n"
    )
}

/// The configuration of PIM and IGMP, and of what OSPF announces of a rendezvous point; empty without multicast.
pub(crate) fn multicast(plan: &Plan, switch: &Node, interfaces: &Interfaces<'_>) -> String {
    if !plan.has_multicast() {
        return String::new();
    }
    multicast::pim(plan, switch, interfaces) + &multicast::ospf(plan, switch)
}

/// The configuration of BGP to the outside, and of what OSPF announces of it; empty at switches without a link there.
pub(crate) fn external(plan: &Plan, switch: &Node) -> String {
    if border::peers(plan, switch).next().is_none() {
        return String::new();
    }
    border::bgp(plan, switch) + &border::default_route(plan, switch)
}

/// The configuration of OSPF.
pub(crate) fn ospf(plan: &Plan, switch: &Node, interfaces: &Interfaces<'_>) -> String {
    let mut text = String::new();
    let mut line = |args: std::fmt::Arguments<'_>| writeln!(text, "{args}").expect("a text grows");
    // By port and not by network: addresses of ports to hosts are not announced.
    if let Some(loopback) = interfaces.loopback {
        line(format_args!("interface {loopback}\n ip ospf area 0\nexit"));
    }
    let rack = interfaces.rack;
    if switch.prefix.is_some() {
        line(format_args!("interface {rack}\n ip ospf area 0\n ip ospf network point-to-point\n ip ospf cost 1\nexit"));
    }
    let Timers { hello_s, dead_s, bfd, broadcast, patient } = plan.timers;
    let network = if broadcast { "broadcast" } else { "point-to-point" };
    for port in neighbours(plan, switch) {
        line(format_args!("interface {}\n ip ospf area 0", (interfaces.port)(port)));
        line(format_args!(" ip ospf network {network}\n ip ospf cost 1"));
        line(format_args!(" ip ospf hello-interval {hello_s}\n ip ospf dead-interval {dead_s}"));
        if !patient {
            line(format_args!(" ip ospf retransmit-interval {RETRANSMIT_S}"));
        }
        if bfd {
            line(format_args!(" ip ospf bfd\n ip ospf bfd profile fabric"));
        }
        line(format_args!("exit"));
    }
    line(format_args!("router ospf\n ospf router-id {}\n maximum-paths {}", switch.locator, plan.ecmp_width()));
    if !patient {
        line(format_args!(
            " timers throttle spf {SPF_MS}\n timers throttle lsa all {LSA_MS}\n timers lsa min-arrival {LSA_MIN_MS}"
        ));
    }
    if switch.prefix.is_some() {
        line(format_args!(" passive-interface {rack}"));
    }
    line(format_args!("exit"));
    text
}

/// Starts a daemon, which detaches once it has read its configuration.
fn start_one(daemon: &'static str, program: &Path, folder: &Path, configuration: &str) -> std::result::Result<(), String> {
    let file = |ending: &str| folder.join(format!("{daemon}.{ending}"));
    fs::write(file("conf"), configuration.replace(&format!("{daemon}.log"), &file("log").display().to_string()))
        .map_err(|e| e.to_string())?;
    // A real switch has a processor of its own: traffic of the hosts must not delay its hellos.
    let mut command = Command::new("nice");
    command
        .args(["-n", "-10"])
        .arg(program)
        .args(["-d", "-u", USER, "-g", USER, "-A", "127.0.0.1", "-P", "0"])
        .arg("-f")
        .arg(file("conf"))
        .arg("-i")
        .arg(file("pid"))
        .arg("-z")
        .arg(folder.join("zserv.api"))
        .arg("--vty_socket")
        .arg(folder)
        .args(if daemon == "bfdd" { vec!["--bfdctl".into(), folder.join("bfdd.sock")] } else { Vec::new() })
        .stdin(Stdio::null());
    let output = without_inherited_files(&mut command).output().map_err(|e| e.to_string())?;
    if output.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()) }
}

const FOLDERS: [&str; 3] = ["/usr/lib/frr", "/usr/libexec/frr", "/usr/sbin"];
/// The user of the daemons, as in Debian's package.
const USER: &str = "frr";
/// A neighbour that has sent nothing for that many intervals is down.
const BFD_MULTIPLIER: u32 = 3;
const BFD_INTERVAL_MS: u32 = 100;
/// Short, since neighbours start one after another and miss packets sent before.
const RETRANSMIT_S: u32 = 1;
/// The delay of the first computation, the initial and the maximum hold time.
const SPF_MS: &str = "10 100 1000";
const LSA_MS: u32 = 50;
const LSA_MIN_MS: u32 = 20;
/// How long to wait for the routes, besides two dead intervals.
const CONVERGE_TIMEOUT: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Routing, Settings};
    use weft_fabric::BitsPerSec;
    use weft_fabric::topology::shapes::{Cabling, Shape};

    #[test]
    fn configurations_of_an_edge_and_a_core_switch() {
        let link = Cabling { rate: BitsPerSec(1_000_000_000), delay: weft_fabric::Duration::ZERO };
        let fabric = Shape::TwoLevel { edges: 2, cores: 2, hosts_per_edge: 1 }.build(link, link).expect("a fabric");
        let settings = Settings::for_tests(Routing::Frr);
        let plan = Plan::new(&fabric, &settings).expect("a plan");
        let of = |node: &str| {
            let node = plan.node(node).expect("a switch");
            daemons(&plan, node).iter().map(|d| configuration(d, &plan, node)).collect::<Vec<_>>().join("\n")
        };
        insta::assert_snapshot!(format!("{}\n====\n{}", of("edge0"), of("core1")));
    }

    #[test]
    fn routes_are_read_in_any_form() {
        let text = r#"[{"dst":"10.2.0.0/16","gateway":"172.16.0.1","dev":"p0"}, {"dst":"10.3.0.1","nexthops":
            [{"gateway":"172.16.0.5","dev":"p1"},{"gateway":"172.16.0.1","dev":"p0"}]}, {"dst":"default","dev":"p0"}, {"type":"unreachable"}]"#;
        let routes = read_routes(text);
        let gateways = |to: &str| {
            routes.get(&Net::try_from(to.to_owned()).expect("a prefix")).map(|g| g.iter().map(ToString::to_string).collect())
        };
        assert_eq!(gateways("10.2.0.0/16"), Some(vec!["172.16.0.1".to_owned()]));
        assert_eq!(gateways("10.3.0.1/32"), Some(vec!["172.16.0.1".to_owned(), "172.16.0.5".to_owned()]), "sorted");
        assert_eq!(routes.get(&Net::DEFAULT), Some(&Vec::new()), "a default route without a gateway");
        assert_eq!(routes.len(), 3);
        assert!(read_routes("").is_empty());
    }
}
