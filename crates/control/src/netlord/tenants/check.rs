//! From the file's tables to [`Tenants`], or the first thing that is wrong.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use weft_fabric::{MacAddr, TenantId};

use super::super::{FIRST_TENANT, LAST_SPACE, PUBLIC, Vif, is_space, is_unicast};
use super::{Action, Interface, Protocol, Route, Router, Rule, Tenant, Tenants, TenantsError, VifSpec, raw};
use crate::directory::{MacSpace, PrincipalId, ServiceId};
use crate::netlord::nl_arp::MAX_ADDRESSES;
use crate::prefix::{Prefix, PrefixError};

/// The public space's only MAC space.
pub(super) const PUBLIC_SPACE: MacSpace = MacSpace(1);
/// How the file names the public space.
pub(super) const PUBLIC_NAME: &str = "public";

type Result<T> = std::result::Result<T, TenantsError>;

/// Builds and checks.
pub(super) fn build(file: raw::File) -> Result<Tenants> {
    let version = u32::try_from(file.version).ok().filter(|&version| version >= 1);
    let version = version.ok_or_else(|| bad("version", format!("{} is not 1 to 4294967295", file.version)))?;
    let service =
        u32::try_from(file.service).map_err(|_| bad("service", format!("{} is not a service's number", file.service)))?;
    let mut taken = Taken::default();
    let mut all = Tenants { version, service: ServiceId(service), tenants: tenants(file.tenant, &mut taken)? };
    for router in file.router {
        add_router(&mut all, router, &mut taken)?;
    }
    for vif in file.vif {
        add_vif(&mut all, vif, &mut taken)?;
    }
    for route in file.route {
        add_route(&mut all, &route, &taken)?;
    }
    for rule in file.rule {
        add_rule(&mut all, &rule, &taken)?;
    }
    all.tenants.values().try_for_each(super::routing::check_loops)?;
    Ok(all)
}

fn bad(table: impl Into<String>, problem: impl Into<String>) -> TenantsError {
    TenantsError::Bad { table: table.into(), problem: problem.into() }
}

fn tenants(raw: Vec<raw::Tenant>, taken: &mut Taken) -> Result<BTreeMap<TenantId, Tenant>> {
    let mut all: BTreeMap<TenantId, Tenant> = BTreeMap::new();
    for tenant in raw {
        let table = format!("tenant `{}`", tenant.name);
        check_name(&table, &tenant.name)?;
        if [PUBLIC_NAME, "provider"].contains(&tenant.name.as_str()) {
            return Err(bad(table, "the name is reserved: choose another"));
        }
        let id = match u32::try_from(tenant.id).ok().and_then(TenantId::new) {
            None => return Err(bad(table, format!("id {} has more than 24 bits: 3 to 16777215", tenant.id))),
            Some(id) if id.0 < FIRST_TENANT => {
                return Err(bad(
                    table,
                    format!("id {id} is reserved (0: none, 1: the provider, 2: the public space): 3 to 16777215", id = id.0),
                ));
            }
            Some(id) => id,
        };
        if let Some(other) = taken.tenants.insert(tenant.name.clone(), id) {
            return Err(bad(table, format!("the name is tenant {}'s already", other.0)));
        }
        let (spaces, readers) = (spaces(&table, tenant.spaces)?, readers(&table, tenant.readers)?);
        let built = Tenant { id, name: tenant.name, spaces, readers, vifs: Vec::new(), routers: Vec::new() };
        if let Some(other) = all.insert(id, built) {
            return Err(bad(table, format!("id {} is `{}`'s already", id.0, other.name)));
        }
    }
    Ok(all)
}

