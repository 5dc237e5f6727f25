//! `create`, `add-vm`, `route`, `readers`: of the file, or of the store's records.

use std::net::IpAddr;

use clap::Args;
use serde::Serialize;
use weft_control::directory::attempts::UpdateResult;
use weft_control::directory::{Key, Locator, Mapping, PrincipalId, Value};
use weft_control::netlord::EdgePort;
use weft_control::netlord::tenants::{
    self, NewRoute, NewRouter, NewRule, NewTenant, NewVif, Tenants, VifSpec, append_route, append_router, append_rule,
};
use weft_control::wire::directory::Op;
use weft_fabric::MacAddr;

use super::place::{self, Place};
use crate::cli::connect::ConnectArgs;
use crate::cli::error::{Error, Result};
use crate::client::Updated;
use crate::daemon::command_line::{print_json, print_text, time};
use crate::entry::DEFAULT_LEASE_MS;

/// Examples at the end of `weft tenant create --help`.
const CREATE: &str = "\
Examples:
  weft tenant create acme --id 17
  weft tenant create acme --id 17 --spaces 1,2 --readers 101,102 --store";

/// Examples at the end of `weft tenant add-vm --help`.
const ADD_VM: &str = "\
Examples:
  weft tenant add-vm acme web1 --mac 02:00:00:00:00:01 --address 10.0.0.7
  weft tenant add-vm acme web1 --at edge:02:00:00:00:00:09/12 --owner 101";

/// Examples at the end of `weft tenant route --help`.
const ROUTE: &str = "\
Examples:
  weft tenant route acme r1 --interface 1,02:00:00:00:01:01,10.0.0.1/24
  weft tenant route acme r1 --to 10.1.0.0/16 --via 10.0.0.254
  weft tenant route acme r1 --rule 'allow tcp to 10.0.0.0/24 port 80'";

#[derive(Debug, Args)]
#[command(after_help = CREATE)]
pub struct CreateArgs {
    /// Name of the tenant
    name: String,
    /// Number of the tenant, 3 to 16777215
    #[arg(long, value_name = "N", value_parser = id, allow_hyphen_values = true)]
    id: u32,
    /// MAC spaces of the tenant [default: 1]
    #[arg(long, value_name = "N,...", value_delimiter = ',')]
    spaces: Vec<u32>,
    /// Principals of the agents that may read its records [default: all]
    #[arg(long, value_name = "N,...", value_delimiter = ',')]
    readers: Option<Vec<u32>>,
    #[command(flatten)]
    place: Place,
    #[command(flatten)]
    connect: ConnectArgs,
}

#[derive(Debug, Args)]
pub struct ReadersArgs {
    /// Tenant whose records are concerned
    tenant: String,
    /// Principals of the agents that may read them; the agents of other hosts may not
    #[arg(long, value_name = "N,...", value_delimiter = ',', required_unless_present = "all")]
    principals: Option<Vec<u32>>,
    /// Let all agents read them
    #[arg(long, conflicts_with = "principals")]
    all: bool,
    #[command(flatten)]
    place: Place,
    #[command(flatten)]
    connect: ConnectArgs,
}

/// Reads an id. Which of them are reserved the file's rules say.
fn id(text: &str) -> std::result::Result<u32, &'static str> {
    text.parse().map_err(|_| "write a whole number, 3 to 16777215")
}

