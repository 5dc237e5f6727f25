//! The store's entries of tenants' records, with every state that they ever had.

use std::collections::BTreeMap;

use weft_control::netlord::tenants::records::{Entries, Found, Plan, Reads};
use weft_fabric::Instant;

/// Entries of the store and their history.
#[derive(Clone, Debug, Default)]
pub struct Records {
    entries: BTreeMap<String, (u64, String)>,
    /// Every commit, in order: the first has revision 1.
    log: Vec<RecordCommit>,
}

/// A commit of entries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordCommit {
    /// When it became durable.
    pub at: Instant,
    /// Names and what they stand for from then on; `None`: removed.
    pub writes: Vec<(String, Option<String>)>,
}

impl Records {
    /// The revision of the last commit.
    pub const fn revision(&self) -> u64 {
        self.log.len() as u64
    }

    /// The revision at a time.
    pub fn revision_at(&self, at: Instant) -> u64 {
        self.log.partition_point(|commit| commit.at <= at) as u64
    }

    /// Every commit, in order: the first has revision 1.
    pub fn log(&self) -> &[RecordCommit] {
        &self.log
    }

    /// All entries: name, generation and text.
    pub fn iter(&self) -> impl Iterator<Item = (&str, u64, &str)> {
        self.entries.iter().map(|(name, (generation, body))| (name.as_str(), *generation, body.as_str()))
    }

    /// An entry: its generation and text.
    pub fn get(&self, name: &str) -> Option<(u64, &str)> {
        self.entries.get(name).map(|(generation, body)| (*generation, body.as_str()))
    }

    /// An entry at a revision: its generation and text.
    pub fn get_at(&self, name: &str, revision: u64) -> Option<(u64, &str)> {
        let (at, body) = self.log[..revision as usize].iter().enumerate().rev().find_map(|(at, commit)| {
            let (_, body) = commit.writes.iter().find(|(written, _)| written == name)?;
            Some((at, body))
        })?;
        Some((at as u64 + 1, body.as_deref()?))
    }

    /// As it was at a revision.
    pub fn at(&self, revision: u64) -> Self {
        let mut then = Self::default();
        self.log.iter().take(revision as usize).for_each(|commit| then.append(commit.clone()));
        then
    }

    /// The entries that are asked for.
    pub fn read(&self, reads: &Reads) -> Entries {
        let mut found: BTreeMap<&String, &(u64, String)> =
            reads.names.iter().filter_map(|name| self.entries.get_key_value(name)).collect();
        for (prefix, limit) in &reads.prefixes {
            found.extend(self.entries.range(prefix.clone()..).take_while(|(name, _)| name.starts_with(prefix)).take(*limit));
        }
        self.entries_of(found)
    }

    /// The first entries whose names begin with `prefix` and come after a name.
    pub fn page(&self, prefix: &str, after: &str, limit: usize) -> Entries {
        let all = self.entries.range(prefix.to_owned()..).take_while(|(name, _)| name.starts_with(prefix));
        self.entries_of(all.filter(|(name, _)| name.as_str() > after).take(limit))
    }

    /// Writes, if all that the plan checks is so: the revision.
    pub fn commit(&mut self, at: Instant, plan: &Plan) -> Option<u64> {
        let generation = |name: &String| self.entries.get(name).map_or(0, |(generation, _)| *generation);
        if plan.checks.iter().any(|(name, expect)| generation(name) != *expect) {
            return None;
        }
        self.append(RecordCommit { at, writes: plan.writes.clone() });
        Some(self.revision())
    }

    fn append(&mut self, commit: RecordCommit) {
        let revision = self.revision() + 1;
        for (name, body) in &commit.writes {
            match body {
                Some(body) => self.entries.insert(name.clone(), (revision, body.clone())),
                None => self.entries.remove(name),
            };
        }
        self.log.push(commit);
    }

    fn entries_of<'a>(&self, found: impl IntoIterator<Item = (&'a String, &'a (u64, String))>) -> Entries {
        let of = |(name, (generation, body)): (&String, &(u64, String))| Found {
            name: name.clone(),
            generation: *generation,
            body: body.clone(),
        };
        Entries { revision: self.revision(), found: found.into_iter().map(of).collect() }
    }
}
