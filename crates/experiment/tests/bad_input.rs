//! Slips that a user can make beyond those of `cli.rs`, and what the program says of them: an error names place and remedy, a note
//! goes to stderr and changes nothing.

#[path = "support/weft.rs"]
mod support;

use support::{folder_with, json, root, stderr, stdout, weft};

const TRAFFIC: &str = "pattern = \"stride\"\nstride = 4\nsize = \"125MB\"";

#[track_caller]
fn refused(changes: &[(&str, &str)], arguments: &[&str], wanted: &[&str]) {
    let folder = folder_with(changes);
    let output = weft(&[&["run", "s.toml", "--out", "r"], arguments].concat(), folder.path());
    assert_eq!(output.status.code(), Some(2), "{changes:?} {arguments:?}");
    for part in wanted {
        assert!(stderr(&output).contains(part), "`{part}` is missing in:\n{}", stderr(&output));
    }
    assert!(!folder.path().join("r").exists());
}

/// Runs it and returns what stands on stderr.
#[track_caller]
fn noted(changes: &[(&str, &str)]) -> String {
    let folder = folder_with(changes);
    let output = weft(&["run", "s.toml", "--json"], folder.path());
    json(&output);
    stderr(&output)
}

#[test]
fn settings_of_a_cdf_file_need_one() {
    let plain = |key: &str| format!("{TRAFFIC}\n{key}");
    refused(&[(TRAFFIC, &plain("cdf_units = \"percent\""))], &[], &["s.toml:12", "`cdf_units` speaks of a CDF file", "125MB"]);
    refused(&[(TRAFFIC, &plain("cdf_scale = \"1460B\""))], &[], &["s.toml:12", "`cdf_scale` speaks of a CDF file"]);
}

#[test]
fn a_misspelt_distribution_is_guessed() {
    refused(&[("\"125MB\"", "\"hadop\"")], &[], &["s.toml:11", "did you mean `hadoop`?"]);
    refused(&[("\"125MB\"", "\"websearch\"")], &[], &["did you mean `web-search`?"]);
    refused(&[("\"125MB\"", "\"gaussian\"")], &[], &["see docs/traffic.md"]);
}

#[test]
fn annealing_without_iterations_is_refused() {
    refused(&[("period = ", "iterations = 0\nperiod = ")], &[], &["s.toml:15", "tries nothing", "1000"]);
}

#[test]
fn a_rate_of_zero_is_shown_where_it_stands() {
    refused(&[("link = \"1Gbps\"", "link = \"0bps\"")], &[], &["s.toml:6", "without capacity"]);
    let both = "link = \"1Gbps\"\nfabric_link = \"0bps\"";
    refused(&[("link = \"1Gbps\"", both)], &[], &["s.toml:7", "without capacity"]);
}

#[test]
fn a_file_beside_a_pattern_names_the_way_out() {
    let file = ["--set", "traffic.file=f.csv"];
    refused(&[], &file, &["`file` takes the place of `pattern`", "--set 'traffic={file=\"f.csv\"}'"]);
    let folder = folder_with(&[]);
    std::fs::write(folder.path().join("f.csv"), "src,dst,start,size\n3,9,0,1MB\n").expect("written");
    let output = weft(&["run", "s.toml", "--set", "traffic={file=\"f.csv\"}", "--json"], folder.path());
    assert_eq!(json(&output)["runs"][0]["metrics"]["flows"], 1, "the remedy works");
}

#[test]
fn flows_that_no_nic_can_carry_are_noted() {
    let poisson = |load: f64, pattern: &str| {
        let text = format!("pattern = \"{pattern}\"\nsize = \"1MB\"\narrivals = \"poisson\"\nload = {load}\nuntil = \"50ms\"");
        noted(&[(TRAFFIC, &text)])
    };
    assert!(poisson(1.5, "random").contains("150 % of what it can carry"), "{}", poisson(1.5, "random"));
    assert!(poisson(0.2, "incast").contains("300 % of what it can carry"));
    assert_eq!(poisson(1.0, "random"), "");
    assert_eq!(poisson(0.05, "incast"), "");
}

#[test]
fn a_window_that_holds_nothing_is_noted() {
    let text = noted(&[("duration = \"20s\"", "duration = \"20s\"\nwarmup = \"19s\"")]);
    assert!(text.contains("without a warm-up of 19s nothing of it is left, and rates are absent"), "{text}");
    let sweep = "[sweep]\n\"world.warmup\" = [\"0s\", \"19s\"]\n\n[[expect]]";
    let text = noted(&[("[[expect]]", sweep)]);
    assert!(text.contains("the run warmup=19s ended at"), "{text}");
}

#[test]
fn an_over_without_a_sibling_is_noted() {
    let text = noted(&[("within = \"50%\"", "within = \"50%\"\nover = { \"control.scheduler\" = \"none\" }")]);
    assert!(text.contains("no run has the settings of its `over`"), "{text}");
    assert_eq!(noted(&[]), "");
}

#[test]
fn a_folder_with_a_slash_is_printed_once() {
    let folder = folder_with(&[]);
    let text = stdout(&weft(&["run", "s.toml", "--out", "r/"], folder.path()));
    assert!(text.contains("report:  r/report.html"), "{text}");
}

