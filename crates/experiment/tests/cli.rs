//! The commands as a user runs them: output, exit codes, what is written and what is not. `docs/cli.md` promises what is checked here.

#[path = "support/weft.rs"]
mod support;

use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;
use support::{folder_with, json, root, stderr, stdout, weft};

#[test]
fn run_writes_a_results_folder_and_prints_the_same_json() {
    let folder = folder_with(&[]);
    let printed = json(&weft(&["run", "s.toml", "--out", "r", "--json"], folder.path()));
    assert_eq!(printed["title"], "Stride on 16 hosts");
    assert_eq!(printed["out"], "r");
    let run = &printed["runs"][0];
    assert_eq!(run["metrics"]["flows_finished"], 16);
    assert_eq!(run["expect"][0]["ok"], true);
    assert_eq!(run["seed"], 1);
    for file in ["flows.parquet", "links.parquet", "link_series.parquet", "throughput.parquet", "summary.json", "report.html"] {
        assert!(folder.path().join("r").join(file).is_file(), "{file}");
    }
    let written = std::fs::read_to_string(folder.path().join("r/summary.json")).expect("read");
    assert_eq!(serde_json::from_str::<Value>(&written).expect("JSON"), printed);
    assert_eq!(std::fs::read_dir(folder.path()).expect("read").count(), 2, "no half-written folder stays");
}

#[test]
fn a_sweep_writes_a_folder_a_run() {
    let folder = folder_with(&[("[[expect]]", "[sweep]\n\"control.scheduler\" = [\"none\", \"first-fit\"]\n\n[[expect]]")]);
    let printed = json(&weft(&["run", "s.toml", "--out", "r", "--json"], folder.path()));
    assert_eq!(printed["runs"][0]["set"]["control.scheduler"], "none");
    assert_eq!(printed["runs"][1]["set"]["control.scheduler"], "first-fit");
    for file in ["000/flows.parquet", "001/flows.parquet", "000/summary.json", "summary.json", "report.html"] {
        assert!(folder.path().join("r").join(file).is_file(), "{file}");
    }
}

#[test]
fn the_same_seed_gives_the_same_bytes_on_any_number_of_threads() {
    let folder = folder_with(&[
        ("pattern = \"stride\"\nstride = 4", "pattern = \"random\"\nflows_per_host = 3"),
        (
            "[[expect]]",
            "[sweep]\n\"control.scheduler\" = [\"none\", \"first-fit\", \"annealing\"]\n\"world.rates\" = [\"max-min\", \"aimd\"]\n\n[[expect]]",
        ),
    ]);
    for (out, threads) in [("one", "1"), ("two", "2")] {
        assert!(weft(&["run", "s.toml", "--out", out, "--threads", threads], folder.path()).status.success());
    }
    for run in 0..6 {
        for file in ["flows.parquet", "links.parquet", "link_series.parquet", "throughput.parquet"] {
            let read = |out: &str| std::fs::read(folder.path().join(format!("{out}/{run:03}/{file}"))).expect("read");
            assert!(read("one") == read("two"), "{run:03}/{file} differs");
        }
    }
}

#[test]
fn overrides_reach_the_scenario() {
    let folder = folder_with(&[]);
    let seeded = json(&weft(&["run", "s.toml", "--seed", "7", "--set", "fabric.k=6", "--json"], folder.path()));
    assert_eq!(seeded["runs"][0]["seed"], 7);
    assert_eq!(seeded["runs"][0]["metrics"]["flows"], 54);
    assert_eq!(seeded["out"], "results/s--fabric.k=6,world.seed=7");
}

#[test]
fn flows_of_a_file_keep_the_numbers_of_their_lines() {
    let folder = folder_with(&[("pattern = \"stride\"\nstride = 4\nsize = \"125MB\"", "file = \"f.csv\"")]);
    std::fs::write(folder.path().join("f.csv"), "src,dst,start,size\n3,9,2s,1MB\n0,5,1,10MB\n").expect("written");
    let summary = json(&weft(&["run", "s.toml", "--out", "r", "--json"], folder.path()));
    // Line 0 begins last: if it had been renumbered, the completion of the last flow would still be right, so look at place too.
    assert_eq!(summary["runs"][0]["metrics"]["flows_finished"], 2);
    let placed = weft(&["place", "s.toml", "--json"], folder.path());
    assert_eq!(json(&placed)["flows"].as_array().map(Vec::len), Some(0), "no flow begins at time 0");
}

