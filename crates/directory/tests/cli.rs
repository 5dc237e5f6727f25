//! The command line as `docs/cli.md` has it, against a real server; and what it says to bad input.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

/// A folder made by `init`, and a server of it once it was started.
struct Site {
    folder: TempDir,
    server: Option<(Child, String)>,
    /// `WEFT_PROTOCOL` of commands.
    protocol: &'static str,
}

impl Site {
    fn new() -> Self {
        let site = Self { folder: TempDir::new().expect("a folder"), server: None, protocol: "" };
        assert_ok(&site.plain(&["init", site.dir().to_str().expect("UTF-8")]));
        site
    }

    /// With a server, in the default way or by keyed MACs.
    fn serving(auth: &str) -> Self {
        let mut site = Self::new();
        site.start(auth);
        site
    }

    fn start(&mut self, auth: &str) {
        self.start_as(auth, "");
    }

    /// The server speaks the next version of the protocol if `protocol` says so.
    fn start_as(&mut self, auth: &str, protocol: &str) {
        let dir = self.dir();
        let mut command = Command::new(env!("CARGO_BIN_EXE_weft-directory"));
        command.env("WEFT_PROTOCOL", protocol);
        command.args(["serve", "--listen", "127.0.0.1:0", "--metrics", "off", "--json", "--auth", auth, "--dir"]).arg(dir);
        let mut process = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("it starts");
        let mut line = String::new();
        BufReader::new(process.stdout.take().expect("piped")).read_line(&mut line).expect("a line");
        let ready: Value = serde_json::from_str(&line).expect("JSON");
        let address = ready["listen"].as_str().expect("an address").to_owned();
        let client = format!("servers = [\"{address}\"]\nprincipal = 2\nauth = \"{auth}\"\n");
        std::fs::write(self.dir().join("client.toml"), client).expect("written");
        self.server = Some((process, address));
    }

    fn dir(&self) -> PathBuf {
        self.folder.path().join("directory")
    }

    fn file(&self, name: &str, text: &str) -> String {
        let file = self.folder.path().join(name);
        std::fs::write(&file, text).expect("written");
        file.display().to_string()
    }

    fn plain(&self, args: &[&str]) -> Output {
        run(Command::new(env!("CARGO_BIN_EXE_weft-directory")).args(args).current_dir(self.folder.path()))
    }

    fn run(&self, args: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_weft-directory"));
        run(command
            .args(args)
            .current_dir(self.folder.path())
            .env("WEFT_DIRECTORY", self.dir())
            .env("WEFT_PROTOCOL", self.protocol))
    }

