//! Keys that change or are denied, certificates that are replaced, and the record of who changed what.

#![allow(clippy::disallowed_methods)] // Processes live by the wall clock.

mod support;

use std::io::{BufRead, BufReader};
use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value as Json;
use support::daemon::{Daemon, Home, wait};
use support::etcd::Etcd;
use support::model::{key, value_of};
use support::shared::{WRITER, client_of, secret};
use weft_control::directory::PrincipalId;
use weft_control::directory::denied::DOCUMENT;
use weft_control::wire::directory::{Kind, Op, PublishOutcome};
use weft_directory::client::Session;

const HOST: PrincipalId = PrincipalId(17);
const ADMIN: PrincipalId = PrincipalId(8);
const POLICY: &str = "version = 1\n[[principal]]\nid = 7\nrole = \"provisioner\"\n[[principal]]\nid = 8\nrole = \"admin\"\n";

/// A host that asks how the server is, and is answered or not.
struct Asking {
    socket: UdpSocket,
    session: Session,
}

impl Asking {
    fn new(daemon: &Daemon) -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.connect(daemon.address()).unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
        Self { socket, session: Session::new(HOST, Some(&secret().key_of(HOST))) }
    }

    fn is_answered(&mut self) -> bool {
        let mut out = Vec::new();
        self.session.seal(Kind::Health, |_| {}, &mut out);
        self.socket.send(&out).unwrap();
        let mut buffer = [0; 2048];
        let Ok(length) = self.socket.recv(&mut buffer) else { return false };
        self.session.open(&buffer[..length]).is_some()
    }
}

fn publish(daemon: &Daemon, by: PrincipalId, version: u32, list: &str) -> PublishOutcome {
    daemon.client(by).publish(DOCUMENT, version - 1, version, list.as_bytes()).unwrap().0.outcome
}

#[test]
fn a_denied_principal_is_answered_by_no_server_a_second_later() {
    let Some(etcd) = Etcd::start(1) else { return };
    let home = Home::new();
    let (store, policy) = (format!("etcd:{}", etcd.urls().join(",")), home.write("policy.toml", POLICY));
    let start = |principal: &str| home.start(&["--store", &store, "--principal", principal, "--policy", &policy]);
    let daemons = [start("100"), start("101")];
    let mut hosts = daemons.each_ref().map(Asking::new);
    assert!(hosts.iter_mut().all(|host| host.is_answered() && host.is_answered()));

    assert_eq!(publish(&daemons[0], WRITER, 1, "17\n"), PublishOutcome::Refused, "administrators only");
    assert_eq!(publish(&daemons[0], ADMIN, 1, "17 # stolen\n"), PublishOutcome::Committed);
    let begun = Instant::now();
    for host in &mut hosts {
        while host.is_answered() {
            assert!(begun.elapsed() < Duration::from_secs(1), "answered {:?} later", begun.elapsed());
            std::thread::sleep(Duration::from_millis(10));
        }
    }
    eprintln!("denied by both servers {:?} after it was committed", begun.elapsed());
    assert!(client_of(HOST, &[daemons[1].address()], Duration::from_millis(300)).document("any", 0).is_err(), "streams too");
    assert!(daemons[1].scrape().of("dropped_total{reason=\"denied\"}") > 0.0);

    // A server that starts later answers him at no time; a list that is none changes nothing.
    let third = start("102");
    assert!(!Asking::new(&third).is_answered());
    assert_eq!(publish(&third, ADMIN, 2, "seventeen\n"), PublishOutcome::Committed);
    daemons[0].wait_log("the one before stays in force");
    assert!(!hosts[0].is_answered());
    assert_eq!(publish(&third, ADMIN, 3, "18\n"), PublishOutcome::Committed);
    for (host, daemon) in hosts.iter_mut().zip(&daemons) {
        let host = std::cell::RefCell::new(host);
        wait("he is answered again", || host.borrow_mut().is_answered(), || daemon.log());
    }
}

