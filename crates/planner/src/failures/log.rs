//! The log: `start,end,device,kind,cause`, in any order of the columns.

use std::collections::BTreeMap;

use crate::analyze::formats::time;

/// A device that did not work for a time.
#[derive(Clone, Debug, PartialEq)]
pub struct Failure {
    /// In seconds.
    pub start_s: f64,
    /// In seconds.
    pub end_s: f64,
    /// Its name.
    pub device: String,
    /// Such as `tor`, `aggregation`, `link`.
    pub kind: String,
    /// Such as `configuration`; `unknown` if the log does not say.
    pub cause: String,
}

const HELP: &str =
    "the first line must be `start,end,device,kind,cause` (kind and cause may be absent), each further line a failure";

/// A wrong line: its number, what is wrong, what to do.
pub type Wrong = (u64, String, &'static str);

/// Reads a log, sorted by start.
///
/// # Errors
/// The first wrong line.
pub fn parse(text: &str) -> Result<Vec<Failure>, Wrong> {
    let mut reader = csv::ReaderBuilder::new().comment(Some(b'#')).trim(csv::Trim::All).from_reader(text.as_bytes());
    let header = reader.headers().map_err(|e| (1, e.to_string(), HELP))?.clone();
    let mut at = BTreeMap::new();
    for (place, name) in header.iter().enumerate() {
        let known = ["start", "end", "device", "kind", "cause"].contains(&name);
        if !known || at.insert(name, place).is_some() {
            return Err((1, format!("unknown or repeated column `{name}`"), HELP));
        }
    }
    if let Some(missing) = ["start", "end", "device"].into_iter().find(|name| !at.contains_key(name)) {
        return Err((1, format!("there is no column `{missing}`"), HELP));
    }
    let mut failures = Vec::new();
    for record in reader.records() {
        let record = record.map_err(|e| (e.position().map_or(1, csv::Position::line), e.to_string(), HELP))?;
        let line = record.position().map_or(1, csv::Position::line);
        let field = |name: &str| at.get(name).and_then(|&place| record.get(place)).unwrap_or_default();
        let seconds = |name: &str| {
            let ns = time(field(name)).ok_or_else(|| (line, format!("`{}` is not a time", field(name)), HELP))?;
            Ok(ns as f64 / 1e9)
        };
        let (start_s, end_s) = (seconds("start")?, seconds("end")?);
        if end_s < start_s {
            return Err((line, "the failure ends before it begins".to_owned(), "exchange start and end, or correct the clock"));
        }
        if field("device").is_empty() {
            return Err((line, "the device is empty".to_owned(), HELP));
        }
        let or = |name: &str| if field(name).is_empty() { "unknown".to_owned() } else { field(name).to_owned() };
        failures.push(Failure { start_s, end_s, device: field("device").to_owned(), kind: or("kind"), cause: or("cause") });
    }
    if failures.is_empty() {
        return Err((1, "the log has no failure".to_owned(), HELP));
    }
    failures.sort_by(|a, b| a.start_s.total_cmp(&b.start_s));
    Ok(failures)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn wrong_lines_are_named() {
        let head = "start,end,device,kind,cause\n";
        for (text, line, message) in [
            ("start,end\n".to_owned(), 1, "no column `device`"),
            ("start,end,device,color\n".to_owned(), 1, "column `color`"),
            (head.to_owned(), 1, "no failure"),
            (format!("{head}0,60,tor1,tor,power\n5,x,tor1,,\n"), 3, "`x` is not a time"),
            (format!("{head}5,1,tor1,,\n"), 2, "ends before"),
            (format!("{head}5,7,,,\n"), 2, "device is empty"),
            (format!("{head}5,7\n"), 2, "fields"),
        ] {
            let (at, found, _) = parse(&text).expect_err(&text);
            assert!(at == line && found.contains(message), "{text:?}: {at}: {found}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_an_error_or_failures(tail in "[0-9a-z,\"\\n.-]{0,80}", any in "\\PC{0,40}") {
            let _ = (parse(&format!("start,end,device,kind,cause\n{tail}")), parse(&any));
        }
    }
}
