//! The directory of a lab: its servers, and the etcd that several of them share.

use std::net::SocketAddrV4;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use super::files::Files;
use super::programs::{self, Started};
use super::{DIRECTORY, ETCD, find, wait_for};
use crate::error::{LabError, Result};
use crate::plan::overlay::{PRINCIPAL_ADMIN, Store, Vl2};
use crate::plan::{Node, Plan};

/// Where a server listens.
pub(super) const PORT: u16 = 5303;
/// Where etcd's clients and its other members would come to.
const ETCD_PORTS: [u16; 2] = [2379, 2380];

/// Starts the store, if it is a program, and all servers, and gives them all mappings.
pub(super) fn start(plan: &Plan, vl2: &Vl2, files: &Files, stop: &AtomicBool) -> Result<()> {
    if vl2.store == Store::Etcd {
        start_store(plan, vl2, files)?;
    }
    let servers = (0..vl2.directory.len()).map(|i| start_server(plan, vl2, files, i)).collect::<Result<Vec<_>>>()?;
    wait_for(&servers, stop)?;
    let (mappings, folder, admin) = (files.text("mappings.jsonl"), files.text(""), PRINCIPAL_ADMIN.to_string());
    let to = address(plan, vl2, 0).to_string();
    let import = ["import", &mappings, "--dir", &folder, "--servers", &to, "--auth", "mac", "--principal", &admin];
    programs::run(&find(DIRECTORY)?, &import, &node(plan, vl2, 0).namespace)
}

/// Starts a server, by its number.
pub(super) fn start_server(plan: &Plan, vl2: &Vl2, files: &Files, server: usize) -> Result<Started> {
    let (listen, principal) = (address(plan, vl2, server).to_string(), Vl2::server_principal(server).to_string());
    let folder = files.text("");
    let mut arguments: Vec<String> =
        ["serve", "--dir", &folder, "--listen", &listen, "--auth", "mac", "--metrics", "off", "--principal", &principal]
            .map(str::to_owned)
            .to_vec();
    if vl2.store == Store::Etcd {
        arguments.extend(["--store".to_owned(), format!("etcd:{}", store_urls(plan, vl2)[0])]);
    }
    for peer in (0..vl2.directory.len()).filter(|&i| i != server) {
        arguments.extend(["--peer".to_owned(), address(plan, vl2, peer).to_string()]);
    }
    let log = files.folder.join(format!("server{server}.log"));
    programs::start(&find(DIRECTORY)?, &arguments, &node(plan, vl2, server).namespace, &log)
}

/// Starts etcd, beside the first server. Servers wait for it.
pub(super) fn start_store(plan: &Plan, vl2: &Vl2, files: &Files) -> Result<()> {
    let [client, peer] = store_urls(plan, vl2);
    let arguments = [
        ["--name", "lab"],
        ["--data-dir", &files.text("etcd")],
        ["--listen-client-urls", &client],
        ["--advertise-client-urls", &client],
        ["--listen-peer-urls", &peer],
        ["--initial-advertise-peer-urls", &peer],
        ["--initial-cluster", &format!("lab={peer}")],
        ["--logger", "zap"],
        ["--log-level", "error"],
    ];
    let arguments: Vec<String> = arguments.concat().into_iter().map(str::to_owned).collect();
    programs::start(&find_etcd()?, &arguments, &node(plan, vl2, 0).namespace, &files.folder.join("etcd.log")).map(drop)
}

/// Where a server is asked.
pub(super) fn address(plan: &Plan, vl2: &Vl2, server: usize) -> SocketAddrV4 {
    SocketAddrV4::new(node(plan, vl2, server).locator, PORT)
}

/// The host of a server.
pub(super) fn node<'a>(plan: &'a Plan, vl2: &Vl2, server: usize) -> &'a Node {
    &plan.nodes[vl2.directory[server]]
}

/// etcd: where other programs are, or where `scripts/setup-etcd.sh` has put it in a checkout that this program was built in or is run from.
pub(super) fn find_etcd() -> Result<PathBuf> {
    let places = [std::env::current_exe().ok(), std::env::current_dir().ok()];
    let above = places.iter().flatten().flat_map(|place| place.ancestors());
    let unpacked = above.map(|folder| folder.join(ETCD_UNPACKED)).find(|path| path.is_file());
    unpacked.or_else(|| find(ETCD).ok()).ok_or(LabError::NoEtcd)
}

fn store_urls(plan: &Plan, vl2: &Vl2) -> [String; 2] {
    ETCD_PORTS.map(|port| format!("http://{}:{port}", node(plan, vl2, 0).locator))
}

const ETCD_UNPACKED: &str = ".tools/etcd/usr/bin/etcd";
