//! The one place that reads a wall clock and the memory of this process: for figures that only `summary.json` holds.

#![expect(clippy::disallowed_methods, reason = "wall time is measured here and nowhere else")]

/// Wall time since it was made.
#[derive(Clone, Copy, Debug)]
pub struct Stopwatch(std::time::Instant);

impl Stopwatch {
    /// Starts.
    pub fn start() -> Self {
        Self(std::time::Instant::now())
    }

    /// Seconds since the start.
    pub fn seconds(&self) -> f64 {
        self.0.elapsed().as_secs_f64()
    }
}

/// The most memory that this process has had resident, in bytes; `None` where the system does not tell.
pub fn peak_rss_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|l| l.starts_with("VmHWM:"))?;
    let kib: u64 = line.split_ascii_whitespace().nth(1)?.parse().ok()?;
    Some(kib * 1024)
}

/// Forgets the peak, so that the next [`peak_rss_bytes`] tells of what follows. Without effect where the system refuses.
pub fn reset_peak_rss() {
    let _ = std::fs::write("/proc/self/clear_refs", "5");
}
