//! Settings of the controller and their limits.

use crate::time::Duration;

/// Settings of [`Subways`](super::Subways). The defaults are the paper's where it gives a value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SubwaysConfig {
    /// T_rebind: from one reading of the counters to the next (section 8.1: 10 ms).
    pub period: Duration,
    /// Weight of the newest reading in the moving average of utilisations, above 0 and at most 1.
    pub ewma_gain: f64,
    /// c of section 5.2: how far one rebinding goes towards the even split, 0 to 1 (0.5).
    pub aggressiveness: f64,
    /// In a rebinding no utilisation counts as less than this, nor a host's share of a path that has room.
    pub utilisation_floor: f64,
    /// Which connections a rebinding redraws.
    pub rebind: Rebind,
    /// A connection moves once it has paused for so long; zero: at once.
    pub flowlet_gap: Duration,
    /// Detours (section 6), or balancing alone.
    pub detour: Option<DetourConfig>,
    /// Of the run; the controller draws from its stream `Scheduler`.
    pub seed: u64,
}

/// Which connections a rebinding redraws.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Rebind {
    /// As few as bring a host's connections to the wanted split: each of a crowded ToR is drawn with the probability that leaves there
    /// what is wanted, and goes where some are missing. The others stay.
    #[default]
    Surplus,
    /// All of them, as the paper's text reads.
    All,
}

/// Settings of detours. The defaults are the paper's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DetourConfig {
    /// T_detect: a ToR is judged by its mean utilisation over so long (10 ms).
    pub detect: Duration,
    /// T_duration: the shortest time for which a ToR counts as hot (100 ms).
    pub hot_duration: Duration,
    /// Fraction of its uplinks' capacity above which a ToR is hot (0.6).
    pub hot_threshold: f64,
    /// Fraction of what remains of a remote ToR's uplinks that detours may use (0.6).
    pub usable: f64,
    /// A detour passes at most so many servers (2).
    pub max_servers: usize,
    /// Whether the racks at the edges of a hot group leave the ToRs that its other members depend on (true).
    pub edge_rule: bool,
}

impl Default for SubwaysConfig {
    fn default() -> Self {
        Self {
            period: Duration::from_ms(10),
            ewma_gain: 0.5,
            aggressiveness: 0.5,
            utilisation_floor: 0.01,
            rebind: Rebind::default(),
            flowlet_gap: Duration::ZERO,
            detour: None,
            seed: 1,
        }
    }
}

impl Default for DetourConfig {
    fn default() -> Self {
        Self {
            detect: Duration::from_ms(10),
            hot_duration: Duration::from_ms(100),
            hot_threshold: 0.6,
            usable: 0.6,
            max_servers: 2,
            edge_rule: true,
        }
    }
}

/// What the controller cannot work with.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[allow(missing_docs)]
pub enum SubwaysError {
    #[error("`{0}` is 0: give it a time, such as 10ms")]
    NoTime(&'static str),
    #[error("`{name}` = {value}: it lies above 0 and at most at 1")]
    Fraction { name: &'static str, value: f64 },
    #[error("`aggressiveness` = {0}: it lies between 0, which stays, and 1, which goes all the way")]
    Aggressiveness(f64),
    #[error("a detour through no server is none: set `max_detour_servers` to 1 or more, or choose `scheduler = \"adaptive\"`")]
    NoServers,
}

impl SubwaysError {
    /// The setting that is wrong.
    pub fn setting(&self) -> &'static str {
        match self {
            Self::NoTime(name) | Self::Fraction { name, .. } => name,
            Self::Aggressiveness(_) => "aggressiveness",
            Self::NoServers => "max_detour_servers",
        }
    }
}

impl SubwaysConfig {
    /// Refuses settings that mean nothing.
    ///
    /// # Errors
    /// [`SubwaysError`], naming the first wrong setting.
    pub fn check(&self) -> Result<(), SubwaysError> {
        let mut times = vec![("period", self.period)];
        let mut fractions = vec![("ewma_gain", self.ewma_gain), ("utilisation_floor", self.utilisation_floor)];
        if let Some(detour) = &self.detour {
            times.extend([("detect", detour.detect), ("hot_duration", detour.hot_duration)]);
            fractions.extend([("hot_threshold", detour.hot_threshold), ("detour_usable", detour.usable)]);
        }
        if let Some((name, _)) = times.iter().find(|(_, time)| *time == Duration::ZERO) {
            return Err(SubwaysError::NoTime(name));
        }
        if let Some(&(name, value)) = fractions.iter().find(|(_, f)| !(*f > 0.0 && *f <= 1.0)) {
            return Err(SubwaysError::Fraction { name, value });
        }
        if !(0.0..=1.0).contains(&self.aggressiveness) {
            return Err(SubwaysError::Aggressiveness(self.aggressiveness));
        }
        if self.detour.is_some_and(|d| d.max_servers == 0) {
            return Err(SubwaysError::NoServers);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_that_mean_nothing_are_refused_by_name() {
        let good = SubwaysConfig { detour: Some(DetourConfig::default()), ..SubwaysConfig::default() };
        assert_eq!(good.check(), Ok(()));
        let detour = |d: DetourConfig| SubwaysConfig { detour: Some(d), ..SubwaysConfig::default() };
        let bad = [
            (SubwaysConfig { period: Duration::ZERO, ..good }, "period"),
            (SubwaysConfig { ewma_gain: 0.0, ..good }, "ewma_gain"),
            (SubwaysConfig { ewma_gain: f64::NAN, ..good }, "ewma_gain"),
            (SubwaysConfig { utilisation_floor: 1.5, ..good }, "utilisation_floor"),
            (SubwaysConfig { aggressiveness: -0.1, ..good }, "aggressiveness"),
            (detour(DetourConfig { detect: Duration::ZERO, ..DetourConfig::default() }), "detect"),
            (detour(DetourConfig { hot_duration: Duration::ZERO, ..DetourConfig::default() }), "hot_duration"),
            (detour(DetourConfig { hot_threshold: 0.0, ..DetourConfig::default() }), "hot_threshold"),
            (detour(DetourConfig { usable: 2.0, ..DetourConfig::default() }), "detour_usable"),
            (detour(DetourConfig { max_servers: 0, ..DetourConfig::default() }), "max_detour_servers"),
        ];
        for (config, setting) in bad {
            assert_eq!(config.check().unwrap_err().setting(), setting);
        }
    }
}
