//! Replicas, as real processes on a real etcd: they follow the store, answer what servers answer, and write nothing.

#![allow(clippy::disallowed_methods)] // Processes live by the wall clock.

mod support;

use std::process::{Command, Output};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use support::daemon::{Daemon, Home, wait};
use support::etcd::{Etcd, free_ports};
use support::model::{key, value_of};
use support::shared::{WRITER, client_of};
use weft_control::directory::attempts::UpdateResult;
use weft_control::directory::{Generation, Key, PrincipalId};
use weft_control::netlord::tenants::records::{Op as RecordOp, Outcome};
use weft_control::wire::directory::{Finding, Op, PublishOutcome};
use weft_directory::client::{AmendResult, Client, Fetched};

const HOST: PrincipalId = PrincipalId(17);

/// A server and a replica of one store, which know each other.
struct Pair {
    home: Home,
    server: Daemon,
    replica: Daemon,
}

impl Pair {
    fn on(etcd: &Etcd) -> Self {
        let home = Home::new();
        let store = address_of(etcd);
        let ports = free_ports(2);
        let [server, replica] = [0, 1].map(|at| format!("127.0.0.1:{}", ports[at]));
        let first = ["--store", &store, "--listen", &server, "--peer", &replica];
        let second = ["--store", &store, "--listen", &replica, "--peer", &server, "--principal", "101", "--replica"];
        let (server, replica) = (home.start(&first), home.start(&second));
        Self { home, server, replica }
    }

    /// A client that asks the replica first.
    fn client(&self) -> Client {
        client_of(WRITER, &self.addresses(), Duration::from_secs(3))
    }

    fn addresses(&self) -> [String; 2] {
        [&self.replica, &self.server].map(Daemon::address)
    }

    /// The command line, as the principal that may write. It asks the replica first.
    fn command(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_weft-directory"));
        command.args(arguments).args(["--servers", &self.addresses().join(","), "--principal", "7", "--auth", "mac"]);
        command.arg("--dir").arg(self.home.path()).env_remove("WEFT_LOG").output().unwrap()
    }
}

fn address_of(etcd: &Etcd) -> String {
    format!("etcd:{}", etcd.urls().join(","))
}

fn put(client: &mut Client, key: Key, number: u16) -> (UpdateResult, String) {
    let op = Op { key, expect: None, value: Some(value_of(number)) };
    let updated = client.update(vec![op], None).unwrap();
    (updated.result, updated.server)
}

fn finds(daemon: &Daemon, key: Key, number: u16) -> bool {
    daemon.find(key) == Finding::Found(value_of(number))
}

