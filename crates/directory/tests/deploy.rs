//! `weft deploy`: a plan is repeatable and keeps its keys; bad inventories change nothing; what differs is named. A planned directory of two parts, with a replica,
//! runs on two real etcds.

#![allow(clippy::disallowed_methods)] // Processes live by the wall clock.

mod support;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use support::daemon::{Daemon, Home, wait};
use support::etcd::{Etcd, free_ports};
use support::site::{Site, assert_code, assert_refused, text};

const EXAMPLE: &str = include_str!("../../../examples/inventory.toml");

fn planned() -> Site {
    let site = Site::new();
    assert_code(&site.plan(EXAMPLE, &[]), 0);
    site
}

/// The example, divided: `db1` has an address in the part `east`. `rest0` is a replica, and is listed first.
const DIVIDED: &str = r#"[directory]
etcd_user = "/etc/weft/etcd-user"

[[directory.part]]
name = "rest"
etcd = ["http://127.0.0.1:1", "http://127.0.0.1:2"]
default = true

[[directory.part]]
name = "east"
etcd = ["http://127.0.0.1:3"]
prefixes = ["20.128.0.0/9"]
tenants = [7, "100-199"]
incoming.prefixes = ["20.64.0.0/16"]

[[directory.server]]
name = "rest0"
address = "127.0.0.3"
principal = 3
part = "rest"
replica = true

[[directory.server]]
name = "east1"
address = "127.0.0.2"
principal = 4
part = "east"

[[directory.server]]
name = "rest1"
address = "127.0.0.1"
principal = 1
part = "rest"
"#;

fn divided() -> String {
    let (start, rest) = EXAMPLE.split_once("[[directory.server]]").unwrap();
    let (_, end) = rest.split_once("[[service]]").unwrap();
    format!("{start}{DIVIDED}\n[[service]]{}", end.replace("\"20.0.0.3\"", "\"20.0.0.3\", \"20.128.0.3\""))
}

#[test]
fn a_second_plan_writes_nothing_and_keys_are_private() {
    let site = planned();
    let before = site.snapshot();
    let output = site.plan(EXAMPLE, &["--json"]);
    assert_code(&output, 0);
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&answer["written"], &answer["removed"]), (&serde_json::json!([]), &serde_json::json!([])));
    assert_eq!(site.snapshot(), before, "neither contents nor times have changed");
    assert_eq!(site.out().metadata().unwrap().permissions().mode() & 0o777, 0o700);
    for (path, (content, mode, _)) in &before {
        let text = String::from_utf8_lossy(content);
        let has_key = text.contains("PRIVATE KEY") || text.contains("attach_key") || (text.len() == 65 && !text.contains(' '));
        assert_eq!(*mode, if has_key { 0o600 } else { 0o644 }, "{}", path.display());
    }
    assert_code(&site.check_folder(EXAMPLE), 0);
}

#[test]
fn the_same_inventory_gives_the_same_files_except_keys() {
    let (one, other) = (planned(), planned());
    let contents = |site: &Site| -> BTreeMap<PathBuf, Vec<u8>> {
        let relative = |path: &Path| path.strip_prefix(site.out()).unwrap().to_owned();
        site.snapshot().into_iter().map(|(path, it)| (relative(&path), it.0)).collect()
    };
    let (one, other) = (contents(&one), contents(&other));
    assert!(one.keys().eq(other.keys()));
    let differs: Vec<&str> =
        one.iter().filter(|(path, it)| other[*path] != **it).map(|(path, _)| path.to_str().unwrap()).collect();
    let is_key = |path: &str| {
        let end = path.rsplit('/').next().unwrap();
        end.ends_with(".key")
            || end.ends_with(".pem")
            || end == "secret"
            || end == "manifest.json"
            || path.starts_with("hosts/tor")
    };
    assert!(differs.len() > 10 && differs.iter().all(|it| is_key(it)), "{differs:?}");
}

#[test]
fn a_changed_inventory_changes_what_it_names_and_keeps_keys() {
    let site = planned();
    let before = site.snapshot();
    let at = EXAMPLE.rfind("[[host]]").unwrap();
    let without_db1 = EXAMPLE[..at].replace("version = 1 ", "version = 2 ");
    let check = site.check_folder(&without_db1);
    assert_code(&check, 1);
    assert!(text(&check).contains("hosts/db1/etc/weft/agent.key: stale: the inventory has it no longer"), "{}", text(&check));
    let output = site.plan(&without_db1, &["--json"]);
    assert_code(&output, 0);
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    let names =
        |key: &str| -> Vec<String> { answer[key].as_array().unwrap().iter().map(|it| it.as_str().unwrap().to_owned()).collect() };
    let written = [
        "directory/mappings.jsonl",
        "directory/policy.toml",
        "hosts/dir1/var/lib/weft-directory/policy.toml",
        "hosts/tor2/etc/weft/agent.toml",
        "inventory.yml",
    ];
    assert_eq!(names("written"), written);
    assert!(names("removed").iter().all(|it| it.starts_with("hosts/db1/") || it == "host_vars/db1.yml"), "{answer}");
    assert!(!site.out().join("hosts/db1").exists(), "no empty folder is left");
    for (path, it) in site.snapshot() {
        let name = path.strip_prefix(site.out()).unwrap().to_str().unwrap();
        if !written.contains(&name) && name != "manifest.json" {
            assert_eq!(before[&path], it, "{name}");
        }
    }
    assert_code(&site.check_folder(&without_db1), 0);
}

