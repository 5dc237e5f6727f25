//! `weft whatif --plan` on files, and its errors.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

fn whatif(arguments: &[&str], folder: &Path) -> Output {
    let mut program = Command::new(env!("CARGO_BIN_EXE_weft-planner"));
    program.arg("whatif").args(arguments).current_dir(folder).output().expect("it runs")
}

/// Runs a plan on a Clos of 2 intermediate, 4 aggregation switches and 4 ToRs of 20 servers; gives the exit code and the report.
fn grow(plan: &str) -> (Option<i32>, Value) {
    let clos = "[fabric]\nkind = \"clos\"\nintermediates = 2\naggregations = 4\ntors = 4\nhosts_per_tor = 20\n";
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("s.toml"), clos).expect("written");
    std::fs::write(folder.path().join("p.toml"), plan).expect("written");
    let arguments = ["s.toml", "--plan", "p.toml", "--prices", "@data/prices-illustrative", "--traffic", "stride", "--json"];
    let output = whatif(&arguments, folder.path());
    let report = serde_json::from_slice(&output.stdout);
    (output.status.code(), report.unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&output.stderr))))
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

/// Every ToR sends 20 Gbps to the other pod, over 2 uplinks of 10 Gbps and 2 intermediate switches: all of it is carried. While the cables of one of the
/// two are exchanged for faster ones, half is; then the ToRs' cables to one aggregation switch of two, half again. Faster cables do not lower it.
#[test]
fn speeds_are_raised_by_hand_computed_steps() {
    let plan = "service_level = 0.5\n[[step]]\nname = \"nothing\"\nset = {}\n\
                [[step]]\nname = \"more\"\nset = { \"fabric.intermediates\" = 4 }\n\
                [[step]]\nname = \"faster\"\nset = { fabric.fabric_link = \"40Gbps\" }\n";
    let (code, report) = grow(plan);
    assert_eq!((code, &report["met"]), (Some(0), &Value::Bool(true)), "{report}");
    let [nothing, more, faster] = [0, 1, 2].map(|at| &report["steps"][at]);
    assert!((number(&report["start"]["throughput"]) - 1.0).abs() < 1e-9, "{report}");
    // Nothing changes: the same throughput, all the time, at no cost.
    assert_eq!(nothing["throughput"], report["start"]["throughput"]);
    assert_eq!((nothing["lowest"].clone(), number(&nothing["batches"])), (nothing["throughput"].clone(), 0.0));
    assert!(number(&nothing["cost"]["difference"]).abs() < 1e-9, "{nothing}");
    // Two switches with 4 cables each are added, and nothing is taken away while they are.
    assert_eq!(more["changes"]["switches_added"], serde_json::json!(["int2", "int3"]));
    assert_eq!((number(&more["changes"]["cables_added"]), number(&more["changes"]["cables_removed"])), (8.0, 0.0));
    assert!((number(&more["lowest"]) - 1.0).abs() < 1e-9 && more["lowest_batch"].is_null(), "{more}");
    assert!(number(&more["cost"]["difference"]) > 0.0, "{more}");
    // Each of 4 intermediate switches in turn leaves three, which are enough; an aggregation switch is half of a ToR's uplinks.
    assert_eq!((number(&faster["changes"]["cables_moved"]), number(&faster["batches"])), (24.0, 8.0));
    assert!((number(&faster["lowest"]) - 0.5).abs() < 1e-9 && faster["lowest_batch"] == "agg0", "{faster}");
    assert_eq!(number(&faster["servers"]), 80.0);
}

/// A level that a step does not meet ends with code 1 and names the step and the switch; racks are added in place.
#[test]
fn a_level_that_is_not_met_is_named() {
    let (code, report) = grow("service_level = 0.8\n[[step]]\nname = \"f\"\nset = { fabric.fabric_link = \"40Gbps\" }\n");
    assert_eq!((code, &report["steps"][0]["met"], &report["steps"][0]["lowest_batch"]), (Some(1), &false.into(), &"int0".into()));
    let (code, report) = grow(
        "service_level = 0.1\n[[step]]\nname = \"f\"\nset = { fabric = { intermediates = 2, aggregations = 4, tors = 8 } }\n",
    );
    assert_eq!((code, number(&report["steps"][0]["servers"])), (Some(0), 160.0), "{report}");
}

