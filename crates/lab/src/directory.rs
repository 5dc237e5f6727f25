//! The directory of a lab: its servers on some of the hosts, and the etcd that several of them share. The overlay provides the mappings.

use std::fs::File;
use std::io::Read as _;
use std::net::SocketAddrV4;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use weft_control::directory::PrincipalId;
use weft_control::directory::auth::Secret;

use crate::agents::OverlayFiles;
use crate::error::{LabError, Result};
use crate::names::{DIRECTORY, ETCD};
use crate::plan::directory::PRINCIPAL_ADMIN;
use crate::plan::{DirectoryServers, Node, Plan, Store};
use crate::programs::{self, Environment, StartedProgram, find, wait_for};

/// The tenants' file of a lab with NetLord.
pub(crate) const TENANTS: &str = "tenants.toml";
/// SPAIN's tables, beside it.
pub(crate) const PATHS: &str = "paths.toml";
/// The port of a server.
pub(crate) const PORT: u16 = 5303;
/// Ports of etcd, for clients and for other members.
pub(crate) const ETCD_PORTS: [u16; 2] = [2379, 2380];

/// The directory of a lab.
#[derive(Clone, Debug)]
pub(crate) struct Directory<'a> {
    plan: &'a Plan,
    servers: &'a DirectoryServers,
    /// With `secret`, `policy.toml` and `mappings.jsonl`.
    files: OverlayFiles,
}

/// Kills a directory server of a lab. Whether it ran.
pub fn kill_server(plan: &Plan, server: usize) -> bool {
    Directory::of_lab(plan).is_some_and(|directory| directory.kill_server(server))
}

/// Starts a directory server of a lab again after it has ended; returns when it has reported that it is ready.
///
/// # Errors
/// [`LabError`] if it does not become ready.
pub fn restart_server(plan: &Plan, server: usize, stop: &AtomicBool) -> Result<()> {
    restart_server_with(&[], plan, server, stop)
}

/// The same, with more variables in its environment.
///
/// # Errors
/// As [`restart_server`].
pub fn restart_server_with(environment: &Environment<'_>, plan: &Plan, server: usize, stop: &AtomicBool) -> Result<()> {
    Directory::of_lab(plan).map_or(Ok(()), |directory| wait_for(&[directory.start_server(environment, server)?], stop))
}

/// Kills the store that the directory servers of a lab share. Whether it ran.
pub fn kill_store(plan: &Plan) -> bool {
    Directory::of_lab(plan).is_some_and(|directory| directory.kill_store())
}

/// Starts the store of a lab's directory servers again after it has been killed, with what it had stored.
///
/// # Errors
/// [`LabError`] if it cannot be started.
pub fn restart_store(plan: &Plan) -> Result<()> {
    Directory::of_lab(plan).map_or(Ok(()), |directory| directory.start_store())
}

impl<'a> Directory<'a> {
    /// The directory of a plan, if it has one, with these files.
    pub fn of(plan: &'a Plan, files: &OverlayFiles) -> Option<Self> {
        plan.overlay.directory().map(|servers| Self { plan, servers, files: files.clone() })
    }

    /// The directory of a plan, if it has one.
    pub fn of_lab(plan: &'a Plan) -> Option<Self> {
        Self::of(plan, &OverlayFiles::of(plan))
    }
}

