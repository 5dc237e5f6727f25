//! The program away from its checkout: bundled scenarios by name, and the programs that it becomes.

#[path = "support/weft.rs"]
mod support;

use support::{json, stderr, stdout, weft};

#[test]
fn a_bundled_scenario_runs_in_an_empty_folder() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let output = weft(&["run", "@first", "--set", "fabric.k=4", "--set", "control.scheduler=none"], folder.path());
    assert!(output.status.success(), "{}", stderr(&output));
    let results: Vec<_> = std::fs::read_dir(folder.path().join("results")).expect("results").flatten().collect();
    assert_eq!(results.len(), 1);
    assert!(results[0].file_name().to_string_lossy().starts_with("first"), "{:?}", results[0].file_name());
    assert!(results[0].path().join("report.html").is_file());
}

#[test]
fn bundled_scenarios_are_checked_with_the_data_that_they_read() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let checked = json(&weft(&["check", "@hedera/figure4", "--json", "--out", "out"], folder.path()));
    assert_eq!(checked["scenarios"][0]["scenario"], "@hedera/figure4");
    assert_eq!(checked["ok"], true);
    assert!(folder.path().join("out/hedera/figure4/summary.json").is_file());
    let demands = json(&weft(&["demand", "@data/hedera-figure4.csv", "--json"], folder.path()));
    assert!(!demands["demands"].as_array().expect("a list").is_empty());
    assert_eq!(std::fs::read_dir(folder.path()).expect("read").count(), 1, "only --out is written");
}

#[test]
fn examples_lists_all_bundled_scenarios() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let all = json(&weft(&["examples", "--json"], folder.path()));
    let all = all["examples"].as_array().expect("a list").clone();
    let figure9 = all.iter().find(|e| e["name"] == "@hedera/figure9").expect("it is bundled");
    assert_eq!(figure9["worlds"], serde_json::json!(["flow"]));
    assert_eq!(figure9["expects"], true);
    assert!(all.iter().any(|e| e["worlds"].as_array().expect("a list").contains(&"lab".into())));
    let listed = stdout(&weft(&["examples"], folder.path()));
    assert!(listed.lines().all(|line| line.chars().count() <= 80), "{listed}");
    let hedera = stdout(&weft(&["examples", "@hedera"], folder.path()));
    assert!(hedera.contains("@hedera/figure9") && !hedera.contains("@vl2/"), "{hedera}");
    let wrong = weft(&["examples", "@hedra"], folder.path());
    assert_eq!(wrong.status.code(), Some(2));
    assert!(stderr(&wrong).contains("did you mean `@hedera`?"), "{}", stderr(&wrong));
    let one = stdout(&weft(&["examples", "@hedera/figure9"], folder.path()));
    assert!(one.starts_with("@hedera/figure9 ") && !one.contains("@hedera/figure9-packets"), "{one}");
}

#[test]
fn a_folder_of_examples_that_is_like_no_other_has_all_of_them_listed() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let output = weft(&["examples", "@nope"], folder.path());
    assert_eq!(output.status.code(), Some(2));
    let text = stderr(&output);
    assert!(text.contains("`@nope`") && !text.contains("did you mean"), "{text}");
    for valid in ["@bench", "@hedera", "@netlord", "@subways", "@vl2"] {
        assert!(text.contains(valid), "{valid}:\n{text}");
    }
    assert!(!text.contains("@data"), "{text}");
}

#[test]
fn a_mistyped_bundled_name_proposes_the_nearest() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let output = weft(&["run", "@frist"], folder.path());
    assert_eq!(output.status.code(), Some(2));
    let text = stderr(&output);
    assert!(text.contains("did you mean `@first`?") && text.contains("`weft examples` lists"), "{text}");
    assert_eq!(std::fs::read_dir(folder.path()).expect("read").count(), 0, "nothing is written");
}

#[test]
fn a_copy_of_a_bundled_scenario_stands_alone() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    assert!(weft(&["new", "mine.toml", "--template", "@hedera/figure4"], folder.path()).status.success());
    let text = std::fs::read_to_string(folder.path().join("mine.toml")).expect("written");
    assert!(text.contains("\"@data/hedera-figure4.csv\""), "{text}");
    let checked = json(&weft(&["check", "mine.toml", "--json"], folder.path()));
    assert_eq!(checked["ok"], true);
    let wrong = weft(&["new", "other.toml", "--template", "@hedera/figure99"], folder.path());
    assert_eq!(wrong.status.code(), Some(2));
    assert!(!folder.path().join("other.toml").exists());
}

/// A signal to `weft directory serve` must reach the daemon: the program is that process, not a child of it.
#[cfg(unix)]
#[test]
fn weft_becomes_the_program_that_it_starts() {
    use std::os::unix::fs::PermissionsExt as _;
    use std::process::{Command, Stdio};

    // Beside `weft`, where it looks first.
    let folder = tempfile::tempdir().expect("a temporary folder");
    let weft = folder.path().join("weft");
    std::fs::copy(env!("CARGO_BIN_EXE_weft"), &weft).expect("copied");
    let program = folder.path().join("weft-scheduler");
    std::fs::write(&program, "#!/bin/sh\necho $$ \"$@\"\nexit 7\n").expect("written");
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).expect("set");
    let child =
        Command::new(&weft).args(["scheduler", "run", "--config", "x"]).stdout(Stdio::piped()).spawn().expect("weft starts");
    let id = child.id();
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(stdout(&output), format!("{id} run --config x\n"));
    assert_eq!(output.status.code(), Some(7));
}
