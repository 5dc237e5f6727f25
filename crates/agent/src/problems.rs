//! The problems that `status` shows, in the log: a line when one begins, and one when it is over. Their number is a metric.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use metrics::gauge;

/// The problems that the log knows.
#[derive(Debug, Default)]
pub(crate) struct ProblemLog {
    /// Since when each lasts, and whether it was logged.
    known: BTreeMap<String, (Instant, bool)>,
}

impl ProblemLog {
    /// `problems`: those of now, which read the same while they last. `all`: the number of all of them, for the metric.
    pub fn update(&mut self, problems: Vec<String>, all: usize) {
        gauge!("weft_agent_problems").set(all as f64);
        let now = Instant::now();
        self.known.retain(|problem, (_, is_logged)| {
            let lasts = problems.contains(problem);
            if !lasts && *is_logged {
                tracing::info!("no longer a problem: {problem}");
            }
            lasts
        });
        for problem in problems {
            let (since, is_logged) = self.known.entry(problem.clone()).or_insert((now, false));
            // What is over in a moment, as at the start, is none.
            if !*is_logged && now.duration_since(*since) >= SETTLE {
                *is_logged = true;
                tracing::warn!("{problem}");
            }
        }
    }
}

const SETTLE: Duration = Duration::from_secs(2);
