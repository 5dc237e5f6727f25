//! Values that several configurations have in common.

use std::net::SocketAddr;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use toml::Spanned;
use weft_control::directory::auth::PrincipalKey;
use weft_control::time::Duration;

use super::Place;
use crate::error::{Error, Result};

/// The control socket, if `socket` is absent.
pub(crate) fn default_socket() -> PathBuf {
    PathBuf::from("/run/weft/agent.sock")
}

/// Where metrics are served, if `metrics` is absent.
#[allow(clippy::unnecessary_wraps)] // The form that serde requires.
pub(crate) fn default_metrics() -> Option<SocketAddr> {
    Some(SocketAddr::from(([127, 0, 0, 1], 9304)))
}

/// A time, or `unlimited`.
///
/// # Errors
/// Those of the deserializer; neither of the two.
pub(crate) fn time_or_unlimited<'de, D: serde::Deserializer<'de>>(from: D) -> std::result::Result<Duration, D::Error> {
    use serde::Deserialize as _;
    let text = String::deserialize(from)?;
    if text == "unlimited" {
        return Ok(Duration::MAX);
    }
    text.parse().map_err(|error| serde::de::Error::custom(format!("{error}; or write \"unlimited\"")))
}

/// Without a limit.
pub(crate) const fn unlimited() -> Duration {
    Duration::MAX
}

/// A key, from a file that nobody else can read.
///
/// # Errors
/// [`Error`] if the file cannot be read, others can read it, or it holds no key.
pub(crate) fn read_key(file: &Path) -> Result<PrincipalKey> {
    let mode = std::fs::metadata(file).map_err(|cause| {
        let help = "`weft directory key --principal N` prints it, where the directory's secret is";
        Error::Input { what: "the key", path: file.to_owned(), cause, help }
    })?;
    let mode = mode.mode() & 0o777;
    if mode & 0o077 != 0 {
        return Err(Error::KeyMode { path: file.to_owned(), mode });
    }
    let text = std::fs::read_to_string(file).map_err(Error::file("read the key", file))?;
    PrincipalKey::parse(&text).map_err(|error| Error::Content { path: file.to_owned(), reason: error.to_string(), help: "" })
}

/// Refuses directory servers without a port.
///
/// # Errors
/// [`Error`] that names the server.
pub(crate) fn check_ports(servers: &Spanned<Vec<SocketAddr>>, place: &Place<'_>) -> Result<()> {
    match servers.get_ref().iter().find(|server| server.port() == 0) {
        Some(server) => Err(place.error(servers.span(), &format!("{server} has no port"), "directory servers have 5303")),
        None => Ok(()),
    }
}
