//! Tenants of an inventory: as the tenants' file has them, with the lines of the inventory.

use std::collections::BTreeMap;
use std::ops::Range;

use toml::Spanned;
use weft_control::netlord::tenants::{Tenants, TenantsError};
use weft_fabric::{BitsPerSec, Bytes};

use crate::cli::deploy::error::Result;
use crate::cli::deploy::netlord::inventory::{Netlord, Tenant};
use crate::cli::deploy::netlord::tenants::{tenants, with_rules};
use crate::cli::deploy::validate::{Check, list};

/// Tables of the tenants' file by the names that its errors give them: where each begins, and its values.
type Tables<'a> = BTreeMap<String, (Range<usize>, Vec<&'a Spanned<String>>)>;

impl Check<'_> {
    /// What tenants may send.
    pub(super) fn tenant_limits(&self, netlord: &Netlord) -> Result<()> {
        for tenant in &netlord.tenant {
            for reader in tenant.readers.iter().flatten() {
                let host = self.host_of(netlord, reader)?;
                if host.principal.is_none() {
                    let message = format!("host {} has no principal", reader.get_ref());
                    return self.wrong(reader.span(), &message, "add `principal` there: it identifies a reader");
                }
            }
            self.rate(tenant)?;
        }
        Ok(())
    }

    fn rate(&self, tenant: &Tenant) -> Result<()> {
        let name = tenant.name.get_ref();
        if let Some(burst) = &tenant.burst {
            if tenant.rate.is_none() {
                return self.wrong(
                    burst.span(),
                    &format!("tenant {name} has a burst and no rate"),
                    "add `rate`, or remove `burst`",
                );
            }
            match burst.get_ref().parse::<Bytes>() {
                Ok(Bytes(0)) => {
                    return self.wrong(
                        burst.span(),
                        "a burst of 0 lets nothing pass",
                        "leave `burst` out, or write such as \"100kB\"",
                    );
                }
                Ok(_) => {}
                Err(error) => return self.wrong(burst.span(), &error.to_string(), "write such as \"100kB\""),
            }
        }
        let Some(rate) = &tenant.rate else { return Ok(()) };
        if tenant.deny {
            return self.wrong(
                rate.span(),
                &format!("tenant {name} may send nothing, and has a rate"),
                "remove `deny`, or `rate`",
            );
        }
        match rate.get_ref().parse::<BitsPerSec>() {
            Ok(BitsPerSec(0..8)) => {
                let help = "write deny = true for a tenant that may send nothing; or leave `rate` out: it is not limited";
                self.wrong(rate.span(), &format!("the rate of tenant {name} is less than a byte per second"), help)
            }
            Ok(_) => Ok(()),
            Err(error) => self.wrong(rate.span(), &error.to_string(), "write such as \"100Mbps\""),
        }
    }

    /// All of them, as agents read them.
    pub(super) fn tenants(&self, netlord: &Netlord) -> Result<Tenants> {
        tenants(self.it, netlord).or_else(|error| match &error {
            TenantsError::Bad { table, problem } => self.bad_table(netlord, table, problem),
            TenantsError::Loop { tenant, .. } => {
                let route = netlord.route.iter().rfind(|it| it.tenant.get_ref() == tenant);
                self.wrong(route.map_or(0..0, |it| it.to.span()), &error.to_string(), "docs/tenants.md has an example")
            }
            TenantsError::Syntax(_) => {
                self.wrong(self.it.place_of_netlord(), &error.to_string(), "docs/tenants.md has every key")
            }
        })
    }

    /// The table that the tenants' file would be refused for, in the inventory.
    fn bad_table<T>(&self, netlord: &Netlord, table: &str, problem: &str) -> Result<T> {
        let all = tables(netlord);
        let (start, values) = match self.bad_rule(netlord, table) {
            Some(rule) => rule,
            None => all.get(table).cloned().unwrap_or_else(|| (self.it.place_of_netlord(), Vec::new())),
        };
        let lower = problem.to_lowercase();
        let is_named = |it: &&&Spanned<String>| !it.get_ref().is_empty() && lower.contains(&it.get_ref().to_lowercase());
        let at = values.iter().find(is_named).map_or(start, |it| it.span());
        let problem = self.with_line(problem, &all);
        let help = if problem.contains("there is no tenant") {
            format!(
                "add [[netlord.tenant]] of that name, or name one of: {}",
                list(netlord.tenant.iter().map(|it| it.name.get_ref()))
            )
        } else if problem.contains(" too in ") || problem.contains("already") || problem.contains("twice") {
            "give each its own, or remove one".to_owned()
        } else {
            "docs/tenants.md#the-tenants-file has what it may be".to_owned()
        };
        self.wrong(at, &format!("{table}: {problem}"), &help)
    }

    /// With the line of the other table, where two have the same.
    fn with_line(&self, problem: &str, all: &Tables<'_>) -> String {
        let other = all.iter().find(|(table, _)| problem.contains(&format!("{table}'s already")));
        other.map_or_else(
            || problem.to_owned(),
            |(table, (start, _))| {
                let line = self.place.line(start.clone());
                problem.replace(&format!("{table}'s already"), &format!("that of {table} (line {line}) too"))
            },
        )
    }

    /// Rules of a router have one name: the first of them that is refused by itself.
    fn bad_rule<'a>(&self, netlord: &'a Netlord, table: &str) -> Option<(Range<usize>, Vec<&'a Spanned<String>>)> {
        let is_bad = |at: &usize| {
            let rule = std::slice::from_ref(&netlord.rule[*at]);
            matches!(with_rules(self.it, netlord, rule), Err(TenantsError::Bad { table: other, .. }) if other == *table)
        };
        let is_rule = table.starts_with("rule of ");
        let rule = &netlord.rule[(0..netlord.rule.len()).filter(|_| is_rule).find(is_bad)?];
        let values = [&rule.from, &rule.to].into_iter().flatten().chain([&rule.action, &rule.router, &rule.tenant]);
        Some((rule.action.span(), values.collect()))
    }
}

/// Tables of all kinds but rules; of two with one name the second. The values that are most likely to be wrong come first.
fn tables(netlord: &Netlord) -> Tables<'_> {
    let mut all = Tables::new();
    for it in &netlord.tenant {
        all.insert(format!("tenant `{}`", it.name.get_ref()), (it.name.span(), Vec::new()));
    }
    for it in &netlord.router {
        let interfaces = it.interfaces.iter().flat_map(|it| [&it.address, &it.mac]);
        let name = format!("router `{}` of `{}`", it.name.get_ref(), it.tenant.get_ref());
        all.insert(name, (it.name.span(), interfaces.chain([&it.tenant]).collect()));
    }
    for it in &netlord.vif {
        let name = format!("vif `{}` of `{}`", it.name.get_ref(), it.tenant.get_ref());
        all.insert(name, (it.name.span(), it.addresses.iter().chain([&it.mac, &it.tenant]).collect()));
    }
    for it in &netlord.route {
        let (to, router, tenant) = (it.to.get_ref(), it.router.get_ref(), it.tenant.get_ref());
        let name = format!("route to {to} of router `{router}` of `{tenant}`");
        all.insert(name, (it.to.span(), vec![&it.via, &it.router, &it.tenant]));
    }
    all
}
