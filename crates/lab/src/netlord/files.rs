//! Configurations of all daemons.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use weft_control::netlord::spain::SpainTables;
use weft_control::netlord::vlans::Vlans;
use weft_fabric::MacAddr;

use crate::directory::{Directory, PATHS, TENANTS};
use crate::error::{LabError, Result};
use crate::plan::tenants::{Bridge, Netlord};
use crate::plan::{Node, Plan, Role};
use crate::vl2::pins;

/// The folder, written.
pub(super) struct Files {
    pub folder: PathBuf,
}

impl Files {
    /// Writes all files.
    pub fn write(plan: &Plan, netlord: &Netlord, lab: &Path) -> Result<Self> {
        let files = Self { folder: super::folder(lab) };
        fs::create_dir_all(&files.folder).map_err(|e| LabError::io("make", &files.folder, e))?;
        files.put(TENANTS, &netlord.file)?;
        let (has_repository, paths) = (Directory::of(plan, &files.folder).is_some(), spain(netlord).emit());
        if has_repository {
            files.put(PATHS, &paths)?;
        }
        for (at, node) in plan.nodes.iter().enumerate() {
            let text = match node.role {
                Role::Switch => netlord.switch(at).map(|bridge| files.of_switch(plan, netlord, node, bridge)),
                Role::Host => Some(files.of_host(plan, netlord, at, node)),
                Role::Outside | Role::Vm => None,
            };
            if node.role == Role::Host && has_repository {
                files.put(&own(node, TENANTS), &netlord.file)?;
                files.put(&own(node, PATHS), &paths)?;
            }
            if let Some(text) = text {
                files.put(&format!("{}.toml", name_of(node)), &text)?;
            }
        }
        super::directory::write(plan, netlord, &files)?;
        Ok(files)
    }

    /// A file's path as text.
    pub fn text(&self, name: &str) -> String {
        self.folder.join(name).display().to_string()
    }

    fn put(&self, name: &str, text: &str) -> Result<()> {
        let path = self.folder.join(name);
        fs::write(&path, text).map_err(|e| LabError::io("write", &path, e))
    }

    fn head(&self, plan: &Plan, node: &Node, role: &str) -> String {
        let (name, pins) = (name_of(node), pins(&plan.name));
        let (socket, pins) = (self.text(&format!("{name}.sock")), pins.join(&name));
        format!(
            "overlay = \"netlord\"\nrole = \"{role}\"\nmetrics = \"off\"\nsocket = \"{socket}\"\npins = \"{}\"\n",
            pins.display()
        )
    }

    fn of_switch(&self, plan: &Plan, netlord: &Netlord, node: &Node, bridge: &Bridge) -> String {
        let role = if bridge.mac.is_some() { "edge" } else { "core" };
        let mut text = self.head(plan, node, role);
        let mut line = |args: std::fmt::Arguments<'_>| writeln!(text, "{args}").expect("a text grows");
        if let Some(mac) = &bridge.mac {
            line(format_args!("mac = \"{mac}\""));
        }
        let fib = &netlord.fib;
        line(format_args!("fib_entries = {}\nageing = \"{}s\"\nlldp = \"1s\"", fib.entries, fib.ageing_s));
        line(format_args!("learn_per_second = {}", fib.learn_per_second));
        for (port, of_bridge) in node.ports.iter().zip(&bridge.ports) {
            line(format_args!(
                "[[port]]\ndevice = \"{}\"\nvlans = \"{}\"",
                port.name,
                Vlans::of(of_bridge.vlans.iter().copied())
            ));
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

    fn of_host(&self, plan: &Plan, netlord: &Netlord, at: usize, node: &Node) -> String {
        let mut text = self.head(plan, node, "host");
        let mut line = |args: std::fmt::Arguments<'_>| writeln!(text, "{args}").expect("a text grows");
        let directory = Directory::of(plan, &self.folder);
        let has_repository = directory.is_some();
        let tenants = if has_repository { own(node, TENANTS) } else { TENANTS.to_owned() };
        line(format_args!("tenants = \"{}\"\nspecial_vlan = {:?}", self.text(&tenants), netlord.special));
        if let Some(directory) = directory {
            line(format_args!("paths = \"{}\"", self.text(&own(node, PATHS))));
            let (servers, principal) = (directory.list(), crate::directory::principal(at).0);
            let key = self.text(&format!("{}.key", name_of(node)));
            line(format_args!("locations = \"directory\""));
            line(format_args!("[directory]\nservers = {servers}\nprincipal = {principal}\nkey = \"{key}\""));
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
        for nic in plan.nics(at).filter(|_| !has_repository) {
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
}

/// The file that an agent keeps as the directory's store has it.
fn own(node: &Node, file: &str) -> String {
    format!("{}.{file}", name_of(node))
}

/// SPAIN's tables for all agents.
fn spain(netlord: &Netlord) -> SpainTables {
    let mac = |text: &String| text.parse::<MacAddr>().expect("the plan's are addresses");
    let edges = netlord.switches.iter().filter_map(|it| Some((mac(it.mac.as_ref()?), &it.paths)));
    let table =
        |paths: &[(String, Vec<u16>)]| paths.iter().map(|(to, vlans)| (mac(to), Vlans::of(vlans.iter().copied()))).collect();
    SpainTables { version: 1, from: edges.map(|(switch, paths)| (switch, table(paths))).collect() }
}

/// The interface of a host in tenant 1.
pub(super) const PROVIDER_DEVICE: &str = "weft1";

/// A node's name in files: its namespace's, without what all of the lab have.
pub(super) fn name_of(node: &Node) -> String {
    let mut parts = node.namespace.splitn(3, '-');
    parts.nth(2).unwrap_or(&node.namespace).to_owned()
}
