//! What a change needs to know of the store, and what it writes there: or why it cannot be.
//!
//! ```text
//!   ops --> entries that are known? --no--> read them
//!             | yes
//!             v
//!           each tenant as it would be --check--> bodies in one form --> addresses that are taken or let go --> checks and writes, all or none
//! ```
//! Everything that a decision depended on is checked again by the store when it writes, so two servers cannot decide against each other. Three things
//! cannot be checked by looking at entries that are there: that a tenant has no VIF (it is `closing` first, and takes none from then on), that it has no
//! other router (`l/TENANT` changes with each), that no VIF is in a MAC space (a space is never taken from a tenant).

use std::collections::{BTreeMap, BTreeSet};

use weft_fabric::TenantId;

use super::super::check::build;
use super::super::{Tenants, TenantsError, raw};
use super::MAX_BODY;
use super::body::{TenantBody, add, index, of_router, of_tenant, of_vif, read, write};
use super::name::Name;

/// Entries that one change may read again or write: what etcd takes in a transaction.
pub const MAX_KEYS: usize = 120;

/// A change of one record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Op {
    /// Which.
    pub name: Name,
    /// The generation that it must have; 0: there must be none; `None`: any.
    pub expect: Option<u64>,
    /// Its body from now on; `None`: it is removed.
    pub body: Option<String>,
}

impl Op {
    fn removes_tenant(&self) -> bool {
        matches!(self.name, Name::Tenant(_)) && self.body.is_none()
    }
}

/// What became of a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// All of it is durable, since this revision of the store.
    Committed(u64),
    /// A record has another generation than expected: the number of the op, and the generation. Nothing was changed.
    Conflict(usize, u64),
    /// The records would contradict each other: the number of the op, and what is wrong. Nothing was changed.
    Invalid(usize, String),
    /// Others changed the same again and again. Nothing was changed.
    Busy,
    /// The store does not answer: it may have been applied.
    Unknown,
}

/// What is to be read of the store, at one revision.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reads {
    /// These entries.
    pub names: Vec<String>,
    /// All whose names begin so, as many as this at most.
    pub prefixes: Vec<(String, usize)>,
}

/// An entry of the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Its name.
    pub name: String,
    /// The revision that wrote it.
    pub generation: u64,
    /// Its bytes, which are text.
    pub body: String,
}

/// What was read. What is not there is left out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Entries {
    /// The store's revision.
    pub revision: u64,
    /// In no particular order.
    pub found: Vec<Found>,
}

/// What is written, if all that it depends on still is as it was.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Entries and the generations that they must have; 0: absent.
    pub checks: Vec<(String, u64)>,
    /// Entries and their new bytes; `None`: removed.
    pub writes: Vec<(String, Option<String>)>,
}

/// Why there is no plan (yet).
#[derive(Debug)]
pub(super) enum Halt {
    Need(Reads),
    Done(Outcome),
}

/// What is known of the store.
#[derive(Debug, Default)]
pub(super) struct Known {
    entries: BTreeMap<String, Option<(u64, String)>>,
    /// With how many entries were asked for.
    prefixes: BTreeMap<String, usize>,
    /// That of the last reading.
    pub revision: u64,
    /// Whether an earlier reading had another.
    pub is_mixed: bool,
}

impl Known {
    pub fn learn(&mut self, reads: Reads, entries: Entries) {
        self.is_mixed |= !self.entries.is_empty() && self.revision != entries.revision;
        self.entries.extend(reads.names.into_iter().map(|name| (name, None)));
        self.prefixes.extend(reads.prefixes);
        self.revision = entries.revision;
        self.entries.extend(entries.found.into_iter().map(|it| (it.name, Some((it.generation, it.body)))));
    }

    /// All that was read, to be read again.
    pub fn reads(&self) -> Reads {
        let prefixes: Vec<(String, usize)> = self.prefixes.iter().map(|(prefix, &most)| (prefix.clone(), most)).collect();
        let is_listed = |name: &str| prefixes.iter().any(|(prefix, _)| name.starts_with(prefix));
        let names = self.entries.keys().filter(|name| !is_listed(name)).cloned().collect();
        Reads { names, prefixes }
    }

    fn get(&self, name: &str) -> Option<&(u64, String)> {
        self.entries.get(name).and_then(Option::as_ref)
    }

    fn generation(&self, name: &str) -> u64 {
        self.get(name).map_or(0, |(generation, _)| *generation)
    }

    fn below<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> {
        let from = self.entries.range(prefix.to_owned()..).take_while(move |(name, _)| name.starts_with(prefix));
        from.filter_map(|(name, it)| Some((name.as_str(), it.as_ref()?.1.as_str())))
    }

