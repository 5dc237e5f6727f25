//! What a log has that the study does not use, by reason; and what its reader should know.

use std::collections::BTreeMap;

use serde::Serialize;

/// What was left out for one reason.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct LeftOut {
    /// Why.
    pub reason: String,
    /// Number of records, packets or datagrams.
    pub count: u64,
    /// Their bytes, as far as known.
    pub bytes: u64,
    /// File and place of the first one.
    pub first: String,
}

/// Counts by reason.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    left_out: BTreeMap<&'static str, LeftOut>,
    notes: BTreeMap<String, u64>,
}

/// Different notes that are kept; the others are counted in a note of their own.
const MAX_NOTES: usize = 64;

impl Tally {
    /// Counts something that is not used. `place` is asked for the first of a kind.
    pub fn leave_out(&mut self, reason: &'static str, bytes: u64, place: impl FnOnce() -> String) {
        let entry = self.left_out.entry(reason).or_insert_with(|| LeftOut {
            reason: reason.to_owned(),
            first: place(),
            ..LeftOut::default()
        });
        entry.count += 1;
        entry.bytes = entry.bytes.saturating_add(bytes);
    }

    /// Counts a remark.
    pub fn note(&mut self, note: impl Into<String>) {
        let note = note.into();
        let is_known = self.notes.contains_key(&note);
        let note = if is_known || self.notes.len() < MAX_NOTES { note } else { "further notes, not listed".to_owned() };
        *self.notes.entry(note).or_default() += 1;
    }

    /// What was left out, by reason.
    pub fn left_out(&self) -> Vec<LeftOut> {
        self.left_out.values().cloned().collect()
    }

    /// How many records were left out for a reason.
    pub fn count_of(&self, reason: &str) -> u64 {
        self.left_out.get(reason).map_or(0, |it| it.count)
    }

    /// Remarks, with how often each was made if that is more than once.
    pub fn notes(&self) -> Vec<String> {
        let line = |(note, &count): (&String, &u64)| if count > 1 { format!("{note} ({count} times)") } else { note.clone() };
        self.notes.iter().map(line).collect()
    }
}
