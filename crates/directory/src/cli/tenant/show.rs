//! `list`, `show`.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use clap::Args;
use serde::Serialize;
use weft_control::directory::{Generation, Key, Value};
use weft_control::netlord::PUBLIC;
use weft_control::netlord::tenants::records::Name;
use weft_control::netlord::tenants::{Action, Protocol, Router, Rule, Tenant, VifSpec};
use weft_control::wire::directory::Finding;

use super::file;
use super::place::{self, Place};
use super::records::{self, Vifs};
use crate::cli::connect::ConnectArgs;
use crate::cli::error::{Error, Result};
use crate::cli::table;
use crate::daemon::command_line::{print_json, print_text};

#[derive(Debug, Args)]
pub struct ListArgs {
    #[command(flatten)]
    place: Place,
    #[command(flatten)]
    connect: ConnectArgs,
}

#[derive(Debug, Args)]
pub struct ShowArgs {
    /// Name of the tenant
    tenant: String,
    /// Look up the locations of its VIFs in the directory
    #[arg(long)]
    locations: bool,
    #[command(flatten)]
    place: Place,
    #[command(flatten)]
    connect: ConnectArgs,
}

#[derive(Serialize)]
struct ListJson {
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<u32>,
    /// Of the store's records.
    #[serde(skip_serializing_if = "Option::is_none")]
    revision: Option<u64>,
    service: u32,
    tenants: Vec<LineJson>,
}

#[derive(Serialize)]
struct LineJson {
    id: u32,
    name: String,
    spaces: Vec<u32>,
    vifs: usize,
    routers: usize,
    routes: usize,
    rules: usize,
}

#[derive(Serialize)]
struct TenantJson {
    id: u32,
    name: String,
    spaces: Vec<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    readers: Option<Vec<u32>>,
    vifs: Vec<VifJson>,
    routers: Vec<RouterJson>,
}

#[derive(Serialize)]
struct VifJson {
    name: String,
    vif: String,
    public: bool,
    addresses: Vec<String>,
    /// Absent if it was not asked for; null if the directory knows no place.
    #[serde(skip_serializing_if = "Option::is_none")]
    at: Option<Option<String>>,
}

#[derive(Serialize)]
struct RouterJson {
    name: String,
    interfaces: Vec<InterfaceJson>,
    routes: Vec<RouteJson>,
    rules: Vec<String>,
}

#[derive(Serialize)]
struct InterfaceJson {
    space: u32,
    mac: String,
    address: String,
}

#[derive(Serialize)]
struct RouteJson {
    to: String,
    via: String,
}

/// Lists the tenants of a file that is right.
pub fn list(args: &ListArgs) -> Result<bool> {
    let list = if args.place.is_store() { list_records(args)? } else { list_file(args)? };
    if args.connect.json {
        print_json(&list)?;
        return Ok(true);
    }
    let mut rows = table::new(&["id", "name", "MAC spaces", "VIFs", "routers", "routes", "rules"]);
    for it in &list.tenants {
        let spaces = it.spaces.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        let counts = [it.vifs, it.routers, it.routes, it.rules].map(|count| count.to_string());
        rows.add_row([it.id.to_string(), it.name.clone(), spaces].into_iter().chain(counts));
    }
    let which = list.version.map(|it| format!("version {it}")).or(list.revision.map(|it| format!("revision {it}")));
    print_text(&format!("{rows}\n{}\n", which.unwrap_or_default()))?;
    Ok(true)
}

fn list_file(args: &ListArgs) -> Result<ListJson> {
    let all = file::read(&args.place.path(&args.connect))?;
    let tenants = all.tenants.values().map(|it| line(it, it.vifs.len())).collect();
    Ok(ListJson { version: Some(all.version), revision: None, service: all.service.0, tenants })
}

/// Of VIFs only the count is kept, so a million of them take no memory.
fn list_records(args: &ListArgs) -> Result<ListJson> {
    let mut client = args.connect.client()?;
    let (mut held, mut vifs) = (records::Held::new(), BTreeMap::<String, usize>::new());
    let mut revision = 0;
    for prefix in ["v/", "r/", "t/", "site"] {
        revision = records::each(&mut client, prefix, |name, generation, body| {
            match name {
                Name::Vif(tenant, _) => *vifs.entry(tenant).or_default() += 1,
                name => {
                    held.insert(name, (generation, body));
                }
            }
            Ok(())
        })?;
    }
    if !held.contains_key(&Name::Site) {
        return Err(Error::NoRecords);
    }
    records::keep_whole(&mut held);
    let all = records::build(1, &held)?;
    let tenants = all.tenants.values().map(|it| line(it, vifs.get(&it.name).copied().unwrap_or(0))).collect();
    Ok(ListJson { version: None, revision: Some(revision), service: all.service.0, tenants })
}