    /// What of these is not known.
    fn lacks(&self, mut reads: Reads) -> Reads {
        reads.names.sort_unstable();
        reads.names.dedup();
        reads.names.retain(|name| !self.entries.contains_key(name));
        reads.prefixes.retain(|(prefix, _)| !self.prefixes.contains_key(prefix));
        reads
    }
}

/// The ops of one tenant, by their numbers.
type Group<'a> = Vec<(usize, &'a Op)>;

/// A plan in the making.
#[derive(Default)]
struct Draft {
    checks: BTreeMap<String, u64>,
    writes: BTreeMap<String, Option<String>>,
    /// Addresses that a record has from now on: by which op.
    takes: BTreeMap<String, (usize, Name)>,
    /// Those that it had.
    frees: BTreeSet<String>,
}

/// The plan of a change, if all that it depends on is known.
pub(super) fn plan(ops: &[Op], known: &Known) -> Result<Plan, Halt> {
    let groups = groups(ops)?;
    need(known, first_reads(ops, &groups))?;
    for (at, op) in ops.iter().enumerate() {
        let held = known.generation(&op.name.to_string());
        if op.expect.is_some_and(|expect| expect != held) {
            return Err(Halt::Done(Outcome::Conflict(at, held)));
        }
    }
    let mut draft = Draft::default();
    for (at, op) in ops.iter().enumerate().filter(|(_, op)| op.name == Name::Site) {
        let body = op.body.as_ref().ok_or_else(|| invalid(at, "the site's record stays"))?;
        let service = build_of(at, [(&op.name, body.as_str())])?.service;
        draft.put(known, &op.name, write(&super::body::SiteBody { service: i64::from(service.0) }));
    }
    // Tenants that are removed come first: another may have their id.
    let (removed, others): (Vec<_>, Vec<_>) =
        groups.iter().partition(|(_, group)| group.iter().any(|(_, op)| op.removes_tenant()));
    for (tenant, group) in removed.into_iter().chain(others) {
        plan_tenant(known, tenant, group, &mut draft)?;
    }
    draft.finish(known)
}

fn groups(ops: &[Op]) -> Result<BTreeMap<&str, Group<'_>>, Halt> {
    let mut names = BTreeSet::new();
    let mut groups: BTreeMap<&str, Group<'_>> = BTreeMap::new();
    for (at, op) in ops.iter().enumerate() {
        if !names.insert(&op.name) {
            return Err(invalid(at, format!("{} is changed twice at once", op.name.described())));
        }
        if op.body.as_ref().is_some_and(|body| body.len() > MAX_BODY) {
            return Err(invalid(at, format!("{} has more than {MAX_BODY} bytes", op.name.described())));
        }
        if let Some(tenant) = op.name.tenant() {
            groups.entry(tenant).or_default().push((at, op));
        }
    }
    Ok(groups)
}

/// What can be known to be needed from the ops alone.
fn first_reads(ops: &[Op], groups: &BTreeMap<&str, Group<'_>>) -> Reads {
    let mut reads = Reads { names: ops.iter().map(|op| op.name.to_string()).collect(), prefixes: Vec::new() };
    for (tenant, group) in groups {
        reads.names.push(format!("t/{tenant}"));
        if group.iter().any(|(_, op)| !matches!(op.name, Name::Vif(..))) {
            reads.names.push(format!("l/{tenant}"));
            reads.prefixes.push((format!("r/{tenant}/"), usize::MAX));
        }
        if group.iter().any(|(_, op)| op.removes_tenant()) {
            reads.prefixes.push((format!("v/{tenant}/"), 1));
        }
    }
    reads
}

