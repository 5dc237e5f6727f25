//! Which ToRs are hot, and which racks with them (Subways section 6, "When to detour").
//!
//! A ToR that uses more than 60 % of its uplinks over a whole T_detect is hot for at least T_duration. What counts is the utilisation
//! before detours: traffic that detours to a ToR is left out there, and counted at the ToR over which it left its own rack, so that
//! detours neither spread heat nor hide its cause.

use crate::time::{Duration, Instant};

/// Until when each ToR of a loop is hot, in one direction.
#[derive(Clone, Debug)]
pub struct Heat {
    /// By position.
    until: Vec<Instant>,
}

impl Heat {
    /// All are cool.
    pub fn new(tors: usize) -> Self {
        Self { until: vec![Instant::ZERO; tors] }
    }

    /// A ToR's mean utilisation over the T_detect that ends at `now`.
    pub fn judge(&mut self, position: usize, utilisation: f64, threshold: f64, now: Instant, hot_for: Duration) {
        if utilisation > threshold {
            self.until[position] = now.saturating_add(hot_for);
        }
    }

    /// By position, at `now`.
    pub fn hot(&self, now: Instant) -> Vec<bool> {
        self.until.iter().map(|&t| now < t).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tor_stays_hot_for_a_while() {
        let ms = |n| Instant::ZERO + Duration::from_ms(n);
        let mut heat = Heat::new(2);
        heat.judge(0, 0.6, 0.6, ms(10), Duration::from_ms(100));
        heat.judge(1, 0.61, 0.6, ms(10), Duration::from_ms(100));
        assert_eq!(heat.hot(ms(10)), [false, true]);
        heat.judge(1, 0.0, 0.6, ms(20), Duration::from_ms(100));
        assert_eq!(heat.hot(ms(109)), [false, true]);
        assert_eq!(heat.hot(ms(110)), [false, false]);
    }
}
