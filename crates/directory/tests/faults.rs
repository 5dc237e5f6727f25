//! Three servers on an etcd of three members, all real processes, and what goes wrong: no acknowledged update is lost, what writers saw of a
//! key can be put in one order, and lookups are answered throughout.

#![allow(clippy::disallowed_methods)] // Processes live by the wall clock.

#[path = "../../sim/tests/directory/history.rs"]
mod history;
mod support;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use history::{Action, Operation, is_linearizable};
use support::cluster::{Relay, Servers};
use support::etcd::Etcd;
use support::model::{key, value_of};
use support::{agent, lossy};
use weft_control::directory::attempts::UpdateResult;
use weft_control::directory::{Generation, Key, Locator, Value};
use weft_control::wire::directory::{Finding, Op};
use weft_directory::client::Updated;

/// Keys that all writers change.
const KEYS: u8 = 6;

/// How the two writers write.
#[derive(Clone, Copy)]
struct Writers {
    /// How long an update is tried.
    timeout: Duration,
    /// Whether they change the same keys.
    share: bool,
}

/// Writers and readers at work, and what they saw.
struct Work {
    begun: Instant,
    stop: Arc<AtomicBool>,
    writers: Vec<JoinHandle<Vec<(Key, Operation)>>>,
    readers: Vec<JoinHandle<(u64, Duration)>>,
    acknowledged: Arc<AtomicU64>,
    /// How long updates may stand still.
    limit: Duration,
}

impl Work {
    /// Begins; all writers change all keys.
    fn begin(addresses: &[String]) -> Self {
        Self::begin_as(addresses, Writers { timeout: Duration::from_secs(4), share: true })
    }

    /// Begins with writers that wait for every answer, and each with keys of its own: a writer whose copies are lost for some seconds, while others
    /// write its key more often than its record remembers, is rightly answered that nobody knows what became of its update.
    fn begin_patiently(addresses: &[String]) -> Self {
        Self::begin_as(addresses, Writers { timeout: Duration::from_secs(60), share: false })
    }