#[test]
fn a_replica_answers_lookups_and_other_servers_take_the_updates() {
    let Some(mut etcd) = Etcd::start(1) else { return };
    let mut pair = Pair::on(&etcd);
    let mut client = pair.client();
    for number in 1..20 {
        let (result, by) = put(&mut client, key(0), number);
        assert!(matches!(result, UpdateResult::Committed(_)) && by == pair.server.address(), "{result:?} of {by}");
        let begun = Instant::now();
        wait("the replica has it", || finds(&pair.replica, key(0), number), || pair.replica.log());
        assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
    }
    assert!(pair.replica.put(key(0), value_of(100)).is_none(), "alone it takes no update");

    // Documents and tenants' records: by the server, and from the replica.
    let published = client.publish("notes", 0, 1, b"one").unwrap();
    assert_eq!((published.0.outcome, published.1), (PublishOutcome::Committed, pair.server.address()));
    let fetched = || pair.replica.client(HOST).document("notes", 0).unwrap().0;
    wait("it has the document", || matches!(fetched(), Fetched::Document { version: 1, .. }), || pair.replica.log());
    let alone = pair.replica.client(WRITER).publish("notes", 1, 2, b"two").unwrap().0;
    assert_eq!(alone.outcome, PublishOutcome::Unknown, "another server may be asked");
    let record = |id: u16| [RecordOp { name: "t/acme".parse().unwrap(), expect: None, body: Some(format!("id = {id}\n")) }];
    let site = RecordOp { name: "site".parse().unwrap(), expect: None, body: Some("service = 1\n".to_owned()) };
    let (amended, by) = pair.client().amend(&[&[site][..], &record(17)].concat()).unwrap();
    assert!(matches!(amended, AmendResult::Decided(Outcome::Committed(_))) && by == pair.server.address(), "{amended:?} of {by}");
    let (_, body) = pair.replica.client(WRITER).record(&"t/acme".parse().unwrap()).unwrap().expect("the replica reads it");
    assert!(body.contains("id = 17"), "{body}");
    let alone = pair.replica.client(WRITER).amend(&record(18)).unwrap().0;
    assert_eq!(alone, AmendResult::Decided(Outcome::Unknown));

    // The command line: of both at once, and what it prints of them.
    let made = pair.command(&["put", "10.0.0.77", "10.0.1.1"]);
    assert!(made.status.success(), "{made:?}");
    let begun = Instant::now();
    let seventy_seven = "10.0.0.77".parse().unwrap();
    wait("the replica has it", || pair.replica.find(seventy_seven) != Finding::Unknown, || pair.replica.log());
    assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
    let status: serde_json::Value = serde_json::from_slice(&pair.command(&["status", "--json"]).stdout).unwrap();
    let replicas = [0, 1].map(|at| (status["servers"][at]["replica"].as_bool(), status["servers"][at]["state"].as_str()));
    assert_eq!(replicas, [(Some(true), Some("serving")), (Some(false), Some("serving"))], "{status}");
    let table = String::from_utf8(pair.command(&["status"]).stdout).unwrap();
    assert_eq!(table.matches("serving, replica").count(), 1, "{table}");

    // Without the server lookups go on, and updates are refused with the reason.
    pair.server.signal(Signal::SIGKILL);
    pair.server.wait_end();
    assert!(finds(&pair.replica, key(0), 19));
    assert_eq!(put(&mut pair.client(), key(0), 20), (UpdateResult::NotApplied, pair.replica.address()));
    let refused = pair.command(&["put", "10.0.0.77", "10.0.1.2", "--timeout", "1s"]);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(
        refused.status.code() == Some(2) && said.contains("cannot take updates now") && said.contains("replica"),
        "{refused:?}"
    );
    assert!(!pair.replica.log().contains("ERROR"), "{}", pair.replica.log());

    // Without the store too.
    etcd.kill(0);
    pair.replica.wait_metric("state", |state| state == 2.0);
    assert!(finds(&pair.replica, key(0), 19));
    assert!(matches!(fetched(), Fetched::Document { version: 1, .. }), "from memory");
    // And the store is followed again when it is back.
    etcd.restart(0);
    etcd.wait();
    pair.replica.wait_metric("state", |state| state == 1.0);
    let again = pair.home.start(&["--store", &address_of(&etcd)]);
    assert!(again.put(key(0), value_of(21)).is_some());
    wait("the replica follows", || finds(&pair.replica, key(0), 21), || pair.replica.log());
}

/// With certificates and the policy of a folder that `init` made, all by the command line, which asks the replica first.
#[test]
fn commands_that_write_over_tls_go_on_to_the_next_server() {
    let Some(etcd) = Etcd::start(1) else { return };
    let home = Home::new();
    let run = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_weft-directory"));
        command.args(arguments).current_dir(home.path()).env("WEFT_DIRECTORY", "site").env_remove("WEFT_LOG").output().unwrap()
    };
    assert!(run(&["init", "site"]).status.success());
    let of_site = ["--auth", "tls", "--dir", "site", "--secret", "site/secret", "--policy", "site/policy.toml", "--store"];
    let store = address_of(&etcd);
    let mut server = home.start(&[&of_site[..], &[&store]].concat());
    let replica = home.start(&[&of_site[..], &[&store, "--principal", "101", "--replica"]].concat());
    let (both, alone) = (format!("{},{}", replica.address(), server.address()), replica.address());
    let written = |arguments: &[&str]| {
        let output = run(&[arguments, &["--servers", &both]].concat());
        assert!(output.status.success(), "{arguments:?}: {output:?}\n{}", replica.log());
    };
    let document = home.write("notes", "some notes");
    written(&["put", "10.0.0.7", "10.0.1.1", "--service", "0"]);
    written(&["put", "10.0.0.7", "10.0.1.2"]);
    written(&["publish", "notes", &document]);
    written(&["deny", "99", "--reason", "stolen"]);
    let get = || String::from_utf8(run(&["get", "10.0.0.7", "--servers", &alone]).stdout).unwrap();
    wait("the replica has it", || get().contains("10.0.1.2"), || get() + &replica.log());
    let fetch = || String::from_utf8(run(&["fetch", "notes", "--servers", &alone]).stdout).unwrap();
    wait("the replica has the document", || fetch() == "some notes", || replica.log());
    replica.wait_log("another list of denied principals is in force");

    server.signal(Signal::SIGKILL);
    server.wait_end();
    for (arguments, said) in [
        (&["put", "10.0.0.7", "10.0.1.3", "--timeout", "1s"][..], "cannot take updates now"),
        (&["publish", "notes", &document, "--version", "7"], "is a replica, or its store did not answer"),
    ] {
        let output = run(&[arguments, &["--servers", &both]].concat());
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(2) && error.contains(said) && error.contains(&alone), "{output:?}");
    }
    assert!(get().contains("10.0.1.2"));
}

