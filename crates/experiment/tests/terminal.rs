//! What a person sees in a terminal: tables within 80 columns, help in groups, mistakes named, long work announced.

#[path = "support/weft.rs"]
mod support;

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

use support::{folder_with, json, root, stderr, stdout, weft};

/// A sweep with a published value, a bound, and a ratio to another run.
fn sweep() -> tempfile::TempDir {
    let expect = r#"[sweep]
"control.scheduler" = ["none", "first-fit"]

[[expect]]
source = "Hedera, figure 9: a title that is far too long for a column of a table that must fit the terminal"
where = { "control.scheduler" = "first-fit" }
metric = "goodput_bps"
over = { "control.scheduler" = "none" }
at_least = 1.0

[[expect]]
source = "Hedera, abstract"
metric = "optimal_fraction"
value = 0.1

[[expect]]"#;
    folder_with(&[("[[expect]]", expect)])
}

#[test]
fn the_table_of_a_sweep_fits_80_columns() {
    let folder = sweep();
    let printed = stdout(&weft(&["run", "s.toml", "--out", "r"], folder.path()));
    // Sources stand on lines of their own, in full.
    for line in printed.lines().filter(|line| !line.ends_with(']')) {
        assert!(line.chars().count() <= 80, "{} columns: {line}", line.chars().count());
    }
    let rules = printed.lines().filter(|line| !line.is_empty() && line.chars().all(|c| c == '─')).count();
    assert_eq!(rules, 2, "a rule under each header and nowhere else:\n{printed}");
    insta::assert_snapshot!("run-sweep", printed);
}

#[test]
fn wide_tables_have_every_metric() {
    let folder = sweep();
    let printed = stdout(&weft(&["run", "s.toml", "--out", "r", "--wide"], folder.path()));
    for column in ["scheduler", "goodput", "% of NIC limit", "FCT p99", "Jain index, flows", "run time", "memory", "verdict"] {
        assert!(printed.contains(column), "{column}:\n{printed}");
    }
    let both = weft(&["run", "s.toml", "--wide", "--json"], folder.path());
    assert_eq!(both.status.code(), Some(2), "JSON has every metric already");
}

#[test]
fn a_check_shows_paper_bound_measured_value_and_deviation() {
    let printed = stdout(&weft(&["check", "s.toml"], sweep().path()));
    assert!(printed.lines().any(|l| ["verdict", "run", "paper", "bound", "measured", "deviation"].iter().all(|w| l.contains(w))));
    for text in [">= 1x", "10 %", "completion time", "+400 %", "MISS", "published values: "] {
        assert!(printed.contains(text), "{text}:\n{printed}");
    }
}

#[test]
fn a_wide_check_has_names_of_runs_in_full_and_tolerances() {
    let sweep = r#"[sweep]
case = [
    { "traffic.size" = "125MB", "traffic.stride" = 4 },
    { "traffic.size" = "12500kB", "traffic.stride" = 8, "control.period" = "20ms", "control.threshold" = 0.05, "control.hash" = "dst" },
]

[[expect]]"#;
    let folder = folder_with(&[("[[expect]]", sweep)]);
    let narrow = stdout(&weft(&["check", "s.toml"], folder.path()));
    assert!(narrow.contains('…') && narrow.lines().all(|line| line.chars().count() <= 80), "{narrow}");
    let wide = stdout(&weft(&["check", "s.toml", "--wide"], folder.path()));
    for text in ["size=12500kB", "stride=8", "period=20ms", "threshold=0.05", "1 s ±50 %"] {
        assert!(wide.contains(text), "{text}:\n{wide}");
    }
    assert!(!wide.contains('…'), "{wide}");
    let both = weft(&["check", "s.toml", "--wide", "--json"], folder.path());
    assert_eq!(both.status.code(), Some(2), "JSON has all of it already");
}

#[test]
fn warnings_are_brief_unless_more_is_asked_for() {
    let folder = folder_with(&[]);
    let run = |arguments: &[&str]| {
        let all = [&["run", "s.toml", "--set", "control.scheduler=none"], arguments].concat();
        stderr(&weft(&all, folder.path()))
    };
    let brief = run(&[]);
    assert!(brief.lines().any(|line| line.starts_with("warning: ") && line.contains("`period` has no effect")), "{brief}");
    assert!(!brief.contains("WARN") && !brief.contains("weft_experiment"), "{brief}");
    let full = run(&["-v"]);
    assert!(full.lines().any(|line| line.contains("WARN") && line.contains("weft_experiment::study")), "{full}");
}

#[test]
fn mistakes_are_named_with_the_nearest_valid_word() {
    let cases: &[(&str, &str, &[&str])] = &[
        ("[traffic]", "[trafic]", &["s.toml:8", "unknown table `[trafic]`", "did you mean `traffic`?"]),
        ("[control]", "[contrl]", &["unknown table `[contrl]`", "did you mean `control`?"]),
        ("title = ", "titel = ", &["s.toml:1", "unknown key `titel`", "did you mean `title`?"]),
        ("\"fat-tree\"", "\"fat-tre\"", &["s.toml:4", "no fabric `fat-tre`", "did you mean `fat-tree`?"]),
        ("\"stride\"\n", "\"strid\"\n", &["no pattern `strid`", "did you mean `stride`?"]),
        ("\"first-fit\"", "\"firstfit\"", &["no scheduler `firstfit`", "did you mean `first-fit`?"]),
        ("pattern = ", "patern = ", &["s.toml:9", "unknown key `patern`", "did you mean `pattern`?"]),
    ];
    for (from, to, wanted) in cases {
        let folder = folder_with(&[(from, to)]);
        let output = weft(&["run", "s.toml"], folder.path());
        assert_eq!(output.status.code(), Some(2), "{to}");
        for part in *wanted {
            assert!(stderr(&output).contains(part), "`{part}` is missing in:\n{}", stderr(&output));
        }
    }
}

