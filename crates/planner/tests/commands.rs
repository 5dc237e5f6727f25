//! `weft whatif` and `weft optimum` on files, and their errors.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

fn planner(arguments: &[&str], folder: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_weft-planner")).args(arguments).current_dir(folder).output().expect("it runs")
}

fn json(arguments: &[&str], folder: &Path) -> Value {
    let output = planner(arguments, folder);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    for (name, text) in files {
        std::fs::write(folder.path().join(name), text).expect("written");
    }
    folder
}

const FABRIC: &str = "[fabric]\nkind = \"fat-tree\"\nk = 4\nlink = \"1Gbps\"\n";

/// Two intervals of 10 s: in the first, edge0 sends 1 Gbps to edge4; in the second nothing that leaves a rack but a tenth of that.
#[test]
fn matrices_of_a_study_are_routed() {
    let csv = "start_s,from,to,bytes\n0,edge0,edge4,1250000000\n10,edge0,edge4,125000000\n10,edge0,edge0,99\n";
    let folder = folder(&[("f.toml", FABRIC), ("m.csv", csv)]);
    let report = json(&["optimum", "f.toml", "--matrices", "m.csv", "--json"], folder.path());
    let rows = report["matrices"].as_array().expect("rows");
    assert_eq!(rows.len(), 2);
    // ECMP halves it at the edge switch; a single path does not.
    for (row, load) in rows.iter().zip([1.0, 0.1]) {
        let at = |key: &str| row[key].as_f64().expect("a number");
        assert!((at("ecmp") - load / 2.0).abs() < 1e-9 && (at("single") - load).abs() < 1e-9, "{row}");
        assert!(at("optimum_at_least") <= load / 2.0 + 1e-9 && at("optimum") <= load / 2.0 + 1e-9, "{row}");
    }
    let order = "start_s,from,to,bytes\n0,a,b,1000\n";
    std::fs::write(folder.path().join("o.csv"), order).expect("written");
    assert_eq!(json(&["optimum", "f.toml", "--matrices", "o.csv", "--json"], folder.path())["in_order"], true);
}

#[test]
fn a_folder_has_the_states_and_the_page() {
    let folder =
        folder(&[("f.toml", FABRIC), ("r.toml", "[[part]]\nkind = \"switch\"\ntier = 1\nmtbf = \"3y\"\nmttr = \"4h\"\n")]);
    let study = json(&["whatif", "f.toml", "--pairs", "--rates", "r.toml", "--out", "out", "--json"], folder.path());
    assert_eq!(study["single"].as_array().map(Vec::len), Some(58));
    assert!(study["availability"]["days_disconnected"][0].as_f64().is_some_and(|days| (0.1..1.0).contains(&days)), "{study}");
    let read = |name: &str| std::fs::read_to_string(folder.path().join("out").join(name)).expect("written");
    assert_eq!(read("states.csv").lines().count(), 1 + 58 + 58 * 57 / 2);
    assert!(read("whatif.html").contains("Traffic lost by the failure of a switch"));
    assert!(read("whatif.json").contains("\"healthy\""));
}

/// Each is an error with its place and the next step, exit code 2.
#[test]
fn bad_input_is_named() {
    let rates = "[[part]]\nkind = \"switch\"\nmtbf = \"3\"\nmttr = \"4h\"\n";
    let files = [
        ("f.toml", FABRIC),
        ("one.toml", "[fabric]\nkind = \"switch\"\nhosts = 4\n"),
        ("unit.toml", rates),
        ("key.toml", "[[part]]\nkind = \"switch\"\nmtfb = \"3y\"\nmttr = \"4h\"\n"),
        ("idle.toml", "[[part]]\nkind = \"switch\"\ntier = 9\nmtbf = \"3y\"\nmttr = \"4h\"\n"),
        ("header.csv", "a,b\n1,2\n"),
        ("number.csv", "start_s,from,to,bytes\n0,edge0,edge4,many\n"),
        ("mixed.csv", "start_s,from,to,bytes\n0,edge0,rack7,1\n"),
        ("empty.csv", "start_s,from,to,bytes\n"),
    ];
    let folder = folder(&files);
    for (arguments, place) in [
        (&["whatif", "f.toml", "--rates", "unit.toml"][..], "line 3"),
        (&["whatif", "f.toml", "--rates", "key.toml"], "line 3"),
        (&["whatif", "f.toml", "--rates", "idle.toml"], "number 1"),
        (&["whatif", "f.toml", "--level", "2"], "at most 1"),
        (&["whatif", "one.toml"], "one rack"),
        (&["whatif", "missing.toml"], "missing.toml"),
        (&["optimum", "f.toml", "--matrices", "header.csv"], "line 1"),
        (&["optimum", "f.toml", "--matrices", "number.csv"], "line 2"),
        (&["optimum", "f.toml", "--matrices", "mixed.csv"], "rack7"),
        (&["optimum", "f.toml", "--matrices", "empty.csv"], "no traffic"),
        (&["optimum", "f.toml", "--tolerance", "0"], "0.001"),
    ] {
        let output = planner(arguments, folder.path());
        let message = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {message}");
        assert!(message.contains(place), "{arguments:?}: {message}");
    }
}
