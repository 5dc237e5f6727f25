//! The embedded store, killed: every acknowledged commit is there afterwards, and no commit is there in part.

#![allow(clippy::disallowed_methods)] // Processes live by the wall clock.

mod support;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, ErrorKind};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use rand::RngExt;
use support::disk::Disk;
use support::lock::wait_until_free;
use support::model::{key, value_of};
use support::shared::die_with_parent;
use weft_control::directory::store::{CommitResult, StoreOp};
use weft_control::directory::{Generation, Key, PrincipalId, Record, UpdateId};
use weft_directory::store::{Embedded, Store};
use weft_fabric::rng::{Pcg64, Stream, stream};

/// What is in a store: the number that each key has, and its generation.
type Contents = BTreeMap<Key, (Generation, Record)>;

/// Keys that a commit changes together, of [`KEYS`].
const TOGETHER: u8 = 4;
const KEYS: u8 = 40;

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()
}

async fn contents(store: &Embedded) -> Contents {
    let mut load = store.load().await.unwrap();
    let mut contents = Contents::new();
    while let Some(chunk) = load.chunks.recv().await {
        contents.extend(chunk.unwrap().into_iter().map(|stored| (stored.key, (stored.generation, stored.record.unwrap()))));
    }
    assert!(contents.values().all(|(generation, _)| *generation <= load.revision));
    contents
}

/// The commit that gives `number` to four keys.
fn ops(contents: &Contents, number: u16) -> Vec<StoreOp> {
    let first = (number as u8 % (KEYS / TOGETHER)) * TOGETHER;
    let op = |at: u8| {
        let key = key(first + at);
        let old = contents.get(&key);
        let update = UpdateId { writer: PrincipalId(1), number: u64::from(number) };
        let record =
            Record::next(old.map(|(generation, record)| (record, *generation)), Generation(0), update, Some(value_of(number)));
        StoreOp { key, expect: old.map_or(Generation(0), |(generation, _)| *generation), record }
    };
    (0..TOGETHER).map(op).collect()
}

fn apply(contents: &mut Contents, ops: &[StoreOp], at: Generation) {
    contents.extend(ops.iter().map(|op| (op.key, (at, op.record.clone()))));
}

/// The child of the test below: commits for ever, and says what was acknowledged.
#[test]
fn commits_for_ever_as_a_child() {
    let Some(folder) = std::env::var_os("WEFT_TEST_STORE") else { return };
    runtime().block_on(async {
        let store = Embedded::open(Path::new(&folder), "test").unwrap();
        let mut contents = contents(&store).await;
        let first = contents
            .values()
            .flat_map(|(_, record)| record.writes.iter().map(|write| write.update.number + 1))
            .max()
            .unwrap_or(0);
        for number in first.. {
            let ops = ops(&contents, number as u16);
            match store.commit(ops.clone(), Generation(0)).await.result {
                CommitResult::Done(at) => {
                    apply(&mut contents, &ops, at);
                    println!("acknowledged {number} {}", at.0);
                }
                other => panic!("{other:?}"),
            }
        }
    });
}

#[test]
fn killed_at_any_instant_every_acknowledged_commit_is_there() {
    let folder = tempfile::tempdir().unwrap();
    let mut rng = stream(1, Stream::Traffic);
    let mut model = Contents::new();
    let mut kept = 0;
    for _ in 0..6 {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "commits_for_ever_as_a_child", "--nocapture"]).env("WEFT_TEST_STORE", folder.path());
        die_with_parent(&mut command);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let life = Duration::from_millis(30 + rng.random::<u64>() % 300);
        let pid = Pid::from_raw(child.id().cast_signed());
        let killer = std::thread::spawn(move || {
            std::thread::sleep(life);
            let _ = kill(pid, Signal::SIGKILL);
        });
        for line in lines.map_while(Result::ok) {
            let mut words = line.split(' ');
            if words.next() != Some("acknowledged") {
                continue;
            }
            let number: u16 = words.next().unwrap().parse().unwrap();
            let at = Generation(words.next().unwrap().parse().unwrap());
            let ops = ops(&model, number);
            apply(&mut model, &ops, at);
            kept += 1;
        }
        killer.join().unwrap();
        child.wait().unwrap();
        model = runtime().block_on(async {
            let store = Embedded::open(folder.path(), "test").unwrap();
            let found = contents(&store).await;
            check(&model, &found);
            found
        });
        wait_until_free(folder.path());
    }
    assert!(kept > 20, "the child did something: {kept} commits");
}

/// What is found is what was acknowledged, or one commit more.
fn check(model: &Contents, found: &Contents) {
    let mut expected = model.clone();
    let newer: Vec<_> =
        found.iter().filter(|(key, (generation, _))| model.get(key).is_none_or(|(known, _)| generation > known)).collect();
    if let Some((_, (at, record))) = newer.first() {
        let number = record.writes[0].update.number as u16;
        let last = ops(model, number);
        assert_eq!(newer.len(), last.len(), "a commit is there in part");
        apply(&mut expected, &last, *at);
    }
    assert_eq!(found, &expected);
}

#[test]
fn a_power_loss_at_any_write_loses_no_acknowledged_commit() {
    let runtime = runtime();
    let mut rng = stream(2, Stream::Traffic);
    for life in 0..60 {
        runtime.block_on(one_life_with_power_loss(life, &mut rng));
    }
}

async fn one_life_with_power_loss(life: usize, rng: &mut Pcg64) {
    let disk = Disk::default();
    let store = Embedded::on_backend(
        {
            let disk = disk.clone();
            move || disk.clone()
        },
        "test",
    )
    .unwrap();
    let mut model = Contents::new();
    for number in 0..rng.random::<u16>() % 20 {
        commit(&store, &mut model, number).await;
    }
    disk.fail_in(rng.random::<u64>() as usize % 60, ErrorKind::Other);
    for number in 100..200 {
        if !commit(&store, &mut model, number).await {
            break;
        }
    }
    let after = disk.after_power_loss(rng);
    let store = Embedded::on_backend(move || after.clone(), "test").unwrap_or_else(|error| panic!("life {life}: {error}"));
    let found = contents(&store).await;
    check(&model, &found);
    let mut model = found;
    assert!(commit(&store, &mut model, 300).await, "it goes on");
}

async fn commit(store: &Embedded, model: &mut Contents, number: u16) -> bool {
    let ops = ops(model, number);
    match store.commit(ops.clone(), Generation(0)).await.result {
        CommitResult::Done(at) => apply(model, &ops, at),
        CommitResult::Failed => return false,
        CommitResult::Conflict(held) => panic!("{held:?}"),
    }
    true
}

#[test]
fn a_full_disk_refuses_commits_and_goes_on_when_there_is_room_again() {
    runtime().block_on(async {
        for operations in 0..12 {
            let disk = Disk::default();
            let store = Embedded::on_backend(
                {
                    let disk = disk.clone();
                    move || disk.clone()
                },
                "test",
            )
            .unwrap();
            let mut model = Contents::new();
            for number in 0..20 {
                assert!(commit(&store, &mut model, number).await);
            }
            disk.fail_in(operations, ErrorKind::StorageFull);
            let mut tried = 0;
            while commit(&store, &mut model, 100 + tried).await {
                tried += 1;
            }
            assert!(store.status().await.is_err(), "it is not well");
            disk.heal();
            store.status().await.unwrap();
            let found = contents(&store).await;
            check(&model, &found);
            model = found;
            assert!(commit(&store, &mut model, 200).await);
        }
    });
}