#[test]
fn options_of_topo_work_behind_its_keys() {
    let help = weft(&["topo", "fat-tree", "k=4", "--help"], &root());
    assert!(help.status.success() && stdout(&help).contains("KEY=VALUE"), "{}", stderr(&help));
    assert_eq!(stdout(&help), stdout(&weft(&["topo", "--help"], &root())));
    for v in ["-v", "-vv", "--verbose"] {
        assert_eq!(json(&weft(&["topo", "fat-tree", "k=4", v, "--json"], &root()))["hosts"], 16);
    }
    let out = weft(&["topo", "fat-tree", "k=4", "--out", "f.dot"], &root());
    assert_eq!(out.status.code(), Some(2));
    assert!(stderr(&out).contains("add `--export dot`"), "{}", stderr(&out));
    let both = weft(&["topo", "fat-tree", "k=4", "--export", "dot", "--json"], &root());
    assert_eq!(both.status.code(), Some(2));
    assert!(stderr(&both).contains("add `--out FILE`") && both.stdout.is_empty());
    let folder = tempfile::tempdir().expect("a temporary folder");
    let named = json(&weft(&["topo", "fat-tree", "k=4", "--export", "dot", "--out", "f.dot", "--json"], folder.path()));
    assert_eq!((&named["export"], &named["out"]), (&"dot".into(), &"f.dot".into()));
    assert!(folder.path().join("f.dot").is_file());
}

#[test]
fn counts_of_one_are_singular() {
    let text = stdout(&weft(&["topo", "switch", "hosts=8"], &root()));
    assert!(text.contains("8 hosts in 1 rack and 1 pod, 1 switch, 8 cables"), "{text}");
}

#[test]
fn traffic_of_racks_is_read() {
    let flows = |traffic: &str| {
        let folder = folder_with(&[(TRAFFIC, traffic)]);
        json(&weft(&["run", "s.toml", "--json"], folder.path()))["runs"][0]["metrics"]["flows"].clone()
    };
    assert_eq!(flows("pattern = \"shuffle\"\nsize = \"1MB\"\nracks = [0, 1, 6]"), 30);
    assert_eq!(flows("pattern = \"shuffle\"\nsize = \"1MB\"\nracks = \"0-2\"\nhosts = 4"), 12);
    assert_eq!(flows("pattern = \"shuffle\"\nsize = \"1MB\"\nhosts = 8\nplace = \"contiguous\"\nfirst_rack = [0, 4]"), 56);
    assert_eq!(flows("pattern = \"random\"\nsize = \"1MB\"\nracks = [\"0-1\", 7]"), 6);
    let many = "pattern = \"many-to-many\"\nsize = \"1MB\"\nsender_racks = \"0-2\"\nreceivers = [6, 7]\nflows_per_pair = 4";
    assert_eq!(flows(many), 48);

    let with = |keys: &str| format!("pattern = \"shuffle\"\nsize = \"1MB\"\n{keys}");
    refused(&[(TRAFFIC, &with("racks = [0, 8]"))], &[], &["s.toml:11", "racks 0 to 7"]);
    refused(&[(TRAFFIC, &with("racks = \"3-1\""))], &[], &["s.toml:11", "list of numbers"]);
    refused(&[(TRAFFIC, &with("first_rack = 2"))], &[], &["s.toml:11", "place = \"contiguous\""]);
    refused(&[(TRAFFIC, &with("hosts = 5\nplace = \"contiguous\"\nfirst_rack = [0, 4]"))], &[], &["equally"]);
    refused(&[(TRAFFIC, "pattern = \"many-to-many\"\nsize = \"1MB\"\nsenders = 1")], &[], &["which are the receivers?"]);
    refused(
        &[(TRAFFIC, "pattern = \"many-to-many\"\nsize = \"1MB\"\nsenders = 1\nsender_racks = 1\nreceivers = 2")],
        &[],
        &["name the same hosts"],
    );
}

#[test]
fn requests_need_packets() {
    let memcache = "pattern = \"memcache\"\nrequests_per_s = 1000";
    refused(&[(TRAFFIC, memcache)], &[], &["s.toml:9", "no requests and responses", "kind = \"packet\""]);
    refused(&[(TRAFFIC, "pattern = \"memcache\"")], &[], &["requests_per_s"]);
    refused(&[(TRAFFIC, &format!("{memcache}\nsize = \"1MB\""))], &[], &["unknown key `size`"]);
}

#[test]
fn the_number_of_concurrent_flows_may_come_from_a_file() {
    let traffic = "pattern = \"closed-loop\"\nconcurrency = \"c.cdf\"\nsize = \"1MB\"\nflows_per_host = 9";
    let folder = folder_with(&[(TRAFFIC, traffic)]);
    std::fs::write(folder.path().join("c.cdf"), "1 0\n4 0.5\n8 1\n").expect("written");
    assert_eq!(json(&weft(&["run", "s.toml", "--json"], folder.path()))["runs"][0]["metrics"]["flows"], 144);
    refused(&[(TRAFFIC, traffic)], &[], &["s.toml:10", "cannot read"]);
}
