//! The engine: packets hop from port to port, and the ends of flows answer them.
//!
//! One event a hop: that a packet has arrived at the end of a link. There its next port says when it will have arrived at the next
//! node, and that is the next event. At the end of its path the packet is given to its flow's end, which may turn it into an
//! acknowledgement on the spot.

use weft_fabric::Fabric;

use super::packets::{CE, ECT, Kind, Packet, Packets, REPEAT};
use super::paths::{END, FORWARDED, NOWHERE, Paths, Route};
use super::ports::{Fate, Ports};
use super::tcp::receiver::Receiver;
use super::tcp::sender::{Segment, Sender};
use super::tcp::{Congestion, NEVER, Tcp};
use super::touch::touch;
use super::wheel::{Event, Wheel};

/// The sending end of a flow and where it sends.
#[derive(Clone, Debug)]
pub(super) struct Tx {
    pub tcp: Sender,
    pub route: Route,
    /// Payload of the last segment.
    pub last: u16,
}

/// The receiving end of a flow and where it answers.
#[derive(Clone, Debug)]
pub(super) struct Rx {
    pub tcp: Receiver,
    pub route: Route,
    /// Segments of the whole flow.
    pub end: u32,
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
    /// Segments delivered in order.
    pub delivered: u64,
}

/// The network and the ends of all flows.
#[derive(Debug)]
pub(super) struct Net {
    pub now: u64,
    pub tcp: Tcp,
    pub sizes: Sizes,
    pub paths: Paths,
    pub ports: Ports,
    pub tx: Vec<Tx>,
    pub rx: Vec<Rx>,
    pub totals: Totals,
    pub packets: Packets,
    wheel: Wheel,
    /// Numbers from here on are timers, not links.
    timers: u32,
    /// Links that are down.
    down: usize,
    /// Flows that have ended since the last look.
    ended: Vec<u32>,
}

/// Timers, as links beyond the fabric's.
const RETRANSMIT: u32 = 0;
const DELAYED_ACK: u32 = 1;
const TIMERS: u32 = 2;

impl Net {
    pub fn new(fabric: &Fabric, ports: Ports, tcp: Tcp, sizes: Sizes) -> Self {
        let links = fabric.links().len() as u32;
        let (width, slots) = wheel_size(fabric, &ports, sizes);
        Self {
            now: 0,
            tcp,
            sizes,
            paths: Paths::default(),
            ports,
            tx: Vec::new(),
            rx: Vec::new(),
            totals: Totals::default(),
            packets: Packets::default(),
            wheel: Wheel::new(width, slots, links + TIMERS),
            timers: links,
            down: 0,
            ended: Vec::new(),
        }
    }

    /// Enters a flow of so many bytes (`None`: endless), without routes.
    pub fn add(&mut self, bytes: Option<u64>) {
        let mss = u64::from(self.sizes.mss);
        let (end, last) = match bytes {
            None => (u32::MAX, mss),
            Some(bytes) => {
                let segments = bytes.div_ceil(mss);
                let end = u32::try_from(segments).unwrap_or(u32::MAX);
                (end, bytes - (segments - 1) * mss)
            }
        };
        self.tx.push(Tx { tcp: Sender::new(&self.tcp, end), route: NOWHERE, last: last as u16 });
        self.rx.push(Rx { tcp: Receiver::new(), route: NOWHERE, end });
    }

    /// Opens a flow's connection.
    pub fn open(&mut self, flow: u32) {
        self.tx[flow as usize].tcp.open(self.now);
        self.pump(flow);
    }

    pub fn set_up(&mut self, link: u32, up: bool) {
        if self.ports.is_up(link) != up {
            self.ports.set_up(link, up);
            self.down = if up { self.down - 1 } else { self.down + 1 };
        }
    }

