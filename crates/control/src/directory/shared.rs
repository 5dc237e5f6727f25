//! What the machine writes and every thread that answers lookups reads.

use rustc_hash::{FxHashMap, FxHashSet};

use super::key::{Generation, Key, PrincipalId, ServiceId};
use super::policy::Policy;
use super::table::Table;
use super::withdrawals::Withdrawals;
use crate::wire::directory::{Follow, Parts, PartsPage, State, Vitals, WithdrawnPage};

/// What the machine writes and every thread that answers lookups reads. A program with several threads keeps its
/// [`Server`](super::server::Server) behind a read-write lock, and reads this.
#[derive(Clone, Debug)]
pub struct Shared {
    /// All mappings.
    pub table: Table,
    /// Who may do what.
    pub policy: Policy,
    /// Principals whose keys and certificates are worth nothing, whatever the policy says.
    pub denied: FxHashSet<PrincipalId>,
    /// What agents got under a policy of an older version than this they must look up again.
    pub confirmed_since: u32,
    /// Everything up to this revision is known.
    pub revision: Generation,
    /// How the server is.
    pub state: State,
    /// What was withdrawn lately.
    pub withdrawals: Withdrawals,
    /// Which part this server has, of a divided directory.
    pub part: Option<usize>,
    /// Of askers whose keys other parts have: what those say of them.
    pub askers: FxHashMap<Key, Asker>,
}

/// What another part says of an asker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asker {
    /// It lives on this host, and has this service.
    Known(PrincipalId, ServiceId),
    /// It is nowhere.
    Unknown,
}

impl Shared {
    /// Before anything is loaded.
    pub fn new(policy: Policy, seed: u64) -> Self {
        let confirmed_since = policy.version();
        let (table, withdrawals) = (Table::new(seed), Withdrawals::default());
        Self {
            table,
            policy,
            denied: FxHashSet::default(),
            confirmed_since,
            revision: Generation(0),
            state: State::Loading,
            withdrawals,
            part: None,
            askers: FxHashMap::default(),
        }
    }

    /// The answer to a question after the parts, with a body of at most `room` bytes.
    pub fn parts_page(&self, ask: Parts, room: usize) -> PartsPage<'_> {
        PartsPage::of(self.policy.version(), self.policy.parts_bytes(), ask.at, room)
    }

    /// Whether this server takes updates of a key: its part has it, or is about to.
    pub fn takes(&self, key: &Key) -> bool {
        let (Some(parts), Some(part)) = (self.policy.parts(), self.part) else { return true };
        parts.part_of(key) == part || parts.is_incoming(part, key)
    }

    /// Whether this server's part has a key.
    #[inline]
    pub fn holds(&self, key: &Key) -> bool {
        let Some(part) = self.part else { return true };
        self.policy.parts().is_none_or(|parts| parts.part_of(key) == part)
    }

    /// The answer to a question for health.
    pub fn vitals(&self) -> Vitals {
        let (entries, hash) = (self.table.len() as u64, self.table.hash());
        Vitals { state: self.state, revision: self.revision, policy: self.policy.version(), entries, hash }
    }

    /// The answer to a Follow, with a body of at most `room` bytes. `None` if this server may not let leases restart: it does not hear of withdrawals (it is
    /// loading, or lost its store), or knows less than the asker.
    pub fn follow(&self, ask: &Follow, room: usize) -> Option<WithdrawnPage> {
        let policy = self.policy.version();
        let behind = ask.revision > self.revision || ask.policy > policy;
        if behind || matches!(self.state, State::Loading | State::StoreLost) {
            return None;
        }
        let all = WithdrawnPage { revision: self.revision, policy, ..WithdrawnPage::default() };
        let current = ask.policy >= self.confirmed_since;
        let room = room.saturating_sub(WithdrawnPage::EMPTY);
        Some(match self.withdrawals.page(ask.revision, &ask.interest, room).filter(|_| current) {
            None => WithdrawnPage { reconfirm: true, ..all },
            // What is cut off beyond the revision is known by hearsay: it comes again.
            Some((groups, Some(until))) if until < self.revision => WithdrawnPage { revision: until, more: true, groups, ..all },
            Some((groups, _)) => WithdrawnPage { groups, ..all },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::interest::{Interest, key_hash, key_name};
    use super::super::key::Key;
    use super::*;

    fn key(n: u64) -> Key {
        Key::App4((n as u32).into())
    }

    fn interest(keys: impl Iterator<Item = u64> + Clone) -> Interest {
        let mut interest = Interest::for_keys(keys.clone().count());
        keys.for_each(|n| interest.insert(key_hash(&key(n))));
        interest
    }

    /// Whatever the room, an agent learns page by page of all that it holds, of each generation as a whole, and of little else.
    #[test]
    fn pages_have_all_that_is_held() {
        let mut shared = Shared::new(Policy::open([]), 1);
        (shared.state, shared.revision) = (State::Serving, Generation(60_000));
        shared.withdrawals.restart(Generation(0), Vec::new());
        for n in 1..=60_000u64 {
            shared.withdrawals.push(Generation(n - n % 3), key(n));
        }
        let policy = shared.policy.version();
        let held = (3..=60_000u64).filter(|n| n % 300 < 5);
        let interest = interest(held.clone());
        for room in [120, 500, 1300] {
            let (mut revision, mut names, mut pages) = (Generation(0), Vec::new(), 0);
            loop {
                let ask = Follow { revision, policy, push: false, interest: interest.clone() };
                let page = shared.follow(&ask, room).unwrap();
                assert!(
                    !page.reconfirm
                        && WithdrawnPage::EMPTY + page.groups.iter().map(|it| 9 + 4 * it.1.len()).sum::<usize>() <= room
                );
                names.extend(page.groups.into_iter().flat_map(|(_, names)| names));
                (revision, pages) = (page.revision, pages + 1);
                if !page.more {
                    break;
                }
            }
            assert_eq!(revision, shared.revision);
            let of = |n| key_name(key_hash(&key(n)));
            names.sort_unstable();
            assert!(held.clone().all(|n| names.binary_search(&of(n)).is_ok()), "in {pages} pages of {room}");
            assert!(names.len() < 1000 + 2000, "{} names in {pages} pages", names.len());
        }
        let everything = Interest::from_bytes(&[255; 64]).unwrap();
        let ask = |revision, interest| Follow { revision: Generation(revision), policy, push: false, interest };
        for n in 0..400 {
            shared.withdrawals.push(Generation(59_999), key(n));
        }
        assert!(shared.follow(&ask(59_998, everything.clone()), 1300).unwrap().reconfirm, "one generation has no room");
        assert!(shared.follow(&ask(60_001, everything.clone()), 1300).is_none(), "the server is behind");
        shared.state = State::StoreLost;
        assert!(shared.follow(&ask(60_000, everything), 1300).is_none(), "the server does not hear of withdrawals");
    }
}