#[derive(Debug, Args)]
#[command(after_help = ADD_VM)]
pub struct AddVmArgs {
    /// Name of the tenant
    tenant: String,
    /// Name of the interface
    name: String,
    /// MAC address of a new interface
    #[arg(long, help_heading = "Interface")]
    mac: Option<MacAddr>,
    /// MAC space of a new interface [default: the tenant's only one]
    #[arg(long, value_name = "N|public", help_heading = "Interface")]
    space: Option<String>,
    /// IP addresses of a new interface
    #[arg(long = "address", value_name = "IP,...", value_delimiter = ',', help_heading = "Interface")]
    addresses: Vec<IpAddr>,
    /// Publish in the directory that the interface is at this port of an edge switch
    #[arg(long, value_name = "edge:MAC/PORT", help_heading = "Location")]
    at: Option<Locator>,
    /// Principal of the agent of the server there
    #[arg(long, value_name = "N", requires = "at", help_heading = "Location")]
    owner: Option<u32>,
    /// How long an agent may use the location without contact to any directory server [default: 60s]
    #[arg(long, value_name = "TIME", value_parser = time, requires = "at", help_heading = "Location")]
    lease: Option<std::time::Duration>,
    #[command(flatten)]
    place: Place,
    #[command(flatten)]
    connect: ConnectArgs,
}

#[derive(Debug, Args)]
#[command(after_help = ROUTE)]
pub struct RouteArgs {
    /// Name of the tenant
    tenant: String,
    /// Name of the virtual router; it is created if it does not exist
    router: String,
    /// Interface of a new router; repeatable
    #[arg(long = "interface", value_name = "SPACE,MAC,ADDRESS/LENGTH", value_parser = interface)]
    interfaces: Vec<(u32, String, String)>,
    /// Destination prefix of a route
    #[arg(long, value_name = "PREFIX", requires = "via")]
    to: Option<String>,
    /// Next hop of that route, in a subnet of the router
    #[arg(long, value_name = "ADDRESS", requires = "to")]
    via: Option<String>,
    /// Rule, "allow|deny [PROTOCOL] [from PREFIX] [to PREFIX] [port N|LOW-HIGH]"; repeatable
    #[arg(long = "rule", value_name = "RULE")]
    rules: Vec<String>,
    #[command(flatten)]
    place: Place,
    #[command(flatten)]
    connect: ConnectArgs,
}

#[derive(Serialize)]
pub(super) struct ChangedJson {
    #[serde(flatten)]
    written: place::Written,
    tenant: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vif: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub router: Option<String>,
    /// Keys that were published in the directory.
    #[serde(skip_serializing_if = "Option::is_none")]
    bindings: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    generation: Option<u64>,
}

impl ChangedJson {
    pub fn of(written: place::Written, tenant: &str) -> Self {
        Self { written, tenant: tenant.into(), vif: None, router: None, bindings: None, generation: None }
    }

    pub fn print(&self, text: &str, json: bool) -> Result<bool> {
        if json {
            print_json(self)?;
        } else {
            print_text(&format!("{text}; {}\n", self.written))?;
        }
        Ok(true)
    }
}

/// Adds a tenant.
pub fn create(args: &CreateArgs) -> Result<bool> {
    let new = NewTenant { id: args.id, name: &args.name, spaces: &args.spaces, readers: args.readers.as_deref() };
    let mut tenants = args.place.open(&args.connect, &args.name, None)?;
    let (_, written) = tenants.change(true, |text| Ok(tenants::append_tenant(text, &new)))?;
    ChangedJson::of(written, &args.name).print(&format!("tenant {} is `{}`", args.id, args.name), args.connect.json)
}

/// Sets which agents may read a tenant's records.
pub fn readers(args: &ReadersArgs) -> Result<bool> {
    let mut tenants = args.place.open(&args.connect, &args.tenant, None)?;
    let before = tenants.read()?;
    tenants.tenant(&before)?;
    let readers = args.principals.as_deref();
    let (_, written) = tenants.change(false, |text| Ok(tenants::with_readers(text, &args.tenant, readers)))?;
    let who = readers.map_or_else(|| "all agents".to_owned(), |all| format!("{} agents", all.len()));
    ChangedJson::of(written, &args.tenant).print(&format!("{who} may read the records of `{}`", args.tenant), args.connect.json)
}

