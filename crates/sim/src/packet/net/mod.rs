//! The engine: packets hop from port to port, and the ends of flows answer them.
//!
//! One event a hop: that a packet has arrived at the end of a link. There its next port says when it will have arrived at the next
//! node, and that is the next event. At the end of its path the packet is given to its flow's end, which may turn it into an
//! acknowledgement on the spot.

mod ends;
mod routes;
mod show;

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;
use weft_fabric::record::{QueueSample, Traced, WindowSample};
use weft_fabric::rng::mix;
use weft_fabric::routing::{self, FlowKey};
use weft_fabric::{Bytes, Fabric, HostId, Instant, LinkId};

use super::capture::{Capture, Shown, Trace};
use super::multipath::{Connection, linked_increase};
use super::packets::{BLOCKS, CE, ECT, Kind, Packet, REPEAT};
use super::paths::{END, FORWARDED, NOWHERE, Paths, Route, SHAPED};
use super::ports::{Fate, NEAR, Ports};
use super::requests::Load;
use super::shapers::Shapers;
use super::slab::Slab;
use super::spread::Spread;
use super::tcp::blocks::Blocks;
use super::tcp::receiver::Receiver;
use super::tcp::sender::{Segment, Sender};
use super::tcp::{NEVER, Tcp};
use super::touch::touch;
use super::wheel::{Event, Wheel};

/// The sending end of a flow and where it sends.
#[derive(Clone, Debug)]
pub(super) struct Tx {
    pub tcp: Sender,
    pub route: Route,
    /// Payload of the last segment.
    pub last: u16,
    /// Whether its next packet may take another route ([`Net::moves`], [`Net::spreads`]).
    moves: bool,
    /// Whether it waits for a turn at its NIC ([`Ports::wait`]).
    queued: bool,
}

/// The receiving end of a flow and where it answers.
#[derive(Clone, Debug)]
pub(super) struct Rx {
    pub tcp: Receiver,
    pub route: Route,
    /// Segments of the whole flow.
    pub end: u32,
}

/// What a run carries besides TCP as it is, and what it shows.
#[derive(Debug, Default)]
pub(super) struct Extras {
    /// TCP connections that a flow has; 0 counts as 1.
    pub subflows: u32,
    /// Whether flows that have lost a full window are reported.
    pub rehashes: bool,
    /// Requests take the place of TCP.
    pub load: Option<Load>,
    pub trace: Trace,
}

/// A route that an end takes at the next gap between its packets.
#[derive(Clone, Copy, Debug)]
struct Move {
    route: Route,
    gap: u64,
    /// When it last sent, as far as is known since the move was asked for.
    sent: u64,
}

/// Sizes of packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sizes {
    /// Payload of a full segment.
    pub mss: u16,
    /// All else of a packet, and all of one without payload.
    pub header: u16,
    /// What a detoured packet carries in addition for every server that forwards it.
    pub detour_header: u16,
}

/// Totals of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Totals {
    /// Packets sent over links.
    pub hops: u64,
    /// Events: arrivals and timers.
    pub events: u64,
    /// Packets lost at full queues or dead links.
    pub drops: u64,
    /// Segments delivered in order, or responses.
    pub delivered: u64,
    /// Retransmission timeouts, and the time that ends waited for them, in picoseconds.
    pub timeouts: u64,
    pub timed_out: u64,
    /// Packets that ends have sent, and that ends have got.
    pub sent: u64,
    pub received: u64,
}

