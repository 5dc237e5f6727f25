//! What the cases of `weft bench flow` and `packet` aim at. docs/performance.md has figures measured.

use serde::Serialize;

use self::Metric::{BareFraction, HopsPerS, RssBytes, WallS};
use super::Case;
use crate::cli::table::show;

/// A goal of a case, and whether it is met.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Goal {
    metric: Metric,
    #[serde(skip_serializing_if = "Option::is_none")]
    at_least: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    at_most: Option<f64>,
    measured: f64,
    met: bool,
}

/// The goals of a case by its name; none for other cases.
pub fn of(case: &Case) -> Vec<Goal> {
    let of_case = GOALS.iter().filter(|(name, ..)| *name == case.name);
    of_case.filter_map(|&(_, metric, bound)| Some(Goal::new(metric, bound, measured(case, metric)?))).collect()
}

impl Goal {
    fn new(metric: Metric, bound: Bound, measured: f64) -> Self {
        let (at_least, at_most, met) = match bound {
            Bound::AtLeast(least) => (Some(least), None, measured >= least),
            Bound::AtMost(most) => (None, Some(most), measured <= most),
        };
        Self { metric, at_least, at_most, measured, met }
    }

    /// `goal: wall at most 60 s: met`.
    pub fn text(&self) -> String {
        let (word, bound) = self.at_most.map_or(("at least", self.at_least), |most| ("at most", Some(most)));
        let bound = bound.unwrap_or_default();
        let aim = match self.metric {
            BareFraction => format!("{word} {bound} of the bare loop"),
            HopsPerS => format!("{word} {} M hops/s", bound / 1e6),
            RssBytes => format!("peak memory {word} {}", show("rss_bytes", bound)),
            WallS => format!("wall {word} {}", show("wall_s", bound)),
        };
        format!("goal: {aim}: {}", if self.met { "met" } else { "missed" })
    }
}

fn measured(case: &Case, metric: Metric) -> Option<f64> {
    match metric {
        BareFraction => Some(case.hops_per_s? / case.bare_hops_per_s?),
        HopsPerS => case.hops_per_s,
        RssBytes => Some(case.rss_bytes as f64),
        WallS => Some(case.wall_s),
    }
}

/// What is measured, by its name in `--json`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Metric {
    WallS,
    RssBytes,
    HopsPerS,
    /// Hops a second relative to those of the bare loop.
    BareFraction,
}

#[derive(Clone, Copy, Debug)]
enum Bound {
    AtLeast(f64),
    AtMost(f64),
}

const GOALS: &[(&str, Metric, Bound)] = &[
    ("flow-8192-8192", WallS, Bound::AtMost(0.1)),
    ("flow-1024-8192", WallS, Bound::AtMost(0.15)),
    ("flow-8192-50000", WallS, Bound::AtMost(1.0)),
    ("flow-27648-250000", WallS, Bound::AtMost(60.0)),
    ("flow-27648-250000-within-1", WallS, Bound::AtMost(10.0)),
    ("packet-128-128", BareFraction, Bound::AtLeast(0.8)),
    ("packet-1024-1024", BareFraction, Bound::AtLeast(0.8)),
    ("packet-1024-16384", BareFraction, Bound::AtLeast(0.8)),
    ("packet-8192-8192", BareFraction, Bound::AtLeast(0.8)),
    ("packet-8192-8192", RssBytes, Bound::AtMost(300e6)),
    ("packet-27648-27648", HopsPerS, Bound::AtLeast(15e6)),
    ("packet-27648-27648", RssBytes, Bound::AtMost(300e6)),
    ("packet-65536-65536", HopsPerS, Bound::AtLeast(12e6)),
    ("packet-65536-65536", RssBytes, Bound::AtMost(600e6)),
];

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::cli::bench::name_of;

    fn case(name: &str, wall_s: f64, rates: Option<[f64; 2]>) -> Case {
        Case {
            name: name.to_owned(),
            hosts: 1,
            flows: 1,
            wall_s,
            rss_bytes: 1_000_000_000,
            events: 1,
            events_per_s: None,
            hops: None,
            hops_per_s: rates.map(|[hops, _]| hops),
            bare_hops_per_s: rates.map(|[_, bare]| bare),
            demand_s: None,
            place_s: None,
        }
    }

    fn printed(case: &Case) -> Vec<String> {
        of(case).iter().map(Goal::text).collect()
    }

    #[test]
    fn a_goal_is_met_up_to_its_bound() {
        assert_eq!(printed(&case("flow-8192-50000", 1.0, None)), ["goal: wall at most 1 s: met"]);
        assert_eq!(printed(&case("flow-8192-50000", 1.01, None)), ["goal: wall at most 1 s: missed"]);
        let packets = |rate: f64| printed(&case("packet-128-128", 0.3, Some([rate, 50e6])));
        assert_eq!(packets(40e6), ["goal: at least 0.8 of the bare loop: met"]);
        assert_eq!(packets(39e6), ["goal: at least 0.8 of the bare loop: missed"]);
        let large = printed(&case("packet-65536-65536", 9.8, Some([12e6, 20e6])));
        assert_eq!(large, ["goal: at least 12 M hops/s: met", "goal: peak memory at most 600 MB: missed"]);
        assert_eq!(printed(&case("mine", 1.0, None)), [""; 0]);
    }

    /// A goal without its case would never be printed.
    #[test]
    fn each_goal_has_its_case() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/bench");
        let files = std::fs::read_dir(folder).expect("the cases");
        let names: Vec<String> = files.map(|file| name_of(&file.expect("a file").path())).collect();
        for (name, ..) in GOALS {
            assert!(names.iter().any(|it| it == name), "{name}");
        }
    }
}
