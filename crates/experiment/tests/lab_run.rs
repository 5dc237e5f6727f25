//! `weft run --world lab` as a user runs it: its files, what it says of itself, and that nothing is left however it ends. As root; elsewhere
//! most of it says that it is skipped.
#![cfg(all(feature = "lab", target_os = "linux"))]

#[path = "support/weft.rs"]
mod support;

use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use serde_json::Value;
use support::{agents_are_possible, folder_with, json, lab_is_possible, stderr, stdout, weft};

/// Flows of a quarter of a second or so at 20 Mbps.
const LAB: &[(&str, &str)] = &[
    ("size = \"125MB\"", "size = \"500kB\""),
    ("scheduler = \"first-fit\"", "scheduler = \"none\""),
    ("duration = \"20s\"", "duration = \"20s\"\nscale = 0.02\nrouting = \"static\"\nseed = 3"),
    ("within = \"50%\"", "within = \"500%\""),
];

/// Namespaces of the lab of a process.
fn namespaces(pid: u32) -> usize {
    let Ok(entries) = std::fs::read_dir("/run/netns") else { return 0 };
    let prefix = format!("weft-run{pid:x}-");
    entries.flatten().filter(|e| e.file_name().to_string_lossy().starts_with(&prefix)).count()
}

#[test]
fn a_run_gives_the_files_of_every_world() {
    if !lab_is_possible() {
        return;
    }
    let folder = folder_with(LAB);
    let summary = json(&weft(&["run", "s.toml", "--world", "lab", "--out", "r", "--json"], folder.path()));
    let run = &summary["runs"][0];
    assert_eq!((&run["lab"]["scale"], &run["lab"]["routing"]), (&0.02.into(), &"static".into()));
    assert!(run["lab"]["ospf"].is_null() && run["lab"]["trusted"].is_boolean(), "{run:#}");
    let metrics = &run["metrics"];
    assert_eq!((&metrics["flows"], &metrics["flows_finished"]), (&16.into(), &16.into()));
    for name in [
        "goodput_bps",
        "goodput_fraction",
        "optimal_fraction",
        "completion_s",
        "jain_flows",
        "retransmits",
        "drops",
        "hops",
        "efficiency",
        "cpu_idle_fraction",
    ] {
        assert!(metrics[name].is_number(), "{name}: {metrics:#}");
    }
    // At 20 Mbps a flow alone takes 0.21 s, and no flow is alone for certain.
    let completion = metrics["completion_s"].as_f64().expect("a number");
    assert!((0.2..5.0).contains(&completion), "{completion}");
    for file in ["flows.parquet", "links.parquet", "link_series.parquet", "throughput.parquet", "summary.json", "report.html"] {
        assert!(folder.path().join("r").join(file).is_file(), "{file}");
    }
    let table = weft(&["run", "s.toml", "--world", "lab", "--out", "r"], folder.path());
    assert!(stdout(&table).contains("real packets, link rates x 0.02, static routes"), "{}", stdout(&table));
}

/// A megabyte at 20 Mbps lasts 0.4 s, and half as long again is more than TCP waits for; at 1 Gbps it lasts 12 ms.
#[test]
fn a_queue_that_lasts_longer_than_tcp_waits_is_not_trusted() {
    if !lab_is_possible() {
        return;
    }
    let queue = |bytes: &str| {
        let mut changes = LAB.to_vec();
        let world = format!("duration = \"20s\"\nscale = 0.02\nrouting = \"static\"\nseed = 3\nswitch_queue = \"{bytes}\"");
        changes[2].1 = Box::leak(world.into_boxed_str());
        let folder = folder_with(&changes);
        let output = weft(&["run", "s.toml", "--world", "lab", "--out", "r", "--json"], folder.path());
        let lab = json(&output)["runs"][0]["lab"].clone();
        let why = lab["distrust"].as_array().cloned().unwrap_or_default();
        (
            lab["regime"]["queue_s"].as_f64(),
            why.contains(&"queue".into()),
            stderr(&output).contains("a full queue of a switch lasts"),
        )
    };
    assert_eq!(queue("1500kB"), (Some(0.6), true, true));
    assert_eq!(queue("100kB"), (Some(0.04), false, false));
}