/// The network and the ends of all flows.
#[derive(Debug)]
pub(super) struct Net {
    pub now: u64,
    pub tcp: Tcp,
    pub sizes: Sizes,
    pub paths: Paths,
    pub ports: Ports,
    pub shapers: Shapers,
    pub tx: Vec<Tx>,
    pub rx: Vec<Rx>,
    pub totals: Totals,
    pub packets: Slab<Packet>,
    wheel: Wheel,
    /// Numbers from here on are timers, not links.
    timers: u32,
    /// Links that are down.
    down: usize,
    /// Flows that have ended since the last look, and those that have lost a full window.
    ended: Vec<Ended>,
    /// The link of the event under way.
    link: u32,
    /// Packets for other parts, by part.
    outboxes: Vec<Mail>,
    /// Blocks of the acknowledgements under way, by packet: as many as there were with SACK.
    blocks: Vec<Blocks>,
    /// Whether arriving segments mean more than to plain TCP: with SACK, with several subflows, and where packets choose among paths.
    special: bool,
    /// TCP connections of a flow: the ends of flow f are those from `f * subflows` on.
    pub subflows: u32,
    /// Of each flow, if it has several.
    connections: Vec<Connection>,
    /// Whether flows that have lost a full window are reported.
    rehashes: bool,
    pub load: Option<Load>,
    trace: Trace,
    pub traced: Traced,
    /// The port whose packets are captured; no link if none is.
    captured: u32,
    capture: Option<Capture>,
    /// Ends that move once they have been silent for long enough.
    moves: FxHashMap<u32, Move>,
    /// By flow: the paths of its segments and of its acknowledgements. Empty where flows keep to one.
    spreads: Vec<[Option<Spread>; 2]>,
    /// By link that was down: when it last lost a packet for that, and how many.
    pub lost: BTreeMap<u32, (u64, u64)>,
    /// By flow, for captures: source, destination, bytes.
    shown: Vec<(HostId, HostId, u64)>,
}

/// A flow has ended, or has lost a full window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ended {
    /// In picoseconds.
    pub at: u64,
    /// The link that its last packet came over: two flows that end at once have different ones. Of one that has not ended [`NO_LINK`].
    pub link: u32,
    pub flow: u32,
}

/// Of a flow that has lost a full window.
pub(super) const NO_LINK: u32 = u32::MAX;

/// A packet on its way to another part of the fabric.
#[derive(Clone, Copy, Debug)]
pub(super) struct Posted {
    /// When it arrives, in picoseconds.
    at: u64,
    link: u32,
    packet: Packet,
}

/// Packets on their way to another part, and the blocks of those that have any, in the same order.
#[derive(Debug, Default)]
pub(super) struct Mail {
    packets: Vec<Posted>,
    blocks: Vec<Blocks>,
}

/// Timers, as links beyond the fabric's.
const RETRANSMIT: u32 = 0;
const DELAYED_ACK: u32 = 1;
const REQUEST: u32 = 2;
const LOOK: u32 = 3;
const NIC_ROOM: u32 = 4;
const RELEASE: u32 = 5;
/// A packet leaves a shaper.
const SHAPE: u32 = 6;
const TIMERS: u32 = 7;

/// Approximate number of events between two progress reports.
pub(super) const LOOK_EVERY: u64 = 1 << 18;

impl Net {
    pub fn new(fabric: &Fabric, ports: Ports, shapers: Shapers, tcp: Tcp, sizes: Sizes, extras: Extras) -> Self {
        let links = fabric.links().len() as u32;
        let (width, slots) = wheel_size(fabric, &ports, sizes);
        let wheel = Wheel::new(width, slots, links + TIMERS, ports.look_ahead(sizes.header));
        let Extras { subflows, rehashes, load, trace } = extras;
        let mut net = Self {
            now: 0,
            tcp,
            sizes,
            paths: Paths::default(),
            ports,
            shapers,
            tx: Vec::new(),
            rx: Vec::new(),
            totals: Totals::default(),
            packets: Slab::new(wheel.max_items()),
            wheel,
            timers: links,
            down: 0,
            ended: Vec::new(),
            link: 0,
            outboxes: Vec::new(),
            blocks: Vec::new(),
            special: subflows > 1 || tcp.has_sack(),
            subflows: subflows.max(1),
            connections: Vec::new(),
            rehashes,
            load,
            traced: Traced::default(),
            captured: trace.port.map_or(u32::MAX, |l| l.0),
            capture: trace.port.map(|_| Capture::new(trace.packets)),
            trace,
            moves: FxHashMap::default(),
            spreads: Vec::new(),
            lost: BTreeMap::new(),
            shown: Vec::new(),
        };
        net.begin();
        net
    }

