//! The alert rules, the dashboard and the page of alerts, compared with the source of the programs that export metrics.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

const RULES: &str = include_str!("../../../packaging/monitoring/weft-alerts.yml");
const DASHBOARD: &str = include_str!("../../../packaging/monitoring/weft-dashboard.json");
const PAGE: &str = include_str!("../../../docs/alarms.md");

/// All text of the exporters' sources.
fn sources() -> String {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let of = |name: &str| crates.join(name).join("src");
    ["agent", "directory", "scheduler", "control"].map(|name| text_below(&of(name))).concat()
}

fn text_below(folder: &Path) -> String {
    let mut paths: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|it| it.unwrap().path()).collect();
    paths.sort();
    let text = |path: &PathBuf| if path.is_dir() { text_below(path) } else { fs::read_to_string(path).unwrap_or_default() };
    paths.iter().map(text).collect()
}

/// `weft_agent_peers`, in the order of the text.
fn metrics(text: &str) -> BTreeSet<String> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let words = text.split(|c| !is_part(c));
    words
        .filter(|it| ["weft_agent_", "weft_directory_", "weft_scheduler_"].iter().any(|start| it.starts_with(start)))
        .map(str::to_owned)
        .collect()
}

/// The values of a label in selectors: `reason="tag"`, `reason=~"tag|certificate"`.
fn label_values(text: &str, label: &str) -> BTreeSet<String> {
    let after = |operator: &str| -> Vec<String> {
        let start = format!("{label}{operator}\"");
        let found = text.match_indices(&start).map(|(at, _)| text[at + start.len()..].split('"').next().unwrap_or_default());
        found.flat_map(|it| it.split('|')).map(str::to_owned).collect()
    };
    after("=").into_iter().chain(after("=~")).collect()
}

/// The lines of a key of the rules.
fn values(key: &str) -> impl Iterator<Item = &str> {
    RULES.lines().filter_map(move |line| line.trim_start_matches([' ', '-']).strip_prefix(key)?.strip_prefix(": "))
}

#[test]
fn every_alert_and_panel_reads_metrics_that_are_exported() {
    let sources = sources();
    let dashboard: Value = serde_json::from_str(DASHBOARD).expect("JSON");
    let panels = dashboard["panels"].as_array().unwrap().iter().flat_map(|it| it["targets"].as_array().into_iter().flatten());
    let queries: Vec<String> = panels.map(|it| it["expr"].as_str().unwrap().to_owned()).collect();
    let expressions: Vec<&str> = values("expr").collect();
    assert!(queries.len() > 30 && expressions.len() > 30, "{} {}", queries.len(), expressions.len());
    let all = queries.join("\n") + &expressions.join("\n");
    for name in metrics(&all) {
        let is_exported = |name: &str| sources.contains(&format!("\"{name}\""));
        let histogram = name.strip_suffix("_bucket").filter(|it| sources.contains(&format!("histogram!(\"{it}\")")));
        assert!(is_exported(&name) || histogram.is_some(), "no program exports {name}");
    }
    for label in ["reason", "finding", "reported_to", "kind"] {
        for value in label_values(&all, label) {
            assert!(sources.contains(&format!("\"{value}\"")), "nothing has {label}=\"{value}\"");
        }
    }
}

#[test]
fn the_page_has_every_alert_with_what_to_do() {
    let alerts: BTreeSet<&str> = values("alert").collect();
    let rows = PAGE.lines().filter_map(|line| line.strip_prefix("| `Weft"));
    let mut described = BTreeSet::new();
    for row in rows {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        assert!(cells.len() == 4 && cells[1].len() > 10 && cells[2].len() > 10, "{row}");
        described.insert(format!("Weft{}", cells[0].trim_matches('`')));
    }
    assert_eq!(alerts.iter().map(|it| (*it).to_owned()).collect::<BTreeSet<_>>(), described);
    let sections: BTreeSet<&str> = values("runbook").map(|it| it.strip_prefix("docs/alarms.md#").unwrap()).collect();
    for section in sections {
        assert!(PAGE.contains(&format!("\n## {section}\n")), "{section}");
    }
}
