//! `[search]`: the largest setting that meets a bound, as a user runs it.

#[path = "support/weft.rs"]
mod support;

use serde_json::Value;
use support::{folder_with, json, stderr, stdout, weft};

/// Exponential sizes on a non-blocking switch; the mean completion time grows with the load.
const LOADED: &[(&str, &str)] = &[
    ("kind = \"fat-tree\"\nk = 4", "kind = \"switch\"\nhosts = 8"),
    (
        "pattern = \"stride\"\nstride = 4\nsize = \"125MB\"",
        "pattern = \"random\"\narrivals = \"poisson\"\nuntil = \"4s\"\nsize = \"exponential(1MB)\"",
    ),
    ("scheduler = \"first-fit\"\nperiod = \"100ms\"", ""),
];

fn searching(search: &str, sweep: &str) -> tempfile::TempDir {
    let tail = format!("[search]\n{search}\n\n{sweep}\n[[expect]]");
    folder_with(
        &[LOADED, &[("[[expect]]", tail.as_str()), ("\"completion_s\"\nvalue = 1.0", "\"flows\"\nvalue = 1000")]].concat(),
    )
}

const LOAD: &str = "key = \"traffic.load\"\nmetric = \"fct_mean_s\"\nat_most = 0.02\nfrom = 0.05\nto = 0.95\nprecision = 0.02";

#[test]
fn the_largest_load_that_meets_a_bound_is_run_and_written() {
    let folder = searching(LOAD, "");
    let printed = json(&weft(&["run", "s.toml", "--out", "r", "--json"], folder.path()));
    let run = &printed["runs"][0];
    let found = &run["search"];
    let (value, fails_at) = (found["value"].as_f64().unwrap(), found["fails_at"].as_f64().unwrap());
    assert!(value < fails_at && fails_at <= value * 1.0201, "{found}");
    assert_eq!(run["set"]["traffic.load"].as_f64(), Some(value));
    assert_eq!(
        (&found["key"], &found["metric"], &found["at_most"]),
        (&"traffic.load".into(), &"fct_mean_s".into(), &0.02.into())
    );
    assert!(run["metrics"]["fct_mean_s"].as_f64().unwrap() <= 0.02);
    assert!(run["metrics"]["optimal_fraction"].as_f64().is_some(), "the run that is shown is whole");

    // The run at a setting is the run that a user would have by setting it, and the next setting misses the bound.
    let fct = |load: f64| {
        let set = format!("traffic.load={load}");
        let again = json(&weft(&["run", "s.toml", "--out", "again", "--set", &set, "--json"], folder.path()));
        assert!(again["runs"][0].get("search").is_none(), "what is set is not searched for");
        again["runs"][0]["metrics"]["fct_mean_s"].as_f64().unwrap()
    };
    assert!(fct(fails_at) > 0.02);
    assert_eq!(Some(fct(value)), run["metrics"]["fct_mean_s"].as_f64());
    let read = |file: &str| std::fs::read(folder.path().join(file)).expect("read");
    assert!(read("r/flows.parquet") == read("again/flows.parquet"));
}

#[test]
fn each_run_of_a_sweep_has_a_search_of_its_own_and_repeats() {
    let folder = searching(LOAD, "[sweep]\n\"search.at_most\" = [0.012, 0.02]\n\"fabric.hosts\" = [4, 8]\n");
    let run = |threads: &str| {
        let printed = json(&weft(&["run", "s.toml", "--out", threads, "--threads", threads, "--json"], folder.path()));
        printed["runs"].as_array().unwrap().iter().map(|r| (r["set"].clone(), r["search"].clone())).collect::<Vec<_>>()
    };
    let one = run("1");
    assert_eq!(one, run("2"));
    assert_eq!(one.len(), 4);
    let value = |i: usize| one[i].1["value"].as_f64().unwrap();
    assert!(value(0) < value(2) && value(1) < value(3), "a looser bound allows more: {one:?}");
    let table = stdout(&weft(&["run", "s.toml", "--out", "t"], folder.path()));
    assert!(
        table.contains("at_most=0.012 hosts=4: largest traffic.load with fct_mean_s at most 12 ms")
            && table.contains("does not meet it"),
        "{table}"
    );
}

