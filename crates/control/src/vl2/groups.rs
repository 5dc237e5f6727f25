//! Which intermediate switches have which anycast address (VL2 section 4.2.2).
//!
//! ECMP spreads over so many next hops and no more. With more intermediates than that there are several anycast addresses, a group of
//! intermediates behind each. Every intermediate computes the same assignment from the list of all and from those that it sees alive, so
//! nobody has to be notified, agents least of all.
//!
//! ```text
//!   width 2, intermediates 0..5         0 and 3 fail                    only 0 fails
//!   group 1: 0 3                        group 1: 4 2  (borrowed)        group 1: 3
//!   group 2: 1 4                        group 2: 1 4                    group 2: 1 4
//!   group 3: 2                          group 3: 2                      group 3: 2
//! ```
//! - **Home.** Intermediate `i` belongs to group `i mod groups`, and serves it whenever it lives.
//! - **Borrowed.** A group none of whose own lives is served by others: by as many as ECMP is wide, those of the highest rank, which is a
//!   hash of group and intermediate. A group that has lost some of its own borrows nobody: a switch that came would have two groups to carry, and be
//!   more loaded than those whom he relieves.
//!
//! What holds, each a test below: a group has a member as long as any intermediate lives; it has no more than the width; all members live; a
//! failure changes only groups that the failed one served, and takes nobody else out of any; a repair undoes exactly what the failure did.

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
    /// Not all intermediates have a home.
    #[error(
        "{groups} groups of {width} have no room for {intermediates} intermediate switches: {needed} anycast addresses are needed"
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
    /// The groups of these intermediates, which all of them list in the same order. Without a number of groups there are as many as the width asks for.
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
        if groups < needed {
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
        let home = self.intermediates.iter().skip(index).step_by(self.groups);
        let own: Vec<IpAddr> = home.copied().filter(|&it| lives(it)).collect();
        if !own.is_empty() {
            return own;
        }
        let alive = (0..self.intermediates.len()).filter(|&at| lives(self.intermediates[at]));
        let mut ranked: Vec<(u64, usize)> = alive.map(|at| (rank(group, self.intermediates[at]), at)).collect();
        ranked.sort_unstable_by(|a, b| b.cmp(a));
        ranked.truncate(self.width);
        let mut chosen: Vec<usize> = ranked.into_iter().map(|(_, at)| at).collect();
        chosen.sort_unstable();
        chosen.into_iter().map(|at| self.intermediates[at]).collect()
    }

    /// The groups that one intermediate serves.
    pub fn served_by(&self, intermediate: IpAddr, lives: impl Fn(IpAddr) -> bool + Copy) -> Vec<GroupId> {
        self.ids().filter(|&group| self.members(group, lives).contains(&intermediate)).collect()
    }
}

