//! What the kernel should have and what it has are compared every few seconds: somebody may have removed a queueing discipline, a pin or an entry, or created an
//! interface again. What was put back is logged, counted and shown by `status`.

use std::time::{Duration, Instant};

use metrics::counter;
use serde_json::{Value, json};

use crate::dataplane::{PlaneError, Restored};

/// When to look, and what was found.
#[derive(Debug)]
pub(crate) struct Reconciler {
    due: Instant,
    total: u64,
    /// What was put back last, and when.
    last: Option<(Instant, String)>,
    /// Why something could not be put back.
    error: Option<String>,
}

impl Default for Reconciler {
    fn default() -> Self {
        Self { due: Instant::now() + EVERY, total: 0, last: None, error: None }
    }
}

impl Reconciler {
    /// Whether it is time to look; if so, the next look is later.
    pub fn is_due(&mut self) -> bool {
        let is_due = self.due <= Instant::now();
        if is_due {
            self.due = Instant::now() + EVERY;
        }
        is_due
    }

    /// What came of a look.
    pub fn record(&mut self, done: Result<Vec<Restored>, PlaneError>) {
        match done {
            Ok(all) => {
                if self.error.take().is_some() {
                    tracing::info!("the kernel has again what it should have");
                }
                for restored in &all {
                    tracing::warn!("put back into the kernel: {restored}; something else had removed or changed it");
                    counter!("weft_agent_restored_total", "what" => restored.kind()).increment(1);
                }
                self.total += all.len() as u64;
                if let Some(restored) = all.last() {
                    self.last = Some((Instant::now(), restored.to_string()));
                }
            }
            Err(error) => {
                let text = error.to_string();
                if self.error.as_ref() != Some(&text) {
                    tracing::error!("cannot put back into the kernel what it should have: {text}");
                }
                self.error = Some(text);
            }
        }
    }

    /// For the verdict: what cannot be put back, or was a short time ago.
    pub fn problem(&self) -> Option<String> {
        if let Some(error) = &self.error {
            return Some(format!("the kernel lacks what it should have: {error}"));
        }
        let (at, what) = self.last.as_ref().filter(|(at, _)| at.elapsed() < SHOWN)?;
        let ago = at.elapsed().as_secs();
        Some(format!("put back {ago} s ago: {what} (does another program manage this interface?)"))
    }

    /// For `status`.
    pub fn status(&self) -> Value {
        let last = self.last.as_ref().map(|(at, what)| json!({ "what": what, "age_s": at.elapsed().as_secs() }));
        json!({ "total": self.total, "last": last, "error": self.error })
    }
}

/// Between two looks.
const EVERY: Duration = Duration::from_secs(3);
/// What was put back is a problem for so long.
const SHOWN: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_put_back_is_shown_and_an_error_until_it_is_over() {
        let mut it = Reconciler::default();
        assert!(!it.is_due() && it.problem().is_none());
        it.record(Ok(vec![Restored::Program { program: "vl2_in", hook: "ingress", device: "eth0".to_owned() }]));
        assert!(it.problem().is_some_and(|text| text.contains("put back 0 s ago: the program vl2_in on ingress of eth0")));
        it.record(Err(PlaneError::NoInterface("eth0".to_owned())));
        assert!(it.problem().is_some_and(|text| text.contains("lacks") && text.contains("eth0")));
        it.record(Ok(Vec::new()));
        assert!(it.problem().is_some_and(|text| text.contains("put back")));
        assert_eq!((&it.status()["total"], &it.status()["error"]), (&1.into(), &Value::Null));
    }
}
