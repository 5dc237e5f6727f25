//! Which anycast addresses an intermediate switch has now (VL2 section 4.2.2). No I/O.
//!
//! ```text
//!   routes to the others' locators --> who lives --> Groups --> Add at once, Remove a little later
//! ```
//! A group's own member has its address from the start. Addresses of other groups come as soon as those have lost members whose places are this switch's to take.
//! An address that it is not to have any more goes only some time later: when it moves to another group, or when a member of that group has come back, the others
//! have learnt by then that one of them announces it. A switch that has just begun sees nobody yet, and takes no other group's address for a while.

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
    /// For so long after the start it has no address but its home group's.
    pub settle: Duration,
    /// An address that is not its own any more is kept for so long.
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
    /// When it looked last.
    looked: Instant,
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
        Self {
            config,
            groups,
            addresses,
            alive: BTreeSet::new(),
            began: None,
            looked: Instant::ZERO,
            held: BTreeMap::new(),
            out: VecDeque::new(),
        }
    }

    /// These intermediates can be reached now. Also to be called when the deadline has come.
    pub fn handle(&mut self, now: Instant, alive: impl IntoIterator<Item = IpAddr>) {
        self.alive = alive.into_iter().chain([self.config.me]).collect();
        let began = *self.began.get_or_insert(now);
        self.looked = now;
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
        let settling =
            settled.filter(|at| *at > self.looked && self.groups.intermediates().iter().any(|it| !self.alive.contains(it)));
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
    fn a_lost_group_is_joined_at_once_and_left_later() {
        // Groups {0, 2} and {1}: without 1 the last of the larger group moves.
        let mut it = switch(2, 3, 2);
        it.handle(at(0), []);
        assert_eq!(outputs(&mut it), [Output::Add(anycast(0))], "its own, and no other while it begins");
        assert_eq!(it.deadline(), Some(at(5000)));
        it.handle(at(1000), [0, 1].map(locator));
        it.handle(at(6000), [0, 1].map(locator));
        assert_eq!((outputs(&mut it), it.deadline()), (vec![], None));
        it.handle(at(7000), [locator(0)]);
        assert_eq!((outputs(&mut it), it.deadline()), (vec![Output::Add(anycast(1))], Some(at(9000))));
        it.handle(at(8000), [0, 1].map(locator));
        assert_eq!((outputs(&mut it), it.deadline()), (vec![], Some(at(10_000))), "it stays at home");
        it.handle(at(9000), [locator(0)]);
        assert_eq!((outputs(&mut it), it.deadline()), (vec![], Some(at(11_000))), "it is needed again");
        it.handle(at(11_000), [locator(0)]);
        assert_eq!(outputs(&mut it), [Output::Remove(anycast(0))]);
        it.handle(at(12_000), [0, 1].map(locator));
        assert_eq!(outputs(&mut it), [Output::Add(anycast(0))]);
        it.handle(at(14_000), [0, 1].map(locator));
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

    /// Intermediate switches in simulated time, in ticks of 100 ms: each sees what the others were some ticks ago, and one that is cut off sees only itself.
    struct Fabric {
        switches: Vec<AnycastFailover>,
        delays: Vec<usize>,
        /// Those that live, by tick.
        history: Vec<BTreeSet<usize>>,
        has: Vec<BTreeSet<IpAddr>>,
    }

    impl Fabric {
        fn tick(&mut self, alive: &BTreeSet<usize>) {
            let now = self.history.len();
            self.history.push(alive.clone());
            for (i, it) in self.switches.iter_mut().enumerate() {
                let seen = &self.history[now.saturating_sub(self.delays[i])];
                let seen = if alive.contains(&i) && seen.contains(&i) { seen.clone() } else { BTreeSet::new() };
                it.handle(at(now as u64 * TICK_MS), seen.into_iter().map(locator));
                for output in outputs(it) {
                    match output {
                        Output::Add(ip) => assert!(self.has[i].insert(ip), "twice"),
                        Output::Remove(ip) => assert!(self.has[i].remove(&ip), "it was not there"),
                    }
                }
            }
        }

        /// Live switches that have a group's address.
        fn holders(&self, group: usize) -> BTreeSet<usize> {
            let alive = self.history.last().expect("a tick");
            alive.iter().copied().filter(|&i| self.has[i].contains(&anycast(group))).collect()
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        /// Whatever fails and comes back, in whichever order switches see it: a group is without a live switch only until a failure of the last ones is seen; and in
        /// the end each group has its members and nobody else.
        #[test]
        fn moves_leave_no_group_alone(
            failures in proptest::collection::vec((0usize..8, 1usize..60), 0..20),
            delays in proptest::collection::vec(0..=DELAY_MAX, 8),
            width in 1usize..5,
        ) {
            let switches: Vec<AnycastFailover> = (0..8).map(|i| switch(i, 8, width)).collect();
            let groups = switches[0].groups.clone();
            let mut fabric = Fabric { switches, delays, history: Vec::new(), has: vec![BTreeSet::new(); 8] };
            let mut alive: BTreeSet<usize> = (0..8).collect();
            let mut last_failure = None;
            let settle = (6000 / TICK_MS as usize, None);
            let last = (DELAY_MAX + 2000 / TICK_MS as usize + 2, None);
            let steps = failures.iter().map(|&(which, ticks)| (ticks, Some(which)));
            for (ticks, which) in std::iter::once(settle).chain(steps).chain([last]) {
                for _ in 0..ticks {
                    fabric.tick(&alive);
                    let now = fabric.history.len();
                    for group in 0..groups.ids().count() {
                        let is_recent = last_failure.is_some_and(|failed| now - failed <= DELAY_MAX + 1);
                        prop_assert!(is_recent || alive.is_empty() || !fabric.holders(group).is_empty(), "nobody serves group {group} at tick {now}");
                    }
                }
                if let Some(which) = which.filter(|which| !alive.insert(*which)) {
                    alive.remove(&which);
                    last_failure = Some(fabric.history.len());
                }
            }
            for (group, id) in groups.ids().enumerate() {
                let members = groups.members(id, |it| alive.iter().any(|&i| locator(i) == it));
                let holders: Vec<IpAddr> = fabric.holders(group).into_iter().map(locator).collect();
                prop_assert_eq!(holders, members, "group {}", group);
            }
        }
    }

    const TICK_MS: u64 = 100;
    /// Ticks until a change is seen, at most: less than addresses are kept.
    const DELAY_MAX: usize = 10;
}
