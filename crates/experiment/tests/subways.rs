//! `kind = "subways"` as a user meets it: `weft topo`, its errors, cabling and upgrades. `docs/subways-wiring.md` shows the same output.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

fn topo(keys: &[&str]) -> Output {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    Command::new(env!("CARGO_BIN_EXE_weft")).args(["topo", "subways"]).args(keys).current_dir(root).output().expect("weft starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("text")
}

fn stdout(keys: &[&str]) -> String {
    let output = topo(keys);
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout)
}

fn json(keys: &[&str]) -> Value {
    serde_json::from_str(&stdout(&[keys, &["--json"]].concat())).expect("stdout is JSON and nothing else")
}

#[test]
fn the_default_configuration_and_the_testbed_are_measured() {
    insta::assert_snapshot!("topo-subways-1", stdout(&["type=1"]));
    let testbed = ["levels=2", "racks_per_cluster=4", "servers_per_rack=4", "tor_oversubscription=4", "link=500Mbps"];
    for kind in ["type=0", "type=1"] {
        let measured = json(&[&[kind], &testbed[..]].concat());
        let counts = ["hosts", "switches", "racks", "pods"].map(|key| measured[key].clone());
        assert_eq!(counts, [16, 6, 4, 1].map(Value::from), "{kind}");
        assert_eq!(measured["tiers"][0]["oversubscription_max"], 4.0);
    }
}

#[test]
fn every_type_is_a_name() {
    for kind in ["0", "1", "1LB", "1D", "2", "2LB", "2D", "MC-LAG"] {
        let measured = json(&[&format!("type={kind}")]);
        assert_eq!(measured["hosts"], 360, "{kind}");
        assert!(measured["title"].as_str().expect("text").contains(kind), "{kind}");
    }
}

#[test]
fn impossible_wirings_exit_with_2_and_a_remedy() {
    let cases: &[(&[&str], &[&str])] = &[
        (&[], &["fabric.type", "is missing"]),
        (&["type=3"], &["there is no type `3`", "MC-LAG"]),
        (&["type=1", "loop=5"], &["loop = 5", "choose one of 2, 3, 4, 6, 12"]),
        (&["type=1", "loop=24"], &["a cluster has 12 racks", "lower it"]),
        (&["type=1", "loop=2", "ports=3"], &["raise it to 3"]),
        (&["type=1", "server_ports=31"], &["choose 30 or 32"]),
        (&["type=1", "server_ports=30", "servers_per_rack=15"], &["leave one of them out"]),
        (&["type=2", "clusters=1"], &["raise it to 2"]),
        (&["type=1", "link=0Gbps"], &["fabric.link", "without capacity"]),
        (&["type=2", "speeds=[\"10Gbps\", \"0bps\"]"], &["set every speed"]),
        (&["type=2", "speeds=[]"], &["speeds", "a rate for each"]),
        (&["type=2", "speeds=[\"10Gbps\"]", "link=10Gbps"], &["leave one of them out"]),
        (&["type=1", "levels=2", "agg_uplinks=3"], &["no cores"]),
        (&["type=1", "tor_oversubscription=7"], &["choose 6 (5 links) or 7.5 (4 links)"]),
    ];
    for (keys, wanted) in cases {
        let output = topo(keys);
        assert_eq!(output.status.code(), Some(2), "{keys:?}");
        assert!(output.stdout.is_empty());
        let message = text(&output.stderr);
        for part in *wanted {
            assert!(message.contains(part), "`{part}` is missing in:\n{message}");
        }
    }
}
