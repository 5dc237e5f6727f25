//! The fabric of a scenario, or of a fabric file of any format, and its network of racks.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use toml::Value;
use weft_experiment::scenario::dotted::parse_set;
use weft_experiment::scenario::fabric::FabricSpec;
use weft_experiment::scenario::source::{Form, Overrides, Source, Variant};
use weft_experiment::scenario::{Run, read_fabric, read_fabric_of};
use weft_fabric::formats::topology;
use weft_fabric::{Fabric, Health};

use crate::error::{Error, Result};
use crate::network::Network;

/// The scenario that a command is about.
#[derive(Debug, Args)]
pub struct ScenarioArgs {
    /// A scenario, of which the fabric is read (`@...` is a bundled one), or a fabric file
    #[arg(value_name = "SCENARIO")]
    pub scenario: PathBuf,
    /// Override a key of the scenario: fabric.k=8
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = parse_set)]
    pub set: Vec<(String, Value)>,
}

/// A run of a scenario, as far as it is routed.
#[derive(Debug)]
pub struct Case {
    /// The swept settings.
    pub set: serde_json::Map<String, serde_json::Value>,
    /// All of it; `None` if the fabric alone was read.
    pub run: Option<Run>,
    /// What `[fabric]` asks for; `None` if a fabric file was read.
    pub spec: Option<FabricSpec>,
    /// The fabric.
    pub fabric: Arc<Fabric>,
    /// Its racks and switches.
    pub network: Network,
}

impl ScenarioArgs {
    /// Builds the fabric.
    ///
    /// # Errors
    /// What is wrong with the scenario.
    pub fn fabric(&self) -> Result<Fabric> {
        read(&self.scenario, &self.set)
    }

    /// The runs of a sweep, each with its traffic if that is asked for and the scenario describes it, and the scenario.
    ///
    /// # Errors
    /// What is wrong with the scenario; a fabric of a single rack.
    pub fn cases(&self, with_traffic: bool) -> Result<(Option<Source>, Vec<Case>)> {
        if !is_scenario(&self.scenario) {
            let (fabric, set) = (Arc::new(self.fabric()?), serde_json::Map::new());
            let network = network_of(&fabric, &self.scenario.display().to_string())?;
            return Ok((None, vec![Case { set, run: None, spec: None, fabric, network }]));
        }
        let source = self.source()?;
        let cases = cases_of(&source, with_traffic)?;
        Ok((Some(source), cases))
    }

    /// The first of its runs.
    ///
    /// # Errors
    /// As of [`Self::cases`].
    pub fn first_case(&self, with_traffic: bool) -> Result<Case> {
        Ok(self.cases(with_traffic)?.1.swap_remove(0))
    }

    fn source(&self) -> Result<Source> {
        Ok(Source::read(&self.scenario, &Overrides { form: Form::Plain, set: self.set.clone() })?)
    }
}

/// The runs of a scenario's sweep, each with its traffic if that is asked for and the scenario describes it.
///
/// # Errors
/// What is wrong with the scenario; a fabric of a single rack.
pub fn cases_of(source: &Source, with_traffic: bool) -> Result<Vec<Case>> {
    let case = |variant: Variant| {
        let spec = read_fabric_of(&variant, source)?;
        let fabric = Arc::new(spec.build().map_err(|e| source.at(e))?);
        let (network, set) = (network_of(&fabric, source.name())?, variant.set.clone());
        let has_traffic = with_traffic && variant.table.contains_key("traffic");
        let run = if has_traffic { Some(Run::read(variant, source)?) } else { None };
        Ok(Case { set, run, spec: Some(spec), fabric, network })
    };
    source.variants()?.into_iter().map(case).collect()
}

fn network_of(fabric: &Fabric, name: &str) -> Result<Network> {
    let network = Network::new(fabric, &Health::new(fabric));
    if network.racks() < 2 {
        let message = format!("{name}: all hosts are in one rack, so no traffic leaves it");
        return Err(Error::usage(message, "choose a fabric with several racks"));
    }
    Ok(network)
}

/// Whether a path names a scenario, and no fabric file.
pub fn is_scenario(path: &Path) -> bool {
    path.to_str().is_some_and(|path| path.starts_with('@')) || path.extension().is_some_and(|it| it == "toml")
}

/// Reads the fabric of a scenario, with these keys overridden, or of a fabric file.
///
/// # Errors
/// The file cannot be read, or is neither.
pub fn read(path: &Path, set: &[(String, Value)]) -> Result<Fabric> {
    if is_scenario(path) {
        let source = Source::read(path, &Overrides { form: Form::Plain, set: set.to_vec() })?;
        return Ok(read_fabric(&source)?.build().map_err(|e| source.at(e))?);
    }
    if let Some((key, _)) = set.first() {
        let message = format!("{} is a fabric file: it has no key `{key}`", path.display());
        return Err(Error::usage(message, "leave --set out, or name a scenario"));
    }
    let bytes = std::fs::read(path).map_err(|e| Error::io("read", path, e))?;
    let imported = topology::read(&bytes).map_err(|e| Error::input(path, format!("line {}", e.line), e.message, e.help))?;
    Ok(imported.fabric)
}