/// Adds a VIF, or moves one that is there, or both.
pub fn add_vm(args: &AddVmArgs) -> Result<bool> {
    let at = args.at.map(edge).transpose()?;
    let mut tenants = args.place.open(&args.connect, &args.tenant, Some(&args.name))?;
    let before = tenants.read()?;
    let is_there = before.by_name(&args.tenant).is_some_and(|it| it.vifs.iter().any(|vif| vif.name == args.name));
    let (all, written) = match (args.mac, is_there) {
        (Some(mac), false) => {
            let addresses = args.addresses.iter().map(ToString::to_string).collect();
            let (tenant, name) = (args.tenant.as_str(), args.name.as_str());
            let new = NewVif { tenant, name, space: args.space.as_deref(), mac: mac.to_string(), addresses };
            tenants.change(false, |text| Ok(tenants::append_vif(text, &new)))?
        }
        (None, true) if at.is_some() && args.space.is_none() && args.addresses.is_empty() => {
            let written = tenants.unchanged(&before);
            (before, written)
        }
        (_, true) => {
            return Err(Error::VifExists { tenant: args.tenant.clone(), vif: args.name.clone() });
        }
        (None, false) => {
            tenants.tenant(&before)?;
            return Err(Error::NoVif { tenant: args.tenant.clone(), vif: args.name.clone() });
        }
    };
    let spec = tenants.tenant(&all)?.vifs.iter().find(|vif| vif.name == args.name);
    let spec = spec.ok_or_else(|| Error::VifGone { vif: args.name.clone(), path: tenants.described() })?;
    let mut changed = ChangedJson::of(written, &args.tenant);
    changed.vif = Some(spec.vif.to_string());
    let mut text = format!("{} is `{}` of `{}`", spec.vif, args.name, args.tenant);
    if let Some((switch, port)) = at {
        let (bindings, generation) = bind(args, &all, spec, Locator::Edge { switch, port: u16::from(port.get()) })?;
        changed.bindings = Some(bindings);
        changed.generation = Some(generation);
        text += &format!(", at {switch}/{port} since generation {generation}");
    }
    changed.print(&text, args.connect.json)
}

/// The edge switch and port of a locator.
fn edge(at: Locator) -> Result<(MacAddr, EdgePort)> {
    let Locator::Edge { switch, port } = at else {
        return Err(Error::NotEdge(at.to_string()));
    };
    let number = EdgePort::new(port).ok_or(Error::EdgePort(port))?;
    Ok((switch, number))
}

/// Publishes in the directory where a VIF is: how many keys, and the generation.
fn bind(args: &AddVmArgs, all: &Tenants, spec: &VifSpec, locator: Locator) -> Result<(usize, u64)> {
    let lease = args.lease.map_or(Ok(DEFAULT_LEASE_MS), |lease| u32::try_from(lease.as_millis()));
    let lease_ms = lease.map_err(|_| Error::Lease)?;
    let group = weft_control::directory::GroupId(0);
    let owner = PrincipalId(args.owner.unwrap_or(0));
    let value = |mac| Value::Mapping(Mapping { locator, mac, group, service: all.service, owner, lease_ms });
    let (tenant, space, mac) = (spec.vif.tenant, spec.vif.space, spec.vif.mac);
    let by_ip = spec.addresses.iter().map(|ip| match *ip {
        IpAddr::V4(ip) => (Key::TenantIp4(tenant, space, ip), Some(mac)),
        IpAddr::V6(ip) => (Key::TenantIp6(tenant, space, ip), Some(mac)),
    });
    let keys = std::iter::once((Key::TenantMac(tenant, space, mac), None)).chain(by_ip);
    let ops: Vec<Op> = keys.map(|(key, mac)| Op { key, expect: None, value: Some(value(mac)) }).collect();
    let bindings = ops.len();
    let written = args.connect.client().and_then(|mut client| Ok(client.update(ops, None)?));
    let remedy = format!(
        "the interface is written; the same with `--at` alone (no `--mac`) publishes it in the directory: weft tenant add-vm {} {} --at ...",
        args.tenant, args.name
    );
    match written {
        Ok(Updated { result: UpdateResult::Committed(generation), .. }) => Ok((bindings, generation.0)),
        Ok(Updated { result, server, .. }) => Err(Error::BindingsRefused { server, vif: spec.vif.to_string(), result, remedy }),
        Err(error) => Err(Error::Bindings { error: Box::new(error), remedy }),
    }
}

