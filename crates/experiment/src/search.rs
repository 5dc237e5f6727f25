//! Finds the largest setting that still meets a bound: `[search]` of a scenario.
//!
//! ```text
//!   from   2 from   4 from     8 from            each twice the last, until one misses the bound: no trial is
//!    met    met      met        missed           far above the answer, where runs are the longest
//!                     |----|----|                then halved, until both sides are near enough
//!                         met  missed
//! ```
//! It assumes that a larger setting never meets a bound that a smaller one misses. [`crate::trials`] runs the trials.

use serde::{Serialize, Serializer};

use crate::scenario::search::{Limit, Search};

/// What a search found, as `--json` prints it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Finding {
    /// The key that was tried.
    pub key: String,
    /// The metric that has to meet the bound.
    pub metric: String,
    /// The bound, if it is an upper bound.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at_most: Option<f64>,
    /// The bound, if it is a lower bound.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at_least: Option<f64>,
    /// The largest value that met it; `None`: not even `from` does.
    #[serde(serialize_with = "as_written")]
    pub value: Option<f64>,
    /// The smallest value that missed it; `None`: the whole range meets it.
    #[serde(serialize_with = "as_written")]
    pub fails_at: Option<f64>,
    /// Runs that it took.
    pub trials: u32,
}

/// Whole numbers without a point, as in `set`.
fn as_written<S: Serializer>(value: &Option<f64>, serializer: S) -> Result<S::Ok, S::Error> {
    value.map(crate::metrics::whole).serialize(serializer)
}

/// The values between which the answer lies, as far as is known.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Bracket {
    /// The largest that met the bound.
    pub met: Option<f64>,
    /// The smallest that missed it.
    pub missed: Option<f64>,
    /// Trials so far.
    pub trials: u32,
}

impl Bracket {
    /// The next value to try; `None` at the end.
    pub fn next(&self, search: &Search) -> Option<f64> {
        if self.trials >= search.trials {
            return None;
        }
        match (self.met, self.missed) {
            (None, None) => Some(search.from),
            (None, Some(_)) => None,
            (Some(met), None) => (met < search.to).then(|| (2.0 * met).min(search.to)),
            (Some(met), Some(missed)) => {
                let middle = if search.whole { libm::floor((met + missed) / 2.0) } else { rounded((met + missed) / 2.0) };
                (missed - met > search.precision * met && middle > met && middle < missed).then_some(middle)
            }
        }
    }

    /// Records a trial, and whether it met the bound.
    pub fn record(&mut self, value: f64, met: bool) {
        self.trials += 1;
        *(if met { &mut self.met } else { &mut self.missed }) = Some(value);
    }

    /// The outcome of the search.
    pub fn finding(&self, search: &Search) -> Finding {
        let (at_most, at_least) = match search.bound {
            Limit::AtMost(bound) => (Some(bound), None),
            Limit::AtLeast(bound) => (None, Some(bound)),
        };
        Finding {
            key: search.key.clone(),
            metric: search.metric.clone(),
            at_most,
            at_least,
            value: self.met,
            fails_at: self.missed,
            trials: self.trials,
        }
    }
}

/// Six digits are more than any precision needs, and read better.
fn rounded(value: f64) -> f64 {
    format!("{value:.5e}").parse().unwrap_or(value)
}

/// Trials if the whole range has to be searched.
pub fn expected_trials(search: &Search) -> u32 {
    let doublings = libm::ceil(libm::log2(search.to / search.from)) as u32 + 1;
    let halvings = libm::ceil(-libm::log2(search.precision)) as u32;
    (doublings + halvings).min(search.trials)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn search(from: f64, to: f64, whole: bool) -> Search {
        Search {
            key: "traffic.load".to_owned(),
            metric: "fct_mean_s".to_owned(),
            bound: Limit::AtMost(1.0),
            from,
            to,
            whole,
            unit: None,
            precision: 0.01,
            trials: 60,
        }
    }

    fn walk(search: &Search, limit: f64) -> (Bracket, Vec<f64>) {
        let (mut bracket, mut tried) = (Bracket::default(), Vec::new());
        while let Some(value) = bracket.next(search) {
            tried.push(value);
            bracket.record(value, value <= limit);
        }
        (bracket, tried)
    }

    #[test]
    fn the_ends_of_the_range_are_distinguished() {
        let search = search(1.0, 10.0, false);
        assert_eq!(walk(&search, 0.5), (Bracket { met: None, missed: Some(1.0), trials: 1 }, vec![1.0]));
        assert_eq!(walk(&search, 50.0), (Bracket { met: Some(10.0), missed: None, trials: 5 }, vec![1.0, 2.0, 4.0, 8.0, 10.0]));
    }

    #[test]
    fn whole_numbers_are_found_exactly_where_the_precision_asks_for_it() {
        let mut search = search(1.0, 1000.0, true);
        search.precision = 1e-4;
        for limit in 1..1000 {
            let (bracket, tried) = walk(&search, f64::from(limit) + 0.5);
            assert_eq!((bracket.met, bracket.missed), (Some(f64::from(limit)), Some(f64::from(limit + 1))));
            assert!(tried.iter().all(|v| v.fract() == 0.0) && tried.len() <= 21, "{tried:?}");
        }
    }

    #[test]
    fn trials_are_bounded() {
        let search = Search { trials: 7, ..search(1e-6, 1e6, false) };
        assert_eq!(walk(&search, 123.0).1.len(), 7);
    }

    proptest! {
        /// A slow reference is the limit itself: it lies between the two sides, which are as near as asked.
        #[test]
        fn the_answer_lies_between_near_sides(from in 1e-6f64..1e3, factor in 1.01f64..1e6, part in 0.0f64..1.0) {
            let search = search(from, from * factor, false);
            let limit = from * factor.powf(part);
            let (bracket, tried) = walk(&search, limit);
            let met = bracket.met.unwrap();
            prop_assert!(met <= limit);
            if let Some(missed) = bracket.missed {
                prop_assert!(missed > limit && missed - met <= 0.0101 * met);
            } else {
                prop_assert_eq!(met, search.to);
            }
            prop_assert!(tried.len() as u32 <= expected_trials(&search) + 1, "{} of {}", tried.len(), expected_trials(&search));
            prop_assert!(tried.iter().all(|&v| v <= 2.0 * limit.max(from)), "no trial is far above the answer");
        }
    }
}
