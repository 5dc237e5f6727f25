//! Both stores against the same model, on random operations; and what is particular to the embedded one's folder.

#![allow(clippy::disallowed_methods)] // Processes live by the wall clock.

mod support;

use std::time::Duration;

use proptest::test_runner::{Config, TestRunner};
use redb::ReadableTable as _;
use support::etcd::Etcd as EtcdProcess;
use support::lock::wait_until_free;
use support::model::{Model, Step, steps};
use weft_control::directory::Generation;
use weft_control::directory::store::{CommitResult, MAX_COMMIT_OPS};
use weft_control::netlord::tenants::records::{Entries, Found, Plan, Reads};
use weft_directory::store::{AnyStore, Embedded, EtcdOptions, Store, StoreAddress, StoreError, Watch, WatchEvent};

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()
}

/// Everything in the store, in a model.
async fn load(store: &impl Store) -> Model {
    let mut load = store.load().await.unwrap();
    let mut model = Model { revision: load.revision, purged: load.purged, ..Model::default() };
    while let Some(chunk) = load.chunks.recv().await {
        model.apply(chunk.unwrap());
    }
    model
}

/// Takes the events of a watch, until everything up to a revision is known.
async fn follow(watch: &mut Watch, model: &mut Model, until: Generation) {
    while model.revision < until {
        match tokio::time::timeout(Duration::from_secs(5), watch.next()).await.expect("the watch reports in time") {
            Some(WatchEvent::Changes { revision, changes, purged }) => {
                assert!(revision > model.revision, "revisions grow");
                assert!(
                    changes.iter().all(|change| change.record.is_none() || change.generation > model.revision),
                    "nothing is reported twice"
                );
                model.apply(changes);
                model.revision = revision;
                model.purged = model.purged.max(purged.unwrap_or_default());
            }
            Some(WatchEvent::Progress(_)) => {}
            other => panic!("{other:?}"),
        }
    }
}

/// Runs the steps on a store, which may hold anything, and compares every answer with the model's.
async fn compare(store: &impl Store, steps: &[Step]) {
    let mut model = load(store).await;
    let mut watched = model.clone();
    let mut watch = store.watch(model.revision).await.unwrap();
    for step in steps {
        match step {
            Step::Commit(writes) => {
                let ops = model.ops(writes);
                let answer = store.commit(ops.clone(), model.purged).await;
                let at = if let CommitResult::Done(revision) = answer.result { revision } else { Generation(0) };
                assert_eq!(model.commit(&ops, model.purged, at), answer);
                let read = store.read(ops[0].key).await.unwrap();
                assert_eq!(read.record, model.records.get(&ops[0].key).cloned());
                assert!(read.revision >= model.revision);
            }
            Step::Purge(wrongly) => {
                let mut tombstones = model.tombstones();
                if let (true, Some(first)) = (wrongly, tombstones.first_mut()) {
                    first.1 = Generation(first.1.0 - 1);
                }
                assert_eq!(store.purge(tombstones.clone()).await.unwrap(), model.purge(&tombstones));
                if !tombstones.is_empty() {
                    refuses_what_knows_less(store, &model).await;
                }
            }
            Step::Load => {
                let loaded = load(store).await;
                assert_eq!((&loaded.records, loaded.purged), (&model.records, model.purged));
            }
        }
    }
    let end = load(store).await;
    assert_eq!((&end.records, end.purged), (&model.records, model.purged));
    let last = end.records.values().map(|(generation, _)| *generation).max().unwrap_or_default();
    follow(&mut watch, &mut watched, last).await;
    // A purge at the very end may still be on its way, and so may a tombstone that it has removed.
    while (&watched.records, watched.purged) != (&end.records, end.purged) {
        let more = Generation(watched.revision.0 + 1);
        follow(&mut watch, &mut watched, more).await;
    }
    assert_eq!((watched.records, watched.purged), (model.records, model.purged));
}

