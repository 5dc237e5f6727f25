//! The loop, and what switches do.
//!
//! One event a hop: that a frame has come to the end of a link. A switch learns its source, looks its destination up, and sends it on: by one port,
//! by all others of the VLAN if it does not know it, by none if it came from there. Hosts: [`super::ends`]; what fails: [`super::faults`].

use std::sync::Arc;

use weft_fabric::record::LinkRecord;
use weft_fabric::rng::mix;
use weft_fabric::routing::spain::Plan;
use weft_fabric::topology::Health;
use weft_fabric::traffic::tenants::Shuffle;
use weft_fabric::{Bytes, Fabric, Instant, LinkId};

use super::faults::Faults;
use super::fib::{Fib, Key};
use super::frames::{CE, ECT, Frame, ROUTED};
use super::lans::Lans;
use super::{Addresses, BridgedError, BridgedOutcome, BridgedWorld, Load, Returns, Tenants, Trial};
use crate::packet::net::{LOOK_EVERY, Sizes, wheel_size};
use crate::packet::ports::{Fate, Ports};
use crate::packet::settings::longest_path;
use crate::packet::slab::Slab;
use crate::packet::tcp::Tcp;
use crate::packet::tcp::receiver::Receiver;
use crate::packet::tcp::sender::Sender;
use crate::packet::wheel::{Event, Wheel};

/// Addresses: below this VMs, from here on hosts,
const HOSTS: u32 = 1 << 30;
/// and from here on switches.
const SWITCHES: u32 = 1 << 31;

/// The sending end of a VM's transfer; it has one at a time.
#[derive(Clone, Debug)]
pub(super) struct Tx {
    pub tcp: Sender,
    pub peer: u32,
    /// Which transfer it is, from 1.
    pub transfer: u32,
    pub vlan: u16,
    /// Whether the VM has not yet got to the end of its list.
    pub busy: bool,
    /// When it begins its next transfer, if it waits for that.
    pub begins: u64,
    /// When its next chirp is due.
    pub chirps: u64,
    /// Whether it waits for a turn at its host's NIC.
    pub queued: bool,
}

/// The receiving end of the same transfer.
#[derive(Clone, Debug)]
pub(super) struct Rx {
    pub tcp: Receiver,
    pub peer: u32,
    pub transfer: u32,
    pub vlan: u16,
    /// Accepted, and not all has arrived.
    pub open: bool,
    /// When its next chirp is due.
    pub chirps: u64,
}

/// The network and all VMs.
#[derive(Debug)]
pub(super) struct Engine {
    pub now: u64,
    pub tcp: Tcp,
    pub mss: u16,
    pub header: u16,
    /// Segments of a transfer, and payload of the last one.
    pub segments: u32,
    pub last: u16,
    pub addresses: Addresses,
    pub returns: Returns,
    pub lans: Lans,
    pub fibs: Vec<Fib>,
    pub ports: Ports,
    pub frames: Slab<Frame>,
    pub wheel: Wheel,
    /// Numbers from here on are timers, not links.
    pub timers: u32,
    /// The receiving node of each link: hosts first.
    to: Vec<u32>,
    hosts: u32,
    pub shuffle: Shuffle,
    pub tx: Vec<Tx>,
    /// By sending VM.
    pub rx: Vec<Rx>,
    /// By VM: transfers that it receives.
    pub incoming: Vec<u16>,
    pub most_incoming: u16,
    pub pause: u64,
    /// VMs that have not got to the end of their lists.
    pub busy: u32,
    /// Results count from then on.
    pub counts_from: u64,
    pub counted: Counted,
    pub totals: Totals,
    trials: Vec<Trial>,
    participants: u32,
    /// If anything fails in the run.
    pub faults: Option<Box<Faults>>,
}

/// What counts in a trial.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counted {
    pub bytes: u64,
    pub floods: u64,
    pub begun: u64,
    pub finished: u64,
    /// The end of the last transfer.
    pub last_end: u64,
}