    /// The first timers.
    fn begin(&mut self) {
        if let Some(load) = &self.load {
            for client in 0..load.clients() {
                self.wheel.push(load.sent_at(client, 0), self.timers + REQUEST, client);
            }
        }
        if self.trace.is_periodic() {
            self.wheel.push(self.trace.every.as_ps(), self.timers + LOOK, 0);
        }
    }

    /// Enters a flow of so many bytes (`None`: endless), without routes.
    pub fn add(&mut self, ends: [u32; 2], bytes: Option<u64>) {
        let mss = u64::from(self.sizes.mss);
        let (end, last) = match bytes {
            None => (u32::MAX, mss),
            Some(bytes) => {
                let segments = bytes.div_ceil(mss);
                let end = u32::try_from(segments).unwrap_or(u32::MAX);
                (end, bytes - segments.saturating_sub(1) * mss)
            }
        };
        if self.subflows > 1 {
            self.connections.push(Connection::new(self.subflows as usize, end));
        }
        // Subflows are fed as they go.
        let to_send = if self.subflows > 1 { 0 } else { end };
        for _ in 0..self.subflows {
            self.tx.push(Tx {
                tcp: Sender::new(&self.tcp, to_send),
                route: NOWHERE,
                last: last as u16,
                moves: false,
                queued: false,
            });
            self.rx.push(Rx { tcp: Receiver::new(), route: NOWHERE, end });
        }
        if self.capture.is_some() {
            let [src, dst] = ends.map(HostId);
            self.shown.push((src, dst, bytes.unwrap_or(u64::MAX)));
        }
    }

    /// Opens a flow's connection.
    pub fn open(&mut self, flow: u32) {
        if self.load.is_some() {
            return;
        }
        for end in flow * self.subflows..(flow + 1) * self.subflows {
            self.tx[end as usize].tcp.open(self.now);
            self.pump(end);
        }
    }

    /// Bytes that [`Totals::delivered`] and [`Net::delivered`] count in.
    pub fn unit(&self) -> u64 {
        u64::from(self.load.as_ref().map_or(self.sizes.mss, |l| l.response_len()))
    }

    /// Segments of a flow that have arrived in order, or its responses.
    pub fn delivered(&self, flow: u32) -> u64 {
        match (&self.load, self.connections.get(flow as usize)) {
            (Some(load), _) => load.delivered[flow as usize],
            (None, Some(connection)) => u64::from(connection.next()),
            (None, None) => u64::from(self.rx[flow as usize].tcp.next()),
        }
    }

    pub fn set_up(&mut self, link: u32, up: bool) {
        if self.ports.is_up(link) != up {
            self.ports.set_up(link, up);
            self.down = if up { self.down - 1 } else { self.down + 1 };
        }
    }

    /// Runs until just before `until`, or until flows have ended: these are then in `ended`. Returns the time. Reports to `look` the
    /// time and the events so far.
    pub fn run(&mut self, until: u64, ended: &mut Vec<Ended>, look: &mut dyn FnMut(u64, u64)) -> u64 {
        while self.ended.is_empty() {
            let Some(event) = self.wheel.pop(until) else {
                if until != NEVER {
                    self.now = until;
                }
                break;
            };
            self.take(event);
            if self.totals.events.is_multiple_of(LOOK_EVERY) {
                look(self.now, self.totals.events);
            }
        }
        self.take_ended(ended);
        self.now
    }

    /// Runs until just before `until`.
    pub fn run_window(&mut self, until: u64) {
        while let Some(event) = self.wheel.pop(until) {
            self.take(event);
        }
        self.now = until;
    }

    #[inline]
    fn take(&mut self, event: Event) {
        self.look_ahead();
        self.now = event.at;
        self.link = event.link;
        self.totals.events += 1;
        if event.link < self.timers {
            self.arrive(event);
        } else {
            self.timer(event);
        }
    }

    pub fn has_ended(&self) -> bool {
        !self.ended.is_empty()
    }

