//! What [`Levels`](super::levels) keeps of a link, and when the link's level is right.

use crate::flow::maxmin::sum::{Change, Sum};

/// What a change of a flow's rate needs to know of a link: half a cache line, because most of the time goes into waiting for these.
#[derive(Clone, Debug)]
#[repr(align(32))]
pub(super) struct Link {
    /// The rate of the flows that it holds; infinite if it may hold none.
    pub level: f64,
    /// What the flows that other links hold leave of the capacity.
    pub free: Sum,
    /// At least the highest rate of those flows.
    pub peak: f32,
    /// Number of flows that it holds.
    pub held: u32,
}

/// What else is known of a link.
#[derive(Clone, Debug)]
pub(super) struct Rest {
    pub capacity: f64,
    /// Repair to which `raises` belongs.
    pub repair: u16,
    /// How often its level rose in this repair.
    pub raises: u8,
    pub dirty: bool,
}

impl Link {
    /// Without flows.
    pub fn new(capacity: f64) -> Self {
        Self { level: f64::INFINITY, free: Sum::new(capacity), peak: 0.0, held: 0 }
    }

    /// The rate of a flow that another link holds has changed.
    pub fn note(&mut self, change: Change, rate: f64) {
        self.free.subtract(change);
        self.raise_peak(rate);
    }

    /// Another link holds a flow of this rate.
    pub fn raise_peak(&mut self, rate: f64) {
        if rate > f64::from(self.peak) {
            self.peak = (rate as f32).next_up();
        }
    }

    /// Whether its level, if not right, is too low.
    pub fn rises(&self, rest: &Rest) -> bool {
        let free = self.free.value();
        if self.held > 0 { free > self.level * f64::from(self.held) } else { free >= -ROUNDING * rest.capacity }
    }

    /// The key under which a link waits for another level: the lower one of its old level and, estimated, the new one; `None` if the level is right.
    pub fn wants(&self, tolerance: f64, rest: &Rest) -> Option<f64> {
        let free = self.free.value();
        if self.held == 0 {
            return if free < 0.0 && free < -ROUNDING * rest.capacity {
                Some((f64::from(self.peak) + free).max(0.0).min(self.level))
            } else {
                (self.level < f64::INFINITY).then_some(self.level)
            };
        }
        let held = f64::from(self.held);
        let used = self.level * held;
        if free - used > used * tolerance.max(ROUNDING) {
            Some(self.level)
        } else if used - free > used * ROUNDING {
            Some((free / held).max(0.0))
        } else {
            None
        }
    }
}

impl Rest {
    /// Without flows.
    pub fn new(capacity: f64) -> Self {
        Self { capacity, repair: 0, raises: 0, dirty: false }
    }
}

/// The x at which so many flows without limits, and those with limits, fill what is free; infinity if they cannot.
pub(super) fn water_level(limits: &mut Vec<f64>, unlimited: usize, mut free: Sum) -> f64 {
    loop {
        let before = limits.len();
        if before + unlimited == 0 {
            return f64::INFINITY;
        }
        let share = free.value() / (before + unlimited) as f64;
        limits.retain(|&limit| {
            let below = limit < share;
            if below {
                free.subtract(Change::new(limit, 0.0));
            }
            !below
        });
        if limits.len() == before {
            return share.max(0.0);
        }
    }
}

/// Whether a level is the one due but for rounding, or below it by no more than the tolerance.
pub(super) fn agree(level: f64, due: f64, tolerance: f64) -> bool {
    level == due || (level - due).abs() <= ROUNDING * level.min(due) || (level < due && level >= due * (1.0 - tolerance))
}

/// Levels that differ by less, relatively, are the same.
pub(super) const ROUNDING: f64 = 1e-13;