fn line(it: &Tenant, vifs: usize) -> LineJson {
    LineJson {
        id: it.id.0,
        name: it.name.clone(),
        spaces: it.spaces.iter().map(|space| space.0).collect(),
        vifs,
        routers: it.routers.len(),
        routes: it.routers.iter().map(|router| router.routes.len()).sum(),
        rules: it.routers.iter().map(|router| router.rules.len()).sum(),
    }
}

/// Shows a tenant.
pub fn show(args: &ShowArgs) -> Result<bool> {
    let path = args.place.path(&args.connect);
    let is_store = args.place.is_store();
    let all = if is_store {
        records::build(1, &records::read_tenant(&mut args.connect.client()?, &args.tenant, Vifs::All)?.1)?
    } else {
        file::read(&path)?
    };
    let tenant = place::tenant(&all, &path, is_store, &args.tenant)?;
    let places = if args.locations { Some(places(args, tenant)?) } else { None };
    let vif = |(at, it): (usize, &VifSpec)| VifJson {
        name: it.name.clone(),
        vif: it.vif.to_string(),
        public: it.vif.tenant == PUBLIC,
        addresses: it.addresses.iter().map(ToString::to_string).collect(),
        at: places.as_ref().map(|places| places[at].clone()),
    };
    let shown = TenantJson {
        id: tenant.id.0,
        name: tenant.name.clone(),
        spaces: tenant.spaces.iter().map(|space| space.0).collect(),
        readers: tenant.readers.as_ref().map(|all| all.iter().map(|principal| principal.0).collect()),
        vifs: tenant.vifs.iter().enumerate().map(vif).collect(),
        routers: tenant.routers.iter().map(router).collect(),
    };
    if args.connect.json {
        print_json(&shown)?;
    } else {
        print_text(&text(&shown))?;
    }
    Ok(true)
}

/// Where the directory says that each VIF is.
fn places(args: &ShowArgs, tenant: &Tenant) -> Result<Vec<Option<String>>> {
    let keys: Vec<Key> = tenant.vifs.iter().map(|it| Key::TenantMac(it.vif.tenant, it.vif.space, it.vif.mac)).collect();
    let found = args.connect.client()?.look_up(&keys, None, Generation(0))?;
    let place = |(_, finding): &(Generation, Finding)| match finding {
        Finding::Found(Value::Mapping(mapping)) => Some(mapping.locator.to_string()),
        _ => None,
    };
    Ok(found.findings.iter().map(place).collect())
}

fn router(it: &Router) -> RouterJson {
    let interface = |it: &weft_control::netlord::tenants::Interface| InterfaceJson {
        space: it.space.0,
        mac: it.mac.to_string(),
        address: format!("{}/{}", it.address, it.subnet.length()),
    };
    RouterJson {
        name: it.name.clone(),
        interfaces: it.interfaces.iter().map(interface).collect(),
        routes: it.routes.iter().map(|it| RouteJson { to: it.to.to_string(), via: it.via.to_string() }).collect(),
        rules: it.rules.iter().map(rule).collect(),
    }
}

/// As the command line takes it.
pub(super) fn rule(it: &Rule) -> String {
    let mut text = if it.action == Action::Allow { "allow" } else { "deny" }.to_owned();
    match it.protocol {
        None => {}
        Some(Protocol::Icmp) => text += " icmp",
        Some(Protocol::Number(6)) => text += " tcp",
        Some(Protocol::Number(17)) => text += " udp",
        Some(Protocol::Number(number)) => {
            let _ = write!(text, " {number}");
        }
    }
    for (word, prefix) in [("from", it.from), ("to", it.to)] {
        if let Some(prefix) = prefix {
            let _ = write!(text, " {word} {prefix}");
        }
    }
    match it.ports {
        Some((low, high)) if low == high => text += &format!(" port {low}"),
        Some((low, high)) => text += &format!(" port {low}-{high}"),
        None => {}
    }
    text
}

fn text(it: &TenantJson) -> String {
    let spaces = it.spaces.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let mut out = format!("tenant {} `{}`, MAC spaces {spaces}\n", it.id, it.name);
    if let Some(readers) = &it.readers {
        let readers = readers.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        let _ = writeln!(out, "read by principals {readers}");
    }
    let mut rows = table::new(&["VIF", "tenant:id/space/MAC", "addresses", "at"]);
    for vif in &it.vifs {
        let at = match &vif.at {
            None => String::new(),
            Some(at) => at.clone().unwrap_or_else(|| "unknown".into()),
        };
        rows.add_row([vif.name.clone(), vif.vif.clone(), vif.addresses.join(", "), at]);
    }
    let _ = writeln!(out, "{rows}");
    for router in &it.routers {
        let _ = writeln!(out, "router `{}`", router.name);
        for it in &router.interfaces {
            let _ = writeln!(out, "  {} at {} in MAC space {}", it.address, it.mac, it.space);
        }
        for it in &router.routes {
            let _ = writeln!(out, "  to {} via {}", it.to, it.via);
        }
        for rule in &router.rules {
            let _ = writeln!(out, "  {rule}");
        }
    }
    out
}