fn plan_tenant(known: &Known, tenant: &str, group: &Group<'_>, draft: &mut Draft) -> Result<(), Halt> {
    let name = Name::Tenant(tenant.to_owned());
    let key = name.to_string();
    let first = group[0].0;
    let own = group.iter().find(|(_, op)| op.name == name);
    let before = known.get(&key).map(|(_, body)| read::<TenantBody>(&name, body)).transpose().map_err(|e| wrong(first, &e))?;
    draft.checks.insert(key, known.generation(&name.to_string()));
    if let Some(&(at, Op { body: None, .. })) = own {
        return remove_tenant(known, tenant, before, (at, group.len()), draft);
    }
    let mut raw = raw::File { version: 1, ..raw::File::default() };
    let head = match (own, known.get(&name.to_string())) {
        (Some((_, op)), _) => op.body.as_deref().unwrap_or_default(),
        (None, Some((_, body))) => body.as_str(),
        (None, None) => return Err(invalid(first, format!("{}: there is no tenant `{tenant}`", group[0].1.name.described()))),
    };
    let mut closing = read::<TenantBody>(&name, head).map_err(|e| wrong(first, &e))?.closing;
    closing |= before.as_ref().is_some_and(|it| it.closing);
    let puts = group.iter().find(|(_, op)| op.body.is_some() && op.name != name);
    if let Some((at, op)) = puts.filter(|_| closing) {
        return Err(invalid(*at, format!("{}: tenant `{tenant}` is being removed", op.name.described())));
    }
    add(&mut raw, &name, head).map_err(|e| wrong(first, &e))?;
    let is_routing = group.iter().any(|(_, op)| !matches!(op.name, Name::Vif(..)));
    if is_routing {
        for (key, body) in
            known.below(&format!("r/{tenant}/")).filter(|(key, _)| group.iter().all(|(_, op)| op.name.to_string() != *key))
        {
            let Ok(name) = key.parse() else { continue };
            add(&mut raw, &name, body).map_err(|e| wrong(first, &e))?;
        }
        let lock = format!("l/{tenant}");
        draft.checks.insert(lock.clone(), known.generation(&lock));
        draft.writes.insert(lock, Some(String::new()));
    }
    for (at, op) in group.iter().filter(|(_, op)| op.name != name) {
        if let Some(body) = &op.body {
            add(&mut raw, &op.name, body).map_err(|e| wrong(*at, &e))?;
        }
    }
    let all = build(raw).map_err(|e| wrong(blamed(group, &e), &e))?;
    let built = all.tenants.values().next().ok_or_else(|| invalid(first, "no tenant"))?;
    if let Some(&(at, _)) = own {
        check_head(known, at, tenant, before.as_ref(), built, draft)?;
        draft.put(known, &name, of_tenant(built, closing));
    }
    let vifs: BTreeMap<&str, String> = built.vifs.iter().map(|it| (it.name.as_str(), of_vif(it))).collect();
    let routers: BTreeMap<&str, String> = built.routers.iter().map(|it| (it.name.as_str(), of_router(it))).collect();
    for &(at, op) in group.iter().filter(|(_, op)| op.name != name) {
        let body = match &op.name {
            Name::Vif(_, vif) => vifs.get(vif.as_str()),
            Name::Router(_, router) => routers.get(router.as_str()),
            Name::Site | Name::Tenant(_) => None,
        };
        if body.is_some_and(|body| body.len() > MAX_BODY) {
            return Err(invalid(at, format!("{} has more than {MAX_BODY} bytes", op.name.described())));
        }
        draft.change(known, built.id, at, &op.name, body.filter(|_| op.body.is_some()).cloned())?;
    }
    Ok(())
}

/// What of a tenant itself may change.
fn check_head(
    known: &Known,
    at: usize,
    tenant: &str,
    before: Option<&TenantBody>,
    built: &super::super::Tenant,
    draft: &mut Draft,
) -> Result<(), Halt> {
    if let Some(before) = before {
        if before.id != i64::from(built.id.0) {
            return Err(invalid(at, format!("tenant `{tenant}` has id {}, which cannot change", before.id)));
        }
        let gone = before.spaces.iter().flatten().find(|&&space| built.spaces.iter().all(|it| i64::from(it.0) != space));
        if let Some(space) = gone {
            return Err(invalid(
                at,
                format!("tenant `{tenant}` has MAC space {space}, which cannot be taken from it: list it too"),
            ));
        }
        return Ok(());
    }
    let key = format!("i/{}", built.id.0);
    need(known, Reads { names: vec![key.clone()], prefixes: Vec::new() })?;
    let held = match draft.writes.insert(key.clone(), Some(tenant.to_owned())) {
        Some(other) => other,
        None => known.get(&key).map(|(_, other)| other.clone()),
    };
    if let Some(other) = held.filter(|other| other != tenant) {
        return Err(invalid(at, format!("tenant `{tenant}`: id {} is `{other}`'s already", built.id.0)));
    }
    draft.checks.insert(key.clone(), known.generation(&key));
    Ok(())
}

fn remove_tenant(
    known: &Known,
    tenant: &str,
    before: Option<TenantBody>,
    (at, ops): (usize, usize),
    draft: &mut Draft,
) -> Result<(), Halt> {
    if ops > 1 {
        return Err(invalid(at, format!("tenant `{tenant}` is removed and changed at once")));
    }
    let Some(before) = before else { return Ok(()) };
    let lock = format!("l/{tenant}");
    let (vifs, routers) = (format!("v/{tenant}/"), format!("r/{tenant}/"));
    let left = known.below(&vifs).chain(known.below(&routers)).next();
    let left = left.and_then(|(name, _)| name.parse::<Name>().ok()).map(|name| name.described());
    if !before.closing || left.is_some() {
        let left = left.unwrap_or_else(|| "it is not closed".to_owned());
        return Err(invalid(
            at,
            format!("tenant `{tenant}` is not empty ({left}): `weft tenant remove` removes what it has, and then it"),
        ));
    }
    draft.checks.insert(lock.clone(), known.generation(&lock));
    for key in [format!("t/{tenant}"), format!("i/{}", before.id), lock] {
        draft.writes.insert(key, None);
    }
    Ok(())
}

