//! What each metric is called, its unit and its meaning: `web/metrics.json`, which the report's page reads too.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::Deserialize;

/// The words for a metric.
#[derive(Debug, Deserialize)]
pub struct Words {
    /// A short name: `goodput`.
    pub label: String,
    /// `bps`, `s`, `B`, `share`, `count`, a rate such as `requests/s`, or nothing for a plain number.
    pub unit: String,
    /// `high` or `low`; empty where neither is better.
    pub better: String,
    /// One sentence.
    pub about: String,
}

/// The words of all of [`super::NAMES`], as JSON.
pub const JSON: &str = include_str!("../../../../web/metrics.json");

static WORDS: LazyLock<BTreeMap<String, Words>> =
    LazyLock::new(|| serde_json::from_str(JSON).expect("web/metrics.json is valid"));

/// The words for a metric; of a service's or a fault's metric those of its base.
pub fn of(metric: &str) -> Option<&'static Words> {
    WORDS.get(metric.split('.').next().unwrap_or_default())
}

/// The name to show: `goodput`, `FCT p99, web`; the metric itself if it has no words.
pub fn label(metric: &str) -> String {
    match (of(metric), metric.split_once('.')) {
        (None, _) => metric.to_owned(),
        (Some(words), None) => words.label.clone(),
        (Some(words), Some((_, part))) => format!("{}, {part}", words.label),
    }
}

/// The unit of a metric; of one without words by its suffix, where a rate (`_per_s`) is not a time.
pub fn unit(metric: &str) -> String {
    if let Some(words) = of(metric) {
        return words.unit.clone();
    }
    let base = metric.split('.').next().unwrap_or_default();
    let suffixes = [("_bps", "bps"), ("_bytes", "B"), ("_fraction", "share"), ("_s", "s")];
    match base.strip_suffix("_per_s") {
        Some(what) => format!("{}/s", what.rsplit('_').next().unwrap_or(what)),
        None => suffixes.iter().find(|(suffix, _)| base.ends_with(suffix)).map_or("", |(_, unit)| unit).to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::NAMES;

    #[test]
    fn every_metric_has_words_and_nothing_else_has() {
        let mut names: Vec<&str> = NAMES.to_vec();
        names.sort_unstable();
        assert!(WORDS.keys().map(String::as_str).eq(names));
        for (name, words) in &*WORDS {
            assert!(!words.label.is_empty() && words.about.ends_with('.'), "{name}");
            assert!(["high", "low", ""].contains(&words.better.as_str()), "{name}");
        }
    }

    #[test]
    fn a_rate_is_not_a_time() {
        assert_eq!(
            ["requests_per_s", "probes_per_s", "x_bps", "wait_s", "jain_flows", "outage_s.agent"].map(unit),
            ["requests/s", "probes/s", "bps", "s", "", "s"]
        );
        assert_eq!(label("outage_s.agent"), "outage, agent");
    }
}