    pub fn take_ended(&mut self, ended: &mut Vec<Ended>) {
        ended.append(&mut self.ended);
    }

    /// No event comes before this; `u64::MAX` if there is none.
    pub fn next_event(&self) -> u64 {
        self.wheel.next_at()
    }

    /// Makes this the engine of one part of several; `part` is by node.
    pub fn join(&mut self, fabric: &Fabric, part: &[u8], own: u8, parts: usize) {
        self.outboxes = (0..parts).map(|_| Mail::default()).collect();
        for (i, link) in fabric.links().iter().enumerate() {
            let to = part[link.to.index()];
            self.ports.set_far(i as u32, if to == own { NEAR } else { to });
        }
    }

    /// Hands over the packets for another part; returns when the first of them arrives.
    pub fn post(&mut self, part: usize, mail: &mut Mail) -> u64 {
        let outbox = &mut self.outboxes[part];
        mail.packets.append(&mut outbox.packets);
        mail.blocks.append(&mut outbox.blocks);
        mail.packets.iter().map(|p| p.at).min().unwrap_or(u64::MAX)
    }

    /// Takes over packets from another part.
    pub fn receive(&mut self, mail: &mut Mail) {
        let mut blocks = mail.blocks.drain(..);
        for Posted { at, link, packet } in mail.packets.drain(..) {
            let item = self.packets.add(packet);
            if packet.flags & BLOCKS != 0 {
                put_blocks(&mut self.blocks, item, blocks.next().expect("blocks are posted with their packet"));
            }
            self.wheel.push(at, link, item);
        }
    }

    /// Whether anything is under way or timed, besides looks.
    pub fn is_busy(&self) -> bool {
        self.wheel.pending() > usize::from(self.trace.is_periodic())
    }

    /// A packet comes to the end of a link.
    #[inline]
    fn arrive(&mut self, event: Event) {
        let packet = &mut self.packets[event.item];
        packet.place += 1;
        let hop = self.paths.at(packet.place);
        if self.down > 0 && !self.ports.is_up(event.link) {
            self.totals.drops += 1;
            self.ports.lose(event.link);
            self.lost_on_dead_link(event.link);
            self.packets.remove(event.item);
        } else if hop < FORWARDED {
            self.forward(hop, event.item);
        } else if hop == END {
            self.deliver(event.item);
        } else {
            self.forward_detoured(hop, event.item);
        }
    }

    /// A server passes a detoured packet on, through a shaper if there is one.
    fn forward_detoured(&mut self, hop: u32, item: u32) {
        if hop & SHAPED == SHAPED {
            return self.shape(hop & !SHAPED, item);
        }
        if hop & FORWARDED != 0 {
            self.packets[item].len -= self.sizes.detour_header;
        }
        self.forward(hop & !FORWARDED, item);
    }

    /// A packet comes to a shaper.
    fn shape(&mut self, shaper: u32, item: u32) {
        let packet = &mut self.packets[item];
        match self.shapers.send(shaper, packet.len, self.now) {
            Some((at, marked)) => {
                if marked && packet.flags & ECT != 0 {
                    packet.flags |= CE;
                }
                self.wheel.push(at, self.timers + SHAPE, item);
            }
            None => {
                self.totals.drops += 1;
                self.packets.remove(item);
            }
        }
    }

    /// A packet leaves its shaper.
    fn leave_shaper(&mut self, item: u32) {
        let packet = &mut self.packets[item];
        packet.place += 1;
        let hop = self.paths.at(packet.place);
        self.forward_detoured(hop, item);
    }

    /// A host hands a packet of its own to its NIC.
    #[inline]
    fn emit(&mut self, item: u32) {
        let Packet { flow, number, place, .. } = self.packets[item];
        let link = self.paths.at(place);
        if link >= FORWARDED {
            return self.shape(link & !SHAPED, item);
        }
        let draw = mix(self.now ^ mix(u64::from(flow) << 32 | u64::from(number))) as u32;
        let at = self.ports.handed_over(link, self.now, draw);
        self.forward_at(link, item, at, true);
    }