/// A loop of real-time priority on one of the machine's processors, to which the lab's program is pinned: others are idle, and its packets wait all the same.
#[test]
fn a_lab_whose_program_gets_no_processor_is_not_trusted() {
    if !lab_is_possible() {
        return;
    }
    let mut changes = LAB.to_vec();
    changes[0].1 = "size = \"125MB\"";
    changes[2].1 = "duration = \"6s\"\nscale = 0.02\nrouting = \"static\"\nseed = 3";
    let folder = folder_with(&changes);
    let last = std::thread::available_parallelism().map_or(0, |processors| processors.get() - 1).to_string();
    let summary = |busy: bool| {
        let mut command = Command::new("taskset");
        command.args(["-c", &last, env!("CARGO_BIN_EXE_weft"), "run", "s.toml", "--world", "lab", "--out", "r", "--json"]);
        let running =
            command.current_dir(folder.path()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("taskset runs");
        let hog = busy.then(|| {
            // The lab is up, and flows have begun.
            std::thread::sleep(Duration::from_secs(3));
            let arguments = ["3", "chrt", "-f", "50", "taskset", "-c", &last, "sh", "-c", "while :; do :; done"];
            Command::new("timeout").args(arguments).spawn().expect("timeout runs")
        });
        let output = running.wait_with_output().expect("it ends");
        if let Some(mut hog) = hog {
            let _ = hog.wait();
        }
        (json(&output)["runs"][0]["lab"].clone(), stderr(&output))
    };
    let waits = |lab: &Value| lab["distrust"].as_array().is_some_and(|why| why.contains(&"wait".into()));
    let (quiet, _) = summary(false);
    assert!(!waits(&quiet) && quiet["longest_wait"]["seconds"].as_f64().is_some_and(|seconds| seconds < 0.5), "{quiet:#}");
    let (busy, warned) = summary(true);
    assert!(waits(&busy) && busy["trusted"] == false, "{busy:#}");
    let wait = &busy["longest_wait"];
    assert!(wait["seconds"].as_f64().is_some_and(|seconds| seconds > 0.5) && wait["program"].is_string(), "{busy:#}");
    assert!(warned.contains("s for a processor"), "{warned}");
}

#[test]
fn a_sweep_has_both_worlds_in_one_table() {
    if !lab_is_possible() {
        return;
    }
    let sweep = [LAB, &[("[[expect]]", "[sweep]\n\"world.kind\" = [\"lab\", \"flow\"]\n\n[[expect]]")]].concat();
    let folder = folder_with(&sweep);
    let summary = json(&weft(&["run", "s.toml", "--out", "r", "--json"], folder.path()));
    let kinds: Vec<&Value> = summary["runs"].as_array().expect("runs").iter().map(|r| &r["set"]["world.kind"]).collect();
    assert_eq!(kinds, ["lab", "flow"]);
    assert!(summary["runs"][1].get("lab").is_none());
}

#[test]
fn overlays_are_compared_with_plain_forwarding() {
    if !agents_are_possible() {
        return;
    }
    let folder = folder_with(&[]);
    let result = json(&weft(&["bench", "agent", "--runs", "2", "--seconds", "1", "--json"], folder.path()));
    let cases = result["cases"].as_array().expect("cases");
    let names: Vec<&Value> = cases.iter().map(|case| &case["name"]).collect();
    assert_eq!(names, ["agent-netlord", "agent-netlord-plain", "agent-vl2", "agent-vl2-plain"]);
    for case in cases {
        assert_eq!((&case["hosts"], &case["flows"]), (&2.into(), &32.into()), "{case:#}");
        for key in ["wall_s", "rss_bytes", "goodput_bps", "ratio_to_plain", "rtt_min_s", "cpu_per_gbit_s"] {
            assert!(case[key].as_f64().is_some_and(|value| value > 0.0), "{key}: {case:#}");
        }
        let [least, median, most] = ["ratio_min", "ratio_to_plain", "ratio_max"].map(|key| case[key].as_f64().expect("a number"));
        // Packets of many segments stay whole: otherwise it would be a twentieth.
        assert!(0.2 < least && least <= median && median <= most, "{case:#}");
    }
    assert_eq!(cases[1]["ratio_to_plain"], 1.0);
    let alone = weft(&["bench", "agent", "--case", "plain", "--overlay", "vl2", "--runs", "1", "--seconds", "1"], folder.path());
    assert!(stdout(&alone).contains("vl2-plain") && !stdout(&alone).contains("netlord"), "{}", stdout(&alone));
}

#[test]
fn ctrl_c_leaves_nothing() {
    if !lab_is_possible() {
        return;
    }
    let endless = [LAB, &[("size = \"500kB\"", "size = \"inf\"")]].concat();
    let folder = folder_with(&endless);
    // While the lab comes up, and while it carries.
    for (some, wait_ms) in [(10, 0), (36, 1500)] {
        let mut run = Command::new(env!("CARGO_BIN_EXE_weft"));
        run.args(["run", "s.toml", "--world", "lab", "--out", "r"]).current_dir(folder.path());
        let mut run = run.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("weft starts");
        while namespaces(run.id()) < some {
            assert!(run.try_wait().expect("its state").is_none(), "it has ended");
            std::thread::sleep(Duration::from_millis(5));
        }
        std::thread::sleep(Duration::from_millis(wait_ms));
        assert!(Command::new("kill").args(["-INT", &run.id().to_string()]).status().expect("kill").success());
        assert_eq!(run.wait().expect("it ends").code(), Some(130));
        assert_eq!(namespaces(run.id()), 0);
        let left: Vec<_> = std::fs::read_dir(folder.path()).expect("a folder").flatten().map(|e| e.file_name()).collect();
        assert_eq!(left, ["s.toml"], "nothing half-written");
    }
}

#[test]
fn the_lab_of_a_killed_run_says_so_and_goes_down() {
    if !lab_is_possible() {
        return;
    }
    let folder = folder_with(&[LAB, &[("size = \"500kB\"", "size = \"inf\"")]].concat());
    // Other runs remove the labs of killed ones when they begin: it may have gone before one looks.
    for _ in 0..5 {
        let mut run = Command::new(env!("CARGO_BIN_EXE_weft"));
        run.args(["run", "s.toml", "--world", "lab", "--out", "r"]).current_dir(folder.path());
        let mut run = run.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("weft starts");
        let name = format!("run{:x}", run.id());
        let status = || weft(&["lab", "status", "--name", &name, "--json"], folder.path());
        let is_up = || serde_json::from_slice::<Value>(&status().stdout).is_ok_and(|it| it["lab"]["phase"] == "up");
        while !is_up() {
            assert!(run.try_wait().expect("its state").is_none(), "it has ended");
            std::thread::sleep(Duration::from_millis(20));
        }
        assert_eq!(json(&status())["lab"]["owner"], serde_json::json!({"pid": run.id(), "alive": true}));
        run.kill().and_then(|()| run.wait()).expect("it ends");
        let (found, table) = (status(), weft(&["lab", "status", "--name", &name], folder.path()));
        let down = weft(&["lab", "down", "--name", &name], folder.path());
        assert_eq!(namespaces(run.id()), 0);
        assert!(!Path::new("/run/weft/labs").join(&name).exists());
        if !(found.status.success() && table.status.success() && down.status.success()) {
            continue;
        }
        assert_eq!(json(&found)["lab"]["owner"], serde_json::json!({"pid": run.id(), "alive": false}));
        let line = format!("{name}: its run has ended without removing it: weft lab down --name {name}\n");
        assert!(stdout(&table).contains(&line), "{}", stdout(&table));
        return;
    }
    panic!("others were quicker five times");
}

#[test]
fn what_a_killed_run_left_the_next_one_removes() {
    if !lab_is_possible() {
        return;
    }
    let folder = folder_with(LAB);
    let mut run = Command::new(env!("CARGO_BIN_EXE_weft"));
    run.args(["run", "s.toml", "--world", "lab", "--out", "r"]).current_dir(folder.path());
    let mut run = run.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("weft starts");
    while namespaces(run.id()) < 30 {
        std::thread::sleep(Duration::from_millis(5));
    }
    run.kill().and_then(|()| run.wait()).expect("it ends");
    assert!(namespaces(run.id()) >= 30);
    let next = weft(&["run", "s.toml", "--world", "lab", "--out", "r"], folder.path());
    assert!(next.status.success() && stderr(&next).contains("was killed"), "{}", stderr(&next));
    assert_eq!(namespaces(run.id()), 0);
}

#[test]
fn what_a_lab_cannot_do_is_refused_beforehand() {
    for (change, message) in [
        (("scheduler = \"first-fit\"", "scheduler = \"detour\"\nmax_detour_servers = 3"), "headers for so many servers"),
        (
            ("duration = \"20s\"", "duration = \"20s\"\nrouting = \"openflow\"\n[overlay]\nkind = \"vl2\""),
            "leave out `[overlay]`",
        ),
        (("scheduler = \"first-fit\"", "routing = \"single-path\""), "all shortest paths"),
        (("duration = \"20s\"", "duration = \"20s\"\nscale = 1e-6"), "s.toml:19: the link"),
        (("duration = \"20s\"", "duration = \"20s\"\n[transport]\nkind = \"dctcp\""), "write kind = \"mptcp\""),
        (("duration = \"20s\"", "duration = \"20s\"\nrouting = \"openflow\"\n[transport]\nkind = \"mptcp\""), "only one subflow"),
        (("duration = \"20s\"", "duration = \"20s\"\nospf = { hello = \"1500ms\" }"), "whole seconds"),
        (("duration = \"20s\"", "duration = \"20s\"\nospf = { hello = \"4s\", dead = \"2s\" }"), "before their next hello"),
    ] {
        let mut changes = vec![change];
        if !change.0.contains("first-fit") {
            changes.push(("scheduler = \"first-fit\"", "scheduler = \"none\""));
        }
        let folder = folder_with(&changes);
        let out = weft(&["run", "s.toml", "--world", "lab"], folder.path());
        assert!(out.status.code() == Some(2) && stderr(&out).contains(message), "{message}: {}", stderr(&out));
        assert!(!folder.path().join("results").exists());
    }
    // A scheduler and a routing that exclude each other, both named.
    for (routing, scheduler, messages) in [
        ("static", "annealing", ["control.scheduler", "routing = \"static\" in [world]"]),
        ("frr", "first-fit", ["control.scheduler", "write routing = \"openflow\" in [world]"]),
        ("openflow", "none\"\nrouting = \"vlb", ["spread flows over all shortest paths", "routing = \"openflow\" in [world]"]),
    ] {
        let routing = format!("duration = \"20s\"\nrouting = \"{routing}\"");
        let scheduler = format!("scheduler = \"{scheduler}\"");
        let folder = folder_with(&[("duration = \"20s\"", &routing), ("scheduler = \"first-fit\"", &scheduler)]);
        let out = weft(&["run", "s.toml", "--world", "lab"], folder.path());
        assert_eq!(out.status.code(), Some(2));
        messages.iter().for_each(|message| assert!(stderr(&out).contains(message), "{message}: {}", stderr(&out)));
    }
}

#[test]
fn without_root_a_run_fails_and_a_check_skips() {
    let folder = folder_with(&[LAB, &[("seed = 3", "seed = 3\nkind = \"lab\"")]].concat());
    let as_nobody = |arguments: &[&str]| -> Option<Output> {
        let mut command = Command::new(env!("CARGO_BIN_EXE_weft"));
        command.args(arguments).current_dir(folder.path());
        if stdout(&Command::new("id").arg("-u").output().expect("id")).trim() == "0" {
            // Others must be able to read the scenarios, to write results and to run the program.
            let readable = Command::new("chmod").args(["-R", "a+rwX"]).arg(folder.path()).status().expect("chmod");
            assert!(readable.success());
            command.uid(65534);
        }
        command.output().inspect_err(|e| eprintln!("SKIPPED: another user cannot run the program: {e}")).ok()
    };
    if let Some(run) = as_nobody(&["run", "s.toml", "--json"]) {
        assert!(run.status.code() == Some(2) && stderr(&run).contains("only root may"), "{}", stderr(&run));
    }
    if let Some(bench) = as_nobody(&["bench", "agent", "--json"]) {
        assert!(bench.status.code() == Some(2) && stderr(&bench).contains("only root may"), "{}", stderr(&bench));
        assert_eq!(stdout(&bench), "");
    }
    // What needs no root is carried all the same.
    let text = std::fs::read_to_string(folder.path().join("s.toml")).expect("it was written");
    let mixed = text + "\n[sweep]\n\"world.kind\" = [\"lab\", \"flow\"]\n";
    std::fs::write(folder.path().join("mixed.toml"), mixed).expect("written");
    if let Some(run) = as_nobody(&["run", "mixed.toml", "--json"]) {
        let runs = json(&run);
        assert_eq!(runs["runs"][0]["skipped"], "a lab needs root");
        assert!(runs["runs"][1]["metrics"]["goodput_bps"].as_f64().is_some_and(|g| g > 0.0), "{runs}");
    }
    if let Some(check) = as_nobody(&["check", "s.toml", "--json"]) {
        let report = json(&check);
        assert_eq!((&report["ok"], &report["passed"], &report["skipped"]), (&true.into(), &0.into(), &1.into()));
        assert_eq!(report["scenarios"][0]["runs"][0]["skipped"], "a lab needs root");
    }
    if let Some(check) = as_nobody(&["check", "s.toml"]) {
        assert!(stdout(&check).contains("SKIPPED") && stdout(&check).contains("1 lab run skipped"), "{}", stdout(&check));
    }
}
