//! The answer to an agent that asks for tenants: what it may read of what it wants.

use std::collections::BTreeMap;

use super::super::check::check_name;
use super::body::{TenantBody, read};
use super::name::Name;
use super::plan::{Entries, Reads};
use crate::directory::PrincipalId;

/// A record in an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Its name.
    pub name: String,
    /// What is there.
    pub state: ListedState,
}

/// What is there of a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListedState {
    /// A record: its generation and body.
    Present(u64, String),
    /// Nothing.
    Absent,
    /// A tenant that the principal may not read.
    Forbidden,
}

/// Whether a tenant or a VIF can have these names.
pub fn are_names<'a>(tenant: &str, vifs: impl IntoIterator<Item = &'a str>) -> bool {
    let good = |name: &str| check_name("", name).is_ok();
    good(tenant) && vifs.into_iter().all(good)
}

/// What is to be read for an answer about these tenants and VIFs of theirs.
pub fn reads_of<'a>(wanted: impl IntoIterator<Item = (&'a str, &'a [&'a str])>) -> Reads {
    let mut reads = Reads { names: vec![Name::Site.to_string()], prefixes: Vec::new() };
    for (tenant, vifs) in wanted {
        reads.names.push(format!("t/{tenant}"));
        reads.prefixes.push((format!("r/{tenant}/"), usize::MAX));
        reads.names.extend(vifs.iter().map(|vif| format!("v/{tenant}/{vif}")));
    }
    reads
}

/// The answer, from what was read; and whether the store has records at all. `reads_all`: the principal may read every tenant.
pub fn answer(reads: &Reads, entries: Entries, principal: PrincipalId, reads_all: bool) -> (bool, Vec<Listed>) {
    let mut found: BTreeMap<String, (u64, String)> =
        entries.found.into_iter().map(|it| (it.name, (it.generation, it.body))).collect();
    let has_records = found.contains_key(&Name::Site.to_string());
    let mut may_read = BTreeMap::new();
    for name in reads.names.iter().filter_map(|name| name.parse::<Name>().ok()) {
        if let Name::Tenant(tenant) = &name
            && let Some((_, body)) = found.get(&name.to_string())
        {
            let readers = read::<TenantBody>(&name, body).map_or(Some(Vec::new()), |it| it.readers);
            let is_reader = readers.is_none_or(|readers| readers.contains(&i64::from(principal.0)));
            may_read.insert(tenant.clone(), reads_all || is_reader);
        }
    }
    let mut names: Vec<String> = reads.names.clone();
    let prefixes = |name: &String| reads.prefixes.iter().any(|(prefix, _)| name.starts_with(prefix));
    names.extend(found.keys().filter(|name| prefixes(name)).cloned());
    let mut listed = Vec::new();
    for name in names {
        let parsed = name.parse::<Name>();
        let tenant = parsed.as_ref().ok().and_then(|it| it.tenant()).unwrap_or_default();
        let state = match may_read.get(tenant) {
            Some(false) if matches!(parsed, Ok(Name::Tenant(_))) => ListedState::Forbidden,
            Some(false) => continue,
            _ => found.remove(&name).map_or(ListedState::Absent, |(generation, body)| ListedState::Present(generation, body)),
        };
        listed.push(Listed { name, state });
    }
    (has_records, listed)
}
