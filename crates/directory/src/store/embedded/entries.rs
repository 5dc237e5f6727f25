//! Tenants' records in redb: the table `tenants`.

use redb::{ReadTransaction, ReadableTable, Table, TableError, WriteTransaction};
use weft_control::netlord::tenants::records::{Entries, Found, Plan, Reads};

use super::file::{ENTRIES, ENTRIES_REVISION, META, damaged, failure};
use crate::store::StoreError;

/// Entries of a snapshot.
pub fn read(snapshot: &ReadTransaction, reads: &Reads) -> Result<Entries, StoreError> {
    let Some(table) = open(snapshot)? else { return Ok(Entries::default()) };
    let mut entries = Entries { revision: revision_of(snapshot)?, found: Vec::new() };
    for name in &reads.names {
        if let Some(bytes) = table.get(name.as_str()).map_err(failure)? {
            entries.found.push(split(name, bytes.value())?);
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
    for (name, body) in &plan.writes {
        match body {
            Some(body) => {
                let bytes = [&revision.to_be_bytes()[..], body.as_bytes()].concat();
                table.insert(name.as_str(), bytes.as_slice()).map_err(failure)?;
            }
            None => {
                table.remove(name.as_str()).map_err(failure)?;
            }
        }
    }
    Ok(Some(revision))
}

fn generation(table: &Table<'_, &str, &[u8]>, name: &str) -> Result<u64, StoreError> {
    match table.get(name).map_err(failure)? {
        Some(bytes) => Ok(split(name, bytes.value())?.generation),
        None => Ok(0),
    }
}

fn open(snapshot: &ReadTransaction) -> Result<Option<redb::ReadOnlyTable<&'static str, &'static [u8]>>, StoreError> {
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
    table: &impl ReadableTable<&'static str, &'static [u8]>,
    prefix: &str,
    after: &str,
    limit: usize,
    found: &mut Vec<Found>,
) -> Result<(), StoreError> {
    let first = prefix.max(after);
    let most = found.len().saturating_add(limit);
    for entry in table.range::<&str>(first..).map_err(failure)?.take(limit.saturating_add(1)) {
        let (name, bytes) = entry.map_err(failure)?;
        if !name.value().starts_with(prefix) {
            break;
        }
        if name.value() != after {
            found.push(split(name.value(), bytes.value())?);
        }
        if found.len() == most {
            break;
        }
    }
    Ok(())
}

fn split(name: &str, bytes: &[u8]) -> Result<Found, StoreError> {
    let wrong = || damaged(format!("tenants' entry {name}"));
    let (generation, body) = bytes.split_first_chunk::<8>().ok_or_else(wrong)?;
    let body = std::str::from_utf8(body).map_err(|_| wrong())?;
    Ok(Found { name: name.to_owned(), generation: u64::from_be_bytes(*generation), body: body.to_owned() })
}
