//! What a study found, as metrics: a scenario's `[[expect]]` names them.

use weft_experiment::metrics::Metrics;

use super::report::TrafficReport;

impl TrafficReport {
    /// Those of flows, if the study is one of flows, and those of traffic matrices.
    pub fn metrics(&self, is_of_flows: bool) -> Metrics {
        let mut metrics = Metrics::default();
        if is_of_flows {
            self.put_flows(&mut metrics);
        }
        for (at, error) in self.clusters.fitting_error.iter().enumerate().take(MAX_CLUSTERS) {
            metrics.put_of("fitting_error", &(at + 1).to_string(), *error);
        }
        let mut runs = self.full.clusters.run_lengths();
        runs.sort_unstable();
        let sixtieth = (0.6 * runs.len() as f64).ceil() as usize;
        metrics.put_some("run_length_p60", runs.get(sixtieth.saturating_sub(1)).map(|&length| length as f64));
        metrics
    }

    fn put_flows(&self, metrics: &mut Metrics) {
        let sizes = &self.full.sizes;
        let ((flows_from, bytes_from), (_, bytes_above)) = (sizes.above(HUNDRED_MB - 1), sizes.above(10 * HUNDRED_MB));
        metrics.put("flows_below_100mb_fraction", 1.0 - flows_from);
        metrics.put("bytes_100mb_to_1gb_fraction", bytes_from - bytes_above);
        if let Some(concurrency) = &self.concurrency {
            metrics.put("concurrent_flows_p50", concurrency.all.p50);
            metrics.put("concurrent_above_80_fraction", concurrency.above_80);
            metrics.put("concurrent_above_100_fraction", self.full.concurrency.above(100).0);
        }
    }
}

/// Numbers of clusters with a metric.
const MAX_CLUSTERS: usize = 100;
const HUNDRED_MB: u64 = 100_000_000;
