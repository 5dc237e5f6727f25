//! By which VLANs edge switches are reached (section 3.4): what the configuration says, or a file with SPAIN's tables of all edge switches, of which
//! an interface takes those of the switch that it leads to.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use weft_control::netlord::UplinkId;
use weft_control::netlord::spain::SpainTables;
use weft_control::wire::packet::ethernet::VlanId;
use weft_fabric::MacAddr;

use super::Host;
use super::config::HostConfig;
use super::watched::Watched;
use crate::cli::{Error, Result};

/// The VLANs from each interface to each edge switch.
#[derive(Debug)]
pub(super) struct Paths {
    pub known: BTreeMap<(UplinkId, MacAddr), Vec<VlanId>>,
    /// The file, if there is one, and its tables.
    file: Option<Watched>,
    tables: SpainTables,
}

impl Paths {
    /// What there is to begin with. A file is read when it is needed.
    pub fn new(config: &HostConfig) -> Self {
        let of = |path: &super::config::PathPart| ((config.uplink_of(path), path.switch), path.vlans());
        let file = config.paths.as_ref().map(|it| Watched::new(it.get_ref().clone()));
        Self { known: config.path.iter().map(|path| of(path.get_ref())).collect(), file, tables: SpainTables::default() }
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
        let (held, comes) = (self.paths.tables.version, self.config.has_repository());
        let Some(file) = &mut self.paths.file else { return };
        let Some(tables) = file.newer(held, comes, read_tables, |it| it.version) else { return };
        tracing::info!(version = tables.version, switches = tables.from.len(), "SPAIN's tables");
        self.paths.tables = tables;
        self.take_tables();
    }

    /// What is wrong with the file, or that an interface leads to a switch of which it says nothing.
    pub(super) fn paths_problem(&self) -> Option<String> {
        let file = self.paths.file.as_ref()?;
        if file.trouble.is_some() {
            return file.trouble.clone();
        }
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
        if self.paths.file.is_none() {
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