    /// Runs until just before `until`, or until flows have ended: these are then in `ended`. Returns the time.
    pub fn run(&mut self, until: u64, ended: &mut Vec<u32>) -> u64 {
        while let Some(event) = self.wheel.pop(until) {
            self.look_ahead();
            self.now = event.at;
            self.totals.events += 1;
            if event.link < self.timers {
                self.arrive(event);
            } else {
                self.timer(event);
            }
            if !self.ended.is_empty() {
                ended.append(&mut self.ended);
                return self.now;
            }
        }
        self.now = until;
        until
    }

    /// Whether anything is under way or timed.
    pub fn is_busy(&self) -> bool {
        self.wheel.pending() > 0
    }

    /// A packet comes to the end of a link.
    #[inline]
    fn arrive(&mut self, event: Event) {
        let packet = &mut self.packets[event.item];
        packet.place += 1;
        let hop = self.paths.at(packet.place);
        if self.down > 0 && !self.ports.is_up(event.link) {
            self.totals.drops += 1;
            self.packets.remove(event.item);
        } else if hop < FORWARDED {
            self.forward(hop, event.item);
        } else if hop == END {
            self.deliver(event.item);
        } else {
            packet.len -= self.sizes.detour_header;
            self.forward(hop & !FORWARDED, event.item);
        }
    }

    /// A packet leaves over a link, if it can.
    #[inline]
    fn forward(&mut self, link: u32, item: u32) {
        let packet = &mut self.packets[item];
        match self.ports.send(link, packet.len, self.now) {
            Fate::Arrives { at, marked } => {
                if marked && packet.flags & ECT != 0 {
                    packet.flags |= CE;
                }
                self.totals.hops += 1;
                self.wheel.push(at, link, item);
            }
            Fate::Dropped => {
                self.totals.drops += 1;
                self.packets.remove(item);
            }
        }
    }

    /// A packet has come to the end of its path.
    #[inline]
    fn deliver(&mut self, item: u32) {
        let Packet { flow, number, kind, flags, .. } = self.packets[item];
        match kind {
            Kind::Data => {
                let rx = &mut self.rx[flow as usize];
                let answer = rx.tcp.on_segment(&self.tcp, self.now, number, flags & CE != 0, flags & REPEAT != 0);
                self.totals.delivered += u64::from(answer.fresh);
                if answer.fresh > 0 && rx.tcp.next() == rx.end {
                    self.ended.push(flow);
                }
                match answer.ack {
                    Some(number) => self.answer(item, flow, Kind::Ack, number, answer.marked),
                    None => {
                        self.packets.remove(item);
                        self.arm_delayed_ack(flow);
                    }
                }
            }
            Kind::Ack => {
                self.packets.remove(item);
                self.tx[flow as usize].tcp.on_ack(&self.tcp, self.now, number, flags & CE != 0);
                self.pump(flow);
            }
            Kind::Syn => self.answer(item, flow, Kind::SynAck, 0, false),
            Kind::SynAck => {
                self.packets.remove(item);
                self.tx[flow as usize].tcp.on_syn_ack(&self.tcp, self.now);
                self.pump(flow);
            }
            Kind::Request | Kind::Response => unreachable!("no datagrams yet"),
        }
    }

    /// Turns a packet that has arrived into one that goes back.
    #[inline]
    fn answer(&mut self, item: u32, flow: u32, kind: Kind, number: u32, marked: bool) {
        let Route { begin, forwards } = self.rx[flow as usize].route;
        if begin == END {
            self.totals.drops += 1;
            return self.packets.remove(item);
        }
        let len = self.sizes.header + forwards * self.sizes.detour_header;
        let flags = if marked { CE } else { 0 };
        self.packets[item] = Packet { flow, number, place: begin, len, kind, flags };
        self.forward(self.paths.at(begin), item);
    }

