//! The hook of libvirt (`packaging/libvirt/qemu`), called with libvirt's arguments and a domain's XML on standard input, as libvirt does, at real agents.
#![allow(clippy::disallowed_methods)] // Processes live by the wall clock.
#![cfg(target_os = "linux")]

mod support;

use std::fs;
use std::io::Write as _;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;
use support::fabric::{HOSTS, Network};
use support::site::{Site, plan, wait};

const HOOK: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/libvirt/qemu");
const EXAMPLE: &str = include_str!("../../../examples/inventory-netlord.toml");

/// A domain as `virsh dumpxml` prints it: two interfaces of VMs.
fn domain(metadata: &str) -> String {
    let interface = |n: u8| {
        format!(
            "<interface type='ethernet'><mac address='52:54:00:00:00:0{n}'/><target dev='vnet{n}'/><model type='virtio'/></interface>"
        )
    };
    format!(
        "<domain type='kvm' id='3'><name>web</name><metadata><other:x xmlns:other='urn:other'/>{metadata}</metadata>\
         <devices><emulator>/usr/bin/qemu-system-x86_64</emulator>{}{}</devices></domain>",
        interface(1),
        interface(2)
    )
}

fn interfaces(entries: &str) -> String {
    format!("<weft:interfaces xmlns:weft='urn:weft:libvirt:1'>{entries}</weft:interfaces>")
}

