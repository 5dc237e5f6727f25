//! By which VLANs edge switches are reached (section 3.4): what the configuration says, or a file with SPAIN's tables of all edge switches, of which
//! an interface takes those of the switch that it leads to.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::SystemTime;

use weft_control::netlord::UplinkId;
use weft_control::netlord::spain::SpainTables;
use weft_control::wire::packet::ethernet::VlanId;
use weft_fabric::MacAddr;

use super::Host;
use super::config::HostConfig;
use super::vifs::changed_at;
use crate::cli::{Error, Result};

/// The VLANs from each interface to each edge switch.
#[derive(Debug, Default)]
pub(super) struct Paths {
    pub known: BTreeMap<(UplinkId, MacAddr), Vec<VlanId>>,
    /// The file, as it was read last, and when it was changed.
    tables: SpainTables,
    tables_of: Option<SystemTime>,
    /// What is wrong with the file now.
    pub trouble: Option<String>,
}

impl Paths {
    /// What there is to begin with. A file is read when it is needed.
    pub fn new(config: &HostConfig) -> Self {
        let of = |path: &super::config::PathPart| ((config.uplink_of(path), path.switch), path.vlans());
        Self { known: config.path.iter().map(|path| of(path.get_ref())).collect(), ..Self::default() }
    }
}

impl Host {
    /// Tells a new machine all paths.
    pub(super) fn tell_paths(&mut self) {
        let now = self.now();
        for (&to, vlans) in &self.paths.known {
            self.agent.chooser_mut().set_table(now, to, vlans);
        }
    }

    /// Reads the file anew, if there is one and it has changed. What is wrong with a new one is told, and the old one holds.
    pub(super) fn look_at_paths(&mut self) {
        let Some(file) = self.config.paths.as_ref().map(|it| it.get_ref().clone()) else { return };
        let at = changed_at(&file);
        if at == self.paths.tables_of {
            return;
        }
        self.paths.tables_of = at;
        let (own, held) = (read_tables(&file), self.paths.tables.version);
        let trouble = match own {
            // The repository sends another.
            Err(_) if at.is_none() && self.config.has_repository() => None,
            Err(error) => Some(error.to_string()),
            Ok(tables) if tables.version < held => {
                Some(format!("{} has version {}, older than the {held} that holds", file.display(), tables.version))
            }
            Ok(tables) => {
                tracing::info!(version = tables.version, switches = tables.from.len(), "SPAIN's tables");
                self.paths.tables = tables;
                self.take_tables();
                None
            }
        };
        if let Some(trouble) = &trouble {
            tracing::warn!(trouble, "SPAIN's tables are not taken");
        }
        self.paths.trouble = trouble;
    }

    /// Interfaces that lead to a switch of which the file says nothing.
    pub(super) fn paths_problem(&self) -> Option<String> {
        self.config.paths.as_ref()?;
        let tables = &self.paths.tables.from;
        let lost =
            self.uplinks.iter().filter_map(|it| Some((it, it.at?.switch))).find(|(_, switch)| !tables.contains_key(switch));
        let (uplink, switch) = lost?;
        Some(format!(
            "SPAIN's tables have no paths from {switch}, to which {} leads: `weft spain --agents` makes them",
            uplink.device
        ))
    }

    /// Gives each interface the table of the switch that it leads to. One whose switch is not known keeps what it has.
    pub(super) fn take_tables(&mut self) {
        if self.config.paths.is_none() {
            return;
        }
        let now = self.now();
        for (number, uplink) in (0u8..).map(UplinkId).zip(&self.uplinks) {
            let Some(at) = uplink.at else { continue };
            let table = self.paths.tables.from.get(&at.switch);
            let new: BTreeMap<_, _> = table.into_iter().flatten().map(|(&to, vlans)| ((number, to), vlans.list())).collect();
            let gone = |to: &(UplinkId, MacAddr)| to.0 == number && !new.contains_key(to);
            for to in self.paths.known.keys().copied().filter(gone).collect::<Vec<_>>() {
                self.paths.known.remove(&to);
                self.agent.chooser_mut().set_table(now, to, &[]);
            }
            for (to, vlans) in new {
                if self.paths.known.get(&to) != Some(&vlans) {
                    self.agent.chooser_mut().set_table(now, to, &vlans);
                    self.paths.known.insert(to, vlans);
                }
            }
        }
    }
}

/// The tables of a file.
///
/// # Errors
/// [`Error`].
pub(super) fn read_tables(path: &Path) -> Result<SpainTables> {
    let text = fs::read_to_string(path).map_err(|error| {
        let help = "`paths` names it; `weft spain SCENARIO --agents FILE` makes one";
        Error::new(format!("cannot read the paths {}: {error}", path.display()), help)
    })?;
    SpainTables::parse(&text).map_err(|e| Error::new(format!("{}: {e}", path.display()), "docs/spain.md has the file's form"))
}
