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
    refused(&[(TRAFFIC, &plain("cdf_units = \"percent\""))], &[], &["s.toml:12", "`cdf_units` belongs to a CDF file", "125MB"]);
    refused(&[(TRAFFIC, &plain("cdf_scale = \"1460B\""))], &[], &["s.toml:12", "`cdf_scale` belongs to a CDF file"]);
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
fn an_error_names_the_range_of_a_number() {
    let number = |text: &str| format!("spain_paths = {text}\nperiod = ");
    for beyond in ["-1", "4294967296", "1.5"] {
        refused(&[("period = ", &number(beyond))], &[], &["s.toml:15", beyond, "a whole number from 0 to 4,294,967,295"]);
    }
    let seed = "duration = \"20s\"\nseed = -3";
    refused(&[("duration = \"20s\"", seed)], &[], &["s.toml:19", "`-3` is not a whole number from 0 to 2^63 - 1"]);
    refused(&[("duration = \"20s\"", "duration = \"20s\"\nseed = 9223372036854775808")], &[], &["s.toml:19", "2^63 - 1"]);
    refused(&[("duration = \"20s\"", "duration = \"20s\"\nseed = 99999999999999999999999")], &[], &["s.toml:19", "2^63 - 1"]);
    refused(&[], &["--set", "world.duration=99999999s"], &["is not a time of at most 213 days"]);
    // Of a list, the entry is named.
    let hosts = format!("{TRAFFIC}\nhosts = [0, -5]");
    refused(&[(TRAFFIC, &hosts)], &[], &["s.toml:12", "0 to 4,294,967,295"]);
}

