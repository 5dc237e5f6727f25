//! Which intermediate switches have which anycast address (VL2 section 4.2.2).
//!
//! ECMP spreads over so many next hops and no more. With more intermediates than that there are several anycast addresses, a group of
//! intermediates behind each. Every intermediate computes the same assignment from the list of all and from those that it sees alive, so
//! nobody has to be notified, agents least of all.
//!
//! ```text
//!   width 3, intermediates 0 to 5       1 fails                  1 and 3 fail                 1 fails, and 6 is a spare
//!   group 1: 0 2 4                      group 1: 0 2 4           group 1: 0 2                 group 1: 0 2 4
//!   group 2: 1 3 5                      group 2: 3 5             group 2: 4 5  (4 moved)      group 2: 3 5 6
//! ```
//! Traffic is the same to each group, so the least loaded switches are had with groups of equal size:
//!
//! 1. **Home.** Intermediate `i` belongs to group `i mod groups`. Those for which the groups have no room, the last of the list, are spares.
//! 2. **Spares.** A live spare takes the place of a dead member, in the smallest group that has lost one.
//! 3. **Moved.** While a group has two members fewer than another, one of the larger group's own leaves it and serves the smaller one: the last of the
//!    list that is alive. With one fewer the move would only exchange the two.
//! 4. **Shared.** With fewer live intermediates than groups, a group without a member is served by others besides their own: by as many as ECMP is wide, those of
//!    the highest rank, which is a hash of group and intermediate.
//!
//! What holds, each a test below: a group has a member as long as any intermediate lives; it has no more than the width; all members live; nobody serves two groups
//! while there are as many live intermediates as groups, and then no group has two members fewer than another. The assignment depends on nothing but the list and who lives: a repair
//! undoes exactly what the failure did.

use std::net::IpAddr;
use std::num::NonZeroUsize;

use weft_fabric::rng;

use crate::directory::GroupId;

/// The intermediates and groups of a fabric, dead or alive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Groups {
    intermediates: Vec<IpAddr>,
    groups: usize,
    width: usize,
}

/// A configuration that no assignment fits.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GroupsError {
    /// Nobody to serve the groups.
    #[error("there are no intermediate switches: list their locators")]
    NoIntermediates,
    /// The same locator again.
    #[error("the intermediate switch {0} is listed twice: remove one")]
    Twice(IpAddr),
    /// More spares than a group has members.
    #[error(
        "{groups} groups of {width} have no room for {intermediates} intermediate switches, nor may more than {width} of them be spares: {needed} anycast \
         addresses are needed"
    )]
    TooFew {
        /// Groups that there are.
        groups: usize,
        /// Members that a group may have.
        width: usize,
        /// Switches.
        intermediates: usize,
        /// Groups that would do.
        needed: usize,
    },
    /// A group would have no home members even when all live.
    #[error("{groups} groups are more than {intermediates} intermediate switches: remove some anycast addresses")]
    TooMany {
        /// Groups that there are.
        groups: usize,
        /// Switches.
        intermediates: usize,
    },
    /// Group numbers have 16 bits.
    #[error("{0} groups are more than 65535 numbers")]
    Numbers(usize),
}

