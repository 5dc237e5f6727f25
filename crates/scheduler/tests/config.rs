//! Wrong configurations: file, line and remedy, and exit code 2.

#![allow(clippy::disallowed_methods)] // Processes live by the wall clock.

mod support;

use support::{Answer, CONFIG, FABRIC, Scheduler};

/// With one piece in place of another, the configuration is refused for this reason at this line, with a remedy.
fn refused(from: &str, to: &str, line: usize, reason: &str) {
    assert!(CONFIG.contains(from), "{from}");
    is_refused(&Scheduler::with(&CONFIG.replacen(from, to, 1)), line, reason);
}

fn is_refused(scheduler: &Scheduler, line: usize, reason: &str) {
    let Answer { code, stdout, stderr } = scheduler.command_output(&["run", "--check"]);
    // Long lines are broken.
    let text = stderr.replace("  │ ", "").split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(code, Some(2), "{reason}: {stdout}{stderr}");
    assert!(text.contains(reason), "{reason}: {stderr}");
    assert!(text.contains("help:"), "{reason}: {stderr}");
    assert!(line == 0 || stderr.contains(&format!("scheduler.toml:{line}:")), "{reason}, line {line}: {stderr}");
}

#[test]
fn a_right_one_is_right() {
    for config in [
        CONFIG.to_owned(),
        CONFIG.replace("\"100ms\"", "\"10000000000s\""),
        CONFIG.replace("period = \"100ms\"", "threshold = 1\nkind = \"none\"\nidle_timeout = \"65535s\""),
        CONFIG.replace("[[host]]\nname = \"web-1\"", "[[switch]]\nname = \"tor0\"\n[[host]]\nname = \"web-1\""),
        CONFIG
            .replace("[[host]]\nname = \"db-1\"", "[[switch]]\nname = \"tor0\"\nports = { agg0 = 9 }\n[[host]]\nname = \"db-1\""),
    ] {
        let answer = Scheduler::with(&config).command_output(&["run", "--check"]);
        assert_eq!((answer.code, answer.stderr.as_str()), (Some(0), ""));
        assert!(answer.stdout.ends_with("scheduler.toml is right\n"), "{answer:?}");
    }
}

#[test]
fn keys() {
    refused("socket =", "sockets =", 3, "unknown field `sockets`");
    refused("fabric = \"fabric.weft\"\n", "", 1, "missing field `fabric`");
    refused("mac = \"02:00:00:00:00:01\"\n", "", 7, "missing field `mac`");
    refused("[\"unix:switches.sock\"]", "[]", 2, "no address for switches");
    for wrong in ["unix:", "tcp:1.2.3.4", "switches.sock", "tcp:host:6653", "1.2.3.4:99999", ""] {
        refused(
            "unix:switches.sock",
            wrong,
            2,
            &format!("`{wrong}` is none of `tcp:ADDRESS:PORT`, `tls:ADDRESS:PORT` and `unix:PATH`"),
        );
    }
    refused("switches.sock", "scheduler.sock", 2, "this is the `socket` for commands");
    refused("\"off\"", "\"on\"", 4, "`on` is not address:port, and not `off`");
    refused("\"100ms\"", "\"0s\"", 6, "the scheduling period is 0");
    refused("\"100ms\"", "\"soon\"", 6, "soon");
    refused("\"100ms\"", "\"-1s\"", 6, "-1s");
    refused("\"100ms\"", "5", 6, "expected a string");
    for wrong in ["0.0", "1.5", "-0.1", "nan", "inf"] {
        refused("period", &format!("threshold = {wrong}\nperiod"), 6, "is not a fraction of the NIC");
    }
    for wrong in ["0.0", "-1.0", "nan", "inf"] {
        refused("period", &format!("seed = 2\nc = {wrong}\nperiod"), 7, "times T0: it is a positive number");
    }
    refused("period", "iterations = -1\nperiod", 6, "expected a whole number from 0 to 4,294,967,295");
    for wrong in ["0s", "999ms", "65536s"] {
        refused("period", &format!("idle_timeout = \"{wrong}\"\nperiod"), 6, "idle time in seconds, from 1 to 65,535");
    }
    refused("period", "kind = \"best\"\nperiod", 6, "unknown variant `best`");
    refused("02:00:00:00:00:02", "02:00:00:00:00", 14, "02:00:00:00:00");
    refused("10.0.0.2", "10.0.0.256", 13, "no IPv4 address");
    refused("\"off\"", "off", 4, "");
}

#[test]
fn the_fabric() {
    refused("fabric.weft", "nowhere.weft", 1, "cannot read the fabric");
    let scheduler = Scheduler::with(CONFIG);
    for (fabric, reason) in [
        ("", "the file is empty"),
        ("weft-fabric 1\nhots web-1\n", "line 2: `hots web-1` says nothing"),
        ("\u{1f}\u{8b}", "begins no known topology file"),
    ] {
        std::fs::write(scheduler.path("fabric.weft"), fabric).unwrap();
        is_refused(&scheduler, 1, reason);
    }
    let nics = "cable web-1 tor0 1Gbps 1us\ncable web-1 tor1 1Gbps 1us";
    std::fs::write(scheduler.path("fabric.weft"), FABRIC.replace("cable web-1 tor0 1Gbps 1us", nics)).unwrap();
    is_refused(&scheduler, 1, "host `web-1` has 2 NICs");
    std::fs::remove_file(scheduler.path("scheduler.toml")).unwrap();
    is_refused(&scheduler, 0, "cannot read the configuration");
}

