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

/// Section 7: copper throughout, at most about 2.2 m.
#[test]
fn cabling_is_measured_and_priced() {
    insta::assert_snapshot!("topo-subways-cabling", stdout(&["type=1", "--cabling"]));
    let survey = json(&["type=2", "--cabling"]);
    assert_eq!(survey["servers_on_copper"], true);
    let longest = survey["longest_server_run_m"].as_f64().expect("metres");
    assert!((2.1..=2.2).contains(&longest), "{longest} m");
    let taller = json(&["type=2", "--cabling", "--rack-height", "2.4", "cold_aisle=2"]);
    assert!(taller["longest_server_run_m"].as_f64().expect("metres") > 3.0);
    assert_eq!(survey["bill"]["currency"], "USD");
    let row = json(&["type=1", "--cabling", "arrangement=row"]);
    let stretches: Vec<&str> = row["classes"].as_array().expect("classes").iter().filter_map(|c| c["stretch"].as_str()).collect();
    assert_eq!(stretches, ["server-in-rack", "server-along-row", "tor-to-agg", "agg-to-core"]);
}

#[test]
fn prices_come_from_the_users_table() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("mine.toml");
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let list = std::fs::read_to_string(root.join("scenarios/data/prices.toml")).expect("it is shipped");
    std::fs::write(
        &path,
        list.replace("\"USD\"", "\"EUR\"")
            .replace("ports = 36, rate = \"10Gbps\", price = 3300", "ports = 36, rate = \"10Gbps\", price = 1"),
    )
    .expect("written");
    let path = path.to_str().expect("text");
    let mine = json(&["type=1", "--cabling", "--prices", path]);
    assert_eq!(mine["bill"]["currency"], "EUR");
    let tors = mine["bill"]["lines"].as_array().expect("lines").iter().find(|l| l["item"] == "ToR").expect("ToRs").clone();
    assert_eq!((&tors["count"], &tors["price"], &tors["total"]), (&24.into(), &1.0.into(), &24.0.into()));
    std::fs::write(path, list.replace("ports = 12, rate = \"40Gbps\"", "ports = 12, rate = \"40\"")).expect("written");
    let output = topo(&["type=1", "--cabling", "--prices", path]);
    assert_eq!(output.status.code(), Some(2));
    let message = text(&output.stderr);
    assert!(message.contains("mine.toml:") && message.contains("`40` is not a rate"), "{message}");
}

#[test]
fn upgrades_are_ordered_and_say_what_stays() {
    let single = ["ports=1", "servers_per_rack=30", "racks_per_cluster=6", "agg_oversubscription=3"];
    let double = ["--upgrade-to", "ports=2", "servers_per_rack=15", "racks_per_cluster=12"];
    insta::assert_snapshot!("topo-subways-upgrade-0", stdout(&[&["type=0"], &single[..], &double].concat()));
    let type_1 = json(&[&["type=1"], &single[..], &double].concat());
    assert_eq!(type_1["server_cables"]["moved"], 0);
    assert_eq!(type_1["steps"][0]["changes"][0]["action"], "add");
    assert!(type_1["steps"].as_array().expect("steps").iter().all(|s| s["in_service"]["servers_cut_off"] == 0));
    // Section 4.3: a parallel network of 25 Gbps beside one of 10 Gbps, without rewiring.
    let parallel = ["clusters=1", "loop_clusters=1", "link=10Gbps", "--upgrade-to", "ports=2", "speeds=[\"10Gbps\", \"25Gbps\"]"];
    let counts = ["servers_per_rack=15", "clusters=2", "loop_clusters=2", "loop=6"];
    let type_2 = json(&[&["type=2"], &single[..], &parallel, &counts].concat());
    for tier in ["server_cables", "tor_cables", "agg_cables"] {
        let touched = ["moved", "replaced", "removed"].map(|key| type_2[tier][key].clone());
        assert_eq!(touched, [0, 0, 0].map(Value::from), "{tier}");
    }
}

#[test]
fn what_cabling_and_upgrades_cannot_do_exits_with_2() {
    let cases: &[(&[&str], &str)] = &[
        (&["type=1", "--rack-height", "2"], "add --cabling"),
        (&["type=1", "--cabling", "--upgrade-to", "ports=3"], "one of them at a time"),
        (&["type=1", "--upgrade-to"], "has no keys"),
        (&["type=1", "--upgrade-to", "clusters=4"], "an upgrade keeps its servers"),
        (&["type=1", "--upgrade-to", "loop=5"], "choose one of 2, 3, 4, 6, 12"),
        (&["type=1", "--cabling", "slack=-1"], "choose metres from 0"),
        (&["type=1", "--cabling", "arrangement=circle"], "there is no arrangement"),
        (&["type=1", "--cabling", "--prices", "nowhere.toml"], "nowhere.toml"),
        (&["type=1", "--cabling", "link=800Gbps"], "no cable of 800Gbps"),
    ];
    for (keys, wanted) in cases {
        let output = topo(keys);
        assert_eq!(output.status.code(), Some(2), "{keys:?}");
        assert!(text(&output.stderr).contains(wanted), "{}", text(&output.stderr));
    }
}