#[test]
fn check_exits_by_its_misses() {
    let folder = folder_with(&[]);
    let good = weft(&["check", "s.toml", "--json"], folder.path());
    assert_eq!(json(&good)["passed"], 1);
    assert!(!folder.path().join("results").exists(), "check writes nothing");

    let folder = folder_with(&[("value = 1.0", "value = 100.0")]);
    let missed = weft(&["check", "s.toml", "--json"], folder.path());
    assert_eq!(missed.status.code(), Some(1));
    assert_eq!(serde_json::from_slice::<Value>(&missed.stdout).expect("JSON")["misses"], 1);
    assert_eq!(weft(&["run", "s.toml"], folder.path()).status.code(), Some(0), "run does not judge");

    let known_miss = |between: &str| {
        let text = format!("value = 100.0\nknown_miss = {{ between = {between}, cause = \"the paper measured in minutes\" }}");
        let folder = folder_with(&[("value = 1.0", &text)]);
        weft(&["check", "s.toml", "--json"], folder.path())
    };
    let known = json(&known_miss("[0.9, 1.1]"));
    assert_eq!((&known["known_misses"], &known["published"]["known"]), (&Value::from(1), &Value::from(1)));
    let verdict = &known["scenarios"][0]["runs"][0]["expect"][0];
    assert_eq!((&verdict["ok"], &verdict["known"]), (&Value::Bool(false), &Value::Bool(true)));
    assert_eq!((&verdict["kind"], &verdict["unit"], &verdict["paper"]), (&"published".into(), &"s".into(), &Value::from(100.0)));
    // A measured value outside of the interval is not what the cause explains.
    let outside = known_miss("[20, 30]");
    assert_eq!(outside.status.code(), Some(1));
    assert_eq!(serde_json::from_slice::<Value>(&outside.stdout).expect("JSON")["published"]["missed"], 1);
}

#[test]
fn a_known_miss_without_an_interval_is_an_error() {
    let cases = [
        ("\"as always\"", "the interval of the known miss is missing"),
        ("{ cause = \"as always\" }", "between"),
        ("{ between = [3, 2], cause = \"as always\" }", "the lower one first"),
        ("{ between = [1, 2, 3], cause = \"as always\" }", "two numbers"),
        ("{ between = [0.9, 1.1], cause = \"as always\" }", "nothing is missed there"),
        ("{ between = [2, 3] }", "cause"),
        ("{ between = [2, 3], cause = \"as always\", until = 4 }", "until"),
    ];
    for (known_miss, wanted) in cases {
        let folder = folder_with(&[("value = 1.0", &format!("value = 1.0\nknown_miss = {known_miss}"))]);
        let output = weft(&["check", "s.toml"], folder.path());
        assert_eq!(output.status.code(), Some(2), "{known_miss}");
        let errors = stderr(&output);
        assert!(errors.contains(wanted) && errors.contains("s.toml:"), "{known_miss}: {errors}");
    }
}

#[test]
fn a_check_that_would_check_nothing_is_an_error() {
    let folder = folder_with(&[("metric = ", "where = { \"fabric.k\" = 6 }\nmetric = ")]);
    let output = weft(&["check", "s.toml"], folder.path());
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("nothing would be checked"), "{}", stderr(&output));
}

/// Scenarios of the planner are an error by themselves where it is not installed, and left out of a folder's.
#[test]
fn without_the_planner_its_scenarios_are_left_out() {
    let folder = folder_with(&[]);
    std::fs::write(folder.path().join("planned.toml"), std::fs::read(root().join("scenarios/vl2/figure2.toml")).expect("read"))
        .expect("written");
    let alone = folder.path().join("alone");
    std::fs::create_dir(&alone).expect("created");
    std::fs::copy(env!("CARGO_BIN_EXE_weft"), alone.join("weft")).expect("copied");
    let weft = |arguments: &[&str]| {
        Command::new(alone.join("weft")).args(arguments).current_dir(folder.path()).env("PATH", "").output().expect("it runs")
    };
    let named = weft(&["check", "planned.toml"]);
    assert_eq!(named.status.code(), Some(2));
    assert!(stderr(&named).contains("`weft-planner` is not installed"), "{}", stderr(&named));
    let below = weft(&["check", ".", "--json"]);
    assert_eq!(json(&below)["passed"], 1);
    assert!(stderr(&below).contains("planned.toml is left out"), "{}", stderr(&below));
}

