//! What `weft deploy plan` writes, read and run by the real programs: each configuration by the reader of its daemon, and the example inventory as a network of
//! namespaces in which every machine has its planned files at their places (in a mount namespace of its own).
//!
//! ```text
//!   web1 10.1.1.2, 20.0.0.1 --- tor1 --- mid 10.9.0.254 (anycast 10.9.0.1) --- tor2 --- web2 10.1.2.2, 20.0.0.2
//!                                         '-- dir1 10.9.9.1                       '---- db1 10.1.3.2, 20.0.0.3
//! ```
#![allow(clippy::disallowed_methods)] // Processes live by the wall clock.
#![cfg(target_os = "linux")]

mod support;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use support::fabric::Network;
use support::process::program;
use support::site::{Site, has_ansible, has_systemd, plan, wait};
use weft_agent::config::Place;
use weft_agent::vl2::{host::HostConfig, switch::SwitchConfig};

const EXAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/inventory.toml");

/// Reads the agents' configurations of a plan; the machines' names.
fn read_all(out: &Path) -> Vec<String> {
    let mut names = Vec::new();
    for machine in fs::read_dir(out.join("hosts")).unwrap() {
        let path = machine.unwrap().path().join("etc/weft/agent.toml");
        let Ok(text) = fs::read_to_string(&path) else { continue };
        let place = Place { path: &path, text: &text, page: "docs/running-on-hosts.md" };
        if text.contains("role = \"host\"") {
            HostConfig::read(&place).unwrap_or_else(|error| panic!("{error}"));
        } else {
            SwitchConfig::read(&place).unwrap_or_else(|error| panic!("{error}"));
        }
        names.push(path.iter().rev().nth(3).unwrap().to_str().unwrap().to_owned());
    }
    names.sort();
    names
}

#[test]
fn agents_read_every_planned_configuration() {
    let example = fs::read_to_string(EXAMPLE).unwrap();
    let of_host = example.replace("locator = \"tor\"", "locator = \"host\"");
    let without_groups =
        of_host.replace("anycast = [\"10.9.0.1\"]", "multicast = \"239.1.0.0/16\"").replace("\"intermediate\"", "\"other\"");
    let more = example.replace(
        "[[directory.server]]",
        "[agent]\nfail_static = \"10min\"\non_exit = \"remove\"\nmetrics = \"off\"\n\n[[directory.server]]",
    );
    let limited = more
        .replace("on_exit", "limits = { peers = 1000, held_bytes = \"1MB\", held_time = \"1s\" }\nplacement = { scheduler = [\"10.9.9.7:5305\"] }\non_exit")
        .replace("device = \"eth0\"", "device = \"eth0\"\nlimits = { peers = 2000, flows = 9 }");
    let two_families = example
        .replace("\"20.0.0.0/8\"", "\"20.0.0.0/8\", \"fd20::/64\"")
        .replace("[\"20.0.0.1\"]", "[\"20.0.0.1\", \"fd20::1\"]");
    let parts = "[[directory.part]]\nname = \"rest\"\ndefault = true\n\n[[directory.part]]\nname = \"b\"\nprefixes = [\"20.128.0.0/9\"]\n\n\
                 [[directory.server]]\nname = \"dir2\"\naddress = \"10.9.9.2\"\nprincipal = 2001\npart = \"b\"\n\n[[directory.server]]\npart = \"rest\"";
    let divided = example.replace("[[directory.server]]", parts);
    for inventory in [&example, &of_host, &without_groups, &more, &limited, &two_families, &divided] {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(read_all(&plan(folder.path(), inventory)), ["db1", "mid", "tor1", "tor2", "web1", "web2"]);
    }
}

const MACHINES: &[&str] = &["web1", "web2", "db1", "tor1", "tor2", "mid", "dir1"];

