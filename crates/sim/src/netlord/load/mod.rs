//! The load, and its outcome.

mod addresses;

use std::collections::BTreeMap;
use std::net::IpAddr;

use rand::RngExt;
use weft_control::directory::MacSpace;
use weft_control::directory::resolver::{Resolver, ResolverConfig};
use weft_control::netlord::Vif;
use weft_control::netlord::locations::{LocationInput, LocationOutput, Locations, Query};
use weft_control::netlord::nl_arp::{NlArp, NlArpConfig};
use weft_control::netlord::pull::Pull;
use weft_control::wire::netlord::{NlArp as Message, Unicast};
use weft_fabric::rng::{Pcg64, mix};
use weft_fabric::time::NsInstant;
use weft_fabric::{Duration, Instant, MacAddr};

use self::addresses::{ip, place, principal, server_at};
use super::directory::{Directory, tenant};

/// How servers learn where VIFs are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Means {
    /// NL-ARP.
    Push,
    /// The directory.
    Pull,
}

/// What is asked of the servers.
#[derive(Clone, Debug, PartialEq)]
pub struct ArpConfig {
    /// How they learn.
    pub means: Means,
    /// Servers, 2 to 16,000.
    pub servers: u16,
    /// VMs, spread evenly, each with an IPv4 address.
    pub vms: u32,
    /// VMs of a tenant, one after the other on the servers.
    pub vms_per_tenant: u32,
    /// VMs that boot a second at first, until all have.
    pub boots_per_s: f64,
    /// VMs that move, or reboot elsewhere, per second.
    pub moves_per_s: f64,
    /// First packets from a VM to another of its tenant a second, of all servers.
    pub sends_per_s: f64,
    /// Part of the broadcasts that is lost, for each server by itself.
    pub loss: f64,
    /// One way, from server to server.
    pub latency: Duration,
    /// How long is measured, after all have booted.
    pub duration: Duration,
    /// Of the random choices.
    pub seed: u64,
}

/// What became of it. Loads are those of the measured time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ArpTotals {
    /// Frames to all that servers sent.
    pub broadcasts: u64,
    /// NL-ARP frames to one.
    pub unicasts: u64,
    /// Datagrams to and from the directory.
    pub datagrams: u64,
    /// Frames that servers sent and received for it, the mean of the servers.
    pub frames_each: f64,
    /// Their bit-times, the mean of the servers.
    pub bits_each: f64,
    /// Bit-times at the directory, updates included.
    pub directory_bits: u64,
    /// The greatest table of a server, in bytes.
    pub table_bytes: usize,
    /// First packets to other servers.
    pub sends: u64,
    /// Of these, to a destination that was known, rightly.
    pub known: u64,
    /// Of these, to a place where the destination was not.
    pub stale: u64,
    /// From the packet to its arrival at the right server, without the way, of those that were not known rightly; picoseconds, ascending.
    pub repairs: Vec<u64>,
    /// Never arrived.
    pub unreached: u64,
    /// Events of the simulation.
    pub events: u64,
}

/// Bits of a frame of 64 bytes with the gap between frames (section 4.2).
const MIN_FRAME_BITS: u64 = 608;
const GAP_BYTES: u64 = 12;
/// Ethernet with its check sequence, IPv4, UDP.
const DATAGRAM_OVERHEAD: u64 = 18 + 20 + 8;
/// A VM sends again after this time, doubled each time.
const RETRY: Duration = Duration::from_ms(200);
/// And gives up after this.
const GIVE_UP: Duration = Duration::from_secs(10);
/// From a VM's move to the directory's knowledge of it.
const COMMIT: Duration = Duration::from_ms(15);

/// Carries a load to its end. `on_progress` hears the time.
pub fn simulate(config: ArpConfig, on_progress: &mut dyn FnMut(Instant)) -> ArpTotals {
    let mut world = World::new(config);
    world.boot(on_progress);
    world.measure(on_progress);
    world.finish()
}

struct World {
    config: ArpConfig,
    machines: Vec<Box<dyn Locations>>,
    timers: Vec<Option<Instant>>,
    directory: Directory,
    /// The server of each VM.
    home: Vec<u16>,
    queue: BTreeMap<(Instant, u64), Event>,
    last_event: u64,
    now: Instant,
    rng: Pcg64,
    measured: bool,
    end: Instant,
    probes: Vec<Probe>,
    waiting: BTreeMap<(u16, Query), Vec<usize>>,
    totals: ArpTotals,
    frames: u64,
    bits: u64,
}