fn spaces(table: &str, raw: Option<Vec<i64>>) -> Result<Vec<MacSpace>> {
    let mut spaces = Vec::new();
    for id in raw.unwrap_or_else(|| vec![1]) {
        let space = u32::try_from(id).ok().map(MacSpace).filter(|&space| is_space(space));
        let space = space.ok_or_else(|| bad(table, format!("MAC space {id} is not 1 to {LAST_SPACE}")))?;
        if spaces.contains(&space) {
            return Err(bad(table, format!("MAC space {id} is there twice")));
        }
        spaces.push(space);
    }
    if spaces.is_empty() {
        return Err(bad(table, "no MAC space: leave `spaces` out for one"));
    }
    Ok(spaces)
}

fn readers(table: &str, raw: Option<Vec<i64>>) -> Result<Option<Vec<PrincipalId>>> {
    let read = |id: i64| {
        let principal = u32::try_from(id).ok().filter(|&id| id > 0).map(PrincipalId);
        principal.ok_or_else(|| bad(table, format!("reader {id} is not a principal: 1 to 4294967295")))
    };
    let mut readers = raw.map(|all| all.into_iter().map(read).collect::<Result<Vec<_>>>()).transpose()?;
    if let Some(readers) = &mut readers {
        readers.sort_unstable();
        readers.dedup();
    }
    Ok(readers)
}

pub(super) fn check_name(table: &str, name: &str) -> Result<()> {
    let is_good = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if name.is_empty() || name.len() > 64 || !name.chars().all(is_good) {
        return Err(bad(table, "a name has 1 to 64 letters, digits, `-`, `_` and `.`"));
    }
    Ok(())
}

/// Which names there are, and whose addresses are whose, by tenant on the wire and MAC space.
#[derive(Default)]
struct Taken {
    tenants: BTreeMap<String, TenantId>,
    vifs: BTreeSet<(TenantId, String)>,
    macs: BTreeMap<Vif, String>,
    ips: BTreeMap<(TenantId, MacSpace, IpAddr), String>,
}

impl Taken {
    fn mac(&mut self, table: &str, vif: Vif) -> Result<()> {
        match self.macs.insert(vif, table.to_owned()) {
            Some(other) => Err(bad(table, format!("MAC address {} is {other}'s already in MAC space {}", vif.mac, vif.space.0))),
            None => Ok(()),
        }
    }

    fn ip(&mut self, table: &str, tenant: TenantId, space: MacSpace, ip: IpAddr) -> Result<()> {
        match self.ips.insert((tenant, space, ip), table.to_owned()) {
            Some(other) => Err(bad(table, format!("address {ip} is {other}'s already in MAC space {}", space.0))),
            None => Ok(()),
        }
    }
}

fn tenant_of<'a>(all: &'a mut Tenants, taken: &Taken, table: &str, name: &str) -> Result<&'a mut Tenant> {
    let found = taken.tenants.get(name).and_then(|id| all.tenants.get_mut(id));
    found.ok_or_else(|| bad(table, format!("there is no tenant `{name}`")))
}

fn router_of<'a>(all: &'a mut Tenants, taken: &Taken, table: &str, tenant: &str, router: &str) -> Result<&'a mut Router> {
    let found = tenant_of(all, taken, table, tenant)?.routers.iter_mut().find(|it| it.name == router);
    found.ok_or_else(|| bad(table, format!("`{tenant}` has no virtual router `{router}`")))
}