fn wired(network: &Network) {
    let ip = |node: &str, arguments: &str| network.ip(node, arguments);
    for (host, n, tor, port) in [("web1", 1, "tor1", "p0"), ("web2", 2, "tor2", "p0"), ("db1", 3, "tor2", "p1")] {
        network.cable((host, "eth0"), (tor, port));
        ip(tor, &format!("addr add 10.1.{n}.1/24 dev {port}"));
        ip(host, &format!("addr add 10.1.{n}.2/24 dev eth0"));
        ip(host, &format!("route add default via 10.1.{n}.1"));
        ip(tor, &format!("route add 10.201.{n}.0/24 via 10.1.{n}.2"));
    }
    for (tor, n, hosts) in [("tor1", 1, [1].as_slice()), ("tor2", 2, &[2, 3])] {
        network.cable((tor, "u0"), ("mid", &format!("p{n}")));
        ip(tor, &format!("addr add 172.16.{n}.0/31 dev u0"));
        ip("mid", &format!("addr add 172.16.{n}.1/31 dev p{n}"));
        ip(tor, &format!("route add default via 172.16.{n}.1"));
        for host in hosts {
            ip("mid", &format!("route add 10.1.{host}.0/24 via 172.16.{n}.0"));
            ip("mid", &format!("route add 10.201.{host}.0/24 via 172.16.{n}.0"));
        }
    }
    network.cable(("dir1", "eth0"), ("mid", "d0"));
    ip("dir1", "addr add 10.9.9.1/24 dev eth0");
    ip("dir1", "route add default via 10.9.9.254");
    ip("mid", "addr add 10.9.9.254/24 dev d0");
    ip("mid", "addr add 10.9.0.254/32 dev lo");
    for switch in ["tor1", "tor2", "mid"] {
        network.set(switch, "ipv4/ip_forward", "1");
        network.set(switch, "ipv4/conf/all/rp_filter", "0");
    }
}

/// The example's machines.
fn example(name: &str) -> Option<Site> {
    let network = Network::bare(name, MACHINES)?;
    wired(&network);
    Some(Site::of(network))
}

/// Waits until no machine differs from the plan, and pings between applications.
fn reaches_all(site: &Site, machines: &[&str], counter: &str) {
    site.is_as_planned(machines);
    for (from, to) in [("web1", "20.0.0.2"), ("db1", "20.0.0.1"), ("web2", "20.0.0.3")] {
        let output = site.on(from, Path::new("ping"), &["-c", "3", "-i", "0.2", "-W", "2", to]);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(text.contains(" 0% packet loss"), "{from} to {to}: {text}{}", String::from_utf8_lossy(&output.stderr));
    }
    // Through the overlay, not beside it.
    let status = site.on("web1", Path::new(env!("CARGO_BIN_EXE_weft-agent")), &["status", "--json"]);
    let status: serde_json::Value = serde_json::from_slice(&status.stdout).unwrap();
    assert!(status["counters"][counter].as_u64() >= Some(3), "{status:#}");
}

/// Alerts read metrics that programs serve from their start, or that come with what they count.
fn exports_what_alerts_read(site: &Site) {
    let rules = include_str!("../../../packaging/monitoring/weft-alerts.yml");
    let words = rules.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
    let read: BTreeSet<&str> = words.filter(|it| it.starts_with("weft_agent_") || it.starts_with("weft_directory_")).collect();
    let later = [
        // With the first of what they count.
        "weft_agent_restored_total",
        "weft_directory_commit_failures_total",
        "weft_directory_dropped_total",
        "weft_directory_reloads_total",
        // Of NetLord, and of hosts with a scheduler.
        "weft_agent_intermediates_unreachable",
        "weft_agent_paths_failed_total",
        "weft_agent_paths_restored_total",
        "weft_agent_table",
        "weft_agent_table_max",
        "weft_agent_vifs_twice",
    ];
    wait("metrics", || {
        let agents = ["web1", "tor1", "mid"].iter().flat_map(|name| site.metrics(name, 9304));
        let served: BTreeSet<String> = agents.chain(site.metrics("dir1", 9303)).collect();
        let absent: Vec<&&str> = read.iter().filter(|it| !served.contains(**it) && !later.contains(it)).collect();
        if absent.is_empty() { Ok(()) } else { Err(format!("{absent:?}")) }
    });
}

/// The servers' mappings are those of the plan; one that was changed and one that was added are found.
fn mappings_are_compared(site: &Site) {
    let (inventory, dir) = (site.inventory(), site.plan());
    let directory = |arguments: &[&str]| {
        let mut command = site.network.command("dir1", program("weft-directory").to_str().unwrap());
        let output = command.args(arguments).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        (output.status.code(), text)
    };
    let check = || directory(&["deploy", "check", inventory.to_str().unwrap(), "--mappings", "--dir", dir.to_str().unwrap()]);
    assert_eq!(check(), (Some(0), "no difference\n".to_owned()));
    let administration = dir.join("directory");
    let put = |key: &str, more: &[&str]| {
        let (code, text) = directory(&[&["put", key, "10.1.2.1", "--dir", administration.to_str().unwrap()], more].concat());
        assert_eq!(code, Some(0), "{text}");
    };
    put("20.0.0.3", &["--owner", "104"]);
    put("20.0.0.77", &["--owner", "103", "--service", "db"]);
    let (code, text) = check();
    assert_eq!((code, text.lines().count()), (Some(1), 2), "{text}");
    assert!(text.contains("mapping 20.0.0.3: is {\"locator\":\"10.1.2.1\",") && text.contains("\"owner\":104"), "{text}");
    assert!(text.contains("mapping 20.0.0.77: not in the inventory"), "{text}");
}