impl Directory<'_> {
    /// Checks that the programs are installed, before anything is made.
    ///
    /// # Errors
    /// [`LabError::NoProgram`], [`LabError::NoEtcd`].
    pub fn check(store: Store) -> Result<()> {
        find(DIRECTORY)?;
        if store == Store::Etcd { find_etcd().map(drop) } else { Ok(()) }
    }

    /// Starts the store, if it is a program of its own, and all servers, and imports all mappings.
    pub fn start(&self, stop: &AtomicBool) -> Result<()> {
        if self.servers.store == Store::Etcd {
            self.start_store()?;
        }
        let servers = (0..self.servers.hosts.len()).map(|i| self.start_server(&[], i)).collect::<Result<Vec<_>>>()?;
        wait_for(&servers, stop)?;
        self.import("mappings.jsonl")
    }

    /// Imports the mappings of a file: those that are new or have changed.
    pub fn import(&self, file: &str) -> Result<()> {
        self.as_admin(&["import", &self.files.text(file)])
    }

    /// Publishes the tenants' file and SPAIN's tables as documents of the store, if they are newer than those in it.
    pub fn publish(&self) -> Result<()> {
        self.as_admin(&["tenant", "publish", "--file", &self.files.text(TENANTS)])?;
        self.as_admin(&["publish", "spain", &self.files.text(PATHS)])
    }

    /// Runs a command of the directory's program as the administrator, at the first server.
    fn as_admin(&self, command: &[&str]) -> Result<()> {
        let (folder, admin, server) = (self.folder(), PRINCIPAL_ADMIN.to_string(), self.address(0).to_string());
        let options = ["--dir", &folder, "--servers", &server, "--auth", "mac", "--principal", &admin];
        programs::run(&find(DIRECTORY)?, &[command, &options].concat(), &self.node(0).namespace)
    }

    /// Starts a server, by its number.
    pub fn start_server(&self, environment: &Environment<'_>, server: usize) -> Result<StartedProgram> {
        let (listen, principal) = (self.address(server).to_string(), DirectoryServers::principal(server).to_string());
        let folder = self.folder();
        let mut arguments: Vec<String> =
            ["serve", "--dir", &folder, "--listen", &listen, "--auth", "mac", "--metrics", "off", "--principal", &principal]
                .map(str::to_owned)
                .to_vec();
        if self.servers.store == Store::Etcd {
            arguments.extend(["--store".to_owned(), format!("etcd:{}", self.store_urls()[0]), "--etcd-plaintext".to_owned()]);
        }
        for peer in (0..self.servers.hosts.len()).filter(|&i| i != server) {
            arguments.extend(["--peer".to_owned(), self.address(peer).to_string()]);
        }
        let log = self.files.path(&format!("server{server}.log"));
        programs::start_with(environment, &find(DIRECTORY)?, &arguments, &self.node(server).namespace, &log)
    }

    /// Starts etcd, on the host of the first server. Servers wait for it.
    pub fn start_store(&self) -> Result<()> {
        let [client, peer] = self.store_urls();
        let arguments = [
            ["--name", "lab"],
            ["--data-dir", &self.files.text("etcd")],
            ["--listen-client-urls", &client],
            ["--advertise-client-urls", &client],
            ["--listen-peer-urls", &peer],
            ["--initial-advertise-peer-urls", &peer],
            ["--initial-cluster", &format!("lab={peer}")],
            ["--logger", "zap"],
            ["--log-level", "error"],
        ];
        let arguments: Vec<String> = arguments.concat().into_iter().map(str::to_owned).collect();
        programs::start(&find_etcd()?, &arguments, &self.node(0).namespace, &self.files.path("etcd.log")).map(drop)
    }

    /// Kills a server. Whether it ran.
    pub fn kill_server(&self, server: usize) -> bool {
        programs::kill(&self.node(server).namespace, &[DIRECTORY]) > 0
    }

    /// Kills etcd. Whether it ran.
    pub fn kill_store(&self) -> bool {
        programs::kill(&self.node(0).namespace, &[ETCD]) > 0
    }

    /// The address of a server.
    pub fn address(&self, server: usize) -> SocketAddrV4 {
        SocketAddrV4::new(self.node(server).locator, PORT)
    }

    /// All addresses, as a list of TOML.
    pub fn list(&self) -> String {
        let all: Vec<String> = (0..self.servers.hosts.len()).map(|i| format!("\"{}\"", self.address(i))).collect();
        format!("[{}]", all.join(", "))
    }

    /// The principals of the servers and of the administrator, for the policy.
    pub fn principals(&self) -> String {
        let mut text = String::new();
        let servers = (0..self.servers.hosts.len()).map(|i| (DirectoryServers::principal(i), "server"));
        for (id, role) in servers.chain([(PRINCIPAL_ADMIN, "admin")]) {
            text += &format!("\n[[principal]]\nid = {id}\nrole = \"{role}\"\n");
        }
        text
    }

    /// The host of a server.
    fn node(&self, server: usize) -> &Node {
        &self.plan.nodes[self.servers.hosts[server]]
    }

    fn store_urls(&self) -> [String; 2] {
        ETCD_PORTS.map(|port| format!("http://{}:{port}", self.node(0).locator))
    }

    fn folder(&self) -> String {
        self.files.folder().display().to_string()
    }
}

/// A file of mappings: its heading, and one line for each.
pub(crate) fn mapping_lines(all: &[serde_json::Value]) -> String {
    let heading = serde_json::json!({"weft_directory": 1, "revision": 0, "entries": all.len()});
    std::iter::once(&heading).chain(all).map(|line| format!("{line}\n")).collect()
}

/// The principal of a node.
pub(crate) fn principal(node: usize) -> PrincipalId {
    PrincipalId(Plan::principal(node))
}

/// A new secret for a directory.
pub(crate) fn new_secret() -> Result<Secret> {
    let source = Path::new("/dev/urandom");
    let mut bytes = [0; 32];
    let read = File::open(source).and_then(|mut file| file.read_exact(&mut bytes));
    read.map_err(|e| LabError::io("read", source, e))?;
    Ok(Secret::new(bytes))
}

/// etcd: where `scripts/setup-etcd.sh` installs it in a checkout above this program or the current folder, or else where other programs are.
fn find_etcd() -> Result<PathBuf> {
    let places = [std::env::current_exe().ok(), std::env::current_dir().ok()];
    let above = places.iter().flatten().flat_map(|place| place.ancestors());
    let unpacked = above.map(|folder| folder.join(ETCD_UNPACKED)).find(|path| path.is_file());
    unpacked.or_else(|| find(ETCD).ok()).ok_or(LabError::NoEtcd)
}

const ETCD_UNPACKED: &str = ".tools/etcd/usr/bin/etcd";
