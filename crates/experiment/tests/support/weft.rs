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

/// A folder with a small scenario in it, changed by replacing texts.
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
