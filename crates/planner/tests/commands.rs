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
    let run = &report["runs"][0];
    assert_eq!((run["matrices"].as_u64(), &run["set"]), (Some(2), &serde_json::json!({})));
    let at = |routing: &str, i: usize| run["max_utilisation"][routing][i].as_f64().expect("a number");
    // ECMP halves it at the edge switch; a single path does not.
    for (i, load) in [1.0, 0.1].into_iter().enumerate() {
        for (routing, expected) in
            [("ecmp", load / 2.0), ("wcmp", load / 2.0), ("single", load), ("adaptive", load / 2.0), ("oblivious", load / 2.0)]
        {
            assert!((at(routing, i) - expected).abs() < 1e-9, "{routing} {run}");
        }
        assert!(run["adaptive_at_least"][i].as_f64().expect("a bound") <= load / 2.0 + 1e-9, "{run}");
    }
    // The same as rates between racks by number.
    std::fs::write(folder.path().join("n.csv"), "t,src,dst,bps\n0,0,4,1000000000\n10,0,4,100000000\n").expect("written");
    let numbered = json(&["optimum", "f.toml", "--matrices", "n.csv", "--json"], folder.path());
    assert_eq!(numbered["runs"][0]["max_utilisation"], run["max_utilisation"]);
    // In the scenario, with a sweep.
    let scenario = format!("{FABRIC}[traffic]\nmatrices = \"n.csv\"\n[sweep]\n\"fabric.link\" = [\"1Gbps\", \"2Gbps\"]\n");
    std::fs::write(folder.path().join("s.toml"), scenario).expect("written");
    let swept = json(&["optimum", "s.toml", "--json", "--out", "out"], folder.path());
    assert_eq!(swept["runs"][0]["max_utilisation"], run["max_utilisation"]);
    assert_eq!(swept["runs"][1]["max_utilisation"]["single"][0], 0.5);
    assert_eq!(swept["runs"][1]["set"], serde_json::json!({"fabric.link": "2Gbps"}));
    let csv = std::fs::read_to_string(folder.path().join("out/optimum.csv")).expect("written");
    // Two runs of two matrices: six routings and the bound, SPAIN, the hash and four schedulers.
    assert_eq!(csv.lines().count(), 1 + 2 * 2 * 13, "{csv}");
    let order = "start_s,from,to,bytes\n0,a,b,1000\n";
    std::fs::write(folder.path().join("o.csv"), order).expect("written");
    assert_eq!(json(&["optimum", "f.toml", "--matrices", "o.csv", "--json"], folder.path())["runs"][0]["in_order"], true);
}

/// Without other traffic it is the scenario's: host 0 to host 8 at the rate of its NIC, from edge0 to edge4.
#[test]
fn a_scenario_brings_its_own_traffic() {
    let traffic = "[traffic]\nfile = \"flows.csv\"\n[world]\nduration = \"1s\"\n";
    let folder =
        folder(&[("s.toml", &format!("{FABRIC}{traffic}")), ("flows.csv", "src,dst,start,size\n0,8,0,1GB\n0,1,0,1GB\n")]);
    let report = json(&["optimum", "s.toml", "--json"], folder.path());
    // Two flows share the NIC; one of them stays in the rack.
    assert_eq!(report["runs"][0]["max_utilisation"]["single"], serde_json::json!([0.5]));
    let uniform = json(&["optimum", "s.toml", "--traffic", "uniform", "--json"], folder.path());
    assert_eq!(uniform["runs"][0]["traffic"], "uniform");
    let study = json(&["whatif", "s.toml", "--fail", "switch", "--json"], folder.path());
    assert_eq!((study["states"].as_u64(), study["worst"][0]["throughput"].as_f64()), (Some(20), Some(1.0)), "{study}");
    assert!(study["worst"][0]["failed"].as_array().is_some_and(|failed| failed.len() == 1), "{study}");
    assert!(study["throughput"]["p0"].as_f64() <= study["throughput"]["p50"].as_f64());
}

/// Hedera's stride: hashed flows share links, those that a scheduler places do not; and SPAIN's paths carry rates evenly.
#[test]
fn schedulers_place_the_scenarios_flows() {
    let traffic = "[traffic]\npattern = \"stride\"\nstride = 8\n[world]\nduration = \"1s\"\n[control]\nscheduler = \"none\"\n";
    let folder = folder(&[("s.toml", &format!("{FABRIC}{traffic}"))]);
    let run = json(&["optimum", "s.toml", "--json"], folder.path())["runs"][0].take();
    let busiest = |routing: &str| run["max_utilisation"][routing][0].as_f64().expect("a routing");
    for routing in ["adaptive", "ecmp", "spain", "first-fit", "annealing-per-flow"] {
        assert!((busiest(routing) - 1.0).abs() < 1e-9, "{routing}: {run}");
    }
    assert!(busiest("hash") >= 2.0 && busiest("annealing") <= busiest("hash"), "{run}");
    let table = String::from_utf8(planner(&["optimum", "s.toml"], folder.path()).stdout).expect("text");
    assert!(table.contains("edge-coloring") && table.contains("hash: each flow"), "{table}");
}

/// VL2 figure 15: what the scenario expects is met but for the explained miss; an expectation that is not met ends with code 1.
#[test]
fn figure_15() {
    let scenario = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scenarios/vl2/figure15.toml");
    let folder = folder(&[]);
    let evaluated = json(&["evaluate", scenario], folder.path());
    assert_eq!(verdicts(&evaluated), ["known-miss", "ok", "ok", "ok", "ok"]);
    let text = std::fs::read_to_string(scenario).expect("read").replace("at_least = 1.5", "at_least = 2.5");
    let text = text.replace("pattern = \"volatile\"", "pattern = \"volatile\"\nintervals = 60");
    std::fs::write(folder.path().join("other.toml"), text).expect("written");
    assert_eq!(planner(&["optimum", "other.toml", "--check"], folder.path()).status.code(), Some(1));
    assert_eq!(planner(&["optimum", "other.toml"], folder.path()).status.code(), Some(0));
}

