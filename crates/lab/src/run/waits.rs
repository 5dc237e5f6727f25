//! How long the programs of a lab wait for a processor although they could run, by the kernel's counters of each thread (`/proc/PID/task/TID/schedstat`).
//!
//! Idle time alone does not show it: a program that has to run on a busy processor waits while others are idle, and what runs at a lower priority counts as
//! idle. The threads of the kernel that forward packets where interrupts come too fast (`ksoftirqd`) and those of this process count too.

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration as StdDuration;

use weft_fabric::record::CpuWait;
use weft_fabric::{Duration, Instant};

use crate::plan::Plan;
use crate::programs;

/// The waits of all programs.
pub(super) struct Waits {
    namespaces: Vec<String>,
    /// The node of each.
    nodes: Vec<String>,
    threads: BTreeMap<(i32, i32), Thread>,
    /// When programs are looked for again: events may start some.
    look_at: Instant,
    sample_at: Instant,
    longest: Option<CpuWait>,
}

/// A thread, and its counter when it was last read.
struct Thread {
    program: String,
    node: String,
    waited: Option<StdDuration>,
    /// When it was last seen asleep.
    asleep_at: Option<Instant>,
}

impl Waits {
    pub(super) fn new(plan: &Plan) -> Self {
        let of = |name: fn(&crate::plan::Node) -> &String| plan.nodes.iter().map(|node| name(node).clone()).collect();
        Self {
            namespaces: of(|node| &node.namespace),
            nodes: of(|node| &node.name),
            threads: BTreeMap::new(),
            look_at: Instant::ZERO,
            sample_at: Instant::ZERO,
            longest: None,
        }
    }

    /// Reads the counters if they are due.
    pub(super) fn sample(&mut self, now: Instant) {
        if now < self.sample_at {
            return;
        }
        self.sample_at = now + SAMPLE_EVERY;
        if now >= self.look_at {
            self.look_at = now + LOOK_EVERY;
            self.look();
        }
        self.read(now);
    }

    /// The longest wait until now; `None` if the kernel counts none.
    pub(super) fn longest(mut self, now: Instant) -> Option<CpuWait> {
        self.read(now);
        self.longest
    }

    fn read(&mut self, now: Instant) {
        for (&(pid, tid), thread) in &mut self.threads {
            let Some(waited) = waited(pid, tid) else { continue };
            // It cannot have waited since before it slept: kernels from 6.12 on may count the sleep of a thread that they move to another processor as a wait.
            let most = thread.asleep_at.map(|at| now.saturating_since(at));
            if is_asleep(pid, tid) {
                thread.asleep_at = Some(now);
            }
            // What it waited before the first reading is not of this run.
            let since = thread.waited.replace(waited).map_or(StdDuration::ZERO, |before| waited.saturating_sub(before));
            let length = Duration::from_ns(u64::try_from(since.as_nanos()).unwrap_or(u64::MAX));
            let length = most.map_or(length, |most| length.min(most));
            if self.longest.as_ref().is_none_or(|longest| longest.length < length) {
                self.longest = Some(CpuWait { program: thread.program.clone(), node: thread.node.clone(), length });
            }
        }
    }

    fn look(&mut self) {
        let mut found: Vec<(i32, String, String)> = programs::named(&self.namespaces)
            .into_iter()
            .map(|(pid, program, at)| (pid, program, self.nodes[at].clone()))
            .chain(programs::of_kernel(FORWARDER).into_iter().map(|(pid, name)| (pid, name, String::new())))
            .collect();
        found.push((std::process::id() as i32, "weft".to_owned(), String::new()));
        let mut threads = BTreeMap::new();
        for (pid, program, node) in found {
            for tid in programs::threads(pid) {
                let new = || Thread { program: program.clone(), node: node.clone(), waited: None, asleep_at: None };
                threads.insert((pid, tid), self.threads.remove(&(pid, tid)).unwrap_or_else(new));
            }
        }
        self.threads = threads;
    }
}

/// The time that a thread has waited since it began: the second of three counters, in nanoseconds.
fn waited(pid: i32, tid: i32) -> Option<StdDuration> {
    let text = fs::read_to_string(format!("/proc/{pid}/task/{tid}/schedstat")).ok()?;
    text.split_ascii_whitespace().nth(1)?.parse().ok().map(StdDuration::from_nanos)
}

/// Whether a thread waits for something else than a processor.
fn is_asleep(pid: i32, tid: i32) -> bool {
    let text = fs::read_to_string(format!("/proc/{pid}/task/{tid}/stat")).unwrap_or_default();
    text.rsplit_once(") ").is_some_and(|(_, state)| !state.starts_with('R'))
}

/// Two readings of the counters: a thread that waited longer than this between them did so at a stretch.
const SAMPLE_EVERY: Duration = Duration::from_ms(250);
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// The kernel's threads that process packets.
const FORWARDER: &str = "ksoftirqd/";