    fn begin_as(addresses: &[String], writers: Writers) -> Self {
        let limit = writers.timeout.max(Duration::from_secs(15));
        let (begun, stop, acknowledged) = (Instant::now(), Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        // A first value of every key, so that readers always find something.
        let mut client = Servers::client(addresses, writers.timeout.max(Duration::from_secs(10)));
        let mut first = Vec::new();
        for number in 0..KEYS {
            first.push(put(&mut client, begun, key(number), u16::from(number), &acknowledged));
        }
        // A server that has not heard of the last of them yet is not asked.
        let at_least = Generation(first.iter().filter_map(|(_, operation)| generation(operation)).max().unwrap());
        let first = std::thread::spawn(move || first);
        let writer = |at: u16| {
            let (addresses, stop, acknowledged) = (addresses.to_vec(), stop.clone(), acknowledged.clone());
            std::thread::spawn(move || write(&addresses, writers, begun, at, &stop, &acknowledged))
        };
        let reader = |_| {
            let (addresses, stop) = (addresses.to_vec(), stop.clone());
            std::thread::spawn(move || read(&addresses, at_least, &stop))
        };
        let writers = std::iter::once(first).chain((0..2).map(writer)).collect();
        Self { begun, stop: stop.clone(), writers, readers: (0..2).map(reader).collect(), acknowledged, limit }
    }

    /// Waits until so many more updates were acknowledged; how long that took.
    fn progress(&self, updates: u64) -> Duration {
        let (from, begun) = (self.acknowledged.load(Ordering::Relaxed), Instant::now());
        while self.acknowledged.load(Ordering::Relaxed) < from + updates {
            assert!(begun.elapsed() < self.limit, "updates do not go on");
            std::thread::sleep(Duration::from_millis(5));
        }
        begun.elapsed()
    }

    /// Ends the work, reads what is there now, and judges. How many updates had no answer.
    fn end(self, addresses: &[String]) -> usize {
        self.stop.store(true, Ordering::Relaxed);
        let mut histories: BTreeMap<Key, Vec<Operation>> = BTreeMap::new();
        for writer in self.writers {
            for (key, operation) in writer.join().unwrap() {
                histories.entry(key).or_default().push(operation);
            }
        }
        for reader in self.readers {
            let (lookups, longest) = reader.join().unwrap();
            eprintln!("{lookups} lookups, the longest {longest:?}");
            assert!(lookups > 100);
        }
        let newest = histories.values().flatten().filter_map(generation).max().unwrap();
        let mut client = Servers::client(addresses, Duration::from_secs(10));
        for (key, history) in &mut histories {
            let call = now(self.begun);
            let found = client.look_up(&[*key], None, Generation(newest)).unwrap().findings.remove(0);
            let (generation, Finding::Found(value)) = found else { panic!("{key} is gone: {found:?}") };
            let last = history.iter().filter_map(self::generation).max().unwrap();
            assert!(generation.0 >= last, "{key}: an acknowledged update of generation {last} is lost");
            let action = Action::Read { value: Some(number_of(&value)), generation: generation.0 };
            history.push(Operation { call, returned: Some(now(self.begun)), action });
            assert!(is_linearizable(history), "{key}: {history:?}");
        }
        let updates = histories.values().flatten().filter_map(self::generation).count();
        let unknown = histories.values().flatten().filter(|it| matches!(it.action, Action::MayWrite { .. })).count();
        eprintln!("{updates} updates acknowledged, {unknown} without an answer");
        unknown
    }
}

/// Changes keys in turn until it is stopped.
fn write(
    addresses: &[String],
    writers: Writers,
    begun: Instant,
    at: u16,
    stop: &AtomicBool,
    acknowledged: &AtomicU64,
) -> Vec<(Key, Operation)> {
    let mut client = Servers::client(addresses, writers.timeout);
    let mut history = Vec::new();
    for number in 0.. {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let value = 1000 + at * 20_000 + number;
        let turn = if writers.share { value % u16::from(KEYS) } else { value % (u16::from(KEYS) / 2) * 2 + at };
        history.push(put(&mut client, begun, key(turn as u8), value, acknowledged));
        std::thread::sleep(Duration::from_millis(5));
    }
    history
}

fn put(
    client: &mut weft_directory::client::Client,
    begun: Instant,
    key: Key,
    number: u16,
    acknowledged: &AtomicU64,
) -> (Key, Operation) {
    let call = now(begun);
    let value = Some(u64::from(number));
    let op = Op { key, expect: None, value: Some(value_of(number)) };
    let (returned, action) = match client.update(vec![op], None) {
        Ok(Updated { result: UpdateResult::Committed(generation), .. }) => {
            acknowledged.fetch_add(1, Ordering::Relaxed);
            (Some(now(begun)), Action::Wrote { value, expect: None, generation: generation.0 })
        }
        Ok(updated) => {
            assert!(matches!(updated.result, UpdateResult::NotApplied | UpdateResult::Unknown), "{updated:?}");
            (None, Action::MayWrite { value, expect: None })
        }
        Err(_) => (None, Action::MayWrite { value, expect: None }),
    };
    (key, Operation { call, returned, action })
}

/// Looks up until it is stopped: every lookup is answered, with every key found, and no generation goes back. How many, and the longest.
fn read(addresses: &[String], at_least: Generation, stop: &AtomicBool) -> (u64, Duration) {
    let mut client = Servers::client(addresses, Duration::from_secs(2));
    let keys: Vec<Key> = (0..KEYS).map(key).collect();
    let (mut count, mut longest) = (0, Duration::ZERO);
    while !stop.load(Ordering::Relaxed) {
        let asked = Instant::now();
        let answer = client.look_up(&keys, None, at_least).expect("a lookup is answered");
        assert!(answer.findings.iter().all(|(_, finding)| matches!(finding, Finding::Found(_))), "{answer:?}");
        longest = longest.max(asked.elapsed());
        count += 1;
        std::thread::sleep(Duration::from_millis(1));
    }
    (count, longest)
}

fn generation(operation: &Operation) -> Option<u64> {
    if let Action::Wrote { generation, .. } = operation.action { Some(generation) } else { None }
}

fn number_of(value: &Value) -> u64 {
    let Some(Locator::V4(ip)) = value.mapping().map(|mapping| mapping.locator) else { panic!("{value:?}") };
    u64::from(u32::from(ip) & 0xffff)
}

fn now(begun: Instant) -> weft_fabric::Instant {
    weft_fabric::Instant::from_ps(begun.elapsed().as_nanos() as u64 * 1000)
}

#[test]
fn servers_and_members_of_etcd_die_and_hang() {
    let Some(mut etcd) = Etcd::start(3) else { return };
    let mut servers = Servers::start(3, &format!("etcd:{}", etcd.urls().join(",")));
    let addresses = servers.addresses();
    let work = Work::begin(&addresses);
    work.progress(20);

    servers.kill_and_restart(0, Duration::from_millis(300));
    eprintln!("a server killed: 20 updates took {:?}", work.progress(20));

    servers.signal(1, libc::SIGSTOP);
    eprintln!("a server stopped: 20 updates took {:?}", work.progress(20));
    servers.signal(1, libc::SIGCONT);

    let leader = etcd.leader().expect("etcd has a leader");
    etcd.kill(leader);
    eprintln!("etcd's leader killed: 20 updates took {:?}", work.progress(20));
    etcd.restart(leader);
    etcd.wait();

    let leader = etcd.leader().expect("etcd has a leader");
    etcd.signal(leader, libc::SIGSTOP);
    eprintln!("etcd's leader stopped: 20 updates took {:?}", work.progress(20));
    etcd.compact_at((leader + 1) % 3);
    etcd.signal(leader, libc::SIGCONT);
    eprintln!("etcd compacted during a watch: 20 updates took {:?}", work.progress(20));

    work.end(&addresses);
    assert_eq!(servers.terminate(2), Some(0), "SIGTERM ends a server well");
}

#[test]
fn timing_one_datagram_in_ten_is_lost() {
    if lossy::run(100, three_servers_lose_one_datagram_in_ten).is_none() {
        eprintln!("datagrams are lost by a relay between clients and servers instead");
        let Some(etcd) = Etcd::start(1) else { return };
        let servers = Servers::start(2, &format!("etcd:{}", etcd.urls().join(",")));
        let relays: Vec<Relay> = servers.addresses().iter().zip(1..).map(|(server, seed)| Relay::to(server, seed)).collect();
        let lossy: Vec<String> = relays.iter().map(|relay| relay.address.to_string()).collect();
        let work = Work::begin_patiently(&lossy);
        work.progress(30);
        assert_eq!(work.end(&lossy), 0, "every update completes");
    }
}

/// Between clients and servers, and from server to server.
fn three_servers_lose_one_datagram_in_ten() {
    let Some(etcd) = Etcd::start(1) else { return };
    let servers = Servers::start(3, &format!("etcd:{}", etcd.urls().join(",")));
    let addresses = servers.addresses();
    let work = Work::begin_patiently(&addresses);
    let keys: Vec<Key> = (0..KEYS).map(key).collect();
    // Others use the machine too: of three rounds the best shows what the directory takes.
    let mut best = Duration::MAX;
    for round in 0..3 {
        let seen = agent::look_up(&addresses, &keys, 3000, Duration::from_millis(1), round);
        let [median, p99, longest] = [0.5, 0.99, 1.0].map(|quantile| seen.quantile(quantile));
        eprintln!("3000 lookups, {} sent again: median {median:?}, p99 {p99:?}, longest {longest:?}", seen.counts.retries);
        assert_eq!(seen.failed, 0, "no lookup fails");
        assert!(seen.counts.retries > 30, "datagrams were lost");
        best = best.min(p99);
        if best < Duration::from_millis(10) {
            break;
        }
    }
    assert!(best < Duration::from_millis(10), "p99 is {best:?}");
    work.progress(10);
    assert_eq!(work.end(&addresses), 0, "every update completes");
}

/// A small disk in memory.
struct Tmpfs<'a>(&'a Path);

