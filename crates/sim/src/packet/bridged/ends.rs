//! What hosts do: they take what is for their VMs, count what is not, and carry the VMs' transfers.

use weft_control::netlord::spain::choose;
use weft_fabric::rng::mix;

use super::engine::{AGENT, BEGIN, DELAYED_ACK, Engine, FAULT, NIC_ROOM, RETRANSMIT, Rx, TREE, Tx};
use super::frames::{CE, ECT, Frame, Kind, REPEAT, ROUTED};
use super::{Addresses, Returns};
use crate::packet::tcp::NEVER;
use crate::packet::tcp::receiver::Receiver;
use crate::packet::tcp::sender::{Segment, Sender};

impl Engine {
    /// A frame has come to a host.
    pub(super) fn receive(&mut self, host: u32, item: u32) {
        let frame = self.frames[item];
        self.discard(item);
        let is_for_us = match self.addresses {
            Addresses::Edge => frame.flags & ROUTED != 0,
            _ => self.hosts_of(&frame).1 == host,
        };
        if !is_for_us {
            self.counted.floods += u64::from(self.now >= self.counts_from);
            return;
        }
        if self.faults.is_some() {
            self.incoming(&frame);
        }
        match frame.kind {
            Kind::Syn => self.on_syn(&frame),
            Kind::Data => self.on_data(&frame),
            Kind::Chirp | Kind::ChirpBack | Kind::Hello | Kind::HelloBack => return,
            _ => self.on_answer(&frame),
        }
        if let Returns::Own { chirp } = self.returns {
            self.chirp(&frame, chirp.as_ps());
        }
    }

    /// Shows switches on the VLAN of a frame where its receiver is, unless it sends there anyway or has just done so.
    fn chirp(&mut self, frame: &Frame, period: u64) {
        let (tx, rx) = (&mut self.tx[frame.vm as usize], &mut self.rx[frame.vm as usize]);
        let (kind, transfer, own, due) = match frame.kind {
            Kind::Syn | Kind::Data => (Kind::ChirpBack, rx.transfer, rx.vlan, &mut rx.chirps),
            _ => (Kind::Chirp, tx.transfer, tx.vlan, &mut tx.chirps),
        };
        if frame.transfer == transfer && frame.vlan != own && *due <= self.now {
            *due = self.now + period;
            self.emit(Frame { number: 0, len: self.header, kind, flags: 0, ..*frame });
        }
    }

    /// A transfer is asked for.
    fn on_syn(&mut self, frame: &Frame) {
        let (vm, peer) = (frame.vm as usize, frame.peer as usize);
        if frame.transfer > self.rx[vm].transfer {
            if self.incoming[peer] >= self.most_incoming {
                self.totals.refused += 1;
                return self.answer(frame, Kind::Refused, 0, false);
            }
            // An earlier transfer that its sender has given up.
            self.close(vm);
            self.incoming[peer] += 1;
            let vlan = self.return_vlan(frame);
            self.rx[vm] = Rx { tcp: Receiver::new(), peer: frame.peer, transfer: frame.transfer, vlan, open: true, chirps: 0 };
        }
        if frame.transfer == self.rx[vm].transfer {
            self.answer(frame, Kind::SynAck, 0, false);
        }
    }

    fn close(&mut self, vm: usize) {
        if std::mem::take(&mut self.rx[vm].open) {
            self.incoming[self.rx[vm].peer as usize] -= 1;
        }
    }

    fn on_data(&mut self, frame: &Frame) {
        let vm = frame.vm as usize;
        let rx = &mut self.rx[vm];
        if frame.transfer != rx.transfer {
            return;
        }
        let (marked, repeat) = (frame.flags & CE != 0, frame.flags & REPEAT != 0);
        let answer = rx.tcp.on_segment(&self.tcp, self.now, frame.number, marked, repeat);
        if answer.fresh > 0 {
            let whole = rx.tcp.next() == self.segments;
            let missing = if whole { self.mss - self.last } else { 0 };
            if self.now >= self.counts_from {
                self.counted.bytes += u64::from(answer.fresh) * u64::from(self.mss) - u64::from(missing);
            }
            if whole {
                self.counted.finished += 1;
                self.counted.last_end = self.now;
                self.close(vm);
            }
        }
        if let Some(before) = answer.early {
            self.answer(frame, Kind::Ack, before, !answer.marked);
        }
        match answer.ack {
            Some(number) => self.answer(frame, Kind::Ack, number, answer.marked),
            None => self.arm_delayed_ack(frame.vm),
        }
    }

