//! The keys of a cluster: those of an existing folder are kept, what is missing is made.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use weft_control::directory::PrincipalId;
use weft_control::directory::auth::{PrincipalKey, Secret};

use super::error::{DeployError, Result};
use super::files::ADMINISTRATION;
use super::folder::{Manifest, digest};
use crate::cli::certificates::{self, Pair};

/// The secret, the authority, and the certificates that it issued.
pub(super) struct Keys {
    /// The folder and its manifest, if these are not new keys.
    folder: Option<(PathBuf, Manifest)>,
    secret: Secret,
    authority: String,
    /// None if it is kept elsewhere.
    authority_key: Option<String>,
    /// Whom the certificates of this plan are of, by path.
    issued: BTreeMap<String, String>,
}

impl Keys {
    /// New keys of no folder.
    pub fn new() -> Result<Self> {
        let authority = certificates::authority().map_err(DeployError::Sign)?;
        Ok(Self {
            folder: None,
            secret: Secret::new(crate::client::random()),
            authority: authority.certificate,
            authority_key: Some(authority.key),
            issued: BTreeMap::new(),
        })
    }

    /// The keys of a planned folder.
    ///
    /// # Errors
    /// [`DeployError`] if one is missing, can be read by others, or is not the one that the manifest has.
    pub fn of_folder(dir: &Path, manifest: Manifest) -> Result<Self> {
        // Of an inventory without directory servers.
        if manifest.digest_of(SECRET).is_none() {
            return Self::new();
        }
        let file = |name: &str| dir.join(ADMINISTRATION).join(name);
        let read = |name: &str| read_key(&file(name), manifest.digest_of(&format!("{ADMINISTRATION}{name}")));
        let secret = Secret::parse(&read("secret")?)
            .map_err(|error| DeployError::Content { path: file("secret"), reason: format!("not a secret: {error}") })?;
        let authority_key = if file("ca.key").exists() { Some(read("ca.key")?) } else { None };
        let authority = read("ca.pem")?;
        Ok(Self { folder: Some((dir.to_owned(), manifest)), secret, authority, authority_key, issued: BTreeMap::new() })
    }

    pub fn key_of(&self, principal: PrincipalId) -> PrincipalKey {
        self.secret.key_of(principal)
    }

    pub fn secret_text(&self) -> String {
        self.secret.to_hex() + "\n"
    }

    /// The authority's certificate.
    pub fn authority(&self) -> &str {
        &self.authority
    }

    /// The authority's key, if it is here.
    pub fn authority_key(&self) -> Option<&str> {
        self.authority_key.as_deref()
    }

    /// Whom certificates were issued to, by path.
    pub fn into_issued(self) -> BTreeMap<String, String> {
        self.issued
    }

    /// The certificate at this path: that of the folder if it is of the same principal and names, else a new one. With names it is a server's.
    pub fn certificate(&mut self, path: &str, principal: PrincipalId, names: &[String]) -> Result<Pair> {
        let subject = format!("principal-{} {}", principal.0, names.join(" ")).trim_end().to_owned();
        let key = key_path(path);
        let is_kept = |manifest: &Manifest| manifest.issued.get(path) == Some(&subject);
        if let Some((dir, manifest)) = self.folder.as_ref().filter(|(dir, manifest)| is_kept(manifest) && dir.join(path).exists())
        {
            let read = |it: &str| read_key(&dir.join(it), manifest.digest_of(it));
            let pair = Pair { certificate: read(path)?, key: read(&key)? };
            self.issued.insert(path.to_owned(), subject);
            return Ok(pair);
        }
        self.issued.insert(path.to_owned(), subject);
        let Some(authority) = &self.authority_key else {
            let dir = self.folder.as_ref().map_or(Path::new(""), |(dir, _)| dir);
            let file = dir.join(ADMINISTRATION).join("ca.key");
            let reason = format!("it is not here, and must sign a certificate for {path}");
            return Err(DeployError::Content { path: file, reason });
        };
        certificates::signed(authority, principal, names, None).map_err(DeployError::Sign)
    }
}

/// Where the key of a certificate is: `server.key`, `admin.key`; `agent.pem.key`, as `agent.key` is the principal's.
pub(super) fn key_path(certificate: &str) -> String {
    match certificate.strip_suffix(".pem") {
        Some(stem) if !stem.ends_with("/agent") => format!("{stem}.key"),
        _ => format!("{certificate}.key"),
    }
}

/// The cluster's secret, in the folder.
pub(super) const SECRET: &str = "directory/secret";

/// A key's file that is unchanged since the folder was planned.
fn read_key(path: &Path, expected: Option<&str>) -> Result<String> {
    let text = std::fs::read_to_string(path).map_err(DeployError::file("read", path))?;
    let mode = std::fs::metadata(path).map_err(DeployError::file("read", path))?.mode() & 0o777;
    if mode & 0o077 != 0 && path.extension().is_none_or(|it| it != "pem") {
        return Err(DeployError::KeyMode { path: path.to_owned(), mode });
    }
    if expected != Some(digest(&text).as_str()) {
        return Err(DeployError::OtherKey(path.to_owned()));
    }
    Ok(text)
}
