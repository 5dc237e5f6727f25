//! The servers to ask, and the principal that asks: the folder that `init` made, `client.toml` in it, and the arguments that override both.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use serde::Deserialize;
use weft_control::directory::auth::{PrincipalKey, Secret};
use weft_control::directory::{PrincipalId, ServiceId};

use super::error::{Error, Result};
use crate::client::{self, Client, Settings, TlsFiles, client_config};
use crate::daemon::command_line::time;

/// How updates and streams are authenticated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Auth {
    /// TLS with client certificates.
    #[default]
    Tls,
    /// Keyed MACs, as for lookups.
    Mac,
}

/// The arguments of every command that asks servers.
#[derive(Clone, Debug, Args)]
pub struct ConnectArgs {
    #[command(flatten)]
    pub(crate) dir: Dir,
    /// Servers to ask, each tried in turn [default: those of client.toml, or 127.0.0.1:5303]
    #[arg(long, value_name = "ADDR,...", value_delimiter = ',', help_heading = "Connection")]
    pub(crate) servers: Vec<String>,
    /// Principal that asks [default: that of client.toml]
    #[arg(long, value_name = "N", help_heading = "Connection")]
    pub(crate) principal: Option<u32>,
    /// File with the principal's key [default: the key is derived from DIR/secret]
    #[arg(long = "key", value_name = "FILE", help_heading = "Connection")]
    key_file: Option<PathBuf>,
    /// Authentication of updates and streams [default: that of client.toml, or tls]
    #[arg(long, help_heading = "Connection")]
    pub(crate) auth: Option<Auth>,
    /// Certificate of the client [default: DIR/admin.pem]
    #[arg(long, value_name = "FILE", help_heading = "Connection")]
    pub(crate) cert: Option<PathBuf>,
    /// Key of that certificate [default: DIR/admin.key]
    #[arg(long, value_name = "FILE", help_heading = "Connection")]
    pub(crate) cert_key: Option<PathBuf>,
    /// Certificate authority of the servers [default: DIR/ca.pem]
    #[arg(long, value_name = "FILE", help_heading = "Connection")]
    pub(crate) ca: Option<PathBuf>,
    /// Ask only this part of a divided directory
    #[arg(long, value_name = "NAME", help_heading = "Connection")]
    pub(crate) part: Option<String>,
    /// Give up after this time
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = time, help_heading = "Connection")]
    pub(crate) timeout: Duration,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// The folder that `init` made.
#[derive(Clone, Debug, Args)]
pub struct Dir {
    /// Folder created by `weft directory init`
    #[arg(long, value_name = "DIR", env = "WEFT_DIRECTORY", default_value = DEFAULT_DIR)]
    dir: PathBuf,
}

/// Where `init` makes its folder, and clients look for it.
pub(crate) const DEFAULT_DIR: &str = "weft-directory";
/// Where a server listens.
pub(crate) const DEFAULT_LISTEN: &str = "127.0.0.1:5303";

/// What `client.toml` can hold.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct ClientFile {
    /// Where the server of this folder listens, if it is one's.
    listen: Option<SocketAddr>,
    servers: Option<Vec<String>>,
    principal: Option<u32>,
    auth: Option<Auth>,
}

impl Dir {
    /// A file in the folder.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// The cluster's secret, which nobody else may read.
    pub(crate) fn secret(&self, given: Option<&Path>) -> Result<Secret> {
        let file = given.map_or_else(|| self.file("secret"), Path::to_owned);
        use std::os::unix::fs::PermissionsExt;
        let mode = std::fs::metadata(&file).map_err(|e| Error::io("read the cluster's secret", &file, e))?.permissions().mode();
        if mode & 0o077 != 0 {
            return Err(Error::SecretMode { path: file, mode: mode & 0o777 });
        }
        let text = std::fs::read_to_string(&file).map_err(|e| Error::io("read the cluster's secret", &file, e))?;
        Secret::parse(&text)
            .map_err(|e| content(&file, format!("not a secret: {e}"), "`weft directory init` makes a folder with a secret"))
    }

    /// Where the server of this folder listens, the address given to `init`.
    pub(crate) fn listen(&self) -> Result<Option<SocketAddr>> {
        Ok(self.client_file()?.listen)
    }

    fn client_file(&self) -> Result<ClientFile> {
        let file = self.file("client.toml");
        match std::fs::read_to_string(&file) {
            Ok(text) => toml::from_str(&text).map_err(|e| {
                content(&file, e.to_string().trim_end().to_owned(), "its keys are servers, principal, auth and listen")
            }),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(ClientFile::default()),
            Err(e) => Err(Error::io("read", &file, e)),
        }
    }
}

