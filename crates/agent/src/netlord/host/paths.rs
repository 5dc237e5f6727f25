//! The VLANs by which edge switches are reached (section 3.4): those of the configuration, or of a file with SPAIN's tables of all edge
//! switches, of which an interface takes those of the switch that it leads to.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use weft_control::netlord::UplinkId;
use weft_control::netlord::paths::Reached;
use weft_control::netlord::spain::SpainTables;
use weft_control::wire::packet::ethernet::VlanId;

use super::uplink::Uplink;
use super::watched::Watched;
use crate::error::{Error, Result};

/// The VLANs from each interface to each edge switch.
#[derive(Debug)]
pub(super) struct Paths {
    pub known: BTreeMap<Reached, Vec<VlanId>>,
    /// The file, if there is one, and its tables.
    file: Option<Watched>,
    tables: SpainTables,
}

impl Paths {
    /// Those of the configuration. A file is read by [`reload`](Self::reload).
    pub fn new(known: BTreeMap<Reached, Vec<VlanId>>, file: Option<PathBuf>) -> Self {
        Self { known, file: file.map(Watched::new), tables: SpainTables::default() }
    }

    /// Reads the file, if there is one and it has changed; whether it has new tables. An invalid file is reported, and the tables stay.
    pub fn reload(&mut self, has_repository: bool) -> bool {
        let Some(file) = &mut self.file else { return false };
        let Some(tables) = file.newer(self.tables.version, has_repository, read_tables, |it| it.version) else { return false };
        tracing::info!(version = tables.version, switches = tables.from.len(), "SPAIN's tables");
        self.tables = tables;
        true
    }

    /// Gives each interface the file's table of the switch that it leads to; what changes thereby. An interface whose switch is not known keeps its table.
    pub fn update(&mut self, uplinks: &[Uplink]) -> Vec<(Reached, Vec<VlanId>)> {
        let mut changes = Vec::new();
        if self.file.is_none() {
            return changes;
        }
        for (number, uplink) in (0u8..).map(UplinkId).zip(uplinks) {
            let Some(at) = uplink.at else { continue };
            let table = self.tables.from.get(&at.switch);
            let new: BTreeMap<_, _> = table.into_iter().flatten().map(|(&to, vlans)| ((number, to), vlans.list())).collect();
            let gone = |to: &Reached| to.0 == number && !new.contains_key(to);
            for to in self.known.keys().copied().filter(gone).collect::<Vec<_>>() {
                self.known.remove(&to);
                changes.push((to, Vec::new()));
            }
            for (to, vlans) in new {
                if self.known.get(&to) != Some(&vlans) {
                    changes.push((to, vlans.clone()));
                    self.known.insert(to, vlans);
                }
            }
        }
        changes
    }

    /// What is wrong with the file, or that an interface leads to a switch that the file lacks.
    pub fn problem(&self, uplinks: &[Uplink]) -> Option<String> {
        let file = self.file.as_ref()?;
        if file.problem.is_some() {
            return file.problem.clone();
        }
        let tables = &self.tables.from;
        let lost = uplinks.iter().filter_map(|it| Some((it, it.at?.switch))).find(|(_, switch)| !tables.contains_key(switch));
        let (uplink, switch) = lost?;
        Some(format!(
            "SPAIN's tables have no paths from {switch}, to which {} leads: `weft spain --agents` makes them",
            uplink.device
        ))
    }
}

/// The tables of a file.
///
/// # Errors
/// [`Error`].
pub(super) fn read_tables(path: &Path) -> Result<SpainTables> {
    let text = fs::read_to_string(path).map_err(|cause| {
        let help = "`paths` names it; `weft spain SCENARIO --agents FILE` makes one";
        Error::Input { what: "the paths", path: path.to_owned(), cause, help }
    })?;
    SpainTables::parse(&text).map_err(|error| {
        let help = "docs/spain.md has the file's form";
        Error::Content { path: path.to_owned(), reason: error.to_string(), help }
    })
}
