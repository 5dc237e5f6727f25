//! Stores that are not as a server expects: absent, half there, another cluster's, gone back in time, compacted while nobody watched, and an
//! etcd that wants certificates and a password.

#![allow(clippy::disallowed_methods)] // Processes live by the wall clock.

mod support;

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use rcgen::{BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};
use support::cluster::CutWire;
use support::daemon::{Daemon, Home, wait};
use support::etcd::{Etcd, EtcdTls, free_ports};
use support::model::{key, value_of};
use support::shared::{WRITER, client_of};
use weft_control::directory::{Key, Locator};
use weft_control::wire::directory::Finding;

/// The number that a key was given.
fn number_at(daemon: &Daemon, key: Key) -> Option<u32> {
    match daemon.find(key) {
        Finding::Found(value) => match value.mapping().map(|mapping| mapping.locator) {
            Some(Locator::V4(ip)) => Some(u32::from(ip) & 0xffff),
            other => panic!("{other:?}"),
        },
        Finding::Unknown => None,
        other => panic!("{other:?}"),
    }
}

fn address_of(etcd: &Etcd) -> String {
    format!("etcd:{}", etcd.urls().join(","))
}

#[test]
fn a_store_that_cannot_be_reached_is_waited_for_and_then_given_up() {
    let home = Home::new();
    // One port where nobody listens, one where somebody does and never says anything.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    for port in [free_ports(1)[0], silent.local_addr().unwrap().port()] {
        let begun = Instant::now();
        let said = home.refused(&["--store", &format!("etcd:http://127.0.0.1:{port}"), "--store-timeout", "3s"]);
        assert!(said.contains("waiting for the store") && said.contains("is not ready after 3s"), "{said}");
        assert!(begun.elapsed() >= Duration::from_secs(3) && begun.elapsed() < Duration::from_secs(9), "{:?}", begun.elapsed());
    }
}

#[test]
fn a_half_started_etcd_is_waited_for() {
    let Some(mut etcd) = Etcd::start(3) else { return };
    let home = Home::new();
    etcd.kill(1);
    etcd.kill(2);
    let said = home.refused(&["--store", &address_of(&etcd), "--store-timeout", "1s"]);
    assert!(said.contains("is not ready after 1s"), "{said}");
    let mut daemon = home.begin(&["--store", &address_of(&etcd), "--store-timeout", "15s"], &[]);
    daemon.wait_log("waiting for the store");
    std::thread::sleep(Duration::from_millis(300));
    assert!(!daemon.is_ready(), "one member of three is no store");
    etcd.restart(1);
    daemon.wait_ready();
    assert!(daemon.put(key(0), value_of(1)).is_some(), "{}", daemon.log());
}

#[test]
fn a_store_of_another_cluster_is_not_used() {
    let home = Home::new();
    drop(home.start(&["--cluster", "one"]));
    let said = home.refused(&["--cluster", "two"]);
    assert!(said.contains("the store belongs to cluster `one`, and this server to `two`"), "{said}");
    // One etcd serves several clusters, which do not see each other.
    let Some(etcd) = Etcd::start(1) else { return };
    let one = home.start(&["--store", &address_of(&etcd), "--cluster", "one"]);
    let two = home.start(&["--store", &address_of(&etcd), "--cluster", "two"]);
    assert!(one.put(key(0), value_of(1)).is_some() && two.put(key(1), value_of(2)).is_some());
    assert_eq!([number_at(&one, key(0)), number_at(&one, key(1))], [Some(1), None]);
    assert_eq!([number_at(&two, key(0)), number_at(&two, key(1))], [None, Some(2)]);
}