#[test]
fn quick_and_full_override_keys() {
    let folder =
        folder_with(&[("[[expect]]", "[quick]\n\"fabric.k\" = 2\n\n[full]\n\"fabric.k\" = 6\ntakes = \"1min\"\n\n[[expect]]")]);
    let hosts = |form: &[&str]| {
        let mut words = vec!["run", "s.toml", "--json", "--set", "traffic.stride=1"];
        words.extend(form);
        json(&weft(&words, folder.path()))["runs"][0]["metrics"]["flows"].clone()
    };
    assert_eq!(hosts(&[]), 16);
    assert_eq!(hosts(&["--quick"]), 2);
    assert_eq!(hosts(&["--full"]), 54);
    let full = weft(&["check", "s.toml", "--full"], folder.path());
    assert!(stderr(&full).contains("about 1min"), "{}", stderr(&full));
}

#[test]
fn demand_gives_figure_4() {
    let output = weft(&["demand", "scenarios/data/hedera-figure4.csv", "--json"], &root());
    let demands: Vec<f64> = json(&output)["demands"].as_array().expect("a list").iter().filter_map(Value::as_f64).collect();
    for (i, demand) in demands.iter().enumerate() {
        let paper = if i == 7 { 2.0 / 3.0 } else { 1.0 / 3.0 };
        assert!((demand - paper).abs() < 1e-12, "flow {i}: {demand}");
    }
    assert_eq!(demands.len(), 10);
}

#[test]
fn place_shows_paths_cores_and_energy() {
    let folder = folder_with(&[("scheduler = \"first-fit\"", "scheduler = \"annealing\"")]);
    let placed = json(&weft(&["place", "s.toml", "--json"], folder.path()));
    assert_eq!(placed["flows"].as_array().map(Vec::len), Some(16));
    assert_eq!(placed["flows"][0]["path"].as_array().map(Vec::len), Some(6));
    assert_eq!(placed["flows"][0]["demand"], 1.0);
    assert_eq!(placed["cores"].as_array().map(Vec::len), Some(16));
    assert!(placed["energy"].as_f64().is_some());
}

#[test]
fn topo_counts_and_exports() {
    let printed = json(&weft(&["topo", "fat-tree", "--k", "4", "--json"], &root()));
    assert_eq!((&printed["hosts"], &printed["switches"], &printed["cables"]), (&16.into(), &20.into(), &48.into()));
    insta::assert_snapshot!("topo-fat-tree-4", stdout(&weft(&["topo", "fat-tree", "k=4"], &root())));
    for format in ["dot", "graphml", "containerlab", "htsim", "native"] {
        let output = weft(&["topo", "fat-tree", "k=4", "--export", format], &root());
        assert!(output.status.success() && stdout(&output).len() > 100, "{format}: {}", stderr(&output));
    }
}

#[test]
fn a_fabric_survives_export_and_import() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let out = folder.path().join("f.weft");
    let words = ["topo", "clos", "agg_ports=4", "int_ports=4", "--export", "native", "--out"];
    assert!(weft(&[&words[..], &[out.to_str().expect("text")]].concat(), &root()).status.success());
    let path = format!("path={}", out.display());
    let again = json(&weft(&["topo", "file", &path, "--json"], &root()));
    let first = json(&weft(&["topo", "clos", "agg_ports=4", "int_ports=4", "--json"], &root()));
    for key in ["hosts", "switches", "cables", "bisection", "paths"] {
        assert_eq!(again[key], first[key], "{key}");
    }
}