impl Draft {
    /// A record of this body, which has the store's form.
    fn put(&mut self, known: &Known, name: &Name, body: String) {
        let key = name.to_string();
        self.checks.insert(key.clone(), known.generation(&key));
        if known.get(&key).is_none_or(|(_, held)| *held != body) {
            self.writes.insert(key, Some(body));
        }
    }

    /// A VIF or a router, with what it takes and frees.
    fn change(&mut self, known: &Known, id: TenantId, at: usize, name: &Name, body: Option<String>) -> Result<(), Halt> {
        let key = name.to_string();
        let of = |body: &str| index(id, name, body).map_err(|e| wrong(at, &e));
        let had = known.get(&key).map(|(_, body)| of(body)).transpose()?.unwrap_or_default();
        let has = body.as_deref().map(of).transpose()?.unwrap_or_default();
        self.frees.extend(had.iter().filter(|it| !has.contains(it)).cloned());
        for it in has.into_iter().filter(|it| !had.contains(it)) {
            if let Some((_, other)) = self.takes.insert(it.clone(), (at, name.clone())) {
                return Err(invalid(at, taken(&it, name, &other.described())));
            }
        }
        match body {
            Some(body) => self.put(known, name, body),
            None => {
                self.checks.insert(key.clone(), known.generation(&key));
                if known.get(&key).is_some() {
                    self.writes.insert(key, None);
                }
            }
        }
        Ok(())
    }

    fn finish(mut self, known: &Known) -> Result<Plan, Halt> {
        need(known, Reads { names: self.takes.keys().cloned().collect(), prefixes: Vec::new() })?;
        for (key, (at, name)) in &self.takes {
            // Its own: what was read is of two revisions, and the commit's checks find that out.
            let owner = known.get(key).filter(|(_, owner)| !self.frees.contains(key) && *owner != name.to_string());
            if let Some((_, owner)) = owner {
                let other = owner.parse::<Name>().map_or_else(|_| owner.clone(), |it| it.described());
                return Err(invalid(*at, taken(key, name, &other)));
            }
            self.checks.insert(key.clone(), known.generation(key));
            self.writes.insert(key.clone(), Some(name.to_string()));
        }
        for key in self.frees.difference(&self.takes.keys().cloned().collect()) {
            self.writes.insert(key.clone(), None);
        }
        // The lock of a tenant whose routers stay as they are is not written.
        let real = self.writes.iter().any(|(key, _)| !key.starts_with("l/"));
        if !real {
            self.writes.clear();
        }
        let keys = self.checks.len().max(self.writes.len());
        if keys > MAX_KEYS {
            let why = format!("{keys} records and addresses at once: at most {MAX_KEYS}; change less at once");
            return Err(invalid(0, why));
        }
        Ok(Plan { checks: self.checks.into_iter().collect(), writes: self.writes.into_iter().collect() })
    }
}

fn need(known: &Known, reads: Reads) -> Result<(), Halt> {
    let lacking = known.lacks(reads);
    if lacking == Reads::default() { Ok(()) } else { Err(Halt::Need(lacking)) }
}

fn build_of<'a>(at: usize, records: impl IntoIterator<Item = (&'a Name, &'a str)>) -> Result<Tenants, Halt> {
    super::body::tenants_of(1, records).map_err(|e| wrong(at, &e))
}

fn invalid(at: usize, why: impl Into<String>) -> Halt {
    Halt::Done(Outcome::Invalid(at, why.into()))
}

fn wrong(at: usize, error: &TenantsError) -> Halt {
    invalid(at, error.to_string())
}

/// The op that an error names, or the first.
fn blamed(group: &Group<'_>, error: &TenantsError) -> usize {
    let TenantsError::Bad { table, .. } = error else { return group[0].0 };
    group.iter().find(|(_, op)| op.name.described() == *table).map_or(group[0].0, |(at, _)| *at)
}

/// The file's words for an address that another record has: `m/17/1/02:00:00:00:00:01`.
fn taken(key: &str, name: &Name, other: &str) -> String {
    let mut parts = key.splitn(4, '/');
    let kind = if parts.next() == Some("m") { "MAC address" } else { "address" };
    let (space, address) = (parts.nth(1).unwrap_or_default(), parts.next().unwrap_or_default());
    format!("{}: {kind} {address} is {other}'s already in MAC space {space}", name.described())
}