impl Groups {
    /// The groups of these intermediates, which all of them list in the same order. Without a number of groups there are as many as the width asks for; with fewer
    /// the last of the list are spares.
    ///
    /// # Errors
    /// [`GroupsError`].
    pub fn new(intermediates: Vec<IpAddr>, width: NonZeroUsize, groups: Option<usize>) -> Result<Self, GroupsError> {
        let (count, width) = (intermediates.len(), width.get());
        if count == 0 {
            return Err(GroupsError::NoIntermediates);
        }
        let mut sorted = intermediates.clone();
        sorted.sort_unstable();
        if let Some(pair) = sorted.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(GroupsError::Twice(pair[0]));
        }
        let needed = count.div_ceil(width);
        let groups = groups.unwrap_or(needed);
        if groups == 0 || count > groups * width + width {
            return Err(GroupsError::TooFew { groups, width, intermediates: count, needed });
        }
        if groups > count {
            return Err(GroupsError::TooMany { groups, intermediates: count });
        }
        if groups > usize::from(u16::MAX) {
            return Err(GroupsError::Numbers(groups));
        }
        Ok(Self { intermediates, groups, width })
    }

    /// All groups, from 1.
    pub fn ids(&self) -> impl Iterator<Item = GroupId> + use<> {
        (1..=self.groups as u16).map(GroupId)
    }

    /// The intermediates, in the order given.
    pub fn intermediates(&self) -> &[IpAddr] {
        &self.intermediates
    }

    /// The members of a group when the intermediates live for which `lives` says so, in the order of the list.
    pub fn members(&self, group: GroupId, lives: impl Fn(IpAddr) -> bool) -> Vec<IpAddr> {
        let Some(index) = usize::from(group.0).checked_sub(1).filter(|&index| index < self.groups) else { return Vec::new() };
        let alive: Vec<usize> = (0..self.intermediates.len()).filter(|&at| lives(self.intermediates[at])).collect();
        self.assigned(&alive).swap_remove(index).into_iter().map(|at| self.intermediates[at]).collect()
    }

    /// The groups that one intermediate serves.
    pub fn served_by(&self, intermediate: IpAddr, lives: impl Fn(IpAddr) -> bool) -> Vec<GroupId> {
        let alive: Vec<usize> = (0..self.intermediates.len()).filter(|&at| lives(self.intermediates[at])).collect();
        let assigned = self.assigned(&alive);
        let serves = |members: &[usize]| members.iter().any(|&at| self.intermediates[at] == intermediate);
        self.ids().zip(&assigned).filter(|(_, members)| serves(members)).map(|(group, _)| group).collect()
    }

    /// The members of every group, as indices into the list and in its order, when these live.
    fn assigned(&self, alive: &[usize]) -> Vec<Vec<usize>> {
        let (home, mut spares): (Vec<usize>, Vec<usize>) = alive.iter().partition(|&&at| at < self.groups * self.width);
        let mut members = vec![Vec::new(); self.groups];
        for at in home {
            members[at % self.groups].push(at);
        }
        let mut open = vec![0; self.groups];
        spares.truncate((0..self.groups).map(|group| self.home_size(group) - members[group].len()).sum());
        for _ in &spares {
            let has_room = |group: &usize| members[*group].len() + open[*group] < self.home_size(*group);
            let group = (0..self.groups).filter(has_room).min_by_key(|&group| members[group].len() + open[group]);
            open[group.expect("there are no more spares than lost members")] += 1;
        }
        let mut moving = spares;
        loop {
            let size = |group: &usize| members[*group].len() + open[*group];
            let smallest = (0..self.groups).min_by_key(size).expect("there are groups");
            let largest = (0..self.groups).rev().max_by_key(size).expect("there are groups");
            if size(&largest) < size(&smallest) + 2 {
                break;
            }
            open[smallest] += 1;
            // Spares and those that have moved fill the smallest groups, and never make one the largest by two.
            moving.push(members[largest].pop().expect("the largest group has its own"));
        }
        self.place(moving, &open, &mut members);
        self.share(alive, &mut members);
        members.iter_mut().for_each(|group| group.sort_unstable());
        members
    }

    /// Members of a group while all live.
    fn home_size(&self, group: usize) -> usize {
        let housed = self.intermediates.len().min(self.groups * self.width);
        housed / self.groups + usize::from(group < housed % self.groups)
    }

    /// Gives each open place to one of those that move, that of the highest rank in its group: so a further failure changes few places.
    fn place(&self, mut moving: Vec<usize>, open: &[usize], members: &mut [Vec<usize>]) {
        for (group, id) in self.ids().enumerate() {
            for _ in 0..open[group] {
                let best = (0..moving.len()).max_by_key(|&i| (rank(id, self.intermediates[moving[i]]), moving[i]));
                members[group].extend(best.map(|i| moving.swap_remove(i)));
            }
        }
    }

    /// Has groups without a member served by others besides their own groups.
    fn share(&self, alive: &[usize], members: &mut [Vec<usize>]) {
        for (id, members) in self.ids().zip(members).filter(|(_, members)| members.is_empty()) {
            let mut ranked: Vec<(u64, usize)> = alive.iter().map(|&at| (rank(id, self.intermediates[at]), at)).collect();
            ranked.sort_unstable_by(|a, b| b.cmp(a));
            members.extend(ranked.into_iter().take(self.width).map(|(_, at)| at));
        }
    }
}

