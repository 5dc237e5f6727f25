//! NetLord: the files of its switches and servers, and what the directory is to have of its tenants.
//!
//! ```text
//!   switches, cables, servers --spain: VLANs--> agent.toml: VLANs of a switch's ports, and of a server's paths
//!   tenants, VIFs, routers, rules --tenants--> tenants.toml: the directory's records, or without a directory a file of each server
//! ```

mod hosts;
pub(super) mod inventory;
pub(super) mod layout;
pub(super) mod spain;
mod switches;
pub(super) mod tenants;

use super::error::Result;
use super::files::{ADMINISTRATION, File, Files};
use super::inventory::Inventory;
use super::keys::Keys;
use inventory::Netlord;

/// Adds the files of NetLord's machines.
pub(super) fn add(inventory: &Inventory, netlord: &Netlord, keys: &mut Keys, files: &mut Files) -> Result<()> {
    if inventory.has_directory() {
        files.insert(tenants_file(), File::plain(tenants::file(inventory, netlord)));
    }
    for switch in netlord.agents_of_switches() {
        switches::switch(inventory, netlord, switch, files);
    }
    for host in &netlord.host {
        hosts::host(inventory, netlord, host, keys, files)?;
    }
    Ok(())
}

/// The tenants' file of the administrator.
pub(super) fn tenants_file() -> String {
    format!("{ADMINISTRATION}tenants.toml")
}