const AGENTS: &[&str] = &["mid", "tor1", "tor2", "web1", "web2", "db1"];

#[test]
fn machines_with_their_planned_files_reach_each_other() {
    let Some(mut site) = example("deploy") else { return };
    plan(site.folder.path(), &fs::read_to_string(EXAMPLE).unwrap());
    site.start_directory("dir1");
    site.import("dir1");
    AGENTS.iter().for_each(|name| site.start_agent(name));
    reaches_all(&site, AGENTS, "pushed_two");
    exports_what_alerts_read(&site);
    mappings_are_compared(&site);
    // A file that was changed on a machine is found.
    let config = site.plan().join("hosts/web1/etc/weft/agent.toml");
    let changed = fs::read_to_string(&config).unwrap().replace("20.0.0.1", "20.0.0.9");
    fs::write(&config, changed).unwrap();
    let (code, lines) = site.check("web1");
    assert!(code == Some(1) && lines.contains("is `address = \"20.0.0.9\"`, not `address = \"20.0.0.1\"`"), "{lines}");
}

#[test]
fn systemd_starts_the_units_with_their_planned_files() {
    let Some(mut site) = example("units").filter(|_| has_systemd()) else { return };
    plan(site.folder.path(), &fs::read_to_string(EXAMPLE).unwrap());
    site.boot("dir1");
    AGENTS.iter().for_each(|name| site.boot(name));
    site.import("dir1");
    reaches_all(&site, MACHINES, "pushed_two");
    // A unit that was stopped is found; started again, the machine is as planned.
    let systemctl = |verb: &str| site.on("web1", Path::new("systemctl"), &[verb, "weft-agent"]);
    assert!(systemctl("stop").status.success());
    let (code, lines) = site.check("web1");
    assert!(code == Some(1) && lines.contains("weft-agent.service: inactive, not active: systemctl start weft-agent"), "{lines}");
    assert!(systemctl("start").status.success());
    reaches_all(&site, &["web1"], "pushed_two");
}

/// Hosts as locators over switches without agents, updates by TLS, and a directory server on one of the hosts.
#[test]
fn systemd_starts_a_server_and_an_agent_on_one_machine() {
    let Some(mut site) = example("shared").filter(|_| has_systemd()) else { return };
    let mut inventory = fs::read_to_string(EXAMPLE).unwrap();
    for (from, to) in [
        ("locator = \"tor\"", "locator = \"host\""),
        ("anycast = [\"10.9.0.1\"]", ""),
        ("name = \"dir1\"\naddress = \"10.9.9.1\"", "name = \"db1\"\naddress = \"10.1.3.2\""),
        ("principal = 41", "agent = false"),
        ("principal = 42", "agent = false"),
        ("principal = 43", "agent = false"),
    ] {
        assert!(inventory.contains(from), "{from}");
        inventory = inventory.replace(from, to);
    }
    plan(site.folder.path(), &inventory);
    let hosts = ["db1", "web1", "web2"];
    hosts.iter().for_each(|name| site.boot(name));
    site.import("web2");
    reaches_all(&site, &hosts, "pushed_one");
}

/// Where Ansible is installed, its role brings machines with nothing of Weft's files to what is planned, and changes nothing when it runs again.
#[test]
fn the_role_installs_and_starts_what_is_planned() {
    if !has_ansible() {
        return;
    }
    let Some(mut site) = example("role").filter(|_| has_systemd()) else { return };
    plan(site.folder.path(), &fs::read_to_string(EXAMPLE).unwrap());
    let bare = site.folder.path().join("bare");
    fs::create_dir(&bare).unwrap();
    MACHINES.iter().for_each(|name| site.boot_with(name, &bare));
    site.play("dir1");
    site.import("dir1");
    AGENTS.iter().for_each(|name| drop(site.play(name)));
    reaches_all(&site, MACHINES, "pushed_two");
    for name in ["dir1", "web1"] {
        let text = site.play(name);
        assert!(text.contains("changed=0 "), "{text}");
    }
    // An address more: only what differs is written, and the agent has it.
    let more = fs::read_to_string(EXAMPLE).unwrap().replace("[\"20.0.0.1\"]", "[\"20.0.0.1\", \"20.0.0.11\"]");
    plan(site.folder.path(), &more);
    site.import("dir1");
    site.play("web1");
    reaches_all(&site, &["web1"], "pushed_two");
    let output = site.on("web2", Path::new("ping"), &["-c", "2", "-W", "2", "20.0.0.11"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}
