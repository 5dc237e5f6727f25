//! NetLord as `weft deploy plan` writes it: the example inventory as a network of namespaces in which every machine runs with its planned files.
//!
//! ```text
//!   web1, app --- h0 --- edge0 --- core0 --- edge1 --- h2 --- web2, db        dir1 192.168.9.1, a network of its own to each server
//!   web3 -------- h1 ---'   '----- core1 -----'
//! ```
#![allow(clippy::disallowed_methods)] // Processes live by the wall clock.
#![cfg(target_os = "linux")]

mod support;

use std::fs;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::Output;
use std::time::Duration;

use serde_json::Value;
use support::fabric::Network;
use support::process::program;
use support::site::{Site, has_ansible, has_systemd, plan, wait};
use weft_agent::config::Place;
use weft_agent::netlord::{host::HostConfig, switch::SwitchConfig};

const EXAMPLE: &str = include_str!("../../../examples/inventory-netlord.toml");
const SWITCHES: [&str; 4] = ["core0", "core1", "edge0", "edge1"];
const HOSTS: [&str; 3] = ["h0", "h1", "h2"];
const NODES: &[&str] = &["h0", "h1", "h2", "edge0", "edge1", "core0", "core1", "dir1", "web1", "web2", "web3", "app", "db"];

/// Agents read every configuration; the machines' names.
fn read_all(out: &Path) -> Vec<String> {
    let read = |machine: fs::DirEntry| {
        let path = machine.path().join("etc/weft/agent.toml");
        let text = fs::read_to_string(&path).ok()?;
        let place = Place { path: &path, text: &text, page: "docs/running-on-hosts.md" };
        if text.contains("role = \"host\"") {
            HostConfig::read(&place).unwrap_or_else(|error| panic!("{error}"));
        } else {
            SwitchConfig::read(&place).unwrap_or_else(|error| panic!("{error}"));
        }
        Some(machine.file_name().into_string().unwrap())
    };
    let mut names: Vec<String> = fs::read_dir(out.join("hosts")).unwrap().filter_map(|it| read(it.unwrap())).collect();
    names.sort();
    names
}

/// Servers read the tenants from files.
fn without_directory() -> String {
    let (start, rest) = EXAMPLE.split_once("[[directory.server]]").unwrap();
    let end = rest.split_once("[netlord]").unwrap().1;
    format!("{start}[netlord]{end}")
}

/// Servers look up in the directory where VIFs are.
fn pull() -> String {
    let netlord = "[[service]]\nname = \"tenants\"\nid = 1\n\n[netlord]\nlocations = \"directory\"\nservice = \"tenants\"";
    EXAMPLE.replacen("[netlord]", netlord, 1)
}

#[test]
fn agents_read_every_planned_configuration() {
    let all = "[netlord]\npaths = 1\ntrees = 1\nlimits = { agent_rate = 5000, agent_burst = 500, nl_arp_entries = 1000, search_rate = 10 }";
    let limited = EXAMPLE.replacen("[netlord]", all, 1);
    let two_uplinks = EXAMPLE
        .replace("number = 2 }]", "number = 2 }, { device = \"eth1\", port = \"edge1:p1\", number = 2 }]")
        .replace("address = \"192.168.9.1\"", "address = \"10.1.0.9\"");
    let more = EXAMPLE
        .replace("role = \"core\"", "role = \"core\"\nfib_entries = 100\nuntagged = [\"dhcp0\"]")
        .replace("rate = \"50Mbps\"", "deny = true");
    let settings =
        EXAMPLE.replacen("[netlord]", "[agent]\nfail_static = \"1h\"\non_exit = \"remove\"\nmetrics = \"off\"\n\n[netlord]", 1);
    for inventory in [EXAMPLE, &without_directory(), &pull(), &limited, &two_uplinks, &more, &settings] {
        let folder = tempfile::tempdir().unwrap();
        let expected: Vec<&str> = SWITCHES.into_iter().chain(HOSTS).collect();
        assert_eq!(read_all(&plan(folder.path(), inventory)), expected);
    }
}

