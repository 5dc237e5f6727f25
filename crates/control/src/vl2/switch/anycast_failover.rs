//! Which anycast addresses an intermediate switch has now (VL2 section 4.2.2). No I/O.
//!
//! ```text
//!   routes to the others' locators --> who lives --> Groups --> Add at once, Remove a little later
//! ```
//! A group's own member has its address from the start. Borrowed addresses come as soon as the group has lost its last member, and go only some time after one
//! of its own has come back: until it announces the address, somebody must. A switch that has just begun sees nobody yet, and borrows nothing for a while.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::IpAddr;

use crate::directory::GroupId;
use crate::time::{Duration, Instant};
use crate::vl2::groups::Groups;

/// What the switch is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// Have this address.
    Add(IpAddr),
    /// Have it no more.
    Remove(IpAddr),
}

/// The settings of [`AnycastFailover`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AnycastFailoverConfig {
    /// The switch's own locator.
    pub me: IpAddr,
    /// For so long after the start nothing is borrowed.
    pub settle: Duration,
    /// An address that another one has again is kept for so long.
    pub keep: Duration,
}

impl AnycastFailoverConfig {
    /// The usual settings.
    pub const fn new(me: IpAddr) -> Self {
        Self { me, settle: Duration::from_secs(5), keep: Duration::from_secs(2) }
    }
}

/// The machine of an intermediate switch.
#[derive(Debug)]
pub struct AnycastFailover {
    config: AnycastFailoverConfig,
    groups: Groups,
    addresses: BTreeMap<GroupId, IpAddr>,
    alive: BTreeSet<IpAddr>,
    began: Option<Instant>,
    /// Those that it has; with the time at which they go, if they do.
    held: BTreeMap<GroupId, Option<Instant>>,
    out: VecDeque<Output>,
}

impl AnycastFailover {
    /// A switch that has no address and sees nobody. `addresses` are those of the groups in their order.
    ///
    /// # Panics
    /// If there are not as many addresses as groups.
    pub fn new(config: AnycastFailoverConfig, groups: Groups, addresses: &[IpAddr]) -> Self {
        assert_eq!(groups.ids().count(), addresses.len(), "an address a group");
        let addresses = groups.ids().zip(addresses.iter().copied()).collect();
        Self { config, groups, addresses, alive: BTreeSet::new(), began: None, held: BTreeMap::new(), out: VecDeque::new() }
    }

    /// These intermediates can be reached now. Also to be called when the deadline has come.
    pub fn handle(&mut self, now: Instant, alive: impl IntoIterator<Item = IpAddr>) {
        self.alive = alive.into_iter().chain([self.config.me]).collect();
        let began = *self.began.get_or_insert(now);
        let everybody = now.saturating_since(began) < self.config.settle;
        let alive = &self.alive;
        let due: BTreeSet<GroupId> =
            self.groups.served_by(self.config.me, |it| everybody || alive.contains(&it)).into_iter().collect();
        for &group in &due {
            if self.held.insert(group, None).is_none() {
                self.out.push_back(Output::Add(self.addresses[&group]));
            }
        }
        let keep_until = now + self.config.keep;
        for (_, goes) in self.held.iter_mut().filter(|(group, _)| !due.contains(group)) {
            goes.get_or_insert(keep_until);
        }
        let gone: Vec<GroupId> = self.held.iter().filter(|(_, goes)| goes.is_some_and(|at| at <= now)).map(|(&g, _)| g).collect();
        for group in gone {
            self.held.remove(&group);
            self.out.push_back(Output::Remove(self.addresses[&group]));
        }
    }

    /// What is to be done next.
    pub fn poll(&mut self) -> Option<Output> {
        self.out.pop_front()
    }

    /// When to look again though nothing has changed.
    pub fn deadline(&self) -> Option<Instant> {
        let settled = self.began.map(|at| at + self.config.settle);
        let settling = settled.filter(|_| self.groups.intermediates().iter().any(|it| !self.alive.contains(it)));
        self.held.values().copied().flatten().chain(settling).min()
    }

    /// The groups that it serves, and their addresses.
    pub fn held(&self) -> impl Iterator<Item = (GroupId, IpAddr)> {
        self.held.keys().map(|&group| (group, self.addresses[&group]))
    }

