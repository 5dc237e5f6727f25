//! Where results come from: `scenario.toml`, `run.json`, and verdicts of runs with other settings than those of the scenario.

#[path = "support/weft.rs"]
mod support;

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Value, json};
use support::{folder_with, json, stderr, stdout, weft};

/// All files below a folder but `summary.json`, which alone holds wall-clock figures; `ignored` are left out too.
fn files(folder: &Path, ignored: &[&str]) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        if path.is_dir() {
            found.extend(files(&path, ignored).into_iter().map(|(below, bytes)| (format!("{name}/{below}"), bytes)));
        } else if name != "summary.json" && !ignored.contains(&name.as_str()) {
            found.insert(name, std::fs::read(&path).expect("read"));
        }
    }
    found
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

fn run_json(folder: &Path) -> Value {
    serde_json::from_str(&read(&folder.join("run.json"))).expect("JSON")
}

/// Runs the resolved scenario of a results folder that has been moved elsewhere: the same files come out.
fn assert_repeats(results: &Path, ignored: &[&str]) {
    let elsewhere = tempfile::tempdir().expect("a folder");
    let moved = elsewhere.path().join("moved");
    std::fs::rename(results, &moved).expect("moved");
    let output = weft(&["run", "moved/scenario.toml", "--out", "again"], elsewhere.path());
    assert!(output.status.success(), "{}", stderr(&output));
    let (first, second) = (files(&moved, ignored), files(&elsewhere.path().join("again"), ignored));
    assert_eq!(first.keys().collect::<Vec<_>>(), second.keys().collect::<Vec<_>>());
    for (name, bytes) in &first {
        assert!(second[name] == *bytes, "{name} differs");
    }
}

#[test]
fn the_resolved_scenario_gives_the_same_bytes() {
    let folder = folder_with(&[(
        "[[expect]]",
        "[quick]\n\"world.duration\" = \"10s\"\n[full]\n\"fabric.k\" = 8\n[[event]]\nat = \"100ms\"\nfail = \"link agg0-core0\"\n\n[[expect]]",
    )]);
    let output = weft(&["run", "s.toml", "--quick", "--seed", "7", "--set", "traffic.stride=2", "--out", "r"], folder.path());
    assert!(output.status.success(), "{}", stderr(&output));
    let scenario: toml::Table = read(&folder.path().join("r/scenario.toml")).parse().expect("TOML");
    assert_eq!(scenario["traffic"]["stride"].as_integer(), Some(2));
    assert_eq!(scenario["world"]["duration"].as_str(), Some("10s"));
    assert_eq!(scenario["world"]["seed"].as_integer(), Some(7));
    assert!(!scenario.contains_key("quick") && !scenario.contains_key("full"));
    assert_repeats(&folder.path().join("r"), &["run.json"]);
}

#[test]
fn a_sweep_and_each_of_its_runs_repeat_with_the_files_that_they_read() {
    let folder = folder_with(&[
        ("pattern = \"stride\"\nstride = 4\nsize = \"125MB\"", ""),
        (
            "[[expect]]",
            "[sweep]\n\"control.scheduler\" = [\"none\", \"first-fit\"]\nload = [\n  { \"traffic.file\" = \"data/flows.csv\" },\n  \
             { traffic = { pattern = \"random\", size = \"sizes/s.cdf\" } },\n]\n\n[[expect]]",
        ),
    ]);
    for (name, text) in
        [("data/flows.csv", "src,dst,start,size\n0,4,0,1MB\n1,5,0.01,2MB\n"), ("sizes/s.cdf", "1000 0\n2000 50\n9000 100\n")]
    {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        std::fs::write(path, text).expect("written");
    }
    let output = weft(&["run", "s.toml", "--out", "r"], folder.path());
    assert!(output.status.success(), "{}", stderr(&output));
    let inputs = files(&folder.path().join("r/inputs"), &[]);
    assert_eq!(inputs.keys().collect::<Vec<_>>(), ["flows.csv", "s.cdf"]);
    let one = weft(&["run", "r/001/scenario.toml", "--out", "r1"], folder.path());
    assert!(one.status.success(), "{}", stderr(&one));
    for table in ["flows.parquet", "links.parquet", "link_series.parquet", "throughput.parquet"] {
        let bytes = |folder_of: &str| std::fs::read(folder.path().join(folder_of).join(table)).expect("read");
        assert!(bytes("r/001") == bytes("r1"), "{table}");
    }
    // The page shows the swept paths, which are now those of the copies.
    assert_repeats(&folder.path().join("r"), &["run.json", "report.html"]);
}

