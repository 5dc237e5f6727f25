//! SPAIN's agent in the form that NetLord's agent needs: places in place of numbered destinations.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use weft_fabric::routing::spain::VlanId as TableVlan;

use super::{Destination, Input, Output, SpainAgent, SpainConfig, SpainCounters, SpainError, VlanPath};
use crate::netlord::paths::{Chirp, ChooseVlan, FlowHash, Reached};
use crate::netlord::{EdgePort, Location, UplinkId};
use crate::time::Instant;
use crate::wire::packet::ethernet::VlanId;

/// Chooses by SPAIN's tables among the VLANs from each interface to each edge switch, and watches them by chirps.
#[derive(Debug)]
pub struct SpainPaths {
    agent: SpainAgent,
    /// In the order of their numbers as destinations.
    reached: Vec<Reached>,
    numbers: BTreeMap<Reached, Destination>,
    /// The VLANs of each, as they were set.
    tables: BTreeMap<Reached, Vec<VlanId>>,
    chirps: VecDeque<Chirp>,
    /// Whose usable VLANs have changed since they were polled.
    changed: BTreeSet<Reached>,
}

impl SpainPaths {
    /// Nobody can be reached yet.
    ///
    /// # Errors
    /// [`SpainError`].
    pub fn new(config: SpainConfig) -> Result<Self, SpainError> {
        Ok(Self {
            agent: SpainAgent::new(config)?,
            reached: Vec::new(),
            numbers: BTreeMap::new(),
            tables: BTreeMap::new(),
            chirps: VecDeque::new(),
            changed: BTreeSet::new(),
        })
    }

    /// The VLANs that flows to an edge switch take: those that work; if none does, all of them.
    fn usable(&self, to: Reached) -> Vec<VlanId> {
        let all = self.tables.get(&to).map_or(&[][..], Vec::as_slice);
        let working: Vec<VlanId> = all.iter().copied().filter(|&vlan| !self.is_failed(to, vlan)).collect();
        if working.is_empty() { all.to_vec() } else { working }
    }

    /// Takes what the machine wants done.
    fn drain(&mut self) {
        while let Some(output) = self.agent.poll() {
            let chirp = match output {
                Output::Chirp(path, peer) => self.chirp(path, peer, false),
                Output::Answer(path, peer) => self.chirp(path, peer, true),
                Output::Failed((to, _)) | Output::Restored((to, _)) => {
                    self.changed.extend(self.reached.get(to.0 as usize));
                    None
                }
            };
            self.chirps.extend(chirp);
        }
    }

    /// Whether flows avoid a VLAN to an edge switch.
    pub fn is_failed(&self, to: Reached, vlan: VlanId) -> bool {
        self.numbers.get(&to).is_some_and(|&to| self.agent.is_failed((to, TableVlan(vlan.get()))))
    }

    /// What was counted.
    pub fn counters(&self) -> SpainCounters {
        self.agent.counters()
    }

    fn path(&self, by: UplinkId, place: Location, vlan: VlanId) -> Option<VlanPath> {
        Some((*self.numbers.get(&(by, place.switch))?, TableVlan(vlan.get())))
    }

    fn chirp(&self, (to, vlan): VlanPath, peer: u32, is_answer: bool) -> Option<Chirp> {
        let (by, switch) = *self.reached.get(to.0 as usize)?;
        let port = EdgePort::new(u16::try_from(peer).ok()?)?;
        Some(Chirp { by, to: Location { switch, port }, vlan: VlanId::new(vlan.0)?, is_answer })
    }
}

impl ChooseVlan for SpainPaths {
    fn choose(&mut self, now: Instant, by: UplinkId, to: Location, flow: FlowHash) -> Option<VlanId> {
        let destination = *self.numbers.get(&(by, to.switch))?;
        let vlan = self.agent.choose(destination, flow.0)?;
        self.agent.handle(now, Input::Sent { path: (destination, vlan), peer: to.port.get().into() });
        VlanId::new(vlan.0)
    }

