//! SPAIN's tables for agents: by which VLANs each edge switch is reached from each other one (section 3.4).
//!
//! ```toml
//! version = 3                           # grows with every change
//! [[from]]
//! switch = "02:4e:4c:00:00:01"          # for the agents below this edge switch
//! to = { "02:4e:4c:00:00:02" = "1-8", "02:4e:4c:00:00:03" = "5-12" }
//! ```

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::Deserialize;
use weft_fabric::MacAddr;

use crate::netlord::vlans::Vlans;

/// The name of the tables among the directory's documents.
pub const DOCUMENT: &str = "spain";

/// The tables of all edge switches.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SpainTables {
    /// Grows with every change.
    pub version: u32,
    /// From where, to where, by which VLANs.
    pub from: BTreeMap<MacAddr, BTreeMap<MacAddr, Vlans>>,
}

/// Why tables were refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TablesError {
    /// It is not TOML, or not of this form.
    #[error("the paths cannot be read: {0}")]
    Syntax(String),
    /// Versions begin at 1.
    #[error("the paths' version is 0: write `version = 1`, and a greater one with every change")]
    Version,
    /// Not an address.
    #[error("`{0}` is no MAC address of an edge switch: write it as \"02:4e:4c:00:00:01\"")]
    Mac(String),
    /// Two tables of one switch.
    #[error("two `[[from]]` of {0}: write all that it reaches in one")]
    Twice(MacAddr),
    /// To a switch itself.
    #[error("{0} needs no VLAN to itself: leave it out")]
    Itself(MacAddr),
    /// Not VLANs.
    #[error("from {from} to {to}: {why}")]
    Vlans {
        /// From where.
        from: MacAddr,
        /// To where.
        to: MacAddr,
        /// What is wrong.
        why: String,
    },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    version: u32,
    #[serde(default)]
    from: Vec<From>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct From {
    switch: String,
    #[serde(default)]
    to: BTreeMap<String, String>,
}

impl SpainTables {
    /// Reads and checks them.
    ///
    /// # Errors
    /// [`TablesError`].
    pub fn parse(text: &str) -> Result<Self, TablesError> {
        let file: File = toml::from_str(text).map_err(|e| TablesError::Syntax(e.to_string().trim_end().to_owned()))?;
        if file.version == 0 {
            return Err(TablesError::Version);
        }
        let mac = |text: &str| text.parse::<MacAddr>().map_err(|_| TablesError::Mac(text.to_owned()));
        let mut from = BTreeMap::new();
        for table in &file.from {
            let switch = mac(&table.switch)?;
            let mut all = BTreeMap::new();
            for (name, vlans) in &table.to {
                let to = mac(name)?;
                if to == switch {
                    return Err(TablesError::Itself(to));
                }
                all.insert(to, vlans.parse().map_err(|why| TablesError::Vlans { from: switch, to, why })?);
            }
            if from.insert(switch, all).is_some() {
                return Err(TablesError::Twice(switch));
            }
        }
        Ok(Self { version: file.version, from })
    }

    /// As [`parse`](Self::parse) reads them.
    pub fn emit(&self) -> String {
        let mut text = format!("version = {}\n", self.version);
        for (switch, table) in &self.from {
            let to: Vec<String> = table.iter().map(|(to, vlans)| format!("\"{to}\" = \"{vlans}\"")).collect();
            let _ = write!(text, "\n[[from]]\nswitch = \"{switch}\"\nto = {{ {} }}\n", to.join(", "));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn any_tables() -> impl Strategy<Value = SpainTables> {
        let mac = (0u8..9).prop_map(|last| MacAddr([2, 0x4e, 0x4c, 0, 0, last]));
        let vlans = prop::collection::vec(1u16..4095, 0..6).prop_map(Vlans::of);
        let table = prop::collection::btree_map(mac.clone(), vlans, 0..6);
        (1u32.., prop::collection::btree_map(mac, table, 0..5)).prop_map(|(version, mut from)| {
            from.iter_mut().for_each(|(switch, table)| drop(table.remove(switch)));
            SpainTables { version, from }
        })
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(tables in any_tables()) {
            prop_assert_eq!(SpainTables::parse(&tables.emit()), Ok(tables));
        }
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let (a, b) = ("02:00:00:00:00:01", "02:00:00:00:00:02");
        let table = |switch: &str, to: &str| format!("[[from]]\nswitch = \"{switch}\"\nto = {to}\n");
        for (text, said) in [
            ("version = 0".to_owned(), "version is 0"),
            ("version = -1".to_owned(), "cannot be read"),
            ("version = 1\nfrmo = 1".to_owned(), "unknown field"),
            (format!("version = 1\n{}", table("x", "{}")), "`x` is no MAC address"),
            (format!("version = 1\n{}", table(a, &format!("{{ \"{a}\" = \"1\" }}"))), "no VLAN to itself"),
            (format!("version = 1\n{}", table(a, &format!("{{ \"{b}\" = \"0-9\" }}"))), "`0` is no VLAN"),
            (format!("version = 1\n{0}{0}", table(a, "{}")), "two `[[from]]`"),
        ] {
            let error = SpainTables::parse(&text).unwrap_err().to_string();
            assert!(error.contains(said), "{text}: {error}");
        }
    }
}
