//! The directory of a lab: its servers on some of the hosts, and the etcd that several of them share. Whatever is laid over the lab gives the mappings.

use std::fs::File;
use std::io::Read as _;
use std::net::SocketAddrV4;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use weft_control::directory::PrincipalId;
use weft_control::directory::auth::Secret;

use crate::error::{LabError, Result};
use crate::plan::overlay::{PRINCIPAL_ADMIN, Store, Vl2};
use crate::plan::{Node, Plan};
use crate::programs::{self, DIRECTORY, ETCD, Started, find, wait_for};
use crate::{netlord, state, vl2};

/// The tenants' file, in the folder of a lab that has tenants.
pub(crate) const TENANTS: &str = "tenants.toml";
/// SPAIN's tables, beside it.
pub(crate) const PATHS: &str = "paths.toml";
/// Where a server listens.
pub(crate) const PORT: u16 = 5303;
/// Where etcd's clients and its other members would come to.
const ETCD_PORTS: [u16; 2] = [2379, 2380];

/// A directory, as the plan has it.
#[derive(Clone, Copy)]
pub(crate) struct Directory<'a> {
    /// Of whose lab.
    pub plan: &'a Plan,
    /// Where the servers run, as indices into [`Plan::nodes`].
    pub servers: &'a [usize],
    /// Where they keep mappings.
    pub store: Store,
    /// Where `secret`, `policy.toml` and `mappings.jsonl` are.
    pub folder: &'a Path,
}

/// Does something with the directory of a lab that stands; none if it has none.
pub(crate) fn of_lab<T>(plan: &Plan, work: impl FnOnce(Directory<'_>) -> T) -> Option<T> {
    let lab = state::path(&plan.name);
    let folder = if plan.tenants.is_some() { netlord::folder(&lab) } else { vl2::folder(&lab) };
    Directory::of(plan, &folder).map(work)
}

/// Ends a directory server of a lab at once. Whether it ran.
pub fn kill_server(plan: &Plan, server: usize) -> bool {
    of_lab(plan, |directory| directory.kill_server(server)).unwrap_or(false)
}

/// Ends the store that the directory servers of a lab share at once. Whether it ran.
pub fn kill_store(plan: &Plan) -> bool {
    of_lab(plan, |directory| directory.kill_store()).unwrap_or(false)
}

impl<'a> Directory<'a> {
    /// The directory of a plan, if it has one, whose files are in a folder.
    pub fn of(plan: &'a Plan, folder: &'a Path) -> Option<Self> {
        plan.directory().map(|(servers, store)| Self { plan, servers, store, folder })
    }
}

impl Directory<'_> {
    /// Whether the programs are there; before anything is made.
    ///
    /// # Errors
    /// [`LabError::NoProgram`], [`LabError::NoEtcd`].
    pub fn check(store: Store) -> Result<()> {
        find(DIRECTORY)?;
        if store == Store::Etcd { find_etcd().map(drop) } else { Ok(()) }
    }

    /// Starts the store, if it is a program, and all servers, and gives them all mappings.
    pub fn start(&self, stop: &AtomicBool) -> Result<()> {
        if self.store == Store::Etcd {
            self.start_store()?;
        }
        let servers = (0..self.servers.len()).map(|i| self.start_server(i)).collect::<Result<Vec<_>>>()?;
        wait_for(&servers, stop)?;
        self.import("mappings.jsonl")
    }

    /// Gives the directory the mappings of a file of its folder: those that it has not, or has otherwise.
    pub fn import(&self, file: &str) -> Result<()> {
        self.as_admin(&["import", &self.text(file)])
    }

    /// Puts the tenants' file and SPAIN's tables of its folder into the store, if they are newer than what is there.
    pub fn publish(&self) -> Result<()> {
        self.as_admin(&["tenant", "publish", "--file", &self.text(TENANTS)])?;
        self.as_admin(&["publish", "spain", &self.text(PATHS)])
    }

    /// Has the directory's program ask a server as one who may do everything.
    fn as_admin(&self, command: &[&str]) -> Result<()> {
        let (folder, admin, to) = (self.text(""), PRINCIPAL_ADMIN.to_string(), self.address(0).to_string());
        let asks = ["--dir", &folder, "--servers", &to, "--auth", "mac", "--principal", &admin];
        programs::run(&find(DIRECTORY)?, &[command, &asks].concat(), &self.node(0).namespace)
    }

    /// Starts a server, by its number.
    pub fn start_server(&self, server: usize) -> Result<Started> {
        let (listen, principal) = (self.address(server).to_string(), Vl2::server_principal(server).to_string());
        let folder = self.text("");
        let mut arguments: Vec<String> =
            ["serve", "--dir", &folder, "--listen", &listen, "--auth", "mac", "--metrics", "off", "--principal", &principal]
                .map(str::to_owned)
                .to_vec();
        if self.store == Store::Etcd {
            arguments.extend(["--store".to_owned(), format!("etcd:{}", self.store_urls()[0])]);
        }
        for peer in (0..self.servers.len()).filter(|&i| i != server) {
            arguments.extend(["--peer".to_owned(), self.address(peer).to_string()]);
        }
        let log = self.folder.join(format!("server{server}.log"));
        programs::start(&find(DIRECTORY)?, &arguments, &self.node(server).namespace, &log)
    }

    /// Starts etcd, beside the first server. Servers wait for it.
    pub fn start_store(&self) -> Result<()> {
        let [client, peer] = self.store_urls();
        let arguments = [
            ["--name", "lab"],
            ["--data-dir", &self.text("etcd")],
            ["--listen-client-urls", &client],
            ["--advertise-client-urls", &client],
            ["--listen-peer-urls", &peer],
            ["--initial-advertise-peer-urls", &peer],
            ["--initial-cluster", &format!("lab={peer}")],
            ["--logger", "zap"],
            ["--log-level", "error"],
        ];
        let arguments: Vec<String> = arguments.concat().into_iter().map(str::to_owned).collect();
        programs::start(&find_etcd()?, &arguments, &self.node(0).namespace, &self.folder.join("etcd.log")).map(drop)
    }

    /// Ends a server at once. Whether it ran.
    pub fn kill_server(&self, server: usize) -> bool {
        programs::kill(&self.node(server).namespace, &[DIRECTORY]) > 0
    }

    /// Ends etcd at once. Whether it ran.
    pub fn kill_store(&self) -> bool {
        programs::kill(&self.node(0).namespace, &[ETCD]) > 0
    }

    /// Where a server is asked.
    pub fn address(&self, server: usize) -> SocketAddrV4 {
        SocketAddrV4::new(self.node(server).locator, PORT)
    }

    /// All of them, as configurations have them.
    pub fn list(&self) -> String {
        let all: Vec<String> = (0..self.servers.len()).map(|i| format!("\"{}\"", self.address(i))).collect();
        format!("[{}]", all.join(", "))
    }

    /// What its policy says of them, and of who gives the mappings.
    pub fn principals(&self) -> String {
        let mut text = String::new();
        let servers = (0..self.servers.len()).map(|i| (Vl2::server_principal(i), "server"));
        for (id, role) in servers.chain([(PRINCIPAL_ADMIN, "admin")]) {
            text += &format!("\n[[principal]]\nid = {id}\nrole = \"{role}\"\n");
        }
        text
    }

    /// The host of a server.
    fn node(&self, server: usize) -> &Node {
        &self.plan.nodes[self.servers[server]]
    }

    fn store_urls(&self) -> [String; 2] {
        ETCD_PORTS.map(|port| format!("http://{}:{port}", self.node(0).locator))
    }

    fn text(&self, name: &str) -> String {
        if name.is_empty() { self.folder.display().to_string() } else { self.folder.join(name).display().to_string() }
    }
}

