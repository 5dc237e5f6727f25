//! Which connections detours carry: those for which NICs have no room (Subways section 6: excess load).
//!
//! ```text
//!   U of the host's ToRs together, average and last reading above 60 %    its NICs give up connections, at most down to 60 %
//!   U of a ToR, average and last reading up to 60 %                       its NICs get back as many as fit up to 60 %
//! ```
//! 60 % is `hot_threshold`. Where average and last reading disagree, connections stay, and neither step crosses the threshold: they do not go to
//! and fro.
//!
//! DEVIATION: the paper has its formula for rebinding, which evens out utilisations, and detours until a ToR is no longer hot. By these alone
//! connections stay on detours, within their hosts' shares of these, while the ToRs beside them are idle.

use crate::subways::rebinding::Lane;
use crate::subways::weights::remaining;

/// Detours carry what NICs have no room for: of the connections that NICs have, these keep at least the fraction `kept`, and of those on detours
/// they get back `returning`, by what host and ToR have left there. In the parts of a split, of which detours give up what NICs miss, each in
/// proportion.
pub fn keep_direct(lanes: &[Lane], kept: f64, returning: f64, parts: &mut [f64]) {
    let connections = f64::from(lanes.iter().map(|l| l.connections).sum::<u32>());
    if connections == 0.0 {
        return;
    }
    // By lane; nothing for detours.
    let nics = |of: &dyn Fn(usize, &Lane) -> f64| -> Vec<f64> {
        lanes.iter().enumerate().map(|(at, lane)| if lane.is_detour { 0.0 } else { of(at, lane) }).collect()
    };
    let present = nics(&|_, lane| f64::from(lane.connections) / connections);
    let planned = nics(&|at, _| parts[at]);
    let (there, direct): (f64, f64) = (present.iter().sum(), planned.iter().sum());
    let back = (1.0 - there) * returning;
    let missing = there * kept + back - direct;
    if missing <= 0.0 {
        return;
    }
    let back = back.min(missing);
    let held = nics(&|at, _| (present[at] - planned[at]).max(0.0));
    let room = nics(&|_, lane| (lane.limit - lane.rate).max(0.0).min(remaining(lane.capacity, lane.utilisation)));
    let mut given = 0.0;
    for (amount, weights) in [(missing - back, held), (back, room)] {
        let all: f64 = weights.iter().sum();
        if all > 0.0 {
            parts.iter_mut().zip(weights).for_each(|(part, weight)| *part += amount * weight / all);
            given += amount;
        }
    }
    let left = (1.0 - direct - given) / (1.0 - direct);
    parts.iter_mut().zip(lanes).filter(|(_, l)| l.is_detour).for_each(|(part, _)| *part *= left);
}

/// The connections that a ToR has and could have.
#[derive(Clone, Copy, Debug, Default)]
pub struct Demand {
    /// Those that go straight up there.
    pub direct: f64,
    /// Those of its racks that are on detours.
    pub away: f64,
    /// Their rate, bits per second.
    pub away_rate: f64,
    /// The rate of a host's link to it, bits per second.
    pub nic: f64,
}

impl Demand {
    /// The fraction of those on detours for which there is room, where the others have `rate` together; both in bits per second. A connection
    /// that comes is expected to take as much as those that are there, and no less than on its detour; where none is, all that a NIC can.
    pub fn returning(&self, room: f64, rate: f64) -> f64 {
        if self.away <= 0.0 || room <= 0.0 {
            return 0.0;
        }
        let each = if self.direct > 0.0 { (rate / self.direct).max(self.away_rate / self.away) } else { self.nic };
        if each * self.away > room { room / (each * self.away) } else { 1.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lane(connections: u32, is_detour: bool) -> Lane {
        Lane { capacity: 40e9, utilisation: 0.5, rate: 1e9, limit: 10e9, connections, is_detour }
    }

    fn close(a: &[f64], b: &[f64]) {
        assert!(a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-12), "{a:?} {b:?}");
    }

    #[test]
    fn detours_carry_what_nics_have_no_room_for() {
        let nic = |connections| lane(connections, false);
        let detour = |connections| lane(connections, true);
        let of = |lanes: &[Lane], kept, returning, mut parts: Vec<f64>| {
            keep_direct(lanes, kept, returning, &mut parts);
            parts
        };
        // NICs give up to 40 % of their connections.
        close(&of(&[nic(10), detour(0)], 0.6, 0.0, vec![0.3, 0.7]), &[0.6, 0.4]);
        close(&of(&[nic(10), detour(0)], 0.6, 0.0, vec![0.7, 0.3]), &[0.7, 0.3]);
        // They give up none, and get back what fits.
        close(&of(&[nic(3), nic(3), detour(4)], 1.0, 0.0, vec![0.1, 0.2, 0.7]), &[0.3, 0.3, 0.4]);
        close(&of(&[nic(6), detour(2), detour(2)], 1.0, 0.5, vec![0.2, 0.6, 0.2]), &[0.8, 0.15, 0.05]);
        close(&of(&[nic(0), detour(4)], 1.0, 1.0, vec![0.0, 1.0]), &[1.0, 0.0]);
        // The first NIC is full.
        let full = Lane { rate: 10e9, ..nic(1) };
        close(&of(&[full, nic(1), detour(2)], 1.0, 0.5, vec![0.25, 0.25, 0.5]), &[0.25, 0.5, 0.25]);
        // Where nothing leads but detours, these stay.
        close(&of(&[Lane { capacity: 0.0, ..nic(0) }, detour(4)], 1.0, 1.0, vec![0.0, 1.0]), &[0.0, 1.0]);
    }

    #[test]
    fn as_many_return_as_fit() {
        let demand = Demand { direct: 4.0, away: 10.0, away_rate: 5e9, nic: 10e9 };
        // Those that are there have 1 Gbps each.
        close(&[demand.returning(4e9, 4e9), demand.returning(40e9, 4e9), demand.returning(0.0, 4e9)], &[0.4, 1.0, 0.0]);
        // On detours they have 0.5 Gbps each, and want no less.
        close(&[demand.returning(4e9, 0.0)], &[0.8]);
        // One NIC's rate for each where there are none; nobody to return.
        close(
            &[Demand { direct: 0.0, ..demand }.returning(20e9, 0.0), Demand { away: 0.0, ..demand }.returning(20e9, 1e9)],
            &[0.2, 0.0],
        );
    }
}
