//! The load: the shuffle of a map-reduce, by many tenants at once (NetLord section 5.2).
//!
//! Every VM of a tenant sends so many bytes to each other one, one after the other in random order. A VM refuses what comes beyond so many
//! incoming transfers at a time; the sender puts a refused one back at a random place of its list.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use rand::RngExt;
use rand::seq::SliceRandom;

use crate::ids::{FlowId, HostId};
use crate::rng::{Pcg64, Stream, stream};
use crate::time::{Duration, Instant};
use crate::traffic::flow::{FlowSpec, Size, Workload};
use crate::units::Bytes;

/// The VMs of all tenants, and what each has still to send.
#[derive(Debug)]
pub struct Shuffle {
    /// By VM: its host.
    host: Vec<u32>,
    /// By VM: the first one of its tenant.
    first: Vec<u32>,
    /// By VM: how many its tenant has.
    count: Vec<u32>,
    /// By VM: to which it has still to send, by their place in the tenant; the next one is the last.
    pending: Vec<Vec<u16>>,
    rng: Pcg64,
}

impl Shuffle {
    /// The hosts of each tenant's VMs, tenant by tenant.
    pub fn new(tenants: impl Iterator<Item = Vec<HostId>>, seed: u64) -> Self {
        let (mut host, mut first, mut count) = (Vec::new(), Vec::new(), Vec::new());
        for hosts in tenants {
            let begin = host.len() as u32;
            first.resize(host.len() + hosts.len(), begin);
            count.resize(host.len() + hosts.len(), hosts.len() as u32);
            host.extend(hosts.iter().map(|h| h.0));
        }
        let pending = vec![Vec::new(); host.len()];
        Self { host, first, count, pending, rng: stream(seed, Stream::Tenants) }
    }

    /// VMs of all tenants.
    pub fn vms(&self) -> u32 {
        self.host.len() as u32
    }

    /// Transfers in all: from each VM to each other one of its tenant.
    pub fn transfers(&self) -> u64 {
        self.count.iter().map(|&vms| u64::from(vms) - 1).sum()
    }

    /// The host of a VM.
    #[inline]
    pub fn host(&self, vm: u32) -> u32 {
        self.host[vm as usize]
    }

    /// Everything is to be sent again.
    pub fn begin(&mut self) {
        for vm in 0..self.host.len() {
            let own = (vm as u32 - self.first[vm]) as u16;
            let list = &mut self.pending[vm];
            list.clear();
            list.extend((0..self.count[vm] as u16).filter(|&other| other != own));
            list.shuffle(&mut self.rng);
        }
    }

    /// The VM to which this one sends next.
    pub fn next(&mut self, vm: u32) -> Option<u32> {
        Some(self.first[vm as usize] + u32::from(self.pending[vm as usize].pop()?))
    }

    /// A transfer was refused: later, at some place.
    pub fn put_back(&mut self, vm: u32, peer: u32) {
        let list = &mut self.pending[vm as usize];
        let place = self.rng.random_range(0..=list.len());
        list.insert(place, (peer - self.first[vm as usize]) as u16);
    }

    /// A time from 0 to `spread`.
    pub fn draw(&mut self, spread: u64) -> u64 {
        self.rng.random_range(0..=spread)
    }
}

/// What each VM sends, and how many it takes at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShuffleLoad {
    /// Bytes of a transfer.
    pub size: Bytes,
    /// Incoming transfers of a VM at a time.
    pub incoming: u32,
    /// From a refusal to the next attempt.
    pub pause: Duration,
    /// Over how long a time the VMs begin.
    pub start_spread: Duration,
}

/// Whether one VM can send to another, by their numbers.
pub type Reaches = Box<dyn Fn(u32, u32) -> bool + Send>;

/// The shuffles as flows, for a world whose flows have connections. The ends of its flows are VMs: a [`HostId`] here is the number of a VM, tenant by tenant.
pub struct TenantWorkload {
    shuffle: Shuffle,
    load: ShuffleLoad,
    reaches: Reaches,
    /// What begins when: time, number, from whom, to whom.
    due: BinaryHeap<Reverse<(Instant, u64, u32, u32)>>,
    numbered: u64,
    /// By receiving VM: how many transfers it has taken that have not ended.
    coming: Vec<u32>,
    /// By sending VM: whether its transfer was taken.
    taken: Vec<bool>,
}

impl TenantWorkload {
    /// The shuffles of tenants, each of which has so many VMs. What `reaches` denies is left out.
    pub fn new(tenants: &[usize], load: ShuffleLoad, reaches: Reaches, seed: u64) -> Self {
        let mut shuffle = Shuffle::new(tenants.iter().map(|&vms| vec![HostId(0); vms]), seed);
        shuffle.begin();
        let vms = shuffle.vms();
        let (coming, taken) = (vec![0; vms as usize], vec![false; vms as usize]);
        let mut workload = Self { shuffle, load, reaches, due: BinaryHeap::new(), numbered: 0, coming, taken };
        for vm in 0..vms {
            let at = workload.shuffle.draw(load.start_spread.as_ps());
            workload.plan(vm, Instant::from_ps(at));
        }
        workload
    }

