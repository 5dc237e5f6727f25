//! Reports as bytes: repeatable, whole, small, and with every fabric stored once.

#[path = "support/synthetic.rs"]
mod synthetic;

use serde_json::Value;
use synthetic::sets;
use weft_experiment::report::{RunReport, render};

/// The data that the page's scripts read.
fn data(html: &str) -> Value {
    let (_, rest) = html.split_once("id=\"weft-data\">").expect("the data's element");
    let (json, _) = rest.split_once("</script>").expect("its end");
    serde_json::from_str(json).expect("JSON")
}

#[test]
fn the_same_runs_give_the_same_bytes() {
    assert_eq!(render("t", &sets::clique()), render("t", &sets::clique()));
}

#[test]
fn throughput_integrates_to_the_bytes_of_the_flows() {
    let run = sets::sweep().remove(0);
    let series = &run.body.curves.throughput;
    let bytes: f64 = series.values.iter().enumerate().map(|(i, v)| v * (series.edges[i + 1] - series.edges[i]) / 8.0).sum();
    let carried = run.body.links.layers[0].up.bytes;
    assert!(series.values.len() <= 600);
    assert!((bytes / carried - 1.0).abs() < 1e-4, "{bytes} against {carried}");
}

#[test]
fn fabrics_and_ideals_are_stored_once() {
    let page = data(&render("t", &sets::many()));
    let length = |key: &str| page[key].as_array().expect("a list").len();
    assert_eq!((length("runs"), length("fabrics"), length("ideals")), (24, 3, 12));
    let fabric_of_last = page["runs"][23]["fabric"].as_u64().expect("an index") as usize;
    assert_eq!(page["fabrics"][fabric_of_last]["title"], "fat-tree, k = 12");
}

#[test]
fn a_hostile_title_and_settings_stay_data() {
    let mut run = sets::clique().remove(0);
    let hostile = "</script><script>alert(1)</script>\u{2028}";
    run.body.set.insert(hostile.to_owned(), Value::from(hostile));
    let html = render(hostile, &[run]);
    assert!(!html.contains("<script>alert"));
    assert!(!html.split_once("weft-data").expect("the data's element").1.contains('\u{2028}'));
    assert_eq!(data(&html)["title"], hostile);
    assert_eq!(data(&html)["runs"][0]["set"][hostile], hostile);
}

#[test]
fn a_thousand_runs_stay_small_and_keep_their_metrics() {
    let runs: Vec<RunReport> = sets::sweep().into_iter().cycle().take(1_000).collect();
    let html = render("t", &runs);
    assert!(html.len() < 3_000_000, "{} bytes", html.len());
    let page = data(&html);
    let runs = page["runs"].as_array().expect("a list");
    assert_eq!(runs.len(), 1_000);
    assert!(runs.iter().all(|r| r["metrics"].as_array().is_some_and(|m| m.len() == 11)));
    assert!(runs.iter().all(|r| r["curves"]["fct_s"]["values"].as_array().is_some_and(|v| v.len() > 10)));
}