/// Adds a router, a route, rules.
pub fn route(args: &RouteArgs) -> Result<bool> {
    let (tenant, router) = (args.tenant.as_str(), args.router.as_str());
    let rules = args.rules.iter().map(|rule| rule_keys(rule)).collect::<Result<Vec<_>>>()?;
    let mut tenants = args.place.open(&args.connect, tenant, None)?;
    let (path, is_store) = (tenants.described(), tenants.is_store());
    let (all, written) = tenants.change(false, |text| {
        let before = Tenants::parse(text).map_err(|e| Error::Tenants(e.to_string()))?;
        let is_there = place::tenant(&before, &path, is_store, tenant)?.routers.iter().any(|it| it.name == router);
        if is_there && !args.interfaces.is_empty() {
            return Err(Error::RouterExists { tenant: tenant.to_owned(), router: router.to_owned() });
        }
        if is_there && args.to.is_none() && rules.is_empty() {
            return Err(Error::NothingToAdd);
        }
        let mut text = text.to_owned();
        if !is_there {
            text = append_router(&text, &NewRouter { tenant, name: router, interfaces: args.interfaces.clone() });
        }
        if let (Some(to), Some(via)) = (&args.to, &args.via) {
            text = append_route(&text, &NewRoute { tenant, router, to, via });
        }
        for keys in &rules {
            text = append_rule(&text, &NewRule { tenant, router, keys: keys.clone() });
        }
        Ok(text)
    })?;
    let mut changed = ChangedJson::of(written, tenant);
    changed.router = Some(router.to_owned());
    let it = tenants.tenant(&all)?.routers.iter().find(|it| it.name == router);
    let counts = it.map_or((0, 0, 0), |it| (it.interfaces.len(), it.routes.len(), it.rules.len()));
    let text = format!("`{router}` of `{tenant}` has {} interfaces, {} routes, {} rules", counts.0, counts.1, counts.2);
    changed.print(&text, args.connect.json)
}

fn interface(text: &str) -> std::result::Result<(u32, String, String), String> {
    let parts: Vec<&str> = text.split(',').map(str::trim).collect();
    let [space, mac, address] = parts[..] else {
        return Err("write SPACE,MAC,ADDRESS/LENGTH: 1,02:00:00:00:00:fe,10.0.0.254/24".into());
    };
    let space = space.parse().map_err(|_| format!("`{space}` is not a MAC space's number"))?;
    Ok((space, mac.to_owned(), address.to_owned()))
}

/// A rule's words as the file's keys; the file's checks do the rest.
fn rule_keys(text: &str) -> Result<Vec<(&str, String)>> {
    let mut words = text.split_whitespace();
    let action = words.next().ok_or_else(|| Error::Rule("the rule is empty".to_owned()))?;
    let mut keys = vec![("action", action.to_owned())];
    while let Some(word) = words.next() {
        let key = match word {
            "from" | "to" | "port" => word,
            _ if keys.len() == 1 => {
                keys.push(("protocol", word.to_owned()));
                continue;
            }
            _ => return Err(Error::Rule(format!("`{word}` in the rule `{text}`"))),
        };
        let value = words.next().ok_or_else(|| Error::Rule(format!("nothing behind `{word}` in the rule `{text}`")))?;
        if keys.iter().any(|(other, _)| *other == key) {
            return Err(Error::Rule(format!("`{word}` is twice in the rule `{text}`")));
        }
        keys.push((key, value.to_owned()));
    }
    Ok(keys)
}