fn wired(network: &Network) {
    for (a, b) in [
        (("edge0", "u0"), ("core0", "p0")),
        (("edge0", "u1"), ("core1", "p0")),
        (("edge1", "u0"), ("core0", "p1")),
        (("edge1", "u1"), ("core1", "p1")),
        (("h0", "eth0"), ("edge0", "p0")),
        (("h1", "eth0"), ("edge0", "p1")),
        (("h2", "eth0"), ("edge1", "p0")),
    ] {
        network.cable(a, b);
    }
    for (vm, host, device, address) in [
        ("web1", "h0", "tap0", "10.0.0.1"),
        ("web2", "h2", "tap0", "10.0.0.2"),
        ("web3", "h1", "vnet7", "10.0.0.3"),
        ("app", "h0", "tap1", "10.0.0.1"),
        ("db", "h2", "tap1", "10.0.1.1"),
    ] {
        network.cable((vm, "eth0"), (host, device));
        let last = vm.strip_prefix("web").unwrap_or("1");
        network.ip(vm, &format!("link set eth0 mtu 1500 address 02:00:00:00:00:0{last}"));
        network.ip(vm, &format!("addr add {address}/24 dev eth0"));
    }
    network.ip("app", "route add default via 10.0.0.254");
    network.ip("db", "route add default via 10.0.1.254");
    network.ip("dir1", "addr add 192.168.9.1/32 dev lo");
    for (n, host) in HOSTS.iter().enumerate() {
        network.cable((host, "mgmt"), ("dir1", &format!("m{n}")));
        network.ip("dir1", &format!("addr add 172.31.{n}.1/24 dev m{n}"));
        network.ip(host, &format!("addr add 172.31.{n}.2/24 dev mgmt"));
        network.ip(host, &format!("route add 192.168.9.1 via 172.31.{n}.1"));
    }
}

/// The example's machines, with a plan of this inventory.
fn site(name: &str, inventory: &str) -> Option<Site> {
    let network = Network::bare(name, NODES)?;
    wired(&network);
    let site = Site::of(network);
    plan(site.folder.path(), inventory);
    Some(site)
}