    /// A packet leaves over a link, if it can.
    #[inline]
    fn forward(&mut self, link: u32, item: u32) {
        self.forward_at(link, item, self.now, false);
    }

    #[inline]
    fn forward_at(&mut self, link: u32, item: u32, at: u64, own: bool) {
        let packet = &mut self.packets[item];
        match self.ports.send(link, packet.len, at, own) {
            Fate::Arrives { at, marked, far } => {
                if marked && packet.flags & ECT != 0 {
                    packet.flags |= CE;
                }
                self.totals.hops += 1;
                if link == self.captured {
                    self.capture(item, link);
                }
                if far == NEAR {
                    self.wheel.push(at, link, item);
                } else {
                    let (outbox, packet) = (&mut self.outboxes[far as usize], self.packets[item]);
                    outbox.packets.push(Posted { at, link, packet });
                    if packet.flags & BLOCKS != 0 {
                        outbox.blocks.push(self.blocks[item as usize]);
                    }
                    self.packets.remove(item);
                }
            }
            Fate::Dropped => {
                self.totals.drops += 1;
                self.packets.remove(item);
                if self.down > 0 && !self.ports.is_up(link) {
                    self.lost_on_dead_link(link);
                }
            }
        }
    }

    #[cold]
    fn lost_on_dead_link(&mut self, link: u32) {
        let (last, packets) = self.lost.entry(link).or_default();
        *last = self.now;
        *packets += 1;
    }

    /// Touches what the events after this one will need, step by step: the packet, its next hop, then its port or its flow's end.
    #[inline]
    fn look_ahead(&self) {
        if let Some(event) = self.wheel.ahead(20) {
            touch(self.packets.as_ptr(event.item));
        }
        if let Some(event) = self.wheel.ahead(10)
            && event.link < self.timers
        {
            touch(self.paths.as_ptr(self.packets[event.item].place + 1));
        }
        if let Some(event) = self.wheel.ahead(4)
            && event.link < self.timers
        {
            let packet = &self.packets[event.item];
            let hop = self.paths.at(packet.place + 1);
            if hop == END {
                // The answer goes the way back, as a rule.
                touch(self.ports.as_ptr(LinkId(event.link).reverse().0));
                match packet.kind {
                    Kind::Data => touch(self.rx.as_ptr().wrapping_add(packet.flow as usize)),
                    _ => {
                        let tx = self.tx.as_ptr().wrapping_add(packet.flow as usize);
                        (0..size_of::<Tx>()).step_by(64).for_each(|at| touch(tx.cast::<u8>().wrapping_add(at)));
                    }
                }
            } else {
                touch(self.ports.as_ptr(hop & !FORWARDED));
            }
        }
    }
}

/// Enters the blocks of a packet.
fn put_blocks(all: &mut Vec<Blocks>, item: u32, blocks: Blocks) {
    let item = item as usize;
    if all.len() <= item {
        all.resize((item + 1).next_power_of_two(), Blocks::default());
    }
    all[item] = blocks;
}

/// Width of the wheel's slots and their number: a slot would hold some thousand arrivals if all links were busy, which they never are,
/// and the wheel reaches over the longest stay at a port where that is possible.
pub(super) fn wheel_size(fabric: &Fabric, ports: &Ports, sizes: Sizes) -> (u32, usize) {
    let bits_per_ps: f64 = fabric.links().iter().map(|l| l.capacity.as_f64() / 1e12).sum();
    let packet_bits = f64::from(sizes.mss / 2 + sizes.header) * 8.0;
    let wanted = EVENTS_A_SLOT * packet_bits / bits_per_ps;
    let ahead = ports.look_ahead(sizes.header).max(1);
    let width = (wanted as u64).clamp(1, ahead).ilog2().min(super::wheel::MAX_WIDTH);
    let slots = (ports.longest_stay() >> width).clamp(1 << 10, MAX_SLOTS as u64 - 1) + 1;
    (width, (slots as usize).next_power_of_two())
}

const EVENTS_A_SLOT: f64 = 6_000.0;
const MAX_SLOTS: usize = 1 << 14;
