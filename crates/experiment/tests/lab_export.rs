//! `weft lab export` as a user runs it.
#![cfg(all(feature = "lab", target_os = "linux"))]

#[path = "support/weft.rs"]
mod support;

use std::fs;

use support::{json, root, stderr, weft};

#[test]
fn files_are_written_as_a_whole_and_never_over_others() {
    let folder = tempfile::tempdir().expect("a folder");
    let scenario = root().join("scenarios/vl2/lab-first.toml").canonicalize().expect("a scenario");
    let arguments = ["lab", "export", scenario.to_str().expect("text"), "--format", "sonic", "--out", "out", "--json"];
    let answer = json(&weft(&arguments, folder.path()));
    let switches = answer["switches"].as_array().expect("switches");
    assert!(!switches.is_empty());
    for it in switches {
        let own = folder.path().join("out").join(it["switch"].as_str().expect("a name"));
        let database = fs::read_to_string(own.join("config_db.json")).expect("a file");
        let database: serde_json::Value = serde_json::from_str(&database).expect("JSON");
        assert_eq!(database["DEVICE_METADATA"]["localhost"]["hostname"], it["switch"]);
        assert!(fs::read_to_string(own.join("frr.conf")).expect("a file").contains("router ospf"));
    }
    let again = weft(&arguments, folder.path());
    assert_eq!(again.status.code(), Some(2));
    assert!(stderr(&again).contains("already exists") && stderr(&again).contains("--out"), "{}", stderr(&again));
    assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 1, "nothing is left over");
}

#[test]
fn scenarios_without_an_overlay_and_folders_that_are_missing_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let of = |name: &str| root().join("scenarios").join(name).canonicalize().expect("a scenario").display().to_string();
    for (name, out, message) in [("first.toml", "out", "no overlay"), ("vl2/lab-first.toml", "missing/out", "cannot write")] {
        let output = weft(&["lab", "export", &of(name), "--format", "generic", "--out", out], folder.path());
        assert_eq!(output.status.code(), Some(2), "{name}");
        assert!(stderr(&output).contains(message), "{name}: {}", stderr(&output));
        assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 0, "{name}");
    }
}

/// NetLord's switches have their configurations, and its agents SPAIN's tables.
#[test]
fn switches_of_tenants_are_written_with_paths_for_the_agents() {
    let folder = tempfile::tempdir().expect("a folder");
    let scenario = root().join("scenarios/netlord/lab-tenants.toml").canonicalize().expect("a scenario").display().to_string();
    let output = weft(&["lab", "export", &scenario, "--format", "sonic", "--out", "out"], folder.path());
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let paths = fs::read_to_string(folder.path().join("out/paths.toml")).expect("SPAIN's tables");
    assert!(paths.contains("[[from]]"), "{paths}");
    let switches =
        fs::read_dir(folder.path().join("out")).expect("a folder").filter(|it| it.as_ref().expect("an entry").path().is_dir());
    assert!(switches.count() > 1);
}
