//! Tenants' records from the command line: read page by page, changed by the difference of two files, brought to what a file has.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use weft_control::netlord::tenants::records::{ListedState, MAX_KEYS, Name, Op, Outcome, records_of, tenants_of};
use weft_control::netlord::tenants::{DOCUMENT, Tenants, TenantsError};
use weft_control::wire::directory::RecordsState;

use crate::cli::error::{Error, Result};
use crate::client::{AmendResult, Client, Fetched, Settings};

/// Records: of each the generation and the body.
pub(in crate::cli) type Held = BTreeMap<Name, (u64, String)>;

/// All records whose names begin with `prefix`, page by page; the store's last revision.
pub(in crate::cli) fn each(
    client: &mut Client,
    prefix: &str,
    mut take: impl FnMut(Name, u64, String) -> Result<()>,
) -> Result<u64> {
    let mut after = String::new();
    loop {
        let (page, server) = client.browse(prefix, &after, u16::MAX)?;
        refuse(page.state, server)?;
        for it in page.listed {
            after.clone_from(&it.name);
            let ListedState::Present(generation, body) = it.state else { continue };
            let name = it.name.parse::<Name>().map_err(|error| Error::Records(error.to_string()))?;
            take(name, generation, body)?;
        }
        if !page.more {
            return Ok(page.revision);
        }
    }
}

/// All records, as they would be in one file. What changes while they are read may leave pieces that do not fit: then they are read again.
pub(in crate::cli) fn read_all(client: &mut Client) -> Result<(u64, Held)> {
    let mut last = None;
    for _ in 0..TRIES {
        let (mut held, mut revision) = (Held::new(), 0);
        for prefix in ["v/", "r/", "t/", "site"] {
            revision = each(client, prefix, |name, generation, body| {
                held.insert(name, (generation, body));
                Ok(())
            })?;
        }
        keep_whole(&mut held);
        match tenants_of(1, bodies(&held)) {
            Ok(_) => return Ok((revision, held)),
            Err(error) => last = Some(error),
        }
    }
    Err(last.map_or(Error::NoRecords, |error| Error::Records(error.to_string())))
}

fn bodies(held: &Held) -> impl Iterator<Item = (&Name, &str)> {
    held.iter().map(|(name, (_, body))| (name, body.as_str()))
}

/// Without what is of a tenant that is not there: it was made after the tenants were read.
pub(super) fn keep_whole(held: &mut Held) {
    let tenants: BTreeSet<String> =
        held.keys().filter_map(|name| if let Name::Tenant(tenant) = name { Some(tenant.clone()) } else { None }).collect();
    held.retain(|name, _| name.tenant().is_none_or(|tenant| tenants.contains(tenant)));
}

/// Which of a tenant's VIFs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Vifs<'a> {
    None,
    One(&'a str),
    All,
}

/// A tenant with its routers, and VIFs of its; and the site.
pub(super) fn read_tenant(client: &mut Client, tenant: &str, vifs: Vifs<'_>) -> Result<(u64, Held)> {
    let mut held = Held::new();
    let mut revision = 0;
    let names = [Name::Site, Name::Tenant(tenant.to_owned())].into_iter();
    let vif = if let Vifs::One(vif) = vifs { Some(Name::Vif(tenant.to_owned(), vif.to_owned())) } else { None };
    for name in names.chain(vif) {
        if let Some(found) = read_one(client, &name)? {
            held.insert(name, found);
        }
    }
    let vifs = (vifs == Vifs::All).then(|| format!("v/{tenant}/"));
    for prefix in [format!("r/{tenant}/")].into_iter().chain(vifs) {
        revision = each(client, &prefix, |name, generation, body| {
            held.insert(name, (generation, body));
            Ok(())
        })?;
    }
    keep_whole(&mut held);
    Ok((revision, held))
}

/// One record.
fn read_one(client: &mut Client, name: &Name) -> Result<Option<(u64, String)>> {
    // The name itself comes before all others that begin so.
    let (name, mut found) = (name.to_string(), None);
    let (page, server) = client.browse(&name, "", 1)?;
    refuse(page.state, server)?;
    for it in page.listed.into_iter().filter(|it| it.name == name) {
        if let ListedState::Present(generation, body) = it.state {
            found = Some((generation, body));
        }
    }
    Ok(found)
}

fn refuse(state: RecordsState, server: String) -> Result<()> {
    match state {
        RecordsState::Refused => Err(Error::RecordsRefused(server)),
        RecordsState::Elsewhere => Err(Error::RecordsAway(server)),
        RecordsState::Found | RecordsState::None => Ok(()),
    }
}

