//! Random faults for as long as one likes: three servers and an etcd of three members, real processes, each on a host of its own in a network
//! of the test's own. Servers and members are killed, stopped, ended and cut off, clocks are set, disks are full, members are replaced. Judged as in
//! `work.rs`, round by round; and every server alone has every update at the end of a round.
//!
//! `WEFT_NEMESIS_S` (60) is how long it lasts in seconds, `WEFT_NEMESIS_SEED` chooses the same faults again (`make nemesis`).

#![allow(clippy::disallowed_methods)] // Processes live by the wall clock.

mod support;
#[path = "support/work.rs"]
mod work;

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use nix::sys::signal::Signal;
use rand::RngExt;
use support::clock::Clock;
use support::cluster::{Servers, Surroundings};
use support::etcd::Etcd;
use support::model::key;
use support::network::Network;
use weft_control::directory::Key;
use weft_fabric::rng::{Pcg64, Stream, stream};
use work::{KEYS, Outcome, Work, Writers};

/// Servers, and members of etcd.
const COUNT: usize = 3;
/// The network's host from which clients ask; before it are those of the servers, and then those of the members.
const CLIENTS: usize = 2 * COUNT;
/// How long one round lasts.
const ROUND: Duration = Duration::from_secs(20);
/// How long a fault lasts at most.
const FAULT_MS: u64 = 4000;

/// What goes wrong with a server.
#[derive(Clone, Copy, Debug)]
enum ServerFault {
    Killed,
    Ended,
    Stopped,
    ClockSet,
    WithoutStore,
    WithoutPeers,
    WithoutClients,
}

/// What goes wrong with a member of etcd.
#[derive(Clone, Copy, Debug)]
enum MemberFault {
    Killed,
    Stopped,
    CutOff,
    DiskFull,
    Replaced,
    Compacted,
}

/// Which packets a cut host loses.
#[derive(Clone, Copy, Debug)]
enum Direction {
    To,
    From,
    Both,
}

/// A fault and where it is.
#[derive(Clone, Copy, Debug)]
enum Fault {
    Server(ServerFault, usize, Direction),
    Member(MemberFault, usize, Direction),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Server(fault, ..) => write!(f, "server {fault:?}"),
            Self::Member(fault, ..) => write!(f, "member {fault:?}"),
        }
    }
}

/// All that can be harmed.
struct Nemesis {
    network: Network,
    etcd: Etcd,
    servers: Servers,
    /// Of the clocks: servers that are started again preload the library again.
    _folder: tempfile::TempDir,
    rng: Pcg64,
    /// Faults by kind: how many, and the longest that ten updates took while one lasted.
    counts: BTreeMap<String, (u32, Duration)>,
}

impl Nemesis {
    /// Where that is possible: as root, and where etcd is.
    fn new(seed: u64) -> Option<Self> {
        let network = match Network::new(CLIENTS + 1) {
            Ok(network) => network,
            Err(why) => {
                eprintln!("skipped: {why}");
                return None;
            }
        };
        network.hosts[CLIENTS].namespace.enter();
        unshare(CloneFlags::CLONE_NEWNS).unwrap();
        mount(None::<&str>, "/", None::<&str>, MsFlags::MS_REC | MsFlags::MS_PRIVATE, None::<&str>).unwrap();
        let etcd = Etcd::start_on(&network.hosts[COUNT..CLIENTS])?;
        let folder = tempfile::tempdir().unwrap();
        let library = Clock::library(folder.path());
        let place = |at: usize| {
            let host = network.hosts[at].clone();
            let clock = Clock::new(&library, folder.path().join(format!("clock{at}")));
            (SocketAddr::from((host.ip, 5300)), Surroundings { host: Some(host), clock: Some(clock) })
        };
        let servers = Servers::start_at((0..COUNT).map(place).collect(), &format!("etcd:{}", etcd.urls().join(",")));
        Some(Self { network, etcd, servers, _folder: folder, rng: stream(seed, Stream::Scheduler), counts: BTreeMap::new() })
    }

