//! The engine once more, slow and plain: a heap of events, a queue of packets before each link, and an event when one has left. Only
//! TCP's ends are the same.
//! ```text
//!            +------- queue -------+   in service
//!   enters ->| c | b |             |->    a   -> (left) -> ... delay ... -> (arrives)
//!            +---------------------+
//! ```

mod ends;
mod ports;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;
use std::sync::Arc;

use weft_fabric::record::{Outcome, PacketRecord, PacketTotals};
use weft_fabric::rng::mix;
use weft_fabric::routing::Spread;
use weft_fabric::traffic::{FlowSpec, Size};
use weft_fabric::{Fabric, FlowId, Instant, LinkId};

use self::ports::{Books, Packet, Port, What};
use super::multipath::{Connection, linked_increase};
use super::settings::PacketConfig;
use super::spread::fraction;
use super::tcp::blocks::Blocks;
use super::tcp::receiver::Receiver;
use super::tcp::sender::{Segment, Sender};
use super::tcp::{NEVER, Tcp};
use crate::world::{Ended, Look, Model};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Happens {
    /// Before arrivals at the same time: what has left takes no room.
    Left(u32),
    Arrives(u32),
    Retransmit(u32),
    DelayedAck(u32),
    /// A NIC for which flows wait has room.
    Turns(u32),
    Release(u32),
}

#[derive(Debug)]
struct Flow {
    bytes: Option<u64>,
    connection: Connection,
}

/// One end of a connection each.
#[derive(Debug)]
struct Ends {
    tx: Sender,
    /// The deadline for which a timer was last set.
    armed: u64,
    rx: Receiver,
    there: Rc<[LinkId]>,
    back: Rc<[LinkId]>,
    /// Paths of its segments and of its acknowledgements among which they choose.
    choices: [Option<Choice>; 2],
}

/// Paths among which packets choose.
#[derive(Debug)]
struct Choice {
    spread: Spread,
    draws: u64,
    left: Option<u64>,
}

/// The engine.
#[derive(Debug)]
pub(super) struct Reference {
    fabric: Arc<Fabric>,
    tcp: Tcp,
    /// By node, with alpha; `None` if ports share no buffers.
    buffers: Option<(Vec<weft_fabric::Bytes>, f64)>,
    mss: u64,
    header: u64,
    subflows: usize,
    now: u64,
    ports: Vec<Port>,
    heap: std::collections::BinaryHeap<Reverse<(u64, Happens)>>,
    flows: BTreeMap<usize, Flow>,
    ends: BTreeMap<usize, Ends>,
    opening: Vec<usize>,
    ended: Vec<usize>,
    /// Ends that wait for their NIC.
    queued: BTreeSet<usize>,
    /// Whether flows that have lost a full window are reported, and those that have.
    rehashes: bool,
    congested: Vec<FlowId>,
    ending: usize,
    delivered: u64,
    segments: u64,
    hops: u64,
    drops: u64,
    timeouts: u64,
    timed_out: u64,
    sent: u64,
    received: u64,
    /// By link that was down: when it last lost a packet for that, and how many.
    lost: BTreeMap<LinkId, (Instant, u64)>,
}