fn verdicts(evaluated: &Value) -> Vec<&str> {
    evaluated["runs"][0]["expect"].as_array().expect("verdicts").iter().filter_map(|v| v["verdict"].as_str()).collect()
}

/// Each metric of flows, of matrices and of failures is judged: by the study's commands, and by what `weft check` starts.
#[test]
fn studies_of_scenarios_are_judged() {
    let expect =
        |metric: &str, bound: &str| format!("[[expect]]\nsource = \"a test\"\nown = true\nmetric = \"{metric}\"\n{bound}\n");
    let flows = format!(
        "{FABRIC}[traffic]\npattern = \"bijection\"\nsize = \"100MB\"\nflows_per_host = 2\n{}{}{}",
        expect("flows_below_100mb_fraction", "at_most = 0.01"),
        expect("bytes_100mb_to_1gb_fraction", "at_least = 0.99"),
        // Two flows to and two from every host.
        expect("concurrent_flows_p50", "value = 4"),
    );
    let matrices = format!(
        "{FABRIC}[traffic]\npattern = \"volatile\"\nintervals = 60\npatterns = 3\n{}{}",
        expect("fitting_error.3", "at_most = 0.5"),
        expect("fitting_error.1", "at_least = 0.5"),
    );
    let log = "start,end,device,kind,cause\n0,100,edge0,,\n10,90,edge1,,\n9000,9100,agg0,,\n";
    let failures = format!(
        "{FABRIC}[failures]\nlog = \"log.csv\"\n{}{}{}",
        expect("group_size_max", "value = 2"),
        expect("resolved_10min_fraction", "value = 1"),
        expect("groups_below_4_fraction", "at_most = 0.5"),
    );
    let folder =
        folder(&[("flows.toml", &*flows), ("matrices.toml", &*matrices), ("failures.toml", &*failures), ("log.csv", log)]);
    assert_eq!(verdicts(&json(&["evaluate", "flows.toml"], folder.path())), ["ok", "ok", "ok"]);
    assert_eq!(verdicts(&json(&["evaluate", "matrices.toml"], folder.path())), ["ok", "ok"]);
    assert_eq!(verdicts(&json(&["evaluate", "failures.toml"], folder.path())), ["ok", "ok", "miss"]);
    let code = |args: &[&str]| planner(args, folder.path()).status.code();
    assert_eq!(code(&["analyze", "traffic", "flows.toml", "--check"]), Some(0));
    assert_eq!(code(&["analyze", "traffic", "flows.toml", "--check", "--set", "traffic.size=90MB"]), Some(0), "not comparable");
    assert_eq!(code(&["analyze", "failures", "failures.toml", "--check"]), Some(1));
    assert_eq!(code(&["analyze", "failures", "failures.toml"]), Some(0));
    let report = json(&["analyze", "traffic", "matrices.toml", "--json"], folder.path());
    assert_eq!((report["matrix"]["intervals"].as_u64(), report["matrix"]["interval_s"].as_f64()), (Some(60), Some(100.0)));
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
    let still = format!("{FABRIC}[traffic]\nmatrices = \"gone.csv\"\n");
    let load = format!("{FABRIC}[traffic]\npattern = \"volatile\"\nload = 2\n");
    let flows = format!("{FABRIC}[traffic]\npattern = \"bijection\"\nsize = \"1MB\"\n");
    let sweep = format!("{flows}[sweep]\n\"traffic.size\" = [\"1MB\", \"2MB\"]\n");
    let days = format!("{FABRIC}[failures]\ndays = 0\n");
    let word = format!("{FABRIC}[failures]\ndays = 5\nday = 6\n");
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
        ("far.csv", "t,src,dst,bps\n0,0,8,1\n"),
        ("still.toml", &still),
        ("load.toml", &load),
        ("log.csv", "start,end,device\n0,100,edge0\n"),
        ("flows.toml", &flows),
        ("sweep.toml", &sweep),
        ("days.toml", &days),
        ("word.toml", &word),
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
        (&["optimum", "f.toml", "--matrices", "far.csv"], "from 0 to 7"),
        (&["optimum", "f.toml", "--check"], "[[expect]]"),
        (&["optimum", "still.toml"], "gone.csv"),
        (&["optimum", "load.toml"], "load.toml:7"),
        (&["analyze", "traffic", "flows.toml", "log.csv"], "by itself"),
        (&["analyze", "traffic", "flows.toml", "--sampling", "2"], "--sampling"),
        (&["analyze", "traffic", "flows.toml", "--check"], "[[expect]]"),
        (&["analyze", "traffic", "sweep.toml"], "2 runs"),
        (&["analyze", "traffic", "f.toml"], "traffic"),
        (&["analyze", "traffic", "log.csv", "--check"], "--check"),
        (&["analyze", "failures", "log.csv", "--set", "a=1"], "--set"),
        (&["analyze", "failures", "f.toml"], "[failures]"),
        (&["analyze", "failures", "days.toml"], "days.toml:6"),
        (&["analyze", "failures", "word.toml"], "word.toml:7"),
    ] {
        let output = planner(arguments, folder.path());
        let message = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {message}");
        assert!(message.contains(place), "{arguments:?}: {message}");
    }
}
