//! Events of the lab as a user writes them: what is refused and where, and what a run says of them. The runs need root; elsewhere they say that they are skipped.
#![cfg(all(feature = "lab", target_os = "linux"))]

#[path = "support/weft.rs"]
mod support;

use serde_json::Value;
use support::{agents_are_possible, folder_with, json, stderr, stdout, weft};

const LAB: &[(&str, &str)] = &[
    ("size = \"125MB\"", "size = \"inf\""),
    ("scheduler = \"first-fit\"", "scheduler = \"none\""),
    ("duration = \"20s\"", "kind = \"lab\"\nduration = \"5s\"\nscale = 0.02"),
    ("[[expect]]\nsource = \"every flow alone on its path\"\nmetric = \"completion_s\"\nvalue = 1.0\nwithin = \"50%\"\n", ""),
];

#[track_caller]
fn refused(changes: &[(&str, &str)], tables: &str, wanted: &[&str]) {
    let text = format!("{tables}\n[traffic]");
    let folder = folder_with(&[changes, &[("[traffic]", text.as_str())]].concat());
    for command in [&["run", "s.toml", "--out", "r"][..], &["check", "s.toml"]] {
        let output = weft(command, folder.path());
        assert_eq!(output.status.code(), Some(2), "{tables}: {}", stderr(&output));
        for part in wanted {
            assert!(stderr(&output).contains(part), "`{part}` is missing in:\n{}", stderr(&output));
        }
    }
    assert!(!folder.path().join("r").exists());
}

const VL2: &str = "[overlay]\nkind = \"vl2\"";

#[test]
fn what_a_simulated_world_cannot_do_is_refused() {
    for (key, object) in [("kill", "agent h0"), ("restart", "frr agg0"), ("move", "host h1 to edge2")] {
        let event = format!("[[event]]\nat = \"1s\"\n{key} = \"{object}\"");
        refused(&[], &event, &["s.toml:10", &format!("knows no `{key}`"), "kind = \"lab\""]);
        let set = "[[event]]\nat = \"1s\"\nfail = \"switch core0\"\nkill = \"agent h0\"";
        refused(&[], set, &["exactly one thing", "`kill`, `restart`, `move`"]);
    }
}

#[test]
fn what_a_lab_cannot_do_is_refused() {
    let event = |tables: &str, event: &str| format!("{tables}\n[[event]]\nat = \"1s\"\n{event}");
    refused(LAB, &event("", "kill = \"agent h0\""), &["s.toml:", "there is no overlay", "[overlay]"]);
    refused(LAB, &event(VL2, "kill = \"agent h99\""), &["no node called `h99`", "weft topo"]);
    refused(LAB, &event(VL2, "restart = \"server 3\""), &["server 0 to server 0", "`servers` in [directory]"]);
    refused(LAB, &event(VL2, "kill = \"store\""), &["a part of its server", "etcd"]);
    refused(LAB, &event(VL2, "move = \"host h1 to core0\""), &["core0 is no ToR", "name a switch"]);
    refused(LAB, &event(VL2, "move = \"h1\""), &["does not say who moves where", "host h1 to tor2"]);
    let host = "[overlay]\nkind = \"vl2\"\nlocator = \"host\"";
    refused(LAB, &event(host, "move = \"host h1 to edge2\""), &["their own locators", "locator = \"tor\""]);
    let still = [LAB, &[("scale = 0.02", "scale = 0.02\nrouting = \"static\"")]].concat();
    refused(&still, &event("", "kill = \"frr agg0\""), &["routes are static", "routing = \"frr\""]);
}

#[test]
fn directory_servers_of_a_lab_are_checked() {
    let directory = |text: &str| format!("{VL2}\n[directory]\n{text}");
    refused(LAB, &directory("servers = 3"), &["an embedded store has one server", "store = \"etcd\""]);
    refused(LAB, &directory("store = \"replicated\""), &["no store `replicated`", "embedded, etcd"]);
    refused(LAB, &directory("servers = 17\nstore = \"etcd\""), &["17 directory servers are more than there are hosts, 16"]);
    refused(LAB, &directory("servers = 0"), &["from 1 to 100"]);
    refused(LAB, &directory("loss = 0.1"), &["unknown key `loss`"]);
    refused(LAB, "[directory]\nservers = 1", &["asks no directory"]);
}

#[test]
fn a_run_reports_what_flows_noticed() {
    if !agents_are_possible() {
        return;
    }
    let events = "[overlay]\nkind = \"vl2\"\n[[event]]\nat = \"1s\"\nkill = \"agent h0\"\n[[event]]\nat = \"2s\"\nrestart = \"agent h0\"\n\
                  [[event]]\nat = \"3s\"\nrestart = \"agent edge7\"\n[traffic]";
    let fabric = [
        ("kind = \"fat-tree\"\nk = 4", "kind = \"fat-tree\"\nlevels = 2\nedges = 8\ncores = 2\nhosts_per_edge = 1"),
        ("[traffic]", events),
    ];
    let folder = folder_with(&[LAB, &fabric, &[("stride = 4", "stride = 1")]].concat());
    let summary = json(&weft(&["run", "s.toml", "--out", "r", "--json"], folder.path()));
    let run = &summary["runs"][0];
    let faults: Vec<(f64, &str, u64)> = run["lab"]["faults"].as_array().expect("faults").iter().map(fault).collect();
    assert_eq!(faults, [(1.0, "kill agent h0", 2), (2.0, "restart agent h0", 2), (3.0, "restart agent edge7", 2)], "{run:#}");
    let metric = |name: &str| run["metrics"][name].as_f64().unwrap_or_else(|| panic!("{name}: {run:#}"));
    assert!(metric("outage_s") < 3.0 && metric("outage_s") == metric("outage_s.agent"));
    assert_eq!((metric("flows_broken"), metric("isolation_drops")), (0.0, 0.0));
    assert!(run["metrics"]["move_outage_s"].is_null());
    let table = stdout(&weft(&["run", "s.toml", "--out", "r"], folder.path()));
    assert!(table.contains("restart agent edge7") && table.contains("longest outage"), "{table}");
}

fn fault(fault: &Value) -> (f64, &str, u64) {
    assert!(fault["silent_s"].as_f64().is_some_and(|s| s > 0.0), "{fault}");
    (fault["at_s"].as_f64().expect("a time"), fault["event"].as_str().expect("a text"), fault["flows"].as_u64().expect("a count"))
}
