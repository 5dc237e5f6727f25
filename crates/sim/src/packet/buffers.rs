//! Buffers that the ports of a switch share, with dynamic thresholds (Choudhury and Hahne, "Dynamic queue length thresholds for
//! shared-memory packet switches", 1998): a queue may be as long as alpha times what is free of its switch's buffer.
//!
//! ```text
//!   occupied at t = sum over busy ports of (free - t) * rate = sum of free * rate  -  t * sum of rates
//! ```
//! Both sums change only when a packet is accepted and when a port falls idle, so no event is needed for what leaves ([`super::ports`]).
//! Amounts are bits times 10^12 (picoseconds times bits per second): whole numbers, without rounding.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use weft_fabric::topology::Fabric;
use weft_fabric::{BitsPerSec, Bytes, LinkId};

/// The shared buffers of all switches.
#[derive(Clone, Debug)]
pub(super) struct Buffers {
    ports: Vec<Port>,
    buffers: Vec<Buffer>,
    alpha: Alpha,
}

/// A factor in parts of 2^16.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Alpha(u64);

#[derive(Clone, Copy, Debug)]
struct Port {
    buffer: u32,
    /// In bits per second.
    rate: u64,
    /// When all that was accepted has left; 0 if that is no part of the sums.
    free: u64,
}

#[derive(Clone, Debug, Default)]
struct Buffer {
    size: u128,
    /// Sum of `free` times `rate` of the busy ports.
    ends: u128,
    /// Sum of their rates.
    rates: u128,
    /// The busy ports, by a time at which they are busy still or just idle.
    busy: BinaryHeap<Reverse<(u64, u32)>>,
}

impl Buffers {
    /// Buffers of these sizes, by node, for the links of which `rate` gives one; `None`: not a port of a switch.
    pub fn new(fabric: &Fabric, sizes: &[Bytes], alpha: Alpha, rate: impl Fn(LinkId) -> Option<BitsPerSec>) -> Self {
        let port = |(i, link): (usize, &weft_fabric::topology::Link)| {
            let rate = rate(LinkId::from(i)).map_or(0, |r| r.0);
            Port { buffer: link.from.0, rate, free: 0 }
        };
        let buffer = |size: &Bytes| Buffer { size: amount(*size), ..Buffer::default() };
        Self { ports: fabric.links().iter().enumerate().map(port).collect(), buffers: sizes.iter().map(buffer).collect(), alpha }
    }

    /// How much more a port may take at `now`, when it has so much to send already (in time).
    pub fn room(&mut self, link: u32, now: u64, backlog: u64) -> u128 {
        let port = self.ports[link as usize];
        let buffer = &mut self.buffers[port.buffer as usize];
        while let Some(&Reverse((at, idle))) = buffer.busy.peek()
            && at <= now
        {
            buffer.busy.pop();
            let Port { free, rate, .. } = &mut self.ports[idle as usize];
            if *free > now {
                buffer.busy.push(Reverse((*free, idle)));
            } else {
                buffer.ends -= product(*free, *rate);
                buffer.rates -= u128::from(*rate);
                *free = 0;
            }
        }
        let occupied = buffer.ends - u128::from(now) * buffer.rates;
        room(buffer.size, occupied, product(backlog, port.rate), self.alpha)
    }

    /// A packet was accepted: the port is busy until `free`.
    pub fn accept(&mut self, link: u32, free: u64) {
        let port = &mut self.ports[link as usize];
        let buffer = &mut self.buffers[port.buffer as usize];
        if port.free == 0 {
            buffer.rates += u128::from(port.rate);
            buffer.busy.push(Reverse((free, link)));
        }
        buffer.ends += product(free - port.free, port.rate);
        port.free = free;
    }

    /// What a packet takes that is sent in that time.
    pub fn need(&self, link: u32, time: u64) -> u128 {
        product(time, self.ports[link as usize].rate)
    }
}

/// How much more a queue may take of a buffer: up to alpha times what is free, and no more than that.
pub(super) fn room(size: u128, occupied: u128, queued: u128, alpha: Alpha) -> u128 {
    let free = size.saturating_sub(occupied);
    alpha.times(free).saturating_sub(queued).min(free)
}

/// Bytes in bits times 10^12.
pub(super) fn amount(bytes: Bytes) -> u128 {
    u128::from(bytes.0) * 8_000_000_000_000
}

fn product(time: u64, rate: u64) -> u128 {
    u128::from(time) * u128::from(rate)
}

impl Alpha {
    /// The nearest factor there is.
    pub fn new(alpha: f64) -> Self {
        Self((alpha * f64::from(1u32 << 16)).round() as u64)
    }

    fn times(self, amount: u128) -> u128 {
        (amount * u128::from(self.0)) >> 16
    }
}