#[test]
fn the_audit_log_has_who_changed_what() {
    let home = Home::new();
    let (policy, log) = (home.write("policy.toml", POLICY), home.path().join("audit.jsonl"));
    let daemon = home.start(&["--policy", &policy, "--audit", log.to_str().unwrap()]);
    assert!(daemon.put(key(1), value_of(1)).is_some());
    let delete = Op { key: key(1), expect: None, value: None };
    daemon.client(WRITER).update(vec![delete.clone()], None).unwrap();
    daemon.client(HOST).update(vec![delete], None).unwrap();
    // The file is rotated: what follows goes to a new one.
    let rotated = home.path().join("audit.1");
    let lines = |file: &Path| -> Vec<Json> {
        let text = std::fs::read_to_string(file).unwrap_or_default();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    wait("three lines", || lines(&log).len() == 3, || daemon.log());
    std::fs::rename(&log, &rotated).unwrap();
    assert_eq!(publish(&daemon, ADMIN, 1, "17\n"), PublishOutcome::Committed);
    wait("two lines", || lines(&log).len() == 2, || daemon.log());

    let all: Vec<Json> = [lines(&rotated), lines(&log)].concat();
    let of = |field: &str| all.iter().map(|line| line[field].to_string()).collect::<Vec<_>>();
    assert_eq!(of("principal"), ["7", "7", "17", "8", "100"]);
    assert_eq!(of("operation"), ["\"put\"", "\"delete\"", "\"delete\"", "\"publish\"", "\"deny\""]);
    assert_eq!(of("outcome"), ["\"committed\"", "\"committed\"", "\"refused\"", "\"committed\"", "\"in force\""]);
    assert_eq!((&all[0]["key"], &all[3]["document"]), (&key(1).to_string().into(), &DOCUMENT.into()));
    assert!(all[0]["locator"].is_string() && all[0]["generation"].as_u64() > Some(0), "{}", all[0]);
    assert!(all.iter().all(|line| line["time"].as_str().is_some_and(|time| time.starts_with("20") && time.ends_with('Z'))));
    assert_eq!(std::os::unix::fs::MetadataExt::mode(&std::fs::metadata(&log).unwrap()) & 0o777, 0o600);
    assert!(home.refused(&["--audit", "/proc/nothing/here"]).contains("choose another file with --audit"));
}

/// A folder made by `init`, and a server of it.
struct Site {
    folder: tempfile::TempDir,
    server: Option<Child>,
}

impl Site {
    fn new() -> Self {
        let site = Self { folder: tempfile::tempdir().unwrap(), server: None };
        let dir = site.file("");
        assert!(run(&["init", dir.to_str().unwrap()], &dir).status.success());
        site
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join("directory").join(name)
    }

    fn start(&mut self, auth: &str) {
        self.stop();
        let mut command = Command::new(env!("CARGO_BIN_EXE_weft-directory"));
        command
            .args(["serve", "--listen", "127.0.0.1:0", "--metrics", "off", "--json", "--auth", auth, "--dir"])
            .arg(self.file(""));
        let mut server = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(server.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let ready: Json = serde_json::from_str(&line).unwrap();
        let client = format!("servers = [{}]\nprincipal = 2\nauth = \"{auth}\"\n", ready["listen"]);
        std::fs::write(self.file("client.toml"), client).unwrap();
        self.server = Some(server);
    }

    fn stop(&mut self) {
        if let Some(mut server) = self.server.take() {
            let _ = server.kill();
            let _ = server.wait();
        }
    }

    fn run(&self, args: &[&str]) -> Output {
        run(args, &self.file(""))
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        self.stop();
    }
}

fn run(args: &[&str], dir: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weft-directory"));
    command.args(args).env("WEFT_DIRECTORY", dir).env_remove("WEFT_LOG").stdin(Stdio::null()).output().unwrap()
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&[&output.stdout[..], &output.stderr[..]].concat()).into_owned()
}

#[test]
fn a_new_certificate_is_in_use_without_a_restart() {
    let (mut site, other) = (Site::new(), Site::new());
    site.start("tls");
    let list = |authority: &Path| site.run(&["list", "--ca", authority.to_str().unwrap(), "--timeout", "1s"]).status.code();
    assert_eq!((list(&site.file("ca.pem")), list(&other.file("ca.pem"))), (Some(0), Some(2)));
    // The certificate alone does not fit its key: the pair before stays in use.
    for name in ["server.pem", "server.key"] {
        std::thread::sleep(Duration::from_millis(2_500));
        assert_eq!(list(&site.file("ca.pem")), Some(0), "before {name} is replaced");
        std::fs::copy(other.file(name), site.file("new")).unwrap();
        std::fs::rename(site.file("new"), site.file(name)).unwrap();
    }
    wait("the new certificate is in use", || list(&other.file("ca.pem")) == Some(0), String::new);
    assert_eq!(list(&site.file("ca.pem")), Some(2), "the one before is not");
}

#[test]
fn a_secret_is_rotated_with_both_keys_good_in_between() {
    let mut site = Site::new();
    let key = |site: &Site, name: &str| {
        let output = site.run(&["key", "--principal", "2"]);
        assert!(output.status.success(), "{}", text(&output));
        let file = site.folder.path().join(name);
        std::fs::write(&file, output.stdout).unwrap();
        file.display().to_string()
    };
    let list = |site: &Site, key: &str| site.run(&["list", "--key", key, "--timeout", "1s"]).status.code();
    let old = key(&site, "old");
    site.start("mac");
    let begun = site.run(&["rotate"]);
    assert!(begun.status.success() && text(&begun).contains("give every host its new key"), "{}", text(&begun));
    let again = site.run(&["rotate"]);
    assert!(again.status.code() == Some(2) && text(&again).contains("rotate --finish"), "{}", text(&again));
    let new = key(&site, "new");
    assert_eq!(list(&site, &old), Some(0), "the old one is good all the time");
    wait("the new key is good", || list(&site, &new) == Some(0), String::new);
    assert_eq!(list(&site, &old), Some(0), "both are good");
    assert!(site.run(&["rotate", "--finish"]).status.success());
    wait("the old key is not", || list(&site, &old) == Some(2), String::new);
    assert_eq!(list(&site, &new), Some(0), "the new one is");
    assert_eq!(site.run(&["rotate", "--finish"]).status.code(), Some(2), "there is none under way");

    // A secret that cannot be used changes nothing; with the next good one the server goes on. A server that starts has it too.
    std::fs::write(site.file("secret"), "no secret\n").unwrap();
    std::thread::sleep(Duration::from_millis(2500));
    assert_eq!(list(&site, &new), Some(0), "the one before stays in force");
    std::fs::write(site.file("secret"), format!("{}\n", secret().to_hex())).unwrap();
    let third = key(&site, "third");
    wait("the third key is good", || list(&site, &third) == Some(0), String::new);
    assert_eq!(list(&site, &new), Some(2), "without an old one the key before is worth nothing");
    site.start("mac");
    assert_eq!((list(&site, &new), list(&site, &third)), (Some(2), Some(0)));
}

#[test]
fn the_list_of_denied_principals_is_changed_by_a_command() {
    let mut site = Site::new();
    site.start("tls");
    let deny = |args: &[&str]| {
        let output = site.run(&[&["deny", "--json"], args].concat());
        serde_json::from_slice::<Json>(&output.stdout).unwrap_or_else(|e| panic!("{e}: {}", text(&output)))["denied"].to_string()
    };
    assert_eq!(deny(&[]), "[]");
    assert_eq!(deny(&["17", "18", "--reason", "stolen"]), "[17,18]");
    assert_eq!(deny(&["17", "19"]), "[17,18,19]");
    assert_eq!(deny(&["18", "--lift"]), "[17,19]");
    assert_eq!(text(&site.run(&["deny"])), "17 # stolen\n19\n");
    // Even an administrator is.
    assert_eq!(deny(&["2"]), "[2,17,19]");
    wait("he is denied", || site.run(&["list", "--timeout", "1s"]).status.code() == Some(2), String::new);
}