impl Drop for Tmpfs<'_> {
    fn drop(&mut self) {
        let _ = Command::new("umount").args(["--lazy", self.0.to_str().unwrap()]).status();
    }
}

#[test]
fn a_full_disk_stops_updates_and_not_lookups() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", "size=12m", "tmpfs", path]).output();
    if !mounted.is_ok_and(|out| out.status.success()) {
        eprintln!("skipped: only root can mount a small disk");
        return;
    }
    let _mounted = Tmpfs(folder.path());
    let mut servers = Servers::start(1, &format!("embedded:{path}/store"));
    let addresses = servers.addresses();
    let mut client = Servers::client(&addresses, Duration::from_secs(3));
    let (begun, acknowledged) = (Instant::now(), AtomicU64::new(0));
    assert!(generation(&put(&mut client, begun, key(0), 1, &acknowledged).1).is_some());

    // Whatever room is left goes to a file; the store cannot grow then.
    let filler = folder.path().join("filler");
    let mut file = std::fs::File::create(&filler).unwrap();
    while std::io::Write::write(&mut file, &[0; 4096]).is_ok_and(|written| written > 0) {}
    let mut last = 1;
    let mut refused = false;
    for number in 2..2000 {
        let ops = (0..30).map(|at| Op {
            key: Key::App4((u32::from(number) * 30 + at).into()),
            expect: None,
            value: Some(value_of(number)),
        });
        let updated = client.update(ops.collect(), None);
        if !updated.is_ok_and(|updated| matches!(updated.result, UpdateResult::Committed(_))) {
            refused = true;
            break;
        }
        last = number;
    }
    assert!(refused, "the disk never became full");
    for _ in 0..100 {
        let found = client.look_up(&[key(0), Key::App4((u32::from(last) * 30).into())], None, Generation(0)).unwrap();
        assert!(last == 1 || matches!(found.findings[1].1, Finding::Found(_)), "{found:?}");
        assert!(matches!(found.findings[0].1, Finding::Found(_)), "{found:?}");
    }
    drop(file);
    std::fs::remove_file(&filler).unwrap();
    let begun = Instant::now();
    while generation(&put(&mut client, begun, key(0), 2, &acknowledged).1).is_none() {
        assert!(begun.elapsed() < Duration::from_secs(10), "updates go on when there is room again");
    }
    servers.kill_and_restart(0, Duration::ZERO);
    let found = client.look_up(&[key(0)], None, Generation(0)).unwrap();
    assert!(matches!(&found.findings[0].1, Finding::Found(value) if number_of(value) == 2), "{found:?}");
}