#[test]
fn a_server_with_another_address_gets_another_certificate_and_nobody_else_does() {
    let site = planned();
    let certificate = || fs::read(site.out().join("hosts/dir1/var/lib/weft-directory/server.pem")).unwrap();
    let admin = || fs::read(site.out().join("directory/admin.pem")).unwrap();
    let before = (certificate(), admin());
    let moved = EXAMPLE.replace("10.9.9.1", "10.9.9.2");
    assert_code(&site.plan(&moved, &[]), 0);
    assert!(certificate() != before.0 && admin() == before.1);
    // Without the authority's key, which is kept elsewhere, nothing is signed; what needs no certificate goes on.
    let key = site.out().join("directory/ca.key");
    fs::remove_file(&key).unwrap();
    assert_code(&site.check_folder(&moved), 0);
    assert_code(&site.plan(&moved, &[]), 0);
    let output = site.plan(EXAMPLE, &[]);
    assert_code(&output, 2);
    assert!(text(&output).contains("ca.key") && text(&output).contains("must sign"), "{}", text(&output));
}

#[test]
fn a_bad_inventory_is_refused_with_its_line_and_changes_nothing() {
    let site = planned();
    let before = site.snapshot();
    let mut wrong = String::new();
    for (from, to, line, what, help) in [
        ("cluster = \"example\"", "cluster = \"../x\"", 2, "no name of the cluster", "letters"),
        ("version = 1 ", "version = 0 ", 3, "begin at 1", "version = 1"),
        ("version = 1 ", "version = 1\nnonsense = 3 ", 4, "unknown field `nonsense`", "docs/deploying.md"),
        ("\"20.0.0.0/8\"]", "\"20.0.0.0/8\", \"30.0.0.0/8\"]", 6, "one prefix of IPv4", "a family"),
        ("locator = \"tor\"", "locator = \"rack\"", 7, "unknown variant `rack`", "docs/deploying.md"),
        ("[\"10.9.0.1\"]", "[\"20.9.0.1\"]", 8, "is an application address", "outside"),
        ("[\"10.9.0.1\"]", "[\"10.9.0.1\", \"10.9.0.2\"]", 8, "2 groups are more than 1", "ecmp_width"),
        ("principal = 1\n", "principal = 41\n", 28, "principal 41 of tor1 is that of directory server dir1 (line 13)", "its own"),
        ("allow = [\"web\"]", "allow = [\"wbe\"]", 23, "there is no service `wbe`", "name one of: web, db"),
        ("id = 2", "id = 1", 22, "id 1 of service `db` is that of service `web` (line 17)", "its own"),
        ("principal = 41\n", "", 26, "switch tor1 has no principal", "agent = false"),
        ("tor = \"tor1\"", "tor = \"mid\"", 48, "switch mid is no ToR", "role = \"tor\""),
        ("tor = \"tor1\"", "tor = \"tor9\"", 48, "there is no switch `tor9`", "add [[switch]]"),
        ("rack = \"r1\"", "rack = \"r9\"", 60, "there is no rack `r9`", "name one of: r1, r2"),
        ("rack = \"r1\"\n", "", 55, "host web1 has no rack", "locator = \"host\""),
        ("port = \"p1\"", "port = \"p0\"", 83, "p0 of tor2 of db1 is that of web2 (line 72)", "its own"),
        ("port = \"p1\"", "port = \"p9\"", 83, "tor2 has no port `p9`", "it has: p0, p1, u0"),
        ("\"20.0.0.3\"", "\"20.0.0.1\"", 85, "the address 20.0.0.1 of db1 is that of web1 (line 63)", "its own"),
        ("\"20.0.0.3\"", "\"30.0.0.3\"", 85, "in none of the prefixes", "[network]"),
        ("\"10.201.3.0/24\"", "\"10.201.2.0/25\"", 81, "overlaps that of web2 (line 70)", "its own"),
        ("la = \"10.1.3.2\"", "la = \"10.1.2.1\"", 80, "the address 10.1.2.1 of db1 is that of tor2 (line 36)", "its own"),
        ("service = \"db\"", "service = \"dbs\"", 84, "there is no service `dbs`", "name one of: web, db"),
        ("name = \"web2\"", "name = \"web1\"", 66, "the name web1 of web1 is that of web1 (line 55)", "its own"),
        ("name = \"db\"", "name = 'd\"b'", 21, "no name of a service", "letters"),
        (
            "[[directory.server]]",
            "[agent]\nmetrics = \"x\"\n[[directory.server]]",
            11,
            "is not address:port, and not `off`",
            "9304",
        ),
        ("[[directory.server]]", "[agent]\nfail_static = \"soon\"\n[[directory.server]]", 11, "soon", "unlimited"),
        ("principal = 101", "principal = \"x\"", 56, "invalid type", "docs/deploying.md"),
    ] {
        assert!(EXAMPLE.contains(from), "{from}");
        let output = site.plan(&EXAMPLE.replacen(from, to, 1), &[]);
        let printed = text(&output);
        assert_code(&output, 2);
        let place = format!("inventory.toml:{line}: ");
        if !(printed.contains(&place) && printed.contains(what) && printed.contains(help)) {
            wrong += &format!("{to}: {printed}");
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
    let output = site.plan(&EXAMPLE.replace("[[directory.server]]", "[directory]\nauth = \"tls\"\n[[directory.server]]"), &[]);
    assert!(output.status.code() == Some(2) && text(&output).contains("by keyed MACs"), "{}", text(&output));
    let second = "[[directory.server]]\nname = \"dir2\"\naddress = \"10.9.9.3\"\nprincipal = 9\n\n[[service]]";
    let output = site.plan(&EXAMPLE.replacen("[[service]]", second, 1), &[]);
    assert!(
        output.status.code() == Some(2) && text(&output).contains("several directory servers need etcd"),
        "{}",
        text(&output)
    );
    // Servers would refuse it as well.
    let output = site.plan(&EXAMPLE.replace("allow = [\"web\"]", "allow = []"), &[]);
    let printed = text(&output);
    assert!(
        output.status.code() == Some(2)
            && printed.contains("toml:3: services, principals or parts have changed")
            && printed.contains("version = 2"),
        "{printed}"
    );
    assert_eq!(site.snapshot(), before, "nothing is written");
}

#[test]
fn folders_of_others_are_not_touched() {
    // Of a user.
    let site = Site::new();
    fs::create_dir(site.out()).unwrap();
    fs::write(site.out().join("precious"), "").unwrap();
    let output = site.plan(EXAMPLE, &[]);
    assert!(output.status.code() == Some(2) && text(&output).contains("did not make it"), "{}", text(&output));
    let output = site.check(EXAMPLE, &["--dir", site.folder.path().join("none").to_str().unwrap()]);
    assert!(output.status.code() == Some(2) && text(&output).contains("weft deploy plan"), "{}", text(&output));
    // Of another cluster, by its name or by its keys.
    let (site, other) = (planned(), planned());
    let before = site.snapshot();
    let output = site.plan(&EXAMPLE.replace("\"example\"", "\"lyon\""), &[]);
    let printed = text(&output);
    assert!(
        output.status.code() == Some(2) && printed.contains("has the keys of cluster `example`; the inventory is of `lyon`"),
        "{printed}"
    );
    assert_eq!(site.snapshot(), before);
    for key in ["directory/secret", "directory/ca.pem", "directory/admin.pem", "hosts/dir1/var/lib/weft-directory/server.key"] {
        let own = fs::read(site.out().join(key)).unwrap();
        fs::write(site.out().join(key), fs::read(other.out().join(key)).unwrap()).unwrap();
        for output in [site.plan(EXAMPLE, &["--force"]), site.check_folder(EXAMPLE)] {
            let printed = text(&output);
            assert!(
                output.status.code() == Some(2) && printed.contains(key) && printed.contains("of another cluster"),
                "{printed}"
            );
        }
        fs::write(site.out().join(key), own).unwrap();
    }
    // Of a newer version.
    let manifest = site.out().join("manifest.json");
    let newer =
        fs::read_to_string(&manifest).unwrap().replace(concat!("\"weft\": \"", env!("CARGO_PKG_VERSION")), "\"weft\": \"99.0.0");
    fs::write(&manifest, newer).unwrap();
    for output in [site.plan(EXAMPLE, &[]), site.check_folder(EXAMPLE)] {
        assert!(
            output.status.code() == Some(2) && text(&output).contains("upgrade weft on this machine to 99.0.0"),
            "{}",
            text(&output)
        );
    }
}

#[test]
fn what_was_changed_by_hand_is_found_and_not_overwritten() {
    let site = planned();
    let at = |path: &str| site.out().join(path);
    fs::write(at("hosts/web1/etc/weft/agent.toml"), "role = \"host\"\n").unwrap();
    fs::remove_file(at("site.yml")).unwrap();
    fs::set_permissions(at("hosts/db1/etc/weft/agent.key"), fs::Permissions::from_mode(0o640)).unwrap();
    let changed = EXAMPLE.replace("10.201.2.0/24", "10.201.9.0/24");
    let output = site.check_folder(&changed);
    assert_code(&output, 1);
    let lines = text(&output);
    let expected = "hosts/db1/etc/weft/agent.key: mode 0640, not 0600\nhosts/web1/etc/weft/agent.toml: changed by hand\n\
                    hosts/web2/etc/weft/agent.toml: stale: the inventory has changed\nsite.yml: missing\n";
    assert_eq!(lines, expected);
    let output = site.plan(EXAMPLE, &[]);
    assert!(
        output.status.code() == Some(2)
            && text(&output).contains("changed by hand since the last plan: hosts/web1/etc/weft/agent.toml\n"),
        "{}",
        text(&output)
    );
    assert!(!at("site.yml").exists(), "nothing is written");
    assert_code(&site.plan(EXAMPLE, &["--force"]), 0);
    assert_code(&site.check_folder(EXAMPLE), 0);
}

#[test]
fn an_interrupted_update_is_found_and_completed() {
    let site = planned();
    let next = EXAMPLE.replace("10.201.2.0/24", "10.201.9.0/24");
    // Killed after some files were renamed: this one is of the next plan already, and the manifest is not.
    let config = site.out().join("hosts/web2/etc/weft/agent.toml");
    let renamed = fs::read_to_string(&config).unwrap().replace("10.201.2.0/24", "10.201.9.0/24");
    fs::write(&config, renamed).unwrap();
    fs::create_dir(site.out().join(".staging")).unwrap();
    fs::write(site.out().join(".staging/manifest.json"), "{").unwrap();
    let output = site.check_folder(&next);
    assert!(output.status.code() == Some(1) && text(&output).contains("was interrupted: plan again"), "{}", text(&output));
    assert_code(&site.plan(&next, &[]), 0);
    assert!(!site.out().join(".staging").exists());
    assert_code(&site.check_folder(&next), 0);
}

#[test]
fn a_folder_that_cannot_be_written_is_left_as_it_was() {
    let site = planned();
    let before = site.snapshot();
    // A file where a folder must be: what fails is the first of all steps that write.
    fs::write(site.out().join(".staging"), "").unwrap();
    let output = site.plan(&EXAMPLE.replace("10.201.2.0/24", "10.201.9.0/24"), &[]);
    assert_code(&output, 2);
    fs::remove_file(site.out().join(".staging")).unwrap();
    assert_eq!(site.snapshot(), before);
}

#[test]
fn an_installed_machine_is_compared_with_and_without_keys() {
    let (site, other) = (planned(), planned());
    let root = site.folder.path().join("root");
    assert!(Command::new("cp").arg("-a").arg(site.out().join("hosts/tor2")).arg(&root).status().unwrap().success());
    let (root_text, dir) = (root.to_str().unwrap(), site.out());
    let without = ["--host", "tor2", "--root", root_text];
    let with = [&without[..], &["--dir", dir.to_str().unwrap()]].concat();
    let other_dir = other.out();
    let with_other = [&without[..], &["--dir", other_dir.to_str().unwrap()]].concat();
    assert_code(&site.check(EXAMPLE, &without), 0);
    assert_code(&site.check(EXAMPLE, &with), 0);
    let output = site.check(EXAMPLE, &with_other);
    assert_code(&output, 1);
    assert!(text(&output).contains("/etc/weft/agent.key: of another cluster or machine"), "{}", text(&output));
    assert!(text(&output).contains("/etc/weft/agent.toml: an attach key differs"), "{}", text(&output));
    let config = root.join("etc/weft/agent.toml");
    fs::write(&config, fs::read_to_string(&config).unwrap().replace("\"u0\"]", "\"u1\"]")).unwrap();
    fs::remove_file(root.join("etc/weft/agent.key")).unwrap();
    fs::write(root.join("etc/weft/directory.env"), "").unwrap();
    let output = site.check(EXAMPLE, &without);
    assert_code(&output, 1);
    let expected = "/etc/weft/agent.key: missing\n\
                    /etc/weft/agent.toml: line 10 is `ports = [\"p0\", \"p1\", \"u1\"]`, not `ports = [\"p0\", \"p1\", \"u0\"]`\n\
                    /etc/weft/directory.env: installed, and not in the inventory\n";
    assert_eq!(text(&output), expected);
    let output = site.check(EXAMPLE, &["--host", "tor9"]);
    assert!(output.status.code() == Some(2) && text(&output).contains("it has: db1, dir1, mid"), "{}", text(&output));
}

#[test]
fn several_servers_are_started_on_etcd_and_know_each_other() {
    let site = Site::new();
    let servers = "[directory]\netcd = [\"http://127.0.0.1:1\", \"http://127.0.0.1:2\"]\nauth = \"mac\"\n\n[[directory.server]]\nname = \"dir2\"\naddress = \"127.0.0.1\"\nprincipal = 9\n\n[[directory.server]]";
    assert_code(&site.plan(&EXAMPLE.replacen("[[directory.server]]", servers, 1), &[]), 0);
    let environment = fs::read_to_string(site.out().join("hosts/dir2/etc/weft/directory.env")).unwrap();
    let value = |key: &str| environment.lines().find_map(|line| line.strip_prefix(key)).unwrap();
    assert_eq!(value("LISTEN="), "127.0.0.1:5303");
    let arguments = "--principal 9 --auth mac --metrics 127.0.0.1:9303 --peer 10.9.9.1:5303 --store etcd:http://127.0.0.1:1,http://127.0.0.1:2";
    assert_eq!(value("ARGUMENTS="), arguments);
    // On other machines over TLS, unless the operator says otherwise.
    let planned = |keys: &str| {
        let far =
            servers.replace("\"http://127.0.0.1:1\", \"http://127.0.0.1:2\"]", &format!("\"https://10.1.2.1:2379\"]\n{keys}"));
        let there = Site::new();
        let output = there.plan(&EXAMPLE.replacen("[[directory.server]]", &far, 1), &[]);
        let environment = fs::read_to_string(there.out().join("hosts/dir2/etc/weft/directory.env")).unwrap_or_default();
        (output.status.code(), text(&output) + &environment)
    };
    let (code, environment) = planned("etcd_ca = \"/etc/weft/etcd-ca.pem\"");
    assert_eq!(code, Some(0), "{environment}");
    assert!(environment.contains(" --store etcd:https://10.1.2.1:2379 --etcd-ca /etc/weft/etcd-ca.pem\n"), "{environment}");
    assert!(planned("etcd_ca = \"etcd ca.pem\"").1.contains("no place on a server"));
    assert!(planned("etcd_cert = \"/c.pem\"").1.contains("belong together"));
    let open = servers.replace("127.0.0.1:1", "10.1.2.1:1");
    let refused = Site::new().plan(&EXAMPLE.replacen("[[directory.server]]", &open, 1), &[]);
    assert!(refused.status.code() == Some(2) && text(&refused).contains("without TLS"), "{}", text(&refused));
    let allowed = open.replace("auth =", "etcd_plaintext = true\nauth =");
    assert_code(&Site::new().plan(&EXAMPLE.replacen("[[directory.server]]", &allowed, 1), &[]), 0);
    // The server takes them, and ends for want of etcd alone.
    let mut server = Command::new(env!("CARGO_BIN_EXE_weft-directory"));
    server
        .args(["serve", "--store-timeout", "100ms", "--listen", "127.0.0.1:0", "--dir"])
        .arg(site.out().join("hosts/dir2/var/lib/weft-directory"));
    let output = server.args(value("ARGUMENTS=").split(' ').map(|it| it.replace(":9303", ":0"))).output().unwrap();
    let printed = text(&output);
    assert!(output.status.code() == Some(2) && printed.contains("store") && !printed.contains("Usage"), "{printed}");
    let client = fs::read_to_string(site.out().join("directory/client.toml")).unwrap();
    assert!(client.contains("servers = [\"127.0.0.1:5303\", \"10.9.9.1:5303\"]"), "{client}");
}

#[test]
fn parts_and_replicas_are_planned_and_compared() {
    let (site, inventory) = (Site::new(), divided());
    assert_code(&site.plan(&inventory, &[]), 0);
    let read = |path: &str| fs::read_to_string(site.out().join(path)).unwrap();
    let started = |name: &str| read(&format!("hosts/{name}/etc/weft/directory.env")).split_once("LISTEN=").unwrap().1.to_owned();
    let usual = "--auth mac --metrics 127.0.0.1:9303";
    let (rest, east) = ("etcd:http://127.0.0.1:1,http://127.0.0.1:2", "etcd:http://127.0.0.1:3");
    let user = "--etcd-user /etc/weft/etcd-user";
    let expected = |address: &str, principal: u32, role: &str, store: &str| {
        format!("{address}:5303\nARGUMENTS=--principal {principal} {usual} {role} --store {store} {user}\n")
    };
    assert_eq!(started("rest0"), expected("127.0.0.3", 3, "--part rest --replica --peer 127.0.0.1:5303", rest));
    assert_eq!(started("rest1"), expected("127.0.0.1", 1, "--part rest --peer 127.0.0.3:5303", rest));
    assert_eq!(started("east1"), expected("127.0.0.2", 4, "--part east", east));
    let policy = read("directory/policy.toml");
    let parts = "version = 1\n\n[[part]]\nname = \"rest\"\nservers = [\"127.0.0.1:5303\", \"127.0.0.3:5303\"]\ndefault = true\n\n\
                 [[part]]\nname = \"east\"\nservers = [\"127.0.0.2:5303\"]\nprefixes = [\"20.128.0.0/9\"]\ntenants = [\"7\", \"100-199\"]\n\
                 incoming.prefixes = [\"20.64.0.0/16\"]\n\n[[service]]\n";
    assert!(policy.contains(parts), "{policy}");
    for server in ["rest0", "rest1", "east1"] {
        assert_eq!(read(&format!("hosts/{server}/var/lib/weft-directory/policy.toml")), policy);
    }
    // Clients and agents begin with the default part, and with the servers that take updates.
    let contacts = "[\"127.0.0.1:5303\", \"127.0.0.3:5303\"]\n";
    assert!(read("directory/client.toml").contains(&format!("servers = {contacts}")));
    assert!(read("hosts/tor1/etc/weft/agent.toml").contains(&format!("directory = {contacts}")));
    assert!(read("directory/mappings.jsonl").contains(r#"{"key":"group:65535","addresses":["127.0.0.1","127.0.0.3"]}"#));
    assert_eq!(servers_of_role(&site), ["east1", "rest1", "rest0"], "replicas start last");

    assert_code(&site.check_folder(&inventory), 0);
    let root = site.folder.path().join("root");
    assert!(Command::new("cp").arg("-a").arg(site.out().join("hosts/rest0")).arg(&root).status().unwrap().success());
    let on_machine = |inventory: &str| site.check(inventory, &["--host", "rest0", "--root", root.to_str().unwrap()]);
    assert_code(&on_machine(&inventory), 0);
    let no_replica = inventory.replace("replica = true\n", "");
    let output = on_machine(&no_replica);
    assert!(output.status.code() == Some(1) && text(&output).contains("directory.env: line 3 is"), "{}", text(&output));
    let moved = inventory.replace("20.128.0.0/9", "20.192.0.0/10");
    let output = on_machine(&moved);
    assert!(output.status.code() == Some(1) && text(&output).contains("20.192.0.0/10"), "{}", text(&output));
    let output = site.check_folder(&moved);
    assert!(output.status.code() == Some(1) && text(&output).contains("directory/policy.toml: stale"), "{}", text(&output));
    let output = site.plan(&moved, &[]);
    assert!(output.status.code() == Some(2) && text(&output).contains("principals or parts have changed"), "{}", text(&output));
}

/// The servers in the order in which Ansible brings them up.
fn servers_of_role(site: &Site) -> Vec<String> {
    let groups = fs::read_to_string(site.out().join("inventory.yml")).unwrap();
    let servers = groups.split("weft_servers:").nth(1).unwrap().split("weft_switches:").next().unwrap().to_owned();
    servers.lines().filter_map(|line| Some(line.trim().strip_prefix('"')?.split_once('"')?.0.to_owned())).collect()
}

#[test]
fn servers_without_their_part_or_store_are_refused() {
    let cases = [
        ("part = \"east\"", "part = \"rest\"", 19, "part `east` has no servers", "add [[directory.server]]"),
        ("part = \"east\"", "part = \"est\"", 36, "there is no part `est`", "name one of: rest, east"),
        ("part = \"east\"", "", 33, "directory server east1 has no part", "one of: rest, east"),
        ("principal = 1\n", "principal = 1\nreplica = true\n", 26, "part `rest` has only replicas", "set up no store"),
        (
            "etcd = [\"http://127.0.0.1:1\", \"http://127.0.0.1:2\"]",
            "",
            26,
            "replica rest0 follows etcd",
            "its [[directory.part]]",
        ),
        ("replica = true", "replica = \"yes\"", 30, "invalid type", "docs/deploying.md"),
        (
            "[\"http://127.0.0.1:3\"]",
            "[\"http://127.0.0.1:2/\"]",
            20,
            "the endpoint http://127.0.0.1:2 of part `east` is that of part `rest` (line 15) too",
            "its own",
        ),
        ("[\"http://127.0.0.1:3\"]", "[\"http://10.0.0.1:3\"]", 20, "without TLS", "etcd_plaintext"),
        ("[\"http://127.0.0.1:3\"]", "[\"10.0.0.1:3\"]", 20, "is no endpoint", "https://"),
        (
            "[directory]",
            "[directory]\netcd = [\"https://10.0.0.1:2379\"]",
            11,
            "the directory is divided",
            "in each [[directory.part]]",
        ),
    ];
    assert_refused(&Site::new(), &divided(), &cases);
    let replica =
        "principal = 1\n\n[[directory.server]]\nname = \"dir2\"\naddress = \"10.9.9.2\"\nprincipal = 9\nreplica = true\n";
    let undivided = [
        ("principal = 1\n", "principal = 1\npart = \"rest\"\n", 14, "there is no part `rest`", "the directory is not divided"),
        ("principal = 1\n", "principal = 1\nreplica = true\n", 11, "the directory has only replicas", "set up no store"),
        ("principal = 1\n", replica, 16, "replica dir2 follows etcd, and the directory has the embedded store", "in [directory]"),
    ];
    assert_refused(&Site::new(), EXAMPLE, &undivided);
}

#[test]
fn parts_whose_keys_are_no_division_are_refused() {
    let cases = [
        ("default = true", "prefixes = [\"20.0.0.0/9\"]", 14, "0 parts have `default = true`", "exactly one must"),
        ("tenants = [7", "default = true\ntenants = [7", 19, "2 parts have `default = true`", "exactly one must"),
        ("prefixes = [\"20.128.0.0/9\"]\ntenants = [7, \"100-199\"]", "", 19, "part `east` has no keys", "give it `prefixes`"),
        (
            "default = true",
            "default = true\nprefixes = [\"20.128.0.0/9\"]",
            22,
            "the prefix 20.128.0.0/9 of part `east` is that of part `rest` (line 17) too",
            "its own",
        ),
        ("default = true", "default = true\ntenants = [\"150-160\"]", 23, "tenant 150 is listed twice", "a tenant has one part"),
        ("\"100-199\"", "\"199-100\"", 22, "`199-100` is neither a tenant nor a range of tenants", "write 7"),
        ("\"20.64.0.0/16\"", "\"30.64.0.0/16\"", 23, "30.64.0.0/16 has no application addresses", "[network]"),
        (
            "name = \"east\"",
            "name = \"rest\"",
            19,
            "the name rest of part `rest` is that of part `rest` (line 14) too",
            "its own",
        ),
        ("name = \"east\"", "name = \"-\"", 19, "no name of a part", "letters"),
        ("etcd_user = \"/etc", "etcd_user = \"etc", 11, "no place on a server", "from the root"),
    ];
    assert_refused(&Site::new(), &divided(), &cases);
}

#[test]
fn limits_and_placement_are_those_of_all_hosts_and_of_one() {
    let all = "[agent]\nlimits = { peers = 1000, held_bytes = \"1MB\" }\nplacement = { scheduler = [\"10.9.9.7:5305\"], elephant = \"1MB\" }\n";
    let inventory = EXAMPLE.replacen("[[directory.server]]", &format!("{all}\n[[directory.server]]"), 1).replacen(
        "port = \"p1\"",
        "port = \"p1\"\nlimits = { peers = 2000, flows = 9 }",
        1,
    );
    let site = Site::new();
    assert_code(&site.plan(&inventory, &[]), 0);
    let config = |host: &str| fs::read_to_string(site.out().join(format!("hosts/{host}/etc/weft/agent.toml"))).unwrap();
    let placement = "\n[placement]\nscheduler = [\"10.9.9.7:5305\"]\nelephant = \"1MB\"\n";
    assert!(
        config("web1").contains(&format!("\n[limits]\nheld_bytes = \"1MB\"\npeers = 1000\n{placement}")),
        "{}",
        config("web1")
    );
    assert!(config("db1").contains("\n[limits]\nflows = 9\nheld_bytes = \"1MB\"\npeers = 2000\n"), "{}", config("db1"));
    let cases = [
        ("peers = 1000", "peers = 0", 11, "`peers`: 0 is not 1 to", "leave it out"),
        ("peers = 1000", "pears = 1", 11, "there is no limit `pears`", "one of: broadcast_rate"),
        ("held_bytes = \"1MB\"", "held_bytes = 4000", 11, "4000 has no unit", "4MB"),
        ("held_bytes = \"1MB\"", "held_bytes = \"0B\"", 11, "0 bytes hold nothing", "leave it out"),
        ("held_bytes = \"1MB\"", "held_time = \"0s\"", 11, "no time", "leave it out"),
        ("peers = 2000", "agent_rate = 9", 88, "there is no limit `agent_rate`", "one of: broadcast_rate"),
        ("[\"10.9.9.7:5305\"]", "[]", 12, "not one to 4 schedulers", "5305"),
        ("[\"10.9.9.7:5305\"]", "[\"10.9.9.7\"]", 12, "no address and port", "docs/deploying.md"),
        ("elephant = \"1MB\"", "elephant = \"0B\"", 12, "`elephant`: 0 bytes", "leave it out"),
        ("anycast = [\"10.9.0.1\"]", "", 12, "no intermediate switches to choose", "`anycast` in [network]"),
    ];
    assert_refused(&Site::new(), &inventory.replace("role = \"intermediate\"", "role = \"other\""), &cases);
}

/// Starts a server as its unit does, with the files of the plan.
fn start_planned(home: &Home, site: &Site, name: &str) -> Daemon {
    let machine = site.out().join("hosts").join(name);
    let environment = fs::read_to_string(machine.join("etc/weft/directory.env")).unwrap();
    let value = |key: &str| environment.lines().find_map(|line| line.strip_prefix(key)).unwrap();
    let state = |file: &str| machine.join("var/lib/weft-directory").join(file).to_str().unwrap().to_owned();
    let files = ["--secret", &state("secret"), "--policy", &state("policy.toml"), "--dir", &state("")].map(str::to_owned);
    let mut arguments: Vec<&str> = value("ARGUMENTS=").split(' ').collect();
    arguments.extend(["--listen", value("LISTEN=")]);
    arguments.extend(files.iter().map(String::as_str));
    home.start(&arguments)
}

/// Each part with its etcd, and the replica, in the order of the Ansible role.
#[test]
fn planned_parts_and_a_replica_answer_planned_clients() {
    let Some(etcds) = Etcd::start(1).zip(Etcd::start(1)) else { return };
    let (home, site) = (Home::new(), Site::new());
    let port = free_ports(1)[0];
    let [rest, east] = [&etcds.0, &etcds.1].map(|etcd| format!("{:?}", etcd.urls()));
    let inventory = divided()
        .replace("etcd_user = \"/etc/weft/etcd-user\"", &format!("metrics = \"off\"\nport = {port}"))
        .replace("[\"http://127.0.0.1:1\", \"http://127.0.0.1:2\"]", &rest)
        .replace("[\"http://127.0.0.1:3\"]", &east);
    assert_code(&site.plan(&inventory, &[]), 0);
    let names = servers_of_role(&site);
    let mut servers: BTreeMap<&str, Daemon> =
        names.iter().map(|name| (name.as_str(), start_planned(&home, &site, name))).collect();

    let run = |arguments: &[&str]| administer(&site, arguments);
    let mappings = site.out().join("directory/mappings.jsonl");
    assert!(run(&["import", mappings.to_str().unwrap()]).starts_with("6 entries: 6 written"));
    assert!(run(&["get", "20.0.0.1"]).contains("10.1.1.1") && run(&["get", "20.128.0.3"]).contains("10.1.2.1"));
    assert!(run(&["list", "--json", "--part", "east"]).contains("20.128.0.3"), "its store has the mapping");
    assert_eq!(run(&["list", "--json", "--part", "rest"]).lines().count(), 5);
    assert_code(&site.check(&inventory, &["--dir", site.out().to_str().unwrap(), "--mappings"]), 0);
    let status: Value = serde_json::from_str(&run(&["status", "--json"])).unwrap();
    let is_replica: BTreeMap<String, Option<bool>> = status["servers"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| {
            (it["server"].as_str().unwrap_or_default().to_owned() + " " + it["part"].as_str().unwrap(), it["replica"].as_bool())
        })
        .collect();
    let expected = [("127.0.0.1", "rest", false), ("127.0.0.2", "east", false), ("127.0.0.3", "rest", true)];
    let expected = expected.map(|(address, part, is_replica)| (format!("{address}:{port} {part}"), Some(is_replica)));
    assert_eq!(is_replica, BTreeMap::from(expected), "{status}");

    // What the configuration of an agent has: its servers, principal and key. Its address is in the other part.
    let config: toml::Table = fs::read_to_string(site.out().join("hosts/web1/etc/weft/agent.toml")).unwrap().parse().unwrap();
    let contacts: Vec<&str> = config["directory"].as_array().unwrap().iter().map(|it| it.as_str().unwrap()).collect();
    let (contacts, principal) = (contacts.join(","), config["principal"].as_integer().unwrap().to_string());
    let key = site.out().join("hosts/web1/etc/weft/agent.key");
    let agent = ["--servers", &contacts, "--principal", &principal, "--key", key.to_str().unwrap(), "--as", "20.0.0.1"];
    let found = || run(&[&["get", "20.0.0.2", "20.128.0.3"][..], &agent].concat());
    assert_eq!(found().matches("10.1.2.1").count(), 2, "{}", found());

    // The replica alone answers for its part.
    servers.remove("rest1");
    wait("the replica answers", || found().matches("10.1.2.1").count() == 2, || servers["rest0"].log());
    assert!(servers["rest0"].put("20.0.0.9".parse().unwrap(), support::model::value_of(1)).is_none(), "it takes no updates");
}

/// The administrator's client.
fn administer(site: &Site, arguments: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weft-directory"));
    command.args(arguments).arg("--dir").arg(site.out().join("directory")).env_remove("WEFT_LOG");
    let output = command.output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", text(&output));
    text(&output)
}

/// Each machine has its own user of etcd in the same file; that of the replica may only read.
#[test]
fn a_planned_replica_needs_permission_to_read_alone() {
    let Some(etcd) = Etcd::start(1) else { return };
    etcd.enable_auth();
    let (home, site) = (Home::new(), Site::new());
    let user = home.write("etcd-user", "root:secret\n");
    let directory = format!(
        "[directory]\nmetrics = \"off\"\nport = {}\netcd = {:?}\netcd_user = \"{user}\"\n",
        free_ports(1)[0],
        etcd.urls()
    );
    let replica =
        "[[directory.server]]\nname = \"near\"\naddress = \"127.0.0.2\"\nprincipal = 9\nreplica = true\n\n[[directory.server]]";
    let inventory =
        EXAMPLE.replacen("[[directory.server]]", &format!("{directory}\n{replica}"), 1).replace("10.9.9.1", "127.0.0.1");
    assert_code(&site.plan(&inventory, &[]), 0);
    assert_eq!(servers_of_role(&site), ["dir1", "near"]);
    let server = start_planned(&home, &site, "dir1");
    home.write("etcd-user", "reader:guest\n");
    let replica = start_planned(&home, &site, "near");
    let mappings = site.out().join("directory/mappings.jsonl");
    administer(&site, &["import", mappings.to_str().unwrap()]);
    let found = || administer(&site, &["list", "--json", "--servers", &replica.address()]).contains("20.0.0.3");
    wait("the replica has the mappings", found, || replica.log());
    let status = administer(&site, &["status"]);
    assert!(status.contains("serving, replica") && !server.log().contains("ERROR"), "{status}{}", server.log());
    assert!(!["WARN", "ERROR", "denied"].iter().any(|it| replica.log().contains(it)), "{}", replica.log());
}

/// As `docs/deploying.md` says: the new part's servers, a copy, the old servers, a copy of what has changed.
#[test]
fn a_planned_directory_is_divided_while_it_runs() {
    let Some((old, new)) = Etcd::start(1).zip(Etcd::start(1)) else { return };
    let (home, site) = (Home::new(), Site::new());
    let own = format!("metrics = \"off\"\nport = {}", free_ports(1)[0]);
    let server = |name: &str, address: &str, more: &str| {
        let principal = address.rsplit('.').next().unwrap();
        format!("[[directory.server]]\nname = \"{name}\"\naddress = \"{address}\"\nprincipal = {principal}\n{more}\n")
    };
    let (start, rest) = EXAMPLE.split_once("[[directory.server]]").unwrap();
    let end = rest.split_once("[[service]]").unwrap().1.replace("\"20.0.0.3\"", "\"20.0.0.3\", \"20.128.0.3\"");
    let undivided = format!("[directory]\n{own}\netcd = {:?}\n{}", old.urls(), server("rest1", "127.0.0.1", ""));
    assert_code(&site.plan(&format!("{start}{undivided}[[service]]{end}"), &[]), 0);
    let before = start_planned(&home, &site, "rest1");
    let mappings = site.out().join("directory/mappings.jsonl");
    administer(&site, &["import", mappings.to_str().unwrap()]);

    let part = |name: &str, etcd: &Etcd, keys: &str| {
        format!("[[directory.part]]\nname = \"{name}\"\netcd = {:?}\n{keys}\n", etcd.urls())
    };
    let parts = part("rest", &old, "default = true") + &part("east", &new, "prefixes = [\"20.128.0.0/9\"]");
    let servers = server("rest1", "127.0.0.1", "part = \"rest\"") + &server("east1", "127.0.0.4", "part = \"east\"");
    let start = start.replace("version = 1 ", "version = 2 ");
    assert_code(&site.plan(&format!("{start}[directory]\n{own}\n{parts}{servers}[[service]]{end}"), &[]), 0);
    let east = start_planned(&home, &site, "east1");
    let file = home.path().join("moved.jsonl");
    let file = file.to_str().unwrap();
    administer(&site, &["export", file, "--prefix", "20.128.0.0/9"]);
    let copied = administer(&site, &["import", file, "--part", "east", "--servers", &east.address()]);
    assert!(copied.contains("1 written"), "{copied}");
    administer(&site, &["put", "20.128.0.4", "10.1.2.1", "--unchecked"]);
    drop(before);
    let _rest = start_planned(&home, &site, "rest1");
    administer(&site, &["export", file, "--part", "rest", "--prefix", "20.128.0.0/9"]);
    let copied = administer(&site, &["import", file, "--part", "east"]);
    assert!(copied.contains("1 written"), "{copied}");
    for key in ["20.0.0.3", "20.128.0.3", "20.128.0.4"] {
        assert!(administer(&site, &["get", key]).contains("10.1.2.1"), "{key}");
    }
}
