//! What the daemons of a lab take of memory as they grow old.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use weft_lab::programs;

use crate::support::TestLab;

/// A daemon is looked at so often.
const EVERY: Duration = Duration::from_secs(20);
/// What a daemon takes when it is that old is what it needs; before, its caches and tables fill.
const GROWN_UP: Duration = Duration::from_secs(120);
/// And only then it can be said whether it grows.
const OLD: Duration = Duration::from_secs(600);
/// What it may grow in the time between: a twentieth, and what an allocator keeps.
const GROWTH: f64 = 0.05;
const SLACK: u64 = 512 << 10;

/// The life of a daemon.
#[derive(Clone, Debug)]
struct Life {
    program: String,
    node: String,
    seen: Duration,
    grown_up: Option<u64>,
    last: u64,
    age: Duration,
}

/// All daemons of a lab, also those that have ended, by their process numbers.
#[derive(Debug, Default)]
pub struct Memory {
    lives: BTreeMap<i32, Life>,
    next: Duration,
}

impl Memory {
    /// Looks at all daemons if it is time to.
    pub fn look(&mut self, lab: &TestLab, now: Duration) {
        if now < self.next {
            return;
        }
        self.next = now + EVERY;
        let nodes = &lab.plan().nodes;
        let namespaces: Vec<String> = nodes.iter().map(|node| node.namespace.clone()).collect();
        for it in programs::running(&namespaces).into_iter().filter(|it| it.program.starts_with("weft-")) {
            let new = || {
                let node =
                    nodes.iter().find(|node| node.namespace == it.namespace).map_or_else(String::new, |node| node.name.clone());
                Life { program: it.program.clone(), node, seen: now, grown_up: None, last: 0, age: Duration::ZERO }
            };
            let life = self.lives.entry(it.pid).or_insert_with(new);
            life.age = now - life.seen;
            life.last = it.rss_bytes;
            if life.age >= GROWN_UP {
                life.grown_up.get_or_insert(it.rss_bytes);
            }
        }
    }

    /// Those that became old, with what they took when they were grown up.
    fn old(&self) -> impl Iterator<Item = (&Life, u64)> {
        self.lives.values().filter(|life| life.age >= OLD).filter_map(|life| Some((life, life.grown_up?)))
    }

    pub fn assert_steady(&self) {
        for (life, then) in self.old() {
            let limit = then + (then as f64 * GROWTH) as u64 + SLACK;
            assert!(
                life.last <= limit,
                "{} of {} grew from {then} to {} bytes in {:?}",
                life.program,
                life.node,
                life.last,
                life.age
            );
        }
    }
}

impl fmt::Display for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let growth = |(life, then): &(&Life, u64)| life.last.cast_signed() - then.cast_signed();
        match self.old().max_by_key(growth) {
            None => writeln!(f, "no daemon became {OLD:?} old: memory is not compared"),
            Some((life, then)) => writeln!(
                f,
                "{} of {} daemons became {OLD:?} old; the largest growth is that of {} of {}: {then} to {} bytes in {:.0?}",
                self.old().count(),
                self.lives.len(),
                life.program,
                life.node,
                life.last,
                life.age
            ),
        }
    }
}