    /// The next transfer of a VM, if it has one left.
    fn plan(&mut self, vm: u32, at: Instant) {
        while let Some(peer) = self.shuffle.next(vm) {
            if (self.reaches)(vm, peer) {
                self.due.push(Reverse((at, self.numbered, vm, peer)));
                self.numbered += 1;
                return;
            }
        }
    }

    /// The transfer of a VM is over, if its receiver had taken it.
    fn leave(&mut self, spec: &FlowSpec) {
        if std::mem::take(&mut self.taken[spec.src.index()]) {
            self.coming[spec.dst.index()] -= 1;
        }
    }
}

impl Workload for TenantWorkload {
    fn next_start(&self) -> Option<Instant> {
        self.due.peek().map(|Reverse((at, ..))| *at)
    }

    fn next_flow(&mut self) -> Option<FlowSpec> {
        let Reverse((start, _, src, dst)) = self.due.pop()?;
        Some(FlowSpec { src: HostId(src), dst: HostId(dst), start, size: Size::Finite(self.load.size) })
    }

    fn flow_arrived(&mut self, spec: &FlowSpec) -> bool {
        let coming = &mut self.coming[spec.dst.index()];
        if *coming >= self.load.incoming {
            return false;
        }
        *coming += 1;
        self.taken[spec.src.index()] = true;
        true
    }

    fn flow_ended(&mut self, _: FlowId, spec: &FlowSpec, now: Instant) {
        self.leave(spec);
        self.plan(spec.src.0, now);
    }

    fn flow_given_up(&mut self, spec: &FlowSpec, now: Instant) {
        self.leave(spec);
        self.shuffle.put_back(spec.src.0, spec.dst.0);
        self.plan(spec.src.0, now + self.load.pause);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    const LOAD: ShuffleLoad =
        ShuffleLoad { size: Bytes(10), incoming: 1, pause: Duration::from_ms(10), start_spread: Duration::from_ms(5) };

    /// Carries it, each flow for a millisecond; who sent to whom, and how often somebody was refused.
    fn carry(mut workload: TenantWorkload) -> (Vec<(u32, u32)>, usize) {
        let (mut sent, mut refused, mut now) = (Vec::new(), 0, Instant::ZERO);
        let mut open: Vec<(Instant, FlowSpec)> = Vec::new();
        let mut last = Instant::ZERO;
        loop {
            let ends = open.iter().map(|(at, _)| *at).min();
            match (workload.next_start(), ends) {
                (None, None) => return (sent, refused),
                (Some(start), ends) if ends.is_none_or(|end| start < end) => {
                    let flow = workload.next_flow().expect("it was announced");
                    assert!(start >= last && flow.start == start, "starts never decrease");
                    (last, now) = (start, now.max(start));
                    if workload.flow_arrived(&flow) {
                        assert!(open.iter().all(|(_, it)| it.src != flow.src), "one at a time");
                        open.push((now + Duration::from_ms(1), flow));
                        let coming = open.iter().filter(|(_, it)| it.dst == flow.dst).count();
                        assert!(coming <= LOAD.incoming as usize);
                    } else {
                        refused += 1;
                        workload.flow_given_up(&flow, now);
                    }
                }
                (_, Some(end)) => {
                    now = end;
                    let at = open.iter().position(|(at, _)| *at == end).expect("it is open");
                    let (_, flow) = open.swap_remove(at);
                    sent.push((flow.src.0, flow.dst.0));
                    workload.flow_ended(FlowId(0), &flow, now);
                }
                _ => unreachable!("one of them is due"),
            }
        }
    }

    #[test]
    fn all_send_to_all_of_their_tenant_once() {
        let (sent, refused) = carry(TenantWorkload::new(&[4, 3], LOAD, Box::new(|_, _| true), 7));
        let all: BTreeSet<(u32, u32)> = sent.iter().copied().collect();
        let pairs = |vms: std::ops::Range<u32>| {
            let of = vms.clone();
            vms.flat_map(move |a| of.clone().filter(move |&b| a != b).map(move |b| (a, b)))
        };
        assert_eq!(all, pairs(0..4).chain(pairs(4..7)).collect());
        assert_eq!(sent.len(), all.len());
        assert!(refused > 0, "four begin at once, and each takes one");
    }

    #[test]
    fn who_is_not_reached_is_left_out() {
        let (sent, _) = carry(TenantWorkload::new(&[3], LOAD, Box::new(|a, b| a != 1 && b != 1), 7));
        assert_eq!(sent.into_iter().collect::<BTreeSet<_>>(), [(0, 2), (2, 0)].into());
        assert!(TenantWorkload::new(&[1, 0], LOAD, Box::new(|_, _| true), 7).next_start().is_none());
    }

    #[test]
    fn what_is_broken_is_sent_again() {
        let mut workload = TenantWorkload::new(&[2], LOAD, Box::new(|_, _| true), 7);
        let first = workload.next_flow().expect("two VMs");
        assert!(workload.flow_arrived(&first));
        workload.flow_given_up(&first, Instant::from_ps(0));
        let rest: Vec<FlowSpec> = std::iter::from_fn(|| workload.next_flow()).collect();
        assert!(rest.iter().any(|it| (it.src, it.dst) == (first.src, first.dst)));
        assert!(workload.flow_arrived(&first), "its place is free again");
    }
}
