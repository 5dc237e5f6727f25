//! `weft.fabric`: a fabric as columns of nodes and links.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use numpy::PyArray1;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use toml::{Table, Value};
use weft_experiment::scenario::fabric::FabricSpec;
use weft_experiment::scenario::read_fabric;
use weft_experiment::scenario::source::{Overrides, Source};
use weft_experiment::{Error, Result, bundle};
use weft_fabric::formats::topology::{self, Export};
use weft_fabric::topology::Metrics;
use weft_fabric::{Fabric, NodeId};

use crate::error::from_experiment;
use crate::scenario::{overrides, parse};

/// A fabric that has been built.
#[pyclass(frozen, module = "weft._weft")]
pub struct FabricHandle(Arc<Fabric>, FabricSpec);

#[pymethods]
impl FabricHandle {
    /// Builds the fabric of a kind, or of a scenario file. `settings` is JSON, a list of pairs of dotted keys and values.
    #[new]
    fn new(py: Python<'_>, kind: &str, folder: PathBuf, settings: &str) -> PyResult<Self> {
        let overrides = overrides(settings, "plain").map_err(|e| from_experiment(&e))?;
        let (fabric, spec) = py.detach(|| build(kind, folder, &overrides)).map_err(|e| from_experiment(&e))?;
        Ok(Self(Arc::new(fabric), spec))
    }

    /// What it is, in a line.
    fn title(&self) -> &str {
        self.0.title()
    }

    /// Columns of all nodes, hosts first; `pod` is -1 for roots, `rack` for switches.
    fn nodes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let fabric = &*self.0;
        let columns = PyDict::new(py);
        let names: Vec<&str> = fabric.nodes().iter().map(|n| &*n.name).collect();
        columns.set_item("name", names)?;
        columns.set_item("tier", PyArray1::from_iter(py, fabric.nodes().iter().map(|n| n.tier)))?;
        columns.set_item("pod", PyArray1::from_iter(py, fabric.nodes().iter().map(|n| n.pod.map_or(-1, i64::from))))?;
        let rack = |i: usize| fabric.as_host(NodeId::from(i)).map_or(-1, |h| i64::from(fabric.rack_of(h).0));
        columns.set_item("rack", PyArray1::from_iter(py, (0..fabric.nodes().len()).map(rack)))?;
        Ok(columns)
    }

    /// Columns of all directed links, by id; `from` and `to` are node ids.
    fn links<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let links = self.0.links();
        let columns = PyDict::new(py);
        columns.set_item("from", PyArray1::from_iter(py, links.iter().map(|l| l.from.0)))?;
        columns.set_item("to", PyArray1::from_iter(py, links.iter().map(|l| l.to.0)))?;
        columns.set_item("capacity_bps", PyArray1::from_iter(py, links.iter().map(|l| l.capacity.0)))?;
        columns.set_item("delay_s", PyArray1::from_iter(py, links.iter().map(|l| l.delay.as_secs_f64())))?;
        Ok(columns)
    }

    /// Counts, over-subscription, bisection and path diversity: what `weft topo --json` prints.
    fn metrics(&self, py: Python<'_>) -> String {
        let metrics = py.detach(|| Metrics::of(&self.0));
        serde_json::to_string(&metrics).expect("metrics are JSON")
    }

    /// Lengths of the cables and what all costs: what `weft topo subways --cabling --json` prints. `floor` is JSON, the keys of the floor plan.
    #[pyo3(signature = (*, prices, floor))]
    fn cabling(&self, py: Python<'_>, prices: Option<PathBuf>, floor: &str) -> PyResult<String> {
        let floor: Table = parse(floor, "the floor plan").map_err(|e| from_experiment(&e))?;
        let survey = py.detach(|| weft_experiment::subways::cabling(&self.1, &floor, prices.as_deref()));
        Ok(serde_json::to_string(&survey.map_err(|e| from_experiment(&e))?).expect("a survey is JSON"))
    }

    /// The steps to another fabric: what `weft topo subways --upgrade-to --json` prints.
    fn upgrade_to(&self, py: Python<'_>, other: &Self) -> PyResult<String> {
        let plan = py.detach(|| weft_experiment::subways::upgrade(&self.1, &other.1)).map_err(|e| from_experiment(&e))?;
        Ok(serde_json::to_string(&plan).expect("a plan is JSON"))
    }

    /// The fabric as another tool's text.
    fn export(&self, py: Python<'_>, format: &str) -> PyResult<String> {
        let Some(&(_, export)) = EXPORTS.iter().find(|(name, _)| *name == format) else {
            let names: Vec<&str> = EXPORTS.iter().map(|(name, _)| *name).collect();
            let error = Error::no_such("format", format, &names);
            return Err(from_experiment(&error));
        };
        py.detach(|| topology::write(&self.0, export)).map_err(|e| from_experiment(&Error::usage(e.to_string(), e.help)))
    }
}

const EXPORTS: &[(&str, Export)] = &[
    ("dot", Export::Dot),
    ("graphml", Export::GraphMl),
    ("containerlab", Export::Containerlab),
    ("htsim", Export::Htsim),
    ("hpcc", Export::Hpcc),
    ("native", Export::Native),
];

fn build(kind: &str, folder: PathBuf, overrides: &Overrides) -> Result<(Fabric, FabricSpec)> {
    let source = if bundle::is_file(Path::new(kind)) {
        Source::read(Path::new(kind), overrides)?
    } else {
        let fabric = Table::from_iter([("kind".to_owned(), Value::String(kind.to_owned()))]);
        Source::from_table(Table::from_iter([("fabric".to_owned(), Value::Table(fabric))]), folder, overrides)?
    };
    let spec = read_fabric(&source)?;
    let fabric = spec.build().map_err(|e| source.at(e))?;
    Ok((fabric, spec))
}