impl Reference {
    pub fn new(fabric: &Arc<Fabric>, config: &PacketConfig) -> Self {
        let round_trip = super::settings::longest_path(fabric, config.hop_delay) * 2;
        let packet = weft_fabric::Bytes(config.transport.mss.0 + config.transport.header.0);
        let port = |(i, link): (usize, &weft_fabric::topology::Link)| {
            let queue = config.queue(fabric, LinkId::from(i), round_trip, packet);
            let rate = u128::from(queue.rate.0);
            let byte_time = ((8_000_000_000_000 << 20) + rate / 2) / rate;
            let time = |bytes: u64| ((u128::from(bytes) * byte_time) >> 20) as u64;
            let forwards = fabric.as_switch(link.to).is_some();
            Port {
                byte_time,
                delay: link.delay.as_ps() + if forwards { config.hop_delay.as_ps() } else { 0 },
                limit: time(queue.size.0),
                rate: queue.rate.0,
                shared: queue.shared,
                mark: queue.mark.map(|m| time(m.0)),
                room: queue.room.map(|r| [time(r.0) / 2, time(r.0) / 2 * 2]),
                queue: VecDeque::new(),
                waiting: VecDeque::new(),
                waits: 0,
                service: None,
                flying: VecDeque::new(),
                up: true,
                books: Books::default(),
            }
        };
        Self {
            ports: fabric.links().iter().enumerate().map(port).collect(),
            fabric: Arc::clone(fabric),
            tcp: config.tcp(),
            buffers: config.buffer_sizes(fabric, packet),
            mss: config.transport.mss.0,
            header: config.transport.header.0,
            subflows: if let super::TransportKind::Mptcp { subflows } = config.transport.kind { subflows as usize } else { 1 },
            now: 0,
            heap: std::collections::BinaryHeap::new(),
            flows: BTreeMap::new(),
            ends: BTreeMap::new(),
            opening: Vec::new(),
            ended: Vec::new(),
            queued: BTreeSet::new(),
            rehashes: config.overlay.rehash && !matches!(config.transport.kind, super::TransportKind::Mptcp { .. }),
            congested: Vec::new(),
            ending: 0,
            delivered: 0,
            segments: 0,
            hops: 0,
            drops: 0,
            timeouts: 0,
            timed_out: 0,
            sent: 0,
            received: 0,
            lost: BTreeMap::new(),
        }
    }

    fn at(&mut self, at: u64, what: Happens) {
        self.heap.push(Reverse((at, what)));
    }

    fn happen(&mut self, what: Happens) {
        match what {
            Happens::Left(link) => {
                let port = &mut self.ports[link as usize];
                let (packet, done) = port.service.take().expect("something was in service");
                assert_eq!(done, self.now);
                port.flying.push_back(packet);
                let arrives = self.now + port.delay;
                self.at(arrives, Happens::Arrives(link));
                self.serve(link);
            }
            Happens::Arrives(link) => {
                let port = &mut self.ports[link as usize];
                let mut packet = port.flying.pop_front().expect("something was on its way");
                if !port.up {
                    port.books.lost += 1;
                    self.lost_on_dead_link(LinkId(link));
                    self.drops += 1;
                    return;
                }
                port.books.arrived[0] += 1;
                port.books.arrived[1] += packet.len;
                packet.hop += 1;
                if packet.hop == packet.path.len() { self.deliver(packet) } else { self.enter(packet) }
            }
            Happens::Retransmit(end) => {
                let ends = self.ends.get_mut(&(end as usize)).expect("a known end");
                if ends.tx.deadline() == self.now {
                    ends.armed = NEVER;
                    self.time_out(end as usize);
                }
            }
            Happens::Turns(link) => self.take_turns(link as usize),
            Happens::DelayedAck(end) => {
                let due = self.ends.get_mut(&(end as usize)).and_then(|e| e.rx.on_timer(self.now));
                if let Some((number, marked)) = due {
                    self.answer(end as usize, What::Ack { number, blocks: Blocks::default() }, marked);
                }
            }
            Happens::Release(end) => {
                self.ends.get_mut(&(end as usize)).expect("a known end").tx.on_release();
                self.pump(end as usize);
            }
        }
    }

    fn lost_on_dead_link(&mut self, link: LinkId) {
        let packets = self.lost.get(&link).map_or(0, |&(_, packets)| packets);
        self.lost.insert(link, (Instant::from_ps(self.now), packets + 1));
    }

    /// The next packet of a port is sent, if there is one.
    fn serve(&mut self, link: u32) {
        let port = &mut self.ports[link as usize];
        if let Some(packet) = port.waiting.pop_front() {
            let done = self.now + port.time(packet.len);
            port.waits -= port.time(packet.len);
            port.service = Some((packet, done));
            self.at(done, Happens::Left(link));
        }
    }