/// How soon a group takes an intermediate: one order for each group, the same everywhere and always.
fn rank(group: GroupId, intermediate: IpAddr) -> u64 {
    let address = match intermediate {
        IpAddr::V4(ip) => u128::from(u32::from(ip)),
        IpAddr::V6(ip) => u128::from(ip),
    };
    let folded = rng::mix((address >> 64) as u64) ^ address as u64;
    rng::mix(folded ^ rng::mix(u64::from(group.0)))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::net::Ipv4Addr;

    use proptest::prelude::*;

    use super::*;

    fn address(i: usize) -> IpAddr {
        IpAddr::V4(Ipv4Addr::from(0x0A00_0001 + i as u32))
    }

    fn groups(count: usize, width: usize) -> Groups {
        Groups::new((0..count).map(address).collect(), NonZeroUsize::new(width).unwrap(), None).unwrap()
    }

    /// All members of all groups.
    fn assignment(groups: &Groups, alive: &BTreeSet<IpAddr>) -> BTreeSet<(GroupId, IpAddr)> {
        let members = |group| groups.members(group, |it| alive.contains(&it));
        groups.ids().flat_map(|group| members(group).into_iter().map(move |it| (group, it))).collect()
    }

    /// Groups, with spares in some cases, and those that live.
    fn any_case() -> impl Strategy<Value = (Groups, BTreeSet<IpAddr>)> {
        (1usize..20, 1usize..8, 0usize..8).prop_flat_map(|(count, width, spares)| {
            let housed = count - spares.min(count - 1);
            let groups =
                Groups::new((0..count).map(address).collect(), NonZeroUsize::new(width).unwrap(), Some(housed.div_ceil(width)));
            // Rounded up, the groups may have room for some of the spares; rounded down, too many may be left.
            let groups = groups.unwrap_or_else(|_| self::groups(count, width));
            let alive = proptest::collection::btree_set((0..count).prop_map(address), 0..=count);
            (Just(groups), alive)
        })
    }

    /// By group: its live members of its own, and all others that it has.
    fn own_and_others(groups: &Groups, alive: &BTreeSet<IpAddr>) -> Vec<(BTreeSet<IpAddr>, BTreeSet<IpAddr>)> {
        let home = |group: usize| {
            (0..groups.intermediates.len()).filter(move |at| *at < groups.groups * groups.width && at % groups.groups == group)
        };
        let of = |(group, id): (usize, GroupId)| {
            let own: BTreeSet<IpAddr> = home(group).map(|at| groups.intermediates[at]).filter(|it| alive.contains(it)).collect();
            let others = groups.members(id, |it| alive.contains(&it)).into_iter().filter(|it| !own.contains(it)).collect();
            (own, others)
        };
        groups.ids().enumerate().map(of).collect()
    }

    proptest! {
        #[test]
        fn groups_live_and_are_no_wider_than_ecmp((groups, alive) in any_case()) {
            for group in groups.ids() {
                let members = groups.members(group, |it| alive.contains(&it));
                prop_assert!(members.len() <= groups.width, "{members:?}");
                prop_assert_eq!(members.is_empty(), alive.is_empty());
                prop_assert!(members.iter().all(|it| alive.contains(it)));
                prop_assert!(members.iter().all(|&it| groups.served_by(it, |a| alive.contains(&a)).contains(&group)));
            }
        }

        #[test]
        fn groups_are_level_and_nobody_serves_two((groups, alive) in any_case()) {
            let sizes: Vec<usize> = groups.ids().map(|group| groups.members(group, |it| alive.contains(&it)).len()).collect();
            let (least, most) = (*sizes.iter().min().unwrap(), *sizes.iter().max().unwrap());
            if alive.len() < groups.groups {
                return Ok(());
            }
            prop_assert!(most - least <= 1, "{sizes:?}");
            for &it in &groups.intermediates {
                let served = groups.served_by(it, |a| alive.contains(&a)).len();
                prop_assert!(served <= 1, "{it} serves {served} groups");
            }
        }

        #[test]
        fn nobody_moves_without_need((groups, alive) in any_case()) {
            let now = own_and_others(&groups, &alive);
            let full = own_and_others(&groups, &groups.intermediates.iter().copied().collect());
            prop_assert!(full.iter().all(|(_, others)| others.is_empty()), "all are at home while all live");
            let spares: BTreeSet<IpAddr> = groups.intermediates.iter().copied().skip(groups.groups * groups.width).collect();
            let idle = spares.iter().filter(|it| alive.contains(it) && now.iter().all(|(_, others)| !others.contains(it))).count();
            let lost = now.iter().zip(&full).any(|((own, others), (home, _))| own.len() + others.len() < home.len());
            prop_assert!(idle == 0 || !lost, "a spare is idle, and a group has lost a member");
            // Own members and spares: without a difference of two nobody else comes.
            let sizes: Vec<usize> = now.iter().map(|(own, others)| own.len() + others.intersection(&spares).count()).collect();
            let level = sizes.iter().max().unwrap() - sizes.iter().min().unwrap() <= 1;
            let moved = now.iter().any(|(_, others)| others.iter().any(|it| !spares.contains(it)));
            if level && alive.len() >= groups.groups {
                prop_assert!(!moved, "{now:?}");
            }
        }

        #[test]
        fn who_is_dead_serves_no_group((groups, alive) in any_case(), pick in any::<prop::sample::Index>()) {
            if alive.is_empty() {
                return Ok(());
            }
            let failed = *alive.iter().nth(pick.index(alive.len())).unwrap();
            let rest: BTreeSet<_> = alive.iter().copied().filter(|&it| it != failed).collect();
            prop_assert!(assignment(&groups, &rest).iter().all(|(_, it)| *it != failed));
        }

        #[test]
        fn the_same_for_everybody((groups, alive) in any_case()) {
            // Any node that lists the same switches computes the same, also with groups given by number.
            let again = Groups::new(groups.intermediates.clone(), NonZeroUsize::new(groups.width).unwrap(), Some(groups.groups)).unwrap();
            prop_assert_eq!(assignment(&again, &alive), assignment(&groups, &alive));
        }
    }

    /// 4 groups of 16 lose one intermediate after the other, in many orders: few of the others change with each.
    #[test]
    fn a_failure_changes_few_places() {
        let (groups, mut changed, mut worst) = (groups(64, 16), 0, 0);
        for seed in 0..50 {
            let mut alive: BTreeSet<IpAddr> = (0..64).map(address).collect();
            let mut order: Vec<usize> = (0..64).collect();
            order.sort_by_key(|&i| rng::mix(rng::mix(seed) ^ i as u64));
            for &i in &order[..56] {
                let before = assignment(&groups, &alive);
                alive.remove(&address(i));
                let after = assignment(&groups, &alive);
                let new = after.difference(&before).count();
                (changed, worst) = (changed + new, worst.max(new));
            }
        }
        let mean = changed as f64 / (50.0 * 56.0);
        eprintln!("a failure has {mean:.3} others change their group, {worst} at most");
        assert!(mean < 0.8 && worst <= 3, "{mean} on average, {worst} at most");
    }

    #[test]
    fn a_partly_dead_group_takes_a_spare_or_a_member_of_another() {
        let list = |ids: &[usize]| ids.iter().copied().map(address).collect::<Vec<_>>();
        let members = |groups: &Groups, dead: &[usize]| {
            let dead = list(dead);
            groups.ids().map(|id| groups.members(id, |it| !dead.contains(&it))).collect::<Vec<_>>()
        };
        let six = groups(6, 3);
        assert_eq!(members(&six, &[]), [list(&[0, 2, 4]), list(&[1, 3, 5])]);
        assert_eq!(members(&six, &[1]), [list(&[0, 2, 4]), list(&[3, 5])], "a move would only exchange the two");
        assert_eq!(members(&six, &[1, 3]), [list(&[0, 2]), list(&[4, 5])]);
        assert_eq!(members(&six, &[1, 3, 5]), [list(&[0, 2]), list(&[4])]);
        let seven = Groups::new((0..7).map(address).collect(), NonZeroUsize::new(3).unwrap(), Some(2)).unwrap();
        assert_eq!(members(&seven, &[]), [list(&[0, 2, 4]), list(&[1, 3, 5])], "the last is a spare");
        assert_eq!(members(&seven, &[1]), [list(&[0, 2, 4]), list(&[3, 5, 6])]);
        assert_eq!(members(&seven, &[1, 6]), members(&six, &[1]));
    }

    #[test]
    fn shared_members_are_spread() {
        // Of 32 groups of two only 16 switches are left, one of each second group: they share the work.
        let groups = groups(64, 2);
        let alive: BTreeSet<IpAddr> = (0..64).filter(|i| i % 4 == 0).map(address).collect();
        let most = alive.iter().map(|&it| groups.served_by(it, |a| alive.contains(&a)).len()).max();
        assert!(most.unwrap() <= 6, "{most:?}");
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let of = |count: usize, width: usize, groups| {
            Groups::new((0..count).map(address).collect(), NonZeroUsize::new(width).unwrap(), groups).unwrap_err()
        };
        assert_eq!(of(0, 2, None), GroupsError::NoIntermediates);
        assert_eq!(of(7, 2, Some(2)), GroupsError::TooFew { groups: 2, width: 2, intermediates: 7, needed: 4 });
        assert_eq!(of(1, 2, Some(0)), GroupsError::TooFew { groups: 0, width: 2, intermediates: 1, needed: 1 });
        assert_eq!(of(2, 2, Some(3)), GroupsError::TooMany { groups: 3, intermediates: 2 });
        let twice = Groups::new(vec![address(1), address(2), address(1)], NonZeroUsize::MIN, None).unwrap_err();
        assert_eq!(twice, GroupsError::Twice(address(1)));
        assert!(groups(3, 2).members(GroupId(0), |_| true).is_empty());
        assert!(groups(3, 2).members(GroupId(3), |_| true).is_empty());
    }
}
