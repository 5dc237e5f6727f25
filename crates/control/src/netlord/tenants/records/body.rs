//! The bodies of records: TOML, with the keys of the tenants' file. The store has each in one form, which [`records_of`] gives it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use weft_fabric::TenantId;

use super::super::super::PUBLIC;
use super::super::check::{PUBLIC_NAME, PUBLIC_SPACE, build};
use super::super::text::{address_of, keys_of, space_of, strings};
use super::super::{Router, Tenant, Tenants, TenantsError, VifSpec, raw};
use super::name::Name;

/// `site`.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SiteBody {
    pub service: i64,
}

/// `t/TENANT`.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TenantBody {
    pub id: i64,
    pub spaces: Option<Vec<i64>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub readers: Option<Vec<i64>>,
    /// It is being removed: nothing is added to it any more.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub closing: bool,
}

/// `v/TENANT/VIF`.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct VifBody {
    pub space: Option<raw::Space>,
    pub mac: String,
    #[serde(default)]
    pub addresses: Vec<String>,
}

/// `r/TENANT/ROUTER`.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RouterBody {
    #[serde(default)]
    pub interfaces: Vec<raw::Interface>,
    #[serde(default)]
    pub route: Vec<RouteBody>,
    #[serde(default)]
    pub rule: Vec<RuleBody>,
}

#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RouteBody {
    pub to: String,
    pub via: String,
}

#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RuleBody {
    pub action: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub protocol: Option<raw::NumberOrName>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<raw::NumberOrName>,
}

/// All records of these tenants.
pub fn records_of(all: &Tenants) -> BTreeMap<Name, String> {
    let mut records = BTreeMap::from([(Name::Site, write(&SiteBody { service: i64::from(all.service.0) }))]);
    for tenant in all.tenants.values() {
        let name = &tenant.name;
        records.insert(Name::Tenant(name.clone()), of_tenant(tenant, false));
        records.extend(tenant.routers.iter().map(|it| (Name::Router(name.clone(), it.name.clone()), of_router(it))));
        records.extend(tenant.vifs.iter().map(|it| (Name::Vif(name.clone(), it.name.clone()), of_vif(it))));
    }
    records
}

/// The tenants that records are of, checked as the file is. Some of a tenant's VIFs may be left out.
///
/// # Errors
/// The first thing that is wrong with a record, or with all of them together.
pub fn tenants_of<'a>(version: u32, records: impl IntoIterator<Item = (&'a Name, &'a str)>) -> Result<Tenants, TenantsError> {
    let mut file = raw::File { version: i64::from(version), ..raw::File::default() };
    records.into_iter().try_for_each(|(name, body)| add(&mut file, name, body))?;
    build(file)
}

/// Adds a record to a file's tables.
pub(super) fn add(file: &mut raw::File, name: &Name, body: &str) -> Result<(), TenantsError> {
    match name {
        Name::Site => file.service = read::<SiteBody>(name, body)?.service,
        Name::Tenant(tenant) => {
            let TenantBody { id, spaces, readers, .. } = read(name, body)?;
            file.tenant.push(raw::Tenant { id, name: tenant.clone(), spaces, readers });
        }
        Name::Vif(tenant, vif) => {
            let VifBody { space, mac, addresses } = read(name, body)?;
            file.vif.push(raw::Vif { tenant: tenant.clone(), name: vif.clone(), space, mac, addresses });
        }
        Name::Router(tenant, router) => {
            let RouterBody { interfaces, route, rule } = read(name, body)?;
            file.router.push(raw::Router { tenant: tenant.clone(), name: router.clone(), interfaces });
            let of = || (tenant.clone(), router.clone());
            file.route.extend(route.into_iter().map(|RouteBody { to, via }| {
                let (tenant, router) = of();
                raw::Route { tenant, router, to, via }
            }));
            file.rule.extend(rule.into_iter().map(|RuleBody { action, protocol, from, to, port }| {
                let (tenant, router) = of();
                raw::Rule { tenant, router, action, protocol, from, to, port }
            }));
        }
    }
    Ok(())
}

/// The entries of the store that say whose the addresses of a record are. `body` has the store's form.
pub(super) fn index(id: TenantId, name: &Name, body: &str) -> Result<Vec<String>, TenantsError> {
    let mut names = Vec::new();
    match name {
        Name::Site | Name::Tenant(_) => {}
        Name::Vif(..) => {
            let VifBody { space, mac, addresses } = read(name, body)?;
            let (id, space) = match space {
                Some(raw::Space::Id(space)) => (id, space),
                Some(raw::Space::Name(_)) | None => (PUBLIC, i64::from(PUBLIC_SPACE.0)),
            };
            names.push(format!("m/{}/{space}/{mac}", id.0));
            names.extend(addresses.iter().map(|ip| format!("a/{}/{space}/{ip}", id.0)));
        }
        Name::Router(..) => {
            for raw::Interface { space, mac, address } in read::<RouterBody>(name, body)?.interfaces {
                names.push(format!("m/{}/{space}/{mac}", id.0));
                names.push(format!("a/{}/{space}/{}", id.0, address.split('/').next().unwrap_or_default()));
            }
        }
    }
    names.sort_unstable();
    names.dedup();
    Ok(names)
}

pub(super) fn of_tenant(it: &Tenant, closing: bool) -> String {
    let spaces = Some(it.spaces.iter().map(|space| i64::from(space.0)).collect());
    let readers = it.readers.as_ref().map(|all| all.iter().map(|principal| i64::from(principal.0)).collect());
    write(&TenantBody { id: i64::from(it.id.0), spaces, readers, closing })
}

pub(super) fn of_vif(it: &VifSpec) -> String {
    let space = space_of(it);
    let space = Some(if space == PUBLIC_NAME { raw::Space::Name(space) } else { raw::Space::Id(i64::from(it.vif.space.0)) });
    write(&VifBody { space, mac: it.vif.mac.to_string(), addresses: strings(&it.addresses) })
}

pub(super) fn of_router(it: &Router) -> String {
    let interfaces = it.interfaces.iter().map(|it| raw::Interface {
        space: i64::from(it.space.0),
        mac: it.mac.to_string(),
        address: address_of(it),
    });
    let route = it.routes.iter().map(|it| RouteBody { to: it.to.to_string(), via: it.via.to_string() });
    let rule = it.rules.iter().map(|it| {
        let mut keys: BTreeMap<&str, String> = keys_of(it).into_iter().collect();
        let mut take = |key| keys.remove(key);
        let number = |text: String| match text.parse() {
            Ok(number) => raw::NumberOrName::Number(number),
            Err(_) => raw::NumberOrName::Name(text),
        };
        RuleBody {
            action: take("action").unwrap_or_default(),
            protocol: take("protocol").map(number),
            from: take("from"),
            to: take("to"),
            port: take("port").map(number),
        }
    });
    write(&RouterBody { interfaces: interfaces.collect(), route: route.collect(), rule: rule.collect() })
}

/// Reads a body.
pub(super) fn read<T: for<'de> Deserialize<'de>>(name: &Name, body: &str) -> Result<T, TenantsError> {
    let wrong = |e: toml::de::Error| TenantsError::Bad { table: name.described(), problem: e.to_string().trim_end().to_owned() };
    toml::from_str(body).map_err(wrong)
}

pub(super) fn write(body: &impl Serialize) -> String {
    toml::to_string(body).expect("a record is TOML")
}
