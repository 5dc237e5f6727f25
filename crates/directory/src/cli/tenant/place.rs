//! Where a command finds the tenants: in the file, or in the records of the directory's store.

use std::fmt;
use std::path::{Path, PathBuf};

use clap::Args;
use serde::Serialize;
use weft_control::netlord::tenants::{Tenant, Tenants};

use super::file::{self, FileArg};
use super::records::{self, Vifs};
use crate::cli::connect::ConnectArgs;
use crate::cli::error::{Error, Result};
use crate::client::Client;

/// Which tenants.
#[derive(Debug, Args)]
pub(super) struct Place {
    #[command(flatten)]
    file: FileArg,
    /// Use the records of the directory's store instead of a file
    #[arg(long)]
    store: bool,
}

/// The tenants that a command reads and changes.
pub(super) enum Opened<'a> {
    File { path: PathBuf, tenant: &'a str },
    Store { client: Box<Client>, tenant: &'a str, vifs: Vifs<'a>, revision: u64 },
}

/// What has been written, and where.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(super) enum Written {
    File { file: String, version: u32 },
    Store { revision: u64 },
}

impl fmt::Display for Written {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { file, version } => write!(f, "{file} is version {version}"),
            Self::Store { revision } => write!(f, "the records are revision {revision}"),
        }
    }
}

impl Place {
    /// For a command about a tenant, and perhaps a VIF of its.
    pub fn open<'a>(&self, connect: &ConnectArgs, tenant: &'a str, vif: Option<&'a str>) -> Result<Opened<'a>> {
        Ok(if self.store {
            Opened::Store { client: Box::new(connect.client()?), tenant, vifs: vif.map_or(Vifs::None, Vifs::One), revision: 0 }
        } else {
            Opened::File { path: self.file.path(&connect.dir), tenant }
        })
    }

    pub const fn is_store(&self) -> bool {
        self.store
    }

    /// The file.
    pub fn path(&self, connect: &ConnectArgs) -> PathBuf {
        self.file.path(&connect.dir)
    }
}

impl Opened<'_> {
    pub const fn is_store(&self) -> bool {
        matches!(self, Self::Store { .. })
    }

    /// As errors name it.
    pub fn described(&self) -> PathBuf {
        match self {
            Self::File { path, .. } => path.clone(),
            Self::Store { .. } => PathBuf::from("the directory's records"),
        }
    }

    /// The tenants: all of a file; of the records those that the command is about.
    pub fn read(&mut self) -> Result<Tenants> {
        match self {
            Self::File { path, .. } => file::read(path),
            Self::Store { client, tenant, vifs, revision } => {
                let (now, held) = records::read_tenant(client, tenant, *vifs)?;
                *revision = now;
                records::build(1, &held)
            }
        }
    }

    /// Changes them as an edit changes a file's text. `start`: there may be none yet.
    pub fn change(&mut self, start: bool, edit: impl Fn(&str) -> Result<String>) -> Result<(Tenants, Written)> {
        match self {
            Self::File { path, .. } => {
                let all = file::change(path, start, edit)?;
                let written = Written::File { file: path.display().to_string(), version: all.version };
                Ok((all, written))
            }
            Self::Store { client, tenant, vifs, .. } => {
                let (all, revision) = records::change(client, (tenant, *vifs), edit)?;
                Ok((all, Written::Store { revision }))
            }
        }
    }

    /// That nothing was to be written.
    pub fn unchanged(&self, all: &Tenants) -> Written {
        match self {
            Self::File { path, .. } => Written::File { file: path.display().to_string(), version: all.version },
            Self::Store { revision, .. } => Written::Store { revision: *revision },
        }
    }

    /// The tenant that the command is about.
    pub fn tenant<'b>(&self, all: &'b Tenants) -> Result<&'b Tenant> {
        let (Self::File { tenant, .. } | Self::Store { tenant, .. }) = self;
        self::tenant(all, &self.described(), self.is_store(), tenant)
    }
}

/// The tenant of this name.
pub(super) fn tenant<'a>(all: &'a Tenants, path: &Path, is_store: bool, name: &str) -> Result<&'a Tenant> {
    if is_store {
        return all.by_name(name).ok_or_else(|| Error::NoTenantRecord(name.to_owned()));
    }
    file::tenant(all, path, name)
}