#[test]
fn a_replica_needs_a_store_that_is_there_and_writes_nothing_to_it() {
    let Some(etcd) = Etcd::start(1) else { return };
    let home = Home::new();
    let store = address_of(&etcd);
    let revision = || {
        let status = etcd.ctl(&[&etcd.urls()[0]], &["endpoint", "status", "--write-out", "json"]).expect("etcd answers");
        serde_json::from_slice::<serde_json::Value>(&status).unwrap()[0]["Status"]["header"]["revision"].as_u64().unwrap()
    };
    let before = revision();
    let said = home.refused(&["--store", &store, "--replica"]);
    assert!(said.contains("the store has no cluster `weft`: start a server without --replica first"), "{said}");
    assert_eq!(revision(), before, "it has not set the cluster up");
    let server = home.start(&["--store", &store]);
    assert!(server.put(key(0), value_of(1)).is_some());
    drop(server);
    let before = revision();
    let mut replica = home.start(&["--store", &store, "--replica"]);
    assert!(finds(&replica, key(0), 1));
    assert!(replica.put(key(0), value_of(2)).is_none());
    std::thread::sleep(Duration::from_secs(2));
    replica.signal(Signal::SIGTERM);
    assert_eq!(replica.wait_end(), Some(0));
    assert_eq!(revision(), before);
}

#[test]
fn permission_to_read_the_store_suffices() {
    let Some(etcd) = Etcd::start(1) else { return };
    etcd.enable_auth();
    let home = Home::new();
    let (store, root, reader) = (address_of(&etcd), home.write("root", "root:secret\n"), home.write("reader", "reader:guest\n"));
    let server = home.start(&["--store", &store, "--etcd-user", &root]);
    assert!(server.put(key(0), value_of(1)).is_some());
    let said = home.refused(&["--store", &store, "--etcd-user", &reader]);
    assert!(said.contains("permission denied") && said.contains("a replica to read it"), "{said}");

    let more = ["--store", &store, "--etcd-user", &reader, "--principal", "101", "--replica", "--etcd-retention", "10s"];
    let replica = home.start(&more);
    assert!(finds(&replica, key(0), 1));
    assert!(server.put(key(0), value_of(2)).is_some() && server.put(key(1), value_of(3)).is_some());
    // They are no peers: it has learnt this by the watch.
    wait("it follows", || finds(&replica, key(0), 2) && finds(&replica, key(1), 3), || replica.log());
    let op = Op { key: key(1), expect: None, value: None };
    server.client(WRITER).update(vec![op], None).unwrap();
    wait("it follows", || replica.find(key(1)) == Finding::Unknown, || replica.log());
    server.client(WRITER).publish("notes", 0, 1, b"one").unwrap();
    assert!(matches!(replica.client(HOST).document("notes", 0).unwrap().0, Fetched::Document { version: 1, .. }));
    let site = RecordOp { name: "site".parse().unwrap(), expect: None, body: Some("service = 1\n".to_owned()) };
    server.client(WRITER).amend(&[site]).unwrap();
    assert!(replica.client(WRITER).record(&"site".parse().unwrap()).unwrap().is_some());
    assert!(replica.put(key(0), value_of(4)).is_none());
    let listed = replica.client(WRITER).page(None, 10).unwrap();
    assert_eq!(listed.entries.iter().map(|entry| entry.key).collect::<Vec<_>>(), [key(0)]);
    assert!(listed.revision > Generation(0));
    // What it asks of the store from time to time is permitted.
    std::thread::sleep(Duration::from_secs(2));
    assert_eq!(replica.scrape().of("state"), 1.0, "{}", replica.log());
    let log = replica.log();
    assert!(!["WARN", "ERROR", "denied"].iter().any(|it| log.contains(it)), "{log}");
}