enum Event {
    Boot(u32),
    Move,
    Send,
    Broadcast { from: u16, message: Message },
    Unicast { to: u16, message: Unicast },
    Stray { at: u16, probe: usize },
    ToDirectory { from: u16, bytes: Vec<u8> },
    FromDirectory { to: u16, bytes: Vec<u8> },
    Learn { vm: u32, at: u16 },
    Timer(u16),
    Retry(usize),
}

/// A first packet on its way.
struct Probe {
    from: u32,
    to: u32,
    begun: Instant,
    wait: Duration,
    done: bool,
}

impl World {
    fn new(config: ArpConfig) -> Self {
        let rng = |stream: u128| Pcg64::new(u128::from(mix(config.seed)), 2_000 + stream);
        let directory = Directory::new();
        let machine = |n: u16| -> Box<dyn Locations> {
            let own = rng(10 + u128::from(n));
            match config.means {
                Means::Push => Box::new(NlArp::new(NlArpConfig::default(), own)),
                Means::Pull => {
                    let principal = principal(n);
                    let capacity = config.vms as usize + 1;
                    let config = ResolverConfig { capacity, k: 1, ..ResolverConfig::new(principal) };
                    let mut pull = Pull::new(Resolver::new(config, &directory.key_of(principal), own));
                    pull.handle(NsInstant::ZERO, LocationInput::Servers(&[Directory::address()]));
                    Box::new(pull)
                }
            }
        };
        Self {
            machines: (0..config.servers).map(machine).collect(),
            timers: vec![None; usize::from(config.servers)],
            directory,
            home: (0..config.vms).map(|vm| (vm % u32::from(config.servers)) as u16).collect(),
            queue: BTreeMap::new(),
            last_event: 0,
            now: Instant::ZERO,
            rng: rng(1),
            measured: false,
            end: Instant::MAX,
            probes: Vec::new(),
            waiting: BTreeMap::new(),
            totals: ArpTotals::default(),
            frames: 0,
            bits: 0,
            config,
        }
    }

    /// All VMs boot, at the given rate.
    fn boot(&mut self, on_progress: &mut dyn FnMut(Instant)) {
        self.at(Instant::ZERO, Event::Boot(0));
        self.run(Instant::MAX, on_progress);
    }

    /// Moves and sends for as long as is measured; then whatever is on its way arrives.
    fn measure(&mut self, on_progress: &mut dyn FnMut(Instant)) {
        self.measured = true;
        self.end = self.now.saturating_add(self.config.duration);
        if self.config.moves_per_s > 0.0 {
            self.poisson(self.config.moves_per_s, Event::Move);
        }
        if self.config.sends_per_s > 0.0 {
            self.poisson(self.config.sends_per_s, Event::Send);
        }
        self.arm_all();
        self.run(self.end, on_progress);
        self.measured = false;
        self.run(self.end.saturating_add(GIVE_UP), on_progress);
    }

    fn finish(mut self) -> ArpTotals {
        let servers = f64::from(self.config.servers);
        self.totals.unreached = self.probes.iter().filter(|probe| !probe.done).count() as u64;
        self.totals.repairs.sort_unstable();
        self.totals.frames_each = self.frames as f64 / servers;
        self.totals.bits_each = self.bits as f64 / servers;
        self.totals.table_bytes = self.machines.iter().map(|machine| machine.table_bytes()).max().unwrap_or(0);
        self.totals
    }

    fn at(&mut self, when: Instant, event: Event) {
        self.last_event += 1;
        self.queue.insert((when, self.last_event), event);
    }

    fn after(&mut self, wait: Duration, event: Event) {
        self.at(self.now.saturating_add(wait), event);
    }

    /// The next event of a Poisson process, unless the time is over.
    fn poisson(&mut self, rate: f64, event: Event) {
        let wait = Duration::from_secs_f64(-libm::log(1.0 - self.rng.random::<f64>()) / rate);
        let when = self.now.saturating_add(wait);
        if when < self.end {
            self.at(when, event);
        }
    }

