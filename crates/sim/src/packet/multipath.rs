//! MPTCP (Subways section 5.1; RFC 8684 in outline, increases of RFC 6356): a connection spreads its segments over subflows.
//!
//! A subflow is a TCP connection of its own, with a path of its own, and takes a segment whenever its window has room. If it runs into
//! a timeout, what it has under way may be sent by the others as well. Establishing subflows costs each its handshake.

use std::collections::VecDeque;

use super::tcp::sender::Sender;

/// A connection over several subflows.
#[derive(Clone, Debug, Default)]
pub(super) struct Connection {
    /// The next segment that no subflow has.
    fresh: u32,
    /// Segments there are; `u32::MAX` if they never end.
    end: u32,
    /// Segments that a subflow may have lost, to be given to another one.
    again: VecDeque<u32>,
    /// What each subflow has under way: data sequence numbers from its first unacknowledged segment on.
    maps: Vec<Map>,
    /// Segments that have arrived: all below this, and the islands beyond.
    arrived: u32,
    islands: Vec<(u32, u32)>,
}

#[derive(Clone, Debug, Default)]
struct Map {
    base: u32,
    data: VecDeque<u32>,
}

impl Connection {
    pub fn new(subflows: usize, end: u32) -> Self {
        Self { end, maps: vec![Map::default(); subflows], ..Self::default() }
    }

    /// Gives a subflow one segment more, if there is one.
    pub fn feed(&mut self, subflow: usize, sender: &mut Sender) -> bool {
        let data = loop {
            match self.again.pop_front() {
                Some(data) if self.has(data) => {}
                Some(data) => break data,
                None if self.fresh < self.end => {
                    self.fresh += 1;
                    break self.fresh - 1;
                }
                None => return false,
            }
        };
        let map = &mut self.maps[subflow];
        let una = sender.outstanding().start;
        while map.base < una && !map.data.is_empty() {
            map.data.pop_front();
            map.base += 1;
        }
        map.data.push_back(data);
        sender.feed();
        true
    }

    /// A subflow has timed out: others may send what it has under way.
    pub fn timed_out(&mut self, subflow: usize, sender: &Sender) {
        let map = &self.maps[subflow];
        let under_way = sender.outstanding();
        let lost = under_way.filter_map(|n| map.data.get((n.checked_sub(map.base)?) as usize).copied());
        let lost: Vec<u32> = lost.filter(|&d| !self.has(d) && !self.again.contains(&d)).collect();
        self.again.extend(lost);
    }

    /// A segment of a subflow has arrived; returns how many of the connection's are now in order that were not before.
    pub fn arrive(&mut self, subflow: usize, number: u32) -> u32 {
        let map = &self.maps[subflow];
        let Some(&data) = number.checked_sub(map.base).and_then(|i| map.data.get(i as usize)) else { return 0 };
        if self.has(data) {
            return 0;
        }
        let before = self.arrived;
        let at = self.islands.partition_point(|i| i.1 < data);
        match self.islands.get_mut(at) {
            Some(island) if island.1 == data => island.1 += 1,
            Some(island) if island.0 == data + 1 => island.0 = data,
            _ => self.islands.insert(at, (data, data + 1)),
        }
        if let Some(after) = self.islands.get(at + 1).copied()
            && self.islands[at].1 == after.0
        {
            self.islands[at].1 = after.1;
            self.islands.remove(at + 1);
        }
        if self.islands[0].0 == self.arrived {
            self.arrived = self.islands.remove(0).1;
        }
        self.arrived - before
    }

    /// Segments in order.
    pub fn next(&self) -> u32 {
        self.arrived
    }

    pub fn is_whole(&self) -> bool {
        self.arrived == self.end
    }

    fn has(&self, data: u32) -> bool {
        data < self.arrived || self.islands.iter().any(|i| i.0 <= data && data < i.1)
    }
}

/// RFC 6356 section 3: on subflow i each acknowledged segment adds `min(alpha / total, 1 / w_i)`, where
/// `alpha = total max(w/rtt^2) / (sum w/rtt)^2`. Returns its inverse: segments to be acknowledged for one more.
pub(super) fn linked_increase<'a>(subflows: impl Iterator<Item = &'a Sender>, window: u32) -> f64 {
    let (mut best, mut rate) = (0.0f64, 0.0f64);
    for s in subflows.filter(|s| s.srtt() > 0) {
        let (w, rtt) = (f64::from(s.window()), s.srtt() as f64);
        best = best.max(w / (rtt * rtt));
        rate += w / rtt;
    }
    // total / alpha, the total cancels.
    let shared = if best > 0.0 { rate * rate / best } else { f64::from(window) };
    shared.max(f64::from(window))
}
