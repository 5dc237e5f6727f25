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

use super::inventory::Inventory;

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

/// The administrator's folder; `--dir` of `weft directory`.
pub(super) const ADMINISTRATION: &str = "directory/";

// Paths on a machine, below `/`.

/// The agent's configuration.
pub(super) const CONFIG: &str = "etc/weft/agent.toml";
/// Its principal's key.
pub(super) const KEY: &str = "etc/weft/agent.key";
/// The drop-in of its unit.
pub(super) const DROP_IN: &str = "etc/systemd/system/weft-agent.service.d/50-deploy.conf";
/// A directory server's folder.
pub(super) const STATE: &str = "var/lib/weft-directory/";
/// The environment of its unit.
pub(super) const ENVIRONMENT: &str = "etc/weft/directory.env";
/// The units, and what a machine has that runs one.
pub(super) const UNITS: [(&str, &str); 2] = [("weft-directory", STATE), ("weft-agent", CONFIG)];
/// The tenants, where no directory has them. The agent reads the file when it changes.
pub(super) const TENANTS: &str = "etc/weft/tenants.toml";
/// Files that a machine has only if they are planned.
pub(super) const OWN: [&str; 5] = [CONFIG, KEY, DROP_IN, ENVIRONMENT, TENANTS];
