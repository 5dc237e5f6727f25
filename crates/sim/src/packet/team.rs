//! One run on several cores: the fabric in parts, each with an engine of its own, in step.
//!
//! ```text
//!   part 0   |--- window ---|--- window ---|       a window is shorter than any packet takes from node to node:
//!                     \  mail       /              what one part sends within it arrives in the other after it
//!   part 1   |--- window ---|--- window ---|
//! ```
//! Parts share nothing: a port belongs to the part of its sending node, a flow's ends to those of its hosts. A packet for another part is
//! posted, and entered there before the next window. Within a part events are taken by time and link as in one engine, and events of
//! different parts of one window touch different state: so the result is the same bytes, whatever the number of parts.
//!
//! Windows are cut at multiples of the look-ahead, also with one part, because flows' ends are reported at the end of a window.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;

use weft_fabric::Fabric;

use super::net::{Ended, LOOK_EVERY, Mail, Net};

/// Engines that run in step. The first is driven by the caller's thread, each other one by a thread of its own.
pub(super) struct Team {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    /// Windows until the events are counted again, and how many there were at the last look.
    stride: u64,
    looked: u64,
}

struct Shared {
    nets: Vec<Mutex<Net>>,
    /// Length of a window, in picoseconds.
    window: u64,
    barrier: Barrier,
    /// Counts the runs that were asked for.
    runs: AtomicU64,
    until: AtomicU64,
    quit: AtomicBool,
    /// What parts exchange at the end of a window; two sets, taken in turn, because a part may be one window ahead.
    boards: [Board; 2],
}

struct Board {
    /// From part i to part j: `mail[i * parts + j]`.
    mail: Vec<Mutex<Mail>>,
    /// By part: no event comes before this, in it or by its mail.
    next: Vec<AtomicU64>,
    /// By part: whether flows have ended in it.
    ended: Vec<AtomicBool>,
}

impl Team {
    /// Engines of one fabric, which know their parts; windows of `window` ps.
    pub fn new(nets: Vec<Net>, window: u64) -> Self {
        let parts = nets.len();
        let shared = Arc::new(Shared {
            nets: nets.into_iter().map(Mutex::new).collect(),
            window: window.max(1),
            barrier: Barrier { parts, arrived: AtomicUsize::new(0), turn: AtomicUsize::new(0), broken: AtomicBool::new(false) },
            runs: AtomicU64::new(0),
            until: AtomicU64::new(0),
            quit: AtomicBool::new(false),
            boards: [Board::new(parts), Board::new(parts)],
        });
        let thread = |part| {
            let shared = Arc::clone(&shared);
            std::thread::spawn(move || shared.work(part))
        };
        let threads = (1..parts).map(thread).collect();
        Self { shared, threads, stride: 1, looked: 0 }
    }

    /// Every engine, one after the other.
    pub fn each(&self) -> impl Iterator<Item = MutexGuard<'_, Net>> {
        self.shared.nets.iter().map(|n| n.lock().expect("no engine panicked"))
    }

    /// One engine.
    pub fn part(&self, part: usize) -> MutexGuard<'_, Net> {
        self.shared.nets[part].lock().expect("no engine panicked")
    }

    /// Runs until just before `until`, or to the end of the window in which flows have ended: these are then in `ended`, by time and the
    /// link of their last packet. Returns the time. Reports to `look` the time and the events so far.
    pub fn run(&mut self, until: u64, ended: &mut Vec<Ended>, look: &mut dyn FnMut(u64, u64)) -> u64 {
        let before = ended.len();
        loop {
            // Cut where windows are cut anyway, so that looking changes nothing.
            let first = self.each().map(|net| net.next_event()).min().unwrap_or(u64::MAX);
            let stop = (first / self.shared.window).saturating_add(self.stride).saturating_mul(self.shared.window).min(until);
            let now = self.windows(stop);
            self.each().for_each(|mut net| net.take_ended(ended));
            let events: u64 = self.each().map(|net| net.totals.events).sum();
            if events - self.looked >= LOOK_EVERY {
                look(now, events);
                self.looked = events;
                self.stride = self.stride.div_ceil(2);
            } else {
                self.stride = (2 * self.stride).min(MAX_STRIDE);
            }
            if stop == until || ended.len() > before {
                self.each().for_each(|mut net| net.now = now);
                ended[before..].sort_unstable_by_key(|e| (e.at, e.link, e.flow));
                return now;
            }
        }
    }

    fn windows(&mut self, until: u64) -> u64 {
        self.shared.until.store(until, Ordering::Relaxed);
        self.shared.runs.fetch_add(1, Ordering::Release);
        self.shared.windows(0, until)
    }
}

impl Drop for Team {
    fn drop(&mut self) {
        self.shared.quit.store(true, Ordering::Relaxed);
        self.shared.runs.fetch_add(1, Ordering::Release);
        for thread in self.threads.drain(..) {
            // A panic there has been reported already.
            let _ = thread.join();
        }
    }
}