/// Totals of a run.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Totals {
    pub hops: u64,
    pub events: u64,
    pub drops: u64,
    pub misses: u64,
    pub refused: u64,
    pub repeats: u64,
    /// Frames that hosts sent, copies that switches made, and frames that came to their end: at a host, at a switch.
    #[cfg(test)]
    pub sent: u64,
    #[cfg(test)]
    pub copied: u64,
    #[cfg(test)]
    pub ended: u64,
}

/// Timers, as links beyond the fabric's.
pub(super) const RETRANSMIT: u32 = 0;
pub(super) const DELAYED_ACK: u32 = 1;
pub(super) const BEGIN: u32 = 2;
pub(super) const FAULT: u32 = 3;
pub(super) const TREE: u32 = 4;
pub(super) const AGENT: u32 = 5;
pub(super) const NIC_ROOM: u32 = 6;
const TIMERS: u32 = 7;
/// Nothing counts.
const NEVER: u64 = u64::MAX;

impl Engine {
    pub fn new(world: &BridgedWorld, plan: Option<&Plan>) -> Result<Self, BridgedError> {
        let fabric: &Arc<Fabric> = &world.fabric;
        let config = &world.packet;
        let (mss, header) = world.sizes()?;
        let hosts = world.hosts();
        let round_trip = longest_path(fabric, config.hop_delay) * 2;
        let packet = Bytes(u64::from(mss) + u64::from(header));
        let ports = config.ports(fabric, round_trip, packet);
        let links = fabric.links().len() as u32;
        let (width, slots) = wheel_size(fabric, &ports, Sizes { mss, header, detour_header: 0 });
        let wheel = Wheel::new(width, slots, links + TIMERS, ports.look_ahead(header));
        let vms_of = |t: &Tenants| {
            let hosts = t.hosts.iter().flat_map(|&h| std::iter::repeat_n(h, t.vms_per_host as usize)).collect::<Vec<_>>();
            std::iter::repeat_n(hosts, t.count as usize)
        };
        let shuffle = Shuffle::new(world.tenants.iter().flat_map(vms_of), world.seed);
        let tcp = config.tcp();
        let vms = shuffle.vms() as usize;
        let segments = world.load.bytes.0.div_ceil(u64::from(mss));
        let last = (world.load.bytes.0 - (segments - 1) * u64::from(mss)) as u16;
        let idle =
            Tx { tcp: Sender::new(&tcp, 0), peer: 0, transfer: 0, vlan: 0, busy: false, begins: NEVER, chirps: 0, queued: false };
        let lans = Lans::new(fabric, &hosts, plan, &Health::new(fabric));
        let faults = Faults::new(world, &lans)?.map(Box::new);
        let mut engine = Self {
            now: 0,
            mss,
            header,
            segments: u32::try_from(segments).unwrap_or(u32::MAX),
            last,
            addresses: world.addresses,
            returns: world.returns,
            lans,
            fibs: vec![Fib::new(world.rules()); fabric.switch_count()],
            ports,
            frames: Slab::new(wheel.max_items()),
            wheel,
            timers: links,
            to: fabric.links().iter().map(|l| l.to.0).collect(),
            hosts: fabric.host_count() as u32,
            shuffle,
            tx: vec![idle; vms],
            rx: vec![Rx { tcp: Receiver::new(), peer: 0, transfer: 0, vlan: 0, open: false, chirps: 0 }; vms],
            incoming: vec![0; vms],
            most_incoming: world.load.incoming.min(u32::from(u16::MAX)) as u16,
            pause: world.load.pause.as_ps(),
            busy: 0,
            counts_from: NEVER,
            counted: Counted::default(),
            totals: Totals::default(),
            trials: Vec::new(),
            participants: hosts.len() as u32,
            faults,
            tcp,
        };
        for (event, i) in world.faults.events.iter().zip(0..) {
            engine.wheel.push(event.at.as_ps(), engine.timers + FAULT, i);
        }
        Ok(engine)
    }

