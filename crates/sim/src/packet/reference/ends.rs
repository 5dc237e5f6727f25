//! The two ends of a connection: when they send, what they book, and when they time out.

use super::*;

impl Reference {
    /// Segments have arrived.
    pub(super) fn book(&mut self, end: usize, number: u32, mut fresh: u32, mut next: u32) {
        let id = end / self.subflows;
        let flow = self.flows.get_mut(&id).expect("a known flow");
        if self.subflows > 1 {
            fresh = flow.connection.arrive(end % self.subflows, number);
            next = flow.connection.next();
        }
        self.segments += u64::from(fresh);
        let Some(bytes) = flow.bytes else {
            self.delivered += u64::from(fresh) * self.mss;
            return;
        };
        if fresh > 0 {
            let reached = |segments: u32| (u64::from(segments) * self.mss).min(bytes);
            self.delivered += reached(next) - reached(next - fresh);
            if reached(next) == bytes {
                self.ended.push(id);
            }
        }
    }

    /// Sends what an end may send, as far as its NIC has room.
    pub(super) fn pump(&mut self, end: usize) {
        while self.may_send(end) {
            let nic = self.ends[&end].there.first().map(|l| l.index());
            if let Some(nic) = nic.filter(|&nic| !self.ports[nic].queue.is_empty() || !self.has_room(nic)) {
                self.ports[nic].queue.push_back(end);
                self.queued.insert(end);
                if self.ports[nic].queue.len() == 1 {
                    self.plan_turns(nic);
                }
                break;
            }
            if !self.send_next(end) {
                break;
            }
        }
        self.arm(end);
    }

    pub(super) fn arm(&mut self, end: usize) {
        let ends = self.ends.get_mut(&end).expect("a known end");
        let deadline = ends.tx.deadline();
        if std::mem::replace(&mut ends.armed, deadline) != deadline && deadline != NEVER {
            self.at(deadline, Happens::Retransmit(end as u32));
        }
    }

    pub(super) fn has_room(&self, nic: usize) -> bool {
        let port = &self.ports[nic];
        port.room.is_none_or(|[_, full]| port.backlog(self.now) <= full)
    }

    pub(super) fn plan_turns(&mut self, nic: usize) {
        let port = &self.ports[nic];
        let [low, _] = port.room.expect("a NIC with back-pressure");
        let at = self.now + port.backlog(self.now) - low;
        self.at(at, Happens::Turns(nic as u32));
    }

    /// Those that wait for a NIC send a segment each, in turns, as long as it has room.
    pub(super) fn take_turns(&mut self, nic: usize) {
        let mut waiting = std::mem::take(&mut self.ports[nic].queue);
        while self.has_room(nic)
            && let Some(end) = waiting.pop_front()
        {
            assert!(self.queued.remove(&end) && !waiting.contains(&end), "an end waits in one place");
            if self.ends[&end].there.first().is_none_or(|l| l.index() != nic) {
                self.pump(end);
                continue;
            }
            if self.may_send(end) && self.send_next(end) && self.may_send(end) {
                waiting.push_back(end);
                self.queued.insert(end);
            }
            self.arm(end);
        }
        if !waiting.is_empty() {
            self.ports[nic].queue = waiting;
            self.plan_turns(nic);
        }
    }

    /// Whether an end could send something, and does not wait for its NIC.
    pub(super) fn may_send(&mut self, end: usize) -> bool {
        !self.queued.contains(&end)
            && (self.ends.get_mut(&end).expect("a known end").tx.may_send(&self.tcp) || self.subflows > 1 && self.is_hungry(end))
    }

    pub(super) fn send_next(&mut self, end: usize) -> bool {
        let ends = self.ends.get_mut(&end).expect("a known end");
        let flow = self.flows.get_mut(&(end / self.subflows)).expect("a known flow");
        if self.subflows > 1 && !ends.tx.may_send(&self.tcp) && !flow.connection.feed(end % self.subflows, &mut ends.tx) {
            return false;
        }
        let Some(segment) = ends.tx.poll(&self.tcp, self.now) else { return false };
        if !matches!(segment, Segment::Later { .. }) {
            self.choose(end, false);
        }
        let (ends, bytes) = (&self.ends[&end], self.flows[&(end / self.subflows)].bytes);
        let there = Rc::clone(&ends.there);
        match segment {
            Segment::Syn => self.send(end, What::Syn, false, self.header, there),
            Segment::Data { number, repeat } => {
                let whole = u64::from(number + 1) * self.mss;
                let over = match bytes {
                    Some(bytes) if self.subflows == 1 => whole.saturating_sub(bytes),
                    _ => 0,
                };
                let len = self.header + self.mss - over;
                self.send(end, What::Data { number, repeat }, false, len, there);
            }
            Segment::Later { at } => {
                self.at(at, Happens::Release(end as u32));
                return false;
            }
        }
        true
    }

    pub(super) fn siblings(&self, end: usize) -> std::ops::Range<usize> {
        let first = end / self.subflows * self.subflows;
        first..first + self.subflows
    }

    pub(super) fn is_hungry(&mut self, end: usize) -> bool {
        let window = self.ends[&end].tx.window();
        let increase = linked_increase(self.siblings(end).map(|e| &self.ends[&e].tx), window);
        let tx = &mut self.ends.get_mut(&end).expect("a known end").tx;
        tx.set_increase(increase);
        tx.is_hungry(&self.tcp)
    }

    pub(super) fn time_out(&mut self, end: usize) {
        let tx = &mut self.ends.get_mut(&end).expect("a known end").tx;
        let flow = self.flows.get_mut(&(end / self.subflows)).expect("a known flow");
        if self.subflows > 1 && tx.has_timed_out(self.now) {
            flow.connection.timed_out(end % self.subflows, tx);
        }
        if tx.has_timed_out(self.now) {
            self.timeouts += 1;
            self.timed_out = self.timed_out.saturating_add(tx.rto());
            if self.rehashes {
                self.congested.push(FlowId(end as u32));
            }
        }
        assert!(tx.on_timer(&self.tcp, self.now));
        self.pump(end);
        for other in self.siblings(end).filter(|&e| e != end) {
            self.pump(other);
        }
    }
}
