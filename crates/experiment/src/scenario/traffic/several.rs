//! `[[traffic]]`: several services on one fabric, each a `[traffic]` table with a `name`. Tables of one name are one service.

use std::path::Path;

use weft_fabric::Fabric;
use weft_fabric::rng::mix;
use weft_fabric::traffic::SeveralWorkloads;

use super::{Prepared, Traffic};
use crate::error::{Error, KeyError, Result};
use crate::scenario::keys::Keys;

/// Several services.
#[derive(Clone, Debug)]
pub struct Several {
    /// Names, in the order in which they first stand.
    pub names: Vec<String>,
    /// Each table, and the number of its service.
    pub parts: Vec<(u16, Traffic)>,
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
            let traffic = Traffic::read(keys, folder)?;
            if traffic.is_requests() || traffic.has_no_flows() {
                let message = "requests and responses share a run with no other traffic";
                return Err(keys.error("pattern", message, "write them as the only `[traffic]`").into());
            }
            let known = several.names.iter().position(|n| *n == name);
            let service = known.unwrap_or_else(|| {
                several.names.push(name);
                several.names.len() - 1
            });
            several.parts.push((service as u16, traffic));
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
    /// A description that this fabric cannot have.
    pub fn prepare(&self, fabric: &Fabric, seed: u64) -> Result<Prepared> {
        let parts = self.parts.iter().enumerate().map(|(i, (service, traffic))| {
            let prepared = traffic.prepare(fabric, seed_of(seed, i)).map_err(|e| in_table(i, e))?;
            Ok((*service, prepared.workload))
        });
        let parts = parts.collect::<Result<Vec<_>>>()?;
        Ok(Prepared { workload: Box::new(SeveralWorkloads::new(parts)), lines: None })
    }

    /// The largest part of a NIC that one of them asks for.
    ///
    /// # Errors
    /// A description that this fabric cannot have.
    pub fn offered_load(&self, fabric: &Fabric, seed: u64) -> Result<Option<f64>> {
        let mut most: Option<f64> = None;
        for (i, (_, traffic)) in self.parts.iter().enumerate() {
            let load = traffic.offered_load(fabric, seed_of(seed, i)).map_err(|e| in_table(i, e))?;
            most = load.into_iter().chain(most).reduce(f64::max);
        }
        Ok(most)
    }
}

/// Tables draw for themselves.
fn seed_of(seed: u64, table: usize) -> u64 {
    if table == 0 { seed } else { mix(seed ^ mix(table as u64)) }
}

/// An error of `[traffic]`, at the table that it speaks of.
fn in_table(table: usize, error: Error) -> Error {
    match error {
        Error::Key(error) => {
            let below = error.key.strip_prefix("traffic").unwrap_or_default();
            KeyError { key: format!("traffic[{table}]{below}"), ..error }.into()
        }
        other => other,
    }
}

const MAX_TABLES: usize = 10_000;
