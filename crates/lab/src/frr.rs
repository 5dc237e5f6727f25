//! FRR in each switch: zebra, ospfd and bfdd, configured from the plan.
//!
//! One OSPF area; every link is point-to-point and costs 1, so that OSPF's paths are those of fewest links. A switch with hosts announces
//! their prefix, which is that of its device `rack`, and every switch its locator. BFD watches every adjacency. (The prefix is no external
//! route, redistributed from the kernel: ospfd looks at those a second after everything else.)

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::Ipv4Addr;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use nix::unistd::{User, chown};

use crate::clock::Deadline;
use crate::commands::RACK_DEVICE;
use crate::error::{LabError, Result};
use crate::netns;
use crate::plan::{Net, Node, Plan, Port, Role, Way};

/// The daemons, in the order in which they start.
pub const DAEMONS: [&str; 3] = ["zebra", "ospfd", "bfdd"];

/// The program of a daemon; `None` if it is not installed.
pub fn program(daemon: &str) -> Option<PathBuf> {
    FOLDERS.iter().map(|f| Path::new(f).join(daemon)).find(|p| p.is_file())
}

/// The configuration of a daemon of a switch.
pub fn configuration(daemon: &str, plan: &Plan, switch: &Node) -> String {
    let body = match daemon {
        "ospfd" => ospf(plan, switch),
        "bfdd" => format!(
            "bfd\n profile fabric\n  detect-multiplier {BFD_MULTIPLIER}\n  transmit-interval {BFD_INTERVAL_MS}\n  receive-interval {BFD_INTERVAL_MS}\n exit\nexit\n"
        ),
        // With nexthop objects a kernel shrinks the group of a link that fails, and zebra does not notice: the link stays out of use.
        _ => "no zebra nexthop kernel enable\n".to_owned(),
    };
    format!("hostname {}\nlog file {daemon}.log warnings\n{body}", switch.name)
}

/// Starts all daemons, in folders below `folder`.
pub(crate) fn start(plan: &Plan, folder: &Path, stop: &AtomicBool) -> Result<()> {
    let programs = DAEMONS.map(|d| program(d).ok_or_else(|| LabError::Missing { program: d.to_owned(), package: "frr" }));
    let programs = programs.into_iter().collect::<Result<Vec<_>>>()?;
    let user = User::from_name(USER).ok().flatten();
    let user = user.ok_or_else(|| LabError::Missing { program: format!("the user {USER}"), package: "frr" })?;
    let switches: Vec<&Node> = plan.switches().collect();
    netns::each(&switches, stop, |switch| {
        let folder = folder_of(plan, switch, folder);
        fs::create_dir_all(&folder).map_err(|e| LabError::io("make", &folder, e))?;
        chown(&folder, Some(user.uid), Some(user.gid)).map_err(|e| LabError::io("hand over", &folder, e.into()))?;
        netns::enter(&switch.namespace)?;
        for (daemon, program) in DAEMONS.into_iter().zip(&programs) {
            let configuration = configuration(daemon, plan, switch);
            start_one(daemon, program, &folder, &configuration).map_err(|message| LabError::Daemon {
                daemon,
                node: switch.name.clone(),
                message,
            })?;
        }
        Ok(())
    })?;
    Ok(())
}

