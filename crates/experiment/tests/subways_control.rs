//! Subways' controllers on a scenario's fabric: balance beats hashing, and detours beat balance (Subways sections 5 and 6).

#[path = "support/weft.rs"]
mod support;

use serde_json::Value;
use support::{json, stderr, weft};

/// A shuffle of a few whole racks of type 1's loop, in all of its forms.
const SHUFFLE: &str = r#"
title = "a shuffle of some racks of a loop"
[fabric]
kind = "subways"
type = "0"
servers_per_rack = 5
clusters = 2
[traffic]
pattern = "shuffle"
racks = [3, 4, 5]
size = "30MB"
[world]
ideal = false
seeds = 8
[sweep]
"fabric.type" = ["1", "1LB", "1D"]
"traffic.racks" = [[3, 4, 5], [3, 4, 5, 6]]
"#;

fn folder(scenario: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("s.toml"), scenario).expect("written");
    folder
}

#[test]
fn balance_beats_hashing_and_detours_beat_balance() {
    let folder = folder(SHUFFLE);
    let printed = json(&weft(&["run", "s.toml", "--out", "r", "--json"], folder.path()));
    let of = |kind: &str, racks: usize, metric: &str| {
        let runs = printed["runs"].as_array().expect("runs");
        let same =
            |r: &&Value| r["set"]["fabric.type"] == kind && r["set"]["traffic.racks"].as_array().map(Vec::len) == Some(racks);
        runs.iter().find(same).expect("that run")["metrics"][metric].as_f64()
    };
    for racks in [3, 4] {
        let done = |kind| of(kind, racks, "completion_s").expect("it ends");
        assert!(done("1LB") < 0.97 * done("1"), "{racks} racks: {} {}", done("1LB"), done("1"));
        // Three racks leave their remote ToRs little to give below the cap of section 6.
        assert!(done("1D") < 0.99 * done("1LB"), "{racks} racks: {} {}", done("1D"), done("1LB"));
        assert_eq!(of("1", racks, "rounds"), None, "nobody schedules");
        assert_eq!(of("1LB", racks, "detours_mean"), Some(0.0));
        assert!(of("1D", racks, "detours_mean") > Some(1.0));
    }
}

#[test]
fn a_scheduler_that_the_scenario_names_has_the_last_word() {
    let folder = folder(SHUFFLE);
    let args = [
        "run",
        "s.toml",
        "--out",
        "r",
        "--json",
        "--set",
        "fabric.type=1D",
        "--set",
        "traffic.racks=[3,4,5,6]",
        "--set",
        "world.seeds=1",
    ];
    let run = |more: &[&str]| {
        let printed = json(&weft(&[&args[..], more].concat(), folder.path()));
        printed["runs"][0]["metrics"].clone()
    };
    assert_eq!(run(&["--set", "control.scheduler=none"]).get("rounds"), None);
    let adaptive = run(&["--set", "control.scheduler=adaptive"]);
    assert_eq!((adaptive["detours_mean"].as_f64(), adaptive["moves"].as_f64() > Some(0.0)), (Some(0.0), true));
    // Twice the period, half the rounds.
    let slow = run(&["--set", "control.scheduler=adaptive", "--set", "control.period=20ms"]);
    let rounds = |m: &Value| m["rounds"].as_f64().expect("rounds") * if *m == slow { 2.0 } else { 1.0 };
    assert!((rounds(&slow) / rounds(&adaptive) - 1.0).abs() < 0.2);
}

#[test]
fn settings_that_mean_nothing_are_refused_at_their_key() {
    for (setting, says) in [
        ("ewma_gain=0.0", "ewma_gain"),
        ("aggressiveness=1.5", "aggressiveness"),
        ("detect=\"0s\"", "detect"),
        ("max_detour_servers=0", "max_detour_servers"),
        ("rebind=\"some\"", "valid values: surplus, all"),
        ("measure=true", "there is no scheduler to measure"),
    ] {
        let folder = folder(SHUFFLE);
        let set = format!("control.{setting}");
        let output = weft(&["run", "s.toml", "--out", "r", "--set", "control.scheduler=detour", "--set", &set], folder.path());
        assert_eq!(output.status.code(), Some(2), "{setting}");
        assert!(stderr(&output).contains(says), "{setting}: {}", stderr(&output));
        assert!(!folder.path().join("r").exists());
    }
}

/// Warnings of `weft run` on the scenario with these settings: `PLACE: MESSAGE`, on one line each.
fn warnings(scenario: &str, settings: &[&str]) -> Vec<String> {
    let folder = folder(scenario);
    let sets = settings.iter().flat_map(|set| ["--set", set]);
    let args: Vec<&str> = ["run", "s.toml", "--out", "r", "--json"].into_iter().chain(sets).collect();
    let output = weft(&args, folder.path());
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    stderr(&output).lines().filter(|line| line.contains("WARN") || line.contains("warning")).map(str::to_owned).collect()
}

const STRIDE: &str = r#"
title = "a stride"
[fabric]
kind = "fat-tree"
k = 4
[traffic]
pattern = "stride"
stride = 4
size = "1MB"
[control]
scheduler = "detour"
detect = "20ms"
[world]
ideal = false
"#;

#[test]
fn controllers_without_loops_are_warned_of_at_their_line() {
    let warned = warnings(STRIDE, &[]);
    assert!(warned.len() == 1 && warned[0].contains("s.toml:11: ") && warned[0].contains("no loops"), "{warned:?}");
    // Every rack has both of its ToRs: nothing is remote.
    let short = ["fabric.type=\"1D\"", "fabric.loop=2", "traffic.racks=[3, 4, 5]"];
    let warned = warnings(SHUFFLE, &short);
    assert!(warned.iter().any(|w| w.contains("no remote ToR")), "{warned:?}");
    assert_eq!(warnings(SHUFFLE, &["traffic.racks=[3, 4, 5]"]), Vec::<String>::new());
}

#[test]
fn settings_that_no_run_reads_are_warned_of_at_their_line() {
    let warned = warnings(STRIDE, &["control.scheduler=none"]);
    assert!(warned.len() == 1 && warned[0].contains("s.toml:12: `detect` has no effect: it needs `scheduler"), "{warned:?}");
    for (set, needs) in [
        ("control.iterations=1000", "annealing"),
        ("control.flowlet_gap=1us", "packet world"),
        ("control.spain_paths=4", "spain"),
        ("control.reconverge=1ms", "[[event]]"),
        ("control.vlb_local=false", "vlb"),
    ] {
        let key = set.split('=').next().unwrap_or_default();
        let warned = warnings(SHUFFLE, &["traffic.racks=[3, 4, 5]", "fabric.type=1D", set]);
        let says = |w: &String| w.contains(&format!("--set {key}: ")) && w.contains(needs);
        assert!(warned.len() == 1 && says(&warned[0]), "{set}: {warned:?}");
    }
    // One run of a sweep reads it.
    assert_eq!(warnings(SHUFFLE, &["traffic.racks=[3, 4, 5]", "control.detour_usable=0.5"]), Vec::<String>::new());
}
