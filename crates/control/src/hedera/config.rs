//! Settings of the scheduler and their limits.

use crate::hedera::annealing::per_flow::EnergyBy;
use crate::hedera::annealing::{Annealing, AnnealingPerFlow, Cooling};
use crate::hedera::demand::DemandError;
use crate::hedera::edge_coloring::EdgeColoring;
use crate::hedera::first_fit::FirstFit;
use crate::hedera::network::{Network, Place};
use crate::time::Duration;

/// Which algorithm places large flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Placer {
    /// Global First Fit (section 4.3).
    FirstFit,
    /// Simulated Annealing with a core a destination host (section 4.4).
    #[default]
    Annealing,
    /// Its baseline with a core a flow.
    AnnealingPerFlow,
    /// Colouring of edges, beyond the paper.
    EdgeColoring,
}

/// Settings of the scheduler. The defaults are the paper's but for the iterations.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HederaConfig {
    /// Time from one reading of the counters to the next (section 5.4: 5 s).
    pub period: Duration,
    /// Fraction of the source's NIC from which a flow is large (section 3.1: 0.1).
    pub threshold: f64,
    /// Which algorithm places large flows.
    pub placer: Placer,
    /// Iterations of Simulated Annealing in each round; `None`: by the number of flows ([`Cooling::iterations_for`]).
    /// `None` also lets a round start from First Fit's placement, and take it if it is better.
    // DEVIATION: the paper has 1,000 to 2,000,000 (table 3), and says that most of the gain is in the first 1,000. Here 1,000 are below
    // First Fit from 1,024 hosts up.
    pub iterations: Option<u32>,
    /// The paper's c as a multiple of T0, the number of iterations; `None` for the paper's choice (section 4.4): 0.5 for up to 16
    /// hosts, 1000 above.
    pub c: Option<f64>,
    /// Of the run; the scheduler draws from its stream `Scheduler`.
    pub seed: u64,
}

impl Default for HederaConfig {
    fn default() -> Self {
        Self { period: Duration::from_secs(5), threshold: 0.1, placer: Placer::default(), iterations: None, c: None, seed: 1 }
    }
}

/// What the scheduler cannot work with.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[allow(missing_docs)]
pub enum HederaError {
    #[error("the scheduling period is 0: give it a time, such as 5s")]
    Period,
    #[error("the threshold {0} is not a fraction of the NIC: it lies above 0 and at most at 1")]
    Threshold(f64),
    #[error("c = {0} times T0: it is a positive number, 0.5 for 16 hosts and 1000 for more in the paper")]
    C(f64),
    #[error(transparent)]
    Flows(#[from] DemandError),
}

impl HederaConfig {
    /// Refuses settings that mean nothing.
    ///
    /// # Errors
    /// [`HederaError`], naming the first wrong setting.
    pub fn check(&self) -> Result<(), HederaError> {
        if self.period == Duration::ZERO {
            return Err(HederaError::Period);
        }
        if !(self.threshold > 0.0 && self.threshold <= 1.0) {
            return Err(HederaError::Threshold(self.threshold));
        }
        match self.c {
            Some(c) if !(c > 0.0 && c.is_finite()) => Err(HederaError::C(c)),
            _ => Ok(()),
        }
    }

    fn cooling(&self, network: &Network) -> Cooling {
        let c = self.c.unwrap_or_else(|| Cooling::c_for(network.fabric().host_count()));
        Cooling { iterations: self.iterations, c }
    }

    /// The algorithm with an empty memory.
    pub(crate) fn placer(&self, network: &Network) -> Box<dyn Place> {
        match self.placer {
            Placer::FirstFit => Box::new(FirstFit::new(network)),
            Placer::Annealing => Box::new(Annealing::new(network, self.cooling(network), self.seed)),
            Placer::EdgeColoring => Box::new(EdgeColoring::new(network)),
            Placer::AnnealingPerFlow => Box::new(AnnealingPerFlow::new(self.cooling(network), EnergyBy::Increments, self.seed)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_that_mean_nothing_are_refused() {
        let good = HederaConfig::default();
        assert_eq!(good.check(), Ok(()));
        assert_eq!(HederaConfig { period: Duration::ZERO, ..good }.check(), Err(HederaError::Period));
        assert_eq!(HederaConfig { threshold: 0.0, ..good }.check(), Err(HederaError::Threshold(0.0)));
        assert!(HederaConfig { threshold: f64::NAN, ..good }.check().is_err());
        assert_eq!(HederaConfig { c: Some(-1.0), ..good }.check(), Err(HederaError::C(-1.0)));
    }
}