    /// What the receiver of a transfer has sent back.
    fn on_answer(&mut self, frame: &Frame) {
        let tx = &mut self.tx[frame.vm as usize];
        if frame.transfer != tx.transfer || !tx.tcp.is_under_way() {
            return;
        }
        match frame.kind {
            Kind::SynAck => tx.tcp.on_syn_ack(&self.tcp, self.now),
            Kind::Refused => return self.put_back(frame.vm),
            _ => tx.tcp.on_ack(&self.tcp, self.now, frame.number, frame.flags & CE != 0),
        }
        if self.tx[frame.vm as usize].tcp.is_under_way() {
            self.pump(frame.vm);
        } else {
            self.begin(frame.vm);
        }
    }

    /// Later, to somebody else.
    fn put_back(&mut self, vm: u32) {
        self.shuffle.put_back(vm, self.tx[vm as usize].peer);
        self.give_up(vm);
        self.begin_at(vm, self.now + self.pause);
    }

    pub(super) fn begin_at(&mut self, vm: u32, at: u64) {
        self.tx[vm as usize].begins = at;
        self.wheel.push(at, self.timers + BEGIN, vm);
    }

    fn give_up(&mut self, vm: u32) {
        let tx = &mut self.tx[vm as usize];
        self.totals.repeats += u64::from(tx.tcp.repeats);
        tx.tcp = Sender::new(&self.tcp, 0);
    }

    /// A VM begins its next transfer.
    fn begin(&mut self, vm: u32) {
        self.give_up(vm);
        let Some(peer) = self.shuffle.next(vm) else {
            if std::mem::take(&mut self.tx[vm as usize].busy) {
                self.busy -= 1;
            }
            return;
        };
        let transfer = self.tx[vm as usize].transfer + 1;
        let vlan = self.choose_vlan(vm, peer, transfer);
        let mut tcp = Sender::new(&self.tcp, self.segments);
        tcp.open(self.now);
        let queued = self.tx[vm as usize].queued;
        self.tx[vm as usize] = Tx { tcp, peer, transfer, vlan, busy: true, begins: NEVER, chirps: 0, queued };
        self.counted.begun += 1;
        self.pump(vm);
    }

    /// What the sender's agent chooses while all paths work.
    fn choose_vlan(&self, from: u32, to: u32, transfer: u32) -> u16 {
        let flow = flow_hash(from, to, transfer);
        let [a, b] = [from, to].map(|v| self.shuffle.host(v));
        if self.is_untagged(a, b) { 0 } else { choose(self.lans.between(a, b).iter().copied(), flow).map_or(0, |v| v.0) }
    }

    /// The VLAN of the answers to a frame of a transfer.
    fn return_vlan(&self, frame: &Frame) -> u16 {
        match self.returns {
            Returns::Same => frame.vlan,
            Returns::Own { .. } => self.choose_vlan(frame.peer, frame.vm, frame.transfer),
        }
    }

    /// The hash by which the agent of a frame's sender chooses its VLAN.
    pub(super) fn flow_of(&self, frame: &Frame) -> u64 {
        match (self.returns, frame.ends()) {
            (Returns::Same, _) => flow_hash(frame.vm, frame.peer, frame.transfer),
            (Returns::Own { .. }, (from, to)) => flow_hash(from, to, frame.transfer),
        }
    }

    /// NetLord tags nothing that stays at its switch.
    fn is_untagged(&self, a: u32, b: u32) -> bool {
        self.addresses == Addresses::Edge && self.lans.attached(a).edge == self.lans.attached(b).edge
    }

    /// Sends what a transfer may send, as far as its NIC has room.
    fn pump(&mut self, vm: u32) {
        let link = self.lans.attached(self.shuffle.host(vm)).up;
        while self.may_send(vm) {
            if self.ports.is_full(link, self.now) {
                self.wait_for_nic(vm, link);
                break;
            }
            self.send_segment(vm);
        }
        self.arm_retransmit(vm);
    }

    /// Whether a transfer could send something, unless it waits already.
    fn may_send(&mut self, vm: u32) -> bool {
        let Tx { tcp, queued, .. } = &mut self.tx[vm as usize];
        !*queued && tcp.may_send(&self.tcp)
    }

    #[cold]
    fn wait_for_nic(&mut self, vm: u32, link: u32) {
        self.tx[vm as usize].queued = true;
        if let Some(at) = self.ports.wait(link, vm) {
            self.wheel.push(at, self.timers + NIC_ROOM, link);
        }
    }

