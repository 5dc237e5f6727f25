//! Entries as JSON, a line each: what `list`, `watch` and `export` write and `import` reads.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};
use weft_control::directory::{Generation, GroupId, Key, MAX_GROUP_ADDRESSES, Mapping, PrincipalId, ServiceId, Value};
use weft_control::wire::directory::Entry;

/// An entry in its JSON form.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "FlatLine")]
pub struct EntryLine {
    /// The key.
    pub key: String,
    /// Its generation; ignored on import.
    pub generation: u64,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    deleted: bool,
    #[serde(flatten)]
    value: ValueLine,
}

/// The same with the fields of its value: to read `flatten` takes three times as long.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FlatLine {
    key: String,
    #[serde(default)]
    generation: u64,
    #[serde(default)]
    deleted: bool,
    locator: Option<String>,
    group: Option<u16>,
    service: Option<u32>,
    owner: Option<u32>,
    lease_ms: Option<u32>,
    mac: Option<String>,
    addresses: Option<Vec<IpAddr>>,
}

impl From<FlatLine> for EntryLine {
    fn from(line: FlatLine) -> Self {
        let FlatLine { key, generation, deleted, locator, group, service, owner, lease_ms, mac, addresses } = line;
        let value = ValueLine { locator, group, service, owner, lease_ms, mac, addresses };
        Self { key, generation, deleted, value }
    }
}

/// What a key stands for, in its JSON form.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ValueLine {
    #[serde(skip_serializing_if = "Option::is_none")]
    locator: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    group: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    service: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    owner: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lease_ms: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mac: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    addresses: Option<Vec<IpAddr>>,
}

/// The first line of an export.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Heading {
    /// The version of the form.
    pub weft_directory: u32,
    /// The revision that all entries are of.
    pub revision: u64,
    /// How many lines follow.
    pub entries: u64,
}

/// The lease of a mapping that says nothing of it.
pub const DEFAULT_LEASE_MS: u32 = 60_000;

impl From<&Entry> for EntryLine {
    fn from(entry: &Entry) -> Self {
        Self {
            key: entry.key.to_string(),
            generation: entry.generation.0,
            deleted: entry.value.is_none(),
            value: entry.value.as_ref().map(ValueLine::from).unwrap_or_default(),
        }
    }
}

impl From<&Value> for ValueLine {
    fn from(value: &Value) -> Self {
        match value {
            Value::Mapping(it) => Self {
                locator: Some(it.locator.to_string()),
                group: Some(it.group.0),
                service: Some(it.service.0),
                owner: Some(it.owner.0),
                lease_ms: Some(it.lease_ms),
                mac: it.mac.map(|mac| mac.to_string()),
                addresses: None,
            },
            Value::Group(addresses) => Self { addresses: Some(addresses.to_vec()), ..Self::default() },
        }
    }
}

impl EntryLine {
    /// Reads a line; the error says what is wrong with it.
    pub fn parse(line: &str) -> Result<(Key, Value), String> {
        let line: Self = serde_json::from_str(line).map_err(|e| e.to_string())?;
        let key: Key = line.key.parse().map_err(|e: weft_control::directory::KeyError| e.to_string())?;
        if line.deleted {
            return Err("a deleted entry cannot be imported".into());
        }
        let value = line.value.read()?;
        if !key.fits(&value) {
            return Err(format!("{key} needs {}", if matches!(key, Key::Group(_)) { "`addresses`" } else { "a `locator`" }));
        }
        weft_control::directory::validity::check(&key, &value).map_err(|e| e.to_string())?;
        Ok((key, value))
    }

    /// The line, with its end.
    pub fn text(&self) -> String {
        serde_json::to_string(self).expect("entries are JSON") + "\n"
    }
}

impl ValueLine {
    fn read(self) -> Result<Value, String> {
        match (self.locator, self.addresses) {
            (Some(locator), None) => Ok(Value::Mapping(Mapping {
                locator: locator.parse().map_err(|e: weft_control::directory::KeyError| e.to_string())?,
                mac: self.mac.map(|mac| mac.parse().map_err(|_| format!("`{mac}` is not a MAC address"))).transpose()?,
                group: GroupId(self.group.unwrap_or(0)),
                service: ServiceId(self.service.unwrap_or(0)),
                owner: PrincipalId(self.owner.unwrap_or(0)),
                lease_ms: self.lease_ms.unwrap_or(DEFAULT_LEASE_MS),
            })),
            (None, Some(addresses)) if (1..=MAX_GROUP_ADDRESSES).contains(&addresses.len()) => Ok(Value::Group(addresses.into())),
            (None, Some(_)) => Err(format!("a group has 1 to {MAX_GROUP_ADDRESSES} addresses")),
            (None, None) => Err("neither `locator` nor `addresses`".into()),
            (Some(_), Some(_)) => Err("both `locator` and `addresses`".into()),
        }
    }
}

/// An entry without its value, as a lookup or an export may name it.
pub fn entry(key: Key, generation: Generation, value: Option<Value>) -> Entry {
    Entry { generation, key, value }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_read_back() {
        for (key, value) in [
            ("10.0.0.7", r#""locator":"10.0.1.1","group":3,"service":1,"owner":17,"lease_ms":60000"#),
            (
                "tenant:5/0/02:00:00:00:00:01",
                r#""locator":"edge:02:00:00:00:00:09/12","group":0,"service":0,"owner":0,"lease_ms":1,"mac":"02:00:00:00:00:01""#,
            ),
            ("group:3", r#""addresses":["10.9.0.1","::9"]"#),
        ] {
            let text = format!("{{\"key\":\"{key}\",\"generation\":0,{value}}}\n");
            let (key, value) = EntryLine::parse(&text).unwrap();
            assert_eq!(EntryLine::from(&entry(key, Generation(0), Some(value))).text(), text);
        }
    }

    #[test]
    fn what_is_wrong_with_a_line_is_said() {
        for (line, why) in [
            ("", "EOF"),
            ("{}", "missing field `key`"),
            (r#"{"key":"10.0.0.7"}"#, "neither `locator` nor `addresses`"),
            (r#"{"key":"10.0.0","locator":"10.0.1.1"}"#, "`10.0.0` is not a key"),
            (r#"{"key":"10.0.0.7","locator":"tor"}"#, "`tor` is not a locator"),
            (r#"{"key":"10.0.0.7","addresses":["10.9.0.1"]}"#, "10.0.0.7 needs a `locator`"),
            (r#"{"key":"group:1","locator":"10.9.0.1"}"#, "group:1 needs `addresses`"),
            (r#"{"key":"group:1","addresses":[]}"#, "a group has 1 to 16 addresses"),
            (r#"{"key":"10.0.0.7","locator":"10.0.1.1","mac":"x"}"#, "`x` is not a MAC address"),
            (r#"{"key":"10.0.0.7","locator":"10.0.1.1","servce":1}"#, "servce"),
            (r#"{"key":"10.0.0.7","deleted":true}"#, "deleted"),
        ] {
            let error = EntryLine::parse(line).unwrap_err();
            assert!(error.contains(why), "{line}: {error}");
        }
    }
}
