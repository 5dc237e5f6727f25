//! How full the ToRs are, and what a new flow makes of it (Subways section 5.2).
//!
//! For ToR x, with total capacity B_x of its working uplinks:
//!
//! ```text
//!   U_x   moving average of the used fraction of its uplinks, outbound        V_x = B_x (1 - U_x)   weight as a source's ToR
//!   D_x   the same of the links down to it, inbound                           E_x = B_x (1 - D_x)   weight as a destination's ToR
//! ```
//! Racks that do not detour see what U and D would be without detours (section 6: they do not interfere with adjacent servers):
//! those that end at a ToR are left out, since their cap follows from what is left beside them, and those that begin there count as
//! if they went up there. To a rack that detours, a ToR that its detours have relieved has room.
//!
//! DEVIATION: what remains is at least a millionth of the capacity. With every ToR full the printed weights are all 0; flows then go by
//! capacity. While another ToR has room, a full one gets no new flow: its counters show when it has room again.

use weft_fabric::topology::Health;
use weft_fabric::{Bytes, Fabric, LinkId, SwitchId};

/// The links between a ToR and the switches above it.
#[derive(Clone, Debug)]
pub struct Port {
    /// By direction (Out, In): the links up, and the same cables' links down.
    pub links: [Vec<LinkId>; 2],
    /// Bits per second of those that work: B.
    pub capacity: f64,
    /// By direction: bits per second of the last reading, without detours that end here.
    pub rate: [f64; 2],
    /// By direction: U and D without the detours that end here.
    pub utilisation: [f64; 2],
    /// The same with those that begin here: before any detours.
    pub before_detours: [f64; 2],
    read: bool,
}

impl Port {
    /// The uplinks of a ToR: its cables to switches of a higher tier.
    pub fn new(fabric: &Fabric, tor: SwitchId) -> Self {
        let node = fabric.switch_node(tor);
        let tier = fabric.node(node).tier;
        let up = fabric.out(node).iter().copied().filter(|&l| fabric.node(fabric.link(l).to).tier > tier);
        let up: Vec<LinkId> = up.collect();
        let down = up.iter().map(|l| l.reverse()).collect();
        let mut port = Self {
            links: [up, down],
            capacity: 0.0,
            rate: [0.0; 2],
            utilisation: [0.0; 2],
            before_detours: [0.0; 2],
            read: false,
        };
        port.repair(fabric, &Health::new(fabric));
        port
    }

    /// Counts the links that work.
    pub fn repair(&mut self, fabric: &Fabric, health: &Health) {
        let up = self.links[0].iter().filter(|&&l| health.is_up(l));
        self.capacity = up.map(|&l| fabric.link(l).capacity.as_f64()).sum();
    }

    /// What is left up to this utilisation, in bits per second; 0 if the average or the last reading is above it.
    pub fn room(&self, direction: usize, threshold: f64) -> f64 {
        let used = (self.capacity * self.utilisation[direction]).max(self.rate[direction]);
        (self.capacity * threshold - used).max(0.0)
    }

    /// What is used for certain, in bits per second: the lesser of the average and the last reading.
    pub fn used(&self, direction: usize) -> f64 {
        (self.capacity * self.utilisation[direction]).min(self.rate[direction])
    }

    /// Takes a reading: bytes by link now and at the last one, `seconds` ago, and by direction those of detours. The first reading is the
    /// average.
    pub fn read(&mut self, now: &[Bytes], last: &[Bytes], detours: [Carried; 2], seconds: f64, gain: f64) {
        for (direction, Carried { egress, origin }) in detours.into_iter().enumerate() {
            let bytes: u64 = self.links[direction].iter().map(|l| now[l.index()].0 - last[l.index()].0).sum();
            let direct = bytes.saturating_sub(egress);
            self.rate[direction] = direct as f64 * 8.0 / seconds;
            let used = |bytes: u64| {
                if self.capacity > 0.0 { (bytes as f64 * 8.0 / seconds / self.capacity).min(1.0) } else { 1.0 }
            };
            let (used, before) = (used(direct), used(direct + origin));
            let mix = |average: &mut f64, new| *average = if self.read { gain * new + (1.0 - gain) * *average } else { new };
            mix(&mut self.utilisation[direction], used);
            mix(&mut self.before_detours[direction], before);
        }
        self.read = true;
    }
}

/// Bytes of detours that end at a ToR, and of those that begin there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Carried {
    /// End.
    pub egress: u64,
    /// Begin.
    pub origin: u64,
}

/// V_x or E_x, in bits per second.
pub fn remaining(capacity: f64, utilisation: f64) -> f64 {
    capacity * (1.0 - utilisation).max(LEAST)
}

/// What a full ToR counts as having left, as a fraction of its capacity: it decides only between full ToRs.
const LEAST: f64 = 1e-6;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::subways::testing::{GBPS, Wiring, build};
    use weft_fabric::topology::Part;

    #[test]
    fn a_reading_is_averaged_with_what_was_known() {
        let fabric = build(Wiring { uplinks: 2, ..Wiring::default() });
        let mut port = Port::new(&fabric, SwitchId(3));
        assert_eq!((port.links[0].len(), port.capacity), (2, (20 * GBPS) as f64));
        let mut bytes = vec![Bytes(0); fabric.links().len()];
        let mut read = |port: &mut Port, up: u64, down: u64| {
            let last = bytes.clone();
            bytes[port.links[0][1].index()].0 += up;
            bytes[port.links[1][0].index()].0 += down;
            port.read(
                &bytes,
                &last,
                [Carried { egress: 0, origin: 6_250_000 }, Carried { egress: 6_250_000, origin: 0 }],
                0.01,
                0.5,
            );
        };
        // 10 ms at 20 Gbps are 25 MB.
        // Of what comes down, 5 Gbps are detours; as much detours from here, and goes up elsewhere.
        read(&mut port, 12_500_000, 12_500_000);
        assert_eq!((port.utilisation, port.before_detours), ([0.5, 0.25], [0.75, 0.25]));
        read(&mut port, 0, 25_000_000);
        assert_eq!((port.utilisation, port.rate), ([0.25, 0.5], [0.0, 15e9]));
        assert_eq!(remaining(port.capacity, 0.25), 15e9);
        assert_eq!(remaining(port.capacity, 1.0), 20e3);
    }

    #[test]
    fn a_tor_that_lost_its_uplinks_is_full() {
        let fabric = build(Wiring::default());
        let mut port = Port::new(&fabric, SwitchId(0));
        let mut health = Health::new(&fabric);
        for link in port.links[0].clone() {
            health.fail(&fabric, Part::Cable(link.cable()));
        }
        port.repair(&fabric, &health);
        let bytes = vec![Bytes(0); fabric.links().len()];
        port.read(&bytes, &bytes, [Carried::default(); 2], 0.01, 0.5);
        assert_eq!((port.capacity, port.utilisation), (0.0, [1.0, 1.0]));
        assert_eq!(remaining(port.capacity, 1.0), 0.0);
    }
}