    /// Sends what a flow may send.
    #[inline]
    fn pump(&mut self, flow: u32) {
        let ect = if self.tcp.congestion == Congestion::Dctcp { ECT } else { 0 };
        loop {
            let tx = &mut self.tx[flow as usize];
            let Some(segment) = tx.tcp.poll(&self.tcp, self.now) else { break };
            let Route { begin, forwards } = tx.route;
            let (kind, number, payload, flags) = match segment {
                Segment::Syn => (Kind::Syn, 0, 0, 0),
                Segment::Data { number, repeat } => {
                    let payload = if tx.tcp.is_last(number) { tx.last } else { self.sizes.mss };
                    (Kind::Data, number, payload, if repeat { ect | REPEAT } else { ect })
                }
            };
            if begin == END {
                self.totals.drops += 1;
                continue;
            }
            let len = self.sizes.header + payload + forwards * self.sizes.detour_header;
            let item = self.packets.add(Packet { flow, number, place: begin, len, kind, flags });
            self.forward(self.paths.at(begin), item);
        }
        let tx = &mut self.tx[flow as usize];
        if !tx.tcp.armed && tx.tcp.deadline() != NEVER {
            tx.tcp.armed = true;
            self.wheel.push(tx.tcp.deadline(), self.timers + RETRANSMIT, flow);
        }
    }

    fn arm_delayed_ack(&mut self, flow: u32) {
        let rx = &mut self.rx[flow as usize].tcp;
        if !rx.armed && rx.due() != NEVER {
            rx.armed = true;
            self.wheel.push(rx.due(), self.timers + DELAYED_ACK, flow);
        }
    }

    #[cold]
    fn timer(&mut self, event: Event) {
        let flow = event.item;
        if event.link == self.timers + RETRANSMIT {
            let tx = &mut self.tx[flow as usize].tcp;
            tx.armed = false;
            tx.on_timer(&self.tcp, self.now);
            self.pump(flow);
        } else {
            let rx = &mut self.rx[flow as usize];
            rx.tcp.armed = false;
            match rx.tcp.on_timer(self.now) {
                Some((number, marked)) => {
                    let item = self.packets.add(Packet { flow, number, place: 0, len: 0, kind: Kind::Ack, flags: 0 });
                    self.answer(item, flow, Kind::Ack, number, marked);
                }
                None => self.arm_delayed_ack(flow),
            }
        }
    }

    /// Touches what the events after this one will need, step by step: the packet, its next hop, then its port or its flow's end.
    #[inline]
    fn look_ahead(&self) {
        if let Some(event) = self.wheel.ahead(12) {
            touch(self.packets.as_ptr(event.item));
        }
        if let Some(event) = self.wheel.ahead(4)
            && event.link < self.timers
        {
            let packet = &self.packets[event.item];
            let hop = self.paths.at(packet.place + 1);
            if hop == END {
                match packet.kind {
                    Kind::Data => touch(self.rx.as_ptr().wrapping_add(packet.flow as usize)),
                    _ => {
                        let tx = self.tx.as_ptr().wrapping_add(packet.flow as usize);
                        touch(tx);
                        touch(tx.cast::<u8>().wrapping_add(64));
                    }
                }
            } else {
                touch(self.ports.as_ptr(hop & !FORWARDED));
            }
        }
    }
}

/// Width of the wheel's slots and their number: a slot holds a few dozen arrivals when all links are busy, and the wheel reaches over
/// the longest stay at a port where that is possible.
fn wheel_size(fabric: &Fabric, ports: &Ports, sizes: Sizes) -> (u32, usize) {
    let bits_per_ps: f64 = fabric.links().iter().map(|l| l.capacity.as_f64() / 1e12).sum();
    let packet_bits = f64::from(sizes.mss / 2 + sizes.header) * 8.0;
    let wanted = EVENTS_A_SLOT * packet_bits / bits_per_ps;
    let ahead = ports.look_ahead(sizes.header).max(1);
    let width = (wanted as u64).clamp(1, ahead).ilog2().min(super::wheel::MAX_WIDTH);
    let slots = (ports.longest_stay() >> width).clamp(1 << 10, MAX_SLOTS as u64 - 1) + 1;
    (width, (slots as usize).next_power_of_two())
}

const EVENTS_A_SLOT: f64 = 40.0;
const MAX_SLOTS: usize = 1 << 15;
