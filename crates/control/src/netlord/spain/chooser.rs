//! SPAIN's agent as NetLord's agent wants it: places in place of numbered destinations.

use std::collections::BTreeMap;

use weft_fabric::routing::spain::VlanId as TableVlan;
use weft_fabric::{Instant, MacAddr};

use super::{Destination, Input, Output, SpainAgent, SpainConfig, SpainCounters, SpainError, Way};
use crate::netlord::paths::{Chirp, ChooseVlan, FlowHash};
use crate::netlord::{EdgePort, Location};
use crate::wire::netlord::VlanId;

/// Chooses by SPAIN's tables among the VLANs of each edge switch, and watches them by chirps.
#[derive(Debug)]
pub struct SpainPaths {
    agent: SpainAgent,
    /// Edge switches in the order of their numbers as destinations.
    switches: Vec<MacAddr>,
    numbers: BTreeMap<MacAddr, Destination>,
}

impl SpainPaths {
    /// Nobody can be reached yet.
    ///
    /// # Errors
    /// [`SpainError`].
    pub fn new(config: SpainConfig) -> Result<Self, SpainError> {
        Ok(Self { agent: SpainAgent::new(config)?, switches: Vec::new(), numbers: BTreeMap::new() })
    }

    /// The VLANs to an edge switch, from now on, that of the shortest path first; none: it is gone.
    pub fn set_table(&mut self, now: Instant, switch: MacAddr, vlans: &[VlanId]) {
        let next = Destination(self.switches.len() as u32);
        let to = *self.numbers.entry(switch).or_insert_with(|| {
            self.switches.push(switch);
            next
        });
        let vlans: Vec<TableVlan> = vlans.iter().map(|v| TableVlan(v.get())).collect();
        self.agent.handle(now, Input::Table { to, vlans: &vlans });
    }

    /// Whether flows avoid a VLAN to an edge switch.
    pub fn is_failed(&self, switch: MacAddr, vlan: VlanId) -> bool {
        self.numbers.get(&switch).is_some_and(|&to| self.agent.is_failed((to, TableVlan(vlan.get()))))
    }

    /// What was counted.
    pub fn counters(&self) -> SpainCounters {
        self.agent.counters()
    }

    fn way(&self, place: Location, vlan: VlanId) -> Option<Way> {
        Some((*self.numbers.get(&place.switch)?, TableVlan(vlan.get())))
    }

    fn chirp(&self, (to, vlan): Way, peer: u32, is_answer: bool) -> Option<Chirp> {
        let switch = *self.switches.get(to.0 as usize)?;
        let port = EdgePort::new(u16::try_from(peer).ok()?)?;
        Some(Chirp { to: Location { switch, port }, vlan: VlanId::new(vlan.0)?, is_answer })
    }
}

impl ChooseVlan for SpainPaths {
    fn choose(&mut self, now: Instant, to: Location, flow: FlowHash) -> Option<VlanId> {
        let destination = *self.numbers.get(&to.switch)?;
        let vlan = self.agent.choose(destination, flow.0)?;
        self.agent.handle(now, Input::Sent { way: (destination, vlan), peer: to.port.get().into() });
        VlanId::new(vlan.0)
    }

    fn heard(&mut self, now: Instant, from: Location, vlan: VlanId) {
        if let Some(way) = self.way(from, vlan) {
            self.agent.handle(now, Input::Heard { way, peer: from.port.get().into() });
        }
    }

    fn chirped(&mut self, now: Instant, from: Location, vlan: VlanId) {
        if let Some(way) = self.way(from, vlan) {
            self.agent.handle(now, Input::Chirped { way, peer: from.port.get().into() });
        }
    }

    fn poll(&mut self) -> Option<Chirp> {
        loop {
            let chirp = match self.agent.poll()? {
                Output::Chirp(way, peer) => self.chirp(way, peer, false),
                Output::Answer(way, peer) => self.chirp(way, peer, true),
                Output::Failed(_) | Output::Restored(_) => None,
            };
            if chirp.is_some() {
                return chirp;
            }
        }
    }

    fn deadline(&self) -> Option<Instant> {
        self.agent.deadline()
    }

    fn timer(&mut self, now: Instant) {
        self.agent.handle(now, Input::Timer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_fabric::Duration;

    fn vlan(id: u16) -> VlanId {
        VlanId::new(id).expect("a VLAN")
    }

    fn place(number: u8) -> Location {
        Location { switch: MacAddr([2, 0, 0, 0, 0, number]), port: EdgePort::new(u16::from(number) + 7).expect("a port") }
    }

    /// Two servers whose chirps cross all VLANs but those in `dead`, at once.
    fn exchange(now: Instant, ends: &mut [SpainPaths; 2], dead: &[VlanId]) {
        while let Some((from, chirp)) = (0..2).find_map(|i| Some((i, ends[i].poll()?))) {
            let other = 1 - from;
            assert_eq!(chirp.to, place(other as u8), "to the agent that is there");
            if dead.contains(&chirp.vlan) {
                continue;
            }
            if chirp.is_answer {
                ends[other].heard(now, place(from as u8), chirp.vlan);
            } else {
                ends[other].chirped(now, place(from as u8), chirp.vlan);
            }
        }
    }

    #[test]
    fn a_flow_leaves_a_dead_vlan_in_under_three_chirps_and_returns() {
        let config = SpainConfig::default();
        let vlans = [vlan(3), vlan(5), vlan(9)];
        let mut ends = [(); 2].map(|()| SpainPaths::new(config).expect("settings"));
        let mut now = Instant::ZERO;
        for (i, end) in ends.iter_mut().enumerate() {
            end.set_table(now, place(1 - i as u8).switch, &vlans);
        }
        let flow = FlowHash(0x1234_5678);
        let first = ends[0].choose(now, place(1), flow).expect("a VLAN");
        assert_eq!(ends[1].choose(now, place(0), flow), Some(first), "both directions alike");
        let died = now;
        while ends[0].choose(now, place(1), flow) == Some(first) {
            now += Duration::from_ms(1);
            assert!(now - died <= config.period * 3, "failed over in under three chirps");
            ends.iter_mut().filter(|e| e.deadline().is_some_and(|d| d <= now)).for_each(|e| e.timer(now));
            exchange(now, &mut ends, &[first]);
        }
        assert!(ends[0].is_failed(place(1).switch, first));
        let back = now;
        while ends[0].choose(now, place(1), flow) != Some(first) {
            now += Duration::from_ms(1);
            assert!(now - back <= config.period * 2, "a chirp finds it alive");
            ends.iter_mut().filter(|e| e.deadline().is_some_and(|d| d <= now)).for_each(|e| e.timer(now));
            exchange(now, &mut ends, &[]);
        }
    }

    #[test]
    fn who_is_not_in_the_tables_cannot_be_reached() {
        let mut paths = SpainPaths::new(SpainConfig::default()).expect("settings");
        assert_eq!(paths.choose(Instant::ZERO, place(1), FlowHash(1)), None);
        paths.heard(Instant::ZERO, place(1), vlan(3));
        paths.set_table(Instant::ZERO, place(1).switch, &[vlan(3)]);
        assert_eq!(paths.choose(Instant::ZERO, place(1), FlowHash(1)), Some(vlan(3)));
        paths.set_table(Instant::ZERO, place(1).switch, &[]);
        assert_eq!(paths.choose(Instant::ZERO, place(1), FlowHash(1)), None);
    }
}