impl ConnectArgs {
    /// Without arguments, in a folder.
    pub(crate) fn of_folder(dir: PathBuf) -> Self {
        let (dir, timeout) = (Dir { dir }, Duration::from_secs(5));
        let (servers, principal, key_file, auth, cert, cert_key, ca) = (Vec::new(), None, None, None, None, None, None);
        Self { dir, servers, principal, key_file, auth, cert, cert_key, ca, part: None, timeout, json: false }
    }

    /// Everything that the arguments, `client.toml` and the defaults say.
    pub(crate) fn settings(&self) -> Result<Settings> {
        let file = self.dir.client_file()?;
        let servers = Some(self.servers.clone()).filter(|all| !all.is_empty()).or(file.servers);
        let principal = PrincipalId(self.principal.or(file.principal).ok_or(Error::NoPrincipal)?);
        let auth = self.auth.or(file.auth).unwrap_or_default();
        let key = self.principal_key(principal, auth)?;
        let auth = match auth {
            Auth::Mac => client::Auth::Mac,
            Auth::Tls => client::Auth::Tls(client_config(&TlsFiles {
                certificate: self.cert.clone().unwrap_or_else(|| self.dir.file("admin.pem")),
                key: self.cert_key.clone().unwrap_or_else(|| self.dir.file("admin.key")),
                authority: self.ca.clone().unwrap_or_else(|| self.dir.file("ca.pem")),
            })?),
        };
        let servers = servers.unwrap_or_else(|| vec![DEFAULT_LISTEN.to_owned()]);
        let settings = Settings { servers, principal, key, auth, timeout: self.timeout, only: false };
        match &self.part {
            None => Ok(settings),
            Some(part) => Ok(Client::new(settings)?.into_part(part)?.into_settings()),
        }
    }

    pub(crate) fn client(&self) -> Result<Client> {
        Ok(Client::new(self.settings()?)?)
    }

    /// Of what has one revision: a directory that is not divided, or the part that is named.
    pub(crate) fn client_of_one_part(&self) -> Result<Client> {
        let mut client = self.client()?;
        match client.parts()? {
            None => Ok(client),
            Some(map) => Err(Error::PartNeeded(map.parts().iter().map(|part| part.name.clone()).collect())),
        }
    }

    /// The key of `--key`, or made of the secret. Over TLS one may do without: then there are no lookups.
    fn principal_key(&self, principal: PrincipalId, auth: Auth) -> Result<Option<PrincipalKey>> {
        if let Some(file) = &self.key_file {
            let text = std::fs::read_to_string(file).map_err(|e| Error::io("read the key", file, e))?;
            let key = PrincipalKey::parse(&text).map_err(|e| content(file, e.to_string(), ""))?;
            return Ok(Some(key));
        }
        if auth == Auth::Tls && !self.dir.file("secret").exists() {
            return Ok(None);
        }
        Ok(Some(self.dir.secret(None)?.key_of(principal)))
    }

    /// A service by number or by name: one that the policy of the folder has, if there is a policy, or any number where that is not checked.
    pub(crate) fn service(&self, text: &str, unchecked: bool) -> Result<ServiceId> {
        let number = text.parse().ok();
        if let Some(number) = number.filter(|&number| unchecked || number == 0) {
            return Ok(ServiceId(number));
        }
        let file = self.dir.file("policy.toml");
        let policy = match (std::fs::read_to_string(&file), number) {
            (Ok(policy), _) => policy,
            (Err(_), Some(number)) => return Ok(ServiceId(number)),
            (Err(_), None) => return Err(Error::NoPolicy { service: text.to_owned(), path: file }),
        };
        let policy: Services = toml::from_str(&policy).map_err(|e| content(&file, e.to_string().trim_end().to_owned(), ""))?;
        let named = policy.service.iter().find(|service| number.map_or(service.name == text, |number| service.id == number));
        named.map(|service| ServiceId(service.id)).ok_or_else(|| {
            let names: Vec<_> = policy.service.iter().map(|service| format!("{} ({})", service.name, service.id)).collect();
            Error::NoService { service: text.to_owned(), path: file.clone(), known: names.join(", ") }
        })
    }
}

/// The content of a file is wrong.
fn content(file: &Path, reason: String, help: &'static str) -> Error {
    Error::Content { place: file.display().to_string(), reason, help }
}

/// What the command line needs of a policy; servers read all of it.
#[derive(Debug, Deserialize)]
struct Services {
    #[serde(default)]
    service: Vec<Service>,
}

#[derive(Debug, Deserialize)]
struct Service {
    name: String,
    id: u32,
}
