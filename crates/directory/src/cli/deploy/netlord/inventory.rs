//! NetLord in an inventory: switches with their cables, servers, tenants with what they have. `docs/deploying.md` has every key.

use std::collections::BTreeMap;

use serde::Deserialize;
use toml::Spanned;
use weft_control::netlord::tenants::Tenants;

use super::layout::Layout;
use crate::cli::deploy::limits::Limits;

/// `[netlord]`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::cli::deploy) struct Netlord {
    /// SPAIN's paths of a pair of edge switches, at most.
    #[serde(default = "paths")]
    pub paths: Spanned<u32>,
    /// Trees that reach all edge switches, at most.
    #[serde(default = "trees")]
    pub trees: Spanned<u32>,
    /// None: announced by agents.
    pub locations: Option<Spanned<Locations>>,
    /// That of the VIFs' bindings.
    pub service: Option<Spanned<String>>,
    /// Of all servers.
    #[serde(default)]
    pub limits: Limits,
    #[serde(default)]
    pub switch: Vec<Switch>,
    #[serde(default)]
    pub cable: Vec<Cable>,
    #[serde(default)]
    pub host: Vec<Host>,
    #[serde(default)]
    pub tenant: Vec<Tenant>,
    #[serde(default)]
    pub vif: Vec<Vif>,
    #[serde(default)]
    pub router: Vec<Router>,
    #[serde(default)]
    pub route: Vec<Route>,
    #[serde(default)]
    pub rule: Vec<Rule>,
    /// Of its switches and cables; once it is checked.
    #[serde(skip)]
    pub layout: Layout,
    /// The same of tenants and what they have.
    #[serde(skip)]
    pub tenants: Tenants,
    /// The VIFs of each server, by its name.
    #[serde(skip)]
    placed: BTreeMap<String, Vec<usize>>,
}

/// Who knows where VIFs are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(in crate::cli::deploy) enum Locations {
    NlArp,
    Directory,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::cli::deploy) struct Switch {
    pub name: Spanned<String>,
    pub role: Role,
    pub mac: Option<Spanned<String>>,
    /// Whether it runs an agent; else it gets no files.
    #[serde(default = "yes")]
    pub agent: bool,
    pub fib_entries: Option<Spanned<u32>>,
    /// Interfaces whose untagged frames are in the first of the VLANs that reach all.
    #[serde(default)]
    pub untagged: Vec<Spanned<String>>,
    pub management: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(in crate::cli::deploy) enum Role {
    Edge,
    Core,
}

/// Between two switches, each end as `switch:interface`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::cli::deploy) struct Cable {
    pub ends: Spanned<Vec<Spanned<String>>>,
}

/// A server.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::cli::deploy) struct Host {
    pub name: Spanned<String>,
    pub principal: Option<Spanned<u32>>,
    #[serde(default)]
    pub uplinks: Vec<Uplink>,
    /// Its own address in tenant 1: one with its prefix length, or `dhcp`.
    pub provider: Option<Spanned<String>>,
    #[serde(default)]
    pub limits: Limits,
    pub management: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::cli::deploy) struct Uplink {
    pub device: Spanned<String>,
    /// The other end: `switch:interface`.
    pub port: Spanned<String>,
    /// The port's number, in the outer address.
    pub number: Spanned<u16>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::cli::deploy) struct Tenant {
    pub id: Spanned<i64>,
    pub name: Spanned<String>,
    pub spaces: Option<Vec<Spanned<i64>>>,
    /// The servers that may read its records, by name.
    pub readers: Option<Vec<Spanned<String>>>,
    /// What it may send, at all edge switches together.
    pub rate: Option<Spanned<String>>,
    pub burst: Option<Spanned<String>>,
    #[serde(default)]
    pub deny: bool,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::cli::deploy) struct Vif {
    pub tenant: Spanned<String>,
    pub name: Spanned<String>,
    pub space: Option<Spanned<NumberOrName>>,
    pub mac: Spanned<String>,
    #[serde(default)]
    pub addresses: Vec<Spanned<String>>,
    /// Its server; none: it is placed by other means.
    pub host: Option<Spanned<String>>,
    /// The interface there; none: it is attached at run time.
    pub device: Option<Spanned<String>>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(in crate::cli::deploy) enum NumberOrName {
    Number(i64),
    Name(String),
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::cli::deploy) struct Router {
    pub tenant: Spanned<String>,
    pub name: Spanned<String>,
    pub interfaces: Vec<Interface>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::cli::deploy) struct Interface {
    pub space: Spanned<i64>,
    pub mac: Spanned<String>,
    pub address: Spanned<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::cli::deploy) struct Route {
    pub tenant: Spanned<String>,
    pub router: Spanned<String>,
    pub to: Spanned<String>,
    pub via: Spanned<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::cli::deploy) struct Rule {
    pub tenant: Spanned<String>,
    pub router: Spanned<String>,
    pub action: Spanned<String>,
    pub protocol: Option<Spanned<NumberOrName>>,
    pub from: Option<Spanned<String>>,
    pub to: Option<Spanned<String>>,
    pub port: Option<Spanned<NumberOrName>>,
}

impl Netlord {
    /// Completes it: once, after it was checked.
    pub fn complete(&mut self, layout: Layout, tenants: Tenants) {
        (self.layout, self.tenants) = (layout, tenants);
        for (at, vif) in self.vif.iter().enumerate() {
            if let Some(host) = &vif.host {
                self.placed.entry(host.get_ref().clone()).or_default().push(at);
            }
        }
    }

    /// Whether the directory knows where VIFs are.
    pub fn is_pull(&self) -> bool {
        self.locations.as_ref().is_some_and(|it| *it.get_ref() == Locations::Directory)
    }

    /// Switches that run an agent.
    pub fn agents_of_switches(&self) -> impl Iterator<Item = &Switch> {
        self.switch.iter().filter(|it| it.agent)
    }

    /// The VIFs that are placed on a server.
    pub fn vifs_of(&self, host: &Host) -> impl Iterator<Item = &Vif> {
        self.placed.get(host.name.get_ref()).into_iter().flatten().map(|&at| &self.vif[at])
    }
}

impl Uplink {
    /// The switch and its interface, if it is written as both.
    pub fn switch_and_interface(&self) -> Option<(&str, &str)> {
        self.port.get_ref().split_once(':')
    }
}

fn paths() -> Spanned<u32> {
    Spanned::new(0..0, 16)
}

fn trees() -> Spanned<u32> {
    Spanned::new(0..0, 2)
}

const fn yes() -> bool {
    true
}