#[test]
fn new_writes_scenarios_that_run_and_keeps_what_is_there() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let templates = json(&weft(&["new", "--list", "--json"], folder.path()));
    for template in templates["templates"].as_array().expect("a list") {
        let name = template["name"].as_str().expect("text");
        let file = format!("{name}.toml");
        assert!(weft(&["new", &file, "--template", name], folder.path()).status.success());
        let mut words = vec!["run", &file, "--json"];
        if name == "sweep" {
            words.extend(["--set", "fabric.k=4", "--set", "traffic.stride=4"]);
        }
        if name == "shuffle" {
            words.extend(["--set", "traffic.hosts=10"]);
        }
        let output = weft(&words, folder.path());
        json(&output);
        assert!(!stderr(&output).contains("no effect"), "{name}: {}", stderr(&output));
    }
    let again = weft(&["new", "basic.toml"], folder.path());
    assert_eq!(again.status.code(), Some(2));
}

/// The first example of docs/scenario.md shows what a scheduler does.
#[test]
fn the_scheduler_of_the_first_example_moves_flows() {
    let page = std::fs::read_to_string(root().join("docs/scenario.md")).expect("the page");
    let example = page.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next()).expect("an example");
    let folder = tempfile::tempdir().expect("a temporary folder");
    std::fs::write(folder.path().join("s.toml"), example).expect("written");
    let output = weft(&["run", "s.toml", "--json"], folder.path());
    let runs = json(&output)["runs"].clone();
    let metric = |run: usize, name: &str| runs[run]["metrics"][name].as_f64().expect("a metric");
    assert_eq!(runs[1]["set"]["control.scheduler"], "annealing");
    assert!(metric(1, "moves") > 0.0 && metric(1, "completion_s") < 0.9 * metric(0, "completion_s"), "{runs:#}");
    assert_eq!(stderr(&output), "");
}

#[test]
fn shipped_scenarios_are_listed_with_their_titles() {
    let list = std::fs::read_to_string(root().join("docs/scenarios.md")).expect("the page");
    let mut listed = 0;
    for folder in ["", "hedera/", "vl2/", "netlord/", "subways/"] {
        for entry in std::fs::read_dir(root().join("scenarios").join(folder)).expect("a folder").flatten() {
            let name = format!("{folder}{}", entry.file_name().to_string_lossy());
            if !name.ends_with(".toml") {
                continue;
            }
            let table: toml::Table = toml::from_str(&std::fs::read_to_string(entry.path()).expect("read")).expect("TOML");
            let title = table["title"].as_str().expect("a title");
            assert!(list.contains(&format!("| [{name}](../scenarios/{name}) | {title} |\n")), "{name}: {title}");
            listed += 1;
        }
    }
    assert_eq!(list.matches(".toml](").count(), listed, "a scenario that there is no more");
}

#[test]
fn completions_are_printed_for_every_shell() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        assert!(stdout(&weft(&["completions", shell], &root())).contains("weft"), "{shell}");
    }
}

#[test]
fn a_missing_daemon_is_named_and_one_beside_is_run() {
    // A place of its own, since the daemon may have been built beside the program.
    let built = Path::new(env!("CARGO_BIN_EXE_weft"));
    let folder = tempfile::TempDir::new_in(built.parent().expect("a folder")).expect("a folder");
    let program = folder.path().join("weft");
    std::fs::hard_link(built, &program).expect("linked");
    let run =
        || Command::new(&program).args(["directory", "get", "10.0.0.7"]).env("PATH", folder.path()).output().expect("it runs");
    let output = run();
    assert_eq!(output.status.code(), Some(2));
    assert!(
        stderr(&output).contains("`weft-directory` is not installed") && stderr(&output).contains("make build"),
        "{}",
        stderr(&output)
    );

    let daemon = folder.path().join("weft-directory");
    std::os::unix::fs::symlink("/bin/echo", &daemon).expect("linked");
    let output = run();
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(0), &b"get 10.0.0.7\n"[..]));
    std::fs::remove_file(&daemon).expect("removed");
    std::os::unix::fs::symlink("/bin/false", &daemon).expect("linked");
    assert_eq!(run().status.code(), Some(1), "its exit code is ours");
}

#[test]
fn a_folder_with_anything_else_in_it_is_kept() {
    let folder = folder_with(&[]);
    std::fs::create_dir(folder.path().join("e")).expect("made");
    std::fs::write(folder.path().join("e/summary.json"), "{}").expect("written");
    assert_eq!(weft(&["run", "s.toml", "--out", "e"], folder.path()).status.code(), Some(2), "not a summary of ours");
    assert!(weft(&["run", "s.toml", "--out", "r"], folder.path()).status.success());
    std::fs::write(folder.path().join("r/notes.md"), "mine").expect("written");
    assert_eq!(weft(&["run", "s.toml", "--out", "r"], folder.path()).status.code(), Some(2));
    assert!(folder.path().join("r/notes.md").is_file());
}