    /// A NIC has room: VMs that wait for it send a segment each, in turns.
    fn nic_has_room(&mut self, link: u32) {
        while let Some(vm) = self.ports.turn(link, self.now) {
            self.tx[vm as usize].queued = false;
            if self.may_send(vm) {
                self.send_segment(vm);
                self.arm_retransmit(vm);
            }
            if self.may_send(vm) {
                self.wait_for_nic(vm, link);
            }
        }
        if let Some(at) = self.ports.end_turns(link) {
            self.wheel.push(at, self.timers + NIC_ROOM, link);
        }
    }

    /// Sends a transfer's next segment.
    fn send_segment(&mut self, vm: u32) {
        let ect = if self.tcp.ecn { ECT } else { 0 };
        let tx = &mut self.tx[vm as usize];
        let Some(segment) = tx.tcp.poll(&self.tcp, self.now) else { return };
        let (kind, number, payload, flags) = match segment {
            Segment::Syn => (Kind::Syn, 0, 0, 0),
            Segment::Data { number, repeat } => {
                let payload = if tx.tcp.is_last(number) { self.last } else { self.mss };
                (Kind::Data, number, payload, if repeat { ect | REPEAT } else { ect })
            }
            Segment::Later { .. } => unreachable!("BridgedWorld refuses pacing"),
        };
        let Tx { peer, transfer, vlan, .. } = *tx;
        self.emit(Frame { vm, peer, number, transfer, len: self.header + payload, vlan, kind, flags });
    }

    fn answer(&mut self, to: &Frame, kind: Kind, number: u32, marked: bool) {
        let flags = if marked { CE } else { 0 };
        self.emit(Frame { number, len: self.header, kind, flags, vlan: self.return_vlan(to), ..*to });
    }

    fn arm_retransmit(&mut self, vm: u32) {
        let tx = &mut self.tx[vm as usize].tcp;
        let deadline = tx.deadline();
        if deadline < tx.timer_at {
            tx.timer_at = deadline;
            self.wheel.push(deadline, self.timers + RETRANSMIT, vm);
        }
    }

    fn arm_delayed_ack(&mut self, vm: u32) {
        let rx = &mut self.rx[vm as usize].tcp;
        if !rx.armed && rx.due() != NEVER {
            rx.armed = true;
            self.wheel.push(rx.due(), self.timers + DELAYED_ACK, vm);
        }
    }

    #[cold]
    pub(super) fn timer(&mut self, timer: u32, item: u32) {
        match timer {
            RETRANSMIT => self.retransmit(item),
            DELAYED_ACK => self.delayed_ack(item),
            FAULT => self.on_fault(item),
            TREE => self.on_tree(item),
            AGENT => self.on_agent(item),
            NIC_ROOM => self.nic_has_room(item),
            _ if self.tx[item as usize].begins == self.now => self.begin(item),
            _ => {} // of an earlier trial
        }
    }

    fn retransmit(&mut self, vm: u32) {
        let tx = &mut self.tx[vm as usize].tcp;
        if tx.timer_at != self.now {
            return; // of an earlier transfer, or overtaken
        }
        tx.timer_at = NEVER;
        if !tx.on_timer(&self.tcp, self.now) {
            return self.arm_retransmit(vm);
        }
        if tx.is_under_way() {
            self.pump(vm);
        } else {
            self.put_back(vm); // given up
        }
    }

    fn delayed_ack(&mut self, vm: u32) {
        let rx = &mut self.rx[vm as usize];
        rx.tcp.armed = false;
        let Rx { peer, transfer, vlan, .. } = *rx;
        match rx.tcp.on_timer(self.now) {
            Some((number, marked)) => {
                let flags = if marked { CE } else { 0 };
                let len = self.header;
                self.emit(Frame { vm, peer, number, transfer, len, vlan, kind: Kind::Ack, flags });
            }
            None => self.arm_delayed_ack(vm),
        }
    }

    /// Nobody sends any more, and what is under way is for nobody.
    pub(super) fn stop(&mut self) {
        for vm in 0..self.tx.len() {
            self.give_up(vm as u32);
            let tx = &mut self.tx[vm];
            (tx.busy, tx.begins) = (false, NEVER);
            tx.transfer += 1;
            let transfer = tx.transfer;
            self.close(vm);
            self.rx[vm] = Rx { tcp: Receiver::new(), peer: 0, transfer, vlan: 0, open: false, chirps: 0 };
        }
        self.busy = 0;
    }
}

fn flow_hash(from: u32, to: u32, transfer: u32) -> u64 {
    mix(mix(u64::from(from) << 32 | u64::from(to)) ^ u64::from(transfer))
}