/// As the role imports them.
fn import_tenants(site: &Site) {
    let dir = site.plan().join("directory");
    let (tenants, dir) = (dir.join("tenants.toml"), dir.to_str().unwrap());
    let mut command = site.network.command("dir1", program("weft-directory").to_str().unwrap());
    let output = command.args(["tenant", "import", "--timeout", "20s", "--dir", dir]).arg(tenants).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

fn agent(site: &Site, machine: &str, arguments: &[&str]) -> Output {
    site.on(machine, Path::new(env!("CARGO_BIN_EXE_weft-agent")), arguments)
}

fn pings(site: &Site, from: &str, to: &str) {
    wait(&format!("{from} pings {to}"), || {
        let output = site.network.command(from, "ping").args(["-c", "2", "-i", "0.2", "-W", "2", to]).output().unwrap();
        if output.status.success() { Ok(()) } else { Err(text(&output)) }
    });
}

/// All that the inventory has of tenants holds.
fn tenants_are_as_planned(site: &Site) {
    site.is_as_planned(&[&HOSTS[..], &SWITCHES].concat());
    pings(site, "web1", "10.0.0.2");
    pings(site, "app", "10.0.1.1");
    // A VIF that is attached at run time, where the inventory places it.
    let attached = agent(site, "h1", &["vif", "attach", "vnet7", "acme/web3"]);
    assert!(attached.status.success(), "{}", text(&attached));
    pings(site, "web1", "10.0.0.3");
    pings(site, "web3", "10.0.0.2");
    site.is_as_planned(&HOSTS);
    // The rule.
    let connects = |port: u16| {
        let to: SocketAddr = ([10, 0, 1, 1], port).into();
        let listener = site.network.within("db", || TcpListener::bind(to).unwrap());
        let stream = site.network.within("app", || TcpStream::connect_timeout(&to, Duration::from_secs(3)).is_ok());
        drop(listener);
        stream
    };
    assert!(connects(80) && !connects(22), "port 80 is open, and 22 is denied");
    // Servers among themselves.
    let output = site.on("h0", Path::new("ping"), &["-c", "2", "-i", "0.2", "-W", "2", "10.1.0.3"]);
    assert!(output.status.success(), "{}", text(&output));
    // The limit.
    let status: Value = serde_json::from_slice(&agent(site, "edge1", &["status", "--json"]).stdout).unwrap();
    let acme = status["tenants"].as_array().unwrap().iter().find(|it| it["tenant"] == 17).unwrap();
    assert_eq!(acme["limit"], "50Mbps", "{acme}");
    assert!(acme["packets"].as_u64() > Some(3), "{acme}: packets are counted where they leave the fabric");
    assert_eq!(status["shared_limits"]["switches"], serde_json::json!(["02:4e:4c:00:00:01"]), "{status:#}");
}

fn start(site: &mut Site) {
    SWITCHES.iter().chain(&HOSTS).for_each(|name| site.start_agent(name));
}

#[test]
fn tenants_of_the_directory_reach_each_other() {
    let Some(mut site) = site("netlord", EXAMPLE) else { return };
    site.start_directory("dir1");
    site.import("dir1");
    import_tenants(&site);
    start(&mut site);
    tenants_are_as_planned(&site);
    // The records of a tenant are for its readers: h1 has none of them.
    let refused = agent(&site, "h1", &["vif", "attach", "vnet7", "globex/app"]);
    assert!(!refused.status.success(), "{}", text(&refused));
}

#[test]
fn tenants_of_planned_files_reach_each_other() {
    let Some(mut site) = site("files", &without_directory()) else { return };
    start(&mut site);
    tenants_are_as_planned(&site);
}

#[test]
fn vifs_are_found_by_planned_bindings() {
    let Some(mut site) = site("pull", &pull()) else { return };
    site.start_directory("dir1");
    site.import("dir1");
    import_tenants(&site);
    start(&mut site);
    tenants_are_as_planned(&site);
    let status: Value = serde_json::from_slice(&agent(&site, "h0", &["status", "--json"]).stdout).unwrap();
    assert!(status["lookups"]["misses"].as_u64() > Some(0), "{status:#}");
}

#[test]
fn systemd_starts_the_units_with_their_planned_files() {
    if !has_systemd() {
        return;
    }
    let Some(mut site) = site("nlunits", EXAMPLE) else { return };
    site.boot("dir1");
    site.import("dir1");
    import_tenants(&site);
    SWITCHES.iter().chain(&HOSTS).for_each(|name| site.boot(name));
    tenants_are_as_planned(&site);
    // The drop-in lets the agent keep what it received, from which it starts again.
    let kept = site.on("h0", Path::new("cat"), &["/var/lib/weft/tenants.toml"]);
    assert!(text(&kept).contains("name = \"app\"") && !text(&kept).contains("name = \"web2\""), "{}", text(&kept));
    assert!(site.on("h0", Path::new("systemctl"), &["restart", "weft-agent"]).status.success());
    site.is_as_planned(&["h0"]);
    pings(&site, "web1", "10.0.0.2");
}

/// Where Ansible is installed, its role brings machines with nothing of Weft's files to what is planned.
#[test]
fn the_role_installs_and_starts_what_is_planned() {
    if !has_ansible() || !has_systemd() {
        return;
    }
    let Some(mut site) = site("nlrole", EXAMPLE) else { return };
    let bare = site.folder.path().join("bare");
    fs::create_dir(&bare).unwrap();
    ["dir1"].iter().chain(&SWITCHES).chain(&HOSTS).for_each(|name| site.boot_with(name, &bare));
    site.play("dir1");
    // The administrator's part: mappings and tenants.
    let text = site.play_for("dir1", "localhost");
    assert!(text.contains("changed=2 "), "{text}");
    let text = site.play_for("dir1", "localhost");
    assert!(text.contains("ok=2 ") && text.contains("changed=0 "), "{text}");
    // Edge switches before the servers that are to answer them.
    SWITCHES.iter().chain(&HOSTS).for_each(|name| drop(site.play(name)));
    tenants_are_as_planned(&site);
    for name in ["edge0", "h0"] {
        let text = site.play(name);
        assert!(text.contains("changed=0 "), "{text}");
    }
    // The VIF that was attached at run time has its interface in the inventory from now on.
    let more = EXAMPLE.replace("version = 1 ", "version = 2 ").replace("host = \"h1\"", "host = \"h1\"\ndevice = \"vnet7\"");
    plan(site.folder.path(), &more);
    site.play_for("dir1", "localhost");
    site.play("h1");
    site.is_as_planned(&["h1"]);
    pings(&site, "web1", "10.0.0.3");
}