    fn heard(&mut self, now: Instant, by: UplinkId, from: Location, vlan: VlanId) {
        if let Some(path) = self.path(by, from, vlan) {
            self.agent.handle(now, Input::Heard { path, peer: from.port.get().into() });
        }
    }

    fn chirped(&mut self, now: Instant, by: UplinkId, from: Location, vlan: VlanId) {
        if let Some(path) = self.path(by, from, vlan) {
            self.agent.handle(now, Input::Chirped { path, peer: from.port.get().into() });
        }
    }

    fn set_table(&mut self, now: Instant, to: Reached, vlans: &[VlanId]) {
        let next = Destination(self.reached.len() as u32);
        let number = *self.numbers.entry(to).or_insert_with(|| {
            self.reached.push(to);
            next
        });
        self.tables.insert(to, vlans.to_vec());
        self.changed.insert(to);
        let vlans: Vec<TableVlan> = vlans.iter().map(|v| TableVlan(v.get())).collect();
        self.agent.handle(now, Input::Table { to: number, vlans: &vlans });
    }

    fn sent(&mut self, now: Instant, by: UplinkId, to: Location, vlan: VlanId) {
        if let Some(path) = self.path(by, to, vlan) {
            self.agent.handle(now, Input::Sent { path, peer: to.port.get().into() });
        }
    }

    fn poll_usable(&mut self) -> Option<(Reached, Vec<VlanId>)> {
        self.drain();
        let to = self.changed.pop_first()?;
        Some((to, self.usable(to)))
    }

    /// Its tables are as if they had just been set.
    fn lost(&mut self, now: Instant, uplink: UplinkId) {
        let tables: Vec<(Reached, Vec<VlanId>)> =
            self.tables.iter().filter(|((by, _), _)| *by == uplink).map(|(&to, vlans)| (to, vlans.clone())).collect();
        for (to, vlans) in tables {
            self.set_table(now, to, &[]);
            self.set_table(now, to, &vlans);
        }
    }

