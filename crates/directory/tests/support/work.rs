//! Writers and readers at work on a directory while things go wrong, and whether what they saw is right: no acknowledged update is lost, what writers
//! saw of a key can be put in one order, lookups are answered throughout and no generation goes back.

#![allow(dead_code)] // Each test file uses its own part.

#[path = "../../../sim/tests/directory/history.rs"]
mod history;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use history::{Action, Operation, is_linearizable};
use weft_control::directory::attempts::UpdateResult;
use weft_control::directory::{Generation, Key, Locator, Value};
use weft_control::wire::directory::{Finding, Op};
use weft_directory::client::{Client, Updated};

use crate::support::cluster::Servers;
use crate::support::model::{key, value_of};

/// Keys that all writers change.
pub const KEYS: u8 = 6;

/// How the two writers write.
#[derive(Clone, Copy)]
pub struct Writers {
    /// How long an update is tried.
    pub timeout: Duration,
    /// Whether they change the same keys.
    pub share: bool,
    /// Whether every third update asks for the generation that the writer knows.
    pub compare: bool,
    /// How long updates may stand still.
    pub limit: Duration,
    /// How long a lookup may take.
    pub lookup_limit: Duration,
}

/// Writers and readers at work, and what they saw.
pub struct Work {
    begun: Instant,
    stop: Arc<AtomicBool>,
    writers: Vec<JoinHandle<Vec<(Key, Operation)>>>,
    readers: Vec<JoinHandle<(u64, Duration)>>,
    acknowledged: Arc<AtomicU64>,
    limit: Duration,
}

/// What they saw, in numbers.
#[derive(Default)]
pub struct Outcome {
    /// Updates that were acknowledged.
    pub acknowledged: usize,
    /// Updates that did not find the generation that they asked for.
    pub conflicts: usize,
    /// Updates without an answer, with what they asked for.
    pub unanswered: Vec<(Key, Operation)>,
    /// Lookups, all of them answered.
    pub lookups: u64,
    /// The longest lookup.
    pub longest_lookup: Duration,
    /// The longest time in which no update was acknowledged.
    pub longest_pause: Duration,
    /// The newest update.
    pub newest: Generation,
}

/// A writer of its own thread.
struct Writer<'a> {
    client: Client,
    begun: Instant,
    acknowledged: &'a AtomicU64,
}

impl Writers {
    /// Each with keys of its own, and so long for each update.
    const fn patient(timeout: Duration) -> Self {
        Self { timeout, share: false, compare: false, limit: timeout, lookup_limit: Duration::from_secs(2) }
    }
}

impl Work {
    /// Begins; all writers change all keys.
    pub fn begin(addresses: &[String]) -> Self {
        let writers = Writers { share: true, limit: Duration::from_secs(15), ..Writers::patient(Duration::from_secs(4)) };
        Self::begin_as(addresses, writers, Vec::new())
    }

    /// Begins with writers that wait for every answer, and each with keys of its own: a writer whose copies are lost for some seconds, while others
    /// write its key more often than its record remembers, is rightly answered that nobody knows what became of its update.
    pub fn begin_patiently(addresses: &[String]) -> Self {
        Self::begin_as(addresses, Writers::patient(Duration::from_secs(60)), Vec::new())
    }