#[test]
fn a_failed_run_leaves_no_folders_behind() {
    let folder = folder_with(&[("stride = 4", "stride = 16")]);
    assert_eq!(weft(&["run", "s.toml", "--out", "deep/er/r"], folder.path()).status.code(), Some(2));
    assert_eq!(std::fs::read_dir(folder.path()).expect("read").count(), 1);
}

#[test]
fn mistakes_in_the_last_run_of_a_sweep_are_found_before_the_first() {
    let folder = folder_with(&[("[[expect]]", "[sweep]\n\"traffic.stride\" = [1, 2, 16]\n\n[[expect]]")]);
    let output = weft(&["run", "s.toml"], folder.path());
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("stride"), "{}", stderr(&output));
}

#[test]
fn a_run_that_could_never_end_is_an_error() {
    let event = "[[event]]\nat = \"10ms\"\nfail = \"link h0-edge0\"\n\n[[expect]]";
    for scheduler in ["none", "first-fit", "annealing", "edge-coloring"] {
        let folder =
            folder_with(&[("duration = \"20s\"\n", ""), ("\"first-fit\"", &format!("\"{scheduler}\"")), ("[[expect]]", event)]);
        let output = weft(&["run", "s.toml"], folder.path());
        assert_eq!(output.status.code(), Some(2), "{scheduler}");
        assert!(stderr(&output).contains("can never end"), "{}", stderr(&output));
    }
}

#[test]
fn what_is_set_counts_over_tables_of_the_sweep() {
    let sweep = "[sweep]\nfabric = [{ kind = \"fat-tree\", k = 4 }, { kind = \"fat-tree\", k = 6 }]\n\n[[expect]]";
    let folder = folder_with(&[("[[expect]]", sweep)]);
    let printed = json(&weft(&["run", "s.toml", "--set", "fabric.k=8", "--json"], folder.path()));
    assert_eq!(printed["runs"][0]["metrics"]["flows"], 128);
    assert_eq!(printed["runs"][0]["set"]["fabric.k"], 8);
}

#[test]
fn absurd_numbers_are_refused_at_once() {
    type Changes = &'static [(&'static str, &'static str)];
    let cases: &[(Changes, &[&str], &str)] = &[
        (&[("stride = 4", "stride = 4\nflows = 4000000000")], &[], "flows"),
        (&[("duration = \"20s\"", "duration = \"20s\"\nrates = \"aimd\"\ntick = \"1ps\"")], &[], "ticks"),
        (&[("period = \"100ms\"", "period = \"1ns\"")], &[], "rounds"),
        (&[], &["--threads", "100000000"], "threads"),
    ];
    for (changes, arguments, wanted) in cases {
        let folder = folder_with(changes);
        let output = weft(&[&["run", "s.toml"], *arguments].concat(), folder.path());
        assert_eq!(output.status.code(), Some(2), "{wanted}");
        assert!(stderr(&output).contains(wanted), "{}", stderr(&output));
    }
    let axis = format!("= [{}]\n", "1,".repeat(256));
    let sweep: String = (0..8).map(|i| format!("\"control.k{i}\" {axis}")).collect();
    let folder = folder_with(&[("[[expect]]", &format!("[sweep]\n{sweep}\n[[expect]]"))]);
    let output = weft(&["run", "s.toml"], folder.path());
    assert!(stderr(&output).contains("more than 10000 runs"), "{}", stderr(&output));
}

#[test]
fn a_full_disk_is_noticed_and_a_closed_pipe_is_not_an_error() {
    if !Path::new("/dev/full").exists() {
        return;
    }
    for words in [&["topo", "fat-tree", "k=4", "--export", "dot"][..], &["completions", "bash"]] {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").expect("opened");
        let status = Command::new(env!("CARGO_BIN_EXE_weft")).args(words).stdout(full).status().expect("weft starts");
        assert_eq!(status.code(), Some(2), "{words:?}");
    }
}