#[test]
fn a_range_that_meets_the_bound_or_misses_it_is_reported() {
    let all = searching("key = \"traffic.load\"\nmetric = \"fct_mean_s\"\nat_most = 10\nfrom = 0.1\nto = 0.3", "");
    let output = weft(&["run", "s.toml", "--json"], all.path());
    assert!(stderr(&output).contains("every traffic.load up to 0.3"), "{}", stderr(&output));
    let found = &json(&output)["runs"][0]["search"];
    assert_eq!((&found["value"], &found["fails_at"]), (&0.3.into(), &Value::Null));

    let none = searching("key = \"traffic.load\"\nmetric = \"fct_mean_s\"\nat_most = 1e-9\nfrom = 0.1\nto = 0.3", "");
    let output = weft(&["run", "s.toml", "--json"], none.path());
    assert!(stderr(&output).contains("no traffic.load from 0.1 on"), "{}", stderr(&output));
    let run = &json(&output)["runs"][0];
    assert_eq!((&run["search"]["value"], &run["search"]["fails_at"]), (&Value::Null, &0.1.into()));
    assert_eq!(run["set"]["traffic.load"], 0.1);
}

#[test]
fn whole_numbers_quantities_and_lower_bounds_can_be_searched_for() {
    let whole = searching("key = \"traffic.flows_per_host\"\nmetric = \"flows\"\nat_most = 100\nfrom = 1\nto = 1000\n", "");
    let traffic = "traffic={pattern=\"random\", size=\"1MB\"}";
    let printed = json(&weft(&["run", "s.toml", "--set", traffic, "--json"], whole.path()));
    assert_eq!(printed["runs"][0]["set"]["traffic.flows_per_host"], 12, "8 hosts, 100 flows");

    let search = "key = \"traffic.size\"\nunit = \"MB\"\nmetric = \"goodput_fraction\"\nat_least = 0.0\nfrom = 1\nto = 4";
    let sized = searching(search, "");
    let printed = json(&weft(&["run", "s.toml", "--set", "traffic.load=0.1", "--json"], sized.path()));
    assert_eq!(printed["runs"][0]["set"]["traffic.size"], "4MB");
}

#[test]
fn bad_searches_are_refused_with_place_and_remedy() {
    let good = LOAD.to_owned();
    for (search, wanted) in [
        (good.replace("at_most = 0.02", ""), "`at_most` or `at_least`"),
        (good.replace("fct_mean_s", "fct_mean"), "did you mean `fct_mean_s`?"),
        (good.replace("fct_mean_s", "wall_s"), "differs from one run to the next"),
        (good.replace("fct_mean_s", "moves"), "the run has no `moves`"),
        (good.replace("traffic.load", "load"), "write a dotted key"),
        (good.replace("traffic.load", "world.seed"), "is not a whole number"),
        (good.replace("traffic.load", "world.scale"), "how many flows arrive?"),
        (good.replace("from = 0.05", "from = 0"), "begins above 0"),
        (good.replace("to = 0.95", "to = 0.01"), "ends above"),
        (good.replace("to = 0.95", "to = 950"), "`load` = 950"),
        (good.replace("precision = 0.02", "precision = 0"), "precision"),
        (good.replace("precision = 0.02", "trials = 1"), "trials"),
        (good.replace("precision = 0.02", "steps = 1"), "unknown key `steps`"),
    ] {
        let folder = searching(&search, "");
        let output = weft(&["run", "s.toml", "--out", "r"], folder.path());
        assert_eq!(output.status.code(), Some(2), "{search}");
        assert!(stderr(&output).contains(wanted) && stderr(&output).contains("s.toml"), "{wanted}: {}", stderr(&output));
        assert!(!folder.path().join("r").exists());
    }
    let placed = weft(&["place", "s.toml"], searching(LOAD, "").path());
    assert_eq!(placed.status.code(), Some(2));
    assert!(stderr(&placed).contains("`--set traffic.load=VALUE`"), "{}", stderr(&placed));
    let swept = searching(LOAD, "[sweep]\n\"traffic.load\" = [0.1, 0.2]\n");
    let output = weft(&["run", "s.toml"], swept.path());
    assert!(stderr(&output).contains("swept and searched for"), "{}", stderr(&output));
}
