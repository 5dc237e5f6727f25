//! The directory's stores: that of an undivided directory, or one for each part of a divided one; the servers and the keys of each.

use std::fmt::{self, Write as _};
use std::net::SocketAddr;
use std::ops::RangeInclusive;

use serde::Deserialize;
use toml::Spanned;
use weft_control::directory::parts::{self, Incoming, PartsError};
use weft_control::prefix::Prefix;

use super::files::quoted;
use super::inventory::{Inventory, Server};

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

    /// Its section of the policy.
    pub fn section(&self, servers: &[SocketAddr]) -> String {
        let mut text = format!("\n[[part]]\nname = \"{}\"\nservers = [{}]\n", self.name.get_ref(), quoted(servers));
        if self.default {
            text += "default = true\n";
        }
        let mut keys = |start: &str, prefixes: &[Spanned<Prefix>], tenants: &[Spanned<Tenants>]| {
            if !prefixes.is_empty() {
                let _ = writeln!(text, "{start}prefixes = [{}]", quoted(prefixes.iter().map(Spanned::get_ref)));
            }
            if !tenants.is_empty() {
                let _ = writeln!(text, "{start}tenants = [{}]", quoted(tenants.iter().map(Spanned::get_ref)));
            }
        };
        keys("", &self.prefixes, &self.tenants);
        keys("incoming.", &self.incoming.prefixes, &self.incoming.tenants);
        text
    }
}

impl Inventory {
    /// The part of a server; none in an undivided directory.
    pub fn part_of(&self, server: &Server) -> Option<&Part> {
        self.part(server.part.as_ref()?.get_ref())
    }

    /// The part of this name.
    pub fn part(&self, name: &str) -> Option<&Part> {
        self.directory.part.iter().find(|it| it.name.get_ref() == name)
    }

    /// The servers of a part, or all servers; replicas last, as clients with updates ask the others first, and replicas start after the others.
    pub fn servers_of(&self, part: Option<&Part>) -> Vec<&Server> {
        let name = part.map(|it| it.name.get_ref());
        let is_of = |it: &&Server| name.is_none_or(|name| it.part.as_ref().is_some_and(|part| part.get_ref() == name));
        let mut servers: Vec<&Server> = self.directory.server.iter().filter(is_of).collect();
        servers.sort_by_key(|it| it.replica);
        servers
    }

    pub fn addresses_of(&self, part: Option<&Part>) -> Vec<SocketAddr> {
        self.servers_of(part).into_iter().map(|it| self.address_of(it)).collect()
    }

    /// Where a server listens.
    pub fn address_of(&self, server: &Server) -> SocketAddr {
        SocketAddr::new(*server.address.get_ref(), *self.directory.port.get_ref())
    }

    /// The servers that clients and agents are given: those of the default part, which name the others.
    pub fn contact_addresses(&self) -> Vec<SocketAddr> {
        self.addresses_of(self.directory.part.iter().find(|it| it.default))
    }

    /// etcd's endpoints of a part, or of an undivided directory; none of an embedded store.
    pub fn etcd_of<'a>(&'a self, part: Option<&'a Part>) -> Option<&'a Spanned<Vec<String>>> {
        let etcd = part.map_or(&self.directory.etcd, |it| &it.etcd);
        etcd.as_ref().filter(|it| !it.get_ref().is_empty())
    }
}