fn add_vif(all: &mut Tenants, raw: raw::Vif, taken: &mut Taken) -> Result<()> {
    let table = format!("vif `{}` of `{}`", raw.name, raw.tenant);
    check_name(&table, &raw.name)?;
    let tenant = tenant_of(all, taken, &table, &raw.tenant)?;
    if !taken.vifs.insert((tenant.id, raw.name.clone())) {
        return Err(bad(table, "the name is there twice"));
    }
    let (id, space) = match raw.space {
        Some(raw::Space::Name(name)) if name == PUBLIC_NAME => (PUBLIC, PUBLIC_SPACE),
        Some(raw::Space::Name(name)) => {
            return Err(bad(table, format!("MAC space `{name}`: write its number, or \"{PUBLIC_NAME}\"")));
        }
        Some(raw::Space::Id(id)) => (tenant.id, own_space(&table, tenant, id)?),
        None => match tenant.spaces[..] {
            [only] => (tenant.id, only),
            _ => return Err(bad(table, "the tenant has several MAC spaces: say which by `space`")),
        },
    };
    let vif = Vif { tenant: id, space, mac: mac(&table, &raw.mac)? };
    taken.mac(&table, vif)?;
    let mut addresses = Vec::new();
    for text in &raw.addresses {
        let ip = address(&table, text)?;
        taken.ip(&table, id, space, ip)?;
        addresses.push(ip);
    }
    if addresses.len() > MAX_ADDRESSES {
        return Err(bad(table, format!("{} addresses: a VIF has at most {MAX_ADDRESSES}", addresses.len())));
    }
    if id == PUBLIC && addresses.is_empty() {
        return Err(bad(table, "a VIF in the public space needs an address"));
    }
    tenant.vifs.push(VifSpec { name: raw.name, vif, addresses });
    Ok(())
}

fn own_space(table: &str, tenant: &Tenant, id: i64) -> Result<MacSpace> {
    let space = u32::try_from(id).ok().map(MacSpace).filter(|space| tenant.spaces.contains(space));
    space.ok_or_else(|| bad(table, format!("`{}` has no MAC space {id}: add it to its `spaces`", tenant.name)))
}

fn mac(table: &str, text: &str) -> Result<MacAddr> {
    let mac: MacAddr = text.parse().map_err(|e: weft_fabric::mac::MacError| bad(table, e.to_string()))?;
    if is_unicast(mac) { Ok(mac) } else { Err(bad(table, format!("{mac} is not the address of one interface"))) }
}

fn address(table: &str, text: &str) -> Result<IpAddr> {
    let ip: IpAddr = text.parse().map_err(|_| bad(table, format!("`{text}` is not an address: write 10.0.0.1 or fd00::1")))?;
    check_address(table, ip)?;
    Ok(ip)
}

fn check_address(table: &str, ip: IpAddr) -> Result<()> {
    let is_broadcast = matches!(ip, IpAddr::V4(ip) if ip.is_broadcast());
    if ip.is_unspecified() || ip.is_multicast() || ip.is_loopback() || is_broadcast {
        return Err(bad(table, format!("{ip} is not the address of one interface")));
    }
    Ok(())
}

fn prefix(table: &str, text: &str) -> Result<Prefix> {
    text.parse().map_err(|e: PrefixError| bad(table, e.to_string()))
}

fn add_router(all: &mut Tenants, raw: raw::Router, taken: &mut Taken) -> Result<()> {
    let table = format!("router `{}` of `{}`", raw.name, raw.tenant);
    check_name(&table, &raw.name)?;
    let tenant = tenant_of(all, taken, &table, &raw.tenant)?;
    if tenant.routers.iter().any(|router| router.name == raw.name) {
        return Err(bad(table, "the name is there twice"));
    }
    let mut interfaces: Vec<Interface> = Vec::new();
    let mut macs = BTreeSet::new();
    for it in &raw.interfaces {
        let space = own_space(&table, tenant, it.space)?;
        let mac = mac(&table, &it.mac)?;
        let (ip, length) = it.address.split_once('/').unwrap_or((&it.address, ""));
        let ip = address(&table, ip)?;
        let subnet = length.parse().ok().and_then(|length| Prefix::of(ip, length));
        let subnet = subnet
            .ok_or_else(|| bad(&table, format!("`{}`: write the address with its prefix length, 10.0.0.254/24", it.address)))?;
        if let Some(other) = interfaces.iter().find(|other| other.subnet.overlaps(&subnet)) {
            return Err(bad(table, format!("subnets {} and {subnet} overlap", other.subnet)));
        }
        if macs.insert((space, mac)) {
            taken.mac(&table, Vif { tenant: tenant.id, space, mac })?;
        }
        taken.ip(&table, tenant.id, space, ip)?;
        interfaces.push(Interface { space, mac, address: ip, subnet });
    }
    tenant.routers.push(Router { name: raw.name, interfaces, routes: Vec::new(), rules: Vec::new() });
    Ok(())
}

