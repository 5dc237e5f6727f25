//! The files of a plan, by their paths in its folder.
//!
//! ```text
//!   directory/            of the administrator: secret, authority, policy.toml, mappings.jsonl
//!   hosts/NAME/           the files of a machine, below it their paths there
//!   site.yml, inventory.yml, host_vars/, roles/weft/     the Ansible role
//!   manifest.json         digests and modes of all of these
//! ```

use std::collections::BTreeMap;

use weft_control::directory::PrincipalId;

use super::agents;
use super::ansible;
use super::error::Result;
use super::inventory::Inventory;
use super::keys::Keys;
use super::servers;

/// A file of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct File {
    pub content: String,
    /// For its owner alone (mode 0600).
    pub is_private: bool,
    /// Its content is a key, or was made with one: it depends on more than the inventory.
    pub is_key: bool,
}

impl File {
    pub fn plain(content: String) -> Self {
        Self { content, is_private: false, is_key: false }
    }

    /// A key.
    pub fn key(content: String) -> Self {
        Self { content, is_private: true, is_key: true }
    }

    /// A certificate.
    pub fn certificate(content: String) -> Self {
        Self { content, is_private: false, is_key: true }
    }

    pub const fn mode(&self) -> u32 {
        if self.is_private { 0o600 } else { 0o644 }
    }
}

/// By path, with `/`.
pub(super) type Files = BTreeMap<String, File>;

/// All files of an inventory.
pub(super) fn plan(inventory: &Inventory, keys: &mut Keys) -> Result<Files> {
    let mut files = servers::administration(inventory, keys)?;
    for server in &inventory.directory.server {
        servers::server(inventory, server, keys, &mut files)?;
    }
    for switch in inventory.agents_of_switches() {
        agents::switch(inventory, switch, keys, &mut files);
    }
    for host in &inventory.host {
        agents::host(inventory, host, keys, &mut files)?;
    }
    ansible::add(inventory, &mut files);
    Ok(files)
}

/// The folder of a machine's files.
pub(super) fn of_machine(name: &str) -> String {
    format!("hosts/{name}/")
}

/// `"a", "b"`: a list's content in TOML.
pub(super) fn quoted<T: ToString>(values: impl IntoIterator<Item = T>) -> String {
    values.into_iter().map(|it| format!("\"{}\"", it.to_string())).collect::<Vec<_>>().join(", ")
}

/// The first line of what is written for machines.
pub(super) fn heading(inventory: &Inventory) -> String {
    format!("# Written by `weft deploy plan` for cluster {}: change the inventory instead.\n", inventory.cluster())
}

pub(super) fn principal(number: &toml::Spanned<u32>) -> PrincipalId {
    PrincipalId(*number.get_ref())
}