    /// The intermediates that it saw last, itself among them.
    pub const fn alive(&self) -> &BTreeSet<IpAddr> {
        &self.alive
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroUsize;

    use proptest::prelude::*;

    use super::*;

    fn locator(i: usize) -> IpAddr {
        IpAddr::from([10, 0, 0, i as u8 + 1])
    }

    fn anycast(i: usize) -> IpAddr {
        IpAddr::from([10, 9, 0, i as u8 + 1])
    }

    fn switch(me: usize, count: usize, width: usize) -> AnycastFailover {
        let groups = Groups::new((0..count).map(locator).collect(), NonZeroUsize::new(width).unwrap(), None).unwrap();
        let addresses: Vec<IpAddr> = (0..groups.ids().count()).map(anycast).collect();
        AnycastFailover::new(AnycastFailoverConfig::new(locator(me)), groups, &addresses)
    }

    fn at(ms: u64) -> Instant {
        Instant::ZERO + Duration::from_ms(ms)
    }

    fn outputs(failover: &mut AnycastFailover) -> Vec<Output> {
        std::iter::from_fn(|| failover.poll()).collect()
    }

    #[test]
    fn a_lost_group_is_borrowed_at_once_and_given_back_later() {
        // Groups {0, 2} and {1}.
        let mut it = switch(0, 3, 2);
        it.handle(at(0), []);
        assert_eq!(outputs(&mut it), [Output::Add(anycast(0))], "its own, and nothing borrowed while it begins");
        assert_eq!(it.deadline(), Some(at(5000)));
        it.handle(at(1000), [1, 2].map(locator));
        it.handle(at(6000), [1, 2].map(locator));
        assert_eq!((outputs(&mut it), it.deadline()), (vec![], None));
        it.handle(at(7000), [locator(2)]);
        assert_eq!(outputs(&mut it), [Output::Add(anycast(1))]);
        it.handle(at(8000), [1, 2].map(locator));
        assert_eq!((outputs(&mut it), it.deadline()), (vec![], Some(at(10_000))));
        it.handle(at(9000), [locator(2)]);
        it.handle(at(11_000), [locator(2)]);
        assert_eq!(outputs(&mut it), [], "it is needed again");
        it.handle(at(12_000), [1, 2].map(locator));
        it.handle(at(14_000), [1, 2].map(locator));
        assert_eq!(outputs(&mut it), [Output::Remove(anycast(1))]);
    }

    #[test]
    fn a_switch_alone_serves_all_once_it_has_settled() {
        let mut it = switch(2, 4, 1);
        it.handle(at(0), []);
        assert_eq!(outputs(&mut it), [Output::Add(anycast(2))]);
        it.handle(it.deadline().unwrap(), []);
        assert_eq!(outputs(&mut it), [0, 1, 3].map(|i| Output::Add(anycast(i))));
        assert_eq!(it.held().count(), 4);
    }

    proptest! {
        /// Switches that see the same serve every group, whatever comes and goes, and in the end as assigned.
        #[test]
        fn every_group_is_served(views in proptest::collection::vec(proptest::collection::btree_set(0usize..6, 1..6), 1..20), width in 1usize..4) {
            let mut all: Vec<AnycastFailover> = (0..6).map(|i| switch(i, 6, width)).collect();
            let mut has = vec![BTreeSet::new(); 6];
            let mut now = 0;
            let mut step = |now: u64, alive: &BTreeSet<usize>| {
                for (i, it) in all.iter_mut().enumerate() {
                    it.handle(at(now), alive.iter().copied().map(locator));
                    for output in outputs(it) {
                        match output {
                            Output::Add(ip) => prop_assert!(has[i].insert(ip), "twice"),
                            Output::Remove(ip) => prop_assert!(has[i].remove(&ip), "it was not there"),
                        }
                    }
                }
                let groups = all[0].groups.clone();
                for (index, group) in groups.ids().enumerate() {
                    let members = groups.members(group, |it| alive.iter().any(|&i| locator(i) == it));
                    for member in members {
                        let i = (0..6).find(|&i| locator(i) == member).unwrap();
                        prop_assert!(has[i].contains(&anycast(index)), "{member} does not serve {group:?}");
                    }
                }
                Ok(())
            };
            step(0, &(0..6).collect())?;
            for alive in &views {
                now += 10_000;
                step(now, alive)?;
            }
        }
    }
}