#[test]
fn an_etcd_that_went_back_in_time_takes_no_updates() {
    let Some(mut etcd) = Etcd::start(1) else { return };
    let home = Home::new();
    let mut daemon = home.start(&["--store", &address_of(&etcd)]);
    assert!(daemon.put(key(0), value_of(1)).is_some());
    let backup = home.path().join("backup");
    etcd.kill(0);
    copy(&etcd.data(0), &backup);
    etcd.restart(0);
    etcd.wait();
    daemon.wait_metric("state", |state| state == 1.0);
    for number in 2..8 {
        assert!(daemon.put(key(0), value_of(number)).is_some(), "{}", daemon.log());
    }
    etcd.kill(0);
    std::fs::remove_dir_all(etcd.data(0)).unwrap();
    copy(&backup, &etcd.data(0));
    etcd.restart(0);
    etcd.wait();

    daemon.wait_log("the store was replaced: no update is taken any more");
    assert!(daemon.log().contains("etcd was at revision"), "{}", daemon.log());
    daemon.wait_metric("state", |state| state == 2.0);
    assert!(daemon.put(key(0), value_of(100)).is_none(), "an update is refused");
    assert_eq!(number_at(&daemon, key(0)), Some(7), "lookups are answered from memory");
    // New revisions do not make it the old store again.
    for _ in 0..12 {
        etcd.wait();
    }
    std::thread::sleep(Duration::from_millis(700));
    assert!(daemon.put(key(0), value_of(101)).is_none(), "an update is refused");
    assert_eq!(daemon.scrape().of("state"), 2.0);
    assert_eq!(number_at(&daemon, key(0)), Some(7));
    daemon.signal(Signal::SIGTERM);
    assert_eq!(daemon.wait_end(), Some(0));
    // Who restarts means it.
    let daemon = home.start(&["--store", &address_of(&etcd)]);
    assert_eq!(number_at(&daemon, key(0)), Some(1));
    assert!(daemon.put(key(0), value_of(102)).is_some());
}

fn copy(from: &Path, to: &Path) {
    assert!(Command::new("cp").arg("-a").args([from, to]).status().unwrap().success());
}

#[test]
fn a_compaction_while_the_watch_is_away_is_a_gap_and_everything_is_reloaded() {
    let Some(etcd) = Etcd::start(1) else { return };
    let home = Home::new();
    let wire = CutWire::to(etcd.urls()[0].strip_prefix("http://").unwrap());
    // They are no peers: what one commits reaches the other by the store only.
    let far = home.start(&["--store", &format!("etcd:http://{}", wire.address)]);
    let near = home.start(&["--store", &address_of(&etcd), "--principal", "101"]);
    assert!(near.put(key(0), value_of(1)).is_some());
    far.wait_metric("entries", |entries| entries == 1.0);
    assert_eq!(number_at(&far, key(0)), Some(1));
    let reloads =
        |daemon: &Daemon| ["watch_lost", "gap"].map(|why| daemon.scrape().of(&format!("reloads_total{{reason=\"{why}\"}}")));

    // Away, but nothing is compacted: the watch goes on where it was.
    wire.cut(true);
    far.wait_metric("state", |state| state == 2.0);
    assert!(near.put(key(0), value_of(2)).is_some());
    assert_eq!(number_at(&far, key(0)), Some(1), "lookups are answered from memory");
    wire.cut(false);
    wait("the watch goes on", || number_at(&far, key(0)) == Some(2), || far.log());
    assert_eq!(reloads(&far), [0.0, 0.0], "{}", far.log());

    wire.cut(true);
    far.wait_metric("state", |state| state == 2.0);
    for number in 3..6 {
        assert!(near.put(key(number as u8), value_of(number)).is_some());
    }
    etcd.compact_at(0);
    wire.cut(false);
    far.wait_log("the watch has a gap");
    far.wait_metric("entries", |entries| entries == 4.0);
    far.wait_metric("state", |state| state == 1.0);
    assert!(far.log().contains("has been compacted"), "{}", far.log());
    assert_eq!(reloads(&far), [1.0, 0.0], "{}", far.log());
    assert_eq!(number_at(&far, key(5)), Some(5));
    assert_eq!(reloads(&near), [0.0, 0.0], "{}", near.log());
}

#[test]
fn history_is_compacted_after_the_retention() {
    let Some(etcd) = Etcd::start(1) else { return };
    let home = Home::new();
    let urls = etcd.urls();
    let daemon = home.start(&["--store", &address_of(&etcd), "--etcd-retention", "10s"]);
    let first = daemon.put(key(0), value_of(1)).unwrap();
    for number in 2..20 {
        assert!(daemon.put(key(0), value_of(number)).is_some());
    }
    let rev = format!("--rev={}", first.0);
    let has_history = || etcd.ctl(&[&urls[0]], &["get", "/weft", "--prefix", "--keys-only", &rev]).is_some();
    assert!(has_history(), "the retention is not over");
    let begun = Instant::now();
    while has_history() {
        assert!(begun.elapsed() < Duration::from_secs(40), "it is not compacted\n{}", daemon.log());
        std::thread::sleep(Duration::from_millis(500));
    }
    assert!(begun.elapsed() > Duration::from_secs(8), "{:?}", begun.elapsed());
    assert!(daemon.put(key(0), value_of(20)).is_some());
    assert_eq!(daemon.scrape().of("reloads_total{reason=\"gap\"}"), 0.0, "no watch was too late");
}

