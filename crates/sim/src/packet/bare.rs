//! A bare loop, to measure the engine against: packets hop from port to port along fixed paths as in [`super::net`], with a fixed
//! window a flow in place of TCP, and nothing is ever lost. What it reaches is the bound of this design on a machine.

use weft_fabric::{Bytes, Duration, Fabric, LinkId};

use super::packets::{Kind, Packet};
use super::paths::{END, Paths, Route};
use super::ports::{Fate, Ports, Queue};
use super::slab::Slab;
use super::touch::touch;
use super::wheel::Wheel;

/// Sends `segments` full packets of each flow along its path, `WINDOW` of them at a time, each answered by one of 40 bytes on the path
/// back. Returns the number of hops.
pub fn bare_loop(fabric: &Fabric, paths: &[(Vec<LinkId>, Vec<LinkId>)], segments: u32) -> u64 {
    let mut bare = Bare::new(fabric, paths, segments);
    for flow in 0..paths.len() as u32 {
        for _ in 0..WINDOW.min(segments) {
            bare.send(flow);
        }
    }
    while let Some(event) = bare.wheel.pop(u64::MAX) {
        bare.look_ahead();
        bare.now = event.at;
        let packet = &mut bare.packets[event.item];
        packet.place += 1;
        match bare.paths.at(packet.place) {
            END => bare.deliver(event.item),
            link => bare.forward(link, event.item),
        }
    }
    bare.hops
}

struct Bare {
    now: u64,
    hops: u64,
    wheel: Wheel,
    ports: Ports,
    packets: Slab<Packet>,
    paths: Paths,
    routes: Vec<(Route, Route)>,
    /// Segments that each flow has still to send.
    left: Vec<u32>,
}

impl Bare {
    fn new(fabric: &Fabric, paths: &[(Vec<LinkId>, Vec<LinkId>)], segments: u32) -> Self {
        let endless = |l: LinkId| Queue {
            rate: fabric.link(l).capacity,
            size: Bytes(1 << 40),
            shared: false,
            mark: None,
            room: None,
            jitter: Duration::ZERO,
            dithers: false,
        };
        let ports = Ports::new(fabric, Duration::ZERO, None, endless);
        let (width, slots) =
            super::net::wheel_size(fabric, &ports, super::net::Sizes { mss: 1460, header: 40, detour_header: 0 });
        let mut store = Paths::default();
        let routes = paths.iter().map(|(there, back)| (store.intern(fabric, there), store.intern(fabric, back))).collect();
        let wheel = Wheel::new(width, slots, fabric.links().len() as u32, ports.look_ahead(40));
        Self {
            now: 0,
            hops: 0,
            packets: Slab::new(wheel.max_items()),
            wheel,
            ports,
            paths: store,
            routes,
            left: vec![segments; paths.len()],
        }
    }

    #[inline]
    fn send(&mut self, flow: u32) {
        let left = &mut self.left[flow as usize];
        if *left == 0 {
            return;
        }
        *left -= 1;
        let begin = self.routes[flow as usize].0.begin;
        let item = self.packets.add(Packet { flow, number: 0, place: begin, len: 1500, kind: Kind::Data, flags: 0 });
        self.forward(self.paths.at(begin), item);
    }

    #[inline]
    fn forward(&mut self, link: u32, item: u32) {
        let Fate::Arrives { at, .. } = self.ports.send(link, self.packets[item].len, self.now, false) else {
            unreachable!("queues without end")
        };
        self.hops += 1;
        self.wheel.push(at, link, item);
    }

    #[inline]
    fn deliver(&mut self, item: u32) {
        let Packet { flow, kind, .. } = self.packets[item];
        if kind == Kind::Ack {
            self.packets.remove(item);
            return self.send(flow);
        }
        let begin = self.routes[flow as usize].1.begin;
        self.packets[item] = Packet { flow, number: 0, place: begin, len: 40, kind: Kind::Ack, flags: 0 };
        self.forward(self.paths.at(begin), item);
    }

    #[inline]
    fn look_ahead(&self) {
        if let Some(event) = self.wheel.ahead(12) {
            touch(self.packets.as_ptr(event.item));
        }
        if let Some(event) = self.wheel.ahead(4) {
            let hop = self.paths.at(self.packets[event.item].place + 1);
            if hop != END {
                touch(self.ports.as_ptr(hop));
            }
        }
    }
}

/// Packets of a flow under way: about the bandwidth-delay product of the benchmark's paths.
const WINDOW: u32 = 16;