/// The tenants of some records.
pub(super) fn build(version: u32, held: &Held) -> Result<Tenants> {
    tenants_of(version, bodies(held)).map_err(of_text)
}

fn of_text(error: TenantsError) -> Error {
    Error::Tenants(error.to_string())
}

/// Changes a tenant's records as the same edit changes a file's text; the tenants afterwards, and the revision. `vifs`: of which the edit
/// is, if of any.
pub(super) fn change(
    client: &mut Client,
    (tenant, vifs): (&str, Vifs<'_>),
    edit: impl Fn(&str) -> Result<String>,
) -> Result<(Tenants, u64)> {
    for _ in 0..TRIES {
        let (_, held) = read_tenant(client, tenant, vifs)?;
        if !held.contains_key(&Name::Site) {
            refuse_document(client)?;
        }
        let text = build(1, &held)?.to_text();
        let after = Tenants::parse(&edit(&text)?).map_err(of_text)?;
        let new = records_of(&after);
        let expect = |name: &Name| Some(held.get(name).map_or(0, |(generation, _)| *generation));
        let puts = new.iter().filter(|(name, body)| held.get(name).is_none_or(|(_, old)| old != *body));
        let puts = puts.map(|(name, body)| Op { name: name.clone(), expect: expect(name), body: Some(body.clone()) });
        let gone = held.keys().filter(|name| !new.contains_key(name));
        let ops: Vec<Op> = puts.chain(gone.map(|name| Op { name: name.clone(), expect: expect(name), body: None })).collect();
        if let Some(revision) = amend(client, &ops)? {
            return Ok((after, revision));
        }
    }
    Err(Error::RecordsBusy)
}

/// Where the tenants are a document, records would take its place unawares.
fn refuse_document(client: &mut Client) -> Result<()> {
    match client.document(DOCUMENT, 0)?.0 {
        Fetched::None => Ok(()),
        Fetched::Known | Fetched::Document { .. } => Err(Error::DocumentInUse),
    }
}

/// Changes records: the revision; `None` if one of them was changed by somebody else.
fn amend(client: &mut Client, ops: &[Op]) -> Result<Option<u64>> {
    if ops.is_empty() {
        return Ok(Some(0));
    }
    let (result, server) = client.amend(ops)?;
    match result {
        AmendResult::Refused => Err(Error::RecordsRefused(server)),
        AmendResult::Decided(Outcome::Committed(revision)) => Ok(Some(revision)),
        AmendResult::Decided(Outcome::Conflict(..) | Outcome::Busy) => Ok(None),
        AmendResult::Decided(Outcome::Invalid(_, why)) => Err(Error::Tenants(why)),
        AmendResult::Decided(Outcome::Unknown) => Err(Error::RecordsUnknown(server)),
    }
}

/// Removes a tenant with all it has: how many records. It is closed first, so that nothing is added while the rest goes.
pub(in crate::cli) fn remove_tenant(client: &mut Client, tenant: &str) -> Result<u64> {
    let name = Name::Tenant(tenant.to_owned());
    let closed = (0..TRIES).any_ok(|| {
        let Some((generation, body)) = read_one(client, &name)? else { return Ok(Some(())) };
        if body.contains("closing = true") {
            return Ok(Some(()));
        }
        let op = Op { name: name.clone(), expect: Some(generation), body: Some(body + "closing = true\n") };
        Ok(amend(client, &[op])?.map(|_| ()))
    })?;
    closed.ok_or(Error::RecordsBusy)?;
    let mut removed = 0;
    for prefix in [format!("v/{tenant}/"), format!("r/{tenant}/")] {
        let mut names = Vec::new();
        each(client, &prefix, |name, _, body| {
            names.push((name, body));
            Ok(())
        })?;
        for ops in batches(names.into_iter().map(|(name, body)| (Op { name, expect: None, body: None }, cost(&body)))) {
            removed += ops.len() as u64;
            amend(client, &ops)?.ok_or(Error::RecordsBusy)?;
        }
    }
    amend(client, &[Op { name, expect: None, body: None }])?.ok_or(Error::RecordsBusy)?;
    Ok(removed + 1)
}

/// What an import did, or would do.
#[derive(Debug, Default, PartialEq, Eq, serde::Serialize)]
pub(in crate::cli) struct Brought {
    records: usize,
    written: usize,
    unchanged: usize,
    deleted: usize,
}

impl Brought {
    /// For people.
    pub fn text(&self, dry_run: bool) -> String {
        let would = if dry_run { "would be " } else { "" };
        let Self { records, written, unchanged, deleted } = self;
        format!("{records} records: {written} {would}written, {unchanged} there already, {deleted} {would}deleted")
    }
}

/// Brings the store to these records; with `exact`, to no others. The first import shows only at its end, with the site's record.
pub(in crate::cli) fn bring(settings: &Settings, wanted: &BTreeMap<Name, String>, exact: bool, dry_run: bool) -> Result<Brought> {
    let mut client = Client::new(settings.clone())?;
    let mut held = Held::new();
    for prefix in ["site", "t/", "r/", "v/"] {
        each(&mut client, prefix, |name, generation, body| {
            held.insert(name, (generation, body));
            Ok(())
        })?;
    }
    let differs = |name: &Name, body: &String| held.get(name).is_none_or(|(_, old)| old != body);
    let changed: Vec<(&Name, &String)> = wanted.iter().filter(|(name, body)| differs(name, body)).collect();
    let gone: Vec<&Name> = held.keys().filter(|name| exact && !wanted.contains_key(name)).collect();
    let (written, deleted) = (changed.len(), gone.len());
    let result = Brought { records: wanted.len(), written, unchanged: wanted.len() - written, deleted };
    if dry_run {
        return Ok(result);
    }
    let gone_tenants = gone.iter().filter_map(|name| if let Name::Tenant(tenant) = name { Some(tenant.as_str()) } else { None });
    let gone_tenants: Vec<&str> = gone_tenants.collect();
    for tenant in &gone_tenants {
        remove_tenant(&mut client, tenant)?;
    }
    let left = gone.iter().filter(|name| name.tenant().is_some_and(|tenant| !gone_tenants.contains(&tenant)));
    let deletions = left.map(|name| (Op { name: (*name).clone(), expect: None, body: None }, cost(&held[*name].1)));
    apply(settings, batches(deletions))?;
    let put = |(name, body): &(&Name, &String)| {
        let old = held.get(*name).map_or(0, |(_, old)| cost(old));
        (Op { name: (*name).clone(), expect: None, body: Some((*body).clone()) }, cost(body) + old)
    };
    let of = |kind: fn(&Name) -> bool| changed.iter().filter(move |(name, _)| kind(name)).map(put);
    apply(settings, batches(of(|name| matches!(name, Name::Tenant(_)))))?;
    // The routers of a tenant belong together: one alone may loop where all do not.
    let mut by_tenant: BTreeMap<Option<&str>, Vec<(Op, usize)>> = BTreeMap::new();
    for it in changed.iter().filter(|(name, _)| matches!(name, Name::Router(..))) {
        by_tenant.entry(it.0.tenant()).or_default().push(put(it));
    }
    apply(settings, batches_of(by_tenant.into_values()))?;
    // Those that change free addresses that new ones may take.
    let is_vif: fn(&Name) -> bool = |name| matches!(name, Name::Vif(..));
    apply(settings, batches(of(is_vif).filter(|(op, _)| held.contains_key(&op.name))))?;
    apply(settings, batches(of(is_vif).filter(|(op, _)| !held.contains_key(&op.name))))?;
    apply(settings, batches(of(|name| *name == Name::Site)))?;
    Ok(result)
}

/// Entries of the store that a record with this body takes, or more.
fn cost(body: &str) -> usize {
    // A tenant has its id and its lock. Each address is in quotes, and so is each MAC address.
    1 + (body.matches('"').count() / 2).max(2)
}

/// As many changes at once as the store takes.
fn batches(ops: impl IntoIterator<Item = (Op, usize)>) -> Vec<Vec<Op>> {
    batches_of(ops.into_iter().map(|op| vec![op]))
}

/// The same of changes that belong together; only those that are too many are divided.
fn batches_of(units: impl IntoIterator<Item = Vec<(Op, usize)>>) -> Vec<Vec<Op>> {
    let mut batches: Vec<Vec<Op>> = Vec::new();
    let (mut keys, mut bytes) = (usize::MAX, 0);
    // The last batch has changes of this tenant; those of one tenant come one after the other.
    let mut last: Option<String> = None;
    let size = |(op, _): &(Op, usize)| op.body.as_ref().map_or(0, String::len) + 160;
    let mut queue: VecDeque<Vec<(Op, usize)>> = units.into_iter().collect();
    while let Some(unit) = queue.pop_front() {
        let tenant = unit.first().and_then(|(op, _)| op.name.tenant()).map(str::to_owned);
        let cost: usize = unit.iter().map(|(_, cost)| cost).sum();
        let length: usize = unit.iter().map(size).sum();
        let fits = |keys: usize, bytes: usize| keys <= MAX_KEYS - BESIDES && bytes <= ROOM;
        if unit.len() > 1 && !fits(cost, length) {
            unit.into_iter().rev().for_each(|op| queue.push_front(vec![op]));
            continue;
        }
        let beside = |is_same: bool| if is_same { 0 } else { OF_TENANT };
        if !fits(keys.saturating_add(cost + beside(last == tenant)), bytes + length) {
            (keys, bytes, last) = (0, 0, None);
            batches.push(Vec::new());
        }
        keys += beside(last == tenant);
        last = tenant;
        (keys, bytes) = (keys + cost, bytes + length);
        batches.last_mut().expect("there is one").extend(unit.into_iter().map(|(op, _)| op));
    }
    batches
}

/// Makes changes, several at a time.
fn apply(settings: &Settings, batches: Vec<Vec<Op>>) -> Result<()> {
    let writers = batches.len().min(WRITERS);
    let (queue, done, failed) = (Mutex::new(VecDeque::from(batches)), AtomicU64::new(0), Mutex::new(None));
    std::thread::scope(|scope| {
        for _ in 0..writers {
            scope.spawn(|| {
                let work = || -> Result<()> {
                    let mut client = Client::new(settings.clone())?;
                    loop {
                        let next = queue.lock().expect("no panic").pop_front();
                        let Some(ops) = next.filter(|_| failed.lock().expect("no panic").is_none()) else { return Ok(()) };
                        amend(&mut client, &ops)?.ok_or(Error::RecordsBusy)?;
                        done.fetch_add(ops.len() as u64, Ordering::Relaxed);
                    }
                };
                if let Err(error) = work() {
                    failed.lock().expect("no panic").get_or_insert(error);
                }
            });
        }
    });
    match failed.into_inner().expect("no panic") {
        Some(error) => Err(Error::Partial { error: Box::new(error), done: done.into_inner() }),
        None => Ok(()),
    }
}

/// The first success among some tries.
trait AnyOk: Iterator + Sized {
    fn any_ok<T>(self, mut attempt: impl FnMut() -> Result<Option<T>>) -> Result<Option<T>> {
        for _ in self {
            if let Some(done) = attempt()? {
                return Ok(Some(done));
            }
        }
        Ok(None)
    }
}

impl<I: Iterator> AnyOk for I {}

/// Entries of a change that are spared, should [`cost`] be too low.
const BESIDES: usize = 9;
/// Entries of a tenant that each change of what it has depends on: its record and its lock.
const OF_TENANT: usize = 2;
/// Attempts against others that change the same.
const TRIES: usize = 8;
/// Bytes of changes in a message.
const ROOM: usize = 48 << 10;
/// Changes under way at once.
const WRITERS: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_belongs_together_stays_together_and_nothing_is_lost() {
        let op = |tenant: usize, n: usize, cost: usize| {
            let name = Name::Router(format!("t{tenant}"), format!("r{n}"));
            (Op { name, expect: None, body: Some("x".repeat(100)) }, cost)
        };
        let of =
            |tenant: usize, costs: &[usize]| costs.iter().enumerate().map(|(n, &cost)| op(tenant, n, cost)).collect::<Vec<_>>();
        let units = vec![of(0, &[30, 30]), of(1, &[30, 20]), of(2, &[60, 60]), of(3, &[200]), of(4, &[5])];
        let all: Vec<Name> = units.iter().flatten().map(|(op, _)| op.name.clone()).collect();
        let batches = batches_of(units);
        assert_eq!(batches.iter().map(Vec::len).collect::<Vec<_>>(), [2, 2, 1, 1, 1, 1]);
        assert_eq!(batches.concat().into_iter().map(|op| op.name).collect::<Vec<_>>(), all);
        assert_eq!(super::batches(of(0, &[3; 100])).len(), 3, "37 VIFs of one address at once");
        assert!(super::batches(Vec::new()).is_empty());
        let routers = (0..100).map(|tenant| of(tenant, &[3]));
        assert!(batches_of(routers).iter().all(|batch| batch.len() * (3 + OF_TENANT) <= MAX_KEYS), "with what each tenant adds");
    }
}
