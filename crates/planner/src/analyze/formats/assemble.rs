//! Flows from packets: packets of a five-tuple belong to one flow until none comes for the idle timeout. Memory is bounded: if too many flows
//! are open, all that have been idle for a while are closed, and then the oldest.

use std::collections::VecDeque;
use std::net::IpAddr;

use rustc_hash::FxHashMap;
use weft_control::wire::packet::ip::Flow;

use super::{Endpoint, FlowRecord, Options, Place, Problem, Sink};

/// Flows that are open: about 150 MB.
const MAX_OPEN: usize = 1_000_000;

#[derive(Clone, Copy, Debug)]
struct Open {
    start: i64,
    last: i64,
    bytes: u64,
    packets: u64,
    sampling: u32,
    number: u64,
}

/// A five-tuple, and the device that sampled it.
type Key = (Flow, Option<IpAddr>);

/// A packet of a flow.
#[derive(Clone, Copy, Debug)]
pub struct Seen {
    /// Its five-tuple.
    pub flow: Flow,
    /// Nanoseconds since 1970.
    pub at: i64,
    /// Bytes of IP.
    pub bytes: u64,
    /// One packet in so many was recorded; 1 if the log does not state it.
    pub sampling: u32,
    /// The device that sampled it.
    pub exporter: Option<IpAddr>,
}

/// Assembles flows.
pub struct Assembler {
    open: FxHashMap<Key, Open>,
    /// Flows in the order in which they began or were last looked at, with the packet that began them.
    order: VecDeque<(Key, u64)>,
    idle_ns: i64,
    sampling: u32,
    max_open: usize,
    last: i64,
    /// Packets before the one before, and the largest such step.
    back: (u64, i64),
    closed_early: u64,
}

impl Assembler {
    /// No flow is open.
    pub fn new(options: &Options) -> Self {
        Self {
            open: FxHashMap::default(),
            order: VecDeque::new(),
            idle_ns: options.idle_ns,
            sampling: options.sampling.unwrap_or(1),
            max_open: MAX_OPEN,
            last: i64::MIN,
            back: (0, 0),
            closed_early: 0,
        }
    }

    /// Adds a packet.
    pub fn packet(&mut self, seen: &Seen, place: Place<'_>, sink: &mut dyn Sink) -> Result<(), Problem> {
        let &Seen { flow, at, bytes, sampling, exporter } = seen;
        let key = (flow, exporter);
        if at < self.last {
            self.back = (self.back.0 + 1, self.back.1.max(self.last - at));
        }
        self.last = self.last.max(at);
        let sampling = if sampling > 1 { sampling } else { self.sampling };
        let fresh = Open { start: at, last: at, bytes, packets: 1, sampling, number: place.number };
        match self.open.get_mut(&key) {
            Some(open) if at.saturating_sub(open.last) <= self.idle_ns && open.sampling == sampling => {
                (open.start, open.last) = (open.start.min(at), open.last.max(at));
                open.bytes = open.bytes.saturating_add(bytes);
                open.packets += 1;
                return Ok(());
            }
            Some(open) => {
                let done = std::mem::replace(open, fresh);
                close(key, done, place, sink)?;
            }
            None => {
                self.open.insert(key, fresh);
            }
        }
        self.order.push_back((key, place.number));
        self.expire(place, sink)
    }

    /// Closes flows that are idle, and others if too many are open. It looks at a few for each new one, in turn, so that the cost of a packet is bounded.
    fn expire(&mut self, place: Place<'_>, sink: &mut dyn Sink) -> Result<(), Problem> {
        for _ in 0..4 {
            let Some((key, number)) = self.order.pop_front() else { break };
            let Some(open) = self.open.get(&key).copied().filter(|open| open.number == number) else { continue };
            let is_idle = self.last.saturating_sub(open.last) > self.idle_ns;
            if is_idle || self.open.len() > self.max_open {
                self.closed_early += u64::from(!is_idle);
                self.open.remove(&key);
                close(key, open, place, sink)?;
            } else {
                self.order.push_back((key, number));
            }
        }
        Ok(())
    }

    /// Closes all flows, and reports what the clock did.
    pub fn finish(&mut self, sink: &mut dyn Sink, options: &Options) -> Result<(), Problem> {
        if self.back.0 > 0 {
            let (count, step) = (self.back.0, self.back.1 as f64 / 1e9);
            sink.tally()
                .note(format!("{}: the clock of the capture goes back {count} times, by {step:.6} s at most", options.file));
        }
        if self.closed_early > 0 {
            let count = self.closed_early;
            sink.tally().note(format!("{}: {count} flows were divided: more than {MAX_OPEN} were open", options.file));
        }
        while let Some((key, number)) = self.order.pop_front() {
            if self.open.get(&key).is_some_and(|open| open.number == number) {
                let open = self.open.remove(&key).expect("it is open");
                close(key, open, options.place("packet", number), sink)?;
            }
        }
        Ok(())
    }
}

fn close((flow, exporter): Key, open: Open, place: Place<'_>, sink: &mut dyn Sink) -> Result<(), Problem> {
    let place = Place { number: open.number, ..place };
    let record = FlowRecord {
        src: Endpoint::Ip(flow.source),
        dst: Endpoint::Ip(flow.destination),
        src_port: flow.source_port,
        dst_port: flow.destination_port,
        protocol: flow.protocol,
        start: open.start,
        end: Some(open.last),
        bytes: open.bytes,
        packets: open.packets,
        sampling: open.sampling,
        exporter: exporter.map(Endpoint::Ip),
    };
    sink.flow(record, place)
}