#[test]
fn the_resolved_scenario_of_one_run_has_no_warnings_about_the_others() {
    let sweep = "[sweep]\n\"control.scheduler\" = [\"none\", \"first-fit\"]\n\n[[expect]]\nwhere = { \"control.scheduler\" = \"first-fit\" }";
    let folder = folder_with(&[("[[expect]]", sweep)]);
    let sweep = weft(&["run", "s.toml", "--out", "r"], folder.path());
    assert!(sweep.status.success() && !stderr(&sweep).contains("warning"), "{}", stderr(&sweep));
    for run in ["000", "001"] {
        let one = weft(&["run", &format!("r/{run}/scenario.toml"), "--out", "again"], folder.path());
        assert!(one.status.success() && !stderr(&one).contains("warning"), "{run}: {}", stderr(&one));
    }
}

/// `--set sweep.KEY=[...]` sweeps what the file does not, or other values of what it does.
#[test]
fn a_sweep_is_set_as_a_key_is() {
    let folder = folder_with(&[("[[expect]]", "[sweep]\n\"control.scheduler\" = [\"none\", \"first-fit\"]\n\n[[expect]]")]);
    let run = |set: &[&str]| {
        let set: Vec<&str> = set.iter().flat_map(|&it| ["--set", it]).collect();
        weft(&[&["run", "s.toml", "--out", "r"], &set[..]].concat(), folder.path())
    };
    let swept = |set: &[&str]| {
        let output = run(set);
        assert!(output.status.success(), "{}", stderr(&output));
        let resolved: toml::Table = read(&folder.path().join("r/scenario.toml")).parse().expect("TOML");
        (resolved.get("sweep").cloned(), run_json(&folder.path().join("r"))["comparable"] == true)
    };
    let sweep = |text: &str| Some(toml::Value::Table(text.parse().expect("TOML")));
    assert_eq!(
        swept(&["sweep.control.scheduler=[\"none\", \"annealing\"]"]),
        (sweep("\"control.scheduler\" = [\"none\", \"annealing\"]"), true)
    );
    assert_eq!(swept(&["sweep.\"control.scheduler\"=[]"]), (None, true));
    let both = "\"control.scheduler\" = [\"none\", \"first-fit\"]\n\"traffic.stride\" = [1, 2]";
    assert_eq!(swept(&["sweep.traffic.stride=[1, 2]"]), (sweep(both), false));
    assert_repeats(&folder.path().join("r"), &["run.json"]);
    for (set, wanted) in [
        (&["sweep.traffic.stride=2"][..], "a sweep needs a list of values"),
        (&["sweep=[1]"][..], "write --set 'sweep.KEY=[value, value]'"),
        (
            &["traffic.stride=1", "sweep.traffic.stride=[1, 2]"][..],
            "`sweep.traffic.stride` and `traffic.stride` exclude each other",
        ),
    ] {
        let output = run(set);
        assert_eq!(output.status.code(), Some(2));
        assert!(stderr(&output).contains(wanted), "{}", stderr(&output));
    }
}

#[test]
fn run_json_names_version_command_overrides_seed_and_world() {
    let folder = folder_with(&[("[[expect]]", "[sweep]\n\"world.seed\" = [1, 2]\n\n[[expect]]")]);
    let arguments = ["run", "s.toml", "--set", "traffic.stride=2", "--out", "r", "--threads", "2"];
    assert!(weft(&arguments, folder.path()).status.success());
    let whole = run_json(&folder.path().join("r"));
    let wanted = json!({
        "version": env!("CARGO_PKG_VERSION"),
        "command": "weft run s.toml --set traffic.stride=2",
        "overrides": { "traffic.stride": 2 },
        "seed": null,
        "world": "flow",
        "trusted": true,
        "comparable": false,
    });
    assert_eq!(whole, wanted);
    assert_eq!(run_json(&folder.path().join("r/001"))["seed"], 2);
    let first = files(&folder.path().join("r"), &[]);
    assert!(
        weft(&["run", "s.toml", "--set", "traffic.stride=2", "--out", "r", "--threads", "1"], folder.path()).status.success()
    );
    assert!(first == files(&folder.path().join("r"), &[]), "nothing but summary.json depends on threads or time");
}