    /// A packet comes to the port of its next hop.
    fn enter(&mut self, mut packet: Packet) {
        let link = packet.path[packet.hop];
        let port = &self.ports[link.index()];
        let (backlog, own) = (port.backlog(self.now), port.time(packet.len));
        let never_full = packet.hop == 0 && port.room.is_some();
        let fits = if port.shared { self.fits_in_buffer(link, own) } else { backlog + own <= port.limit };
        let port = &mut self.ports[link.index()];
        if !port.up || !fits && !never_full {
            port.books.refused += 1;
            if !port.up {
                self.lost_on_dead_link(link);
            }
            self.drops += 1;
            return;
        }
        let is_data = matches!(packet.what, What::Data { .. });
        packet.marked |= self.tcp.ecn && is_data && port.mark.is_some_and(|m| backlog > m);
        port.books.accepted[0] += 1;
        port.books.accepted[1] += packet.len;
        self.hops += 1;
        let idle = port.service.is_none();
        port.waits += port.time(packet.len);
        port.waiting.push_back(packet);
        if idle {
            self.serve(link.0);
        }
    }

    /// Whether a packet that takes so long to send finds room in the buffer of its switch: all its queues are looked at.
    fn fits_in_buffer(&self, link: LinkId, own: u64) -> bool {
        let queued = |l: LinkId| {
            let port = &self.ports[l.index()];
            u128::from(port.backlog(self.now)) * u128::from(port.rate)
        };
        let node = self.fabric.link(link).from;
        let occupied: u128 = self.fabric.out(node).iter().map(|&l| queued(l)).sum();
        let (sizes, alpha) = self.buffers.as_ref().expect("a shared queue has a buffer");
        let free = (u128::from(sizes[node.index()].0) * 8_000_000_000_000).saturating_sub(occupied);
        let threshold = free * (alpha * 65_536.0).round() as u128 / 65_536;
        let own = u128::from(own) * u128::from(self.ports[link.index()].rate);
        queued(link) + own <= threshold && own <= free
    }

    fn send(&mut self, end: usize, what: What, marked: bool, len: u64, path: Rc<[LinkId]>) {
        self.sent += 1;
        if path.is_empty() {
            self.drops += 1;
        } else {
            self.enter(Packet { end, what, marked, len, path, hop: 0 });
        }
    }

    /// The path of an end's next packet, if those choose: after a pause, between the times at which their NIC begins with them.
    fn choose(&mut self, end: usize, back: bool) {
        let Ends { there, back: answers, choices, .. } = self.ends.get_mut(&end).expect("a known end");
        let path = if back { answers } else { there };
        let Some(Choice { spread, draws, left }) = &mut choices[usize::from(back)] else { return };
        let now = self.now + path.first().map_or(0, |nic| self.ports[nic.index()].backlog(self.now));
        if left.replace(now).is_some_and(|left| now - left < spread.gap.as_ps()) {
            return;
        }
        *draws += 1;
        let point = fraction(mix(spread.seed.wrapping_add(*draws)));
        let mut sum = 0.0;
        for (candidate, probability) in &spread.paths {
            *path = Rc::from(&candidate[..]);
            sum += probability;
            if point < sum {
                break;
            }
        }
    }

    fn answer(&mut self, end: usize, what: What, marked: bool) {
        self.choose(end, true);
        let back = Rc::clone(&self.ends[&end].back);
        let option = if let What::Ack { blocks, .. } = what { u64::from(blocks.bytes()) } else { 0 };
        self.send(end, what, marked, self.header + option, back);
    }

