//! `limits` of agents, of all hosts of a kind or of one.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::Deserialize;
use toml::Spanned;
use weft_control::time::Duration;
use weft_fabric::Bytes;

/// Limits by their names in the agent's configuration.
#[derive(Debug, Default, Deserialize)]
#[serde(transparent)]
pub(super) struct Limits(pub BTreeMap<String, Spanned<Amount>>);

/// A limit's value.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum Amount {
    Count(i64),
    Text(String),
}

/// What a limit is measured in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    /// At least this many, at most that many.
    Count(i64, i64),
    Bytes,
    Time,
}

/// The limits of VL2's hosts.
pub(super) const VL2: &[(&str, Unit)] = &[
    ("broadcast_rate", Unit::Count(1, ANY)),
    ("flows", Unit::Count(1, ANY)),
    ("held_bytes", Unit::Bytes),
    ("held_packets", Unit::Count(1, ANY)),
    ("held_per_peer", Unit::Count(1, ANY)),
    ("held_time", Unit::Time),
    ("peers", Unit::Count(1, ANY)),
];

/// Those of NetLord's servers.
pub(super) const NETLORD: &[(&str, Unit)] = &[
    ("agent_burst", Unit::Count(32, ANY)),
    ("agent_rate", Unit::Count(1, ANY)),
    ("broadcast_burst", Unit::Count(1, ANY)),
    ("broadcast_rate", Unit::Count(1, ANY)),
    ("icmp_burst", Unit::Count(1, ANY)),
    ("icmp_rate", Unit::Count(1, ANY)),
    ("nl_arp_entries", Unit::Count(1, 100_000_000)),
    ("search_burst", Unit::Count(1, ANY)),
    ("search_rate", Unit::Count(1, ANY)),
];

/// Agents have 32 bits for it.
const ANY: i64 = u32::MAX as i64;

impl Limits {
    /// The agent's section: these limits, and those of `all` that are not among them.
    pub fn section(&self, all: &Self) -> String {
        let mut values: BTreeMap<&String, &Amount> = all.0.iter().map(|(name, value)| (name, value.get_ref())).collect();
        values.extend(self.0.iter().map(|(name, value)| (name, value.get_ref())));
        if values.is_empty() {
            return String::new();
        }
        let mut text = "\n[limits]\n".to_owned();
        for (name, value) in values {
            let _ = match value {
                Amount::Count(count) => writeln!(text, "{name} = {count}"),
                Amount::Text(it) => writeln!(text, "{name} = \"{it}\""),
            };
        }
        text
    }
}

impl Unit {
    /// What is wrong with a value, and what to write.
    pub fn problem(self, value: &Amount) -> Option<(String, String)> {
        match (self, value) {
            (Self::Count(least, most), Amount::Count(count)) if (least..=most).contains(count) => None,
            (Self::Count(least, most), Amount::Count(count)) => {
                Some((format!("{count} is not {least} to {most}"), "leave it out for the agent's default".to_owned()))
            }
            (Self::Count(..), Amount::Text(text)) => {
                Some((format!("`{text}` is no whole number"), "write such as 100".to_owned()))
            }
            (Self::Bytes, Amount::Text(text)) => match text.parse::<Bytes>() {
                Ok(Bytes(0)) => Some(("0 bytes hold nothing".to_owned(), "leave it out for the agent's default".to_owned())),
                Ok(_) => None,
                Err(error) => Some((error.to_string(), "write such as \"4MB\"".to_owned())),
            },
            (Self::Time, Amount::Text(text)) => match text.parse::<Duration>() {
                Ok(time) if time == Duration::ZERO => {
                    Some(("no time".to_owned(), "leave it out for the agent's default".to_owned()))
                }
                Ok(_) => None,
                Err(error) => Some((error.to_string(), "write such as \"2s\"".to_owned())),
            },
            (Self::Bytes, Amount::Count(count)) => {
                Some((format!("{count} has no unit"), "write a size with its unit, such as \"4MB\"".to_owned()))
            }
            (Self::Time, Amount::Count(count)) => {
                Some((format!("{count} has no unit"), "write a time with its unit, such as \"2s\"".to_owned()))
            }
        }
    }
}