    fn run(&mut self, until: Instant, on_progress: &mut dyn FnMut(Instant)) {
        while let Some(entry) = self.queue.first_entry()
            && entry.key().0 <= until
        {
            let ((when, _), event) = entry.remove_entry();
            self.now = when;
            self.totals.events += 1;
            if self.totals.events.is_multiple_of(PROGRESS) {
                on_progress(self.now);
            }
            self.handle(event);
        }
        if until != Instant::MAX {
            self.now = until;
        }
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Boot(vm) => self.booted(vm),
            Event::Move => self.moves(),
            Event::Send => self.sends(),
            Event::Broadcast { from, message } => self.broadcast(from, message),
            Event::Unicast { to, message } => {
                self.count(1, MIN_FRAME_BITS);
                self.input(to, LocationInput::Unicast(message));
            }
            Event::Stray { at, probe } => self.stray(at, probe),
            Event::ToDirectory { from, bytes } => self.ask(from, &bytes),
            Event::FromDirectory { to, bytes } => {
                self.count(1, datagram_bits(bytes.len()));
                self.input(to, LocationInput::Datagram { from: Directory::address(), bytes: &bytes });
            }
            Event::Learn { vm, at } => self.learn(vm, at, true),
            Event::Timer(server) => {
                self.timers[usize::from(server)] = None;
                self.input(server, LocationInput::Timer);
            }
            Event::Retry(probe) => self.reach(probe),
        }
    }

    fn count(&mut self, frames: u64, bits: u64) {
        if self.measured {
            self.frames += frames;
            self.bits += frames * bits;
        }
    }

    /// Passes an input to a machine, and performs its outputs.
    fn input(&mut self, server: u16, input: LocationInput<'_>) {
        self.machines[usize::from(server)].handle(self.now.to_ns(), input);
        while let Some(output) = self.machines[usize::from(server)].poll() {
            match output {
                LocationOutput::Broadcast(message) => {
                    self.count(1, MIN_FRAME_BITS);
                    self.totals.broadcasts += u64::from(self.measured);
                    self.after(self.config.latency, Event::Broadcast { from: server, message });
                }
                LocationOutput::Unicast { to, message } => {
                    self.count(1, MIN_FRAME_BITS);
                    self.totals.unicasts += u64::from(self.measured);
                    let to = server_at(to);
                    self.after(self.config.latency, Event::Unicast { to, message });
                }
                LocationOutput::Datagram { bytes, .. } => {
                    self.count(1, datagram_bits(bytes.len()));
                    self.after(self.config.latency, Event::ToDirectory { from: server, bytes });
                }
                LocationOutput::Sought { query, found } => self.sought(server, query, found.is_some()),
                LocationOutput::Moved { .. } | LocationOutput::Claimed { .. } | LocationOutput::Elsewhere { .. } => {}
            }
        }
        self.arm(server);
    }

    fn arm(&mut self, server: u16) {
        let at = usize::from(server);
        // Resolvers sync for ever: before the measurement nobody has anything to sync.
        let Some(due) = self.machines[at].deadline().filter(|_| self.end != Instant::MAX || self.config.means == Means::Push)
        else {
            return;
        };
        let due = due.to_ps().max(self.now);
        if self.timers[at].is_none_or(|armed| due < armed) {
            self.timers[at] = Some(due);
            self.at(due, Event::Timer(server));
        }
    }

    fn arm_all(&mut self) {
        (0..self.config.servers).for_each(|server| self.arm(server));
    }

    fn booted(&mut self, vm: u32) {
        let home = self.home[vm as usize];
        self.learn(vm, home, false);
        self.start(vm, home);
        if vm + 1 < self.config.vms {
            let wait = Duration::from_secs_f64(1.0 / self.config.boots_per_s);
            self.after(wait, Event::Boot(vm + 1));
        }
    }

    fn start(&mut self, vm: u32, server: u16) {
        let addresses = [IpAddr::V4(ip(vm))];
        self.input(server, LocationInput::Start { vif: self.vif(vm), at: place(server), addresses: &addresses });
    }

    /// The provisioning system updates the directory.
    fn learn(&mut self, vm: u32, at: u16, withdraw: bool) {
        if self.config.means == Means::Pull {
            let bytes = self.directory.put(self.vif(vm), ip(vm), place(at), principal(at), withdraw);
            if self.measured {
                // An acknowledgement comes back.
                self.totals.directory_bits += datagram_bits(bytes) + datagram_bits(24 + 18 + 16);
            }
        }
    }

    fn moves(&mut self) {
        let vm = self.rng.random_range(0..self.config.vms);
        let from = self.home[vm as usize];
        let to = (from + self.rng.random_range(1..self.config.servers)) % self.config.servers;
        self.input(from, LocationInput::Stop(self.vif(vm)));
        self.home[vm as usize] = to;
        self.start(vm, to);
        self.after(COMMIT, Event::Learn { vm, at: to });
        self.poisson(self.config.moves_per_s, Event::Move);
    }

    /// A VM sends to another of its tenant that is on another server.
    fn sends(&mut self) {
        let from = self.rng.random_range(0..self.config.vms);
        let first = from / self.config.vms_per_tenant * self.config.vms_per_tenant;
        let last = (first + self.config.vms_per_tenant).min(self.config.vms);
        let to = self.rng.random_range(first..last);
        if self.home[from as usize] != self.home[to as usize] {
            self.totals.sends += 1;
            self.probes.push(Probe { from, to, begun: self.now, wait: RETRY, done: false });
            self.reach(self.probes.len() - 1);
        }
        self.poisson(self.config.sends_per_s, Event::Send);
    }

    /// Sends the packet, if its destination is known.
    fn reach(&mut self, at: usize) {
        let Probe { from, to, begun, done, .. } = self.probes[at];
        if done || self.now.saturating_since(begun) >= GIVE_UP {
            return;
        }
        let server = self.home[from as usize];
        let (asker, query) = (self.vif(from), self.query(to));
        let first = begun == self.now;
        match self.machines[usize::from(server)].find(asker, query) {
            Some(binding) if binding.at == place(self.home[to as usize]) => {
                self.probes[at].done = true;
                if first {
                    self.totals.known += 1;
                } else {
                    self.totals.repairs.push(self.now.saturating_since(begun).as_ps());
                }
            }
            Some(binding) => {
                self.totals.stale += u64::from(first);
                self.after(self.config.latency, Event::Stray { at: server_at(binding.at), probe: at });
                self.retry(at);
            }
            None => {
                let waiting = self.waiting.entry((server, query)).or_default();
                waiting.push(at);
                if waiting.len() == 1 {
                    self.input(server, LocationInput::Seek { asker, query });
                }
            }
        }
    }

    fn retry(&mut self, at: usize) {
        let wait = self.probes[at].wait;
        self.probes[at].wait = wait * 2;
        self.after(wait, Event::Retry(at));
    }

    fn sought(&mut self, server: u16, query: Query, found: bool) {
        for probe in self.waiting.remove(&(server, query)).unwrap_or_default() {
            // The VM may have moved since, or another's search has ended that this one may not use: then it searches again.
            if found {
                self.after(Duration::from_ps(1), Event::Retry(probe));
            } else {
                self.retry(probe);
            }
        }
    }

    fn stray(&mut self, at: u16, probe: usize) {
        let Probe { from, to, .. } = self.probes[probe];
        let vif = self.vif(to);
        if self.home[to as usize] != at {
            let sender = Query::vif(self.vif(from));
            self.input(at, LocationInput::Misdelivered { vif, here: place(at), sender });
        }
    }

    fn broadcast(&mut self, from: u16, message: Message) {
        for server in (0..self.config.servers).filter(|&server| server != from) {
            // A lost frame is lost at the last moment: the load is the same.
            self.count(1, MIN_FRAME_BITS);
            if self.config.loss == 0.0 || self.rng.random::<f64>() >= self.config.loss {
                self.input(server, LocationInput::Broadcast { from: place(from), message });
            }
        }
    }

    fn ask(&mut self, from: u16, bytes: &[u8]) {
        let answer = self.directory.answer(self.now.to_ns(), ([10, 254, (from >> 8) as u8, from as u8], 5303).into(), bytes);
        let bits = datagram_bits(bytes.len()) + answer.as_ref().map_or(0, |answer| datagram_bits(answer.len()));
        if self.measured {
            self.totals.datagrams += 1 + u64::from(answer.is_some());
            self.totals.directory_bits += bits;
        }
        if let Some(bytes) = answer {
            self.after(self.config.latency, Event::FromDirectory { to: from, bytes });
        }
    }

    fn vif(&self, vm: u32) -> Vif {
        let [_, a, b, c] = vm.to_be_bytes();
        Vif { tenant: tenant(vm / self.config.vms_per_tenant), space: MacSpace(1), mac: MacAddr([2, 0, 0, a, b, c]) }
    }

    fn query(&self, vm: u32) -> Query {
        let vif = self.vif(vm);
        Query::ip(vif.tenant, vif.space, IpAddr::V4(ip(vm)))
    }
}

const PROGRESS: u64 = 1 << 16;

fn datagram_bits(bytes: usize) -> u64 {
    ((DATAGRAM_OVERHEAD + bytes as u64).max(64) + GAP_BYTES) * 8
}

#[cfg(test)]
mod tests;
