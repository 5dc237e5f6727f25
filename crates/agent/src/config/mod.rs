//! What the configuration files of all daemons have in common; the keys of each are beside the daemon. `docs/running-on-hosts.md` has every key.

mod place;
mod values;

use std::path::{Path, PathBuf};

use serde::Deserialize;
use toml::Spanned;

use crate::error::{Error, Result};

pub(crate) use place::At;
pub(crate) use values::{check_ports, default_metrics, default_socket, read_key, time_or_unlimited, unlimited};
pub use weft_directory::daemon::config::Place;
pub(crate) use weft_directory::daemon::config::{address_or_off, from_text, optional_from_text};

/// What a machine is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// A server.
    Host,
    /// VL2: a ToR or an intermediate switch. Without an overlay: a ToR.
    Switch,
    /// NetLord: a switch with servers attached.
    Edge,
    /// NetLord: a switch between switches.
    Core,
}

/// The overlay that the agent provides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Overlay {
    /// VL2.
    #[default]
    Vl2,
    /// NetLord.
    Netlord,
    /// None: the NICs of a host with several (Subways).
    None,
}

/// What happens to eBPF programs and maps when the agent ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnExit {
    /// They stay, and so do anycast addresses: flows go on.
    #[default]
    Keep,
    /// They are removed.
    Remove,
}

/// How streams and updates to the directory are authenticated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum UpdateAuth {
    /// Keyed MACs.
    #[default]
    Mac,
    /// TLS with client certificates.
    Tls,
}

/// The keys that select the daemon.
#[derive(Debug, Deserialize)]
pub struct Head {
    /// `overlay`.
    #[serde(default)]
    pub overlay: Overlay,
    /// `role`.
    pub role: Spanned<Role>,
}

/// A configuration file that has been read.
#[derive(Debug)]
pub struct ConfigFile {
    path: PathBuf,
    text: String,
}

impl ConfigFile {
    /// Reads a file.
    ///
    /// # Errors
    /// [`Error`] if it cannot be read.
    pub fn read(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path).map_err(|cause| {
            let help = "docs/running-on-hosts.md has an example; `--config FILE` names another file";
            Error::Input { what: "the configuration", path: path.to_owned(), cause, help }
        })?;
        Ok(Self { path: path.to_owned(), text })
    }

    /// Reads the file again for a daemon that runs.
    ///
    /// # Errors
    /// As [`Self::read`], and if overlay or role have changed.
    pub fn read_again(path: &Path, overlay: Overlay, role: Role) -> Result<Self> {
        let file = Self::read(path)?;
        let head: Head = file.place().parse()?;
        if (head.overlay, *head.role.get_ref()) != (overlay, role) {
            let message = "`overlay` and `role` cannot change while the agent runs";
            return Err(file.place().error(head.role.span(), message, "restart the agent"));
        }
        Ok(file)
    }

    /// The file and its text, for errors with their lines.
    pub fn place(&self) -> Place<'_> {
        Place { path: &self.path, text: &self.text, page: PAGE }
    }
}

/// The page that has every key.
pub(crate) const PAGE: &str = "docs/running-on-hosts.md";
