//! CUBIC (RFC 9438): the window follows a cubic function of the time since the last congestion event.
//!
//! ```text
//!   W(t) = C (t - K)^3 + W_max        K: when it reaches again W_max, the window before the event
//! ```

/// CUBIC's state of a connection. Windows are in segments, times in seconds where they are `f64`.
#[derive(Clone, Debug, Default)]
pub(in crate::packet::tcp) struct Cubic {
    /// The window before the last congestion event, less if it had not reached the one before (fast convergence).
    w_max: f64,
    /// The window just before the last congestion event.
    prior: f64,
    /// When congestion avoidance began after that event, in picoseconds; `None` before it begins.
    epoch: Option<u64>,
    k: f64,
    /// The window that Reno would have.
    w_est: f64,
    /// What the window has in addition to whole segments.
    fraction: f64,
}

impl Cubic {
    /// A congestion event with this window and so many segments under way: returns the new threshold (sections 4.6 and 4.7).
    pub fn reduce(&mut self, window: u32, flight: u32) -> u32 {
        let window = f64::from(window);
        self.w_max = if window < self.w_max { window * (1.0 + BETA) / 2.0 } else { window };
        self.prior = window;
        self.epoch = None;
        self.fraction = 0.0;
        ((f64::from(flight) * BETA) as u32).max(2)
    }

    /// A timeout: the next congestion avoidance begins on the plateau (section 4.8).
    pub fn on_timeout(&mut self) {
        self.w_max = 0.0;
    }

    /// Segments were acknowledged in congestion avoidance; returns the new window (sections 4.2 to 4.5).
    pub fn grow(&mut self, window: u32, acked: u32, now: u64, srtt: u64) -> u32 {
        let cwnd = f64::from(window) + self.fraction;
        let begin = *self.epoch.get_or_insert_with(|| {
            self.w_max = self.w_max.max(cwnd);
            self.k = libm::cbrt((self.w_max - cwnd) / C);
            self.w_est = cwnd;
            now
        });
        let since = seconds(now - begin);
        let alpha = if self.w_est < self.prior { 3.0 * (1.0 - BETA) / (1.0 + BETA) } else { 1.0 };
        self.w_est += alpha * f64::from(acked) / cwnd;
        let next = if self.at(since) < self.w_est {
            self.w_est.max(cwnd)
        } else {
            // DEVIATION: section 4.4 adds this once per acknowledgement, which is slower with delayed ones.
            let target = self.at(since + seconds(srtt)).clamp(cwnd, 1.5 * cwnd);
            cwnd + (target - cwnd) / cwnd * f64::from(acked)
        };
        self.fraction = next - next.floor();
        next as u32
    }

    /// The cubic function (section 4.2, figure 1).
    fn at(&self, since: f64) -> f64 {
        let t = since - self.k;
        C * t * t * t + self.w_max
    }
}

fn seconds(ps: u64) -> f64 {
    ps as f64 / 1e12
}

/// Segments per cubic second (section 5.1).
pub(in crate::packet::tcp) const C: f64 = 0.4;
/// What is left of the window after a congestion event (section 4.6).
pub(in crate::packet::tcp) const BETA: f64 = 0.7;