impl Shared {
    /// What the thread of a part does.
    fn work(&self, part: usize) {
        let mut seen = 0;
        loop {
            let mut spins = 0u32;
            while self.runs.load(Ordering::Acquire) == seen {
                rest(&mut spins);
            }
            seen += 1;
            if self.quit.load(Ordering::Relaxed) {
                return;
            }
            self.windows(part, self.until.load(Ordering::Relaxed));
        }
    }

    /// Window after window until `until`, or until flows have ended somewhere. All parts return the same time.
    fn windows(&self, part: usize, until: u64) -> u64 {
        let _breaks = Breaks(&self.barrier);
        let parts = self.nets.len();
        let mut net = self.nets[part].lock().expect("no engine panicked");
        let mut board = 0;
        let mut post = net.next_event();
        let mut ended = false;
        let now = loop {
            let here = &self.boards[board];
            board ^= 1;
            here.next[part].store(post, Ordering::Relaxed);
            here.ended[part].store(ended, Ordering::Relaxed);
            self.barrier.wait();
            for from in (0..parts).filter(|&p| p != part) {
                net.receive(&mut here.mail[from * parts + part].lock().expect("no engine panicked"));
            }
            let next = here.next.iter().map(|n| n.load(Ordering::Relaxed)).min().unwrap_or(u64::MAX);
            if here.ended.iter().any(|e| e.load(Ordering::Relaxed)) {
                break net.now;
            }
            if next >= until {
                break if until == u64::MAX { net.now } else { until };
            }
            let end = (next / self.window + 1).saturating_mul(self.window).min(until);
            net.run_window(end);
            ended = net.has_ended();
            post = net.next_event();
            let there = &self.boards[board];
            for to in (0..parts).filter(|&p| p != part) {
                let first = net.post(to, &mut there.mail[part * parts + to].lock().expect("no engine panicked"));
                post = post.min(first);
            }
        };
        drop(net);
        // Nobody begins the next run before all have let go of their engines.
        self.barrier.wait();
        now
    }
}

impl Board {
    fn new(parts: usize) -> Self {
        Self {
            mail: (0..parts * parts).map(|_| Mutex::default()).collect(),
            next: (0..parts).map(|_| AtomicU64::new(0)).collect(),
            ended: (0..parts).map(|_| AtomicBool::new(false)).collect(),
        }
    }
}

/// All parts meet here. They spin: a window lasts microseconds.
struct Barrier {
    parts: usize,
    arrived: AtomicUsize,
    turn: AtomicUsize,
    /// A part has panicked and will never come.
    broken: AtomicBool,
}

/// Breaks the barrier if its part panics, so that the others do not wait for ever.
struct Breaks<'a>(&'a Barrier);

impl Drop for Breaks<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.broken.store(true, Ordering::Relaxed);
        }
    }
}

impl Barrier {
    fn wait(&self) {
        if self.parts == 1 {
            return;
        }
        let turn = self.turn.load(Ordering::Acquire);
        if self.arrived.fetch_add(1, Ordering::AcqRel) + 1 == self.parts {
            self.arrived.store(0, Ordering::Relaxed);
            self.turn.store(turn.wrapping_add(1), Ordering::Release);
            return;
        }
        let mut spins = 0u32;
        while self.turn.load(Ordering::Acquire) == turn {
            assert!(!self.broken.load(Ordering::Relaxed), "the engine of another part panicked");
            rest(&mut spins);
        }
    }
}

/// Spins, then lets others run: the core may be shared.
fn rest(spins: &mut u32) {
    *spins += 1;
    if *spins < SPINS {
        std::hint::spin_loop();
    } else {
        std::thread::yield_now();
    }
}

const SPINS: u32 = 2_000;
/// Windows between two counts of events, if little happens.
const MAX_STRIDE: u64 = 1 << 16;

/// Divides a fabric's nodes into parts of about as many hosts each, along pods and racks: what is below the roots stays together,
/// roots take turns. By node.
pub(super) fn divide(fabric: &Fabric, parts: usize) -> Vec<u8> {
    let hosts = fabric.host_count();
    let mut part = vec![0u8; fabric.nodes().len()];
    let mut of_pod: Vec<Option<u8>> = Vec::new();
    for rack in fabric.racks() {
        let own = (rack.hosts[0].index() * parts / hosts) as u8;
        for host in &rack.hosts {
            part[host.index()] = own;
        }
        let pod = fabric.pod_of(rack.hosts[0]) as usize;
        of_pod.resize(of_pod.len().max(pod + 1), None);
        of_pod[pod].get_or_insert(own);
    }
    for switch in fabric.switches() {
        let node = fabric.switch_node(switch);
        let below = fabric.out(node).iter().find_map(|&l| fabric.as_host(fabric.link(l).to)).map(|h| part[h.index()]);
        let pod = fabric.node(node).pod.and_then(|p| of_pod.get(p as usize).copied().flatten());
        let several_pods = of_pod.iter().flatten().any(|&p| Some(p) != of_pod[0]);
        part[node.index()] = below.or(pod.filter(|_| several_pods)).unwrap_or((switch.index() % parts) as u8);
    }
    part
}
