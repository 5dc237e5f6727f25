//! What the ends of flows do with packets that come to the end of their path, and when their timers run out.

use super::*;

impl Net {
    /// A packet has come to the end of its path.
    #[inline]
    pub(super) fn deliver(&mut self, item: u32) {
        let Packet { flow, number, kind, flags, .. } = self.packets[item];
        self.totals.received += 1;
        match kind {
            Kind::Data if self.special => self.on_segment::<true>(item),
            Kind::Data => self.on_segment::<false>(item),
            Kind::Ack => {
                self.packets.remove(item);
                self.tx[flow as usize].tcp.on_ack(&self.tcp, self.now, number, flags & CE != 0);
                self.pump(flow);
            }
            Kind::Sack => {
                let blocks = if flags & BLOCKS == 0 { Blocks::default() } else { self.blocks[item as usize] };
                self.packets.remove(item);
                self.tx[flow as usize].tcp.on_sack(&self.tcp, self.now, number, flags & CE != 0, &blocks);
                self.pump(flow);
            }
            Kind::Syn => {
                self.choose_route_back(flow);
                self.answer(item, flow, Kind::SynAck, 0, false);
            }
            Kind::SynAck => {
                self.packets.remove(item);
                self.tx[flow as usize].tcp.on_syn_ack(&self.tcp, self.now);
                self.pump(flow);
            }
            Kind::Request => {
                let len = self.load.as_ref().map_or(0, |l| l.response_len());
                if self.tx[flow as usize].moves {
                    self.choose_route(flow);
                }
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

    /// A segment has come; `SPECIAL` where [`Net::special`] is set.
    #[inline]
    fn on_segment<const SPECIAL: bool>(&mut self, item: u32) {
        let Packet { flow, number, flags, .. } = self.packets[item];
        let rx = &mut self.rx[flow as usize];
        let sack = SPECIAL && self.tcp.has_sack();
        let duplicate = sack && rx.tcp.has(number);
        let answer = rx.tcp.on_segment(&self.tcp, self.now, number, flags & CE != 0, flags & REPEAT != 0);
        let blocks = if sack { rx.tcp.blocks(number, duplicate) } else { Blocks::default() };
        if SPECIAL && self.subflows > 1 {
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
        if SPECIAL && answer.ack.is_some() {
            self.choose_route_back(flow);
        }
        match answer.ack {
            Some(number) if sack => self.answer_with(item, flow, number, answer.marked, blocks),
            Some(number) => self.answer(item, flow, Kind::Ack, number, answer.marked),
            None => {
                self.packets.remove(item);
                self.arm_delayed_ack(flow);
            }
        }
    }

    /// Turns a segment that has arrived into an acknowledgement with blocks.
    fn answer_with(&mut self, item: u32, flow: u32, number: u32, marked: bool, blocks: Blocks) {
        let Route { begin, forwards } = self.rx[flow as usize].route;
        let len = self.sizes.header + blocks.bytes() + forwards * self.sizes.detour_header;
        let mut flags = if marked { CE } else { 0 };
        if !blocks.is_empty() {
            flags |= BLOCKS;
            put_blocks(&mut self.blocks, item, blocks);
        }
        self.reply(item, begin, Packet { flow, number, place: begin, len, kind: Kind::Sack, flags });
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

    /// Whether a subflow's window has room for more than it was given. Sets its increase.
    #[cold]
    fn is_hungry(&mut self, end: u32) -> bool {
        let first = end / self.subflows * self.subflows;
        let window = self.tx[end as usize].tcp.window();
        let siblings = self.tx[first as usize..(first + self.subflows) as usize].iter().map(|t| &t.tcp);
        let increase = linked_increase(siblings, window);
        let tx = &mut self.tx[end as usize].tcp;
        tx.set_increase(increase);
        tx.is_hungry(&self.tcp)
    }

    /// Gives a subflow one segment more, if there is one.
    #[cold]
    fn feed(&mut self, end: u32) -> bool {
        let tx = &mut self.tx[end as usize].tcp;
        self.connections[(end / self.subflows) as usize].feed((end % self.subflows) as usize, tx)
    }

    /// Sends what a flow may send, as far as its NIC has room.
    #[inline]
    pub(super) fn pump(&mut self, flow: u32) {
        while self.may_send(flow) {
            if let Some(link) = self.full_nic(flow) {
                self.wait_for_nic(flow, link);
                break;
            }
            if !self.send(flow) {
                break;
            }
        }
        self.arm_retransmit(flow);
    }

    /// Whether a flow could send something, unless it waits already.
    #[inline]
    fn may_send(&mut self, flow: u32) -> bool {
        let Tx { tcp, queued, .. } = &mut self.tx[flow as usize];
        !*queued && (tcp.may_send(&self.tcp) || self.subflows > 1 && self.is_hungry(flow))
    }

    /// The NIC of a flow, if it takes nothing now.
    #[inline]
    fn full_nic(&self, flow: u32) -> Option<u32> {
        let link = self.paths.nic(self.tx[flow as usize].route)?;
        self.ports.is_full(link, self.now).then_some(link)
    }

    #[cold]
    fn wait_for_nic(&mut self, flow: u32, link: u32) {
        self.tx[flow as usize].queued = true;
        if let Some(at) = self.ports.wait(link, flow) {
            self.wheel.push(at, self.timers + NIC_ROOM, link);
        }
    }

    /// A NIC has room: flows that wait for it send a segment each, in turns.
    fn nic_has_room(&mut self, link: u32) {
        while let Some(flow) = self.ports.turn(link, self.now) {
            let tx = &mut self.tx[flow as usize];
            tx.queued = false;
            if self.paths.nic(tx.route) != Some(link) {
                self.pump(flow); // its route leads by another NIC now
                continue;
            }
            if self.may_send(flow) && self.send(flow) && self.may_send(flow) {
                self.tx[flow as usize].queued = true;
                self.ports.wait(link, flow);
            }
            self.arm_retransmit(flow);
        }
        if let Some(at) = self.ports.end_turns(link) {
            self.wheel.push(at, self.timers + NIC_ROOM, link);
        }
    }

    /// Sends a flow's next segment, if it has one.
    #[inline]
    fn send(&mut self, flow: u32) -> bool {
        let tx = &mut self.tx[flow as usize];
        let segment = match tx.tcp.poll(&self.tcp, self.now) {
            None if self.subflows > 1 && self.feed(flow) => self.tx[flow as usize].tcp.poll(&self.tcp, self.now),
            segment => segment,
        };
        let Some(segment) = segment else { return false };
        if let Segment::Later { at } = segment {
            self.wheel.push(at, self.timers + RELEASE, flow);
            return false;
        }
        if self.tx[flow as usize].moves {
            self.choose_route(flow);
        }
        let ect = if self.tcp.ecn { ECT } else { 0 };
        let tx = &self.tx[flow as usize];
        let Route { begin, forwards } = tx.route;
        let (kind, number, payload, flags) = match segment {
            Segment::Syn => (Kind::Syn, 0, 0, 0),
            Segment::Data { number, repeat } => {
                let payload = if self.subflows == 1 && tx.tcp.is_last(number) { tx.last } else { self.sizes.mss };
                (Kind::Data, number, payload, if repeat { ect | REPEAT } else { ect })
            }
            Segment::Later { .. } => unreachable!("it is no segment"),
        };
        self.totals.sent += 1;
        if begin == END {
            self.totals.drops += 1;
            return true;
        }
        let len = self.sizes.header + payload + forwards * self.sizes.detour_header;
        let item = self.packets.add(Packet { flow, number, place: begin, len, kind, flags });
        self.emit(item);
        true
    }

    /// A timer that looks later than the deadline, such as that of the SYN, is overtaken by another one.
    #[inline]
    pub(super) fn arm_retransmit(&mut self, end: u32) {
        let tx = &mut self.tx[end as usize].tcp;
        let deadline = tx.deadline();
        debug_assert!(deadline >= self.now, "a deadline that has passed");
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
            NIC_ROOM => self.nic_has_room(event.item),
            RELEASE => {
                self.tx[event.item as usize].tcp.on_release();
                self.pump(event.item);
            }
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
        if self.subflows > 1 && tx.has_timed_out(self.now) {
            self.connections[(end / self.subflows) as usize].timed_out((end % self.subflows) as usize, tx);
        }
        let (timed_out, waited) = (tx.has_timed_out(self.now), tx.rto());
        if !tx.on_timer(&self.tcp, self.now) {
            return self.arm_retransmit(end);
        }
        if timed_out {
            self.totals.timeouts += 1;
            self.totals.timed_out = self.totals.timed_out.saturating_add(waited);
            if self.rehashes {
                self.ended.push(Ended { at: self.now, link: NO_LINK, flow: end });
            }
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
        let kind = if self.tcp.has_sack() { Kind::Sack } else { Kind::Ack };
        self.choose_route_back(end);
        let empty = Packet { flow: end, number, place: 0, len: 0, kind, flags: 0 };
        let item = self.packets.add(empty);
        self.answer(item, end, kind, number, marked);
    }

    /// A client sends its next request.
    fn request(&mut self, client: u32) {
        let Some(load) = &mut self.load else { return };
        let (flow, number, next) = load.next(client);
        let len = load.request_len();
        self.wheel.push(next, self.timers + REQUEST, client);
        self.choose_route_back(flow);
        let Route { begin, forwards } = self.rx[flow as usize].route;
        let len = len + forwards * self.sizes.detour_header;
        let packet = Packet { flow, number, place: begin, len, kind: Kind::Request, flags: 0 };
        let item = self.packets.add(packet);
        self.reply(item, begin, packet);
    }
}