    /// All trials, one after the other.
    pub fn run(&mut self, load: &Load, progress: &mut dyn FnMut(f64)) {
        let mut begin = 0u64;
        for trial in 0..load.trials {
            let end = begin.saturating_add(load.duration.as_ps());
            self.begin_trial(begin, load);
            while self.busy > 0
                && let Some(event) = self.wheel.pop(end)
            {
                self.take(event);
                if self.totals.events.is_multiple_of(LOOK_EVERY) {
                    let part = (self.now - begin) as f64 / (end - begin) as f64;
                    progress((f64::from(trial) + part) / f64::from(load.trials));
                }
            }
            let ended = if self.busy == 0 || end == u64::MAX { self.now } else { end };
            self.end_trial(begin, ended);
            self.now = ended;
            begin = ended.saturating_add(load.gap.as_ps());
            if trial + 1 < load.trials {
                while let Some(event) = self.wheel.pop(begin) {
                    self.take(event);
                }
                self.now = begin;
            }
        }
    }

    fn begin_trial(&mut self, begin: u64, load: &Load) {
        self.counted = Counted { last_end: begin, ..Counted::default() };
        self.counts_from = begin.saturating_add(load.warmup.as_ps());
        self.shuffle.begin();
        self.busy = self.tx.len() as u32;
        for vm in 0..self.tx.len() as u32 {
            self.tx[vm as usize].busy = true;
            let at = begin + self.shuffle.draw(load.start_spread.as_ps());
            self.begin_at(vm, at);
        }
    }

    fn end_trial(&mut self, begin: u64, end: u64) {
        let Counted { bytes, floods, begun, finished, last_end } = self.counted;
        let s = |ps: u64| ps as f64 / 1e12;
        self.trials.push(Trial {
            seconds: s(end.saturating_sub(self.counts_from.max(begin))),
            bytes,
            floods: floods as f64 / f64::from(self.participants.max(1)),
            begun,
            finished,
            // The last acknowledgement may still be on its way.
            completion_s: (finished == self.shuffle.transfers()).then(|| s(last_end - begin)),
        });
        self.counts_from = NEVER;
        self.stop();
    }

    /// What the run gave.
    pub fn finish(mut self, outcome: &mut BridgedOutcome) {
        outcome.trials = std::mem::take(&mut self.trials);
        for fib in &self.fibs {
            outcome.fib_most = outcome.fib_most.max(fib.counters.most as u64);
            outcome.evictions += fib.counters.evicted;
            outcome.unlearnt += fib.counters.unlearnt;
        }
        let Totals { hops, events, drops, misses, refused, repeats, .. } = self.totals;
        (outcome.hops, outcome.events, outcome.drops) = (hops, events, drops);
        (outcome.misses, outcome.refused, outcome.retransmits) = (misses, refused, repeats);
        let record = |link: u32| LinkRecord {
            id: LinkId(link),
            bytes: Bytes(self.ports.bytes(link)),
            drops: u64::from(self.ports.drops(link)),
        };
        outcome.links = (0..self.timers).map(record).collect();
        outcome.faults = self.faults.as_ref().map(|faults| faults.outcome()).unwrap_or_default();
        outcome.ended = Instant::from_ps(self.now);
    }

    #[inline]
    pub fn take(&mut self, event: Event) {
        self.now = event.at;
        self.totals.events += 1;
        if event.link >= self.timers {
            return self.timer(event.link - self.timers, event.item);
        }
        if self.faults.is_some() && !self.ports.is_up(event.link) {
            self.ports.lose(event.link);
            return self.drop(event.item);
        }
        let node = self.to[event.link as usize];
        if node < self.hosts {
            self.receive(node, event.item);
        } else {
            self.switch(node - self.hosts, event.link, event.item);
        }
    }

    /// A frame has come to a switch by a link.
    #[inline]
    fn switch(&mut self, switch: u32, link: u32, item: u32) {
        let frame = self.frames[item];
        let (source, destination) = self.addresses_of(&frame);
        let from = link ^ 1;
        if self.faults.is_some() && frame.vlan == 0 && !self.lans.is_in_tree(from) {
            return self.drop(item); // the tree is another one by now
        }
        let fib = &mut self.fibs[switch as usize];
        if source != SWITCHES + switch {
            fib.learn(Key::new(frame.vlan, source), from, self.now);
        }
        if destination == SWITCHES + switch {
            // To the switch itself: it routes the frame to the port that the outer IP address names.
            let host = self.hosts_of(&frame).1;
            self.frames[item].flags |= ROUTED;
            return self.send(self.lans.attached(host).down, item, self.now, false);
        }
        match fib.find(Key::new(frame.vlan, destination), self.now) {
            Some(port) if port == from => self.discard(item),
            Some(port) => self.send(port, item, self.now, false),
            None => self.flood(switch, from, item),
        }
    }

