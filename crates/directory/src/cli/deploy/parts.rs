//! The parts of a divided directory, as an inventory has them: the keys and the store of each.

use std::fmt;
use std::net::SocketAddr;
use std::ops::RangeInclusive;

use serde::Deserialize;
use toml::Spanned;
use weft_control::directory::parts::{self, Incoming, PartsError};
use weft_control::prefix::Prefix;

/// A part of a divided directory, as the policy has it, with its store.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Part {
    pub name: Spanned<String>,
    /// None: the embedded store of its only server.
    pub etcd: Option<Spanned<Vec<String>>>,
    #[serde(default)]
    pub prefixes: Vec<Spanned<Prefix>>,
    #[serde(default)]
    pub tenants: Vec<Spanned<Tenants>>,
    #[serde(default)]
    pub default: bool,
    #[serde(default)]
    pub incoming: IncomingKeys,
}

/// Keys that are about to move to a part.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct IncomingKeys {
    #[serde(default)]
    pub prefixes: Vec<Spanned<Prefix>>,
    #[serde(default)]
    pub tenants: Vec<Spanned<Tenants>>,
}

/// One tenant, or `"first-last"`.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum Tenants {
    One(u32),
    Range(String),
}

impl fmt::Display for Tenants {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::One(tenant) => write!(f, "{tenant}"),
            Self::Range(text) => f.write_str(text),
        }
    }
}

impl Part {
    /// The same as servers and clients have it.
    ///
    /// # Errors
    /// A range of tenants is none.
    pub fn with_servers(&self, servers: Vec<SocketAddr>) -> Result<parts::Part, PartsError> {
        let prefixes = |list: &[Spanned<Prefix>]| list.iter().map(|it| *it.get_ref()).collect();
        let tenants = |list: &[Spanned<Tenants>]| list.iter().map(|it| self.range(it)).collect::<Result<_, _>>();
        let incoming = Incoming { prefixes: prefixes(&self.incoming.prefixes), tenants: tenants(&self.incoming.tenants)? };
        Ok(parts::Part {
            name: self.name.get_ref().clone(),
            servers,
            prefixes: prefixes(&self.prefixes),
            tenants: tenants(&self.tenants)?,
            is_default: self.default,
            incoming,
        })
    }

    /// Reads a tenant or a range of it.
    ///
    /// # Errors
    /// It is none.
    pub fn range(&self, tenants: &Spanned<Tenants>) -> Result<RangeInclusive<u32>, PartsError> {
        parts::Part::tenants_from(self.name.get_ref(), &tenants.get_ref().to_string())
    }
}
