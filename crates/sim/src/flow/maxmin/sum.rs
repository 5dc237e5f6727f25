//! Sums of very many terms that come and go.

/// A sum of floats with an error of 1e-32 of the terms: a float for the sum, and one for what rounding has cut off it.
///
/// A term that was added and subtracted again leaves nothing behind, so a sum may be kept for as long as a run lasts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sum {
    high: f64,
    low: f64,
}

/// The difference of two terms, without rounding.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Change {
    by: f64,
    rest: f64,
}

impl Sum {
    pub fn new(value: f64) -> Self {
        Self { high: value, low: 0.0 }
    }

    pub fn value(self) -> f64 {
        self.high + self.low
    }

    pub fn add(&mut self, change: Change) {
        let (high, rest) = two_sum(self.high, change.by);
        self.high = high;
        self.low += rest + change.rest;
    }

    pub fn subtract(&mut self, change: Change) {
        self.add(Change { by: -change.by, rest: -change.rest });
    }
}

impl Change {
    /// The term that was `was` is `is` now.
    pub fn new(is: f64, was: f64) -> Self {
        let (by, rest) = two_sum(is, -was);
        Self { by, rest }
    }
}

/// A sum, and what rounding has cut off it (Knuth: The Art of Computer Programming 2, section 4.2.2).
fn two_sum(a: f64, b: f64) -> (f64, f64) {
    let sum = a + b;
    let of_b = sum - a;
    (sum, (a - (sum - of_b)) + (b - of_b))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Many changes of three terms, and back again: as if nothing had been.
        #[test]
        fn nothing_is_left_behind(values in proptest::collection::vec((0usize..3, 0.0..1e11f64), 0..300), start in 0.0..1e11f64) {
            let mut sum = Sum::new(start);
            let mut terms = [0.0; 3];
            for (term, is) in values.into_iter().chain([(0, 0.0), (1, 0.0), (2, 0.0)]) {
                sum.add(Change::new(is, std::mem::replace(&mut terms[term], is)));
            }
            prop_assert!((sum.value() - start).abs() <= 1e-16 * start, "{} {start}", sum.value());
        }
    }
}