/// Files may have no bytes here: writing one fails as on a full disk.
#[cfg(unix)]
#[test]
fn what_cannot_be_written_is_not_half_there() {
    let folder = folder_with(&[]);
    std::fs::write(folder.path().join("old.dot"), "as it was").expect("written");
    for words in [
        "new mine.toml",
        "topo fat-tree k=4 --export dot --out new.dot",
        "topo fat-tree k=4 --export dot --out old.dot",
        "run s.toml --out r",
    ] {
        let limited = format!("trap '' XFSZ; ulimit -f 0; exec {} {words}", env!("CARGO_BIN_EXE_weft"));
        let output = Command::new("sh").args(["-c", &limited]).current_dir(folder.path()).output().expect("sh starts");
        assert!(output.status.code() == Some(2) && stderr(&output).contains("help: "), "{words}: {}", stderr(&output));
        let mut left: Vec<_> = std::fs::read_dir(folder.path()).expect("a folder").flatten().map(|e| e.file_name()).collect();
        left.sort();
        assert_eq!(left, ["old.dot", "s.toml"], "{words}");
        assert_eq!(std::fs::read_to_string(folder.path().join("old.dot")).expect("read"), "as it was");
    }
}

#[test]
fn what_a_killed_run_left_the_next_one_removes_and_a_living_ones_it_leaves() {
    let folder = folder_with(&[]);
    let endless = ["--set", "traffic.size=inf", "--set", "world.duration=90000s", "--set", "control.period=1ms"];
    let begun = || {
        let entries = std::fs::read_dir(folder.path()).expect("a folder").flatten();
        let names: Vec<String> = entries.map(|e| e.file_name().to_string_lossy().into_owned()).collect();
        let mut partial: Vec<String> = names.into_iter().filter(|name| name.starts_with(".r.partial-")).collect();
        partial.sort();
        partial
    };
    let start = || {
        let before = begun();
        let mut run = Command::new(env!("CARGO_BIN_EXE_weft"));
        run.args(["run", "s.toml", "--out", "r"]).args(endless).current_dir(folder.path());
        let mut run = run.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("weft starts");
        let is_its = |name: &String| !before.contains(name) && folder.path().join(name).join("results").is_dir();
        loop {
            if let Some(name) = begun().into_iter().find(is_its) {
                return (run, name);
            }
            assert!(run.try_wait().expect("its state").is_none(), "it has ended");
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
    };
    let kill = |mut run: std::process::Child| run.kill().and_then(|()| run.wait()).expect("it ends");
    let (killed, left) = start();
    kill(killed);
    assert_eq!(begun(), [left]);
    let (living, its) = start();
    assert_eq!(begun(), std::slice::from_ref(&its), "the killed one's has gone");
    let beside = weft(&["run", "s.toml", "--out", "r"], folder.path());
    assert!(beside.status.success() && !stderr(&beside).contains("killed"), "{}", stderr(&beside));
    assert_eq!(begun(), std::slice::from_ref(&its), "the living one's stays");
    kill(living);
    // As if it had been killed after it moved the earlier results away, before its own were in their place.
    std::fs::rename(folder.path().join("r"), folder.path().join(its).join("old")).expect("moved");
    let (last, its) = start();
    assert!(folder.path().join("r/summary.json").is_file(), "the earlier results are back");
    kill(last);
    let next = weft(&["run", "s.toml", "--out", "r"], folder.path());
    assert!(
        next.status.success() && stderr(&next).contains(&format!("{its}, which a run that was killed left")),
        "{}",
        stderr(&next)
    );
    assert_eq!(begun(), Vec::<String>::new());
}

/// Each line: what is changed, and what the error must name. The exit code is 2 and nothing is written.
#[test]
fn bad_scenarios_are_refused_with_place_and_remedy() {
    let cases: &[(&str, &str, &[&str])] = &[
        ("k = 4", "k = 4\nkk = 3", &["s.toml:6", "unknown key `kk`", "did you mean `k`?"]),
        ("k = 4", "k = 5", &["s.toml:5", "`k = 5`", "even"]),
        ("\"1Gbps\"", "\"1Gb\"", &["s.toml:6", "`1Gb` is not a rate", "10Gbps"]),
        ("\"1Gbps\"", "5", &["s.toml:6", "has no unit"]),
        ("\"125MB\"", "\"-3MB\"", &["s.toml:11", "-3MB"]),
        ("\"stride\"\nstride = 4", "\"stride\"\nstride = 16", &["s.toml:10", "stride"]),
        ("\"stride\"\nstride = 4", "\"incast\"\nreceiver = 99", &["receiver", "99"]),
        ("[[expect]]", "[[event]]\nat = \"1s\"\nfail = \"link agg0-core9\"\n\n[[expect]]", &["s.toml:22", "core9"]),
        ("[[expect]]", "[[event]]\nat = \"1s\"\nfail = \"link agg0-agg1\"\n\n[[expect]]", &["no link between"]),
        (
            "metric = \"completion_s\"",
            "metric = \"completion\"",
            &["there is no metric `completion`", "did you mean `completion_s`?"],
        ),
        ("duration = \"20s\"", "duration = \"20s\"\nkind = \"lob\"", &["s.toml:19", "no world `lob`"]),
        (
            "duration = \"20s\"",
            "duration = \"20s\"\nkind = \"lab\"\nrouting = \"frr\"",
            &["s.toml:14", "switches alone choose paths"],
        ),
        ("[traffic]", "[traffic]\nfile = \"nowhere.csv\"\n[other]", &["nowhere.csv"]),
        ("title = ", "title ", &["s.toml:1"]),
    ];
    for (from, to, wanted) in cases {
        let folder = folder_with(&[(from, to)]);
        let output = weft(&["run", "s.toml", "--out", "r", "--json"], folder.path());
        assert_eq!(output.status.code(), Some(2), "{to}");
        assert!(output.stdout.is_empty(), "stdout is for JSON alone");
        let text = stderr(&output);
        for part in *wanted {
            assert!(text.contains(part), "`{part}` is missing in:\n{text}");
        }
        assert_eq!(std::fs::read_dir(folder.path()).expect("read").count(), 1, "something was written for {to}");
    }
}

#[test]
fn bad_flow_and_size_files_are_refused_with_their_line() {
    let cases: &[(&str, &str, &str)] = &[
        ("f.csv", "src,dst,start,size\n0,1,0,1MB\n2,99,0,1MB\n", "f.csv:3"),
        ("f.csv", "src,dst,start,size\n0,0,0,1MB\n", "f.csv:2"),
        ("f.csv", "src,dst,start,size\n0,1,0\n", "f.csv:2"),
        ("f.csv", "src,dst,start,size\n0,1,0,-5\n", "f.csv:2"),
        ("c.cdf", "0 0\n10 50\n5 100\n", "c.cdf:3"),
        ("c.cdf", "0 0\n10 50\n20 70\n", "c.cdf:3"),
    ];
    for (name, content, place) in cases {
        let traffic = if name.ends_with("csv") { "file = \"f.csv\"" } else { "pattern = \"random\"\nsize = \"c.cdf\"" };
        let folder = folder_with(&[("pattern = \"stride\"\nstride = 4\nsize = \"125MB\"", traffic)]);
        std::fs::write(folder.path().join(name), content).expect("written");
        let output = weft(&["run", "s.toml", "--out", "r"], folder.path());
        assert_eq!(output.status.code(), Some(2), "{content}");
        assert!(stderr(&output).contains(place), "{}", stderr(&output));
        assert!(!folder.path().join("r").exists());
    }
}

#[test]
fn results_never_replace_what_is_not_theirs() {
    let folder = folder_with(&[]);
    std::fs::create_dir(folder.path().join("mine")).expect("made");
    std::fs::write(folder.path().join("mine/thesis.tex"), "years of work").expect("written");
    assert_eq!(weft(&["run", "s.toml", "--out", "mine"], folder.path()).status.code(), Some(2));
    assert!(folder.path().join("mine/thesis.tex").is_file());
    let unwritable = weft(&["run", "s.toml", "--out", "/proc/weft"], folder.path());
    assert_eq!(unwritable.status.code(), Some(2));
    for _ in 0..2 {
        assert!(weft(&["run", "s.toml", "--out", "again"], folder.path()).status.success(), "an earlier result is replaced");
    }
}