/// Calls the hook: exit code, standard output, and what it says.
fn call(mut hook: Command, step: [&str; 2], xml: &str) -> (Option<i32>, String, String) {
    hook.args(["web", step[0], step[1], "-"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = hook.spawn().unwrap();
    // It does not read what it has no use for.
    let _ = child.stdin.take().unwrap().write_all(xml.as_bytes());
    let output = child.wait_with_output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

fn done() -> (Option<i32>, String, String) {
    (Some(0), String::new(), String::new())
}

/// A server of NetLord, `h1`, and the switch that it is connected to.
struct Server {
    site: Site,
}

impl Server {
    fn start(name: &str) -> Option<Self> {
        const NODES: &[&str] = &["h0", "h1", "edge0", "core0", "core1", "web"];
        let network = Network::bare(name, NODES)?;
        for (a, b) in [
            (("h1", "eth0"), ("edge0", "p1")),
            (("h0", "eth0"), ("edge0", "p0")),
            (("edge0", "u0"), ("core0", "p0")),
            (("edge0", "u1"), ("core1", "p0")),
            (("web", "eth0"), ("h1", "vnet1")),
            (("web", "eth1"), ("h1", "vnet2")),
        ] {
            network.cable(a, b);
        }
        let (start, rest) = EXAMPLE.split_once("[[directory.server]]").unwrap();
        let mut site = Site::of(network);
        plan(site.folder.path(), &format!("{start}[netlord]{}", rest.split_once("[netlord]").unwrap().1));
        ["edge0", "h1"].iter().for_each(|name| site.start_agent(name));
        wait("the agent", || {
            let found = site.on("h1", Path::new("test"), &["-S", "/run/weft/agent.sock"]);
            found.status.success().then_some(()).ok_or_else(String::new)
        });
        Some(Self { site })
    }

    fn state(&self) -> PathBuf {
        self.site.folder.path().join("state")
    }

    fn hook(&self, step: [&str; 2], metadata: &str) -> (Option<i32>, String, String) {
        let mut command = self.site.command("h1", Path::new(HOOK));
        command.env("WEFT_AGENT", env!("CARGO_BIN_EXE_weft-agent")).env("WEFT_LIBVIRT_STATE", self.state());
        call(command, step, &domain(metadata))
    }

    /// VIFs of tenants, with their interfaces.
    fn vifs(&self) -> Vec<String> {
        let status = self.site.on("h1", Path::new(env!("CARGO_BIN_EXE_weft-agent")), &["status", "--json"]);
        let status: Value = serde_json::from_slice(&status.stdout).unwrap();
        let list = status["vifs"].as_array().unwrap().iter().filter(|it| it["id"] != 1);
        let text = |it: &Value, key: &str| it[key].as_str().unwrap().to_owned();
        list.map(|it| format!("{} {}/{}", text(it, "device"), text(it, "tenant"), text(it, "name"))).collect()
    }
}

const WEB3: &str = "<weft:vif mac='52:54:00:00:00:01' tenant='acme' name='web3'/>";
const APP: &str = "<weft:vif mac='52:54:00:00:00:02' tenant='globex' name='app'/>";

#[test]
fn vifs_of_a_domain_are_attached_and_detached() {
    let Some(server) = Server::start("virt") else { return };
    let both = interfaces(&format!("{WEB3}{APP}"));
    // What libvirt calls when a domain starts, is found again by a new libvirtd, and ends.
    assert_eq!(server.hook(["prepare", "begin"], &both), done());
    assert_eq!(server.hook(["start", "begin"], &both), done());
    assert!(server.vifs().is_empty());
    assert_eq!(server.hook(["started", "begin"], &both), done());
    assert_eq!(server.vifs(), ["vnet1 acme/web3", "vnet2 globex/app"]);
    assert_eq!(server.hook(["reconnect", "begin"], &both), done());
    assert_eq!(server.hook(["stopped", "end"], &both), done());
    assert_eq!(server.hook(["release", "end"], &both), done());
    assert!(server.vifs().is_empty(), "{:?}", server.vifs());
    // A domain that migrates to this machine is attached when it runs here.
    assert_eq!(server.hook(["migrate", "begin"], &both), done());
    assert_eq!(server.hook(["started", "begin"], &both), done());
    assert!(server.vifs().is_empty(), "{:?}", server.vifs());
    assert_eq!(server.hook(["reconnect", "begin"], &both), done());
    assert_eq!(server.vifs().len(), 2);
    assert_eq!(server.hook(["stopped", "end"], &both), done());
    // One that has not come leaves no mark.
    assert_eq!(server.hook(["migrate", "begin"], &both), done());
    assert_eq!(fs::read_dir(server.state()).unwrap().count(), 1);
    assert_eq!(server.hook(["stopped", "end"], &interfaces("")), done());
    assert_eq!(fs::read_dir(server.state()).unwrap().count(), 0);
}

#[test]
fn a_domain_whose_vifs_cannot_be_attached_does_not_start() {
    let Some(server) = Server::start("virt1") else { return };
    // One that cannot be attached keeps the domain from starting, and leaves nothing behind; a running domain goes on.
    let unknown = interfaces(&format!("{WEB3}<weft:vif mac='52:54:00:00:00:02' tenant='globex' name='nobody'/>"));
    let (code, _, said) = server.hook(["started", "begin"], &unknown);
    assert!(code == Some(1) && said.contains("weft: web: ") && said.contains("nobody"), "{said}");
    assert!(server.vifs().is_empty(), "{:?}", server.vifs());
    let (code, _, said) = server.hook(["reconnect", "begin"], &unknown);
    assert!(code == Some(0) && said.contains("nobody"), "{said}");
    // Other domains are left alone; errors in the metadata are reported.
    assert_eq!(server.hook(["started", "begin"], ""), done());
    for (entries, what) in [
        ("<weft:vif mac='52:54:00:00:00:09' tenant='acme' name='web3'/>", "no interface with the MAC address 52:54:00:00:00:09"),
        ("<weft:vif mac='52:54:00:00:00:01' tenant='acme'/>", "`vif` without `name`"),
        ("<weft:nic mac='52:54:00:00:00:01'/>", "has `nic`: write `vif` or `address`"),
    ] {
        let (code, _, said) = server.hook(["started", "begin"], &interfaces(entries));
        assert!(code == Some(1) && said.contains(what), "{said}");
    }
    assert!(server.vifs().is_empty());
}

#[test]
fn addresses_of_a_domain_are_attached_and_detached() {
    let Some(mut network) = Network::new("virt2") else { return };
    let host = HOSTS[0];
    network.start_switches();
    network.start_directory(&["--policy", "open", "--provisioner", "7", "--provisioner", "41"]);
    network.provision([1, 1, 1], true, 1);
    network.provision_address(Ipv4Addr::new(20, 0, 0, 40), host, 1);
    network.start_tor("tor1", "60s");
    network.start_agent(host, "tor = \"10.1.1.1:5304\"\n");
    let hook = |step: [&str; 2], address: &str| {
        let mut command = Command::new(HOOK);
        command.env("WEFT_AGENT", env!("CARGO_BIN_EXE_weft-agent")).env("WEFT_AGENT_SOCKET", network.socket(host));
        let entry = format!("<weft:address mac='52:54:00:00:00:02' address='{address}'/>");
        call(command, step, &domain(&interfaces(&entry)))
    };
    let addresses = || network.status(host)["addresses"].clone();
    assert_eq!(hook(["started", "begin"], "20.0.0.40"), done());
    let of = |addresses: &Value| addresses.as_array().unwrap().iter().find(|it| it["address"] == "20.0.0.40").cloned();
    let attached = of(&addresses()).unwrap();
    assert_eq!((&attached["mac"], &attached["attached"]), (&"52:54:00:00:00:02".into(), &true.into()), "{attached}");
    assert_eq!(hook(["stopped", "end"], "20.0.0.40"), done());
    assert!(of(&addresses()).is_none(), "{}", addresses());
    // Not provisioned for this host.
    let (code, _, said) = hook(["started", "begin"], "20.0.0.41");
    assert!(code == Some(1) && said.contains("20.0.0.41"), "{said}");
}