/// A commit by a server that does not know of a purge is a conflict that reports it.
async fn refuses_what_knows_less(store: &impl Store, model: &Model) {
    if model.purged == Generation(0) {
        return;
    }
    let ops = model.ops(&[(1, false, Some(1))]);
    let answer = store.commit(ops, Generation(model.purged.0 - 1)).await;
    assert_eq!(answer.purged, model.purged);
    assert!(matches!(answer.result, CommitResult::Conflict(_)), "{answer:?}");
}

fn run(cases: u32, store: &impl Store) {
    let runtime = runtime();
    let mut runner = TestRunner::new(Config { cases, failure_persistence: None, ..Config::default() });
    let result = runner.run(&steps(), |steps| {
        runtime.block_on(compare(store, &steps));
        Ok(())
    });
    result.unwrap_or_else(|error| panic!("{error}"));
}

#[test]
fn the_embedded_store_does_what_the_model_does() {
    let folder = tempfile::tempdir().unwrap();
    run(64, &Embedded::open(folder.path(), "test").unwrap());
}

#[test]
fn the_etcd_store_does_what_the_model_does() {
    let Some(etcd) = EtcdProcess::start(1) else { return };
    let address = StoreAddress::Etcd(etcd.urls());
    let store = runtime().block_on(AnyStore::open(&address, "test", &EtcdOptions::default())).unwrap();
    drop(store);
    let runtime = runtime();
    let store = runtime.block_on(AnyStore::open(&address, "test", &EtcdOptions::default())).unwrap();
    let _entered = runtime.enter();
    run(32, &store);
}

#[test]
fn a_commit_may_have_as_many_operations_as_the_machine_gives() {
    let Some(etcd) = EtcdProcess::start(1) else { return };
    let address = StoreAddress::Etcd(etcd.urls());
    runtime().block_on(async {
        let store = AnyStore::open(&address, "test", &EtcdOptions::default()).await.unwrap();
        let model = Model::default();
        let writes: Vec<_> = (0..MAX_COMMIT_OPS).map(|at| (at as u8, false, Some(1))).collect();
        let ops = model.ops(&writes);
        assert_eq!(ops.len(), MAX_COMMIT_OPS);
        assert!(matches!(store.commit(ops.clone(), Generation(0)).await.result, CommitResult::Done(_)));
        assert!(
            matches!(store.commit(ops, Generation(0)).await.result, CommitResult::Conflict(held) if held.len() == MAX_COMMIT_OPS)
        );
    });
}

#[test]
fn a_second_server_on_a_folder_is_refused_and_the_folder_is_free_after_the_first() {
    let folder = tempfile::tempdir().unwrap();
    let first = Embedded::open(folder.path(), "test").unwrap();
    assert!(matches!(Embedded::open(folder.path(), "test"), Err(StoreError::InUse(_))));
    drop(first);
    wait_until_free(folder.path());
    drop(Embedded::open(folder.path(), "test").unwrap());
}

#[test]
fn another_clusters_folder_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    drop(Embedded::open(folder.path(), "one").unwrap());
    wait_until_free(folder.path());
    let refused = Embedded::open(folder.path(), "two").unwrap_err();
    assert!(matches!(&refused, StoreError::OtherCluster { found, wanted } if found == "one" && wanted == "two"), "{refused}");
}

#[test]
fn torn_and_foreign_files_are_refused_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    drop(Embedded::open(folder.path(), "test").unwrap());
    wait_until_free(folder.path());
    let path = folder.path().join("directory.redb");
    let whole = std::fs::read(&path).unwrap();
    let mut cases = vec![Vec::new(), b"SQLite format 3\0".to_vec(), vec![0; 8192], whole[..5].to_vec()];
    cases.extend([64, 320, 4096, 8192, whole.len() / 2, whole.len() - 4096].map(|length| whole[..length].to_vec()));
    for bytes in cases {
        std::fs::write(&path, &bytes).unwrap();
        let refused = Embedded::open(folder.path(), "test").expect_err(&format!("{} bytes", bytes.len()));
        assert!(matches!(refused, StoreError::Damaged { .. }), "{refused}");
        assert!(std::fs::read(&path).unwrap() == bytes, "{} bytes were changed", bytes.len());
    }
}