fn add_route(all: &mut Tenants, raw: &raw::Route, taken: &Taken) -> Result<()> {
    let table = format!("route to {} of router `{}` of `{}`", raw.to, raw.router, raw.tenant);
    let (to, via) = (prefix(&table, &raw.to)?, address(&table, &raw.via)?);
    let router = router_of(all, taken, &table, &raw.tenant, &raw.router)?;
    if to.address().is_ipv4() != via.is_ipv4() {
        return Err(bad(table, format!("{via} is of another family than {to}")));
    }
    if !router.interfaces.iter().any(|interface| interface.subnet.contains(via)) {
        return Err(bad(table, format!("{via} lies in no subnet of the router")));
    }
    if router.interfaces.iter().any(|interface| interface.address == via) {
        return Err(bad(table, format!("{via} is the router itself: a packet would go round")));
    }
    if router.routes.iter().any(|route| route.to == to) {
        return Err(bad(table, "the route is there twice"));
    }
    router.routes.push(Route { to, via });
    Ok(())
}

fn add_rule(all: &mut Tenants, raw: &raw::Rule, taken: &Taken) -> Result<()> {
    let table = format!("rule of router `{}` of `{}`", raw.router, raw.tenant);
    let rule = rule(&table, raw)?;
    router_of(all, taken, &table, &raw.tenant, &raw.router)?.rules.push(rule);
    Ok(())
}

fn rule(table: &str, raw: &raw::Rule) -> Result<Rule> {
    let action = match raw.action.as_str() {
        "allow" => Action::Allow,
        "deny" => Action::Deny,
        other => return Err(bad(table, format!("action `{other}`: write `allow` or `deny`"))),
    };
    let protocol = match &raw.protocol {
        None => None,
        Some(raw::NumberOrName::Name(name)) => Some(match name.as_str() {
            "tcp" => Protocol::Number(6),
            "udp" => Protocol::Number(17),
            "icmp" => Protocol::Icmp,
            _ => return Err(bad(table, format!("protocol `{name}`: write `tcp`, `udp`, `icmp` or a number"))),
        }),
        Some(raw::NumberOrName::Number(number)) => {
            Some(Protocol::Number(u8::try_from(*number).map_err(|_| bad(table, format!("protocol {number} is not 0 to 255")))?))
        }
    };
    let ports = match &raw.port {
        None => None,
        Some(raw::NumberOrName::Number(port)) => Some(ports(table, &port.to_string())?),
        Some(raw::NumberOrName::Name(text)) => Some(ports(table, text)?),
    };
    if ports.is_some() && !matches!(protocol, Some(Protocol::Number(6 | 17))) {
        return Err(bad(table, "a port needs protocol `tcp` or `udp`"));
    }
    let from = raw.from.as_deref().map(|text| prefix(table, text)).transpose()?;
    let to = raw.to.as_deref().map(|text| prefix(table, text)).transpose()?;
    if let (Some(from), Some(to)) = (from, to)
        && from.address().is_ipv4() != to.address().is_ipv4()
    {
        return Err(bad(table, format!("{from} and {to} are of two families: no packet fits")));
    }
    Ok(Rule { action, protocol, from, to, ports })
}

fn ports(table: &str, text: &str) -> Result<(u16, u16)> {
    let (low, high) = text.split_once('-').unwrap_or((text, text));
    let range = low.parse().ok().zip(high.parse().ok()).filter(|(low, high)| low <= high);
    range.ok_or_else(|| bad(table, format!("port `{text}`: write 0 to 65535, or \"8000-8080\"")))
}