#[test]
fn overrides_that_the_scenario_does_not_vary_make_verdicts_not_comparable() {
    let varied = "[sweep]\n\"control.scheduler\" = [\"none\", \"first-fit\"]\n[quick]\n\"fabric.k\" = 4\n\n[[expect]]";
    let folder = folder_with(&[("[[expect]]", varied)]);
    let verdict = |arguments: &[&str]| {
        let all = [&["run", "s.toml", "--json", "--out", "r"], arguments].concat();
        let run = json(&weft(&all, folder.path()))["runs"][0].clone();
        (run["comparable"].as_bool().expect("a flag"), run["expect"][0]["verdict"].as_str().expect("a word").to_owned())
    };
    let good = (true, "ok".to_owned());
    assert_eq!(verdict(&["--set", "control.scheduler=first-fit"]), good, "swept");
    assert_eq!(verdict(&["--set", "control.scheduler=first-fit", "--seed", "5"]), good, "the seed");
    assert_eq!(verdict(&["--set", "fabric.k=4", "--set", "control.scheduler=first-fit"]), good, "a key of [quick]");
    assert_eq!(verdict(&["--set", "traffic.stride=4", "--set", "control.scheduler=first-fit"]), good, "as it was");
    let other = (false, "not-comparable".to_owned());
    assert_eq!(verdict(&["--set", "traffic.stride=2"]), other);
    assert_eq!(verdict(&["--world", "packet", "--set", "traffic.size=1MB"]), other);

    let set = ["--set", "traffic.size=1MB"];
    let table = stdout(&weft(&[&["run", "s.toml", "--out", "r"], &set[..]].concat(), folder.path()));
    assert!(table.contains("not comparable") && !table.contains("MISS"), "{table}");
    assert!(table.contains("not comparable, since these settings were overridden:\n  traffic.size=1MB\n"), "{table}");
    let page = read(&folder.path().join("r/report.html"));
    assert!(page.contains("\"comparable\":false,\"overrides\":[\"traffic.size=1MB\"]") && page.contains("\"trusted\":true"));
    // A miss with other settings is none, and neither is it a success.
    let output = weft(&[&["check", "s.toml", "--json"], &set[..]].concat(), folder.path());
    let report = json(&output);
    let counts = ["ok", "passed", "misses", "not_comparable"].map(|key| report[key].clone());
    assert_eq!(counts, [json!(true), json!(0), json!(0), json!(2)]);
    // The resolved scenario does not launder them.
    let again = json(&weft(&["run", "r/scenario.toml", "--json", "--out", "r2"], folder.path()));
    assert_eq!(again["runs"][0]["expect"][0]["verdict"], "not-comparable");
    assert_eq!(again["runs"][0]["overrides"], json!(["traffic.size=1MB"]));
}

#[test]
fn results_with_other_settings_have_a_folder_of_their_own() {
    let folder = folder_with(&[("[[expect]]", "[quick]\n\"traffic.size\" = \"1MB\"\n\n[[expect]]")]);
    let out = |arguments: &[&str]| {
        let all = [&["run", "s.toml", "--json"], arguments].concat();
        json(&weft(&all, folder.path()))["out"].as_str().expect("a path").to_owned()
    };
    assert_eq!(out(&[]), "results/s");
    assert_eq!(out(&["--set", "traffic.stride=4"]), "results/s", "as it was");
    assert_eq!(out(&["--set", "traffic.stride=2"]), "results/s--traffic.stride=2");
    assert_eq!(out(&["--set", "traffic.size=1MB", "--seed", "3"]), "results/s--traffic.size=1MB,world.seed=3");
    assert_eq!(out(&["--seed", "3"]), "results/s--world.seed=3");
    assert_eq!(out(&["--quick"]), "results/s--quick");
    assert_eq!(out(&["--quick", "--set", "traffic.stride=2"]), "results/s--quick,traffic.stride=2");
    assert_eq!(out(&["--set", "traffic.stride=2", "--out", "mine"]), "mine");
    let odd = out(&["--set", "title=../../x y"]);
    assert!(odd.starts_with("results/s--title=.._.._x_y-") && Path::new(&odd).components().count() == 2, "{odd}");
    let long = out(&["--set", &format!("title={}", "x".repeat(500))]);
    let other = out(&["--set", &format!("title={}", "x".repeat(501))]);
    assert!(long.len() < 120 && long != other, "{long}");
    assert!(folder.path().join(long).join("summary.json").is_file());
}

#[test]
fn scenarios_of_one_name_in_several_folders_have_results_of_their_own() {
    let folder = folder_with(&[]);
    let out = |scenario: &str| json(&weft(&["run", scenario, "--quick", "--json"], folder.path()))["out"].clone();
    // Without `[quick]` the form changes nothing.
    for place in ["scenarios/a", "b/c"] {
        std::fs::create_dir_all(folder.path().join(place)).expect("made");
        std::fs::copy(folder.path().join("s.toml"), folder.path().join(place).join("s.toml")).expect("copied");
    }
    assert_eq!(out("scenarios/a/s.toml"), "results/a-s");
    assert_eq!(out("./b/c/s.toml"), "results/b-c-s");
    assert_eq!(out("b/../s.toml"), "results/s");
    assert_eq!(out(folder.path().join("b/c/s.toml").to_str().expect("UTF-8")), "results/s");
    assert_eq!(out("@hedera/figure4"), "results/hedera-figure4");
    assert_eq!(out("@first"), "results/first");
}