/// The bundled plan for Subways: a second port takes nothing away; while the cables of one ToR are replaced by faster ones, servers of two racks have one
/// port of two, which all send at the rate of both.
#[test]
fn ports_of_servers_are_added_and_replaced() {
    let folder = tempfile::tempdir().expect("a folder");
    let arguments = ["@data/growth/subways", "--plan", "@data/growth/plan-subways", "--prices", "@data/prices-illustrative"];
    let output = whatif(&[&arguments[..], &["--json", "--out", "growth"]].concat(), folder.path());
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let [second, faster] = [0, 1].map(|at| &report["steps"][at]);
    assert_eq!(output.status.code(), Some(0), "{report}");
    assert!((number(&second["lowest"]) - 1.0).abs() < 1e-9 && second["lowest_batch"].is_null(), "{second}");
    assert_eq!(
        (number(&second["changes"]["server_cables_added"]), number(&second["changes"]["server_cables_moved"])),
        (48.0, 0.0)
    );
    assert!((number(&faster["lowest"]) - 0.5).abs() < 1e-9, "{faster}");
    assert_eq!(number(&faster["changes"]["server_cables_moved"]), 96.0);
    assert!(number(&faster["cost"]["difference"]) > 0.0, "{faster}");
    let page = std::fs::read_to_string(folder.path().join("growth/whatif.html")).expect("the page");
    assert!(page.contains("<svg") && page.contains("ports of 25 Gbps") && page.contains("Price"), "{page}");

    // Single cables that are replaced cut their servers off: the level is not met, and the first ToR is named.
    let plan = "service_level = 0.1\n[[step]]\nname = \"fast\"\nset = { fabric.host_link = \"25Gbps\" }\n";
    std::fs::write(folder.path().join("p.toml"), plan).expect("written");
    let output = whatif(&["@data/growth/subways", "--plan", "p.toml"], folder.path());
    let table = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{table}");
    assert!(table.contains("below the service level: while tor0 is changed"), "{table}");

    // Other servers: compared by names. The last rack of a loop has another pair of ToRs then, so its traffic is left out.
    let plan = "service_level = 0.1\n[[step]]\nname = \"more\"\nset = { fabric.racks_per_cluster = 8, fabric.loop = 8 }\n";
    std::fs::write(folder.path().join("p.toml"), plan).expect("written");
    let two = ["--set", "fabric.ports=2", "--set", "fabric.servers_per_rack=2", "--set", "fabric.clusters=1", "--json"];
    let output = whatif(&[&["@data/growth/subways", "--plan", "p.toml"], &two[..]].concat(), folder.path());
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    // Of 6 x 5 ordered pairs of racks the last rack has 10.
    assert!((number(&report["steps"][0]["kept_traffic"]) - 20.0 / 30.0).abs() < 1e-9, "{report}");
}

/// Each is an error with its place, exit code 2.
#[test]
fn bad_plans_are_named() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("s.toml"), "[fabric]\nkind = \"fat-tree\"\nk = 4\n").expect("written");
    for (plan, place) in [
        ("service_level = 0.5\n[[step]]\nname = \"a\"\nsets = {}\n", "line 4"),
        ("service_level = 0.5\n", "no step"),
        ("service_level = 1.5\n[[step]]\nname = \"a\"\nset = {}\n", "line 1"),
        ("service_level = 0\n[[step]]\nname = \"a\"\nset = {}\n", "line 1"),
        ("service_level = 0.5\n[[step]]\nname = \"more\"\nset = { fabric.kk = 8 }\n", "step `more`"),
        ("service_level = 0.5\n[[step]]\nname = \"odd\"\nset = { fabric.k = 5 }\n", "step `odd`"),
    ] {
        std::fs::write(folder.path().join("p.toml"), plan).expect("written");
        let output = whatif(&["s.toml", "--plan", "p.toml"], folder.path());
        let message = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{plan}: {message}");
        assert!(message.contains(place), "{plan}: {message}");
    }
}
