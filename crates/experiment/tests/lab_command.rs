//! `weft lab` as a user runs it: what it prints, how it ends, and that nothing is left however it ends. As root; elsewhere most of it says
//! that it is skipped.
#![cfg(all(feature = "lab", target_os = "linux"))]

#[path = "support/weft.rs"]
mod support;

use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use serde_json::Value;
use support::{folder_with, json, stderr, stdout, weft};

/// With a scheduler the switches would be Open vSwitch.
const UNSCHEDULED: (&str, &str) = ("scheduler = \"first-fit\"", "scheduler = \"none\"");

/// A lab's name for a test, removed with it whatever becomes of it.
struct Name(String);

impl Drop for Name {
    fn drop(&mut self) {
        let _ = weft(&["lab", "down", "--name", &self.0], Path::new("/"));
    }
}

impl Name {
    fn new(letter: char) -> Self {
        Self(format!("c{:x}{letter}", std::process::id()))
    }

    fn lab(&self, command: &[&str], folder: &Path) -> Output {
        let arguments = [&["lab"], command, &["--name", &self.0]].concat();
        weft(&arguments, folder)
    }

    /// Starts `lab up` and waits until it has made so many namespaces.
    fn up_until(&self, namespaces: usize, folder: &Path) -> Child {
        let mut up = Command::new(env!("CARGO_BIN_EXE_weft"));
        up.args(["lab", "up", "s.toml", "--name", &self.0]).current_dir(folder).stdout(Stdio::null()).stderr(Stdio::null());
        let mut up = up.spawn().expect("weft starts");
        for _ in 0..2000 {
            if self.namespaces() >= namespaces {
                return up;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        up.kill().and_then(|()| up.wait()).expect("it ends");
        panic!("it makes no namespaces");
    }

    fn namespaces(&self) -> usize {
        let Ok(entries) = std::fs::read_dir("/run/netns") else { return 0 };
        let prefix = format!("weft-{}-", self.0);
        entries.flatten().filter(|e| e.file_name().to_string_lossy().starts_with(&prefix)).count()
    }

    fn nothing_is_left(&self) {
        assert_eq!(self.namespaces(), 0);
        assert!(!Path::new("/run/weft/labs").join(&self.0).exists());
        let leave = std::fs::read_to_string("/run/weft/labs/NAME/congestion-controls".replace("NAME", &self.0));
        assert!(leave.is_err(), "a leave is not taken back");
        let processes = Command::new("ps").args(["-eo", "args"]).output().expect("ps");
        let folder = format!("/run/weft/labs/{}/", self.0);
        assert!(!stdout(&processes).contains(&folder), "daemons go on");
    }
}

/// Whether labs can be made here; if not, says why.
fn possible() -> bool {
    let report: Value = serde_json::from_slice(&weft(&["lab", "doctor", "--json"], Path::new("/")).stdout).expect("JSON");
    let has_frr = report["checks"].as_array().expect("checks").iter().any(|c| c["name"] == "FRR" && c["state"] == "ok");
    if report["ok"] == true && has_frr {
        return true;
    }
    assert!(std::env::var_os("CI").is_none(), "a lab cannot come up here: {report:#}");
    eprintln!("SKIPPED: a lab cannot come up here; `weft lab doctor` prints why");
    false
}

#[test]
fn a_session_with_a_lab() {
    if !possible() {
        return;
    }
    let (folder, name) = (folder_with(&[UNSCHEDULED]), Name::new('a'));
    let at = folder.path();
    let up = json(&name.lab(&["up", "s.toml", "--routing", "static", "--json"], at));
    assert_eq!((&up["hosts"], &up["switches"], &up["cables"]), (&16.into(), &20.into(), &48.into()));
    assert_eq!((&up["routing"], &up["scale"]), (&"static".into(), &0.01.into()));
    let twice = name.lab(&["up", "s.toml"], at);
    assert!(twice.status.code() == Some(2) && stderr(&twice).contains("lab down --name"), "{}", stderr(&twice));

    let status = json(&weft(&["lab", "status", "--json", "--name", &name.0], at));
    assert_eq!((&status["lab"]["phase"], &status["lab"]["namespaces"]), (&"up".into(), &36.into()));
    assert_eq!(status["nodes"][0]["ports"][0]["rate_bps"], 10_000_000);
    assert!(stdout(&weft(&["lab", "status"], at)).contains(&name.0));

    let pings = json(&name.lab(&["ping-all", "--json"], at));
    assert_eq!((&pings["pairs"], &pings["answered"]), (&240.into(), &240.into()));
    let trace = json(&name.lab(&["trace", "h0", "h15", "--sport", "4000", "--json"], at));
    assert_eq!((&trace["confirmed"], trace["hops"].as_array().map(Vec::len)), (&true.into(), Some(7)));

    let exec = |words: &[&str]| weft(&[&["lab", "exec", "--name", &name.0], words].concat(), at);
    assert!(stdout(&exec(&["h0", "ip", "-br", "addr"])).contains("10.1.1.2/32"));
    assert_eq!(exec(&["h0", "sh", "-c", "exit 7"]).status.code(), Some(7), "a command's exit code is its own");
    let answer = json(&exec(&["--json", "core0", "sh", "-c", "echo $WEFT_NODE"]));
    assert_eq!((&answer["stdout"], &answer["exit_code"]), (&"core0\n".into(), &0.into()));
    let unknown = exec(&["h99", "true"]);
    assert!(unknown.status.code() == Some(2) && stderr(&unknown).contains("its nodes are h0"), "{}", stderr(&unknown));

    assert_eq!(json(&name.lab(&["down", "--json"], at))["removed"][0], name.0.as_str());
    name.nothing_is_left();
    assert_eq!(name.lab(&["down"], at).status.code(), Some(2), "there is none any more");
}

#[test]
fn ctrl_c_leaves_nothing() {
    if !possible() {
        return;
    }
    let (folder, name) = (folder_with(&[UNSCHEDULED]), Name::new('b'));
    let mut up = name.up_until(36, folder.path());
    let pid = up.id().to_string();
    assert!(Command::new("kill").args(["-INT", &pid]).status().expect("kill").success());
    assert_eq!(up.wait().expect("it ends").code(), Some(130));
    name.nothing_is_left();
}

#[test]
fn what_a_crash_leaves_is_found_and_removed() {
    if !possible() {
        return;
    }
    let (folder, name) = (folder_with(&[UNSCHEDULED]), Name::new('c'));
    for namespaces in [5, 36] {
        let mut up = name.up_until(namespaces, folder.path());
        up.kill().expect("killed");
        up.wait().expect("it ends");
        let status = json(&weft(&["lab", "status", "--json", "--name", &name.0], folder.path()));
        assert_eq!(status["lab"]["phase"], "broken");
        assert!(stderr(&name.lab(&["ping-all"], folder.path())).contains("lab down --name"));
        assert!(name.lab(&["down"], folder.path()).status.success());
        name.nothing_is_left();
    }
    // `up` of the same name does it too.
    let mut up = name.up_until(20, folder.path());
    up.kill().expect("killed");
    up.wait().expect("it ends");
    json(&name.lab(&["up", "s.toml", "--routing", "static", "--json"], folder.path()));
}

#[test]
fn mistakes_are_reported_with_their_place() {
    let folder = folder_with(&[("[world]", "[world]\nscale = 2.0")]);
    let out = weft(&["lab", "up", "s.toml"], folder.path());
    assert!(out.status.code() == Some(2) && stderr(&out).contains("s.toml:"), "{}", stderr(&out));
    let out = weft(&["lab", "status", "--name", "nosuchlab"], folder.path());
    assert!(out.status.code() == Some(2) && stderr(&out).contains("weft lab up SCENARIO"), "{}", stderr(&out));
    let out = weft(&["lab", "up", "s.toml", "--name", "a-b"], folder.path());
    assert!(out.status.code() == Some(2) && stderr(&out).contains("letters, digits and underscores"), "{}", stderr(&out));
}

#[test]
fn without_root_it_says_so() {
    use std::os::unix::process::CommandExt as _;
    let folder = folder_with(&[UNSCHEDULED]);
    let is_root = stdout(&Command::new("id").arg("-u").output().expect("id")).trim() == "0";
    let mut up = Command::new(env!("CARGO_BIN_EXE_weft"));
    up.args(["lab", "up", "s.toml"]).current_dir(folder.path());
    if is_root {
        // Others must be able to read the scenario and to run the program.
        let readable = Command::new("chmod").args(["-R", "a+rX"]).arg(folder.path()).status().expect("chmod");
        assert!(readable.success());
        up.uid(65534);
    }
    match up.output() {
        Ok(out) => assert!(out.status.code() == Some(2) && stderr(&out).contains("as root"), "{}", stderr(&out)),
        Err(e) => eprintln!("SKIPPED: another user cannot run the program: {e}"),
    }
}