/// The table and the numbers of tenants' entries as format 1 had them.
const OLD_ENTRIES: redb::TableDefinition<'_, &str, &[u8]> = redb::TableDefinition::new("tenants");
const META: redb::TableDefinition<'_, &str, u64> = redb::TableDefinition::new("meta");

#[test]
fn tenants_entries_of_an_older_store_are_taken_over_and_an_older_program_refuses_the_new_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("directory.redb");
    let reopen = || {
        wait_until_free(folder.path());
        Embedded::open(folder.path(), "test")
    };
    drop(Embedded::open(folder.path(), "test").unwrap());
    wait_until_free(folder.path());
    let body = |n: u8| format!("space = 1\nmac = \"02:00:00:00:00:{n:02x}\"\naddresses = [\"10.0.0.{n}\"]\n");
    let old: Vec<(String, u64, String)> = vec![
        ("a/17/1/10.0.0.1".into(), 4, "v/acme/web1".into()),
        ("m/17/1/02:00:00:00:00:01".into(), 4, "v/acme/web1".into()),
        ("site".into(), 1, "service = 1\n".into()),
        ("v/acme/web1".into(), 4, body(1)),
        ("v/acme/web2".into(), 5, "space = \"public\"\nmac = \"02:00:00:00:00:02\"\naddresses = []\n".into()),
    ];
    let format = |set: Option<u64>| {
        let database = redb::Database::open(&path).unwrap();
        let transaction = database.begin_write().unwrap();
        let mut meta = transaction.open_table(META).unwrap();
        if let Some(format) = set {
            meta.insert("format", format).unwrap();
        }
        let found = meta.get("format").unwrap().unwrap().value();
        drop(meta);
        transaction.commit().unwrap();
        found
    };
    assert_eq!(format(None), 1, "without tenants' records older programs read it");
    {
        let database = redb::Database::open(&path).unwrap();
        let transaction = database.begin_write().unwrap();
        let mut table = transaction.open_table(OLD_ENTRIES).unwrap();
        for (name, generation, body) in &old {
            let bytes = [&generation.to_be_bytes()[..], body.as_bytes()].concat();
            table.insert(name.as_str(), bytes.as_slice()).unwrap();
        }
        drop(table);
        transaction.open_table(META).unwrap().insert("tenants_revision", 5).unwrap();
        transaction.commit().unwrap();
    }
    let store = reopen().unwrap();
    let runtime = runtime();
    let reads = Reads { names: old.iter().map(|(name, ..)| name.clone()).collect(), prefixes: Vec::new() };
    let expected: Vec<Found> = old.into_iter().map(|(name, generation, body)| Found { name, generation, body }).collect();
    let read = |store: &Embedded| runtime.block_on(store.entries(&reads)).unwrap();
    assert_eq!(read(&store), Entries { revision: 5, found: expected.clone() });
    let page = |store: &Embedded, after: &str| runtime.block_on(store.entries_after("v/", after, 1)).unwrap().found;
    assert_eq!((page(&store, ""), page(&store, "v/acme/web1")), (vec![expected[3].clone()], vec![expected[4].clone()]));
    assert!(runtime.block_on(store.entries_after("m/", "", 1)).is_err(), "they have no order");
    let plan = Plan { checks: vec![("v/acme/web1".into(), 4)], writes: vec![("v/acme/web1".into(), Some(body(3)))] };
    assert_eq!(runtime.block_on(store.amend(plan.clone())).unwrap(), Some(6));
    assert_eq!(runtime.block_on(store.amend(plan)).unwrap(), None, "it is of another generation");
    drop(store);
    let store = reopen().unwrap();
    assert_eq!(read(&store).found[3], Found { name: "v/acme/web1".into(), generation: 6, body: body(3) });
    drop(store);
    wait_until_free(folder.path());
    assert_eq!(format(None), 2);
    format(Some(3));
    let refused = reopen().unwrap_err().to_string();
    assert!(refused.contains("format 3") && refused.contains("formats up to 2"), "{refused}");
}