    /// One fault, of a server or of a member of etcd, or one of each.
    fn choose(&mut self) -> Vec<Fault> {
        let direction = self.one_of([Direction::To, Direction::From, Direction::Both]);
        let server = self.one_of([
            ServerFault::Killed,
            ServerFault::Ended,
            ServerFault::Stopped,
            ServerFault::ClockSet,
            ServerFault::WithoutStore,
            ServerFault::WithoutPeers,
            ServerFault::WithoutClients,
        ]);
        let member = self.one_of([
            MemberFault::Killed,
            MemberFault::Stopped,
            MemberFault::CutOff,
            MemberFault::DiskFull,
            MemberFault::Replaced,
            MemberFault::Compacted,
        ]);
        let server = Fault::Server(server, self.rng.random_range(0..COUNT), direction);
        // Half of the time the member that leads, if there is one.
        let any = self.rng.random_range(0..COUNT);
        let at = if self.rng.random::<bool>() { self.etcd.leader().unwrap_or(any) } else { any };
        let member = Fault::Member(member, at, direction);
        match self.rng.random_range(0..3) {
            0 => vec![server],
            1 => vec![member],
            _ => vec![server, member],
        }
    }

    fn one_of<T: Copy, const N: usize>(&mut self, all: [T; N]) -> T {
        all[self.rng.random_range(0..N)]
    }

    fn begin(&mut self, fault: Fault) {
        match fault {
            Fault::Server(fault, at, direction) => match fault {
                ServerFault::Killed => self.servers.kill(at),
                ServerFault::Ended => assert_eq!(self.servers.terminate(at), Some(0), "SIGTERM ends a server well"),
                ServerFault::Stopped => self.servers.signal(at, Signal::SIGSTOP),
                ServerFault::ClockSet => {
                    let shift_s = self.rng.random_range(1..86_400) * self.one_of([-1, 1]);
                    self.servers.set_clock(at, shift_s);
                }
                ServerFault::WithoutStore | ServerFault::WithoutPeers | ServerFault::WithoutClients => {
                    self.cut(at, Self::others_of_server(fault, at), direction, true);
                }
            },
            Fault::Member(fault, at, direction) => match fault {
                MemberFault::Killed => self.etcd.kill(at),
                MemberFault::Stopped => self.etcd.signal(at, Signal::SIGSTOP),
                MemberFault::CutOff => self.cut(COUNT + at, Self::others_of_member(at), direction, true),
                MemberFault::DiskFull => self.etcd.fill_disk(at, true),
                MemberFault::Replaced => self.etcd.replace(at),
                MemberFault::Compacted => {
                    self.etcd.compact_at(at);
                }
            },
        }
    }

    fn end(&mut self, fault: Fault) {
        match fault {
            Fault::Server(fault, at, direction) => match fault {
                ServerFault::Killed | ServerFault::Ended => self.servers.restart(at),
                ServerFault::Stopped => self.servers.signal(at, Signal::SIGCONT),
                // Half of the time it stays wrong.
                ServerFault::ClockSet if self.rng.random() => self.servers.set_clock(at, 0),
                ServerFault::ClockSet => {}
                ServerFault::WithoutStore | ServerFault::WithoutPeers | ServerFault::WithoutClients => {
                    self.cut(at, Self::others_of_server(fault, at), direction, false);
                }
            },
            Fault::Member(fault, at, direction) => {
                match fault {
                    MemberFault::Killed => self.etcd.restart(at),
                    MemberFault::Stopped => self.etcd.signal(at, Signal::SIGCONT),
                    MemberFault::CutOff => self.cut(COUNT + at, Self::others_of_member(at), direction, false),
                    // It may have ended itself.
                    MemberFault::DiskFull => {
                        self.etcd.fill_disk(at, false);
                        self.etcd.kill(at);
                        self.etcd.restart(at);
                    }
                    MemberFault::Replaced | MemberFault::Compacted => {}
                }
                self.etcd.wait_for(at);
            }
        }
    }

