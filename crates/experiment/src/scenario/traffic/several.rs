//! `[[traffic]]`: several services on one fabric, each a `[traffic]` table with a `name`. Tables of one name are one service.

use std::path::Path;
use std::sync::Arc;

use weft_fabric::Fabric;
use weft_fabric::rng::mix;

use super::flows::{FlowSource, Flows};
use super::pattern::MEMCACHE;
use crate::error::{Error, KeyError, Result};
use crate::scenario::directory::DIRECTORY;
use crate::scenario::keys::Keys;
use crate::scenario::nl_arp::NL_ARP;
use crate::scenario::tenants::TENANTS;
use crate::scenario::traffic::matrices::VOLATILE;

/// Several services.
#[derive(Clone, Debug)]
pub struct Several {
    /// Names, in the order in which they first appear.
    pub names: Vec<String>,
    /// Each table, and the number of its service.
    pub parts: Vec<(u16, FlowSource)>,
}

impl Several {
    /// Reads the tables.
    ///
    /// # Errors
    /// What is wrong with one of them.
    pub fn read(tables: &[Keys<'_>], folder: &Path) -> Result<Self> {
        let mut several = Self { names: Vec::new(), parts: Vec::new() };
        for keys in tables {
            let name: String = keys.need("name")?;
            let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
            if name.is_empty() || !name.chars().all(plain) {
                let help = "write letters, digits, `-` and `_`: metrics are named after it";
                return Err(keys.error("name", format!("`{name}` is not a name"), help).into());
            }
            let pattern = keys.opt::<String>("pattern")?.unwrap_or_default();
            if !keys.has("file") && ALONE.contains(&pattern.as_str()) {
                let message = "requests and responses share a run with no other traffic";
                return Err(keys.error("pattern", message, "write them as the only `[traffic]`").into());
            }
            let known = several.names.iter().position(|n| *n == name);
            let service = known.unwrap_or_else(|| {
                several.names.push(name);
                several.names.len() - 1
            });
            several.parts.push((service as u16, FlowSource::read(keys, folder)?));
        }
        if several.names.is_empty() || several.parts.len() > MAX_TABLES {
            let message = format!("from 1 to {MAX_TABLES} tables of traffic, not {}", several.parts.len());
            return Err(KeyError::new("traffic", message, "write `[traffic]`, or `[[traffic]]` with a `name`").into());
        }
        Ok(several)
    }

    /// The flows on a fabric. The first table draws as if it were alone.
    ///
    /// # Errors
    /// A description that does not fit the fabric.
    pub fn on(&self, fabric: &Arc<Fabric>, seed: u64) -> Result<Flows> {
        let parts = self.parts.iter().enumerate().map(|(i, (service, source))| {
            let flows = source.on(fabric, seed_of(seed, i)).map_err(|e| in_table(i, e))?;
            Ok((*service, flows))
        });
        Ok(Flows::Several(parts.collect::<Result<_>>()?))
    }

    /// The largest fraction of a NIC that one of them asks for.
    ///
    /// # Errors
    /// A description that does not fit the fabric.
    pub fn offered_load(&self, fabric: &Fabric, seed: u64) -> Result<Option<f64>> {
        let mut most: Option<f64> = None;
        for (i, (_, source)) in self.parts.iter().enumerate() {
            let load = source.offered_load(fabric, seed_of(seed, i)).map_err(|e| in_table(i, e))?;
            most = load.into_iter().chain(most).reduce(f64::max);
        }
        Ok(most)
    }
}

/// Each table has a random stream of its own.
fn seed_of(seed: u64, table: usize) -> u64 {
    if table == 0 { seed } else { mix(seed ^ mix(table as u64)) }
}

/// An error of `[traffic]`, at the key of its table.
fn in_table(table: usize, error: Error) -> Error {
    match error {
        Error::Key(error) => {
            let below = error.key.strip_prefix("traffic").unwrap_or_default();
            KeyError { key: format!("traffic[{table}]{below}"), ..error }.into()
        }
        other => other,
    }
}

/// Patterns that share a run with no other traffic.
const ALONE: &[&str] = &[MEMCACHE, DIRECTORY, TENANTS, NL_ARP, VOLATILE];
const MAX_TABLES: usize = 10_000;