#[test]
fn hosts() {
    let host = "[[host]]\nname = \"db-2\"\naddress = \"10.0.0.4\"\nmac = \"02:00:00:00:00:04\"\n";
    refused(host, "", 7, "host `db-2` of the fabric has no `[[host]]`");
    refused("db-2", "db-1", 20, "the host is there twice");
    refused("db-2", "db-3", 20, "the fabric has no `db-3`");
    refused("db-2", "tor0", 20, "this is a switch of the fabric");
    refused("10.0.0.2", "10.0.0.1", 12, "the hosts `web-1` and `web-2` have the same address 10.0.0.1");
    refused("02:00:00:00:00:02", "02:57:45:46:54:00", 12, "host `web-2` has the MAC address 02:57:45:46:54:00");
}

#[test]
fn switches() {
    let with =
        |keys: &str, line: usize, reason: &str| refused("[[host]]", &format!("[[switch]]\n{keys}\n[[host]]"), line, reason);
    with("name = \"web-1\"", 8, "this is a host of the fabric");
    with("name = \"tor9\"", 8, "the fabric has no `tor9`");
    with("nam = \"tor0\"", 8, "unknown field `nam`");
    with("name = \"tor0\"\n[[switch]]\nname = \"tor0\"", 10, "the switch is there twice");
    for wrong in ["", "0x", "sw1", "00000000000000001", "1 2"] {
        with(&format!("name = \"tor0\"\ndatapath = \"{wrong}\""), 9, "not a datapath");
    }
    with("name = \"tor0\"\ndatapath = \"2\"", 8, "the switches `tor0` and `tor1` have the same datapath 0000000000000002");
    with("name = \"tor1\"\ndatapath = \"00:00:00:00:00:00:00:01\"", 8, "`tor0` and `tor1` have the same datapath");
    with("name = \"tor0\"\nports = { agg0 = 0 }", 8, "port 0 of switch `tor0`: ports are numbered from 1");
    with("name = \"tor0\"\nports = { agg0 = 4294967295 }", 8, "port 4294967295 of switch `tor0`");
    with("name = \"tor0\"\nports = { agg0 = -1 }", 9, "a port number, or a list of them");
    with("name = \"tor0\"\nports = { agg0 = [3, 4] }", 9, "`tor0` has one cable to `agg0`");
    with("name = \"tor0\"\nports = { agg0 = 4 }", 8, "switch `tor0` has two links at port 4: to `agg0` and to `agg1`");
    with("name = \"tor0\"\nports = { tor1 = 4 }", 9, "`tor0` has no cable to `tor1`");
    with("name = \"tor0\"\nports = { agg7 = 4 }", 9, "the fabric has no `agg7`");
}

#[test]
fn several_cables_between_two_switches_have_a_port_each() {
    let second = "cable tor0 agg0 1Gbps 1us\ncable tor0 agg0 1Gbps 1us parallel\n";
    let ports = |ports: &str| format!("{CONFIG}[[switch]]\nname = \"tor0\"\nports = {{ agg0 = {ports}, agg1 = 9 }}\n");
    let scheduler = Scheduler::with(&ports("[7, 8]"));
    std::fs::write(scheduler.path("fabric.weft"), FABRIC.replace("cable tor0 agg0 1Gbps 1us\n", second)).unwrap();
    let answer = scheduler.command_output(&["run", "--check"]);
    assert_eq!(answer.code, Some(0), "{}", answer.stderr);
    std::fs::write(scheduler.path("scheduler.toml"), ports("7")).unwrap();
    is_refused(&scheduler, 25, "`tor0` has 2 cables to `agg0`");
    std::fs::write(scheduler.path("scheduler.toml"), ports("[7, 9]")).unwrap();
    is_refused(&scheduler, 24, "switch `tor0` has two links at port 9");
}

#[test]
fn discovery_overwrites_nothing_and_needs_an_address() {
    let scheduler = Scheduler::with(CONFIG);
    let out = scheduler.folder.path().display().to_string();
    let refused = |args: &[&str], reason: &str| {
        let answer = scheduler.bare_output(&[&["discover", "--out", &out], args].concat());
        assert_eq!(answer.code, Some(2), "{}", answer.stderr);
        assert!(answer.stderr.contains(reason), "{}", answer.stderr);
    };
    refused(&[], "fabric.weft exists");
    refused(&["--listen", "somewhere"], "none of");
    refused(&["--rate", "fast"], "rate");
    assert_eq!(std::fs::read_to_string(scheduler.path("fabric.weft")).unwrap(), FABRIC);
}

#[test]
fn standby() {
    let with =
        |keys: &str, line: usize, reason: &str| refused("[scheduler]", &format!("[standby]\n{keys}\n[scheduler]"), line, reason);
    let etcd = "etcd = [\"http://127.0.0.1:2379\"]";
    with("", 5, "missing field `etcd`");
    with("etcd = []", 6, "not the URLs of etcd");
    with("etcd = [\"127.0.0.1:2379\"]", 6, "not the URLs of etcd");
    with("etcd = [\"http://192.0.2.1:2379\"]", 6, "http://192.0.2.1:2379 is etcd on another machine without TLS");
    for wrong in ["1s", "61s", "2500ms"] {
        with(&format!("{etcd}\nlease = \"{wrong}\""), 7, "a lease is 2 to 60 whole seconds");
    }
    with(&format!("{etcd}\nname = \"\""), 7, "the name is empty");
    with(&format!("{etcd}\nprefix = \"weft\""), 7, "a prefix begins with `/`");
    with(&format!("{etcd}\nca = \"fabric.weft\""), 7, "certificates need https");
    let https = "etcd = [\"https://127.0.0.1:2379\"]";
    with(&format!("{https}\nca = \"none.pem\""), 7, "cannot read none.pem");
    with(&format!("{https}\ncert = \"fabric.weft\""), 7, "`cert` and `cert_key` belong together");
    with(&format!("{https}\nuser_file = \"fabric.weft\""), 7, "the file has no `user:password`");
}