/// What a file of mappings says: its heading, and a line for each.
pub(crate) fn lines(all: &[serde_json::Value]) -> String {
    let heading = serde_json::json!({"weft_directory": 1, "revision": 0, "entries": all.len()});
    std::iter::once(&heading).chain(all).map(|line| format!("{line}\n")).collect()
}

/// Who a node is to the directory.
pub(crate) fn principal(node: usize) -> PrincipalId {
    PrincipalId(Vl2::principal(node))
}

/// A secret of a directory of its own.
pub(crate) fn new_secret() -> Result<Secret> {
    let source = Path::new("/dev/urandom");
    let mut bytes = [0; 32];
    let read = File::open(source).and_then(|mut file| file.read_exact(&mut bytes));
    read.map_err(|e| LabError::io("read", source, e))?;
    Ok(Secret::new(bytes))
}

/// etcd: where other programs are, or where `scripts/setup-etcd.sh` has put it in a checkout that this program was built in or is run from.
fn find_etcd() -> Result<PathBuf> {
    let places = [std::env::current_exe().ok(), std::env::current_dir().ok()];
    let above = places.iter().flatten().flat_map(|place| place.ancestors());
    let unpacked = above.map(|folder| folder.join(ETCD_UNPACKED)).find(|path| path.is_file());
    unpacked.or_else(|| find(ETCD).ok()).ok_or(LabError::NoEtcd)
}

const ETCD_UNPACKED: &str = ".tools/etcd/usr/bin/etcd";