    /// By all ports of the VLAN but the one by which it came.
    fn flood(&mut self, switch: u32, from: u32, item: u32) {
        let frame = self.frames[item];
        self.totals.misses += 1;
        for at in self.lans.ports(switch, frame.vlan) {
            let port = self.lans.port(at);
            if port != from && (self.faults.is_none() || self.ports.is_up(port)) {
                let copy = self.frames.add(frame);
                self.count_copy();
                self.transmit(port, copy, self.now, false);
            }
        }
        self.discard(item);
    }

    /// A frame is sent by a link that is on its way.
    #[inline]
    pub fn send(&mut self, link: u32, item: u32, at: u64, own: bool) {
        if let Some(faults) = &mut self.faults {
            faults.is_used(link, &self.frames[item], self.now);
        }
        self.transmit(link, item, at, own);
    }

    /// A frame leaves by a link, if it can.
    #[inline]
    fn transmit(&mut self, link: u32, item: u32, at: u64, own: bool) {
        let frame = &mut self.frames[item];
        match self.ports.send(link, frame.len, at, own) {
            Fate::Arrives { at, marked, .. } => {
                if marked && frame.flags & ECT != 0 {
                    frame.flags |= CE;
                }
                self.totals.hops += 1;
                self.wheel.push(at, link, item);
            }
            Fate::Dropped => self.drop(item),
        }
    }

    fn drop(&mut self, item: u32) {
        self.totals.drops += 1;
        self.discard(item);
    }

    /// A host hands a frame to its NIC.
    #[inline]
    pub fn emit(&mut self, mut frame: Frame) {
        if self.faults.is_some() {
            self.outgoing(&mut frame);
        }
        let host = self.hosts_of(&frame).0;
        let link = self.lans.attached(host).up;
        let draw = mix(self.now ^ mix(u64::from(frame.vm) << 32 | u64::from(frame.number))) as u32;
        let at = self.ports.handed_over(link, self.now, draw);
        let item = self.frames.add(frame);
        self.count_sent();
        self.send(link, item, at, true);
    }

    /// A frame has come to its end.
    #[inline]
    pub fn discard(&mut self, item: u32) {
        self.frames.remove(item);
        #[cfg(test)]
        {
            self.totals.ended += 1;
        }
    }

    #[inline]
    fn count_copy(&mut self) {
        #[cfg(test)]
        {
            self.totals.copied += 1;
        }
    }

    #[inline]
    fn count_sent(&mut self) {
        #[cfg(test)]
        {
            self.totals.sent += 1;
        }
    }

    /// From which host to which a frame goes.
    #[inline]
    pub fn hosts_of(&self, frame: &Frame) -> (u32, u32) {
        let (from, to) = frame.ends();
        if frame.is_hello() { (from, to) } else { (self.shuffle.host(from), self.shuffle.host(to)) }
    }

    /// Source and destination as switches see them.
    #[inline]
    fn addresses_of(&self, frame: &Frame) -> (u32, u32) {
        match self.addresses {
            Addresses::Vm if !frame.is_hello() => frame.ends(),
            Addresses::Vm | Addresses::Host => {
                let (a, b) = self.hosts_of(frame);
                (HOSTS + a, HOSTS + b)
            }
            Addresses::Edge => {
                let (a, b) = self.hosts_of(frame);
                let [ea, eb] = [a, b].map(|h| self.lans.attached(h).edge);
                // At the same switch the server bears its own address (section 3.8).
                (if ea == eb { HOSTS + a } else { SWITCHES + ea }, SWITCHES + eb)
            }
        }
    }
}
