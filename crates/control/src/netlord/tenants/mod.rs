//! The tenants' file: tenants, MAC spaces, VIFs, virtual routers, routes and rules. `docs/tenants.md` has its schema.
//!
//! ```text
//!   text --raw (serde, unknown keys refused)--> check --> Tenants, which holds:
//!     names and ids are unique; MAC and IP addresses are unique in their MAC space; every route's next hop is in a subnet of its router; no route loops
//! ```
//! [`records`] has the same in pieces, for data centres whose tenants are too many for one file.

mod check;
mod edit;
mod raw;
pub mod records;
mod routing;
#[cfg(test)]
mod tests;
mod text;

use std::collections::BTreeMap;
use std::net::IpAddr;

use weft_fabric::{MacAddr, TenantId};

pub use edit::{
    NewRoute, NewRouter, NewRule, NewTenant, NewVif, Table, append_route, append_router, append_rule, append_tenant, append_vif,
    with_readers, without,
};
pub use routing::{NextHop, RouteError};

use super::{MacSpace, Vif};
use crate::directory::{PrincipalId, ServiceId};
use crate::prefix::Prefix;

/// The name of the tenants' file among the directory's documents.
pub const DOCUMENT: &str = "tenants";

/// All tenants, checked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tenants {
    /// Grows with every change.
    pub version: u32,
    /// What bindings belong to in the directory.
    pub service: ServiceId,
    /// By id.
    pub tenants: BTreeMap<TenantId, Tenant>,
}

/// A tenant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tenant {
    /// Its id.
    pub id: TenantId,
    /// Its name.
    pub name: String,
    /// Its MAC spaces.
    pub spaces: Vec<MacSpace>,
    /// The agents that may read its records; `None`: all.
    pub readers: Option<Vec<PrincipalId>>,
    /// Its VIFs, those in the public space as well, in the file's order.
    pub vifs: Vec<VifSpec>,
    /// Its virtual routers.
    pub routers: Vec<Router>,
}

/// A VIF.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VifSpec {
    /// Its name among its tenant's.
    pub name: String,
    /// What it is on the wire; of one in the public space the tenant is [`PUBLIC`](super::PUBLIC).
    pub vif: Vif,
    /// Its addresses.
    pub addresses: Vec<IpAddr>,
}

/// A virtual router.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Router {
    /// Its name among its tenant's.
    pub name: String,
    /// Where VMs reach it, and the subnets that it joins.
    pub interfaces: Vec<Interface>,
    /// Beyond these subnets.
    pub routes: Vec<Route>,
    /// What may pass, in order; the first that fits decides, and if none does it may.
    pub rules: Vec<Rule>,
}

/// An interface of a virtual router: an (IP, MAC) pair (section 3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interface {
    /// In which MAC space.
    pub space: MacSpace,
    /// Its MAC address there.
    pub mac: MacAddr,
    /// Its address.
    pub address: IpAddr,
    /// The subnet.
    pub subnet: Prefix,
}

/// A route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// To where.
    pub to: Prefix,
    /// By whom, in one of the router's subnets.
    pub via: IpAddr,
}

/// A rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// What becomes of a packet that fits.
    pub action: Action,
    /// Its protocol.
    pub protocol: Option<Protocol>,
    /// Its source.
    pub from: Option<Prefix>,
    /// Its destination.
    pub to: Option<Prefix>,
    /// Its destination port: from, to.
    pub ports: Option<(u16, u16)>,
}

/// What becomes of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// It passes.
    Allow,
    /// It is dropped.
    Deny,
}

/// The protocol of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// ICMP, in IPv6 ICMPv6.
    Icmp,
    /// Its number.
    Number(u8),
}

/// What is wrong with a tenants' file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TenantsError {
    /// It is not TOML, or has other keys.
    #[error("{0}")]
    Syntax(String),
    /// A table has a value that it cannot have.
    #[error("{table}: {problem}")]
    Bad {
        /// Which table.
        table: String,
        /// What is wrong, and what it may be.
        problem: String,
    },
    /// A packet to this address would go round.
    #[error(
        "tenant `{tenant}`: a packet to {address} would go round: {path}; take out one of these routes, or give the router at the end a longer prefix"
    )]
    Loop {
        /// Whose.
        tenant: String,
        /// An address that is affected.
        address: IpAddr,
        /// Router after router.
        path: String,
    },
}

impl Tenants {
    /// Reads a file's text.
    ///
    /// # Errors
    /// The first thing that is wrong with it.
    pub fn parse(text: &str) -> Result<Self, TenantsError> {
        check::build(read(text, PIECE)?)
    }

    /// The tenant of this name.
    pub fn by_name(&self, name: &str) -> Option<&Tenant> {
        self.tenants.values().find(|tenant| tenant.name == name)
    }

    /// All VIFs, with their owners.
    pub fn vifs(&self) -> impl Iterator<Item = (&Tenant, &VifSpec)> {
        self.tenants.values().flat_map(|tenant| tenant.vifs.iter().map(move |vif| (tenant, vif)))
    }
}

/// Reads the tables of a file. A long one is read piece by piece, each of some tables: as a whole it would take many times its size in memory.
fn read(text: &str, piece: usize) -> Result<raw::File, TenantsError> {
    if text.len() > piece
        && let Some(file) = read_pieces(text, piece)
    {
        return Ok(file);
    }
    // What is wrong, and in which line, is known of the whole.
    toml::from_str(text).map_err(|e| TenantsError::Syntax(e.to_string().trim_end().to_owned()))
}

/// `None` if some piece cannot be read by itself.
fn read_pieces(text: &str, piece: usize) -> Option<raw::File> {
    let mut blocks = edit::blocks(text).into_iter();
    let mut all: raw::File = toml::from_str(blocks.next()?).ok()?;
    let mut some = String::new();
    while let Some(first) = blocks.next() {
        some.clear();
        some.push_str("version = 1\n");
        some.push_str(first);
        while some.len() < piece
            && let Some(block) = blocks.next()
        {
            some.push_str(block);
        }
        let raw::File { tenant, vif, router, route, rule, .. } = toml::from_str(&some).ok()?;
        all.tenant.extend(tenant);
        all.vif.extend(vif);
        all.router.extend(router);
        all.route.extend(route);
        all.rule.extend(rule);
    }
    Some(all)
}

/// Bytes of a piece.
const PIECE: usize = 256 << 10;