#[test]
fn what_is_no_scenario_has_a_remedy() {
    let folder = folder_with(&[]);
    let at = |name: &str| folder.path().join(name);
    std::fs::write(at("bytes"), b"\xff\xfe").expect("written");
    std::fs::write(at("line"), "a".repeat(100_000)).expect("written");
    std::fs::create_dir(at("folder")).expect("made");
    for (name, says) in [
        ("bytes", "not UTF-8 text"),
        ("folder", "it is a folder"),
        ("nothing", "check the path"),
        ("s.toml/x", "a part of the path is a file"),
        ("line", "line:1"),
    ] {
        for command in ["run", "spain", "place"] {
            let output = weft(&[command, name], folder.path());
            let said = stderr(&output);
            assert!(
                output.status.code() == Some(2) && said.contains(says) && said.contains("help: "),
                "{command} {name}: {said}"
            );
            assert!(said.len() < 2000, "{command} {name}: {} bytes", said.len());
        }
    }
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
fn an_event_after_the_end_is_noted_with_its_place() {
    let event = |at: &str| format!("[[event]]\nat = \"{at}\"\nfail = \"switch core0\"\n[traffic]");
    let late = noted(&[("[traffic]", &event("20s"))]);
    let line = "s.toml:10: `fail = \"switch core0\"` at 20s does not happen: the run ends at 20s";
    assert!(late.contains(line) && late.matches("does not happen").count() == 1, "{late}");
    // The flows have ended long before.
    let after = noted(&[("[traffic]", &event("10s"))]);
    assert!(after.contains("s.toml:10: `fail = \"switch core0\"` at 10s does not happen: the run ends at 1.05s;"), "{after}");
    let of_sweep = "[sweep]\n\"world.seed\" = [1, { event = [\n{ at = \"30s\", fail = \"switch core1\" }] }]\n[traffic]";
    let swept = noted(&[("[traffic]", of_sweep)]);
    assert!(swept.contains("s.toml:10: `fail = \"switch core1\"` at 30s does not happen in 1 of 2 runs"), "{swept}");
    assert!(!noted(&[("[traffic]", &event("500ms"))]).contains("does not happen"));
    let swept = event("15s").replace("[traffic]", "[sweep]\n\"world.duration\" = [\"5s\", \"10s\", \"20s\"]\n[traffic]");
    let some = noted(&[("[traffic]", &swept), ("\"125MB\"", "\"inf\"")]);
    assert!(some.contains("at 15s does not happen in 2 of 3 runs, which end at 10s at the latest"), "{some}");
}

#[test]
fn flows_that_no_nic_can_carry_are_noted() {
    let poisson = |load: f64, pattern: &str| {
        let text = format!("pattern = \"{pattern}\"\nsize = \"1MB\"\narrivals = \"poisson\"\nload = {load}\nuntil = \"50ms\"");
        noted(&[(TRAFFIC, &text), ("period = \"100ms\"", "period = \"10ms\"")])
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

/// The small scenario in packets, with more in `[world]` and `[transport]`.
fn packets(world: &str, transport: &str) -> [(&'static str, String); 1] {
    [("[world]\n", format!("[transport]\n{transport}\n\n[world]\nkind = \"packet\"\n{world}\n"))]
}

#[test]
fn timeouts_that_limit_a_run_are_noted() {
    let incast = |queue: &str| {
        let world = packets(&format!("switch_queue = \"{queue}\""), "");
        noted(&[(world[0].0, &world[0].1), (TRAFFIC, "pattern = \"incast\"\nsize = \"200kB\"")])
    };
    let text = incast("15kB");
    for part in
        ["% of the flows' time was lost in timeouts, after", "more than the fabric does. `switch_queue` is 15kB, 10 packets"]
    {
        assert!(text.contains(part), "{text}");
    }
    assert!(!incast("10MB").contains("timeouts"));
    let world = packets("switch_buffer = \"30kB\"", "");
    let text = noted(&[(world[0].0, &world[0].1), (TRAFFIC, "pattern = \"incast\"\nsize = \"200kB\"")]);
    assert!(
        text.contains("Of the buffer that its switch shares (`switch_buffer`) a port holds at most 15kB, 10 packets"),
        "{text}"
    );
}

/// A queue that a failed link has as well counts by itself; what the link lost is named beside it.
#[test]
fn timeouts_beside_a_failed_link_are_noted() {
    let incast = |transport: &str| {
        let world = packets("switch_queue = \"15kB\"", transport);
        let event = "[[event]]\nat = \"50us\"\nfail = \"link edge0-agg0\"\n[traffic]";
        let traffic = "pattern = \"incast\"\nsize = \"200kB\"";
        noted(&[("[traffic]", event), (world[0].0, &world[0].1), (TRAFFIC, traffic)])
    };
    let text = incast("");
    for part in
        ["was lost in timeouts, after", " on failed links: queues limit", "`rack = true` in [transport] repairs most losses"]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
    let text = incast("sack = true");
    assert!(text.contains("`rack = true` in [transport] repairs the loss of a flow's last"), "{text}");
    assert!(!incast("rack = true").contains("`rack = true`"));
}

/// A run that ends while its flows wait has waited, though no timer has run out.
#[test]
fn timers_that_run_at_the_end_count_for_their_part() {
    let world = packets("switch_queue = \"15kB\"", "");
    let traffic = "pattern = \"incast\"\nsize = \"2MB\"";
    let short = ("duration = \"20s\"", "duration = \"150ms\"");
    let folder = folder_with(&[(world[0].0, &world[0].1), (TRAFFIC, traffic), short]);
    let run = |queue: &str| {
        let set = format!("world.switch_queue={queue}");
        let printed = json(&weft(&["run", "s.toml", "--out", queue, "--set", &set, "--json"], folder.path()));
        printed["runs"][0]["metrics"]["timeout_fraction"].as_f64()
    };
    let waited = run("15kB").expect("flows wait");
    assert!((0.3..=1.0).contains(&waited), "{waited}");
    assert_eq!(run("10MB"), None, "none waits where nothing is lost");
}

/// The ideal switch has queues too: where they make its flows wait, it is no upper bound.
#[test]
fn an_ideal_switch_that_waits_for_timeouts_is_noted() {
    let small = packets("seed = 3", "rack = true");
    let traffic = "pattern = \"random\"\nsize = \"1MB\"\nflows_per_host = 4";
    let none = ("scheduler = \"first-fit\"\nperiod = \"100ms\"", "scheduler = \"none\"");
    let text = noted(&[(small[0].0, &small[0].1), (TRAFFIC, traffic), none]);
    let parts = ["% of the ideal switch, on which the same flows lost", "and it is no upper bound here"];
    assert!(parts.iter().all(|part| text.contains(part)), "{text}");
    let large = packets("seed = 3\nswitch_queue = \"100MB\"", "rack = true");
    let text = noted(&[(large[0].0, &large[0].1), (TRAFFIC, traffic), none]);
    assert!(!text.contains("upper bound"), "{text}");
}

/// A scheduler whose first round comes after the end is noted, in the page too, and meets no expectation that names it.
#[test]
fn a_scheduler_that_never_ran_is_noted_and_meets_nothing() {
    let late = [("period = \"100ms\"", "period = \"5s\"")];
    let never = "the scheduler never ran: the run ended at 2s";
    let folder = folder_with(&late);
    let output = weft(&["run", "s.toml", "--out", "r"], folder.path());
    let text = stdout(&output).replace("\n  ", " ");
    assert!(text.contains(&format!("note: the run: {never}")), "{text}");
    assert!(text.contains("before its first round at 5s. Write a shorter `control.period`, such as \"200ms\""), "{text}");
    assert_eq!(stderr(&output), "", "the table has it");
    let page = std::fs::read_to_string(folder.path().join("r/report.html")).expect("read");
    assert!(page.contains(&format!("\"notes\":[\"the run: {never}")));
    assert!(!noted(&[("\"first-fit\"", "\"none\"")]).contains("never ran"));

    let checked = |expect: &str| {
        let folder = folder_with(&[late[0], ("value = 1.0\nwithin = \"50%\"", expect)]);
        let output = weft(&["check", "s.toml"], folder.path());
        (output.status.code(), stdout(&output))
    };
    let named = "where = { \"control.scheduler\" = \"first-fit\" }";
    assert_eq!(checked("value = 2.0").0, Some(0), "it names no scheduler");
    let known = "value = 5.0\nknown_miss = { between = [1.5, 2.5], cause = \"as always\" }";
    for expect in ["value = 2.0", known] {
        let (code, text) = checked(&format!("{expect}\n{named}"));
        assert_eq!(code, Some(1), "{text}");
        assert!(text.contains("MISS [1]") && text.contains(&format!("[1] {never}")) && !text.contains("as always"), "{text}");
    }
}

/// Below the table within 80 columns, and in summary.json: once for each run, whatever its seeds.
#[test]
fn notes_stand_below_the_table_once_for_each_run() {
    let sweep = "[sweep]\n\"control.period\" = [\"100ms\", \"5s\", \"6s\"]\n\n[[expect]]";
    let folder = folder_with(&[("[[expect]]", sweep), ("duration = \"20s\"", "duration = \"20s\"\nseeds = 3")]);
    let noted = |arguments: &[&str]| {
        let output = weft(arguments, folder.path());
        let printed = stdout(&output);
        assert_eq!(stderr(&output).matches("never ran").count(), 0, "{}", stderr(&output));
        assert!(printed.lines().all(|line| line.chars().count() <= 80), "{printed}");
        let joined = printed.replace("\n  ", " ");
        let (table, rest) = joined.split_once("note: ").unwrap_or_else(|| panic!("no note:\n{printed}"));
        assert!(table.contains("means of 3 seeds") && rest.contains("Comparison with published results"), "{printed}");
        for run in ["period=5s", "period=6s"] {
            assert_eq!(joined.matches(&format!("note: the run {run}: the scheduler never ran")).count(), 1, "{printed}");
        }
        assert_eq!(joined.matches("note: ").count(), 2, "{printed}");
        assert_eq!(joined.matches("Write a shorter `control.period`").count(), 1, "the same for both:\n{printed}");
    };
    noted(&["run", "s.toml", "--out", "r"]);
    noted(&["check", "s.toml"]);
    let printed = json(&weft(&["run", "s.toml", "--out", "j", "--json"], folder.path()));
    assert!(printed["runs"][0].get("notes").is_none());
    for (run, period) in [(1, "5s"), (2, "6s")] {
        let notes = printed["runs"][run]["notes"].as_array().expect("notes");
        assert_eq!(notes.len(), 1);
        assert!(notes[0].as_str().expect("text").starts_with(&format!("the run period={period}: the scheduler never ran")));
        let written = std::fs::read(folder.path().join(format!("j/00{run}/summary.json"))).expect("read");
        let written: serde_json::Value = serde_json::from_slice(&written).expect("JSON");
        assert_eq!(&written["runs"][0]["notes"], &printed["runs"][run]["notes"]);
    }
}

/// Keys that need another key, routing or fabric than the file has: their lines are named.
#[test]
fn settings_without_effect_are_noted() {
    let control = |keys: &str| noted(&[("scheduler = \"first-fit\"\nperiod = \"100ms\"", keys)]);
    for (keys, wanted) in [
        ("routing = \"single-path\"\nhash = \"dst\"", "s.toml:15: `hash` has no effect: it needs a `routing` that hashes"),
        ("routing = \"spray\"\nhash = \"dst\"", "s.toml:15: `hash` has no effect"),
        ("routing = \"single-path\"\npolarised = true", "s.toml:15: `polarised` has no effect"),
        ("special_trees = 3", "s.toml:14: `special_trees` has no effect: it needs `routing = \"spain\"` in the lab"),
    ] {
        let text = control(keys);
        assert!(text.contains(wanted), "{keys}: {text}");
    }
    assert_eq!(control("hash = \"dst\"\npolarised = true"), "");

    let place = |keys: &str| noted(&[(TRAFFIC, &format!("{TRAFFIC}\n{keys}"))]);
    assert!(place("place = \"contiguous\"").contains("s.toml:12: `place` has no effect: it needs `hosts`"));
    assert_eq!(place("place = \"contiguous\"\nhosts = 8"), "");
    let several = format!("[[traffic]]\nname = \"one\"\n{TRAFFIC}\nplace = \"contiguous\"");
    let text = noted(&[(&format!("[traffic]\n{TRAFFIC}"), &several)]);
    assert!(text.contains("s.toml:13: `place` has no effect"), "{text}");

    let packet = |transport: &str, trace: &str| {
        let tables = format!("[transport]\n{transport}\n[trace]\n{trace}\n[world]\nkind = \"packet\"\n");
        noted(&[("[world]\n", &tables), ("\"125MB\"", "\"5MB\""), ("period = \"100ms\"", "period = \"1ms\"")])
    };
    let text = packet("delayed_ack_timeout = \"1ms\"", "every = \"2ms\"\npcap_packets = 9");
    for wanted in [
        "s.toml:18: `delayed_ack_timeout` has no effect: it needs `delayed_ack = true`",
        "s.toml:20: `every` has no effect: it needs `queues` or `windows`",
        "s.toml:21: `pcap_packets` has no effect: it needs `pcap`",
    ] {
        assert!(text.contains(wanted), "{wanted}: {text}");
    }
    let both = "delayed_ack = true\ndelayed_ack_timeout = \"1ms\"";
    let text = packet(both, "every = \"2ms\"\nwindows = [0]\npcap = \"h0-edge0\"\npcap_packets = 9");
    assert!(!text.contains("has no effect"), "{text}");

    let failures = noted(&[("[world]\n", "[failures]\nfile = \"log.csv\"\n\n[world]\n")]);
    assert!(failures.contains("s.toml:17: [failures] has no effect: `weft analyze failures` reads it"), "{failures}");
}

#[test]
fn a_scheduler_on_one_switch_is_noted_unless_it_is_compared() {
    let switch = ("kind = \"fat-tree\"\nk = 4", "kind = \"switch\"\nhosts = 16");
    let text = noted(&[switch]);
    assert!(text.contains("s.toml:14: `scheduler` has no effect: on one switch there is a single path"), "{text}");
    assert!(noted(&[switch, ("\"first-fit\"", "\"none\"")]).lines().all(|line| !line.contains("single path")));
    let sweep = "[sweep]\n\"fabric.link\" = [\"1Gbps\", { \"fabric.kind\" = \"switch\", \"fabric.hosts\" = 16 }]\n[traffic]";
    let compared = noted(&[("[traffic]", sweep)]);
    assert!(!compared.contains("single path"), "{compared}");
}

#[track_caller]
fn refused_in_packets(world: &str, transport: &str, wanted: &[&str]) {
    let changes = packets(world, transport);
    refused(&changes.each_ref().map(|(from, to)| (*from, to.as_str())), &[], wanted);
}

#[test]
fn packets_need_room_and_a_payload() {
    refused_in_packets("switch_queue = \"1499B\"", "", &["s.toml:22", "a queue of 1.499kB never holds a packet of 1.66kB"]);
    refused_in_packets("nic_queue = \"100B\"", "", &["s.toml:22", "never holds a packet of 1.66kB", "enlarge"]);
    refused_in_packets("switch_buffer = \"3kB\"", "", &["s.toml:22", "a queue of 1.5kB never holds a packet of 1.66kB"]);
    refused_in_packets("buffer_alpha = 0", "", &["s.toml:22", "an alpha is from 0.0625", "such as 1"]);
    let both = "switch_queue = \"150kB\"\nswitch_buffer = \"1MB\"";
    refused_in_packets(
        both,
        "",
        &["s.toml:23", "share no buffer", "leave out `switch_buffer`, or write switch_queue = \"shared\""],
    );
    refused_in_packets("", "mss = \"0B\"", &["s.toml:18", "a segment carries nothing"]);
    refused_in_packets("", "mss = \"1MB\"", &["s.toml:18", "does not fit"]);
    refused_in_packets("", "header = \"0B\"", &["s.toml:18", "no header"]);
    refused_in_packets("", "max_window = \"100B\"", &["s.toml:18", "never holds a segment"]);
    refused_in_packets("", "initial_window = 0", &["s.toml:18", "nothing would ever be sent"]);
}

#[test]
fn nics_reach_a_part_of_their_rate() {
    for duplex in ["0", "0.0", "2", "-0.5"] {
        refused_in_packets(&format!("nic_duplex = {duplex}"), "", &["s.toml:22", "above 0 and at most 1", "such as 0.9"]);
    }
}

#[test]
fn timeouts_are_not_zero() {
    refused_in_packets("", "rto_min = \"0s\"", &["s.toml:18", "retransmission timeout is 0", "200ms"]);
}

#[test]
fn mptcp_has_from_2_to_16_subflows_and_no_scheduler() {
    let none = [("scheduler = \"first-fit\"", "scheduler = \"none\"")];
    for subflows in [0, 1, 17] {
        let [(from, to)] = packets("", &format!("kind = \"mptcp\"\nsubflows = {subflows}"));
        refused(&[none[0], (from, &to)], &[], &["s.toml:19", "from 2 to 16 subflows", &format!("not {subflows}")]);
    }
    refused_in_packets("", "kind = \"mptcp\"", &["s.toml:14", "spreads its subflows itself", "scheduler = \"none\""]);
    refused_in_packets("", "subflows = 4", &["s.toml:18", "only MPTCP has subflows"]);
    refused_in_packets("", "kind = \"dtcp\"", &["s.toml:18", "did you mean `dctcp`?"]);
    refused_in_packets("", "sack = false\nrack = true", &["s.toml:18", "selective acknowledgements", "rack = false"]);
    refused_in_packets("", "recovery = \"sack\"", &["s.toml:18", "recovery"]);
    refused_in_packets("", "pacing = 1", &["s.toml:18", "pacing"]);
}

#[test]
fn traces_name_links_of_the_fabric() {
    let trace = |text: &str| ("[world]\n", format!("[trace]\n{text}\n\n[world]\nkind = \"packet\"\n"));
    for (text, wanted) in [
        ("queues = [\"edge0-agg0\", \"edge0-agg9\"]", ["s.toml:18", "agg9"]),
        ("pcap = \"h0-core0\"", ["s.toml:18", "core0"]),
        ("queues = [\"edge0-agg0\"]\nevery = \"0s\"", ["s.toml:19", "cannot look all the time"]),
    ] {
        let (from, to) = trace(text);
        refused(&[(from, &to)], &[], &wanted);
    }
}

#[test]
fn requests_need_packets_and_a_duration() {
    let memcache = (TRAFFIC, "pattern = \"memcache\"\nrequests_per_s = 1000\nservers = [0]");
    let none = ("scheduler = \"first-fit\"", "scheduler = \"none\"");
    refused(&[memcache, none], &[], &["s.toml:9", "no requests and responses", "kind = \"packet\""]);
    let endless = ("[world]\nduration = \"20s\"", "[world]\nkind = \"packet\"");
    refused(&[memcache, none, endless], &[], &["never end", "add `duration = \"60s\"`"]);
}

/// One file serves both worlds: what only the other one has is read, and has no effect.
#[test]
fn keys_of_the_other_world_are_passed_over() {
    let both = "[transport]\ndelayed_ack = true\n\n[world]\nrates = \"aimd\"\ntick = \"100us\"\nswitch_queue = \"150kB\"\nnic_duplex = 0.9\n";
    let folder = folder_with(&[("[world]\n", both), ("\"125MB\"", "\"100kB\"")]);
    for world in ["flow", "packet"] {
        let output = weft(&["run", "s.toml", "--world", world, "--out", world, "--json"], folder.path());
        assert_eq!(json(&output)["runs"][0]["metrics"]["flows_finished"], 16, "{world}");
    }
}

#[test]
fn services_have_names_and_hosts() {
    let table = format!("[traffic]\n{TRAFFIC}");
    let several = |tables: &[&str]| tables.iter().map(|t| format!("[[traffic]]\n{t}\n")).collect::<String>();
    let one = "name = \"one\"\npattern = \"bijection\"\nhosts = [\"0-3\", 8]\nsize = \"1MB\"";
    for (second, wanted) in [
        ("pattern = \"random\"", "`traffic[1].name` is missing"),
        ("name = \"a b\"\npattern = \"random\"", "`a b` is not a name"),
        ("name = \"two\"\npattern = \"random\"\nhosts = [99]", "the fabric has hosts 0 to 15"),
        ("name = \"two\"\npattern = \"random\"\nhosts = [3, 3]", "it is named twice"),
        ("name = \"two\"\npattern = \"random\"\nhosts = [3, 4]\nracks = 1", "a list of hosts says all"),
        ("name = \"two\"\npattern = \"memcache\"\nrequests_per_s = 1", "share a run with no other traffic"),
        ("name = \"two\"\npattern = \"random\"\nstart_every = \"1s\"\nstart_spread = \"1s\"", "says otherwise"),
        ("name = \"two\"\npattern = \"random\"\nsizes = 1", "unknown key `sizes`"),
    ] {
        refused(&[(&table, &several(&[one, second]))], &[], &["s.toml:", wanted]);
    }
    let folder =
        folder_with(&[(&table, &several(&[one, "name = \"two\"\npattern = \"random\"\nhosts = [4, 5]\nsize = \"1MB\""]))]);
    let run = |set: &str| json(&weft(&["run", "s.toml", "--out", "r", "--set", set, "--json"], folder.path()));
    let metrics = run("traffic[1].flows_per_host=3")["runs"][0]["metrics"].clone();
    assert_eq!([&metrics["flows"], &metrics["flows.one"], &metrics["flows.two"]], [11, 5, 6]);
    refused(&[("metric = \"completion_s\"", "metric = \"events.two\"")], &[], &["there is no metric `events.two`"]);
    let second = "[[expect]]\nmetric = \"hidden_fraction\"\nsource = \"own\"\nat_least = 0\nown = true\n[[expect]]";
    refused(&[("[[expect]]", second)], &[], &["s.toml:", "`hidden_fraction` and `completion_s` are not measured together"]);
}

/// Packets that choose paths leave nothing to a scheduler, and a flowlet is nothing that rates know: errors at the line.
#[test]
fn what_makes_no_sense_with_spray_and_flowlets_is_refused() {
    let spray = [("scheduler = \"first-fit\"\nperiod = \"100ms\"", "routing = \"spray\"")];
    let flowlet = [("scheduler = \"first-fit\"\nperiod = \"100ms\"", "routing = \"flowlet\"\nflowlet_gap = \"0s\"")];
    let packet = "world.kind=\"packet\"";
    refused(&spray, &["--set", "control.scheduler=\"annealing\""], &["control.scheduler", "no path to be given"]);
    refused(
        &[("scheduler = \"first-fit\"", "routing = \"flowlet\"\nscheduler = \"adaptive\"")],
        &["--set", packet],
        &["s.toml:15"],
    );
    refused(
        &[("scheduler = \"first-fit\"\n", "routing = \"flowlet\"\nscheduler = \"none\"\n")],
        &[],
        &["s.toml:14", "gap between packets"],
    );
    refused(
        &[spray[0], ("duration = \"20s\"", "duration = \"20s\"\nrates = \"aimd\"")],
        &[],
        &["s.toml:18", "only max-min rates"],
    );
    refused(&flowlet, &["--set", packet], &["s.toml:15", "routing = \"spray\""]);
    refused(&spray, &["--set", packet, "--set", "transport.kind=\"mptcp\""], &["transport.kind", "subflow"]);
    refused(&spray, &["--set", "overlay.kind=\"vl2\""], &["s.toml:14", "routing = \"vlb\""]);
    refused(&[(spray[0].0, "routing = \"sprays\"")], &[], &["s.toml:14", "did you mean `spray`?"]);
    let noted = noted(&[(spray[0].0, "routing = \"spray\"\nflowlet_gap = \"1ms\"\npolarised = true")]);
    assert!(
        noted.contains("s.toml:15: `flowlet_gap` has no effect") && noted.contains("s.toml:16: `polarised` has no effect"),
        "{noted}"
    );
}