/// What a port adds to the buffer of its switch if the buffer is not given: as in switches of its rate that were sold. For each Gbps
/// 45 kB up to 1 Gbps (4 MB for 48 ports of 1 and 4 of 10 Gbps: Broadcom Triumph, in Alizadeh et al., "Data Center TCP", 2010), 14 kB up to
/// 10 Gbps (9 MB for 64 ports: Trident+), 9.4 kB up to 40 Gbps (12 MB for 32 ports: Trident II), then 5 kB (16 MB for 32 ports of 100 Gbps: Tomahawk,
/// 64 MB for 32 of 400 Gbps: Tomahawk 3). A port that is slower than 1 Gbps counts as one of 1 Gbps, and each adds 10 full packets at least.
pub(super) fn share_of(rate: BitsPerSec, packet: Bytes) -> Bytes {
    const GBPS: u64 = 1_000_000_000;
    const PER_GBPS: [(u64, u32); 4] = [(GBPS, 45_000), (10 * GBPS, 14_000), (40 * GBPS, 9_400), (u64::MAX, 5_000)];
    let (_, per_gbps) = PER_GBPS.into_iter().find(|(most, _)| rate.0 <= *most).expect("the last row has no limit");
    let of_rate = u128::from(per_gbps) * u128::from(rate.0.max(GBPS)) / u128::from(GBPS);
    Bytes(u64::try_from(of_rate).unwrap_or(u64::MAX).max(packet.0.saturating_mul(LEAST_PACKETS)))
}

/// Queues by the product of bandwidth and delay, and parts of a shared buffer, hold at least so many full packets: the product may be less than one.
pub(super) const LEAST_PACKETS: u64 = 10;

#[cfg(test)]
mod tests {
    use super::*;
    use weft_fabric::Duration;
    use weft_fabric::topology::shapes::{Cabling, single_switch};

    const GBPS: BitsPerSec = BitsPerSec(1_000_000_000);

    /// Ports 1 and 3 of a switch for two hosts leave the switch.
    fn two_ports(alpha: f64) -> Buffers {
        let fabric = single_switch(2, Cabling { rate: GBPS, delay: Duration::ZERO }).unwrap();
        let switch = fabric.switch_node(fabric.switches().next().unwrap());
        let sizes = vec![Bytes(30_000); fabric.nodes().len()];
        let buffers = Buffers::new(&fabric, &sizes, Alpha::new(alpha), |l| (fabric.link(l).from == switch).then_some(GBPS));
        assert_eq!(fabric.out(switch).iter().map(|l| l.0).collect::<Vec<_>>(), [1, 3]);
        buffers
    }

    /// Bytes that fit; one byte takes 8 ns.
    fn bytes(buffers: &mut Buffers, link: u32, now: u64, backlog: u64) -> u128 {
        buffers.room(link, now, backlog * 8_000) / 8_000_000_000_000
    }

    #[test]
    fn a_lone_queue_takes_alpha_over_one_plus_alpha() {
        for (alpha, most) in [(0.5, 10_000), (1.0, 15_000), (2.0, 20_000), (1e4, 30_000)] {
            let mut buffers = two_ports(alpha);
            let mut backlog = 0;
            while bytes(&mut buffers, 1, 0, backlog) >= 100 {
                backlog += 100;
                buffers.accept(1, backlog * 8_000);
            }
            assert!(backlog <= most && backlog + 100 > most - 100, "{alpha}: {backlog}");
        }
    }

    #[test]
    fn the_queue_of_another_port_counts_until_it_has_left() {
        let mut buffers = two_ports(1.0);
        buffers.accept(1, 10_000 * 8_000);
        assert_eq!(bytes(&mut buffers, 3, 0, 0), 20_000);
        assert_eq!(bytes(&mut buffers, 1, 0, 10_000), 10_000);
        // Half has left.
        assert_eq!(bytes(&mut buffers, 3, 5_000 * 8_000, 0), 25_000);
        // 4,000 more, then all but these.
        buffers.accept(1, 14_000 * 8_000);
        assert_eq!(bytes(&mut buffers, 3, 10_000 * 8_000, 0), 26_000);
        assert_eq!(bytes(&mut buffers, 3, 14_000 * 8_000, 0), 30_000);
        assert_eq!((buffers.buffers[0].rates + buffers.buffers[1].rates + buffers.buffers[2].rates), 0);
    }

    #[test]
    fn buffers_are_those_of_switches_on_the_market() {
        let share = |gbps: u64| share_of(BitsPerSec(gbps * 1_000_000_000), Bytes(1_500)).0;
        // 48 ports of 1 Gbps and 4 of 10: 4 MB; but ports of 10 Gbps count as those of a switch of 10 Gbps.
        assert_eq!(48 * share(1) + 4 * share(10), 2_720_000);
        assert_eq!(
            (64 * share(10), 32 * share(40), 32 * share(100), 32 * share(400)),
            (8_960_000, 12_032_000, 16_000_000, 64_000_000)
        );
        assert_eq!(share_of(BitsPerSec(10_000_000), Bytes(1_500)), Bytes(45_000));
        assert_eq!(share_of(GBPS, Bytes(9_000)), Bytes(90_000));
    }
}