/// How soon a group borrows an intermediate: one order for each group, the same everywhere and always.
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

    /// The rule word by word, one question a pair: no sorting, no selection.
    fn is_member(groups: &Groups, alive: &BTreeSet<IpAddr>, group: GroupId, it: IpAddr) -> bool {
        let all = &groups.intermediates;
        let is_home =
            |other: IpAddr| all.iter().position(|&a| a == other).is_some_and(|at| at % groups.groups + 1 == usize::from(group.0));
        if !alive.contains(&it) {
            return false;
        }
        if alive.iter().any(|&other| is_home(other)) {
            return is_home(it);
        }
        let key = |a: IpAddr| (rank(group, a), all.iter().position(|&b| b == a));
        alive.iter().filter(|&&other| key(other) > key(it)).count() < groups.width
    }

    fn any_case() -> impl Strategy<Value = (Groups, BTreeSet<IpAddr>)> {
        (1usize..20, 1usize..8).prop_flat_map(|(count, width)| {
            let alive = proptest::collection::btree_set((0..count).prop_map(address), 0..=count);
            (Just(groups(count, width)), alive)
        })
    }

    proptest! {
        #[test]
        fn it_is_the_rule((groups, alive) in any_case()) {
            let got = assignment(&groups, &alive);
            let pairs = groups.ids().flat_map(|g| groups.intermediates.iter().map(move |&it| (g, it)));
            let want: BTreeSet<_> = pairs.filter(|&(g, it)| is_member(&groups, &alive, g, it)).collect();
            prop_assert_eq!(&got, &want);
            for &it in &groups.intermediates {
                let served: Vec<_> = got.iter().filter(|(_, member)| *member == it).map(|(g, _)| *g).collect();
                prop_assert_eq!(groups.served_by(it, |a| alive.contains(&a)), served);
            }
        }

        #[test]
        fn groups_live_and_are_no_wider_than_ecmp((groups, alive) in any_case()) {
            for group in groups.ids() {
                let members = groups.members(group, |it| alive.contains(&it));
                prop_assert!(members.len() <= groups.width, "{members:?}");
                prop_assert_eq!(members.is_empty(), alive.is_empty());
                prop_assert!(members.iter().all(|it| alive.contains(it)));
            }
        }

        #[test]
        fn a_failure_moves_only_what_the_failed_one_served((groups, alive) in any_case(), pick in any::<prop::sample::Index>()) {
            if alive.len() < 2 {
                return Ok(());
            }
            let failed = *alive.iter().nth(pick.index(alive.len())).unwrap();
            let rest: BTreeSet<_> = alive.iter().copied().filter(|&it| it != failed).collect();
            let (before, after) = (assignment(&groups, &alive), assignment(&groups, &rest));
            for &(group, it) in before.difference(&after) {
                prop_assert_eq!(it, failed, "{:?} is taken from nobody else", group);
            }
            let served: BTreeSet<_> = before.iter().filter(|(_, it)| *it == failed).map(|(g, _)| *g).collect();
            let new: Vec<_> = after.difference(&before).collect();
            for &&(group, _) in &new {
                prop_assert!(served.contains(&group), "{group:?} was not touched");
            }
            for group in served {
                let left = before.iter().filter(|(g, it)| *g == group && *it != failed).count();
                let came = new.iter().filter(|(g, _)| *g == group).count();
                // One comes for one that was borrowed; to a group that has lost its last, as many as there is room for.
                let most = if left == 0 { groups.width } else { 1 };
                prop_assert!(came <= most, "{came} came to {group:?}, of which {left} were left");
            }
            prop_assert_eq!(assignment(&groups, &alive), before, "what comes back finds all as it was");
        }

        #[test]
        fn the_same_for_everybody((groups, alive) in any_case()) {
            // Any node that lists the same switches computes the same, also with groups given by number.
            let again = Groups::new(groups.intermediates.clone(), NonZeroUsize::new(groups.width).unwrap(), Some(groups.groups)).unwrap();
            prop_assert_eq!(assignment(&again, &alive), assignment(&groups, &alive));
        }
    }

    #[test]
    fn borrowed_members_are_spread() {
        // 32 groups of one each lose their own: the 32 that are left share the work.
        let groups = groups(64, 2);
        let alive: BTreeSet<IpAddr> = (0..64).filter(|i| i % 2 == 0).map(address).collect();
        let most = alive.iter().map(|&it| groups.served_by(it, |a| alive.contains(&a)).len()).max();
        assert!(most.unwrap() <= 6, "{most:?}");
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let of = |count: usize, width: usize, groups| {
            Groups::new((0..count).map(address).collect(), NonZeroUsize::new(width).unwrap(), groups).unwrap_err()
        };
        assert_eq!(of(0, 2, None), GroupsError::NoIntermediates);
        assert_eq!(of(5, 2, Some(2)), GroupsError::TooFew { groups: 2, width: 2, intermediates: 5, needed: 3 });
        assert_eq!(of(2, 2, Some(3)), GroupsError::TooMany { groups: 3, intermediates: 2 });
        let twice = Groups::new(vec![address(1), address(2), address(1)], NonZeroUsize::MIN, None).unwrap_err();
        assert_eq!(twice, GroupsError::Twice(address(1)));
        assert!(groups(3, 2).members(GroupId(0), |_| true).is_empty());
        assert!(groups(3, 2).members(GroupId(3), |_| true).is_empty());
    }
}