    fn others_of_server(fault: ServerFault, at: usize) -> Vec<usize> {
        match fault {
            ServerFault::WithoutStore => (COUNT..CLIENTS).collect(),
            ServerFault::WithoutPeers => (0..COUNT).filter(|other| *other != at).collect(),
            _ => vec![CLIENTS],
        }
    }

    /// From servers and members; an operator still reaches it.
    fn others_of_member(at: usize) -> Vec<usize> {
        (0..CLIENTS).filter(|other| *other != COUNT + at).collect()
    }

    fn cut(&self, at: usize, others: Vec<usize>, direction: Direction, cut: bool) {
        for other in others {
            if matches!(direction, Direction::To | Direction::Both) {
                self.network.cut(other, at, cut);
            }
            if matches!(direction, Direction::From | Direction::Both) {
                self.network.cut(at, other, cut);
            }
        }
    }

    /// Faults one after another while others work; what they saw.
    fn round(&mut self, addresses: &[String], writers: Writers, earlier: Outcome) -> Outcome {
        let work = Work::begin_as(addresses, writers, earlier.unanswered);
        work.progress(10);
        while work.elapsed() < ROUND {
            let faults = self.choose();
            eprintln!("{:6.2?} {faults:?}", work.elapsed());
            for fault in &faults {
                self.begin(*fault);
            }
            let pause = work.progress(10);
            std::thread::sleep(Duration::from_millis(self.rng.random_range(0..FAULT_MS)));
            for fault in faults.iter().rev() {
                self.end(*fault);
                let (count, longest) = self.counts.entry(fault.to_string()).or_default();
                *count += 1;
                *longest = pause.max(*longest);
            }
            work.progress(10);
        }
        let outcome = work.end(addresses);
        let keys: Vec<Key> = (0..KEYS).map(key).collect();
        let mut held = Vec::new();
        for address in addresses {
            let mut client = Servers::client(std::slice::from_ref(address), Duration::from_secs(30));
            held.push(client.look_up(&keys, None, outcome.newest).expect("every server is up to date again").findings);
        }
        assert!(held.iter().all(|findings| *findings == held[0]), "the servers differ: {held:?}");
        outcome
    }
}

#[test]
fn faults_lose_no_acknowledged_update() {
    let seed = std::env::var("WEFT_NEMESIS_SEED").map_or_else(
        |_| SystemTime::now().duration_since(UNIX_EPOCH).unwrap().subsec_nanos().into(),
        |seed| seed.parse().unwrap(),
    );
    let seconds = std::env::var("WEFT_NEMESIS_S").map_or(60, |seconds| seconds.parse().unwrap());
    eprintln!("WEFT_NEMESIS_SEED={seed} WEFT_NEMESIS_S={seconds}");
    let Some(mut nemesis) = Nemesis::new(seed) else { return };
    let addresses = nemesis.servers.addresses();
    let writers = Writers {
        timeout: Duration::from_secs(4),
        share: true,
        compare: true,
        limit: Duration::from_secs(60),
        lookup_limit: Duration::from_secs(10),
    };
    let begun = Instant::now();
    let mut total = Outcome::default();
    let mut last = Outcome::default();
    while total.lookups == 0 || begun.elapsed() < Duration::from_secs(seconds) {
        last = nemesis.round(&addresses, writers, last);
        total.add(&last);
    }
    let faults: u32 = nemesis.counts.values().map(|(count, _)| count).sum();
    println!("seed {seed}: {:.0?}, {faults} faults; {total}", begun.elapsed());
    for (fault, (count, longest)) in &nemesis.counts {
        println!("  {fault}: {count}, ten updates took {longest:.2?} at most");
    }
}

#[test]
fn a_pair_that_two_faults_cut_is_joined_after_both() {
    let Ok(network) = Network::new(2) else { return };
    for (cut, left) in [(true, 1), (true, 1), (false, 1), (false, 0)] {
        network.cut(0, 1, cut);
        assert_eq!(network.count_cuts(), left);
    }
}
