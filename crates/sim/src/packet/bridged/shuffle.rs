//! The load: the shuffle of a map-reduce, by many tenants at once (NetLord section 5.2).
//!
//! Every VM of a tenant sends so many bytes to each other one, one after the other in random order. A VM refuses what comes beyond so many
//! incoming transfers at a time; the sender puts a refused one back at a random place of its list.

use rand::RngExt;
use rand::seq::SliceRandom;
use weft_fabric::HostId;
use weft_fabric::rng::{Pcg64, Stream, stream};

/// The VMs of all tenants, and what each has still to send.
#[derive(Debug)]
pub(super) struct Shuffle {
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
