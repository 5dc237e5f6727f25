//! Named documents of the store: whole, in order of versions, from every server, and from memory while the store is away.

#![allow(clippy::disallowed_methods)] // Processes live by the wall clock.

mod support;

use nix::sys::signal::Signal;
use support::daemon::{Daemon, Home, wait};
use support::etcd::Etcd;
use support::shared::WRITER;
use weft_control::directory::PrincipalId;
use weft_control::wire::directory::PublishOutcome;
use weft_directory::client::Fetched;

/// As `serve` has it if nobody says otherwise.
const CLUSTER: &str = "weft";
const HOST: PrincipalId = PrincipalId(17);

/// Several parts on the wire, and in etcd.
fn long_document(seed: u8) -> Vec<u8> {
    (0..1_400_000u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8 ^ seed).collect()
}

fn publish(daemon: &Daemon, by: PrincipalId, expect: u32, version: u32, document: &[u8]) -> (PublishOutcome, u32) {
    let answer = daemon.client(by).publish("tenants", expect, version, document).unwrap().0;
    (answer.outcome, answer.version)
}

fn fetch(daemon: &Daemon, known: u32) -> Fetched {
    daemon.client(HOST).document("tenants", known).unwrap().0
}

fn is(version: u32, bytes: &[u8]) -> Fetched {
    Fetched::Document { version, bytes: bytes.to_vec() }
}

/// What holds for every store; ends with version 5.
fn documents_are_replaced_in_order(daemon: &Daemon) {
    assert_eq!(fetch(daemon, 0), Fetched::None);
    assert_eq!(publish(daemon, HOST, 0, 1, b"one"), (PublishOutcome::Refused, 0), "hosts read, and do not write");
    assert_eq!(publish(daemon, WRITER, 0, 1, b"one"), (PublishOutcome::Committed, 1));
    assert_eq!(fetch(daemon, 0), is(1, b"one"));
    assert_eq!(fetch(daemon, 1), Fetched::Known);
    assert_eq!(publish(daemon, WRITER, 0, 2, b"two"), (PublishOutcome::Conflict, 1), "there is one already");
    assert_eq!(publish(daemon, WRITER, 1, 1, b"two"), (PublishOutcome::Malformed, 0), "versions grow");
    assert_eq!(fetch(daemon, 0), is(1, b"one"), "nothing was changed");
    assert_eq!(publish(daemon, WRITER, 1, 3, &long_document(1)), (PublishOutcome::Committed, 3));
    assert_eq!(fetch(daemon, 1), is(3, &long_document(1)));
    assert_eq!(publish(daemon, WRITER, 3, 4, b""), (PublishOutcome::Committed, 4), "a document may be empty");
    assert_eq!(fetch(daemon, 3), is(4, b""));
    assert_eq!(publish(daemon, WRITER, 4, 5, &long_document(2)), (PublishOutcome::Committed, 5));
}

#[test]
fn an_embedded_store_keeps_documents() {
    let home = Home::new();
    let mut daemon = home.start(&[]);
    documents_are_replaced_in_order(&daemon);
    daemon.signal(Signal::SIGKILL);
    daemon.wait_end();
    drop(daemon);
    let daemon = home.start(&[]);
    assert_eq!(fetch(&daemon, 4), is(5, &long_document(2)), "durable");
}

#[test]
fn servers_on_etcd_have_the_same_documents() {
    let Some(mut etcd) = Etcd::start(1) else { return };
    let home = Home::new();
    let store = format!("etcd:{}", etcd.urls().join(","));
    let [one, other] = [100, 101].map(|principal| home.start(&["--store", &store, "--principal", &principal.to_string()]));
    documents_are_replaced_in_order(&one);
    wait("the other server has it", || fetch(&other, 0) == is(5, &long_document(2)), || other.log());

    // Of two that publish the same version one is first, and the document is his, whole.
    for version in 6..12 {
        let documents = [1, 2].map(|seed| long_document(seed + version as u8));
        let answers = std::thread::scope(|scope| {
            let by = |daemon: &Daemon, document| {
                let mut client = daemon.client(WRITER);
                scope.spawn(move || client.publish("tenants", version - 1, version, document).unwrap().0)
            };
            let answers = [by(&one, &documents[0]), by(&other, &documents[1])].map(|it| it.join().unwrap());
            answers.map(|it| (it.outcome, it.version))
        });
        let won: Vec<usize> = (0..2).filter(|&at| answers[at] == (PublishOutcome::Committed, version)).collect();
        assert_eq!(won.len(), 1, "{answers:?}");
        assert_eq!(answers[1 - won[0]], (PublishOutcome::Conflict, version));
        wait(
            "both servers have it",
            || [&one, &other].iter().all(|it| fetch(it, 0) == is(version, &documents[won[0]])),
            || one.log(),
        );
    }

    // What a server left that ended midway goes with the next version, and no other document does.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let keys = |folder: &str| {
        runtime.block_on(async {
            let mut client = etcd_client::Client::connect(etcd.urls(), None).await.unwrap();
            let options = etcd_client::GetOptions::new().with_prefix().with_count_only();
            client.get(format!("/weft/{CLUSTER}.texts/{folder}/"), Some(options)).await.unwrap().count()
        })
    };
    assert_eq!(keys("tenants"), 3, "the parts of one document");
    runtime.block_on(async {
        let mut client = etcd_client::Client::connect(etcd.urls(), None).await.unwrap();
        for left in ["tenants/0000/0", "tenants/zzzz/1", "tenants-2/0000/0", "tenants2/0000/0", "tenant/0000/0"] {
            client.put(format!("/weft/{CLUSTER}.texts/{left}"), "left", None).await.unwrap();
        }
    });
    assert_eq!(keys("tenants"), 5);
    let document = fetch(&one, 0);
    let Fetched::Document { bytes, .. } = &document else { panic!("{document:?}") };
    assert_eq!(publish(&one, WRITER, 11, 12, bytes), (PublishOutcome::Committed, 12));
    assert_eq!((keys("tenants"), keys("tenants-2"), keys("tenants2"), keys("tenant")), (3, 1, 1, 1));

    etcd.kill(0);
    assert!(matches!(fetch(&one, 0), Fetched::Document { version: 12, .. }), "from memory");
    assert_eq!(publish(&one, WRITER, 12, 13, b"lost").0, PublishOutcome::Unknown);
    let unread = one.client(HOST).document("spain", 0).unwrap_err();
    assert!(unread.to_string().contains("its store does not answer"), "{unread}");
    etcd.restart(0);
    etcd.wait();
    let again = || publish(&one, WRITER, 12, 13, b"thirteen").0 == PublishOutcome::Committed;
    wait("it is published when the store is back", again, || one.log());
    assert_eq!(fetch(&one, 0), is(13, b"thirteen"));
}
