//! The fabric of a scenario, or of a fabric file of any format, and its network of racks.

use std::path::{Path, PathBuf};

use clap::Args;
use toml::Value;
use weft_experiment::scenario::read_fabric;
use weft_experiment::scenario::source::{Form, Overrides, Source, parse_value};
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

impl ScenarioArgs {
    /// Builds the fabric.
    ///
    /// # Errors
    /// What is wrong with the scenario.
    pub fn fabric(&self) -> Result<Fabric> {
        read(&self.scenario, &self.set)
    }

    /// Builds the fabric, and its network of racks.
    ///
    /// # Errors
    /// What is wrong with the scenario; a fabric of a single rack.
    pub fn network(&self) -> Result<(Fabric, Network)> {
        let fabric = self.fabric()?;
        let network = Network::new(&fabric, &Health::new(&fabric));
        if network.racks() < 2 {
            let message = format!("{}: all hosts are in one rack, so no traffic leaves it", self.scenario.display());
            return Err(Error::usage(message, "choose a fabric with several racks"));
        }
        Ok((fabric, network))
    }
}

/// Reads the fabric of a scenario, with these keys overridden, or of a fabric file.
///
/// # Errors
/// The file cannot be read, or is neither.
pub fn read(path: &Path, set: &[(String, Value)]) -> Result<Fabric> {
    let is_bundled = path.to_str().is_some_and(|path| path.starts_with('@'));
    if is_bundled || path.extension().is_some_and(|it| it == "toml") {
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

fn parse_set(text: &str) -> std::result::Result<(String, Value), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.trim().is_empty() => Ok((key.trim().to_owned(), parse_value(value.trim()))),
        _ => Err("write KEY=VALUE, such as fabric.k=8".to_owned()),
    }
}