/// Waits until every switch's kernel has the routes of the plan, each with all its next hops, and BFD watches all its neighbours: a failure
/// before that is noticed by OSPF alone, which takes seconds.
pub(crate) fn converge(plan: &Plan, folder: &Path, stop: &AtomicBool) -> Result<()> {
    let deadline = Deadline::after(CONVERGE_WITHIN);
    let mut waiting: Vec<&Node> = plan.switches().collect();
    loop {
        let missing = netns::each(&waiting, stop, |switch| {
            netns::enter(&switch.namespace)?;
            let mut missing: Vec<String> = missing_routes(switch)?.iter().map(Net::to_string).collect();
            let watched = bfd_sessions_up(&folder_of(plan, switch, folder));
            let neighbours = neighbours(plan, switch).count();
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
            return Err(LabError::NotConverged { seconds: CONVERGE_WITHIN.as_secs(), missing, example });
        }
        waiting = still.into_iter().map(|(switch, _)| switch).collect();
        if stop.load(Ordering::Relaxed) {
            return Err(LabError::Interrupted);
        }
        std::thread::sleep(POLL);
    }
}

/// Ports that lead to other switches.
fn neighbours<'a>(plan: &'a Plan, switch: &'a Node) -> impl Iterator<Item = &'a Port> {
    switch.ports.iter().filter(|p| plan.nodes[p.peer.node].role == Role::Switch)
}

/// What is a switch's own of the folder of all daemons.
fn folder_of(plan: &Plan, switch: &Node, folder: &Path) -> PathBuf {
    folder.join(switch.namespace.trim_start_matches(&plan.name.namespace_prefix()))
}

/// How many BFD sessions of a switch are up; 0 if its daemon does not say.
fn bfd_sessions_up(folder: &Path) -> usize {
    let Ok(text) = ask(&folder.join("bfdd.vty"), "show bfd peers json") else { return 0 };
    let sessions: Vec<serde_json::Value> = serde_json::from_str(&text).unwrap_or_default();
    sessions.iter().filter(|s| s.get("status").is_some_and(|s| s == "up")).count()
}

/// What a daemon answers to a command, as `vtysh` asks it: commands end with a zero, answers with three and the command's result.
fn ask(socket: &Path, command: &str) -> std::io::Result<String> {
    let mut daemon = UnixStream::connect(socket)?;
    daemon.set_read_timeout(Some(Duration::from_secs(1)))?;
    let mut answer = Vec::new();
    for command in ["enable", command] {
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

/// Destinations to which a switch has not all of the plan's next hops, in the namespace that the thread is in.
fn missing_routes(switch: &Node) -> Result<Vec<Net>> {
    let text = netns::output("ip", &["-j", "route", "show", "proto", "ospf"], &switch.namespace)?;
    let installed = read_routes(&text);
    let lacks = |to: &Net, way: &Way| {
        let Way::Via(hops) = way else { return false };
        let mut wanted: Vec<Ipv4Addr> = hops.iter().map(|h| h.gateway).collect();
        wanted.sort_unstable();
        installed.get(to) != Some(&wanted)
    };
    Ok(switch.fabric.iter().filter(|r| lacks(&r.to, &r.way)).map(|r| r.to).collect())
}

/// Sorted gateways by destination, from `ip -j route`.
fn read_routes(text: &str) -> BTreeMap<Net, Vec<Ipv4Addr>> {
    let routes: Vec<serde_json::Value> = serde_json::from_str(text).unwrap_or_default();
    let gateway = |v: &serde_json::Value| v.get("gateway")?.as_str()?.parse::<Ipv4Addr>().ok();
    let one = |route: &serde_json::Value| {
        let to = Net::try_from(route.get("dst")?.as_str()?.to_owned()).ok()?;
        let mut hops: Vec<Ipv4Addr> = match route.get("nexthops").and_then(|n| n.as_array()) {
            Some(hops) => hops.iter().filter_map(gateway).collect(),
            None => gateway(route).into_iter().collect(),
        };
        hops.sort_unstable();
        Some((to, hops))
    };
    routes.iter().filter_map(one).collect()
}

fn ospf(plan: &Plan, switch: &Node) -> String {
    let mut text = String::new();
    let mut line = |args: std::fmt::Arguments<'_>| writeln!(text, "{args}").expect("a text grows");
    if switch.prefix.is_some() {
        line(format_args!("interface {RACK_DEVICE}\n ip ospf network point-to-point\n ip ospf cost 1\nexit"));
    }
    for port in neighbours(plan, switch) {
        line(format_args!("interface {}", port.name));
        line(format_args!(" ip ospf network point-to-point\n ip ospf cost 1"));
        line(format_args!(
            " ip ospf hello-interval {HELLO_S}\n ip ospf dead-interval {DEAD_S}\n ip ospf retransmit-interval {RETRANSMIT_S}"
        ));
        line(format_args!(" ip ospf bfd\n ip ospf bfd profile fabric\nexit"));
    }
    line(format_args!("router ospf\n ospf router-id {}\n maximum-paths 64", switch.locator));
    line(format_args!(" timers throttle spf {SPF_MS}\n timers throttle lsa all {LSA_MS}\n timers lsa min-arrival {LSA_MIN_MS}"));
    line(format_args!(" network {} area 0", Net::host(switch.locator)));
    for port in &switch.ports {
        if let Some(address) = port.address {
            line(format_args!(" network {address} area 0"));
        }
    }
    if let Some(prefix) = switch.prefix {
        line(format_args!(" network {prefix} area 0\n passive-interface {RACK_DEVICE}"));
    }
    line(format_args!("exit"));
    text
}

/// Starts a daemon, which goes into the background once it has read its configuration.
fn start_one(daemon: &'static str, program: &Path, folder: &Path, configuration: &str) -> std::result::Result<(), String> {
    let file = |ending: &str| folder.join(format!("{daemon}.{ending}"));
    fs::write(file("conf"), configuration.replace(&format!("{daemon}.log"), &file("log").display().to_string()))
        .map_err(|e| e.to_string())?;
    // A switch's processor is its own: hosts that send with all their might must not keep its hellos waiting.
    let output = Command::new("nice")
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
        .stdin(Stdio::null())
        .output();
    let output = output.map_err(|e| e.to_string())?;
    if output.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()) }
}

const FOLDERS: [&str; 3] = ["/usr/lib/frr", "/usr/libexec/frr", "/usr/sbin"];
/// The daemons give up root for this user, as Debian's package sets it up.
const USER: &str = "frr";
/// A neighbour that has said nothing for so many intervals is down.
const BFD_MULTIPLIER: u32 = 3;
const BFD_INTERVAL_MS: u32 = 100;
const HELLO_S: u32 = 1;
const DEAD_S: u32 = 4;
/// Neighbours start one after another, and lose what is sent to them before.
const RETRANSMIT_S: u32 = 1;
/// First computation, the step by which further ones are put off, the longest that they are.
const SPF_MS: &str = "10 100 1000";
const LSA_MS: u32 = 50;
const LSA_MIN_MS: u32 = 20;
const CONVERGE_WITHIN: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Routing, Settings};
    use weft_fabric::topology::shapes::{Cabling, Shape};
    use weft_fabric::{BitsPerSec, Bytes};

    #[test]
    fn configurations_of_an_edge_and_a_core_switch() {
        let link = Cabling { rate: BitsPerSec(1_000_000_000), delay: weft_fabric::Duration::ZERO };
        let fabric = Shape::TwoLevel { edges: 2, cores: 2, hosts_per_edge: 1 }.build(link, link).expect("a fabric");
        let settings = Settings {
            name: "t".parse().expect("a name"),
            routing: Routing::Frr,
            scale: 0.01,
            seed: 1,
            switch_queue: Bytes(100_000),
            nic_queue: Bytes(100_000),
        };
        let plan = Plan::new(&fabric, &settings).expect("a plan");
        let of = |node: &str| DAEMONS.map(|d| configuration(d, &plan, plan.node(node).expect("a switch"))).join("\n");
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
        assert_eq!(routes.len(), 2);
        assert!(read_routes("").is_empty());
    }
}
