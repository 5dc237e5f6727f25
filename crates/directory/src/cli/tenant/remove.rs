//! `remove`, `remove-vm`, `unroute`: of the file, or of the store's records.

use clap::Args;
use weft_control::netlord::tenants::{self, Table, Tenants};
use weft_control::prefix::Prefix;

use super::edit::ChangedJson;
use super::place::{self, Place};
use super::records;
use super::show;
use crate::cli::connect::ConnectArgs;
use crate::cli::error::{Error, Result};

#[derive(Debug, Args)]
pub struct RemoveArgs {
    /// Name of the tenant
    tenant: String,
    #[command(flatten)]
    place: Place,
    #[command(flatten)]
    connect: ConnectArgs,
}

#[derive(Debug, Args)]
pub struct RemoveVmArgs {
    /// Name of the tenant
    tenant: String,
    /// Name of the interface
    name: String,
    #[command(flatten)]
    place: Place,
    #[command(flatten)]
    connect: ConnectArgs,
}

#[derive(Debug, Args)]
pub struct UnrouteArgs {
    /// Name of the tenant
    tenant: String,
    /// Name of the virtual router; without `--to` and `--rule` all of it is removed
    router: String,
    /// Remove the route to this prefix
    #[arg(long, value_name = "PREFIX")]
    to: Option<Prefix>,
    /// Remove the first rule with this text, as printed by `show`
    #[arg(long, value_name = "RULE")]
    rule: Option<String>,
    #[command(flatten)]
    place: Place,
    #[command(flatten)]
    connect: ConnectArgs,
}

/// Removes a tenant.
pub fn remove(args: &RemoveArgs) -> Result<bool> {
    let mut opened = args.place.open(&args.connect, &args.tenant, None)?;
    let before = opened.read()?;
    opened.tenant(&before)?;
    let text = format!("`{}` is removed", args.tenant);
    if args.place.is_store() {
        let removed = records::remove_tenant(&mut args.connect.client()?, &args.tenant)?;
        opened.read()?;
        return ChangedJson::of(opened.unchanged(&before), &args.tenant)
            .print(&format!("{text}, {removed} records"), args.connect.json);
    }
    let (_, written) = opened.change(false, |text| Ok(tenants::without(text, |table| table.tenant() == args.tenant)))?;
    ChangedJson::of(written, &args.tenant).print(&text, args.connect.json)
}

/// Removes a VIF.
pub fn remove_vm(args: &RemoveVmArgs) -> Result<bool> {
    let (tenant, name) = (args.tenant.as_str(), args.name.as_str());
    let mut opened = args.place.open(&args.connect, tenant, Some(name))?;
    let all = opened.read()?;
    let vif = opened.tenant(&all)?.vifs.iter().find(|it| it.name == name).map(|it| it.vif.to_string());
    let vif = vif.ok_or_else(|| Error::NothingOf { tenant: tenant.to_owned(), what: format!("interface `{name}`") })?;
    let (_, written) = opened.change(false, |text| Ok(tenants::without(text, |table| table == Table::Vif(tenant, name))))?;
    let mut changed = ChangedJson::of(written, tenant);
    let text = format!("{vif}, `{name}` of `{tenant}`, is removed");
    changed.vif = Some(vif);
    changed.print(&text, args.connect.json)
}

/// Removes a router, or a route or a rule of its.
pub fn unroute(args: &UnrouteArgs) -> Result<bool> {
    let (tenant, router) = (args.tenant.as_str(), args.router.as_str());
    let mut opened = args.place.open(&args.connect, tenant, None)?;
    let (path, is_store) = (opened.described(), opened.is_store());
    let rule = args.rule.as_ref().map(|rule| rule.split_whitespace().collect::<Vec<_>>().join(" "));
    let absent = |what: String| Error::NothingOf { tenant: tenant.to_owned(), what };
    let (_, written) = opened.change(false, |text| {
        let before = Tenants::parse(text).map_err(|e| Error::Tenants(e.to_string()))?;
        let it = place::tenant(&before, &path, is_store, tenant)?.routers.iter().find(|it| it.name == router);
        let it = it.ok_or_else(|| absent(format!("virtual router `{router}`")))?;
        if let Some(to) = args.to.filter(|to| it.routes.iter().all(|route| route.to != *to)) {
            return Err(absent(format!("route to {to} in `{router}`")));
        }
        let of_rule = |rule: &String| {
            let at = it.rules.iter().position(|other| show::rule(other) == *rule);
            at.ok_or_else(|| absent(format!("rule \"{rule}\" in `{router}`")))
        };
        let doomed_rule = rule.as_ref().map(of_rule).transpose()?;
        let is_whole = args.to.is_none() && doomed_rule.is_none();
        let mut rules = 0;
        Ok(tenants::without(text, |table| match table {
            Table::Router(of, name) => is_whole && (of, name) == (tenant, router),
            Table::Route(of, name, to) => (of, name) == (tenant, router) && (is_whole || (to.is_some() && to == args.to)),
            Table::Rule(of, name) if (of, name) == (tenant, router) => {
                rules += 1;
                is_whole || doomed_rule == Some(rules - 1)
            }
            _ => false,
        }))
    })?;
    let mut changed = ChangedJson::of(written, tenant);
    changed.router = Some(router.to_owned());
    let what = match (args.to, &rule) {
        (None, None) => format!("`{router}` of `{tenant}` is removed"),
        _ => format!("`{router}` of `{tenant}` has lost what was named"),
    };
    changed.print(&what, args.connect.json)
}