    fn poll(&mut self) -> Option<Chirp> {
        self.drain();
        self.chirps.pop_front()
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
    use crate::time::Duration;
    use weft_fabric::MacAddr;

    fn vlan(id: u16) -> VlanId {
        VlanId::new(id).expect("a VLAN")
    }

    const BY: UplinkId = UplinkId(0);

    fn place(number: u8) -> Location {
        Location { switch: MacAddr([2, 0, 0, 0, 0, number]), port: EdgePort::new(u16::from(number) + 7).expect("a port") }
    }

    fn changed(paths: &mut SpainPaths) -> BTreeSet<Reached> {
        std::iter::from_fn(|| paths.poll_usable()).map(|(to, _)| to).collect()
    }

    /// Two servers whose chirps cross all VLANs but those in `dead`, at once.
    fn exchange(now: Instant, ends: &mut [SpainPaths; 2], dead: &[VlanId]) {
        while let Some((from, chirp)) = (0..2).find_map(|i| Some((i, ends[i].poll()?))) {
            let other = 1 - from;
            assert_eq!((chirp.by, chirp.to), (BY, place(other as u8)), "to the agent that is there");
            if dead.contains(&chirp.vlan) {
                continue;
            }
            if chirp.is_answer {
                ends[other].heard(now, BY, place(from as u8), chirp.vlan);
            } else {
                ends[other].chirped(now, BY, place(from as u8), chirp.vlan);
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
            end.set_table(now, (BY, place(1 - i as u8).switch), &vlans);
        }
        let flow = FlowHash(0x1234_5678);
        let first = ends[0].choose(now, BY, place(1), flow).expect("a VLAN");
        assert_eq!(ends[1].choose(now, BY, place(0), flow), Some(first), "both directions alike");
        let died = now;
        while ends[0].choose(now, BY, place(1), flow) == Some(first) {
            now += Duration::from_ms(1);
            assert!(now - died <= config.period * 3, "failed over in under three chirps");
            ends.iter_mut().filter(|e| e.deadline().is_some_and(|d| d <= now)).for_each(|e| e.timer(now));
            exchange(now, &mut ends, &[first]);
        }
        assert!(ends[0].is_failed((BY, place(1).switch), first));
        let back = now;
        while ends[0].choose(now, BY, place(1), flow) != Some(first) {
            now += Duration::from_ms(1);
            assert!(now - back <= config.period * 2, "a chirp finds it alive");
            ends.iter_mut().filter(|e| e.deadline().is_some_and(|d| d <= now)).for_each(|e| e.timer(now));
            exchange(now, &mut ends, &[]);
        }
    }

    #[test]
    fn a_data_plane_gets_the_vlans_that_work() {
        let mut paths = SpainPaths::new(SpainConfig::default()).expect("settings");
        let (to, vlans) = (place(1), [vlan(3), vlan(5)]);
        let reached = (BY, to.switch);
        let mut now = Instant::ZERO;
        paths.set_table(now, reached, &vlans);
        assert_eq!(changed(&mut paths), BTreeSet::from([reached]));
        assert_eq!(paths.usable(reached), vlans);
        paths.sent(now, BY, to, vlan(3));
        while changed(&mut paths).is_empty() {
            now += Duration::from_ms(10);
            assert!(now < Instant::ZERO + Duration::from_secs(1), "it fails");
            paths.timer(now);
        }
        assert_eq!(paths.usable(reached), [vlan(5)]);
        paths.heard(now, BY, to, vlan(3));
        assert_eq!(changed(&mut paths), BTreeSet::from([reached]));
        assert_eq!(paths.usable(reached), vlans);
        assert!(paths.usable((BY, place(2).switch)).is_empty());
    }

    #[test]
    fn what_fails_from_one_interface_works_from_another() {
        let mut paths = SpainPaths::new(SpainConfig::default()).expect("settings");
        let (to, other) = (place(1), UplinkId(1));
        let (near, far) = ((BY, to.switch), (other, to.switch));
        let mut now = Instant::ZERO;
        paths.set_table(now, near, &[vlan(3), vlan(5)]);
        paths.set_table(now, far, &[vlan(3), vlan(9)]);
        changed(&mut paths);
        // Both are used; nothing comes to the first.
        while changed(&mut paths).is_empty() {
            now += Duration::from_ms(10);
            assert!(now < Instant::ZERO + Duration::from_secs(1), "it fails");
            paths.sent(now, BY, to, vlan(3));
            paths.sent(now, other, to, vlan(3));
            paths.heard(now, other, to, vlan(3));
            paths.timer(now);
        }
        assert_eq!((paths.usable(near), paths.usable(far)), (vec![vlan(5)], vec![vlan(3), vlan(9)]));
        let chirped = std::iter::from_fn(|| paths.poll()).map(|chirp| (chirp.by, chirp.vlan)).collect::<BTreeSet<_>>();
        assert_eq!(chirped, BTreeSet::from([(BY, vlan(3))]), "where it is silent");
        paths.chirped(now, other, to, vlan(9));
        assert_eq!(paths.poll(), Some(Chirp { by: other, to, vlan: vlan(9), is_answer: true }), "from where it was heard");
        // The first has another place: nothing is known of what leads from there.
        paths.lost(now, BY);
        assert_eq!(changed(&mut paths), BTreeSet::from([near]));
        assert_eq!(paths.usable(near), [vlan(3), vlan(5)]);
        assert!(paths.deadline().is_some(), "the other is still watched");
        paths.lost(now, other);
        assert_eq!(paths.deadline(), None);
    }

    #[test]
    fn who_is_not_in_the_tables_cannot_be_reached() {
        let mut paths = SpainPaths::new(SpainConfig::default()).expect("settings");
        assert_eq!(paths.choose(Instant::ZERO, BY, place(1), FlowHash(1)), None);
        paths.heard(Instant::ZERO, BY, place(1), vlan(3));
        paths.set_table(Instant::ZERO, (BY, place(1).switch), &[vlan(3)]);
        assert_eq!(paths.choose(Instant::ZERO, BY, place(1), FlowHash(1)), Some(vlan(3)));
        paths.set_table(Instant::ZERO, (BY, place(1).switch), &[]);
        assert_eq!(paths.choose(Instant::ZERO, BY, place(1), FlowHash(1)), None);
    }
}
