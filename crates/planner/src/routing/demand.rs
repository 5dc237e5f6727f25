//! The traffic that a command routes: matrices from a file, of a pattern, or of the scenario itself.

use std::path::PathBuf;

use clap::Args;
use weft_control::hedera::DemandEstimator;
use weft_experiment::scenario::Run;
use weft_experiment::scenario::traffic::Traffic;
use weft_experiment::scenario::traffic::matrices::Matrices;
use weft_fabric::Fabric;
use weft_fabric::traffic::RackWeights;

use crate::error::{Error, Result};
use crate::network::Network;
use crate::routing::matrix::{Matrix, Pattern};
use crate::routing::series::Series;
use crate::routing::volatile;

/// Arguments that name traffic.
#[derive(Debug, Default, Args)]
pub struct TrafficArgs {
    /// Traffic matrices: those of `weft analyze traffic --out DIR`, or a table t,src,dst,bps
    #[arg(long, value_name = "FILE.csv")]
    matrices: Option<PathBuf>,
    /// A pattern, hosts at the rate of their NICs [default: the scenario's own traffic, or uniform]
    #[arg(long, value_enum, conflicts_with = "matrices")]
    traffic: Option<Pattern>,
}

/// Rates between racks over time.
#[derive(Clone, Debug)]
pub struct Demand {
    /// What it is, in words.
    pub name: String,
    /// Starts in seconds, and rates; at least one.
    pub matrices: Vec<(f64, Matrix)>,
    /// Set if no name of a file is a rack of the fabric: its groups stand on the racks in order.
    pub in_order: bool,
    /// Whether it is the scenario's flows.
    pub is_of_flows: bool,
}

impl TrafficArgs {
    /// Whether they name any.
    pub fn is_given(&self) -> bool {
        self.matrices.is_some() || self.traffic.is_some()
    }

    /// The traffic on a fabric; `run` is the scenario's, if it describes one.
    ///
    /// # Errors
    /// A file that does not fit the fabric; no traffic between racks.
    pub fn on(&self, run: Option<&Run>, fabric: &std::sync::Arc<Fabric>, network: &Network) -> Result<Demand> {
        let mut demand = match (&self.matrices, self.traffic, run) {
            (Some(path), ..) => Demand::of_file(path, network)?,
            (_, Some(pattern), _) => Demand::of_pattern(pattern, network),
            (.., Some(run)) => Demand::of_run(run, fabric, network)?,
            _ => Demand::of_pattern(Pattern::Uniform, network),
        };
        demand.matrices.retain(|(_, matrix)| matrix.total() > 0.0);
        if demand.matrices.is_empty() {
            let message = format!("no traffic leaves its rack ({})", demand.name);
            return Err(Error::usage(message, "name traffic between racks with --matrices or --traffic"));
        }
        Ok(demand)
    }
}

impl Demand {
    fn of_file(path: &std::path::Path, network: &Network) -> Result<Self> {
        let Series { matrices, in_order, .. } = Series::read(path, network)?;
        Ok(Self { name: path.display().to_string(), matrices, in_order, is_of_flows: false })
    }

    fn of_pattern(pattern: Pattern, network: &Network) -> Self {
        Self { name: pattern.name().to_owned(), matrices: vec![(0.0, pattern.of(network))], in_order: false, is_of_flows: false }
    }

    /// Of a scenario: its matrices; else its flows at time 0, each with what its NICs leave it (Hedera, section 4.2).
    ///
    /// # Errors
    /// A file that does not fit the fabric.
    pub fn of_run(run: &Run, fabric: &std::sync::Arc<Fabric>, network: &Network) -> Result<Self> {
        let seed = run.scenario.world.seed;
        match &run.scenario.traffic {
            Traffic::Matrices(Matrices::File(path)) => Self::of_file(path, network),
            Traffic::Matrices(Matrices::Volatile(spec)) => {
                let name = format!("{} drawn patterns (VL2, section 3.3), seed {seed}", spec.patterns);
                Ok(Self { name, matrices: volatile::draw(spec, network, seed), in_order: false, is_of_flows: false })
            }
            traffic => {
                // The racks of a matrix are those of the fabric: checked.
                let flows = traffic.flows(fabric, seed)?;
                if let Some(weights) = traffic.rack_weights() {
                    return Ok(Self::of_weights(weights, network));
                }
                let keys = flows.first_keys();
                if keys.is_empty() {
                    let uniform = Self::of_pattern(Pattern::Uniform, network);
                    return Ok(Self { name: "uniform: the scenario has no flows at time 0".to_owned(), ..uniform });
                }
                let (src, dst): (Vec<u32>, Vec<u32>) = keys.iter().map(|k| (k.src.0, k.dst.0)).unzip();
                let nic: Vec<f64> = fabric.hosts().map(|h| fabric.nic_capacity(h).as_f64()).collect();
                let mut rates = Vec::new();
                let estimated = DemandEstimator::default().estimate(&src, &dst, &nic, &mut rates);
                estimated.map_err(|e| Error::usage(e.to_string(), "name other traffic with --traffic or --matrices"))?;
                let mut matrix = Matrix::zero(network.racks());
                for (key, rate) in keys.iter().zip(rates) {
                    let [src, dst] = [key.src, key.dst].map(|host| fabric.rack_of(host).index());
                    if src != dst {
                        *matrix.rate_mut(src, dst) += rate;
                    }
                }
                let name = "the scenario's flows at time 0".to_owned();
                Ok(Self { name, matrices: vec![(0.0, matrix)], in_order: false, is_of_flows: true })
            }
        }
    }

    fn of_weights(weights: &RackWeights, network: &Network) -> Self {
        let mut matrix = Matrix::zero(network.racks());
        for ((from, to), bps) in weights.cells().filter(|((from, to), _)| from != to) {
            *matrix.rate_mut(from as usize, to as usize) = bps;
        }
        Self {
            name: "the mean of the scenario's matrices".to_owned(),
            matrices: vec![(0.0, matrix)],
            in_order: false,
            is_of_flows: false,
        }
    }

    /// The mean over time.
    pub fn mean(&self) -> Matrix {
        let mut mean = Matrix::zero(self.matrices[0].1.racks());
        for (_, matrix) in &self.matrices {
            mean.add(matrix, 1.0 / self.matrices.len() as f64);
        }
        mean
    }
}