    fn deliver(&mut self, packet: Packet) {
        self.received += 1;
        let end = packet.end;
        let ends = self.ends.get_mut(&end).expect("a known end");
        match packet.what {
            What::Syn => self.answer(end, What::SynAck, false),
            What::SynAck => {
                ends.tx.on_syn_ack(&self.tcp, self.now);
                self.pump(end);
            }
            What::Ack { number, blocks } => {
                if self.tcp.has_sack() {
                    ends.tx.on_sack(&self.tcp, self.now, number, packet.marked, &blocks);
                } else {
                    ends.tx.on_ack(&self.tcp, self.now, number, packet.marked);
                }
                self.pump(end);
            }
            What::Data { number, repeat } => {
                let duplicate = ends.rx.has(number);
                let answer = ends.rx.on_segment(&self.tcp, self.now, number, packet.marked, repeat);
                let blocks = if self.tcp.has_sack() { ends.rx.blocks(number, duplicate) } else { Blocks::default() };
                let (next, due) = (ends.rx.next(), ends.rx.due());
                self.book(end, number, answer.fresh, next);
                if let Some(number) = answer.early {
                    self.answer(end, What::Ack { number, blocks: Blocks::default() }, !answer.marked);
                }
                match answer.ack {
                    Some(number) => self.answer(end, What::Ack { number, blocks }, answer.marked),
                    None => self.at(due, Happens::DelayedAck(end as u32)),
                }
            }
        }
    }

    fn bytes_out(&self, port: &Port) -> u64 {
        port.books.accepted[1] - ((u128::from(port.backlog(self.now)) << 20) / port.byte_time) as u64
    }

    /// Nothing is lost track of: at each port, at each node, and in all.
    fn check_books(&self) {
        let mut in_out = vec![[0u64; 2]; self.fabric.nodes().len()];
        for (port, link) in self.ports.iter().zip(self.fabric.links()) {
            let Books { accepted, refused, arrived, lost } = port.books;
            assert_eq!(accepted[0], arrived[0] + lost + port.inside() + port.flying.len() as u64);
            assert_eq!(port.waits, port.waiting.iter().map(|p| port.time(p.len)).sum::<u64>());
            in_out[link.to.index()][0] += arrived[0];
            in_out[link.from.index()][1] += accepted[0] + refused;
        }
        let hosts = self.fabric.host_count();
        assert!(in_out[hosts..].iter().all(|[came, went]| came == went), "a switch makes or eats packets");
        let under_way: u64 = self.ports.iter().map(|p| p.inside() + p.flying.len() as u64).sum();
        assert_eq!(self.sent, self.received + self.drops + under_way);
    }
}

impl Model for Reference {
    const ANSWERS: bool = true;
    const BLIND: bool = true;
    const COUNTS_LINKS: bool = true;

    fn subflows(&self) -> u32 {
        self.subflows as u32
    }

    fn start(&mut self, id: FlowId, spec: &FlowSpec) {
        let bytes = if let Size::Finite(bytes) = spec.size { Some(bytes.0) } else { None };
        let segments = bytes.map_or(u32::MAX, |b| b.div_ceil(self.mss) as u32);
        self.flows.insert(id.index(), Flow { bytes, connection: Connection::new(self.subflows, segments) });
        let fed = if self.subflows > 1 { 0 } else { segments };
        for i in 0..self.subflows {
            let (there, back) = (Rc::from([]), Rc::from([]));
            let ends =
                Ends { tx: Sender::new(&self.tcp, fed), armed: NEVER, rx: Receiver::new(), there, back, choices: [None, None] };
            self.ends.insert(id.index() * self.subflows + i, ends);
        }
        self.ending += usize::from(bytes.is_some());
    }

    fn open(&mut self, id: FlowId) {
        self.opening.push(id.index());
    }

    fn take_congested(&mut self) -> Vec<FlowId> {
        std::mem::take(&mut self.congested)
    }

    fn set_path(&mut self, id: FlowId, subflow: u32, path: &[LinkId]) {
        let end = id.index() * self.subflows + subflow as usize;
        let ends = self.ends.get_mut(&end).expect("a known end");
        ends.there = Rc::from(path);
        ends.choices[0] = None;
    }