    /// Begins where earlier updates have had no answer, which may still happen.
    pub fn begin_as(addresses: &[String], writers: Writers, earlier: Vec<(Key, Operation)>) -> Self {
        let (begun, stop, acknowledged) = (Instant::now(), Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        // A first value of every key, so that readers always find something.
        let client = Servers::client(addresses, writers.timeout.max(Duration::from_secs(10)));
        let mut writer = Writer { client, begun, acknowledged: &acknowledged };
        let mut first: Vec<_> = (0..KEYS).map(|number| writer.put(key(number), u16::from(number), None)).collect();
        // A server that has not heard of the last of them yet is not asked.
        let at_least = Generation(first.iter().filter_map(|(_, operation)| generation(operation)).max().unwrap());
        first.extend(earlier);
        let first = std::thread::spawn(move || first);
        let writer = |at: u16| {
            let (addresses, stop, acknowledged) = (addresses.to_vec(), stop.clone(), acknowledged.clone());
            std::thread::spawn(move || write(&addresses, writers, begun, at, &stop, &acknowledged))
        };
        let reader = |_| {
            let (addresses, stop) = (addresses.to_vec(), stop.clone());
            std::thread::spawn(move || read(&addresses, writers.lookup_limit, at_least, &stop))
        };
        let threads = std::iter::once(first).chain((0..2).map(writer)).collect();
        let readers = (0..2).map(reader).collect();
        Self { begun, stop: stop.clone(), writers: threads, readers, acknowledged, limit: writers.limit }
    }

    /// Waits until so many more updates were acknowledged; how long that took.
    pub fn progress(&self, updates: u64) -> Duration {
        let (from, begun) = (self.acknowledged.load(Ordering::Relaxed), Instant::now());
        while self.acknowledged.load(Ordering::Relaxed) < from + updates {
            assert!(begun.elapsed() < self.limit, "updates do not go on");
            std::thread::sleep(Duration::from_millis(5));
        }
        begun.elapsed()
    }

    /// Since it began.
    pub fn elapsed(&self) -> Duration {
        self.begun.elapsed()
    }

    /// Ends the work, reads what is there now, and judges.
    pub fn end(self, addresses: &[String]) -> Outcome {
        self.stop.store(true, Ordering::Relaxed);
        let mut histories: BTreeMap<Key, Vec<Operation>> = BTreeMap::new();
        for writer in self.writers {
            for (key, operation) in writer.join().unwrap() {
                histories.entry(key).or_default().push(operation);
            }
        }
        let (mut lookups, mut longest_lookup) = (0, Duration::ZERO);
        for reader in self.readers {
            let (count, longest) = reader.join().unwrap();
            assert!(count > 100);
            lookups += count;
            longest_lookup = longest_lookup.max(longest);
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
            assert!(is_linearizable(history), "{key}: no order explains {history:?}");
        }
        let all = || histories.iter().flat_map(|(key, history)| history.iter().map(|operation| (*key, operation.clone())));
        let mut answered: Vec<_> = all().filter(|(_, it)| generation(it).is_some()).filter_map(|(_, it)| it.returned).collect();
        answered.sort_unstable();
        let outcome = Outcome {
            acknowledged: answered.len(),
            conflicts: all().filter(|(_, it)| matches!(it.action, Action::Conflicted { .. })).count(),
            unanswered: all().filter(|(_, it)| matches!(it.action, Action::MayWrite { .. })).collect(),
            lookups,
            longest_lookup,
            newest: Generation(newest),
            longest_pause: answered
                .windows(2)
                .map(|pair| Duration::from_nanos(pair[1].saturating_since(pair[0]).as_ps() / 1000))
                .max()
                .unwrap_or_default(),
        };
        eprintln!("{outcome}");
        outcome
    }
}

impl Outcome {
    /// Adds what another saw.
    pub fn add(&mut self, other: &Self) {
        self.acknowledged += other.acknowledged;
        self.conflicts += other.conflicts;
        self.unanswered.extend_from_slice(&other.unanswered);
        self.lookups += other.lookups;
        self.longest_lookup = self.longest_lookup.max(other.longest_lookup);
        self.longest_pause = self.longest_pause.max(other.longest_pause);
        self.newest = self.newest.max(other.newest);
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { acknowledged, conflicts, unanswered, lookups, longest_lookup, longest_pause, .. } = self;
        let unanswered = unanswered.len();
        write!(f, "{acknowledged} updates acknowledged, none lost, {conflicts} conflicts, {unanswered} without an answer, ")?;
        write!(f, "the longest pause {longest_pause:.2?}; {lookups} lookups, the longest {longest_lookup:.2?}")
    }
}

impl Writer<'_> {
    /// Puts a value, if the key has the expected generation.
    fn put(&mut self, key: Key, number: u16, expect: Option<u64>) -> (Key, Operation) {
        let call = now(self.begun);
        let value = Some(u64::from(number));
        let op = Op { key, expect: expect.map(Generation), value: Some(value_of(number)) };
        let answer = self.client.update(vec![op], None).map(|Updated { result, .. }| result);
        let (returned, action) = match (answer, expect) {
            (Ok(UpdateResult::Committed(generation)), _) => {
                self.acknowledged.fetch_add(1, Ordering::Relaxed);
                (Some(now(self.begun)), Action::Wrote { value, expect, generation: generation.0 })
            }
            (Ok(UpdateResult::Conflict { generation, .. }), Some(expect)) => {
                (Some(now(self.begun)), Action::Conflicted { expect, generation: generation.0 })
            }
            (Ok(UpdateResult::NotApplied | UpdateResult::Unknown) | Err(_), _) => (None, Action::MayWrite { value, expect }),
            (Ok(other), _) => panic!("{other:?}"),
        };
        (key, Operation { call, returned, action })
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
    let mut writer = Writer { client: Servers::client(addresses, writers.timeout), begun, acknowledged };
    let mut history = Vec::new();
    let mut known = [None; KEYS as usize];
    for number in 0.. {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let value = 1000 + at * 20_000 + number;
        let turn = if writers.share { value % u16::from(KEYS) } else { value % (u16::from(KEYS) / 2) * 2 + at };
        let expect = known[usize::from(turn)].filter(|_| writers.compare && number % 3 == 0);
        let (key, operation) = writer.put(key(turn as u8), value, expect);
        known[usize::from(turn)] = match operation.action {
            Action::Wrote { generation, .. } | Action::Conflicted { generation, .. } => Some(generation),
            _ => None,
        };
        history.push((key, operation));
        std::thread::sleep(Duration::from_millis(5));
    }
    history
}

/// Looks up until it is stopped: every lookup is answered, with every key found, and no generation goes back. How many, and the longest.
fn read(addresses: &[String], limit: Duration, at_least: Generation, stop: &AtomicBool) -> (u64, Duration) {
    let mut client = Servers::client(addresses, limit);
    let keys: Vec<Key> = (0..KEYS).map(key).collect();
    let (mut count, mut longest) = (0, Duration::ZERO);
    while !stop.load(Ordering::Relaxed) {
        let asked = Instant::now();
        let answer = client.look_up(&keys, None, at_least).expect("a lookup is answered");
        assert!(answer.findings.iter().all(|(_, finding)| matches!(finding, Finding::Found(_))), "{answer:?}");
        longest = longest.max(asked.elapsed());
        count += 1;
        std::thread::sleep(Duration::from_millis(3));
    }
    (count, longest)
}

fn generation(operation: &Operation) -> Option<u64> {
    if let Action::Wrote { generation, .. } = operation.action { Some(generation) } else { None }
}

/// The number of a value that a writer put.
pub fn number_of(value: &Value) -> u64 {
    let Some(Locator::V4(ip)) = value.mapping().map(|mapping| mapping.locator) else { panic!("{value:?}") };
    u64::from(u32::from(ip) & 0xffff)
}

fn now(begun: Instant) -> weft_fabric::Instant {
    weft_fabric::Instant::from_ps(begun.elapsed().as_nanos() as u64 * 1000)
}
