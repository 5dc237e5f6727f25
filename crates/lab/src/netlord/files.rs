//! Configurations of NetLord's agents, and the documents that they read: the tenants' file, SPAIN's tables.

use std::fmt::Write as _;

use weft_control::netlord::spain::SpainTables;
use weft_control::netlord::vlans::Vlans;
use weft_fabric::MacAddr;

use crate::agents::{OverlayFiles, name_of, pins};
use crate::directory::{Directory, PATHS, TENANTS, principal};
use crate::error::Result;
use crate::plan::netlord::{Bridge, Netlord};
use crate::plan::{Node, Plan, Role};

/// Writes all of them.
pub(super) fn write(plan: &Plan, netlord: &Netlord, files: &OverlayFiles) -> Result<()> {
    files.write(TENANTS, &netlord.file)?;
    let (has_directory, paths) = (plan.overlay.directory().is_some(), spain(netlord).emit());
    if has_directory {
        files.write(PATHS, &paths)?;
    }
    for (at, node) in plan.nodes.iter().enumerate() {
        let text = match node.role {
            Role::Switch => netlord.switch(at).map(|bridge| of_switch(plan, netlord, files, node, bridge)),
            Role::Host => Some(of_host(plan, netlord, files, at, node)),
            Role::Outside | Role::Vm => None,
        };
        if node.role == Role::Host && has_directory {
            files.write(&copy_of(node, TENANTS), &netlord.file)?;
            files.write(&copy_of(node, PATHS), &paths)?;
        }
        if let Some(text) = text {
            files.write(&format!("{}.toml", name_of(node)), &text)?;
        }
    }
    Ok(())
}

/// The keys of every agent.
fn common(plan: &Plan, files: &OverlayFiles, node: &Node, role: &str) -> String {
    let (name, pins) = (name_of(node), pins(&plan.name));
    let (socket, pins) = (files.text(&format!("{name}.sock")), pins.join(name));
    format!("overlay = \"netlord\"\nrole = \"{role}\"\nmetrics = \"off\"\nsocket = \"{socket}\"\npins = \"{}\"\n", pins.display())
}

fn of_switch(plan: &Plan, netlord: &Netlord, files: &OverlayFiles, node: &Node, bridge: &Bridge) -> String {
    let role = if bridge.mac.is_some() { "edge" } else { "core" };
    let mut text = common(plan, files, node, role);
    let mut line = |args: std::fmt::Arguments<'_>| writeln!(text, "{args}").expect("a text grows");
    if let Some(mac) = &bridge.mac {
        line(format_args!("mac = \"{mac}\""));
        if bridge.ports.iter().any(|port| port.number.is_none()) {
            line(format_args!("special_vlan = {:?}", netlord.special));
        }
    }
    let fib = &netlord.fib;
    line(format_args!("fib_entries = {}\nageing = \"{}s\"\nlldp = \"1s\"", fib.entries, fib.ageing_s));
    line(format_args!("learn_per_second = {}", fib.learn_per_second));
    for (port, of_bridge) in node.ports.iter().zip(&bridge.ports) {
        line(format_args!("[[port]]\ndevice = \"{}\"\nvlans = \"{}\"", port.name, Vlans::of(of_bridge.vlans.iter().copied())));
        if let Some(number) = of_bridge.number {
            line(format_args!("number = {number}"));
        }
        if let Some(native) = of_bridge.native {
            line(format_args!("native = {native}"));
        }
    }
    for limit in netlord.limits.iter().filter(|_| bridge.mac.is_some()) {
        line(format_args!("[[limit]]\ntenant = {}", limit.tenant));
        match &limit.rate {
            Some(rate) => line(format_args!("rate = \"{rate}\"")),
            None => line(format_args!("deny = true")),
        }
    }
    text
}

fn of_host(plan: &Plan, netlord: &Netlord, files: &OverlayFiles, at: usize, node: &Node) -> String {
    let mut text = common(plan, files, node, "host");
    let mut line = |args: std::fmt::Arguments<'_>| writeln!(text, "{args}").expect("a text grows");
    let directory = Directory::of(plan, files);
    let has_directory = directory.is_some();
    let tenants = if has_directory { copy_of(node, TENANTS) } else { TENANTS.to_owned() };
    line(format_args!("tenants = \"{}\"\nspecial_vlan = {:?}", files.text(&tenants), netlord.special));
    if let Some(directory) = directory {
        line(format_args!("paths = \"{}\"", files.text(&copy_of(node, PATHS))));
        let (servers, number) = (directory.list(), principal(at).0);
        let key = files.text(&format!("{}.key", name_of(node)));
        line(format_args!("locations = \"directory\""));
        line(format_args!("[directory]\nservers = {servers}\nprincipal = {number}\nkey = \"{key}\""));
        line(format_args!("[repository]\nperiod = \"1s\"\nauth = \"mac\""));
    }
    if netlord.provider.is_some() {
        line(format_args!("[provider]\ndevice = \"{PROVIDER_DEVICE}\"\naddress = \"dhcp\""));
    }
    if let Some(us) = netlord.chirp_us {
        line(format_args!("[spain]\nperiod = \"{us}us\"\nanswer = \"{}us\"", us.div_ceil(2)));
    }
    for nic in plan.nics(at) {
        line(format_args!("[[uplink]]\ndevice = \"{}\"", nic.name));
    }
    for vm in netlord.of_host(at) {
        let device = &node.ports[vm.port].name;
        line(format_args!("[[vif]]\ndevice = \"{device}\"\ntenant = \"{}\"\nname = \"{}\"", vm.tenant, vm.vif));
    }
    for nic in plan.nics(at).filter(|_| !has_directory) {
        for (mac, vlans) in netlord.switch(nic.peer.node).iter().flat_map(|edge| &edge.paths) {
            line(format_args!(
                "[[path]]\nuplink = \"{}\"\nswitch = \"{mac}\"\nvlans = \"{}\"",
                nic.name,
                Vlans::of(vlans.iter().copied())
            ));
        }
    }
    text
}
/// The name of an agent's copy of a document of the directory's store.
fn copy_of(node: &Node, file: &str) -> String {
    format!("{}.{file}", name_of(node))
}

/// SPAIN's tables for all agents.
fn spain(netlord: &Netlord) -> SpainTables {
    let mac = |text: &String| text.parse::<MacAddr>().expect("MAC addresses of the plan are valid");
    let edges = netlord.switches.iter().filter_map(|it| Some((mac(it.mac.as_ref()?), &it.paths)));
    let table =
        |paths: &[(String, Vec<u16>)]| paths.iter().map(|(to, vlans)| (mac(to), Vlans::of(vlans.iter().copied()))).collect();
    SpainTables { version: 1, from: edges.map(|(switch, paths)| (switch, table(paths))).collect() }
}

/// The interface of a host in tenant 1.
pub(super) const PROVIDER_DEVICE: &str = "weft1";