    fn set_path_back(&mut self, id: FlowId, subflow: u32, path: &[LinkId]) {
        let end = id.index() * self.subflows + subflow as usize;
        let ends = self.ends.get_mut(&end).expect("a known end");
        ends.back = Rc::from(path);
        ends.choices[1] = None;
    }

    fn spread(&mut self, id: FlowId, back: bool, spread: &Spread) {
        let ends = self.ends.get_mut(&id.index()).expect("a known end");
        ends.choices[usize::from(back)] = Some(Choice { spread: spread.clone(), draws: 0, left: None });
    }

    fn set_link(&mut self, link: LinkId, up: bool) {
        self.ports[link.index()].up = up;
    }

    fn link_bytes(&mut self, bytes: &mut [u64]) {
        for (bytes, port) in bytes.iter_mut().zip(&self.ports) {
            *bytes = self.bytes_out(port);
        }
    }

    fn settle(&mut self) {
        for id in std::mem::take(&mut self.opening) {
            for end in id * self.subflows..(id + 1) * self.subflows {
                self.ends.get_mut(&end).expect("a known end").tx.open(self.now);
                self.pump(end);
            }
        }
    }

    fn advance(&mut self, until: Instant, ended: &mut Vec<Ended>, _: Look<'_>) -> Instant {
        while let Some(&Reverse((at, what))) = self.heap.peek()
            && at < until.as_ps()
        {
            self.heap.pop();
            self.now = at;
            self.happen(what);
            for id in self.ended.drain(..) {
                self.ending -= 1;
                ended.push(Ended { id: FlowId(id as u32), at: Instant::from_ps(at) });
            }
            if !ended.is_empty() || !self.congested.is_empty() {
                return Instant::from_ps(at);
            }
        }
        self.check_books();
        if until != Instant::MAX {
            self.now = until.as_ps();
        }
        Instant::from_ps(self.now)
    }

    fn will_end(&self) -> bool {
        self.ending > 0 && !self.heap.is_empty()
    }

    fn delivered(&mut self, id: FlowId) -> u64 {
        let flow = &self.flows[&id.index()];
        let next = if self.subflows > 1 { flow.connection.next() } else { self.ends[&id.index()].rx.next() };
        (u64::from(next) * self.mss).min(flow.bytes.unwrap_or(u64::MAX))
    }

    fn delivered_total(&self) -> f64 {
        self.delivered as f64
    }

    fn work(&self) -> u64 {
        0
    }

    fn finish(&mut self, outcome: &mut Outcome) {
        self.check_books();
        let (mut all, mut reordered) = (0, 0);
        let (at_end, mut timed_out) = (outcome.ended.as_ps(), self.timed_out);
        for flow in &mut outcome.flows {
            let ends = self.siblings(flow.id.index() * self.subflows).filter_map(|e| self.ends.get(&e));
            let mut record = PacketRecord::default();
            for end in ends {
                record.retransmits += end.tx.repeats;
                timed_out += if flow.end.is_none() { end.tx.overdue(at_end) } else { 0 };
                record.reordered += end.rx.reordered;
            }
            all += u64::from(record.retransmits);
            reordered += u64::from(record.reordered);
            flow.packets = Some(record);
        }
        for (link, port) in outcome.links.iter_mut().zip(&self.ports) {
            link.drops = port.books.refused + port.books.lost;
        }
        let (hops, drops) = (self.hops, self.drops);
        outcome.packets = Some(PacketTotals {
            hops,
            drops,
            retransmits: all,
            reordered,
            segments: self.segments,
            timeouts: self.timeouts,
            timed_out: weft_fabric::Duration::from_ps(timed_out / self.subflows as u64),
            requests: None,
            lost: self.lost.iter().map(|(&link, &(last, _))| (link, last)).collect(),
            lost_packets: self.lost.values().map(|&(_, packets)| packets).collect(),
        });
    }
}
