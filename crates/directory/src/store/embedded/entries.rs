//! Tenants' records in redb: the table `tenant_entries`, and the one that older programs wrote.

use redb::{Database, ReadOnlyTable, ReadTransaction, ReadableDatabase, ReadableTable, Table, TableError, WriteTransaction};
use weft_control::netlord::tenants::records::{Entries, Found, Plan, Reads};

use super::file::{ENTRIES, ENTRIES_REVISION, FORMAT_KEY, META, OLD_ENTRIES, PACKED_FORMAT, damaged, failure};
use super::packed;
use crate::store::StoreError;

/// Entries of a snapshot.
pub fn read(snapshot: &ReadTransaction, reads: &Reads) -> Result<Entries, StoreError> {
    let Some(table) = open(snapshot)? else { return Ok(Entries::default()) };
    let mut entries = Entries { revision: revision_of(snapshot)?, found: Vec::new() };
    for name in &reads.names {
        if let Some(bytes) = table.get(packed::key(name).as_slice()).map_err(failure)? {
            entries.found.push(found(name.clone(), bytes.value())?);
        }
    }
    for (prefix, limit) in &reads.prefixes {
        below(&table, prefix, "", *limit, &mut entries.found)?;
    }
    Ok(entries)
}

/// A page of a snapshot.
pub fn page(snapshot: &ReadTransaction, prefix: &str, after: &str, limit: usize) -> Result<Entries, StoreError> {
    let Some(table) = open(snapshot)? else { return Ok(Entries::default()) };
    let mut entries = Entries { revision: revision_of(snapshot)?, found: Vec::new() };
    below(&table, prefix, after, limit, &mut entries.found)?;
    Ok(entries)
}

/// Writes a plan: the revision, or `None` if something is not as it was checked to be.
pub fn amend(transaction: &WriteTransaction, plan: &Plan) -> Result<Option<u64>, StoreError> {
    let mut table = transaction.open_table(ENTRIES).map_err(failure)?;
    for (name, expect) in &plan.checks {
        if generation(&table, name)? != *expect {
            return Ok(None);
        }
    }
    let mut meta = transaction.open_table(META).map_err(failure)?;
    let before = meta.get(ENTRIES_REVISION).map_err(failure)?.map_or(0, |it| it.value());
    let revision = before + 1;
    meta.insert(ENTRIES_REVISION, revision).map_err(failure)?;
    if before == 0 {
        meta.insert(FORMAT_KEY, PACKED_FORMAT).map_err(failure)?;
    }
    for (name, body) in &plan.writes {
        let key = packed::key(name);
        match body {
            Some(body) => drop(table.insert(key.as_slice(), packed::value(revision, body).as_slice()).map_err(failure)?),
            None => drop(table.remove(key.as_slice()).map_err(failure)?),
        }
    }
    Ok(Some(revision))
}

/// Rewrites what an older program wrote as text, if there is any: all or nothing.
pub fn pack_old(database: &Database) -> Result<(), StoreError> {
    let snapshot = database.begin_read().map_err(failure)?;
    if matches!(snapshot.open_table(OLD_ENTRIES), Err(TableError::TableDoesNotExist(_))) {
        return Ok(());
    }
    drop(snapshot);
    let transaction = database.begin_write().map_err(failure)?;
    {
        let old = transaction.open_table(OLD_ENTRIES).map_err(failure)?;
        let mut table = transaction.open_table(ENTRIES).map_err(failure)?;
        for entry in old.iter().map_err(failure)? {
            let (name, bytes) = entry.map_err(failure)?;
            let (name, bytes) = (name.value(), bytes.value());
            let wrong = || wrong(name);
            let (generation, body) = bytes.split_first_chunk::<8>().ok_or_else(wrong)?;
            let body = std::str::from_utf8(body).map_err(|_| wrong())?;
            let value = packed::value(u64::from_be_bytes(*generation), body);
            table.insert(packed::key(name).as_slice(), value.as_slice()).map_err(failure)?;
        }
        let mut meta = transaction.open_table(META).map_err(failure)?;
        meta.insert(FORMAT_KEY, PACKED_FORMAT).map_err(failure)?;
    }
    transaction.delete_table(OLD_ENTRIES).map_err(failure)?;
    transaction.commit().map_err(failure)
}

fn generation(table: &Table<'_, &[u8], &[u8]>, name: &str) -> Result<u64, StoreError> {
    match table.get(packed::key(name).as_slice()).map_err(failure)? {
        Some(bytes) => packed::generation(bytes.value()).ok_or_else(|| wrong(name)),
        None => Ok(0),
    }
}

/// The table, in a snapshot.
type Snapshot = ReadOnlyTable<&'static [u8], &'static [u8]>;

fn open(snapshot: &ReadTransaction) -> Result<Option<Snapshot>, StoreError> {
    match snapshot.open_table(ENTRIES) {
        Ok(table) => Ok(Some(table)),
        Err(TableError::TableDoesNotExist(_)) => Ok(None),
        Err(error) => Err(failure(error)),
    }
}

fn revision_of(snapshot: &ReadTransaction) -> Result<u64, StoreError> {
    let meta = snapshot.open_table(META).map_err(failure)?;
    Ok(meta.get(ENTRIES_REVISION).map_err(failure)?.map_or(0, |it| it.value()))
}

fn below(
    table: &impl ReadableTable<&'static [u8], &'static [u8]>,
    prefix: &str,
    after: &str,
    limit: usize,
    all: &mut Vec<Found>,
) -> Result<(), StoreError> {
    if packed::has_binary_keys(prefix) {
        return Err(StoreError::Refused(format!("entries of addresses are not read in order of their names: `{prefix}`")));
    }
    let first = prefix.max(after);
    let most = all.len().saturating_add(limit);
    for entry in table.range::<&[u8]>(first.as_bytes()..).map_err(failure)?.take(limit.saturating_add(1)) {
        let (key, bytes) = entry.map_err(failure)?;
        if !key.value().starts_with(prefix.as_bytes()) {
            break;
        }
        if key.value() != after.as_bytes() {
            let name = packed::name_of(key.value()).ok_or_else(|| damaged("the name of a tenants' entry".to_owned()))?;
            all.push(found(name, bytes.value())?);
        }
        if all.len() == most {
            break;
        }
    }
    Ok(())
}

fn found(name: String, bytes: &[u8]) -> Result<Found, StoreError> {
    let (generation, body) = packed::split(bytes).ok_or_else(|| wrong(&name))?;
    Ok(Found { name, generation, body })
}

fn wrong(name: &str) -> StoreError {
    damaged(format!("tenants' entry {name}"))
}
