//! `[standby]`: which of several schedulers leads.

use std::path::{Path, PathBuf};

use serde::Deserialize;
use toml::Spanned;
use weft_control::time::{Duration, NS_PER_S};
use weft_directory::daemon::config::Place;
use weft_directory::daemon::tls::plaintext;

use super::Text;
use crate::error::{Error, Result};
use crate::leader::{Credentials, Election};

/// `[standby]`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Standby {
    etcd: Spanned<Vec<String>>,
    name: Option<Spanned<String>>,
    lease: Option<Spanned<Text<Duration>>>,
    #[serde(default = "default_prefix")]
    prefix: Spanned<String>,
    ca: Option<Spanned<PathBuf>>,
    cert: Option<Spanned<PathBuf>>,
    cert_key: Option<Spanned<PathBuf>>,
    user_file: Option<Spanned<PathBuf>>,
    /// Speak to members on other machines without TLS.
    #[serde(default)]
    plaintext: bool,
}

impl Standby {
    /// Checks the keys, and reads the files that they name.
    pub(super) fn election(&self, place: &Place<'_>, folder: &Path) -> Result<Election> {
        let urls = self.etcd.get_ref();
        let secure = urls.iter().filter(|url| url.starts_with("https://")).count();
        let plain = urls.iter().filter(|url| url.starts_with("http://")).count();
        if urls.is_empty() || secure + plain < urls.len() {
            return Err(place.error(self.etcd.span(), "not the URLs of etcd", "write such as [\"http://127.0.0.1:2379\"]"));
        }
        if let (Some(url), false) = (plaintext(urls), self.plaintext) {
            let message = format!("{url} is etcd on another machine without TLS");
            return Err(place.error(self.etcd.span(), &message, "write https:// and `ca`; or allow it with `plaintext = true`"));
        }
        let lease = self.lease.as_ref().map_or(LEASE, |lease| lease.get_ref().0);
        if !(LEASE_MIN..=LEASE_MAX).contains(&lease) || !lease.as_ns().is_multiple_of(NS_PER_S) {
            let span = self.lease.as_ref().map_or(0..0, Spanned::span);
            return Err(place.error(span, "a lease is 2 to 60 whole seconds", "write such as \"3s\""));
        }
        let name = match &self.name {
            Some(name) if name.get_ref().is_empty() => {
                return Err(place.error(name.span(), "the name is empty", "write another, or leave it out for the host's name"));
            }
            Some(name) => name.get_ref().clone(),
            None => std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default().trim().to_owned(),
        };
        if !self.prefix.get_ref().starts_with('/') {
            return Err(place.error(self.prefix.span(), "a prefix begins with `/`", "write such as \"/weft/scheduler\""));
        }
        let read = |path: &Spanned<PathBuf>| {
            std::fs::read(folder.join(path.get_ref())).map_err(|cause| {
                let message = format!("cannot read {}: {cause}", path.get_ref().display());
                place.error::<Error>(path.span(), &message, "it is looked for beside this file")
            })
        };
        let certificates = [&self.ca, &self.cert, &self.cert_key];
        if let Some(given) = certificates.into_iter().flatten().next().filter(|_| plain > 0) {
            return Err(place.error(given.span(), "certificates need https", "write `https://` in `etcd`, or remove them"));
        }
        let client = match (&self.cert, &self.cert_key) {
            (Some(cert), Some(key)) => Some((read(cert)?, read(key)?)),
            (None, None) => None,
            (Some(one), None) | (None, Some(one)) => {
                return Err(place.error(one.span(), "`cert` and `cert_key` belong together", "write both"));
            }
        };
        let user = self.user_file.as_ref().map(|path| {
            let text = String::from_utf8_lossy(&read(path)?).into_owned();
            let user = text.trim_end().split_once(':').map(|(user, password)| (user.to_owned(), password.to_owned()));
            user.ok_or_else(|| place.error::<Error>(path.span(), "the file has no `user:password`", "write one line with both"))
        });
        let credentials = Credentials { ca: self.ca.as_ref().map(read).transpose()?, client, user: user.transpose()? };
        let prefix = self.prefix.get_ref().trim_end_matches('/').to_owned();
        Ok(Election { urls: urls.clone(), credentials, name, lease: lease.to_std(), prefix })
    }
}

fn default_prefix() -> Spanned<String> {
    Spanned::new(0..0, "/weft/scheduler".to_owned())
}

/// How long a leader may be silent. etcd itself grants no less than two seconds.
const LEASE: Duration = Duration::from_secs(3);
const LEASE_MIN: Duration = Duration::from_secs(2);
const LEASE_MAX: Duration = Duration::from_secs(60);