#[test]
fn a_mistyped_path_proposes_the_nearest_file() {
    for (typed, near) in
        [("scenarios/frist.toml", "scenarios/first.toml"), ("scenaros/hedera/figure9.tml", "scenarios/hedera/figure9.toml")]
    {
        let output = weft(&["run", typed], &root());
        let text = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{typed}");
        assert!(text.contains(typed) && text.contains(&format!("did you mean `{near}`?")), "{text}");
    }
    let elsewhere = tempfile::tempdir().expect("a folder");
    for typed in ["scenarios/first.toml", "first"] {
        let text = stderr(&weft(&["run", typed], elsewhere.path()));
        assert!(text.contains("did you mean `@first`?"), "{text}");
    }
    let text = stderr(&weft(&["topo", "scenarios/frist.toml"], &root()));
    assert!(text.contains("did you mean `scenarios/first.toml`?"), "{text}");
    let nothing = stderr(&weft(&["run", "nothing-like-it-anywhere.toml"], &root()));
    assert!(nothing.contains("there is no file") && !nothing.contains("did you mean"), "{nothing}");
}

#[test]
fn help_is_grouped_and_has_examples() {
    let help = stdout(&weft(&["--help"], &root()));
    for text in ["Experiments:", "Labs on this machine", "Examples:", "weft run @first", "Increase log verbosity (-vv for debug)"]
    {
        assert!(help.contains(text), "{text}:\n{help}");
    }
    for command in
        ["run", "check", "topo", "demand", "place", "spain", "bench", "new", "lab", "test", "completions", "directory", "agent"]
    {
        let lines = help.lines().filter(|line| line.starts_with(&format!("  {command} "))).count();
        assert_eq!(lines, 1, "{command}:\n{help}");
    }
    assert!(!help.contains("Other:"), "every command is in a group:\n{help}");
    for command in ["run", "check"] {
        let help = stdout(&weft(&[command, "--help"], &root()));
        for text in ["Scenario:", "Results:", "Execution:", "Examples:"] {
            assert!(help.contains(text), "{text}:\n{help}");
        }
    }
}

#[test]
fn every_command_has_examples_within_80_columns() {
    let commands = ["run", "check", "topo", "new", "examples", "demand", "place", "spain", "lab", "test", "bench", "completions"];
    for command in commands {
        let help = stdout(&weft(&[command, "--help"], &root()));
        let (_, examples) = help.split_once("\nExamples:\n").unwrap_or_else(|| panic!("{command}:\n{help}"));
        assert!(examples.starts_with(&format!("  weft {command}")), "{command}:\n{examples}");
        for line in examples.lines() {
            assert!(line.chars().count() <= 80, "{command}: {line}");
        }
    }
}

#[test]
fn a_case_of_bench_has_its_goals() {
    let bench =
        |arguments: &[&str]| weft(&[&["bench", "flow", "--case", "8192-8192", "--runs", "1"], arguments].concat(), &root());
    let case = &json(&bench(&["--json"]))["cases"][0];
    let goal = &case["goals"][0];
    assert_eq!((&goal["metric"], &goal["at_most"], &goal["measured"]), (&"wall_s".into(), &0.1.into(), &case["wall_s"]));
    assert_eq!(goal["met"], goal["measured"].as_f64().expect("seconds") <= 0.1);
    let printed = stdout(&bench(&[]));
    assert!(
        ["met\n", "missed\n"].iter().any(|end| printed.ends_with(&format!("  goal: wall at most 100 ms: {end}"))),
        "{printed}"
    );
}

#[test]
fn long_work_is_announced_and_never_silent() {
    let folder = folder_with(&[("duration = \"20s\"", "duration = \"20000s\"\nkind = \"packet\""), ("\"125MB\"", "\"inf\"")]);
    let mut run = Command::new(env!("CARGO_BIN_EXE_weft"));
    run.args(["run", "s.toml", "--set", "control.scheduler=none"]).current_dir(folder.path());
    let mut run = run.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("weft starts");
    let mut lines = BufReader::new(run.stderr.take().expect("a pipe")).lines().map(|line| line.expect("text"));
    // After a warning that nothing reads the scheduler's period now.
    let notice = lines.find(|line| !line.starts_with("warning: ")).expect("a notice before it starts");
    assert!(notice.starts_with("about ") && notice.contains("16 hosts, 20000s of network time, packet world"), "{notice}");
    let shorter = lines.next().expect("what is shorter");
    assert!(shorter.starts_with("shorter: ") && shorter.contains("--world flow"), "{shorter}");
    let progress = lines.find(|line| line.contains("% done")).expect("a line after ten seconds");
    assert!(progress.contains(" s: "), "{progress}");
    run.kill().and_then(|()| run.wait()).expect("it ends");
}
