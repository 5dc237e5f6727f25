//! Where keys stand in the text of a scenario.

use std::ops::Range;

use toml::de::{DeTable, DeValue};

/// Splits `event[0]` into name and index.
pub fn split_index(part: &str) -> (&str, Option<usize>) {
    match part.strip_suffix(']').and_then(|p| p.split_once('[')) {
        Some((name, index)) => (name, index.parse().ok()),
        None => (part, None),
    }
}

/// A dotted key; `event[0].at` reaches into lists.
pub fn find(table: &DeTable<'_>, key: &str) -> Option<Range<usize>> {
    let (head, rest) = key.split_once('.').map_or((key, None), |(h, r)| (h, Some(r)));
    let (name, index) = split_index(head);
    let (spanned_key, mut value) = table.iter().find(|(k, _)| k.get_ref().as_ref() == name)?;
    if let Some(i) = index {
        value = value.get_ref().get(i)?;
    }
    match (rest, value.get_ref()) {
        (None, DeValue::Table(_)) => Some(if index.is_some() { value.span() } else { spanned_key.span() }),
        (None, _) => Some(value.span()),
        (Some(rest), DeValue::Table(inner)) => find(inner, rest),
        (Some(_), _) => None,
    }
}

/// A dotted key that is written in quotes below a table: `[sweep] "control.scheduler" = ...`.
pub fn find_quoted(table: &DeTable<'_>, section: &str, key: &str) -> Option<Range<usize>> {
    let (_, section) = table.iter().find(|(k, _)| k.get_ref().as_ref() == section)?;
    let DeValue::Table(section) = section.get_ref() else { return None };
    section.iter().find(|(k, _)| k.get_ref().as_ref() == key).map(|(_, v)| v.span())
}

/// A key that tables of the sweep set, as in `fault = [{ event = [{ at = "1s", fail = "switch core0" }] }]`; if several do, their list.
pub fn find_swept(root: &DeTable<'_>, key: &str) -> Option<Range<usize>> {
    let (_, sweep) = root.iter().find(|(k, _)| k.get_ref().as_ref() == "sweep")?;
    let DeValue::Table(axes) = sweep.get_ref() else { return None };
    axes.iter().find_map(|(name, values)| {
        let tables = values.get_ref().as_array()?.iter().filter_map(|value| value.get_ref().as_table());
        let mut found = tables.filter_map(|table| find(table, key));
        let first = found.next()?;
        Some(if found.next().is_some() { name.span() } else { first })
    })
}

/// The number of the line at an offset.
pub fn line_of(text: &str, offset: usize) -> usize {
    text.as_bytes()[..offset.min(text.len())].iter().filter(|&&b| b == b'\n').count() + 1
}
