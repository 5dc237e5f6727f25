//! `[world] seeds`: a run is repeated, and its means are what single runs measure.

#[path = "support/weft.rs"]
mod support;

use serde_json::Value;
use support::{json, stderr, stdout, weft};

const SCENARIO: &str = "
[fabric]
kind = \"fat-tree\"
k = 4
link = \"1Gbps\"
[traffic]
pattern = \"bijection\"
size = \"10MB\"
[world]
seeds = 4
[sweep]
\"control.scheduler\" = [\"none\", \"first-fit\"]
[control]
period = \"10ms\"
[[expect]]
source = \"Own guard: no harm\"
own = true
where = { \"control.scheduler\" = \"first-fit\" }
metric = \"goodput_bps\"
at_least = 1
over = { \"control.scheduler\" = \"none\" }
[[expect]]
source = \"none\"
metric = \"goodput_bps\"
value = 9e9
within = \"1%\"
where = { \"control.scheduler\" = \"none\" }
";

fn folder(text: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("s.toml"), text).expect("written");
    folder
}

fn run(folder: &tempfile::TempDir, arguments: &[&str]) -> Value {
    let arguments = [&["run", "s.toml", "--json"], arguments].concat();
    let output = weft(&arguments, folder.path());
    assert!(output.status.success(), "{}", stderr(&output));
    json(&output)
}

/// Without what is of the machine.
fn of_run(metrics: &Value) -> serde_json::Map<String, Value> {
    let mut metrics = metrics.as_object().expect("metrics").clone();
    metrics.retain(|name, _| !["wall_s", "rss_bytes"].contains(&name.as_str()));
    metrics
}

#[test]
fn each_seed_measures_what_a_run_of_its_own_does() {
    let folder = folder(SCENARIO);
    let repeated = run(&folder, &["--out", "repeated"]);
    for (index, run_of) in repeated["runs"].as_array().expect("runs").iter().enumerate() {
        let seeds = run_of["per_seed"].as_array().expect("seeds");
        assert_eq!(seeds.iter().map(|one| one["seed"].as_u64().expect("a seed")).collect::<Vec<_>>(), [1, 2, 3, 4]);
        let mut goodputs = Vec::new();
        for one in seeds {
            let single = run(&folder, &["--set", "world.seeds=1", "--seed", &one["seed"].to_string(), "--out", "single"]);
            assert_eq!(of_run(&single["runs"][index]["metrics"]), of_run(&one["metrics"]));
            assert!(single["runs"][index].get("per_seed").is_none() && single["runs"][index].get("ci95").is_none());
            goodputs.push(one["metrics"]["goodput_bps"].as_f64().expect("a goodput"));
        }
        let mean = goodputs.iter().sum::<f64>() / 4.0;
        assert!((run_of["metrics"]["goodput_bps"].as_f64().expect("a mean") / mean - 1.0).abs() < 1e-12);
        assert!(run_of["ci95"]["goodput_bps"].as_f64().expect("an interval") > 0.0, "seeds differ: {goodputs:?}");
    }
    let expect = |index: usize| &repeated["runs"][index]["expect"][0];
    assert_eq!(expect(0)["uncertain"], true, "{}", expect(0));
    assert!(expect(1)["ci95"].as_f64().expect("an interval") > 0.0, "{}", expect(1));
    // The records are those of the first seed.
    let single = run(&folder, &["--set", "world.seeds=1", "--out", "single"]);
    assert_eq!(single["runs"][0]["seed"], 1);
    for file in ["flows.parquet", "links.parquet"] {
        let read = |of: &str| std::fs::read(folder.path().join(of).join("001").join(file)).expect("a table");
        assert!(read("repeated") == read("single"), "{file}");
    }
}

#[test]
fn the_table_names_seeds_and_wide_intervals() {
    let folder = folder(SCENARIO);
    let output = weft(&["run", "s.toml"], folder.path());
    let table = stdout(&output);
    for text in ["means of 4 seeds", "ci95", " ~ ", "more seeds may decide otherwise"] {
        assert!(table.contains(text), "{text}: {table}");
    }
    let page = std::fs::read_to_string(folder.path().join("results/s/report.html")).expect("a page");
    assert!(page.contains("\"other_seeds\":[2,3,4]"));
    let output = weft(&["run", "s.toml", "--set", "world.seeds=1"], folder.path());
    assert!(!stdout(&output).contains("ci95"), "{}", stdout(&output));
}

/// A search looks at the mean of each trial.
#[test]
fn a_search_looks_at_means() {
    let text = "
[fabric]
kind = \"fat-tree\"
k = 4
link = \"1Gbps\"
[traffic]
pattern = \"random\"
flows = 16
size = \"inf\"
[world]
duration = \"1s\"
ideal = false
seeds = [3, 9]
[search]
key = \"traffic.flows\"
metric = \"jain_flows\"
at_least = 0.8
from = 2
to = 64
";
    let folder = folder(text);
    let found = run(&folder, &[]);
    let found = &found["runs"][0];
    let value = found["search"]["value"].as_f64().expect("found");
    assert_eq!(found["per_seed"][1]["seed"], 9);
    let mean_of = |flows: f64| {
        let flows = format!("traffic.flows={flows}");
        run(&folder, &["--set", &flows])["runs"][0]["metrics"]["jain_flows"].as_f64().expect("a mean")
    };
    assert!(mean_of(value) >= 0.8);
    if let Some(fails_at) = found["search"]["fails_at"].as_f64() {
        assert!(mean_of(fails_at) < 0.8);
    }
}

#[test]
fn seeds_that_cannot_be_are_named() {
    let cases = [
        ("world.seeds=0", "0 seeds"),
        ("world.seeds=1001", "1001 seeds"),
        ("world.seeds=[]", "an empty list"),
        ("world.seeds=[4, 4]", "seed 4 is listed twice"),
        ("world.seeds=-1", "world.seeds"),
        ("world.seeds=many", "world.seeds"),
    ];
    let folder = folder(SCENARIO);
    for (setting, message) in cases {
        let output = weft(&["run", "s.toml", "--set", setting], folder.path());
        assert_eq!(output.status.code(), Some(2), "{setting}");
        assert!(stderr(&output).contains(message), "{setting}: {}", stderr(&output));
    }
    let output = weft(&["run", "s.toml", "--set", "world.seeds=[4, 5]", "--seed", "5"], folder.path());
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("the first of `seeds` is 4, and not 5"), "{}", stderr(&output));
    assert!(!folder.path().join("results").exists(), "nothing is written");
}

#[test]
fn seeds_that_change_nothing_are_named() {
    let folder = folder(
        &SCENARIO
            .replace("kind = \"fat-tree\"\nk = 4", "kind = \"switch\"\nhosts = 8")
            .replace("bijection", "stride")
            .replace("size =", "stride = 1\nsize ="),
    );
    let output = weft(&["run", "s.toml"], folder.path());
    assert!(stderr(&output).contains("all seeds measured the same"), "{}", stderr(&output));
}
