//! What the ends of flows do with packets that come to the end of their path, and when their timers run out.

use super::*;

impl Net {
    /// A packet has come to the end of its path.
    #[inline]
    pub(super) fn deliver(&mut self, item: u32) {
        let Packet { flow, number, kind, flags, .. } = self.packets[item];
        self.totals.received += 1;
        match kind {
            Kind::Data => {
                let rx = &mut self.rx[flow as usize];
                let answer = rx.tcp.on_segment(&self.tcp, self.now, number, flags & CE != 0, flags & REPEAT != 0);
                if self.subflows > 1 {
                    self.reassemble(flow, number);
                } else {
                    self.totals.delivered += u64::from(answer.fresh);
                    if answer.fresh > 0 && rx.tcp.next() == rx.end {
                        self.ended.push(Ended { at: self.now, link: self.link, flow });
                    }
                }
                if let Some(before) = answer.early {
                    self.acknowledge(flow, before, !answer.marked);
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
            Kind::Request => {
                let len = self.load.as_ref().map_or(0, |l| l.response_len());
                let Route { begin, forwards } = self.tx[flow as usize].route;
                self.reply(
                    item,
                    begin,
                    Packet {
                        flow,
                        number,
                        place: begin,
                        len: len + forwards * self.sizes.detour_header,
                        kind: Kind::Response,
                        flags: 0,
                    },
                );
            }
            Kind::Response => {
                self.packets.remove(item);
                self.totals.delivered += 1;
                if let Some(load) = &mut self.load {
                    load.answered(flow, number, self.now);
                }
            }
        }
    }

    /// Turns a packet that has arrived into one that goes back.
    #[inline]
    fn answer(&mut self, item: u32, flow: u32, kind: Kind, number: u32, marked: bool) {
        let Route { begin, forwards } = self.rx[flow as usize].route;
        let len = self.sizes.header + forwards * self.sizes.detour_header;
        let flags = if marked { CE } else { 0 };
        self.reply(item, begin, Packet { flow, number, place: begin, len, kind, flags });
    }

    /// Sends a packet in the place of one that has arrived.
    #[inline]
    fn reply(&mut self, item: u32, begin: u32, packet: Packet) {
        self.totals.sent += 1;
        if begin == END {
            self.totals.drops += 1;
            return self.packets.remove(item);
        }
        self.packets[item] = packet;
        self.emit(item);
    }

    /// A segment of a subflow has arrived: what that means for its connection.
    #[cold]
    fn reassemble(&mut self, end: u32, number: u32) {
        let flow = end / self.subflows;
        let connection = &mut self.connections[flow as usize];
        let fresh = connection.arrive((end % self.subflows) as usize, number);
        self.totals.delivered += u64::from(fresh);
        if fresh > 0 && connection.is_whole() {
            self.ended.push(Ended { at: self.now, link: self.link, flow });
        }
    }

    /// Gives a subflow what its window has room for, and sets its increase.
    #[cold]
    fn feed(&mut self, end: u32) -> bool {
        let (flow, first) = (end / self.subflows, end / self.subflows * self.subflows);
        let window = self.tx[end as usize].tcp.window();
        let siblings = self.tx[first as usize..(first + self.subflows) as usize].iter().map(|t| &t.tcp);
        let increase = linked_increase(siblings, window);
        let tx = &mut self.tx[end as usize].tcp;
        tx.set_increase(increase);
        tx.is_hungry(&self.tcp) && self.connections[flow as usize].feed((end - first) as usize, tx)
    }

    /// Sends what a flow may send.
    #[inline]
    pub(super) fn pump(&mut self, flow: u32) {
        let ect = if self.tcp.ecn { ECT } else { 0 };
        loop {
            let tx = &mut self.tx[flow as usize];
            let Some(segment) = tx.tcp.poll(&self.tcp, self.now) else {
                if self.subflows > 1 && self.feed(flow) {
                    continue;
                }
                break;
            };
            if tx.waits {
                self.move_if_silent(flow);
            }
            let tx = &self.tx[flow as usize];
            let Route { begin, forwards } = tx.route;
            let (kind, number, payload, flags) = match segment {
                Segment::Syn => (Kind::Syn, 0, 0, 0),
                Segment::Data { number, repeat } => {
                    let payload = if self.subflows == 1 && tx.tcp.is_last(number) { tx.last } else { self.sizes.mss };
                    (Kind::Data, number, payload, if repeat { ect | REPEAT } else { ect })
                }
            };
            self.totals.sent += 1;
            if begin == END {
                self.totals.drops += 1;
                continue;
            }
            let len = self.sizes.header + payload + forwards * self.sizes.detour_header;
            let item = self.packets.add(Packet { flow, number, place: begin, len, kind, flags });
            self.emit(item);
        }
        self.arm_retransmit(flow);
    }

    /// A timer that looks later than the deadline, such as that of the SYN, is overtaken by another one.
    #[inline]
    pub(super) fn arm_retransmit(&mut self, end: u32) {
        let tx = &mut self.tx[end as usize].tcp;
        let deadline = tx.deadline();
        if deadline < tx.timer_at {
            tx.timer_at = deadline;
            self.wheel.push(deadline, self.timers + RETRANSMIT, end);
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
    pub(super) fn timer(&mut self, event: Event) {
        match event.link - self.timers {
            RETRANSMIT => self.retransmit(event.item),
            DELAYED_ACK => self.delayed_ack(event.item),
            REQUEST => self.request(event.item),
            SHAPE => self.leave_shaper(event.item),
            _ => self.look(),
        }
    }

    fn retransmit(&mut self, end: u32) {
        let tx = &mut self.tx[end as usize].tcp;
        if tx.timer_at != self.now {
            return; // overtaken
        }
        tx.timer_at = NEVER;
        if self.subflows > 1 && tx.deadline() <= self.now {
            self.connections[(end / self.subflows) as usize].timed_out((end % self.subflows) as usize, tx);
        }
        if !tx.on_timer(&self.tcp, self.now) {
            return self.arm_retransmit(end);
        }
        self.pump(end);
        if self.subflows > 1 {
            let first = end / self.subflows * self.subflows;
            (first..first + self.subflows).filter(|&e| e != end).for_each(|e| self.pump(e));
        }
    }

    fn delayed_ack(&mut self, end: u32) {
        let rx = &mut self.rx[end as usize];
        rx.tcp.armed = false;
        match rx.tcp.on_timer(self.now) {
            Some((number, marked)) => self.acknowledge(end, number, marked),
            None => self.arm_delayed_ack(end),
        }
    }

    /// Sends an acknowledgement that no packet becomes.
    #[cold]
    fn acknowledge(&mut self, end: u32, number: u32, marked: bool) {
        let empty = Packet { flow: end, number, place: 0, len: 0, kind: Kind::Ack, flags: 0 };
        let item = self.packets.add(empty);
        self.answer(item, end, Kind::Ack, number, marked);
    }

    /// A client sends its next request.
    fn request(&mut self, client: u32) {
        let Some(load) = &mut self.load else { return };
        let (flow, number, next) = load.next(client);
        let len = load.request_len();
        self.wheel.push(next, self.timers + REQUEST, client);
        let Route { begin, forwards } = self.rx[flow as usize].route;
        let len = len + forwards * self.sizes.detour_header;
        let packet = Packet { flow, number, place: begin, len, kind: Kind::Request, flags: 0 };
        let item = self.packets.add(packet);
        self.reply(item, begin, packet);
    }
}