    fn json(&self, args: &[&str]) -> Value {
        let output = self.run(&[args, &["--json"]].concat());
        serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {output:?}"))
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        if let Some((process, _)) = &mut self.server {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

fn run(command: &mut Command) -> Output {
    command.env_remove("WEFT_LOG").stdin(Stdio::null()).output().expect("it runs")
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn assert_ok(output: &Output) {
    assert!(output.status.success(), "{output:?}");
}

/// It ends with this code, prints nothing, and says all of these.
fn assert_fails(output: &Output, code: i32, said: &[&str]) {
    let text = stderr(output);
    assert_eq!(output.status.code(), Some(code), "{text}");
    assert_eq!(stdout(output), "", "{text}");
    said.iter().for_each(|part| assert!(text.contains(part), "`{part}` is not in:\n{text}"));
}

#[test]
fn a_folder_has_all_that_one_machine_needs() {
    use std::os::unix::fs::PermissionsExt;
    let site = Site::new();
    for (file, mode) in
        [("secret", 0o600), ("ca.key", 0o600), ("server.key", 0o600), ("admin.key", 0o600), ("policy.toml", 0o644)]
    {
        let metadata = std::fs::metadata(site.dir().join(file)).expect(file);
        assert_eq!(metadata.permissions().mode() & 0o777, mode, "{file}");
    }
    let again = site.plain(&["init", "directory"]);
    assert_fails(&again, 2, &["has a secret already"]);
    let key = site.run(&["key", "--principal", "17"]);
    assert_eq!(stdout(&key).trim().len(), 64);
    assert_eq!(site.json(&["key", "--principal", "17"])["key"], stdout(&key).trim());
    let made = site.run(&["key", "--principal", "3", "--certificate", "p3.pem"]);
    assert_ok(&made);
    assert!(site.folder.path().join("p3.key").is_file());
    assert_fails(&site.run(&["key", "--principal", "3", "--certificate", "p3.pem"]), 2, &["p3.pem exists already"]);
    let other = site.plain(&["init", "other", "--json", "--listen", "127.0.0.1:5399"]);
    let other: Value = serde_json::from_slice(&other.stdout).expect("JSON");
    assert_eq!(other["serve"], "weft directory serve --dir other");
}

/// Over datagrams and streams: lookups, updates, lists, documents.
#[test]
fn clients_and_servers_of_neighbouring_versions_work_together() {
    for (auth, server, client) in [("mac", "", "next"), ("mac", "next", ""), ("tls", "", "next"), ("tls", "next", "")] {
        let mut site = Site::new();
        site.start_as(auth, server);
        site.protocol = client;
        assert_ok(&site.run(&["put", "10.0.0.7", "10.0.1.1", "--replace"]));
        assert_eq!(site.json(&["get", "10.0.0.7"])["findings"][0]["locator"], "10.0.1.1", "{auth} `{server}` `{client}`");
        assert!(stdout(&site.run(&["list"])).contains("10.0.0.7"));
        let text = site.folder.path().join("text");
        std::fs::write(&text, "x = 1\n").expect("written");
        assert_ok(&site.run(&["publish", "note", text.to_str().expect("UTF-8")]));
        assert_eq!(stdout(&site.run(&["fetch", "note"])), "x = 1\n");
        assert_ok(&site.run(&["status"]));
    }
}

#[test]
fn a_folder_remembers_where_its_server_listens() {
    let site = Site::new();
    let free = std::net::UdpSocket::bind("127.0.0.1:0").and_then(|socket| socket.local_addr()).expect("a port");
    assert_ok(&site.plain(&["init", "other", "--listen", &free.to_string()]));
    let dir = site.folder.path().join("other");
    let mut command = Command::new(env!("CARGO_BIN_EXE_weft-directory"));
    command.args(["serve", "--metrics", "off", "--json", "--dir"]).arg(&dir);
    let mut process = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("it starts");
    let mut line = String::new();
    BufReader::new(process.stdout.take().expect("piped")).read_line(&mut line).expect("a line");
    let status = site.plain(&["status", "--dir", "other"]);
    process.kill().and_then(|()| process.wait()).expect("it ends");
    assert!(line.contains(&format!("\"listen\":\"{free}\"")), "{line}");
    assert_ok(&status);
}

#[test]
fn what_no_host_can_have_is_not_put() {
    let site = Site::serving("mac");
    for (key, locator, said) in [
        ("224.0.0.5", "10.0.1.1", "the address 224.0.0.5 is a multicast address"),
        ("ff02::1", "10.0.1.1", "the address ff02::1 is a multicast address"),
        ("10.0.0.7", "0.0.0.0", "the locator 0.0.0.0 is the unspecified address"),
        ("10.0.0.7", "255.255.255.255", "the broadcast address"),
        ("group:3", "10.9.0.1,239.0.0.1", "the group's address 239.0.0.1 is a multicast address"),
    ] {
        assert_fails(&site.run(&["put", key, locator]), 2, &[said, "help: "]);
    }
    let more = |args: &[&str]| site.run(&[&["put", "10.0.0.7", "10.0.1.1"], args].concat());
    assert_fails(&more(&["--service", "9"]), 2, &["no service `9`", "raise `version`"]);
    assert_fails(&more(&["--group", "3"]), 2, &["no group 3 in the directory", "weft directory put group:3"]);
    assert_eq!(stdout(&site.run(&["list", "--json"])), "", "nothing was written");
    assert_ok(&more(&["--group", "3", "--service", "9", "--unchecked"]));
    let file = site.file("in.jsonl", "{\"key\":\"10.0.0.8\",\"locator\":\"0.0.0.0\"}\n");
    assert_fails(&site.run(&["import", &file]), 2, &["in.jsonl:1: the locator 0.0.0.0"]);
}

#[test]
fn a_put_keeps_what_it_does_not_name() {
    let site = Site::serving("mac");
    let policy = "version = 2\n[[service]]\nname = \"web\"\nid = 1\n[[principal]]\nid = 2\nrole = \"admin\"\n";
    std::fs::write(site.dir().join("policy.toml"), policy).expect("written");
    assert_ok(&site.run(&["put", "group:3", "10.9.0.1"]));
    let all = ["--owner", "17", "--service", "web", "--group", "3", "--mac", "02:00:00:00:00:01", "--lease", "5s"];
    assert_ok(&site.run(&[&["put", "10.0.0.7", "10.0.1.1"], &all[..]].concat()));
    let moved = site.run(&["put", "10.0.0.7", "10.0.1.2"]);
    for part in ["kept owner 17", "service 1", "group 3", "MAC address 02:00:00:00:00:01", "lease 5000 ms"] {
        assert!(stdout(&moved).contains(part), "{moved:?}");
    }
    let mapping = || site.json(&["get", "10.0.0.7"])["findings"][0].clone();
    let (now, expected) = (mapping(), (Value::from("10.0.1.2"), Value::from(17), Value::from(1), Value::from(3)));
    assert_eq!((now["locator"].clone(), now["owner"].clone(), now["service"].clone(), now["group"].clone()), expected);
    assert_eq!(site.json(&["put", "10.0.0.7", "10.0.1.3", "--owner", "18"])["kept"][0], "service 1");
    assert_eq!((mapping()["owner"].clone(), mapping()["locator"].clone()), (Value::from(18), Value::from("10.0.1.3")));
    let replaced = site.run(&["put", "10.0.0.7", "10.0.1.4", "--replace"]);
    assert!(!stdout(&replaced).contains("kept"), "{replaced:?}");
    let now = mapping();
    assert_eq!((&now["owner"], &now["service"], &now["mac"]), (&Value::from(0), &Value::from(0), &Value::Null));
    // Over TLS without a key nothing can be looked up, so nothing is dropped in silence.
    let tls = Site::serving("tls");
    std::fs::rename(tls.dir().join("secret"), tls.dir().join("elsewhere")).expect("moved");
    assert_fails(&tls.run(&["put", "10.0.0.7", "10.0.1.1"]), 2, &["owner, service and group", "--replace"]);
    assert_ok(&tls.run(&["put", "10.0.0.7", "10.0.1.1", "--replace"]));
}

#[test]
fn what_the_page_shows_over_tls() {
    what_the_page_shows("tls");
}

#[test]
fn what_the_page_shows_by_keyed_macs() {
    what_the_page_shows("mac");
}

fn what_the_page_shows(auth: &str) {
    let site = Site::serving(auth);
    let put = site.json(&["put", "10.0.0.7", "10.0.1.1", "--owner", "17", "--service", "1", "--group", "3", "--unchecked"]);
    assert_eq!(put["outcome"], "committed");
    let generation = put["generation"].as_u64().expect("a number").to_string();
    let (number, known) = (put["number"].to_string(), (generation.parse::<u64>().expect("a number") - 1).to_string());
    let again = [
        "put",
        "10.0.0.7",
        "10.0.1.1",
        "--owner",
        "17",
        "--service",
        "1",
        "--group",
        "3",
        "--unchecked",
        "--number",
        &number,
        "--known",
        &known,
    ];
    assert_eq!(site.json(&again)["generation"], put["generation"], "the same update is applied once");

    let got = site.run(&["get", "10.0.0.7", "10.0.0.8", "--json"]);
    assert_eq!(got.status.code(), Some(1), "one is unknown");
    let got: Value = serde_json::from_slice(&got.stdout).expect("JSON");
    let expected: Value = serde_json::from_str(&format!(
        r#"{{"key": "10.0.0.7", "finding": "found", "generation": {generation}, "locator": "10.0.1.1", "group": 3, "service": 1, "owner": 17, "lease_ms": 60000}}"#
    ))
    .expect("JSON");
    assert_eq!(got["findings"][0], expected);
    assert_eq!(got["findings"][1]["finding"], "unknown");
    insta::assert_snapshot!("get", stdout(&site.run(&["get", "10.0.0.7"])).replace(&format!(" {generation} "), " G "));

    let conflict = site.run(&["put", "10.0.0.7", "10.0.1.2", "--expect", "new"]);
    assert_eq!(
        (conflict.status.code(), stdout(&conflict)),
        (Some(1), format!("conflict: 10.0.0.7 has generation {generation}\n"))
    );
    assert_ok(&site.run(&["put", "10.0.0.7", "10.0.1.2", "--expect", &generation, "--service", "1", "--unchecked"]));

    assert_ok(&site.run(&["put", "group:3", "10.9.0.1,10.9.0.2"]));
    assert_ok(&site.run(&["put", "tenant:5/0/02:00:00:00:00:01", "edge:02:00:00:00:00:09/12", "--lease", "1s"]));
    let listed = |args: &[&str]| -> Vec<String> {
        let text = stdout(&site.run(&[&["list", "--json"], args].concat()));
        text.lines()
            .map(|line| serde_json::from_str::<Value>(line).expect("JSON")["key"].as_str().expect("a key").to_owned())
            .collect()
    };
    assert_eq!(listed(&[]), ["10.0.0.7", "tenant:5/0/02:00:00:00:00:01", "group:3"]);
    assert_eq!(listed(&["--tenant", "5"]), ["tenant:5/0/02:00:00:00:00:01"]);
    assert_eq!(listed(&["--service", "1"]), ["10.0.0.7"]);
    assert_eq!(listed(&["--prefix", "10.0.0.0/8"]), ["10.0.0.7"]);
    assert_eq!(listed(&["--limit", "1"]).len(), 1);

    let status = site.json(&["status"]);
    assert_eq!((&status["ok"], &status["servers"][0]["state"]), (&Value::Bool(true), &Value::from("serving")));
    assert_eq!(status["servers"][0]["entries"], 3);
    assert!(status["servers"][0]["status"].is_object(), "{status}");

    let changes = site.run(&["watch", "--json", "--from", &generation, "--count", "3"]);
    let text = stdout(&changes);
    let keys: Vec<&str> = text.lines().filter_map(|line| line.split('"').nth(3)).collect();
    assert_eq!(keys, ["10.0.0.7", "group:3", "tenant:5/0/02:00:00:00:00:01"], "{changes:?}");

    assert_ok(&site.run(&["del", "10.0.0.7", "group:3", "10.0.0.99"]));
    assert_eq!(listed(&[]), ["tenant:5/0/02:00:00:00:00:01"]);

    // A text; a host reads it by a key and a certificate of its own, and may not write it.
    let text = "a text of some parts ".repeat(5_000);
    let file = site.file("text", &text);
    assert_eq!(site.json(&["publish", "notes", &file])["version"], 1);
    let [certificate, certificate_key] = ["host.pem", "host.key"].map(|name| site.dir().join(name).display().to_string());
    let key = stdout(&site.run(&["key", "--principal", "40", "--certificate", &certificate]));
    let key = site.file("principal-40", &key);
    let host = ["--principal", "40", "--key", &key, "--cert", &certificate, "--cert-key", &certificate_key];
    assert_eq!(stdout(&site.run(&[&["fetch", "notes"], &host[..]].concat())), text);
    assert_fails(&site.run(&[&["publish", "notes", &file], &host[..]].concat()), 2, &["does not let this principal publish"]);
}

#[test]
fn an_export_is_imported_and_an_import_is_repeated() {
    let mut site = Site::serving("mac");
    let lines: String = (0..100).map(|n| format!("{{\"key\":\"10.0.0.{n}\",\"locator\":\"10.0.1.{n}\"}}\n")).collect();
    let file = site.file("in.jsonl", &lines);
    let dry = site.json(&["import", &file, "--dry-run"]);
    assert_eq!((&dry["written"], &dry["generation"]), (&Value::from(100), &Value::from(0)));
    let first = site.json(&["import", &file]);
    assert_eq!(
        (&first["lines"], &first["written"], &first["unchanged"]),
        (&Value::from(100), &Value::from(100), &Value::from(0))
    );
    let second = site.json(&["import", &file]);
    assert_eq!((&second["written"], &second["unchanged"]), (&Value::from(0), &Value::from(100)));

    assert_ok(&site.run(&["export", "out.jsonl"]));
    let exported = std::fs::read_to_string(site.folder.path().join("out.jsonl")).expect("a file");
    assert_eq!(exported.lines().count(), 101);
    assert!(exported.starts_with("{\"weft_directory\":1,"));
    assert_eq!(stdout(&site.run(&["export"])), exported);

    // To go back to a backup.
    assert_ok(&site.run(&["put", "10.0.0.200", "10.0.1.1"]));
    assert_ok(&site.run(&["del", "10.0.0.5"]));
    let back = site.json(&["import", "out.jsonl", "--exact"]);
    assert_eq!((&back["written"], &back["deleted"]), (&Value::from(1), &Value::from(1)));

    assert_fails(&site.run(&["snapshot"]), 2, &["in use by another server"]);
    let (mut process, _) = site.server.take().expect("it runs");
    process.kill().expect("killed");
    process.wait().expect("it ends");
    let snapshot = stdout(&site.run(&["snapshot"]));
    let keys = |text: &str| -> Vec<String> {
        text.lines().skip(1).filter_map(|line| line.split('"').nth(3)).map(str::to_owned).collect()
    };
    assert_eq!(keys(&snapshot), keys(&exported), "all that was acknowledged is in the store");
}

#[test]
fn lines_that_cannot_be_imported_are_named_and_nothing_is_written() {
    let site = Site::serving("mac");
    let good = "{\"key\":\"10.0.0.1\",\"locator\":\"10.0.1.1\"}\n";
    for (text, said) in [
        (format!("{good}{{\"key\":\"10.0.0\",\"locator\":\"10.0.1.1\"}}\n"), "in.jsonl:2: `10.0.0` is not a key"),
        (format!("{good}\n{good}"), "in.jsonl:3: 10.0.0.1 stands on line 1 already"),
        (format!("{good}nonsense\n"), "in.jsonl:2: "),
        (format!("{{\"weft_directory\":1,\"revision\":9,\"entries\":2}}\n{good}"), "has 1 entries, and its first line says 2"),
        ("{\"weft_directory\":2,\"revision\":9,\"entries\":0}\n".to_owned(), "in.jsonl:1: form 2"),
    ] {
        let file = site.file("in.jsonl", &text);
        assert_fails(&site.run(&["import", &file]), 2, &[said]);
    }
    assert_eq!(stdout(&site.run(&["list", "--json"])), "");
    assert_fails(&site.run(&["import", "no-such-file"]), 2, &["cannot read no-such-file"]);
}

#[test]
fn bad_input_is_refused_with_a_remedy() {
    let site = Site::new();
    let dir = site.dir().display().to_string();
    assert_fails(&site.run(&["put", "10.0.0", "10.0.1.1"]), 2, &["`10.0.0` is not a key", "tenant:ID/SPACE/ADDRESS"]);
    assert_fails(&site.run(&["put", "10.0.0.7", "tor7"]), 2, &["`tor7` is not a locator", "edge:MAC/PORT"]);
    assert_fails(&site.run(&["put", "group:3", "10.9.0.1,x"]), 2, &["`x` is not an address"]);
    assert_fails(&site.run(&["put", "10.0.0.7", "10.0.1.1", "--service", "web"]), 2, &["no service `web`"]);
    assert_fails(&site.run(&["put", "10.0.0.7", "10.0.1.1", "--expect", "old"]), 2, &["`new`"]);
    assert_fails(&site.run(&["put", "10.0.0.7", "10.0.1.1", "--number", "3"]), 2, &["--known"]);
    assert_fails(&site.run(&["del", "10.0.0.7", "10.0.0.8", "10.0.0.7"]), 2, &["10.0.0.7 is named twice"]);
    assert_fails(&site.run(&["list", "--prefix", "10.0.0.0"]), 2, &["`10.0.0.0` is not a prefix"]);
    assert_fails(
        &site.run(&["get", "10.0.0.7", "--servers", "127.0.0.1:9", "--timeout", "100ms"]),
        2,
        &["no answer from 127.0.0.1:9", "is the server up"],
    );
    assert_fails(
        &site.run(&["get", "10.0.0.7", "--servers", "nowhere"]),
        2,
        &["`nowhere` is not a server's address", "host:port"],
    );
    assert_fails(&site.plain(&["get", "10.0.0.7"]), 2, &["no principal given", "weft directory init"]);
    assert_fails(&site.plain(&["serve", "--dir", "nowhere", "--auth", "mac"]), 2, &["nowhere/secret", "weft directory init"]);
    assert_fails(&site.run(&["serve", "--provisioner", "3"]), 2, &["--policy open"]);
    assert_fails(&site.run(&["serve", "--store", "redis:x"]), 2, &["embedded:DIR"]);
    assert_fails(&site.run(&["serve", "--store", "etcd:http://10.9.9.9:1"]), 2, &["without TLS", "--etcd-plaintext"]);
    assert_fails(&site.run(&["snapshot"]), 2, &["there is no store"]);
    assert_fails(&site.run(&["bench"]), 2, &["weft directory bench lookups"]);
    assert_fails(&site.run(&["bench", "lookups", "--rate", "nan"]), 2, &["greater than 0", "--rate 10000"]);
    assert_fails(&site.run(&["bench", "lookups", "--duration", "0s"]), 2, &["no length", "--duration 5s"]);
    assert_fails(
        &site.run(&["serve", "--listen", "127.0.0.1:0", "--metrics", "off", "--replica"]),
        2,
        &["is embedded", "--store etcd:URL"],
    );
    assert!(!site.dir().join("store").exists(), "no store was made");
    assert_fails(&site.run(&["serve", "--listen", "127.0.0.1:0", "--cores", "9999"]), 2, &["core 9999", "`nproc` counts them"]);
    let file = site.file("file", "no store");
    let store = format!("embedded:{file}");
    assert_fails(&site.run(&["serve", "--listen", "127.0.0.1:0", "--store", &store]), 2, &["cannot be used", "help: "]);

    std::fs::set_permissions(format!("{dir}/secret"), std::os::unix::fs::PermissionsExt::from_mode(0o644)).expect("a mode");
    assert_fails(&site.run(&["key", "--principal", "3"]), 2, &["can be read by others", "chmod 600"]);
    std::fs::write(format!("{dir}/secret"), "short").expect("written");
    std::fs::set_permissions(format!("{dir}/secret"), std::os::unix::fs::PermissionsExt::from_mode(0o600)).expect("a mode");
    assert_fails(&site.run(&["key", "--principal", "3"]), 2, &["64 hexadecimal digits"]);
    std::fs::remove_file(format!("{dir}/secret")).expect("removed");
    assert_fails(&site.run(&["key", "--principal", "3"]), 2, &["secret", "weft directory init"]);
    std::fs::write(format!("{dir}/client.toml"), "server = \"x\"").expect("written");
    assert_fails(&site.run(&["get", "10.0.0.7"]), 2, &["client.toml", "servers, principal, auth and listen"]);
}

#[test]
fn a_contradictory_policy_and_a_port_in_use_are_refused() {
    let site = Site::serving("mac");
    let (_, address) = site.server.as_ref().expect("it runs");
    let store = format!("embedded:{}", site.folder.path().join("other").display());
    let second = ["serve", "--auth", "mac", "--metrics", "off", "--listen", address, "--store", &store];
    assert_fails(&site.run(&second), 2, &["in use"]);
    let same_store = ["serve", "--auth", "mac", "--metrics", "off", "--listen", "127.0.0.1:0"];
    assert_fails(&site.run(&same_store), 2, &["in use by another server"]);
    let policy = "version = 1\n[[service]]\nname = \"web\"\nid = 1\nallow = [\"db\"]\ndeny = [\"db\"]\n";
    let policy = site.file("policy.toml", policy);
    let contradictory = [&second[..], &["--policy", &policy]].concat();
    assert_fails(&site.run(&contradictory), 2, &["policy.toml", "`web` both allows and denies `db`"]);
}

#[test]
fn a_key_of_another_cluster_gets_no_answer_and_a_host_may_not_write() {
    let site = Site::serving("mac");
    let wrong = site.file("wrong", &"ab".repeat(32));
    assert_fails(&site.run(&["get", "10.0.0.7", "--key", &wrong, "--timeout", "200ms"]), 2, &["no answer"]);
    let refused = site.run(&["put", "10.0.0.7", "10.0.1.1", "--principal", "17"]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(stdout(&refused).contains("refused"), "{refused:?}");
    let nothing: Vec<Value> = Vec::new();
    assert_eq!(site.json(&["get", "10.0.0.7"])["findings"].as_array().map_or(nothing.len(), Vec::len), 1);
}

#[test]
fn what_is_watched_comes_as_it_happens() {
    let mut site = Site::serving("mac");
    assert_ok(&site.run(&["put", "10.0.0.9", "10.0.1.1"]));
    assert_ok(&site.run(&["watch", "--from", "0", "--count", "1"]));
    if let Some((process, _)) = &mut site.server {
        process.kill().and_then(|()| process.wait()).expect("it ends");
    }
    site.start("mac");
    assert_eq!(site.run(&["watch", "--from", "0"]).status.code(), Some(1), "what was before the server's time is forgotten");
    let begin = site.json(&["status"])["servers"][0]["revision"].to_string();
    let mut command = Command::new(env!("CARGO_BIN_EXE_weft-directory"));
    command.args(["watch", "--json", "--from", &begin]).env("WEFT_DIRECTORY", site.dir()).stdout(Stdio::piped());
    let mut watching = command.spawn().expect("it starts");
    let mut lines = BufReader::new(watching.stdout.take().expect("piped")).lines();
    for (args, part) in
        [(["put", "10.0.0.7", "10.0.1.1"], "\"locator\":\"10.0.1.1\""), (["del", "10.0.0.7", "10.0.0.8"], "\"deleted\":true")]
    {
        assert_ok(&site.run(&args));
        let line = lines.next().expect("a line").expect("UTF-8");
        assert!(line.contains("\"key\":\"10.0.0.7\"") && line.contains(part), "{line}");
    }
    watching.kill().expect("killed");
    watching.wait().expect("it ends");
}

#[test]
fn what_cannot_be_written_is_not_half_there() {
    let site = Site::new();
    let limited = |words: &str| {
        // Files may have no bytes: a writer fails as on a full disk.
        let line = format!("trap '' XFSZ; ulimit -f 0; exec {} {words}", env!("CARGO_BIN_EXE_weft-directory"));
        let output = run(Command::new("sh").args(["-c", &line]).current_dir(site.folder.path()));
        assert_fails(&output, 2, &["cannot write", "help: "]);
    };
    let left = |folder: &Path| std::fs::read_dir(folder).expect("a folder").count();
    limited("init other");
    assert_eq!(left(&site.folder.path().join("other")), 0, "the next `init` finds nothing");
    limited("key --principal 5 --dir directory --certificate host.pem");
    limited("tenant create acme --id 17 --file tenants.toml");
    assert_eq!(left(site.folder.path()), 2);
    // Nor is one file of two.
    site.file("host.key", "another's");
    let dir = site.dir().display().to_string();
    let key = site.plain(&["key", "--principal", "5", "--dir", &dir, "--certificate", "host.pem"]);
    assert_fails(&key, 2, &["host.key exists already"]);
    assert!(!site.folder.path().join("host.pem").exists());
}

#[test]
fn a_closed_pipe_is_not_an_error() {
    let site = Site::serving("mac");
    assert_ok(&site.run(&["put", "10.0.0.7", "10.0.1.1"]));
    let mut command = Command::new(env!("CARGO_BIN_EXE_weft-directory"));
    let mut export = command.arg("export").env("WEFT_DIRECTORY", site.dir()).stdout(Stdio::piped()).spawn().expect("it starts");
    drop(export.stdout.take());
    assert!(export.wait().expect("it ends").success());
    let _ = std::io::stderr().flush();
    assert!(Path::new(&site.dir()).is_dir());
}

#[test]
fn an_export_replaces_regular_files_only_and_is_private() {
    use std::os::unix::fs::PermissionsExt;
    let site = Site::serving("mac");
    assert_ok(&site.run(&["put", "10.0.0.7", "10.0.1.1"]));
    let at = |name: &str| site.folder.path().join(name).display().to_string();
    assert_ok(&run(Command::new("mkfifo").arg(at("pipe"))));
    site.file("target", "old");
    std::os::unix::fs::symlink(at("target"), at("link")).expect("a link");
    for (command, name, kind) in [
        ("export", "pipe", "a pipe"),
        ("export", "link", "a symbolic link"),
        ("backup", "pipe", "a pipe"),
        ("export", "directory", "a folder"),
    ] {
        assert_fails(&site.run(&[command, name]), 2, &[kind, "not replaced"]);
    }
    assert_fails(&site.run(&["export", "/dev/null"]), 2, &["a device"]);
    assert_eq!(std::fs::read_to_string(at("target")).expect("a file"), "old");
    for command in ["export", "backup"] {
        assert_ok(&site.run(&[command, "target"]));
        assert_eq!(std::fs::metadata(at("target")).expect("a file").permissions().mode() & 0o777, 0o600, "{command}");
    }
}

#[test]
fn a_backup_brings_back_mappings_documents_and_the_policy() {
    let site = Site::serving("mac");
    assert_ok(&site.run(&["put", "10.0.0.7", "10.0.1.1", "--owner", "17"]));
    assert_ok(&site.run(&["put", "group:3", "10.9.0.1"]));
    assert_ok(&site.run(&["publish", "notes", &site.file("notes", "some notes")]));
    assert_fails(&site.run(&["backup", "all", "--document", "nothing"]), 2, &["no document `nothing`"]);
    let made = site.json(&["backup", "all", "--document", "notes"]);
    assert_eq!(
        (&made["entries"], &made["documents"][0], &made["policy"]),
        (&Value::from(2), &Value::from("notes"), &Value::Bool(true))
    );
    assert_ok(&site.run(&["del", "group:3"]));
    assert_ok(&site.run(&["put", "10.0.0.8", "10.0.1.1"]));
    assert_ok(&site.run(&["put", "10.0.0.7", "10.0.1.9"]));
    let dry = site.json(&["restore", "all", "--exact", "--dry-run"]);
    let counts = |it: &Value| ["written", "unchanged", "deleted"].map(|name| it["mappings"][name].as_u64().expect("a number"));
    assert_eq!((counts(&dry), dry["policy"].as_str()), ([2, 0, 1], Some("unchanged")));
    assert_eq!(counts(&site.json(&["restore", "all", "--exact"])), [2, 0, 1]);
    assert_eq!(counts(&site.json(&["restore", "all", "--exact"])), [0, 2, 0], "it is as it was");
    // A new cluster: its own authority, and nothing in it.
    let backup = site.folder.path().join("all").display().to_string();
    let new = Site::serving("mac");
    assert_fails(&new.run(&["restore", &backup]), 2, &["of another cluster", "--other-cluster"]);
    let policy = new.dir().join("policy.toml");
    let text = std::fs::read_to_string(&policy).expect("a policy").replace("version = 1", "version = 5 # later");
    std::fs::write(&policy, text).expect("written");
    let restored = new.json(&["restore", &backup, "--other-cluster"]);
    assert_eq!((counts(&restored), restored["policy"].as_str()), ([2, 0, 0], Some("kept")));
    assert_eq!(restored["documents"][0]["written"], true);
    assert_eq!(stdout(&new.run(&["fetch", "notes"])), "some notes");
    assert_eq!(new.json(&["restore", &backup, "--other-cluster", "--policy"])["policy"], "written");
    assert!(std::fs::read_to_string(&policy).expect("a policy").contains("version = 6\n"), "greater than both");
    // What is not whole, or not of this form, changes nothing.
    let text = std::fs::read_to_string(&backup).expect("a backup");
    for (text, said) in [
        (text.lines().take(3).map(|line| line.to_owned() + "\n").collect::<String>(), "has 0 entries, and its first line says 2"),
        (text.replace("{\"end\":true}\n", ""), "its first line says 2"),
        (text.replace("\"weft_backup\":1", "\"weft_backup\":2"), "broken:1: form 2 of a backup; this program reads form 1"),
        (text.replace("\"10.0.0.7\"", "\"10.0.0\""), "`10.0.0` is not a key"),
        (text.clone() + "{}\n", "something follows the end"),
        ("{\"weft_directory\":1,\"revision\":1,\"entries\":0}\n".to_owned(), "it is no backup"),
        (String::new(), "the file is empty"),
    ] {
        let file = new.file("broken", &text);
        assert_fails(&new.run(&["restore", &file, "--other-cluster"]), 2, &[said]);
    }
}