#[test]
fn a_full_etcd_is_reported_with_the_commands_that_make_room() {
    let Some(etcd) = Etcd::start_small(4 << 20) else { return };
    let home = Home::new();
    let daemon = home.start(&["--store", &address_of(&etcd)]);
    assert!(daemon.put(key(0), value_of(1)).is_some());
    let mut client = client_of(WRITER, &[daemon.address()], Duration::from_secs(3));
    let document = vec![7; 700_000];
    let is_full = || daemon.log().contains("the store is full");
    for version in 1..20 {
        if is_full() || client.publish("large", version - 1, version, &document).is_err() {
            break;
        }
    }
    daemon.wait_log("the store is full");
    assert!(daemon.log().contains("`etcdctl defrag --cluster`, then `etcdctl alarm disarm`"), "{}", daemon.log());
    daemon.wait_metric("state", |state| state == 2.0);
    assert!(daemon.put(key(0), value_of(2)).is_none());
    assert_eq!(number_at(&daemon, key(0)), Some(1), "lookups are answered from memory");
    // What the message says, after a compaction.
    etcd.compact_at(0);
    let url = &etcd.urls()[0];
    assert!(etcd.ctl(&[url], &["defrag"]).is_some() && etcd.ctl(&[url], &["alarm", "disarm"]).is_some());
    daemon.wait_metric("state", |state| state == 1.0);
    assert!(daemon.put(key(0), value_of(3)).is_some());
}

/// An authority, and one certificate for etcd's members and its clients.
fn certificates(folder: &Path) -> EtcdTls {
    let authority = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let ca = params.self_signed(&authority).unwrap().pem();
    let issuer = Issuer::new(params, authority);
    let mut params = CertificateParams::new(vec!["127.0.0.1".into(), "localhost".into()]).unwrap();
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
    let key = KeyPair::generate().unwrap();
    let certificate = params.signed_by(&key, &issuer).unwrap().pem();
    let write = |name: &str, text: &str| -> PathBuf {
        std::fs::write(folder.join(name), text).unwrap();
        folder.join(name)
    };
    EtcdTls {
        ca: write("etcd-ca.pem", &ca),
        certificate: write("etcd.pem", &certificate),
        key: write("etcd.key", &key.serialize_pem()),
    }
}

#[test]
fn an_etcd_with_certificates_and_a_password_is_used_and_others_are_refused() {
    let home = Home::new();
    let tls = certificates(home.path());
    let Some(etcd) = Etcd::start_with(1, Some(&tls)) else { return };
    let urls = etcd.urls();
    let end: Vec<&String> = urls.iter().collect();
    for command in ["user add root:secret", "user grant-role root root", "auth enable"] {
        let words: Vec<&str> = command.split(' ').collect();
        if etcd.ctl(&end, &words).is_none() {
            assert!(command.contains("grant-role"), "{command}");
            etcd.ctl(&end, &["role", "add", "root"]).expect("a role");
            etcd.ctl(&end, &words).expect(command);
        }
    }
    let (store, right, wrong) = (address_of(&etcd), home.write("right", "root:secret\n"), home.write("wrong", "root:guess"));
    let [ca, certificate, key_file] = [&tls.ca, &tls.certificate, &tls.key].map(|path| path.to_str().unwrap());
    let known = ["--store", &store, "--etcd-ca", ca, "--etcd-cert", certificate, "--etcd-cert-key", key_file];
    let daemon = home.start(&[&known[..], &["--etcd-user", &right]].concat());
    assert!(daemon.put(key(0), value_of(1)).is_some(), "{}", daemon.log());
    assert_eq!(number_at(&daemon, key(0)), Some(1));
    assert!(!daemon.log().contains("secret"), "{}", daemon.log());

    let said = home.refused(&[&known[..], &["--etcd-user", &wrong]].concat());
    assert!(said.contains("the store refuses") && !said.contains("guess"), "{said}");
    let said = home.refused(&known);
    assert!(said.contains("the store refuses"), "{said}");
    // Without our certificate there is no connection, and there may be one later.
    let said = home.refused(&["--store", &store, "--etcd-ca", ca, "--etcd-user", &right, "--store-timeout", "1s"]);
    assert!(said.contains("is not ready after 1s"), "{said}");
    let plain = store.replace("https:", "http:");
    let said = home.refused(&["--store", &plain, "--etcd-ca", ca]);
    assert!(said.contains("is not https, and there are certificates for etcd"), "{said}");
}
