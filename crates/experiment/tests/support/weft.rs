//! Runs the `weft` binary in a folder with a small scenario.
#![allow(dead_code, reason = "each test file uses its part")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

pub fn weft(arguments: &[&str], folder: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_weft")).args(arguments).current_dir(folder).output().expect("weft starts")
}

pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

pub fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("text")
}

pub fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).expect("text")
}

pub fn json(output: &Output) -> Value {
    assert!(output.status.success(), "{}", stderr(output));
    serde_json::from_slice(&output.stdout).expect("stdout is JSON and nothing else")
}

/// Whether labs can be made here; if not, says why.
pub fn lab_is_possible() -> bool {
    let report: Value = serde_json::from_slice(&weft(&["lab", "doctor", "--json"], Path::new("/")).stdout).expect("JSON");
    can(report["ok"] == true, &format!("a lab cannot come up here: {report:#}"))
}

/// Whether labs with agents can be made here; if not, says why.
pub fn agents_are_possible() -> bool {
    let program = Path::new(env!("CARGO_BIN_EXE_weft")).with_file_name("weft-agent");
    lab_is_possible() && can(program.is_file(), "weft-agent is not built")
}

/// Where all tools must be there, a test that cannot run fails.
fn can(it_can: bool, why_not: &str) -> bool {
    assert!(it_can || std::env::var_os("CI").is_none(), "{why_not}");
    if !it_can {
        eprintln!("SKIPPED: {why_not}");
    }
    it_can
}

/// A folder with a small scenario in it, with replacements made in its text.
pub fn folder_with(changes: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut text = SMALL.to_owned();
    for (from, to) in changes {
        assert!(text.contains(from), "the scenario has no `{from}`");
        text = text.replace(from, to);
    }
    std::fs::write(folder.path().join("s.toml"), text).expect("written");
    folder
}

/// Sixteen hosts, sixteen flows of a second each.
pub const SMALL: &str = r#"title = "Stride on 16 hosts"

[fabric]
kind = "fat-tree"
k = 4
link = "1Gbps"

[traffic]
pattern = "stride"
stride = 4
size = "125MB"

[control]
scheduler = "first-fit"
period = "100ms"

[world]
duration = "20s"

[[expect]]
source = "every flow alone on its path"
metric = "completion_s"
value = 1.0
within = "50%"
"#;
